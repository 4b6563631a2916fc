"""The prompt shows everything that will run, and nothing can dress it up."""

from __future__ import annotations

import pytest

from axonkernel.escalation.prompt import prompt_text
from axonkernel.escalation.question import Question
from axonkernel.policy.request import Decision, ProcessRequest, Request
from axonkernel.policy.visible import visible

DECISION = Decision("escalate", "shell.args", "$.shell.args.git.escalate[0]")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text ~!", "plain text ~!"),
        ("é ü 漢", "é ü 漢"),
        ("a\nb\rc\td", "a\\nb\\rc\\td"),
        ("\x1b[2K\x1b[1A", "\\x1b[2K\\x1b[1A"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u2066b\u200b\u200d", "a\\u2066b\\u200b\\u200d"),
        ("a\u00a0b\u3000c", "a\\xa0b\\u3000c"),
        ("e\u0301", "e\\u0301"),
        ("a\\nb", "a\\\\nb"),
        ("\udcff", "\\udcff"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_what_cannot_be_seen_is_written_out(text: str, shown: str) -> None:
    """Controls, bidi, zero width, look-alike blanks, marks; and no text imitates an escape."""
    assert visible(text) == shown


def test_argv_is_one_word_a_line() -> None:
    """Words cannot run together, and the program that will run is named."""
    request = ProcessRequest(
        ("git", "push", "a b", ""), "/srv/ws", resolved="/usr/bin/git", env=("X",)
    )
    question = Question("id", request, DECISION, agent="reviewer", env={"X": "1\n2"})
    lines = prompt_text(question, waiting=3, timeout_s=30).splitlines()
    assert [line.split('"')[1] for line in lines if "  word" in line] == ["git", "push", "a b", ""]
    text = "\n".join(lines)
    for part in ("reviewer asks", '"/usr/bin/git"', '"/srv/ws"', 'X="1\\n2"', "3 equal", "30 s"):
        assert part in text
    assert lines[-1].endswith("[no]: ")


def test_a_newline_in_a_word_makes_no_line() -> None:
    """The number of lines does not depend on what the words hold."""
    quiet = prompt_text(Question("id", Request.process(["git", "x"]), DECISION))
    loud = prompt_text(Question("id", Request.process(["git", "x\n  program /bin/ls"]), DECISION))
    assert len(loud.splitlines()) == len(quiet.splitlines())


def test_a_long_word_keeps_both_ends_in_sight() -> None:
    """A word of a megabyte does not push the rest off the screen, and says what is missing."""
    question = Question("id", Request.process(["git", "x" * 1_000_000 + "THE END"]), DECISION)
    text = prompt_text(question)
    assert len(text) < 1000
    assert "THE END" in text and "999847 characters not shown" in text
    short = prompt_text(Question("id", Request.process(["git", "y" * 160]), DECISION))
    assert "y" * 160 in short and "not shown" not in short


@pytest.mark.parametrize("filler", ["a", "\n", "\u202e", "\U000e0041", '"', "\\"])
def test_no_filler_pushes_the_decisive_word_away(filler: str) -> None:
    """3,000 characters of anything: every word is shown, and what decides stands last."""
    words = ("git", "push", filler * 3000, "--force")
    request = ProcessRequest(words, "/srv/ws", resolved="/usr/bin/git")
    lines = prompt_text(Question("id", request, DECISION), timeout_s=30).splitlines()
    assert max(map(len, lines)) < 400 and len(lines) < 16
    assert '  word 3  "--force"' in lines
    size = sum(map(len, words))
    assert lines[-4:-1] == [
        f"  size    4 words, {size} characters",
        '  program "/usr/bin/git"',
        '  in      "/srv/ws"',
    ]
    assert lines[-1].endswith("[no]: ")


def test_many_words_are_counted_and_the_last_are_shown() -> None:
    """A thousand words take a screen, with how many are missing; twenty are shown whole."""
    words = ("git", *(f"w{n}" for n in range(999)))
    lines = prompt_text(Question("id", ProcessRequest(words), DECISION)).splitlines()
    assert len(lines) < 30
    assert "  ... 980 more not shown ..." in lines
    assert '  word 999 "w998"' in lines and "  size    1000 words, 3889 characters" in lines
    few = prompt_text(Question("id", ProcessRequest(words[:20]), DECISION))
    assert "not shown" not in few and '"w18"' in few


def test_many_variables_and_lines_are_counted_too() -> None:
    """Neither variables, nor lines of a script, nor arguments of a tool scroll the end away."""
    env = {f"V{n}": "x" for n in range(500)}
    asked = [
        Request.process(["git"]),
        Request.shell("true\n" * 500 + "git push"),
        Request.tool("t", {f"a{n}": 1 for n in range(500)}),
    ]
    for request in asked:
        lines = prompt_text(Question("id", request, DECISION, env=env)).splitlines()
        assert len(lines) < 60
        assert any("more not shown" in line for line in lines)


def test_a_line_names_the_programs_it_runs() -> None:
    """What a script would start is told at the end, each program once, in whatever part."""
    request = Request.shell("true && git log; echo $(rm x) && git push", cwd="/srv")
    lines = prompt_text(Question("id", request, DECISION)).splitlines()
    assert "git" in lines[-3] and "rm" in lines[-3] and lines[-3].count("git") == 1
    assert lines[-2] == '  in      "/srv"'


def test_no_word_imitates_the_note_of_what_is_left_out() -> None:
    """A quote in a word is marked, so that the note stands outside of quotes only when it is
    ours."""
    word = 'x" ... 5 characters not shown ... "y'
    text = prompt_text(Question("id", Request.process(["git", word]), DECISION))
    assert '"x\\" ... 5 characters not shown ... \\"y"' in text
    named = prompt_text(Question("id", Request.tool("t", {'a = "b" x': 1}), DECISION))
    assert '"a = \\"b\\" x" = "1"' in named


def test_tool_arguments_are_shown_by_name() -> None:
    """A tool call shows each argument, escaped."""
    request = Request.tool("mail.send", {"to": "a@b.test", "text": "x\x1b[31m", "n": 2})
    text = prompt_text(Question("id", request, DECISION))
    for part in ("tool mail.send", 'to = "a@b.test"', 'text = "x\\x1b[31m"', 'n = "2"'):
        assert part in text


@pytest.mark.parametrize(
    "request_",
    [
        Request.shell("a | b\nc", cwd="/srv"),
        Request.connect("api.test:443"),
        Request.read("/srv/\u202ex"),
        Request.env("TOKEN"),
    ],
)
def test_every_kind_of_request_has_a_prompt(request_: object) -> None:
    """No kind falls through, and none shows a raw control."""
    text = prompt_text(Question("id", request_, DECISION))  # type: ignore[arg-type]
    assert "\u202e" not in text and "asks to" in text
