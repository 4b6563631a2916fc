"""Tools have names that cannot be mistaken, and parameters that say what they touch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest

from axonkernel.errors import PolicyError, ToolError
from axonkernel.policy.request import Subject
from axonkernel.tools import (
    Argv,
    Host,
    Plain,
    ReadPath,
    Secret,
    ToolRegistry,
    WritePath,
    builtin_tools,
    tool_from,
)


def nothing() -> None:
    """Does nothing."""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("foo.bar/x", "foo_bar/x"),
        ("foo.bar", "foo_bar"),
        ("foo.bar", "foo.bar"),
        ("Foo.bar", "foo.bar"),
        ("a" * 64 + ".one", "a" * 64 + ".two"),
    ],
)
def test_names_that_would_share_an_alias_are_a_fault(first: str, second: str) -> None:
    """The fault names both tools, and the first stays what it was."""
    registry = ToolRegistry()
    registry.register(first, nothing)
    with pytest.raises(PolicyError) as caught:
        registry.register(second, lambda: None)
    assert first in str(caught.value) and second in str(caught.value)
    tool = registry.get(first)
    assert tool is not None and tool.function is nothing


def test_names_that_differ_are_fine() -> None:
    """Neighbours are told apart."""
    registry = ToolRegistry()
    for name in ("foo.bar", "foo.baz", "foo", "foo-bar", "foo.bar.x"):
        registry.register(name, nothing)
    assert len(list(registry)) == 5
    assert registry.get("foo_bar") is None


@pytest.mark.parametrize(
    "name", ["", ".", "a.", ".a", "a..b", "a b", "a\nb", "a*", "*", "fs.re\u0430d", "x" * 201]
)
def test_malformed_names_are_a_fault(name: str) -> None:
    """Blanks, wildcards, look-alike letters and empty segments are refused."""
    with pytest.raises(PolicyError):
        ToolRegistry().register(name, nothing)


@pytest.mark.parametrize("parameter", ["path", "file", "filename", "folder", "src"])
def test_a_path_without_a_subject_is_a_fault(parameter: str) -> None:
    """A tool cannot take a path past the fs rules by not declaring it."""
    scope: dict[str, Any] = {}
    exec(f"def tool({parameter}: str): ...", scope)
    with pytest.raises(PolicyError, match="no fs rule"):
        tool_from("x", scope["tool"])


def test_a_path_object_without_a_subject_is_a_fault() -> None:
    """Whatever the parameter's name."""

    def tool(where: Path) -> None: ...

    with pytest.raises(PolicyError, match="no fs rule"):
        tool_from("x", tool)


def test_a_declared_or_plain_path_is_fine() -> None:
    """Saying what it is, or that it is no path, is enough; numbers are no paths."""

    def tool(path: Annotated[str, ReadPath], file: Annotated[str, Plain], files: int) -> None: ...

    assert tool_from("x", tool).subjects == {"path": ReadPath, "file": Plain}


def test_parameters_are_given_by_name() -> None:
    """*args and positional-only parameters are a fault, all at once."""

    def tool(one: int, /, *more: int, **rest: int) -> None: ...

    with pytest.raises(PolicyError) as caught:
        tool_from("x", tool)
    assert len(caught.value.faults) == 3


def _bind(function: Callable[..., Any], cwd: Path | str = "/", **args: Any) -> Any:
    return tool_from("x", function).bind(args, str(cwd))


def test_paths_are_resolved_in_request_and_argument(tmp_path: Path) -> None:
    """The tool gets the very path that is judged."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    def tool(
        path: Annotated[str | Path, ReadPath], to: Annotated[list[str], WritePath]
    ) -> None: ...

    call = _bind(tool, tmp_path, path=Path("link/f"), to=["a", "link/b"])
    real = str(tmp_path / "real")
    assert call.arguments == {"path": f"{real}/f", "to": [f"{tmp_path}/a", f"{real}/b"]}
    assert call.request.subjects == (
        Subject("read", f"{real}/f"),
        Subject("write", f"{tmp_path}/a"),
        Subject("write", f"{real}/b"),
    )
    assert json.loads(call.request.args) == call.arguments


def test_optional_and_default_paths_are_judged_too(tmp_path: Path) -> None:
    """A default is a path like any other; None touches nothing."""

    def tool(
        path: Annotated[str, ReadPath] = ".", to: Annotated[str, WritePath] | None = None
    ) -> None: ...

    call = _bind(tool, tmp_path)
    assert call.request.subjects == (Subject("read", str(tmp_path)),)
    call = _bind(tool, tmp_path, to="x")
    assert Subject("write", str(tmp_path / "x")) in call.request.subjects


def test_hosts_and_words_become_subjects() -> None:
    """A line is split as it will run; one that needs a shell does not get through."""

    def tool(host: Annotated[str, Host], words: Annotated[str | list[str], Argv]) -> None: ...

    call = _bind(tool, host="a.test:443", words="git log 'a b'")
    assert call.request.subjects == (
        Subject("host", "a.test:443"),
        Subject("argv", ("git", "log", "a b")),
    )
    assert _bind(tool, host="h", words=["git", "x y"]).request.subjects[1].value == ("git", "x y")
    with pytest.raises(ToolError, match="shell"):
        _bind(tool, host="h", words="git log | sh")


def test_secrets_are_in_no_request() -> None:
    """The tool gets the value; records and prompts get a mark that tells values apart."""

    def tool(key: Annotated[str, Secret]) -> None: ...

    call, same, other = (_bind(tool, key=key) for key in ("hunter2!", "hunter2!", "other"))
    assert call.arguments == {"key": "hunter2!"}
    assert "hunter2!" not in repr(call.request)
    assert call.request == same.request != other.request


class Sly(str):
    """Answers differently when it is looked at again."""

    def __str__(self) -> str:
        return "/etc/shadow"

    def __fspath__(self) -> str:
        return "/etc/shadow"


def test_a_sly_string_is_taken_at_its_word(tmp_path: Path) -> None:
    """Subjects are exact strings, so what is judged is what the tool gets."""

    def tool(path: Annotated[str, ReadPath]) -> None: ...

    call = _bind(tool, tmp_path, path=Sly("a"))
    assert type(call.arguments["path"]) is str
    assert call.arguments["path"] == call.request.subjects[0].value


def test_arguments_are_copies() -> None:
    """Changing a list after the call was bound changes neither request nor argument."""

    def tool(items: list[str]) -> None: ...

    items = ["a"]
    call = _bind(tool, items=items)
    items.append("b")
    assert call.arguments == {"items": ["a"]}


@pytest.mark.parametrize("args", [{}, {"path": 3}, {"path": "a", "extra": 1}, {"path": None}])
def test_arguments_that_do_not_fit(args: dict[str, Any]) -> None:
    """Missing, extra and wrongly typed arguments are the tool's error."""

    def tool(path: Annotated[str, ReadPath]) -> None: ...

    with pytest.raises(ToolError):
        _bind(tool, **args)


def test_every_built_in_tool_declares_what_it_touches() -> None:
    """The files by their path, the web by its URL; and each has a description."""
    names = {tool.name for tool in builtin_tools()}
    files = {f"fs.{n}" for n in ("read", "write", "edit", "remove", "list", "glob", "grep")}
    assert names == files | {"http.fetch"}
    for tool in builtin_tools():
        if tool.name in files:
            assert tool.subjects["path"].kind in ("read", "write")
        else:
            assert tool.subjects["url"].kind == "url"
        assert tool.description and tool.takes_kernel
