"""Runs attempts, each in a process of its own. Sent into the box; standard library only.

``main`` gets the job that ``suite.job`` makes and prints one line of JSON for each attempt:
its id, ``done``, an errno, ``hung`` or ``signal N``, and what it brought back.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import select
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from axonkernel.escapes.attempt import Refused
from axonkernel.escapes.calls import call
from axonkernel.escapes.scene import Scene
from axonkernel.escapes.tools import remount_flags

if TYPE_CHECKING:
    from axonkernel.escapes.attempt import Attempt

__all__ = ["main"]

_MOST_BYTES = 1 << 16
_NEW_USER, _NEW_MOUNT, _NEW_PID, _NEW_NET = 0x10000000, 0x20000, 0x20000000, 0x40000000
_NEW_UTS, _NEW_IPC, _NEW_CGROUP = 0x4000000, 0x8000000, 0x2000000
_BIND, _REC, _PRIVATE, _REMOUNT, _RDONLY = 4096, 16384, 1 << 18, 32, 1


def main(job: dict[str, Any], attempts: dict[str, Attempt]) -> None:
    """Run the attempts that the job names, in its order.

    Arguments:
        job: ``scene``, ``ids`` and ``patience_s``: seconds that each may take.
    """
    scene = Scene(**job["scene"])
    with contextlib.suppress(OSError):
        os.chdir(scene.project)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    for name in job["ids"]:
        said, loot = _run(attempts[name], scene, job["patience_s"])
        print(json.dumps([name, said, loot]), flush=True)


def _run(attempt: Attempt, scene: Scene, patience_s: float) -> tuple[str, str]:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        _be_the_attempt(attempt, scene, write)
    os.close(write)
    answer = _answer(read, time.monotonic() + patience_s)
    os.close(read)
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if answer is None:
        return "hung", ""
    if not answer:
        code = os.waitstatus_to_exitcode(status)
        return (f"signal {-code}" if code < 0 else f"exit {code}"), ""
    said, loot = json.loads(answer)
    return said, loot


def _answer(read: int, deadline: float) -> bytes | None:
    """All that the attempt says; None when it took too long."""
    data = b""
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([read], [], [], left)[0]:
            return None
        part = os.read(read, 1 << 16)
        if not part or data.endswith(b"\n"):
            return data
        data += part
        if data.endswith(b"\n"):
            return data


def _be_the_attempt(attempt: Attempt, scene: Scene, write: int) -> None:
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDWR), 2)
    said, loot = "done", ""
    try:
        if not scene.boxed and attempt.control != "plain":
            _enter_namespaces(scene, masked=attempt.control == "masked")
        loot = attempt.do(scene)
    except Refused as error:
        said = str(error)
    except TimeoutError:
        said = "no answer"
    except OSError as error:
        said = errno.errorcode.get(error.errno or 0, type(error).__name__)
    except BaseException as error:
        said = f"{type(error).__name__}: {error}"[:200]
    text = json.dumps([said, loot[:_MOST_BYTES]]).encode() + b"\n"
    while text:
        text = text[os.write(write, text) :]
    os._exit(0)


def _enter_namespaces(scene: Scene, *, masked: bool) -> None:
    """Be root of namespaces that end with this attempt: nothing done there reaches the host."""
    uid, gid = os.getuid(), os.getgid()
    kinds = _NEW_USER | _NEW_MOUNT | _NEW_PID | _NEW_NET | _NEW_UTS | _NEW_IPC | _NEW_CGROUP
    call("unshare", kinds)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    call("mount", None, "/", None, _REC | _PRIVATE, None)
    if masked:
        _mask(scene)
    pid = os.fork()
    if pid:
        _, status = os.waitpid(pid, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 127)
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG


def _mask(scene: Scene) -> None:
    """What a box does, without locking it: a mask on a denied file, a read-only grant."""
    call("mount", "/dev/null", f"{scene.project}/denied", None, _BIND, None)
    call("mount", scene.granted, scene.granted, None, _BIND, None)
    flags = _BIND | _REMOUNT | _RDONLY | remount_flags(scene.granted)
    call("mount", None, scene.granted, None, flags, None)


def start(job: dict[str, Any]) -> None:
    """What the text that is sent into the box calls, once everything is there."""
    modules = [sys.modules[name] for name in job["groups"]]
    main(job, {each.id: each for module in modules for each in module.GROUP.attempts})
