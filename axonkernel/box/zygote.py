"""The handler zygote: has imported the agent's code once, and forks workers ahead of need.

A worker waits until a request comes, gives up what the request does not grant (giving_up.py)
and only then runs the handler. Above it is a guard, which ends everything that the worker
started when the worker ends or its kernel hangs up: by a pid namespace where one can be made,
else as guard.py does. Standard library only, before the agent's code is imported.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pickle
import select
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from axonkernel.box import guard
from axonkernel.box.channel import Channel, ChannelClosed
from axonkernel.box.frames import Frames
from axonkernel.box.giving_up import Spaces, enter_spaces, make_spaces
from axonkernel.box.linux import child_subreaper, die_with_parent

__all__ = ["ENDED", "Serve", "main"]

#: What a guard says at the end: the exit code of the worker, negative for a signal.
ENDED = struct.Struct("!i")
_MOST_ORDER_BYTES = 1 << 40
_MOST_FAULT = 16_000
_BUFFER_BYTES = 1 << 20

#: Serves the one request that comes over a socket, in a worker with these namespaces.
Serve = Callable[[socket.socket, Spaces], NoReturn]


class _Ends(NamedTuple):
    """One side of what a worker is tied to its kernel by: frames, its life, its output."""

    frames: socket.socket
    life: socket.socket
    out: socket.socket
    err: socket.socket

    def close(self) -> None:
        for end in self:
            end.close()


def main(fd: int) -> None:
    """Serve a kernel on descriptor ``fd`` until its other end closes.

    First comes a frame with a pickled mapping: ``path``, ``argv``, ``env`` and ``cwd`` of the
    process, whether to make namespaces (``spaces``), and ``prepare``, ``module:function`` of
    what imports the agent's code from ``given`` and returns a :data:`Serve`. Then each message
    asks for one worker, with a network namespace of its own if ``empty_net`` and if it gets any;
    its descriptors are sent back.
    """
    sock = socket.socket(fileno=fd)
    os.set_inheritable(fd, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C is for the kernel's process to judge
    try:
        _, body = Frames(sock, _MOST_ORDER_BYTES).receive()
    except EOFError:
        return
    order = pickle.loads(body)
    control = Channel(sock)
    with contextlib.suppress(ChannelClosed):
        try:
            serve = _prepared(order)
        except (Exception, SystemExit) as error:
            control.send({"fault": _told(error)})
            return
        spaces = order["spaces"] and _allows_spaces()
        control.send({"ready": True, "spaces": spaces})
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # guards are reaped by the kernel
        _serve(control, serve, spaces)


def _prepared(order: dict[str, Any]) -> Serve:
    sys.path[:] = order["path"]
    sys.argv[:] = order["argv"]
    os.environ.update(order["env"])
    if os.path.isdir(order["cwd"]):
        os.chdir(order["cwd"])
    module, _, name = order["prepare"].partition(":")
    serve: Serve = getattr(importlib.import_module(module), name)(order["given"])
    gc.collect()
    gc.freeze()
    return serve


def _allows_spaces() -> bool:
    """Whether a worker gets namespaces here: tried in a process of its own."""
    pid = os.fork()
    if pid == 0:
        os._exit(not make_spaces())
    return os.waitpid(pid, 0)[1] == 0


def _told(error: BaseException) -> str:
    text = str(error)
    if not type(error).__module__.startswith("axonkernel."):
        text = "".join(traceback.format_exception(error))
    return text[-_MOST_FAULT:]


def _serve(control: Channel, serve: Serve, spaces: bool) -> None:
    while True:
        wanted, _ = control.receive()
        ours, theirs = _tied()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            control.close()
            ours.close()
            _guard(theirs, serve, spaces=spaces, empty_net=wanted["empty_net"])
        theirs.close()
        control.send({"pid": pid, **wanted}, tuple(end.fileno() for end in ours))
        ours.close()


def _tied() -> tuple[_Ends, _Ends]:
    pairs = [socket.socketpair() for _ in _Ends._fields]
    for end in pairs[0]:  # what goes at once; twice as much is left of it without
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
    return _Ends(*(one for one, _ in pairs)), _Ends(*(other for _, other in pairs))


# -- the guard --------------------------------------------------------------------------


def _guard(ends: _Ends, serve: Serve, *, spaces: bool, empty_net: bool) -> NoReturn:
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        child_subreaper()
        closed = guard.enclose(os.getppid())
        made = spaces and make_spaces()
        child = os.fork()
        if child == 0:
            _work(ends, serve, made=made, empty_net=empty_net)
        for end in (ends.frames, ends.out, ends.err):
            end.close()
        code = _watch(ends.life, child, closed=closed, made=made)
        with contextlib.suppress(OSError):
            ends.life.send(ENDED.pack(code))
    finally:
        os._exit(code & 0xFF)


def _watch(life: socket.socket, child: int, *, closed: bool, made: bool) -> int:
    """Wait for the end of the child, or for the kernel to hang up; then end what is left."""
    ended = os.pidfd_open(child)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(life, select.POLLIN | select.POLLHUP)
    poll.poll()
    if made:
        signal.pidfd_send_signal(ended, signal.SIGKILL)  # pid 1: all others go with it
        return _ended(os.waitpid(child, 0)[1])
    status = 0
    while True:
        pid, found = _reaped()
        if pid == child:
            status = found
        elif pid == 0:
            guard.kill_below(closed=closed)
            pid, found = _reaped(0)
            status = found if pid == child else status
        if pid < 0:
            return _ended(status)


def _reaped(options: int = os.WNOHANG) -> tuple[int, int]:
    try:
        return os.waitpid(-1, options)
    except ChildProcessError:
        return -1, 0


def _ended(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code < 128 else 128 - code


def _empty_descriptors(first: int) -> None:
    """Let every descriptor from ``first`` up lead nowhere.

    Not closed: what the agent's code has opened while it was imported, such as a log, would
    write into whatever gets the same number next.
    """
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for name in os.listdir("/proc/self/fd"):
        if (fd := int(name)) >= first and fd != nothing:
            with contextlib.suppress(OSError):  # that of the listing itself
                os.fstat(fd)
                os.dup2(nothing, fd, inheritable=False)
    os.close(nothing)


def _work(ends: _Ends, serve: Serve, *, made: bool, empty_net: bool) -> NoReturn:
    """Be the worker; in a pid namespace its pid 1, with which all others there end."""
    try:
        die_with_parent(signal.SIGKILL)
        ends.life.close()
        spaces = enter_spaces(empty_net=empty_net) if made else Spaces()
        os.dup2(ends.out.detach(), 1)
        os.dup2(ends.err.detach(), 2)
        frames = os.dup2(ends.frames.detach(), 3, inheritable=False)
        _empty_descriptors(4)
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        serve(socket.socket(fileno=frames), spaces)
    finally:
        os._exit(1)
