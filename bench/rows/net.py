"""The network of a box beside the network outside, in the private internet of the tests.

Every side has an address of the far end to itself: connections by masquerade share source
ports, and two sides with one address would wait for each other's to be forgotten.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import bench
from bench.boxes import BARE, Worker, axonkernel
from bench.farside import ASKED, PULLED, PULLED_BYTES, TALKED
from bench.measure import Absent, Samples, by_turns, run, timed
from bench.refusals import slowest
from bench.session import Session
from bench.table import Row

__all__ = ["launch_rows", "rows"]

_HERE = Path(bench.__file__).parent
_CONNECTIONS, _TURNS, _QUESTIONS = 100, 500, 200
_PROXY = "3129"
_NAME = "bench.test"
#: The sides, and the address of the far end each has.
_SIDES = {
    "direct": "one4",
    "veth": "two4",
    "pasta": "three4",
    "checked": "four4",
    "proxy": "documentation4",
}
_BUDGETS = {"veth": 0.6, "pasta": 0.4}
_HOW = {
    "veth": "a veth link",
    "pasta": "pasta",
    "checked": 'veth and net.tls_names = "check"',
    "proxy": "no box, but a small proxy in Python",
}


def rows(session: Session) -> Iterator[Row]:
    """Connections, their speed, their latency, names and refusals."""
    with _sides(session) as (workers, places):
        yield from _connections(session, workers, places)
        yield from _bulk(session, workers, places)
        yield from _latency(session, workers, places)
        yield _refusals(session, workers, places)
        yield _names(session, workers)
    yield from slowest(session)


@contextlib.contextmanager
def _sides(session: Session) -> Iterator[tuple[dict[str, Worker], dict[str, str]]]:
    """A worker for each side, and where it goes."""
    sys.path.append(str(_HERE.parent / "tests"))
    from lab.internet import ADDRESSES, Internet  # the tests' own, not a package
    from lab.processes import LabUnavailable

    folder = session.room("net")
    places = {side: ADDRESSES[label] for side, label in _SIDES.items()}
    places["checked"] = _NAME
    with contextlib.ExitStack() as stack:
        try:
            net = stack.enter_context(Internet(tap=False))
            net.serve([sys.executable, str(_HERE / "farside.py"), "servers"])
        except LabUnavailable as error:
            raise Absent(str(error)) from error
        net.name(_NAME, ADDRESSES[_SIDES["checked"]], ttl_s=600)
        enter = ["nsenter", f"--target={net.client}", "--net", "--mount"]
        stack.enter_context(_proxy(enter))
        words = {side: [*enter, *_boxed(side, places[side], folder)] for side in places}
        workers = {side: stack.enter_context(Worker(argv)) for side, argv in words.items()}
        yield workers, places


@contextlib.contextmanager
def _proxy(enter: list[str]) -> Iterator[None]:
    argv = [*enter, sys.executable, str(_HERE / "farside.py"), "proxy", _PROXY]
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=nothing, text=True) as proxy:
        assert proxy.stdout
        proxy.stdout.readline()
        try:
            yield
        finally:
            proxy.kill()


def _boxed(side: str, place: str, folder: Path) -> list[str]:
    """The words that start the client of a side."""
    client = [os.path.realpath(sys.executable), "-IS", "-c", (_HERE / "traffic.py").read_text()]
    if side in ("direct", "proxy"):
        return client
    allow = [f"{place}:{port}" for port in (ASKED, PULLED, TALKED)]
    link = "pasta" if side == "pasta" else "veth"
    check = "check" if side == "checked" else "off"
    policy = folder / f"{side}.toml"
    policy.write_text(f'[net]\nallow = {allow}\nlink = "{link}"\ntls_names = "{check}"\n')
    return [*axonkernel(), "exec", "--quiet", "--policy", str(policy), "--", *client]


def _timed(
    session: Session, workers: Mapping[str, Worker], places: Mapping[str, str], task: str,
    port: int, count: int, full: int,
) -> tuple[Samples, int]:  # fmt: skip
    """One task, by turns on every side."""
    rounds = session.rounds(full)
    actions = {
        side: workers[side].action(
            f"{task}\t{places[side]}\t{port}\t{_PROXY if side == 'proxy' else '-'}\t{count}"
        )
        for side in workers
    }
    return by_turns(rounds, actions), rounds


def _connections(
    session: Session, workers: Mapping[str, Worker], places: Mapping[str, str]
) -> Iterator[Row]:
    for task, what, budgets in (
        ("ask", "connections per second, each with a question and its answer", _BUDGETS),
        ("begin", "connections per second on which nothing is said", {}),
    ):
        some = {side: workers[side] for side in workers if task == "ask" or side in _BUDGETS}
        some["direct"] = workers["direct"]
        samples, rounds = _timed(session, some, places, task, ASKED, _CONNECTIONS, 41)
        yield from _beside_direct(
            samples, rounds, what, lambda s: f"{_CONNECTIONS / s:.0f} per second", budgets
        )


def _bulk(
    session: Session, workers: Mapping[str, Worker], places: Mapping[str, str]
) -> Iterator[Row]:
    samples, rounds = _timed(session, workers, places, "pull", PULLED, 0, 11)
    yield from _beside_direct(
        samples, rounds, "64 MB through one connection",
        lambda s: f"{PULLED_BYTES / s / 1e6:.0f} MB per second", {},
    )  # fmt: skip


def _latency(
    session: Session, workers: Mapping[str, Worker], places: Mapping[str, str]
) -> Iterator[Row]:
    samples, rounds = _timed(session, workers, places, "talk", TALKED, _TURNS, 21)
    yield from _beside_direct(
        samples, rounds, "exchanges per second on one connection",
        lambda s: f"{s / _TURNS * 1e6:.0f} us there and back", {},
    )  # fmt: skip


def _beside_direct(
    samples: Samples, rounds: int, what: str, shown: Any, budgets: Mapping[str, float]
) -> Iterator[Row]:
    medians = samples.medians
    for side in medians:
        if side != "direct":
            yield Row(
                f"{what}, by {_HOW[side]}, as a part of direct",
                samples.ratio("direct", side),
                budget=budgets.get(side),
                at_least=True,
                n=rounds,
                note=f"direct {shown(medians['direct'])}, here {shown(medians[side])}",
                medians=medians,
            )


def _refusals(session: Session, workers: Mapping[str, Worker], places: Mapping[str, str]) -> Row:
    """A port that no grant names, beside one on the loopback that nobody listens on."""
    rounds = session.rounds(21)
    inside = f"refused\t{places['direct']}\t9999\t-\t{_QUESTIONS}"
    outside = f"refused\t127.0.0.1\t9999\t-\t{_QUESTIONS}"
    actions = {
        "closed port": workers["direct"].action(outside),
        "refused": workers["pasta"].action(inside),
    }
    samples = by_turns(rounds, actions)
    return Row(
        "a refused connection, beside a closed port of the loopback",
        samples.ratio("refused", "closed port"),
        n=rounds,
        note=f"{samples.medians['refused'] / _QUESTIONS * 1e6:.0f} us",
        medians=samples.medians,
    )


def _names(session: Session, workers: Mapping[str, Worker]) -> Row:
    """An answer of the box's resolver, over that of the server it asks."""
    from lab.internet import ADDRESSES

    rounds = session.rounds(21)
    upstream = f"resolve\t{ADDRESSES['dns']}\t{_NAME}\t-\t{_QUESTIONS}"
    inside = f"resolve\t127.0.0.53\t{_NAME}\t-\t{_QUESTIONS}"
    actions = {
        "upstream": workers["direct"].action(upstream),
        "box": workers["checked"].action(inside),
    }
    samples = by_turns(rounds, actions)
    beyond_s = samples.beyond("box", "upstream") / _QUESTIONS
    medians = {name: took_s / _QUESTIONS for name, took_s in samples.medians.items()}
    return Row(
        "an answer of the box's resolver, over the upstream's",
        beyond_s * 1e3,
        unit="ms",
        budget=0.5,
        n=rounds,
        note=", ".join(f"{name} {s * 1e3:.3f} ms" for name, s in medians.items()),
        medians=medians,
    )


def launch_rows(session: Session) -> Iterator[Row]:
    """``axonkernel exec -- true`` with each kind of network."""
    folder = session.room("net-launch")
    blocks = {
        "no link": "allow = []",
        "names, pasta": 'allow = ["bench.test"]',
        "names checked, pasta": 'allow = ["bench.test"]\ntls_names = "check"',
        "names by a proxy": 'allow = ["bench.test"]\nproxy = "http://127.0.0.1:9"',
        "an address, veth": 'allow = ["198.51.100.1"]\nlink = "veth"',
    }
    actions = {"bare": timed(lambda: run(BARE))}
    for name, text in blocks.items():
        if "veth" in name and os.geteuid() != 0:
            continue
        policy = folder / f"{name.replace(' ', '-')}.toml"
        policy.write_text(f"[net]\n{text}\n")
        argv = [*axonkernel(), "exec", "--quiet", "--policy", str(policy), "--", "true"]
        actions[name] = timed(lambda argv=argv: run(argv))  # type: ignore[misc]
    rounds = session.rounds(31)
    samples = by_turns(rounds, actions)
    for name in actions:
        if name != "bare":
            yield Row(
                f"`axonkernel exec -- true` with {name}, beside bare bwrap",
                samples.ratio(name, "bare"),
                budget=18.0 if "pasta" in name else None,
                n=rounds,
                note=f"{samples.medians[name] * 1e3:.1f} ms",
                medians=samples.medians,
            )
