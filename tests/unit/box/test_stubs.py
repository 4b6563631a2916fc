"""Stubs: made where a name is missing, counted, removed by the last one, and only if ours."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from axonkernel.box.model import Kept
from axonkernel.box.stubs import Claim, Registry, holder, is_alive, unheld

DEAD = "999999999:1"


def names(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Mode, size and change time of everything in a folder, itself included."""
    found = {}
    for path in (folder, *folder.rglob("*")):
        status = path.lstat()
        # The size of a folder is the file system's own affair.
        size = 0 if path.is_dir() else status.st_size
        found[str(path)] = (status.st_mode, size, status.st_mtime_ns)
    return found


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with one file, made long ago."""
    folder = tmp_path / "place"
    folder.mkdir()
    (folder / "file").write_text("text")
    os.utime(folder, ns=(10**18, 10**18))
    return folder


def test_made_and_removed_without_a_trace(tmp_path: Path, place: Path) -> None:
    """Files, folders and what lies in them; names, modes and times of the host are as before."""
    before = names(place)
    registry = Registry(str(tmp_path / "state"))
    wanted = (
        Kept(f"{place}/.env", "mask", stub=True),
        Kept(f"{place}/a", "pin", stub=True, folder=True, mode=0o755),
        Kept(f"{place}/a/b", "read-only", stub=True, mode=0o444, text=".\n"),
    )
    registry.take(holder(), wanted)
    made = names(place)
    assert made.keys() - before.keys() == {item.path for item in wanted}
    assert made[f"{place}/.env"][:2] == (0o100000, 0)
    assert (place / "a/b").read_text() == ".\n" and made[str(place)] == before[str(place)]
    registry.give_back(holder())
    assert names(place) == before
    assert not (tmp_path / "state/stubs.json").exists()


def test_what_is_there_is_left_alone(tmp_path: Path, place: Path) -> None:
    """A name of the host's is neither touched nor claimed."""
    registry = Registry(str(tmp_path / "state"))
    registry.take(holder(), (Kept(f"{place}/file", "mask", stub=True),))
    registry.give_back(holder())
    assert (place / "file").read_text() == "text"


@pytest.mark.parametrize("change", ["written", "replaced", "folder"])
def test_what_has_become_something_else_stays(tmp_path: Path, place: Path, change: str) -> None:
    """Whoever put something there owns it: content, another file, a folder in its place."""
    registry = Registry(str(tmp_path / "state"))
    stub = place / ".env"
    registry.take(holder(), (Kept(str(stub), "mask", stub=True),))
    if change == "written":
        stub.chmod(0o600)
        stub.write_text("mine")
    elif change == "replaced":
        (place / "other").touch()
        (place / "other").rename(stub)
    else:
        stub.unlink()
        stub.mkdir()
    registry.give_back(holder())
    assert stub.exists()


def test_the_last_of_two_removes_it(tmp_path: Path, place: Path) -> None:
    """The first to end leaves it to the second."""
    registry = Registry(str(tmp_path / "state"))
    wanted = (Kept(f"{place}/.env", "mask", stub=True),)
    parent = f"{os.getppid()}:{_start(os.getppid())}"
    registry.take(holder(), wanted)
    registry.take(parent, wanted)
    registry.give_back(holder())
    assert (place / ".env").exists()
    registry.give_back(parent)
    assert not (place / ".env").exists()


def _start(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def test_the_next_start_sweeps_what_the_dead_left(tmp_path: Path, place: Path) -> None:
    """Also a stub whose maker was killed before it wrote down which file it made."""
    registry = Registry(str(tmp_path / "state"))
    for name, inode in (("known", None), ("unknown", 0)):
        registry.take(DEAD, (Kept(f"{place}/{name}", "mask", stub=True),))
        if inode == 0:
            found = Claim(f"{place}/{name}", False, 0, 0, 0, DEAD)
            registry._claims = [*registry._claims[:-1], found]
            registry._store()
    assert (place / "known").exists() or (place / "unknown").exists()
    Registry(str(tmp_path / "state")).sweep()
    assert [path.name for path in place.iterdir()] == ["file"]


def test_a_torn_registry_stops_nothing(tmp_path: Path, place: Path) -> None:
    """What cannot be read counts as empty."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state/stubs.json").write_text('[["/x"')
    registry = Registry(str(tmp_path / "state"))
    registry.take(holder(), (Kept(f"{place}/.env", "mask", stub=True),))
    registry.give_back(holder())
    assert [path.name for path in place.iterdir()] == ["file"]


def test_no_link_is_followed_on_the_way(tmp_path: Path, place: Path) -> None:
    """A folder exchanged for a link leads nowhere: nothing is made behind it."""
    target = tmp_path / "elsewhere"
    target.mkdir()
    (place / "link").symlink_to(target)
    registry = Registry(str(tmp_path / "state"))
    registry.take(holder(), (Kept(f"{place}/link/.env", "mask", stub=True),))
    assert list(target.iterdir()) == []
    registry.take(holder(), (Kept(f"{target}/.env", "mask", stub=True),))
    assert [path.name for path in target.iterdir()] == [".env"]
    registry.give_back(holder())


def test_a_claim_counts_while_its_holder_lives() -> None:
    """(claims that count, what nobody needs): by path and inode."""
    one, two = Claim("/a", False, 1, 2, 0, "x"), Claim("/a", False, 1, 2, 0, "y")
    other = Claim("/a/b", False, 1, 3, 0, "y")
    assert unheld([one, two, other], lambda name: name == "x") == ([one], [other])
    assert unheld([one, two, other], lambda name: False) == ([], [other, two])
    assert is_alive(holder()) and not is_alive(DEAD)


def test_state_that_was_removed_is_not_made_again(tmp_path: Path, place: Path) -> None:
    """The stubs go all the same."""
    before = names(place)
    registry = Registry(str(tmp_path / "state"))
    registry.take(holder(), (Kept(f"{place}/.env", "mask", stub=True),))
    assert names(place) != before
    shutil.rmtree(tmp_path / "state")
    registry.give_back(holder())
    assert names(place) == before and not (tmp_path / "state").exists()


@pytest.mark.root
def test_another_folder_put_in_place_of_a_stub_stays_roots(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner of the folder above exchanges the two in between; alone, the stub is theirs."""
    os.chown(place, 12345, 12345)
    roots = place / "roots"
    roots.mkdir()
    (roots / "file").write_text("of root")
    wanted = (Kept(f"{place}/made", "pin", stub=True, folder=True, mode=0o755),)
    with monkeypatch.context() as patch:
        patch.setattr(os, "mkdir", lambda name, *_, **__: roots.rename(place / name))
        Registry("").take(holder(), wanted)
    assert (place / "made").stat().st_uid == 0
    (place / "made").rename(roots)
    Registry("").take(holder(), wanted)
    assert (place / "made").stat().st_uid == 12345


def test_what_the_host_wrote_into_a_stub_is_its_owners(tmp_path: Path, place: Path) -> None:
    """A stub with content stays at the end, no longer closed to its owner and to nobody else's
    eyes; one that the host gave a mode keeps it, and an empty one is removed."""
    registry = Registry(str(tmp_path / "state"))
    paths = [place / name for name in (".env", "own", "empty")]
    registry.take(holder(), tuple(Kept(str(path), "mask", stub=True) for path in paths))
    paths[1].chmod(0o640)
    for path in paths[:2]:
        path.write_text("TOKEN=1")
    registry.give_back(holder())
    assert [path.stat().st_mode & 0o7777 for path in paths[:2]] == [0o600, 0o640]
    assert paths[0].read_text() == "TOKEN=1" and not paths[2].exists()
