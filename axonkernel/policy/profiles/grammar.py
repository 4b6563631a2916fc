"""What a program's words mean, as tables made from its profile.

A grammar knows the options of one program or subcommand in every spelling, and what its
operands are. It is made once from the data of a profile and only read after that.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

__all__ = ["COMMAND", "OPTIONAL", "ROLES", "Grammar", "Keys", "Mode", "Option", "Profile"]

#: Instead of a number of words: a value only when joined; words up to ``;`` or ``+``.
OPTIONAL: Final = -1
COMMAND: Final = -2

#: What a value or an operand can be.
ROLES: Final[Mapping[str, str]] = {
    "text": "nothing that touches a file",
    "read": "a file or folder that is read",
    "write": "a file or folder that is written",
    "base": "a folder that later relative paths count from",
    "folder": "a folder that operands count from",
    "folder-write": "a folder that is written, that operands count from",
    "at": "text, or @ and a file that is read",
    "named-at": "text, or NAME@FILE and @FILE, a file that is read",
    "cookies": "NAME=VALUE, or a file that is read",
    "form": "a form field: NAME=@FILE and NAME=<FILE read",
    "format": "text in which @FILE reads and %output{FILE} writes",
    "numbered-write": "a file that is written, unless # stands for a part of an address",
    "several-read": "a file that is read, unless braces or brackets stand for several",
    "uri-read": "a file that is read, unless it is a file: address",
    "uri-write": "a file that is written, unless it is a file: address",
    "url": "an address that is connected to; file: reads",
    "elsewhere": "changes where is connected to",
    "local-read": "a file that is read, unless it is HOST:PATH",
    "local-write": "a file that is written, unless it is HOST:PATH",
    "outside-read": "a file that is read where its spelling leaves the working directory",
    "outside-write": "a file that is written where its spelling leaves the working directory",
    "assigns": "NAME=VALUE words in front of a command",
    "assigned-read": "a file that is read, unless it is NAME=VALUE",
    "command": "the first word of a command that is run here",
    "replace": "the mark that a read word replaces",
    "hides": "with it something runs that is not in the words",
    "ends": "with it nothing runs",
    "sed": "a sed script",
    "awk": "an awk program",
    "sql": "SQL and dot commands of sqlite3",
}


class Keys(NamedTuple):
    """The names inside values such as ``-o Name=Value``; compared without case.

    Arguments:
        spelled: name to its usual spelling.
        hazards: name to why it is one.
        roles: name to what its value is.
    """

    spelled: Mapping[str, str]
    hazards: Mapping[str, str]
    roles: Mapping[str, str]


class Option(NamedTuple):
    """One option.

    Arguments:
        names: every spelling.
        values: the number of words it takes, :data:`OPTIONAL` or :data:`COMMAND`.
        hazard: why it is one, or "".
        safe: values with which it is none.
        role: what its value is.
        means: further words that a rule about this program may look for.
        keys: how its value is read, when it holds a name itself.
        matters: whether giving it has any effect that is known.
    """

    names: tuple[str, ...]
    values: int = 0
    hazard: str = ""
    safe: re.Pattern[str] | None = None
    role: str = "text"
    means: tuple[str, ...] = ()
    keys: Keys | None = None
    matters: bool = True


class Mode(NamedTuple):
    """What is different when one of some options is given; the first that fits counts.

    Arguments:
        options: spellings that select it.
        roles: option name to its role in this mode.
        operands: the roles of operands, or None for the usual ones.
        writes, reads: paths touched beside those that are named.
        by_option: without an ``fs`` block, what is written counts as the option's hazard.
        hazards: options that are hazards beside those that select it, and why.
    """

    options: frozenset[str]
    roles: Mapping[str, str]
    operands: tuple[str, ...] | None
    writes: tuple[str, ...]
    reads: tuple[str, ...]
    by_option: bool
    hazards: Mapping[str, str]


class Grammar:
    """The options and operands of one program or subcommand."""

    def __init__(self, tables: Iterable[Mapping[str, Any]], style: str, stop: int | None) -> None:
        self.exact = style == "exact"
        self.old_style = style == "bundle"
        self.abbreviates = style != "strict"
        self.options: dict[str, Option] = {}
        self.operands: tuple[str, ...] = ()
        self.instead: frozenset[str] = frozenset()
        self.modes: list[Mode] = []
        self.hazard = ""
        self.stop = stop
        self.feeds = False
        self.writes: tuple[str, ...] = ()
        self.operand_hazards: list[tuple[re.Pattern[str], str]] = []
        self.operand_means: list[tuple[re.Pattern[str], tuple[str, ...]]] = []
        for table in tables:
            self._add(table)
        self._long = sorted(name for name in self.options if name.startswith("--"))
        #: Letters of short options that take a value; the rest of a bundle is theirs.
        letters = [
            name[1]
            for name, option in self.options.items()
            if len(name) == 2 and name[0] == "-" and option.values
        ]
        self.valued = re.compile("|".join(map(re.escape, letters)) or "(?!)")
        selecting = self.instead.union(*(mode.options for mode in self.modes))
        selecting = selecting.union(*((*mode.roles, *mode.hazards) for mode in self.modes))
        for name, option in self.options.items():
            if not option.matters and not selecting.isdisjoint(option.names):
                self.options[name] = option._replace(matters=True)
        #: Two-letter options that matter, where they may stand inside a bundle.
        self.pairs = _pairs(self.options) if style == "pairs" else None
        #: Beginnings of option names that stand for whole families.
        self.families = [(n[:-1], o) for n, o in self.options.items() if n.endswith("-*")]
        #: Whether operands, or the program alone, have an effect.
        self.busy = bool(
            self.operands or self.operand_hazards or self.modes or self.hazard or self.writes
        )

    def _add(self, table: Mapping[str, Any]) -> None:
        for spec in table.get("options", "").split():
            option = _option(spec, table)
            for name in option.names:
                self.options[name] = option
        self.operands = tuple(table.get("operands", "").split()) or self.operands
        self.instead |= frozenset(table.get("instead", "").split())
        self.modes += map(_mode, table.get("when", ()))
        self.hazard = table.get("hazard", self.hazard)
        self.stop = table.get("stop", self.stop)
        self.feeds = table.get("feeds", self.feeds)
        self.writes += tuple(table.get("writes", "").split())
        for pattern, why in table.get("operand_hazards", {}).items():
            self.operand_hazards.append((_compile(pattern), why))
        for pattern, words in table.get("operand_means", {}).items():
            self.operand_means.append((_compile(pattern), tuple(words.split())))

    def family(self, name: str) -> Option | None:
        """The option that stands for all whose names begin as this one does."""
        return next((option for start, option in self.families if name.startswith(start)), None)

    def abbreviated(self, name: str) -> Option | None:
        """The option that a shortened long name stands for.

        Where several fit, the program refuses or its version decides: a hazard is assumed.
        """
        found: Option | None = None
        for at in range(bisect_left(self._long, name), len(self._long)):
            if not self._long[at].startswith(name):
                break
            option = self.options[self._long[at]]
            if found is None or _rank(option) > _rank(found):
                found = option
        return found


class Profile:
    """Knowledge about one program.

    Arguments:
        name: its main name.
        names: every name it is installed under.
        data: a profile that :func:`axonkernel.policy.profiles.schema.faults` finds no fault in.
    """

    def __init__(self, name: str, names: tuple[str, ...], data: Mapping[str, Any]) -> None:
        self.name = name
        self.names = names
        self.kind: str = data.get("kind", "")
        self.needs: tuple[str, ...] = tuple(data.get("needs", ()))
        #: What it needs beside another program, when that is there as well.
        self.beside: Mapping[str, tuple[str, ...]] = {
            other: tuple(needs) for other, needs in data.get("beside", {}).items()
        }
        self.note: str = data.get("note", "")
        #: Every subcommand there is; another may be an alias. None where that is not said.
        self.commands = frozenset(_words(data.get("commands", "")))
        #: What a box of its own gives it: variables that are set (``env``), those of a caller
        #: that change nothing (``harmless``) and those that are judged (``controls``), programs
        #: it may start where they are allowed (``beside``), subcommands that need no network.
        self.sibling: Mapping[str, Any] = data.get("sibling", {})
        self.subcommands = "sub" in data
        roles = (*data.get("operands", "").split(), *data.get("roles", {}).values())
        #: Whether commands may stand in its words.
        self.runs = "command" in roles or "hides" in roles
        self._style: str = data.get("style", "strict" if self.kind == "wrapper" else "gnu")
        self._subs: Mapping[str, list[Mapping[str, Any]]] = _by_name(data.get("sub", {}))
        self._same = {
            name.strip(): _words(table["as"])
            for key, table in data.get("sub", {}).items()
            if "as" in table
            for name in table.get("names", key).split(",")
        }
        #: First words of subcommands of two words.
        self.nested = frozenset(n.partition(" ")[0] for n in self._subs if " " in n)
        self._made: dict[str, Grammar] = {}
        self.grammar = Grammar([data], self._style, 0 if self.subcommands else None)

    def sub(self, name: str) -> Grammar:
        """The grammar of a subcommand; that of ``*`` for one that is not listed."""
        name = name if name in self._subs else "*"
        grammar = self._made.get(name)
        if grammar is None:
            grammar = Grammar(self._subs.get(name, ()), self._style, None)
            self._made[name] = grammar
        return grammar

    def same_as(self, name: str) -> tuple[str, ...]:
        """The subcommands whose work another one does by itself, as ``send-pack`` that of
        ``push``: a rule about them is about it too."""
        return self._same.get(name, ())

    def has_sub(self, name: str) -> bool:
        """Whether a subcommand, or two words such as ``bisect run``, is listed."""
        return name in self._subs


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())


def _by_name(subs: Mapping[str, Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Subcommand to its tables: a table may be for several names, a name have several tables."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for key, table in subs.items():
        for name in table.get("names", key).split(","):
            found.setdefault(name.strip(), []).append(table)
    return found


def _option(spec: str, table: Mapping[str, Any]) -> Option:
    """One option from its spellings, such as ``-o=,--output=``."""
    names, values = [], 0
    for spelling in spec.split(","):
        name = spelling.rstrip("=?;")
        marks = spelling[len(name) :]
        names.append(name)
        values = {"": values, "?": OPTIONAL, ";": COMMAND}.get(marks, len(marks))

    def about(section: str) -> Any:
        known = table.get(section, {})
        return next((known[name] for name in names if name in known), None)

    safe, keys, means = about("safe"), about("keys"), about("means")
    hazard, role = about("hazards") or "", about("roles") or "text"
    return Option(
        tuple(names),
        values,
        hazard,
        None if safe is None else _compile(safe),
        role,
        tuple(means.split()) if means else (),
        None if keys is None else _keys(keys),
        bool(hazard or keys or role != "text"),
    )


def _keys(data: Mapping[str, Mapping[str, str]]) -> Keys:
    hazards, roles = data.get("hazards", {}), data.get("roles", {})
    return Keys(
        {name.lower(): name for name in (*hazards, *roles)},
        {name.lower(): text for name, text in hazards.items()},
        {name.lower(): text for name, text in roles.items()},
    )


def _mode(table: Mapping[str, Any]) -> Mode:
    operands = table.get("operands")
    return Mode(
        frozenset(table["options"].split()),
        table.get("roles", {}),
        None if operands is None else tuple(operands.split()),
        tuple(table.get("writes", "").split()),
        tuple(table.get("reads", "").split()),
        table.get("by_option", False),
        table.get("hazards", {}),
    )


def _pairs(options: Mapping[str, Option]) -> re.Pattern[str]:
    found = (name[1:] for name, option in options.items() if len(name) == 3 and option.matters)
    return re.compile("|".join(map(re.escape, found)) or "(?!)")


def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.DOTALL)


def _rank(option: Option) -> tuple[bool, bool, bool]:
    return bool(option.hazard), option.role != "text", option.values > 0
