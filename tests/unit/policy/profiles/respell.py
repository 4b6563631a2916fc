"""Other spellings of a command that do the same, made by machine.

Nothing here asks the profiles under test: what a program takes comes from its manual page, as
:data:`HABITS`. A change that would mean something else to the program is not made; where that
is not obvious a comment says why.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

__all__ = [
    "Respelled",
    "around",
    "as_lines",
    "not_analysed",
    "of_options",
    "quotings",
    "respelled",
    "same",
    "shell_forms",
]

Argv = tuple[str, ...]


class Respelled(NamedTuple):
    """Another spelling: how it was made, its words, and the file its program is, if told."""

    how: str
    argv: Argv
    resolved: str | None = None


class Habit(NamedTuple):
    """What a program takes.

    Arguments:
        permutes: options count after operands too, and ``--`` ends them.
        abbreviates: a long option may be cut short.
        flag: the letter of an option without value that changes nothing else it does.
        valued: letters of options that take a value, joined or in the next word.
        harmless: further options that change nothing else.
    """

    permutes: bool
    abbreviates: bool
    flag: str = ""
    valued: str = ""
    harmless: Argv = ()


_NONE: Final = Habit(False, False)
HABITS: Final = {
    "awk": Habit(False, False, "", "fv", ("-vq=1", "-F:")),
    "curl": Habit(True, True, "s", "oKDcTFHXdbm", ("--silent", "-m9", "--max-time=9")),
    "docker": _NONE,
    "file": Habit(True, True, "b"),
    "find": _NONE,
    "gawk": Habit(False, True, "", "fv", ("-vq=1", "--posix")),
    "gcc": Habit(True, False, "", "oB", ("-g", "-O2")),
    "git": Habit(True, True),
    "grep": Habit(True, True, "i", "efm", ("--ignore-case", "-m5", "--max-count=5")),
    "less": Habit(True, False, "N", "ok", ("--mouse",)),
    "make": Habit(True, True, "s", "fCj", ("--silent", "-j2")),
    "man": Habit(True, True, "a", "PC", ("--all",)),
    "npm": Habit(True, False, "", "", ("--silent",)),
    "rg": Habit(True, False, "i", "efm", ("--ignore-case", "-m5")),
    "rsync": Habit(True, False, "v", "e", ("--verbose", "--timeout=9")),
    "scp": Habit(False, False, "v", "oFiSP", ("-P22",)),
    "sed": Habit(True, True, "u", "ef", ("--unbuffered", "-l9")),
    "sort": Habit(True, True, "r", "okTSt", ("--reverse", "-k1", "--parallel=2")),
    "sqlite3": Habit(True, False, "", "", ("-header", "--header")),
    "ssh": Habit(False, False, "v", "oFEip", ("-p22",)),
    "tar": Habit(True, True, "v", "fCIFT", ("--verbose", "--no-acls")),
    "tee": Habit(True, True, "i"),
    "wget": Habit(True, True, "q", "OoaePit", ("--tries=2", "-t2")),
    "xargs": Habit(False, True, "t", "an", ("-n1", "--verbose")),
    "zip": Habit(True, False, "q"),
}
"""Facts from manual pages. A program that is not listed gets no such change."""

#: Long options whose value must be joined: apart it would be the next operand.
_JOINED_ONLY: Final = frozenset(
    """--exec-path --open-files-in-pager --checkpoint --force-with-lease --in-place --color
    --squash --html --one-top-level -time""".split()
)


def _joined_only(name: str) -> bool:
    """Whether an option, also one that was cut short, takes no value from the next word."""
    return name != "--exec" and any(full.startswith(name) for full in _JOINED_ONLY)


#: Cut shorter than this they fit several options and the program refuses, or, as with
#: ``tar --checkpoint``, they are another option.
_SHORTEST: Final = {
    "--checkpoint-action": len("--checkpoint-"),
    "--data-urlencode": len("--data-u"),
    "--force": len("--forc"),
    "--force-with-lease": len("--force-"),
    "--insecure": len("--inse"),
    "--proto-default": len("--proto-d"),
    "--prune": len("--pru"),
    "--remote-name-all": len("--remote-name-"),
    "--remove-files": len("--rem"),
    "--ssl-sessions": len("--ssl-s"),
    "--url-query": len("--url-q"),
}
#: Words behind which the options of another grammar start.
_NESTED: Final = frozenset("submodule remote stash bisect worktree bundle config notes".split())
_GIT_VALUED: Final = frozenset(
    "-C -c --git-dir --work-tree --namespace --config-env --super-prefix".split()
)
_SUBCOMMANDS: Final = frozenset({"git", "docker", "podman", "npm"})

WRAPPERS: Final[tuple[Argv, ...]] = (
    ("env",), ("env", "A=1"), ("env", "-i", "B=2"), ("env", "-u", "A"), ("env", "--"),
    ("env", "A=1", "env", "-uA"), ("/usr/bin/env",), ("nice",), ("nice", "-n", "5"),
    ("nice", "-n5"), ("nice", "-5"), ("nice", "--adjustment=5"), ("nohup",),
    ("nohup", "--"), ("timeout", "5"),
    ("timeout", "-k", "1", "5"), ("timeout", "--signal=KILL", "5s"), ("timeout", "-sKILL", "5"),
    ("stdbuf", "-oL"), ("stdbuf", "-o", "L", "-e0"),
    ("stdbuf", "--output=L"), ("setsid",), ("setsid", "-w"), ("setsid", "--wait"), ("time",),
    ("time", "-p"), ("nohup", "nice", "timeout", "9"), ("setsid", "env", "A=1", "nice", "-n", "1"),
)  # fmt: skip
#: Add words that cannot be seen, so a rule about words may ask a person: never a yes.
FEEDERS: Final[tuple[Argv, ...]] = (
    ("xargs",), ("xargs", "-n1"), ("xargs", "-I@@"), ("xargs", "-0", "-r"),
    ("xargs", "--max-args", "1"), ("find", ".", "-exec"),
)  # fmt: skip
#: Options cut short are not trusted in front of a command: where a list says what runs, denied.
_CUT_SHORT: Final[tuple[Argv, ...]] = (
    ("timeout", "--sig", "KILL", "5"), ("timeout", "--kill=1", "5"), ("nice", "--adj", "5"),
    ("stdbuf", "--out", "L"), ("env", "--ignore", "A=1"), ("env", "--uns", "A"),
    ("xargs", "--max-a", "1"), ("setsid", "--wa"),
)  # fmt: skip


def same(argv: Argv) -> Iterator[Respelled]:
    """Spellings that mean the same for any command: other paths, more wrappers."""
    program, rest = argv[0], argv[1:]
    for prefix in WRAPPERS:
        yield Respelled(" ".join(prefix), (*prefix, *argv))
    if "/" in program:
        return
    for folder in ("/usr/bin", "//usr/bin", "/usr//bin/", "/usr/./bin", "/bin", "/usr/local/bin"):
        yield Respelled(f"{folder}/", (f"{folder}/{program}", *rest))
    yield Respelled("a link", ("/srv/ws/link", *rest), f"/usr/bin/{program}")


def respelled(argv: Argv) -> Iterator[Respelled]:
    """Every other spelling of a command that is denied, none of which may be allowed."""
    yield from same(argv)
    program, rest = argv[0], argv[1:]
    if "/" not in program:
        for folder in ("/usr/bin/../bin", "/usr/lib/../bin", "/proc/self/root/usr/bin", "."):
            yield Respelled(f"{folder}/", (f"{folder}/{program}", *rest))
    for prefix in (*FEEDERS, *_CUT_SHORT):
        end = (";",) if prefix[0] == "find" else ()
        yield Respelled(" ".join(prefix), (*prefix, *argv, *end))
    for how, words in of_options(argv):
        yield Respelled(how, words)


def of_options(argv: Argv) -> Iterator[tuple[str, Argv]]:
    """Its options in other places and forms, and more options."""
    at = _program_at(argv)
    program = argv[at].rpartition("/")[2]
    habit = HABITS.get(program, _NONE)
    start = _options_start(argv, at)
    if program == "git":
        for extra in _GIT_GLOBAL:
            yield "before the subcommand", (*argv[: at + 1], *extra, *argv[at + 1 :])
    more = (*habit.harmless, *(("-" + habit.flag,) if habit.flag else ()))
    old_style = program == "tar" and argv[start : start + 1] and argv[start][0] != "-"
    if not old_style and program not in _SUBCOMMANDS:
        for option in more:
            yield "a harmless option in front", (*argv[:start], option, *argv[start:])
    if "--" not in argv:
        # Behind one that is there already it would be an operand.
        yield "a trailing --", (*argv, "--")
        if habit.permutes:
            for option in more:
                yield "a harmless option behind", (*argv, option)
            if not old_style and argv[start - 1] not in _NESTED:
                yield from _moved(argv, start)
    yield from _joined_and_apart(argv, start, habit)
    yield from _short(argv, start, habit)


_GIT_GLOBAL: Final[tuple[Argv, ...]] = (
    ("-C", "."), ("-C", "./."), ("--git-dir", ".git"), ("--git-dir=.git",), ("--work-tree", "."),
    ("--work-tree=.",), ("--no-pager",), ("-P",), ("-p",), ("--namespace", "x"),
    ("--literal-pathspecs",), ("--no-optional-locks", "-C", "."),
)  # fmt: skip


def _program_at(argv: Argv) -> int:
    """Where the program stands that the row is about: behind its wrappers."""
    for at, word in enumerate(argv):
        if word.rpartition("/")[2] in HABITS and word != "xargs":
            return at
    return 0


def _options_start(argv: Argv, at: int) -> int:
    """Behind the program, or behind its subcommand."""
    program, start = argv[at].rpartition("/")[2], at + 1
    if program not in _SUBCOMMANDS:
        return start
    while start < len(argv) and argv[start][:1] == "-":
        start += 2 if argv[start] in _GIT_VALUED else 1
    return min(start + 1, len(argv))


def _moved(argv: Argv, start: int) -> Iterator[tuple[str, Argv]]:
    """One option with its value joined, at every place where it is an option as well.

    Only behind a word that is no option itself: what follows ``-x`` may be its value.
    """
    for at in range(start, len(argv)):
        word = argv[at]
        if not (word.startswith("--") and "=" in word):
            continue
        others = argv[:at] + argv[at + 1 :]
        for to in range(start, len(others) + 1):
            if to == start or others[to - 1][:1] not in "-+":
                yield "an option moved", (*others[:to], word, *others[to:])


def _joined_and_apart(argv: Argv, start: int, habit: Habit) -> Iterator[tuple[str, Argv]]:
    for at in _option_places(argv, start):
        word = argv[at]
        if not word.startswith("--") or len(word) < 5:
            continue
        name, joined, value = word.partition("=")
        shapes: list[Argv] = [(word,)]
        if joined and not _joined_only(name):
            shapes.append((name, value))
            yield "a value apart", (*argv[:at], name, value, *argv[at + 1 :])
        if not habit.abbreviates:
            continue
        for shape in shapes:
            if word in habit.harmless:
                break  # how far those may be cut is not known here
            for cut in range(len(name) - 1, _shortest(name) - 1, -1):
                short = (name[:cut] + shape[0][len(name) :], *shape[1:])
                yield "an option cut short", (*argv[:at], *short, *argv[at + 1 :])


def _shortest(name: str) -> int:
    """How far an option that may be cut short already can be cut."""
    return max((most for full, most in _SHORTEST.items() if full.startswith(name)), default=4)


def _short(argv: Argv, start: int, habit: Habit) -> Iterator[tuple[str, Argv]]:
    """``-o x`` as ``-ox`` and the other way round, and behind a letter more."""
    for at in _option_places(argv, start):
        word, rest = argv[at], argv[at + 1 :]
        if len(word) < 2 or word[0] != "-" or word[1] not in habit.valued:
            continue
        if word[2:]:
            yield "a short value apart", (*argv[:at], word[:2], word[2:], *rest)
        elif rest and rest[0]:
            yield "a short value joined", (*argv[:at], word + rest[0], *rest[1:])
        if habit.flag:
            yield "in a bundle", (*argv[:at], f"-{habit.flag}{word[1:]}", *rest)


def _option_places(argv: Argv, start: int) -> range:
    return range(start, argv.index("--", start) if "--" in argv[start:] else len(argv))


def quotings(argv: Argv) -> Iterator[tuple[str, str]]:
    """The words as a line, quoted in ways that need no more than POSIX quoting."""
    yield "shlex", shlex.join(argv)
    for how, quote in _QUOTES.items():
        yield how, " ".join(map(quote, argv))
    yield "white space", "\t " + "  \t".join(map(shlex.quote, argv)) + " \t"


def _double(word: str) -> str:
    return '"' + "".join("\\" + c if c in '$`"\\' else c for c in word) + '"'


def _backslashes(word: str) -> str:
    """A newline cannot be escaped so: it would vanish."""
    if not word or "\n" in word:
        return shlex.quote(word)
    return "".join("\\" + c for c in word)


def _halves(word: str) -> str:
    middle = len(word) // 2
    return "''" + shlex.quote(word[:middle]) + _double(word[middle:]) + '""'


def _letters(word: str) -> str:
    return "".join(_double(c) if at % 2 else shlex.quote(c) for at, c in enumerate(word)) or "''"


_QUOTES: Final[dict[str, Callable[[str], str]]] = {
    "double quotes": _double,
    "single quotes": lambda word: "'" + word.replace("'", "'\\''") + "'",
    "backslashes": _backslashes,
    "halves": _halves,
    "letter by letter": _letters,
}


def as_lines(argv: Argv) -> Iterator[tuple[str, str]]:
    """The words as a line for bash, in quotings of its own too."""
    yield from quotings(argv)
    ascii_only = all(word.isascii() for word in argv)
    for how, escape in (("hex", "\\x{:02x}"), ("octal", "\\{:03o}")) if ascii_only else ():
        yield (
            how,
            " ".join("$'" + "".join(map(escape.format, word.encode())) + "'" for word in argv),
        )
    yield "line continued", " \\\n".join(map(shlex.quote, argv))


def shell_forms(command: str) -> Iterator[tuple[str, str]]:
    """One command inside everything that a shell has, next to ``true``."""
    for form in (*_IN_FRONT, *_AROUND):
        yield form, form.replace("@", command)


def around(line: str) -> Iterator[str]:
    """Any line inside what a shell has.

    Not behind words that take a single command: ``X=1 ! id`` runs a program called ``!``.
    """
    for form in _AROUND:
        yield form.replace("@", line)


def not_analysed(command: str) -> Iterator[tuple[str, str]]:
    """A command in forms that are never allowed around anything that must be judged."""
    for form in _NOT_ANALYSED:
        yield form, form.replace("@", command)


_IN_FRONT: Final = (
    "X=1 @", "X=1 Y=2 @", "command @", "exec @", "! @", "time @", "time -p @", "@ 2>&1",
    "@ < /dev/null", "2>&1 @ | true",
)  # fmt: skip
_AROUND: Final = (
    "@; true", "true; @", "@ && true", "true && @", "true || @", "@ | true", "true | @",
    "@ |& true", "@ & true", "true\n@", "( @ )", "{ @; }", "if @; then true; fi",
    "if true; then @; fi", "if true; then true; else @; fi", "while @; do true; done",
    "until true; do @; done", "for i in 1; do @; done", "case x in x) @;; esac", "f() { @; }; f",
    "function f { @; }; f", "f() ( @ ); f", "true $( @ )", 'true "$( @ )"', "true <( @ )",
    "true > >( @ )", 'true <<< "$( @ )"', "X=$( @ )", "[[ -n $( @ ) ]]", "true # comment\n@",
    "@ # comment",
)  # fmt: skip
#: Beside these, eval and trap run text: no list of programs allows them, and where any program
#: may run they are as open as ``bash -c``.
_NOT_ANALYSED: Final = (
    "coproc @", "true $(( $( @ ) ))", "true ${X:-$( @ )}", "true ${X:=y}$( @ )", "PATH=. @",
    "BASH_ENV=x @", "LD_PRELOAD=x @", "f() { @ }; f", "command -p @", "command -p -- @",
    "exec -a x @", "exec -l @", "exec -cla x @", "true <<E\n$( @ )\nE",
    "select i in 1; do @; done",
)  # fmt: skip
