"""What a plan depends on, for keeping it (plancache.py)."""

from __future__ import annotations

from collections.abc import Iterable

from axonkernel.box import gitconfig
from axonkernel.box.host import Host
from axonkernel.box.plancache import Seen
from axonkernel.policy.globs import is_glob
from axonkernel.policy.model import Policy

__all__ = ["seen"]


def seen(
    layers: Iterable[Policy], policy: Policy, host: Host, more: Iterable[str] = ()
) -> Seen | None:
    """The paths that the survey of ``host`` looked at; None when it walked below a grant.

    Also as the policies spell them, and programs as they are called: a link in one of those
    may lead elsewhere later.

    Arguments:
        layers: the policies as they are written.
        policy: all of them met, paths resolved.
        more: files that had their part in the policies.
    """
    fs = policy.fs
    if fs is not None and (fs.write or any(is_glob(pattern) for pattern in fs.deny)):
        return None
    entries = (*host.grants, *host.extra, *host.shared, *host.denied)
    programs = [program.file for program in host.programs]
    programs += [program.file for program in host.brokered]
    every = (*host.programs, *host.brokered)
    programs += [link for program in every for link, _ in program.links]
    blocks = [layer.fs for layer in layers if layer.fs is not None]
    spelled = [path for block in blocks for path in (*block.read, *block.deny, *block.unsafe)]
    paths = (
        *spelled,
        *(entry.path for entry in entries),
        *host.bins,
        *host.libraries,
        *host.copied,
        *programs,
        *host.program_folders,
        *host.brokered_folders,
        *more,
        *gitconfig.sources(host.user.home),
    )
    walled = fs is not None and policy.net is not None and policy.net.unix == "box"
    if fs is None or not walled:
        return Seen(paths)
    return Seen(paths, fs.read, tuple(sorted(entry.path for entry in host.sockets)))
