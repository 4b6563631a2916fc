"""Ordinary programs that must not notice the box."""

from __future__ import annotations

import getpass
import os
import subprocess
import time

import pytest

from box.boxed import PYTHON, Boxed

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

PROGRAMS = pytest.mark.requires("programs")
READ = ["--read", "."]
GIT_ENV = {
    "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent", "PATH": "/usr/bin:/bin",
    "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@b",
}  # fmt: skip


def allowing(*names: str) -> list[str]:
    return [word for name in names for word in ("--allow", name)]


def test_multiprocessing_in_every_way(box: Boxed) -> None:
    """Locks, pools by fork, spawn and forkserver, shared memory: all need /dev/shm."""
    (box.project / "work.py").write_text("""
import multiprocessing as mp, sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import shared_memory
def double(n): return 2 * n
if __name__ == "__main__":
    mp.Lock().acquire()
    memory = shared_memory.SharedMemory(create=True, size=1 << 20)
    memory.buf[0] = 7
    memory.close(); memory.unlink()
    for method in ("fork", "spawn", "forkserver"):
        with ProcessPoolExecutor(2, mp_context=mp.get_context(method)) as pool:
            print(method, list(pool.map(double, range(3))))
""")
    run = box.exec(*READ, command=[PYTHON, "-E", "work.py"])
    assert run.code == 0, run.err
    assert run.text.split("\n")[:3] == [f"{m} [0, 2, 4]" for m in ("fork", "spawn", "forkserver")]


def test_who_and_when_one_is(box: Boxed) -> None:
    """User, groups, home, host name and time zone have answers."""
    code = """
import getpass, os, pwd
print(getpass.getuser(), os.path.expanduser("~"), pwd.getpwuid(os.getuid()).pw_name)
"""
    answers = box.attempts(
        ["spawn", "whoami"],
        ["spawn", "id", "-un"],
        ["spawn", "id", "-gn"],
        ["spawn", PYTHON, "-c", code],
        ["spawn", "date", "+%Z"],
        ["spawn", "hostname"],
        ["spawn", "locale"],
        grants=[*READ, *allowing("whoami", "id", "python3", "date", "hostname", "locale")],
        env={"TZ": "Asia/Kolkata"},
    )
    texts = [answer[1].strip() for answer in answers]
    assert [answer[0] for answer in answers] == [0] * 7, answers
    me = getpass.getuser()
    assert texts[0] == texts[1] == me and texts[2]
    assert texts[3].split()[0] == texts[3].split()[2] == me
    assert texts[4] == "IST"
    assert texts[5] == "box"


def test_the_hosts_time_zone_is_the_boxes(box: Boxed) -> None:
    """Without TZ, as outside."""
    outside = subprocess.run(["date", "+%Z"], capture_output=True, text=True, env={}, check=True)
    run = box.exec(*READ, command=["/usr/bin/date", "+%Z"])
    assert run.text == outside.stdout


def test_certificates_and_libraries(box: Boxed) -> None:
    """TLS contexts load the system's certificates; ctypes finds libraries."""
    code = """
import ssl, ctypes, sqlite3, zlib
stats = ssl.create_default_context().cert_store_stats()
print(stats["x509"] >= 0, ssl.get_default_verify_paths().capath)
"""
    run = box.exec(*READ, command=[PYTHON, "-Ic", code])
    assert run.code == 0, run.err
    assert run.text.startswith("True")


def test_loopback_inside(box: Boxed) -> None:
    """Servers on 127.0.0.1 and ::1 are reached; names of loopback resolve."""
    code = """
import http.server, socket, threading, urllib.request
for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    with socket.create_server((address, 0), family=family) as server:
        with socket.create_connection(server.getsockname()[:2], 5) as client:
            peer, _ = server.accept(); client.sendall(b"x"); print(peer.recv(1), peer.close())
server = http.server.HTTPServer(("localhost", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(urllib.request.urlopen(f"http://localhost:{server.server_port}/a.txt", timeout=5).read())
print(socket.gethostbyname(socket.gethostname()))
"""
    run = box.exec(*READ, command=[PYTHON, "-Ic", code])
    assert run.code == 0, run.err
    assert run.text.splitlines() == ["b'x' None", "b'x' None", "b'text of a'", "127.0.0.1"]


WAITING = [
    ["git", "commit", "--allow-empty"],
    ["git", "log"],
    ["git", "clone", "https://example.test/x.git", "/tmp/x"],
    ["python3"],
    ["cat"],
    ["sh", "-c", "read line; echo $?"],
    pytest.param(["less", "a.txt"], marks=PROGRAMS),
    pytest.param(["ssh", "-o", "ConnectTimeout=3", "example.test"], marks=PROGRAMS),
]


@pytest.mark.parametrize("command", WAITING, ids=lambda words: "-".join(words[:2]).strip("-"))
def test_nothing_waits_for_a_person(box: Boxed, command: list[str]) -> None:
    """Editors, pagers, credential prompts and readers of input end in seconds."""
    subprocess.run(["git", "init", "-q", "."], cwd=box.project, check=True, env=GIT_ENV)
    commit = ["git", "commit", "-q", "--allow-empty", "-m", "one"]
    subprocess.run(commit, cwd=box.project, check=True, env=GIT_ENV)
    start = time.monotonic()
    box.exec("--write", ".", *allowing("sh", "git"), command=command, timeout_s=30)
    assert time.monotonic() - start < 8


ODD_NAMES = [
    "with spaces",
    "quo'te \"d",
    "line\nbreak",
    "-rf",
    "[id]{a}",
    "$(id) `id` \\ %s",
    "é e\u0301",
    "n" * 200,
    "invalid-\udcff",
]


@pytest.mark.parametrize("name", ODD_NAMES, ids=ascii)
@pytest.mark.parametrize("grant", [".", "absolute"])
def test_odd_folder_names(box: Boxed, name: str, grant: str) -> None:
    """Spaces, quotes, newlines, 200 letters, bytes that are no UTF-8: the box starts there,
    reads, writes, and pwd is the caller's."""
    folder = box.project / name
    folder.mkdir()
    (folder / "in.txt").write_text("inside")
    path = str(folder) if grant == "absolute" and "\n" not in name else "."
    where, read, wrote = box.attempts(
        ["whereabouts"],
        ["read", "in.txt"],
        ["write", "out.txt", "made"],
        grants=["--write", path],
        cwd=folder,
    )
    assert (where, read, wrote) == (str(folder), "inside", "ok")
    assert (folder / "out.txt").read_text() == "made"


@pytest.mark.parametrize("name", ["line\nbreak", "a*b", "a?b"], ids=ascii)
def test_names_that_no_policy_can_spell_are_refused(box: Boxed, name: str) -> None:
    """A control character or a wildcard in a grant is a fault with the path escaped, and the
    box starts from inside such a folder all the same."""
    folder = box.project / name
    folder.mkdir()
    run = box.exec("--write", str(folder), command=["/bin/true"])
    assert run.code == 78 and "$.fs.write[0]" in run.err
    assert "line\nbreak" not in run.err
    assert box.attempts(["write", "x"], grants=["--write", "."], cwd=folder) == ["ok"]


def test_a_working_directory_behind_a_link(box: Boxed) -> None:
    """The caller's folder, by its real name."""
    link = box.root / "link"
    link.symlink_to(box.project)
    where, read = box.attempts(["whereabouts"], ["read", "a.txt"], grants=["--read", "."], cwd=link)
    assert (where, read) == (str(box.project), "text of a")


def test_a_working_directory_that_is_not_granted(box: Boxed) -> None:
    """HOME, with one line on stderr; it never widens a grant."""
    run = box.exec("--read", str(box.project), command=["/bin/pwd"], cwd="/etc")
    assert run.code == 0 and "/etc is not granted" in run.err
    assert run.text.strip() not in ("/etc", str(box.project))


def test_a_deleted_working_directory(box: Boxed) -> None:
    """A clear message, no traceback, nothing ran."""
    script = 'mkdir gone && cd gone && rmdir ../gone && exec "$@"'
    run = box.exec("--read", "/etc", command=["/bin/true"], prefix=["sh", "-c", script, "sh"])
    assert run.code in (2, 78, 125) and "Traceback" not in run.err
    assert "working directory" in run.err or "No such file" in run.err


def test_git_in_the_box(box: Boxed) -> None:
    """init, add, commit, status, log, diff, grep, branch, stash, gc: the everyday commands."""
    script = """
set -e
cd out && git init -q repo && cd repo
git config --global user.email a@b 2>/dev/null || true
echo one > f; git add f; git -c user.name=A -c user.email=a@b commit -q -m one
git status --porcelain; echo two >> f; git diff --stat; git stash -q 2>/dev/null || true
git log --oneline | wc -l; git grep -c one; git branch x; git gc -q
"""
    options = ["--write", "./out", *READ, *allowing("git", "sh", "wc", "mkdir")]
    run = box.exec(*options, command=["sh", "-c", script])
    assert run.code == 0, run.err
    assert "f:1" in run.text
    log = subprocess.run(
        ["git", "-C", box.project / "out/repo", "-c", "safe.directory=*", "log", "--format=%s"],
        capture_output=True, text=True, env=GIT_ENV,
    )  # fmt: skip
    assert log.stdout == "one\n"


def test_git_in_an_existing_repository(box: Boxed) -> None:
    """Its hooks and config are read-only, committing works, status is clean."""
    subprocess.run(["git", "init", "-q", "."], cwd=box.project, check=True, env=GIT_ENV)
    before = sorted(os.listdir(box.project))
    script = (
        "git add -A && git -c user.name=A -c user.email=a@b commit -q -m one && "
        "git status --porcelain && echo x > .git/hooks/pre-commit"
    )
    run = box.exec("--write", ".", *allowing("git", "sh"), command=["sh", "-c", script])
    assert run.code != 0 and "Read-only" in run.err
    assert sorted(os.listdir(box.project)) == before
    assert not (box.project / ".git/hooks/pre-commit").exists()
    log = ["git", "-c", "safe.directory=*", "log", "--format=%s"]
    shown = subprocess.run(log, cwd=box.project, capture_output=True, text=True, env=GIT_ENV)
    assert shown.stdout == "one\n"


@pytest.mark.parametrize(
    ("program", "words", "said"),
    [
        pytest.param("node", ["-e", "console.log(6 * 7)"], "42", marks=PROGRAMS),
        ("perl", ["-MList::Util=sum", "-e", "print sum(40, 2)"], "42"),
        ("bash", ["-c", "echo $((6 * 7))"], "42"),
        pytest.param("java", ["-version"], "", marks=PROGRAMS),
        ("tar", ["--version"], "tar"),
        pytest.param("ssh", ["-V"], "", marks=PROGRAMS),
        pytest.param("rg", ["--version"], "ripgrep", marks=PROGRAMS),
    ],
)
def test_other_languages_start(box: Boxed, program: str, words: list[str], said: str) -> None:
    """Each brings what it needs (its profile); with nothing granted but the project."""
    run = box.exec(*READ, command=[program, *words])
    assert run.code == 0, run.err
    assert said in run.text


LONG = 19 * ("n" * 200 + "/")


@pytest.mark.parametrize("shape", ["with spaces", "quo'te \"d", "-rf", "é e\u0301", LONG], ids=len)
def test_git_and_python_in_odd_folders(box: Boxed, shape: str) -> None:
    """A repository is made, a file committed and a module imported in a folder of any shape,
    one whose path has thousands of letters included."""
    folder = box.project / shape
    folder.mkdir(parents=True)
    (folder / "mod.py").write_text("NAME = __file__\n")
    script = """
import os, subprocess
git = ["git", "-c", "user.name=A", "-c", "user.email=a@b"]
for words in ("init -q", "add .", "commit -qm x"): subprocess.check_call(git + words.split())
import mod
print(os.getcwd() == os.path.dirname(os.path.abspath(mod.NAME)), len(os.getcwd()))
"""
    options = ["--write", ".", *allowing("git")]
    run = box.exec(*options, command=[PYTHON, "-c", script], cwd=folder)
    assert (run.code, run.text.split()) == (0, ["True", str(len(str(folder)))]), run.err
    log = ["git", "-c", "safe.directory=*", "log", "--format=%s"]
    shown = subprocess.run(log, cwd=folder, capture_output=True, text=True, env=GIT_ENV)
    assert shown.stdout == "x\n"
