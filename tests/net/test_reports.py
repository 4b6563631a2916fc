"""What a box is refused on the network: told while it runs, recorded, asked about."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from box.boxed import PYTHON, Boxed, command_line
from lab.internet import ADDRESSES, Internet
from lab.person import Person

pytestmark = [
    pytest.mark.requires("box", "net", "root"),
    pytest.mark.usefixtures("leftovers"),
]

ONE4, TWO4, ONE6, THREE4 = (ADDRESSES[name] for name in ("one4", "two4", "one6", "three4"))

#: Tries each destination in turn, and again when a line is typed; prints what came of it.
TRY = """
import errno, socket, sys
def attempt(kind, address, port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM) as s:
        s.settimeout(5)
        try:
            s.connect((address, port)); s.send(b"x"); return "ok" if s.recv(1) else "closed"
        except OSError as error:
            return errno.errorcode.get(error.errno, "timeout")
def all(): print(*(attempt(*each) for each in TRIES), flush=True)
"""


def trying(*tries: tuple[str, str, int], then: str) -> list[str]:
    return [PYTHON, "-ISc", f"TRIES = {tries!r}\n{TRY}all()\n{then}"]


def records(boxed: Boxed, kind: str) -> list[dict[str, Any]]:
    """The records of one kind in the supervisor's log."""
    text = (boxed.root / "state/axonkernel/audit.jsonl").read_text()
    return [record for record in map(json.loads, text.splitlines()) if record["kind"] == kind]


def policy(boxed: Boxed, net: str, more: str = "") -> list[str]:
    path = boxed.root / "p.toml"
    path.write_text(f'default = "deny"\n[fs]\nread = ["{boxed.project}"]\n[net]\n{net}\n{more}')
    return ["--policy", str(path)]


def test_each_destination_is_told_once_and_while_the_box_runs(near: Boxed) -> None:
    """Over both families and protocols: one record each, there before the program ends, with
    all that was tried in the result; what was granted is in neither."""
    then = "import time\nfor _ in range(2): all()\nprint('tried', flush=True); sys.stdin.read()"
    tries = (("tcp", ONE4, 443), ("tcp", TWO4, 443), ("udp", TWO4, 7), ("tcp", ONE6, 7))
    words = command_line(
        "--read",
        ".",
        "--net",
        f"{ONE4}:443",
        "--json-status",
        "2",
        command=trying(*tries, then=then),
    )
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [*near.prefix, *words], env=near.env, cwd=near.project, text=True,
        stdin=pipe, stdout=pipe, stderr=pipe,
    )  # fmt: skip
    with process:
        assert process.stdout and process.stdin and process.stderr
        lines = [process.stdout.readline().strip() for _ in range(4)]
        assert lines == ["ok ECONNREFUSED EPERM ECONNREFUSED"] * 3 + ["tried"]
        wanted = {(TWO4, "tcp", 443), (TWO4, "udp", 7), (ONE6, "tcp", 7)}
        deadline = waiting()
        while len(found := records(near, "net.drop")) < 3:
            next(deadline)
        assert process.poll() is None
        process.stdin.close()
        told = process.stderr.read()
    assert {(r["address"], r["protocol"], r["port"]) for r in found} == wanted
    assert len(records(near, "net.drop")) == 3
    status = json.loads(told.splitlines()[-1])
    assert {(d["address"], d["protocol"], d["port"]): d["times"] for d in status["denials"]} == (
        dict.fromkeys(wanted, 3)
    )
    assert all(0 < d["first_s"] <= d["last_s"] for d in status["denials"])
    (ended,) = records(near, "box.end")
    assert ended["result"]["denied"] == status["denials"]


def waiting(most: int = 400) -> Any:
    import time

    for _ in range(most):
        yield time.sleep(0.025)
    raise AssertionError("it did not come in time")


ASKED = f'allow = ["{ONE4}:443"]\nescalate = ["{TWO4}:443", "{ONE4}:7", "{ONE4}:443"]'


def test_a_person_lets_a_destination_in_for_the_rest_of_the_run(near: Boxed, net: Internet) -> None:
    """Refused at first, also where allow grants it; asked about by address, port and protocol;
    reached after a yes, and not after a no, nor asked about again."""
    then = "for line in sys.stdin: all()"
    tries = (("tcp", TWO4, 443), ("tcp", ONE4, 7), ("udp", ONE4, 443), ("tcp", ONE4, 443))
    grants = policy(near, ASKED, '[limits]\nwall = "20s"\n')
    words = [*near.prefix, *command_line(*grants, command=trying(*tries, then=then))]
    with Person(words, cwd=near.project, env=near.env) as person:
        person.wait_for("ECONNREFUSED ECONNREFUSED EPERM ECONNREFUSED")
        assert not net.seen("packet-tcp")
        answer = {f'"{TWO4}"\n  port    443': "yes", f'"{ONE4}"\n  port    7': "no"}
        answer[f'"{ONE4}"\n  port    443'] = "yes run"
        for count in (1, 2, 3):
            person.wait_for_count("[no]: ", count)
            shown = person.seen.replace("\r", "").rpartition("asks to")[2]
            (reply,) = [reply for question, reply in answer.items() if question in shown]
            assert "/tcp" in shown
            person.type(f"{reply}\n")
        granted = waiting()
        while len(records(near, "escalation.answered")) < 3:
            next(granted)
        for _ in range(3):  # the box has its keys back, and its grants, soon after that
            person.type("again\n")
            next(granted)
        person.wait_for("ok ECONNREFUSED EPERM ok")
        person.type("\x04")
        assert person.ended() == 0
    outcomes = [r["outcome"] for r in records(near, "escalation.answered")]
    assert sorted(outcomes) == ["allowed", "allowed", "denied"]
    assert {(r.address, r.port) for r in net.seen("packet-tcp")} == {(TWO4, 443), (ONE4, 443)}


def test_nobody_there_is_no_and_costs_nothing(near: Boxed, net: Internet) -> None:
    """Headless: the answer is no at once, once for each destination; deny is never asked."""
    grants = policy(
        near,
        f'escalate = ["{TWO4}:443", "{THREE4}:*"]\ndeny = ["{THREE4}:443"]',
        '[escalation]\nheadless = "deny"\n',
    )
    then = "import time; time.sleep(0.6); all(); time.sleep(0.6); all()"
    run = near.exec(*grants, command=trying(("tcp", TWO4, 443), ("tcp", THREE4, 443), then=then))
    assert run.text.splitlines() == ["ECONNREFUSED ECONNREFUSED"] * 3, run.err
    (settled,) = records(near, "escalation.settled")
    assert (settled["outcome"], settled["request"]["connect"]) == ("headless", [TWO4, 443, "tcp"])
    assert not net.seen("packet-tcp")


AGENT = """
from axonkernel import define_agent
agent = define_agent("fetcher", policy={POLICY!r})
TRY = {TRY!r}
@agent.handler
async def handle(kernel, request):
    said = []
    for words in {CALLS!r}:
        result = await kernel.process.run([{PYTHON!r}, "-ISc", TRY, *words])
        denied = [[d.address, d.port, d.times] for d in result.net_denied]
        said.append([result.text.strip(), denied])
    return said
agent.run()
"""
CONNECT = """
import errno, socket, sys
for word in sys.argv[1:]:
    with socket.socket() as s:
        s.settimeout(5)
        print(errno.errorcode.get(s.connect_ex((word, 443)), "ok"))
"""


def test_the_caller_in_an_agents_box_sees_why_a_program_failed(near: Boxed) -> None:
    """Each call inside has what was refused while it ran, and nothing of the one before."""
    policy = {
        "default": "deny",
        "fs": {"read": [str(near.project)]},
        "shell": {"allow": [PYTHON]},
        "net": {"allow": [f"{ONE4}:443"]},
    }
    calls = [[TWO4, TWO4], [ONE4], [THREE4, TWO4]]
    text = AGENT.format(POLICY=policy, TRY=CONNECT, CALLS=calls, PYTHON=PYTHON)
    (near.project / "agent.py").write_text(text)
    run = subprocess.run(
        [*near.prefix, sys.executable, str(near.project / "agent.py")],
        env=near.env, cwd=near.project, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == [
        ["ECONNREFUSED\nECONNREFUSED", [[TWO4, 443, 2]]],
        ["ok", []],
        ["ECONNREFUSED\nECONNREFUSED", [[TWO4, 443, 1], [THREE4, 443, 1]]],
    ]
    ended = [r["net_denied"] for r in records(near, "process.ended")]
    assert [[d["address"] for d in denied] for denied in ended] == [[TWO4], [], [TWO4, THREE4]]
    (whole,) = records(near, "box.end")
    assert {d["address"]: d["times"] for d in whole["result"]["denied"]} == {TWO4: 3, THREE4: 1}
