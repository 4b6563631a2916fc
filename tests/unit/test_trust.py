"""Trust in found configurations."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from axonkernel.config import TrustStore, load, read_source
from axonkernel.config.source import Source, shown
from axonkernel.errors import PolicyError

CLOSED = 'default = "deny"\n'


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a state folder of the test's own."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in ("XDG_STATE_HOME", "AXON_TRUST", "AXON_REQUIRE_POLICY"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def policy(home: Path) -> Path:
    """A policy that discovery finds."""
    folder = home / "project"
    folder.mkdir()
    path = folder / "policy.toml"
    path.write_text(CLOSED)
    path.chmod(0o644)
    return path


def test_what_is_found_is_refused_until_it_is_trusted(policy: Path) -> None:
    """The refusal shows the command; after it the same file loads."""
    with pytest.raises(PolicyError, match=f"axonkernel trust {policy}"):
        load(start=str(policy.parent), profiles=())
    TrustStore().add(read_source(str(policy), found=True))
    loaded = load(start=str(policy.parent), profiles=())
    assert loaded.trusted and loaded.found
    assert loaded.policy.default == "deny"


def test_a_change_takes_the_trust_away(policy: Path) -> None:
    """One more byte is another policy; the old content is still trusted."""
    TrustStore().add(read_source(str(policy), found=True))
    policy.write_text(CLOSED + "\n")
    with pytest.raises(PolicyError, match="not trusted"):
        load(start=str(policy.parent), profiles=())
    policy.write_text(CLOSED)
    assert load(start=str(policy.parent), profiles=()).trusted


def test_trust_does_not_move_to_another_place(policy: Path) -> None:
    """The same content elsewhere is not trusted: its relative paths mean something else."""
    TrustStore().add(read_source(str(policy), found=True))
    other = policy.parent.parent / "other"
    other.mkdir()
    (other / "policy.toml").write_text(CLOSED)
    (other / "policy.toml").chmod(0o644)
    with pytest.raises(PolicyError, match="not trusted"):
        load(start=str(other), profiles=())


def test_a_named_file_needs_no_trust(policy: Path) -> None:
    """Naming it is the user's own choice."""
    loaded = load(str(policy), profiles=())
    assert loaded.trusted and not loaded.found
    assert TrustStore().entries() == ()


def test_showing_commands_may_read_untrusted_data(policy: Path) -> None:
    """``read_untrusted`` parses data, says that it is not trusted, and how to trust it."""
    loaded = load(start=str(policy.parent), profiles=(), read_untrusted=True)
    assert not loaded.trusted
    assert f"axonkernel trust {policy}" in loaded.notes[0]


def test_untrusted_python_is_never_evaluated(policy: Path) -> None:
    """Found code needs trust even where data would only be shown; it leaves no mark."""
    policy.unlink()
    marker = policy.parent / "ran"
    code = policy.parent / "axon.config.py"
    code.write_text(f"open({str(marker)!r}, 'w')\n")
    code.chmod(0o644)
    with pytest.raises(PolicyError, match="not trusted"):
        load(start=str(policy.parent), profiles=(), read_untrusted=True)
    assert not marker.exists()


@pytest.mark.parametrize("form", ["{}", "sha256:{}", "0123,{}", "{} 4567"])
def test_the_environment_can_say_yes(
    policy: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """AXON_TRUST holds whole digests, in any of its spellings."""
    digest = read_source(str(policy)).digest
    monkeypatch.setenv("AXON_TRUST", form.format(digest))
    assert load(start=str(policy.parent), profiles=()).trusted


@pytest.mark.parametrize("length", [0, 8, 63])
def test_a_part_of_a_digest_is_no_yes(
    policy: Path, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    """Only the whole digest counts."""
    monkeypatch.setenv("AXON_TRUST", read_source(str(policy)).digest[:length])
    with pytest.raises(PolicyError, match="not trusted"):
        load(start=str(policy.parent), profiles=())


def test_the_store_is_private(home: Path, policy: Path) -> None:
    """The file is 0600 and its folder 0700, whatever the umask."""
    before = os.umask(0)
    try:
        TrustStore().add(read_source(str(policy), found=True))
    finally:
        os.umask(before)
    path = home / ".local/state/axonkernel/trust.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_the_state_folder_can_be_elsewhere(
    home: Path, policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """XDG_STATE_HOME is used when absolute and ignored when relative."""
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    assert TrustStore().path == str(home / "state/axonkernel/trust.json")
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    assert TrustStore().path == str(home / ".local/state/axonkernel/trust.json")


def test_trust_can_be_taken_back(policy: Path) -> None:
    """Revoking removes every version of the file, and only of that file."""
    store = TrustStore()
    store.add(read_source(str(policy), found=True))
    policy.write_text(CLOSED + "# more\n")
    store.add(read_source(str(policy), found=True))
    store.add(Source("/elsewhere/policy.toml", "toml", b"", "0" * 64, True))
    assert store.remove(str(policy)) == 2
    assert [trust.path for trust in store.entries()] == ["/elsewhere/policy.toml"]
    with pytest.raises(PolicyError, match="not trusted"):
        load(start=str(policy.parent), profiles=())


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"trusted": [{}]}', '{"trusted": [{"path": 1, "digest": "x"}]}']
)
def test_a_damaged_store_is_refused(home: Path, policy: Path, content: str) -> None:
    """What cannot be read is neither a yes nor silently thrown away."""
    store = TrustStore()
    store.add(read_source(str(policy), found=True))
    Path(store.path).write_text(content)
    with pytest.raises(PolicyError, match="trust store is damaged"):
        load(start=str(policy.parent), profiles=())


def test_a_store_that_others_can_change_is_refused(policy: Path) -> None:
    """Anybody could have said yes in it."""
    store = TrustStore()
    store.add(read_source(str(policy), found=True))
    os.chmod(store.path, 0o666)
    with pytest.raises(PolicyError, match="can be changed by others"):
        load(start=str(policy.parent), profiles=())


def test_a_store_that_is_a_link_is_refused(policy: Path, home: Path) -> None:
    """A link could make the store any file at all."""
    store = TrustStore()
    store.add(read_source(str(policy), found=True))
    moved = home / "moved.json"
    os.rename(store.path, moved)
    os.symlink(moved, store.path)
    with pytest.raises(PolicyError, match="cannot be read"):
        store.entries()


def _add(store: str, number: int) -> None:
    TrustStore(store).add(Source(f"/p/{number}", "toml", b"", f"{number:064}", True))


def test_answers_given_at_the_same_time_are_all_kept(home: Path) -> None:
    """Processes that write at once do not lose each other's entries."""
    path = str(home / "state" / "trust.json")
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_add, args=(path, number)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert len(TrustStore(path).entries()) == 4
    assert len(json.loads(Path(path).read_text())["trusted"]) == 4


@pytest.mark.parametrize("name", ["plain", "with space", "quote'd", "new\nline", "\udcff", "$x"])
def test_a_shown_path_can_be_pasted_into_bash(tmp_path: Path, name: str) -> None:
    """Whatever a folder is called, the command in the message means that folder."""
    import subprocess

    done = subprocess.run(
        ["bash", "-c", f"printf %s {shown(name)}"], capture_output=True, check=True
    )
    assert done.stdout == os.fsencode(name)
    assert shown(name).isprintable()
