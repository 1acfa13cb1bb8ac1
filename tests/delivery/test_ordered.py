"""Ordered delivery: any arrival within the lateness gives one sequence; what is late is seen, not lost."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.delivery import Arrival, OrderedQueue, Watermark
from fairlead.model import ABSENT, Notification
from fairlead.model.order import BEGINNING, END, copy_rank, event_time, order_keys

LATENESS = 4


def note(**fields: Any) -> Notification:
    return Notification.of(fields)


@st.composite
def streams(draw: st.DrawFn) -> list[Notification]:
    """Two producers' notifications in the order of their times; one producer counts."""
    times = sorted(draw(st.lists(st.integers(0, 12), max_size=10)))
    made = []
    for number, time in enumerate(times):
        fields: dict[str, Any] = {"id": str(number), "time": time, "producer": draw(st.sampled_from("pq"))}
        if fields["producer"] == "p":
            fields["sequence"] = number
        if number and draw(st.booleans()):
            cause = made[draw(st.integers(0, number - 1))]
            fields["cause"] = f"{cause.producer}/{cause.id}"
        made.append(note(**fields))
    return made


def disordered(stream: list[Notification], random: Random) -> list[Notification]:
    """The stream with each notification delayed by at most the lateness."""
    return sorted(
        stream, key=lambda one: (one.time.microseconds if one.time else 0) + random.uniform(0, LATENESS)
    )


@given(streams(), st.randoms(use_true_random=False))
def test_disorder_within_the_lateness_and_any_batches_give_the_same_sequence(
    stream: list[Notification], random: Random
) -> None:
    queue = OrderedQueue(LATENESS)
    released = []
    for one in disordered(stream, random):
        assert queue.add(one) is Arrival.HELD
        if random.random() < 0.5:
            released += queue.release()
    queue.close()
    released += queue.release()
    expected = sorted(zip(order_keys(stream), stream, strict=True), key=lambda each: each[0].rank)
    assert released == expected
    assert queue.counts == {"held": len(stream), "late": 0, "duplicate": 0, "conflict": 0}


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["a", "b"])), max_size=12))
def test_every_arrival_is_released_late_or_a_duplicate(arrivals: list[tuple[int, str]]) -> None:
    queue = OrderedQueue(1)
    released, late = [], []
    for number, (time, source) in enumerate(arrivals):
        queue.add(note(id=str(number % 7), producer=source, time=time), source)
        released += queue.release()
        late += queue.take_late()
    queue.close()
    released += queue.release()
    keys = [key for key, _ in released]
    assert keys == sorted(keys)
    assert queue.counts["held"] == len(released)
    assert queue.counts["late"] == len(late)
    assert sum(queue.counts.values()) == len(arrivals)
    assert len(queue) == 0


def test_what_the_watermark_has_not_passed_is_held() -> None:
    queue = OrderedQueue(lateness_us=5)
    queue.add(note(id="a", time=10))
    assert queue.release() == []
    queue.add(note(id="b", time=15))
    assert queue.release() == []
    queue.add(note(id="c", time=16))
    assert [key.id for key, _ in queue.release()] == ["a"]
    assert queue.watermark == 11


def test_within_a_batch_nothing_is_late_because_of_its_neighbours() -> None:
    queue = OrderedQueue()
    assert queue.add(note(id="a", time=100)) is Arrival.HELD
    assert queue.add(note(id="b", time=1)) is Arrival.HELD
    assert [key.id for key, _ in queue.release()] == ["b"]
    assert queue.add(note(id="c", time=2)) is Arrival.LATE
    [late] = queue.take_late()
    assert (late.notification.id, late.watermark) == ("c", 100)
    assert queue.take_late() == []


def test_records_without_ids_get_them_and_duplicates_are_dropped() -> None:
    queue = OrderedQueue()
    assert [queue.add(note(x=1, time=1)) for _ in range(2)] == [Arrival.HELD] * 2
    assert [queue.add(note(id="a", time=1)) for _ in range(2)] == [Arrival.HELD, Arrival.DUPLICATE]
    queue.close()
    assert len({key.identity for key, _ in queue.release()}) == 3
    assert queue.add(note(id="b", time=1)) is Arrival.LATE


def test_a_duplicate_of_one_that_is_held_beyond_its_own_time_is_known() -> None:
    queue = OrderedQueue(sources=("", "other"))
    queue.add(note(id="cause", time=50))
    queue.add(note(id="effect", time=1, cause="cause"))
    queue.add(note(id="other", time=20), "other")
    assert queue.release() == []
    assert queue.add(note(id="effect", time=1, cause="cause")) is Arrival.DUPLICATE


# -- the watermark -----------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 50), st.sampled_from(["a", "b"]))),
    st.integers(0, 5),
)
def test_the_watermark_is_the_least_of_the_newest_less_the_lateness_and_never_goes_back(
    observed: list[tuple[int, str]], lateness: int
) -> None:
    watermark = Watermark(lateness, ("a", "b"))
    newest = {"a": BEGINNING, "b": BEGINNING}
    for time, source in observed:
        before = watermark.value
        watermark.observe(time, source)
        newest[source] = max(newest[source], time)
        assert watermark.value >= before
        assert watermark.value == max(BEGINNING, min(newest.values()) - lateness)


def test_a_silent_source_holds_the_watermark_until_it_is_closed() -> None:
    watermark = Watermark(sources=("a", "b"))
    watermark.observe(10, "a")
    assert watermark.value == BEGINNING
    watermark.close("b")
    assert watermark.value == 10
    assert watermark.sources == ("a",)
    watermark.observe(3, "c")
    assert watermark.value == 10
    watermark.close("c")
    watermark.close("a")
    assert watermark.value == END


def test_a_negative_lateness_is_refused() -> None:
    with pytest.raises(ValueError, match="not negative"):
        Watermark(-1)


def test_the_final_punctuation_ends_all_sources() -> None:
    queue = OrderedQueue(lateness_us=5, sources=("a", "b"))
    queue.add(note(id="a", time=10), "a")
    queue.close("a")
    assert queue.release() == []
    queue.close("b")
    assert [key.id for key, _ in queue.release()] == ["a"]


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.sampled_from(("x", "y")), st.booleans()),
        max_size=8,
    ),
    st.randoms(use_true_random=False),
)
def test_of_conflicting_copies_the_smallest_is_released_however_they_arrive(
    drawn: list[tuple[str, int, str, bool]], random: Random
) -> None:
    """Copies may differ in their content, in the order of their names, and in their time, within the lateness."""
    copies = [
        Notification.of({"id": id, "time": time, "v": v} if first else {"v": v, "time": time, "id": id})
        for id, time, v, first in drawn
    ]
    released = []
    for _ in range(2):
        random.shuffle(copies)
        queue = OrderedQueue(LATENESS)
        for copy in copies:
            queue.add(copy)
            if random.random() < 0.5:
                queue.release()  # nothing is due: all times lie within the lateness
        queue.close()
        released.append([(key, each.to_json()) for key, each in queue.release()])
        smallest = {id: min(copy_rank(c) for c in copies if c.id == id) for id in {c.id for c in copies}}
        assert sorted(text for _, text in released[-1]) == sorted(
            text.decode() for *_, text in smallest.values()
        )
    assert released[0] == released[1]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 60), st.integers(0, 2)), max_size=20),
    st.randoms(use_true_random=False),
)
def test_an_identity_is_released_once_and_as_its_earliest_copy_whatever_the_times_of_its_copies(
    drawn: list[tuple[str, int, int]], random: Random
) -> None:
    copies = [note(id=id, time=time, v=v) for id, time, v in drawn]
    earliest = {id: min(copy_rank(c) for c in copies if c.id == id) for id, _, _ in drawn}
    for _ in range(2):
        # Disorder within the lateness.
        copies.sort(key=lambda copy: event_time(copy) + random.uniform(0, LATENESS))
        queue, released = OrderedQueue(LATENESS), []
        for copy in copies:
            queue.add(copy)
            if random.random() < 0.5:
                released += queue.release()
        queue.close()
        released += queue.release()
        assert sorted(each.to_json().encode() for _, each in released) == sorted(
            text for *_, text in earliest.values()
        )
        assert queue.counts["late"] == 0


def test_a_copy_is_a_duplicate_for_as_long_as_identities_are_remembered() -> None:
    queue = OrderedQueue(remember_us=100)
    queue.add(note(id="a", time=10))
    queue.add(note(id="b", time=50))
    assert [key.id for key, _ in queue.release()] == ["a"]
    assert queue.add(note(id="a", time=10)) is Arrival.DUPLICATE
    assert queue.add(note(id="a", time=110)) is Arrival.DUPLICATE
    assert [key.id for key, _ in queue.release()] == ["b"]
    queue.add(note(id="c", time=111))
    assert [key.id for key, _ in queue.release()] == []
    # The watermark has passed the hundred microseconds behind the release of `a`.
    assert queue.watermark == 111
    assert queue.add(note(id="a", time=120)) is Arrival.HELD
    assert queue.add(note(id="b", time=120)) is Arrival.DUPLICATE


def test_what_was_late_is_remembered_too() -> None:
    queue = OrderedQueue()
    queue.add(note(id="a", time=10))
    queue.release()
    assert queue.add(note(id="b", time=5)) is Arrival.LATE
    assert queue.add(note(id="b", time=5, v=1)) is Arrival.CONFLICT
    queue.release()
    assert queue.add(note(id="b", time=50)) is Arrival.DUPLICATE


def test_an_equal_record_without_an_id_that_comes_too_late_is_late() -> None:
    queue = OrderedQueue()
    queue.add(note(x=1, time=1))
    queue.add(note(id="a", time=10))
    assert len(queue.release()) == 1
    assert queue.add(note(x=1, time=1)) is Arrival.LATE


def test_a_conflict_is_told_from_a_duplicate() -> None:
    queue = OrderedQueue(LATENESS)
    for expected, fields in (
        (Arrival.HELD, {"id": "1", "v": 2, "tags": [1, 2]}),
        (Arrival.DUPLICATE, {"id": "1", "tags": [2, 1], "v": 2.0}),
        (Arrival.CONFLICT, {"id": "1", "v": 1}),
        (Arrival.CONFLICT, {"id": "1", "v": 3}),
    ):
        assert queue.add(Notification.of(fields)) is expected
    assert queue.counts == {"held": 1, "late": 0, "duplicate": 1, "conflict": 2}
    queue.close()
    [(_, released)] = queue.release()
    assert released.get("tags") is not ABSENT  # {"id":…,"tags":…} comes before {"id":…,"v":…}


@given(
    st.lists(st.tuples(st.integers(0, 50), st.sampled_from(["a", "b", "c"]))),
    st.integers(0, 5),
    st.integers(0, 20),
)
def test_a_source_that_may_be_idle_holds_the_watermark_no_further_behind_the_newest_event(
    observed: list[tuple[int, str]], lateness: int, idle: int
) -> None:
    watermark = Watermark(lateness, ("a", "b", "c"), {"b": idle})
    newest = dict.fromkeys("abc", BEGINNING)
    value = BEGINNING
    for time, source in observed:
        watermark.observe(time, source)
        newest[source] = max(newest[source], time)
        behind = min(newest["a"], newest["c"], max(newest["b"], max(newest.values()) - idle))
        value = max(value, behind - lateness)
        assert watermark.value == value
