"""A command confined where it stands, for machines on which no box can be made.

Landlock keeps it to the files that would be in its box, and the filter to what a box may ask
of the kernel; without network grants it makes no socket but unix ones. It is not a box: what
was not granted can be seen by name, and nothing inside a grant can be taken out again.

``main`` is the first code of the new process; standard library only.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import sys
from collections.abc import Iterable
from typing import Any, NoReturn

from axonkernel.box import guard, landlock
from axonkernel.box.capabilities import drop_all
from axonkernel.box.linux import default_signals, no_new_privs, syscall
from axonkernel.box.model import BoxPlan, Command, Mount

__all__ = ["command_line", "main", "paths", "take_filter"]

_PACKAGE_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
#: What a box has of /dev.
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts")
_FILES = ("copy", "data", "data-over")
_SECCOMP, _SET_MODE_FILTER = {"x86_64": 317}.get(os.uname().machine, 277), 1


def paths(mounts: tuple[Mount, ...], private: Iterable[str]) -> landlock.Paths:
    """What the mounts of a box bring into reach, as far as it exists without one.

    Arguments:
        private: folders in place of the box's own /tmp and HOME.
    """
    write = [mount.source for mount in mounts if mount.kind == "bind"]
    read = [mount.source for mount in mounts if mount.kind == "ro-bind"]
    read += [mount.dest for mount in mounts if mount.kind in _FILES]
    return landlock.Paths(
        (*read, "/proc"), (*write, *private, *(f"/dev/{name}" for name in _DEVICES))
    )


def command_line(
    plan: BoxPlan, command: Command, scratch: str, *, stays: bool, dies: bool
) -> tuple[list[str], int]:
    """The words that start ``command`` confined, and the descriptor they need inherited.

    Arguments:
        scratch: its private folder.
        stays: what the command leaves running may go on.
        dies: everything ends when the thread that starts it does.
    """
    env = dict(plan.env if command.env is None else command.env)
    order = {
        "paths": paths(plan.mounts, (scratch,)),
        "tcp": plan.net is None or plan.net.open or bool(plan.net.allow),
        "filter": plan.filter,
        "run_as": plan.run_as,
        "stays": stays,
        "dies": dies,
        "argv": command.argv,
        "env": {**env, "TMPDIR": scratch, "HOME": scratch},
        "cwd": plan.cwd if command.cwd is None else command.cwd,
    }
    fd = os.memfd_create("axonkernel")
    os.write(fd, json.dumps(order).encode())
    os.lseek(fd, 0, os.SEEK_SET)
    code = (
        "import sys; sys.path.append(sys.argv[2]); "
        "from axonkernel.box.confine import main; main(int(sys.argv[1]))"
    )
    return [sys.executable, "-I", "-S", "-c", code, str(fd), _PACKAGE_ROOT], fd


def main(fd: int) -> NoReturn:
    """Guard a child that gives everything up and becomes the command. Never returns."""
    with open(fd, "rb") as file:
        order = json.load(file)
    guard.run(lambda: _become(order), stays=order["stays"], dies_with_parent=order["dies"])


def _become(order: dict[str, Any]) -> NoReturn:
    try:
        _give_up(order)
    except OSError as error:
        _end(125, f"cannot be confined: {error}")
    default_signals()
    name = order["argv"][0]
    try:
        os.execvpe(name, order["argv"], order["env"])
    except FileNotFoundError as error:
        _end(127, f"{name}: {error.strerror}")
    except OSError as error:
        _end(126, f"{name}: {error.strerror}")


def _end(code: int, message: str) -> NoReturn:
    os.write(2, f"axonkernel: {message}\n".encode("utf-8", "surrogateescape"))
    os._exit(code)


def _give_up(order: dict[str, Any]) -> None:
    if order["run_as"] is not None:
        uid, gid = order["run_as"]
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    no_new_privs()
    drop_all()
    os.chdir(order["cwd"])
    landlock.confine(landlock.Paths(*order["paths"]), tcp=order["tcp"])
    if order["filter"]:
        take_filter(base64.b64decode(order["filter"]))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def take_filter(code: bytes) -> None:
    """Take the filter: raw BPF, eight bytes an instruction."""

    program = _Program(len(code) // 8, code)
    syscall(_SECCOMP, _SET_MODE_FILTER, 0, ctypes.byref(program))
