"""Paths of a policy: literal, absolute, and what is never granted by accident."""

from __future__ import annotations

from typing import Any

import pytest

from axonkernel.errors import PolicyError
from axonkernel.policy.model import FsPolicy, Policy
from axonkernel.policy.parse import parse


def read(data: dict[str, Any]) -> Policy:
    """Parsed as if it lay in /srv/app, for a user whose home is /home/ann."""
    return parse(data, base="/srv/app", home="/home/ann")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("src", "/srv/app/src"),
        ("./src/", "/srv/app/src"),
        ("a//b/../c/.", "/srv/app/a/c"),
        ("../x", "/srv/x"),
        (".", "/srv/app"),
        ("~", "/home/ann"),
        ("~/.cache", "/home/ann/.cache"),
        ("a/~", "/srv/app/a/~"),
        ("/", "/"),
        ("//etc", "/etc"),
        ("/../etc", "/etc"),
        ("app/[id]", "/srv/app/app/[id]"),
        ("a b(1)/ü{}!$'\"", "/srv/app/a b(1)/ü{}!$'\""),
        (r"\*/\?", "/srv/app/*/?"),
        ("bytes-\udcff", "/srv/app/bytes-\udcff"),
    ],
)
def test_a_path_is_literal_and_absolute(written: str, meant: str) -> None:
    """Brackets, quotes and bytes in names are taken literally; ``\\*`` is a star in a name."""
    assert read({"fs": {"read": [written]}}).fs == FsPolicy(read=(meant,))


def test_a_folder_with_stars_does_not_become_a_glob() -> None:
    """The folder of the policy and the home folder are put in front of a glob literally."""
    policy = parse({"fs": {"read": ["."], "deny": ["**/*.key", "~/x*"]}}, base="/a*b", home="/h*")
    assert policy.fs == FsPolicy(read=("/a*b",), deny=(r"/a\*b/**/*.key", r"/h\*/x*"))


def test_without_a_home_a_tilde_is_a_fault() -> None:
    """Nothing is guessed for ``~`` when the caller knows no home folder."""
    with pytest.raises(PolicyError, match="~ has no meaning here"):
        parse({"fs": {"read": ["~/x"]}})


def test_protect_is_a_list_false_or_the_built_in_one() -> None:
    """Absent means the built-in list, which is not the same as an empty one."""
    for written, meant in (
        (["x", "**/*.lock"], ("/srv/app/x", "/srv/app/**/*.lock")),
        (False, ()),
        ([], ()),
    ):
        policy = read({"fs": {"write": ["."], "protect": written}})
        assert policy.fs is not None
        assert policy.fs.protect == meant
    absent = read({"fs": {"write": ["."]}})
    assert absent.fs is not None
    assert absent.fs.protect is None


def test_an_unsafe_entry_lifts_the_refusal_only_for_itself() -> None:
    """A control socket is granted when it is named in both lists; its neighbour is not."""
    data = {"fs": {"read": ["/run/docker.sock"], "unsafe": ["/run/docker.sock"]}}
    assert read(data).fs == FsPolicy(read=("/run/docker.sock",), unsafe=("/run/docker.sock",))
    with pytest.raises(PolicyError, match="control socket"):
        read({"fs": {"read": ["/run/podman.sock"], "unsafe": ["/run/docker.sock"]}})


def test_grants_and_denies_may_nest_in_any_order() -> None:
    """A grant inside a deny inside a grant is no contradiction; the same path is."""
    nested = {"fs": {"write": ["/w/a/b/c/d", "/w/a/b"], "read": ["/w"], "deny": ["/w/a/b/c"]}}
    assert read(nested).fs is not None
    with pytest.raises(PolicyError, match="is in write too"):
        read({"fs": {"write": ["/w/a"], "deny": ["/w/b/../a"]}})
