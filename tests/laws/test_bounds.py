"""However large a filter is, there is an answer or an error, and never a wrong answer.

How long an answer takes is not asserted; each of these ends within a second or so, or the suite would show.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairlead.errors import FairleadError, FilterError
from fairlead.filters import And, Filter, Not, Or, covers, merge, overlaps, parse, relate, simplify, witness
from fairlead.filters.algebra import Algebra
from fairlead.filters.normal import Conjunction
from fairlead.model import Notification

MANY = 10_000


def alternatives(names: str, op: str = "=") -> Filter:
    """`x0 = 0 or x1 = 1 or ...`: `names` says how the attributes are called."""
    return parse(" or ".join(f"{names.format(i)} {op} {i}" for i in range(MANY)))


def test_ten_thousand_alternatives_on_one_attribute_are_one_set() -> None:
    many = alternatives("x")
    assert covers(many, parse("x in {5, 9999}"))
    assert relate(many, parse("x in {5, 10000}")).name == "overlaps"
    assert relate(parse("x in [0, 10000]"), many).name == "covers"
    assert covers(many, many)
    assert simplify(many).matches(Notification.of({"x": 77}))


def test_ten_thousand_alternatives_on_as_many_attributes_are_compared_soundly() -> None:
    many, reversed_ = alternatives("x{}"), Or.of(tuple(reversed(alternatives("x{}").parts)))  # type: ignore[attr-defined]
    assert covers(many, many)
    assert covers(many, reversed_)
    assert covers(many, parse("x5 = 5"))
    assert covers(many, parse("x5 = 5 and y = 1"))
    assert not covers(parse("x5 = 5"), many)
    assert overlaps(many, parse("y = 1"))
    assert simplify(many).matches(Notification.of({"x77": 77}))


def test_ten_thousand_conjuncts_are_one_conjunction() -> None:
    many = And.of(alternatives("x{}").parts)  # type: ignore[attr-defined]
    assert relate(parse("x5 = 5"), many).name == "covers"
    assert relate(parse("x5 = 6"), many).name == "disjoint"
    assert covers(many, And.of(tuple(reversed(many.parts))))  # type: ignore[attr-defined]
    found = witness(many)
    assert found is not None
    assert many.matches(found)


def product_of(size: int, shift: int = 0) -> Filter:
    """(a0 = 0 or b0 = 0) and (a1 = 1 or b1 = 1) and ...: two to the power of `size` conjunctions."""
    return And.of([parse(f"a{i} = {i + shift} or b{i} = {i + shift}") for i in range(size)])


@pytest.mark.parametrize("size", [3, 8, 12, 20, 200])
def test_products_that_would_blow_up_are_compared_soundly(size: int) -> None:
    many = product_of(size)
    matching = Notification.of({f"a{i}": i for i in range(size)})
    assert many.matches(matching)
    assert covers(many, many)
    assert relate(many, many).name == "identical"
    assert covers(parse("a1 = 1 or b1 = 1"), many)
    assert not covers(many, parse("a1 = 1 or b1 = 1"))
    assert overlaps(many, parse("a1 = 1"))
    assert overlaps(many, product_of(size, 1))
    assert not covers(many, Not(many))
    assert not covers(Not(many), many)
    assert simplify(many).matches(matching)
    if size != 12:  # two of these make thousands of conjunctions to join: an answer, but not at once
        merger = merge([many, product_of(size, 1)], imperfection_max=1.0)
        assert merger is None or merger.filter.matches(matching)


def test_many_conjunctions_that_nearly_cover_are_compared_soundly() -> None:
    one = Or.of([parse(f"x{i} = 1 and y{i} = 2") for i in range(1000)])
    other = Or.of([parse(f"x{i} = 1 and y{i} = 3 and z = 1") for i in range(20)])
    assert relate(one, other).name == "overlaps"
    assert covers(one, Or.of([parse(f"x{i} = 1 and y{i} = 2 and z = 1") for i in range(20)]))


def test_thousands_of_filters_merge() -> None:
    merger = merge([parse(f"x = {i} and y = 1") for i in range(3000)])
    assert merger is not None
    assert merger.perfect
    assert covers(merger.filter, parse("x = 1234 and y = 1"))
    many = [parse(f"x{i} = {i}") for i in range(1000)]
    assert merge(many) is None
    merger = merge(many, imperfection_max=1.0)
    assert merger is not None
    assert covers(merger.filter, many[7])


def test_long_words_and_many_patterns_are_compared_soundly() -> None:
    one = And.of([parse(f'x substring "{"ab" * 40}{i}"') for i in range(12)])
    other = parse(f'x substring "{"ab" * 40}3"')
    assert covers(other, one)
    assert overlaps(one, other)
    assert covers(one, one)
    merger = merge([one, parse('x suffix "b" and y = 1')], imperfection_max=1.0)
    assert merger is None or covers(merger.filter, one)


@pytest.mark.parametrize("nested", ["(" * 100_000 + "x = 1" + ")" * 100_000, "not " * 100_000 + "x = 1"])
def test_a_filter_nested_too_deeply_is_refused(nested: str) -> None:
    with pytest.raises(FairleadError):
        parse(nested)


def test_a_filter_built_too_deeply_is_refused() -> None:
    def wrapped(filter: Filter, times: int) -> Filter:
        for i in range(times):
            filter = (filter & parse(f"y = {i}")) | parse(f"z = {i}")
        return filter

    with pytest.raises(FilterError, match="levels deep"):
        wrapped(parse("x = 1"), 1000)


def test_the_deepest_filter_there_is_can_be_compared() -> None:
    deep = parse("x = 1")
    for i in range(99):
        deep = (deep | parse(f"y = {i}")) & parse("exists z")
    assert covers(deep, deep)
    assert covers(parse("exists z"), deep)
    assert simplify(deep).matches(Notification.of({"x": 1, "z": 1}))


@pytest.mark.parametrize(
    "form",
    [
        lambda n, low: f"a{n} > {low}",
        lambda n, low: f"x = {n} and y > {low}",
    ],
)
def test_alternatives_are_compared_with_those_alone_that_may_cover_them(
    form: Callable[[int, int], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[Conjunction] = []
    covers_one = Algebra.covers_one

    def counted(algebra: Algebra, one: Conjunction, given: Conjunction) -> bool:
        compared.append(one)
        return covers_one(algebra, one, given)

    wide, narrow = (parse(" or ".join(f"({form(n, low)})" for n in range(200))) for low in (1, 2))
    monkeypatch.setattr(Algebra, "covers_one", counted)
    assert covers(wide, narrow)
    assert not covers(narrow, wide)
    assert len(compared) <= 2 * 200
