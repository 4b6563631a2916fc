"""Kept plans: found again while nothing changed, made anew otherwise, closed to others."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from axonkernel.box import plancache
from axonkernel.box.model import BoxPlan, Mount, NetPlan
from axonkernel.box.plancache import Seen

PLAN = BoxPlan(
    mounts=(Mount("bind", "/d", "/s"),),
    env=(("TOKEN", "s3cret"), ("ODD", "\udcff")),
    net=NetPlan(allow=(("9.9.9.9", "tcp", "443"),), link="pasta"),
    run_as=(1000, 1000),
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "file").write_text("x")
    (folder / "link").symlink_to("file")
    (folder / "other").write_text("y")
    return folder


def watched(tree: Path) -> list[str]:
    return [str(tree), *(str(tree / name) for name in ("file", "link", "missing"))]


def test_a_kept_plan_is_equal(tree: Path) -> None:
    """And belongs to its name alone."""
    plancache.store("name", PLAN, Seen(tuple(watched(tree))))
    assert plancache.load("name") == PLAN
    assert plancache.load("other") is None


def relink(tree: Path) -> None:
    (tree / "link").unlink()
    (tree / "link").symlink_to("other")


CHANGES: dict[str, Callable[[Path], object]] = {
    "a file written": lambda tree: os.utime(tree / "file", ns=(1, 1)),
    "a file replaced": lambda tree: os.replace(tree / "other", tree / "file"),
    "a file removed": lambda tree: (tree / "file").unlink(),
    "a missing one made": lambda tree: (tree / "missing").write_text(""),
    "a name more in a folder": lambda tree: (tree / "new").write_text(""),
    "a mode": lambda tree: (tree / "file").chmod(0o600),
    "a link led elsewhere": relink,
    "a second hard link": lambda tree: os.link(tree / "file", tree.parent / "second"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_makes_it_void(tree: Path, change: str) -> None:
    """Whatever the plan was made from."""
    plancache.store("name", PLAN, Seen(tuple(watched(tree))))
    assert plancache.load("name") == PLAN
    CHANGES[change](tree)
    assert plancache.load("name") is None


def test_the_name_depends_on_everything_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part, its place, and the user."""
    given = (("a", "b"), ("b", "a"), ("ab",), ("a", ["b"]), ("a", "b", ""), ("a", "\udcff"))
    names = [plancache.key(*parts) for parts in given]
    assert len(set(names)) == len(names)
    assert plancache.key("a", "b") == names[0]
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    assert plancache.key("a", "b") != names[0]


def test_a_plan_with_a_password_is_not_kept(tree: Path) -> None:
    """That of a proxy; a plan with a proxy that wants none is."""
    for url, kept in (("http://u:p@proxy.test:1", False), ("http://proxy.test:1", True)):
        plan = PLAN._replace(net=NetPlan(link="proxy", proxy=url))
        name = plancache.key(url)
        plancache.store(name, plan, Seen(tuple(watched(tree))))
        assert (plancache.load(name) == plan) is kept, url


def test_kept_plans_are_closed_to_others(tree: Path, cache: Path) -> None:
    """They hold the environment: 0600 in 0700, no temporary file stays."""
    plancache.store("name", PLAN, Seen(tuple(watched(tree))))
    (kept,) = (cache / "axonkernel/plans").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"paths": [], "seen": [], "plan": 7}',
                                  '{"paths": [], "seen": [], "plan": [[["x"]]]}'])  # fmt: skip
def test_a_broken_file_is_none(tree: Path, cache: Path, text: str) -> None:
    """Made anew, without an error."""
    plancache.store("name", PLAN, Seen(tuple(watched(tree))))
    (kept,) = (cache / "axonkernel/plans").iterdir()
    assert json.loads(kept.read_text())
    kept.write_text(text)
    assert plancache.load("name") is None


def test_a_cache_that_cannot_be_written_is_none(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Storing does not fail."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    plancache.store("name", PLAN, Seen(tuple(watched(tree))))
    assert plancache.load("name") is None


def test_a_new_version_keeps_no_plan_of_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an installer replaces in the package changes every key; using it does not."""
    (tmp_path / "plan.py").write_text("old")
    monkeypatch.setattr(plancache, "_MAKERS", (str(tmp_path),))
    before = plancache.key("a")
    assert plancache.key("a") == before
    (tmp_path / "plan.new").write_text("new")
    (tmp_path / "plan.new").rename(tmp_path / "plan.py")
    assert plancache.key("a") != before


def test_a_socket_deep_in_a_grant_makes_a_plan_anew(tree: Path) -> None:
    """No folder that is watched has changed; without one the plan is found again."""
    deep = tree / "a" / "b"
    deep.mkdir(parents=True)
    plancache.store("name", PLAN, Seen((str(tree),), (str(tree),)))
    assert plancache.load("name") == PLAN
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(deep / "s"))
        assert plancache.load("name") is None


def test_more_is_kept_with_a_plan(tree: Path) -> None:
    """As JSON data; without any it is None."""
    plancache.store("name", PLAN, Seen((str(tree),)), {"read": ["/a"]})
    assert plancache.load_more("name") == (PLAN, {"read": ["/a"]})
    plancache.store("name", PLAN, Seen((str(tree),)))
    assert plancache.load_more("name") == (PLAN, None)
