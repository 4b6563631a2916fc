"""The shell block."""

from __future__ import annotations

from unit.policy.malformed.row import Row

ROWS: list[Row] = [
    (
        "only a deny",
        {"shell": {"deny": ["yarn"]}},
        {"$.shell": "allow = true"},
        {"shell": {"deny": ["yarn"], "allow": True}},
    ),
    ("allow as a table", {"shell": {"allow": {}}}, {"$.shell.allow": ""}, {"shell": {"allow": []}}),
    (
        "a command, not a program",
        {"shell": {"allow": ["git push", " ls", "."]}},
        {
            "$.shell.allow[0]": 'args = { git = { allow = ["push *"] } }',
            "$.shell.allow[1]": '"ls"',
            "$.shell.allow[2]": "",
        },
        {"shell": {"allow": ["git", "ls", "./ls"], "args": {"git": {"allow": ["push *"]}}}},
    ),
    (
        "globs",
        {"shell": {"allow": ["/usr/bin/py*", "python?"]}},
        {"$.shell.allow[0]": '"/usr/bin"', "$.shell.allow[1]": '"python*"'},
        {"shell": {"allow": ["python*"]}},
    ),
    (
        "args that are no tables",
        {"shell": {"allow": ["git"], "args": {"git": ["push"], "tar": None}}},
        {"$.shell.args.git": "", "$.shell.args.tar": "leave it out"},
        {"shell": {"allow": ["git"], "args": {"git": {"deny": ["push"]}}}},
    ),
    (
        "patterns",
        {
            "shell": {
                "allow": ["git"],
                "args": {"git": {"deny": ["", " ", "a 'b", 3], "allow": "x", "alow": []}},
            }
        },
        {
            "$.shell.args.git.deny[0]": "",
            "$.shell.args.git.deny[1]": '"*"',
            "$.shell.args.git.deny[2]": "quotes",
            "$.shell.args.git.deny[3]": '"3"',
            "$.shell.args.git.allow": '["x"]',
            "$.shell.args.git.alow": "allow",
        },
        {"shell": {"allow": ["git"], "args": {"git": {"deny": ["*", "a 'b'"], "allow": [""]}}}},
    ),
    (
        "one program twice",
        {"shell": {"allow": ["./a"], "args": {"./a": {}, "././a": {}}}},
        {'$.shell.args["././a"]': "keep one"},
        {"shell": {"allow": ["./a"], "args": {"./a": {}, "./b": {}}}},
    ),
    (
        "numbers for booleans",
        {"shell": {"allow": [], "raw": 1, "spawn": 3}},
        {"$.shell.raw": "true", "$.shell.spawn": "{ max = 3 }"},
        {"shell": {"allow": [], "raw": True, "spawn": {"max": 3}}},
    ),
    (
        "spawn tables",
        {"shell": {"allow": [], "spawn": {"max": True}}},
        {"$.shell.spawn.max": ""},
        {"shell": {"allow": [], "spawn": True}},
    ),
    (
        "hazard without an option",
        {"shell": {"allow": ["git"], "unsafe": ["git"]}},
        {"$.shell.unsafe[0]": '"git -c"'},
        {"shell": {"allow": ["git"], "unsafe": ["git -c"]}},
    ),
]
