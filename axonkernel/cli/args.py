"""What subcommands with ordinary arguments share: the parser, ``--json``, exact JSON output."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from axonkernel.cli.fault import error_data, printable
from axonkernel.errors import AxonError

__all__ = [
    "add_json",
    "add_policy",
    "drive",
    "say",
    "say_json",
    "unknown_command",
    "usage_error",
]


def drive(module: ModuleType, name: str, argv: list[str]) -> int:
    """Run a subcommand module that has ``add_arguments`` and ``run``.

    Its docstring is its help: the first paragraph in front, the rest behind the options.
    With ``--json`` an :class:`AxonError` is printed as the one JSON document, too.
    """
    first, _, rest = (module.__doc__ or "").strip().partition("\n\n")
    parser = argparse.ArgumentParser(
        prog=f"axonkernel {name}",
        description=first,
        epilog=rest,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    args = parser.parse_args(argv)
    try:
        code = int(module.run(args))
        sys.stdout.flush()
        return code
    except AxonError as error:
        if not getattr(args, "json", False):
            raise
        say_json(error_data(error))
        return error.exit_code


def add_json(parser: argparse.ArgumentParser) -> None:
    """``--json``."""
    parser.add_argument("--json", action="store_true", help="print one JSON document on stdout")


def add_policy(parser: argparse.ArgumentParser) -> None:
    """``--policy FILE`` and ``--require-policy``."""
    parser.add_argument(
        "--policy",
        metavar="FILE",
        help="the policy to use; without it, the axon.config.py, policy.toml or policy.json "
        "found in the working directory or above",
    )
    parser.add_argument(
        "--require-policy",
        action="store_true",
        default=None,
        help="refuse unrestricted access (also: AXON_REQUIRE_POLICY=1)",
    )


def usage_error(message: str) -> SystemExit:
    """The exception to raise for arguments that make no sense together; exits 2."""
    sys.stderr.write(f"axonkernel: {printable(message)}\n")
    return SystemExit(2)


def say(lines: Iterable[str]) -> None:
    """Print lines for a person, safe for any terminal."""
    for line in lines:
        text = printable(line)
        try:
            print(text)
        except UnicodeEncodeError:
            print(ascii(text)[1:-1])


def say_json(data: Any) -> None:
    """Print the one JSON document of a reader; ASCII, so every locale can take it."""
    print(json.dumps(data, indent=2, default=repr))


def unknown_command(name: str, known: Iterable[str]) -> str:
    """The message for a subcommand that does not exist, with the nearest that does."""
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), n=1)
    meant = f"; did you mean `axonkernel {near[0]}`?" if near else ""
    shown = printable(name)
    return f"axonkernel: no command {shown!r}{meant}\n  axonkernel --help lists them\n"
