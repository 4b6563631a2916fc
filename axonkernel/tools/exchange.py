"""One HTTP exchange with one address: nothing is looked up, followed, kept or taken from the
environment."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from attrs import frozen

from axonkernel.errors import LimitExceeded, ToolError
from axonkernel.policy.url import Url
from axonkernel.tools.outgoing import Outgoing

if TYPE_CHECKING:
    import ssl

    import httpx

__all__ = ["CannotConnect", "Reply", "exchange", "system_trust"]

#: Seconds for one address to take a connection; then the next one is tried.
_CONNECT_S = 5.0


@frozen
class Reply:
    """What came back; ``headers`` with lower-case names, ``body`` decoded from compression."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class CannotConnect(Exception):
    """No connection to one address; another one may do better."""


def system_trust() -> ssl.SSLContext:
    """The certificates of this system, or those that httpx brings where it has none."""
    import ssl  # with OpenSSL, which most agents never need

    import httpx

    paths = ssl.get_default_verify_paths()
    if paths.cafile is None and paths.capath is None:
        return httpx.create_ssl_context(trust_env=False)
    return ssl.create_default_context()


async def exchange(
    tool: str,
    url: Url,
    address: str,
    sent: Outgoing,
    *,
    tls: ssl.SSLContext,
    cap_bytes: int,
    proxy: str = "",
) -> Reply:
    """Send a request to ``address``, as the server of ``url`` there.

    Arguments:
        proxy: the URL of what connects and resolves instead, with its password; then
            ``address`` is the name.

    The name is in the Host header, in the TLS server name, and in the certificate that is
    demanded; the connection goes to the address that was judged.

    Raises:
        CannotConnect: nothing was sent.
        LimitExceeded: the answer is longer than ``cap_bytes``.
        ToolError: the exchange failed.
    """
    import httpx

    # The transport alone: a client would add cookies, and read where redirects lead.
    request = httpx.Request(
        sent.method,
        _numeric(tool, url, address),
        headers=_complete(url, sent),
        content=sent.body,
        extensions={"sni_hostname": url.host, "timeout": {"connect": _CONNECT_S}},
    )
    with _failures(tool):
        by = httpx.Proxy(proxy) if proxy else None
        async with httpx.AsyncHTTPTransport(verify=tls, trust_env=False, proxy=by) as transport:
            response = await transport.handle_async_request(request)
            try:
                body = _Body(tool, response.headers, cap_bytes)
                async for chunk in response.aiter_raw():
                    body.add(chunk)
            finally:
                await response.aclose()
    return Reply(response.status_code, dict(response.headers), bytes(body.data))


def _numeric(tool: str, url: Url, address: str) -> httpx.URL:
    """The URL with the address in place of the name; httpx must read it as it was judged."""
    import httpx

    host = f"[{address}]" if ":" in address else address
    numeric = httpx.URL(f"{url.scheme}://{host}:{url.port}{url.target}")
    if numeric.raw_path != url.target.encode() or numeric.host != address or numeric.userinfo:
        raise ToolError(tool, "the URL can be read in two ways")
    return numeric


def _complete(url: Url, sent: Outgoing) -> list[tuple[str, str]]:
    defaults = {"user-agent": "axonkernel", "accept": "*/*"}
    headers = {**defaults, **dict(sent.headers)}
    # A compressed answer may be a thousand times longer than it looks.
    headers |= {"host": url.authority, "accept-encoding": "identity", "connection": "close"}
    return list(headers.items())


@contextmanager
def _failures(tool: str) -> Iterator[None]:
    import httpx

    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise ToolError(tool, "the server has no valid certificate for that name") from None
        raise CannotConnect from error
    except httpx.HTTPError as error:
        raise ToolError(tool, f"the exchange failed ({type(error).__name__})") from None


class _Body:
    """Takes an answer's body, unpacked, up to a cap."""

    def __init__(self, tool: str, headers: Mapping[str, str], cap_bytes: int) -> None:
        self.data = bytearray()
        self._tool = tool
        self._cap_bytes = cap_bytes
        self._unpack = _unpacker(tool, headers.get("content-encoding", ""))

    def add(self, chunk: bytes) -> None:
        """Take some more. Raises LimitExceeded."""
        if self._unpack is not None:
            try:
                chunk = self._unpack.decompress(chunk, self._cap_bytes + 1 - len(self.data))
            except zlib.error:
                raise ToolError(self._tool, "the answer's compression is broken") from None
        self.data += chunk
        if len(self.data) > self._cap_bytes:
            raise LimitExceeded("output", f"tool {self._tool}", self._cap_bytes)


def _unpacker(tool: str, encoding: str) -> zlib._Decompress | None:
    """Some servers compress though they were asked not to."""
    if encoding.strip().lower() in ("", "identity"):
        return None
    if encoding.strip().lower() in ("gzip", "x-gzip", "deflate"):
        return zlib.decompressobj(zlib.MAX_WBITS | 32)
    raise ToolError(tool, "the answer is compressed in a way this tool does not read")
