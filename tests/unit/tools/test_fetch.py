"""``http.fetch``: what was judged is what is fetched, from where it was judged to be."""

from __future__ import annotations

import gzip
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from axonkernel import Kernel, LimitExceeded, PolicyDenied, ToolError
from axonkernel.tools import ToolRegistry
from axonkernel.tools.fetch import Fetcher
from tests.unit.tools.web import Names, WebServer, certificates, redirect, say

Fetch = Callable[..., dict[str, Any]]


class _Log:
    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def record(self, kind: str, /, **fields: Any) -> str:
        self.records.append({"kind": kind, **fields})
        return f"r{len(self.records)}"


@pytest.fixture
def web() -> Iterator[WebServer]:
    server = WebServer()
    yield server
    server.close()


@pytest.fixture
def other() -> Iterator[WebServer]:
    """A server on another loopback address."""
    server = WebServer("127.0.0.2")
    yield server
    server.close()


@pytest.fixture
def log() -> _Log:
    return _Log()


@pytest.fixture
def fetch(tmp_path: Path, log: _Log) -> Fetch:
    """Fetches under ``allow`` (destinations) with a resolver."""

    def call(
        url: str, allow: Any, names: Names | None = None, trust: Any = None, **options: Any
    ) -> dict[str, Any]:
        net = allow if isinstance(allow, dict) else {"allow": allow}
        policy = {"isolation": "none", "net": net, **options.pop("policy", {})}
        registry = ToolRegistry()
        registry.register("http.fetch", Fetcher(names or Names(), trust).fetch)
        with Kernel(policy, cwd=tmp_path, audit=log, tools=registry) as kernel:
            answer: dict[str, Any] = kernel.call_sync("http.fetch", url=url, **options)
            return answer

    return call


def _own(*servers: WebServer) -> list[str]:
    return [f"{server.address}:{server.port}" for server in servers]


def test_a_granted_address_is_fetched(fetch: Fetch, web: WebServer) -> None:
    """Status, headers and text come back; one address, one connection."""
    answer = fetch(f"http://127.0.0.1:{web.port}/a?b=c#d", _own(web))
    assert (answer["status"], answer["text"]) == (200, "hello")
    assert answer["url"] == f"http://127.0.0.1:{web.port}/a?b=c"
    assert answer["headers"]["content-length"] == "5"
    assert [each.target for each in web.seen] == ["/a?b=c"]


def test_what_is_not_granted_is_not_connected_to(fetch: Fetch, web: WebServer) -> None:
    """Another port, another host: denied, and the server saw nothing."""
    for allow in (["127.0.0.1:1"], ["127.0.0.3:*"], ["*", "public"], []):
        with pytest.raises(PolicyDenied) as caught:
            fetch(f"http://127.0.0.1:{web.port}/", allow)
        assert caught.value.code in ("net.private", "net.host")
    assert web.connections == 0


def test_a_name_needs_a_grant_for_its_private_address_too(fetch: Fetch, web: WebServer) -> None:
    """``ok.test`` leads to loopback: only with a grant of that address is it reached."""
    url, name = f"http://ok.test:{web.port}/", f"ok.test:{web.port}"
    with pytest.raises(PolicyDenied) as caught:
        fetch(url, [name], Names(ok_test=[["127.0.0.1"]]))
    assert caught.value.code == "net.private"
    assert "127.0.0.1" not in str(caught.value)
    assert web.connections == 0
    answer = fetch(url, [name, *_own(web)], Names(ok_test=[["127.0.0.1"]]))
    assert answer["text"] == "hello"
    assert web.seen[0].headers["host"] == name
    assert fetch(url, [name, "private:*"], Names(ok_test=[["127.0.0.1"]]))["status"] == 200


@pytest.mark.parametrize(
    "address", ["169.254.169.254", "10.0.0.1", "::1", "fe80::1%lo", "::ffff:127.0.0.1", "0.0.0.0",
                "64:ff9b::7f00:1", "fd00:ec2::254", "not an address"],
)  # fmt: skip
def test_a_name_never_leads_inside(fetch: Fetch, web: WebServer, address: str) -> None:
    """Every kind of inner address a name may have is left out, before any connection."""
    with pytest.raises(PolicyDenied):
        fetch(f"http://ok.test:{web.port}/", ["*:*", "public:*"], Names(ok_test=[[address]]))
    assert web.connections == 0


def test_a_name_is_looked_up_once(fetch: Fetch, web: WebServer, other: WebServer) -> None:
    """The second answer, which would lead elsewhere, is never asked for."""
    names = Names(ok_test=[["127.0.0.1"], ["127.0.0.2"]])
    grants = [f"ok.test:{web.port}", *_own(web)]
    assert fetch(f"http://ok.test:{web.port}/", grants, names)["text"] == "hello"
    assert names.asked == ["ok.test"]
    assert (web.connections, other.connections) == (1, 0)


def test_of_a_mixed_answer_only_the_granted_part_is_used(
    fetch: Fetch, web: WebServer, other: WebServer
) -> None:
    """One forbidden address in the answer drops that address."""
    names = Names(ok_test=[["127.0.0.2", "127.0.0.1"]])
    grants = [f"ok.test:{web.port}", *_own(web)]
    assert fetch(f"http://ok.test:{web.port}/", grants, names)["text"] == "hello"
    assert other.connections == 0


def test_a_denied_address_is_left_out_also_for_a_granted_name(fetch: Fetch, web: WebServer) -> None:
    """``net.deny`` of an address beats the name that leads to it."""
    names = Names(ok_test=[["127.0.0.1"]])
    net = {"allow": True, "deny": ["127.0.0.1:*"]}
    with pytest.raises(PolicyDenied):
        fetch(f"http://ok.test:{web.port}/", net, names)
    assert web.connections == 0
    assert fetch(f"http://ok.test:{web.port}/", True, names)["status"] == 200


def test_the_next_address_is_tried(fetch: Fetch, web: WebServer) -> None:
    """An address that takes no connection does not end the call."""
    names = Names(ok_test=[["127.0.0.9", "127.0.0.1"]])
    grants = [f"ok.test:{web.port}", *_own(web), f"127.0.0.9:{web.port}"]
    assert fetch(f"http://ok.test:{web.port}/", grants, names)["text"] == "hello"
    with pytest.raises(ToolError, match="no connection"):
        fetch(f"http://127.0.0.9:{web.port}/", grants)
    with pytest.raises(ToolError, match="no address"):
        fetch(f"http://gone.test:{web.port}/", ["gone.test:*"], _Failing())


class _Failing(Names):
    async def __call__(self, host: str, port: int) -> list[str]:
        raise OSError("no such name")


def test_a_redirect_is_a_new_request(
    fetch: Fetch, web: WebServer, other: WebServer, log: _Log
) -> None:
    """It is decided and recorded again; without a grant it ends the call unfollowed."""
    there = f"http://127.0.0.2:{other.port}/x"
    web.answers["/"] = redirect(there)
    with pytest.raises(PolicyDenied) as caught:
        fetch(f"http://127.0.0.1:{web.port}/", _own(web))
    assert other.connections == 0
    assert "127.0.0.2" not in str(caught.value)
    assert [each["verdict"] for each in log.records] == ["allow", "deny"]
    assert log.records[1]["request"]["args"]["url"] == there
    answer = fetch(f"http://127.0.0.1:{web.port}/", _own(web, other))
    assert (answer["url"], answer["text"]) == (there, "hello")


def test_patterns_hold_for_redirects(fetch: Fetch, web: WebServer) -> None:
    """A tool rule on URLs is asked about each of them."""
    web.answers["/public/a"] = redirect("/admin")
    web.answers["/public/b"] = redirect("c")
    here = f"http://127.0.0.1:{web.port}"
    policy = {"tools": {"http.fetch": {"allow": [f"{here}/public/*"]}}}
    with pytest.raises(PolicyDenied) as caught:
        fetch(f"{here}/public/a", _own(web), policy=policy)
    assert caught.value.code == "tool"
    assert [each.target for each in web.seen] == ["/public/a"]
    assert fetch(f"{here}/public/b", _own(web), policy=policy)["url"] == f"{here}/public/c"


@pytest.mark.parametrize(
    "location",
    ["http://user@127.0.0.1/", "file:///etc/passwd", "http://127.1/", "\\\\x/", "//[::1"],
)
def test_a_redirect_to_an_odd_url_is_denied(fetch: Fetch, web: WebServer, location: str) -> None:
    """Redirects are read as strictly as first requests."""
    web.answers["/"] = redirect(location)
    with pytest.raises(PolicyDenied) as caught:
        fetch(f"http://127.0.0.1:{web.port}/", True)
    assert caught.value.code == "request.malformed"
    assert len(web.seen) == 1


def test_redirects_end(fetch: Fetch, web: WebServer) -> None:
    """A loop is followed ten times."""
    web.answers["/"] = redirect("/")
    with pytest.raises(ToolError, match="redirects"):
        fetch(f"http://127.0.0.1:{web.port}/", _own(web))
    assert len(web.seen) == 11


def test_credentials_stay_at_their_origin(fetch: Fetch, web: WebServer, other: WebServer) -> None:
    """On the way to another origin only harmless headers go along; to the same one, all."""
    web.answers["/"] = redirect("/same")
    web.answers["/same"] = redirect(f"http://127.0.0.2:{other.port}/")
    sent = {"Authorization": "Bearer k", "X-Api-Key": "k", "Cookie": "a=b", "Accept": "text/x"}
    fetch(f"http://127.0.0.1:{web.port}/", _own(web, other), headers=sent)
    assert web.seen[1].headers["authorization"] == "Bearer k"
    assert web.seen[1].headers["x-api-key"] == "k"
    assert other.seen[0].headers["accept"] == "text/x"
    assert not {"authorization", "x-api-key", "cookie"} & other.seen[0].headers.keys()


def test_no_cookie_is_kept(fetch: Fetch, web: WebServer) -> None:
    """Neither for the next hop nor for the next call."""
    web.answers["/"] = lambda h: say(h, b"", 302, Location="/next", Set_Cookie="id=1; Path=/")
    for _ in range(2):
        fetch(f"http://127.0.0.1:{web.port}/", _own(web))
    assert [each.target for each in web.seen] == ["/", "/next"] * 2
    assert not any("cookie" in each.headers for each in web.seen)


@pytest.mark.parametrize(
    ("status", "method", "then", "body"),
    [
        (301, "POST", "GET", b""), (302, "POST", "GET", b""), (303, "PUT", "GET", b""),
        (307, "POST", "POST", b"data"), (308, "PUT", "PUT", b"data"), (302, "HEAD", "HEAD", b""),
    ],
)  # fmt: skip
def test_methods_of_redirects(
    fetch: Fetch, web: WebServer, status: int, method: str, then: str, body: bytes
) -> None:
    """As browsers do it."""
    web.answers["/"] = redirect("/next", status)
    text = None if method == "HEAD" else "data"
    fetch(f"http://127.0.0.1:{web.port}/", _own(web), method=method, body=text)
    assert (web.seen[1].method, web.seen[1].body) == (then, body)


@pytest.mark.parametrize(
    "options",
    [
        {"method": "CONNECT"}, {"method": "GET / HTTP/1.1\r\nX: y"}, {"method": "TRACE"},
        {"headers": {"Host": "evil.test"}}, {"headers": {"Transfer-Encoding": "chunked"}},
        {"headers": {"content-length": "1"}}, {"headers": {"X": "a\r\nHost: b"}},
        {"headers": {"X: y\r\nZ": "a"}}, {"headers": {"": "a"}}, {"headers": {"X": "é"}},
        {"headers": {"X": "a" * 20_000}}, {"headers": {f"X{n}": "" for n in range(65)}},
        {"headers": {"x": "1", "X": "2"}}, {"headers": {"X": 1}}, {"headers": [["X", "1"]]},
        {"body": 3}, {"timeout_s": 0}, {"timeout_s": 1e9},
        {"timeout_s": "1"},
    ],
    ids=lambda options: repr(options)[:40],
)  # fmt: skip
def test_what_cannot_be_sent_is_refused(
    fetch: Fetch, web: WebServer, options: dict[str, Any]
) -> None:
    """Methods, headers and bodies that could smuggle a second request, or are too large."""
    with pytest.raises(ToolError):
        fetch(f"http://127.0.0.1:{web.port}/", _own(web), **options)
    assert web.connections == 0


def test_a_time_that_is_no_number_is_denied(fetch: Fetch, web: WebServer) -> None:
    """JSON has no NaN; a number is a number."""
    with pytest.raises(PolicyDenied) as caught:
        fetch(f"http://127.0.0.1:{web.port}/", _own(web), timeout_s=float("nan"))
    assert (caught.value.code, web.connections) == ("request.malformed", 0)
    fetch(f"http://127.0.0.1:{web.port}/", _own(web), timeout_s=20.5)


def test_a_body_over_the_size_of_a_call_is_denied(fetch: Fetch, web: WebServer) -> None:
    """A mebibyte of arguments is the most that is judged."""
    with pytest.raises(PolicyDenied) as caught:
        fetch(f"http://127.0.0.1:{web.port}/", _own(web), method="POST", body="x" * (1 << 20))
    assert (caught.value.code, web.connections) == ("request.too_complex", 0)
    fetch(f"http://127.0.0.1:{web.port}/", _own(web), method="POST", body="x" * 1_000_000)
    assert len(web.seen[0].body) == 1_000_000


def test_headers_and_body_are_sent(fetch: Fetch, web: WebServer) -> None:
    """As given."""
    fetch(
        f"http://127.0.0.1:{web.port}/", _own(web), method="post", body="é", headers={"X-A": "b c"}
    )
    assert (web.seen[0].method, web.seen[0].body) == ("POST", "é".encode())
    assert web.seen[0].headers["x-a"] == "b c"


def test_proxies_of_the_environment_are_not_used(
    fetch: Fetch, web: WebServer, other: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor its certificates, nor its netrc."""
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.2:{other.port}")
    monkeypatch.setenv("NO_PROXY", "")
    assert fetch(f"http://127.0.0.1:{web.port}/", _own(web))["text"] == "hello"
    assert other.connections == 0


_LIMITED = {"limits": {"output": 1000}}


def _many(handler: BaseHTTPRequestHandler) -> None:
    """Endless chunks, without a length that would tell."""
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    for _ in range(2000):
        handler.wfile.write(b"400\r\n" + b"x" * 1024 + b"\r\n")


@pytest.mark.parametrize(
    "answer",
    [
        _many,
        lambda h: say(h, b"x" * 1001),
        lambda h: say(h, gzip.compress(b"x" * 50_000_000), Content_Encoding="gzip"),
    ],
    ids=["chunked", "plain", "gzip bomb"],
)
def test_a_long_answer_is_cut_off(
    fetch: Fetch, web: WebServer, answer: Callable[[BaseHTTPRequestHandler], None]
) -> None:
    """At the output limit, however it is sent."""
    web.answers["/"] = answer
    with pytest.raises(LimitExceeded) as caught:
        fetch(f"http://127.0.0.1:{web.port}/", _own(web), policy=_LIMITED)
    assert (caught.value.kind, caught.value.limit) == ("output", 1000)


@pytest.mark.parametrize(
    ("body", "headers", "found"),
    [
        (b"x" * 1000, {}, {"text": "x" * 1000}),
        (gzip.compress(b"short"), {"Content_Encoding": "gzip"}, {"text": "short"}),
        ("é".encode("latin-1"), {"Content_Type": "text/plain; charset=latin-1"}, {"text": "é"}),
        (b"\xff", {"Content_Type": "text/plain"}, {"text": "\ufffd"}),
        (b"\xff\x00", {"Content_Type": "image/png"}, {"base64": "/wA="}),
        (b"abc", {"Content_Type": "text/plain; charset=unicode_escape"}, {"text": "abc"}),
        (b"abc", {"Content_Type": "text/plain; charset=utf-999"}, {"text": "abc"}),
    ],
)  # fmt: skip
def test_answers_are_decoded(
    fetch: Fetch, web: WebServer, body: bytes, headers: dict[str, str], found: dict[str, str]
) -> None:
    """Text as the server says it is written, the rest as base64."""
    web.answers["/"] = lambda handler: say(handler, body, **headers)
    answer = fetch(f"http://127.0.0.1:{web.port}/", _own(web), policy=_LIMITED)
    assert {key: answer[key] for key in ("text", "base64") if key in answer} == found


@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "gzip"])
def test_an_answer_that_cannot_be_unpacked(fetch: Fetch, web: WebServer, encoding: str) -> None:
    """Unknown or broken compression is the tool's failure."""
    web.answers["/"] = lambda handler: say(handler, b"plain", Content_Encoding=encoding)
    with pytest.raises(ToolError, match="compress"):
        fetch(f"http://127.0.0.1:{web.port}/", _own(web))


def _dripping(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    for _ in range(100):
        handler.wfile.write(b"x")
        time.sleep(0.05)


def test_a_slow_answer_ends_in_time(fetch: Fetch, web: WebServer) -> None:
    """The clock runs for all of the answer, not for each byte; and over redirects."""
    web.answers["/slow"] = _dripping
    web.answers["/"] = redirect("/slow")
    started = time.monotonic()
    with pytest.raises(ToolError, match="in time"):
        fetch(f"http://127.0.0.1:{web.port}/", _own(web), timeout_s=0.3)
    assert time.monotonic() - started < 3


def test_certificates_are_checked_for_the_name(fetch: Fetch, tmp_path: Path) -> None:
    """TLS to a pinned address: the server is told the name, and must prove it."""
    serving, trusting = certificates(tmp_path, "ok.test")
    web = WebServer(tls=serving)
    grants = [f"{name}.test:{web.port}" for name in ("ok", "bad")] + _own(web)
    names = Names(ok_test=[["127.0.0.1"]], bad_test=[["127.0.0.1"]])
    try:
        assert fetch(f"https://ok.test:{web.port}/", grants, names, trusting)["text"] == "hello"
        assert web.server_names == ["ok.test"]
        assert web.seen[0].headers["host"] == f"ok.test:{web.port}"
        for url, trust in ((f"https://bad.test:{web.port}/", trusting),
                           (f"https://ok.test:{web.port}/", None),
                           (f"https://127.0.0.1:{web.port}/", trusting)):  # fmt: skip
            with pytest.raises(ToolError, match="certificate"):
                fetch(url, grants, names, trust)
        assert len(web.seen) == 1
    finally:
        web.close()


def test_a_closed_net_block_means_no_fetch(fetch: Fetch, web: WebServer) -> None:
    """Even where the tool itself is allowed; an absent block has no opinion."""
    with pytest.raises(PolicyDenied):
        fetch(f"http://127.0.0.1:{web.port}/", [], policy={"tools": {"http": {"fetch": True}}})
    assert web.connections == 0
    assert fetch(f"http://127.0.0.1:{web.port}/", True)["status"] == 200


def test_nothing_is_loaded_before_the_first_fetch() -> None:
    """A kernel that never fetches does not pay for the libraries."""
    code = (
        "import sys; from axonkernel.kernel import Kernel; from axonkernel.tools import *; "
        "builtin_tools(); print({'httpx', 'httpcore', 'idna'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "set()"
