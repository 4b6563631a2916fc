"""The sample policy that the project was described with, key for key."""

from __future__ import annotations

from typing import Any

SAMPLE: dict[str, Any] = {
    "isolation": "auto",
    "fs": {"read": ["./src", "./package.json"], "write": ["./output"]},
    "net": {"allow": ["api.github.com:443"], "dns": "allowlist"},
    "shell": {
        "allow": ["git", "bun"],
        "args": {"git": {"deny": ["push --force*"]}},
        "raw": False,
        "spawn": False,
    },
    "env": {"allow": ["GITHUB_TOKEN"]},
    "tools": {"fs": {"read": True, "remove": False}, "*": "escalate"},
    "limits": {"memory": "2G", "cpu": "100%", "wall": "30m"},
}
