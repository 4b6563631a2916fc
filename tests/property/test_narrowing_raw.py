"""The law of narrowing below the mediator: what a worker can do raw is what ``decide`` allows.

A base and an overlay are drawn, and hold for a request whose handler tries everything by the C
library: files of a small tree, addresses of listeners of the test's own, programs, variables.
One zygote serves all examples. In the kinds that have a wall an attempt gets through exactly when
all policies allow it; except that Landlock cannot take a name out of a grant, so beside such a
name nothing new can be made and folders cannot always be listed: closed, though allowed.
"""

from __future__ import annotations

import contextlib
import os
import socket
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
net_blocks = st.sampled_from([{"allow": []}, {"allow": True}])
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


@pytest.fixture(scope="module")
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        server.setblocking(False)
        yield server


def attempts(folder: Path, port: int) -> list[tuple[list[Any], Any]]:
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
    found.append((["tcp", port], Request.connect(f"127.0.0.1:{port}")))
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


def parsed(data: Any, folder: Path) -> Policy:
    """A policy; what is drawn and makes no sense, such as a protected name twice, is drawn anew."""
    try:
        return parse(data, base=str(folder))
    except PolicyError:
        reject()


def law_holds(
    kernel: Kernel, folder: Path, listener: socket.socket, base: Any, overlay: Any
) -> None:
    base, overlay = parsed(base, folder), parsed(overlay, folder)
    restore(folder)
    with contextlib.suppress(BlockingIOError):
        while True:  # of the example before
            listener.accept()[0].close()
    exact = attempts(folder, listener.getsockname()[1])
    weaker = once(folder)
    tried = [attempt for attempt, _ in (*exact, *weaker)]
    with kernel.narrow(base):
        answers = kernel.request_sync(tried, policy=overlay)
        with kernel.narrow(overlay) as narrowed:
            allowed = [
                narrowed.check(request).verdict == "allow" for _, request in (*exact, *weaker)
            ]
    for (attempt, _), answer, verdict in zip(exact, answers, allowed, strict=False):
        assert (answer == "ok") == verdict, (attempt, answer)
    for (attempt, _), answer, verdict in zip(
        weaker, answers[len(exact) :], allowed[len(exact) :], strict=True
    ):
        assert answer != "ok" or verdict, (attempt, answer)


CHECKED = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)


@settings(CHECKED, max_examples=40)
@given(base=policies, overlay=policies)
def test_a_worker_can_do_exactly_what_is_allowed(
    kernel: Kernel, folder: Path, listener: socket.socket, base: Any, overlay: Any
) -> None:
    """Base and overlay drawn from the same words; all attempts in one worker each."""
    law_holds(kernel, folder, listener, base, overlay)


@pytest.mark.deep
@pytest.mark.timeout(3600)
@settings(CHECKED, max_examples=10_000)
@given(base=policies, overlay=policies)
def test_a_worker_can_do_exactly_what_is_allowed_in_depth(
    kernel: Kernel, folder: Path, listener: socket.socket, base: Any, overlay: Any
) -> None:
    """The same, ten thousand times."""
    law_holds(kernel, folder, listener, base, overlay)
