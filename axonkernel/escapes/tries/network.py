"""Reaching services of the host and of the network."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import sys

from axonkernel.escapes.attempt import Group, Refused
from axonkernel.escapes.scene import Scene
from axonkernel.escapes.tools import any_of, say

__all__ = ["GROUP"]

GROUP = Group("network", "network namespace", "net")
_TCP, _UDP = "connect 127.0.0.1:{tcp}", "connect 127.0.0.1:{udp}/udp"
_SECCOMP, _PRIVATE = "seccomp filter", "private /run and /tmp"
_STREAM, _DGRAM = socket.SOCK_STREAM, socket.SOCK_DGRAM


@GROUP("TCP to the host's loopback", "heard", ask=_TCP)
def tcp(scene: Scene) -> str:
    """A service that listens for programs of the host only is reached."""
    return say(socket.AF_INET, _STREAM, ("127.0.0.1", scene.tcp), "tcp")


@GROUP("TCP to the host's IPv6 loopback", "heard", ask="connect [::1]:{tcp6}")
def tcp6(scene: Scene) -> str:
    """A service that listens for programs of the host only is reached."""
    return say(socket.AF_INET6, _STREAM, ("::1", scene.tcp6), "tcp6")


@GROUP("TCP to 0.0.0.0", "heard", ask=_TCP)
def tcp_any(scene: Scene) -> str:
    """Another spelling of this machine's address is not judged."""
    return say(socket.AF_INET, _STREAM, ("0.0.0.0", scene.tcp), "tcp-any")


@GROUP("TCP to an IPv4 address inside IPv6", "heard", ask=_TCP)
def tcp_mapped(scene: Scene) -> str:
    """Another spelling of this machine's address is not judged."""
    return say(socket.AF_INET6, _STREAM, ("::ffff:127.0.0.1", scene.tcp), "tcp-mapped")


@GROUP("TCP to another address of the host", "heard", ask="connect {address}:{tcp}")
def tcp_own_address(scene: Scene) -> str:
    """A service of the host is reached by the address it has in its network."""
    if not scene.address:
        raise OSError(errno.EADDRNOTAVAIL, "the host has none")
    return say(socket.AF_INET, _STREAM, (scene.address, scene.tcp), "tcp-own-address")


@GROUP("TCP with data in the first packet", "heard", ask=_TCP)
def tcp_fast(scene: Scene) -> str:
    """Data leaves before the connection is judged."""
    with socket.socket(socket.AF_INET, _STREAM) as caller:
        caller.sendto(b"tcp-fast", socket.MSG_FASTOPEN, ("127.0.0.1", scene.tcp))
        caller.settimeout(2)
        caller.recv(1)
    return "answered"


@GROUP("multipath TCP", "heard", ask=_TCP)
def tcp_multipath(scene: Scene) -> str:
    """A protocol beside TCP is not judged."""
    return say(socket.AF_INET, _STREAM, ("127.0.0.1", scene.tcp), "tcp-multipath", 262)


@GROUP("UDP to the host's loopback", "heard", ask=_UDP)
def udp(scene: Scene) -> str:
    """A service that listens for programs of the host only is reached."""
    return say(socket.AF_INET, _DGRAM, ("127.0.0.1", scene.udp), "udp")


@GROUP("UDP to another address of the host", "heard", ask="connect {address}:{udp}/udp")
def udp_own_address(scene: Scene) -> str:
    """A service of the host is reached by the address it has in its network."""
    if not scene.address:
        raise OSError(errno.EADDRNOTAVAIL, "the host has none")
    return say(socket.AF_INET, _DGRAM, (scene.address, scene.udp), "udp-own-address")


@GROUP("a name server's question to the host", "heard", ask=_UDP)
def dns(scene: Scene) -> str:
    """Data leaves in the names that are asked for."""
    question = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03dns\0\0\x01\0\x01"
    with socket.socket(socket.AF_INET, _DGRAM) as caller:
        caller.settimeout(2)
        caller.connect(("127.0.0.1", scene.udp))
        caller.send(question)
        caller.recv(1)
    return "answered"


@GROUP("a raw IP socket", "claim")
def raw(scene: Scene) -> str:
    """Packets of any protocol, with any sender, leave."""
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()
    return "opened"


@GROUP("ping, without privilege", "claim", ask="open net")
def ping(scene: Scene) -> str:
    """Data leaves in echo requests to the host."""
    with socket.socket(socket.AF_INET, _DGRAM, socket.IPPROTO_ICMP) as caller:
        caller.settimeout(2)
        if not scene.address:
            raise OSError(errno.EADDRNOTAVAIL, "the host has none")
        caller.sendto(b"\x08\0\0\0\0\0\0\0", (scene.address, 0))
        caller.recv(64)
    return "answered"


@GROUP("a packet socket", "claim", wall=_SECCOMP)
def packet(scene: Scene) -> str:
    """Packets go past every table, and those of others are read."""
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)).close()
    return "opened"


def _family(id: str, text: str, family: int, kind: int, protocol: int, meaning: str) -> None:
    def do(scene: Scene) -> str:
        socket.socket(family, kind, protocol).close()
        return "opened"

    GROUP.add(id, text, meaning, "claim", do, wall=_SECCOMP)


_RARE = "A protocol that goes around the packet filter, or is rarely tested code, is used."
_family("vsock", "a vsock socket", 40, _STREAM, 0, "The machine that hosts this one is reached.")
_family("alg", "a socket of the kernel's ciphers", 38, socket.SOCK_SEQPACKET, 0, _RARE)
_family("bluetooth", "a Bluetooth socket", 31, socket.SOCK_RAW, 1, _RARE)
_family("can", "a CAN socket", 29, socket.SOCK_RAW, 1, _RARE)
_family("xdp", "an XDP socket", 44, socket.SOCK_RAW, 0, _RARE)
_family("key", "a key management socket", 15, socket.SOCK_RAW, 2, _RARE)
_family("tipc", "a TIPC socket", 30, socket.SOCK_SEQPACKET, 0, _RARE)
_family("netlink-filter", "netlink: the packet filter", 16, socket.SOCK_RAW, 12,
        "The table that holds the network is changed.")  # fmt: skip
_family("netlink-audit", "netlink: the audit system", 16, socket.SOCK_RAW, 9,
        "What the host records is changed.")  # fmt: skip
_family("netlink-generic", "netlink: generic", 16, socket.SOCK_RAW, 16, _RARE)
_family("netlink-sockets", "netlink: lists of sockets", 16, socket.SOCK_RAW, 4,
        "Connections of others are seen.")  # fmt: skip
_family("netlink-events", "netlink: events of devices", 16, socket.SOCK_RAW, 15,
        "Devices of the host are watched.")  # fmt: skip


def _asked(protocol: int, message: bytes) -> None:
    """Send one netlink message. Raises OSError with the error in its answer."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as netlink:
        netlink.settimeout(2)
        netlink.send(message)
        code = -int.from_bytes(netlink.recv(4096)[16:20], sys.byteorder, signed=True)
        if code:
            raise OSError(code, os.strerror(code))


@GROUP("netlink: a new link and its address", "claim", control="namespace", wall="no capability")
def make_link(scene: Scene) -> str:
    """The agent gives itself a network."""
    kind = struct.pack("HH", 10, 1) + b"veth\0\0\0\0"
    info = struct.pack("HH", 4 + len(kind), 18) + kind
    body = struct.pack("BxHiII", 0, 0, 0, 0, 0) + info
    _asked(0, struct.pack("IHHII", 16 + len(body), 16, 0x605, 1, 0) + body)  # RTM_NEWLINK
    return "made"


@GROUP("read the rules of iptables, to change them", "claim", control="namespace",
       wall="no capability")  # fmt: skip
def read_rules(scene: Scene) -> str:
    """The packet filter is reached by its old interface."""
    with socket.socket(socket.AF_INET, _STREAM) as any_socket:
        # IPT_SO_SET_ADD_COUNTERS, of nothing: the privilege is asked for first.
        try:
            any_socket.setsockopt(socket.SOL_IP, 65, b"")
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOENT):
                raise
    return "reached"


@GROUP("mark packets to go another way", "claim", control="namespace", wall="no capability")
def mark_packets(scene: Scene) -> str:
    """Packets are routed past rules that go by marks."""
    with socket.socket(socket.AF_INET, _DGRAM) as any_socket:
        any_socket.setsockopt(socket.SOL_SOCKET, 36, 0x100)
    return "marked"


@GROUP("an abstract socket, stream", "heard")
def abstract(scene: Scene) -> str:
    """A service of the host that has no file is reached."""
    return say(socket.AF_UNIX, _STREAM, f"\0{scene.abstract}", "abstract")


@GROUP("an abstract socket, datagram", "heard")
def abstract_datagram(scene: Scene) -> str:
    """A service of the host that has no file is reached."""
    with socket.socket(socket.AF_UNIX, _DGRAM) as caller:
        caller.sendto(b"abstract-datagram", f"\0{scene.abstract_datagram}")
    return "sent"


@GROUP("a pair's datagram end, to an abstract socket", "heard")
def redirect_pair(scene: Scene) -> str:
    """A socket that was let through for another purpose reaches a service of the host."""
    left, right = socket.socketpair(socket.AF_UNIX, _DGRAM)
    with left, right:
        left.connect(f"\0{scene.abstract_datagram}")
        left.send(b"redirect-pair")
    return "sent"


@GROUP("a unix socket outside", "heard", ask="read {outside}/service")
def unix_outside(scene: Scene) -> str:
    """A service of the host is reached through its file."""
    return say(socket.AF_UNIX, _STREAM, scene.socket, "unix-outside")


@GROUP("a unix socket of the host in a write grant", "heard", wall="mask")
def unix_in_grant(scene: Scene) -> str:
    """A service of the host that happens to lie in a grant, such as a database, is reached."""
    return say(socket.AF_UNIX, _STREAM, scene.project_socket, "unix-in-grant")


@GROUP("the same, by a symlink and /proc", "heard", wall="mask")
def unix_in_grant_by_link(scene: Scene) -> str:
    """Another spelling of its path is not masked."""
    os.symlink(scene.project_socket, f"{scene.project}/to-socket")
    return any_of(
        lambda: say(socket.AF_UNIX, _STREAM, f"{scene.project}/to-socket", "unix-in-grant-by-link"),
        lambda: say(
            socket.AF_UNIX, _STREAM, f"/proc/self/root{scene.project_socket}",
            "unix-in-grant-by-link",
        ),
    )  # fmt: skip


@GROUP("a socket of the host's that was renamed", "heard", wall="mask")
def unix_in_grant_renamed(scene: Scene) -> str:
    """A masked socket is reached by another name."""
    folder = os.path.dirname(scene.project_socket)
    os.rename(folder, f"{scene.project}/moved-services")
    name = os.path.basename(scene.project_socket)
    path = f"{scene.project}/moved-services/{name}"
    return say(socket.AF_UNIX, _STREAM, path, "unix-in-grant-renamed")


def _control(id: str, text: str, paths: tuple[str, ...], meaning: str) -> None:
    def do(scene: Scene) -> str:
        last: OSError = FileNotFoundError(errno.ENOENT, "no such socket")
        for path in paths:
            try:
                with socket.socket(socket.AF_UNIX, _STREAM) as caller:
                    caller.settimeout(2)
                    caller.connect(path.format(uid=os.getuid()))
                    return f"connected to {path}"
            except OSError as error:
                last = error
        raise last

    GROUP.add(
        id,
        text,
        meaning,
        "claim",
        do,
        wall=_PRIVATE,
        ask=f"unsafe {paths[0]}".replace("/{uid}", ""),
    )


_control("docker", "the socket of docker", ("/run/docker.sock", "/var/run/docker.sock"),
         "A container with the whole host in it is started.")  # fmt: skip
_control("system-bus", "the system's D-Bus", ("/run/dbus/system_bus_socket",),
         "The host's services are asked to act for the agent.")  # fmt: skip
_control("user-bus", "the user's D-Bus", ("/run/user/{uid}/bus",),
         "The user's programs are asked to act for the agent.")  # fmt: skip
_control("systemd", "the socket of systemd", ("/run/systemd/private",),
         "A service is started outside the box.")  # fmt: skip
_control("display", "the display server", ("/tmp/.X11-unix/X0", "\0/tmp/.X11-unix/X0"),
         "The screen is read and keys are pressed.")  # fmt: skip


@GROUP("the ssh agent that SSH_AUTH_SOCK names", "heard", wall=_PRIVATE)
def ssh_agent(scene: Scene) -> str:
    """The user's keys sign for the agent."""
    path = os.environ.get("SSH_AUTH_SOCK", f"{scene.outside}/agent")
    return say(socket.AF_UNIX, _STREAM, path, "ssh-agent")


@GROUP("a tap device", "claim", control="namespace", wall="private /dev")
def tap(scene: Scene) -> str:
    """The agent gives itself a network."""
    import fcntl

    with open("/dev/net/tun", "r+b", buffering=0) as device:
        fcntl.ioctl(device, 0x400454CA, struct.pack("16sH22x", b"attempt", 2))
    return "made"


@GROUP("descriptors handed over by a service", "heard")
def handed_over(scene: Scene) -> str:
    """A service of the host takes descriptors from the agent, or gives it some."""
    with socket.socket(socket.AF_UNIX, _STREAM) as caller:
        caller.settimeout(2)
        caller.connect(f"\0{scene.abstract}")
        with contextlib.closing(socket.socketpair()[0]) as mine:
            socket.send_fds(caller, [b"handed-over"], [mine.fileno()])
        if not caller.recv(1):
            raise Refused("closed")
    return "taken"
