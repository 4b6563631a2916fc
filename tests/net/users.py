"""Boxes of an ordinary user beside the private internet."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from box.boxed import PYTHON, command_line
from lab.internet import Internet
from lab.processes import REPOSITORY
from lab.user import OrdinaryUser

__all__ = ["as_user"]


def as_user(
    user: OrdinaryUser, net: Internet, bundle: Path, policy: str, text: str, tries: list[Any]
) -> list[Any]:
    """What came of ``tries``, given to the Python program ``text`` in a box of the user's.

    Arguments:
        bundle: certificates, ``ca.pem`` in the box.
        policy: the lines of ``net``.
    """
    project = user.home / "project"
    project.mkdir()
    shutil.copy(bundle, project / "ca.pem")
    file = user.home / "p.toml"
    file.write_text(f'[fs]\nread = ["{project}"]\n[net]\n{policy}\n')
    for path in (project, project / "ca.pem", file):
        shutil.chown(path, user.uid)
    command = [PYTHON, "-ISc", text, json.dumps(tries)]
    folders = {f"XDG_{name}_HOME": str(user.home / name) for name in ("CACHE", "STATE", "CONFIG")}
    done = net.run(
        command_line("--policy", file, command=command),
        user=user.uid,
        cwd=project,
        env={"HOME": str(user.home), "PYTHONPATH": str(REPOSITORY), **folders},
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
