"""A filter, whether it can be read and what it matches; two filters compared; a test event published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fairlead import dialects
from fairlead.console.views.shell import badge, editor, empty, fault, form, inquiry, section, table
from fairlead.console.views.trying import EVENTS_MAX, Choice, Compared, Event, Reading
from fairlead.filters.explain import Explanation
from fairlead.markup import Child, Markup, joined, tag
from fairlead.model import Notification
from fairlead.model.encoding import format_json, notification_to_json

__all__ = ["answer", "compare", "comparison", "completion", "published", "trial"]

SAMPLE: Final = """\
{"symbol": "IBM", "price": 101.5, "quantity": 400}
{"symbol": "SAP", "price": 88, "quantity": 1200}
{"symbol": "IBM", "price": 97}
"""
RELATIONS: Final = {
    "identical": "They match the same events.",
    "covers": "The first matches all that the second does, and more.",
    "covered": "The second matches all that the first does, and more.",
    "overlaps": "Some events match both; each matches some that the other does not.",
    "disjoint": "No event matches both.",
}


def trial() -> Markup:
    """The page: a filter, events, and what it says of them."""
    return joined(
        inquiry(
            "try",
            editor(
                "text",
                "Filter",
                'symbol = "IBM" and price > 100',
                rows=2,
                completes=True,
                hint="Arrow keys and Enter take what is offered; Escape closes the list.",
            ),
            _dialect("dialect"),
            editor("events", "Events, one in each line as JSON", SAMPLE, rows=6),
            tag(
                "p",
                tag("button", "Take live events", type="button", id="listen", aria_pressed="false"),
                " ",
                tag(
                    "span",
                    "collects what is published while it is on",
                    id="listening",
                    class_="note",
                    role="status",
                ),
            ),
            tag("button", "Try", type="submit"),
        ),
        section(
            "Publish a test event",
            form(
                "publish",
                "published",
                editor("event", "Event, as JSON", '{"symbol": "IBM", "price": 101.5}', rows=2),
                tag("button", "Publish", type="submit"),
            ),
            tag("div", Markup(""), id="published", aria_live="polite"),
            note="It is published for real: all who subscribe to it get it.",
        ),
    )


def _dialect(name: str) -> Markup:
    return tag(
        "div",
        tag("label", "Language", for_=name),
        tag(
            "select",
            *(tag("option", each, value=each) for each in (dialects.OWN, *dialects.NAMES)),
            id=name,
            name=name,
        ),
        class_="field",
    )


def answer(reading: Reading, events: Sequence[Event]) -> Markup:
    """A filter as it was read, and what it says of events."""
    if reading.error is not None:
        return section("Not a filter", fault(reading.error, reading.text))
    shortest = reading.shortest
    matching = sum(event.explanation is not None and event.explanation.holds for event in events)
    return joined(
        section(
            "The filter",
            tag("p", badge("can be read", "good"), " ", tag("code", str(reading.filter))),
            tag("p", badge("remark", "warn"), " ", reading.remark) if reading.remark else None,
            tag("p", "Shorter: ", tag("code", shortest)) if shortest else None,
        ),
        section(
            f"{matching:,} of {len(events):,} events match",
            tag("ol", *(_event(event) for event in events), class_="events")
            if events
            else empty("There are no events."),
            tag("p", f"Only the first {EVENTS_MAX:,} are looked at.", class_="note")
            if len(events) == EVENTS_MAX
            else None,
        ),
    )


def _event(event: Event) -> Markup:
    if event.explanation is None:
        return tag(
            "li",
            badge("no event", "warn"),
            " ",
            tag("code", event.text),
            tag("p", event.problem, class_="note"),
        )
    holds = event.explanation.holds
    return tag(
        "li",
        tag(
            "details",
            tag(
                "summary",
                badge("matches" if holds else "does not match", "good" if holds else "idle"),
                " ",
                tag("code", event.text),
                tag("span", event.explanation.verdict.partition(": ")[2], class_="quiet"),
            ),
            tag("ul", _reasons(event.explanation), class_="reasons"),
        ),
    )


def _reasons(explanation: Explanation) -> Markup:
    mark = tag("b", "✓" if explanation.holds else "✗", class_="good" if explanation.holds else "bad")
    if explanation.join is None:
        return tag("li", mark, " ", explanation.sentence)
    word = {"all": "all of", "any": "one of", "not": "not"}[explanation.join]
    return tag("li", mark, " ", word, tag("ul", *map(_reasons, explanation.parts)))


def completion(offered: Sequence[Choice]) -> list[dict[str, object]]:
    """Choices for the list below a field."""
    return [{"text": each.text, "replaced": each.replaced, "kind": each.kind} for each in offered]


def published(notification: Notification) -> Markup:
    """An event that was acknowledged."""
    return tag(
        "p",
        badge("acknowledged", "good"),
        " ",
        tag("code", f"{notification.producer}, {notification.id}"),
    )


# -- two filters -------------------------------------------------------------------------------------------------


def compare() -> Markup:
    """The page: two filters."""
    return joined(
        inquiry(
            "compare",
            editor("first", "First filter", "price > 10", rows=2, completes=True),
            _dialect("first_dialect"),
            editor("second", "Second filter", "price in [20, 30]", rows=2, completes=True),
            _dialect("second_dialect"),
            tag("button", "Compare", type="submit"),
        ),
    )


def comparison(first: Reading, second: Reading, result: Compared | None) -> Markup:
    """The relation of two filters, or which of them cannot be read."""
    if result is None:
        return joined(
            *(
                section(f"The {name} filter", fault(each.error, each.text))
                for name, each in (("first", first), ("second", second))
                if each.error is not None
            )
        )
    relation = result.relation
    doubt = (
        None if relation.exact else "This is the safe answer: the exact one is not known for these filters."
    )
    return joined(
        section(
            f"The first {_verb(relation.name)} the second",
            tag("p", RELATIONS[relation.name]),
            tag("p", doubt, class_="note") if doubt else None,
            _venn(result),
            _witnesses(result),
            tag("p", "Both as one filter: ", tag("code", result.merger)) if result.merger else None,
        )
    )


def _verb(relation: str) -> str:
    return {"identical": "is identical to", "covered": "is covered by", "disjoint": "is disjoint from"}.get(
        relation, relation
    )


def _venn(found: Compared) -> Markup:
    """Two circles as far apart as the filters are; a part without events is empty."""
    left, right, radius = {
        "identical": (200, 200, 80),
        "covers": (180, 212, 45),
        "covered": (188, 220, 45),
        "overlaps": (155, 245, 80),
        "disjoint": (105, 295, 80),
    }[found.relation.name]
    radii = {"covers": (80, radius), "covered": (radius, 80)}.get(found.relation.name, (80, 80))
    words = {"identical": "The circles are one.", "disjoint": "The circles do not touch."}
    return tag(
        "svg",
        tag("circle", cx=left, cy=95, r=radii[0], class_="first"),
        tag("circle", cx=right, cy=95, r=radii[1], class_="second"),
        tag("text", "first", x=left - radii[0], y=14 if radii[0] == 80 else 190, class_="first"),
        tag("text", "second", x=right + radii[1] - 20, y=14 if radii[1] == 80 else 190, class_="second"),
        viewBox="0 0 400 195",
        role="img",
        aria_label=words.get(found.relation.name, RELATIONS[found.relation.name]),
        class_="venn",
    )


def _witnesses(found: Compared) -> Markup:
    given = zip(
        ("the first alone", "both", "the second alone"),
        (found.first_only, found.both, found.second_only),
        found.parts,
        strict=True,
    )
    rows: list[tuple[Child, Child]] = [
        (where, tag("code", format_json(notification_to_json(event)["attributes"])))
        if event is not None
        else (where, tag("span", "none is known" if possible else "nothing", class_="quiet"))
        for where, event, possible in given
    ]
    return table(("matched by", "an event"), rows, caption="Examples")
