"""One notification on its way: which brokers it reaches, by which entries, who gets it, and who does not.

The law: on a network whose tables are settled, those who get it here are those to whom the brokers deliver it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from fairlead.console.views.overlay import destination
from fairlead.console.views.shell import badge, counted, editor, empty, form, section, table
from fairlead.errors import FairleadError
from fairlead.filters import Schema
from fairlead.filters.explain import explain
from fairlead.filters.language import parse
from fairlead.markup import Markup, joined, tag
from fairlead.model import Notification
from fairlead.network.survey import Survey

__all__ = ["Hop", "Trail", "follow", "outcome", "question"]

ENTRIES_MAX: Final = 10_000
"""So many entries of a broker are looked at."""
SHOWN_MAX: Final = 30


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a routing table, and what it says of the notification."""

    filter: str
    destination: str
    verdict: str


@dataclass(frozen=True, slots=True)
class Hop:
    """A broker that the notification reaches."""

    broker: str
    source: str
    """The neighbour that it comes from; empty where it is published."""
    matching: tuple[Entry, ...]
    others: tuple[Entry, ...]
    next: tuple[str, ...]
    """The neighbours that it goes to."""
    unread: int = 0
    """Entries that this process cannot read."""


@dataclass(frozen=True, slots=True)
class Trail:
    """All brokers that a notification reaches, the first one first."""

    hops: tuple[Hop, ...]

    @property
    def links(self) -> list[tuple[str, str]]:
        """The links that it passes, in that direction."""
        return [(hop.source, hop.broker) for hop in self.hops if hop.source]

    @property
    def receivers(self) -> list[tuple[str, str]]:
        """Clients and durable subscribers that get it, each with its broker."""
        return sorted(
            {
                (hop.broker, each.destination)
                for hop in self.hops
                for each in hop.matching
                if each.destination[1:2] == ":"
            }
        )


def follow(survey: Survey, start: str, notification: Notification, schema: Schema | None = None) -> Trail:
    """The trail of a notification that is published at a broker, by the routing tables of all brokers."""
    hops: list[Hop] = []
    reached = {start}
    ahead = [(start, "")]
    for name, source in ahead:
        hop = _hop(survey, name, source, notification, schema)
        hops.append(hop)
        for each in hop.next:
            if each not in reached and each in survey.brokers:
                reached.add(each)
                ahead.append((each, name))
    return Trail(tuple(hops))


def _hop(survey: Survey, name: str, source: str, notification: Notification, schema: Schema | None) -> Hop:
    tables: dict[str, Any] = survey.brokers[name].tables or {}
    neighbours = set(tables.get("neighbours", ()))
    matching: list[Entry] = []
    others: list[Entry] = []
    unread = 0
    for text, to in tables.get("subscriptions", ())[:ENTRIES_MAX]:
        if to == source:
            continue
        try:
            explanation = explain(parse(text, schema), notification)
        except FairleadError:
            unread += 1
            continue
        (matching if explanation.holds else others).append(Entry(text, to, explanation.verdict))
    onward = tuple(sorted({each.destination for each in matching} & neighbours))
    return Hop(name, source, tuple(matching), tuple(others), onward, unread)


# -- the view ----------------------------------------------------------------------------------------------------


def question(names: Iterable[str], first: str) -> Markup:
    """The form: where it is published, and what."""
    return joined(
        tag(
            "p",
            "Follow one notification through the network: which brokers it reaches, by which entries of their "
            "routing tables, who gets it, and why the others do not. Nothing is published.",
            class_="note",
        ),
        form(
            "follow",
            "outcome",
            tag(
                "div",
                tag("label", "Published at", for_="broker"),
                tag(
                    "select",
                    *(tag("option", name, value=name, selected=name == first) for name in names),
                    id="broker",
                    name="broker",
                ),
                class_="field",
            ),
            editor("event", "Event, as JSON", '{"symbol": "IBM", "price": 101.5}', rows=4),
            tag("button", "Follow", type="submit"),
        ),
        tag("div", Markup(""), id="outcome", aria_live="polite"),
    )


def outcome(trail: Trail) -> Markup:
    """The trail in words: who gets it, and each broker in turn."""
    receivers = trail.receivers
    told = (
        table(
            ("who", "at"),
            [(destination(who), broker) for broker, who in receivers],
            caption=counted(len(receivers), "receiver"),
        )
        if receivers
        else empty("Nobody gets it.")
    )
    return joined(
        section("Who gets it", told),
        section("Broker by broker", tag("ol", *(_step(hop) for hop in trail.hops), class_="hops")),
    )


def _step(hop: Hop) -> Markup:
    from_where = f"from {hop.source}" if hop.source else "published here"
    onward = f"goes on to {', '.join(hop.next)}" if hop.next else "ends here"
    return tag(
        "li",
        tag("h3", hop.broker, " ", tag("span", f"{from_where}, {onward}", class_="quiet")),
        _listed(hop.matching, hop.broker, "matches", "good"),
        tag(
            "details",
            tag(
                "summary",
                f"{counted(len(hop.others), 'entry', 'entries')} without a match",
            ),
            _listed(hop.others, hop.broker, "does not match", "idle"),
        )
        if hop.others
        else None,
        tag(
            "p",
            f"{hop.unread:,} entries have operators of extensions that are not loaded here",
            class_="note",
        )
        if hop.unread
        else None,
    )


def _listed(entries: tuple[Entry, ...], broker: str, word: str, tone: str) -> Markup:
    if not entries:
        return empty("No entry matches.")
    rows = [
        (
            badge(word, tone),
            destination(each.destination),
            tag("code", each.filter),
            each.verdict.partition(": ")[2],
        )
        for each in entries[:SHOWN_MAX]
    ]
    more = len(entries) - len(rows)
    return joined(
        table(("entry", "leads to", "filter", "why"), rows, caption=f"{broker}: what {word}"),
        tag("p", f"and {more:,} more", class_="note") if more > 0 else None,
    )
