"""What crosses the wall of an agent's box, as JSON data. The far side is not trusted.

From the box: ``audit`` (a record), ``ask`` (a question), ``refused`` (what was refused since a
moment?), ``result`` or ``error`` (of a request). To the box: ``hello``, ``request``, ``ack``,
``answer``, ``end``.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from attrs import asdict

from axonkernel.escalation.question import Answer, Question
from axonkernel.policy.request import (
    AnyRequest,
    Argv,
    ConnectRequest,
    Decision,
    EnvRequest,
    PathRequest,
    ProcessRequest,
    ShellRequest,
    ToolRequest,
)

if TYPE_CHECKING:
    import cattrs

__all__ = ["answer_data", "answer_from", "question_data", "question_from"]

_KINDS: dict[str, type[AnyRequest]] = {
    kind.__name__: kind
    for kind in (
        ToolRequest,
        ProcessRequest,
        ShellRequest,
        PathRequest,
        ConnectRequest,
        EnvRequest,
    )
}


@cache
def _converter() -> cattrs.Converter:
    import cattrs  # few runs have a question to read

    converter = cattrs.Converter(forbid_extra_keys=True)
    converter.register_structure_hook(str | Argv, _word_or_words)
    converter.register_structure_hook(str, _text)
    return converter


def _text(value: Any, _: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a string")
    return value


def _word_or_words(value: Any, _: Any) -> str | Argv:
    return value if isinstance(value, str) else tuple(_text(word, str) for word in value)


def question_data(question: Question) -> dict[str, Any]:
    """A question as JSON data."""
    return {
        "kind": type(question.request).__name__,
        "request": asdict(question.request),
        "decision": asdict(question.decision),
        "decision_id": question.decision_id,
        "env": dict(question.env),
    }


def question_from(data: dict[str, Any], identity: str, agent: str) -> Question:
    """A question from what a box sent; its id and its agent are the supervisor's own.

    Raises ValueError for anything that is not one.
    """
    from cattrs import BaseValidationError

    try:
        structure = _converter().structure
        return Question(
            id=identity,
            request=structure(data["request"], _KINDS[data["kind"]]),
            decision=structure(data["decision"], Decision),
            decision_id=structure(data["decision_id"], str),
            agent=agent,
            env=structure(data["env"], dict[str, str]),
        )
    except (KeyError, TypeError, BaseValidationError) as error:
        raise ValueError(f"not a question: {error}") from error


def answer_data(answer: Answer) -> dict[str, Any]:
    """An answer as JSON data."""
    return asdict(answer)


def answer_from(data: dict[str, Any]) -> Answer:
    """An answer from the supervisor."""
    return _converter().structure(data, Answer)
