"""What a person sees when a command cannot go on: one message, one exit code, no traceback."""

from __future__ import annotations

import os
import sys

from axonkernel.errors import AxonError, IsolationUnavailable, PolicyError

__all__ = ["error_data", "printable", "report"]

#: The commands that take --best-effort, each with how one of its fields is left out.
_WITHOUT = {
    "exec": "{grant} (or {field} of the policy)",
    "run": "{field} of the policy",
}
#: Fields that a grant of ``exec`` declares, each with the grant.
_GRANTS = {
    "limits.memory": "--limit memory",
    "limits.cpu": "--limit cpu",
    "limits.pids": "--limit pids",
    "net.link": "--net",
}


def report(error: BaseException, *, command: str = "", launcher: bool = False) -> int:
    """Tell the user about ``error`` on stderr; returns the exit code.

    Arguments:
        command: the subcommand, for the message.
        launcher: whether it starts a command, so that an unforeseen fault is 125.
    """
    if isinstance(error, BrokenPipeError):
        return _reader_left()
    if isinstance(error, KeyboardInterrupt):
        return 130
    prefix = f"axonkernel {command}" if command else "axonkernel"
    if os.environ.get("AXON_DEBUG", "") not in ("", "0"):
        import traceback

        traceback.print_exception(error)
    if isinstance(error, AxonError):
        _tell(f"{prefix}: {error}")
        if command in _WITHOUT and isinstance(error, IsolationUnavailable):
            _tell_way_out(command, error.field)
        return error.exit_code
    if isinstance(error, OSError):
        _tell(f"{prefix}: {_os_text(error)}")
        return 125 if launcher else 1
    _tell(
        f"{prefix}: a fault of axonkernel's own: {type(error).__name__}: {error}\n"
        "  set AXON_DEBUG=1 to see where, and please report it"
    )
    return 125 if launcher else 70


def _tell_way_out(command: str, field: str) -> None:
    """How to go on without the wall, in this command's own switches."""
    if " " in field or field in ("isolation", "limits"):
        return  # no one field of the policy: found out too late, best-effort cannot help
    line = f"  on the command line: axonkernel {command} --best-effort ... runs without that wall"
    grant = _GRANTS.get(field)
    if grant is not None:
        line += "; or leave out " + _WITHOUT[command].format(grant=grant, field=field)
    _tell(line)


def error_data(error: AxonError) -> dict[str, object]:
    """``error`` as the one JSON document a reader with ``--json`` prints."""
    data: dict[str, object] = {"error": type(error).__name__, "message": str(error)}
    if isinstance(error, PolicyError):
        data["source"] = error.source
        data["faults"] = [fault.as_dict() for fault in error.faults]
    return data


def printable(text: str) -> str:
    """``text`` with what could act on a terminal, or cannot be encoded, escaped."""
    return "".join(
        character if character.isprintable() or character == "\n" else ascii(character)[1:-1]
        for character in text
    )


def _tell(text: str) -> None:
    sys.stderr.write(printable(text) + "\n")


def _os_text(error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename is not None else reason


def _reader_left() -> int:
    """``axonkernel ... | head``: end quietly, as programs killed by SIGPIPE do."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    return 141
