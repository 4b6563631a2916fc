"""A call that waits for a person, and what came back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, Protocol

from attrs import asdict, evolve, field, frozen

from axonkernel.audit.digest import sha256
from axonkernel.audit.fields import request_fields
from axonkernel.policy.request import (
    AnyRequest,
    Decision,
    ProcessRequest,
    ShellRequest,
    ToolRequest,
)

__all__ = ["Answer", "Asker", "Decider", "Outcome", "Question", "Scope"]

Scope = Literal["once", "run", "always"]
Outcome = Literal["allowed", "denied", "timeout", "headless", "repeated", "cancelled"]


@frozen
class Question:
    """One call that needs a yes.

    Arguments:
        id: random; an answer must name it.
        request: the canonical request, exactly what will run.
        decision: why it is asked.
        decision_id: the record of that decision in the audit log.
        agent: who asks.
        env: variables the call sets, by name; values are for the audience, not the log.
    """

    id: str
    request: AnyRequest
    decision: Decision
    decision_id: str = ""
    agent: str = "agent"
    env: Mapping[str, str] = field(factory=dict, hash=False)

    @property
    def action(self) -> str:
        """What was asked, in the asker's words; ``request`` is what will run."""
        return self.request.action

    @property
    def cwd(self) -> str:
        """Where it would run, or "" for what has no working directory."""
        request = self.request
        return request.cwd if isinstance(request, (ProcessRequest, ShellRequest)) else ""

    @property
    def key(self) -> str:
        """Digest of the canonical call: equal calls share it, any other word changes it.

        The whole argv, the environment and the escalating rule count, so an answer about
        ``sh -c ls`` says nothing about ``sh -c id``.
        """
        parts = {
            "kind": type(self.request).__name__,
            "request": asdict(self.request, filter=lambda field, _: bool(field.eq)),
            "rule": [self.decision.layer, self.decision.rule],
            "env": sorted(self.env.items()),
            "agent": self.agent,
        }
        return sha256(json.dumps(parts, sort_keys=True).encode())


@frozen
class Answer:
    """What became of a question.

    Arguments:
        outcome: only ``allowed`` lets the call run.
        scope: what else it settles: nothing, equal calls of this run, or (where a store of
            grants exists) equal calls of later runs.
        by: who answered, such as ``tty``; "" when nobody did.
    """

    outcome: Outcome
    scope: Scope = "once"
    by: str = ""

    @property
    def allowed(self) -> bool:
        """Whether the call may run."""
        return self.outcome == "allowed"

    @staticmethod
    def yes(by: str, scope: Scope = "once") -> Answer:
        """A person's yes."""
        return Answer("allowed", scope, by)

    @staticmethod
    def no(by: str, scope: Scope = "once") -> Answer:
        """A person's no."""
        return Answer("denied", scope, by)


class Decider(Protocol):
    """One way to reach a person."""

    @property
    def name(self) -> str:
        """What the audit log calls it."""
        ...

    def available(self) -> bool:
        """Whether somebody could be asked this way right now."""
        ...

    async def decide(self, question: Question) -> Answer | None:
        """Ask, and return the answer, or None when nobody gave one.

        Cancelled when the question is settled elsewhere or has run out of time.
        """
        ...


class Asker(Protocol):
    """Where the kernel takes a question: a broker here, or the supervisor's from a box."""

    async def ask(self, question: Question) -> Answer:
        """Wait for the answer. Never raises a denial; AuditError when it cannot be recorded."""
        ...

    def ask_sync(self, question: Question) -> Answer:
        """The same for code without an event loop."""
        ...


def as_data(question: Question) -> dict[str, Any]:
    """The question as JSON data, for the audit log and for other processes."""
    request = question.request
    if isinstance(request, ToolRequest):
        # Below, among the fields, secrets are known by their names; in a text they are not.
        request = evolve(request, spelled="")
    return {
        "id": question.id,
        "agent": question.agent,
        "action": request.action,
        "cwd": question.cwd,
        "request": request_fields(question.request),
        "env_names": sorted(question.env),
        "code": question.decision.code,
        "rule": question.decision.rule,
        "layer": question.decision.layer,
        "decision_id": question.decision_id,
    }
