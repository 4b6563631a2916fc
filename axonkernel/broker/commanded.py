"""The broker of one ``axonkernel exec``: nothing heavy is loaded before its box runs.

Standard library only at import.
"""

from __future__ import annotations

import os
import threading
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from axonkernel.broker.opening import Opening
from axonkernel.broker.standstill import Standstill

if TYPE_CHECKING:
    from axonkernel.audit import AuditLog
    from axonkernel.box.launch import BoxProcess, Launcher
    from axonkernel.box.model import BoxPlan
    from axonkernel.box.pty import Terminal
    from axonkernel.broker.serving import Serving

__all__ = ["Commanded"]


class Commanded:
    """See :class:`axonkernel.box.foreground.Brokered`.

    Arguments:
        written: the policies as data, and what the box was wanted for: what a plan is kept
            with (cli/execplan.py).
        audit: takes the records of the calls.

    Attributes:
        still: for whoever else asks for the box.
    """

    def __init__(self, written: dict[str, Any], audit: AuditLog) -> None:
        self._written = written
        self._audit = audit
        self._opening = Opening()
        self.lends = self._opening.lends
        self.still = Standstill()
        self._plan: BoxPlan | None = None
        self._serving: Serving | None = None
        self._launcher: Launcher | None = None
        self._lock = threading.Lock()
        self._closed = False

    def plan(self, plan: BoxPlan) -> BoxPlan:
        """``plan`` with the place where it is called."""
        self._plan = plan
        return self._opening.plan(plan)

    def begun(self, box: BoxProcess, terminal: Terminal | None) -> None:
        """Answer the box from now on; who calls first waits for what has to be loaded."""
        self._opening.begun()
        threading.Thread(target=self._begin, args=(box, terminal), daemon=True).start()

    def close(self) -> None:
        """End what runs for the box, which has ended."""
        with self._lock:
            self._closed = True
            serving, launcher = self._serving, self._launcher
        if serving is not None:
            serving.close()
        else:
            self._opening.close()
        if launcher is not None:
            launcher.close()

    def _begin(self, box: BoxProcess, terminal: Terminal | None) -> None:
        from axonkernel.box.host import Ask
        from axonkernel.box.launch import Launcher
        from axonkernel.broker.judge import Judge
        from axonkernel.broker.serving import Served, Serving
        from axonkernel.escalation import Broker
        from axonkernel.escalation import Terminal as Person
        from axonkernel.policy.meet import meet
        from axonkernel.policy.parse import parse

        assert self._plan is not None
        layers = [(name, parse(data, source=name)) for name, data in self._written["layers"]]
        policy = reduce(meet, (each for _, each in layers))
        parts = self._written["ask"]
        ask = Ask._make(tuple(part) if isinstance(part, list) else part for part in parts)
        rules = policy.escalation
        person = Broker(
            [Person()], audit=self._audit, timeout_s=rules.timeout_s, headless=rules.headless
        )
        judge = Judge(
            _stack(layers, policy),
            self._audit,
            person,
            "exec",
            partial(self.still.while_asking, box, terminal),
        )
        launcher = Launcher(self._plan.limits)
        served = Served(policy, self._plan, ask, dict(os.environ), self._written["owner"], "exec")
        with self._lock:
            if self._closed:
                return
            self._launcher = launcher
            self._serving = Serving(self._opening, served, launcher, judge, self._audit)
        self._serving.get_ready()


def _stack(layers: list[tuple[str, Any]], policy: Any) -> Any:
    from axonkernel.box.implied import implied_grants
    from axonkernel.knowledge import added_profiles
    from axonkernel.policy.decide import Stack, compile
    from axonkernel.process import Lookup

    grants = implied_grants(policy, os.environ)
    path = Lookup(policy, dict(os.environ)).path
    return Stack(
        tuple(
            compile(each, layer=name, path=path, boxed=grants, profiles=added_profiles(each))
            for name, each in layers
        )
    )
