"""The private internet proves itself: it answers, writes down what came, and leads nowhere."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab import leftovers as comparing
from lab.internet import ADDRESSES, Internet, Record

pytestmark = pytest.mark.requires("root")
PYTHON = "/usr/bin/python3"
TALK = """
import socket, sys
host, port, kind, text = sys.argv[1:]
family, kind, *_, address = socket.getaddrinfo(
    host, int(port), type=getattr(socket, kind))[0]
with socket.socket(family, kind) as s:
    s.settimeout(3)
    s.connect(address)
    s.send(text.encode())
    print(s.recv(1000).decode(), end="")
"""
#: At most three addresses are asked for by name, each by what getaddrinfo says.
LOOK_UP = """
import socket, sys
try:
    found = socket.getaddrinfo(sys.argv[1], 1, type=socket.SOCK_STREAM)
except socket.gaierror as error:
    sys.exit(f"no such name: {error}")
print(*sorted({entry[4][0] for entry in found}))
"""


def talk(net: Internet, host: str, port: int, kind: str, text: str) -> str:
    """Send a text from the near namespace; what comes back."""
    return net.run([PYTHON, "-ISc", TALK, host, str(port), kind, text]).stdout


def look_up(net: Internet, name: str) -> list[str]:
    """The addresses a program in the near namespace gets for a name."""
    return net.run([PYTHON, "-ISc", LOOK_UP, name]).stdout.split()


@pytest.mark.parametrize("address", ["one4", "two6", "private4", "metadata4"])
@pytest.mark.parametrize("kind", ["SOCK_STREAM", "SOCK_DGRAM"])
def test_echo_answers_and_is_recorded(internet: Internet, address: str, kind: str) -> None:
    """TCP and UDP echo on every address, IPv4 and IPv6; the record has address, port, bytes."""
    literal = ADDRESSES[address]
    assert talk(internet, literal, 7777, kind, "ping") == "ping"
    expected = "data" if kind == "SOCK_STREAM" else "udp"
    source = internet.near6 if ":" in literal else internet.near4
    assert internet.seen(expected) == [Record(expected, literal, 7777, source, "ping")]


def test_http_answers_by_name(internet: Internet) -> None:
    """A request to a .test name arrives at the address the name stands for."""
    request = "GET /path HTTP/1.1\r\nHost: web.test\r\n\r\n"
    assert talk(internet, "web.test", 80, "SOCK_STREAM", request).startswith("HTTP/1.1 200 OK")
    (record,) = internet.seen("http")
    assert (record.address, record.port, record.data) == (
        ADDRESSES["two4"],
        80,
        "GET /path HTTP/1.1",
    )
    assert {record.data for record in internet.seen("dns")} == {"web.test A", "web.test AAAA"}


def test_names(internet: Internet) -> None:
    """Both families, several addresses, wild cards, aliases and names that do not exist."""
    assert look_up(internet, "api.test") == sorted([ADDRESSES["one4"], ADDRESSES["one6"]])
    assert len(look_up(internet, "many.test")) == 3
    assert look_up(internet, "any.wild.test") == [ADDRESSES["two4"]]
    assert look_up(internet, "alias.test") == look_up(internet, "api.test")
    assert look_up(internet, "v6only.test") == [ADDRESSES["three6"]]
    assert look_up(internet, "nowhere.test") == []
    internet.name("nowhere.test", ADDRESSES["private4"])
    assert look_up(internet, "nowhere.test") == [ADDRESSES["private4"]]


def test_rotating_answers(internet: Internet) -> None:
    """One address a query, the next one each time."""
    answers = [look_up(internet, "rotating.test") for _ in range(4)]
    assert answers == [[ADDRESSES["three4"]], [ADDRESSES["four4"]]] * 2


def test_dns_over_tcp(internet: Internet) -> None:
    """The same table answers over TCP."""
    program = (
        "import sys, dns.message, dns.query\n"
        "answer = dns.query.tcp(dns.message.make_query('web.test', 'A'), sys.argv[1], 3)\n"
        "print(answer.answer[0][0])"
    )
    shown = internet.run([sys.executable, "-c", program, ADDRESSES["dns"]])
    assert shown.stdout.strip() == ADDRESSES["two4"], shown.stderr


def test_malformed_queries_do_not_end_it(internet: Internet) -> None:
    """Junk on port 53 is recorded, and names still resolve."""
    talk(internet, ADDRESSES["dns"], 53, "SOCK_DGRAM", "junk")
    assert internet.seen("dns-malformed")
    assert ADDRESSES["two4"] in look_up(internet, "web.test")


def test_packets_nobody_listens_for_are_seen(internet: Internet) -> None:
    """A connection attempt and a datagram to closed ports are recorded from the wire."""
    talk(internet, ADDRESSES["one4"], 4444, "SOCK_STREAM", "x")
    talk(internet, ADDRESSES["one6"], 5555, "SOCK_DGRAM", "x")
    assert internet.seen("packet-tcp", ADDRESSES["one4"], 4444)
    assert internet.seen("packet-udp", ADDRESSES["one6"], 5555)
    assert not internet.seen("tcp")


def test_sees_nothing_when_nothing_was_sent(internet: Internet) -> None:
    """No record without a packet; clear forgets."""
    internet.run(["true"])
    assert internet.records() == []
    talk(internet, ADDRESSES["one4"], 7, "SOCK_STREAM", "x")
    assert internet.records()
    internet.clear()
    assert internet.records() == []


def test_leads_nowhere(internet: Internet) -> None:
    """Only the link to the far end exists; loopback of this machine is another one."""
    assert comparing.links(internet.client) == {"lo", "near"}
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.3)
        port = server.getsockname()[1]
        assert talk(internet, "127.0.0.1", port, "SOCK_STREAM", "x") == ""
        with pytest.raises(TimeoutError):
            server.accept()
    # An address that is not part of it has no route beyond the far end.
    assert talk(internet, "192.0.2.1", 80, "SOCK_STREAM", "x") == ""


def test_leaves_this_machine_alone(leftovers: None) -> None:
    """No link, mount, route, file or process is left, also none while it runs but in its own."""

    def seen() -> list[object]:
        mine = os.getpid()
        return [
            comparing.links(mine),
            comparing.mounts(mine),
            Path("/proc/net/route").read_text(),
            Path("/proc/net/ipv6_route").read_text(),
            Path("/etc/resolv.conf").read_bytes(),
            os.path.exists("/run/netns"),
        ]

    before = seen()
    with Internet() as net:
        assert talk(net, ADDRESSES["one4"], 7, "SOCK_STREAM", "x") == "x"
        assert seen() == before
    assert seen() == before


HOLD = (
    "import sys, time\n"
    "sys.path.insert(0, sys.argv[1])\n"
    "from lab.internet import Internet\n"
    "net = Internet()\n"
    "net.start()\n"
    "print('up', flush=True)\n"
    "time.sleep(60)\n"
)


def test_ends_with_its_test_run(leftovers: None) -> None:
    """After SIGKILL of the process that made it, its processes end (leftovers checks)."""
    argv = [sys.executable, "-c", HOLD, str(Path(__file__).parents[1])]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout
        assert run.stdout.readline() == "up\n"
        run.send_signal(signal.SIGKILL)


def test_two_at_once_do_not_meet() -> None:
    """What is sent in one is not seen in the other, though the addresses are the same."""
    with Internet() as one, Internet() as two:
        assert talk(one, ADDRESSES["one4"], 7, "SOCK_STREAM", "x") == "x"
        assert one.records()
        assert two.records() == []


def test_a_burst_is_recorded_whole(internet: Internet) -> None:
    """Five hundred datagrams at once: each is in the records."""
    program = (
        "import socket, sys\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "for i in range(500): s.sendto(b'x', (sys.argv[1], 5555))"
    )
    internet.run([PYTHON, "-ISc", program, ADDRESSES["one4"]])
    deadline = time.monotonic() + 5
    while len(internet.seen("packet-udp", port=5555)) < 500 and time.monotonic() < deadline:
        pass
    assert len(internet.seen("packet-udp", port=5555)) == 500
