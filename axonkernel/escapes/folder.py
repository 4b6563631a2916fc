"""What lies in the folder of a stage, and which changes of it belong to which attempt."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from axonkernel.escapes.suite import ATTEMPTS
from axonkernel.escapes.tries.planted import ABSENT, PRESENT, name_of

__all__ = ["AGENT_SOCKET", "DENIED", "fill", "programs", "watched"]

AGENT_SOCKET = "agent"
#: What is taken out of the write grant, from its folder.
DENIED = (
    "denied", "denied-rename", "denied-exchange", "sub/denied", "write-denied-by-parent/denied",
    "replace-denied", "rename-over-denied", "create-denied", "denied-folder", "**/*.denied-glob",
)  # fmt: skip
#: Denied, and not there.
_ABSENT_DENIED = ("create-denied",)
#: Markers outside that an attempt makes; the others are there.
_MADE = frozenset({
    "create-file", "make-folder", "make-fifo", "make-socket", "link-nameless-file",
    "write-through-a-link", "c-race-outside",
})  # fmt: skip
#: Changes inside the write grant: where to look, by attempt.
_INSIDE = {
    "write-denied-by-parent": "write-denied-by-parent/denied",
    "replace-denied": "replace-denied",
    "rename-over-denied": "rename-over-denied",
    "create-denied": "create-denied",
    "create-denied-by-pattern": "create-denied-by-pattern.denied-glob",
    "write-in-denied": "denied-folder/write-in-denied",
    "plant-other-repository": "exchanged/.git/hooks/post-checkout",
    "plant-other-project": "renamed-repository/.git/hooks/post-checkout",
    "plant-repository": "new-repository/.git/hooks/post-checkout",
    "plant-link": "linked/.vscode",
    "plant-by-link": "tricks/.git/hooks/pre-push",
    "plant-by-old-link": "tricks/.git/hooks/post-merge",
    "plant-git-file": "pointed/.git",
}


def fill(project: Path, granted: Path, outside: Path, token: str) -> None:
    """Make the three folders; every secret begins with ``token``."""
    for folder in (project, granted, outside):
        folder.mkdir()
        folder.chmod(0o777)
    _file(outside / "secret", f"{token}-outside\n")
    _file(outside / f"{token}-name", "")
    _file(outside / "policy.toml", 'default = "deny"\n')
    _file(granted / "file", "to be read\n")
    for path, attempt in watched(project, granted, outside).items():
        if path.parent in (outside, granted) and attempt not in _MADE:
            _file(path, "as it was\n")
    _denied(project, token)
    _planted(project)


def _denied(project: Path, token: str) -> None:
    for name in DENIED:
        if "*" not in name and name not in (*_ABSENT_DENIED, "denied-folder"):
            _file(project / name, f"{token}-{name}\n")
    _file(project / "denied-folder" / "secret", f"{token}-in-denied-folder\n")
    _file(project / "denied-folder" / f"{token}-denied-name", "")
    _file(project / "keys" / "key.denied-glob", f"{token}-by-pattern\n")
    os.link(project / "denied", project / "other-name")
    os.symlink("denied", project / "link-to-denied")
    (project / "services").mkdir()
    (project / "services").chmod(0o777)


def _planted(project: Path) -> None:
    for name in PRESENT:
        _file(project / "planted" / name, "as it was\n")
    for name in ABSENT:
        (project / "absent" / name.partition("/")[0]).parent.mkdir(parents=True, exist_ok=True)
    (project / "absent" / ".git").mkdir()
    for name in ("tricks/.git/hooks/pre-push", "tricks/.git/hooks/post-merge",
                 "exchanged/.git/hooks/pre-commit",
                 "renamed-repository/.git/hooks/pre-commit"):  # fmt: skip
        _file(project / name, "as it was\n")
    os.link(project / "tricks/.git/hooks/post-merge", project / "old-hook-link")
    (project / "linked").mkdir()


def _file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o666)


def watched(project: Path, granted: Path, outside: Path) -> dict[Path, str]:
    """Every place that an attempt must leave as it is, with the attempt it belongs to."""
    found = {project / path: name for name, path in _INSIDE.items()}
    found |= dict(_outside(granted, outside))
    found |= {project / "planted" / name: name_of("plant", name) for name in PRESENT}
    found |= {project / "absent" / name: name_of("make", name) for name in ABSENT}
    return found


def programs(project: Path) -> dict[Path, str]:
    """The files that attempts leave to give somebody more rights."""
    return {project / each.id: each.id for each in ATTEMPTS if each.group == "privilege"}


def _outside(granted: Path, outside: Path) -> Iterator[tuple[Path, str]]:
    for each in ATTEMPTS:
        if each.sign == "mark" and "{outside}" in each.ask:
            yield outside / each.id, each.id
        elif each.sign == "mark" and "{granted}" in each.ask:
            yield granted / each.id, each.id
