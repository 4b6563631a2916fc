"""What becomes of a box's refusals on the supervisor's side."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from axonkernel.box.launch import BoxProcess
from axonkernel.box.model import AskPlan, BoxResult, NetPlan, Refusal
from axonkernel.drops import Asking, Drops
from axonkernel.errors import AuditError
from axonkernel.escalation import Answer, Question
from axonkernel.policy.request import ConnectRequest, Request, Subject

PLAN = NetPlan(
    ask=AskPlan(
        ("9.9.9.9:443", "a.test:443-444", "*.b.test:443", "a.test:53/udp", "10.0.0.0/8:443"),
        ("9.9.9.9:80", "d.b.test:*"),
    )
)


class Box:
    """Notes its orders."""

    def __init__(self) -> None:
        self.orders: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *words: self.orders.append((name, *words))

    def await_order(self, *order: Any) -> None:
        for _ in range(400):
            if order in self.orders:
                return
            time.sleep(0.005)
        raise AssertionError((order, self.orders))


class Log:
    def __init__(self) -> None:
        self.records: list[tuple[str, dict[str, Any]]] = []
        self.full = False

    def record(self, kind: str, /, **fields: Any) -> str:
        if self.full:
            raise AuditError("full")
        self.records.append((kind, fields))
        return f"{len(self.records):016x}"


class Person:
    """Answers as told, and keeps the questions."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.says: dict[str, Answer] = {}
        self.wait = threading.Event()
        self.wait.set()

    def __call__(self, box: BoxProcess, question: Question) -> Answer:
        self.asked.append(question.action)
        self.wait.wait(5)
        return self.says.get(question.action, Answer.no("me"))


class Scene:
    def __init__(self) -> None:
        self.box, self.log, self.person = Box(), Log(), Person()
        self.drops = Drops(self.log, "agent", PLAN, self.person, decision_id="d")

    def hear(self, *refused: Refusal, asked: tuple[str, ...] = ()) -> None:
        event = {"event": "net", "refused": [list(r) for r in refused], "asked": list(asked)}
        self.drops.heard(cast(BoxProcess, self.box), event)

    def settled(self) -> None:
        for thread in threading.enumerate():
            if "_settle" in thread.name:
                thread.join(5)


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    scene.person.wait.set()
    scene.settled()


NINE = Refusal("9.9.9.9", "tcp", 443)


def test_a_destination_is_recorded_once(scene: Scene) -> None:
    """As it happens, and at the end only what was not told before; with the caller's fields."""
    scene.hear(NINE._replace(port=7), NINE._replace(port=7, times=9))
    scene.drops.ended(BoxResult(0, denied=(NINE._replace(port=7), NINE._replace(port=8))))
    assert [(kind, r["port"], r["decision_id"]) for kind, r in scene.log.records] == [
        ("net.drop", 7, "d"), ("net.drop", 8, "d"),
    ]  # fmt: skip


def test_a_box_whose_refusals_cannot_be_recorded_is_ended(scene: Scene) -> None:
    """And nobody is asked: an answer could not be recorded either."""
    scene.log.full = True
    scene.hear(NINE)
    scene.settled()
    assert ("kill",) in scene.box.orders and not scene.person.asked
    with pytest.raises(AuditError):
        scene.drops.ended(BoxResult(0, denied=(NINE._replace(port=7),)))


def test_a_yes_opens_what_was_asked_about_and_a_no_is_final(scene: Scene) -> None:
    """By address: one port and protocol; neither is asked about again."""
    scene.person.says["connect 9.9.9.9:443"] = Answer.yes("me")
    scene.hear(NINE, Refusal("10.1.2.3", "tcp", 443))
    scene.box.await_order("grant", "9.9.9.9", "tcp", "443")
    scene.settled()
    scene.hear(NINE, Refusal("10.1.2.3", "tcp", 443))
    scene.settled()
    assert sorted(scene.person.asked) == ["connect 10.1.2.3:443", "connect 9.9.9.9:443"]
    assert [order for order in scene.box.orders if order[0] == "grant"] == [
        ("grant", "9.9.9.9", "tcp", "443")
    ]


@pytest.mark.parametrize(
    "refusal",
    [
        NINE._replace(port=80),
        NINE._replace(port=444),
        NINE._replace(protocol="udp"),
        NINE._replace(protocol="icmp", port=0),
        Refusal("8.8.8.8", "tcp", 445, "a.test"),
        Refusal("", "dns", 0, "a.test"),
        Refusal("10.0.0.1", "dns", 0, "a.test"),
    ],
    ids=str,
)
def test_what_escalate_does_not_name_is_not_asked_about(scene: Scene, refusal: Refusal) -> None:
    """Denied, another port or protocol, an address by its name, a name that does not wait."""
    scene.hear(refusal)
    scene.settled()
    assert not scene.person.asked and not scene.box.orders


@pytest.mark.parametrize("address", ["169.254.169.254", "100.100.100.200", "fd00:ec2::254"])
def test_nobody_is_asked_to_let_metadata_in_by_a_range(address: str) -> None:
    """Nor by a word; only its own entry has the question asked."""
    scene = Scene()
    for escalate, asked in (
        (("0.0.0.0/0:443", "[::]/0:443", "private:443", "public:443", "*:443"), []),
        ((f"[{address}]:443" if ":" in address else f"{address}:443",), [address]),
    ):
        plan = NetPlan(ask=AskPlan(escalate, ()))
        scene.drops = Drops(scene.log, "agent", plan, scene.person)
        scene.hear(Refusal(address, "tcp", 443))
        scene.settled()
        assert len(scene.person.asked) == len(asked)
        assert all(each in scene.person.asked[0] for each in asked)


def test_a_name_is_asked_about_for_its_ports(scene: Scene) -> None:
    """One question for each entry; the name waits for the last and is refused if all are no."""
    scene.person.says["connect a.test:53/udp"] = Answer.yes("me")
    scene.hear(asked=("a.test", "c.b.test"))
    scene.box.await_order("grant", "a.test", "udp", "53")
    scene.box.await_order("refuse", "c.b.test")
    scene.settled()
    assert ("refuse", "a.test") not in scene.box.orders
    assert sorted(scene.person.asked) == [
        "connect a.test:443-444", "connect a.test:53/udp", "connect c.b.test:443",
    ]  # fmt: skip


def test_another_port_of_a_name_is_asked_about_when_it_is_tried(scene: Scene) -> None:
    """By the name that led to the address, for that one port."""
    scene.person.says["connect a.test:444"] = Answer.yes("me")
    scene.hear(Refusal("8.8.8.8", "tcp", 444, "a.test"))
    scene.box.await_order("grant", "a.test", "tcp", "444")


def test_a_name_nobody_may_add_is_refused_at_once(scene: Scene) -> None:
    """Also one that deny names, and what is no name."""
    scene.hear(asked=("e.test", "d.b.test", "b.test", "127.1"))
    assert [order for order in scene.box.orders if order[0] == "refuse"] == [
        ("refuse", name) for name in ("e.test", "d.b.test", "b.test", "127.1")
    ]
    assert not scene.person.asked


def test_asked_again_while_a_person_thinks_is_one_question(scene: Scene) -> None:
    """What waits is not refused by that."""
    scene.person.wait.clear()
    scene.person.says["connect c.b.test:443"] = Answer.yes("me")
    for _ in range(3):
        scene.hear(asked=("c.b.test",))
    assert not [order for order in scene.box.orders if order[0] == "refuse"]
    scene.person.wait.set()
    scene.box.await_order("grant", "c.b.test", "tcp", "443")
    assert scene.person.asked == ["connect c.b.test:443"]


def test_nobody_answering_is_asked_again_three_times(scene: Scene) -> None:
    """A later attempt may find somebody; the fourth is no."""
    scene.person.says["connect 9.9.9.9:443"] = Answer("timeout")
    for _ in range(5):
        scene.hear(NINE)
        scene.settled()
    assert len(scene.person.asked) == 3


def test_a_flood_of_names_is_no(scene: Scene) -> None:
    """More than wait at one time are refused unasked, and the earlier ones still wait."""
    scene.person.wait.clear()
    scene.hear(asked=tuple(f"x{n}.b.test" for n in range(100)))
    refused = [order for order in scene.box.orders if order[0] == "refuse"]
    assert len(refused) == 68 and len(scene.person.asked) <= 32


def test_a_tools_own_words_count_for_nothing(scene: Scene) -> None:
    """What a person let http.fetch reach is what its arguments showed; a connection counts as
    it was shown, a range of ports and other tools do not."""
    fetch = Request.tool("http.fetch", {"url": "https://9.9.9.9/"})
    trick = Request.tool(
        "http.fetch", {"url": "https://8.8.8.8/"}, subjects=[Subject("url", "https://9.9.9.9/")]
    )
    other = Request.tool("mail.send", {"url": "https://9.9.9.9/"})
    wide = ConnectRequest("9.9.9.9", 443, last=65535)
    box = cast(BoxProcess, scene.box)
    for request in (trick, other, wide, Request.connect("9.9.9.9:80")):
        scene.drops.allowed(box, request)
    assert not scene.box.orders
    scene.drops.allowed(box, fetch)
    scene.drops.allowed(box, Request.connect("c.b.test:443"))
    assert scene.box.orders == [
        ("grant", "9.9.9.9", "tcp", "443"), ("grant", "c.b.test", "tcp", "443"),
    ]  # fmt: skip


def test_the_clock_stands_still_for_all_questions_together() -> None:
    """Paused by the first that waits, resumed by the last that is answered."""
    box, gate = Box(), threading.Event()
    asking = Asking(lambda _: (gate.wait(5), Answer.no("me"))[1])
    question = cast(Question, None)
    threads = [
        threading.Thread(target=asking, args=(cast(BoxProcess, box), question)) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    box.await_order("pause")
    gate.set()
    for thread in threads:
        thread.join(5)
    assert box.orders == [("pause",), ("resume",)]
