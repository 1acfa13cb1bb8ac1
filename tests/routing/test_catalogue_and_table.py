"""The catalogue relates filters as the algebra does, and the table's sets are those of the definitions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.filters import covers, identical, overlaps, parse
from fairlead.matching import engine_named
from fairlead.model import Notification
from fairlead.routing import Catalogue, Entry, Interest, RoutingTable
from fairlead.routing import catalogue as module
from fairlead.routing.catalogue import IDLE_MAX, TIDIED_AT_ONCE

FILTERS = [
    parse(text)
    for text in (
        *(
            'topic = "a"',
            'topic in {"a", "b"}',
            "price > 3",
            "price >= 4",
            "price in [4, 8]",
            "price in [5, 6]",
        ),
        *('topic = "a" and price > 3', 'topic = "b" and price in [4, 8]', "price <= 8 and price >= 4"),
        *("exists topic", 'not topic = "a"', 'topic = "a" or price < 2'),
    )
]
NOTIFICATIONS = [
    Notification.of({"topic": topic, "price": price}) for topic in ("a", "b", "c") for price in range(10)
]
DESTINATIONS = ("B1", "B2", "B3", "ada", "bob")
NEIGHBOURS = DESTINATIONS[:3]


def catalogue() -> Catalogue:
    return Catalogue(engine_named("brute"))


@st.composite
def tables(draw: st.DrawFn) -> RoutingTable:
    table = RoutingTable(catalogue())
    for neighbour in NEIGHBOURS:
        table.add_neighbour(neighbour)
    entries = st.tuples(
        st.sampled_from(FILTERS), st.sampled_from(DESTINATIONS), st.sampled_from(("", "x", "y"))
    )
    for filter, destination, owner in draw(st.lists(entries, max_size=14)):
        table.add(Interest(filter, owner), destination)
    for filter, destination, owner in draw(st.lists(entries, max_size=5)):
        table.remove(Interest(filter, owner), destination)
    return table


def test_filters_relate_in_the_catalogue_as_in_the_algebra() -> None:
    known = catalogue()
    numbers = [known.retain(Interest(filter)) for filter in FILTERS]
    for one, number in zip(FILTERS, numbers, strict=True):
        assert known.covering(number) == {n for f, n in zip(FILTERS, numbers, strict=True) if covers(f, one)}
        assert known.covered_by(number) == {
            n for f, n in zip(FILTERS, numbers, strict=True) if covers(one, f)
        }
        assert known.identical(number) == {
            n for f, n in zip(FILTERS, numbers, strict=True) if identical(one, f)
        }
        for other, another in zip(FILTERS, numbers, strict=True):
            assert known.overlaps(number, another) == overlaps(one, other)
    for notification in NOTIFICATIONS:
        assert known.matching(notification) == {
            n for f, n in zip(FILTERS, numbers, strict=True) if f.matches(notification)
        }


def test_nested_filters_take_memory_with_their_number_and_not_with_its_square() -> None:
    known = catalogue()
    interests = [Interest(parse(f"price > {n}")) for n in range(300)]
    numbers = [known.retain(interest) for interest in interests]
    assert known.covering(numbers[200]) == {*numbers[:201]}
    assert known.covered_by(numbers[200]) == {*numbers[200:]}
    half = {*numbers[::2]}
    assert known.covering(numbers[201], half) == {*numbers[:201:2]}
    assert known.covered_by(numbers[201], half) == {*numbers[202::2]}
    assert known.covering(numbers[5], half) == {*numbers[:5:2]}
    assert {*known.each_covering(numbers[201], half)} == {*numbers[:201:2]}
    assert known.widest(half) == [numbers[0]]
    assert [known.depth(interest) for interest in interests] == [*range(1, 301)]
    assert sum(map(known.relations, interests)) == 0


def test_filters_that_nobody_holds_are_forgotten_once_there_are_many() -> None:
    known = catalogue()
    kept = Interest(parse("x > 0"))
    known.retain(kept)
    for number in range(IDLE_MAX + 10):
        interest = Interest(parse(f"x = {number}"))
        known.covering(known.retain(interest))
        known.release(interest)
    assert len(known) == IDLE_MAX + 11
    known.tidy()
    assert (
        len(known) == IDLE_MAX + 11 - TIDIED_AT_ONCE
    )  # the others next time: brokers do other things in between
    known.tidy()
    assert len(known) == IDLE_MAX + 11 - TIDIED_AT_ONCE  # there are not many any longer
    assert known.number(kept) in known.covered_by(known.number(kept))
    again = known.retain(Interest(parse("x = 5")))
    assert known.covering(again) == {again, known.number(kept)}
    assert known.matching(Notification.of({"x": 5})) == {again, known.number(kept)}


def test_the_matches_that_are_remembered_are_bounded_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MATCHES_MAX", 100)
    known = catalogue()
    numbers = [known.retain(Interest(parse(f"x > {n}"))) for n in range(40)]
    notifications = [Notification.of({"x": x}) for x in (0, 50, 20, 50, 30, 60)]
    for _ in range(2):
        for notification in notifications:
            assert known.matching(notification) == {*numbers[: int(notification.get("x"))]}
            kept = [found for _, found in known._matched.values()]
            assert sum(map(len, kept)) == known._matches <= 100
            assert known.matching(notification) is kept[-1]


def test_a_catalogue_that_keeps_forgets_nothing() -> None:
    known = Catalogue(engine_named("brute"), keep=True)
    for number in range(2 * IDLE_MAX):
        known.number(Interest(parse(f"x = {number}")))
        known.tidy()
    assert len(known) == 2 * IDLE_MAX


@given(tables(), st.sampled_from(FILTERS), st.sampled_from(DESTINATIONS))
def test_the_sets_of_a_table_are_those_of_the_book(table: RoutingTable, filter: object, place: str) -> None:
    interest = Interest(filter)  # type: ignore[arg-type]
    entries: list[Entry] = list(table)
    f = interest.filter
    assert len(table) == len(entries)
    assert set(table.of(place)) == {i for i, d in entries if d == place}
    assert set(table.but(place)) == {i for i, d in entries if d != place}
    assert set(table.identical(interest, place)) == {
        i for i, d in entries if d == place and identical(i.filter, f)
    }
    assert set(table.covered(interest)) == {(i, d) for i, d in entries if covers(f, i.filter)}
    assert set(table.covered_at(interest, place)) == {
        i for i, d in entries if d == place and covers(f, i.filter)
    }
    assert set(table.properly_covered(interest)) == {
        (i, d) for i, d in entries if covers(f, i.filter) and not covers(i.filter, f)
    }
    assert table.asking(interest) == {d for i, d in entries if identical(i.filter, f)}
    assert table.holding(interest) == {d for i, d in entries if i == interest}

    def free_of(test: object) -> set[str]:
        return {h for h in NEIGHBOURS if not any(d != h and test(i.filter) for i, d in entries)}  # type: ignore[operator]

    assert set(table.without_identical(interest)) == free_of(lambda g: identical(g, f))
    assert set(table.without_cover(interest)) == free_of(lambda g: covers(g, f))
    assert set(table.without_proper_cover(interest)) == free_of(lambda g: covers(g, f) and not covers(f, g))
    for notification in NOTIFICATIONS[::7]:
        assert set(table.destinations(notification)) == {
            d for i, d in entries if i.filter.matches(notification)
        }


@settings(max_examples=20)
@given(tables())
def test_who_is_below_in_a_hierarchy_is_never_told(table: RoutingTable) -> None:
    table.add_neighbour("B2", deaf=True)
    for filter in FILTERS:
        assert "B2" not in table.without_cover(Interest(filter))
        assert "B2" not in table.without_identical(Interest(filter))


def test_an_interest_is_its_filter_and_its_owner() -> None:
    one, same, other = (Interest(parse(text), "ada") for text in ("x > 1", "x>1", "x > 2"))
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert one != Interest(parse("x > 1"), "bob")
    assert one != "x > 1"
    assert str(one) == "x > 1 of ada"
    assert len({one, same, other}) == 2


@pytest.mark.parametrize("name", ["identity", "covering"])
def test_pruning_leaves_what_serves_all(name: str) -> None:
    from fairlead.routing import Covering, Identity

    strategy = Identity() if name == "identity" else Covering()
    table = RoutingTable(catalogue())
    interests = [Interest(filter) for filter in FILTERS]
    left = strategy.prune(table, interests)
    relates = identical if name == "identity" else covers
    for interest in interests:
        assert any(relates(each.filter, interest.filter) for each in left)
    for one in left:
        assert not any(relates(other.filter, one.filter) for other in left if other is not one)
