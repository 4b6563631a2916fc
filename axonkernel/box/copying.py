"""Copy between two descriptors in the kernel where it can, to the end or until told.

Standard library only.
"""

from __future__ import annotations

import errno
import os
import select

__all__ = ["copy", "copy_until"]

_CHUNK_BYTES = 1 << 20
#: Where splice(2) does not go: files opened for appending, some devices.
_NO_SPLICE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


def copy(source: int, sink: int) -> None:
    """Copy until the end of ``source``. Raises OSError; what was read then may be lost."""
    try:
        while os.splice(source, sink, _CHUNK_BYTES):
            pass
    except OSError as error:
        if error.errno not in _NO_SPLICE:
            raise
        while data := os.read(source, 65536):
            write(sink, data)


def write(sink: int, data: bytes) -> None:
    """Write all of ``data``."""
    left = memoryview(data)
    while left:
        left = left[os.write(sink, left) :]


def copy_until(source: int, sink: int, stop: int) -> None:
    """Copy from a file into a pipe until the file's end, or ``stop`` can be read.

    What the pipe has no room for stays in the file. Raises OSError.
    """
    poll = select.poll()
    poll.register(sink, select.POLLOUT)
    poll.register(stop, select.POLLIN)
    os.set_blocking(sink, False)
    spliced = True
    while not any(fd == stop for fd, _ in poll.poll()):
        try:
            if not _some(source, sink, spliced):
                return
        except BlockingIOError:
            continue
        except OSError as error:
            if not spliced or error.errno not in _NO_SPLICE:
                raise
            spliced = False


def _some(source: int, sink: int, spliced: bool) -> int:
    if spliced:
        return os.splice(source, sink, _CHUNK_BYTES)
    # A pipe that can be written takes at least this at once.
    data = os.read(source, select.PIPE_BUF)
    write(sink, data)
    return len(data)
