"""Blocks of code a model wrote: what each kind runs as."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from attrs import frozen

from axonkernel.errors import ToolError

__all__ = ["BASH_ENVIRONMENT", "Block", "BlockKind", "bash_words", "block_of", "foreign_locale"]

BlockKind = Literal["bash", "python", "wasm"]

#: Variables that make bash run or parse something other than the line that was judged.
#: Exported functions go by their prefix.
BASH_ENVIRONMENT = (
    "BASHOPTS", "BASH_COMPAT", "BASH_ENV", "BASH_FUNC_*", "BASH_LOADABLES_PATH", "BASH_XTRACEFD",
    "CDPATH", "ENV", "EXECIGNORE", "GLOBIGNORE", "IFS", "POSIXLY_CORRECT", "PS4", "SHELLOPTS",
)  # fmt: skip


@frozen
class Block:
    """A block as a call.

    Arguments:
        tool: the name it is gated under.
        line: for bash, the text the shell rules judge; None for other kinds.
        source: for Python, the text that runs; None for other kinds.
    """

    tool: str
    line: str | None = None
    source: str | None = None


def block_of(kind: str, source: str) -> Block:
    """The block ``source`` of a kind.

    Raises ToolError for an unknown kind.
    """
    if kind == "bash":
        return Block("block.bash", line=source)
    if kind == "python":
        return Block("block.python", source=source)
    if kind == "wasm":
        return Block("block.wasm")
    known = ", ".join(get_args(BlockKind))
    raise ToolError("block", f"no kind of block is called {kind!r}; there are {known}")


def bash_words(line: str) -> tuple[str, ...]:
    """How a judged line runs: in the one shell whose grammar it was judged by.

    The two options are off in a bash as it is released; a distribution may build them in.
    """
    options = ("--noprofile", "--norc", "+O", "extglob", "+O", "expand_aliases")
    return ("bash", *options, "-c", line)


def foreign_locale(env: Mapping[str, str]) -> tuple[str, ...]:
    """Variables that name a character set other than UTF-8.

    In some of them a byte of a UTF-8 character swallows the quote behind it.
    """
    return tuple(
        name
        for name in ("LANG", "LC_ALL", "LC_CTYPE")
        if (value := env.get(name, "")) not in ("", "C", "POSIX")
        and not value.upper().replace("-", "").endswith("UTF8")
    )
