"""A day with Python: the interpreter, and nothing else of the host's but what a work names."""

from __future__ import annotations

import pytest

from box.daily.session import Day, Work

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

POLICY = """
default = "deny"
[fs]
write = ["./project"]
[shell]
allow = ["python3"]
[env.set]
PYTHONDONTWRITEBYTECODE = "1"
"""


def python(title: str, program: str, printed: str, **files: str) -> Work:
    """A program in ``main.py``, and what it prints."""
    return Work(title, f"$ python3 main.py\n{printed}", {"main.py": program, **files})


WHEEL = """
import base64, hashlib, os, zipfile
os.makedirs("wheels")
for name, needs in (("greeter", ["words"]), ("words", [])):
    files = {
        f"{name}.py": {"greeter": "import words\\ndef main(): print(words.HELLO)\\n",
                       "words": "HELLO = 'hello from a wheel'\\n"}[name],
        f"{name}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\\nName: {name}\\nVersion: 1.0\\n"
            + "".join(f"Requires-Dist: {need}\\n" for need in needs),
        f"{name}-1.0.dist-info/WHEEL":
            "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    if name == "greeter":
        script = "[console_scripts]\\ngreet=greeter:main\\n"
        files["greeter-1.0.dist-info/entry_points.txt"] = script
    with zipfile.ZipFile(f"wheels/{name}-1.0-py3-none-any.whl", "w") as wheel:
        record = ""
        for path, text in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
            record += f"{path},sha256={digest.decode()},{len(text)}\\n"
            wheel.writestr(path, text)
        wheel.writestr(f"{name}-1.0.dist-info/RECORD", record + f"{name}-1.0.dist-info/RECORD,,\\n")
"""

WORKS = [
    python(
        "multiprocessing in every way",
        """
import multiprocessing as mp
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import shared_memory
def double(n): return 2 * n
def fill(name):
    memory = shared_memory.SharedMemory(name)
    memory.buf[:3] = b"abc"
    memory.close()
if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        with ProcessPoolExecutor(2, mp_context=mp.get_context(method)) as pool:
            print(method, list(pool.map(double, range(3))))
    memory = shared_memory.SharedMemory(create=True, size=1 << 20)
    other = mp.get_context("spawn").Process(target=fill, args=(memory.name,))
    other.start(); other.join()
    print(bytes(memory.buf[:3]))
    memory.close(); memory.unlink()
    with mp.Manager() as manager:
        numbers = manager.list([3, 1]); numbers.sort(); print(list(numbers))
""",
        "fork [0, 2, 4]\nspawn [0, 2, 4]\nforkserver [0, 2, 4]\nb'abc'\n[1, 3]",
    ),
    Work(
        "a virtual environment and pip from a folder of wheels",
        """
$ python3 wheel.py
$ python3 -m venv env
$ env/bin/python -m pip install -q --no-index --find-links wheels greeter
$ env/bin/greet
hello from a wheel
$ env/bin/python -m pip list --format=freeze
greeter==1.0
...
words==1.0
$ env/bin/python -m pip uninstall -qy greeter
$ env/bin/python -c "import greeter"
...No module named 'greeter'
[1]
""",
        {"wheel.py": WHEEL},
    ),
    python(
        "asyncio: programs, pipes, sockets, threads",
        """
import asyncio, sys
async def main():
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "import sys; print(sys.stdin.read()[::-1])",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    print((await process.communicate(b"abc"))[0])
    async def answer(reader, writer):
        writer.write(await reader.readline()); await writer.drain(); writer.close()
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"line\\n"); print(await reader.read()); writer.close()
    print(await asyncio.to_thread(sum, [1, 2]))
    unix = await asyncio.start_unix_server(answer, "s")
    reader, writer = await asyncio.open_unix_connection("s")
    writer.write(b"unix\\n"); print(await reader.read()); writer.close()
asyncio.run(main())
""",
        "b'cba\\n'\nb'line\\n'\n3\nb'unix\\n'",
    ),
    python(
        "sqlite3, with a journal beside the file",
        """
import sqlite3
db = sqlite3.connect("a.db")
print(db.execute("pragma journal_mode=wal").fetchone())
with db: db.execute("create table t(x)"); db.executemany("insert into t values(?)", [(1,), (2,)])
print(sqlite3.connect("a.db").execute("select sum(x) from t").fetchone())
""",
        "('wal',)\n(3,)",
    ),
    python(
        "temporary files and locks",
        """
import fcntl, os, tempfile
with tempfile.NamedTemporaryFile() as file, tempfile.TemporaryDirectory() as folder:
    print(file.name.startswith("/tmp/"), os.listdir(folder), tempfile.gettempdir())
with open("lock", "w") as file:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB); fcntl.lockf(file, fcntl.LOCK_EX)
    os.link("lock", "lock2"); os.rename("lock2", "lock3"); print(os.stat("lock").st_nlink)
""",
        "True [] /tmp\n2",
    ),
    python(
        "locale, time zones, certificates, who one is",
        """
import getpass, locale, os, pwd, socket, ssl, time, zoneinfo
print(locale.setlocale(locale.LC_ALL, "C.UTF-8"))
from datetime import datetime
print(datetime(2024, 7, 1, tzinfo=zoneinfo.ZoneInfo("Asia/Kolkata")).tzname())
print(getpass.getuser() == pwd.getpwuid(os.getuid()).pw_name, os.path.expanduser("~")[0])
print(socket.gethostbyname(socket.gethostname()), bool(ssl.create_default_context()))
""",
        "C.UTF-8\nIST\nTrue /\n127.0.0.1 True",
    ),
    python(
        "a web server on loopback and its client",
        """
import http.server, threading, urllib.request, urllib.error, xmlrpc.client
class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *words): pass
for host in ("127.0.0.1", "localhost"):
    server = http.server.ThreadingHTTPServer((host, 0), Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(urllib.request.urlopen(f"http://{host}:{server.server_port}/a.txt").read())
""",
        "b'text'\nb'text'",
        **{"a.txt": "text"},
    ),
    python(
        "threads, signals, timers, a daemon of one's own",
        """
import os, signal, threading, time
signal.signal(signal.SIGALRM, lambda *_: print("alarm"))
signal.setitimer(signal.ITIMER_REAL, 0.01); signal.pause()
done = threading.Event(); threading.Timer(0.01, done.set).start(); print(done.wait(20))
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: os.write(write, b"daemon"); os._exit(0)
    os._exit(0)
os.wait(); print(os.read(read, 9))
""",
        "alarm\nTrue\nb'daemon'",
    ),
    python(
        "memory maps, memfd, inotify, extended file calls",
        """
import ctypes, mmap, os
with open("m", "wb+") as file:
    file.truncate(4096); m = mmap.mmap(file.fileno(), 0); m[:2] = b"ok"; m.flush()
print(open("m", "rb").read(2))
fd = os.memfd_create("x"); os.write(fd, b"y"); print(os.pread(fd, 1, 0))
libc = ctypes.CDLL(None); watch = libc.inotify_init(); print(watch > 0)
print(libc.inotify_add_watch(watch, b".", 0x100)); open("new", "w").close()
print(b"new" in os.read(watch, 4096)); print(os.sendfile(fd, os.open("m", 0), 0, 2))
""",
        "b'ok'\nb'y'\nTrue\n1\nTrue\n2",
    ),
    Work(
        "unittest, compileall, zipapp, doctest",
        """
$ python3 -m unittest -q
...
OK
$ python3 -m compileall -q app
$ python3 -m zipapp app -o app.pyz
$ python3 app.pyz
ran
$ python3 -m doctest words.py
$ python3 -m json.tool --compact data.json
{"a":[1]}
$ python3 -m cProfile -o profile app/__main__.py
ran
""",
        {
            "test_a.py": "import unittest\nclass T(unittest.TestCase):\n"
            "    def test(self): self.assertEqual(1, 1)\n",
            "app/__main__.py": "print('ran')\n",
            "words.py": '"""\n>>> 1 + 1\n2\n"""\n',
            "data.json": '{"a": [1]}',
        },
    ),
]


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.title)
def test_python(day: Day, work: Work) -> None:
    """The session goes as it would outside."""
    day.check(POLICY, WORKS, work)
