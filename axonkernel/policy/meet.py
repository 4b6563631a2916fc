"""Narrowing: the common part of two policies.

``meet`` is what a box is built from. For paths, destinations, tools and variables it grants
exactly what both policies grant; for argument patterns and globs that only overlap it may
grant less, never more. Decisions about requests come from a
:class:`~axonkernel.policy.decide.Stack` of both policies, which is exact for everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from attrs import evolve, fields

from axonkernel.policy.meets.fs import meet_fs
from axonkernel.policy.meets.names import meet_env, meet_shell
from axonkernel.policy.meets.net import common_allow, meet_net
from axonkernel.policy.meets.tools import meet_tools
from axonkernel.policy.model import (
    ISOLATION_ORDER,
    BoxPolicy,
    Budget,
    EnvPolicy,
    EscalationPolicy,
    FsPolicy,
    Isolation,
    Limits,
    NetPolicy,
    Policy,
    ShellPolicy,
    SubjectRules,
    ToolRules,
    WasmPolicy,
)
from axonkernel.policy.request import STRICTNESS
from axonkernel.policy.rules.fs import READ, WRITE, FsRules

__all__ = ["clamped", "meet", "taking_away"]

T = TypeVar("T")

#: How a box is made: of two values neither is the narrower one.
_WAYS = {"box": ("run_as",), "net": ("link", "resolver", "proxy")}


def meet(a: Policy, b: Policy) -> Policy:
    """What both policies grant, under the stricter limits and isolation of the two.

    Settings that grant nothing (a proxy, a user to run as) are the first policy's where
    both have one.
    """
    if a == b:
        return a
    one, two = a.closed(), b.closed()
    return Policy(
        isolation=_meet_isolation(a, b),
        default="deny" if "deny" in (a.default, b.default) else "allow",
        fs=_blocks(meet_fs, one.fs, two.fs),
        net=_blocks(meet_net, one.net, two.net),
        shell=_blocks(meet_shell, one.shell, two.shell),
        env=_blocks(meet_env, one.env, two.env),
        tools=_blocks(meet_tools, one.tools, two.tools),
        limits=_blocks(_meet_limits, one.limits, two.limits),
        budget=_blocks(_meet_budget, one.budget, two.budget),
        escalation=_meet_escalation(a.escalation, b.escalation),
        wasm=_blocks(_meet_wasm, one.wasm, two.wasm),
        box=_meet_box(a.box, b.box),
        declared=a.declared or b.declared,
    )


def _blocks(join: Callable[[T, T], T], a: T | None, b: T | None) -> T | None:
    """An absent block has no opinion."""
    if a is None or b is None:
        return b if a is None else a
    return join(a, b)


def _meet_isolation(a: Policy, b: Policy) -> Isolation | None:
    if a.isolation is None and b.isolation is None:
        return None
    return max(a.effective_isolation, b.effective_isolation, key=ISOLATION_ORDER.index)


def _meet_limits(a: Limits, b: Limits) -> Limits:
    return Limits(**{each.name: _least(a, b, each.name) for each in fields(Limits)})


def _meet_budget(a: Budget, b: Budget) -> Budget:
    return Budget(**{each.name: _least(a, b, each.name) for each in fields(Budget)})


def _least(a: object, b: object, name: str) -> Any:
    caps = [cap for cap in (getattr(a, name), getattr(b, name)) if cap is not None]
    return min(caps, default=None)


def _meet_escalation(a: EscalationPolicy, b: EscalationPolicy) -> EscalationPolicy:
    asked = a if a.headless == "deny" else b
    return EscalationPolicy(min(a.timeout_s, b.timeout_s), asked.headless)


def _meet_wasm(a: WasmPolicy, b: WasmPolicy) -> WasmPolicy:
    """The folders and grants that both have; a grant that differs is not a common one."""
    grants = {name: grant for name, grant in a.grants.items() if b.grants.get(name) == grant}
    return WasmPolicy(
        folders=tuple(folder for folder in a.folders if folder in b.folders),
        trust=_stricter(a.trust, b.trust, ("deny", "ask", "allow")),
        mode=_stricter(a.mode, b.mode, ("read-only", "ask", "full")),
        grants=grants,
    )


def _stricter(a: str | None, b: str | None, order: tuple[str, ...]) -> str | None:
    """The first of two words in an order; one that is not said is "ask" beside one that is."""
    if a is None and b is None:
        return None
    return min(a or "ask", b or "ask", key=order.index)


def _meet_box(a: BoxPolicy, b: BoxPolicy) -> BoxPolicy:
    noexec = [each for each in (a.noexec, b.noexec) if each is not None]
    return BoxPolicy(
        run_as=b.run_as if a.run_as is None else a.run_as,
        devices=tuple(device for device in a.devices if device in b.devices),
        nested_userns=a.nested_userns and b.nested_userns,
        noexec=any(noexec) if noexec else None,
    )


def taking_away(asked: Policy) -> Policy:
    """A narrowing policy without what says how a box is made.

    As whom it runs, its link, and whom it asks about names is for the base to say, also where it
    says nothing: a narrowing could widen by it.
    """
    for name, ways in _WAYS.items():
        block = getattr(asked, name)
        if block is not None:
            plain = type(block)()
            block = evolve(block, **{way: getattr(plain, way) for way in ways})
            asked = evolve(asked, **{name: block})
    return asked


def _ways_beyond(base: Policy, overlay: Policy) -> Iterator[str]:
    for name, ways in _WAYS.items():
        asked = getattr(overlay, name)
        for way in ways if asked is not None else ():
            known = {getattr(each, way) for each in (type(asked)(), getattr(base, name)) if each}
            if getattr(asked, way) not in known:  # a proxy's address may have a password in it
                yield f"{name}.{way}: how a box is made is for the base to say"


def clamped(base: Policy, overlay: Policy) -> tuple[str, ...]:
    """What a narrowing policy asks for beyond its base, one line for a reader each."""
    one, two = base.closed(), overlay.closed()
    beyond: list[str] = []
    for name, ask in _ASKS.items():
        granted, asked = getattr(one, name), getattr(two, name)
        if granted is not None and asked is not None:
            beyond += (f"{name}.{line}: the base does not grant it" for line in ask(granted, asked))
    if overlay.isolation and _meet_isolation(base, overlay) != overlay.isolation:
        beyond.append(f"isolation {overlay.isolation}: the base is stricter")
    beyond += _ways_beyond(base, overlay)
    return tuple(beyond)


def _fs_beyond(base: FsPolicy, asked: FsPolicy) -> Iterator[str]:
    rules = FsRules(base, layer="policy", absent="", boxed=None)
    for name, paths, level in (("read", asked.read, READ), ("write", asked.write, WRITE)):
        yield from (f"{name} {path}" for path in paths if rules.level(path) < level)
    yield from (f"unsafe {path}" for path in asked.unsafe if not rules.level(path))


def _net_beyond(base: NetPolicy, asked: NetPolicy) -> Iterator[str]:
    if asked.allow is True:
        yield from () if base.allow is True else ("allow true",)
        return
    for entry in asked.allow:
        if common_allow(base.allow, (entry,)) != (entry,):
            yield f"allow {entry}"
    yield from (f"listen {port}" for port in asked.listen if port not in base.listen)


def _shell_beyond(base: ShellPolicy, asked: ShellPolicy) -> Iterator[str]:
    granted = meet_shell(base, asked)
    if asked.allow is True:
        yield from () if base.allow is True else ("allow true",)
    elif granted.allow is not True:
        yield from (f"allow {each}" for each in asked.allow if each not in granted.allow)
    if asked.raw and not base.raw:
        yield "raw true"
    if granted.spawn != asked.spawn:
        yield "spawn"
    yield from (f"unsafe {each}" for each in asked.unsafe if each not in base.unsafe)


def _env_beyond(base: EnvPolicy, asked: EnvPolicy) -> Iterator[str]:
    granted = meet_env(base, asked)
    shown = {*granted.allow, *granted.unsafe_allow, *dict(granted.set)}
    for name in (*asked.allow, *asked.unsafe_allow, *dict(asked.set)):
        if name not in shown:
            yield f"allow {name}"


def _tools_beyond(base: ToolRules, asked: ToolRules) -> Iterator[str]:
    yield from _looser(meet_tools(base, asked), asked, "")


def _looser(granted: ToolRules, asked: ToolRules, prefix: str) -> Iterator[str]:
    """The names that ``asked`` gives a looser verdict than the common part does."""
    found = dict(granted.entries)
    for name, item in asked.entries:
        below = found.get(name, "deny")
        if isinstance(item, ToolRules):
            inner = below if isinstance(below, ToolRules) else ToolRules((("*", below),))
            yield from _looser(inner, item, f"{prefix}{name}.")
        elif not isinstance(item, SubjectRules) and isinstance(below, str):
            yield from [f"{prefix}{name} {item}"] if STRICTNESS[below] > STRICTNESS[item] else []


def _limits_beyond(base: Limits | Budget, asked: Limits | Budget) -> Iterator[str]:
    for each in fields(type(base)):
        cap, wanted = getattr(base, each.name), getattr(asked, each.name)
        if cap is not None and wanted is not None and wanted > cap:
            yield f"{each.name} {wanted:g}"


def _wasm_beyond(base: WasmPolicy, asked: WasmPolicy) -> Iterator[str]:
    granted = _meet_wasm(base, asked)
    yield from (f"folders {each}" for each in asked.folders if each not in base.folders)
    yield from (f"grants {each}" for each in asked.grants if each not in granted.grants)
    for name in ("trust", "mode"):
        wanted = getattr(asked, name)
        if wanted is not None and wanted != getattr(granted, name):
            yield f"{name} {wanted}"


def _box_beyond(base: BoxPolicy, asked: BoxPolicy) -> Iterator[str]:
    yield from (f"devices {each}" for each in asked.devices if each not in base.devices)
    if asked.nested_userns and not base.nested_userns:
        yield "nested_userns true"


_ASKS: dict[str, Callable[[Any, Any], Iterator[str]]] = {
    "fs": _fs_beyond,
    "net": _net_beyond,
    "shell": _shell_beyond,
    "env": _env_beyond,
    "tools": _tools_beyond,
    "limits": _limits_beyond,
    "budget": _limits_beyond,
    "wasm": _wasm_beyond,
    "box": _box_beyond,
}
