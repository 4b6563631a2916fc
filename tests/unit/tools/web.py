"""Small web servers on loopback addresses, and names that lead to them."""

from __future__ import annotations

import ssl
import subprocess
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Answer = Callable[[BaseHTTPRequestHandler], None]


class Seen:
    """One request as the server saw it."""

    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        self.method = handler.command
        self.target = handler.path
        self.headers = {name.lower(): value for name, value in handler.headers.items()}
        length = int(self.headers.get("content-length", 0))
        self.body = handler.rfile.read(length)


class WebServer:
    """Answers on one loopback address; what it saw is in ``seen``, in order.

    Arguments:
        address: a loopback address to listen on.
        tls: makes it speak TLS.
    """

    def __init__(self, address: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        self.seen: list[Seen] = []
        self.answers: dict[str, Answer] = {}
        self.connections = 0
        self.server_names: list[str | None] = []
        web = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                web.connections += 1
                super().setup()

            def _answer(self) -> None:
                web.seen.append(Seen(self))
                web.answers.get(self.path, _hello)(self)

            do_GET = do_POST = do_HEAD = do_PUT = _answer

            def log_message(self, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer((address, 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *args: None  # type: ignore[method-assign]
        if tls is not None:
            tls.sni_callback = lambda socket, name, context: self.server_names.append(name)
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.address, self.port = str(self._server.server_address[0]), self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _hello(handler: BaseHTTPRequestHandler) -> None:
    say(handler, b"hello")


def say(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, **headers: str) -> None:
    """Answer with a body; underscores in header names become dashes."""
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def redirect(location: str, status: int = 302) -> Answer:
    """An answer that leads elsewhere."""
    return lambda handler: say(handler, b"", status, Location=location)


class Names:
    """A resolver: each look-up takes the next answer of a name, the last one stays."""

    def __init__(self, **names: list[list[str]]) -> None:
        self._names = {name.replace("_", "."): answers for name, answers in names.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        answers = self._names.get(host)
        if answers is None:
            return [host] if host[0].isdigit() else []
        return answers.pop(0) if len(answers) > 1 else answers[0]


def certificates(folder: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """(for a server called ``name``, for clients that trust it)."""
    key, file = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-keyout", str(key), "-out", str(file), "-days", "2", "-subj", f"/CN={name}",
         "-addext", f"subjectAltName=DNS:{name}"],
        check=True, capture_output=True, timeout=30,
    )  # fmt: skip
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(file, key)
    return server, ssl.create_default_context(cafile=str(file))
