"""Run inside a box, and beside it as the twin: tries to send something by each way there is.

The last argument is JSON with the addresses. Prints what came of each attempt: ``sent`` or the
name of an error. Each has a destination of its own, so that what arrives tells which it was.
"""

import errno
import json
import socket
import struct
import sys

STREAM, DGRAM, RAW = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW
ONE4, ONE6, TWO4, TWO6, DNS, GATEWAY4, GATEWAY6, OWN4, METADATA, PRIVATE, MARK = json.loads(
    sys.argv[-1]
)
NAT64 = "64:ff9b::" + TWO4
IP_OPTIONS, IP_PKTINFO, SO_MARK, IPV6_RTHDR = 4, 8, 36, 57
TCP_MULTIPATH, UDPLITE, SCTP = 262, 136, 132
QUESTION = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x06secret\x04evil\x04test\0\0\x01\0\x01"
ATTEMPTS = {}


def attempt(function):
    ATTEMPTS[function.__name__] = function
    return function


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def stream(address, port, protocol=0, data=b"x"):
    with socket.socket(family(address), STREAM, protocol) as caller:
        caller.settimeout(0.3)
        caller.connect((address, port))
        caller.sendall(data)


def datagram(address, port, data=b"x", kind=DGRAM, protocol=0, options=()):
    with socket.socket(family(address), kind, protocol) as caller:
        for option in options:
            caller.setsockopt(*option)
        caller.sendto(data, (address, port))


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def crafted(port):
    """An IPv4 packet with a datagram to TWO4."""
    ends = socket.inet_aton(OWN4) + socket.inet_aton(TWO4)
    udp = struct.pack("!HHHH", 9, port, 9, 0) + b"x"
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 7, 0, 64, 17, 0) + ends
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + udp


@attempt
def tcp():
    stream(TWO4, 1001)


@attempt
def tcp6():
    stream(TWO6, 1002)


@attempt
def tcp_fast_open():
    with socket.socket(socket.AF_INET, STREAM) as caller:
        caller.settimeout(0.3)
        caller.sendto(b"x", socket.MSG_FASTOPEN, (TWO4, 1003))


@attempt
def tcp_multipath():
    stream(TWO4, 1004, TCP_MULTIPATH)


@attempt
def tcp_mapped():
    stream(f"::ffff:{TWO4}", 1005)


@attempt
def tcp_after_a_granted_one():
    """A socket that was connected to a granted address is let go and connected elsewhere."""
    with socket.socket(socket.AF_INET, STREAM) as caller:
        caller.settimeout(0.5)
        caller.connect((ONE4, 443))
        libc = __import__("ctypes").CDLL(None, use_errno=True)
        libc.connect(caller.fileno(), struct.pack("H14x", socket.AF_UNSPEC), 16)
        caller.connect((TWO4, 1006))


@attempt
def tcp_marked():
    """With the mark by which the table knows the relay of named destinations."""
    with socket.socket(socket.AF_INET, STREAM) as caller:
        caller.settimeout(0.3)
        caller.setsockopt(socket.SOL_SOCKET, SO_MARK, MARK)
        caller.connect((TWO4, 1021))


@attempt
def tcp_granted_address_other_port():
    stream(ONE4, 1007)


@attempt
def dns_over_https_elsewhere():
    stream(TWO4, 443)


@attempt
def dns_over_tls():
    stream(DNS, 853)


@attempt
def dns_over_tcp():
    stream(DNS, 53, data=struct.pack("!H", len(QUESTION)) + QUESTION)


@attempt
def dns_of_another_resolver():
    datagram(DNS, 53, QUESTION)


@attempt
def udp():
    datagram(TWO4, 1008)


@attempt
def udp6():
    datagram(TWO6, 1009)


@attempt
def udp_in_fragments():
    datagram(TWO4, 1010, bytes(4000))


@attempt
def udp_to_a_granted_tcp_port():
    datagram(ONE4, 443)


@attempt
def udp_from_a_connected_socket():
    with socket.socket(socket.AF_INET, DGRAM) as caller:
        caller.connect((ONE4, 7777))
        caller.send(b"granted")
        caller.sendto(b"x", (TWO4, 1011))


@attempt
def udp_with_another_source():
    info = struct.pack("i4s4s", 0, socket.inet_aton(OWN4), bytes(4))
    with socket.socket(socket.AF_INET, DGRAM) as caller:
        caller.sendmsg([b"x"], [(socket.IPPROTO_IP, IP_PKTINFO, info)], 0, (TWO4, 1012))


@attempt
def udp_by_a_source_route():
    """To a granted destination by way of another: the wire has the latter's address."""
    route = b"\x83\x07\x04" + socket.inet_aton(TWO4) + b"\0"
    datagram(ONE4, 7777, options=[(socket.IPPROTO_IP, IP_OPTIONS, route)])


@attempt
def udp6_by_a_source_route():
    hops = bytes(16) + socket.inet_pton(socket.AF_INET6, TWO6)
    route = struct.pack("BBBBBBH", 0, 4, 4, 1, 1, 0, 0) + hops
    datagram(ONE6, 7777, options=[(socket.IPPROTO_IPV6, IPV6_RTHDR, route)])


@attempt
def udp_lite():
    datagram(TWO4, 1013, protocol=UDPLITE)


@attempt
def sctp():
    stream(TWO4, 1014, SCTP)


@attempt
def multicast():
    datagram("224.0.0.251", 5353)


@attempt
def broadcast():
    on = (socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    datagram("255.255.255.255", 1015, options=[on])


@attempt
def nat64():
    datagram(NAT64, 1016)


@attempt
def gateway():
    stream(GATEWAY4, 1017)


@attempt
def gateway6():
    datagram(GATEWAY6, 1018)


@attempt
def metadata():
    stream(METADATA, 80)


@attempt
def private_address():
    stream(PRIVATE, 443)


@attempt
def host_by_its_address():
    stream(OWN4, 9911)


@attempt
def host_by_loopback():
    stream("127.0.0.1", 9911)


@attempt
def host_by_loopback6():
    stream("::1", 9911)


@attempt
def ping():
    datagram(TWO4, 0, b"\x08\0\xf7\xff\0\0\0\0", protocol=socket.IPPROTO_ICMP)


@attempt
def raw_ping():
    datagram(TWO4, 0, b"\x08\0\xf7\xff\0\0\0\0", RAW, socket.IPPROTO_ICMP)


@attempt
def raw_ping6():
    datagram(TWO6, 0, b"\x80\0\0\0\0\0\0\0", RAW, socket.IPPROTO_ICMPV6)


@attempt
def raw_protocol():
    datagram(TWO4, 0, b"x" * 8, RAW, 253)


@attempt
def raw_header():
    datagram(TWO4, 0, crafted(1019), RAW, socket.IPPROTO_RAW)


@attempt
def packet():
    """Past every table, to whoever is on the link."""
    for _, name in socket.if_nameindex():
        if name != "lo":
            with socket.socket(socket.AF_PACKET, DGRAM, 0x0800) as caller:
                caller.sendto(crafted(1020), (name, 0x0800, 0, 0, b"\xff" * 6))


@attempt
def vsock():
    with socket.socket(socket.AF_VSOCK, STREAM) as caller:
        caller.settimeout(0.3)
        caller.connect((2, 9911))


@attempt
def netlink_route():
    """A way around, by a route of one's own."""
    with socket.socket(socket.AF_NETLINK, RAW, 0) as caller:
        body = struct.pack("BBBBBBBBI", socket.AF_INET, 32, 0, 0, 254, 4, 253, 1, 0)
        body += struct.pack("HH4s", 8, 1, socket.inet_aton("198.51.100.99"))
        body += struct.pack("HHI", 8, 4, socket.if_nametoindex("lo"))
        caller.send(struct.pack("IHHII", 16 + len(body), 24, 0x605, 1, 0) + body)
        code = -struct.unpack_from("i", caller.recv(4096), 16)[0]
        if code:
            raise OSError(code, "netlink")


@attempt
def netlink_filter():
    """The table, asked to flush itself."""
    socket.socket(socket.AF_NETLINK, RAW, 12).close()


@attempt
def abstract_stream():
    unix("\0axon-nothing-arrives", STREAM)


@attempt
def abstract_datagram():
    unix("\0axon-nothing-arrives-d", DGRAM)


@attempt
def path_stream():
    unix("host.sock", STREAM)


@attempt
def path_datagram():
    unix("host-d.sock", DGRAM)


def unix(name, kind):
    with socket.socket(socket.AF_UNIX, kind) as caller:
        caller.settimeout(0.3)
        caller.connect(name)
        caller.send(b"x")


def granted(address, port, kind=STREAM):
    """What is granted: whom the socket says it talks to, and what comes back."""
    with socket.socket(family(address), kind) as caller:
        caller.settimeout(3)
        caller.connect((address, port))
        caller.send(b"granted")
        return [caller.getpeername()[0], caller.getpeername()[1], caller.recv(99).decode()]


def outcome(function):
    try:
        function()
        return "sent"
    except TimeoutError:
        return "timeout"
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))


if __name__ == "__main__":
    # A granted name leads to these very addresses, for another port.
    socket.getaddrinfo("many.test", 444, socket.AF_INET, STREAM)
    found = {name: outcome(function) for name, function in ATTEMPTS.items()}
    found["granted"] = [granted(ONE4, 443), granted(ONE6, 443), granted(ONE4, 7777, DGRAM)]
    print(json.dumps(found))
