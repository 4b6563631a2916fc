"""Run inside a box (``python3 -ISc``): tries things and prints what came of each, as JSON.

The last argument is a list of attempts, each ``[NAME, ARGUMENTS...]`` with NAME one of the
functions below. An attempt answers with what the function returned, or with the name of its
errno. System calls only, so that nothing of Python's own stands between.
"""

import contextlib
import ctypes
import errno
import json
import os
import socket
import sys
import time


def read(path):
    with open(path, "rb") as file:
        return file.read(65536).decode("latin-1")


def write(path, text="x"):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.write(fd, text.encode())
    os.close(fd)
    return "ok"


def append(path, text="x"):
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(fd, text.encode())
    os.close(fd)
    return "ok"


def hold(path, flags):
    """Open a file and leave it open."""
    os.open(path, flags)
    return "ok"


def names(path):
    return sorted(os.listdir(path))


def kind(path):
    return oct(os.lstat(path).st_mode)


def link(source, target):
    os.link(source, target)
    return "ok"


def symlink(source, target):
    os.symlink(source, target)
    return "ok"


def rename(source, target):
    os.rename(source, target)
    return "ok"


def unlink(path):
    os.unlink(path)
    return "ok"


def make(path):
    os.mkdir(path)
    return "ok"


def chmod(path, mode):
    os.chmod(path, mode)
    return "ok"


def spawn(*argv):
    """Exit code and output of a program, without a shell."""
    import subprocess

    done = subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL, timeout=30)
    return [done.returncode, done.stdout.decode("latin-1"), done.stderr.decode("latin-1")]


def execute(path):
    """Exit code of a program started by fork and execve."""
    pid = os.fork()
    if pid == 0:
        try:
            os.execve(path, [path], {})
        except OSError as error:
            os._exit(200 + min(error.errno, 50))
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code > 200:
        raise OSError(code - 200, path)
    return code


def connect(address, port, timeout_s=5):
    """``ok`` when a TCP connection carried a byte there and back, and how long it took."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    start = time.monotonic()
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.settimeout(timeout_s)
        try:
            sock.connect((address, port))
            sock.sendall(b"x")
            said = "ok" if sock.recv(1) else "closed"
        except TimeoutError:
            said = "timeout"
        except OSError as error:
            said = errno.errorcode[error.errno]
    return [said, time.monotonic() - start]


def send(address, port, timeout_s=1):
    """``ok`` when a datagram was answered, and how long it took."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    start = time.monotonic()
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.settimeout(timeout_s)
        try:
            sock.sendto(b"x", (address, port))
            said = "ok" if sock.recv(1) else "closed"
        except TimeoutError:
            said = "timeout"
        except OSError as error:
            said = errno.errorcode[error.errno]
    return [said, time.monotonic() - start]


def unix(path, datagram=False):
    """Connect to a unix socket; a path that starts with @ is abstract."""
    name = "\0" + path[1:] if path.startswith("@") else path
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM if datagram else socket.SOCK_STREAM) as s:
        s.settimeout(5)
        if datagram:
            s.sendto(b"x", name)
        else:
            s.connect(name)
            s.sendall(b"x")
    return "ok"


def own(path):
    """Make a unix socket and connect to it; its name is that of the file afterwards."""
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(path)
        server.listen()
        time.sleep(0.02)
        client.connect(path)
        client.sendall(b"x")
        return "ok" if server.accept()[0].recv(1) else "closed"


def sock(family, kind, protocol=0):
    socket.socket(family, kind, protocol).close()
    return "ok"


def call(number, *arguments):
    """A raw system call; text is a path."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    values = [
        ctypes.c_char_p(value.encode()) if isinstance(value, str) else ctypes.c_long(value)
        for value in arguments
    ]
    result = libc.syscall(ctypes.c_long(number), *values)
    if result < 0:
        raise OSError(ctypes.get_errno(), str(number))
    return "ok"


def status():
    with open("/proc/self/status") as lines:
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def descriptors():
    """The open descriptors, without the one that lists them."""
    found = sorted(map(int, os.listdir("/proc/self/fd")))
    return [number for number in found if os.path.lexists(f"/proc/self/fd/{number}")]


def environment():
    return dict(os.environ)


def whereabouts():
    return os.getcwd()


def size(path, count):
    """How many bytes of ``count`` a file took before the end."""
    written = 0
    with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while written < count:
            written += file.write(bytes(1 << 20))
    os.unlink(path)
    return written


def outcome(name, *arguments):
    try:
        return globals()[name](*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))


if __name__ == "__main__":
    print(json.dumps([outcome(*attempt) for attempt in json.loads(sys.argv[-1])]))
