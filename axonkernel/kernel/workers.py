"""Workers for narrowed requests, from the side of the kernel that the requests are made to."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from axonkernel.box import frames
from axonkernel.box.channel import Channel, ChannelClosed, pair
from axonkernel.box.model import PostureField
from axonkernel.errors import AxonError, BoxError, IsolationUnavailable
from axonkernel.forks import forget_in_children
from axonkernel.kernel.origin import Origin, function_origin
from axonkernel.kernel.passing import Unpasser
from axonkernel.kernel.posture import posture_of
from axonkernel.kernel.worker_walls import Planned, plan_worker, touches
from axonkernel.policy.environ import QUIET, environment

if TYPE_CHECKING:
    from axonkernel.box.limiter import Limiter
    from axonkernel.kernel.core import Core
    from axonkernel.kernel.job import Job
    from axonkernel.kernel.scope import Scope

__all__ = ["Confine", "Ends", "Road", "Workers"]

Confine = Literal["worker", "mediator"]

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


class Road(NamedTuple):
    """How a narrowed request is held, and what is true of it.

    Arguments:
        planned: None for the mediator alone.
    """

    posture: tuple[PostureField, ...]
    planned: Planned | None = None


class Workers:
    """The zygote of one kernel and its waiting workers; used from any thread.

    Arguments:
        origin: where the code of the handler is found; looked for at need when None.
        confine: what holds requests that do not say it themselves.
    """

    def __init__(self, core: Core, handler: Any, origin: Origin | None, confine: Confine) -> None:
        self.core = core
        self.confine: Confine = confine
        self._handler = handler
        self._origin = origin
        self._lock = threading.Lock()
        self._zygote: _Zygote | None = None
        self._limiter: Limiter | None = None
        self._jobs: set[Job] = set()
        forget_in_children(self)

    @cached_property
    def origin(self) -> Origin:
        """Where the code of the handler is. Raises PolicyError where nobody can import it."""
        if self._origin is not None:
            return self._origin
        return function_origin(self._handler, self.core.tools)

    @cached_property
    def unpasser(self) -> Unpasser:
        """Reads what workers send."""
        return Unpasser(self.origin.namespaces)

    def road(self, scope: Scope, confine: Confine | None) -> Road | None:
        """How a request in ``scope`` is held; None where nothing narrows what a wall holds.

        Raises PolicyError for a handler that no worker can import, IsolationUnavailable for
        what nothing can hold here; unless isolation is ``best-effort``, or ``none``.
        """
        added = [each for each in scope.layers if each not in self.core.base.layers]
        isolation = scope.policy.effective_isolation
        if isolation == "none" or not any(touches(each.policy) for each in added):
            return None
        confine = self.confine if confine is None else confine
        if confine == "mediator":
            return self._mediated(scope, 'confine="mediator"')
        if sys.platform != "linux":
            if isolation == "strict":
                raise IsolationUnavailable("isolation", "Linux", "run it there")
            return self._mediated(scope, "no worker can be confined on this system")
        try:
            return self._confined(scope)
        except AxonError as error:
            if isolation != "best-effort":
                raise
            return self._mediated(scope, str(error))

    def _mediated(self, scope: Scope, why: str) -> Road:
        row = PostureField("request", "mediator only", "mediator", why)
        return Road((row, *posture_of(scope.policy, inside=self.core.inside)))

    def _confined(self, scope: Scope) -> Road:
        planned = plan_worker(self.core, scope, _own_files(self.origin))
        with self._lock:
            spaces = self._running().spaces
        walls = planned.walls._replace(spaces=spaces)
        row = PostureField("request", "enforced", "namespaces" if spaces else "landlock")
        posture = (row, *planned.posture)
        return Road(posture, planned._replace(walls=walls, posture=posture))

    def take(self, *, empty_net: bool) -> Ends:
        """A waiting worker. Raises BoxError when none can be had."""
        with self._lock:
            for _ in range(2):
                zygote = self._running()
                try:
                    return zygote.take(empty_net)
                except ChannelClosed:
                    self._let_go()
        raise BoxError("worker", "the process that forks workers ended, twice")

    def refill(self) -> None:
        """Have workers forked for the next requests: not while one is served, which would
        have to share the processors with that."""
        with self._lock, contextlib.suppress(ChannelClosed):
            if self._zygote is not None:
                self._zygote.refill()

    def limiter(self) -> Limiter:
        """What puts workers into control groups, made at the first use."""
        from axonkernel.box.limiter import Limiter

        with self._lock:
            if self._limiter is None:
                self._limiter = Limiter()
            return self._limiter

    @contextmanager
    def serving(self, job: Job) -> Iterator[None]:
        """Have ``job`` ended with this kernel, if it is not before."""
        with self._lock:
            self._jobs.add(job)
        try:
            yield
        finally:
            with self._lock:
                self._jobs.discard(job)

    def close(self) -> None:
        """End the zygote, the waiting workers, and those that serve a request."""
        with self._lock:
            jobs = tuple(self._jobs)
        for job in jobs:
            job.cancel()
        with self._lock:
            self._let_go()
            if self._limiter is not None:
                self._limiter.close()
                self._limiter = None

    def forget(self) -> None:
        """In a forked child: it gets a zygote of its own when it needs one."""
        zygote, self._zygote = self._zygote, None
        jobs, self._jobs = self._jobs, set()
        self._lock = threading.Lock()
        self._limiter = None
        for job in jobs:
            job.forget()
        if zygote is not None:
            zygote.forget()

    def _running(self) -> _Zygote:
        if self._zygote is None:
            self._zygote = _Zygote(self.core, self.origin)
        return self._zygote

    def _let_go(self) -> None:
        zygote, self._zygote = self._zygote, None
        if zygote is not None:
            zygote.close()


class _Zygote:
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


def _own_files(origin: Origin) -> tuple[str, ...]:
    """The files of the agent's own code: those of a package as a whole."""
    found: dict[str, None] = {}
    for module in origin.modules:
        package = sys.modules.get(module.name.partition(".")[0])
        folders = list(getattr(package, "__path__", ())) if not module.file else []
        file = module.file or getattr(sys.modules.get(module.name), "__file__", None)
        found.update(dict.fromkeys(folders or ([file] if file else [])))
    return tuple(os.path.realpath(path) for path in found)
