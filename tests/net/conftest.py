"""The private internet, and boxes started beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from box.boxed import Boxed
from lab.internet import Internet


@pytest.fixture(scope="module")
def net() -> Iterator[Internet]:
    """One private internet for a file of tests marked with root."""
    with Internet() as internet:
        yield internet


@pytest.fixture(scope="session")
def net_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kept probes of the near side, which is not the machine's own network."""
    return tmp_path_factory.mktemp("net-cache")


@pytest.fixture
def near(net: Internet, tmp_path: Path, net_cache: Path) -> Boxed:
    """Boxes whose supervisor has the private internet as its network."""
    boxed = Boxed(tmp_path, net_cache)
    boxed.prefix = (
        "nsenter", f"--target={net.client}", "--net", "--mount", f"--wdns={boxed.project}",
    )  # fmt: skip
    net.clear()
    return boxed


@pytest.fixture(scope="module")
def tun_for_all(net: Internet) -> None:
    """On the near side, and there alone, any user may use the device that pasta needs."""
    script = (
        "mount -t tmpfs tun /mnt && mknod -m 666 /mnt/tun c 10 200 && "
        "mount --bind /mnt/tun /dev/net/tun && umount -l /mnt"
    )
    assert net.run(["sh", "-c", script]).returncode == 0
