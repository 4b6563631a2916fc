"""The plan of an agent's box: the kept one where nothing has changed, or a new one."""

from __future__ import annotations

import os
import sys
from functools import reduce
from typing import TYPE_CHECKING, Any

from axonkernel.box import plancache
from axonkernel.box.interpreter import interpreter_files
from axonkernel.box.model import BoxPlan
from axonkernel.folders import own_folders

if TYPE_CHECKING:
    from axonkernel.box.host import Ask
    from axonkernel.policy.model import Policy
    from axonkernel.supervisor.outside import Job

__all__ = ["asked", "planned"]


def planned(
    job: Job, layers: tuple[tuple[str, Policy], ...], written: list[tuple[str, dict[str, Any]]]
) -> tuple[BoxPlan, dict[str, Any]]:
    """The plan, and what the box grants by itself (``BoxGrants`` as data).

    Arguments:
        layers: paths resolved, protected files named.
        written: the same as JSON data.
    """
    owner = os.stat(job.entry).st_uid
    environ = sorted(os.environ.items())
    seeing = (os.getcwd(), interpreter_files(), job.entry, job.hide, own_folders())
    spelled = [policy.fs for _, policy in job.layers if policy.fs is not None]
    paths = [(*fs.read, *fs.deny, *fs.unsafe) for fs in spelled]
    name = plancache.key("agent", written, owner, environ, sys.executable, seeing, paths)
    kept = plancache.load_more(name)
    return kept if kept is not None else _made(name, job, layers, owner)


def _made(
    name: str, job: Job, layers: tuple[tuple[str, Policy], ...], owner: int
) -> tuple[BoxPlan, dict[str, Any]]:
    from attrs import asdict

    from axonkernel.box.implied import implied_grants
    from axonkernel.box.prepare import create, prepare_surveyed
    from axonkernel.box.watched import seen
    from axonkernel.policy.meet import meet

    effective = reduce(meet, (policy for _, policy in layers))
    plan, host = prepare_surveyed(effective, asked(job, effective), owner=owner)
    create(plan)
    grants = asdict(implied_grants(effective, os.environ))
    found = None if plan.create else seen((p for _, p in job.layers), effective, host)
    if found is not None and plan.traced:  # else ptrace may be allowed next time
        plancache.store(name, plan, found, grants)
    return plan, grants


def asked(job: Job, effective: Policy) -> Ask:
    """What the box of an agent is wanted for, under all of its policies met."""
    from axonkernel.box.host import Ask

    # The agent's own mediator knows programs as this one does.
    knowledge = effective.shell.profiles if effective.shell else ()
    return Ask(
        "agent",
        os.getcwd(),
        program=sys.executable,
        read=(*interpreter_files(), job.entry, *knowledge),
        hide=job.hide,
        state=own_folders(),
    )
