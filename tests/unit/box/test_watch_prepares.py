"""The warden has the resolver's parts ready before the first question, and never in a hurry."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, cast

import pytest

from axonkernel.box.channel import pair
from axonkernel.box.resolver.starting import Resolver
from axonkernel.box.standing import Standing
from axonkernel.box.watch import watch
from lab.processes import REPOSITORY

PARTS = """
import sys
from axonkernel.box.model import NetPlan
from axonkernel.box.resolver.starting import Resolver
resolver, name = Resolver(NetPlan()), "axonkernel.box.resolver.serving"
before = name in sys.modules
while resolver.prepare(): pass
print(before, name in sys.modules, resolver.prepare())
"""


def test_all_parts_of_a_resolver_are_imported() -> None:
    """By and by; one that has none left says so."""
    done = subprocess.run(
        [sys.executable, "-c", PARTS], cwd=REPOSITORY, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == ["False", "True", "False"], done.stderr


class Parts:
    """Stands in for a resolver that nobody asks."""

    def __init__(self) -> None:
        self.left = 3

    def filenos(self) -> tuple[int, ...]:
        return ()

    def prepare(self) -> bool:
        self.left -= 1
        return self.left > 0


@contextlib.contextmanager
def box(*argv: str) -> Iterator[Standing]:
    """What is watched: a program, with a resolver beside it."""
    with subprocess.Popen(argv) as process:
        standing = Standing()
        standing._bwrap_fd = os.pidfd_open(process.pid)
        standing.resolver = cast(Resolver, Parts())
        yield standing
        os.close(standing.ended)


@pytest.mark.parametrize(("seconds", "left"), [("0.5", 0), ("0", 3)])
def test_they_are_when_a_program_takes_its_time(seconds: str, left: int) -> None:
    """One that has ended already is not kept waiting for an import."""
    control, ours = pair()
    with box("sleep", seconds) as standing:
        if left:
            select.select([standing.ended], [], [])
        watch(standing, control, 0.0)
        parts: Any = standing.resolver
        assert parts.left == left
    control.close()
    ours.close()
