"""All attempts, and how they get into a box: as text on standard input.

Nothing has to be readable in the box for it, so it is exactly the box of the policy.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Iterable
from types import ModuleType

from axonkernel.escapes import attempt, calls, runner, scene, tools
from axonkernel.escapes.attempt import Attempt
from axonkernel.escapes.scene import Scene
from axonkernel.escapes.tries import (
    compiled,
    environment,
    files,
    kernel,
    masks,
    mounts,
    network,
    own,
    planted,
    privilege,
    processes,
    programs,
)

__all__ = ["ATTEMPTS", "command", "job", "python"]

_GROUPS: tuple[ModuleType, ...] = (
    files, masks, planted, mounts, programs, processes, privilege, kernel, compiled, network,
    environment, own,
)  # fmt: skip
#: Every attempt that runs inside, in the order of the table.
ATTEMPTS: tuple[Attempt, ...] = tuple(each for module in _GROUPS for each in module.GROUP.attempts)
#: Seconds an attempt may take before it counts as hung.
_PATIENCE_S = 8.0
#: Reads the job and makes its modules, which import each other by their own names.
_BOOT = """
import json, sys, types
job = json.load(sys.stdin)
for name, source in job["modules"]:
    module = sys.modules[name] = types.ModuleType(name)
    if not source: module.__path__ = []
    exec(compile(source, name, "exec"), module.__dict__)
sys.modules["axonkernel.escapes.runner"].start(job)
"""


def python() -> str:
    """The interpreter that runs inside: its own file, of which no environment is needed."""
    return os.path.realpath(sys.executable)


def command() -> tuple[str, ...]:
    """The words that run a job given on standard input."""
    return (python(), "-ISc", _BOOT)


def job(where: Scene, ids: Iterable[str]) -> bytes:
    """What to give to :func:`command`: the attempts with these ids, for this scene."""
    packages = ["axonkernel", "axonkernel.escapes", "axonkernel.escapes.tries"]
    shared = (attempt, scene, calls, tools, runner)
    data = {
        "modules": [
            *((name, "") for name in packages),
            *((module.__name__, inspect.getsource(module)) for module in (*shared, *_GROUPS)),
        ],
        "groups": [module.__name__ for module in _GROUPS],
        "scene": where._asdict(),
        "ids": list(ids),
        "patience_s": _PATIENCE_S,
    }
    return json.dumps(data).encode()
