"""What the mediator denies, tried again below it, inside the box, by code that asks nobody.

Kinds with a wall fail there too, with no side effect, and their allowed twins work on both
levels. Kinds without one are called ``mediator only`` and do pass below it: the posture says
no more, and no less, than is true.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from axonkernel import Kernel
from axonkernel.box.host import Ask
from axonkernel.box.prepare import prepare
from axonkernel.errors import LimitExceeded
from axonkernel.paths import canonical_policy
from axonkernel.policy.request import AnyRequest, Request
from box.boxed import PYTHON, Boxed, Run, attempts_command

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

TOKEN, KEY = "tok-19ab", "KEY-51c0"
POLICY: dict[str, Any] = {
    "default": "deny",
    "fs": {"read": ["."], "write": ["./out"], "deny": ["./secret.txt"]},
    "net": {"allow": ["45.90.10.1:443"]},
    "shell": {
        "allow": ["uname", "touch", "sort", "sh"],
        "args": {
            "touch": {"deny": ["*forbidden*"], "escalate": ["*asked*"]},
            "sort": {"deny": ["--random-sort"]},
        },
    },
    "env": {"allow": ["MODE"]},
    "tools": {"notes": {"append": False, "*": "escalate"}, "fs": True},
    "limits": {"wall": "60s", "disk": "8M"},
    "escalation": {"headless": "deny"},
}
#: Sorts in so little memory that the program is run; ``mark`` leaves what it is told to.
HAZARD = ["sort", "-S", "1b", "--compress-program=./mark", "many.txt"]
MARK = "#!/bin/sh\n: > ${1:-out/forbidden}\n"
NR = {"open": 2, "socket": 41, "unlink": 87, "rename": 82, "execve": 59}


class Case(NamedTuple):
    """One denied thing, and its nearest allowed neighbour.

    Arguments:
        denied, allowed: how the mediator is asked; both answered by ``check``.
        below: what code in the box tries instead; each must fail.
        above: what it may do; each must work.
    """

    denied: Callable[[Path], AnyRequest]
    allowed: Callable[[Path], AnyRequest]
    below: list[list[Any]]
    above: list[list[Any]]


CASES: dict[str, Case] = {
    "fs.read": Case(
        denied=lambda ws: Request.read(str(ws / "secret.txt")),
        allowed=lambda ws: Request.read(str(ws / "a.txt")),
        below=[
            ["read", "secret.txt"],
            ["call", NR["open"], "secret.txt", os.O_RDONLY],
            ["spawn", "sh", "-c", "exec < secret.txt"],
            ["link", "secret.txt", "out/secret"],
            ["call", NR["rename"], "secret.txt", "out/secret"],
        ],
        above=[["read", "a.txt"], ["call", NR["open"], "a.txt", os.O_RDONLY]],
    ),
    "fs.read outside": Case(
        denied=lambda ws: Request.read("/etc/shadow"),
        allowed=lambda ws: Request.read(str(ws / "a.txt")),
        below=[
            ["read", "/etc/shadow"],
            ["call", NR["open"], "/etc/shadow", os.O_RDONLY],
            ["read", "/proc/1/root/etc/shadow"],
            ["spawn", "sh", "-c", "exec < /etc/shadow"],
        ],
        above=[["read", "/proc/self/cwd/a.txt"]],
    ),
    "fs.write": Case(
        denied=lambda ws: Request.write(str(ws / "b.txt")),
        allowed=lambda ws: Request.write(str(ws / "out/b.txt")),
        below=[
            ["write", "b.txt"],
            ["call", NR["open"], "b.txt", os.O_WRONLY | os.O_CREAT, 0o644],
            ["call", NR["unlink"], "a.txt"],
            ["spawn", "touch", "b.txt"],
            ["spawn", "sh", "-c", ": > b.txt"],
            ["symlink", "a.txt", "b.txt"],
        ],
        above=[["write", "out/b.txt"], ["spawn", "touch", "out/c.txt"]],
    ),
    "shell.program": Case(
        denied=lambda ws: Request.process(["id"], cwd=str(ws)),
        allowed=lambda ws: Request.process(["uname"], cwd=str(ws)),
        below=[
            ["spawn", "id"],
            ["execute", "/usr/bin/id"],
            ["call", NR["execve"], "/usr/bin/id", 0, 0],
            ["spawn", "sh", "-c", "id"],
            ["spawn", "sh", "-c", "exec /usr/bin/id"],
        ],
        above=[["spawn", "uname"], ["execute", "/usr/bin/uname"]],
    ),
    "shell.args": Case(
        denied=lambda ws: Request.process(["touch", "out/forbidden"], cwd=str(ws)),
        allowed=lambda ws: Request.process(["touch", "out/d.txt"], cwd=str(ws)),
        below=[
            ["spawn", "touch", "out/forbidden"],
            ["spawn", "/usr/bin/touch", "out/forbidden"],
            ["spawn", "sh", "-c", "touch out/forbidden"],
            ["spawn", "sh", "-c", "exec /bin/touch out/forbidden"],
            ["spawn", PYTHON, "-c", "import os; os.execv('/bin/touch', ['x', 'out/forbidden'])"],
        ],
        above=[["spawn", "touch", "out/d.txt"], ["spawn", "sh", "-c", "touch out/e.txt"]],
    ),
    "shell.args asked": Case(
        denied=lambda ws: Request.process(["touch", "out/asked"], cwd=str(ws)),
        allowed=lambda ws: Request.process(["touch", "out/f.txt"], cwd=str(ws)),
        below=[["spawn", "touch", "out/asked"], ["spawn", "sh", "-c", "touch out/asked"]],
        above=[["spawn", "touch", "out/f.txt"]],
    ),
    "shell.hazard": Case(
        denied=lambda ws: Request.process(HAZARD, cwd=str(ws)),
        allowed=lambda ws: Request.process(["sort", "a.txt"], cwd=str(ws)),
        below=[
            ["spawn", *HAZARD],
            ["spawn", "sh", "-c", "sort -S 1b --compress-pro=./mark many.txt"],
        ],
        above=[["spawn", "sort", "a.txt"], ["spawn", "./mark", "out/i.txt"]],
    ),
    "shell.raw": Case(
        denied=lambda ws: Request.shell("true; touch out/forbidden", cwd=str(ws)),
        allowed=lambda ws: Request.shell("touch out/g.txt", cwd=str(ws)),
        below=[
            ["spawn", "sh", "-c", "true; touch out/forbidden"],
            ["spawn", "sh", "-c", "$(printf touch) out/forbidden"],
            ["spawn", "sh", "-c", "eval 'touch out/forbidden'"],
            ["spawn", "sh", "-c", "word=forbidden; exec touch out/$word"],
        ],
        above=[["spawn", "sh", "-c", "true; $(printf touch) out/h.txt"]],
    ),
    "env.name": Case(
        denied=lambda ws: Request.env("TOKEN"),
        allowed=lambda ws: Request.env("MODE"),
        below=[
            ["spawn", "sh", "-c", 'test -n "$TOKEN"'],
            ["spawn", "sh", "-c", "grep -q tok- /proc/*/environ"],
        ],
        above=[["spawn", "sh", "-c", 'test "$MODE" = x']],
    ),
}  # fmt: skip


def failed(answer: Any) -> bool:
    """Whether an attempt of inside.py was refused: an errno, or a program's own failure."""
    if isinstance(answer, str):
        return answer.startswith("E") and answer.isupper()
    return isinstance(answer, list) and answer[0] not in (0, "ok")


@pytest.fixture
def kernel(box: Boxed, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    """The mediator, with the very policy that the box gets."""
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, box.env[name])
    with Kernel(POLICY, cwd=box.project, audit=box.root / "log") as kernel:
        yield kernel


def run_below(
    box: Boxed, *attempts: list[Any], policy: dict[str, Any] = POLICY
) -> tuple[list[Any], Run]:
    """The answers from inside a box of the policy, and the run."""
    path = box.project / "policy.json"
    path.write_text(json.dumps(policy))
    run = box.exec(
        "--policy", str(path), command=attempts_command(*attempts),
        env={"TOKEN": TOKEN, "MODE": "x"},
    )  # fmt: skip
    assert run.code == 0, run.err
    return json.loads(run.out.splitlines()[-1]), run  # programs may have written before


def hold_case(kind: str, box: Boxed, kernel: Kernel) -> None:
    """The attempts of one case: all of ``below`` fail and leave nothing, all of ``above`` work."""
    case = CASES[kind]
    decision = kernel.check(case.denied(box.project))
    verdict = "escalate" if kind.endswith("asked") else "deny"
    assert (decision.verdict, decision.code) == (verdict, kind.split()[0])
    assert kernel.check(case.allowed(box.project)).verdict == "allow"
    before = {path: path.read_bytes() for path in box.project.iterdir() if path.is_file()}
    answers, run = run_below(box, *case.below, *case.above)
    below, above = answers[: len(case.below)], answers[len(case.below) :]
    assert [a for a in below if not failed(a)] == [], list(zip(case.below, below, strict=True))
    assert [a for a in above if failed(a)] == [], list(zip(case.above, above, strict=True))
    assert KEY not in run.text and TOKEN not in run.text
    (box.project / "policy.json").unlink()
    assert {p: p.read_bytes() for p in box.project.iterdir() if p.is_file()} == before
    assert not {"forbidden", "asked"} & set(os.listdir(box.project / "out"))
    posture = {row["field"]: row for row in run.status["posture"]}
    assert posture[kind.partition(".")[0]]["state"] == "enforced"
    if kind == "shell.hazard":
        assert "held by the broker for sort, touch" in posture["shell.hazard"]["note"]
    elif kind.startswith("shell.args"):
        assert (posture["shell.args"]["state"], posture["shell.args"]["by"]) == (
            "enforced", "broker",
        )  # fmt: skip
        assert posture["escalation"]["state"] == "unenforced"  # some of it is about tools


def hold_hazard(box: Boxed, kernel: Kernel) -> None:
    """The program that an option names runs where nobody judges the words (the twin)."""
    (box.project / "many.txt").write_text("".join(f"{n}\n" for n in range(100_000)))
    (box.project / "mark").write_text(MARK)
    (box.project / "mark").chmod(0o755)
    subprocess.run(HAZARD, cwd=box.project, capture_output=True, check=False)
    (box.project / "out" / "forbidden").unlink()
    hold_case("shell.hazard", box, kernel)


def hold_net(box: Boxed, kernel: Kernel) -> None:
    """A listener of this machine sees nothing of raw sockets, ctypes or a program; the same
    connection outside arrives. (The allowed twin through a link is in tests/net.)"""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        decision = kernel.check(Request.connect(f"127.0.0.1:{port}"))
        assert (decision.verdict, decision.code) == ("deny", "net.private")
        assert kernel.check(Request.connect("45.90.10.2:443")).code == "net.host"
        assert kernel.check(Request.connect("45.90.10.1:443")).verdict == "allow"
        connect = f"import socket; socket.create_connection(('127.0.0.1', {port}), 3)"
        attempts = [
            ["connect", "127.0.0.1", port],
            ["connect", "45.90.10.2", 443],
            ["send", "45.90.10.2", 443],
            ["spawn", PYTHON, "-ISc", connect],
            ["sock", socket.AF_INET, socket.SOCK_RAW, 6],
        ]
        # No link: loopback is the box's own.
        answers, _ = run_below(box, *attempts, policy={**POLICY, "net": {"allow": []}})
        assert all(map(failed, answers)), answers
        server.settimeout(0.2)
        with pytest.raises(TimeoutError):
            server.accept()
        socket.create_connection(("127.0.0.1", port), 3).close()
        server.accept()[0].close()


def hold_limits(box: Boxed, kernel: Kernel) -> None:
    """The size of /tmp and the clock hold for a program that asks nobody, as the clock does
    for a call. (Memory, cpu and pids need a real systemd: tests/lab.)"""
    answers, run = run_below(box, ["size", "/tmp/big", 32 << 20], ["size", "/tmp/small", 1 << 20])
    assert answers[0] <= 8 << 20 and answers[1] == 1 << 20
    states = {row["field"]: row["state"] for row in run.status["posture"]}
    assert states["limits.wall"] == states["limits.disk"] == "enforced"
    short = {**POLICY, "limits": {"wall": "1s"}}
    endless = "while :; do :; done"
    with Kernel(short, cwd=box.project, audit=box.root / "log") as hurried:
        with pytest.raises(LimitExceeded) as caught:
            hurried.process.run_sync(["sh", "-c", endless])
        assert caught.value.kind == "wall"
        assert hurried.process.run_sync(["sh", "-c", "true"]).exit_code == 0
    path = box.project / "policy.json"
    path.write_text(json.dumps(short))
    ended = box.exec("--policy", str(path), command=["sh", "-c", endless])
    assert ended.status["reason"] == "wall"
    assert box.exec("--policy", str(path), command=["sh", "-c", "true"]).code == 0


#: Every kind that has a wall.
HELD: dict[str, Callable[[Boxed, Kernel], None]] = {
    **{kind: partial(hold_case, kind) for kind in CASES},
    "shell.hazard": hold_hazard,
    "net.host": hold_net,
    "limits": hold_limits,
}


@pytest.mark.parametrize("kind", HELD)
def test_a_denial_with_a_wall_is_held_below(box: Boxed, kernel: Kernel, kind: str) -> None:
    """Denied by the mediator, and by the operating system for code that does not ask."""
    HELD[kind](box, kernel)


#: Field of the posture, the request the mediator refuses or asks about, its verdict and code,
#: and what code in the box does instead, leaving out/FIELD behind.
WITHOUT_A_WALL: dict[str, tuple[Callable[[Path], AnyRequest], tuple[str, str], list[Any]]] = {
    "tools": (
        lambda ws: Request.tool("notes.append", {"text": "x"}),
        ("deny", "tool"),
        ["write", "out/tools"],
    ),
    "shell.raw": (
        lambda ws: Request.shell("echo x > out/shell.raw; true", cwd=str(ws)),
        ("deny", "shell.raw"),
        ["spawn", "sh", "-c", "echo x > out/shell.raw; true"],
    ),
    "shell.hazard": (
        lambda ws: Request.process(["uname"], cwd=str(ws), env={"LD_PRELOAD": "/x.so"}),
        ("deny", "shell.hazard"),
        ["spawn", "sh", "-c", "LD_PRELOAD=/x.so uname > out/shell.hazard"],
    ),
}


@pytest.mark.parametrize("field", WITHOUT_A_WALL)
def test_what_has_no_wall_is_called_so_and_passes_below(
    box: Boxed, kernel: Kernel, field: str
) -> None:
    """The mediator refuses or asks; code in the box does it all the same; an agent's posture
    says ``mediator only``, and that of exec, which has no mediator, never ``enforced``."""
    request, expected, attempt = WITHOUT_A_WALL[field]
    decision = kernel.check(request(box.project))
    assert (decision.verdict, decision.code) == expected
    (answer,), run = run_below(box, attempt)
    assert not failed(answer), answer
    assert (box.project / "out" / field).exists()
    states = {row["field"]: row["state"] for row in run.status["posture"]}
    assert states.get(field, "unenforced") == "unenforced"
    ask = Ask("agent", str(box.project))
    rows = prepare(canonical_policy(kernel.policy), ask, env=dict(os.environ)).posture
    assert {row.field: row.state for row in rows}[field] == "mediator only"


def test_an_escalation_of_a_tool_is_mediator_only_too(box: Boxed, kernel: Kernel) -> None:
    """Nobody is asked about what code in the box does by itself."""
    assert kernel.check(Request.tool("notes.other", {})).verdict == "escalate"
    (answer,), _ = run_below(box, ["write", "out/other"])
    assert answer == "ok"
