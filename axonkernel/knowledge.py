"""Profiles of programs that a policy adds (``shell.profiles``), read from their files.

The policy itself keeps only the names of the files; this is where they are opened.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable
from typing import Any, Final

from axonkernel.errors import Fault, PolicyError
from axonkernel.policy.model import Policy
from axonkernel.policy.profiles import Profile, make_profile

__all__ = ["LARGEST_BYTES", "added_profiles"]

#: More than any profile that people write by hand.
LARGEST_BYTES: Final = 1 << 20


def added_profiles(policy: Policy) -> dict[str, Profile]:
    """The profiles a policy adds, by the name of their file; for ``compile``.

    Raises:
        PolicyError: a file cannot be read or is no profile; all faults of all files at once.
    """
    found: dict[str, Profile] = {}
    wrong: list[Fault] = []
    for index, file in enumerate(policy.shell.profiles if policy.shell is not None else ()):
        spot = f"$.shell.profiles[{index}]"
        try:
            data = _read(file)
        except (OSError, ValueError) as error:
            wrong.append(Fault(spot, f"cannot be read: {error}", file))
            continue
        bad = _faults(data)
        if bad:
            wrong += [Fault(spot, f"{each.path} {each.message}", each.value) for each in bad]
        else:
            found[file] = make_profile(data)
    if wrong:
        raise PolicyError(wrong)
    return found


def _read(file: str) -> Any:
    """The data in a profile file: JSON by its name, else TOML."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a file")
        if status.st_size > LARGEST_BYTES:
            raise ValueError(f"it is larger than {LARGEST_BYTES} bytes")
        text = stream.read().decode()
    if file.endswith(".json"):
        return json.loads(text)
    import tomllib

    return tomllib.loads(text)


def _faults(data: Any) -> Iterable[Fault]:
    from axonkernel.policy.profiles.schema import faults  # few policies add a profile

    return faults(data, named=True)
