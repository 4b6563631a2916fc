"""One brokered call and its replies as bytes. Pure; the far side of a call is not trusted.

A call is one connection. The shim (box/shim/shim.c, a C program without a library, hence no
JSON on its way) sends one call and its open standard descriptors; then, once the program runs,
one byte per signal. The supervisor sends ``started`` when the program runs and one outcome, and
hangs up. A descriptor is a pipe, a socket, a terminal or the likes of /dev/null: for a file the
shim gives a pipe and copies (box/shim/streams.h says why)::

    call     "AXB1"  u32 length  u32 which of 0, 1, 2 are open   body
    body     program NUL  found NUL  cwd NUL  number of words NUL  words...  variables...
             each NUL-terminated; a variable is NAME=VALUE, and the first that begins as
             _POLICY does is what holds for this call as well
    reply    u8 kind  u8 value  u16 0  u32 length   text NUL JSON

All numbers are little-endian. Nobody can send more than is named here: a longer length, an odd
byte or a missing one is an error, and the reader hangs up.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

__all__ = [
    "BROKER_SOCKET",
    "CALL_HEADER_BYTES",
    "DENIED",
    "LOST",
    "MAX_CALL_BYTES",
    "MAX_REPLY_BYTES",
    "MAX_WORDS",
    "RELAYED",
    "REPLY_HEADER_BYTES",
    "Call",
    "Ended",
    "Refused",
    "Started",
    "WireError",
    "call_bytes",
    "call_from",
    "call_header",
    "reply_bytes",
    "reply_from",
    "reply_header",
]

#: Where a box has the socket; box/shim/shim.c and box/brokered.py have the same.
BROKER_SOCKET = "/run/axonkernel/broker/socket"

#: Words, variables, paths and all; a policy judges no more than this either.
MAX_CALL_BYTES = 1 << 20
#: Of words, and again of variables.
MAX_WORDS = 10_000
MAX_REPLY_BYTES = 1 << 16

#: HUP INT QUIT USR1 USR2 TERM CONT TSTP WINCH, whose numbers are the same on every processor
#: that has a shim.
RELAYED = frozenset((1, 2, 3, 10, 12, 15, 18, 20, 28))

#: Exit statuses of a shim whose call was refused, or could not be made.
DENIED, LOST = 126, 125

_CALL = struct.Struct("<4sII")
_REPLY = struct.Struct("<BBHI")
_MAGIC = b"AXB1"
#: No variable: it has no name.
_POLICY = "=axonkernel policy="
CALL_HEADER_BYTES = _CALL.size
REPLY_HEADER_BYTES = _REPLY.size


class WireError(ValueError):
    """These bytes are no call, or no reply."""


class Call(NamedTuple):
    """One call as its caller describes it; every word of it may be a lie.

    Arguments:
        argv: as the program was invoked; argv[0] is the caller's to choose.
        cwd: the working directory; "" when it has none that can be named.
        env: the caller's whole environment; of two variables with one name the first counts,
            as for getenv(3).
        program: the path that the kernel started the shim from, links resolved.
        found: the path that the caller gave the kernel for it, as it gave it.
        policy: what holds for this call as well (narrowed.py); "" for nothing.
    """

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    program: str = ""
    found: str = ""
    policy: str = ""


class Started(NamedTuple):
    """The program runs: from now on signals are relayed."""


class Refused(NamedTuple):
    """The call did not run.

    Arguments:
        code: exit status of the shim, 126 for a denial.
        text: one line for the caller, without the program's name in front.
        fields: JSON data from which a caller in Python makes the typed denial.
    """

    code: int
    text: str
    fields: Mapping[str, Any] = {}


class Ended(NamedTuple):
    """The program ran and ended.

    Arguments:
        status: its exit status; 0 where a signal ended it.
        signal: the number of that signal, or 0.
        text: one line for the caller, such as which limit ended it; "" for none.
        fields: JSON data, as for :class:`Refused`.
    """

    status: int = 0
    signal: int = 0
    text: str = ""
    fields: Mapping[str, Any] = {}


Reply = Started | Refused | Ended


def call_bytes(call: Call, opened: Iterable[int]) -> bytes:
    """A call, header included.

    Arguments:
        opened: which of 0, 1 and 2 are open; their descriptors go along in that order.

    Raises WireError for a call that is over a limit or has a NUL in it.
    """
    variables = [_POLICY + call.policy] * bool(call.policy)
    variables += [f"{name}={value}" for name, value in call.env.items()]
    fields = (call.program, call.found, call.cwd, f"{len(call.argv)}", *call.argv, *variables)
    if not 0 < len(call.argv) <= MAX_WORDS or len(variables) > MAX_WORDS:
        raise WireError(f"{len(call.argv)} words and {len(variables)} variables")
    if any("\0" in field for field in fields) or any(not name or "=" in name for name in call.env):
        raise WireError("a NUL in a word, or a variable without a proper name")
    body = b"".join(_raw(field) + b"\0" for field in fields)
    if len(body) > MAX_CALL_BYTES:
        raise WireError(f"a call of {len(body)} bytes")
    return _CALL.pack(_MAGIC, len(body), sum(1 << fd for fd in set(opened))) + body


def call_header(header: bytes) -> tuple[int, tuple[int, ...]]:
    """(bytes of the body, which of 0, 1 and 2 are open) from the head of a call.

    Raises WireError.
    """
    magic, length, mask = _CALL.unpack(header)
    if magic != _MAGIC or not 0 < length <= MAX_CALL_BYTES or mask > 7:
        raise WireError(f"no call: {header!r}")
    return length, tuple(fd for fd in (0, 1, 2) if mask >> fd & 1)


def call_from(body: bytes) -> Call:
    """A call from its body. Raises WireError."""
    if body.count(b"\0") > 2 * MAX_WORDS + 4:
        raise WireError("too many words")
    *fields, rest = body.split(b"\0")
    if rest or len(fields) < 5:
        raise WireError("cut off")
    program, found, cwd, count = (_text(field) for field in fields[:4])
    if not (count.isascii() and count.isdecimal()) or count.startswith("0") or len(count) > 5:
        raise WireError(f"{count!r} words")
    words = int(count)
    argv, variables = fields[4 : 4 + words], fields[4 + words :]
    if len(argv) < words or words > MAX_WORDS or len(variables) > MAX_WORDS:
        raise WireError(f"{len(argv)} of {words} words, {len(variables)} variables")
    texts = (_text(each) for each in variables)
    policy = next((each for each in texts if each.startswith(_POLICY)), "")
    env = _environment(variables)
    return Call(tuple(map(_text, argv)), cwd, env, program, found, policy.removeprefix(_POLICY))


def _environment(variables: Iterable[bytes]) -> dict[str, str]:
    env: dict[str, str] = {}
    for variable in variables:
        name, equals, value = variable.partition(b"=")
        if name and equals:  # what is not a variable is not one for getenv(3) either
            env.setdefault(_text(name), _text(value))
    return env


def reply_bytes(reply: Reply) -> bytes:
    """A reply, header included. A text that is too long is cut, fields that are go away."""
    match reply:
        case Started():
            return _REPLY.pack(ord("S"), 0, 0, 0)
        case Refused(code, text, fields):
            return _told("R", code, text, fields)
        case Ended(_, signal, text, fields) if signal:
            return _told("K", signal, text, fields)
        case Ended(status, _, text, fields):
            return _told("E", status, text, fields)


def _told(kind: str, value: int, text: str, fields: Mapping[str, Any]) -> bytes:
    line = " ".join(text.replace("\0", " ").split())
    start = line.encode("utf-8", "backslashreplace")[: MAX_REPLY_BYTES // 4] + b"\0"
    data = json.dumps(dict(fields)).encode() if fields else b""
    if len(start) + len(data) > MAX_REPLY_BYTES:
        data = b""
    return _REPLY.pack(ord(kind), value & 0xFF, 0, len(start) + len(data)) + start + data


def reply_header(header: bytes) -> tuple[str, int, int]:
    """(kind, value, bytes of the body) from the head of a reply. Raises WireError."""
    kind, value, zero, length = _REPLY.unpack(header)
    if chr(kind) not in "SREK" or zero or length > MAX_REPLY_BYTES:
        raise WireError(f"no reply: {header!r}")
    return chr(kind), value, length


def reply_from(kind: str, value: int, body: bytes) -> Reply:
    """A reply from its parts. Raises WireError."""
    if kind == "S":
        return Started()
    text, _, data = body.partition(b"\0")
    try:
        fields = json.loads(data) if data else {}
    except (ValueError, RecursionError) as error:
        raise WireError(f"not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise WireError("not a JSON object")
    match kind:
        case "R":
            return Refused(value, _text(text), fields)
        case "K":
            return Ended(0, value, _text(text), fields)
        case _:
            return Ended(value, 0, _text(text), fields)


def _raw(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise WireError(f"not text that bytes stand for: {error.reason}") from error


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
