"""Finding and loading a configuration."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from axonkernel.config import NAMES, discover, load, read_source
from axonkernel.config.read import read_data
from axonkernel.errors import PolicyError

CLOSED = 'default = "deny"\n'
OTHER_UID = 4242

as_root = pytest.mark.requires("root")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a state folder of the test's own, and nothing said in the environment."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in ("XDG_STATE_HOME", "AXON_TRUST", "AXON_REQUIRE_POLICY", "SUDO_UID"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def project(home: Path) -> Path:
    """A folder below the home, with a space in its name."""
    folder = home / "my project"
    folder.mkdir()
    return folder


def written(folder: Path, name: str = "policy.toml", text: str = CLOSED) -> Path:
    path = folder / name
    path.write_text(text)
    path.chmod(0o644)
    return path


@pytest.mark.parametrize("name", NAMES)
def test_discovery_finds_each_name_from_a_folder_below(project: Path, name: str) -> None:
    """Every name is found, from the folder itself and from one deeper."""
    path = written(project, name)
    deeper = project / "a" / "b"
    deeper.mkdir(parents=True)
    assert discover(str(project)).path == str(path)
    assert discover(str(deeper)).path == str(path)


def test_the_nearest_configuration_wins(project: Path) -> None:
    """A configuration in a folder hides those above it."""
    written(project)
    inner = project / "inner"
    inner.mkdir()
    path = written(inner, "policy.json", "{}")
    assert discover(str(inner)).path == str(path)


def test_two_in_one_folder_are_a_fault_that_names_both(project: Path) -> None:
    """Nobody has to guess which of two files counts."""
    written(project)
    written(project, "policy.json", "{}")
    with pytest.raises(PolicyError, match=r"policy\.toml and policy\.json"):
        discover(str(project))


def test_the_repository_root_ends_the_search_after_looking(project: Path) -> None:
    """A file beside .git is found, one above it is not."""
    written(project)
    repository = project / "repository"
    (repository / ".git").mkdir(parents=True)
    assert discover(str(repository)).path == ""
    path = written(repository)
    assert discover(str(repository)).path == str(path)


def test_home_ends_the_search_after_looking(home: Path, project: Path) -> None:
    """A file in the home is found, one above it is not."""
    written(home.parent)
    assert discover(str(project)).path == ""
    path = written(home)
    assert discover(str(project)).path == str(path)


def test_a_file_system_boundary_ends_the_search(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file on the other side of a mount point is not found; on this side it is."""
    path = written(project)
    inner = project / "mounted"
    inner.mkdir()
    assert discover(str(inner)).path == str(path)
    real, device = os.stat, os.stat(inner).st_dev

    def stat(target: str | int, **keywords: object) -> object:
        if target == str(project):
            return SimpleNamespace(st_dev=device + 1, st_uid=os.geteuid())
        return real(target, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", stat)
    assert discover(str(inner)).path == ""


@as_root
def test_a_folder_of_another_owner_ends_the_search_and_says_so(project: Path) -> None:
    """What lies in somebody else's folder is not used, and the user is told."""
    path = written(project)
    inner = project / "mine"
    inner.mkdir()
    assert discover(str(inner)).path == str(path)
    os.chown(project, OTHER_UID, OTHER_UID)
    search = discover(str(inner))
    assert search.path == ""
    assert str(path) in search.notes[0]


@as_root
def test_starting_in_a_folder_of_another_owner_is_refused(project: Path) -> None:
    """A policy there must not be overlooked in silence: that would be unrestricted access."""
    written(project)
    os.chown(project, OTHER_UID, OTHER_UID)
    with pytest.raises(PolicyError, match="folder of another user"):
        discover(str(project))


@as_root
def test_the_person_behind_sudo_is_not_another_owner(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root under sudo finds the files of the user who typed it."""
    path = written(project)
    os.chown(project, OTHER_UID, OTHER_UID)
    monkeypatch.setenv("SUDO_UID", str(OTHER_UID))
    assert discover(str(project)).path == str(path)


def test_a_dangling_link_is_not_overlooked(project: Path) -> None:
    """A policy that cannot be read is a fault, never the absence of a policy."""
    (project / "policy.toml").symlink_to("gone.toml")
    with pytest.raises(PolicyError, match="cannot be read"):
        load(start=str(project), profiles=())


def test_a_folder_with_the_name_of_a_policy_is_no_candidate(project: Path) -> None:
    """Only files are configurations."""
    (project / "policy.json").mkdir()
    assert discover(str(project)).path == ""


def test_a_source_is_digested_from_the_bytes_that_are_parsed(project: Path) -> None:
    """The digest is SHA-256 of the content, and the path is the real one."""
    path = written(project)
    link = project / "link.toml"
    link.symlink_to(path)
    source = read_source(str(link))
    assert source.path == str(path)
    assert source.digest == hashlib.sha256(CLOSED.encode()).hexdigest()


@pytest.mark.parametrize("mode", [0o666, 0o646])
def test_a_file_that_everybody_can_change_is_refused(project: Path, mode: int) -> None:
    """A policy others can write is theirs; with its mode corrected it loads."""
    path = written(project)
    path.chmod(mode)
    with pytest.raises(PolicyError, match="can be changed by everybody"):
        load(str(path), profiles=())
    path.chmod(0o644)
    assert load(str(path), profiles=()).policy.default == "deny"


def test_a_folder_that_everybody_can_change_is_refused_unless_sticky(project: Path) -> None:
    """In such a folder the file can be replaced; the sticky bit (as on /tmp) forbids that."""
    path = written(project)
    project.chmod(0o777)
    with pytest.raises(PolicyError, match="its folder can be changed by everybody"):
        load(str(path), profiles=())
    project.chmod(0o1777)
    assert load(str(path), profiles=()).policy.default == "deny"


@as_root
def test_a_file_that_a_shared_group_can_change_is_refused(project: Path) -> None:
    """A group other than the owner's own may hold anybody."""
    path = written(project)
    os.chown(path, 0, OTHER_UID)
    path.chmod(0o664)
    with pytest.raises(PolicyError, match=f"can be changed by group {OTHER_UID}"):
        load(str(path), profiles=())
    os.chown(path, 0, 0)
    assert load(str(path), profiles=()).policy.default == "deny"


@as_root
def test_a_stranger_s_file_in_my_folder_is_refused(project: Path) -> None:
    """Its owner could change it at any time."""
    path = written(project)
    os.chown(path, OTHER_UID, OTHER_UID)
    with pytest.raises(PolicyError, match="belongs to another user"):
        load(str(path), profiles=())


@as_root
def test_my_file_in_a_stranger_s_folder_is_refused(project: Path) -> None:
    """The folder's owner could replace it."""
    path = written(project)
    os.chown(project, OTHER_UID, OTHER_UID)
    with pytest.raises(PolicyError, match="lies in a folder of another user"):
        load(str(path), profiles=())


@as_root
def test_root_may_name_a_user_s_own_policy(project: Path) -> None:
    """A root supervisor runs the agent as the policy's owner, so it may read it."""
    path = written(project)
    os.chown(project, OTHER_UID, OTHER_UID)
    os.chown(path, OTHER_UID, OTHER_UID)
    assert load(str(path), profiles=()).policy.default == "deny"


def test_a_fifo_in_a_policy_s_place_does_not_hang(project: Path) -> None:
    """Only regular files are read."""
    os.mkfifo(project / "policy.toml", 0o600)
    with pytest.raises(PolicyError, match="not a regular file"):
        load(str(project / "policy.toml"), profiles=())


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("p.toml", b"a = 1\na = 2\n", "is not TOML: .* line 2"),
        ("p.toml", b"[fs\n", "is not TOML"),
        ("p.toml", b"a = \xff\n", "not UTF-8"),
        ("p.json", b'{"fs": {}, "fs": {}}', r"\$\.fs: is written twice"),
        ("p.json", b'{"limits": NaN}', "NaN is not JSON"),
        ("p.json", b"[1]", "a policy is a mapping"),
        ("p.json", b"", "is not JSON"),
        ("p.json", b"[" * 100_000, "nested too deep"),
        ("p.yaml", b"a: 1", "unknown kind of file"),
        ("p.toml", b"#" * (1024 * 1024 + 1), "larger than"),
    ],
)
def test_broken_text_is_one_clear_fault(
    project: Path, name: str, content: bytes, says: str
) -> None:
    """No parser's exception reaches the user as such."""
    path = project / name
    path.write_bytes(content)
    path.chmod(0o644)
    with pytest.raises(PolicyError, match=says):
        load(str(path), profiles=())


def test_a_file_that_is_not_there_is_told_as_such(project: Path) -> None:
    """Whatever its name ends in, and with what writes one."""
    for name in ("absent.toml", "absent"):
        with pytest.raises(PolicyError, match=r"(?s)No such file.*axonkernel init"):
            load(str(project / name), profiles=())


def test_a_byte_order_mark_is_accepted() -> None:
    """Editors on other systems write one."""
    assert read_data(b'\xef\xbb\xbf{"a": 1}', "json", "p") == {"a": 1}


@pytest.mark.parametrize("path", ["gone.toml", "nul\0.toml"])
def test_a_file_that_cannot_be_opened_is_a_fault(path: str) -> None:
    """A missing file and an impossible name are told, not raised as they are."""
    with pytest.raises(PolicyError):
        load(path, profiles=())


def test_relative_paths_count_from_the_file(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the working directory nor a link's folder moves a grant; ~ is the home."""
    path = written(project, text='fs = {read = ["src", "~/notes"]}\n')
    link = home / "link.toml"
    link.symlink_to(path)
    monkeypatch.chdir(home)
    fs = load(str(link), profiles=()).policy.fs
    assert fs is not None
    assert set(fs.read) == {str(project / "src"), str(home / "notes")}


def test_no_configuration_is_unrestricted_and_not_declared(project: Path) -> None:
    """Absence is kept apart from a policy that allows everything."""
    loaded = load(start=str(project), profiles=())
    assert loaded.source == ""
    assert not loaded.policy.declared


@pytest.mark.parametrize("value", ["1", "yes"])
def test_a_required_policy_that_is_missing_is_refused(
    project: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """AXON_REQUIRE_POLICY refuses unrestricted access; an existing policy satisfies it."""
    monkeypatch.setenv("AXON_REQUIRE_POLICY", value)
    with pytest.raises(PolicyError, match="a policy is required, and none was found"):
        load(start=str(project), profiles=())
    assert load(str(written(project)), profiles=()).policy.declared


def test_an_empty_file_does_not_pass_for_a_policy(project: Path) -> None:
    """A truncated file must not turn a required policy into unrestricted access."""
    path = written(project, text="# nothing\n")
    assert not load(str(path), profiles=()).policy.declared
    with pytest.raises(PolicyError, match="declares nothing"):
        load(str(path), profiles=(), require_policy=True)


def test_zero_does_not_require_a_policy(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AXON_REQUIRE_POLICY=0 is off."""
    monkeypatch.setenv("AXON_REQUIRE_POLICY", "0")
    assert not load(start=str(project), profiles=()).policy.declared


def test_every_fault_of_a_file_is_told_with_its_name(project: Path) -> None:
    """The error lists both faults and the file."""
    path = written(project, text='isolation = "never"\ncolour = "red"\n')
    with pytest.raises(PolicyError) as caught:
        load(str(path), profiles=())
    assert {fault.path for fault in caught.value.faults} == {"$.isolation", "$.colour"}
    assert str(path) in caught.value.source


def test_profiles_are_layers_in_front_of_the_policy(project: Path, home: Path) -> None:
    """Each existing profile is a layer of its own; a missing one is none."""
    profile = written(home, "profile.toml", 'shell = {allow = ["git"]}\n')
    path = written(project, text='shell = {allow = ["git", "curl"]}\n')
    loaded = load(str(path), profiles=(str(home / "gone.toml"), str(profile)))
    assert [name for name, _ in loaded.layers] == ["profile", "policy"]
    assert loaded.layers[0][1].shell is not None
    assert loaded.layers[0][1].shell.allow == ("git",)
    assert loaded.layers[1][1] is loaded.policy
    assert loaded.profiles == (str(profile),)


def test_the_effective_policy_is_below_the_ceiling(project: Path, home: Path) -> None:
    """What the box is built from holds only what both allow."""
    profile = written(home, "profile.toml", 'limits = {memory = "1G"}\n')
    path = written(project, text='limits = {memory = "2G"}\n')
    loaded = load(str(path), profiles=(str(profile),))
    assert loaded.effective.limits is not None
    assert loaded.effective.limits.memory_bytes == 1 << 30
    assert load(str(path), profiles=()).effective == loaded.policy


def test_the_user_s_profile_is_looked_for_in_its_place(project: Path, home: Path) -> None:
    """~/.config/axonkernel/profile.toml counts without being named."""
    folder = home / ".config" / "axonkernel"
    folder.mkdir(parents=True)
    profile = written(folder, "profile.toml", CLOSED)
    path = written(project, "policy.json", json.dumps({"tools": {"*": True}}))
    assert str(profile) in load(str(path)).profiles


def test_a_broken_profile_is_never_skipped(project: Path, home: Path) -> None:
    """A ceiling that cannot be understood stops everything."""
    profile = written(home, "profile.toml", "defualt = 1\n")
    with pytest.raises(PolicyError, match=r"profile\.toml"):
        load(str(written(project)), profiles=(str(profile),))


def test_finding_and_digesting_loads_no_attrs() -> None:
    """The launch path learns a digest without paying for the policy's classes."""
    code = (
        "import sys; sys.path.append(sys.argv[1]); import axonkernel.config.source, "
        "axonkernel.config.trust; print(*sys.modules)"
    )
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, root], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "axonkernel.config.source" in done.stdout.split()
    assert not {"attrs", "attr", "cattrs", "tomllib", "shlex"} & set(done.stdout.split())
