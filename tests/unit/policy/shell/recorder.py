"""Real bash with programs that only write down how they were called."""

from __future__ import annotations

import os
import resource
import select
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from axonkernel.blocks import BASH_ENVIRONMENT, bash_words
from axonkernel.policy.shell import Call
from axonkernel.process import Located, Start

#: Writes its own name and words, each ended by NUL, into a file of its own.
_STUB = """#!/bin/sh
{{ printf '%s\\0' "${{0##*/}}" "$@"; }} > '{records}'/$$
case ${{0##*/}} in no*) exit 1;; esac
"""
_LIMITS = {
    resource.RLIMIT_CPU: 2,
    resource.RLIMIT_FSIZE: 1 << 20,
    resource.RLIMIT_CORE: 0,
}


class Recorder:
    """A PATH of stubs, and a folder where lines run.

    Arguments:
        folder: an empty folder of the test.
        names: the programs; those that start with ``no`` fail.
    """

    def __init__(self, folder: Path, names: tuple[str, ...]) -> None:
        self._records = folder / "records"
        self.bin = folder / "bin"
        self.cwd = folder / "cwd"
        for each in (self._records, self.bin, self.cwd):
            each.mkdir()
        for name in names:
            stub = self.bin / name
            stub.write_text(_STUB.format(records=self._records))
            stub.chmod(0o755)
        self._bash = shutil.which("bash")
        assert self._bash is not None, "these tests need bash"

    def run(self, line: str, *, argv: tuple[str, ...] | None = None, **env: str) -> list[list[str]]:
        """The calls bash made for a line, in no particular order.

        Arguments:
            argv: how bash is started, when not as the kernel starts it.
            env: more variables; those the kernel keeps from bash do not get there.
        """
        words = argv or bash_words(line)
        variables = {"PATH": str(self.bin), "HOME": str(self.cwd), "LC_ALL": "C.UTF-8", **env}
        if argv is None:
            kept = Start((), Located("", None), "/", without_env=BASH_ENVIRONMENT)
            variables = kept.wanted(variables)
        ended, held = os.pipe()
        child = subprocess.Popen(
            [self._bash, *words[1:]],
            cwd=self.cwd,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_limited,
            pass_fds=(held,),
        )
        os.close(held)
        _end(child, ended)
        return self._calls()

    def _calls(self) -> list[list[str]]:
        calls = []
        for record in self._records.iterdir():
            text = os.fsdecode(record.read_bytes())
            if text:  # else it was killed before it could write
                calls.append(text.removesuffix("\0").split("\0"))
            record.unlink()
        for left in self.cwd.iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        return sorted(calls)


def _limited() -> None:
    for limit, most in _LIMITS.items():
        resource.setrlimit(limit, (most, most))


def _end(child: subprocess.Popen[bytes], ended: int) -> None:
    """Wait until nothing of a line runs any more; every process of it holds a pipe open."""
    select.select([ended], [], [], 3)
    os.close(ended)
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def explains(call: Call, made: list[str]) -> bool:
    """Whether a call that bash made is one that was foreseen."""
    return call.program == made[0] and _fits(call, 0, made[1:])


def _fits(call: Call, at: int, words: list[str]) -> bool:
    if at == len(call.words):
        return not words
    if at in call.dynamic:
        return any(_fits(call, at + 1, words[count:]) for count in range(len(words) + 1))
    return bool(words) and words[0] == call.words[at] and _fits(call, at + 1, words[1:])
