"""What the page "Kernel & Policy" says about OS confinement, sentence by sentence.

Each docstring starts with the words of the sentence it is about; the sentences about the
mediator are in ``tests/unit/seed_axon``. The agents are real processes in real boxes;
what speaks of limits runs in the lab's systemd.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from axonkernel.config import load
from axonkernel.policy.parse import parse
from lab.agents import Ended, Project
from lab.internet import Internet
from lab.systemd import SystemdLab

pytestmark = pytest.mark.box

#: The page's sample, spelled in Python.
SAMPLE = """\
from axonkernel import define_agent

agent = define_agent(
    policy={
        "isolation": "auto",
        "fs": {
            "read": ["./src", "./package.json"],
            "write": ["./output"],
        },
        "net": {
            "allow": ["api.github.com:443"],
            "dns": "allowlist",
        },
        "shell": {
            "allow": ["git", "bun"],
            "args": {"git": {"deny": ["push --force*"]}},
            "raw": False,
            "spawn": False,
        },
        "env": {"allow": ["GITHUB_TOKEN"]},
        "tools": {
            "fs": {"read": True, "remove": False},
            "*": "escalate",
        },
        "limits": {"memory": "2G", "cpu": "100%", "wall": "30m"},
    },
)
"""

# -- Policy is what you tell the kernel to allow ----------------------------------------


def test_the_sample_loads_in_an_empty_folder(tmp_path: Path) -> None:
    """Seed: "Declared once in axon.config": as it stands, without a fault, and nothing is made."""
    project = Project(tmp_path / "home")
    path = project.write("axon.config.py", SAMPLE)
    loaded = load(str(path), profiles=())
    names: dict[str, Any] = {}
    exec(compile(SAMPLE.replace("define_agent(", "dict("), "sample", "exec"),
         {"__builtins__": {"dict": dict, "__import__": __import__}}, names)  # fmt: skip
    data = names["agent"]["policy"]
    home = os.path.expanduser("~")
    assert loaded.policy == parse(data, base=str(project.folder), home=home)
    assert loaded.entry == str(path)
    ended = project.axonkernel("check", "--policy", "axon.config.py")
    assert ended.code == 0 and "no faults" in ended.out
    assert os.listdir(project.folder) == ["axon.config.py"]


@pytest.mark.scope
def test_the_sample_runs_in_its_box_as_it_stands(lab: SystemdLab, lab_internet: Internet) -> None:
    """Seed: "The kernel applies it at every enforcement layer available": all its fields are held,
    and each layer answers for its own."""
    handler = """

import os, subprocess
from axonkernel import PolicyDenied


async def code_of(call):
    try:
        await call
    except PolicyDenied as error:
        return error.code
    return "ok"


def exists(path):
    return os.path.exists(path)


@agent.handler
async def handle(kernel, request):
    open("output/mark", "w").close()
    return {
        "src": open("src/a.txt").read(),
        "exist": [exists("src/a.txt"), exists("secret.txt"), exists("/root/project/secret.txt")],
        "env": [os.environ.get("GITHUB_TOKEN"), os.environ.get("OTHER")],
        "git": (await kernel.process.run(["git", "--version"])).exit_code,
        "denied": [
            await code_of(kernel.process.run(["git", "push", "--force"])),
            await code_of(kernel.process.run(["curl", "x"])),
            await code_of(kernel.call("fs.remove", path="output/mark")),
            await code_of(kernel.call("fs.read", path="/etc/shadow")),
        ],
    }
"""
    project = Project(Path(lab.folder()), lab.run, lab.put)
    project.write("axon.config.py", SAMPLE + handler)
    project.write("src/a.txt", "text of a")
    project.write("secret.txt", "KEY")
    assert project.axonkernel("trust").code == 0
    ended = project.axonkernel("run", env={"GITHUB_TOKEN": "token", "OTHER": "x"})
    assert ended.value == {
        "src": "text of a",
        "exist": [True, False, False],
        "env": ["token", None],
        "git": 0,
        "denied": ["shell.args", "shell.program", "tool", "fs.read"],
    }
    held = ("fs", "net", "shell", "env", "limits.memory", "limits.cpu", "limits.wall")
    assert {ended.posture[field] for field in held} == {"enforced"}
    assert project.run(["ls", "output"]).out == "mark\n"


# -- Two layers, one policy: what one agent sees ----------------------------------------

POLICY: dict[str, Any] = {
    "fs": {"read": ["./src"], "write": ["./output"]},
    "net": {"allow": []},
    "shell": {"allow": ["git"], "args": {"git": {"deny": ["push --force*"]}}},
    "env": {"allow": ["GITHUB_TOKEN"]},
    "tools": {"fs": {"read": True}, "*": "escalate"},
    "escalation": {"headless": "deny"},
}
#: Opens a path at the bottom of ``depth`` nested interpreters; prints what came of it.
NESTED = """
import subprocess, sys
path, depth, code = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if depth:
    sys.exit(subprocess.run([sys.executable, "-c", code, path, str(depth - 1), code]).returncode)
try:
    open(path)
    print("opened")
except OSError as error:
    print(type(error).__name__)
"""
LOOK = f"""
secret = os.path.join(os.path.dirname(os.path.abspath("src")), "secret.txt")
nested = {NESTED!r}


def below(path, depth):
    argv = [sys.executable, "-c", nested, path, str(depth), nested]
    return subprocess.run(argv, capture_output=True, text=True).stdout.strip()


def start(*argv):
    try:
        return subprocess.run(argv, capture_output=True, text=True).stderr
    except FileNotFoundError:
        return "ENOENT"


def processes():
    pids = [name for name in os.listdir("/proc") if name.isdigit()]
    return [open(f"/proc/{{pid}}/cmdline").read() for pid in pids]


return {{
    "read": [errno_of(open, "src/a.txt"), errno_of(open, secret), errno_of(os.stat, secret),
             errno_of(os.listdir, "/boot"),
             errno_of(open, "/etc/shadow")],
    "write": [errno_of(open, "output/x", "w"), errno_of(open, "src/a.txt", "w"),
              errno_of(open, "src/new", "w")],
    "listing": sorted(os.listdir(".")),
    "tool": [await code_of(kernel.call("fs.read", path="src/a.txt")),
             await code_of(kernel.call("fs.read", path="/etc/shadow"))],
    "below": [below("src/a.txt", 1), below(secret, 0), below(secret, 1), below(secret, 2)],
    "connect": errno_of(socket.create_connection, ("203.0.113.9", 443), 5),
    "programs": [start("curl", "--version"), start("/usr/bin/curl", "--version")],
    "force": [await code_of(kernel.process.run(["git", "push", "--force"])),
              start("git", "push", "--force")],
    "escalate": await code_of(kernel.call("fs.write", path="output/y", text="y")),
    "env": dict(os.environ),
    "first": open("/proc/1/environ", "rb").read().decode(),
    "namespaces": {{n: os.readlink(f"/proc/self/ns/{{n}}") for n in ("mnt", "pid", "net", "user")}},
    "processes": processes(),
}}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("seed") / "home")
    project.write("src/a.txt", "text of a")
    project.write("secret.txt", "KEY")
    return project


@pytest.fixture(scope="module")
def bystander() -> Iterator[str]:
    """A process of the host's; its command line."""
    with subprocess.Popen(["sleep", "86423.5"]) as process:
        yield "sleep\x0086423.5\x00"
        process.kill()


@pytest.fixture(scope="module")
def ended(project: Project, bystander: str) -> Ended:
    project.agent(POLICY, LOOK)
    return project.run_agent(env={"GITHUB_TOKEN": "token", "AWS_SECRET": "aws", "LD_DEBUG": ""})


@pytest.fixture(scope="module")
def seen(ended: Ended) -> dict[str, Any]:
    """What one boxed agent found when it looked around."""
    value: dict[str, Any] = ended.value
    return value


def test_the_same_policy_block_drives_both(seen: dict[str, Any]) -> None:
    """Seed: "The same policy block drives both": one fs block denies the tool and hides the
    file."""
    assert seen["tool"] == ["ok", "fs.read"]
    assert (seen["read"][0], seen["read"][-1]) == ("ok", "ENOENT")


def test_they_differ_in_how_absolutely_they_hold(seen: dict[str, Any], ended: Ended) -> None:
    """Seed: "how absolutely they hold": the names of tools are the mediator's; a program that was
    not granted does not exist below it either, and one with argument rules runs only outside."""
    code, said = seen["force"]
    assert code == "shell.args" and "denied (shell.args)" in said  # no git ran in the box
    assert seen["programs"] == ["ENOENT", "ENOENT"]
    states = [ended.posture[field] for field in ("tools", "shell.args", "shell")]
    assert states == ["mediator only", "enforced", "enforced"]


def test_a_path_that_was_not_granted_does_not_exist(seen: dict[str, Any]) -> None:
    """Seed: "fails as "no such file", not "permission denied"": by every call, in every place."""
    assert seen["read"] == ["ok", "ENOENT", "ENOENT", "ENOENT", "ENOENT"]
    assert seen["listing"] == ["agent.py", "output", "src"]


def test_fs_is_bind_mounts(project: Project, seen: dict[str, Any]) -> None:
    """Seed: "fs becomes mount-namespace bind mounts": what is written lands on the host; what is
    granted for reading is read-only."""
    assert seen["write"] == ["ok", "EROFS", "EROFS"]
    assert (project.folder / "output" / "x").exists()
    assert (project.folder / "src" / "a.txt").read_text() == "text of a"
    assert seen["namespaces"]["mnt"] != os.readlink("/proc/self/ns/mnt")


def test_env_is_built_from_nothing(seen: dict[str, Any]) -> None:
    """Seed: "an environment built from nothing rather than inherited": also pid 1's."""
    env = seen["env"]
    assert env["GITHUB_TOKEN"] == "token"
    assert not {"AWS_SECRET", "LD_DEBUG", "PYTHONPATH", "XDG_STATE_HOME"} & set(env)
    assert "token" not in seen["first"] and "aws" not in seen["first"]


def test_the_mediator_is_the_polite_error_in_front(seen: dict[str, Any]) -> None:
    """Seed: "Where the two overlap": the mediator names the rule's kind, the wall answers
    ENOENT."""
    assert (seen["tool"][1], seen["read"][-1]) == ("fs.read", "ENOENT")


def test_the_box_wraps_everything_the_agent_spawns(seen: dict[str, Any]) -> None:
    """Seed: "the whole agent process and everything it spawns": children and theirs."""
    assert seen["below"] == ["opened"] + ["FileNotFoundError"] * 3


def test_bubblewrap_holds_the_isolation(seen: dict[str, Any], bystander: str) -> None:
    """Seed: "Bubblewrap holds the filesystem, pid and network isolation": namespaces of its own,
    in which the host's processes are not to be seen."""
    for name, namespace in seen["namespaces"].items():
        assert namespace != os.readlink(f"/proc/self/ns/{name}")
    assert bystander not in seen["processes"]
    assert any("supervisor.inside" in line for line in seen["processes"])


def test_it_can_escalate_inside_the_box(seen: dict[str, Any], project: Project) -> None:
    """Seed: "raising escalations", from inside too: unanswered, it did not run."""
    assert seen["escalate"] == "tool"
    assert not (project.folder / "output" / "y").exists()


def test_without_a_link_nothing_is_reached(seen: dict[str, Any]) -> None:
    """Seed: "net becomes a network namespace": with nothing granted there is no way out at all."""
    assert seen["connect"] in ("ENETUNREACH", "EHOSTUNREACH", "ECONNREFUSED")


# -- Two layers, one policy: the network ------------------------------------------------


@pytest.mark.net
@pytest.mark.root
@pytest.mark.parametrize("refuse", ["reject", "drop"])
def test_a_raw_socket_to_an_ungranted_address_is_dropped(
    internet: Internet, tmp_path: Path, refuse: str
) -> None:
    """Seed: "dropped by the kernel rather than by a check in front of it": connect(2) through
    ctypes, udp, another port; not one packet of them arrives."""
    granted, other = internet.addresses["one4"], internet.addresses["two4"]
    body = f"""
    import struct
    libc = ctypes.CDLL(None, use_errno=True)


    def raw(address, port, kind=socket.SOCK_STREAM):
        with socket.socket(socket.AF_INET, kind) as client:
            client.settimeout(None)
            wait = struct.pack("ll", 1, 0)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, wait)
            where = struct.pack("=HH4s8x", socket.AF_INET, socket.htons(port),
                                socket.inet_aton(address))
            if libc.connect(client.fileno(), where, len(where)) != 0:
                return "refused"
            return "ok" if libc.send(client.fileno(), b"x", 1, 0) == 1 else "refused"


    return [raw({granted!r}, 443), raw({granted!r}, 7), raw({other!r}, 443),
            raw({other!r}, 443, socket.SOCK_DGRAM) and None]
    """
    project = Project(tmp_path / "home", internet.run)
    project.agent({"net": {"allow": [f"{granted}:443"], "refuse": refuse},
                   "fs": {"write": ["./out"]}}, body)  # fmt: skip
    assert project.run_agent().value == ["ok", "refused", "refused", None]
    assert internet.seen("tcp", granted, 443)
    assert not internet.seen("tcp", granted, 7) and not internet.seen("packet-tcp", granted, 7)
    for kind in ("tcp", "udp", "packet-tcp", "packet-udp"):
        assert not internet.seen(kind, other)
    end = project.records()[-1]
    refused = [
        (each["address"], each["protocol"], each["port"]) for each in end["result"]["denied"]
    ]
    assert (other, "tcp", 443) in refused


# -- Two layers, one policy: limits -----------------------------------------------------


@pytest.fixture
def lab_project(lab: SystemdLab) -> Project:
    return Project(Path(lab.folder()), lab.run, lab.put)


#: Four helpers at once, each with so many MB in its hands; waits when one does not make it.
HELPERS = """
hog = "import sys; x = b'x' * (int(sys.argv[1]) << 20); print(len(x), flush=True); sys.stdin.read()"
argv = [sys.executable, "-ISc", hog, request["prompt"]]
helpers = [subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
           for _ in range(4)]
held = [int(helper.stdout.readline() or 0) for helper in helpers]
for helper in helpers:
    helper.communicate()
if 0 in held:
    time.sleep(60)
return len(held)
"""


@pytest.mark.scope
def test_helpers_do_not_multiply_the_budget(lab_project: Project) -> None:
    """Seed: "a subprocess cannot multiply the budget by spawning helpers": each alone would fit."""
    policy = {"limits": {"memory": "200M"}, "fs": {"write": ["./out"]}}
    lab_project.agent(policy, HELPERS)
    assert lab_project.run_agent("5").value == 4
    ended = lab_project.run_agent("80")
    assert ended.code == 137 and "the memory limit ended the agent" in ended.err


@pytest.mark.scope
def test_limits_are_cgroup_caps(lab_project: Project) -> None:
    """Seed: "limits becomes cgroup caps": processes and processor time are counted over the
    tree."""
    body = """
    made = []
    try:
        while len(made) < 60:
            made.append(subprocess.Popen(["/bin/sleep", "60"]))
    except BlockingIOError:
        pass
    for child in made:
        child.kill()
        child.wait()
    spin = "import time; e = time.monotonic() + 1.5\\nwhile time.monotonic() < e: pass"
    for child in [subprocess.Popen([sys.executable, "-ISc", spin]) for _ in range(2)]:
        child.wait()
    used = os.times()
    return [len(made), used.children_user + used.children_system]
    """
    policy = {"limits": {"pids": 20, "cpu": "20%"}, "fs": {"write": ["./out"]}}
    lab_project.agent(policy, body)
    made, capped_s = lab_project.run_agent().value
    assert 5 <= made < 20 and capped_s < 0.6  # a fifth of 1.5 s, and starting up
    wide = {"limits": {"pids": 200, "cpu": "400%"}, "fs": {"write": ["./out"]}}
    lab_project.agent(wide, body)
    made, used_s = lab_project.run_agent().value
    assert made == 60 and used_s > 1.5 * capped_s  # a busy machine gives less than two cores


@pytest.mark.scope
def test_the_cgroup_is_outermost(lab: SystemdLab, lab_project: Project) -> None:
    """Seed: "The cgroup is outermost": bwrap, the agent and its children are all in the scope,
    which carries the limits, as systemd-run --scope would have made it."""
    body = "subprocess.Popen(['/bin/sleep', '86424']); time.sleep(60)"
    policy = {"limits": {"memory": "300M", "pids": 50, "cpu": "150%"}, "fs": {"write": ["./out"]}}
    lab_project.agent(policy, body)
    argv = [sys.executable, "agent.py"]
    process = lab.popen(argv, cwd=lab_project.folder, env=lab_project.env)
    try:
        groups = {}
        deadline = time.monotonic() + 20
        while "sleep" not in groups:
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.1)
            groups = scopes(lab)
        assert set(groups) >= {"bwrap", "sleep"} and len(set(groups.values())) == 1
        (unit,) = set(groups.values())
        shown = lab.run(["systemctl", "show", "-p", "MemoryMax,CPUQuotaPerSecUSec", unit]).stdout
        assert set(shown.split()) == {f"MemoryMax={300 << 20}", "CPUQuotaPerSecUSec=1.500000s"}
    finally:
        lab.kill(process)


def scopes(lab: SystemdLab) -> dict[str, str]:
    """Program to scope, for every process of the lab that is in one of ours."""
    script = (
        "for p in /proc/[0-9]*; do "
        'u=$(grep -o "axonkernel-[0-9a-z]*.scope" $p/cgroup 2>/dev/null | head -n 1); '
        '[ -n "$u" ] && echo "$(cat $p/comm) $u"; done; true'
    )
    lines = lab.run(["sh", "-c", script]).stdout.splitlines()
    return dict(line.rsplit(" ", 1) for line in lines)


# -- Per-invocation narrowing -----------------------------------------------------------


async def printing(kernel: Any, request: Any) -> tuple[int, str]:
    """A handler at a place where workers find it."""
    result = await kernel.process.run(["cat", "src/a.txt"], cwd=".")
    return result.exit_code, result.text


def test_a_narrowed_call_holds_for_the_programs_it_starts(tmp_path: Path) -> None:
    """Seed: "Narrowing can only restrict", below the mediator too: a narrowed program's own box has
    the narrowed grants, and the next call the base again."""
    from axonkernel import Kernel

    project = Project(tmp_path / "home")
    project.write("src/a.txt", "text of a")
    policy = {"fs": {"read": ["./src"], "write": ["./output"]}, "shell": {"allow": ["cat"]}}

    with Kernel(policy, cwd=project.folder, audit=tmp_path / "log", handler=printing) as kernel:
        assert kernel.request_sync({}) == (0, "text of a")
        code, text = kernel.request_sync({}, policy={"fs": {"read": ["./output"]}})
        assert code != 0 and text == ""
        assert kernel.request_sync({}) == (0, "text of a")


def test_the_base_applies_in_the_box_too(tmp_path: Path) -> None:
    """Seed: "Individual calls can narrow it further": an agent in its box closes files and shell
    for an untrusted prompt, and has them back afterwards."""
    project = Project(tmp_path / "home")
    project.write("src/a.txt", "text of a")
    body = """
    route = {"fs": {"read": [], "write": []}, "shell": False}
    with kernel.narrow(route) as narrow:
        shut = [await code_of(narrow.call("fs.read", path="src/a.txt")),
                await code_of(narrow.process.run(["git", "--version"]))]
    return [shut, await code_of(kernel.call("fs.read", path="src/a.txt")),
            await code_of(kernel.process.run(["git", "--version"]))]
    """
    project.agent(POLICY, body)
    assert project.run_agent().value == [["fs.read", "shell.program"], "ok", "ok"]


# -- What the agent sees ----------------------------------------------------------------


def test_a_boxed_agent_sees_no_rule_and_goes_on(tmp_path: Path) -> None:
    """Seed: "the agent doesn't see the rules themselves": the denial that reaches agent code in a
    box has the call and a code; the conversation continues with the next."""
    project = Project(tmp_path / "home")
    project.write("src/a.txt", "text of a")
    body = """
    try:
        await kernel.process.run(["git", "push", "--force"])
    except PolicyDenied as error:
        said = [str(error), error.as_dict()]
    return [said, await kernel.call("fs.read", path="src/a.txt")]
    """
    project.agent(POLICY, body)
    (text, data), after = project.run_agent().value
    assert (data["code"], data["ran"], after) == ("shell.args", False, "text of a")
    assert "--force*" not in text + json.dumps(data) and "$." not in text + json.dumps(data)
