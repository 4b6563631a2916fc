"""The link of a networked box: pasta or veth, kept by a process that outlives neither.

Both are made outside the box's network namespace, pasta never quits by itself, and what a veth
link changes on the host has to be undone. So the warden forks a keeper before it enters; the
keeper makes the link when told, and takes it away when the warden says so or is gone. Standard
library only, but for the keeper of a veth link.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

from axonkernel.box.linux import bind_privately, child_subreaper, default_signals
from axonkernel.box.model import NetPlan
from axonkernel.errors import BoxError
from axonkernel.typed import NoReturn, Protocol

__all__ = ["CHANGED", "Link"]

#: Where is written down what veth links changed on this host; see changes.py.
CHANGED = "/run/axonkernel-links"
_PLACES = ("/usr/bin/pasta", "/bin/pasta", "/usr/local/bin/pasta")
_QUIET = ("--quiet", "--no-dhcp", "--no-dhcpv6", "--no-ra", "--no-map-gw")
#: No port is forwarded from the box, and none to it but by TCP (_inward).
_CLOSED = ("-u", "none", "-T", "none", "-U", "none")

#: What a service manager, a terminal or a user sends to all of a session at once.
_PATIENT = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class Link:
    """The warden's handle on the keeper of one link. Make it before entering the box.

    Arguments:
        net: the network of the box; its ``link`` says which.
        foreign: whether the box's namespaces belong to another user than this one.
    """

    def __init__(self, net: NetPlan, *, foreign: bool = False) -> None:
        self._kind = net.link
        order_read, self._order = os.pipe()
        self._answer, answer_write = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._order)
            os.close(self._answer)
            _keep(order_read, answer_write, net, foreign)
        os.close(order_read)
        os.close(answer_write)

    def begin(self, target: int) -> None:
        """Have the network namespace of process ``target`` linked, meanwhile."""
        os.write(self._order, str(target).encode())

    def await_up(self) -> None:
        """Return when the link is configured. Raises BoxError when it cannot be made."""
        said = b""
        while part := os.read(self._answer, 4096):
            said += part
            if said.endswith(b"\0"):
                break
        if said != b"up\0":
            raise BoxError("link", f"{self._kind}: {said.strip(bytes(1)).decode(errors='replace')}")

    def cut(self) -> None:
        """Have the link taken away."""
        os.close(self._order)

    def wait(self) -> None:
        """Wait until nothing of a link that was cut is left."""
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)


class _Made(Protocol):
    def up(self, target: int) -> None: ...
    def down(self) -> None: ...


def _keep(orders: int, answer: int, net: NetPlan, foreign: bool) -> NoReturn:
    """Make the link when a pid arrives; take it away at the end of ``orders``."""
    code = 1
    for number in _PATIENT:  # it ends with the warden, whom they reach as well
        signal.signal(number, signal.SIG_IGN)
    try:
        link = _Pasta(foreign, net.listen) if net.link == "pasta" else _veth(net)
        try:
            if target := os.read(orders, 64):
                link.up(int(target))
                os.write(answer, b"up\0")
                _sweep()  # the box has started: nobody waits for this
                os.read(orders, 1)
        finally:
            link.down()
        code = 0
    except (OSError, BoxError) as error:
        said = error.message if isinstance(error, BoxError) else str(error)
        with contextlib.suppress(OSError):  # nobody listens any more
            os.write(answer, said.encode() + b"\0")
    finally:
        os._exit(code)


def _veth(net: NetPlan) -> _Made:
    from axonkernel.box.veth import Veth

    return Veth(net)


def _sweep() -> None:
    """Undo what a veth link changed on this host whose keeper was killed."""
    if os.getuid() == 0 and os.path.isdir(CHANGED):
        from axonkernel.box.veth import sweep

        with contextlib.suppress(OSError, BoxError):  # the next start tries again
            sweep()


class _Pasta:
    def __init__(self, foreign: bool, listen: tuple[int, ...]) -> None:
        self._foreign = foreign
        self._listen = listen
        child_subreaper()  # pasta goes to the background; it becomes a child of ours

    def up(self, target: int) -> None:
        if said := _start(_namespace(str(target), self._foreign), self._listen):
            raise BoxError("link", said)

    def down(self) -> None:
        _end_children()


def _namespace(target: str, foreign: bool) -> tuple[str, ...]:
    """The words that name the network of process ``target`` to pasta."""
    if not foreign:
        return (target,)
    # pasta gives up the right to look into other users' processes before it opens this, and
    # root needs no user namespace to join a network.
    return ("--netns-only", "--netns", bind_privately(f"/proc/{target}/ns/net", "net"))


def _inward(listen: tuple[int, ...]) -> Iterator[str]:
    """The words that let the host's own loopback lead to ports of the box's, and nothing else.

    pasta takes one address for a port, so that it is IPv4.
    """
    for port in listen:
        yield from ("-t", f"127.0.0.1/{port}")
    if not listen:
        yield from ("-t", "none")


def _start(namespace: tuple[str, ...], listen: tuple[int, ...]) -> str:
    """Run pasta for a network namespace; "" when it is up, else what it said."""
    program = next((path for path in _PLACES if os.access(path, os.X_OK)), None)
    if program is None:
        return "not installed; fix: apt-get install passt"
    as_root = ("--runas", "0:0") if os.getuid() == 0 else ()
    closed = (*_inward(listen), *_CLOSED)
    argv = [program, "--config-net", *_QUIET, *closed, *as_root, "-P", "/dev/null", *namespace]
    said_read, said_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        for number in _PATIENT:
            signal.signal(number, signal.SIG_DFL)
        default_signals()  # pasta gives up when SIGPIPE is ignored already
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(said_write, 1)
        os.dup2(said_write, 2)
        os.execve(program, argv, {"PATH": "/usr/bin:/bin"})
    os.close(said_write)
    _, status = os.waitpid(pid, 0)
    if status == 0:
        return ""
    os.set_blocking(said_read, False)
    with contextlib.suppress(BlockingIOError):
        return os.read(said_read, 4096).decode(errors="replace").strip() or f"status {status}"
    return f"status {status}"


def _end_children() -> None:
    """Kill and reap every child; pasta's second process is one, by the subreaper."""
    while True:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            children = [int(pid) for pid in file.read().split()]
        if not children:
            return
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
