"""What would exist in a box, as data (pure): read off its plan, not off the policy.

A plan has hundreds of mounts, in the order they are made. A reader wants to know what can be
read and written and why a program is there, so mounts are sorted by what they are for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import ip_network
from typing import Any

from attrs import evolve

from axonkernel.box.brokered import SOCKET
from axonkernel.box.caps import net_plan
from axonkernel.box.host import Host
from axonkernel.box.model import BoxPlan, Mount, NetPlan
from axonkernel.box.seccomp import rules
from axonkernel.box.unbuilt import holds_noexec
from axonkernel.policy.environ import FLOOR
from axonkernel.policy.globs import argument_glob
from axonkernel.policy.hosts import translated
from axonkernel.policy.match import parse_destination
from axonkernel.policy.model import NetPolicy, Policy
from axonkernel.policy.profiles import beside_of

__all__ = ["inventory"]

_ROOTS = {"bind": "host", "ro-bind": "host, read-only"}
#: What shows nothing of the host's files.
_KERNEL = ("/proc", "/sys")


def inventory(policy: Policy, plan: BoxPlan, host: Host) -> dict[str, Any]:
    """JSON data about the box that ``plan`` makes.

    Arguments:
        policy: the closed policy it was made from.
        plan: from :func:`axonkernel.box.prepare.prepare_surveyed`, as ``host`` is.
    """
    return {
        "isolation": policy.effective_isolation,
        "cwd": plan.cwd,
        "files": _files(policy, plan, host),
        "programs": _programs(policy, host),
        "environment": _environment(policy, plan),
        "network": _network(policy, plan),
        "limits": _limits(policy),
        "system_calls": _system_calls(policy, plan),
        "posture": [row._asdict() for row in plan.posture],
        "notes": [*plan.warnings, *_hints(policy, host)],
    }


def _files(policy: Policy, plan: BoxPlan, host: Host) -> dict[str, Any]:
    """Every mount under one heading; steps that only make others possible are left out."""
    root = next((mount.kind for mount in plan.mounts if mount.dest == "/"), "")
    files: dict[str, Any] = {
        "root": _ROOTS.get(root, "empty"),
        "write": [],
        "read": [],
        "denied": [],
        "protected": [],
        "private": [],
        "devices": [],
        "system": [],
    }
    kinds = _Kinds(policy, host)
    for mount in plan.mounts:
        heading = kinds.heading(mount)
        if heading == "private":
            files[heading].append({"path": mount.dest, "size_bytes": mount.size_bytes or None})
        elif heading:
            files[heading].append(mount.dest)
    return files


class _Kinds:
    """Which heading a mount belongs under."""

    def __init__(self, policy: Policy, host: Host) -> None:
        fs = policy.fs
        self.write = set(fs.write) | set(fs.unsafe) - set(fs.read) if fs else set()
        self.read = {entry.path for entry in host.grants} - self.write
        self.protected = {entry.path for entry in host.protected}
        programs = (*host.programs, *host.brokered)
        self.programs = {SOCKET, *(program.file for program in programs)}
        self.programs |= {link for program in programs for link, _ in program.links}
        self.programs |= {*host.program_folders, *host.masked_programs}
        self.bins = set(host.bins) if host.walled else set()

    def heading(self, mount: Mount) -> str:
        """ "" for programs, which are told apart, and for what is only on the way."""
        path = mount.dest
        if path in self.programs or path in self.bins or path.startswith(_KERNEL):
            return ""
        match mount.kind:
            case _ if path == "/":
                return ""
            case "mask-file" | "mask-dir":
                return "denied"
            case "bind":
                return "write" if path in self.write else ""
            case "tmpfs":
                return "private" if mount.mode != 0o111 else "denied"
            case "device":
                return "devices"
            case "ro-bind" if path in self.protected and path not in self.read:
                return "protected"
            case "ro-bind":
                return "read" if path in self.read else "system"
            case "copy" | "data" | "data-over":
                return "system"
        return ""


def _programs(policy: Policy, host: Host) -> dict[str, Any]:
    shell = policy.shell
    brokered = [{"name": each.name, "file": each.file} for each in host.brokered]
    if shell is None or shell.allow is True:
        return {"wall": False, "masked": list(host.masked_programs), "brokered": brokered}
    there = [
        {"name": program.name, "file": program.file, "brought_by": program.brought_by or None}
        for program in sorted(host.programs, key=lambda program: (program.brought_by != "",))
    ]
    return {
        "wall": True,
        "there": there,
        "folders": list(host.program_folders),
        "missing": list(host.missing_programs),
        "brokered": brokered,
    }


def _environment(policy: Policy, plan: BoxPlan) -> dict[str, list[str]] | None:
    """Names by where they come from; values may be secrets. None: all of the supervisor's."""
    env = policy.env
    if env is None:
        return None
    names: dict[str, list[str]] = {"set": [], "allowed": [], "floor": [], "box": ["PWD"]}
    given = {name for name, _ in env.set}
    floor = [argument_glob(pattern) for pattern in FLOOR]
    allowed = [argument_glob(pattern) for pattern in (*env.allow, *env.unsafe_allow)]
    for name, _ in plan.env:
        if name in given:
            names["set"].append(name)
        elif any(matches(name) for matches in allowed):
            names["allowed"].append(name)
        else:
            names["floor" if any(matches(name) for matches in floor) else "box"].append(name)
    return names


def _network(policy: Policy, plan: BoxPlan) -> dict[str, Any] | None:
    """None: the host's own."""
    if policy.net is None or plan.net is None:
        return None
    return {
        "link": plan.net.link,
        "open": plan.net.open,
        "allow": list(_literal(policy.net, plan.net)),
        "names": list(_shown(plan.net.names)),
        "names_by": _names_by(plan.net),
        "deny": list(_shown((*_as_written(plan.net.deny), *plan.net.denied))),
        "listen": list(plan.net.listen),
        "escalate": [] if plan.net.ask is None else list(plan.net.ask.escalate),
        "unix_sockets": policy.net.unix,
    }


def _literal(net: NetPolicy, plan: NetPlan) -> Iterator[str]:
    """What is granted by address; ``public`` and ``private`` by that word, which is many."""
    entries = () if net.allow is True else net.allow
    words = tuple(each for each in entries if parse_destination(each).kind in ("public", "private"))
    many = frozenset(net_plan(evolve(net, allow=words)).allow)
    yield from _shown(triple for triple in plan.allow if triple not in many)
    yield from (word if "/" in word else f"{word}/tcp" for word in words)


def _as_written(triples: tuple[tuple[str, str, str], ...]) -> Iterator[tuple[str, str, str]]:
    """Less what follows from another: an IPv4 address that is denied inside IPv6 as well."""
    inside = {
        (str(each), protocol, port)
        for host, protocol, port in triples
        for each in translated(ip_network(host))
    }
    return (each for each in triples if each not in inside)


def _shown(triples: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    return (f"{host}:{port}/{protocol}" for host, protocol, port in triples)


def _names_by(net: NetPlan) -> str:
    """How names are told apart."""
    told = "TLS server name" if net.checked else "address"
    return ("TLS server name, by the proxy" if net.checked else "the proxy") if net.proxy else told


def _limits(policy: Policy) -> dict[str, Any] | None:
    limits = policy.limits
    if limits is None:
        return None
    return {
        "memory_bytes": limits.memory_bytes,
        "cpu_millicores": limits.cpu_millicores,
        "wall_s": limits.wall_s,
        "pids": limits.pids,
        "disk_bytes": limits.disk_bytes,
        "output_bytes": limits.output_bytes,
    }


def _system_calls(policy: Policy, plan: BoxPlan) -> dict[str, str]:
    """Calls that fail, always or with some arguments, and why."""
    if not plan.filter:
        return {}
    unix = policy.net.unix if policy.net is not None else "box"
    nested, noexec = policy.box.nested_userns, holds_noexec(policy)
    there = rules(nested_userns=nested, unix=unix, noexec=noexec)
    return {call: rule.why for rule in there for call in rule.calls}


def _hints(policy: Policy, host: Host) -> Iterator[str]:
    """What allowed programs could do beside others that are not there."""
    if not host.walled:
        return
    names = [program.name for program in host.programs]
    for program in host.programs:
        for other, needs in beside_of(program.name).items():
            if other not in names and not program.brought_by:
                yield f"{program.name} can do more beside {other}, and then brings {_and(needs)}"


def _and(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
