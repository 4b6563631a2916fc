"""A part of an agent's network, for the programs of one request: in boxes beside the agent's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from box.boxed import PYTHON, Boxed
from lab.internet import ADDRESSES, Internet

pytestmark = [
    pytest.mark.requires("box", "net", "root"),
    pytest.mark.usefixtures("leftovers"),
]

ONE4, TWO4, THREE4 = (ADDRESSES[name] for name in ("one4", "two4", "three4"))
AGENT = """
import os
from axonkernel import AxonError, define_agent
agent = define_agent("asker", policy=POLICY)
TRY = '''
import errno, os, socket, sys
for word in sys.argv[1:]:
    with socket.socket() as s:
        s.settimeout(5)
        try: print(errno.errorcode.get(s.connect_ex((word, 443)), "ok"))
        except socket.gaierror: print("no-name")
print(os.getcwd(), os.environ.get("MINE"), os.path.exists("/tmp/agents"))
'''
async def tried(kernel, *words, **options):
    try:
        result = await kernel.process.run([PYTHON, "-ISc", TRY, *words], **options)
    except AxonError as error:
        return [type(error).__name__, str(error)]
    denied = [d.address or d.name for d in result.net_denied]
    return [result.text.split(), sorted(denied), "net" in result.held_by, result.error_text]
@agent.handler
async def handle(kernel, request):
    open("/tmp/agents", "w").close()
    found = {"whole": await tried(kernel, ONE, TWO, "api.test")}
    with kernel.narrow({"net": {"allow": [ONE + ":443", THREE + ":443"]}}) as narrow:
        found["part"] = await tried(narrow, ONE, TWO, THREE, "api.test", env={"MINE": "yes"})
        found["program"] = await tried(narrow, ONE)
        with narrow.narrow({"shell": {"allow": ["/usr/bin/true"]}}) as less:
            found["none"] = await tried(less, ONE)
    with kernel.narrow({"net": {"allow": ["api.test:443"]}}) as narrow:
        found["name"] = await tried(narrow, "api.test", ONE, TWO)
    with kernel.narrow({"net": False}) as narrow:
        found["closed"] = await tried(narrow, ONE)
    found["after"] = await tried(kernel, TWO)
    return found
agent.run()
"""


@pytest.fixture(scope="module")
def found(
    net: Internet, tmp_path_factory: pytest.TempPathFactory, net_cache: Path
) -> dict[str, Any]:
    """What the agent said, and the records of its run."""
    boxed = Boxed(tmp_path_factory.mktemp("narrowed"), net_cache)
    policy = {
        "default": "deny",
        "fs": {"read": [str(boxed.project)]},
        "shell": {"allow": [PYTHON, "/usr/bin/true"]},
        "net": {"allow": [f"{ONE4}:443", f"{TWO4}:443", "api.test:443"]},
        "env": {"allow": ["MINE"]},
    }
    values = {"POLICY": policy, "PYTHON": PYTHON, "ONE": ONE4, "TWO": TWO4, "THREE": THREE4}
    head = "".join(f"{name} = {value!r}\n" for name, value in values.items())
    (boxed.project / "agent.py").write_text(head + AGENT)
    words = ["nsenter", f"--target={net.client}", "--net", "--mount", f"--wdns={boxed.project}"]
    run = subprocess.run(
        [*words, sys.executable, str(boxed.project / "agent.py")],
        env=boxed.env, cwd=boxed.project, capture_output=True, text=True, timeout=90,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    log = (boxed.root / "state/axonkernel/audit.jsonl").read_text()
    records = [json.loads(line) for line in log.splitlines()]
    return {**json.loads(run.stdout), "records": records, "project": str(boxed.project)}


def test_a_part_of_the_network_is_held_for_a_requests_programs(found: dict[str, Any]) -> None:
    """They reach what both grant, addresses and names; a grant that only the request has opens
    nothing; the whole is back afterwards."""
    said = {name: answer for name, answer in found.items() if name not in ("records", "project")}
    assert said["whole"][0][:3] == ["ok", "ok", "ok"] and said["whole"][1] == []
    part = ["ok", "ECONNREFUSED", "ECONNREFUSED", "no-name"]
    assert said["part"][0][:4] == part, said["part"]
    assert said["part"][1] == sorted([TWO4, THREE4, "api.test"]) and said["part"][2]
    assert said["name"][0][:3] == ["ok", "ok", "ECONNREFUSED"] and said["name"][2]
    assert "ok" not in said["closed"][0] and said["closed"][2], said["closed"]
    assert said["after"][0][0] == "ok"


def test_it_is_the_call_that_was_made(found: dict[str, Any]) -> None:
    """In the same folder, with the variables of the call; the agent's own files in /tmp are
    not there; a program that the request lacks is refused."""
    assert found["whole"][0][-3:] == [found["project"], "None", "True"]
    assert found["part"][0][-3:] == [found["project"], "yes", "False"]
    assert found["none"][0] == "PolicyDenied"


def test_it_is_recorded_outside(found: dict[str, Any]) -> None:
    """By the supervisor, which decided about it once more."""
    own = [record for record in found["records"] if record.get("source") == "broker"]
    kinds = [record["kind"] for record in own]
    assert kinds.count("decision") == kinds.count("process.ended") == 3
    assert {r["address"] or r["name"] for r in own if r["kind"] == "net.drop"} == {
        TWO4, THREE4, "api.test",
    }  # fmt: skip
