"""Scopes: the graph of the network, changed by a draft; a graph of its own, drawn and checked; who sees what.

A change is a text of statements, as `fairlead scope apply` takes it. The draft shows what it would change, and is
published with the rights of whom is logged in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from fairlead.console.views.shell import (
    badge,
    counted,
    editor,
    empty,
    fault,
    form,
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
from fairlead.model import Instant, Notification
from fairlead.model.encoding import fields_from_json, parse_json
from fairlead.network.scoping import Taken
from fairlead.scopes import Scopes, System, drawing, parse_statements, print_statements
from fairlead.scopes.comparing import differences
from fairlead.scopes.describing import statements_of

__all__ = ["answer", "applied", "draft", "event_of", "in_force", "live", "read", "scopes", "version"]

GRAPH_MAX: Final = TEXT_MAX * 10
DRAWN_MAX, CHECKED_MAX, SHOWN_MAX = 300, 2_000, 50
"""So many components and scopes are drawn, so many checked, and so many rows of a list are shown."""
SAMPLE: Final = """\
-- two desks of a market: each sees its own orders, and the quotes of the exchange
DEFINE SCOPE Market AS ALL FROM exchange, North, South
DEFINE SCOPE North AS ALL FROM ada INTERFACES INPUT(type = "Quote"), OUTPUT(0)
DEFINE SCOPE South AS ALL FROM bob INTERFACES INPUT(type = "Quote"), OUTPUT(0)
"""


def scopes(draft: str = SAMPLE) -> Markup:
    """The page: the graph of the network, and a draft with questions about it."""
    live = tag("div", Markup(""), id="live", hx_get="/console/scopes/live", hx_trigger="load")
    return joined(live, section("A graph as a draft", _alone(draft)))


def _alone(draft: str) -> Markup:
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


# -- the graph of the network ------------------------------------------------------------------------------------


def in_force(report: Mapping[str, Any], schema: Schema | None = None) -> Standing:
    """The graph that a broker has: as it began, with the changes that are not void."""
    begun = Scopes.parse(report["statements"], schema, outsiders=report["outsiders"])
    now = begun.system
    for each in report["changes"]:
        if not each["void"]:
            now = _changed(now, each["text"])
    return Standing(begun.statements, begun.outsiders, now)


def _changed(system: System, text: str) -> System:
    for statement in parse_statements(text):
        system = system.apply(statement)
    return system


@dataclass(frozen=True)
class Standing(Scopes):
    """A graph with changes behind its statements."""

    now: System | None = None

    @property
    def system(self) -> System:  # it is not made of the statements alone
        assert self.now is not None
        return self.now


def live(report: Mapping[str, Any], schema: Schema | None = None) -> Markup:
    """The graph in force, and a place for a draft of a change; nothing where the network has no scopes."""
    if not report["there"]:
        return empty("This network has no scopes.")
    graph = in_force(report, schema)
    void = [each for each in report["changes"] if each["void"]]
    return joined(
        section(
            "The graph of the network",
            _drawn(graph),
            tag(
                "details",
                tag("summary", counted(len(report["changes"]), "change")),
                table(
                    ("when", "statements", "void"),
                    [
                        (str(Instant(each["time"])), preformatted(each["text"]), each["void"])
                        for each in report["changes"]
                    ],
                    caption="Changes, in the order in which they hold",
                ),
            )
            if report["changes"]
            else None,
            tag(
                "details",
                tag("summary", "As text"),
                preformatted(print_statements(statements_of(graph.graph))),
            ),
            tag("p", badge("void", "warn"), f" {counted(len(void), 'change')} without effect", class_="note")
            if void
            else None,
        ),
        section(
            "Change it",
            inquiry(
                "scopes/draft",
                editor(
                    "change",
                    "Draft: the statements of a change",
                    "",
                    rows=6,
                    hint="For example: JOIN ada TO Market. Nothing changes before you apply it.",
                ),
                tag(
                    "fieldset",
                    tag("legend", "Who would see what"),
                    _field("one", "From"),
                    _field("another", "To"),
                    editor("what", "Event, as JSON (optional: interfaces decide)", "", rows=2),
                ),
                tag("button", "Check", type="submit"),
                answer="drafted",
            ),
            tag("div", Markup(""), id="applied", aria_live="polite"),
        ),
    )


def draft(report: Mapping[str, Any], fields: Mapping[str, str], schema: Schema | None = None) -> Markup:
    """A draft of a change: what it would change, the graph as it would be, and who would see what."""
    text = fields.get("change", "")
    if not report["there"]:
        return empty("This network has no scopes.")
    before = in_force(report, schema)
    try:
        if len(text) > GRAPH_MAX:
            raise FairleadError(f"a text of more than {GRAPH_MAX:,} characters")
        after = replace(before, now=_changed(before.system, text))
    except FairleadError as error:
        return section("Not a change", fault(error, text))
    asked = {
        "source": fields.get("one", ""),
        "target": fields.get("another", ""),
        "event": fields.get("what", ""),
    }
    found = differences(before.graph, after.graph)
    return joined(
        _question(after, asked, schema),
        section(
            "What it changes",
            table(
                ("is", "change"),
                [(each.sign, f"{each.subject}{': ' if each.detail else ''}{each.detail}") for each in found],
                caption="What the draft changes",
            ),
            _apply(text, report)
            if report["changeable"]
            else empty("The broker has no log: the graph cannot be changed."),
        )
        if found
        else section("What it changes", empty("Nothing: the graph stays as it is.")),
        section("The graph as it would be", _drawn(after)) if found else None,
        _findings(after) if found else None,
    )


def _apply(text: str, report: Mapping[str, Any]) -> Markup:
    return form(
        "scopes/apply",
        "applied",
        tag("input", type="hidden", name="change", value=text),
        tag("input", type="hidden", name="known", value=version(report)),
        tag("button", "Apply to the network", type="submit"),
    )


def version(report: Mapping[str, Any]) -> str:
    """The graph in force, told from others: a draft is about one of them."""
    return f"{len(report['changes'])} {report['changes'][-1]['id'] if report['changes'] else ''}"


def applied(taken: Taken) -> Markup:
    """The outcome of a change."""
    if taken.void:
        return tag("p", badge("void", "bad"), " ", taken.void, role="alert")
    count = counted(len(taken.taken), "broker")
    waiting = f"; not yet: {', '.join(sorted(taken.missing))}" if taken.missing else ""
    return joined(
        tag(
            "p",
            badge("applied", "good" if not taken.missing else "warn"),
            f" {count} {'has' if len(taken.taken) == 1 else 'have'} taken the change{waiting}",
            role="status",
        ),
        tag("p", tag("a", "See the graph as it is now", href="/console/scopes")),
    )


# -- a graph of its own ------------------------------------------------------------------------------------------


def answer(fields: Mapping[str, str], schema: Schema | None = None) -> Markup:
    """A draft drawn, checked, asked and compared."""
    text = fields.get("text", "")
    try:
        graph = read(text, schema)
    except FairleadError as error:
        return section("Not a scope graph", fault(error, text))
    return joined(
        _question(graph, fields, schema),
        section("The graph", _drawn(graph)),
        _findings(graph),
        _differences(graph, fields.get("other", ""), schema),
    )


def _drawn(graph: Scopes) -> Markup:
    count = len(list(graph.graph.names))
    if not list(graph.graph.components):
        return empty("Nothing is deployed.")
    if count > DRAWN_MAX:
        scopes = [name for name in graph.graph.names if graph.graph.is_scope(name)]
        rows = [
            (name, f"{len(list(graph.graph.members(name))):,}")
            for name in sorted(scopes, key=lambda each: (-len(list(graph.graph.members(each))), each))[
                :SHOWN_MAX
            ]
        ]
        return joined(
            tag("p", f"{count:,} components and scopes are more than a picture shows.", class_="note"),
            table(("scope", "members"), rows, numbers=(1,), caption="The largest scopes"),
        )
    return picture(drawing.svg(graph.graph), "The scope graph: superscopes before their members")


def _findings(graph: Scopes) -> Markup:
    if len(list(graph.graph.names)) > CHECKED_MAX:
        return section("Findings", empty("A graph of this size is checked by `fairlead scope check`."))
    findings = graph.check()
    tones = {"error": "bad", "warning": "warn"}
    return section(
        "Findings",
        tag(
            "ul",
            *(
                tag("li", badge(each.level, tones.get(each.level, "idle")), " ", str(each))
                for each in findings[:SHOWN_MAX]
            ),
            class_="plain",
        )
        if findings
        else tag("p", badge("nothing suspicious", "good")),
        tag("p", f"and {len(findings) - SHOWN_MAX:,} more", class_="note")
        if len(findings) > SHOWN_MAX
        else None,
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
            ("is", "change"),
            [(each.sign, f"{each.subject}{': ' if each.detail else ''}{each.detail}") for each in found],
            caption="What the draft changes",
        ),
    )
