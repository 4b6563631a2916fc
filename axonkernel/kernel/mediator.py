"""The checkpoint: judge, record, ask a person where the policy says so, let through."""

from __future__ import annotations

import os
from collections.abc import Mapping

from axonkernel.audit import AuditSink
from axonkernel.audit.fields import request_fields
from axonkernel.errors import AxonError, PolicyDenied
from axonkernel.escalation import Answer, Asker, Question
from axonkernel.escalation.concluded import concluded
from axonkernel.kernel.scope import Scope
from axonkernel.policy.request import (
    RETRYABLE,
    AnyRequest,
    Decision,
    ProcessRequest,
    ShellRequest,
    ToolRequest,
)
from axonkernel.telemetry import decide_span

__all__ = ["Mediator"]


class Mediator:
    """Decides about canonical requests and turns every answer but yes into an error.

    Arguments:
        audit: takes a record of each decision before anything follows from it.
        asker: takes escalations to a person.
        agent: who asks, for records and prompts.

    Attributes:
        agent: as given.
        closed: set at the end of the kernel; every call raises AxonError from then on.
    """

    def __init__(self, audit: AuditSink, asker: Asker, agent: str) -> None:
        self.audit = audit
        self._asker = asker
        self.agent = agent
        self.closed = False

    async def require(
        self,
        request: AnyRequest,
        scope: Scope,
        env: Mapping[str, str] | None = None,
        *,
        leave: bool = False,
    ) -> str:
        """Return the decision's record id when ``request`` may run.

        Arguments:
            request: canonical; exactly what will run.
            env: variables the call sets, shown to whoever is asked.
            leave: the question of an escalated one is asked by who starts it.

        Raises:
            PolicyDenied, EscalationDenied: it may not.
            AuditError: the decision could not be recorded, so it may not.
        """
        question = self._judge(request, scope, env)
        if isinstance(question, str):
            return question
        if leave:
            return question.decision_id
        return concluded(question, await self._asker.ask(question))

    def require_sync(
        self,
        request: AnyRequest,
        scope: Scope,
        env: Mapping[str, str] | None = None,
        *,
        leave: bool = False,
    ) -> str:
        """:meth:`require` for code without an event loop."""
        question = self._judge(request, scope, env)
        if isinstance(question, str):
            return question
        if leave:
            return question.decision_id
        return concluded(question, self._asker.ask_sync(question))

    def ask(self, question: Question) -> Answer:
        """Take a question to a person, and wait, blocking this thread. Raises AuditError."""
        return self._asker.ask_sync(question)

    def refuse(self, request: AnyRequest, decision: Decision) -> PolicyDenied:
        """The recorded denial of ``request`` for a reason no ruleset knows."""
        return self._denied(request, decision, self._record(request, decision))

    def _judge(
        self, request: AnyRequest, scope: Scope, env: Mapping[str, str] | None
    ) -> str | Question:
        """The record id of an allowed request, or the question of an escalated one."""
        if self.closed:
            raise AxonError("the kernel is closed: the call did not run")
        with decide_span(_name(request)) as span:
            decision = scope.decide(request)
            if span is not None:
                span.set_attribute("axon.verdict", decision.verdict)
                span.set_attribute("axon.code", decision.code)
        identity = self._record(request, decision)
        if decision.verdict == "allow":
            return identity
        if decision.verdict == "escalate":
            return Question(
                os.urandom(16).hex(), request, decision, identity, self.agent, dict(env or {})
            )
        raise self._denied(request, decision, identity)

    def _record(self, request: AnyRequest, decision: Decision) -> str:
        return self.audit.record(
            "decision",
            agent=self.agent,
            verdict=decision.verdict,
            code=decision.code,
            rule=decision.rule,
            layer=decision.layer,
            detail=decision.detail,
            request=request_fields(request),
        )

    def _denied(self, request: AnyRequest, decision: Decision, identity: str) -> PolicyDenied:
        return PolicyDenied(decision.code, request.action, decision.code in RETRYABLE, identity)


def _name(request: AnyRequest) -> str:
    """What a span may be called: no words of the call, which can hold anything."""
    if isinstance(request, ToolRequest):
        return request.name
    if isinstance(request, ProcessRequest):
        return "process.spawn" if request.spawn else "process.run"
    return "process.run" if isinstance(request, ShellRequest) else "request"
