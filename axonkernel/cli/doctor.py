"""Show which walls this machine has, and how to get the others.

Every piece is tried, not looked up: a box is made, a table refuses a packet, a program that
takes too much memory is killed. Nothing is left behind.

exit codes: 0 every declared field of any policy can be held; 1 something is missing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from axonkernel.box.probe import NEEDS, Piece, Probe, probe
from axonkernel.cli.args import add_json, say, say_json

_TITLES = {
    "linux": "Linux",
    "seccomp": "system call filter",
    "box": "namespaces (bwrap)",
    "gate": "check before the first instruction (optional)",
    "table": "packet filter (nftables)",
    "link": "network link (pasta)",
    "veth": "network link (veth, optional)",
    "limits": "resource limits (systemd)",
    "landlock": "Landlock (optional)",
    "bindings": "Python bindings (optional)",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``axonkernel doctor``."""
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Try every piece and show what came of it."""
    found = probe(refresh=True)
    if args.json:
        pieces = [_data(piece) for piece in found.pieces]
        say_json({"complete": found.complete, "pieces": pieces})
    else:
        say(_lines(found))
    return 0 if found.complete else 1


def _data(piece: Piece) -> dict[str, object]:
    fields = _fields(piece.name)
    return {**piece._asdict(), "optional": piece.optional, "fields": fields}


def _fields(name: str) -> list[str]:
    """The policy fields that need a piece."""
    return [field for field, names in NEEDS.items() if name in names]


def _lines(found: Probe) -> Iterator[str]:
    width = max(map(len, _TITLES.values()))
    for piece in found.pieces:
        state = "ok" if piece.ok else "absent" if piece.optional else "MISSING"
        seen = piece.detail if piece.ok else f"{piece.missing}: {piece.detail}"
        yield f"{_TITLES[piece.name]:{width}}  {state:7}  {seen}"
        if not piece.ok:
            yield f"{'':{width}}  fix:     {piece.fix}"
    yield ""
    yield from _verdict(found)


def _verdict(found: Probe) -> Iterator[str]:
    if found.complete:
        yield "Every field of a policy can be held here."
        return
    # "limits" as a whole would say that wall and disk are lost too.
    lost = [field for field in NEEDS if field != "limits" and found.lacking(field) is not None]
    yield f"Cannot be held here: {', '.join(lost)}."
    yield 'A policy that declares them is refused, unless isolation = "best-effort".'
