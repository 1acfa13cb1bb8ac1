"""A history knows what has been handled, and forgets what is under way nowhere."""

from __future__ import annotations

from fairlead.broker.history import History
from fairlead.model.order import Identity


def id(number: int) -> Identity:
    return Identity("p", str(number))


def test_a_notification_is_new_once() -> None:
    history = History("B1")
    assert history.is_new(id(1), "B2", 5)
    history.begin(id(1), "B2", 5, "B2", ())
    assert not history.is_new(id(1), "B2", 5)


def test_who_passed_it_on_answers_when_all_have_answered() -> None:
    history = History("B1")
    assert history.begin(id(1), "B9", 5, "B2", ("B3", "B4")) is None
    assert history.answered(id(1), "B3") is None
    assert history.answered(id(1), "B4") == "B2"
    assert history.answered(id(1), "B4") is None


def test_who_passes_it_on_to_nobody_answers_at_once() -> None:
    assert History("B1").begin(id(1), "B9", 5, "B2", ()) == "B2"


def test_a_neighbour_that_has_gone_need_not_answer() -> None:
    history = History("B1")
    history.begin(id(1), "B9", 5, "B2", ("B3",))
    history.begin(id(2), "B9", 6, "B2", ("B3", "B4"))
    assert history.lost("B3") == [(id(1), "B2")]
    assert history.answered(id(2), "B4") == "B2"


def test_what_is_done_is_told_after_a_while_and_forgotten() -> None:
    history = History("B1", stamp_every=3)
    stamps = [history.stamp(10) for _ in range(4)]
    assert stamps == [10, 11, 12, 13]
    for number, stamp in enumerate(stamps):
        history.begin(id(number), "B1", stamp, None, ("B2",))
    for number in (0, 1, 3):
        assert history.news() is None
        history.answered(id(number), "B2")
    assert history.news() == 12  # the third is still under way
    assert len(history) == 2
    assert not history.is_new(id(0), "B1", 10)  # forgotten, but too old to be new


def test_others_forget_what_they_are_told_is_done() -> None:
    history = History("B2")
    for number in range(5):
        history.begin(id(number), "B1", number + 1, "B1", ())
    assert history.forget("B1", 4)
    assert not history.forget("B1", 3)
    assert len(history) == 2
    assert not history.is_new(id(0), "B1", 1)
    assert history.is_new(id(9), "B1", 9)
