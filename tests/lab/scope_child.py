"""Run in the lab by test_scope_real.py: one program under a scope of its own.

Standard input is JSON: ``limits`` (a LimitsPlan), ``program`` (Python source, held until it is
in the scope), ``transport`` (``pydbus`` or ``busctl``), ``slice``. Prints JSON: how it ended.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

from axonkernel.box import cgroup, scope, systemd
from axonkernel.box.model import LimitsPlan
from axonkernel.errors import IsolationUnavailable


def main() -> None:
    order = json.load(sys.stdin)
    limits = LimitsPlan(*order["limits"])
    if order["transport"] == "busctl":
        systemd._over_pydbus = lambda *_: None
    else:
        systemd._over_busctl = lambda *_: "busctl is not to be used"
    # Kept in the scope to the end, as the launch does, so that its counters can be read.
    parked = subprocess.Popen(["sleep", "60"])
    held = f"import sys; sys.stdin.readline()\n{order['program']}"
    program = subprocess.Popen(
        [sys.executable, "-ISc", held], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    unit = f"axonkernel-{os.urandom(6).hex()}.scope"
    try:
        print(json.dumps(run(order, limits, unit, program, parked.pid)))
    except IsolationUnavailable as error:
        print(json.dumps({"unavailable": [error.missing, error.fix]}))
    finally:
        for process in (program, parked):
            process.kill()
            process.wait()


def run(
    order: dict[str, object],
    limits: LimitsPlan,
    unit: str,
    program: subprocess.Popen[str],
    parked: int,
) -> dict[str, object]:
    if order["slice"]:
        scope.start(str(order["slice"]), scope.slice_properties(limits), [])
    named = scope.properties(limits, slice=str(order["slice"]), wall_slack_s=0.0)
    scope.start(unit, named, [program.pid, parked], keep_result=True)
    scope.wait_in_cgroup(program.pid, unit, limits)
    scope.wait_in_cgroup(parked, unit)
    group = cgroup.find(parked)
    with open(f"/proc/{program.pid}/cgroup") as file:
        placed = file.read()
    started_s = time.monotonic()
    said, _ = program.communicate("go\n", timeout=30)
    answer = {
        "said": said,
        "code": program.returncode,
        "took_s": time.monotonic() - started_s,
        "counters": group.counters()._asdict(),
        "placed": placed,
        "result": scope.result(unit),
    }
    scope.stop(unit)
    if order["slice"]:
        scope.stop(str(order["slice"]))
    return answer | {"afterwards": scope.result(unit)}


if __name__ == "__main__":
    main()
