"""What a box is refused on the network: told while it runs, recorded, asked about."""

from __future__ import annotations

import json
import subprocess
import sys
import time
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


#: Looks names up and connects; says how each try ended and whether it had to wait.
LOOK_UP = """
import errno, socket, sys, time
def attempt(name, port):
    start = time.monotonic()
    try:
        address = socket.getaddrinfo(name, port, socket.AF_INET, socket.SOCK_STREAM)[0][4]
        with socket.socket() as s:
            s.settimeout(5)
            s.connect(address); s.send(b"x"); said = "ok" if s.recv(1) else "closed"
    except socket.gaierror: said = "no-name"
    except OSError as error: said = errno.errorcode.get(error.errno, "timeout")
    return said + "-late" * (time.monotonic() - start > 0.5)
def all(): print(*(attempt(*each) for each in TRIES), flush=True)
"""


def looking_up(*tries: tuple[str, int], then: str = "") -> list[str]:
    return [PYTHON, "-ISc", f"TRIES = {tries!r}\n{LOOK_UP}all()\n{then}"]


def test_names_are_told_with_what_they_led_to(near: Boxed, net: Internet) -> None:
    """A name that is not granted, a granted name at another port, and a private answer; each by
    its name, and nobody outside was asked about the first."""
    tries = (("api.test", 443), ("web.test", 443), ("api.test", 7), ("private.test", 443))
    grants = ["--read", ".", "--net", "api.test:443", "--net", "private.test:443"]
    run = near.exec(*grants, command=looking_up(*tries, then="all()"))
    assert run.text.splitlines() == ["ok no-name ECONNREFUSED no-name"] * 2, run.err
    found = {(d["name"], d["address"], d["port"]): d["times"] for d in run.status["denials"]}
    assert found[("web.test", "", 0)] == found[("api.test", ONE4, 7)] == 2
    assert ("private.test", ADDRESSES["private4"], 0) in found and len(found) == 3
    # Its socket is open while it waits, unlike that of a refused connection.
    programs = {d["name"]: d["program"] for d in run.status["denials"] if not d["address"]}
    assert programs == {"web.test": "python3"}
    drops = {(r["name"], r["address"], r["port"]) for r in records(near, "net.drop")}
    assert drops == found.keys()
    private = f"the address {ADDRESSES['private4']} of private.test"
    for shown in ("the name web.test", f"{ONE4}:7 (api.test)", private):
        assert shown in run.err
    asked = {record.data.partition(" ")[0] for record in net.seen("dns")}
    assert asked == {"api.test", "private.test"}


def test_a_name_waits_for_a_person(near: Boxed, net: Internet) -> None:
    """The program's own question is answered once a person has said yes, for the ports that
    escalate names; no is the end of it, also for a name that allow grants; deny is not asked
    about, and nobody outside hears of a name before the yes."""
    tries = (("web.test", 443), ("web.test", 7), ("api.test", 443), ("a.wild.test", 443),
             ("b.wild.test", 443), ("shared.test", 443))  # fmt: skip
    block = (
        'allow = ["api.test:443", "shared.test:443"]\n'
        'escalate = ["web.test:443-444", "*.wild.test:443", "api.test:443"]\n'
        'deny = ["b.wild.test:*"]'
    )
    grants = policy(near, block, '[limits]\nwall = "20s"\n')
    words = [*near.prefix, *command_line(*grants, command=looking_up(*tries, then="all()"))]
    with Person(words, cwd=near.project, env=near.env) as person:
        answers = {
            '"web.test"\n  port    443-444/tcp': "yes",
            '"api.test"\n  port    443/tcp': "no",
            '"a.wild.test"\n  port    443/tcp': "no run",
        }
        for count, (question, answer) in enumerate(answers.items(), 1):
            person.wait_for_count("[no]: ", count)
            assert question in person.seen.replace("\r", "").rpartition("asks to")[2]
            if count == 1:
                assert not net.seen("dns")
            time.sleep(0.6)
            person.type(f"{answer}\n")
        person.wait_for("ok ECONNREFUSED no-name no-name no-name ok")
        assert person.ended() == 0
        shown = person.seen.replace("\r", "")
    assert "ok-late ECONNREFUSED no-name-late no-name-late no-name ok" in shown
    assert shown.count("[no]: ") == 3
    asked = {record.data.partition(" ")[0] for record in net.seen("dns")}
    assert asked == {"web.test", "shared.test"}
    assert {(r.address, r.port) for r in net.seen("packet-tcp")} == {(TWO4, 443), (ONE4, 443)}


def test_a_flood_of_names_is_bounded(near: Boxed) -> None:
    """A thousand names that nobody granted: told apart as far as there is room, all counted."""
    code = """
import socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(("127.0.0.53", 53)); s.settimeout(5)
for n in range(1000):
    label = b"x%d" % n
    name = bytes([len(label)]) + label + b"\\x04evil\\x04test\\0"
    s.send(struct.pack("!HHHHHH", n, 256, 1, 0, 0, 0) + name + b"\\0\\1\\0\\1"); s.recv(512)
print("asked")
"""
    run = near.exec("--read", ".", "--net", "api.test:443", command=[PYTHON, "-ISc", code])
    assert run.text == "asked\n", run.err
    told = run.status["denials"]
    assert sum(d["times"] for d in told) == 1000 and len(told) == 257
    assert (told[-1]["protocol"], told[-1]["name"]) == ("", "")
    assert len(records(near, "net.drop")) <= 257


AGENT = """
from axonkernel import define_agent
agent = define_agent("fetcher", policy={POLICY!r})
TRY = {TRY!r}
@agent.handler
async def handle(kernel, request):
    said = []
    for words in {CALLS!r}:
        result = await kernel.process.run([{PYTHON!r}, "-ISc", TRY, *words])
        denied = sorted([d.name, d.address, d.name, d.port] for d in result.net_denied)
        denied = [words[1:] for words in denied]
        assert result.ok or any("refused on the network" in note for note in result.notes)
        said.append([result.text.strip(), denied])
    return said
agent.run()
"""
CONNECT = """
import errno, socket, sys
def look_up(name):
    try: return bool(socket.getaddrinfo(name, 443, socket.AF_INET, socket.SOCK_STREAM)) - 1
    except socket.gaierror: return 1
failed = False
for word in sys.argv[1:]:
    with socket.socket() as s:
        s.settimeout(5)
        code = s.connect_ex((word, 443)) if word[0].isdigit() else look_up(word)
        print(errno.errorcode.get(code, "ok"))
    failed |= bool(code)
sys.exit(failed)
"""


@pytest.mark.parametrize("linked", [True, False], ids=["link", "no link"])
def test_the_caller_in_an_agents_box_sees_why_a_program_failed(near: Boxed, linked: bool) -> None:
    """Each call inside has what was refused while it ran, and nothing of the one before."""
    policy = {
        "default": "deny",
        "fs": {"read": [str(near.project)]},
        "shell": {"allow": [PYTHON]},
        "net": {"allow": [f"{ONE4}:443"] if linked else []},
    }
    calls = [[TWO4, TWO4], [ONE4], [THREE4, TWO4, "no.test"]] if linked else [["no.test"]]
    text = AGENT.format(POLICY=policy, TRY=CONNECT, CALLS=calls, PYTHON=PYTHON)
    (near.project / "agent.py").write_text(text)
    run = subprocess.run(
        [*near.prefix, sys.executable, str(near.project / "agent.py")],
        env=near.env, cwd=near.project, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    no_name = ["", "no.test", 0]
    assert [denied for _, denied in json.loads(run.stdout)] == (
        [[[TWO4, "", 443]], [], [[TWO4, "", 443], [THREE4, "", 443], no_name]]
        if linked
        else [[no_name]]
    )
    ended = [r["net_denied"] for r in records(near, "process.ended")]
    assert [len(denied) for denied in ended] == ([1, 0, 3] if linked else [1])
    (whole,) = records(near, "box.end")
    times = {d["address"] or d["name"]: d["times"] for d in whole["result"]["denied"]}
    assert times == ({TWO4: 3, THREE4: 1, "no.test": 1} if linked else {"no.test": 1})


FETCHING = """
from axonkernel import AxonError, define_agent
agent = define_agent("fetcher", policy={POLICY!r})
@agent.handler
async def handle(kernel, request):
    said = []
    for url in {URLS!r}:
        try:
            said.append((await kernel.call("http.fetch", url=url))["text"])
        except AxonError as error:
            said.append(type(error).__name__)
    return said
agent.run()
"""


def test_a_fetch_from_an_agents_box_is_asked_about_once(near: Boxed, net: Internet) -> None:
    """What a person lets the tool reach the box can reach, by name and by address; a name that
    nobody granted and a private answer are not fetched."""
    policy = {
        "default": "deny",
        "fs": {"read": [str(near.project)]},
        "net": {"allow": ["api.test:80", "private.test:80"], "escalate": ["web.test:80"]},
        "tools": {"http": {"fetch": True}},
    }
    urls = [f"http://{name}.test/" for name in ("api", "web", "private", "metadata")]
    text = FETCHING.format(POLICY=policy, URLS=urls)
    (near.project / "agent.py").write_text(text)
    words = [*near.prefix, sys.executable, str(near.project / "agent.py")]
    with Person(words, cwd=near.project, env=near.env) as person:
        person.wait_for("[no]: ")
        assert "web.test" in person.seen
        person.type("yes run\n")
        assert person.ended() == 0, person.seen
        assert person.seen.count("[no]: ") == 1
    said = json.loads(person.seen.replace("\r", "").strip().splitlines()[-1])
    assert said == ["GET / HTTP/1.1", "GET / HTTP/1.1", "ToolError", "PolicyDenied"]
    assert {(r.address, r.port) for r in net.seen("packet-tcp")} == {(ONE4, 80), (TWO4, 80)}
