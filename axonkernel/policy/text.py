"""Policy text, TOML or JSON, to data and to a policy."""

from __future__ import annotations

import json
import tomllib
from typing import Any, Literal

from axonkernel.errors import Fault, PolicyError
from axonkernel.policy.faults import Place
from axonkernel.policy.model import Policy
from axonkernel.policy.parse import collect

__all__ = ["Format", "loads", "loads_data"]

Format = Literal["toml", "json"]


def loads(
    text: str,
    format: Format,
    *,
    base: str = "/",
    home: str | None = None,
    source: str = "policy",
) -> Policy:
    """The policy written in ``text``; arguments as for :func:`~axonkernel.policy.parse.parse`.

    Raises:
        PolicyError: the text is not of the format (with the line), a key is written twice,
            and every fault of the policy itself.
    """
    data, faults = _data(text, format)
    if faults and data is None:
        raise PolicyError(faults, source)
    policy, more = collect(data, base=base, home=home)
    if policy is None or faults or more:
        raise PolicyError((*faults, *more), source)
    return policy


def loads_data(text: str, format: Format, source: str = "policy") -> Any:
    """The data written in ``text``, whatever it says.

    Raises:
        PolicyError: the text is not of the format, or a key is written twice.
    """
    data, faults = _data(text, format)
    if faults:
        raise PolicyError(faults, source)
    return data


def _data(text: str, format: Format) -> tuple[Any, list[Fault]]:
    """The data, or None when there is none, and what is wrong with the text."""
    place = Place()
    text = text.removeprefix("\ufeff")
    try:
        if format == "toml":
            return tomllib.loads(text), place.faults
        data = json.loads(text, object_pairs_hook=_Pairs, parse_constant=_no_constant)
        return _distinct(data, place), place.faults
    except json.JSONDecodeError as error:
        place.fault(f"is not JSON: {error.msg} (line {error.lineno}, column {error.colno})")
    except tomllib.TOMLDecodeError as error:
        # Its text ends in the line and column, but at the end of the text.
        last = f"the end, line {text.count(chr(10)) + 1}"
        place.fault(f"is not TOML: {error}".replace("end of document", last))
    except RecursionError:
        place.fault("is nested too deep to be a policy")
    except ValueError as error:  # a number with thousands of digits, or NaN
        place.fault(f"is not a policy: {error}")
    return None, place.faults


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


class _Pairs(list[tuple[str, Any]]):
    """A JSON object whose keys are not yet known to be distinct."""


def _distinct(value: Any, place: Place) -> Any:
    """JSON data with objects as dicts, a fault for every key that is written twice."""
    if isinstance(value, _Pairs):
        table: dict[str, Any] = {}
        for key, entry in value:
            spot = place.at(key)
            if key in table:
                spot.fault("is written twice", key, "keep one of them")
            table[key] = _distinct(entry, spot)
        return table
    if isinstance(value, list):
        return [_distinct(entry, place.at(index)) for index, entry in enumerate(value)]
    return value
