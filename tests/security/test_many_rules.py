"""A principal with many grants is decided about as one with few: by those that can concern the request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairlead.filters import NOTHING, And, Constraint, Filter, Not, Op, Or, covers, overlaps, parse
from fairlead.filters.terms import Attribute
from fairlead.model import Notification
from fairlead.security import AccessPolicy, Principal, candidates, rights
from fairlead.security.candidates import Candidates, plainly_covers

LEAVES = (
    *(
        'kind = "a"',
        'kind = "b"',
        'kind in {"a", "c"}',
        'kind in {"b", 1}',
        'kind in {"c", 1}',
        'not kind = "a"',
    ),
    *('place = "a"', 'place in {"b"}', "x > 1", "x < 1", "exists kind", "true"),
    *("x >= 1", "x <= 1", "x > 2", "x = 1", "x = 1.5", "x = true", 'x > "a"', "exists x"),
)
filters = st.recursive(
    st.sampled_from(LEAVES).map(parse),
    lambda some: st.one_of(
        st.lists(some, min_size=2, max_size=3).map(And.of),
        st.lists(some, min_size=2, max_size=3).map(Or.of),
        some.map(Not),
    ),
    max_leaves=4,
)
questions = st.tuples(st.lists(filters, max_size=5), filters)
Question = tuple[list[Filter], Filter]


def misses(question: Question, label: str | None = "desk") -> bool:
    """Whether the index leaves out a filter that overlaps the request, or what it joins is more than what there
    is."""
    some, request = question
    found = Candidates((label, each) for each in some).of(request)
    return any(
        overlaps(each, request) and not any(covers(one, each) for _, one in found) for each in some
    ) or not all(covers(Or.of(some), each) for _, each in found)


@given(questions, st.sampled_from(["desk", None]))
def test_every_filter_that_overlaps_a_request_is_a_candidate(question: Question, label: str | None) -> None:
    assert not misses(question, label)


@given(filters, filters)
@example(parse('room = "lab"'), NOTHING)
@example(NOTHING, parse('room = "lab"'))
def test_what_plainly_covers_covers(limit: Filter, request: Filter) -> None:
    assert not plainly_covers(limit, request, texts_of(request)) or covers(limit, request)


def test_what_is_of_another_label_or_depends_on_predicates_is_not_joined() -> None:
    some = [
        ("a", 'x = "1"'),
        ("b", 'x = "2"'),
        ("a", 'x = "3"'),
        (None, 'x = "4"'),
        ("a", 'x = "5" and y > 1'),
    ]
    found = Candidates((label, parse(text)) for label, text in some).of(parse("y > 0"))
    assert [(number, str(each)) for number, each in found] == [
        *((0, 'x in {"1", "3"}'), (1, 'x in {"2"}'), (3, 'x = "4"'), (4, 'x = "5" and y > 1')),
    ]


def test_of_ten_thousand_rules_one_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Filter] = []
    covers: Any = rights.covers
    monkeypatch.setattr(rights, "covers", lambda *each: (asked.append(each[0]), covers(*each))[1])
    symbols = [f'symbol = "S{each}"' for each in range(10_000)]
    policy = AccessPolicy.of({"roles": {"desk": {"members": ["ada"], "subscribe": symbols}}})
    ada = policy.rights(Principal("ada"))
    assert ada.may("subscribe", parse('symbol = "S77" and price > 1')).outcome == "granted"
    assert asked == []
    assert ada.may("subscribe", parse('symbol = "S77" or symbol = "S78" and price > 1')).outcome == "granted"
    assert asked == [
        parse('symbol = "S77"'),
        parse('symbol = "S78"'),
        parse('symbol = "S77" or symbol = "S78"'),
    ]
    narrowed = ada.may("subscribe", parse('symbol in {"S8", "S9", "T"}'))
    assert narrowed.granted == parse('symbol in {"S8", "S9"}')
    assert ada.may("subscribe", parse('symbol = "T"')).is_refused
    asked.clear()
    every = ada.may("subscribe", parse("price > 1"))
    assert len(asked) <= 2
    assert (every.outcome, every.roles) == ("narrowed", ("desk",))
    assert every.granted is not None
    assert every.granted.matches(Notification.of({"symbol": "S9999", "price": 2}))


texts_of = candidates.texts_of


def of_one_side(filter: Filter) -> Mapping[str, frozenset[str]]:
    """A disjunction is taken for its first part."""
    return of_one_side(filter.parts[0]) if isinstance(filter, Or) else texts_of(filter)


def of_the_negated(filter: Filter) -> Mapping[str, frozenset[str]]:
    """A negation is taken for what it negates."""
    return of_the_negated(filter.part) if isinstance(filter, Not) else texts_of(filter)


def of_texts_among_others(filter: Filter) -> Mapping[str, frozenset[str]]:
    """Of a set, values that are no texts are forgotten."""
    if isinstance(filter, Constraint) and filter.op is Op.IN and isinstance(filter.term, Attribute):
        return {filter.term.name: frozenset(each for each in filter.operand if isinstance(each, str))}
    return texts_of(filter)


@pytest.mark.parametrize(
    ("mutant", "limit", "request_"),
    [
        (of_one_side, 'kind = "a" or kind = "b"', 'kind = "b"'),
        (of_the_negated, 'not kind = "a"', 'kind = "b"'),
        (of_texts_among_others, 'kind in {"b", 1}', 'kind in {"c", 1}'),
    ],
)
def test_an_index_that_leaves_out_too_much_is_caught(
    mutant: Callable[[Filter], Mapping[str, frozenset[str]]],
    limit: str,
    request_: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    question = ([parse(limit)], parse(request_))
    assert not misses(question)
    monkeypatch.setattr(candidates, "texts_of", mutant)
    assert misses(question)
