"""The audit log: every record is kept whole, in order, without secrets, or nothing runs."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import pytest

from axonkernel.audit import AuditLog, Redactor
from axonkernel.audit.verify import verify
from axonkernel.errors import AuditError


def _lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_records_are_json_lines_with_their_ids(tmp_path: Path) -> None:
    """What record() returns is the id in the file, and the fields are there."""
    log = AuditLog(tmp_path / "log")
    ids = [log.record("decision", verdict="allow", n=n) for n in range(3)]
    lines = _lines(tmp_path / "log")
    assert [line["id"] for line in lines] == ids
    assert [line["n"] for line in lines] == [0, 1, 2]
    assert verify(tmp_path / "log") == ()


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Mode 0600 whatever the umask, and the folder is made 0700."""
    before = os.umask(0)
    try:
        AuditLog(tmp_path / "deep" / "log").record("x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "deep" / "log").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "deep").stat().st_mode) == 0o700


def test_one_changed_byte_anywhere_is_found(tmp_path: Path) -> None:
    """Every single byte of a log is covered, the last line's too."""
    path = tmp_path / "log"
    log = AuditLog(path)
    for n in range(3):
        log.record("decision", n=n)
    whole = path.read_bytes()
    assert verify(path) == ()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert verify(path), f"byte {at} is not covered"


@pytest.mark.parametrize("missing", [0, 1])
def test_a_removed_record_is_found(tmp_path: Path, missing: int) -> None:
    """The record after a removed one no longer follows the one before it."""
    path = tmp_path / "log"
    log = AuditLog(path)
    for n in range(3):
        log.record("decision", n=n)
    lines = path.read_bytes().splitlines(keepends=True)
    del lines[missing]
    path.write_bytes(b"".join(lines))
    assert [fault.line for fault in verify(path)] == [missing + 1]


def test_a_later_process_goes_on_with_the_chain(tmp_path: Path) -> None:
    """A log that is opened again, and two open at once, make one unbroken chain."""
    first, second = AuditLog(tmp_path / "log"), AuditLog(tmp_path / "log")
    for n in range(4):
        (first if n % 2 else second).record("x", n=n, filler="y" * 3000)
    AuditLog(tmp_path / "log").record("x", n=4)
    assert [line["n"] for line in _lines(tmp_path / "log")] == [0, 1, 2, 3, 4]
    assert verify(tmp_path / "log") == ()


def test_threads_share_a_log(tmp_path: Path) -> None:
    """Records of many threads do not run into each other."""
    log = AuditLog(tmp_path / "log")
    threads = [
        threading.Thread(target=lambda: [log.record("x") for _ in range(50)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(_lines(tmp_path / "log")) == 200
    assert verify(tmp_path / "log") == ()


def test_a_record_longer_than_the_look_back_is_followed(tmp_path: Path) -> None:
    """The newest record is found even when it is longer than what is read first."""
    AuditLog(tmp_path / "log").record("x", filler="y" * 100_000)
    AuditLog(tmp_path / "log").record("x")
    assert verify(tmp_path / "log") == ()


def test_a_torn_line_is_reported_and_recording_goes_on(tmp_path: Path) -> None:
    """After a crash in the middle of a line the next record stands on a line of its own."""
    path = tmp_path / "log"
    AuditLog(path).record("x", n=0)
    with path.open("ab") as file:
        file.write(b'{"id":"torn')
    AuditLog(path).record("x", n=1)
    assert [fault.line for fault in verify(path)] == [2]
    assert json.loads(path.read_text().splitlines()[2])["n"] == 1


def test_a_log_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """A folder in its place, a missing device: AuditError, not silence."""
    (tmp_path / "log").mkdir()
    with pytest.raises(AuditError, match="cannot be written"):
        AuditLog(tmp_path / "log").record("x")


def test_a_full_disk_leaves_no_half_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short write is taken back, and the log is whole afterwards."""
    log = AuditLog(tmp_path / "log")
    log.record("x", n=0)
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[: len(data) // 2]))
    with pytest.raises(AuditError):
        log.record("x", n=1)
    monkeypatch.undo()
    log.record("x", n=2)
    assert [line["n"] for line in _lines(tmp_path / "log")] == [0, 2]
    assert verify(tmp_path / "log") == ()


@pytest.mark.parametrize("field", ["at", "prev", "hash"])
def test_a_record_cannot_bring_the_logs_own_fields(tmp_path: Path, field: str) -> None:
    """The chain is the log's; a record's id may be given by who made it."""
    log = AuditLog(tmp_path / "log")
    assert log.record("x", id="00112233aabbccdd") == "00112233aabbccdd"
    with pytest.raises(AuditError):
        log.record("x", **{field: "forged"})
    assert len(_lines(tmp_path / "log")) == 1 and verify(tmp_path / "log") == ()


def test_a_symlink_in_its_place_is_refused(tmp_path: Path) -> None:
    """The log does not append to whatever somebody links to."""
    (tmp_path / "target").write_text("")
    (tmp_path / "log").symlink_to(tmp_path / "target")
    with pytest.raises(AuditError):
        AuditLog(tmp_path / "log").record("x")
    assert (tmp_path / "target").read_text() == ""


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        ({"password": "hunter2"}, {"password": "[redacted]"}),
        ({"API_KEY": "x"}, {"API_KEY": "[redacted]"}),
        ({"a": {"Authorization": "Bearer x"}}, {"a": {"Authorization": "[redacted]"}}),
        (["curl", "--token", "abc", "url"], ["curl", "--token", "[redacted]", "url"]),
        (["x", "--password=abc"], ["x", "--password=[redacted]"]),
        (["GITHUB_TOKEN=abc"], ["GITHUB_TOKEN=[redacted]"]),
        (["-H", "Authorization: Bearer abc"], ["-H", "Authorization: [redacted]"]),
        (["git", "clone", "https://me:pw@h/x"], ["git", "clone", "https://me:[redacted]@h/x"]),
        (["run", "s3cr3t-value"], ["run", "[redacted]"]),
        ({"x": "a s3cr3t-value b"}, {"x": "a [redacted] b"}),
        (["ls", "tokenizer.py", "secretary"], ["ls", "tokenizer.py", "secretary"]),
        ({"path": "/srv/ws/a", "n": 3, "ok": True}, {"path": "/srv/ws/a", "n": 3, "ok": True}),
    ],
)
def test_secrets_are_left_out(data: object, kept: object) -> None:
    """By name in mappings and words, by value anywhere; ordinary words stay."""
    assert Redactor("s3cr3t-value")(data) == kept


def test_a_secret_inside_json_text_is_left_out(tmp_path: Path) -> None:
    """A value with quotes is found in its escaped spelling too."""
    secret = 'pa"ss\\word'
    log = AuditLog(tmp_path / "log")
    log.redactor.conceal(secret)
    log.record("x", args=json.dumps({"q": secret}))
    assert "word" not in (tmp_path / "log").read_text()
