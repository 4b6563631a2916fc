"""From a line to the commands bash would run for it."""

from __future__ import annotations

from functools import lru_cache

from axonkernel.policy.shell.calls import Call
from axonkernel.policy.shell.faults import LineFault, TooComplex
from axonkernel.policy.shell.flow import Flow
from axonkernel.policy.shell.grammar import Grammar
from axonkernel.policy.shell.names import is_state
from axonkernel.policy.shell.numbers import Numbers
from axonkernel.policy.shell.second import heads
from axonkernel.policy.shell.tree import Simple
from axonkernel.policy.shell.walk import assignments
from axonkernel.policy.shell.walk import simples as walk

__all__ = ["read_line"]


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
    simples = tuple(walk(root))
    numbers = Numbers(grammar.settled, root, simples)
    numbers.require(grammar.numbers)
    _require_plain_locale(text, simples)
    _refuse_state(simples)
    starts = {simple.words[0].at for simple in simples if simple.words}
    heads(text, {grammar.timed.get(at, at) for at in starts})
    return Flow(root, simples, numbers).calls(cwd)


def _require_plain_locale(text: str, simples: tuple[Simple, ...]) -> None:
    """Refuse a change of the character set in a line that is not ASCII."""
    if text.isascii():
        return
    for simple in simples:
        if any(each.name == "LANG" or each.name.startswith("LC_") for each in assignments(simple)):
            raise LineFault("characters outside ASCII in a line that changes the locale")


def _refuse_state(simples: tuple[Simple, ...]) -> None:
    """Refuse to set what changes how bash understands the rest of the line."""
    for simple in simples:
        for each in assignments(simple):
            if is_state(each.name, numeric=each.numeric):
                raise LineFault(f"it sets {each.name}, which bash itself obeys")
