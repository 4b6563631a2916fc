"""The policy as a value: frozen, hashable, with every unit already parsed.

``None`` for a block means it was absent (no opinion, or closed under ``default: deny``); a
block that is there is a closed list. Paths are absolute and normalised, destinations are in
the canonical spelling of :func:`axonkernel.policy.match.parse_destination`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import evolve, field, frozen

__all__ = [
    "ArgsRules",
    "BoxPolicy",
    "Budget",
    "EnvPolicy",
    "EscalationPolicy",
    "FsPolicy",
    "Isolation",
    "Limits",
    "NetPolicy",
    "Policy",
    "ShellPolicy",
    "SubjectRules",
    "ToolRules",
    "Verdict",
    "WasmPolicy",
]

Isolation = Literal["none", "best-effort", "auto", "strict"]
Verdict = Literal["allow", "deny", "escalate"]

#: Rising strictness; narrowing takes the later one.
ISOLATION_ORDER: tuple[Isolation, ...] = ("none", "best-effort", "auto", "strict")


@frozen
class FsPolicy:
    """Which files exist for the agent. ``write`` includes ``read``.

    Arguments:
        read, write, unsafe: absolute paths; each covers everything below it.
        deny: absolute paths or path globs carved out of the grants.
        protect: read-only inside write grants; None means the built-in list, () means none.
    """

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    protect: tuple[str, ...] | None = None
    unsafe: tuple[str, ...] = ()


@frozen
class NetPolicy:
    """Which destinations can be reached.

    Arguments:
        allow: canonical destinations, or True for anything.
        deny, escalate: canonical destinations.
        listen: TCP ports (1 to 65535) the host may reach inside the box.
        refuse: how a refused packet is answered.
    """

    allow: tuple[str, ...] | Literal[True] = ()
    deny: tuple[str, ...] = ()
    escalate: tuple[str, ...] = ()
    dns: Literal["allowlist", "open", "off"] = "allowlist"
    tls_names: Literal["off", "check"] = "off"
    listen: tuple[int, ...] = ()
    unix: Literal["box", "none"] = "box"
    link: Literal["pasta", "veth"] = "pasta"
    refuse: Literal["reject", "drop"] = "reject"
    resolver: str | None = None
    proxy: str | None = field(default=None, repr=False)  # it may hold a password


@frozen
class ArgsRules:
    """Argument patterns of one program. ``allow`` None means: no opinion.

    A pattern is kept as written; its tokens are its POSIX shell words.
    """

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    escalate: tuple[str, ...] = ()


@frozen
class ShellPolicy:
    """Which programs may run, and with which words.

    Arguments:
        allow: bare names, globs or absolute paths; True for any program.
        deny: bare names, globs or absolute paths; beats allow.
        args: program name to its argument rules, as sorted pairs.
        raw: whether a string with shell syntax may run in bash.
        spawn: how many processes a call may leave running; 0 for none, None for no cap.
        unsafe: built-in hazards lifted, such as ``"git -c"``.
        path: folders where bare names are looked up; () means the supervisor's own PATH.
        profiles: files with more program knowledge.
    """

    allow: tuple[str, ...] | Literal[True] = ()
    deny: tuple[str, ...] = ()
    args: tuple[tuple[str, ArgsRules], ...] = ()
    raw: bool = False
    spawn: int | None = 0
    unsafe: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()


@frozen
class EnvPolicy:
    """What the environment holds beyond its small floor.

    Arguments:
        allow: names or trailing-``*`` globs passed through; a glob skips control names.
        set: fixed values, as sorted pairs.
        unsafe_allow: exact names of loader and interpreter controls passed through.
    """

    allow: tuple[str, ...] = ()
    set: tuple[tuple[str, str], ...] = ()
    unsafe_allow: tuple[str, ...] = ()


@frozen
class SubjectRules:
    """Patterns on a tool's subject, where a plain verdict is not enough."""

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    escalate: tuple[str, ...] = ()


@frozen
class ToolRules:
    """One level of the tools map: segment (or ``"*"``) to verdict, patterns or a deeper level.

    Arguments:
        entries: sorted pairs; a dotted key is expanded into levels.
    """

    entries: tuple[tuple[str, Verdict | SubjectRules | ToolRules], ...] = ()


@frozen
class Limits:
    """Caps on one run; None means no cap of ours.

    Arguments:
        memory_bytes: resident memory of the whole process tree.
        cpu_millicores: 1000 is one core.
        wall_s: seconds of running time, not counting waits for a human.
        pids: processes and threads of the agent.
        disk_bytes: what HOME, /tmp, /var/tmp, /run and /dev/shm of a box hold together.
        output_bytes: what one call may return.
    """

    memory_bytes: int | None = None
    cpu_millicores: int | None = None
    wall_s: float | None = None
    pids: int | None = None
    disk_bytes: int | None = None
    output_bytes: int | None = None


@frozen
class Budget:
    """Counters for an agent loop; None means no cap."""

    turns: int | None = None
    tokens: int | None = None
    usd: float | None = None
    tool_calls: int | None = None


@frozen
class EscalationPolicy:
    """How long a question waits (seconds), and what happens when nobody can be asked."""

    timeout_s: float = 30.0
    headless: Literal["wait", "deny"] = "wait"


@frozen
class WasmPolicy:
    """Sandboxed tools. ``grants`` is data, read by the wasm layer."""

    folders: tuple[str, ...] = ()
    trust: str | None = None
    mode: str | None = None
    grants: Mapping[str, Any] = field(factory=dict, hash=False)


@frozen
class BoxPolicy:
    """Tuning of the box.

    Arguments:
        run_as: user name or uid the agent runs as, when the supervisor is root.
        noexec: None means the default of the posture.
    """

    run_as: str | int | None = None
    devices: tuple[Literal["kvm", "dri", "nvidia"], ...] = ()
    nested_userns: bool = False
    noexec: bool | None = None


@frozen
class Policy:
    """What an agent may do. Built by :func:`axonkernel.policy.parse.parse`.

    Arguments:
        isolation: as written; None means it follows from the other fields.
        default: what an absent block means.
        declared: False when there was no policy at all, which is unrestricted access.
    """

    isolation: Isolation | None = None
    default: Literal["allow", "deny"] = "allow"
    fs: FsPolicy | None = None
    net: NetPolicy | None = None
    shell: ShellPolicy | None = None
    env: EnvPolicy | None = None
    tools: ToolRules | None = None
    limits: Limits | None = None
    budget: Budget | None = None
    escalation: EscalationPolicy = EscalationPolicy()
    wasm: WasmPolicy | None = None
    box: BoxPolicy = BoxPolicy()
    declared: bool = True

    def closed(self) -> Policy:
        """The same policy with every block that ``default: deny`` closes written out."""
        if self.default == "allow":
            return self
        return evolve(
            self,
            fs=self.fs or FsPolicy(),
            net=self.net or NetPolicy(dns="off"),
            shell=self.shell or ShellPolicy(),
            env=self.env or EnvPolicy(),
            tools=self.tools or ToolRules(),
        )

    @property
    def effective_isolation(self) -> Isolation:
        """``isolation``, or what the declared fields turn it into."""
        if self.isolation is not None:
            return self.isolation
        walls = (self.fs, self.net, self.env, self.limits)
        if self.default == "deny" or any(block is not None for block in walls):
            return "auto"
        return "none"
