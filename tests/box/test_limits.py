"""What a box holds without a control group: disk, output, wall; and what floods do not do."""

from __future__ import annotations

import json
import sys

import pytest

from box.boxed import PYTHON, Boxed
from lab.user import OrdinaryUser

FILL = """
import errno, json, os, sys
room = {}
for folder in json.loads(sys.argv[1]):
    written = 0
    try:
        with open(os.path.expanduser(folder) + "/fill", "wb", buffering=0) as file:
            while written < 24 << 20: written += file.write(bytes(1 << 20))
    except OSError as error:
        room[folder] = [written >> 20, errno.errorcode[error.errno]]
    else:
        room[folder] = [written >> 20, "ok"]
made = 0
try:
    while made < 30_000:
        open(f"/tmp/{made}", "w").close()
        made += 1
except OSError: pass
print(json.dumps([room, made]))
"""
PRIVATE = ["~", "/tmp", "/var/tmp", "/run", "/dev/shm"]


def filled(box: Boxed, *options: str) -> tuple[dict[str, list[object]], int]:
    """How many MiB went into each private folder, one after the other, and how many files."""
    folders = json.dumps([*PRIVATE, "/dev"])
    run = box.exec("--read", ".", *options, command=[PYTHON, "-ISc", FILL, folders])
    assert run.code == 0, run.err
    room, made = json.loads(run.out)
    return room, made


@pytest.mark.box
def test_disk_caps_all_private_folders_together(box: Boxed) -> None:
    """HOME, /tmp, /var/tmp, /run and /dev/shm hold 16 MiB in all, and no more files than that
    is worth; /dev takes nothing. Without the limit each takes 24 MiB."""
    room, made = filled(box, "--limit", "disk=16M")
    assert room.pop("/dev") == [0, "EROFS"]
    assert 13 <= sum(int(str(size)) for size, _ in room.values()) <= 16
    assert room["~"][1] == "ENOSPC" and room["/dev/shm"] == [0, "ENOSPC"]
    assert made < 20_000
    free, _ = filled(box)
    assert [free[folder] for folder in PRIVATE] == [[24, "ok"]] * len(PRIVATE)


@pytest.mark.box
def test_private_folders_with_a_cap_are_what_they_were(box: Boxed) -> None:
    """Modes and owner as without it, nothing of one is seen in another."""
    code = (
        "import os\n"
        "for name in ('~', '/tmp', '/var/tmp', '/run', '/dev/shm'):\n"
        "    path = os.path.expanduser(name); found = os.stat(path)\n"
        "    print(name, oct(found.st_mode), found.st_uid == os.getuid(), os.listdir(path))\n"
        "    open(path + '/' + name.strip('/~').replace('/', '-') + '-made', 'w').close()"
    )
    command = [PYTHON, "-ISc", code]
    with_cap = box.exec("--read", ".", "--limit", "disk=16M", command=command)
    without = box.exec("--read", ".", command=command)
    assert with_cap.code == without.code == 0, with_cap.err
    assert with_cap.out == without.out and with_cap.text.count("[]") >= 4


@pytest.mark.requires("box", "user")
def test_disk_is_capped_for_an_ordinary_user(ordinary_user: OrdinaryUser, box: Boxed) -> None:
    """The same folders, the same sum, without any privilege."""
    folder = ordinary_user.home / "project"
    ordinary_user.run(["mkdir", folder])
    words = ["exec", "--read", ".", "--limit", "disk=16M", "--", PYTHON, "-ISc", FILL]
    env = {**box.env, "HOME": str(ordinary_user.home)}
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        env[name] = str(ordinary_user.home / name)
    done = ordinary_user.run(
        [sys.executable, "-m", "axonkernel", *words, json.dumps([*PRIVATE, "/dev"])],
        cwd=folder,
        env=env,
    )
    assert done.returncode == 0, done.stderr
    room, made = json.loads(done.stdout)
    assert room.pop("/dev") == [0, "EROFS"]
    assert 13 <= sum(size for size, _ in room.values()) <= 16 and made < 20_000
