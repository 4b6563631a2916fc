"""From a line to the commands bash would run for it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from axonkernel.policy.match import normalize
from axonkernel.policy.shell.builtin import CHANGES_FOLDER, effect_of
from axonkernel.policy.shell.faults import LineFault, TooComplex
from axonkernel.policy.shell.grammar import Grammar
from axonkernel.policy.shell.loops import Settled
from axonkernel.policy.shell.names import FOLDERS, STATE
from axonkernel.policy.shell.second import heads
from axonkernel.policy.shell.tree import Assignment, Block, Chain, Definition, Node, Simple, Word

__all__ = ["Call", "Redirect", "read_line"]


class Redirect(NamedTuple):
    """A file that a redirection opens.

    Arguments:
        path: as spelled, expanded where that is known.
        write: whether it is opened for writing.
        dynamic: the path is not known, nor that it is a file.
    """

    path: str
    write: bool
    dynamic: bool = False


class Call(NamedTuple):
    """One simple command.

    Arguments:
        program: its name; "" when there is none, or when it cannot be seen.
        words: its arguments; those that are not known as they were spelled.
        dynamic: which of ``words`` are not known; one may stand for none or for many.
        assigns: variables it sets.
        redirects: files opened for it.
        cwd: where it runs; None when that is not known.
        hidden: why what it runs cannot be seen, or "".
        via: the built-in it was the argument of, or "".
    """

    program: str
    words: tuple[str, ...] = ()
    dynamic: tuple[int, ...] = ()
    assigns: tuple[str, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    cwd: str | None = None
    hidden: str = ""
    via: str = ""


@lru_cache(maxsize=64)
def read_line(text: str, cwd: str) -> tuple[Call, ...]:
    """Every simple command of a line, in the order of its text.

    Arguments:
        text: what bash is to run.
        cwd: the absolute folder it starts in.

    Raises:
        Unparsable: bash would not accept it, or it cannot be told how bash reads it.
        TooComplex: it is beyond the caps.
        LineFault: it has a construct that is not analysed.
    """
    try:
        return tuple(_read(text, cwd))
    except RecursionError:
        raise TooComplex("nested too deep") from None


def _read(text: str, cwd: str) -> list[Call]:
    grammar = Grammar(text)
    root = grammar.program()
    simples = tuple(_simples(root))
    _require_numbers(grammar, root, simples)
    _require_plain_locale(text, simples)
    _refuse_state(simples)
    starts = {simple.words[0].at for simple in simples if simple.words}
    heads(text, {grammar.timed.get(at, at) for at in starts})
    return _Flow(root, simples).calls(cwd)


def _simples(node: Node) -> Iterator[Simple]:
    """Every simple command below a node, those of substitutions too."""
    if isinstance(node, Simple):
        yield node
        children: tuple[Node, ...] = node.inner
    elif isinstance(node, Block):
        children = node.parts
    elif isinstance(node, Chain):
        children = (node.first, *(part for _, part in node.rest))
    else:
        children = (node.body,)
    for redirect in node.redirects if isinstance(node, Simple) else ():
        children += redirect.target.inner
    for child in dict.fromkeys(children):
        yield from _simples(child)


def _top(root: Node) -> Iterator[Node]:
    """What runs for certain, one after the other, outside any subshell."""
    if isinstance(root, Block) and root.kind == "all":
        for part in root.parts:
            yield from _top(part)
    else:
        yield root


def _assignments(simple: Simple) -> Iterator[Assignment]:
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


def _require_numbers(grammar: Grammar, root: Node, simples: tuple[Simple, ...]) -> None:
    """Refuse arithmetic over a variable that may hold text: bash would evaluate it."""
    if not grammar.numbers:
        return
    settled = list(grammar.settled)
    for node in _top(root):
        if isinstance(node, Simple) and not node.words:
            settled += (
                Settled(each.name, each.at, len(grammar.source.text) + 1)
                for each in node.assigns
                if each.numeric
            )
    texts = {each.name for simple in simples for each in _assignments(simple) if not each.numeric}
    for name, at in grammar.numbers:
        if name in texts or not any(s.name == name and s.start <= at < s.end for s in settled):
            raise LineFault(f"arithmetic over {name}, which is not known to be a number")


def _require_plain_locale(text: str, simples: tuple[Simple, ...]) -> None:
    """Refuse a change of the character set in a line that is not ASCII."""
    if text.isascii():
        return
    for simple in simples:
        if any(each.name == "LANG" or each.name.startswith("LC_") for each in _assignments(simple)):
            raise LineFault("characters outside ASCII in a line that changes the locale")


def _refuse_state(simples: tuple[Simple, ...]) -> None:
    """Refuse to set what changes how bash understands the rest of the line."""
    for simple in simples:
        for each in _assignments(simple):
            if each.name in STATE:
                raise LineFault(f"it sets {each.name}, which bash itself obeys")


class _Flow:
    """Follows the working directory through a line, and collects its commands."""

    def __init__(self, root: Node, simples: tuple[Simple, ...]) -> None:
        self._root = root
        definitions = [node for node in _top(root) if isinstance(node, Definition)]
        #: Functions that are there for certain, from the place of their definition.
        self._functions = {node.name: node.at for node in reversed(definitions)}
        moving = [simple for simple in simples if _moves(simple)]
        self._moves = {simple.at for simple in moving}
        state = any(each.name in FOLDERS for simple in simples for each in _assignments(simple))
        #: Nothing is known of a folder that may change at any call of a function.
        self._lost = bool(moving) and (state or _defines(root))
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
            if outside or any(simple.at in self._moves for simple in _simples(node)):
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
        for inner in dict.fromkeys(
            (*simple.inner, *(node for each in simple.redirects for node in each.target.inner))
        ):
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
        texts = tuple(word.text for word in rest)
        if not via and self._functions.get(name.text, name.at) < name.at:
            # What the function runs is judged where it is defined.
            return Call("", cwd=cwd), 0
        effect = effect_of(words, direct=not via)
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


def _defines(node: Node) -> bool:
    """Whether there is a function below a node."""
    if isinstance(node, Definition):
        return True
    if isinstance(node, Simple):
        return any(map(_defines, node.inner))
    if isinstance(node, Chain):
        return any(map(_defines, (node.first, *(part for _, part in node.rest))))
    return any(map(_defines, node.parts))


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
