"""Run inside a box by test_seccomp_real.py: raw system calls, each in a child of its own.

Standard input is a list of attempts; ``["call", NUMBER, ARGUMENTS]`` with text for a path, or
``["i386", NUMBER]`` for the 32-bit entry. Prints what came of each: ``ok``, the name of its
errno, or ``signal N``.
"""

import ctypes
import errno
import json
import mmap
import os
import sys

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def call(number, arguments):
    values = [
        ctypes.c_char_p(value.encode()) if isinstance(value, str) else ctypes.c_long(value)
        for value in arguments
    ]
    result = libc.syscall(ctypes.c_long(number), *values)
    return "ok" if result >= 0 else errno.errorcode[ctypes.get_errno()]


def i386(number):
    """mov eax, NUMBER; int 0x80; ret"""
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(b"\xb8" + number.to_bytes(4, "little") + b"\xcd\x80\xc3")
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    result = function()
    return "ok" if result >= 0 else errno.errorcode[-result]


def outcome(kind, *rest):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        answer = call(*rest) if kind == "call" else i386(*rest)
        os.write(write, answer.encode())
        os._exit(0)
    os.close(write)
    _, status = os.waitpid(pid, 0)
    text = os.read(read, 100).decode()
    os.close(read)
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else text


os.chdir("/dev/shm")  # private in the box
open("/dev/shm/file", "w").close()
answers = [outcome(*attempt) for attempt in json.load(sys.stdin)]
modes = {name: oct(os.stat(name).st_mode & 0o7777) for name in sorted(os.listdir("/dev/shm"))}
print(json.dumps({"answers": answers, "modes": modes}))
