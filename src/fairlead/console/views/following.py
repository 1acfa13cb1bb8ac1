"""One notification on its way: which brokers it reaches, by which entries, who gets it, and who does not.

Each broker says itself where the notification would go from there (`fairlead.network.examining`): so the answer
holds in networks with several ways, in hierarchies, and where scopes, rights or trust decide besides the tables.

The law: on a network whose tables are settled, those who get it here are those to whom the brokers deliver it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fairlead.console.views.network import Network
from fairlead.console.views.overlay import destination
from fairlead.console.views.shell import badge, counted, editor, empty, form, section, table
from fairlead.errors import FairleadError
from fairlead.markup import Markup, joined, tag
from fairlead.model import Notification
from fairlead.model.encoding import fields_from_json, notification_to_json, parse_json

__all__ = ["Step", "Trail", "event_of", "follow", "outcome", "question"]

SHOWN_MAX: Final = 30
AT_ONCE: Final = 20
"""So many brokers are asked at a time."""


@dataclass(frozen=True, slots=True)
class Step:
    """A broker that the notification reaches, and what it says; or why it does not say anything."""

    broker: str
    source: str
    """The neighbour from which it comes first; empty where it is published."""
    answer: dict[str, Any] = field(default_factory=dict)
    problem: str = ""

    @property
    def next(self) -> list[str]:
        """The neighbours that it goes to."""
        return list(self.answer.get("next", ()))


@dataclass(frozen=True, slots=True)
class Trail:
    """All brokers that a notification reaches, the first one first."""

    steps: tuple[Step, ...]

    @property
    def links(self) -> list[tuple[str, str]]:
        """The links that it passes, in that direction."""
        return [(step.broker, other) for step in self.steps for other in step.next]

    @property
    def receivers(self) -> list[tuple[str, str]]:
        """Clients and durable subscribers that get it, each with its broker."""
        return sorted(
            {(step.broker, each) for step in self.steps for each in step.answer.get("receivers", ())}
        )


async def follow(network: Network, start: str, notification: Notification, who: str = "") -> Trail:
    """The trail of a notification that is published at a broker, with the entries of `who` that do not match.

    Each broker is asked once, for the copy that comes first.
    """
    known = (await network.survey()).brokers
    steps: list[Step] = []
    reached = {start}
    ahead: list[tuple[str, str, Any]] = [(start, "", notification_to_json(notification))]
    while ahead:
        some, ahead = ahead[:AT_ONCE], ahead[AT_ONCE:]
        for step in await asyncio.gather(*(_step(network, *each, who) for each in some)):
            steps.append(step)
            for each in step.next:
                if each in reached:
                    continue
                reached.add(each)
                if each in known:
                    ahead.append((each, step.broker, step.answer["carried"]))
                else:
                    steps.append(Step(each, step.broker, problem="it is not seen from here"))
    return Trail(tuple(steps))


async def _step(network: Network, broker: str, source: str, event: Any, who: str) -> Step:
    try:
        async with network.asking(broker) as ask:
            about = {"event": event, "from": source, "who": who}
            return Step(broker, source, await ask("explain", **about))
    except (FairleadError, OSError, TimeoutError) as error:
        return Step(broker, source, problem=str(error).partition("\n")[0] or "not answered in time")


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
            tag(
                "div",
                tag("label", "By (with scopes: the component that publishes)", for_="producer"),
                tag("input", id="producer", name="producer", autocomplete="off", spellcheck="false"),
                class_="field",
            ),
            editor("event", "Event, as JSON", '{"symbol": "IBM", "price": 101.5}', rows=4),
            tag(
                "div",
                tag("label", "Why not to (a part of a subscriber's name)", for_="who"),
                tag("input", id="who", name="who", autocomplete="off", spellcheck="false"),
                class_="field",
            ),
            tag("button", "Follow", type="submit"),
        ),
        tag("div", Markup(""), id="outcome", aria_live="polite"),
    )


def event_of(text: str, producer: str = "") -> Notification:
    """The event of the form, as it would be published. FairleadError."""
    given = parse_json(text)
    if not isinstance(given, dict):
        raise FairleadError("an event is a JSON object")
    made = Notification.of(fields_from_json(given))
    return replace(
        made,
        id=made.id if made.id is not None else "followed",
        producer=producer.strip() or made.producer or "console",
    )


def outcome(trail: Trail) -> Markup:
    """The trail in words: who gets it, and each broker in turn."""
    receivers = trail.receivers
    unseen = [step for step in trail.steps if step.problem]
    said = (
        table(
            ("who", "at"),
            [(destination(who), broker) for broker, who in receivers],
            caption=counted(len(receivers), "receiver"),
        )
        if receivers
        else empty("Nobody gets it at the brokers that are seen." if unseen else "Nobody gets it.")
    )
    away = f"It goes on to {', '.join(step.broker for step in unseen)}, of which nothing is known here."
    return joined(
        section("Who gets it", said, tag("p", away, class_="note") if unseen else None),
        section("Broker by broker", tag("ol", *(_item(step) for step in trail.steps), class_="hops")),
    )


def _item(step: Step) -> Markup:
    from_where = f"from {step.source}" if step.source else "published here"
    onward = f"goes on to {', '.join(step.next)}" if step.next else "ends here"
    head = tag("h3", step.broker, " ", tag("span", f"{from_where}, {onward}", class_="quiet"))
    answer = step.answer
    if step.problem:
        return tag("li", head, tag("p", badge("not known", "warn"), " ", step.problem))
    count = answer["rest"]
    more = count - len(answer["others"])
    return tag(
        "li",
        head,
        tag("p", f"To {answer['up']}, its parent in the hierarchy, goes everything.", class_="note")
        if answer["up"]
        else None,
        _listed(answer["matching"], step.broker, "matches", "good", answer["matches"]),
        tag(
            "details",
            tag("summary", f"{counted(count, 'entry', 'entries')} without a match"),
            _listed(answer["others"], step.broker, "does not match", "idle", len(answer["others"])),
            tag("p", f"and {more:,} more", class_="note") if more > 0 else None,
        )
        if count
        else None,
    )


def _listed(entries: list[list[str]], broker: str, word: str, tone: str, count: int) -> Markup:
    if not entries:
        return empty("No entry matches.")
    rows = [
        (badge(word, tone), destination(to), tag("code", filter), why)
        for filter, to, why in entries[:SHOWN_MAX]
    ]
    more = count - len(rows)
    return joined(
        table(("entry", "leads to", "filter", "why"), rows, caption=f"{broker}: what {word}"),
        tag("p", f"and {more:,} more", class_="note") if more > 0 else None,
    )
