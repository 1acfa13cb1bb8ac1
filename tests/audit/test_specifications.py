"""The programs agree with the formulas, keep correct traces, and catch each broken one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.audit import (
    Advertised,
    Ended,
    Event,
    History,
    Notified,
    Published,
    Ready,
    Report,
    Subscribed,
    Unadvertised,
    Unsubscribed,
    Verdict,
    audit,
)
from fairlead.filters.language import parse
from fairlead.model import Notification
from fairlead.model.order import Identity, OrderKey
from fairlead_lab.audit.formulas import judge
from fairlead_lab.audit.literal import FORMULAS, first_only, obligations, trace_of, world_of

FILTERS = {"s0": parse("x = 0"), "s1": parse("x >= 1"), "all": parse("exists x")}
COMPONENTS = ("a", "b", "c")
ORDERS = ("fifo", "causal", "total", "ordered")


def pub(producer: str, id: str, x: int = 0, order: int | None = None, **more: Any) -> Published:
    notification = Notification.of({"producer": producer, "id": id, "x": x, **more})
    return Published(notification, OrderKey.of(notification, order))


def sub(component: str, id: str = "all", **more: Any) -> Subscribed:
    return Subscribed(component, id, FILTERS[id], **more)


def adv(component: str, id: str = "all", **more: Any) -> Advertised:
    return Advertised(component, id, FILTERS[id], **more)


def notify(component: str, published: Published) -> Notified:
    return Notified(component, published.identity)


# -- random traces -----------------------------------------------------------------------------------------

components = st.sampled_from(COMPONENTS)
ids = st.sampled_from(sorted(FILTERS))
keys = st.none() | st.none() | st.builds(OrderKey, st.integers(0, 5), st.sampled_from(["", "b"]))


@st.composite
def soups(draw: st.DrawFn, size: int = 9, advertisements: bool = True) -> list[Event]:
    """Events in any order: wrong in most ways that there are, and now and then right."""
    pool = []
    for number in range(draw(st.integers(0, 4))):
        producer, x, order = draw(components), draw(st.integers(0, 2)), draw(st.integers(0, 4))
        more: dict[str, Any] = {}
        if draw(st.booleans()):
            more["cause"] = f"{draw(components)}/{draw(st.integers(0, 3))}"
        if draw(st.booleans()):
            more["sequence"] = draw(st.integers(0, 2))
        pool.append(pub(producer, str(number), x, order, **more))
    known = [each.identity for each in pool] or [Identity("a", "0")]
    steps: list[st.SearchStrategy[Event]] = [
        *[st.builds(Notified, components, st.sampled_from(known))] * 3,
        st.builds(sub, components, ids, since=keys, until=keys, ready=st.booleans()),
        st.builds(Unsubscribed, components, ids, keys),
        st.builds(Ready, components, ids, st.booleans()),
    ]
    if advertisements:
        steps += [
            st.builds(adv, components, ids, since=keys, until=keys, ready=st.booleans()),
            st.builds(Unadvertised, components, ids, keys),
        ]
    events: list[Event] = draw(st.lists(st.one_of(steps), max_size=size))
    for each in pool[: draw(st.integers(0, len(pool)))]:
        events.insert(draw(st.integers(0, len(events))), each)
    return [*events, Ended()] if draw(st.booleans()) else events


@given(soups())
@settings(max_examples=2 * settings.default.max_examples)
def test_safety_is_violated_iff_the_formula_is(events: list[Event]) -> None:
    report = audit(events, "simple", "advertisements")
    trace, world = trace_of(events), world_of(events)
    for finding in report:
        if finding.rule != "liveness":
            formula = FORMULAS[finding.specification, finding.rule](world)
            violated = judge(formula, trace) is Verdict.VIOLATED
            assert (finding.verdict is Verdict.VIOLATED) == violated, finding


@given(soups(advertisements=False))
def test_the_orders_are_violated_iff_the_formulas_are(events: list[Event]) -> None:
    events = first_only(events)
    trace, world = trace_of(events), world_of(events)
    for finding in audit(events, *ORDERS):
        formula = FORMULAS[finding.specification, finding.rule](world)
        violated = judge(formula, trace) is Verdict.VIOLATED
        assert (finding.verdict is Verdict.VIOLATED) == violated, finding


@st.composite
def deliveries(draw: st.DrawFn) -> list[Event]:
    """Publications, and components that are notified about many of them, in any order."""
    pool = [pub(draw(components), str(number)) for number in range(draw(st.integers(2, 4)))]
    rows = st.lists(st.permutations(pool), min_size=3, max_size=3)
    told = [
        notify(component, each)
        for component, row in zip(COMPONENTS, draw(rows), strict=True)
        for each in row[: draw(st.integers(0, 4))]
    ]
    events: list[Event] = [*pool]
    places = sorted(draw(st.integers(0, len(pool))) for _ in told)
    for count, (place, each) in enumerate(zip(places, told, strict=True)):
        events.insert(place + count, each)
    return events


@given(deliveries())
@settings(max_examples=settings.default.max_examples // 4)
def test_the_orders_are_violated_iff_the_formulas_are_also_where_much_is_delivered(
    events: list[Event],
) -> None:
    trace, world = trace_of(events), world_of(events)
    for finding in audit(events, *ORDERS):
        formula = FORMULAS[finding.specification, finding.rule](world)
        violated = judge(formula, trace) is Verdict.VIOLATED
        assert (finding.verdict is Verdict.VIOLATED) == violated, finding


@given(soups(), st.booleans())
@settings(max_examples=2 * settings.default.max_examples)
def test_liveness_misses_what_the_formulas_miss(events: list[Event], advertisements: bool) -> None:
    name = "advertisements" if advertisements else "simple"
    [liveness] = [each for each in audit(events, name) if each.rule == "liveness"]
    due = obligations(events, advertisements=advertisements)
    missing = [slot for slot, verdict in due.items() if verdict is not Verdict.HOLDS]
    if events and isinstance(events[-1], Ended):
        assert len(liveness.violations) == len(missing)
        assert all(verdict is not Verdict.OPEN for verdict in due.values())
    else:
        assert liveness.open == len(missing)
        assert liveness.violations == ()


@given(soups())
def test_a_violation_is_proved_by_events_of_the_trace(events: list[Event]) -> None:
    for finding in audit(events, "simple", *ORDERS):
        for violation in finding.violations:
            assert violation.indexes
            assert all(0 <= place < len(events) for place in violation.indexes)
            kinds = {type(events[place]) for place in violation.indexes}
            assert finding.rule == "liveness" or Notified in kinds


# -- a correct system --------------------------------------------------------------------------------------


@st.composite
def runs(draw: st.DrawFn) -> list[Event]:
    """The trace of a system that is right: everything is delivered at once, in the order of publishing."""
    events: list[Event] = []
    active: dict[tuple[str, str], Subscribed] = {}
    for number in range(draw(st.integers(0, 12))):
        component, id = draw(components), draw(ids)
        match draw(st.sampled_from(["sub", "unsub", "pub", "pub", "pub"])):
            case "sub":
                active.setdefault((component, id), sub(component, id))
                events.append(sub(component, id))
            case "unsub":
                active.pop((component, id), None)
                events.append(Unsubscribed(component, id))
            case _:
                published = pub(component, str(number), draw(st.integers(0, 2)))
                events.append(published)
                told = {s.component for s in active.values() if s.filter.matches(published.notification)}
                events += [notify(each, published) for each in sorted(told)]
    return [*events, Ended()]


@given(runs())
def test_a_correct_run_keeps_every_specification(events: list[Event]) -> None:
    report = audit(events)
    assert report.verdict is Verdict.HOLDS, report


@given(runs())
def test_the_beginning_of_a_correct_run_violates_nothing(events: list[Event]) -> None:
    for length in range(len(events)):
        assert audit(events[:length]).verdict in (Verdict.HOLDS, Verdict.OPEN)


# -- traces broken on purpose ------------------------------------------------------------------------------

N1, N2 = pub("p", "1"), pub("p", "2", 1)
EFFECT = pub("b", "effect")
RIGHT: list[Event] = [
    *(sub("a"), sub("b"), sub("c")),
    *(N1, notify("a", N1), notify("b", N1), notify("c", N1)),
    *(N2, notify("a", N2), notify("b", N2), notify("c", N2)),
    *(EFFECT, notify("a", EFFECT), notify("b", EFFECT), notify("c", EFFECT)),
    Ended(),
]


def without(event: Event) -> list[Event]:
    return [each for each in RIGHT if each != event]


def swapped(one: Event, two: Event, events: list[Event] | None = None) -> list[Event]:
    exchange = {id(one): two, id(two): one}
    given = RIGHT if events is None else events
    one, two = (next(each for each in given if each == wanted) for wanted in (one, two))
    exchange = {id(one): two, id(two): one}
    return [exchange.get(id(each), each) for each in given]


def inserted(event: Event, before: Event) -> list[Event]:
    place = RIGHT.index(before)
    return [*RIGHT[:place], event, *RIGHT[place:]]


Q1 = pub("q", "1")
NOT_IN_FILTER = pub("p", "3", 2)

MUTANTS: dict[str, tuple[Callable[[], list[Event]], set[tuple[str, str]]]] = {
    "duplicate notify": (lambda: inserted(notify("a", N1), N2), {("simple", "once")}),
    "notify without a subscription": (
        lambda: inserted(notify("d", N1), N2),
        {("simple", "subscribed")},
    ),
    "notify of what does not match": (
        lambda: [sub("a", "s0"), NOT_IN_FILTER, notify("a", NOT_IN_FILTER), Ended()],
        {("simple", "subscribed")},
    ),
    "notify after unsubscription": (
        lambda: inserted(Unsubscribed("c", "all"), notify("c", EFFECT)),
        {("simple", "subscribed")},
    ),
    "notify of something never published": (
        lambda: inserted(notify("a", pub("p", "ghost")), N2),
        {("simple", "published")},
    ),
    "notify before publication": (
        lambda: [sub("a"), notify("a", N1), N1, Ended()],
        {("simple", "published"), ("simple", "liveness")},
    ),
    "missing delivery": (lambda: without(notify("c", N2)), {("simple", "liveness")}),
    "FIFO swap everywhere": (
        lambda: [sub("a"), sub("b"), N1, N2, *(notify(c, n) for n in (N2, N1) for c in "ab"), Ended()],
        {("fifo", "order"), ("causal", "order")},
    ),
    "causal swap": (
        lambda: [
            *(sub("b"), sub("c"), Q1, notify("b", Q1), EFFECT),
            *(notify("c", EFFECT), notify("c", Q1), notify("b", EFFECT), Ended()),
        ],
        {("causal", "order"), ("total", "agreement"), ("total", "one order")},
    ),
    "declared cause behind its effect": (
        lambda: [
            *(sub("c"), N1, late := pub("q", "late", cause="p/1")),
            *(notify("c", late), notify("c", N1), Ended()),
        ],
        {("causal", "order")},
    ),
    "two components disagree": (
        lambda: [
            sub("a"),
            sub("b"),
            N1,
            Q1,
            notify("a", N1),
            notify("b", Q1),
            notify("a", Q1),
            notify("b", N1),
        ],
        {("total", "agreement"), ("total", "one order")},
    ),
    "three components contradict one another in a circle": (
        lambda: [
            *(sub("a"), sub("b"), sub("c"), N1, Q1, EFFECT, notify("a", N1), notify("a", Q1)),
            *(notify("b", Q1), notify("b", EFFECT), notify("c", EFFECT), notify("c", N1)),
        ],
        {("total", "one order")},
    ),
    "publication outside the advertisement": (
        lambda: [adv("p", "s0"), sub("a"), N1, notify("a", N1), N2, notify("a", N2), Ended()],
        {("advertisements", "advertised")},
    ),
    "publication after the advertisement was revoked": (
        lambda: [adv("p"), sub("a"), Unadvertised("p", "all"), N1, notify("a", N1), Ended()],
        {("advertisements", "advertised")},
    ),
    "advertised and not delivered": (
        lambda: [adv("p", "s0"), sub("a"), N1, N2, Ended()],
        {("advertisements", "liveness")},
    ),
}


UNORDERED: dict[str, tuple[list[Event], str]] = {
    "back in the total order": (
        [sub("a"), n := pub("p", "n", order=9), notify("a", n), m := pub("q", "m", order=7), notify("a", m)],
        "key",
    ),
    "back in a producer's numbers": (
        [
            sub("a"),
            *(n := pub("p", "b", order=5, sequence=2), notify("a", n)),
            *(m := pub("p", "a", order=7, sequence=1), notify("a", m)),
        ],
        "sequence",
    ),
    "before the end of the instant": (
        [
            sub("a"),
            n := pub("patterns", "c", order=5),
            notify("a", n),
            m := pub("q", "m", order=5),
            notify("a", m),
        ],
        "key",
    ),
}


@pytest.mark.parametrize("name", UNORDERED)
def test_a_run_that_was_to_be_ordered_and_was_not_is_caught_and_as_a_live_one_is_right(name: str) -> None:
    events, rule = UNORDERED[name]
    assert set(audit(events, "ordered").violated()) == {("ordered", rule)}
    assert not audit([*events, Ended()]).violated()


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_trace_is_caught_by_the_right_specification(name: str) -> None:
    broken, caught_by = MUTANTS[name]
    assert set(audit(broken()).violated()) == caught_by


def test_what_the_mutants_were_made_from_is_right() -> None:
    assert audit(RIGHT).verdict is Verdict.HOLDS


def proof(report: Report, specification: str, rule: str) -> tuple[str, tuple[int, ...]]:
    [violation] = report.violated()[specification, rule].violations
    return violation.what, violation.indexes


def test_a_fifo_violation_is_told_with_both_publications_and_both_notifications() -> None:
    events = [sub("a"), N1, N2, notify("a", N2), notify("a", N1)]
    assert proof(audit(events), "fifo", "order") == (
        "a was notified about p/2 before p/1, which p had published first",
        (1, 2, 3, 4),
    )


def test_a_missing_delivery_is_told_with_the_subscription_and_the_publication() -> None:
    assert proof(audit([sub("a"), N1, Ended()]), "simple", "liveness") == (
        "a was never notified about p/1, which its subscription matches",
        (0, 1),
    )


# -- what counts -------------------------------------------------------------------------------------------


def test_what_is_missing_is_open_until_the_trace_ends() -> None:
    report = audit([sub("a"), N1])
    assert (report.verdict, report.open) == (Verdict.OPEN, 1)
    assert audit([sub("a"), N1, Ended()]).verdict is Verdict.VIOLATED
    assert audit([sub("a"), N1, notify("a", N1)]).verdict is Verdict.HOLDS


def test_a_subscription_that_is_not_ready_may_miss_and_need_not() -> None:
    waiting = sub("a", ready=False)
    assert audit([waiting, N1, Ended()]).verdict is Verdict.HOLDS
    assert audit([waiting, N1, notify("a", N1), Ended()]).verdict is Verdict.HOLDS
    assert audit([waiting, Ready("a", "all"), N1, Ended()]).verdict is Verdict.VIOLATED


def test_a_component_that_unsubscribes_need_not_be_notified_about_the_meantime() -> None:
    assert audit([sub("a"), N1, Unsubscribed("a", "all"), Ended()]).verdict is Verdict.HOLDS


def test_a_validity_by_order_keys_is_kept_to_the_letter() -> None:
    early, late = pub("p", "1", order=10), pub("p", "2", order=20)
    valid = sub("a", since=OrderKey.first_at(10))
    ending = Unsubscribed("a", "all", until=OrderKey.first_at(20))
    published = [valid, early, late, ending]
    assert audit([*published, notify("a", early), Ended()]).verdict is Verdict.HOLDS
    assert set(audit([*published, Ended()]).violated()) == {("simple", "liveness")}
    assert set(audit([*published, notify("a", early), notify("a", late), Ended()]).violated()) == {
        ("simple", "subscribed")
    }


def test_a_component_that_subscribes_again_is_judged_by_each_period() -> None:
    events = [
        *(sub("a"), Unsubscribed("a", "all"), N1, sub("a"), N2, notify("a", N2), Ended()),
    ]
    assert audit(events).verdict is Verdict.HOLDS


def test_all_specifications_judge_by_advertisements_where_there_are_some() -> None:
    assert {each.specification for each in audit([])} == {"simple", "fifo", "causal", "total"}
    assert {each.specification for each in audit([adv("p")])} == {"advertisements", "fifo", "causal", "total"}


def test_a_specification_that_is_not_known_is_refused() -> None:
    with pytest.raises(ValueError, match="no such specification: perfect"):
        audit([], "perfect")


def test_a_long_trace_takes_one_pass() -> None:
    subscribers = [f"c{number}" for number in range(20)]
    events: list[Event] = [sub(each) for each in subscribers]
    for number in range(300):
        published = pub(f"p{number % 7}", str(number), number % 3)
        events += [published, *(notify(each, published) for each in subscribers)]
    history = History.of([*events, Ended()])
    assert len(history.delivered) == 6000
    assert audit([*events, Ended()]).verdict is Verdict.HOLDS
