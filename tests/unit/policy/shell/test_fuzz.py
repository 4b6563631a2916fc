"""Random lines: no exception, and no program beyond those that were judged."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest

from axonkernel.policy.decide import compile
from axonkernel.policy.match import needs_shell, split_words
from axonkernel.policy.model import Policy, ShellPolicy
from axonkernel.policy.request import Request
from axonkernel.policy.shell import Call, read_line
from unit.policy.shell.random_lines import random_line
from unit.policy.shell.recorder import Recorder, explains

_ALLOWED = ("a", "b", "c", "no")
_BUILTINS = tuple(
    "true : echo [ test printf read export declare unset cd command exec builtin".split()
)
_FORBIDDEN = ("evil", "x", "y", "f", "E", "i", "1", "2")


def _judge_and_run(folder: Path, seed: int, count: int) -> None:
    rules = compile(Policy(shell=ShellPolicy(allow=(*_ALLOWED, *_BUILTINS), raw=True)))
    bash = Recorder(folder, (*_ALLOWED, *_FORBIDDEN))
    random, slowest, ran = Random(seed), (0.0, ""), 0
    for _ in range(count):
        line = random_line(random)
        started = time.process_time()
        decision = rules.decide(Request.shell(line, cwd="/w"))
        slowest = max(slowest, (time.process_time() - started, line))
        assert decision.code != "internal", (line, decision.detail)
        if decision.verdict != "allow":
            continue
        calls = _foreseen(line)
        for made in bash.run(line):
            assert made[0] in _ALLOWED, (line, made)
            assert any(explains(call, made) for call in calls), (line, made)
            ran += 1
    assert ran > count // 50, "hardly any line was allowed and run"
    # Told, not asserted: the machine has other things to do (bench has the row for it).
    print(f"slowest: {slowest[0] * 1000:.1f} ms for {slowest[1]!r}; {ran} programs ran")


def _foreseen(line: str) -> list[Call]:
    """The calls that were judged: of plain words, in which no shell is needed, the words."""
    if needs_shell(line):
        return [call for call in read_line(line, "/w") if call.program]
    words = split_words(line)
    return [Call(words[0], words[1:])] if words else []


def test_random_lines_run_nothing_that_was_not_judged(tmp_path: Path) -> None:
    """2,000 lines; what is allowed really runs, and calls only what was foreseen."""
    _judge_and_run(tmp_path, seed=2_024, count=2_000)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.timeout(1_800)
def test_many_random_lines_run_nothing_that_was_not_judged(tmp_path: Path, seed: int) -> None:
    """The same for 100,000 lines."""
    _judge_and_run(tmp_path, seed=seed, count=10_000)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.timeout(1_800)
def test_the_first_reader_alone_foresees_every_call(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the second reader's veto, and whatever the programs are."""
    monkeypatch.setattr("axonkernel.policy.shell.line.heads", lambda text, expected: None)
    read_line.cache_clear()
    bash = Recorder(tmp_path, (*_ALLOWED, *_FORBIDDEN))
    random, ran = Random(1_000 + seed), 0
    for _ in range(10_000):
        line = random_line(random)
        try:
            calls = read_line(line, "/w")
        except ValueError:
            continue
        if any(call.hidden for call in calls):
            continue
        for made in bash.run(line):
            assert any(explains(call, made) for call in calls if call.program), (line, made)
            ran += 1
    read_line.cache_clear()
    assert ran > 500
