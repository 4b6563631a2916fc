"""``axonkernel exec`` in the lab, and what became of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from box.boxed import PYTHON, attempts_command, command_line
from lab.processes import REPOSITORY
from lab.systemd import SystemdLab

__all__ = ["BLOCKED", "READ", "LabBox", "Run"]

READ = ["--read", "."]
#: Python bindings, and the programs that are used without them.
BLOCKED = {"pydbus": "busctl", "nftables": "nft"}


class Run(NamedTuple):
    """One run of ``axonkernel exec`` in the lab."""

    code: int
    out: str
    err: str
    status: dict[str, Any]


class LabBox:
    """``axonkernel exec`` in the lab, from a project of some user's.

    Arguments:
        owner: uid the project belongs to.
        user: uid of the supervisor; root when None.
        blocked: Python bindings its supervisor does not have.
    """

    def __init__(
        self, lab: SystemdLab, owner: int | None, user: int | None, blocked: Sequence[str] = ()
    ) -> None:
        self.lab, self.user = lab, user
        self.project = lab.folder(user=owner)
        self.state = lab.folder(user=user)
        for name in blocked:
            lab.put(f"{self.state}/blocked/{name}.py", "raise ImportError\n", user=user)
        self.env = {
            "PYTHONPATH": f"{self.state}/blocked:{REPOSITORY}",
            "XDG_CACHE_HOME": f"{self.state}/cache",
            "XDG_STATE_HOME": f"{self.state}/state",
            "XDG_CONFIG_HOME": f"{self.state}/config",
        }
        lab.put(f"{self.project}/a.txt", "text of a", user=owner)
        lab.put(f"{self.project}/out/kept", "", user=owner)

    def close(self) -> None:
        self.lab.run(["rm", "-rf", self.project, self.state])

    def exec(self, *options: str, command: Sequence[str], env: dict[str, str] | None = None) -> Run:
        words = command_line(*options, "--json-status", "9", command=command)
        script = f'exec "$@" 9>{self.state}/status'
        done = self.lab.run(
            ["sh", "-c", script, "sh", *words],
            user=self.user,
            cwd=self.project,
            env=self.env | (env or {}),
        )
        told = self.lab.get(f"{self.state}/status")
        return Run(done.returncode, done.stdout, done.stderr, json.loads(told) if told else {})

    def python(self, code: str, *options: str) -> Run:
        return self.exec(*READ, *options, command=[PYTHON, "-ISc", code])

    def attempts(self, *attempts: Sequence[Any], grants: Sequence[str]) -> list[Any]:
        run = self.exec(*grants, command=attempts_command(*attempts))
        assert run.code == 0, run.err
        answers: list[Any] = json.loads(run.out)
        return answers
