"""Profiles that a policy adds: read, checked, and obeyed by the kernel."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from axonkernel.errors import PolicyError
from axonkernel.kernel import Kernel
from axonkernel.knowledge import LARGEST_BYTES, added_profiles
from axonkernel.policy.decide import compile
from axonkernel.policy.model import Policy
from axonkernel.policy.parse import parse
from axonkernel.policy.request import Request

TOOL = """
names = ["mytool"]
options = "-x=,--exec= -o=,--out= -v"
operands = "read*"
[hazards]
--exec = "runs a program"
[roles]
-o = "write"
"""


def policy(*files: Path) -> Policy:
    return parse({"shell": {"allow": ["mytool"], "profiles": [str(file) for file in files]}})


def test_an_added_profile_is_obeyed(tmp_path: Path) -> None:
    """Its hazard is one in every spelling; the program without it is allowed."""
    file = tmp_path / "mytool.toml"
    file.write_text(TOOL)
    rules = compile(policy(file), profiles=added_profiles(policy(file)))
    for words in (["-x", "p"], ["-vxp"], ["--ex=p"], ["a", "--exec", "p"], ["-o", "f"]):
        decision = rules.decide(Request.process(["mytool", *words]))
        assert (decision.verdict, decision.code) == ("deny", "shell.hazard"), words
    assert rules.decide(Request.process(["mytool", "-v", "a"])).verdict == "allow"


def test_a_profile_may_be_json(tmp_path: Path) -> None:
    """The same shape."""
    file = tmp_path / "mytool.json"
    file.write_text(json.dumps({"names": ["mytool"], "hazard": "is one"}))
    rules = compile(policy(file), profiles=added_profiles(policy(file)))
    assert rules.decide(Request.process(["mytool"])).code == "shell.hazard"


def test_a_policy_is_not_compiled_without_the_profiles_it_names(tmp_path: Path) -> None:
    """A partly understood policy never runs."""
    with pytest.raises(KeyError):
        compile(policy(tmp_path / "mytool.toml"))


def test_the_kernel_reads_them(tmp_path: Path) -> None:
    """From the file the policy names, relative to where it counts from."""
    (tmp_path / "mytool.toml").write_text(TOOL)
    data = {"shell": {"allow": ["mytool"], "profiles": ["mytool.toml"]}}
    with Kernel(data, cwd=tmp_path, audit=None) as kernel:
        assert kernel.check(Request.process(["mytool", "--exec=p"])).code == "shell.hazard"
        assert kernel.check(Request.process(["mytool", "a"])).verdict == "allow"


def test_every_fault_of_every_file_is_told(tmp_path: Path) -> None:
    """A missing file, a broken one, one with an unknown key, one too large, a pipe."""
    broken, unknown, large, pipe = (tmp_path / name for name in ("b", "u", "l", "p"))
    broken.write_text("names = [")
    unknown.write_text('names = ["x"]\nhazzards = {}\n')
    large.write_bytes(b"#" * (LARGEST_BYTES + 1))
    os.mkfifo(pipe)
    with pytest.raises(PolicyError) as caught:
        added_profiles(policy(tmp_path / "none", broken, unknown, large, pipe))
    assert [fault.path for fault in caught.value.faults] == [
        f"$.shell.profiles[{index}]" for index in range(5)
    ]
    assert "hazzards" in str(caught.value)
