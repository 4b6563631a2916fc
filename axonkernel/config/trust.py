"""Which found configurations the user has said yes to, by path and content.

The store is one JSON file, mode 0600, below
``${XDG_STATE_HOME:-~/.local/state}/axonkernel``, where no box ever reaches.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from axonkernel.config.owner import my_uids
from axonkernel.config.source import Source, shown
from axonkernel.errors import Fault, PolicyError

__all__ = ["Trust", "TrustStore", "from_environment", "require_trust", "store_path"]


class Trust(NamedTuple):
    """One yes.

    Arguments:
        path: the file, symlinks resolved.
        digest: SHA-256 of its content.
        policy_digest: for a Python configuration, SHA-256 of the policy it evaluated to, so
            that a changed neighbour which it imports is noticed; "" when not pinned.
        since_s: when, in seconds since 1970.
    """

    path: str
    digest: str
    policy_digest: str = ""
    since_s: int = 0


class TrustStore:
    """The stored answers. Every change is atomic and visible to all processes at once."""

    def __init__(self, path: str | None = None) -> None:
        self.path = path if path is not None else store_path()

    def find(self, source: Source) -> Trust | None:
        """The answer for exactly this file and content, or None."""
        return self._load().get((source.path, source.digest))

    def entries(self) -> tuple[Trust, ...]:
        """All answers, by path, the oldest first."""
        return tuple(sorted(self._load().values(), key=lambda trust: (trust.path, trust.since_s)))

    def add(self, source: Source, policy_digest: str = "") -> Trust:
        """Store a yes for this file and content."""
        trust = Trust(source.path, source.digest, policy_digest, int(time.time()))
        with self._locked():
            self._save({**self._load(), (trust.path, trust.digest): trust})
        return trust

    def remove(self, path: str) -> int:
        """Take back every yes for ``path``; returns how many there were."""
        with self._locked():
            before = self._load()
            after = {key: trust for key, trust in before.items() if trust.path != path}
            if len(after) != len(before):
                self._save(after)
        return len(before) - len(after)

    def _load(self) -> dict[tuple[str, str], Trust]:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._fault(f"cannot be read: {error.strerror}") from None
        with open(descriptor, encoding="utf-8") as file:
            self._refuse_foreign(os.fstat(descriptor))
            try:
                trusts = [_trust(entry) for entry in json.load(file)["trusted"]]
            except (ValueError, KeyError, TypeError, RecursionError):
                raise self._fault("is damaged", f"rm {shown(self.path)}, and trust again") from None
        return {(trust.path, trust.digest): trust for trust in trusts}

    def _refuse_foreign(self, status: os.stat_result) -> None:
        if status.st_uid not in my_uids() or status.st_mode & 0o022:
            raise self._fault("can be changed by others", f"rm {shown(self.path)}, and trust again")

    def _save(self, trusts: Mapping[tuple[str, str], Trust]) -> None:
        data = {"version": 1, "trusted": [trust._asdict() for trust in trusts.values()]}
        fresh = f"{self.path}.new"
        try:
            # The lock is held, so a file of that name is the rest of a killed process.
            descriptor = os.open(
                fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
            )
            with open(descriptor, "w", encoding="utf-8") as file:
                os.fchmod(descriptor, 0o600)
                json.dump(data, file, indent=1)
                file.flush()
                os.fsync(descriptor)
            os.replace(fresh, self.path)
        except OSError as error:
            raise self._fault(f"cannot be written: {error.strerror}") from None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            descriptor = os.open(
                f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
            )
        except OSError as error:
            raise self._fault(f"cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _fault(self, message: str, hint: str = "") -> PolicyError:
        return PolicyError([Fault("$", f"the trust store {message}", hint=hint)], shown(self.path))


def store_path() -> str:
    """Where the answers are kept."""
    from axonkernel.folders import state_folder

    return os.path.join(state_folder(), "trust.json")


def from_environment(source: Source) -> Trust | None:
    """The yes that ``AXON_TRUST`` gives ``source``, for runs nobody watches.

    It holds one or more ``DIGEST`` or ``DIGEST:POLICY_DIGEST``, separated by commas or blanks;
    ``sha256:`` may stand in front. Only whole digests count.
    """
    for word in os.environ.get("AXON_TRUST", "").replace(",", " ").split():
        digest, _, policy_digest = word.lower().removeprefix("sha256:").partition(":")
        if digest == source.digest:
            return Trust(source.path, digest, policy_digest)
    return None


def require_trust(source: Source, store: TrustStore | None = None) -> Trust:
    """The yes that covers ``source``.

    Raises:
        PolicyError: there is none, and how to give it.
    """
    trust = from_environment(source) or (store or TrustStore()).find(source)
    if trust is None:
        raise PolicyError(
            [
                Fault(
                    "$",
                    "found, and not trusted: a policy found in a folder is a stranger's word "
                    "until you have read it",
                    hint=f"axonkernel trust {shown(source.path)}   "
                    f"(headless: AXON_TRUST={source.digest}; or name it: --policy FILE; "
                    "for run: --agent FILE)",
                )
            ],
            shown(source.path),
        )
    return trust


def _trust(entry: Any) -> Trust:
    trust = Trust(**entry)
    if not all(isinstance(text, str) for text in trust[:3]) or not isinstance(trust.since_s, int):
        raise TypeError("not a stored answer")
    return trust
