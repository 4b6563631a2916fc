"""What a box was refused, rolled up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from axonkernel.box.model import Refusal
from axonkernel.box.resolver.reports import AGAIN_S, Refusals


def refusal(address: str = "192.0.2.1", at_s: float = 1.0, **rest: object) -> Refusal:
    return Refusal(address, "tcp", 443, first_s=at_s, last_s=at_s)._replace(**rest)


def test_one_entry_for_each_destination() -> None:
    """Counts add up, the first and the last time are kept, and a name that comes later."""
    refusals = Refusals()
    refusals.note(refusal(at_s=3.0, times=2), refusal("192.0.2.2", at_s=3.0))
    refusals.note(refusal(at_s=1.0, times=5, name="a.test"), refusal(at_s=2.0))
    first, second = refusals.all()
    assert first == ("192.0.2.1", "tcp", 443, "a.test", 8, 1.0, 3.0, "")
    assert second.address == "192.0.2.2"


def test_names_are_told_apart_and_addresses_are_not_by_their_names() -> None:
    """A refused name is an entry of its own; an address is one, whatever names led to it."""
    refusals = Refusals()
    refusals.note(*(Refusal("", "dns", 53, name) for name in ("a.test", "b.test", "a.test")))
    refusals.note(refusal(name="a.test"), refusal(name="b.test"))
    assert [(r.address, r.name, r.times) for r in refusals.all()] == [
        ("", "a.test", 2), ("", "b.test", 1), ("192.0.2.1", "a.test", 2),
    ]  # fmt: skip


def test_a_name_that_was_asked_for_is_told_beside_others_of_its_address() -> None:
    """Server names of TLS, and names whose private answer was dropped: the first does not hide
    the second."""
    for protocol in ("tls-name", "dns"):
        refusals = Refusals()
        names = ("a.test", "b.test", "a.test")
        told = refusals.note(*(refusal(name=name, protocol=protocol) for name in names))
        assert [each.name for each in told] == ["a.test", "b.test"]
        assert [(r.name, r.times) for r in refusals.all()] == [("a.test", 2), ("b.test", 1)]


def test_told_once_until_time_has_passed() -> None:
    """A program that tries again and again is told of once in a while, with all it tried."""
    refusals = Refusals()
    assert len(refusals.note(refusal(at_s=1.0))) == 1
    assert refusals.note(refusal(at_s=1.5), refusal(at_s=AGAIN_S + 0.5)) == ()
    (told,) = refusals.note(refusal(at_s=1.0 + AGAIN_S))
    assert told.times == 4
    assert refusals.note(refusal(at_s=1.2 + AGAIN_S)) == ()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), max_size=60))
def test_bounded_and_nothing_uncounted(tries: list[tuple[int, int]]) -> None:
    """However many destinations there are: no more entries than allowed and one, which
    together count everything."""
    refusals = Refusals(most=3)
    for number, count in tries:
        refusals.note(refusal(f"192.0.2.{number}", times=count))
    found = refusals.all()
    assert len(found) <= 4 and sum(r.times for r in found) == sum(count for _, count in tries)
    assert all(r.protocol for r in found[:-1])
    assert refusals.take() == found and refusals.all() == ()
