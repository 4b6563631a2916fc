"""Run ``axonkernel escape-test`` and tell what came of each attempt."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lab.processes import REPOSITORY

__all__ = ["COMMAND", "FOR_ROOT", "UNPROVEN", "by_id", "check", "environment"]

COMMAND = [sys.executable, "-m", "axonkernel", "escape-test"]

#: What a machine may make impossible outside a box as well: devices and services that it does
#: not have, a kernel without modules, kexec or x32, what a container around it took away.
UNPROVEN = frozenset(
    """
    alg be-immune binfmt bluetooth c-x32-read can clone-blocks core-pattern display docker key
    kernel-switches load-bpf load-kernel load-kernel-file load-module load-module-file make-disk
    make-link make-memory measure module-loader mount-overlay mount-sysfs open-by-handle
    open-device-fuse open-device-kmsg open-device-kvm open-device-mem open-device-tun
    open-device-vda open-kcore outrun page-out ping read-queue read-kernel-addresses
    set-uid-by-fchmodat2 set-uid-by-x32 stop-kernel sysctl-vm sysrq system-bus systemd tap
    tcp-multipath tcp-own-address tcp6 tipc udp-own-address unknown-call unload-module
    use-ports use-ring use-some-ports user-bus vsock watch-mount x32-entry xdp
    """.split()
)

#: What an ordinary user cannot do outside a box either; proven where the tests run as root.
FOR_ROOT = frozenset(
    """
    account add-swap be-preferred become-other c-socket-high end-swap enter-by-descriptor
    enter-first file-capability give-away host-name irq-affinity join-control-group join-group
    open-shadow packet raw read-kernel-log restart take-capability write-code write-library
    """.split()
)


def environment(folder: Path) -> dict[str, str]:
    """Everything of axonkernel's own that the test could leave behind would be in ``folder``."""
    state = Path(folder, "STATE", "axonkernel")
    state.mkdir(parents=True, exist_ok=True)
    (state / "audit.jsonl").touch()  # as if there had been a run before
    kept = {f"XDG_{name}_HOME": f"{folder}/{name}" for name in ("CACHE", "STATE", "CONFIG")}
    return {
        "PYTHONPATH": str(REPOSITORY),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(folder),
        **kept,
    }


def by_id(text: str) -> dict[str, dict[str, Any]]:
    """The rows of ``--json`` by their attempt's id."""
    return {row["id"]: row for row in json.loads(text)["rows"]}


def check(rows: Mapping[str, Mapping[str, Any]], unproven: Iterable[str] = UNPROVEN) -> None:
    """Every attempt was made, nothing got through that the run does not name, and what was
    refused gets through where no box is."""
    wrong = {
        name: row
        for name, row in rows.items()
        if row["outcome"] in ("ESCAPED", "NO ANSWER")
        or (row["outcome"] == "unproven" and name not in set(unproven))
    }
    assert not wrong, wrong
