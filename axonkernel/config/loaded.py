"""From a file, or from whatever lies around, to a policy that may be used."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from functools import reduce
from typing import Any

from attrs import evolve, frozen

from axonkernel.config.evaluate import evaluate_python
from axonkernel.config.profile import load_profiles, profile_paths
from axonkernel.config.read import read_data
from axonkernel.config.source import Source, discover, home_folder, read_source, shown
from axonkernel.config.trust import Trust, TrustStore, from_environment, require_trust
from axonkernel.errors import Fault, PolicyError
from axonkernel.policy.known import unknown_tools
from axonkernel.policy.model import Policy
from axonkernel.policy.parse import collect
from axonkernel.required import no_policy, policy_required

__all__ = [
    "LoadedPolicy",
    "data_digest",
    "load",
    "parse_source",
    "read_policy_data",
]


@frozen
class LoadedPolicy:
    """A policy with where it came from.

    Arguments:
        policy: what the configuration itself says.
        layers: (layer name, policy), the profiles first and ``policy`` last; the strictest
            answer of all of them counts.
        source: the file, symlinks resolved, or "" when there is none.
        digest: SHA-256 of the file's content, or "".
        found: whether discovery found it.
        trusted: whether the user named it or said yes to it.
        entry: the ``axon.config.py`` whose functions the agent is, or None.
        name: the agent's name in there, or None.
        profiles: the profile files that count, in the order of ``layers``.
        notes: lines the user should read.
    """

    policy: Policy
    layers: tuple[tuple[str, Policy], ...]
    source: str = ""
    digest: str = ""
    found: bool = False
    trusted: bool = True
    entry: str | None = None
    name: str | None = None
    profiles: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def effective(self) -> Policy:
        """All layers met in one policy, as the box is built from it."""
        from axonkernel.policy.meet import meet

        return reduce(meet, (policy for _, policy in self.layers))


def load(
    path: str | None = None,
    *,
    start: str | None = None,
    require_policy: bool | None = None,
    read_untrusted: bool = False,
    profiles: Iterable[str] | None = None,
    store: TrustStore | None = None,
) -> LoadedPolicy:
    """The policy in ``path``, or in the configuration found from ``start`` upward.

    Arguments:
        path: a file the user named; None looks for one.
        start: the folder where the search begins; None for the working directory.
        require_policy: refuse to go on without a policy; None asks ``AXON_REQUIRE_POLICY``.
        read_untrusted: parse found data nobody has said yes to, for commands that only show
            it. Found Python is code and needs trust all the same.
        profiles: files of the machine profile; None for the standard ones.
        store: the stored answers; None for the user's own.

    Raises:
        PolicyError: every fault there is, found but not trusted, or required and missing.
        BoxError: a Python configuration could not be evaluated in a box.
    """
    ceiling = load_profiles(profile_paths() if profiles is None else profiles)
    layers = tuple(("profile", policy) for _, policy in ceiling)
    search = discover(start) if path is None else None
    notes = search.notes if search is not None else ()
    name = search.path or None if search is not None else path
    if name is None:
        loaded = LoadedPolicy(Policy(declared=False), ())
    else:
        source = read_source(name, found=search is not None)
        loaded = _load_source(source, read_untrusted, store)
    if not loaded.policy.declared and policy_required(require_policy):
        raise no_policy(shown(loaded.source) if loaded.source else "")
    return evolve(
        loaded,
        layers=(*layers, ("policy", loaded.policy)),
        profiles=tuple(file for file, _ in ceiling),
        notes=(*notes, *loaded.notes),
    )


def read_policy_data(source: Source) -> dict[str, Any]:
    """The data in ``source``, a Python configuration evaluated, as :func:`load` parses it.

    Returns ``name`` (of the agent), ``policy``, ``base`` and ``tools`` (registered in the
    file), each None where not given. Trust is the caller's matter.
    """
    if source.kind == "python":
        return evaluate_python(source.path, source.content)
    data = read_data(source.content, source.kind, shown(source.path))
    return {"name": None, "policy": data, "base": None, "tools": None}


def data_digest(data: Any) -> str:
    """SHA-256 of policy data in its one canonical spelling."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _load_source(source: Source, read_untrusted: bool, store: TrustStore | None) -> LoadedPolicy:
    trust = _trust(source, read_untrusted, store)
    data = read_policy_data(source)
    if trust is not None:
        _refuse_other_policy(source, trust, data)
    trusted = trust is not None or not source.found
    entry = source.path if source.kind == "python" else None
    return LoadedPolicy(
        policy=parse_source(source, data),
        layers=(),
        source=source.path,
        digest=source.digest,
        found=source.found,
        trusted=trusted,
        entry=entry,
        name=data["name"] if isinstance(data["name"], str) else None,
        notes=() if trusted else (f"not trusted yet: axonkernel trust {shown(source.path)}",),
    )


def _trust(source: Source, read_untrusted: bool, store: TrustStore | None) -> Trust | None:
    if not source.found:
        return None
    if read_untrusted and source.kind != "python":
        return from_environment(source) or (store or TrustStore()).find(source)
    return require_trust(source, store)


def _refuse_other_policy(source: Source, trust: Trust, data: Any) -> None:
    """A trusted Python file can still read or import a neighbour that has changed since."""
    if trust.policy_digest and trust.policy_digest != data_digest(data):
        raise PolicyError(
            [
                Fault(
                    "$",
                    "gives another policy than when it was trusted: something it imports or "
                    "reads has changed",
                    hint=f"read it again, then: axonkernel trust {shown(source.path)}",
                )
            ],
            shown(source.path),
        )


def parse_source(source: Source, data: dict[str, Any]) -> Policy:
    """The policy in ``data``, which :func:`read_policy_data` read from ``source``.

    Raises:
        PolicyError: every fault in it, rules for tools there are not among them.
    """
    if data["policy"] is None:
        return Policy(declared=False)
    base = data["base"] if isinstance(data["base"], str) else ""
    folder = os.path.realpath(os.path.join(source.folder, base))
    policy, faults = collect(data["policy"], base=folder, home=home_folder())
    if policy is not None and data["tools"]:
        faults += unknown_tools(policy, map(str, data["tools"]))
    if policy is None or faults:
        raise PolicyError(faults, shown(source.path))
    return policy
