"""What systemd finds in the lab: one target of ours, nothing this machine enabled."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct

#: Units that would change the machine rather than the lab, or only cost time.
MASKED = (
    "systemd-sysctl.service systemd-modules-load.service systemd-binfmt.service "
    "systemd-udevd.service systemd-udevd-control.socket systemd-udevd-kernel.socket "
    "systemd-udev-trigger.service systemd-udev-settle.service systemd-networkd.service "
    "systemd-resolved.service systemd-timesyncd.service systemd-random-seed.service "
    "systemd-tmpfiles-setup-dev.service systemd-journal-flush.service systemd-pstore.service "
    "systemd-hwdb-update.service proc-sys-fs-binfmt_misc.automount dev-hugepages.mount "
    "dev-mqueue.mount sys-kernel-config.mount sys-kernel-debug.mount sys-kernel-tracing.mount "
    "sys-fs-fuse-connections.mount modprobe@.service getty.target remote-fs.target"
).split()
TARGET = """[Unit]
Description=Everything the lab needs
Requires=basic.target dbus.socket
Wants=systemd-logind.service dbus.service
After=basic.target dbus.socket systemd-logind.service
AllowIsolate=yes
"""


def furnish(uid: int, name: str, home: str) -> None:
    """Leave systemd only the lab's own target; give the ordinary user a home and a manager."""
    for folder in ("/etc/systemd/system", "/etc/systemd/user"):
        drop_wants(folder)
    for unit in MASKED:
        path = f"/etc/systemd/system/{unit}"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        os.symlink("/dev/null", path)
    write("/etc/systemd/system/axonlab.target", TARGET)
    write("/etc/fstab", "")
    write("/etc/crypttab", "")
    write("/etc/hostname", "axonlab\n")
    os.makedirs("/var/lib/systemd/linger", exist_ok=True)
    write(f"/var/lib/systemd/linger/{name}", "")
    os.makedirs(home, exist_ok=True)
    os.chown(home, uid, uid)
    socket.sethostname("axonlab")


def drop_wants(folder: str) -> None:
    """Disable every unit this machine enabled: none of them belongs into the lab."""
    for parent, _, files in os.walk(folder):
        if parent.endswith((".wants", ".requires")):
            for name in files:
                os.unlink(os.path.join(parent, name))


def write(path: str, text: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def add_user(uid: int) -> tuple[str, str]:
    """Name and home of the uid; it is added to the lab's passwd when nobody has it."""
    with open("/etc/passwd") as lines:
        for line in lines:
            fields = line.rstrip("\n").split(":")
            if len(fields) > 5 and fields[2] == str(uid):
                return fields[0], fields[5]
    # "*", not "x": PAM lets nobody in who should be in the shadow file and is not.
    for path, line in (
        ("/etc/passwd", f"axonlab:*:{uid}:{uid}::/home/axonlab:/bin/sh\n"),
        ("/etc/group", f"axonlab:x:{uid}:\n"),
    ):
        with open(path, "a") as file:
            file.write(line)
    return "axonlab", "/home/axonlab"


def raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        # SIOCSIFFLAGS, IFF_UP
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh22x", b"lo", 1))
