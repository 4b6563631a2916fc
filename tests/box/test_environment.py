"""The environment is built from nothing, and no value lies open on the way in."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from box.boxed import PYTHON, Boxed

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

SECRET = "s3cr3t-7d1e"
READ = ["--read", "."]
SHOW = """
import json, os
print(json.dumps({os.fsdecode(k): os.fsdecode(v) for k, v in os.environb.items()}))
"""
DUMP = [PYTHON, "-ISc", SHOW]


def inside(box: Boxed, *options: str, env: dict[str, str]) -> dict[str, str]:
    run = box.exec(*READ, *options, command=DUMP, env=env)
    assert run.code == 0, run.err
    found: dict[str, str] = json.loads(run.out)
    return found


def test_only_the_floor_and_what_is_let_in(box: Boxed) -> None:
    """Exactly these names; nothing of the supervisor's own environment beside."""
    env = {"TOKEN": SECRET, "OTHER": SECRET, "LD_PRELOAD": "", "PYTHONSTARTUP": SECRET}
    found = inside(box, "--env", "TOKEN", "--set", "MODE=x", env=env)
    assert set(found) == {
        "GIT_PAGER", "GIT_TERMINAL_PROMPT", "HOME", "LANG", "LOGNAME", "MODE", "PAGER", "PATH",
        "PWD", "TMPDIR", "TOKEN", "USER",
    }  # fmt: skip
    assert found["TOKEN"] == SECRET and found["MODE"] == "x"
    assert found["TMPDIR"] == "/tmp" and found["PWD"] == str(box.project)


def test_no_process_of_the_box_shows_more(box: Boxed) -> None:
    """Every /proc/PID/environ in the box, pid 1 and its parents included, lacks the
    supervisor's secrets."""
    code = """
import glob
for path in glob.glob("/proc/[0-9]*/environ"):
    try: print(path, open(path, "rb").read())
    except OSError as error: print(path, error.strerror)
"""
    run = box.exec(*READ, command=[PYTHON, "-ISc", code], env={"TOKEN": SECRET})
    assert run.code == 0 and "/proc/1/environ" in run.text
    assert SECRET not in run.text
    twin = box.exec(*READ, "--env", "TOKEN", command=[PYTHON, "-ISc", code], env={"TOKEN": SECRET})
    assert SECRET in twin.text


HOSTILE = [
    "", " ", "a=b", "line\nbreak", "\t\x01\x7f", "x" * 100_000, "$(id)`id`", "\udcff\udcfe",
    "ünï", "--setenv", '"quoted\'',
]  # fmt: skip


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value[:12]))
def test_values_arrive_as_they_are(box: Boxed, value: str) -> None:
    """Every byte of a value is preserved, whatever it is."""
    found = inside(box, "--env", "ODD", "--env", "odd", env={"ODD": value, "odd": "lower"})
    assert found["ODD"] == value and found["odd"] == "lower"


def test_set_values_arrive_as_they_are(box: Boxed) -> None:
    """``--set`` too, an equals sign in the value included."""
    found = inside(box, "--set", "A=b=c", "--set", "EMPTY=", env={})
    assert (found["A"], found["EMPTY"]) == ("b=c", "")


def test_controls_pass_no_wildcard(box: Boxed, tmp_path: Path) -> None:
    """``*`` lets nothing in that loads code."""
    names = ["LD_LIBRARY_PATH", "PYTHONSTARTUP", "NODE_OPTIONS", "BASH_ENV", "GIT_SSH_COMMAND",
             "GIT_CONFIG_COUNT", "PERL5OPT", "JAVA_TOOL_OPTIONS"]  # fmt: skip
    env = {name: str(tmp_path / "none") for name in names}
    found = inside(box, "--open", "env", env={**env, "PLAIN": "yes"})
    assert found["PLAIN"] == "yes"
    assert not {*names, "PYTHONPATH"} & set(found)


def test_a_dotenv_file_is_not_read(box: Boxed) -> None:
    """Its variables are in no environment."""
    (box.project / ".env").write_text(f"DB={SECRET}\n")
    assert SECRET not in str(inside(box, env={}))


def test_no_value_is_on_a_command_line(box: Boxed) -> None:
    """While a box runs, no process of this machine shows an allowed secret in its arguments,
    and only the box's own processes and the supervisor in their environment."""
    ready = box.project / "out" / "ready"
    code = "import time; open('out/ready', 'w'); time.sleep(30)"
    command = [PYTHON, "-ISc", code]
    box.env["TOKEN"] = SECRET
    options = (*READ, "--write", "./out", "--env", "TOKEN")
    with box.started(*options, command=command) as process:
        deadline = time.monotonic() + 20
        while not ready.exists():
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.02)
        lines, environments = [], []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                lines.append(Path(f"/proc/{pid}/cmdline").read_bytes())
                if SECRET.encode() in Path(f"/proc/{pid}/environ").read_bytes():
                    environments.append(lines[-1])
            except OSError:
                continue
    assert any(code.encode() in line for line in lines)
    assert not [line for line in lines if SECRET.encode() in line]
    assert not [line for line in environments if line.startswith(b"/usr/bin/bwrap")]


def test_no_value_is_in_our_own_files(box: Boxed, box_cache: Path) -> None:
    """Kept plans and records are closed to other users."""
    inside(box, "--env", "TOKEN", env={"TOKEN": SECRET})
    for folder in (box_cache / "axonkernel", box.root / "state"):
        for path in folder.rglob("*"):
            if path.is_file() and SECRET in path.read_text(errors="replace"):
                assert path.stat().st_mode & 0o077 == 0
                assert path.parent.stat().st_mode & 0o077 == 0
