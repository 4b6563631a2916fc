"""``axonkernel escape-test`` on a machine with systemd: limits, its buses, its sockets."""

from __future__ import annotations

import pytest

from box.escapes.escaping import COMMAND, UNPROVEN, by_id, check
from lab.processes import REPOSITORY
from lab.systemd import SystemdLab

pytestmark = [
    pytest.mark.deep,
    pytest.mark.requires("lab", "scope", "box", "net"),
    pytest.mark.usefixtures("lab_leftovers"),
]

POLICY = """
default = "deny"
[limits]
memory = "96M"
pids = 64
disk = "16M"
"""
#: What the lab has and a bare machine may lack.
SERVICES = {"system-bus", "systemd"}
#: What the lab's own namespaces take away, beside that.
IN_NAMESPACES = {"join-control-group", "open-by-handle", "read-queue", "run-set-uid"}


def test_nothing_escapes_where_there_is_systemd(lab: SystemdLab) -> None:
    """The limits end what goes past them, and the services that are there are out of reach."""
    folder = lab.folder()
    lab.put(f"{folder}/agent.toml", POLICY)
    lab.run(["mkdir", "-p", f"{folder}/axonkernel"])
    lab.put(f"{folder}/axonkernel/audit.jsonl", "")
    kept = {f"XDG_{name}_HOME": folder for name in ("CACHE", "STATE", "CONFIG")}
    env = {"PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1", **kept}
    words = [*COMMAND, "--policy", f"{folder}/agent.toml", "--json"]
    done = lab.run(words, env=env, timeout_s=110)
    lab.run(["rm", "-r", folder])
    rows = by_id(done.stdout)
    check(rows, (UNPROVEN - SERVICES) | IN_NAMESPACES)
    for name in ("too-many-processes", "too-much-memory", "too-much-disk", *SERVICES):
        assert rows[name]["outcome"] == "held", rows[name]
