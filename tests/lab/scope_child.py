"""Run in the lab by test_scope_real.py: one program under a scope of its own.

Standard input is JSON: ``limits`` (a LimitsPlan), ``program`` (Python source, held until it is
in the scope), ``transport`` (``pydbus`` or ``busctl``), ``slice`` (whether they share one).
Prints JSON: how it ended.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

from axonkernel.box import cgroup, scope
from axonkernel.box.bus import Binding, Program
from axonkernel.box.model import LimitsPlan
from axonkernel.box.systemd import Manager
from axonkernel.errors import IsolationUnavailable


def main() -> None:
    order = json.load(sys.stdin)
    # Kept in the scope to the end, as the launch does, so that its counters can be read.
    parked = subprocess.Popen(["sleep", "60"])
    held = f"import sys; sys.stdin.readline()\n{order['program']}"
    program = subprocess.Popen(
        [sys.executable, "-ISc", held], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        print(json.dumps(run(order, program, parked.pid)))
    except IsolationUnavailable as error:
        print(json.dumps({"unavailable": [error.missing, error.fix]}))
    finally:
        for process in (program, parked):
            process.kill()
            process.wait()


def run(order: dict[str, Any], program: subprocess.Popen[str], parked: int) -> dict[str, object]:
    limits = LimitsPlan(*order["limits"])
    user = os.geteuid() != 0
    manager = Manager(over=(Binding if order["transport"] == "pydbus" else Program)(user))
    unit, slice = scope.scope_name(), scope.slice_name() if order["slice"] else ""
    if slice:
        manager.start(slice, scope.slice_properties(limits), [])
    named = scope.properties(limits, slice=slice, keep_result=True)
    manager.start(unit, named, [program.pid, parked])
    scope.wait_in_cgroup(program.pid, unit, limits)
    scope.wait_in_cgroup(parked, unit)
    group = cgroup.find(parked)
    with open(f"/proc/{program.pid}/cgroup") as file:
        placed = file.read()
    during, listed = manager.state(unit), manager.named("axonkernel-*.scope")
    started_s = time.monotonic()
    said, _ = program.communicate("go\n", timeout=30)
    answer = {
        "said": said,
        "code": program.returncode,
        "took_s": time.monotonic() - started_s,
        "counters": group.counters()._asdict(),
        "placed": placed.replace(slice, "SLICE") if slice else placed,
        "during": during.active,
        "listed": unit in listed,
        "result": manager.ended(unit, 5.0 if program.returncode else 0.0).result,
    }
    manager.stop(unit)
    parked_died = not is_alive(parked)
    if slice:
        manager.stop(slice)
    answer["afterwards"] = [manager.state(each).active for each in (unit, slice) if each]
    return answer | {"parked_died": parked_died}


def is_alive(pid: int) -> bool:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(") ")[2][0] not in "ZX"


if __name__ == "__main__":
    main()
