"""The keeper: masks come back, absent names are held, host sockets are closed, nothing stays."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from box.boxed import INSIDE, PYTHON, Boxed
from lab.user import OrdinaryUser

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

KEY = "KEY-51c0"
#: Attempts of inside.py, one list of them a line, for as long as the test wants.
ASKED = (
    INSIDE.partition('if __name__ == "__main__":')[0]
    + "\nprint('ready', flush=True)\nfor line in sys.stdin:\n"
    + "    print(json.dumps([outcome(*one) for one in json.loads(line)]), flush=True)\n"
)


class Inside:
    """A box that runs on while the host changes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        assert process.stdout is not None and process.stdin is not None
        line = process.stdout.readline()
        assert line == b"ready\n", (line, process.stderr and process.stderr.read())

    def attempts(self, *attempts: list[Any]) -> list[Any]:
        """What came of each."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(attempts).encode() + b"\n")
        self.process.stdin.flush()
        answers: list[Any] = json.loads(self.process.stdout.readline())
        return answers

    def until(self, attempt: list[Any], wanted: Any) -> bool:
        """Whether an attempt comes to answer so: what the keeper does takes its moment."""
        return soon(lambda: self.attempts(attempt) == [wanted])

    def end(self) -> int:
        """Let it end by itself; its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(30)


@contextlib.contextmanager
def inside(box: Boxed, *grants: str) -> Iterator[Inside]:
    """A box with these grants, open to attempts."""
    with box.started(*grants, command=[PYTHON, "-ISc", ASKED]) as process:
        yield Inside(process)


def soon(holds: Callable[[], bool], within_s: float = 20.0) -> bool:
    """Whether something becomes true in time."""
    deadline_s = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.005)
    return True


def save(path: Path, text: str) -> None:
    """As editors do: another file takes the name."""
    new = path.with_name("saved.tmp")
    new.write_text(text)
    new.rename(path)


def tree(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Mode, size and change time of everything in a folder, itself included."""
    found = {}
    for path in (folder, *folder.rglob("*")):
        status = path.lstat()
        found[str(path)] = (status.st_mode, status.st_size, status.st_mtime_ns)
    return found


def repository(box: Boxed, *, hooks: bool = False) -> Path:
    """The project as a git repository with one commit."""
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@x", "-C", str(box.project)]
    for words in (["init", "-q"], ["add", "a.txt"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True, env=box.env)
    if not hooks:
        subprocess.run(["rm", "-rf", str(box.project / ".git/hooks")], check=True)
    return box.project / ".git"


# -- names that do not exist -------------------------------------------------------------------


def test_absent_names_cannot_be_made(box: Boxed) -> None:
    """A denied literal, one in a folder that is missing too, and what makes a repository run
    programs; their neighbours can be made, and the host is as before."""
    git = repository(box)
    before = tree(box.project)
    answers = box.attempts(
        ["write", ".env", "evil"],
        ["rename", "a.txt", ".env"],
        ["symlink", "a.txt", ".env"],
        ["read", ".env"],
        ["unlink", ".env"],
        ["write", "conf/prod/key", "evil"],
        ["rename", "conf", "conf2"],
        ["rename", "conf/prod", "conf/prod2"],
        ["write", ".git/commondir", "../elsewhere"],
        ["make", ".git/hooks/x"],
        ["write", ".git/hooks/pre-commit", "evil"],
        ["rename", ".git", "git2"],
        ["rename", ".git/hooks", ".git/hooks2"],
        ["rename", "out", "out2"],
        ["rename", "out2", "out"],
        grants=["--write", ".", "--deny", "./.env", "--deny", "./conf/prod/key"],
    )
    assert answers == [
        "EROFS", "EBUSY", "EEXIST", "EACCES", "EBUSY",
        "EROFS", "EBUSY", "EBUSY",
        "EROFS", "EROFS", "EROFS", "EBUSY", "EBUSY",
        "ok", "ok",
    ]  # fmt: skip
    after = tree(box.project)
    assert after.keys() == before.keys()
    # Two renames have touched the project's own time.
    moved = {str(box.project), str(box.project / "out")}
    assert {k: v for k, v in after.items() if k not in moved} == {
        k: v for k, v in before.items() if k not in moved
    }
    assert not (git / "commondir").exists()


def test_what_an_agent_makes_in_a_missing_folder_stays(box: Boxed) -> None:
    """A denied name in a missing folder does not keep the folder from being used."""
    answers = box.attempts(
        ["write", "conf/mine", "mine"],
        ["write", "conf/key", "evil"],
        grants=["--write", ".", "--deny", "./conf/key"],
    )
    assert answers == ["ok", "EROFS"]
    assert [path.name for path in (box.project / "conf").iterdir()] == ["mine"]


def test_git_works_beside_its_stubs(box: Boxed) -> None:
    """In a repository without hooks: status is clean, commit, worktree and clone work; outside
    too while the box runs."""
    repository(box)
    command = """
        read x; git status --short && echo b > b.txt && git add b.txt &&
        git -c user.name=n -c user.email=e@x commit -qm two && git worktree add -q ./out/wt &&
        git clone -q . out/clone && git log --oneline | wc -l && git init -q out/new &&
        git -C out/new config user.name n && echo done"""
    (box.project / ".git/info").mkdir(exist_ok=True)
    (box.project / ".git/info/exclude").write_text("out\nsecret.txt\n")
    grants = ["--write", ".", "--open", "shell"]
    with box.started(*grants, command=["/bin/sh", "-c", command]) as process:
        assert soon((box.project / ".git/commondir").exists)
        status = subprocess.run(
            ["git", "-C", str(box.project), "status", "--short"],
            env=box.env,
            capture_output=True,
            text=True,
        )
        out, err = process.communicate(b"\n", 60)
    assert (status.returncode, status.stdout, status.stderr) == (0, "", "")
    assert out.decode().split() == ["2", "done"], err
    assert not (box.project / ".git/commondir").exists()


def test_two_boxes_hold_one_absent_name(box: Boxed) -> None:
    """The first to end leaves the stub to the other, the last removes it."""
    before = tree(box.project)
    grants = ["--write", ".", "--deny", "./.env"]
    with inside(box, *grants) as one, inside(box, *grants) as two:
        assert one.attempts(["read", ".env"]) == two.attempts(["read", ".env"]) == ["EACCES"]
        assert one.end() == 0
        assert (box.project / ".env").exists()
        assert two.attempts(["write", ".env"])[0] != "ok"
        assert two.end() == 0
    assert tree(box.project) == before


def test_the_host_may_remove_and_make_a_held_name(box: Boxed) -> None:
    """A denied file that the host removes is held all the same; one that it makes in place of a
    stub is masked, and is the host's afterwards."""
    with inside(box, "--write", ".", "--deny", "./secret.txt", "--deny", "./.env") as held:
        (box.project / "secret.txt").unlink()
        assert soon((box.project / "secret.txt").exists)
        assert held.until(["write", "secret.txt", "evil"], "EROFS")
        save(box.project / ".env", KEY)
        assert held.until(["read", ".env"], "EACCES")
        assert held.end() == 0
    assert not (box.project / "secret.txt").exists()
    assert (box.project / ".env").read_text() == KEY


# -- names that the host replaces --------------------------------------------------------------


@pytest.mark.parametrize("grant", ["--read", "--write"])
def test_a_mask_comes_back_after_the_host_saves(box: Boxed, grant: str) -> None:
    """By rename, by unlink and write, in a folder that is replaced; what is not denied is seen
    as the host leaves it."""
    (box.project / "sub").mkdir()
    (box.project / "sub/secret.txt").write_text(KEY)
    denied = ["--deny", "./secret.txt", "--deny", "./sub/secret.txt"]
    with inside(box, grant, ".", *denied) as held:
        for n in range(3):
            save(box.project / "secret.txt", f"{KEY} {n}")
            assert held.until(["read", "secret.txt"], "EACCES")
        (box.project / "secret.txt").unlink()
        (box.project / "secret.txt").write_text(KEY) if grant == "--read" else save(
            box.project / "secret.txt", KEY
        )
        assert held.until(["read", "secret.txt"], "EACCES")
        (box.project / "sub").rename(box.project / "old")
        (box.project / "sub").mkdir()
        (box.project / "sub/secret.txt").write_text(KEY)
        assert held.until(["read", "sub/secret.txt"], "EACCES")
        save(box.project / "a.txt", "new text")
        assert held.attempts(["read", "a.txt"]) == ["new text"]
        assert held.end() == 0
    assert (box.project / "secret.txt").read_text() == KEY


def test_a_protection_comes_back_after_the_host_saves(box: Boxed) -> None:
    """git config on the host replaces .git/config; the box still cannot write it. The folder
    above may be replaced as well."""
    git = repository(box, hooks=True)
    with inside(box, "--write", ".") as held:
        assert held.attempts(["append", ".git/config"]) == ["EROFS"]
        subprocess.run(
            ["git", "-C", str(box.project), "config", "x.y", "z"], check=True, env=box.env
        )
        assert held.until(["append", ".git/config", ""], "EROFS")
        assert "[x]" in held.attempts(["read", ".git/config"])[0]
        hooks = git / "hooks"
        hooks.rename(git / "hooks.old")
        hooks.mkdir(exist_ok=True)
        assert held.until(["chmod", ".git/hooks", 0o755], "EROFS")
        assert held.attempts(["write", ".git/hooks/pre-commit", "evil"]) == ["EROFS"]
        assert held.end() == 0
    assert not list(hooks.glob("pre-commit"))


def test_a_descriptor_taken_meanwhile_ends_the_box(box: Boxed) -> None:
    """A file that the box holds open for writing and the host gives a protected name: the
    mount would not stop that descriptor. One that is open for reading is no matter."""
    repository(box, hooks=True)
    for flags, code in ((os.O_RDONLY, 0), (os.O_RDWR, 137)):
        (box.project / "config.new").write_text("[core]\n\tbare = false\n")
        with inside(box, "--write", ".") as held:
            assert held.attempts(["hold", "config.new", flags]) == ["ok"]
            (box.project / "config.new").rename(box.project / ".git/config")
            if code:
                assert held.process.wait(30) == code
            else:
                assert held.until(["append", ".git/config", ""], "EROFS")
                assert held.end() == code


def test_a_read_grant_inside_a_write_grant_comes_back(box: Boxed) -> None:
    """A vendored folder that the host replaces stays read-only."""
    (box.project / "vendor").mkdir()
    with inside(box, "--write", ".", "--read", "./vendor") as held:
        (box.project / "vendor").rename(box.project / "vendor.old")
        (box.project / "vendor").mkdir()
        assert held.until(["chmod", "vendor", 0o755], "EROFS")
        assert held.attempts(["write", "vendor/x"]) == ["EROFS"]
        assert held.end() == 0


def test_a_pattern_is_kept_fresh(box: Boxed) -> None:
    """A file that the host makes or moves in during the run and that matches is masked, also in
    a folder that is new; others are seen."""
    with inside(box, "--read", ".", "--deny", "**/*.key") as held:
        (box.project / "late.key").write_text(KEY)
        assert held.until(["read", "late.key"], "EACCES")
        (box.project / "deep/er").mkdir(parents=True)
        (box.project / "deep/er/in.key").write_text(KEY)
        assert held.until(["read", "deep/er/in.key"], "EACCES")
        outside = box.root / "moved"
        outside.mkdir()
        (outside / "x.key").write_text(KEY)
        (outside / "x.txt").write_text("text")
        outside.rename(box.project / "moved")
        assert held.until(["read", "moved/x.key"], "EACCES")
        assert held.attempts(["read", "moved/x.txt"]) == ["text"]
        assert held.end() == 0


def test_what_the_keeper_did_is_told(box: Boxed) -> None:
    """Restored masks, and names that something outside will run or obey, made by the agent."""
    run_code = "import os; os.mkdir('.vscode'); input(); open('.envrc', 'w').write('evil')"
    command = [PYTHON, "-ISc", run_code]
    read, write = os.pipe()
    grants = ["--write", ".", "--deny", "./secret.txt", "--json-status", str(write)]
    with box.started(*grants, command=command, pass_fds=(write,)) as process:
        os.close(write)
        assert soon((box.project / ".vscode").exists)
        save(box.project / "secret.txt", KEY)
        _, err = process.communicate(b"\n", 30)
    with open(read) as status:
        kept = json.load(status)["kept"]
    at = f"{box.project}/"
    assert process.returncode == 0 and sorted(kept) == [
        ["mask.restored", f"{at}secret.txt"],
        ["name.made", f"{at}.envrc"],
        ["name.made", f"{at}.vscode"],
    ], kept
    text = err.decode()
    assert f"new since the start, and run or obeyed outside: {at}.vscode, {at}.envrc" in text


@pytest.mark.parametrize("open_net", [False, True])
def test_names_in_new_folders_are_told(box: Boxed, open_net: bool) -> None:
    """Repositories made by the agent, with a net wall or without, also by renaming a folder;
    one that was there is not told of."""
    hooks = box.project / "there" / ".git" / "hooks"
    hooks.mkdir(parents=True)
    code = "import os; os.makedirs('new/.git/hooks'); open('new/.git/hooks/x', 'w'); input()"
    code += "; os.makedirs('more/.config/systemd/user'); os.rename('new', 'newer')"
    grants = ["--write", ".", *(["--open", "net"] if open_net else [])]
    run = box.exec(*grants, command=[PYTHON, "-ISc", code], input=b"\n")
    assert run.code == 0, run.err
    told = {path.removeprefix(f"{box.project}/") for what, path in run.status["kept"]}
    # It may have been renamed before anybody looked.
    assert told - {"new/.git/hooks"} == {"more/.config/systemd", "newer/.git/hooks"}
    assert "more/.config/systemd" in run.err


def test_what_a_pattern_denies_in_a_folder_made_anew_is_masked_and_told(box: Boxed) -> None:
    """What the agent writes there is its own, is covered a moment later, and is named."""
    (box.project / "sub").mkdir()
    (box.project / "sub" / "key").write_text(KEY)
    code = (
        "import os, time; os.rename('sub', 'old'); os.mkdir('sub')\n"
        "try: open('sub/key', 'w').write('mine')\n"
        "except OSError: pass\n"
        "end = time.monotonic() + 20\n"
        "while os.access('sub/key', os.R_OK) and time.monotonic() < end: time.sleep(0.01)\n"
        "print(os.access('sub/key', os.R_OK), os.access('old/key', os.R_OK))"
    )
    run = box.exec("--write", ".", "--deny", "./**/key", command=[PYTHON, "-ISc", code])
    assert (run.code, run.text) == (0, "False False\n"), run.err
    covered = [path for what, path in run.status["kept"] if what.startswith("mask.")]
    assert covered == [f"{box.project}/sub/key"]
    assert f"covered a moment later: {box.project}/sub/key" in run.err
    assert (box.project / "old" / "key").read_text() == KEY


def test_another_hard_link_of_a_protected_file_is_protected(box: Boxed) -> None:
    """Also of one in a protected folder; a file without such a name is written."""
    hooks = box.project / ".git" / "hooks"
    hooks.mkdir(parents=True)
    (hooks / "pre-push").write_text("as it was")
    (box.project / ".envrc").write_text("as it was")
    os.link(hooks / "pre-push", box.project / "hook")
    os.link(box.project / ".envrc", box.project / "env")
    (box.project / "free").write_text("as it was")
    tries = [["write", name, "x"] for name in ("hook", "env", "free")]
    answers = box.attempts(*tries, grants=["--write", "."])
    assert answers[:2] == ["EROFS", "EROFS"] and answers[2] not in ("EROFS", "EACCES")
    assert (hooks / "pre-push").read_text() == (box.project / ".envrc").read_text() == "as it was"
    assert (box.project / "free").read_text() == "x"


def test_the_keepers_own_files_lie_where_no_name_leads(box: Boxed) -> None:
    """Kernels before 6.15 clone only what is attached: it is, below a folder that is there."""
    (box.project / "key").write_text(KEY)
    code = "import os; print(os.listdir('/var/tmp')); open('/var/tmp/x', 'w').write('1');"
    code += "print(open('/proc/self/mountinfo').read())"
    run = box.exec("--write", ".", "--deny", "key", command=[PYTHON, "-ISc", code])
    listed, _, mounts = run.text.partition("\n")
    places = [line.split()[4] for line in mounts.splitlines() if line]
    assert (run.code, listed) == (0, "[]") and places.count("/var/tmp") == 3, run.err


# -- links -------------------------------------------------------------------------------------


def test_a_protected_name_that_is_a_link_cannot_be_turned(box: Boxed) -> None:
    """The link is neither removed nor replaced; what it leads to is read through it, and the
    file itself is read-only where it lies in a grant."""
    outside = box.root / "outside"
    outside.mkdir()
    (outside / "rc").write_text("# far")
    (box.project / "real").write_text("# near")
    (box.project / ".bashrc").symlink_to("real")
    (box.project / ".zshrc").symlink_to(outside / "rc")
    (box.project / ".profile").symlink_to("nowhere")
    before = tree(box.project)
    tries = [
        [["unlink", name], ["rename", "a.txt", name], ["write", name, "evil"]]
        for name in (".bashrc", ".zshrc", ".profile")
    ]
    answers = box.attempts(
        ["read", ".bashrc"], ["append", "real", "evil"], *(one for each in tries for one in each),
        grants=["--write", "."],
    )  # fmt: skip
    assert answers[:2] == ["# near", "EROFS"]
    assert all(answer in ("EBUSY", "EROFS", "EACCES") for answer in answers[2:]), answers
    assert tree(box.project) == before
    assert (outside / "rc").read_text() == "# far"


def test_no_call_gives_a_denied_file_a_second_name(box: Boxed) -> None:
    """link, linkat through a descriptor, rename, exchange, and a folder above it moved; the
    same calls work on the neighbour."""
    linkat, renameat2, follow = 265, 316, 0x400
    (box.project / "sub").mkdir()
    (box.project / "sub/.envrc").write_text(KEY)
    spelled = f"/proc/self/root{box.project}/secret.txt"
    answers = box.attempts(
        ["link", "secret.txt", "two"],
        ["call", linkat, -100, spelled, -100, "three", follow],
        ["rename", "secret.txt", "four"],
        ["call", renameat2, -100, "a.txt", -100, "secret.txt", 2],
        ["call", renameat2, -100, "secret.txt", -100, "five", 1],
        ["rename", "sub", "sub2"],
        ["call", renameat2, -100, "sub", -100, "out", 2],
        ["unlink", "secret.txt"],
        ["link", "a.txt", "b.txt"],
        grants=["--write", ".", "--deny", "./secret.txt"],
    )  # fmt: skip
    assert answers == ["EXDEV", "EXDEV", "EBUSY", "EBUSY", "EBUSY", "EBUSY", "EBUSY", "EBUSY", "ok"]
    assert (box.project / "secret.txt").read_text() == KEY
    assert (box.project / "secret.txt").stat().st_nlink == 1


# -- sockets -----------------------------------------------------------------------------------


@contextlib.contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """A unix socket of the host's."""
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(path.parent)  # a long path does not fit
        try:
            server.bind(path.name)
        finally:
            os.chdir(here)
        server.listen()
        server.settimeout(0.2)
        yield server


def was_reached(server: socket.socket) -> bool:
    """Whether anybody has connected."""
    try:
        server.accept()[0].close()
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize("grant", ["--read", "--write"])
def test_host_sockets_cannot_be_connected_to(box: Boxed, grant: str) -> None:
    """One that is there at the start and one that comes later; what the box makes itself
    works, and a socket that is granted by its name is reached."""
    refused = ("ECONNREFUSED", "EACCES", "ENOENT")
    named = box.root / "named"
    granted = ["--read", str(named)]
    with listening(named) as reachable, listening(box.project / "early") as early:
        with inside(box, grant, ".", "--write", "./out", *granted) as held:
            assert held.attempts(["unix", "early"])[0] in refused
            with listening(box.project / "late") as late:
                assert soon(lambda: held.attempts(["kind", "late"]) == ["0o100000"])
                assert held.attempts(["unix", "late"])[0] in refused
                assert not was_reached(late)
            assert held.attempts(["own", "out/own"], ["own", "out/two"]) == ["ok", "ok"]
            held.attempts(["unix", os.path.relpath(named, box.project)])
            assert held.end() == 0
        assert not was_reached(early) and was_reached(reachable)


def test_the_boxs_own_socket_is_left_alone_for_good(box: Boxed) -> None:
    """A hundred sockets made and used inside, one after the other: none is taken for the
    host's."""
    attempts = [["own", f"out/{n}"] for n in range(100)]
    assert box.attempts(*attempts, grants=["--write", "."]) == ["ok"] * 100


# -- the end -----------------------------------------------------------------------------------


def children(pid: int) -> list[int]:
    """Every process below one, by its own number."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text().split()):
                found += [child, *children(child)]
    return found


def test_a_box_does_not_go_on_without_its_keeper(box: Boxed) -> None:
    """Whichever of its processes is killed, the box is ended, and says why."""
    for which in ("hand", "steward"):
        status = box.root / f"status-{which}"
        with open(status, "w") as file, inside_with_status(box, file.fileno()) as held:
            pids = children(held.process.pid)
            keepers = [pid for pid in pids if is_keeper(pid, which)]
            assert len(keepers) == 1, (which, pids)
            os.kill(keepers[0], signal.SIGKILL)
            assert held.process.wait(30) == 137
        assert json.loads(status.read_text())["reason"] == "keeper"
    # Without its steward the stub is there until the next start.
    assert box.exec("--write", "./out", command=["/bin/true"]).code == 0
    assert [path.name for path in sorted(box.project.iterdir())] == ["a.txt", "out", "secret.txt"]


@contextlib.contextmanager
def inside_with_status(box: Boxed, fd: int) -> Iterator[Inside]:
    grants = ["--write", ".", "--deny", "./.env", "--json-status", str(fd)]
    with box.started(*grants, command=[PYTHON, "-ISc", ASKED], pass_fds=(fd,)) as process:
        yield Inside(process)


def is_keeper(pid: int, which: str) -> bool:
    """The hand has a mount namespace that is not this one and the host's processes; the steward
    leads a session of its own and has this one's."""
    try:
        there, here = (os.readlink(f"/proc/{at}/ns/mnt") for at in (pid, "self"))
        processes = os.readlink(f"/proc/{pid}/ns/pid") == os.readlink("/proc/self/ns/pid")
        names = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    except OSError:
        return False
    watches = any("inotify" in name for name in names)
    if which == "hand":
        return processes and there != here and watches
    return there == here and not watches and os.getsid(pid) == pid and len(names) <= 4


@pytest.mark.parametrize("seed", range(4))
def test_killed_at_any_moment_the_host_is_as_before(box: Boxed, seed: int) -> None:
    """The supervisor, the warden, the keeper or bwrap is killed at some moment; after the next
    start the tree is the same and nothing of the box runs."""
    chance = random.Random(seed)
    repository(box)
    before = tree(box.project)
    grants = ["--write", ".", "--deny", "./.env", "--deny", "./conf/key"]
    for _ in range(4):
        with box.started(*grants, command=[PYTHON, "-ISc", ASKED]) as process:
            time.sleep(chance.uniform(0.0, 0.4))
            victims = [process.pid, *children(process.pid)]
            with contextlib.suppress(ProcessLookupError):
                os.kill(chance.choice(victims), signal.SIGKILL)
            time.sleep(chance.uniform(0.0, 0.05))
            process.kill()
    assert box.exec("--write", ".", command=["/bin/true"]).code == 0
    assert soon(lambda: tree(box.project) == before), tree(box.project).keys() - before.keys()
    assert not (box.root / "state/axonkernel/stubs.json").exists()


# -- other users -------------------------------------------------------------------------------


@pytest.fixture
def owned(ordinary_user: OrdinaryUser, box_cache: Path) -> Boxed:
    """A project of an ordinary user's, below a folder that everybody may enter."""
    root = ordinary_user.home / "work"
    root.mkdir()
    box = Boxed(root, box_cache)
    (box.project / "secret.txt").write_text(KEY)
    for folder in (ordinary_user.home, root):
        folder.chmod(0o755)
    for path in (root, *root.rglob("*")):
        os.chown(path, ordinary_user.uid, ordinary_user.uid)
    return box


@pytest.mark.requires("root", "user")
@pytest.mark.parametrize("who", ["root for the owner", "the owner"])
def test_it_holds_for_another_user(owned: Boxed, ordinary_user: OrdinaryUser, who: str) -> None:
    """A root supervisor whose agent is the project's owner, and that owner without privilege:
    masks come back, absent names are held, stubs go again and were the owner's."""
    uid = ordinary_user.uid
    settings: dict[str, Any] = {}
    if who == "the owner":
        settings = {"user": uid, "group": uid, "extra_groups": []}
        owned.env["XDG_CACHE_HOME"] = str(owned.root / "cache")
    grants = ["--write", ".", "--deny", "./secret.txt", "--deny", "./.env"]
    command = [PYTHON, "-ISc", ASKED]
    with owned.started(*grants, command=command, **settings) as process:
        held = Inside(process)
        assert (owned.project / ".env").stat().st_uid == uid
        assert held.attempts(["read", ".env"], ["write", ".env"]) == ["EACCES", "EROFS"]
        save(owned.project / "secret.txt", KEY)
        os.chown(owned.project / "secret.txt", uid, uid)
        assert held.until(["read", "secret.txt"], "EACCES")
        assert held.attempts(["write", "mine"]) == ["ok"]
        assert held.end() == 0
    assert sorted(path.name for path in owned.project.iterdir()) == ["mine", "secret.txt"]
