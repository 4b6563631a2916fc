"""``axon.config.py`` to policy data, in a closed box. Its code never runs outside one."""

from __future__ import annotations

import json
import os
import select
import sys
import time
from typing import TYPE_CHECKING, Any, BinaryIO

from axonkernel.config.source import MAX_BYTES, read_source, shown
from axonkernel.errors import BoxError, Fault, IsolationUnavailable, PolicyError

if TYPE_CHECKING:
    from axonkernel.box.launch import BoxProcess
    from axonkernel.box.model import BoxPlan

__all__ = ["EVALUATION_S", "evaluate_python"]

#: Seconds an evaluation may take.
EVALUATION_S = 2.0

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_FIELD = "a Python configuration"
_INSTEAD = "or write the policy as policy.toml (axonkernel init)"


def evaluate_python(path: str, content: bytes | None = None) -> dict[str, Any]:
    """What ``define_agent`` is called with in the file ``path``.

    The box grants its folder and the floor for reading, no network, no environment, no
    programs and :data:`EVALUATION_S` seconds.

    Arguments:
        path: absolute path of the file.
        content: its bytes as they were digested and trusted; read from ``path`` when None.

    Returns:
        ``name``, ``policy`` (data as ``parse`` takes it) and ``base`` (a folder), each None
        where the call did not give it, and ``tools``, the names the file itself registers.

    Raises:
        PolicyError: it failed, took too long, or does not call ``define_agent`` exactly once.
        IsolationUnavailable: no closed box can be made on this machine.
        BoxError: the box did not start.
    """
    text = content if content is not None else read_source(path).content
    document = _decode(_run_boxed(path, text), path)
    if "error" in document:
        line = document.get("line")
        where = f"line {line}: " if isinstance(line, int) else ""
        raise _fault(path, f"{where}{document['error']}")
    agents = document.get("agents")
    if not isinstance(agents, list) or len(agents) != 1 or not isinstance(agents[0], dict):
        count = len(agents) if isinstance(agents, list) else 0
        raise _fault(
            path,
            f"calls define_agent {count} times, and must call it once",
            "agent = define_agent(name=..., policy={...})",
        )
    return {key: agents[0].get(key) for key in ("name", "policy", "base", "tools")}


def _run_boxed(path: str, text: bytes) -> bytes:
    """The bytes the recorder sent; b"" when it sent none."""
    if not sys.platform.startswith("linux"):
        raise IsolationUnavailable(_FIELD, "a box, which only Linux has", _INSTEAD[3:])
    try:
        return _launch(path, text)
    except IsolationUnavailable as error:
        raise IsolationUnavailable(_FIELD, error.missing, f"{error.fix}, {_INSTEAD}") from error


def _launch(path: str, text: bytes) -> bytes:
    from axonkernel.box.expected import expected
    from axonkernel.box.launch import Launcher
    from axonkernel.box.model import Command

    recorder = os.path.join(_PACKAGE, "config", "record.py")
    argv = (sys.executable, "-I", "-B", recorder, path, os.path.dirname(_PACKAGE))
    shared = expected()
    launcher = shared or Launcher()
    launcher.get_ready()
    reader, writer = os.pipe()
    try:
        plan = _plan(path)
        with _memory_file(text) as stdin, open(os.devnull, "r+b", buffering=0) as null:
            process = launcher.start(
                plan, Command(argv, stdin.fileno(), null.fileno(), null.fileno(), writer)
            )
        os.close(writer)
        writer = -1
        return _receive(process, reader, path)
    finally:
        if shared is None:
            launcher.close()
        os.close(reader)
        if writer >= 0:
            os.close(writer)


def _plan(path: str) -> BoxPlan:
    """The kept plan of the evaluation's box, or a new one."""
    from axonkernel.box import plancache
    from axonkernel.box.interpreter import interpreter_files

    folder, owner = os.path.dirname(path), os.stat(path).st_uid
    read = interpreter_files()
    name = plancache.key("evaluation", folder, owner, sys.executable, read)
    return plancache.load(name) or _made(name, folder, owner, read)


def _made(name: str, folder: str, owner: int, read: tuple[str, ...]) -> BoxPlan:
    from axonkernel.box import plancache
    from axonkernel.box.host import Ask
    from axonkernel.box.prepare import prepare_surveyed
    from axonkernel.box.watched import seen
    from axonkernel.policy.model import FsPolicy, Policy

    policy = Policy(isolation="auto", default="deny", fs=FsPolicy(read=(folder,))).closed()
    ask = Ask("agent", folder, program=sys.executable, read=read)
    plan, host = prepare_surveyed(policy, ask, env={}, owner=owner)
    found = seen((policy,), policy, host)
    if found is not None and plan.traced:  # else ptrace may be allowed next time
        plancache.store(name, plan, found)
    return plan


def _memory_file(text: bytes) -> BinaryIO:
    # The caller closes it.
    file = open(os.memfd_create("axon.config"), "w+b")  # noqa: SIM115
    file.write(text)
    file.flush()
    file.seek(0)
    return file


def _receive(process: BoxProcess, channel: int, path: str) -> bytes:
    """Everything sent before the end of file, within the time and size there is."""
    deadline = time.monotonic() + EVALUATION_S
    received = bytearray()
    try:
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([channel], [], [], left)[0]:
                raise _fault(path, f"did not finish within {EVALUATION_S:g} s")
            chunk = os.read(channel, 65536)
            if not chunk:
                break
            received += chunk
            if len(received) > MAX_BYTES:
                raise _fault(path, f"gives a policy larger than {MAX_BYTES} bytes")
    finally:
        process.kill()
        result = process.wait()
        process.close()
    if result is not None and result.reason == "launch":
        raise BoxError(result.stage, result.message)
    return bytes(received)


def _decode(sent: bytes, path: str) -> dict[str, Any]:
    try:
        document = json.loads(sent)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise _fault(
            path,
            "ended without giving a policy",
            "it may import only what is installed or lies in its own folder",
        )
    return document


def _fault(path: str, message: str, hint: str = "") -> PolicyError:
    return PolicyError([Fault("$", message, hint=hint)], shown(path))
