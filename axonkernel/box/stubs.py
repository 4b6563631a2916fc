"""Names that do not exist on the host and must not be made in a box: something lies there.

A mount needs a name to lie on. So an empty file or folder is made on the host for as long as a
box needs it, counted in a registry below our state: the last box that uses a stub removes it,
and what a killed box has left is removed by the next start. One is removed only while it is
still what was made: same device, inode, kind and size.

Standard library only; not in any namespace of a box.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import posixpath
import stat
from collections.abc import Callable, Iterable, Iterator

from axonkernel.box.linux import look_up
from axonkernel.box.model import Kept
from axonkernel.typed import NamedTuple

__all__ = ["Claim", "Registry", "holder", "is_alive", "unheld"]


class Claim(NamedTuple):
    """One box's use of one stub.

    Arguments:
        holder: the process that answers for it (:func:`holder`).
        inode: 0 from just before the stub is made until just after.
    """

    path: str
    folder: bool
    device: int
    inode: int
    size: int
    holder: str


def unheld(
    claims: Iterable[Claim], alive: Callable[[str], bool]
) -> tuple[list[Claim], list[Claim]]:
    """(claims that count, stubs that nobody needs any more, innermost first)."""
    judged = [(claim, alive(claim.holder)) for claim in claims]
    kept = [claim for claim, lives in judged if lives]
    needed = {(claim.path, claim.inode) for claim in kept}
    left = {
        (claim.path, claim.inode): claim
        for claim, lives in judged
        if not lives and (claim.path, claim.inode) not in needed
    }
    return kept, sorted(left.values(), key=lambda claim: -claim.path.count("/"))


def holder() -> str:
    """This process, told from a later one with its number."""
    return f"{os.getpid()}:{_started(os.getpid())}"


def is_alive(name: str) -> bool:
    """Whether the process that :func:`holder` named is still there."""
    pid, _, started = name.partition(":")
    return _started(int(pid)) == started


def _started(pid: int) -> str:
    """When a process began, in ticks since the machine did; "" when it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


class Registry:
    """The stubs of this user's boxes.

    Arguments:
        folder: our state; "" for a registry of this process alone.
    """

    def __init__(self, folder: str) -> None:
        self._file = posixpath.join(folder, "stubs.json") if folder else ""
        self._claims: list[Claim] = []
        self._is_begun = False

    def sweep(self) -> None:
        """Remove what boxes that are gone have left. Costs one look when there is nothing."""
        if self._file and os.path.exists(self._file):
            with self._locked():
                pass

    def take(self, own: str, names: Iterable[Kept]) -> None:
        """Have something lie at each name that is missing; join in those of other boxes.

        Names that this user may not make are passed over: nor may the box. Raises OSError
        when the registry cannot be written: then nothing has been made.
        """
        if self._is_begun and self._is_removed():
            return
        self._is_begun = True
        with self._locked():
            for item in names:
                joined = self._joined(own, item)
                if joined is None and not os.path.lexists(item.path):
                    self._make(own, item)

    def give_back(self, own: str) -> None:
        """End this holder's claims; stubs that nobody else needs are removed."""

        def alive(name: str) -> bool:
            return name != own and is_alive(name)

        if self._is_removed():
            self._drop(alive)
            return
        with self._locked(alive):
            pass

    def _is_removed(self) -> bool:
        """Whether somebody has taken our state away meanwhile: it is not made again."""
        return bool(self._file) and not os.path.isdir(posixpath.dirname(self._file))

    def _joined(self, own: str, item: Kept) -> Claim | None:
        for claim in self._claims:
            if claim.path == item.path and _is_still(claim):
                if claim.holder != own:
                    self._claims.append(claim._replace(holder=own))
                return claim
        return None

    def _make(self, own: str, item: Kept) -> None:
        size = 0 if item.folder else len(item.text.encode())
        planned = Claim(item.path, item.folder, 0, 0, size, own)
        self._claims.append(planned)
        self._store()
        self._claims.remove(planned)
        with contextlib.suppress(OSError):
            made = _make(item)
            self._claims.append(planned._replace(device=made.st_dev, inode=made.st_ino))

    @contextlib.contextmanager
    def _locked(self, alive: Callable[[str], bool] = is_alive) -> Iterator[None]:
        """The claims of live holders, exclusively; stored again at the end."""
        if not self._file:
            yield
            self._drop(alive)
            return
        os.makedirs(posixpath.dirname(self._file), mode=0o700, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        with open(os.open(f"{self._file}.lock", flags, 0o600), "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._load()
            self._drop(alive)
            yield
            self._store()

    def _drop(self, alive: Callable[[str], bool]) -> None:
        self._claims, left = unheld(self._claims, alive)
        for claim in left:
            with contextlib.suppress(OSError):
                _remove(claim)

    def _load(self) -> None:
        self._claims = []
        try:
            with open(self._file, encoding="utf-8") as file:
                self._claims = [Claim(*claim) for claim in json.load(file)]
        except (OSError, ValueError, TypeError):
            return  # none, or not ours

    def _store(self) -> None:
        if not self._file:
            return
        if not self._claims:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._file)
            return
        with open(f"{self._file}.new", "w", encoding="utf-8") as file:
            json.dump(self._claims, file)
        os.replace(f"{self._file}.new", self._file)


def _make(item: Kept) -> os.stat_result:
    folder_path, name = posixpath.split(item.path)
    folder = look_up(folder_path)
    try:
        with _times_kept(folder):
            made = (
                _made_folder(item, name, folder) if item.folder else _made_file(item, name, folder)
            )
            try:
                return os.fstat(made)
            finally:
                os.close(made)
    finally:
        os.close(folder)


def _made_folder(item: Kept, name: str, folder: int) -> int:
    os.mkdir(name, item.mode, dir_fd=folder)
    made = look_up(name, folder)
    # Who owns the folder above can have put another of root's there, which must stay root's.
    if os.geteuid() == 0 and os.listdir(f"/proc/self/fd/{made}"):
        os.close(made)
        raise OSError(errno.EEXIST, "replaced while it was being made", item.path)
    _finish(made, item, folder)
    return made


def _made_file(item: Kept, name: str, folder: int) -> int:
    """Whole before it has its name, where the file system can: somebody may read it at once."""
    try:
        made = os.open(".", os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, 0o600, dir_fd=folder)
        nameless = True
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            raise
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        made, nameless = os.open(name, flags, 0o600, dir_fd=folder), False
    os.write(made, item.text.encode())
    _finish(made, item, folder)
    if nameless:
        os.link(f"/proc/self/fd/{made}", name, dst_dir_fd=folder, follow_symlinks=True)
    return made


def _finish(made: int, item: Kept, folder: int) -> None:
    """Its owner is the folder's, its mode what was asked for, whatever the umask."""
    path = f"/proc/self/fd/{made}"
    if os.geteuid() == 0:
        own = os.fstat(folder)
        os.chown(path, own.st_uid, own.st_gid)
    os.chmod(path, item.mode)


def _remove(claim: Claim) -> None:
    folder_path, name = posixpath.split(claim.path)
    folder = look_up(folder_path)
    try:
        if _is_still(claim, folder):
            with _times_kept(folder):
                (os.rmdir if claim.folder else os.unlink)(name, dir_fd=folder)
        elif not claim.folder:
            _open_up(claim, name, folder)
    finally:
        os.close(folder)


def _open_up(claim: Claim, name: str, folder: int) -> None:
    """What somebody wrote into a stub is theirs: for its owner alone, as it may be a secret."""
    opened = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        found = os.fstat(opened)
        same = (found.st_dev, found.st_ino) == (claim.device, claim.inode)
        if same and stat.S_ISREG(found.st_mode) and not stat.S_IMODE(found.st_mode):
            os.chmod(f"/proc/self/fd/{opened}", 0o600)
    finally:
        os.close(opened)


def _is_still(claim: Claim, folder: int | None = None) -> bool:
    """Whether what lies at a claim's name is what was made, and nothing was put into it."""
    name = claim.path if folder is None else posixpath.basename(claim.path)
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    if claim.folder:
        same = stat.S_ISDIR(found.st_mode)
    else:
        same = stat.S_ISREG(found.st_mode) and found.st_size == claim.size
    return same and (not claim.inode or (found.st_dev, found.st_ino) == (claim.device, claim.inode))


@contextlib.contextmanager
def _times_kept(folder: int) -> Iterator[None]:
    """What is made or removed meanwhile leaves no trace in the folder's own times."""
    before = os.fstat(folder)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.utime(f"/proc/self/fd/{folder}", ns=(before.st_atime_ns, before.st_mtime_ns))
