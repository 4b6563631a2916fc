"""The built-in tool ``http.fetch``.

The URL that is judged is the one that is fetched, from the address that was judged: a name is
looked up once for each request, and a private address it leads to is left out unless a rule
grants that address itself; with ``net.proxy`` the proxy looks it up. Where a redirect leads is
a new request to the policy.
"""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import anyio

from axonkernel.errors import ToolError
from axonkernel.policy.hosts import literal
from axonkernel.policy.request import AnyRequest, ConnectRequest, Request, Subject
from axonkernel.policy.url import Url, parse_url
from axonkernel.tools.exchange import CannotConnect, Reply, exchange, system_trust
from axonkernel.tools.files import Judge, output_cap
from axonkernel.tools.outgoing import Outgoing, outgoing
from axonkernel.tools.subjects import Url as UrlSubject

if TYPE_CHECKING:
    import ssl

__all__ = ["Fetcher", "Gate", "Resolve", "system_addresses"]

NAME = "http.fetch"

_MOST_REDIRECTS = 10
_MOST_ADDRESSES = 8
_LONGEST_S = 300.0
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
#: Encodings of text that are decoded in a single pass over it.
_CHARSETS = ("utf", "iso", "latin", "windows", "cp", "ascii", "us-ascii", "shift", "euc", "gb",
             "big5", "koi8")  # fmt: skip

#: Host name or address, and port, to the addresses it stands for now.
Resolve = Callable[[str, int], Awaitable[list[str]]]


class Gate(Judge, Protocol):
    """A kernel that can also be asked about what a call only meets on its way."""

    @property
    def is_inside(self) -> bool:
        """Whether a box is around this process."""
        ...

    async def require(self, request: AnyRequest) -> None:
        """Return when ``request`` may run; raise PolicyDenied when not."""


async def system_addresses(host: str, port: int) -> list[str]:
    """The addresses of a name, as this system resolves it."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


class Fetcher:
    """Fetches for one registry.

    Arguments:
        resolve: finds addresses.
        trust: the certificates that servers must have; the system's when None.
    """

    def __init__(
        self, resolve: Resolve = system_addresses, trust: ssl.SSLContext | None = None
    ) -> None:
        self._resolve = resolve
        self._trust = trust
        self._lock = threading.Lock()

    async def fetch(
        self,
        kernel: Gate,
        url: Annotated[str, UrlSubject],
        method: str = "GET",
        headers: dict[str, str] | None = None,
        body: str | None = None,
        timeout_s: float = 30.0,
    ) -> dict[str, Any]:
        """Fetch a web address; redirects are followed where the policy allows each of them.

        Arguments:
            timeout_s: seconds for all exchanges together, at most 300.

        Returns ``url`` (the last one), ``status``, ``headers``, and ``text``, or ``base64``
        where the answer is no text. No cookie is kept from one request to the next.

        Raises LimitExceeded when the answer is longer than one call may return, ToolError
        when there is none.
        """
        sent = outgoing(NAME, method, headers, body)
        left_s = _seconds(timeout_s)
        here = parse_url(url)
        for _ in range(_MOST_REDIRECTS + 1):
            started = anyio.current_time()
            reply = await self._timed(kernel, here, sent, left_s)
            left_s -= anyio.current_time() - started
            location = reply.headers.get("location")
            if reply.status not in _REDIRECTS or not location:
                return {"url": str(here), **_shown(reply)}
            there = await _led_to(kernel, here, location)
            sent = sent.redirected(reply.status, same_origin=there.origin == here.origin)
            here = there
        raise ToolError(NAME, f"more than {_MOST_REDIRECTS} redirects")

    async def _timed(self, kernel: Gate, url: Url, sent: Outgoing, left_s: float) -> Reply:
        try:
            with anyio.fail_after(max(left_s, 0)):
                return await self._exchange(kernel, url, sent)
        except TimeoutError:
            raise ToolError(NAME, "there was no complete answer in time") from None

    async def _exchange(self, kernel: Gate, url: Url, sent: Outgoing) -> Reply:
        proxy, cap_bytes = _proxy(kernel, url), output_cap(kernel)
        for place in [url.host] if proxy else await self._addresses(kernel, url):
            try:
                return await exchange(
                    NAME, url, place, sent, tls=self._tls(), cap_bytes=cap_bytes, proxy=proxy
                )
            except CannotConnect:
                continue
        raise ToolError(NAME, "the server takes no connection")

    async def _addresses(self, kernel: Gate, url: Url) -> list[str]:
        """Where the server may be reached. Raises PolicyDenied when all of it is closed."""
        try:
            found = list(dict.fromkeys(await self._resolve(url.host, url.port)))
        except (OSError, UnicodeError):
            raise ToolError(NAME, "the name has no address") from None
        asked = {address: _connection(kernel, url, address) for address in found}
        open_ones = [each for each in found if kernel.decide(asked[each]).verdict != "deny"]
        if found and not open_ones:
            await kernel.require(asked[found[0]])
        return open_ones[:_MOST_ADDRESSES]

    def _tls(self) -> ssl.SSLContext:
        with self._lock:
            if self._trust is None:
                self._trust = system_trust()
            return self._trust


def _proxy(kernel: Gate, url: Url) -> str:
    """The proxy by which a granted name is reached, which resolves it; "" for none. In a box
    that is the box's own affair."""
    net = kernel.policy.net
    if net is None or not net.proxy or kernel.is_inside or literal(url.host) is not None:
        return ""
    return net.proxy


def _connection(kernel: Gate, url: Url, address: str) -> ConnectRequest:
    """What is judged of one address. One that a box made up, because its proxy alone can
    resolve the name, leads to that proxy and stands for the name."""
    from axonkernel.box.resolver.made_up import is_made_up

    net = kernel.policy.net
    if kernel.is_inside and net is not None and net.proxy and is_made_up(address):
        return ConnectRequest(url.host, url.port)
    return ConnectRequest(url.host, url.port, address=address)


async def _led_to(kernel: Gate, here: Url, location: str) -> Url:
    """Where a redirect leads, once the policy has let it through like the first request."""
    try:
        target = str(here.joined(location))
    except ValueError:
        target = location[:1000]  # denied below as what it is: malformed
    subject = Subject("url", target)
    # Where a server leads is not told to the agent, which did not name it.
    request = Request.tool(NAME, {"url": target}, subjects=[subject], spelled={})
    await kernel.require(request)
    return parse_url(target)


def _seconds(timeout_s: float) -> float:
    number = isinstance(timeout_s, (int, float)) and not isinstance(timeout_s, bool)
    if not number or not 0 < timeout_s <= _LONGEST_S:
        raise ToolError(NAME, f"timeout_s is a number of seconds up to {_LONGEST_S:g}")
    return float(timeout_s)


def _shown(reply: Reply) -> dict[str, Any]:
    answer: dict[str, Any] = {"status": reply.status, "headers": dict(reply.headers)}
    text = _text(reply)
    if text is None:
        return {**answer, "base64": base64.b64encode(reply.body).decode("ascii")}
    return {**answer, "text": text}


def _text(reply: Reply) -> str | None:
    """The body as text; None when it says that it is none, or cannot be."""
    kind, _, rest = reply.headers.get("content-type", "").lower().partition(";")
    charset = rest.partition("charset=")[2].partition(";")[0].strip(" \"'")
    if charset.startswith(_CHARSETS):
        try:
            return reply.body.decode(charset, "replace")
        except LookupError:
            pass
    try:
        return reply.body.decode("utf-8")
    except UnicodeDecodeError:
        return reply.body.decode("utf-8", "replace") if kind.startswith("text/") else None
