"""The side outside the box: build it, answer what comes out of it, report how it ended."""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from axonkernel.box.model import (
    BoxPlan,
    BoxResult,
    Command,
    PostureField,
    posture_line,
    result_fields,
)
from axonkernel.box.remarks import remarks
from axonkernel.errors import AxonError, BoxError
from axonkernel.policy.model import Policy
from axonkernel.policy.visible import visible
from axonkernel.supervisor.ahead import compiling, importing

if TYPE_CHECKING:
    from axonkernel.agent import Agent
    from axonkernel.box.launch import Launcher
    from axonkernel.broker.opening import Opening
    from axonkernel.broker.serving import Serving
    from axonkernel.policy.decide import BoxGrants
    from axonkernel.supervisor.desk import Desk

__all__ = ["Job", "run_defined", "run_job", "supervise"]

#: What the supervisor says of a run, on stderr.
_PREFIX = "axonkernel: "


@frozen
class Job:
    """One agent to run.

    Arguments:
        name: the agent's.
        entry: its file.
        layers: (name, policy) pairs, all of which hold; paths not yet resolved.
        words: the agent's own command line.
        request: handed to the handler, JSON data.
        as_script: run the file as ``__main__``; otherwise the agent in it is served.
        hide: files that no box may see, such as the policy's own.
    """

    name: str
    entry: str
    layers: tuple[tuple[str, Policy], ...]
    words: tuple[str, ...] = ()
    request: Any = None
    as_script: bool = False
    hide: tuple[str, ...] = ()


def run_defined(agent: Agent, request: Any) -> int:
    """Run an agent whose file is running as a script, by the user's own choice."""
    from axonkernel.config.profile import load_profiles, profile_paths
    from axonkernel.required import no_policy, policy_required

    if not agent.policy.declared and policy_required():
        raise no_policy(agent.entry or "")
    words = tuple(sys.argv[1:])
    asked = {"prompt": " ".join(words)} if request is None else request
    profiles = tuple(("profile", policy) for _, policy in load_profiles(profile_paths()))
    layers = (*profiles, ("policy", agent.policy))
    if not _wants_box(layers):
        return _run_here(agent, layers, asked)
    if agent.entry is None:
        raise BoxError("entry", "the agent was not defined in a file; fix: python agent.py")
    return supervise(Job(agent.name, agent.entry, layers, words, asked, as_script=True))


def run_job(job: Job) -> int:
    """Run an agent that only its file knows so far; see :func:`supervise`."""
    if _wants_box(job.layers):
        return supervise(job)
    import runpy

    from axonkernel.agent import Agent
    from axonkernel.supervisor.ended import told

    try:
        names = runpy.run_path(job.entry, run_name="axon_config")
    except (Exception, KeyboardInterrupt) as error:
        return told(error)
    agent = next(value for value in names.values() if isinstance(value, Agent))
    return _run_here(agent, job.layers, job.request)


def _wants_box(layers: tuple[tuple[str, Policy], ...]) -> bool:
    strictness = {policy.effective_isolation for _, policy in layers}
    if strictness <= {"none"}:
        return False
    if strictness <= {"none", "best-effort"} and _without_box(layers):
        return False
    return sys.platform == "linux" or "strict" in strictness


def _without_box(layers: tuple[tuple[str, Policy], ...]) -> tuple[str, ...]:
    """Why best-effort goes without a box here; () where there will be one."""
    from axonkernel.box.prepare import without_box

    return tuple(dict.fromkeys(filter(None, (without_box(policy) for _, policy in layers))))


def _run_here(agent: Agent, layers: tuple[tuple[str, Policy], ...], request: Any) -> int:
    """No field asks for a wall (or there is none on this platform): the mediator alone."""
    from axonkernel.box.posture import mediated
    from axonkernel.escalation import Terminal

    others = tuple(layer for layer in layers if layer[1] != agent.policy)
    free = not any(policy.declared for _, policy in layers)
    # Told below, with the posture; a kernel without rows would tell it a second time.
    rows = mediated(agent.policy) if free else None
    with agent.kernel(layers=others, deciders=[Terminal()], posture=rows) as kernel:
        _announce(kernel.posture(), _without_box(layers))
        try:
            _show(kernel.request_sync(request))
        except AxonError as error:
            sys.stderr.write(f"{_PREFIX}{error}\n")
            return 1
        except (Exception, KeyboardInterrupt) as error:
            from axonkernel.supervisor.ended import told

            return told(error)
    return 0


def supervise(job: Job) -> int:
    """Run ``job`` in its box until it ends; returns the exit code of the run.

    Raises IsolationUnavailable or BoxError when there is no box; nothing ran then.
    """
    from axonkernel.audit import AuditLog
    from axonkernel.box.channel import pair
    from axonkernel.box.expected import expected
    from axonkernel.box.launch import Launcher
    from axonkernel.box.signals import forwarded
    from axonkernel.box.streams import Streams
    from axonkernel.paths import linked_grants

    launcher = expected() or Launcher()
    launcher.get_ready()
    layers = tuple(_completed(job, name, policy) for name, policy in job.layers)
    plan, hello = _prepare(job, layers)
    links = tuple(line for _, policy in job.layers for line in linked_grants(policy))
    _announce(plan.posture, (*links, *plan.warnings))
    audit = AuditLog()
    opening = _opening(plan)
    ours, theirs = pair()
    streams = Streams(run_as=plan.run_as and plan.run_as[0], controlling=plan.traced)
    terminal = streams.terminal
    command = Command(
        hello["argv"],
        *streams.given,
        theirs.fileno(),
        terminal=terminal is not None and plan.traced,
        caller=streams.caller,
        lends=opening.lends if opening is not None and hello["grants"]["brokered"] else -1,
    )
    meanwhile = importing("axonkernel.supervisor.desk")  # other processes make the box
    if opening is not None:
        launcher.share(plan.limits)
        plan = opening.plan(plan)
    try:
        box = launcher.start(plan, command, heard=lambda box, event: desk.drops.heard(box, event))
    finally:
        if opening is not None:
            opening.begun()
    theirs.close()
    meanwhile.join()
    from axonkernel.supervisor.desk import Desk

    audit.record("box.start", agent=job.name, posture=[list(row) for row in plan.posture])
    desk = Desk(
        job.name, hello["run"], layers, _grants(hello), audit, box, ours, terminal, plan.net
    )
    serving = None if opening is None else _Serving(job, layers, opening, plan, launcher, desk)
    desk.open(hello, job.request)
    compiling()
    with forwarded(box, terminal):
        streams.start()
        result = box.wait()
    streams.finish()
    assert result is not None
    desk.drops.ended(result)
    if serving is not None:
        serving.close()
    desk.close()
    launcher.close()
    audit.record("box.end", agent=job.name, result=result_fields(result), fault=desk.fault)
    if streams.fault:
        sys.stderr.write(f"{_PREFIX}{streams.fault}\n")
    if desk.fault:
        sys.stderr.write(f"{_PREFIX}the agent was ended: {desk.fault}\n")
    return _concluded(result, desk.outcome)


def _opening(plan: BoxPlan) -> Opening | None:
    from axonkernel.box.brokered import asks

    if not asks(plan):
        return None
    from axonkernel.broker.opening import Opening

    return Opening()


class _Serving:
    """What answers for programs that run in boxes beside the agent's; made while that begins.

    Who calls before it is made waits for it.
    """

    def __init__(
        self,
        job: Job,
        layers: tuple[tuple[str, Policy], ...],
        opening: Opening,
        plan: BoxPlan,
        launcher: Launcher,
        desk: Desk,
    ) -> None:
        self._made: Serving | None = None
        self._opening = opening
        given = (job, layers, plan, launcher, desk)
        self._thread = threading.Thread(target=self._make, args=given, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take no more calls, and end what runs for earlier ones."""
        self._thread.join()
        (self._made or self._opening).close()

    def _make(
        self,
        job: Job,
        layers: tuple[tuple[str, Policy], ...],
        plan: BoxPlan,
        launcher: Launcher,
        desk: Desk,
    ) -> None:
        from functools import reduce

        from axonkernel.broker.serving import Served, Serving
        from axonkernel.policy.meet import meet
        from axonkernel.supervisor.planned import asked

        policy = reduce(meet, (each for _, each in layers))
        try:
            owner = os.stat(job.entry).st_uid
            served = Served(policy, plan, asked(job, policy), dict(os.environ), owner, job.name)
            self._made = Serving(self._opening, served, launcher, desk.judge(), desk.audit)
            self._made.get_ready()
        except (OSError, AxonError):
            self._opening.socket.close()  # nobody answers: who calls is told so


def _completed(job: Job, name: str, policy: Policy) -> tuple[str, Policy]:
    """A policy with what depends on this machine: links resolved, protected files named."""
    from axonkernel.paths import canonical_policy, default_protect, loaded_files

    policy = canonical_policy(policy.closed())
    fs = policy.fs
    if fs is None or fs.protect is not None or not fs.write:
        return name, policy
    loaded = (*loaded_files(), *(policy.shell.profiles if policy.shell else ()))
    protect = default_protect(fs.write, entry=job.entry, loaded=loaded)
    return name, evolve(policy, fs=evolve(fs, protect=protect))


def _seen_inside(policy: Policy) -> Policy:
    """A policy without what the agent is not to know: the password of a proxy."""
    from axonkernel.policy.secrets import without_credentials

    net = policy.net
    if net is None or net.proxy is None:
        return policy
    return evolve(policy, net=evolve(net, proxy=without_credentials(net.proxy)))


def _prepare(job: Job, layers: tuple[tuple[str, Policy], ...]) -> tuple[BoxPlan, dict[str, Any]]:
    from axonkernel.box.brokered import brokered_files
    from axonkernel.box.child import command
    from axonkernel.policy.parse import unparse
    from axonkernel.supervisor.planned import planned

    written = [(name, unparse(policy)) for name, policy in layers]
    plan, grants = planned(job, layers, written)
    hello = {
        "type": "hello",
        "argv": command("axonkernel.supervisor.inside"),
        "entry": job.entry,
        "words": job.words,
        "run": os.urandom(4).hex(),
        "run_name": "__main__" if job.as_script else "axon_config",
        "layers": [(name, unparse(_seen_inside(policy))) for name, policy in layers],
        "grants": {
            **grants,
            "read": [*grants["read"], job.entry],
            "brokered": brokered_files(plan),
        },
        "posture": plan.posture,
        "walled": plan.net is not None,
    }
    return plan, hello


def _grants(hello: dict[str, Any]) -> BoxGrants:
    from axonkernel.policy.decide import BoxGrants

    return BoxGrants(**{name: tuple(paths) for name, paths in hello["grants"].items()})


def _announce(posture: tuple[PostureField, ...], warnings: tuple[str, ...]) -> None:
    """One line of posture, and what the reader should know, on stderr."""
    lines = [posture_line(posture), *warnings]
    sys.stderr.write("".join(f"{_PREFIX}{visible(line)}\n" for line in lines))
    sys.stderr.flush()


def _concluded(result: BoxResult, outcome: dict[str, Any] | None) -> int:
    if result.reason == "launch":
        raise BoxError(result.stage, result.message)
    if result.reason in ("wall", "memory"):
        sys.stderr.write(f"{_PREFIX}the {result.reason} limit ended the agent\n")
    sys.stderr.writelines(f"{_PREFIX}{line}\n" for line in remarks(result))
    if outcome is not None and outcome["type"] == "error":
        sys.stderr.write(f"{_PREFIX}{outcome['text']}\n")
    if outcome is not None and outcome["type"] == "result":
        _show(outcome["value"])
    return result.exit_code


def _show(value: Any) -> None:
    """What the handler returned, on stdout: text as it is, other data as JSON."""
    if value is None:
        return
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    encoding = sys.stdout.encoding or "utf-8"
    # A box can send text that no encoding has, such as half of a surrogate pair.
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    sys.stdout.flush()
