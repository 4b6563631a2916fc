"""The boxes of the demonstration, made the way a user makes them: by the command line."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Timer
from typing import Any, NamedTuple

from axonkernel.audit.verify import verify
from axonkernel.demo.attempts import ATTEMPTS, Attempt, hear
from axonkernel.demo.scene import Heard
from axonkernel.demo.stage import Stage

__all__ = ["Run", "run_agent", "run_limit", "run_mediator"]

#: The agent's run is ended after so long, whatever it is doing.
_PATIENCE_S = 50.0

_RUN_ON = "import time; print('started', flush=True); time.sleep(60); print('survived')"
_HOG = """
held = []
for step in range(1, 17):
    held.append(b'x' * (16 << 20))
    print(step * 16, flush=True)
print('survived')
"""
_FORK = """
import os, time
made = 0
try:
    for _ in range(100):
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
        made += 1
except OSError: pass
print(made, 'survived' if made == 100 else '', flush=True)
os._exit(0)
"""
_LIMITS: Mapping[str, tuple[str, str]] = {
    "run-on": ("wall=1s", _RUN_ON),
    "hog": ("memory=64M", _HOG),
    "fork": ("pids=20", _FORK),
}


class Run(NamedTuple):
    """What came of the agent's run.

    Arguments:
        heard: what it told, by key.
        posture: rows of field, state, by and note.
        denials: ids of the decisions that were recorded outside as anything but allow.
        refused: destinations of packets the box refused.
        intact: whether the records are unchanged.
        complaint: what was said on stderr.
    """

    heard: dict[str, Heard]
    posture: tuple[tuple[str, str, str, str], ...]
    denials: frozenset[str]
    refused: tuple[str, ...]
    intact: bool
    complaint: str


def run_agent(stage: Stage, skip: list[str], progress: Callable[[Attempt], None]) -> Run:
    """Run the agent in its box, as ``python agent.py`` does, and listen to it.

    Arguments:
        skip: keys of attempts not to make.
        progress: told of each attempt that is done.
    """
    prompt = json.dumps(stage.scene(skip))
    heard: dict[str, Heard] = {}
    known = {attempt.key: attempt for attempt in ATTEMPTS}
    with _started(stage, [str(stage.project / "agent.py"), prompt]) as (process, complaint):
        assert process.stdout is not None
        for line in process.stdout:
            with contextlib.suppress(ValueError, TypeError, KeyError):
                one = Heard(*json.loads(line))
                progress(known[one.key])
                heard.setdefault(one.key, one)
    records = _records(stage)
    started = [r["posture"] for r in records if r["kind"] == "box.start"]
    ended = [r["result"] for r in records if r["kind"] == "box.end"]
    packets = ended[0]["denied"] if ended else ()
    return Run(
        heard,
        tuple(tuple(row) for row in started[0]) if started else (),
        _denials(records),
        tuple(f"{each['address']}:{each['port']}/{each['protocol']}" for each in packets),
        bool(records) and not verify(_audit(stage)),
        complaint.read_text(),
    )


def run_mediator(stage: Stage, skip: list[str], progress: Callable[[Attempt], None]) -> Run:
    """Where no box can be made: only what is asked of the kernel, in this process."""
    from axonkernel.demo.agent import POLICY, agent
    from axonkernel.kernel import Kernel

    heard = {}
    policy = {**POLICY, "isolation": "none"}
    audit = _audit(stage)
    with Kernel(policy, cwd=stage.project, audit=audit, tools=agent.tools) as kernel:
        for attempt in ATTEMPTS:
            if attempt.mediated and attempt.key not in skip:
                progress(attempt)
                heard[attempt.key] = hear(attempt, kernel, stage.scene(skip))
        posture = kernel.posture()
    records = _records(stage)
    return Run(heard, posture, _denials(records), (), not verify(audit), "")


def run_limit(stage: Stage, attempt: Attempt) -> tuple[Heard | None, str]:
    """Let a program run into a limit, in a box of its own made by ``axonkernel exec``.

    Returns what was heard, None when the program never ran, and what was said on stderr.
    """
    limit, code = _LIMITS[attempt.key]
    read, write = os.pipe()
    words = ["-m", "axonkernel", "exec", "--limit", limit, "--quiet", "--json-status", str(write)]
    words += ["--", sys.executable, "-c", code]
    with open(read, "rb") as end:
        with _started(stage, words, pass_fds=(write,)) as (process, complaint):
            os.close(write)
            assert process.stdout is not None
            said = process.stdout.read()
        status = json.loads(end.read() or "{}")
    if not said:
        return None, complaint.read_text()
    return Heard(attempt.key, "survived" in said, _ending(attempt.key, said, status), said), ""


def _ending(key: str, said: str, status: dict[str, Any]) -> str:
    words = said.split()
    if key == "run-on":
        return f"ended after {status['wall_s']:.1f} s"
    if key == "hog":
        return f"killed after {words[-1] if words else 0} MB"
    return f"{words[0] if words else 0} forks, then no more"


@contextlib.contextmanager
def _started(
    stage: Stage, words: list[str], *, pass_fds: tuple[int, ...] = ()
) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A Python of ours in a session of its own: without a terminal nobody can be asked."""
    complaint = stage.home.parent / "stderr"
    with open(complaint, "w") as stderr:
        process = subprocess.Popen(
            [sys.executable, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            errors="replace",
            env=stage.environment,
            cwd=stage.project,
            pass_fds=pass_fds,
            start_new_session=True,
        )
    timer = Timer(_PATIENCE_S, process.kill)
    timer.start()
    try:
        yield process, complaint
        process.wait()
    finally:
        timer.cancel()
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)  # its box dies with it
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _audit(stage: Stage) -> Path:
    return Path(stage.environment["XDG_STATE_HOME"], "axonkernel", "audit.jsonl")


def _records(stage: Stage) -> list[dict[str, Any]]:
    path = _audit(stage)
    return list(map(json.loads, path.read_text().splitlines())) if path.exists() else []


def _denials(records: list[dict[str, Any]]) -> frozenset[str]:
    return frozenset(
        record["id"]
        for record in records
        if record["kind"] == "decision" and record["verdict"] != "allow"
    )
