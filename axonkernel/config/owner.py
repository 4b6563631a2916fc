"""Whose a file is, and who else could change it. Standard library only (launch path)."""

from __future__ import annotations

import os
import stat

__all__ = ["my_uids", "writable_by"]


def my_uids() -> frozenset[int]:
    """The user ids that are this user: its own, and under sudo that of the person behind it."""
    uids = {os.geteuid()}
    behind = os.environ.get("SUDO_UID", "")
    # Only root may count somebody else as itself: for others the variable is mere text.
    if os.geteuid() == 0 and behind.isascii() and behind.isdigit():
        uids.add(int(behind))
    return frozenset(uids)


def writable_by(status: os.stat_result) -> str:
    """Who besides the owner can write it: ``everybody``, a group, or "" for nobody."""
    if status.st_mode & stat.S_IWOTH:
        return "everybody"
    if status.st_mode & stat.S_IWGRP and not _is_private_group(status):
        return f"group {_group_name(status.st_gid)}"
    return ""


def _is_private_group(status: os.stat_result) -> bool:
    """Whether the group is its owner's alone, as umask 002 systems give every user."""
    import grp
    import pwd

    if status.st_uid == 0 and status.st_gid == 0:
        return True
    try:
        user = pwd.getpwuid(status.st_uid)
        group = grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    private = user.pw_gid == group.gr_gid and user.pw_name == group.gr_name
    return private and set(group.gr_mem) <= {user.pw_name}


def _group_name(gid: int) -> str:
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
