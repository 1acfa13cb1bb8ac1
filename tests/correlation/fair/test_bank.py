"""Components in a bank match what they match by themselves."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.correlation.fair import Choice, Correlator, Subscription, bank, matcher, parse
from fairlead.model import Instant, Notification
from fairlead_lab.testing.fair import conjunctions, event, events, subscriptions

CHOICES = st.sampled_from(Choice)
VALUES = st.one_of(
    st.integers(0, 5),
    st.sampled_from([0.5, 2.0, 1 << 60, (1 << 60) + 1, Decimal("0.1"), "a", "b", None, True, float("nan")]),
    st.integers(0, 3).map(Instant),
)


def drawn_events(types: str, most: int) -> st.SearchStrategy[list[Notification]]:
    """Events of which some have values that arrays cannot hold."""
    contents = st.tuples(st.sampled_from(types), VALUES, VALUES)
    return st.lists(contents, max_size=most).map(
        lambda drawn: [event(type, x=x, y=y, id=str(n)) for n, (type, x, y) in enumerate(drawn)]
    )


def pair() -> tuple[Correlator[int], Correlator[int]]:
    """A correlator whose components go into a bank at once, and one that has none."""
    return Correlator(worth=-1), Correlator(worth=matcher.NEVER)


@given(
    st.lists(st.builds(lambda one: Subscription.of([one]), conjunctions("ABCD", 1)), min_size=1, max_size=4),
    drawn_events("ABCD", 40),
    CHOICES,
    st.integers(1, 6),
)
def test_a_member_of_a_bank_matches_what_a_component_matches_and_holds_the_same(
    some: list[Subscription], given_events: list[Notification], choice: Choice, long: int
) -> None:
    quick, slow = pair()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bank, "LONG", 4 * long)  # so that some leave
        patch.setattr(bank, "LONG_IN_PAIRS", long)
        for number, each in enumerate(some):
            quick.add(number, each, choice)
            slow.add(number, each, choice)
        for each in given_events:
            assert quick.feed(each) == slow.feed(each)
        for number in range(len(some)):
            assert quick.snapshot(number) == slow.snapshot(number)


@given(st.lists(subscriptions("ABC"), min_size=1, max_size=3), st.data(), events("ABC", max_size=24), CHOICES)
def test_who_comes_and_goes_changes_nothing_of_what_a_bank_finds(
    some: list[Subscription], data: st.DataObject, given_events: list[Notification], choice: Choice
) -> None:
    quick, slow = pair()
    there: list[int] = []
    for number, each in enumerate(given_events):
        if data.draw(st.integers(0, 2)) == 0:
            of = data.draw(st.sampled_from([None, *there]))
            subscription = data.draw(st.sampled_from(some)) if of is None else slow.snapshot(of).subscription
            state = None if of is None else slow.snapshot(of)
            for correlator in (quick, slow):
                correlator.add(number, subscription, choice, state=state)
            there.append(number)
        if there and data.draw(st.integers(0, 4)) == 0:
            gone = there.pop(data.draw(st.integers(0, len(there) - 1)))
            quick.remove(gone)
            slow.remove(gone)
        assert quick.feed(each) == slow.feed(each)
        assert quick.components == slow.components
        assert all(quick.snapshot(number) == slow.snapshot(number) for number in there)
    for number in there:
        quick.remove(number)
    assert quick.components == 0


def test_a_long_stream_of_numbers_is_matched_in_the_bank_alone() -> None:
    random = Random(3)
    texts = [
        "A.x < B.y and B.x > C.x and C.y < D.x",
        "A.x < B.x",
        "B.y >= C.x and C.x < D.y",
        "C.x != D.x",
        "A.name = B.name",
        "A.x < 3 and D",
    ]
    quick, slow = pair()
    for number, text in enumerate(texts):
        for correlator in (quick, slow):
            correlator.add(number, parse(text), list(Choice)[number % 2])
    found = 0
    for number in range(3_000):
        content: dict[str, Any] = {name: random.randrange(100) for name in "xy"}
        each = event(random.choice("ABCD"), **content, name=f"n{random.randrange(4)}", id=str(number))
        related = quick.feed(each)
        assert related == slow.feed(each)
        found += len(related)
    assert found > 1_000
    assert quick._bank is not None
    assert len(quick._members) == quick.components, "none had to leave"


def test_strings_that_nobody_holds_any_more_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bank, "TEXTS_SPARE", 4)
    quick, slow = pair()
    for correlator in (quick, slow):
        correlator.add(0, parse("A.name = B.name"))
    for number in range(200):
        for type, name in (("A", f"n{number}"), ("B", f"n{max(0, number - 3)}")):
            each = event(type, name=name, id=f"{type}{number}")
            assert quick.feed(each) == slow.feed(each)
    assert quick._bank is not None
    assert len(quick._bank._texts) < 50
