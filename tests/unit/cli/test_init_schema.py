"""``axonkernel init`` and ``axonkernel schema``."""

from __future__ import annotations

import re
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest

from axonkernel.cli import init
from axonkernel.cli.args import drive
from axonkernel.config import machine

from .conftest import Shell


def test_init_writes_a_policy_that_checks_clean(shell: Shell) -> None:
    """The starting policy has no fault and no warning, and denies by default."""
    ended = shell.axonkernel("init")
    assert ended.code == 0
    assert 'default = "deny"' in (shell.folder / "policy.toml").read_text()
    checked = shell.axonkernel("check", "--json").json
    assert checked["faults"] == []
    assert checked["warnings"] == []


def test_every_commented_line_of_the_starting_policy_is_valid(shell: Shell) -> None:
    """A user who only removes the number signs gets a policy that parses."""
    shell.axonkernel("init")
    path = shell.folder / "policy.toml"
    opened = re.sub(r'(?m)^# (?=\[|["*\w]+ = )', "", path.read_text()).splitlines()
    path.write_text("\n".join(opened))
    assert "[shell.args.git]" in opened
    ended = shell.axonkernel("check", "--json")
    assert ended.json["faults"] == []


def test_init_can_write_python(shell: Shell) -> None:
    """--python writes axon.config.py, which compiles."""
    assert shell.axonkernel("init", "--python").code == 0
    text = (shell.folder / "axon.config.py").read_text()
    compile(text, "axon.config.py", "exec")
    assert '"default": "deny"' in text


@pytest.mark.parametrize("taken", ["policy.toml", "policy.json", "axon.config.py"])
def test_init_never_overwrites_nor_adds_a_second_one(shell: Shell, taken: str) -> None:
    """An existing configuration stays as it is, and stays alone."""
    path = shell.write(taken, "mine")
    for words in (["init"], ["init", "--python"]):
        ended = shell.axonkernel(*words)
        assert ended.code == 1
        assert "nothing was written" in ended.out
    assert path.read_text() == "mine"
    assert [entry.name for entry in shell.folder.iterdir()] == [taken]


def test_init_says_what_to_do_about_the_other_configuration(shell: Shell) -> None:
    """Which file to delete or move; none where the very file is there already."""
    shell.write("policy.toml", "mine")
    advice = "delete ./policy.toml or move it elsewhere to have axon.config.py here"
    assert advice in shell.axonkernel("init", "--python").out
    assert "delete" not in shell.axonkernel("init").out


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("there",),
        # Python configuration is evaluated in a box.
        pytest.param(("--python",), marks=pytest.mark.box),
        pytest.param(("--python", "there"), marks=pytest.mark.box),
    ],
    ids=str,
)
def test_the_next_steps_work_as_told(shell: Shell, options: tuple[str, ...]) -> None:
    """The commands that init prints are run in the order it prints them."""
    (shell.folder / "there").mkdir()
    told = re.findall(r"`axonkernel ([^`]+)`", shell.axonkernel("init", *options).out)
    assert [command.split()[0] for command in told] == ["check", "trust"]
    for command in told:
        ended = shell.axonkernel(*command.split())
        assert ended.code == 0, ended.err
        assert "not trusted" not in ended.err


def test_run_beside_a_mere_policy_names_both_ways(shell: Shell) -> None:
    """An agent of its own elsewhere, or a file by its name; nothing runs."""
    shell.write("policy.toml", 'default = "deny"\n')
    assert shell.axonkernel("trust").code == 0
    ended = shell.axonkernel("run", "hello")
    assert (ended.code, ended.out) == (2, "")
    assert "policy.toml holds no agent, only a policy" in ended.err
    assert "in another folder `axonkernel init --python`" in ended.err
    assert "axonkernel run --agent FILE" in ended.err


@pytest.mark.parametrize("missing", ["systemd", ""])
def test_limits_that_the_machine_lacks_are_comments(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a remark that says what is missing; where nothing is, they are in force."""
    monkeypatch.setattr(machine, "lacking_limits", lambda: missing)
    for option, name in (([], "policy.toml"), (["--python"], "axon.config.py")):
        folder = tmp_path / name
        folder.mkdir()
        assert drive(init, "init", [*option, str(folder)]) == 0
        text = (folder / name).read_text()
        assert ("cannot hold these (systemd is missing)" in text) is bool(missing)
        limits = _policy(text, name)["limits"]
        assert limits == {"wall": "30m"} | ({} if missing else CAPS)
        assert max(map(len, text.splitlines())) <= 100


CAPS = {"memory": "2G", "cpu": "100%", "pids": 256}


def _policy(text: str, name: str) -> dict[str, Any]:
    if name == "policy.toml":
        return tomllib.loads(text)
    names: dict[str, Any] = {}
    exec(compile(text, name, "exec"), names)
    data: dict[str, Any] = names["agent"].policy_data
    return data


def test_init_writes_into_a_named_folder(shell: Shell) -> None:
    """And tells as JSON what it wrote."""
    (shell.home / "other").mkdir()
    ended = shell.axonkernel("init", "--json", str(shell.home / "other"))
    path = Path(ended.json["path"])
    assert ended.json["written"] is True
    assert path == shell.home / "other" / "policy.toml"
    assert stat.S_IMODE(path.stat().st_mode) & 0o022 == 0
    assert shell.axonkernel("init", str(shell.home / "gone")).code == 2


def test_schema_is_one_json_document(shell: Shell) -> None:
    """It names the policy's fields."""
    ended = shell.axonkernel("schema")
    assert ended.code == 0
    assert {"fs", "net", "shell", "limits"} <= set(ended.json["properties"])
    assert shell.axonkernel("schema", "--json").out == ended.out
