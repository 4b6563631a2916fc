"""Programs of a narrowed request of an agent, each in a box beside the agent's.

Table and link are those of the agent's whole box: a part of its network cannot be taken from
one program in there. So the supervisor starts it in a box of its own, under what the agent may
do and under the request's policy as well. Whoever asks gets no more than the agent has.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from axonkernel.box.brokered import with_broker
from axonkernel.box.host import Ask
from axonkernel.box.model import BoxPlan, Command
from axonkernel.box.prepare import prepare
from axonkernel.broker.incoming import Incoming
from axonkernel.broker.judge import Judge
from axonkernel.broker.running import DID_NOT_RUN, Runner, is_there
from axonkernel.broker.sibling import Sibling, sibling
from axonkernel.broker.wire import DENIED, LOST, Ended, Refused
from axonkernel.errors import AuditError, AxonError
from axonkernel.policy.environ import QUIET
from axonkernel.policy.meet import meet
from axonkernel.policy.model import FsPolicy, NetPolicy, Policy, ShellPolicy
from axonkernel.policy.parse import parse
from axonkernel.policy.request import ProcessRequest

if TYPE_CHECKING:
    from axonkernel.box.find import Program
    from axonkernel.broker.serving import Served

__all__ = ["Narrowing", "narrower"]

#: Plans that are kept; what they were made from is believed to be the same.
_MOST_PLANS = 64
_LONGEST_POLICY = 256 * 1024


@frozen
class _Wanted:
    """What a plan is made for."""

    policy: str
    program: str
    cwd: str


class Narrowing:
    """Answers calls that bring a policy.

    Arguments:
        served: the box they come from.
        judge: decides about each call.
        runner: runs what was let through.
    """

    def __init__(self, served: Served, judge: Judge, runner: Runner) -> None:
        self._served = served
        self._judge = judge
        self._runner = runner
        self._lock = threading.Lock()
        self._plans: dict[_Wanted, BoxPlan] = {}
        self._siblings: dict[_Wanted, Sibling] = {}

    def answer(self, incoming: Incoming) -> Refused | Ended:
        """Run the program that is named by its file, if it may run. Raises PolicyDenied."""
        try:
            plan = self._plan(_Wanted(incoming.policy, incoming.program, incoming.cwd))
        except AxonError as error:
            return self._runner.failed("", error)
        env: Mapping[str, str] = incoming.env
        names = tuple(sorted(env))
        argv = (incoming.program, *incoming.argv[1:])
        request = ProcessRequest(argv, incoming.cwd, False, names, incoming.program)
        spellings = (incoming.argv[0], incoming.program.rpartition("/")[2])
        try:
            identity = self._judge.require(request, spellings, env, incoming.gone)
        except AuditError as error:
            return Refused(DENIED, f"denied (internal): {error}. {DID_NOT_RUN}")
        if incoming.gone():
            return Refused(LOST, DID_NOT_RUN)
        if not is_there(plan, incoming.cwd):
            text = f"the working directory {incoming.cwd} does not exist where the program runs"
            return Refused(DENIED, f"{text}: the request is not granted it")
        command = Command(
            (incoming.program, *incoming.argv[1:]),
            *incoming.files,
            cwd=incoming.cwd,
            env=tuple({**QUIET, **_less(dict(plan.env), _asked(incoming.policy)), **env}.items()),
        )
        return self._runner.run(incoming, plan, command, identity)

    def _plan(self, wanted: _Wanted) -> BoxPlan:
        """Raises IsolationUnavailable, BoxError, PolicyError."""
        with self._lock:
            plan = self._plans.get(wanted)
            if plan is None:
                plan = self._plans[wanted] = self._planned(wanted)
            while len(self._plans) > _MOST_PLANS:
                del self._plans[next(iter(self._plans))]
            return plan

    def _planned(self, wanted: _Wanted) -> BoxPlan:
        served = self._served
        # Not a box of one call: programs whose words are judged are not in it, and what lies at
        # their names finds nobody to ask.
        ask: Ask = served.ask._replace(role="exec", cwd=wanted.cwd, program=wanted.program, read=())
        plan = prepare(self._policy(wanted.policy), ask, env=served.environ, owner=served.owner)
        return with_broker(plan, os.devnull)

    def _policy(self, text: str) -> Policy:
        asked = parse(_asked(text)["policy"], base="/", source="request").closed()
        return narrower(self._served.policy, asked, privileged=os.geteuid() == 0)

    def sibling(self, program: Program, incoming: Incoming) -> Sibling:
        """The box of a program whose words are judged, for one request; nothing is lent to it.

        Raises IsolationUnavailable, BoxError, PolicyError, or AxonError for what is no policy.
        """
        wanted = _Wanted(incoming.policy, program.name, incoming.cwd)
        with self._lock:
            found = self._siblings.get(wanted)
            if found is None:
                served, policy = self._served, self._policy(incoming.policy)
                ask = served.ask._replace(cwd=incoming.cwd)
                found = sibling(policy, program, ask, served.environ, served.owner, ())
                self._siblings[wanted] = found
            while len(self._siblings) > _MOST_PLANS:
                del self._siblings[next(iter(self._siblings))]
            return found


def _asked(text: str) -> dict[str, Any]:
    """What a box says: the ``policy`` that holds as well, and names of variables that must not
    reach the program. Raises AxonError for anything else."""
    try:
        asked: dict[str, Any] = json.loads(text) if len(text) <= _LONGEST_POLICY else {}
        without = asked["without_env"]
        if not isinstance(asked["policy"], dict) or not all(type(each) is str for each in without):
            raise TypeError("no policy and no names")
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        raise AxonError(f"no policy of a request: {error}") from error
    return asked


def _less(env: Mapping[str, str], asked: Mapping[str, Any]) -> dict[str, str]:
    exact = {each for each in asked["without_env"] if not each.endswith("*")}
    begins = tuple(each[:-1] for each in asked["without_env"] if each.endswith("*"))
    return {
        name: value
        for name, value in env.items()
        if name not in exact and not name.startswith(begins)
    }


def narrower(base: Policy, asked: Policy, *, privileged: bool) -> Policy:
    """What of ``base`` a policy that comes from a box leaves (pure).

    Only what takes away counts. How a box is made is not for its agent to say: as whom it runs,
    its link, whom it asks about names.

    Arguments:
        privileged: the supervisor may look where the box's user may not. Then a path counts
            only where ``base`` grants that very path: a grant is a way in.

    Raises AxonError for what would not only take away.
    """
    met = meet(base, asked)
    return evolve(
        base,
        fs=_fs(base.fs, met.fs, privileged=privileged),
        net=_net(base.net, met.net),
        shell=_shell(base.shell, met.shell),
        env=met.env,
        limits=met.limits,
    )


def _fs(base: FsPolicy | None, met: FsPolicy | None, *, privileged: bool) -> FsPolicy | None:
    if met is None:
        return None
    known = FsPolicy() if base is None else base
    new = {*met.read, *met.write} - {*known.read, *known.write}
    if privileged and new:
        raise AxonError(f"under root a request in a box is granted no part of a grant: {new}")
    return evolve(met, unsafe=tuple(path for path in met.unsafe if path in known.unsafe))


def _net(base: NetPolicy | None, met: NetPolicy | None) -> NetPolicy | None:
    known = NetPolicy() if base is None else base
    how = {name: getattr(known, name) for name in ("link", "refuse", "resolver", "proxy")}
    # Nor does it get ports of the host, which the agent's own box has.
    return None if met is None else evolve(met, listen=(), **how)


def _shell(base: ShellPolicy | None, met: ShellPolicy | None) -> ShellPolicy | None:
    if met is None:
        return None
    known = ShellPolicy(allow=True) if base is None else base
    there = () if known.allow is True else known.allow
    if met.allow is not True and any("/" in each and each not in there for each in met.allow):
        raise AxonError("a request in a box is granted no program that is not the agent's")
    return evolve(known, allow=met.allow, deny=met.deny)
