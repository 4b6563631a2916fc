"""Why a request gets its answer: all of it for the operator, a little for the agent."""

from __future__ import annotations

import json
from typing import Any

from attrs import evolve, frozen

from axonkernel.errors import PolicyDenied
from axonkernel.policy.change import Change
from axonkernel.policy.commands import SimpleCommand, commands_of
from axonkernel.policy.decide import Ruleset, Stack
from axonkernel.policy.hints import changes
from axonkernel.policy.request import (
    RETRYABLE,
    AnyRequest,
    Decision,
    Match,
    ShellRequest,
    strictest,
)

__all__ = ["Explanation", "agent_text", "explain"]


@frozen
class Explanation:
    """The answer to one request with its reasons. For the operator only.

    Arguments:
        decision: the same that ``decide`` gives.
        matches: every rule that spoke about the request, in every layer.
        layers: what each layer says by itself; the strictest is the decision.
        changes: edits of the policies that would allow it, tried out; () when it is allowed
            or no policy can allow it.
        runs: for a shell line, every command that was judged: its words, and the files that
            its redirections open.
    """

    decision: Decision
    matches: tuple[Match, ...]
    layers: tuple[tuple[str, Decision], ...] = ()
    changes: tuple[Change, ...] = ()
    runs: tuple[str, ...] = ()

    @property
    def hint(self) -> str:
        """The changes as lines to paste, beside the entries that are there; or ""."""
        return "\n".join(map(str, self.changes))

    def wins(self, match: Match) -> bool:
        """Whether a rule is the one that decided."""
        return match.rule == self.decision.rule and match.layer == self.decision.layer

    def within(self, walls: tuple[str, ...]) -> Explanation:
        """This explanation with what stands around the call."""
        return evolve(self, decision=evolve(self.decision, walls=walls))

    def denied(self, decision: Decision) -> Explanation:
        """This explanation where ``decision``, a denial, holds as well and no policy lifts it."""
        return evolve(self, decision=strictest((self.decision, decision)), changes=())

    def as_dict(self) -> dict[str, Any]:
        """The explanation as JSON data."""
        decision = self.decision
        return {
            "verdict": decision.verdict,
            "code": decision.code,
            "rule": decision.rule,
            "layer": decision.layer,
            "subject": decision.subject,
            "detail": decision.detail,
            "walls": list(decision.walls),
            "hint": self.hint,
            "changes": [change.as_dict() for change in self.changes],
            "layers": [
                {"layer": name, "verdict": said.verdict, "code": said.code, "rule": said.rule}
                for name, said in self.layers
            ],
            "runs": list(self.runs),
            "matches": [
                {
                    "verdict": match.verdict,
                    "rule": match.rule,
                    "text": match.text,
                    "layer": match.layer,
                    "wins": self.wins(match),
                }
                for match in self.matches
            ],
        }


def explain(judge: Ruleset | Stack, request: AnyRequest) -> Explanation:
    """The decision about a request, the rules behind it, and what would change it."""
    rulesets = judge.rulesets if isinstance(judge, Stack) else (judge,)
    return Explanation(
        judge.decide(request),
        judge.matches(request),
        tuple((ruleset.layer, ruleset.decide(request)) for ruleset in rulesets),
        _changes(rulesets, request),
        _runs(request) if isinstance(request, ShellRequest) else (),
    )


def _runs(request: ShellRequest) -> tuple[str, ...]:
    """The commands of a line; none for a line that cannot be read."""
    try:
        return tuple(map(_listed, commands_of(request)))
    except ValueError:
        return ()


def _listed(command: SimpleCommand) -> str:
    """One command on one line, each word as JSON where it is not plain."""
    words = [command.program, *command.words] if command.program else []
    shown = [word if word.isprintable() and " " not in word else json.dumps(word) for word in words]
    shown += [f"{name}=..." for name in command.assigns]
    shown += [f"{'>' if each.write else '<'} {each.path}" for each in command.redirects]
    shown += [f"(what {command.via} runs cannot be seen)"] if not shown else []
    return " ".join(shown)


def _changes(rulesets: tuple[Ruleset, ...], request: AnyRequest) -> tuple[Change, ...]:
    """What every layer that does not allow it needs; nothing when one of them never will."""
    made: tuple[Change, ...] = ()
    for ruleset in rulesets:
        needed = changes(ruleset, request)
        if needed is None:
            return ()
        made += needed
    return made


def agent_text(decision: Decision, request: AnyRequest) -> str:
    """What the agent may know: what it asked, the code, whether trying otherwise can help."""
    if decision.verdict == "allow":
        return f"allowed: {request.action}"
    if decision.verdict == "escalate":
        return f"needs a person's approval: {request.action}"
    return str(PolicyDenied(decision.code, request.action, decision.code in RETRYABLE))
