"""What the box tests share: a project, and commands run in boxes around it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from axonkernel.box.launch import Launcher
from axonkernel.box.model import BoxPlan
from axonkernel.broker.wire import Ended
from box.boxed import Boxed
from box.door import Door
from box.plans import planned


@pytest.fixture(scope="session")
def box_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder of kept probes and plans for all box tests, as a user would have."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def box(tmp_path: Path, box_cache: Path) -> Boxed:
    """A project with ``a.txt``, ``secret.txt`` and an empty ``out``."""
    boxed = Boxed(tmp_path, box_cache)
    (boxed.project / "out").mkdir()
    (boxed.project / "a.txt").write_text("text of a")
    (boxed.project / "secret.txt").write_text("KEY-51c0")
    return boxed


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty project with a folder out/."""
    folder = tmp_path / "project"
    (folder / "out").mkdir(parents=True)
    return folder


@pytest.fixture
def plan(project: Path) -> BoxPlan:
    """A box for a program in the project."""
    return planned(project)


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    """A warm launcher."""
    made = Launcher()
    yield made
    made.close()


@pytest.fixture
def null() -> Iterator[int]:
    """The null device, open."""
    fd = os.open(os.devnull, os.O_RDWR)
    yield fd
    os.close(fd)


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    """A broker that says 7 to every call."""
    made = Door(tmp_path / "socket", lambda _: Ended(7))
    yield made
    made.listener.close()
