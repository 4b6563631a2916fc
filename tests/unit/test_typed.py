"""The launch path's own NamedTuple: what it makes behaves as typing's does."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
import typing
from typing import Any

import pytest

from axonkernel import typed


class Ours(typed.NamedTuple):
    """A point."""

    x: int
    y: int = 2
    z: tuple[int, ...] = ()

    def total(self) -> int:
        """The sum."""
        return self.x + self.y

    @property
    def far(self) -> bool:
        """Whether x is large."""
        return self.x > 9


class Theirs(typing.NamedTuple):
    """A point."""

    x: int
    y: int = 2
    z: tuple[int, ...] = ()


def _told(make: typing.Callable[[], Any]) -> object:
    """What came of it, without the name of the class."""
    try:
        return tuple(make())
    except TypeError as error:
        return type(error)


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((1,), {}),
    ((1, 3, (4,)), {}),
    ((), {"x": 1}),
    ((1,), {"z": (7,)}),
    ((), {"z": (1,), "y": 5, "x": 3}),
    ((), {}),
    ((1, 2, (), 4), {}),
    ((1,), {"x": 2}),
    ((1,), {"w": 2}),
    ((1, 2, ()), {"z": ()}),
]


@pytest.mark.parametrize(("values", "named"), CALLS)
def test_it_is_made_as_typings_is(values: tuple[Any, ...], named: dict[str, Any]) -> None:
    """From the same arguments the same values, or a TypeError."""
    assert _told(lambda: Ours(*values, **named)) == _told(lambda: Theirs(*values, **named))


def test_it_has_what_typings_has() -> None:
    """Fields, defaults, copies with a change, names in its text, patterns, its own methods."""
    ours, theirs = Ours(1, z=(3,)), Theirs(1, z=(3,))
    assert ours == theirs and hash(ours) == hash(theirs)
    assert (ours.x, ours.y, ours.z, ours.total(), ours.far) == (1, 2, (3,), 3, False)
    for name in ("_fields", "_field_defaults", "__match_args__", "__slots__"):
        assert getattr(Ours, name) == getattr(Theirs, name)
    assert ours._asdict() == theirs._asdict()
    assert ours._replace(y=9) == theirs._replace(y=9) == (1, 9, (3,))
    assert Ours._make([1, 2, ()]) == Theirs._make([1, 2, ()])
    assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
    assert json.dumps(ours) == json.dumps(theirs)
    match ours:
        case Ours(x=1, y=y):
            assert y == 2
        case _:
            pytest.fail("no match")


def test_it_cannot_be_changed() -> None:
    """Neither a field nor a new attribute."""
    ours: Any = Ours(1)
    for name in ("x", "other"):
        with pytest.raises(AttributeError):
            setattr(ours, name, 3)


def test_a_change_of_no_field_is_refused() -> None:
    """As typing's, if with another kind of error."""
    with pytest.raises(TypeError, match="takes x, y, z"):
        Ours(1)._replace(w=3)  # type: ignore[call-arg]


def test_it_is_copied_and_pickled() -> None:
    """By value, with its class."""
    ours = Ours(1, 5)
    for same in (copy.copy(ours), copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert same == ours and type(same) is Ours


def test_the_launch_path_does_not_load_typing() -> None:
    """Neither the command line nor a warden, up to the program's first instruction."""
    code = (
        "import sys; import axonkernel.cli.exec; from axonkernel.box import foreground, launch, "
        "plancache, prelude, warden; import axonkernel.audit, axonkernel.config.source; "
        "print('typing' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path += {sys.path}; {code}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "False"
