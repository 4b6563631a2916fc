"""``http.fetch`` of an agent in its box."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.agents import Project

pytestmark = pytest.mark.box

#: A web server on the loopback of the box itself.
SERVER = """
import http.server, threading

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(302 if self.path == "/away" else 200)
        self.send_header("Location", "http://127.0.0.1:2/")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"hi")

    def log_message(self, *args): ...

def serving():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()

async def fetched(kernel, url):
    try:
        return (await kernel.call("http.fetch", url=url))["text"]
    except PolicyDenied as error:
        return error.code
"""
BODY = """
serving()
urls = ["http://127.0.0.1:8080/", "http://127.0.0.1:8080/away", "http://127.0.0.1:1/",
        "http://localhost:8080/", "http://10.0.0.1/", "http://a@127.0.0.1:8080/"]
return [await fetched(kernel, url) for url in urls]
"""


def test_what_is_granted_is_fetched_and_nothing_else(tmp_path: Path) -> None:
    """The libraries are in the box; redirects and other ports are judged there as well."""
    project = Project(tmp_path / "home")
    project.agent(
        {"fs": {"read": ["."]}, "net": {"allow": ["127.0.0.1:8080"]}}, BODY, before=SERVER
    )
    assert project.run_agent().value == [
        "hi", "net.private", "net.private", "hi", "net.private", "request.malformed",
    ]  # fmt: skip
