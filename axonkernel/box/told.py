"""What bwrap, or what was to become it, tells on the status pipe: lines of JSON.

Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os

from axonkernel.errors import BoxError

__all__ = ["UNMADE", "child_pid", "exit_code"]

UNMADE = "bwrap ended before the box was made (see its message)"


def child_pid(status: int) -> int:
    """The box's pid 1. Raises BoxError when bwrap ends without having one, with the fault of
    its file tree where that is why."""
    text = b""
    while b"}" not in text:
        part = os.read(status, 4096)
        if not part:
            raise BoxError("mounts", UNMADE)
        text += part
    said = json.loads(text[: text.index(b"}") + 1])
    if "fault" in said:
        raise BoxError("mounts", said["fault"])
    return int(said["child-pid"])


def exit_code(status: int, wait_status: int) -> int:
    """The command's exit code by bwrap's own word, else what became of bwrap."""
    text = b""
    while part := os.read(status, 4096):
        text += part
    for line in text.splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            return int(json.loads(line)["exit-code"])
    code = os.waitstatus_to_exitcode(wait_status)
    return code if code >= 0 else 128 - code
