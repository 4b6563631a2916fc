"""The box of one brokered program, beside the box of the agent that asks for it.

The same policy, and of programs only this one and what its profile needs: no shell, no
interpreter, and nothing starts from where the agent, or this program, can write. So what a
repository or another configuration says should run, such as hooks, filters and aliases of a
shell, finds no program; what has a switch is switched off by the profile.
"""

from __future__ import annotations

import os
import posixpath
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from attrs import evolve

from axonkernel.box import shim
from axonkernel.box.find import Program
from axonkernel.box.host import Ask, Host
from axonkernel.box.model import BoxPlan, Mount, NetPlan
from axonkernel.box.prepare import prepare_surveyed
from axonkernel.box.protections import lies_in
from axonkernel.box.unbuilt import holds_noexec
from axonkernel.knowledge import added_profiles
from axonkernel.policy.model import EnvPolicy, Policy, ShellPolicy
from axonkernel.policy.profiles import Profile, Profiles
from axonkernel.policy.profiles.spellings import subcommand_of

__all__ = ["Ready", "Sibling", "first_name", "sibling"]

#: Where a program lies that has a gate at its name.
_HIDDEN = "/run/axonkernel"
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*\Z")


class Ready(NamedTuple):
    """One call, ready to be started: in which box, from which path, with which environment."""

    plan: BoxPlan
    program: str
    env: dict[str, str]


class Sibling(NamedTuple):
    """A plan for one program, for calls of any words.

    Arguments:
        lent: the folders of the agent's box that its ``lent`` mounts are of, in order.
        env: says which variables of a caller go along.
        gated: at the program's own name lies what runs only parts of it (packs.c).
        scripts: its parts that are no programs.
    """

    program: Program
    plan: BoxPlan
    lent: tuple[str, ...]
    profile: Profile | None
    env: EnvPolicy | None
    gated: bool = False
    scripts: frozenset[str] = frozenset()

    def is_script(self, words: tuple[str, ...]) -> bool:
        """Whether a call is of a part that only a shell or an interpreter could run."""
        return _subcommand(self.profile, words) in self.scripts

    def ready(
        self, words: tuple[str, ...], passed: Mapping[str, str], allowed: Callable[[str], bool]
    ) -> Ready:
        """One call of the program.

        Arguments:
            words: after its name.
            passed: variables of the caller.
            allowed: whether the policy lets a subcommand be run that was not asked for.
        """
        name = _subcommand(self.profile, words)
        plan, place = self._for(name), first_name(self.program)
        if self.gated:
            # Where no configuration, which may name any program, can know it.
            place = f"{_HIDDEN}/{secrets.token_hex(16)}/{posixpath.basename(place)}"
            plan = _with(plan, Mount("over", place, self.program.file))
        told = {"subcommand": name, "program": place, "inner": self._inner(name, allowed)}
        fixed = {} if self.profile is None else self.profile.sibling.get("env", {})
        ours = {key: _filled(value, told) for key, value in fixed.items()}
        ours = {key: _filled(value, ours) for key, value in ours.items()}
        return Ready(plan, place, {**dict(self.plan.env), **passed, **ours})

    def _for(self, subcommand: str) -> BoxPlan:
        """Without a network for what never leaves the machine: a link takes longest to make."""
        net = self.plan.net
        if net is None or net.link == "none" or self.profile is None:
            return self.plan
        if subcommand not in self.profile.sibling.get("offline", "").split():
            return self.plan
        return self.plan._replace(net=NetPlan(refuse=net.refuse))

    def _inner(self, subcommand: str, allowed: Callable[[str], bool]) -> str:
        """The subcommands it may start by itself, for one that was judged."""
        inner = {} if self.profile is None else self.profile.sibling.get("inner", {})
        always = filter(allowed, inner.get("*", "").split())
        return " ".join((*always, *inner.get(subcommand, "").split()))


def _filled(value: str, told: Mapping[str, str]) -> str:
    for name, text in told.items():
        value = value.replace(f"{{{name}}}", text)
    return value


def _with(plan: BoxPlan, mount: Mount) -> BoxPlan:
    """``plan`` with one mount more, before what it ends with becomes read-only."""
    first = next((at for at, m in enumerate(plan.mounts) if m.kind == "remount-ro"), None)
    at = len(plan.mounts) if first is None else first
    return plan._replace(mounts=(*plan.mounts[:at], mount, *plan.mounts[at:]))


def first_name(program: Program) -> str:
    """The path a program is started by: the name on the way, as programs look at it."""
    return next((link for link, _ in program.links), program.file)


def _subcommand(profile: Profile | None, words: tuple[str, ...]) -> str:
    """The subcommand, where it is a plain word; it is part of a variable's value."""
    name = None if profile is None else subcommand_of(profile, words)[0]
    return name if name is not None and _WORD.match(name) else "none"


def sibling(
    policy: Policy,
    program: Program,
    ask: Ask,
    env: Mapping[str, str],
    owner: int | None,
    lendable: Iterable[str],
) -> Sibling:
    """The box of ``program``, for an agent under ``policy``.

    Arguments:
        policy: closed, its paths resolved.
        program: as it was found for the agent's box.
        ask: what that box was wanted for.
        env, owner: as for ``prepare``.
        lendable: private folders of that box, which this one has too.

    Raises IsolationUnavailable, BoxError, PolicyError.
    """
    profiles = Profiles(added_profiles(policy).values())
    profile = profiles.of(program.name, program.file)
    narrowed = _narrowed(policy, program, profile)
    wanted = ask._replace(role="call", program=program.name, read=())
    plan, host = prepare_surveyed(narrowed, wanted, env=env, owner=owner)
    gate = _gate(profile)
    mounts = list(_mounts(plan, host, set(lendable)))
    if gate:
        mounts = list(_gated(mounts, host, program, gate, profile))
    lent = tuple(mount.dest for mount in mounts if mount.kind == "lent")
    plan = plan._replace(mounts=tuple(mounts))
    scripts = frozenset(_scripts(host, program)) if gate else frozenset()
    return Sibling(program, plan, lent, profile, policy.env, bool(gate), scripts)


def _scripts(host: Host, program: Program) -> Iterator[str]:
    """The subcommands of a program that are scripts in one of its folders."""
    name = posixpath.basename(program.file)
    for folder in host.program_folders:
        for entry in os.scandir(folder) if os.path.isfile(f"{folder}/{name}") else ():
            if entry.name.startswith(f"{name}-") and entry.is_file():
                with open(entry.path, "rb") as file:
                    if file.read(2) == b"#!":
                        yield entry.name.removeprefix(f"{name}-")


def _narrowed(policy: Policy, program: Program, profile: Profile | None) -> Policy:
    """``policy`` with one program, judged before it starts, and the few it may start itself."""
    shell = policy.shell if policy.shell is not None else ShellPolicy()
    judged = {name for name, _ in shell.args}
    beside = () if profile is None else profile.sibling.get("beside", ())
    granted = [
        name
        for name in beside
        if name not in judged and (shell.allow is True or name in shell.allow)
    ]
    alone = evolve(shell, allow=(program.name, *granted), args=(), raw=False, unsafe=())
    # The host's ports lead to the agent's own box.
    net = None if policy.net is None else evolve(policy.net, listen=())
    narrowed = evolve(policy, shell=alone, net=net, box=evolve(policy.box, noexec=True))
    return narrowed if holds_noexec(narrowed) else evolve(narrowed, box=policy.box)


def _gate(profile: Profile | None) -> str:
    """What lies at the names of a shell and of the program itself; "" for nothing."""
    wanted = "" if profile is None else profile.sibling.get("shell", "")
    return shim.packs() if wanted == "packs" else ""


def _mounts(plan: BoxPlan, host: Host, lends: set[str]) -> Iterator[Mount]:
    """Programs start from where they lie and from nowhere else."""
    files = (program.file for program in host.programs)
    runs = (*files, *host.program_folders, *host.libraries)
    for mount in plan.mounts:
        if mount.kind == "tmpfs" and mount.dest in lends:
            yield Mount("lent", mount.dest)
        elif mount.kind in ("bind", "ro-bind", "tmpfs") and not lies_in(mount.dest, runs):
            yield mount._replace(noexec=True)
        else:
            yield mount._replace(noexec=False)
        if mount.dest == "/" and mount.kind in ("bind", "ro-bind"):
            # The host's own tree brings the libraries, as what nothing starts from.
            yield from (Mount("ro-bind", path, path) for path in host.libraries)


def _gated(
    mounts: Iterable[Mount], host: Host, program: Program, gate: str, profile: Profile | None
) -> Iterator[Mount]:
    """The gate in place of the program, of a shell and of what else the program consists of.

    There is no /proc, by which the program could be started once more without its name.
    """
    name = posixpath.basename(program.file)
    folders = [each for each in host.program_folders if os.path.isfile(f"{each}/{name}")]
    last: list[Mount] = []
    for mount in mounts:
        if mount.kind == "remount-ro":
            last.append(mount)
        elif mount.dest == program.file:
            yield mount._replace(kind="over", source=gate)
        elif mount.dest in folders:
            yield from _helpers(mount.dest, program, profile)
            last.insert(0, Mount("remount-ro", mount.dest))
        elif not lies_in(mount.dest, ("/proc", *folders)):
            yield mount
    yield Mount("tmpfs", _HIDDEN, mode=0o711, noexec=True)
    last.insert(0, Mount("remount-ro", _HIDDEN))
    yield Mount("over", posixpath.join(os.path.realpath("/bin"), "sh"), gate)
    yield from last


def _helpers(folder: str, program: Program, profile: Profile | None) -> Iterator[Mount]:
    """A folder of parts of a program, of which only some are there, and the gate for others."""
    yield Mount("tmpfs", folder)
    data = {} if profile is None else profile.sibling
    for part in data.get("links", "").split():
        yield Mount("symlink", f"{folder}/{part}", program.file)
    for part in data.get("helpers", "").split():
        path = f"{folder}/{part}"
        if os.path.islink(path):
            yield Mount("symlink", path, os.readlink(path))
        elif os.path.isfile(path):
            yield Mount("ro-bind", path, path)
