"""What every test can ask for.

``@pytest.mark.requires("box", "net", "scope", "lab", "programs", "root", "user")``
    Skips, with a reason that names what to install, where this machine lacks the wall.
    A wall named in ``AXON_REQUIRE`` (comma list) fails instead: nothing is skipped by
    accident where it must run. The walls are described in ``lab.walls``.

Fixtures: ``lab`` (one throw-away systemd per session), ``internet`` (a private internet of
its own), ``lab_internet`` (one linked to the lab), ``ordinary_user``, ``leftovers`` and
``lab_leftovers`` (what is there afterwards and was not before fails the test).
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import settings

from lab import leftovers as comparing
from lab.internet import Internet
from lab.systemd import SystemdLab
from lab.user import OrdinaryUser
from lab.walls import Walls

# Chosen with --hypothesis-profile. Time is not what these tests judge, so no deadlines.
settings.register_profile("dev", max_examples=100, deadline=None)
settings.register_profile("ci", max_examples=300, deadline=None, derandomize=True)
settings.register_profile("deep", max_examples=10_000, deadline=None)
settings.load_profile("dev")

WALLS = pytest.StashKey[Walls]()
REQUIRED = pytest.StashKey[frozenset[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and read AXON_REQUIRE."""
    walls = Walls()
    config.addinivalue_line("markers", "requires(*walls): skip where this machine lacks a wall")
    for name in sorted(walls.names):
        config.addinivalue_line("markers", f"{name}: the same as requires({name!r})")
    names = os.environ.get("AXON_REQUIRE", "").split(",")
    required = frozenset(name.strip() for name in names if name.strip())
    if unknown := required - walls.names:
        known = ", ".join(sorted(walls.names))
        raise pytest.UsageError(f"AXON_REQUIRE: unknown {sorted(unknown)}; known: {known}")
    config.stash[WALLS], config.stash[REQUIRED] = walls, required
    _hear_signals()


def _hear_signals() -> None:
    """nohup, and a shell that starts something in the background, have signals ignored; every
    program that a test starts would be deaf to them as well."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the session's lab."""
    if WALLS in config.stash:
        config.stash[WALLS].close()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let ``-m lab`` and ``-m "not box"`` select by required wall."""
    for marker in item.iter_markers("requires"):
        for name in marker.args:
            item.add_marker(name)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Demand the walls a test is marked with, before any fixture is made."""
    names = item.config.stash[WALLS].names
    for name in {marker.name for marker in item.iter_markers()} & names:
        demand(item.config, name)


def demand(config: pytest.Config, name: str) -> None:
    """Go on, skip, or fail where AXON_REQUIRE says so."""
    walls = config.stash[WALLS]
    reason = walls.missing(name)
    if reason and name in config.stash[REQUIRED]:
        pytest.fail(f"{name} is required here (AXON_REQUIRE): {reason}", pytrace=False)
    if reason:
        pytest.skip(f"{name}: {reason}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One closing line: how many tests were skipped, and why."""
    reports = terminalreporter.stats.get("skipped", [])
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in reports
        if isinstance(report.longrepr, tuple)
    )
    listed = "; ".join(f"{count} x {reason}" for reason, count in reasons.most_common())
    terminalreporter.write_line(f"skips by reason: {listed or 'none'}")


@pytest.fixture
def lab(request: pytest.FixtureRequest) -> SystemdLab:
    """The session's throw-away systemd, booted when the first test asks."""
    demand(request.config, "lab")
    return request.config.stash[WALLS].lab()


@pytest.fixture
def internet(request: pytest.FixtureRequest) -> Iterator[Internet]:
    """A private internet and a namespace to use it from (``internet.run``)."""
    demand(request.config, "root")
    with Internet() as net:
        yield net


@pytest.fixture
def lab_internet(lab: SystemdLab) -> Iterator[Internet]:
    """A private internet that the lab is linked to, names included."""
    before = lab.get("/etc/resolv.conf")
    with Internet(client=lab.leader) as net:
        lab.put("/etc/resolv.conf", net.resolv_conf)
        yield net
    lab.put("/etc/resolv.conf", before)


@pytest.fixture
def ordinary_user(request: pytest.FixtureRequest) -> Iterator[OrdinaryUser]:
    """A user without privilege and with a home; can read the checkout and run Python."""
    demand(request.config, "user")
    with OrdinaryUser() as user:
        yield user


@pytest.fixture
def leftovers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails the test when it leaves something on this machine."""
    walls = request.config.stash[WALLS]
    before = comparing.on_host(walls.holders())
    with comparing.adopting():
        yield
        found = comparing.left_over(before, lambda: comparing.on_host(walls.holders()))
    if found:
        pytest.fail("left on this machine:\n  " + "\n  ".join(found), pytrace=False)


@pytest.fixture
def lab_leftovers(lab: SystemdLab) -> Iterator[None]:
    """Fails the test when it leaves something in the lab."""
    before = comparing.in_lab(lab)
    yield
    found = comparing.left_over(before, lambda: comparing.in_lab(lab))
    if found:
        pytest.fail("left in the lab:\n  " + "\n  ".join(found), pytrace=False)
