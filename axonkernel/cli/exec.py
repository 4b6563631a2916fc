"""Run any command in a box.

Every start of a boxed command pays for this file's imports, so it reads its own arguments and
loads the policy's modules only when no kept plan fits (box/plancache.py).
"""

from __future__ import annotations

import json
import os
import sys

from axonkernel.box.model import BoxPlan, BoxResult, Command, posture_line, result_fields
from axonkernel.errors import AxonError
from axonkernel.policy.visible import visible
from axonkernel.typed import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from axonkernel.audit import AuditLog
    from axonkernel.box.bare import BareProcess
    from axonkernel.box.channel import Channel
    from axonkernel.box.launch import BoxProcess
    from axonkernel.box.pty import Terminal
    from axonkernel.broker.standstill import Standstill
    from axonkernel.drops import Drops

__all__ = ["main"]

_HELP = """\
usage: axonkernel exec [--policy FILE | GRANTS] [options] [--] CMD [ARG...]

Run CMD in a box. What is not granted does not exist inside.

grants, each may be repeated; without any, axon's policy found here or above counts, and
without that nothing is granted: the box is closed (a library Kernel without a policy is open):
  --read PATH          readable, with everything below
  --write PATH         writable as well; a missing folder is made
  --deny PATH|GLOB     taken out of the grants again
  --net HOST:PORT      a destination that can be reached: a name, *.BASE, an address, a range
  --allow PROGRAM      a program that exists inside, beside CMD and what it needs
  --env NAME           a variable that is passed through
  --set NAME=VALUE     a variable that is set
  --limit NAME=VALUE   wall=30m disk=1G; memory=1G cpu=150% pids=200 (these need systemd or a
                       delegated cgroup v2); output=1M caps calls of a Kernel, no command of exec
  --open BLOCK         leave one of fs net shell env as it is outside

options:
  --policy FILE        the policy, in place of grants
  --require-policy     refuse to run without a policy or grants
  --best-effort        run with the walls this machine has, and say which are missing
  --json-status FD     write one line of JSON there at the end
  --quiet              do not print the posture, nor where the command starts

examples:
  axonkernel exec --read . -- ls -la
  axonkernel exec --read . --write ./out --allow git --limit wall=30m -- python3 build.py
  axonkernel exec --policy policy.toml -- bash

CMD gets pipes in place of files (< in > out) and a terminal of its own in place of yours.
Signals are passed on. CMD is killed 10 s after SIGTERM or SIGHUP, and at once when asked to end
a second time; SIGTSTP stops it.

exit codes: CMD's own (128 + N when signal N ended it, so 137 at a limit, whose name is on
stderr); 125 the box could not start, 126 CMD cannot be executed, 127 CMD not found; 78 a
policy with faults; 2 wrong usage
"""

_GRANTS = ("--read", "--write", "--deny", "--net", "--allow", "--env", "--set", "--limit",
           "--open")  # fmt: skip
_VALUES = ("--policy", "--json-status")
_FLAGS = ("--require-policy", "--best-effort", "--quiet")


class Options(NamedTuple):
    """The command line: grants in order, single values, flags, and the command."""

    grants: tuple[tuple[str, str], ...]
    values: dict[str, str]
    flags: frozenset[str]
    command: tuple[str, ...]


class UsageError(Exception):
    """A command line that is not understood."""


def main(argv: list[str]) -> int:
    """Run the command line after ``exec``; returns the command's exit code."""
    try:
        options = _parse(argv)
    except UsageError as error:
        sys.stderr.write(f"axonkernel exec: {error}\ntry: axonkernel exec --help\n")
        return 2
    if options is None:
        sys.stdout.write(_HELP)
        return 0
    return _run(options)


def _parse(argv: list[str]) -> Options | None:
    """The options; None when help was asked for."""
    grants: list[tuple[str, str]] = []
    values: dict[str, str] = {}
    flags: set[str] = set()
    words = list(argv)
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word == "--":
            break
        name, equals, value = word.partition("=")
        if name in ("-h", "--help"):
            return None
        if name in _FLAGS and not equals:
            flags.add(name)
            continue
        if name not in _GRANTS and name not in _VALUES:
            raise UsageError(f"there is no option {name}")
        if not equals:
            if not words:
                raise UsageError(f"{name} needs a value")
            value = words.pop(0)
        if name in _GRANTS:
            grants.append((name[2:], value))
        else:
            values[name[2:]] = value
    if not words:
        raise UsageError("which command? write: axonkernel exec [options] -- CMD [ARG...]")
    if grants and "policy" in values:
        raise UsageError("give --policy FILE or grants, not both")
    if "json-status" in values and not _can_be_written(values["json-status"]):
        raise UsageError("--json-status takes the number of a descriptor that is open for writing")
    return Options(tuple(grants), values, frozenset(flags), tuple(words))


def _can_be_written(text: str) -> bool:
    """Whether ``text`` is a descriptor that the line of status can go to."""
    from fcntl import F_GETFL, fcntl

    if not (text.isascii() and text.isdigit()):
        return False
    try:
        return fcntl(int(text), F_GETFL) & 0b11 != os.O_RDONLY
    except (OSError, OverflowError, ValueError):
        return False


def _run(options: Options) -> int:
    # A warden's own imports take as long as finding the plan: both at once.
    warden = _warden()
    try:
        plan, more = _plan(options)
    except AxonError as error:
        _tell_no_box(options, error)
        raise
    if "--quiet" not in options.flags:
        sys.stderr.write(f"axonkernel: {posture_line(plan.posture)}\n")
    where = f"{os.getcwd()} is not granted" if "--quiet" in options.flags else None
    for warning in (*plan.warnings, *_ungranted(options, plan)):
        if where is None or not warning.startswith(where):  # no warning: where the command starts
            sys.stderr.write(f"axonkernel: {visible(warning)}\n")
    sys.stderr.flush()
    run = _Run(plan, options.command)
    result, unwritten = _supervised(run, warden, more)
    run.ended(result)
    if result.reason == "launch":
        sys.stderr.write(f"axonkernel exec: {result.stage}: {visible(result.message)}\n")
    elif result.reason in ("wall", "memory"):
        sys.stderr.write(f"axonkernel exec: the {result.reason} limit ended the command\n")
    if result.refused_pids:
        sys.stderr.write("axonkernel exec: limits.pids was reached: processes were not made\n")
    if result.kept or result.denied or result.reason == "keeper":
        from axonkernel.box.remarks import remarks

        sys.stderr.writelines(f"axonkernel exec: {line}\n" for line in remarks(result))
    if unwritten:
        sys.stderr.write(f"axonkernel exec: {unwritten}\n")
    _tell_status(options, plan, result)
    return result.exit_code or bool(unwritten)


def _ungranted(options: Options, plan: BoxPlan) -> Iterator[str]:
    """What the command will look for in vain, told before it does."""
    words = options.command[1:]
    if plan.bare or not any(map(os.path.exists, words)):
        return
    from axonkernel.box.ungranted import ungranted

    for word in ungranted(plan, words):
        shown = word if word.isprintable() else repr(word)
        fix = f"add --read {shown}" if options.grants else "fs.read of the policy does not hold it"
        yield f"{shown} is not granted; {fix}"


def _warden() -> Channel | None:
    if sys.platform != "linux":
        return None
    from axonkernel.box.launch import fork_warden

    return fork_warden()


class _Run:
    """One run on record, which hears of its box; loads what deals with that at the first word."""

    def __init__(self, plan: BoxPlan, command: tuple[str, ...]) -> None:
        self.plan = plan
        self.command = command
        self._log: AuditLog | None = None
        self._drops: Drops | None = None
        self.still: Standstill | None = None

    @property
    def audit(self) -> AuditLog:
        """Where it is recorded."""
        if self._log is None:
            from axonkernel.audit import AuditLog

            self._log = AuditLog()
        return self._log

    def begins(self) -> None:
        """Note the start, while the box is made: a log that cannot be written keeps the command
        from running."""
        posture = [list(row) for row in self.plan.posture]
        self.audit.record("box.start", agent="exec", command=list(self.command), posture=posture)

    def ended(self, result: BoxResult) -> None:
        """Note what was refused, and the end."""
        if result.denied:
            self.drops(None).ended(result)
        self.audit.record("box.end", agent="exec", result=result_fields(result))

    def hear(self, terminal: Terminal | None, box: BoxProcess, event: dict[str, Any]) -> None:
        """Take an event of the box."""
        self.drops(terminal).heard(box, event)

    def drops(self, terminal: Terminal | None) -> Drops:
        """What takes the refusals of the box."""
        if self._drops is None:
            from axonkernel.drops import Asking, Drops, person

            net = self.plan.net
            ask = None if net is None else net.ask
            asking = None
            if ask is not None:
                asking = Asking(person(self.audit, ask).ask_sync, terminal, self.still)
            self._drops = Drops(self.audit, "exec", net, asking)
        return self._drops


def _supervised(run: _Run, warden: Channel | None, more: dict[str, Any]) -> tuple[BoxResult, str]:
    """How the command ended, and what of its output could not be written."""
    if warden is None or run.plan.bare:
        from axonkernel.box.signals import forwarded

        run.begins()
        process = _bare(run.plan, run.command, warden)
        with forwarded(process):
            return process.wait(), ""
    from axonkernel.box import foreground

    brokered = None
    if more:
        from axonkernel.broker.commanded import Commanded

        brokered = Commanded(more, run.audit)
        run.still = brokered.still
    return foreground.run(warden, run.plan, run.command, run.hear, brokered, run.begins)


def _bare(plan: BoxPlan, argv: tuple[str, ...], warden: Channel | None) -> BareProcess:
    from axonkernel.box import bare

    if warden is not None:
        warden.close()
    return bare.start(plan, Command(argv))


def _plan(options: Options) -> tuple[BoxPlan, dict[str, Any]]:
    """The kept plan for this very command line, or a new one, and what was made with it."""
    from axonkernel.box import plancache

    policy = options.values.get("policy")
    found = None if policy is not None or options.grants else _found()
    given = (
        options.grants,
        sorted(options.flags - {"--quiet"}),
        _content(found if policy is None else policy),
        options.command[0],
        os.getcwd(),
        sorted(os.environ.items()),
        sys.executable,
    )
    name = plancache.key(*given)
    kept = plancache.load_more(name)
    if kept is not None:
        return kept
    from axonkernel.cli.execplan import make

    plan, watched, more = make(options, policy, found)
    if watched is not None and plan.traced:  # else ptrace may be allowed next time
        plancache.store(name, plan, watched, more)
    return plan, more


def _found() -> str | None:
    from axonkernel.config.source import discover

    return discover(None).path or None


def _content(path: str | None) -> list[object]:
    if path is None:
        return []
    from axonkernel.config.source import read_source

    source = read_source(path)
    # Its owner may be whom the box runs as.
    return [source.path, source.digest, os.stat(source.path).st_uid]


def _tell_status(options: Options, plan: BoxPlan, result: BoxResult) -> None:
    fd = options.values.get("json-status")
    if fd is None:
        return
    status = {
        "exit": result.exit_code,
        "reason": result.reason,
        "stage": result.stage,
        "message": result.message,
        "wall_s": round(result.wall_s, 6),
        "peaks": {
            "memory_bytes": result.peak_memory_bytes,
            "cpu_s": None if result.cpu_s is None else round(result.cpu_s, 6),
            "pids": result.peak_pids,
            "refused_pids": result.refused_pids,
        },
        "denials": [each._asdict() for each in result.denied],
        "kept": result.kept,
        "posture": [row._asdict() for row in plan.posture],
    }
    os.write(int(fd), (json.dumps(status) + "\n").encode())


def _tell_no_box(options: Options, error: AxonError) -> None:
    """The same line, short, where nothing came to run; the error is told on stderr as well."""
    fd = options.values.get("json-status")
    if fd is not None:
        reason = "policy" if error.exit_code == 78 else "launch"
        status = {"exit": error.exit_code, "reason": reason, "message": str(error)}
        os.write(int(fd), (json.dumps(status) + "\n").encode())
