"""A box cannot make so many folders that what it is denied goes unwatched."""

from __future__ import annotations

import pytest

from box.boxed import PYTHON, Boxed

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

MAKE = (
    "import os, sys, time; [os.mkdir('w/' + str(i)) for i in range(int(sys.argv[1]))]; "
    "time.sleep({})"
)


@pytest.mark.parametrize(
    ("deny", "count", "rest_s", "code"),
    [("**/*.key", 9000, 30, 137), ("**/*.key", 500, 0, 0), ("w/name", 9000, 0, 0)],
)
def test_too_many_new_folders(box: Boxed, deny: str, count: int, rest_s: int, code: int) -> None:
    """Ended where a pattern denies names; fewer folders, or no pattern, are no matter."""
    (box.project / "w").mkdir()
    command = [PYTHON, "-c", MAKE.format(rest_s), str(count)]
    run = box.exec("--write", "w", "--deny", deny, command=command)
    assert run.code == code, run.err
    assert ("made during the run are too many" in run.err) == (code == 137)
