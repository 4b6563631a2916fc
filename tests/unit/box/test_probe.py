"""What is missing is found out, named, and comes with the command that brings it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from axonkernel.box import bus, probe, programs, seccomp, trials
from axonkernel.box.advice import advise
from axonkernel.box.probe import NEEDS, Piece, Probe
from axonkernel.cli import doctor
from axonkernel.cli.args import drive
from axonkernel.errors import IsolationUnavailable

# What gi says of its own importer on Python 3.11.
pytestmark = pytest.mark.filterwarnings("ignore:DynamicImporter.exec_module:ImportWarning")

PROGRAMS = ("apt-get", "bwrap", "nft", "pasta", "busctl", "systemctl")


class Machine:
    """A PATH of our own making, and a cache folder of its own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.patch = monkeypatch
        for name in PROGRAMS:
            real = shutil.which(name, path="/usr/bin:/usr/sbin:/bin:/sbin") or "/bin/true"
            (self.bin / name).symlink_to(real)
        monkeypatch.setenv("PATH", str(self.bin))
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        monkeypatch.setattr(os, "geteuid", lambda: 0)

    def without(self, name: str) -> None:
        (self.bin / name).unlink()

    def script(self, name: str, text: str) -> None:
        self.without(name)
        (self.bin / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.bin / name).chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine whose programs a test can take away."""
    return Machine(tmp_path, monkeypatch)


# -- programs ---------------------------------------------------------------------------


def test_a_program_is_found_in_system_folders_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy early on PATH does not stand in for the system's; sbin beside bin is looked at."""
    early, system, admin = (tmp_path / name for name in ("early/bin", "usr/bin", "usr/sbin"))
    for folder in (early, system, admin):
        folder.mkdir(parents=True)
    for folder, name in ((early, "tool"), (system, "tool"), (admin, "nft")):
        (folder / name).touch(mode=0o755)
    (early / "data").touch(mode=0o644)
    monkeypatch.setattr(programs, "_SYSTEM", (str(system),))
    monkeypatch.setenv("PATH", f"{early}:relative:{system}")
    assert programs.find("tool") == f"{system}/tool"
    assert programs.find("nft") == f"{admin}/nft"
    assert programs.find("data") is None
    assert programs.find("nowhere") is None


def test_a_program_that_hangs_is_ended() -> None:
    """No trial waits without end."""
    with pytest.raises(TimeoutError, match="did not answer in"):
        programs.run(["/bin/sleep", "30"], timeout_s=0.1)
    assert programs.run(["/bin/echo", "hi"]).out == "hi\n"


# -- what is missing --------------------------------------------------------------------


def missing(name: str) -> Piece:
    found = {piece.name: piece for piece in probe.probe(refresh=True).pieces}
    assert not found[name].ok
    return found[name]


def test_no_bwrap(machine: Machine) -> None:
    """The package is named, as a command for this user."""
    machine.without("bwrap")
    piece = missing("box")
    assert (piece.missing, piece.fix) == ("bwrap", "apt install bubblewrap")


@pytest.mark.parametrize(
    ("said", "lacks", "fix"),
    [
        ("unshare: Operation not permitted", "user namespaces", "unprivileged_userns_clone=1"),
        ("syscall 430: Permission denied", "user namespaces", "profile axonkernel-python"),
        ("syscall 442: Function not implemented", "the kernel", "Linux 5.12"),
    ],
)
def test_a_file_tree_that_cannot_be_made(machine: Machine, said: str, lacks: str, fix: str) -> None:
    """What the kernel said decides what is advised; where one can be made nothing is said."""
    python = machine.bin / "python"
    python.write_text(f"#!/bin/sh\necho '{said}'; exit 1\n")
    python.chmod(0o755)
    with machine.patch.context() as patched:
        patched.setattr(trials.sys, "executable", str(python))
        with pytest.raises(trials.Missing) as caught:
            trials._tree()
    assert caught.value.piece == lacks and fix in caught.value.fix
    trials._tree()


def test_an_ordinary_user_is_told_to_use_sudo(machine: Machine) -> None:
    """The same command with sudo for whoever needs it."""
    machine.patch.setattr(os, "geteuid", lambda: 1000)
    assert programs.install("bubblewrap") == "sudo apt install bubblewrap"
    machine.without("apt-get")
    assert "package manager" in programs.install("bubblewrap")


def test_no_pasta(machine: Machine) -> None:
    """pasta comes in a package of another name."""
    machine.without("pasta")
    assert missing("link").fix == "apt install passt"


@pytest.mark.net
@pytest.mark.parametrize(
    ("said", "missing_piece"),
    [
        ("No external routable interface for IPv4", "a network"),
        ("Failed to open tun socket in namespace", "/dev/net/tun"),
        ("Couldn't switch to pasta namespaces", "pasta"),
    ],
)
def test_a_pasta_that_fails(machine: Machine, said: str, missing_piece: str) -> None:
    """What pasta says decides what to do: installing it again does not help everywhere."""
    machine.script("pasta", f'echo "{said}" >&2; exit 1')
    piece = missing("link")
    assert (piece.missing, said in piece.detail) == (missing_piece, True)


@pytest.mark.net
def test_no_nft_and_no_binding(machine: Machine, tmp_path: Path) -> None:
    """With neither of the two ways to load a table; with one of them there is a wall."""
    fake = tmp_path / "fake"
    fake.mkdir()
    (fake / "nftables.py").write_text("raise ImportError('taken away')")
    machine.patch.setenv("PYTHONPATH", str(fake))
    assert trials.table() == "nft"
    machine.without("nft")
    piece = missing("table")
    assert (piece.missing, piece.fix) == ("nft", "apt install nftables")


def test_no_libseccomp(machine: Machine) -> None:
    """The filter's library, not the kernel, is missing."""

    def absent() -> None:
        raise IsolationUnavailable("isolation", "libseccomp", programs.install("libseccomp2"))

    machine.patch.setattr(seccomp, "_compiled", {})
    machine.patch.setattr(seccomp, "_library", absent)
    piece = missing("seccomp")
    assert (piece.missing, piece.fix) == ("libseccomp", "apt install libseccomp2")


def test_no_systemd(machine: Machine) -> None:
    """Limits are told to be unavailable, not approximated."""
    machine.patch.setattr(bus, "BOOTED", "/nonexistent")
    piece = missing("limits")
    assert piece.missing == "systemd system manager"
    assert piece.fix.startswith("run where systemd is the init system")


@pytest.mark.parametrize(
    ("said", "in_fix"),
    [
        ("bwrap: setting up uid map: Permission denied", "apparmor_parser -r"),
        ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "apparmor_parser -r"),
        (
            "bwrap: No permissions to creating new namespace, likely because the kernel does not",
            "sysctl kernel.unprivileged_userns_clone=1",
        ),
        (
            "bwrap: Creating new namespace failed: No space left on device",
            "sysctl user.max_user_namespaces",
        ),
        (
            "bwrap: Can't mount proc on /newroot/proc: Operation not permitted",
            "systempaths=unconfined",
        ),
        ("bwrap: Unknown option --disable-userns", "bubblewrap 0.8"),
        ("bwrap: Unexpected capabilities but not setuid, old file caps config?", "ambient"),
        ("bwrap: prctl(PR_SET_SECCOMP): Invalid argument", "CONFIG_SECCOMP_FILTER"),
        ("bwrap: something nobody saw before", "bwrap --unshare-all true"),
    ],
)
def test_a_known_complaint_gets_its_cure(machine: Machine, said: str, in_fix: str) -> None:
    """A bwrap that starts and cannot make a box; its own words are kept as well."""
    machine.script("bwrap", f"cat >&2 <<'EOF'\n{said}\nEOF\nexit 1".replace("cat", "/bin/cat"))
    piece = missing("box")
    assert piece.missing == "user namespaces"
    assert in_fix in piece.fix
    assert said in piece.detail


def test_the_narrow_cure_comes_before_the_wide_one() -> None:
    """A profile for bwrap first; the switch that opens the host for all programs last."""
    fix = advise("bwrap: setting up uid map: Permission denied").fix
    assert fix.index("/etc/apparmor.d/bwrap") < fix.index("sysctl")


def test_a_bwrap_that_does_nothing_is_not_believed(machine: Machine) -> None:
    """Exit code 0 is not a box: the process's own state is looked at."""
    machine.script("bwrap", 'while [ $1 != -- ]; do shift; done; shift; exec "$@"')
    piece = missing("box")
    assert "was not closed" in piece.detail


# -- require ----------------------------------------------------------------------------

#: As errors name them: the value that tells the needs of a field apart is left out.
ALL_FIELDS = {field.partition(" = ")[0] for field in NEEDS}
VETH = 'net.link = "veth"'
ALL = Probe(
    tuple(Piece(name, True) for name in {name for needs in NEEDS.values() for name in needs})
)


def lacking(name: str, *, kept: bool = False) -> Probe:
    piece = Piece(name, False, "a thing", "", "get the thing")
    return Probe(tuple(piece if item.name == name else item for item in ALL.pieces), kept)


def test_with_every_piece_nothing_is_refused() -> None:
    """The positive twin."""
    assert probe.require(NEEDS, ALL) is None
    assert probe.unenforced(NEEDS, ALL) == {}
    assert ALL.complete


@pytest.mark.parametrize(
    ("piece", "lost"),
    [
        ("box", ALL_FIELDS),
        ("seccomp", ALL_FIELDS),
        ("table", {"net", "net.link"}),
        ("link", {"net.link"}),
        ("limits", {"limits", "limits.memory", "limits.cpu", "limits.pids"}),
    ],
)
def test_each_field_needs_its_pieces(piece: str, lost: set[str]) -> None:
    """A missing piece costs the fields it holds and no others, in both manners."""
    found = lacking(piece)
    assert set(probe.unenforced(NEEDS, found)) == lost
    assert not found.complete
    for field in NEEDS:
        if field == VETH:
            continue
        if field not in lost:
            probe.require([field], found)
            continue
        with pytest.raises(IsolationUnavailable) as caught:
            probe.require([field], found)
        error = caught.value
        assert (error.field, error.missing, error.fix) == (field, "a thing", "get the thing")


def test_each_kind_of_link_needs_its_own() -> None:
    """pasta does without what a veth link needs, and the other way around; both are net.link
    to the reader, and a machine without veth holds every field."""
    for field, piece, other in (("net.link", "link", "veth"), (VETH, "veth", "link")):
        probe.require([field], lacking(other))
        with pytest.raises(IsolationUnavailable) as caught:
            probe.require([field], lacking(piece))
        assert caught.value.field == "net.link"
    assert lacking("veth").complete


def test_the_first_declared_field_is_named() -> None:
    """In the order of the policy."""
    with pytest.raises(IsolationUnavailable) as caught:
        probe.require(["fs", "limits.pids", "limits.memory"], lacking("limits"))
    assert caught.value.field == "limits.pids"


def test_a_kept_refusal_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was installed since then counts at once, and is asked for once only."""
    asked: list[bool] = []

    def again(*, refresh: bool) -> Probe:
        asked.append(refresh)
        return ALL if len(asked) == 1 else lacking("table")

    monkeypatch.setattr(probe, "probe", again)
    probe.require(["net"], lacking("table", kept=True))
    assert asked == [True]
    with pytest.raises(IsolationUnavailable):
        probe.require(["net"], lacking("table", kept=True))
    assert asked == [True, True]


# -- the kept answer --------------------------------------------------------------------


@pytest.fixture
def counted(machine: Machine) -> list[int]:
    """How often the trials were really made."""
    made: list[int] = []

    def tried() -> list[Piece]:
        made.append(1)
        return list(ALL.pieces)

    machine.patch.setattr(probe, "_tried", tried)
    return made


def test_the_answer_is_kept_until_the_next_boot(machine: Machine, counted: list[int]) -> None:
    """The second question reads a file; ``refresh`` tries again."""
    first, second = probe.probe(), probe.probe()
    assert (first.kept, second.kept, first.pieces) == (False, True, second.pieces)
    assert len(counted) == 1
    assert not probe.probe(refresh=True).kept
    assert len(counted) == 2


def test_what_it_depends_on_makes_it_void(machine: Machine, counted: list[int]) -> None:
    """Another boot, a program that came or went, or a file that is not ours to read."""
    probe.probe()
    machine.without("pasta")
    probe.probe()
    assert len(counted) == 2
    path = Path(os.environ["XDG_CACHE_HOME"], "axonkernel", "probe.json")
    data = json.loads(path.read_text())
    data["key"][1] = "another boot"
    path.write_text(json.dumps(data))
    probe.probe()
    path.write_text("{")
    probe.probe()
    assert len(counted) == 4
    assert probe.probe().kept


@pytest.mark.parametrize("what", ["_ALLOWED", "_CONFINED"])
def test_the_same_home_in_a_container_is_asked_anew(
    machine: Machine, counted: list[int], tmp_path: Path, what: str
) -> None:
    """Where namespaces are forbidden, or rights are gone, an answer from elsewhere is void;
    where nothing changed it is kept."""
    said = tmp_path / "said"
    said.write_text("1000")
    machine.patch.setattr(probe, "_ALLOWED", (str(said), str(tmp_path / "absent")))
    probe.probe()
    assert probe.probe().kept
    if what == "_ALLOWED":
        said.write_text("0")
    else:
        machine.patch.setattr(probe, "_confined", lambda: ["0", "1", "2"])
    assert not probe.probe().kept
    assert probe.probe().kept and len(counted) == 2


def test_without_a_home_it_works_all_the_same(machine: Machine, counted: list[int]) -> None:
    """Nowhere to keep the answer: it is found out each time."""
    machine.patch.setenv("XDG_CACHE_HOME", "/dev/null")
    assert [probe.probe().kept, probe.probe().kept] == [False, False]


# -- for real, and doctor ---------------------------------------------------------------


@pytest.mark.box
def test_a_real_box_and_its_gate() -> None:
    """Where the walls stand the trials say so, with and without the filter."""
    assert trials.box(trials.filter_code()).endswith("bwrap")
    assert trials.box(None).endswith("bwrap")
    assert trials.gate() == "ptrace"


@pytest.mark.net
@pytest.mark.usefixtures("leftovers")
def test_a_real_table_and_link() -> None:
    """A table refuses a packet, pasta makes an interface, and neither is left behind."""
    assert trials.table() in ("binding", "nft")
    assert trials.link().endswith("pasta")


def test_a_table_that_lets_packets_through_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An nft that says yes and loads nothing is not a wall."""
    (tmp_path / "nftables.py").write_text(
        "class Nftables:\n"
        "    def set_json_output(self, on): pass\n"
        "    def cmd(self, text): return 0, '', ''\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(trials.Missing) as caught:
        trials.table()
    assert "went past the table" in caught.value.detail


@pytest.mark.parametrize(("found", "code"), [(ALL, 0), (lacking("link"), 1)])
def test_doctor_says_it_in_its_exit_code(
    found: Probe,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """0 when every field can be held, 1 otherwise; the same in JSON."""
    monkeypatch.setattr(doctor, "probe", lambda *, refresh: found)
    assert drive(doctor, "doctor", ["--json"]) == code
    data = json.loads(capsys.readouterr().out)
    assert data["complete"] is (code == 0)
    assert {piece["name"] for piece in data["pieces"]} == {piece.name for piece in found.pieces}
    assert drive(doctor, "doctor", []) == code
    text = capsys.readouterr().out
    assert ("get the thing" in text) is (code == 1)
    assert ("Cannot be held here: net.link." in text) is (code == 1)


def test_doctor_names_the_limits_that_cannot_be_held(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without systemd wall and disk are held all the same, so limits as a whole are not lost."""
    monkeypatch.setattr(doctor, "probe", lambda *, refresh: lacking("limits"))
    assert drive(doctor, "doctor", []) == 1
    text = capsys.readouterr().out
    assert "Cannot be held here: limits.memory, limits.cpu, limits.pids.\n" in text


def test_optional_pieces_do_not_fail_doctor() -> None:
    """Bindings and Landlock: faster or more, but no policy needs them."""
    bare = Probe((*ALL.pieces, Piece("bindings", False, "python3-nftables", "", "apt install")))
    assert bare.complete
