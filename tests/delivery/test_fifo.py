"""Live delivery keeps each producer's order and lets producers take turns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairlead_lab.delivery.fifo import ProducerQueues

puts = st.tuples(st.sampled_from("pq"), st.none() | st.integers(0, 6))


@given(st.lists(puts | st.just("take")))
def test_each_producers_numbers_only_rise_and_nothing_is_lost(
    actions: list[tuple[str, int | None] | str],
) -> None:
    queues: ProducerQueues[tuple[int, str, int | None]] = ProducerQueues()
    taken, queued = [], 0
    for arrival, action in enumerate([*actions, *["take"] * len(actions)]):
        if isinstance(action, str):
            if (item := queues.take()) is not None:
                taken.append(item)
        else:
            queued += queues.put((arrival, *action), *action)
    assert len(queues) == 0
    assert len(taken) == queued == sum(isinstance(each, tuple) for each in actions) - queues.overtaken
    for producer in "pq":
        own = [item for item in taken if item[1] == producer]
        numbers = [number for _, _, number in own if number is not None]
        assert numbers == sorted(numbers)
        plain = [arrival for arrival, _, number in own if number is None]
        assert plain == sorted(plain)


def test_a_producer_that_sends_much_does_not_starve_another() -> None:
    queues: ProducerQueues[str] = ProducerQueues()
    for number in range(3):
        queues.put(f"p{number}", "p", number)
    queues.put("q0", "q")
    assert [queues.take() for _ in range(5)] == ["p0", "q0", "p1", "p2", None]


def test_what_a_larger_number_has_overtaken_is_refused_and_counted() -> None:
    queues: ProducerQueues[str] = ProducerQueues()
    assert queues.put("second", "p", 2)
    assert queues.put("first", "p", 1)
    assert queues.take() == "first"
    assert queues.take() == "second"
    assert not queues.put("between", "p", 1)
    assert queues.overtaken == 1
