"""What a box knows of its user's git configuration: name and address alone."""

from __future__ import annotations

import pytest

from lab.systemd import SystemdLab
from lab.test_box_lab import LabBox

pytestmark = [pytest.mark.requires("lab", "box"), pytest.mark.usefixtures("lab_leftovers")]

CONFIG = "/root/.gitconfig"
WORDS = (
    "git init -q out/{0} && cd out/{0} && git commit -q --allow-empty -m x && "
    "git log -1 --format=%an:%ae"
)


def test_git_knows_who_one_is(lab: SystemdLab) -> None:
    """A commit carries both; pager, keys and helpers are not there, and nor is the file. A
    change of it is seen by the next box."""
    box = LabBox(lab, None, None)
    lab.run(["cp", CONFIG, f"{box.state}/kept"])
    lab.run(["touch", f"{box.state}/kept"])
    marker = f"{box.project}/out/MARK"
    try:
        for name in ('Ada "L" B', "Grace"):
            quoted = name.replace('"', '\\"')
            lab.put(
                CONFIG,
                f'[user]\n\tname = "{quoted}"\n\temail = a@example.test\n\tsigningkey = KEY-1\n'
                f"[core]\n\tpager = touch {marker}\n[credential]\n\thelper = store\n",
            )
            grants = ["--read", ".", "--write", "out", "--allow", "git", "--allow", "sh"]
            run = box.exec(
                *grants, command=["sh", "-c", f"{WORDS.format(len(name))}; git config --list"]
            )
            assert run.code == 0, run.err
            assert run.out.splitlines()[0] == f"{name}:a@example.test"
            assert "KEY-1" not in run.out and "helper" not in run.out
        assert lab.run(["test", "-e", marker]).returncode == 1
        (read,) = box.attempts(["read", CONFIG], grants=["--read", ".", "--allow", "git"])
        assert read == "ENOENT"
    finally:
        lab.run(["cp", f"{box.state}/kept", CONFIG])
        box.close()
