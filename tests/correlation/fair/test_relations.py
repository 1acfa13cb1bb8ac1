"""A relation is a composite event: it has an interval and constituents, and an id made of what it is."""

from __future__ import annotations

from hypothesis import given, settings

from fairlead.correlation.fair import Choice, Matcher, Subscription, parse
from fairlead.correlation.queries import Query, QuerySet
from fairlead.matching.brute import Brute
from fairlead.model import Instant, Notification
from fairlead.model.order import END, order_keys
from fairlead_lab.testing.fair import events, fed, subscriptions


def event(type: str, time: int | None, **attributes: object) -> Notification:
    said = {} if time is None else {"time": Instant(time)}
    return Notification.of({"type": type, "id": f"{type}{time}", "producer": "p", **said, **attributes})


def test_its_interval_is_from_the_first_start_to_the_last_time_of_what_it_is_made_of() -> None:
    long = event("A", 9, interval={"start": Instant(2), "end": Instant(9)})
    [(_, relation)] = fed(Matcher(parse("A and B and C")), [event("B", 12), event("C", None), long])
    assert relation.interval == (Instant(2), Instant(12))
    told = relation.notification()
    assert (told.time, told.producer, told.get("type")) == (Instant(12), "fair", "relation")
    assert dict(told.get("interval")) == {"start": Instant(2), "end": Instant(12)}
    assert [dict(each) for each in told.get("constituents")] == [
        {"step": "A[1]", "producer": "p", "id": "A9", "time": Instant(9)},
        {"step": "B[1]", "producer": "p", "id": "B12", "time": Instant(12)},
        {"step": "C[1]", "producer": "p", "id": "CNone"},
    ]


def test_with_a_name_it_is_another_one_of_that_type() -> None:
    stream = [event("A", 1), event("B", 2)]
    relations = [fed(Matcher(parse(f"{name}A and B")), stream)[0][1] for name in ("", "one: ", "other: ")]
    assert [each.name for each in relations] == ["relation", "one", "other"]
    assert [each.notification().get("type") for each in relations] == ["relation", "one", "other"]
    assert len({each.id for each in relations}) == 3
    assert {each.called("one") for each in relations} == {relations[1]}


def test_where_nobody_says_when_it_happened_neither_does_the_relation() -> None:
    [(_, relation)] = fed(Matcher(parse("A")), [event("A", None)])
    assert relation.interval is None
    assert relation.notification().time is None


@settings(max_examples=40)
@given(first=subscriptions(), second=subscriptions(), stream=events())
def test_the_order_of_answers_is_the_same_in_whatever_order_the_questions_came(
    first: Subscription, second: Subscription, stream: list[Notification]
) -> None:
    numbered = [Notification.of({**dict(each.attributes), "id": f"{n}"}) for n, each in enumerate(stream)]
    order = sorted(zip(order_keys(numbered), numbered, strict=True), key=lambda each: each[0].rank)
    questions = {
        "one": Query(first),
        "other": Query(second),
        "recent": Query(first, Choice.MOST_RECENT),
    }

    def answered(*ids: str) -> list[object]:
        standing = QuerySet(Brute)
        for id in ids:
            standing.add(id, questions[id])
        return list(standing.results(order, END))

    assert answered("one", "other", "recent") == answered("recent", "other", "one")
