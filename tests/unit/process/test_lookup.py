"""A program's name stands for one file, found where nobody else can put one."""

from __future__ import annotations

from pathlib import Path

import pytest

from axonkernel.policy.model import FsPolicy, Policy, ShellPolicy
from axonkernel.process import Lookup


def _program(path: Path, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\necho mine\n")
    path.chmod(mode)
    return path


def test_a_bare_name_is_found_on_the_path(tmp_path: Path) -> None:
    """The first folder that has it, as an executable file."""
    _program(tmp_path / "a" / "tool", 0o644)
    second = _program(tmp_path / "b" / "tool")
    found = Lookup(Policy(), {"PATH": f"{tmp_path}/a:{tmp_path}/b"}).find("tool", "/")
    assert (found.name, found.file) == (str(second), str(second))


@pytest.mark.parametrize("entry", ["", ".", "bin"])
def test_relative_entries_name_no_program(tmp_path: Path, entry: str) -> None:
    """The working directory cannot stand in for a folder on the PATH."""
    _program(tmp_path / "bin" / "tool")
    _program(tmp_path / "tool")
    assert Lookup(Policy(), {"PATH": entry}).find("tool", str(tmp_path)).file is None


def test_folders_others_can_write_name_no_program(tmp_path: Path) -> None:
    """World-writable entries and the agent's own write grants are left out."""
    _program(tmp_path / "open" / "tool")
    (tmp_path / "open").chmod(0o777)
    environ = {"PATH": f"{tmp_path}/open"}
    assert Lookup(Policy(), environ).find("tool", "/").file is None
    (tmp_path / "open").chmod(0o755)
    assert Lookup(Policy(), environ).find("tool", "/").file is not None
    policy = Policy(fs=FsPolicy(write=(str(tmp_path),)))
    assert Lookup(policy, environ).find("tool", "/").file is None


def test_shell_path_replaces_the_path(tmp_path: Path) -> None:
    """Declared folders are the only ones."""
    mine = _program(tmp_path / "mine" / "tool")
    _program(tmp_path / "other" / "tool")
    policy = Policy(shell=ShellPolicy(allow=("tool",), path=(str(tmp_path / "mine"),)))
    environ = {"PATH": f"{tmp_path}/other"}
    assert Lookup(policy, environ).find("tool", "/").file == str(mine)
    assert Lookup(policy, environ).find("ls", "/").file is None


def test_a_relative_path_counts_from_the_working_directory(tmp_path: Path) -> None:
    """``./tool`` is the file there, never one on the PATH."""
    mine = _program(tmp_path / "tool")
    lookup = Lookup(Policy(), {"PATH": "/usr/bin:/bin"})
    assert lookup.find("./tool", str(tmp_path)).file == str(mine)
    assert lookup.find("./ls", str(tmp_path)).file is None


def test_a_link_is_named_by_its_name_and_run_as_its_file(tmp_path: Path) -> None:
    """Virtual environments and busybox look at the name; what runs is the real file."""
    real = _program(tmp_path / "lib" / "tool-1.2")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tool").symlink_to("../lib/tool-1.2")
    found = Lookup(Policy(), {"PATH": f"{tmp_path}/bin"}).find("tool", "/")
    assert (found.name, found.file) == (f"{tmp_path}/bin/tool", str(real))


@pytest.mark.parametrize("word", ["", "a\0b", "/", "."])
def test_words_that_are_no_program(word: str) -> None:
    """No exception, no file."""
    assert Lookup(Policy(), {"PATH": "/usr/bin"}).find(word, "/").file is None
