"""What comes out: commands, as they are judged."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Call", "Redirect"]


class Redirect(NamedTuple):
    """A file that a redirection opens.

    Arguments:
        path: as spelled, expanded where that is known.
        write: whether it is opened for writing.
        dynamic: the path is not known, nor that it is a file.
    """

    path: str
    write: bool
    dynamic: bool = False


class Call(NamedTuple):
    """One simple command.

    Arguments:
        program: its name; "" when there is none, or when it cannot be seen.
        words: its arguments; those that are not known as they were spelled.
        dynamic: which of ``words`` are not known; one may stand for none or for many.
        assigns: variables it sets.
        redirects: files opened for it.
        cwd: where it runs; None when that is not known.
        hidden: why what it runs cannot be seen, or "".
        via: the built-in it was the argument of, or "".
    """

    program: str
    words: tuple[str, ...] = ()
    dynamic: tuple[int, ...] = ()
    assigns: tuple[str, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    cwd: str | None = None
    hidden: str = ""
    via: str = ""
