"""Calls that come too late, and times that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from axonkernel import AxonError, Kernel, ToolError


def test_a_closed_kernel_runs_nothing(tmp_path: Path) -> None:
    """Neither a tool nor a program, however it is called; before the end both run."""
    mark = tmp_path / "mark"
    with Kernel({"isolation": "none"}, cwd=tmp_path, audit=str(tmp_path / "log")) as kernel:
        kernel.call_sync("fs.write", path="before", text="x")
    for call in (
        lambda: kernel.call_sync("fs.write", path="mark", text="x"),
        lambda: kernel.process.run_sync(["touch", "mark"]),
    ):
        with pytest.raises(AxonError, match="the kernel is closed"):
            call()
    assert (tmp_path / "before").exists() and not mark.exists()


@pytest.mark.parametrize("timeout", ["x", -1, float("nan"), True])
def test_a_timeout_is_a_number_of_seconds(tmp_path: Path, timeout: object) -> None:
    """Anything else is told before the program starts."""
    with Kernel({"isolation": "none"}, cwd=tmp_path, audit=str(tmp_path / "log")) as kernel:
        with pytest.raises(ToolError, match="timeout is a number of seconds"):
            kernel.process.run_sync(["touch", "mark"], timeout=timeout)  # type: ignore[arg-type]
        assert not (tmp_path / "mark").exists()
        assert kernel.process.run_sync(["touch", "mark"], timeout=60).ok
