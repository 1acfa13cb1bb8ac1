"""The view of the simulator: a scenario to run, with a time to drag, and links to break."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fairlead.console.problems import Problem
from fairlead.console.views.beside import Beside
from fairlead.console.views.layout import points
from fairlead.console.views.routes import (
    files_of,
    form_of,
    json_response,
    page_response,
    part_response,
)
from fairlead.console.views.shell import empty, fault, section, table
from fairlead.console.views.standalone import Part, body_of
from fairlead.errors import FairleadError, ValueRefused
from fairlead.markup import Markup, joined, tag
from fairlead.model.encoding import parse_json
from fairlead_lab.console.playing import FILTERS, NOTIFICATION, OTHER, Broken, Damaged, Fault, Play, Recording
from fairlead_lab.simulation import Scenario

__all__ = ["faults_of", "part", "played"]

VIEWS: Final = {"simulator": "Simulator"}
RUN_S: Final = 30.0
"""For so long a run may take."""
KINDS: Final = (NOTIFICATION, FILTERS, OTHER)
FAULTS_MAX: Final = 50
ENTRIES_MAX: Final = 100


def part(scenario: Scenario) -> Part:
    """The view of a scenario, for the console."""
    return Part(VIEWS, lambda check, listed: _routes(scenario, check, listed))


def _routes(scenario: Scenario, check: Callable[[Request], object], listed: Mapping[str, str]) -> list[Route]:
    beside = Beside(RUN_S)
    play = lru_cache(maxsize=4)(lambda algorithm, seed, count: Play(scenario, algorithm, seed, count))

    def chosen(given: Mapping[str, str]) -> Play:
        return play(
            given.get("algorithm") or _first(scenario),
            _number(given.get("seed", ""), scenario.seed),
            _number(given.get("subscriptions", ""), scenario.workload.checkpoints[0]),
        )

    async def page(request: Request) -> Response:
        check(request)
        return page_response(
            "simulator",
            _page(scenario),
            views=listed,
            scripts=("cytoscape.min.js", "/console/simulator/static/simulator.js"),
            styles=("/console/simulator/static/simulator.css",),
        )

    async def run(request: Request) -> Response:
        check(request)
        given = await form_of(request, body_of)

        def work() -> dict[str, Any]:
            wanted = chosen(given)
            faults = faults_of(given.get("faults", ""))
            return played(wanted, wanted.recorded(faults), faults)

        try:
            return json_response(await beside.run(work))
        except FairleadError as error:
            raise Problem.of(400, error) from None

    async def broker(request: Request) -> Response:
        check(request)
        given = await form_of(request, body_of)
        name, at = given.get("broker", ""), _number(given.get("at", ""), 0)

        def work() -> Markup:
            try:
                entries = chosen(given).tables(name, at, faults_of(given.get("faults", "")))
            except FairleadError as error:
                return fault(error)
            return _table(name, at, entries)

        return part_response(await beside.run(work))

    return [
        Route("/simulator", page),
        Route("/simulator/run", run, methods=["POST"]),
        Route("/simulator/broker", broker, methods=["POST"]),
        *files_of("fairlead_lab.console", "/simulator/static"),
    ]


def _first(scenario: Scenario) -> str:
    """The algorithm to begin with: the product's own, where the scenario has it."""
    algorithms = scenario.routing.algorithms
    return "covering" if "covering" in algorithms else algorithms[0]


def _number(given: str, otherwise: int) -> int:
    return int(given) if given.isdecimal() and len(given) < 16 else otherwise


def faults_of(text: str) -> list[Fault]:
    """The faults that a page asks for. ValueRefused."""
    given = parse_json(text) if text.strip() else []
    if not isinstance(given, list | tuple) or len(given) > FAULTS_MAX:
        raise ValueRefused(f"faults are a list of at most {FAULTS_MAX}")
    found: list[Fault] = []
    for each in given:
        match each:
            case {"one": str(one), "other": str(other), "at": int(at), "until": int(until)}:
                found.append(Broken(one, other, at, until))
            case {"broker": str(broker), "at": int(at)}:
                found.append(Damaged(broker, at))
            case _:
                raise ValueRefused("a fault is a link that breaks, or a broker that is damaged")
    return found


def played(play: Play, recording: Recording, faults: Sequence[Fault]) -> dict[str, Any]:
    """A recording for the page: names by their number, times in microseconds."""
    brokers = list(play.overlay.brokers)
    number = {name: at for at, name in enumerate(brokers)}
    spots = points(brokers, play.links)
    return {
        "end": recording.end,
        "begins": recording.begins,
        "leased": play.is_leased,
        "brokers": [
            {"name": each, "x": spots[each].x, "y": spots[each].y, "entries": recording.entries[each]}
            for each in brokers
        ],
        "links": [[number[one], number[other]] for one, other in play.links],
        "messages": [
            [each.at, each.arrived, number[each.source], number[each.to], KINDS.index(each.kind), each.text]
            for each in recording.messages
        ],
        "left_out": recording.left_out,
        "publications": [
            {
                "at": each.at,
                "broker": each.broker,
                "text": each.text,
                "wanted": len(each.wanted),
                "notified": sorted(each.notified.values()),
                "missing": each.missing,
            }
            for each in recording.publications
        ],
        "faults": [
            {"one": each.one, "other": each.other, "at": each.at, "until": each.until}
            if isinstance(each, Broken)
            else {"broker": each.broker, "at": each.at}
            for each in faults
        ],
    }


# -- the page ------------------------------------------------------------------------------------------------


def _page(scenario: Scenario) -> Markup:
    return joined(
        tag(
            "p",
            f"{scenario.name}: {scenario.overlay.brokers} brokers, {scenario.overlay.shape}",
            class_="note",
        ),
        tag(
            "form",
            _choice("algorithm", "Algorithm", scenario.routing.algorithms, chosen=_first(scenario)),
            _choice("subscriptions", "Subscriptions", map(str, scenario.workload.checkpoints)),
            tag(
                "div",
                tag("label", "Seed", for_="seed"),
                tag("input", id="seed", name="seed", type="number", min=0, step=1, value=str(scenario.seed)),
                class_="field",
            ),
            id="choices",
            class_="inline",
        ),
        tag(
            "div",
            tag(
                "div",
                Markup(""),
                id="graph",
                role="img",
                aria_label="The brokers, their links, and the messages on them; the tables below say the same",
            ),
            tag("canvas", Markup(""), id="messages", aria_hidden="true"),
            class_="stage",
        ),
        _transport(),
        tag("p", "Running …", id="state", class_="note", role="status"),
        tag("div", Markup(""), id="problem"),
        tag(
            "div",
            tag(
                "div",
                section(
                    "Faults",
                    tag(
                        "form",
                        _choice("link", "Link", ()),
                        tag("button", "Break it now", type="submit"),
                        id="break",
                        class_="inline",
                    ),
                    tag(
                        "form",
                        _choice("broker", "Broker", ()),
                        tag("button", "Show its table", type="button", id="show"),
                        tag("button", "Damage it now", type="submit", id="damage"),
                        id="damaging",
                        class_="inline",
                    ),
                    tag("ul", Markup(""), id="faults", class_="plain"),
                    note="The run up to the fault stays the same, and goes on from there. Links and brokers can "
                    "be chosen in the picture, too. The number beside a broker is that of its routing entries.",
                ),
                tag("div", Markup(""), id="details", aria_live="polite"),
            ),
            tag("div", section("Publications", tag("div", Markup(""), id="publications"))),
            class_="beside",
        ),
    )


def _transport() -> Markup:
    return tag(
        "div",
        tag(
            "svg",
            id="strip",
            viewBox="0 0 1000 60",
            preserveAspectRatio="none",
            role="img",
            aria_label="Messages over time",
        ),
        tag("label", "Time", for_="time"),
        tag("input", id="time", type="range", min=0, max=1, value=0, step="any"),
        tag(
            "div",
            tag("button", "Play", type="button", id="play", aria_pressed="false"),
            _choice("speed", "Speed", ("slow", "middling", "fast"), chosen="middling"),
            tag("output", "", id="now", for_="time"),
            tag(
                "p",
                tag("span", "●", class_="one"),
                " notifications ",
                tag("span", "●", class_="two"),
                " filters ",
                tag("span", "✕", class_="bad"),
                " lost, or a delivery that is missing ",
                tag("span", "■", class_="warn"),
                " a fault",
                class_="legend",
            ),
            class_="inline",
        ),
        class_="transport",
    )


def _choice(name: str, label: str, values: Any, chosen: str = "") -> Markup:
    return tag(
        "div",
        tag("label", label, for_=name),
        tag(
            "select",
            *(tag("option", each, value=each, selected=each == chosen) for each in values),
            Markup(""),
            id=name,
            name=name,
        ),
        class_="field",
    )


def _table(name: str, at: int, entries: Sequence[tuple[str, str]]) -> Markup:
    title = f"{name} at {at / 1_000:,.1f} ms"
    if not entries:
        return section(title, empty("Its routing table is empty."))
    rows = [(destination, tag("code", text)) for destination, text in entries[:ENTRIES_MAX]]
    more = len(entries) - len(rows)
    return section(
        title,
        table(("leads to", "what matches"), rows, caption=f"{len(entries):,} routing entries"),
        tag("p", f"and {more:,} more", class_="note") if more else None,
    )
