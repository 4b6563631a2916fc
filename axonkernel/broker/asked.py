"""What a call asks for (pure): which program, and which variables go along."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from axonkernel.box.find import Program
from axonkernel.policy.controls import is_control
from axonkernel.policy.environ import FLOOR, passes
from axonkernel.policy.model import EnvPolicy
from axonkernel.policy.profiles import Profile

__all__ = ["Asked", "asked_env", "called"]

#: The box has its own, whatever the caller's say.
_OWN = ("HOME", "LOGNAME", "OLDPWD", "PATH", "PWD", "SHELL", "SHLVL", "TMPDIR", "USER", "_")


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
