"""The specification of scoped systems accepts what the bus does, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fairlead.audit import Event, Verdict, audit, scoped
from fairlead.audit.parquet import event_of, row_of
from fairlead.audit.scoped import Paths
from fairlead.audit.trace import (
    Ended,
    Notified,
    Published,
    ScopeChanged,
    Subscribed,
    event_from_json,
    event_to_json,
)
from fairlead.bus import Bus
from fairlead.errors import ScopeError
from fairlead.filters import EVERYTHING, Filter
from fairlead.model import Notification
from fairlead.model.order import Identity, OrderKey
from fairlead.scopes import ScopeGraph, System, parse_statements, print_statements
from fairlead.scopes.describing import statements_of
from fairlead_lab.scopes.definition import deliveries
from fairlead_lab.testing.scopes import (
    COMPONENTS,
    SCOPES,
    graph_of,
    graphs,
    matched_by,
    publications,
    subscriptions,
)

CASES = json.loads((Path(__file__).parents[1] / "corpus" / "scopes.json").read_text())["cases"]
TRACES = [pytest.param(case, id=case["name"]) for case in CASES if case["kind"] == "trace"]
Subscriptions = dict[str, dict[str, Filter]]


def events_of(case: Mapping[str, Any]) -> list[Event]:
    """The events of a case, in the one trace format."""
    text = print_statements(statements_of(graph_of(case["graph"])))
    events: list[Event] = [ScopeChanged("graph", {"text": text})]
    published: dict[str, str] = {}
    for kind, component, about in case["trace"]:
        match kind:
            case "sub":
                events.append(Subscribed(component, about, EVERYTHING))
            case "pub":
                n = Notification.of({"producer": component, "id": about})
                published[about] = component
                events.append(Published(n, OrderKey.of(n)))
            case "notify":
                events.append(Notified(component, Identity(published[about], about)))
            case "jscope":
                events.append(ScopeChanged("join", {"text": f"JOIN {component} TO {about}"}))
            case "lscope":
                events.append(ScopeChanged("leave", {"text": f"LEAVE {component} FROM {about}"}))
    return [*events, Ended()]


@pytest.mark.parametrize("case", TRACES)
def test_verdicts_are_as_the_case_says(case: Mapping[str, Any]) -> None:
    found = {finding.rule: finding.verdict.value for finding in audit(events_of(case), "scoped")}
    assert {rule: found[rule] for rule in case["expect"]} == case["expect"]


def visible_at_delivery(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scoped.Graphs, "at", lambda self, *_: self.by_index[-1][1].graph)


def liveness_is_vacuous(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scoped._Judge, "_liveness", lambda *_: None)


def liveness_is_owed_at_publication(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scoped.Graphs, "after", lambda *_: iter(()))


def twice_is_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scoped._Judge, "_once", lambda *_: None)


@pytest.mark.parametrize(
    "mutant",
    [visible_at_delivery, liveness_is_vacuous, liveness_is_owed_at_publication, twice_is_once],
    ids=lambda each: each.__name__,
)
def test_a_mutant_of_the_specification_fails_some_case(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    cases = [case for case in CASES if case["kind"] == "trace"]
    said = [{each.rule: each.verdict.value for each in audit(events_of(case), "scoped")} for case in cases]
    assert any(
        found[rule] != verdict
        for case, found in zip(cases, said, strict=True)
        for rule, verdict in case["expect"].items()
    )


def run(
    graph: ScopeGraph, events: list[Notification], asked: Subscriptions, order: Any, changes: list[str]
) -> list[Event]:
    trace: list[Event] = []
    bus = Bus(scopes=System(graph), order=order, trace=trace.append)
    for name, filters in asked.items():
        for id, filter in filters.items():
            bus.subscribe(filter, lambda _: None, subscriber=name, id=f"{name}/{id}")
    for number, event in enumerate(events):
        bus.publish(event)
        if number < len(changes):
            with suppress(ScopeError):
                bus.scopes.alter(changes[number])
    bus.close()
    return trace


CHANGES = [
    *(f"JOIN {component} TO {scope}" for component in COMPONENTS[:3] for scope in SCOPES[:2]),
    *(f"LEAVE {component} FROM {scope}" for component in COMPONENTS[:3] for scope in SCOPES[:2]),
    "ALTER SCOPE A INTERFACES INPUT(x = 1), OUTPUT(0)",
    "DROP SCOPE B",
]


@given(graphs(mappings=True, policies=True, held=True), st.data(), subscriptions())
def test_every_run_of_the_bus_is_accepted(
    graph: ScopeGraph, data: st.DataObject, asked: Subscriptions
) -> None:
    events = [data.draw(publications(number)) for number in range(1, 5)]
    changes = data.draw(st.lists(st.sampled_from(CHANGES), max_size=3))
    for order in ("live", "ordered"):
        trace = run(graph, events, asked, order, changes)
        report = audit(trace, "scoped", *(["ordered"] if order == "ordered" else []))
        assert report.verdict is Verdict.HOLDS, [f.violations for f in report if f.violations]
        assert [event_from_json(event_to_json(each)) for each in trace] == trace
        assert [event_of(row_of(each)) for each in trace] == trace


@given(graphs(mappings=True), publications(), subscriptions())
def test_the_paths_of_the_audit_are_those_of_the_definition(
    graph: ScopeGraph, n: Notification, asked: Subscriptions
) -> None:
    paths = Paths(graph, n)
    everybody: Subscriptions = {name: {"s": EVERYTHING} for name in (*COMPONENTS, "nobody")}
    wanted = {(name, tag) for name, tag, _ in deliveries(graph, n, matched_by(everybody))[0]}
    assert {(name, tag) for name in everybody for tag in paths.versions(name)} == wanted


@given(graphs(mappings=True), st.data(), subscriptions())
def test_whoever_is_notified_about_what_it_must_not_see_is_found(
    graph: ScopeGraph, data: st.DataObject, asked: Subscriptions
) -> None:
    n = data.draw(publications(1))
    trace = run(graph, [n], asked, "live", [])
    wanted = {(name, tag) for name, tag, _ in deliveries(graph, n, matched_by(asked))[0]}
    stranger = data.draw(st.sampled_from(sorted(asked)))
    assume((stranger, "") not in wanted)
    told = [*trace[:-1], Notified(stranger, Identity(n.producer, n.id or "")), trace[-1]]
    violated = {rule for _, rule in audit(told, "scoped").violated()}
    assert violated & {"visible", "subscribed"}


@given(graphs(mappings=True), publications(), subscriptions())
def test_a_delivery_that_is_missing_doubled_or_another_version_is_found(
    graph: ScopeGraph, n: Notification, asked: Subscriptions
) -> None:
    trace = run(graph, [n], asked, "live", [])
    for place, event in enumerate(trace):
        if not isinstance(event, Notified):
            continue
        for rule, mutant in (
            ("liveness", trace[:place] + trace[place + 1 :]),
            ("once", [*trace[:place], event, *trace[place:]]),
            ("visible", [*trace[:place], replace(event, version="0" * 16), *trace[place + 1 :]]),
        ):
            assert ("scoped", rule) in audit(mutant, "scoped").violated(), rule


def test_changes_that_rules_make_are_in_the_trace() -> None:
    text = """
    DEFINE SCOPE S AS ALL FROM a, b UPDATE ON pub(n : type = "in") DO JOIN COMPONENT TO T
    DEFINE SCOPE T AS ALL FROM c
    """
    for order in ("live", "ordered"):
        trace: list[Event] = []
        bus = Bus(scopes=System.of(parse_statements(text)), order=order, trace=trace.append)  # type: ignore[arg-type]
        bus.subscribe("true", lambda _: None, subscriber="c")
        for number, kind in enumerate(("x", "in", "y")):
            bus.publish({"producer": "a", "type": kind, "id": str(number), "time": number})
        bus.close()
        assert [each.change for each in trace if isinstance(each, ScopeChanged)] == ["graph", "join"]
        assert [each.identity.id for each in trace if isinstance(each, Notified)] == ["2"]
        assert audit(trace, "scoped").verdict is Verdict.HOLDS


@given(graphs(mappings=True, policies=True, held=True), st.data(), subscriptions())
def test_what_policies_did_not_choose_is_found_in_the_total_order(
    graph: ScopeGraph, data: st.DataObject, asked: Subscriptions
) -> None:
    events = [data.draw(publications(number)) for number in range(1, 5)]
    trace = run(graph, events, asked, "ordered", [])
    told = [place for place, event in enumerate(trace) if isinstance(event, Notified)]
    assume(told)
    place = data.draw(st.sampled_from(told))
    event = trace[place]
    assert isinstance(event, Notified)
    other = data.draw(st.sampled_from(sorted(asked)))
    mutants = [
        trace[:place] + trace[place + 1 :],
        [*trace[:place], replace(event, order=(event.order or 4) + 7), *trace[place + 1 :]],
    ]
    if not any(
        isinstance(each, Notified) and (each.component, each.identity) == (other, event.identity)
        for each in trace
    ):
        mutants.append([*trace[:place], replace(event, component=other, order=None), *trace[place + 1 :]])
    for mutant in mutants:
        report = audit(mutant, "scoped")
        # A graph that has no policy at all leaves order times to the specification `ordered`.
        if len(mutant) < len(trace) or any(_has_policies(each) for each in trace):
            assert report.violated(), mutant


def _has_policies(event: Event) -> bool:
    return isinstance(event, ScopeChanged) and any(
        word in event.about["text"] for word in ("POLICY", "TRAVERSE")
    )


def policy_trace(
    policy: str, deliveries: list[tuple[int, str, int | None]], *, released: bool = True
) -> list[Event]:
    """Notifications of p in a scope with three workers and one policy; the second one releases what is held."""
    text = f"DEFINE SCOPE S AS ALL FROM p, a, b, c {policy}"
    events: list[Event] = [ScopeChanged("graph", {"text": text})]
    events += (Subscribed(name, f"s-{name}", EVERYTHING) for name in "abc")
    for number in range(1, 4):
        kind = "go" if number == 2 and released else "job"
        n = Notification.of({"producer": "p", "id": str(number), "time": number, "type": kind})
        events.append(Published(n, OrderKey.of(n)))
    events += (
        Notified(name, Identity("p", str(number)), (), "", order) for number, name, order in deliveries
    )
    return [*events, Ended()]


ONE_EACH = [(1, "a", None), (2, "b", None), (3, "a", None)]
EVERYBODY = [(number, name, None) for number in (1, 2, 3) for name in "abc"]


@pytest.mark.parametrize(
    ("policy", "deliveries", "holds"),
    [
        ("INTERNAL POLICY ONE BY TURN", ONE_EACH, True),
        ("INTERNAL POLICY ONE BY TURN", [(1, "b", None), *ONE_EACH], False),
        ("INTERNAL POLICY ONE BY TURN", ONE_EACH[1:], False),
        ("INTERNAL POLICY NONE", [], True),
        ("INTERNAL POLICY NONE", ONE_EACH, False),
        ("INTERNAL POLICY CHAIN(b, a)", [(number, "b", None) for number in (1, 2, 3)], True),
        ("INTERNAL POLICY CHAIN(b, a)", [(number, "a", None) for number in (1, 2, 3)], False),
        ("INTERNAL POLICY DELAY 5us", [(number, name, number + 5) for number, name, _ in EVERYBODY], True),
        ("INTERNAL POLICY DELAY 5us", [(number, name, number + 4) for number, name, _ in EVERYBODY], False),
        ("INTERNAL POLICY RATE 1 PER 3us", [(1, name, None) for name in "abc"], True),
        ("INTERNAL POLICY RATE 1 PER 3us", [(1, "a", None), (3, "a", None)], False),
    ],
)
def test_the_law_of_each_policy_is_judged_where_there_is_no_order(
    policy: str, deliveries: list[tuple[int, str, int | None]], holds: bool
) -> None:
    events = policy_trace(policy, deliveries)
    found = {finding.rule: finding.verdict for finding in audit(events, "scoped")}
    assert (found["policy"] is Verdict.HOLDS) is holds
    assert all(found[rule] is Verdict.HOLDS for rule in ("visible", "published", "liveness"))


def test_what_is_held_must_not_come_before_its_release() -> None:
    policy = 'INTERNAL POLICY HOLD UNTIL (type = "go") WHEN (type = "job")'
    now = [(2, name, None) for name in "abc"]
    for released in (True, False):
        events = policy_trace(policy, [*(now if released else []), (1, "a", 3)], released=released)
        assert (("scoped", "policy") in audit(events, "scoped").violated()) is not released


def test_patterns_compete_for_what_policies_choose_so_nothing_is_judged() -> None:
    events = policy_trace("INTERNAL POLICY ONE", [])
    assert ("scoped", "policy") in audit(events, "scoped").violated()
    asked = Subscribed("c", "pattern", EVERYTHING, ready=False)
    assert ("scoped", "policy") not in audit([events[0], asked, *events[1:]], "scoped").violated()
