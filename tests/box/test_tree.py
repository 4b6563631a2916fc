"""The file tree of a box, made for real: what is mounted holds, and the host is as it was."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from box.boxed import PYTHON, Boxed, attempts_command, command_line
from lab.processes import PATH, REPOSITORY
from lab.user import OrdinaryUser

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

KEY = "KEY-host-7e41"
#: Names that are read as something else by what splits, quotes or decodes.
NAMES = (b"a b", b"'\"$(x)", b"new\nline", b"-rf", b"\xff\xfe", "e\u0301".encode(), b"x" * 200)


def seen(folder: Path) -> dict[str, tuple[int, ...]]:
    """Everything below a folder, with modes, owners, sizes and times."""
    found: dict[str, tuple[int, ...]] = {}
    for where, folders, names in os.walk(os.fsencode(folder)):
        for name in (b".", *folders, *names):
            path = os.path.join(where, name)
            status = os.lstat(path)
            found[os.fsdecode(path)] = (
                status.st_mode, status.st_uid, status.st_ino, status.st_size,
                status.st_nlink, status.st_mtime_ns,
            )  # fmt: skip
    return found


def furnish(project: Path) -> None:
    """A folder of each kind of name: plain, special, odd."""
    for name in ("plain", "deep/er/est", "denied/inner", ".git/hooks"):
        (project / name).mkdir(parents=True)
    for name in ("plain/key", "deep/er/est/key", "denied/inner/a", ".git/config"):
        (project / name).write_text(KEY)
    os.mkfifo(project / "plain/fifo")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(project / "plain/sock"))
    for odd in NAMES:
        Path(os.fsdecode(os.fsencode(project / "plain") + b"/" + odd + b".odd")).write_text(KEY)


def test_the_host_is_as_it_was(box: Boxed) -> None:
    """Masks of files, folders, pipes, sockets and odd names, pins and protected names: each
    is closed inside, and outside no name, mode, size or time is another."""
    furnish(box.project)
    before = seen(box.root / "project")
    deny = ("**/key", "denied", "**/fifo", "**/sock", "**/*.odd")
    options = [word for pattern in deny for word in ("--deny", f"./{pattern}")]
    answers = box.attempts(
        ["read", "plain/key"],
        ["read", "deep/er/est/key"],
        ["names", "denied"],
        ["kind", "plain/fifo"],
        ["kind", "plain/sock"],
        *(["read", os.fsdecode(b"plain/" + name + b".odd")] for name in NAMES),
        ["write", ".git/hooks/pre-commit"],
        ["unlink", "plain/key"],
        ["rename", ".git", "moved"],
        grants=["--write", ".", *options],
    )
    assert answers == [
        *["EACCES"] * 3,
        *["0o100000"] * 2,
        *["EACCES"] * len(NAMES),
        "EROFS",
        *["EBUSY"] * 2,
    ]
    assert seen(box.root / "project") == before


def test_names_of_any_bytes_are_granted(box: Boxed) -> None:
    """Each file alone: it can be read, and the one beside it does not exist. A policy takes no
    control characters; there the folder is granted."""
    furnish(box.project)
    names = [name for name in NAMES if b"\n" not in name]
    paths = [os.fsdecode(b"plain/" + name + b".odd") for name in names]
    grants = [word for path in paths for word in ("--read", f"./{path}")]
    answers = box.attempts(
        *(["read", path] for path in paths), ["read", "plain/key"], grants=grants
    )
    assert answers == [*[KEY] * len(names), "ENOENT"]


def test_a_long_path_is_granted(box: Boxed) -> None:
    """Folders of 200 letters, one in another, as deep as a path may be."""
    folder = box.project
    while len(str(folder)) < 3600:
        folder /= "d" * 200
    folder.mkdir(parents=True)
    (folder / "f").write_text("deep")
    answers = box.attempts(["read", str(folder / "f")], grants=["--read", folder])
    assert answers == ["deep"]


def test_special_files_are_granted_as_what_they_are(box: Boxed) -> None:
    """A pipe is a pipe and a socket a socket in a box that may read them."""
    furnish(box.project)
    grants = ["--read", "./plain/fifo", "--read", "./plain/sock"]
    code = (
        "import os, stat; "
        "print(*(oct(stat.S_IFMT(os.stat('plain/' + n).st_mode)) for n in ('fifo', 'sock')))"
    )
    run = box.exec(*grants, command=[PYTHON, "-ISc", code])
    assert run.code == 0, run.err
    assert run.text.split()[0] == oct(stat.S_IFIFO)


@pytest.mark.deep
def test_five_thousand_grants(box: Boxed) -> None:
    """Each file granted by its name, the last as the first, and the one between not at all."""
    folder = box.project / "many"
    folder.mkdir()
    for number in range(5001):
        (folder / f"{number}").write_text(f"{number}")
    lines = ", ".join(f'"./many/{n}"' for n in range(5001) if n != 2500)
    policy = box.root / "p.toml"
    policy.write_text(f'default = "deny"\n[fs]\nread = [{lines}]\n'.replace("./many", str(folder)))
    reads = (["read", f"many/{number}"] for number in (0, 2499, 2500, 5000))
    answers = box.attempts(*reads, grants=["--policy", policy])
    assert answers == ["0", "2499", "ENOENT", "5000"]


#: Makes the tree of a plan, then bwrap without filter or limit on namespaces.
UNFILTERED = """
import os, sys
from axonkernel.box import bwrap, tree
from axonkernel.box.model import BoxPlan, Command, Mount
from axonkernel.box.steps import steps
key, folder = sys.argv[1:3]
same = lambda kind, path: Mount(kind, path, path)
plan = BoxPlan(mounts=(
    same("ro-bind", "/"), Mount("proc", "/proc"), Mount("dev", "/dev"), Mount("tmpfs", "/run"),
    same("bind", folder), Mount("mask-file", key),
), deny_new_userns=False)
parts = steps(plan.mounts)
at = tree.place(parts.tree)
ids = os.getuid(), os.getgid()
options = bwrap.arguments(plan, Command(()), at, parts.bwrap, tree.open_source, ids=ids,
                          status_fd=os.dup2(os.open(os.devnull, os.O_WRONLY), 9),
                          block_fd=-1, filter_fd=-1)
tree.make(parts.tree, at, None)
os.execv("/usr/bin/bwrap", ["bwrap", *options, "--setenv", "PATH", "/usr/bin:/usr/sbin:/bin",
                            *sys.argv[3:]])
"""


#: What each umount2 of the paths answers, then that of a mount made just now.
UNMOUNT = """
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for path in sys.argv[1:]:
    print(libc.umount2(path.encode(), 2) and errno.errorcode[ctypes.get_errno()])
print(libc.mount(b"none", b"/run", b"tmpfs", 0, None) or libc.umount2(b"/run", 2))
"""


def test_masks_are_locked(tmp_path: Path) -> None:
    """Who has every right in a namespace made inside, with no filter on it, cannot take a mask
    away, nor what it lies in; a mount of its own it can."""
    (tmp_path / "key").write_text(KEY)
    paths = [str(tmp_path / "key"), str(tmp_path)]
    inside = ["unshare", "--user", "--keep-caps", "--mount", PYTHON, "-ISc", UNMOUNT, *paths]
    done = subprocess.run(
        [sys.executable, "-c", UNFILTERED, *paths, *inside],
        env={"PATH": PATH, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.split() == ["EINVAL", "EINVAL", "0"], done.stderr


@pytest.mark.requires("user")
def test_an_ordinary_users_tree(ordinary_user: OrdinaryUser, box: Boxed) -> None:
    """The same walls for who has no privilege: in a user namespace of its own."""
    folder = ordinary_user.home / "project"
    ordinary_user.run(["mkdir", "-p", folder / "sub"])
    for name in ("key", "open", "sub/key"):
        ordinary_user.run(["sh", "-c", f"echo -n {KEY} > {folder / name}"])
    env = {**box.env, "HOME": str(ordinary_user.home)}
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        env[name] = str(ordinary_user.home / name)
    attempts = (
        ["read", "key"],
        ["read", "open"],
        ["write", "new"],
        ["read", "sub/key"],
    )
    grants = ["--write", ".", "--deny", "./key", "--deny", "./sub"]
    done = ordinary_user.run(
        command_line(*grants, command=attempts_command(*attempts)), env=env, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["EACCES", KEY, "ok", "EACCES"]
    assert (folder / "key").read_text() == KEY and (folder / "new").exists()
