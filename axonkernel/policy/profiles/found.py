"""What can be found in the words of a command, as values."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from axonkernel.policy.request import Argv

__all__ = ["UNKNOWN", "Contact", "Effects", "FileUse", "Hazard", "Run"]

#: In front of a word of which only the spelling is known: ``$X``, ``*.py``. No real word has it.
UNKNOWN: Final = "\0"


class Hazard(NamedTuple):
    """Something that runs other programs or code.

    Arguments:
        lifts: what may stand after the program's name in ``shell.unsafe`` to lift it; the
            first is the one to show.
        text: why it is one.
    """

    lifts: tuple[str, ...]
    text: str


class FileUse(NamedTuple):
    """A file that is read or written.

    Arguments:
        path: as named, behind the folder that relative names count from; None when the name
            cannot be seen.
        write: whether it is written.
        lifts: what names it, as in :class:`Hazard`; () for an operand.
    """

    path: str | None
    write: bool
    lifts: tuple[str, ...] = ()


class Contact(NamedTuple):
    """A destination that is connected to.

    Arguments:
        spelled: the word that names it.
        host: as named; None when it cannot be told.
        port, protocol: where it is connected to.
        dynamic: the word itself is not known.
    """

    spelled: str
    host: str | None = None
    port: int = 0
    protocol: Literal["tcp", "udp"] = "tcp"
    dynamic: bool = False


class Run(NamedTuple):
    """A command that is run by a command.

    Arguments:
        program: "" when it cannot be seen.
        words: its arguments.
        unseen: more words are added that are not known.
        assigns: names of variables set for it.
        folder: where it is started, relative to its starter's own folder; "" for there.
    """

    program: str
    words: Argv = ()
    unseen: bool = False
    assigns: tuple[str, ...] = ()
    folder: str = ""


class Effects(NamedTuple):
    """All that is known about one command's words."""

    hazards: tuple[Hazard, ...] = ()
    files: tuple[FileUse, ...] = ()
    runs: tuple[Run, ...] = ()
    contacts: tuple[Contact, ...] = ()
