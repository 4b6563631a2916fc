"""The program wall: only what is allowed exists, by whatever name and from whatever caller."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from axonkernel import Kernel, PolicyDenied
from box.boxed import PYTHON, Boxed

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

READ = ["--read", "."]
MISSING = "ENOENT"


def test_an_ungranted_program_is_not_there(box: Boxed) -> None:
    """subprocess of a program that is not allowed is ENOENT, by name and by path, with exec
    and without; an allowed one runs."""
    answers = box.attempts(
        ["spawn", "id"],
        ["spawn", "/usr/bin/id"],
        ["spawn", "/bin/id"],
        ["execute", "/usr/bin/id"],
        ["read", "/usr/bin/id"],
        ["spawn", "sh", "-c", "exit 0"],
        ["spawn", "perl", "-e", "1"],
        ["spawn", "uname"],
        grants=[*READ, "--allow", "uname"],
    )
    assert answers[:7] == [MISSING] * 7
    assert answers[7][:2] == [0, "Linux\n"]


@pytest.mark.parametrize("grant", ["/", "/usr", "/usr/bin", "/bin"])
def test_no_file_grant_brings_a_program_back(box: Boxed, grant: str) -> None:
    """Reading all of the host does not make its programs exist; allowed ones still run."""
    options = [*READ, "--read", grant, "--allow", "uname"]
    denied, allowed = box.attempts(["spawn", "/usr/bin/id"], ["spawn", "uname"], grants=options,
                                   cwd="/" if grant == "/" else None)  # fmt: skip
    assert denied == MISSING
    assert allowed[:2] == [0, "Linux\n"]


def test_an_open_file_system_keeps_the_program_wall(box: Boxed) -> None:
    """With ``fs`` open the bin folders hold the allowed programs only."""
    denied, allowed, names = box.attempts(
        ["spawn", "/usr/bin/id"],
        ["spawn", "uname"],
        ["write", "/usr/bin/new"],
        grants=["--open", "fs", "--allow", "uname"],
        cwd="/",
    )
    assert denied == MISSING and allowed[0] == 0
    assert names == "EROFS" and not os.path.exists("/usr/bin/new")


def test_only_the_allowed_names_are_listed(box: Boxed) -> None:
    """The bin folder of the box holds what was allowed, what that needs, and nothing else."""
    (names,) = box.attempts(["names", "/usr/bin"], grants=[*READ, "--allow", "uname"])
    assert set(names) <= {"uname", "python3", Path(PYTHON).resolve().name}


def test_helpers_among_the_libraries_are_not_there(box: Boxed) -> None:
    """Programs that live under /usr/lib are programs too."""
    answers = box.attempts(
        ["names", "/usr/lib/apt"],
        ["names", "/usr/lib/git-core"],
        ["names", "/usr/lib/jvm"],
        ["names", "/usr/lib/gcc"],
        ["names", "/usr/libexec"],
        grants=READ,
    )
    assert answers == [MISSING] * 5


def test_deny_beats_allow(box: Boxed, tmp_path: Path) -> None:
    """A program both allowed and denied does not exist, also where the list is a pattern or
    allows everything."""
    policy = tmp_path / "p.toml"
    for allow, grant in (('["un*", "id"]', True), ("true", False)):
        policy.write_text(
            f'default = "deny"\n[fs]\nread = ["{box.project}"]\n'
            f'[shell]\nallow = {allow}\ndeny = ["id", "uname"]\n'
        )
        denied, also, allowed = box.attempts(
            ["spawn", "id"],
            ["spawn", "/usr/bin/uname"],
            ["spawn", "uniq", "--version"],
            grants=["--policy", str(policy)],
        )
        # A pattern's program is not there; one taken out of an open list cannot be run.
        assert denied == (MISSING if grant else "EACCES"), allow
        assert also == (MISSING if grant else "EACCES"), allow
        assert allowed[0] == 0


def test_a_copy_of_a_program_needs_a_write_grant(box: Boxed) -> None:
    """The wall hides the host's programs; it does not stop code the agent wrote itself, and
    what it says is no more than that."""
    answers = box.attempts(
        ["write", "out/tool", "#!/bin/sh\nexit 0\n"],
        ["chmod", "out/tool", 0o755],
        ["spawn", "./out/tool"],
        grants=[*READ, "--write", "./out"],
    )
    assert answers == ["ok", "ok", MISSING]  # its interpreter is not there


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def local_link(root: Path) -> tuple[str, str]:
    """A link in ~/.local/bin to a program in ~/.local/opt."""
    real = root / "opt/tool-1.2/bin/tool"
    real.parent.mkdir(parents=True)
    shutil.copy("/usr/bin/printf", real)
    (root / "bin").mkdir()
    (root / "bin/tool").symlink_to("../opt/tool-1.2/bin/tool")
    return "tool", str(root / "bin")


def shim(root: Path) -> tuple[str, str]:
    """A version manager's shim."""
    real = root / "env/versions/9.9/bin/tool"
    real.parent.mkdir(parents=True)
    shutil.copy("/usr/bin/printf", real)
    (root / "env/version").write_text("9.9\n")
    script(root / "env/shims/tool", "#!/usr/bin/env bash\nexec pyenv exec tool\n")
    return "tool", str(root / "env/shims")


def absolute(root: Path) -> tuple[str, str]:
    """A program named by its path, on no PATH."""
    (root / "deep").mkdir()
    shutil.copy("/usr/bin/printf", root / "deep/tool")
    return str(root / "deep/tool"), "/usr/bin"


def shell_script(root: Path) -> tuple[str, str]:
    """A script that brings its shell."""
    script(root / "bin/tool", '#!/bin/sh\nprintf "$@"\n')
    return "tool", str(root / "bin")


def env_script(root: Path) -> tuple[str, str]:
    """``#!/usr/bin/env`` with an interpreter elsewhere on PATH."""
    (root / "node").mkdir()
    shutil.copy("/usr/bin/dash", root / "node/interp")
    script(root / "bin/tool", '#!/usr/bin/env interp\nprintf "$@"\n')
    return "tool", f"{root}/bin:{root}/node"


def venv(root: Path) -> tuple[str, str]:
    """A virtual environment's console script, over its Python, over the system's."""
    subprocess.run(
        [PYTHON, "-m", "venv", "--without-pip", root / "venv"], check=True, capture_output=True
    )
    script(
        root / "venv/bin/tool",
        f"#!{root}/venv/bin/python\nimport sys, mod\n"
        "assert sys.prefix.endswith('/venv')\nsys.stdout.write(mod.said(sys.argv[1]))\n",
    )
    (library,) = (root / "venv/lib").glob("python*/site-packages")
    (library / "mod.py").write_text("def said(text): return text\n")
    return "tool", str(root / "venv/bin")


def package(root: Path) -> tuple[str, str]:
    """A link into a folder of packages, as npm and nvm make it; it reads the files beside."""
    home = root / "versions/v9/lib/packages/tool"
    beside = f"{home.parent}/other/said"
    script(home / "cli", f'#!/bin/sh\nread -r line < {beside}\nprintf %s "$line"\n')
    (home.parent / "other").mkdir()
    (home.parent / "other/said").write_text("said\n")
    (root / "versions/v9/bin").mkdir()
    (root / "versions/v9/bin/tool").symlink_to("../lib/packages/tool/cli")
    return "tool", f"{root}/versions/v9/bin"


def opt(root: Path) -> tuple[str, str]:
    """A program of /opt's kind: a link into a folder of its own with its libraries."""
    script(root / "opt/tool-2/bin/tool", '#!/bin/sh\n. "${0%/*}/../lib/said"\n')
    (root / "opt/tool-2/lib").mkdir()
    (root / "opt/tool-2/lib/said").write_text("printf said\n")
    return f"{root}/opt/tool-2/bin/tool", "/usr/bin"


LAYOUTS = [local_link, shim, absolute, shell_script, env_script, venv, package, opt]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("how", ["allowed", "command"])
def test_programs_in_unusual_places(
    box: Boxed, layout: Callable[[Path], tuple[str, str]], how: str
) -> None:
    """Links, shims, scripts, environments: allowed or as the command itself they bring what
    they need; not allowed they do not exist."""
    folder = box.root / "tools"
    folder.mkdir()
    name, path = layout(folder)
    env = {"PATH": f"{path}:/usr/bin"}
    if how == "command":
        run = box.exec(*READ, command=[name, "said"], env=env)
        assert (run.code, run.text) == (0, "said"), run.err
        return
    (said,) = box.attempts(["spawn", name, "said"], grants=[*READ, "--allow", name], env=env)
    assert said[:2] == [0, "said"], said
    (twin,) = box.attempts(["spawn", name, "said"], grants=READ, env=env)
    assert twin in (MISSING, "EACCES")


def managed(root: Path) -> str:
    """A version manager's shims for a program that reads a file beside its bin folder."""
    version = root / "env/versions/9.9"
    (version / "lib").mkdir(parents=True)
    (version / "lib/greeting").write_text("said")
    script(
        version / "bin/tool",
        '#!/bin/sh\nread -r line < "${0%/bin/*}/lib/greeting"; printf %s "$line"\n',
    )
    (root / "env/version").write_text("9.9\n")
    script(root / "env/shims/tool", "#!/bin/sh\necho the shim itself\n")
    return str(root / "env/shims")


def test_shims_without_a_program_wall(box: Boxed) -> None:
    """Where ``shell`` is left open and ``fs`` is not, a version manager's program works: its
    real folder is on PATH, and its libraries are there, as its own."""
    env = {"PATH": f"{managed(box.root)}:/usr/bin:/bin"}
    policy = box.root / "p.toml"
    policy.write_text(f'[fs]\nread = ["{box.project}"]\n')
    run = box.exec("--policy", policy, command=["tool"], env=env)
    assert (run.code, run.text) == (0, "said"), run.err
    (said, path) = box.attempts(
        ["spawn", "tool"], ["spawn", "sh", "-c", "command -v tool"],
        grants=["--policy", policy], env=env,
    )  # fmt: skip
    assert said[:2] == [0, "said"]
    assert path[1].strip() == f"{box.root}/env/versions/9.9/bin/tool"
    (shims,) = box.attempts(
        ["names", f"{box.root}/env/shims"], grants=["--policy", policy], env=env
    )
    assert shims == MISSING


def test_a_folder_the_agent_writes_names_no_program(box: Boxed) -> None:
    """A program planted in a writable folder of PATH does not stand in for the allowed one."""
    script(box.project / "out/uname", "#!/bin/sh\necho planted\n")
    options = [*READ, "--write", "./out", "--allow", "uname", "--allow", "sh"]
    env = {"PATH": f"{box.project}/out:/usr/bin"}
    (said,) = box.attempts(["spawn", "uname"], grants=options, env=env)
    assert said[:2] == [0, "Linux\n"]


def test_git_and_its_own_helpers(box: Boxed) -> None:
    """git brings git-core and no shell."""
    version, shell, core = box.attempts(
        ["spawn", "git", "--version"],
        ["spawn", "sh", "-c", "exit"],
        ["names", "/usr/lib/git-core"],
        grants=[*READ, "--allow", "git"],
    )
    assert version[0] == 0 and version[1].startswith("git version")
    assert shell == MISSING and "git-upload-pack" in core


def test_a_denied_program_is_brought_by_none(box: Boxed) -> None:
    """make needs sh and brings it, unless the policy denies sh, by that name or its file's."""
    policy = box.root / "p.toml"
    for deny, there in (("", [0, "", ""]), ('"sh"', MISSING), ('"dash", "bash"', MISSING)):
        policy.write_text(
            f'default = "deny"\n[fs]\nread = ["{box.project}"]\n'
            f'[shell]\nallow = ["make"]\ndeny = [{deny}]\n'
        )
        sh, make = box.attempts(
            ["spawn", "/bin/sh", "-c", "exit"], ["spawn", "make", "-v"],
            grants=["--policy", str(policy)],
        )  # fmt: skip
        assert sh == there and make[0] == 0, deny


def test_a_missing_allowed_program_is_a_warning(box: Boxed) -> None:
    """It is named on stderr, and the box starts without it."""
    run = box.exec(*READ, "--allow", "no-such-program-here", command=["/usr/bin/uname"])
    assert (run.code, run.out) == (0, b"Linux\n")
    assert "no-such-program-here" in run.err


def test_the_missing_interpreter_of_an_allowed_script_is_a_warning(box: Boxed) -> None:
    """Of either spelling, by name, before anything runs; one that is there is not mentioned."""
    script(box.root / "bin/one", "#!/nowhere/interp\n")
    script(box.root / "bin/two", "#!/usr/bin/env no-such-interp\n")
    script(box.root / "bin/three", "#!/bin/sh\n")
    options = [word for name in ("one", "two", "three") for word in ("--allow", name)]
    env = {"PATH": f"{box.root}/bin:/usr/bin:/bin"}
    run = box.exec(*READ, *options, command=["/usr/bin/uname"], env=env)
    assert run.code == 0
    assert "shell.allow one: its interpreter /nowhere/interp is not on this machine" in run.err
    assert "shell.allow two: its interpreter no-such-interp is not on this" in run.err
    assert "three" not in run.err


def test_the_missing_interpreter_is_named(box: Boxed) -> None:
    """A script whose interpreter is not there says so instead of `not found`."""
    tool = script(box.project / "tool", "#!/nowhere/interp\n")
    run = box.exec(*READ, command=[str(tool)])
    assert run.code == 126
    assert "interpreter" in run.err and "/nowhere/interp" in run.err


def test_a_program_of_the_workspace_is_no_allowed_one(box: Boxed) -> None:
    """``allow = ["uname"]`` admits no file of that name elsewhere: the kernel refuses it by its
    path and runs the real one by its name, from inside the folder too; a path that is listed
    itself runs."""
    planted = script(box.project / "out/uname", f"#!/bin/sh\n: > {box.project}/out/MARK\n")
    marker = box.project / "out/MARK"
    policy = {"default": "deny", "fs": {"write": ["./out"]}, "shell": {"allow": ["uname"]}}
    with Kernel(policy, cwd=box.project, audit=box.root / "log") as kernel:
        for words in (["./out/uname"], [str(planted)], ["out/../out/uname"]):
            with pytest.raises(PolicyDenied) as denied:
                kernel.process.run_sync(words)
            assert denied.value.code == "shell.program"
        assert kernel.process.run_sync(["uname"], cwd="out").stdout == b"Linux\n"
    assert not marker.exists()
    listed = {**policy, "shell": {"allow": ["uname", str(planted), "sh"]}}
    with Kernel(listed, cwd=box.project, audit=box.root / "log") as kernel:
        assert kernel.process.run_sync([str(planted)]).exit_code == 0
    assert marker.exists()
