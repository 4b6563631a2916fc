"""net.proxy: granted names by a company's proxy, which alone resolves them.

The proxy of the private internet writes down each request; the wire shows that nothing else
leaves. Its password is looked for everywhere a box can look.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from box.boxed import PYTHON, Boxed, Run
from lab.internet import ADDRESSES, Internet
from lab.processes import REPOSITORY
from lab.tls import TLS_PORT, Authority, TlsServers, said
from lab.user import OrdinaryUser
from net.users import as_user

pytestmark = [
    pytest.mark.requires("box", "net", "root"),
    pytest.mark.usefixtures("leftovers"),
]

TRIES = Path(__file__).with_name("tls_tries.py").read_text()
SERVER = REPOSITORY / "tests/lab/connect_proxy.py"
ONE4, TWO4, THREE4 = (ADDRESSES[name] for name in ("one4", "two4", "three4"))
PASSWORD = "s3cret-of-ours"
PORT = 3128
URL = f"http://agent:{PASSWORD}@{THREE4}:{PORT}"
RESET, REFUSED = "ECONNRESET", "ECONNREFUSED"
Proxy = subprocess.Popen[str]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "only.corp", "other.corp")


@pytest.fixture(scope="module")
def servers(net: Internet, authority: Authority) -> Iterator[TlsServers]:
    yield TlsServers(net, authority)


@pytest.fixture(scope="module")
def proxy(net: Internet) -> Iterator[Proxy]:
    """It knows names that no resolver of the host's does."""
    names = [f"only.corp={ONE4}", f"other.corp={ONE4}", f"plain.corp={TWO4}"]
    yield net.serve([sys.executable, str(SERVER), str(PORT), f"agent:{PASSWORD}", *names])


@pytest.fixture
def corporate(near: Boxed, servers: TlsServers, proxy: Proxy, authority: Authority) -> Boxed:
    shutil.copy(authority.bundle, near.project / "ca.pem")
    servers.seen()
    said(proxy)
    return near


def tried(near: Boxed, net: str, *tries: list[Any], url: str = URL) -> tuple[list[Any], Run]:
    path = near.root / "p.toml"
    path.write_text(f'[fs]\nread = ["{near.project}"]\n[net]\nproxy = "{url}"\n{net}\n')
    command = [PYTHON, "-ISc", TRIES, json.dumps(tries)]
    ended = near.exec("--policy", path, command=command)
    assert ended.code == 0, ended.err
    return [json.loads(line) for line in ended.text.splitlines()], ended


def test_granted_names_go_through_the_proxy_and_nothing_else_anywhere(
    corporate: Boxed, net: Internet, proxy: Proxy, servers: TlsServers
) -> None:
    """By TLS and in clear, though no resolver knows them: no question leaves, no packet but to
    the proxy, which the box itself does not reach. There is no link at all."""
    allow = f'allow = ["only.corp:{TLS_PORT}", "plain.corp:80", "unknown.corp:443"]'
    answers, ended = tried(
        corporate, allow,
        ["tls", "only.corp", TLS_PORT, "only.corp"],
        ["plain", "plain.corp", 80, "GET /there HTTP/1.0\r\n\r\n"],
        ["tls", "unknown.corp", 443, "unknown.corp"],
        ["plain", "plain.corp", 8080, "GET / HTTP/1.0\r\n\r\n"],
        ["plain", "other.corp", 80, "x"], ["plain", "api.test", 80, "x"],
        ["plain", THREE4, PORT, "CONNECT evil:1 HTTP/1.1\r\n\r\n"], ["plain", ONE4, 80, "x"],
    )  # fmt: skip
    assert answers[0][1] == "you asked for only.corp"
    assert answers[1].endswith("GET /there HTTP/1.0")
    assert answers[2:4] == [RESET, REFUSED]
    assert answers[4:6] == ["gaierror"] * 2 and answers[6:8] == ["ENETUNREACH"] * 2
    assert said(proxy) == [
        {"target": f"only.corp:{TLS_PORT}", "status": 200},
        {"target": "plain.corp:80", "status": 200},
        {"target": "unknown.corp:443", "status": 403},
    ]
    assert servers.names() == ["only.corp"]
    assert {(r.address, r.port) for r in net.seen("packet-tcp")} == {(THREE4, PORT)}
    assert net.seen("dns") == [] and net.seen("packet-udp") == []
    told = [(each["protocol"], each["name"]) for each in ended.status["denials"]]
    assert ("proxy-403", "unknown.corp") in told
    assert "unknown.corp:443 by net.proxy, with status 403" in ended.err


def test_its_password_is_nowhere_to_be_seen(corporate: Boxed) -> None:
    """Not in the box's processes, not in what is said or recorded; the name of the proxy's host
    is no secret, but is not told either."""
    net = f'allow = ["only.corp:{TLS_PORT}"]'
    answers, ended = tried(corporate, net, ["holding", PASSWORD[::-1]], ["holding", "gnidloh"])
    # The latter is in the words of this very try.
    assert answers[0] == [] and "1/cmdline" in answers[1]
    shown = [corporate.exec("--policy", corporate.root / "p.toml", command=["env"])]
    shown.append(told(corporate, "check", "--json", "--policy", corporate.root / "p.toml"))
    shown.append(
        told(corporate, "explain", "--box", "--json", "--policy", corporate.root / "p.toml")
    )
    audit = (corporate.root / "state/axonkernel/audit.jsonl").read_text()
    for text in (ended.err, json.dumps(ended.status), audit, *(r.text + r.err for r in shown)):
        assert PASSWORD not in text


def told(near: Boxed, *words: str | Path) -> Run:
    done = subprocess.run(
        [sys.executable, "-m", "axonkernel", *map(str, words)],
        env=near.env, cwd=near.project, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return Run(done.returncode, done.stdout, done.stderr.decode(), {})


def test_server_names_are_checked_on_the_way(
    corporate: Boxed, proxy: Proxy, servers: TlsServers
) -> None:
    """With both, a name that is not granted is not even asked of the proxy."""
    net = f'tls_names = "check"\nallow = ["only.corp:{TLS_PORT}"]'
    answers, _ = tried(
        corporate, net,
        ["tls", "only.corp", TLS_PORT, "only.corp"], ["tls", "only.corp", TLS_PORT, "other.corp"],
        ["plain", "only.corp", TLS_PORT, "GET / HTTP/1.0\r\n\r\n"],
    )  # fmt: skip
    assert answers[0][1] == "you asked for only.corp"
    assert answers[1:] == [RESET, RESET]
    assert said(proxy) == [{"target": f"only.corp:{TLS_PORT}", "status": 200}]
    assert servers.names() == ["only.corp"]


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        (f"http://agent:wrong@{THREE4}:{PORT}", "proxy-407"),
        ("http://proxy.unknown:3128", "unreachable"),
    ],
)
def test_a_proxy_that_fails_is_told_at_once(corporate: Boxed, url: str, kind: str) -> None:
    """A wrong password, no such proxy: a reset, and a word on why."""
    net = f'allow = ["only.corp:{TLS_PORT}"]'
    answers, ended = tried(corporate, net, ["tls", "only.corp", TLS_PORT, "only.corp"], url=url)
    assert answers == [RESET]
    assert [(each["protocol"], each["name"]) for each in ended.status["denials"]] == [
        (kind, "only.corp")
    ]


def test_addresses_go_straight_beside_it(corporate: Boxed, net: Internet) -> None:
    """A literal grant needs the link, by which the box does not reach the proxy."""
    answers, _ = tried(
        corporate, f'allow = ["only.corp:{TLS_PORT}", "{TWO4}:7"]',
        ["plain", TWO4, 7, "straight"], ["plain", THREE4, PORT, "x"],
        ["tls", "only.corp", TLS_PORT, "only.corp"],
    )  # fmt: skip
    assert answers[0] == "straight" and answers[1] == REFUSED
    assert answers[2][1] == "you asked for only.corp"
    assert {record.port for record in net.seen("packet-tcp")} == {7, PORT}


def test_a_proxy_on_the_hosts_own_loopback(corporate: Boxed, net: Internet) -> None:
    """Is reached for the box, which has a loopback of its own."""
    enter = ["nsenter", f"--net=/proc/{net.client}/ns/net"]
    words = [sys.executable, str(SERVER), "3130", "a:b", f"only.corp={ONE4}"]
    with subprocess.Popen(
        [*enter, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as here:
        assert here.stdout and here.stdout.readline() == "ready\n"
        try:
            answers, _ = tried(
                corporate, f'allow = ["only.corp:{TLS_PORT}"]',
                ["tls", "only.corp", TLS_PORT, "only.corp"], ["plain", "127.0.0.1", 3130, "x"],
                url="http://a:b@127.0.0.1:3130",
            )  # fmt: skip
        finally:
            here.kill()
    assert answers[0][1] == "you asked for only.corp" and answers[1] == REFUSED


def test_an_ordinary_user_needs_no_device_for_it(
    corporate: Boxed, net: Internet, ordinary_user: OrdinaryUser
) -> None:
    """Without a link there is nothing that wants /dev/net/tun."""
    ordinary_user.demand_checkout()
    hidden = net.run(["sh", "-c", "mount -t tmpfs none /dev/net"])
    assert hidden.returncode == 0, hidden.stderr
    policy = f'proxy = "{URL}"\nallow = ["only.corp:{TLS_PORT}"]'
    tries = [["tls", "only.corp", TLS_PORT, "only.corp"], ["plain", THREE4, PORT, "x"]]
    try:
        answers = as_user(ordinary_user, net, corporate.project / "ca.pem", policy, TRIES, tries)
    finally:
        net.run(["umount", "/dev/net"])
    assert answers[0][1] == "you asked for only.corp" and answers[1] == "ENETUNREACH"


FETCHING = """
import json
from axonkernel import AxonError, define_agent
agent = define_agent("fetcher", policy=json.loads({POLICY!r}))
@agent.handler
async def handle(kernel, request):
    said = []
    for url in {URLS!r}:
        try:
            said.append((await kernel.call("http.fetch", url=url))["text"])
        except AxonError as error:
            said.append(type(error).__name__)
    return said
agent.run()
"""


def test_an_agent_fetches_by_name_through_it(corporate: Boxed, net: Internet, proxy: Proxy) -> None:
    """http.fetch in a box: a granted name by the proxy that knows it, another one not at all."""
    policy = {
        "default": "deny",
        "fs": {"read": [str(corporate.project)]},
        "net": {"allow": ["plain.corp:80", "unknown.corp:80"], "proxy": URL},
        "tools": {"http": {"fetch": True}},
    }
    urls = [f"http://{name}.corp/there" for name in ("plain", "unknown", "other")]
    text = FETCHING.format(POLICY=json.dumps(policy), URLS=urls)
    (corporate.project / "agent.py").write_text(text)
    done = subprocess.run(
        [*corporate.prefix, sys.executable, str(corporate.project / "agent.py")],
        env=corporate.env, cwd=corporate.project, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert answers == ["GET /there HTTP/1.1", "ToolError", "PolicyDenied"], done.stderr
    assert [(each["target"], each["status"]) for each in said(proxy)] == [
        ("plain.corp:80", 200), ("unknown.corp:80", 403),
    ]  # fmt: skip
    assert {(r.address, r.port) for r in net.seen("packet-tcp")} == {(THREE4, PORT)}


APPLICATION = """
import json, sys
from axonkernel import AxonError, Kernel
net, urls, folder = json.loads(sys.argv[1])
said = []
with Kernel({"isolation": "none", "net": net}, cwd=folder, audit=folder + "/log") as kernel:
    for url in urls:
        try: said.append(kernel.call_sync("http.fetch", url=url)["text"])
        except AxonError as error: said.append(str(error))
print(json.dumps(said))
"""


def test_an_application_fetches_by_name_through_it(
    corporate: Boxed, net: Internet, proxy: Proxy, servers: TlsServers
) -> None:
    """http.fetch without a box: names by the proxy alone, addresses straight; what it refuses
    is an error without its password."""
    allow = [f"only.corp:{TLS_PORT}", "unknown.corp:443", f"{TWO4}:80"]
    urls = [f"https://only.corp:{TLS_PORT}/", "https://unknown.corp/", f"http://{TWO4}/there",
            f"https://other.corp:{TLS_PORT}/"]  # fmt: skip
    words = json.dumps([{"allow": allow, "proxy": URL}, urls, str(corporate.root)])
    done = net.run(
        [sys.executable, "-c", APPLICATION, words],
        cwd=corporate.project,
        env={
            **corporate.env,
            "PYTHONPATH": str(REPOSITORY),
            "SSL_CERT_FILE": str(corporate.project / "ca.pem"),
        },
    )
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert answers[0].strip() == "you asked for only.corp" and answers[2] == "GET /there HTTP/1.1"
    assert "exchange failed" in answers[1] and "denied" in answers[3], answers
    assert PASSWORD not in done.stdout + done.stderr
    assert [(each["target"], each["status"]) for each in said(proxy)] == [
        (f"only.corp:{TLS_PORT}", 200), ("unknown.corp:443", 403),
    ]  # fmt: skip
    assert servers.names() == ["only.corp"] and net.seen("dns") == []
    assert {(r.address, r.port) for r in net.seen("packet-tcp")} == {(THREE4, PORT), (TWO4, 80)}
