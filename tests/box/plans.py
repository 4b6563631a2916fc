"""Plans of boxes in which a Python program of the test runs."""

from __future__ import annotations

from pathlib import Path

from axonkernel.box.host import Ask
from axonkernel.box.model import BoxPlan, Command
from axonkernel.box.prepare import prepare
from axonkernel.policy.parse import parse
from box.boxed import PYTHON

__all__ = ["planned", "python"]


def planned(project: Path, **limits: str) -> BoxPlan:
    """A box with a network of its own, which reads ``project`` and writes its out/."""
    data = {
        "default": "deny",
        "fs": {"read": ["."], "write": ["./out"]},
        "shell": {"allow": [PYTHON]},
        **({"limits": limits} if limits else {}),
    }
    policy = parse(data, base=str(project), home="/root", source="test")
    return prepare(policy, Ask("call", str(project), program=PYTHON), env={"LANG": "C.UTF-8"})


def python(code: str, null: int, out: int | None = None) -> Command:
    """A program without input, whose output goes to ``out`` if given."""
    return Command((PYTHON, "-ISc", code), null, null if out is None else out, null)
