"""A program in bare bwrap, every wall up, with a seccomp filter or without."""

from __future__ import annotations

import os
import subprocess


def run_in_box(command: list[str], code: bytes | None, data: str = "") -> str:
    """What ``command`` prints; it must end well.

    Arguments:
        code: the filter, raw BPF; None for none.
        data: its standard input.
    """
    argv, fds = _argv(code)
    done = subprocess.run(
        [*argv, *command], input=data, capture_output=True, text=True, timeout=100, pass_fds=fds
    )
    for fd in fds:
        os.close(fd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _argv(code: bytes | None) -> tuple[list[str], tuple[int, ...]]:
    argv = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    argv += ["--chdir", "/dev/shm", "--unshare-user", "--unshare-pid", "--unshare-net"]
    argv += ["--unshare-ipc", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    if code is None:
        return argv, ()
    fd = os.memfd_create("filter")
    os.write(fd, code)
    os.lseek(fd, 0, os.SEEK_SET)
    return [*argv, "--seccomp", str(fd)], (fd,)
