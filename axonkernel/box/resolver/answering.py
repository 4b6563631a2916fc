"""What the box's questions about names are answered: what is granted, and nothing else.

A name that is not granted is never asked about outside. The addresses of one that is are in the
table's sets before they are in the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from axonkernel.box.model import BoxPlan, NetPlan
from axonkernel.box.resolver import svcb, wire
from axonkernel.box.resolver.admitting import Admission
from axonkernel.box.resolver.asker import Askers
from axonkernel.box.resolver.flow import Flow
from axonkernel.box.resolver.granted import Granted, is_host_name
from axonkernel.box.resolver.made_up import MadeUp
from axonkernel.box.resolver.sets import Full, Sets
from axonkernel.box.resolver.spans import Span, less
from axonkernel.box.resolver.telling import Tell
from axonkernel.box.resolver.upstream import Upstream
from axonkernel.box.resolver.wire import Answer, Question, Record
from axonkernel.errors import BoxError
from axonkernel.typed import NamedTuple

__all__ = ["LEAST_S", "MOST_S", "Answering"]

#: For so long at least, and at most, an address can be reached after its name was asked for.
LEAST_S, MOST_S = 30, 3600
_MOST_ALIASES = 16
#: Names that wait for a person at one time, and questions about each.
_MOST_HELD = 32
_ANSWERED = (wire.A, wire.AAAA, wire.HTTPS, wire.SVCB)
#: This machine's, and the box's host name, which the host's /etc/hosts does not have.
_OWN_NAMES = ("localhost", BoxPlan().hostname)
_LOCAL = {wire.A: "127.0.0.1", wire.AAAA: "::1"}
_EVERY_PORT = (Span("tcp", 1, 65535), Span("udp", 1, 65535))

#: Takes the answer's bytes.
Reply = Callable[[bytes], object]


class _Asked(NamedTuple):
    """A question on its way: the names it may mean, those that were tried left out, and the
    port that it came from."""

    question: Question
    names: tuple[str, ...]
    reply: Reply
    stream: bool
    port: int


class Answering:
    """Answers one question after the other; the answers come when the host's resolver has."""

    def __init__(
        self,
        net: NetPlan,
        upstream: Upstream,
        sets: Sets,
        tell: Tell,
        made_up: MadeUp | None = None,
    ) -> None:
        self.granted = Granted(net)
        self._dns = net.dns
        self._admission = Admission(net)
        self._upstream = upstream
        self._sets = sets
        self._made_up = made_up
        self._tell = tell
        self._flow = Flow()
        self._askers = Askers()
        #: Questions about names that a person is asked about.
        self._held: dict[str, list[_Asked]] = {}

    def answer(self, data: bytes, reply: Reply, *, stream: bool, port: int) -> None:
        """Answer a message of the box. Raises Malformed for what cannot be answered."""
        question = wire.read_question(data)
        asked = _Asked(question, self._meant(question.name), reply, stream, port)
        if question.opcode or not question.asked:
            self._say(asked, wire.NOTIMP if question.opcode else wire.FORMERR)
        elif question.name in _OWN_NAMES or question.name.endswith(".localhost"):
            self._say(asked, wire.NOERROR, _loopback(question))
        elif question.kind == wire.PTR:
            self._say(asked, wire.NXDOMAIN)  # nothing tells it, and programs ask by the way
        elif self._waits_for_a_person(asked):
            self._hold(asked)
        elif not asked.names:
            self._refuse(asked, wire.NXDOMAIN)
        elif not self._flow.takes(question.name, self.granted):
            self._refuse(asked, wire.REFUSED)
        elif question.klass == 1 and (question.kind in _ANSWERED or self._dns == "open"):
            self._ask(asked)
        else:
            self._refuse(asked, wire.REFUSED)

    def grant(self, host: str, protocol: str, ports: str) -> None:
        """Answer a name from now on: a person said so."""
        self.granted.add(host, protocol, ports)
        for asked in self._held.pop(host, ()):
            self._ask(asked._replace(names=(host,)))

    def refuse(self, host: str) -> None:
        """Answer those who wait for a person that it is no."""
        for asked in self._held.pop(host, ()):
            self._refuse(asked, wire.NXDOMAIN)

    def _waits_for_a_person(self, asked: _Asked) -> bool:
        name = asked.question.name
        return (
            self._dns != "off"
            and asked.question.kind in _LOCAL
            and self.granted.asks(name)
            and self.granted.waits(name)
            and (name in self._held or len(self._held) < _MOST_HELD)
        )

    def _hold(self, asked: _Asked) -> None:
        held = self._held.setdefault(asked.question.name, [])
        del held[:-_MOST_HELD]
        held.append(asked)
        self._tell.asked(asked.question.name)

    def _meant(self, name: str) -> tuple[str, ...]:
        """The names that are granted among those that a name may be short for."""
        search = self._upstream.settings.search if "." not in name else ()
        names = (*(f"{name}.{domain}" for domain in search), name)
        return tuple(each for each in names if is_host_name(each) and self._is_answered(each))

    def _is_answered(self, name: str) -> bool:
        if self._dns == "off":
            return False
        return self._dns == "open" or bool(self.granted.spans(name))

    def _say(
        self, asked: _Asked, rcode: int, records: Iterable[Record] = (), *, blocked: bool = False
    ) -> None:
        answer = wire.write_answer(
            asked.question, rcode, records, blocked=blocked, stream=asked.stream
        )
        asked.reply(answer)

    def _refuse(self, asked: _Asked, rcode: int) -> None:
        question = asked.question
        usual = question.kind in _ANSWERED
        protocol = "dns" if usual else f"dns/{wire.kind_text(question.kind)}"
        program = self._askers.program(asked.port, stream=asked.stream)
        self._tell.refused(question.name, protocol=protocol, program=program)
        self._say(asked, rcode, blocked=True)

    # -- granted names ------------------------------------------------------------------------

    def _ask(self, asked: _Asked) -> None:
        if self._made_up is not None:
            self._make_up(asked, self._made_up)
            return
        name, *rest = asked.names
        later = asked._replace(names=tuple(rest))

        def done(answer: Answer | None) -> None:
            if later.names and (answer is None or not answer.records):
                self._ask(later)
            else:
                self._conclude(asked, name, answer)

        self._upstream.ask(name, asked.question.kind, done)

    def _make_up(self, asked: _Asked, made_up: MadeUp) -> None:
        """A proxy resolves the name: its address here is one that leads to the relay."""
        name, kind = asked.names[0], asked.question.kind
        address = made_up.address(name)
        spans = [span for span in self.granted.spans(name) if span.protocol == "tcp"]
        if kind != wire.A or not spans:
            self._say(asked, wire.NOERROR)
            return
        try:
            if address is None:
                raise Full
            self._sets.let([address], spans, MOST_S)
        except (Full, BoxError):
            self._tell.refused(name)
            self._say(asked, wire.SERVFAIL, blocked=True)
            return
        self._tell.answered(name, address)
        self._say(
            asked,
            wire.NOERROR,
            [*_short(asked.question.name, name), Record(name, kind, LEAST_S, address)],
        )

    def _conclude(self, asked: _Asked, name: str, answer: Answer | None) -> None:
        question = asked.question
        if answer is None or answer.rcode not in (wire.NOERROR, wire.NXDOMAIN):
            self._say(asked, wire.SERVFAIL)
            return
        if question.kind not in _ANSWERED:
            asked.reply(_as_it_came(question, answer, stream=asked.stream))
            return
        try:
            chain = [*_short(question.name, name), *_chain(answer.records, name)]
            last = str(chain[-1].value) if chain else name
            records = [r for r in answer.records if (r.name, r.kind) == (last, question.kind)]
            if question.kind in _LOCAL:
                kept = self._admit(question.name, name, chain, records)
            else:
                kept = list(self._without_hints(name, records))
        except (Full, BoxError, ValueError):
            self._tell.refused(question.name)
            self._say(asked, wire.SERVFAIL, blocked=True)
            return
        dropped = len(kept) < len(records)
        self._say(asked, answer.rcode, [*chain, *kept], blocked=dropped and not kept)

    def _admit(
        self, asked: str, name: str, chain: list[Record], records: list[Record]
    ) -> list[Record]:
        """The records whose addresses may be reached, which they can be from now on."""
        names = {name, *(str(alias.value) for alias in chain)}
        denied = [span for each in names for span in self.granted.denied(each)]
        spans = tuple(less(self.granted.spans(name), denied))
        kept: list[Record] = []
        lets: dict[tuple[Span, ...], list[str]] = {}
        for record in records:
            address = str(record.value)
            # Where any name is answered, one that is not granted opens nothing.
            judged = spans or (_EVERY_PORT if self._dns == "open" else ())
            verdict = self._admission.judge(address, judged, denied)
            if not verdict.kept:
                self._tell.refused(asked, address)
                continue
            kept.append(record._replace(ttl_s=min(record.ttl_s, MOST_S)))
            self._tell.answered(asked, address)
            if spans and verdict.spans:
                lets.setdefault(verdict.spans, []).append(address)
        for_s = max([LEAST_S, *(record.ttl_s for record in kept)])
        for ports, addresses in lets.items():
            self._sets.let(addresses, ports, for_s)
        return kept

    def _without_hints(self, name: str, records: list[Record]) -> Iterator[Record]:
        spans = self.granted.spans(name)
        ports = [range(span.low, span.high + 1) for span in spans if span.protocol == "tcp"]
        for record in records:
            value = svcb.kept(record.value, ports) if isinstance(record.value, bytes) else None
            if value is not None:
                yield record._replace(value=value)


def _loopback(question: Question) -> list[Record]:
    address = _LOCAL.get(question.kind)
    return [] if address is None else [Record(question.name, question.kind, LEAST_S, address)]


def _short(asked: str, name: str) -> Iterator[Record]:
    """What says that a short name stands for another."""
    if asked != name:
        yield Record(asked, wire.CNAME, LEAST_S, name)


def _chain(records: Iterable[Record], name: str) -> list[Record]:
    """The aliases that lead on from a name, in their order. Raises ValueError for too many."""
    aliases = {each.name: each for each in records if each.kind == wire.CNAME}
    chain: list[Record] = []
    while alias := aliases.get(name):
        chain.append(alias._replace(ttl_s=min(alias.ttl_s, MOST_S)))
        name = str(alias.value)
        if len(chain) > _MOST_ALIASES or not is_host_name(name):
            raise ValueError("aliases without an end")
    return chain


def _as_it_came(question: Question, answer: Answer, *, stream: bool) -> bytes:
    """An answer of a kind that nothing is known of, where any name may be asked about."""
    if not stream and len(answer.raw) > question.most_bytes:
        cut = wire.write_answer(question, wire.NOERROR)
        return cut[:2] + bytes((cut[2] | 2,)) + cut[3:]
    head = question.id.to_bytes(2, "big") + answer.raw[2:12]
    return head + question.asked + answer.raw[12 + len(question.asked) :]
