"""A warm supervisor: ``python -m bench.supervisor JSON``, driven by lines."""

from __future__ import annotations

import json
import os
import sys
import time

from axonkernel.box.launch import Launcher
from axonkernel.box.model import Command
from bench.boxes import plan_for

_OBJECT_BYTES = 10_000


def main() -> None:
    """Box a command for each line of standard input; answer with the seconds it took."""
    told = json.loads(sys.argv[1])
    heap_mb = told["heap_mb"]
    # Many objects, not one mapping: page tables are what a fork would pay for.
    heap = [os.urandom(1) * _OBJECT_BYTES for _ in range(heap_mb * 1_000_000 // _OBJECT_BYTES)]
    argv = tuple(told["command"])
    plan = plan_for(told["policy"], argv[0])
    plan = plan._replace(traced=plan.traced and told["traced"])
    nothing = os.open(os.devnull, os.O_RDWR)
    command = Command(argv, nothing, nothing, 2)
    launcher = Launcher()
    for _ in sys.stdin:
        start_s = time.perf_counter()
        box = launcher.start(plan, command)
        result = box.wait()
        took_s = time.perf_counter() - start_s
        box.close()
        if result is None or result.exit_code:
            sys.exit(f"the box failed: {result}")
        print(took_s, flush=True)
    del heap


if __name__ == "__main__":
    main()
