"""The overlay: brokers and links as a live graph, what a broker has, and why a filter is at a link."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any, Final
from urllib.parse import urlencode

from fairlead.console.views.layout import points
from fairlead.console.views.network import Ask, Network
from fairlead.console.views.shell import badge, empty, fault, section, table
from fairlead.errors import FairleadError
from fairlead.markup import Child, Markup, joined, tag
from fairlead.network.survey import Seen, Survey

__all__ = ["COUNTERS", "broker", "destination", "graph", "link", "overlay", "reasons"]

COUNTERS: Final = ("published", "received", "delivered", "relayed", "dropped")
"""The counters whose rates are shown."""
FIRST_MAX: Final = 20
"""So many entries of a routing table are shown with its broker."""
ENTRIES_MAX: Final = 100
"""So many filters of a link."""
REASONS_MAX: Final = 20
SHOWN_MAX: Final = 50
SEARCH_S: Final = 3.0
"""For so long the tables of a broker are searched for a part of the page."""
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


async def broker(network: Network, name: str) -> Markup:
    """A broker as it describes itself, with its clients, its limits, and the first of its routing table."""
    seen = (await network.survey()).brokers.get(name)
    if seen is None:
        return section(name, empty("There is no such broker any more."))
    status = seen.status
    if status is None:
        return section(name, tag("p", badge("away", "bad"), " ", seen.problem), note=seen.url)
    try:
        async with network.asking(name) as ask:
            entries = await ask("find", whose="all", room=FIRST_MAX)
            clients = await ask("clients")
    except (FairleadError, OSError) as error:
        return section(name, fault(error if isinstance(error, FairleadError) else FairleadError(str(error))))
    return section(
        name,
        _states(status),
        _facts(_figures_of(status)),
        _links(name, status["links"]),
        _clients(clients),
        _durables(status["durables"]),
        _detections(status["detections"]),
        _entries(entries),
        _settings(status, clients["limits"]),
        note=seen.url,
    )


def _states(status: Mapping[str, Any]) -> Markup | None:
    log, security = status["log"], status["security"]
    said = [
        *([badge("draining", "warn")] if status["draining"] else []),
        *([badge("disk full", "bad")] if log and log["full"] else []),
        *([badge("log of decisions failed", "bad")] if security["log_failed"] else []),
        *([badge("no access policy, reachable from elsewhere", "warn")] if security["exposed"] else []),
        *([badge("access policy", "good")] if security["policy"] else []),
        *([badge("several ways", "idle")] if status["cyclic"] else []),
        *([badge("in a hierarchy", "idle")] if status["hierarchical"] else []),
        *([badge(f"blocked by {len(status['blocking']):,}", "warn")] if status["blocking"] else []),
    ]
    return tag("p", *said, class_="states") if said else None


def _figures_of(status: Mapping[str, Any]) -> list[tuple[str, Child]]:
    log, memory = status["log"], status["memory"]
    offsets = "none" if log is None else f"{_bytes(log['bytes'])}, offsets {log['first']:,} to {log['end']:,}"
    return [
        ("clients", f"{status['clients']:,}"),
        ("subscriptions", f"{status['subscriptions']:,}"),
        ("routing entries", f"{status['routing_entries']:,}"),
        ("queued", f"{status['queued']:,}"),
        ("blocked", f"{status['blocked']:,}"),
        ("memory", f"{_bytes(memory['used'])} of {_bytes(memory['budget'])}"),
        ("log", offsets),
        ("not synced", "–" if log is None else f"{log['end'] - log['synced']:,}"),
    ]


def _facts(figures: Iterable[tuple[str, Child]]) -> Markup:
    return tag(
        "dl",
        *(joined(tag("div", tag("dt", what), tag("dd", value))) for what, value in figures),
        class_="facts",
    )


def _clients(told: Mapping[str, Any]) -> Markup | None:
    if not told["clients"]:
        return None
    rows = [
        (
            each["name"],
            f"{each['subscriptions']:,}",
            f"{each['queued']:,}",
            f"{each['outflow']}; {each['inflow']}",
            ", ".join(each["durables"]),
        )
        for each in told["clients"][:SHOWN_MAX]
    ]
    more = told["count"] - len(rows)
    return joined(
        table(
            ("name", "subscriptions", "queued", "outflow; inflow", "durable"),
            rows,
            numbers=(1, 2),
            caption="Clients",
        ),
        tag("p", f"and {more:,} more", class_="note") if more > 0 else None,
    )


def _detections(detections: Mapping[str, Any]) -> Markup | None:
    rows = [
        (
            name,
            tag("code", each["query"]),
            *(f"{each[what]:,}" for what in ("events", "results", "held", "late")),
        )
        for name, each in sorted(detections.items())
    ]
    heads = ("name", "pattern", "events", "results", "held", "late")
    return table(heads, rows, numbers=(2, 3, 4, 5), caption="Detectors") if rows else None


def _settings(status: Mapping[str, Any], limits: Mapping[str, Any]) -> Markup:
    """The parts that change seldom, folded up."""
    security = status["security"]
    policy = security["policy"] or "none: whoever reaches the broker may do everything"
    return tag(
        "details",
        tag("summary", "Limits, counters and trust"),
        _facts([("access policy", policy)]),
        table(
            ("limit", "value"),
            [(name.replace("_", " "), f"{value:,}") for name, value in limits.items()],
            numbers=(1,),
            caption="Limits",
        ),
        table(
            ("counter", "value"),
            [(name.replace("_", " "), f"{value:,}") for name, value in status["counters"].items()],
            numbers=(1,),
            caption="Counters since the start",
        ),
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


def _entries(piece: Mapping[str, Any]) -> Markup:
    rows = [(destination(to), tag("code", text)) for text, to in sorted(piece["rows"], key=itemgetter(1))]
    if not rows:
        return empty("The routing table is empty: nobody subscribes to anything.")
    more = piece["total"] - len(rows)
    return joined(
        table(("leads to", "what matches"), rows, caption="Routing table"),
        tag(
            "p",
            f"{more:,} more: ",
            tag("a", "Subscriptions", href="/console/subscriptions?whose=all"),
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


async def link(network: Network, one: str, other: str) -> Markup:
    """The filters at both ends of a link, and for each the subscriptions for which it is there."""
    survey = await network.survey()
    if one not in survey.brokers or other not in survey.brokers:
        return section(f"{one} – {other}", empty("This link has gone."))
    state = badge("up", "good") if survey.is_up(one, other) else badge("down", "bad")
    return section(
        f"{one} – {other}",
        tag("p", state, survey.why_down(one, other)),
        _flow(survey, one, other),
        await _direction(network, one, other),
        await _direction(network, other, one),
    )


def _flow(survey: Survey, one: str, other: str) -> Markup | None:
    """The state of both ends of a link."""
    rows = [
        (
            f"{source} to {target}",
            f"{end['outflow']}; {end['inflow'] or 'not connected'}",
            f"{end['behind']:,}",
            f"{end['in_flight']:,}",
        )
        for source, target in ((one, other), (other, one))
        if (end := survey.brokers[source].link(target))
    ]
    heads = ("from, to", "outflow; inflow", "behind", "in flight")
    return table(heads, rows, numbers=(2, 3), caption="Its two ends") if rows else None


async def _direction(network: Network, source: str, target: str) -> Markup:
    """The filters from one broker to the other, in the table of the first, and why, by that of the second."""
    title = f"What goes from {source} to {target}"
    try:
        async with network.asking(source) as ask:
            found, is_more = await _rows_of(ask, ENTRIES_MAX, to=target, whose="all")
    except (FairleadError, OSError) as error:
        return joined(tag("h3", title), empty(f"Not known: {str(error).partition(chr(10))[0]}"))
    if not found:
        return joined(tag("h3", title), empty(f"Nothing: nobody behind {target} subscribes to anything."))
    rows = [
        (
            tag("code", text),
            tag(
                "div",
                tag("span", "…", class_="quiet"),
                hx_get=f"/console/reasons?{urlencode({'at': target, 'beside': source, 'text': text})}",
                hx_trigger="revealed",
            ),
        )
        for text, _ in sorted(found)
    ]
    return joined(
        table(("what matches", "is there for"), rows, caption=title),
        tag("p", "and more", class_="note") if is_more else None,
    )


async def _rows_of(ask: Ask, room: int, **query: Any) -> tuple[list[tuple[str, str]], bool]:
    """So many rows of a search at one broker, and whether there may be more."""
    rows: list[tuple[str, str]] = []
    at, is_over = 0, False
    until = time.monotonic() + SEARCH_S
    while not is_over and len(rows) < room and time.monotonic() < until:
        piece = await ask("find", at=at, room=room - len(rows), **query)
        rows += ((text, to) for text, to in piece["rows"])
        at, is_over = piece["at"], piece["over"]
    return rows, not is_over


async def reasons(network: Network, at: str, beside: str, text: str) -> Markup:
    """The subscriptions at a broker, and behind it, for which a neighbour has a filter: those that it covers."""
    try:
        async with network.asking(at) as ask:
            found, is_more = await _rows_of(
                ask, REASONS_MAX, how="covered", text=text, beside=beside, whose="all"
            )
    except (FairleadError, OSError) as error:
        return tag("span", str(error).partition("\n")[0], class_="quiet")
    if not found:
        said = f"nobody at {at} that is known here: it may be on its way out"
        return tag("span", said, class_="quiet")
    items: Iterable[Markup] = (
        tag("li", destination(to), *(() if each == text else (": ", tag("code", each)))) for each, to in found
    )
    return tag("ul", *items, tag("li", "and more") if is_more else None, class_="plain")
