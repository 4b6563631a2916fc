"""The fs block."""

from __future__ import annotations

from unit.policy.malformed.row import Row

ROWS: list[Row] = [
    (
        "only a deny",
        {"fs": {"deny": [".env"]}},
        {"$.fs": 'read = ["/"]'},
        {"fs": {"deny": [".env"], "read": ["/"]}},
    ),
    (
        "only tuning",
        {"fs": {"protect": False}},
        {"$.fs": 'read = ["/"]'},
        {"fs": {"protect": False, "write": ["."]}},
    ),
    (
        "text for a list",
        {"fs": {"read": "src"}},
        {"$.fs.read": '["src"]'},
        {"fs": {"read": ["src"]}},
    ),
    ("null list", {"fs": {"read": None}}, {"$.fs.read": "leave the key out"}, {"fs": {"read": []}}),
    ("null entry", {"fs": {"read": ["a", None]}}, {"$.fs.read[1]": ""}, {"fs": {"read": ["a"]}}),
    (
        "empty path",
        {"fs": {"read": [""]}},
        {"$.fs.read[0]": "leave the entry out"},
        {"fs": {"read": ["."]}},
    ),
    (
        "glob in a grant",
        {"fs": {"read": ["src/**", "*.py", "/a/b?"], "write": ["[id]/*"]}},
        {
            "$.fs.read[0]": '"src"',
            "$.fs.read[1]": '"."',
            "$.fs.read[2]": '"/a"',
            "$.fs.write[0]": '"[id]"',
        },
        {"fs": {"read": ["src", ".", "/a"], "write": ["[id]"]}},
    ),
    (
        "wildcard that is none",
        {"fs": {"read": ["/"], "deny": [".env.?"]}},
        {"$.fs.deny[0]": '".env.*"'},
        {"fs": {"read": ["/"], "deny": [".env.*"]}},
    ),
    (
        "control characters",
        {"fs": {"read": ["a\0b", "a\nb", "a\x7f"]}},
        {"$.fs.read[0]": "remove", "$.fs.read[1]": "remove", "$.fs.read[2]": "remove"},
        {"fs": {"read": ["a b"]}},
    ),
    (
        "half a character",
        {"fs": {"read": ["\ud800"]}},
        {"$.fs.read[0]": "remove"},
        {"fs": {"read": ["\udc80"]}},
    ),
    (
        "home of another",
        {"fs": {"read": ["~root/x"]}},
        {"$.fs.read[0]": '"./~root/x"'},
        {"fs": {"read": ["./~root/x"]}},
    ),
    (
        "granted and denied",
        {"fs": {"write": ["out"], "read": ["in"], "deny": ["*.key", "./out/", "in/x/.."]}},
        {"$.fs.deny[1]": "one of the lists", "$.fs.deny[2]": "one of the lists"},
        {"fs": {"write": ["out"], "read": ["in"], "deny": ["*.key", "out/x"]}},
    ),
    (
        "kernel folders",
        {"fs": {"read": ["/proc", "/sys/kernel"], "write": ["/proc/self"]}},
        {
            "$.fs.read[0]": 'unsafe = ["/proc"]',
            "$.fs.read[1]": 'unsafe = ["/sys/kernel"]',
            "$.fs.write[0]": 'unsafe = ["/proc/self"]',
        },
        {
            "fs": {
                "read": ["/proc", "/sys/kernel"],
                "write": ["/proc/self"],
                "unsafe": ["/proc", "/sys/kernel"],
            }
        },
    ),
    (
        "control sockets",
        {"fs": {"write": ["/var/run/docker.sock", "/run/user/1000/bus", "/home/a/x"]}},
        {"$.fs.write[0]": "unsafe = ", "$.fs.write[1]": "unsafe = "},
        {
            "fs": {
                "write": ["/var/run/docker.sock", "/home/a/x"],
                "unsafe": ["/var/run/docker.sock"],
            }
        },
    ),
    (
        "protect true",
        {"fs": {"write": ["."], "protect": True}},
        {"$.fs.protect": "leave it out"},
        {"fs": {"write": ["."], "protect": []}},
    ),
]
