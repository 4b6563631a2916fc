"""The net block."""

from __future__ import annotations

from unit.policy.malformed.row import Row

ROWS: list[Row] = [
    (
        "only tuning",
        {"net": {"dns": "off", "deny": ["private"]}},
        {"$.net": "allow = true"},
        {"net": {"dns": "off", "deny": ["private"], "allow": True}},
    ),
    ("allow false", {"net": {"allow": False}}, {"$.net.allow": "[]"}, {"net": {"allow": []}}),
    (
        "a URL, a bad label, a numeric spelling, a bad port",
        {
            "net": {
                "allow": ["https://a.test", "*a.test", "2130706433", "a.test:0"],
                "deny": ["a..test"],
                "escalate": [7],
            }
        },
        {
            "$.net.allow[0]": "",
            "$.net.allow[1]": "",
            "$.net.allow[2]": "",
            "$.net.allow[3]": "",
            "$.net.deny[0]": "",
            "$.net.escalate[0]": '"7"',
        },
        {
            "net": {
                "allow": ["a.test", "*.a.test", "127.0.0.1", "a.test:80"],
                "deny": ["b.test"],
                "escalate": ["c.test"],
            }
        },
    ),
    (
        "two trailing dots, a NUL",
        {"net": {"allow": ["a.test..", "127.0.0.1\0.a.test"]}},
        {"$.net.allow[0]": "", "$.net.allow[1]": "remove"},
        {"net": {"allow": ["A.Test."]}},
    ),
    (
        "ports",
        {"net": {"allow": [], "listen": [0, 65536, True, "80", 80.0]}},
        {
            "$.net.listen[0]": "",
            "$.net.listen[1]": "",
            "$.net.listen[2]": "",
            "$.net.listen[3]": "80",
            "$.net.listen[4]": "",
        },
        {"net": {"allow": [], "listen": [80, 65535]}},
    ),
    (
        "one port",
        {"net": {"allow": [], "listen": 80}},
        {"$.net.listen": "[80]"},
        {"net": {"allow": [], "listen": [80]}},
    ),
    (
        "words",
        {
            "net": {
                "allow": [],
                "dns": "on",
                "unix": True,
                "link": "slirp",
                "refuse": "rejct",
                "tls_names": True,
            }
        },
        {
            "$.net.dns": '"open"',
            "$.net.unix": '"box"',
            "$.net.link": '"pasta"',
            "$.net.refuse": '"reject"',
            "$.net.tls_names": '"off"',
        },
        {
            "net": {
                "allow": [],
                "dns": "open",
                "unix": "none",
                "link": "veth",
                "refuse": "drop",
                "tls_names": "check",
            }
        },
    ),
    (
        "resolver and proxy",
        {"net": {"allow": [], "resolver": "dns.test", "proxy": "proxy:3128"}},
        {"$.net.resolver": '"9.9.9.9"', "$.net.proxy": '"http://'},
        {"net": {"allow": [], "resolver": "9.9.9.9", "proxy": "http://proxy.test:3128"}},
    ),
]
