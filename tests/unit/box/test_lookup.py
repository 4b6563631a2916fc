"""Whether a program can be executed inside a tree, told before anything runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from axonkernel.box.lookup import NOT_EXECUTABLE, NOT_FOUND, require_program
from axonkernel.errors import BoxError

Ask = Callable[..., str]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A box's tree: /bin -> usr/bin, a program, a text, a folder, links."""
    tree = tmp_path / "root"
    (tree / "usr/bin").mkdir(parents=True)
    (tree / "bin").symlink_to("usr/bin")
    for name in ("tool", "sh"):
        (tree / "usr/bin" / name).write_bytes(b"\x7fELF")
        (tree / "usr/bin" / name).chmod(0o755)
    (tree / "usr/bin/text").write_text("x")
    (tree / "usr/bin/folder").mkdir()
    (tree / "usr/bin/link").symlink_to("/usr/bin/tool")
    (tree / "usr/bin/out").symlink_to("/../../../../usr/bin/tool")
    (tree / "usr/bin/dangling").symlink_to("/nowhere")
    (tree / "ws").mkdir()
    (tree / "ws/run").write_text("#!/bin/sh\n")
    (tree / "ws/run").chmod(0o755)
    return tree


@pytest.fixture
def ask(root: Path) -> Iterator[Ask]:
    """The stage that a name fails at, "" when it can be executed."""
    fd = os.open(root, os.O_PATH | os.O_DIRECTORY)

    def stage(name: str, cwd: str = "/ws", path: str = "/usr/local/bin:/bin") -> str:
        try:
            require_program(fd, name, cwd, path)
        except BoxError as error:
            assert name in error.message
            return error.stage
        return ""

    yield stage
    os.close(fd)


@pytest.mark.parametrize("name", ["tool", "link", "out", "/bin/tool", "/usr/bin/link", "./run",
                                  "../bin/tool", "/ws/../bin/tool"])  # fmt: skip
def test_what_can_be_executed(ask: Ask, name: str) -> None:
    """By name on PATH, by path, through links that stay inside the tree."""
    assert ask(name) == ""


@pytest.mark.parametrize("name", ["nope", "/nope", "./tool", "run", "dangling", "/usr/bin/nope"])
def test_what_is_not_there(ask: Ask, name: str) -> None:
    """127: a name with a slash is not looked up on PATH, one without not in the folder."""
    assert ask(name) == NOT_FOUND


@pytest.mark.parametrize("name", ["text", "folder", "/usr/bin/text", "/usr/bin", "/"])
def test_what_is_there_and_no_program(ask: Ask, name: str) -> None:
    """126."""
    assert ask(name) == NOT_EXECUTABLE


def test_the_first_executable_on_path_counts(root: Path, ask: Ask) -> None:
    """What cannot be executed is passed over, as a shell does."""
    (root / "usr/local/bin").mkdir(parents=True)
    (root / "usr/local/bin/tool").write_text("x")
    assert ask("tool") == ""
    (root / "usr/bin/tool").unlink()
    assert ask("tool") == NOT_EXECUTABLE


def test_an_empty_path_finds_nothing(ask: Ask) -> None:
    """An empty entry is not the working directory."""
    assert ask("tool", path="") == NOT_FOUND
    assert ask("run", path=":") == NOT_FOUND


@pytest.mark.parametrize(
    ("first", "stage"),
    [
        (b"#!/bin/sh", ""),
        (b"#! /usr/bin/tool -x", ""),
        (b"#!/nowhere/interp", NOT_EXECUTABLE),
        (b"#! /nowhere/interp -x", NOT_EXECUTABLE),
        (b"#!", ""),
        (b"text", ""),
        (b"", ""),
    ],
)
def test_the_interpreter_of_a_script(root: Path, ask: Ask, first: bytes, stage: str) -> None:
    """It must be there as well; what is no script is the kernel's to judge."""
    (root / "usr/bin/script").write_bytes(first + b"\nrest")
    (root / "usr/bin/script").chmod(0o755)
    assert ask("script") == stage


def test_the_message_names_the_interpreter(root: Path) -> None:
    """And what to do about it."""
    (root / "usr/bin/script").write_text("#!/nowhere/interp\n")
    (root / "usr/bin/script").chmod(0o755)
    fd = os.open(root, os.O_PATH | os.O_DIRECTORY)
    with pytest.raises(BoxError, match="/nowhere/interp is not in the box"):
        require_program(fd, "script", "/", "/bin")
    os.close(fd)


def test_a_file_without_its_mode_is_told_the_fix(root: Path) -> None:
    """By the name that was given; a folder is no matter of chmod."""
    (root / "ws/script").write_text("#!/bin/sh\n")
    (root / "ws/script").chmod(0o644)
    fd = os.open(root, os.O_PATH | os.O_DIRECTORY)
    try:
        with pytest.raises(BoxError, match=r"not an executable file; fix: chmod \+x \./script$"):
            require_program(fd, "./script", "/ws", "/bin")
        with pytest.raises(BoxError, match=r"not an executable file$"):
            require_program(fd, "folder", "/ws", "/bin")
    finally:
        os.close(fd)
