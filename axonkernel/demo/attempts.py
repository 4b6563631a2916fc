"""Everything that is tried, with what must come of it and what shows that it did."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

from axonkernel.demo import below, mediated, seen
from axonkernel.demo.scene import Heard, Scene
from axonkernel.errors import AxonError, EscalationDenied, PolicyDenied

if TYPE_CHECKING:
    from axonkernel.demo.stage import Stage
    from axonkernel.kernel import Kernel

__all__ = ["ATTEMPTS", "LIMITS", "WALLS", "Attempt", "hear"]

Expected = Literal["allowed", "refused"]
Try = Callable[["Kernel", Scene], str]
Effect = Callable[["Stage", Heard], bool]

#: What the rows are grouped by, each with the posture's field that is about it.
WALLS = {
    "files": "fs",
    "network": "net",
    "programs": "shell",
    "words": "shell.args",
    "environment": "env",
    "processes": "",
    "system calls": "seccomp",
    "wall clock": "limits.wall",
    "disk": "limits.disk",
    "memory": "limits.memory",
    "process count": "limits.pids",
}


class Attempt(NamedTuple):
    """One thing the agent tries.

    Arguments:
        key: its name in the program.
        wall: one of :data:`WALLS`.
        text: what the reader is told.
        expected: whether the policy lets it be.
        effect: whether it took effect, looked at from outside the box.
        do: what the agent runs; None for what gets a box of its own.
        missed: the outcome where no error came and no effect is to be seen.
        needs: a field of the posture without which it shows nothing, beside its wall's.
    """

    key: str
    wall: str
    text: str
    expected: Expected
    effect: Effect
    do: Try | None = None
    missed: str = "no effect"
    needs: str = ""

    @property
    def mediated(self) -> bool:
        """Whether the agent asks the kernel for it."""
        return self.do is not None and self.do.__module__ == mediated.__name__


#: In this order: what leaves traces comes after what looks for them.
ATTEMPTS: tuple[Attempt, ...] = (
    Attempt("read-source", "files", "fs.read src/app.py", "allowed",
            seen.source, mediated.read_source),
    Attempt("write-report", "files", "fs.write output/report.md", "allowed",
            seen.report, mediated.write_report),
    Attempt("read-secret", "files", "fs.read .env", "refused",
            seen.secret, mediated.read_secret),
    Attempt("read-secret-below", "files", "openat, /proc, git, rename on .env", "refused",
            seen.secret, below.read_secret),
    Attempt("list-home", "files", "list the home folder", "refused",
            seen.home, below.list_home, "nothing of the host's"),
    Attempt("write-outside", "files", "fs.write /etc/cron.d/job", "refused",
            seen.outside, mediated.write_outside),
    Attempt("write-outside-below", "files", "open(), symlink: write outside", "refused",
            seen.outside, below.write_outside),
    Attempt("plant-hook", "files", "write .git/hooks/pre-commit", "refused",
            seen.hook, below.plant_hook),
    Attempt("own-loopback", "network", "talk to itself on loopback", "allowed",
            seen.hello, below.own_loopback),
    Attempt("dial", "network", "net.dial a server on the host", "refused",
            seen.visitor, mediated.dial),
    Attempt("connect", "network", "TCP, UDP to a server on the host", "refused",
            seen.visitor, below.connect),
    Attempt("connect-abstract", "network", "the host's abstract unix socket", "refused",
            seen.visitor, below.connect_abstract),
    Attempt("connect-port", "network", "granted address, other port", "refused",
            seen.claimed, below.connect_other_port, needs="net.link"),
    Attempt("git-log", "programs", "git log", "allowed",
            seen.commit, mediated.git_log),
    Attempt("curl", "programs", "curl", "refused",
            seen.claimed, mediated.curl),
    Attempt("programs", "programs", "the host's programs, by subprocess", "refused",
            seen.claimed, below.start_programs),
    Attempt("force-push", "words", "git -C . push origin --force", "refused",
            seen.pushed, mediated.force_push),
    Attempt("push", "words", "git push, and nobody answers", "refused",
            seen.pushed, mediated.push),
    Attempt("delete-tag", "words", "git tag -d v1.0", "refused",
            seen.tag_gone, mediated.delete_tag),
    Attempt("delete-tag-below", "words", "git tag -d v1.0, by subprocess", "refused",
            seen.tag_gone, below.delete_tag),
    Attempt("variable", "environment", "the variable that is granted", "allowed",
            seen.language, below.granted_variable),
    Attempt("preload", "environment", "git with LD_PRELOAD", "refused",
            seen.claimed, mediated.preload),
    Attempt("environment", "environment", "environ, /proc: the host's API key", "refused",
            seen.api_key, below.read_environment, "not there"),
    Attempt("processes", "processes", "environ of the host's processes", "refused",
            seen.victims_token, below.read_processes, "not there"),
    Attempt("kill", "processes", "kill a process of the host", "refused",
            seen.victim_dead, below.kill_victim),
    Attempt("stay", "processes", "a process that stays behind", "refused",
            seen.beating, below.stay_behind, "ended with the box"),
    Attempt("calls", "system calls", "mount, ptrace, bpf, keyctl, io_uring", "refused",
            seen.claimed, below.raw_calls),
    Attempt("flush", "system calls", "flush the packet filter by netlink", "refused",
            seen.claimed, below.flush_table),
    Attempt("packets", "system calls", "open a raw packet socket", "refused",
            seen.claimed, below.raw_socket),
    Attempt("set-uid", "system calls", "leave a set-uid file", "refused",
            seen.set_uid, below.set_uid_bit),
    Attempt("fill", "disk", "64 MB into /tmp, of 16", "refused",
            seen.claimed, below.fill_disk),
)  # fmt: skip

#: Each ends its box, so it gets one of its own (runs.py).
LIMITS: tuple[Attempt, ...] = (
    Attempt("run-on", "wall clock", "run for a minute, of 1 s", "refused", seen.survived),
    Attempt("hog", "memory", "take 256 MB, of 64", "refused", seen.survived),
    Attempt("fork", "process count", "fork 100 times, of 20", "refused", seen.survived),
)


def hear(attempt: Attempt, kernel: Kernel, scene: Scene) -> Heard:
    """Make one attempt and put into words what came of it."""
    assert attempt.do is not None
    try:
        loot = attempt.do(kernel, scene)
    except EscalationDenied as error:
        said = f"{error.code}, {error.outcome}"
        return Heard(attempt.key, False, said, "", error.decision_id)
    except PolicyDenied as error:
        return Heard(attempt.key, False, error.code, "", error.decision_id)
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, type(error).__name__)
        return Heard(attempt.key, False, name)
    except (AxonError, below.Refused) as error:
        return Heard(attempt.key, False, str(error))
    except Exception as error:
        return Heard(attempt.key, False, f"{type(error).__name__}: {error}")
    return Heard(attempt.key, True, "done", loot)
