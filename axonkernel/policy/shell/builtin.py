"""bash's own commands: what they set, and which of them run something else.

They are judged as programs under their own name. Beyond that, a form that runs or re-reads
text *hides* what happens; so does every form that is not known here to be harmless.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from axonkernel.policy.shell.expansions import IDENTIFIER
from axonkernel.policy.shell.names import HIDING
from axonkernel.policy.shell.tree import Word

__all__ = ["CHANGES_FOLDER", "Effect", "effect_of"]

CHANGES_FOLDER: Final = frozenset({"cd", "popd", "pushd"})

#: ``NAME`` or ``NAME=value`` as an argument of a declaring command.
_DECLARED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\+?=.*)?", re.DOTALL)
_DECLARING_OPTION: Final = re.compile(r"-[xrg]+|--")
#: A conversion that stores how much was written.
_COUNT: Final = re.compile(r"%[^A-Za-z%]*[hlLjzt]*n")
_SET_FLAGS: Final = re.compile(r"[-+][euxfCv]+")
_SET_OPTIONS: Final = frozenset({"errexit", "nounset", "pipefail", "xtrace", "noglob", "noclobber"})
#: Of test: every operator but -v and -R, which evaluate a subscript, and -a and -o.
_UNARY: Final = frozenset(f"-{letter}" for letter in "bcdefghkprstuwxzGLNOSn")
_BINARY: Final = frozenset(
    "= == != < > -eq -ne -lt -le -gt -ge -nt -ot -ef".split()
)  # fmt: skip


class Effect(NamedTuple):
    """What a built-in does beside its own work.

    Arguments:
        assigns: variables it sets.
        hides: it may run something that cannot be seen.
        inner: where in its words another command starts; 0 for none.
    """

    assigns: tuple[str, ...] = ()
    hides: bool = False
    inner: int = 0


_NOTHING: Final = Effect()
_HIDES: Final = Effect(hides=True)


def effect_of(words: tuple[Word, ...], *, direct: bool = True) -> Effect:
    """What a command does if it is a built-in; nothing for other programs.

    Arguments:
        words: all of its words, the name first and known.
        direct: its name stands in front, not behind ``command`` or ``builtin``.
    """
    name = words[0].text
    if name in HIDING:
        return _HIDES
    judge = _JUDGES.get(name)
    if judge is None:
        return _NOTHING
    if not direct and not all(word.known for word in words):
        # Behind another word, declaring commands split their arguments like all others.
        return _HIDES
    return judge(words[1:])


def _command(words: tuple[Word, ...]) -> Effect:
    if words and words[0].known and words[0].text in ("-v", "-V"):
        return _NOTHING
    return _runs(words)


def _runs(words: tuple[Word, ...]) -> Effect:
    """``exec``, ``builtin``: what follows is a command.

    Behind options it may be found elsewhere or get another name, so it is hidden as well.
    """
    if not words:
        return _NOTHING
    at = 0
    while at < len(words) and words[at].known and words[at].text.startswith("-"):
        at += 2 if words[at].text.endswith("a") else 1  # exec -a NAME
    if at >= len(words) or not words[at].known:
        return _HIDES
    return Effect(hides=at > 0, inner=at + 1)


def _declare(words: tuple[Word, ...]) -> Effect:
    names: list[str] = []
    for word in words:
        if word.known and _DECLARING_OPTION.fullmatch(word.raw):
            continue
        match = _DECLARED.fullmatch(word.raw)
        if match is None:
            return _HIDES
        names.append(match[1])
    return Effect(tuple(names))


def _unset(words: tuple[Word, ...]) -> Effect:
    if words and words[0].text == "-v":
        words = words[1:]
    return _names(words)


def _read(words: tuple[Word, ...]) -> Effect:
    if words and words[0].text == "-r":
        words = words[1:]
    return _names(words) if words else Effect(("REPLY",))


def _names(words: tuple[Word, ...]) -> Effect:
    if all(word.known and IDENTIFIER.fullmatch(word.text) for word in words):
        return Effect(tuple(word.text for word in words))
    return _HIDES


def _printf(words: tuple[Word, ...]) -> Effect:
    """It sets a variable with ``-v``, and with ``%n`` in its format."""
    if words and words[0].known and words[0].text == "--":
        words = words[1:]
    elif words and words[0].text.startswith("-v"):
        return _HIDES
    if words and (not words[0].known or _COUNT.search(words[0].text.replace("%%", ""))):
        return _HIDES
    return _NOTHING


def _test(words: tuple[Word, ...]) -> Effect:
    texts = [word.text if word.known else None for word in words]
    if None not in texts:
        return _HIDES if "-v" in texts or "-R" in texts else _NOTHING
    if not all(word.single for word in words):
        return _HIDES
    while texts[:1] == ["!"]:
        del texts[0]
    unary = len(texts) == 2 and texts[0] in _UNARY
    binary = len(texts) == 3 and texts[1] in _BINARY
    return _NOTHING if len(texts) == 1 or unary or binary else _HIDES


def _bracket(words: tuple[Word, ...]) -> Effect:
    closed = bool(words) and words[-1].known and words[-1].text == "]"
    return _test(words[:-1]) if closed else _HIDES


def _set(words: tuple[Word, ...]) -> Effect:
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.known and word.text == "--":
            return _NOTHING
        bare = word.text.removesuffix("o")
        if not word.known or not (bare in ("-", "+") or _SET_FLAGS.fullmatch(bare)):
            return _HIDES
        if bare != word.text and (not rest or rest.pop(0).text not in _SET_OPTIONS):
            return _HIDES
    return _NOTHING


def _no_options(words: tuple[Word, ...]) -> Effect:
    for word in words:
        start = word.text if word.known or word.text in ("$!", "$$") else word.lead
        if not start or start.startswith("-"):
            return _HIDES
    return _NOTHING


_JUDGES: Final[Mapping[str, Callable[[tuple[Word, ...]], Effect]]] = {
    "command": _command,
    "exec": _runs,
    "builtin": _runs,
    **dict.fromkeys(("declare", "export", "local", "readonly", "typeset"), _declare),
    "unset": _unset,
    "read": _read,
    "printf": _printf,
    "test": _test,
    "[": _bracket,
    "set": _set,
    **dict.fromkeys(("wait", "jobs"), _no_options),
}
