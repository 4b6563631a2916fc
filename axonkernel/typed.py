"""The names of ``typing`` that the way to a launch needs, without what they cost.

Each ``axonkernel exec`` waits for its imports: that of ``typing`` takes 3 ms, and each class made
by its ``NamedTuple`` a tenth of one, since that compiles source text. Type checkers see the real
thing; at run time annotations are text, and tuples are made here.
"""

from __future__ import annotations

__all__ = ["TYPE_CHECKING", "Any", "Final", "Literal", "NamedTuple", "NoReturn", "Protocol"]

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, Final, Literal, NamedTuple, NoReturn, Protocol
else:
    from _collections import _tuplegetter as _field

    class _Subscripted(type):
        def __getitem__(cls, _):
            return cls

    class Any(metaclass=_Subscripted):
        """Stands in annotations and aliases."""

    Final = Literal = NoReturn = Any
    Protocol = object

    class _Maker(type):
        """Makes the classes below NamedTuple, which behave as those of ``typing`` do."""

        def __new__(mcs, name, bases, body):
            fields = tuple(body.get("__annotations__", ()))
            defaults = {field: body.pop(field) for field in fields if field in body}
            body.update({field: _field(at, "") for at, field in enumerate(fields)})
            body.update(__slots__=(), __match_args__=fields, __new__=_new(len(fields)))
            body.update(_fields=fields, _field_defaults=defaults)
            return type.__new__(mcs, name, bases, body)

    def _new(count):
        def __new__(cls, /, *values, **named):
            if named or len(values) != count:
                values = _complete(cls, values, named)
            return tuple.__new__(cls, values)

        return __new__

    def _complete(cls, values, named):
        """The values of all fields, in order."""
        given = dict(zip(cls._fields, values, strict=False))
        if len(values) > len(cls._fields) or not named.keys() <= set(cls._fields) - given.keys():
            raise TypeError(f"{cls.__name__} takes {', '.join(cls._fields)}, each once")
        every = {**cls._field_defaults, **given, **named}
        if missing := [field for field in cls._fields if field not in every]:
            raise TypeError(f"{cls.__name__} lacks {', '.join(missing)}")
        return [every[field] for field in cls._fields]

    class NamedTuple(tuple, metaclass=_Maker):
        """A tuple with named fields, which are the annotations of the class."""

        @classmethod
        def _make(cls, values):
            return cls(*values)

        def _replace(self, /, **changed):
            return type(self)(**{**self._asdict(), **changed})

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __getnewargs__(self):
            return tuple(self)

        def __repr__(self):
            fields = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items())
            return f"{type(self).__name__}({fields})"
