"""Why a request gets its answer: all of it for the operator, a little for the agent."""

from __future__ import annotations

import json
from typing import Any

from attrs import frozen

from axonkernel.errors import PolicyDenied
from axonkernel.policy.decide import Judge
from axonkernel.policy.request import (
    AnyRequest,
    ConnectRequest,
    Decision,
    Match,
    ProcessRequest,
)

__all__ = ["Explanation", "agent_text", "explain", "retryable"]

#: Denials where asking for something else of the same kind can be allowed.
_RETRYABLE = frozenset(
    {"fs.read", "fs.write", "net.host", "shell.program", "shell.args", "shell.raw", "env.name"}
    | {"tool", "request.malformed", "request.too_complex"}
)


@frozen
class Explanation:
    """The answer to one request with its reasons. For the operator only.

    Arguments:
        decision: the same that ``decide`` gives.
        matches: every rule that spoke about the request.
        hint: a change of the policy that would allow it, to paste; "" when it is allowed or
            no policy can allow it.
    """

    decision: Decision
    matches: tuple[Match, ...]
    hint: str

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
            "matches": [
                {"verdict": match.verdict, "rule": match.rule, "text": match.text}
                for match in self.matches
            ],
        }


def explain(judge: Judge, request: AnyRequest) -> Explanation:
    """The decision about a request, the rules behind it, and what would change it."""
    decision = judge.decide(request)
    return Explanation(decision, judge.matches(request), _hint(decision, request))


def agent_text(decision: Decision, request: AnyRequest) -> str:
    """What the agent may know: what it asked, the code, whether trying otherwise can help."""
    if decision.verdict == "allow":
        return f"allowed: {request.action}"
    if decision.verdict == "escalate":
        return f"needs a person's approval: {request.action}"
    return str(PolicyDenied(decision.code, request.action, retryable(decision.code)))


def retryable(code: str) -> bool:
    """Whether a denial with this code may be followed by something that is allowed."""
    return code in _RETRYABLE


def _hint(decision: Decision, request: AnyRequest) -> str:
    if decision.verdict == "allow" or decision.code in ("internal", "request.too_complex"):
        return ""
    if decision.rule == "builtin:host":
        return _addition(decision, request)  # a broad grant does not bring it, its own does
    if decision.layer == "builtin" or decision.code == "request.malformed":
        return _BUILTIN.get(decision.code, "").format(quoted=json.dumps(decision.subject))
    if decision.verdict == "escalate":
        return f"answer the question, or remove {decision.rule}"
    if _is_rule(decision.rule):
        return f"remove {decision.rule}"
    return _addition(decision, request)


#: What lifts a built-in denial, where something does.
_BUILTIN = {
    "fs.read": "fs.unsafe = [{quoted}]",
    "fs.write": "fs.unsafe = [{quoted}]",
    "shell.hazard": "env.unsafe_allow = [{quoted}]",
}


def _is_rule(path: str) -> bool:
    """Whether a path names one line of a list that denies or protects."""
    return path.endswith("]") and any(f".{name}[" in path for name in ("deny", "protect", "read"))


def _addition(decision: Decision, request: AnyRequest) -> str:
    """The line to add where nothing covers the request."""
    quoted = json.dumps(decision.subject)
    if decision.code in ("net.host", "net.private"):
        return f"net.allow = [{json.dumps(_destination(decision, request))}]"
    if decision.code == "shell.args":
        return f"{decision.rule.removeprefix('$.')} = [{json.dumps(_words(decision, request))}]"
    if decision.code == "tool":
        return f"tools = {{ {quoted} = true }}"
    lines = {
        "fs.read": f"fs.read = [{quoted}]",
        "fs.write": f"fs.write = [{quoted}]",
        "shell.program": f"shell.allow = [{quoted}]",
        "shell.raw": "shell.raw = true",
        "shell.spawn": "shell.spawn = true",
        "env.name": f"env.allow = [{quoted}]",
    }
    return lines.get(decision.code, "")


def _destination(decision: Decision, request: AnyRequest) -> str:
    """The requested destination as a policy spells it."""
    host, _, port = decision.subject.rpartition(":")
    host = f"[{host}]" if ":" in host else host
    udp = isinstance(request, ConnectRequest) and request.protocol == "udp"
    return f"{host}:{port}{'/udp' if udp else ''}"


def _words(decision: Decision, request: AnyRequest) -> str:
    """The words of a command as a pattern that allows just them."""
    if not isinstance(request, ProcessRequest) or request.argv[0] != decision.subject:
        return "*"
    return " ".join(_quoted(word) for word in request.argv[1:])


def _quoted(word: str) -> str:
    plain = word and all(c.isalnum() or c in "-_./=:@%+," for c in word)
    return word if plain else "'" + word.replace("'", "'\\''") + "'"
