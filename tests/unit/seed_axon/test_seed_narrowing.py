"""What the page "Kernel & Policy" says, sentence by sentence: per-invocation narrowing.

Each docstring starts with the words of the sentence it is about; the sentences about OS
confinement are in ``tests/box/test_seed_axon.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from axonkernel import Kernel, PolicyDenied, PolicyError
from unit.seed_axon.world import Make

#: The page's narrowing of an untrusted route.
ROUTE: dict[str, Any] = {"fs": {"read": [], "write": []}, "shell": False}
BASE: dict[str, Any] = {"fs": {"read": ["./src"], "write": ["./output"]},
                        "shell": {"allow": ["true"]}, "isolation": "none"}  # fmt: skip


async def attempts(kernel: Kernel, request: Any) -> list[str]:
    """What came of one call of each kind."""
    outcomes = []
    for call in (
        kernel.call("fs.read", path="src/a.txt"),
        kernel.call("fs.write", path="output/x", text="x"),
        kernel.process.run(["true"]),
        kernel.call("fs.read", path="secret.txt"),
        kernel.process.run(["cat", "secret.txt"]),
    ):
        try:
            await call
        except PolicyDenied as error:
            outcomes.append(error.code)
        else:
            outcomes.append("ok")
    return outcomes


OPEN = ["ok", "ok", "ok", "fs.read", "shell.program"]
SHUT = ["fs.read", "fs.write", "shell.program", "fs.read", "shell.program"]


@pytest.mark.box
def test_the_base_policy_applies_to_every_invocation(make: Make) -> None:
    """Seed: "The base policy applies to every invocation": the first, the next, a narrowed one."""
    kernel = make(BASE, handler=attempts)
    assert kernel.request_sync({}) == kernel.request_sync({}) == OPEN
    assert kernel.request_sync({}, policy={"env": {"allow": []}}) == OPEN


@pytest.mark.box
def test_a_call_can_narrow_it_further(make: Make, ws: Path) -> None:
    """Seed: "Individual calls can narrow it further": the page's own example closes files and
    shell."""
    kernel = make(BASE, handler=attempts)
    assert kernel.request_sync({"prompt": "p"}, policy=ROUTE) == SHUT
    assert not (ws / "output" / "x").exists()


@pytest.mark.box
def test_narrowing_can_only_restrict(make: Make) -> None:
    """Seed: "Narrowing can only restrict": asking for the world gives the base; strict refuses."""
    wide = {"fs": {"write": ["."]}, "shell": {"allow": True}, "tools": {"*": True}}
    kernel = make(BASE, handler=attempts)
    assert kernel.request_sync({}, policy=wide) == OPEN
    with pytest.raises(PolicyError):
        anyio.run(lambda: kernel.request({}, policy=wide, strict=True))


async def widening(kernel: Kernel, request: Any) -> list[str]:
    """A handler that asks for the base inside what it was given."""
    with kernel.narrow(BASE) as inner:
        return await attempts(inner, request)


@pytest.mark.box
def test_a_call_never_grants_beyond_the_base(make: Make) -> None:
    """Seed: "can never grant access beyond the base policy": nor inside a narrower call."""
    kernel = make(BASE, handler=widening)
    assert kernel.request_sync({}, policy=ROUTE) == SHUT
    assert kernel.request_sync({}) == OPEN


async def ending(kernel: Kernel, request: Any) -> list[str]:
    """A handler that ends in the way it is asked for, at its end or never."""
    if request == "error":
        raise ValueError("of the handler")
    if request == "timeout":
        await anyio.sleep(30)
    return await attempts(kernel, request)


@pytest.mark.box
@pytest.mark.parametrize("how", ["return", "error", "timeout"])
def test_it_clears_when_the_invocation_completes(make: Make, how: str) -> None:
    """Seed: "clears when the invocation completes": on return, error and timeout alike."""
    kernel = make(BASE, handler=ending)

    async def main() -> list[str]:
        with anyio.move_on_after(0.5 if how == "timeout" else 30) as scope:
            try:
                assert await kernel.request(how, policy=ROUTE) == SHUT
            except ValueError:
                assert how == "error"
            else:
                assert how == "return"
        assert scope.cancelled_caught == (how == "timeout")
        return await kernel.request("after")  # type: ignore[no-any-return]

    assert anyio.run(main) == OPEN
