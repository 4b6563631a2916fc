"""What no box may ask of the kernel, as data: one reason per line.

Seccomp sees numbers, not what pointers point to. So a call whose flags or mode lie behind a
pointer (``clone3``, ``openat2``) answers ENOSYS as on an old kernel, and programs fall back to
the form that can be judged.
"""

from __future__ import annotations

import errno
from typing import Literal, NamedTuple

__all__ = ["NEWEST", "NUMBERS", "RULES", "Check", "Rule"]

#: The newest system call these rules were written for (Linux 6.18: file_setattr). What a later
#: kernel adds was never judged and answers ENOSYS.
NEWEST = 469

#: Calls the installed libseccomp may be too old to name. From 424 on, numbers are the same on
#: every processor supported here.
NUMBERS = {
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "fchmodat2": 452,
    "open_tree_attr": 467,
}


class Check(NamedTuple):
    """A condition on one argument of a call.

    Arguments:
        argument: which one, from 0.
        op: ``has`` all bits of value, ``is`` value in its low 32 bits (the kernel ignores the
            high ones: comparing all 64 can be dodged), ``low4`` (its low four bits are value),
            ``not`` value, ``above`` value, ``lacks`` all bits of value.
    """

    argument: int
    op: Literal["has", "is", "low4", "not", "above", "lacks"]
    value: int


class Rule(NamedTuple):
    """Calls that fail.

    Arguments:
        calls: their names.
        why: the reason.
        error: the errno they fail with.
        checks: all of these must hold; () for always.
        unless: ``userns`` lifts it where nested user namespaces are permitted; ``unix``
            where unix sockets are; ``inet`` where the network is walled by something else;
            ``exec`` where programs may start in places that are written; ``box`` where
            namespaces keep the processes and objects of others apart.
    """

    calls: tuple[str, ...]
    why: str
    error: int = errno.EPERM
    checks: tuple[Check, ...] = ()
    unless: Literal["", "userns", "unix", "inet", "exec", "box"] = ""


def _plain() -> list[Rule]:
    return [
        Rule(("ptrace",), "controls other processes; a large attack surface"),
        Rule(("process_vm_readv", "process_vm_writev"), "reads and writes another's memory"),
        Rule(("pidfd_getfd",), "takes descriptors out of another process"),
        Rule(("kcmp",), "compares kernel pointers of two processes"),
        Rule(
            ("io_uring_setup", "io_uring_enter", "io_uring_register"),
            "does file and network calls that no filter sees; libraries fall back on ENOSYS",
            errno.ENOSYS,
        ),
        Rule(("bpf",), "loads code into the kernel"),
        Rule(("userfaultfd",), "stops the kernel at a chosen memory access; eases exploits"),
        Rule(("perf_event_open",), "measures the kernel and other processes; many past holes"),
        Rule(("add_key", "request_key", "keyctl"), "kernel keyrings are not namespaced"),
        Rule(("kexec_load", "kexec_file_load", "reboot"), "replaces or stops the kernel"),
        Rule(("init_module", "finit_module", "delete_module"), "changes the kernel's code"),
        Rule(("swapon", "swapoff", "acct", "quotactl", "quotactl_fd"), "host-wide settings"),
        Rule(("iopl", "ioperm"), "talks to hardware ports"),
        Rule(("syslog",), "the kernel log tells about the host"),
        Rule(("open_by_handle_at",), "opens files by number, past every mount of the box"),
        Rule(("openat2",), "its mode (set-id bits) is behind a pointer", errno.ENOSYS),
        Rule(
            (
                "open_tree",
                "open_tree_attr",
                "move_mount",
                "fsopen",
                "fsconfig",
                "fsmount",
                "fspick",
                "mount_setattr",
            ),
            "the new mount interface; programs fall back to mount on ENOSYS",
            errno.ENOSYS,
        ),
    ]


def _namespaces() -> list[Rule]:
    rules = [
        Rule(
            ("mount", "umount2", "pivot_root", "chroot"), "changes the file tree", unless="userns"
        ),
        Rule(("setns",), "enters other namespaces", unless="userns"),
        Rule(
            ("clone3",),
            "its namespace flags are behind a pointer; the C library falls back to clone",
            errno.ENOSYS,
            unless="userns",
        ),
    ]
    new = {
        "mount": 0x00020000,
        "cgroup": 0x02000000,
        "uts": 0x04000000,
        "ipc": 0x08000000,
        "user": 0x10000000,
        "pid": 0x20000000,
        "net": 0x40000000,
    }
    rules += [
        Rule(
            ("clone", "unshare"),
            f"makes a new {name} namespace, and with it capabilities and kernel surface",
            checks=(Check(0, "has", flag),),
            unless="userns",
        )
        for name, flag in new.items()
    ]
    # In clone these bits are the signal sent at exit.
    time_flag = Check(0, "has", 0x00000080)
    why = "makes a new time namespace"
    return [*rules, Rule(("unshare",), why, checks=(time_flag,), unless="userns")]


def _terminals() -> list[Rule]:
    return [
        Rule(("ioctl",), "TIOCSTI types into the terminal", checks=(Check(1, "is", 0x5412),)),
        Rule(
            ("ioctl",),
            "TIOCLINUX pastes into the console",
            checks=(Check(1, "is", 0x541C),),
        ),
    ]


_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16


def _sockets() -> list[Rule]:
    odd = [n for n in range(_NETLINK) if n not in (_UNIX, _INET, _INET6)]
    why = "only unix, IPv4, IPv6 and route netlink sockets are walled; others (vsock, packet,"
    why += " alg, bluetooth, ...) go around the packet filter or are rarely tested code"
    checks = [Check(0, "is", n) for n in odd] + [Check(0, "above", _NETLINK)]
    return [
        *(Rule(("socket",), why, errno.EAFNOSUPPORT, (check,)) for check in checks),
        # The answer of a kernel without the protocol: PAM goes on when audit says so.
        Rule(
            ("socket",),
            "netlink beyond routes configures the host's kernel",
            errno.EPROTONOSUPPORT,
            (Check(0, "is", _NETLINK), Check(2, "not", 0)),
        ),
        Rule(("socketpair",), why, errno.EAFNOSUPPORT, (Check(0, "is", 0),)),
        Rule(("socketpair",), why, errno.EAFNOSUPPORT, (Check(0, "above", _UNIX),)),
        Rule(
            ("socket",),
            "unix sockets reach services outside the policy",
            checks=(Check(0, "is", _UNIX),),
            unless="unix",
        ),
        *(
            Rule(
                ("socket",),
                "nothing may be reached, and no namespace holds that",
                errno.EACCES,
                (Check(0, "is", family),),
                unless="inet",
            )
            for family in (_INET, _INET6)
        ),
        # A datagram end of a pair can still send to any path; type 3 (raw) means the same.
        *(
            Rule(
                ("socketpair",),
                "a datagram pair can be connected to another socket",
                checks=(Check(1, "low4", kind),),
                unless="unix",
            )
            for kind in (2, 3)
        ),
    ]


#: Call to the argument that names a process; 0 is the caller.
_ABOUT_OTHERS = {
    "prlimit64": 0,
    "sched_setaffinity": 0,
    "sched_setscheduler": 0,
    "sched_setparam": 0,
    "sched_setattr": 0,
    "setpriority": 1,
    "ioprio_set": 1,
    "migrate_pages": 0,
    "move_pages": 0,
}


def _outside_a_box() -> list[Rule]:
    objects = ("shmget", "shmat", "semget", "semop", "semtimedop", "msgget", "msgsnd", "msgrcv")
    why = "objects that the processes of this machine share by number"
    rules = [
        Rule((call,), "changes how another process runs", checks=(Check(at, "not", 0),))
        for call, at in _ABOUT_OTHERS.items()
    ]
    return [rule._replace(unless="box") for rule in (*rules, Rule(objects, why))]


_SET_ID = {"set-uid": 0o4000, "set-gid": 0o2000}
_O_CREAT, _O_TMPFILE = 0o100, 0o20000000
#: Call to the index of its mode. mkdir is not here: the kernel drops the bits by itself.
_MODES = {
    "chmod": 1,
    "fchmod": 1,
    "fchmodat": 2,
    "fchmodat2": 2,
    "creat": 1,
    "mknod": 1,
    "mknodat": 2,
}
#: Call to the index of its flags; the mode follows, and is noise without one of two flags.
_OPENS = {"open": 1, "openat": 2}


def _set_ids() -> list[Rule]:
    rules = []
    for name, bit in _SET_ID.items():
        why = f"leaves a {name} program behind that gives its runner the agent's rights"
        for call, mode in _MODES.items():
            rules.append(Rule((call,), why, checks=(Check(mode, "has", bit),)))
        for call, flags in _OPENS.items():
            for flag in (_O_CREAT, _O_TMPFILE):
                checks = (Check(flags, "has", flag), Check(flags + 1, "has", bit))
                rules.append(Rule((call,), why, checks=checks))
    return rules


def _memory_files() -> list[Rule]:
    sealed = 0x8  # MFD_NOEXEC_SEAL, which a program may ask for
    return [
        Rule(
            ("memfd_create",),
            "a program in memory would start where no written file may",
            errno.EACCES,
            (Check(1, "lacks", sealed),),
            unless="exec",
        )
    ]


RULES: tuple[Rule, ...] = (
    *_plain(),
    *_namespaces(),
    *_terminals(),
    *_sockets(),
    *_set_ids(),
    *_memory_files(),
    *_outside_a_box(),
)
