"""Find out what this machine can hold by doing it, once, with something harmless.

Each trial returns what it saw when it worked and raises Missing otherwise. They leave
nothing behind. The probe runs them; nothing here is on the path of a launch.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from axonkernel.box import cgroup, direct, landlock, nft, seccomp
from axonkernel.box.advice import advise, tree_advice
from axonkernel.box.limiter import Limiter
from axonkernel.box.linux import ptrace
from axonkernel.box.model import LimitsPlan
from axonkernel.box.programs import find, install, run
from axonkernel.errors import BoxError, IsolationUnavailable

__all__ = [
    "Missing",
    "bindings",
    "box",
    "filter_code",
    "gate",
    "landlock_abi",
    "limits",
    "link",
    "table",
    "veth",
]

_PTRACE_SEIZE = 0x4206
_PASTA = (
    *("--config-net", "--quiet", "--no-dhcp", "--no-dhcpv6", "--no-ndp", "--no-ra"),
    *("--no-map-gw", "-t", "none", "-u", "none", "-T", "none", "-U", "none"),
)
_STATUS = "print(open('/proc/self/status').read())"
_HOG = "import sys; sys.stdin.readline(); x = b'x' * 200_000_000"
_HOG_LIMITS = LimitsPlan(memory_bytes=48 << 20, cpu_millicores=1000, pids=50)


class Missing(Exception):
    """A piece that is not there: its short name, what was seen, what brings it."""

    def __init__(self, piece: str, detail: str, fix: str) -> None:
        super().__init__(piece, detail, fix)
        self.piece, self.detail, self.fix = piece, detail, fix


def box(code: bytes | None) -> str:
    """A whole box around nothing: every namespace, no capabilities, the filter ``code``."""
    program = find("bwrap")
    if program is None:
        raise Missing("bwrap", "not installed", install("bubblewrap"))
    _tree()
    argv = [program, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    argv += ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    argv += ["--unshare-net", "--unshare-cgroup-try", "--disable-userns", "--die-with-parent"]
    argv += ["--new-session", "--cap-drop", "ALL"]
    with _filter_fd(code) as fds:
        argv += ["--seccomp", str(fds[0])] if fds else []
        done = run([*argv, "--", sys.executable, "-ISc", _STATUS], fds=fds)
    if done.code != 0:
        advice = advise(done.err)
        raise Missing("user namespaces", f"{advice.cause}: {done.err.strip()}", advice.fix)
    _check_status(done.out, filtered=code is not None)
    return program


def _tree() -> None:
    """This Python makes the file tree of a box, in namespaces that bwrap has no part in."""
    done = run([sys.executable, "-m", "axonkernel.box.trial_tree"], env=_own_path())
    if done.code == 0:
        return
    said = (done.out or done.err).strip().rpartition("\n")[2]
    if "Function not implemented" in said:
        raise Missing("the kernel", said, "use Linux 5.12 or newer")
    # A namespace without rights is AppArmor's; its profile for bwrap does not let Python in.
    advice = tree_advice(os.path.realpath(sys.executable), made="unshare" not in said)
    raise Missing("user namespaces", f"{advice.cause}: {said}", advice.fix)


@contextlib.contextmanager
def _filter_fd(code: bytes | None) -> Iterator[tuple[int, ...]]:
    if code is None:
        yield ()
        return
    fd = os.memfd_create("filter")
    try:
        os.write(fd, code)
        os.lseek(fd, 0, os.SEEK_SET)
        yield (fd,)
    finally:
        os.close(fd)


def _check_status(text: str, *, filtered: bool) -> None:
    status = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    wanted = {"CapEff": "0" * 16, "NoNewPrivs": "1", "Seccomp": "2" if filtered else "0"}
    found = {name: status.get(name, "").strip() for name in wanted}
    if found != wanted:
        raise Missing("bwrap", f"the box was not closed: {found}", install("bubblewrap"))


def filter_code() -> bytes:
    """The strictest filter, compiled."""
    try:
        return seccomp.filter_bytes(nested_userns=False, unix="none")
    except IsolationUnavailable as error:
        raise Missing(error.missing, "not installed", error.fix) from None
    except BoxError as error:
        raise Missing("libseccomp", error.message, install("libseccomp2")) from None


def gate() -> str:
    """A program can be held at its first instruction by its ancestor (ptrace)."""
    sleeper = [sys.executable, "-ISc", "import time; time.sleep(30)"]
    with subprocess.Popen(sleeper) as child:
        try:
            ptrace(_PTRACE_SEIZE, child.pid)
        except OSError as error:
            fix = "sudo sysctl kernel.yama.ptrace_scope=1 (in a container: --cap-add SYS_PTRACE)"
            raise Missing("ptrace", str(error), fix) from None
        finally:
            child.kill()
    return "ptrace"


def _own_path() -> dict[str, str]:
    """An environment in which this package is found."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = ":".join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path}


@contextlib.contextmanager
def _namespace() -> Iterator[subprocess.Popen[str]]:
    """A process in a user and network namespace of its own; obeys lines (trial_namespace)."""
    with subprocess.Popen(
        [sys.executable, "-m", "axonkernel.box.trial_namespace"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=_own_path(),
    ) as child:
        try:
            yield child
        finally:
            child.kill()


def _ask(child: subprocess.Popen[str], line: str) -> dict[str, str]:
    assert child.stdin and child.stdout and child.stderr
    with contextlib.suppress(BrokenPipeError):
        child.stdin.write(line + "\n")
        child.stdin.flush()
    answer = child.stdout.readline()
    if not answer:
        said = child.stderr.read().strip().rpartition("\n")[2]
        raise Missing("network namespaces", said, advise("No permissions to create").fix)
    found: dict[str, str] = json.loads(answer)
    return found


def table() -> str:
    """A table loaded in a new network namespace refuses a packet, and notes it."""
    with _namespace() as child:
        answer = _ask(child, "table")
    if "protocol name" in answer["error"]:
        raise Missing("/etc/protocols", answer["error"], install("netbase"))
    if answer["error"]:
        raise Missing("nft", answer["error"], answer["fix"] or install("nftables"))
    return answer["by"]


def link() -> str:
    """pasta links a new network namespace to the host's network, and ends when told."""
    program = find("pasta")
    if program is None:
        raise Missing("pasta", "not installed", install("passt"))
    with _namespace() as child, tempfile.TemporaryDirectory() as folder:
        _ask(child, "ready")
        as_root = ("--runas", "0:0") if os.geteuid() == 0 else ()
        pid_file = f"{folder}/pid"
        done = run([program, *_PASTA, *as_root, "-P", pid_file, str(child.pid)])
        if done.code != 0:
            raise _pasta_failed(done.err.strip())
        try:
            names = _ask(child, "links")["names"]
        finally:
            with open(pid_file, encoding="ascii") as file:
                os.kill(int(file.read()), signal.SIGTERM)
    if names == "lo":
        raise Missing("pasta", "it made no interface", install("passt"))
    return program


def _pasta_failed(said: str) -> Missing:
    if "xternal" in said:  # "No external routable interface", in several spellings
        return Missing("a network", said, "give this machine a default route")
    if "tun" in said:
        fix = "sudo modprobe tun && sudo chmod 0666 /dev/net/tun"
        return Missing("/dev/net/tun", said, fix)
    return Missing("pasta", said or "it failed without a word", install("passt"))


def veth() -> str:
    """A veth link, its table and its guard, made in a new network namespace and removed."""
    if os.geteuid() != 0:
        raise Missing("root (a veth link)", "not root", "run as root; pasta needs none")
    with _namespace() as child:
        answer = _ask(child, "veth")
    if answer["error"]:
        raise Missing("veth", answer["error"], answer["fix"] or "sudo modprobe veth nft_masq")
    if not os.access("/proc/sys/net/ipv4/conf/all/forwarding", os.W_OK):
        raise Missing("/proc/sys", "read-only", 'mount it writable, or use net.link = "pasta"')
    return "veth, nftables masquerade"


def limits() -> str:
    """A program that takes too much memory in a new scope is killed for it."""
    limiter = Limiter(brief=True)
    group = ""
    command = [sys.executable, "-ISc", _HOG]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as hog:
        try:
            group = limiter.confine(_HOG_LIMITS, [hog.pid], hog.pid)
            where = group or cgroup.find(hog.pid).memory
            hog.communicate(b"\n", timeout=10)
        except IsolationUnavailable as error:
            raise Missing(error.missing, "limits cannot be set", error.fix) from None
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Missing("memory limits", str(error), "use cgroup v2") from None
        finally:
            hog.kill()
            if group:
                direct.remove(group)
    if hog.returncode != -signal.SIGKILL:
        raise Missing("memory limits", f"200 MB fit into 48 MB ({where})", "use cgroup v2")
    if group:
        return "delegated cgroup v2"
    return "user manager" if os.geteuid() else "system manager"


def landlock_abi() -> str:
    """Landlock, for workers and abstract sockets."""
    found = landlock.abi()
    if found == 0:
        raise Missing("landlock", "not in this kernel", "boot with lsm=landlock,... (Linux 5.13)")
    return f"ABI {found}"


def bindings() -> str:
    """The optional Python bindings: without them programs are run, which takes longer."""
    absent = []
    if nft._binding() is None:
        absent.append("python3-nftables")
    try:
        import pydbus  # noqa: F401 - whether it loads is the question
    except (ImportError, ValueError, AttributeError):
        absent.append("python3-gi")
    if absent:
        names = " ".join(absent)
        raise Missing(names, "the nft and busctl programs are used instead", install(names))
    return "nftables, pydbus"
