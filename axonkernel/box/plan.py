"""Policy + host -> BoxPlan (pure).

Two kinds of root. With ``fs`` declared the box starts from nothing, and only the floor, the
programs and the grants are put into it. Without, the host's tree is there as it is, less what
no box may see. In both, deeper mounts come later, so that read in write and deny in either
hold whatever the order of the policy's lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from axonkernel.box.brokered import brokered_mounts
from axonkernel.box.caps import limits_plan, net_plan
from axonkernel.box.host import Ask, Host
from axonkernel.box.model import BoxPlan, Mount
from axonkernel.box.names import Entry
from axonkernel.box.protections import brings, lies_in, mask, protections, watch, within
from axonkernel.box.steps import between
from axonkernel.box.unbuilt import holds_noexec, unreachable
from axonkernel.policy.environ import QUIET, environment
from axonkernel.policy.model import Policy

__all__ = ["build"]

_PASSWD = "{name}:x:{uid}:{gid}::{home}:/bin/sh\nnobody:x:65534:65534::/nonexistent:/bin/false\n"
_GROUP = "{name}:x:{gid}:\nnogroup:x:65534:\n"
_RESOLV_CONF = "/etc/resolv.conf"
#: The box's resolver: seconds, and how often it is asked. What is not granted is answered at once.
_RESOLV = "nameserver 127.0.0.53\noptions ndots:1 timeout:{} attempts:{}\n"


def build(policy: Policy, host: Host, ask: Ask) -> BoxPlan:
    """The box for ``policy`` on ``host``, as a value.

    The policy is closed (``Policy.closed``) and its paths are resolved. The filter, the
    posture and the user are added by :mod:`axonkernel.box.prepare`.
    """
    cwd, warnings = _working_directory(policy, host, ask)
    net = None if policy.net is None else net_plan(policy.net, policy.escalation)
    # A part of a network that is there can only be taken away in a box beside this one.
    called = ask.role == "agent" and (net is None or net.link != "none")
    return BoxPlan(
        mounts=tuple(_mounts(policy, host, called=called)),
        env=_environment(policy, host),
        cwd=cwd,
        net=net,
        limits=limits_plan(policy),
        run_as=(host.user.uid, host.user.gid) if host.switch_user else None,
        deny_new_userns=not policy.box.nested_userns,
        warnings=(
            *_missing(policy, host),
            *_trusted(policy, host),
            *unreachable(policy.net),
            *warnings,
        ),
        create=tuple(_to_create(policy, host)),
        watch=watch(policy, host),
        state=next(iter(ask.state), ""),
    )


# -- the file tree ----------------------------------------------------------------------


def _tree(policy: Policy, host: Host, *, called: bool) -> Iterator[Mount]:
    root = _root_kind(policy)
    if root == "closed":
        for link, target in host.usr_links:
            yield Mount("symlink", link, target)
        yield from (Mount("copy", path, path, 0o444) for path in host.copied)
        yield from _identity(host)
        if policy.net is not None:
            yield Mount("data", _RESOLV_CONF, mode=0o444, data=_resolv(policy))
        walled = _walled_bins(host, (*host.grants, *host.extra))
        home = Mount("tmpfs", host.user.home, mode=0o700, size_bytes=_disk_bytes(policy))
        layers = [home, *_private(policy, host)]
        layers += [*_floor(host), *_programs(host, walled), *_grants(policy, host, walled)]
    else:
        yield Mount(root, "/", "/")
        walled = _walled_bins(host, (Entry("/", "dir"),))
        layers = [*_private(policy, host), *_programs(host, walled), *_own(host), *_hidden(host)]
        if policy.fs is not None:
            layers += _grants(policy, host, walled)
        layers += _resolv_in_open_root(policy, host)
    layers += brokered_mounts(host, closed=root == "closed", called=called)
    yield from _by_depth(layers)
    yield from (Mount("remount-ro", folder) for folder in walled)
    if _disk_bytes(policy):
        yield Mount("remount-ro", "/dev")  # or it would be one more place, without a cap
    if root == "closed":
        yield Mount("remount-ro", "/")


def _mounts(policy: Policy, host: Host, *, called: bool) -> Iterator[Mount]:
    """With ``noexec`` nothing starts where the box can write; grants to read stay as they are."""
    for mount in _by_real_source(_tree(policy, host, called=called), dict(host.links)):
        writable = mount.kind in ("bind", "tmpfs", "dev") and mount.dest != "/"
        yield mount._replace(noexec=True) if writable and holds_noexec(policy) else mount


def _by_real_source(mounts: Iterable[Mount], links: dict[str, str]) -> Iterator[Mount]:
    """Sources as they are mounted: a link in one would be refused when it is opened."""
    for mount in mounts:
        real = links.get(mount.source) if mount.kind in ("bind", "ro-bind") else None
        yield mount if real is None else mount._replace(source=real)


def _root_kind(policy: Policy) -> Literal["bind", "ro-bind", "closed"]:
    """What / is made of: the host's own tree where ``fs`` leaves it, or grants it whole."""
    if policy.fs is None or "/" in policy.fs.write:
        return "bind"
    return "ro-bind" if "/" in policy.fs.read else "closed"


def _private(policy: Policy, host: Host) -> Iterator[Mount]:
    """What every box replaces: host processes, devices, sockets and scratch space."""
    size = _disk_bytes(policy)
    yield Mount("proc", "/proc")
    yield Mount("dev", "/dev")
    yield from (Mount("device", node, node) for node in host.devices)
    for path in host.kernel_files:
        # A closed root has no /sys; in an open one its control groups could be left.
        if path != "/sys" or _root_kind(policy) != "closed":
            yield Mount("ro-bind", path, path)
    if size:
        yield Mount("tmpfs", "/dev/shm", size_bytes=size)
    yield Mount("tmpfs", "/run", size_bytes=size)
    yield Mount("tmpfs", "/tmp", mode=0o1777, size_bytes=size)
    yield Mount("tmpfs", "/var/tmp", mode=0o1777, size_bytes=size)


def _disk_bytes(policy: Policy) -> int:
    """What all that the box may write in memory comes to; 0 for no cap."""
    limits = policy.limits
    return 0 if limits is None else limits.disk_bytes or 0


def _identity(host: Host) -> Iterator[Mount]:
    """Who one is, so that whoami, getpass and ssh work, and nobody else."""
    user = host.user
    fields = {"name": user.name, "uid": user.uid, "gid": user.gid, "home": user.home}
    yield Mount("data", "/etc/passwd", mode=0o444, data=_PASSWD.format(**fields))
    yield Mount("data", "/etc/group", mode=0o444, data=_GROUP.format(**fields))
    hosts = "127.0.0.1 localhost box\n::1 localhost ip6-localhost box\n"
    yield Mount("data", "/etc/hosts", mode=0o444, data=hosts)
    if host.git:
        yield Mount("data", "/etc/gitconfig", mode=0o444, data=host.git)


def _resolv_in_open_root(policy: Policy, host: Host) -> Iterator[Mount]:
    """Over the host's own. Where that has none there is no place for one, and the C library
    asks 127.0.0.1, where the box's resolver answers as well."""
    path = dict(host.links).get(_RESOLV_CONF, _RESOLV_CONF)
    in_run = within(path, "/run")  # which is the box's own
    if policy.net is not None and (host.resolv_conf or in_run):
        yield Mount("data-over", path, mode=0o444, data=_resolv(policy))
    elif policy.net is None and host.resolv_conf and in_run:
        yield Mount("ro-bind", path, path)


def _resolv(policy: Policy) -> str:
    """Patient where a person may be asked about a name; libc waits for 30 s at most."""
    asks = policy.net is not None and policy.net.escalate
    return _RESOLV.format(*((30, 1) if asks else (5, 2)))


def _floor(host: Host) -> Iterator[Mount]:
    """What ordinary programs read to start; without a program wall, the programs too."""
    yield from (Mount("ro-bind", entry.path, entry.path) for entry in host.shared)
    if not host.walled:
        yield Mount("ro-bind", "/usr", "/usr")
        outside = (folder for folder in host.bins if not within(folder, "/usr"))
        beside = (*outside, *host.program_folders)
        yield from (Mount("ro-bind", path, path) for path in beside)
    for folder in host.libraries:
        if host.walled or not within(folder, "/usr"):
            yield Mount("ro-bind", folder, folder)
    yield from _own(host)


def _own(host: Host) -> Iterator[Mount]:
    """The agent's own files, which are there whatever is granted."""
    yield from (Mount("ro-bind", e.path, e.path) for e in host.extra if e.kind != "missing")


def _hidden(host: Host) -> Iterator[Mount]:
    """What no box may see, in a root that is the host's."""
    yield from (mask(entry) for entry in host.hidden if brings("/", entry.path))


def _walled_bins(host: Host, brought_by: tuple[Entry, ...]) -> tuple[str, ...]:
    """The bin folders that would come along with what is mounted above them."""
    folders = [entry.path for entry in brought_by]
    return tuple(folder for folder in host.bins if host.walled and lies_in(folder, folders))


def _programs(host: Host, walled: tuple[str, ...]) -> Iterator[Mount]:
    """The program wall: each real file once, each name a link to it, what they read."""
    yield from (Mount("mask-file", path) for path in host.masked_programs)
    if not host.walled:
        return
    yield from (Mount("tmpfs", folder) for folder in walled)
    entries = (*host.shared, *host.extra, *host.grants)
    folders = (*host.program_folders, *host.libraries, *(entry.path for entry in entries))

    def is_there(path: str) -> bool:
        return lies_in(path, folders) and not lies_in(path, walled)

    for folder in host.program_folders:
        yield Mount("ro-bind", folder, folder)
    for program in (*host.programs, *host.brokered):
        for link, target in program.links:
            if not is_there(link):
                yield Mount("symlink", link, target)
        if program not in host.brokered and not is_there(program.file):
            yield Mount("ro-bind", program.file, program.file)


def _grants(policy: Policy, host: Host, walled: tuple[str, ...]) -> list[Mount]:
    assert policy.fs is not None
    writable = {*policy.fs.write, *(set(policy.fs.unsafe) - set(policy.fs.read))}
    mounts: list[Mount] = []
    for entry in host.grants:
        if entry.path in writable:
            mounts.append(Mount("bind", entry.path, entry.path))  # a missing one is made first
        elif entry.kind != "missing" and entry.path not in walled:
            mounts.append(Mount("ro-bind", entry.path, entry.path))
    mounts += protections(policy.fs, host)
    granted = [entry.path for entry in host.grants]
    mounts += [
        mask(entry)
        for entry in (*host.denied, *host.hidden, *host.sockets)
        if entry.kind != "missing" and any(brings(path, entry.path) for path in granted)
    ]
    return mounts


def _by_depth(mounts: Iterable[Mount]) -> list[Mount]:
    """Shallow first; of two at one place the later wins, and only it is made."""
    latest = {mount.dest: mount for mount in mounts if mount.dest != "/"}
    ordered = sorted(latest.values(), key=lambda mount: (mount.dest.count("/"), mount.dest))
    around = {folder for mount in ordered for folder in between("/", mount.dest)}
    closed_at_last: list[Mount] = []
    for at, mount in enumerate(ordered):
        if mount.kind == "mask-dir" and mount.dest in around:
            # A grant inside a denied folder: its way is made before the folder is closed.
            ordered[at] = Mount("tmpfs", mount.dest, mode=0o111)
            closed_at_last.append(Mount("remount-ro", mount.dest))
    return ordered + closed_at_last


# -- the rest ---------------------------------------------------------------------------


def _environment(policy: Policy, host: Host) -> tuple[tuple[str, str], ...]:
    fixed = {
        "PATH": ":".join(host.path),
        "HOME": host.user.home,
        "USER": host.user.name,
        "LOGNAME": host.user.name,
        "TMPDIR": "/tmp",
        **QUIET,
    }
    env, _ = environment(policy.env, dict(host.env), fixed)
    return tuple(sorted(env.items()))


def _working_directory(policy: Policy, host: Host, ask: Ask) -> tuple[str, tuple[str, ...]]:
    made = set(policy.fs.write) if policy.fs else set()
    there = [e.path for e in host.grants if e.kind != "missing" or e.path in made]
    grants = ["/"] if policy.fs is None else there
    if any(brings(path, ask.cwd) for path in grants):
        return ask.cwd, ()
    if any(within(path, ask.cwd) for path in grants):
        note = f"{ask.cwd} is not granted: in the box it holds only what is granted below it"
        return ask.cwd, (note,)
    note = f"{ask.cwd} is not granted; the working directory in the box is {host.user.home}"
    return host.user.home, (note,)


def _missing(policy: Policy, host: Host) -> Iterator[str]:
    writes = set(policy.fs.write) if policy.fs else set()
    for entry in host.grants:
        if entry.kind == "missing":
            made = entry.path in writes
            yield f"{entry.path} does not exist; {'made, to be written' if made else 'skipped'}"
    for name in host.missing_devices:
        yield f"box.devices {name}: this machine has no such device; it will not exist in the box"
    yield from (f"shell.allow {line}" for line in host.missing_interpreters)
    for name in host.missing_programs:
        where = "" if "/" in name else " on PATH"
        yield f"shell.allow {name}: no such program{where}; it will not exist in the box"


def _trusted(policy: Policy, host: Host) -> Iterator[str]:
    """Folders the agent may write and from which the caller starts programs by name."""
    writes = set(policy.fs.write) - {"/"} if policy.fs else set()
    for folder in dict.fromkeys(dict(host.env).get("PATH", "").split(":")):
        if folder.startswith("/") and any(brings(path, folder) for path in writes):
            yield f"{folder} is on PATH and can be written: what is put there runs outside by name"


def _to_create(policy: Policy, host: Host) -> Iterator[str]:
    writes = set(policy.fs.write) if policy.fs else set()
    return (e.path for e in host.grants if e.kind == "missing" and e.path in writes)
