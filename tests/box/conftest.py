"""What the box tests share: a project, and commands run in boxes around it."""

from __future__ import annotations

from pathlib import Path

import pytest

from box.boxed import Boxed


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
