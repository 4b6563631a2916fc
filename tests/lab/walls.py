"""What this machine gives the tests, found out by doing it, and what to install otherwise."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping

from lab import processes
from lab.internet import Internet
from lab.processes import LabUnavailable
from lab.systemd import SystemdLab
from lab.user import OrdinaryUser

__all__ = ["Walls"]

PROBE_S = 20.0
TABLE = "add table inet probe; add chain inet probe out { type filter hook output priority 0; }"
PASTA = "pasta --config-net --quiet --no-map-gw -t none -u none -T none -U none".split()
#: Programs and the packages they are in.
PROGRAMS = {
    "bc": "bc",
    "bzip2": "bzip2",
    "curl": "curl",
    "file": "file",
    "g++": "g++",
    "gcc": "gcc",
    "java": "default-jre-headless",
    "jq": "jq",
    "less": "less",
    "make": "make",
    "man": "man-db",
    "node": "nodejs",
    "npm": "npm",
    "openssl": "openssl",
    "patch": "patch",
    "perl": "perl",
    "rg": "ripgrep",
    "rsync": "rsync",
    "sqlite3": "sqlite3",
    "ssh": "openssh-client",
    "unzip": "unzip",
    "vim": "vim",
    "wget": "wget",
    "xz": "xz-utils",
    "zip": "zip",
}


class Walls:
    """The walls a test can require, each probed once per session, and the shared lab.

    ``box``
        bubblewrap makes user, mount, pid and net namespaces.
    ``net``
        an nftables table loads in a new user and net namespace; pasta links one.
    ``lab``
        the throw-away systemd boots.
    ``scope``
        the limits of the lab's scopes bite: memory, processes and CPU.
    ``programs``
        what packaging/apt.txt brings to be tried in a box.
    ``root``, ``user``
        the tests run as root; an ordinary user can read this checkout.
    """

    def __init__(self, probes: Mapping[str, Callable[[], object]] | None = None) -> None:
        self._reasons: dict[str, str] = {}
        self._lab: SystemdLab | None = None
        self._probes = probes or {
            "box": probe_box,
            "net": probe_net,
            "lab": self.lab,
            "scope": self._probe_scope,
            "programs": lambda: find_all(PROGRAMS),
            "root": probe_root,
            "user": probe_user,
        }

    @property
    def names(self) -> frozenset[str]:
        """Every name ``missing`` knows."""
        return frozenset(self._probes)

    def missing(self, name: str) -> str:
        """Why the wall is not there and what to do about it; "" when it is."""
        if name not in self._reasons:
            self._reasons[name] = ""
            try:
                self._probes[name]()
            except LabUnavailable as error:
                self._reasons[name] = str(error)
            except subprocess.TimeoutExpired as error:
                self._reasons[name] = f"no answer: {error}"
        return self._reasons[name]

    def lab(self) -> SystemdLab:
        """The session's lab, booted when first asked for. Raises LabUnavailable."""
        if self._lab is None:
            lab = SystemdLab()
            lab.start()
            self._lab = lab
        return self._lab

    def holders(self) -> list[int]:
        """Pids of the processes that hold the session's lab."""
        return [self._lab.holder] if self._lab else []

    def close(self) -> None:
        """End the session's lab."""
        lab, self._lab = self._lab, None
        if lab:
            lab.close()

    def _probe_scope(self) -> None:
        lab = self.lab()
        for limit, program in {
            "MemoryMax=40M": "x = b'x' * 150_000_000",
            "TasksMax=3": "import os\nfor i in range(8): os.fork()",
        }.items():
            argv = [
                "systemd-run",
                "--scope",
                "--quiet",
                "-p",
                limit,
                "-p",
                "MemorySwapMax=0",
                "/usr/bin/python3",
                "-ISc",
                program,
            ]
            if lab.run(argv, timeout_s=PROBE_S).returncode == 0:
                raise LabUnavailable(
                    f"{limit} does not bite (mount the host's memory and pids controllers)"
                )
        if not any(
            os.path.exists(f"{group}/{name}")
            for group in lab.groups
            for name in ("cpu.cfs_quota_us", "cpu.max")
        ):
            raise LabUnavailable("no cpu controller (mount the host's cpu controller)")


def attempt(argv: list[str], what: str, fix: str) -> None:
    """Run a probe of this machine. Raises LabUnavailable with its complaint and the fix."""
    pipe = subprocess.PIPE
    child = processes.start(
        argv, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, errors="replace"
    )
    done = processes.finish(child, argv, None, PROBE_S)
    demand(done, what, fix)


def demand(done: subprocess.CompletedProcess[str], what: str, fix: str) -> None:
    if done.returncode:
        complaint = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
        raise LabUnavailable(f"{what}: {complaint} ({fix})")


def probe_box() -> None:
    bwrap = processes.find_program("bwrap", "bubblewrap")
    walls = "--unshare-user --unshare-pid --unshare-net --ro-bind / / --proc /proc --dev /dev"
    attempt(
        [bwrap, *walls.split(), "true"],
        "bubblewrap cannot make a box",
        "sysctl kernel.unprivileged_userns_clone=1, or run in a VM instead of a container",
    )


def probe_net() -> None:
    nft = processes.find_program("nft", "nftables")
    processes.find_program("pasta", "passt")
    attempt(
        ["unshare", "--user", "--map-root-user", "--net", nft, TABLE],
        "no nftables table in a new namespace",
        "modprobe nf_tables",
    )
    fix = "modprobe tun; chmod 666 /dev/net/tun"
    if os.geteuid():
        # pasta waits for ever where it may not open the device.
        if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
            raise LabUnavailable(f"/dev/net/tun cannot be opened by this user ({fix})")
        attempt([*PASTA, "--", "true"], "pasta cannot link a namespace", fix)
        return
    with Internet(tap=False) as net:
        done = net.run([*PASTA, "--runas", "0:0", "--", "true"], timeout_s=PROBE_S)
        demand(done, "pasta cannot link a namespace", fix)


def find_all(packages: Mapping[str, str]) -> None:
    for program, package in packages.items():
        processes.find_program(program, package)


def probe_root() -> None:
    if os.geteuid():
        raise LabUnavailable("not root (run the tests with sudo)")


def probe_user() -> None:
    with OrdinaryUser() as user:
        user.demand_checkout()
