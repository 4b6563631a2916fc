"""The supervisor's answers to the calls of one box: judged, run in a box of its own, told."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from attrs import frozen

from axonkernel.audit import AuditSink
from axonkernel.box.host import Ask, brokered_programs
from axonkernel.box.lending import borrow, lendable
from axonkernel.box.model import BoxPlan, Command
from axonkernel.broker.asked import Asked, asked_env, called
from axonkernel.broker.judge import Judge
from axonkernel.broker.listener import Incoming, Listener
from axonkernel.broker.narrowed import Narrowing
from axonkernel.broker.opening import Opening
from axonkernel.broker.running import DID_NOT_RUN, Runner, is_there
from axonkernel.broker.sibling import Sibling, sibling
from axonkernel.broker.wire import DENIED, LOST, Ended, Refused
from axonkernel.errors import AuditError, AxonError
from axonkernel.policy.model import Policy
from axonkernel.policy.request import ProcessRequest

if TYPE_CHECKING:
    from axonkernel.box.find import Program
    from axonkernel.box.launch import Launcher

__all__ = ["Served", "Serving"]

_NO_SHELL = f"in its box there is no shell and no interpreter. {DID_NOT_RUN}"


@frozen
class Served:
    """The box whose calls are answered.

    Arguments:
        policy: closed, all layers met, paths resolved.
        plan: of the box.
        ask: what the box was wanted for.
        environ: the supervisor's environment.
        owner: as for ``prepare``.
        agent: who runs in it, for records.
    """

    policy: Policy
    plan: BoxPlan
    ask: Ask
    environ: Mapping[str, str]
    owner: int | None
    agent: str


class Serving:
    """Answers calls until it is closed.

    Arguments:
        launcher: starts the boxes of the programs.
        judge: decides about each call.
    """

    def __init__(
        self, opening: Opening, served: Served, launcher: Launcher, judge: Judge, audit: AuditSink
    ) -> None:
        self._opening = opening
        self._served = served
        self._launcher = launcher
        self._judge = judge
        self._runner = Runner(launcher, judge, audit, served.agent)
        self._narrowing = Narrowing(served, judge, self._runner)
        self._programs = brokered_programs(served.policy, served.ask, served.environ)
        self._lends = lendable(served.plan)
        self._lock = threading.Lock()  # of the lender, and of what follows
        self._siblings: dict[str, Sibling] = {}
        self._listener = Listener(opening.socket, self._answer)

    def get_ready(self) -> None:
        """Plan the boxes of the programs now; what cannot be planned is told to who calls it."""
        self._launcher.get_ready()
        for program in self._programs:
            try:
                self._planned(program)
            except AxonError:
                continue

    def close(self) -> None:
        """Take no more calls, and end what runs for earlier ones."""
        self._listener.close()
        self._opening.close()

    def _answer(self, incoming: Incoming) -> Refused | Ended:
        program = called(self._programs, incoming.program, incoming.found or incoming.argv[0])
        if program is None and incoming.policy:
            return self._narrowing.answer(incoming)
        if program is None:
            name = incoming.found or incoming.argv[0]
            return Refused(127, f"{name} is no program of this box. {DID_NOT_RUN}")
        try:
            found = self._sibling(program, incoming)
        except AxonError as error:
            return self._runner.failed("", error)
        if not is_there(found.plan, incoming.cwd):
            where = incoming.cwd or "its own, which has no name"
            text = f"the working directory {where} does not exist where the program runs"
            return Refused(DENIED, f"{text}: it sees what is granted, /tmp and the home")
        if found.is_script(incoming.argv[1:]):
            return Refused(126, f"{program.name}: this part of it is a script: {_NO_SHELL}")
        own = dict(self._served.plan.env)
        asked = asked_env(found.env, incoming.env, own, found.profile)
        argv = (program.name, *incoming.argv[1:])
        request = ProcessRequest(argv, incoming.cwd, False, asked.judged, program.file)
        try:
            identity = self._judge.require(
                request, (program.name.rpartition("/")[2], program.file), asked.passed,
                incoming.gone,
            )  # fmt: skip
        except AuditError as error:
            return Refused(DENIED, f"denied (internal): {error}. {DID_NOT_RUN}")
        if incoming.gone():
            return Refused(LOST, DID_NOT_RUN)
        return self._run(incoming, found, asked, identity)

    def _run(
        self, incoming: Incoming, found: Sibling, asked: Asked, identity: str
    ) -> Refused | Ended:
        stdin, stdout, stderr = incoming.files
        allowed = partial(self._judge.allows, found.program)
        ready = found.ready(incoming.argv[1:], asked.passed, allowed)
        try:
            lent = self._borrowed(found)
        except AxonError as error:
            return self._runner.failed(identity, error)
        command = Command(
            (ready.program, *incoming.argv[1:]),
            stdin,
            stdout,
            stderr,
            cwd=incoming.cwd,
            env=tuple(ready.env.items()),
            lent=lent,
        )
        return self._runner.run(incoming, ready.plan, command, identity)

    def _borrowed(self, found: Sibling) -> tuple[int, ...]:
        with self._lock:
            return borrow(self._opening.lender, found.lent) if found.lent else ()

    def _sibling(self, program: Program, incoming: Incoming) -> Sibling:
        if incoming.policy:
            return self._narrowing.sibling(program, incoming)
        return self._planned(program)

    def _planned(self, program: Program) -> Sibling:
        with self._lock:
            found = self._siblings.get(program.name)
            if found is None:
                served = self._served
                found = sibling(
                    served.policy, program, served.ask, served.environ, served.owner, self._lends
                )
                self._siblings[program.name] = found
            return found
