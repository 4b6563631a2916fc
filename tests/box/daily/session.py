"""Sessions: everyday work as one would type it, run in a box and compared with what it prints.

::

    Work("counts lines", files={"a.txt": "one\\ntwo\\n"}, session='''
        $ wc -l a.txt
        2 a.txt
        $ wc -l missing
        ...
        [1]
    ''')

A line ``$ WORDS`` is one program with its words, split as a shell would and started without
one; ``> `` continues it; ``$ cd FOLDER`` is meant for all that follows. Lines below are what it
prints (both streams), ``...`` in them stands for anything, ``[N]`` is its exit code (negative: a
signal). Without lines only the exit code counts. Works of one policy share one box; each has a
folder of its own.
"""

from __future__ import annotations

import json
import re
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from box.boxed import PYTHON, Boxed, Run

__all__ = ["Day", "Step", "Work", "steps"]

_INSIDE = Path(__file__).with_name("inside.py").read_text()


class Step(NamedTuple):
    """One program of a session: its words, what it should print (None: anything), its code."""

    argv: tuple[str, ...]
    said: str | None
    code: int


class Work(NamedTuple):
    """One piece of work: what it shows to work, its session, and the files it starts from."""

    title: str
    session: str
    files: Mapping[str, str] = {}


def steps(session: str) -> list[Step]:
    """The programs of a session, in order."""
    commands: list[tuple[list[str], list[str]]] = []
    for line in textwrap.dedent(session).strip().splitlines():
        if line.startswith("$ "):
            commands.append(([line[2:]], []))
        elif line == ">" or line.startswith("> "):
            commands[-1][0].append(line[2:])
        else:
            commands[-1][1].append(line)
    return [_step("\n".join(typed), printed) for typed, printed in commands]


def _step(typed: str, printed: list[str]) -> Step:
    code = 0
    if printed and (match := re.fullmatch(r"\[(-?\d+)\]", printed[-1])):
        code = int(match[1])
        printed = printed[:-1]
    return Step(tuple(shlex.split(typed)), "\n".join(printed) if printed else None, code)


class Day:
    """Runs the works of a policy in one box when the first is asked about.

    Arguments:
        box: a project that the policies may write, as ``.``.
    """

    def __init__(self, box: Boxed) -> None:
        self._box = box
        self._done: dict[str, dict[str, list[Any]]] = {}
        self._runs: dict[str, Run] = {}

    def check(self, policy: str, works: Sequence[Work], work: Work) -> None:
        """Fail, with the session so far, where ``work`` did not go as its session says."""
        if policy not in self._done:
            self._done[policy] = self._run(policy, works)
        results = self._done[policy][work.title]
        told = ""
        for step, (code, printed) in zip(steps(work.session), results, strict=False):
            told += f"$ {shlex.join(step.argv)}\n{printed}[{code}]\n"
            assert code == step.code, told
            assert step.said is None or _fits(step.said, printed), f"{told}expected:\n{step.said}"
        assert len(results) == len(steps(work.session)), told

    def _run(self, policy: str, works: Sequence[Work]) -> dict[str, list[Any]]:
        assert len({work.title for work in works}) == len(works)
        name = f"{len(self._done)}.toml"
        (self._box.root / name).write_text(policy)
        asked = [
            [work.title, dict(work.files), [step.argv for step in steps(work.session)]]
            for work in works
        ]
        run = self._box.exec(
            "--policy", f"../{name}",
            command=[PYTHON, "-ISc", _INSIDE],
            input=json.dumps(asked).encode(),
            timeout_s=110,
        )  # fmt: skip
        assert run.code == 0, run.err
        self._runs[policy] = run
        answers: dict[str, list[Any]] = json.loads(run.out)
        return answers


def _fits(said: str, printed: str) -> bool:
    pattern = re.escape(said).replace(re.escape("..."), ".*")
    return re.fullmatch(pattern, printed.rstrip("\n"), re.DOTALL) is not None
