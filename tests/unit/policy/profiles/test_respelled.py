"""Mutation: what the table denies is denied in every other spelling, what it allows is allowed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from random import Random

import pytest
from attrs import evolve

from axonkernel.policy.decide import Ruleset, compile
from axonkernel.policy.parse import parse
from axonkernel.policy.request import AnyRequest, Decision, ProcessRequest, Request
from unit.policy.profiles.respell import (
    Respelled,
    around,
    as_lines,
    not_analysed,
    of_options,
    quotings,
    respelled,
    same,
    shell_forms,
)
from unit.policy.profiles.table import ROWS, Row, rulesets

CWD = "/srv/ws"
REFUSED = [row for row in ROWS if row.verdict != "allow"]
ALLOWED = {(row.policy, row.twin or row.argv): row for row in ROWS}
_NAME = re.compile(r"[A-Za-z][a-z0-9.]*")


def _raw(ruleset: Ruleset) -> Ruleset:
    """The same policy where lines of shell text may run."""
    shell = ruleset.policy.shell
    assert shell is not None
    return ruleset.recompiled(evolve(ruleset.policy, shell=evolve(shell, raw=True)))


RAW = {name: _raw(ruleset) for name, ruleset in rulesets.items()}


def _process(each: Respelled) -> ProcessRequest:
    return ProcessRequest(each.argv, CWD, resolved=each.resolved)


def _line(text: str) -> AnyRequest:
    return Request.shell(text, cwd=CWD)


def _open_to(ruleset: Ruleset, asked: Iterator[tuple[str, AnyRequest]]) -> list[object]:
    """What of it is allowed, and what cannot be decided."""
    decided = [(how, request, ruleset.decide(request)) for how, request in asked]
    assert decided
    return [each for each in decided if each[2].verdict == "allow" or each[2].code == "internal"]


def _refused(ruleset: Ruleset, asked: Iterator[tuple[str, AnyRequest]]) -> list[object]:
    decided = [(how, request, ruleset.decide(request)) for how, request in asked]
    return [each for each in decided if each[2].verdict != "allow"]


@pytest.mark.parametrize("policy", rulesets)
def test_a_refused_command_is_refused_in_every_spelling(policy: str) -> None:
    """Paths, wrappers, options moved, joined, apart, cut short and bundled, more options."""
    for row in _of(policy):
        asked = ((each.how, _process(each)) for each in respelled(row.argv))
        assert not _open_to(rulesets[policy], asked)


@pytest.mark.parametrize("policy", rulesets)
def test_a_refused_command_is_refused_as_a_line(policy: str) -> None:
    """In every quoting, with and without a shell."""
    for row in _of(policy):
        if _own_word_of_bash(row.argv):
            continue
        plain = ((how, _line(text)) for how, text in quotings(row.argv))
        assert not _open_to(rulesets[policy], plain)
        lines = ((how, _line(f"{text}; true")) for how, text in as_lines(row.argv))
        assert not _open_to(RAW[policy], lines)


@pytest.mark.parametrize("policy", rulesets)
def test_a_refused_command_is_refused_inside_all_of_shell(policy: str) -> None:
    """Chains, pipes, substitutions, functions, loops, here-documents, and what is not analysed."""
    for row in _of(policy):
        if _own_word_of_bash(row.argv):
            continue
        for forms in (shell_forms, not_analysed):
            lines = ((how, _line(text)) for how, text in forms(shlex.join(row.argv)))
            assert not _open_to(RAW[policy], lines)


def _of(policy: str) -> list[Row]:
    return [row for row in REFUSED if row.policy == policy]


def _own_word_of_bash(argv: tuple[str, ...]) -> bool:
    """As a line, ``time -o x ls`` runs a program called ``-o``."""
    return argv[0] == "time"


def _changed(row: Row, random: Random) -> str:
    """A refused row after several changes: of options, wrappers, quoting, then of form."""
    argv = row.argv
    for _ in range(random.randint(1, 2)):
        argv = random.choice([argv, *(words for _, words in of_options(argv))])
    for _ in range(random.randint(0, 2)):
        argv = random.choice([each.argv for each in same(argv) if each.resolved is None])
    if _own_word_of_bash(argv):
        argv = ("env", *argv)
    text = random.choice([text for _, text in as_lines(argv)])
    for _ in range(random.randint(0, 2)):
        text = random.choice(list(around(text)))
    return text


def _refuse_changed(random: Random, times: int) -> None:
    for row in REFUSED * times:
        text = _changed(row, random)
        decision = RAW[row.policy].decide(_line(text))
        assert decision.verdict != "allow" and decision.code != "internal", (row, text)


def test_changes_upon_changes_are_refused() -> None:
    """Several at once, at random."""
    _refuse_changed(Random(5), 4)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(10))
def test_many_changes_upon_changes_are_refused(seed: int) -> None:
    """The same, a hundred thousand times and more."""
    _refuse_changed(Random(seed), 25)


@pytest.mark.parametrize("policy", rulesets)
def test_an_allowed_command_stays_allowed(policy: str) -> None:
    """In every quoting, by its path, behind wrappers, in every form: the positive twin."""
    for (name, argv), _ in ALLOWED.items():
        if name != policy:
            continue
        assert not _refused(rulesets[policy], ((e.how, _process(e)) for e in same(argv)))
        if _own_word_of_bash(argv):
            continue
        quoted = ((how, _line(text)) for how, text in quotings(argv))
        assert not _refused(rulesets[policy], quoted)
        lines = ((how, _line(f"{text}; true")) for how, text in as_lines(argv))
        assert not _refused(RAW[policy], lines)
        forms = ((how, _line(text)) for how, text in shell_forms(shlex.join(argv)))
        assert not _refused(RAW[policy], forms)


def test_a_quoted_line_gets_the_very_decision_of_its_words() -> None:
    """Not only the same verdict: code, rule and subject too."""
    for row in ROWS:
        if _own_word_of_bash(row.argv):
            continue
        wanted = rulesets[row.policy].decide(Request.process(row.argv, cwd=CWD))
        for how, text in quotings(row.argv):
            assert rulesets[row.policy].decide(_line(text)) == wanted, (how, text)


def test_enough_is_tried() -> None:
    """Every change is made at all, and in number."""
    made: dict[str, int] = {}
    for row in REFUSED:
        for each in respelled(row.argv):
            made[each.how] = made.get(each.how, 0) + 1
    options = {
        "before the subcommand", "a harmless option in front", "a harmless option behind",
        "a trailing --", "an option moved", "a value apart", "an option cut short",
        "a short value apart", "a short value joined", "in a bundle",
    }  # fmt: skip
    assert options <= made.keys()
    assert min(made.values()) > 15 and sum(made.values()) > 25_000


def _lists(*allow: str) -> Ruleset:
    return compile(parse({"shell": {"allow": list(allow), "raw": True}}))


@pytest.mark.parametrize("row", [row for row in REFUSED if row.policy == "plain"][::9], ids=str)
def test_with_a_list_of_programs_too(row: Row) -> None:
    """The program itself is listed, the hazard is not; wrappers are listed or not."""
    names = {last for word in row.argv if _NAME.fullmatch(last := word.rpartition("/")[2])}
    wrappers = ("env", "nice", "timeout", "nohup", "stdbuf", "setsid", "xargs", "time", "find")
    for listed in (_lists(*names, *wrappers), _lists(*names)):
        for each in respelled(row.argv):
            assert listed.decide(_process(each)).verdict != "allow", each
    assert _decides(_lists(*names, *wrappers), row.twin).verdict == "allow"


def _decides(ruleset: Ruleset, argv: tuple[str, ...]) -> Decision:
    return ruleset.decide(Request.process(argv, cwd=CWD))
