"""What a box grants by itself, so that the mediator can say the same as the walls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import evolve

from axonkernel.box.host import Ask, Host, survey
from axonkernel.box.interpreter import interpreter_files
from axonkernel.policy.decide import BoxGrants
from axonkernel.policy.model import FsPolicy, Policy

__all__ = ["implied_grants"]

#: Written by the box itself: they name its one user and its own resolver.
_IDENTITY = ("/etc/passwd", "/etc/group", "/etc/hosts", "/etc/resolv.conf", "/etc/gitconfig")


def implied_grants(policy: Policy, env: Mapping[str, str]) -> BoxGrants:
    """The private folders and the readable floor of an agent's box for ``policy``.

    Arguments:
        policy: paths resolved.
        env: the supervisor's environment, for PATH.
    """
    # Its grants change nothing here, and expanding their patterns would walk whole trees.
    fs = policy.closed().fs
    bare = evolve(policy.closed(), fs=FsPolicy())
    host = survey(bare, Ask("agent", "/", read=interpreter_files()), env, None)
    granted = (*fs.read, *fs.write, *fs.unsafe) if fs is not None else ()
    # The home is the host's own where the whole tree is.
    home = () if fs is None or "/" in granted else (host.user.home,)
    return BoxGrants(
        write=("/tmp", "/var/tmp", "/dev/shm", *home, *host.devices),
        read=tuple(sorted({*_floor(host), *_programs(bare, host)})),
        host=granted,
        brokered=tuple(program.file for program in host.brokered),
    )


def _floor(host: Host) -> Iterator[str]:
    yield from (*_IDENTITY, *host.copied, *host.libraries)
    yield from (entry.path for entry in (*host.shared, *host.extra))


def _programs(policy: Policy, host: Host) -> Iterator[str]:
    if policy.shell is None or policy.shell.allow is True:
        yield from ("/usr", *host.bins)
        return
    yield from host.program_folders
    for program in host.programs:
        yield program.file
        yield from (link for link, _ in program.links)
