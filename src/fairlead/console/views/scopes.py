"""Scopes: a graph as a draft, drawn and checked; who sees what; what a change of it changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairlead.console.views.shell import (
    badge,
    editor,
    empty,
    fault,
    inquiry,
    picture,
    preformatted,
    section,
    table,
)
from fairlead.console.views.trying import TEXT_MAX
from fairlead.errors import FairleadError
from fairlead.filters import Schema
from fairlead.markup import Markup, joined, tag
from fairlead.model import Notification
from fairlead.model.encoding import fields_from_json, parse_json
from fairlead.scopes import Scopes, drawing
from fairlead.scopes.comparing import differences

__all__ = ["answer", "event_of", "read", "scopes"]

GRAPH_MAX: Final = TEXT_MAX * 10
SAMPLE: Final = """\
-- two desks of a market: each sees its own orders, and the quotes of the exchange
DEFINE SCOPE Market AS ALL FROM exchange, North, South
DEFINE SCOPE North AS ALL FROM ada INTERFACES INPUT(type = "Quote"), OUTPUT(0)
DEFINE SCOPE South AS ALL FROM bob INTERFACES INPUT(type = "Quote"), OUTPUT(0)
"""


def scopes(draft: str = SAMPLE) -> Markup:
    """The page: a draft, and questions about it."""
    return inquiry(
        "scopes",
        editor("text", "Draft, in the scope graph language", draft, rows=14),
        tag(
            "details",
            tag("summary", "Compare with another graph"),
            editor("other", "The graph as it is", "", rows=8),
        ),
        tag(
            "fieldset",
            tag("legend", "Who sees what"),
            _field("source", "From"),
            _field("target", "To"),
            editor("event", "Event, as JSON (optional: interfaces decide)", "", rows=2),
        ),
        tag("button", "Check", type="submit"),
    )


def _field(name: str, label: str) -> Markup:
    return tag(
        "div",
        tag("label", label, for_=name),
        tag("input", id=name, name=name, autocomplete="off", spellcheck="false"),
        class_="field",
    )


def read(text: str, schema: Schema | None = None) -> Scopes:
    """A scope graph. FairleadError."""
    if len(text) > GRAPH_MAX:
        raise FairleadError(f"a text of more than {GRAPH_MAX:,} characters")
    return Scopes.parse(text, schema)


def event_of(text: str, producer: str) -> Notification | None:
    """The event of a question, published by a component; None without one."""
    if not text.strip():
        return None
    given = parse_json(text)
    if not isinstance(given, dict):
        raise FairleadError("an event is a JSON object")
    return Notification.of(fields_from_json({"id": "1", **given, "producer": producer}))


def answer(fields: Mapping[str, str], schema: Schema | None = None) -> Markup:
    """A draft drawn, checked, asked and compared."""
    text = fields.get("text", "")
    try:
        graph = read(text, schema)
    except FairleadError as error:
        return section("Not a scope graph", fault(error, text))
    findings = graph.check()
    tones = {"error": "bad", "warning": "warn"}
    return joined(
        _question(graph, fields, schema),
        section(
            "The graph",
            picture(drawing.svg(graph.graph), "The scope graph: superscopes before their members")
            if list(graph.graph.components)
            else empty("Nothing is deployed."),
        ),
        section(
            "Findings",
            tag(
                "ul",
                *(
                    tag("li", badge(each.level, tones.get(each.level, "idle")), " ", str(each))
                    for each in findings
                ),
                class_="plain",
            )
            if findings
            else tag("p", badge("nothing suspicious", "good")),
        ),
        _differences(graph, fields.get("other", ""), schema),
    )


def _question(graph: Scopes, asked: Mapping[str, str], schema: Schema | None) -> Markup | None:
    source, target = asked.get("source", "").strip(), asked.get("target", "").strip()
    if not source or not target:
        return None
    title = f"Does {target} see what {source} publishes?"
    try:
        event = event_of(asked.get("event", ""), source)
        if event is None:
            sees, lines = (
                graph.visible(source, target),
                [" – ".join(path) for path in graph.paths(source, target)],
            )
        else:
            explained = graph.explain(event, target)
            sees, lines = explained.seen, list(explained.lines())[1:]
    except FairleadError as error:
        return section(title, fault(error))
    return section(
        title,
        tag("p", badge("yes", "good") if sees else badge("no", "bad")),
        preformatted("\n".join(lines)) if lines else None,
    )


def _differences(graph: Scopes, other: str, schema: Schema | None) -> Markup | None:
    if not other.strip():
        return None
    try:
        before = read(other, schema)
    except FairleadError as error:
        return section("Compared", fault(error, other))
    found = differences(before.graph, graph.graph)
    if not found:
        return section("Compared", empty("The two graphs are the same."))
    return section(
        "Compared",
        table(
            ("sign", "change"), [(each.sign, str(each)) for each in found], caption="What the draft changes"
        ),
    )
