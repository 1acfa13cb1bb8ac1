"""What atoms ask: the engine's answer, whether it was asked or the answer was known."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairlead.correlation.patterns.evaluation import FilterEvaluation
from fairlead.filters import Filter
from fairlead.filters import parse as filter_of
from fairlead.matching.brute import Brute
from fairlead.model import Notification

ABOUT_TYPES = (
    'type = "A"',
    'type != "A"',
    'type in {"A", "B"}',
    "type >= 1",
    "type = true",
    "not exists type",
)
OTHERS = ('x = "A"', 'type = "A" and x = "B"', "x.y = 1", "true", "length(type) = 1")
values: st.SearchStrategy[Any] = st.sampled_from(("A", "B", "C", "", 1, 1.0, True, None))


def notifications() -> st.SearchStrategy[list[Notification]]:
    fields = st.dictionaries(st.sampled_from(("type", "x")), values, max_size=2)
    return st.lists(fields.map(Notification.of), max_size=6)


class Counted(Brute[int]):
    """An engine that counts what it is asked."""

    asked = 0

    def match_batch(self, notifications: Any) -> list[list[int]]:
        given = list(notifications)
        self.asked += len(given)
        return super().match_batch(given)


@given(
    st.lists(st.sampled_from(ABOUT_TYPES), min_size=1, max_size=3),
    st.lists(st.sampled_from(OTHERS), max_size=1),
    st.lists(notifications(), max_size=3),
)
def test_what_is_matched_is_what_the_filters_say(
    about_types: list[str], others: list[str], batches: list[list[Notification]]
) -> None:
    evaluation = FilterEvaluation(Brute())
    filters: dict[int, Filter] = {}
    for text in about_types:
        filters[evaluation.add(filter_of(text))] = filter_of(text)
    for number, batch in enumerate(batches):
        if number == 1:  # what was known before holds no longer
            for text in others:
                filters[evaluation.add(filter_of(text))] = filter_of(text)
        for notification, found in zip(batch, evaluation.matched(batch), strict=True):
            wanted = [each for each, filter in filters.items() if filter.matches(notification)]
            assert sorted(found) == sorted(wanted)


def test_filters_of_types_are_asked_once_for_each_type() -> None:
    engine = Counted()
    evaluation = FilterEvaluation(engine)
    first, second = evaluation.add(filter_of('type = "A"')), evaluation.add(filter_of('type = "B"'))
    stream = [Notification.of({"type": type, "x": x}) for x, type in enumerate("ABCABC")]
    assert evaluation.matched(stream) == [(first,), (second,), ()] * 2
    assert evaluation.matched(stream) == [(first,), (second,), ()] * 2
    assert engine.asked == 3
    evaluation.add(filter_of("x > 1"))
    evaluation.matched(stream)
    assert engine.asked == 9


def test_a_filter_is_forgotten_when_nobody_asks_it_any_more() -> None:
    evaluation = FilterEvaluation(Brute())
    filter, event = filter_of('type = "A"'), [Notification.of({"type": "A"})]
    number = evaluation.add(filter)
    assert evaluation.add(filter) == number
    evaluation.remove(filter)
    assert evaluation.matched(event) == [(number,)]
    evaluation.remove(filter)
    assert evaluation.matched(event) == [()]
