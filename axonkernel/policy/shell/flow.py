"""Where the commands of a line run, and which of them are built-ins or functions."""

from __future__ import annotations

from typing import Final

from axonkernel.policy.match import normalize
from axonkernel.policy.shell.builtin import CHANGES_FOLDER, effect_of
from axonkernel.policy.shell.calls import Call, Redirect
from axonkernel.policy.shell.names import FOLDERS
from axonkernel.policy.shell.numbers import Numbers
from axonkernel.policy.shell.tree import Chain, Definition, Node, Simple, Word
from axonkernel.policy.shell.walk import assignments, certain, definitions, simples

__all__ = ["Flow"]


#: What bash puts in the place of ``<(commands)``, as a pattern: the number is its choice.
_PIPE: Final = "/dev/fd/*"


class Flow:
    """Follows the working directory through a line, and collects its commands."""

    def __init__(self, root: Node, commands: tuple[Simple, ...], numbers: Numbers) -> None:
        self._root = root
        self._numbers = numbers
        defined = [node for node in certain(root) if isinstance(node, Definition)]
        #: Functions that are there for certain, from the place of their definition.
        self._functions = {node.name: node.at for node in reversed(defined)}
        for simple in commands:
            if simple.words and any(word.text == "unset" for word in simple.words):
                for each in assignments(simple):
                    self._functions.pop(each.name, None)
        moving = [simple for simple in commands if _moves(simple)]
        self._moves = {simple.at for simple in moving}
        state = any(each.name in FOLDERS for simple in commands for each in assignments(simple))
        #: Nothing is known of a folder that may change at any call of a function.
        self._lost = bool(moving) and (state or any(definitions(root)))
        self._calls: list[tuple[int, Call]] = []

    def calls(self, cwd: str) -> list[Call]:
        self._node(self._root, None if self._lost else cwd)
        return [call for _, call in sorted(self._calls, key=lambda pair: pair[0])]

    def _node(self, node: Node, cwd: str | None) -> tuple[str | None, str | None]:
        """Walk a node from a folder; the folders after it, when it succeeds and when not."""
        if isinstance(node, Simple):
            return self._simple(node, cwd)
        if isinstance(node, Definition):
            self._node(node.body, cwd)
            return cwd, cwd
        if isinstance(node, Chain):
            return self._chain(node, cwd)
        if node.kind in ("some", "adrift") and self._moves:
            outside = node.kind == "adrift"
            if outside or any(simple.at in self._moves for simple in simples(node)):
                cwd = None
        inside = cwd
        for part in node.parts:
            done, failed = self._node(part, inside)
            inside = done if done == failed else None
        return (inside, inside) if node.kind == "all" else (cwd, cwd)

    def _chain(self, node: Chain, cwd: str | None) -> tuple[str | None, str | None]:
        done, failed = self._node(node.first, cwd)
        for operator, part in node.rest:
            then, otherwise = self._node(part, done if operator == "&&" else failed)
            if operator == "&&":
                done, failed = then, failed if failed == otherwise else None
            else:
                done, failed = done if done == then else None, otherwise
        return done, failed

    def _simple(self, simple: Simple, cwd: str | None) -> tuple[str | None, str | None]:
        for inner in simple.inner:
            self._node(inner, cwd)
        self._add(simple, cwd)
        if simple.at not in self._moves:
            return cwd, cwd
        return _entered(simple.words, cwd), cwd

    def _add(self, simple: Simple, cwd: str | None) -> None:
        """The calls of a simple command: its own, and what built-ins run for it."""
        redirects = tuple(
            Redirect(each.target.text, each.write, not each.target.known)
            for each in simple.redirects
        )
        own = tuple(each.name for each in simple.assigns)
        words, via = simple.words, ""
        if not words:
            if own or redirects:
                self._calls.append((simple.at, Call("", (), (), own, redirects, cwd)))
            return
        while words:
            call, inner = self._call(words, cwd, via)
            call = call._replace(assigns=own + call.assigns, redirects=redirects)
            self._calls.append((simple.at, call))
            via, words = call.program, words[inner:] if inner else ()
            own, redirects = (), ()

    def _call(self, words: tuple[Word, ...], cwd: str | None, via: str) -> tuple[Call, int]:
        name = words[0]
        if not name.known or not name.text:
            return Call("", cwd=cwd, hidden=name.raw or "a program without a name", via=via), 0
        if "/" in name.text and not name.text.startswith("/") and cwd is None:
            return Call("", cwd=cwd, hidden=f"{name.text} in a folder that is not known"), 0
        rest = words[1:]
        dynamic = tuple(place for place, word in enumerate(rest) if not word.known)
        texts = tuple(word.text if word.file else _PIPE for word in rest)
        if not via and self._functions.get(name.text, name.at) < name.at:
            # What the function runs is judged where it is defined.
            return Call("", cwd=cwd), 0
        effect = effect_of(self._numbers.sharpened(words), direct=not via)
        hidden = name.text if effect.hides else ""
        call = Call(name.text, texts, dynamic, effect.assigns, (), cwd, hidden, via)
        return call, effect.inner


def _moves(simple: Simple) -> bool:
    """Whether a command changes the working directory."""
    words = simple.words
    while words and words[0].known:
        if words[0].text in CHANGES_FOLDER:
            return True
        inner = effect_of(words).inner
        if not inner:
            return False
        words = words[inner:]
    return False


def _entered(words: tuple[Word, ...], cwd: str | None) -> str | None:
    """The folder after a ``cd`` that succeeded; None when it cannot be told."""
    if len(words) != 2 or words[0].text != "cd" or not words[1].known:
        return None
    folder = words[1].text
    if not folder or folder.startswith("-") or ".." in folder.split("/"):
        return None
    if folder.startswith("/"):
        return normalize(folder)
    return None if cwd is None else normalize(f"{cwd}/{folder}")
