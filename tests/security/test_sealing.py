"""Sealed attributes: with the keys everything is as it was, without them nothing is learnt and nothing is lost."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.broker import Broker, Settings
from fairlead.broker.messages import Deliver, Forward, Message, Publish, Subscribe, Unsubscribe
from fairlead.bus import Bus
from fairlead.errors import Forbidden, KeyringError, PolicyError, SealBroken, ValueRefused
from fairlead.filters import Filter, Not, covers, parse
from fairlead.filters.extensions.sealed import SealedPredicate, is_sealed
from fairlead.filters.language import render
from fairlead.filters.projection import with_leaves
from fairlead.filters.schema import Schema
from fairlead.model import ABSENT, Notification
from fairlead.model.packed import pack, unpack
from fairlead.network import sync
from fairlead.overlay import Topology
from fairlead.routing import STRATEGIES
from fairlead.rules.sealing import Sealing
from fairlead.security import AccessPolicy
from fairlead.security.annotations import PLAIN, Annotation, Annotations
from fairlead.security.credentials import bearer
from fairlead.security.sealing import Identity, Keyring, Sealer, envelope, shares, take_share
from fairlead.security.sealing import sealer as sealer_module
from fairlead.security.sealing.predicates import bind, seal_predicate
from fairlead.security.sealing.sharing import shares_for
from fairlead.testing import filters, values
from fairlead_lab.simulation.network import Observer, Simulation
from fairlead_lab.testing.brokers import PATIENCE_S
from fairlead_lab.testing.guarded import Guarded, token

CASES = json.loads((Path(__file__).parents[1] / "corpus" / "sealing.json").read_text())
CLASSES = ("police", "fire", "training")
SECOND = 1_000_000


def ring(*classes: str, of: Keyring | None = None) -> Keyring:
    """A keyring with the first key of each class, the same in every ring."""
    made = Keyring()
    for name in classes:
        made.add((name, 1), name.encode().ljust(32, b"."), 0)
    return made


def annotated(text: str, attribute: str = "x") -> Annotations:
    return Annotations.of({"*": {attribute: text}})


def sealer(text: str, *classes: str) -> Sealer:
    return Sealer(annotated(text), ring(*classes))


def note(id: str = "1", **attributes: Any) -> Notification:
    return Notification.of({"producer": "p", "id": id, **attributes})


def by_name(kind: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", CASES[kind], ids=[each["name"] for each in CASES[kind]])


# -- the cases of the corpus -----------------------------------------------------------------------------------


@by_name("reads")
def test_who_has_the_keys_of_an_alternative_opens_it(case: dict[str, Any]) -> None:
    sealed = sealer(case["sealed"], *CLASSES).seal(note(x="secret"))
    assert is_sealed(sealed.get("x"))
    view = sealer(case["sealed"], *case["keys"]).view(sealed)
    assert view.get("x") == ("secret" if case["opens"] else ABSENT)


@by_name("matches")
def test_an_attribute_satisfies_a_predicate_iff_its_classes_are_an_alternative(case: dict[str, Any]) -> None:
    every = sealer("plain | police | fire | police & training", *CLASSES)
    sealed = every.seal(note(x=1), {"x": Annotation.parse(case["sealed"])})
    alternatives = Annotation.parse(case["predicate"]).alternatives
    for value, outcome in ((1, case["right"]), (2, case["wrong"])):
        predicate = seal_predicate("x", parse(f"x = {value}"), alternatives, every.keyring, every.annotations)
        assert predicate.matches(sealed) is case["keyless"]
        assert every.bind(predicate).matches(sealed) is outcome


@by_name("covers")
def test_covering_is_that_of_the_predicates_and_of_the_alternatives(case: dict[str, Any]) -> None:
    keyring = ring(*CLASSES)
    opener = Sealer(Annotations(), keyring).opener
    one, other = (
        seal_predicate("x", parse(text), Annotation.parse(classes).alternatives, keyring, Annotations())
        for text, classes in (case["one"], case["other"])
    )
    assert covers(one, other) is case["keyless"]
    bound, another = bind(one, opener), bind(other, opener)
    assert covers(bound, another) is case["keyless"]  # whatever keys a broker has, all agree
    assert bound.test.covers_by_keys(another.test) is case["keyed"]  # type: ignore[attr-defined]


@by_name("inherits")
def test_a_subtype_may_remove_alternatives_and_add_none(case: dict[str, Any]) -> None:
    schema = Schema.parse("type Emergency\ntype Accident: Emergency\n")
    given = {"Emergency": {"x": case["parent"]}, "Accident": {"x": case["child"]}}
    if case["allowed"]:
        made = Annotations.of(given, schema)
        assert str(made.of_type("Accident")["x"]) == str(Annotation.parse(case["child"]))
        assert Annotations.of({"Emergency": given["Emergency"]}, schema).of_type("Accident")["x"]
    else:
        with pytest.raises(PolicyError, match="adds an alternative"):
            Annotations.of(given, schema)


# -- laws of values --------------------------------------------------------------------------------------------


@given(value=values())
def test_opened_is_what_was_sealed_whatever_it_is(value: Any) -> None:
    given = note(x=value, y=1)
    every = sealer("police & training | fire", *CLASSES)
    sealed = every.seal(given)
    if given.get("x") is not ABSENT:
        assert is_sealed(sealed.get("x"))
    travelled = unpack(pack(sealed))
    assert travelled == sealed
    assert every.view(travelled) == given
    assert every.view(travelled).content == given.content
    assert sealer("police & training | fire", "training").view(travelled).get("x") is ABSENT


@given(text=st.text(st.sampled_from("abcdefgh"), min_size=12, max_size=30))
def test_the_content_is_nowhere_in_what_travels(text: str) -> None:
    sealed = sealer("police", "police").seal(note(x={"deep": [text]}, y=1))
    assert text.encode() not in pack(sealed)
    assert text not in sealed.to_json()
    assert text not in repr(sealed)


def test_sealed_booleans_are_of_one_length_and_equal_values_look_different() -> None:
    one = sealer("police", "police")
    sealed = [one.seal(note(x=value)).get("x") for value in (True, False, True)]
    assert len({len(each) for each in sealed}) == 1
    assert len({*sealed}) == 3


@pytest.mark.parametrize(
    "moved",
    [
        lambda sealed: note("8", x=sealed.get("x")),
        lambda sealed: note("1", y=sealed.get("x")),
        lambda sealed: replace(sealed, producer="q"),
        lambda sealed: note("1", type="T", x=sealed.get("x")),
        lambda sealed: note("1", x=sealed.get("x")[:-1] + bytes([sealed.get("x")[-1] ^ 1])),
        lambda sealed: note("1", x=sealed.get("x").replace(b"police", b"polize")),
        lambda sealed: note("1", x=sealed.get("x")[:40]),
        lambda sealed: note("1", x=b"\xf1FLS1"),
        lambda sealed: note("1", x=b"\xf1FLS1\xff\xff" + b"[" * 0xFFFF),
        lambda sealed: note("1", x=b'\xf1FLS1\x00\x0b[["police"]]'),
    ],
)
def test_what_is_moved_or_changed_does_not_open(moved: Callable[[Notification], Notification]) -> None:
    """I-16: the id, the name, the producer and the type are authenticated."""
    one = sealer("police", "police")
    changed = moved(one.seal(note(x="secret")))
    try:
        view = one.view(changed)
    except SealBroken:
        return
    assert view.get("x") is ABSENT  # it names keys that nobody has


def test_a_head_that_cannot_be_read_matches_no_sealed_predicate_that_needs_the_attribute() -> None:
    every = sealer("police", "police")
    hostile = note("1", x=b"\xf1FLS1\xff\xff" + b"[" * 0xFFFF)
    assert not every.filter("x = 1").matches(hostile)
    assert every.objection(hostile, 0) == "the head of a sealed value cannot be read"


def test_what_has_to_be_sealed_and_cannot_be_is_refused() -> None:
    with pytest.raises(KeyringError, match="x has to be sealed under police"):
        sealer("police").seal(note(x=1))
    assert sealer("plain | police").seal(note(x=1)) == note(x=1)
    with pytest.raises(Forbidden, match="x is sealed under police, not fire"):
        sealer("police", *CLASSES).seal(note(x=1), {"x": Annotation.parse("fire")})
    with pytest.raises(ValueRefused, match="an id and a producer"):
        sealer("police", "police").seal(Notification.of({"x": 1}))
    with pytest.raises(ValueRefused, match="x is sealed as a whole"):
        sealer("police", "police").seal(Notification.of({"x.y": 1, "producer": "p", "id": "1"}))


# -- laws of filters -------------------------------------------------------------------------------------------

WORLD = Annotations.of({"*": {"price": "police", "name": "plain | police & training"}})


@settings(max_examples=200)
@given(
    filter=filters(),
    records=st.lists(st.dictionaries(st.sampled_from(["price", "name", "x"]), values(), max_size=3)),
)
def test_a_sealed_filter_matches_whatever_the_filter_matches_and_with_the_keys_no_more(
    filter: Filter, records: list[dict[str, Any]]
) -> None:
    """S-I7: without the keys a broker forwards too much, never too little."""
    every = Sealer(WORLD, ring(*CLASSES))
    sealed = parse(render(every.filter(filter)))
    bound = every.bind(sealed)
    assert render(bound) == render(sealed)
    for number, record in enumerate(records):
        given = Notification.of({**record, "id": str(number), "producer": "p"})
        travelling = every.seal(given)
        if filter.matches(given):
            assert sealed.matches(travelling)
            assert bound.matches(travelling)
            assert every.read(filter, travelling) == given
        else:
            assert every.read(filter, travelling) is None


@given(
    texts=st.lists(
        st.sampled_from(["price > 1", "price > 2", "not price > 1", "price in {1, 2}"]),
        min_size=2,
        max_size=2,
    ),
    classes=st.lists(
        st.sampled_from(["police", "fire", "plain | police", "police & fire"]), min_size=2, max_size=2
    ),
    keyed=st.booleans(),
)
def test_covering_by_token_or_by_key_is_sound(texts: list[str], classes: list[str], keyed: bool) -> None:
    keyring = ring(*CLASSES)
    one, other = (
        seal_predicate("price", parse(text), Annotation.parse(each).alternatives, keyring, Annotations())
        for text, each in zip(texts, classes, strict=True)
    )
    every = Sealer(annotated("plain | police | fire | police & fire", "price"), keyring)
    if keyed:
        one, other = every.bind(one), every.bind(other)
    assert not covers(one, other) or one.test.covers_by_keys(other.test)  # type: ignore[attr-defined]
    if not one.test.covers_by_keys(other.test):  # type: ignore[attr-defined]
        return
    for under in ("plain", "police", "fire", "police & fire"):
        for price in (None, 1, 2, 3):
            given = note() if price is None else note(price=price)
            sealed = every.seal(given, {"price": Annotation.parse(under)})
            if every.bind(other).matches(sealed):
                assert every.bind(one).matches(sealed)


def test_a_predicate_shows_its_classes_and_nothing_of_itself() -> None:
    every = sealer("police | fire", *CLASSES)
    texts = [render(every.filter(text)) for text in ('x = "hydrant"', 'x = "parades"', 'x = "hydrant"')]
    assert texts[0] == texts[2] != texts[1]
    assert len(texts[0]) == len(texts[1])
    assert "hydrant" not in texts[0]
    with pytest.raises(Forbidden, match="x is sealed, and no key opens it here"):
        sealer("police").filter("x = 1")


def test_a_filter_that_is_not_about_sealed_attributes_stays_as_it_is() -> None:
    assert sealer("police", "police").filter("y > 1 and not z = 2") == parse("y > 1 and not z = 2")


# -- keys ------------------------------------------------------------------------------------------------------


def test_a_keyring_is_kept_in_a_file_of_its_owner_and_shows_no_key(tmp_path: Path) -> None:
    keyring = ring("police")
    keyring.rotate("police", 5 * SECOND)
    path = tmp_path / "keys.json"
    keyring.write(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [*tmp_path.iterdir()] == [path]
    again = Keyring.read(path)
    assert [*again] == [("police", 1), ("police", 2)]
    assert again.secret(("police", 2)) == keyring.secret(("police", 2))
    assert repr(again) == "Keyring(police:1, police:2)"
    with pytest.raises(KeyringError, match="not pickled"):
        pickle.dumps(again)
    path.write_text('{"format": 1, "keys": [{"class": "a", "epoch": 1, "since": 0, "key": "c2VjcmV0"}]}')
    with pytest.raises(KeyringError) as error:
        Keyring.read(path)
    assert "c2VjcmV0" not in str(error.value)
    with pytest.raises(KeyringError, match="cannot be read"):
        Keyring.read(tmp_path / "none")
    with pytest.raises(KeyringError, match="there is another key of this epoch"):
        ring("police").add(("police", 1), b"x" * 32, 0)


def test_who_is_not_given_the_new_key_reads_nothing_that_is_sealed_from_then_on() -> None:
    """I-15: rotated at 100, with a grace of 30."""
    authority, member = ring("police"), ring("police")
    grace = {"police": 30 * SECOND}
    notes = annotated("police")
    before = Sealer(notes, member).seal(note(x=99))
    authority.rotate("police", 100 * SECOND)
    after = Sealer(notes, authority).seal(note("2", x=101))
    reading = Sealer(notes, authority, grace)
    assert Sealer(notes, member).view(before).get("x") == 99  # the revoked member has it
    assert Sealer(notes, member).view(after).get("x") is ABSENT
    assert reading.view(after).get("x") == 101
    late = Sealer(notes, member).seal(note("3", x=101))
    assert reading.objection(late, 130 * SECOND) is None
    assert (
        reading.objection(late, 130 * SECOND + 1) == "x is sealed with the key police:1, which was replaced"
    )


def test_keys_are_shared_through_the_service_and_only_their_member_gets_them() -> None:
    giver, ada, eve = Identity.new(), Identity.new(), Identity.new()
    authority = ring("police")
    authority.rotate("police", 100 * SECOND)
    given = shares(authority, {"police": ["ada"]}, {"ada": ada.public}, giver)
    with Bus() as bus:
        received = bus.subscribe(shares_for("ada"), subscriber="ada")
        for each in given:
            bus.publish({"producer": "authority", **each})
        share = received.get(0)
    keyring = Keyring()
    assert take_share(keyring, share, ada, giver.public)
    assert not take_share(keyring, share, ada, giver.public)
    assert keyring.secret(("police", 2)) == authority.secret(("police", 2))
    assert keyring.since(("police", 2)) == 100 * SECOND
    assert authority.secret(("police", 2)) not in pack(share)
    for identity, by, changes in (
        (eve, giver, {}),
        (ada, eve, {}),
        (ada, giver, {"epoch": 3}),
        (ada, giver, {"class": "fire"}),
        (ada, giver, {"since": 1}),
        (ada, giver, {"sealed": 10**15}),
        (ada, giver, {"signature": "none"}),
    ):
        with pytest.raises(SealBroken):
            take_share(Keyring(), Notification.of({**given[0], **changes}), identity, by.public)
    with pytest.raises(KeyringError, match="public key of bob"):
        shares(authority, {"police": ["bob"]}, {}, giver)
    assert "Identity(" in repr(ada)
    with pytest.raises(KeyringError):
        take_share(Keyring(), share, ada, "not a key")


def test_an_identity_is_kept_in_a_file_of_its_owner(tmp_path: Path) -> None:
    one = Identity.new()
    one.write(tmp_path / "ada")
    assert (tmp_path / "ada").stat().st_mode & 0o777 == 0o600
    assert Identity.read(tmp_path / "ada").public == one.public
    (tmp_path / "bad").write_text("{}")
    with pytest.raises(KeyringError, match="no identity"):
        Identity.read(tmp_path / "bad")


# -- the policy ------------------------------------------------------------------------------------------------

POLICY = {
    "keys": {name: {"members": ["ada"], "grace_seconds": 30} for name in CLASSES},
    "sealed": {"Accident": {"location": "plain | police | fire", "isDrill": "police & training"}},
}


def test_a_policy_has_the_classes_of_sealed_attributes() -> None:
    policy = AccessPolicy.of(POLICY)
    assert policy.grace_us == dict.fromkeys(CLASSES, 30 * SECOND)
    assert policy.sealed.of_type("Accident")["location"].alternatives >= {PLAIN, frozenset({"fire"})}
    assert policy.sealed.of_type("Parade") == {}
    assert policy.fingerprint != AccessPolicy.of({}).fingerprint
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"sealed": {"T": {"x": "army"}}}, r"there is no \[keys.army\]"),
        ({"sealed": {"T": {"x": "police &"}}, "keys": POLICY["keys"]}, "no key class"),
        ({"sealed": {"T": {"id": "police"}}, "keys": POLICY["keys"]}, "not of its envelope"),
        ({"sealed": {"T": "police"}}, "a table"),
        ({"sealed": {"T": {"x": 1}}}, "as text"),
        ({"keys": {"police": {"member": []}}}, "no such key"),
    ]
    for tables, reason in wrong:
        with pytest.raises(PolicyError, match=reason):
            AccessPolicy.of(tables)


def test_on_a_bus_what_has_to_be_sealed_is_refused_in_clear() -> None:
    policy = AccessPolicy.of(POLICY)
    with_keys = Sealer(policy.sealed, ring(*CLASSES), policy.grace_us)
    with Bus(rules=[Sealing(Sealer(policy.sealed, Keyring()))]) as bus:
        clear = 'isDrill = false and location = "Elm Street"'
        heard = bus.subscribe(with_keys.filter(clear), subscriber="ada")
        accident = note(type="Accident", isDrill=False, location="Elm Street")
        with pytest.raises(Forbidden, match="isDrill has to be sealed under police & training"):
            bus.publish(accident)
        other = with_keys.seal(note("2", type="Accident", isDrill=True, location="Elm Street"))
        wrong = Annotations.of({"Accident": {"isDrill": "police"}})
        with pytest.raises(Forbidden, match="isDrill has to be sealed under police & training, not police"):
            bus.publish(Sealer(wrong, ring(*CLASSES)).seal(accident))
        bus.publish(with_keys.seal(accident))
        bus.publish(other)
        got = [with_keys.read(parse(clear), heard.get(0)) for _ in range(2)]
        assert got == [accident, None]  # this bus has no keys: the subscriber decides
    with Bus(rules=[Sealing(with_keys)]) as bus:
        heard = bus.subscribe(with_keys.filter(clear), subscriber="ada")
        bus.publish(other)
        bus.publish(with_keys.seal(accident))
        assert with_keys.view(heard.get(0)) == accident
        assert len(heard) == 0
        with pytest.raises(Forbidden, match="belongs to another notification"):
            bus.publish(replace(with_keys.seal(accident), id="9"))


# -- networks --------------------------------------------------------------------------------------------------

PLANTED = ("hydrant", "parades", "lantern")
ANNOTATED = Annotations.of({"*": {"where": "police", "what": "plain | police & training"}})
CLIENTS = ("ada", "bob", "cyn")


class Seen(Observer):
    """Everything that travels, by the broker that gets it, as text and bytes; and how often notifications do."""

    def __init__(self) -> None:
        self.bytes: dict[str, list[bytes]] = {}
        self.forwards = 0

    def sent(self, now: int, source: str, to: str, message: Message) -> None:
        shown = pack(message.notification) if isinstance(message, Forward) else str(message).encode()
        self.bytes.setdefault(to, []).append(shown)
        self.forwards += isinstance(message, Forward)


class World(Observer):
    """A tree of brokers, some with keys, and clients with all keys or some, drawn from a seed."""

    def __init__(self, seed: int, *, share: float = 0.5) -> None:
        self.random = random = Random(seed)
        self.topology = Topology.random_tree(random.randrange(1, 6), random)
        how = Settings(STRATEGIES[random.choice(sorted(STRATEGIES))](0.1))
        self.keyed = {name for name in self.topology.brokers if random.random() < share}
        brokers = []
        for name in self.topology.brokers:
            keys = ring(*random.sample(CLASSES, random.randrange(1, 4))) if name in self.keyed else Keyring()
            rules = [Sealing(Sealer(ANNOTATED, keys))]
            brokers.append(Broker(name, how, self.topology.neighbours(name), rules=rules))
        self.simulation = Simulation(brokers, seed=seed)
        self.seen = Seen()
        self.simulation.observers.append(self.seen)
        self.delivered: list[tuple[str, Notification]] = []
        self.simulation.observers.append(self)
        self.at = {client: random.choice(self.topology.brokers) for client in CLIENTS}
        some = {client: ring(*CLASSES) if random.random() < 0.7 else ring("police") for client in CLIENTS}
        self.sealers = {client: Sealer(ANNOTATED, keys) for client, keys in some.items()}
        self.subscriptions: dict[str, tuple[str, Filter]] = {}

    def handled(self, now: int, broker: Any, message: Any, effects: list[Any]) -> None:
        self.delivered += [(each.client, each.notification) for each in effects if isinstance(each, Deliver)]

    def subscribe(self, count: int) -> None:
        for number in range(count):
            client = self.random.choice(CLIENTS)
            one, other = self.random.sample(PLANTED, 2)
            # Who opens `what` in clear only has predicates in clear, too.
            what = one if "training" in self.sealers[client].keyring.classes else "open house"
            text = self.random.choice(
                (
                    f'where = "{one}"',
                    f'service = 1 and where in {{"{one}", "{other}"}}',
                    f'not where = "{one}"',
                    f'not what = "{what}"',
                    "not exists what",
                    f'what = "{what}" or where = "{other}"',
                    "service > 1",
                )
            )
            self.subscriptions[f"s{number}"] = (client, parse(text))
            sealed = self.sealers[client].filter(text)
            self.simulation.call(self.at[client], Subscribe(client, f"s{number}", sealed))
        self.simulation.run()
        for id in self.random.sample(sorted(self.subscriptions), len(self.subscriptions) // 3):
            client, _ = self.subscriptions.pop(id)
            self.simulation.call(self.at[client], Unsubscribe(client, id))
        self.simulation.run()

    def publish(self, count: int) -> Iterator[tuple[Notification, Notification]]:
        every = Sealer(ANNOTATED, ring(*CLASSES))
        for number in range(count):
            record = {"service": self.random.randrange(3), "where": self.random.choice(PLANTED)}
            if self.random.random() < 0.5:
                record["what"] = self.random.choice(PLANTED)
            clear = note(str(number), **record)
            sealed = every.seal(clear)
            self.simulation.call(self.at["ada"], Publish("p", sealed))
            self.simulation.run()
            yield clear, sealed


def judge(world: World) -> None:
    """Everybody gets what matches on their own view; nobody sees what is sealed."""
    world.subscribe(8)
    for _, sealed in world.publish(6):
        got = {}
        for client, notification in world.delivered:
            own = [each for of, each in world.subscriptions.values() if of == client]
            view = world.sealers[client].view(notification)
            if any(each.matches(view) for each in own):
                got[client] = view
        expected = {}
        for client, filter in world.subscriptions.values():
            view = world.sealers[client].view(sealed)
            if filter.matches(view):
                expected[client] = view
        assert got == expected
        assert len({client for client, _ in world.delivered}) == len(world.delivered)
        world.delivered.clear()
    for each in (each for some in world.seen.bytes.values() for each in some):
        assert not any(planted.encode() in each for planted in PLANTED)


@settings(max_examples=max(25, settings.default.max_examples // 4))  # type: ignore[union-attr]
@given(seed=st.integers(0, 2**32))
def test_everybody_gets_what_they_would_if_all_brokers_had_all_keys_and_nothing_sealed_is_seen(
    seed: int,
) -> None:
    judge(World(seed))


@pytest.mark.parametrize(("keys", "forwards"), [((), 2), (("police",), 0)])
def test_a_broker_with_the_key_does_not_forward_what_nobody_wants(
    keys: tuple[str, ...], forwards: int
) -> None:
    """I-14: P at B1, C at B3 subscribes to service = x and location = a; n(x, b) is published."""
    notes = annotated("police", "location")
    rings = {"B1": ring(*keys), "B2": Keyring(), "B3": ring("police")}
    topology, how = Topology.line(3), Settings(STRATEGIES["covering"](0.1))
    simulation = Simulation(
        Broker(name, how, topology.neighbours(name), rules=[Sealing(Sealer(notes, rings[name]))])
        for name in topology.brokers
    )
    seen = Seen()
    simulation.observers.append(seen)
    client = Sealer(notes, ring("police"))
    clear = 'service = "x" and location = "a"'
    simulation.call("B3", Subscribe("c", "s", client.filter(clear)))
    simulation.run()
    simulation.call("B1", Publish("p", client.seal(note("1", service="x", location="b"))))
    simulation.run()
    assert seen.forwards == forwards
    simulation.call("B1", Publish("p", client.seal(note("2", service="y", location="a"))))
    simulation.run()
    assert seen.forwards == forwards  # what is in clear decides at every broker
    simulation.call("B1", Publish("p", client.seal(note("3", service="x", location="a"))))
    simulation.run()
    assert seen.forwards == forwards + 2


@pytest.mark.parametrize("keys", [(), ("police",)])
def test_of_equal_sealed_predicates_one_is_forwarded_whatever_keys_a_broker_has(
    keys: tuple[str, ...],
) -> None:
    notes = annotated("police")
    client = Sealer(notes, ring("police"))
    rules = [Sealing(Sealer(notes, ring(*keys)))]
    broker = Broker("B1", Settings(STRATEGIES["covering"](0.1)), ("B2",), rules=rules)
    texts = ("x > 1", "x > 2", "x > 1")
    calls = [Subscribe(f"c{number}", "s", client.filter(text)) for number, text in enumerate(texts)]
    assert [len(broker.handle(each, 0)) for each in calls] == [1, 1, 0]


# -- live brokers ----------------------------------------------------------------------------------------------

LIVE = """
[roles.all]
members = ["ada", "bob", "authority"]
publish = ["true"]
subscribe = ["true"]
durables = ["*"]

[roles.brokers]
members = ["hub", "west"]
allow = ["link"]

[keys.police]
members = ["ada"]

[sealed.Accident]
location = "police"

[sealed."*"]
witness = "police"
"""


def test_over_live_brokers_only_clients_with_the_key_learn_what_is_sealed(guarded: Guarded) -> None:
    guarded.write(LIVE)
    policy = AccessPolicy.read(guarded.path / "policy.toml")
    ring("police").write(guarded.path / "hub.keys")
    for name in ("hub", "west"):
        (guarded.path / f"token-{name}").write_text(token(name))
    shown = {name: {"credentials": str(guarded.path / f"token-{name}")} for name in ("hub", "west")}
    hub = guarded.start("hub", keys=shown["hub"] | {"keys": str(guarded.path / "hub.keys")})
    west = guarded.start("west", links=(hub.url,), keys=shown["west"])
    secret = "hydrant in Elm Street"

    def client(server: Any, name: str, *classes: str) -> sync.Client:
        own = Sealer(policy.sealed, ring(*classes))
        return sync.connect(server.url, credentials=bearer(token(name)), patience=PATIENCE_S, sealer=own)

    with (
        client(west, "ada", "police") as ada,
        client(hub, "ada", "police") as publisher,
        client(west, "bob") as bob,
        ada.subscribe(f'location = "{secret}"', durable="ada-desk") as accidents,
        bob.subscribe('type = "Accident"') as blind,
    ):
        with pytest.raises(Forbidden, match="witness is sealed"), bob.subscribe('witness = "a"'):
            pass
        publisher.publish({"type": "Accident", "location": "elsewhere", "number": 1})
        publisher.publish({"type": "Accident", "location": secret, "number": 2})
        got = accidents.get(10)
        assert (got.get("number"), got.get("location")) == (2, secret)
        assert [blind.get(10).get("number") for _ in range(2)] == [1, 2]
        with (
            sync.connect(hub.url, credentials=bearer(token("ada")), patience=PATIENCE_S) as careless,
            pytest.raises(Exception, match="location has to be sealed under police"),
        ):
            careless.publish({"type": "Accident", "location": secret})
    for server in (west, hub):
        guarded.brokers.stop(server)
    files = [each for each in guarded.path.rglob("*") if each.is_file()]
    assert len(files) > 5
    assert not [each for each in files if secret.encode() in each.read_bytes()]
    key = ring("police").secret(("police", 1))
    assert [each.name for each in files if key in each.read_bytes()] == []  # it is in hub.keys, in Base64


# -- mutants ---------------------------------------------------------------------------------------------------


def moved_by_name() -> None:
    one = sealer("police", "police")
    with pytest.raises(SealBroken):
        one.view(note("1", y=one.seal(note(x="secret")).get("x")))


SCENES: tuple[Callable[[], None], ...] = (
    *(lambda case=case: test_who_has_the_keys_of_an_alternative_opens_it(case) for case in CASES["reads"]),
    *(
        lambda case=case: test_an_attribute_satisfies_a_predicate_iff_its_classes_are_an_alternative(case)
        for case in CASES["matches"]
    ),
    *(
        lambda case=case: test_covering_is_that_of_the_predicates_and_of_the_alternatives(case)
        for case in CASES["covers"]
    ),
    *(
        lambda case=case: test_a_subtype_may_remove_alternatives_and_add_none(case)
        for case in CASES["inherits"]
    ),
    lambda: test_what_is_moved_or_changed_does_not_open(lambda sealed: note("8", x=sealed.get("x"))),
    moved_by_name,
    *(lambda seed=seed: judge(World(seed)) for seed in range(40)),
    test_who_is_not_given_the_new_key_reads_nothing_that_is_sealed_from_then_on,
    test_on_a_bus_what_has_to_be_sealed_is_refused_in_clear,
)


def negated(filter: Filter, leaf: Callable[[Filter], Filter]) -> Filter:
    """The projection of a negation is the negation of the projection."""
    if isinstance(filter, Not):
        return Not(with_leaves(filter.part, leaf))
    return with_leaves(filter, leaf)


BOUND = envelope.bound_to


def any_class(text: str) -> Annotation:
    """`&` is read as `|`."""
    return Annotation(frozenset(frozenset({name}) for each in PARSE(text).alternatives for name in each))


PARSE = Annotation.parse


def covers_without_classes(self: SealedPredicate, other: SealedPredicate) -> bool:
    return any(self._copies.get(epochs) == sealed for epochs, sealed in other._copies.items())


def covers_with_keys(self: SealedPredicate, other: SealedPredicate) -> bool:
    """Brokers with keys know more of what covers what than their neighbours."""
    mine, theirs = self.predicate, other.predicate
    is_known = mine is not None and theirs is not None and covers(mine, theirs)
    return COVERS(self, other) or (is_known and self._has_all_alternatives(other))


COVERS = SealedPredicate.covers


def dropped(self: SealedPredicate, notification: Notification) -> bool:
    """Without the keys, nothing matches."""
    return MATCHES(self, notification) and (
        self.predicate is not None or not is_sealed(notification.get(self.attribute))
    )


MATCHES = SealedPredicate.matches

MUTANTS: tuple[tuple[str, Any, str, Any], ...] = (
    ("the id is not bound", envelope, "bound_to", lambda n, name, head: BOUND(replace(n, id=""), name, head)),
    ("the name is not bound", envelope, "bound_to", lambda n, name, head: BOUND(n, "", head)),
    ("a broker without the key drops", SealedPredicate, "matches", dropped),
    ("a negation negates the projection", sealer_module, "with_leaves", negated),
    ("covering ignores the classes", SealedPredicate, "covers", covers_without_classes),
    ("covering depends on keys", SealedPredicate, "covers", covers_with_keys),
    ("a conjunction is read as any class", Annotation, "parse", any_class),
    ("a subtype may add alternatives", Annotation, "refines", lambda self, other: True),
    (
        "predicates travel in clear",
        Sealer,
        "filter",
        lambda self, filter: parse(filter) if isinstance(filter, str) else filter,
    ),
    ("replaced keys hold for ever", Keyring, "replaced_at", lambda self, epoch: None),
    ("publications are not judged", Sealer, "objection", lambda self, notification, now: None),
)


@pytest.mark.parametrize(("name", "owner", "member", "mutation"), MUTANTS, ids=[each[0] for each in MUTANTS])
def test_a_mutant_is_caught(
    name: str, owner: Any, member: str, mutation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, member, mutation)
    for scene in SCENES:
        try:
            scene()
        except (AssertionError, pytest.fail.Exception):
            return
    pytest.fail(f"nothing shows that {name}")
