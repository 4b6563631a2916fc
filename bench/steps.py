"""Where a launch's time goes: ``python -m bench.steps exec -- true`` prints its steps.

A line per step: who (``exec`` or ``warden``), milliseconds, name. The two work at once, so the
steps are not a sum. The warden's imports, which it does in its own process, are timed here
before the fork.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["slow_steps"]

#: What a step must cost to be named (milliseconds).
_WORTH_NAMING_MS = 2.0

_MAIN = {
    ("axonkernel.cli.exec", "_plan"): "find the plan",
    ("axonkernel.box.launch", "start"): "start, as seen by exec",
}
_WARDEN = {
    ("axonkernel.box.keeper", "start"): "start the keeper",
    ("axonkernel.box.prelude", "spawn"): "start what becomes bwrap",
    ("axonkernel.box.tree", "make"): "make the file tree",
    ("axonkernel.box.warden", "ready_tables"): "ready the table's binding",
    ("axonkernel.box.gate", "await_init"): "the tree, and bwrap's namespaces",
    ("axonkernel.box.nft", "load"): "load the table",
    ("axonkernel.box.gate", "await_exec"): "bwrap mounts and executes",
    ("axonkernel.box.link", "Link.await_up"): "the rest of making the link",
    ("axonkernel.box.gate", "faults"): "check at the exec",
    ("axonkernel.box.nft", "read_refused"): "read what was refused",
}


def slow_steps(words: list[str], rounds: int) -> str:
    """The steps of ``axonkernel WORDS`` that cost more than 2 ms, with their medians."""
    seen: dict[str, list[float]] = {}
    for _ in range(rounds):
        argv = [sys.executable, "-m", "bench.steps", *words]
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in done.stdout.splitlines():
            who, took_ms, name = line.split(" ", 2)
            seen.setdefault(f"{name} ({who})", []).append(float(took_ms))
    medians = {name: statistics.median(values) for name, values in seen.items()}
    return ", ".join(
        f"{name} {took_ms:.1f}" for name, took_ms in medians.items() if took_ms > _WORTH_NAMING_MS
    )


def _tell(who: str, begun_s: float, name: str) -> None:
    took_ms = (time.perf_counter() - begun_s) * 1e3
    os.write(1, f"{who} {took_ms:.3f} {name}\n".encode())


def _imported(who: str, module: str) -> None:
    begun_s = time.perf_counter()
    import_module(module)
    _tell(who, begun_s, f"import {module}")


def _wrap(who: str, place: tuple[str, str], name: str) -> None:
    owner: Any = import_module(place[0])
    *classes, attribute = place[1].split(".")
    for part in classes:
        owner = getattr(owner, part)
    setattr(owner, attribute, _timed(who, name, getattr(owner, attribute)))


def _timed(who: str, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def timed(*args: Any, **options: Any) -> Any:
        begun_s = time.perf_counter()
        try:
            return function(*args, **options)
        finally:
            _tell(who, begun_s, name)

    return timed


def _main() -> int:
    _imported("exec", "axonkernel.cli.exec")
    _imported("exec", "axonkernel.box.launch")
    _imported("warden", "axonkernel.box.prelude")
    _imported("warden", "axonkernel.box.warden")
    _imported("warden", "axonkernel.box.nft")
    for who, places in (("exec", _MAIN), ("warden", _WARDEN)):
        for place, name in places.items():
            _wrap(who, place, name)
    from axonkernel.cli import main

    return main()


if __name__ == "__main__":
    sys.exit(_main())
