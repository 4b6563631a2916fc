"""What the page "Kernel & Policy" says, sentence by sentence, where no box is needed.

Each docstring starts with the words of the sentence it is about; the sentences about OS
confinement are in ``tests/box/test_seed_axon.py``.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Annotated, Any

import anyio
import pytest

from axonkernel import (
    EscalationDenied,
    IsolationUnavailable,
    Kernel,
    PolicyDenied,
    PolicyError,
    Request,
    WritePath,
    define_agent,
    telemetry,
)
from axonkernel.config import load
from axonkernel.escalation import Answer, Callback, Question
from axonkernel.policy.parse import parse
from lab.agents import Project
from unit.memory import MemoryAudit
from unit.sample import SAMPLE

#: The page's example of an escalation.
ESCALATE: dict[str, Any] = {"shell": {"allow": ["git"], "args": {"git": {"escalate": ["push*"]}}}}
PUSH = ["git", "push", "origin", "HEAD:refs/heads/main"]


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    (folder / "src").mkdir(parents=True)
    (folder / "output").mkdir()
    (folder / "src" / "a.txt").write_text("text of a")
    (folder / "secret.txt").write_text("KEY")
    return folder


@pytest.fixture
def audit() -> MemoryAudit:
    return MemoryAudit()


Make = Callable[..., Kernel]


@pytest.fixture
def make(ws: Path, audit: MemoryAudit) -> Iterator[Make]:
    with ExitStack() as made:

        def kernel(policy: Any, **options: Any) -> Kernel:
            return made.enter_context(Kernel(policy, cwd=ws, audit=audit, **options))

        yield kernel


class Repository:
    """A commit, and a remote it can be pushed to."""

    def __init__(self, home: Path, folder: Path) -> None:
        self.remote = home / "remote.git"
        self.folder = folder
        self._git("init", "--quiet", "--bare", str(self.remote))
        self._git("init", "--quiet", ".")
        self._git("remote", "add", "origin", str(self.remote))
        name = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        self._git(*name, "commit", "--quiet", "--allow-empty", "-m", "one")

    @property
    def pushed(self) -> bool:
        return (self.remote / "refs" / "heads" / "main").exists()

    def _git(self, *words: str) -> None:
        env = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "GIT_CONFIG_NOSYSTEM": "1"}
        self.folder.mkdir(exist_ok=True)
        subprocess.run(["git", *words], cwd=self.folder, env=env, check=True, timeout=30)


@pytest.fixture
def repository(tmp_path: Path, ws: Path) -> Repository:
    return Repository(tmp_path, ws)


# -- Two layers, one policy: the mediator -----------------------------------------------


@contextmanager
def on_platform(monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", name)
        yield


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_the_mediator_runs_everywhere(
    make: Make, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    """Seed: "The mediator runs everywhere": the same calls are let through and denied."""
    policy = {"fs": {"read": ["./src"]}, "tools": {"fs": {"read": True}}}
    with on_platform(monkeypatch, platform):
        kernel = make(policy)
        assert kernel.call_sync("fs.read", path="src/a.txt") == "text of a"
        with pytest.raises(PolicyDenied):
            kernel.call_sync("fs.read", path="secret.txt")


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_other_systems_get_the_mediator_only(
    make: Make, ws: Path, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    """Seed: "macOS and Windows get the mediator only": it is announced; a program that was let
    through reads what was not granted: "a real reduction rather than a formality"."""
    policy = {"fs": {"read": ["./src"]}, "shell": {"allow": ["cat"]}, "env": {"allow": []}}
    with on_platform(monkeypatch, platform):
        kernel = make(policy)
        states = {row.field: row.state for row in kernel.posture()}
        assert states["fs"] == states["env"] == "mediator only"
        assert kernel.process.run_sync(["cat", "secret.txt"]).text == "KEY"


def test_the_full_posture_needs_linux(
    make: Make, ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed: "If you want the full posture, run on Linux": strict refuses elsewhere, saying so."""
    with on_platform(monkeypatch, "darwin"):
        policy = {"fs": {"read": ["."]}, "shell": {"allow": ["touch"]}}
        kernel = make({"isolation": "strict", "default": "deny", **policy})
        monkeypatch.setenv("XDG_CACHE_HOME", str(ws / "cache"))
        with pytest.raises(IsolationUnavailable, match="run on Linux"):
            kernel.process.run_sync(["touch", str(ws / "mark")])
    assert not (ws / "mark").exists()


def test_it_gates_every_declared_tool_call(make: Make) -> None:
    """Seed: "It gates every declared tool call": by name, by level, by what is left over."""
    made: list[str] = []
    agent = define_agent()
    for name in ("notes.add", "notes.drop", "other"):
        agent.tool(name)(lambda name=name: made.append(name))
    kernel = make({"tools": {"notes": {"*": True, "drop": False}}}, tools=agent.tools)
    kernel.call_sync("notes.add")
    for name in ("notes.drop", "other"):
        with pytest.raises(PolicyDenied):
            kernel.call_sync(name)
    assert made == ["notes.add"]


def test_it_gates_every_process_run_and_spawn_by_glob(make: Make, ws: Path) -> None:
    """Seed: "... and every process.run/process.spawn by glob": program and arguments."""
    shell = {"allow": ["tou*"], "args": {"touch": {"deny": ["output/never*"]}}, "spawn": True}
    kernel = make({"shell": shell})
    for start in (kernel.process.run_sync, kernel.process.spawn_sync):
        for argv in (["touch", "output/never1"], ["mkdir", "output/d"]):
            with pytest.raises(PolicyDenied):
                start(argv)
    assert kernel.process.run_sync(["touch", "output/run"]).ok
    assert kernel.process.spawn_sync(["touch", "output/spawned"]).wait_sync().ok
    assert {path.name for path in (ws / "output").iterdir()} == {"run", "spawned"}


def test_denials_are_typed_and_escalations_are_raised(make: Make, repository: Repository) -> None:
    """Seed: "returning typed denials, raising escalations": two classes of error, each with a
    code."""
    policy = {**ESCALATE, "tools": {}, "escalation": {"headless": "deny"}}
    kernel = make(policy)
    with pytest.raises(PolicyDenied) as denied:
        kernel.call_sync("fs.read", path="src/a.txt")
    assert (denied.value.code, type(denied.value)) == ("tool", PolicyDenied)
    with pytest.raises(EscalationDenied) as escalated:
        kernel.process.run_sync(PUSH)
    assert (escalated.value.code, escalated.value.outcome) == ("shell.args", "headless")
    assert not repository.pushed


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """What goes to OpenTelemetry, when it is installed: (name, attributes) in order."""
    seen: list[tuple[str, dict[str, Any]]] = []

    @contextmanager
    def start(name: str, attributes: dict[str, Any] | None = None) -> Iterator[Any]:
        kept = dict(attributes or {})
        seen.append((name, kept))
        yield SimpleNamespace(set_attribute=kept.__setitem__)

    trace = ModuleType("opentelemetry.trace")
    trace.get_tracer = lambda name: SimpleNamespace(start_as_current_span=start)  # type: ignore[attr-defined]
    package = ModuleType("opentelemetry")
    package.trace = trace  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "opentelemetry", package)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", trace)
    telemetry._starter.cache_clear()
    yield seen
    telemetry._starter.cache_clear()


def test_each_decision_has_a_span(
    make: Make, audit: MemoryAudit, spans: list[tuple[str, dict[str, Any]]]
) -> None:
    """Seed: "emitting a span for each decision": as many as the log has, with the same verdicts."""
    policy = {"fs": {"read": ["./src"]}, "tools": {"fs": {"read": True}}, "isolation": "none",
              "shell": {"allow": ["true"]}}  # fmt: skip
    kernel = make(policy)
    kernel.call_sync("fs.read", path="src/a.txt")
    kernel.process.run_sync(["true"])
    for call in (
        lambda: kernel.call_sync("fs.read", path="secret.txt"),
        lambda: kernel.process.run_sync(["false"]),
    ):
        with pytest.raises(PolicyDenied):
            call()
    verdicts = [kept["axon.verdict"] for name, kept in spans if name.startswith("axon.decide ")]
    assert verdicts == audit.decisions() == ["allow", "allow", "deny", "deny"]
    assert [name for name, _ in spans if name.startswith("execute_tool ")] == [
        "execute_tool fs.read", "execute_tool process.run"] * 2  # fmt: skip


def test_it_is_the_layer_that_can_ask_you(make: Make, repository: Repository) -> None:
    """Seed: "It is the layer that can ask you": a yes lets run what no wall could have paused."""
    seen: list[tuple[str, bool]] = []

    def decide(question: Question) -> bool:
        seen.append((question.action, repository.pushed))
        return True

    assert make(ESCALATE, deciders=[Callback(decide)]).process.run_sync(PUSH).ok
    assert repository.pushed
    ((action, pushed_before),) = seen
    assert "push" in action and not pushed_before


# -- Policy is what you tell the kernel to allow ----------------------------------------


def test_the_sample_is_a_policy() -> None:
    """Seed: "export default defineAgent": the sample has no fault and says what it seems to say."""
    policy = parse(SAMPLE, base="/project", home="/home/u")
    assert policy.fs and set(policy.fs.read) == {"/project/src", "/project/package.json"}
    assert policy.fs.write == ("/project/output",)
    assert policy.net and (policy.net.allow, policy.net.dns) == (
        ("api.github.com:443",), "allowlist")  # fmt: skip
    assert policy.shell and policy.shell.allow is not True
    assert set(policy.shell.allow) == {"git", "bun"}
    assert (policy.shell.raw, policy.shell.spawn) == (False, 0)
    limits = policy.limits
    assert limits and (limits.memory_bytes, limits.cpu_millicores, limits.wall_s) == (
        2 << 30, 1000, 1800.0)  # fmt: skip


@pytest.mark.parametrize(
    ("request_", "verdict"),
    [
        (Request.process(["git", "status"]), "allow"),
        (Request.process(["git", "push", "--force"]), "deny"),
        (Request.process(["git", "push", "origin", "x", "--force-with-lease"]), "deny"),
        (Request.process(["git", "log", "push", "--force"]), "allow"),
        (Request.process(["bun", "run", "x.ts"]), "allow"),
        (Request.process(["curl", "https://example.org"]), "deny"),
        (Request.process(["git", "status"], spawn=True), "deny"),
        (Request.shell("git status && git log"), "deny"),
        (Request.tool("fs.read", {"path": "src/a.txt"}), "allow"),
        (Request.tool("fs.read", {"path": "secret.txt"}), "deny"),
        (Request.tool("fs.remove", {"path": "output/x"}), "deny"),
        (Request.tool("fs.write", {"path": "output/x", "text": ""}), "escalate"),
        (Request.tool("anything.else"), "escalate"),
        (Request.connect("api.github.com:443"), "allow"),
        (Request.connect("api.github.com:80"), "deny"),
        (Request.connect("example.org:443"), "deny"),
        (Request.read("src/a.txt"), "allow"),
        (Request.write("src/a.txt"), "deny"),
        (Request.write("output/x"), "allow"),
        (Request.env("GITHUB_TOKEN"), "allow"),
        (Request.env("AWS_SECRET_ACCESS_KEY"), "deny"),
    ],
    ids=repr,
)
def test_the_sample_decides_as_it_reads(make: Make, request_: Any, verdict: str) -> None:
    """Seed: "Policy is what you tell the kernel to allow": the sample's own lines."""
    assert make(SAMPLE).check(request_).verdict == verdict


def test_a_violation_is_rejected_before_the_function_runs(make: Make, ws: Path) -> None:
    """Seed: "rejected before the function runs": the tool's body never starts."""
    entered: list[str] = []
    agent = define_agent()

    @agent.tool("save")
    def save(path: Annotated[str, WritePath]) -> None:
        entered.append(path)
        Path(path).touch()

    kernel = make({"fs": {"write": ["./output"]}}, tools=agent.tools)
    with pytest.raises(PolicyDenied):
        kernel.call_sync("save", path="src/new")
    assert entered == [] and not (ws / "src" / "new").exists()
    kernel.call_sync("save", path="output/new")
    assert entered == [str(ws / "output" / "new")] and (ws / "output" / "new").exists()


def test_the_agent_gets_an_error_it_can_adapt_to(make: Make, ws: Path) -> None:
    """Seed: "receives a structured error and adapts from there": the code names what to change."""

    async def handler(kernel: Kernel, request: Any) -> str:
        try:
            await kernel.call("fs.write", path="src/report", text="r")
        except PolicyDenied as error:
            assert error.as_dict()["code"] == "fs.write" and error.retryable
            await kernel.call("fs.write", path="output/report", text="r")
        return "adapted"

    kernel = make({"fs": {"read": ["./src"], "write": ["./output"]}}, handler=handler)
    assert kernel.request_sync({}) == "adapted"
    assert (ws / "output" / "report").read_text() == "r"
    assert not (ws / "src" / "report").exists()


def test_no_policy_block_means_unrestricted_access(make: Make, ws: Path) -> None:
    """Seed: "No policy block means unrestricted access": with the user's privileges, and said
    so."""
    kernel = make(None)
    assert kernel.call_sync("fs.read", path=str(ws / "secret.txt")) == "KEY"
    assert kernel.process.run_sync(["cat", "secret.txt"]).text == "KEY"
    assert [row.state for row in kernel.posture()] == ["unrestricted"]
    assert make({"tools": {}}).check(Request.tool("fs.read")).verdict == "deny"


def test_for_anything_deployed_a_policy_can_be_demanded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed: "For anything deployed or published": what has no explicit rules is refused."""
    assert not load(None, start=str(tmp_path), profiles=()).policy.declared
    monkeypatch.setenv("AXON_REQUIRE_POLICY", "1")
    with pytest.raises(PolicyError, match="a policy is required"):
        load(None, start=str(tmp_path), profiles=())


@pytest.mark.parametrize("block", ["fs", "net", "env", "limits"])
def test_such_a_rule_turns_the_box_on(block: str) -> None:
    """Seed: "turns the OS box on by default": auto, unless isolation is written."""
    policy = parse({block: SAMPLE[block]}, base="/p")
    assert policy.isolation is None and policy.effective_isolation == "auto"
    written = parse({block: SAMPLE[block], "isolation": "none"}, base="/p")
    assert written.effective_isolation == "none"


@pytest.mark.parametrize("block", ["shell", "tools"])
def test_other_rules_do_not(block: str) -> None:
    """Seed: "rather than "none"": what only the mediator holds asks for no box."""
    assert parse({block: SAMPLE[block]}, base="/p").effective_isolation == "none"


# -- Per-invocation narrowing -----------------------------------------------------------

#: The page's narrowing of an untrusted route.
ROUTE: dict[str, Any] = {"fs": {"read": [], "write": []}, "shell": False}
BASE: dict[str, Any] = {"fs": {"read": ["./src"], "write": ["./output"]},
                        "shell": {"allow": ["true"]}, "isolation": "none"}  # fmt: skip


async def attempts(kernel: Kernel, request: Any) -> list[str]:
    """What came of one call of each kind."""
    outcomes = []
    for call in (
        kernel.call("fs.read", path="src/a.txt"),
        kernel.call("fs.write", path="output/x", text="x"),
        kernel.process.run(["true"]),
        kernel.call("fs.read", path="secret.txt"),
        kernel.process.run(["cat", "secret.txt"]),
    ):
        try:
            await call
        except PolicyDenied as error:
            outcomes.append(error.code)
        else:
            outcomes.append("ok")
    return outcomes


OPEN = ["ok", "ok", "ok", "fs.read", "shell.program"]
SHUT = ["fs.read", "fs.write", "shell.program", "fs.read", "shell.program"]


def test_the_base_policy_applies_to_every_invocation(make: Make) -> None:
    """Seed: "The base policy applies to every invocation": the first, the next, a narrowed one."""
    kernel = make(BASE, handler=attempts)
    assert kernel.request_sync({}) == kernel.request_sync({}) == OPEN
    assert kernel.request_sync({}, policy={"env": {"allow": []}}) == OPEN


def test_a_call_can_narrow_it_further(make: Make, ws: Path) -> None:
    """Seed: "Individual calls can narrow it further": the page's own example closes files and
    shell."""
    kernel = make(BASE, handler=attempts)
    assert kernel.request_sync({"prompt": "p"}, policy=ROUTE) == SHUT
    assert not (ws / "output" / "x").exists()


def test_narrowing_can_only_restrict(make: Make) -> None:
    """Seed: "Narrowing can only restrict": asking for the world gives the base; strict refuses."""
    wide = {"fs": {"write": ["."]}, "shell": {"allow": True}, "tools": {"*": True}}
    kernel = make(BASE, handler=attempts)
    assert kernel.request_sync({}, policy=wide) == OPEN
    with pytest.raises(PolicyError):
        anyio.run(lambda: kernel.request({}, policy=wide, strict=True))


def test_a_call_never_grants_beyond_the_base(make: Make) -> None:
    """Seed: "can never grant access beyond the base policy": nor inside a narrower call."""

    async def handler(kernel: Kernel, request: Any) -> list[str]:
        with kernel.narrow(BASE) as inner:
            return await attempts(inner, request)

    assert make(BASE, handler=handler).request_sync({}, policy=ROUTE) == SHUT


@pytest.mark.parametrize("ending", ["return", "error", "timeout"])
def test_it_clears_when_the_invocation_completes(make: Make, ending: str) -> None:
    """Seed: "clears when the invocation completes": on return, error and timeout alike."""

    async def handler(kernel: Kernel, request: Any) -> list[str]:
        if request == "error":
            raise ValueError("of the handler")
        if request == "timeout":
            await anyio.sleep(30)
        return await attempts(kernel, request)

    kernel = make(BASE, handler=handler)

    async def main() -> list[str]:
        with anyio.move_on_after(0.2):
            try:
                await kernel.request(ending, policy=ROUTE)
            except ValueError:
                assert ending == "error"
        return await kernel.request("after")  # type: ignore[no-any-return]

    assert anyio.run(main) == OPEN


# -- Escalation -------------------------------------------------------------------------


def test_escalate_pauses_execution_and_surfaces_the_call(
    make: Make, repository: Repository
) -> None:
    """Seed: "pauses execution and surfaces the call": nothing runs until the answer; others do."""
    surfaced: list[Question] = []

    async def main() -> bool:
        answered = anyio.Event()

        async def decide(question: Question) -> bool:
            surfaced.append(question)
            await answered.wait()
            return True

        kernel = make(ESCALATE, deciders=[Callback(decide)])
        async with anyio.create_task_group() as group:
            group.start_soon(kernel.process.run, PUSH)
            while not surfaced:
                await anyio.sleep(0.01)
            assert (await kernel.process.run(["git", "status"])).ok
            paused = not repository.pushed
            answered.set()
        return paused

    assert anyio.run(main)
    assert repository.pushed
    assert surfaced[0].action == f"run {PUSH!r}".replace("'", '"')


class Person:
    """A project whose agent pushes twice, and the person at its terminal."""

    def __init__(self, home: Path) -> None:
        self.project = Project(home)
        self.project.folder.mkdir(parents=True)
        self.repository = Repository(home, self.project.folder)

    def agent(self, policy: dict[str, Any], times: int = 1) -> None:
        body = f"""
        for _ in range({times}):
            await kernel.process.run({PUSH!r})
        return "done"
        """
        self.project.agent(policy, body)


PROMPT = "[no]: "


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path / "home")


def test_the_terminal_shows_the_call_and_its_arguments_and_waits(person: Person) -> None:
    """Seed: "The TUI shows the call, the arguments it was made with, and waits"."""
    person.agent(ESCALATE)
    with person.project.on_terminal("agent.py") as run:
        run.wait_for(PROMPT)
        for word in (*PUSH, "/git", str(person.project.folder)):
            assert word in run.seen
        time.sleep(1)
        assert not person.repository.pushed
        run.type("yes\n")
        assert run.ended().out == "done\n"
    assert person.repository.pushed


def test_approving_once_settles_this_call(person: Person) -> None:
    """Seed: "Approving once settles this call": the next equal one is asked again."""
    person.agent(ESCALATE, times=2)
    with person.project.on_terminal("agent.py") as run:
        run.wait_for(PROMPT)
        run.type("yes\n")
        run.wait_for(PROMPT, count=2)
        run.type("no\n")
        ended = run.ended()
    assert ended.code == 1 and "said no" in ended.err


def test_approving_for_the_run_stops_asking_in_this_run(person: Person) -> None:
    """Seed: "so the same call stops asking", as far as one run goes."""
    person.agent(ESCALATE, times=3)
    with person.project.on_terminal("agent.py") as run:
        run.wait_for(PROMPT)
        run.type("yes run\n")
        assert run.ended().out == "done\n"
        assert run.seen.count(PROMPT) == 1


@pytest.mark.xfail(strict=True, raises=AssertionError, reason="there is no store of grants yet")
def test_approving_always_writes_a_grant(person: Person) -> None:
    """Seed: "approving always writes a grant so the same call stops asking", in later runs too."""
    person.agent({**ESCALATE, "escalation": {"timeout": "2s"}})
    with person.project.on_terminal("agent.py") as run:
        run.wait_for(PROMPT)
        run.type("yes always\n")
        assert run.ended().out == "done\n"
    assert person.project.run_agent().out == "done\n"


def test_headless_an_escalation_fails_closed_after_the_timeout(person: Person) -> None:
    """Seed: "Headless ... fails closed after the timeout": denied, with the reason, not before."""
    person.agent({**ESCALATE, "escalation": {"timeout": "2s"}})
    start = time.monotonic()
    ended = person.project.run_agent()
    assert time.monotonic() - start >= 2
    assert ended.code == 1 and "nobody can be asked here" in ended.err
    assert not person.repository.pushed


def test_the_timeout_is_30_seconds_by_default(make: Make, repository: Repository) -> None:
    """Seed: "(default 30 seconds)": still open at 29.9, denied at 30."""
    now = [1000.0]
    kernel = make(ESCALATE, clock=lambda: now[0])
    assert kernel.broker is not None

    async def main() -> str:
        outcome: list[str] = []

        async def push() -> None:
            try:
                await kernel.process.run(PUSH)
            except EscalationDenied as error:
                outcome.append(error.outcome)

        async with anyio.create_task_group() as group:
            group.start_soon(push)
            while not kernel.broker.pending():
                await anyio.sleep(0.01)
            now[0] += 29.9
            await anyio.sleep(0.2)
            assert kernel.broker.pending() and not outcome
            now[0] += 0.1
        return outcome[0]

    assert anyio.run(main) == "headless"
    assert not repository.pushed


# -- What the agent sees ----------------------------------------------------------------


def test_a_blocked_call_is_a_structured_error_without_rules(make: Make) -> None:
    """Seed: "the agent doesn't see the rules themselves": no pattern, no path of a rule, nothing
    that would have been allowed."""
    shell = {"allow": ["git"], "args": {"git": {"deny": ["push --force*"], "escalate": ["tag*"]}}}
    policy = {"fs": {"read": ["./src"]}, "shell": shell, "tools": {"fs": {"read": True}},
              "escalation": {"headless": "deny"}, "isolation": "none"}  # fmt: skip
    kernel = make(policy)
    for call, code in (
        (lambda: kernel.process.run_sync(["git", "push", "--force", "x"]), "shell.args"),
        (lambda: kernel.process.run_sync(["git", "tag", "v1"]), "shell.args"),
        (lambda: kernel.call_sync("fs.read", path="secret.txt"), "fs.read"),
        (lambda: kernel.call_sync("fs.remove", path="secret.txt"), "tool"),
    ):
        with pytest.raises(PolicyDenied) as caught:
            call()
        error = caught.value
        assert error.code == code and error.as_dict()["ran"] is False and error.decision_id
        shown = f"{error} {error.as_dict()} {error!r} {vars(error)}"
        for rule in ("--force*", "tag*", "$.", "/src", "fs.read: True"):
            assert rule not in shown


def test_an_agent_can_say_what_it_tried(make: Make) -> None:
    """Seed: "explains what it tried": the error holds the call in the agent's own words."""

    async def handler(kernel: Kernel, request: Any) -> str:
        try:
            await kernel.process.run(["git", "push", "--force"])
        except PolicyDenied as error:
            return f"I tried to {error.action}; it needs broader access ({error.code})"
        return "pushed"

    policy = {"shell": {"allow": ["git"], "args": {"git": {"deny": ["push --force*"]}}}}
    said = make(policy, handler=handler).request_sync({})
    assert said == (
        'I tried to run ["git", "push", "--force"]; it needs broader access (shell.args)'
    )


def test_the_denial_is_an_ordinary_error_and_not_a_crash(make: Make) -> None:
    """Seed: "which is why the conversation continues": caught or not, the kernel serves the
    next."""

    async def handler(kernel: Kernel, request: Any) -> str:
        return await kernel.call("fs.read", path=request)  # type: ignore[no-any-return]

    kernel = make({"fs": {"read": ["./src"]}, "isolation": "none"}, handler=handler)
    with pytest.raises(PolicyDenied) as caught:
        kernel.request_sync("secret.txt")
    assert isinstance(caught.value, Exception)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert kernel.request_sync("src/a.txt") == "text of a"


def test_a_no_is_such_an_error_too(make: Make, repository: Repository) -> None:
    """Seed: "A blocked call comes back as a structured policy error", also when a person said
    it."""
    kernel = make(ESCALATE, deciders=[Callback(lambda question: Answer.no("callback"))])
    with pytest.raises(EscalationDenied) as caught:
        kernel.process.run_sync(PUSH)
    assert caught.value.as_dict()["outcome"] == "denied"
    assert kernel.process.run_sync(["git", "status"]).ok
    assert not repository.pushed
