"""What has to be fast, or comes in by doors that Python does not have: compiled from C."""

from __future__ import annotations

import errno
import subprocess

from axonkernel.escapes.attempt import Group, Refused, Sign
from axonkernel.escapes.scene import Scene

__all__ = ["GROUP"]

GROUP = Group("compiled attacks", "seccomp filter", "seccomp")
#: How the program ends where a call failed: this and the errno.
_FAILED = 100


def _ran(scene: Scene, *words: str) -> str:
    done = subprocess.run(
        [scene.program, *words], capture_output=True, timeout=6, encoding="latin-1"
    )
    if done.returncode < 0:
        raise Refused(f"signal {-done.returncode}")
    if done.returncode >= _FAILED:
        code = done.returncode - _FAILED
        raise OSError(code, errno.errorcode.get(code, str(code)))
    if done.returncode:
        raise Refused(f"exit {done.returncode}")
    return done.stdout


def _add(
    id: str, text: str, meaning: str, sign: Sign, *words: str, ask: str = "", wall: str = ""
) -> None:
    def do(scene: Scene) -> str:
        return _ran(scene, id, *(word.format_map(scene._asdict()) for word in words))

    GROUP.add(id, text, meaning, sign, do, "plain", ask, wall, needs="compiler")


_SECRET = "{outside}/secret"
_READ = f"read {_SECRET}"
_OTHERWISE = "A call comes in by a door where the filter counts otherwise."
_MORE_BITS = "A filter that compares more bits than the kernel is dodged."
_BETWEEN = "A path is changed between the moment it is judged and that of its use."

_add("c-int80-read", "read a file by int 0x80", _OTHERWISE, "loot", _SECRET, ask=_READ)
_add("c-int80-unshare", "unshare by int 0x80", _OTHERWISE, "claim", ask="userns")
_add("c-x32-read", "read a file by x32 calls", _OTHERWISE, "loot", _SECRET, ask=_READ)
_add("c-far-jump", "switch the processor to 32 bits", _OTHERWISE, "claim")
_add("c-high-flags", "flags with high bits set", _MORE_BITS, "claim", ask="userns")
_add("c-socket-high", "a socket family with high bits", _MORE_BITS, "claim")
_add("c-ioctl-high", "TIOCSTI with high bits", _MORE_BITS, "claim")
_add("c-clone-thread", "a namespace from a thread",
     "Another thread of the agent is not filtered.", "claim", ask="userns")  # fmt: skip
_add("c-vfork", "a namespace from vfork",
     "A child that shares memory is not filtered.", "claim", ask="userns")  # fmt: skip
_add("c-trace-child", "trace a child past its filter",
     "A tracer changes a call after it was judged.", "claim")  # fmt: skip
_add("c-race-denied", "exchange a link and a file, fast", _BETWEEN, "loot", "{project}",
     ask="read {project}/denied", wall="mask")  # fmt: skip
_add("c-race-outside", "exchange a folder and a link, fast", _BETWEEN, "mark", "{project}",
     "{outside}/", ask="write {outside}/x", wall="mount namespace")  # fmt: skip
