"""Grants that give more than they seem to."""

from __future__ import annotations

import re
from collections.abc import Iterator

from axonkernel.policy.controls import SOCKET_VARIABLES, is_control, only_controls
from axonkernel.policy.faults import spelled, step
from axonkernel.policy.globs import argument_glob
from axonkernel.policy.match import parse_destination
from axonkernel.policy.model import (
    EnvPolicy,
    FsPolicy,
    NetPolicy,
    Policy,
    ShellPolicy,
    SubjectRules,
    ToolRules,
)
from axonkernel.policy.profiles import SHIPPED, shipped_names
from axonkernel.policy.remark import Lint

__all__ = ["broad_grants"]

_SYSTEM_FOLDERS = ("/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/root", "/run", "/tmp",
                   "/usr", "/var")  # fmt: skip

#: Second levels where anybody registers a name, as in ``co.uk``.
_REGISTRY = re.compile(r"\*\.(?:ac|co|com|edu|gov|net|or|org)\.[a-z]{2}\Z")
_ANY_URL = re.compile(r"https?://\*")


def broad_grants(policy: Policy) -> Iterator[Lint]:
    """Remarks on what is granted, block by block."""
    if policy.fs is not None:
        yield from _files(policy.fs)
    if policy.net is not None:
        yield from _destinations(policy.net)
    if policy.shell is not None:
        yield from _programs(policy.shell)
    if policy.env is not None:
        yield from _variables(policy.env)
    if policy.tools is not None:
        if ("*", "allow") in policy.tools.entries:
            yield Lint("over-broad", '$.tools["*"]', "every tool that has no rule is allowed")
        yield from _subjects(policy.tools, "$.tools")


def _files(fs: FsPolicy) -> Iterator[Lint]:
    for name in ("read", "write"):
        for index, path in enumerate(getattr(fs, name)):
            spot = f"$.fs.{name}[{index}]"
            if path == "/" or (name == "write" and path in _SYSTEM_FOLDERS):
                yield Lint("over-broad", spot, f"{path} is much of the machine")
            if any(part.startswith("$") and part[1:2].isalpha() for part in path.split("/")):
                yield Lint("not-expanded", spot, f"variables are not expanded in {path}")


def _destinations(net: NetPolicy) -> Iterator[Lint]:
    if net.allow is True:
        yield Lint("over-broad", "$.net.allow", "any destination can be reached")
        return
    for index, entry in enumerate(net.allow):
        if reason := _broad_destination(entry):
            yield Lint("over-broad", f"$.net.allow[{index}]", f"{entry} is {reason}")


def _broad_destination(entry: str) -> str | None:
    parsed = parse_destination(entry)
    if parsed.kind in ("any", "public"):
        return "the whole internet"
    if parsed.kind == "private":
        return "every machine of the local network, and this one"
    if parsed.kind == "wildcard" and parsed.host.count(".") == 1:
        return "every name under a top-level domain"
    if parsed.kind == "wildcard" and _REGISTRY.match(parsed.host):
        return "every name that is registered there"
    if parsed.kind == "cidr" and int(parsed.host.rpartition("/")[2]) < 8:
        return "a very large network"
    return None


def _programs(shell: ShellPolicy) -> Iterator[Lint]:
    if shell.allow is True:
        yield Lint("over-broad", "$.shell.allow", "any program may run, interpreters too")
        return
    for index, entry in enumerate(shell.allow):
        spot = f"$.shell.allow[{index}]"
        name = entry.rpartition("/")[2]
        if not name.strip("*"):
            yield Lint("over-broad", spot, f"{entry} is any program, interpreters too")
        elif what := _runs_code(name):
            yield Lint("interpreter", spot, f"{entry} {what}")


def _subjects(rules: ToolRules, path: str) -> Iterator[Lint]:
    for name, entry in rules.entries:
        spot = path + step(name)
        if isinstance(entry, ToolRules):
            yield from _subjects(entry, spot)
        elif isinstance(entry, SubjectRules):
            for index, pattern in enumerate(entry.allow or ()):
                if not pattern.strip("*/:") or _ANY_URL.match(pattern):
                    message = f"{pattern} matches whatever is asked"
                    yield Lint("over-broad", f"{spot}.allow[{index}]", message)


#: What an entry of each kind means for a reader of the policy.
_KINDS = {
    "interpreter": "runs any code its arguments say; only the box holds that code",
    "wrapper": "runs the program its arguments name, which needs an entry of its own",
}


def _runs_code(name: str) -> str:
    """What to say about a name or glob that can stand for an interpreter or a wrapper."""
    if (profile := SHIPPED.of(name)) is not None:
        return _KINDS.get(profile.kind, "")
    matches = argument_glob(name)
    kinds = {known.kind for other in shipped_names() if matches(other)
             if (known := SHIPPED.of(other)) is not None}  # fmt: skip
    return next((text for kind, text in _KINDS.items() if kind in kinds), "")


def _variables(env: EnvPolicy) -> Iterator[Lint]:
    for index, name in enumerate(env.allow):
        spot = f"$.env.allow[{index}]"
        if name == "*":
            yield Lint("over-broad", spot, "passes every variable, with the secrets among them")
        elif only_controls(name):
            yield Lint(
                "control-skipped",
                spot,
                f"{name} matches only variables that a glob never covers",
                "name them one by one in unsafe_allow",
            )
        elif name in SOCKET_VARIABLES:
            yield Lint(
                "socket-variable",
                spot,
                f"{name} alone gives no access; with its socket in fs.read and fs.unsafe the "
                f"agent could {SOCKET_VARIABLES[name]}",
            )
    for index, name in enumerate(env.unsafe_allow):
        if not is_control(name):
            yield Lint(
                "needless",
                f"$.env.unsafe_allow[{index}]",
                f"{name} is an ordinary variable",
                f"allow = {spelled([name])}",
            )
