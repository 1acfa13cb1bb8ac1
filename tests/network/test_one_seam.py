"""The simulator and the sockets ask one seam and drive one program: the same plan has the same effects on both.

Every effect is compared: records of the logs, filters that brokers send each other, forwarded and delivered
notifications, acknowledgements, duplicates, refusals.

And a fast path is an optimisation: with the slow one, every verdict and every effect is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairlead.broker import Broker, Settings
from fairlead.broker.messages import (
    Acknowledge,
    Admin,
    Advertise,
    Append,
    Call,
    Command,
    Deliver,
    Duplicate,
    Effect,
    Forward,
    Grant,
    Leave,
    Message,
    Notice,
    Publish,
    Refuse,
    Send,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    Wake,
)
from fairlead.channels import Channel, Channels, Expires, Retain
from fairlead.filters.language import parse, render
from fairlead.filters.schema import Schema
from fairlead.log.records import (
    NOTIFICATIONS,
    PUBLICATION,
    Stamp,
    notification_in,
    parse_arrival,
    parse_stamp,
)
from fairlead.model import Notification
from fairlead.model.packed import pack, unpack
from fairlead.network import wire
from fairlead.network.destinations import neighbour_in
from fairlead.network.node import Node
from fairlead.network.relays import Relays
from fairlead.overlay import Topology
from fairlead.routing import STRATEGIES
from fairlead.rules import Rule, Seam
from fairlead.rules.access import Access, client_name
from fairlead.rules.channeling import Channeling
from fairlead.rules.domains import Domains
from fairlead.rules.integrated import BrokerScoping
from fairlead.rules.quota import Quota
from fairlead.rules.trust import Trust
from fairlead.scopes import Scopes
from fairlead.security import AccessPolicy, Principal
from fairlead_lab.simulation.network import Observer, Simulation
from fairlead_lab.testing.chaos import FAULTS, Plan, World
from fairlead_lab.testing.nodes import End, Line
from fairlead_lab.testing.rules import AtMost, NoDuck, NoEvil, NotFor, NotForOf, OneByOne, OnlyOf

BROKERS = 3
LINE = Topology.explicit([("b0", "b1"), ("b1", "b2")])
FILTERS = ("x >= 0", "x >= 5", "x < 5", 'kind = "a"', "x in {1, 7} or tag = 1", "z.w = 1")
ADVERTISED = ("exists x", "x < 7", 'kind = "b"')
POLICY = AccessPolicy.of(
    {
        "roles": {
            "brokers": {"members": ["b?"], "allow": ["link"]},
            "readers": {"members": ["s?", "p1"], "subscribe": ["x < 8", 'kind = "a"']},
            "writer": {"members": ["p0"], "publish": ["x < 6"], "producers": ["p"]},
            "other": {"members": ["p1"], "publish": ['kind = "b"', "x = 1"], "producers": ["q", "evil"]},
        }
    }
)
LIMITED = AccessPolicy.of(
    {
        "roles": {
            "brokers": {"members": ["b?"], "allow": ["link"]},
            "all": {"members": ["*"], "subscribe": ["true"], "publish": ["true"], "producers": ["*"]},
            "few": {"members": ["p0"], "publications_per_second": 1},
        }
    }
)

SCHEMA = Schema.parse("x: int\nkind: string\nduck: string?\ntag: number\nz.w: int")
TRUSTING = AccessPolicy.of(
    {
        "brokers": {
            "b0": {"handles": ["true"]},
            "b1": {"handles": ["x < 7 or exists duck"]},
            "b2": {"handles": ["true"]},
        }
    }
)


INTERFACES = """
DEFINE SCOPE T AS ALL FROM S, s0
DEFINE SCOPE S AS ALL FROM p, s1, p1 INTERFACES INPUT(0), OUTPUT(x < 5)
DEFINE COMPONENT p0 AS SUPERSCOPE FROM T SET relays = true
DEFINE COMPONENT p1 AS SUPERSCOPE FROM S : { INTERFACES INPUT(kind = "a"), OUTPUT(1) } SET relays = true
"""
VERSIONS = """
DEFINE SCOPE T AS ALL FROM S, s0
DEFINE SCOPE S AS ALL FROM p, s1, p1 INTERFACES INPUT(1), OUTPUT(x < 5)
  MAP OUTWARD { x = x + 4 } MAP INWARD { DROP kind }
  INTERNAL POLICY ONE BY TURN WHEN (kind = "b")
DEFINE COMPONENT p0 AS SUPERSCOPE FROM T SET relays = true
DEFINE COMPONENT p1 AS SUPERSCOPE FROM S SET relays = true
"""


def _with_quota(access: Access) -> list[Rule]:
    return [access, Quota(access)]


CHANNELS = Channels(
    [
        Channel("gone", "x = 0", expires=Expires("x")),  # at the instant of its publication
        Channel("long", 'kind = "b"', retain=Retain(per=("x",)), expires="1h"),
    ]
)
RULES: dict[str, Callable[[str], list[Rule]]] = {
    "none": lambda name: [],
    "producer": lambda name: [NoEvil(), NotFor("p", "c:s1")],
    "client": lambda name: [OnlyOf("c:p0")],
    "concern": lambda name: [NotForOf("p", "c:s1", "c:p0")],
    "attribute": lambda name: [NoDuck()],
    "count": lambda name: [AtMost(3)],
    "quota": lambda name: _with_quota(Access(LIMITED, lambda client: Principal(client_name(client)))),
    "scopes": lambda name: [BrokerScoping(Scopes.parse(INTERFACES))],
    "versions": lambda name: [BrokerScoping(Scopes.parse(VERSIONS))],
    "access": lambda name: [Access(POLICY, lambda client: Principal(client_name(client)))],
    "schema": lambda name: [Domains(SCHEMA)],
    "trust": lambda name: [Trust(name, TRUSTING)],
    "channels": lambda name: [Channeling(CHANNELS)],
}
"""For the broker of a name."""

# -- plans ---------------------------------------------------------------------------------------------------

Do = Literal["publish", "subscribe", "unsubscribe", "advertise", "unadvertise", "leave"]


@dataclass(frozen=True)
class Step:
    """What a client does. All steps of one turn happen before anything is synced, or has arrived anywhere."""

    client: str
    do: Do
    notification: Notification | None = None
    numbered: bool = False
    id: str = ""
    text: str = ""


@dataclass(frozen=True)
class Trial:
    """A random plan, and what brokers are made of."""

    turns: list[list[Step]]
    at: dict[str, int]
    """The positions of clients."""
    logged: bool = True
    rules: str = "none"
    strategy: str = "covering"
    advertisements: bool = False
    hierarchical: bool = False
    """Whether each broker is below the one before it."""
    redundant: bool = False
    """Whether there may be several ways; no rules of scopes or trust go with that, nor advertisements."""

    def broker(self, name: str, *more: Rule, durable: bool = False, neighbours: Iterable[str] = ()) -> Broker:
        redundant = self.redundant and self.rules not in ("scopes", "versions", "trust")
        advertisements = STRATEGIES["covering"](0.1) if self.advertisements and not redundant else None
        # In a hierarchy the publisher's broker does not know who subscribes, which scopes depend on.
        number, is_below = (
            int(name[1:]),
            self.hierarchical and not redundant and self.rules not in ("scopes", "versions", "trust"),
        )
        made = Settings(
            STRATEGIES["simple" if is_below and self.strategy == "flooding" else self.strategy](0.1),
            advertisements,
            parent=f"b{number - 1}" if is_below and number else None,
            children=frozenset({f"b{number + 1}"} if is_below else ()),
            lasting=True,
            durable=durable,
            redundant=redundant,
        )
        made_broker = Broker(name, made, neighbours, rules=(*RULES[self.rules](name), *more))
        if made_broker.redundancy is not None and neighbours:
            made_broker.know(LINE)
        return made_broker


notifications = st.builds(
    lambda fields, producer, id: Notification.of(
        {
            **fields,
            **({} if producer is None else {"producer": producer}),
            **({} if id is None else {"id": id}),
        }
    ),
    st.one_of(
        st.fixed_dictionaries(
            {"x": st.integers(0, 9), "kind": st.sampled_from("ab")}, optional={"duck": st.booleans()}
        ),
        st.just({"x": 1 << 80}),  # JSON text
        st.just({"x": 2, "z": {"w": 1}}),  # not plain
    ),
    st.sampled_from([None, "p", "p", "p", "q", "evil"]),
    st.one_of(st.none(), st.sampled_from("123456789")),
)
ids = st.sampled_from(["s1", "s2"])
steps = st.one_of(
    st.builds(
        Step,
        st.sampled_from(["p0", "p1"]),
        st.just("publish"),
        notifications,
        st.booleans(),
    ),
    st.builds(
        Step,
        st.sampled_from(["s0", "s1", "p1"]),
        st.sampled_from(["subscribe", "subscribe", "unsubscribe"]),
        id=ids,
        text=st.sampled_from(FILTERS),
    ),
    st.builds(
        Step,
        st.sampled_from(["p0", "p1"]),
        st.sampled_from(["advertise", "advertise", "unadvertise"]),
        id=ids,
        text=st.sampled_from(ADVERTISED),
    ),
)


def one_change(turn: list[Step]) -> list[Step]:
    """A turn with one change of filters at most: where changes cross on the links, their order is open."""
    changes = [step for step in turn if step.do != "publish"]
    return [step for step in turn if step.do == "publish" or step is changes[0]]


leaving = st.builds(Step, st.sampled_from(["s0", "p1"]), st.just("leave"))
turns = st.lists(steps, min_size=1, max_size=8).map(one_change) | leaving.map(lambda each: [each])
trials = st.builds(
    Trial,
    st.lists(
        st.lists(steps, min_size=1, max_size=8).map(one_change) | leaving.map(lambda each: [each]), max_size=8
    ),
    st.fixed_dictionaries({name: st.integers(0, BROKERS - 1) for name in ("p0", "p1", "s0", "s1")}),
    st.booleans(),
    st.sampled_from(sorted(RULES)),
    st.sampled_from(sorted(STRATEGIES)),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


# -- what comes of them --------------------------------------------------------------------------------------


NOWHERE = Stamp("", 0)


@dataclass
class Effects:
    """Every effect of brokers, in its order, by whom it is for."""

    appended: dict[tuple[str, str], list[Notification]] = field(default_factory=dict)
    """The logs, record by record: by broker and neighbour, which is empty where clients published."""
    denied: dict[str, list[str]] = field(default_factory=dict)
    """Why other requests than publications were refused."""
    told: dict[tuple[str, str], list[tuple[set[str], set[str], bool]]] = field(default_factory=dict)
    """By link: the filters that were added and removed, and whether they are advertisements."""

    acknowledged: dict[str, list[int]] = field(default_factory=dict)
    duplicates: dict[str, list[int]] = field(default_factory=dict)
    refused: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    delivered: dict[tuple[str, str], list[tuple[str, tuple[str, ...]]]] = field(default_factory=dict)
    """By client and producer: what several producers publish at several brokers may interleave."""
    forwarded: dict[tuple[str, str, str], list[tuple[str, str]]] = field(default_factory=dict)
    """By link and producer: the id, and the origin of what was logged."""
    positions: dict[tuple[str, str, str], list[int]] = field(default_factory=dict, compare=False)
    """By link and origin. (Those of nodes are greater: their logs have their state, too.)"""
    origins: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """The origins of the arrivals in each log, by broker and neighbour."""

    def deliver(self, client: str, notification: Notification, ids: Iterable[str]) -> None:
        came = self.delivered.setdefault((client, notification.producer), [])
        came.append((notification.id or "", tuple(ids)))

    def append(self, broker: str, neighbour: str, notification: Notification, origin: str) -> None:
        self.appended.setdefault((broker, neighbour), []).append(notification)
        self.origins.setdefault((broker, neighbour), []).append(origin)

    def tell(
        self, source: str, to: str, added: Iterable[str], removed: Iterable[str], advertisements: bool
    ) -> None:
        self.told.setdefault((source, to), []).append((set(added), set(removed), advertisements))

    def forward(self, source: str, to: str, notification: Notification, stamp: Stamp = NOWHERE) -> None:
        went = self.forwarded.setdefault((source, to, notification.producer), [])
        went.append((notification.id or "", stamp.origin))
        if stamp.position:
            self.positions.setdefault((source, to, stamp.origin), []).append(stamp.position)


class Watching(Observer):
    """Writes down the effects of a simulation."""

    def __init__(self) -> None:
        self.effects = Effects()

    def handled(
        self, now: int, broker: Any, message: Message | Call | Command, effects: list[Effect]
    ) -> None:
        is_call = isinstance(message, Publish)
        for effect in effects:
            match effect:
                case Append(_, source, notification, origin):
                    neighbour = source if source in broker.links else ""
                    self.effects.append(broker.name, neighbour, notification, origin)
                case Send(to, Admin(source, added, removed, advertisements)):
                    texts = [[render(each.filter) for each in some] for some in (added, removed)]
                    self.effects.tell(source, to, *texts, advertisements)
                case Deliver(client, notification, ids):
                    self.effects.deliver(client, notification, ids)
                case Send(to, Notice(source, _, _, _, added, removed, False)):
                    texts = [[render(each.filter) for each in some] for some in (added, removed)]
                    self.effects.tell(source, to, *texts, False)
                case Send(to, Forward(source, notification, origin, _, _, position)):
                    self.effects.forward(source, to, notification, Stamp(origin, position))
                case Acknowledge(client, number):
                    self.effects.acknowledged[client] = [number]
                case Duplicate(client, number) if number:
                    self.effects.duplicates.setdefault(client, []).append(number)
                case Refuse(client, reason, _, number) if is_call and number:
                    self.effects.refused.setdefault(client, []).append((number, reason))
                case Refuse(client, reason) if not is_call:
                    self.effects.denied.setdefault(client, []).append(reason)
                case Wake() | Duplicate(number=0) | Refuse() | Grant():
                    pass  # nobody is sent these
                case _:
                    raise AssertionError(f"an effect that no law looks at: {effect}")


def simulated(trial: Trial) -> Effects:
    """A plan in the simulator."""
    names = [f"b{number}" for number in range(BROKERS)]
    brokers = [
        trial.broker(
            name,
            durable=trial.logged,
            neighbours=[names[other] for other in (at - 1, at + 1) if 0 <= other < BROKERS],
        )
        for at, name in enumerate(names)
    ]
    watching = Watching()
    simulation = Simulation(brokers, observers=[watching])
    numbers: dict[str, int] = {}
    for turn in trial.turns:
        for step in turn:
            client = f"c:{step.client}"
            simulation.call(names[trial.at[step.client]], _call(client, step, numbers))
        simulation.run()
    return watching.effects


def _call(client: str, step: Step, numbers: dict[str, int]) -> Call:
    number = numbers[step.client] = numbers.get(step.client, 0) + 1
    match step.do:
        case "publish":
            assert step.notification is not None
            return Publish(client, step.notification, number if step.numbered else 0)
        case "subscribe":
            return Subscribe(client, step.id, parse(step.text))
        case "unsubscribe":
            return Unsubscribe(client, step.id)
        case "advertise":
            return Advertise(client, step.id, parse(step.text))
        case "unadvertise":
            return Unadvertise(client, step.id)
        case "leave":
            return Leave(client)


def live(trial: Trial, *more: Rule) -> Effects:
    """A plan through nodes without sockets; `more` rules are those of all nodes."""
    line = Line(BROKERS, make=lambda name: trial.broker(name, *more), logged=trial.logged)
    ends: dict[str, End] = {}
    everyone: list[tuple[str, End]] = []
    numbers: dict[str, int] = {}
    publishing: set[tuple[str, int]] = set()
    for turn in trial.turns:
        raw: dict[str, bytes] = {}
        for step in turn:
            if step.client not in ends:
                ends[step.client] = line.client(trial.at[step.client], step.client)
                everyone.append((f"c:{step.client}", ends[step.client]))
            number = numbers[step.client] = numbers.get(step.client, 0) + 1
            if step.do == "publish":
                publishing.add((step.client, number))
            if step.do == "leave":
                ends.pop(step.client).hear(wire.control(wire.Bye("gone")))
            elif step.do != "publish":
                _hear(ends, raw)  # clients take turns, as their calls do
                ends[step.client].hear(_frame(step, number))
            else:
                if step.client not in raw:
                    _hear(ends, raw)
                raw[step.client] = raw.get(step.client, b"") + _frame(step, number)
        _hear(ends, raw)
        line.settle()
    effects = Effects()
    for name, end in everyone:
        _read_client(effects, name, end, publishing)
    for left, right in line.links:
        _read_link(effects, left)
        _read_link(effects, right)
    for node in line.nodes:
        _read_log(effects, node)
    return effects


def _hear(ends: dict[str, End], raw: dict[str, bytes]) -> None:
    """What clients published follows one another in one turn: that is where the fast path is."""
    for client, frames in raw.items():
        ends[client].hear(frames)
    raw.clear()


def _frame(step: Step, number: int) -> bytes:
    match step.do:
        case "publish":
            assert step.notification is not None
            return wire.publish(number if step.numbered else 0, pack(step.notification))
        case "subscribe":
            return wire.control(wire.Subscribe(number, step.id, step.text))
        case "unsubscribe":
            return wire.control(wire.Unsubscribe(number, step.id))
        case "advertise":
            return wire.control(wire.Advertise(number, step.id, step.text))
        case _:
            return wire.control(wire.Unadvertise(number, step.id))


def _read_client(effects: Effects, name: str, end: End, publishing: set[tuple[str, int]]) -> None:
    for kind, payload in end.said:
        if kind == wire.DELIVER:
            _, ids, packed = wire.parse_deliver(payload)
            effects.deliver(name, unpack(packed), ids)
        elif kind == wire.STORED:
            effects.acknowledged[name] = [wire.parse_numbered(payload)[0]]
        else:
            match wire.parse_control(payload):
                case wire.Repeated(number):
                    effects.duplicates.setdefault(name, []).append(number)
                case wire.Refused(number, reason) if (name[2:], number) in publishing:
                    effects.refused.setdefault(name, []).append((number, reason))
                case wire.Refused(_, reason):
                    effects.denied.setdefault(name, []).append(reason)
                case _:
                    pass


def _read_link(effects: Effects, end: End) -> None:
    source, to = end.node.name, end.session.name
    for kind, payload in end.said:
        if kind == wire.RELAY:
            number, packed = wire.parse_relay(payload)
            stamp = parse_stamp(payload[8 : -len(packed)])
            effects.forward(source, to, unpack(packed), _named(stamp, number))
        elif kind == wire.RELAYS:
            for packed in Relays.read(payload).each:
                effects.forward(source, to, unpack(packed))
        elif kind == wire.CONTROL:
            match wire.parse_control(payload):
                case wire.Notice(_, _, _, added, removed, False) if added or removed:
                    texts = [[text for text, _ in some] for some in (added, removed)]
                    effects.tell(source, to, *texts, False)
                case wire.InterestsChanged(added, removed, advertisements):
                    texts = [[text for text, _ in some] for some in (added, removed)]
                    effects.tell(source, to, *texts, advertisements)
                case _:
                    pass


def _named(stamp: Stamp, number: int) -> Stamp:
    """A stamp without the incarnation of the origin's log; what is in no log has no position."""
    return Stamp(stamp.origin.partition("~")[0], stamp.position if number else 0)


def _read_log(effects: Effects, node: Node) -> None:
    if node.ledger is not None:
        with node.ledger.reader(0, *NOTIFICATIONS) as reader:
            for record in reader.read(1 << 20):
                stamp = b"" if record.kind == PUBLICATION else parse_arrival(record).stamp
                content = unpack(notification_in(record))
                effects.append(node.name, neighbour_in(record), content, _named(parse_stamp(stamp), 1).origin)


# -- the laws ------------------------------------------------------------------------------------------------


@given(trial=trials)
def test_the_simulator_and_the_nodes_have_the_same_effects(trial: Trial) -> None:
    nodes, simulation = live(trial), simulated(trial)
    assert nodes == simulation
    for positions in (*nodes.positions.values(), *simulation.positions.values()):
        assert positions[0] > 0
        assert positions == sorted(set(positions)), "on every way, positions rise"


@given(trial=trials)
def test_the_fast_path_and_the_slow_path_have_the_same_effects(trial: Trial) -> None:
    assert live(trial) == live(trial, OneByOne())


def lone(client: str, x: int, id: str, producer: str = "p", *, numbered: bool = False) -> Step:
    """A publication that a turn has once of each client, at most."""
    content = {"x": x, "kind": "a", "producer": producer, "id": id}
    return Step(client, "publish", Notification.of(content), numbered)


alone = st.builds(
    lone,
    st.sampled_from(["p0", "p1"]),
    st.integers(0, 9),
    st.sampled_from("123456789"),
    st.sampled_from(["p", "p", "evil"]),
    numbered=st.booleans(),
)
subscribed = [
    [Step("s0", "subscribe", id="s1", text="x >= 0")],
    [Step("s1", "subscribe", id="s1", text="x >= 5")],
]
AT = {"p0": 0, "p1": 0, "s0": 0, "s1": 1}


@given(
    trial=st.builds(
        Trial,
        st.lists(
            st.lists(alone, min_size=1, max_size=2, unique_by=lambda step: step.client),
            min_size=2,
            max_size=12,
        ).map(lambda turns: [*subscribed, *turns]),
        st.fixed_dictionaries({name: st.integers(0, 1) for name in AT}),
        st.booleans(),
        st.sampled_from(sorted(RULES)),
    )
)
@example(  # what is in no log does not overtake what waits for the log
    Trial([*subscribed, [lone("p0", 1, "1", numbered=True), lone("p1", 2, "2")]], AT)
)
@example(  # a rule that counts is asked about each
    Trial([*subscribed, *([lone("p0", 1, id)] for id in "12345")], AT, rules="count")
)
def test_a_publication_that_comes_alone_has_the_effects_that_it_has_in_the_simulator(trial: Trial) -> None:
    assert live(trial) == simulated(trial)


def one_by_one(broker: Broker, *rest: Any, **named: Any) -> Node:
    """A node without fast paths, and without memory."""
    broker.seam = Seam(broker._destinations, (*broker.seam.rules, OneByOne()))
    return Node(broker, *rest, **named)


@settings(max_examples=settings.default.max_examples // 4)  # type: ignore[union-attr]
@given(
    plan=st.builds(
        Plan,
        seed=st.integers(0, 1 << 32),
        brokers=st.integers(1, 4),
        steps=st.integers(100, 500),
        faults=st.frozensets(st.sampled_from(FAULTS)),
        strategy=st.sampled_from(sorted(STRATEGIES)),
        advertisements=st.sampled_from([None, "covering"]),
    )
)
def test_under_faults_the_fast_path_and_the_slow_path_have_the_same_effects(plan: Plan) -> None:
    fast, slow = World(plan), World(plan, make_node=one_by_one)
    assert list(fast.run().trace()) == list(slow.run().trace())
    assert fast.accounts.tally() == slow.accounts.tally()
    assert fast.now == slow.now


def test_the_law_would_see_a_difference() -> None:
    publication = Notification.of({"x": 1, "producer": "evil", "id": "1"})
    turn = [Step("p0", "publish", publication, numbered=True)]
    at = {"p0": 0, "p1": 0, "s0": 0, "s1": 0}
    assert live(Trial([turn], at, rules="producer")) != live(Trial([turn], at))


def test_logs_filters_and_refused_requests_are_among_the_effects() -> None:
    publication = Notification.of({"x": 1, "producer": "p", "id": "1"})
    turns = [
        [Step("s1", "subscribe", id="s1", text="x >= 0")],
        [Step("p0", "publish", publication, numbered=True)],
        [Step("s1", "subscribe", id="s1", text="x >= 5")],
    ]
    trial = Trial(turns, {"p0": 0, "p1": 0, "s0": 0, "s1": 2})
    effects = live(trial)
    assert effects == simulated(trial)
    assert effects.appended == {
        ("b0", ""): [publication],
        ("b1", "b0"): [publication],
        ("b2", "b1"): [publication],
    }
    assert effects.told == {
        ("b2", "b1"): [({"x >= 0"}, set(), False)],
        ("b1", "b0"): [({"x >= 0"}, set(), False)],
    }
    assert effects.denied == {"c:s1": ["the id 's1' is taken"]}


def everything(client: str) -> list[Step]:
    """Publications of which each rule refuses some, or keeps some from somebody."""
    records: list[dict[str, Any]] = [
        {"producer": "p"},
        {"producer": "evil"},
        {"producer": "q", "duck": True},
        *[{"producer": "q"}] * 3,
    ]
    return [
        Step(client, "publish", Notification.of({"x": n, "id": f"{client}{n}", **record}), numbered=True)
        for n, record in enumerate(records)
    ]


@pytest.mark.parametrize("rules", sorted(RULES))
def test_every_rule_bites_somewhere(rules: str) -> None:
    turns = [[Step("s1", "subscribe", id="s1", text="x >= 0"), *everything("p0"), *everything("p1")]]
    at = {"p0": 0, "p1": 0, "s0": 0, "s1": 0}
    effects = live(Trial(turns, at, rules=rules))
    assert effects == simulated(Trial(turns, at, rules=rules))
    assert (effects == live(Trial(turns, at))) == (rules == "none")
