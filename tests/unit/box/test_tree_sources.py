"""What is mounted is what was looked at, or the box is not made."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from axonkernel.box.tree import open_source
from axonkernel.errors import BoxError


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A grant with a file and a folder in it, and a secret beside it."""
    real = tmp_path.resolve()
    (real / "grant/folder").mkdir(parents=True)
    (real / "grant/folder/file").write_text("own")
    (real / "secret").mkdir()
    (real / "secret/file").write_text("secret")
    return real


def opened(path: Path) -> str:
    """Where the descriptor of a source leads."""
    fd = open_source(str(path))
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)


def test_what_is_in_its_place_is_opened(tree: Path) -> None:
    """Files, folders and devices, by their own names."""
    for path in (tree / "grant/folder/file", tree / "grant/folder", Path("/"), Path("/dev/null")):
        assert opened(path) == str(path)


def link_for_the_file(tree: Path) -> None:
    (tree / "grant/folder/file").unlink()
    (tree / "grant/folder/file").symlink_to(tree / "secret/file")


def link_for_the_folder(tree: Path) -> None:
    (tree / "grant/folder").rename(tree / "grant/aside")
    (tree / "grant/folder").symlink_to(tree / "secret")


def dangling_link(tree: Path) -> None:
    (tree / "grant/folder/file").unlink()
    (tree / "grant/folder/file").symlink_to("nowhere")


REPLACED = (link_for_the_file, link_for_the_folder, dangling_link)


@pytest.mark.parametrize("replace", REPLACED, ids=lambda each: each.__name__)
def test_a_link_put_in_its_place_is_refused(tree: Path, replace: Callable[[Path], None]) -> None:
    """At the end of the path or on its way; no descriptor stays open."""
    replace(tree)
    before = sorted(os.listdir("/proc/self/fd"))
    with pytest.raises(BoxError, match=r"grant/folder/file was replaced") as caught:
        open_source(str(tree / "grant/folder/file"))
    assert caught.value.stage == "mounts"
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_a_source_that_is_gone_is_named(tree: Path) -> None:
    """With what the system says of it."""
    with pytest.raises(BoxError, match="nowhere: No such file"):
        open_source(str(tree / "nowhere"))
