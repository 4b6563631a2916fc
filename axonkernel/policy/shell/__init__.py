"""Shell lines: which simple commands bash would run for a text, and with which words.

Two readers look at a line. Ours (:mod:`grammar`, :mod:`words`) knows bash's own rules for a
subset of the language, letter by letter, and decides what every word is; anything outside the
subset is refused. The second is tree-sitter-bash (:mod:`second`), a full grammar written by
others. A line on which they do not agree is refused, so one reader's mistake lets nothing by.
"""

from __future__ import annotations

from axonkernel.policy.shell.calls import Call, Redirect
from axonkernel.policy.shell.faults import LineFault, TooComplex, Unparsable
from axonkernel.policy.shell.line import read_line

__all__ = ["Call", "LineFault", "Redirect", "TooComplex", "Unparsable", "read_line"]
