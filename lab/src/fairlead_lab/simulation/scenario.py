"""A scenario as a file says it: read whole, checked whole, and wrong in all its places at once.

    scenario = Scenario.read("scenario.toml")

`Scenario` is the file format: each field is a key or a table, declared as `fairlead.configuration.keys` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final

from fairlead.configuration import (
    Key,
    Kind,
    Reading,
    Tables,
    Wrong,
    all_of,
    count,
    expected,
    file_of,
    listed,
    made,
    one_of,
    quoted,
    read_toml,
    small_tables,
    suggestion,
    text,
)
from fairlead.errors import FairleadError, ScenarioError
from fairlead.overlay.hierarchy import misplaced_roots
from fairlead.overlay.topology import Topology, topology
from fairlead_lab.routing.leased import COVERS
from fairlead_lab.simulation.algorithms import ALGORITHMS, CYCLIC, STRATEGIES
from fairlead_lab.simulation.capacity import NO_CAPACITY, Capacity
from fairlead_lab.simulation.delays import Delay
from fairlead_lab.simulation.faults import NO_FAULTS, Faults
from fairlead_lab.simulation.guarding import NO_SECURITY, SecurityPlan
from fairlead_lab.simulation.kinds import (
    EXPONENT,
    MILLION,
    MS,
    PERIOD_MS,
    PPM,
    SEED,
    SHARE,
    brokers,
    names,
    rising,
)

__all__ = [
    "SHAPES",
    "TOML_HINT",
    "ClientsPlan",
    "LeasesPlan",
    "OverlayPlan",
    "RingChange",
    "RingPlan",
    "RoutingPlan",
    "Scenario",
    "WorkloadPlan",
    "overlay_given",
    "value_of",
]

SHAPES: Final = {
    "line": "line",
    "star": "star",
    "balanced": "balanced tree",
    "random": "random tree",
    "cyclic": "cyclic",
    "ring": "ring",
    "explicit": "explicit",
}
"""The shapes of a scenario, and what the overlay calls them."""
ATTRIBUTES: Final = ("x", "y", "z")
"""The attributes that notifications have and interests are about."""
WORKLOADS: Final = ("uniform", "zipf", "intervals")
BROKERS_MAX: Final = 100_000
CALLS_MAX: Final = 10_000_000
EVERYWHERE, LEAVES = "all", "leaves"


# -- the values --------------------------------------------------------------------------------------------


TOML_HINT: Final = 'text stands in quotes, as in name = "small"'
"""For those who are new to TOML."""


@dataclass(frozen=True, slots=True)
class OverlayPlan:
    """The number of brokers, and their links."""

    shape: Annotated[str, Key(quoted(SHAPES), one_of(*SHAPES))]
    brokers: Annotated[
        int,
        Key("how many there are: B1, B2, …", count(1, BROKERS_MAX), shown="required, but for `explicit`"),
    ]
    fanout: Annotated[int, Key("`balanced`: how many brokers are below each", count(1, BROKERS_MAX))] = 2
    extra: Annotated[int, Key("`cyclic`: how many links there are beyond a tree", count(0, BROKERS_MAX))] = 0
    links: Annotated[
        tuple[tuple[str, str], ...],
        Key('`explicit`: the links, such as `[["B1", "B2"], ["B2", "B3"]]`', _links),
    ] = ()

    def topology(self, seed: int) -> Topology:
        """The overlay; a random one by this seed."""
        if self.shape == "explicit":
            return Topology.explicit(self.links)
        return topology(SHAPES[self.shape], self.brokers, fanout=self.fanout, extra=self.extra, seed=seed)


@dataclass(frozen=True, slots=True)
class RoutingPlan:
    """The algorithm by which filters and notifications travel."""

    algorithms: Annotated[
        tuple[str, ...],
        Key(f"one or a list of those to compare: {quoted(ALGORITHMS)}", names(*ALGORITHMS), at="algorithm"),
    ] = ("covering",)
    advertisements: Annotated[
        str | None,
        Key("how advertisements travel, or `none`: then subscriptions go everywhere", _advertised),
    ] = None
    hierarchical: Annotated[
        bool | tuple[str, ...],
        Key(
            "`true`: B1 is above all others; a list of brokers: each is above its subtree, and they are peers",
            lambda given: given if isinstance(given, bool) else brokers(given),
        ),
    ] = False
    imperfection: Annotated[
        float, Key("`imperfect`: the share of a merger that nobody asked for, at most", SHARE)
    ] = 0.2
    partitions: Annotated[
        int,
        Key(
            "rendezvous routing: into how many types the values of `x` are divided, each with a tree",
            count(1, BROKERS_MAX),
        ),
    ] = 16
    clusters: Annotated[
        int,
        Key(
            "`multicast-clustered`, `-threshold`: into how many clusters brokers are divided",
            count(1, BROKERS_MAX),
        ),
    ] = 4
    threshold: Annotated[
        int,
        Key(
            "`multicast-threshold`: if more brokers of a cluster want a notification, the whole cluster gets it",
            count(0, BROKERS_MAX),
        ),
    ] = 2
    link_ids: Annotated[
        int,
        Key("`lipsin`: from how many sets of link ids the best one is chosen for a packet", count(1, 256)),
    ] = 1
    fanout: Annotated[
        int, Key("`gossip`: how many others a broker tells a notification", count(1, BROKERS_MAX))
    ] = 7
    batch_us: Annotated[
        int, Key("how long a message may wait for others to the same neighbour", MS, at="batch_ms")
    ] = 0

    @property
    def advertises(self) -> bool:
        """Whether clients have to say what they will publish."""
        return self.advertisements is not None or any(ALGORITHMS[name].advertises for name in self.algorithms)

    @property
    def roots(self) -> tuple[str, ...]:
        """The roots of the subtrees that are hierarchies among peers."""
        return () if isinstance(self.hierarchical, bool) else self.hierarchical

    def roots_in(self, overlay: Topology) -> tuple[str, ...]:
        """The brokers with a hierarchy below them; one at the top of all, where all is hierarchical."""
        return overlay.brokers[:1] if self.hierarchical is True else self.roots


@dataclass(frozen=True, slots=True)
class RingChange:
    """A broker joins, leaves or fails, after the subscriptions of a checkpoint and before its publications."""

    broker: Annotated[str, Key("the broker")]
    what: Annotated[str, Key("what it does", one_of("joins", "leaves", "fails"))]
    at: Annotated[int, Key("the number of subscriptions at the checkpoint", count(1, CALLS_MAX))]


@dataclass(frozen=True, slots=True)
class RingPlan:
    """The upkeep of the ring in rendezvous routing."""

    messages: Annotated[
        bool,
        Key(
            "`true`: by messages in virtual time: brokers join one by one, watch each other and repair; `false`: "
            "each broker is told of all others beforehand"
        ),
    ] = False
    changes: Annotated[
        tuple[RingChange, ...],
        Key(
            'brokers that join, leave and fail, such as `[{ broker = "B9", what = "fails", at = 100 }]`; the ring '
            "is then kept by messages",
            small_tables(RingChange, '{ broker = "B9", what = "fails", at = 100 }'),
        ),
    ] = ()
    beat_us: Annotated[
        int, Key("how often brokers ask each other for a sign of life", PERIOD_MS, at="beat_ms")
    ] = 200_000
    settle_us: Annotated[
        int, Key("how long the ring has to settle after changes, and after calls", MS, at="settle_ms")
    ] = 3 * MILLION
    leaves: Annotated[int, Key("how many leaves a broker has, on both sides together", count(2, 64))] = 16

    @property
    def by_messages(self) -> bool:
        """Whether messages keep the ring."""
        return self.messages or bool(self.changes)

    def newcomers(self) -> frozenset[str]:
        """The brokers that are outside of the ring at the beginning."""
        return frozenset(change.broker for change in self.changes if change.what == "joins")


@dataclass(frozen=True, slots=True)
class ClientsPlan:
    """The clients, and their brokers."""

    subscribers: Annotated[
        int | None,
        Key("how many clients share the subscriptions", count(1, CALLS_MAX), shown="one for each"),
    ] = None
    publishers: Annotated[int, Key("how many clients publish", count(1, CALLS_MAX))] = 10
    brokers: Annotated[
        str | tuple[str, ...],
        Key("where clients are: `all` brokers, the `leaves`, or a list of brokers", _brokers, at="places"),
    ] = EVERYWHERE
    regions: Annotated[
        int, Key("in how many regions the overlay falls, for `locality`", count(1, BROKERS_MAX))
    ] = 1

    def hosts(self, overlay: Topology) -> tuple[str, ...]:
        """The brokers that clients are at."""
        if not isinstance(self.brokers, str):
            return self.brokers
        leaves = [broker for broker in overlay.brokers if len(overlay.neighbours(broker)) <= 1]
        # On a ring there are none: then nobody is more at the edge than another.
        return tuple(leaves) if self.brokers == LEAVES and leaves else overlay.brokers


@dataclass(frozen=True, slots=True)
class WorkloadPlan:
    """The interests of clients, and their publications."""

    checkpoints: Annotated[
        tuple[int, ...],
        Key(
            "how many there are; a list is the checkpoints of the curves, such as `[100, 200, 500]`",
            rising(1, CALLS_MAX),
            at="subscriptions",
        ),
    ]
    publications: Annotated[int, Key("how many there are at each checkpoint", count(0, CALLS_MAX))] = 100
    shape: Annotated[
        str,
        Key(
            "`uniform`: one value, all alike; `zipf`: one value, few of them popular; `intervals`: a range",
            one_of(*WORKLOADS),
        ),
    ] = "uniform"
    attributes: Annotated[
        int, Key(f"how many a filter is about: {quoted(ATTRIBUTES)}", count(1, len(ATTRIBUTES)))
    ] = 1
    values: Annotated[int, Key("how many values an attribute can have", count(1, CALLS_MAX))] = 1_000
    width: Annotated[int, Key("`intervals`: how many values one spans, at most", count(1, CALLS_MAX))] = 100
    exponent: Annotated[
        Decimal, Key("`zipf`: the value of rank r is asked for r^-exponent times as often", EXPONENT)
    ] = Decimal(1)
    locality_ppm: Annotated[
        int,
        Key(
            "the share of interests and publications that stay within their region's values",
            PPM,
            at="locality",
        ),
    ] = 0
    unsubscribe_ppm: Annotated[
        int,
        Key(
            "the share of new subscriptions for which an older one is taken back and replaced",
            PPM,
            at="unsubscribe",
        ),
    ] = 0
    offer_ppm: Annotated[
        int, Key("the share of the values that one publisher publishes", PPM, at="offer")
    ] = MILLION
    every_us: Annotated[int, Key("the time between two calls of clients", MS, at="every_ms")] = 1_000
    seed: Annotated[
        int | None, Key("a seed for clients alone, the same in all runs", SEED, shown="the scenario's")
    ] = None


@dataclass(frozen=True, slots=True)
class LeasesPlan:
    """The leases of routing entries, for `fairlead simulate --stabilise`."""

    refresh_us: Annotated[
        int,
        Key("how often clients renew their subscriptions", MS, at="refresh_ms", shown="there are no leases"),
    ] = 0
    lease_us: Annotated[
        int | None,
        Key(
            "how often an entry has to be renewed; `auto`: the shortest period that loses nothing",
            Kind(
                lambda given: None if given == "auto" else MS.read(given),
                lambda us: "auto" if us is None else MS.write(us),
            ),
            at="lease_ms",
            shown="auto",
        ),
    ] = None
    covers: Annotated[
        str,
        Key(
            "what suppresses a renewal: `fresh` entries; `any` proper cover, too; `printed`: as in the book",
            one_of(*COVERS),
        ),
    ] = "fresh"
    rebuild: Annotated[
        bool, Key("`true`: instead, tables are built anew in turns, and the first broker is the root")
    ] = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """A run to be: an overlay, its clients, what they do, and the algorithms that are compared."""

    name: Annotated[str, Key("what the scenario is called", shown="the file's name")]
    overlay: Annotated[OverlayPlan, Key("how brokers are linked", at="topology")]
    workload: WorkloadPlan
    seed: Annotated[int, Key("all that is left to chance depends on it alone", SEED)] = 0
    routing: RoutingPlan = RoutingPlan()
    delay: Delay = Delay()  # noqa: RUF009 (frozen)
    clients: ClientsPlan = ClientsPlan()
    faults: Faults = NO_FAULTS
    capacity: Capacity = NO_CAPACITY
    ring: RingPlan = RingPlan()
    leases: LeasesPlan = LeasesPlan()
    security: SecurityPlan = NO_SECURITY
    rest_us: Annotated[
        int,
        Key(
            "with crashes or corruptions: how long after its last call a checkpoint ends",
            MS,
            at="faults.rest_ms",
        ),
    ] = MILLION
    """The time a checkpoint is waited for, where faults are still to come: until then nothing is at rest."""
    keyed: Annotated[
        bool,
        Key(
            "`true`: the same notification takes the same time on the same link in every run, and is lost, "
            "duplicated and reordered there in every run",
            at="delay.keyed",
        ),
    ] = False
    source: str = field(default="scenario.toml", compare=False)
    """The file, for the command that repeats a run."""

    @classmethod
    def read(cls, path: str | Path, algorithms: Iterable[str] | None = None) -> Scenario:
        """The scenario in a file, with these algorithms if it names none; ScenarioError says all that is wrong."""
        given = read_toml(path, ScenarioError, hint=TOML_HINT)
        routing = given.setdefault("routing", {})
        if algorithms is not None and isinstance(routing, dict):
            routing.setdefault("algorithm", list(algorithms))
        return cls.of(given, source=str(path))

    @classmethod
    def of(cls, given: Mapping[str, Any], source: str = "scenario") -> Scenario:
        """The scenario of a mapping with the tables of the file."""
        reading = Reading(file_of(cls))
        tables = reading.tables(given)
        overlay_problems = _fitting("topology", SHAPES, tables), overlay_given(tables)
        workload_problems = _fitting("workload", WORKLOADS, tables)
        reading.check(source, ScenarioError, chain(*overlay_problems, workload_problems))
        values = made(cls, tables)
        scenario = cls(**values | {"name": values["name"] or Path(source).stem}, source=source)
        reading.check(source, ScenarioError, scenario._problems())
        return scenario

    @property
    def loses(self) -> bool:
        """Whether notifications may be lost, or damaged: by faults, or in queues that are full."""
        return bool(self.faults) or self.capacity.may_drop

    def topology(self, seed: int | None = None) -> Topology:
        """The overlay, by this seed or the scenario's own."""
        return self.overlay.topology(self.seed if seed is None else seed)

    def changed(
        self,
        *,
        algorithms: Iterable[str] | None = None,
        subscriptions: Iterable[int] | None = None,
        brokers: int | None = None,
        seed: int | None = None,
    ) -> Scenario:
        """The same, but where it is told otherwise; ScenarioError where that means nothing."""
        found = self
        if algorithms is not None:
            chosen = value_of(RoutingPlan, "algorithm", list(algorithms))
            found = replace(found, routing=replace(found.routing, algorithms=chosen))
        if subscriptions is not None:
            checkpoints = value_of(WorkloadPlan, "subscriptions", sorted(set(subscriptions)))
            found = replace(found, workload=replace(found.workload, checkpoints=checkpoints))
        if brokers is not None and brokers != self.overlay.brokers:
            if self.overlay.shape == "explicit":
                raise ScenarioError(f"{self.source}: [topology] links say how many brokers there are")
            found = replace(found, overlay=replace(found.overlay, brokers=brokers))
        if seed is not None:
            found = replace(found, seed=seed)
        if found is not self and (problems := found._problems()):
            raise all_of(problems, self.source, ScenarioError)
        return found

    def to_json(self) -> dict[str, Any]:
        """All of it in plain values, with parts per million and microseconds as they are used."""
        found = asdict(self)
        del found["source"]
        found["workload"]["exponent"] = float(self.workload.exponent)
        for part in found["faults"]["partitions"]:
            part["brokers"] = sorted(part["brokers"])
        return found

    def _problems(self) -> list[str]:
        """The problems of the whole, where each key may be right."""
        try:
            overlay = self.topology()
        except FairleadError as error:
            return [f"[topology]: {str(error).replace(chr(10) + '  hint:', ';')}"]
        return [problem for check in CHECKS for problem in check(self, overlay)]


# -- reading one value -------------------------------------------------------------------------------------


def _brokers(given: Any) -> str | tuple[str, ...]:
    return one_of(EVERYWHERE, LEAVES)(given) if isinstance(given, str) else brokers(given)


def _advertised(given: Any) -> str | None:
    name = one_of("none", *(name for name in STRATEGIES if name != "flooding"))(given)
    return None if name == "none" else name


def _links(given: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(given, list) or not given:
        raise expected('a list of links such as [["B1", "B2"], ["B2", "B3"]]', given)
    for link in given:
        if not isinstance(link, list) or len(link) != 2:
            raise expected('a link such as ["B1", "B2"]', link)
    return tuple((text(a), text(b)) for a, b in given)


def value_of(table: type, key: str, given: Any) -> Any:
    """The value of a key that was given elsewhere than in a file."""
    try:
        return file_of(table)[""].rows[key].kind.read(given)
    except Wrong as wrong:
        raise ScenarioError(f"{key}: {wrong}") from None


# -- keys that go with others ------------------------------------------------------------------------------


GOES_WITH: Final = {
    "topology": {"fanout": "balanced", "extra": "cyclic", "links": "explicit"},
    "workload": {"width": "intervals", "exponent": "zipf"},
}
"""Keys that mean something with one shape only."""


def _fitting(table: str, shapes: Iterable[str], tables: Tables) -> Iterator[str]:
    said = tables.get(table, {})
    shape = said.get("shape", "uniform" if table == "workload" else None)
    for key, home in GOES_WITH[table].items():
        if key in said and shape in shapes and shape != home:
            yield f'[{table}] {key}: it goes with shape = "{home}", not with "{shape}"'


def overlay_given(tables: Tables) -> Iterator[str]:
    """The problems of an overlay whose number of brokers is not given once: by `brokers`, or by links."""
    said = tables.get("topology", {})
    if said.get("shape") == "explicit":
        if "links" not in said:
            yield '[topology] links: missing: shape = "explicit" needs them'
        if "brokers" in said:
            yield "[topology] brokers: the links say which there are"
        said["brokers"] = len({name for link in said.get("links", ()) for name in link})
    elif "shape" in said and "brokers" not in said:
        yield f"[topology] brokers: missing: {file_of(OverlayPlan)[''].rows['brokers'].meaning}"


# -- the whole ---------------------------------------------------------------------------------------------


def _check_routing(scenario: Scenario, overlay: Topology) -> Iterable[str]:
    routing = scenario.routing
    for root in routing.roots:
        if root not in overlay.brokers:
            yield f"[routing] hierarchical: there is no broker {root!r}{suggestion(root, overlay.brokers)}"
            return
    for problem in misplaced_roots(overlay, routing.roots):
        yield f"[routing] hierarchical: {problem}"
    if overlay.is_acyclic:
        return
    if routing.advertisements not in (None, *CYCLIC):
        yield (
            f"[routing] advertisements: {routing.advertisements} needs a tree, and this topology has cycles; "
            "there simple works"
        )
    if routing.roots or routing.hierarchical:
        yield "[routing] hierarchical: it needs a tree, and this topology has cycles"
    for name in routing.algorithms:
        if not ALGORITHMS[name].cyclic:
            able = listed([each for each, row in ALGORITHMS.items() if row.cyclic])
            yield f"[routing] algorithm: {name} needs a tree, and this topology has cycles; there {able} works"


def _check_clients(scenario: Scenario, overlay: Topology) -> Iterable[str]:
    clients, workload = scenario.clients, scenario.workload
    if not isinstance(clients.brokers, str):
        for name in clients.brokers:
            if name not in overlay.brokers:
                yield f"[clients] places: there is no broker {name!r}{suggestion(name, overlay.brokers)}"
    if clients.regions > len(overlay.brokers):
        yield f"[clients] regions: {len(overlay.brokers)} brokers do not make {clients.regions} regions"
    if clients.regions > workload.values:
        yield f"[clients] regions: {workload.values} values are too few for {clients.regions} regions"
    if workload.locality_ppm and clients.regions == 1:
        yield "[workload] locality: it needs [clients] regions = 2 or more"


def _check_workload(scenario: Scenario, overlay: Topology) -> Iterable[str]:
    workload, subscribers = scenario.workload, scenario.clients.subscribers
    most = workload.checkpoints[-1]
    if workload.shape == "intervals" and workload.width > workload.values:
        yield f"[workload] width: there are only {workload.values:,} values"
    # Nobody holds a filter twice; up to half of all there are, a free one is soon drawn.
    different = workload.values**workload.attributes
    if subscribers is not None and most > (room := max(1, subscribers * different // 2)):
        yield (
            f"[clients] subscribers: {subscribers:,} clients with {workload.values:,} values share at most "
            f"{room:,} subscriptions, not {most:,}"
        )


def _check_faults(scenario: Scenario, overlay: Topology) -> Iterable[str]:
    faults = scenario.faults
    named = [("crashes", crash.broker) for crash in faults.crashes]
    named += [("corruptions", each.broker) for each in faults.corruptions]
    named += [("partitions", name) for part in faults.partitions for name in sorted(part.brokers)]
    for key, name in named:
        if name not in overlay.brokers:
            yield f"[faults] {key}: there is no broker {name!r}{suggestion(name, overlay.brokers)}"


def _check_leases(scenario: Scenario, overlay: Topology) -> Iterable[str]:
    leases = scenario.leases
    if not leases.refresh_us:
        return
    if scenario.delay.shape == "exponential" and scenario.delay.spread:
        yield '[leases]: nobody recovers within a time where delays have no bound: [delay] shape = "uniform"'
    if not overlay.is_acyclic:
        yield "[leases]: the overlay has cycles"
    for name in scenario.routing.algorithms:
        if name.removeprefix("hierarchical-") not in STRATEGIES:
            yield f"[leases]: there are no leases for {name}"
    if leases.lease_us is not None:
        spread = 0 if scenario.delay.shape == "constant" else 2 * scenario.delay.spread
        least = leases.refresh_us + overlay.diameter * spread + 1
        if leases.rebuild:
            factor = 3 if scenario.routing.advertisements is not None else 2
            least = leases.refresh_us + factor * overlay.diameter * (
                scenario.delay.least + 2 * scenario.delay.spread
            )
        if leases.lease_us < least:
            yield (
                f"[leases] lease_ms: {leases.lease_us / 1_000:g} is too short, entries would get lost: "
                f'at least {least / 1_000:g}, or "auto"'
            )


def _check_ring(scenario: Scenario, overlay: Topology) -> Iterable[str]:
    ring = scenario.ring
    if ring.leaves % 2:
        yield f"[ring] leaves: {ring.leaves} leaves have no two equal sides"
    hosts = scenario.clients.hosts(overlay)
    before: dict[str, tuple[str, int]] = {}
    for change in sorted(ring.changes, key=lambda each: each.at):
        name = change.broker
        said = f"[ring] changes: {name} {change.what}"
        was, at = before.get(name, ("", 0))
        before[name] = (change.what, change.at)
        if name not in overlay.brokers:
            yield f"[ring] changes: there is no broker {name!r}{suggestion(name, overlay.brokers)}"
        elif name == overlay.brokers[0]:
            yield f"{said}, and others join through it: name another one"
        elif name in hosts:
            yield f"{said}, and clients are there: leave it out of [clients] places"
        elif was in ("leaves", "fails") or (was == "joins" and change.what == "joins"):
            yield f"{said}, and {was} before: a broker joins once, and leaves or fails once"
        elif was and change.at == at:
            yield f"{said} at the checkpoint at which it {was}"
        if change.at not in scenario.workload.checkpoints:
            yield f"{said} at {change.at} subscriptions, which is no checkpoint"


def _check_security(scenario: Scenario, overlay: Topology) -> Iterable[str]:
    security = scenario.security
    if not security:
        return
    if security.limits and security.keys_ppm is not None:
        yield "[security]: trusted or keys, not both: what is sealed is no ground for what brokers handle"
    for name in scenario.routing.algorithms:
        if name not in STRATEGIES:
            yield f"[security]: there is no {name} with it; there are {listed([*STRATEGIES])}"
    if not overlay.is_acyclic:
        yield "[security]: the overlay has cycles; what arrives is known beforehand in a tree only"
    if scenario.leases.refresh_us:
        yield "[security]: there are no leases with it"
    if security.keys_ppm is not None and scenario.workload.attributes == 1 and scenario.routing.advertises:
        yield "[security] keys: nobody can advertise by the one attribute that is sealed"


CHECKS: Final[tuple[Callable[[Scenario, Topology], Iterable[str]], ...]] = (
    _check_routing,
    _check_clients,
    _check_workload,
    _check_faults,
    _check_leases,
    _check_ring,
    _check_security,
)
