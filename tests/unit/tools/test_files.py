"""The file tools touch exactly the path that was judged."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from axonkernel.errors import LimitExceeded, PolicyDenied, ToolError
from axonkernel.tools.beneath import open_judged
from axonkernel.tools.files import edit, read, remove, write
from tests.unit.tools.conftest import Judge


def test_write_then_read(judge: Judge, workspace: Path) -> None:
    """What was written is read back; missing granted folders are made."""
    path = str(workspace / "out" / "a" / "b.txt")
    (workspace / "out").mkdir()
    assert write(judge, path, "héllo") == 6
    assert read(judge, path) == "héllo"
    assert read(judge, path, offset=3, limit=2) == "ll"


def test_a_shorter_text_replaces_all_of_a_longer_one(judge: Judge, workspace: Path) -> None:
    """Nothing of the old content stays."""
    path = workspace / "f"
    path.write_text("a long old text")
    write(judge, str(path), "new")
    assert path.read_text() == "new"


def test_folders_outside_the_grant_are_not_made(judge: Judge, workspace: Path) -> None:
    """Making the missing folders of a path needs a grant for each of them."""
    with pytest.raises(PolicyDenied) as caught:
        write(judge, str(workspace / "other" / "f"), "x")
    assert caught.value.code == "fs.write"
    assert not (workspace / "other").exists()


@pytest.mark.parametrize("name", ["leaf", "folder/leaf"])
def test_a_symlink_put_there_since_is_not_followed(
    judge: Judge, workspace: Path, name: str
) -> None:
    """The judged path holds a link by now: neither read nor written through."""
    outside = workspace.parent / "outside"
    outside.mkdir()
    (outside / "leaf").write_text("secret")
    if "/" in name:
        (workspace / "folder").symlink_to(outside)
    else:
        (workspace / "leaf").symlink_to(outside / "leaf")
    path = str(workspace / name)
    with pytest.raises(ToolError):
        read(judge, path)
    with pytest.raises(ToolError):
        write(judge, path, "changed")
    assert (outside / "leaf").read_text() == "secret"


def test_swapping_a_folder_for_a_link_never_wins(workspace: Path) -> None:
    """A race between a folder and a link to elsewhere: only the real file is ever read."""
    real, outside = workspace / "real", workspace.parent / "outside"
    for folder, text in ((real, "mine"), (outside, "secret")):
        folder.mkdir()
        (folder / "f").write_text(text)
    link, place, spare = workspace / "link", workspace / "place", workspace / "spare"
    link.symlink_to(outside)
    real.rename(place)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            place.rename(spare)
            link.rename(place)
            place.rename(link)
            spare.rename(place)

    thread = threading.Thread(target=swap)
    thread.start()
    seen = set()
    try:
        for _ in range(3000):
            try:
                with open_judged(str(place / "f"), os.O_RDONLY) as file:
                    seen.add(os.read(file, 100))
            except OSError:
                pass
    finally:
        stop.set()
        thread.join()
    assert seen == {b"mine"}


@pytest.mark.parametrize("kind", ["fifo", "folder", "device"])
def test_what_is_no_regular_file_is_refused_at_once(
    judge: Judge, workspace: Path, kind: str
) -> None:
    """A FIFO does not hold the caller, a device is not commanded."""
    path = workspace / "x"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    with pytest.raises(ToolError):
        read(judge, "/dev/zero" if kind == "device" else str(path))
    with pytest.raises(ToolError):
        write(judge, "/dev/null" if kind == "device" else str(path), "x")


def test_a_file_over_the_output_limit_is_not_returned(judge: Judge, workspace: Path) -> None:
    """One call returns no more than the limit; a part of the file still can be had."""
    path = workspace / "big"
    path.write_bytes(b"x" * 20_000)
    with pytest.raises(LimitExceeded) as caught:
        read(judge, str(path))
    assert (caught.value.kind, caught.value.limit) == ("output", 10_000)
    assert len(read(judge, str(path), limit=10_000)) == 10_000


def test_names_that_are_not_utf8_are_files_too(judge: Judge, workspace: Path) -> None:
    """A name of arbitrary bytes is read and written."""
    (workspace / "out").mkdir()
    path = os.fsdecode(os.fsencode(workspace / "out") + b"/\xff\xfe[x]*")
    write(judge, path, "x")
    assert read(judge, path) == "x"


def test_edit_replaces_the_one_place(judge: Judge, workspace: Path) -> None:
    """Exactly one match is replaced; none or several is an error that changes nothing."""
    path = workspace / "f"
    path.write_text("a b b")
    assert edit(judge, str(path), "a", "c") == 1
    for old in ("b", "missing", ""):
        with pytest.raises(ToolError):
            edit(judge, str(path), old, "x")
    assert path.read_text() == "c b b"
    assert edit(judge, str(path), "b", "d", every=True) == 2
    assert path.read_text() == "c d d"


def test_remove_takes_the_link_and_not_its_target(judge: Judge, workspace: Path) -> None:
    """A symlink is removed itself; files and empty folders too, full ones not."""
    (workspace / "target").write_text("x")
    (workspace / "link").symlink_to("target")
    remove(judge, str(workspace / "link"))
    assert not (workspace / "link").is_symlink() and (workspace / "target").exists()
    (workspace / "full").mkdir()
    (workspace / "full" / "f").write_text("")
    with pytest.raises(ToolError):
        remove(judge, str(workspace / "full"))
    remove(judge, str(workspace / "full" / "f"))
    remove(judge, str(workspace / "full"))
    assert not (workspace / "full").exists()


def test_no_descriptor_is_left_open(judge: Judge, workspace: Path) -> None:
    """Errors on the way close what was opened."""
    (workspace / "a").mkdir()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with pytest.raises(ToolError):
            read(judge, str(workspace / "a" / "missing" / "f"))
        with pytest.raises(ToolError):
            read(judge, str(workspace / "a"))
    assert len(os.listdir("/proc/self/fd")) == before
