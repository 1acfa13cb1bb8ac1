"""The log of decisions: who requested what, what was granted and why not. Neither content nor secrets are in it.

A line of JSON for each decision. A decision that repeats the latest one of the same client within a second is
counted: before the next decision of that client, and at the end, the line is written once more, with the count.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from fairlead.filters.language import render
from fairlead.model import Instant
from fairlead.security.policy import AccessPolicy
from fairlead.security.rights import Decision, Rights

__all__ = ["DecisionLog", "decisions", "line_of"]

BYTES_MAX: Final = 64 << 20
"""A larger file is renamed, and another one begun; one earlier file stays."""
REPEATS_US: Final = 1_000_000
REPEATING_MAX: Final = 1_000
FOLLOW_S: Final = 0.2


@dataclass(slots=True)
class _Latest:
    """The latest decision about a client: when it was written, as what, and how often it came since."""

    key: tuple[Any, ...]
    at: int
    line: dict[str, Any]
    repeated: int = 0


class DecisionLog:
    """The decisions of one broker. Until it is opened, they are not recorded."""

    def __init__(self, path: str | None = None) -> None:
        self._file: TextIO | None = None
        self._path = ""
        self._repeating: dict[str, _Latest] = {}
        """By client, its latest decision."""
        self.failed = False
        if path is not None:
            self.open(path)

    @property
    def is_open(self) -> bool:
        """Whether decisions are recorded."""
        return self._file is not None

    def open(self, path: str) -> None:
        """Append to this file, which only its owner can read."""
        self._path = path
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._file = os.fdopen(descriptor, "a", 1 << 16, encoding="utf-8")

    def add(self, client: str, rights: Rights, decision: Decision, policy: AccessPolicy, now: int) -> None:
        """Record a decision about a request of a client."""
        if self._file is None:
            return
        key = (decision.action, decision.outcome, decision.requested, decision.reason, policy.fingerprint)
        latest = self._repeating.get(client)
        if latest is not None and latest.key == key and now - latest.at < REPEATS_US:
            latest.repeated += 1
            return
        if latest is not None:
            self._write_repeated(latest)
        if len(self._repeating) >= REPEATING_MAX:
            self._forget_repeated()
        line = {"time": str(Instant(now)), **line_of(client, rights, decision, policy)}
        self._repeating[client] = _Latest(key, now, line)
        self._write(json.dumps(line, ensure_ascii=False))

    def count(self, client: str, rights: Rights, publications: int, policy: AccessPolicy, now: int) -> None:
        """Record that so many publications of a client were admitted."""
        decision = Decision("publish", "granted", None, None)
        line = {"time": str(Instant(now)), **line_of(client, rights, decision, policy)}
        self._write(json.dumps({**line, "publications": publications}, ensure_ascii=False))

    def _write_repeated(self, latest: _Latest) -> None:
        """A line with how often a decision came again, which is not written each time."""
        if latest.repeated:
            self._write(json.dumps({**latest.line, "repeated": latest.repeated}, ensure_ascii=False))
            latest.repeated = 0

    def _forget_repeated(self) -> None:
        for each in self._repeating.values():
            self._write_repeated(each)
        self._repeating.clear()

    def note(self, event: str, policy: AccessPolicy, now: int) -> None:
        """Record that something happened to the policy."""
        line = {"time": str(Instant(now)), "action": event, "policy": policy.fingerprint}
        self._write(json.dumps(line))

    def _write(self, line: str) -> None:
        if self._file is None:
            return
        try:
            self._file.write(f"{line}\n")
            if self._file.tell() > BYTES_MAX:
                self._file.close()
                os.replace(self._path, f"{self._path}.1")
                self.open(self._path)
        except OSError:
            self.failed = True  # a full disk must not stop a broker; it says so in its status

    def flush(self, now: int = 0) -> None:
        """Hand what was recorded to the system, with what was repeated and is no longer."""
        if self._file is not None:
            for latest in self._repeating.values():
                if latest.repeated and now - latest.at >= REPEATS_US:
                    self._write_repeated(latest)
            try:
                self._file.flush()
            except OSError:
                self.failed = True

    def close(self) -> None:
        """Record nothing more."""
        self._forget_repeated()
        self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None


def line_of(client: str, rights: Rights, decision: Decision, policy: AccessPolicy) -> dict[str, Any]:
    """A decision about a request of a client, as a line has it."""
    line: dict[str, Any] = {
        "principal": rights.principal.name,
        "via": rights.principal.via,
        "client": client,
        "action": decision.action,
        "outcome": decision.outcome,
        "requested": None if decision.requested is None else render(decision.requested),
        "granted": None if decision.granted is None else render(decision.granted),
        "roles": list(decision.roles) or list(rights.roles),
        "reason": decision.reason,
        "policy": policy.fingerprint,
    }
    if rights.hidden and decision.action == "subscribe":
        line["hidden"] = sorted(rights.hidden)
    return line


def decisions(path: str | Path, *, follow: bool = False) -> Iterator[dict[str, Any]]:
    """The decisions of a file, in their order; a line that is torn is left out. With `follow`, it never ends, and
    goes on with the next file when another one is begun."""
    while True:
        with open(path, encoding="utf-8") as file:
            begun, has_ended = "", False
            while True:
                begun += file.readline()
                if begun.endswith("\n"):
                    with contextlib.suppress(ValueError):
                        yield json.loads(begun)
                    begun = ""
                elif not follow:
                    return
                elif has_ended:
                    break
                elif not (has_ended := _is_replaced(file, path)):
                    time.sleep(FOLLOW_S)


def _is_replaced(file: TextIO, path: str | Path) -> bool:
    """Whether another file has begun in the place of one that is open."""
    try:
        return not os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False
