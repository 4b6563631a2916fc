"""The network wall of a box, seen from both sides: what it tries, and what arrives.

Every refusal is proven by listeners that saw nothing, on the wire too, and has a twin that
arrives through pasta.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from box.boxed import PYTHON, Boxed, attempts_command, command_line
from lab.internet import ADDRESSES, Internet, Record

pytestmark = [
    pytest.mark.requires("box", "net", "root"),
    pytest.mark.usefixtures("leftovers"),
]

READ = ["--read", "."]
ONE4, TWO4, ONE6, TWO6 = (ADDRESSES[name] for name in ("one4", "two4", "one6", "two6"))
METADATA, PRIVATE = ADDRESSES["metadata4"], ADDRESSES["private4"]
#: A refusal is answered by the box's own kernel; a wrong answer would be waited for 1 s.
AT_ONCE_S = 0.5


def arrived(net: Internet) -> list[Record]:
    """What was seen on the wire, but for the names pasta itself never asks."""
    return [record for record in net.records() if record.kind.startswith("packet-")]


def granting(*destinations: str) -> list[str]:
    return [*READ, *(word for entry in destinations for word in ("--net", entry))]


def test_without_a_grant_nothing_leaves(near: Boxed, net: Internet) -> None:
    """TCP, UDP, raw, over both families, names and metadata: each fails at once and no packet
    arrives."""
    tries: list[list[Any]] = [["connect", address, 443] for address in ADDRESSES.values()]
    tries += [["send", address, 443] for address in ADDRESSES.values()]
    tries += [["connect", f"::ffff:{ONE4}", 443], ["send", ADDRESSES["dns"], 53]]
    answers = near.attempts(*tries, ["sock", socket.AF_INET, socket.SOCK_RAW, 1], grants=READ)
    for attempt, (said, took_s) in zip(tries, answers[:-1], strict=True):
        assert said == "ENETUNREACH", attempt
        assert took_s < AT_ONCE_S, attempt
    assert answers[-1] == "EPERM"
    assert arrived(net) == []


def test_a_denied_address_is_denied_by_translators_as_well(near: Boxed, net: Internet) -> None:
    """With everything else open: what stands for it in NAT64 and 6to4 does not leave, and what
    stands for another does."""
    policy = near.root / "p.toml"
    policy.write_text(
        f'[fs]\nread = ["{near.project}"]\n[net]\nallow = true\n'
        f'deny = ["{TWO4}:443", "{TWO4}:443/udp"]\n'
    )
    two, one = ((f"64:ff9b::2d5a:a0{n}", f"2002:2d5a:a0{n}::1") for n in (2, 1))
    tries: list[list[Any]] = [["connect", address, 443] for address in (TWO4, *two, ONE4)]
    tries += [["send", address, 443] for address in (*two, *one)]
    near.attempts(*tries, grants=["--policy", str(policy)])
    reached = {record.address for record in arrived(net)}
    assert not reached & {TWO4, *two}
    assert {ONE4, *one} <= reached


def test_the_twin_without_a_wall_arrives(near: Boxed, net: Internet) -> None:
    """The same attempts from a box whose policy leaves the network alone."""
    policy = near.root / "p.toml"
    policy.write_text(f'[fs]\nread = ["{near.project}"]\n')
    answers = near.attempts(
        ["connect", ONE4, 443], ["connect", ONE6, 443], ["send", ONE4, 443], ["send", ONE6, 443],
        grants=["--policy", str(policy)],
    )  # fmt: skip
    assert [said for said, _ in answers] == ["ok"] * 4
    assert {record.kind for record in arrived(net)} == {"packet-tcp", "packet-udp"}


@pytest.mark.parametrize("transport", ["binding", "program"])
def test_a_literal_grant_is_one_address_port_and_protocol(
    near: Boxed, net: Internet, transport: str
) -> None:
    """Over both families and protocols, by both ways to load a table."""
    env = without_binding(near.root) if transport == "program" else {}
    grants = granting(f"{ONE4}:443", f"[{TWO6}]:7", f"{TWO4}:7777/udp", f"[{ONE6}]:443/udp")
    allowed: list[list[Any]] = [
        ["connect", ONE4, 443], ["connect", TWO6, 7],
        ["send", TWO4, 7777], ["send", ONE6, 443],
    ]  # fmt: skip
    refused: list[list[Any]] = [
        ["connect", ONE4, 7], ["connect", ONE4, 80], ["connect", TWO4, 443],
        ["connect", TWO4, 7777], ["connect", TWO6, 443], ["connect", ONE6, 443],
        ["connect", f"::ffff:{TWO4}", 443], ["connect", PRIVATE, 443], ["connect", METADATA, 80],
        ["send", ONE4, 443], ["send", TWO4, 7], ["send", TWO6, 7], ["send", ONE6, 7],
        ["send", ADDRESSES["dns"], 53], ["connect", ADDRESSES["dns"], 53],
    ]  # fmt: skip
    run = near.exec(*grants, command=attempts_command(*allowed, *refused), env=env)
    assert run.code == 0, run.err
    answers = json.loads(run.out)
    assert [said for said, _ in answers[:4]] == ["ok"] * 4, answers
    for attempt, (said, took_s) in zip(refused, answers[4:], strict=True):
        assert said == ("ECONNREFUSED" if attempt[0] == "connect" else "EPERM"), attempt
        assert took_s < AT_ONCE_S, attempt
    seen = {(record.kind, record.address, record.port) for record in arrived(net)}
    assert seen == {
        ("packet-tcp", ONE4, 443), ("packet-tcp", TWO6, 7),
        ("packet-udp", TWO4, 7777), ("packet-udp", ONE6, 443),
    }  # fmt: skip
    told = {(d["address"], d["protocol"], d["port"]) for d in run.status["denials"]}
    assert {(TWO4, "tcp", 443), (ONE4, "udp", 443), (TWO6, "tcp", 443)} <= told
    assert (ONE4, "tcp", 443) not in told
    # Who reads only the terminal is told as well, in words that net.allow takes.
    (line,) = [line for line in run.err.splitlines() if "refused, as net.allow" in line]
    words = [word.rstrip(",") for word in line.split()]
    shown = {f"{TWO4}:443", f"{ONE4}:443/udp", f"[{TWO6}]:443", f"{PRIVATE}:443", f"{ONE4}:80"}
    assert shown & set(words) and f"{ONE4}:443" not in words and " more" in line


def without_binding(folder: Path) -> dict[str, str]:
    """A supervisor whose Python has no nftables binding, so that the program is used."""
    blocked = folder / "blocked"
    blocked.mkdir()
    (blocked / "nftables.py").write_text("raise ImportError('not here')\n")
    return {"PYTHONPATH": f"{blocked}:{Path(__file__).parents[2]}"}


@pytest.mark.parametrize(
    ("entry", "reached"),
    [
        (f"{ONE4}:1-79", {7}),
        (f"{ONE4}:80-443", {80, 443}),
        (f"{ONE4}:*", {7, 80, 443}),
        (ONE4, {443}),
        ("45.90.10.0/24:7", {7}),
        ("45.90.11.0/24:*", set()),
    ],
)
def test_ports_and_networks(near: Boxed, net: Internet, entry: str, reached: set[int]) -> None:
    """Ranges, ``*``, the default port and CIDRs hold exactly."""
    ports = (7, 80, 443)
    tries = [["connect", ONE4, port] for port in ports if port != 80]
    tries.append(["connect", ONE4, 80])
    near.attempts(*tries, grants=granting(entry))
    assert {record.port for record in arrived(net)} == reached


@pytest.mark.parametrize(
    ("entries", "reached"),
    [
        (["0.0.0.0/0:80", "0.0.0.0/0:443"], False),
        (["169.0.0.0/8:80", "45.90.0.0/16:443"], False),
        ([f"{METADATA}:80", f"{ONE4}:443"], True),
        (["169.254.0.0/16:80", f"{ONE4}:443"], True),
    ],
    ids=str,
)
def test_metadata_needs_its_own_entry(
    near: Boxed, net: Internet, entries: list[str], reached: bool
) -> None:
    """A broad network does not bring the metadata address, a literal one does."""
    metadata, other = near.attempts(
        ["connect", METADATA, 80], ["connect", ONE4, 443], grants=granting(*entries)
    )
    assert other[0] == "ok"
    assert metadata[0] != "ECONNREFUSED" if reached else metadata[0] == "ECONNREFUSED"
    assert bool(net.seen("packet-tcp", METADATA)) is reached


def test_deny_beats_allow(near: Boxed, net: Internet) -> None:
    """Inside a granted network one address is taken out; with everything open as well."""
    for allow in ('["45.90.10.0/24:443"]', "true"):
        net.clear()
        policy = near.root / "p.toml"
        policy.write_text(
            f'[fs]\nread = ["{near.project}"]\n[net]\nallow = {allow}\ndeny = ["{TWO4}:443"]\n'
        )
        denied, allowed = near.attempts(
            ["connect", TWO4, 443], ["connect", ONE4, 443], grants=["--policy", str(policy)]
        )
        assert (denied[0], allowed[0]) == ("ECONNREFUSED", "ok"), allow
        assert {record.address for record in arrived(net)} == {ONE4}


def test_the_hosts_own_services_are_out_of_reach(near: Boxed, net: Internet) -> None:
    """Neither 127.0.0.1, nor ::1, nor the gateway leads to a listener beside the supervisor,
    whatever is granted; a connection made outside does."""
    code = """
import socket, sys
server = socket.create_server(("::", 9911), family=socket.AF_INET6, dualstack_ipv6=True)
print("up", flush=True)
while True: print(server.accept()[1][0], flush=True)
"""
    listener = subprocess.Popen(
        ["nsenter", f"--target={net.client}", "--net", PYTHON, "-ISc", code],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with listener:
        try:
            assert listener.stdout and listener.stdout.readline() == "up\n"
            grants = granting("0.0.0.0/0:*", "[::]/0:*", "127.0.0.1:9911", "[::1]:9911")
            own = ("127.0.0.1", "::1", Internet.near4, Internet.near6, "192.168.177.1")
            tries = [["connect", address, 9911] for address in own]
            answers = near.attempts(*tries, grants=grants)
            assert all(said != "ok" for said, _ in answers), answers
            twin = ["nsenter", f"--target={net.client}", "--net", PYTHON, "-ISc",
                    "import socket; socket.create_connection(('127.0.0.1', 9911))"]  # fmt: skip
            subprocess.run(twin, check=True, timeout=20)
            assert listener.stdout.readline() == "::ffff:127.0.0.1\n"
        finally:
            listener.kill()


def test_the_box_cannot_touch_its_table(near: Boxed, net: Internet) -> None:
    """With nft and ip inside: no listing, no flushing, no new link, and the forbidden
    connection still fails afterwards."""
    grants = [*granting(f"{ONE4}:443"), "--allow", "nft", "--allow", "ip"]
    before, flush, listing, table, link, down, after, allowed = near.attempts(
        ["connect", TWO4, 443],
        ["spawn", "nft", "flush", "ruleset"],
        ["spawn", "nft", "list", "ruleset"],
        ["spawn", "nft", "add", "table", "inet", "mine"],
        ["spawn", "ip", "link", "add", "d0", "type", "dummy"],
        ["spawn", "ip", "link", "set", "lo", "down"],
        ["connect", TWO4, 443],
        ["connect", ONE4, 443],
        grants=grants,
    )
    assert before[0] == after[0] == "ECONNREFUSED"
    assert all(step[0] != 0 for step in (flush, table, link, down))
    assert "axon" not in listing[1] and allowed[0] == "ok"
    assert not net.seen("packet-tcp", TWO4)


def test_silence_instead_of_an_answer(near: Boxed, net: Internet) -> None:
    """``refuse = "drop"``: a refused connection times out, an allowed one does not."""
    policy = near.root / "p.toml"
    policy.write_text(
        f'[fs]\nread = ["{near.project}"]\n[net]\nallow = ["{ONE4}:443"]\nrefuse = "drop"\n'
    )
    refused, allowed = near.attempts(
        ["connect", TWO4, 443, 1], ["connect", ONE4, 443], grants=["--policy", str(policy)]
    )
    assert (refused[0], allowed[0]) == ("timeout", "ok")
    assert not net.seen("packet-tcp", TWO4)


@pytest.mark.parametrize("grants", [READ, granting(f"{ONE4}:443")], ids=["no link", "link"])
def test_names_fail_fast_and_are_not_asked_outside(
    near: Boxed, net: Internet, grants: list[str]
) -> None:
    """A lookup of any name ends at once, and no resolver outside hears of it."""
    code = """
import socket, time
start = time.monotonic()
try: print(socket.getaddrinfo("secret-data.wild.test", 443))
except socket.gaierror as error: print("gaierror", error.errno)
print(time.monotonic() - start)
"""
    run = near.exec(*grants, command=[PYTHON, "-ISc", code])
    said, took_s = run.text.splitlines()
    assert said.startswith("gaierror") and float(took_s) < 2
    assert [record for record in net.records() if record.kind.startswith("dns")] == []
    outside = net.run([PYTHON, "-ISc", code])
    assert not outside.stdout.startswith("gaierror") and net.seen("dns")


def test_a_relay_inside_gets_the_same_answer(near: Boxed, net: Internet) -> None:
    """A forwarder in the box reaches what the box reaches and no more."""
    code = f"""
import socket, threading
def relay(target):
    server = socket.create_server(("127.0.0.1", 0))
    def serve():
        client, _ = server.accept()
        try:
            with socket.create_connection(target, 3) as far:
                far.sendall(client.recv(9)); client.sendall(far.recv(9))
        except OSError: pass
        client.close()
    threading.Thread(target=serve, daemon=True).start()
    return server.getsockname()
for target in (("{ONE4}", 443), ("{TWO4}", 443)):
    with socket.create_connection(relay(target), 5) as near:
        near.sendall(b"x")
        try: print(near.recv(9))
        except OSError: print(b"")
"""
    run = near.exec(*granting(f"{ONE4}:443"), command=[PYTHON, "-ISc", code])
    assert run.text.splitlines() == ["b'x'", "b''"], run.err
    assert {record.address for record in arrived(net)} == {ONE4}


def test_what_links_a_box_ends_with_it(near: Boxed) -> None:
    """pasta is there while the box runs, and gone when its supervisor is killed."""
    code = "import time; open('out/up', 'w'); time.sleep(30)"
    words = command_line(*granting(f"{ONE4}:443"), "--write", "./out", command=[PYTHON, "-c", code])
    process = subprocess.Popen([*near.prefix, *words], env=near.env, cwd=near.project)
    with process:
        deadline = time.monotonic() + 20
        while not (near.project / "out/up").exists():
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.02)
        assert pastas(process.pid)
        process.kill()
        process.wait()
        while found := pastas(0):
            assert time.monotonic() < deadline, found
            time.sleep(0.02)


def pastas(parent: int) -> list[int]:
    """Live pasta processes: below a process, or (0) that this test run adopted."""
    import os

    from lab import processes

    found = []
    for pid in processes.descendants(parent or os.getpid()):
        try:
            name = Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:
            continue
        if name.startswith(("pasta", "passt")) and processes.state(pid) != "Z":
            found.append(pid)
    return found


def test_udp_and_tcp_bulk_through_the_link(near: Boxed) -> None:
    """A megabyte goes there and back unchanged."""
    code = f"""
import socket, threading
data = bytes(range(256)) * 4096
with socket.create_connection(("{ONE4}", 7), 10) as sock:
    threading.Thread(target=sock.sendall, args=(data,)).start()
    got = bytearray()
    while len(got) < len(data): got += sock.recv(65536)
print(got == data)
"""
    run = near.exec(*granting(f"{ONE4}:7"), command=[PYTHON, "-ISc", code])
    assert run.text == "True\n", run.err
    assert sys.version_info >= (3, 11)


def test_ports_that_the_host_may_reach(near: Boxed, net: Internet) -> None:
    """``net.listen``: the host's 127.0.0.1 leads to the box's, at those ports and by no other
    address; a box without an ``allow`` still reaches nothing."""
    policy = near.root / "p.toml"
    policy.write_text(f'[fs]\nread = ["{near.project}"]\n[net]\nallow = []\nlisten = [8091]\n')
    code = f"""
import socket
servers = [socket.create_server(("127.0.0.1", port)) for port in (8091, 8092)]
print("up", socket.socket().connect_ex(("{ONE4}", 443)), flush=True)
client, source = servers[0].accept()
client.sendall(b"from the box")
"""
    words = command_line("--policy", policy, "--quiet", command=[PYTHON, "-ISc", code])
    pipe = subprocess.PIPE
    connect = "socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)"
    ask = f"import socket, sys; print({connect}.recv(99))"
    argv = [*near.prefix, *words]
    with subprocess.Popen(argv, env=near.env, cwd=near.project, stdout=pipe) as process:
        try:
            assert process.stdout and process.stdout.readline() == b"up 111\n"
            for address, port in (("127.0.0.1", 8092), (Internet.near4, 8091), ("::1", 8091)):
                refused = net.run([PYTHON, "-ISc", ask, address, str(port)])
                assert "ConnectionRefusedError" in refused.stderr, (address, port)
            taken = near.exec("--policy", policy, command=["true"])
            assert taken.code == 125 and "8091" in taken.err, taken
            reached = net.run([PYTHON, "-ISc", ask, "127.0.0.1", "8091"])
            assert reached.stdout == "b'from the box'\n", reached.stderr
        finally:
            process.kill()


#: A relay that speaks CONNECT, and who uses it or does not; says which of them got an answer.
ROUTES = """
import os, socket, subprocess, sys, threading
def serve(client):
    target = client.recv(4096).split()[1].decode().rpartition(":")
    try:
        with socket.create_connection((target[0], int(target[2])), 3) as far:
            client.sendall(b"HTTP/1.1 200 OK\\r\\n\\r\\n")
            far.sendall(client.recv(4096))
            while part := far.recv(4096): client.sendall(part)
    except OSError: client.sendall(b"HTTP/1.1 502 No\\r\\n\\r\\n")
    client.close()
def listen(server):
    while True: threading.Thread(target=serve, args=server.accept()[:1], daemon=True).start()
server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=listen, args=(server,), daemon=True).start()
proxy = "http://127.0.0.1:%d" % server.getsockname()[1]
def curl(address, *words, **env):
    argv = ["curl", "-s", "-p", "-m", "5", *words, f"http://{address}:80/"]
    done = subprocess.run(argv, env={**os.environ, **env}, capture_output=True, text=True)
    return done.stdout.startswith("GET ")
def raw(address):
    with socket.socket() as sock: return sock.connect_ex((address, 80)) == 0
for address in sys.argv[1:]:
    print(curl(address, "-x", proxy), curl(address, http_proxy=proxy),
          curl(address, "--noproxy", "*", http_proxy=proxy), curl(address), raw(address))
"""


@pytest.mark.requires("programs")
def test_every_route_gets_the_same_answer(near: Boxed, net: Internet) -> None:
    """By a relay in the box, named or in the environment, around it, without one, by a socket of
    one's own: a granted address answers, another one never hears of it."""
    grants = [*granting(f"{ONE4}:80"), "--allow", "curl"]
    run = near.exec(*grants, command=[PYTHON, "-ISc", ROUTES, ONE4, TWO4])
    assert run.text.splitlines() == [" ".join(["True"] * 5), " ".join(["False"] * 5)], run.err
    assert {record.address for record in arrived(net)} == {ONE4}
