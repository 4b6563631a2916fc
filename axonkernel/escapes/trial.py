"""The whole of it: the control outside, the same inside, and what came of both."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from pathlib import Path
from typing import IO, Any, NamedTuple

from attrs import evolve

import axonkernel
from axonkernel.box.host import Ask
from axonkernel.box.model import BoxPlan
from axonkernel.box.prepare import prepare
from axonkernel.errors import BoxError
from axonkernel.escapes import holding, suite
from axonkernel.escapes.folder import DENIED
from axonkernel.escapes.scene import Scene
from axonkernel.escapes.stage import Stage
from axonkernel.folders import own_folders
from axonkernel.paths import canonical_policy, default_protect
from axonkernel.policy.meet import meet
from axonkernel.policy.model import FsPolicy, Policy

__all__ = ["Heard", "Held", "control", "held", "listen", "plan_for", "policy_for", "unboxed"]

#: The whole of the attempts is ended after so long.
_PATIENCE_S = 300.0
_PACKAGE_ROOT = str(Path(axonkernel.__file__ or "").parents[1])

Progress = Callable[[str], None]


class Heard(NamedTuple):
    """What an attempt said of itself.

    Arguments:
        said: ``done``, an errno, ``hung`` or ``signal N``.
        loot: what it brought back.
    """

    said: str
    loot: str


class Held(NamedTuple):
    """A box with attempts in it, and the process that supervises it."""

    process: subprocess.Popen[bytes]
    order: Path

    def kept(self) -> list[tuple[str, str]]:
        """What the keeper did and saw; nothing where the supervisor was killed.

        Raises BoxError when the box did not start.
        """
        try:
            result = json.loads(Path(f"{self.order}.result").read_text())
        except FileNotFoundError:
            return []
        if result["reason"] == "launch":
            raise BoxError(result["stage"], result["message"])
        return [(what, path) for what, path in result["kept"]]


def plan_for(
    layers: Iterable[Policy], stage: Stage, hide: tuple[str, ...] = (), read: tuple[str, ...] = ()
) -> BoxPlan:
    """The box of a policy, with the stage's folder granted beside what it grants.

    Arguments:
        layers: all hold together; their paths not yet resolved.
        hide: the policy's own files.
        read: more to be read.

    Raises IsolationUnavailable, PolicyError or BoxError.
    """
    ask = Ask("exec", str(stage.project), suite.command()[0], hide=hide, state=own_folders())
    return prepare(policy_for(layers, stage, read), ask, env=stage.environment)


def policy_for(layers: Iterable[Policy], stage: Stage, read: tuple[str, ...] = ()) -> Policy:
    """A policy, with the stage's folder granted beside what it grants."""
    policy = reduce(meet, (canonical_policy(layer.closed()) for layer in layers))
    if policy.fs is None:
        return policy
    fs = _with_folder(policy.fs, stage)
    return canonical_policy(evolve(policy, fs=evolve(fs, read=(*fs.read, *read))))


def _with_folder(fs: FsPolicy, stage: Stage) -> FsPolicy:
    denied = tuple(f"{stage.project}/{name}" for name in DENIED)
    fs = evolve(
        fs,
        read=(*fs.read, str(stage.granted)),
        write=(*fs.write, str(stage.project)),
        deny=(*fs.deny, *denied),
    )
    return fs if fs.protect is not None else evolve(fs, protect=default_protect(fs.write))


@contextlib.contextmanager
def held(plan: BoxPlan, argv: tuple[str, ...], stage: Stage, **streams: Any) -> Iterator[Held]:
    """A box supervised by a process of its own, which is killed in the end."""
    order = stage.root / f"order-{os.urandom(4).hex()}"
    order.write_text(json.dumps([plan, argv]))
    paths = [_PACKAGE_ROOT, os.environ.get("PYTHONPATH", "")]
    env = {**stage.environment, "PYTHONPATH": ":".join(filter(None, paths))}
    with _running(holding.words(str(order)), stage, env, **streams) as process:
        yield Held(process, order)


@contextlib.contextmanager
def unboxed(
    argv: tuple[str, ...], stage: Stage, **streams: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """The same where no box is around it."""
    with _running(argv, stage, stage.environment, **streams) as process:
        yield process


def control(stage: Stage, scene: Scene, ids: Iterable[str]) -> dict[str, Heard]:
    """Run attempts where no box is around them."""
    with unboxed(suite.command(), stage) as process:
        return dict(listen(process, suite.job(scene, ids)))


def listen(process: subprocess.Popen[bytes], job: bytes) -> Iterator[tuple[str, Heard]]:
    """Give a job to a runner; each attempt's word as it comes."""
    assert process.stdin is not None and process.stdout is not None
    giving = threading.Thread(target=_give, args=(process.stdin, job), daemon=True)
    giving.start()
    for line in process.stdout:
        with contextlib.suppress(ValueError, TypeError):
            name, said, loot = json.loads(line)
            yield name, Heard(said, loot)
    giving.join()


def _give(stdin: IO[bytes], job: bytes) -> None:
    with contextlib.suppress(OSError), stdin:
        stdin.write(job)


@contextlib.contextmanager
def _running(
    argv: tuple[str, ...], stage: Stage, env: dict[str, str], **streams: Any
) -> Iterator[subprocess.Popen[bytes]]:
    pipe = subprocess.PIPE
    process: subprocess.Popen[bytes] = subprocess.Popen(
        argv,
        env=env,
        cwd=stage.root,
        pass_fds=stage.inherited,
        start_new_session=True,
        **{"stdin": pipe, "stdout": pipe, "stderr": subprocess.DEVNULL, **streams},
    )
    timer = threading.Timer(_PATIENCE_S, process.kill)
    timer.start()
    try:
        yield process
    finally:
        timer.cancel()
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)  # its box dies with it
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
