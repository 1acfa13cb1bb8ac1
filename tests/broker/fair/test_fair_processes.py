"""The processes of fair correlation, driven by hand: who is told what, and where the figures had to be mended."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pytest

from fairlead.correlation.fair import Choice, Conjunction, Matcher, Subscription, parse
from fairlead.model import Notification
from fairlead_lab.broker.fair import ALL, Client, Directory, Node, Ordering, Role
from fairlead_lab.broker.fair.desk import Desk, condensed
from fairlead_lab.broker.fair.messages import (
    Began,
    Content,
    Copied,
    Copy,
    Deliver,
    Down,
    Effect,
    Gone,
    Input,
    Interested,
    Item,
    Left,
    Message,
    Multicast,
    Need,
    Order,
    Ordered,
    Refuse,
    Send,
    Subscribe,
    Tick,
    Unsubscribe,
    Wake,
)

NODES = ("n1", "n2", "n3", "n4", "n5")


def event(id: str, type: str, **attributes: object) -> Notification:
    return Notification.of({"id": id, "producer": "p", "type": type, **attributes})


def conjunction(text: str) -> Conjunction:
    [found] = parse(text).conjunctions
    return found


class Wire:
    """Processes that hear what they are told at once, in the order of telling; the time is the test's."""

    def __init__(
        self,
        *clients: str,
        replicas: int = 1,
        ordering: Ordering = Ordering.MERGING,
        nodes: tuple[str, ...] = NODES,
    ) -> None:
        self.directory = Directory(nodes, ordering, replicas)
        self.processes: dict[str, Client | Node] = {name: Client(name, self.directory) for name in clients}
        self.processes |= {name: Node(name, self.directory) for name in nodes}
        self.now = 0
        self.sent: list[tuple[str, str, Message]] = []
        self.ordered: dict[Role, list[str]] = {}
        self.delivered: dict[str, list[str]] = {name: [] for name in clients}
        self.refused: list[str] = []
        self.dead: set[str] = set()
        self.holds: Callable[[str, Message], bool] = lambda to, message: False
        self.held: list[tuple[str, Message]] = []
        self._due: set[tuple[int, str]] = set()

    def tell(self, process: str, message: Message) -> None:
        queue = deque([(process, message)])
        while queue:
            to, what = queue.popleft()
            if to in self.dead:
                continue
            if self.holds(to, what):
                self.held.append((to, what))
                continue
            for effect in self.processes[to].handle(what, self.now):
                if isinstance(effect, Send):
                    self.sent.append((to, effect.to, effect.message))
                    queue.append((effect.to, effect.message))
                else:
                    self._carry_out(to, effect)

    def _carry_out(self, process: str, effect: Effect) -> None:
        match effect:
            case Wake(at=at):
                self._due.add((at, process))
            case Deliver(relation=relation):
                self.delivered[process].append(" ".join(str(each.id) for each in relation.events))
            case Ordered(role=role, event=each):
                self.ordered.setdefault(role, []).append(str(each.id))
            case Refuse(reason=reason):
                self.refused.append(reason)

    def subscribe(self, client: str, text: str) -> None:
        self.tell(client, Subscribe(parse(text)))

    def multicast(self, *events: Notification, by: str = "ada") -> None:
        for each in events:
            self.now += 1
            self.tell(by, Multicast(each))

    def pass_time(self, us: int) -> None:
        until = self.now + us
        while self._due and min(self._due)[0] <= until:
            at, process = min(self._due)
            self._due.discard((at, process))
            self.now = max(self.now, at)
            self.tell(process, Tick())
        self.now = until

    def crash(self, process: str) -> None:
        self.dead.add(process)
        for other in self.processes:
            self.tell(other, Down(process))

    def release(self) -> None:
        self.holds = lambda to, message: False
        held, self.held = self.held, []
        for to, message in held:
            self.tell(to, message)


# -- mergers -----------------------------------------------------------------------------------------------


def test_a_role_is_the_types_without_duplicates_and_merges_its_prefix_with_its_last_type() -> None:
    directory = Directory(NODES, replicas=3)
    role = directory.serving(conjunction("B[2].x > A.x and C"))
    assert role == ("A", "B", "C")
    assert directory.parents(role) == (("A", "B"), ("C",))
    assert directory.parents(("A",)) is None
    assert directory.entry(event("1", "A")) == ("A",)
    assert Directory(NODES[::-1], replicas=3).members(role) == directory.members(role)


def test_total_order_broadcasts_have_one_role_for_all_types() -> None:
    for ordering in (Ordering.SEQUENCER, Ordering.TOKEN):
        directory = Directory(NODES, ordering)
        assert directory.serving(conjunction("A and B")) == directory.entry(event("1", "C")) == ALL


def test_events_go_through_the_mergers_of_all_prefixes() -> None:
    wire = Wire("ada", "bob")
    wire.subscribe("bob", "A.x < B.x and C")
    wire.multicast(event("a", "A", x=1), event("c", "C"), event("b", "B", x=2))
    assert wire.ordered == {
        ("A",): ["a"],
        ("B",): ["b"],
        ("C",): ["c"],
        ("A", "B"): ["a", "b"],
        ("A", "B", "C"): ["a", "c", "b"],
    }
    assert wire.delivered["bob"] == ["a b c"]


def test_unary_predicates_go_up_as_a_disjunction_and_mergers_filter_by_it() -> None:
    wire = Wire("ada", "bob", "cid")
    wire.subscribe("bob", "A.x > 5 and B")
    wire.subscribe("cid", "A.x < 2 and B and C")
    wire.multicast(event("1", "A", x=1), event("4", "A", x=4), event("9", "A", x=9))
    assert wire.ordered["A",] == ["1", "4", "9"]
    assert wire.ordered["A", "B"] == ["1", "9"]
    wire.multicast(event("b", "B"))
    assert wire.delivered["bob"] == ["9 b"]


def test_who_leaves_withdraws_its_predicates_all_the_way_up() -> None:
    wire = Wire("ada", "bob", "cid")
    wire.subscribe("bob", "A.x > 5 and B and C")
    wire.subscribe("cid", "A.x < 2 and B and C")
    wire.tell("bob", Unsubscribe())
    wire.multicast(event("1", "A", x=1), event("9", "A", x=9))
    assert wire.ordered["A", "B"] == ["1"]
    wire.crash("cid")
    wire.multicast(event("0", "A", x=0))
    assert wire.ordered["A", "B"] == ["1"]
    assert wire.ordered["A",] == ["1", "9", "0"]


def test_an_alternative_that_asks_for_a_whole_type_swallows_the_others() -> None:
    wants = frozenset(
        (instance.type, filter)
        for text in ("A.x > 5", "A", "B.x = 1")
        for instance, filter in conjunction(text).filters.items()
    )
    assert {(type, str(filter)) for type, filter in condensed(wants)} == {
        ("A", 'type = "A"'),
        ("B", 'type = "B" and x = 1'),
    }


def test_a_stream_begins_only_when_all_above_have_confirmed_what_is_needed() -> None:
    wire = Wire("ada", "bob")
    directory = wire.directory
    wire.holds = lambda to, message: (
        isinstance(message, Input) and message.key[0] == "need" and message.role == ("B",)
    )
    wire.subscribe("bob", "A and B")
    wire.multicast(event("a1", "A"))
    client = wire.processes["bob"]
    assert isinstance(client, Client)
    assert not client.is_established
    wire.release()
    assert client.is_established
    wire.multicast(event("b1", "B"), event("a2", "A"))
    assert wire.delivered["bob"] == ["a2 b1"]
    assert directory.members(("A", "B"))


# -- joining -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ordering", Ordering)
def test_who_joins_goes_on_with_the_queues_of_one_who_asks_the_same(ordering: Ordering) -> None:
    wire = Wire("ada", "bob", "cid", ordering=ordering)
    wire.subscribe("bob", "A.x < B.x")
    wire.multicast(event("a1", "A", x=9), event("a2", "A", x=2))
    wire.subscribe("cid", "A.x < B.x")
    wire.multicast(event("b1", "B", x=5), event("b2", "B", x=10))
    assert wire.delivered["bob"] == wire.delivered["cid"] == ["a2 b1"]


def test_who_asks_something_else_begins_with_nothing() -> None:
    wire = Wire("ada", "bob", "cid")
    wire.subscribe("bob", "A.x < B.x")
    wire.multicast(event("a1", "A", x=1))
    wire.subscribe("cid", "A.x <= B.x")
    wire.multicast(event("b1", "B", x=5))
    assert wire.delivered == {"ada": [], "bob": ["a1 b1"], "cid": []}


def test_two_who_join_with_the_same_two_conjunctions_do_not_wait_for_each_other() -> None:
    """Each is the older one at one of two roles. With the queues of Figure 7, neither could tell its state."""
    wire = Wire("ada", "bob", "cid")
    second = wire.directory.members(("A", "C"))[0]
    wire.holds = lambda to, message: (
        to == second and isinstance(message, Input) and message.key == ("sub", "bob")
    )
    wire.subscribe("bob", "A.x < B.x or A.x < C.x")
    wire.subscribe("cid", "A.x < B.x or A.x < C.x")
    wire.release()
    wire.multicast(event("a", "A", x=1), event("b", "B", x=2), event("c", "C", x=2))
    wire.pass_time(100_000)
    assert wire.delivered["bob"] == wire.delivered["cid"] == ["a b", "a c"]


class TestDesk:
    """Joining, as the order of a role decides it."""

    asked = conjunction("A.x < B.x")

    def desk(self, *clients: str) -> Desk:
        desk = Desk(("A", "B"), is_root=True)
        for client in clients:
            desk.apply(self.interested(client))
        return desk

    def interested(self, client: str) -> Interested:
        return Interested(client, (self.asked,), Choice.FIRST_RECEIVED, timed=False)

    def copied(self, source: str, client: str) -> Copied:
        return Copied(source, client, Matcher(Subscription.of([self.asked])).snapshot(), 1, 2)

    def test_the_oldest_is_asked_for_its_state(self) -> None:
        items = self.desk("ada", "bob").apply(self.interested("cid"))
        assert items == {"cid": (Began((), (self.asked,)),), "ada": (Copy(self.asked, "cid"),)}

    @pytest.mark.parametrize("departure", [Gone("ada"), Left("ada")])
    def test_when_it_goes_the_next_is_asked(self, departure: Content) -> None:
        desk = self.desk("ada", "bob")
        desk.apply(self.copied("ada", "bob"))
        desk.apply(self.interested("cid"))
        assert desk.apply(departure) == {"bob": (Copy(self.asked, "cid"),)}
        assert desk.apply(self.copied("ada", "cid")) == {}
        assert desk.apply(copied := self.copied("bob", "cid")) == {"cid": (copied,)}

    def test_when_nobody_is_left_all_who_wait_begin_anew_together(self) -> None:
        items = self.desk("ada", "bob", "cid").apply(Gone("ada"))
        assert items == {"bob": (Began((self.asked,)), Copy(self.asked, "cid"))}

    def test_only_who_chooses_alike_is_asked(self) -> None:
        recent = Interested("bob", (self.asked,), Choice.MOST_RECENT, timed=False)
        assert self.desk("ada").apply(recent) == {"bob": (Began((self.asked,)),)}


# -- disjunctions ------------------------------------------------------------------------------------------


def streams(*conjunctions: str) -> tuple[Client, list[Role], Callable[..., list[str]]]:
    """A client with a conjunction for each role, established; and what it delivers for items of these roles."""
    directory = Directory(NODES)
    client = Client("ada", directory)
    client.handle(Subscribe(parse(" or ".join(conjunctions))), 0)
    asked = [conjunction(text) for text in conjunctions]
    roles = [directory.serving(each) for each in asked]
    positions = dict.fromkeys(roles, 0)

    def take(place: int, stamp: int, *contents: Content) -> list[str]:
        role = roles[place]
        positions[role] += 1
        effects = client.handle(Item(role, ALL, positions[role], stamp, contents), 0)
        relations = [each.relation.events for each in effects if isinstance(each, Deliver)]
        return [" ".join(str(each.id) for each in relation) for relation in relations]

    for place, each in enumerate(asked):
        assert take(place, 1, Began((each,))) == []
    return client, roles, take


def test_relations_wait_until_no_other_role_can_have_an_earlier_one() -> None:
    client, _, take = streams("A", "B")
    assert take(0, 10, event("a", "A")) == []
    assert client.is_waiting
    assert take(1, 5, event("b", "B")) == ["b"]
    assert take(1, 10) == ["a"]
    assert not client.is_waiting


def test_events_with_the_same_time_are_all_delivered_in_the_order_of_roles() -> None:
    """Figure 7 keeps one of them only."""
    for first, second in ((0, 1), (1, 0)):
        _, _, take = streams("A", "B")
        named = ("a", "A"), ("b", "B")
        assert take(first, 10, event(*named[first])) == []
        assert take(second, 10, event(*named[second])) == ["a", "b"]


def test_an_event_that_comes_from_two_mergers_is_matched_once_by_each_conjunction() -> None:
    """Figure 7 queues it twice for both, or drops the copy that comes late and with it what only that one sent."""
    _, _, take = streams("A.x < B.x", "A.x < C.x")
    a, b, c = event("a", "A", x=1), event("b", "B", x=2), event("c", "C", x=2)
    assert take(0, 20, a) == []
    assert take(1, 10, a) == []
    assert take(0, 21, b) == []
    assert take(1, 11, c) == ["a c"]
    assert take(1, 22, c) == ["a b"]


def test_an_event_that_no_conjunction_takes_holds_up_nothing() -> None:
    client, _, take = streams("A.x > 5", "B")
    take(0, 10, event("a", "A", x=1))
    take(1, 11)
    assert not client.is_waiting


def test_a_quiet_merger_tells_the_time() -> None:
    wire = Wire("ada", "bob")
    wire.subscribe("bob", "A or B")
    wire.pass_time(100_000)
    wire.multicast(event("a", "A"))
    assert wire.delivered["bob"] == []
    wire.pass_time(50_000)
    assert wire.delivered["bob"] == ["a"]


def test_a_merger_that_is_busy_with_what_a_client_does_not_want_tells_it_the_time_all_the_same() -> None:
    """The paper's empty event is sent when nothing was received; here something always is, but filtered out."""
    wire = Wire("ada", "bob")
    wire.subscribe("bob", "A or B.x > 5")
    wire.pass_time(100_000)
    wire.multicast(event("a", "A"))
    for n in range(20):
        wire.multicast(event(f"b{n}", "B", x=1))
        wire.pass_time(5_000)
    assert wire.delivered["bob"] == ["a"]


def test_other_conjunctions_beside_one_change_nothing_in_what_it_delivers() -> None:
    wire = Wire("ada", "bob", "cid")
    wire.subscribe("bob", "A.x < B.x")
    wire.subscribe("cid", "A.x < B.x or A.x < C.x or B")
    wire.pass_time(100_000)
    for n in range(30):
        wire.multicast(event(f"{'ABC'[n % 3].lower()}{n}", "ABC"[n % 3], x=n * 7 % 10))
    wire.pass_time(100_000)
    assert [each for each in wire.delivered["cid"] if "a" in each and "b" in each] == wire.delivered["bob"]


# -- replicas ----------------------------------------------------------------------------------------------


def test_the_leader_tells_its_peers_the_order_only() -> None:
    wire = Wire("ada", "bob", replicas=3)
    wire.subscribe("bob", "A and B")
    wire.multicast(event("a", "A"), event("b", "B"))
    between = [each for _, _, each in wire.sent if isinstance(each, Order)]
    assert between
    assert not any(isinstance(part, Notification) for each in between for part in each.slot.key)
    inputs = [to for _, to, each in wire.sent if isinstance(each, Input) and each.content == event("a", "A")]
    assert sorted(inputs) == sorted(wire.directory.members(("A",)))


def test_clients_are_spread_over_the_replicas() -> None:
    clients = [f"client {number}" for number in range(60)]
    wire = Wire("ada", *clients, replicas=3)
    for client in clients:
        wire.subscribe(client, "A")
    wire.sent.clear()
    wire.multicast(event("a", "A"))
    served = [source for source, to, each in wire.sent if isinstance(each, Item) and to in clients]
    assert len(served) == 60
    assert all(served.count(member) >= 10 for member in wire.directory.members(("A",)))


def test_what_everybody_has_is_forgotten() -> None:
    wire = Wire("ada", "bob", "cid", replicas=3)
    wire.subscribe("bob", "A.x < B.x")
    wire.subscribe("cid", "A.x < B.x and C")
    for n in range(30):
        wire.multicast(event(f"{n}", "ABC"[n % 3], x=n % 10))
    replicas = [
        replica
        for process in wire.processes.values()
        if isinstance(process, Node)
        for replica in process.roles.values()
    ]
    assert sum(replica.retained for replica in replicas) > 30
    for _ in range(10):
        wire.pass_time(20_000)
    assert [replica.retained for replica in replicas] == [0] * len(replicas)


def test_those_below_attach_to_a_peer_and_are_sent_what_they_lack() -> None:
    wire = Wire("ada", "bob", replicas=3)
    wire.subscribe("bob", "A")
    client = wire.processes["bob"]
    server = next(source for source, to, each in wire.sent if isinstance(each, Item) and to == "bob")
    wire.holds = lambda to, message: to == "bob" and isinstance(message, Item)
    wire.multicast(event("a1", "A"), event("a2", "A"))
    wire.held.clear()  # what the server had sent is lost with it here; on reliable channels it would come twice
    wire.holds = lambda to, message: False
    wire.crash(server)
    wire.multicast(event("a3", "A"))
    assert wire.delivered["bob"] == ["a1", "a2", "a3"]
    assert isinstance(client, Client)


def test_a_new_leader_keeps_what_only_a_peer_knew() -> None:
    wire = Wire("ada", "bob", replicas=3)
    wire.subscribe("bob", "A")
    leader, second, third = wire.directory.members(("A",))
    wire.holds = lambda to, message: to == second and isinstance(message, Order | Input)
    wire.multicast(event("a1", "A"), event("a2", "A"))
    assert wire.delivered["bob"] == ["a1", "a2"]
    late = [each for each in wire.held if isinstance(each[1], Input)]
    wire.crash(leader)
    wire.held = late[::-1]  # the new leader gets the events themselves last of all, and the other way round
    wire.release()
    wire.multicast(event("a3", "A"))
    assert wire.delivered["bob"] == ["a1", "a2", "a3"]
    assert third not in wire.dead


def test_the_crash_of_the_station_with_the_token_loses_nothing() -> None:
    wire = Wire("ada", "bob", replicas=3, ordering=Ordering.TOKEN)
    wire.subscribe("bob", "A")
    for number, station in enumerate(wire.directory.members(ALL)[:1]):
        wire.multicast(event(f"a{number}", "A"))
        wire.crash(station)
    wire.multicast(event("a9", "A"))
    assert wire.delivered["bob"] == ["a0", "a9"]


# -- calls -------------------------------------------------------------------------------------------------


def test_calls_without_sense_are_refused() -> None:
    wire = Wire("ada")
    wire.tell("ada", Multicast(Notification.of({"id": "1"})))
    wire.tell("ada", Multicast(Notification.of({"type": "A"})))
    wire.subscribe("ada", "A")
    wire.subscribe("ada", "B")
    assert [reason.split("\n")[0] for reason in wire.refused] == [
        "an event that is multicast has a type",
        "a notification without an id has no identity yet",
        "a process subscribes once; several conjunctions are a disjunction",
    ]


def test_what_is_not_for_a_process_is_a_mistake() -> None:
    directory = Directory(NODES)
    with pytest.raises(AssertionError, match="nodes are not"):
        Node("n1", directory).handle(Multicast(event("a", "A")), 0)
    with pytest.raises(AssertionError, match="not for a client"):
        Client("ada", directory).handle(Input(ALL, ("x",), Need(ALL, 1, frozenset())), 0)
