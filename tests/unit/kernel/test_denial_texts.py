"""What a denied agent is told: its own words, a code, and nothing of the policy.

Every entry of the policy below holds a word that no request names; no denial may hold it.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest

from axonkernel import Kernel, PolicyDenied, Request, Secret, Url
from axonkernel.escalation import Callback
from axonkernel.policy.explain import agent_text
from axonkernel.policy.request import CODES, Decision
from axonkernel.tools import builtin_tools
from unit.memory import MemoryAudit

Make = Callable[..., Kernel]
Call = Callable[[Kernel], Any]

#: In every entry of the policy and in every place on disk that no request names.
WORD = "zebra"


def _policy(ws: Path) -> dict[str, Any]:
    return {
        "fs": {
            "read": [".", f"{ws}/{WORD}"],
            "write": ["./out", f"./{WORD}-out"],
            "deny": [
                f"{WORD}/**/*.{WORD}",
                f"./out/*{WORD[1:]}*",
                f"{ws}/hidden-{WORD}",
                "**/*.k*",
            ],
        },
        "net": {
            "allow": [f"{WORD}.test:1-9", "10.99.0.0/16:77", f"*.{WORD}.test"],
            "deny": ["*.bad.test:*", f"{WORD}.bad.test"],
            "escalate": [f"*.{WORD}ask.test", "ask.test"],
        },
        "shell": {
            "allow": ["git", "ls", f"{WORD}ctl", "env"],
            "deny": [f"{WORD}rm", "r*"],
            "args": {
                "git": {"deny": [f"push *{WORD[2:]}*", "push --force*"], "escalate": ["push*"]},
                "ls": {"allow": ["-l", f"--{WORD}"]},
            },
        },
        "env": {"allow": [f"{WORD.upper()}_*"], "set": {"ZSET": WORD}},
        "tools": {
            "fs": True,
            "http.fetch": {"deny": [f"*/{WORD[:3]}*"], "escalate": [f"*{WORD}*"]},
            "shut": False,
            WORD: True,
            "block.bash": True,
            "raising": True,
        },
        "limits": {"output": 1000},
        "escalation": {"headless": "deny"},
    }


CALLS: dict[str, Call] = {
    "fs.read outside": lambda k: k.call_sync("fs.read", path="/etc/passwd"),
    "fs.read a pattern": lambda k: k.call_sync("fs.read", path="a.key"),
    "fs.read a link": lambda k: k.call_sync("fs.read", path="link/a"),
    "fs.read a link out": lambda k: k.call_sync("fs.read", path="out/away"),
    "fs.write read-only": lambda k: k.call_sync("fs.write", path="a.txt", text="x"),
    "fs.write a folder": lambda k: k.call_sync("fs.write", path="made/deep/x", text="x"),
    "fs.write a link": lambda k: k.call_sync("fs.write", path="link/new/x", text="x"),
    "fs.edit": lambda k: k.call_sync("fs.edit", path="link/a", old="a", new="b"),
    "fs.remove": lambda k: k.call_sync("fs.remove", path="link"),
    "fs.list": lambda k: k.call_sync("fs.list", path="link"),
    "fs.glob": lambda k: k.call_sync("fs.glob", pattern="*", path="link"),
    "fs.grep": lambda k: k.call_sync("fs.grep", text="x", path="link"),
    "fs.write protected": lambda k: k.call_sync("fs.write", path="out/.bashrc", text="x"),
    "http.fetch": lambda k: k.call_sync("http.fetch", url="https://other.test/"),
    "http.fetch denied": lambda k: k.call_sync("http.fetch", url="https://x.bad.test/zeb"),
    "http.fetch inside": lambda k: k.call_sync("http.fetch", url="http://10.1.2.3/"),
    "http.fetch metadata": lambda k: k.call_sync("http.fetch", url="http://169.254.169.254/"),
    "http.fetch asked": lambda k: k.call_sync("http.fetch", url="https://ask.test/"),
    "http.fetch malformed": lambda k: k.call_sync("http.fetch", url="http://a@b/"),
    "tool": lambda k: k.call_sync("shut"),
    "tool unknown": lambda k: k.call_sync("unknown.tool", x=1),
    "tool with NUL": lambda k: k.call_sync("fs.read", path="a\0b"),
    "tool too large": lambda k: k.call_sync("fs.read", path="a" * 2_000_000),
    "program": lambda k: k.process.run_sync(["curl"]),
    "program by path": lambda k: k.process.run_sync(["./ls"]),
    "program denied": lambda k: k.process.run_sync(["rm", "-rf", "x"]),
    "words": lambda k: k.process.run_sync(["ls", "-a"]),
    "words denied": lambda k: k.process.run_sync(["git", "push", "--force"]),
    "words asked": lambda k: k.process.run_sync(["git", "push"]),
    "wrapped": lambda k: k.process.run_sync(["env", "curl"]),
    "hazard": lambda k: k.process.run_sync(["env", "LD_PRELOAD=x", "git", "log"]),
    "hazard in env": lambda k: k.process.run_sync(["git", "log"], env={"GIT_SSH": "x"}),
    "env": lambda k: k.process.run_sync(["git", "log"], env={"TOKEN": "x"}),
    "spawn": lambda k: k.process.spawn_sync(["git", "log"]),
    "shell": lambda k: k.process.run_sync("git log | head"),
    "shell raw": lambda k: k.process.run_sync("git log | head", raw=True),
    "no words": lambda k: k.process.run_sync([]),
    "many words": lambda k: k.process.run_sync(["git"] * 20_000),
    "NUL": lambda k: k.process.run_sync(["git", "a\0b"]),
    "block": lambda k: k.run_block_sync("bash", "curl x | sh"),
    "block closed": lambda k: k.run_block_sync("python", "print(1)"),
}  # fmt: skip


@pytest.fixture
def kernel(make: Make, ws: Path) -> Iterator[Kernel]:
    for name in (f"{WORD}-out", f"hidden-{WORD}"):
        (ws / name).mkdir()
        (ws / name / "a").write_text("x")
    (ws / "a.key").write_text("x")
    (ws / "link").symlink_to(f"hidden-{WORD}")
    (ws / "out" / "away").symlink_to(f"../hidden-{WORD}/a")
    tools = builtin_tools()
    tools.register("shut", lambda: None)
    with make(_policy(ws), tools=tools) as kernel:
        yield kernel


def _told(error: PolicyDenied) -> str:
    """Everything an agent can get out of an error."""
    chain = [error.__cause__, error.__context__]
    again = pickle.loads(pickle.dumps(error))
    return "\n".join(
        [str(error), repr(error), json.dumps(error.as_dict()), str(again), repr(vars(error))]
        + [str(each) for each in chain if each is not None]
    )


def _assert_tells_nothing(told: str) -> None:
    lowered = told.lower()
    assert WORD not in lowered
    for trace in ("$.", "fs.deny", "deny[", "allow[", "[0]", "10.99", "push*", "r*", "*.k"):
        assert trace not in lowered


@pytest.mark.parametrize("name", CALLS)
def test_no_denial_tells_of_the_policy(kernel: Kernel, name: str) -> None:
    """Whatever is denied, by whichever rule: no pattern, path or rule that was not named."""
    with pytest.raises(PolicyDenied) as caught:
        CALLS[name](kernel)
    assert caught.value.code in CODES
    assert "did not run" in str(caught.value)
    _assert_tells_nothing(_told(caught.value))


def test_the_operator_is_told_all_of_it(kernel: Kernel, audit: MemoryAudit) -> None:
    """The positive twin: the record under the denial's id has rule and layer."""
    with pytest.raises(PolicyDenied) as caught:
        kernel.call_sync("fs.read", path="link/a")
    record = audit.records[int(caught.value.decision_id[1:]) - 1]
    assert record["rule"].startswith("$.fs.deny[") and WORD in json.dumps(record)
    assert WORD in kernel.explain(Request.read("link/a")).hint


def test_repeated_and_answered_denials_tell_nothing_either(make: Make, ws: Path) -> None:
    """A person said no, three times, and then nobody was asked any more."""
    policy = {**_policy(ws), "escalation": {"timeout": "5s"}}
    kernel = make(policy, deciders=[Callback(lambda question: False)])
    codes = set()
    for _ in range(4):
        with pytest.raises(PolicyDenied) as caught:
            kernel.process.run_sync(["git", "push"])
        codes.add(caught.value.code)
        _assert_tells_nothing(_told(caught.value))
    assert codes == {"shell.args", "repeated"}


def test_narrowed_denials_tell_nothing_either(kernel: Kernel) -> None:
    """The narrowing policy is no more the agent's business than the base."""
    narrow = {"fs": {"read": [f"./{WORD}-out"]}, "shell": {"allow": [f"{WORD}ctl"]}}
    with kernel.narrow(narrow):
        for call in (
            lambda: kernel.call_sync("fs.read", path="a.txt"),
            lambda: kernel.process.run_sync(["git", "log"]),
        ):
            with pytest.raises(PolicyDenied) as caught:
                call()
            _assert_tells_nothing(_told(caught.value))


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_a_text_without_its_rule(code: str) -> None:
    """Rule, layer, subject and detail of a decision stay with the operator."""
    decision = Decision("deny", code, f"$.fs.deny[0].{WORD}", WORD, WORD, f"because of {WORD}")
    for request in (Request.read("a"), Request.process(["git"]), Request.tool("x", {"y": 1})):
        text = agent_text(decision, request)
        assert code in text and request.action in text
        _assert_tells_nothing(text)


def test_a_link_is_named_as_the_agent_spelled_it(kernel: Kernel) -> None:
    """Where it leads is not told."""
    request = Request.read("link/a")
    assert "link/a" in agent_text(kernel.check(request), request)


def test_a_tool_call_is_named_as_the_agent_spelled_it(kernel: Kernel, ws: Path) -> None:
    """Its own words, also where they do not fit: no folder above, nothing a link leads to."""
    for args in ({"path": "./link/../link/a"}, {"path": "link/a", "more": 1}):
        with pytest.raises(PolicyDenied) as caught:
            kernel.call_sync("fs.read" if len(args) == 1 else "shut", **args)
        name = "fs.read" if len(args) == 1 else "shut"
        assert caught.value.action == f"tool {name} {json.dumps(args)}"
        assert str(ws) not in _told(caught.value)
        request = Request.tool(name, args)
        assert agent_text(kernel.check(request), request) == str(caught.value)


def test_a_long_call_is_cut(kernel: Kernel) -> None:
    """A message stays a message."""
    with pytest.raises(PolicyDenied) as caught:
        kernel.call_sync("fs.write", path="a.txt", text="x" * 5000)
    said = caught.value.action
    assert said.startswith('tool fs.write {"path": "a.txt", "text": "xxx') and said.endswith("...")
    assert len(said) == len("tool fs.write ") + 200


@pytest.mark.parametrize("misfit", [{}, {"other": 1}])
def test_a_secret_is_in_no_denial_and_no_question(
    make: Make, audit: MemoryAudit, misfit: dict[str, int]
) -> None:
    """Neither in what the agent is told nor in what is recorded, also when the call is wrong."""
    tools = builtin_tools()

    def login(user: str, key: Annotated[str, Secret]) -> None: ...

    tools.register("login", login)
    for verdict in ("deny", "escalate"):
        policy = {"tools": {"login": verdict}, "escalation": {"timeout": "5s"}}
        kernel = make(policy, tools=tools, deciders=[Callback(lambda question: False)])
        with pytest.raises(PolicyDenied) as caught:
            kernel.call_sync("login", user="ann", key="hunter2", **misfit)
        assert '"user": "ann", "key": "[secret]"' in caught.value.action
        assert "hunter2" not in _told(caught.value)
        assert "hunter2" not in json.dumps(audit.records)
    assert not any("ann" in str(record.get("action")) for record in audit.records)


def test_a_url_subject_is_judged_by_the_net_rules(make: Make) -> None:
    """A tool of one's own that takes a URL gets it in one spelling, or not at all."""
    got: list[str] = []
    tools = builtin_tools()

    def ping(url: Annotated[str, Url]) -> None:
        got.append(url)

    tools.register("ping", ping)
    kernel = make({"net": {"allow": ["ok.test"]}}, tools=tools)
    kernel.call_sync("ping", url="HTTPS://OK.test:443/%7ea/../b")
    assert got == ["https://ok.test/b"]
    for url in ("https://bad.test/", "http://ok.test/", "https://x@ok.test/", "ok.test"):
        with pytest.raises(PolicyDenied):
            kernel.call_sync("ping", url=url)
    assert len(got) == 1
