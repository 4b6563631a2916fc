"""Every field of the blocks that decide no request by themselves is narrowed, none forgotten."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import fields

from axonkernel.policy.meet import clamped, meet, taking_away
from axonkernel.policy.model import (
    BoxPolicy,
    Budget,
    EscalationPolicy,
    Limits,
    NetPolicy,
    Policy,
    WasmPolicy,
)
from axonkernel.policy.parse import parse

#: Two values, and what they meet in.
SETTINGS: dict[type, dict[str, tuple[Any, Any, Any]]] = {
    Limits: {each.name: (2, 1, 1) for each in fields(Limits)},
    Budget: {each.name: (2, 1, 1) for each in fields(Budget)},
    EscalationPolicy: {"timeout_s": (9.0, 5.0, 5.0), "headless": ("wait", "deny", "deny")},
    BoxPolicy: {
        "run_as": ("one", "two", "one"),
        "devices": (("kvm", "dri"), ("dri",), ("dri",)),
        "nested_userns": (True, False, False),
        "noexec": (False, True, True),
    },
    WasmPolicy: {
        "folders": (("/a", "/b"), ("/b",), ("/b",)),
        "trust": ("allow", "deny", "deny"),
        "mode": ("full", "read-only", "read-only"),
        "grants": ({"x": 1, "y": 2}, {"x": 3, "y": 2}, {"y": 2}),
    },
    NetPolicy: {
        "allow": (("a.test:443", "b.test:443"), ("b.test:443",), ("b.test:443",)),
        "deny": (("a.test:443",), ("b.test:443",), ("a.test:443", "b.test:443")),
        "escalate": (("a.test:443",), ("a.test:443", "b.test:443"), ("a.test:443",)),
        "dns": ("open", "off", "off"),
        "tls_names": ("off", "check", "check"),
        "listen": ((80, 81), (81,), (81,)),
        "unix": ("box", "none", "none"),
        "link": ("pasta", "veth", "veth"),
        "refuse": ("reject", "drop", "drop"),
        "resolver": ("192.0.2.1", "192.0.2.2", "192.0.2.1"),
        "proxy": ("http://a.test", "http://b.test", "http://a.test"),
    },
}
_PLACES = {
    Limits: "limits", Budget: "budget", EscalationPolicy: "escalation", BoxPolicy: "box",
    WasmPolicy: "wasm", NetPolicy: "net",
}  # fmt: skip
#: Of these the first policy's holds: neither value is the narrower one.
_FIRST = ("run_as", "resolver", "proxy")


@pytest.mark.parametrize("block", SETTINGS, ids=lambda block: str(block.__name__))
def test_every_setting_meets_in_the_narrower_one(block: type) -> None:
    """In either order, and beside a policy that does not say; no field is left out."""
    assert set(SETTINGS[block]) == {each.name for each in fields(block)}
    place = _PLACES[block]
    for name, (one, two, met) in SETTINGS[block].items():
        a, b = (Policy(**{place: block(**{name: value})}) for value in (one, two))
        assert getattr(getattr(meet(a, b), place), name) == met, name
        turned = getattr(getattr(meet(b, a), place), name)
        assert (
            set(turned) == set(met) if isinstance(met, tuple) else name in _FIRST or turned == met
        )
        if block is not EscalationPolicy and block is not BoxPolicy:
            assert getattr(getattr(meet(a, Policy()), place), name) == one, name


def test_a_tool_that_nobody_spoke_of_is_asked_about() -> None:
    """Beside a policy that does not say whom it trusts, "allow" is not more than a question."""
    said, silent = parse({"wasm": {"trust": "allow"}}), parse({"wasm": {"folders": ["/a"]}})
    for met in (meet(said, silent), meet(silent, said)):
        assert met.wasm is not None and met.wasm.trust == "ask"


def test_tools_and_tuning_beyond_the_base_are_told() -> None:
    """What is cut down is recorded, field by field; what the base has is not."""
    base = parse({"wasm": {"trust": "ask", "folders": ["/a"]}, "box": {"devices": ["kvm"]}})
    more = {
        "wasm": {"trust": "allow", "mode": "full", "folders": ["/a", "/b"]},
        "box": {"devices": ["kvm", "dri"], "nested_userns": True},
    }
    told = {line.partition(":")[0] for line in clamped(base, parse(more))}
    assert told == {
        "wasm.folders /b", "wasm.trust allow", "wasm.mode full", "box.devices dri",
        "box.nested_userns true",
    }  # fmt: skip
    assert clamped(base, parse({"wasm": {"trust": "deny", "folders": ["/a"]}})) == ()


def test_a_narrowing_has_no_say_in_how_a_box_is_made() -> None:
    """Nor where the base says nothing; that it tried is told, without the address of a proxy."""
    ways = {
        "box": {"run_as": "root", "noexec": True},
        "net": {
            "allow": ["a.test:443"],
            "link": "veth",
            "resolver": "192.0.2.1",
            "proxy": "http://u:secret@a.test:80",
        },
    }
    asked, silent = parse(ways), parse({"net": {"allow": ["a.test:443", "b.test:443"]}})
    met = meet(silent, taking_away(asked))
    assert met.box.run_as is None and met.box.noexec is True
    assert met.net == parse({"net": {"allow": ["a.test:443"]}}).net
    assert meet(parse({}), taking_away(asked)).net == met.net
    told = "\n".join(clamped(silent, asked))
    assert all(way in told for way in ("run_as", "link", "resolver", "proxy"))
    assert "secret" not in told and clamped(asked, asked) == ()
