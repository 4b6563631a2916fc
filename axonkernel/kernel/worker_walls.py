"""From what holds for a request to what its worker gives up, and what is true of that.

The grants of Landlock add up and cannot take anything out again. So where a policy takes names
out of a grant, the grant is written out around them: what is there is granted name by name, and
what comes up later beside a name that was taken out is closed.
"""

from __future__ import annotations

import glob
import os
import resource
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from attrs import evolve

from axonkernel.box import closing, landlock
from axonkernel.box.giving_up import WorkerWalls
from axonkernel.box.host import Ask, survey
from axonkernel.box.interpreter import interpreter_files
from axonkernel.box.model import PostureField
from axonkernel.box.names import Entry, expand, other_names
from axonkernel.errors import BoxError, IsolationUnavailable
from axonkernel.policy.environ import QUIET, environment
from axonkernel.policy.match import parse_destination
from axonkernel.policy.model import FsPolicy, Limits, Policy, ShellPolicy
from axonkernel.policy.protect import DEFAULT_PROTECT
from axonkernel.policy.request import PathRequest
from axonkernel.policy.rules.fs import NONE, READ, WRITE, FsRules

if TYPE_CHECKING:
    from axonkernel.kernel.core import Core
    from axonkernel.kernel.scope import Layer, Scope

__all__ = ["Planned", "plan_worker", "touches"]

#: Rules of one worker; each costs some microseconds.
_MOST_RULES = 20_000
#: TCP ports that are told apart one by one.
_MOST_PORTS = 1_024
_LOADERS = ("/lib*/ld-*.so*", "/lib/*/ld-*.so*", "/usr/lib*/ld-*.so*", "/usr/lib/*/ld-*.so*")
#: Read wherever names are resolved.
_NAMES = ("/etc/hosts", "/etc/resolv.conf")

_FIELDS = {"memory": "memory_bytes", "cpu": "cpu_millicores", "pids": "pids"}

_WALLED = ("fs", "net", "shell", "env", "limits")


class Planned(NamedTuple):
    """The walls of one request.

    Arguments:
        posture: what is true of each declared field while the request runs.
        capped: the limits that a control group has to hold, or None.
    """

    walls: WorkerWalls
    posture: tuple[PostureField, ...]
    capped: Limits | None = None


def touches(policy: Policy) -> bool:
    """Whether a narrowing declares anything that a worker can hold."""
    closed = policy.closed()
    return any(getattr(closed, name) is not None for name in _WALLED)


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
            net=closed_net, fs=files, truncate=files and version < landlock.TRUSTED_SINCE_ABI
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
        yield from _floor(self.core, shell if walled else None, walled, self.own)
        if files:
            run = "" if walled else "x"
            for path, rights in _Tree(self.core, self.scope, self.layers).rules():
                yield path, rights if rights == "l" else rights + run

    def _rows(self, files: bool, programs: bool) -> Iterator[PostureField]:
        named = {row.field for row in self.rows}
        base = "the box" if self.core.inside else ""
        for name, held in (("fs", files), ("shell", programs)):
            if held:
                yield PostureField(name, "enforced", "Landlock + seccomp filter", _NOTES[name])
        for name in ("fs", "net", "shell", "env"):
            declared = getattr(self.policy, name) is not None
            held = {"fs": files, "shell": programs}.get(name, name in named)
            if declared and not held:
                yield PostureField(name, "enforced" if base else "mediator only", base)
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


def _floor(
    core: Core, shell: ShellPolicy | None, walled: bool, own: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """What every worker can read, and the programs that it may start.

    In a box that is what the box has, less the programs that the request does not have.
    """
    key = ("floor", shell)
    found = core.kept.get(key)
    if found is None:
        found = core.kept[key] = _least(dict.fromkeys(_surveyed(core, shell, walled)))
    yield from found
    yield from ((path, "r") for path in own)


def _least(grants: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Without what another one grants as well."""
    rights = {path: set(letters) for path, letters in grants}

    def is_covered(path: str, letters: str) -> bool:
        above = path
        while above != "/":
            above = os.path.dirname(above)
            if above in rights and rights[above].issuperset(letters):
                return True
        return False

    return tuple(each for each in grants if not is_covered(*each))


def _surveyed(core: Core, shell: ShellPolicy | None, walled: bool) -> Iterator[tuple[str, str]]:
    bare = Policy(fs=FsPolicy(), shell=shell if walled else None)
    host = survey(bare, Ask("agent", "/", read=interpreter_files()), core.environ, None)
    run = "" if walled else "x"
    read = [*host.libraries, *host.copied, *_NAMES, *(entry.path for entry in host.shared)]
    read += [entry.path for entry in host.extra]
    yield from ((os.path.realpath(path), "r" + run) for path in read)
    if not walled:
        yield from ((path, "rx") for path in ("/usr", *host.bins))
    folders = (*host.program_folders, *(program.file for program in host.programs))
    yield from ((os.path.realpath(path), "rx") for path in folders)
    if walled and host.programs:
        for pattern in _LOADERS:
            yield from ((os.path.realpath(path), "rx") for path in glob.glob(pattern))


def _level(table: FsRules, path: str) -> int:
    """What one policy says of a path, patterns included."""
    for level, write in ((WRITE, True), (READ, False)):
        if table.judge(PathRequest(path, write)).verdict == "allow":
            return level
    return NONE


class _Tree:
    """The fs rules of some layers as Landlock takes them."""

    def __init__(self, core: Core, scope: Scope, layers: tuple[Layer, ...]) -> None:
        self._tables = [each.ruleset.fs for each in scope.layers if each.ruleset.fs is not None]
        points: set[str] = set()
        for table in self._tables:
            points.update(table.entries)
        self._levels = {path: self._level(path) for path in points}
        own = {path for table in self._tables for path in table.mentioned()}
        grants = sorted(path for path in own if self._levels[path] > NONE)
        for entry in self._taken_out(layers, grants, core):
            for path in {entry.path, entry.link or entry.path}:
                self._levels[path] = self._level(path)
        for entry in self._denied(layers, grants):
            for path in {entry.path, entry.link or entry.path}:
                self._levels[path] = NONE
        self._sorted = sorted(self._levels)

    def rules(self) -> Iterator[tuple[str, str]]:
        """(path, rights), rights as landlock.Rules has them."""
        for path in self._sorted:
            level = self._levels[path]
            if level > self._above(path):
                yield from self._around(path, level)

    def _level(self, path: str) -> int:
        return min((_level(table, path) for table in self._tables), default=NONE)

    def _above(self, path: str) -> int:
        while path != "/":
            path = os.path.dirname(path)
            if path in self._levels:
                return self._levels[path]
        return NONE

    def _denied(self, layers: tuple[Layer, ...], grants: list[str]) -> Iterator[Entry]:
        for layer in layers:
            fs = layer.policy.closed().fs
            if fs is not None and fs.deny:
                denied = tuple(expand(fs.deny, grants))
                yield from denied
                yield from other_names(denied, grants)

    def _taken_out(
        self, layers: tuple[Layer, ...], grants: list[str], core: Core
    ) -> Iterator[Entry]:
        """What is protected inside what may be written; a box holds that already."""
        written = [path for path in grants if self._levels[path] == WRITE]
        for layer in () if core.inside else layers:
            fs = layer.policy.closed().fs
            if fs is not None and fs.write and written:
                protect = DEFAULT_PROTECT if fs.protect is None else fs.protect
                yield from (e for e in expand(protect, written) if e.kind != "missing")

    def _around(self, path: str, level: int) -> Iterator[tuple[str, str]]:
        """The rules that grant ``level`` at a path but for what is less below it."""
        lower = [p for p in self._below(path) if self._levels[p] < self._nearest(p, path, level)]
        if not lower:
            yield path, "rw" if level == WRITE else "r"
            return
        if not any(self._levels[p] == NONE and os.path.isdir(p) for p in lower):
            yield path, "l"
        try:
            with os.scandir(path) as entries:
                names = [entry.path for entry in entries if not entry.is_symlink()]
        except OSError:
            return
        for each in names:
            if each not in self._levels:
                yield from self._around(each, level)
            elif NONE < self._levels[each] <= level:
                yield from self._around(each, self._levels[each])

    def _nearest(self, path: str, top: str, level: int) -> int:
        """The level of the nearest point above ``path``, which is below ``top``."""
        while (path := os.path.dirname(path)) not in (top, "/"):
            if path in self._levels:
                return self._levels[path]
        return level

    def _below(self, folder: str) -> list[str]:
        from bisect import bisect_left

        start = f"{folder.rstrip('/')}/"
        first = bisect_left(self._sorted, start)
        found = []
        for path in self._sorted[first:]:
            if not path.startswith(start):
                break
            found.append(path)
        return found
