"""One connection to a named destination, from its first byte to its last.

It is read until the server name is known, goes on to where the client meant (or through a
proxy), and is then two flows. Standard library only.
"""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Callable, Iterable

from axonkernel.box.resolver import original
from axonkernel.box.resolver.hello import Hello, HelloReader
from axonkernel.box.resolver.proxy import REPLY_BYTES, read_reply, request
from axonkernel.box.resolver.splice import Flow, Pipes
from axonkernel.typed import NamedTuple, Protocol

__all__ = ["Connection", "Dialing", "Refused", "Rules", "Through"]

_IN, _OUT = select.EPOLLIN, select.EPOLLOUT
_PART_BYTES = 16 * 1024
#: Addresses of a name that are tried: the client's connection stands already, so that it does
#: not try another by itself.
_TRIED = 4

#: Hear of some events of a socket of a connection.
Watch = Callable[[socket.socket, "Connection", int], None]


class Dialing(Protocol):
    """Makes connections to a proxy; see dialer.py."""

    def fileno(self) -> int: ...
    def ask(self) -> None: ...
    def take(self) -> socket.socket | None: ...
    def close(self) -> None: ...


class Refused(Exception):
    """A connection that is not let through.

    Arguments:
        kind: ``tls-name`` (another server name than those granted), ``tls-none``,
            ``tls-encrypted``, ``tls-malformed``, ``not-tls``, ``slow`` (no hello in time),
            ``unreachable`` (the destination or the proxy does not answer), ``ungranted`` (no
            granted name has the address) or ``proxy-STATUS`` (what the proxy said).
        name: the server name in question.
    """

    def __init__(self, kind: str, name: str = "") -> None:
        super().__init__(kind)
        self.kind = kind
        self.name = name


class Through(NamedTuple):
    """The proxy that every connection goes through.

    Arguments:
        name_of: the granted name that an address was made up for; "" for none.
        credentials: what the proxy wants to hear; "" for nothing. Secret.
        dialer: makes connections to it.
    """

    name_of: Callable[[str], str]
    credentials: str
    dialer: Dialing


class Rules(NamedTuple):
    """What is held of every connection.

    Arguments:
        check: its TLS server name is compared.
        granted: whether a server name is granted for a port.
        addresses: where else a granted name is found, the last answer first.
        through: the proxy; None to go on to where the client meant.
    """

    check: bool
    granted: Callable[[str, int], bool]
    through: Through | None = None
    addresses: Callable[[str], Iterable[str]] = lambda _: ()


class Connection:
    """A client that was redirected here.

    Arguments:
        client: its socket, which does not block.
        address, port: where it meant to go.
    """

    def __init__(
        self,
        client: socket.socket,
        address: str,
        port: int,
        rules: Rules,
        pipes: Pipes,
        watch: Watch,
    ) -> None:
        self.address = address
        self.port = port
        #: The server name, or the name its address was made up for, once it is known.
        self.name = rules.through.name_of(address) if rules.through else ""
        #: What it is when it takes too long now.
        self.overdue = "slow"
        self.spliced = False
        #: Waits for the dialer.
        self.is_dialed_for = False
        self._client = client
        self._server: socket.socket | None = None
        self._rules = rules
        self._pipes = pipes
        self._watch = watch
        self._flows: tuple[Flow, Flow] | None = None
        self._first = bytearray()
        self._reply = bytearray()
        self._reader = HelloReader()
        self._places: list[str] = []
        self._step = self._begin

    @property
    def ended(self) -> bool:
        """Whether both directions have come to their end."""
        return self._flows is not None and all(flow.done for flow in self._flows)

    def go_on(self, fd: int, events: int) -> None:
        """Do what can be done now. Raises Refused, and OSError when one side is gone."""
        gone = events & (select.EPOLLERR | select.EPOLLHUP)
        of_client = fd == self._client.fileno()
        if self._flows:
            self._move(of_client, events, gone)
        elif of_client and gone:
            raise ConnectionResetError
        else:
            self._step()

    def leave(self) -> None:
        """Hear of nothing any more."""
        for sock in self._sockets:
            self._watch(sock, self, -1)

    def close(self, *, reset: bool) -> None:
        """Close both sides, by a reset when the end came before the end. After ``leave``."""
        for flow in self._flows or ():
            flow.drop()
        for sock in self._sockets:
            original.abort(sock) if reset else sock.close()

    @property
    def _sockets(self) -> tuple[socket.socket, ...]:
        return (self._client,) if self._server is None else (self._client, self._server)

    # -- the steps ----------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._rules.through and not self.name:
            raise Refused("ungranted")
        self._watch(self._client, self, _IN)
        if self._rules.check:
            self._step = self._read_hello
        else:
            self._dial()

    def _read_hello(self) -> None:
        part = self._received(self._client)
        if part is None:
            return
        if not part:
            raise ConnectionResetError
        self._first += part
        hello = self._reader.feed(part)
        if hello.kind != "more":
            self._require_granted(hello)
            self._dial()

    def _require_granted(self, hello: Hello) -> None:
        if hello.kind == "not-tls":
            raise Refused("not-tls")
        if hello.kind != "name":
            raise Refused(f"tls-{hello.kind}")
        if not self._rules.granted(hello.name, self.port):
            raise Refused("tls-name", hello.name)
        self.name = self.name or hello.name

    def _dial(self) -> None:
        self.overdue = "unreachable"
        self._watch(self._client, self, 0)
        if self._rules.through is None:
            places = dict.fromkeys((self.address, *self._rules.addresses(self.name)))
            self._places = list(places)[:_TRIED]
            self.try_next()
            return
        try:
            self._rules.through.dialer.ask()
        except OSError:
            raise Refused("unreachable", self.name) from None
        self.is_dialed_for = True

    @property
    def has_more(self) -> bool:
        """Whether there is another address to try."""
        return bool(self._places)

    def try_next(self) -> None:
        """Go on to the next address. Raises Refused when none is left."""
        if self._server is not None:
            self._watch(self._server, self, -1)
            self._server.close()
            self._server = None
        while self._places:
            with contextlib.suppress(OSError):
                return self.dialed(original.begin(self._places.pop(0), self.port))
        raise Refused("unreachable", self.name)

    def dialed(self, server: socket.socket | None) -> None:
        """Go on by a connection that is being made; None for that there is none to be had.
        Raises Refused."""
        self.is_dialed_for = False
        if server is None:
            raise Refused("unreachable", self.name)
        self._server = server
        self._watch(server, self, _OUT)
        self._step = self._connected

    def _connected(self) -> None:
        assert self._server
        if self._server.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.try_next()
            return
        through = self._rules.through
        if through is None:
            self._splice(b"")
            return
        # A new connection takes so few bytes at once.
        self._server.send(request(self.name, self.port, through.credentials))
        self._watch(self._server, self, _IN)
        self._step = self._read_reply

    def _read_reply(self) -> None:
        assert self._server
        part = self._received(self._server)
        if part is None:
            return
        self._reply += part
        reply = read_reply(bytes(self._reply))
        if reply.kind == "open":
            self._splice(reply.rest)
        elif reply.kind == "refused":
            raise Refused(f"proxy-{reply.status}", self.name)
        elif reply.kind == "malformed" or not part or len(self._reply) > REPLY_BYTES:
            raise Refused("unreachable", self.name)

    def _splice(self, rest: bytes) -> None:
        assert self._server
        client, server = self._client, self._server
        up = Flow(client, server, self._pipes, bytes(self._first))
        down = Flow(server, client, self._pipes, rest)
        self._flows = up, down
        self._first.clear()
        self.spliced = True
        self._move(True, 0, 1)

    def _move(self, of_client: bool, events: int, gone: int) -> None:
        """Move what can be moved, and wait for what holds up the rest."""
        assert self._server and self._flows
        up, down = self._flows
        if gone or events & (_IN if of_client else _OUT):
            up.move()
        if gone or events & (_OUT if of_client else _IN):
            down.move()
        if events & select.EPOLLERR:
            raise ConnectionResetError
        self._hear(self._client, up, down)
        self._hear(self._server, down, up)

    def _hear(self, sock: socket.socket, leaving: Flow, arriving: Flow) -> None:
        """Wait for a socket: to read what leaves by it, or to write what arrives there."""
        reads = not leaving.blocked and not leaving.ended
        # One that has nothing to say is not asked: it would say again and again that it is over.
        self._watch(sock, self, (_IN * reads | _OUT * arriving.blocked) or -1)

    @staticmethod
    def _received(sock: socket.socket) -> bytes | None:
        """A part; None for none yet."""
        try:
            return sock.recv(_PART_BYTES)
        except BlockingIOError:
            return None
