"""An agent in CI, where nobody sits at a terminal.

    python agent.py changelog           does its work; exit 0
    python agent.py publish             needs a person; denied at once, exit 1
    python agent.py publish --wait      the same after two seconds, for an answer from elsewhere

The exit code is the run's: a pipeline stops where the agent was not allowed to go on.
"""

from __future__ import annotations

import sys

from axonkernel import Kernel, define_agent

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
        kernel.process.run_sync(["git", "tag", "released"])  # EscalationDenied ends the run
        return "published"
    history = kernel.process.run_sync(["git", "log", "--format=* %s"])
    kernel.call_sync("fs.write", path="out/changelog.md", text=history.text)
    return f"{len(history.text.splitlines())} changes"


if __name__ == "__main__":
    agent.run()
