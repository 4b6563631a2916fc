"""A TLS server on all addresses: answers HTTP with the server name it was asked for.

``tls_server.py PORT CERTIFICATE KEY`` prints ``ready``, then a JSON line for each handshake.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import sys
import threading


def serve(client: socket.socket, certificate: str, key: str) -> None:
    """One connection, of any number of requests, none of which has a body."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    asked: list[str | None] = []
    context.sni_callback = lambda _, name, __: asked.append(name)
    address = client.getsockname()[0].removeprefix("::ffff:")
    try:
        with context.wrap_socket(client, server_side=True) as tls:
            tell(asked[0], address, ok=True)
            answer(tls, str(asked[0]))
    except OSError:
        tell(asked[0] if asked else None, address, ok=False)


def answer(tls: ssl.SSLSocket, name: str) -> None:
    data = b""
    with contextlib.suppress(OSError):
        while part := tls.recv(65536):
            data += part
            while b"\r\n\r\n" in data:
                data = data.partition(b"\r\n\r\n")[2]
                body = f"you asked for {name}\n".encode()
                head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
                tls.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)


def tell(name: str | None, address: str, *, ok: bool) -> None:
    line = json.dumps({"name": name, "address": address, "ok": ok}) + "\n"
    os.write(1, line.encode())


def end_with_input() -> None:
    """Whoever started this holds the other end."""
    while os.read(0, 65536):
        pass
    os._exit(0)


def main() -> None:
    port, certificate, key = sys.argv[1:]
    server = socket.create_server(
        ("::", int(port)), family=socket.AF_INET6, dualstack_ipv6=True, backlog=512
    )
    threading.Thread(target=end_with_input, daemon=True).start()
    print("ready", flush=True)
    while True:
        client, _ = server.accept()
        threading.Thread(target=serve, args=(client, certificate, key), daemon=True).start()


if __name__ == "__main__":
    main()
