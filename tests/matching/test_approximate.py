"""Approximate matching: the score is 1 iff the notification matches, else the share that holds."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given

from fairlead import testing
from fairlead.filters.filter import Filter
from fairlead.filters.language import parse
from fairlead.model import Notification
from fairlead_lab.matching.approximate import Scored, match_approximately, score

QUOTE = Notification.of({"symbol": "IBM", "price": 12, "volume": 100})


@given(testing.filters(templates=True, paths=True, extensions=True), testing.notifications(paths=True))
def test_the_score_is_1_iff_the_notification_matches(filter: Filter, notification: Notification) -> None:
    scored = score(filter, notification)
    assert 0 <= scored <= 1
    assert (scored == 1) is filter.matches(notification)


@given(testing.conjunctions(), testing.notifications())
def test_a_conjunction_scores_the_share_of_its_constraints_that_hold(
    filter: Filter, notification: Notification
) -> None:
    parts = getattr(filter, "parts", (filter,))
    held = sum(part.matches(notification) for part in parts)
    assert score(filter, notification) == (Fraction(held, len(parts)) if parts else 1)


def test_a_negation_goes_inwards_and_a_disjunction_scores_its_best_part() -> None:
    assert score(parse('not (symbol = "IBM" and price > 20)'), QUOTE) == 1
    assert score(parse('not (symbol = "IBM" or price > 20)'), QUOTE) == Fraction(1, 2)
    assert score(parse('symbol = "SAP" or price > 10 and volume > 500'), QUOTE) == Fraction(1, 2)
    assert (score(parse("true"), QUOTE), score(parse("false"), QUOTE)) == (1, 0)


def test_the_best_come_first_and_those_below_the_bound_not_at_all() -> None:
    filters = {
        "half": 'symbol = "IBM" and price > 20',
        "none": "price > 20",
        "all": 'symbol = "IBM"',
        "other half": "price > 20 or volume > 500 and price < 20",
    }
    found = match_approximately([(id, parse(text)) for id, text in filters.items()], QUOTE, score_min=0.5)
    assert found == [
        Scored("all", Fraction(1)),
        Scored("half", Fraction(1, 2)),
        Scored("other half", Fraction(1, 2)),
    ]
