"""Narrowed scopes, kept: a service asks for the same few policies again and again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from axonkernel.kernel.scope import Layer, Scope
from axonkernel.policy.meet import clamped, taking_away
from axonkernel.policy.model import Policy

__all__ = ["Narrowings"]

_MOST_KEPT = 256

_Key = tuple[tuple[Layer, ...], Policy, Policy]


class Narrowings:
    """Makes narrowed scopes; from any thread.

    Arguments:
        completed: a policy with what depends on this machine as it is now.
        compiled: a policy as a layer.
    """

    def __init__(
        self, completed: Callable[[Policy], Policy], compiled: Callable[[str, Policy], Layer]
    ) -> None:
        self._completed = completed
        self._compiled = compiled
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Key, tuple[Scope, tuple[str, ...]]] = OrderedDict()

    def of(self, scope: Scope, asked: Policy) -> tuple[Scope, tuple[str, ...]]:
        """``scope`` narrowed by a policy, and what that asks for beyond the scope."""
        completed = self._completed(taking_away(asked))
        if completed.shell is not None and completed.shell.profiles:
            return self._made(scope, asked, completed)  # files, which may change
        key = (scope.layers, asked, completed)
        with self._lock:
            if (found := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
                return found
        made = self._made(scope, asked, completed)
        with self._lock:
            self._kept[key] = made
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return made

    def _made(
        self, scope: Scope, asked: Policy, completed: Policy
    ) -> tuple[Scope, tuple[str, ...]]:
        lines = clamped(scope.policy, asked)
        return scope.plus(self._compiled("request", completed)), lines
