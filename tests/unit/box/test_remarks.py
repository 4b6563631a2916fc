"""Lines about a box's end."""

from __future__ import annotations

from axonkernel.box.model import BoxResult
from axonkernel.box.remarks import remarks


def test_names_cannot_dress_up_a_line() -> None:
    """Controls, line breaks and bidi marks of a name are written out; an ordinary name is not."""
    made = ("name.made", "/w/\x1b[31m\nenforced: all\u202e.key")
    (line,) = remarks(BoxResult(0, "exit", kept=(made, ("name.made", "/w/plain"))))
    assert "/w/\\x1b[31m\\nenforced: all\\u202e.key, /w/plain" in line and line.isprintable()
