"""The machine's own ceiling: profiles that are met with every policy."""

from __future__ import annotations

import os
from collections.abc import Iterable

from axonkernel.config.owner import my_uids
from axonkernel.config.source import home_folder, read_source, shown
from axonkernel.errors import Fault, PolicyError
from axonkernel.policy.model import Policy

__all__ = ["load_profiles", "profile_paths"]


def profile_paths() -> tuple[str, ...]:
    """Where profiles are looked for, the machine's before the user's."""
    home = home_folder()
    mine = () if home is None else (f"{home}/.config/axonkernel/profile.toml",)
    return ("/etc/axonkernel/profile.toml", *mine)


def load_profiles(paths: Iterable[str]) -> tuple[tuple[str, Policy], ...]:
    """(path, policy) of each profile that exists. One that exists is never skipped.

    Raises:
        PolicyError: a profile cannot be read or understood, or is not root's or the user's.
    """
    return tuple((path, _load(path)) for path in paths if os.path.lexists(path))


def _load(path: str) -> Policy:
    from axonkernel.config.read import read_data  # few machines have a profile
    from axonkernel.policy.parse import parse

    source = read_source(path)
    owner = os.stat(source.path).st_uid
    if owner not in my_uids() | {0}:
        raise PolicyError([Fault("$", f"belongs to another user (uid {owner})")], shown(path))
    if source.kind == "python":
        raise PolicyError([Fault("$", "a profile is data: TOML or JSON")], shown(path))
    data = read_data(source.content, source.kind, shown(path))
    return parse(data, base=source.folder, home=home_folder(), source=shown(path))
