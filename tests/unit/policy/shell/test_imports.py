"""What the analysis of lines costs those who have none."""

from __future__ import annotations

import subprocess
import sys

import pytest

_CODE = """
import sys
from axonkernel.policy.decide import compile
from axonkernel.policy.model import Policy, ShellPolicy
from axonkernel.policy.request import Request
rules = compile(Policy(shell=ShellPolicy(allow=("git",), raw=True)))
assert rules.decide({request}).verdict == "allow"
print("tree_sitter" in sys.modules)
"""


@pytest.mark.parametrize(
    ("request_text", "loaded"),
    [
        ('Request.process(["git", "log"])', "False"),
        ('Request.shell("git log")', "False"),
        ('Request.shell("git log | git diff")', "True"),
    ],
)
def test_the_parser_loads_with_the_first_line_that_needs_it(request_text: str, loaded: str) -> None:
    """Words and plain lines never load it."""
    code = _CODE.format(request=request_text)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == loaded, result.stderr
