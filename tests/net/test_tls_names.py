"""net.tls_names = "check": what shares an address with a granted name is told apart.

TLS servers on every address of the private internet write down whom they were asked for; what
is refused never reaches one, and the same attempt with a granted name does.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from box.boxed import PYTHON, Boxed, Run, command_line
from lab.internet import ADDRESSES, Internet
from lab.tls import TLS_PORT, Authority, TlsServers
from lab.user import OrdinaryUser
from net.resolvers import resolver_of
from net.users import as_user

pytestmark = [
    pytest.mark.requires("box", "net", "root"),
    pytest.mark.usefixtures("leftovers"),
]

TRIES = Path(__file__).with_name("tls_tries.py").read_text()
ONE4, TWO4, ONE6 = (ADDRESSES[name] for name in ("one4", "two4", "one6"))
RESET, REFUSED = "ECONNRESET", "ECONNREFUSED"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    names = ("api.test", "shared.test", "web.test", "*.wild.test", "many.test", "v6only.test")
    return Authority(tmp_path_factory.mktemp("authority"), *names)


@pytest.fixture(scope="module")
def servers(net: Internet, authority: Authority) -> Iterator[TlsServers]:
    yield TlsServers(net, authority)


@pytest.fixture
def checked(near: Boxed, servers: TlsServers, authority: Authority) -> Boxed:
    """A project with the authority's certificate, and servers that have said all so far."""
    shutil.copy(authority.bundle, near.project / "ca.pem")
    servers.seen()
    return near


def run(near: Boxed, net: str, *command: str) -> Run:
    path = near.root / "p.toml"
    path.write_text(f'[fs]\nread = ["{near.project}"]\n[net]\ntls_names = "check"\n{net}\n')
    return near.exec("--policy", path, command=command)


def tried(near: Boxed, net: str, *tries: list[Any]) -> tuple[list[Any], Run]:
    ended = run(near, net, PYTHON, "-ISc", TRIES, json.dumps(tries))
    assert ended.code == 0, ended.err
    return [json.loads(line) for line in ended.text.splitlines()], ended


def test_names_on_one_address_are_told_apart(
    checked: Boxed, net: Internet, servers: TlsServers
) -> None:
    """api.test and shared.test have the same addresses: the one that is granted is reached,
    by both families, with the peer's address as it is; the other, none and clear text are
    reset, told by name, and no server hears of them."""
    allow = f'allow = ["api.test:{TLS_PORT}", "*.wild.test:{TLS_PORT}"]'
    granted: list[list[Any]] = [
        ["tls", "api.test", TLS_PORT, "api.test"], ["tls", "api.test", TLS_PORT, "API.TEST"],
        ["tls", ONE4, TLS_PORT, "api.test"], ["tls", ONE6, TLS_PORT, "api.test"],
        ["tls", "a.wild.test", TLS_PORT, "a.wild.test"],
        ["tls", "api.test", TLS_PORT, "b.wild.test"],
    ]  # fmt: skip
    refused: list[list[Any]] = [
        ["tls", "api.test", TLS_PORT, "shared.test"], ["tls", "api.test", TLS_PORT, None],
        ["tls", ONE6, TLS_PORT, "web.test"], ["tls", ONE6, TLS_PORT, "hidden.test"],
        ["plain", "api.test", TLS_PORT, "GET / HTTP/1.1\r\n\r\n"],
        ["tls", "api.test", 443, "api.test"], ["plain", TWO4, 7, "x"],
    ]  # fmt: skip
    answers, ended = tried(checked, allow, *granted, *refused)
    peers = [peer for peer, _ in answers[:6]]
    assert {peers[0], peers[1], peers[5]} <= {ONE4, ONE6}
    assert peers[2:5] == [ONE4, ONE6, TWO4]
    assert [said.lower() for _, said in answers[:6]] == [
        f"you asked for {name}" for name in
        ("api.test", "api.test", "api.test", "api.test", "a.wild.test", "b.wild.test")
    ]  # fmt: skip
    assert answers[6:] == [RESET] * 5 + [REFUSED] * 2
    assert [name.lower() for name in servers.names() if name] == [
        "api.test", "api.test", "api.test", "api.test", "a.wild.test", "b.wild.test"
    ]  # fmt: skip
    assert len(net.seen("packet-tcp")) == 6
    told = {(each["protocol"], each["name"], each["port"]) for each in ended.status["denials"]}
    names = ("shared.test", "web.test", "hidden.test")
    assert {("tls-name", name, TLS_PORT) for name in names} <= told
    assert {kind for kind, *_ in told} >= {"tls-none", "not-tls", "tcp"}
    assert f"the TLS server name shared.test on port {TLS_PORT}" in ended.err


def test_the_twin_without_the_check_arrives(checked: Boxed, servers: TlsServers) -> None:
    """The same names on one address, by address: each is reached."""
    tries = [
        ["tls", "api.test", TLS_PORT, name] for name in ("api.test", "shared.test", "web.test")
    ]
    net = f'allow = ["api.test:{TLS_PORT}"]\n[limits]\nwall = "30s"'
    path = checked.root / "p.toml"
    path.write_text(f'[fs]\nread = ["{checked.project}"]\n[net]\n{net}\n')
    command = [PYTHON, "-ISc", TRIES, json.dumps(tries)]
    ended = checked.exec("--policy", path, command=command)
    answers = [json.loads(line) for line in ended.text.splitlines()]
    assert [said for _, said in answers] == [f"you asked for {name}" for _, _, _, name in tries]
    assert servers.names() == ["api.test", "shared.test", "web.test"]


def test_there_is_no_way_around_the_relay(checked: Boxed, net: Internet) -> None:
    """Its mark, its port, datagrams to the same place: nothing but what it lets through leaves;
    addresses that are granted as such go straight, in clear."""
    allow = f'allow = ["api.test:{TLS_PORT}", "api.test:7777/udp", "{TWO4}:7", "{ONE4}:8080"]'
    answers, _ = tried(
        checked, allow,
        ["tls", "api.test", TLS_PORT, "api.test"],
        ["marked", ONE4, TLS_PORT], ["plain", "127.0.0.1", 1023, "x"], ["bound", 1023],
        ["datagram", "api.test", 7777], ["datagram", ONE4, 443],
        ["plain", TWO4, 7, "straight"], ["plain", ONE4, 8080, "GET /there HTTP/1.0\r\n\r\n"],
    )  # fmt: skip
    assert answers[0][1] == "you asked for api.test"
    assert answers[1:6] == ["EPERM", RESET, "EACCES", "EPERM", "EPERM"]
    assert answers[6] == "straight"
    assert answers[7].endswith("GET /there HTTP/1.0")
    # The host's own resolver is asked about the name.
    assert {record.port for record in net.seen("packet-udp")} == {53}


def test_clients_that_people_use(checked: Boxed, servers: TlsServers) -> None:
    """curl and openssl, by a name whose addresses rotate: they see the peer they asked for,
    and a name that is not granted ends both with their own words."""
    allow = f'allow = ["many.test:{TLS_PORT}"]'
    good = f"https://many.test:{TLS_PORT}/"
    script = f"""
        curl -sS --cacert ca.pem -w '%{{remote_ip}}\\n' {good} {good}
        echo | openssl s_client -CAfile ca.pem -connect many.test:{TLS_PORT} -servername many.test \
            2>&1 | grep -c 'BEGIN CERTIFICATE'
        echo | openssl s_client -connect many.test:{TLS_PORT} -servername web.test 2>&1 \
            | grep -c 'BEGIN CERTIFICATE'
        curl -s --cacert ca.pem --connect-to web.test:{TLS_PORT}:many.test:{TLS_PORT} \
            https://web.test:{TLS_PORT}/; echo $?
    """
    ended = run(checked, allow, "sh", "-c", script)
    lines = ended.text.splitlines()
    many = {ADDRESSES[name] for name in ("one4", "two4", "three4")}
    assert lines[0] == lines[2] == "you asked for many.test" and {lines[1], lines[3]} <= many
    assert lines[4:] == ["1", "0", "35"], ended.err
    assert set(servers.names()) == {"many.test"}


def test_the_posture_says_how_names_are_granted(checked: Boxed) -> None:
    """By address, or by TLS server name; and a grant that cannot work is told at the start."""
    rows = {}
    for check in ("check", "off"):
        path = checked.root / f"{check}.toml"
        path.write_text(f'[net]\nallow = ["api.test:22"]\ntls_names = "{check}"\n')
        ended = checked.exec("--policy", path, command=["true"])
        rows[check] = next(row for row in ended.status["posture"] if row["field"] == "net")
        assert ("what begins without TLS" in ended.err) == (check == "check"), ended.err
    assert "by TLS server name" in rows["check"]["note"]
    assert "granted by its addresses" in rows["off"]["note"]
    assert rows["check"]["state"] == "enforced"


def test_an_ordinary_user_has_the_same(
    checked: Boxed, net: Internet, servers: TlsServers, ordinary_user: OrdinaryUser
) -> None:
    """With a supervisor that has no privilege, and may use the device that pasta needs."""
    ordinary_user.demand_checkout()
    # In the mount namespace of the near side only.
    script = (
        "mount -t tmpfs tun /mnt && mknod -m 666 /mnt/tun c 10 200 && "
        "mount --bind /mnt/tun /dev/net/tun && umount -l /mnt"
    )
    assert net.run(["sh", "-c", script]).returncode == 0
    policy = f'tls_names = "check"\nallow = ["api.test:{TLS_PORT}"]'
    names = ("api.test", "shared.test", None)
    tries = [["tls", "api.test", TLS_PORT, name] for name in names]
    tries.append(["marked", ONE4, TLS_PORT])
    answers = as_user(ordinary_user, net, checked.project / "ca.pem", policy, TRIES, tries)
    assert answers[0][1] == "you asked for api.test"
    assert answers[1:] == [RESET, RESET, "EPERM"]
    assert servers.names() == ["api.test"]


#: Two connections with a granted name: one before the relay dies, one after it.
LASTING = """
import json, socket, ssl, sys
context = ssl.create_default_context(cafile="ca.pem")
def session(address):
    sock = socket.create_connection((address, PORT), 10)
    return context.wrap_socket(sock, server_hostname="api.test")
def asked(tls):
    tls.sendall(b"GET / HTTP/1.1\\r\\n\\r\\n")
    return tls.recv(4096)[:15].decode()
address = socket.gethostbyname("api.test")
first = session(address)
print(asked(first), flush=True)
sys.stdin.readline()
try: print(asked(first) or "end")
except OSError as error: print(type(error).__name__)
print(asked(session(address)), flush=True)
"""


def test_a_relay_that_dies_takes_its_connections_with_it(checked: Boxed) -> None:
    """Nothing opens: what it held ends, and the next connection starts another one."""
    path = checked.root / "p.toml"
    path.write_text(
        f'[fs]\nread = ["{checked.project}"]\n[net]\ntls_names = "check"\n'
        f'allow = ["api.test:{TLS_PORT}"]\n'
    )
    code = f"PORT = {TLS_PORT}\n{LASTING}"
    words = command_line("--policy", path, "--quiet", command=[PYTHON, "-ISc", code])
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*checked.prefix, *words], env=checked.env, stdin=pipe, stdout=pipe, text=True
    ) as process:
        assert process.stdin and process.stdout
        try:
            assert process.stdout.readline() == "HTTP/1.1 200 OK\n"
            os.kill(resolver_of(process.pid), signal.SIGKILL)
            process.stdin.write("\n")
            process.stdin.flush()
            lines = process.stdout.read().splitlines()
        finally:
            process.kill()
    assert lines[0] in ("ConnectionResetError", "SSLEOFError", "BrokenPipeError", "end")
    assert lines[1] == "HTTP/1.1 200 OK"
