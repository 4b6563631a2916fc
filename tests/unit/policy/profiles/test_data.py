"""The profile files: every one is valid, listed, and says what its meaning needs."""

from __future__ import annotations

import copy
import tomllib
from pathlib import Path
from typing import Any

import pytest

import axonkernel.policy.profiles as profiles
from axonkernel.policy.profiles import SHIPPED, Profiles, make_profile, needs_of, shipped_names
from axonkernel.policy.profiles.schema import faults, json_schema

FOLDER = Path(profiles.__file__).parent / "data"
FILES = sorted(path.stem for path in FOLDER.glob("*.toml") if path.stem != "index")


def data(name: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / f"{name}.toml").read_text())


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_valid(name: str) -> None:
    """No unknown key, no option that is described and not declared, no broken pattern."""
    assert faults(data(name), named=False) == ()


def test_the_index_names_every_file_once() -> None:
    """A file that the index does not list would never be read."""
    index = data("index")
    assert sorted(index) == FILES
    names = [name for listed in index.values() for name in listed]
    assert len(names) == len(set(names))
    assert all(SHIPPED.of(name) is not None for name in names)


def test_files_stay_small() -> None:
    """A profile is knowledge that a person reads, not a program."""
    assert all(len((FOLDER / f"{name}.toml").read_text().splitlines()) < 500 for name in FILES)


@pytest.mark.parametrize(
    ("program", "resolved", "name"),
    [
        ("git", None, "git"),
        ("/usr/bin/git", None, "git"),
        ("./git", None, "git"),
        ("python3.12", None, "python"),
        ("gcc-12", None, "gcc"),
        ("gawk", None, "awk"),
        ("awk", "/usr/bin/mawk", "awk"),
        ("e", "/usr/bin/vim.basic", "vim"),
        ("ls", "/usr/bin/ls", None),
        ("git-x", None, None),
        ("", None, None),
        ("../data/git", None, "git"),
        ("index", None, None),
    ],
)
def test_a_profile_is_found_by_any_name(program: str, resolved: str | None, name: str) -> None:
    """By its own name, without a version, then by the file it stands for."""
    found = SHIPPED.of(program, resolved)
    assert (found.name if found else None) == name


def test_the_programs_of_the_design_have_one() -> None:
    """Those that agents use to run and write things."""
    named = """git ssh scp rsync find xargs tar zip sed awk sort grep rg env timeout nice nohup
    stdbuf setsid sudo busybox curl wget less man vim dd tee make npm docker sqlite3"""
    assert set(named.split()) <= set(shipped_names())


def test_interpreters_are_known_as_such() -> None:
    """Their arguments are code: a grant by name alone says nothing about them."""
    for name in "python3 node perl ruby bash sh php lua make npm docker npx".split():
        found = SHIPPED.of(name)
        assert found is not None and found.kind == "interpreter", name
    for name in ("git", "env", "tar"):
        found = SHIPPED.of(name)
        assert found is not None and found.kind != "interpreter"


def test_what_programs_need_in_a_box_is_in_their_profile() -> None:
    """git cannot do anything without its own programs."""
    assert "/usr/lib/git-core" in needs_of("git")
    assert needs_of("grep") == needs_of("nothing-of-this-name") == ()


def test_what_is_needed_beside_another_program() -> None:
    """git's scripts call sed, and are for nothing where no shell is."""
    assert "sed" in needs_of("git", {"sh"}) and "sed" not in needs_of("git", {"git"})


GOOD = {
    "names": ["mytool"],
    "options": "-x=,--exec= -o=,--out= -v",
    "hazards": {"--exec": "runs a program"},
    "roles": {"-o": "write"},
    "operands": "read*",
}


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"hazard": ""}, "$.hazard"),
        ({"unknown": 1}, "$.unknown"),
        ({"hazards": {"--exek": "x"}}, "$.hazards"),
        ({"hazards": {"-x": 5}}, "$.hazards.-x"),
        ({"roles": {"-o": "writes"}}, "$.roles.-o"),
        ({"roles": {"-p": "write"}}, "$.roles"),
        ({"safe": {"-x": "["}}, "$.safe.-x"),
        ({"operands": "read* write*"}, "$.operands"),
        ({"operands": "reed"}, "$.operands"),
        ({"options": "-x,,"}, "$.options"),
        ({"options": "-x --exec= -o= -x"}, "$.options"),
        ({"options": ["-x"]}, "$.options"),
        ({"stop": -1}, "$.stop"),
        ({"stop": True}, "$.stop"),
        ({"feeds": "yes"}, "$.feeds"),
        ({"kind": "shell"}, "$.kind"),
        ({"style": "go"}, "$.style"),
        ({"needs": "sh"}, "$.needs"),
        ({"beside": {"sh": "sed"}}, "$.beside.sh"),
        ({"names": []}, "$.names"),
        ({"names": ["a/b"]}, "$.names[0]"),
        ({"when": [{"options": "-q"}]}, "$.when[0].options"),
        ({"when": [{"options": "-v", "extra": 1}]}, "$.when[0].extra"),
        ({"when": {}}, "$.when"),
        ({"sub": {"run": {"kind": "wrapper"}}}, "$.sub.run.kind"),
        ({"sub": {"run": "x"}}, "$.sub.run"),
        ({"operand_hazards": {"(": "x"}}, "$.operand_hazards"),
        ({"keys": {"-x": {"hazard": {}}}}, "$.keys.-x.hazard"),
    ],
)
def test_every_fault_of_a_file_is_found(change: dict[str, Any], where: str) -> None:
    """With its place; the same file without the change has none."""
    assert faults(GOOD, named=True) == ()
    found = faults({**copy.deepcopy(GOOD), **change}, named=True)
    assert where in [fault.path for fault in found]


def test_all_faults_are_told_at_once() -> None:
    """A person mends a file in one go."""
    assert len(faults({"a": 1, "b": 2, "kind": "c"}, named=True)) == 4
    assert faults([], named=True) and faults(None, named=False)


def test_the_json_schema_knows_every_key() -> None:
    """Editors complete what the check accepts."""
    properties = json_schema()["properties"]
    for name in FILES:
        assert set(data(name)) <= set(properties), name


def test_an_added_profile_comes_before_a_shipped_one() -> None:
    """A user knows their own git better."""
    added = Profiles([make_profile({**GOOD, "names": ["mytool", "git"]})])
    found, other = added.of("git"), added.of("tar")
    assert found is not None and found.name == "mytool"
    assert other is not None and other.name == "tar"
