"""One remark about a policy."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

__all__ = ["Lint", "LintCode"]

LintCode = Literal[
    "control-skipped",
    "deceptive",
    "duplicate",
    "interpreter",
    "needless",
    "never-matches",
    "not-expanded",
    "open",
    "over-broad",
    "socket-variable",
    "unknown-tool",
    "unrestricted",
]


@frozen
class Lint:
    """One remark about a policy.

    Arguments:
        code: the kind of remark, stable.
        path: where, as a JSON path.
        message: what to look at.
        hint: what to write instead, or "".
    """

    code: LintCode
    path: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" + (f"; {self.hint}" if self.hint else "")
