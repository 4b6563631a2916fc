"""A supervisor of its own process, as ``axonkernel exec`` is one, for a plan that is given.

Standard input and output are the command's. The box dies with it.
"""

from __future__ import annotations

import json
import os
import sys

from axonkernel.box import foreground, launch
from axonkernel.box.brokered import with_broker
from axonkernel.box.model import decode_plan

__all__ = ["main", "words"]


def words(order: str) -> tuple[str, ...]:
    """The command line that holds the box of the file ``order``."""
    code = "from axonkernel.escapes.holding import main; main()"
    return (sys.executable, "-c", code, order)


def main() -> None:
    """Read the order (a file with plan and argv), hold the box, and end as it ended.

    The result is left beside the order, in a file with the ending ``.result``.
    """
    order = sys.argv[1]
    with open(order) as file:
        plan, argv = json.load(file)
    # Forked from a process this small, as the command line does.
    warden = launch.fork_warden()
    # Nobody answers for programs that run only outside: here the box itself is tried.
    box = with_broker(decode_plan(plan), os.devnull)
    result, _ = foreground.run(warden, box, tuple(argv))
    with open(f"{order}.result", "w") as file:
        json.dump(result._asdict(), file)
    os._exit(result.exit_code)
