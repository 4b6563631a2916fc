"""What is true of each declared field: enforced, by what, and what the reader should know.

Pure. A posture is shown at every start and kept in the audit, so nothing here may claim more
than the plan holds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from axonkernel.box.find import Program
from axonkernel.box.judged import escalates_calls, held_in_part, judged_rows
from axonkernel.box.model import BoxPlan, PostureField
from axonkernel.box.unbuilt import holds_noexec, names_in
from axonkernel.policy.globs import is_glob
from axonkernel.policy.model import NetPolicy, Policy, ToolRules
from axonkernel.policy.profiles import shipped_names
from axonkernel.policy.protect import DEFAULT_PROTECT

__all__ = ["boxed", "escalates", "mediated"]

_OPEN_FS = "fs is open: the agent can plant files that run outside"
_NAMES = "a name is granted by its addresses: names that share one are not told apart"
_NO_NAMES = "net.dns is off: no name is found in the box"
_DENIED_NAMES = "a name in net.deny is not answered; its addresses are not denied"
_SOCKETS = "a socket that the host makes in a granted folder is masked once it is there"
_OPEN_SOCKETS = "fs is open: sockets of the host that lie in its folders can be reached"
_VETH = (
    "while it runs the host has an interface axonID and tables axonkernel-ID and "
    "axonkernel-forward, and forwards where it did not; put back at the end"
)
_LISTEN = (
    "127.0.0.1 of the host leads to these ports of the box's loopback, for any user of the host"
)
_IN_MEMORY = "an interpreter that is there still runs what it reads"
_BY_SERVER_NAME = (
    "a name is granted by TLS server name: what a server does for a client that asks it for "
    "another name inside, it does"
)
_BY_PROXY = "names are granted by what the box asks net.proxy for"
_NESTED = "programs can make namespaces: more of the kernel is in reach"
_ASKED = "the first attempt fails at once and has a person asked; a later one gets through"
_SEEN = (
    "what is not granted can be seen by name, not opened or executed; mode, owner and times of "
    "the user's own files can be changed"
)
_TAKEN_OUT = "without a box, fs.deny and fs.protect take nothing out of a grant"
_PATTERNS = "a new name that only a pattern denies or protects is masked or told once it is there"

_UNHELD = "ptrace is refused here: the filter is looked at just after the start, all else before"


def boxed(
    policy: Policy,
    plan: BoxPlan,
    unenforced: Collection[str],
    *,
    mediated: bool,
    programs: Iterable[Program] = (),
    brokered: Iterable[Program] = (),
    inside: Collection[str] = (),
    first_code: bool = False,
) -> tuple[PostureField, ...]:
    """The posture of a box made by ``plan``.

    Arguments:
        policy: the closed policy the plan was made from.
        unenforced: declared fields without a wall here (best-effort).
        mediated: whether the mediator judges what happens inside, as it does not under
            ``exec``.
        programs: those of the box's program wall.
        brokered: those that run only outside it, each call judged.
        inside: names of programs with argument rules that are in the box all the same.
        first_code: whether the first code in the box is ours (child.py), and looks around.
    """
    implied = () if mediated else _implied(policy)
    elsewhere = tuple(program.name for program in brokered)
    judged = tuple(judged_rows(policy, elsewhere, inside))
    rows = [
        _held(row, unenforced, mediated)
        for row in _boxed(policy, plan, programs, judged, first_code)
        if row.field not in implied or held_in_part(row)
    ]
    named = {row.field for row in rows}
    rows += [PostureField(name, "unenforced") for name in unenforced if name not in named]
    return tuple(rows)


def _implied(policy: Policy) -> tuple[str, ...]:
    """Rows about what nobody wrote down, which say nothing where nobody judges."""
    tools = ("tools",) if policy.tools == ToolRules() else ()
    return ("shell.hazard", "shell.raw", *tools)


def _held(row: PostureField, unenforced: Collection[str], mediated: bool) -> PostureField:
    if row.state in ("enforced", "open") and row.field in unenforced:
        return row._replace(state="unenforced", by="")
    if row.state == "mediator only" and not mediated:
        note = row.note if held_in_part(row) else "no mediator judges a command of exec"
        return row._replace(state="unenforced", note=note)
    return row


def bare(policy: Policy, *, mediated: bool) -> tuple[PostureField, ...]:
    """The posture of best-effort where no box can be made.

    Arguments:
        mediated: whether calls still pass the mediator, as they do not under ``exec``.
    """
    policy = policy.closed()
    by, note = ("mediator", "") if mediated else ("", "no box can be made here")
    rows = [
        PostureField(name, "open")
        if getattr(policy, name) is None
        else PostureField(name, "unenforced", by, note)
        for name in ("fs", "net", "shell", "env")
    ]
    rows += [row._replace(state="unenforced", by=by) if row.state == "enforced" else row
             for row in _limits(policy)]  # fmt: skip
    if policy.box.noexec:
        rows.append(PostureField("box.noexec", "unenforced", "", "no box can be made here"))
    if policy.tools is None:
        return (*rows, PostureField("tools", "open"))
    return (*rows, PostureField("tools", "mediator only" if mediated else "unenforced"))


def confined(policy: Policy, plan: BoxPlan, *, mediated: bool) -> tuple[PostureField, ...]:
    """The posture of best-effort where no box can be made, and Landlock can."""
    weaker = {row.field: row for row in bare(policy, mediated=mediated)}
    held = {row.field: row for row in _confined(policy, plan)}
    return tuple({**weaker, **held}.values())


def _confined(policy: Policy, plan: BoxPlan) -> Iterator[PostureField]:
    if policy.fs is not None:
        yield PostureField("fs", "enforced", "Landlock", _SEEN)
        taken_out = [mount.kind for mount in plan.mounts if mount.kind.startswith("mask")]
        if policy.fs.deny or policy.fs.write or taken_out:
            yield PostureField("fs.deny", "unenforced", "", _TAKEN_OUT)
    if plan.filter:
        yield PostureField("seccomp", "enforced", "seccomp filter")
    if plan.filter and policy.net is not None and policy.net.allow == ():
        yield PostureField("net", "enforced", "seccomp filter", "no IPv4 or IPv6 sockets")
    if policy.fs is not None and policy.shell is not None and policy.shell.allow is not True:
        yield PostureField("shell", "enforced", "Landlock", "programs can be seen, not executed")
    if policy.env is not None:
        yield PostureField("env", "enforced", "environment built from nothing")
    yield _user(plan)


def mediated(policy: Policy) -> tuple[PostureField, ...]:
    """The posture where nothing but the mediator holds."""
    if not policy.declared:
        return (PostureField("policy", "unrestricted", "", "no policy: all is allowed"),)
    policy = policy.closed()
    blocks = ("fs", "net", "shell", "env", "tools", "limits")
    return tuple(
        PostureField(name, "open" if getattr(policy, name) is None else "mediator only")
        for name in blocks
    )


def _boxed(
    policy: Policy,
    plan: BoxPlan,
    programs: Iterable[Program],
    judged: Iterable[PostureField],
    first_code: bool,
) -> Iterator[PostureField]:
    yield _fs(policy)
    yield _net(policy, plan)
    if plan.net is not None and plan.net.listen:
        yield PostureField("net.listen", "enforced", "pasta", _LISTEN)
    if plan.net is not None and plan.net.link == "veth":
        yield PostureField("net.link", "enforced", "veth, masqueraded by the host", _VETH)
    yield from _shell(policy, programs)
    yield from (row for row in judged if row.field != "escalation")
    if policy.env is None:
        yield PostureField("env", "open", "", "the supervisor's whole environment is visible")
    else:
        yield PostureField("env", "enforced", "environment built from nothing")
    yield PostureField("tools", "open" if policy.tools is None else "mediator only")
    yield from (row for row in judged if row.field == "escalation")
    if plan.net is not None and plan.net.ask is not None:
        yield PostureField("net.escalate", "enforced", "refused until a person lets it in", _ASKED)
    yield from _limits(policy)
    if policy.budget is not None:
        yield PostureField("budget", "unenforced", "", "this version counts nothing")
    yield from _box(policy, plan)
    yield PostureField("seccomp", "enforced", "seccomp filter")
    yield _release(plan, first_code)
    yield _user(plan)


def _box(policy: Policy, plan: BoxPlan) -> Iterator[PostureField]:
    if holds_noexec(policy):
        yield PostureField("box.noexec", "enforced", "noexec mounts + seccomp filter", _IN_MEMORY)
    if policy.box.devices:
        there = [mount.dest for mount in plan.mounts if mount.kind == "device"]
        note = f"{', '.join(there)} can be used" if there else "none of them is on this machine"
        yield PostureField("box.devices", "open", "", note)
    if policy.box.nested_userns:
        yield PostureField("box.nested_userns", "open", "", _NESTED)


def _fs(policy: Policy) -> PostureField:
    if policy.fs is None:
        return PostureField("fs", "open", "", "the host's files are there; " + _OPEN_FS)
    protect = DEFAULT_PROTECT if policy.fs.protect is None else policy.fs.protect
    by_pattern = policy.fs.write and any(map(is_glob, (*policy.fs.deny, *protect)))
    note = _PATTERNS if by_pattern else ""
    if "/" in policy.fs.write:
        note = "write covers /: " + _OPEN_FS
    return PostureField("fs", "enforced", "mount namespace", note)


def _net(policy: Policy, plan: BoxPlan) -> PostureField:
    if policy.net is None or plan.net is None:
        return PostureField("net", "open", "", "the host's network is there")
    by = "network namespace + nftables, default drop"
    if plan.net.link == "none":
        by = "network namespace without a link"
    elif plan.net.link == "proxy":
        by = "network namespace without a link, names through net.proxy"
    notes = list(_names(policy.net))
    if policy.net.unix == "box":
        if policy.fs is None:
            notes.append(_OPEN_SOCKETS)
        elif policy.fs.read or policy.fs.write:
            notes.append(_SOCKETS)
    return PostureField("net", "enforced", by, "; ".join(notes))


def _names(net: NetPolicy) -> Iterator[str]:
    if names_in(net) and net.dns == "off":
        yield _NO_NAMES
    elif names_in(net) and net.tls_names == "check":
        yield _BY_SERVER_NAME
    elif names_in(net) and net.proxy is not None:
        yield _BY_PROXY
    elif names_in(net):
        yield _NAMES
    if names_in(NetPolicy(allow=net.deny)):
        yield _DENIED_NAMES


def _shell(policy: Policy, programs: Iterable[Program]) -> Iterator[PostureField]:
    shell = policy.shell
    if shell is None:
        yield PostureField("shell", "open")
        return
    if shell.allow is True:
        yield PostureField("shell", "enforced" if shell.deny else "open", "program masks")
    else:
        notes = [_OPEN_FS] if policy.fs is None else []
        # Who allowed make alone, say, has a shell in the box all the same.
        notes += [
            f"{program.name} is there for {program.brought_by}"
            for program in programs
            if program.brought_by and shipped_names().get(program.name) == "shell"
        ]
        yield PostureField("shell", "enforced", "program wall", "; ".join(notes))


def _limits(policy: Policy) -> Iterator[PostureField]:
    limits = policy.limits
    if limits is None:
        yield PostureField("limits", "open")
        return
    held_by = {
        "memory": (limits.memory_bytes, "control group"),
        "cpu": (limits.cpu_millicores, "control group"),
        "pids": (limits.pids, "control group"),
        "wall": (limits.wall_s, "supervisor's clock"),
        "disk": (limits.disk_bytes, "size of all private folders together"),
    }
    for name, (value, by) in held_by.items():
        if value is not None:
            yield PostureField(f"limits.{name}", "enforced", by)
    if limits.output_bytes is not None:
        yield PostureField("limits.output", "mediator only", "", "ends a call that returns more")


def _release(plan: BoxPlan, first_code: bool) -> PostureField:
    if plan.traced:
        return PostureField("release", "enforced", "checked at the program's first instruction")
    if first_code:
        return PostureField("release", "enforced", "checked by the first code in the box")
    return PostureField("release", "unenforced", "", _UNHELD)


def _user(plan: BoxPlan) -> PostureField:
    if plan.run_as is not None:
        return PostureField("user", "enforced", f"uid {plan.run_as[0]}")
    return PostureField("user", "enforced", "the supervisor's own uid, without capabilities")


def escalates(policy: Policy) -> bool:
    """Whether any rule of the policy asks a human."""
    return bool(policy.net and policy.net.escalate) or escalates_calls(policy)
