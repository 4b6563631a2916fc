"""``axonkernel escape-test``: three hundred ways out of a box, each proven outside it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from axonkernel.escapes import escape, suite
from axonkernel.escapes.judge import FAILED, Row, judge
from axonkernel.escapes.plays import PLAYS
from axonkernel.escapes.trial import Heard
from axonkernel.policy.parse import parse
from box.escapes.escaping import COMMAND, FOR_ROOT, UNPROVEN, by_id, check, environment
from lab.user import OrdinaryUser

#: A coding agent's: work in a folder, run git, talk to one address.
POLICY = """
default = "deny"
[fs]
write = ["./work"]
[shell]
allow = ["git"]
[box]
run_as = "nobody"
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users may enter, as pytest's own is not."""
    with tempfile.TemporaryDirectory(prefix="axon-escape-") as made:
        os.chmod(made, 0o711)
        (Path(made) / "work").mkdir()
        (Path(made) / "agent.toml").write_text(POLICY)
        yield Path(made)


# -- the attempts ---------------------------------------------------------------------------


def test_there_are_enough_and_each_says_what_it_would_mean() -> None:
    """Ids are unique; every class is there; each has a sentence, a wall and a sign."""
    everything = [*suite.ATTEMPTS, *PLAYS]
    counts = Counter(each.id for each in everything)
    assert not [name for name, count in counts.items() if count > 1]
    assert len(everything) >= 300
    for each in everything:
        assert each.meaning.rstrip(")").endswith(".") and each.wall and each.text, each.id
        assert len(each.text) < 47, each.id  # the column of the table
    groups = Counter(each.group for each in suite.ATTEMPTS)
    assert min(groups.values()) >= 7, groups


@pytest.mark.requires("box", "net", "root")
@pytest.mark.usefixtures("leftovers")
def test_nothing_escapes_a_coding_agents_box(folder: Path) -> None:
    """A root supervisor, an agent that is nobody, by the command; nothing is left behind."""
    env = {**os.environ, **environment(folder), "TMPDIR": str(folder)}
    words = [*COMMAND, "--policy", str(folder / "agent.toml"), "--json"]
    done = subprocess.run(words, env=env, cwd=folder, capture_output=True, text=True, timeout=110)
    rows = by_id(done.stdout)
    assert len(rows) == len(suite.ATTEMPTS) + len(PLAYS), done.stderr
    check(rows)
    assert done.returncode == 0, done.stdout
    assert rows["read-policy"]["outcome"] == "held"
    assert rows["too-many-processes"]["outcome"] == "not here"
    assert sorted(p.name for p in folder.iterdir()) == ["CACHE", "CONFIG", "STATE", "agent.toml",
                                                        "work"]  # fmt: skip
    assert not list((folder / "work").iterdir())


@pytest.mark.requires("box", "net", "user")
@pytest.mark.usefixtures("leftovers")
def test_nothing_escapes_an_ordinary_users_box(ordinary_user: OrdinaryUser) -> None:
    """Without any policy: the closed box of a user without privilege."""
    env = ordinary_user.call(environment, ordinary_user.home)
    done = ordinary_user.run([*COMMAND, "--json"], env=env, timeout_s=110)
    rows = by_id(done.stdout)
    assert len(rows) == len(suite.ATTEMPTS) + len(PLAYS), done.stderr
    check(rows, UNPROVEN | FOR_ROOT)
    made = {path.name for path in ordinary_user.home.iterdir()}
    assert made <= {"CACHE", "CONFIG", "STATE"}


@pytest.mark.requires("box", "net", "root")
@pytest.mark.usefixtures("leftovers", "own_state")
def test_nothing_escapes_when_the_agent_is_root(folder: Path) -> None:
    """A project that belongs to root: the agent has root's uid, and no capability."""
    rows = rows_of({"default": "deny"}, folder)
    check(rows)


@pytest.mark.requires("box", "root")
@pytest.mark.usefixtures("leftovers", "own_state")
def test_what_a_policy_leaves_open_is_granted_and_no_more(folder: Path) -> None:
    """Files, network, programs and variables of the host are open, and got at; the rest holds."""
    rows = rows_of({"limits": {"wall": "5m"}}, folder)
    outcomes = {name: row["outcome"] for name, row in rows.items()}
    for name in ("read-by-path", "create-file", "tcp", "udp", "start-by-path", "own-variables"):
        assert outcomes[name] in ("granted", "held"), name
    granted = {name for name, outcome in outcomes.items() if outcome == "granted"}
    assert {"tcp", "own-variables", "start-by-path"} <= granted
    assert [row for row in rows.values() if row["outcome"] in FAILED] == []


@pytest.fixture
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records and plans of this process go to tmp_path."""
    for name, value in environment(tmp_path).items():
        if name.startswith("XDG"):
            monkeypatch.setenv(name, value)


def rows_of(policy: dict[str, Any], folder: Path) -> dict[str, dict[str, Any]]:
    """The attempts alone, in this process."""
    parsed = parse(policy, base=str(folder), home=str(folder), source="test")
    tested = escape.escape_test([parsed], base=folder, plays=())
    return {row.id: row._asdict() for row in tested.rows}


# -- how it is told -------------------------------------------------------------------------

ATTEMPT = next(each for each in suite.ATTEMPTS if each.id == "read-by-path")
HELD, GOT = Heard("ENOENT", ""), Heard("done", "x")


@pytest.mark.parametrize(
    ("outcome", "control", "heard", "evidence", "options"),
    [
        ("held", ("a secret came out", "done"), HELD, "", {}),
        ("unproven", ("", "EPERM"), HELD, "", {}),
        ("ESCAPED", ("", "EPERM"), GOT, "a secret came out", {}),
        ("granted", ("", "EPERM"), GOT, "a secret came out", {"granted": True}),
        ("held", ("a secret came out", "done"), HELD, "", {"granted": True}),
        ("reported", ("", "EPERM"), GOT, "a marker was changed", {"reported": True}),
        ("NO ANSWER", ("a secret came out", "done"), None, "", {}),
        ("not here", ("", ""), None, "", {"missing": "apt-get install gcc"}),
    ],
)
def test_each_outcome(
    outcome: str,
    control: tuple[str, str],
    heard: Heard | None,
    evidence: str,
    options: dict[str, Any],
) -> None:
    """What is said, seen and granted makes one outcome; silence is none of the good ones."""
    options = {"granted": False, **options}
    row = judge(ATTEMPT, control, heard, evidence, posture={"fs": "enforced"}, **options)
    assert row.outcome == outcome


def test_a_missing_wall_is_named_where_something_escapes() -> None:
    """Best-effort without a wall: it is an escape, and the row says whose."""
    posture = {"fs": "unenforced"}
    row = judge(ATTEMPT, ("x", "done"), GOT, "a secret came out", granted=False, posture=posture)
    assert (row.outcome, row.wall) == ("ESCAPED", "nobody")
    assert row.detail.startswith("fs is unenforced here")


@pytest.mark.parametrize(("outcome", "ok"), [("held", True), ("ESCAPED", False)])
def test_the_verdict(outcome: Any, ok: bool) -> None:
    """One escape among any number is a failure."""
    rows = [Row("a", "g", "t", "m", "w", name, "", "") for name in ("held", "granted", outcome)]
    tested = escape.Tested((), tuple(rows))
    assert (tested.ok, tested.as_data()["ok"], tested.as_data()["attempts"]) == (ok, ok, 3)


@pytest.mark.requires("root")
def test_without_a_box_nothing_is_claimed(folder: Path) -> None:
    """Where no box can be made the test says what is missing, ends 125 and leaves nothing."""
    programs = folder / "bin"
    programs.mkdir()
    for name in ("sleep", "id"):
        (programs / name).symlink_to(str(shutil.which(name)))
    env = {**environment(folder), "PATH": str(programs), "TMPDIR": str(folder)}
    done = subprocess.run(
        [*COMMAND, "--json"], env=env, cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 125, done.stdout + done.stderr
    assert "ESCAPED" not in done.stdout
    assert not list(folder.glob("axonkernel-*"))


@pytest.mark.requires("box", "net", "root")
@pytest.mark.usefixtures("leftovers")
def test_an_interrupted_test_leaves_nothing(folder: Path) -> None:
    """Stopped in the middle it takes its folder, its listeners and its boxes along."""
    env = {**os.environ, **environment(folder), "TMPDIR": str(folder)}
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        COMMAND, env=env, cwd=folder / "work", stdout=pipe, stderr=pipe, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while not list(folder.glob("axonkernel-*/project/way-out")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    said, complaint = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM, complaint
    assert said == b"" and b"Traceback" not in complaint
    assert not list(folder.glob("axonkernel-*"))
