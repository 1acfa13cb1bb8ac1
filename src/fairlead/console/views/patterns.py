"""Patterns: the automaton of a pattern drawn, and what it finds in events, on a time line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from fairlead.console.views.shell import (
    badge,
    counted,
    editor,
    empty,
    fault,
    inquiry,
    picture,
    preformatted,
    section,
    table,
)
from fairlead.console.views.trying import EVENTS_MAX, TEXT_MAX, Event, events_in
from fairlead.correlation.patterns import Automaton, Partial, Pattern, drawing, parse, render
from fairlead.correlation.patterns.building import render_python
from fairlead.correlation.patterns.core import render_core
from fairlead.correlation.queries import Query, QuerySet
from fairlead.delivery import OrderedQueue
from fairlead.errors import FairleadError
from fairlead.filters import Schema
from fairlead.markup import Markup, joined, tag
from fairlead.matching import engine_named
from fairlead.model import Instant, Notification

__all__ = ["Detected", "answer", "detected", "patterns"]

COMPOSITES_MAX: Final = 50
TIMED_MAX: Final = 12
"""So many composites are below the time line, and so many matches in progress."""
PARTIAL_MAX: Final = 200
SHOWN_MAX: Final = 20
SAMPLE: Final = """\
{"id": "1", "time": "2026-03-02T09:00:00Z", "type": "Quote", "symbol": "IBM", "price": 101}
{"id": "2", "time": "2026-03-02T09:00:20Z", "type": "Trade", "symbol": "IBM"}
{"id": "3", "time": "2026-03-02T09:00:40Z", "type": "Quote", "symbol": "IBM", "price": 104}
{"id": "4", "time": "2026-03-02T09:01:30Z", "type": "Quote", "symbol": "IBM", "price": 109}
"""
PATTERN: Final = "rise: Quote as q1 followed by Quote[price > 100] as q2 within 1 minute, q2.price > q1.price"


@dataclass(frozen=True, slots=True)
class Detected:
    """A pattern, and the composites that it has in events."""

    pattern: Pattern
    events: Sequence[Event]
    composites: Sequence[Notification]
    is_cut: bool
    partial: Sequence[Partial] = ()
    """The matches in progress behind the last event."""
    now: int = 0
    """The time of that event."""


def detected(text: str, events: str, schema: Schema | None = None, *, until: int | None = None) -> Detected:
    """A pattern detected in the total order, as `fairlead detect` does. FairleadError, if it is none.

    `until` is how many of the events there are so far; of all, that is the end, and all deadlines pass.
    """
    if len(text) > TEXT_MAX:
        raise FairleadError(f"a text of more than {TEXT_MAX:,} characters")
    pattern = parse(text, schema)
    given = events_in(events)
    queue = OrderedQueue(0)
    for event in given:
        if event.notification is not None:
            queue.add(event.notification)
    queue.close()
    order = list(queue.release())
    so_far = order if until is None else order[:until]
    now = so_far[-1][0].time if so_far else 0
    standing = _standing(pattern)
    results = standing.results(so_far, queue.watermark if until is None or until >= len(order) else now + 1)
    found = [each.notification for each in islice(results, COMPOSITES_MAX + 1)]
    looking = _standing(pattern)
    looking.advance(so_far, now + 1)
    partial = looking.partial(now, PARTIAL_MAX)
    return Detected(pattern, given, found[:COMPOSITES_MAX], len(found) > COMPOSITES_MAX, partial, now)


def _standing(pattern: Pattern) -> QuerySet:
    made = QuerySet(lambda: engine_named("brute"))
    made.add("p", Query(pattern))
    return made


# -- the view ----------------------------------------------------------------------------------------------------


def patterns() -> Markup:
    """The page: a pattern, and events."""
    return inquiry(
        "patterns",
        editor("text", "Pattern", PATTERN, rows=3),
        editor("events", "Events, one in each line as JSON", SAMPLE, rows=7),
        tag(
            "div",
            tag("label", "Only the first so many events (empty: all)", for_="until"),
            tag("input", id="until", name="until", type="number", min=0, max=EVENTS_MAX, autocomplete="off"),
            class_="field",
        ),
        tag("button", "Detect", type="submit"),
    )


def answer(text: str, result: Detected | FairleadError) -> Markup:
    """The automaton of a pattern, and its composites; or why it is none."""
    if isinstance(result, FairleadError):
        return section("Not a pattern", fault(result, text))
    found, pattern = result, result.pattern
    forms = {"text": render(pattern), "Python": render_python(pattern), "core language": render_core(pattern)}
    count = len(found.composites)
    title = counted(count, "composite")
    return joined(
        section(
            f"{title}{', and more' if found.is_cut else ''}",
            _time_line(found),
            tag(
                "ol",
                *(_composite(number, each) for number, each in enumerate(found.composites, 1)),
                class_="composites",
            )
            if found.composites
            else empty("The pattern does not occur in these events."),
        ),
        _progress(found),
        section(
            "The automaton",
            picture(drawing.svg(Automaton(pattern)), f"The detection automaton of {pattern.name}"),
            tag(
                "details",
                tag("summary", "In other words"),
                table(
                    ("form", "text"),
                    [(name, preformatted(form)) for name, form in forms.items()],
                    caption="The pattern",
                ),
            ),
        ),
    )


def _progress(found: Detected) -> Markup:
    """The matches that have begun and may still be completed."""
    title = f"{counted(len(found.partial), 'match', 'matches')} in progress"
    if not found.partial:
        return section(title, empty("Nothing has begun that could still be completed."))
    rows = [
        (
            chr(ord("a") + at % 26),
            ", ".join(f"{step}: {occurrence.notification.id}" for step, occurrence in each.constituents),
            " or ".join(each.awaited) or "time",
            "–" if each.until is None else str(Instant(each.until)),
        )
        for at, each in enumerate(found.partial[:SHOWN_MAX])
    ]
    more = len(found.partial) - len(rows)
    return section(
        title,
        table(("match", "has taken", "waits for", "until"), rows, caption="Behind the last event"),
        tag("p", f"and {more:,} more", class_="note") if more > 0 else None,
    )


def _composite(number: int, composite: Notification) -> Markup:
    constituents = _constituents(composite)
    interval: Any = composite.get("interval")
    span = f"{interval['start']} to {interval['end']}" if interval is not None else ""
    return tag(
        "li",
        tag(
            "h3",
            badge(str(number), "good"),
            " ",
            str(composite.get("type") or "composite"),
            " ",
            tag("span", span, class_="quiet"),
        ),
        table(
            ("step", "event", "time"),
            [(each["step"], each["id"], str(each.get("time", ""))) for each in constituents],
            caption=f"Constituents of composite {number}",
        ),
    )


def _constituents(composite: Notification) -> list[Mapping[str, Any]]:
    found: Any = composite.get("constituents")
    return list(found)


def _time_line(found: Detected) -> Markup | None:
    """The events along time; below them a bar for each composite with its constituents, and an open one for each
    match in progress, as far as it has come."""
    times = {
        str(event.notification.id): event.notification.time.microseconds
        for event in found.events
        if event.notification is not None and event.notification.time is not None
    }
    if not times or not (found.composites or found.partial):
        return None
    start = min(times.values())
    length = max(max(times.values()) - start, 1)

    def x(time: int) -> float:
        return 20 + 760 * (min(time, start + length) - start) / length

    composites = [
        (str(at), [times[each["id"]] for each in _constituents(composite) if each["id"] in times], None)
        for at, composite in enumerate(found.composites[:TIMED_MAX], 1)
    ]
    partial = [
        (chr(ord("a") + at), [occurrence.end for _, occurrence in each.constituents], found.now)
        for at, each in enumerate(found.partial[:TIMED_MAX])
    ]
    rows: list[Markup] = []
    for at, (name, spots, until) in enumerate([*composites, *partial]):
        if spots:
            y = 50 + 18 * at
            last, kind = (max(spots), "span") if until is None else (max([*spots, until]), "span open")
            rows.append(tag("line", x1=x(min(spots)), x2=x(last), y1=y, y2=y, class_=kind))
            rows += (tag("circle", cx=x(spot), cy=y, r=4, class_="constituent") for spot in spots)
            rows.append(tag("text", name, x=4, y=y + 4))
    return tag(
        "svg",
        tag("line", x1=20, x2=780, y1=24, y2=24, class_="axis"),
        *(
            tag("circle", cx=x(time), cy=24, r=5, class_="event" if time <= found.now else "event later")
            for time in times.values()
        ),
        *rows,
        viewBox=f"0 0 800 {56 + 18 * (len(composites) + len(partial))}",
        role="img",
        aria_label=f"{len(times)} events along time, and the composites and matches in progress below them",
        class_="times",
    )
