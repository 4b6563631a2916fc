"""The folder of a broker's socket: nobody else's, and gone when its process is."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from axonkernel.broker.place import Place, listening
from lab.processes import REPOSITORY

#: Makes a place, with its socket, and waits.
HOLDS = """
import sys
sys.path.insert(0, sys.argv[2])
from axonkernel.broker.place import Place, listening
place = Place(sys.argv[1])
sock = listening(place.path)
print(place.path, flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(state: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process with a place, and its socket's path."""
    words = [sys.executable, "-c", HOLDS, str(state), str(REPOSITORY)]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
        process.kill()


def there(state: Path) -> list[str]:
    """The folders there are."""
    return sorted(os.listdir(state / "brokers"))


def test_a_place_is_closed_to_others_and_removed(tmp_path: Path) -> None:
    """Only this user comes near; nothing is left, and closing again does nothing."""
    place = Place(str(tmp_path / "state"))
    sock = listening(place.path)
    for folder in (Path(place.path).parent, tmp_path / "state" / "brokers"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(os.stat(place.path).st_mode) == 0o666
    place.close()
    place.close()
    sock.close()
    assert there(tmp_path / "state") == []


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    """By the next that makes one; the place of a process that lives stays, and answers."""
    with holder(tmp_path) as (killed, left), holder(tmp_path) as (_, lives):
        killed.kill()
        killed.wait()
        assert os.path.exists(left)
        place = Place(str(tmp_path))
        assert not os.path.exists(os.path.dirname(left))
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(lives)
        assert len(there(tmp_path)) == 2
        place.close()
        assert len(there(tmp_path)) == 1


def test_what_is_not_ours_is_left(tmp_path: Path) -> None:
    """A file among the folders, and one in a folder that nobody holds, are somebody's."""
    around = tmp_path / "brokers"
    (around / "folder").mkdir(parents=True)
    (around / "folder" / "mine").write_text("x")
    (around / "file").write_text("x")
    (around / "link").symlink_to("folder")
    Place(str(tmp_path)).close()
    assert there(tmp_path) == ["file", "folder", "link"]
    assert os.listdir(around / "folder") == ["mine"]


def test_a_path_of_any_length(tmp_path: Path) -> None:
    """A socket's path may be longer than the kernel takes: it is bound from its folder."""
    state = tmp_path / ("a" * 120) / ("b" * 120)
    place = Place(str(state))
    with listening(place.path) as sock, socket.socket(socket.AF_UNIX) as peer:
        assert len(place.path) > 240
        folder = os.open(os.path.dirname(place.path), os.O_PATH)
        peer.connect(f"/proc/self/fd/{folder}/socket")
        os.close(folder)
        sock.accept()[0].close()
    place.close()
