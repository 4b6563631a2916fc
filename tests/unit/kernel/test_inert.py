"""What a worker sends changes, calls and iterates nothing where it is read."""

from __future__ import annotations

import collections
import datetime
import enum
import fractions
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from axonkernel.kernel.inert import Unpassable
from axonkernel.kernel.passing import Unpasser, passed

RAN: list[str] = []


class Mode(enum.Enum):
    READ = "/srv/public"


@dataclass(frozen=True)
class Point:
    x: Any


@dataclass
class Gadget:
    """A class of the agent's own whose methods act: a worker may not have them called."""

    x: Any

    def __call__(self, *_: Any) -> None:
        RAN.append("call")

    def __iter__(self) -> Iterator[Any]:
        RAN.append("iter")
        return iter(())

    def __index__(self) -> int:
        RAN.append("index")
        return 1

    def __str__(self) -> str:
        RAN.append("str")
        return ""

    def __fspath__(self) -> str:
        RAN.append("fspath")
        return "/"

    def __setitem__(self, key: Any, value: Any) -> None:
        RAN.append("setitem")

    def append(self, value: Any) -> None:
        RAN.append("append")

    def __setstate__(self, state: Any) -> None:
        RAN.append("setstate")


OURS = Unpasser({__name__: globals()})
NAMED = b"caxonkernel.kernel.passing\n_rebuilt\n"


def flat(value: Any) -> bytes:
    """The opcodes of plain data, without head and end."""
    return pickle.dumps(value, 2)[2:-1]


def made(*parts: Any) -> bytes:
    """The opcodes that ask for a value; parts are plain data or opcodes in a list."""
    inner = b"".join(part[0] if isinstance(part, list) else flat(part) for part in parts)
    return NAMED + b"(" + inner + b"tR"


MEMBER = made("member", __name__, "Mode", "READ")
GADGET = made("fields", __name__, "Gadget", {"x": 1})


def test_a_member_of_an_enumeration_is_not_changed() -> None:
    """It is the same object for every request; by itself it comes through."""
    assert OURS.value(MEMBER + b".") is Mode.READ
    for state in ({"_value_": "/etc"}, (None, {"_value_": "/etc", "_name_": "X"})):
        with pytest.raises(Unpassable):
            OURS.value(MEMBER + flat(state) + b"b.")
    assert Mode.READ.value == "/srv/public" and Mode.READ.name == "READ"


@pytest.mark.parametrize(
    "body",
    [
        GADGET + b")R",
        GADGET + b"}b",
        GADGET + flat(1) + b"a",
        GADGET + flat(1) + flat(2) + b"s",
        NAMED + flat({"__wrapped__": 1}) + b"b",
        NAMED,
        NAMED + b")\x81",
        made("data", "deque", [GADGET]),
        made("data", "ordered", [GADGET]),
        made("data", "path", [GADGET]),
        made("data", "range", [GADGET], 1, 1),
        made("data", "complex", [GADGET], 1.0),
        made("data", "ordered", [b"(" + GADGET + b"l"]),
        made("error", "axonkernel.errors", "ToolError", [b"(" + GADGET + GADGET + b"t"], {}),
    ],
    ids=repr,
)
def test_no_method_of_the_agents_classes_runs(body: bytes) -> None:
    """Not by what a pickle can do to a value, nor by what is made of one."""
    RAN.clear()
    assert OURS.value(GADGET + b".") == Gadget(1) and RAN == []
    with pytest.raises(Unpassable):
        OURS.value(body + b".")
    assert RAN == []


@pytest.mark.parametrize("name", ["OSError", "SyntaxError", "UnicodeEncodeError", "ExceptionGroup"])
def test_errors_that_look_into_their_arguments_are_told_by_text(name: str) -> None:
    """An error of plain arguments keeps its type."""
    RAN.clear()
    args = b"(" + flat("a") + GADGET + b"t"
    if name == "UnicodeEncodeError":
        args = b"(" + flat("a") + flat("b") + GADGET + GADGET + flat("c") + b"t"
    error = made("error", "builtins", name, [args], {})
    told = OURS.error(b"(" + error + flat("told") + flat("") + b"t.")
    assert type(told).__name__ == "ToolError" and RAN == []
    plain = made("error", "builtins", "OSError", (2, "gone"), {})
    assert type(OURS.error(b"(" + plain + flat("") + flat("") + b"t.")) is FileNotFoundError


@pytest.mark.parametrize(
    "body",
    [
        made("data", "fraction", "1e100000000"),
        made("data", "fraction", 1 << 70_000, 3),
        made("data", "deque", [made("data", "range", 0, 10**12, 1)]),
        made("data", "counter", [made("data", "range", 0, 10**12, 1)]),
    ],
    ids=["text", "long", "deque", "counter"],
)
def test_what_would_take_for_ever_is_refused(body: bytes) -> None:
    """A few bytes that would keep the process of the kernel busy, or fill its memory."""
    with pytest.raises(Unpassable):
        OURS.value(body + b".")


def test_values_keep_their_shape() -> None:
    """Shared, circular and nested containers, with values among keys and members."""
    shared = [Point(1), datetime.timedelta(1)]
    value: dict[Any, Any] = {
        Point(2): (shared, shared, frozenset((Point(3), "a"))),
        "set": {Point(4), 5},
        "kept": collections.deque([Point(5)], 3),
        "own": collections.OrderedDict([("b", 1), ("a", Point(6))]),
        "part": fractions.Fraction(1, 3),
        "when": datetime.datetime(2020, 1, 2, tzinfo=datetime.UTC),
        "group": Point([Mode.READ, {"x": (Point(7),)}]),
    }
    found = OURS.value(passed(value))
    assert found == value and list(found["own"]) == ["b", "a"] and found["kept"].maxlen == 3
    first, second, _ = found[Point(2)]
    assert first is second
    ring: list[Any] = [Point(1)]
    ring.append((ring, {"ring": ring}))
    again = OURS.value(passed(ring))
    assert again[0] == Point(1) and again[1][0] is again and again[1][1]["ring"] is again
