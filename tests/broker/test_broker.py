"""One broker: a message in, effects out, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.broker import Broker, Settings
from fairlead.broker.messages import (
    Acknowledge,
    Admin,
    Advertise,
    Append,
    Batch,
    Climb,
    Connect,
    Deliver,
    Disconnect,
    Duplicate,
    Effect,
    Forward,
    Join,
    Leave,
    Link,
    LinkId,
    Publish,
    Refuse,
    Send,
    Subscribe,
    Synced,
    Tick,
    Unadvertise,
    Unlink,
    Unsubscribe,
    Wake,
)
from fairlead.errors import ValueRefused
from fairlead.filters import parse
from fairlead.model import Notification
from fairlead.routing import Covering, Flooding, Identity, Interest, Merging, Simple, Strategy
from fairlead_lab.simulation.checking import Checker
from fairlead_lab.simulation.network import Simulation


def broker(strategy: Strategy | None = None, **settings: Any) -> Broker:
    return Broker("B1", Settings(strategy or Covering(), **settings), ("B2", "B3"))


def interest(text: str, owner: str = "") -> Interest:
    return Interest(parse(text), owner)


def notification(id: str = "1", producer: str = "p", **attributes: Any) -> Notification:
    return replace(Notification.of(attributes), id=id, producer=producer)


def sends(effects: list[Effect]) -> dict[str, Any]:
    return {effect.to: effect.message for effect in effects if isinstance(effect, Send)}


def test_a_subscription_is_told_to_all_neighbours_and_a_match_delivered() -> None:
    one = broker()
    told = sends(one.handle(Subscribe("ada", "s1", parse("x > 1")), 0))
    assert told == {to: Admin("B1", (interest("x > 1"),)) for to in ("B2", "B3")}
    n = notification(x=2)
    assert one.handle(Forward("B2", n), 0) == [Deliver("ada", n, ("s1",))]
    assert one.handle(Forward("B2", notification(x=1)), 0) == []


def test_a_notification_is_delivered_once_with_all_ids_that_match() -> None:
    one = broker()
    one.handle(Subscribe("ada", "s2", parse("x > 1")), 0)
    one.handle(Subscribe("ada", "s1", parse("x > 0")), 0)
    [delivery] = one.handle(Publish("p", notification(x=5)), 0)
    assert delivery == Deliver("ada", notification(x=5), ("s1", "s2"))


def test_a_publication_goes_to_clients_here_and_never_back_to_a_neighbour() -> None:
    one = broker(Flooding())
    one.handle(Subscribe("ada", "s1", parse("exists x")), 0)
    n = notification(x=1)
    assert sends(one.handle(Publish("p", n), 0)) == {"B2": Forward("B1", n), "B3": Forward("B1", n)}
    assert sends(one.handle(Forward("B2", n), 0)) == {"B3": Forward("B1", n)}


def test_a_filter_under_two_ids_is_told_once_and_stays_until_both_have_ended() -> None:
    one = broker()
    one.handle(Subscribe("ada", "s1", parse("x > 1")), 0)
    assert one.handle(Subscribe("ada", "s2", parse("x > 1")), 0) == []
    [delivery] = one.handle(Forward("B2", notification(x=2)), 0)
    assert delivery == Deliver("ada", notification(x=2), ("s1", "s2"))
    assert one.handle(Unsubscribe("ada", "s1"), 0) == []
    [delivery] = one.handle(Forward("B2", notification("2", x=2)), 0)
    assert delivery == Deliver("ada", notification("2", x=2), ("s2",))
    assert list(sends(one.handle(Unsubscribe("ada", "s2"), 0))) == ["B2", "B3"]


def test_a_copy_that_a_broker_has_delivered_goes_to_its_neighbours_only() -> None:
    one = broker()
    one.handle(Subscribe("ada", "s1", parse("x > 1")), 0)
    one.handle(Admin("B3", (Interest(parse("x > 1")),), (), False), 0)
    assert len(one.handle(Forward("B2", notification(x=2)), 0)) == 2
    assert list(sends(one.handle(Forward("B2", notification(x=2)), 0))) == ["B3"]
    assert one.handle(Forward("B3", notification(x=2)), 0) == []


def test_an_id_that_is_taken_is_refused_and_a_repeated_call_is_nothing() -> None:
    one = broker()
    one.handle(Subscribe("ada", "s1", parse("x > 1")), 0)
    assert one.handle(Subscribe("ada", "s1", parse("x > 1")), 0) == []
    assert one.handle(Subscribe("ada", "s1", parse("x > 2")), 0) == [Refuse("ada", "the id 's1' is taken")]
    assert one.handle(Unsubscribe("ada", "s9"), 0) == [Refuse("ada", "there is no subscription 's9'", True)]
    assert one.handle(Unadvertise("ada", "a9"), 0) == [Refuse("ada", "there is no advertisement 'a9'", True)]


def test_a_notification_without_producer_or_id_gets_both_and_a_duplicate_goes_nowhere() -> None:
    one = broker()
    one.handle(Subscribe("ada", "s1", parse("exists x")), 0)
    [first] = one.handle(Publish("pub", Notification.of({"x": 1})), 0)
    [second] = one.handle(Publish("pub", Notification.of({"x": 1})), 0)
    assert isinstance(first, Deliver)
    assert isinstance(second, Deliver)
    assert first.notification.producer == "pub"
    assert first.notification.id != second.notification.id
    one.handle(Publish("pub", notification("7", x=1)), 0)
    assert one.handle(Publish("pub", notification("7", x=1)), 0) == [Duplicate("pub")]


def test_who_leaves_takes_subscriptions_and_advertisements_along() -> None:
    one = broker(advertisements=Covering())
    one.handle(Advertise("ada", "a1", parse("exists x")), 0)
    one.handle(Admin("B2", (interest("exists x"),), (), True), 0)
    one.handle(Subscribe("ada", "s1", parse("x > 1")), 0)
    told = one.handle(Leave("ada"), 0)
    assert Send("B2", Admin("B1", (), (interest("x > 1"),))) in told
    assert Send("B2", Admin("B1", (), (interest("exists x"),), True)) in told
    assert "ada" not in one.clients
    assert one.handle(Leave("ada"), 0) == []


def test_only_what_is_advertised_may_be_published() -> None:
    one = broker(advertisements=Simple())
    n = notification(x=1)
    refused = [Refuse("p", "no advertisement of this client matches")]
    assert one.handle(Publish("p", n), 0) == refused
    one.handle(Advertise("p", "a1", parse("x > 5")), 0)
    assert one.handle(Publish("p", notification("2", x=1)), 0) == refused
    one.handle(Subscribe("ada", "s1", parse("exists x")), 0)
    [delivery] = one.handle(Publish("p", notification("3", x=6)), 0)
    assert isinstance(delivery, Deliver)


def test_subscriptions_go_where_something_is_advertised_that_overlaps() -> None:
    one = broker(advertisements=Covering())
    assert sends(one.handle(Subscribe("ada", "s1", parse("x > 1")), 0)) == {}
    told = sends(one.handle(Admin("B2", (interest("x > 5"),), (), True), 0))
    assert told["B2"] == Admin("B1", (interest("x > 1"),))
    assert told["B3"] == Admin("B1", (interest("x > 5"),), (), True)
    # What nobody offers any more is not asked for.
    one.handle(Admin("B3", (interest("x < 9"),)), 0)
    assert (interest("x < 9"), "B3") in one.subscriptions
    one.handle(Admin("B2", (), (interest("x > 5"),), True), 0)
    assert (interest("x < 9"), "B3") not in one.subscriptions
    assert (interest("x > 1"), "ada") in one.subscriptions


def test_new_neighbours_exchange_what_they_have_to_know() -> None:
    one = Broker("B1", Settings(Covering()), ("B2",))
    one.handle(Subscribe("ada", "s1", parse("x > 1")), 0)
    one.handle(Admin("B2", (interest("x > 5"),)), 0)
    effects = one.handle(Link("B3"), 7)
    assert [effect.message for effect in effects if isinstance(effect, Send)] == [
        Connect("B1", LinkId(7, "B1")),
        Admin("B1", (interest("x > 1"),)),
    ]
    # What comes before the other side has said so belongs to an earlier link.
    one.handle(Admin("B3", (interest("x < 0"),)), 0)
    assert list(one.subscriptions.of("B3")) == []
    one.handle(Connect("B3", LinkId(7, "B1")), 0)
    one.handle(Admin("B3", (interest("x < 0"),)), 0)
    assert list(one.subscriptions.of("B3")) == [interest("x < 0")]


def test_a_neighbour_that_comes_back_unexpectedly_starts_anew() -> None:
    one = broker()
    one.handle(Subscribe("ada", "s1", parse("x > 5")), 0)
    one.handle(Admin("B2", (interest("x > 1"),)), 0)
    back = LinkId(3, "B2")
    assert one.handle(Connect("B2", back), 0) == [
        Send("B2", Disconnect("B1", LinkId())),
        Send("B3", Admin("B1", (interest("x > 5"),), (interest("x > 1"),))),
        Send("B2", Connect("B1", back)),
        Send("B2", Admin("B1", (interest("x > 5"),))),
    ]
    assert list(one.subscriptions.of("B2")) == []
    one.handle(Admin("B2", (interest("x > 5"),)), 0)
    assert list(one.subscriptions.of("B2")) == [interest("x > 5")]
    assert one.handle(Disconnect("B2", LinkId()), 0) == []
    assert one.handle(Connect("B2", back), 0) == []
    assert one.links["B2"] == back


def test_an_answer_to_a_link_that_was_cut_in_the_meantime_does_not_bring_it_back() -> None:
    ends = [Broker(name, Settings(Covering())) for name in ("B1", "B2")]
    simulation = Simulation(ends)
    simulation.call("B1", Link("B2"))
    simulation.call("B1", Unlink("B2"))
    simulation.run()
    assert [end.neighbours for end in ends] == [[], []]


commands = st.tuples(st.sampled_from(["B1", "B2"]), st.booleans(), st.integers(0, 3_000))


@given(st.lists(commands, max_size=8), st.booleans(), st.sampled_from([0, 900]), st.integers(0, 9))
def test_however_two_brokers_link_and_part_they_agree_in_the_end(
    said: list[tuple[str, bool, int]], linked: bool, batch_us: int, seed: int
) -> None:
    """And each knows what the other's clients ask for, if and only if they are linked."""
    other = {"B1": "B2", "B2": "B1"}
    how = Settings(Covering(), batch_us=batch_us)
    ends = {name: Broker(name, how, (other[name],) if linked else ()) for name in other}
    simulation = Simulation(ends.values(), seed=seed)
    Checker(simulation)
    asked = {name: interest(f"{name} > 1") for name in ends}
    for name in ends:
        simulation.call(name, Subscribe(f"c{name}", "s", asked[name].filter))
    time = 0
    for name, links, gap in said:
        time += gap
        simulation.at(time, name, (Link if links else Unlink)(other[name]))
    simulation.run()
    assert ends["B1"].links.get("B2") == ends["B2"].links.get("B1")
    are_linked = "B2" in ends["B1"].links
    for name, end in ends.items():
        known = [asked[name], asked[other[name]]] if are_linked else [asked[name]]
        assert sorted(str(each) for each, _ in end.subscriptions) == sorted(map(str, known))
        assert not end._awaited
    if len({name for name, _, _ in said}) == 1:
        assert are_linked == said[-1][1]


def test_when_both_sides_cut_a_link_and_make_it_again_nothing_stale_is_left() -> None:
    ends = [Broker(name, Settings(Covering()), (other,)) for name, other in (("B1", "B2"), ("B2", "B1"))]
    simulation = Simulation(ends)
    simulation.call("B1", Subscribe("ada", "s1", parse("x > 1")))
    simulation.run()
    for name, other in (("B1", "B2"), ("B2", "B1")):
        simulation.call(name, Unlink(other))
        simulation.call(name, Link(other))
    while not simulation.is_quiet:
        simulation.step()
        if "B2" not in ends[0].neighbours and "ada" in ends[0].clients:
            simulation.call("B1", Leave("ada"))
    assert "ada" not in ends[0].clients
    assert [*ends[1].subscriptions] == []
    assert ends[0].neighbours == ["B2"]
    assert ends[1].neighbours == ["B1"]


def test_a_neighbour_that_has_gone_takes_its_filters_along() -> None:
    one = broker()
    one.handle(Admin("B2", (interest("x > 1"),)), 0)
    one.handle(Subscribe("ada", "s1", parse("x > 5")), 0)
    told = sends(one.handle(Disconnect("B2", LinkId()), 0))
    assert told == {"B3": Admin("B1", (interest("x > 5"),), (interest("x > 1"),))}
    assert one.neighbours == ["B3"]
    assert sends(one.handle(Unlink("B3"), 0)) == {"B3": Disconnect("B1", LinkId())}
    assert one.handle(Unlink("B3"), 0) == []


def test_flooding_forgets_a_neighbour_that_has_gone() -> None:
    one = broker(Flooding())
    one.handle(Unlink("B2"), 0)
    assert list(sends(one.handle(Publish("p", notification(x=1)), 0))) == ["B3"]


def test_what_waits_for_the_same_neighbour_goes_as_one_message() -> None:
    one = broker(batch_us=1_000)
    assert one.handle(Subscribe("ada", "s1", parse("x = 1")), 5) == [Wake(1_005)]
    assert one.handle(Subscribe("ada", "s2", parse("x = 2")), 600) == []
    told = sends(one.handle(Tick(), 1_005))
    assert told["B2"] == Batch("B1", (Admin("B1", (interest("x = 1"),)), Admin("B1", (interest("x = 2"),))))
    other = broker()
    other.handle(Batch("B2", (Admin("B2", (interest("x = 1"),)), Admin("B2", (interest("x = 2"),)))), 0)
    assert set(other.subscriptions.of("B2")) == {interest("x = 1"), interest("x = 2")}


def test_a_durable_publication_waits_for_the_log() -> None:
    one = broker(durable=True)
    one.handle(Subscribe("ada", "s1", parse("exists x")), 0)
    n, m = notification("1", x=1), notification("2", x=2)
    assert one.handle(Publish("p", n, 1), 0) == [Append(0, "p", n)]
    assert one.handle(Publish("p", m, 2), 0) == [Append(1, "p", m)]
    assert one.handle(Synced(0), 0) == [Deliver("ada", n, ("s1",)), Acknowledge("p", 1)]
    assert one.handle(Synced(1), 0) == [Deliver("ada", m, ("s1",)), Acknowledge("p", 2)]
    assert one.handle(Synced(1), 0) == []


def test_nothing_overtakes_what_waits_for_the_log() -> None:
    one = broker(durable=True)
    one.handle(Subscribe("ada", "s1", parse("exists x")), 0)
    n, m = notification("1", x=1), notification("2", x=2)
    assert one.handle(Publish("p", m), 0) == [Deliver("ada", m, ("s1",))]
    o = notification("3", x=3)
    assert one.handle(Publish("p", n, 1), 0) == [Append(0, "p", n)]
    assert one.handle(Publish("q", o), 0) == []
    assert one.handle(Publish("p", n, 2), 0) == []
    assert one.handle(Synced(0), 0) == [
        Deliver("ada", n, ("s1",)),
        Deliver("ada", o, ("s1",)),
        Duplicate("p", 2),
        Acknowledge("p", 2),
    ]


def test_a_duplicate_of_what_is_synced_is_answered_at_once() -> None:
    one = broker(durable=True)
    n = notification("1", x=1)
    one.handle(Publish("p", n, 1), 0)
    one.handle(Synced(0), 0)
    assert one.handle(Publish("p", n, 2), 0) == [Duplicate("p", 2), Acknowledge("p", 2)]


def test_what_a_neighbour_has_logged_is_logged_here_too_and_known_when_it_comes_again() -> None:
    one = broker(durable=True)
    one.handle(Subscribe("ada", "s1", parse("exists x")), 0)
    n = notification("1", x=1)
    assert one.handle(Forward("B2", n, number=7), 0) == [Append(0, "B2", n)]
    assert one.handle(Forward("B2", n, number=7), 0) == []
    assert one.handle(Synced(0), 0) == [Deliver("ada", n, ("s1",))]


def test_a_publication_is_acknowledged_without_a_log_too() -> None:
    one = broker()
    n = notification("1", x=1)
    assert one.handle(Publish("p", n, 1), 0) == [Acknowledge("p", 1)]
    assert one.handle(Publish("p", n, 2), 0) == [Duplicate("p", 2), Acknowledge("p", 2)]


def test_a_parent_that_is_lost_gets_nothing_until_it_is_linked_again() -> None:
    one = broker(Covering(), parent="B2", children=frozenset({"B3"}))
    one.handle(Subscribe("ada", "s", parse("x > 1")), 0)
    one.handle(Unlink("B2"), 1)
    [delivery] = one.handle(Publish("p", Notification.of({"x": 5})), 2)
    assert isinstance(delivery, Deliver)
    assert delivery.client == "ada"
    sent = one.handle(Climb("B2"), 3)
    assert [type(each.message) for each in sent if isinstance(each, Send)] == [Connect, Admin]
    effects = one.handle(Publish("p", Notification.of({"x": 6})), 4)
    assert [each.to for each in effects if isinstance(each, Send)] == ["B2"]


def test_what_was_merged_for_a_neighbour_goes_with_it() -> None:
    one = broker(Merging())
    for text in ("x = 1", "x = 2"):
        one.handle(Admin("B2", (Interest(parse(text)),)), 0)
    assert one.subscriptions.mergers
    one.handle(Unlink("B2"), 1)
    assert not list(one.subscriptions)
    assert not one.subscriptions.mergers


def test_flooding_goes_on_when_an_advertisement_is_taken_back() -> None:
    one = broker(Flooding(), advertisements=Covering())
    for number in range(2):
        one.handle(Advertise("p", "a", parse("exists x")), 0)
        effects = one.handle(Publish("p", Notification.of({"x": number})), 1)
        assert {each.to for each in effects if isinstance(each, Send)} == {"B2", "B3"}
        one.handle(Unadvertise("p", "a"), 2)


def test_in_a_hierarchy_the_parent_gets_everything_and_is_the_only_one_told_of_filters() -> None:
    one = broker(Identity(), parent="B2", children=frozenset({"B3"}))
    assert list(sends(one.handle(Subscribe("ada", "s1", parse("x > 1")), 0))) == ["B2"]
    assert list(sends(one.handle(Publish("p", notification(x=0)), 0))) == ["B2"]
    assert list(sends(one.handle(Forward("B3", notification("2", x=0)), 0))) == ["B2"]
    assert sends(one.handle(Forward("B2", notification("3", x=0)), 0)) == {}
    one.handle(Admin("B3", (interest("x = 0"),)), 0)
    assert list(sends(one.handle(Forward("B2", notification("4", x=0)), 0))) == ["B3"]


@pytest.mark.parametrize("call", [Join("ada"), Tick()])
def test_some_messages_ask_for_nothing(call: Any) -> None:
    assert broker().handle(call, 0) == []


def test_what_a_neighbour_still_wants_survives_the_fall_of_a_merger() -> None:
    """A merger that falls apart is not what the neighbour has taken back."""
    one = broker(Merging())
    texts = [
        *("x in [2, 4] and y = 1", "x in [2, 4] and y in [5, 6]", "x in [0, 3] and y in [0, 2]"),
        *("x in [3, 9] and y in [0, 2]", "x in [2, 4] and y in [7, 8]"),
    ]
    for text in texts:
        one.handle(Admin("B2", (interest(text),)), 0)
    one.handle(Admin("B2", (), (interest(texts[2]),)), 0)
    assert list(sends(one.handle(Publish("p", notification(x=2, y=1)), 0))) == ["B2"]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (0, 2, 1)])
def test_a_filter_that_equals_a_merger_goes_alone(order: tuple[int, ...]) -> None:
    one = broker(Merging())
    texts = ("price in [0, 5]", "price in [4, 9]", "price in [0, 9]")
    for number in order:
        one.handle(Subscribe("ada", f"s{number}", parse(texts[number])), 0)
    one.handle(Unsubscribe("ada", "s2"), 0)
    for price, ids in ((2, ("s0",)), (9, ("s1",)), (4, ("s0", "s1"))):
        n = notification(str(price), price=price)
        assert one.handle(Forward("B2", n), 0) == [Deliver("ada", n, ids)]


def test_a_publication_that_was_refused_can_be_published_when_it_is_advertised() -> None:
    one = broker(advertisements=Simple())
    one.handle(Subscribe("ada", "s1", parse("exists x")), 0)
    one.handle(Publish("p", notification("1", x=1)), 0)
    one.handle(Advertise("p", "a1", parse("exists x")), 0)
    [delivery] = one.handle(Publish("p", notification("1", x=1)), 0)
    assert isinstance(delivery, Deliver)


def test_a_subscription_that_crosses_the_end_of_what_it_is_for_does_not_stay() -> None:
    one = broker(advertisements=Covering())
    one.handle(Advertise("p", "a1", parse("exists x")), 0)
    one.handle(Unadvertise("p", "a1"), 0)
    one.handle(Admin("B2", (interest("x > 1"),)), 0)
    assert list(one.subscriptions) == []


def test_what_comes_over_a_link_that_was_cut_is_not_passed_on() -> None:
    one = broker(Flooding())
    one.handle(Subscribe("ada", "s1", parse("exists x")), 0)
    one.handle(Unlink("B2"), 0)
    assert one.handle(Forward("B2", notification(x=1)), 0) == []
    one.handle(Link("B2"), 0)
    assert one.handle(Forward("B2", notification("2", x=1)), 0) == []
    one.handle(Connect("B2", one.links["B2"]), 0)
    assert len(one.handle(Forward("B2", notification("3", x=1)), 0)) == 2


def test_clients_and_neighbours_do_not_share_a_name() -> None:
    one = broker()
    refused = [Refuse("B2", "a neighbour of this broker has that name")]
    assert one.handle(Subscribe("B2", "s1", parse("x > 1")), 0) == refused
    assert one.handle(Join("B2"), 0) == refused
    one.handle(Join("B9"), 0)
    with pytest.raises(ValueRefused, match="B9"):
        one.handle(Link("B9"), 0)
    offered = LinkId(1, "B9")
    assert one.handle(Connect("B9", offered), 0) == [Send("B9", Disconnect("B1", offered))]


def test_nothing_is_left_of_clients_that_came_and_went() -> None:
    one = broker(Simple())
    one.handle(Subscribe("stays", "s", parse("x > 1")), 0)
    for number in range(50):
        one.handle(Subscribe(f"c{number}", "s", parse("x > 1")), 0)
        one.handle(Leave(f"c{number}"), 0)
    assert len(one.subscriptions) == 1
    assert len(one.catalogue._known) <= 2
    assert len(one.clients._numbers) == 1
