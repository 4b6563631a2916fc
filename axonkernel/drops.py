"""What a box was refused on the network, on its supervisor's side.

Each destination and each name is recorded once, as it happens. What ``net.escalate`` names is
taken to a person; what they let through can be reached for the rest of the run, and what they
do not is not asked about again.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from axonkernel.audit import AuditSink
from axonkernel.audit.fields import request_fields
from axonkernel.box.launch import BoxProcess
from axonkernel.box.model import AskPlan, BoxResult, NetPlan, Refusal
from axonkernel.broker.standstill import Standstill
from axonkernel.errors import AuditError
from axonkernel.escalation import Answer, Broker, Question
from axonkernel.escalation import Terminal as Person
from axonkernel.policy.match import Destination, parse_destination
from axonkernel.policy.model import NetPolicy
from axonkernel.policy.request import AnyRequest, ConnectRequest, Decision, ToolRequest
from axonkernel.policy.rules.net import NetRules, canonical_target
from axonkernel.policy.url import parse_url

if TYPE_CHECKING:
    from axonkernel.box.pty import Terminal

__all__ = ["Ask", "Asking", "Drops", "Told", "person"]

#: Takes a question of a box to a person, and waits; the box's clock stands still meanwhile.
Ask = Callable[[BoxProcess, Question], Answer]

#: Questions of one box that wait at one time; those of a flood are no, or nothing.
_MOST_WAITING = 32
#: How often a destination is asked about when nobody answers.
_MOST_ASKED = 3
#: Instead of that number: somebody has answered, or is being asked.
_SETTLED, _ASKING = -1, -2

Told = Callable[[tuple[Refusal, ...]], None]
_Destination = tuple[ConnectRequest, Decision]


class Drops:
    """Takes what is told of one box, by the thread that waits for it.

    Arguments:
        audit: takes a ``net.drop`` record for each destination and each name.
        agent: whose box it is, for records and prompts.
        net: the network of the box.
        ask: takes questions to a person; needed where ``net.ask`` is there.
        fields: added to each record, such as the ``decision_id`` of a call.
    """

    def __init__(
        self, audit: AuditSink, agent: str, net: NetPlan | None, ask: Ask | None, **fields: Any
    ) -> None:
        self._audit = audit
        self._agent = agent
        self._ask = ask
        self._fields = fields
        self._rules = _Asked(net.ask) if ask and net is not None and net.ask is not None else None
        self._recorded: set[tuple[str, str, int, str]] = set()
        self._lock = threading.Lock()
        self._waiting = 0
        self._number = 0
        self._reports: dict[int, Told] = {}
        #: How often each was asked about, or one of the numbers above.
        self._tries: dict[ConnectRequest, int] = {}

    def heard(self, box: BoxProcess, event: dict[str, Any]) -> None:
        """Take an event of ``box``. One that cannot be recorded ends the box."""
        for refusal in (Refusal(*each) for each in event["refused"]):
            try:
                self._record(refusal)
            except AuditError:  # the record of its end cannot be written either, and says so
                box.kill()
            if self._rules is not None and refusal.address:
                self._consider(box, "", self._rules.about(refusal))
        if (number := event.get("report")) is not None:
            with self._lock:
                told = self._reports.pop(number, None)
            if told is not None:
                told(tuple(Refusal(*each) for each in event["refused"]))
        for name in event.get("asked", ()):
            asked = () if self._rules is None else self._rules.named(name)
            self._consider(box, name, asked)

    def report(self, box: BoxProcess, since_s: float, told: Told) -> None:
        """Have ``told`` called with all that ``box`` was refused since a moment (seconds since
        1970), by the thread that waits for it."""
        with self._lock:
            number = self._number = self._number + 1
            full = len(self._reports) >= _MOST_WAITING
            if not full:
                self._reports[number] = told
        if full:
            told(())
        else:
            box.report(number, since_s)

    def allowed(self, box: BoxProcess, request: AnyRequest) -> None:
        """Let ``box`` reach what ``request`` reaches, which a person has let through."""
        if self._rules is not None:
            for destination in self._rules.reached(request):
                with self._lock:
                    self._tries[destination] = _SETTLED
                box.grant(destination.host, destination.protocol, destination.ports)

    def ended(self, result: BoxResult) -> None:
        """Record what was only seen at the end. Raises AuditError."""
        for refusal in result.denied:
            self._record(refusal)

    def _record(self, refusal: Refusal) -> None:
        if refusal[:4] not in self._recorded:
            self._recorded.add(refusal[:4])
            self._audit.record("net.drop", agent=self._agent, **self._fields, **refusal._asdict())

    def _consider(self, box: BoxProcess, name: str, asked: Iterable[_Destination]) -> None:
        """Have a person asked about what was not asked about yet.

        Arguments:
            name: waits for the answer in the box; "" where nothing does.
        """
        with self._lock:
            before = [(each, self._tries.get(each[0], 0)) for each in asked]
            if any(tries == _ASKING for _, tries in before):
                return  # what waits is told with the answer to that
            new = [(each, tries + 1) for each, tries in before if 0 <= tries < _MOST_ASKED]
            if self._waiting >= _MOST_WAITING:
                new = []
            self._tries |= {request: _ASKING for (request, _), _ in new}
            self._waiting += bool(new)
        if new:
            work = (box, name, new)
            threading.Thread(target=self._settle, args=work, daemon=True).start()
        elif name:
            box.refuse(name)

    def _settle(self, box: BoxProcess, name: str, asked: list[tuple[_Destination, int]]) -> None:
        allowed = [self._is_allowed(box, *each, tries) for each, tries in asked]
        with self._lock:
            self._waiting -= 1
        if name and not any(allowed):
            box.refuse(name)

    def _is_allowed(
        self, box: BoxProcess, request: ConnectRequest, decision: Decision, tries: int
    ) -> bool:
        try:
            answer = self._answer(box, request, decision)
        except AuditError:
            answer = Answer("headless")
        with self._lock:
            self._tries[request] = tries if answer.outcome == "timeout" else _SETTLED
        if answer.allowed:
            box.grant(request.host, request.protocol, request.ports)
        return answer.allowed

    def _answer(self, box: BoxProcess, request: ConnectRequest, decision: Decision) -> Answer:
        identity = self._audit.record(
            "decision",
            agent=self._agent,
            **self._fields,
            verdict=decision.verdict,
            code=decision.code,
            rule=decision.rule,
            layer=decision.layer,
            detail=decision.detail,
            request=request_fields(request),
        )
        asked = Question(os.urandom(16).hex(), request, decision, identity, self._agent)
        assert self._ask is not None
        return self._ask(box, asked)


class Asking:
    """Asks for one box, whose clock stands still meanwhile.

    Arguments:
        ask: takes a question to a person, and waits.
        terminal: the box's own, whose keys are answers meanwhile.
        still: what others who ask for the same box use as well.
    """

    def __init__(
        self,
        ask: Callable[[Question], Answer],
        terminal: Terminal | None = None,
        still: Standstill | None = None,
    ) -> None:
        self._ask = ask
        self._terminal = terminal
        self._still = Standstill() if still is None else still

    def __call__(self, box: BoxProcess, question: Question) -> Answer:
        """The person's answer. Raises AuditError."""
        with self._still.while_asking(box, self._terminal):
            return self._ask(question)


def person(audit: AuditSink, plan: AskPlan) -> Broker:
    """What asks on the terminal that this process was started from."""
    return Broker([Person()], audit=audit, timeout_s=plan.timeout_s, headless=plan.headless)


_FETCH = "http.fetch"


def _fetched(request: ToolRequest) -> list[ConnectRequest]:
    """Where a call of ``http.fetch`` connects to, by its own arguments."""
    with suppress(ValueError, KeyError, TypeError):
        url = parse_url(json.loads(request.args)["url"])
        return [ConnectRequest(url.host, url.port)]
    return []


class _Asked:
    """What ``net.escalate`` says of refused destinations."""

    def __init__(self, plan: AskPlan) -> None:
        policy = NetPolicy(allow=(), deny=plan.deny, escalate=plan.escalate)
        self._rules = NetRules(policy, layer="policy", absent="")
        self._entries = [parse_destination(entry) for entry in plan.escalate]

    def reached(self, request: AnyRequest) -> Iterator[ConnectRequest]:
        """The destinations of a request that a person decides about, as they were shown: what
        a box says of its tools beside their arguments counts for nothing."""
        found = [request] if isinstance(request, ConnectRequest) else []
        if isinstance(request, ToolRequest) and request.name == _FETCH:
            found = _fetched(request)
        yield from (each for each in found if not each.last and self._decision(each) is not None)

    def about(self, refusal: Refusal) -> Iterator[_Destination]:
        """The destination of refused packets, where a person decides about it."""
        if refusal.protocol not in ("tcp", "udp") or not refusal.port:
            return
        protocol: Literal["tcp", "udp"] = "udp" if refusal.protocol == "udp" else "tcp"
        # A name that is answered for one port is asked about when another is tried.
        for host in filter(None, (refusal.address, refusal.name)):
            request = ConnectRequest(host, refusal.port, protocol)
            if (decision := self._decision(request)) is not None:
                yield request, decision
                return

    def named(self, name: str) -> Iterator[_Destination]:
        """The destinations that a name may be asked about for, whose ports are not known yet."""
        for entry in self._entries:
            if entry.kind in ("any", "public") or _names(entry, name):
                last = entry.high if entry.high != entry.low else 0
                request = ConnectRequest(name, entry.low, entry.protocol, last=last)
                if (decision := self._decision(request)) is not None:
                    yield request, decision

    def _decision(self, request: ConnectRequest) -> Decision | None:
        try:
            decision = self._rules.judge(request, canonical_target(request.host))
        except ValueError:
            return None
        return decision if decision.verdict == "escalate" else None


def _names(entry: Destination, name: str) -> bool:
    if entry.kind == "wildcard":
        return name.endswith(entry.host[1:])
    return entry.kind == "name" and entry.host == name
