"""Words, as the analysis reads them and as real bash passes them on."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from axonkernel.policy.shell import read_line
from unit.policy.shell.recorder import Recorder, explains

_NAMES = ("a", "b", "c", "evil", "if", "no")


@pytest.fixture(scope="module")
def bash(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    return Recorder(tmp_path_factory.mktemp("bash"), _NAMES)


#: A line, and all the calls bash makes for it, in any order. No word depends on anything else.
_EXACT = [
    ("a x y", ["a x y"]),
    ("a 'x y' \"z w\"; b", ["a|x y|z w", "b"]),
    ("a x\\ y \\; \\$A \\\\; b", ["a|x y|;|$A|\\", "b"]),
    ("a 'it'\\''s'; b", ["a|it's", "b"]),
    ('a "\\a \\$ \\" \\\\ \\` \'q\'"; b', ["a|\\a $ \" \\ ` 'q'", "b"]),
    ("a '' \"\" x''y; b", ["a|||xy", "b"]),
    ("a $'x\\ty\\x41\\101\\'\\\\'; b", ["a|x\ty" + "AA'\\", "b"]),
    ("a '$(evil)' \"\\$(evil)\" \\`evil\\`; b", ["a|$(evil)|$(evil)|`evil`", "b"]),
    ("a '<(evil)' \"<(evil)\" \\<\\(evil\\); b", ["a|<(evil)|<(evil)|<(evil)", "b"]),
    ("a x#y #evil\nb", ["a|x#y", "b"]),
    ("a x \\\n  y\nb", ["a|x|y", "b"]),
    ('a "x\\\ny"; b', ["a|xy", "b"]),
    ("a 'x\ny'; b", ["a|x\ny", "b"]),
    ("a HEAD@{1} {} {x} {x y} }; b", ["a|HEAD@{1}|{}|{x}|{x|y}|}", "b"]),
    ("a HEAD^ x~ a=b ! !x; b", ["a|HEAD^|x~|a=b|!|!x", "b"]),
    ("a if then fi do { [ [[ ; b", ["a|if|then|fi|do|{|[|[[", "b"]),
    ("a x$ \"$ \" '$'; b", ["a|x$|$ |$", "b"]),
    ("a\rx; b", ["b"]),
    ("a x\ry x\vy x\fy x\u00a0y x\u2028y; b", ["a|x\ry|x\vy|x\fy|x\u00a0y|x\u2028y", "b"]),
    ("a 2>&1 >f x 3<f; b", ["a|x", "b"]),
    ("a x <<<w; b", ["a|x", "b"]),
    ("a x y 2>&-; b", ["a|x|y", "b"]),
    ("a 2 >f 2x>f; b", ["a|2|2x", "b"]),
    ("A=x B='y z' a; b", ["a", "b"]),
    ("a && b || c", ["a", "b"]),
    ("no && a; b", ["no", "b"]),
    ("no || a & b", ["no", "a", "b"]),
    ("a | b |& c", ["a", "b", "c"]),
    ("(a; b) && { c; }", ["a", "b", "c"]),
    ("! a; b", ["a", "b"]),
    ("time a; b", ["a", "b"]),
    ("if no; then evil; elif a; then b; else evil; fi", ["no", "a", "b"]),
    ("for i in 1 2; do a; done; b", ["a", "a", "b"]),
    ("for ((i=0; i<2; i++)); do a; done", ["a", "a"]),
    ("while no; do evil; done; b", ["no", "b"]),
    ("until a; do evil; done; b", ["a", "b"]),
    ("case x in y) evil;; x|z) a;; esac; b", ["a", "b"]),
    ("case x in (x) a;& y) b;; *) evil; esac", ["a", "b"]),
    ("f() { a x; }; f; b", ["a|x", "b"]),
    ("function f { a x; }\nf\nb", ["a|x", "b"]),
    ("a <<E\nevil\nE\nb", ["a", "b"]),
    ("a <<'E' x\n$(evil) `evil` \\\nE\nb", ["a|x", "b"]),
    ("a <<-E\n\tevil\n\tE\nb", ["a", "b"]),
    ("a <<\\E | b\n$(evil)\nE\nc", ["a", "b", "c"]),
    ("[[ x == y* && evil ]]; a", ["a"]),
    ("((1 + 2)); a", ["a"]),
]


def _calls(texts: list[str]) -> list[list[str]]:
    return sorted(
        text.split("|") if "|" in text or " " not in text else text.split(" ") for text in texts
    )


@pytest.mark.parametrize(("line", "made"), _EXACT, ids=[line for line, _ in _EXACT])
def test_words_are_those_bash_passes_on(bash: Recorder, line: str, made: list[str]) -> None:
    """Each line is read word by word as bash reads it."""
    assert bash.run(line) == _calls(made)
    read = [[call.program, *call.words] for call in read_line(line, "/w") if call.program]
    assert all(each in read for each in _calls(made))


#: Lines with words that nobody can know from the line alone.
_DYNAMIC = [
    'a "$A" $A ${A} "${A:-x}"; b',
    "a $(b x) \"$(c 'y z')\" `b`; c",
    'a "x $(b "y $(c z)") w"; c',
    "a <(b) >(c)",
    "a {x,y}{1..3} x; b",
    "touch=1; a * ? [ab] ~ ~/x x=~ y; b",
    'a $"x" x; b',
    'a "$@" $# $? $$ x; b',
    "a $((1 + 2)) x; b",
    "a <<E\n$(b) $A\nE\nc",
    'a "$(b <<\'E\'\n$(evil) ) ` "\nE\n)" x; c',
    "for i in x 'y z'; do a \"$i\" $i; done",
    'f() { a "$1" $@; }; f x y',
    'A=$(b); a "$A"',
    "a > >(b) 2> >(c)",
    "[[ $(b) == x ]]; a",
    "case $(b) in x) evil;; *) a;; esac",
    "a x${A+y}z ${A%x} ${#A} ${A/x/y}; b",
]


@pytest.mark.parametrize("line", _DYNAMIC)
def test_words_that_are_not_known_are_marked(bash: Recorder, line: str) -> None:
    """The known ones keep their place, and every call that bash makes was foreseen."""
    calls = read_line(line, "/w")
    made = bash.run(line, A="p q")
    assert made and (any(call.dynamic for call in calls) or ">(" in line or "$(b)" in line)
    assert all(any(explains(call, each) for call in calls) for each in made)
    assert not any(each[0] == "evil" for each in made)


def _styles(text: str) -> st.SearchStrategy[str]:
    """Ways to quote a text so that it is one known word."""
    single = "'" + text.replace("'", "'\\''") + "'"
    double = '"' + "".join(f"\\{c}" if c in '$`"\\' else c for c in text) + '"'
    escaped = "".join(f"\\{c}" if c in _ESCAPED else f"'{c}'" for c in text) or "''"
    ansi = "$'" + "".join(f"\\{c}" if c in "\\'" else c for c in text) + "'"
    # tree-sitter ends such a string at an escaped backslash.
    return st.sampled_from([single, double, escaped, *([ansi] if "\\" not in text else [])])


#: What may stand behind a backslash; tree-sitter does not know the others there.
_ESCAPED = "ab -=\\'\"`$(){}[]<>|&;#~*?!"
_TEXT = st.text(alphabet="ab -=\\'\"`$(){}[]<>|&;#~*?!\n\t\r\vé", max_size=8)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), words=st.lists(_TEXT, max_size=5))
def test_quoted_text_is_itself(bash: Recorder, data: st.DataObject, words: list[str]) -> None:
    """However a text is quoted, both readers and bash take it for that text."""
    spelled = ["".join(data.draw(_styles(part)) for part in (word[:3], word[3:])) for word in words]
    line = " ".join(["a", *spelled]) + "; b"
    calls = read_line(line, "/w")
    assert [(call.program, call.words, call.dynamic) for call in calls] == [
        ("a", tuple(words), ()),
        ("b", (), ()),
    ]
    assert bash.run(line) == [["a", *words], ["b"]]


def test_the_recorder_sees_what_runs(bash: Recorder, tmp_path: Path) -> None:
    """The stubs that all these tests rest on tell of substitutions and background jobs."""
    assert bash.run("a $(evil) & b") == [["a"], ["b"], ["evil"]]
