"""Processes of the host that attempts try to harm, and one that holds secrets."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

from axonkernel.escapes.suite import ATTEMPTS

__all__ = ["Victims"]

_VICTIM = ("sleep", "600")
#: Opens the secret, says where in its memory another is, and waits for its own end.
_HOLDER = """
import ctypes, os, sys
file = open(sys.argv[1])
data = ctypes.create_string_buffer((sys.argv[2] + "-memory").encode())
print(ctypes.addressof(data), flush=True)
sys.stdin.read()
"""
_CREATE, _REMOVE = 0o1000, 0
_SENDING, _UNLINKING = {"aarch64": (182, 181)}.get(os.uname().machine, (242, 241))
_libc = ctypes.CDLL(None, use_errno=True)
_libc.shmat.restype = ctypes.c_void_p


class Victims:
    """Made at once, ended by :meth:`close`.

    Arguments:
        token: the beginning of all secrets.
        outside: the folder with the secret that the holder has open.
        uid, gid: whose processes they are: the agent's own, so that only walls protect them.

    Attributes:
        pids: for each attempt that harms a process, one of its own.
        holder, holder_address: who holds secrets, and where one is in its memory.
        key, queue: System V segment and message queue with a secret.
    """

    def __init__(self, token: str, outside: Path, uid: int, gid: int) -> None:
        self._undo = contextlib.ExitStack()
        self._who: dict[str, Any] = (
            {"user": uid, "group": gid, "extra_groups": []} if os.geteuid() == 0 else {}
        )
        try:
            self._processes = {
                each.id: self._start(_VICTIM) for each in ATTEMPTS if each.sign == "victim"
            }
            self.pids = {name: process.pid for name, process in self._processes.items()}
            self._before = {name: _state(process) for name, process in self._processes.items()}
            self._hold(token, outside)
            self._share(token)
        except BaseException:
            self._undo.close()
            raise

    def harmed(self) -> set[str]:
        """The attempts whose process is not what it was."""
        return {
            name
            for name, process in self._processes.items()
            if process.poll() is not None or _state(process) != self._before[name]
        }

    def close(self) -> None:
        """End them all."""
        self._undo.close()

    def _start(self, argv: tuple[str, ...], **options: Any) -> subprocess.Popen[str]:
        process: subprocess.Popen[str] = subprocess.Popen(
            argv, text=True, start_new_session=True, **self._who,
            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, **options},
        )  # fmt: skip
        self._undo.callback(process.wait)
        self._undo.callback(process.kill)
        return process

    def _hold(self, token: str, outside: Path) -> None:
        argv = (os.path.realpath(sys.executable), "-ISc", _HOLDER, str(outside / "secret"), token)
        process = self._start(
            argv, cwd=outside, env={"TOKEN": f"{token}-held"}, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None and process.stdin is not None
        self._undo.callback(process.stdout.close)
        self._undo.callback(process.stdin.close)
        self.holder, self.holder_address = process.pid, int(process.stdout.readline())

    def _share(self, token: str) -> None:
        """What is shared on the host by key and by name; attempts that miss it are refused."""
        self.key = secrets.randbelow(1 << 30) + 1
        segment = _libc.shmget(self.key, 4096, _CREATE | 0o666)
        if segment >= 0:
            self._undo.callback(_libc.shmctl, segment, _REMOVE, None)
            place = _libc.shmat(segment, None, 0)
            secret = f"{token}-segment".encode()
            ctypes.memmove(place, secret, len(secret))
            _libc.shmdt(ctypes.c_void_p(place))
        self.queue = f"escape-test-{secrets.token_hex(4)}"
        name = self.queue.encode()
        opening = {"aarch64": 180}.get(os.uname().machine, 240)
        queue = _libc.syscall(opening, name, os.O_CREAT | os.O_RDWR, 0o666, None)
        if queue >= 0:
            self._undo.callback(_libc.syscall, _UNLINKING, name)
            secret = f"{token}-queue".encode()
            _libc.syscall(_SENDING, queue, secret, len(secret), 0, None)
            os.close(queue)


def _state(process: subprocess.Popen[str]) -> tuple[object, ...]:
    """What an attempt could do to a process short of ending it."""
    try:
        text = Path(f"/proc/{process.pid}/stat").read_text()
        files = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    except OSError:
        return ()
    fields = text.rpartition(")")[2].split()
    return (fields[0] in "Tt", fields[16], files)
