"""Changes of the scope graph while a network runs: durable, at every broker, with one outcome.

A change is a notification of the producer `scopes` with the text of its statements. Every broker subscribes to
these durably, so each change comes to every broker. The broker learns it before it is routed
(`rules.integrated`): writes it into a file beside its log, and applies all that it knows in the order of (time,
id). So brokers that know the same changes have the same graph, in whatever order these came, and two
administrators who change the same scope get one outcome. A change that cannot be applied at its place in that
order changes nothing. At each broker a change holds from its arrival on. A broker that has taken a change of an
administrator says so, and where the change is void, why: who has made it can wait for all brokers (`taken_by`).

Brokers compare what they know: each asks all others when it starts, often at first and then once an hour, with a
digest of the changes that it knows. Whoever knows others answers with all of its own, every change with its own
time and id. So a broker that comes later learns the changes before it, whichever broker it reaches first.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fairlead.model import ABSENT, Notification
from fairlead.network.client import Client, connect
from fairlead.rules.integrated import CHANGE, CHANGES, FOLLOWER, BrokerScoping, Change, change_in

if TYPE_CHECKING:
    from fairlead.network.settings import BrokerSettings
    from fairlead.rules import Rule

__all__ = ["ANSWERS", "ScopeChanges", "Taken", "follow", "scope_changes", "taken_by"]

FILE: Final = "scopes.jsonl"
QUESTION: Final = "question"
KNOWN: Final = "known"
TAKEN: Final = "taken"
ANSWERS: Final = f'type = "{CHANGE}" and exists {TAKEN}'
"""The filter of what brokers say about changes that they have taken."""
REPEATED_AFTER: Final = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0)
"""So many seconds after a question a broker asks again: links may take their time."""
REPEATED_EVERY: Final = 3600.0
"""And then it goes on asking so seldom."""


class ScopeChanges:
    """The changes that a broker knows, in a file beside its log."""

    def __init__(self, rule: BrokerScoping, path: Path) -> None:
        self.rule, self._path = rule, path
        lines = path.read_bytes().split(b"\n") if path.exists() else []
        for line in lines:
            try:
                time, id, text, *offset = json.loads(line)
            except ValueError:  # the last one, where the broker was killed while it wrote: it comes again
                continue
            rule.recall(Change(time, id, text), *offset or [0])
        rule.journal = self._write

    @property
    def known(self) -> list[Change]:
        """The changes, in the order in which they are applied."""
        return self.rule.known

    def take(self, change: Notification, offset: int = 0) -> bool:
        """Write a change down, then apply it; False: it is known, or none."""
        made = change_in(change)
        return made is not None and self.rule.take(made, offset)

    def question(self) -> dict[str, Any]:
        """The event that asks other brokers for what they know."""
        return {"type": CHANGE, QUESTION: True, KNOWN: self._digest}

    def answers(self, question: Notification) -> list[dict[str, Any]]:
        """The events that answer a question: none, where who asks knows the same."""
        if question.get(KNOWN) == self._digest:
            return []
        return [{"type": CHANGE, "of": id, "at": time, "text": text} for time, id, text in self.known]

    @property
    def _digest(self) -> str:
        """The same at two brokers only if they know the same changes."""
        return hashlib.sha256(json.dumps(self.known).encode()).hexdigest()

    def _write(self, change: Change, offset: int) -> None:
        self._append(json.dumps([*change, offset]).encode())

    def _append(self, line: bytes) -> None:
        with open(self._path, "ab") as file:
            file.write(b"\n" + line)  # a torn line before it stays a line of its own
            file.flush()
            os.fsync(file.fileno())


def scope_changes(settings: BrokerSettings, rules: Iterable[Rule]) -> ScopeChanges | None:
    """The changes of a broker with scopes and a log; None: it has none."""
    rule = next((each for each in rules if isinstance(each, BrokerScoping)), None)
    if rule is None or settings.data is None:
        return None
    return ScopeChanges(rule, Path(settings.data) / FILE)


async def follow(
    url: str,
    settings: BrokerSettings,
    changes: ScopeChanges,
    credentials: str,
    take: Callable[[Notification], None],
) -> None:
    """Have the broker at this address get all changes, for as long as it runs.

    The broker learns a change when it routes it; `take` is for all of them.
    """
    name = f"{FOLLOWER}{settings.name}"
    async with connect(url, name=name, tls=settings.tls, patience=None, credentials=credentials) as client:
        subscription = client.subscribe(f'type = "{CHANGE}"', durable=name)
        asking = asyncio.ensure_future(_ask(client, changes))
        try:
            async for change in subscription:
                if change.producer == name:
                    continue
                if change.get(QUESTION) is True:
                    for answer in changes.answers(change):
                        await client.publish(answer)
                elif change.get(TAKEN) is ABSENT:
                    take(change)
                    if change.producer == CHANGES:
                        void = changes.rule.voids.get(change.id or "", "")
                        await client.publish(
                            {"type": CHANGE, TAKEN: change.id, "broker": settings.name, "void": void}
                        )
        finally:
            asking.cancel()
            client._abandon()  # the broker stops, and answers no more


async def _ask(client: Client, changes: ScopeChanges) -> None:
    """Ask the other brokers for what they know, again and again."""
    for seconds in chain(REPEATED_AFTER, repeat(REPEATED_EVERY)):
        await client.publish(changes.question())
        await asyncio.sleep(seconds)


@dataclass
class Taken:
    """A change of the scope graph, and the brokers that are waited for until they have taken it."""

    change: str
    missing: set[str]
    """The brokers that have not taken it yet."""
    taken: dict[str, str] = field(default_factory=dict)
    """Those that have, each with the reason where the change is void there."""

    @property
    def void(self) -> str:
        """Why the change has no effect; empty where it has."""
        return next((reason for reason in self.taken.values() if reason), "")

    def hear(self, answer: Notification) -> None:
        """One of `ANSWERS`."""
        if answer.get(TAKEN) == self.change:
            name = str(answer.get("broker"))
            self.taken[name] = str(answer.get("void"))
            self.missing.discard(name)


def taken_by(
    answers: Callable[[], Notification], change: str, brokers: Iterable[str]
) -> tuple[dict[str, str], set[str]]:
    """The brokers that have taken a change, each with the reason where it is void there, and those that have not.

    `answers` gives the next of `ANSWERS`, and TimeoutError when the time is over.
    """
    found = Taken(change, set(brokers))
    while found.missing:
        try:
            found.hear(answers())
        except TimeoutError:
            break
    return found.taken, found.missing
