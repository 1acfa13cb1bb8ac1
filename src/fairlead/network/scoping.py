"""Changes of the scope graph while a network runs: durable, at every broker, with one outcome.

A change is a notification of the producer `scopes` with the text of its statements. Every broker subscribes to
these durably, writes each into a file beside its log before it is acknowledged, and applies all that it knows in
the order of (time, id). So brokers that know the same changes have the same graph, in whatever order these came,
and two administrators who change the same scope get one outcome. A change that cannot be applied at its place in
that order changes nothing. At each broker a change holds from its arrival on.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fairlead.errors import FairleadError
from fairlead.model import Notification
from fairlead.network.client import connect
from fairlead.rules.scoping import CHANGE, CHANGES, FOLLOWER, BrokerScoping
from fairlead.scopes import parse_statements

if TYPE_CHECKING:
    from fairlead.network.settings import BrokerSettings
    from fairlead.rules import Rule

__all__ = ["ScopeChanges", "follow"]

log: Final = logging.getLogger(__name__)
FILE: Final = "scopes.jsonl"


class ScopeChanges:
    """The changes that a broker knows, in a file, and the rule that they change."""

    def __init__(self, rule: BrokerScoping, path: Path) -> None:
        self._rule, self._path, self._base = rule, path, rule.system
        self._known: dict[str, tuple[int, str, str]] = {}
        if path.exists():
            for line in path.read_bytes().split(b"\n"):
                try:
                    time, id, text = json.loads(line)
                    self._known[id] = (time, id, text)
                except ValueError:  # the last one, where the broker was killed while it wrote: it comes again
                    continue
            self._apply()

    def take(self, change: Notification) -> None:
        """Write a change down, then apply it; one that is known changes nothing."""
        id, text = change.id or "", change.get("text")
        if change.producer != CHANGES or id in self._known or not isinstance(text, str):
            return
        known: tuple[int, str, str] = (0 if change.time is None else change.time.microseconds, id, text)
        with open(self._path, "ab") as file:
            file.write(b"\n" + json.dumps(known).encode())  # a torn line before it stays a line of its own
            file.flush()
            os.fsync(file.fileno())
        self._known[id] = known
        self._apply()

    def _apply(self) -> None:
        system = self._base
        for _, id, text in sorted(self._known.values()):
            try:
                changed = system
                for statement in parse_statements(text):
                    changed = changed.apply(statement)
                self._rule.check(changed)
                system = changed
            except FairleadError as error:
                log.warning("the change %s of the scope graph is void: %s", id, error)
        self._rule.decide_by(system)


async def follow(url: str, settings: BrokerSettings, rules: Iterable[Rule]) -> None:
    """Take up changes as they come, for as long as the broker at this address runs."""
    rule = next((each for each in rules if isinstance(each, BrokerScoping)), None)
    if rule is None or settings.data is None:
        return
    changes = ScopeChanges(rule, Path(settings.data) / FILE)
    name = f"{FOLLOWER}{settings.name}"
    async with connect(url, name=name, tls=settings.tls, patience=None) as client:
        async for change in client.subscribe(f'type = "{CHANGE}"', durable=name):
            changes.take(change)
