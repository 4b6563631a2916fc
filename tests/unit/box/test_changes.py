"""What links changed is written down, found when nobody holds it, and put back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from axonkernel.box import changes
from axonkernel.box.net import Switch

HERE = changes.network_here()
GONE = "1-00"
IP4 = Switch("ipv4/conf/up0/forwarding", "0", "1")
RA = Switch("ipv6/conf/up0/accept_ra", "1", "2")
ALL6 = Switch("ipv6/conf/all/forwarding", "0", "1")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Records and settings in a folder of the test."""
    monkeypatch.setattr(changes, "FOLDER", str(tmp_path / "links"))
    monkeypatch.setattr(changes, "_SYSCTL", f"{tmp_path}/net/")
    for switch in (IP4, RA, ALL6, Switch("ipv4/ip_forward", "0", "1")):
        path = tmp_path / "net" / switch.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(switch.before + "\n")
    return tmp_path / "links"


def test_a_record_lives_as_long_as_its_keeper(folder: Path) -> None:
    """Held: not abandoned. Let go without a word, as by SIGKILL: abandoned. Ended: gone, and
    the folder with it."""
    with changes.changes() as known:
        record = known.begin("aa")
        assert known.in_use and list(known.abandoned()) == []
    os.close(record)
    with changes.changes() as known:
        assert known.in_use and list(known.abandoned()) == ["aa"]
        known.end("aa")
        assert not known.in_use
    assert not folder.exists()


def test_the_same_network_is_the_same_and_another_is_not() -> None:
    """What another network left is not touched while it has processes, and forgotten after."""
    assert changes.network_here() == HERE
    with changes.changes() as known:
        os.close(known._replace(network=f"{os.stat('/proc/self/ns/net').st_ino}-other").begin("aa"))
        os.close(known._replace(network=GONE).begin("bb"))
        known._replace(network=GONE).note((IP4,))
        known.forget_the_gone()
        assert sorted(os.listdir(changes.FOLDER)) == ["link-aa"]
        assert not known.in_use and list(known.abandoned()) == []


def test_settings_are_put_back_in_reverse() -> None:
    """Those of two boxes together, each with the value from before the first."""
    with changes.changes() as known:
        known.switch(known.note((IP4,)))
        noted = known.note((RA, ALL6, IP4._replace(before="1")))
        assert noted == (IP4, RA, ALL6)
        known.switch((RA, ALL6))
        assert [changes.read_setting(each.path) for each in noted] == ["1", "2", "1"]
        known.switch_back()
        assert [changes.read_setting(each.path) for each in noted] == ["0", "1", "0"]
        assert known.switched() == ()


def test_what_others_changed_since_is_theirs() -> None:
    """A value that is no longer the one we set stays; so does all of IPv4 once the host
    forwards by its own switch."""
    with changes.changes() as known:
        known.switch(known.note((IP4, RA)))
        changes.write_setting(RA.path, "0")
        changes.write_setting("ipv4/ip_forward", "1")
        known.switch_back()
        assert changes.read_setting(RA.path) == "0" and changes.read_setting(IP4.path) == "1"


def test_an_interface_that_is_gone_is_no_error() -> None:
    """Neither when its setting is made nor when it is put back."""
    gone = Switch("ipv4/conf/gone0/forwarding", "0", "1")
    with changes.changes() as known:
        known.switch(known.note((gone,)))
        assert changes.read_setting(gone.path) is None
        known.switch_back()


def test_two_processes_take_turns(folder: Path) -> None:
    """The second waits for the folder; what the first removed does not confuse it."""
    read, write = os.pipe()
    with changes.changes() as known:
        child = os.fork()
        if child == 0:
            os.write(write, b"up ")
            with changes.changes() as again:
                os.write(write, b"first" if again.in_use else b"second")
            os._exit(0)
        assert os.read(read, 3) == b"up "
        os.close(known.begin("aa"))
        known.end("aa")
    os.waitpid(child, 0)
    assert os.read(read, 9) == b"second" and not folder.exists()
    os.close(read)
    os.close(write)
