"""Policy + host -> the file tree: order, masks, pins, the program wall."""

from __future__ import annotations

import itertools

import pytest

from axonkernel.box.find import Program
from axonkernel.box.host import Entry
from axonkernel.box.model import Mount
from axonkernel.box.plan import build
from axonkernel.policy.model import FsPolicy, Policy
from unit.box.hosts import ASK, BINS, UNAME, entries, host, kinds, places, plan

NESTED = [("read", "."), ("write", "a/b"), ("deny", "a/b/c"), ("write", "a/b/c/d")]


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=str)
def test_order_of_lines_does_not_matter(order: tuple[int, ...]) -> None:
    """The same mounts for all 24 orders, each after what it lies in."""
    fs: dict[str, list[str]] = {"read": [], "write": [], "deny": []}
    for at in order:
        field, path = NESTED[at]
        fs[field].append(path)
    paths = {"read": [f"/ws/{p}".removesuffix("/.") for p in fs["read"]],
             "write": [f"/ws/{p}" for p in fs["write"]]}  # fmt: skip
    found = plan(
        {"fs": fs},
        host(grants=entries(*paths["read"], *paths["write"]), denied=entries("/ws/a/b/c")),
    )
    inside = [mount for mount in found.mounts if mount.dest.startswith("/ws")]
    assert [(mount.kind, mount.dest) for mount in inside] == [
        ("ro-bind", "/ws"),
        ("bind", "/ws/a/b"),
        ("tmpfs", "/ws/a/b/c"),
        ("bind", "/ws/a/b/c/d"),
        ("remount-ro", "/ws/a/b/c"),
    ]


def test_nothing_is_mounted_before_what_it_lies_in() -> None:
    """Whatever is granted and denied: parents come first."""
    found = plan(
        {"fs": {"write": ["."], "read": ["a"], "deny": ["a/x"]}, "shell": {"allow": ["uname"]}},
        host(
            grants=entries("/ws", "/ws/a"),
            denied=entries("/ws/a/x", kind="file"),
            protected=entries("/ws/s/.git/hooks", "/ws/.bashrc"),
        ),
    )
    steps = [place for place in places(found.mounts) if place != "/"]
    for at, place in enumerate(steps):
        assert not any(place.startswith(later + "/") for later in steps[at + 1 :]), place


@pytest.mark.parametrize(
    ("kind", "expected"), [("file", "mask-file"), ("other", "mask-file"), ("dir", "mask-dir")]
)
def test_masks_by_kind(kind: str, expected: str) -> None:
    """Files, sockets and fifos, and folders; what is missing has nothing to be masked."""
    grants = entries("/ws")
    found = plan(
        {"fs": {"read": ["."], "deny": ["x", "gone"]}},
        host(grants=grants, denied=(*entries("/ws/x", kind=kind), Entry("/ws/gone", "missing"))),
    )
    assert kinds(found.mounts)["/ws/x"] == expected
    assert "/ws/gone" not in places(found.mounts)


def test_a_mask_outside_the_grants_is_no_mount() -> None:
    """What does not exist in the box needs none."""
    found = plan(
        {"fs": {"read": ["."], "deny": ["/etc/x"]}},
        host(grants=entries("/ws"), denied=entries("/etc/x", kind="file")),
    )
    assert "/etc/x" not in places(found.mounts)


def test_the_same_path_denied_and_granted_is_denied() -> None:
    """Denial wins at one place, as two policies that are met can have it."""
    policy = Policy(fs=FsPolicy(read=("/ws/a",), deny=("/ws/a",)))
    found = build(policy, host(grants=entries("/ws/a"), denied=entries("/ws/a")), ASK)
    assert kinds(found.mounts)["/ws/a"] == "mask-dir"


def test_protected_names_and_their_pins() -> None:
    """Read-only, and every folder between the grant and the name is held by a mount, or a
    rename would undo it; a name outside any write grant needs nothing."""
    found = plan(
        {"fs": {"write": ["."], "read": ["/r"]}},
        host(
            grants=entries("/r", "/ws"),
            protected=(
                *entries("/ws/a/b/.git/hooks"),
                *entries("/ws/.bashrc", kind="file"),
                Entry("/ws/.zshrc", "missing"),
                *entries("/r/.bashrc", kind="file"),
            ),
        ),
    )
    inside = {m.dest: m.kind for m in found.mounts if m.dest.startswith(("/ws", "/r/"))}
    assert inside == {
        "/ws": "bind",
        "/ws/.bashrc": "ro-bind",
        "/ws/a": "bind",
        "/ws/a/b": "bind",
        "/ws/a/b/.git": "bind",
        "/ws/a/b/.git/hooks": "ro-bind",
    }


def test_our_own_files_are_hidden_everywhere() -> None:
    """In a closed box where a grant would bring them, in an open one always."""
    state = entries("/srv/state/axonkernel")
    closed = plan({"fs": {"read": ["/srv"]}}, host(grants=entries("/srv"), hidden=state))
    assert kinds(closed.mounts)["/srv/state/axonkernel"] == "mask-dir"
    open_ = plan({"env": {}}, host(hidden=state))
    assert kinds(open_.mounts)["/srv/state/axonkernel"] == "mask-dir"
    elsewhere = plan({"fs": {"read": ["."]}}, host(grants=entries("/ws"), hidden=state))
    assert "/srv/state/axonkernel" not in places(elsewhere.mounts)


def test_scratch_is_not_brought_by_a_grant_above_it() -> None:
    """A mask below /tmp under ``read = ["/"]`` would be made in the private /tmp: no mount;
    one below a grant in /tmp is made."""
    denied = entries("/tmp/x/secret", kind="file")
    above = plan({"fs": {"read": ["/"]}}, host(grants=entries("/"), denied=denied))
    assert "/tmp/x/secret" not in places(above.mounts)
    own = plan({"fs": {"read": ["/tmp/x"]}}, host(grants=entries("/tmp/x"), denied=denied))
    assert kinds(own.mounts)["/tmp/x/secret"] == "mask-file"


@pytest.mark.parametrize(
    ("data", "grants", "root"),
    [
        ({"fs": {"read": ["a"]}}, entries("/ws/a"), None),
        ({"fs": {"read": ["/"]}}, entries("/"), "ro-bind"),
        ({"fs": {"write": ["/"]}}, entries("/"), "bind"),
        ({"env": {}}, (), "bind"),
    ],
    ids=str,
)
def test_what_the_root_is_made_of(
    data: dict[str, object], grants: tuple[Entry, ...], root: str | None
) -> None:
    """Nothing, the host's tree to read, or the host's tree; the private parts are over it in
    each, and /sys cannot be written."""
    found = plan(data, host(grants=grants))
    first = found.mounts[0]
    assert (first.kind if first.dest == "/" else None) == root
    assert {"/proc", "/dev", "/run", "/tmp", "/var/tmp"} <= set(places(found.mounts))
    assert kinds(found.mounts).get("/sys") == (None if root is None else "ro-bind")
    if root is None:
        assert found.mounts[-1] == Mount("remount-ro", "/")


def test_root_in_a_box_cannot_write_the_kernels_files() -> None:
    """uid 0 owns them, without any capability (/proc/sys/kernel/core_pattern)."""
    found = plan({"fs": {"read": ["a"]}}, host(kernel_files=("/sys", "/proc/sys", "/proc/irq")))
    shown = kinds(found.mounts)
    assert shown["/proc/sys"] == shown["/proc/irq"] == "ro-bind" and "/sys" not in shown
    order = places(found.mounts)
    assert order.index("/proc") < order.index("/proc/sys")


# -- the program wall -------------------------------------------------------------------


def test_links_and_files_of_programs() -> None:
    """Each name a link, each real file once, folders that programs read beside them."""
    tool = Program("tool", (("/usr/local/bin/tool", "/opt/t/bin/tool"),), "/opt/t/bin/tool")
    found = plan({"default": "deny"}, host(programs=(UNAME, tool), program_folders=("/opt/t/lib",)))
    shown = {mount.dest: (mount.kind, mount.source) for mount in found.mounts}
    assert shown["/usr/local/bin/tool"] == ("symlink", "/opt/t/bin/tool")
    assert shown["/opt/t/bin/tool"] == ("ro-bind", "/opt/t/bin/tool")
    assert shown["/opt/t/lib"] == ("ro-bind", "/opt/t/lib")
    assert shown["/usr/bin/uname"] == ("ro-bind", "/usr/bin/uname")
    assert not {"/usr", "/usr/bin", "/usr/local/bin"} & set(shown)


@pytest.mark.parametrize("grant", ["/", "/usr", "/usr/bin"])
def test_bin_folders_are_emptied_under_a_wide_grant(grant: str) -> None:
    """A grant of the folder above, or of the folder itself, brings no programs back."""
    found = plan(
        {"fs": {"read": [grant]}, "shell": {"allow": ["uname"]}}, host(grants=entries(grant))
    )
    order = [(mount.kind, mount.dest) for mount in found.mounts]
    emptied = [folder for folder in BINS if folder.startswith(grant)]
    for folder in emptied:
        assert order.index(("tmpfs", folder)) < order.index(("remount-ro", folder))
        assert ("ro-bind", folder) not in order
    assert "/usr/bin" in emptied
    assert order.index(("tmpfs", "/usr/bin")) < order.index(("ro-bind", "/usr/bin/uname"))


def test_without_a_wall_the_programs_are_there() -> None:
    """``shell`` open: /usr and the bin folders; denied programs are masked."""
    found = plan(
        {"fs": {"read": ["."]}, "shell": {"allow": True, "deny": ["id"]}},
        host(walled=False, programs=(), masked_programs=("/usr/bin/id",), grants=entries("/ws"),
             bins=("/usr/bin", "/opt/bin")),
    )  # fmt: skip
    shown = kinds(found.mounts)
    assert (shown["/usr"], shown["/opt/bin"]) == ("ro-bind", "ro-bind")
    assert shown["/usr/bin/id"] == "mask-file"


def test_a_program_that_a_grant_brings_is_not_mounted_twice() -> None:
    """Each mount costs the launch."""
    tool = Program("tool", (), "/ws/bin/tool")
    found = plan(
        {"fs": {"read": ["."]}, "shell": {"allow": ["./bin/tool"]}},
        host(grants=entries("/ws"), programs=(tool,)),
    )
    assert "/ws/bin/tool" not in places(found.mounts)


def test_our_own_links_are_mounted_as_what_they_lead_to() -> None:
    """Where they are wanted, from where they lead: a link is refused when it is opened."""
    found = host(
        program_folders=("/opt/t/lib",), links=(("/opt/t/lib", "/data/t/lib"), ("/ws", "/other"))
    )
    mounts = plan({"default": "deny", "fs": {"read": ["a"]}}, found).mounts
    (lib,) = [mount for mount in mounts if mount.dest == "/opt/t/lib"]
    assert (lib.kind, lib.source) == ("ro-bind", "/data/t/lib")
    others = {m.dest: m.source for m in mounts if m.kind == "ro-bind" and m.dest != lib.dest}
    assert others and all(dest == source for dest, source in others.items())
    shown = plan({"default": "deny"}, host(links=(("usr/bin", "/x"),))).mounts
    assert {m.source for m in shown if m.kind == "symlink"} == {"usr/bin", "usr/lib"}


def test_without_a_wall_what_lies_beside_a_bin_folder_is_there() -> None:
    """As a version manager's Python needs it; a wall mounts it for its programs only."""
    found = host(walled=False, programs=(), program_folders=("/opt/t/lib",),
                 bins=("/usr/bin", "/opt/t/bin"))  # fmt: skip
    mounts = kinds(plan({"fs": {"read": ["a"]}}, found).mounts)
    assert mounts["/opt/t/bin"] == mounts["/opt/t/lib"] == "ro-bind"
