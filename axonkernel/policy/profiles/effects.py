"""What a command does beside its main job, as far as its words show it.

Options and program texts that run other programs (hazards), the files it names, and the
commands it runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from axonkernel.policy.profiles.found import UNKNOWN, Contact, Effects, FileUse, Hazard, Run
from axonkernel.policy.profiles.given import Given, Read, read_words
from axonkernel.policy.profiles.grammar import Grammar, Mode, Option, Profile
from axonkernel.policy.profiles.names import CONTACTS, below, contact, known_folder, named_files
from axonkernel.policy.profiles.scripts import Script
from axonkernel.policy.profiles.scripts.awk import awk_script
from axonkernel.policy.profiles.scripts.sed import sed_script
from axonkernel.policy.profiles.scripts.sql import sql_script
from axonkernel.policy.request import Argv

__all__ = ["effects"]

#: Characters of a program text; what is longer is not read.
_LONGEST_SCRIPT: Final = 20_000

_SCRIPTS = {"sed": sed_script, "awk": awk_script, "sql": sql_script}
_ASSIGNMENT = re.compile(r"([^=]+)=", re.DOTALL)
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
        self.contacts: list[Contact] = []

    def effects(self) -> Effects:
        """What was gathered."""
        if not (self.hazards or self.files or self.runs or self.contacts):
            return _NOTHING
        return Effects(
            tuple(self.hazards), tuple(self.files), tuple(self.runs), tuple(self.contacts)
        )

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
        if hidden:
            return
        self._base = below(self._base, self._folder) if self._folder else self._base
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
            if mode is not None and mode.hazards:
                self._judge_in_mode(option, mode, sub)
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

    def _judge_in_mode(self, option: Option, mode: Mode, sub: str) -> None:
        """An option that is a hazard beside another."""
        for name in option.names:
            if name in mode.hazards:
                self.hazards.append(Hazard(_lifts(option.names, sub), mode.hazards[name]))

    def _judge_option(self, given: Given, sub: str) -> None:
        option, value = given.option, given.value
        if option.hazard and not (option.safe and option.safe.fullmatch(value or "")):
            self.hazards.append(Hazard(_lifts(option.names, sub), option.hazard))
        if option.keys and value is not None:
            name, _, rest = re.sub(r"\s*[=\s]\s*", "=", value.strip(), count=1).partition("=")
            # ssh reads a keyword between quotes too.
            name = name.strip('"').lower()
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
            self._base = below(self._base, value)
        elif role in ("folder", "folder-write"):
            self._file(value, role == "folder-write", lifts)
            self._folder = below(self._folder, value)
        else:
            self._named(role, value, lifts)

    def _named(self, role: str, value: str, lifts: tuple[str, ...]) -> None:
        """What a value names that is not just a file."""
        for path, write in named_files(role, value):
            self._file(path, write, lifts)
        if role in CONTACTS and (found := contact(role, value)) is not None:
            self.contacts.append(found)

    def _file(self, path: str | None, write: bool, lifts: tuple[str, ...]) -> None:
        if path in ("-", ""):
            return
        if path is not None and UNKNOWN in path:
            path = known_folder(path)
            # Nobody hides a computed name there: a person can be asked about it.
            lifts = lifts if path is not None or write else ()
        where = None if path is None else below(self._base, path)
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
