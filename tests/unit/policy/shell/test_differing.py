"""Constructs that other shells and other modes of bash understand in another way.

Each row runs twice: as the kernel runs lines, where what was read is what runs, and in the
other way, where it is not. The second run shows that the first one could have failed.
"""

from __future__ import annotations

import shutil

import pytest

from axonkernel.policy.shell import read_line
from unit.policy.shell.recorder import Recorder, explains

_BASH = ("bash", "--noprofile", "--norc")


@pytest.fixture(scope="module")
def bash(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    return Recorder(tmp_path_factory.mktemp("bash"), ("a", "b", "evil", "time", "x"))


#: A line; how else it could run; variables for both.
_MODES = [
    ("a <(b)\nb", (*_BASH, "--posix", "-c"), {}),
    ("a x=~; b", (*_BASH, "--posix", "-c"), {}),
    ("a x=~; b", (*_BASH, "-c"), {"POSIXLY_CORRECT": "1"}),
    ("a !(x); b", (*_BASH, "-O", "extglob", "-c"), {}),
    ("a +(evil|b)", (*_BASH, "-O", "extglob", "-c"), {}),
    ("a; b", (*_BASH, "-c"), {"BASH_FUNC_a%%": "() { evil; }"}),
    ("a; b", (*_BASH, "-c"), {"BASH_ENV": "/dev/stdin"}),
    ("a x; b", (*_BASH, "-c"), {"SHELLOPTS": "noexec"}),
    ("a !(x) y; b", (*_BASH, "-c"), {"BASHOPTS": "extglob"}),
    ("a {x,y}; b", (*_BASH, "+B", "-c"), {}),
    ("a x >f; b", (*_BASH, "-r", "-c"), {}),
]


@pytest.mark.parametrize(("line", "other", "env"), _MODES)
def test_a_line_runs_in_the_mode_it_was_read_for(
    bash: Recorder, line: str, other: tuple[str, ...], env: dict[str, str]
) -> None:
    """Whatever the environment says; and a line of the other mode is refused or foreseen."""
    made = bash.run(line, **env)
    assert not any(each[0] == "evil" for each in made)
    try:
        calls = read_line(line, "/w")
    except ValueError:
        return
    assert all(any(explains(call, each) for call in calls) for each in made)
    assert made == bash.run(line)


_DIFFERENT = [
    ("a x=~; b", (*_BASH, "--posix", "-c"), {}),
    ("a !(x); b", (*_BASH, "-O", "extglob", "-c"), {}),
    ("a; b", (*_BASH, "-c"), {"BASH_FUNC_a%%": "() { evil; }"}),
    ("a x; b", (*_BASH, "-c"), {"SHELLOPTS": "noexec"}),
    ("a {x,y}; b", (*_BASH, "+B", "-c"), {}),
]


@pytest.mark.parametrize(("line", "other", "env"), _DIFFERENT)
def test_the_other_mode_is_another(
    bash: Recorder, line: str, other: tuple[str, ...], env: dict[str, str]
) -> None:
    """The positive twin: left to itself, bash runs something else."""
    assert bash.run(line, argv=(*other, line), **env) != bash.run(line, **env)


@pytest.mark.skipif(shutil.which("dash") is None, reason="needs dash for comparison")
@pytest.mark.parametrize("line", ["a {x,y}; b", "a $'x'; b", "a |& b", "time a; b"])
def test_dash_reads_other_lines(bash: Recorder, line: str) -> None:
    """What these lines mean is bash's, which is why nothing else ever runs a line."""
    dash = shutil.which("dash")
    assert dash is not None
    made = bash.run(line)
    assert all(any(explains(call, each) for call in read_line(line, "/w")) for each in made)
    (bash.cwd / "script").write_text(line)
    assert made != bash.run(f"exec {dash} script")


@pytest.mark.parametrize(
    "line",
    ["shopt -s expand_aliases\nalias a=evil\na", "alias a=evil; a", "set -H; a", "a !! !x; b"],
)
def test_aliases_and_history_are_off(bash: Recorder, line: str) -> None:
    """A name means its program; what would turn that around hides what runs."""
    calls = read_line(line, "/w")
    turned = any(call.hidden for call in calls)
    assert turned or bash.run(line) == [["a", "!!", "!x"], ["b"]]


#: Two characters on both sides of a line continuation, which bash glues together.
_GLUED = [
    'a "$\\\n(evil)"; b', "a $\\\n(evil); b", "a $\\\n{A}; b", "a &\\\n& b", "a |\\\n| b",
    "(\\\n(evil)); b", "a >\\\n>f; b", "a <\\\n(evil); b", "ev\\\nil; b", "a $(\\\n(1)); b",
    "a $\\\n'x'; b", "i\\\nf a; then b; fi",
]  # fmt: skip


@pytest.mark.parametrize("line", _GLUED)
def test_a_continuation_makes_no_operator(line: str) -> None:
    """Where a line continuation could make one token of two, the line is refused."""
    with pytest.raises(ValueError, match=r"."):
        read_line(line, "/w")


def test_a_continuation_between_words_is_read(bash: Recorder) -> None:
    """The positive twin."""
    line = "a x \\\n y && \\\n b"
    assert [call.words for call in read_line(line, "/w")] == [("x", "y"), ()]
    assert bash.run(line) == [["a", "x", "y"], ["b"]]


#: The grammar that tree-sitter has differs from bash in these; the first reader knows.
_QUIRKS = [
    "[ a < f ]", "[ a && evil ]", "[ a || evil ]", "[ a ; evil ]", "a\revil; b", "a \\ evil; b",
    "a x\vevil; b", "a `b \\`evil\\``", "a <<E\n\\\nE\nevil\nE", "a <<E\nx \\\nE\nevil\nE\n",
    "a \"$(b <<'E'\nx\nE>(evil) b <<'E'\nevil\nE\n)\" x", "a $(b <<E\nx\nE)\nevil\nE\n)",
    "a >&'$(evil)'", "a >&\\`evil\\`", "a >&$A", "a <&'$(evil)'", "a &>'$(evil)'", "a > '$(evil)'",
    "a 2>&-x evil", "a <&--x evil", "a ${A@P}", "a ${!A}", "a ${A[$(evil)]}", "a $((A))",
    "((A))", "A='x[$(evil)]'; a $((A))",
    "[[ A -eq 1 ]]", "[[ -v A[$(evil)] ]]", "a[$(evil)]=1", "A=(1 2)", "a {fd}>f",
    "select i in a; do b; done", "coproc a", "a $[1]", "case x in @(a|b)) a;; esac",
]  # fmt: skip


@pytest.mark.parametrize("line", _QUIRKS)
def test_what_could_be_read_in_two_ways(bash: Recorder, line: str) -> None:
    """It is refused, or every call that bash makes for it was foreseen."""
    try:
        calls = read_line(line, "/w")
    except ValueError:
        return
    made = bash.run(line, A="x[$(evil)]")
    assert all(any(explains(call, each) for call in calls) for each in made)


#: Built-ins that are allowed when listed, with an argument that arithmetic would run.
_HOSTILE = "x[$(evil)]"
_BUILTINS = [
    "[ '{0}' -eq 1 ]", "test 1 -lt '{0}'", "test -t '{0}'", "printf '%d %s %b' '{0}' '{0}' '{0}'",
    "shift '{0}'", "umask '{0}'", "ulimit -n '{0}'", "kill -0 '{0}'", "wait '{0}'", "cd '{0}'",
    "type '{0}'", "break '{0}'", "echo '{0}'", "set -- '{0}'", "command -v '{0}'", "exit '{0}'",
    "A='{0}'; [ \"$A\" -eq 1 ]", "export A='{0}'", "readonly A='{0}'", "declare A='({0})'",
    "A='{0}'; a \"${{A:-x}}\" ${{#A}} ${{A%x}}", "for i in '{0}'; do a $i; done", "A+='{0}'",
    "[[ '{0}' == x ]]", "[[ '{0}' < x ]]", "case '{0}' in '{0}') a;; esac", "dirs '{0}'",
]  # fmt: skip


@pytest.mark.parametrize("text", _BUILTINS)
def test_text_stays_text_in_what_is_allowed(bash: Recorder, text: str) -> None:
    """No allowed form evaluates an argument: nothing hides, and bash runs nothing."""
    line = text.format(_HOSTILE)
    assert _is_seen(line)
    assert not any(made[0] == "evil" for made in bash.run(line))


@pytest.mark.parametrize("text", ["read '{0}' <<< x", "OPTIND='{0}'", "let '{0}'", "eval '{0}'"])
def test_what_evaluates_text_is_not_allowed(bash: Recorder, text: str) -> None:
    """The positive twin: these do run it, and are refused or hide what runs."""
    line = text.format(_HOSTILE)
    assert ["evil"] in bash.run(line)
    assert not _is_seen(line)


def _is_seen(line: str) -> bool:
    """Whether the analysis claims to know what a line runs."""
    try:
        return not any(call.hidden for call in read_line(line, "/w"))
    except ValueError:
        return False
