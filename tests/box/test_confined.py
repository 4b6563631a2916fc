"""Where no box can be made, a command is confined by what a process can give up by itself.

The machine's user namespaces are taken away for each run (as in many containers), as root and
without bwrap. Every refusal has a marker that stays and a twin that is let through.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lab.agents import Project
from lab.lacking import without
from lab.user import OrdinaryUser

pytestmark = [pytest.mark.box, pytest.mark.root, pytest.mark.usefixtures("leftovers")]

PYTHON = os.path.realpath(sys.executable)
POLICY: dict[str, Any] = {
    "isolation": "best-effort",
    "default": "deny",
    "fs": {"read": ["./src"], "write": ["./out"]},
    "shell": {"allow": ["touch", PYTHON]},
    "env": {"allow": ["MODE"]},
    "net": {"allow": []},
}
#: Prints the outcome of each line: ok, or the name of its errno.
TRY = """
import ctypes, errno, json, os, signal, socket, subprocess, sys
def outcome(line):
    try: exec(line, globals())
    except OSError as error: return errno.errorcode[error.errno]
    except Exception as error: return repr(error)
    return "ok"
print(json.dumps([outcome(line) for line in json.load(open("src/lines.json"))]))
"""
STATUS = """
lines = dict(line.split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line)
assert {int(lines[name], 16) for name in lines if name.startswith("Cap")} == {0}
assert (int(lines["Seccomp"]), int(lines["NoNewPrivs"])) == (2, 1)
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path / "home")
    for name in ("src", "out"):
        (project.folder / name).mkdir(parents=True)
    project.write("secret.txt", "SECRET-77")
    project.write("src/a.txt", "a")
    return project


def outcomes(project: Project, lines: list[str], **changes: Any) -> tuple[list[str], Any]:
    """What came of each line of Python under ``axonkernel exec``, and the posture."""
    project.write("policy.json", json.dumps({**POLICY, **changes}))
    project.write("src/lines.json", json.dumps(lines))
    project.write("src/try.py", TRY)
    options = ["--policy", "policy.json"]
    command = [PYTHON, "-ISc", TRY]
    axonkernel = [sys.executable, "-m", "axonkernel", "exec", *options, "--", *command]
    ended = project.run(without("user namespaces", axonkernel))
    assert ended.code == 0, ended.err
    assert "no box" in ended.err
    return json.loads(ended.out), ended


def test_files_outside_the_grants_cannot_be_opened_made_or_changed(project: Project) -> None:
    """By open, list, make, rename, link, truncate and raw calls; grants work."""
    secret = str(project.folder / "secret.txt")
    refused = [
        f"open({secret!r})",
        f"open({secret!r}, 'w')",
        f"os.truncate({secret!r}, 0)",
        f"os.listdir({str(project.folder)!r})",
        f"os.rename({secret!r}, 'out/s')",
        f"os.link({secret!r}, 'out/s')",
        f"os.unlink({secret!r})",
        "open('new', 'w')",
        "open('src/a.txt', 'a')",
        "os.mkdir('src/d')",
        "open('/etc/shadow')",
        "open('/var/tmp/axonkernel-never', 'w')",
    ]
    allowed = [
        "open('src/a.txt').read()",
        "open('out/new', 'w').write('x')",
        "os.rename('out/new', 'out/moved')",
        "open(os.environ['TMPDIR'] + '/t', 'w')",
        "open(os.path.expanduser('~/t'), 'w')",
        "open('/dev/null', 'w')",
        "open('/proc/self/status')",
    ]
    answers, ended = outcomes(project, [*refused, *allowed])
    assert set(answers[: len(refused)]) <= {"EACCES", "EXDEV"}, answers
    assert answers[len(refused) :] == ["ok"] * len(allowed)
    assert (project.folder / "secret.txt").read_text() == "SECRET-77"
    assert sorted(os.listdir(project.folder / "out")) == ["moved"]
    assert ended.posture["fs"] == "enforced" and ended.posture["fs.deny"] == "unenforced"


def test_programs_outside_the_list_are_not_executed(project: Project) -> None:
    """By subprocess and raw execve; an allowed one runs."""
    answers, ended = outcomes(
        project,
        [
            "subprocess.run(['/usr/bin/id'])",
            "os.posix_spawn('/usr/bin/uname', ['uname'], {})",
            "subprocess.run(['touch', 'out/by-touch'], check=True)",
        ],
    )
    assert answers == ["EACCES", "EACCES", "ok"]
    assert (project.folder / "out/by-touch").exists()
    assert ended.posture["shell"] == "enforced"


def test_nothing_is_reached_without_network_grants(project: Project) -> None:
    """A listener sees nothing by TCP or UDP; where net is open it is reached."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        lines = [
            f"socket.create_connection(('127.0.0.1', {port}), 3)",
            "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
            "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)",
            "socket.socketpair()",
        ]
        answers, ended = outcomes(project, lines)
        assert answers == ["EACCES", "EACCES", "EACCES", "ok"]
        assert ended.posture["net"] == "enforced"
        server.settimeout(0.2)
        with pytest.raises(TimeoutError):
            server.accept()
        answers, ended = outcomes(project, lines, net={"allow": True})
        assert answers == ["ok"] * 4
        server.accept()[0].close()


def test_the_environment_and_other_processes_are_out_of_reach(project: Project) -> None:
    """Neither the supervisor's environment nor a signal to it; the own ones are there."""
    project.env.update(TOKEN="tok-5512", MODE="x")
    answers, _ = outcomes(
        project,
        [
            "open(f'/proc/{os.getppid()}/environ', 'rb').read()",
            "os.kill(os.getppid(), 0)",
            "os.readlink(f'/proc/{os.getppid()}/fd/0')",
            "assert 'TOKEN' not in os.environ and os.environ['MODE'] == 'x'",
            "open('/proc/self/environ').read()",
            "os.kill(os.getpid(), 0)",
        ],
    )
    assert answers == ["EACCES", "EPERM", "EACCES", "ok", "ok", "ok"]


def test_root_keeps_no_capability(project: Project) -> None:
    """Also after an exec; the filter and no_new_privs are on."""
    answers, _ = outcomes(
        project,
        [
            STATUS,
            "assert ctypes.CDLL(None).unshare(0x10000000) == -1",
            "os.chmod('out', 0o4755)",
        ],
    )
    assert answers == ["ok", "ok", "EPERM"]


def test_nothing_is_left_behind(project: Project) -> None:
    """The private folder goes with the command, whatever was put there."""
    before = set(os.listdir("/tmp"))
    answers, _ = outcomes(project, ["os.makedirs(os.environ['HOME'] + '/a/b')"])
    assert answers == ["ok"]
    left = {name for name in set(os.listdir("/tmp")) - before if name.startswith("axonkernel-")}
    assert left == set()


def test_exit_codes_are_those_of_a_box(project: Project) -> None:
    """The command's own, 127 for one that is not there, 126 for one that is none."""
    project.write("policy.json", json.dumps(POLICY))
    (project.folder / "src/plain").write_text("no program")
    for words, code in (
        ([PYTHON, "-c", "raise SystemExit(7)"], 7),
        (["./src/none"], 127),
        (["./src/plain"], 126),
    ):
        command = [sys.executable, "-m", "axonkernel", "exec", "--policy", "policy.json", "--"]
        assert project.run(without("user namespaces", [*command, *words])).code == code


def test_a_kernel_confines_its_programs(project: Project) -> None:
    """``process.run`` in an ordinary process: the same walls, and the result names them."""
    policy = {**POLICY, "shell": {"allow": ["cat", "touch"]}}
    project.write(
        "kernel.py",
        f"""
import json
from axonkernel import Kernel
policy = json.loads({json.dumps(json.dumps(policy))})
policy["fs"]["read"] = ["./src", "./link"]
with Kernel(policy, audit="../log") as kernel:
    run = kernel.process.run_sync
    results = [run(["cat", "src/a.txt"]), run(["touch", "out/x"])]
    print(json.dumps([[r.exit_code, r.stdout.decode(), r.held_by] for r in results]))
""",
    )
    ended = project.run(without("user namespaces", [sys.executable, "kernel.py"]))
    assert ended.code == 0, ended.err
    (code, out, held), (touched, _, _) = json.loads(ended.out.splitlines()[-1])
    assert (code, out, touched) == (0, "a", 0)
    assert {"fs", "net", "shell", "env", "seccomp"} <= set(held)


#: Starts a writer that leaves its session and its parent.
ESCAPE = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True:
            open("out/alive", "w").write(str(time.monotonic()))
            time.sleep(0.02)
    os._exit(0)
while not os.path.exists("out/alive"): time.sleep(0.01)
"""
KERNEL = """
import json
from axonkernel import Kernel
with Kernel(json.load(open("policy.json")), audit="../log") as kernel:
    print(kernel.process.run_sync(["{python}", "-ISc", open("src/escape.py").read()]).exit_code)
    print(kernel.process.run_sync(["{python}", "-c", "import os; os._exit(9)"]).exit_code)
    try: kernel.process.run_sync(["{python}", "-c", "while True: pass"], timeout=1)
    except Exception as error: print(type(error).__name__)
"""


@pytest.mark.parametrize("road", ["exec", "kernel"])
def test_nothing_outlives_the_call(project: Project, road: str) -> None:
    """A process that left its session and parent ends with the call; without one it goes on."""
    project.write("policy.json", json.dumps(POLICY))
    project.write("src/escape.py", ESCAPE)
    project.write("kernel.py", KERNEL.format(python=PYTHON))
    if road == "exec":
        axonkernel = [sys.executable, "-m", "axonkernel", "exec", "--policy", "policy.json", "--"]
        ended = project.run(without("user namespaces", [*axonkernel, PYTHON, "-ISc", ESCAPE]))
        assert ended.code == 0, ended.err
    else:
        ended = project.run(without("user namespaces", [sys.executable, "kernel.py"]))
        assert ended.out.split() == ["0", "9", "LimitExceeded"], ended.err
    alive = project.folder / "out/alive"
    before = alive.read_text()
    time.sleep(0.3)
    assert alive.read_text() == before
    alive.unlink()
    # The twin is held by a pid namespace, which ends a moment after its first process.
    script = f'{PYTHON} -ISc "$ESCAPE"; sleep 0.3; cp out/alive out/first; sleep 0.3'
    twin = project.run(
        ["unshare", "--pid", "--fork", "--kill-child", "sh", "-c", script], env={"ESCAPE": ESCAPE}
    )
    assert twin.code == 0, twin.err
    assert alive.read_text() != (project.folder / "out/first").read_text()


def test_what_the_caller_has_open_is_closed(project: Project, tmp_path: Path) -> None:
    """No descriptor beside the standard ones reaches the command; a shell would pass it on."""
    secret = tmp_path / "open"
    secret.write_text("SECRET-78")
    project.write("policy.json", json.dumps(POLICY))
    show = [PYTHON, "-ISc", "import os; print(os.path.exists('/proc/self/fd/7'))"]
    axonkernel = [sys.executable, "-m", "axonkernel", "exec", "--policy", "policy.json", "--"]
    opened = ["bash", "-c", f'exec 7<"{secret}"; exec "$@"', "bash"]
    inside = project.run([*opened, *without("user namespaces", [*axonkernel, *show])])
    assert (inside.code, inside.out) == (0, "False\n"), inside.err
    assert project.run([*opened, *show]).out == "True\n"


INSIDE = """
from axonkernel import IsolationUnavailable, Kernel
results = []
for isolation in ("auto", "best-effort"):
    policy = {"isolation": isolation, "fs": {"read": ["./src"]}, "shell": {"allow": ["python3"]}}
    with Kernel(policy, audit=os.environ["TMPDIR"] + "/log") as inner:
        for name in ("src/a.txt", "other.txt"):
            words = ["python3", "-c", f"open({name!r})"]
            try:
                done = await inner.process.run(words)
                results.append([done.exit_code, "fs" in done.held_by])
            except IsolationUnavailable as error:
                results.append(error.missing)
return results
"""


def confines_within(project: Project) -> None:
    """No box can be made in a box: ``auto`` says what is missing, ``best-effort`` confines by
    Landlock, so that code in the program is held as well."""
    project.write("src/a.txt", "a")
    project.write("other.txt", "o")
    project.agent({"fs": {"read": ["."]}, "shell": {"allow": ["python3"]}}, INSIDE)
    ended = project.run_agent()
    assert ended.code == 0, ended.err
    refused, also, allowed, denied = ended.value
    assert refused == also == "bwrap"
    assert allowed == [0, True] and denied == [1, True]


def test_a_kernel_in_a_box_confines_within_it(tmp_path: Path) -> None:
    """Under a root supervisor."""
    confines_within(Project(tmp_path / "home"))


def test_a_kernel_in_an_ordinary_users_box_confines_within_it(ordinary_user: OrdinaryUser) -> None:
    """Under one without privilege."""

    def write(path: Path, text: str) -> None:
        script = 'mkdir -p "$(dirname "$1")" && cat > "$1"'
        ordinary_user.run(["sh", "-c", script, "sh", str(path)], input=text)

    confines_within(Project(ordinary_user.home / "home", ordinary_user.run, write))
