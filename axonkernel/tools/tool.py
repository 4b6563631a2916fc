"""A function as a tool: its name, its subjects, and how a call of it is bound."""

from __future__ import annotations

import copy
import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from attrs import frozen

from axonkernel.errors import Fault, PolicyError, ToolError
from axonkernel.paths import resolve, resolve_entry
from axonkernel.policy.match import needs_shell, split_words
from axonkernel.policy.request import Request, Subject, ToolRequest
from axonkernel.policy.url import parse_url
from axonkernel.tools.subjects import SubjectType

__all__ = ["BoundCall", "Tool", "tool_from"]

#: A parameter of one of these names, without a subject, would be a path that no rule sees.
_PATH_NAMES = frozenset(
    """
    path paths file files filename filenames filepath file_path dir directory folder src dst
    source_path target_path
    """.split()
)

#: Equal secrets look equal in a record; which they are cannot be guessed from it.
_SECRET_KEY = os.urandom(16)

_PLAIN_TYPES = (str, int, float, bool, bytes, type(None))


@frozen
class BoundCall:
    """One call, ready to be judged and then made with exactly these arguments."""

    request: ToolRequest
    arguments: dict[str, Any]


@frozen(eq=False)
class Tool:
    """A registered tool.

    Arguments:
        name: dotted; what rules match.
        function: what runs once a call is allowed.
        subjects: parameter name to its subject type.
        signature: of the function, without ``kernel``.
        takes_kernel: whether the function has a ``kernel`` parameter, filled by the kernel.
        is_async: whether the function is a coroutine function.
        description: the first line of its docstring.
    """

    name: str
    function: Callable[..., Any]
    subjects: Mapping[str, SubjectType]
    signature: inspect.Signature
    takes_kernel: bool
    is_async: bool
    description: str = ""

    def bind(self, args: Mapping[str, Any], cwd: str) -> BoundCall:
        """The canonical request of a call and the arguments it will run with.

        Arguments:
            args: by name. Values the caller could change later are copied.
            cwd: absolute folder that relative paths count from.

        Raises ToolError when the arguments do not fit the function.
        """
        try:
            bound = self.signature.bind(**args)
        except TypeError as error:
            raise ToolError(self.name, str(error)) from None
        bound.apply_defaults()
        arguments: dict[str, Any] = {}
        shown: dict[str, Any] = {}
        subjects: list[Subject] = []
        for name, value in bound.arguments.items():
            kind = self.subjects.get(name)
            # None touches nothing only where the function says so by default: for others it
            # could stand for the working directory.
            absent = value is None and self.signature.parameters[name].default is None
            if kind is None or kind.kind is None or absent:
                arguments[name] = shown[name] = self._frozen(name, value)
            elif kind.kind == "secret":
                arguments[name], shown[name] = value, _hidden(value)
            else:
                arguments[name] = shown[name] = self._canonical(kind, name, value, cwd)
                subjects += _subjects(kind, arguments[name])
        spelled = self.shown(args)
        request = Request.tool(self.name, shown, subjects=subjects, spelled=spelled)
        return BoundCall(request, arguments)

    def shown(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """``args`` as they were given, which may be told to anybody: without the secrets."""
        secret = {name for name, kind in self.subjects.items() if kind.kind == "secret"}
        return {name: "[secret]" if name in secret else value for name, value in args.items()}

    def _canonical(self, kind: SubjectType, name: str, value: Any, cwd: str) -> Any:
        if kind.kind in ("read", "write"):
            follow = resolve if kind.follow else resolve_entry
            if isinstance(value, (list, tuple)):
                return [follow(self._text(name, each), cwd) for each in value]
            return follow(self._text(name, value), cwd)
        if kind.kind == "url":
            texts = [self._text(name, each) for each in _listed(value)]
            urls = [_one_spelling(each) for each in texts]
            return urls if isinstance(value, (list, tuple)) else urls[0]
        if isinstance(value, (list, tuple)):
            return [self._text(name, each) for each in value]
        text = self._text(name, value)
        if kind.kind == "argv" and needs_shell(text):
            raise ToolError(self.name, f"{name} needs a shell to split it; give a list of words")
        return text

    def _frozen(self, name: str, value: Any) -> Any:
        if type(value) in _PLAIN_TYPES:
            return value
        try:
            return copy.deepcopy(value)
        except Exception as error:  # the value's own code, or nesting that is too deep
            raise ToolError(self.name, f"{name} cannot be copied: {error}") from None

    def _text(self, name: str, value: Any) -> str:
        if isinstance(value, os.PathLike):
            value = os.fspath(value)
        if not isinstance(value, str):
            raise ToolError(self.name, f"{name} must be text")
        # An exact str: a subclass could answer differently when it is looked at again.
        return str.__str__(value)


def tool_from(name: str, function: Callable[..., Any]) -> Tool:
    """``function`` as the tool ``name``.

    Raises PolicyError when a parameter looks like a path and says nothing about it, or
    cannot be given by name.
    """
    signature = inspect.signature(function)
    hints = get_type_hints(function, include_extras=True)
    subjects = {
        parameter: found
        for parameter in signature.parameters
        if (found := _declared(hints.get(parameter))) is not None
    }
    faults = list(_faults(name, signature, subjects, hints))
    if faults:
        raise PolicyError(faults, f"tool {name}")
    parameters = [p for p in signature.parameters.values() if p.name != "kernel"]
    return Tool(
        name=name,
        function=function,
        subjects=subjects,
        signature=signature.replace(parameters=parameters),
        takes_kernel="kernel" in signature.parameters,
        is_async=inspect.iscoroutinefunction(function),
        description=(inspect.getdoc(function) or "").partition("\n")[0],
    )


def _declared(hint: Any) -> SubjectType | None:
    """The subject in a hint such as ``Annotated[str, ReadPath] | None``."""
    if get_origin(hint) is Annotated:
        return next((each for each in get_args(hint)[1:] if isinstance(each, SubjectType)), None)
    found = (_declared(part) for part in get_args(hint))
    return next((each for each in found if each is not None), None)


def _faults(
    name: str, signature: inspect.Signature, subjects: Mapping[str, SubjectType], hints: Any
) -> Iterator[Fault]:
    for parameter in signature.parameters.values():
        place = f"{name}({parameter.name})"
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            yield Fault(place, "a tool's parameters are given by name", hint="name each of them")
        elif parameter.name not in subjects and _looks_like_path(parameter.name, hints):
            yield Fault(
                place,
                "looks like a path, and no fs rule would be asked about it",
                hint=f"{parameter.name}: Annotated[str, ReadPath] (or WritePath; Plain if it is "
                "no path)",
            )


def _looks_like_path(parameter: str, hints: Mapping[str, Any]) -> bool:
    hint = hints.get(parameter)
    if isinstance(hint, type) and hasattr(hint, "__fspath__"):
        return True
    return parameter in _PATH_NAMES and hint not in (bool, int, float)


def _subjects(kind: SubjectType, value: Any) -> Iterator[Subject]:
    assert kind.kind is not None
    if kind.kind == "argv":
        yield Subject("argv", tuple(value) if isinstance(value, list) else split_words(value))
        return
    for each in _listed(value):
        yield Subject(kind.kind, each)


def _listed(value: Any) -> Iterable[Any]:
    return value if isinstance(value, (list, tuple)) else [value]


def _one_spelling(text: str) -> str:
    """A URL as it will be judged and fetched; one that is not well formed is left to be denied."""
    try:
        return str(parse_url(text))
    except ValueError:
        return text


def _hidden(value: Any) -> str:
    import hashlib  # with OpenSSL

    digest = hashlib.blake2b(repr(value).encode(), digest_size=4, key=_SECRET_KEY).hexdigest()
    return f"[secret {digest}]"
