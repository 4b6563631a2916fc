"""From what holds for a request to what its worker gives up, and what is true of that."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from attrs import evolve

from axonkernel.box import closing, landlock
from axonkernel.box.giving_up import WorkerWalls
from axonkernel.box.model import PostureField
from axonkernel.errors import BoxError, IsolationUnavailable
from axonkernel.kernel.granted import Tree, floor
from axonkernel.policy.environ import QUIET, environment
from axonkernel.policy.match import parse_destination
from axonkernel.policy.model import Limits

if TYPE_CHECKING:
    from axonkernel.kernel.core import Core
    from axonkernel.kernel.scope import Scope

__all__ = ["Planned", "plan_worker"]

#: Rules of one worker; each costs some microseconds.
_MOST_RULES = 20_000
#: TCP ports that are told apart one by one.
_MOST_PORTS = 1_024

_FIELDS = {"memory": "memory_bytes", "cpu": "cpu_millicores", "pids": "pids"}


class Planned(NamedTuple):
    """The walls of one request.

    Arguments:
        posture: what is true of each declared field while the request runs.
        capped: the limits that a control group has to hold, or None.
    """

    walls: WorkerWalls
    posture: tuple[PostureField, ...]
    capped: Limits | None = None


def plan_worker(core: Core, scope: Scope, own: tuple[str, ...]) -> Planned:
    """The walls of a worker for what holds in ``scope``.

    In a box the kernel's own layers are held by it; outside, all layers are held here.

    Arguments:
        own: files and folders of the agent's code, readable whatever is granted.

    Raises IsolationUnavailable for what nothing can hold here, unless isolation is
    ``best-effort``; BoxError where a grant has too many names.
    """
    return _Planning(core, scope, own).planned()


class _Planning:
    def __init__(self, core: Core, scope: Scope, own: tuple[str, ...]) -> None:
        self.core = core
        self.scope = scope
        self.own = own
        self.policy = scope.policy.closed()
        added = tuple(each for each in scope.layers if each not in core.base.layers)
        self.layers = added if core.inside else scope.layers
        self.easy = self.policy.effective_isolation == "best-effort"
        self.rows: list[PostureField] = []

    def planned(self) -> Planned:
        files, programs = self._declared("fs"), self._declared("shell")
        version = landlock.abi()
        if version == 0 and (files or programs):
            self._lack("fs" if files else "shell", "Landlock", "use Linux 5.13 or newer")
            files = programs = False
        env = self._env()
        ports, closed_net = self._net()
        capped, caps = self._limits()
        grants = tuple(self._grants(files, programs)) if files or programs else ()
        if len(grants) > _MOST_RULES:
            raise BoxError(
                "worker",
                f"more than {_MOST_RULES} names around what fs takes out of its grants: grant "
                "folders further down",
            )
        closed = closing.Closed(
            net=closed_net,
            fs=files,
            truncate=files and version < landlock.TRUSTED_SINCE_ABI,
            memory=programs,
        )
        walls = WorkerWalls(
            landlock.Rules(grants, files, files or programs, ports),
            closing.filter_bytes(closed, os.uname().machine),
            empty_net=closed_net and not self.core.inside,
            own_proc=not self.core.inside,
            env=env,
            limits=caps,
            cwd=self.core.cwd,
        )
        return Planned(walls, tuple(self._rows(files, programs)), capped)

    def _declared(self, name: str) -> bool:
        """Whether a worker has to hold a block: any layer that it holds declares it."""
        return any(getattr(each.policy.closed(), name) is not None for each in self.layers)

    def _lack(self, field: str, missing: str, fix: str, note: str = "") -> None:
        if not self.easy:
            raise IsolationUnavailable(field, missing, fix)
        self.rows.append(PostureField(field, "unenforced", "", note or f"{missing} is missing"))

    # -- network ------------------------------------------------------------------------

    def _net(self) -> tuple[tuple[int, ...] | None, bool]:
        net = self.policy.net
        if net is None or not self._declared("net"):
            return None, False
        if net.allow == ():
            self.rows.append(PostureField("net", "enforced", "seccomp filter", "no sockets"))
            return None, True
        if net.allow is True and not net.deny and not net.escalate:
            self.rows.append(PostureField("net", "enforced", "", "everything is allowed"))
            return None, False
        ports = _ports(net.allow)
        said = "TCP to other ports is closed by Landlock" if ports is not None else ""
        if landlock.abi() < 4:
            ports, said = None, ""
        note = "a part of the network is held for programs, in boxes of their own, and not for "
        note += f"the handler's own code; {said}".rstrip("; ")
        if self.core.inside:
            note += "; the box holds the agent's own net"
        self.rows.append(PostureField("net", "mediator only", "", note))
        return ports, False

    # -- environment and limits ---------------------------------------------------------

    def _env(self) -> tuple[tuple[str, str], ...] | None:
        if self.policy.env is None or not self._declared("env"):
            return None
        source = self.core.environ
        names = ("HOME", "USER", "LOGNAME", "PATH", "TMPDIR")
        fixed = {name: source[name] for name in names if name in source}
        env, _ = environment(self.policy.env, source, {**QUIET, **fixed})
        note = "programs only: what the agent's code read while it was imported stays with it"
        self.rows.append(PostureField("env", "enforced", "environment built from nothing", note))
        return tuple(sorted(env.items()))

    def _limits(self) -> tuple[Limits | None, tuple[tuple[int, int], ...]]:
        """What a control group holds, and what each process holds where there is none."""
        limits = self._narrowed_limits()
        caps = {
            "memory": limits.memory_bytes, "cpu": limits.cpu_millicores, "pids": limits.pids,
        }  # fmt: skip
        wanted = [name for name, cap in caps.items() if cap is not None]
        if limits.wall_s is not None:
            self.rows.append(PostureField("limits.wall", "enforced", "kernel's clock"))
        if limits.output_bytes is not None:
            self.rows.append(PostureField("limits.output", "mediator only"))
        if limits.disk_bytes is not None:
            fix = "leave limits.disk out of the request"
            self._lack("limits.disk", "a private folder of the request's own", fix)
        if not wanted:
            return None, ()
        if not self.core.inside:
            held = self._grouped(wanted)
            rest = {_FIELDS[name]: None for name in caps if name not in held}
            rest |= {"wall_s": None, "disk_bytes": None, "output_bytes": None}
            return (evolve(limits, **rest) if held else None), ()
        for name in wanted:
            missing = "a control group of the request's own, which a box cannot make"
            self._lack(f"limits.{name}", missing, f"leave limits.{name} out of the request")
        memory = ((resource.RLIMIT_AS, limits.memory_bytes),) if limits.memory_bytes else ()
        return None, memory

    def _grouped(self, wanted: list[str]) -> list[str]:
        """Those of some limits that a control group holds on this machine."""
        from axonkernel.box import probe

        fields = {f"limits.{name}": name for name in wanted}
        lacking = probe.unenforced(fields, probe.probe())
        for field, piece in lacking.items():
            self._lack(field, piece.missing, piece.fix)
        held = [field for field in fields if field not in lacking]
        self.rows += [PostureField(field, "enforced", "control group") for field in held]
        return [fields[field] for field in held]

    def _narrowed_limits(self) -> Limits:
        """The limits that are to be held here: in a box, those that are less than its own."""
        limits = self.policy.limits
        if limits is None or not self._declared("limits"):
            return Limits()
        base = self.core.policy.limits
        if not self.core.inside or base is None:
            return limits
        names = ("memory_bytes", "cpu_millicores", "wall_s", "pids", "disk_bytes", "output_bytes")
        same = {name: None for name in names if getattr(limits, name) == getattr(base, name)}
        return evolve(limits, **same)

    # -- files and programs -------------------------------------------------------------

    def _grants(self, files: bool, programs: bool) -> Iterator[tuple[str, str]]:
        """(path, rights) for Landlock; in ``floor`` everybody's, then the policy's own."""
        shell = self.policy.shell if programs or not self.core.inside else None
        walled = programs and shell is not None and shell.allow is not True
        yield from floor(self.core, shell if walled else None, walled, self.own)
        if files:
            run = "" if walled else "x"
            for path, rights in Tree(self.core, self.scope, self.layers).rules():
                yield path, rights if rights == "l" else rights + run

    def _rows(self, files: bool, programs: bool) -> Iterator[PostureField]:
        for name, held in (("fs", files), ("shell", programs)):
            if held:
                yield PostureField(name, "enforced", "Landlock + seccomp filter", _NOTES[name])
        named = {row.field for row in self.rows}
        around = {row.field: row for row in self.core.posture}  # of the box, if there is one
        for name in ("fs", "net", "shell", "env"):
            held = {"fs": files, "shell": programs}.get(name, False) or name in named
            if getattr(self.policy, name) is not None and not held:
                yield around.get(name, PostureField(name, "mediator only"))
        yield from self.rows
        if self.policy.tools is not None:
            yield PostureField("tools", "mediator only")


_NOTES = {
    "fs": "what is not granted can be seen by name; modes, owners and times cannot be changed; "
    "beside a name that is taken out of a grant nothing new can be made",
    "shell": "programs can be seen, not executed; words and approvals by the mediator",
}


def _ports(allow: Iterable[str] | bool) -> tuple[int, ...] | None:
    """The TCP ports of some destinations; None where they are too many to be told apart."""
    found: set[int] = set()
    for entry in allow if not isinstance(allow, bool) else ():
        destination = parse_destination(entry)
        if destination.protocol != "tcp":
            continue
        if destination.high - destination.low >= _MOST_PORTS:
            return None
        found.update(range(destination.low, destination.high + 1))
    return tuple(sorted(found)) if len(found) <= _MOST_PORTS else None
