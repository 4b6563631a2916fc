"""Paths: what is granted, what is carved out of it, and what no ordinary grant brings."""

from __future__ import annotations

from itertools import permutations

import pytest

from axonkernel.policy.decide import BoxGrants, Ruleset, compile
from axonkernel.policy.model import FsPolicy, Policy
from axonkernel.policy.request import Decision, Request


def rules(boxed: BoxGrants | None = None, **lists: tuple[str, ...]) -> Ruleset:
    return compile(Policy(fs=FsPolicy(**lists)), boxed=boxed)


def reads(ruleset: Ruleset, path: str) -> bool:
    return ruleset.decide(Request.read(path)).verdict == "allow"


def writes(ruleset: Ruleset, path: str) -> bool:
    return ruleset.decide(Request.write(path)).verdict == "allow"


def test_a_grant_covers_what_is_below_by_component() -> None:
    """``/srv/ws`` covers itself and its content, not ``/srv/ws2``."""
    ruleset = rules(read=("/srv/ws",))
    assert reads(ruleset, "/srv/ws")
    assert reads(ruleset, "/srv/ws/a/b")
    assert not reads(ruleset, "/srv/ws2")
    assert not reads(ruleset, "/srv")
    assert not writes(ruleset, "/srv/ws/a")


def test_write_includes_read() -> None:
    """A write grant is readable too."""
    ruleset = rules(write=("/srv/out",))
    assert reads(ruleset, "/srv/out/x")
    assert writes(ruleset, "/srv/out/x")


def test_the_root_covers_everything_ordinary() -> None:
    """``/`` is a grant like any other."""
    ruleset = rules(read=("/",))
    assert reads(ruleset, "/")
    assert reads(ruleset, "/etc/hosts")


def test_a_path_is_normalised_before_it_is_compared() -> None:
    """Dots cannot walk out of a grant, nor past a deny."""
    ruleset = rules(read=("/srv/ws",), deny=("/srv/ws/.env",))
    assert not reads(ruleset, "/srv/ws/../../etc/shadow")
    assert not reads(ruleset, "/srv/ws//a/.././.env")
    assert reads(ruleset, "/srv/ws/a/../b")


def test_the_denial_names_rule_and_layer() -> None:
    """The operator finds the line that decided."""
    decision = rules(read=("/srv/ws",), deny=("/srv/ws/.env",)).decide(Request.read("/srv/ws/.env"))
    assert decision == Decision(
        "deny", "fs.read", "$.fs.deny[0]", "policy", "/srv/ws/.env", "below /srv/ws/.env"
    )


def test_deny_beats_grants_for_reading_and_writing() -> None:
    """A literal and a pattern deny hold for both."""
    ruleset = rules(write=("/srv/ws",), deny=("/srv/ws/.env", "/srv/ws/**/*.key"))
    for path in ("/srv/ws/.env", "/srv/ws/a/b.key", "/srv/ws/c.key/inside"):
        assert not reads(ruleset, path)
        assert not writes(ruleset, path)
    assert writes(ruleset, "/srv/ws/.env.example")
    assert writes(ruleset, "/srv/ws/a/b.keys")


@pytest.mark.parametrize("order", list(permutations(range(2))))
def test_the_most_specific_literal_path_wins_in_any_order(order: tuple[int, ...]) -> None:
    """read, write inside it, deny inside that, write inside that."""
    write = ("/srv/ws/a/b", "/srv/ws/a/b/c/d")
    ruleset = rules(
        read=("/srv/ws",), write=tuple(write[i] for i in order), deny=("/srv/ws/a/b/c",)
    )
    assert [
        (reads(ruleset, path), writes(ruleset, path))
        for path in (
            "/srv/ws/x", "/srv/ws/a/b/x", "/srv/ws/a/b/c", "/srv/ws/a/b/c/x", "/srv/ws/a/b/c/d/x",
        )
    ] == [(True, False), (True, True), (False, False), (False, False), (True, True)]  # fmt: skip


def test_read_inside_write_is_read_only() -> None:
    """The deeper entry decides, as the deeper mount does."""
    ruleset = rules(write=("/srv/ws",), read=("/srv/ws/vendor",))
    assert reads(ruleset, "/srv/ws/vendor/x")
    assert not writes(ruleset, "/srv/ws/vendor/x")


def test_a_pattern_deny_beats_even_a_deeper_grant() -> None:
    """A literal grant does not reach below a pattern's match."""
    ruleset = rules(write=("/srv/ws", "/srv/ws/secret/open"), deny=("/srv/**/secret",))
    assert not writes(ruleset, "/srv/ws/secret/open/x")
    assert writes(ruleset, "/srv/ws/other")


def test_names_with_metacharacters_are_literal() -> None:
    """Brackets and question marks in grants are part of the name."""
    ruleset = rules(write=("/srv/ws/app/[id]", "/srv/ws/a b(1)", "/srv/ws/ü{}"))
    for path in ("/srv/ws/app/[id]/p.ts", "/srv/ws/a b(1)/x", "/srv/ws/ü{}/$'\n\t"):
        assert writes(ruleset, path)
    assert not writes(ruleset, "/srv/ws/app/i/p.ts")


def test_undecodable_names_are_compared_as_they_are() -> None:
    """Bytes that are no UTF-8 arrive as surrogates and match themselves."""
    ruleset = rules(read=("/srv/\udcff",))
    assert reads(ruleset, "/srv/\udcff/x")
    assert not reads(ruleset, "/srv/\udcfe/x")


def test_the_default_protection_holds_in_write_grants() -> None:
    """What runs or is obeyed outside is read-only; the rest is writable."""
    ruleset = rules(write=("/srv/ws",))
    for path in (
        "/srv/ws/.git/hooks/pre-commit", "/srv/ws/.git/config", "/srv/ws/sub/.git/config",
        "/srv/ws/.bashrc", "/srv/ws/.envrc", "/srv/ws/.vscode/tasks.json", "/srv/ws/policy.toml",
        "/srv/ws/axon.config.py", "/srv/ws/.git/modules/m/hooks/x",
    ):  # fmt: skip
        assert not writes(ruleset, path), path
        assert reads(ruleset, path), path
    for path in ("/srv/ws/.git/index", "/srv/ws/.git/objects/aa/bb", "/srv/ws/src/config"):
        assert writes(ruleset, path), path


def test_protection_can_be_off_or_a_list_of_its_own() -> None:
    """An empty list protects nothing; a list replaces the default."""
    assert writes(rules(write=("/srv/ws",), protect=()), "/srv/ws/.bashrc")
    own = rules(write=("/srv/ws",), protect=("/srv/ws/keep",))
    assert not writes(own, "/srv/ws/keep/x")
    assert writes(own, "/srv/ws/.bashrc")


def test_a_write_grant_that_names_a_protected_path_lifts_the_protection() -> None:
    """The user wrote that very path, or one below it."""
    ruleset = rules(write=("/srv/ws", "/srv/ws/.git/hooks"))
    assert writes(ruleset, "/srv/ws/.git/hooks/x")
    assert not writes(ruleset, "/srv/ws/.git/config")
    own = rules(write=("/srv/ws", "/srv/ws/p/q"), protect=("/srv/ws/p",))
    assert writes(own, "/srv/ws/p/q/x")
    assert not writes(own, "/srv/ws/p/x")


@pytest.mark.parametrize(
    "path", ["/proc/self/root/etc/shadow", "/sys/kernel", "/run/docker.sock", "/dev/sda",
             "/tmp/other", "/run/user/0/bus", "/srv/x/docker.sock"],
)  # fmt: skip
def test_a_broad_grant_never_brings_the_running_host(path: str) -> None:
    """Kernel folders, control sockets, devices and scratch folders need their own entry."""
    ruleset = rules(write=("/",))
    assert not reads(ruleset, path)
    assert not writes(ruleset, path)


def test_scratch_folders_come_when_they_are_named() -> None:
    """A grant of a folder in /tmp is an ordinary grant."""
    ruleset = rules(write=("/tmp/mine",))
    assert writes(ruleset, "/tmp/mine/x")
    assert not reads(ruleset, "/tmp/other")


def test_control_sockets_need_unsafe() -> None:
    """A grant of the socket itself is not enough; ``unsafe`` is."""
    sock = "/run/docker.sock"
    assert not writes(rules(write=(sock,)), sock)
    assert writes(rules(unsafe=(sock,)), sock)
    procfs = rules(read=("/proc/self",), unsafe=("/proc/self",))
    assert reads(procfs, "/proc/self/maps")
    assert not writes(procfs, "/proc/self/mem")


@pytest.mark.parametrize("name", ["null", "zero", "full", "random", "urandom", "tty", "stdin"])
def test_harmless_devices_are_always_there(name: str) -> None:
    """Even a block that grants nothing leaves them."""
    ruleset = rules()
    decision = ruleset.decide(Request.write(f"/dev/{name}"))
    assert (decision.verdict, decision.layer) == ("allow", "builtin")
    assert reads(ruleset, "/dev/fd/1")
    assert not reads(ruleset, "/dev/mem")


def test_a_box_grants_its_private_folders() -> None:
    """In a box they are writable, the floor readable, under the layer ``box``."""
    boxed = BoxGrants(write=("/tmp", "/home/me"), read=("/usr/lib",))
    ruleset = rules(boxed, read=("/srv",))
    decision = ruleset.decide(Request.write("/tmp/x"))
    assert (decision.verdict, decision.layer) == ("allow", "box")
    assert writes(ruleset, "/home/me/.bashrc")
    assert reads(ruleset, "/usr/lib/x.so")
    assert not writes(ruleset, "/usr/lib/x.so")
    unboxed = rules(read=("/srv",))
    assert not writes(unboxed, "/tmp/x")
    assert not reads(unboxed, "/usr/lib/x.so")


def test_what_the_box_has_of_the_host_is_not_private() -> None:
    """A project below the private home is granted by policies alone: a layer that is silent
    about it closes it, one that grants around it opens it, and the home stays private."""
    boxed = BoxGrants(write=("/home/me",), read=("/home/me/p/.venv",), host=("/home/me/p/src",))
    closed = rules(boxed, read=("/srv",))
    assert not reads(closed, "/home/me/p/src/a")
    assert writes(closed, "/home/me/.cache/x") and reads(closed, "/home/me/p/.venv/bin/x")
    around = rules(boxed, read=("/home",))
    assert reads(around, "/home/me/p/src/a") and not writes(around, "/home/me/p/src/a")
    assert writes(around, "/home/me/.cache/x")
    guarded = rules(boxed, write=("/home",), protect=("/home/me/p",))
    assert reads(guarded, "/home/me/p/src/a") and not writes(guarded, "/home/me/p/src/a")
    same = rules(boxed, write=("/home/me/p/src",))
    assert writes(same, "/home/me/p/src/a")


def test_a_deny_holds_in_a_private_folder_too() -> None:
    """What the policy denies is denied, whose folder it may be."""
    ruleset = rules(BoxGrants(write=("/tmp",)), deny=("/tmp/x", "/tmp/**/*.key"))
    assert not writes(ruleset, "/tmp/x/y")
    assert not reads(ruleset, "/tmp/a.key")
    assert writes(ruleset, "/tmp/z")


def test_absent_empty_and_closed_differ() -> None:
    """Absent: no opinion. Empty: nothing. ``default: deny``: absent is nothing."""
    open_ = compile(Policy()).decide(Request.read("/etc/shadow"))
    assert (open_.verdict, open_.layer) == ("allow", "default")
    assert not reads(rules(), "/etc/hosts")
    closed = compile(Policy(default="deny")).decide(Request.read("/etc/hosts"))
    assert (closed.verdict, closed.rule, closed.layer) == ("deny", "$.default", "default")


@pytest.mark.parametrize("path", ["/a\0b", "", "relative", "~/x"])
def test_a_malformed_path_is_denied_whatever_the_policy(path: str) -> None:
    """NUL and relative paths have no meaning here."""
    for policy in (Policy(), Policy(fs=FsPolicy(read=("/",)))):
        assert compile(policy).decide(Request.read(path)).code == "request.malformed"


def test_a_path_beyond_the_cap_is_too_complex() -> None:
    """Longer than any system call takes: denied without analysis."""
    decision = compile(Policy()).decide(Request.read("/a" * 600_000))
    assert (decision.verdict, decision.code) == ("deny", "request.too_complex")
