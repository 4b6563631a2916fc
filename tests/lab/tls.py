"""A certificate authority for tests, and TLS servers at the far end of the private internet.

::

    authority = Authority(tmp_path, "api.test", "web.test")
    with Internet() as net:
        servers = TlsServers(net, authority)
        net.run(["curl", "--cacert", authority.bundle, "https://api.test:8443/"])
        assert servers.names() == ["api.test"]
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

from lab.internet import Internet

__all__ = ["TLS_PORT", "Authority", "TlsServers", "said"]

TLS_PORT = 8443
_SERVER = Path(__file__).with_name("tls_server.py")
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")


class Authority:
    """An authority, and one certificate of it for some names.

    Arguments:
        folder: where its files are made.
    """

    def __init__(self, folder: Path, *names: str) -> None:
        self.bundle = str(folder / "ca.pem")
        self.certificate = str(folder / "server.pem")
        self.key = str(folder / "server.key")
        self._openssl(
            "-x509", *_KEY, "-keyout", str(folder / "ca.key"), "-out", self.bundle,
            "-subj", "/CN=test authority",
            "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=keyCertSign",
        )  # fmt: skip
        self._openssl(
            "-x509", *_KEY, "-keyout", self.key, "-out", self.certificate,
            "-CA", self.bundle, "-CAkey", str(folder / "ca.key"), "-subj", f"/CN={names[0]}",
            "-addext", "subjectAltName=" + ",".join(f"DNS:{name}" for name in names),
            "-addext", "basicConstraints=critical,CA:FALSE",
        )  # fmt: skip

    @staticmethod
    def _openssl(*words: str) -> None:
        subprocess.run(["openssl", "req", *words], check=True, capture_output=True, timeout=20)


class TlsServers:
    """A TLS server on every address of the far end, which writes down who comes."""

    def __init__(self, net: Internet, authority: Authority, port: int = TLS_PORT) -> None:
        words = [sys.executable, str(_SERVER), str(port), authority.certificate, authority.key]
        self._server = net.serve(words)

    def seen(self) -> list[dict[str, Any]]:
        """``name``, ``address`` and ``ok`` of each handshake since the last call."""
        return said(self._server)

    def names(self) -> list[str | None]:
        """The server names since the last call."""
        return [each["name"] for each in self.seen()]


def said(server: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """The JSON lines that a server has written since the last call."""
    assert server.stdout
    data = b""
    while select.select([server.stdout], [], [], 0.2)[0]:
        data += os.read(server.stdout.fileno(), 1 << 20)
    return [json.loads(line) for line in data.splitlines()]
