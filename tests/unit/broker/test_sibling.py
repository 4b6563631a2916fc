"""The box of a brokered program, read as a value, and what of its caller goes along."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from axonkernel.box.find import Program, find_program
from axonkernel.box.host import Ask
from axonkernel.box.model import BoxPlan, Mount, NetPlan
from axonkernel.broker.asked import asked_env, called
from axonkernel.broker.sibling import Ready, Sibling, sibling
from axonkernel.policy.model import EnvPolicy
from axonkernel.policy.parse import parse
from axonkernel.policy.profiles import SHIPPED

GIT = SHIPPED.of("git")
VI = Program("vi", (("/usr/bin/vi", "vim.basic"),), "/usr/bin/vim.basic")


def made(folder: Path, **blocks: object) -> Sibling:
    """The box of git for a policy that writes ``folder`` and has bash beside it."""
    data = {
        "default": "deny",
        "fs": {"write": [str(folder)]},
        "shell": {"allow": ["git", "bash"], "args": {"git": {"deny": ["push*"]}}},
        **blocks,
    }
    policy = parse(data, base="/", home="/home/ann", source="test").closed()
    git = find_program("git", ("/usr/bin",))
    assert git is not None
    env = {"PATH": "/usr/bin", "HOME": "/home/ann"}
    return sibling(policy, git, Ask("agent", str(folder)), env, None, ("/tmp", "/home/ann"))


def ready(found: Sibling, *words: str, denied: tuple[str, ...] = ()) -> Ready:
    return found.ready(words, {}, lambda name: name not in denied)


def runs(mounts: tuple[Mount, ...]) -> set[str]:
    """Where a file could be started from: folders and files that are no library."""
    kinds = ("bind", "ro-bind", "over", "tmpfs", "lent")
    found = {m.dest for m in mounts if m.kind in kinds and not m.noexec}
    return {path for path in found if "/lib" not in path and not path.startswith("/dev")}


@pytest.mark.box
def test_only_the_program_starts_and_only_from_its_place(tmp_path: Path) -> None:
    """No shell, no other program; grants are noexec; what the agent has of its own is lent."""
    found = made(tmp_path)
    mounts = {mount.dest: mount for mount in found.plan.mounts}
    assert mounts[str(tmp_path)].kind == "bind" and mounts[str(tmp_path)].noexec
    assert "/tmp" in found.lent
    assert all(mounts[path].kind == "lent" for path in found.lent)
    assert "/proc" not in mounts and "/usr/bin/bash" not in mounts
    gates = {path for path, mount in mounts.items() if "/packs." in mount.source}
    assert gates == {"/usr/bin/git", "/usr/bin/sh"}
    starts = runs(found.plan.mounts) - gates
    assert starts <= {"/usr/share/git-core"} | set(found.lent), starts


@pytest.mark.box
def test_each_call_has_its_program_where_nobody_knows(tmp_path: Path) -> None:
    """The file itself is mounted for one call, at a name made up for it."""
    found = made(tmp_path)
    first, second = ready(found, "status"), ready(found, "status")
    assert first.program != second.program
    (place,) = [m for m in first.plan.mounts if m.dest == first.program]
    assert place.source == "/usr/bin/git" and place.kind == "over"
    kinds = [mount.kind for mount in first.plan.mounts]
    assert "remount-ro" not in kinds[: first.plan.mounts.index(place)]
    assert first.env["AXONKERNEL_PROGRAM"] == first.program


@pytest.mark.box
def test_what_is_switched_off_and_what_a_subcommand_is_made_of(tmp_path: Path) -> None:
    """An alias of the very subcommand is empty; parts that a rule is about are left out."""
    found = made(tmp_path)
    env = ready(found, "-C", "x", "push", "origin", denied=("gc",)).env
    assert "'alias.push='" in env["GIT_CONFIG_PARAMETERS"]
    assert "'core.hooksPath=/dev/null'" in env["GIT_CONFIG_PARAMETERS"]
    assert env["AXONKERNEL_CONFIG"] == env["GIT_CONFIG_PARAMETERS"]
    inner = env["AXONKERNEL_INNER"].split()
    assert {"pack-objects", "send-pack"} <= set(inner) and not {"gc", "push", "commit"} & set(inner)
    assert "send-pack" not in ready(found, "status").env["AXONKERNEL_INNER"].split()
    strange = ready(found, "a' 'b").env["GIT_CONFIG_PARAMETERS"]
    assert "'alias.none='" in strange and "a' 'b" not in strange


@pytest.mark.box
def test_only_what_leaves_the_machine_has_a_link(tmp_path: Path) -> None:
    """``git status`` needs none, whatever is granted, and has no name answered; fetch gets the
    one of the policy."""
    found = made(tmp_path, net={"allow": ["198.51.100.1:443", "a.test"], "dns": "open"})
    net = ready(found, "status").plan.net
    assert net == NetPlan() and not net.resolves
    net = ready(found, "fetch").plan.net
    assert net is not None and net.link == "pasta" and net.allow and net.resolves


def test_variables_of_a_caller() -> None:
    """The policy's and harmless ones go along; git's own are judged; loaders never."""
    policy = EnvPolicy(allow=("TOKEN", "CI_*"), unsafe_allow=("GIT_SSL_CAINFO",))
    caller = {
        "TOKEN": "t", "CI_JOB": "7", "SECRET": "s", "LC_ALL": "C", "GIT_AUTHOR_NAME": "A",
        "GIT_DIR": "/x", "GIT_SSL_CAINFO": "/y", "GIT_EDITOR": "vi", "LD_PRELOAD": "/z.so",
        "PATH": "/evil", "HOME": "/evil", "KEPT": "same", "EDITOR": "vi",
    }  # fmt: skip
    found = asked_env(policy, caller, {"KEPT": "same"}, GIT)
    assert found.passed == {
        "TOKEN": "t", "CI_JOB": "7", "LC_ALL": "C", "GIT_AUTHOR_NAME": "A", "GIT_DIR": "/x",
        "GIT_SSL_CAINFO": "/y",
    }  # fmt: skip
    assert found.judged == ("GIT_DIR", "GIT_SSL_CAINFO")
    assert found.dropped == ("EDITOR", "GIT_EDITOR", "LD_PRELOAD", "SECRET")


def test_an_open_environment_passes_all_but_controls() -> None:
    """``env`` not declared, for a program without a profile."""
    found = asked_env(None, {"ANY": "1", "LD_AUDIT": "x", "NODE_OPTIONS": "x"}, {}, None)
    assert (found.passed, found.judged) == ({"ANY": "1"}, ())


def test_no_variable_brings_words_that_nobody_judged() -> None:
    """Options of archivers and packers in the environment do not go along; another name does."""
    caller = dict.fromkeys(("TAR_OPTIONS", "XZ_OPT", "XZ_DEFAULTS", "GZIP", "ZIPOPT"), "-v")
    found = asked_env(None, {**caller, "MODE": "fast"}, {}, None)
    assert found.passed == {"MODE": "fast"} and set(found.dropped) == set(caller)


def test_which_program_a_shim_stands_for() -> None:
    """Its file and one of its own names; a link of the agent's is no name."""
    git = Program("git", (), "/usr/bin/git")
    known = (git, VI)
    assert called(known, "/usr/bin/git", "/usr/bin/git") is git
    assert called(known, "/usr/bin/git", "/bin/git") is git
    assert called(known, "/usr/bin/vim.basic", "/usr/bin/vi") is VI
    assert called(known, "/usr/bin/git", "/tmp/git-push") is None
    assert called(known, "/usr/bin/id", "/usr/bin/git") is None


def test_the_plan_is_one_that_can_be_kept(tmp_path: Path) -> None:
    """A fixed part for all calls: only names that are made up differ."""
    assert shutil.which("git")
    one, two = made(tmp_path).plan, made(tmp_path).plan
    assert isinstance(one, BoxPlan) and one == two
