"""Names with a meaning of their own in bash (bash manual, 3.2.1 and 4)."""

from __future__ import annotations

import re
from typing import Final

__all__ = [
    "ASSIGNMENT",
    "BUILTINS",
    "FOLDERS",
    "FUNCTION",
    "HIDING",
    "RESERVED",
    "SHADOWED",
    "is_state",
]

RESERVED: Final = tuple(
    "! [[ ]] case coproc do done elif else esac fi for function if in select then time until while"
    " { }".split()
)

#: An assignment in front of a command; a subscript makes one too, and is not analysed.
ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^\]\n]{0,200}\])?\+?=")
FUNCTION: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")

BUILTINS: Final = frozenset(
    ". : [ alias bg bind break builtin caller cd command compgen complete compopt continue declare"
    " dirs disown echo enable eval exec exit export false fc fg getopts hash help history jobs kill"
    " let local logout mapfile popd printf pushd pwd read readarray readonly return set shift shopt"
    " source suspend test times trap true type typeset ulimit umask unalias unset wait".split()
)

#: No function may take these names: the analysis counts on what they do.
SHADOWED: Final = BUILTINS | frozenset(RESERVED)

#: Built-ins that run text, or change what later text means: what follows cannot be seen.
HIDING: Final = frozenset(
    ". alias bind compgen complete compopt enable eval fc getopts hash history let mapfile"
    " readarray shopt source trap unalias".split()
)

#: Variables of bash itself that change how it reads or finds commands, and its arrays, whose
#: values ``declare`` evaluates (bash manual, 5.2).
_STATE: Final = frozenset(
    "COPROC DIRSTACK EXECIGNORE FUNCNAME GROUPS MAPFILE PIPESTATUS POSIXLY_CORRECT"
    " SHELLOPTS".split()
)
_STATE_PREFIXES: Final = ("BASH", "COMP_", "READLINE_")
#: Variables that are integers from the start: bash evaluates whatever is assigned to them.
_INTEGERS: Final = frozenset(
    "EPOCHREALTIME EPOCHSECONDS EUID HISTCMD LINENO OPTERR OPTIND PPID RANDOM SECONDS SRANDOM"
    " UID".split()
)
#: Variables that ``cd`` goes by.
FOLDERS: Final = frozenset({"CDPATH", "DIRSTACK", "HOME", "OLDPWD", "PWD"})


def is_state(name: str, *, numeric: bool) -> bool:
    """Whether setting a variable does more in bash than that.

    Arguments:
        numeric: the value is a number in any case.
    """
    return name in _STATE or name.startswith(_STATE_PREFIXES) or (name in _INTEGERS and not numeric)
