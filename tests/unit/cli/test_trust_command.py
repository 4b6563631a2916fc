"""``axonkernel trust``."""

from __future__ import annotations

import hashlib

from .conftest import Shell

CLOSED = 'default = "deny"\n'


def test_trusting_what_is_found(shell: Shell) -> None:
    """The answer shows file and digest, and the file counts from then on, from below too."""
    path = shell.write("policy.toml", CLOSED)
    inner = shell.folder / "inner"
    inner.mkdir()
    assert shell.axonkernel("check", "--json").json["trusted"] is False
    ended = shell.axonkernel("trust", cwd=inner)
    assert ended.code == 0
    assert str(path) in ended.out
    assert f"AXON_TRUST={hashlib.sha256(CLOSED.encode()).hexdigest()}" in ended.out
    assert shell.axonkernel("check", "--json").json["trusted"] is True


def test_a_named_file_is_trusted(shell: Shell) -> None:
    """``trust FILE`` needs no discovery; --json is one document."""
    path = shell.write("sub/policy.json", "{}")
    ended = shell.axonkernel("trust", "--json", "sub/policy.json")
    assert ended.code == 0
    assert ended.json["trusted"]["path"] == str(path)
    assert ended.json["trusted"]["digest"] == hashlib.sha256(b"{}").hexdigest()


def test_a_faulty_policy_is_not_trusted(shell: Shell) -> None:
    """There is no use in a yes to what can never run; the faults are shown."""
    shell.write("policy.toml", 'isolation = "never"\n')
    ended = shell.axonkernel("trust")
    assert ended.code == 78
    assert "$.isolation" in ended.err
    assert "nothing is trusted" in shell.axonkernel("trust", "--list").out


def test_a_file_others_can_change_is_not_trusted(shell: Shell) -> None:
    """The yes would be to somebody else's next version."""
    shell.write("policy.toml", CLOSED, mode=0o666)
    ended = shell.axonkernel("trust")
    assert ended.code == 78
    assert "chmod go-w" in ended.err


def test_list_and_revoke(shell: Shell) -> None:
    """What is trusted can be seen, and taken back once, also after the file is gone."""
    path = shell.write("policy.toml", CLOSED)
    shell.axonkernel("trust")
    assert str(path) in shell.axonkernel("trust", "--list").out
    assert shell.axonkernel("trust", "--list", "--json").json["trusted"][0]["path"] == str(path)
    path.unlink()
    assert shell.axonkernel("trust", "--revoke", "policy.toml").code == 0
    ended = shell.axonkernel("trust", "--revoke", "--json", "policy.toml")
    assert ended.code == 1
    assert ended.json["revoked"] == 0
    assert shell.axonkernel("trust", "--list", "--json").json == {"trusted": []}


def test_nothing_to_trust_is_wrong_usage(shell: Shell) -> None:
    """Without a file there is nothing to say yes to."""
    ended = shell.axonkernel("trust")
    assert ended.code == 2
    assert "policy.toml" in ended.err
    assert shell.axonkernel("trust", "--list", "x.toml").code == 2


def test_two_candidates_are_refused_by_name(shell: Shell) -> None:
    """The fault names both."""
    shell.write("policy.toml", CLOSED)
    shell.write("policy.json", "{}")
    ended = shell.axonkernel("trust")
    assert ended.code == 78
    assert "policy.toml and policy.json" in ended.err
