"""What all views of one kernel share."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

from attrs import evolve

from axonkernel.audit import AuditLog, AuditSink
from axonkernel.audit.redact import secret_values
from axonkernel.errors import AxonError
from axonkernel.escalation import Asker, Broker, Decider
from axonkernel.folders import own_folders
from axonkernel.forks import forget_in_children
from axonkernel.kernel.canonical import Canonical
from axonkernel.kernel.mediator import Mediator
from axonkernel.kernel.narrowing import Narrowings
from axonkernel.kernel.scope import Layer, Scope, layer_of
from axonkernel.knowledge import added_profiles
from axonkernel.paths import canonical_policy, default_protect, loaded_files, within
from axonkernel.policy.meet import meet
from axonkernel.policy.model import Policy
from axonkernel.process import Lookup
from axonkernel.tools import ToolRegistry

if TYPE_CHECKING:
    from axonkernel.box.model import PostureField, Refusal
    from axonkernel.kernel.workers import Workers
    from axonkernel.process.confiner import Confiner

__all__ = ["AuditTarget", "Core"]

AuditTarget = AuditSink | str | os.PathLike[str] | None


class Core:
    """The parts behind a kernel and every narrowed view of it. See ``Kernel`` for most of
    the arguments."""

    def __init__(
        self,
        policies: tuple[tuple[str, Policy], ...],
        *,
        cwd: str,
        audit: AuditTarget,
        deciders: Iterable[Decider],
        asker: Asker | None,
        launcher: Any,
        tools: ToolRegistry,
        name: str,
        boxed: Any,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.cwd = cwd
        self.inside = boxed is not None
        #: Files of the programs that only the supervisor of this box may start.
        self.brokered: tuple[str, ...] = () if boxed is None else boxed.brokered
        self.environ = dict(os.environ)
        self.tools = tools
        self.name = name
        self.audit, self._own_audit = _audit(audit, self.environ)
        self._own_paths = own_folders()
        if isinstance(self.audit, AuditLog):
            self._own_paths += (os.path.realpath(self.audit.path),)
        self.policies = tuple((layer, self.completed(policy)) for layer, policy in policies)
        self.policy = reduce(meet, (policy for _, policy in self.policies))
        self.lookup = Lookup(self.policy, self.environ)
        own = frozenset() if self.inside else frozenset(self._own_paths)
        self._options = {"path": self.lookup.path, "boxed": boxed, "fixed": own}
        self.base = Scope(tuple(self.compiled(*each) for each in self.policies))
        self.narrowings = Narrowings(self.completed, self.compiled)
        self.canonical = Canonical(cwd, self.lookup, tools)
        self.broker = None if asker is not None else self._broker(deciders, clock)
        asks = asker if asker is not None else self.broker
        assert asks is not None
        self.mediator = Mediator(self.audit, asks, name)
        self._confiner: Confiner | None = None
        self.boxed = boxed
        self.workers: Workers | None = None  # for narrowed requests; none within a worker
        self.kept: dict[object, Any] = {}  # what workers of this kernel need again
        self.posture: tuple[PostureField, ...] = ()  # of the box around this process
        self.refused: Callable[[float], tuple[Refusal, ...]] | None = None  # by that box
        self._launcher = launcher
        self._own_launcher = launcher is None
        self._lock = threading.Lock()
        self.closing: list[Callable[[], None]] = []
        forget_in_children(self)

    def forget(self) -> None:
        """In a child: what was left running is the parent's, and not to be ended here."""
        self._lock = threading.Lock()
        self.closing.clear()

    def completed(self, policy: Policy) -> Policy:
        """``policy`` with what depends on this machine: symlinks resolved, ``fs.protect``
        written out, our own records denied."""
        policy = canonical_policy(policy)
        if policy.fs is None or self.inside:
            return policy
        # In a box they do not exist; in this process they must not be read or changed either.
        deny = within(self._own_paths, (*policy.fs.read, *policy.fs.write))
        fs = evolve(policy.fs, deny=(*policy.fs.deny, *deny))
        if fs.protect is None and fs.write:
            loaded = (*loaded_files(), *(policy.shell.profiles if policy.shell else ()))
            fs = evolve(fs, protect=default_protect(fs.write, loaded=loaded))
        return evolve(policy, fs=fs)

    def compiled(self, name: str, policy: Policy, *, lazy: bool = False) -> Layer:
        """``policy`` as a layer, under the PATH of this kernel."""
        profiles = added_profiles(policy)
        return layer_of(name, policy, lazy=lazy, profiles=profiles, **self._options)

    def launcher(self) -> Any:
        """What starts boxes, made at the first use."""
        with self._lock:
            if self._launcher is None:
                self._refuse_when_closed()
                from axonkernel.box.caps import limits_plan
                from axonkernel.box.launch import Launcher

                self._launcher = Launcher(limits_plan(self.policy))
            return self._launcher

    def confiner(self) -> Confiner:
        """What confines programs where they stand, made at the first use."""
        with self._lock:
            if self._confiner is None:
                self._refuse_when_closed()
                from axonkernel.process.confiner import Confiner

                self._confiner = Confiner(inside=self.inside)
            return self._confiner

    def _refuse_when_closed(self) -> None:
        """For a call that was let through just before: nobody would end what it starts."""
        if self.mediator.closed:
            raise AxonError("the kernel is closed: the call did not run")

    def close(self) -> None:
        """Deny what waits, end what was left running, let go of what is ours."""
        self.mediator.closed = True
        if self.broker is not None:
            self.broker.close()
        while self.closing:
            self.closing.pop()()
        if self.workers is not None:
            self.workers.close()
        with self._lock:
            if self._own_launcher and self._launcher is not None:
                self._launcher.close()
                self._launcher = None
            if self._confiner is not None:
                self._confiner.close()
                self._confiner = None
        if self._own_audit and isinstance(self.audit, AuditLog):
            self.audit.close()

    def _broker(self, deciders: Iterable[Decider], clock: Callable[[], float]) -> Broker:
        rules = self.policy.escalation
        return Broker(
            deciders,
            audit=self.audit,
            timeout_s=rules.timeout_s,
            headless=rules.headless,
            clock=clock,
        )


def _audit(target: AuditTarget, environ: Mapping[str, str]) -> tuple[AuditSink, bool]:
    """The sink, and whether it is ours to close."""
    if target is not None and not isinstance(target, (str, os.PathLike)):
        return target, False
    log = AuditLog(target)
    log.redactor.conceal(*secret_values(environ))
    return log, True
