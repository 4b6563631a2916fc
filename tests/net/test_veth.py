"""A box with a veth link: what it reaches, what the host keeps, and that all of it is undone.

The host here is the near side of a private internet: the link, its tables and its settings are
made in that network namespace and nowhere else.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from axonkernel.box.link import CHANGED
from box.boxed import PYTHON, Boxed, command_line
from lab import processes
from lab.internet import ADDRESSES, Internet, Record
from lab.processes import REPOSITORY
from lab.user import NOBODY_IN_PASSWD, OrdinaryUser

pytestmark = [
    pytest.mark.requires("box", "net", "root"),
    pytest.mark.usefixtures("leftovers"),
]

ONE4, TWO4, ONE6, TWO6 = (ADDRESSES[name] for name in ("one4", "two4", "one6", "two6"))
METADATA = ADDRESSES["metadata4"]
BOTH = [f"{ONE4}:443", f"[{ONE6}]:443"]
AT_ONCE_S = 0.5
#: What a program in a box knows of its own address and gateway, over IPv4.
KNOW = """
import socket, struct
probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
probe.connect((TARGET, 9))
own = probe.getsockname()[0]
gateway = ".".join([*own.split(".")[:3], str(int(own.split(".")[3]) - 1)])
"""


@pytest.fixture
def linked(near: Boxed, net: Internet) -> Iterator[Boxed]:
    """Boxes with veth links; afterwards their host is as it was."""
    before = state(net)
    yield near
    assert settled(net, before) == before


def policy(box: Boxed, *allow: str, name: str = "p", more: str = "") -> list[str]:
    """The options that give a box this network by veth."""
    path = box.root / f"{name}.toml"
    path.write_text(
        f'[fs]\nread = ["{box.project}"]\nwrite = ["{box.project}/out"]\n'
        f'[net]\nallow = {json.dumps(allow)}\nlink = "veth"\n{more}'
    )
    return ["--policy", str(path)]


def state(net: Internet) -> dict[str, str]:
    """Everything of the host that a link may change."""
    look = {
        "table": "nft list ruleset",
        "links": "ip -o link | cut -d: -f2",
        "addresses": "ip -o addr | cut -d' ' -f2-7",
        "routes": "ip route; ip -6 route | grep -v expires",
        "settings": "cd /proc/sys/net && grep -r . ipv4/ip_forward ipv4/conf/*/forwarding "
        "ipv4/conf/*/accept_redirects ipv6/conf/*/forwarding ipv6/conf/*/accept_ra "
        "ipv6/conf/*/force_forwarding 2>/dev/null",
        "records": f"ls -A {CHANGED} 2>/dev/null | sort",
    }
    return {name: net.run(["sh", "-c", command]).stdout for name, command in look.items()}


def settled(net: Internet, wanted: dict[str, str]) -> dict[str, str]:
    """The state once it is as wanted, or as it stays."""
    deadline = time.monotonic() + 10
    while (now := state(net)) != wanted and time.monotonic() < deadline:
        time.sleep(0.1)
    return now


def until(condition: Callable[[], Any]) -> Any:
    """What a condition says once it says something."""
    deadline = time.monotonic() + 20
    while not (said := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return said


def arrived(net: Internet) -> list[Record]:
    return [record for record in net.records() if record.kind.startswith("packet-")]


@contextlib.contextmanager
def running(box: Boxed, options: list[str], code: str) -> Iterator[subprocess.Popen[str]]:
    """A program in a box, which has said its first line (in ``process.first``)."""
    words = command_line(*options, "--quiet", command=[PYTHON, "-ISc", code])
    process = subprocess.Popen(
        [*box.prefix, *words], env=box.env, cwd=box.project, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with process:
        try:
            assert process.stdout and process.stderr
            first = process.stdout.readline()
            assert first, process.stderr.read()
            process.first = first.strip()  # type: ignore[attr-defined]
            yield process
        finally:
            process.kill()


WAIT = "import sys; print('up', flush=True); sys.stdin.read()"


# -- what a box reaches -----------------------------------------------------------------


def test_granted_addresses_are_reached_and_no_others(linked: Boxed, net: Internet) -> None:
    """TCP and UDP over both families arrive from the host's own address; everything else is
    refused at once and nothing of it is on the wire."""
    options = policy(linked, *BOTH, f"{TWO4}:7777/udp", f"[{TWO6}]:7")
    allowed: list[list[Any]] = [
        ["connect", ONE4, 443], ["connect", ONE6, 443], ["connect", TWO6, 7],
        ["send", TWO4, 7777],
    ]  # fmt: skip
    refused: list[list[Any]] = [
        ["connect", TWO4, 443], ["connect", TWO6, 443], ["connect", ONE4, 7],
        ["connect", METADATA, 80], ["connect", ADDRESSES["private4"], 443],
        ["connect", "fe80::1", 443], ["send", ADDRESSES["dns"], 53], ["send", ONE6, 443],
    ]  # fmt: skip
    answers = linked.attempts(*allowed, *refused, ["sock", 2, 3, 1], grants=options)
    assert [said for said, _ in answers[:4]] == ["ok"] * 4, answers
    for attempt, (said, took_s) in zip(refused, answers[4:-1], strict=True):
        assert said != "ok" and took_s < AT_ONCE_S, (attempt, said)
    assert answers[-1] == "EPERM"
    assert {(each.address, each.port, each.source) for each in arrived(net)} == {
        (ONE4, 443, Internet.near4), (ONE6, 443, Internet.near6),
        (TWO6, 7, Internet.near6), (TWO4, 7777, Internet.near4),
    }  # fmt: skip


def test_the_link_of_another_users_agent(linked: Boxed, net: Internet) -> None:
    """Where root runs the agent as the owner of the project, the link is there as well."""
    for folder in (linked.root, *linked.root.parents[:2]):
        folder.chmod(folder.stat().st_mode | 0o011)
    out = linked.project / "out"
    out.mkdir()
    for folder in (linked.project, out):
        os.chown(folder, NOBODY_IN_PASSWD, NOBODY_IN_PASSWD)
    code = f"import os; print(os.getuid()); {connecting(ONE6, 443)}; print('reached')"
    run = linked.exec(*policy(linked, *BOTH), command=[PYTHON, "-ISc", code])
    assert run.text.split() == [str(NOBODY_IN_PASSWD), "reached"], run.err


def test_a_box_without_grants_has_no_link(linked: Boxed, net: Internet) -> None:
    """``veth`` alone opens nothing and changes nothing."""
    ((said, _),) = linked.attempts(["connect", ONE4, 443], grants=policy(linked))
    assert said == "ENETUNREACH" and arrived(net) == []


LISTEN = """
import socket
server = socket.create_server(("::", 9911), family=socket.AF_INET6, dualstack_ipv6=True)
print("up", flush=True)
while True:
    client, (address, *_) = server.accept()
    print(address, flush=True)
    client.sendall(client.recv(9))
"""


def test_the_host_is_out_of_reach_unless_named(linked: Boxed, net: Internet) -> None:
    """Listeners of the host on all its addresses see nothing of a box that may reach every
    network; with the host's own address granted alone, they do."""
    listener = net_process(net, LISTEN)
    with listener:
        try:
            assert listener.stdout and listener.stdout.readline() == "up\n"
            code = f"""{KNOW.replace("TARGET", repr(ONE4))}
for address in ("127.0.0.1", "::1", gateway, {Internet.near4!r}, {Internet.near6!r}):
    try: socket.create_connection((address, 9911), 1); print("reached", address)
    except OSError as error: print(error, address)
print("done")
"""
            options = policy(
                linked, "0.0.0.0/0:*", "[::]/0:*", "127.0.0.1:9911", "[::1]:9911",
                "10.213.0.0/16:*", "172.29.0.0/16:*",
            )  # fmt: skip
            run = linked.exec(*options, command=[PYTHON, "-ISc", code])
            assert run.text.endswith("done\n") and "reached" not in run.text, run
            named = policy(linked, f"{Internet.near4}:9911", f"[{Internet.near6}]:9911", *BOTH)
            answers = linked.attempts(
                ["connect", Internet.near4, 9911], ["connect", Internet.near6, 9911],
                ["connect", Internet.near4, 9912], grants=named,
            )  # fmt: skip
            assert [said for said, _ in answers] == ["ok", "ok", "ECONNREFUSED"], answers
            seen = {listener.stdout.readline() for _ in range(2)}
            assert any(each.startswith("::ffff:10.213.") for each in seen), seen
        finally:
            listener.kill()


def net_process(net: Internet, code: str) -> subprocess.Popen[str]:
    """A Python program beside the supervisor."""
    enter = ["nsenter", f"--target={net.client}", "--net"]
    return subprocess.Popen([*enter, PYTHON, "-ISc", code], stdout=subprocess.PIPE, text=True)


def test_boxes_do_not_reach_each_other(linked: Boxed, net: Internet) -> None:
    """Neither a neighbour box that was granted the network it is in, nor the host, begins a
    connection to a listener in a box."""
    server = f"""{KNOW.replace("TARGET", repr(ONE4))}
server = socket.create_server(("0.0.0.0", 9911))
server.settimeout(0.1)
print(own, flush=True)
import sys; sys.stdin.readline()
try: print("met", server.accept()[1])
except TimeoutError: print("nobody")
socket.create_connection((own, 9911)); print("twin", server.accept()[1][0] == own)
"""
    with running(linked, policy(linked, *BOTH, name="server"), server) as process:
        address = process.first  # type: ignore[attr-defined]
        client = policy(linked, "10.213.0.0/16:*", name="client")
        ((said, _),) = linked.attempts(["connect", address, 9911, 1], grants=client)
        host = net.run([PYTHON, "-ISc", connecting(address, 9911)])
        assert said != "ok" and host.returncode != 0
        out, _ = process.communicate("go\n", 20)
    assert out.splitlines() == ["nobody", "twin True"]


def connecting(address: str, port: int) -> str:
    return f"import socket; socket.create_connection(({address!r}, {port}), 1)"


def test_packets_fit_and_bulk_arrives(linked: Boxed, net: Internet) -> None:
    """The link is no wider than the way out, and a megabyte comes back unchanged."""
    code = f"""
import fcntl, socket, struct, threading
with socket.socket() as any_socket:
    ask = struct.pack("16s16x", b"eth0")
    print(struct.unpack("16xi12x", fcntl.ioctl(any_socket, 0x8921, ask))[0])
data = bytes(range(256)) * 4096
for address in ({ONE4!r}, {ONE6!r}):
    with socket.create_connection((address, 7), 10) as sock:
        threading.Thread(target=sock.sendall, args=(data,)).start()
        got = bytearray()
        while len(got) < len(data): got += sock.recv(65536)
    print(got == data)
"""
    net.run(["ip", "link", "set", "near", "mtu", "1380"])
    try:
        options = policy(linked, f"{ONE4}:7", f"[{ONE6}]:7")
        run = linked.exec(*options, command=[PYTHON, "-ISc", code])
    finally:
        net.run(["ip", "link", "set", "near", "mtu", "1500"])
    assert run.text.split() == ["1380", "True", "True"], run.err


# -- what the host keeps ----------------------------------------------------------------


def test_the_host_routes_for_its_boxes_alone(linked: Boxed, net: Internet) -> None:
    """While a box runs, a neighbour of the host that sends packets through it gets nowhere;
    where the test itself turns routing on, they go through."""
    far = net._server
    assert far is not None
    enter = ["nsenter", f"--target={far.pid}", "--net"]
    through, back = ["10.99.0.0/24", "via", Internet.near4], ["dev", "behind"]
    made = "ip link add behind arp off type veth peer beyond; ip link set beyond up"
    net.run(["sh", "-c", f"{made}; ip link set behind up"])
    net.run(["ip", "route", "add", "10.99.0.0/24", *back])
    subprocess.run([*enter, "ip", "route", "add", *through], check=True)
    send = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
    send += "for n in range(5): s.sendto(b'x', ('10.99.0.5', 9))"

    def sent_through() -> int:
        counter = ["cat", "/proc/net/dev"]
        before = net.run(counter).stdout
        subprocess.run([*enter, PYTHON, "-ISc", send], check=True, timeout=20)
        time.sleep(0.1)
        return packets(net.run(counter).stdout) - packets(before)

    try:
        with running(linked, policy(linked, *BOTH), WAIT):
            forwarding = net.run(["cat", "/proc/sys/net/ipv4/conf/near/forwarding"]).stdout
            assert forwarding == "1\n" and sent_through() == 0
        until(lambda: not Path(CHANGED).exists() or not os.listdir(CHANGED))
        assert sent_through() == 0
        net.run(["sysctl", "-qw", "net.ipv4.ip_forward=1"])
        assert sent_through() == 5
    finally:
        net.run(["sysctl", "-qw", "net.ipv4.ip_forward=0"])
        net.run(["ip", "link", "del", "behind"])
        subprocess.run([*enter, "ip", "route", "del", *through], check=True)


def packets(devices: str) -> int:
    """How many packets went out by ``behind``."""
    (line,) = [line for line in devices.splitlines() if line.strip().startswith("behind:")]
    return int(line.partition(":")[2].split()[9])


def test_the_last_box_puts_the_settings_back(linked: Boxed, net: Internet) -> None:
    """Two boxes at once: when the first ends the second still has its network."""
    ask = f"""
import socket, sys
print("up", flush=True)
sys.stdin.readline()
for address in ({ONE4!r}, {ONE6!r}): socket.create_connection((address, 443), 5)
print("both")
"""
    with running(linked, policy(linked, *BOTH, name="second"), ask) as second:
        with running(linked, policy(linked, *BOTH, name="first"), WAIT):
            assert state(net)["table"].count("masquerade") == 4
        until(lambda: state(net)["table"].count("masquerade") == 2)
        out, err = second.communicate("go\n", 20)
    assert out == "both\n", err


# -- that all of it is undone -----------------------------------------------------------


def test_a_signal_to_all_does_not_keep_it_from_being_undone(linked: Boxed, net: Internet) -> None:
    """SIGTERM, as a service manager sends it to each process: the keeper stays to the end."""
    with running(linked, policy(linked, *BOTH), WAIT) as process:
        for number in (signal.SIGTERM, signal.SIGHUP):
            os.kill(keeper(process.pid), number)
        assert "masquerade" in state(net)["table"]
        os.kill(process.pid, signal.SIGTERM)
        process.wait(20)


@pytest.mark.parametrize("victim", ["supervisor", "warden"])
def test_nothing_is_left_when_killed(linked: Boxed, net: Internet, victim: str) -> None:
    """SIGKILL of the supervisor, or of the warden: ``linked`` finds the host as it was."""
    with running(linked, policy(linked, *BOTH), WAIT) as process:
        assert "axonkernel-" in state(net)["table"]
        pid = process.pid if victim == "supervisor" else warden(process.pid)
        os.kill(pid, 9)
        process.wait(20)


def warden(supervisor: int) -> int:
    """The process that started bwrap."""
    (parent,) = {
        processes.parents()[pid]
        for pid in processes.descendants(supervisor)
        if name(pid) == "bwrap" and name(processes.parents()[pid]) != "bwrap"
    }
    return parent


def keeper(supervisor: int) -> int:
    """The process that holds the record of its link."""
    for pid in processes.descendants(supervisor):
        with contextlib.suppress(OSError):
            names = [os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir()]
            if any(each.startswith(f"{CHANGED}/link-") for each in names):
                return pid
    raise AssertionError("no keeper")


def name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


@pytest.mark.parametrize("link", ["veth", "pasta"])
def test_the_next_start_sweeps(linked: Boxed, net: Internet, link: str) -> None:
    """When the keeper was killed its tables and settings stay; the next box with a link of any
    kind removes them."""
    with running(linked, policy(linked, *BOTH), WAIT) as process:
        killed = keeper(process.pid)
        os.kill(killed, 9)
        process.communicate(timeout=20)
    left = state(net)
    assert "masquerade" in left["table"] and left["records"]
    options = policy(linked, *BOTH)
    if link == "pasta":
        options = ["--read", ".", "--net", BOTH[0]]
    with running(linked, options, WAIT):
        if link == "pasta":
            until(lambda: "masquerade" not in state(net)["table"])


@pytest.mark.parametrize("times", [2, pytest.param(50, marks=pytest.mark.deep)])
def test_launches_leave_nothing(linked: Boxed, net: Internet, times: int) -> None:
    """One after the other from one kernel, each with its own link by way of the fork server."""
    code = f"""
import sys
from axonkernel import Kernel
policy = {{"fs": {{"read": ["/"]}}, "net": {{"allow": {BOTH!r}, "link": "veth"}}}}
with Kernel(policy, cwd={str(linked.project)!r}, audit={str(linked.root / "log")!r}) as kernel:
    for _ in range({times}):
        result = kernel.process.run_sync([{PYTHON!r}, "-ISc", {connecting(ONE4, 443)!r}])
        assert result.ok, result
print("all")
"""
    done = subprocess.run(
        [*linked.prefix, sys.executable, "-c", code],
        env=linked.env, cwd=linked.project, capture_output=True, text=True, timeout=110,
    )  # fmt: skip
    assert done.stdout == "all\n", done.stderr
    assert len(net.seen("packet-tcp", ONE4)) == times


OLD_KERNEL = """
import json, os, sys
from axonkernel.box import changes, veth
from axonkernel.box.model import NetPlan
known = veth._settings
veth._settings = lambda: {p: v for p, v in known().items() if not p.endswith("force_forwarding")}
link = veth.Veth(NetPlan(open=True, link="veth"))
link.up(int(sys.argv[1]))
print(json.dumps([changes.read_setting(f"ipv6/conf/{name}") for name in
    ("all/forwarding", "near/accept_ra", "near/forwarding")]))
link.down()
"""


def test_kernels_that_forward_for_all_or_none(linked: Boxed, net: Internet) -> None:
    """Where IPv6 has one switch, what that would take along is kept and put back."""
    with subprocess.Popen(["unshare", "--net", "sleep", "60"]) as box:
        until(
            lambda: os.stat(f"/proc/{box.pid}/ns/net").st_ino != os.stat("/proc/self/ns/net").st_ino
        )
        try:
            done = subprocess.run(
                [*linked.prefix, sys.executable, "-c", OLD_KERNEL, str(box.pid)],
                env=linked.env, capture_output=True, text=True, timeout=60, cwd=REPOSITORY,
            )  # fmt: skip
        finally:
            box.kill()
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["1", "2", "1"]


# -- where it cannot be had -------------------------------------------------------------


def test_a_host_without_a_way_out_is_told(tmp_path: Path, net_cache: Path) -> None:
    """125, nothing ran, and nothing of the link is left in that network."""
    boxed = Boxed(tmp_path, net_cache)
    (boxed.project / "out").mkdir()
    run = boxed.exec(
        *policy(boxed, *BOTH), command=["/usr/bin/touch", "out/ran"],
        prefix=["unshare", "--net", "sh", "-c", '"$@"; code=$?; nft list ruleset; exit $code', "-"],
    )  # fmt: skip
    assert run.code == 125 and "no route" in run.err, run.err
    assert run.text == "" and not (boxed.project / "out/ran").exists()


def test_an_ordinary_user_is_told(ordinary_user: OrdinaryUser) -> None:
    """125 naming root and pasta, and nothing ran; with --best-effort it runs, has no link and
    claims none."""
    ordinary_user.demand_checkout()
    home = ordinary_user.home
    path = home / "p.json"
    net = {"allow": BOTH, "link": "veth"}
    path.write_text(json.dumps({"fs": {"write": [str(home / "out")]}, "net": net}))
    path.chmod(0o644)
    env = {"PYTHONPATH": str(REPOSITORY)}

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        code = f"open({str(home / 'out/ran')!r}, 'w'); {connecting(ONE4, 443)}"
        words = command_line("--policy", path, *options, command=[PYTHON, "-ISc", code])
        return ordinary_user.run(words, env=env)

    refused = run()
    assert refused.returncode == 125 and "Traceback" not in refused.stderr, refused.stderr
    assert "net.link" in refused.stderr and "root" in refused.stderr and "pasta" in refused.stderr
    assert not (home / "out/ran").exists()
    going = run("--best-effort")
    assert (home / "out/ran").exists() and "unreachable" in going.stderr, going.stderr
    assert "unenforced: net.link" in going.stderr
