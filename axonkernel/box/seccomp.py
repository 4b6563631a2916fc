"""The rules of syscalls.py -> a seccomp filter, as the raw BPF that bwrap reads.

Everything not named there is allowed. Of foreign ABIs (i386 and x32 programs) every call is
ENOSYS: their numbers and arguments mean other things, and every rule would need a twin.
Standard library only; pyseccomp (libseccomp) is imported when a filter is really compiled.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator
from typing import Any, Literal

from axonkernel.box.programs import install
from axonkernel.box.syscalls import NEWEST, NUMBERS, RULES, Check, Rule
from axonkernel.errors import BoxError, IsolationUnavailable

__all__ = ["filter_bytes", "rules"]

#: Where the numbers and argument positions of the rules were checked.
_MACHINES = ("x86_64", "aarch64", "riscv64")
_compiled: dict[tuple[bool, str, bool, bool, bool], bytes] = {}


def filter_bytes(
    *,
    nested_userns: bool,
    unix: Literal["box", "none"],
    inet: bool = True,
    noexec: bool = False,
    boxed: bool = True,
) -> bytes:
    """The filter of a box; the same bytes for the same arguments on one machine.

    Arguments:
        nested_userns: programs inside may make namespaces (browsers that sandbox themselves).
        unix: ``none`` denies unix sockets, except connected pairs.
        inet: False denies IPv4 and IPv6 sockets, where no network namespace holds them.
        noexec: memory that is a file cannot be executed, as written files cannot.
        boxed: False denies what reaches other processes, where no namespace hides them.

    Raises IsolationUnavailable when libseccomp or pyseccomp is missing, BoxError (stage
    ``seccomp``) when the filter cannot be compiled.
    """
    key = (nested_userns, unix, inet, noexec, boxed)
    if key not in _compiled:
        there = rules(nested_userns=nested_userns, unix=unix, inet=inet, noexec=noexec, boxed=boxed)
        _compiled[key] = _compile(list(there))
    return _compiled[key]


def rules(
    *,
    nested_userns: bool,
    unix: Literal["box", "none"],
    inet: bool = True,
    noexec: bool = False,
    boxed: bool = True,
) -> Iterator[Rule]:
    """The rules that hold in a box with these settings."""
    lifted = {
        "userns": nested_userns,
        "unix": unix == "box",
        "inet": inet,
        "exec": not noexec,
        "box": boxed,
        "": False,
    }
    return (rule for rule in RULES if not lifted[rule.unless])


def _compile(wanted: list[Rule]) -> bytes:
    seccomp = _library()
    code = seccomp.SyscallFilter(seccomp.ALLOW)
    code.set_attr(seccomp.Attr.ACT_BADARCH, seccomp.ERRNO(errno.ENOSYS))
    for rule in wanted:
        arguments = [_argument(seccomp, check) for check in rule.checks]
        for call in rule.calls:
            number = _number(seccomp, call)
            if number >= 0:
                code.add_rule(seccomp.ERRNO(rule.error), number, *arguments)
    with open(os.memfd_create("filter", os.MFD_CLOEXEC), "r+b", buffering=0) as file:
        code.export_bpf(file)
        file.seek(0)
        return _newer_are_missing() + file.read()


def _library() -> Any:
    if os.uname().machine not in _MACHINES:
        missing = f"seccomp rules for {os.uname().machine}"
        raise IsolationUnavailable("isolation", missing, f"use one of {', '.join(_MACHINES)}")
    try:
        import pyseccomp
    except ImportError:
        raise IsolationUnavailable("isolation", "pyseccomp", "pip install pyseccomp") from None
    except (RuntimeError, OSError):
        raise IsolationUnavailable("isolation", "libseccomp", install("libseccomp2")) from None
    return pyseccomp


def _number(seccomp: Any, call: str) -> int:
    """The number of a call; below -1 when this processor has none of that name."""
    number = seccomp.resolve_syscall(seccomp.Arch.NATIVE, call)
    number = NUMBERS.get(call, -1) if number == -1 else number
    if number == -1:
        raise BoxError("seccomp", f"libseccomp does not know {call}; install a newer one")
    return int(number)


def _argument(seccomp: Any, check: Check) -> Any:
    match check.op:
        case "has":
            return seccomp.Arg(check.argument, seccomp.MASKED_EQ, check.value, check.value)
        case "is":
            return seccomp.Arg(check.argument, seccomp.MASKED_EQ, 0xFFFFFFFF, check.value)
        case "low4":
            return seccomp.Arg(check.argument, seccomp.MASKED_EQ, 0xF, check.value)
        case "not":
            return seccomp.Arg(check.argument, seccomp.NE, check.value)
        case "lacks":
            return seccomp.Arg(check.argument, seccomp.MASKED_EQ, check.value, 0)
        case "above":
            return seccomp.Arg(check.argument, seccomp.GT, check.value)


_LOAD_WORD, _JUMP_IF_AT_LEAST, _RETURN = 0x20, 0x35, 0x06
_RET_ERRNO = 0x00050000


def _newer_are_missing() -> bytes:
    """Three instructions in front: numbers above NEWEST, x32 among them, are ENOSYS.

    libseccomp compares arguments, not numbers, so this cannot be one of its rules.
    """
    instructions = (
        (_LOAD_WORD, 0, 0, 0),
        (_JUMP_IF_AT_LEAST, 0, 1, NEWEST + 1),
        (_RETURN, 0, 0, _RET_ERRNO | errno.ENOSYS),
    )
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
