"""A project of an ordinary user's, whose everyday work is done in boxes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from box.boxed import Boxed
from box.daily.session import Day
from lab.user import OrdinaryUser


@pytest.fixture(scope="module")
def day(box_cache: Path) -> Iterator[Day]:
    """Boxes around a folder that an ordinary user owns, so that they run as that user."""
    with OrdinaryUser() as user:
        root = user.home / "day"
        root.mkdir()
        for folder in (user.home, root):
            folder.chmod(0o755)
        box = Boxed(root, box_cache)
        os.chown(box.project, user.uid, user.uid)
        yield Day(box)
