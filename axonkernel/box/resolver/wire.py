"""DNS messages, as far as a box's resolver reads and writes them (pure): RFC 1035, 6891, 9460.

By hand, because a library takes longer to load than a box to start, and more memory than all
else of it. Nothing of an answer is passed on as it came: what is understood is written anew.
"""

from __future__ import annotations

import _socket
import re
import struct
from collections.abc import Iterable

from axonkernel.typed import NamedTuple

__all__ = [
    "AAAA",
    "ANY",
    "CNAME",
    "FORMERR",
    "HTTPS",
    "NOERROR",
    "NOTIMP",
    "NXDOMAIN",
    "PTR",
    "REFUSED",
    "SERVFAIL",
    "SVCB",
    "A",
    "Answer",
    "Malformed",
    "Question",
    "Record",
    "ask",
    "kind_text",
    "packed_name",
    "read_answer",
    "read_question",
    "write_answer",
]

A, CNAME, PTR, AAAA, OPT, SVCB, HTTPS, ANY = 1, 5, 12, 28, 41, 64, 65, 255
NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED = range(6)
_KINDS = {
    1: "A", 2: "NS", 5: "CNAME", 6: "SOA", 10: "NULL", 12: "PTR", 15: "MX", 16: "TXT",
    28: "AAAA", 33: "SRV", 64: "SVCB", 65: "HTTPS", 255: "ANY",
}  # fmt: skip

_IN = 1
_QR, _TC, _RD, _RA, _CD = 0x8000, 0x0200, 0x0100, 0x0080, 0x0010
_HEADER = struct.Struct("!6H")
_FIXED = struct.Struct("!HHIH")
_OWNER = struct.pack("!H", 0xC00C)  # the name of the question
#: What fits into one datagram: without EDNS, for us, and for a host's resolver on its way here.
_PLAIN_BYTES, _MOST_BYTES, _UPSTREAM_BYTES = 512, 4096, 1232
_NAME_BYTES, _LABEL_BYTES = 255, 63
_MOST_RECORDS = 512
_ORDINARY = re.compile(rb"[A-Za-z0-9_-]+\Z")
#: Extended error of RFC 8914: refused by a policy of whoever runs the resolver.
_BLOCKED = 15
_EXTENDED_ERROR = 15


class Malformed(Exception):
    """These bytes are no message that could be answered, or used as an answer."""


class Question(NamedTuple):
    """What is asked.

    Arguments:
        name: in lower case and without the last dot; other characters than those of host names
            as ``\\DDD``.
        kind, klass: numbers of the type and the class.
        asked: the question as it came, whose spelling the answer keeps.
        edns: whether the asker knows EDNS.
        most_bytes: the longest datagram it takes.
        opcode: 0 for a question of the usual kind.
    """

    id: int
    name: str
    kind: int
    klass: int
    asked: bytes
    recursive: bool = True
    edns: bool = False
    most_bytes: int = _PLAIN_BYTES
    opcode: int = 0


class Record(NamedTuple):
    """One record: an address or a name as text, anything else as bytes without compression."""

    name: str
    kind: int
    ttl_s: int
    value: str | bytes


class Answer(NamedTuple):
    """What a host's resolver said, of the kinds that are understood."""

    id: int
    rcode: int
    truncated: bool
    name: str
    kind: int
    records: tuple[Record, ...]
    raw: bytes = b""


def kind_text(kind: int) -> str:
    """How a type is written."""
    return _KINDS.get(kind, f"TYPE{kind}")


# -- reading ----------------------------------------------------------------------------------


def read_question(data: bytes) -> Question:
    """The question of a message from the box. Raises Malformed."""
    try:
        id, flags, questions, answers, authorities, additional = _HEADER.unpack_from(data)
        if flags & _QR:
            raise Malformed("an answer")
        opcode = flags >> 11 & 15
        if opcode or questions != 1 or answers or authorities:
            return Question(id, "", 0, 0, b"", opcode=opcode)
        name, end = _name(data, _HEADER.size, follow=False)
        kind, klass = struct.unpack_from("!HH", data, end)
        asked = data[_HEADER.size : end + 4]
        question = Question(id, name, kind, klass, asked, bool(flags & _RD))
        if (size := _edns_bytes(data, end + 4, additional)) is None:
            return question
        size = min(max(size, _PLAIN_BYTES), _MOST_BYTES)
        return question._replace(edns=True, most_bytes=size)
    except struct.error:
        raise Malformed("too short") from None


def _edns_bytes(data: bytes, at: int, count: int) -> int | None:
    """The size that an OPT record tells, if there is one."""
    for _ in range(min(count, 8)):
        _, at = _name(data, at, follow=False)
        kind, klass, _, length = _FIXED.unpack_from(data, at)
        at += _FIXED.size + length
        if kind == OPT:
            return int(klass)
    return None


def read_answer(data: bytes) -> Answer:
    """What a host's resolver answered. Raises Malformed."""
    try:
        id, flags, questions, answers, _, _ = _HEADER.unpack_from(data)
        if not flags & _QR or questions != 1:
            raise Malformed("no answer to one question")
        name, at = _name(data, _HEADER.size)
        kind, _ = struct.unpack_from("!HH", data, at)
        records = []
        truncated = bool(flags & _TC)
        at += 4
        for _ in range(0 if truncated else min(answers, _MOST_RECORDS)):
            record, at = _record(data, at)
            if record is not None:
                records.append(record)
        return Answer(id, flags & 15, truncated, name, kind, tuple(records), data)
    except struct.error:
        raise Malformed("too short") from None


def _record(data: bytes, at: int) -> tuple[Record | None, int]:
    name, at = _name(data, at)
    kind, klass, ttl_s, length = _FIXED.unpack_from(data, at)
    at += _FIXED.size
    end = at + length
    if end > len(data):
        raise Malformed("a record goes beyond the end")
    value = _value(data, at, end, kind) if klass == _IN else None
    if value is None:
        return None, end
    return Record(name, kind, ttl_s if ttl_s < 1 << 31 else 0, value), end


def _value(data: bytes, at: int, end: int, kind: int) -> str | bytes | None:
    if kind in (A, AAAA):
        family, size = (_socket.AF_INET, 4) if kind == A else (_socket.AF_INET6, 16)
        if end - at != size:
            raise Malformed("an address of another length")
        return _socket.inet_ntop(family, data[at:end])
    if kind in (CNAME, PTR):
        name, after = _name(data, at)
        if after != end:
            raise Malformed("a name of another length")
        return name
    return data[at:end] if kind in (SVCB, HTTPS) else None


def _name(data: bytes, at: int, *, follow: bool = True) -> tuple[str, int]:
    """The name at a place, and where what follows it begins."""
    labels: list[str] = []
    length, after = 1, -1
    while size := _byte(data, at):
        if size >= 0xC0 and follow:
            after = at + 2 if after < 0 else after
            target = (size & 0x3F) << 8 | _byte(data, at + 1)
            if target >= at:  # each leads back, so that there is an end
                raise Malformed("a pointer that leads on")
            at = target
            continue
        length += size + 1
        if size > _LABEL_BYTES or length > _NAME_BYTES:
            raise Malformed("a label or a name is too long")
        label = data[at + 1 : at + 1 + size]
        if len(label) < size:
            raise Malformed("a label goes beyond the end")
        labels.append(_label(label))
        at += size + 1
    return ".".join(labels), at + 1 if after < 0 else after


def _byte(data: bytes, at: int) -> int:
    if at >= len(data):
        raise Malformed("a name goes beyond the end")
    return data[at]


def _label(label: bytes) -> str:
    if _ORDINARY.match(label):
        return label.decode("ascii").lower()
    return "".join(
        chr(byte).lower() if _ORDINARY.match(bytes((byte,))) else f"\\{byte:03}" for byte in label
    )


# -- writing ----------------------------------------------------------------------------------


def packed_name(name: str) -> bytes:
    """An ordinary name on the wire. Raises ValueError for one that is not."""
    parts = [label.encode("ascii") for label in name.split(".")] if name else []
    if not all(_ORDINARY.match(part) and len(part) <= _LABEL_BYTES for part in parts):
        raise ValueError(f"{name!r} is not a host name")
    packed = b"".join(bytes((len(part),)) + part for part in parts) + b"\0"
    if len(packed) > _NAME_BYTES:
        raise ValueError(f"{name!r} is too long")
    return packed


def ask(id: int, name: str, kind: int) -> bytes:
    """A question to a host's resolver."""
    header = _HEADER.pack(id, _RD, 1, 0, 0, 1)
    edns = b"\0" + _FIXED.pack(OPT, _UPSTREAM_BYTES, 0, 0)
    return header + packed_name(name) + struct.pack("!HH", kind, _IN) + edns


def write_answer(
    question: Question,
    rcode: int,
    records: Iterable[Record] = (),
    *,
    blocked: bool = False,
    stream: bool = False,
) -> bytes:
    """The answer to a question of the box; without its records and marked where it is too long.

    Arguments:
        records: the first is about the name of the question, each about that name or about the
            one that a CNAME before it leads to.
        blocked: say that it is a policy that says so.
        stream: it goes by TCP, which takes any length.
    """
    body = bytearray(question.asked)
    count, edns = 0, b""
    owners = {question.name: _OWNER}
    for count, record in enumerate(records, 1):  # noqa: B007
        value = _written(record)
        body += owners.get(record.name) or packed_name(record.name)
        body += _FIXED.pack(record.kind, _IN, record.ttl_s, len(value))
        at = _HEADER.size + len(body)
        if record.kind == CNAME and at < 0x4000:
            owners.setdefault(str(record.value), struct.pack("!H", 0xC000 | at))
        body += value
    if question.edns:
        option = struct.pack("!HHH", _EXTENDED_ERROR, 2, _BLOCKED) if blocked else b""
        edns = b"\0" + _FIXED.pack(OPT, _MOST_BYTES, 0, len(option)) + option
    flags = _QR | _RA | rcode | (_RD if question.recursive else 0) | question.opcode << 11
    if not stream and _HEADER.size + len(body) + len(edns) > question.most_bytes:
        body, count, flags = bytearray(question.asked), 0, flags | _TC
    header = _HEADER.pack(question.id, flags, int(bool(question.asked)), count, 0, bool(edns))
    return header + bytes(body) + edns


def _written(record: Record) -> bytes:
    if record.kind in (A, AAAA):
        family = _socket.AF_INET if record.kind == A else _socket.AF_INET6
        return _socket.inet_pton(family, str(record.value))
    if isinstance(record.value, bytes):
        return record.value
    return packed_name(record.value)
