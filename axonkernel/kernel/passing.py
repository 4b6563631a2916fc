"""Values on their way out of a worker, whose word is not trusted.

A pickle can call anything by name. So a worker's pickles may name one thing only, a function
here, and what that makes of its arguments is decided on this side: plain data, values of the
standard library that are nothing but data, our own errors and results, and of the agent's own
modules enumerations, exceptions, and classes of fields (attrs, dataclasses, named tuples), which
are filled field by field: no code of theirs runs.

A pickle can also change, call and iterate whatever it has made; see inert.py.
"""

from __future__ import annotations

import builtins
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import io
import pathlib
import pickle
import traceback
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from axonkernel import errors
from axonkernel.box.model import PostureField, Refusal
from axonkernel.kernel.inert import ATOMS, Unpassable, read
from axonkernel.policy import model, request
from axonkernel.policy.visible import visible
from axonkernel.process import result

__all__ = ["MAIN", "Unpassable", "Unpasser", "passed", "passed_error"]

#: The name under which a worker has imported what is ``__main__`` elsewhere.
MAIN = "__axonkernel_main__"
_MOST_TRACE = 16_000
#: They steer generators and event loops, and say nothing as errors.
_CONTROL = (StopIteration, StopAsyncIteration)

#: Our own values, by module and name; made by their constructors, which check nothing we need.
_OURS = {
    (cls.__module__, cls.__name__): cls
    for module in (errors, model, request, result)
    for cls in vars(module).values()
    if isinstance(cls, type) and cls.__module__ == module.__name__
} | {(cls.__module__, cls.__name__): cls for cls in (PostureField, Refusal)}

#: Of the standard library: how each is taken apart, and made again, of what.
_DATA: Mapping[
    str, tuple[type, Callable[[Any], tuple[Any, ...]], Callable[..., Any], tuple[type, ...]]
] = {
    "complex": (complex, lambda v: (v.real, v.imag), complex, (float, float)),
    "range": (range, lambda v: (v.start, v.stop, v.step), range, (int, int, int)),
    "slice": (slice, lambda v: (v.start, v.stop, v.step), slice, (object, object, object)),
    "datetime": (
        datetime.datetime, lambda v: _reduced(v), datetime.datetime, (bytes, datetime.timezone),
    ),
    "date": (datetime.date, lambda v: _reduced(v), datetime.date, (bytes,)),
    "time": (datetime.time, lambda v: _reduced(v), datetime.time, (bytes, datetime.timezone)),
    "timedelta": (
        datetime.timedelta,
        lambda v: (v.days, v.seconds, v.microseconds),
        datetime.timedelta,
        (int, int, int),
    ),
    "timezone": (
        datetime.timezone,
        lambda v: v.__getinitargs__(),
        datetime.timezone,
        (datetime.timedelta, str),
    ),
    "decimal": (decimal.Decimal, lambda v: (str(v),), decimal.Decimal, (str,)),
    "fraction": (
        fractions.Fraction, lambda v: (v.numerator, v.denominator), fractions.Fraction, (int, int),
    ),
    "uuid": (uuid.UUID, lambda v: (str(v),), uuid.UUID, (str,)),
    "path": (type(pathlib.Path()), lambda v: (str(v),), pathlib.Path, (str,)),
    "pure-path": (pathlib.PurePosixPath, lambda v: (str(v),), pathlib.PurePosixPath, (str,)),
    "ordered": (
        collections.OrderedDict, lambda v: (dict(v),), collections.OrderedDict, (dict,),
    ),
    "counter": (collections.Counter, lambda v: (dict(v),), collections.Counter, (dict,)),
    "deque": (
        collections.deque,
        lambda v: (list(v),) if v.maxlen is None else (list(v), v.maxlen),
        collections.deque,
        (list, int),
    ),
    "fault": (
        errors.Fault,
        lambda v: (v.path, v.message, _shown(v.value), v.hint),
        errors.Fault,
        (str, str, object, str),
    ),
    "defaultdict": (collections.defaultdict, lambda v: (dict(v),), dict, (dict,)),
}  # fmt: skip
_KEYS = {kind: key for key, (kind, *_) in _DATA.items()}


#: Exceptions that look into their arguments when they are made.
_LOOKING = (OSError, SyntaxError, UnicodeError)
#: A fraction of larger numbers takes long to make.
_MOST_FRACTION_BITS = 1 << 16


def passed(value: Any) -> bytes:
    """``value`` as bytes, inside a worker. Raises Unpassable, which says what cannot be."""
    buffer = io.BytesIO()
    try:
        _Passer(buffer, protocol=5).dump(value)
    except Unpassable:
        raise
    except Exception as error:  # whatever a value of the agent's does when it is looked at
        raise Unpassable(f"{type(error).__name__}: {error}") from error
    return buffer.getvalue()


def passed_error(error: BaseException) -> bytes:
    """An error as bytes, with its traceback as a note; any error at all."""
    trace = "".join(traceback.format_exception(error))[-_MOST_TRACE:]
    described = f"{type(error).__qualname__}: {error}"
    try:
        return passed((error, described, trace))
    except Unpassable:
        return passed((None, described, trace))


class _Passer(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        """Called for all but the plainest of values."""
        if value is _rebuilt:
            return NotImplemented
        return _rebuilt, _taken_apart(value)


def _taken_apart(value: Any) -> tuple[Any, ...]:
    kind = type(value)
    if kind in _KEYS:
        key = _KEYS[kind]
        return "data", key, _DATA[key][1](value)
    where = kind.__module__, kind.__qualname__
    if isinstance(value, BaseException):
        return ("error", *where, *_error_parts(value))
    if isinstance(value, enum.Enum):
        return "member", *where, value.name
    if attrs.has(kind):
        return "fields", *where, {a.name: getattr(value, a.name) for a in attrs.fields(kind)}
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
        return "fields", *where, {name: getattr(value, name) for name in names}
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return "tuple", *where, tuple(value)
    raise Unpassable(
        f"a {kind.__module__}.{kind.__qualname__} cannot leave a worker: return plain data, or "
        "a class of fields (attrs, dataclass) of the agent's own module"
    )


def _error_parts(error: BaseException) -> tuple[Any, ...]:
    if isinstance(error, errors.AxonError):
        _, args = error.__reduce__()[:2]
        return args, {}
    extra = {k: v for k, v in vars(error).items() if k != "__notes__"}
    # What Python's own class of it keeps beside args, such as the name of a file.
    own: Any = next(cls for cls in type(error).__mro__ if cls.__module__ == "builtins")
    return tuple(own.__reduce__(error)[1]), extra


def _shown(value: Any) -> Any:
    return value if value is None or isinstance(value, (str, int, float)) else repr(value)


def _reduced(value: Any) -> tuple[Any, ...]:
    return tuple(value.__reduce_ex__(2)[1])


def _rebuilt(*parts: Any) -> Any:
    """Only its name is used: each side that reads has its own (:class:`Unpasser`)."""
    raise Unpassable("read it by an Unpasser")


class Unpasser:
    """Reads what workers send.

    Arguments:
        modules: of the agent's own, name to namespace; what lies in a package of one of them
            and is imported here counts too. ``MAIN`` stands for the script.
    """

    def __init__(self, modules: Mapping[str, Mapping[str, Any]]) -> None:
        self._modules = dict(modules)
        self._packages = {name.partition(".")[0] for name in modules} - {"", "axonkernel"}

    def value(self, data: bytes | bytearray) -> Any:
        """A value from :func:`passed`. Raises Unpassable for what may not be sent."""
        try:
            return read(data, (__name__, _rebuilt.__name__), self._rebuild)
        except Unpassable:
            raise
        except Exception as error:
            raise Unpassable(f"it cannot be read: {type(error).__name__}: {error}") from error

    def error(self, data: bytes | bytearray) -> Exception:
        """An error from :func:`passed_error`; a ToolError in place of one of unknown type."""
        found: Any = self.value(data)
        if not (isinstance(found, tuple) and len(found) == 3):
            raise Unpassable("it is no error")
        error, described, trace = found
        if not isinstance(error, Exception) or isinstance(error, _CONTROL):
            error = errors.ToolError("request", visible(str(described)))
        if not isinstance(error, errors.AxonError):
            Exception.add_note(error, f"in the worker:\n{_lines(str(trace))}")
        raised: Exception = error
        return raised

    def _rebuild(self, *parts: Any) -> Any:
        match parts:
            case ("data", str(key), tuple(args)) if key in _DATA:
                return _data(key, args)
            case ("error", str(module), str(name), tuple(args), dict(extra)):
                return self._error(module, name, args, extra)
            case ("member", str(module), str(name), str(member)):
                return self._class(module, name, enum.Enum)[member]
            case ("fields", str(module), str(name), dict(fields)):
                return self._filled(module, name, fields)
            case ("tuple", str(module), str(name), tuple(items)):
                kind = self._class(module, name, tuple)
                if len(getattr(kind, "_fields", ())) == len(items):
                    return tuple.__new__(kind, items)
        raise Unpassable("it holds what no worker of ours sends")

    def _error(self, module: str, name: str, args: tuple[Any, ...], extra: dict[str, Any]) -> Any:
        if module == "builtins":
            kind = getattr(builtins, name, None)
            if not (isinstance(kind, type) and issubclass(kind, Exception)):
                return None
            if not _may_look(kind, args):
                return None
            error = kind(*args)
        elif module == errors.__name__:
            if not all(map(_is_plain, args)):
                raise Unpassable(f"a {name} of these may not come out of a worker")
            return self._class(module, name, errors.AxonError)(*args)
        else:
            try:
                kind = self._class(module, name, Exception)
            except Unpassable:
                return None
            own: Any = next(cls for cls in kind.__mro__ if cls.__module__ == "builtins")
            if not _may_look(own, args):
                return None
            error = own.__new__(kind, *args)  # nothing of the class itself is called
            if not isinstance(error, OSError):
                error.args = args
        for key, value in extra.items():
            if isinstance(key, str) and not hasattr(type(error), key):
                error.__dict__[key] = value
        return error

    def _filled(self, module: str, name: str, fields: dict[str, Any]) -> Any:
        kind = self._class(module, name, object)
        known = _field_names(kind)
        if known != set(fields):
            raise Unpassable(f"{module}.{name} is no class of these fields")
        value = object.__new__(kind)
        for key, each in fields.items():
            object.__setattr__(value, key, each)
        return value

    def _class(self, module: str, name: str, above: type) -> Any:
        kind = _OURS.get((module, name))
        if kind is None:
            kind = self._found(module, name)
        if not (isinstance(kind, type) and issubclass(kind, above)) or hasattr(kind, "__del__"):
            raise Unpassable(f"a {module}.{name} may not come out of a worker")
        return kind

    def _found(self, module: str, name: str) -> Any:
        """A class of the agent's own modules. Nothing is imported for it."""
        import sys

        namespace = self._modules.get(module)
        if namespace is None and module.partition(".")[0] in self._packages:
            namespace = vars(sys.modules[module]) if module in sys.modules else None
        first, *rest = name.split(".")
        found = (namespace or {}).get(first)
        for each in rest:
            found = vars(found).get(each) if isinstance(found, type) else None
        return found if str(getattr(found, "__module__", "")) in _names_of(module) else None


def _data(key: str, args: tuple[Any, ...]) -> Any:
    """Of exactly what it is made of: what its class would do with anything else may run code,
    or take for ever."""
    _, _, make, kinds = _DATA[key]
    fitting = all(kind in (object, type(arg)) for arg, kind in zip(args, kinds, strict=False))
    if not fitting or len(args) > len(kinds):
        raise Unpassable(f"it holds a {key} of something else")
    if key == "fraction" and any(each.bit_length() > _MOST_FRACTION_BITS for each in args):
        raise Unpassable("it holds a fraction of too large numbers")
    return make(*args)


def _is_plain(value: Any) -> bool:
    """Whether a constructor of the standard library or of ours can look into it, and runs
    nothing of the agent's."""
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return all(map(_is_plain, value))
    if type(value) is dict:
        return _is_plain([*value, *value.values()])
    return type(value) in ATOMS or type(value) is errors.Fault


def _may_look(kind: type, args: tuple[Any, ...]) -> bool:
    """Whether exceptions of a class look into nothing but plain data, or their like in a group."""
    if issubclass(kind, BaseExceptionGroup):
        return type(args[-1]) in (list, tuple)
    return not issubclass(kind, _LOOKING) or all(map(_is_plain, args))


def _names_of(module: str) -> Iterable[str]:
    """The names that classes of a module may have as theirs."""
    return (module, "__main__", "axon_config") if module == MAIN else (module,)


def _field_names(kind: type) -> set[str] | None:
    if attrs.has(kind):
        return {field.name for field in attrs.fields(kind)}
    if dataclasses.is_dataclass(kind):
        return {field.name for field in dataclasses.fields(kind)}
    return None


def _lines(text: str) -> str:
    return "\n".join(visible(line) for line in text.splitlines())
