"""Paths are resolved the way the system would open them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from axonkernel.errors import PolicyError
from axonkernel.paths import (
    canonical_policy,
    default_protect,
    linked_grants,
    resolve,
    resolve_entry,
)
from axonkernel.policy.model import FsPolicy, Policy
from axonkernel.policy.parse import parse


def test_relative_paths_count_from_cwd(tmp_path: Path) -> None:
    """A relative path is joined to the working directory and normalised."""
    assert resolve("a/../b", str(tmp_path)) == str(tmp_path / "b")
    assert resolve("/x//y/.", str(tmp_path)) == "/x/y"


def test_symlinks_are_resolved_before_dots(tmp_path: Path) -> None:
    """``link/..`` is the parent of the target, as the kernel has it, not of the link."""
    (tmp_path / "far" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "deep")
    assert resolve("link/../x", str(tmp_path)) == str(tmp_path / "far" / "x")


def test_a_missing_leaf_below_a_symlink_is_resolved(tmp_path: Path) -> None:
    """What does not exist yet is judged where it would appear."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert resolve("link/new/file", str(tmp_path)) == str(tmp_path / "real" / "new" / "file")


def test_an_entry_keeps_its_own_symlink(tmp_path: Path) -> None:
    """For removal the link itself is meant; its folder is resolved."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "l").symlink_to("/etc/passwd")
    (tmp_path / "folder").symlink_to("real")
    assert resolve_entry("folder/l", str(tmp_path)) == str(tmp_path / "real" / "l")
    assert resolve_entry("folder/l/", str(tmp_path)) == str(tmp_path / "real" / "l")
    assert resolve_entry("folder/..", str(tmp_path)) == str(tmp_path)


def test_a_nul_byte_stays_for_decide_to_refuse(tmp_path: Path) -> None:
    """No exception leaks from the system's own check."""
    assert resolve("a\0b", "/srv") == "/srv/a\0b"


def test_a_symlink_loop_ends(tmp_path: Path) -> None:
    """Two links at each other give a path, in bounded time."""
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert resolve("a", str(tmp_path)).startswith(str(tmp_path))


def test_grants_lose_their_symlinks(tmp_path: Path) -> None:
    """A granted link grants its target, which is what requests will name."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    link, real = str(tmp_path / "link"), str(tmp_path / "real")
    policy = canonical_policy(Policy(fs=FsPolicy(read=(link,), write=(f"{link}/new",))))
    assert policy.fs is not None
    assert policy.fs.read == (real,)
    assert policy.fs.write == (f"{real}/new",)


def test_denied_links_hold_under_both_names(tmp_path: Path) -> None:
    """A denied link is denied where it points and where it stands."""
    (tmp_path / "real").write_text("")
    (tmp_path / "link").symlink_to("real")
    link, real = str(tmp_path / "link"), str(tmp_path / "real")
    policy = canonical_policy(Policy(fs=FsPolicy(read=(str(tmp_path),), deny=(link,))))
    assert policy.fs is not None
    assert policy.fs.deny == (link, real)


def test_patterns_are_resolved_up_to_their_first_wildcard(tmp_path: Path) -> None:
    """The literal part of a denied pattern follows links; the pattern stays a pattern."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    pattern = f"{tmp_path}/link/**/*.key"
    policy = canonical_policy(Policy(fs=FsPolicy(read=("/",), deny=(pattern, "/**/.env"))))
    assert policy.fs is not None
    assert policy.fs.deny == (pattern, f"{tmp_path}/real/**/*.key", "/**/.env")


def test_a_policy_without_fs_is_unchanged() -> None:
    """No block, nothing to resolve."""
    assert canonical_policy(Policy()) == Policy()


def test_protected_files_are_those_inside_write_grants(tmp_path: Path) -> None:
    """The entry file and loaded files count only where the agent could write them."""
    entry, inside = tmp_path / "agent.py", tmp_path / "lib.py"
    entry.write_text("")
    found = default_protect(
        [str(tmp_path)], entry=str(entry), loaded=[str(inside), "/usr/lib/other.py"]
    )
    assert str(entry) in found and str(inside) in found
    assert "/usr/lib/other.py" not in found
    assert "/**/.git/hooks" in found


def test_a_grant_through_a_link_the_agent_can_replace_is_a_fault(tmp_path: Path) -> None:
    """It could lead anywhere at the next start; what it leads to can be granted by name."""
    work, other = tmp_path / "work", tmp_path / "other"
    work.mkdir()
    other.mkdir()
    (work / "out").symlink_to(other)
    (tmp_path / "way").symlink_to(work / "out")  # a link of ours that goes through theirs
    for name in ("work/out", "work/out/deeper", "way"):
        policy = parse({"fs": {"read": [name], "write": ["work"]}}, base=str(tmp_path))
        with pytest.raises(PolicyError) as caught:
            canonical_policy(policy)
        (fault,) = caught.value.faults
        assert fault.path == "$.fs.read[0]" and str(other) in fault.hint
    policy = parse({"fs": {"read": ["other"], "write": ["work"]}}, base=str(tmp_path))
    assert canonical_policy(policy) == policy


#: Exchanges a folder and a link for as long as its input is open.
EXCHANGE = """
import ctypes, select, sys
libc = ctypes.CDLL(None)
names = [name.encode() for name in sys.argv[1:3]]
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    libc.renameat2(-100, names[0], -100, names[1], 2)
"""


def test_a_grant_that_is_exchanged_with_a_link_leads_nowhere(tmp_path: Path) -> None:
    """While a box exchanges them, the start of another sees a folder or a link, never both."""
    folder, link, outside = tmp_path / "work" / "in", tmp_path / "work" / "x", tmp_path / "outside"
    folder.mkdir(parents=True)
    link.symlink_to(outside)
    policy = parse({"fs": {"read": ["work/in"], "write": ["work"]}}, base=str(tmp_path))
    seen = []
    with subprocess.Popen(
        [sys.executable, "-ISc", EXCHANGE, str(folder), str(link)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as exchanging:
        assert exchanging.stdout is not None and exchanging.stdout.readline()
        for _ in range(2000):
            try:
                fs = canonical_policy(policy).fs
                seen.append(fs.read if fs else ())
            except PolicyError:
                seen.append(("refused",))
        assert exchanging.stdin is not None
        exchanging.stdin.close()
    assert set(seen) == {(str(folder),), ("refused",)}


def test_a_linked_grant_is_told(tmp_path: Path) -> None:
    """A link outside every write grant is followed, and the reader learns where to."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    policy = parse({"fs": {"write": ["link"]}}, base=str(tmp_path))
    (line,) = linked_grants(policy)
    assert str(tmp_path / "link") in line and str(tmp_path / "real") in line
    assert linked_grants(canonical_policy(policy)) == ()
