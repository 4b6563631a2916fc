"""What a command does by its words: hazards, and files it reads or writes.

The knowledge is in :mod:`axonkernel.policy.profiles`. A hazard is a denial unless
``shell.unsafe`` lifts it. A file is a question to the ``fs`` rules; without an ``fs`` block a
file that an option writes counts as a hazard.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from axonkernel.policy.commands import SimpleCommand
from axonkernel.policy.globs import Test, argument_glob
from axonkernel.policy.match import normalize, split_words
from axonkernel.policy.model import Verdict
from axonkernel.policy.profiles import Profile
from axonkernel.policy.profiles.effects import effects
from axonkernel.policy.profiles.found import FileUse, Hazard
from axonkernel.policy.request import Decision, PathRequest
from axonkernel.policy.rules.fs import FsRules
from axonkernel.policy.wellformed import LONGEST_PATH

__all__ = ["EffectRules"]

_UNSEEN = "the name of a file that it {} cannot be seen"


class EffectRules:
    """``shell.unsafe`` and the ``fs`` block, as far as the words of a command go.

    Arguments:
        unsafe: lines such as ``git -c`` and ``find *``.
        fs: the rules of files, or None when nothing is said about them.
        layer: what decisions name as their layer.
    """

    def __init__(self, unsafe: Iterable[str], fs: FsRules | None, layer: str) -> None:
        self._fs = fs
        self._layer = layer
        self._lifted: dict[str, list[Test]] = {}
        for line in unsafe:
            program, *rest = split_words(line)
            self._lifted.setdefault(program, []).append(argument_glob(" ".join(rest)))

    def judge(self, profile: Profile, command: SimpleCommand) -> list[Decision]:
        """The denials, and the verdicts on files, of a command whose profile is known."""
        found = effects(profile, command.marked, command.unseen)
        if not found.hazards and not found.files:
            return []
        decisions = [
            _hazard(profile, hazard)
            for hazard in found.hazards
            if not self._is_lifted(profile, command, hazard.lifts)
        ]
        decisions += self._files(profile, command, found.files)
        return decisions

    def _is_lifted(self, profile: Profile, command: SimpleCommand, lifts: Iterable[str]) -> bool:
        if not self._lifted:
            return False
        own = command.program[command.program.rfind("/") + 1 :]
        tests = [test for name in {own, profile.name} for test in self._lifted.get(name, ())]
        return any(test(lift) for test in tests for lift in lifts)

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
