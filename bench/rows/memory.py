"""What a live box holds in memory beyond the agent itself."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.boxes import SOMEWHERE, axonkernel
from bench.measure import Absent
from bench.session import Session
from bench.table import Row

__all__ = ["rows"]

_BUDGET_MIB = 40.0
_PATIENCE_S = 20.0
_AGENT = """\
import time
from axonkernel import define_agent

agent = define_agent(name="bench", policy={"fs": {"read": ["."]}, "net": {"allow": []}})

@agent.handler
def wait(kernel, request):
    with open("/dev/stderr", "w") as said:
        said.write("READY\\n")
    time.sleep(60)

if __name__ == "__main__":
    agent.run()
"""
_READY = 'import sys, time; sys.stderr.write("READY\\n"); sys.stderr.flush(); time.sleep(60)'


def rows(session: Session) -> Iterator[Row]:
    """A box of ``exec``, one with a link, and an agent's."""
    python = os.path.realpath(sys.executable)
    entry = session.room("memory") / "agent.py"
    entry.write_text(_AGENT)
    command = [*axonkernel(), "exec"]
    sleeper = ["--", python, "-IS", "-c", _READY]
    yield _row("`axonkernel exec`", [*command, *sleeper])
    yield _row("`axonkernel exec`, linked", [*command, "--net", SOMEWHERE, *sleeper])
    yield _row("`python agent.py`", [sys.executable, str(entry)])


def _row(what: str, argv: list[str]) -> Row:
    held = _held(argv)
    pasta = held.pop("pasta", 0)
    note = ", ".join(f"{name} {_mib(size):.1f}" for name, size in held.items())
    if pasta:
        note += f"; pasta apart: {_mib(pasta):.1f}"
    return Row(
        f"memory of a box beyond the agent (PSS), {what}",
        _mib(sum(held.values())),
        "MiB",
        _BUDGET_MIB,
        n=1,
        note=note,
        medians={name: float(size) for name, size in held.items()},
    )


def _held(argv: list[str]) -> dict[str, int]:
    """PSS bytes by the name of each process around a box that waits."""
    if not os.path.exists("/proc/self/smaps_rollup"):
        raise Absent("this kernel has no smaps_rollup")
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        _await_ready(process)
        held: dict[str, int] = {}
        for pid in _tree(process.pid):
            name = _name(pid, process.pid)
            if name:
                held[name] = held.get(name, 0) + _pss_bytes(pid)
        return held
    finally:
        process.kill()
        process.wait()


def _await_ready(process: subprocess.Popen[bytes]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(b"READY"):
            time.sleep(0.2)  # let a spare warden be forked
            return
    raise RuntimeError(f"the box ended with {process.wait(_PATIENCE_S)}")


def _tree(root: int) -> Iterator[int]:
    """The process and all its descendants."""
    yield root
    for path in Path(f"/proc/{root}/task").glob("*/children"):
        for pid in path.read_text().split():
            yield from _tree(int(pid))


def _name(pid: int, supervisor: int) -> str:
    """What a process is; "" for the agent itself."""
    status = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    # pasta is one program with passt, and goes by that name in some builds.
    for name in ("bwrap", "pasta", "passt"):
        if status["Name"].startswith(name):
            return name.replace("passt", "pasta")
    if len(status["NSpid"].split()) > len(_own_nspid()):
        return ""
    return "supervisor" if pid == supervisor else "wardens"


def _own_nspid() -> list[str]:
    text = Path("/proc/self/status").read_text()
    return next(line for line in text.splitlines() if line.startswith("NSpid")).split()[1:]


def _pss_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def _mib(size_bytes: float) -> float:
    return size_bytes / 2**20
