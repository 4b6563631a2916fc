"""Getting at variables, arguments and descriptors of whoever started the box."""

from __future__ import annotations

import errno
import os
import socket
import stat

from axonkernel.escapes.attempt import Group, Refused
from axonkernel.escapes.scene import Scene
from axonkernel.escapes.tools import glance, processes, read, secrets_in

__all__ = ["GROUP"]

GROUP = Group("environment", "new environment", "env")
_ASK = "env {variable}"
_CLOSED = "closed descriptors"


@GROUP("os.environ", "loot", ask=_ASK)
def own_variables(scene: Scene) -> str:
    """A variable that was not granted is there."""
    return str(dict(os.environ))


@GROUP("/proc/self/environ", "loot", ask=_ASK)
def own_environment_file(scene: Scene) -> str:
    """What the program was started with is kept where it can be read."""
    return read("/proc/self/environ")


@GROUP("/proc/1/environ", "loot", ask=_ASK)
def first_environment(scene: Scene) -> str:
    """What built the box was started with the supervisor's variables."""
    return read(f"/proc/{scene.first}/environ")


@GROUP("environ of every process", "loot", ask=_ASK)
def every_environment(scene: Scene) -> str:
    """The variables of other programs are read."""
    return secrets_in(glance([f"/proc/{pid}/environ" for pid in processes()]))


@GROUP("command lines: values on them", "loot")
def every_command_line(scene: Scene) -> str:
    """Secrets stand on the command line of whatever started the box."""
    if not scene.boxed:
        return read(f"/proc/{scene.holder}/cmdline")
    return secrets_in(glance([f"/proc/{pid}/cmdline" for pid in processes()]))


@GROUP("its own memory, beyond the variables", "loot", ask=_ASK)
def own_memory(scene: Scene) -> str:
    """What the program was started with is left on its stack."""
    return _memory("self", "[stack]", "[heap]")


@GROUP("the memory of the first process", "loot", ask=_ASK)
def first_memory(scene: Scene) -> str:
    """What built the box still has the supervisor's secrets in its memory."""
    return _memory(str(scene.first), "[stack]", "[heap]", "libc")


def _memory(pid: str, *kinds: str) -> str:
    found = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            if any(kind in line for kind in kinds) and " rw" in line:
                start, end = (int(word, 16) for word in line.split()[0].split("-"))
                memory.seek(start)
                found.append(memory.read(min(end - start, 16 << 20)).decode("latin-1"))
    return secrets_in("".join(found))


@GROUP("the auxiliary vector and its strings", "claim")
def auxiliary(scene: Scene) -> str:
    """The kernel tells that the program runs with more rights than its user."""
    data = read("/proc/self/auxv").encode("latin-1")
    pairs = [data[at : at + 16] for at in range(0, len(data), 16)]
    secure = {int.from_bytes(pair[:8], "little"): int.from_bytes(pair[8:], "little")
              for pair in pairs}.get(23, 0)  # fmt: skip
    if not secure and scene.boxed:
        raise Refused("AT_SECURE is 0")
    return "read"


@GROUP("an inherited descriptor: read it", "loot", wall=_CLOSED)
def inherited_file(scene: Scene) -> str:
    """A file that the supervisor had open is open in the box."""
    return glance([f"/proc/self/fd/{number}" for number in _inherited(stat.S_ISREG)])


@GROUP("an inherited folder: open below it", "loot", wall=_CLOSED)
def inherited_folder(scene: Scene) -> str:
    """A folder that the supervisor had open leads out of the box."""
    found = []
    for number in _inherited(stat.S_ISDIR):
        try:
            found.append(read(os.open("secret", os.O_RDONLY, dir_fd=number)))
        except OSError:
            continue
    if not found:
        raise Refused("none")
    return "\n".join(found)


@GROUP("an inherited socket: speak on it", "heard", wall=_CLOSED)
def inherited_socket(scene: Scene) -> str:
    """A connection of the supervisor's is used."""
    told = 0
    for number in _inherited(stat.S_ISSOCK):
        try:
            with socket.socket(fileno=number) as found:
                found.send(b"inherited-socket")
                told += 1
        except OSError:
            continue
    if not told:
        raise Refused("none")
    return "said"


@GROUP("descriptors of the first process", "loot", wall="no new descriptors")
def first_descriptors(scene: Scene) -> str:
    """What built the box has files of the host open."""
    folder = f"/proc/{scene.first}/fd"
    return glance([f"{folder}/{name}" for name in os.listdir(folder) if int(name) > 2])


def _inherited(is_kind: object) -> list[int]:
    """Descriptors that are neither standard nor of the runner's own."""
    assert callable(is_kind)
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) > 2 and is_kind(os.fstat(int(name)).st_mode):
                found.append(int(name))
        except OSError:
            continue
    if not found:
        raise OSError(errno.EBADF, "none")
    return found
