"""The side inside the box: records and questions go out, requests come in.

``main`` is the first thing an agent's box runs; until the handshake is done nothing but the
standard library is loaded.
"""

from __future__ import annotations

import gc
import os
import runpy
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING, Any

from axonkernel.box import child
from axonkernel.box.channel import Channel, ChannelClosed
from axonkernel.errors import AuditError, AxonError, PolicyError

if TYPE_CHECKING:
    from axonkernel.agent import Agent
    from axonkernel.box.model import Refusal
    from axonkernel.escalation.question import Answer, Question
    from axonkernel.kernel import Kernel

__all__ = ["Link", "main", "serve"]

#: Records on their way that no acknowledgement has come for.
MAX_UNACKNOWLEDGED = 64


def main() -> None:
    """Run the agent's entry file, then serve its agent. Exits with the run's code."""
    session = child.handshake()
    try:
        _import_mediator()
        code = _run(session)
    except (Exception, KeyboardInterrupt) as error:
        from axonkernel.supervisor.ended import told

        code = told(error)
    sys.exit(code)


def _run(session: child.Session) -> int | str:
    entry = session.hello["entry"]
    sys.argv = [entry, *session.hello["words"]]
    sys.path.insert(0, os.path.dirname(entry))
    names = runpy.run_path(entry, run_name=session.hello["run_name"])
    if session.hello["run_name"] == "__main__":
        return 0  # it called agent.run() itself, or did not want to
    from axonkernel.agent import Agent

    agents = [value for value in names.values() if isinstance(value, Agent)]
    if not agents:
        return f"axonkernel: {entry} defines no agent; fix: agent = define_agent(...)"
    return serve(session, agents[0])


def _import_mediator() -> None:
    """What every agent needs, without a collector that looks for garbage among modules: not
    now, nor at the end, where that takes 13 ms."""
    gc.disable()
    for module in ("axonkernel.agent", "axonkernel.kernel", "axonkernel.policy.parse", "asyncio"):
        import_module(module)
    gc.freeze()
    gc.enable()


def serve(session: child.Session, agent: Agent) -> int:
    """Hand each request from the supervisor to the agent's handler, until it says end.

    Returns 0 when the last handler returned, 1 when it raised.
    """
    link = Link(session.channel)
    kernel = _kernel(session.hello, agent, link)
    _tell_lost(agent)
    code = 0
    try:
        with _interruptible(link):
            while (message := link.next_request()) is not None:
                code = _answer(kernel, link, message)
    except Exception as error:  # told here: in a script, agent.run() is a frame of its own
        from axonkernel.supervisor.ended import told

        code = told(error)
    finally:
        kernel.close()
    return code


def _tell_lost(agent: Agent) -> None:
    """Say before the first request that none can be narrowed, where that is so. Others can be
    served, so it is no error yet."""
    try:
        agent.origin(agent.confine)
    except PolicyError as error:
        sys.stderr.write(f"axonkernel: no request of {agent.name} can be narrowed: {error}\n")


@contextmanager
def _interruptible(link: Link) -> Iterator[None]:
    """Let ^C end what waits for a person as well: no event loop can cancel a thread."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        yield  # the agent has its own
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        link.give_up()
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _answer(kernel: Kernel, link: Link, message: dict[str, Any]) -> int:
    try:
        value = kernel.request_sync(message["value"])
    except AxonError as error:
        described = getattr(error, "as_dict", None)
        fields = described() if described is not None else {"error": type(error).__name__}
        link.send({"type": "error", "text": str(error), "fields": fields})
        return 1
    link.send({"type": "result", "value": _plain(value)})
    return 0


def _plain(value: Any) -> Any:
    """A result as JSON data; what is not JSON data is shown as text."""
    import json

    return json.loads(json.dumps(value, default=str))


def _kernel(hello: dict[str, Any], agent: Agent, link: Link) -> Kernel:
    from axonkernel.box.model import PostureField
    from axonkernel.policy.decide import BoxGrants
    from axonkernel.policy.parse import parse

    layers = [
        (name, parse(data, base="/", home=os.environ.get("HOME"), source=name))
        for name, data in hello["layers"]
    ]
    return agent.kernel(
        layers=layers,
        audit=RemoteAudit(link, hello["run"]),
        asker=RemoteAsker(link),
        cwd=agent.base if os.path.isdir(agent.base) else os.getcwd(),
        boxed=BoxGrants(**{name: tuple(paths) for name, paths in hello["grants"].items()}),
        posture=tuple(PostureField(*row) for row in hello["posture"]),
        refused=RemoteDrops(link) if hello["walled"] else None,
    )


class Link:
    """The channel, shared by the agent's threads: one reader, answers by number."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._sending = threading.Lock()
        self._changed = threading.Condition()
        self._answers: dict[int, Any] = {}
        self._requests: list[dict[str, Any]] = []
        self._number = 0
        self._open_records = 0
        self._given_up = 0
        self._closed = False
        threading.Thread(target=self._read, name="axonkernel-link", daemon=True).start()

    def send(self, message: dict[str, Any]) -> None:
        """Send one message. Raises AuditError when the supervisor is gone."""
        try:
            with self._sending:
                self._channel.send(message)
        except ChannelClosed as error:
            raise AuditError("the supervisor is gone") from error

    def record(self, message: dict[str, Any]) -> None:
        """Send a record; waits only while too many have not been acknowledged."""
        with self._changed:
            self._changed.wait_for(lambda: self._open_records < MAX_UNACKNOWLEDGED or self._closed)
            if self._closed:
                raise AuditError("the supervisor does not take records any more")
            self._open_records += 1
        self.send(message)

    def ask(self, message: dict[str, Any]) -> Any:
        """Send a question and wait for its answer. Raises AuditError where none comes."""
        with self._changed:
            self._number += 1
            number, given_up = self._number, self._given_up
        self.send({**message, "number": number})
        with self._changed:
            self._changed.wait_for(
                lambda: number in self._answers or self._closed or self._given_up != given_up
            )
            if number not in self._answers:
                raise AuditError("the supervisor is gone" if self._closed else "interrupted")
            return self._answers.pop(number)

    def give_up(self) -> None:
        """Wait no longer for the answers that are waited for; also for signal handlers, since
        the lock is one that its thread may take again."""
        with self._changed:
            self._given_up += 1
            self._changed.notify_all()

    def next_request(self) -> dict[str, Any] | None:
        """The next request to serve; None when there will be none."""
        with self._changed:
            self._changed.wait_for(lambda: self._requests or self._closed)
            return self._requests.pop(0) if self._requests else None

    def _read(self) -> None:
        try:
            while True:
                message, _ = self._channel.receive()
                with self._changed:
                    if not self._take(message):
                        break
                    self._changed.notify_all()
        except ChannelClosed:
            pass
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _take(self, message: dict[str, Any]) -> bool:
        match message["type"]:
            case "request":
                self._requests.append(message)
            case "answer":
                self._answers[message["number"]] = message["answer"]
            case "ack":
                self._open_records -= 1
            case _:  # "end", or "failed": the audit log takes no more
                return False
        return True


class RemoteAudit:
    """The supervisor's audit log, from inside; see :class:`axonkernel.audit.AuditSink`."""

    def __init__(self, link: Link, run: str) -> None:
        self._link = link
        self._run = run

    def record(self, kind: str, /, **fields: Any) -> str:
        """Store one record outside. Raises AuditError when it cannot be."""
        identity = self._run + os.urandom(4).hex()
        self._link.record({"type": "audit", "id": identity, "kind": kind, "fields": fields})
        return identity


class RemoteAsker:
    """The supervisor's broker, from inside; see :class:`axonkernel.escalation.Asker`."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def ask(self, question: Question) -> Answer:
        """Have the supervisor ask, and wait."""
        import anyio.to_thread

        return await anyio.to_thread.run_sync(self.ask_sync, question)

    def ask_sync(self, question: Question) -> Answer:
        """Have the supervisor ask, and wait, blocking this thread."""
        from axonkernel.supervisor.wire import answer_from, question_data

        return answer_from(self._link.ask({"type": "ask", "question": question_data(question)}))


class RemoteDrops:
    """What this box was refused on the network, which only the supervisor knows."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._lock = threading.Lock()
        self._times: dict[tuple[str, str, int, str], int] = {}

    def __call__(self, since_s: float) -> tuple[Refusal, ...]:
        """What was refused since a moment (seconds since 1970) and was not told before."""
        from axonkernel.box.model import Refusal

        try:
            answer = self._link.ask({"type": "refused", "since_s": since_s})
        except AuditError:  # the next record says so
            return ()
        with self._lock:
            return tuple(filter(None, (self._new(Refusal(*each)) for each in answer)))

    def _new(self, refusal: Refusal) -> Refusal | None:
        before = self._times.get(refusal[:4], 0)
        self._times[refusal[:4]] = refusal.times
        return refusal._replace(times=refusal.times - before) if refusal.times > before else None
