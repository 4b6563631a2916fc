"""The ``axonkernel`` command: find the subcommand by its name and run only that.

Nothing but what is built in and ``importlib`` is imported up here, since every
``axonkernel exec`` pays for it. A subcommand is the module of its name in this package. It
has either ``main(argv) -> int``, which reads its own arguments, or ``add_arguments(parser)``
and ``run(args) -> int``, driven by :mod:`axonkernel.cli.args`.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module

__all__ = ["COMMANDS", "main", "start"]

#: Subcommands, in the order a new user needs them, each with its one line.
COMMANDS = {
    "init": "write a closed policy.toml to start from",
    "check": "find faults and risky rules in a policy",
    "explain": "say whether one request is allowed, and why; or what is in the box",
    "trust": "say yes to a configuration found in a folder",
    "run": "run the agent of axon.config.py in its box",
    "exec": "run any command in a box",
    "doctor": "show which walls this machine has, and how to get the others",
    "schema": "print the policy's JSON Schema, for editors",
    "escape-test": "try to escape from the box of a policy, in every known way",
    "demo": "box an example agent and show what it can and cannot do",
}

#: The commands whose own failures must not look like their command's (as in docker and env).
_LAUNCHERS = ("run", "exec")

_HELP = """\
usage: axonkernel COMMAND [...]

Run an AI agent you do not trust: one declared policy, checked on every call and held by
the operating system.

commands:
{commands}

start here:
  axonkernel doctor                        what this machine can enforce
  axonkernel init                          writes policy.toml, closed; open what is needed
  axonkernel check                         faults, and rules wider than they look
  axonkernel explain -- git push --force   allow, deny or escalate, and why
  axonkernel trust                         once you have read it: use it from now on
  axonkernel exec -- python3 agent.py      run it inside the box

or with no file at all:
  axonkernel exec --read . --write ./out --net 203.0.113.10:443 --allow git -- CMD ...

The policy is --policy FILE, or axon.config.py, policy.toml or policy.json here or above.
exit codes: 0 done; 2 wrong usage; 78 bad policy; 125 no box; explain: 10 deny, 11 escalate.
`axonkernel COMMAND --help` tells more about one command; `axonkernel --version` the version.
"""


def start() -> None:
    """What a shell starts: :func:`main`, and the end of the process."""
    if sys.argv[1:2] == ["exec"]:
        gc.disable()  # what a launch makes stays: to look through it takes 2 ms
    code = main()
    if sys.argv[1:2] != ["exec"]:
        gc.freeze()  # or it is all looked through once more
        sys.exit(code)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # nobody reads any more
        pass
    os._exit(code)  # taking the interpreter apart costs each boxed command 3 ms


def main(argv: list[str] | None = None) -> int:
    """Run the command line ``argv`` (default: the process's own); returns the exit code."""
    words = sys.argv[1:] if argv is None else argv
    name = words[0] if words else ""
    _open_missing_streams()
    try:
        if name in COMMANDS:
            return _dispatch(name, words[1:])
        return _without_command(words)
    except SystemExit as end:  # argparse ends this way, after its own message
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:
        from axonkernel.cli.fault import report

        return report(error, command=name, launcher=name in _LAUNCHERS)


def _open_missing_streams() -> None:
    """/dev/null where a standard stream is closed: the next file opened would take its place."""
    for name, flags in (("stdin", os.O_RDONLY), ("stdout", os.O_WRONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            fd = os.open(os.devnull, flags)
            # Open until the process ends, as the streams it stands for.
            setattr(sys, name, open(fd, "r" if name == "stdin" else "w"))  # noqa: SIM115


def _dispatch(name: str, rest: list[str]) -> int:
    module = import_module(f"axonkernel.cli.{name.replace('-', '_')}")
    if hasattr(module, "main"):
        return int(module.main(rest))
    from axonkernel.cli.args import drive

    return drive(module, name, rest)


def _without_command(words: list[str]) -> int:
    name = words[0] if words else ""
    if name in ("-h", "--help", "help"):
        if name == "help" and len(words) > 1 and words[1] in COMMANDS:
            return _dispatch(words[1], ["--help"])
        sys.stdout.write(_help())
        return 0
    if name in ("-V", "--version", "version"):
        from axonkernel import __version__

        sys.stdout.write(f"axonkernel {__version__}\n")
        return 0
    if not words:
        sys.stderr.write(_help())
        return 2
    from axonkernel.cli.args import unknown_command

    sys.stderr.write(unknown_command(name, COMMANDS))
    return 2


def _help() -> str:
    commands = "\n".join(f"  {name:<12}{line}" for name, line in COMMANDS.items())
    return _HELP.format(commands=commands)
