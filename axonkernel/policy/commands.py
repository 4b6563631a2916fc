"""What a request would run: every simple command in it, wrappers opened.

A line of shell text is read by :mod:`axonkernel.policy.shell`; one that is nothing but plain
words, which bash would take as they are, is split here.
"""

from __future__ import annotations

from typing import NamedTuple

from axonkernel.policy.match import needs_shell, normalize, split_words
from axonkernel.policy.profiles import SHIPPED, Profiles
from axonkernel.policy.profiles.found import UNKNOWN, Run
from axonkernel.policy.request import Argv, ProcessRequest, ShellRequest
from axonkernel.policy.shell.calls import Call, Redirect
from axonkernel.policy.shell.faults import LineFault, TooComplex
from axonkernel.policy.shell.names import BUILTINS

__all__ = ["DEEPEST", "Redirect", "SimpleCommand", "commands_of"]

#: How many wrappers may stand inside each other.
DEEPEST = 200


class SimpleCommand(NamedTuple):
    """One program with its words.

    Arguments:
        program: as spelled; "" when what runs cannot be seen, or nothing runs.
        words: its arguments.
        unseen: more words will be added that are not known, or some of ``words`` are not.
        assigns: names of variables set for it.
        resolved: the file it stands for, when known.
        via: the wrapper that runs it, or "".
        dynamic: places in ``words`` whose text is not known. There it is as the line spells
            it (``$X``, ``*.py``) and stands for one word, for several or for none.
        redirects: files that the shell opens for it.
        cwd: the absolute folder it runs in; None when that is not known.
    """

    program: str
    words: Argv = ()
    unseen: bool = False
    assigns: tuple[str, ...] = ()
    resolved: str | None = None
    via: str = ""
    dynamic: tuple[int, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    cwd: str | None = "/"

    @property
    def marked(self) -> Argv:
        """Its words, those that are not known marked as such for their profile."""
        if not self.dynamic:
            return self.words
        places = frozenset(self.dynamic)
        return tuple(UNKNOWN + w if at in places else w for at, w in enumerate(self.words))

    @property
    def runs(self) -> bool:
        """Whether a program starts at all: ``A=1`` and ``> file`` alone start none."""
        return bool(self.program) or self.unseen


def commands_of(
    request: ProcessRequest | ShellRequest, profiles: Profiles = SHIPPED
) -> tuple[SimpleCommand, ...]:
    """The commands a request runs, in the order of its text, a wrapper before what it runs.

    Raises:
        TooComplex: wrappers nested deeper than :data:`DEEPEST`, or a line beyond the caps.
        LineFault: a line of which it cannot be told what it runs.
    """
    if isinstance(request, ProcessRequest):
        if not (argv := request.argv):
            return ()
        first = SimpleCommand(argv[0], argv[1:], resolved=request.resolved, cwd=request.cwd)
        return _opened(first, profiles)
    if (words := _plain(request.line)) is not None:
        if not words:
            return ()
        resolved = dict(request.files).get(words[0])
        first = SimpleCommand(words[0], words[1:], resolved=resolved, cwd=request.cwd)
        return _opened(first, profiles)
    from axonkernel.policy.shell.line import read_line  # only for what needs a shell

    found: list[SimpleCommand] = []
    files = dict(request.files)
    for call in read_line(request.line, request.cwd):
        resolved = None if call.program in BUILTINS else files.get(call.program)
        found += _of_call(call, resolved, profiles)
    return tuple(found)


def _plain(line: str) -> Argv | None:
    """The words of a line that runs the same program with and without a shell."""
    # bash expands a tilde behind "=" and ":" too.
    if needs_shell(line) or "~" in line:
        return None
    words = split_words(line)
    if words and not words[0]:
        raise LineFault("a program without a name")
    return None if words and words[0] in BUILTINS else words


def _of_call(call: Call, resolved: str | None, profiles: Profiles) -> tuple[SimpleCommand, ...]:
    """A command of a line, what it wraps, and what it hides."""
    found: tuple[SimpleCommand, ...] = ()
    if call.program or call.assigns or call.redirects:
        command = SimpleCommand(
            call.program,
            call.words,
            bool(call.dynamic),
            call.assigns,
            resolved,
            via=call.via,
            dynamic=call.dynamic,
            redirects=call.redirects,
            cwd=call.cwd,
        )
        found = _opened(command, profiles)
    if call.hidden:
        found += (SimpleCommand("", unseen=True, via=call.hidden, cwd=call.cwd),)
    return found


def _opened(first: SimpleCommand, profiles: Profiles) -> tuple[SimpleCommand, ...]:
    """A command and everything it runs by its words, a wrapper before what it wraps."""
    found: list[SimpleCommand] = []
    waiting = [(first, 0)]
    while waiting:
        command, depth = waiting.pop()
        if depth == DEEPEST:
            raise TooComplex(f"more than {DEEPEST} wrappers")
        found.append(command)
        waiting += [(inner, depth + 1) for inner in reversed(_inside(command, profiles))]
    return tuple(found)


def _inside(command: SimpleCommand, profiles: Profiles) -> list[SimpleCommand]:
    """The commands that a wrapper runs, or a program such as find."""
    profile = profiles.of(command.program, command.resolved) if command.program else None
    if profile is None or not profile.runs:
        return []
    from axonkernel.policy.profiles.effects import effects  # only for programs that run others

    runs = effects(profile, command.marked, command.unseen).runs
    return [_run(run, command) for run in runs]


def _run(run: Run, by: SimpleCommand) -> SimpleCommand:
    """What ``by`` runs, as a command of its own."""
    via = by.program[by.program.rfind("/") + 1 :]
    if not run.program:
        return SimpleCommand("", unseen=True, via=via, cwd=by.cwd)
    dynamic = tuple(at for at, word in enumerate(run.words) if word.startswith(UNKNOWN))
    words = tuple(word.removeprefix(UNKNOWN) for word in run.words) if dynamic else run.words
    return SimpleCommand(
        run.program,
        words,
        run.unseen,
        run.assigns,
        via=via,
        dynamic=dynamic,
        cwd=_folder(run, by.cwd),
    )


def _folder(run: Run, cwd: str | None) -> str | None:
    """Where it runs: ``env -C FOLDER`` moves it."""
    if not run.folder:
        return cwd
    if UNKNOWN in run.folder or (cwd is None and not run.folder.startswith("/")):
        return None
    return normalize(run.folder if run.folder.startswith("/") else f"{cwd}/{run.folder}")
