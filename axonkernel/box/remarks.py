"""What is said of a box after its end, beside its exit code. Standard library only."""

from __future__ import annotations

from collections.abc import Iterator

from axonkernel.box.model import BoxResult

__all__ = ["KEEPER_GONE", "remarks"]

KEEPER_GONE = "what held its masks was ended, so the box was ended too"
#: Names that are listed; more are counted.
_MOST_NAMED = 8


def remarks(result: BoxResult) -> Iterator[str]:
    """Lines for whoever started the box."""
    if result.reason == "keeper":
        yield KEEPER_GONE
    made = [path for what, path in result.kept if what == "name.made"]
    if made:
        more = f" and {len(made) - _MOST_NAMED} more" if len(made) > _MOST_NAMED else ""
        names = ", ".join(made[:_MOST_NAMED])
        yield f"new since the start, and run or obeyed outside: {names}{more}"
    for what, path in result.kept:
        if what == "watch.full":
            yield f"below {path} new names were not watched: there are too many folders"
