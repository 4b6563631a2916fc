"""The committed shim is what its source says, and runs behind the filter of a box."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from axonkernel.box import seccomp, shim
from axonkernel.broker.listener import Incoming
from axonkernel.broker.wire import Ended, Refused
from axonkernel.errors import IsolationUnavailable, PolicyDenied
from box.shimmed import Shimmed, runs
from lab.processes import REPOSITORY

pytestmark = pytest.mark.requires("box")

#: The tools that the committed bytes come from, as they name themselves; see README.md there.
COMPILER = "gcc (Debian 12.2.0-14+deb12u1) 12.2.0"
LINKER = "GNU ld (GNU Binutils for Debian) 2.40"
#: "no" is denied; other words are what runs.
CALLS: list[list[str | bytes]] = [
    ["true"],
    ["sh", "-c", "cat; echo err >&2; exit 7"],
    ["sh", "-c", "kill -9 $$"],
    ["printf", "%s", bytes(range(1, 256))],
    ["no", "such", "luck"],
    ["w" * 100_000] * 20,
    [],
]


def answer(incoming: Incoming) -> Refused | Ended:
    """Yes to everything but one word."""
    if incoming.argv[1:2] == ("no",):
        raise PolicyDenied("shell.args", "no")
    return runs(incoming, incoming.argv[1:] or ["pwd"])


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A shim that was built just now."""
    subprocess.run([REPOSITORY / "scripts" / "build-shim", tmp_path], check=True, timeout=60)
    (found,) = tmp_path.glob("shim.*")
    return found


@pytest.fixture
def shimmed(tmp_path: Path) -> Iterator[Shimmed]:
    """The committed shim."""
    with Shimmed(tmp_path, answer) as made:
        yield made


@pytest.mark.requires("programs")
def test_the_committed_shim_is_its_source(built: Path) -> None:
    """Built again it behaves alike, and is the same to the byte where the compiler is the same."""
    seen = []
    for number, program in enumerate((shim.path(), str(built))):
        root = built.parent / f"{number}"
        root.mkdir()
        with Shimmed(root, answer, program=program) as shimmed:
            runs = [shimmed.run(["prog", *words], input=b"in") for words in CALLS]
        parts = [(run.returncode, run.stdout, run.stderr) for run in runs]
        seen.append([(*part[:2], part[2].replace(bytes(root), b"")) for part in parts])
    assert [code for code, *_ in seen[0]] == [0, 7, 137, 0, 126, 126, 0]
    assert [part[:1] + part[2:] for part in seen[0]] == [part[:1] + part[2:] for part in seen[1]]
    if (said("gcc"), said("ld")) == (COMPILER, LINKER):
        for file in built.parent.glob("*.*"):  # what is git's shell in its own box as well
            assert file.read_bytes() == Path(shim.path()).with_name(file.name).read_bytes()


def said(program: str) -> str:
    """How a tool names itself."""
    run = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60)
    return run.stdout.splitlines()[0]


def test_the_shim_is_small_and_needs_nothing() -> None:
    """A static program of a few kilobytes, no loader, no library, no executable stack."""
    for machine in ("x86_64", "aarch64"):
        file = Path(shim.path()).with_name(f"shim.{machine}")
        text = file.read_bytes()
        assert text.startswith(b"\x7fELF") and len(text) < 8192 and os.access(file, os.X_OK)
        assert b"ld-linux" not in text and b".so" not in text


def test_a_machine_without_a_shim(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be held is refused, with what would hold it."""
    other = os.uname_result(("Linux", "host", "6.1", "1", "riscv64"))
    monkeypatch.setattr(os, "uname", lambda: other)
    with pytest.raises(IsolationUnavailable, match="riscv64"):
        shim.path()


@pytest.mark.parametrize("unix", ["box", "none"])
def test_behind_the_filter_of_a_box(shimmed: Shimmed, unix: str) -> None:
    """Where a box leaves no unix sockets (net.unix = "none") the shim says so and runs nothing;
    behind the same filter with them it runs."""
    code = seccomp.filter_bytes(nested_userns=False, unix=unix)
    marker = shimmed.work / "marker"
    read, write = os.pipe()
    os.write(write, code)
    os.close(write)
    prog = [str(shimmed.bin / "prog"), "touch", str(marker)]
    run = subprocess.run(
        shimmed.wrapped(prog, "--seccomp", str(read)),
        pass_fds=(read,),
        capture_output=True,
        cwd=shimmed.work,
        timeout=60,
    )
    os.close(read)
    assert marker.exists() == (unix == "box")
    if unix == "box":
        assert (run.returncode, run.stderr) == (0, b"")
    else:
        assert run.returncode == 126
        assert b"no unix socket may be made here (net.unix" in run.stderr
        assert run.stderr.endswith(b"The call did not run.\n")


def test_no_words_at_all(shimmed: Shimmed) -> None:
    """A call without even its name is refused, or gets an empty one from the kernel."""
    code = (
        "import ctypes; null = ctypes.c_char_p(None); "
        f"ctypes.CDLL(None).execve(b'{shimmed.bin}/prog', ctypes.byref(null), ctypes.byref(null))"
    )
    run = shimmed.run([sys.executable, "-c", code])
    assert (run.returncode, run.stdout) in ((0, b"%s\n" % bytes(shimmed.work)), (126, b""))
