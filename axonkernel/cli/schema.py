"""Print the JSON Schema of the policy, for editors and validators.

  axonkernel schema > policy.schema.json

Then put `#:schema ./policy.schema.json` on the first line of policy.toml (Even Better TOML,
Taplo), or name the file in the editor's settings for policy.json.
"""

from __future__ import annotations

import argparse

from axonkernel.cli.args import say_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``axonkernel schema``."""
    parser.add_argument("--json", action="store_true", help="accepted; the schema is JSON anyway")


def run(args: argparse.Namespace) -> int:
    """Print the schema."""
    from axonkernel.policy.schema import json_schema

    say_json(json_schema())
    return 0
