"""What a command does beside its main job, as far as its words show it.

Options and program texts that run other programs (hazards), the files it names, the commands
it runs, and the other spellings of its words that a rule may be written in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from axonkernel.policy.profiles.given import Given, Read, read_words
from axonkernel.policy.profiles.grammar import Grammar, Mode, Option, Profile
from axonkernel.policy.profiles.scripts import Script
from axonkernel.policy.profiles.scripts.awk import awk_script
from axonkernel.policy.profiles.scripts.sed import sed_script
from axonkernel.policy.profiles.scripts.sql import sql_script
from axonkernel.policy.request import Argv

__all__ = [
    "UNKNOWN",
    "Effects",
    "FileUse",
    "Hazard",
    "Run",
    "effects",
    "spellings",
    "subcommand_of",
]

#: In front of a word of which only the spelling is known: ``$X``, ``*.py``. No real word has it.
UNKNOWN: Final = "\0"

#: Characters of a program text; what is longer is not read.
_LONGEST_SCRIPT: Final = 20_000

_SCRIPTS = {"sed": sed_script, "awk": awk_script, "sql": sql_script}
_ASSIGNMENT = re.compile(r"([^=]+)=", re.DOTALL)
_AWK_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=", re.DOTALL)


class Hazard(NamedTuple):
    """Something that runs other programs or code.

    Arguments:
        lifts: what may stand after the program's name in ``shell.unsafe`` to lift it; the
            first is the one to show.
        text: why it is one.
    """

    lifts: tuple[str, ...]
    text: str


class FileUse(NamedTuple):
    """A file that is read or written.

    Arguments:
        path: as named, behind the folder that relative names count from; None when the name
            cannot be seen.
        write: whether it is written.
        lifts: what names it, as in :class:`Hazard`; () for an operand.
    """

    path: str | None
    write: bool
    lifts: tuple[str, ...] = ()


class Run(NamedTuple):
    """A command that is run by a command.

    Arguments:
        program: "" when it cannot be seen.
        words: its arguments.
        unseen: more words are added that are not known.
        assigns: names of variables set for it.
        folder: where it is started, relative to its starter's own folder; "" for there.
    """

    program: str
    words: Argv = ()
    unseen: bool = False
    assigns: tuple[str, ...] = ()
    folder: str = ""


class Effects(NamedTuple):
    """All that is known about one command's words."""

    hazards: tuple[Hazard, ...] = ()
    files: tuple[FileUse, ...] = ()
    runs: tuple[Run, ...] = ()


_NOTHING = Effects()


def effects(profile: Profile, words: Argv, unseen: bool = False) -> Effects:
    """What a program does with its words; ``unseen`` when more will be added to them."""
    grammar = profile.grammar
    read = read_words(grammar, words)
    if profile.subcommands and read.operands:
        return _by_subcommand(profile, words, read, unseen)
    if not read.given and not grammar.busy:
        return _NOTHING
    found = _Collector(profile, words, unseen)
    found.add(grammar, read, "")
    return found.effects()


def _by_subcommand(profile: Profile, words: Argv, before: Read, unseen: bool) -> Effects:
    name, *operands = before.operands
    rest = tuple(operands)
    grammar = profile.sub(name)
    read = read_words(grammar, rest)
    if not (before.given or read.given or grammar.busy or name in profile.nested):
        return _NOTHING
    found = _Collector(profile, words, unseen)
    if before.given:
        found.options(profile.grammar, before, None, "")
    if name in profile.nested and read.operands and profile.has_sub(f"{name} {read.operands[0]}"):
        at = rest.index(read.operands[0])
        found.add(grammar, read_words(grammar, rest[:at]), name)
        name = f"{name} {read.operands[0]}"
        grammar = profile.sub(name)
        read = read_words(grammar, rest[at + 1 :])
    found.add(grammar, read, name)
    return found.effects()


def subcommand_of(profile: Profile, words: Argv) -> tuple[str | None, str]:
    """The subcommand, and the first global option in front of it that is not known."""
    if not profile.subcommands:
        return None, ""
    read = read_words(profile.grammar, words)
    name = read.operands[0] if read.operands and not read.unknown else None
    return name, read.unknown


class _Collector:
    """Gathers effects while the words of a command are gone through."""

    def __init__(self, profile: Profile, words: Argv, unseen: bool) -> None:
        self._profile = profile
        self._words = words
        self._unseen = unseen
        self._base = ""
        self._folder = ""
        self.hazards: list[Hazard] = []
        self.files: list[FileUse] = []
        self.runs: list[Run] = []

    def effects(self) -> Effects:
        """What was gathered."""
        if not (self.hazards or self.files or self.runs):
            return _NOTHING
        return Effects(tuple(self.hazards), tuple(self.files), tuple(self.runs))

    def add(self, grammar: Grammar, read: Read, sub: str) -> None:
        """Everything in the words of one grammar."""
        mode, by = _mode(grammar, read) if grammar.modes else (None, None)
        lifts = _lifts(by.names, sub) if mode and by and mode.by_option else ()
        if grammar.hazard:
            self.hazards.append(Hazard((sub,), grammar.hazard))
        hidden = self.options(grammar, read, mode, sub) if read.given else False
        if hidden is None:
            return
        if hidden or (self._profile.kind == "wrapper" and read.unknown):
            self.runs.append(Run("", unseen=True))
            return
        self._base = _below(self._base, self._folder) if self._folder else self._base
        self._operands(grammar, read, mode, lifts)
        for path in grammar.writes if mode is None else mode.writes:
            self._file(path, True, lifts)
        for path in mode.reads if mode else ():
            self._file(path, False, lifts)

    def options(self, grammar: Grammar, read: Read, mode: Mode | None, sub: str) -> bool | None:
        """Takes the options; True when they hide a command, None when nothing runs at all."""
        hidden, ends = False, False
        scripts: dict[str, list[str]] = {}
        for given in read.given:
            option = given.option
            role = option.role
            if mode is not None and mode.roles:
                role = next((mode.roles[n] for n in option.names if n in mode.roles), role)
            if option.hazard or option.keys:
                self._judge_option(given, sub)
            if role == "text":
                continue
            if role in ("hides", "ends"):
                hidden, ends = hidden or role == "hides", ends or role == "ends"
            elif role in _SCRIPTS:
                scripts.setdefault(role, []).append(given.value or "")
            elif role == "command":
                self._command(given.words)
            elif given.value is not None:
                self._value(role, given.value, _lifts(option.names, sub))
        for role, parts in scripts.items():
            self._script(role, "\n".join(parts))
        return None if ends else hidden

    def _judge_option(self, given: Given, sub: str) -> None:
        option, value = given.option, given.value
        if option.hazard and not (option.safe and option.safe.fullmatch(value or "")):
            self.hazards.append(Hazard(_lifts(option.names, sub), option.hazard))
        if option.keys and value is not None:
            name, _, rest = re.sub(r"\s*[=\s]\s*", "=", value.strip(), count=1).partition("=")
            name = name.lower()
            spelled = option.keys.spelled.get(name, name)
            lifts = (f"{option.names[0]} {spelled}", *_lifts(option.names, sub))
            if name in option.keys.hazards:
                self.hazards.append(Hazard(lifts, option.keys.hazards[name]))
            elif role := option.keys.roles.get(name):
                self._value(role, rest.strip('"'), lifts)

    def _operands(
        self, grammar: Grammar, read: Read, mode: Mode | None, lifts: tuple[str, ...]
    ) -> None:
        if grammar.operand_hazards:
            self._odd_operands(grammar, read.operands)
        roles = grammar.operands if mode is None or mode.operands is None else mode.operands
        if not roles:
            return
        operands = read.operands
        if grammar.instead and any(
            name in grammar.instead for given in read.given for name in given.option.names
        ):
            roles = roles[1:]
        if "command" in roles:
            self._wrapped(grammar, read, roles)
            return
        for role, word in _paired(roles, operands):
            if role in _SCRIPTS:
                self._script(role, word)
            elif role != "text":
                self._value(role, word, lifts)
        if self._unseen and len(operands) < len(roles) and roles[len(operands)] in _SCRIPTS:
            self.hazards.append(Hazard(("script",), "its program text is not in its words"))

    def _odd_operands(self, grammar: Grammar, operands: list[str]) -> None:
        """Operands that are hazards, one by one or all in a row."""
        for pattern, why in grammar.operand_hazards:
            for word in (*operands, " ".join(operands)):
                if pattern.fullmatch(word):
                    self.hazards.append(Hazard((word.partition("=")[0].strip(), "*="), why))
                    break

    def _wrapped(self, grammar: Grammar, read: Read, roles: tuple[str, ...]) -> None:
        """The command behind a wrapper's own operands."""
        at, assigns = 0, []
        for role in roles[: roles.index("command")]:
            if role == "assigns":
                while at < len(read.operands) and (match := _ASSIGNMENT.match(read.operands[at])):
                    assigns.append(match[1])
                    at += 1
            else:
                at += 1
        rest = tuple(read.operands[at:])
        before = self._words[: len(self._words) - len(rest) + 1]
        hidden = any(UNKNOWN in word for word in before)
        if rest and grammar.feeds and any(mark in rest[0] for mark in _marks(read)):
            hidden = True
        if hidden or (self._unseen and not rest):
            self.runs.append(Run("", unseen=True))
        elif rest:
            unseen = self._unseen or grammar.feeds
            self.runs.append(Run(rest[0], rest[1:], unseen, tuple(assigns), self._base))

    def _command(self, words: Argv) -> None:
        """What ``find -exec`` runs, for names that are not known."""
        if words and "{}" not in words[0] and UNKNOWN not in words[0]:
            self.runs.append(Run(words[0], words[1:], True))
        else:
            self.runs.append(Run("", unseen=True))

    def _script(self, role: str, text: str) -> None:
        if UNKNOWN in text or len(text) > _LONGEST_SCRIPT:
            why = "its program text is not known" if UNKNOWN in text else "it is too long to read"
            self.hazards.append(Hazard(("script",), why))
            return
        script: Script = _SCRIPTS[role](text)
        for name, why in script.hazards:
            self.hazards.append(Hazard((name,), why))
        for name, path, write in script.files:
            self._file(path, write, (name,))

    def _value(self, role: str, value: str, lifts: tuple[str, ...]) -> None:
        """A value or operand that names a file, or may."""
        if role in ("read", "write"):
            self._file(value, role == "write", lifts)
        elif role == "base":
            if value not in (".", "./"):
                self._file(value, False, lifts)
            self._base = _below(self._base, value)
        elif role in ("folder", "folder-write"):
            self._file(value, role == "folder-write", lifts)
            self._folder = _below(self._folder, value)
        elif (path := _named_file(role, value)) is not None:
            self._file(path, role == "local-write", lifts)

    def _file(self, path: str | None, write: bool, lifts: tuple[str, ...]) -> None:
        if path in ("-", ""):
            return
        if path is not None and UNKNOWN in path:
            path = _known_folder(path)
            # Nobody hides a computed name there: a person can be asked about it.
            lifts = lifts if path is not None or write else ()
        where = None if path is None else _below(self._base, path)
        self.files.append(FileUse(where, write, lifts))


def _mode(grammar: Grammar, read: Read) -> tuple[Mode | None, Option | None]:
    for mode in grammar.modes:
        for given in read.given:
            if not mode.options.isdisjoint(given.option.names):
                return mode, given.option
    return None, None


def _lifts(names: Iterable[str], sub: str) -> tuple[str, ...]:
    """An option as ``shell.unsafe`` may spell it, the long name under its subcommand first."""
    ordered = sorted(names, key=lambda name: not name.startswith("--"))
    under = [f"{sub} {name}" for name in ordered] if sub else []
    return (*under, *ordered)


def _paired(roles: tuple[str, ...], operands: list[str]) -> Iterator[tuple[str, str]]:
    """Each operand with its role; ``role*`` stands for any number, in front of the last."""
    star = next((at for at, role in enumerate(roles) if role.endswith("*")), len(roles))
    tail = len(roles) - star - 1
    many = max(len(operands) - star - max(tail, 0), 0)
    middle = (roles[star][:-1],) * many if star < len(roles) else ()
    return zip((*roles[:star], *middle, *roles[star + 1 :]), operands, strict=False)


def _marks(read: Read) -> Iterator[str]:
    """The marks that xargs replaces by the words it reads."""
    for given in read.given:
        if given.option.role == "replace":
            yield given.value or "{}"


def _known_folder(path: str) -> str | None:
    """The folder that all files lie in which a pattern such as ``src/*.py`` stands for."""
    path = path.replace(UNKNOWN, "")
    if any(mark in path for mark in "$`{<(~!"):
        return None
    start = min(at for at in (*map(path.find, "*?["), len(path)) if at >= 0)
    return path[: path.rfind("/", 0, start) + 1] or "."


def _below(base: str, path: str) -> str:
    return path if path.startswith("/") or not base else f"{base}/{path}"


def _named_file(role: str, value: str) -> str | None:
    """The file in a value that is not always one."""
    if role == "at":
        return value[1:] if value.startswith("@") else None
    if role == "form":
        content = value.partition("=")[2]
        return content[1:].partition(";")[0] if content[:1] in ("@", "<") else None
    if role == "url":
        return _file_url(value)
    if role in ("local-read", "local-write"):
        colon, slash = value.find(":"), value.find("/")
        return value if colon < 0 or -1 < slash < colon else None
    if role == "outside-read":
        leaves = value.startswith("/") or ".." in value.split("/")
        return value if leaves else None
    if role == "assigned-read":
        return None if _AWK_ASSIGNMENT.match(value) else value
    return None


def _file_url(value: str) -> str | None:
    scheme, colon, rest = value.partition(":")
    if not colon or scheme.lower() != "file":
        return None
    if rest.startswith("//"):
        rest = "/" + rest[2:].partition("/")[2]
    return rest


def spellings(profile: Profile, words: Argv) -> Argv:
    """The other words that say the same: what a rule about these words may have been written for.

    Each option under all of its names, with its value joined and apart; what an option or an
    operand implies.
    """
    found: list[str] = []
    read = read_words(profile.grammar, words, every=True)
    _spell(profile.grammar, read, found)
    if profile.subcommands and read.operands:
        name, *rest = read.operands
        grammar = profile.sub(name)
        _spell(grammar, read_words(grammar, tuple(rest), every=True), found)
    return tuple(dict.fromkeys(found))


def _spell(grammar: Grammar, read: Read, found: list[str]) -> None:
    for given in read.given:
        for name in given.option.names:
            found.append(name)
            if given.value is not None:
                found.append(f"{name}={given.value}" if name[:2] == "--" else name + given.value)
        found += given.option.means
        if given.value is not None:
            found.append(given.value)
    for pattern, means in grammar.operand_means:
        if any(map(pattern.fullmatch, read.operands)):
            found += means
