"""limits, budget, escalation, wasm and box."""

from __future__ import annotations

from unit.policy.malformed.row import Row

ROWS: list[Row] = [
    (
        "bad units",
        {"limits": {"memory": "2GB", "cpu": 100, "wall": "soon", "disk": -1, "output": "1 M"}},
        {
            "$.limits.memory": '"2G"',
            "$.limits.cpu": '"150%"',
            "$.limits.wall": '"30m"',
            "$.limits.disk": '"2G"',
            "$.limits.output": '"512M"',
        },
        {"limits": {"memory": "2G", "cpu": "100%", "wall": 60, "disk": 1, "output": "1M"}},
    ),
    (
        "booleans and zero",
        {"limits": {"pids": True, "memory": False, "wall": 0}},
        {"$.limits.pids": "", "$.limits.memory": '"2G"', "$.limits.wall": '"30m"'},
        {"limits": {"pids": 1}},
    ),
    (
        "budget",
        {"budget": {"turns": -1, "tokens": 1.5, "usd": "5", "tool_calls": None}},
        {
            "$.budget.turns": "",
            "$.budget.tokens": "",
            "$.budget.usd": "2.50",
            "$.budget.tool_calls": "leave the key out",
        },
        {"budget": {"turns": 0, "tokens": 1, "usd": 5, "tool_calls": 9}},
    ),
    (
        "not finite",
        {"budget": {"usd": float("nan")}, "limits": {"wall": float("inf")}},
        {"$.budget.usd": "2.50", "$.limits.wall": '"30m"'},
        {"budget": {"usd": 0.5}, "limits": {"wall": 0.5}},
    ),
    (
        "escalation",
        {"escalation": {"timeout": "0s", "headless": "allow"}},
        {"$.escalation.timeout": '"30m"', "$.escalation.headless": '"wait"'},
        {"escalation": {"timeout": "5s", "headless": "deny"}},
    ),
    (
        "wasm",
        {
            "wasm": {
                "mode": "all",
                "trust": True,
                "grants": {"Read.wasm": {}, "r": {"fule": 1, "memory": "x", "dirs": {"d": "data"}}},
            }
        },
        {
            "$.wasm.mode": '"full"',
            "$.wasm.trust": '"ask"',
            '$.wasm.grants["Read.wasm"]': '"read"',
            "$.wasm.grants.r.fule": "fuel",
            "$.wasm.grants.r.memory": '"2G"',
            "$.wasm.grants.r.dirs.d": '"/data:ro"',
        },
        {
            "wasm": {
                "mode": "ask",
                "grants": {"r": {"fuel": 1, "memory": "1M", "dirs": {"d": "/data:ro"}}},
            }
        },
    ),
    (
        "box",
        {"box": {"run_as": True, "devices": ["gpu"], "nested_userns": "yes", "noexec": 0}},
        {
            "$.box.run_as": "",
            "$.box.devices[0]": "",
            "$.box.nested_userns": "true or false",
            "$.box.noexec": "false",
        },
        {"box": {"run_as": "nobody", "devices": ["kvm"], "nested_userns": False, "noexec": True}},
    ),
]
