"""Sizes, processor shares and durations as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from axonkernel.policy.units import parse_cpu, parse_duration, parse_size

KIB = 1024


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2G", 2 * KIB**3),
        ("512M", 512 * KIB**2),
        ("512MiB", 512 * KIB**2),
        ("1Ki", KIB),
        ("1.5K", 1536),
        ("3T", 3 * KIB**4),
        ("100", 100),
        ("100B", 100),
        (4096, 4096),
    ],
)
def test_a_size_is_bytes_in_powers_of_1024(text: Any, expected: int) -> None:
    """Suffixes count in powers of 1024; a plain number is bytes."""
    assert parse_size(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "G", "-1G", "0", 0, -5, "2X", "2 G", "2g", "two", "1e9", True, None, 1.5, [1], "1.5",
     "99999999999T", 2**70, "٢G"],
)  # fmt: skip
def test_a_bad_size_is_refused_with_an_example(text: Any) -> None:
    """Signs, spaces, lower case, fractions of a byte and booleans are not sizes."""
    with pytest.raises(ValueError, match='"2G"'):
        parse_size(text)


def test_a_decimal_suffix_has_two_readings() -> None:
    """``GB`` is 1000-based for some and 1024-based for others, so it is asked back."""
    with pytest.raises(ValueError, match='write "2G"'):
        parse_size("2GB")


@pytest.mark.parametrize(
    ("text", "expected"), [("100%", 1000), ("150%", 1500), ("12.5%", 125), ("0.1%", 1)]
)
def test_a_share_of_a_core_is_millicores(text: str, expected: int) -> None:
    """100% is one core, 1000 millicores."""
    assert parse_cpu(text) == expected


@pytest.mark.parametrize("text", [2, 150, "150", "1.5", "500m", "0%", "-1%", "0.01%", True, None])
def test_a_share_needs_its_percent_sign(text: Any) -> None:
    """A bare number could mean cores or percent: guessing wrong would lift the limit."""
    with pytest.raises(ValueError, match='"150%"'):
        parse_cpu(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30m", 1800.0),
        ("1h30m", 5400.0),
        ("90s", 90.0),
        ("250ms", 0.25),
        ("1m500ms", 60.5),
        ("1.5h", 5400.0),
        ("2d", 172800.0),
        ("45", 45.0),
        (45, 45.0),
        (0.5, 0.5),
    ],
)
def test_a_duration_is_seconds(text: Any, expected: float) -> None:
    """Units may be combined, largest first; a plain number is seconds."""
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "m", "30 m", "30min", "1m1h", "-5s", "0s", 0, -1, float("nan"), float("inf"), True, None,
     "1.2.3s", "1e3", "99999999d", []],
)  # fmt: skip
def test_a_bad_duration_is_refused_with_an_example(text: Any) -> None:
    """Zero, negative, not finite, unknown units and units out of order are no durations."""
    with pytest.raises(ValueError, match='"30m"'):
        parse_duration(text)
