"""``axonkernel explain --box``: what would exist in the box of ``exec`` under a policy."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attrs import evolve

from axonkernel.cli.args import say, say_json
from axonkernel.errors import Fault, PolicyError

__all__ = ["explain_box"]

_WIDTH = 96
_INDENT = 13

#: Headings of files with what a reader should know of each.
_FILES = {
    "write": "",
    "read": "",
    "protected": "read-only inside what is written",
    "denied": "there, and nobody can open it",
    "private": "empty at the start, gone at the end",
    "devices": "beside null, zero, full, random, urandom, tty",
}
_SYSTEM_SHOWN = 6
_CALLS = 12


def explain_box(args: argparse.Namespace, cwd: str) -> int:
    """Print the box for the policy that ``args`` name; 0, or an error where there is none."""
    from axonkernel.box.host import Ask
    from axonkernel.box.inventory import inventory
    from axonkernel.box.prepare import prepare_surveyed, refused
    from axonkernel.cli.execplan import effective, owner_of
    from axonkernel.config.loaded import load
    from axonkernel.folders import own_folders

    loaded = load(args.policy, require_policy=args.require_policy, read_untrusted=True)
    policy = effective(layer.closed() for _, layer in loaded.layers)
    if policy.effective_isolation == "none":
        hint = 'declare fs, or isolation = "auto"'
        if not loaded.source:
            hint = "name the policy with --policy FILE; axonkernel init writes one"
        fault = Fault("$.isolation", "there is no box", hint=hint)
        raise PolicyError([fault], loaded.source or "policy")
    hide = (loaded.source,) if loaded.source else ()
    lacking = refused(policy)
    # One missing wall is no reason to tell nothing of the others; without any box, it is.
    wanted = policy if "box" in lacking else evolve(policy, isolation="best-effort")
    ask = Ask("exec", cwd, hide=hide, state=own_folders())
    plan, host = prepare_surveyed(wanted if lacking else policy, ask, owner=owner_of(hide))
    plan = plan._replace(warnings=plan.warnings[len(lacking) :])
    data = inventory(policy, plan, host)
    data["refused"] = [
        {"field": field, "missing": piece.missing, "fix": piece.fix}
        for field, piece in lacking.items()
    ]
    if args.json:
        say_json({"source": loaded.source, **data, "notes": [*loaded.notes, *data["notes"]]})
    else:
        say(_lines(loaded.source, data, (*loaded.notes, *data["notes"])))
    return 0


def _lack(refused: Mapping[str, str]) -> str:
    return f"{refused['field']} needs {refused['missing']}; fix: {refused['fix']}"


def _lines(source: str, data: Mapping[str, Any], notes: Iterable[str]) -> Iterator[str]:
    yield f"the box of axonkernel exec under {source}"
    yield from (f"on this machine exec refuses it: {_lack(each)}" for each in data["refused"])
    yield from _files(data["files"], data["cwd"])
    yield from _programs(data["programs"])
    yield from _environment(data["environment"])
    yield from _network(data["network"])
    yield from _limits(data["limits"])
    yield from _system_calls(data["system_calls"])
    yield from (f"note: {note}" for note in notes)


def _row(name: str, items: Iterable[str], note: str = "") -> Iterator[str]:
    """``name  item, item (note)``, wrapped under the first item."""
    text = ", ".join(items) + (f"  ({note})" if note else "")
    yield from textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=f"  {name:<{_INDENT - 2}}",
        subsequent_indent=" " * _INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _files(files: Mapping[str, Any], cwd: str) -> Iterator[str]:
    what = {"empty": "what is not listed does not exist"}
    yield f"files: {what.get(files['root'], 'the whole tree of the ' + files['root'])}"
    for name, note in _FILES.items():
        items = files[name]
        if name == "private":
            items = [_sized(item["path"], item["size_bytes"]) for item in items]
        if items:
            yield from _row(name, items, note)
    system = files["system"]
    if system:
        rest = f"and {len(system) - _SYSTEM_SHOWN} more; --json lists them"
        shown = sorted(system, key=lambda path: (path.startswith("/etc/"), path))[:_SYSTEM_SHOWN]
        yield from _row("system", [*shown, rest], "read-only")
    yield from _row("starts in", [cwd])


def _sized(path: str, size_bytes: int | None) -> str:
    return path if size_bytes is None else f"{path} up to {_size(size_bytes)}"


def _size(size_bytes: int) -> str:
    for unit, step in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= step:
            return f"{size_bytes / step:.4g} {unit}"
    return f"{size_bytes} bytes"


def _programs(programs: Mapping[str, Any]) -> Iterator[str]:
    if not programs["wall"]:
        yield "programs: all of the host's that can be read"
        if programs["masked"]:
            yield from _row("but not", programs["masked"])
        yield from _brokered(programs["brokered"])
        return
    yield "programs: these, CMD itself and what it needs; no other can be started by any name"
    brought: dict[str, list[str]] = {}
    for program in programs["there"]:
        brought.setdefault(program["brought_by"] or "", []).append(program["name"])
    if not brought:
        yield from _row("allowed", ["none"])
    for by, names in brought.items():
        yield from _row("allowed" if not by else "brought", names, f"needed by {by}" if by else "")
    yield from _brokered(programs["brokered"])
    if programs["folders"]:
        yield from _row("they read", programs["folders"])
    if programs["missing"]:
        yield from _row("missing", programs["missing"], "allowed, and not on this machine")


def _brokered(programs: Iterable[Mapping[str, str]]) -> Iterator[str]:
    if names := [program["name"] for program in programs]:
        yield from _row("brokered", names, "not in it: each call is judged, and runs outside")


_ORIGINS = {
    "set": "by the policy",
    "allowed": "passed through",
    "floor": "passed through always",
    "box": "made for the box",
}


def _environment(names: Mapping[str, list[str]] | None) -> Iterator[str]:
    if names is None:
        yield "environment: all variables, secrets included"
        return
    yield "environment: these variables and no other (values are not shown)"
    for origin, note in _ORIGINS.items():
        if names[origin]:
            yield from _row(origin, names[origin], note)


def _network(network: Mapping[str, Any] | None) -> Iterator[str]:
    if network is None:
        yield "network: the host's own, its loopback included"
        return
    if network["open"]:
        yield "network: its own, linked; everything can be reached"
    elif network["link"] == "none":
        yield "network: a loopback of its own and nothing else"
    else:
        link = f"linked by {network['link']}"
        if network["link"] == "proxy":
            link = "without a link, names through the proxy"
        yield f"network: its own, {link}; only these can be reached"
        if network["allow"]:
            yield from _row("allowed", network["allow"])
        if network["names"]:
            yield from _row("names", network["names"], f"by {network['names_by']}")
    if network["deny"]:
        yield from _row("but not", network["deny"])
    if network["escalate"]:
        yield from _row("asked", network["escalate"], "when a program tries")
    if network["listen"]:
        ports = [f"{port}" for port in network["listen"]]
        yield from _row("let in", ports, "from the host's 127.0.0.1")
    if network["unix_sockets"] == "none":
        yield from _row("unix sockets", ["none; connected pairs stay"])


def _limits(limits: Mapping[str, Any] | None) -> Iterator[str]:
    if limits is None:
        yield "limits: none"
        return
    said = {
        "memory": limits["memory_bytes"] and f"{_size(limits['memory_bytes'])}, no swap",
        "cpu": limits["cpu_millicores"] and f"{limits['cpu_millicores'] / 10:g}% of one core",
        "wall": limits["wall_s"] and f"{limits['wall_s']:g} s",
        "pids": limits["pids"] and f"{limits['pids']} processes and threads",
        "disk": limits["disk_bytes"] and _size(limits["disk_bytes"]),
        "output": limits["output_bytes"] and f"{_size(limits['output_bytes'])} of one call",
    }
    yield "limits: the command is ended, or waits, at these"
    for name, text in said.items():
        if text:
            yield from _row(name, [text])


def _system_calls(calls: Mapping[str, str]) -> Iterator[str]:
    if not calls:
        return
    yield "system calls: these fail, some with certain arguments only"
    rest = f"and {len(calls) - _CALLS} more; --json lists them with their reasons"
    yield from _row("denied", [*list(calls)[:_CALLS], rest])
