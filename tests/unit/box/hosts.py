"""A host by hand, so that plans can be read without one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from axonkernel.box.find import Program
from axonkernel.box.host import Ask, Entry, Host, User
from axonkernel.box.model import BoxPlan, Mount
from axonkernel.box.plan import build
from axonkernel.policy.parse import parse

__all__ = ["ASK", "BINS", "UNAME", "USER", "entries", "host", "kinds", "places", "plan"]

USER = User("ann", 1000, 1000, "/home/ann")
ASK = Ask("exec", "/ws")
BINS = ("/usr/local/bin", "/usr/bin")
UNAME = Program("uname", (), "/usr/bin/uname")


def entries(*paths: str, kind: Any = "dir") -> tuple[Entry, ...]:
    """Entries of one kind."""
    return tuple(Entry(path, kind) for path in paths)


def host(**fields: Any) -> Host:
    """A small merged-usr machine, with ``fields`` in place of its own."""
    own: dict[str, Any] = {
        "user": USER,
        "switch_user": False,
        "env": (("LANG", "C.UTF-8"), ("SECRET", "s"), ("TOKEN", "t")),
        "path": BINS,
        "usr_links": (("/bin", "usr/bin"), ("/lib", "usr/lib")),
        "kernel_files": ("/sys",),
        "libraries": ("/usr/lib/x86_64-linux-gnu",),
        "shared": entries("/usr/share/zoneinfo"),
        "copied": ("/etc/localtime",),
        "grants": (),
        "extra": (),
        "denied": (),
        "protected": (),
        "hidden": (),
        "bins": BINS,
        "walled": True,
        "programs": (UNAME,),
        "program_folders": (),
        "missing_programs": (),
        "masked_programs": (),
        "links": (),
    }
    return Host(**(own | fields))


def plan(data: Mapping[str, Any], found: Host, ask: Ask = ASK) -> BoxPlan:
    """The plan of a policy (as data, paths from /ws) on a host."""
    policy = parse(dict(data), base="/ws", home="/home/ann", source="test")
    return build(policy.closed(), found, ask)


def places(mounts: Iterable[Mount]) -> list[str]:
    """The destinations in order."""
    return [mount.dest for mount in mounts]


def kinds(mounts: Iterable[Mount]) -> dict[str, str]:
    """Destination to kind; the last one at a place."""
    return {mount.dest: mount.kind for mount in mounts}
