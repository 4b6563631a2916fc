"""The far end of the private internet: one process that answers and writes everything down.

Runs in a network namespace of its own, speaks JSON lines on standard input and output, and
ends when its input closes. ``lab.internet`` starts it. Services, on every address:

* TCP and UDP echo, and HTTP, on the ports it is told;
* DNS on port 53 (UDP and TCP) from a table that can be changed, with rotating answers;
* a packet tap that notes every TCP opening, UDP datagram and ping, also to ports nobody
  listens on, so that a test can prove that nothing left a box.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Any

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

RECORDS = 20_000
CHUNK = 65_536
IPV4, IPV6 = 0x0800, 0x86DD


class Zone:
    """Names and their answers. ``rotate`` gives one address per query, in turn."""

    def __init__(self) -> None:
        self.names: dict[str, dict[str, Any]] = {}
        self.turns: dict[tuple[str, str], int] = {}

    def answer(self, query: dns.message.Message) -> dns.message.Message:
        reply = dns.message.make_response(query)
        reply.flags |= dns.flags.RA
        question = query.question[0]
        kind = dns.rdatatype.to_text(question.rdtype)
        name = question.name.to_text(omit_final_dot=True).lower()
        for _ in range(8):  # aliases of aliases end here
            entry = self.find(name)
            if entry is None:
                reply.set_rcode(dns.rcode.NXDOMAIN)
                break
            alias = entry.get("alias")
            if alias is None:
                self.add(reply, name, kind, entry)
                break
            reply.answer.append(
                dns.rrset.from_text(f"{name}.", entry["ttl"], "IN", "CNAME", f"{alias}.")
            )
            name = alias
        return reply

    def find(self, name: str) -> dict[str, Any] | None:
        if name in self.names:
            return self.names[name]
        return self.names.get("*." + name.partition(".")[2])

    def add(self, reply: dns.message.Message, name: str, kind: str, entry: dict[str, Any]) -> None:
        colon = {"A": False, "AAAA": True}.get(kind)
        values = [value for value in entry["answers"] if (":" in value) is colon]
        if entry.get("rotate") and values:
            turn = self.turns[name, kind] = self.turns.get((name, kind), -1) + 1
            values = [values[turn % len(values)]]
        if values:
            reply.answer.append(dns.rrset.from_text(f"{name}.", entry["ttl"], "IN", kind, *values))


class Listeners:
    """All sockets of the far end in one loop."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.zone = Zone()
        self.records: deque[dict[str, Any]] = deque(maxlen=RECORDS)
        self.tap: socket.socket | None = None
        self.input = b""
        self.open = True

    def note(self, kind: str, local: Any, remote: Any, data: bytes | str = b"") -> None:
        text = data if isinstance(data, str) else data.decode("latin-1")
        self.records.append(
            {
                "kind": kind,
                "address": plain(local[0]),
                "port": local[1],
                "source": plain(remote[0]),
                "data": text[:CHUNK],
            }
        )

    def watch(self, item: socket.socket | int, action: Callable[[], None]) -> None:
        self.selector.register(item, selectors.EVENT_READ, action)

    def forget(self, item: socket.socket) -> None:
        with contextlib.suppress(KeyError):
            self.selector.unregister(item)
        item.close()

    # -- set-up ----------------------------------------------------------------------------

    def listen(
        self, addresses: list[str], echo: list[int], http: list[int], udp: list[int], tap: str
    ) -> None:
        for port in [*echo, *http, 53]:
            service = {53: self.dns_stream}.get(port, self.echo if port in echo else self.http)
            self.tcp(port, service)
        for address in addresses:
            for port in [*udp, 53]:
                self.udp(address, port)
        if tap:
            # ETH_P_ALL; larger buffer so that a burst is not lost
            self.tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
            self.tap.setsockopt(socket.SOL_SOCKET, 33, 1 << 23)  # SO_RCVBUFFORCE
            self.tap.bind((tap, 3))
            self.tap.setblocking(False)
            self.watch(self.tap, self.drain_tap)

    def tcp(self, port: int, service: Callable[[socket.socket, bytes], None]) -> None:
        server = socket.create_server(
            ("::", port), family=socket.AF_INET6, backlog=512, dualstack_ipv6=True
        )
        server.setblocking(False)
        self.watch(server, lambda: self.accept(server, service))

    def udp(self, address: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        item = socket.socket(family, socket.SOCK_DGRAM)
        item.bind((address, port))
        item.setblocking(False)
        self.watch(item, lambda: self.datagram(item))

    # -- services --------------------------------------------------------------------------

    def accept(
        self, server: socket.socket, service: Callable[[socket.socket, bytes], None]
    ) -> None:
        with contextlib.suppress(OSError):
            client, _ = server.accept()
            client.settimeout(2)
            self.note("tcp", client.getsockname(), client.getpeername())
            self.watch(client, lambda: self.stream(client, service))

    def stream(
        self, client: socket.socket, service: Callable[[socket.socket, bytes], None]
    ) -> None:
        try:
            data = client.recv(CHUNK)
            if data:
                self.note("data", client.getsockname(), client.getpeername(), data)
                service(client, data)
        except OSError:
            data = b""
        if not data:
            self.forget(client)

    def echo(self, client: socket.socket, data: bytes) -> None:
        client.sendall(data)

    def http(self, client: socket.socket, data: bytes) -> None:
        """One request, one answer: the request's own first line, as the body."""
        first = data.partition(b"\r\n")[0]
        self.note("http", client.getsockname(), client.getpeername(), first)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n"
        client.sendall(head + b"Content-Length: %d\r\n\r\n" % len(first) + first)
        client.shutdown(socket.SHUT_WR)

    def dns_stream(self, client: socket.socket, data: bytes) -> None:
        reply = self.resolve(data[2:], client.getsockname(), client.getpeername())
        client.sendall(struct.pack("!H", len(reply)) + reply)

    def datagram(self, item: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            data, source = item.recvfrom(CHUNK)
            if item.getsockname()[1] == 53:
                item.sendto(self.resolve(data, item.getsockname(), source), source)
            else:
                self.note("udp", item.getsockname(), source, data)
                item.sendto(data, source)

    def resolve(self, data: bytes, local: Any, remote: Any) -> bytes:
        try:
            query = dns.message.from_wire(data)
            question = query.question[0]
        except Exception:  # whatever a hostile client sends: note it, answer nothing useful
            self.note("dns-malformed", local, remote, data)
            return data[:2] + b"\x80\x01" + bytes(8)
        kind = dns.rdatatype.to_text(question.rdtype)
        self.note("dns", local, remote, f"{question.name.to_text(omit_final_dot=True)} {kind}")
        return self.zone.answer(query).to_wire()

    # -- the tap ---------------------------------------------------------------------------

    def drain_tap(self) -> None:
        while self.tap:
            try:
                packet, (_, protocol, direction, *_) = self.tap.recvfrom(CHUNK)
            except BlockingIOError:
                return
            if direction != socket.PACKET_OUTGOING:
                self.packet(protocol, packet)

    def packet(self, protocol: int, packet: bytes) -> None:
        with contextlib.suppress(struct.error, IndexError):
            if protocol == IPV4:
                head, number = (packet[0] & 15) * 4, packet[9]
                source, target = packet[12:16], packet[16:20]
            elif protocol == IPV6:
                head, number = 40, packet[6]
                source, target = packet[8:24], packet[24:40]
            else:
                return
            self.transport(number, packet[head:], shown(source), shown(target))

    def transport(self, number: int, rest: bytes, source: str, target: str) -> None:
        port = struct.unpack_from("!H", rest, 2)[0]
        if number == 6 and rest[13] & 0x12 == 2:
            self.note("packet-tcp", (target, port), (source, 0))
        elif number == 17:
            self.note("packet-udp", (target, port), (source, 0))
        elif (number, rest[0]) in ((1, 8), (58, 128)):
            self.note("packet-ping", (target, 0), (source, 0))
        elif number not in (1, 6, 17, 58, 0):
            self.note(f"packet-{number}", (target, 0), (source, 0))

    # -- control ---------------------------------------------------------------------------

    def command(self) -> None:
        chunk = os.read(0, CHUNK)
        self.open = bool(chunk)
        *lines, self.input = (self.input + chunk).split(b"\n")
        for line in lines:
            order = json.loads(line)
            answer = getattr(self, "on_" + order.pop("op"))(**order)
            print(json.dumps(answer), flush=True)

    def on_listen(self, **settings: Any) -> bool:
        self.listen(**settings)
        return True

    def on_zone(self, names: dict[str, dict[str, Any]]) -> bool:
        self.zone.names.update(names)
        return True

    def on_records(self) -> list[dict[str, Any]]:
        self.turn(0.0)
        return list(self.records)

    def on_clear(self) -> bool:
        self.turn(0.0)
        self.records.clear()
        return True

    def turn(self, timeout_s: float | None) -> None:
        """Serve what is ready, except further orders while one is being answered."""
        while ready := self.selector.select(timeout_s):
            for key, _ in ready:
                if timeout_s is None or key.fd != 0:
                    key.data()
            if timeout_s is None or all(key.fd == 0 for key, _ in ready):
                return

    def serve(self) -> None:
        self.watch(0, self.command)
        print(json.dumps("ready"), flush=True)
        while self.open:
            self.turn(None)


def plain(address: str) -> str:
    return address.removeprefix("::ffff:").partition("%")[0]


def shown(raw: bytes) -> str:
    return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)


if __name__ == "__main__":
    Listeners().serve()
