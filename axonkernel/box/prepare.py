"""From a policy to a plan that this machine can hold: probe, survey, plan, filter, posture."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping

from axonkernel.box import landlock, no_sockets, plan, posture, probe, seccomp
from axonkernel.box.caps import net_plan
from axonkernel.box.host import Ask, Host, survey
from axonkernel.box.launch import needs_scope
from axonkernel.box.making import create
from axonkernel.box.model import BoxPlan
from axonkernel.box.probe import Piece
from axonkernel.box.runas import run_as
from axonkernel.box.unbuilt import holds_noexec, unbuilt
from axonkernel.errors import BoxError, Fault, IsolationUnavailable, PolicyError
from axonkernel.policy.model import Policy

__all__ = ["create", "prepare", "prepare_confined", "prepare_surveyed", "refused", "without_box"]

#: What to do about a field that no machine can hold yet.
_UNBUILT_FIX = "leave it out; this version cannot hold it"
#: What going without a piece costs, where that is not a wall.
_LOST = {"net.link": "nothing in net.allow can be reached"}


def prepare(
    policy: Policy, ask: Ask, *, env: Mapping[str, str] | None = None, owner: int | None = None
) -> BoxPlan:
    """The plan of a box for ``policy``.

    Arguments:
        policy: paths resolved (:func:`axonkernel.paths.canonical_policy`).
        ask: what the box is for.
        env: the environment to choose from; this process's own when None.
        owner: uid the agent should run as under a root supervisor, unless ``box.run_as``
            says otherwise; None takes the owner of the first write grant (runas.py).

    Raises IsolationUnavailable when a declared field has no wall here (unless isolation is
    ``best-effort``), PolicyError for a ``run_as`` that does not exist.
    """
    return prepare_surveyed(policy, ask, env=env, owner=owner)[0]


def prepare_surveyed(
    policy: Policy, ask: Ask, *, env: Mapping[str, str] | None = None, owner: int | None = None
) -> tuple[BoxPlan, Host]:
    """:func:`prepare`, with what was found on the host."""
    policy = policy.closed()
    unenforced = _require(policy)
    environ = os.environ if env is None else env
    # Without a box every program is where it is.
    surveyed = ask._replace(role="call") if "box" in unenforced else ask
    host = survey(policy, surveyed, environ, run_as(policy, owner))
    built = plan.build(policy, host, ask)
    mediated = ask.role != "exec"
    if "box" in unenforced:
        lacks = (_lack("no box", unenforced["box"]),)
        return _bare(built, policy, lacks, mediated=mediated), host
    built = _without(built, unenforced)._replace(traced=_traced())
    built = built._replace(
        filter=_filter(policy),
        posture=posture.boxed(
            policy,
            built,
            unenforced,
            mediated=mediated,
            programs=host.programs,
            brokered=host.brokered,
            inside=host.judged_inside,
            first_code=ask.role == "agent",
        ),
    )
    return built, host


def prepare_confined(policy: Policy, ask: Ask, *, env: Mapping[str, str] | None = None) -> BoxPlan:
    """The plan of what a process gives up by itself for ``policy``, wherever it stands.

    It has no mounts where the kernel has no means for that. Arguments as for :func:`prepare`.
    """
    policy = policy.closed()
    environ = os.environ if env is None else env
    host = survey(policy, ask, environ, run_as(policy, None))
    return _bare(plan.build(policy, host, ask), policy, (), mediated=True)


def _traced() -> bool:
    """Whether the program can be held at its first instruction. A kept no is not believed."""
    found = probe.probe()
    if found.kept and found.lacking("release") is not None:
        found = probe.probe(refresh=True)
    return found.lacking("release") is None


def _filter(policy: Policy) -> str:
    unix = policy.net.unix if policy.net is not None else "box"
    nested, noexec = policy.box.nested_userns, holds_noexec(policy)
    code = seccomp.filter_bytes(nested_userns=nested, unix=unix, noexec=noexec)
    return base64.b64encode(code).decode()


def without_box(policy: Policy) -> str:
    """Why a best-effort ``policy`` goes without any box here; "" where there will be one."""
    if policy.effective_isolation != "best-effort":
        return ""
    piece = probe.probe().lacking("box")
    return "" if piece is None else _lack("no box", piece)


def refused(policy: Policy) -> dict[str, Piece]:
    """The declared fields that keep a box for ``policy`` from being made here, each with what
    it lacks; none where nothing asks for a box, or best-effort goes without."""
    if policy.effective_isolation in ("none", "best-effort"):
        return {}
    policy = policy.closed()
    found = probe.probe()
    lacking = probe.unenforced(_walled_fields(policy), found)
    if lacking and found.kept:  # what was missing may be there by now, as for a launch
        lacking = probe.unenforced(_walled_fields(policy), probe.probe(refresh=True))
    return {**lacking, **dict(_unbuilt(policy))}


def _unbuilt(policy: Policy) -> Iterator[tuple[str, Piece]]:
    for field, what in unbuilt(policy):
        yield field, Piece(field, False, what, "", _UNBUILT_FIX)


def _require(policy: Policy) -> dict[str, Piece]:
    """The declared fields without a wall; refuses them unless isolation is best-effort."""
    fields = tuple(_walled_fields(policy))
    isolation = policy.effective_isolation
    pieces = dict(_unbuilt(policy))
    if isolation == "best-effort":
        return {**probe.unenforced(fields, probe.probe()), **pieces}
    for field, piece in pieces.items():
        raise IsolationUnavailable(field, piece.missing, piece.fix)
    if isolation == "strict":
        _refuse_open(policy)
    probe.require(fields, probe.probe())
    return {}


def _refuse_open(policy: Policy) -> None:
    """Strict leaves no block to the host: an open one undermines the closed ones."""
    names = ("fs", "net", "shell", "env")
    faults = [
        Fault(f"$.{name}", 'is open, which isolation = "strict" refuses', hint='default = "deny"')
        for name in names
        if getattr(policy, name) is None
    ]
    if faults:
        raise PolicyError(faults)


def _walled_fields(policy: Policy) -> Iterator[str]:
    yield "box"
    if policy.effective_isolation == "strict":
        yield "release"
    for name in ("fs", "net", "shell", "env"):
        if getattr(policy, name) is not None:
            yield name
    limits = policy.limits
    if limits is not None:
        caps = {
            "memory": limits.memory_bytes,
            "cpu": limits.cpu_millicores,
            "pids": limits.pids,
        }
        yield from (f"limits.{name}" for name, cap in caps.items() if cap is not None)
    link = "none" if policy.net is None else net_plan(policy.net).link
    if link in ("pasta", "veth"):
        yield 'net.link = "veth"' if link == "veth" else "net.link"


def _bare(built: BoxPlan, policy: Policy, lacks: tuple[str, ...], *, mediated: bool) -> BoxPlan:
    """The plan where there is no box at all: what a process can give up by itself."""
    code, whole = _filter_without_box(policy)
    if landlock.abi() < landlock.TRUSTED_SINCE_ABI:
        return BoxPlan(
            env=built.env,
            posture=posture.bare(policy, mediated=mediated),
            warnings=lacks,
            create=built.create,
            bare=True,
        )
    built = built._replace(filter=code, limits=None)
    rows = posture.confined(policy, built, mediated=mediated)
    return built._replace(
        posture=rows if whole else tuple(row for row in rows if row.field != "seccomp"),
        warnings=(*lacks, *built.warnings),
        bare=True,
    )


def _filter_without_box(policy: Policy) -> tuple[str, bool]:
    """The filter, and whether that is all of it: where it cannot be compiled, such as in a box
    of ours, which has one, it is no more than ``net`` needs.

    Nothing masks the host's sockets: where ``net`` is declared there are none of their kind.
    """
    closed = policy.net is not None and policy.net.allow == ()
    try:
        code = seccomp.filter_bytes(
            nested_userns=False,
            unix="box" if policy.net is None else "none",
            inet=not closed,
            boxed=False,
        )
    except (IsolationUnavailable, BoxError):
        code = no_sockets.filter_bytes(os.uname().machine) if closed else b""
        return base64.b64encode(code).decode(), False
    return base64.b64encode(code).decode(), True


def _lack(what: str, piece: Piece) -> str:
    return f"{what}: {piece.missing} is missing; fix: {piece.fix}"


def _without(built: BoxPlan, unenforced: Mapping[str, Piece]) -> BoxPlan:
    """The plan less what cannot be had: best-effort runs with what there is."""
    limits = built.limits
    capped = {"limits.memory", "limits.cpu", "limits.pids"}
    if limits is not None and needs_scope(limits) and not capped.isdisjoint(unenforced):
        limits = limits._replace(memory_bytes=0, cpu_millicores=0, pids=0)
    net = built.net
    if "net" in unenforced:
        net = None
    elif net is not None and "net.link" in unenforced:
        net = net._replace(link="none")
    lacks = tuple(_lack(_LOST.get(f, f"{f} is not held"), p) for f, p in unenforced.items())
    return built._replace(limits=limits, net=net, warnings=(*lacks, *built.warnings))
