"""The supervisor's desk: takes what comes out of a box, one thread, nothing on trust."""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
from collections.abc import Iterable
from contextlib import AbstractContextManager
from functools import reduce
from typing import TYPE_CHECKING, Any

from attrs import evolve

from axonkernel.audit import AuditLog
from axonkernel.box.channel import Channel, ChannelClosed
from axonkernel.box.launch import BoxProcess
from axonkernel.box.model import NetPlan, Refusal
from axonkernel.box.pty import Terminal
from axonkernel.broker.standstill import Standstill
from axonkernel.drops import Drops
from axonkernel.errors import AuditError
from axonkernel.escalation import Answer, Broker, Question
from axonkernel.escalation import Terminal as Asker
from axonkernel.knowledge import added_profiles
from axonkernel.policy.decide import BoxGrants, Stack, compile
from axonkernel.policy.meet import meet
from axonkernel.policy.model import Policy
from axonkernel.process import Lookup

if TYPE_CHECKING:
    from axonkernel.broker.judge import Judge

__all__ = ["Desk"]

_IDENTITY = re.compile(r"[0-9a-f]{16}\Z")
#: The supervisor's own words in a record, which a box cannot choose.
_RESERVED = frozenset({"id", "at", "kind", "source", "agent", "prev", "hash"})
#: What a box may record: what its own mediator decided and started.
_KINDS = frozenset(
    {"decision", "narrowing.clamped", "request.walls", "process.ended", "process.failed"}
)
#: Records one run may leave; a box must not fill the disk of its supervisor.
MOST_RECORDED_BYTES = 64 * 1024 * 1024
#: Questions of one box that are looked at together; a flood of them is no, unread.
MAX_ASKING = 64


class Desk:
    """Answers one box.

    Attributes:
        audit: takes every record of the run.
        stack: the rules of this side.
        broker: takes questions to a person.
        outcome: the last ``result`` or ``error`` message, None before.
        fault: how the box broke the protocol and was ended for it, or "".
        drops: takes what the box is refused on the network.
    """

    def __init__(
        self,
        agent: str,
        run: str,
        layers: Iterable[tuple[str, Policy]],
        grants: BoxGrants,
        audit: AuditLog,
        box: BoxProcess,
        channel: Channel,
        terminal: Terminal | None = None,
        net: NetPlan | None = None,
    ) -> None:
        self.outcome: dict[str, Any] | None = None
        self.fault = ""
        self._agent = agent
        self._run = run
        self._left_bytes = MOST_RECORDED_BYTES
        self.audit = audit
        self._box = box
        self._channel = channel
        self._terminal = terminal
        channel.distrust()
        self._sending = threading.Lock()
        policies = list(layers)
        path = Lookup(reduce(meet, (policy for _, policy in policies)), dict(os.environ)).path
        self.stack = Stack(
            tuple(
                compile(p, layer=name, path=path, boxed=grants, profiles=added_profiles(p))
                for name, p in policies
            )
        )
        rules = policies[-1][1].escalation
        self.broker = Broker(
            [Asker()], audit=audit, timeout_s=rules.timeout_s, headless=rules.headless
        )
        self.drops = Drops(audit, agent, net, lambda _, question: self._ask_person(question))
        self._still = Standstill()
        self._slots = threading.BoundedSemaphore(MAX_ASKING)
        self._thread = threading.Thread(target=self._serve, name="axonkernel-desk", daemon=True)

    def judge(self) -> Judge:
        """What judges the calls of programs that run only outside the box."""
        from axonkernel.broker.judge import Judge

        return Judge(self.stack, self.audit, self.broker, self._agent, self.while_asking)

    def open(self, hello: dict[str, Any], request: Any) -> None:
        """Say hello, hand over the one request, and take what comes."""
        with contextlib.suppress(ChannelClosed):  # the agent ended first; wait() tells how
            self._send(hello)
            self._send({"type": "request", "value": request})
        self._thread.start()

    def close(self) -> None:
        """Stop answering; what still waits for a person is denied."""
        self.broker.close()
        self._thread.join(timeout=5)
        self._channel.close()

    def _serve(self) -> None:
        try:
            while True:
                message, _ = self._channel.receive()
                self._take(message)
        except ChannelClosed:
            return
        except (ArithmeticError, KeyError, RecursionError, TypeError, ValueError) as error:
            self.fault = f"it broke the protocol ({error})"
            self._box.kill()  # nothing it says counts

    def _take(self, message: dict[str, Any]) -> None:
        match message["type"]:
            case "audit":
                self._record(message)
            case "ask":
                self._take_question(int(message["number"]), message["question"])
            case "refused":
                self._tell_refused(int(message["number"]), float(message["since_s"]))
            case "result":
                self._end({"type": "result", "value": message["value"]})
            case "error":
                self._end({"type": "error", "text": str(message["text"])})
            case other:
                raise ValueError(f"unknown message {other!r}")

    def _record(self, message: dict[str, Any]) -> None:
        identity, kind = message["id"], message["kind"]
        if not (isinstance(identity, str) and _IDENTITY.match(identity)):
            raise ValueError("a record without an id")
        if not identity.startswith(self._run) or kind not in _KINDS:
            raise ValueError(f"a record of {kind!r} that is not its own to make")
        fields = {k: v for k, v in dict(message["fields"]).items() if k not in _RESERVED}
        self._left_bytes -= len(json.dumps(fields))
        try:
            if self._left_bytes < 0:
                raise AuditError("one run may not record more")
            self.audit.record(kind, id=identity, source="box", agent=self._agent, **fields)
            self._send({"type": "ack"})
        except AuditError:
            self._send({"type": "failed"})

    def _tell_refused(self, number: int, since_s: float) -> None:
        """Answer with what the box was refused since a moment, once that is known."""

        def tell(refused: tuple[Refusal, ...]) -> None:
            with contextlib.suppress(ChannelClosed):
                self._send({"type": "answer", "number": number, "answer": refused})

        self.drops.report(self._box, since_s, tell)

    def _end(self, outcome: dict[str, Any]) -> None:
        self.outcome = outcome
        self._send({"type": "end"})

    def _take_question(self, number: int, data: Any) -> None:
        if self._slots.acquire(blocking=False):
            threading.Thread(target=self._ask, args=(number, data), daemon=True).start()
        else:
            self._send(_reply(number, Answer("headless", by="supervisor")))

    def _ask(self, number: int, data: Any) -> None:
        try:
            reply = _reply(number, self._answer(data))
        except AuditError:
            reply = {"type": "failed"}
        finally:
            self._slots.release()
        with contextlib.suppress(ChannelClosed):
            self._send(reply)

    def _answer(self, data: Any) -> Answer:
        from axonkernel.supervisor.wire import question_from

        try:
            question = question_from(data, os.urandom(16).hex(), self._agent)
        except ValueError:
            return Answer("denied", by="supervisor")
        # The agent owns its process: what it says escalates is judged again out here, and
        # the rule that is shown, and that equal calls are known by, is ours.
        decision = self.stack.decide(question.request)
        if decision.verdict != "escalate":
            return Answer("denied", by="supervisor")
        answer = self._ask_person(evolve(question, decision=decision))
        if answer.allowed:
            self.drops.allowed(self._box, question.request)
        return answer

    def _ask_person(self, question: Question) -> Answer:
        with self.while_asking():
            return self.broker.ask_sync(question)

    def while_asking(self) -> AbstractContextManager[None]:
        """The box's clock stands still and keys are answers, for as long as a question waits."""
        return self._still.while_asking(self._box, self._terminal)

    def _send(self, message: dict[str, Any]) -> None:
        with self._sending:
            self._channel.send(message)


def _reply(number: int, answer: Answer) -> dict[str, Any]:
    from axonkernel.supervisor.wire import answer_data

    return {"type": "answer", "number": number, "answer": answer_data(answer)}
