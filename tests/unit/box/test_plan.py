"""Policy + host -> plan, read as values: environment, network, limits, user, warnings."""

from __future__ import annotations

import json

import pytest

from axonkernel.box.host import Ask, Entry
from axonkernel.box.model import AskPlan, LimitsPlan, Mount, NetPlan, decode_plan
from unit.box.hosts import ASK, USER, entries, host, plan


def test_the_whole_closed_box() -> None:
    """Every step of the smallest box, in order: a snapshot to read."""
    found = plan({"default": "deny", "fs": {"read": ["a"]}}, host(grants=entries("/ws/a")))
    shown = [f"{m.kind} {m.dest}" + (f" <- {m.source}" if m.source else "") for m in found.mounts]
    assert shown == [
        "symlink /bin <- usr/bin",
        "symlink /lib <- usr/lib",
        "copy /etc/localtime <- /etc/localtime",
        "data /etc/passwd",
        "data /etc/group",
        "data /etc/hosts",
        "data /etc/resolv.conf",
        "dev /dev",
        "proc /proc",
        "tmpfs /run",
        "tmpfs /tmp",
        "tmpfs /home/ann",
        "tmpfs /var/tmp",
        "ro-bind /ws/a <- /ws/a",
        "ro-bind /usr/bin/uname <- /usr/bin/uname",
        "ro-bind /usr/lib/x86_64-linux-gnu <- /usr/lib/x86_64-linux-gnu",
        "ro-bind /usr/share/zoneinfo <- /usr/share/zoneinfo",
        "remount-ro /",
    ]


def test_the_user_is_the_only_one() -> None:
    """passwd and group hold this user and nobody."""
    found = plan({"default": "deny"}, host())
    texts = {mount.dest: mount.data for mount in found.mounts if mount.kind == "data"}
    assert texts["/etc/passwd"].splitlines() == [
        "ann:x:1000:1000::/home/ann:/bin/sh",
        "nobody:x:65534:65534::/nonexistent:/bin/false",
    ]
    assert texts["/etc/group"].splitlines() == ["ann:x:1000:", "nogroup:x:65534:"]


def test_the_environment_is_built_from_nothing() -> None:
    """The floor, what the box decides, what is set, what is let in; sorted."""
    policy = {"default": "deny", "env": {"allow": ["TOKEN"], "set": {"MODE": "x"}}}
    env = dict(plan(policy, host()).env)
    assert env == {
        "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "HOME": "/home/ann", "LANG": "C.UTF-8",
        "LOGNAME": "ann", "MODE": "x", "PAGER": "cat", "PATH": "/usr/local/bin:/usr/bin",
        "TMPDIR": "/tmp", "TOKEN": "t", "USER": "ann",
    }  # fmt: skip
    assert list(env) == sorted(env)


def test_an_absent_environment_block_keeps_it() -> None:
    """``env`` not declared: the supervisor's variables, under what the box decides."""
    env = dict(plan({"fs": {"read": ["a"]}}, host()).env)
    assert env["SECRET"] == "s" and env["HOME"] == "/home/ann"


API = ("api.test", "tcp", "443")


@pytest.mark.parametrize(
    ("net", "expected"),
    [
        ({"allow": []}, NetPlan()),
        (
            {"allow": ["api.test:443", "*:1-9/udp"], "deny": ["*.b.test"], "escalate": ["c.test"]},
            NetPlan(
                link="pasta",
                ask=AskPlan(("c.test:443",), ("*.b.test:443",)),
                names=(("api.test", "tcp", "443"), ("*", "udp", "1-9")),
                denied=(("*.b.test", "tcp", "443"),),
                asked=(("c.test", "tcp", "443"),),
            ),
        ),
        ({"allow": ["api.test"], "dns": "off"}, NetPlan(names=(API,), dns="off")),
        (
            {"allow": ["api.test"], "dns": "open", "resolver": "9.9.9.9"},
            NetPlan(link="pasta", names=(API,), dns="open", resolver="9.9.9.9"),
        ),
        (
            {"allow": ["9.9.9.9:443", "[2a0e::1]:7/udp"]},
            NetPlan(allow=(("9.9.9.9", "tcp", "443"), ("2a0e::1", "udp", "7")), link="pasta"),
        ),
        (
            {"allow": ["10.0.0.0/8:80-90"], "deny": ["10.1.0.0/16:80-90"], "refuse": "drop"},
            NetPlan(
                allow=(("10.0.0.0/8", "tcp", "80-90"),),
                deny=(
                    ("10.1.0.0/16", "tcp", "80-90"),
                    # The same by NAT64 and 6to4.
                    ("64:ff9b::a01:0/112", "tcp", "80-90"),
                    ("2002:a01::/32", "tcp", "80-90"),
                ),
                link="pasta",
                refuse="drop",
            ),
        ),
        ({"allow": True, "link": "veth"}, NetPlan(open=True, link="veth")),
    ],
    ids=str,
)
def test_the_network_plan(net: dict[str, object], expected: NetPlan) -> None:
    """Literal destinations are in it; with none there is no link at all."""
    assert plan({"net": net}, host()).net == expected


def test_an_absent_network_block_keeps_the_hosts() -> None:
    """None, which is not the same as a network without a link."""
    assert plan({"fs": {"read": ["a"]}}, host()).net is None
    assert plan({"default": "deny"}, host()).net == NetPlan(dns="off")


def test_a_broad_network_has_no_metadata_address() -> None:
    """The parts of 0.0.0.0/0 leave out link-local and metadata; a literal entry has it."""
    from ipaddress import ip_address, ip_network

    def covers(entry: str, address: str) -> bool:
        net = plan({"net": {"allow": [entry]}}, host()).net
        assert net is not None
        return any(ip_address(address) in ip_network(part) for part, _, _ in net.allow)

    for entry, metadata, other in (
        ("0.0.0.0/0:80", "169.254.169.254", "9.9.9.9"),
        ("0.0.0.0/0:80", "100.100.100.200", "100.100.100.201"),
        ("[::]/0:80", "fd00:ec2::254", "fd00:ec1::254"),
        ("[::]/0:80", "64:ff9b::a9fe:a9fe", "64:ff9b::909:909"),
        ("[::]/0:80", "fe80::1", "2a0e::1"),
    ):
        assert not covers(entry, metadata) and covers(entry, other), entry
    assert covers("169.254.169.254:80", "169.254.169.254")
    assert covers("169.254.0.0/16:80", "169.254.169.254")


def test_limits_and_scratch_size() -> None:
    """Each in its unit; ``disk`` is the size that all private folders share."""
    limits = {"memory": "1G", "cpu": "150%", "wall": "2m", "pids": 20, "disk": "16M"}
    found = plan({"limits": limits}, host())
    assert found.limits == LimitsPlan(1 << 30, 1500, 120.0, 20)
    sizes = {mount.dest: mount.size_bytes for mount in found.mounts if mount.size_bytes}
    assert set(sizes.values()) == {16 << 20}
    assert set(sizes) == {"/tmp", "/var/tmp", "/run", "/dev/shm"}  # HOME is the host's here
    closed = plan({"fs": {"read": ["a"]}, "limits": {"disk": "16M"}}, host())
    assert Mount("tmpfs", host().user.home, mode=0o700, size_bytes=16 << 20) in closed.mounts
    assert Mount("remount-ro", "/dev") in closed.mounts
    assert Mount("remount-ro", "/dev") not in plan({"fs": {"read": ["a"]}}, host()).mounts
    assert plan({"fs": {"read": ["a"]}}, host()).limits is None


def test_systemds_clock_leaves_time_for_questions() -> None:
    """It runs on while a human is asked: a policy that never asks needs little slack."""
    limits = {"wall": "1m"}
    asking = {"limits": limits, "tools": {"*": "escalate"}, "escalation": {"timeout": "30s"}}
    for policy, slack_s in (({"limits": limits}, 5.0), (asking, 3005.0)):
        found = plan(policy, host()).limits
        assert found is not None and found.slack_s == slack_s


def test_whom_the_agent_runs_as() -> None:
    """Only where the supervisor changes the user."""
    assert plan({"default": "deny"}, host()).run_as is None
    assert plan({"default": "deny"}, host(switch_user=True)).run_as == (USER.uid, USER.gid)


@pytest.mark.parametrize(
    ("fs", "grants", "cwd", "expected"),
    [
        ({"read": ["."]}, entries("/ws"), "/ws", "/ws"),
        ({"read": ["."]}, entries("/ws"), "/ws/deep/er", "/ws/deep/er"),
        ({"read": ["a/b"]}, entries("/ws/a/b"), "/ws", "/ws"),
        ({"read": ["."]}, entries("/ws"), "/wsx", "/home/ann"),
        ({"read": ["."]}, entries("/ws"), "/etc", "/home/ann"),
        ({"read": ["/"]}, entries("/"), "/srv/x", "/srv/x"),
        ({"read": ["/"]}, entries("/"), "/tmp/x", "/home/ann"),
        ({"read": ["/tmp/x"]}, entries("/tmp/x"), "/tmp/x", "/tmp/x"),
        ({"read": ["gone"]}, (Entry("/ws/gone", "missing"),), "/ws", "/home/ann"),
        ({"write": ["gone"]}, (Entry("/ws/gone", "missing"),), "/ws", "/ws"),
        (None, (), "/srv/x", "/srv/x"),
        (None, (), "/tmp/x", "/home/ann"),
    ],
    ids=str,
)
def test_the_working_directory(
    fs: dict[str, object] | None, grants: tuple[Entry, ...], cwd: str, expected: str
) -> None:
    """The caller's where the box has it, else HOME; one line where it is not as outside."""
    data = {"env": {}} if fs is None else {"fs": fs}
    found = plan(data, host(grants=grants), Ask("exec", cwd))
    assert found.cwd == expected
    whole = fs is None or any(entry.path in (cwd, "/", "/ws") for entry in grants)
    missing = sum(entry.kind == "missing" for entry in grants)
    assert len(found.warnings) - missing == (not whole or expected == "/home/ann")


def test_a_folder_around_the_grants_is_told_to_be_empty_but_for_them() -> None:
    """One may be in it; what else lies there outside is not there."""
    found = plan({"fs": {"read": ["a/b"]}}, host(grants=entries("/ws/a/b")), Ask("exec", "/ws"))
    assert found.warnings == (
        "/ws is not granted: in the box it holds only what is granted below it",
    )


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("api.test:443", ""),
        ("*.test:443", ""),
        ("public:443", ""),
        ("127.0.0.1:80", "a loopback of its own"),
        ("127.8.0.0/16:80", "a loopback of its own"),
        ("[::1]:80", "a loopback of its own"),
        ("9.9.9.9:443", ""),
        ("128.0.0.0/8:80", ""),
        ("[2a0e::1]:443", ""),
    ],
)
def test_destinations_that_open_nothing_are_told(entry: str, told: str) -> None:
    """Loopback, which is the box's own; others are quiet."""
    warnings = plan({"net": {"allow": [entry]}}, host()).warnings
    assert len(warnings) == bool(told)
    assert all(f"net.allow {entry}: " in line and told in line for line in warnings)


def test_what_is_missing_is_told() -> None:
    """Reads are skipped, writes made, programs named."""
    grants = (*entries("/ws"), *entries("/ws/r", "/ws/w", kind="missing"))
    found = plan(
        {"fs": {"read": [".", "r"], "write": ["w"]}},
        host(grants=grants, missing_programs=("nope",)),
    )
    assert found.create == ("/ws/w",)
    assert [line for line in found.warnings if "/ws/r does not exist; skipped" in line]
    assert [line for line in found.warnings if "/ws/w does not exist; made" in line]
    assert [line for line in found.warnings if "nope" in line]
    assert {mount.dest: mount.kind for mount in found.mounts}["/ws/w"] == "bind"
    assert "/ws/r" not in [mount.dest for mount in found.mounts]


def test_nested_user_namespaces_are_asked_for() -> None:
    """Denied by default."""
    assert plan({"default": "deny"}, host()).deny_new_userns
    assert not plan({"default": "deny", "box": {"nested_userns": True}}, host()).deny_new_userns


def test_a_plan_survives_json() -> None:
    """It can be kept and sent: what comes back is equal."""
    policy = {
        "default": "deny",
        "fs": {"write": ["."]},
        "net": {"allow": ["9.9.9.9:443"]},
        "limits": {"memory": "1G"},
    }
    found = plan(policy, host(grants=entries("/ws"), switch_user=True))
    assert decode_plan(json.loads(json.dumps(found))) == found
    assert ASK.role == "exec"


def test_a_writable_folder_on_path_is_told() -> None:
    """A program put there would run outside; a folder that is only read is no matter, nor is
    the whole file system, of which that is plain."""
    env = (("PATH", "/usr/bin:/ws/venv/bin:relative"),)
    told = "/ws/venv/bin is on PATH and can be written: what is put there runs outside by name"
    found = host(grants=entries("/ws"), env=env)
    assert plan({"fs": {"write": ["."]}}, found).warnings == (told,)
    assert plan({"fs": {"read": ["."]}}, found).warnings == ()
    whole = {"fs": {"write": ["/"], "protect": False}}
    assert plan(whole, host(grants=entries("/"), env=env)).warnings == ()
