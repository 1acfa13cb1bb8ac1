"""The worked examples of the book (Figs. 4.6, 4.9 to 4.18, 4.30, 4.31, 4.35) and of its addendum, step by step.

The drawings are known from the words around them only. Where these leave something open, the test says what was
assumed. F, G and so on are filters with the relation that the example gives them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from fairlead.broker import Broker, Settings
from fairlead.broker.messages import (
    Admin,
    Advertise,
    Call,
    Command,
    Effect,
    Forward,
    Message,
    Publish,
    Send,
    Subscribe,
    Unsubscribe,
)
from fairlead.filters import Filter, identical, parse
from fairlead.model import Notification
from fairlead.routing import (
    Covering,
    Identity,
    ImperfectMerging,
    Interest,
    Merging,
    RoutingTable,
    Simple,
    Strategy,
)
from fairlead_lab.routing import CyclicSimple
from fairlead_lab.simulation.checking import Checker
from fairlead_lab.simulation.delays import Delay
from fairlead_lab.simulation.forests import ForestChecker
from fairlead_lab.simulation.network import Observer, Simulation

F = parse("price > 10")
F_TOO = parse("not price <= 10 and price > 10")
"""F', which is identical to F."""
WIDER = parse("price > 5")
"""G in the examples where G covers F."""
NARROWER = parse("price > 20")
"""G in the examples where F covers G."""
NARROWER_TOO = parse("not price <= 20 and price > 20")
"""G', which is identical to G."""

Entries = Iterable[tuple[Filter, str]]
Said = dict[str, tuple[set[str], set[str]]]


def test_the_filters_relate_as_the_examples_say() -> None:
    assert identical(F, F_TOO)
    assert F != F_TOO
    assert identical(NARROWER, NARROWER_TOO)
    assert NARROWER != NARROWER_TOO


def broker(strategy: Strategy, neighbours: str = "B2 B3", entries: Entries = ()) -> Broker:
    """B1, with these neighbours and what it has heard so far."""
    made = Broker("B1", Settings(strategy), neighbours.split())
    for filter, destination in entries:
        if destination.startswith("B"):
            made.handle(Admin(destination, (Interest(filter),)), 0)
        else:
            made.handle(Subscribe(destination, f"{destination} {filter}", filter), 0)
    return made


def entries(table: RoutingTable) -> set[tuple[str, str]]:
    return {(str(interest.filter), destination) for interest, destination in table}


def table(*held: tuple[Filter, str]) -> set[tuple[str, str]]:
    return {(str(filter), destination) for filter, destination in held}


def told(broker: Broker, message: Message | Call | Command) -> Said:
    """To whom a broker then sends which subscriptions and unsubscriptions: one message to each."""
    return said(broker.handle(message, 0))


def said(effects: Iterable[Effect]) -> Said:
    sent: Said = {}
    for effect in effects:
        assert isinstance(effect, Send)
        assert isinstance(effect.message, Admin)
        assert effect.to not in sent
        added, removed = effect.message.added, effect.message.removed
        sent[effect.to] = ({str(each.filter) for each in added}, {str(each.filter) for each in removed})
    return sent


def admin(added: Iterable[Filter] = (), removed: Iterable[Filter] = ()) -> tuple[set[str], set[str]]:
    return {str(each) for each in added}, {str(each) for each in removed}


def from_neighbour(added: Iterable[Filter] = (), removed: Iterable[Filter] = (), source: str = "B4") -> Admin:
    return Admin(source, tuple(map(Interest, added)), tuple(map(Interest, removed)))


# -- the book --------------------------------------------------------------------------------------------------


def test_fig_4_6_simple_routing_tells_all_neighbours_and_they_store_it() -> None:
    b1 = broker(Simple())
    assert told(b1, Subscribe("X1", "s", F)) == {"B2": admin([F]), "B3": admin([F])}
    assert entries(b1.subscriptions) == table((F, "X1"))
    for name in ("B2", "B3"):
        neighbour = Broker(name, Settings(Simple()), ["B1"])
        assert told(neighbour, Admin("B1", (Interest(F, "X1"),))) == {}
        assert entries(neighbour.subscriptions) == table((F, "B1"))


def test_fig_4_9_identity_a_new_subscription_from_a_neighbour_goes_to_all_others() -> None:
    """S is called B4 here."""
    b1 = broker(Identity(), "B2 B3 B4")
    assert told(b1, from_neighbour([F])) == {"B2": admin([F]), "B3": admin([F])}
    assert entries(b1.subscriptions) == table((F, "B4"))


def test_fig_4_10_identity_what_came_from_b3_identically_is_known_to_b2() -> None:
    b1 = broker(Identity(), entries=[(F_TOO, "B3")])
    assert told(b1, Subscribe("S", "s", F)) == {"B3": admin([F])}
    assert entries(b1.subscriptions) == table((F_TOO, "B3"), (F, "S"))


def test_fig_4_13_covering_what_came_wider_from_b3_is_known_to_b2() -> None:
    b1 = broker(Covering(), entries=[(WIDER, "B3")])
    assert told(b1, Subscribe("S", "s", F)) == {"B3": admin([F])}
    assert entries(b1.subscriptions) == table((WIDER, "B3"), (F, "S"))


def test_fig_4_14_covering_a_wider_filter_of_a_neighbour_replaces_its_narrower_one() -> None:
    b1 = broker(Covering(), "B2 B3 B4", [(NARROWER, "B4")])
    assert told(b1, from_neighbour([F])) == {"B2": admin([F]), "B3": admin([F])}
    assert entries(b1.subscriptions) == table((F, "B4"))


def test_fig_4_15_covering_an_unsubscription_of_a_neighbour_goes_to_all_others() -> None:
    b1 = broker(Covering(), "B2 B3 B4", [(F, "B4")])
    assert told(b1, from_neighbour(removed=[F])) == {"B2": admin([], [F]), "B3": admin([], [F])}
    assert entries(b1.subscriptions) == set()


def test_fig_4_16_covering_what_came_wider_from_b3_keeps_an_unsubscription_from_b2() -> None:
    b1 = broker(Covering(), entries=[(WIDER, "B3"), (F, "S")])
    assert told(b1, Unsubscribe("S", f"S {F}")) == {"B3": admin([], [F])}
    assert entries(b1.subscriptions) == table((WIDER, "B3"))


def test_fig_4_17_covering_what_is_uncovered_does_not_go_to_the_only_one_who_asked_for_it() -> None:
    """G came from B2: the text says that it is not forwarded there because k = 1."""
    b1 = broker(Covering(), entries=[(NARROWER, "B2"), (F, "S")])
    assert told(b1, Unsubscribe("S", f"S {F}")) == {"B2": admin([], [F]), "B3": admin([NARROWER], [F])}
    assert entries(b1.subscriptions) == table((NARROWER, "B2"))


def test_fig_4_18_covering_what_two_have_asked_for_goes_to_both_when_it_is_uncovered() -> None:
    """The text has an entry (G, S). With k = 2 it must be another's: here it is B2's, and S is B4."""
    b1 = broker(Covering(), "B2 B3 B4", [(NARROWER, "B2"), (F, "B4")])
    sent = told(b1, from_neighbour([NARROWER_TOO], [F]))
    assert entries(b1.subscriptions) == table((NARROWER, "B2"), (NARROWER_TOO, "B4"))
    assert sent.keys() == {"B2", "B3"}
    for added, removed in sent.values():
        assert removed == {str(F)}
        assert len(added) == 1
        assert added < {str(NARROWER), str(NARROWER_TOO)}


def test_an_unsubscription_and_what_it_uncovers_come_in_one_message() -> None:
    b1 = broker(Covering(), "B2", [(WIDER, "S"), (NARROWER, "S")])
    (effect,) = b1.handle(Unsubscribe("S", f"S {WIDER}"), 0)
    assert said([effect]) == {"B2": admin([NARROWER], [WIDER])}


def test_simple_routing_keeps_what_still_comes_from_another_side_while_links_change() -> None:
    """A part of the overlay was cut off at B2 and tied at B3; the old end arrives after the new beginning."""
    b1 = broker(Simple(), "B2 B3 B4")
    of_x = (Interest(F, "X"),)
    b1.handle(Admin("B2", of_x), 0)
    b1.handle(Admin("B3", of_x), 0)
    assert told(b1, Admin("B2", (), of_x)) == {"B3": admin([], [F])}
    assert entries(b1.subscriptions) == table((F, "B3"))


# -- overlays, step by step --------------------------------------------------------------------------------------


class Overlay(Observer):
    """Brokers whose steps are taken one by one: what is subscribed, who then tells whom, and all tables.

    `above` names the parents of brokers that are in a hierarchy.
    """

    def __init__(
        self,
        strategy: Strategy,
        links: Iterable[str],
        advertisements: Strategy | None = None,
        above: Mapping[str, str] | None = None,
        cyclic: bool = False,
    ) -> None:
        pairs, above = [link.split("-") for link in links], above or {}
        names = sorted({name for pair in pairs for name in pair})
        self.simulation = Simulation(
            [
                Broker(
                    name,
                    Settings(
                        strategy,
                        advertisements,
                        above.get(name),
                        frozenset(each for each in above if above[each] == name),
                        cyclic=cyclic,
                    ),
                    [other for pair in pairs if name in pair for other in pair if other != name],
                )
                for name in names
            ],
            delay=Delay(1_000, 0, "constant"),
            observers=[self],
        )
        (ForestChecker if cyclic else Checker)(self.simulation)
        self.told: list[str] = []

    def sent(self, now: int, source: str, to: str, message: Message) -> None:
        if isinstance(message, Forward):
            self.told.append(f"{source} to {to}: {message.notification.id}")
        elif isinstance(message, Admin):
            about = [f"+{each.filter}" for each in message.added]
            about += [f"-{each.filter}" for each in message.removed]
            kind = " advertised" if message.advertisements else ""
            self.told.append(f"{source} to {to}:{kind} {' '.join(about)}")

    def call(self, broker: str, call: Call) -> list[str]:
        """What brokers then tell each other."""
        self.told = []
        self.simulation.call(broker, call)
        self.simulation.run()
        return sorted(self.told)

    @property
    def tables(self) -> dict[str, set[str]]:
        return {
            name: {f"{interest.filter} for {place}" for interest, place in broker.subscriptions}
            for name, broker in self.simulation.brokers.items()
            if isinstance(broker, Broker)
        }


def publication(id: str, price: int) -> Publish:
    return Publish("P", replace(Notification.of({"price": price}), id=id, producer="P"))


def test_fig_4_30_in_a_hierarchy_filters_go_up_and_notifications_all_the_way() -> None:
    """Assumed: B1 is the root of B2, which is above B4 and B5, and of B3."""
    overlay = Overlay(
        Covering(),
        ("B1-B2", "B1-B3", "B2-B4", "B2-B5"),
        above={"B2": "B1", "B3": "B1", "B4": "B2", "B5": "B2"},
    )
    assert overlay.call("B4", Subscribe("S4", "s", F)) == [f"B2 to B1: +{F}", f"B4 to B2: +{F}"]
    # B1 need not know what F covers.
    assert overlay.call("B5", Subscribe("S5", "s", NARROWER)) == [f"B5 to B2: +{NARROWER}"]
    # The root tells nobody.
    assert overlay.call("B3", Subscribe("S3", "s", WIDER)) == [f"B3 to B1: +{WIDER}"]
    assert overlay.tables == {
        "B1": {f"{F} for B2", f"{WIDER} for B3"},
        "B2": {f"{F} for B4", f"{NARROWER} for B5"},
        "B3": {f"{WIDER} for S3"},
        "B4": {f"{F} for S4"},
        "B5": {f"{NARROWER} for S5"},
    }
    # What nobody asks for goes to the root all the same; what somebody asks for goes down from where it is met.
    assert overlay.call("B5", publication("n1", 1)) == ["B2 to B1: n1", "B5 to B2: n1"]
    assert overlay.call("B5", publication("n2", 15)) == [
        "B1 to B3: n2",
        "B2 to B1: n2",
        "B2 to B4: n2",
        "B5 to B2: n2",
    ]
    # When F has gone, what it covered goes up in its place.
    assert overlay.call("B4", Unsubscribe("S4", "s")) == [f"B2 to B1: +{NARROWER} -{F}", f"B4 to B2: -{F}"]


def test_fig_4_31_in_a_hybrid_the_root_of_a_subtree_decides_by_advertisements_what_its_peers_are_told() -> (
    None
):
    """Assumed: B1 and B2 are peers, and B3 and B4 are below B2."""
    overlay = Overlay(Covering(), ("B1-B2", "B2-B3", "B2-B4"), Simple(), {"B3": "B2", "B4": "B2"})
    low = parse("price < 3")
    # Among peers advertisements travel as always; who is below is not told.
    assert overlay.call("B1", Advertise("P", "a", F)) == [f"B1 to B2: advertised +{F}"]
    # From below they go to the parent, and from the root of the subtree to its peers.
    assert overlay.call("B3", Advertise("Q", "a", low)) == [
        f"B2 to B1: advertised +{low}",
        f"B3 to B2: advertised +{low}",
    ]
    # Below, subscriptions go up whatever is advertised; the root tells its peer what overlaps.
    assert overlay.call("B3", Subscribe("S3", "s", NARROWER)) == [
        f"B2 to B1: +{NARROWER}",
        f"B3 to B2: +{NARROWER}",
    ]
    assert overlay.call("B4", Subscribe("S4", "s", low)) == [f"B4 to B2: +{low}"]
    assert overlay.call("B1", Subscribe("S1", "s", low)) == [f"B1 to B2: +{low}"]
    assert overlay.tables == {
        "B1": {f"{NARROWER} for B2", f"{low} for S1"},
        "B2": {f"{NARROWER} for B3", f"{low} for B4", f"{low} for B1"},
        "B3": {f"{NARROWER} for S3"},
        "B4": {f"{low} for S4"},
    }


def test_fig_4_35_in_a_cycle_every_subscription_has_a_tree_of_its_own() -> None:
    """Assumed: four brokers in a circle, and consumers at two that are opposite."""
    overlay = Overlay(CyclicSimple(), ("B1-B2", "B2-B3", "B3-B4", "B4-B1"), cyclic=True)
    # It reaches B3 from two sides. The second is not needed, and is not passed on.
    assert overlay.call("B1", Subscribe("S1", "s", F)) == [
        f"B1 to B2: +{F}",
        f"B1 to B4: +{F}",
        f"B2 to B3: +{F}",
        f"B3 to B4: +{F}",
        f"B4 to B3: +{F}",
    ]
    one_tree = {
        "B1": {f"{F} for S1"},
        "B2": {f"{F} for B1"},
        "B3": {f"{F} for B2"},
        "B4": {f"{F} for B1"},
    }
    assert overlay.tables == one_tree
    overlay.call("B3", Subscribe("S3", "s", F))
    trees = {"S1": {"B2-B1", "B3-B2", "B4-B1"}, "S3": {"B2-B3", "B4-B3", "B1-B2"}}
    found: dict[str, set[str]] = {"S1": set(), "S3": set()}
    for name, broker in overlay.simulation.brokers.items():
        assert isinstance(broker, Broker)
        for interest, place in broker.subscriptions:
            if place.startswith("B"):
                found[interest.owner.partition("@")[0]].add(f"{name}-{place}")
    assert found == trees
    overlay.call("B3", Unsubscribe("S3", "s"))
    assert overlay.tables == one_tree


# -- the addendum ----------------------------------------------------------------------------------------------


TREE = ("B1-B2", "B2-B3", "B2-B4")
ONE, TWO, THREE, FOUR = "x = 4", "x in {4}", "x in [4, 4]", "x = 4 and y > 5"
"""F_1 ≡ F_2 ≡ F_3; F_4 is not identical to them, as in 4.3.4 of the addendum."""


def test_addendum_identity_based_routing_and_its_exercise() -> None:
    """The drawings are lost. Assumed: brokers B1, B3 and B4 around B2; consumer S_i at broker B_i; F_1, F_2 and
    F_3 identical, F_4 not. The example has S_1 subscribe, then S_2; the exercise S_3, then S_4.
    """
    overlay = Overlay(Identity(), TREE)

    assert overlay.call("B1", Subscribe("S1", "s", parse(ONE))) == [
        "B1 to B2: +x = 4",
        "B2 to B3: +x = 4",
        "B2 to B4: +x = 4",
    ]
    assert overlay.tables == {
        "B1": {"x = 4 for S1"},
        "B2": {"x = 4 for B1"},
        "B3": {"x = 4 for B2"},
        "B4": {"x = 4 for B2"},
    }

    # B3 and B4 know of an identical filter, from the same neighbour: only B1 has to be told.
    assert overlay.call("B2", Subscribe("S2", "s", parse(TWO))) == ["B2 to B1: +x in {4}"]
    assert overlay.tables == {
        "B1": {"x = 4 for S1", "x in {4} for B2"},
        "B2": {"x = 4 for B1", "x in {4} for S2"},
        "B3": {"x = 4 for B2"},
        "B4": {"x = 4 for B2"},
    }

    # B3 asks B2, where others ask for the same on two sides already: nobody else has to be told.
    assert overlay.call("B3", Subscribe("S3", "s", parse(THREE))) == ["B3 to B2: +x in [4, 4]"]
    assert overlay.tables == {
        "B1": {"x = 4 for S1", "x in {4} for B2"},
        "B2": {"x = 4 for B1", "x in {4} for S2", "x in [4, 4] for B3"},
        "B3": {"x = 4 for B2", "x in [4, 4] for S3"},
        "B4": {"x = 4 for B2"},
    }

    # What is not identical to anything goes everywhere, although F_1 covers it.
    assert overlay.call("B4", Subscribe("S4", "s", parse(FOUR))) == [
        "B2 to B1: +x = 4 and y > 5",
        "B2 to B3: +x = 4 and y > 5",
        "B4 to B2: +x = 4 and y > 5",
    ]
    assert overlay.tables == {
        "B1": {"x = 4 for S1", "x in {4} for B2", "x = 4 and y > 5 for B2"},
        "B2": {"x = 4 for B1", "x in {4} for S2", "x in [4, 4] for B3", "x = 4 and y > 5 for B4"},
        "B3": {"x = 4 for B2", "x in [4, 4] for S3", "x = 4 and y > 5 for B2"},
        "B4": {"x = 4 for B2", "x = 4 and y > 5 for S4"},
    }


def test_addendum_the_way_back_unsubscriptions_go_only_where_nobody_else_asks() -> None:
    overlay = Overlay(Identity(), TREE)
    for number, text in enumerate((ONE, TWO, THREE, FOUR), start=1):
        overlay.call(f"B{number}", Subscribe(f"S{number}", "s", parse(text)))

    # S_2 and S_3 still ask for the same: B2 forgets B1's, and tells nobody.
    assert overlay.call("B1", Unsubscribe("S1", "s")) == ["B1 to B2: -x = 4"]
    # Now only S_3 asks, and B3 need not be told of its own wish.
    assert overlay.call("B2", Unsubscribe("S2", "s")) == ["B2 to B3: -x in {4}"]
    assert overlay.tables == {
        "B1": {"x in {4} for B2", "x = 4 and y > 5 for B2"},
        "B2": {"x in [4, 4] for B3", "x = 4 and y > 5 for B4"},
        "B3": {"x in [4, 4] for S3", "x = 4 and y > 5 for B2"},
        "B4": {"x = 4 for B2", "x = 4 and y > 5 for S4"},
    }
    overlay.call("B3", Unsubscribe("S3", "s"))
    overlay.call("B4", Unsubscribe("S4", "s"))
    assert overlay.tables == {name: set() for name in overlay.tables}


def test_the_exercise_with_covering_f_4_stays_where_it_is_covered() -> None:
    overlay = Overlay(Covering(), TREE)
    for number, text in enumerate((ONE, TWO, THREE), start=1):
        overlay.call(f"B{number}", Subscribe(f"S{number}", "s", parse(text)))
    assert overlay.call("B4", Subscribe("S4", "s", parse(FOUR))) == ["B4 to B2: +x = 4 and y > 5"]
    assert overlay.tables["B2"] == {
        "x = 4 for B1",
        "x in {4} for S2",
        "x in [4, 4] for B3",
        "x = 4 and y > 5 for B4",
    }


# -- merging ---------------------------------------------------------------------------------------------------


def test_merging_two_filters_become_one_and_fall_apart_again() -> None:
    """Two intervals of one client that touch: B1 merges them, and the others know the merger only."""
    overlay = Overlay(Merging(), ("B1-B2", "B2-B3"))
    assert overlay.call("B1", Subscribe("S", "low", parse("x in [0, 5]"))) == [
        "B1 to B2: +x in [0, 5]",
        "B2 to B3: +x in [0, 5]",
    ]
    assert overlay.call("B1", Subscribe("S", "high", parse("x in [4, 9]"))) == [
        "B1 to B2: +x in [0, 9]",
        "B2 to B3: +x in [0, 9]",
    ]
    assert overlay.tables == {
        "B1": {"x in [0, 9] for S"},
        "B2": {"x in [0, 9] for B1"},
        "B3": {"x in [0, 9] for B2"},
    }
    # Covered by the merger: it becomes part of it, and nobody is told.
    assert overlay.call("B1", Subscribe("S", "mid", parse("x in [1, 8]"))) == []
    # What is left, [1, 8] and [4, 9], makes less than the merger: it falls apart, in one message.
    sent = overlay.call("B1", Unsubscribe("S", "low"))
    assert sent[0].startswith("B1 to B2: ")
    assert "-x in [0, 9]" in sent[0]
    assert "+x in [1, 8]" in sent[0]
    assert "+x in [4, 9]" in sent[0]
    assert overlay.tables["B1"] == {"x in [1, 8] for S", "x in [4, 9] for S"}


@pytest.mark.parametrize("order", [("low", "high"), ("high", "low")])
def test_merging_what_is_merged_on_the_way_is_taken_apart_on_the_way_back(order: tuple[str, str]) -> None:
    """B2 hears from B1 of two clients' filters and merges them for B1; B3 hears of the merger."""
    overlay = Overlay(Merging(), ("B1-B2", "B2-B3"))
    texts = {"low": "x in [0, 5]", "high": "x in [4, 9]"}
    for name, text in texts.items():
        overlay.call("B1", Subscribe(name, "s", parse(text)))
    assert overlay.tables == {
        "B1": {"x in [0, 5] for low", "x in [4, 9] for high"},
        "B2": {"x in [0, 9] for B1"},
        "B3": {"x in [0, 9] for B2"},
    }
    first, second = order
    overlay.call("B1", Unsubscribe(first, "s"))
    assert overlay.tables == {
        "B1": {f"{texts[second]} for {second}"},
        "B2": {f"{texts[second]} for B1"},
        "B3": {f"{texts[second]} for B2"},
    }
    overlay.call("B1", Unsubscribe(second, "s"))
    assert overlay.tables == {name: set() for name in overlay.tables}


def test_merging_what_falls_out_of_a_merger_does_not_come_back_where_another_filter_covers_it() -> None:
    """Fig. 4.24 puts it back, and then the table has two entries of which one covers the other (book 4.5.6)."""
    overlay = Overlay(Merging(), ("B1-B2",))
    for name, text in {
        "one": 'topic = "a" and price in [1, 3]',
        "two": 'topic = "b" and price in [1, 3]',
        "three": 'topic = "a" and price <= 3',
    }.items():
        overlay.call("B1", Subscribe(name, "s", parse(text)))
    assert overlay.tables["B2"] == {
        'topic in {"a", "b"} and price in [1, 3] for B1',
        'topic = "a" and price <= 3 for B1',
    }
    overlay.call("B1", Unsubscribe("two", "s"))
    assert overlay.tables["B2"] == {'topic = "a" and price <= 3 for B1'}


def test_merging_advertisements_imperfectly_hides_no_subscription() -> None:
    """B1 merges what B2 advertises to more than B2 said. When B2 then says the rest, that is news."""
    overlay = Overlay(Covering(), ("B1-B2",), ImperfectMerging(0.4))
    wanted = "price = 4 and x = 4"
    overlay.call("B1", Subscribe("S", "s", parse(wanted)))
    for id, text in enumerate(("price in [0, 4] and x in [1, 3]", "price in [0, 3] and x in [1, 4]")):
        overlay.call("B2", Advertise("P", f"a{id}", parse(text)))
    b1 = overlay.simulation.brokers["B1"]
    assert isinstance(b1, Broker)
    assert entries(b1.advertisements) == {("price in [0, 4] and x in [1, 4]", "B2")}
    assert overlay.tables["B2"] == set()
    overlay.call("B2", Advertise("P", "a3", parse(wanted)))
    assert overlay.tables["B2"] == {f"{wanted} for B1"}
