"""Workers for narrowed requests, from the side of the kernel that the requests are made to."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from axonkernel.box.channel import ChannelClosed
from axonkernel.box.model import PostureField
from axonkernel.errors import AxonError, BoxError, IsolationUnavailable
from axonkernel.forks import forget_in_children
from axonkernel.kernel.origin import Origin, function_origin
from axonkernel.kernel.passing import Unpasser
from axonkernel.kernel.posture import posture_of
from axonkernel.kernel.walls import touches
from axonkernel.kernel.zygotes import Ends, Zygote

if TYPE_CHECKING:
    from axonkernel.box.limiter import Limiter
    from axonkernel.kernel.core import Core
    from axonkernel.kernel.job import Job
    from axonkernel.kernel.scope import Scope
    from axonkernel.kernel.worker_walls import Planned

__all__ = ["Confine", "Road", "Workers"]

Confine = Literal["worker", "mediator"]


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
        self._zygote: Zygote | None = None
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

    def concerns(self, scope: Scope) -> bool:
        """Whether a request in ``scope`` is narrowed in something that a wall can hold."""
        added = [each for each in scope.layers if each not in self.core.base.layers]
        if not any(touches(each.policy) for each in added):
            return False
        return scope.policy.effective_isolation != "none"

    def road(self, scope: Scope, confine: Confine | None) -> Road | None:
        """How a request in ``scope`` is held; None where no wall is concerned. May take time.

        Raises PolicyError for a handler that no worker can import, IsolationUnavailable for
        what nothing can hold here; unless isolation is ``best-effort``, or ``none``.
        """
        if not self.concerns(scope):
            return None
        isolation = scope.policy.effective_isolation
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
        from axonkernel.kernel.worker_walls import plan_worker  # loads on Linux only

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

    def _running(self) -> Zygote:
        if self._zygote is None:
            self._zygote = Zygote(self.core, self.origin)
        return self._zygote

    def _let_go(self) -> None:
        zygote, self._zygote = self._zygote, None
        if zygote is not None:
            zygote.close()


def _own_files(origin: Origin) -> tuple[str, ...]:
    """The files of the agent's own code: those of a package as a whole."""
    found: dict[str, None] = {}
    for module in origin.modules:
        package = sys.modules.get(module.name.partition(".")[0])
        folders = list(getattr(package, "__path__", ())) if not module.file else []
        file = module.file or getattr(sys.modules.get(module.name), "__file__", None)
        found.update(dict.fromkeys(folders or ([file] if file else [])))
    return tuple(os.path.realpath(path) for path in found)
