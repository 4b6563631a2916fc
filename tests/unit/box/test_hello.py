"""The server name of a ClientHello, as servers read it or not at all."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axonkernel.box.resolver.hello import HELLO_BYTES, RAW_BYTES, Hello, HelloReader
from unit.box.hellos import GREASE, extension, hello, real, records, server_name

MALFORMED = Hello("malformed")
NAMED = Hello("name", "api.test")
PADDING, KEY_SHARE = 21, 51


def read(data: bytes) -> Hello:
    return HelloReader().feed(data)


def read_in(parts: list[bytes]) -> Hello:
    """The answer to parts; every one but the last is asked for more."""
    reader = HelloReader()
    for part in parts:
        if (answer := reader.feed(part)).kind != "more":
            return answer
    return answer


def test_what_a_real_client_sends() -> None:
    """OpenSSL with a name, with a capital one, without, and for an address (it names none)."""
    assert read(real("api.test")) == NAMED
    assert read(real("API.test")) == NAMED
    assert read(real(None)) == Hello("none")
    assert read(real("192.0.2.1")) == Hello("none")


def test_names_come_in_their_one_spelling() -> None:
    """Case and one trailing dot do not matter; A-labels are names like others."""
    for text in (b"api.test", b"API.Test", b"api.test."):
        assert read(records(hello([server_name(text)]))) == NAMED
    label = b"xn--bcher-kva.test"
    assert read(records(hello([server_name(label)]))) == Hello("name", label.decode())


@pytest.mark.parametrize(
    "extensions",
    [
        [server_name(b"api.test", b"evil.test")],
        [server_name(b"api.test"), server_name(b"evil.test")],
        [server_name(b"api.test"), server_name(b"api.test")],
        [server_name(b"192.0.2.1")],
        [server_name(b"::1")],
        [server_name(b"127.1")],
        [server_name(b"2130706433")],
        [server_name(b"api.test..")],
        [server_name(b".api.test")],
        [server_name(b"")],
        [server_name(b"api.test\0.evil.test")],
        [server_name(b"api.test\r\nx")],
        [server_name("bücher.test".encode())],
        [server_name(b"\xff\xfe")],
        [server_name(b"*.test")],
        [server_name(b"a" * 64 + b".test")],
        [server_name(b"a." * 130 + b"test")],
        [server_name(b"api.test", kind=1)],
        [server_name()],
        [extension(0)],
        [extension(0, b"\0\x0b\0\0\x08api.test!")],
        [extension(0, b"\0\x0c\0\0\x08api.test")],
        [server_name(b"api.test"), extension(PADDING), extension(PADDING)],
        [server_name(b"api.test")[:-1]],
        [server_name(b"api.test"), b"\0"],
    ],
)  # fmt: skip
def test_what_two_servers_could_read_differently_is_malformed(extensions: list[bytes]) -> None:
    """Two names, an address, a twin of an extension, lengths that do not add up."""
    assert read(records(hello(extensions))) == MALFORMED


def test_extensions_that_say_nothing_of_the_name() -> None:
    """GREASE, padding, a post-quantum key share; no name at all; no extensions at all."""
    around = [extension(GREASE), extension(KEY_SHARE, bytes(1300)), extension(PADDING, bytes(400))]
    assert read(records(hello([*around, server_name(b"api.test")]))) == NAMED
    assert read(records(hello(around))) == Hello("none")
    assert read(records(hello([]))) == Hello("none")
    assert read(records(hello(None))) == Hello("none")


@pytest.mark.parametrize("kind", [0xFE0D, 0xFE08, 0xFFCE])
def test_an_encrypted_name_is_told(kind: int) -> None:
    """Beside a name in clear, which is then not the one the server acts on, and without one."""
    assert read(records(hello([server_name(b"api.test"), extension(kind, b"\0")]))).kind == (
        "encrypted"
    )
    assert read(records(hello([extension(kind, b"\0")]))).kind == "encrypted"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"GET / HTTP/1.1\r\n", "not-tls"),
        (b"SSH-2.0-x\r\n", "not-tls"),
        (b"\x80\x2e\x01\x03\x01", "not-tls"),  # SSL 2
        (b"\x16\x02\x00", "not-tls"),
        (b"\x16\xfe\xff", "not-tls"),  # DTLS
        (b"\x15\x03\x01\x00\x02\x01\x00", "not-tls"),  # an alert
        (b"\x16\x03\x01\x00\x00", "malformed"),  # an empty record
        (b"\x16\x03\x01\x40\x01", "malformed"),  # a record over 2^14
        (b"\x16\x03\x01\x00\x04\x02\x00\x00\x00", "malformed"),  # a ServerHello
        (b"\x16\x03\x01\x00\x04\x01\x01\x00\x00", "malformed"),  # 64 KiB announced
        (b"\x16\x03\x01\x00\x01\x01\x14\x03", "malformed"),  # another record in its middle
        (b"", "more"),
        (b"\x16", "more"),
        (b"\x16\x03\x01\x00\x10\x01", "more"),
    ],
)
def test_first_bytes(data: bytes, kind: str) -> None:
    """Other protocols, records that cannot be, and beginnings."""
    assert read(data).kind == kind


def test_nothing_follows_the_hello_in_its_record() -> None:
    """Other handshake messages do not; early data, in a record of its own, may."""
    message = hello([server_name(b"api.test")])
    assert read(records(message + b"\x01\0\0\0")) == MALFORMED
    assert read(records(hello([server_name(b"api.test")], extra=b"\0"))) == MALFORMED
    assert read(records(message) + b"\x17\x03\x03\x00\x01x") == NAMED


def test_the_bounds() -> None:
    """A hello of 16 KiB and more in clear is read, one without end is not waited for."""
    wide = [extension(PADDING, bytes(HELLO_BYTES - 200)), server_name(b"api.test")]
    assert read(records(hello(wide))) == NAMED
    assert read(records(hello([extension(PADDING, bytes(HELLO_BYTES)), *wide[1:]]))) == MALFORMED
    slow = records(hello(wide), sizes=[1] * 14000)
    assert len(slow) > RAW_BYTES
    assert read_in([slow[at : at + 100] for at in range(0, len(slow), 100)]) == MALFORMED


sizes = st.lists(st.integers(1, 300), max_size=12)


@settings(max_examples=80, deadline=None)
@given(sizes, st.lists(st.integers(1, 400), max_size=30), st.integers(0, 4))
def test_splitting_changes_nothing(
    record_sizes: list[int], segment_sizes: list[int], minor: int
) -> None:
    """Whatever records and segments a hello comes in, its name is the same."""
    message = hello([extension(PADDING, bytes(300)), server_name(b"api.test")])
    data = records(message, record_sizes, minor=minor)
    parts = []
    for size in segment_sizes:
        parts.append(data[:size])
        data = data[size:]
    assert read_in([*parts, data]) == NAMED


def test_every_cut_is_an_open_question() -> None:
    """No beginning of a hello is taken for the whole, byte by byte."""
    data = records(hello([server_name(b"api.test")]), [3, 7, 40])
    reader = HelloReader()
    answers = [reader.feed(data[at : at + 1]) for at in range(len(data))]
    assert {answer.kind for answer in answers[:-1]} == {"more"}
    assert answers[-1] == NAMED


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400), st.booleans())
def test_any_bytes_have_an_answer(data: bytes, as_record: bool) -> None:
    """The reader is total, in one part and byte by byte alike."""
    data = b"\x16\x03\x01\x01\x00\x01\x00\x00\xfc" + data if as_record else data
    whole = read(data)
    assert read_in([data[at : at + 1] for at in range(len(data))] or [b""]).kind in (
        whole.kind, "malformed" if whole.kind == "not-tls" else whole.kind,
    )  # fmt: skip


def test_a_changed_byte_names_no_other_host() -> None:
    """Of 3,000 hellos with some bytes changed, each is refused or names what its bytes say."""
    source = random.Random(7)
    clean = records(hello([extension(GREASE), server_name(b"api.test"), extension(PADDING)]))
    for _ in range(3000):
        data = bytearray(clean)
        for _ in range(source.randint(1, 3)):
            data[source.randrange(len(data))] = source.randrange(256)
        answer = read(bytes(data))
        if answer.kind == "name":
            assert answer.name.encode() in bytes(data).lower()
