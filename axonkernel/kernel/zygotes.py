"""A handler zygote from this side: starting it, and the workers that wait in it."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import socket
import subprocess
import sys
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from axonkernel.box import frames
from axonkernel.box.channel import Channel, ChannelClosed, pair
from axonkernel.errors import BoxError
from axonkernel.kernel.origin import Origin
from axonkernel.policy.environ import QUIET, environment

if TYPE_CHECKING:
    from axonkernel.kernel.core import Core

__all__ = ["Ends", "Zygote"]

#: Workers forked ahead of need.
_SPARES = 2
#: Importing an agent's code takes as long as it takes, but not for ever.
_PATIENCE_S = 120.0
#: What an interpreter looks at before its first line; the rest comes over a socket.
_AT_START = ("LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PYTHONUTF8", "TZ")
_ENDS = 4


class Ends(NamedTuple):
    """A waiting worker: its guard's pid, whether it has an empty network namespace, and this
    side of what ties it to us (zygote.py)."""

    pid: int
    empty_net: bool
    frames: socket.socket
    life: socket.socket
    out: socket.socket
    err: socket.socket

    def close(self) -> None:
        """Hang up: the guard ends whatever is left."""
        for end in self[2:]:
            assert isinstance(end, socket.socket)
            end.close()


class Zygote:
    """A running handler zygote. Raises AxonError when the agent's code cannot be imported."""

    def __init__(self, core: Core, origin: Origin) -> None:
        self._ready: deque[Ends] = deque()
        self._asked = 0
        self._empty_net = True  # as the last request wanted it
        self._control, self._process = _started()
        try:
            self.spaces = self._prepare(core, origin)
            self.refill()
        except BaseException as error:
            self.close()
            if isinstance(error, ChannelClosed):
                raise BoxError("worker", "the process that forks workers ended") from error
            raise

    def take(self, empty_net: bool) -> Ends:
        """A waiting worker. Raises ChannelClosed when the zygote is gone."""
        self._empty_net = empty_net and self.spaces
        self._collect()
        while True:
            while self._ready:
                ends = self._ready.popleft()
                if ends.empty_net == self._empty_net:
                    return ends
                ends.close()
            if not self._asked:
                self._ask()
            self._receive()

    def refill(self) -> None:
        """Have as many waiting again as should be."""
        self._collect()
        with contextlib.suppress(ChannelClosed):  # told to whoever takes the next one
            while self._asked + len(self._ready) < _SPARES:
                self._ask()

    def _collect(self) -> None:
        while self._asked and self._readable():
            self._receive()

    def _receive(self) -> None:
        message, descriptors = self._control.receive()
        self._asked -= 1
        self._ready.append(_ends(message, descriptors))

    def close(self) -> None:
        """End it; workers with a request go on until its end."""
        self.hang_up()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2)
            return
        self._process.kill()
        self._process.wait()

    def forget(self) -> None:
        """It is another process's child."""
        self._process.returncode = 0
        self.hang_up()

    def hang_up(self) -> None:
        """Let go of it."""
        self._control.close()
        while self._ready:
            self._ready.popleft().close()

    def _ask(self) -> None:
        self._control.send({"empty_net": self._empty_net})
        self._asked += 1

    def _readable(self) -> bool:
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        return bool(poll.poll(0))

    def _prepare(self, core: Core, origin: Origin) -> bool:
        given = {
            "modules": origin.modules,
            "finder": origin.finder,
            "key": origin.key,
            "tools": tuple(tool.name for tool in core.tools),
            "policies": core.policies,
            "cwd": core.cwd,
            "name": core.name,
            "boxed": core.boxed,
            "filter": _filter(core),
        }
        order = {
            "path": list(sys.path),
            "argv": list(sys.argv),
            "env": _environment(core),
            "cwd": os.getcwd(),
            "spaces": not core.inside,
            "prepare": "axonkernel.kernel.worker:prepare",
            "given": given,
        }
        with socket.socket(fileno=os.dup(self._control.fileno())) as sock:
            try:
                frames.send(sock, 1, pickle.dumps(order))
            except OSError as error:
                raise ChannelClosed(str(error)) from error
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        if not poll.poll(_PATIENCE_S * 1000):
            raise BoxError("worker", f"the agent's code was not imported within {_PATIENCE_S:g} s")
        answer, _ = self._control.receive()
        if "fault" in answer:
            raise BoxError("worker", f"the agent's code cannot be imported: {answer['fault']}")
        return bool(answer["spaces"])


def _filter(core: Core) -> bytes:
    """What a box has; the box around this process has it."""
    if core.inside:
        return b""
    from axonkernel.box.seccomp import filter_bytes

    return filter_bytes(nested_userns=False, unix="none", boxed=False)


def _started() -> tuple[Channel, subprocess.Popen[bytes]]:
    ours, theirs = pair()
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    code = (
        "import sys; sys.path.append(sys.argv[2]); "
        "from axonkernel.box.zygote import main; main(int(sys.argv[1]))"
    )
    fd = theirs.fileno()
    env = {name: os.environ[name] for name in _AT_START if name in os.environ}
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", code, str(fd), root],
            env=env,
            stdin=subprocess.DEVNULL,
            pass_fds=(fd,),
            start_new_session=True,
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return ours, process


def _ends(message: dict[str, Any], descriptors: tuple[int, ...]) -> Ends:
    if len(descriptors) != _ENDS:
        raise ChannelClosed("a worker without its descriptors")
    tied = int(message["pid"]), bool(message["empty_net"])
    return Ends(*tied, *(socket.socket(fileno=fd) for fd in descriptors))


def _environment(core: Core) -> dict[str, str]:
    """What the agent's code sees while it is imported: what the kernel's own policy grants."""
    source = core.environ
    names = ("HOME", "USER", "LOGNAME", "PATH", "TMPDIR")
    fixed = {name: source[name] for name in names if name in source}
    env, _ = environment(core.policy.closed().env, source, {**fixed, **QUIET})
    return env
