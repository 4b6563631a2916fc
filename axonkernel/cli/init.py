"""Write a closed policy to start from: policy.toml, or axon.config.py with --python.

Nothing is allowed in it but reading this folder; every other block is there as a comment
that says what it opens. An existing file is never overwritten. After editing:

  axonkernel check      faults, and rules wider than they look
  axonkernel trust      use it from now on
"""

from __future__ import annotations

import argparse
import os
import shlex

from axonkernel.cli.args import add_json, say, say_json, usage_error

_TOML = """\
# What the agent may do. Everything that is not written here is closed.
# Relative paths count from this file. Reference: axonkernel schema

default = "deny"        # absent blocks are closed ("allow" would leave them open)

[fs]
read = ["."]            # this folder and everything below it
# write = ["./output"]  # write includes read; a missing folder is made
# deny = [".env", "**/*.key"]   # taken out of both again

# [net]
# allow = ["api.github.com", "203.0.113.0/24:8000-8100"]  # names, *.names, addresses, ranges
#                       # of them; port 443 where none is given

# [shell]
# allow = ["git"]       # no other program exists in the box
# [shell.args.git]
# deny = ["push --force*"]
# escalate = ["push*"]  # a person is asked; nobody there means no

# [env]
# allow = ["GITHUB_TOKEN"]      # everything else stays outside

# [tools]
# "*" = "escalate"      # true, false or "escalate" for each tool the agent declares
# [tools.fs]
# read = true
# remove = false

[limits]
wall = "30m"
"""

_TOML_LIMITS = """\
memory = "2G"
cpu = "100%"            # of one core
pids = 256
"""

_PYTHON = '''\
"""The agent and what it may do. Everything that is not written here is closed.

Relative paths count from this file. The policy is evaluated in a closed box; the functions
below run only inside the agent's own box: axonkernel run
"""

from axonkernel import define_agent

agent = define_agent(
    name="agent",
    policy={
        "default": "deny",  # absent blocks are closed ("allow" would leave them open)
        "fs": {
            "read": ["."],  # this folder and everything below it
            # "write": ["./output"],  # write includes read; a missing folder is made
            # "deny": [".env", "**/*.key"],  # taken out of both again
        },
        # "net": {"allow": ["api.github.com", "203.0.113.10:8080"]},  # port 443 without one
        # "shell": {"allow": ["git"], "args": {"git": {"escalate": ["push*"]}}},
        # "env": {"allow": ["GITHUB_TOKEN"]},
        "tools": {"fs": {"read": True, "list": True}},
        "limits": {
            "wall": "30m",
LIMITS        },
    },
)


@agent.handler
async def main(kernel, request):
    """What one request does. Every call here is checked against the policy first."""
    return await kernel.call("fs.list", path=".")
'''

_PYTHON_LIMITS = """\
"memory": "2G",
"cpu": "100%",  # of one core
"pids": 256,
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``axonkernel init``."""
    parser.add_argument("folder", nargs="?", default=".", metavar="DIR", help="default: here")
    parser.add_argument("--python", action="store_true", help="write axon.config.py instead")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Write the file; 1 when the folder already has a configuration."""
    from axonkernel.config.source import NAMES

    if not os.path.isdir(args.folder):
        raise usage_error(f"init: {args.folder} is not a folder")
    taken = [name for name in NAMES if os.path.lexists(os.path.join(args.folder, name))]
    if taken:
        # A second one beside it would be a fault of its own.
        return _nothing(args, os.path.join(args.folder, taken[0]))
    path = os.path.join(args.folder, "axon.config.py" if args.python else "policy.toml")
    # "x": a file that appeared in between is not overwritten either.
    with open(path, "x", encoding="utf-8", opener=_opener) as file:
        file.write(_text(args.python))
    return _written(args, path)


def _text(python: bool) -> str:
    """The configuration to start from; limits that this machine lacks are comments in it."""
    from axonkernel.config.machine import lacking_limits

    lines = (_PYTHON_LIMITS if python else _TOML_LIMITS).splitlines(keepends=True)
    missing = lacking_limits()
    if missing:
        remark = f"# This machine cannot hold these ({missing} is missing): axonkernel doctor\n"
        lines = [remark, *(f"# {line}" for line in lines)]
    if not python:
        return _TOML + "".join(lines)
    return _PYTHON.replace("LIMITS", "".join(f"{'':12}{line}" for line in lines))


def _opener(path: str, flags: int) -> int:
    # 0644 whatever the umask allows: a policy that others can change is refused.
    return os.open(path, flags, 0o644)


def _written(args: argparse.Namespace, path: str) -> int:
    if args.json:
        say_json({"path": os.path.abspath(path), "written": True})
        return 0
    name = shlex.quote(os.path.normpath(path))
    elsewhere = "" if os.path.samefile(args.folder, ".") else f" {name}"
    # Found Python is code: nothing reads it before it is trusted or named.
    check = f" --policy {name}" if args.python else elsewhere
    steps = f"`axonkernel check{check}` and `axonkernel trust{elsewhere}`"
    say([f"wrote {path}", f"next: edit it, then {steps}"])
    return 0


def _nothing(args: argparse.Namespace, taken: str) -> int:
    if args.json:
        say_json({"path": os.path.abspath(taken), "written": False})
        return 1
    lines = [f"{taken} exists; nothing was written"]
    wanted = "axon.config.py" if args.python else "policy.toml"
    if os.path.basename(taken) != wanted:
        lines.append(
            f"a folder has one configuration: delete {taken} or move it elsewhere to have "
            f"{wanted} here, or give init another folder"
        )
    say(lines)
    return 1
