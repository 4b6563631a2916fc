"""Say yes to the configuration found here, in exactly its present content.

A configuration that lies in a folder may come from anybody: from a clone, or from the agent
itself. So what discovery finds is not used before somebody has read it and said so. Each
change of the file needs a new yes. `--policy FILE` never needs one.

  axonkernel trust              the file found from the working directory upward
  axonkernel trust FILE         this file
  axonkernel trust --list       what has been trusted
  axonkernel trust --revoke     take it back (all versions of the file)

Where nobody can type, set AXON_TRUST to the digest that this command prints.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from axonkernel.cli.args import add_json, say, say_json, usage_error

if TYPE_CHECKING:
    from axonkernel.config.source import Source
    from axonkernel.config.trust import Trust


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``axonkernel trust``."""
    parser.add_argument("file", nargs="?", metavar="FILE", help="default: the one found")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="list what has been trusted")
    what.add_argument("--revoke", action="store_true", help="take the trust back")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Store, list or take back a yes; 0 when done, 1 when there was nothing to take back."""
    if args.list:
        if args.file is not None:
            raise usage_error("trust --list takes no file")
        return _list(args)
    if args.revoke:
        return _revoke(args)
    return _add(args)


def _add(args: argparse.Namespace) -> int:
    from axonkernel.config.source import read_source
    from axonkernel.config.trust import TrustStore

    source = read_source(_path(args.file), found=True)
    trust = TrustStore().add(source, _checked(source))
    if args.json:
        say_json({"trusted": _data(trust)})
        return 0
    headless = f"{trust.digest}:{trust.policy_digest}".rstrip(":")
    say([f"trusted: {trust.path}", f"headless: AXON_TRUST={headless}"])
    return 0


def _checked(source: Source) -> str:
    """Refuse what is no policy; for Python, the digest of the policy it evaluates to."""
    from axonkernel.config.loaded import data_digest, parse_source, read_policy_data

    data = read_policy_data(source)
    parse_source(source, data)
    return data_digest(data) if source.kind == "python" else ""


def _list(args: argparse.Namespace) -> int:
    from axonkernel.config.trust import TrustStore

    entries = TrustStore().entries()
    if args.json:
        say_json({"trusted": [_data(trust) for trust in entries]})
    else:
        say([f"{trust.digest}  {trust.path}" for trust in entries] or ["nothing is trusted yet"])
    return 0


def _revoke(args: argparse.Namespace) -> int:
    from axonkernel.config.trust import TrustStore

    # The file need not exist any more, nor be readable, to lose its trust.
    path = os.path.realpath(_path(args.file))
    count = TrustStore().remove(path)
    if args.json:
        say_json({"revoked": count, "path": path})
    else:
        say([f"no longer trusted: {path}" if count else f"was not trusted: {path}"])
    return 0 if count else 1


def _path(named: str | None) -> str:
    if named is not None:
        return named
    from axonkernel.config.source import NAMES, discover

    search = discover()
    if not search.path:
        raise usage_error("\n  ".join([f"no {', '.join(NAMES)} here or above", *search.notes]))
    return search.path


def _data(trust: Trust) -> dict[str, Any]:
    return {
        "path": trust.path,
        "digest": trust.digest,
        "policy_digest": trust.policy_digest,
        "since_s": trust.since_s,
    }
