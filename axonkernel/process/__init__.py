"""Starting programs that have been judged, and waiting for them."""

from __future__ import annotations

from axonkernel.process.call import OUTPUT_BYTES, Call
from axonkernel.process.lookup import Located, Lookup
from axonkernel.process.result import ProcessResult, Usage
from axonkernel.process.start import Place, Start, needs_box

__all__ = [
    "OUTPUT_BYTES",
    "Call",
    "Located",
    "Lookup",
    "Place",
    "ProcessResult",
    "Start",
    "Usage",
    "needs_box",
]
