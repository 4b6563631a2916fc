"""``axon.config.py`` is evaluated in a closed box, really."""

from __future__ import annotations

from pathlib import Path

import pytest

from axonkernel.config import load
from axonkernel.errors import PolicyError

pytestmark = pytest.mark.requires("box")

AGENT = "from axonkernel import define_agent\n"


def loaded_name(folder: Path, text: str) -> str | None:
    """The name that a configuration gives its agent."""
    path = folder / "axon.config.py"
    path.write_text(AGENT + text)
    path.chmod(0o644)
    return load(str(path), profiles=()).name


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a space in its name, a secret beside it."""
    folder = tmp_path / "my project"
    folder.mkdir()
    (tmp_path / "secret").write_text("secret")
    return folder


def test_its_own_folder_can_be_read(project: Path) -> None:
    """The positive twin: the file, its neighbours and installed packages are there."""
    (project / "names.py").write_text("NAME = open(__file__).read()[:4]\n")
    assert loaded_name(project, "import names, attrs\ndefine_agent(names.NAME, {})\n") == "NAME"


def test_other_files_do_not_exist(project: Path) -> None:
    """A file outside its folder is not there."""
    text = "import os\ndefine_agent(str(os.path.exists('../secret')), {})\n"
    assert loaded_name(project, text) == "False"


def test_it_writes_nothing(project: Path) -> None:
    """Its folder is read-only; no file appears."""
    text = """
try:
    open("made", "w")
    name = "written"
except OSError as error:
    name = "refused"
define_agent(name, {})
"""
    assert loaded_name(project, text) == "refused"
    assert not (project / "made").exists()


def test_it_has_no_environment(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the caller's variables is in there."""
    monkeypatch.setenv("MY_SECRET", "x")
    assert (
        loaded_name(project, "import os\ndefine_agent(str('MY_SECRET' in os.environ), {})\n")
        == "False"
    )


def test_it_reaches_nobody(project: Path) -> None:
    """Loopback of the host is another one: a listener of the test is not reached."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.5)
        text = f"""
import socket
try:
    socket.create_connection({server.getsockname()!r}, 1)
    name = "connected"
except OSError:
    name = "refused"
define_agent(name, {{}})
"""
        assert loaded_name(project, text) == "refused"
        with pytest.raises(TimeoutError):
            server.accept()


def test_it_starts_no_program(project: Path) -> None:
    """No shell is there to start."""
    text = """
import subprocess
try:
    subprocess.run(["/bin/sh", "-c", "true"])
    name = "ran"
except OSError:
    name = "refused"
define_agent(name, {})
"""
    assert loaded_name(project, text) == "refused"


def test_it_has_two_seconds(project: Path) -> None:
    """An endless loop is ended and told."""
    with pytest.raises(PolicyError, match="did not finish within 2 s"):
        loaded_name(project, "while True: pass\n")


def test_a_policy_without_end_is_refused(project: Path) -> None:
    """A flood on the channel is cut off."""
    with pytest.raises(PolicyError, match="larger than"):
        loaded_name(project, "import os\nwhile True: os.write(3, b'x' * 65536)\n")


def test_its_output_does_not_mix_with_ours(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """What it prints goes nowhere: ``--json`` stays one document."""
    text = "import os\nprint('hello')\nos.write(2, b'hello')\ndefine_agent('quiet', {})\n"
    assert loaded_name(project, text) == "quiet"
    assert capfd.readouterr() == ("", "")
