"""What scripts/bootstrap does with a machine, seen with stand-ins for the system's programs.

Nothing is installed: the package query, apt-get, sudo and the interpreter of the virtual
environment are scripts that write down how they were called.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534
INSTALLED = [
    line.split()[0]
    for line in (ROOT / "packaging" / "apt.txt").read_text().splitlines()
    if line.strip()
]

pytestmark = pytest.mark.skipif(
    not os.access("/usr/bin/python3", os.X_OK), reason="bootstrap needs the distribution's Python"
)


class Machine:
    """A project folder with a space in its name, and stand-ins in front of PATH."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "a project"
        self.programs = folder / "programs"
        self.log = folder / "calls"
        for name in ("scripts/bootstrap", "packaging/apt.txt", "pyproject.toml"):
            target = self.project / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)
        self.programs.mkdir()
        self.log.touch()
        self.program("sudo", "exit 1")
        self.program("apt-get", "exit 0")
        self.interpreter = self.project / ".venv" / "bin" / "python"
        self.script(self.interpreter, "exit 0")
        self.installed(INSTALLED)

    def script(self, path: Path, body: str) -> None:
        """A program that records its words and then does what body says."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/sh\necho "{path.name} $*" >>"{self.log}"\n{body}\n')
        path.chmod(0o755)

    def program(self, name: str, body: str) -> None:
        """A stand-in for a program of the system."""
        self.script(self.programs / name, body)

    def installed(self, names: list[str]) -> None:
        """The system packages that this machine says it has."""
        lines = "".join(f"installed {name}\n" for name in names)
        self.program("dpkg-query", f"cat <<'END'\n{lines}END")

    def give_to(self, uid: int) -> None:
        """Makes everything here belong to another user."""
        for path in (self.project.parent, *self.project.parent.rglob("*")):
            os.chown(path, uid, uid)

    def bootstrap(self, *, uid: int | None = None) -> subprocess.CompletedProcess[str]:
        """Runs the script, as another user when one is given."""
        return subprocess.run(
            [self.project / "scripts" / "bootstrap"],
            env={"PATH": f"{self.programs}:/usr/bin:/bin"},
            cwd="/",
            user=uid,
            group=uid,
            extra_groups=None if uid is None else [],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    def calls(self, name: str) -> list[str]:
        """How a program was called so far."""
        return [line for line in self.log.read_text().splitlines() if line.startswith(f"{name} ")]


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A machine where every system package is there."""
    # Not tmp_path: an ordinary user cannot enter the folders above it.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Machine(Path(folder))


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as two users")


def test_a_machine_that_has_everything_is_set_up_in_silence(machine: Machine) -> None:
    """Nothing is said, apt is not called, the dependencies are installed."""
    result = machine.bootstrap()
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert not machine.calls("apt-get")
    assert any("install --quiet --editable ." in call for call in machine.calls("python"))


def test_a_second_run_does_nothing(machine: Machine) -> None:
    """Once set up, the virtual environment is not touched again."""
    machine.bootstrap()
    before = machine.calls("python")
    assert machine.bootstrap().returncode == 0
    assert machine.calls("python") == before


@pytest.mark.parametrize("name", ["pyproject.toml", "packaging/apt.txt"])
def test_a_changed_list_is_installed_again(machine: Machine, name: str) -> None:
    """A change of the dependencies or the system packages ends the quick path."""
    machine.bootstrap()
    before = machine.calls("python")
    with (machine.project / name).open("a") as file:
        file.write("\n# changed\n")
    machine.bootstrap()
    assert len(machine.calls("python")) > len(before)


@as_root
def test_root_installs_what_is_missing_and_only_that(machine: Machine) -> None:
    """apt-get is asked for the missing packages, without questions."""
    machine.installed([name for name in INSTALLED if name not in ("passt", "strace")])
    result = machine.bootstrap()
    assert result.returncode == 0
    (install,) = [call for call in machine.calls("apt-get") if " install " in call]
    assert install.endswith(" install -y --no-install-recommends passt strace")


@as_root
def test_a_program_of_another_source_is_not_replaced(machine: Machine) -> None:
    """A package that is there for its program is left out where that program is; with the
    program gone it is installed."""
    (machine.project / "packaging/apt.txt").write_text("odd [oddly]  # tests\npasst  # link\n")
    machine.installed([])
    machine.program("oddly", "exit 0")
    machine.bootstrap()
    (machine.programs / "oddly").unlink()
    machine.bootstrap()
    first, second = [call for call in machine.calls("apt-get") if " install " in call]
    assert first.endswith(" --no-install-recommends passt")
    assert second.endswith(" --no-install-recommends odd passt")


@as_root
def test_without_root_or_sudo_the_missing_line_is_said_and_the_rest_goes_on(
    machine: Machine,
) -> None:
    """The user reads the very apt line to ask for, and still gets the virtual environment."""
    machine.installed([name for name in INSTALLED if name not in ("passt", "strace")])
    machine.give_to(NOBODY)
    result = machine.bootstrap(uid=NOBODY)
    assert result.returncode == 0
    assert "apt-get install --no-install-recommends passt strace" in result.stderr
    assert not machine.calls("apt-get")
    assert machine.calls("python")


@as_root
def test_with_sudo_an_ordinary_user_installs_what_is_missing(machine: Machine) -> None:
    """sudo is used where it answers without a password."""
    machine.installed([name for name in INSTALLED if name != "passt"])
    machine.program("sudo", '[ "$1" = -n ] && exit 0\nexec "$@"')
    machine.give_to(NOBODY)
    assert machine.bootstrap(uid=NOBODY).returncode == 0
    assert any("install -y" in call and "passt" in call for call in machine.calls("sudo"))
    assert machine.calls("apt-get")


def test_a_failure_is_shown_and_not_remembered(machine: Machine) -> None:
    """What pip said reaches the user, and the next run tries again."""
    machine.script(
        machine.interpreter, 'case "$*" in *--editable*) echo no such release; exit 1;; esac'
    )
    result = machine.bootstrap()
    assert result.returncode != 0
    assert "no such release" in result.stderr
    machine.script(machine.interpreter, "exit 0")
    assert machine.bootstrap().returncode == 0
    assert sum("--editable" in call for call in machine.calls("python")) == 2
