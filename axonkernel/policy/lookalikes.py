"""Characters that do not look like what they are."""

from __future__ import annotations

import re
import unicodedata

__all__ = ["deception"]

#: Scripts with many letters that look like Latin ones.
_CONFUSABLE = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "LISU")


def deception(text: str) -> str | None:
    """What a reader of ``text`` could be misled by, in a few words, or None.

    Invisible and direction-changing characters, letters of two scripts in one word, other
    forms of ASCII such as full-width letters, and encoded international host names.
    """
    if text.isascii():
        return _encoded_name(text)
    for character in text:
        if unicodedata.category(character) in ("Cf", "Co", "Cn") or character == "\u3164":
            return f"an invisible character, U+{ord(character):04X}"
        if character != " " and unicodedata.category(character) == "Zs":
            return f"a space that is not the usual one, U+{ord(character):04X}"
    for word in re.findall(r"\w+", text):
        if mixed := _mixed_scripts(word):
            return mixed
    for character in text:
        plain = unicodedata.normalize("NFKC", character)
        if not character.isascii() and plain.isascii():
            return f"a character that looks like {plain!r}, U+{ord(character):04X}"
    return None


def _encoded_name(text: str) -> str | None:
    """An ``xn--`` label with what it shows as: only a reader can tell whether it is meant."""
    labels = re.findall(r"(?:^|[.*])xn--([a-z0-9-]+)", text)
    if not labels:
        return None
    try:
        shown = ", ".join(repr(label.encode().decode("punycode")) for label in labels)
    except UnicodeError:
        return "an international label that does not decode"
    return f"an international label, shown as {shown}"


def _mixed_scripts(word: str) -> str | None:
    scripts = {unicodedata.name(letter, "").split(" ")[0] for letter in word if letter.isalpha()}
    foreign = sorted(scripts.intersection(_CONFUSABLE))
    if "LATIN" in scripts and foreign:
        return f"Latin and {foreign[0].capitalize()} letters in one word"
    return None
