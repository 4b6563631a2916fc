"""The fields of every block: the table of the policy language, as code."""

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
    as_data,
    boolean,
    choice,
    count,
    either_true_or,
    listed,
    mapped,
    money,
    text,
    unit,
)
from axonkernel.policy.model import (
    ArgsRules,
    BoxPolicy,
    Budget,
    EnvPolicy,
    EscalationPolicy,
    FsPolicy,
    Limits,
    NetPolicy,
    ShellPolicy,
)
from axonkernel.policy.units import parse_cpu, parse_duration, parse_size
from axonkernel.policy.words import (
    control_name,
    hazard,
    pattern,
    strict_pattern,
    value,
    variable,
    variable_name,
)

__all__ = ["box", "budget", "env", "escalation", "fs", "limits", "net", "shell", "size", "wall"]

size = unit(
    parse_size,
    {
        "anyOf": [
            {"type": "integer", "exclusiveMinimum": 0},
            {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?([KMGT]?(iB|i)?|B)$"},
        ]
    },
)

wall = unit(
    parse_duration,
    {
        "anyOf": [
            {"type": "number", "exclusiveMinimum": 0},
            {"type": "string", "pattern": r"^([0-9.]+(d|h|m|s|ms)?)+$"},
        ]
    },
    lambda seconds: int(seconds) if seconds == int(seconds) else seconds,
)

cpu = unit(
    parse_cpu,
    {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?%$"},
    lambda millicores: f"{millicores // 10}.{millicores % 10}%".replace(".0%", "%"),
)


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

limits = Block(
    Limits,
    (
        Field("memory", size, "Memory of the whole process tree.", "memory_bytes"),
        Field("cpu", cpu, "CPU time; 100% is one core.", "cpu_millicores"),
        Field("wall", wall, "Running time; a plain number is seconds.", "wall_s"),
        Field("pids", count(1), "Processes and threads."),
        Field("disk", size, "Size of the private /tmp.", "disk_bytes"),
        Field("output", size, "Bytes one call may return.", "output_bytes"),
    ),
    "Caps on one run.",
)

budget = Block(
    Budget,
    (
        Field("turns", count(0), "Rounds of the agent loop."),
        Field("tokens", count(0, 2**53), "Tokens of the model."),
        Field("usd", money, "US dollars."),
        Field("tool_calls", count(0), "Tool calls."),
    ),
    "Counters of an agent loop.",
)

escalation = Block(
    EscalationPolicy,
    (
        Field("timeout", wall, "How long a question waits for an answer.", "timeout_s"),
        Field("headless", choice("wait", "deny"), "What happens when nobody can be asked."),
    ),
    "Asking a person.",
)


def _read_run_as(entry: Any, place: Place) -> str | int | None:
    if isinstance(entry, int) and not isinstance(entry, bool):
        uid: int | None = count(0, 2**32 - 2).read(entry, place)
        return uid
    name: str | None = text.read(entry, place)
    if name is not None and (":" in name or "/" in name or " " in name):
        return place.fault("must be a user name or a uid", entry, '"nobody"')
    return name


_run_as = Kind(
    _read_run_as,
    {
        "anyOf": [
            {"type": "integer", "minimum": 0, "maximum": 2**32 - 2},
            {"type": "string", "pattern": r"^[^:/\s]+$"},
        ]
    },
    as_data,
)

box = Block(
    BoxPolicy,
    (
        Field("run_as", _run_as, "User the agent runs as when the supervisor is root."),
        Field("devices", listed(choice("kvm", "dri", "nvidia")), "Devices that exist inside."),
        Field("nested_userns", boolean, "For programs that sandbox themselves."),
        Field("noexec", boolean, "Whether writable places refuse to execute."),
    ),
    "Tuning of the box.",
)
