"""``python -m bench``: measure, print the table, keep it in bench/results.json."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Absent
from bench.rows import GROUPS
from bench.session import Session
from bench.table import Row, heading, keep, line

_RESULTS = Path(__file__).with_name("results.json")


def main() -> int:
    """Run the bench; 0 also when budgets are not met, 1 when a row could not be measured."""
    asked = _arguments()
    rows: list[Row] = []
    failed = False
    print(heading(), flush=True)
    with tempfile.TemporaryDirectory(prefix="axonkernel-bench-") as folder:
        session = _session(Path(folder), asked.scale)
        for group in asked.group or GROUPS:
            try:
                for row in _measured(group, session):
                    rows.append(row)
                    print(line(row), flush=True)
            except Exception:
                failed = True
                traceback.print_exc()
    keep(rows, _facts(asked.scale), asked.output)
    over = sum(row.verdict == "over" for row in rows)
    print(f"\n{len(rows)} rows, {over} over budget; kept in {asked.output}")
    return int(failed)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("group", nargs="*", choices=[[], *GROUPS], help="only these groups")
    parser.add_argument("--scale", type=float, default=1.0, help="0.1 for a tenth of the samples")
    parser.add_argument("--output", type=Path, default=_RESULTS, help="where the JSON goes")
    return parser.parse_args()


def _session(folder: Path, scale: float) -> Session:
    """Folders of this run's own, so that nothing of the user's is read or written."""
    # Whoever runs this may have it off: then every process would compile what has changed.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for name in ("state", "cache"):
        path = folder / name
        path.mkdir()
        os.environ[f"XDG_{name.upper()}_HOME"] = str(path)
    work = folder / "work"
    work.mkdir()
    return Session(work, scale)


def _measured(group: str, session: Session) -> Iterator[Row]:
    try:
        yield from GROUPS[group](session)
    except Absent as absent:
        yield Row(group, note=str(absent))


def _facts(scale: float) -> dict[str, object]:
    return {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "load": os.getloadavg(),
        "scale": scale,
    }


if __name__ == "__main__":
    sys.exit(main())
