"""Find and run the system programs the box is built with.

Standard library only; subprocess is imported when a program is really run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from axonkernel.typed import NamedTuple

__all__ = ["Outcome", "find", "install", "run"]

#: Looked at before the rest of PATH. A copy of bwrap elsewhere lacks the AppArmor profile that
#: lets the distribution's one make user namespaces, and a program in a project's
#: folder must not stand in for the firewall.
_SYSTEM = ("/usr/bin", "/usr/sbin", "/bin", "/sbin")


class Outcome(NamedTuple):
    """How a program ended: its exit code (negative: a signal) and what it wrote."""

    code: int
    out: str
    err: str


def find(name: str) -> str | None:
    """The absolute path of a program on PATH, system folders first; None when absent."""
    for folder in sorted(_folders(), key=lambda folder: folder not in _SYSTEM):
        path = f"{folder}/{name}"
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def _folders() -> Iterator[str]:
    for folder in os.environ.get("PATH", os.defpath).split(":"):
        if folder.startswith("/"):
            folder = folder.rstrip("/")
            yield folder
            # nft lies in sbin, which an ordinary user's PATH lacks on Debian.
            if folder.endswith("/bin"):
                yield folder.removesuffix("bin") + "sbin"


def run(
    argv: Sequence[str],
    *,
    text: str = "",
    timeout_s: float = 10.0,
    fds: Sequence[int] = (),
    env: Mapping[str, str] | None = None,
) -> Outcome:
    """Run a program to its end, with ``text`` as its input and ``fds`` passed on, and this
    process's environment unless another is given.

    Raises TimeoutError after ``timeout_s`` seconds (the program is then killed) and OSError
    when it cannot be started.
    """
    import subprocess

    try:
        done = subprocess.run(
            argv,
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            pass_fds=fds,
            env={**(os.environ if env is None else env), "LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"{argv[0]} did not answer in {timeout_s:g} s") from None
    return Outcome(done.returncode, done.stdout, done.stderr)


def install(package: str) -> str:
    """The command that installs a system package (named as Debian names it) here."""
    if find("apt-get") is None:
        return f"install {package} with the system's package manager"
    return f"{'' if os.geteuid() == 0 else 'sudo '}apt install {package}"
