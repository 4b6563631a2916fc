"""The keeper of a box: what is masked, protected or not there stays so while the box runs.

The warden starts it before it enters any namespace of the box. It is two processes: the hand
(hand.py) in the box's mount namespace, and, where names are held that do not exist, the steward
(steward.py) on the host. Without a keeper the box must not go on: the warden ends it.

Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Callable

# Loaded once by whoever forks wardens, not by each keeper.
from axonkernel.box.channel import Channel, ChannelClosed, pair
from axonkernel.box.linux import die_with_parent
from axonkernel.box.model import BoxPlan, Kept
from axonkernel.box.stubs import Registry
from axonkernel.errors import BoxError
from axonkernel.typed import NoReturn

__all__ = ["Keeper", "fork_apart", "start", "sweep"]

#: It has a batch of events to see to at most.
_ENDS_WITHIN_S = 10.0


class Keeper:
    """The warden's end of a keeper."""

    def __init__(
        self, hand: Channel, steward: Channel | None, pids: tuple[int, ...], *, holds: bool
    ) -> None:
        self._hand = hand
        self._steward = steward
        self._pids = pids
        self._process = os.pidfd_open(pids[0])
        self._holds = holds
        self._kept: list[tuple[str, str]] = []

    def fileno(self) -> int:
        """Readable when the keeper has something to say, or is gone."""
        return self._hand.fileno()

    def enter(self, pid: int) -> None:
        """Have everything held in the box of process ``pid``; returns when that is so.

        Where only names that are yet to come matter, the program need not wait for it.
        Raises BoxError: then nothing may run in the box.
        """
        namespaces = [
            os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in ("mnt", "net")
        ]
        try:
            if self._steward is not None:
                self._steward.send({"op": "box", "pid": pid})
            self._hand.send({}, tuple(namespaces))
            while self._holds and "ready" not in (answer := self._hand.receive()[0]):
                self._take(answer)
        except ChannelClosed as error:
            raise BoxError("mounts", "the keeper of the box's masks ended") from error
        finally:
            for fd in namespaces:
                os.close(fd)

    def listen(self) -> bool:
        """Take what it says; False when it is gone."""
        try:
            self._take(self._hand.receive()[0])
        except (ChannelClosed, BoxError):
            return False
        return True

    def _take(self, answer: dict[str, object]) -> None:
        if "fault" in answer:
            self._kept.append(("keeper.ended", f"{answer['fault']}"))
            raise BoxError("mounts", f"{answer['fault']}")
        if isinstance(said := answer.get("kept"), list):
            self._kept.append((said[0], said[1]))

    def end(self) -> tuple[tuple[str, str], ...]:
        """End it after the box, stubs removed; what it has done and seen."""
        with contextlib.suppress(ChannelClosed):
            self._hand.send({"op": "end"})
        while self._says_something() and self.listen():
            pass
        if self._steward is not None:
            with contextlib.suppress(ChannelClosed):
                self._steward.send({"op": "release"})
                self._steward.receive()
        return tuple(dict.fromkeys(self._kept))

    def _says_something(self) -> bool:
        """Whether the hand answers; one that somebody has stopped is killed."""
        poll = select.poll()
        poll.register(self._hand, select.POLLIN)
        if poll.poll(_ENDS_WITHIN_S * 1000):
            return True
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._process, signal.SIGKILL)
        return False

    def wait(self) -> None:
        """Until its processes are no more: with the hand goes the box's mount namespace, which
        takes the kernel milliseconds that nobody needs to wait for."""
        for pid in self._pids:
            with contextlib.suppress(ChildProcessError):  # reaped in passing
                os.waitpid(pid, 0)


def sweep(plan: BoxPlan) -> None:
    """Remove the stubs that killed boxes have left."""
    if plan.state:
        Registry(plan.state).sweep()


def start(plan: BoxPlan) -> Keeper | None:
    """The keeper of a box for ``plan``, stubs in place; None when there is nothing to keep.

    Raises BoxError when the stubs cannot be held.
    """
    sweep(plan)
    watch = plan.watch
    if watch is None:
        return None
    from axonkernel.box import hand  # a box with nothing to keep does not pay for it

    names = tuple(item for item in watch.kept if item.stub)
    stubs, hands_stubs, pids = _start_steward(plan.state, names) if names else (None, None, ())
    ours, theirs = pair()

    def work() -> None:
        hand.serve(theirs, hands_stubs, watch)

    pid = fork_apart(work, theirs, hands_stubs, dies=True)
    theirs.close()
    if hands_stubs is not None:
        hands_stubs.close()
    keeper = Keeper(ours, stubs, (pid, *pids), holds=bool(watch.kept))
    if stubs is not None:
        _await_stubs(stubs)
    return keeper


def _start_steward(state: str, names: tuple[Kept, ...]) -> tuple[Channel, Channel, tuple[int, ...]]:
    from axonkernel.box import steward

    ours, theirs = pair()
    hands, stewards = pair()

    def work() -> None:
        steward.serve(theirs, stewards, state, names)

    pid = fork_apart(work, theirs, stewards, dies=False)
    theirs.close()
    stewards.close()
    return ours, hands, (pid,)


def _await_stubs(stubs: Channel) -> None:
    try:
        answer, _ = stubs.receive()
    except ChannelClosed as error:
        raise BoxError("mounts", "the steward of the box's stubs ended") from error
    if "fault" in answer:
        raise BoxError("mounts", answer["fault"])


def fork_apart(work: Callable[[], None], *channels: Channel | None, dies: bool) -> int:
    """A child that holds nothing of ours but its own channels."""
    warden = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        _become(work, warden, [each.fileno() for each in channels if each is not None], dies=dies)
    finally:
        os._exit(1)


def _become(work: Callable[[], None], warden: int, kept: list[int], *, dies: bool) -> NoReturn:
    if dies:
        die_with_parent(signal.SIGKILL)
        if os.getppid() != warden:
            os._exit(1)
    else:
        os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    below = -1
    for fd in (*sorted(kept), os.sysconf("SC_OPEN_MAX")):
        os.closerange(below + 1, fd)
        below = fd
    work()
    os._exit(1)
