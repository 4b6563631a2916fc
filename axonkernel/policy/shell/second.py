"""The second reader: tree-sitter's grammar of bash, as a check on ours.

It is the only part that needs the packages ``tree_sitter`` and ``tree_sitter_bash``; they load
with the first line that has shell syntax.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Final

from axonkernel.policy.shell.faults import TooComplex, Unparsable

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

__all__ = ["heads"]

#: What starts with a command's name; some built-ins have a kind of their own.
_NAMED: Final = frozenset({"command_name", "declaration_command", "unset_command"})
#: Nodes a valid line never has more of.
_MOST_NODES: Final = 400_000


def heads(text: str, expected: set[int]) -> None:
    """Check that commands start exactly at the ``expected`` places.

    Raises Unparsable when the grammar finds an error, or other commands.
    """
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise Unparsable("text that has no bytes") from None
    tree = _parser().parse(data)
    if tree.root_node.has_error:
        raise Unparsable("the grammar of bash finds an error")
    places = _characters(text, expected)
    if (found := set(_starts(tree.root_node))) != places:
        raise Unparsable(f"two readers see {len(found)} and {len(places)} commands in it")


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _characters(text: str, places: set[int]) -> set[int]:
    """Places among characters as places among bytes."""
    if text.isascii():
        return places
    found, at, size = set[int](), 0, 0
    for place in sorted(places):
        size += len(text[at:place].encode("utf-8", "surrogateescape"))
        at = place
        found.add(size)
    return found


def _starts(root: Node) -> Iterator[int]:
    """Where the grammar sees commands, without recursion: its trees can be deep."""
    cursor = root.walk()
    for _ in range(_MOST_NODES):
        node = cursor.node
        assert node is not None
        if node.type in _NAMED or (node.type == "test_command" and _is_bracket(node)):
            yield node.start_byte
        if cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return
    raise TooComplex("a line of too many parts")


def _is_bracket(node: Node) -> bool:
    """Whether a test is the command ``[``; ``[[`` and ``((`` are syntax."""
    return node.child_count > 0 and node.children[0].type == "["
