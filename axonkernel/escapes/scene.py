"""What the attempts are told of the place they are in. Values only, standard library only."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Scene"]


class Scene(NamedTuple):
    """Where everything is that must not be reached, and what may be worked with.

    Arguments:
        project: a write grant of the attempts' own.
        granted: a read grant beside it, with the file ``file``.
        outside: a folder that is not granted, with the file ``secret``.
        state, config, cache: folders of axonkernel's records, profile and plans.
        policy, code, library: the policy file in force (or ""), a file of axonkernel's code,
            one of the interpreter's.
        tcp, tcp6, udp, address: ports of listeners on the host's loopback (0: no IPv6), and
            another address of the host ("" when it has none).
        abstract, abstract_datagram: names of abstract unix sockets.
        socket, project_socket: unix sockets outside and inside the write grant.
        victims: for each attempt on a process, the pid of one of its own.
        holder: the pid of a process that holds secrets, and the address of one in its memory.
        holder_address: that address.
        supervisor: the pid of the process that started the box.
        supervisor_began: when that was started, in the kernel's ticks: in the box its number
            may be that of a process of the box's own.
        shared_memory, queue: key of a System V segment, name of a message queue.
        variable: a variable of the supervisor's that is not granted.
        program: the compiled attempts; "" without a compiler.
        boxed: False in a control.
    """

    project: str
    granted: str
    outside: str
    state: str
    config: str
    cache: str
    policy: str
    code: str
    library: str
    tcp: int
    tcp6: int
    udp: int
    address: str
    abstract: str
    abstract_datagram: str
    socket: str
    project_socket: str
    victims: dict[str, int]
    holder: int
    holder_address: int
    supervisor: int
    supervisor_began: str
    shared_memory: int
    queue: str
    variable: str
    program: str
    boxed: bool

    @property
    def first(self) -> int:
        """The first process of the box; in a control, one that has secrets."""
        return 1 if self.boxed else self.holder

    def mark(self, name: str) -> str:
        """The marker outside that belongs to one attempt."""
        return f"{self.outside}/{name}"
