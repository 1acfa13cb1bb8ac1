"""Conditions: the worked cases, the reference, the language, and mutants that the comparison catches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from fairlead.conditions import (
    AtMost,
    Changes,
    Condition,
    Deviates,
    Every,
    changes,
    condition,
    condition_of,
    deviates,
    parse,
)
from fairlead.errors import FilterError, FilterSyntaxError
from fairlead.model import Notification
from fairlead_lab.testing.conditions import passed

NAN = float("nan")


def kept(on: str | Condition, stream: Iterable[Notification]) -> list[Notification]:
    """What passes, by the code of the product."""
    suppression = condition_of(on).begin()
    return [notification for notification in stream if suppression.passes(notification)]


def readings(*values: Any, every_us: int = 1) -> list[Notification]:
    """One producer's notifications with these values of x; None is none."""
    return [
        Notification.of({"producer": "p", "time": n * every_us, **({} if value is None else {"x": value})})
        for n, value in enumerate(values)
    ]


D = Decimal
CASES: list[tuple[str, list[Any], list[Any]]] = [
    ("x changes", [1, 1, 2, 2, 1, "1", "1", 1.0], [1, 2, 1, "1", 1]),
    ("x changes by 1", [20, D("20.4"), D("21.5"), 22, D("23.1"), 19], [20, D("21.5"), D("23.1"), 19]),
    ("x changes by 1", [20, 21, D("21.9"), 22], [20, 21, 22]),
    (
        "x changes by 5%",
        [100, 104, 105, 110, D("110.25"), 0, 0, D("0.001")],
        [100, 105, D("110.25"), 0, D("0.001")],
    ),
    ("x deviates by 2 over 4", [10, 12, 10, 12, 11, 14, 11, 10], [10, 12, 10, 12, 14]),
    ("x deviates by 3 over 3", [5, 5, 5, 5, 6, 5], [5, 5, 5, 6]),
    (
        "x changes by 1",
        [20, "21", D("20.4"), None, D("21.5"), NAN, 22, D("23.1"), 19],
        [20, D("21.5"), D("23.1"), 19],
    ),
    ("x mean changes by 1 over 2", [0, 1, 2, 2, 9], [0, 2, 9]),
    ("every 3rd", [1, 2, 3, 4, 5, 6, 7], [1, 4, 7]),
    ("every 1st", [1, 2, 3], [1, 2, 3]),
    ("at most 1 per 3 us", [0, 1, 2, 3, 4, 5, 6], [0, 3, 6]),
    ("at most 2 per 3 us", [0, 1, 2, 3, 4, 5, 6], [0, 1, 3, 4, 6]),
    ("x changes by 9 or after 3 us", [0, 1, 2, 3, 12, 13, 14, 15], [0, 3, 12, 15]),
]


@pytest.mark.parametrize(("on", "values", "delivered"), CASES)
def test_a_case_gives_what_is_written(on: str, values: list[Any], delivered: list[Any]) -> None:
    stream = readings(*values)
    assert [each.get("x") for each in kept(on, stream)] == delivered
    assert kept(on, stream) == passed(parse(on), stream)


def test_each_producer_has_a_last_value_of_its_own_and_a_key_may_be_named() -> None:
    stream = [
        Notification.of({"producer": producer, "room": room, "x": x})
        for producer, room, x in [("p", 1, 5), ("q", 1, 5), ("p", 2, 5), ("q", 2, 6), ("p", 1, 5)]
    ]
    assert kept("x changes", stream) == [stream[0], stream[1], stream[3]]
    assert kept("x changes, per room", stream) == [stream[0], stream[2], stream[3]]
    assert kept("x changes per room, producer", stream) == stream[:4]


def test_keys_without_the_attribute_are_one_key() -> None:
    stream = [Notification.of({"x": 1}), Notification.of({"x": 1}), Notification.of({"x": 1, "room": 1})]
    assert kept("x changes, per room", stream) == [stream[0], stream[2]]


# -- the language ------------------------------------------------------------------------------------------------

names = st.sampled_from(["x", "room", "producer", "a.b", "changes", "mean", "per", "or", "not", "two words"])
durations = st.integers(1, 10**13)
bounds = st.one_of(
    st.integers(1, 5), st.decimals("0.01", "9", places=2), st.just(Decimal("1E-7")), st.just(Decimal("1E+3"))
)
overs = st.integers(1, 5)


def some_test(names: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(Changes, names),
        st.builds(Changes, names, bounds, st.booleans(), st.none() | overs),
        st.builds(Deviates, names, bounds, overs),
        st.builds(AtMost, overs, durations),
        st.builds(Every, overs),
    )


conditions = st.builds(
    Condition,
    some_test(names),
    st.lists(names, unique=True, max_size=3).filter(bool).map(tuple),
    st.none() | durations,
)


@given(conditions)
def test_what_is_printed_parses_to_the_same(condition: Condition) -> None:
    assert parse(str(condition)) == condition


def test_the_functions_say_what_the_language_says() -> None:
    assert changes("celsius", by=1, per=("room",)) == parse("celsius changes by 1, per room")
    assert changes("celsius", by=5, percent=True, or_after="1 min") == parse(
        "celsius changes by 5% or after 60 s"
    )
    assert changes("celsius", by=Decimal("0.5"), mean_over=20) == parse("celsius mean changes by 0.5 over 20")
    assert deviates("celsius", by=3, over=20) == parse("celsius deviates by 3 over 20")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "the condition ends too early"),
        ("celsius", "the condition ends too early"),
        ("celsius > 3", "unexpected >"),
        ("celsius changes by", "the condition ends too early"),
        ("celsius changes by 1 over 3", "unexpected over"),
        ("celsius mean changes by 1", "the condition ends too early"),
        ("celsius changes,", "the condition ends too early"),
        ("celsius changes per", "the condition ends too early"),
        ("celsius changes or after soon", "unexpected soon"),
        ("at most 1 per second", "unexpected second"),
        ("every 3", "the condition ends too early"),
        ("celsius changes by 1 per room and more", "unexpected and"),
    ],
)
def test_a_text_that_is_no_condition_is_refused_with_its_place(text: str, complaint: str) -> None:
    with pytest.raises(FilterSyntaxError, match=complaint) as refused:
        parse(text)
    assert "column" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x changes by 0", "more than 0"),
        ("x changes by -1", "more than 0"),
        ("x deviates by 0 over 3", "more than 0"),
        ("x deviates by 3 over 0", "1 to 1000000 values"),
        ("x deviates by 3 over 2.5", "whole number"),
        ("x mean changes by 3 over 1000001", "1 to 1000000 values"),
        ("at most 0 per 1 s", "1 to 1000000"),
        ("at most 1 per 0 s", "longer than nothing"),
        ("every 0th", "at least 1"),
        ("x changes per room, room", "once"),
        ("x changes or after 0 s", "longer than nothing"),
    ],
)
def test_a_condition_that_means_nothing_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(FilterError, match=complaint):
        parse(text)


# -- the reference, and mutants ---------------------------------------------------------------------------

values = st.one_of(
    st.none(),
    st.just(NAN),
    st.sampled_from(["a", "1", True, [1], b"x"]),
    st.integers(-3, 12),
    st.decimals("-2", "9", places=1),
    st.floats(-2, 9, allow_nan=False),
)


@st.composite
def streams(draw: st.DrawFn) -> list[Notification]:
    found, time = [], 0
    for value in draw(st.lists(values, max_size=14)):
        time += draw(st.integers(-1, 4))
        given: dict[str, Any] = {"producer": draw(st.sampled_from("pq")), "time": time}
        if draw(st.booleans()):
            given["room"] = draw(st.integers(1, 2))
        found.append(Notification.of(given if value is None else {**given, "x": value}))
    return found


judged = st.builds(
    Condition,
    some_test(st.just("x")),
    st.sampled_from([("producer",), ("room",), ("room", "producer")]),
    st.none() | st.integers(1, 9),
)
few = st.builds(
    Condition,
    st.one_of(
        st.builds(Changes, st.just("x"), st.integers(1, 3), st.booleans(), st.none() | st.integers(2, 3)),
        st.builds(Deviates, st.just("x"), st.integers(1, 3), st.integers(2, 3)),
        st.builds(AtMost, st.integers(1, 2), st.integers(1, 9)),
        st.builds(Every, st.integers(1, 3)),
        st.builds(Changes, st.just("x")),
    ),
    st.sampled_from([("producer",), ("room",)]),
    st.none() | st.integers(2, 9),
)


@given(judged | few, streams())
@settings(max_examples=300)
def test_a_stream_passes_as_the_reference_says(on: Condition, stream: list[Notification]) -> None:
    assert kept(on, stream) == passed(on, stream)


@given(st.integers(1, 4), st.lists(st.integers(-9, 9), min_size=1))
def test_what_a_subscriber_knows_is_less_than_the_bound_away(by: int, values: list[int]) -> None:
    known: int | None = None
    suppression = changes("x", by=by).begin()
    for notification in readings(*values):
        if suppression.passes(notification):
            known = notification.get("x")
        assert known is not None
        assert abs(notification.get("x") - known) < by


def _keyless(old: Callable[..., bool]) -> Callable[..., bool]:
    def passes(self: Any, notification: Notification) -> bool:
        fixed = {name: 1 for name in self._condition.per if name != "producer"}
        record = {name: notification.get(name) for name in ("x",) if name in notification.attributes}
        time = notification.time
        return old(self, Notification.of({**record, **fixed, "producer": "p", "time": time}))

    return passes


def _without_heartbeat(old: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self: old(Condition(self.test, self.per))


MUTANTS: dict[str, tuple[type, str, Callable[[Callable[..., Any]], Callable[..., Any]]]] = {
    "the last value published counts": (
        condition._DeadBand,
        "passes",
        lambda old: lambda self, value, time: (old(self, value, time), self.delivered(value, time))[0],
    ),
    "a change has to be more than the bound": (
        condition._DeadBand,
        "passes",
        lambda old: (
            lambda self, value, time: (
                old(self, value, time)
                and (self._last is None or self._percent or abs(self._current - self._last) != self._by)
            )
        ),
    ),
    "the mean is rounded": (
        condition._Window,
        "mean",
        lambda old: property(lambda self: Fraction(round(float(old.fget(self))))),  # type: ignore[attr-defined,return-value]
    ),
    "the current value is among those before it": (
        condition._Deviation,
        "passes",
        lambda old: lambda self, value, time: (self._window.mean_with(value), old(self, value, time))[1],
    ),
    "a value of another kind counts": (condition._Count, "value", lambda old: lambda self, n: n.get("x")),
    "the key is ignored": (condition.Suppression, "passes", _keyless),
    "the heartbeat is forgotten": (condition.Condition, "begin", _without_heartbeat),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught_by_the_reference(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, change = MUTANTS[name]
    written = [(on, readings(*values)) for on, values, _ in CASES]
    assert all(kept(on, stream) == passed(parse(on), stream) for on, stream in written)
    monkeypatch.setattr(owner, attribute, change(vars(owner)[attribute]))

    @settings(max_examples=1_500, database=None, derandomize=True, phases=[Phase.generate])
    @given(few, streams())
    def compare(on: Condition, stream: list[Notification]) -> None:
        assert kept(on, stream) == passed(on, stream)

    if any(kept(on, stream) != passed(parse(on), stream) for on, stream in written):
        return  # whatever examples are generated
    with pytest.raises((AssertionError, ExceptionGroup)):
        compare()
