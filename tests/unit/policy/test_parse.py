"""Policy data becomes the model: each field, its units, its defaults and its folders."""

from __future__ import annotations

from typing import Any

import pytest

from axonkernel.errors import PolicyError
from axonkernel.policy.model import (
    ArgsRules,
    BoxPolicy,
    Budget,
    EnvPolicy,
    EscalationPolicy,
    FsPolicy,
    Limits,
    NetPolicy,
    Policy,
    ShellPolicy,
    ToolRules,
)
from axonkernel.policy.parse import collect, parse, unparse
from unit.sample import SAMPLE


def read(data: dict[str, Any]) -> Policy:
    """Parsed as if it lay in /srv/app, for a user whose home is /home/ann."""
    return parse(data, base="/srv/app", home="/home/ann")


def test_the_sample_policy_becomes_values() -> None:
    """Paths are absolute, units are numbers, tools are levels."""
    assert read(SAMPLE) == Policy(
        isolation="auto",
        fs=FsPolicy(read=("/srv/app/src", "/srv/app/package.json"), write=("/srv/app/output",)),
        net=NetPolicy(allow=("api.github.com:443",)),
        shell=ShellPolicy(
            allow=("git", "bun"), args=(("git", ArgsRules(deny=("push --force*",))),)
        ),
        env=EnvPolicy(allow=("GITHUB_TOKEN",)),
        tools=ToolRules(
            (
                ("*", "escalate"),
                ("fs", ToolRules((("read", "allow"), ("remove", "deny")))),
            )
        ),
        limits=Limits(memory_bytes=2 * 1024**3, cpu_millicores=1000, wall_s=1800.0),
    )


def test_parsing_looks_at_no_file() -> None:
    """Nothing the sample names exists: parsing is lexical."""
    policy = parse(SAMPLE, base="/nowhere/at/all")
    assert policy.fs is not None
    assert policy.fs.write == ("/nowhere/at/all/output",)


@pytest.mark.parametrize("word", ["fs", "net", "shell", "env", "tools"])
def test_absent_false_and_empty_blocks(word: str) -> None:
    """Absent is no opinion; ``false`` and an empty table are closed."""
    assert getattr(read({"default": "allow"}), word) is None
    closed = getattr(read({word: False}), word)
    assert closed is not None
    assert closed == getattr(read({word: {}}), word) == type(closed)()


@pytest.mark.parametrize(
    "data", [{"net": {"allow": []}}, {"fs": {"read": []}}, {"shell": {"allow": []}}, {"tools": {}}]
)
def test_an_empty_list_grants_nothing(data: dict[str, Any]) -> None:
    """An empty list is a closed block, never an open one."""
    (word,) = data
    assert read(data) == read({word: False})


def test_an_empty_mapping_declares_nothing() -> None:
    """``{}`` is no policy, and is marked so; one key is a policy."""
    assert read({}) == Policy(declared=False)
    assert read({"default": "allow"}) == Policy()


@pytest.mark.parametrize(
    ("data", "isolation"),
    [
        ({"tools": {}}, "none"),
        ({"shell": False}, "none"),
        ({"fs": {}}, "auto"),
        ({"limits": {}}, "auto"),
        ({"default": "deny"}, "auto"),
        ({"fs": {}, "isolation": "none"}, "none"),
    ],
)
def test_isolation_follows_from_the_blocks(data: dict[str, Any], isolation: str) -> None:
    """``auto`` as soon as fs, net, env or limits is there or the default is deny."""
    assert read(data).effective_isolation == isolation


def test_every_field_of_net() -> None:
    """Each tuning key arrives where it belongs, destinations in their one spelling."""
    policy = read(
        {
            "net": {
                "allow": ["API.Test.", "10.0.0.0/8:*", "[::1]:80", "*.b.test:53/udp", "public"],
                "deny": ["private"],
                "escalate": ["c.test:8000-8100"],
                "dns": "off",
                "tls_names": "check",
                "listen": [8080],
                "unix": "none",
                "link": "veth",
                "refuse": "drop",
                "resolver": "2001:db8:0::53",
                "proxy": "http://proxy.test:3128",
            }
        }
    )
    assert policy.net == NetPolicy(
        allow=("api.test:443", "10.0.0.0/8:*", "[::1]:80", "*.b.test:53/udp", "public:443"),
        deny=("private:443",),
        escalate=("c.test:8000-8100",),
        dns="off",
        tls_names="check",
        listen=(8080,),
        unix="none",
        link="veth",
        refuse="drop",
        resolver="2001:db8::53",
        proxy="http://proxy.test:3128",
    )


def test_every_field_of_shell() -> None:
    """Names stay names, paths become absolute, spawn has three forms."""
    policy = read(
        {
            "shell": {
                "allow": ["git", "python3*", "./.venv/bin/pytest", "~/bin/x"],
                "deny": ["python3.9"],
                "args": {"./tool": {"allow": ["", "status *"]}, "git": {"escalate": ["push*"]}},
                "raw": True,
                "spawn": {"max": 2},
                "unsafe": ["git -c"],
                "path": ["/usr/bin"],
                "profiles": ["profiles/git.toml"],
            }
        }
    )
    assert policy.shell == ShellPolicy(
        allow=("git", "python3*", "/srv/app/.venv/bin/pytest", "/home/ann/bin/x"),
        deny=("python3.9",),
        args=(
            ("/srv/app/tool", ArgsRules(allow=("", "status *"))),
            ("git", ArgsRules(escalate=("push*",))),
        ),
        raw=True,
        spawn=2,
        unsafe=("git -c",),
        path=("/usr/bin",),
        profiles=("/srv/app/profiles/git.toml",),
    )


@pytest.mark.parametrize(
    ("written", "most"), [(True, None), (False, 0), ({"max": 0}, 0), ({"max": 5}, 5)]
)
def test_spawn_is_a_number_of_processes(written: Any, most: int | None) -> None:
    """``true`` has no cap, ``false`` is none."""
    policy = read({"shell": {"allow": [], "spawn": written}})
    assert policy.shell == ShellPolicy(spawn=most)


@pytest.mark.parametrize("block", ["net", "shell"])
def test_allow_true_is_anything(block: str) -> None:
    """``true`` is kept apart from any list."""
    assert getattr(read({block: {"allow": True}}), block).allow is True


def test_the_other_blocks() -> None:
    """env, limits, budget, escalation and box, field by field."""
    policy = read(
        {
            "default": "deny",
            "env": {
                "allow": ["GITHUB_*", "*"],
                "set": {"TZ": "UTC", "A": "two\nlines"},
                "unsafe_allow": ["PATH"],
            },
            "limits": {"pids": 64, "disk": "500M", "output": 1000, "cpu": "150%"},
            "budget": {"turns": 5, "tokens": 10_000, "usd": 2, "tool_calls": 0},
            "escalation": {"timeout": "5s", "headless": "deny"},
            "box": {"run_as": 1000, "devices": ["kvm"], "nested_userns": True, "noexec": False},
        }
    )
    assert policy == Policy(
        default="deny",
        env=EnvPolicy(
            allow=("GITHUB_*", "*"),
            set=(("A", "two\nlines"), ("TZ", "UTC")),
            unsafe_allow=("PATH",),
        ),
        limits=Limits(pids=64, disk_bytes=500 * 1024**2, output_bytes=1000, cpu_millicores=1500),
        budget=Budget(turns=5, tokens=10_000, usd=2.0, tool_calls=0),
        escalation=EscalationPolicy(timeout_s=5.0, headless="deny"),
        box=BoxPolicy(run_as=1000, devices=("kvm",), nested_userns=True, noexec=False),
    )


def test_wasm_grants_come_out_in_one_spelling() -> None:
    """The grants stay data, with absolute folders, bytes and seconds."""
    policy = read(
        {
            "wasm": {
                "folders": ["tools"],
                "trust": "ask",
                "mode": "ask",
                "grants": {"read": {"dirs": {"./d": "/data:ro"}, "memory": "1M", "wall": "2s"}},
            }
        }
    )
    assert policy.wasm is not None
    assert policy.wasm.folders == ("/srv/app/tools",)
    assert policy.wasm.grants == {
        "read": {"dirs": {"/srv/app/d": "/data:ro"}, "memory": 1024**2, "wall": 2}
    }


def test_tuples_are_lists() -> None:
    """The Python form may use tuples."""
    assert read({"fs": {"read": ("a",)}}) == read({"fs": {"read": ["a"]}})


def test_the_data_is_not_changed() -> None:
    """Parsing leaves the caller's mapping as it was."""
    data = {"tools": {"a.b": True, "a": {"c": {"deny": ["x"]}}}, "fs": {"read": ["x"]}}
    copy = {"tools": {"a.b": True, "a": {"c": {"deny": ["x"]}}}, "fs": {"read": ["x"]}}
    read(data)
    assert data == copy


def test_collect_returns_what_could_be_read() -> None:
    """Callers with faults of their own get the faults as a value."""
    policy, faults = collect({"fs": {"read": ["a", "*"], "x": 1}, "net": False})
    assert [fault.path for fault in faults] == ["$.fs.read[1]", "$.fs.x"]
    assert policy is not None
    assert policy.net == NetPolicy()


@pytest.mark.parametrize(
    "data",
    [
        SAMPLE,
        {},
        {"default": "allow"},
        {"fs": {"read": [], "deny": ["*"], "protect": False}},
        {"fs": {"read": [r"a\*\?"], "deny": [r"\?*"]}},
        {"net": {"escalate": ["a.test"], "allow": True, "dns": "off"}},
        {"shell": {"allow": [], "args": {"a": {"allow": []}, "./b": {}}, "spawn": True}},
        {"tools": {"a": {}, "b.deny": True, "c": {"deny": []}, "*": {"allow": ["x"]}}},
        {"limits": {"wall": 0.25, "cpu": "12.5%"}, "budget": {}, "escalation": {"timeout": 1}},
        {"limits": {}, "wasm": {"grants": {"a": {"env": {"A": "b"}, "net": ["a.test"]}}}},
    ],
)
def test_unparse_is_read_back_as_the_same_policy(data: dict[str, Any]) -> None:
    """The written form stands alone: it needs neither the folder nor the home."""
    policy = read(data)
    assert parse(unparse(policy)) == policy


@pytest.mark.parametrize("url", ["ftp://u:s3cret@h.test", "http://u:s3@cret@h.test/x"])
def test_the_password_of_a_proxy_is_not_shown(url: str) -> None:
    """Neither in a fault about its URL nor in the text of a policy that has one."""
    with pytest.raises(PolicyError) as caught:
        parse({"net": {"allow": [], "proxy": url}})
    assert "proxy" in str(caught.value)
    assert "cret" not in str(caught.value)
    assert "s3cret" not in repr(parse({"net": {"allow": [], "proxy": "http://u:s3cret@h.test"}}))
