"""A plain ``pip install axonkernel`` imports and mediates, with nothing of the distribution's.

The wheel is built and installed by pip without the index; what it depends on is copied from
the environment that runs the tests. gi and nftables are of no use there, as on any machine
where only pip was asked.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from lab.agents import Ended, Project
from lab.processes import REPOSITORY

#: What no import and no mediated call may load.
FORBIDDEN = {"gi", "nftables", "wasmtime", "pyroute2"}
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a bare environment with the package in it."""
    folder = tmp_path_factory.mktemp("bare env")
    venv.create(folder / "venv", system_site_packages=False, with_pip=False)
    python = folder / "venv" / "bin" / "python"
    build = ["wheel", "--no-index", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([*PIP, *build, str(REPOSITORY)], check=True, timeout=100)
    (wheel,) = folder.glob("axonkernel-*.whl")
    install = ["--python", str(python), "install", "--no-index", "--no-deps", str(wheel)]
    subprocess.run([*PIP, *install], check=True, timeout=100)
    (packages,) = (folder / "venv" / "lib").glob("python3*/site-packages")
    for found in needed():
        copy(found, packages)
    return python


def needed() -> Iterator[Distribution]:
    """What the package depends on at run time, as far as it is installed here."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    waiting, seen = list(project["dependencies"]), set()
    while waiting:
        requirement = Requirement(waiting.pop())
        marker = requirement.marker
        if requirement.name in seen or (marker and not marker.evaluate({"extra": ""})):
            continue
        seen.add(requirement.name)
        try:
            found = distribution(requirement.name)
        except PackageNotFoundError:
            continue
        yield found
        waiting += found.requires or []


def copy(found: Distribution, packages: Path) -> None:
    for file in found.files or []:
        source, target = Path(str(found.locate_file(file))), packages / file
        if ".." not in file.parts and source.is_file() and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path / "home")
    del project.env["PYTHONPATH"]
    project.write("src/a.txt", "text of a")
    return project


def run(python: Path, project: Project, code: str) -> Ended:
    tops = "sorted(name.partition('.')[0] for name in sys.modules)"
    return project.run([python, "-c", f"{code}\nimport sys, json\nprint(json.dumps({tops}))"])


def test_the_environment_is_bare(python: Path, project: Project) -> None:
    """The proviso of the other tests: what apt brings cannot be imported in there."""
    for module in ("gi", "nftables", "pydbus.bus"):
        ended = run(python, project, f"import {module}")
        assert ended.code == 1 and "No module named" in ended.err
    where = project.run([python, "-c", "import axonkernel; print(axonkernel.__file__)"])
    assert "/bare env" in where.out and str(REPOSITORY) not in where.out


def test_it_imports(python: Path, project: Project) -> None:
    """And loads none of the libraries that a machine may lack."""
    ended = run(python, project, "import axonkernel")
    assert not FORBIDDEN & set(ended.value)


MEDIATE = """
from axonkernel import Kernel, PolicyDenied, Request
policy = {"isolation": "none", "fs": {"read": ["./src"], "write": ["./out"]},
          "shell": {"allow": ["touch"]}, "tools": {"fs": {"read": True, "write": False}}}
with Kernel(policy, audit="../log") as kernel:
    assert kernel.check(Request.connect("example.org:443")).verdict == "allow"
    assert kernel.check(Request.read("/etc/shadow")).verdict == "deny"
    assert kernel.call_sync("fs.read", path="src/a.txt") == "text of a"
    assert kernel.process.run_sync(["touch", "ran"]).exit_code == 0
    for call in (
        lambda: kernel.call_sync("fs.read", path="/etc/passwd"),
        lambda: kernel.call_sync("fs.write", path="out/x", text="x"),
        lambda: kernel.process.run_sync(["rm", "ran"]),
    ):
        try:
            call()
        except PolicyDenied:
            continue
        raise SystemExit("not denied")
"""


def test_a_kernel_mediates(python: Path, project: Project) -> None:
    """Allowed calls have their effect, denied ones have none."""
    (project.folder / "out").mkdir()
    ended = run(python, project, MEDIATE)
    assert not FORBIDDEN & set(ended.value)
    assert (project.folder / "ran").exists()
    assert not list((project.folder / "out").iterdir())


@pytest.mark.box
@pytest.mark.net
def test_it_boxes_with_the_programs(python: Path, project: Project) -> None:
    """Where bwrap and nft are, the walls stand without a binding."""
    policy = {"fs": {"write": ["./out"]}, "net": {"allow": []}, "env": {"allow": []}}
    body = """
    with socket.socket() as client:
        refused = errno_of(client.connect, ("127.0.0.1", 1)), errno_of(open, "/etc/shadow")
    open("out/mark", "w").close()
    return refused
    """
    project.agent(policy, body)
    ended = project.run([python, "agent.py"])
    assert ended.value == ["ECONNREFUSED", "ENOENT"]
    assert {ended.posture[field] for field in policy} == {"enforced"}
    assert (project.folder / "out" / "mark").exists()


def test_the_command_is_there(python: Path, project: Project) -> None:
    """pip made the script; doctor names the missing bindings and what brings them."""
    script = python.with_name("axonkernel")
    assert project.run([script, "--version"]).out.strip()
    rows = project.run([script, "doctor", "--json"])
    assert "Traceback" not in rows.err
    assert "python3-nftables" in json.dumps(json.loads(rows.out))


def test_the_shim_of_brokered_programs_is_in_the_wheel(python: Path, project: Project) -> None:
    """And can be started: with no supervisor to ask it says so."""
    code = "from axonkernel.box import shim; import os; os.execv(shim.path(), ['git', 'push'])"
    ended = project.run([python, "-c", code])
    assert (ended.code, "no supervisor answers" in ended.err) == (125, True)
