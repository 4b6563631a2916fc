"""Ways through what was read."""

from __future__ import annotations

from collections.abc import Iterator

from axonkernel.policy.shell.builtin import effect_of
from axonkernel.policy.shell.tree import Assignment, Block, Chain, Definition, Node, Simple, Word

__all__ = ["assignments", "certain", "definitions", "simples"]


def _children(node: Node) -> tuple[Node, ...]:
    if isinstance(node, Simple):
        return node.inner
    if isinstance(node, Block):
        return node.parts
    if isinstance(node, Chain):
        return (node.first, *(part for _, part in node.rest))
    return (node.body,)


def simples(node: Node) -> Iterator[Simple]:
    """Every simple command below a node, those of substitutions too."""
    if isinstance(node, Simple):
        yield node
    for child in _children(node):
        yield from simples(child)


def definitions(node: Node) -> Iterator[Definition]:
    """Every function below a node."""
    if isinstance(node, Definition):
        yield node
    for child in _children(node):
        yield from definitions(child)


def certain(root: Node) -> Iterator[Node]:
    """What runs for certain, one after the other, outside any subshell."""
    if isinstance(root, Block) and root.kind == "all":
        for part in root.parts:
            yield from certain(part)
    else:
        yield root


def assignments(simple: Simple) -> Iterator[Assignment]:
    """Every variable a command sets, by itself or as a built-in."""
    yield from simple.assigns
    for name in _set_by(simple.words):
        yield Assignment(name, simple.at)


def _set_by(words: tuple[Word, ...], *, direct: bool = True) -> tuple[str, ...]:
    """The variables a built-in sets, behind ``command`` and ``builtin`` too."""
    while words and words[0].known:
        effect = effect_of(words, direct=direct)
        if not effect.inner:
            return effect.assigns
        words, direct = words[effect.inner :], False
    return ()
