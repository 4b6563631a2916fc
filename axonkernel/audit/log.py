"""The log file: JSON lines, each carrying the hash of the one before."""

from __future__ import annotations

import fcntl
import os
import threading
import time

from axonkernel.audit.bounds import bounded
from axonkernel.audit.digest import sha256
from axonkernel.audit.redact import Redactor
from axonkernel.errors import AuditError
from axonkernel.folders import state_folder
from axonkernel.forks import forget_in_children
from axonkernel.typed import Any

__all__ = ["GENESIS", "AuditLog", "default_path", "seal"]

#: What the first record carries in the place of the hash of the one before.
GENESIS = "0" * 64

#: Fields that are the log's own; ``id`` can be given by a writer that has made one already.
_OWN_FIELDS = frozenset({"at", "kind", "prev", "hash"})

_TAIL_BYTES = 4096
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class AuditLog:
    """An append-only, hash-chained log in one file, mode 0600.

    Safe to share between threads and between processes, forked ones too: each record is
    written under a lock on the file and follows the newest record in it. The file is opened by
    the first record, so a kernel that only answers ``check`` needs none.

    Arguments:
        path: the file; its folder is made (0700) when missing.
        source: who writes, stored with each record when not "".
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, source: str = "") -> None:
        self.path = os.fspath(path) if path is not None else default_path()
        self.redactor = Redactor()
        self._source = source
        self._lock = threading.Lock()
        self._file = -1
        self._size_bytes = -1
        self._head = GENESIS
        forget_in_children(self)

    def forget(self) -> None:
        """In a child the file is opened anew: a lock on it holds against other openings only."""
        self._lock = threading.Lock()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def record(self, kind: str, /, **fields: Any) -> str:
        """Append one record and return its id, a random 16-digit hexadecimal number.

        Long text, long lists and deep nesting are cut, so that no record is longer than
        64 KiB (audit/bounds.py).

        Raises:
            AuditError: it could not be written in full; nothing of it is left in the file.
        """
        entry = {"id": os.urandom(8).hex(), "at": round(time.time(), 6), "kind": kind}
        if self._source:
            entry["source"] = self._source
        try:
            if not _OWN_FIELDS.isdisjoint(fields):
                raise ValueError("a record has a field of the log's own")
            # Redacted before anything is cut: half a secret would not be recognised.
            entry.update(self.redactor(fields))
            text = bounded(entry)
            with self._lock:
                self._append(text)
        except (OSError, ValueError, TypeError) as error:
            raise AuditError(f"the audit log {self.path} cannot be written: {error}") from error
        return str(entry["id"])

    def close(self) -> None:
        """Close the file; a later record opens it again."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
            self._file = -1

    def _append(self, text: str) -> None:
        if self._file < 0:
            self._file = self._open()
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            torn = self._catch_up()
            line, head = seal(text, self._head)
            self._write((b"\n" if torn else b"") + line)
            self._head = head
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _open(self) -> int:
        os.makedirs(os.path.dirname(os.path.abspath(self.path)), mode=0o700, exist_ok=True)
        file = os.open(self.path, _FLAGS, 0o600)
        os.fchmod(file, 0o600)
        self._size_bytes = -1
        return file

    def _catch_up(self) -> bool:
        """Find the newest record when another writer was here; True after a torn last line."""
        size_bytes = os.fstat(self._file).st_size
        if size_bytes == self._size_bytes:
            return False
        lines = self._tail(size_bytes)
        self._size_bytes = size_bytes
        self._head = next((head for head in map(_hash_of, reversed(lines)) if head), GENESIS)
        return bool(lines) and lines[-1] != b""

    def _tail(self, size_bytes: int) -> list[bytes]:
        """The last lines; the final item is b"" when the file ends in a newline."""
        span = _TAIL_BYTES
        while True:
            start = max(0, size_bytes - span)
            lines = os.pread(self._file, size_bytes - start, start).split(b"\n")
            if start == 0:
                return lines if size_bytes else []
            if any(_hash_of(line) for line in lines[1:]):
                return lines[1:]
            span *= 16

    def _write(self, data: bytes) -> None:
        before = self._size_bytes
        try:
            if os.write(self._file, data) != len(data):
                raise OSError("only part of a record could be written")
        except OSError:
            os.ftruncate(self._file, before)
            raise
        self._size_bytes = before + len(data)


def seal(text: str, previous: str) -> tuple[bytes, str]:
    """One line of the log, from a record as JSON text, and its hash.

    The hash covers the line's own bytes up to it, and those hold the hash before.
    """
    body = f'{text[:-1]},"prev":"{previous}"'.encode()
    head = sha256(body)
    return body + b',"hash":"' + head.encode() + b'"}\n', head


def default_path() -> str:
    """``audit.jsonl`` in the state folder."""
    return os.path.join(state_folder(), "audit.jsonl")


def _hash_of(line: bytes) -> str:
    """The hash a line ends in, or "" when it is no record."""
    if line.endswith(b'"}') and line[-75:-66] == b',"hash":"' and line.startswith(b"{"):
        return line[-66:-2].decode("ascii", "replace")
    return ""
