"""The link of a box: after its table, nothing of the host's own, and refused where it cannot be."""

from __future__ import annotations

import subprocess
import sys

import pytest

from box.boxed import PYTHON, Boxed, command_line
from lab.internet import ADDRESSES, Internet
from lab.processes import REPOSITORY
from lab.user import OrdinaryUser
from net.test_veth import running, state

pytestmark = [
    pytest.mark.requires("box", "net", "root"),
    pytest.mark.usefixtures("leftovers"),
]

ONE4 = ADDRESSES["one4"]

#: Runs axonkernel and writes down, from inside the network of its box, what is there when.
IN_ORDER = """
import sys
from axonkernel.box import milestones
def note(name):
    if name in ("walled", "linked"):
        from axonkernel.box import nft
        with open("/proc/thread-self/net/dev") as lines:
            links = [line.partition(":")[0].strip() for line in lines][2:]
        found = nft._send({"nftables": [{"list": {"tables": None}}]})
        tables = [each["table"]["name"] for each in found if "table" in each]
        print(name, tables, len(links), "lo" in links, file=sys.stderr, flush=True)
milestones.observe(note)
from axonkernel.cli import start
sys.exit(start())
"""


@pytest.mark.parametrize("link", ["pasta", "veth"])
def test_the_table_is_there_before_the_link(near: Boxed, net: Internet, link: str) -> None:
    """There is no moment in which a box has a way out and no wall."""
    policy = near.root / "p.toml"
    allow = f'allow = ["{ONE4}:443", "api.test"]'
    policy.write_text(f'[fs]\nread = ["{near.project}"]\n[net]\n{allow}\nlink = "{link}"\n')
    command = ["exec", "--quiet", "--policy", str(policy), "--", PYTHON, "-ISc",
               f"import socket; socket.create_connection(({ONE4!r}, 443), 5)"]  # fmt: skip
    done = subprocess.run(
        [*near.prefix, sys.executable, "-c", IN_ORDER, *command],
        env=near.env, cwd=near.project, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == ["walled ['axon'] 1 True", "linked ['axon'] 2 True"]


def test_pasta_changes_nothing_of_the_host(near: Boxed, net: Internet) -> None:
    """Its tables, links, addresses, routes and settings are what they were, while a box has its
    link and afterwards; the box's own are others."""
    code = f"""
import socket, sys
socket.create_connection(({ONE4!r}, 443), 5)
print(len(socket.if_nameindex()), flush=True)
sys.stdin.read()
"""
    before = state(net)
    with running(near, ["--read", ".", "--net", f"{ONE4}:443"], code) as process:
        assert process.first == "2"  # type: ignore[attr-defined]
        assert state(net) == before
    assert state(net) == before and before["settings"] and before["routes"]


def test_a_user_who_may_not_use_tun_is_told(
    near: Boxed, net: Internet, ordinary_user: OrdinaryUser
) -> None:
    """The device that pasta needs is named, and nothing ran. test_names_ways.py has the twin."""
    ordinary_user.demand_checkout()
    home = ordinary_user.home
    closed = "mount -t tmpfs tun /dev/net && mknod -m 600 /dev/net/tun c 10 200"
    assert net.run(["sh", "-c", closed]).returncode == 0
    kept = {f"XDG_{name}_HOME": str(home / name) for name in ("CACHE", "STATE", "CONFIG")}
    words = command_line("--write", "out", "--net", f"{ONE4}:443", command=["touch", "out/ran"])
    try:
        done = net.run(
            words,
            user=ordinary_user.uid,
            cwd=home,
            env={"HOME": str(home), "PYTHONPATH": str(REPOSITORY), **kept},
        )
    finally:
        assert net.run(["umount", "/dev/net"]).returncode == 0
    assert done.returncode == 125 and "/dev/net/tun" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and not (home / "out/ran").exists()
