"""The tools map."""

from __future__ import annotations

from unit.policy.malformed.row import Row

ROWS: list[Row] = [
    (
        "verdict for the map",
        {"tools": "escalate"},
        {"$.tools": '{ "*" = "escalate" }'},
        {"tools": {"*": "escalate"}},
    ),
    ("null", {"tools": {"fs": None}}, {"$.tools.fs": "escalate"}, {"tools": {"fs": {}}}),
    (
        "unknown verdict, number, list",
        {"tools": {"a": "alow", "b": 1, "c": ["x"]}},
        {"$.tools.a": '"allow"', "$.tools.b": '"escalate"', "$.tools.c": '{ allow = ["x"] }'},
        {"tools": {"a": "allow", "b": True, "c": {"allow": ["x"]}}},
    ),
    (
        "lists of tool names",
        {"tools": {"allow": ["fs.read"], "deny": ["fs.remove"]}},
        {"$.tools.allow": '"fs.read" = true', "$.tools.deny": '"fs.remove" = false'},
        {"tools": {"fs.read": True, "fs.remove": False}},
    ),
    (
        "bad names",
        {"tools": {"a..b": True, "": True, "fs.re*": True, "*.x": True, "a b ": True}},
        {
            '$.tools["a..b"]': "",
            '$.tools[""]': "",
            '$.tools["fs.re*"]': '"fs.*"',
            '$.tools["*.x"]': '"*"',
            '$.tools["a b "]': "",
        },
        {"tools": {"a.b": True, "fs.*": True}},
    ),
    (
        "two meanings",
        {"tools": {"github": True, "github.pr": False, "a.b": True, "a": {"b": True}}},
        {'$.tools["github.pr"]': '"*" = ...', "$.tools.a": '"*" = ...'},
        {"tools": {"github": {"*": True, "pr": False}, "a.b": True, "a": {"c": True}}},
    ),
    (
        "names below a star",
        {"tools": {"*": {"read": True}}},
        {'$.tools["*"]': ""},
        {"tools": {"*": {"deny": ["x"]}}},
    ),
    (
        "patterns and names in one table",
        {"tools": {"http": {"fetch": True, "deny": ["x"]}}},
        {"$.tools.http": '"*"'},
        {"tools": {"http": {"fetch": True, "*": {"deny": ["x"]}}}},
    ),
    (
        "verdicts for patterns",
        {"tools": {"http": {"deny": True}, "x": {"allow": "y"}}},
        {"$.tools.http.deny": 'deny = ["*"]', "$.tools.x.allow": '["y"]'},
        {"tools": {"http": {"deny": ["*"]}, "x.deny": True}},
    ),
]
