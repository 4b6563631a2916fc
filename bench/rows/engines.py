"""Decisions beside two policy engines and a loop of patterns, over the same path rules."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterator

from axonkernel.policy.decide import compile
from axonkernel.policy.parse import parse
from axonkernel.policy.request import Request
from bench.measure import by_turns, per_call
from bench.session import Session
from bench.table import Row

__all__ = ["rows"]

_RULES = 1_000
_HIT, _MISS = f"/srv/data/{_RULES - 1}/a.txt", "/srv/other/a.txt"

Ask = Callable[[str], bool]

_CASBIN_MODEL = """
[request_definition]
r = sub, obj, act
[policy_definition]
p = sub, obj, act
[policy_effect]
e = some(where (p.eft == allow))
[matchers]
m = r.sub == p.sub && r.act == p.act && keyMatch(r.obj, p.obj)
"""


def rows(session: Session) -> Iterator[Row]:
    """One row per other engine; one that is not installed says so."""
    yield from _beside("cedarpy", _cedar, session.rounds(31), budget=500.0)
    yield from _beside("casbin", _casbin, session.rounds(31), budget=500.0)
    yield from _beside("a loop of compiled fnmatch patterns", _loop, session.rounds(101))


def _beside(
    name: str, make: Callable[[], Ask], rounds: int, budget: float | None = None
) -> Iterator[Row]:
    what = f"decide, {_RULES:,} path rules: times faster than {name}"
    try:
        other = make()
    except ImportError as error:
        yield Row(what, budget=budget, at_least=True, note=f"{error}; scripts/bootstrap bench")
        return
    ours = _ours()
    for ask in (ours, other):
        if not ask(_HIT) or ask(_MISS):
            raise RuntimeError(f"{name}: the engines do not answer alike")
    samples = by_turns(rounds, {"axonkernel": _both(ours, 50), name: _both(other, 1)})
    ratio = samples.ratio(name, "axonkernel")
    yield Row(what, ratio, budget=budget, at_least=True, n=rounds, medians=samples.medians)


def _both(ask: Ask, calls: int) -> Callable[[], float]:
    def once() -> None:
        ask(_HIT)
        ask(_MISS)

    return per_call(once, calls)


def _ours() -> Ask:
    policy = {"fs": {"read": [f"/srv/data/{i}" for i in range(_RULES)]}}
    decide = compile(parse(policy, base="/", home="/home/x", source="bench")).decide
    return lambda path: decide(Request.read(path)).verdict == "allow"


def _cedar() -> Ask:
    import cedarpy

    lines = (
        'permit(principal == Agent::"a", action == Action::"read", resource) '
        f'when {{ context.path like "/srv/data/{i}/*" }};'
        for i in range(_RULES)
    )
    # Parsed once, as its documentation advises.
    policies = cedarpy.PolicySet.from_str("\n".join(lines))
    entities = cedarpy.Entities.from_json_str("[]")

    def ask(path: str) -> bool:
        request = {
            "principal": 'Agent::"a"',
            "action": 'Action::"read"',
            "resource": 'Path::"p"',
            "context": {"path": path},
        }
        return bool(cedarpy.is_authorized(request, policies, entities).allowed)

    return ask


def _casbin() -> Ask:
    import casbin

    model = casbin.Model()
    model.load_model_from_text(_CASBIN_MODEL)
    enforcer = casbin.Enforcer(model)
    enforcer.add_policies([("a", f"/srv/data/{i}/*", "read") for i in range(_RULES)])
    return lambda path: bool(enforcer.enforce("a", path, "read"))


def _loop() -> Ask:
    patterns = [re.compile(fnmatch.translate(f"/srv/data/{i}/*")) for i in range(_RULES)]
    return lambda path: any(pattern.match(path) for pattern in patterns)
