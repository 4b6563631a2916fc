"""Say what the policy answers to one request, which rule decides, and what would change it.

Nothing is run and nothing is recorded. Exit code: 0 allow, 10 deny, 11 escalate.

  axonkernel explain -- git push --force origin main
  axonkernel explain --raw "git log | head"
  axonkernel explain --tool fs.remove --args '{"path": "a.txt"}'
  axonkernel explain --read ./src/app.py          (also --write)
  axonkernel explain --connect 203.0.113.10:443
  axonkernel explain --env GITHUB_TOKEN
  axonkernel explain --box                        what would exist in the box of `exec`

The answer is that of the mediator and the box together. Inside a box the private /tmp and
home can be written and the system's libraries read (layer `box`); --unboxed gives the answer
outside one. In a box a host name is held by its addresses, and a note says so.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from axonkernel.cli.args import add_json, add_policy, say, say_json, usage_error

if TYPE_CHECKING:
    from axonkernel.config.loaded import LoadedPolicy
    from axonkernel.policy.explain import Explanation
    from axonkernel.policy.request import AnyRequest

_OWN_TOOL = (
    "what {} touches is judged when it is called: its file says which of its arguments are "
    "paths, hosts, programs, and explain runs no agent's code"
)

_BY_ADDRESS = (
    "in a box a name is held by its addresses: whatever else is at one of them, at this port, is "
    "reached as well (net.tls_names compares names)"
)

_NO_NAMES = "net.dns is off: no name is found in a box, and this answer is the mediator's alone"

_OWN_LOOPBACK = "a box has a loopback of its own: this reaches what listens in it, not the host's"

_OWN_FOLDER = (
    "{} in the box is its own, empty at the start: what lies there outside does not exist inside "
    "(--unboxed answers for outside)"
)

#: Beside HOME, what every box has of its own.
_PRIVATE = ("/tmp", "/var/tmp", "/dev/shm")

_EXIT_CODES = {"allow": 0, "deny": 10, "escalate": 11}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``axonkernel explain``."""
    parser.add_argument("argv", nargs="*", metavar="-- ARGV", help="a program with its words")
    parser.add_argument("--raw", metavar="LINE", help="a line of shell text")
    parser.add_argument("--tool", metavar="NAME", help="a tool call")
    parser.add_argument("--args", metavar="JSON", help="the tool's arguments, a JSON object")
    parser.add_argument("--read", metavar="PATH", help="a path to read")
    parser.add_argument("--write", metavar="PATH", help="a path to write")
    parser.add_argument("--connect", metavar="HOST:PORT", help="a destination; also HOST:PORT/udp")
    parser.add_argument("--env", metavar="NAME", help="an environment variable")
    parser.add_argument("--cwd", metavar="DIR", help="where relative paths count from")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--box", action="store_true", help="the answer inside a box; without a request: the box"
    )
    where.add_argument("--unboxed", action="store_true", help="the answer outside a box")
    add_policy(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Explain one request; the exit code is the verdict."""
    from axonkernel.config.loaded import load

    cwd = os.path.abspath(args.cwd) if args.cwd is not None else _working_directory()
    if args.box and not any(_asked(args)):
        from axonkernel.cli.explainbox import explain_box

        return explain_box(args, cwd)
    request = _request(args, cwd)
    loaded = load(args.policy, require_policy=args.require_policy, read_untrusted=True)
    boxed = _is_boxed(args, loaded)
    explanation = _explain(loaded, request, cwd, boxed)
    notes = (*loaded.notes, *_not_known(request, explanation))
    if boxed:
        named = _named(loaded, request, explanation)
        notes = (*notes, *named, *_own_to_the_box(request, explanation))
    if args.json:
        say_json({"source": loaded.source, **explanation.as_dict(), "notes": notes})
    else:
        say(_lines(loaded, explanation, notes))
    return _EXIT_CODES[explanation.decision.verdict]


def _not_known(request: AnyRequest, explanation: Explanation) -> Iterator[str]:
    """What the answer leaves out: a tool of the agent's own may be denied for its arguments."""
    from axonkernel.policy.known import BUILTIN_TOOLS
    from axonkernel.policy.request import ToolRequest

    if not isinstance(request, ToolRequest) or request.name in BUILTIN_TOOLS:
        return
    if explanation.decision.verdict != "deny":
        yield _OWN_TOOL.format(request.name)


def _named(loaded: LoadedPolicy, request: AnyRequest, explanation: Explanation) -> Iterator[str]:
    """What it means in a box that a destination is granted by its name."""
    from axonkernel.policy.request import ConnectRequest
    from axonkernel.policy.rules.net import canonical_target

    net = loaded.effective.net
    if net is None or explanation.decision.verdict == "deny":
        return
    granted = any(match.rule.startswith("$.net.allow[") for match in explanation.matches)
    if (
        granted
        and isinstance(request, ConnectRequest)
        and canonical_target(request.host)[1] is None
    ):
        if net.dns == "off":
            yield _NO_NAMES
        elif net.tls_names == "off":
            yield _BY_ADDRESS


def _own_to_the_box(request: AnyRequest, explanation: Explanation) -> Iterator[str]:
    """Where the allowed thing is the box's own, and not the one that has its name outside."""
    from axonkernel.policy.request import ConnectRequest, PathRequest

    if explanation.decision.verdict != "allow":
        return
    if isinstance(request, ConnectRequest):
        if request.host == "localhost" or request.host.startswith(("127.", "::1", "[::1")):
            yield _OWN_LOOPBACK
    elif isinstance(request, PathRequest) and explanation.decision.rule == "box":
        grants = {match.text for match in explanation.matches if match.rule == "box"}
        for folder in sorted(grants.intersection((*_PRIVATE, os.path.expanduser("~")))):
            yield _OWN_FOLDER.format(folder)


def _working_directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise usage_error("the working directory does not exist any more; use --cwd") from None


def _asked(args: argparse.Namespace) -> Iterator[bool]:
    """Whether each kind of request is in the words."""
    yield bool(args.argv)
    for name in ("raw", "tool", "args", "read", "write", "connect", "env"):
        yield getattr(args, name) is not None


def _request(args: argparse.Namespace, cwd: str) -> AnyRequest:
    """The one request that was asked about."""
    from axonkernel.policy.request import Request

    asked: list[AnyRequest] = []
    if args.argv:
        asked.append(Request.process(args.argv, cwd=cwd))
    if args.raw is not None:
        asked.append(Request.shell(args.raw, cwd=cwd))
    if args.tool is not None:
        asked.append(Request.tool(args.tool, _tool_arguments(args.args)))
    asked += [Request.read(args.read)] if args.read is not None else []
    asked += [Request.write(args.write)] if args.write is not None else []
    asked += [Request.connect(args.connect)] if args.connect is not None else []
    asked += [Request.env(args.env)] if args.env is not None else []
    if len(asked) != 1:
        raise usage_error(
            f"explain takes one request, and there are {len(asked)}: -- ARGV..., --raw, --tool, "
            "--read, --write, --connect or --env"
        )
    if args.args is not None and args.tool is None:
        raise usage_error("--args goes with --tool")
    return asked[0]


def _tool_arguments(text: str | None) -> dict[str, Any]:
    import json

    try:
        data = json.loads(text) if text is not None else {}
    except (ValueError, RecursionError) as error:
        raise usage_error(f"--args is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise usage_error('--args is a JSON object, such as \'{"path": "a.txt"}\'')
    return data


def _is_boxed(args: argparse.Namespace, loaded: LoadedPolicy) -> bool:
    if args.box or args.unboxed:
        return bool(args.box)
    walls = any(policy.effective_isolation != "none" for _, policy in loaded.layers)
    return walls and sys.platform.startswith("linux")


def _explain(loaded: LoadedPolicy, request: AnyRequest, cwd: str, boxed: bool) -> Explanation:
    """The answer of a kernel like the one that would run, so that both always agree."""
    from axonkernel.box.implied import implied_grants
    from axonkernel.kernel import Kernel
    from axonkernel.paths import canonical_policy

    grants = None
    if boxed:
        grants = implied_grants(canonical_policy(loaded.effective), os.environ)
    # An empty posture: this command tells itself when there is no policy.
    with Kernel(
        loaded.policy,
        cwd=cwd,
        layers=loaded.layers[:-1],
        audit=_NoRecords(),
        boxed=grants,
        posture=(),
    ) as kernel:
        return kernel.explain(request)


class _NoRecords:
    """What was only asked about leaves no record."""

    def record(self, kind: str, /, **fields: Any) -> str:
        return ""


def _lines(loaded: LoadedPolicy, explanation: Explanation, notes: tuple[str, ...]) -> list[str]:
    decision = explanation.decision
    lines = [
        f"{decision.verdict} ({decision.code})",
        f"  rule: {decision.rule}  (layer {decision.layer})",
    ]
    lines += [f"  why: {decision.detail}"] if decision.detail else []
    lines += [f"  walls: {', '.join(decision.walls)}"] if decision.walls else []
    lines += [f"  runs: {command}" for command in explanation.runs]
    lines += [
        f"  also: {match.verdict} {match.rule} {match.text}  (layer {match.layer})"
        for match in explanation.matches
        if not explanation.wins(match) and (match.rule, match.layer) != ("box", "box")
    ]
    if len(explanation.layers) > 1:
        lines += [f"  layer {name}: {said.verdict}" for name, said in explanation.layers]
    lines += [f"  to allow it: {change}" for change in explanation.changes]
    lines += [f"  policy: {loaded.source or 'none: unrestricted access'}"]
    return [*lines, *(f"  note: {note}" for note in notes)]
