"""Decisions: how long one takes, and whether more rules make it longer."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import bench
from axonkernel.policy.decide import Ruleset, compile
from axonkernel.policy.parse import parse
from axonkernel.policy.request import AnyRequest, Request
from bench.measure import by_turns, per_call
from bench.session import Session
from bench.table import Row

__all__ = ["rows"]

SIZES = (10, 100, 1_000, 10_000)
_REPEATS = 20


def rows(session: Session) -> Iterator[Row]:
    """A mix of all kinds at four sizes, then each kind alone."""
    rounds = session.rounds(201)
    samples = by_turns(rounds, {f"{n:,} rules": _asking(_mixed(n), _mixed_asked(n)) for n in SIZES})
    for name, seconds in samples.medians.items():
        yield Row(f"decide, uncached, {name}", seconds * 1e6, "us", 5.0, n=rounds, note="",
                  medians={name: seconds})  # fmt: skip
    yield Row(
        "decide, flatness: slowest size beside fastest",
        max(samples.medians.values()) / min(samples.medians.values()),
        budget=2.0,
        n=rounds,
        medians=samples.medians,
    )
    yield _flatness_by_kind(session.rounds(51))
    yield _slowest_line(session.rounds(2_001))


def _slowest_line(count: int) -> Row:
    """The slowest of many random lines of shell, as the tests draw them."""
    sys.path.append(str(Path(bench.__file__).parent.parent / "tests"))
    from unit.policy.shell.random_lines import random_line  # the tests' own, not a package

    decide = _ruleset({"shell": {"allow": ["a", "b", "c"], "raw": True}}).decide
    random, slowest_s = Random(2_024), 0.0
    decide(Request.shell("a | b"))  # the parser is loaded with the first line that needs it
    for _ in range(count):
        request = Request.shell(random_line(random), cwd="/w")
        started_s = time.process_time()
        decide(request)
        slowest_s = max(slowest_s, time.process_time() - started_s)
    return Row("decide, slowest random shell line", slowest_s * 1e3, "ms", 50.0, n=count, note="")


def _asking(policy: Mapping[str, Any], asked: tuple[AnyRequest, ...]) -> Callable[[], float]:
    """An action: seconds of one decision, the asked requests in turn."""
    decide = _ruleset(policy).decide

    def once() -> None:
        for request in asked:
            decide(request)

    each = per_call(once, _REPEATS)
    return lambda: each() / len(asked)


def _ruleset(policy: Mapping[str, Any]) -> Ruleset:
    return compile(parse(policy, base="/", home="/home/x", source="bench"))


# -- kinds of rules: a policy of n rules, and a hit and a miss for it ---------------------


def _tools(n: int) -> tuple[dict[str, Any], tuple[AnyRequest, ...]]:
    asked = (Request.tool(f"t{n - 1}.run", {}), Request.tool("other.run", {}))
    return {"tools": {f"t{i}": {"run": True} for i in range(n)}}, asked


def _paths(n: int) -> tuple[dict[str, Any], tuple[AnyRequest, ...]]:
    asked = (Request.read(f"/srv/data/{n - 1}/a/b.txt"), Request.read("/srv/other/b.txt"))
    return {"fs": {"read": [f"/srv/data/{i}" for i in range(n)]}}, asked


def _globs(n: int) -> tuple[dict[str, Any], tuple[AnyRequest, ...]]:
    asked = (Request.read(f"/srv/a/x{n - 1}.key"), Request.read("/srv/a/free.txt"))
    return {"fs": {"read": ["/srv"], "deny": [f"**/x{i}.*" for i in range(n)]}}, asked


def _hosts(n: int) -> tuple[dict[str, Any], tuple[AnyRequest, ...]]:
    asked = (Request.connect(f"h{n - 1}.example.com:443"), Request.connect("other.org:443"))
    return {"net": {"allow": [f"h{i}.example.com:443" for i in range(n)]}}, asked


def _networks(n: int) -> tuple[dict[str, Any], tuple[AnyRequest, ...]]:
    blocks = [f"45.{i // 256}.{i % 256}.0/25:443" for i in range(n)]
    last = f"45.{(n - 1) // 256}.{(n - 1) % 256}.7:443"
    return {"net": {"allow": blocks}}, (Request.connect(last), Request.connect("8.8.8.8:443"))


def _programs(n: int) -> tuple[dict[str, Any], tuple[AnyRequest, ...]]:
    names = [f"prog{i}" for i in range(n)]
    shell = {"allow": names, "args": {name: {"deny": ["push --force*"]} for name in names}}
    asked = (Request.process([names[-1], "push", "x"]), Request.process(["other", "push"]))
    return {"shell": shell}, asked


def _arguments(n: int) -> tuple[dict[str, Any], tuple[AnyRequest, ...]]:
    deny = [f"sub{i} --force*" for i in range(n)]
    shell = {"allow": ["prog"], "args": {"prog": {"deny": deny}}}
    hit = Request.process(["prog", f"sub{n - 1}", "--force"])
    return {"shell": shell}, (hit, Request.process(["prog", "fetch", "x"]))


_KINDS = {
    "tools": _tools,
    "paths": _paths,
    "path patterns": _globs,
    "host names": _hosts,
    "networks": _networks,
    "programs": _programs,
    "argument patterns of one program": _arguments,
}
_MIX = (_tools, _paths, _hosts, _programs)


def _mixed(n: int) -> dict[str, Any]:
    policy: dict[str, Any] = {}
    for number, kind in enumerate(_MIX):
        policy |= kind(_share(n, number))[0]
    return policy


def _mixed_asked(n: int) -> tuple[AnyRequest, ...]:
    return tuple(
        request for number, kind in enumerate(_MIX) for request in kind(_share(n, number))[1]
    )


def _share(n: int, number: int) -> int:
    return n // len(_MIX) + (number < n % len(_MIX))


def _flatness_by_kind(rounds: int) -> Row:
    few, many = SIZES[0], SIZES[-1]
    growth: dict[str, float] = {}
    medians: dict[str, float] = {}
    for name, kind in _KINDS.items():
        samples = by_turns(rounds, {"few": _asking(*kind(few)), "many": _asking(*kind(many))})
        growth[name] = samples.ratio("many", "few")
        medians |= {f"{name}, {few}": samples.medians["few"]}
        medians |= {f"{name}, {many}": samples.medians["many"]}
    worst = max(growth, key=lambda name: growth[name])
    shown = "; ".join(f"{name} {ratio:.1f}x" for name, ratio in growth.items())
    return Row(
        f"decide, {many:,} rules of one kind beside {few}, worst kind: {worst}",
        growth[worst],
        budget=2.0,
        n=rounds,
        note=shown,
        medians=medians,
    )
