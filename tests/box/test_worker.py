"""Narrowed requests in workers: what goes in and comes out, and how they end."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest

from axonkernel import (
    BoxError,
    EscalationDenied,
    Kernel,
    PolicyDenied,
    PolicyError,
    ToolError,
    define_agent,
)
from axonkernel.agent import Agent
from axonkernel.given import policy_from
from axonkernel.kernel.passing import Unpassable, Unpasser, passed
from box import raw_worker
from box import worker_handlers as handlers
from lab.agents import Project
from lab.processes import REPOSITORY
from unit.memory import MemoryAudit

pytestmark = pytest.mark.box

CLOSED: dict[str, Any] = {"fs": {"read": [], "write": []}, "net": {"allow": []}}
READING: dict[str, Any] = {"fs": {"read": ["."], "write": ["out"]}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("worker") / "project"
    (folder / "out").mkdir(parents=True)
    (folder / "a.txt").write_text("text of a")
    return folder


@pytest.fixture(scope="module")
def log() -> MemoryAudit:
    return MemoryAudit()


@pytest.fixture
def audit(log: MemoryAudit) -> MemoryAudit:
    """The records of one test."""
    log.records.clear()
    return log


@pytest.fixture(scope="module")
def agent(folder: Path) -> Iterator[Agent]:
    """The agent of worker_handlers, in this folder; its workers import it once more."""
    own = handlers.agent
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AXON_TEST_FOLDER", str(folder))
        patch.setattr(own, "base", str(folder))
        patch.setattr(own, "policy", policy_from(POLICY, str(folder)))
        yield own


@pytest.fixture(scope="module")
def kernel(agent: Agent, log: MemoryAudit) -> Iterator[Kernel]:
    """A kernel as an application would make it: one zygote for all requests."""
    with agent.kernel(audit=log) as kernel:
        yield kernel


POLICY: dict[str, Any] = {
    "fs": {"read": ["."], "write": ["out"]},
    "shell": {"allow": ["cat", "sleep", "true", "sh"], "raw": True, "spawn": True},
    "tools": {"fs": {"read": True}, "own": {"first": True, "asked": "escalate"}},
    "env": {"allow": ["MODE", "TOKEN"]},
    "escalation": {"headless": "deny"},
}


def ask(kernel: Kernel, *request: Any, policy: Any = CLOSED, **options: Any) -> Any:
    return kernel.request_sync(list(request), policy=policy, **options)


def test_the_handler_runs_elsewhere_and_only_when_narrowed(
    kernel: Kernel, audit: MemoryAudit
) -> None:
    """Another process imports the module once; without a narrowing it is this one."""
    here, imported_here, space = ask(kernel, "where", policy=None)
    assert (here, imported_here) == (os.getpid(), os.getpid())
    first, second = ask(kernel, "where"), ask(kernel, "where")
    assert first[1] == second[1] != os.getpid() and first[2] != space
    assert ask(kernel, "where", policy={"tools": {"*": True}})[0] == os.getpid()
    assert ask(kernel, "where", confine="mediator")[0] == os.getpid()
    roads = [each["road"] for each in audit.records if each["kind"] == "request.walls"]
    assert roads == ["namespaces", "namespaces", "mediator"]


def test_its_own_python_is_held(kernel: Kernel, folder: Path) -> None:
    """``open`` by the handler itself: refused when narrowed, and by the same code let through."""
    path = str(folder / "a.txt")
    assert ask(kernel, "read", path, policy=None) == "text of a"
    assert ask(kernel, "read", path, policy=READING) == "text of a"
    with pytest.raises(PermissionError) as caught:
        ask(kernel, "read", path)
    assert caught.value.filename == path
    assert "do_read" in caught.value.__notes__[0]


@pytest.mark.parametrize("name", handlers.VALUES)
def test_values_come_back_whole(kernel: Kernel, name: str) -> None:
    """Plain data, bytes, times, classes of fields of the agent's module: equal and of the type."""
    value = ask(kernel, "value", name)
    assert value == handlers.VALUES[name]
    assert type(value) is type(handlers.VALUES[name])


def test_a_hundred_megabytes_come_back(kernel: Kernel) -> None:
    """In one piece."""
    assert ask(kernel, "big", 100_000_000) == bytes(100_000_000)


@pytest.mark.parametrize("name", handlers.ERRORS)
def test_errors_come_back_with_their_type(kernel: Kernel, name: str) -> None:
    """Of Python and of the agent's own, with arguments and fields."""
    wanted = handlers.ERRORS[name]
    with pytest.raises(type(wanted)) as caught:
        ask(kernel, "raise", name)
    assert str(caught.value) == str(wanted)
    assert getattr(caught.value, "code", None) == getattr(wanted, "code", None)


def test_what_cannot_come_back_is_told(kernel: Kernel) -> None:
    """A ToolError that names the type; also for an exit and for a sudden end."""
    with pytest.raises(ToolError, match=r"worker_handlers\.Loaded cannot leave a worker"):
        ask(kernel, "return", "object")
    with pytest.raises(ToolError, match="function cannot leave"):
        ask(kernel, "return", "lambda")
    with pytest.raises(ToolError, match=r"exited \(3\)"):
        ask(kernel, "exit")
    with pytest.raises(ToolError, match="before it answered"):
        ask(kernel, "die")
    with pytest.raises(ToolError, match="cannot be handed to a worker"):
        ask(kernel, "value", lambda: 1)
    assert ask(kernel, "value", "plain") == handlers.VALUES["plain"]


class _Evil:
    def __reduce__(self) -> Any:
        return os.system, ("touch /tmp/axonkernel-never",)


@pytest.mark.parametrize(
    "body",
    [
        pickle.dumps(_Evil()),
        b"cos\nsystem\n(S'true'\ntR.",
        passed(1)[:-2],
        b"",
        b"\x80\x05cbuiltins\neval\n\x8c\x011\x85R.",
    ],
)
def test_nothing_that_a_worker_sends_runs_here(body: bytes) -> None:
    """A pickle may name one function of ours, and nothing else."""
    with pytest.raises(Unpassable):
        Unpasser({}).value(body)
    assert not os.path.exists("/tmp/axonkernel-never")


def test_only_the_agents_own_classes_of_fields_are_made(kernel: Kernel) -> None:
    """Others are refused by name, whatever their module; no constructor runs."""
    workers = kernel._core.workers
    assert workers is not None
    own = passed(handlers.Finding("a", 1))
    assert workers.unpasser.value(own) == handlers.Finding("a", 1)
    strange = passed(attrs.make_class("Strange", ["x"])(1))
    with pytest.raises(Unpassable):
        workers.unpasser.value(strange)
    for parts in (("fields", "subprocess", "Popen", {"pid": 1}), ("fields", "os", "x", {})):
        with pytest.raises(Unpassable):
            workers.unpasser._rebuild(*parts)


@pytest.mark.parametrize("kind", [2, 4, 5, 77])
def test_a_worker_that_breaks_the_protocol_is_ended(kernel: Kernel, kind: int) -> None:
    """With a clear error, and the next request is served."""
    with pytest.raises(ToolError, match=r"worker was ended|is refused"):
        ask(kernel, "send", kind, pickle.dumps(_Evil()))
    assert not os.path.exists("/tmp/axonkernel-never")
    assert ask(kernel, "value", "plain") == handlers.VALUES["plain"]


def test_a_worker_that_asks_for_more_gets_no_more(kernel: Kernel, audit: MemoryAudit) -> None:
    """Its word counts nowhere: what it asks is judged by the policies of the request."""
    from axonkernel import Request

    for what, args in (
        ("require", (Request.read("/etc/passwd"), {}, ())),
        ("run", (["cat", "a.txt"], {}, ())),
    ):
        with contextlib.suppress(PolicyDenied):
            result = ask(kernel, "ask", what, args, policy={**CLOSED, "shell": False})
            raise AssertionError(result)
    with pytest.raises(ToolError, match="not the worker's to make"):
        ask(kernel, "ask", "record", ("decision", {"verdict": "allow"}))
    assert audit.decisions() == ["deny", "deny"]


def test_a_worker_cannot_fill_the_disk(
    kernel: Kernel, audit: MemoryAudit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond a number of bytes of one request its calls are denied, and leave no record."""
    from axonkernel import AuditError

    monkeypatch.setattr("axonkernel.kernel.answers.MOST_RECORDED_BYTES", 3000)
    few, many = 10, 4000
    ask(kernel, "ask", "record", ("narrowing.clamped", {"lines": ["x" * few]}))
    with pytest.raises(AuditError, match="may not record more"):
        ask(kernel, "ask", "record", ("narrowing.clamped", {"lines": ["x" * many]}))
    assert [each["lines"] for each in audit.records if "lines" in each] == [["x" * few]]


def test_no_file_is_read_out_here_for_a_worker(kernel: Kernel, folder: Path) -> None:
    """The faults of a file of profiles tell what is in it; a policy without one is fine."""
    secret = folder / "out" / "secret.json"
    secret.write_text('{"names": ["cat"], "options": "", "token": "hunter2"}')
    named = {"shell": {"allow": ["cat"], "profiles": [str(secret)]}}
    with pytest.raises(PolicyError, match="token"), kernel.narrow(named):  # told to its owner
        raise AssertionError
    asked = policy_from(named, str(folder))
    for what, args in (
        ("request", (["value", "plain"], named, {}, ())),
        ("run", (["cat", "a.txt"], {}, (asked,))),
    ):
        with pytest.raises(ToolError, match="files of profiles") as told:
            ask(kernel, "ask", what, args)
        assert "token" not in str(told.value)
    plain: Any = (["value", "plain"], {"shell": {"allow": ["cat"]}}, {}, ())
    assert ask(kernel, "ask", "request", plain) == handlers.VALUES["plain"]
    secret.unlink()


def test_no_request_says_as_whom_a_box_runs(tmp_path: Path) -> None:
    """Root's boxes run as the owner of what is written, whatever a narrowing asks for."""
    out = tmp_path / "out"
    out.mkdir()
    os.chown(out, 65534, 65534) if os.geteuid() == 0 else None
    base = {"fs": {"write": [str(out)]}, "shell": {"allow": ["id"]}}
    with Kernel(base) as kernel, kernel.narrow({"box": {"run_as": "root"}}) as narrowed:
        assert narrowed.process.run_sync(["id", "-u"]).text == f"{out.stat().st_uid}\n"


def test_a_handler_nobody_can_import_is_refused_at_open(folder: Path, audit: MemoryAudit) -> None:
    """The error names the fix; ``confine="mediator"`` is one, and then it runs here."""
    own = define_agent("closure", READING, base=folder)

    @own.handler
    def answer(kernel: Kernel, request: Any) -> Any:
        return os.getpid()

    async def opened(**options: Any) -> Any:
        async with own.open(audit=audit, **options) as kernel:
            return await kernel.request(1, policy=CLOSED)

    with pytest.raises(PolicyError, match="confine='mediator'"):
        anyio.run(opened)
    with own.kernel(audit=audit) as kernel, pytest.raises(PolicyError, match="top level"):
        kernel.request_sync(1, policy=CLOSED)

    async def mediated() -> Any:
        return await opened(confine="mediator")

    assert anyio.run(mediated) == os.getpid()


NAMED = """
from axonkernel import PolicyError, define_agent

def made():
    async def answer(kernel, request):
        if not isinstance(request, dict):
            return "narrowed"
        try:
            return await kernel.request(1, policy={"fs": {"read": []}})
        except PolicyError:
            return "whole"

    return define_agent("named", {"fs": {"read": ["."]}}, handler=answer)

agent = made() if AT_TOP else None
if __name__ == "__main__":
    (agent or made()).run()
"""


@pytest.mark.parametrize(("at_top", "served"), [("True", "narrowed"), ("False", "whole")])
def test_a_run_says_at_its_start_what_nobody_can_import(
    tmp_path: Path, at_top: str, served: str
) -> None:
    """Before any request asks for it; the agent is served all the same, and one with a name is
    served narrowed and told nothing."""
    project = Project(tmp_path / "home")
    project.write("agent.py", NAMED.replace("AT_TOP", at_top))
    ended = project.run_agent()
    assert (ended.code, ended.out.strip()) == (0, served), ended.err
    assert ("no request of named can be narrowed" in ended.err) == (served == "whole")


def test_calls_are_judged_and_recorded_outside(
    kernel: Kernel, audit: MemoryAudit, folder: Path
) -> None:
    """Tools run in the worker, behind its walls; decisions are the kernel's own."""
    path = str(folder / "a.txt")
    assert ask(kernel, "call", "fs.read", {"path": "a.txt"}, policy=READING) == "text of a"
    assert ask(kernel, "call", "own.first", {"path": path}, policy=READING) == "t False"
    with pytest.raises(PolicyDenied) as caught:
        ask(kernel, "call", "own.first", {"path": path})
    assert caught.value.code == "fs.read"
    assert audit.decisions() == ["allow", "allow", "deny"]


def test_a_person_is_asked_by_the_kernel_outside(
    agent: Agent, audit: MemoryAudit, kernel: Kernel
) -> None:
    """An escalation in a worker goes where all go; nobody there is a denial."""
    from axonkernel.escalation import Callback

    seen: list[str] = []

    async def yes(question: Any) -> bool:
        seen.append(question.action)
        return True

    with agent.kernel(audit=audit, deciders=[Callback(yes)]) as asking:
        assert ask(asking, "call", "own.asked", {"word": "hello"}) == "HELLO"
    assert len(seen) == 1 and "own.asked" in seen[0]
    with pytest.raises(EscalationDenied):
        ask(kernel, "call", "own.asked", {"word": "hello"})


def test_programs_get_the_narrowed_grants(kernel: Kernel, folder: Path) -> None:
    """In a box of their own, started outside; what is not granted is not there."""
    words = ["cat", str(folder / "a.txt")]
    assert ask(kernel, "run", words, policy=READING).text == "text of a"
    assert ask(kernel, "run", words).exit_code == 1
    assert ask(kernel, "run", "true && cat out/../a.txt", policy=READING).text == "text of a"
    with pytest.raises(PolicyDenied):
        ask(kernel, "run", words, policy={"shell": False})
    assert sorted(ask(kernel, "run_all", [["true"], ["cat", "nothing"], ["true"]])) == [0, 0, 1]
    assert ask(kernel, "spawn", ["sleep", "60"]) == (True, False, 137)


def test_variables_are_narrowed(kernel: Kernel) -> None:
    """For the worker's own environment and its programs; un-narrowed both are there."""
    kernel._core.environ.update(MODE="m", TOKEN="tok-1")
    assert ask(kernel, "environ", policy=READING) == ("m", "tok-1", "m-tok-1")
    less = {**READING, "env": {"allow": ["MODE"]}}
    assert ask(kernel, "environ", policy=less) == ("m", None, "m-")
    rows = {row.field: row for row in kernel.request_posture(less)}
    assert "programs only" in rows["env"].note


def test_narrowing_again_narrows_again(kernel: Kernel, folder: Path) -> None:
    """A nested request gets a worker of its own; ``narrow`` counts for its block."""
    path = str(folder / "a.txt")
    assert ask(kernel, "nested", ["read", path], READING, policy=READING) == "text of a"
    with pytest.raises(PermissionError):
        ask(kernel, "nested", ["read", path], CLOSED, policy=READING)
    with pytest.raises(PermissionError):
        ask(kernel, "nested", ["read", path], READING)
    with pytest.raises(PolicyDenied):
        ask(kernel, "narrowed", ["call", "fs.read", {"path": path}], CLOSED, policy=READING)
    with pytest.raises(PolicyDenied):
        less = {"shell": False}
        ask(kernel, "narrowed", ["run", ["true"]], less, policy=READING)
    with kernel.narrow(CLOSED), pytest.raises(PermissionError):
        ask(kernel, "read", path, policy=None)


def test_the_handler_can_see_what_holds(kernel: Kernel, folder: Path) -> None:
    """``check`` and ``posture`` of its kernel are those of the request."""
    verdict, rows = ask(kernel, "check", str(folder / "a.txt"))
    assert verdict == "deny"
    assert [rows[0][:3], rows[1][:2]] == [
        ["request", "enforced", "namespaces"],
        ["fs", "enforced"],
    ]
    assert [list(row) for row in kernel.request_posture(CLOSED)] == rows


def test_output_comes_out_as_it_is_written(kernel: Kernel, capsys: Any) -> None:
    """Of the handler and of what it starts by itself."""
    ask(kernel, "print", "hello", policy=READING)
    out, err = capsys.readouterr()
    assert out.count("hello") == 2 and err.count("hello") == 1


def test_limits_of_a_request_need_a_group(kernel: Kernel) -> None:
    """Memory for one request: held by a control group, or refused; never pretended."""
    policy = {**CLOSED, "limits": {"memory": "64M"}}
    try:
        rows = {row.field: row.state for row in kernel.request_posture(policy)}
        ask(kernel, "value", "plain", policy=policy)
    except BoxError as error:
        assert "limits" in str(error)
    else:
        assert rows["limits.memory"] == "enforced"


def test_the_example_of_the_readme(tmp_path: Path) -> None:
    """A script is imported again by its file; without its guard it is told how to have it."""
    text = (REPOSITORY / "README.md").read_text().partition("## Less for one request")[2]
    script = text.partition("```python\n")[2].partition("```")[0]
    project = Project(tmp_path / "home")
    project.write("src/app.py", "answer = 42")
    project.write("agent.py", script)
    ended = project.run([sys.executable, "agent.py"])
    refused = "[Errno 13] Permission denied: 'src/app.py'"
    assert (ended.code, ended.out.splitlines()) == (0, ["answer = 42", refused]), ended.err
    assert refused in script
    guard = script.index("if __name__")
    project.write("agent.py", script[:guard] + "asyncio.run(main())\n")
    ended = project.run([sys.executable, "agent.py"])
    assert ended.code != 0 and "if __name__ == '__main__':" in ended.err


@pytest.mark.user
def test_an_ordinary_users_worker_is_held_too(ordinary_user: Any) -> None:
    """Without privilege: namespaces of its own by a user namespace, the same refusals."""
    home = ordinary_user.home
    source = Path(raw_worker.__file__).read_text() + USER
    script = 'mkdir -p "$1/in" && cat > "$1/agent.py" && echo a > "$1/in/a" && echo s > "$1/s"'
    ordinary_user.run(["sh", "-c", script, "sh", str(home)], input=source)
    done = ordinary_user.run([sys.executable, str(home / "agent.py")])
    assert done.returncode == 0, done.stderr
    road, narrowed, free = json.loads(done.stdout.splitlines()[-1])
    assert road in ("namespaces", "landlock")
    assert narrowed == ["ok", "EACCES", "EACCES", "EACCES", "EPERM"]
    assert free == ["ok"] * 5


USER = """
import json
from axonkernel import Kernel
attempts = [["read", "in/a"], ["read", "s"], ["create", "n"], ["socket", 2, 1, 0], ["chmod", "s"]]
if __name__ == "__main__":
    os.chdir(os.path.dirname(__file__))
    with Kernel({"tools": {"*": True}}, handler=attempt, audit="log") as kernel:
        policy = {"fs": {"read": ["in"]}, "net": {"allow": []}}
        road = kernel.request_posture(policy)[0].by
        answers = [kernel.request_sync(attempts, policy=each) for each in (policy, None)]
    print(json.dumps([road, *answers]))
"""
