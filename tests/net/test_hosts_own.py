"""The host's own addresses: pasta connects as the host does, so that no firewall is in between.

A listener on every address of the host's says who reached it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from box.boxed import PYTHON, Boxed
from lab.internet import ADDRESSES, Internet
from lab.user import OrdinaryUser
from net.users import as_user

pytestmark = [
    pytest.mark.requires("box", "net", "root"),
    pytest.mark.usefixtures("leftovers"),
]

#: Not the first of the host's, which pasta gives to the box: that one leads to the box itself.
OWN4, OWN6 = "45.90.11.77", "2a0e:97c0:91::77"
ONE4 = ADDRESSES["one4"]
LISTENING = """
import selectors, socket
chosen = selectors.DefaultSelector()
for port in (443, 7):
    server = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    chosen.register(server, selectors.EVENT_READ)
print("up", flush=True)
while True:
    for key, _ in chosen.select():
        near, _ = key.fileobj.accept()
        address, port = near.getsockname()[:2]
        print(address.removeprefix("::ffff:"), port, flush=True)
        near.close()
"""
TRYING = """
import json, socket, ssl, sys
said = []
for host, port, name in json.loads(sys.argv[1]):
    try:
        with socket.create_connection((host, port), 5) as sock:
            if name:
                ssl._create_unverified_context().wrap_socket(sock, server_hostname=name)
        said.append("ok")
    except OSError as error:
        said.append(type(error).__name__)
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def host(net: Internet) -> Iterator[subprocess.Popen[str]]:
    for address in (f"{OWN4}/32", f"{OWN6}/128"):
        assert net.run(["ip", "address", "add", address, "dev", "lo"]).returncode == 0
    net.name("own.test", OWN4, OWN6)
    words = ["nsenter", f"--target={net.client}", "--net", sys.executable, "-ISc", LISTENING]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as listening:
        assert listening.stdout and listening.stdout.readline() == "up\n"
        try:
            yield listening
        finally:
            listening.kill()


def tried(near: Boxed, policy: str, *tries: tuple[str, int, str]) -> list[str]:
    path = near.root / "p.toml"
    path.write_text(f'[fs]\nread = ["{near.project}"]\n[net]\n{policy}\n')
    ended = near.exec("--policy", path, command=[PYTHON, "-ISc", TRYING, json.dumps(tries)])
    assert ended.code == 0, ended.err
    return list(json.loads(ended.text))


def reached(host: subprocess.Popen[str], net: Internet) -> list[str]:
    """Who was reached until now; a connection of the host's own is the last of them."""
    last = "import socket; socket.create_connection(('127.0.0.1', 7)).recv(1)"
    assert net.run([PYTHON, "-ISc", last]).returncode == 0
    assert host.stdout
    return [line.strip() for line in iter(host.stdout.readline, "127.0.0.1 7\n")]


def test_the_host_is_reached_where_its_address_is_granted_alone(
    near: Boxed, net: Internet, host: subprocess.Popen[str]
) -> None:
    """Neither a name that leads to it nor a network or word that covers it is enough, in both
    families; its address at the port of the grant is, and others of the network are reached."""
    tries = [("own.test", 443, ""), (OWN4, 443, ""), (OWN6, 443, ""), (OWN4, 7, "")]
    twins = [(OWN4, 7, ""), (OWN6, 7, ""), ("api.test", 443, ""), (ONE4, 7, "")]
    wide = '"own.test", "api.test", "45.90.0.0/16:7", "45.90.11.0/24:443", "public:443"'
    assert tried(near, f"allow = [{wide}]", *tries) == ["ConnectionRefusedError"] * 4
    assert reached(host, net) == []
    alone = f'{wide}, "{OWN4}:7", "[{OWN6}]:7"'
    said = tried(near, f"allow = [{alone}]", *tries[:3], *twins)
    assert said == ["ConnectionRefusedError"] * 3 + ["ok"] * 4
    assert reached(host, net) == [f"{OWN4} 7", f"{OWN6} 7"]


def test_nor_does_the_relay_lead_there(
    near: Boxed, net: Internet, host: subprocess.Popen[str]
) -> None:
    """A granted server name is let through to others, and to the host's address never."""
    net.name("two.test", ADDRESSES["two4"])
    said = tried(
        near, 'tls_names = "check"\nallow = ["own.test:443", "two.test:443"]',
        ("own.test", 443, "own.test"), ("two.test", 443, "two.test"),
    )  # fmt: skip
    assert "ok" not in said
    assert reached(host, net) == []
    assert {record.address for record in net.seen("packet-tcp")} == {ADDRESSES["two4"]}


@pytest.mark.usefixtures("tun_for_all")
def test_an_ordinary_users_box_has_the_same(
    net: Internet, host: subprocess.Popen[str], ordinary_user: OrdinaryUser, tmp_path: Path
) -> None:
    """The host's addresses are read without privilege."""
    ordinary_user.demand_checkout()
    unused = tmp_path / "ca.pem"
    unused.touch()
    allow = f'allow = ["own.test", "45.90.0.0/16:7", "[{OWN6}]:7", "api.test"]'
    tries = [("own.test", 443, ""), (OWN4, 7, ""), (OWN6, 7, ""), ("api.test", 443, "")]
    (said,) = as_user(ordinary_user, net, unused, allow, TRYING, tries)
    assert said == ["ConnectionRefusedError"] * 2 + ["ok"] * 2
    assert reached(host, net) == [f"{OWN6} 7"]
