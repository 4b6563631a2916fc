"""What the page "Kernel & Policy" says, sentence by sentence: what the agent sees.

Each docstring starts with the words of the sentence it is about; the sentences about OS
confinement are in ``tests/box/test_seed_axon.py``.
"""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from axonkernel import EscalationDenied, Kernel, PolicyDenied
from axonkernel.escalation import Answer, Callback
from unit.seed_axon.world import ESCALATE, PUSH, Make, Repository


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
