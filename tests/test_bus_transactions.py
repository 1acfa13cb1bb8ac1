"""Transactions of a bus against the laws: all or none, adjacent, nobody notified before the commit."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead import Bus, Notification
from fairlead.bus import bus as module
from fairlead.bus.accepting import Attempt
from fairlead.bus.transacting import Transaction
from fairlead.errors import FairleadError, TransactionRefused

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("one"), st.integers(0, 9)),
        st.tuples(st.just("all"), st.lists(st.integers(0, 9), max_size=4)),
        st.tuples(st.just("abort"), st.lists(st.integers(0, 9), max_size=4)),
    ),
    max_size=8,
)


def expected(steps: list[tuple[str, Any]]) -> list[list[int]]:
    """The publications in their order, as groups; a transaction with a 9, which is not advertised, is none."""
    found = []
    for what, given_ in steps:
        members = [given_] if what == "one" else given_
        if what != "abort" and 9 not in members:
            found.append(members)
    return [each for each in found if each]


def run(steps: list[tuple[str, Any]], make: type[Bus] = Bus) -> list[str]:
    """What is wrong after these steps."""
    bus, seen, wrong = make(), list[tuple[int, Any]](), list[str]()
    bus.advertise("x < 9", producer="p")
    everything = bus.subscribe("true")
    bus.subscribe("x > 4", lambda notification: seen.append((notification.get("x"), None)))
    for what, given_ in steps:
        if what == "one":
            with contextlib.suppress(FairleadError):
                bus.publish({"x": given_, "producer": "p"})
            continue
        before = (len(everything), len(seen))
        try:
            with bus.transaction(producer="p") as transaction:
                for x in given_:
                    transaction.publish({"x": x})
                if (len(everything), len(seen)) != before:
                    wrong.append("notified before the commit")
                if what == "abort":
                    transaction.abort()
        except TransactionRefused as error:
            if 9 not in given_ or f"notification {given_.index(9)} " not in str(error):
                wrong.append(f"refused: {error}")
    deliveries = [everything.get_delivery(0) for _ in range(len(everything))]
    groups = [x for each in expected(steps) for x in each]
    if [each.notification.get("x") for each in deliveries] != groups:
        wrong.append("half a transaction, or others in between")
    if [x for x, _ in seen] != [x for x in groups if x > 4]:
        wrong.append("a subset is wrong")
    for each in deliveries:
        if each.group is not None and not 0 <= each.group.number < each.group.of:
            wrong.append(f"a number that cannot be: {each.group}")
    return wrong


@given(STEPS)
def test_a_transaction_is_published_as_a_whole_or_not_at_all(steps: list[tuple[str, Any]]) -> None:
    assert run(steps) == []


class OneByOne(Bus):
    """Publishes the members one after the other, until one is refused."""

    def _publish_group(
        self, id: str, producer: str, members: list[Notification], accepted: list[Attempt]
    ) -> bool:
        for index, each in enumerate(members):
            try:
                self.publish(each)
            except FairleadError as error:
                raise module.refused_member(index, str(error)) from None
        return True


class AtOnce(Bus):
    """Publishes members before the commit."""

    def transaction(self, **named: Any) -> Any:
        transaction = super().transaction(**named)
        bus = self

        class Hasty(type(transaction)):  # type: ignore[misc]
            __slots__ = ()

            def publish(self, event: Any) -> Notification:
                notification = super().publish(event)
                bus.publish(notification)
                return notification

        return Hasty(self, None, transaction.producer)


class Reversed(Bus):
    """Publishes the members in another order."""

    def _publish_group(
        self, id: str, producer: str, members: list[Notification], accepted: list[Attempt]
    ) -> bool:
        return super()._publish_group(id, producer, members[::-1], accepted)


@pytest.mark.parametrize(("mutant", "members"), [(OneByOne, [5, 9]), (AtOnce, [5, 6]), (Reversed, [5, 6])])
def test_a_mutant_breaks_a_law(mutant: type[Bus], members: list[int]) -> None:
    wrong: list[str] = []
    with contextlib.suppress(TransactionRefused):  # what is published twice is refused in the end
        wrong = run([("one", 1), ("all", members), ("abort", [7, 8])], mutant)
    assert wrong


def commit(bus: Bus, *events: dict[str, Any], **named: Any) -> Transaction:
    """A transaction of these, which has been committed."""
    with bus.transaction(**named) as transaction:
        for event in events:
            transaction.publish(event)
    return transaction


def test_a_refused_member_is_named_and_nothing_is_published() -> None:
    """Case 11 of the corpus."""
    bus = Bus()
    bus.advertise("x < 9", producer="p")
    got = bus.subscribe("true")
    with pytest.raises(TransactionRefused, match="notification 1 of"):
        commit(bus, *({"x": x, "id": str(x)} for x in (1, 9, 2)), producer="p")
    assert len(got) == 0
    assert bus.publish({"x": 1, "producer": "p", "id": "1"}) is not None, "its identity is remembered"


def test_each_subscriber_counts_its_own_members() -> None:
    """Case 12 of the corpus."""
    bus = Bus()
    dear, everything = bus.subscribe("price > 100"), bus.subscribe("true")
    commit(bus, {"price": 1}, {"price": 200}, id="t")
    assert dear.get_delivery(0).group == ("t", 0, 1)
    assert [everything.get_delivery(0).group for _ in range(2)] == [("t", 0, 2), ("t", 1, 2)]


def test_the_same_transaction_again_has_no_effect() -> None:
    """Case 13 of the corpus."""
    bus = Bus()
    got = bus.subscribe("true")
    for is_new in (True, False):
        transaction = bus.transaction(id="t", producer="p")
        transaction.publish({"x": 1})
        assert transaction.commit() is is_new
    assert len(got) == 1


def test_a_member_that_was_published_before_refuses_the_transaction() -> None:
    bus = Bus()
    got = bus.subscribe("true")
    bus.publish({"x": 1, "id": "a"})
    with pytest.raises(TransactionRefused, match=r"notification 1 of .* published before"):
        commit(bus, {"x": 2}, {"x": 1, "id": "a"})
    assert len(got) == 1


def test_a_condition_sees_the_members_in_their_order() -> None:
    bus = Bus()
    got = bus.subscribe("exists x", on="x changes by 1, per producer")
    commit(bus, *({"x": x} for x in (20, 20.4, 21.5, 22)))
    assert [got.get_delivery(0).group[1:] for _ in range(len(got))] == [(0, 2), (1, 2)]


def test_shared_members_take_the_members_of_a_transaction_once_each() -> None:
    bus = Bus()
    members = [bus.subscribe("exists x", subscriber="work", shared=True) for _ in range(2)]
    commit(bus, {"x": 1}, {"x": 2})
    assert [each.get_delivery(0).group[1:] for each in members] == [(0, 2), (1, 2)]


def test_an_error_in_the_block_aborts_and_what_is_over_takes_nothing() -> None:
    bus = Bus()
    got = bus.subscribe("true")
    transaction = bus.transaction()
    with contextlib.suppress(KeyError), transaction:
        transaction.publish({"x": 1})
        raise KeyError
    assert (len(got), transaction.state) == (0, "aborted")
    with pytest.raises(TransactionRefused, match="is aborted"):
        transaction.publish({"x": 1})
    with pytest.raises(TransactionRefused, match="ordered"):
        Bus(order="ordered").transaction()
