"""Words of a command that will be looked for in vain."""

from __future__ import annotations

from pathlib import Path

import pytest

from axonkernel.box.model import BoxPlan, Mount
from axonkernel.box.ungranted import ungranted


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("src/in.py", "src/no.py", "job.py", "other/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(words: list[str], *mounts: Mount) -> list[str]:
    return list(ungranted(BoxPlan(mounts=mounts), words))


def test_a_file_outside_the_grants_is_named_once(folder: Path) -> None:
    """What is granted, what does not exist and plain words are not."""
    src = str(folder / "src")
    words = ["job.py", "src/in.py", "src/", "./other", "other", "absent.py", "-x", "job.py"]
    assert found(words, Mount("tmpfs", "/tmp"), Mount("ro-bind", src, src)) == ["job.py", "./other"]


def test_what_covers_a_grant_counts_and_a_denied_file_was_not_forgotten(folder: Path) -> None:
    """The box's own scratch space hides files; a mask is somebody's will."""
    whole, own = Mount("bind", "/"), Mount("tmpfs", str(folder / "src"))
    assert found(["src/in.py", "job.py"], whole, own) == ["src/in.py"]
    assert found(["src/in.py"], whole) == []
    assert found(["src/in.py"], whole, Mount("mask-file", str(folder / "src/in.py"))) == []
