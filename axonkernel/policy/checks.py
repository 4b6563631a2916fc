"""What an ``fs`` block must not combine. Entries that were bad themselves are None."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from axonkernel.policy.controls import control_path
from axonkernel.policy.faults import Place, spelled
from axonkernel.policy.globs import is_glob, unescape
from axonkernel.policy.model import FsPolicy

__all__ = ["below", "check_fs"]


def below(path: str, folder: str) -> bool:
    """Whether ``path`` is ``folder`` or lies in it, by component."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def check_fs(block: FsPolicy, place: Place) -> FsPolicy:
    """A path both granted and denied; control sockets and kernel folders not asked for."""
    for name in ("read", "write"):
        grants: tuple[str | None, ...] = getattr(block, name)
        for index, grant in _present(grants):
            _check_control(grant, block.unsafe, place.at(name).at(index))
    for index, entry in _present(block.deny):
        if is_glob(entry):
            continue
        lists = [name for name in ("read", "write") if unescape(entry) in getattr(block, name)]
        if lists:
            place.at("deny").at(index).fault(
                f"is in {' and '.join(lists)} too", entry, "keep it in one of the lists"
            )
    return block


def _check_control(grant: str, unsafe: Iterable[str | None], place: Place) -> None:
    control = control_path(grant)
    if control is None or any(entry and below(grant, entry) for entry in unsafe):
        return
    what = "a folder of the kernel" if control in ("/proc", "/sys") else "a control socket"
    place.fault(
        f"is {what}, through which a program can command the host",
        grant,
        f"unsafe = {spelled([grant])} beside it, if that is meant",
    )


def _present(entries: tuple[str | None, ...]) -> Iterator[tuple[int, str]]:
    return ((index, entry) for index, entry in enumerate(entries) if entry is not None)
