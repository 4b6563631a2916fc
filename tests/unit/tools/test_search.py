"""Searching tools judge what they find, not only where they look."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from axonkernel.errors import ToolError
from axonkernel.tools.search import glob, grep, list_folder
from tests.unit.tools.conftest import Judge


@pytest.fixture
def tree(workspace: Path) -> Path:
    for name in ("a.txt", "secret.txt", "sub/b.txt", "sub/secret.txt", "private/c.txt", "d.py"):
        path = workspace / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"KEY in {name}\nnothing\n")
    return workspace


def test_list_leaves_out_what_may_not_be_read(judge: Judge, tree: Path) -> None:
    """Denied entries are counted and not named."""
    listing = list_folder(judge, str(tree))
    names = [entry["name"] for entry in listing["entries"]]
    assert names == ["a.txt", "d.py", "sub"]
    assert listing["hidden"] == 2
    assert listing["entries"][2]["kind"] == "folder"


def test_glob_leaves_out_what_may_not_be_read(judge: Judge, tree: Path) -> None:
    """``**`` crosses folders, and never returns a denied file."""
    found = glob(judge, "**/*.txt", str(tree))
    assert found["paths"] == [f"{tree}/a.txt", f"{tree}/sub/b.txt"]
    assert found["hidden"] == 3
    assert glob(judge, "*.txt", str(tree))["paths"] == [f"{tree}/a.txt"]


def test_grep_never_shows_a_line_of_a_denied_file(judge: Judge, tree: Path) -> None:
    """The secret's text is in no result."""
    found = grep(judge, "KEY", str(tree))
    assert [match["path"] for match in found["matches"]] == [
        f"{tree}/a.txt",
        f"{tree}/d.py",
        f"{tree}/sub/b.txt",
    ]
    assert found["hidden"] == 3
    assert "secret" not in repr(found) and "private" not in repr(found)


def test_grep_knows_lines_names_and_case(judge: Judge, tree: Path) -> None:
    """Line numbers count from 1, names narrow the files, a single file can be searched."""
    assert grep(judge, "nothing", str(tree), names="*.py")["matches"] == [
        {"path": f"{tree}/d.py", "line": 2, "text": "nothing"}
    ]
    assert grep(judge, "key", str(tree))["matches"] == []
    assert len(grep(judge, "key", str(tree), ignore_case=True)["matches"]) == 3
    assert grep(judge, "KEY", str(tree / "a.txt"))["matches"][0]["line"] == 1


def test_symlinks_tell_nothing_about_what_is_hidden(judge: Judge, tree: Path) -> None:
    """A link to a denied or an outside file is hidden; one to a readable file is listed."""
    (tree / "to_secret").symlink_to("secret.txt")
    (tree / "to_outside").symlink_to("/etc")
    (tree / "to_a").symlink_to("a.txt")
    listing = list_folder(judge, str(tree))
    names = {entry["name"]: entry["kind"] for entry in listing["entries"]}
    assert "to_secret" not in names and "to_outside" not in names
    assert names["to_a"] == "symlink"
    found = grep(judge, "root", str(tree))
    assert found["matches"] == []


def test_a_fifo_does_not_hold_a_search(judge: Judge, tree: Path) -> None:
    """Special files are passed over."""
    os.mkfifo(tree / "pipe")
    assert len(grep(judge, "KEY", str(tree))["matches"]) == 3


def test_results_are_capped(judge: Judge, tree: Path) -> None:
    """The output limit ends a search, which says so."""
    (tree / "many.log").write_text("needle and more\n" * 5_000)
    found = grep(judge, "needle", str(tree))
    assert found["truncated"] and 0 < len(found["matches"]) < 5_000
    assert not grep(judge, "KEY", str(tree))["truncated"]


@pytest.mark.parametrize("pattern", ["/etc/*", "../*", "a/../../*"])
def test_a_pattern_stays_below_its_folder(judge: Judge, tree: Path, pattern: str) -> None:
    """Absolute patterns and dots are refused."""
    with pytest.raises(ToolError):
        glob(judge, pattern, str(tree))


@pytest.mark.parametrize("tool", [list_folder, lambda j, p: glob(j, "*", p)])
def test_a_missing_folder_is_a_tool_error(judge: Judge, tree: Path, tool: Any) -> None:
    """The tool says so in the system's words."""
    with pytest.raises(ToolError, match="No such file"):
        tool(judge, str(tree / "missing"))
