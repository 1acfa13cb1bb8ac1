"""Composite events: notifications that carry what they are made of.

    type           the pattern's name (with `.partial` where it ran out of time)
    id             a hash of the pattern and the constituents (and the end, where a time event ended it)
    producer       `patterns`
    time           its end
    interval       {start, end}: from the least start of the constituents to the end
    pattern        the hash of the pattern's text
    constituents   [{step, producer, id, time}, …] in order, with the `version` of what scopes have mapped
    <step>         the attributes of what the step took; of a step that is repeated, a list of these
    <output>       what the pattern gives with it

What a pattern leaves out is no constituent and no attribute; the id and the interval are of the whole match.

So a composite can be filtered (`interval.start >= …`, `q.price > 100`), subscribed to, and be a step of
another pattern (`type = "spike"`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from fairlead.correlation.occurrences import Occurrence
from fairlead.correlation.patterns.model import PARTIAL, Pattern
from fairlead.model import Array, Instant, Notification, Record
from fairlead.model.versions import version_in

__all__ = ["PRODUCER", "Composite", "composite_id", "in_order"]

PRODUCER: Final = "patterns"
"""The producer of composite events."""


@dataclass(frozen=True, slots=True)
class Composite:
    """A match that was taken: which steps took what, until when, and what the pattern gives with it."""

    pattern: Pattern
    constituents: tuple[tuple[str, Occurrence], ...]
    end: int
    outputs: tuple[tuple[str, Any], ...] = ()
    partial: bool = False

    @property
    def start(self) -> int:
        """The least start of its constituents."""
        return min(occurrence.start for _, occurrence in self.constituents)

    @property
    def type(self) -> str:
        """The pattern's name, with an ending where it ran out of time."""
        return self.pattern.name + (PARTIAL if self.partial else "")

    @property
    def id(self) -> str:
        """The id, the same wherever and whenever the composite is detected."""
        by_time = self.partial or self.end > max(occurrence.end for _, occurrence in self.constituents)
        return composite_id(self.pattern, self.constituents, self.end if by_time else None)

    @property
    def is_public(self) -> bool:
        """Whether its pattern has a name."""
        return self.pattern.is_public

    @property
    def rank(self) -> tuple[int, int, str, str]:
        """Its key: (end, start, pattern hash, id)."""
        return self.end, self.start, self.pattern.hash, self.id

    def occurrence(self) -> Occurrence:
        """The composite as an occurrence of the stream, for patterns over composites."""
        return Occurrence.composite(self.notification(), self.start, self.end, self.pattern.hash)

    def notification(self) -> Notification:
        """The composite as a notification."""
        steps: dict[str, list[Record]] = {}
        shown = [each for each in self.constituents if each[0] not in self.pattern.left_out]
        for step, occurrence in shown:
            steps.setdefault(step, []).append(occurrence.notification.attributes)
        repeated = self.pattern.repeated_steps
        id, end = self.id, Instant(self.end)
        fields: dict[str, Any] = {
            **{step: Array(tuple(taken)) if step in repeated else taken[0] for step, taken in steps.items()},
            **dict(self.outputs),
            "type": self.type,
            "id": id,
            "producer": PRODUCER,
            "time": end,
            "interval": Record({"start": Instant(self.start), "end": end}),
            "pattern": self.pattern.hash,
            "constituents": Array(tuple(_named(*each) for each in shown)),
        }
        return Notification(Record(fields), id=id, producer=PRODUCER, time=end)


def composite_id(
    pattern: Pattern, constituents: Iterable[tuple[str, Occurrence]], ended: int | None = None
) -> str:
    """A hash of the pattern and its constituents, in order; where a time event ended it, also of when."""
    digest = blake2b(pattern.hash.encode(), digest_size=16)
    if ended is not None:
        digest.update(f"\0{ended}".encode())
    for step, occurrence in constituents:
        notification = occurrence.notification
        for part in (step, notification.producer, notification.id or ""):
            encoded = part.encode()
            digest.update(b"%d:" % len(encoded) + encoded)
    return digest.hexdigest()


def _named(step: str, occurrence: Occurrence) -> Record:
    notification = occurrence.notification
    id, version = version_in(notification.id)
    fields: dict[str, Any] = {"step": step, "producer": notification.producer, "id": id}
    if version:
        fields["version"] = version
    return Record(fields if notification.time is None else {**fields, "time": notification.time})


def in_order(composites: Iterable[Composite]) -> Sequence[Composite]:
    """Composites in their total order."""
    return sorted(composites, key=lambda each: each.rank)
