"""Sizes, processor shares and durations as people write them.

Every function takes what stood in the policy and returns the number the rest of the code
uses. All of them raise ValueError with a text that says how to write it instead; the amount
is always more than zero, since "no limit" is said by leaving the key out.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

__all__ = ["parse_cpu", "parse_duration", "parse_size"]

#: Powers of 1024, as systemd and the kernel's own files count.
_SIZES: Final = {"": 0, "B": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_SIZE: Final = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,6})?)([KMGT]?)(?:iB|i|B)?", re.ASCII)
#: Told apart from "2G" because some tools mean powers of 1000 by it.
_DECIMAL_SIZE: Final = re.compile(r"([0-9.]+)([KMGT])B", re.ASCII | re.IGNORECASE)
_CPU: Final = re.compile(r"([0-9]{1,7}(?:\.[0-9]{1,6})?)%", re.ASCII)
_SECONDS: Final = {
    "d": Decimal(86400),
    "h": Decimal(3600),
    "m": Decimal(60),
    "s": Decimal(1),
    "ms": Decimal("0.001"),
}
_DURATION: Final = re.compile(
    r"(?:([0-9.]+)d)?(?:([0-9.]+)h)?(?:([0-9.]+)m(?!s))?(?:([0-9.]+)s)?(?:([0-9.]+)ms)?", re.ASCII
)
_AMOUNT: Final = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,6})?", re.ASCII)

_LARGEST_BYTES: Final = 2**63 - 1
_LARGEST_MILLICORES: Final = 10_000_000
_LARGEST_S: Final = Decimal(10**9)

_SIZE_HELP: Final = 'write a size such as "512M" or "2G" (K, M, G, T are powers of 1024)'
_CPU_HELP: Final = 'write a percentage of one core, such as "150%" for one and a half'
_DURATION_HELP: Final = 'write a duration such as "90s", "30m" or "1h30m"'


def parse_size(value: object) -> int:
    """Bytes of ``"2G"``, ``"512MiB"``, ``"1.5K"`` or a plain number of bytes.

    Raises ValueError for anything else, also for ``"2GB"``, which some read as powers of 1000.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return _whole(Decimal(value), _LARGEST_BYTES, _SIZE_HELP)
    if not isinstance(value, str):
        raise ValueError(f"is not a size; {_SIZE_HELP}")
    if decimal := _DECIMAL_SIZE.fullmatch(value):
        raise ValueError(f'has two readings; write "{decimal[1]}{decimal[2].upper()}" (1024-based)')
    match = _SIZE.fullmatch(value)
    if match is None:
        raise ValueError(f"is not a size; {_SIZE_HELP}")
    return _whole(Decimal(match[1]) * 1024 ** _SIZES[match[2]], _LARGEST_BYTES, _SIZE_HELP)


def parse_cpu(value: object) -> int:
    """Thousandths of a core of ``"150%"``; ``"100%"`` is one core, 1000.

    Raises ValueError for anything else. A bare number is refused because 2 could mean two
    cores or two percent, and guessing wrong would lift the limit.
    """
    match = _CPU.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"is not a share of a core; {_CPU_HELP}")
    return _whole(Decimal(match[1]) * 10, _LARGEST_MILLICORES, _CPU_HELP)


def parse_duration(value: object) -> float:
    """Seconds of ``"30m"``, ``"1h30m"``, ``"250ms"`` or a plain number of seconds.

    Raises ValueError for anything else.
    """
    amount = _duration(value)
    if amount is None:
        raise ValueError(f"is not a duration; {_DURATION_HELP}")
    if amount <= 0:
        raise ValueError(f"must be more than zero; {_DURATION_HELP}")
    if amount > _LARGEST_S:
        raise ValueError(f"is longer than thirty years; {_DURATION_HELP}")
    return float(amount)


def _duration(value: object) -> Decimal | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        number = Decimal(value)
        return number if number.is_finite() else None
    if not isinstance(value, str) or not value:
        return None
    if _AMOUNT.fullmatch(value):
        return Decimal(value)
    match = _DURATION.fullmatch(value)
    if match is None or not all(_AMOUNT.fullmatch(part) for part in match.groups() if part):
        return None
    parts = zip(match.groups(), _SECONDS.values(), strict=True)
    return sum((Decimal(part) * unit for part, unit in parts if part), Decimal(0))


def _whole(amount: Decimal, largest: int, help_text: str) -> int:
    if amount <= 0:
        raise ValueError(f"must be more than zero; {help_text}")
    if amount > largest:
        raise ValueError(f"is larger than any machine; {help_text}")
    if amount != int(amount):
        raise ValueError(f"is finer than can be enforced; {help_text}")
    return int(amount)
