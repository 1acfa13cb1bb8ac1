"""The overlay: brokers and links as a live graph, what a broker has, and why a filter is at a link."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from fairlead.console.views.layout import points
from fairlead.console.views.shell import badge, empty, section, table
from fairlead.errors import FairleadError
from fairlead.filters import Filter, Schema, covers
from fairlead.filters.language import parse
from fairlead.markup import Child, Markup, joined, tag
from fairlead.network.survey import Seen, Survey

__all__ = ["COUNTERS", "broker", "graph", "link", "overlay"]

COUNTERS: Final = ("published", "received", "delivered", "relayed", "dropped")
"""The counters whose rates are shown."""
ENTRIES_MAX: Final = 100
REASONS_MAX: Final = 20
COMPARED_MAX: Final = 2_000
"""With so many entries a filter of a link is compared."""
KINDS: Final = {"c:": "client", "d:": "durable subscriber"}


def overlay() -> Markup:
    """The picture, the list of brokers beside it, and a place for what is chosen."""
    return joined(
        tag(
            "div",
            tag(
                "div",
                Markup(""),
                id="graph",
                role="img",
                aria_label="The brokers and their links; the table below lists them",
            ),
            tag(
                "div",
                *(
                    tag("button", text, type="button", id=f"graph-{name}", title=title)
                    for name, text, title in (
                        ("in", "+", "Zoom in"),
                        ("out", "−", "Zoom out"),
                        ("fit", "Fit", "Show the whole network"),
                    )
                ),
                class_="tools",
            ),
            class_="stage",
        ),
        tag("p", "Asking the brokers …", id="state", class_="note"),
        tag("div", Markup(""), id="details", aria_live="polite"),
        section(
            "Brokers",
            tag("label", "Find a broker", for_="find"),
            tag("input", id="find", type="search", autocomplete="off"),
            tag(
                "div",
                Markup(""),
                id="brokers",
                class_="scroll",
                tabindex=0,
                role="region",
                aria_label="Brokers",
            ),
        ),
    )


def graph(survey: Survey) -> dict[str, Any]:
    """The network for the picture: places, states and figures."""
    spots = points(survey.brokers, survey.links)
    cycles = set(() if survey.is_cyclic else survey.beside())
    return {
        "brokers": [
            {"name": name, "x": spots[name].x, "y": spots[name].y, **_figures(seen)}
            for name, seen in sorted(survey.brokers.items())
        ],
        "links": [_link_figures(survey, one, other, (one, other) in cycles) for one, other in survey.links],
        "waits": [f"{each.broker} – {each.other} {each}" for each in survey.waits],
    }


def _figures(seen: Seen) -> dict[str, Any]:
    status = seen.status
    if status is None:
        return {"url": seen.url, "problem": seen.problem}
    links = status["links"].values()
    return {
        "url": seen.url,
        "clients": status["clients"],
        "subscriptions": status["subscriptions"],
        "entries": status["routing_entries"],
        "queued": status["queued"],
        "behind": sum(each["behind"] for each in links),
        "blocked": status["blocked"],
        "draining": status["draining"],
        "full": bool(status["log"] and status["log"]["full"]),
        "log": None if status["log"] is None else status["log"]["bytes"],
        "counters": {name: status["counters"][name] for name in COUNTERS},
    }


def _link_figures(survey: Survey, one: str, other: str, closes: bool) -> dict[str, Any]:
    ends = [survey.brokers[one].link(other), survey.brokers[other].link(one)]
    return {
        "one": one,
        "other": other,
        "up": survey.is_up(one, other),
        "why": survey.why_down(one, other).strip(),
        "behind": sum(end.get("behind", 0) for end in ends),
        "full": any(end.get("full", False) for end in ends),
        "closes": closes,
    }


# -- a broker ----------------------------------------------------------------------------------------------------


def broker(survey: Survey, name: str) -> Markup:
    """A broker as it describes itself, with its routing table."""
    seen = survey.brokers.get(name)
    if seen is None:
        return section(name, empty("There is no such broker any more."))
    status = seen.status
    if status is None:
        return section(name, tag("p", badge("away", "bad"), " ", seen.problem), note=seen.url)
    log = status["log"]
    figures: list[tuple[str, Child]] = [
        ("clients", status["clients"]),
        ("subscriptions", status["subscriptions"]),
        ("routing entries", status["routing_entries"]),
        ("queued", status["queued"]),
        ("blocked", status["blocked"]),
        ("memory", f"{_bytes(status['memory']['used'])} of {_bytes(status['memory']['budget'])}"),
        (
            "log",
            "none" if log is None else f"{_bytes(log['bytes'])}, offsets {log['first']:,} to {log['end']:,}",
        ),
    ]
    states = [
        *([badge("draining", "warn")] if status["draining"] else []),
        *([badge("disk full", "bad")] if log and log["full"] else []),
        *(
            [badge("no access policy, reachable from elsewhere", "warn")]
            if status["security"]["exposed"]
            else []
        ),
    ]
    return section(
        name,
        tag("p", *states) if states else None,
        tag(
            "dl",
            *(joined(tag("div", tag("dt", what), tag("dd", value))) for what, value in figures),
            class_="facts",
        ),
        _links(name, status["links"]),
        _durables(status["durables"]),
        _entries(seen),
        note=seen.url,
    )


def _links(name: str, links: dict[str, Any]) -> Markup | None:
    if not links:
        return None
    rows = [
        (
            tag(
                "button",
                neighbour,
                type="button",
                hx_get=f"/console/link?{urlencode({'one': name, 'other': neighbour})}",
                hx_target="#details",
            ),
            badge("up", "good") if each["connected"] else badge("down", "bad"),
            f"{each['outflow']}; {each['inflow'] or 'not connected'}",
            f"{each['behind']:,}",
            f"{each['in_flight']:,}",
            each.get("reason", ""),
        )
        for neighbour, each in sorted(links.items())
    ]
    return table(
        ("neighbour", "link", "outflow; inflow", "behind", "in flight", "reason"),
        rows,
        numbers=(3, 4),
        caption="Links",
    )


def _durables(durables: dict[str, Any]) -> Markup | None:
    if not durables:
        return None
    rows = [
        (name, each["outflow"], f"{each['behind']:,}", f"{each['in_flight']:,}")
        for name, each in sorted(durables.items(), key=lambda item: (-item[1]["behind"], item[0]))[
            :ENTRIES_MAX
        ]
    ]
    return table(
        ("name", "state", "behind", "in flight"), rows, numbers=(2, 3), caption="Durable subscribers"
    )


def _entries(seen: Seen) -> Markup:
    entries = sorted((destination(to), text) for text, to in (seen.tables or {}).get("subscriptions", ()))
    if not entries:
        return empty("The routing table is empty: nobody subscribes to anything.")
    rows = [(to, tag("code", text)) for to, text in entries[:ENTRIES_MAX]]
    more = len(entries) - len(rows)
    return joined(
        table(("leads to", "what matches"), rows, caption="Routing table"),
        tag(
            "p",
            f"{more:,} more: ",
            tag("a", "Subscriptions", href="/console/subscriptions"),
            " has all of them.",
            class_="note",
        )
        if more > 0
        else None,
    )


def destination(name: str) -> str:
    """A destination of a routing table in words."""
    kind = KINDS.get(name[:2])
    return name if kind is None else f"{kind} {name[2:]}"


def _bytes(number: int) -> str:
    size = float(number)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1_000:
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 10 else f"{size:.1f} {unit}"
        size /= 1_000
    return f"{size:,.1f} TB"


# -- a link ------------------------------------------------------------------------------------------------------


def link(survey: Survey, one: str, other: str, schema: Schema | None) -> Markup:
    """The filters at both ends of a link, and for each the subscriptions for which it is there."""
    ends = [survey.brokers.get(name) for name in (one, other)]
    if None in ends:
        return section(f"{one} – {other}", empty("This link has gone."))
    state = badge("up", "good") if survey.is_up(one, other) else badge("down", "bad")
    return section(
        f"{one} – {other}",
        tag("p", state, survey.why_down(one, other)),
        _direction(survey, one, other, schema),
        _direction(survey, other, one, schema),
    )


def _direction(survey: Survey, source: str, target: str, schema: Schema | None) -> Markup:
    """The filters from one broker to the other, in the table of the first, and why, by that of the second."""
    filters = [
        text for text, to in (survey.brokers[source].tables or {}).get("subscriptions", ()) if to == target
    ]
    title = f"What goes from {source} to {target}"
    if not filters:
        return joined(tag("h3", title), empty(f"Nothing: nobody behind {target} subscribes to anything."))
    behind = [
        (text, to)
        for text, to in (survey.brokers[target].tables or {}).get("subscriptions", ())
        if to != source
    ]
    left_out = len(behind) - COMPARED_MAX
    known = [
        (filter, text, to)
        for text, to in behind[:COMPARED_MAX]
        if (filter := _filter(text, schema)) is not None
    ]
    rows = [
        (tag("code", text), _reasons(text, known, target, schema)) for text in sorted(filters)[:ENTRIES_MAX]
    ]
    more = len(filters) - len(rows)
    return joined(
        tag("h3", title),
        table(("what matches", "is there for"), rows, caption=title),
        tag("p", f"and {more:,} more", class_="note") if more > 0 else None,
        tag("p", f"{left_out:,} entries of {target} were not compared.", class_="note")
        if left_out > 0
        else None,
    )


def _reasons(
    text: str, known: Sequence[tuple[Filter, str, str]], broker: str, schema: Schema | None
) -> Markup:
    wide = _filter(text, schema)
    found = [
        (filter_text, to)
        for filter, filter_text, to in known
        if wide is not None and (filter_text == text or covers(wide, filter, schema))
    ]
    if not found:
        return tag("span", f"nobody at {broker} that is known here: it may be on its way out", class_="quiet")
    items: Iterable[Markup] = (
        tag("li", destination(to), *(() if each == text else (": ", tag("code", each))))
        for each, to in found[:REASONS_MAX]
    )
    more = tag("li", f"and {len(found) - REASONS_MAX:,} more") if len(found) > REASONS_MAX else None
    return tag("ul", *items, more, class_="plain")


def _filter(text: str, schema: Schema | None) -> Filter | None:
    try:
        return parse(text, schema)
    except FairleadError:  # an extension that this process has not loaded
        return None
