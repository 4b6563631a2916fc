"""Nothing arrives that was not granted: forty ways to send something, seen from the far side.

Every attempt runs in the box and, as its twin, beside it: there it arrives (or is known to be
impossible on any machine). Proof is what listeners, a tap on the wire and the host's own sockets
saw, not what the program was told.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from axonkernel.box.redirected import MARK
from box.boxed import PYTHON, Boxed, command_line
from lab.internet import ADDRESSES, FAR4, FAR6, NEAR4, NEAR6, Internet
from lab.processes import REPOSITORY
from lab.user import OrdinaryUser

pytestmark = [
    pytest.mark.requires("box", "net", "root"),
    pytest.mark.usefixtures("leftovers"),
]

ONE4, ONE6, TWO4, TWO6 = (ADDRESSES[name] for name in ("one4", "one6", "two4", "two6"))
DNS = ADDRESSES["dns"]
METADATA, PRIVATE = ADDRESSES["metadata4"], ADDRESSES["private4"]
WHERE = json.dumps([ONE4, ONE6, TWO4, TWO6, DNS, FAR4, FAR6, NEAR4, METADATA, PRIVATE, MARK])
COMMAND = [PYTHON, "-ISc", Path(__file__).with_name("outbound.py").read_text(), WHERE]
GRANTS = (
    f"{ONE4}:443", f"[{ONE6}]:443", f"{ONE4}:7777/udp", f"[{ONE6}]:7777/udp", "many.test:444",
)  # fmt: skip
#: What the far side sees of each attempt.
ARRIVES = {
    "tcp": ("packet-tcp", TWO4, 1001), "tcp6": ("packet-tcp", TWO6, 1002),
    "tcp_fast_open": ("packet-tcp", TWO4, 1003), "tcp_multipath": ("packet-tcp", TWO4, 1004),
    "tcp_mapped": ("packet-tcp", TWO4, 1005),
    "tcp_after_a_granted_one": ("packet-tcp", TWO4, 1006),
    "tcp_marked": ("packet-tcp", TWO4, 1021),
    "tcp_granted_address_other_port": ("packet-tcp", ONE4, 1007),
    "dns_over_https_elsewhere": ("packet-tcp", TWO4, 443),
    "dns_over_tls": ("packet-tcp", DNS, 853), "dns_over_tcp": ("packet-tcp", DNS, 53),
    "dns_of_another_resolver": ("packet-udp", DNS, 53),
    "udp": ("packet-udp", TWO4, 1008), "udp6": ("packet-udp", TWO6, 1009),
    "udp_in_fragments": ("packet-udp", TWO4, 1010),
    "udp_to_a_granted_tcp_port": ("packet-udp", ONE4, 443),
    "udp_from_a_connected_socket": ("packet-udp", TWO4, 1011),
    "udp_with_another_source": ("packet-udp", TWO4, 1012),
    "udp_by_a_source_route": ("packet-udp", TWO4, 7777),
    "udp6_by_a_source_route": ("packet-43", TWO6, 0),
    "udp_lite": ("packet-136", TWO4, 0),
    "multicast": ("packet-udp", "224.0.0.251", 5353),
    "broadcast": ("packet-udp", "255.255.255.255", 1015),
    "nat64": ("packet-udp", "64:ff9b::2d5a:a02", 1016),
    "gateway": ("packet-tcp", FAR4, 1017), "gateway6": ("packet-udp", FAR6, 1018),
    "metadata": ("packet-tcp", METADATA, 80), "private_address": ("packet-tcp", PRIVATE, 443),
    "raw_ping": ("packet-ping", TWO4, 0), "raw_ping6": ("packet-ping", TWO6, 0),
    "raw_protocol": ("packet-253", TWO4, 0), "raw_header": ("packet-udp", TWO4, 1019),
    "packet": ("packet-udp", TWO4, 1020),
}  # fmt: skip
#: What the host itself sees, by its listeners.
HEARD = {
    "host_by_its_address": "tcp", "host_by_loopback": "tcp", "host_by_loopback6": "tcp",
    "abstract_stream": "abstract_stream", "abstract_datagram": "abstract_datagram",
    "path_stream": "path_stream", "path_datagram": "path_datagram",
}  # fmt: skip
#: What may be impossible outside as well, or leaves no trace there.
UNPROVEN = {"ping", "sctp", "vsock", "netlink_route", "netlink_filter"}
GRANTED = {("packet-tcp", ONE4, 443), ("packet-tcp", ONE6, 443), ("packet-udp", ONE4, 7777)}


class Host:
    """Sockets of the host's: what came to them, by name."""

    def __init__(self, folder: Path, net: Internet) -> None:
        self._stack = contextlib.ExitStack()
        self._sockets = self._near(net)
        for name in ("host.sock", "host-d.sock"):
            path = folder / name
            kind = socket.SOCK_DGRAM if "-d" in name else socket.SOCK_STREAM
            self._sockets["path_datagram" if "-d" in name else "path_stream"] = self._unix(
                path, kind
            )

    def close(self) -> None:
        self._stack.close()

    def heard(self) -> dict[str, int]:
        """How often each was reached."""
        return {name: _taken(sock) for name, sock in self._sockets.items()}

    def _unix(self, path: Path, kind: int) -> socket.socket:
        sock = self._stack.enter_context(socket.socket(socket.AF_UNIX, kind))
        sock.bind(str(path))
        path.chmod(0o777)
        self._stack.callback(path.unlink, missing_ok=True)
        if kind == socket.SOCK_STREAM:
            sock.listen()
        sock.setblocking(False)
        return sock

    def _near(self, net: Internet) -> dict[str, socket.socket]:
        """Listeners in the network the supervisor has: TCP on all addresses, abstract ones."""
        ours, theirs = socket.socketpair()
        words = ["nsenter", f"--target={net.client}", "--net", PYTHON, "-ISc", LISTEN]
        fd = theirs.fileno()
        subprocess.run([*words, str(fd)], check=True, timeout=20, pass_fds=[fd])
        _, fds, _, _ = socket.recv_fds(ours, 1, 3)
        ours.close()
        theirs.close()
        found = [self._stack.enter_context(socket.socket(fileno=fd)) for fd in fds]
        for sock in found:
            sock.setblocking(False)
        return dict(zip(("tcp", "abstract_stream", "abstract_datagram"), found, strict=True))


#: Makes listeners where it runs, and sends them to whom it is told.
LISTEN = """
import socket, sys
tcp = socket.create_server(("::", 9911), family=socket.AF_INET6, dualstack_ipv6=True)
stream = socket.socket(socket.AF_UNIX)
stream.bind("\\0axon-nothing-arrives")
stream.listen()
datagram = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
datagram.bind("\\0axon-nothing-arrives-d")
fds = [each.fileno() for each in (tcp, stream, datagram)]
socket.send_fds(socket.socket(fileno=int(sys.argv[1])), [b"x"], fds)
"""


def _taken(sock: socket.socket) -> int:
    count = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            if sock.type == socket.SOCK_STREAM:
                sock.accept()[0].close()
            else:
                sock.recv(99)
            count += 1
    return count


@pytest.fixture
def host(near: Boxed, net: Internet) -> Iterator[Host]:
    host = Host(near.project, net)
    yield host
    host.close()


def seen(net: Internet) -> set[tuple[str, str, int]]:
    return {(r.kind, r.address, r.port) for r in net.records() if r.kind.startswith("packet-")}


def test_beside_a_box_each_attempt_arrives(near: Boxed, net: Internet, host: Host) -> None:
    """The twin of the tests below: all of it gets through where no wall is around it."""
    done = net.run(COMMAND, cwd=near.project)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said.keys() - {"granted"} == ARRIVES.keys() | HEARD.keys() | UNPROVEN
    missing = {name for name, trace in ARRIVES.items() if trace not in seen(net)}
    assert not missing, {name: said[name] for name in missing}
    heard = host.heard()
    assert heard.pop("tcp") == 3 and set(heard.values()) == {1}


def judged(said: dict[str, Any], net: Internet, host: Host) -> None:
    """Nothing arrived but what is granted, which came from and went to the right addresses."""
    # The host has asked about the granted name, and about no other.
    assert seen(net) - {("packet-udp", DNS, 53)} == GRANTED
    assert {record.data.partition(" ")[0] for record in net.seen("dns")} == {"many.test"}
    assert not any(host.heard().values())
    # A listener of the box's own is what loopback leads to, and nothing listens there.
    through = {name for name, outcome in said.items() if outcome == "sent"} - {"granted"}
    assert not through
    # Refused, not left to time out: the program can go on at once.
    assert "timeout" not in said.values(), said
    peers = [(ONE4, 443), (ONE6, 443), (ONE4, 7777)]
    assert said["granted"] == [[*peer, "granted"] for peer in peers]
    sources = {("tcp", ONE4): NEAR4, ("tcp", ONE6): NEAR6, ("udp", ONE4): NEAR4}
    for (kind, address), source in sources.items():
        assert {r.source for r in net.seen(kind, address)} == {source}


@pytest.mark.parametrize("more", ["", 'link = "veth"', 'tls_names = "check"'])
def test_from_a_box_nothing_arrives(near: Boxed, net: Internet, host: Host, more: str) -> None:
    """With root as the supervisor, over both links, and beside a relay of named destinations."""
    path = near.root / "p.toml"
    path.write_text(
        f'default = "deny"\n[fs]\nread = ["{near.project}"]\n'
        f"[net]\nallow = {json.dumps(GRANTS)}\n{more}\n"
    )
    run = near.exec("--policy", str(path), command=COMMAND)
    assert run.code == 0, run.err
    judged(json.loads(run.out), net, host)


def test_from_a_box_of_an_ordinary_user_nothing_arrives(
    near: Boxed, net: Internet, host: Host, ordinary_user: OrdinaryUser
) -> None:
    """With a supervisor that has no privilege, and may use the device that pasta needs."""
    ordinary_user.demand_checkout()
    home = ordinary_user.home
    # In the mount namespace of the near side only.
    script = (
        "mount -t tmpfs tun /mnt && mknod -m 666 /mnt/tun c 10 200 && "
        "mount --bind /mnt/tun /dev/net/tun && umount -l /mnt"
    )
    assert net.run(["sh", "-c", script]).returncode == 0
    project = home / "project"
    project.mkdir()
    near.project.rename(project / "given")
    grants = ["--read", ".", *(word for entry in GRANTS for word in ("--net", entry))]
    done = net.run(
        command_line(*grants, command=COMMAND),
        user=ordinary_user.uid,
        cwd=project / "given",
        env={
            "HOME": str(home),
            "PYTHONPATH": str(REPOSITORY),
            **{f"XDG_{name}_HOME": str(home / name) for name in ("CACHE", "STATE", "CONFIG")},
        },
    )
    assert done.returncode == 0, done.stderr
    judged(json.loads(done.stdout), net, host)
