"""The other words that say the same, and what they are words of."""

from __future__ import annotations

from axonkernel.policy.profiles.given import Read, read_words
from axonkernel.policy.profiles.grammar import Grammar, Profile
from axonkernel.policy.request import Argv

__all__ = ["spellings", "subcommand_of"]


def subcommand_of(profile: Profile, words: Argv) -> tuple[str | None, str]:
    """The subcommand, and the first global option in front of it that is not known."""
    if not profile.subcommands:
        return None, ""
    read = read_words(profile.grammar, words)
    name = read.operands[0] if read.operands and not read.unknown else None
    return name, read.unknown


def spellings(profile: Profile, words: Argv) -> Argv:
    """The other words that say the same: what a rule about these words may have been written for.

    Each option under all of its names, with its value joined and apart; what an option or an
    operand implies.
    """
    found: list[str] = []
    read = read_words(profile.grammar, words, every=True)
    _spell(profile.grammar, read, found)
    if profile.subcommands and read.operands:
        name, *rest = read.operands
        grammar = profile.sub(name)
        _spell(grammar, read_words(grammar, tuple(rest), every=True), found)
    return tuple(dict.fromkeys(found))


def _spell(grammar: Grammar, read: Read, found: list[str]) -> None:
    for given in read.given:
        for name in given.option.names:
            found.append(name)
            if given.value is not None:
                found.append(f"{name}={given.value}" if name[:2] == "--" else name + given.value)
        found += given.option.means
        if given.value is not None:
            found.append(given.value)
    for pattern, means in grammar.operand_means:
        if any(map(pattern.fullmatch, read.operands)):
            found += means
