"""The agent's part of the plays, as text: each program is run by ``python3 -ISc``.

A program gets the project folder as its first word, more words after it. Outside the box the
same text is the control.
"""

from __future__ import annotations

__all__ = [
    "BEAT",
    "BEAT_FOR_A_PARENT",
    "CONNECT_LATE",
    "FILL",
    "FORK",
    "HOG",
    "KILL_ALL",
    "ORPHAN",
    "POLL_DENIED",
    "REOPEN_INPUT",
    "REOPEN_OUTPUT",
    "SWAP",
    "TYPE",
]

#: Writes to a file for as long as it lives, a minute at most.
BEAT = """
import os, sys, time
with open(sys.argv[1] + "/pid", "w") as file: file.write(str(os.getpid()))
with open(sys.argv[1] + "/beats", "ab", buffering=0) as beats:
    for _ in range(1200):
        beats.write(b"."); time.sleep(0.05)
"""

#: Starts another that does, and waits for it.
BEAT_FOR_A_PARENT = f"""
import subprocess, sys
subprocess.run([sys.executable, "-ISc", {BEAT!r}, sys.argv[1]], start_new_session=True)
"""

#: Leaves a process in a session of its own that does, deaf to every signal but one, and ends.
ORPHAN = f"""
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    for deaf in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(deaf, signal.SIG_IGN)
    for fd in (0, 1, 2): os.close(fd)
    exec({BEAT!r})
    os._exit(0)
os.wait()
while not os.path.exists(sys.argv[1] + "/beats"): time.sleep(0.01)
"""

#: Ends everything that it can. In a control it is given namespaces of its own first, with a
#: process in them that stands for the host's.
KILL_ALL = """
import ctypes, os, signal, sys
if len(sys.argv) > 2:
    libc = ctypes.CDLL(None)
    uid = os.getuid()
    assert libc.unshare(0x30000000) == 0
    open("/proc/self/uid_map", "w").write(f"0 {uid} 1")
    if pid := os.fork():
        os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    assert os.getpid() == 1
    if (victim := os.fork()) == 0: signal.pause()
    if (killer := os.fork()) == 0: os.kill(-1, signal.SIGKILL); os._exit(0)
    os.waitpid(killer, 0)
    print("killed" if os.waitstatus_to_exitcode(os.waitpid(victim, 0)[1]) == -9 else "")
else:
    os.kill(-1, signal.SIGKILL)
    print("done")
"""

#: Reads a denied file again and again while the host replaces it.
POLL_DENIED = """
import sys, time
end = time.monotonic() + 1.2
path = sys.argv[1] + "/denied"
print("ready", flush=True)
seen = set()
while time.monotonic() < end:
    try:
        with open(path) as file: seen.add(file.read(200))
    except OSError: pass
print("\\n".join(seen))
"""

#: Connects to a socket that appears while it tries.
CONNECT_LATE = """
import socket, sys, time
end = time.monotonic() + 1.2
print("ready", flush=True)
while time.monotonic() < end:
    with socket.socket(socket.AF_UNIX) as caller:
        try:
            caller.connect(sys.argv[1] + "/late"); caller.send(b"late"); print("met"); break
        except OSError: time.sleep(0.0005)
"""

#: Opens its standard output again, to read what others wrote there.
REOPEN_OUTPUT = """
import os, sys
file = os.open("/proc/self/fd/1", os.O_RDONLY | os.O_NONBLOCK)
with open(sys.argv[1] + "/brought", "wb") as brought: brought.write(os.read(file, 4096))
"""

#: Opens its standard input again, to write to it.
REOPEN_INPUT = """
with open("/proc/self/fd/0", "a") as file: file.write("written by an attempt to escape")
"""

#: Types into the terminal that is its standard input.
TYPE = """
import contextlib, fcntl
with contextlib.suppress(OSError): fcntl.ioctl(0, 0x540E, 0)
for byte in b"typed\\n": fcntl.ioctl(0, 0x5412, bytes([byte]))
"""

#: Exchanges a folder of its own with a link to one outside, for as long as it is let.
SWAP = """
import ctypes, os, sys, time
project, outside = sys.argv[1:3]
os.makedirs(project + "/swap", exist_ok=True)
os.symlink(outside, project + "/other")
libc = ctypes.CDLL(None)
names = [(project + name).encode() for name in ("/swap", "/other")]
print("ready", flush=True)
end = time.monotonic() + 20
while time.monotonic() < end:
    libc.renameat2(-100, names[0], -100, names[1], 2)
    time.sleep(0.0003)
"""

#: Fills a folder with a number of MiB.
FILL = """
import os, sys
path, left = sys.argv[3] + "/escape-test-fill", int(sys.argv[2])
try:
    with open(path, "wb", buffering=0) as file:
        while left and file.write(bytes(1 << 20)) == 1 << 20: left -= 1
except OSError: pass
os.unlink(path)
print("no more" if left else "made", flush=True)
"""

#: Makes a number of processes.
FORK = """
import os, signal, sys
made = 0
try:
    while made < int(sys.argv[2]):
        if os.fork() == 0: signal.pause()
        made += 1
except OSError: pass
print("made" if made == int(sys.argv[2]) else "no more", made, flush=True)
os.killpg(0, signal.SIGKILL) if len(sys.argv) > 3 else os._exit(0)
"""

#: Takes a number of MiB.
HOG = """
import mmap, sys
held = mmap.mmap(-1, int(sys.argv[2]) << 20)
for at in range(0, len(held), 4096): held[at] = 1
print("made", flush=True)
"""
