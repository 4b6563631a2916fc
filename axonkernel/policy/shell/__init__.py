"""Shell lines: which simple commands bash would run for a text, and with which words.

Two readers look at a line. Ours (:mod:`grammar`, :mod:`words`) knows bash's own rules for a
subset of the language, letter by letter, and decides what every word is; anything outside the
subset is refused. The second is tree-sitter-bash (:mod:`second`), a full grammar written by
others. A line on which they do not agree is refused, so one reader's mistake lets nothing by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from axonkernel.policy.shell.calls import Call, Redirect
from axonkernel.policy.shell.faults import LineFault, TooComplex, Unparsable

if TYPE_CHECKING:
    from axonkernel.policy.shell.line import read_line

__all__ = ["Call", "LineFault", "Redirect", "TooComplex", "Unparsable", "read_line"]


def __getattr__(name: str) -> Any:
    """The readers are loaded for the first line: most agents never run one."""
    if name != "read_line":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from axonkernel.policy.shell.line import read_line

    return read_line
