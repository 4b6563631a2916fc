"""Find a configuration and read it, once, as bytes: what was digested is what is parsed.

Standard library only and no attrs: the launch path of ``axonkernel exec`` comes through here
to learn a policy's digest before it decides whether anything has to be parsed at all.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator

from axonkernel.config.owner import my_uids, writable_by
from axonkernel.errors import Fault, PolicyError
from axonkernel.typed import Literal, NamedTuple

__all__ = [
    "MAX_BYTES",
    "NAMES",
    "Kind",
    "Search",
    "Source",
    "discover",
    "home_folder",
    "read_source",
    "shown",
]

#: File names that discovery looks for.
NAMES = ("axon.config.py", "policy.toml", "policy.json")

#: A policy file larger than this is refused unread.
MAX_BYTES = 1024 * 1024

Kind = Literal["python", "toml", "json"]


class Source(NamedTuple):
    """A configuration file as it was at one moment.

    Arguments:
        path: absolute, symlinks resolved; relative paths inside count from its folder.
        kind: the language it is written in.
        content: its bytes.
        digest: SHA-256 of ``content``, lower-case hexadecimal.
        found: whether discovery found it, so that it needs trust, or the user named it.
    """

    path: str
    kind: Kind
    content: bytes
    digest: str
    found: bool

    @property
    def folder(self) -> str:
        """Where relative paths count from."""
        return os.path.dirname(self.path)


class Search(NamedTuple):
    """What a search upward came to: a file's path or "", and lines the user should read."""

    path: str
    notes: tuple[str, ...] = ()


def discover(start: str | None = None) -> Search:
    """Look for a configuration in ``start`` (default: the working directory) and above it.

    The search ends, after looking, at a repository root (``.git``) and at ``$HOME``; and,
    without looking, at a file-system boundary and at a folder of another owner.

    Raises:
        PolicyError: two candidates lie in one folder, or the first folder holds one and
            belongs to somebody else.
    """
    first = _first_folder(start)
    for folder in _upward(first):
        foreign = os.stat(folder).st_uid not in my_uids()
        candidates = _candidates(folder)
        if foreign and folder != first:
            return Search("", _passed_over(candidates, folder))
        if len(candidates) > 1:
            raise _fault(
                folder,
                f"more than one configuration in one folder: {' and '.join(candidates)}",
                "keep one of them, or name the one you mean: "
                f"--policy {shown(os.path.join(folder, candidates[0]))}",
            )
        if candidates and foreign:
            raise _foreign(os.path.join(folder, candidates[0]), folder)
        if candidates:
            return Search(os.path.join(folder, candidates[0]))
        if foreign or _ends_search(folder):
            break
    return Search("")


def read_source(path: str, *, found: bool = False) -> Source:
    """Read the configuration file ``path``.

    Arguments:
        path: absolute, or relative to the working directory.
        found: whether discovery found it.

    Raises:
        PolicyError: it cannot be read, is no regular file, is over :data:`MAX_BYTES`, has no
            known suffix, or somebody else could change it.
    """
    kind = _kind(path)
    try:
        real = os.path.realpath(path)
        # Not blocking: a FIFO in a policy's place must not hang the program.
        descriptor = os.open(real, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise _fault(path, "not a regular file")
    with open(descriptor, "rb") as file:
        _refuse_writable(path, real, status)
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise _fault(path, f"larger than {MAX_BYTES} bytes")
    import hashlib  # it loads OpenSSL: not where no policy is found

    return Source(real, kind, content, hashlib.sha256(content).hexdigest(), found)


def home_folder() -> str | None:
    """What ``~`` stands for, or None where the user has no home."""
    home = os.path.expanduser("~")
    return home if os.path.isabs(home) else None


def shown(path: str) -> str:
    """``path`` as it can be pasted into a shell, whatever bytes it holds."""
    import shlex

    if path.isprintable():
        return shlex.quote(path)
    return "$'" + "".join(_shell_escape(byte) for byte in os.fsencode(path)) + "'"


def _shell_escape(byte: int) -> str:
    character = chr(byte)
    plain = character.isascii() and character.isprintable() and character not in "'\\"
    return character if plain else f"\\x{byte:02x}"


def _first_folder(start: str | None) -> str:
    try:
        folder = os.path.realpath(start if start is not None else os.getcwd())
        os.stat(folder)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _fault(start or "working directory", f"cannot be searched: {reason}") from None
    return folder


def _upward(folder: str) -> Iterator[str]:
    """``folder`` and its parents on the same file system."""
    device = os.stat(folder).st_dev
    while True:
        yield folder
        parent = os.path.dirname(folder)
        if parent == folder or os.stat(parent).st_dev != device:
            return
        folder = parent


def _candidates(folder: str) -> list[str]:
    paths = ((name, os.path.join(folder, name)) for name in NAMES)
    # A dangling link counts: overlooking it would mean unrestricted access.
    return [name for name, path in paths if os.path.lexists(path) and not os.path.isdir(path)]


def _ends_search(folder: str) -> bool:
    if os.path.lexists(os.path.join(folder, ".git")):
        return True
    home = home_folder()
    return home is not None and os.path.realpath(home) == folder


def _passed_over(candidates: list[str], folder: str) -> tuple[str, ...]:
    return tuple(
        f"not used: {shown(os.path.join(folder, name))}: its folder belongs to another user; "
        "name it with --policy if you mean it"
        for name in candidates
    )


def _kind(path: str) -> Kind:
    kinds: dict[str, Kind] = {".py": "python", ".toml": "toml", ".json": "json"}
    suffix = os.path.splitext(path)[1]
    if suffix not in kinds:
        if not os.path.lexists(path):
            raise _unreadable(path, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
        raise _fault(path, "unknown kind of file", "name it NAME.toml, NAME.json or NAME.py")
    return kinds[suffix]


def _refuse_writable(path: str, real: str, status: os.stat_result) -> None:
    """Refuse a file that somebody besides its user and root could change or replace."""
    folder = os.path.dirname(real)
    about = os.stat(folder)
    if who := writable_by(status):
        raise _fault(path, f"can be changed by {who}", f"chmod go-w {shown(real)}")
    if about.st_uid not in my_uids() | {0} and not _is_owners_own(status, about):
        raise _foreign(path, folder)
    if status.st_uid not in my_uids() | {0} and not _is_owners_own(status, about):
        raise _fault(
            path,
            f"belongs to another user (uid {status.st_uid})",
            "make a copy of your own and name that one with --policy",
        )
    # In a sticky folder such as /tmp only the file's owner can replace it.
    if (who := writable_by(about)) and not about.st_mode & stat.S_ISVTX:
        raise _fault(path, f"its folder can be changed by {who}", f"chmod go-w {shown(folder)}")


def _is_owners_own(file: os.stat_result, folder: os.stat_result) -> bool:
    """Whether root is using an ordinary user's own file, whose agent then runs as that user."""
    return os.geteuid() == 0 and file.st_uid == folder.st_uid


def _foreign(path: str, folder: str) -> PolicyError:
    owner = os.stat(folder).st_uid
    return _fault(
        path,
        f"lies in a folder of another user (uid {owner})",
        f"make a copy of your own and name it: cp {shown(path)} ~/ && "
        f"axonkernel ... --policy ~/{shown(os.path.basename(path))}",
    )


def _unreadable(path: str, error: OSError | ValueError) -> PolicyError:
    if isinstance(error, ValueError):
        return _fault(path, "not a path (it holds a NUL byte)")
    hint = "axonkernel init writes a starting policy" if error.errno == errno.ENOENT else ""
    return _fault(path, f"cannot be read: {error.strerror}", hint)


def _fault(source: str, message: str, hint: str = "") -> PolicyError:
    return PolicyError([Fault("$", message, hint=hint)], shown(source))
