"""Find the faults of a policy, and rules that do more, or less, than they seem to.

Faults (exit 78) keep a policy from running; all of them are shown at once, each with its
place and a fix. Warnings (exit 0, or 1 with --strict) are for you to judge. Notes say what the
policy comes to on this machine, fields it would refuse among them. Nothing of yours is run.

  axonkernel check                 the configuration found from here upward
  axonkernel check policy.toml     this file
  axonkernel check --json | jq .warnings
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from axonkernel.cli.args import add_json, add_policy, say, say_json, usage_error

if TYPE_CHECKING:
    from axonkernel.config.loaded import LoadedPolicy
    from axonkernel.policy.lint import Lint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``axonkernel check``."""
    parser.add_argument("file", nargs="?", metavar="FILE", help="the same as --policy FILE")
    add_policy(parser)
    parser.add_argument("--strict", action="store_true", help="exit 1 when there are warnings")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Check one policy; 0 when it can run, 1 for warnings with --strict."""
    from axonkernel.config.loaded import load
    from axonkernel.config.machine import machine_notes, refused_notes
    from axonkernel.knowledge import added_profiles
    from axonkernel.policy.lint import lints
    from axonkernel.required import no_policy

    if args.file is not None and args.policy is not None:
        raise usage_error("check takes FILE or --policy FILE, not both")
    path = args.file if args.file is not None else args.policy
    loaded = load(path, require_policy=args.require_policy, read_untrusted=True)
    if not loaded.source:
        raise no_policy("")
    added_profiles(loaded.policy)
    warnings = lints(loaded.policy)
    here = (*machine_notes(loaded.policy), *refused_notes(loaded.effective))
    notes = (*loaded.notes, *here)
    if args.json:
        say_json(_data(loaded, warnings, notes))
    else:
        say(_lines(loaded, warnings, notes))
    return 1 if warnings and args.strict else 0


def _lines(loaded: LoadedPolicy, warnings: tuple[Lint, ...], notes: tuple[str, ...]) -> list[str]:
    count = f"{len(warnings)} warning{'' if len(warnings) == 1 else 's'}"
    isolation = loaded.policy.effective_isolation
    lines = [f"{loaded.source}: no faults, {count}; isolation {isolation}"]
    lines += [f"  below the profile {path}" for path in loaded.profiles]
    lines += [f"  warning: {lint}" for lint in warnings]
    lines += [f"  note: {note}" for note in notes]
    return lines


def _data(
    loaded: LoadedPolicy, warnings: tuple[Lint, ...], notes: tuple[str, ...]
) -> dict[str, Any]:
    return {
        "source": loaded.source,
        "digest": loaded.digest,
        "trusted": loaded.trusted,
        "isolation": loaded.policy.effective_isolation,
        "profiles": loaded.profiles,
        "faults": [],
        "warnings": [
            {"code": lint.code, "path": lint.path, "message": lint.message, "hint": lint.hint}
            for lint in warnings
        ],
        "notes": notes,
    }
