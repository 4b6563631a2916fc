"""Programs on a hand-made host: names, links, shims, scripts, and what they bring."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from axonkernel.box import find
from axonkernel.box.find import Program, find_program, own_tree, search_path, with_needs
from axonkernel.box.host import Ask, _programs
from axonkernel.policy.model import ShellPolicy


def program(path: Path, text: str = "\x7fELF") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_the_first_on_path_counts(tmp_path: Path) -> None:
    """A bare name by PATH, a path as it is; what cannot be executed is passed over."""
    one, two = program(tmp_path / "one/tool"), program(tmp_path / "two/tool")
    folders = [str(one.parent), str(two.parent)]
    assert find_program("tool", folders) == Program("tool", (), str(one))
    assert find_program(str(two), folders) == Program(str(two), (), str(two))
    one.chmod(0o644)
    assert find_program("tool", folders) == Program("tool", (), str(two))
    assert find_program("nope", folders) is None
    assert find_program(str(tmp_path / "one"), folders) is None


def test_links_are_followed_and_told(tmp_path: Path) -> None:
    """Each step, in order, in real folders: a folder of PATH may itself be a link."""
    real = program(tmp_path / "opt/t/bin/tool-1.2")
    (tmp_path / "opt/t/bin/tool").symlink_to("tool-1.2")
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/tool").symlink_to("../../opt/t/bin/tool")
    (tmp_path / "bin").symlink_to("usr/bin")
    found = find_program("tool", [str(tmp_path / "bin")])
    assert found == Program(
        "tool",
        (
            (str(tmp_path / "usr/bin/tool"), "../../opt/t/bin/tool"),
            (str(tmp_path / "opt/t/bin/tool"), "tool-1.2"),
        ),
        str(real),
    )


def test_a_loop_of_links_is_no_program(tmp_path: Path) -> None:
    """It ends, with nothing."""
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert find_program("a", [str(tmp_path)]) is None


@pytest.fixture
def shims(tmp_path: Path) -> Path:
    root = tmp_path / "env"
    program(root / "shims/tool", "#!/bin/sh\n")
    (root / "versions").mkdir()
    return root


def test_a_shim_is_what_it_starts(shims: Path) -> None:
    """The first version that has the program, by the file of versions."""
    real = program(shims / "versions/2.0/bin/tool")
    (shims / "version").write_text("1.0 2.0\n")
    found = find_program("tool", [str(shims / "shims")])
    assert found is not None
    assert (found.file, found.links) == (str(real), ((str(shims / "shims/tool"), str(real)),))


def test_a_shim_without_its_version_is_no_program(shims: Path) -> None:
    """The next folder of PATH is asked; a folder called shims alone is none."""
    assert find_program("tool", [str(shims / "shims")]) is None
    (shims / "version").write_text("9\n")
    assert find_program("tool", [str(shims / "shims")]) is None
    plain = program(shims.parent / "other/shims/tool")
    assert find_program("tool", [str(plain.parent)]) == Program("tool", (), str(plain))


def test_shims_on_path_are_the_folders_behind_them(shims: Path) -> None:
    """The versions chosen, in order; a version that is not there, or names a path, is none."""
    for version in ("2.0", "1.0", "0.5"):
        program(shims / f"versions/{version}/bin/tool")
    program(shims.parent / "evil/bin/tool")
    wanted = [str(shims / "shims")]
    assert search_path(wanted) == ()
    (shims / "version").write_text("2.0 gone\n1.0 ../../evil\n")
    assert search_path(wanted) == tuple(
        str(shims / f"versions/{version}/bin") for version in ("2.0", "1.0")
    )
    plain = program(shims.parent / "other/shims/tool")
    assert search_path([str(plain.parent)]) == (str(plain.parent),)


def test_what_lies_beside_a_bin_folder(tmp_path: Path) -> None:
    """Its libraries and what marks an environment, where they are there; not the system's."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "bin").mkdir()
    assert tuple(own_tree(f"{tmp_path}/bin")) == (f"{tmp_path}/lib",)
    (tmp_path / "pyvenv.cfg").write_text("")
    both = (f"{tmp_path}/lib", f"{tmp_path}/pyvenv.cfg")
    assert tuple(own_tree(f"{tmp_path}/sbin")) == both
    for folder in (f"{tmp_path}/tools", "/usr/bin", "/usr/local/bin", "/bin"):
        assert tuple(own_tree(folder)) == ()


def test_folders_that_may_name_programs(tmp_path: Path) -> None:
    """Absolute, there, ours, not writable by others or by the agent, once, by real name."""
    good = tmp_path / "good"
    for name in ("good", "open", "ws/out"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to("good")
    wanted = ["relative", ".", "", str(tmp_path / "none"), str(tmp_path / "open"),
              str(tmp_path / "ws/out"), str(tmp_path / "link"), str(good)]  # fmt: skip
    assert search_path(wanted, [str(tmp_path / "ws")]) == (str(good),)
    assert search_path([str(tmp_path / "ws/out")]) == (str(tmp_path / "ws/out"),)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make a foreign folder")
def test_a_foreign_folder_names_no_program(tmp_path: Path) -> None:
    """Of another user than root and this one."""
    os.chown(tmp_path, 4242, 4242)
    assert search_path([str(tmp_path)]) == ()


def names(programs: tuple[Program, ...]) -> dict[str, str]:
    return {os.path.basename(found.name): found.brought_by for found in programs}


def test_a_script_brings_its_interpreter(tmp_path: Path) -> None:
    """The one named by ``#!``, the one behind env, and theirs in turn; who brought it is
    told."""
    folder = str(tmp_path / "bin")
    program(tmp_path / "bin/env")
    program(tmp_path / "bin/interp", f"#!{folder}/base -x\n")
    program(tmp_path / "bin/base")
    program(tmp_path / "bin/tool", f"#!{folder}/env -S interp -y\n")
    start = find_program("tool", [folder])
    assert start is not None
    found, _ = with_needs([start], (folder,))
    assert names(found) == {"tool": "", "env": "tool", "interp": "tool", "base": "tool"}


def test_a_missing_interpreter_is_left_out(tmp_path: Path) -> None:
    """The launch will name it."""
    program(tmp_path / "tool", "#!/nowhere/interp\n")
    start = find_program("tool", [str(tmp_path)])
    assert start is not None
    assert with_needs([start], ()) == ((start,), ())


def test_what_programs_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name of the program, its version cut off; only folders that are there."""
    (tmp_path / "lib/tool3.11").mkdir(parents=True)
    needs = {"tool": (f"{tmp_path}/lib/tool{{version}}", f"{tmp_path}/nowhere", "helper")}
    monkeypatch.setattr(find, "needs_of", lambda stem, there: needs.get(stem, ()))
    program(tmp_path / "bin/tool3.11")
    (tmp_path / "bin/tool").symlink_to("tool3.11")
    program(tmp_path / "bin/helper")
    folder = str(tmp_path / "bin")
    start = find_program("tool", [folder])
    assert start is not None
    found, folders = with_needs([start], (folder,))
    assert names(found) == {"tool": "", "helper": "tool"}
    assert f"{tmp_path}/lib/tool3.11" in folders and f"{tmp_path}/nowhere" not in folders


def test_an_environment_brings_its_own_library(tmp_path: Path) -> None:
    """The lib folder beside a bin folder outside the system's, and what marks a venv."""
    (tmp_path / "venv/lib").mkdir(parents=True)
    (tmp_path / "venv/pyvenv.cfg").write_text("")
    program(tmp_path / "venv/bin/tool")
    start = find_program(str(tmp_path / "venv/bin/tool"), [])
    assert start is not None
    _, folders = with_needs([start], ())
    assert folders == (f"{tmp_path}/venv/lib", f"{tmp_path}/venv/pyvenv.cfg")


def test_a_command_given_by_its_path_is_not_looked_for_on_path(tmp_path: Path) -> None:
    """./file without its mode is no missing name; one that shell.allow names still is."""
    file = tmp_path / "file"
    file.write_text("#!/bin/sh\n")
    ask = Ask("exec", str(tmp_path), str(file))
    assert _programs(ShellPolicy(), ask, ("/usr/bin",))[2] == ()
    granted = ShellPolicy(allow=(str(file),))
    assert _programs(granted, ask, ("/usr/bin",))[2] == (str(file),)
    bare = Ask("exec", str(tmp_path), "no-such-name")
    assert _programs(ShellPolicy(), bare, ("/usr/bin",))[2] == ("no-such-name",)
