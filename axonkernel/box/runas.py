"""Whom a root supervisor runs the agent as."""

from __future__ import annotations

import os
import pwd

from axonkernel.box.host import User
from axonkernel.errors import BoxError, Fault, PolicyError
from axonkernel.policy.model import Policy

__all__ = ["run_as"]


def run_as(policy: Policy, owner: int | None) -> User | None:
    """The user of the box; None to keep this process's own uid, which root does without any
    capability.

    Arguments:
        policy: paths resolved.
        owner: uid to take where ``box.run_as`` names nobody; None takes the first write
            grant's owner, or that of the first folder above it that exists.

    Raises PolicyError for a ``run_as`` that does not exist, BoxError when the owner cannot be
    found.
    """
    if os.getuid() != 0:
        return None
    wanted = policy.box.run_as
    if wanted is None:
        wanted = _owner(policy) if owner is None else owner
    if wanted is None:
        return None
    try:
        entry = pwd.getpwnam(wanted) if isinstance(wanted, str) else pwd.getpwuid(wanted)
    except KeyError:
        if isinstance(wanted, int):
            return User(str(wanted), wanted, wanted, "/home/agent") if wanted else None
        fault = Fault("$.box.run_as", "there is no such user", wanted, "name a user of this host")
        raise PolicyError([fault]) from None
    return User(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir) if entry.pw_uid else None


def _owner(policy: Policy) -> int | None:
    """Who owns the first write grant. A link is not followed: there is none in a resolved
    path, and whoever puts one there now must not become the owner of what it leads to."""
    if policy.fs is None or not policy.fs.write:
        return None
    path = policy.fs.write[0]
    while True:
        try:
            return os.lstat(path).st_uid
        except FileNotFoundError:  # to be made; the folder it is made in says for whom
            path = os.path.dirname(path)
        except OSError as error:
            raise BoxError("user", f"{path}: {error.strerror}") from error
