"""What a keeper does about an event, as a value."""

from __future__ import annotations

import pytest

from axonkernel.box.inotify import IS_FOLDER, OVERFLOW, Event
from axonkernel.box.keeping import Action, Rules
from axonkernel.box.model import Kept, Watch

MADE, MOVED_IN, DELETED, MOVED_AWAY, FOLDER_GONE = 0x100, 0x80, 0x200, 0x40, 0x400
WATCH = Watch(
    grants=(("/ws", True), ("/ro", False)),
    kept=(
        Kept("/ws/sub", "pin"),
        Kept("/ws/.env", "mask", stub=True),
        Kept("/ro/key", "mask"),
        Kept("/ws/sub/.git/config", "read-only", stub=True),
    ),
    denied=("/**/*.key",),
    told=("/**/.envrc", "/**/.git/config"),
    sockets=True,
)


def done(folder: str, name: str, mask: int, watch: Watch = WATCH) -> list[tuple[str, str]]:
    """(verb, path) of the actions about one event."""
    return [tuple(action) for action in Rules(watch).on(Event(folder, name, mask))]


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (("/ws", ".env", MOVED_IN), [("cover", "/ws/.env")]),
        (("/ws", ".env", MADE), [("cover", "/ws/.env")]),
        (("/ws", ".env", DELETED), [("hold", "/ws/.env")]),
        (("/ws", ".env", MOVED_AWAY), [("hold", "/ws/.env")]),
        (("/ro", "key", DELETED), []),
        (("/ws/deep", "a.key", MADE), [("mask", "/ws/deep/a.key")]),
        (("/ws", ".envrc", MADE), [("tell", "/ws/.envrc"), ("look", "/ws/.envrc")]),
        (("/ro", ".envrc", MADE), [("look", "/ro/.envrc")]),
        (("/ws", "sub", MOVED_IN | IS_FOLDER), [("renew", "/ws/sub"), ("enter", "/ws/sub")]),
        (("/ws", "new", MADE | IS_FOLDER), [("enter", "/ws/new")]),
        (("/ws", "s.sock", MADE), [("look", "/ws/s.sock")]),
        (("/ws", "gone", DELETED), []),
        (("/ws/sub", "", FOLDER_GONE), [("renew", "/ws/sub")]),
        (("", "", OVERFLOW), [("renew", "/")]),
    ],
    ids=str,
)
def test_what_is_done_about_an_event(
    event: tuple[str, str, int], expected: list[tuple[str, str]]
) -> None:
    """A kept name that is new is covered, a stub that went is made again, a folder above is
    seen to with all below it; what the box may do anyway is left alone."""
    assert done(*event) == expected


def test_without_patterns_and_sockets_new_names_are_nothing() -> None:
    """No folder is entered and no name looked at for a box that has neither."""
    quiet = WATCH._replace(denied=(), told=(), sockets=False)
    assert done("/ws", "new", MADE | IS_FOLDER, quiet) == []
    assert done("/ws", "file", MADE, quiet) == []
    assert not Rules(quiet).everywhere and Rules(WATCH).everywhere


def test_a_new_folder_is_entered_where_names_in_it_are_told() -> None:
    """Only where the box writes: elsewhere the agent makes nothing."""
    telling = WATCH._replace(denied=(), sockets=False)
    assert done("/ws", "new", MADE | IS_FOLDER, telling) == [("enter", "/ws/new")]
    assert done("/ro", "new", MADE | IS_FOLDER, telling) == []
    assert not Rules(telling).everywhere


def test_the_folders_from_the_grant_to_each_name_are_watched() -> None:
    """All of them, outermost first: any may be replaced."""
    assert Rules(WATCH).folders() == ["/ro", "/ws", "/ws/sub", "/ws/sub/.git"]


def test_below_is_by_whole_names() -> None:
    """/ws/sub does not lie below /ws/su."""
    rules = Rules(WATCH)
    assert [item.path for item in rules.below("/ws/sub")] == ["/ws/sub", "/ws/sub/.git/config"]
    assert rules.below("/ws/su") == []
    assert len(rules.below("/")) == len(WATCH.kept)


def test_the_innermost_grant_says_who_writes() -> None:
    """A read grant inside a write grant is not written."""
    rules = Rules(Watch(grants=(("/ws", True), ("/ws/ro", False))))
    assert rules.is_written("/ws/a") and not rules.is_written("/ws/ro/a")
    assert not rules.is_written("/other") and not rules.is_granted("/wsx")
    assert Action("tell", "/ws/.envrc") not in list(
        Rules(WATCH).on_new("/ro/.envrc", is_folder=False)
    )
