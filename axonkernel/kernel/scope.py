"""The policies that hold for a call: the kernel's own layers and what narrows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property, partial, reduce
from typing import Any

from axonkernel.policy.decide import Ruleset, Stack
from axonkernel.policy.decide import compile as compile_policy
from axonkernel.policy.meet import meet
from axonkernel.policy.model import Policy
from axonkernel.policy.request import AnyRequest, Decision

__all__ = ["Layer", "Scope", "active", "entered", "layer_of"]


class Layer:
    """One policy, compiled when it is first asked."""

    def __init__(self, name: str, policy: Policy, compiled: Callable[[], Ruleset]) -> None:
        self.name = name
        self.policy = policy
        self._compiled = compiled

    @cached_property
    def ruleset(self) -> Ruleset:
        """What decides. Raises what ``compile`` does."""
        return self._compiled()


class Scope:
    """Layers whose strictest answer counts. A value: narrowing makes another one."""

    def __init__(self, layers: tuple[Layer, ...]) -> None:
        self.layers = layers

    @cached_property
    def stack(self) -> Stack:
        """What decides for all layers."""
        return Stack(tuple(layer.ruleset for layer in self.layers))

    @cached_property
    def policy(self) -> Policy:
        """All layers met in one policy, as a box is built from it."""
        return reduce(meet, (layer.policy for layer in self.layers))

    def decide(self, request: AnyRequest) -> Decision:
        """The strictest answer of all layers about a canonical request."""
        return self.stack.decide(request)

    def plus(self, *layers: Layer) -> Scope:
        """This scope narrowed by more layers; by none that it has already."""
        fresh = tuple(layer for layer in layers if layer not in self.layers)
        return Scope((*self.layers, *fresh)) if fresh else self


#: The narrowed scope of each kernel, by value: tasks and threads that copy the context keep
#: theirs, whatever others enter or leave.
_ACTIVE: ContextVar[Mapping[object, Scope]] = ContextVar("axonkernel_scopes")


def active(owner: object) -> Scope | None:
    """What narrows ``owner`` in the current context, or None."""
    scopes = _ACTIVE.get(None)
    return None if scopes is None else scopes.get(owner)


@contextmanager
def entered(owner: object, scope: Scope) -> Iterator[None]:
    """Let ``scope`` hold for ``owner`` in the current context until the end of the block."""
    token = _ACTIVE.set({**_ACTIVE.get({}), owner: scope})
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def layer_of(name: str, policy: Policy, *, lazy: bool = False, **options: Any) -> Layer:
    """``policy`` compiled as the layer ``name``; ``options`` go to ``compile``.

    Arguments:
        lazy: compile it when it is first asked, which may be never.
    """
    layer = Layer(name, policy, partial(compile_policy, policy, layer=name, **options))
    if not lazy:
        layer.ruleset  # noqa: B018 - its faults are told now
    return layer
