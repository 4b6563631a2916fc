"""What an attempt is: one way out of a box, with what a success would mean.

Standard library only: this file, like all of ``tries``, is sent into the box as text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from axonkernel.escapes.scene import Scene

__all__ = ["Attempt", "Control", "Do", "Group", "Refused", "Sign"]

#: What shows that an attempt got through: a secret of the host in what it brought back, a
#: change of a marker, a visitor heard by a listener, a harmed process, or, where the kernel's
#: answer is the whole of it, its own word.
Sign = Literal["loot", "mark", "heard", "victim", "claim"]

#: Where the same code must get through, to show that it is real: as it is outside the box; as
#: root of throw-away namespaces, where it would change the machine otherwise; in namespaces
#: where what a box masks is masked in the plain way.
Control = Literal["plain", "namespace", "masked"]

Do = Callable[["Scene"], str]


class Refused(Exception):
    """It got nothing, and no errno says so."""


class Attempt(NamedTuple):
    """One way out.

    Arguments:
        id: its name, also that of its marker.
        group: the class of the table it is in.
        text: what it tries, in a few words.
        meaning: what a success would mean.
        wall: what should answer it.
        field: the field of the posture that is about that wall; "" for what every box has.
        sign: what shows a success.
        control: where the same code must succeed.
        ask: the question whose yes in the policy makes a success no escape, a template over
            the scene: ``read PATH``, ``write PATH``, ``connect HOST:PORT``, ``env NAME``,
            ``program NAME``, ``open BLOCK``, ``unsafe PATH`` or ``userns``; "" when no policy
            grants it.
        do: returns what it brought back; raises OSError or Refused when it got nothing.
        needs: what must be there to try it, such as ``compiler``.
    """

    id: str
    group: str
    text: str
    meaning: str
    wall: str
    field: str
    sign: Sign
    control: Control
    ask: str
    do: Do
    needs: str = ""


class Group:
    """The attempts of one class, in the order they are written down.

    Arguments:
        name: the class.
        wall, field: what answers attempts of this class that name no other.
    """

    def __init__(self, name: str, wall: str, field: str = "") -> None:
        self._name, self._wall, self._field = name, wall, field
        self.attempts: list[Attempt] = []

    def __call__(
        self,
        text: str,
        sign: Sign,
        *,
        control: Control = "plain",
        ask: str = "",
        wall: str = "",
        needs: str = "",
    ) -> Callable[[Do], Do]:
        """Add the decorated function: its name is the id, its docstring the meaning."""

        def add(do: Do) -> Do:
            name, meaning = do.__name__.replace("_", "-"), (do.__doc__ or "").strip()
            self.add(name, text, meaning, sign, do, control, ask, wall, needs)
            return do

        return add

    def add(
        self,
        id: str,
        text: str,
        meaning: str,
        sign: Sign,
        do: Do,
        control: Control = "plain",
        ask: str = "",
        wall: str = "",
        needs: str = "",
    ) -> None:
        """Add one of a family."""
        self.attempts.append(
            Attempt(
                id=id,
                group=self._name,
                text=text,
                meaning=meaning,
                wall=wall or self._wall,
                field=self._field,
                sign=sign,
                control=control,
                ask=ask,
                do=do,
                needs=needs,
            )
        )
