"""The law of narrowing below the mediator: what a worker can do raw is what ``decide`` allows.

A base and an overlay are drawn, and hold for a request whose handler tries everything by the C
library: files of a small tree, addresses and sockets of listeners of the test's own, signals to
a process of the test's own, programs, variables. One zygote serves all examples. In the kinds that
have a wall an attempt gets through exactly when all policies allow it; except that Landlock cannot
take a name out of a grant, so beside such a name nothing new can be made and folders cannot always
be listed: closed, though allowed. No word of a policy is about signals and unix sockets: they are
closed to every request that is held at all. What is refused has also left nothing behind.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from axonkernel import Kernel, PolicyError, Request
from axonkernel.policy.model import Policy
from axonkernel.policy.parse import parse
from box import raw_worker
from unit.memory import MemoryAudit

pytestmark = pytest.mark.box

FOLDERS = (".", "a", "a/b", "a/b/c", "d", "d/.git", "d/.git/hooks")
FILES = tuple(f"{folder}/{name}" for folder in FOLDERS for name in ("f", "x.key"))
PROGRAMS = ("true", "expr", "test")

paths = st.sampled_from([*FOLDERS, *FILES])
patterns = st.sampled_from(["**/*.key", "a/**/f", "d/*", "a/b/f", "a/b", "d/f", "nothing"])
fs_blocks = st.fixed_dictionaries(
    {},
    optional={
        "read": st.lists(paths, max_size=4),
        "write": st.lists(paths, max_size=3),
        "deny": st.lists(patterns, max_size=2),
        "protect": st.sampled_from([False, ["a/f"], ["**/.git/hooks", "a/b/c"]]),
    },
).filter(lambda block: "read" in block or "write" in block)
#: A and B stand for the ports of the two listeners.
net_blocks = st.sampled_from(
    [{"allow": []}, {"allow": True}]
    + [{"allow": [f"127.0.0.1:{port}" for port in ports]} for ports in ("A", "B", "AB")]
)
shell_blocks = st.one_of(
    st.just(False), st.fixed_dictionaries({"allow": st.lists(st.sampled_from(PROGRAMS))})
)
env_blocks = st.fixed_dictionaries({"allow": st.lists(st.sampled_from(["MODE", "TOKEN", "T*"]))})
policies = st.fixed_dictionaries(
    {"isolation": st.just("auto")},
    optional={"fs": fs_blocks, "net": net_blocks, "shell": shell_blocks, "env": env_blocks},
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("law") / "w"
    for each in FOLDERS:
        (folder / each).mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def kernel(folder: Path) -> Iterator[Kernel]:
    os.environ.update(MODE="m", TOKEN="t")
    handler = raw_worker.attempt
    with Kernel({"tools": {"*": True}}, cwd=folder, handler=handler, audit=MemoryAudit()) as kernel:
        yield kernel
    for name in ("MODE", "TOKEN"):
        del os.environ[name]


class Others:
    """Who a worker could reach: listeners, and a process that says when it gets a signal."""

    def __init__(self, folder: Path) -> None:
        self.at = str(folder)
        self.tcp = {port: socket.create_server(("127.0.0.1", 0), backlog=128) for port in "AB"}
        self.tcp6 = socket.create_server(("::1", 0), family=socket.AF_INET6, backlog=128)
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        self.unix, self.abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        self.unix.bind(f"{self.at}/sock")
        self.name = f"axonkernel-law-{os.getpid()}"
        self.abstract.bind(f"\0{self.name}")
        for each in (self.unix, self.abstract):
            each.listen(128)
        self.datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.datagrams.bind(f"{self.at}/datagrams")
        for each in self.sockets():
            each.setblocking(False)
        self.process = subprocess.Popen([sys.executable, "-ISc", HURT], stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.heard = self.process.stdout.fileno()
        os.read(self.heard, 1)

    def sockets(self) -> dict[socket.socket, str]:
        """Each with the attempt that leaves something in it."""
        return {
            self.tcp["A"]: "tcp A", self.tcp["B"]: "tcp B", self.tcp6: "tcp6", self.udp: "udp",
            self.unix: "unix", self.abstract: "abstract", self.datagrams: "datagram_pair",
        }  # fmt: skip

    def port(self, letter: str) -> int:
        return int(self.tcp[letter].getsockname()[1])

    def reached(self) -> set[str]:
        """Which attempts left something; it is taken away."""
        found = set()
        for each, attempt in self.sockets().items():
            with contextlib.suppress(BlockingIOError):
                while True:
                    if each.type == socket.SOCK_STREAM:
                        each.accept()[0].close()
                    else:
                        each.recv(1)
                    found.add(attempt)
        return found

    def signalled(self, wait_s: float) -> bool:
        """Whether the process has got a signal since the last time."""
        if not select.select([self.heard], [], [], wait_s)[0]:
            return False
        os.read(self.heard, 64)
        return True

    def close(self) -> None:
        for each in self.sockets():
            each.close()
        self.process.kill()
        self.process.communicate()


HURT = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
while os.write(1, b"x"):
    signal.sigwait([signal.SIGUSR1])
"""


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Others]:
    others = Others(tmp_path_factory.mktemp("others"))
    yield others
    others.close()


def destinations(data: Any) -> set[str]:
    """What a policy as it is written grants of the network, of what is tried."""
    allow = data.get("net", {}).get("allow", True)
    return {"A", "B", "others"} if allow is True else {each[-1] for each in allow}


def reaching(others: Others, base: Any, overlay: Any) -> dict[str, tuple[list[Any], bool | None]]:
    """What is tried against others, by name, with what the policies say of it; None where no
    wall holds it: TCP to a part of the network is held by port, the rest of it is not."""
    granted = destinations(base) & destinations(overlay)
    rest = None if 0 < len(granted) < 3 else bool(granted)
    held = {"fs", "net", "shell", "env"} & {*base, *overlay}
    free, pid = not held, others.process.pid
    return {
        "tcp A": (["tcp", others.port("A")], "A" in granted),
        "tcp B": (["tcp", others.port("B")], "B" in granted),
        "tcp6": (["tcp6", others.tcp6.getsockname()[1]], bool(granted) if rest else rest),
        "udp": (["udp", others.udp.getsockname()[1]], rest),
        "bind": (["bind", 0], bool(granted)),
        "inet": (["socket", socket.AF_INET, socket.SOCK_STREAM, 0], bool(granted)),
        "unix": (["unix", f"{others.at}/sock"], free),
        "abstract": (["unix", f"@{others.name}"], free),
        "datagram_pair": (["datagram_pair", f"{others.at}/datagrams"], free),
        "pair": (["pair"], True),
        "kill": (["kill", pid], free),
        "pidfd_kill": (["pidfd_kill", pid], free),
        "kill_child": (["kill_child"], True),
    }


def attempts(folder: Path) -> list[tuple[list[Any], Any]]:
    """What is tried, each with what is asked of ``decide``."""
    found: list[tuple[list[Any], Any]] = []
    for name in FILES:
        path = os.path.normpath(folder / name)
        found.append((["read", path], Request.read(path)))
        found.append((["write", path], Request.write(path)))
        found.append((["truncate", path], Request.write(path)))
    for name in PROGRAMS:
        words = [f"/usr/bin/{name}", *(["1"] if name != "true" else [])]
        found.append((["execute", *words], Request.process([name])))
    found += [(["variable", name], Request.env(name)) for name in ("MODE", "TOKEN")]
    return found


def once(folder: Path) -> list[tuple[list[Any], Any]]:
    """What may be closed though it is allowed, and never the other way round."""
    found: list[tuple[list[Any], Any]] = []
    for name in FOLDERS:
        path = os.path.normpath(folder / name)
        new = os.path.join(path, "new")
        found.append((["list", path], Request.read(path)))
        found.append((["create", new], Request.write(new)))
        found.append((["rename", f"{path}/f", f"{path}/g"], Request.write(f"{path}/f")))
        found.append((["unlink", f"{path}/x.key"], Request.write(f"{path}/x.key")))
    return found


def restore(folder: Path) -> None:
    for name in FILES:
        (folder / name).write_text("text")
    for name in FOLDERS:
        for new in ("new", "g"):
            (folder / name / new).unlink(missing_ok=True)


def parsed(data: Any, folder: Path, others: Others) -> Policy:
    """A policy; what is drawn and makes no sense, such as a protected name twice, is drawn anew."""
    net = data.get("net", {"allow": True})
    if net["allow"] is not True:
        net = {"allow": [f"127.0.0.1:{others.port(each[-1])}" for each in net["allow"]]}
        data = {**data, "net": net}
    try:
        return parse(data, base=str(folder))
    except PolicyError:
        reject()


def law_holds(kernel: Kernel, folder: Path, others: Others, base: Any, overlay: Any) -> None:
    outward = reaching(others, base, overlay)
    base, overlay = parsed(base, folder, others), parsed(overlay, folder, others)
    restore(folder)
    exact = attempts(folder)
    weaker = once(folder)
    tried = [attempt for attempt, _ in (*exact, *weaker)]
    with kernel.narrow(base):
        answers = kernel.request_sync(
            [*tried, *(attempt for attempt, _ in outward.values())], policy=overlay
        )
        with kernel.narrow(overlay) as narrowed:
            allowed = [
                narrowed.check(request).verdict == "allow" for _, request in (*exact, *weaker)
            ]
            for port in "AB":
                request = Request.connect(f"127.0.0.1:{others.port(port)}")
                verdict = narrowed.check(request).verdict == "allow"
                assert outward[f"tcp {port}"][1] == verdict
    law_holds_outward(others, outward, answers[len(tried) :])
    refused = [a for (a, _), verdict in zip(exact, allowed, strict=False) if not verdict]
    for path in (each[1] for each in refused if each[0] == "write"):
        assert Path(path).read_text() == "text", path
    for (attempt, _), answer, verdict in zip(exact, answers, allowed, strict=False):
        assert (answer == "ok") == verdict, (attempt, answer)
    for (attempt, _), answer, verdict in zip(
        weaker, answers[len(exact) : len(tried)], allowed[len(exact) :], strict=True
    ):
        assert answer != "ok" or verdict, (attempt, answer)


def law_holds_outward(
    others: Others, outward: dict[str, tuple[list[Any], bool | None]], answers: list[str]
) -> None:
    said = dict(zip(outward, answers, strict=True))
    expected = {name: verdict for name, (_, verdict) in outward.items() if verdict is not None}
    assert {name: said[name] == "ok" for name in expected} == expected, said
    left = set(others.sockets().values()) & {n for n, answer in said.items() if answer == "ok"}
    assert others.reached() == left
    may_signal = expected["kill"]
    assert others.signalled(10.0 if may_signal else 0.0) == may_signal


CHECKED = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)


@settings(CHECKED, max_examples=40)
@given(base=policies, overlay=policies)
def test_a_worker_can_do_exactly_what_is_allowed(
    kernel: Kernel, folder: Path, others: Others, base: Any, overlay: Any
) -> None:
    """Base and overlay drawn from the same words; all attempts in one worker each."""
    law_holds(kernel, folder, others, base, overlay)


@pytest.mark.deep
@pytest.mark.timeout(3600)
@settings(CHECKED, max_examples=10_000)
@given(base=policies, overlay=policies)
def test_a_worker_can_do_exactly_what_is_allowed_in_depth(
    kernel: Kernel, folder: Path, others: Others, base: Any, overlay: Any
) -> None:
    """The same, ten thousand times."""
    law_holds(kernel, folder, others, base, overlay)
