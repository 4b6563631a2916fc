"""What every box with a file wall can read: data.

What each program brings beside that is in its profile (axonkernel/policy/profiles/data).

The floor makes ordinary programs start (libraries, locale, time zone, certificates) and holds
no program and no secret. Standard library only.
"""

from __future__ import annotations

__all__ = [
    "BIN_FOLDERS",
    "COPIED",
    "KERNEL_FILES",
    "LIBRARY_FOLDERS",
    "SHARED",
    "USR_LINKS",
]

#: Names at / that are links into /usr on a merged system, and folders elsewhere.
USR_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")

#: Where programs live; with a program wall these hold only what the policy names.
BIN_FOLDERS = (
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
    "/usr/games",
    "/usr/local/games",
    "/usr/libexec",
)

#: Folders of shared libraries, beside those that /etc/ld.so.conf names.
LIBRARY_FOLDERS = ("/lib64", "/usr/lib64", "/lib32", "/usr/lib32")

#: Small files copied into the box's own /etc: a copy costs no mount.
COPIED = (
    "/etc/debian_version",
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/inputrc",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/protocols",
    "/etc/services",
    "/etc/timezone",
)

#: Read-only in a box that runs as uid 0.
KERNEL_FILES = (
    "/proc/acpi",
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/mtrr",
    "/proc/scsi",
    "/proc/sys",
    "/proc/sysrq-trigger",
)

#: Folders without programs, shared read-only.
SHARED = (
    "/etc/alternatives",
    "/etc/ld.so.conf.d",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ca-certificates",
    "/etc/pki/tls/certs",
    "/etc/terminfo",
    "/usr/lib/locale",
    "/usr/lib/ssl",
    "/usr/lib/terminfo",
    "/usr/share/ca-certificates",
    "/usr/share/i18n",
    "/usr/share/locale",
    "/usr/share/mime",
    "/usr/share/terminfo",
    "/usr/share/zoneinfo",
)
