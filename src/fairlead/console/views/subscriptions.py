"""The subscriptions of a network: searched by text, by covering, by never matched; and durable subscribers.

The brokers search themselves, a piece at a time, and the page has what it shows: so a million are searched as a
hundred are.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias, get_args
from urllib.parse import urlencode

from fairlead.console.views.network import Network
from fairlead.console.views.overlay import destination
from fairlead.console.views.shell import badge, empty, fault, form, section, table
from fairlead.errors import FairleadError, NetworkError, NotThere
from fairlead.markup import Markup, joined, tag

__all__ = ["HOWS", "How", "Query", "Results", "answer", "backlogs", "search", "searching"]

PAGE: Final = 50
PATIENCE_S: Final = 0.7
"""After so long a page shows what is found, and goes on."""

How: TypeAlias = Literal["text", "covering", "covered", "never"]
HOWS: Final[tuple[How, ...]] = get_args(How)


@dataclass(frozen=True, slots=True)
class Query:
    """A question: a part of the text, or a filter that covers or is covered, or those that no notification has
    matched; of clients, or of all entries. `at` is the broker and the position where the search goes on."""

    text: str = ""
    how: How = "text"
    whose: Literal["clients", "all"] = "clients"
    broker: str = ""
    at: int = 0
    listed: int = 0
    """So many were found before."""
    looked: int = 0
    """So many entries were looked at before."""


@dataclass(frozen=True, slots=True)
class Results:
    """A part of an answer: rows of filter, destination and broker; where the search goes on, unless it is over."""

    rows: Sequence[tuple[str, str, str]]
    next: Query | None = None
    looked: int = 0
    """So many entries were looked at up to here;"""
    total: int = 0
    """of so many at this broker, and"""
    brokers: int = 0
    """at so many brokers that are not done yet."""
    error: FairleadError | None = None
    away: Sequence[str] = ()
    """Brokers that do not answer."""


async def search(network: Network, query: Query, *, patience_s: float = PATIENCE_S) -> Results:
    """The next subscriptions that a question is about: a page of them, or as many as are found in time."""
    how = query.how if query.text.strip() or query.how == "never" else "text"
    until = time.monotonic() + patience_s
    brokers = (await network.survey()).brokers
    names = [each for each in sorted(brokers) if each >= query.broker]
    room = PAGE - query.listed % PAGE
    rows: list[tuple[str, str, str]] = []
    away: list[str] = []
    at, looked, total = query.at, query.looked, 0
    for number, name in enumerate(names):
        try:
            async with network.asking(name) as ask:
                is_over = False
                while not is_over:
                    piece = await ask(
                        "find", how=how, text=query.text, whose=query.whose, at=at, room=room - len(rows)
                    )
                    rows += ((text, to, name) for text, to in piece["rows"])
                    looked += piece["at"] - at
                    at, is_over, total = piece["at"], piece["over"], piece["total"]
                    if len(rows) >= room or time.monotonic() >= until:
                        break
        except (NotThere, NetworkError, TimeoutError):
            away.append(name)
            is_over = True
        except FairleadError as error:
            return Results((), error=error)
        place = (name, at) if not is_over else (names[number + 1], 0) if number + 1 < len(names) else None
        if place is None:
            return Results(rows, None, looked, away=away)
        if not is_over or len(rows) >= room or time.monotonic() >= until:
            on = replace(query, broker=place[0], at=place[1], listed=query.listed + len(rows), looked=looked)
            return Results(rows, on, looked, total, len(names) - number, away=away)
        at = 0
    return Results(rows, None, looked, away=away)


# -- the view ----------------------------------------------------------------------------------------------------


def searching(query: Query) -> Markup:
    """The page: the question, a place for the answer, and for durable subscribers."""
    hows = {
        "text": "whose text, or subscriber, contains",
        "covering": "that cover this filter (it would be redundant beside them)",
        "covered": "that this filter covers (it would make them redundant)",
        "never": "that nothing has matched since they are at their broker",
    }
    whose = {"clients": "of clients and durable subscribers", "all": "in all routing tables"}
    return joined(
        tag(
            "form",
            _choice("whose", "Subscriptions", whose, query.whose),
            _choice("how", "Those", hows, query.how),
            tag(
                "div",
                tag("label", "Text or filter", for_="text"),
                tag(
                    "input",
                    id="text",
                    name="text",
                    type="search",
                    value=query.text,
                    autocomplete="off",
                    spellcheck="false",
                    data_completes="yes",
                ),
                class_="field",
            ),
            tag("button", "Search", type="submit"),
            hx_get="/console/subscriptions/results",
            hx_target="#found",
            hx_trigger="submit, load, input changed delay:250ms from:#text, change",
            hx_sync="this:replace",
            action="/console/subscriptions",
        ),
        tag("div", Markup(""), id="found", aria_live="polite"),
        section(
            "Durable subscribers",
            tag(
                "div",
                Markup(""),
                id="durables",
                hx_get="/console/subscriptions/durables",
                hx_trigger="load",
            ),
            note="At the broker that serves this page: what waits for them, the longest wait first.",
        ),
    )


def _choice(name: str, label: str, choices: dict[str, str], chosen: str) -> Markup:
    return tag(
        "div",
        tag("label", label, for_=name),
        tag(
            "select",
            *(tag("option", text, value=value, selected=value == chosen) for value, text in choices.items()),
            id=name,
            name=name,
        ),
        class_="field",
    )


def answer(results: Results, query: Query) -> Markup:
    """The rows that were found, and the place where the next ones come."""
    if results.error is not None:
        return fault(results.error, query.text)
    found = query.listed + len(results.rows)
    away = (
        tag("p", f"Not searched, since it does not answer: {', '.join(results.away)}", class_="note")
        if results.away
        else None
    )
    if results.next is None and not found:
        return joined(empty(f"None is found among {results.looked:,}."), away)
    caption = f"{found:,} found{'' if results.next is None else ' so far'}"
    rows = [(tag("code", text), destination(to), broker) for text, to, broker in results.rows]
    shown = table(("filter", "leads to", "at"), rows, caption=caption) if rows else None
    end = tag("p", f"{caption}, and no more.", class_="note") if not rows else None
    return joined(shown, end if results.next is None else _further(results), away)


def _further(results: Results) -> Markup:
    """The search goes on here: by itself until a page is full, and then when somebody asks for more."""
    query = results.next
    assert query is not None
    wanted = {
        name: getattr(query, name) for name in ("text", "how", "whose", "broker", "at", "listed", "looked")
    }
    is_full = query.listed % PAGE == 0 and bool(results.rows)
    where = f"{query.at:,} of {results.total:,} looked at, at {query.broker}"
    more = f"; {results.brokers - 1:,} brokers to go" if results.brokers > 1 else ""
    goes_on = {
        "hx_get": f"/console/subscriptions/results?{urlencode(wanted)}",
        "hx_swap": "outerHTML",
        "hx_target": "closest .further",
    }
    return tag(
        "div",
        tag("p", f"{where}{more}", class_="note", role="status"),
        tag("button", "More", type="button", **goes_on)
        if is_full
        else tag("span", Markup(""), hx_trigger="load", **goes_on),
        class_="further",
    )


def backlogs(rows: Sequence[dict[str, Any]], remark: str = "") -> Markup:
    """Durable subscribers, with what waits for them; their dead deliveries can be handed out again."""
    note = tag("p", remark, role="status") if remark else None
    if not rows:
        return joined(note, empty("This broker has no durable subscribers."))
    shown = [
        (
            each["name"],
            badge("connected", "good") if each["connected"] else badge("away", "idle"),
            f"{each['behind']:,}",
            each["oldest"],
            tag("ul", *(tag("li", tag("code", text)) for text in each["filters"][:3]), class_="plain"),
            form(
                "redrive",
                "durables",
                tag("input", type="hidden", name="name", value=each["name"]),
                tag("button", "Retry", type="submit", aria_label=f"Retry dead letters of {each['name']}"),
            ),
        )
        for each in rows[:PAGE]
    ]
    return joined(
        note,
        table(
            ("name", "state", "behind", "waits since", "filters", "dead letters"),
            shown,
            numbers=(2,),
            caption="Durable subscribers",
        ),
    )
