"""A private internet: names, addresses and servers in namespaces this process made.

::

    with Internet() as net:
        net.run(["curl", "-s", "http://api.test/"])
        assert net.seen("http") ...

Two network namespaces with a veth link between them: the far one has the addresses and
listeners, the near one is where a test runs things (or, with ``client=lab.leader``, the
lab). Addresses that look public are public to whoever judges them, and lead nowhere else:
neither namespace has a link to this machine's network.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from lab import processes
from lab.processes import LabUnavailable

__all__ = ["ADDRESSES", "Internet", "Record"]

#: What each address is for. Global ones are outside every reserved range, on purpose.
ADDRESSES: Mapping[str, str] = {
    "dns": "45.90.10.53",
    "one4": "45.90.10.1",
    "two4": "45.90.10.2",
    "three4": "45.90.10.3",
    "four4": "45.90.10.4",
    "one6": "2a0e:97c0:90::1",
    "two6": "2a0e:97c0:90::2",
    "three6": "2a0e:97c0:90::3",
    "private4": "10.77.0.5",
    "private6": "fd77:77::5",
    "metadata4": "169.254.169.254",
    "documentation4": "203.0.113.9",
}
ZONE: Mapping[str, Sequence[str]] = {
    "api.test": ("one4", "one6"),
    "web.test": ("two4", "two6"),
    "shared.test": ("one4", "one6"),
    "many.test": ("one4", "two4", "three4"),
    "v6only.test": ("three6",),
    "*.wild.test": ("two4",),
    "private.test": ("private4", "private6"),
    "mixed.test": ("one4", "private4"),
    "metadata.test": ("metadata4",),
}
ROTATING = ("three4", "four4")
ECHO_PORTS, HTTP_PORTS, UDP_PORTS = (7, 443, 7777), (80, 8080), (7, 443, 7777)
NEAR4, FAR4 = "192.168.177.2", "192.168.177.1"
NEAR6, FAR6 = "fd77::2", "fd77::1"
ANSWER_S = 10.0
SETTLE_S = 0.05


class Record(NamedTuple):
    """One thing that arrived.

    Arguments:
        kind: ``tcp`` (an accepted connection), ``data`` (bytes on it), ``http`` (a request's
            first line), ``udp``, ``dns`` (``name TYPE``), ``dns-malformed``; and from the
            wire, whoever listens: ``packet-tcp`` (an opening), ``packet-udp``, ``packet-ping``,
            ``packet-N`` (IP protocol N).
        address, port: where it was sent to.
        source: where it came from.
        data: the bytes as Latin-1 text.
    """

    kind: str
    address: str
    port: int
    source: str
    data: str


class Internet:
    """The private internet, for as long as the ``with`` block.

    Arguments:
        client: pid of a process in the network namespace to link; None makes one.
        tap: note packets on the wire too; off for measurements of speed.

    Raises LabUnavailable when this machine cannot make it.
    """

    addresses = ADDRESSES
    echo_ports, http_ports, udp_ports = ECHO_PORTS, HTTP_PORTS, UDP_PORTS
    near4, near6 = NEAR4, NEAR6

    def __init__(self, *, client: int | None = None, tap: bool = True) -> None:
        self._client = client or 0
        self._tap = tap
        self._cleanup = contextlib.ExitStack()
        self._server: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def client(self) -> int:
        """Pid of a process in the near network namespace."""
        return self._client

    @property
    def far(self) -> int:
        """Pid of a process in the far network namespace."""
        assert self._server
        return self._server.pid

    @property
    def resolv_conf(self) -> str:
        """Text of a resolv.conf that points at the private internet's DNS."""
        return f"nameserver {ADDRESSES['dns']}\noptions timeout:1 attempts:1\n"

    def start(self) -> None:
        """Make the namespaces, link them and start listening."""
        if os.geteuid() != 0:
            raise LabUnavailable("the private internet needs root (network namespaces)")
        for name, package in {"ip": "iproute2", "nsenter": "util-linux"}.items():
            processes.find_program(name, package)
        if not os.path.exists("/proc/net/if_inet6"):
            raise LabUnavailable("IPv6 is switched off in this kernel (ipv6.disable=0)")
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the listeners and the namespaces; the links vanish with them."""
        self._cleanup.close()

    # -- what tests ask --------------------------------------------------------------------

    def records(self) -> list[Record]:
        """Everything that has arrived since the start or the last ``clear``."""
        time.sleep(SETTLE_S)  # what was sent just now is still on its way through the link
        return [Record(**record) for record in self._ask("records")]

    def seen(self, kind: str, address: str = "", port: int = 0) -> list[Record]:
        """The records of a kind, to an address and a port when given."""
        return [
            record
            for record in self.records()
            if record.kind == kind and address in ("", record.address) and port in (0, record.port)
        ]

    def clear(self) -> None:
        """Forget what arrived until now."""
        time.sleep(SETTLE_S)
        self._ask("clear")

    def name(
        self, name: str, *answers: str, ttl_s: int = 1, rotate: bool = False, alias: str = ""
    ) -> None:
        """Let a name (``*.`` for all below) resolve to addresses, or to another name."""
        entry = {"answers": answers, "ttl": ttl_s, "rotate": rotate, "alias": alias or None}
        self._ask("zone", names={name: entry})

    def serve(self, argv: Sequence[str]) -> subprocess.Popen[str]:
        """Start a server at the far end, until the end of it all. It says a line when it
        listens; what else it says can be read from its ``stdout``."""
        assert self._server
        net = f"--net=/proc/{self._server.pid}/ns/net"
        server = self._child(["nsenter", net, *argv])
        assert server.stdout
        ready, _, _ = select.select([server.stdout], [], [], ANSWER_S)
        if not ready or not server.stdout.readline():
            raise LabUnavailable(f"{' '.join(argv)} does not listen")
        return server

    def run(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        user: int | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        input: str | None = None,
        timeout_s: float = 60.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the near namespace, as ``SystemdLab.run`` does.

        Only the network and /etc/resolv.conf differ from this machine's.
        """
        home = "/root" if not user else "/"
        command = processes.entering(
            argv,
            target=self._client,
            namespaces="--net --mount",
            uid=user or 0,
            cwd=str(cwd or "/"),
            env=processes.floor(home, user or 0) | dict(env or {}),
        )
        process = processes.start(
            command,
            **processes.piped(input),
        )
        return processes.finish(process, argv, input, timeout_s)

    # -- making it -------------------------------------------------------------------------

    def _start(self) -> None:
        if not self._client:
            self._client = self._hold_namespace()
        # The venv's interpreter, for dnspython.
        self._server = self._child(
            ["unshare", "--net", sys.executable, str(Path(__file__).with_name("listeners.py"))]
        )
        self._read()
        self._link(self._server.pid)
        self._ask(
            "listen",
            addresses=[*ADDRESSES.values()],
            echo=ECHO_PORTS,
            http=HTTP_PORTS,
            udp=UDP_PORTS,
            tap="far" if self._tap else "",
        )
        self._fill_zone()

    def _child(self, argv: Sequence[str]) -> subprocess.Popen[str]:
        """A process that ends when this one does: when its standard input closes."""
        child = processes.start(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/"
        )
        self._cleanup.callback(processes.end, child, 5)
        return child

    def _hold_namespace(self) -> int:
        """A process in a new network namespace, which sees a resolv.conf of its own."""
        # A file on a tmpfs that only this namespace ever saw: nothing to remove afterwards.
        script = (
            "target=$(readlink -f /etc/resolv.conf) && mount -t tmpfs resolv /mnt && "
            'printf %s "$1" > /mnt/file && chmod 644 /mnt/file && '
            'mount --bind /mnt/file "$target" && umount -l /mnt && '
            "ip link set lo up && echo ready && exec cat"
        )
        holder = self._child(
            ["unshare", "--net", "--mount", "sh", "-c", script, "sh", self.resolv_conf]
        )
        assert holder.stdout
        ready, _, _ = select.select([holder.stdout], [], [], ANSWER_S)
        if not ready or holder.stdout.readline() != "ready\n":
            raise LabUnavailable("no network and mount namespace (or no /etc/resolv.conf)")
        return holder.pid

    def _link(self, server: int) -> None:
        self._ip(
            server,
            [
                "link set lo up",
                f"link add far type veth peer name near netns {self._client}",
                f"address add {FAR4}/30 dev far",
                f"address add {FAR6}/64 dev far nodad",
                "link set far up",
                *(f"address add {a} dev lo{' nodad' * (':' in a)}" for a in ADDRESSES.values()),
            ],
        )
        self._ip(
            self._client,
            [
                f"address add {NEAR4}/30 dev near",
                f"address add {NEAR6}/64 dev near nodad",
                "link set near up",
                f"route add default via {FAR4}",
                f"route add default via {FAR6} dev near",
            ],
        )

    @staticmethod
    def _ip(pid: int, commands: Sequence[str]) -> None:
        command = processes.entering(
            ["ip", "-batch", "-"], target=pid, namespaces="--net", env={"PATH": processes.PATH}
        )
        done = subprocess.run(
            command,
            input="\n".join(commands) + "\n",
            text=True,
            capture_output=True,
            timeout=ANSWER_S,
            check=False,
            env={"PATH": processes.PATH},
        )
        if done.returncode:
            raise LabUnavailable(f"the namespaces cannot be linked: {done.stderr.strip()}")

    def _fill_zone(self) -> None:
        for name, labels in ZONE.items():
            self.name(name, *(ADDRESSES[label] for label in labels))
        self.name("rotating.test", *(ADDRESSES[label] for label in ROTATING), rotate=True)
        self.name("alias.test", alias="api.test")

    def _ask(self, op: str, **settings: Any) -> Any:
        assert self._server and self._server.stdin
        self._server.stdin.write(json.dumps({"op": op, **settings}) + "\n")
        self._server.stdin.flush()
        return self._read()

    def _read(self) -> Any:
        assert self._server and self._server.stdout
        ready, _, _ = select.select([self._server.stdout], [], [], ANSWER_S)
        line = self._server.stdout.readline() if ready else ""
        if not line:
            raise LabUnavailable("the listeners of the private internet ended or do not answer")
        return json.loads(line)
