"""The folder, the kernels and the repository of the tests in this folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from axonkernel import Kernel
from unit.memory import MemoryAudit
from unit.seed_axon.world import Make, Repository


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    (folder / "src").mkdir(parents=True)
    (folder / "output").mkdir()
    (folder / "src" / "a.txt").write_text("text of a")
    (folder / "secret.txt").write_text("KEY")
    return folder


@pytest.fixture
def audit() -> MemoryAudit:
    return MemoryAudit()


@pytest.fixture
def make(ws: Path, audit: MemoryAudit) -> Iterator[Make]:
    with ExitStack() as made:

        def kernel(policy: Any, **options: Any) -> Kernel:
            return made.enter_context(Kernel(policy, cwd=ws, audit=audit, **options))

        yield kernel


@pytest.fixture
def repository(tmp_path: Path, ws: Path) -> Repository:
    return Repository(tmp_path, ws)
