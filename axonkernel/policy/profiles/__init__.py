"""What is known about programs: data, one file per program.

A profile says which options stand before a subcommand, so that a rule about ``push`` finds
the subcommand in ``git -C . push`` and is not caught by ``git log push``. A program without
a profile has no subcommands.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from axonkernel.policy.profiles.git import GIT_OPTIONS

__all__ = ["Profile", "Subcommand", "find_subcommand", "profile_of"]


class Profile(NamedTuple):
    """Knowledge about one program.

    Arguments:
        name: its bare name.
        subcommands: whether its first operand chooses what it does.
        options: its global options, each with the number of words that follow it; an
            option that takes ``=VALUE`` ends in ``=``.
    """

    name: str
    subcommands: bool = False
    options: Mapping[str, int] = {}


class Subcommand(NamedTuple):
    """What stands in command position.

    Arguments:
        name: the subcommand, or None when there is none or it cannot be found.
        unknown: the global option in front that no profile knows, or "".
    """

    name: str | None
    unknown: str = ""


_PROFILES = {"git": Profile("git", subcommands=True, options=GIT_OPTIONS)}


def profile_of(program: str) -> Profile | None:
    """The profile of a bare program name."""
    return _PROFILES.get(program)


def find_subcommand(profile: Profile, words: tuple[str, ...]) -> Subcommand:
    """The first word after the known global options."""
    at = 0
    while at < len(words):
        word = words[at]
        if not word.startswith("-") or word == "-":
            return Subcommand(word)
        option = word
        if "=" in word:
            option = word.partition("=")[0] + "="
        if option not in profile.options:
            return Subcommand(None, word)
        at += 1 + profile.options[option]
    return Subcommand(None)
