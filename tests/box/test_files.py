"""The file wall: what is not granted does not exist, what is denied cannot be touched."""

from __future__ import annotations

import itertools
import os
import socket
import sys
from pathlib import Path

import pytest

from box.boxed import PYTHON, Boxed
from lab.user import OrdinaryUser

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

KEY = "KEY-51c0"
GRANTS = ["--read", ".", "--write", "./out", "--deny", "./secret.txt"]


def tree(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Every name below a folder with its mode, size and change time."""
    found = {}
    for where, folders, files in os.walk(folder):
        for name in (*folders, *files, "."):
            status = os.lstat(f"{where}/{name}")
            found[f"{where}/{name}"] = (status.st_mode, status.st_size, status.st_mtime_ns)
    return found


def test_errnos_of_the_file_wall(box: Boxed) -> None:
    """ENOENT for what is not granted, EACCES for denied reads, EROFS for writes to either a
    read grant or a mask; the granted twins work and nothing else changed on the host."""
    (box.root / "outside.txt").write_text("outside")
    outside = str(box.root / "outside.txt")
    before = tree(box.project)
    answers = box.attempts(
        ["read", "a.txt"],
        ["read", "secret.txt"],
        ["read", outside],
        ["read", "/etc/shadow"],
        ["write", "a.txt"],
        ["write", "b.txt"],
        ["write", "secret.txt"],
        ["write", "/etc/new"],
        ["write", "out/new.txt", "made inside"],
        ["read", "out/new.txt"],
        ["unlink", "secret.txt"],
        ["rename", "secret.txt", "out/secret"],
        ["link", "secret.txt", "out/secret"],
        ["unlink", "a.txt"],
        ["link", "a.txt", "out/a"],
        ["chmod", "a.txt", 0o777],
        grants=GRANTS,
    )
    assert answers == [
        "text of a",
        "EACCES",
        "ENOENT",
        "ENOENT",
        "EROFS",
        "EROFS",
        "EROFS",
        "EROFS",
        "ok",
        "made inside",
        "EROFS",
        "EXDEV",
        "EXDEV",
        "EROFS",
        "EXDEV",
        "EROFS",
    ]
    (box.project / "out" / "new.txt").unlink()
    after = tree(box.project)
    for folder in (f"{box.project}/out", f"{box.project}/out/."):
        before.pop(folder, None)
        after.pop(folder, None)
    assert after == before


def test_a_mask_inside_a_write_grant_stays(box: Boxed) -> None:
    """The denied name cannot be removed, moved, replaced or exchanged; its neighbour can."""
    answers = box.attempts(
        ["unlink", "secret.txt"],
        ["rename", "secret.txt", "moved"],
        ["rename", "a.txt", "secret.txt"],
        ["call", 316, -100, "a.txt", -100, "secret.txt", 2],  # renameat2, RENAME_EXCHANGE
        ["link", "secret.txt", "linked"],
        ["chmod", "secret.txt", 0o644],
        ["read", "secret.txt"],
        ["rename", "a.txt", "b.txt"],
        grants=["--write", ".", "--deny", "./secret.txt"],
    )
    assert answers == ["EBUSY", "EBUSY", "EBUSY", "EBUSY", "EXDEV", "EROFS", "EACCES", "ok"]
    assert (box.project / "secret.txt").read_text() == KEY
    assert (box.project / "b.txt").read_text() == "text of a"


@pytest.mark.parametrize("grants", [["--open", "fs"], ["--write", "."]], ids=" ".join)
def test_the_kernels_own_files_cannot_be_written(box: Boxed, grants: list[str]) -> None:
    """Root in a box without capabilities would still own /proc/sys and /sys (uid 0)."""
    answers = box.attempts(
        ["append", "/proc/sys/kernel/core_pattern", ""],
        ["append", "/proc/sysrq-trigger", ""],
        ["append", "/sys/kernel/mm/transparent_hugepage/enabled", ""],
        ["make", "/sys/fs/cgroup/axonbox"],
        ["append", "/proc/self/comm", ""],
        grants=grants,
        cwd="/" if grants[0] == "--open" else None,
    )
    assert set(answers[:4]) <= {"EROFS", "ENOENT", "EACCES"}
    assert answers[4] == "ok"


def test_the_host_is_not_there(box: Boxed) -> None:
    """A box with one grant has no home, no users, no /srv, no other processes, no sockets."""
    secret = box.home / "id_rsa"
    secret.write_text(KEY)
    root, home, opt, proc, run, passwd = box.attempts(
        ["names", "/"],
        ["names", str(box.home)],
        ["names", "/srv"],
        ["names", "/proc"],
        ["names", "/run"],
        ["read", "/etc/passwd"],
        grants=["--read", "./a.txt"],
    )
    assert set(root) <= {
        "bin", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "proc", "root", "run",
        "sbin", "tmp", "usr", "var",
    }  # fmt: skip
    assert home in ([], "ENOENT")
    assert opt == "ENOENT"
    assert len([name for name in proc if name.isdigit()]) <= 3
    assert run == []
    assert len(passwd.splitlines()) == 2


@pytest.mark.parametrize(
    "order", list(itertools.permutations(range(4))), ids=lambda order: "".join(map(str, order))
)
def test_the_deepest_line_wins_in_every_order(box: Boxed, order: tuple[int, ...]) -> None:
    """read . / write a/b / deny a/b/c / write a/b/c/d hold however they are listed."""
    (box.project / "a/b/c/d").mkdir(parents=True)
    (box.project / "a/b/c/hidden").write_text(KEY)
    lines = [("--read", "."), ("--write", "a/b"), ("--deny", "a/b/c"), ("--write", "a/b/c/d")]
    answers = box.attempts(
        ["write", "a/x"],
        ["write", "a/b/x"],
        ["read", "a/b/c/hidden"],
        ["write", "a/b/c/x"],
        ["write", "a/b/c/d/x"],
        grants=[word for at in order for word in lines[at]],
    )
    assert answers == ["EROFS", "ok", "ENOENT", "EROFS", "ok"]
    assert sorted(str(path.relative_to(box.project)) for path in box.project.rglob("x")) == [
        "a/b/c/d/x",
        "a/b/x",
    ]


def test_read_inside_write_is_read_only(box: Boxed) -> None:
    """A read grant below a write grant takes the writing back, for files and folders."""
    (box.project / "out/kept").mkdir()
    answers = box.attempts(
        ["write", "out/kept/x"],
        ["write", "out/x"],
        ["rename", "out/kept", "out/other"],
        grants=["--write", ".", "--read", "./out/kept"],
    )
    assert answers == ["EROFS", "ok", "EBUSY"]
    assert not (box.project / "out/kept/x").exists()


LAYOUTS = ["link-outside", "dangling", "link-in-parent", "relative-chain", "loop"]


def lay_out(box: Boxed, layout: str) -> Path:
    """A link named ``cfg`` in the project, and the file it stands for."""
    outside = box.root / "outside"
    outside.mkdir()
    target = outside / "cfg"
    target.write_text("configured")
    link = box.project / "cfg"
    if layout == "link-outside":
        link.symlink_to(target)
    elif layout == "dangling":
        target = outside / "nothing"
        link.symlink_to(target)
    elif layout == "link-in-parent":
        (box.project / "etc").symlink_to(outside)
        link = box.project / "etc" / "cfg"
    elif layout == "relative-chain":
        (box.project / "hop").symlink_to("../outside/cfg")
        link.symlink_to("hop")
    else:
        link.symlink_to("cfg")
    return link


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("grant", ["--read", "--deny"])
def test_symlinked_paths_never_stop_a_box(box: Boxed, layout: str, grant: str) -> None:
    """A listed path that is a link is resolved once; the box starts in all five layouts, a
    granted link reads its target and a denied one does not."""
    link = lay_out(box, layout)
    readable = layout not in ("dangling", "loop")
    whole = ["--read", "."] if grant == "--deny" else ["--read", "./a.txt"]
    # Where the target is not granted itself, a deny has nothing to take out.
    outside = ["--read", str(box.root / "outside")] if grant == "--deny" else []
    first, second = box.attempts(
        ["read", "a.txt"], ["read", str(link)], grants=[*whole, *outside, grant, str(link)]
    )
    assert first == "text of a"
    if grant == "--read" and readable:
        real = os.path.realpath(link)
        assert box.attempts(["read", real], grants=["--read", str(link)]) == ["configured"]
    else:
        assert second != "configured"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_link_may_be_a_write_grant_or_protected(box: Boxed, layout: str) -> None:
    """Links under ``fs.protect`` names inside a write grant do not stop the box either."""
    link = lay_out(box, layout)
    os.symlink(link, box.project / ".bashrc")
    (box.project / ".git").mkdir()
    os.symlink(link, box.project / ".git" / "config")
    answers = box.attempts(["write", "new.txt", "x"], grants=["--write", "."])
    assert answers == ["ok"]
    assert (box.project / "new.txt").read_text() == "x"


def test_a_missing_write_folder_is_made_and_a_missing_read_path_skipped(box: Boxed) -> None:
    """The first is made with mode 0755 and reported, the second warned about."""
    os.umask(0o077)
    run = box.exec(
        "--write", "./new/dir", "--read", "./absent", command=["/usr/bin/touch", "new/dir/x"]
    )
    os.umask(0o022)
    assert run.code == 0, run.err
    assert (box.project / "new/dir/x").exists()
    assert (box.project / "new/dir").stat().st_mode & 0o777 == 0o755
    assert f"{box.project}/absent does not exist; skipped" in run.err
    assert f"{box.project}/new/dir does not exist; made" in run.err
    assert (box.project / "new").stat().st_mode & 0o777 == 0o755
    assert not (box.project / "absent").exists()


def test_protected_files_are_read_only_inside_write_grants(box: Boxed) -> None:
    """Hooks, shell start-up files and policies stay as they are, the rest is writable; no
    rename of a folder above them undoes it."""
    hooks = box.project / "sub/.git/hooks"
    hooks.mkdir(parents=True)
    (hooks / "pre-commit").write_text("#!/bin/sh\n")
    for name in (".bashrc", "policy.toml", "axon.config.py"):
        (box.project / name).write_text("# mine")
    answers = box.attempts(
        ["write", "sub/.git/hooks/pre-commit", "evil"],
        ["write", "sub/.git/hooks/post-commit", "evil"],
        ["append", ".bashrc", "evil"],
        ["write", "policy.toml", "evil"],
        ["write", "axon.config.py", "evil"],
        ["rename", "sub", "sub2"],
        ["rename", "sub/.git", "sub/git2"],
        ["rename", "out/x", ".bashrc"],
        ["unlink", "policy.toml"],
        ["write", "sub/file", "fine"],
        ["write", "sub/.git/index", "fine"],
        ["read", ".bashrc"],
        grants=["--write", "."],
    )
    assert answers[:5] == ["EROFS"] * 5
    assert answers[5:7] == ["EBUSY", "EBUSY"]
    assert answers[7] in ("ENOENT", "EBUSY")
    assert answers[8] == "EBUSY"
    assert answers[9:] == ["ok", "ok", "# mine"]
    assert [path.name for path in hooks.iterdir()] == ["pre-commit"]
    assert (hooks / "pre-commit").read_text() == "#!/bin/sh\n"


ALIASES = [
    "/proc/self/root{}",
    "/proc/self/cwd/secret.txt",
    "/proc/1/root{}",
    "/proc/thread-self/root{}",
    "{}/../secret.txt/../secret.txt",
    "//{}",
    "/proc/self/cwd/../project/secret.txt",
    "/dev/fd/9{}",
]


@pytest.mark.parametrize("alias", ALIASES)
def test_a_second_name_shows_the_masked_view(box: Boxed, alias: str) -> None:
    """No spelling through /proc, /dev or .. reaches a denied file; its neighbour is reached
    by the same spelling where that spelling exists."""
    denied = alias.format(box.project / "secret.txt")
    granted = denied.replace("secret.txt", "a.txt")
    first, second, third = box.attempts(
        ["read", denied], ["read", granted], ["write", denied], grants=GRANTS
    )
    assert first in ("EACCES", "ENOENT", "ENOTDIR")
    assert third != "ok"
    if alias in ("/proc/self/root{}", "/proc/self/cwd/secret.txt", "//{}"):
        assert second == "text of a"
    assert (box.project / "secret.txt").read_text() == KEY


def test_a_hard_link_out_of_a_read_grant_is_refused(box: Boxed) -> None:
    """EXDEV across grants; links inside one write grant work."""
    answers = box.attempts(
        ["link", "a.txt", "out/a"],
        ["write", "out/one", "1"],
        ["link", "out/one", "out/two"],
        grants=GRANTS,
    )
    assert answers == ["EXDEV", "ok", "ok"]
    assert os.stat(box.project / "out/two").st_nlink == 2


def test_a_second_hard_link_of_a_denied_file_is_masked_too(box: Boxed) -> None:
    """Another name of a denied file among the grants does not show it."""
    os.link(box.project / "secret.txt", box.project / "innocent.txt")
    answers = box.attempts(["read", "innocent.txt"], ["read", "a.txt"], grants=GRANTS)
    assert answers == ["EACCES", "text of a"]


@pytest.mark.parametrize("count", [0, 1, 2, 500])
def test_any_number_of_masked_files(box: Boxed, count: int) -> None:
    """0, 1, 2 and 500 denied files, among folders, links, fifos and sockets."""
    folder = box.project / "many"
    folder.mkdir()
    for n in range(count):
        (folder / f"{n}.key").write_text(KEY)
    (folder / "open.txt").write_text("open")
    (folder / "dir.key").mkdir()
    (folder / "dir.key" / "in").write_text(KEY)
    os.mkfifo(folder / "fifo.key")
    (folder / "link.key").symlink_to("dir.key/in")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(folder / "s.key"))
        server.listen()
        code = f"""
import json, os
def read(p):
    try: return open(p).read()
    except OSError as e: return e.errno
print(json.dumps([read(f"many/{{n}}.key") for n in range({count})]))
print(open("many/open.txt").read(), os.path.isdir("many/dir.key"), read("many/dir.key/in"))
"""
        run = box.exec("--read", ".", "--deny", "**/*.key", command=[PYTHON, "-ISc", code])
    assert run.code == 0, run.err
    listed, rest = run.text.splitlines()
    assert listed == str([13] * count)
    assert rest.split()[0] == "open" and KEY not in run.text
    assert rest.split()[2] in ("2", "13")


@pytest.mark.parametrize("grant", ["--deny", "--read"])
def test_a_link_that_leads_elsewhere_later(box: Boxed, grant: str) -> None:
    """The second run of one command line follows the link as it is by then, whatever was
    kept of the first."""
    link = box.project / "link"
    for name, other in (("one", "two"), ("two", "one")):
        (box.project / name).write_text(name)
        (box.project / other).write_text(other)
        link.unlink(missing_ok=True)
        link.symlink_to(name)
        grants = ["--read", ".", "--deny", "./link"] if grant == "--deny" else ["--read", "./link"]
        first, second = box.attempts(["read", name], ["read", other], grants=grants)
        assert (first, second) == (("EACCES", other) if grant == "--deny" else (name, "ENOENT"))


def test_a_hard_link_made_later_is_denied_too(box: Boxed) -> None:
    """Also when the plan of the same command line was kept from before."""
    for name in ("one.txt", "two.txt"):
        os.link(box.project / "secret.txt", box.project / name)
        answers = box.attempts(
            ["read", name], ["read", "a.txt"], grants=["--read", ".", "--deny", "./secret.txt"]
        )
        assert answers == ["EACCES", "text of a"]


def test_scratch_space_is_private_and_capped(box: Boxed, tmp_path: Path) -> None:
    """The host's /tmp is invisible, the box's has a size, what is written there is gone, and
    names planted on the host mean nothing."""
    marker = Path("/tmp", f"axonbox-host-{os.getpid()}")
    marker.write_text("of the host")
    try:
        names, reading, planted, written = box.attempts(
            ["names", "/tmp"],
            ["read", str(marker)],
            ["write", str(marker), "inside"],
            ["size", "/tmp/big", 64 << 20],
            grants=["--read", "./a.txt", "--limit", "disk=16M"],
        )
        assert marker.read_text() == "of the host"
    finally:
        marker.unlink()
    assert marker.name not in names and reading == "ENOENT" and planted == "ok"
    assert 8 << 20 <= written <= 16 << 20
    (first,) = box.attempts(["names", "/tmp"], grants=["--read", "/usr/share/zoneinfo"])
    assert first == []


@pytest.mark.parametrize("grants", [[], ["--open", "fs"], ["--read", "/"]], ids=str)
def test_our_own_records_do_not_exist_in_any_box(box: Boxed, grants: list[str]) -> None:
    """The state and cache folders are hidden whatever is granted; the folder beside is not."""
    state = box.root / "state" / "axonkernel"
    state.mkdir(exist_ok=True)
    (state / "audit.jsonl").write_text(KEY)
    (box.root / "state" / "other").write_text("other")
    asked = [["read", str(state / "audit.jsonl")], ["write", str(state / "new")],
             ["names", str(state)]]  # fmt: skip
    answers = box.attempts(*asked, grants=["--read", str(box.root / "state" / "other"), *grants])
    assert KEY not in str(answers) and "audit" not in str(answers)
    assert answers[1] != "ok"
    assert sorted(path.name for path in state.iterdir()) == ["audit.jsonl"]


def test_an_open_file_system_still_has_the_common_walls(box: Boxed) -> None:
    """With ``fs`` open the host's files are there, its processes, /run and /tmp are not."""
    marker = box.root / "marker"
    run, proc, wrote = box.attempts(
        ["names", "/run"],
        ["names", "/proc"],
        ["read", "/etc/hostname"],
        grants=["--open", "fs"],
        cwd="/",
    )
    assert run == [] and len([name for name in proc if name.isdigit()]) <= 3
    assert wrote == Path("/etc/hostname").read_text()
    assert not marker.exists()


def test_a_deny_that_covers_a_whole_grant(box: Boxed) -> None:
    """A denied folder is empty and closed, also for what is below it."""
    (box.project / "dir").mkdir()
    (box.project / "dir/x").write_text(KEY)
    answers = box.attempts(
        ["read", "dir/x"],
        ["names", "dir"],
        ["write", "dir/y"],
        ["read", "a.txt"],
        grants=["--write", ".", "--deny", "./dir"],
    )
    assert answers[0] in ("EACCES", "ENOENT")
    assert answers[1] in ("EACCES", [])
    assert answers[2] in ("EROFS", "EACCES")
    assert answers[3] == "text of a"
    assert [path.name for path in (box.project / "dir").iterdir()] == ["x"]


def test_ten_thousand_grants_are_no_trouble_for_the_command_line(box: Boxed) -> None:
    """Long lists go through a descriptor, and are collapsed to what is not covered."""
    for n in range(300):
        (box.project / f"f{n}").write_text(f"{n}")
    grants = [word for n in range(300) for word in ("--read", f"./f{n}")]
    answers = box.attempts(["read", "f299"], ["read", "a.txt"], grants=["--read", ".", *grants])
    assert answers == ["299", "text of a"]


@pytest.mark.deep
def test_five_thousand_masks(box: Boxed) -> None:
    """Each file that a pattern matches is masked, however many there are, and none beside."""
    folder = box.project / "many"
    folder.mkdir()
    for n in range(5000):
        (folder / f"{n}.key").write_text(KEY)
    (folder / "open").write_text("open")
    look = (
        "import os\n"
        "read = refused = 0\n"
        "for name in os.listdir('many'):\n"
        "    try: read += len(open(f'many/{name}').read())\n"
        "    except PermissionError: refused += 1\n"
        "print(read, refused)"
    )
    grants = ["--read", ".", "--deny", "./many/*.key"]
    run = box.exec(*grants, command=[PYTHON, "-ISc", look])
    assert (run.code, run.text) == (0, "4 5000\n"), run.err
    twin = box.exec("--read", ".", command=[PYTHON, "-ISc", look])
    assert (twin.code, twin.text) == (0, f"{4 + 5000 * len(KEY)} 0\n"), twin.err


def test_write_grants_that_cannot_be_made(box: Boxed) -> None:
    """Below a file, and at a link that leads nowhere: an error with the path, or a folder where
    the link leads; never a grant that silently is not there."""
    (box.project / "file").write_text("x")
    run = box.exec("--write", "file/below", command=["/bin/true"])
    assert run.code == 125 and f"{box.project}/file/below" in run.err
    assert "Traceback" not in run.err
    (box.project / "link").symlink_to("target")
    (wrote,) = box.attempts(["write", "link/x"], grants=["--read", ".", "--write", "link"])
    assert wrote == "ok" and (box.project / "target/x").read_text() == "x"


@pytest.mark.root
def test_a_write_grant_where_the_user_may_make_nothing(
    ordinary_user: OrdinaryUser, box_cache: Path
) -> None:
    """The start fails and names the path; nothing was run, and nothing made."""
    root = ordinary_user.home / "work"
    root.mkdir()
    box = Boxed(root, box_cache)
    box.project.chmod(0o755)
    words = ["axonkernel", "exec", "--read", ".", "--write", "new", "--", "touch", "/tmp/x"]
    env = {name: box.env[name] for name in ("PATH", "PYTHONPATH")}
    for folder in (ordinary_user.home, root):
        folder.chmod(0o755)
    done = ordinary_user.run([sys.executable, "-m", *words], cwd=box.project, env=env)
    assert done.returncode == 125 and f"{box.project}/new" in done.stderr, done.stderr
    assert "cannot be made" in done.stderr and not (box.project / "new").exists()


def test_a_denied_path_stays_denied_in_the_next_run(box: Boxed) -> None:
    """Folders above a denied path cannot be moved, by which the file would lie at a name that
    nobody denied. Above one that a pattern denies they can: it is denied wherever it goes."""
    for name in ("named/deep/key", "by-pattern/deep/a.secret"):
        path = box.project / name
        path.parent.mkdir(parents=True)
        path.write_text(KEY)
    grants = ["--write", ".", "--deny", "./named/deep/key", "--deny", "./**/*.secret"]
    moved = [["rename", "named", "m1"], ["rename", "named/deep", "named/m2"]]
    assert box.attempts(*moved, ["write", "named/deep/new", "x"], grants=grants) == [
        "EBUSY", "EBUSY", "ok"
    ]  # fmt: skip
    assert box.attempts(["rename", "by-pattern", "m3"], grants=grants) == ["ok"]
    read = [["read", "named/deep/key"], ["read", "m3/deep/a.secret"], ["read", "named/deep/new"]]
    assert box.attempts(*read, grants=grants) == ["EACCES", "EACCES", "x"]
