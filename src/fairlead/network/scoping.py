"""Changes of the scope graph while a network runs: durable, at every broker, with one outcome.

A change is a notification of the producer `scopes` with the text of its statements. Every broker subscribes to
these durably, writes each into a file beside its log before it is acknowledged, and applies all that it knows in
the order of (time, id). So brokers that know the same changes have the same graph, in whatever order these came,
and two administrators who change the same scope get one outcome. A change that cannot be applied at its place in
that order changes nothing. At each broker a change holds from its arrival on.

A broker that has no such file is new, and asks the other brokers for the changes before it came. Each of them
answers with all that it knows, every change with its own time and id, and how many there are.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fairlead.errors import FairleadError
from fairlead.model import Notification
from fairlead.network.client import Client, connect
from fairlead.rules.scoping import CHANGE, CHANGES, FOLLOWER, BrokerScoping
from fairlead.scopes import parse_statements

if TYPE_CHECKING:
    from fairlead.network.settings import BrokerSettings
    from fairlead.rules import Rule

__all__ = ["ScopeChanges", "follow"]

log: Final = logging.getLogger(__name__)
FILE: Final = "scopes.jsonl"
QUESTION: Final = "question"
KNOWN: Final = "known"
REQUESTED_AFTER: Final = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0)
"""So many seconds a new broker waits for an answer before it asks again: links may take their time."""


class ScopeChanges:
    """The changes that a broker knows, in a file, and the rule that they change."""

    def __init__(self, rule: BrokerScoping, path: Path) -> None:
        self._rule, self._path, self._base = rule, path, rule.system
        self._known: dict[str, tuple[int, str, str]] = {}
        self.is_new = not path.exists()
        """Whether there may be changes from before this broker."""
        if not self.is_new:
            for line in path.read_bytes().split(b"\n"):
                try:
                    time, id, text = json.loads(line)
                    self._known[id] = (time, id, text)
                except ValueError:  # the last one, where the broker was killed while it wrote: it comes again
                    continue
            self._apply()

    @property
    def known(self) -> list[tuple[int, str, str]]:
        """The time, the id and the text of each change, in the order in which they are applied."""
        return sorted(self._known.values())

    def take(self, change: Notification) -> None:
        """Write a change down, then apply it; one that is known changes nothing."""
        text = change.get("text")
        if not isinstance(text, str):
            if isinstance(change.get(KNOWN), int) and self.is_new:
                self._write(b"")
            return
        time = 0 if change.time is None else change.time.microseconds
        known = (time, change.id or "", text)
        if change.producer != CHANGES:  # another broker hands on what it knows
            known = (_whole(change.get("at")), str(change.get("of")), text)
        if known[1] in self._known:
            return
        self._write(json.dumps(known).encode())
        self._known[known[1]] = known
        self._apply()

    def _write(self, line: bytes) -> None:
        with open(self._path, "ab") as file:
            file.write(b"\n" + line)  # a torn line before it stays a line of its own
            file.flush()
            os.fsync(file.fileno())
        self.is_new = False

    def _apply(self) -> None:
        system = self._base
        for _, id, text in self.known:
            try:
                changed = system
                for statement in parse_statements(text):
                    changed = changed.apply(statement)
                self._rule.check(changed)
                system = changed
            except FairleadError as error:
                log.warning("the change %s of the scope graph is void: %s", id, error)
        self._rule.decide_by(system)


async def follow(url: str, settings: BrokerSettings, rules: Iterable[Rule], credentials: str) -> None:
    """Take up changes as they come, for as long as the broker at this address runs."""
    rule = next((each for each in rules if isinstance(each, BrokerScoping)), None)
    if rule is None or settings.data is None:
        return
    changes = ScopeChanges(rule, Path(settings.data) / FILE)
    name = f"{FOLLOWER}{settings.name}"
    async with connect(url, name=name, tls=settings.tls, patience=None, credentials=credentials) as client:
        subscription = client.subscribe(f'type = "{CHANGE}"', durable=name)
        asking = asyncio.ensure_future(_ask(client, changes))
        try:
            async for change in subscription:
                if change.producer == name:
                    continue
                if change.get(QUESTION) is True:
                    await _answer(client, changes)
                else:
                    changes.take(change)
        finally:
            asking.cancel()


async def _ask(client: Client, changes: ScopeChanges) -> None:
    """Ask the other brokers for what they know, until one has answered; a network may have no other."""
    for seconds in REQUESTED_AFTER:
        if not changes.is_new:
            return
        await client.publish({"type": CHANGE, QUESTION: True})
        await asyncio.sleep(seconds)


async def _answer(client: Client, changes: ScopeChanges) -> None:
    for time, id, text in changes.known:
        await client.publish({"type": CHANGE, "of": id, "at": time, "text": text})
    await client.publish({"type": CHANGE, KNOWN: len(changes.known)})


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
