"""Which mounts are made apart and moved into place, read as values."""

from __future__ import annotations

import pytest

from axonkernel.box.model import Mount
from axonkernel.box.staging import Move, staged

RUN = Mount("tmpfs", "/run")
TMP = Mount("tmpfs", "/tmp")
STAGE = Mount("tmpfs", "/run/.axonkernel", mode=0o700)


def same(kind: str, path: str) -> Mount:
    return Mount(kind, path, path)  # type: ignore[arg-type]


WS = same("bind", "/ws")


def test_what_lies_in_a_grant_is_made_apart() -> None:
    """In order, each by a number, a masked file as a file to bind; the grant itself, and what
    lies elsewhere, in place."""
    other = same("ro-bind", "/srv/data")
    mask, pin = Mount("mask-file", "/ws/key"), same("bind", "/ws/.git")
    hooks = same("ro-bind", "/ws/.git/hooks")
    mounts, moves = staged((RUN, WS, other, pin, mask, hooks), "/ws")
    assert moves == (
        Move("/run/.axonkernel/0", "/ws/.git"),
        Move("/run/.axonkernel/1", "/ws/key", bind=True),
        Move("/run/.axonkernel/2", "/ws/.git/hooks"),
    )
    assert mounts == (
        RUN,
        WS,
        other,
        STAGE,
        pin._replace(dest=moves[0].stage),
        Mount("data", moves[1].stage, mode=0),
        hooks._replace(dest=moves[2].stage),
        Mount("remount-ro", STAGE.dest),
    )


def test_what_lies_in_a_folder_of_the_boxs_own_goes_with_it() -> None:
    """A grant inside a denied folder is made inside its stage, and closed there."""
    closed = Mount("tmpfs", "/ws/private", mode=0o111)
    granted = same("ro-bind", "/ws/private/a/b")
    inner = Mount("mask-file", "/ws/private/a/b/key")
    shut = Mount("remount-ro", "/ws/private")
    mounts, moves = staged((RUN, WS, closed, granted, inner, shut), "/ws")
    stage = "/run/.axonkernel"
    assert moves == (
        Move(f"{stage}/0", "/ws/private"),
        Move(f"{stage}/1", "/ws/private/a/b/key", bind=True),
    )
    assert [mount.dest for mount in mounts[3:]] == [
        f"{stage}/0",
        f"{stage}/0/a/b",
        f"{stage}/1",
        f"{stage}/0",
        stage,
    ]


@pytest.mark.parametrize(
    "mount",
    [
        same("ro-bind", "/ws/deep"),
        Mount("ro-bind", "/ws/lib", "/data/lib"),
        Mount("symlink", "/ws/tool", "/opt/tool"),
        Mount("remount-ro", "/ws"),
        Mount("mask-file", "/usr/lib/helper"),
        Mount("mask-file", "/wsx"),
    ],
    ids=str,
)
def test_what_stays_in_place(mount: Mount) -> None:
    """What the working directory lies in, what is at a link, what the system owns."""
    given = (RUN, same("ro-bind", "/usr"), WS, mount)
    assert staged(given, "/ws/deep/er") == (given, ())


def test_a_grant_of_everything_needs_no_race() -> None:
    """Who may write / has the host; a grant inside it is a folder like any."""
    root = same("bind", "/")
    given = (root, RUN, Mount("mask-file", "/srv/key"))
    assert staged(given, "/") == (given, ())
    _, moves = staged((same("ro-bind", "/"), RUN, WS, Mount("mask-file", "/ws/key")), "/")
    assert [move.dest for move in moves] == ["/ws/key"]


def test_the_stage_is_the_boxs_own_scratch() -> None:
    """/tmp where /run is granted; where both are, the mounts are made in place."""
    mask = Mount("mask-file", "/ws/key")
    _, moves = staged((same("bind", "/run"), TMP, WS, mask), "/ws")
    assert moves == (Move("/tmp/.axonkernel/0", "/ws/key", bind=True),)
    given = (same("bind", "/run"), same("bind", "/tmp"), WS, mask)
    assert staged(given, "/ws") == (given, ())
