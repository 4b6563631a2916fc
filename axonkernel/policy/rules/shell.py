"""Programs and their words: the ``shell`` block.

Every simple command of a request is judged by itself, wrappers and what they run; the
strictest verdict wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from axonkernel.policy.commands import SimpleCommand, commands_of
from axonkernel.policy.controls import is_control
from axonkernel.policy.globs import GlobTable
from axonkernel.policy.match import needs_shell
from axonkernel.policy.model import ShellPolicy, Verdict
from axonkernel.policy.profiles import SHIPPED, Profiles
from axonkernel.policy.request import Decision, Match, ProcessRequest, ShellRequest, strictest
from axonkernel.policy.rules.effects import EffectRules
from axonkernel.policy.rules.env import EnvRules, hazard
from axonkernel.policy.rules.fs import FsRules
from axonkernel.policy.rules.net import NetRules
from axonkernel.policy.rules.programs import Program, ProgramTable, program_of
from axonkernel.policy.rules.words import WordsRules
from axonkernel.policy.shell.faults import LineFault, TooComplex
from axonkernel.policy.tables import rules
from axonkernel.policy.wellformed import malformed_name, too_complex

__all__ = ["STANDARD_PATH", "ShellRules"]

#: Where bare names are looked up when ``shell.path`` is absent and nothing else is known.
STANDARD_PATH = (
    "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin",
)  # fmt: skip


class ShellRules:
    """The ``shell`` block as tables."""

    def __init__(
        self,
        shell: ShellPolicy,
        *,
        layer: str,
        absent: str,
        path: tuple[str, ...],
        env: EnvRules | None,
        fs: FsRules | None = None,
        net: NetRules | None = None,
        boxed: bool = False,
        profiles: Profiles = SHIPPED,
    ) -> None:
        self._layer = layer
        self._absent = absent
        self._env = env
        self._profiles = profiles
        self._effects = EffectRules(shell.unsafe, fs, net, layer=layer, boxed=boxed)
        self._raw = shell.raw
        self._spawn = shell.spawn is None or shell.spawn > 0
        self._any_program = shell.allow is True
        folders = frozenset(shell.path or path)
        allow = () if shell.allow is True else shell.allow
        self._allow = ProgramTable(rules("$.shell.allow", allow), folders)
        self._deny = ProgramTable(rules("$.shell.deny", shell.deny), folders)
        words = (
            (name, WordsRules(f"$.shell.args.{name}", args, profiles.of(name)))
            for name, args in shell.args
        )
        self._words = GlobTable(words)

    def judge(self, request: ProcessRequest | ShellRequest) -> Decision:
        """The verdict on a program with its words, or on all of a line."""
        try:
            commands = commands_of(request, self._profiles)
        except LineFault as error:
            return self._unread(request, error)
        decisions = [self._command(command) for command in commands if command.runs]
        decisions += map(self._assigned, request.env)
        for command in commands:
            decisions += map(self._assigned, command.assigns)
        if request.spawn and not self._spawn:
            decisions.append(
                Decision("deny", "shell.spawn", "$.shell.spawn", self._layer, _subject(request))
            )
        if not decisions:
            return Decision("allow", "shell.raw", "$.shell", self._layer, "", "it runs nothing")
        return decisions[0] if len(decisions) == 1 else strictest(decisions)

    def judge_line(self, request: ShellRequest) -> Decision | None:
        """The denial of a line that needs a shell where none may run; else None."""
        if self._raw or not needs_shell(request.line):
            return None
        detail = "it has shell syntax and shell.raw is false"
        return Decision("deny", "shell.raw", "$.shell.raw", self._layer, _subject(request), detail)

    def _unread(self, request: ProcessRequest | ShellRequest, error: LineFault) -> Decision:
        """The denial of what cannot be analysed; no rule is asked."""
        if isinstance(error, TooComplex):
            return too_complex(str(error))
        return Decision("deny", "shell.raw", "builtin", "builtin", _subject(request), str(error))

    def _assigned(self, name: str) -> Decision:
        if malformed_name(name):
            return Decision("deny", "request.malformed", "builtin", "builtin", name)
        if self._env is not None:
            return self._env.judge_set(name)
        if is_control(name):
            return hazard(name)
        return Decision("allow", "env.name", "$.env", "default", name)

    def _command(self, command: SimpleCommand) -> Decision:
        if not command.program:
            return self._hidden(command)
        program = program_of(command)
        if denied := self._deny.covering(program):
            return self._decision("deny", "shell.program", min(denied).path, command)
        if self._any_program:
            granted = "$.shell.allow"
        elif allowed := self._allow.granting(program):
            granted = min(allowed).path
        else:
            return self._uncovered(command)
        return self._judge_words(program, command, granted)

    def _hidden(self, command: SimpleCommand) -> Decision:
        """A command that cannot be seen runs only where any command may."""
        open_to_all = self._any_program and not self._deny.any and not self._words.any
        return Decision(
            "allow" if open_to_all else "deny",
            "shell.program",
            "$.shell.allow",
            self._layer,
            command.via,
            f"what {command.via} runs cannot be seen",
        )

    def _uncovered(self, command: SimpleCommand) -> Decision:
        if self._absent:
            return Decision(
                "deny", "shell.program", "$.default", "default", command.program, self._absent
            )
        return self._decision(
            "deny", "shell.program", "$.shell.allow", command, "no entry covers it"
        )

    def _judge_words(self, program: Program, command: SimpleCommand, granted: str) -> Decision:
        strict: Decision | None = None
        for table in self._tables(program) if self._words.any else ():
            said = table.judge(command.words, command.unseen)
            if said.verdict is not None:
                by = self._decision(said.verdict, "shell.args", said.path, command, said.detail)
                strict = by if strict is None else strictest([strict, by])
        if strict is None:
            strict = self._decision("allow", "shell.program", granted, command)
        profile = self._profiles.of(command.program, command.resolved)
        if profile is None or not (found := self._effects.judge(profile, command)):
            return strict
        return strictest([strict, *found])

    def _tables(self, program: Program) -> Sequence[WordsRules]:
        """The argument rules under any of a program's names."""
        if program.bare and program.resolved is None:
            return self._words.find(program.bare)
        names = (*program.names, *program.paths)
        return list(
            {id(table): table for name in names for table in self._words.find(name)}.values()
        )

    def _decision(
        self, verdict: Verdict, code: str, rule: str, command: SimpleCommand, detail: str = ""
    ) -> Decision:
        return Decision(verdict, code, rule, self._layer, command.program, detail)

    def matches(self, request: ProcessRequest | ShellRequest) -> Iterator[Match]:
        """Every rule about any of the commands."""
        commands = commands_of(request, self._profiles)
        for command in commands:
            if command.program:
                yield from self._command_matches(command)
        if self._env is not None:
            for name in (*request.env, *(name for each in commands for name in each.assigns)):
                yield from self._env.matches(name)

    def _command_matches(self, command: SimpleCommand) -> Iterator[Match]:
        program = program_of(command)
        for rule in self._deny.covering(program):
            yield Match("deny", rule.path, rule.text)
        if self._any_program:
            yield Match("allow", "$.shell.allow", "true")
        for rule in self._allow.granting(program):
            yield Match("allow", rule.path, rule.text)
        for table in self._tables(program):
            yield from table.matches(command.words)
        if profile := self._profiles.of(command.program, command.resolved):
            yield from self._effects.matches(profile, command)


def _subject(request: ProcessRequest | ShellRequest) -> str:
    """What a denial of the whole request is about."""
    return request.argv[0] if isinstance(request, ProcessRequest) else request.line[:200]
