"""Boxes to measure, and the bare bwrap they are measured against."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from axonkernel.box.host import Ask
from axonkernel.box.model import BoxPlan
from axonkernel.box.prepare import create, prepare
from axonkernel.paths import canonical_policy
from axonkernel.policy.parse import parse
from bench.measure import Absent
from bench.twin import words

__all__ = ["BARE", "SOMEWHERE", "Worker", "axonkernel", "bare_twin", "plan_for", "warm"]

#: Nothing but bwrap itself: the unit that launches are counted in.
BARE = ("bwrap", "--unshare-all", "--ro-bind", "/", "/", "true")
#: A destination of the documentation range, for a link: what runs opens no socket.
SOMEWHERE = "198.51.100.1:443"


def axonkernel() -> list[str]:
    """The command as a user types it: the script beside this Python, if there is one."""
    script = Path(sys.executable).with_name("axonkernel")
    return [str(script)] if script.exists() else [sys.executable, "-m", "axonkernel"]


def plan_for(policy: Mapping[str, Any], program: str) -> BoxPlan:
    """The plan that a kernel in this process would make for ``program``."""
    parsed = parse(policy, base=os.getcwd(), home=os.path.expanduser("~"), source="bench")
    plan = prepare(canonical_policy(parsed.closed()), Ask("call", os.getcwd(), program=program))
    create(plan)
    return plan


def bare_twin(plan: BoxPlan, argv: tuple[str, ...]) -> Callable[[], float]:
    """An action: bwrap with the plan's namespaces, mounts and environment, and no more.

    Its descriptors are made before the clock starts, which is in its favour.
    """
    simple = plan._replace(filter="", deny_new_userns=False)

    def action() -> float:
        opened: list[int] = []

        def descriptor(kind: str, value: str) -> int:
            opened.append(_opened(kind, value))
            return opened[-1]

        started = ["bwrap", *words(simple, argv, descriptor)]
        start_s = time.perf_counter()
        pid = os.posix_spawnp("bwrap", started, {})
        _, status = os.waitpid(pid, 0)
        took_s = time.perf_counter() - start_s
        for fd in opened:
            os.close(fd)
        if status:
            raise RuntimeError(f"bare bwrap: wait status {status}")
        return took_s

    return action


def _opened(kind: str, value: str) -> int:
    if kind == "text":
        fd = os.memfd_create("bench", 0)
        os.write(fd, value.encode())
        os.lseek(fd, 0, os.SEEK_SET)
    else:
        fd = os.open(value, os.O_PATH if kind == "open" else os.O_RDONLY)
    os.set_inheritable(fd, True)
    return fd


class Worker:
    """A process that does what it is told, a line at a time, and answers with seconds."""

    def __init__(self, argv: list[str]) -> None:
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ask(self, task: str) -> float:
        """The seconds that ``task`` took in the worker."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(task + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            _, said = self._process.communicate()
            raise RuntimeError(f"the worker ended: {said.strip()[-300:]}")
        return float(answer)

    def action(self, task: str) -> Callable[[], float]:
        """An action for ``by_turns``."""
        return lambda: self.ask(task)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()


def warm(
    policy: Mapping[str, Any],
    *,
    heap_mb: int = 0,
    traced: bool = True,
    command: Sequence[str] = ("true",),
) -> Worker:
    """A supervisor that boxes a command once for each line.

    Arguments:
        heap_mb: memory it has in use.
        traced: whether the program is held at its exec, where this machine can.
    """
    if shutil.which("bwrap") is None:
        raise Absent("bwrap is not installed: apt-get install bubblewrap")
    told = {"policy": policy, "heap_mb": heap_mb, "traced": traced, "command": list(command)}
    return Worker([sys.executable, "-m", "bench.supervisor", json.dumps(told)])
