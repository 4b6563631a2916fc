"""``axonkernel explain --box`` tells what is in the box, and no more: compared with the box."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from box.boxed import PYTHON, Boxed

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

POLICY = """
default = "deny"
[fs]
read = ["./src"]
write = ["./out"]
deny = ["./src/secret"]
[shell]
allow = ["python3", "make", "no-such-program"]
[env]
allow = ["TOKEN"]
set = { GREETING = "hello-5d1" }
[limits]
wall = "30m"
disk = "64M"
"""


@pytest.fixture
def project(box: Boxed) -> Boxed:
    """A project with a policy, a source and a secret in it."""
    (box.project / "src").mkdir()
    (box.project / "src/a").write_text("a")
    (box.project / "src/secret").write_text("s")
    (box.project / "p.toml").write_text(POLICY)
    return box


def explain(box: Boxed, *words: str, policy: str = "p.toml") -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "axonkernel", "explain", "--box", "--policy", policy, *words]
    env = {**box.env, "TOKEN": "token-77e"}
    return subprocess.run(argv, cwd=box.project, env=env, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=60)  # fmt: skip


def described(box: Boxed, policy: str = "p.toml") -> dict[str, Any]:
    done = explain(box, "--json", policy=policy)
    assert done.returncode == 0, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)
    return data


def test_it_is_the_box(project: Boxed) -> None:
    """Programs, variables, files: what is said is what a command in the box finds."""
    told = described(project)
    programs, source, out, secret, policy, env = project.attempts(
        ["names", "/usr/bin"],
        ["read", "src/a"],
        ["write", "out/x"],
        ["read", "src/secret"],
        ["read", "p.toml"],
        ["environment"],
        grants=["--policy", "p.toml"],
        env={"TOKEN": "token-77e"},
    )
    named = {Path(path).name for each in told["programs"]["there"]
             for path in (each["name"], each["file"])}  # fmt: skip
    assert set(programs) == named
    files, root = told["files"], str(project.project)
    assert files["root"] == "empty"
    assert (files["read"], source) == ([f"{root}/src"], "a")
    assert (files["write"], out) == ([f"{root}/out"], "ok")
    assert secret == "EACCES" and f"{root}/src/secret" in files["denied"]
    assert policy == "ENOENT" and f"{root}/p.toml" not in str(files)
    assert {name for names in told["environment"].values() for name in names} == set(env)
    assert told["environment"]["set"] == ["GREETING"]
    assert told["environment"]["allowed"] == ["TOKEN"]


def test_every_path_of_it_is_there(project: Boxed) -> None:
    """Nothing is listed that a box does not have; the folders of programs included."""
    told = described(project)
    files = told["files"]
    paths = [*files["read"], *files["write"], *files["system"], *told["programs"]["folders"]]
    paths += [item["path"] for item in files["private"]]
    kinds = project.attempts(*(["kind", path] for path in paths), grants=["--policy", "p.toml"])
    assert dict(zip(paths, kinds, strict=True)) == {
        path: kind for path, kind in zip(paths, kinds, strict=True) if kind.startswith("0o")
    }


def test_who_brought_a_program(project: Boxed) -> None:
    """make brings sh, and says so here and in the posture; who lists sh is told nothing."""
    told = described(project)
    brought = {each["name"]: each["brought_by"] for each in told["programs"]["there"]}
    assert brought["make"] is None and brought["sh"] == "make"
    assert told["programs"]["missing"] == ["no-such-program"]

    def note(*names: str) -> str:
        allowed = [word for name in names for word in ("--allow", name)]
        run = project.exec("--read", ".", *allowed, command=[PYTHON, "-c", ""])
        (row,) = [row for row in run.status["posture"] if row["field"] == "shell"]
        return str(row["note"])

    assert note("make") == "sh is there for make"
    assert note("make", "sh") == note("python3") == ""


def test_the_text_for_people(project: Boxed) -> None:
    """No value of a variable, every heading, a missing program, lines that fit a terminal."""
    done = explain(project)
    assert done.returncode == 0, done.stderr
    assert "hello-5d1" not in done.stdout and "token-77e" not in done.stdout
    for part in ("files: what is not listed does not exist", "(needed by make)", "GREETING",
                 "a loopback of its own and nothing else", "1800 s", "ptrace", "64 MiB",
                 "note: shell.allow no-such-program"):  # fmt: skip
        assert part in done.stdout, part
    rows = [line for line in done.stdout.splitlines() if line.startswith("  ")]
    assert rows and max(map(len, rows)) <= max(97, 20 + len(str(project.project)))


def test_open_blocks_are_told(project: Boxed) -> None:
    """What a policy leaves to the host is said plainly."""
    (project.project / "open.toml").write_text('isolation = "auto"\n')
    text = explain(project, policy="open.toml").stdout
    for part in ("files: the whole tree of the host", "programs: all of the host's",
                 "environment: all variables, secrets included", "network: the host's own",
                 "limits: none"):  # fmt: skip
        assert part in text, part
    assert described(project, "open.toml")["programs"]["wall"] is False


@pytest.mark.requires("net")
def test_the_network_is_told_as_it_is_granted(project: Boxed) -> None:
    """Addresses, names and how they are told apart, what is denied, ports of the host; a word
    that stands for many networks is told as that word."""
    (project.project / "net.toml").write_text(
        '[net]\nallow = ["api.test", "9.9.9.9:53/udp", "public:22"]\nlisten = [8080]\n'
        'deny = ["old.test", "8.8.8.8"]\n'
    )
    told = described(project, "net.toml")["network"]
    assert told["allow"] == ["9.9.9.9:53/udp", "public:22/tcp"]
    assert told["names"] == ["api.test:443/tcp", "*:22/tcp"] and told["names_by"] == "address"
    assert told["deny"] == ["8.8.8.8:443/tcp", "old.test:443/tcp"] and told["listen"] == [8080]
    text = explain(project, policy="net.toml").stdout
    assert "9.9.9.9:53/udp, public:22/tcp" in text and "(by address)" in text and "8080" in text


def test_without_a_box_there_is_nothing_to_tell(project: Boxed) -> None:
    """A policy that asks for none is a fault with the fix; a request is still a request."""
    (project.project / "none.toml").write_text('isolation = "none"\n')
    done = explain(project, policy="none.toml")
    assert done.returncode == 78 and "there is no box" in done.stderr
    assert explain(project, "--read", "src/a").stdout.startswith("allow")


def test_a_wall_this_machine_lacks(project: Boxed) -> None:
    """Where exec would refuse, the rest is told, and the refusal first."""
    (project.project / "p.toml").write_text(POLICY + 'memory = "1G"\n')
    told = described(project)
    refused = [each["field"] for each in told["refused"]]
    run = project.exec("--policy", "p.toml", command=[PYTHON, "-c", ""])
    assert (run.code != 0) == bool(refused), run.err
    assert told["limits"]["memory_bytes"] == 1 << 30 and os.path.isdir(told["files"]["read"][0])
