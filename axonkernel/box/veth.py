"""A veth link between the host and a box, made from outside by root.

Thin: ``net.py`` says what to make, ``changes.py`` keeps what was changed. pyroute2 takes a tenth
of a second to import, so nothing but the keeper of such a link imports this file.
"""

from __future__ import annotations

import contextlib
import glob
import os
import time
from typing import Any

from axonkernel.box import changes, nft
from axonkernel.box.linux import CLONE_NEWNET, set_namespace
from axonkernel.box.model import NetPlan
from axonkernel.box.net import (
    BOX_LINK,
    GUARD,
    ID_LENGTH,
    HostNetwork,
    Switch,
    VethPlan,
    guard_table,
    host_table,
    removal,
    switches,
    veth_plan,
)
from axonkernel.errors import BoxError, IsolationUnavailable

__all__ = ["Veth", "attempt", "sweep", "warm_up"]

_IFA_F_NODAD = 2
_LOCAL_TABLE, _MAIN_TABLE = 255, 254
_UNICAST = 1
_READY_WITHIN_S = 3.0
#: Interfaces of one network namespace have other numbers than those of another: the kernel
#: takes a link whose ends share one for no link at all, and is in no hurry to bring it up.
_BOX_INDEX = 1_000_000


class Veth:
    """The link of one box, from the host's side. Its import and this take most of the time.

    Arguments:
        net: the box's network.

    Raises IsolationUnavailable without root or pyroute2.
    """

    def __init__(self, net: NetPlan) -> None:
        self._net = net
        self._id = os.urandom(ID_LENGTH // 2).hex()
        self._made = False
        self._host = _netlink()

    def up(self, target: int) -> None:
        """Link the network namespace of process ``target``; returns when packets pass.

        Raises BoxError or OSError; :meth:`down` undoes what was done until then.
        """
        try:
            self._up(target)
        except _refusal() as error:
            raise BoxError("link", str(error)) from error

    def _up(self, target: int) -> None:
        home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        box = os.open(f"/proc/{target}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        with contextlib.ExitStack() as opened:
            opened.callback(os.close, home)
            opened.callback(os.close, box)
            with changes.changes() as known:
                _sweep(known, self._host)
                host = _survey(self._host)
                plan = veth_plan(self._net, host, self._id)
                known.begin(self._id)  # held until this process ends
                self._made = True
                nft.load(host_table(plan))
                _forward(known, host, plan)
                _make(self._host, plan, box)
            inner = opened.enter_context(_inside(box, home))
            _configure(inner, plan)
            _await(self._host, plan.link)
            _await(inner, BOX_LINK)

    def down(self) -> None:
        """Undo all of it, as often as wanted."""
        if not self._made:
            return
        with changes.changes() as known:
            _undo(known, self._host, self._id)
            _sweep(known, self._host)
        self._made = False


def sweep() -> None:
    """Undo what links left behind whose keeper was killed; quick where there is nothing.

    Raises IsolationUnavailable or OSError when it cannot be undone.
    """
    if not os.path.isdir(changes.FOLDER):
        return
    with changes.changes() as known:
        _sweep(known, None)


def attempt() -> None:
    """Make a link and its tables in the network namespace of this process, both ends.

    For the probe, in a namespace of its own: nothing is written down or removed. Raises
    BoxError, OSError, and IsolationUnavailable without root or pyroute2.
    """
    host = _netlink()
    plan = veth_plan(
        NetPlan(open=True), HostNetwork((), (("4", ("lo",)), ("6", ("lo",))), 0), "0" * ID_LENGTH
    )
    here = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        nft.load(host_table(plan))
        nft.load(guard_table([Switch("ipv4/conf/lo/forwarding", "0", "1")]))
        _make(host, plan, here)
    except _refusal() as error:
        raise BoxError("link", str(error)) from error
    finally:
        os.close(here)


def warm_up() -> None:
    """Import what takes long, before a fork. Raises ImportError."""
    import pyroute2.iproute.linux  # noqa: F401 - loaded for the processes forked from this one


def _netlink() -> Any:
    if os.geteuid() != 0:
        raise IsolationUnavailable("net.link", "root (a veth link)", 'use net.link = "pasta"')
    try:
        from pyroute2.iproute.linux import IPRoute
    except ImportError:
        fix = "pip install pyroute2"
        raise IsolationUnavailable("net.link", "pyroute2", fix) from None
    return IPRoute()


# -- what is there ----------------------------------------------------------------------


def _survey(host: Any) -> HostNetwork:
    """The host's addresses and routes."""
    links = {link["index"]: link for link in host.get_links()}
    names = {index: str(link.get("ifname")) for index, link in links.items()}
    networks = [f"{each.get('address')}/{each['prefixlen']}" for each in host.get_addr()]
    out: dict[str, set[int]] = {"4": set(), "6": set()}
    for route in host.get_routes():
        digit = {2: "4", 10: "6"}.get(route["family"])
        if digit is None or route.get("table") == _LOCAL_TABLE or route["type"] != _UNICAST:
            continue
        if route["dst_len"]:
            if str(route.get("dst")).startswith("fe80:"):
                continue  # every interface has it, also without a way out
            networks.append(f"{route.get('dst')}/{route['dst_len']}")
        out[digit].update(_outgoing(route))
    ours = {index for index, name in names.items() if name == "lo" or name.startswith("axon")}
    used = {digit: sorted(indices - ours) for digit, indices in out.items()}
    sizes = [int(links[index].get("mtu")) for each in used.values() for index in each]
    uplinks = tuple((digit, tuple(names[i] for i in each)) for digit, each in used.items())
    return HostNetwork(tuple(map(_network, networks)), uplinks, min(sizes, default=0))


def _outgoing(route: Any) -> list[int]:
    if (single := route.get("oif")) is not None:
        return [int(single)]
    return [int(hop["oif"]) for hop in route.get("multipath") or ()]


def _network(address: str) -> str:
    from ipaddress import ip_interface

    return str(ip_interface(address).network)


def _settings() -> dict[str, str]:
    """The settings that say what is forwarded, by their path below /proc/sys/net."""
    top = "/proc/sys/net/"
    names = ("forwarding", "force_forwarding", "accept_ra")
    paths = [path for name in names for path in glob.glob(f"{top}ipv[46]/conf/*/{name}")]
    paths.append(f"{top}ipv4/ip_forward")
    found = {path.removeprefix(top): changes.read_setting(path.removeprefix(top)) for path in paths}
    return {path: value for path, value in found.items() if value is not None}


# -- making it --------------------------------------------------------------------------


def _forward(known: changes.Changes, host: HostNetwork, plan: VethPlan) -> None:
    """Have the host forward for the box, and for nobody else it did not forward for before."""
    needed = tuple(switches(host, [digit for digit, *_ in plan.ends], _settings()))
    if needed:
        nft.load(guard_table(known.note(needed)))
        known.switch(needed)


def _make(host: Any, plan: VethPlan, box: int) -> None:
    peer = {"ifname": BOX_LINK, "net_ns_fd": box, "mtu": plan.mtu, "index": _BOX_INDEX}
    host.link("add", ifname=plan.link, kind="veth", mtu=plan.mtu, peer=peer)
    (index,) = host.link_lookup(ifname=plan.link)
    for digit, end, _, length in plan.ends:
        conf = f"ipv{digit}/conf/{plan.link}"
        if digit == "6":
            changes.write_setting(f"{conf}/accept_ra", "0")
            changes.write_setting(f"{conf}/force_forwarding", "1")
        else:
            changes.write_setting(f"{conf}/forwarding", "1")
        _address(host, index, end, length)
    host.link("set", index=index, state="up")


def _configure(inner: Any, plan: VethPlan) -> None:
    (index,) = inner.link_lookup(ifname=BOX_LINK)
    for _, _, end, length in plan.ends:
        _address(inner, index, end, length)
    inner.link("set", index=index, state="up")
    for digit, gateway, _, _ in plan.ends:
        everything = "0.0.0.0/0" if digit == "4" else "::/0"
        inner.route("add", dst=everything, gateway=gateway, oif=index)


def _address(netlink: Any, index: int, address: str, length: int) -> None:
    # Nobody else is on the link: no second is spent on looking for a duplicate.
    flags = {"flags": _IFA_F_NODAD} if ":" in address else {}
    netlink.addr("add", index=index, address=address, prefixlen=length, **flags)


def _inside(box: int, home: int) -> Any:
    """A netlink socket of the box's network, made without staying there."""
    from pyroute2.iproute.linux import IPRoute

    set_namespace(box, CLONE_NEWNET)
    try:
        return IPRoute()
    finally:
        set_namespace(home, CLONE_NEWNET)


def _await(netlink: Any, name: str) -> None:
    """Until an end is up: packets sent before are lost."""
    (index,) = netlink.link_lookup(ifname=name)
    deadline_s = time.monotonic() + _READY_WITHIN_S
    while True:
        (link,) = netlink.get_links(index)
        if link.get("operstate") == "UP":
            return
        if time.monotonic() > deadline_s:
            raise BoxError("link", f"veth: {name} did not come up")
        time.sleep(0.001)


# -- undoing it -------------------------------------------------------------------------


def _undo(known: changes.Changes, host: Any, id: str) -> None:
    plan = VethPlan(id, 0, ())
    if index := host.link_lookup(ifname=plan.link):
        with contextlib.suppress(_refusal()):  # gone with its box at this moment
            host.link("del", index=index[0])
    nft.load(removal(plan.table))
    known.end(id)


def _refusal() -> type[Exception]:
    """What pyroute2 raises when the kernel says no."""
    from pyroute2.netlink.exceptions import NetlinkError

    return NetlinkError  # type: ignore[no-any-return]  # the library has no types


def _sweep(known: changes.Changes, host: Any) -> None:
    """Undo what has no keeper any more; after the last link, what they shared."""
    known.forget_the_gone()
    for id in tuple(known.abandoned()):
        host = _netlink() if host is None else host
        _undo(known, host, id)
    if known.switched() and not known.in_use:
        known.switch_back()
        nft.load(removal(GUARD))
