"""Starting programs that the policy does not name."""

from __future__ import annotations

import ctypes
import os
import subprocess

from axonkernel.escapes.attempt import Group, Refused
from axonkernel.escapes.calls import call
from axonkernel.escapes.scene import Scene
from axonkernel.escapes.tools import write

__all__ = ["GROUP", "PROGRAM"]

GROUP = Group("programs", "program wall", "shell")
#: Every Linux has it, and no interpreter needs it.
PROGRAM = "chroot"
_ASK = f"program {PROGRAM}"
_LOADERS = ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1")


def _said(argv: list[str]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=5)
    if PROGRAM not in done.stdout:
        raise Refused(f"exit {done.returncode}")
    return done.stdout


@GROUP("by its name", "claim", ask=_ASK)
def start_by_name(scene: Scene) -> str:
    """A program that was not granted is there."""
    return _said([PROGRAM, "--version"])


@GROUP("by its path, in every folder of programs", "claim", ask=_ASK)
def start_by_path(scene: Scene) -> str:
    """A program that was not granted is there."""
    last: OSError | Refused = Refused("none")
    for folder in ("/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/bin"):
        try:
            return _said([f"{folder}/{PROGRAM}", "--version"])
        except (OSError, Refused) as error:
            last = error
    raise last


@GROUP("below /proc/1/root", "claim", ask=_ASK)
def start_below_root(scene: Scene) -> str:
    """Another name of the root has the host's programs."""
    return _said([f"/proc/{scene.first}/root/usr/sbin/{PROGRAM}", "--version"])


@GROUP("by the loader", "claim", ask=_ASK)
def start_by_loader(scene: Scene) -> str:
    """The loader starts a file that is there to be read."""
    loader = next(filter(os.path.exists, _LOADERS), _LOADERS[0])
    return _said([loader, f"/usr/sbin/{PROGRAM}", "--version"])


@GROUP("copied into memory, by memfd and execveat", "claim", ask=_ASK)
def start_from_memory(scene: Scene) -> str:
    """A program is started that has no file."""
    memory = call("memfd_create", "attempt", 0)
    with open(f"/usr/sbin/{PROGRAM}", "rb") as file:
        os.write(memory, file.read())
    done = subprocess.run(
        [f"/proc/self/fd/{memory}", "--version"],
        capture_output=True, text=True, timeout=5, pass_fds=[memory],
    )  # fmt: skip
    if "coreutils" not in done.stdout:
        raise Refused(f"exit {done.returncode}")
    return done.stdout


@GROUP("a script with a shell that is not granted", "claim", ask="program sh")
def start_script(scene: Scene) -> str:
    """A shell runs that the policy does not name."""
    script = write(f"{scene.project}/script", f"#!/bin/sh\necho {PROGRAM}\n")
    os.chmod(script, 0o755)
    return _said([script])


@GROUP("by the C library's system()", "claim", ask="program sh")
def start_by_system(scene: Scene) -> str:
    """A shell runs that the policy does not name."""
    if ctypes.CDLL(None).system(b"true"):
        raise Refused("no shell")
    return PROGRAM
