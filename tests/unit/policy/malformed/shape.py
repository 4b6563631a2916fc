"""Tables, keys and words that are not there."""

from __future__ import annotations

from unit.policy.malformed.row import Row

ROWS: list[Row] = [
    ("not a table", ["fs"], {"$": ""}, {"fs": False}),
    ("text for a policy", "allow", {"$": ""}, {"default": "allow"}),
    ("unknown key", {"shel": {"allow": []}}, {"$.shel": "shell"}, {"shell": {"allow": []}}),
    ("synonym", {"network": False}, {"$.network": "net"}, {"net": False}),
    ("stranger", {"zzz": 1}, {"$.zzz": "one of isolation"}, {}),
    ("key that is no text", {1: 2}, {"$[1]": "one of"}, {}),
    ("null block", {"net": None}, {"$.net": "leave the key out"}, {"net": False}),
    ("true for a block", {"net": True}, {"$.net": "allow = true"}, {"net": {"allow": True}}),
    (
        "list for a block",
        {"fs": ["src"]},
        {"$.fs": '{ read = ["src"] }'},
        {"fs": {"read": ["src"]}},
    ),
    ("false where nothing closes", {"limits": False}, {"$.limits": "leave it out"}, {"limits": {}}),
    (
        "camel case",
        {
            "limits": {"wallTime": "1s"},
            "budget": {"toolCalls": 1},
            "net": {"allow": [], "tlsNames": "off"},
            "box": {"runAs": 1},
            "env": {"unsafeAllow": []},
        },
        {
            "$.limits.wallTime": "wall",
            "$.budget.toolCalls": "tool_calls",
            "$.net.tlsNames": "tls_names",
            "$.box.runAs": "run_as",
            "$.env.unsafeAllow": "unsafe_allow",
        },
        {
            "budget": {"tool_calls": 1},
            "net": {"allow": [], "tls_names": "off"},
            "box": {"run_as": 1},
        },
    ),
    (
        "word out of the list",
        {"isolation": "bestEffort", "default": "closed"},
        {"$.isolation": '"best-effort"', "$.default": '"allow"'},
        {"isolation": "best-effort", "default": "deny"},
    ),
    ("boolean for a word", {"default": False}, {"$.default": '"allow"'}, {"default": "deny"}),
]
