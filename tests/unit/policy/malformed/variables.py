"""The env block."""

from __future__ import annotations

from unit.policy.malformed.row import Row

ROWS: list[Row] = [
    (
        "controls by exact name",
        {"env": {"allow": ["LD_PRELOAD", "PATH", "GIT_SSH_COMMAND", "TOKEN"]}},
        {
            "$.env.allow[0]": 'unsafe_allow = ["LD_PRELOAD"]',
            "$.env.allow[1]": 'unsafe_allow = ["PATH"]',
            "$.env.allow[2]": 'unsafe_allow = ["GIT_SSH_COMMAND"]',
        },
        {"env": {"allow": ["TOKEN", "GIT_*"], "unsafe_allow": ["LD_PRELOAD", "PATH"]}},
    ),
    (
        "odd names",
        {"env": {"allow": ["A=b", "", "A B", "Ä", "*_X", "a**"], "unsafe_allow": ["LD_*"]}},
        {
            "$.env.allow[0]": 'set = { A = "b" }',
            "$.env.allow[1]": "",
            "$.env.allow[2]": "",
            "$.env.allow[3]": "",
            "$.env.allow[4]": "each name",
            "$.env.allow[5]": '"a*"',
            "$.env.unsafe_allow[0]": "each name",
        },
        {"env": {"allow": ["A", "X_*"], "set": {"A": "b"}}},
    ),
    (
        "odd values",
        {
            "env": {
                "set": {
                    "A": 1,
                    "B": True,
                    "C": None,
                    "D": "x\0",
                    "E": "x" * 200_000,
                    "F*": "x",
                    "G": "\ud800",
                }
            }
        },
        {
            "$.env.set.A": '"1"',
            "$.env.set.B": '"true"',
            "$.env.set.C": "",
            "$.env.set.D": "remove",
            "$.env.set.E": "",
            '$.env.set["F*"]': "",
            "$.env.set.G": "",
        },
        {"env": {"set": {"A": "1", "B": "", "C": "two\nlines", "E": "x" * 100_000}}},
    ),
]
