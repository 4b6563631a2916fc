"""Why a request gets its answer: all of it for the operator, a little for the agent."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from axonkernel.errors import PolicyDenied
from axonkernel.policy.change import Change
from axonkernel.policy.decide import Ruleset, Stack
from axonkernel.policy.hints import changes
from axonkernel.policy.request import RETRYABLE, AnyRequest, Decision, Match

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
    """

    decision: Decision
    matches: tuple[Match, ...]
    layers: tuple[tuple[str, Decision], ...] = ()
    changes: tuple[Change, ...] = ()

    @property
    def hint(self) -> str:
        """The changes as lines to paste, beside the entries that are there; or ""."""
        return "\n".join(map(str, self.changes))

    def wins(self, match: Match) -> bool:
        """Whether a rule is the one that decided."""
        return match.rule == self.decision.rule and match.layer == self.decision.layer

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
            "hint": self.hint,
            "changes": [change.as_dict() for change in self.changes],
            "layers": [
                {"layer": name, "verdict": said.verdict, "code": said.code, "rule": said.rule}
                for name, said in self.layers
            ],
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
    )


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
