"""How a program of a narrowed request, or a block, is confined in an agent's box.

By the same walls as the worker of a request (worker_walls.py), so that both say the same; but
programs set modes and times of what they make, and go on doing so.
"""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING

from axonkernel.box import landlock, no_sockets
from axonkernel.box.interpreter import interpreter_files
from axonkernel.kernel.walls import narrowed
from axonkernel.kernel.worker_walls import plan_worker
from axonkernel.process.plain import environment_of
from axonkernel.process.rooms import Walls
from axonkernel.process.start import Place, Start, Terms

if TYPE_CHECKING:
    from axonkernel.kernel.core import Core
    from axonkernel.kernel.scope import Scope

__all__ = ["terms_in_box"]


def terms_in_box(core: Core, scope: Scope, start: Start, place: Place) -> Terms:
    """The terms of one program. Raises IsolationUnavailable for what nothing can hold here."""
    # The interpreter of a block is this one, which may be no whole program by itself.
    own = interpreter_files() if start.channel >= 0 else ()
    if start.program.file is not None:
        own += (start.program.file, os.path.realpath(start.program.file))
    planned = plan_worker(core, scope, own)
    kept = planned.walls.rules

    held = tuple(row.field for row in planned.posture if row.state == "enforced")
    env, kept_out = environment_of(start, place)
    names = tuple(path for path, _ in kept.grants)
    walls = Walls(lambda _: landlock.rules(kept), filter=_filter(core, scope))
    return Terms(walls, tuple(env.items()), kept_out, held, names)


def _filter(core: Core, scope: Scope) -> str:
    """No sockets where the network is closed and was not before. No unix ones where there is a
    broker: it would judge by what the agent may, not by what is left to the request, which asks
    it through the mediator.
    """
    changed = narrowed(scope.policy, core.policy)
    net = scope.policy.net
    closed = net is not None and net.allow == () and "net" in changed
    if not closed and not (core.brokered and changed):
        return ""
    code = no_sockets.filter_bytes(os.uname().machine, unix_only=not closed)
    return base64.b64encode(code).decode()
