"""Rules that cannot take effect, whatever is asked."""

from __future__ import annotations

from collections.abc import Iterator

from axonkernel.policy.checks import below
from axonkernel.policy.faults import spelled, step
from axonkernel.policy.globs import argument_glob, glob_parts, is_glob, path_glob, unescape
from axonkernel.policy.meets.net import common_allow
from axonkernel.policy.model import (
    EnvPolicy,
    FsPolicy,
    Policy,
    ShellPolicy,
    SubjectRules,
    ToolRules,
)
from axonkernel.policy.remark import Lint

__all__ = ["dead_rules"]


def dead_rules(policy: Policy) -> Iterator[Lint]:
    """Remarks on rules that can never match, block by block."""
    if policy.fs is not None:
        yield from _carve_outs(policy.fs)
    if policy.net is not None and policy.net.allow is not True:
        yield from _overruled(policy.net.allow, policy.net.deny, "$.net.allow")
        yield from _overruled(policy.net.escalate, policy.net.deny, "$.net.escalate")
    if policy.shell is not None and policy.shell.allow is not True:
        yield from _dead_programs(policy.shell, policy.shell.allow)
    if policy.env is not None:
        yield from _fixed_variables(policy.env)
    if policy.tools is not None:
        yield from _dead_subjects(policy.tools, "$.tools")


def _fixed_variables(env: EnvPolicy) -> Iterator[Lint]:
    fixed = {name for name, _ in env.set}
    for key in ("allow", "unsafe_allow"):
        for index, name in enumerate(getattr(env, key)):
            if name in fixed:
                message = f"{name} has a fixed value in set; only one of them counts"
                yield Lint("never-matches", f"$.env.{key}[{index}]", message)


def _overruled(entries: tuple[str, ...], deny: tuple[str, ...], path: str) -> Iterator[Lint]:
    for index, entry in enumerate(entries):
        over = next((each for each in deny if _within(entry, each)), None)
        if over is not None:
            message = f"{entry} is in deny too, and deny wins"
            if over != entry:
                message = f"{entry} is denied by {over}, and deny wins"
            yield Lint("never-matches", f"{path}[{index}]", message)


def _within(entry: str, deny: str) -> bool:
    """Whether all of a destination lies in a denied one."""
    return common_allow((entry,), (deny,), covering=True) == (entry,)


def _carve_outs(fs: FsPolicy) -> Iterator[Lint]:
    grants = (*fs.read, *fs.write)
    for pattern in filter(is_glob, fs.deny):
        denied = path_glob(pattern)
        for name in ("read", "write"):
            for index, grant in enumerate(getattr(fs, name)):
                if denied(grant):
                    message = f"{grant} is denied by {pattern}, and deny wins"
                    yield Lint("never-matches", f"$.fs.{name}[{index}]", message)
    for index, entry in enumerate(fs.deny):
        spot = f"$.fs.deny[{index}]"
        if not _touches(entry, grants):
            yield Lint("never-matches", spot, f"nothing under {entry} is granted")
        if is_glob(entry) and "[" in entry:
            yield Lint("not-expanded", spot, "brackets are ordinary characters, not a class")
    for index, entry in enumerate(fs.protect or ()):
        if not _touches(entry, fs.write):
            yield Lint("never-matches", f"$.fs.protect[{index}]", f"{entry} is in no write grant")
    for index, entry in enumerate(fs.unsafe):
        if not any(below(grant, entry) for grant in grants):
            yield Lint(
                "needless",
                f"$.fs.unsafe[{index}]",
                f"{entry} is not granted; unsafe only lifts the refusal",
                f"read = {spelled([entry])} grants it",
            )


def _touches(entry: str, grants: tuple[str, ...]) -> bool:
    if not is_glob(entry):
        path = unescape(entry)
        return any(below(path, grant) or below(grant, path) for grant in grants)
    fixed = glob_parts(entry)[0].rpartition("/")[0] or "/"
    return any(below(fixed, grant) or below(grant, fixed) for grant in grants)


def _dead_programs(shell: ShellPolicy, allow: tuple[str, ...]) -> Iterator[Lint]:
    for index, entry in enumerate(allow):
        if any(entry == deny or argument_glob(deny)(entry) for deny in shell.deny):
            yield Lint(
                "never-matches", f"$.shell.allow[{index}]", f"{entry} is denied, and deny wins"
            )
    for program, args in shell.args:
        for name in ("allow", "escalate"):
            place = f"$.shell.args{step(program)}.{name}"
            yield from _said_twice(getattr(args, name) or (), args.deny, place)
        if not any(_may_be(program, entry) for entry in allow):
            yield Lint(
                "never-matches",
                f"$.shell.args{step(program)}",
                f"{program} is not in allow",
                f"allow = {spelled([*allow, program])}",
            )
    for index, entry in enumerate(shell.deny):
        if not any(_may_be(entry, granted) for granted in allow):
            yield Lint("never-matches", f"$.shell.deny[{index}]", f"{entry} is not in allow")


def _may_be(one: str, other: str) -> bool:
    """Whether two entries can mean one program; a bare name can lie at any path."""
    if ("/" in one) != ("/" in other):
        one, other = one.rpartition("/")[2], other.rpartition("/")[2]
    if is_glob(one) and is_glob(other):
        first, second = glob_parts(one)[0], glob_parts(other)[0]
        return first.startswith(second) or second.startswith(first)
    return argument_glob(one)(other) or argument_glob(other)(one)


def _dead_subjects(rules: ToolRules, path: str) -> Iterator[Lint]:
    for name, entry in rules.entries:
        spot = path + step(name)
        if isinstance(entry, ToolRules):
            yield from _dead_subjects(entry, spot)
        elif isinstance(entry, SubjectRules):
            yield from _said_twice(entry.allow or (), entry.deny, f"{spot}.allow")
            yield from _said_twice(entry.escalate, entry.deny, f"{spot}.escalate")


def _said_twice(patterns: tuple[str, ...], deny: tuple[str, ...], place: str) -> Iterator[Lint]:
    for index, pattern in enumerate(patterns):
        if pattern in deny:
            message = f"{pattern} is in deny too, and deny wins"
            yield Lint("never-matches", f"{place}[{index}]", message)
