"""Running an agent in its box: the side outside, which supervises, and the side inside."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from axonkernel.agent import Agent

__all__ = ["run_agent"]


def run_agent(agent: Agent, request: Any = None) -> int:
    """Run ``agent``: inside a box serve its requests, outside build the box and supervise.

    Arguments:
        request: handed to the handler; the command line's words as a prompt when None.

    Returns the exit code of the run, 0 when the handler returned.
    """
    from axonkernel.box.child import session

    if (here := session()) is not None:
        from axonkernel.supervisor.inside import serve

        return serve(here, agent)
    if sys.platform == "linux" and agent.policy.effective_isolation != "none":
        from axonkernel.box.expected import expect_box

        expect_box()
    from axonkernel.supervisor.outside import run_defined

    return run_defined(agent, request)
