"""Every exception axonkernel raises on purpose.

::

    AxonError
      PolicyError              every fault of a policy, each with its $.path and a hint
      PolicyDenied             a call the policy refused; it did not run
        EscalationDenied         a human said no, or nobody answered
        LimitExceeded            a declared limit or budget ended the call
      EscalationPending        a host framework must pause here and resume later
      BoxError                 the box could not be built or did not hold; nothing ran
        IsolationUnavailable     a declared field has no wall on this machine
      ToolError                an allowed tool failed by itself
      ProtocolError            a peer broke the AXP protocol
      AuditError               the audit log cannot be written; everything is denied

All of them pickle. Their texts are safe to show to the agent, except those of
``PolicyError`` and ``BoxError``, which are for the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from axonkernel.typed import Any, Literal

__all__ = [
    "AuditError",
    "AxonError",
    "BoxError",
    "EscalationDenied",
    "EscalationPending",
    "Fault",
    "IsolationUnavailable",
    "LimitExceeded",
    "PolicyDenied",
    "PolicyError",
    "ProtocolError",
    "ToolError",
]

EscalationOutcome = Literal["denied", "timeout", "headless"]
LimitKind = Literal["memory", "cpu", "wall", "pids", "disk", "fuel", "output", "budget"]


class Fault:
    """One thing wrong with a policy.

    Arguments:
        path: where, as a JSON path such as ``$.fs.read[0]``.
        message: what is wrong, without the path.
        value: the offending value, as written.
        hint: a correction the user can paste, or "".
    """

    __slots__ = ("hint", "message", "path", "value")

    def __init__(self, path: str, message: str, value: Any = None, hint: str = "") -> None:
        self.path = path
        self.message = message
        self.value = value
        self.hint = hint

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fault) and self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        return hash((self.path, self.message, self.hint))

    def __repr__(self) -> str:
        return f"Fault({self.path!r}, {self.message!r}, value={self.value!r}, hint={self.hint!r})"

    def __str__(self) -> str:
        shown = "" if self.value is None else f" (got {self.value!r})"
        hint = f"\n    fix: {self.hint}" if self.hint else ""
        return f"{self.path}: {self.message}{shown}{hint}"

    def as_dict(self) -> dict[str, Any]:
        """The fault as JSON data, for ``--json``."""
        return {
            "path": self.path,
            "message": self.message,
            "value": self.value,
            "hint": self.hint,
        }


class AxonError(Exception):
    """Root of every error axonkernel raises on purpose.

    Subclasses name their fields in ``_fields``, in the order their constructor takes
    them, so that all of them pickle the same way.

    Attributes:
        exit_code: what a command ends with that this error ended; from sysexits(3), but for
            125, which is what env and docker mean by "not started".
    """

    exit_code = 1
    _fields: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Callable[..., AxonError], tuple[Any, ...]]:
        if not self._fields:
            return type(self), self.args
        return type(self), tuple(getattr(self, name) for name in self._fields)


class PolicyError(AxonError):
    """A policy that is not understood in full. A policy with faults never runs.

    Arguments:
        faults: every fault found, not only the first.
        source: the file or place the policy came from, for the message.
    """

    exit_code = 78
    _fields = ("faults", "source")

    def __init__(self, faults: Iterable[Fault], source: str = "policy") -> None:
        self.faults = tuple(faults)
        self.source = source
        count = len(self.faults)
        head = f"{source}: {count} fault{'s' if count != 1 else ''}"
        super().__init__("\n".join([head, *(f"  {fault}" for fault in self.faults)]))


class PolicyDenied(AxonError):
    """The policy refused a call. The call did not run.

    The text tells an agent what it asked and the code, never a rule or a pattern. The
    operator finds the rule in the audit log, under ``decision_id``.

    Arguments:
        code: one of ``axonkernel.policy.request.CODES``, or ``limits.KIND`` of a limit.
        action: what was asked, in the asker's own words.
        retryable: whether asking in another way can help.
        decision_id: the record of the decision in the audit log.
    """

    exit_code = 77
    _fields: tuple[str, ...] = ("code", "action", "retryable", "decision_id")

    def __init__(
        self, code: str, action: str, retryable: bool = False, decision_id: str = ""
    ) -> None:
        self.code = code
        self.action = action
        self.retryable = retryable
        self.decision_id = decision_id
        super().__init__(self._text())

    def _text(self) -> str:
        advice = (
            "Asking for something narrower may be allowed."
            if self.retryable
            else "Trying the same thing another way will not help."
        )
        return f"denied ({self.code}): {self.action}. The call did not run. {advice}"

    def as_dict(self) -> dict[str, Any]:
        """The denial as JSON data an agent may see."""
        return {
            "error": type(self).__name__,
            "code": self.code,
            "action": self.action,
            "retryable": self.retryable,
            "decision_id": self.decision_id,
            "ran": False,
        }


class EscalationDenied(PolicyDenied):
    """A call that needed a human, and did not get a yes.

    Arguments:
        outcome: ``denied`` (a person said no), ``timeout`` (nobody answered in time) or
            ``headless`` (nobody could be asked).
    """

    _fields = ("code", "action", "retryable", "decision_id", "outcome")

    def __init__(
        self,
        code: str,
        action: str,
        retryable: bool = False,
        decision_id: str = "",
        outcome: EscalationOutcome = "denied",
    ) -> None:
        self.outcome = outcome
        super().__init__(code, action, retryable, decision_id)

    def _text(self) -> str:
        reason = {
            "denied": "a person was asked and said no",
            "timeout": "a person was asked and did not answer in time",
            "headless": "it needs a person's approval and nobody can be asked here",
        }[self.outcome]
        return f"denied ({self.code}): {self.action}: {reason}. The call did not run."

    def as_dict(self) -> dict[str, Any]:
        """The denial as JSON data, with why there was no yes under ``outcome``."""
        return {**super().as_dict(), "outcome": self.outcome}


class LimitExceeded(PolicyDenied):
    """A declared limit ended the call; unlike other denials it may have run in part.

    Arguments:
        kind: which limit.
        limit: the limit, in bytes, seconds, processes or millicores as its kind has it.
        peak: the most that was seen, in the same unit, or None.
    """

    _fields = ("kind", "action", "limit", "peak", "decision_id")

    def __init__(
        self,
        kind: LimitKind,
        action: str,
        limit: float | None = None,
        peak: float | None = None,
        decision_id: str = "",
    ) -> None:
        self.kind: LimitKind = kind
        self.limit = limit
        self.peak = peak
        super().__init__(f"limits.{kind}", action, False, decision_id)

    def _text(self) -> str:
        limit = "" if self.limit is None else f" of {self.limit:g}"
        return f"ended ({self.code}): {self.action}: the {self.kind} limit{limit} was reached."

    def as_dict(self) -> dict[str, Any]:
        """The denial as JSON data, with the limit, and ``ran``, which it may have in part."""
        return {
            **super().as_dict(),
            "kind": self.kind,
            "limit": self.limit,
            "peak": self.peak,
            "ran": True,
        }


class EscalationPending(AxonError):
    """Raised only for host frameworks that pause a run and resume it after an answer.

    Arguments:
        escalation_id: what the answer must name.
        action: what was asked.
    """

    _fields = ("escalation_id", "action")

    def __init__(self, escalation_id: str, action: str) -> None:
        self.escalation_id = escalation_id
        self.action = action
        super().__init__(f"waiting for approval ({escalation_id}): {action}")


class BoxError(AxonError):
    """The box could not be built, or did not hold at the check. Nothing ran.

    Arguments:
        stage: the step of the launch that failed, such as ``mounts`` or ``table``.
        message: what happened and what to do about it.
    """

    exit_code = 125
    _fields: tuple[str, ...] = ("stage", "message")

    def __init__(self, stage: str, message: str) -> None:
        self.stage = stage
        self.message = message
        super().__init__(f"box ({stage}): {message}")


class IsolationUnavailable(BoxError):
    """A declared field that nothing on this machine can enforce.

    Arguments:
        field: the declared field, such as ``limits``.
        missing: the missing piece, such as ``bwrap``.
        fix: the command or setting that brings it.
    """

    _fields = ("field", "missing", "fix")

    def __init__(self, field: str, missing: str, fix: str) -> None:
        self.field = field
        self.missing = missing
        self.fix = fix
        super().__init__(
            "probe",
            f"policy declares {field}, which needs {missing}; fix: {fix} "
            f'(or declare isolation = "best-effort" to run without that wall)',
        )


class ToolError(AxonError):
    """An allowed tool ran and failed by itself.

    Arguments:
        tool: its registered name.
        message: what it said.
    """

    _fields = ("tool", "message")

    def __init__(self, tool: str, message: str) -> None:
        self.tool = tool
        self.message = message
        super().__init__(f"{tool}: {message}")


class ProtocolError(AxonError):
    """A peer broke the protocol.

    Arguments:
        code: the protocol's own error number.
        message: what was wrong with the message.
    """

    _fields = ("code", "message")

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(f"{message} ({code})")


class AuditError(AxonError):
    """The audit log cannot be written. Every call is denied until it can."""

    exit_code = 74
