"""A policy that comes from a box only takes away, and says nothing about how a box is made."""

from __future__ import annotations

from typing import Any

import pytest

from axonkernel.broker.narrowed import narrower
from axonkernel.errors import AxonError
from axonkernel.policy.model import Policy
from axonkernel.policy.parse import parse

BASE = {
    "default": "deny",
    "fs": {"read": ["/srv"], "write": ["/srv/out"]},
    "net": {"allow": ["a.test:443", "192.0.2.0/24:443"]},
    "shell": {"allow": ["git", "curl", "/srv/tool"]},
    "env": {"allow": ["TOKEN"]},
    "limits": {"memory": "1G"},
}


def parsed(data: dict[str, Any]) -> Policy:
    return parse(data, base="/", source="test").closed()


def left(asked: dict[str, Any], base: dict[str, Any] = BASE, *, privileged: bool = True) -> Policy:
    return narrower(parsed(base), parsed(asked), privileged=privileged)


def test_what_both_grant_is_left() -> None:
    """In every block that something below the mediator holds."""
    found = left({
        "fs": {"read": ["/srv"]},
        "net": {"allow": ["192.0.2.7:443", "b.test:443"]},
        "shell": {"allow": ["git", "sh"]},
        "env": {"allow": ["TOKEN", "HOME_*"]},
        "limits": {"memory": "2G", "wall": "5s"},
    })  # fmt: skip
    assert found.fs and ({*found.fs.read}, found.fs.write) == ({"/srv", "/srv/out"}, ())
    assert found.net and found.net.allow == ("192.0.2.7:443",)
    assert found.shell and found.shell.allow == ("git",)
    assert found.env and found.env.allow == ("TOKEN",)
    assert found.limits and (found.limits.memory_bytes, found.limits.wall_s) == (1 << 30, 5.0)


@pytest.mark.parametrize(
    "asked",
    [
        {"box": {"run_as": "root"}},
        {"box": {"nested_userns": True, "devices": ["kvm"]}},
        {"net": {"allow": ["a.test:443"], "link": "veth"}},
        {"net": {"allow": ["a.test:443"], "resolver": "10.0.0.1"}},
        {"net": {"allow": ["a.test:443"], "listen": [8080]}},
        {"net": {"allow": ["a.test:443"], "proxy": "http://10.0.0.1:3128"}},
        {"shell": {"allow": ["git"], "path": ["/home/agent/bin"]}},
        {"shell": {"allow": ["git"], "profiles": ["/home/agent/p.toml"]}},
        {"escalation": {"timeout": "10h"}},
        {"isolation": "none"},
    ],
    ids=str,
)
def test_how_a_box_is_made_is_not_for_its_agent_to_say(asked: dict[str, Any]) -> None:
    """As whom it runs, its link, whom it asks, where programs are looked for: as before."""
    base, found = parsed(BASE), left(asked)
    assert (found.box, found.escalation, found.isolation) == (
        base.box, base.escalation, base.isolation,
    )  # fmt: skip
    assert found.net and base.net and found.shell and base.shell
    for name in ("link", "resolver", "proxy", "refuse", "listen"):
        assert getattr(found.net, name) == getattr(base.net, name)
    for name in ("path", "profiles", "unsafe"):
        assert getattr(found.shell, name) == getattr(base.shell, name)


def test_an_open_network_brings_no_ports_of_the_host() -> None:
    """Nor a link that changes the host, nor a resolver of the agent's choice."""
    asked = {
        "net": {"allow": ["a.test:443"], "listen": [80], "link": "veth", "resolver": "10.0.0.1"}
    }
    found = left(asked, {"fs": {"read": ["/srv"]}})
    assert found.net and found.net.allow == ("a.test:443",)
    assert (found.net.listen, found.net.link, found.net.resolver) == ((), "pasta", None)


def test_an_open_block_stays_without_control_sockets() -> None:
    """Where the agent has all files, the request's grants bring nothing that is masked."""
    base = {"net": {"allow": ["a.test:443"]}}
    asked = {"fs": {"read": ["/run/docker.sock"], "unsafe": ["/run/docker.sock"]}}
    found = left(asked, base, privileged=False)
    assert found.fs and found.fs.read == ("/run/docker.sock",) and found.fs.unsafe == ()


@pytest.mark.parametrize(
    "asked",
    [{"fs": {"read": ["/srv/closed/open"]}}, {"fs": {"write": ["/srv/out/x"]}}],
    ids=str,
)
def test_a_privileged_supervisor_opens_no_part_of_a_grant(asked: dict[str, Any]) -> None:
    """It could look into folders that the box's user may not enter; one without privilege
    cannot, and grants the part."""
    with pytest.raises(AxonError, match="under root"):
        left(asked)
    assert left(asked, privileged=False).fs is not None


def test_a_program_by_its_path_is_one_of_the_agents() -> None:
    """A path would be one more thing that is put into the box."""
    assert left({"shell": {"allow": ["/srv/tool"]}}).shell is not None
    with pytest.raises(AxonError, match="not the agent's"):
        left({"shell": {"allow": ["/root/tool"]}}, {"net": {"allow": ["a.test:443"]}})
