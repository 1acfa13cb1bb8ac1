"""Trust: the notifications that each broker may handle (book 8.1.4).

A broker that handles `type = "PoliceEvent"` sees nothing else: neither notifications, nor subscriptions to them,
nor advertisements. What it is told of a filter is `part(broker, filter)`: the filter *and* what it handles.

The laws:

- Nothing reaches a broker that it does not handle, and no filter that matches something it does not handle.
- Without a list of brokers, all brokers handle everything. With one, a broker that it does not name handles
  nothing.
- A notification has a trusted way from a broker to another iff both and every broker in between handle it.

`fairlead.rules.trust.Trust` is the rule that brokers ask.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Literal, TypeAlias

from fairlead.filters import EVERYTHING, NOTHING, Filter, Not, Or, covers, overlaps, simplify
from fairlead.filters.schema import Schema
from fairlead.filters.simplify import meet

__all__ = ["ALL_TRUSTED", "SEALED", "UNTRUSTED", "BrokerTrust", "Links", "Untrusted"]

Untrusted: TypeAlias = Literal["refuse", "cut", "seal"]
UNTRUSTED: Final = ("refuse", "cut", "seal")
"""The treatments of a subscription to which no trusted way leads from some broker."""
SEALED: Final = "$sealed"
"""The attribute that has all of a notification that travels sealed through brokers."""
Links: TypeAlias = Mapping[str, Sequence[str]]
"""By broker, its neighbours."""


@dataclass(frozen=True)
class BrokerTrust:
    """Brokers, each with filters of what it handles."""

    handles: Mapping[str, tuple[Filter, ...]] = field(default_factory=dict)
    untrusted: Untrusted = "refuse"
    schema: Schema | None = None
    publics: Mapping[str, str] = field(default_factory=dict)
    """By broker, its public keys."""

    @property
    def seals(self) -> bool:
        """Whether notifications are sealed where a broker on their way is not trusted with them."""
        return self.untrusted == "seal" and bool(self.handles)

    def limit(self, broker: str) -> Filter:
        """A filter that matches what a broker handles."""
        if not self.handles:
            return EVERYTHING
        return Or.of(self.handles.get(broker, ()))

    def part(self, broker: str, filter: Filter) -> Filter:
        """The part of a filter that a broker handles; NOTHING where it handles none of it."""
        return meet(filter, self.limit(broker), self.schema)

    def reachable(self, links: Links, start: str, filter: Filter) -> dict[str, Filter]:
        """By broker, the part of a filter that has a trusted way between that broker and the start."""
        reached = {start: self.part(start, filter)}
        ahead = [start] if reached[start] != NOTHING else []
        # Each broker is looked at once for each way that adds something; a relation that is not decided ends here.
        for near in islice(ahead, len(links) ** 2):
            for far in links.get(near, ()):
                part, known = self.part(far, reached[near]), reached.get(far, NOTHING)
                if part != NOTHING and not covers(known, part, self.schema):
                    reached[far] = simplify(Or.of((known, part)), self.schema)
                    ahead.append(far)
        return {broker: part for broker, part in reached.items() if part != NOTHING}

    def apart(self, links: Links, start: str, filter: Filter) -> list[str]:
        """The brokers that handle some of a filter, as the start does, and have no trusted way to it for any."""
        own = self.part(start, filter)
        reached = self.reachable(links, start, own)
        return [
            broker
            for broker in links
            if broker not in reached and overlaps(own, self.limit(broker), self.schema)
        ]

    def separated(self, links: Links) -> Iterator[tuple[str, str, Filter]]:
        """Pairs of brokers, each with a filter of what both handle and has no trusted way between them."""
        brokers = list(links)
        for number, one in enumerate(brokers):
            reached = self.reachable(links, one, EVERYTHING)
            for other in brokers[number + 1 :]:
                both = self.part(other, self.limit(one))
                missing = meet(both, Not(reached.get(other, NOTHING)), self.schema)
                if missing != NOTHING:
                    yield one, other, missing


ALL_TRUSTED: Final = BrokerTrust()
"""Every broker handles everything."""
