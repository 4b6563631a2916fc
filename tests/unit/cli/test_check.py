"""``axonkernel check``."""

from __future__ import annotations

import json

import pytest

from axonkernel.box import prepare, probe
from axonkernel.box.probe import NEEDS, Piece, Probe
from axonkernel.config import machine
from axonkernel.policy.parse import parse

from .conftest import Shell

CLOSED = 'default = "deny"\n'


def test_every_fault_is_shown_at_once(shell: Shell) -> None:
    """Exit 78, the message on stderr, each fault with its place."""
    shell.write("policy.toml", 'isolation = "never"\n[limits]\nmemory = "2 potatoes"\n')
    ended = shell.axonkernel("check")
    assert ended.code == 78
    assert ended.out == ""
    assert "2 faults" in ended.err
    assert "$.isolation" in ended.err and "$.limits.memory" in ended.err


def test_faults_as_json(shell: Shell) -> None:
    """With --json stdout is one document, also for a bad policy, and stderr is empty."""
    path = shell.write("policy.json", '{"isolaton": "auto", "limits": {"memory": "x"}}')
    ended = shell.axonkernel("check", "--json")
    assert ended.code == 78
    assert ended.err == ""
    assert {fault["path"] for fault in ended.json["faults"]} == {"$.isolaton", "$.limits.memory"}
    assert str(path) in ended.json["source"]


def test_text_that_does_not_parse_is_a_fault_too(shell: Shell) -> None:
    """As JSON as well."""
    shell.write("policy.toml", "[fs\n")
    ended = shell.axonkernel("check", "--json")
    assert ended.code == 78
    assert "is not TOML" in ended.json["faults"][0]["message"]


def test_a_good_policy_ends_with_zero(shell: Shell) -> None:
    """With its file, its isolation and no warning."""
    path = shell.write("policy.toml", CLOSED)
    ended = shell.axonkernel("check")
    assert ended.code == 0
    assert f"{path}: no faults, 0 warnings; isolation auto" in ended.out


def test_warnings_do_not_fail_unless_asked(shell: Shell) -> None:
    """Blocks left open are a warning: exit 0, or 1 with --strict."""
    shell.write("policy.toml", 'shell = {allow = ["git"]}\n')
    ended = shell.axonkernel("check", "--json")
    assert ended.code == 0
    codes = {(warning["code"], warning["path"]) for warning in ended.json["warnings"]}
    assert ("open", "$.fs") in codes
    assert "warning: $.fs" in shell.axonkernel("check").out
    assert shell.axonkernel("check", "--strict").code == 1
    shell.write("policy.toml", CLOSED)
    assert shell.axonkernel("check", "--strict").code == 0


def test_a_file_can_be_named_in_two_ways(shell: Shell) -> None:
    """FILE and --policy FILE are the same; both at once is wrong usage."""
    shell.write("a.toml", CLOSED)
    for words in (["a.toml"], ["--policy", "a.toml"]):
        ended = shell.axonkernel("check", "--json", *words)
        assert ended.code == 0
        assert ended.json["trusted"] is True
    assert shell.axonkernel("check", "a.toml", "--policy", "a.toml").code == 2


def test_nothing_found_is_not_a_clean_check(shell: Shell) -> None:
    """CI must not take a missing policy for a good one."""
    ended = shell.axonkernel("check")
    assert ended.code == 78
    assert "axonkernel init" in ended.err


def test_an_empty_policy_is_warned_about_or_refused(shell: Shell) -> None:
    """It means unrestricted access: a warning, and a fault where a policy is required."""
    shell.write("policy.toml", "")
    ended = shell.axonkernel("check", "--json")
    assert ended.code == 0
    assert [warning["code"] for warning in ended.json["warnings"]] == ["unrestricted"]
    assert shell.axonkernel("check", AXON_REQUIRE_POLICY="1").code == 78
    assert shell.axonkernel("check", "--require-policy").code == 78


def test_two_policies_in_one_folder(shell: Shell) -> None:
    """The fault names both."""
    shell.write("policy.toml", CLOSED)
    shell.write("policy.json", "{}")
    ended = shell.axonkernel("check")
    assert ended.code == 78
    assert "policy.toml and policy.json" in ended.err


def test_what_the_machine_makes_of_it_is_noted(shell: Shell) -> None:
    """Missing grants, grants of single files and what is protected are told."""
    shell.write("one.txt", "")
    shell.write(
        "policy.json",
        json.dumps({"fs": {"read": ["gone", "one.txt"], "write": ["new"]}, "default": "deny"}),
    )
    notes = "\n".join(shell.axonkernel("check", "--json").json["notes"])
    assert "$.fs.read[0]" in notes and "it is skipped" in notes
    assert "$.fs.read[1]" in notes and "granted as the file it is now" in notes
    assert "$.fs.write[0]" in notes and "it is made, as a folder" in notes
    assert "$.fs.protect" in notes
    assert not (shell.folder / "new").exists()


def test_a_writable_folder_on_the_path_is_noted(shell: Shell) -> None:
    """What the agent can put there, a person would run."""
    bin_folder = shell.folder / "bin"
    bin_folder.mkdir()
    shell.write("policy.json", '{"fs": {"write": ["."]}, "default": "deny"}')
    path = f"{bin_folder}:{shell.env['PATH']}"
    notes = "\n".join(shell.axonkernel("check", "--json", PATH=path).json["notes"])
    assert "is on your PATH" in notes
    notes = "\n".join(shell.axonkernel("check", "--json").json["notes"])
    assert "is on your PATH" not in notes


def test_the_user_s_profile_is_named(shell: Shell) -> None:
    """And a broken one stops the check."""
    folder = shell.home / ".config" / "axonkernel"
    folder.mkdir(parents=True)
    profile = folder / "profile.toml"
    profile.write_text(CLOSED)
    profile.chmod(0o644)
    shell.write("policy.toml", CLOSED)
    assert str(profile) in shell.axonkernel("check").out
    profile.write_text("nonsense = 1\n")
    ended = shell.axonkernel("check")
    assert ended.code == 78
    assert "profile.toml" in ended.err


@pytest.mark.parametrize("name", ["axon.config.py"])
def test_found_python_is_not_run_without_trust(shell: Shell, name: str) -> None:
    """``check`` never runs code nobody has said yes to; the marker stays absent."""
    marker = shell.folder / "ran"
    shell.write(name, f"open({str(marker)!r}, 'w')\n")
    ended = shell.axonkernel("check")
    assert ended.code == 78
    assert "axonkernel trust" in ended.err
    assert not marker.exists()


def lacks(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """This machine without the named pieces."""
    pieces = (
        Piece(name, name not in names, "systemd", "", "get it")
        for name in dict.fromkeys(name for needed in NEEDS.values() for name in needed)
    )
    found = Probe(tuple(pieces))
    monkeypatch.setattr(probe, "probe", lambda *, refresh=False: found)


def test_fields_that_this_machine_would_refuse_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each declared one, with the fix; nothing of what is held, not declared or not walled."""
    policy = parse({"limits": {"memory": "1G", "pids": 9, "wall": "1m"}, "fs": {"read": ["."]}})
    lacks(monkeypatch, "limits")
    notes = machine.refused_notes(policy)
    assert [note.split(":")[0] for note in notes] == ["$.limits.memory", "$.limits.pids"]
    assert all("systemd is missing; fix: get it" in note for note in notes)
    for isolation in ("best-effort", "none"):
        other = parse({"limits": {"memory": "1G"}, "isolation": isolation})
        assert machine.refused_notes(other) == ()
    lacks(monkeypatch)
    assert machine.refused_notes(policy) == ()


def test_a_check_does_not_fail_by_what_it_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that cannot be tried is a note less."""

    def broken(_policy: object) -> dict[str, Piece]:
        raise OSError("no more processes")

    monkeypatch.setattr(prepare, "refused", broken)
    assert machine.refused_notes(parse({"fs": {"read": ["."]}})) == ()
