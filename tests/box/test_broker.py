"""Programs whose words are judged run only through the supervisor, whoever in the box asks."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from box.boxed import PYTHON, Boxed, attempts_command, command_line
from lab import processes
from lab.agents import Project
from lab.person import Person
from lab.user import OrdinaryUser

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

#: Repositories are made as they are in the tests of everyday work.
GIT_ENV = {
    "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@x.test", "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@x.test", "GIT_CONFIG_GLOBAL": os.devnull,
}  # fmt: skip
WORDS = {"deny": ["push --force*"]}
ASKING = {"deny": ["push --force*"], "escalate": ["push*"]}


def policy(args: Mapping[str, Any], *programs: str, **more: Any) -> dict[str, Any]:
    return {
        "default": "deny",
        "fs": {"write": ["."]},
        "shell": {"allow": ["git", *programs], "args": {"git": args}},
        "escalation": {"headless": "deny"},
        **more,
    }


def git(folder: Path, *words: str) -> str:
    """git outside any box."""
    done = subprocess.run(
        ["git", *words], cwd=folder, env={**os.environ, **GIT_ENV}, capture_output=True, check=True
    )
    return done.stdout.decode()


def repositories(folder: Path) -> Path:
    """``repo`` with one commit, pushed to ``remote.git``, and a second one that is not."""
    repo = folder / "repo"
    repo.mkdir(parents=True)
    git(folder, "init", "-q", "--bare", "-b", "main", "remote.git")
    git(repo, "init", "-q", "-b", "main")
    git(repo, "remote", "add", "origin", str(folder / "remote.git"))
    git(repo, "commit", "-q", "--allow-empty", "-m", "one")
    git(repo, "push", "-q", "-u", "origin", "main")
    git(repo, "commit", "-q", "--allow-empty", "-m", "two")
    return repo


def pushed(folder: Path) -> list[str]:
    """The subjects of what the remote has."""
    return git(folder / "remote.git", "log", "--format=%s", "--all").split()


@pytest.fixture
def repo(box: Boxed) -> Path:
    return repositories(box.project)


def write_policy(box: Boxed, data: Mapping[str, Any]) -> str:
    """Beside the project: it may write every file of its own."""
    path = box.root / "policy.json"
    path.write_text(json.dumps({**data, "fs": {"write": [str(box.project)]}}))
    return str(path)


def test_what_is_denied_is_denied_however_it_is_started(box: Boxed, repo: Path) -> None:
    """subprocess, execv, a shell, perl, node, another name, other spellings; the allowed work."""
    assert shutil.which("node") and shutil.which("perl")
    force = "push --force origin HEAD~1:main"
    words, node = force.split(), "require('child_process').spawnSync"
    attempts = [
        ["spawn", "git", *force.split()],
        ["spawn", "/bin/git", *force.split()],
        ["spawn", "/usr/lib/git-core/git", *force.split()],
        ["spawn", "git", "push", "-f", "origin", "HEAD~1:main"],
        ["spawn", "git", "push", "origin", "+HEAD~1:main"],
        ["spawn", "git", "-C", ".", "push", "origin", "HEAD~1:main", "--force-with-lease"],
        ["spawn", "git", "send-pack", "--force", "../remote.git", "HEAD~1:main"],
        ["spawn", "bash", "-c", f"git {force}"],
        ["spawn", "bash", "-c", f"exec -a innocent git {force}"],
        ["spawn", "perl", "-e", f"exec qw(git {force}) or exit 3"],
        ["spawn", "node", "-e", f"process.exit({node}('git', {words!r}).status)"],
        ["spawn", PYTHON, "-c", f"import os; os.execv('/usr/bin/git', ['status', *{words!r}])"],
        ["spawn", "git", "-c", "alias.x=push --force", "x"],
        ["symlink", "/usr/bin/git", "git-push"],
        ["spawn", "./git-push", "--force"],
        ["spawn", "git", "status", "--short"],
        ["spawn", "bash", "-c", "git log --format=%s | cat"],
        ["spawn", "git", "push", "origin", "main"],
        ["size", "/tmp/x", 1],
    ]  # fmt: skip
    run = box.exec(
        "--policy", write_policy(box, policy(WORDS, "bash", "cat", "perl", "node")),
        command=attempts_command(*attempts), cwd=repo, env=GIT_ENV,
    )  # fmt: skip
    assert run.code == 0, run.err
    answers = json.loads(run.out)
    denied, others = answers[:13], answers[13:]
    codes = [answer if isinstance(answer, str) else answer[0] for answer in denied]
    assert codes == [126, 126, "ENOENT", *[126] * 10], list(zip(attempts, denied, strict=False))
    assert "denied (shell.args)" in denied[0][2] and "denied (shell.hazard)" in denied[12][2]
    assert others[1][0] == 127  # no name of this program
    assert others[2] == [0, "?? git-push\n", ""]
    assert others[3][1].split() == ["two", "one"]
    assert others[4][0] == 0, others[4]
    assert pushed(box.project) == ["two", "one"]
    posture = {row["field"]: row for row in run.status["posture"]}
    assert (posture["shell.args"]["state"], posture["shell.args"]["by"]) == ("enforced", "broker")
    kinds = [
        (record["source"], record["verdict"])
        for record in records(box)
        if record["kind"] == "decision" and "--force" in record["request"]["process"]
    ]
    assert ("broker", "deny") in kinds


def records(box: Boxed) -> list[dict[str, Any]]:
    log = box.root / "state" / "axonkernel" / "audit.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_streams_folders_variables_and_codes_go_through(box: Boxed, repo: Path) -> None:
    """stdin, order of output, exit codes, signals, the working directory, /tmp and the home."""
    script = """
set -e
echo abc | git hash-object --stdin > out
git status --short; echo marked; git log -1 --format=%s
cd /tmp && git init -q inner && cd inner && git commit -q --allow-empty -m private
git log --format='%s %an' && test -d /tmp/inner/.git
git config --global user.name Home && test -f ~/.gitconfig
GIT_AUTHOR_NAME=Other git commit -q --allow-empty -m x && git log -1 --format=%an
LD_PRELOAD=/none.so git rev-parse --is-inside-work-tree
set +e
git rev-parse --verify -q nothing; echo $?
GIT_DIR=/tmp/inner/.git git log; echo $?
git submodule status; echo $?
cd /dev/shm && git status; echo $?
"""
    env = {"allow": ["TOKEN"], "set": GIT_ENV | {"GIT_CONFIG_GLOBAL": ""}}
    run = box.exec(
        "--policy", write_policy(box, policy(WORDS, "bash", env=env)),
        command=["bash", "-c", script], cwd=repo, env={**GIT_ENV, "TOKEN": "t"},
    )  # fmt: skip
    assert run.code == 0, run.err
    assert run.text.split("\n") == [
        "?? out", "marked", "two", "private A", "Other", "true", "1", "126", "126", "126", "",
    ]  # fmt: skip
    assert (repo / "out").read_text() == "8baef1b4abc478178b004d62031cf7fe6db6f903\n"
    assert "denied (shell.hazard)" in run.err or "denied (env.name)" in run.err
    assert "this part of it is a script" in run.err
    assert "/dev/shm does not exist where the program runs" in run.err


def test_a_person_lets_a_push_of_exec_go_on(box: Boxed, repo: Path) -> None:
    """Under ``exec -- bash`` the question is on the terminal; yes lets exactly that call run."""
    path = write_policy(box, policy(ASKING, "bash"))
    script = "git push -q origin main; echo code=$?"
    argv = command_line("--policy", path, "--quiet", command=["bash", "-c", script])
    for answer, code, has in (("no\n", "code=126", ["one"]), ("yes\n", "code=0", ["two", "one"])):
        with Person(argv, cwd=repo, env={**box.env, **GIT_ENV}) as person:
            person.wait_for("[no]: ")
            assert "exec asks to run" in person.seen and pushed(box.project) == ["one"]
            person.type(answer)
            assert person.ended() == 0
        assert code in person.seen and pushed(box.project) == has


AGENT = """
os.chdir("repo")
run = lambda *words: subprocess.run(words, capture_output=True, text=True)
denied = run("git", "push", "--force")
try:
    await kernel.process.run(["git", "push", "--force"], cwd="repo")
except PolicyDenied as error:
    typed = error.as_dict()
status = await kernel.process.run(["git", "status", "--short"], cwd="repo")
try:
    push = await kernel.process.run(["git", "push", "-q", "origin", "main"], cwd="repo")
    asked = push.exit_code
except EscalationDenied as error:
    asked = error.outcome
return [denied.returncode, typed["code"], status.exit_code, list(status.walls), asked]
"""


#: What a hostile agent says to the socket itself; the answer is the outcome's code and text.
SPEAKING = """
from axonkernel.broker.client import call
null = os.open(os.devnull, os.O_RDWR)
_, out = os.pipe()
file = os.open("agent", os.O_RDWR | os.O_CREAT)
def say(*words, program="/usr/bin/git", policy="", env={}, out=out):
    try:
        with call(words, os.getcwd() + "/repo", env, (null, out, out), program=program,
                  policy=policy) as calling:
            outcome = calling.wait()
    except BoxError:
        return "not a call"
    return [getattr(outcome, "code", None), getattr(outcome, "status", None)]
narrower = json.dumps({"policy": {}, "without_env": []})
force = ["push", "-q", "--force", "origin", "HEAD~1:main"]
answers = [
    say("git", *force),
    say("innocent", *force),
    say("git", *force, policy=narrower),
    say("bash", "-c", "git " + " ".join(force), program="/usr/bin/bash", policy=narrower),
    say("bash", "-c", "/usr/lib/git-core/git push -f", program="/usr/bin/bash", policy=narrower),
    say("bash", "-c", "git push", program="/usr/bin/bash"),
    say("id", program="/usr/bin/id"),
    say("id", program="/usr/bin/id", policy=narrower),
    say("git", "log", env={"GIT_DIR": "/etc"}),
    say("git", "log", policy="{"),
    say("git", "status"),
    say("git", "status", policy=narrower),
    say("bash", "-c", "exit 3", program="/usr/bin/bash", policy=narrower),
    say("git", "status", out=file),
]
return answers
"""


def test_who_speaks_to_the_socket_is_judged_alike(tmp_path: Path) -> None:
    """Forged names, other programs, a policy that brings the program back: nothing is gained."""
    project = Project(tmp_path / "home")
    project.agent(policy(WORDS, "bash"), SPEAKING)
    repositories(project.folder)
    ended = project.run_agent(env=GIT_ENV)
    assert ended.value == [
        *[[126, None]] * 3, [None, 125], [None, 127], [127, None], [127, None], [126, None],
        [126, None], [125, None], [None, 0], [None, 0], [None, 3], "not a call",
    ]  # fmt: skip
    assert pushed(project.folder) == ["one"]


def test_an_agent_asks_once_and_goes_on(tmp_path: Path) -> None:
    """Its own calls and those of code in the box take one road; a person is asked once."""
    project = Project(tmp_path / "home")
    project.agent(policy(ASKING), AGENT)
    repositories(project.folder)
    git(project.folder / "repo", "config", "user.name", "A")
    with project.on_terminal("agent.py", env=GIT_ENV) as run:
        run.wait_for("[no]: ")
        assert "probe asks to run" in run.seen and '"push"' not in run.seen.partition("asks")[0]
        run.type("yes\n")
        ended = run.ended()
    assert ended.code == 0, ended.err
    assert json.loads(ended.out) == [126, "shell.args", 0, ["mediator", "broker", "box"], 0]
    assert pushed(project.folder) == ["two", "one"]
    assert run.seen.count("[no]: ") == 1
    asked = [each for each in project.records() if each["kind"] == "escalation.asked"]
    assert len(asked) == 1 and asked[0]["request"]["process"][:2] == ["git", "push"]


def test_a_question_goes_with_its_caller(box: Boxed, repo: Path) -> None:
    """A caller that is killed while a person is asked: the prompt is taken back, nothing runs."""
    killed = "git push -q origin main & sleep 1; kill -9 $!; wait; "
    # The terminal is told by a thread of its own: the box must not end before.
    script = killed + "sleep 2; git log -1 --format=%s; echo end"
    path = write_policy(box, policy(ASKING, "bash", "sleep"))
    argv = command_line("--policy", path, "--quiet", command=["bash", "-c", script])
    with Person(argv, cwd=repo, env={**box.env, **GIT_ENV}) as person:
        person.wait_for("[no]: ")
        person.wait_for("no longer waiting")
        person.type("yes\n")
        assert person.ended() == 0
    assert "two" in person.seen and pushed(box.project) == ["one"]
    answered = [each for each in records(box) if each["kind"] == "escalation.answered"]
    assert [each["outcome"] for each in answered] == ["cancelled"]


def test_what_runs_for_a_box_ends_with_it(box: Boxed, repo: Path) -> None:
    """A sibling whose caller, and one whose supervisor, is killed: no process is left."""
    path = write_policy(box, policy(WORDS, "bash", "sleep"))
    waits = "git cat-file --batch-check <&3 & sleep 1; {}; echo ended"
    script = "exec 3<> <(sleep 60); " + waits.format("kill -9 $!; wait $!")
    run = box.exec("--policy", path, command=["bash", "-c", script], cwd=repo, env=GIT_ENV)
    assert run.text == "ended\n", run.err
    ended = [each for each in records(box) if each["kind"] == "process.ended"]
    assert [each["exit_code"] for each in ended] == [137]
    command = ["bash", "-c", "exec 3<> <(sleep 60); git -C repo cat-file --batch-check <&3"]
    with box.started("--policy", path, command=command) as process:
        deadline_s = time.monotonic() + 20
        while not any("--batch-check" in word for word in programs_below(process.pid)):
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
        process.kill()
        process.wait()


def programs_below(pid: int) -> list[str]:
    """The command lines of git's processes that a process has started, at any depth."""
    lines = []
    for each in processes.descendants(pid):
        with contextlib.suppress(OSError):
            lines.append(Path(f"/proc/{each}/cmdline").read_bytes().decode())
    return [line for line in lines if line.split("\0")[0].endswith("/git")]


@pytest.mark.parametrize(
    "blocks",
    [
        {"default": "allow"},
        {"shell": {"allow": True, "args": {"git": WORDS}}, "limits": {"disk": "8M"}},
        pytest.param({"fs": {"read": ["/usr"]}}, marks=pytest.mark.deep),
        pytest.param({"fs": {"read": ["/"]}}, marks=pytest.mark.deep),
        pytest.param(
            {"default": "allow", "shell": {"allow": True, "args": {"git": WORDS}}},
            marks=pytest.mark.deep,
        ),
    ],
    ids=["open", "any program, closed", "granted", "read-only root", "any program"],
)
def test_in_every_kind_of_tree(box: Boxed, blocks: dict[str, Any]) -> None:
    """Whatever brings /usr: no git lies in the box, the judged one runs, with the agent's /tmp."""
    data = policy(WORDS, "bash", "cat") | blocks
    if data["default"] == "allow" and "fs" not in blocks:
        del data["fs"]
    path = box.root / "policy.json"
    path.write_text(json.dumps(data))
    script = """
git push --force; echo $?; (exec /usr/lib/git-core/git --version); echo $?
cd /tmp && git init -q x && cd x && echo a > a && git add a && git status --short; echo $?
"""
    run = box.exec("--policy", str(path), command=["bash", "-c", script], env=GIT_ENV)
    *told, status, last = run.text.split()
    assert told[0] == "126" and told[1] in ("126", "127"), run.err
    assert (told[2:], status, last) == (["A"], "a", "0"), run.err
    posture = {row["field"]: row["by"] for row in run.status["posture"]}
    assert posture["shell.args"] == "broker"


@pytest.mark.user
def test_as_an_ordinary_user(ordinary_user: OrdinaryUser) -> None:
    """A supervisor without privilege: judged, and the agent's /tmp and home are lent."""
    work = ordinary_user.home / "work"
    work.mkdir()
    os.chown(work, ordinary_user.uid, ordinary_user.uid)
    path = ordinary_user.home / "policy.json"
    path.write_text(json.dumps(policy(WORDS, "bash") | {"fs": {"write": [str(work)]}}))
    path.chmod(0o644)
    script = """
git init -q /tmp/x; git config --global user.name Home; git config --global user.email h@x.test
cd /tmp/x; git commit -q --allow-empty -m one; git log --format=%an; git push --force; echo $?
"""
    argv = command_line("--policy", str(path), command=["bash", "-c", script])
    run = ordinary_user.run(argv, cwd=work)
    assert (run.returncode, run.stdout.split()) == (0, ["Home", "126"]), run.stderr


@pytest.mark.deep
@pytest.mark.timeout(400)
def test_many_at_once(box: Boxed, repo: Path) -> None:
    """A thousand calls from fifty processes: each has its own outcome, none is lost."""
    code = """
import subprocess
for number in range(20):
    words = ["git", "rev-parse", "HEAD" if number % 2 else "nothing"]
    done = subprocess.run(words, capture_output=True, text=True)
    print(done.returncode, len(done.stdout))
"""
    many = f"""
import subprocess
running = [subprocess.Popen([{PYTHON!r}, "-c", {code!r}], stdout=-1, text=True) for _ in range(50)]
print("".join(each.communicate()[0] for each in running), end="")
"""
    path = write_policy(box, policy(WORDS))
    run = box.exec("--policy", path, command=[PYTHON, "-c", many], cwd=repo, timeout_s=300)
    assert sorted(run.text.splitlines()) == ["0 41"] * 500 + ["128 8"] * 500, run.err
