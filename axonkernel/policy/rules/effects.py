"""What a command does by its words: hazards, files it opens, destinations it connects to.

The knowledge is in :mod:`axonkernel.policy.profiles`. A hazard is a denial unless
``shell.unsafe`` lifts it. A file is a question to the ``fs`` rules; without an ``fs`` block a
file that an option writes counts as a hazard. A destination is a question to the ``net`` rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache

from axonkernel.policy.commands import SimpleCommand
from axonkernel.policy.globs import Test, argument_glob
from axonkernel.policy.match import normalize, split_words
from axonkernel.policy.model import Verdict
from axonkernel.policy.profiles import Profile
from axonkernel.policy.profiles.found import Contact, Effects, FileUse, Hazard
from axonkernel.policy.request import Argv, ConnectRequest, Decision, Match, PathRequest
from axonkernel.policy.rules.fs import FsRules
from axonkernel.policy.rules.net import NetRules, canonical_target, is_loopback
from axonkernel.policy.tables import Rule, rules
from axonkernel.policy.wellformed import LONGEST_PATH

__all__ = ["EffectRules"]

_UNSEEN = "the name of a file that it {} cannot be seen"


@cache
def _reader() -> Callable[[Profile, Argv, bool], Effects]:
    """What reads the words of a program that has a profile; few policies ask about one."""
    from axonkernel.policy.profiles.effects import effects

    return effects


class EffectRules:
    """``shell.unsafe`` and the other blocks, as far as the words of a command go.

    Arguments:
        unsafe: lines such as ``git -c`` and ``find *``.
        fs, net: the rules of files and destinations; None when nothing is said about them.
        layer: what decisions name as their layer.
        boxed: programs run in a box, whose loopback is its own.
    """

    def __init__(
        self,
        unsafe: Iterable[str],
        fs: FsRules | None,
        net: NetRules | None,
        *,
        layer: str,
        boxed: bool,
    ) -> None:
        self._fs, self._net = fs, net
        self._layer = layer
        self._boxed = boxed
        self._lifted: dict[str, list[tuple[Test, Rule]]] = {}
        for rule in rules("$.shell.unsafe", unsafe):
            program, *rest = split_words(rule.text)
            self._lifted.setdefault(program, []).append((argument_glob(" ".join(rest)), rule))

    def judge(self, profile: Profile, command: SimpleCommand) -> list[Decision]:
        """The denials, and the verdicts on files, of a command whose profile is known."""
        found = _reader()(profile, command.marked, command.unseen)
        if not (found.hazards or found.files or found.contacts):
            return []
        decisions = [
            _hazard(profile, hazard)
            for hazard in found.hazards
            if not self._is_lifted(profile, command, hazard.lifts)
        ]
        decisions += self._files(profile, command, found.files)
        if self._net is not None:
            decisions += (self._contact(self._net, each) for each in found.contacts)
        return decisions

    def _is_lifted(self, profile: Profile, command: SimpleCommand, lifts: Iterable[str]) -> bool:
        return bool(self._lifted) and any(self._lifting(profile, command, lifts))

    def _lifting(
        self, profile: Profile, command: SimpleCommand, lifts: Iterable[str]
    ) -> Iterator[Rule]:
        """The lines of ``shell.unsafe`` that lift a hazard."""
        own = command.program[command.program.rfind("/") + 1 :]
        for name in {own, profile.name}:
            for test, rule in self._lifted.get(name, ()):
                if any(map(test, lifts)):
                    yield rule

    def _files(
        self, profile: Profile, command: SimpleCommand, uses: tuple[FileUse, ...]
    ) -> Iterator[Decision]:
        if self._fs is not None:
            for use in uses:
                yield self._file(self._fs, profile, command, use)
            return
        for use in uses:
            if use.write and use.lifts and not self._is_lifted(profile, command, use.lifts):
                yield _hazard(profile, Hazard(use.lifts, "writes a file, and fs is not declared"))

    def _file(
        self, fs: FsRules, profile: Profile, command: SimpleCommand, use: FileUse
    ) -> Decision:
        spelled = use.path
        path = None if spelled is None else _absolute(spelled, command.cwd)
        if path is not None and len(path) <= LONGEST_PATH:
            return fs.judge(PathRequest(path, use.write, spelled or ""))
        code, what = ("fs.write", "writes") if use.write else ("fs.read", "reads")
        detail = _UNSEEN.format(what)
        if use.lifts and self._is_lifted(profile, command, use.lifts):
            return Decision("allow", code, "$.shell.unsafe", self._layer, command.program)
        if use.lifts:
            return _hazard(profile, Hazard(use.lifts, detail))
        verdict: Verdict = "deny" if use.write else "escalate"
        return Decision(verdict, code, f"$.{code}", self._layer, command.program, detail)

    def _contact(self, net: NetRules, contact: Contact) -> Decision:
        request = _request(contact)
        if request is None:
            if net.unrestricted:
                return Decision("allow", "net.host", "$.net.allow", self._layer, contact.spelled)
            verdict: Verdict = "escalate" if contact.dynamic else "deny"
            detail = "where it connects cannot be seen"
            return Decision(
                verdict, "net.host", "$.net.allow", self._layer, contact.spelled, detail
            )
        target = canonical_target(request.host)
        if self._boxed and is_loopback(target):
            return Decision("allow", "net.host", "box", "box", contact.spelled)
        return net.judge(request, target)

    def matches(self, profile: Profile, command: SimpleCommand) -> Iterator[Match]:
        """Every rule about what a command does: lifted hazards, files, destinations."""
        found = _reader()(profile, command.marked, command.unseen)
        yield from self._hazard_matches(profile, command, found)
        for use in found.files if self._fs is not None else ():
            path = None if use.path is None else _absolute(use.path, command.cwd)
            if self._fs is not None and path is not None and len(path) <= LONGEST_PATH:
                yield from self._fs.matches(PathRequest(path, use.write))
        for request in filter(None, map(_request, found.contacts)):
            if self._net is not None:
                yield from self._net.matches(request, canonical_target(request.host))

    def _hazard_matches(
        self, profile: Profile, command: SimpleCommand, found: Effects
    ) -> Iterator[Match]:
        for hazard in found.hazards:
            shown = f"{profile.name} {hazard.lifts[0]}"
            yield Match("deny", "builtin:hazard", shown, "builtin")
            for rule in self._lifting(profile, command, hazard.lifts):
                yield Match("allow", rule.path, rule.text)


def _request(contact: Contact) -> ConnectRequest | None:
    if contact.host is None:
        return None
    return ConnectRequest(contact.host, contact.port, contact.protocol)


def _absolute(path: str, cwd: str | None) -> str | None:
    if path.startswith("/"):
        return normalize(path)
    return None if cwd is None else normalize(f"{cwd}/{path}")


def _hazard(profile: Profile, hazard: Hazard) -> Decision:
    return Decision(
        "deny",
        "shell.hazard",
        "builtin:hazard",
        "builtin",
        f"{profile.name} {hazard.lifts[0]}",
        hazard.text,
    )
