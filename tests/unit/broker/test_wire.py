"""A brokered call as bytes: what is sent arrives, and nothing else is taken for a call."""

from __future__ import annotations

import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from axonkernel.broker import wire
from axonkernel.broker.wire import Call, Ended, Refused, Started, WireError

HEADER = struct.Struct("<4sII")
#: Any bytes but NUL, as words have them.
WORDS = st.binary(max_size=40).map(lambda raw: os.fsdecode(raw.replace(b"\0", b"")))
NAMES = WORDS.map(lambda word: os.fsdecode(os.fsencode(word).replace(b"=", b""))).filter(bool)
CALLS = st.builds(
    Call,
    argv=st.lists(WORDS, min_size=1, max_size=8).map(tuple),
    cwd=WORDS,
    env=st.dictionaries(NAMES, WORDS, max_size=8),
    program=WORDS,
    found=WORDS,
    policy=WORDS,
)
FIELDS = st.dictionaries(st.text(), st.text() | st.booleans(), max_size=4)


def decoded(data: bytes) -> tuple[Call, tuple[int, ...]]:
    """A call from what was sent."""
    length, opened = wire.call_header(data[: wire.CALL_HEADER_BYTES])
    assert length == len(data) - wire.CALL_HEADER_BYTES
    return wire.call_from(data[wire.CALL_HEADER_BYTES :]), opened


def body(*fields: bytes) -> bytes:
    """A body of NUL-terminated fields."""
    return b"".join(field + b"\0" for field in fields)


@given(CALLS, st.sets(st.sampled_from([0, 1, 2])))
def test_a_call_arrives_as_it_was_sent(call: Call, opened: set[int]) -> None:
    """Words of any bytes, empty ones too, come out as they went in."""
    assert decoded(wire.call_bytes(call, opened)) == (call, tuple(sorted(opened)))


@given(st.binary(max_size=200) | CALLS.map(lambda call: wire.call_bytes(call, ())[12:]), st.data())
def test_no_bytes_break_the_reader(raw: bytes, data: st.DataObject) -> None:
    """Any bytes are a call or a WireError, cut off anywhere as well."""
    cut = raw[: data.draw(st.integers(0, len(raw)))]
    try:
        call = wire.call_from(cut)
    except WireError:
        return
    assert call.argv and "\0" not in "".join((*call.argv, call.cwd, *call.env, *call.env.values()))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\0",
        body(b"p", b"f", b"/", b"1"),
        body(b"p", b"f", b"/", b"0", b"A=1"),
        body(b"p", b"f", b"/", b"2", b"git"),
        body(b"p", b"f", b"/", b"01", b"git"),
        body(b"p", b"f", b"/", b"+1", b"git"),
        body(b"p", b"f", b"/", b" 1", b"git"),
        body(b"p", b"f", b"/", "²".encode(), b"git", b"x"),
        body(b"p", b"f", b"/", b"-1", b"git"),
        body(b"p", b"f", b"/", b"100000", b"git"),
        body(b"p", b"f", b"/", b"1", b"git")[:-1],
        body(b"p", b"f", b"/", b"1", b"git") + b"x",
        body(b"p", b"f", b"/", b"10001", *[b"x"] * 10001),
        body(b"p", b"f", b"/", b"1", b"git", *[b"A=1"] * 10001),
        b"\0" * wire.MAX_CALL_BYTES,
    ],
)
def test_a_malformed_call_is_none(raw: bytes) -> None:
    """Counts that are no counts, or not right, and fields that do not end, are errors."""
    with pytest.raises(WireError):
        wire.call_from(raw)


def test_a_well_formed_call_written_by_hand_is_one() -> None:
    """The twin of the malformed ones; the first of two variables counts, no others do."""
    raw = body(b"/p", b"./p", b"/w", b"2", b"git", b"", b"A=1", b"A=2", b"=x", b"B", b"C==")
    assert wire.call_from(raw) == Call(("git", ""), "/w", {"A": "1", "C": "="}, "/p", "./p")


@pytest.mark.parametrize(
    "header",
    [
        HEADER.pack(b"AXB2", 20, 7),
        HEADER.pack(b"AXB1", 0, 7),
        HEADER.pack(b"AXB1", wire.MAX_CALL_BYTES + 1, 7),
        HEADER.pack(b"AXB1", 0xFFFFFFFF, 7),
        HEADER.pack(b"AXB1", 20, 8),
    ],
)
def test_a_wrong_head_is_no_call(header: bytes) -> None:
    """Another protocol, too much, or descriptors that do not exist, are seen at once."""
    with pytest.raises(WireError):
        wire.call_header(header)


def test_bounds_of_a_call() -> None:
    """Ten thousand words and one MiB are calls; one more of either is not."""
    words = Call(("x",) * wire.MAX_WORDS, "/", {})
    assert decoded(wire.call_bytes(words, ()))[0] == words
    for call in (
        Call(("x",) * (wire.MAX_WORDS + 1), "/", {}),
        Call((), "/", {}),
        Call(("x",), "/", {f"V{number}": "" for number in range(wire.MAX_WORDS + 1)}),
        Call(("x" * wire.MAX_CALL_BYTES,), "/", {}),
        Call(("a\0b",), "/", {}),
        Call(("a",), "/\0", {}),
        Call(("a",), "/", {"A=B": ""}),
        Call(("a",), "/", {"": ""}),
        Call(("\ud800",), "/", {}),
    ):
        with pytest.raises(WireError):
            wire.call_bytes(call, ())
    # program, found, cwd and the count are empty or one byte, each with its NUL.
    full = Call(("x" * (wire.MAX_CALL_BYTES - 7),), "/", {})
    assert decoded(wire.call_bytes(full, ()))[0] == full


@given(
    st.builds(Started)
    | st.builds(Refused, st.integers(0, 255), st.text(), FIELDS)
    | st.builds(Ended, st.integers(0, 255), st.just(0), st.text(), FIELDS)
    | st.builds(Ended, st.just(0), st.integers(1, 64), st.text(), FIELDS)
)
def test_a_reply_arrives_on_one_line(reply: wire.Reply) -> None:
    """Kind, value and fields come out as they went in, the text without line ends."""
    data = wire.reply_bytes(reply)
    kind, value, length = wire.reply_header(data[: wire.REPLY_HEADER_BYTES])
    raw = data[wire.REPLY_HEADER_BYTES :]
    assert length == len(raw) <= wire.MAX_REPLY_BYTES
    got = wire.reply_from(kind, value, raw)
    if isinstance(reply, Started):
        assert isinstance(got, Started)
        return
    assert not isinstance(got, Started)
    assert "\n" not in got.text and "\0" not in got.text
    assert got._replace(text="") == reply._replace(text="")


def test_a_reply_is_bounded() -> None:
    """A long text is cut, and fields that are too many go: no reader waits for more."""
    long = Refused(126, "x" * 10**6, {"action": "y" * 10**6})
    data = wire.reply_bytes(long)
    assert len(data) <= wire.REPLY_HEADER_BYTES + wire.MAX_REPLY_BYTES
    kind, value, _ = wire.reply_header(data[: wire.REPLY_HEADER_BYTES])
    got = wire.reply_from(kind, value, data[wire.REPLY_HEADER_BYTES :])
    assert isinstance(got, Refused) and got.code == 126
    assert got.text.startswith("xxx") and not got.fields


@pytest.mark.parametrize(
    "header", [b"?\0\0\0" + bytes(4), b"E\0\1\0" + bytes(4), b"E\0\0\0\xff\xff\xff\xff"]
)
def test_a_wrong_reply_is_none(header: bytes) -> None:
    """A supervisor that is none is not believed."""
    with pytest.raises(WireError):
        wire.reply_header(header)


@pytest.mark.parametrize("raw", [b"text\0{", b"text\0[1]", b"\0" + b"[" * 5000])
def test_fields_of_a_reply_are_an_object(raw: bytes) -> None:
    """JSON that is no object, or none, is an error."""
    with pytest.raises(WireError):
        wire.reply_from("R", 126, raw)
