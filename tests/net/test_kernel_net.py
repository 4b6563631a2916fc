"""The network of programs that a kernel in an ordinary process starts, each in its own box."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from box.boxed import PYTHON, Boxed
from lab.internet import ADDRESSES, Internet
from lab.processes import REPOSITORY

pytestmark = [
    pytest.mark.requires("box", "net", "root"),
    pytest.mark.usefixtures("leftovers"),
]

ONE4, TWO4, THREE4 = (ADDRESSES[name] for name in ("one4", "two4", "three4"))
TRY = """
import errno, socket, sys, time
for word in sys.argv[1:]:
    if word == "wait": time.sleep(1); continue
    with socket.socket() as s:
        s.settimeout(5)
        print(errno.errorcode.get(s.connect_ex((word, 443)), "ok"))
"""
#: An application: prints what its kernel's programs could do, as JSON.
APPLICATION = """
import json, sys, warnings
from axonkernel import Kernel
from axonkernel.escalation import Answer, Callback
FOLDER, PYTHON, TRY, ONE, TWO, THREE = sys.argv[1:]
asked = []
def decide(question):
    asked.append(question.action)
    return Answer.yes("me") if question.request.host == THREE else Answer.no("me")
policy = {
    "fs": {"read": [FOLDER]}, "shell": {"allow": [PYTHON]},
    "net": {"allow": [ONE + ":443", TWO + ":443"], "escalate": [THREE + ":443", TWO + ":444"]},
    "tools": {},
}
with Kernel(policy, cwd=FOLDER, audit=FOLDER + "-log", deciders=[Callback(decide)]) as kernel:
    def run(*words):
        result = kernel.process.run_sync([PYTHON, "-ISc", TRY, *words])
        assert result.ok, result.error_text
        return result.text.split(), [[d.address, d.port, d.times] for d in result.net_denied]
    found = {"whole": run(ONE, TWO)}
    with kernel.narrow({"net": {"allow": [ONE + ":443"]}}):
        found["narrowed"] = run(ONE, TWO, TWO)
    with kernel.narrow({"net": False}):
        found["closed"] = run(ONE)
    found["after"] = run(TWO)
    found["asked"] = run(THREE, "wait", THREE, "wait", THREE)
    found["questions"] = asked
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(
    net: Internet, tmp_path_factory: pytest.TempPathFactory, net_cache: Path
) -> dict[str, Any]:
    """What the application said, and its records."""
    boxed = Boxed(tmp_path_factory.mktemp("kernel"), net_cache)
    net.clear()
    words = [str(boxed.project), PYTHON, TRY, ONE4, TWO4, THREE4]

    done = net.run(
        [sys.executable, "-c", APPLICATION, *words],
        cwd=boxed.project,
        env={**boxed.env, "PYTHONPATH": str(REPOSITORY)},
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    log = Path(f"{boxed.project}-log").read_text()
    return {**answer, "records": [json.loads(line) for line in log.splitlines()]}


def test_a_narrowed_request_gets_the_narrowed_network(net: Internet, found: dict[str, Any]) -> None:
    """Its programs reach what both grant; the result names the rest; afterwards all is back."""
    assert found["whole"] == [["ok", "ok"], []]
    refused = ["ok", "ECONNREFUSED", "ECONNREFUSED"]
    assert found["narrowed"] == [refused, [[TWO4, 443, 2]]]
    assert found["closed"] == [["ENETUNREACH"], []]
    assert found["after"] == [["ok"], []]
    assert len(net.seen("packet-tcp", TWO4)) == 2


def test_what_a_call_is_refused_is_recorded_under_its_decision(found: dict[str, Any]) -> None:
    """``net.drop`` and ``process.ended`` have the id of the decision that let the call run."""
    drops = [record for record in found["records"] if record["kind"] == "net.drop"]
    ended = {r["decision_id"]: r["net_denied"] for r in found["records"]
             if r["kind"] == "process.ended"}  # fmt: skip
    assert [(d["address"], d["port"]) for d in drops] == [(TWO4, 443), (THREE4, 443)]
    for drop in drops:
        (denied,) = ended[drop["decision_id"]]
        assert (denied["address"], denied["name"]) == (drop["address"], "")
        assert drop["times"] <= denied["times"]


def test_a_decider_of_the_application_lets_a_destination_in(found: dict[str, Any]) -> None:
    """The first attempt fails at once, the next one gets through, and one question was asked."""
    assert found["asked"] == [["ECONNREFUSED", "ok", "ok"], [[THREE4, 443, 1]]]
    assert found["questions"] == [f"connect {THREE4}:443"]
