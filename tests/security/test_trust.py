"""Nothing reaches a broker that it is not trusted with, and all that has a way of trusted brokers arrives."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.broker import Broker, Settings
from fairlead.broker.broker import Disclosure
from fairlead.broker.messages import (
    Admin,
    Advertise,
    Link,
    Publish,
    Reconsider,
    Redisclose,
    Refuse,
    Send,
    Subscribe,
    Unlink,
    Unsubscribe,
)
from fairlead.errors import BrokerRefused, FairleadError, PolicyError
from fairlead.filters import EVERYTHING, And, Filter, Or, covers, overlaps, parse, simplify
from fairlead.model import Notification
from fairlead.network.server import Server
from fairlead.overlay import Topology
from fairlead.routing import STRATEGIES, RoutingTable, Strategy
from fairlead.rules.rule import Route, Rule
from fairlead.rules.trust import Trust
from fairlead.security import AccessPolicy
from fairlead.security.sealing import Identity
from fairlead.security.sealing.tunnels import Tunnel
from fairlead.security.trust import SEALED, Links
from fairlead_lab.routing import CyclicSimple
from fairlead_lab.simulation.network import Simulation
from fairlead_lab.simulation.trust import TrustChecker
from fairlead_lab.testing.guarded import Guarded, token
from fairlead_lab.testing.worlds import TYPES, Deliveries, some_filter, some_notification

CLIENTS = ("ada", "bob", "cyn", "dan")
IDENTITIES = [Identity.new() for _ in range(7)]


def policy_of(handles: Mapping[str, list[str]], **more: Any) -> AccessPolicy:
    return AccessPolicy.of({"brokers": {name: {"handles": each} for name, each in handles.items()}, **more})


def links_of(topology: Topology) -> Links:
    return {name: topology.neighbours(name) for name in topology.brokers}


# -- the policy ------------------------------------------------------------------------------------------------


def test_without_a_list_all_brokers_handle_everything_and_with_one_the_others_nothing() -> None:
    assert AccessPolicy.of({}).trust.limit("hub") == EVERYTHING
    trust = policy_of({"hub": ['type = "Quote"']}).trust
    assert trust.part("hub", parse("price > 1")) == parse('price > 1 and type = "Quote"')
    assert not overlaps(trust.limit("another"), EVERYTHING)


def test_a_table_of_brokers_is_checked() -> None:
    with pytest.raises(PolicyError) as error:
        AccessPolicy.of({"untrusted": "guess", "brokers": {"hub": {"handles": ["type ="], "key": 1}}})
    for each in ("untrusted", "[brokers.hub] handles", "key"):
        assert each in str(error.value)
    assert policy_of({"hub": []}).warnings() == ["[brokers.hub]: it handles nothing"]


def test_the_fingerprint_of_a_policy_has_the_trust() -> None:
    prints = [AccessPolicy.of({}), policy_of({"a": ["x > 1"]}), policy_of({"a": ["x > 2"]})]
    prints.append(policy_of({"a": ["x > 2"]}, untrusted="cut"))
    assert len({each.fingerprint for each in prints}) == 4


# -- one way ---------------------------------------------------------------------------------------------------

LINE = {"B1": ("B2",), "B2": ("B1", "B3"), "B3": ("B2",)}
POLICE = {"B1": ["true"], "B2": ['type = "Police"'], "B3": ["true"]}


def test_a_subscription_without_a_trusted_way_is_refused_with_the_reason() -> None:
    trust = Trust("B3", policy_of(POLICE), LINE)
    answer = trust.grant("ada", "subscribe", parse('type = "Fire"'), 0)
    assert getattr(answer, "reason", "") == "no way of trusted brokers leads from B1 to B3 for that"
    assert trust.grant("ada", "subscribe", parse('type = "Police"'), 0) == parse('type = "Police"')
    # Some of it has a way: it is granted, and the rest is cut.
    assert trust.grant("ada", "subscribe", EVERYTHING, 0) == EVERYTHING
    # The broker in between need not be reached: nobody expects anything of it.
    quiet = {**POLICE, "B1": ['type = "Police"']}
    assert Trust("B3", policy_of(quiet), LINE).grant("a", "subscribe", parse('type = "Fire"'), 0) == parse(
        'type = "Fire"'
    )


@pytest.mark.parametrize("links", [None, LINE])
def test_with_cut_or_unknown_links_the_network_is_in_pieces(links: Links | None) -> None:
    trust = Trust("B3", policy_of(POLICE, untrusted="refuse" if links is None else "cut"), links)
    assert trust.grant("ada", "subscribe", parse('type = "Fire"'), 0) == parse('type = "Fire"')


def test_a_broker_refuses_its_clients_what_it_does_not_handle() -> None:
    broker = Broker("B2", Settings(STRATEGIES["covering"](0.1)), rules=[Trust("B2", policy_of(POLICE))])
    reason = "the broker B2 is not trusted with that"
    assert broker.handle(Subscribe("ada", "s", parse('type = "Fire"')), 0) == [
        Refuse("ada", reason, is_forbidden=True)
    ]
    fire = Notification.of({"type": "Fire", "producer": "ada", "id": "1"})
    assert broker.handle(Publish("ada", fire), 0) == [Refuse("ada", reason)]
    assert not broker.knows(fire)
    broker.handle(Subscribe("ada", "s", parse("price > 1")), 0)
    assert broker.clients["ada"].subscriptions.by_id["s"] == parse('price > 1 and type = "Police"')


def test_who_may_not_know_is_not_told_why() -> None:
    trust = Trust("B2", policy_of(POLICE, tell=False))
    assert trust.grant("ada", "subscribe", parse('type = "Fire"'), 0) == parse("false")


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32))
def test_ways_are_those_that_a_search_of_all_paths_finds(seed: int) -> None:
    """Against the definition: a notification passes iff all brokers of some path handle it."""
    random = Random(seed)
    topology = Topology.cyclic(random.randrange(3, 6), 0 if random.random() < 0.5 else 1, random)
    trust = some_policy(random, topology).trust
    links, start, filter = links_of(topology), random.choice(topology.brokers), some_filter(random)
    ways = trust.reachable(links, start, filter)
    for number in range(20):
        notification = some_notification(random, str(number), "p")
        reached = {start} if trust.part(start, filter).matches(notification) else set()
        while more := {far for near in reached for far in links[near]} - reached:
            handling = {far for far in more if trust.limit(far).matches(notification)}
            if not handling:
                break
            reached |= handling
        assert reached == {name for name, part in ways.items() if part.matches(notification)}


# -- sealed for other brokers ----------------------------------------------------------------------------------


def tunnels() -> dict[str, Tunnel]:
    publics = {name: IDENTITIES[number].public for number, name in enumerate(LINE)}
    return {name: Tunnel(name, IDENTITIES[number], publics) for number, name in enumerate(LINE)}


@pytest.mark.parametrize(
    "what", ["a hydrant", "a space at the end ", 32, None, {"deep": [1, {"a": "b "}]}, 1 << 80]
)
def test_what_is_sealed_for_a_broker_is_opened_by_it_and_by_the_sender_alone(what: Any) -> None:
    by = tunnels()
    given = Notification.of({"type": "Fire", "what": what, "id": "7", "producer": "ada", "time": 5})
    sealed = by["B1"].seal(given, ["B1", "B3"])
    assert {*sealed.attributes} == {"type", SEALED}
    assert (sealed.producer, sealed.id) == ("ada", "7")
    assert by["B3"].opened(sealed) == by["B1"].opened(sealed) == given
    assert by["B2"].opened(sealed) is None


@pytest.mark.parametrize(
    "change", [{"id": "8"}, {"producer": "eve"}, {"type": "Police"}, {SEALED: b"x"}, {SEALED: 1}]
)
def test_what_was_changed_on_the_way_does_not_open(change: dict[str, Any]) -> None:
    by = tunnels()
    fire = Notification.of({"type": "Fire", "what": "x", "id": "7", "producer": "ada"})
    sealed = by["B1"].seal(fire, ["B3"])
    record = {"type": "Fire", SEALED: sealed.get(SEALED), "id": "7", "producer": "ada"}
    assert by["B3"].opened(Notification.of(record)) == fire
    assert by["B3"].opened(Notification.of({**record, **change})) is None
    every = bytearray(record[SEALED])
    for place in range(5, len(every)):
        every[place] ^= 1
        assert by["B3"].opened(Notification.of({**record, SEALED: bytes(every)})) is None
        every[place] ^= 1


def test_a_broker_in_between_is_told_the_types_and_no_more() -> None:
    policy = policy_of(POLICE)
    publics = {name: IDENTITIES[number].public for number, name in enumerate(LINE)}
    policy = replace(policy, trust=replace(policy.trust, untrusted="seal", publics=publics))
    trust = Trust("B3", policy, LINE, tunnels()["B3"])
    fire = parse('type = "Fire" and district = 7 and not sealed = 1')
    assert trust.grant("ada", "subscribe", fire, 0) == fire
    assert str(trust.disclose("B2", fire)) == f'exists `{SEALED}` and type = "Fire"'
    assert trust.disclose("B1", fire) == fire
    police = parse('type = "Police" and district = 7')
    assert trust.disclose("B2", police) == police


def test_what_all_on_the_way_handle_is_not_sealed() -> None:
    publics = {name: IDENTITIES[number].public for number, name in enumerate(LINE)}
    policy = policy_of(POLICE)
    policy = replace(policy, trust=replace(policy.trust, untrusted="seal", publics=publics))
    for links, quiet in (
        (LINE, ["Police"]),
        (None, ["Police"]),
        ({**LINE, "B1": ("B2", "B3")}, ["Police", "Fire"]),
    ):
        trust = Trust("B1", policy, links, tunnels()["B1"])
        for type in ("Police", "Fire"):
            given = Notification.of({"type": type, "id": "1", "producer": "p"})
            marked = trust.mark(given, 0)
            assert (SEALED in marked.attributes) == (type not in quiet)
            if type not in quiet:
                assert tunnels()["B2"].opened(marked) is None
                assert tunnels()["B3"].opened(marked) == given


def test_with_seal_each_broker_that_handles_something_needs_a_key() -> None:
    with pytest.raises(PolicyError, match=r"\[brokers.hub\] public"):
        policy_of({"hub": ["true"], "far": []}, untrusted="seal")


# -- networks --------------------------------------------------------------------------------------------------


def some_policy(
    random: Random, topology: Topology, identities: Mapping[str, Identity] | None = None
) -> AccessPolicy:
    """Most brokers handle everything, some only some types, few nothing; with identities, it seals."""

    def handles() -> list[str]:
        chance = random.random()
        if chance < 0.55:
            return ["true"]
        some = random.sample(TYPES, random.randrange(1, 3))
        return [] if chance > 0.95 else [f'type = "{each}"' for each in some]

    policy = policy_of({name: handles() for name in topology.brokers}, untrusted="cut")
    if identities is None:
        return policy
    publics = {name: each.public for name, each in identities.items()}
    return replace(policy, trust=replace(policy.trust, untrusted="seal", publics=publics))


class World:
    """A tree or a graph of brokers with trust, and clients that come and go, all drawn from a seed."""

    def __init__(
        self,
        seed: int,
        strategy: Callable[[], Strategy],
        *,
        advertised: bool = False,
        cyclic: bool = False,
        sealed: bool = False,
    ) -> None:
        self.random = random = Random(seed)
        size = random.randrange(2, 7)
        extra = min(random.randrange(4), (size - 1) * (size - 2) // 2) if cyclic else 0
        self.topology = Topology.cyclic(size, extra, random)
        self.identities = dict(zip(self.topology.brokers, IDENTITIES, strict=False)) if sealed else None
        self.policy = some_policy(random, self.topology, self.identities)
        links = links_of(self.topology) if random.random() < 0.5 else None
        self.cyclic, self.advertised, self.published = cyclic, advertised, 0
        how = Settings(strategy(), strategy() if advertised else None, cyclic=cyclic)
        self.trusts = {
            name: Trust(name, self.policy, links if sealed else None, self.tunnel(name))
            for name in self.topology.brokers
        }
        brokers = [
            Broker(name, how, self.topology.neighbours(name), rules=[self.trusts[name]])
            for name in self.topology.brokers
        ]
        self.simulation = Simulation(brokers, seed=seed)
        self.checker = TrustChecker(self.simulation, self.policy.trust)
        self.deliveries = Deliveries()
        self.simulation.observers.append(self.deliveries)
        self.at = {client: random.choice(self.topology.brokers) for client in CLIENTS}
        self.subscriptions: dict[str, tuple[str, Filter]] = {}
        if advertised:
            for client in CLIENTS:
                self.simulation.call(self.at[client], Advertise(client, "a", parse("exists price")))

    def tunnel(self, name: str) -> Tunnel | None:
        if self.identities is None:
            return None
        return Tunnel(name, self.identities[name], self.policy.trust.publics)

    def live(self, steps: int) -> None:
        time = 0
        for number in range(steps):
            time += self.random.randrange(2_500)
            if self.subscriptions and self.random.random() < 0.35:
                id = self.random.choice(sorted(self.subscriptions))
                client, _ = self.subscriptions.pop(id)
                self.simulation.at(time, self.at[client], Unsubscribe(client, id))
            elif self.random.random() < 0.15:
                one, other = self.random.choice(self.topology.links)
                self.simulation.at(time, one, Unlink(other))
                self.simulation.at(time + 1, one, Link(other))
            else:
                self._subscribe(time, f"s{number}")
        self.simulation.run()

    def _subscribe(self, time: int, id: str) -> None:
        client, filter = self.random.choice(CLIENTS), some_filter(self.random)
        if overlaps(self.policy.trust.limit(self.at[client]), filter):
            self.subscriptions[id] = (client, filter)
            self.simulation.at(time, self.at[client], Subscribe(client, id, filter))

    def publish(self, count: int) -> list[Notification]:
        self.deliveries.all.clear()
        published = []
        for _ in range(count):
            client = self.random.choice(CLIENTS)
            self.published += 1
            published.append(some_notification(self.random, f"n{self.published}", client))
            self.simulation.call(self.at[client], Publish(client, published[-1]))
        self.simulation.run()
        return published

    def has_way(self, start: str, end: str, filter: Filter, notification: Notification) -> bool:
        """Whether brokers connect these two that all handle a notification; where there are cycles, and are other
        than both ends, all that a filter matches."""
        trust = self.policy.trust
        granted = trust.part(end, filter)

        def passes(broker: str) -> bool:
            limit = trust.limit(broker)
            return limit.matches(notification) if not self.cyclic else covers(limit, granted)

        if not (trust.limit(start).matches(notification) and trust.limit(end).matches(notification)):
            return False
        if self.identities is not None:
            return True  # through any brokers
        reached, ahead = {end}, [end]
        for near in ahead:
            for far in self.topology.neighbours(near):
                if far not in reached and passes(far):
                    reached.add(far)
                    ahead.append(far)
        return start in reached

    def expected(self, published: list[Notification]) -> list[tuple[str, str, tuple[str, ...]]]:
        found = []
        for notification in published:
            start = self.at[notification.producer]
            matching: dict[str, list[str]] = {}
            for id, (client, filter) in self.subscriptions.items():
                if filter.matches(notification) and self.has_way(
                    start, self.at[client], filter, notification
                ):
                    matching.setdefault(client, []).append(id)
            for client in matching:
                # A client gets the ids of all its subscriptions that match, whichever of them had it sent.
                ids = [id for id, (of, filter) in self.subscriptions.items() if of == client]
                ids = [id for id in ids if self.subscriptions[id][1].matches(notification)]
                found.append((client, str(notification.id), tuple(sorted(ids))))
        return sorted(found)


KINDS: dict[str, dict[str, Any]] = {
    **{name: {"strategy": lambda made=made: made(0.1)} for name, made in STRATEGIES.items()},
    "covering, advertised": {"strategy": lambda: STRATEGIES["covering"](0.1), "advertised": True},
    "merging, advertised": {"strategy": lambda: STRATEGIES["merging"](0.1), "advertised": True},
    **{
        f"{name}, sealed": {"strategy": lambda made=made: made(0.1), "sealed": True}
        for name, made in STRATEGIES.items()
    },
    "covering, advertised, sealed": {
        "strategy": lambda: STRATEGIES["covering"](0.1),
        "advertised": True,
        "sealed": True,
    },
    "cyclic": {"strategy": CyclicSimple, "cyclic": True},
}


def judge(world: World, steps: int) -> None:
    world.live(steps)
    published = world.publish(15)
    assert world.checker.breaches == []
    if not world.cyclic:
        assert sorted(world.deliveries.all) == world.expected(published)
        return
    # Around cycles more than one subscription may open a way: nothing is missed.
    missed = {each[:2] for each in world.expected(published)} - {each[:2] for each in world.deliveries.all}
    assert not missed
    seen = [each[:2] for each in world.deliveries.all]
    assert len(seen) == len(set(seen))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=max(12, settings.default.max_examples // 8))  # type: ignore[union-attr]
@given(seed=st.integers(0, 2**32))
def test_nothing_forbidden_reaches_a_broker_and_what_has_a_trusted_way_arrives(kind: str, seed: int) -> None:
    world = World(seed, **KINDS[kind])
    judge(world, world.random.randrange(1, 25))


@settings(max_examples=max(12, settings.default.max_examples // 8))  # type: ignore[union-attr]
@given(seed=st.integers(0, 2**32))
def test_when_the_trust_changes_neighbours_are_told_what_they_may_know_now(seed: int) -> None:
    world = World(seed, **KINDS[world_kind(seed)])
    world.live(12)
    for number in range(2):
        world.policy = some_policy(world.random, world.topology, world.identities)
        world.checker.trust = world.policy.trust
        for name, trust in world.trusts.items():
            trust.decide_by(world.policy, world.tunnel(name))
        for client, name in world.at.items():
            world.simulation.call(name, Reconsider(client))
            if world.advertised:  # what was refused before is advertised now
                world.simulation.call(name, Advertise(client, f"a{number}", parse("exists price")))
        for name in world.trusts:
            world.simulation.call(name, Redisclose())
        world.simulation.run()
        world.checker.breaches.clear()  # a broker knows what it has learnt before, until it is taken back
        published = world.publish(15)
        assert world.checker.breaches == []
        assert sorted(world.deliveries.all) == world.expected(published)


def world_kind(seed: int) -> str:
    return [kind for kind, how in KINDS.items() if "cyclic" not in how][seed % (len(KINDS) - 1)]


def test_a_neighbour_that_is_trusted_less_has_taken_back_what_it_knew() -> None:
    trust = Trust("B1", policy_of({"B1": ["true"], "B2": ["true"]}))
    broker = Broker("B1", Settings(STRATEGIES["covering"](0.1)), ("B2",), rules=[trust])
    broker.handle(Subscribe("ada", "s", parse("price > 1")), 0)
    trust.decide_by(policy_of(POLICE))
    (sent,) = broker.handle(Redisclose(), 0)
    assert isinstance(sent, Send)
    assert isinstance(sent.message, Admin)
    assert [str(each) for each in sent.message.added] == ['price > 1 and type = "Police"']
    assert [str(each) for each in sent.message.removed] == ["price > 1"]
    trust.decide_by(policy_of({"B1": ["true"], "B2": ["true"]}))
    (sent,) = broker.handle(Redisclose(), 0)
    assert isinstance(sent, Send)
    assert isinstance(sent.message, Admin)
    assert [str(each) for each in sent.message.added] == ["price > 1"]
    assert broker.handle(Redisclose(), 0) == []


# -- the cases of the corpus -----------------------------------------------------------------------------------

CASES = json.loads((Path(__file__).parents[1] / "corpus" / "trust.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=[each["name"] for each in CASES])
def test_a_case_of_the_corpus(case: dict[str, Any]) -> None:
    topology, policy = (
        Topology.explicit(case["links"]),
        policy_of(case["handles"], untrusted=case["untrusted"]),
    )
    how = Settings(CyclicSimple() if case["cyclic"] else STRATEGIES["covering"](0.1), cyclic=case["cyclic"])
    brokers = {
        name: Broker(name, how, topology.neighbours(name), rules=[Trust(name, policy, links_of(topology))])
        for name in topology.brokers
    }
    simulation = Simulation(brokers.values())
    checker, deliveries = TrustChecker(simulation, policy.trust), Deliveries()
    simulation.observers.append(deliveries)
    at, text = case["subscribe"]
    filter = parse(text)
    if case["refused"]:
        (refused,) = brokers[at].handle(Subscribe("ada", "s", filter), 0)
        assert isinstance(refused, Refuse)
        assert refused.reason == case["refused"]
        return
    simulation.call(at, Subscribe("ada", "s", filter))
    simulation.run()
    for name, told in case["told"].items():
        assert [str(interest.filter) for interest, _ in brokers[name].subscriptions] == told
    for number, (where, record, delivered) in enumerate(case["publish"]):
        notification = Notification.of({**record, "id": str(number), "producer": "p"})
        simulation.call(where, Publish("p", notification))
        simulation.run()
        assert [id for _, id, _ in deliveries.all] == ([str(number)] if delivered else [])
        deliveries.all.clear()
    assert checker.breaches == []


# -- live brokers ----------------------------------------------------------------------------------------------

LIVE = """
[roles.all]
members = ["ada", "root"]
allow = ["connect", "manage"]
clients = ["operator"]
publish = ["true"]
subscribe = ["true"]

[roles.brokers]
members = ["east", "hub", "west"]
allow = ["link"]

[brokers.west]
handles = ["true"]

[brokers.hub]
handles = ['type = "Police"']

[brokers.east]
handles = ["true"]
"""
LINKS = {"west": ("hub",), "hub": ("west", "east"), "east": ("hub",)}


def test_between_live_brokers_only_what_the_one_in_between_handles_goes(
    guarded: Guarded, until: Callable[[Callable[[], object]], None]
) -> None:
    guarded.write(f'untrusted = "cut"\n{LIVE}')
    servers = started(guarded)
    secret = "a hydrant in Elm Street"
    with (
        guarded.client(servers["east"], "ada") as ada,
        guarded.client(servers["west"], "ada") as west,
        ada.subscribe("exists what") as heard,
    ):
        until(lambda: subscriptions_at(servers["west"]) == ['exists what and type = "Police"'])
        west.publish({"type": "Fire", "what": secret})
        west.publish({"type": "Police", "what": "a parade"})
        assert heard.get(10).get("what") == "a parade"
        # Trusted with more, the broker in between is told more, without a restart.
        guarded.write("\n".join(('untrusted = "cut"', LIVE.replace(TRUSTED, "handles = ['true']"))))
        for server in servers.values():
            with guarded.client(server, "root", "operator") as root:
                root.reload()
        until(lambda: subscriptions_at(servers["west"]) == ["exists what"])
        west.publish({"type": "Fire", "what": "a drill"})
        assert heard.get(10).get("what") == "a drill"
    for server in servers.values():
        guarded.brokers.stop(server)
    holding = {name for name in servers for each in (guarded.path / name).rglob("*") if holds(each, secret)}
    assert holding == {"west"}


def test_through_a_live_broker_without_trust_what_others_handle_goes_sealed(
    guarded: Guarded, until: Callable[[Callable[[], object]], None]
) -> None:
    policy = LIVE
    for number, name in enumerate(("west", "hub", "east")):
        IDENTITIES[number].write(guarded.path / f"{name}.identity")
        policy = policy.replace(
            f"[brokers.{name}]", f'[brokers.{name}]\npublic = "{IDENTITIES[number].public}"'
        )
    guarded.write(f'untrusted = "seal"\n{policy}')
    servers = started(guarded, sealed=True)
    secret = "a hydrant in Elm Street"
    with (
        guarded.client(servers["hub"], "ada") as hub,
        guarded.client(servers["west"], "ada") as west,
        hub.subscribe("true") as at_hub,
    ):
        with guarded.client(servers["east"], "ada") as ada:
            ada.subscribe('what = "a parade" or type = "Fire"', durable="ada~desk").close()
        until(lambda: any(SEALED in each for each in subscriptions_at(servers["west"])))
        west.publish({"type": "Fire", "what": secret})
        west.publish({"type": "Police", "what": "a parade"})
        assert at_hub.get(10).get("what") == "a parade"
        with pytest.raises(BrokerRefused, match="is of brokers alone"):
            west.publish({"type": "Fire", SEALED: "x"})
        with guarded.client(servers["east"], "ada") as ada:
            heard = ada.subscribe('what = "a parade" or type = "Fire"', durable="ada~desk")
            got = [heard.get(10), heard.get(10)]
            assert [each.get("what") for each in got] == [secret, "a parade"]
            assert all(SEALED not in each.attributes for each in got)
    for server in servers.values():
        guarded.brokers.stop(server)
    holding = {name for name in servers for each in (guarded.path / name).rglob("*") if holds(each, secret)}
    assert holding == set()


@pytest.mark.parametrize(
    ("keys", "problem"),
    [({}, "no identity"), ({"identity": "another.identity"}, "is not the public key of this broker")],
)
def test_a_broker_that_cannot_seal_does_not_start(
    guarded: Guarded, keys: dict[str, str], problem: str
) -> None:
    Identity.new().write(guarded.path / "another.identity")
    guarded.write(f'untrusted = "seal"\n[brokers.b]\nhandles = ["true"]\npublic = "{IDENTITIES[0].public}"')
    with pytest.raises(FairleadError, match=problem):
        guarded.start("b", keys={key: str(guarded.path / file) for key, file in keys.items()})


TRUSTED = "handles = ['type = \"Police\"']"


def test_where_the_links_are_known_a_live_broker_refuses_what_has_no_trusted_way(guarded: Guarded) -> None:
    guarded.write(LIVE)
    server = guarded.start("east", logged=False, overlay=LINKS)
    with guarded.client(server, "ada") as ada:
        with pytest.raises(BrokerRefused, match="no way of trusted brokers leads from west to east for that"):
            ada.subscribe('type = "Fire"')
        with ada.subscribe('type = "Police"'):
            pass


def started(guarded: Guarded, *, sealed: bool = False) -> dict[str, Server]:
    """west - hub - east."""
    servers: dict[str, Server] = {}
    for name, links in (("hub", ()), ("east", ("hub",)), ("west", ("hub",))):
        shown = guarded.path / f"token-{name}"
        shown.write_text(token(name))
        keys = {"credentials": str(shown)}
        if sealed:
            keys["identity"] = str(guarded.path / f"{name}.identity")
        servers[name] = guarded.start(name, links=tuple(servers[each].url for each in links), keys=keys)
    return servers


def subscriptions_at(server: Server) -> list[str]:
    return [str(interest) for interest, _ in list(server.node.broker.subscriptions)]


def holds(file: Path, secret: str) -> bool:
    return file.is_file() and secret.encode() in file.read_bytes()


# -- mutants ---------------------------------------------------------------------------------------------------


def announce_all(self: Broker, strategy: Strategy, table: RoutingTable, neighbour: str) -> None:
    """A new neighbour is told the filters as they are."""
    for interest in strategy.prune(table, table.but(neighbour)):
        self._send(neighbour, Admin(self.name, (interest,), (), table is self.advertisements))


def each_message(self: Broker, *, advertisements: bool) -> None:
    """The differences are forgotten: nothing is ever taken back."""
    for neighbour in self._disclosure.limited:
        wanted = self._disclosed(neighbour, advertisements=advertisements)
        added, _ = self._disclosure.tell(neighbour, wanted, advertisements=advertisements)
        if added:
            self._send(neighbour, Admin(self.name, added, (), advertisements))


MUTANTS: tuple[tuple[str, type, str, object], ...] = (
    ("routes are not narrowed", Trust, "narrow", Rule.narrow),
    ("publications are not judged", Trust, "admit", Rule.admit),
    ("grants are not narrowed", Trust, "grant", Rule.grant),
    ("filters are told whole", Trust, "disclose", Rule.disclose),
    ("filters are told whole when a link is made", Broker, "_announce", announce_all),
    ("what has ended is not taken back", Broker, "_disclose", each_message),
    (
        "who asks to renew names everything",
        Disclosure,
        "may_know",
        lambda self, neighbour, interests: tuple(interests),
    ),
)


def tell_whole(self: Trust, neighbour: str, filter: Filter) -> Filter:
    """All that the filter says, of sealed notifications."""
    return simplify(Or.of((self._trust.part(neighbour, filter), And.of((IS_SEALED, filter)))))


IS_SEALED = parse(f"exists `{SEALED}`")
SEALING_MUTANTS: tuple[tuple[str, type, str, object], ...] = (
    ("nothing is sealed", Trust, "mark", Rule.mark),
    ("nothing is opened", Trust, "forms", Rule.forms),
    ("clients get what is sealed", Route, "without_clients", lambda self: self),
    ("filters are told whole, sealed", Trust, "disclose", tell_whole),
    (
        "the types that are wanted are not told",
        Trust,
        "disclose",
        lambda self, neighbour, filter: self._trust.part(neighbour, filter),
    ),
    (
        "all brokers are taken for connected",
        Trust,
        "_connects",
        lambda self, handling: True,
    ),
)


@pytest.mark.parametrize(
    ("mutant", "kinds"),
    [
        *((each, ("covering", "flooding", "cyclic")) for each in MUTANTS),
        *((each, ("covering, sealed",)) for each in SEALING_MUTANTS),
    ],
    ids=[each[0] for each in (*MUTANTS, *SEALING_MUTANTS)],
)
def test_a_mutant_is_caught(
    mutant: tuple[str, type, str, object], kinds: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, owner, member, mutation = mutant
    monkeypatch.setattr(owner, member, mutation)
    for seed in range(60):
        for kind in kinds:
            world = World(seed, **KINDS[kind])
            try:
                judge(world, 20)
                if kind == "covering":
                    held_in_vain(world)
            except AssertionError:
                return
    pytest.fail(f"no run shows that {name}")


def held_in_vain(world: World) -> None:
    """When all have unsubscribed, nobody knows of any filter."""
    for id, (client, _) in world.subscriptions.items():
        world.simulation.call(world.at[client], Unsubscribe(client, id))
    world.simulation.run()
    for broker in world.simulation.brokers.values():
        assert isinstance(broker, Broker)
        assert [*broker.subscriptions] == []


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32))
def test_when_all_have_unsubscribed_nobody_knows_of_any_filter(seed: int) -> None:
    world = World(seed, **KINDS["covering"])
    world.live(15)
    held_in_vain(world)
