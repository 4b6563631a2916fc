"""The box as a value: what a plan holds, what a launch needs, what a run returns.

Standard library only and no attrs: the launch path imports this file, and every import
there is paid by each ``axonkernel exec``. All of it is JSON data in tuples, so a plan can be
cached and sent to the warden.
"""

from __future__ import annotations

from collections.abc import Iterable

from axonkernel.typed import Any, Literal, NamedTuple

__all__ = [
    "AskPlan",
    "BoxPlan",
    "BoxResult",
    "Command",
    "Kept",
    "LimitsPlan",
    "Mount",
    "NetPlan",
    "PostureField",
    "Reason",
    "Refusal",
    "Watch",
    "decode_plan",
    "decode_result",
    "decode_watch",
    "posture_line",
    "result_fields",
]

MountKind = Literal[
    "bind",  # source at dest, writable
    "ro-bind",  # source at dest, read-only
    "tmpfs",  # empty folder; all with size_bytes share so much, 0 is the kernel's default
    "proc",
    "dev",  # a minimal /dev
    "device",  # the device source at dest, to be used as one
    "devpts",  # terminals of the box's own
    "dir",  # an empty folder in whatever is mounted there
    "over",  # the file source, read-only, over what lies at dest
    "lent",  # a folder of another box, which the command's descriptors bring
    "symlink",  # dest -> source
    "copy",  # a copy of the file source, in a tmpfs (no mount, so it costs nothing later)
    "data",  # a file with the text in data, in a tmpfs
    "data-over",  # a read-only file with the text in data, mounted over what is there
    "mask-file",  # an empty, mode-000 file over dest
    "mask-dir",  # an empty, mode-000, read-only folder over dest
    "remount-ro",  # what is mounted at dest becomes read-only
]


class Mount(NamedTuple):
    """One step of building the box's file tree, in order; no program starts in a noexec one."""

    kind: MountKind
    dest: str
    source: str = ""
    mode: int = 0o755
    size_bytes: int = 0
    data: str = ""
    noexec: bool = False


class AskPlan(NamedTuple):
    """Destinations that a person may add while a box runs (``net.escalate``).

    Arguments:
        escalate, deny: the entries of the policy.
        held: those of ``escalate`` that are literal, as triples (NetPlan): asked about first
            where ``allow`` grants them too.
        timeout_s, headless: how long a question waits, and whether it waits where nobody can
            be asked (``escalation``).
    """

    escalate: tuple[str, ...]
    deny: tuple[str, ...] = ()
    held: tuple[tuple[str, str, str], ...] = ()
    timeout_s: float = 30.0
    headless: Literal["wait", "deny"] = "wait"


class NetPlan(NamedTuple):
    """The network of a box that declares ``net``.

    Arguments:
        allow, deny: (address or CIDR, ``tcp`` or ``udp``, port or ``low-high``) triples of
            literal destinations, IPv4 and IPv6 mixed.
        open: anything may be reached (``allow: true``); ``deny`` still holds.
        link: how the box is linked; ``none`` when nothing can be reached, ``proxy`` when that
            is how everything is.
        refuse: ``reject`` answers refused packets at once, ``drop`` is silent.
        ask: what a person may add; None for nothing.
        relayed: TCP to what is granted by name goes through the relay (redirected.py).
        names: what is granted by name, as triples with a name, ``*.base`` or ``*``; with
            ``open`` that is everything.
        denied, asked: the same of what no name grants, or only when a person says so.
        dns: which names are answered in the box; ``off`` for none.
        resolver: the address that is asked about names; "" for those of the host.
        checked: the relay compares TLS server names.
        proxy: URL of the proxy that the relay goes through; "" for none. Secret: it may hold a
            password.
        listen: TCP ports of the host's 127.0.0.1 that lead to those of the box's loopback.
    """

    allow: tuple[tuple[str, str, str], ...] = ()
    deny: tuple[tuple[str, str, str], ...] = ()
    open: bool = False
    link: Literal["none", "pasta", "veth", "proxy"] = "none"
    refuse: Literal["reject", "drop"] = "reject"
    ask: AskPlan | None = None
    relayed: bool = False
    names: tuple[tuple[str, str, str], ...] = ()
    denied: tuple[tuple[str, str, str], ...] = ()
    asked: tuple[tuple[str, str, str], ...] = ()
    dns: Literal["allowlist", "open", "off"] = "allowlist"
    resolver: str = ""
    checked: bool = False
    proxy: str = ""
    listen: tuple[int, ...] = ()

    @property
    def resolves(self) -> bool:
        """Whether any name can be asked about on the host's network."""
        some = self.names or self.asked or self.open or self.dns == "open"
        return self.dns != "off" and bool(some)


class LimitsPlan(NamedTuple):
    """Caps the scope and the warden hold; 0 means no cap.

    Arguments:
        slack_s: systemd ends the box so long after ``wall_s``, for a supervisor that is
            stopped. Its clock runs on while a human is asked, so this covers those waits.
    """

    memory_bytes: int = 0
    cpu_millicores: int = 0
    wall_s: float = 0.0
    pids: int = 0
    slack_s: float = 5.0


class PostureField(NamedTuple):
    """What is true of one declared (or open) field.

    Arguments:
        field: the policy field, or a wall every box has, such as ``seccomp``.
        state: ``enforced`` below the mediator, ``mediator only``, ``unenforced`` (declared,
            and nothing holds it), ``open`` (not declared) or ``unrestricted`` (no policy).
        by: the mechanism, such as ``mount namespace``.
        note: what the reader should know about it, or "".
    """

    field: str
    state: Literal["enforced", "mediator only", "unenforced", "open", "unrestricted"]
    by: str = ""
    note: str = ""


def posture_line(posture: Iterable[PostureField]) -> str:
    """The posture as one line: each state with its fields."""
    states: dict[str, list[str]] = {}
    for row in posture:
        states.setdefault(row.state, []).append(row.field)
    return "; ".join(f"{state}: {', '.join(fields)}" for state, fields in states.items())


class Kept(NamedTuple):
    """What has to lie over one name in the box for as long as it runs.

    Arguments:
        path: absolute, without links above its last name.
        how: ``mask`` (nothing to be read or written) or ``read-only``; ``pin`` is a folder
            above such a name, which must not be renamed.
        source: what lies there instead of what the host has, for a name that is a link: the
            path it leads to; "" for the name itself.
        stub: the name is held also while nothing of the host's lies there.
        folder, mode, text: the stub.
    """

    path: str
    how: Literal["mask", "read-only", "pin"]
    source: str = ""
    stub: bool = False
    folder: bool = False
    mode: int = 0
    text: str = ""


class Watch(NamedTuple):
    """What the keeper of a box holds.

    Arguments:
        grants: (granted path, may be written) of the policy.
        kept: outermost first.
        denied: patterns; a name that matches is masked when it comes into being.
        told: patterns; a name that comes into being and matches one is reported.
        sockets: those of the host's are masked as they appear.
    """

    grants: tuple[tuple[str, bool], ...] = ()
    kept: tuple[Kept, ...] = ()
    denied: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    sockets: bool = False


class BoxPlan(NamedTuple):
    """Everything about a box but the command that runs in it.

    Arguments:
        mounts: in the order they are made.
        env: the whole environment.
        cwd: working directory inside.
        net: None keeps the host's network (``net`` not declared).
        filter: the seccomp filter, raw BPF in base64; "" for none.
        run_as: (uid, gid) of the agent when the supervisor is root; None keeps its own.
        deny_new_userns: False only where the box makes its own namespaces inside.
        posture: what the reader is told.
        warnings: lines for stderr, such as a missing read path.
        create: missing write folders to make (mode 0755) and report before the launch.
        bare: there is no box to be had and best-effort does without (box/bare.py).
        watch: what the host may undo while the box runs; None when there is nothing.
        state: the folder of our own records, where stubs are counted; "" keeps none.
        traced: the program is held at its first instruction; False where ptrace is refused
            (box/unheld.py).
    """

    mounts: tuple[Mount, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    cwd: str = "/"
    net: NetPlan | None = None
    filter: str = ""
    limits: LimitsPlan | None = None
    run_as: tuple[int, int] | None = None
    deny_new_userns: bool = True
    hostname: str = "box"
    posture: tuple[PostureField, ...] = ()
    warnings: tuple[str, ...] = ()
    create: tuple[str, ...] = ()
    bare: bool = False
    watch: Watch | None = None
    state: str = ""
    traced: bool = True


class Command(NamedTuple):
    """What runs in the box, and the descriptors it gets.

    Arguments:
        argv: its words; argv[0] is a path or a name on the box's PATH.
        stdin, stdout, stderr: open descriptors of this process, lent for the launch.
        channel: a descriptor given to the command as its descriptor 3, or -1.
        cwd, env: override the plan's when not None.
        terminal: one of the three is a terminal of the command's own (box/pty.py), which
            becomes the controlling one of its session.
        caller: the caller's terminal, or -1: the command does not get it, the warden puts its
            settings back when this process is killed.
        lends: a descriptor on which the box's private folders are asked for, or -1.
        lent: descriptors of the plan's ``lent`` mounts, in order.
    """

    argv: tuple[str, ...]
    stdin: int = 0
    stdout: int = 1
    stderr: int = 2
    channel: int = -1
    cwd: str | None = None
    env: tuple[tuple[str, str], ...] | None = None
    terminal: bool = False
    caller: int = -1
    lends: int = -1
    lent: tuple[int, ...] = ()


Reason = Literal["exit", "wall", "memory", "killed", "launch", "keeper"]


class Refusal(NamedTuple):
    """One destination or name that a box was refused, rolled up.

    Arguments:
        address: where packets went; "" for a name that was not resolved.
        protocol: ``tcp``, ``udp``, ``icmp`` ...; ``dns`` for a name, or an address that it may
            not lead to; ``dns/TXT`` for a question of that type; ``tls-name`` and others of
            resolver/connection.py for what its relay refused; "" for what came after more
            were refused than are told apart.
        port: 0 for what has none.
        name: what was asked for, or what the address was the answer to; "" when not known.
        times: packets or questions.
        first_s, last_s: of these, in seconds since 1970, as far as they were looked at: a few
            times a second.
        program: the name of the process that asked; "" when not known.
    """

    address: str
    protocol: str
    port: int
    name: str = ""
    times: int = 1
    first_s: float = 0.0
    last_s: float = 0.0
    program: str = ""


class BoxResult(NamedTuple):
    """How a run ended.

    Arguments:
        exit_code: the command's own, 128 + N for signal N, 125 when the box did not start.
        reason: ``exit``, ``wall``, ``memory``, ``killed`` (by the supervisor), ``keeper``
            (nothing held the masks any more) or ``launch`` (nothing ran).
        stage, message: where and why a launch failed; "" otherwise.
        wall_s: seconds from release to end.
        cpu_s: seconds of processor time, of all its processes.
        peak_memory_bytes, peak_pids: from its control group; None without one.
        oom: the kernel killed a process for memory.
        denied: what it was refused on the network, at most 257, the last of which counts the
            rest.
        kept: (what, path) of what the keeper did and saw, at most 256: ``mask.restored``,
            ``mask.added``, ``name.made`` (one of fs.protect that came into being),
            ``watch.full`` (no more folders), ``keeper.ended`` (with the reason).
        refused_pids: how often no process was made because of ``limits.pids``.
    """

    exit_code: int
    reason: Reason = "exit"
    stage: str = ""
    message: str = ""
    wall_s: float = 0.0
    cpu_s: float | None = None
    peak_memory_bytes: int | None = None
    peak_pids: int | None = None
    oom: bool = False
    denied: tuple[Refusal, ...] = ()
    kept: tuple[tuple[str, str], ...] = ()
    refused_pids: int = 0


def result_fields(result: BoxResult) -> dict[str, Any]:
    """A result for a record of the audit log."""
    return result._asdict() | {"denied": [each._asdict() for each in result.denied]}


def decode_result(data: Iterable[Any]) -> BoxResult:
    """A result from its JSON form."""
    result = BoxResult(*data)
    return result._replace(
        denied=tuple(Refusal(*each) for each in result.denied),
        kept=tuple((what, path) for what, path in result.kept),
    )


def decode_plan(data: list[Any]) -> BoxPlan:
    """A plan from its JSON form (``json.dumps(plan)`` gives nested lists).

    Raises TypeError or ValueError on data that is not a plan.
    """
    plan = BoxPlan(*data)
    return plan._replace(
        mounts=tuple(Mount(*mount) for mount in plan.mounts),
        env=tuple((name, value) for name, value in plan.env),
        net=None if plan.net is None else _decode_net(plan.net),
        limits=None if plan.limits is None else LimitsPlan(*plan.limits),
        run_as=None if plan.run_as is None else (plan.run_as[0], plan.run_as[1]),
        posture=tuple(PostureField(*field) for field in plan.posture),
        warnings=tuple(plan.warnings),
        create=tuple(plan.create),
        watch=None if plan.watch is None else decode_watch(plan.watch),
    )


def decode_watch(data: Iterable[Any]) -> Watch:
    """What the keeper holds, from its JSON form."""
    watch = Watch(*data)
    return watch._replace(
        grants=tuple((path, written) for path, written in watch.grants),
        kept=tuple(Kept(*kept) for kept in watch.kept),
        denied=tuple(watch.denied),
        told=tuple(watch.told),
    )


def _decode_net(data: Any) -> NetPlan:
    net = NetPlan(*data)
    return net._replace(
        allow=tuple((a, p, q) for a, p, q in net.allow),
        deny=tuple((a, p, q) for a, p, q in net.deny),
        names=tuple((a, p, q) for a, p, q in net.names),
        denied=tuple((a, p, q) for a, p, q in net.denied),
        asked=tuple((a, p, q) for a, p, q in net.asked),
        listen=tuple(net.listen),
        ask=None if net.ask is None else _decode_ask(net.ask),
    )


def _decode_ask(data: Any) -> AskPlan:
    ask = AskPlan(*data)
    return ask._replace(
        escalate=tuple(ask.escalate),
        deny=tuple(ask.deny),
        held=tuple((a, p, q) for a, p, q in ask.held),
    )
