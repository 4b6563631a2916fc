"""The tools map: dotted names, levels and patterns."""

from __future__ import annotations

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
