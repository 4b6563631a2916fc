"""What bwrap says when it cannot make a box -> why, and what to do about it.

Pure data: the lines are those of bwrap 0.4 to 0.11. The narrow cure comes first;
switching a protection off for every program is named last.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Advice", "advise", "tree_advice"]


class Advice(NamedTuple):
    """Why a box cannot be made, and the command or setting that changes it."""

    cause: str
    fix: str


def _profile(name: str, program: str) -> str:
    """The command that lets one program make user namespaces under AppArmor."""
    return (
        r"printf 'abi <abi/4.0>,\ninclude <tunables/global>\n"
        rf"profile {name} {program} flags=(unconfined) {{\n  userns,\n}}\n'"
        f" | sudo tee /etc/apparmor.d/{name} && sudo apparmor_parser -r /etc/apparmor.d/{name}"
    )


_APPARMOR = Advice(
    "AppArmor lets unprivileged programs make no useful user namespaces",
    f"{_profile('bwrap', '/usr/bin/bwrap')} (or, as a last resort and for every program:"
    " sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0)",
)
_NO_USERNS = Advice(
    "the kernel or a container does not allow unprivileged user namespaces",
    "sudo sysctl kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000"
    " (in a container: docker run --security-opt seccomp=unconfined"
    " --security-opt apparmor=unconfined)",
)
_NO_MORE_USERNS = Advice(
    "the limit on user namespaces is reached or 0",
    "sudo sysctl user.max_user_namespaces=15000",
)
_CONTAINER = Advice(
    "a container around this process hides parts of /proc or forbids mounts",
    "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
    " --security-opt systempaths=unconfined",
)

#: (what the line contains, advice); the first that fits.
_LINES: tuple[tuple[str, Advice], ...] = (
    ("setting up uid map: Permission denied", _APPARMOR),
    ("setting up uid map: Operation not permitted", _APPARMOR),
    ("setting up gid map", _APPARMOR),
    ("loopback: Failed", _APPARMOR),
    ("No space left on device", _NO_MORE_USERNS),
    ("(ENOSPC)", _NO_MORE_USERNS),
    ("No permissions to creat", _NO_USERNS),
    ("Creating new namespace failed", _NO_USERNS),
    ("Can't mount proc", _CONTAINER),
    ("Failed to make / slave", _CONTAINER),
    ("Failed to mount", _CONTAINER),
    ("pivot_root", _CONTAINER),
    ("Can't bind mount", _CONTAINER),
    (
        "Unknown option",
        Advice("bwrap is older than 0.8", "install bubblewrap 0.8 or newer"),
    ),
    (
        "Unexpected capabilities",
        Advice(
            "this process has capabilities without being root",
            "start it without ambient or file capabilities",
        ),
    ),
    (
        "PR_SET_SECCOMP",
        Advice("the kernel has no seccomp filters", "use a kernel with CONFIG_SECCOMP_FILTER"),
    ),
)


def advise(stderr: str) -> Advice:
    """The advice for what bwrap wrote; its own last line when nothing fits."""
    for text, advice in _LINES:
        if text in stderr:
            return advice
    last = stderr.strip().rpartition("\n")[2]
    return Advice(last or "bwrap failed without a word", "run bwrap --unshare-all true and read on")


def tree_advice(python: str, *, made: bool) -> Advice:
    """Why this process cannot make the file tree of a box.

    Arguments:
        python: the interpreter, by its real path.
        made: the namespaces could be made, and what is done in them was refused.
    """
    if not made:
        return _NO_USERNS
    return Advice(_APPARMOR.cause, _profile("axonkernel-python", python))
