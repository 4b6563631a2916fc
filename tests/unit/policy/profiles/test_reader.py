"""How words are told apart: options, values, operands."""

from __future__ import annotations

import pytest

from axonkernel.policy.profiles import make_profile
from axonkernel.policy.profiles.given import read_words

GNU = make_profile(
    {
        "names": ["x"],
        "options": "-a,--all -o=,--output= -i?,--in-place? -q --out-dir= --compare --compress=",
        "hazards": {"--compress": "runs a program"},
    }
)


def read(*words: str) -> tuple[list[tuple[str, str | None]], list[str], str]:
    """(last name, value) of each option, the operands, the first unknown option."""
    found = read_words(GNU.grammar, words, every=True)
    given = [(each.option.names[-1], each.value) for each in found.given]
    return given, found.operands, found.unknown


@pytest.mark.parametrize(
    ("words", "given", "operands"),
    [
        ("-o f g", [("--output", "f")], ["g"]),
        ("-of g", [("--output", "f")], ["g"]),
        ("-ao f g", [("--all", None), ("--output", "f")], ["g"]),
        ("-aof g", [("--all", None), ("--output", "f")], ["g"]),
        ("-oa g", [("--output", "a")], ["g"]),
        ("--output=f g", [("--output", "f")], ["g"]),
        ("--output f g", [("--output", "f")], ["g"]),
        ("--output= g", [("--output", "")], ["g"]),
        ("--outp f g", [("--output", "f")], ["g"]),
        ("g -o f", [("--output", "f")], ["g"]),
        ("g -- -o f", [], ["g", "-o", "f"]),
        ("-o -- f", [("--output", "--")], ["f"]),
        ("-i f", [("--in-place", None)], ["f"]),
        ("-i.b f", [("--in-place", ".b")], ["f"]),
        ("-ai.b f", [("--all", None), ("--in-place", ".b")], ["f"]),
        ("--in-place f", [("--in-place", None)], ["f"]),
        ("--in-pl=.b f", [("--in-place", ".b")], ["f"]),
        ("-", [], ["-"]),
        ("-o -", [("--output", "-")], []),
        ("-o", [("--output", None)], []),
        ("--all=x f", [("--all", "x")], ["f"]),
    ],
)
def test_values_and_operands(
    words: str, given: list[tuple[str, str | None]], operands: list[str]
) -> None:
    """Joined, apart, bundled, shortened, after operands, after ``--``."""
    assert read(*words.split()) == (given, operands, "")


def test_a_short_form_of_several_options_is_taken_for_the_hazard() -> None:
    """The program refuses it, or its version decides: neither is a way around."""
    assert read("--comp", "p")[0] == [("--compress", "p")]
    assert read("--compare", "p") == ([("--compare", None)], ["p"], "")


def test_an_unknown_option_hides_nothing_behind_it() -> None:
    """Whether it takes a value is not known, so the next word stays in sight."""
    assert read("--new", "-o", "f") == ([("--output", "f")], [], "--new")
    given, operands, unknown = read("-Zo", "--compress=p")
    assert unknown == "-Z" and operands == []
    assert ("--compress", "p") in given


def test_the_words_of_a_command_in_an_expression_are_its_own() -> None:
    """Up to ``;`` or ``{} +``, whatever they look like."""
    find = make_profile(
        {"names": ["f"], "style": "exact", "options": "-exec; -name= -print", "operands": "read*"}
    )
    words = ("a", "-exec", "x", "-print", "+", ";", "-name", "-exec", "-print")
    found = read_words(find.grammar, words, every=True)
    assert [(each.option.names[0], each.words) for each in found.given] == [
        ("-exec", ("x", "-print", "+")),
        ("-name", ("-exec",)),
        ("-print", ()),
    ]
    assert found.operands == ["a"]


def test_old_bundles_take_their_values_in_order() -> None:
    """``tar xfC A B`` is ``tar -x -f A -C B``."""
    tar = make_profile({"names": ["t"], "style": "bundle", "options": "-x -f=,--file= -C= -v"})
    found = read_words(tar.grammar, ("xvfC", "a", "b", "m", "-v"), every=True)
    assert [(each.option.names[0], each.value) for each in found.given] == [
        ("-x", None), ("-v", None), ("-f", "a"), ("-C", "b"), ("-v", None),
    ]  # fmt: skip
    assert found.operands == ["m"]
