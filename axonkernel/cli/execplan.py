"""The plan of ``axonkernel exec``: from grants on the command line, a file, or a found policy."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any

from attrs import evolve

from axonkernel.box.brokered import asks
from axonkernel.box.host import Ask
from axonkernel.box.model import BoxPlan
from axonkernel.box.plancache import Seen
from axonkernel.box.prepare import create, prepare_surveyed
from axonkernel.box.watched import seen
from axonkernel.config import load
from axonkernel.config.profile import load_profiles, profile_paths
from axonkernel.config.trust import store_path
from axonkernel.errors import Fault, PolicyError
from axonkernel.folders import own_folders
from axonkernel.paths import canonical_policy, default_protect, linked_grants
from axonkernel.policy.meet import meet
from axonkernel.policy.model import Policy
from axonkernel.policy.parse import parse

if TYPE_CHECKING:
    from axonkernel.cli.exec import Options

__all__ = ["data_from_grants", "effective", "make", "owner_of"]

_BLOCKS = {
    "read": ("fs", "read"),
    "write": ("fs", "write"),
    "deny": ("fs", "deny"),
    "net": ("net", "allow"),
    "allow": ("shell", "allow"),
    "env": ("env", "allow"),
}


def make(
    options: Options, policy_file: str | None, found: str | None
) -> tuple[BoxPlan, Seen | None, dict[str, Any]]:
    """The plan, what it depends on (None when that cannot be told by stat alone), and what
    answers for programs that run only outside the box (broker/commanded.py).

    Raises PolicyError, IsolationUnavailable or BoxError.
    """
    layers, hide, evaluated = _layers(options, policy_file, found)
    if "--best-effort" in options.flags:
        # Only what the user wrote: the machine's own profile is a ceiling no switch lowers.
        layers[-1] = evolve(layers[-1], isolation="best-effort")
    policy = effective(layers)
    ask = Ask("exec", os.getcwd(), options.command[0], hide=hide, state=own_folders())
    owner = owner_of(hide)
    plan, host = prepare_surveyed(policy, ask, owner=owner)
    links = tuple(line for layer in layers for line in linked_grants(layer))
    plan = plan._replace(warnings=(*links, *_unheld(policy), *plan.warnings))
    create(plan)
    more = _for_broker(layers, ask, owner) if asks(plan) else {}
    # What Python comes to depends on whatever it imports and reads.
    unkept = plan.create or evaluated
    answers = (store_path(),) if found else ()
    watched = None if unkept else seen(layers, policy, host, (*profile_paths(), *answers))
    return plan, watched, more


def _for_broker(layers: list[Policy], ask: Ask, owner: int | None) -> dict[str, Any]:
    from axonkernel.policy.parse import unparse

    names = [*["profile"] * (len(layers) - 1), "policy"]
    # Each as it counts here: the box, and what runs beside it, are of all of them.
    completed = [unparse(effective([layer])) for layer in layers]
    return {"layers": list(zip(names, completed, strict=True)), "ask": ask, "owner": owner}


def owner_of(files: Iterable[str]) -> int | None:
    """Who wrote the policy, for ``prepare``; None where that is root, who may have written it
    for the owner of what it grants, and where there is no file."""
    return next((uid for path in files if path and (uid := os.stat(path).st_uid)), None)


def _unheld(policy: Policy) -> Iterator[str]:
    if policy.limits is not None and policy.limits.output_bytes is not None:
        yield "limits.output caps what a call of a Kernel returns, not what this command writes"


def effective(layers: Iterable[Policy]) -> Policy:
    """The policy a box is built from: the layers met, paths resolved, protections filled in."""
    return _protected(reduce(meet, (canonical_policy(layer) for layer in layers)))


def _layers(
    options: Options, policy_file: str | None, found: str | None
) -> tuple[list[Policy], tuple[str, ...], bool]:
    """The policies that count together, as they are written, the files they came from, and
    whether one is Python."""
    hide: tuple[str, ...] = ()
    evaluated = False
    if options.grants or not (policy_file or found):
        if "--require-policy" in options.flags and not options.grants:
            raise PolicyError([Fault("$", "a policy is required, and none was found")])
        layers = [policy for _, policy in load_profiles(profile_paths())]
        data = data_from_grants(options.grants)
        home = os.path.expanduser("~")
        try:
            layers.append(parse(data, base=os.getcwd(), home=home, source="command line"))
        except PolicyError as error:
            raise PolicyError(map(_in_switches, error.faults), error.source) from None
    else:
        loaded = load(policy_file, require_policy="--require-policy" in options.flags or None)
        layers = [policy for _, policy in loaded.layers]
        hide = (loaded.source,)
        evaluated = loaded.entry is not None
    return [policy.closed() for policy in layers], hide, evaluated


def _in_switches(fault: Fault) -> Fault:
    """``fault`` with a fix that a command line can take; a policy has other fields."""
    if not (fault.hint and fault.path.startswith("$.env.allow[")):
        return fault
    name, _, value = str(fault.value).partition("=")
    return Fault(fault.path, fault.message, fault.value, f"--set {name}={value or 'VALUE'}")


def _protected(policy: Policy) -> Policy:
    fs = policy.fs
    if fs is None or fs.protect is not None or not fs.write:
        return policy
    return evolve(policy, fs=evolve(fs, protect=default_protect(fs.write)))


def data_from_grants(grants: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """The policy that grants on a command line stand for: closed but for what they open."""
    data: dict[str, Any] = {"default": "deny"}
    for name, value in grants:
        if name in _BLOCKS:
            block, key = _BLOCKS[name]
            data.setdefault(block, {}).setdefault(key, []).append(value)
        elif name == "open":
            _open(data, value)
        else:
            key, _, text = value.partition("=")
            block = data.setdefault("env", {}).setdefault("set", {}) if name == "set" else (
                data.setdefault("limits", {})
            )  # fmt: skip
            block[key] = int(text) if name == "limit" and text.isdigit() else text
    return data


def _open(data: dict[str, Any], block: str) -> None:
    whole: dict[str, dict[str, Any]] = {
        "fs": {"write": ["/"], "protect": False},
        "net": {"allow": True},
        "shell": {"allow": True},
        "env": {"allow": ["*"]},
    }
    if block not in whole:
        fault = Fault("--open", "names a block", block, "--open fs, net, shell or env")
        raise PolicyError([fault], "command line")
    data[block] = whole[block]
