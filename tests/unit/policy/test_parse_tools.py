"""The tools map: dotted names, levels and patterns."""

from __future__ import annotations

import pytest

from axonkernel.errors import PolicyError
from axonkernel.policy.model import SubjectRules, ToolRules
from axonkernel.policy.parse import parse as read


def test_dotted_and_nested_tool_names_are_the_same() -> None:
    """Both spellings become levels, and may be mixed where they do not conflict."""
    dotted = read({"tools": {"github.pr.open": True, "github.*": "escalate", "github.pr.x": False}})
    nested = read({"tools": {"github": {"*": "escalate", "pr": {"open": "allow", "x": "deny"}}}})
    mixed = read(
        {"tools": {"github.pr": {"open": True}, "github": {"*": "escalate", "pr.x": False}}}
    )
    assert dotted == nested == mixed


def test_patterns_on_a_subject() -> None:
    """A table of lists is patterns; a tool called deny is written with a dot."""
    policy = read({"tools": {"http.fetch": {"allow": ["https://a.test/*"]}, "review.deny": True}})
    assert policy.tools == ToolRules(
        (
            ("http", ToolRules((("fetch", SubjectRules(allow=("https://a.test/*",))),))),
            ("review", ToolRules((("deny", "allow"),))),
        )
    )


@pytest.mark.parametrize(
    ("written", "fix"), [("yes", '"allow"'), ("Off", '"deny"'), ("escalat", '"escalate"')]
)
def test_a_word_of_another_language_is_answered_with_what_it_means(written: str, fix: str) -> None:
    """The fix of a fault says what was meant, not another verdict."""
    with pytest.raises(PolicyError) as caught:
        read({"tools": {"fs.read": written}})
    assert [fault.hint for fault in caught.value.faults] == [fix]
