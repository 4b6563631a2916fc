"""The agent that `axonkernel demo` puts into a box: a coding agent that has turned on its host.

Its policy is that of an ordinary one: work in the project, run git, talk to one address.
"""

from __future__ import annotations

import json
import socket
from typing import Annotated, Any

from axonkernel import Host, Kernel, define_agent
from axonkernel.demo.attempts import ATTEMPTS, hear
from axonkernel.demo.scene import Scene

POLICY: dict[str, Any] = {
    "isolation": "best-effort",
    "default": "deny",
    "fs": {"write": ["."], "deny": [".env"]},
    "net": {"allow": ["203.0.113.10:443"]},
    "shell": {
        "allow": ["git"],
        "args": {"git": {"deny": ["push --force*", "tag -d*"], "escalate": ["push*"]}},
    },
    "env": {"allow": ["DEMO_LANGUAGE"]},
    "tools": {"fs": {"read": True, "write": True, "remove": False}, "net": True, "*": "deny"},
    "limits": {"memory": "512M", "pids": 64, "wall": "45s", "disk": "16M"},
    "escalation": {"timeout": "1s"},
}

agent = define_agent("demo", POLICY)


@agent.tool("net.dial")
def dial(address: Annotated[str, Host]) -> str:
    """Say hello to an address."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=2) as connection:
        connection.sendall(b"hello")
    return "connected"


@agent.handler
def try_everything(kernel: Kernel, request: dict[str, str]) -> None:
    """Make every attempt and tell of each, as one line of JSON."""
    scene = Scene(*json.loads(request["prompt"]))
    for attempt in ATTEMPTS:
        if attempt.key not in scene.skip:
            print(json.dumps(hear(attempt, kernel, scene)), flush=True)


if __name__ == "__main__":
    agent.run()
