"""The seccomp filter as a value: an interpreter of its BPF asks it about every kind of call."""

from __future__ import annotations

import errno
import os
import struct
import sys
from typing import Literal

import pyseccomp  # its absence is a failure, never a skip: the filter is a wall
import pytest
from hypothesis import given
from hypothesis import strategies as st

from axonkernel.box import seccomp
from axonkernel.box.syscalls import NEWEST, RULES
from axonkernel.errors import BoxError, IsolationUnavailable

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86_64 call numbers")

X86_64, I386 = 0xC000003E, 0x40000003
ALLOW, KILL = 0x7FFF0000, 0x80000000


def bpf(code: bytes, number: int, arguments: tuple[int, ...], arch: int = X86_64) -> int:
    """What the filter returns for a call (classic BPF, the part that seccomp uses)."""
    padded = [value & (2**64 - 1) for value in (*arguments, 0, 0, 0, 0, 0, 0)][:6]
    data = struct.pack("=IIQ6Q", number & (2**32 - 1), arch, 0, *padded)
    program = list(struct.iter_unpack("=HBBI", code))
    at = accumulator = 0
    while True:
        operation, if_true, if_false, k = program[at]
        at += 1
        match operation:
            case 0x20:
                (accumulator,) = struct.unpack_from("=I", data, k)
            case 0x54:
                accumulator &= k
            case 0x05:
                at += k
            case 0x15:
                at += if_true if accumulator == k else if_false
            case 0x25:
                at += if_true if accumulator > k else if_false
            case 0x35:
                at += if_true if accumulator >= k else if_false
            case 0x06:
                return int(k)
            case _:
                raise AssertionError(f"unknown instruction {operation:#x}")


def number(call: str) -> int:
    return int(seccomp._number(pyseccomp, call))


def answer(
    call: str | int,
    *arguments: int,
    nested: bool = False,
    unix: Literal["box", "none"] = "box",
    inet: bool = True,
    arch: int = X86_64,
) -> str:
    code = seccomp.filter_bytes(nested_userns=nested, unix=unix, inet=inet)
    at = call if isinstance(call, int) else number(call)
    verdict = bpf(code, at, arguments, arch)
    if verdict in (ALLOW, KILL):
        return "allow" if verdict == ALLOW else "kill"
    return errno.errorcode[verdict - 0x00050000]


DENIED = [
    *(
        ("EPERM", (call,))
        for call in ("ptrace", "process_vm_readv", "pidfd_getfd", "bpf", "keyctl")
    ),
    *(("EPERM", (call,)) for call in ("add_key", "userfaultfd", "perf_event_open", "swapon")),
    *(("EPERM", (call,)) for call in ("kexec_load", "init_module", "finit_module", "reboot")),
    *(("EPERM", (call,)) for call in ("mount", "umount2", "pivot_root", "setns", "iopl")),
    *(("ENOSYS", (call,)) for call in ("io_uring_setup", "openat2", "clone3", "fsopen")),
    *(("ENOSYS", (call,)) for call in ("open_tree_attr", "mount_setattr", "move_mount")),
    *(("EPERM", ("unshare", flag)) for flag in (0x10000000, 0x40000000, 0x20000, 0x80)),
    ("EPERM", ("clone", 0x10000000 | 17)),
    ("EPERM", ("ioctl", 0, 0x5412)),
    ("EPERM", ("ioctl", 0, 0x541C)),
    *(("EAFNOSUPPORT", ("socket", family, 1, 0)) for family in (0, 3, 4, 9, 17, 31, 38, 40, 45)),
    ("EAFNOSUPPORT", ("socket", -1, 1, 0)),
    ("EPROTONOSUPPORT", ("socket", 16, 3, 9)),
    ("EAFNOSUPPORT", ("socketpair", 30, 1, 0)),
    *(("EPERM", ("chmod", 0, mode)) for mode in (0o4755, 0o2755, 0o6000)),
    *(("EPERM", (call, 0, 0, 0o4755)) for call in ("fchmodat", "fchmodat2", "mknodat")),
    *(("EPERM", (call, 0, 0o2700)) for call in ("fchmod", "creat", "mknod")),
    ("EPERM", ("open", 0, 0o101, 0o4755)),
    ("EPERM", ("openat", 0, 0, 0o101, 0o2755)),
    ("EPERM", ("openat", 0, 0, 0o20200002, 0o4700)),
]
ALLOWED = [
    *((call,) for call in ("read", "write", "execve", "fork", "getpid", "mmap", "futex", "prctl")),
    *((call,) for call in ("landlock_create_ruleset", "seccomp", "memfd_create", "wait4")),
    ("clone", 17),
    ("clone", 0x003D0F00),  # a thread
    ("unshare", 0x400),  # own descriptor table
    ("clone", 0x80),  # an exit signal, not a namespace
    ("ioctl", 0, 0x5413),
    *(("socket", family, 1, 0) for family in (1, 2, 10)),
    ("socket", 16, 3, 0),
    ("socketpair", 1, 2, 0),
    ("chmod", 0, 0o1777),
    ("mkdir", 0, 0o2755),  # the kernel drops the bit
    ("open", 0, 0o101, 0o644),
    ("open", 0, 0, 0o4755),  # nothing is made: the mode is noise
    ("openat", 0, 0, 0o2, -1),
    ("fchmodat2", 0, 0, 0o755),
]


@pytest.mark.parametrize(("expected", "call"), DENIED, ids=str)
def test_is_denied(expected: str, call: tuple[str | int, ...]) -> None:
    """Each denied call, with the errno that programs know how to take."""
    assert answer(str(call[0]), *map(int, call[1:])) == expected


@pytest.mark.parametrize("call", ALLOWED, ids=str)
def test_is_allowed(call: tuple[str | int, ...]) -> None:
    """The positive twins: the same calls with harmless arguments, and ordinary ones."""
    assert answer(str(call[0]), *map(int, call[1:])) == "allow"


def test_what_a_newer_kernel_adds_is_missing() -> None:
    """Numbers after the newest judged one are ENOSYS; the newest itself is as the rules say."""
    assert answer(NEWEST) == "allow"
    assert [answer(NEWEST + n) for n in (1, 2, 500)] == ["ENOSYS"] * 3


@pytest.mark.parametrize("call", [0, 39, 120, 165, NEWEST + 1])
def test_foreign_abis_are_missing(call: int) -> None:
    """i386 (its own numbers) and x32 (the same with a bit set) never get past the filter."""
    assert answer(0x40000000 | call) == "ENOSYS"
    assert answer(call, arch=I386) == "ENOSYS"


def test_nested_namespaces_only_where_they_are_permitted() -> None:
    """``box.nested_userns`` lifts the namespace rules and no other."""
    for call in (
        ("unshare", 0x10000000),
        ("clone", 0x10000000),
        ("clone3",),
        ("setns",),
        ("mount",),
    ):
        assert answer(str(call[0]), *map(int, call[1:]), nested=True) == "allow"
    assert answer("ptrace", nested=True) == "EPERM"
    assert answer("fsopen", nested=True) == "ENOSYS"


def test_unix_none_keeps_connected_pairs_only() -> None:
    """No unix socket can be made; a stream pair can (asyncio), a datagram pair cannot: it
    could be sent anywhere."""
    assert answer("socket", 1, 1, 0, unix="none") == "EPERM"
    assert answer("socketpair", 1, 0o2000001, 0, unix="none") == "allow"
    assert answer("socketpair", 1, 0o2000002, 0, unix="none") == "EPERM"
    assert answer("socketpair", 1, 3, 0, unix="none") == "EPERM"
    assert answer("socket", 2, 1, 0, unix="none") == "allow"


def test_without_inet_no_socket_of_the_network_is_made() -> None:
    """IPv4 and IPv6 of every type, for places no network namespace walls; unix stays."""
    for family in (2, 10):
        for kind in (1, 2, 3):
            assert answer("socket", family, kind, 0, inet=False) == "EACCES"
        assert answer("socket", family, 1, 0) == "allow"
    assert answer("socket", 1, 1, 0, inet=False) == "allow"


@given(st.integers(1, 2**32 - 1), st.sampled_from([("ioctl", 1, 0x5412), ("socket", 0, 40)]))
def test_high_bits_the_kernel_ignores_do_not_dodge_a_rule(
    high: int, call: tuple[str, int, int]
) -> None:
    """The kernel reads 32 bits of these arguments, so garbage above them changes nothing."""
    name, index, value = call
    arguments = [0] * 6
    arguments[index] = high << 32 | value
    assert answer(name, *arguments) != "allow"


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_any_socket_that_passes_is_of_a_walled_family(
    family: int, kind: int, protocol: int
) -> None:
    """Whatever the registers hold, only unix, IPv4, IPv6 and route netlink come through."""
    if answer("socket", family, kind, protocol) == "allow":
        assert family & 0xFFFFFFFF in (1, 2, 10, 16)
        assert family != 16 or protocol == 0


def test_every_rule_has_a_reason_and_the_filter_is_the_same_twice() -> None:
    """The data is complete, and compiling is deterministic (plans are cached by content)."""
    assert all(rule.why and rule.calls for rule in RULES)
    first = seccomp.filter_bytes(nested_userns=False, unix="box")
    seccomp._compiled.clear()
    assert seccomp.filter_bytes(nested_userns=False, unix="box") == first


@pytest.mark.parametrize("error", [ImportError("no module"), RuntimeError("no libseccomp")])
def test_a_missing_library_names_its_package(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without libseccomp there is no filter, and the message says which package brings it."""

    class Refusing:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "pyseccomp":
                raise error

    monkeypatch.delitem(sys.modules, "pyseccomp")
    monkeypatch.setattr(sys, "meta_path", [Refusing(), *sys.meta_path])
    monkeypatch.setattr(seccomp, "_compiled", {})
    with pytest.raises(IsolationUnavailable) as caught:
        seccomp.filter_bytes(nested_userns=False, unix="box")
    assert caught.value.fix.split()[-1] in ("pyseccomp", "libseccomp2")


def test_an_unknown_call_stops_the_launch() -> None:
    """A rule that cannot be compiled is never left out in silence."""
    with pytest.raises(BoxError, match="libseccomp does not know frobnicate"):
        seccomp._number(pyseccomp, "frobnicate")
