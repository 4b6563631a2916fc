"""What a supervisor does beside its box: leave bytecode where a box finds it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from axonkernel.supervisor import ahead

MODULES = ("supervisor/inside.py", "tools/tool.py", "other/deep.py")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of three modules that nobody has compiled."""
    for module in MODULES:
        path = tmp_path / module
        path.parent.mkdir()
        path.write_text("VALUE = 1\n")
    monkeypatch.setattr(ahead, "_PACKAGE", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return tmp_path


def _compiled(package: Path) -> list[str]:
    """The modules with bytecode, once nobody compiles any more."""
    for thread in threading.enumerate():
        if thread.name == "axonkernel-compiling":
            thread.join(30)
    return [name for name in MODULES if os.path.exists(cache_from_source(str(package / name)))]


def test_modules_are_compiled_where_nobody_did(package: Path) -> None:
    """All of them; and again the one that has changed since."""
    ahead.compiling()
    assert _compiled(package) == list(MODULES)
    changed = package / MODULES[0]
    os.utime(changed, ns=(2**62, 2**62))
    os.remove(cache_from_source(str(package / MODULES[2])))
    ahead.compiling()
    assert _compiled(package) == list(MODULES)


def test_nothing_is_written_where_that_is_not_wanted(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PYTHONDONTWRITEBYTECODE is the user's word."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    ahead.compiling()
    assert _compiled(package) == []


def test_what_is_compiled_is_left_alone(package: Path) -> None:
    """No thread is started, so what the box alone does not need stays as it is."""
    for module in MODULES[:2]:
        cache = Path(cache_from_source(str(package / module)))
        cache.parent.mkdir()
        cache.write_bytes(b"")
    ahead.compiling()
    assert _compiled(package) == list(MODULES[:2])


def test_the_end_of_a_program_waits_for_an_import_and_begins_no_other(tmp_path: Path) -> None:
    """An interpreter that is taken apart around an import crashes."""
    (tmp_path / "first.py").write_text(
        "import time\nprint('begun', flush=True)\ntime.sleep(0.3)\nprint('done')\n"
    )
    (tmp_path / "second.py").write_text("print('second')\n")
    code = "from axonkernel.supervisor.ahead import importing; importing('first', 'second')"
    folders = f"{tmp_path}:{Path(ahead.__file__).parents[2]}"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": folders},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (run.returncode, run.stdout) == (0, "begun\ndone\n"), run
