"""Run the agent of axon.config.py in its box.

The configuration found here or above needs `axonkernel trust` once; one you name with --agent
is your own choice. Its policy is read in a closed box, its functions load only in the agent's box.
What the handler returns is printed on stdout, text as it is, other data as JSON.

examples:
  axonkernel run summarise the open issues
  axonkernel run --agent agent.py --request '{"prompt": "review", "branch": "main"}'

exit codes: 0 the handler returned; 1 it raised, or a call was denied; 137 a limit ended the
agent (its name is on stderr; 128 + N when signal N did); 125 no box; 78 a policy with faults
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from axonkernel.cli.args import usage_error

if TYPE_CHECKING:
    from axonkernel.policy.model import Policy

__all__ = ["add_arguments", "run"]

#: What supervises the agent's box.
_NEEDED = (
    "axonkernel.supervisor.planned",
    "axonkernel.box.streams",
    "axonkernel.supervisor.desk",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``run`` takes."""
    parser.add_argument("--agent", metavar="FILE", help="a Python file with one agent")
    parser.add_argument("--policy", metavar="FILE", help="a policy that holds as well")
    parser.add_argument("--request", metavar="JSON", help="what the handler gets")
    parser.add_argument(
        "--require-policy", action="store_true", help="refuse an agent without a policy"
    )
    parser.add_argument(
        "--best-effort",
        action="store_true",
        help="run with the walls this machine has, and say which are missing",
    )
    parser.add_argument("words", nargs="*", metavar="WORD", help="words of a prompt")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code of the agent's run."""
    from axonkernel.supervisor.ahead import importing

    if sys.platform == "linux":
        from axonkernel.box.expected import expect_box

        expect_box()
        # A Python configuration is evaluated by another process, and waited for.
        importing(*_NEEDED)
    from axonkernel.config import load
    from axonkernel.supervisor.outside import Job, run_job

    request = _request(args)
    loaded = load(args.agent, require_policy=args.require_policy or None)
    if loaded.entry is None:
        raise usage_error(_no_agent(loaded.source))
    layers = loaded.layers
    hide: tuple[str, ...] = ()
    if args.policy is not None:
        more = load(args.policy)
        layers, hide = (*layers, *more.layers), (more.source,)
    if args.best_effort:
        # The machine's own profile is a ceiling: no switch lowers it.
        layers = tuple(
            (name, policy if name == "profile" else _best_effort(policy)) for name, policy in layers
        )
    job = Job(
        name=loaded.name or os.path.basename(loaded.entry).removesuffix(".py"),
        entry=loaded.entry,
        layers=layers,
        words=tuple(args.words),
        request=request,
        hide=hide,
    )
    return run_job(job)


def _best_effort(policy: Policy) -> Policy:
    """``policy`` for a machine that lacks a wall; where it asks for no box it still does not."""
    from attrs import evolve

    if policy.effective_isolation == "none":
        return policy
    return evolve(policy, isolation="best-effort")


def _no_agent(source: str) -> str:
    """What to do where ``source`` is the configuration, "" for none, and has no agent."""
    if not source:
        return f"{os.getcwd()} holds no agent; write axon.config.py (axonkernel init --python)"
    name = os.path.basename(source)
    return (
        f"{source} holds no agent, only a policy\n"
        f"  either: in another folder `axonkernel init --python`, and move what {name} says "
        "into its define_agent(policy=...); one folder has one configuration\n"
        "  or: axonkernel run --agent FILE, a Python file that calls define_agent "
        f"(add --policy {name} to have both hold)"
    )


def _request(args: argparse.Namespace) -> Any:
    if args.request is None:
        return {"prompt": " ".join(args.words)}
    if args.words:
        raise usage_error("give --request or words, not both")
    try:
        return json.loads(args.request)
    except ValueError as error:
        raise usage_error(f"--request is not JSON: {error}") from None
