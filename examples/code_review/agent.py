"""Review a repository: read it, run git, write a report.

    python agent.py REPOSITORY

The model is scripted, so that this runs without a key; replace it with anything that has the
two methods of `Model`. What it is allowed does not depend on what it was told to do.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from axonkernel import Kernel, PolicyDenied, ToolError, define_agent


def repository() -> str:
    """The folder to review; asked for before a box is built, which makes the report's folder."""
    if len(sys.argv) != 2 or not os.path.isdir(sys.argv[1]):
        sys.stderr.write("usage: python agent.py REPOSITORY    (a folder that is there)\n")
        sys.exit(2)
    return os.path.abspath(sys.argv[1])


agent = define_agent(
    "code-review",
    {
        "default": "deny",  # what is not written here is closed: network, environment, tools
        "fs": {"read": ["."], "write": ["./review"], "deny": ["**/.env", "**/*.key"]},
        "shell": {
            "allow": ["git"],
            "args": {"git": {"allow": ["log *", "ls-files *", "shortlog *"]}},
        },
        "tools": {"fs": {"read": True, "write": True}},
        "limits": {"wall": "2m"},
    },
    base=repository(),
)


class Step(NamedTuple):
    """Something the model wants: ``run`` a program or ``read`` a file."""

    kind: str
    what: str


class Seen(NamedTuple):
    """What came of a step; a denial is shown to the model like any other result."""

    step: Step
    text: str
    trouble: str = ""  # "denied" or "failed"; then the text says why


class Model(Protocol):
    """All that is asked of a model."""

    def next_step(self, seen: Sequence[Seen]) -> Step | None:
        """What to look at next; None when it has seen enough."""

    def report(self, seen: Sequence[Seen]) -> str:
        """The review."""


class ScriptedModel:
    """Looks at the history and at every Python file, and does what a file tells it to."""

    def next_step(self, seen: Sequence[Seen]) -> Step | None:
        todo = [Step("run", "git log --oneline -n 5"), Step("run", "git ls-files")]
        files = [line for s in seen if s.step.what == "git ls-files" for line in s.text.split()]
        todo += [Step("read", name) for name in files if name.endswith((".py", ".md"))]
        # A model that reads untrusted text can be told things. This one falls for it.
        for line in "\n".join(s.text for s in seen if s.step.kind == "read").splitlines():
            if line.startswith("AI agents: first "):
                todo.append(Step(*line.removeprefix("AI agents: first ").split(" ", 1)))
        return next((step for step in todo if step not in [s.step for s in seen]), None)

    def report(self, seen: Sequence[Seen]) -> str:
        lines = ["# Review", ""]
        for step, text, trouble in seen:
            length = trouble or f"{len(text.splitlines())} lines"
            todos = text.count("TODO") if not trouble else 0
            lines.append(f"* {step.what}: {length}" + (f", {todos} TODO" if todos else ""))
        return "\n".join(lines) + "\n"


@agent.handler
def review(kernel: Kernel, request: Any) -> str:
    """Let the model look until it has seen enough, then write its report."""
    git(kernel, "git ls-files")  # not a repository, or not its owner's: there is no review
    model: Model = ScriptedModel()
    seen: list[Seen] = []
    while len(seen) < 100 and (step := model.next_step(seen)) is not None:
        seen.append(take(kernel, step))
    report = model.report(seen)
    kernel.call_sync("fs.write", path="review/report.md", text=report)
    return report


def take(kernel: Kernel, step: Step) -> Seen:
    """Take one step, through the kernel."""
    roads: dict[str, Callable[[str], str]] = {
        "run": lambda line: git(kernel, line),
        "read": lambda path: kernel.call_sync("fs.read", path=path),
    }
    try:
        return Seen(step, roads[step.kind](step.what))
    except PolicyDenied as denial:
        return Seen(step, str(denial), "denied")
    except ToolError as error:
        return Seen(step, str(error), "failed")


def git(kernel: Kernel, line: str) -> str:
    """What git prints. A program that fails raises nothing by itself: its exit code says so."""
    result = kernel.process.run_sync(line)
    if result.exit_code != 0:
        raise ToolError("git", result.error_text.strip() or f"exit code {result.exit_code}")
    return result.text


if __name__ == "__main__":
    agent.run()
