"""Whatever the host's /etc/resolv.conf is, a box has one that works.

Each layout lies in a mount namespace of the test's own, beside the private internet.
"""

from __future__ import annotations

import pytest

from box.boxed import Boxed
from lab.internet import ADDRESSES, Internet

pytestmark = [
    pytest.mark.requires("box", "net", "root"),
    pytest.mark.usefixtures("leftovers"),
]

#: Makes /etc/resolv.conf in a copy of /etc that only this namespace sees; $1 is its text.
LAYOUTS = {
    "plain": 'printf %s "$1" > resolv.conf',
    "into /run": "mkdir -p /run/systemd/resolve && "
    'printf %s "$1" > /run/systemd/resolve/stub-resolv.conf && '
    "ln -s /run/systemd/resolve/stub-resolv.conf resolv.conf",
    "relative chain": 'mkdir -p sub && printf %s "$1" > sub/real && '
    "ln -s sub/real other && ln -s other resolv.conf",
    "dangling": "ln -s /mnt/wsl/resolv.conf resolv.conf",
    "missing": "true",
}
SCRIPT = """
mount -t tmpfs -o mode=755 run /run && mount -t tmpfs -o mode=755 etc /mnt &&
cp -a /etc/. /mnt && rm -f /mnt/resolv.conf && (cd /mnt && %s) && mount --bind /mnt /etc &&
umount -l /mnt && shift && exec "$@"
"""
POLICIES = {
    "closed": 'default = "deny"\n[fs]\nread = ["."]\n[net]\nallow = ["api.test"]\n{}',
    "whole tree": '[fs]\nread = ["/"]\n[net]\nallow = ["api.test"]\n{}',
    "open network": '[fs]\nread = ["."]\n',
    "open network, whole tree": '[fs]\nread = ["/"]\n',
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_names_are_found(near: Boxed, net: Internet, layout: str) -> None:
    """In boxes with a network of their own by its resolver, in others by the host's; where the
    host has none, by ``net.resolver``."""
    none = layout in ("dangling", "missing")
    own = f'resolver = "{ADDRESSES["dns"]}"\n' if none else ""
    script = ["unshare", "--mount", "sh", "-c", SCRIPT % LAYOUTS[layout], "sh", net.resolv_conf]
    for kind, text in POLICIES.items():
        if kind.startswith("open") and layout not in ("plain", "into /run"):
            continue
        policy = near.root / "p.toml"
        policy.write_text(text.format(own).replace('"."', f'"{near.project}"'))
        ended = near.exec(
            "--policy", policy,
            command=["getent", "ahostsv4", "api.test"],
            prefix=[*near.prefix, *script],
        )  # fmt: skip
        assert ended.code == 0, (layout, kind, ended)
        assert ended.text.split()[0] == ADDRESSES["one4"], (layout, kind)
