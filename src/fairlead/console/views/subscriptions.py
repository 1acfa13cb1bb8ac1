"""The subscriptions of a network: searched by text and by covering; durable subscribers and dead letters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import urlencode

from fairlead.console.views.overlay import destination
from fairlead.console.views.shell import badge, empty, fault, form, section, table
from fairlead.console.views.trying import Reading, reading
from fairlead.errors import FairleadError
from fairlead.filters import Filter, Schema
from fairlead.filters.algebra import algebra_for
from fairlead.filters.language import parse
from fairlead.markup import Markup, joined, tag
from fairlead.network.survey import Survey

__all__ = ["Query", "Results", "answer", "backlogs", "search", "searching"]

PAGE: Final = 50
COMPARED_MAX: Final = 5_000
"""So many different filters are compared with another one."""


@dataclass(frozen=True, slots=True)
class Query:
    """A question: a part of the text, or a filter that covers or is covered; of clients, or of all entries."""

    text: str = ""
    how: Literal["text", "covering", "covered"] = "text"
    whose: Literal["clients", "all"] = "clients"
    page: int = 1


@dataclass(frozen=True, slots=True)
class Results:
    """An answer: rows of filter, destination and broker, and how many there are in all."""

    rows: Sequence[tuple[str, str, str]]
    count: int
    reading: Reading | None = None
    left_out: int = 0
    """Different filters that were not compared: there are too many, or an extension is not loaded."""


def search(survey: Survey, query: Query, schema: Schema | None = None) -> Results:
    """The subscriptions that a question is about, by filter, broker and subscriber."""
    entries = sorted(_entries(survey, query.whose))
    if query.how == "text" or not query.text.strip():
        wanted = query.text.strip().casefold()
        rows = [each for each in entries if wanted in each[0].casefold() or wanted in each[1].casefold()]
        return _paged(rows, query.page)
    asked = reading(query.text, schema)
    if asked.filter is None:
        return Results((), 0, asked)
    texts = list(dict.fromkeys(text for text, _, _ in entries))
    fitting, left_out = set(), len(texts[COMPARED_MAX:])
    for text in texts[:COMPARED_MAX]:
        try:
            other = parse(text, schema)
        except FairleadError:
            left_out += 1
            continue
        if _fits(asked.filter, other, query.how, schema):
            fitting.add(text)
    found = _paged([each for each in entries if each[0] in fitting], query.page)
    return Results(found.rows, found.count, asked, left_out)


def _fits(asked: Filter, other: Filter, how: str, schema: Schema | None) -> bool:
    algebra = algebra_for(schema)
    return algebra.covers(other, asked) if how == "covering" else algebra.covers(asked, other)


def _entries(survey: Survey, whose: str) -> Iterator[tuple[str, str, str]]:
    for name, seen in survey.brokers.items():
        for text, to in (seen.tables or {}).get("subscriptions", ()):
            if whose == "all" or to[1:2] == ":":
                yield text, to, name


def _paged(rows: Sequence[tuple[str, str, str]], page: int) -> Results:
    first = (max(page, 1) - 1) * PAGE
    return Results(rows[first : first + PAGE], len(rows))


# -- the view ----------------------------------------------------------------------------------------------------


def searching(query: Query) -> Markup:
    """The page: the question, a place for the answer, and for durable subscribers."""
    hows = {
        "text": "whose text, or subscriber, contains",
        "covering": "that cover this filter (it would be redundant beside them)",
        "covered": "that this filter covers (it would make them redundant)",
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
    """A page of what fits."""
    if results.reading is not None and results.reading.error is not None:
        return fault(results.reading.error, query.text)
    count = results.left_out
    left_out = tag("p", f"{count:,} filters were not compared.", class_="note") if count else None
    if not results.rows:
        return joined(empty("None is found."), left_out)
    first = (query.page - 1) * PAGE + 1
    rows = [(tag("code", text), destination(to), broker) for text, to, broker in results.rows]
    return joined(
        table(
            ("filter", "leads to", "at"),
            rows,
            caption=f"{results.count:,} found, {first:,} to {first + len(rows) - 1:,} shown",
        ),
        left_out,
        tag(
            "p",
            _turn("Earlier", query, -1) if query.page > 1 else None,
            _turn("Later", query, 1) if first + len(rows) <= results.count else None,
            class_="pages",
        ),
    )


def _turn(text: str, query: Query, by: int) -> Markup:
    wanted = {"text": query.text, "how": query.how, "whose": query.whose, "page": query.page + by}
    return tag(
        "button",
        text,
        type="button",
        hx_get=f"/console/subscriptions/results?{urlencode(wanted)}",
        hx_target="#found",
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
