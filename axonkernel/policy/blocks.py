"""The blocks that grant: fs, net, shell and env, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from axonkernel.policy.checks import check_fs
from axonkernel.policy.entries import destination, path, path_glob, program, proxy, resolver
from axonkernel.policy.faults import Place, type_name
from axonkernel.policy.fields import Block, Field
from axonkernel.policy.kinds import (
    Kind,
    boolean,
    choice,
    count,
    either_true_or,
    listed,
    mapped,
)
from axonkernel.policy.model import (
    ArgsRules,
    EnvPolicy,
    FsPolicy,
    NetPolicy,
    ShellPolicy,
)
from axonkernel.policy.words import (
    control_name,
    hazard,
    pattern,
    strict_pattern,
    value,
    variable,
    variable_name,
)

__all__ = ["env", "fs", "net", "shell"]


def _read_protect(entry: Any, place: Place) -> tuple[str, ...] | None:
    if entry is False:
        return ()
    if entry is True:
        return place.fault("must be a list or false", entry, "leave it out for the built-in list")
    paths: tuple[str, ...] | None = listed(path_glob).read(entry, place)
    return paths


_protect = Kind(
    _read_protect, {"anyOf": [{"const": False}, listed(path_glob).schema]}, listed(path_glob).write
)

fs = Block(
    FsPolicy,
    (
        Field("read", listed(path), "Files and folders that can be read."),
        Field("write", listed(path), "Files and folders that can be written and read."),
        Field("deny", listed(path_glob), "Paths and globs carved out of the grants."),
        Field(
            "protect",
            _protect,
            "Paths and globs that are read-only inside write grants; false for none, absent for "
            "the built-in list.",
        ),
        Field(
            "unsafe",
            listed(path),
            "Control sockets and system folders that the grants may name all the same.",
        ),
    ),
    "Which files exist for the agent.",
    closable=True,
    openers=("read", "write"),
    fix='read = ["/"]',
    finish=check_fs,
)

_destinations = listed(destination)

net = Block(
    NetPolicy,
    (
        Field("allow", either_true_or(_destinations), "Where to; true for anywhere."),
        Field("deny", _destinations, "Carved out of allow."),
        Field("escalate", _destinations, "What a person may add during a run."),
        Field(
            "dns",
            choice("allowlist", "open", "off"),
            "Which names resolve inside the box: the granted ones, all, none.",
        ),
        Field(
            "tls_names",
            choice("off", "check"),
            "Whether the server name of a TLS connection must be a granted one.",
        ),
        Field("listen", listed(count(1, 65535)), "Ports the host may reach inside the box."),
        Field("unix", choice("box", "none"), "Unix sockets inside the box, or none at all."),
        Field("link", choice("pasta", "veth"), "How the box is linked to the network."),
        Field("refuse", choice("reject", "drop"), "How a refused packet is answered."),
        Field("resolver", resolver, "Address of the upstream DNS server."),
        Field("proxy", proxy, "URL of the upstream proxy."),
    ),
    "Which destinations can be reached.",
    closable=True,
    openers=("allow", "escalate"),
    fix="allow = true",
)

_args = Block(
    ArgsRules,
    (
        Field("allow", listed(strict_pattern), "When given, other arguments are denied."),
        Field("deny", listed(pattern), "Arguments that are denied."),
        Field("escalate", listed(pattern), "Arguments a person is asked about."),
    ),
    "Patterns on the arguments of one program.",
)


#: How "no cap" travels while a block is read: None stands for what could not be read.
_UNCAPPED = -1


def _read_spawn(entry: Any, place: Place) -> int | None:
    if isinstance(entry, bool):
        return _UNCAPPED if entry else 0
    if isinstance(entry, Mapping) and set(entry) == {"max"}:
        number: int | None = count(0, 1_000_000).read(entry["max"], place.at("max"))
        return number
    hint = f"{{ max = {entry} }}" if isinstance(entry, int) else "{ max = 4 }"
    message = f"must be true, false or a table with max, not {type_name(entry)}"
    return place.fault(message, entry, hint)


_spawn = Kind(
    _read_spawn,
    {
        "anyOf": [
            {"type": "boolean"},
            {
                "type": "object",
                "properties": {"max": count(0, 1_000_000).schema},
                "required": ["max"],
                "additionalProperties": False,
            },
        ]
    },
    lambda most: True if most is None else {"max": most},
)

_programs = listed(program)


def _finish_shell(block: ShellPolicy, _place: Place) -> ShellPolicy:
    return evolve(block, spawn=None) if block.spawn == _UNCAPPED else block


shell = Block(
    ShellPolicy,
    (
        Field("allow", either_true_or(_programs), "Programs that may run; true for any."),
        Field("deny", _programs, "Programs that may not; beats allow."),
        Field("args", mapped(program, _args.kind), "Program to its argument rules."),
        Field("raw", boolean, "Whether a string with shell syntax may run in bash."),
        Field("spawn", _spawn, "Whether, or how many, processes may outlive their call."),
        Field("unsafe", listed(hazard), "Built-in hazards that are lifted."),
        Field("path", listed(path), "Folders where bare names are looked up."),
        Field("profiles", listed(path), "Files with more knowledge about programs."),
    ),
    "Which programs may run, and with which arguments.",
    closable=True,
    openers=("allow",),
    fix="allow = true",
    finish=_finish_shell,
)

env = Block(
    EnvPolicy,
    (
        Field("allow", listed(variable), "Variables passed through; a trailing * is a glob."),
        Field("set", mapped(variable_name, value, variable_name.schema), "Fixed values."),
        Field(
            "unsafe_allow",
            listed(control_name),
            "Variables passed through although loaders or interpreters obey them.",
        ),
    ),
    "What the environment holds beyond its small floor.",
    closable=True,
)
