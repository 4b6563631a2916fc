"""The file tools when the disk does not hold still: links, swaps, odd names, odd files."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from axonkernel import Kernel, LimitExceeded, PolicyDenied, ToolError
from axonkernel.tools import beneath, openat2
from axonkernel.tools.beneath import open_judged, parent_of
from axonkernel.tools.files import edit, read, remove, write
from axonkernel.tools.search import glob, grep, list_folder
from tests.unit.tools.conftest import Judge


@pytest.fixture(params=["openat2", "walk"])
def road(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to open a path; a box answers that there is no openat2."""
    if request.param == "walk":
        monkeypatch.setattr(beneath, "open_beneath", lambda *args: None)
    elif openat2._call() is None:
        pytest.skip("this kernel has no openat2")
    return str(request.param)


@contextmanager
def _swapping(one: Path, other: Path) -> Iterator[None]:
    """Exchanges two names over and over in another thread; neither is ever missing."""
    stop = threading.Event()
    exchange = ctypes.CDLL(None, use_errno=True).renameat2

    def run() -> None:
        while not stop.is_set():
            done = exchange(-100, os.fsencode(one), -100, os.fsencode(other), 2)
            assert done == 0, os.strerror(ctypes.get_errno())

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.fixture
def kernel(workspace: Path) -> Iterator[Kernel]:
    (workspace / "out").mkdir()
    policy = {
        "isolation": "none",
        "fs": {"read": ["."], "write": ["./out"], "deny": ["./out/private"]},
    }
    with Kernel(policy, cwd=workspace, audit=workspace.parent / "audit.log") as made:
        yield made


def _secret(workspace: Path) -> Path:
    outside = workspace.parent / "outside"
    outside.mkdir()
    (outside / "f").write_text("secret")
    return outside


def test_a_swapped_folder_never_wins(kernel: Kernel, workspace: Path, road: str) -> None:
    """A folder and a link to elsewhere change places while calls are judged and made."""
    outside, out = _secret(workspace), workspace / "out"
    (out / "place").mkdir()
    (out / "place" / "f").write_text("mine")
    (out / "link").symlink_to(outside)
    seen = set()
    with _swapping(out / "place", out / "link"):
        for _ in range(400):
            with suppress(PolicyDenied, ToolError):
                seen.add(kernel.call_sync("fs.read", path="out/place/f"))
            with suppress(PolicyDenied, ToolError):
                kernel.call_sync("fs.write", path="out/place/g", text="written")
    assert seen == {"mine"}
    assert os.listdir(outside) == ["f"]
    assert (outside / "f").read_text() == "secret"


def test_a_swapped_file_never_wins(kernel: Kernel, workspace: Path, road: str) -> None:
    """The same for the last place: a file and a link to a secret."""
    outside, out = _secret(workspace), workspace / "out"
    (out / "place").write_text("mine")
    (out / "link").symlink_to(outside / "f")
    seen = set()
    with _swapping(out / "place", out / "link"):
        for _ in range(400):
            with suppress(PolicyDenied, ToolError):
                seen.add(kernel.call_sync("fs.read", path="out/place"))
                kernel.call_sync("fs.write", path="out/place", text="mine")
            found = kernel.call_sync("fs.grep", text="secret", path="out")
            assert found["matches"] == []
    assert seen <= {"mine", ""} and "mine" in seen
    assert (outside / "f").read_text() == "secret"


def test_a_link_put_there_since_is_refused_by_either_road(workspace: Path, road: str) -> None:
    """In any place of the path; dots that lead out are no road either."""
    outside = _secret(workspace)
    (workspace / "a").symlink_to(outside)
    (workspace / "b").mkdir()
    (workspace / "b" / "f").symlink_to(outside / "f")
    for name in ("a/f", "b/f", "a"):
        with pytest.raises(OSError) as caught, open_judged(f"{workspace}/{name}", os.O_RDONLY):
            raise AssertionError("opened")
        assert caught.value.errno in (errno.ELOOP, errno.ENOTDIR)


def test_a_magic_link_is_refused(road: str) -> None:
    """What /proc offers as a link to an open file is not followed."""
    with pytest.raises(OSError), open_judged("/proc/self/root/etc/hostname", os.O_RDONLY):
        raise AssertionError("opened")


def test_both_roads_open_the_same(workspace: Path, road: str) -> None:
    """The positive twin: real folders, to any depth, and the root itself."""
    deep = workspace.joinpath(*["d"] * 50)
    deep.mkdir(parents=True)
    (deep / "f").write_text("x")
    with open_judged(str(deep / "f"), os.O_RDONLY) as file:
        assert os.read(file, 10) == b"x"
    with parent_of("/etc") as (folder, name):
        assert (os.readlink(f"/proc/self/fd/{folder}"), name) == ("/", "etc")
    with pytest.raises(FileNotFoundError), parent_of(str(workspace / "no" / "f")):
        raise AssertionError("opened")


def test_openat2_is_used_where_there_is_one(workspace: Path) -> None:
    """One step for all folders; a path that leaves its folder is refused."""
    if openat2._call() is None:
        pytest.skip("this kernel has no openat2")
    (workspace / "a").mkdir()
    folder = os.open(workspace, os.O_RDONLY)
    try:
        found = openat2.open_beneath(folder, "a", os.O_RDONLY | os.O_DIRECTORY)
        assert found is not None
        os.close(found)
        with pytest.raises(OSError) as caught:
            openat2.open_beneath(folder, "a/../../..", os.O_RDONLY)
        assert caught.value.errno == errno.EXDEV
    finally:
        os.close(folder)


def test_a_hard_link_is_not_written_through(judge: Judge, workspace: Path) -> None:
    """A name in the granted folder for a file of elsewhere: it can be removed, not changed."""
    outside = _secret(workspace)
    (workspace / "out").mkdir()
    os.link(outside / "f", workspace / "out" / "f")
    path = str(workspace / "out" / "f")
    for change in (lambda: write(judge, path, ""), lambda: edit(judge, path, "secret", "x")):
        with pytest.raises(ToolError, match="other names"):
            change()
    assert (outside / "f").read_text() == "secret"
    remove(judge, path)
    assert (outside / "f").read_text() == "secret"
    assert write(judge, path, "own") == 3


def test_a_huge_file_costs_no_more_than_what_is_asked(judge: Judge, workspace: Path) -> None:
    """A terabyte of nothing: parts can be read, the whole is refused at once."""
    path = str(workspace / "huge")
    with open(path, "wb") as file:
        file.truncate(1 << 40)
        file.seek((1 << 40) - 4)
        file.write(b"tail")
    assert read(judge, path, offset=(1 << 40) - 4) == "tail"
    assert read(judge, path, offset=1 << 41) == ""
    with pytest.raises(LimitExceeded):
        read(judge, path)
    with pytest.raises(LimitExceeded):
        edit(judge, path, "tail", "x")
    assert grep(judge, "tail", str(workspace))["matches"] == []


def test_odd_numbers_are_the_callers_error(kernel: Kernel, workspace: Path) -> None:
    """Offsets beyond what the system takes, and such that are none."""
    (workspace / "f").write_text("x")
    for offset in (1 << 70, "1", None):
        with pytest.raises(ToolError):
            kernel.call_sync("fs.read", path="f", offset=offset)
    assert kernel.call_sync("fs.read", path="f", offset=-5) == "x"


NAMES = [
    b"\xff\xfe",
    b"a\nb",
    b"-rf",
    b"*",
    b"[x]?",
    b" ",
    b"\\",
    b"\xe2\x80\xaeexe.txt",
    b"a\x1b[1m",
]


@pytest.mark.parametrize("raw", NAMES)
def test_any_name_goes_through_every_tool(kernel: Kernel, workspace: Path, raw: bytes) -> None:
    """Written, listed, found, searched, read and removed, through judge, record and disk."""
    name = os.fsdecode(raw)
    kernel.call_sync("fs.write", path=f"out/{name}", text="needle")
    assert os.listdir(os.fsencode(workspace / "out")) == [raw]
    listing = kernel.call_sync("fs.list", path="out")
    assert [entry["name"] for entry in listing["entries"]] == [name]
    path = f"{workspace}/out/{name}"
    assert kernel.call_sync("fs.glob", pattern="**", path="out")["paths"] == [path]
    found = kernel.call_sync("fs.grep", text="needle", path="out")
    assert [match["path"] for match in found["matches"]] == [path]
    assert kernel.call_sync("fs.read", path=path) == "needle"
    kernel.call_sync("fs.remove", path=path)
    assert os.listdir(workspace / "out") == []


def test_a_socket_is_no_file(judge: Judge, workspace: Path, monkeypatch: Any) -> None:
    """It is listed, and neither read nor written."""
    monkeypatch.chdir(workspace)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("s")
        (entry,) = list_folder(judge, str(workspace))["entries"]
        assert (entry["name"], entry["kind"]) == ("s", "other")
        for call in (
            lambda: read(judge, f"{workspace}/s"),
            lambda: write(judge, f"{workspace}/s", ""),
        ):
            with pytest.raises(ToolError):
                call()


@pytest.fixture
def deep(workspace: Path) -> Iterator[Path]:
    """A folder in a folder, 1,500 times; deeper than Python's own ``rmtree`` goes."""
    top = os.open(workspace, os.O_RDONLY)
    try:
        for _ in range(1500):
            os.mkdir("d", dir_fd=top)
            below = os.open("d", os.O_RDONLY, dir_fd=top)
            os.close(top)
            top = below
    finally:
        os.close(top)
    yield workspace
    subprocess.run(["rm", "-rf", str(workspace / "d")], check=True, timeout=60)


def test_a_very_deep_folder_ends_a_search(judge: Judge, deep: Path) -> None:
    """Neither the stack nor the descriptors run out; the result says that there was more."""
    (deep / "a.txt").write_text("needle")
    before = len(os.listdir("/proc/self/fd"))
    found = glob(judge, "**/*.txt", str(deep))
    assert found["paths"] == [f"{deep}/a.txt"] and found["truncated"]
    assert grep(judge, "needle", str(deep))["truncated"]
    assert len(os.listdir("/proc/self/fd")) == before
