"""Text that somebody else chose, as it may be shown to a person (pure)."""

from __future__ import annotations

__all__ = ["visible"]

#: Unicode categories that draw nothing, move the cursor, reorder or break lines.
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def visible(text: str) -> str:
    """``text`` with every character that is not plainly visible written out.

    Controls, bidi marks, zero-width and unassigned characters, spaces other than the space,
    and combining marks become backslash escapes; a backslash is doubled, so no text can
    imitate an escape.
    """
    return "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character == "\\":
        return "\\\\"
    if " " <= character <= "~":
        return character
    import unicodedata  # no launch that shows plain names only needs it

    category = unicodedata.category(character)
    # Zs: blanks that look like the space; M*: marks that alter the character before them.
    if category in _UNSEEN or category == "Zs" or category.startswith("M"):
        return character.encode("unicode_escape", "surrogatepass").decode("ascii")
    return character
