"""An agent in CI, where nobody sits at a terminal.

    python agent.py changelog           does its work; exit 0
    python agent.py publish             needs a person; denied at once, exit 1
    python agent.py publish --wait      the same after two seconds, for an answer from elsewhere

The exit code is the run's: a pipeline stops where the agent was not allowed to go on.
"""

from __future__ import annotations

import sys

from axonkernel import Kernel, ToolError, define_agent

agent = define_agent(
    "ci",
    {
        "default": "deny",
        "fs": {"write": ["."]},
        "shell": {"allow": ["git"], "args": {"git": {"escalate": ["push*", "tag*"]}}},
        "tools": {"fs": {"write": True}},
        "limits": {"wall": "5m"},
        "escalation": {
            "headless": "wait" if "--wait" in sys.argv else "deny",
            "timeout": "2s",
        },
    },
)


@agent.handler
def work(kernel: Kernel, request: dict[str, str]) -> str:
    """Write the change log, or publish."""
    if "publish" in request["prompt"].split():
        git(kernel, "tag", "released")  # EscalationDenied ends the run
        return "published"
    history = git(kernel, "log", "--format=* %s")
    kernel.call_sync("fs.write", path="out/changelog.md", text=history)
    return f"{len(history.splitlines())} changes"


def git(kernel: Kernel, *words: str) -> str:
    """What git prints. A program that fails raises nothing by itself: its exit code says so."""
    result = kernel.process.run_sync(["git", *words])
    if result.exit_code != 0:
        raise ToolError("git", result.error_text.strip() or f"exit code {result.exit_code}")
    return result.text


if __name__ == "__main__":
    agent.run()
