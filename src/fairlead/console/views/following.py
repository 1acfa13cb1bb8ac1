"""One notification on its way: which brokers it reaches, by which entries, who gets it, and who does not.

The law: on a network whose tables are settled, those who get it here are those to whom the brokers deliver it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from fairlead.console.views.overlay import destination
from fairlead.console.views.shell import badge, counted, editor, empty, form, section, table
from fairlead.errors import FairleadError
from fairlead.filters import Schema
from fairlead.filters.explain import explain
from fairlead.filters.language import parse
from fairlead.markup import Markup, joined, tag
from fairlead.model import Notification
from fairlead.model.encoding import fields_from_json, parse_json
from fairlead.network.survey import Survey

__all__ = ["Hop", "Trail", "doubts", "event_of", "follow", "outcome", "question"]

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
    """Those that it goes to: neighbours, and in a network with several ways the brokers of subscribers."""
    unread: int = 0
    """Entries that were not looked at: there are too many, or this process cannot read them."""


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
    entries = tables.get("subscriptions", ())
    unread = max(0, len(entries) - ENTRIES_MAX)
    for text, to in entries[:ENTRIES_MAX]:
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


def event_of(text: str) -> Notification:
    """The event of the form, as it would be published. FairleadError."""
    given = parse_json(text)
    if not isinstance(given, dict):
        raise FairleadError("an event is a JSON object")
    made = Notification.of(fields_from_json(given))
    return replace(
        made, id=made.id if made.id is not None else "followed", producer=made.producer or "console"
    )


def doubts(survey: Survey) -> list[str]:
    """The reasons for which the tables do not say where a notification goes."""
    answers = [seen.status for seen in survey.brokers.values() if seen.status is not None]
    texts = (
        text for seen in survey.brokers.values() for text, _ in (seen.tables or {}).get("subscriptions", ())
    )
    found = []
    if survey.is_cyclic:
        found.append(
            "Several ways lead through this network: its tables name the last brokers, not the next."
        )
    if any(status.get("hierarchical") for status in answers):
        found.append("These brokers form a hierarchy: what goes up is in no table.")
    if any("$scopes" in text for text in texts):
        found.append("This network has scopes, which decide besides the tables.")
    return found


def outcome(trail: Trail, survey: Survey) -> Markup:
    """The trail in words: who gets it, and each broker in turn; or why the tables do not say so."""
    if reasons := doubts(survey):
        return section("Not to be told from the tables", *(empty(each) for each in reasons))
    receivers = trail.receivers
    unseen = sorted(
        each
        for each in {each for hop in trail.hops for each in hop.next}
        if each not in survey.brokers or survey.brokers[each].tables is None
    )
    told = (
        table(
            ("who", "at"),
            [(destination(who), broker) for broker, who in receivers],
            caption=counted(len(receivers), "receiver"),
        )
        if receivers
        else empty("Nobody gets it at the brokers that are seen." if unseen else "Nobody gets it.")
    )
    away = f"It goes on to {', '.join(unseen)}, whose tables are not seen here."
    return joined(
        section("Who gets it", told, tag("p", away, class_="note") if unseen else None),
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
            f"{hop.unread:,} entries were not looked at",
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
