"""Start programs where this machine's own additions to every Python start are hidden.

A ``.pth`` file beside the system's packages may import what it likes into every Python that
starts. What a machine's image has put there is no cost of ours, and not there on a plain one.
``python -m bench.starter`` is a worker (boxes.Worker) that starts what it is told, from a mount
namespace of its own in which such files are empty; on the machine nothing is changed.
"""

from __future__ import annotations

import json
import os
import shutil
import site
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

from bench.boxes import Worker
from bench.measure import run

__all__ = ["additions", "plain_start", "starting"]

_HIDE = 'for file in $HIDDEN; do mount --bind /dev/null "$file" || exit 1; done; exec "$@"'


def additions() -> tuple[str, ...]:
    """The ``.pth`` files of the system's that run code."""
    folders = [*site.getsitepackages(), "/usr/lib/python3/dist-packages"]
    files = {file for folder in folders for file in Path(folder).glob("*.pth")}
    outside = (file for file in files if not file.is_relative_to(sys.prefix))
    return tuple(sorted(str(file) for file in outside if "import " in file.read_text()))


def plain_start() -> Worker | nullcontext[None]:
    """A worker that starts programs without them; none where there are none, or it takes root."""
    hidden = additions()
    if not hidden or os.geteuid() != 0 or shutil.which("unshare") is None:
        return nullcontext()
    apart = ["unshare", "--mount", "--propagation", "private", "env", f"HIDDEN={' '.join(hidden)}"]
    return Worker([*apart, "sh", "-c", _HIDE, "sh", sys.executable, "-m", "bench.starter"])


def starting(worker: Worker, argv: Sequence[str]) -> Callable[[], float]:
    """An action: start a program by ``worker`` and wait for its end."""
    return worker.action(json.dumps(argv))


def main() -> None:
    """Start each line's program, a JSON list of words; answer with the seconds it took."""
    for line in sys.stdin:
        argv = json.loads(line)
        begun_s = time.perf_counter()
        run(argv)
        print(time.perf_counter() - begun_s, flush=True)


if __name__ == "__main__":
    main()
