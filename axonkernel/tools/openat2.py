"""openat2(2): a whole path in one step, without a symlink anywhere in it.

The kernel has it since Linux 5.6. Boxes and some container runtimes answer that it does not
exist; then callers walk the path themselves.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from functools import cache

__all__ = ["open_beneath"]

_NUMBER = 437  # on every architecture that has it
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08
_RESOLVE = _RESOLVE_NO_MAGICLINKS | _RESOLVE_NO_SYMLINKS | _RESOLVE_BENEATH

#: It does not exist, is filtered, or does not know what we ask of it.
_ABSENT = frozenset({errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.E2BIG})


def open_beneath(folder: int, path: str, flags: int) -> int | None:
    """A descriptor of the relative ``path`` below an open folder.

    None where the kernel cannot say, so that the caller has to walk: there is no openat2, or
    folders are being moved at this moment.

    Raises OSError: ELOOP for a symlink on the way or in the last place, EXDEV for a path that
    leaves the folder.
    """
    call = _call()
    if call is None:
        return None
    try:
        return call(folder, os.fsencode(path), flags)
    except OSError as error:
        if error.errno == errno.EAGAIN or error.errno in _ABSENT:
            return None
        error.filename = path
        raise


@cache
def _call() -> Callable[[int, bytes, int], int] | None:
    """The system call, if this kernel has it."""
    if not sys.platform.startswith("linux"):
        return None
    found = _bound()
    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC  # a confined worker may not list it
    root = os.open("/", flags)
    try:
        os.close(found(root, b".", flags))
    except OSError:
        return None
    finally:
        os.close(root)
    return found


def _bound() -> Callable[[int, bytes, int], int]:
    import ctypes

    class OpenHow(ctypes.Structure):
        _fields_ = (
            ("flags", ctypes.c_uint64),
            ("mode", ctypes.c_uint64),
            ("resolve", ctypes.c_uint64),
        )

    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long

    def call(folder: int, path: bytes, flags: int) -> int:
        how = OpenHow(flags, 0, _RESOLVE)
        descriptor: int = syscall(
            ctypes.c_long(_NUMBER),
            ctypes.c_int(folder),
            ctypes.c_char_p(path),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if descriptor < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return descriptor

    return call
