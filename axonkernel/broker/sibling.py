"""The box of one brokered program, beside the box of the agent that asks for it.

The same policy, and of programs only this one and what its profile needs: no shell, no
interpreter, and nothing starts from where the agent, or this program, can write. So what a
repository or another configuration says should run, such as hooks, filters and aliases of a
shell, finds no program; what has a switch is switched off by the profile.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from attrs import evolve

from axonkernel.box.find import Program
from axonkernel.box.host import Ask, Host
from axonkernel.box.model import BoxPlan, Mount
from axonkernel.box.prepare import prepare_surveyed
from axonkernel.box.protections import lies_in
from axonkernel.box.unbuilt import holds_noexec
from axonkernel.policy.controls import is_control
from axonkernel.policy.environ import FLOOR, passes
from axonkernel.policy.model import EnvPolicy, Policy, ShellPolicy
from axonkernel.policy.profiles import SHIPPED, Profile
from axonkernel.policy.profiles.spellings import subcommand_of

__all__ = ["Asked", "Sibling", "asked_env", "called", "sibling"]

#: The box has its own, whatever the caller's say.
_OWN = ("HOME", "LOGNAME", "OLDPWD", "PATH", "PWD", "SHELL", "SHLVL", "TMPDIR", "USER", "_")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*\Z")


class Sibling(NamedTuple):
    """A plan for one program, for calls of any words.

    Arguments:
        lent: the folders of the agent's box that its ``lent`` mounts are of, in order.
    """

    program: Program
    plan: BoxPlan
    lent: tuple[str, ...]
    profile: Profile | None

    def env(self, argv: tuple[str, ...], passed: Mapping[str, str]) -> dict[str, str]:
        """The whole environment of one call: the box's, what is passed, what is switched off."""
        fixed = {} if self.profile is None else self.profile.sibling.get("env", {})
        name = _subcommand(self.profile, argv[1:])
        ours = {key: value.replace("{subcommand}", name) for key, value in fixed.items()}
        return {**dict(self.plan.env), **passed, **ours}

    def plan_for(self, argv: tuple[str, ...]) -> BoxPlan:
        """The plan for one call: without a link for what never leaves the machine."""
        if self.plan.net is None or self.plan.net.link == "none" or self.profile is None:
            return self.plan
        offline = self.profile.sibling.get("offline", "").split()
        if _subcommand(self.profile, argv[1:]) not in offline:
            return self.plan
        return self.plan._replace(net=self.plan.net._replace(link="none"))


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
    profile = SHIPPED.of(program.name, program.file)
    narrowed = _narrowed(policy, program, profile)
    wanted = ask._replace(role="call", program=program.name, read=())
    plan, host = prepare_surveyed(narrowed, wanted, env=env, owner=owner)
    lends = set(lendable)
    mounts = tuple(_mounts(plan, host, lends))
    lent = tuple(mount.dest for mount in mounts if mount.kind == "lent")
    return Sibling(program, plan._replace(mounts=mounts), lent, profile)


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
    box = evolve(policy.box, noexec=True)
    narrowed = evolve(policy, shell=alone, box=box)
    return narrowed if holds_noexec(narrowed) else evolve(policy, shell=alone)


def _mounts(plan: BoxPlan, host: Host, lends: set[str]) -> Iterator[Mount]:
    """Programs start from where they lie and from nowhere else."""
    files = (program.file for program in host.programs)
    runs = (*files, *host.program_folders, *host.libraries)
    last = [mount for mount in plan.mounts if mount.kind == "remount-ro"]
    for mount in plan.mounts:
        if mount.kind == "remount-ro":
            continue
        if mount.kind == "tmpfs" and mount.dest in lends:
            yield Mount("lent", mount.dest)
        elif mount.kind in ("bind", "ro-bind", "tmpfs") and not lies_in(mount.dest, runs):
            yield mount._replace(noexec=True)
        else:
            yield mount._replace(noexec=False)
        if mount.dest == "/" and mount.kind in ("bind", "ro-bind"):
            # The host's own tree brings the libraries, as what nothing starts from.
            yield from (Mount("ro-bind", path, path) for path in host.libraries)
    yield from last


class Asked(NamedTuple):
    """What of a caller's environment goes along.

    Arguments:
        passed: variables the program gets, if they are let through.
        judged: the names among them that change what the program does.
        dropped: the names that do not go along.
    """

    passed: dict[str, str]
    judged: tuple[str, ...]
    dropped: tuple[str, ...]


def asked_env(
    policy: EnvPolicy | None,
    caller: Mapping[str, str],
    own: Mapping[str, str],
    profile: Profile | None,
) -> Asked:
    """What goes along of the environment of a call (pure).

    Arguments:
        policy: decides about every variable that is no program's business.
        caller: the environment of the call.
        own: the environment the agent's box began with: what is still as it was is the box's.
    """
    data = {} if profile is None else profile.sibling
    harmless = (*FLOOR, *data.get("harmless", "").split())
    controls, ours = data.get("controls", "").split(), data.get("env", {})
    passed: dict[str, str] = {}
    judged: list[str] = []
    dropped: list[str] = []
    for name, value in caller.items():
        if own.get(name) == value or name in _OWN:
            continue
        if _among(harmless, name):
            passed[name] = value
        elif name in ours:
            dropped.append(name)
        elif _among(controls, name):
            passed[name] = value
            judged.append(name)
        elif not is_control(name) and (policy is None or passes(policy, name)):
            passed[name] = value
        else:
            dropped.append(name)
    return Asked(passed, tuple(judged), tuple(sorted(dropped)))


def _among(patterns: Iterable[str], name: str) -> bool:
    return any(
        name.startswith(each[:-1]) if each.endswith("*") else name == each for each in patterns
    )


def called(programs: Iterable[Program], file: str, found: str) -> Program | None:
    """The brokered program that a shim stands for.

    Arguments:
        file: where the kernel found the shim, links resolved.
        found: the path that was asked for, whose last name tells apart what one file is.
    """
    name = posixpath.basename(found)
    for program in programs:
        names = {program.name, program.file, *(link for link, _ in program.links)}
        if program.file == file and name in map(posixpath.basename, names):
            return program
    return None
