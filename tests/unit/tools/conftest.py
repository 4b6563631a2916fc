"""A stand-in for the kernel: what the built-in tools need of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from axonkernel.policy.decide import Ruleset, compile
from axonkernel.policy.model import FsPolicy, Limits, Policy
from axonkernel.policy.request import AnyRequest, Decision


class Judge:
    """Decides by one ruleset."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._ruleset: Ruleset = compile(policy)

    def decide(self, request: AnyRequest) -> Decision:
        return self._ruleset.decide(request)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder


@pytest.fixture
def judge(workspace: Path) -> Judge:
    fs = FsPolicy(
        read=(str(workspace),),
        write=(str(workspace / "out"),),
        deny=(f"{workspace}/**/secret.txt", f"{workspace}/private"),
    )
    return Judge(Policy(fs=fs, limits=Limits(output_bytes=10_000)))
