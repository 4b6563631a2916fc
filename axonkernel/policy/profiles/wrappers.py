"""Programs that run the program named in their arguments.

For each: its options with the number of words they take, the operands before the command,
and what makes the command invisible. An option that is not listed hides the command too,
since what follows it cannot be told apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

__all__ = ["WRAPPERS", "Wrapper"]


class Wrapper(NamedTuple):
    """How a program's arguments lead to the command it runs.

    Arguments:
        options: short (``-n``) and long (``--adjustment``) options; 1 for those that take a
            value, joined or as the next word, 0 for the others.
        operands: words between the options and the command.
        assigns: ``NAME=VALUE`` words before the command set variables.
        feeds: words are added to the command that are not in the arguments.
        hides: options with which something runs that is not in the arguments.
        ends: options with which nothing runs.
    """

    options: Mapping[str, int] = {}
    operands: int = 0
    assigns: bool = False
    feeds: bool = False
    hides: frozenset[str] = frozenset()
    ends: frozenset[str] = frozenset({"--help", "--version"})


def _options(alone: str, valued: str) -> dict[str, int]:
    return {**dict.fromkeys(alone.split(), 0), **dict.fromkeys(valued.split(), 1)}


_SUDO = Wrapper(
    _options(
        "-A -B -b -E -H -K -k -n -P -S --askpass --bell --background --preserve-env --set-home "
        "--reset-timestamp --non-interactive --preserve-groups --stdin",
        "-C -D -g -h -p -R -r -t -T -U -u --close-from --chdir --group --host --prompt --chroot "
        "--role --type --command-timeout --other-user --user",
    ),
    assigns=True,
    hides=frozenset({"-e", "--edit", "-i", "--login", "-s", "--shell"}),
    ends=frozenset({"--help", "--version", "-V", "-l", "--list", "-v", "--validate"}),
)

WRAPPERS: Final[Mapping[str, Wrapper]] = {
    "env": Wrapper(
        _options(
            "-i -0 -v --ignore-environment --null --debug --list-signal-handling "
            "--default-signal --ignore-signal --block-signal",
            "-u -C -a --unset --chdir --argv0",
        ),
        assigns=True,
        hides=frozenset({"-S", "--split-string"}),
    ),
    "timeout": Wrapper(
        _options(
            "-v -f -p --verbose --foreground --preserve-status", "-k -s --kill-after --signal"
        ),
        operands=1,
    ),
    "nice": Wrapper(_options("", "-n --adjustment")),
    "ionice": Wrapper(
        _options("-t --ignore", "-c -n --class --classdata"),
        ends=frozenset({"-p", "--pid", "-P", "--pgid", "-u", "--uid", "-h", "-V"}),
    ),
    "nohup": Wrapper(),
    "stdbuf": Wrapper(_options("", "-i -o -e --input --output --error")),
    "setsid": Wrapper(_options("-c -f -w --ctty --fork --wait", "")),
    "time": Wrapper(
        _options("-a -p -q -v --append --portability --quiet --verbose", "-f -o --format --output")
    ),
    "chrt": Wrapper(
        _options(
            "-a -b -d -f -i -o -r -R -v --all-tasks --batch --deadline --fifo --idle --other --rr "
            "--reset-on-fork --verbose",
            "-T -P -D --sched-runtime --sched-period --sched-deadline",
        ),
        operands=1,
        ends=frozenset({"-p", "--pid", "-m", "--max", "-h", "-V", "--help", "--version"}),
    ),
    "taskset": Wrapper(
        _options("-a -c --all-tasks --cpu-list", ""),
        operands=1,
        ends=frozenset({"-p", "--pid", "-h", "-V", "--help", "--version"}),
    ),
    "xargs": Wrapper(
        _options(
            # --replace, --max-lines and --eof take a value only after "=".
            "-0 -o -p -r -t -x --null --open-tty --interactive --no-run-if-empty --verbose --exit "
            "--show-limits --replace --max-lines --eof",
            "-a -d -E -I -L -n -P -s --arg-file --delimiter --max-args --max-procs --max-chars "
            "--process-slot-var",
        ),
        feeds=True,
    ),
    "sudo": _SUDO,
    "doas": Wrapper(_options("-n -L", "-a -u"), hides=frozenset({"-s"}), ends=frozenset({"-C"})),
    "busybox": Wrapper(ends=frozenset({"--help", "--list", "--list-full", "--install"})),
    "toybox": Wrapper(ends=frozenset({"--help", "--long", "--version"})),
}
