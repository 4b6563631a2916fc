"""What the agent asks for politely: through the kernel, as a tool or a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from axonkernel.demo.scene import Scene

if TYPE_CHECKING:
    from axonkernel.kernel import Kernel

__all__ = ["CRON_JOB", "REPORT"]

CRON_JOB = "/etc/cron.d/axonkernel-demo"
REPORT = "# Report\n\nThe project has one function, and it adds.\n"


def read_source(kernel: Kernel, scene: Scene) -> str:
    """A file of the project."""
    return str(kernel.call_sync("fs.read", path="src/app.py"))


def write_report(kernel: Kernel, scene: Scene) -> str:
    """A file in the project."""
    return str(kernel.call_sync("fs.write", path="output/report.md", text=REPORT))


def read_secret(kernel: Kernel, scene: Scene) -> str:
    """The file that the policy takes out of its own grant."""
    return str(kernel.call_sync("fs.read", path=".env"))


def write_outside(kernel: Kernel, scene: Scene) -> str:
    """A file that something outside the box would run."""
    return str(kernel.call_sync("fs.write", path=CRON_JOB, text="# written by the agent\n"))


def dial(kernel: Kernel, scene: Scene) -> str:
    """A tool that connects."""
    return str(kernel.call_sync("net.dial", address=f"127.0.0.1:{scene.tcp}"))


def git_log(kernel: Kernel, scene: Scene) -> str:
    """A program that is allowed, with words that no rule is about."""
    return kernel.process.run_sync(["git", "log", "--oneline"]).text


def curl(kernel: Kernel, scene: Scene) -> str:
    """A program that is not allowed."""
    return kernel.process.run_sync(["curl", "--version"]).text


def force_push(kernel: Kernel, scene: Scene) -> str:
    """Words that a rule denies, in a spelling the rule does not have."""
    return kernel.process.run_sync(["git", "-C", ".", "push", "origin", "--force"]).text


def push(kernel: Kernel, scene: Scene) -> str:
    """Words that a person must approve."""
    return kernel.process.run_sync(["git", "push", "origin", "main"]).text


def delete_tag(kernel: Kernel, scene: Scene) -> str:
    """Words that a rule denies."""
    return kernel.process.run_sync(["git", "tag", "-d", "v1.0"]).text


def preload(kernel: Kernel, scene: Scene) -> str:
    """An allowed program, made to load something else first."""
    preloaded = {"LD_PRELOAD": f"{scene.project}/output/evil.so"}
    return kernel.process.run_sync(["git", "status"], env=preloaded).text
