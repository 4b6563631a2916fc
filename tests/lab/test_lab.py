"""The lab proves itself: its limits bite, it ends, and this machine does not notice it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab import leftovers as comparing
from lab import processes
from lab.internet import Internet
from lab.systemd import LabUnavailable, SystemdLab

pytestmark = pytest.mark.requires("lab")
PYTHON = [sys.executable, "-ISc"]
SCOPE = ["systemd-run", "--scope", "--quiet"]
USER = 1000


def until(condition: Callable[[], bool], timeout_s: float = 10.0) -> bool:
    """Whether the condition became true in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


class TestLimits:
    """Scopes in the lab are real."""

    pytestmark = pytest.mark.requires("scope")
    hog = "x = b'x' * 200_000_000; print('survived')"

    def test_memory_is_capped(self, lab: SystemdLab) -> None:
        """200 MB under MemoryMax=60M is killed (137 to a shell); under 600M it is not."""

        def hog(limit: str) -> subprocess.CompletedProcess[str]:
            props = ["-p", f"MemoryMax={limit}", "-p", "MemorySwapMax=0"]
            return lab.run(["sh", "-c", '"$@"; echo $?', "sh", *SCOPE, *props, *PYTHON, self.hog])

        assert hog("60M").stdout.split() == ["137"]
        assert hog("600M").stdout.split() == ["survived", "0"]

    def test_tasks_are_capped(self, lab: SystemdLab) -> None:
        """The sixth process of TasksMax=5 cannot be made; twenty of 40 can."""
        program = (
            "import os, time\n"
            "made = 0\n"
            "try:\n"
            "    for _ in range(20):\n"
            "        if os.fork() == 0: time.sleep(1); os._exit(0)\n"
            "        made += 1\n"
            "except BlockingIOError: pass\n"
            "print(made)"
        )
        made = {
            limit: lab.run([*SCOPE, "-p", f"TasksMax={limit}", *PYTHON, program]).stdout.strip()
            for limit in (5, 40)
        }
        assert made == {5: "4", 40: "20"}

    def test_cpu_is_capped(self, lab: SystemdLab) -> None:
        """A busy loop gets a fifth of a core under CPUQuota=20%, clearly more without."""
        program = (
            "import time\n"
            "end = time.monotonic() + 1.5\n"
            "while time.monotonic() < end: pass\n"
            "print(time.process_time() / 1.5)"
        )
        capped = float(lab.run([*SCOPE, "-p", "CPUQuota=20%", *PYTHON, program]).stdout)
        # The twin needs another core share than the cap's; a loaded machine still gives it.
        free = float(lab.run([*SCOPE, *PYTHON, program]).stdout)
        assert capped < 0.35
        assert free > capped

    def test_run_time_is_capped(self, lab: SystemdLab, lab_leftovers: None) -> None:
        """RuntimeMaxSec=1 ends a scope by SIGTERM with all in it; a short one ends by itself."""
        props = ["-p", "RuntimeMaxSec=1", "-p", "CollectMode=inactive-or-failed"]
        ended = lab.run([*SCOPE, *props, "sh", "-c", "sleep 61 & exec sleep 62"])
        assert ended.returncode == -signal.SIGTERM
        assert lab.run([*SCOPE, "-p", "RuntimeMaxSec=20", "true"]).returncode == 0
        assert until(lambda: not {"sleep 61", "sleep 62"} & {*lab.processes().values()})

    def test_the_user_manager_runs_scopes(self, lab: SystemdLab) -> None:
        """An ordinary uid has a running user manager whose scopes end on time."""
        assert lab.user_manager
        argv = ["systemd-run", "--user", "--scope", "--quiet", "-p", "RuntimeMaxSec=1"]
        group = lab.run([*argv, "cat", "/proc/self/cgroup"], user=USER).stdout
        assert f"/user@{USER}.service/" in group
        assert lab.run([*argv, "sleep", "30"], user=USER).returncode == -signal.SIGTERM


class TestCommands:
    """run, popen, put and get do what they say, within their time."""

    def test_sees_the_checkout_and_writes_to_memory(self, lab: SystemdLab) -> None:
        """The package imports inside; a file written into the checkout is not on this machine."""
        marker = processes.REPOSITORY / f"lab-marker-{os.getpid()}"
        program = "import axonkernel.errors; print(axonkernel.errors.__file__)"
        shown = lab.run([sys.executable, "-c", program], cwd=processes.REPOSITORY)
        assert shown.stdout.strip() == str(processes.REPOSITORY / "axonkernel/errors.py")
        lab.put(marker, "inside")
        assert lab.get(marker) == "inside"
        assert not marker.exists()

    def test_starts_from_nothing(self, lab: SystemdLab, monkeypatch: pytest.MonkeyPatch) -> None:
        """Neither environment nor descriptors of the test run reach a command."""
        monkeypatch.setenv("AXON_LAB_SECRET", "x")
        with tempfile.TemporaryFile() as file:
            os.set_inheritable(file.fileno(), True)
            seen = lab.run(["sh", "-c", "env; ls -l /proc/self/fd"], env={"GIVEN": "1"}).stdout
        assert "AXON_LAB_SECRET" not in seen
        assert "deleted" not in seen
        assert "GIVEN=1" in seen.splitlines()

    def test_becomes_the_user(self, lab: SystemdLab) -> None:
        """A command of uid 1000 has that uid, no other group, no capability, and its home."""
        script = (
            'id -u; id -g; id -G; pwd; grep CapEff /proc/self/status; test -O "$PWD" && echo own'
        )
        lines = lab.run(["sh", "-c", script], user=USER).stdout.split("\n")
        assert lines[:3] == [str(USER)] * 3
        assert lines[3] == lab.home(USER)
        assert int(lines[4].split()[1], 16) == 0
        assert lines[5] == "own"

    def test_input_output_and_signals_pass(self, lab: SystemdLab) -> None:
        """Input reaches the command; its output, code and fatal signal come back."""
        assert lab.run(["cat"], input="héllo").stdout == "héllo"
        done = lab.run(["sh", "-c", "echo out; echo err >&2; exit 7"])
        assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 7)
        waiting = ["sh", "-c", "echo started; exec sleep 300"]
        with lab.popen(waiting, stdout=subprocess.PIPE) as process:
            # What enters the lab for the command would take the signal in its place.
            assert process.stdout.readline()
            lab.signal(process, signal.SIGTERM)
            assert process.wait(10) == -signal.SIGTERM

    def test_a_late_command_is_killed_with_its_children(self, lab: SystemdLab) -> None:
        """After timeout_s nothing of the command is left in the lab."""
        with pytest.raises(subprocess.TimeoutExpired):
            lab.run(["sh", "-c", "sleep 71 & sleep 72"], timeout_s=0.5)
        assert until(lambda: not {"sleep 71", "sleep 72"} & {*lab.processes().values()})

    def test_odd_paths_and_missing_files(self, lab: SystemdLab) -> None:
        """Spaces, quotes and newlines in paths are data; a missing file is FileNotFoundError."""
        path = f"{lab.folder(user=USER)}/a 'b'\n$c"
        lab.put(path, "text", user=USER)
        assert lab.get(path) == "text"
        with pytest.raises(FileNotFoundError):
            lab.get(path + "no")


class TestTools:
    """What the box is made of works inside."""

    @pytest.mark.parametrize("user", [None, USER])
    def test_bubblewrap(self, lab: SystemdLab, user: int | None) -> None:
        """bwrap makes all its namespaces, with /proc and /dev of its own."""
        argv = "bwrap --unshare-all --ro-bind / / --proc /proc --dev /dev ps".split()
        done = lab.run(["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"], user=user)
        assert (done.returncode, done.stderr) == (0, "")
        assert lab.run([*argv[:-1], "sh", "-c", "echo $$"], user=user).stdout == "2\n"

    @pytest.mark.parametrize("user", [None, USER])
    def test_pasta_links_a_namespace(
        self, lab: SystemdLab, lab_internet: Internet, user: int | None, lab_leftovers: None
    ) -> None:
        """From a namespace that pasta links, a server of the private internet is reached."""
        runas = [] if user else ["--runas", "0:0"]
        options = "--config-net --quiet --no-map-gw -t none -u none -T none -U none".split()
        fetch = ["/usr/bin/python3", "-ISc", FETCH, lab_internet.addresses["two4"]]
        done = lab.run(["pasta", *options, *runas, "--", *fetch], user=user, timeout_s=20)
        assert done.stdout == "GET /probe HTTP/1.0"
        assert lab_internet.seen("http", lab_internet.addresses["two4"], 80)

    @pytest.mark.parametrize("user", [None, USER])
    def test_the_bus_answers(self, lab: SystemdLab, user: int | None) -> None:
        """systemd answers over D-Bus: the system's to root, the user's to the user."""
        scope = "--user" if user else "--system"
        argv = [
            "busctl",
            scope,
            "get-property",
            "org.freedesktop.systemd1",
            "/org/freedesktop/systemd1",
            "org.freedesktop.systemd1.Manager",
            "Version",
        ]
        assert lab.run(argv, user=user).stdout.startswith("s ")


FETCH = (
    "import socket, sys\n"
    "with socket.create_connection((sys.argv[1], 80), 5) as s:\n"
    "    s.sendall(b'GET /probe HTTP/1.0\\r\\n\\r\\n')\n"
    "    data = b''.join(iter(lambda: s.recv(4096), b''))\n"
    "sys.stdout.write(data.decode().partition('\\r\\n\\r\\n')[2])"
)


def sysctls() -> dict[str, str]:
    """Kernel settings that a booting systemd might change."""
    volatile = {
        "dentry-state",
        "inode-nr",
        "inode-state",
        "file-nr",
        "aio-nr",
        "ns_last_pid",
        "nr",
        "uuid",
        "boot_id",
        "entropy_avail",
    }
    found = {}
    for top in ("fs", "kernel", "vm", "net/core", "net/ipv4/conf/default"):
        for folder, _, names in os.walk(f"/proc/sys/{top}"):
            for name in set(names) - volatile:
                with contextlib.suppress(OSError):
                    path = os.path.join(folder, name)
                    found[path] = Path(path).read_text(errors="replace")
    return found


def machine() -> dict[str, object]:
    """What a lab must not change, as far as it can be compared while other programs run."""
    files = ("passwd", "group", "fstab", "hostname", "resolv.conf", "machine-id")
    texts = {name: Path("/etc", name) for name in files}
    return {
        "mounts": comparing.mounts(os.getpid()),
        "links": comparing.links(os.getpid()),
        "routes": Path("/proc/net/route").read_text(),
        "hostname": os.uname().nodename,
        "files": {name: path.read_text() for name, path in texts.items() if path.exists()},
        "units": sorted(os.listdir("/etc/systemd/system")),
        "devices": sorted(os.listdir("/dev")),
        "sysctls": sysctls(),
    }


@pytest.fixture
def old_file() -> Iterator[Path]:
    """A file in this machine's /tmp that systemd-tmpfiles would remove: old, not ours."""
    with tempfile.TemporaryDirectory(prefix="lab-canary-", dir="/tmp") as folder:
        file = Path(folder, "old")
        file.write_text("still here")
        old = time.time() - 90 * 86400
        os.utime(file, (old, old))
        os.utime(folder, (old, old))
        yield file


class TestThisMachine:
    """Nothing on the host changes, and nothing stays."""

    def test_is_untouched(self, old_file: Path, leftovers: None) -> None:
        """Boot, work, tidy up /tmp inside and end: this machine is as it was."""
        before = machine()
        tops = ("/etc", "/usr", "/srv", "/tmp", "/run", "/dev")
        with SystemdLab() as lab:
            groups = lab.groups
            assert os.readlink(f"/proc/{lab.leader}/ns/mnt") != os.readlink("/proc/self/ns/mnt")
            lab.run(["systemd-tmpfiles", "--create", "--remove", "--clean"])
            script = (
                f"for i in {' '.join(tops)}; do echo x > $i/axon-lab-marker; done; "
                "mount -t tmpfs none /mnt; ip link add odd0 type veth; hostname other; echo done"
            )
            assert lab.run(["sh", "-c", script]).stdout == "done\n"
            assert old_file.read_text() == "still here"
            assert all(os.path.isdir(group) for group in groups)
            during = machine()
        assert during == before
        assert not [top for top in tops if Path(top, "axon-lab-marker").exists()]
        assert machine() == before
        assert not [group for group in groups if os.path.exists(group)]

    def test_is_not_seen_from_the_lab(self, lab: SystemdLab, old_file: Path) -> None:
        """The lab has other namespaces, another /tmp, no process and no link of the host."""
        kinds = ("mnt", "pid", "uts", "ipc", "cgroup", "net")
        mine = {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in kinds}
        inside = {
            kind: lab.run(["readlink", f"/proc/self/ns/{kind}"]).stdout.strip() for kind in kinds
        }
        assert not set(mine.values()) & set(inside.values())
        assert len(set(inside.values())) == len(kinds)
        with pytest.raises(FileNotFoundError):
            lab.get(old_file)
        assert comparing.links(lab.leader) == {"lo"}

    def test_its_user_may_be_unknown_here(self) -> None:
        """A uid without an entry in passwd gets a name and a user manager in the lab."""
        with SystemdLab(uid=54321) as lab:
            assert lab.user_manager
            assert lab.run(["id", "-un"], user=54321).stdout == "axonlab\n"

    def test_two_labs_live_side_by_side(self) -> None:
        """Two labs share no control group and no process."""
        with SystemdLab() as one, SystemdLab() as two:
            assert not set(one.groups) & set(two.groups)
            with one.popen(["sleep", "81"]) as process:
                one.pid(process)
                assert until(lambda: "sleep 81" in one.processes().values())
                assert "sleep 81" not in two.processes().values()
                one.kill(process)


HOLD = (
    "import sys, time\n"
    "sys.path.insert(0, sys.argv[1])\n"
    "from lab.systemd import SystemdLab\n"
    "lab = SystemdLab()\n"
    "lab.start()\n"
    "lab.popen(['sleep', '300'])\n"
    "print(lab.leader, lab.holder, *lab.groups, flush=True)\n"
    "time.sleep(60)\n"
)


class TestEnd:
    """The lab ends with its test run, whatever happens to that."""

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
    def test_when_the_test_run_is_killed(self, number: int, leftovers: None) -> None:
        """After SIGKILL of the process that booted it, leader, holder and groups are gone."""
        argv = [sys.executable, "-c", HOLD, str(Path(__file__).parents[1])]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as run:
            assert run.stdout
            leader, holder, *groups = run.stdout.readline().split()
            pids = [int(leader), int(holder)]
            assert all(processes.state(pid) in tuple("RSD") for pid in pids)
            run.send_signal(number)
        assert until(lambda: all(processes.state(pid) in ("", "Z") for pid in pids))
        assert until(lambda: not [group for group in groups if os.path.exists(group)])

    def test_when_the_holder_is_killed(self) -> None:
        """Killing the holder kills the lab; the next start removes the groups it left."""
        with SystemdLab() as lab:
            leader, groups = lab.leader, lab.groups
            os.kill(lab.holder, signal.SIGKILL)
            assert until(lambda: processes.state(leader) in ("", "Z"))
        with SystemdLab():
            assert not [group for group in groups if os.path.exists(group)]

    def test_when_the_leader_is_killed(self) -> None:
        """A lab that died by itself is an error for the next command, and closes cleanly."""
        with SystemdLab() as lab:
            os.kill(lab.leader, signal.SIGKILL)
            assert until(lambda: processes.state(lab.leader) in ("", "Z"))
            assert lab.run(["true"]).returncode != 0
        with pytest.raises(LabUnavailable, match="not running"):
            lab.run(["true"])


def test_a_lab_that_cannot_be_built_says_why(leftovers: None) -> None:
    """A folder that is not there: LabUnavailable names the step and the reason."""
    with pytest.raises(LabUnavailable, match=r"open the folders.*No such file"):
        SystemdLab(visible=["/nonexistent/folder"]).start()


def test_leftovers_are_seen(lab: SystemdLab) -> None:
    """A process, a mount, a link, a scope and a file left in the lab are all reported."""
    before = comparing.in_lab(lab)
    script = (
        "setsid systemd-run --scope --quiet --unit=axon-left sleep 91 >/dev/null 2>&1 & "
        "mount -t tmpfs left /mnt; ip link add left0 type veth; touch /tmp/left; sleep 0.5"
    )
    lab.run(["sh", "-c", script])
    found = comparing.left_over(before, lambda: comparing.in_lab(lab), settle_s=0.5)
    cleaning = "systemctl stop axon-left.scope; umount /mnt; ip link del left0; rm /tmp/left"
    lab.run(["sh", "-c", cleaning])
    assert {line.partition(":")[0] for line in found} == {
        "processes",
        "mounts",
        "links",
        "groups",
        "files",
    }
    assert not comparing.left_over(before, lambda: comparing.in_lab(lab))
