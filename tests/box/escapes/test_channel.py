"""The agent attacks its supervisor over the one descriptor that they share.

What such an attack must not do: harm the supervisor, silence the record of how the run ended,
leave the log damaged, or have descriptors of the supervisor's handed out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from axonkernel.audit.verify import verify
from lab.agents import Project

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

POLICY: dict[str, Any] = {"fs": {"write": ["./out"]}, "limits": {"wall": "4s"}}
ATTACK = """
from axonkernel.box.child import session


def send(body, length=None):
    os.write(3, (len(body) if length is None else length).to_bytes(4, "big") + body)


def record(fields):
    head = {"type": "audit", "id": session().hello["run"] + "0" * 8, "kind": "decision"}
    send(json.dumps(head).encode()[:-1] + b', "fields": ' + fields + b"}")
"""
ATTACKS = {
    "a frame of four gigabytes": "os.write(3, b'\\xff\\xff\\xff\\xff')",
    "a frame over the cap": "send(b'', 9 << 20)",
    "half a frame": "send(b'{', 100)",
    "not JSON": "send(b'\\xff' * 100)",
    "no object": "send(b'[1, 2]')",
    "deeper than can be read": "send(b'[' * 400_000)",
    "a type that cannot be one": "send(b'{\"type\": []}')",
    "a number beyond all bounds":
        "send(b'{\"type\": \"ask\", \"number\": 1e999, \"question\": {}}')",
    "half a character": "record(b'{\"a\": \"\\\\ud800\"}')",
    "a number that is none": "record(b'{\"a\": NaN, \"b\": -Infinity}')",
    "digits without end": "record(b'{\"a\": ' + b'9' * 5000 + b'}')",
    "nested as far as it is read": "record(b'{\"a\":' * 300 + b'1' + b'}' * 300)",
    "nested deeper than it is written": "record(b'{\"a\":' * 960 + b'1' + b'}' * 960)",
    "its end of the channel closed": "os.close(3)",
    "its end shut down for writing": "socket.socket(fileno=os.dup(3)).shutdown(1)",
    "descriptors by the hundred":
        "[socket.send_fds(socket.socket(fileno=os.dup(3)), [b'\\0'], [0] * 200)"
        " for _ in range(2)]",
}  # fmt: skip

#: One for each road that a message can take; the others are run by `make test-deep`.
QUICK = (
    "a frame of four gigabytes", "deeper than can be read", "a number beyond all bounds",
    "nested as far as it is read",
)  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "home")


@pytest.mark.parametrize(
    "attack",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.deep) for name in ATTACKS],
)
def test_an_attack_on_the_channel_harms_nobody_but_the_agent(project: Project, attack: str) -> None:
    """The supervisor ends by itself, shows no fault of its own, and has recorded the end."""
    project.agent(POLICY, f"{ATTACKS[attack]}; time.sleep(0.3); return 'survived'", before=ATTACK)
    ended = project.run_agent()
    assert ended.code in (0, 1, 74, 137) and "Traceback" not in ended.err, ended.err
    records = project.records()
    assert [r["kind"] for r in records if r["kind"].startswith("box.")] == ["box.start", "box.end"]
    assert verify(project.home / "state" / "axonkernel" / "audit.jsonl") == ()


def test_the_channel_hands_out_no_descriptor(project: Project) -> None:
    """What comes from the supervisor brings no descriptor, and the socket leads nowhere else."""
    body = """
    sock = socket.socket(fileno=os.dup(3))
    before = set(os.listdir("/proc/self/fd"))
    return [sock.family == socket.AF_UNIX, sock.getpeername() or "", errno_of(sock.listen),
            errno_of(os.open, "/proc/self/fd/3", os.O_RDWR)]
    """
    project.agent(POLICY, body, before=ATTACK)
    ended = project.run_agent()
    assert ended.value == [True, "", "EINVAL", "ENXIO"], ended.err
