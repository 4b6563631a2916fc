"""What a program that was run returned."""

from __future__ import annotations

from attrs import field, frozen

from axonkernel.box.model import Refusal

__all__ = ["ProcessResult", "Usage"]


@frozen
class Usage:
    """What a run used, and how it came to its end.

    Arguments:
        reason: ``exit``; ``killed`` when the caller ended it; ``keeper`` when its box could
            not be held any longer.
        wall_s: seconds from its start to its end.
        cpu_s: seconds of processor time of all its processes; None where nobody counts.
        peak_memory_bytes, peak_pids: the most at once, of all its processes; None without a
            control group, which a box has that is limited in memory, CPU or processes.
    """

    reason: str = "exit"
    wall_s: float = 0.0
    cpu_s: float | None = None
    peak_memory_bytes: int | None = None
    peak_pids: int | None = None


@frozen
class ProcessResult:
    """How a program ended and what it wrote.

    Arguments:
        exit_code: the program's own; 128 + N when signal N ended it, 127 when there is no
            such program, 126 when it cannot be executed.
        stdout, stderr: what it wrote, each up to the ``output`` limit.
        stdout_truncated, stderr_truncated: whether more was written than is here.
        net_denied: what the box refused on the network, one for each destination and name,
            with ``address``, ``protocol``, ``port``, ``name``, ``times``, ``first_s``,
            ``last_s`` and ``program``.
        held_by: the declared fields that something below the mediator held while it ran.
        walls: what stood around it: ``mediator``, which every call passes, and ``box``,
            ``landlock`` or ``broker``.
        env_dropped: names of variables of this process that it did not get.
        kept: what the keeper of its box did and saw, as (what, path): ``mask.restored`` and
            ``mask.added`` for names that came up and were covered, ``name.made`` for names
            that are run or obeyed outside, ``watch.full`` for folders it did not watch.
        notes: lines for the caller, such as ``background process ended by kernel``.
        used: time and memory, and the reason of its end.
    """

    exit_code: int
    stdout: bytes = field(default=b"", repr=lambda data: f"<{len(data)} bytes>")
    stderr: bytes = field(default=b"", repr=lambda data: f"<{len(data)} bytes>")
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    net_denied: tuple[Refusal, ...] = ()
    held_by: tuple[str, ...] = ()
    walls: tuple[str, ...] = ()
    env_dropped: tuple[str, ...] = ()
    kept: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    used: Usage = field(factory=Usage)

    @property
    def ok(self) -> bool:
        """Whether the exit code is 0."""
        return self.exit_code == 0

    @property
    def text(self) -> str:
        """Standard output as UTF-8; bytes that are not are replaced."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def error_text(self) -> str:
        """Standard error as UTF-8; bytes that are not are replaced."""
        return self.stderr.decode("utf-8", "replace")
