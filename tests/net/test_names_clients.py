"""Everyday programs look granted names up and fetch by them; others they are told not to know.

One box, in which each program asks for a granted and an ungranted name of the same server.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from box.boxed import PYTHON, Boxed
from lab import processes
from lab.internet import ADDRESSES, Internet
from net.fetch_class import FETCH

pytestmark = [
    pytest.mark.requires("box", "net", "root", "programs"),
    pytest.mark.usefixtures("leftovers"),
]

GOOD, BAD = "https://index.test:8443", "https://other.test:8443"
ASKING = Path(__file__).with_name("asking.py").read_text()
SERVER = """
import functools, http.server, ssl, sys, threading
folder, address = sys.argv[1:]
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder + "/served")
plain = http.server.ThreadingHTTPServer((address, 8081), handler)
secure = http.server.ThreadingHTTPServer((address, 8443), handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(folder + "/cert.pem", folder + "/key.pem")
secure.socket = context.wrap_socket(secure.socket, server_side=True, do_handshake_on_connect=False)
for server in (plain, secure):
    threading.Thread(target=server.serve_forever, daemon=True).start()
print("up", flush=True)
sys.stdin.read()
"""
PIP = """
import glob, sys
sys.path.insert(0, glob.glob("/usr/share/python-wheels/pip-*.whl")[0])
from pip._internal.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
FETCH_JS = """
for (const url of process.argv.slice(2)) {
  try { console.log((await (await fetch(url)).text()).trim()) }
  catch (error) { console.log(error.cause?.code ?? `${error}`) }
}
"""
URLOPEN = """
import ssl, sys, urllib.request
context = ssl.create_default_context(cafile=sys.argv[1])
for url in sys.argv[2:]:
    try: print(urllib.request.urlopen(url, timeout=9, context=context).read().decode().strip())
    except OSError as error: print(error)
"""


def served(folder: Path) -> None:
    """A certificate for both names, a page, a repository and an index with one package."""
    page = folder / "served"
    page.mkdir()
    (page / "hello").write_text("hello\n")
    names = "subjectAltName=DNS:index.test,DNS:other.test"
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
        "-days", "2", "-subj", "/CN=lab", "-addext", names, "-keyout", f"{folder}/key.pem",
        "-out", f"{folder}/cert.pem")  # fmt: skip
    work = folder / "work"
    author = ("-c", "user.name=a", "-c", "user.email=a@b.test")
    run("git", "init", "-q", f"{work}")
    (work / "file").write_text("text\n")
    run("git", "-C", f"{work}", "add", ".")
    run("git", "-C", f"{work}", *author, "commit", "-qm", "one")
    run("git", "clone", "-q", "--bare", f"{work}", f"{page}/repo.git")
    run("git", "-C", f"{page}/repo.git", "update-server-info")
    package = page / "simple" / "greeter"
    package.mkdir(parents=True)
    wheel(package / "greeter-1-py3-none-any.whl")
    (package / "index.html").write_text('<a href="greeter-1-py3-none-any.whl">greeter</a>')


def wheel(path: Path) -> None:
    """The least that pip takes for a package."""
    import zipfile

    files = {
        "greeter.py": "",
        "greeter-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: greeter\nVersion: 1\n",
        "greeter-1.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, "greeter-1.dist-info/RECORD"))
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**files, "greeter-1.dist-info/RECORD": record}.items():
            archive.writestr(name, text)


def run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True, timeout=30)


@pytest.fixture
def index(net: Internet, tmp_path: Path) -> Iterator[Path]:
    """A server with TLS and without, known by two names; the folder it is made from."""
    folder = tmp_path / "index"
    folder.mkdir()
    served(folder)
    net.name("index.test", ADDRESSES["two4"])
    net.name("other.test", ADDRESSES["two4"])
    argv = [sys.executable, "-ISc", SERVER, str(folder), ADDRESSES["two4"]]
    command = processes.entering(argv, target=net.far, namespaces="--net")
    pipe = subprocess.PIPE
    server = processes.start(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
    try:
        assert server.stdout and server.stdout.readline() == b"up\n"
        yield folder
    finally:
        processes.end(server, 5)


def attempts(near: Boxed, index: Path, tries: list[list[Any]], *allow: str) -> list[Any]:
    """What came of each in one box, which may reach the server by one of its names."""
    (near.project / "cert.pem").write_bytes((index / "cert.pem").read_bytes())
    grants = ["--write", ".", "--net", "index.test:8443", "--net", "index.test:8081"]
    grants += [word for name in allow for word in ("--allow", name)]
    ended = near.exec(*grants, command=[PYTHON, "-ISc", ASKING, json.dumps(tries)])
    assert ended.code == 0, ended.err
    return [json.loads(line)[0] for line in ended.text.splitlines()]


def test_everyday_programs_find_granted_names_only(near: Boxed, net: Internet, index: Path) -> None:
    """curl, git, Python, node, Java and a resolver of its own: by HTTPS where that needs no key
    store, for a granted name; the same server by an ungranted one is unknown."""
    (near.project / "Fetch.class").write_bytes(FETCH)
    (near.project / "fetch.mjs").write_text(FETCH_JS)
    plain = ("http://index.test:8081/hello", "http://other.test:8081/hello")
    git = ["git", "-c", "http.sslCAInfo=cert.pem", "clone", "-q"]
    answers = attempts(
        near, index,
        [
            ["spawn", "curl", "-sS", "--cacert", "cert.pem", f"{GOOD}/hello"],
            ["spawn", "curl", "-sS", "--cacert", "cert.pem", f"{BAD}/hello"],
            ["spawn", *git, f"{GOOD}/repo.git", "one"],
            ["spawn", *git, f"{BAD}/repo.git", "two"],
            ["spawn", PYTHON, "-ISc", URLOPEN, "cert.pem", f"{GOOD}/hello", f"{BAD}/hello"],
            ["spawn", "node", "fetch.mjs", *plain],
            ["spawn", "java", "-cp", ".", "Fetch", *plain],
            ["go", "index.test", 8081],
            ["go", "other.test", 8081],
        ],
        "curl", "git", "node", "java",
    )  # fmt: skip
    curl, no_curl, cloned, no_git, python, node, java, go, no_go = answers
    assert curl == [0, "hello\n"] and no_curl[0] == 6 and "resolve" in no_curl[1], answers
    assert cloned[0] == 0 and (near.project / "one" / "file").exists(), cloned
    assert no_git[0] == 128 and "resolve" in no_git[1], no_git
    assert python[1].splitlines()[0] == "hello" and "not known" in python[1], python
    assert node == [0, "hello\nENOTFOUND\n"], node
    assert java == [0, "hello\nunknown host other.test\n"], java
    assert (go, no_go) == ("ok", "NXDOMAIN")
    assert {record.data.split()[0] for record in net.seen("dns")} == {"index.test"}


@pytest.mark.deep
def test_pip_installs_from_a_granted_index_only(near: Boxed, net: Internet, index: Path) -> None:
    """By HTTPS; it takes seconds to find out that a name is unknown."""
    pip = [PYTHON, "-Ic", PIP, "--isolated", "--cert", "cert.pem", "--disable-pip-version-check",
           "install", "--retries", "0", "--no-cache-dir", "-q", "-t", "out", "-i"]  # fmt: skip
    tries = [["spawn", *pip, f"{where}/simple", "greeter"] for where in (GOOD, BAD)]
    installed, refused = attempts(near, index, tries)
    assert installed[0] == 0 and (near.project / "out" / "greeter.py").exists(), installed
    assert refused[0] != 0 and "No matching distribution" in refused[1], refused
    assert {record.data.split()[0] for record in net.seen("dns")} == {"index.test"}
