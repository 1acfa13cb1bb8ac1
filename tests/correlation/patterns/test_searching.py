"""Conditions about aggregates: what is held does not grow with them, what is found is what the definition says."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.correlation.occurrences import Occurrence
from fairlead.correlation.patterns import searching
from fairlead.correlation.patterns.composites import Composite
from fairlead.correlation.patterns.detector import Detector
from fairlead.correlation.patterns.language import parse
from fairlead.correlation.patterns.model import (
    Aggregate,
    Atom,
    Concat,
    Condition,
    Iterate,
    Operand,
    Pattern,
    Reference,
    Sequence,
    Take,
    Within,
    atoms,
    can_be_empty,
)
from fairlead.filters import Op
from fairlead.filters import parse as filter_of
from fairlead.matching.brute import Brute
from fairlead.model import Notification
from fairlead.model.order import END, order_keys
from fairlead_lab.correlation.patterns.reference import detect
from fairlead_lab.testing.patterns import parts, streams


def occurrences(notifications: Iterable[Notification]) -> list[Occurrence]:
    """Notifications at their places."""
    given = list(notifications)
    return sorted(map(Occurrence.of, given, order_keys(given)))


def stream(types: str, values: Iterable[int]) -> list[Occurrence]:
    """Events of some types, one each microsecond."""
    return occurrences(
        Notification.of({"type": type, "x": x, "time": at, "id": str(at)})
        for at, (type, x) in enumerate(zip(types, values, strict=True))
    )


def fed(pattern: str, events: list[Occurrence]) -> Detector:
    """A detector that has been told of events, and not yet that time has passed the last one."""
    detector = Detector(Brute())
    detector.add("p", parse(pattern))
    for occurrence in events:
        detector.feed(occurrence)
    return detector


def shown(composites: Iterable[Composite]) -> list[object]:
    """What is compared."""
    return [
        (each.end, each.partial, [(step, taken.notification.id) for step, taken in each.constituents])
        for each in composites
    ]


# -- what is held ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "condition",
    [
        *("sum(a.x) > 5000", "count(a) > 5", "first(a.x) < 7", "max(a.x) - 1 > 5", "avg(a.x) >= 90"),
        *("B.x > sum(a.x)", "B.x > avg(a.x)", "B.x = count(a)", "B.x < first(a.x)", "last(a.x) > first(a.x)"),
    ],
)
def test_a_condition_over_a_repetition_multiplies_nothing_out(condition: str) -> None:
    detector = fed(f"1 or more A as a followed by B, {condition}", stream("A" * 100, range(100)))
    detector.advance(END)
    assert detector.nodes == 200


def test_matches_that_answer_differently_are_not_written_out() -> None:
    types, values = "A" * 50 + "B" * 50, [*range(50), *range(50)]
    pattern = "1 or more A as a followed by B followed by C, B.x > 2 * sum(a.x) + 5"
    detector = fed(pattern, stream(types, values))
    detector.advance(END)
    assert detector.nodes < 500  # there are 1,275 sums


def test_sums_over_a_choice_take_no_more_than_the_events() -> None:
    events = stream("A" * 60 + "B", [*(2**at for at in range(60)), 0])
    pattern = "1 or more (A or [x > 0] as z) followed by B, sum(A.x) < sum(z.x), taking all matches, limit 3"
    detector = fed(pattern, events)
    assert detector.advance(60) == []
    assert detector.nodes <= 60 * 6
    found = [[step for step, _ in each.composite.constituents] for each in detector.advance(END)]
    # Where there is no z, nothing is asked; the last one alone outweighs all the others.
    assert sorted(found) == sorted([["A"] * (60 - last) + ["z"] * last + ["B"] for last in range(3)])
    assert detector.given_up == 0


def test_a_repetition_holds_what_its_window_holds() -> None:
    detector = Detector(Brute())
    detector.add("p", parse("1 or more A followed by B within 100 us"))
    held = []
    for start in range(0, 5_000, 500):
        given = [
            Notification.of({"type": "A", "time": start + at, "id": f"{start + at}"}) for at in range(500)
        ]
        for occurrence in occurrences(given):
            detector.feed(occurrence)
        detector.advance(start + 500)
        held.append(detector.nodes)
    assert max(held) < 1_000


# -- what is found -----------------------------------------------------------------------------------------


def test_a_search_that_leads_nowhere_is_given_up_and_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pattern = "1 or more A as a followed by B, sum(a.x) = 7, count(a) = 3"
    events = stream("A" * 30 + "B", [2] * 31)
    detector = fed(pattern, events)
    assert (detector.advance(END), detector.given_up) == ([], 0)
    monkeypatch.setattr(searching, "FAILURES_MAX", 3)
    detector = fed(pattern, events)
    assert (detector.advance(END), detector.given_up) == ([], 1)
    assert [each.levelname for each in caplog.records] == ["WARNING"]


_COMPARATORS = (Op.LT, Op.LE, Op.GT, Op.GE, Op.EQ, Op.NE)
_NODES = (("atom", "either"), ("atom", "either", "concat", "sequence"), ("atom", "both", "timing", "within"))


def conditions(names: list[str]) -> st.SearchStrategy[Condition]:
    """Conditions about aggregates, mostly."""
    step, attribute = st.sampled_from(names), st.sampled_from("xxy")
    others = st.sampled_from([None, *(each for each in Aggregate if each is not Aggregate.COUNT)])
    references = st.one_of(
        st.builds(lambda step: Reference(step, None, Aggregate.COUNT), step),
        st.builds(Reference, step, attribute, others),
    )
    operands = st.one_of(
        references.map(Operand),
        st.builds(Operand, references, st.sampled_from((1, 2, -1, 0)), st.sampled_from((0, 1, -2))),
    )
    right = st.one_of(operands, st.sampled_from((0, 1, 2, 3, 5, "a")))
    return st.builds(Condition, operands, st.sampled_from(_COMPARATORS), right)


@st.composite
def summing(draw: st.DrawFn) -> Pattern:
    """A repetition, perhaps with something before and behind it, and conditions about what it took."""
    inner = draw(parts(steps=draw(st.integers(1, 3)), depth=2, nodes=draw(st.sampled_from(_NODES))))
    if can_be_empty(inner):
        inner = Atom("A", filter_of('type = "A"'))
    body: Iterate | Sequence | Concat | Within = Iterate(inner, draw(st.integers(1, 2)), None)
    for name in ("e1", "e2")[: draw(st.integers(0, 2))]:
        atom = Atom(name, filter_of(draw(st.sampled_from(('type = "B"', 'type = "C"', "true")))))
        join = draw(st.sampled_from((Sequence, Concat)))
        body = join(atom, body) if draw(st.integers(0, 3)) == 0 else join(body, atom)
    windowed = draw(st.booleans())
    if windowed:
        body = Within(body, draw(st.integers(3, 25)))
    names = [atom.step for atom in atoms(body)]
    return Pattern(
        body,
        conditions=tuple(draw(st.lists(conditions(names), min_size=1, max_size=3))),
        take=draw(st.sampled_from(list(Take))),
        partial=windowed and draw(st.booleans()),
    )


@given(summing(), streams(max_size=8, types=("A", "A", "B", "C")))
@settings(max_examples=120)
def test_what_is_found_of_aggregates_is_what_the_definition_says(
    pattern: Pattern, given: list[Notification]
) -> None:
    events = occurrences(given)
    detector = Detector(Brute())
    detector.add("p", pattern)
    for occurrence in events:
        detector.feed(occurrence)
    found = [each.composite for each in detector.advance(END)]
    assert shown(found) == shown(detect(pattern, events)), str(pattern)
