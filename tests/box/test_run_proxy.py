"""An agent in a box does not hold what its supervisor says to a proxy."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.agents import Project

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

#: The proxies of every policy that the process knows.
FOUND = """
import gc
known = [each for each in gc.get_objects() if type(each).__name__ == "NetPolicy"]
return sorted({each.proxy for each in known if each.proxy})
"""


def test_the_password_of_a_proxy_stays_outside(tmp_path: Path) -> None:
    """It is in the machine's profile; what the agent is told of that has the proxy alone."""
    project = Project(tmp_path / "home")
    project.agent({"net": {"allow": ["a.test"]}}, FOUND)
    folder = Path(project.env["HOME"]) / ".config/axonkernel"
    folder.mkdir(parents=True)
    (folder / "profile.toml").write_text(
        '[net]\nallow = true\nproxy = "http://user:our-secret@proxy.test:3128"\n'
    )
    ended = project.run_agent()
    assert ended.value == ["http://proxy.test:3128"], ended.err
    assert "our-secret" not in ended.err + ended.out
