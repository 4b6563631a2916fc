"""Judge a call of a brokered program: decide, record, ask a person where the policy says so."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import anyio

from axonkernel.audit import AuditSink
from axonkernel.audit.fields import request_fields
from axonkernel.box.find import Program
from axonkernel.errors import AuditError, PolicyDenied
from axonkernel.escalation import Answer, Broker, Question
from axonkernel.escalation.concluded import concluded
from axonkernel.policy.decide import Stack
from axonkernel.policy.request import RETRYABLE, Decision, ProcessRequest

__all__ = ["Judge"]

#: How often it is looked whether anybody still waits for an answer (seconds).
_LOOK_S = 0.05
#: Records that the calls of one box may leave, and what one takes beside its request.
MOST_RECORDED_BYTES = 64 * 1024 * 1024
_RECORD_BYTES = 1024


class Judge:
    """Decides about calls as the mediator does, outside the box, for code that never met one.

    Arguments:
        stack: the supervisor's own rules.
        audit: takes a record of each decision before anything follows from it.
        asker: takes escalations to a person.
        agent: who asks, for records and prompts.
        while_asking: holds clock and keys of the box that asks.
    """

    def __init__(
        self,
        stack: Stack,
        audit: AuditSink,
        asker: Broker,
        agent: str,
        while_asking: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._stack = stack
        self._audit = audit
        self._asker = asker
        self._agent = agent
        self._while_asking = while_asking
        self._lock = threading.Lock()
        self._left_bytes = MOST_RECORDED_BYTES

    def require(
        self,
        request: ProcessRequest,
        spellings: Iterable[str],
        env: Mapping[str, str],
        gone: Callable[[], bool],
    ) -> str:
        """Return the decision's record id when ``request`` may run; blocks while asking.

        Arguments:
            request: canonical; its first word is the policy's own name of the program.
            spellings: other names by which a policy may allow the same file.
            env: variables the caller sets, shown to whoever is asked.
            gone: whether nobody waits for the answer any more; a question is withdrawn then.

        Raises PolicyDenied, EscalationDenied, AuditError.
        """
        decision = self._decide(request, spellings)
        asked = request_fields(request)
        if not self.may_record(asked):
            raise AuditError("one run may not record more")
        identity = self._audit.record(
            "decision",
            source="broker",
            agent=self._agent,
            verdict=decision.verdict,
            code=decision.code,
            rule=decision.rule,
            layer=decision.layer,
            detail=decision.detail,
            request=asked,
        )
        if decision.verdict == "allow":
            return identity
        if decision.verdict == "deny":
            retryable = decision.code in RETRYABLE
            raise PolicyDenied(decision.code, request.action, retryable, identity)
        question = Question(
            secrets.token_hex(16), request, decision, identity, self._agent, dict(env)
        )
        with self._while_asking():
            answer = anyio.run(self._ask, question, gone)
        return concluded(question, answer)

    def ask(self, question: Question) -> Answer:
        """Take a question to a person, and wait, blocking this thread. Raises AuditError."""
        with self._while_asking():
            return self._asker.ask_sync(question)

    def may_record(self, said: Any) -> bool:
        """Whether one more record does not fill the disk of the supervisor.

        Arguments:
            said: JSON data in it that comes from the box.
        """
        with self._lock:
            self._left_bytes -= _RECORD_BYTES + len(json.dumps(said))
            return self._left_bytes >= 0

    def allows(self, program: Program, subcommand: str) -> bool:
        """Whether no rule about its words keeps a program from a subcommand that nobody asked
        for."""
        name = program.name.rpartition("/")[2]
        request = ProcessRequest((program.name, subcommand), resolved=program.file)
        decision = self._decide(request, (name, program.file))
        return decision.verdict == "allow" or decision.code != "shell.args"

    def _decide(self, request: ProcessRequest, spellings: Iterable[str]) -> Decision:
        """The verdict on the program by the first of its names that may run at all."""
        decision = self._stack.decide(request)
        for name in spellings:
            if decision.code != "shell.program" or decision.verdict != "deny":
                break
            argv = (name, *request.argv[1:])
            again = ProcessRequest(argv, request.cwd, False, request.env, request.resolved)
            decision = self._stack.decide(again)
        return decision

    async def _ask(self, question: Question, gone: Callable[[], bool]) -> Answer:
        answer = Answer("cancelled")

        async def withdraw() -> None:
            while not gone():
                await anyio.sleep(_LOOK_S)
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(withdraw)
            answer = await self._asker.ask(question)
            group.cancel_scope.cancel()
        return answer
