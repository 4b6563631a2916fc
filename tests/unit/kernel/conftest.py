"""Kernels over a temporary workspace, and a log to look into."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from axonkernel import Kernel
from unit.memory import MemoryAudit


@pytest.fixture
def audit() -> MemoryAudit:
    return MemoryAudit()


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    """A workspace with a file to read, a folder to write, and a secret."""
    folder = tmp_path / "ws"
    (folder / "out").mkdir(parents=True)
    (folder / "a.txt").write_text("text of a")
    (folder / "secret.txt").write_text("KEY")
    return folder


@pytest.fixture
def make(ws: Path, audit: MemoryAudit) -> Callable[..., Kernel]:
    """Makes a kernel that mediates only, unless the policy says otherwise."""

    def kernel(policy: Any = None, **options: Any) -> Kernel:
        if isinstance(policy, dict):
            policy = {"isolation": "none", **policy}
        return Kernel(policy, cwd=ws, audit=audit, **{"confine": "mediator", **options})

    return kernel
