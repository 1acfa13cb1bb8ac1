"""A scenario as a file says it: read whole, checked whole, and wrong in all its places at once.

    scenario = Scenario.read("scenario.toml")

`KEYS` is the file format: each table with its keys, how each is read, what holds without it and what it means.
Shares become parts per million and times microseconds, so that all that is drawn from them is drawn with
integers, and a scenario and a seed are the same run on any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from fairlead.configuration import (
    Format,
    Key,
    Reading,
    Wrong,
    all_of,
    count,
    expected,
    listed,
    one_of,
    read_toml,
    suggestion,
    text,
)
from fairlead.errors import FairleadError, ScenarioError
from fairlead.overlay.topology import Topology, topology
from fairlead_lab.simulation.algorithms import ALGORITHMS, CYCLIC, STRATEGIES
from fairlead_lab.simulation.delays import Delay
from fairlead_lab.simulation.faults import NO_FAULTS, Crash, Faults, Partition

__all__ = ["KEYS", "ClientsPlan", "OverlayPlan", "RoutingPlan", "Scenario", "WorkloadPlan"]

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
"""What notifications have, and interests are about."""
WORKLOADS: Final = ("uniform", "zipf", "intervals")
MILLION: Final = 1_000_000
BROKERS_MAX: Final = 100_000
CALLS_MAX: Final = 10_000_000
TIME_MS_MAX: Final = 10**12
EVERYWHERE, LEAVES = "all", "leaves"


# -- the values --------------------------------------------------------------------------------------------


TOML_HINT: Final = 'text stands in quotes, as in name = "small"'
"""For those who are new to TOML."""


@dataclass(frozen=True, slots=True)
class OverlayPlan:
    """How many brokers there are, and how they are linked."""

    shape: str
    brokers: int
    fanout: int = 2
    extra: int = 0
    links: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RoutingPlan:
    """How filters and notifications travel."""

    algorithms: tuple[str, ...] = ("covering",)
    advertisements: str | None = None
    hierarchical: bool = False
    roots: tuple[str, ...] = ()
    """The roots of the subtrees that are hierarchies among peers."""
    imperfection: float = 0.2
    partitions: int = 16
    """Into how many types the values of `x` are divided, for rendezvous routing."""
    batch_us: int = 0

    @property
    def advertises(self) -> bool:
        """Whether clients have to say what they will publish."""
        return self.advertisements is not None or any(ALGORITHMS[name].advertises for name in self.algorithms)

    def roots_in(self, overlay: Topology) -> tuple[str, ...]:
        """The brokers with a hierarchy below them; one at the top of all, where all is hierarchical."""
        return overlay.brokers[:1] if self.hierarchical else self.roots


@dataclass(frozen=True, slots=True)
class ClientsPlan:
    """Who takes part, and where."""

    subscribers: int | None = None
    """None: each subscription has a client of its own."""
    publishers: int = 10
    places: str | tuple[str, ...] = EVERYWHERE
    regions: int = 1


@dataclass(frozen=True, slots=True)
class WorkloadPlan:
    """What clients are interested in, and what they publish."""

    checkpoints: tuple[int, ...]
    publications: int = 100
    shape: str = "uniform"
    attributes: int = 1
    values: int = 1_000
    width: int = 100
    exponent: Decimal = Decimal(1)
    locality_ppm: int = 0
    unsubscribe_ppm: int = 0
    offer_ppm: int = MILLION
    every_us: int = 1_000
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """A run to be: an overlay, its clients, what they do, and the algorithms that are compared."""

    name: str
    overlay: OverlayPlan
    workload: WorkloadPlan
    seed: int = 0
    routing: RoutingPlan = RoutingPlan()
    delay: Delay = Delay()  # noqa: RUF009 (frozen)
    clients: ClientsPlan = ClientsPlan()
    faults: Faults = NO_FAULTS
    rest_us: int = MILLION
    """How long a checkpoint is waited for, where crashes are still to come: until then nothing is at rest."""
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
        reading = _Reading(KEYS)
        top = reading.top(given)
        tables = {name: reading.table(name, given.get(name, {})) for name in TABLES}
        routing, delay, faults = tables["routing"], tables["delay"], tables["faults"]
        hierarchical = routing["hierarchical"]
        scenario = cls(
            name=top["name"] or Path(source).stem,
            seed=top["seed"],
            overlay=OverlayPlan(**reading.overlay(tables["topology"], given.get("topology"))),
            routing=RoutingPlan(
                algorithms=routing["algorithm"],
                advertisements=None if routing["advertisements"] == "none" else routing["advertisements"],
                hierarchical=hierarchical is True,
                roots=() if isinstance(hierarchical, bool) else hierarchical,
                imperfection=routing["imperfection"] / MILLION,
                partitions=routing["partitions"],
                batch_us=routing["batch_ms"],
            ),
            delay=Delay(delay["least_ms"], delay["spread_ms"], delay["shape"]),
            clients=ClientsPlan(**tables["clients"]),
            workload=WorkloadPlan(**reading.workload(tables["workload"], given.get("workload"))),
            faults=Faults(
                faults["loss"],
                faults["duplication"],
                faults["reordering"],
                faults["crashes"],
                faults["partitions"],
            ),
            rest_us=faults["rest_ms"],
            source=source,
        )
        problems = reading.problems or scenario._problems()
        if problems:
            raise all_of(problems, source, ScenarioError)
        return scenario

    def topology(self, seed: int | None = None) -> Topology:
        """The overlay, by this seed or the scenario's own."""
        plan = self.overlay
        if plan.shape == "explicit":
            return Topology.explicit(plan.links)
        return topology(
            SHAPES[plan.shape],
            plan.brokers,
            fanout=plan.fanout,
            extra=plan.extra,
            seed=self.seed if seed is None else seed,
        )

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
            chosen = _read(_names(*ALGORITHMS), list(algorithms), "algorithm")
            found = replace(found, routing=replace(found.routing, algorithms=chosen))
        if subscriptions is not None:
            checkpoints = _read(_checkpoints, sorted(set(subscriptions)), "subscriptions")
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
        """What is wrong about the whole, where each key may be right."""
        try:
            overlay = self.topology()
        except FairleadError as error:
            return [f"[topology]: {str(error).replace(chr(10) + '  hint:', ';')}"]
        return [problem for check in CHECKS for problem in check(self, overlay)]


# -- reading one value -------------------------------------------------------------------------------------


def _decimal(given: Any) -> Decimal:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise expected("a number", given)
    exact = Decimal(str(given))
    if not exact.is_finite():
        raise Wrong(f"a number was expected, not {given}")
    return exact


def _share(given: Any) -> int:
    """A share between 0 and 1, in parts per million."""
    exact = _decimal(given) * MILLION
    if not 0 <= exact <= MILLION:
        raise Wrong(f"a share from 0 to 1 was expected, not {given}")
    if exact != (whole := int(exact)):
        raise Wrong(f"{given} is finer than a millionth")
    return whole


def _ms(given: Any) -> int:
    """A time in milliseconds, as microseconds."""
    exact = _decimal(given) * 1_000
    if not 0 <= exact <= TIME_MS_MAX * 1_000:
        raise Wrong(f"milliseconds from 0 to {TIME_MS_MAX:,} were expected, not {given}")
    if exact != (whole := int(exact)):
        raise Wrong(f"{given} ms is finer than a microsecond")
    return whole


def _exponent(given: Any) -> Decimal:
    exact = _decimal(given)
    if not 0 <= exact <= 10:
        raise Wrong(f"a number from 0 to 10 was expected, not {given}")
    return exact


def _names(*names: str) -> Callable[[Any], tuple[str, ...]]:
    """One of these names or a list of them."""
    one = one_of(*names)

    def read(given: Any) -> tuple[str, ...]:
        if not isinstance(given, list):
            return (one(given),)
        if not given:
            raise Wrong("the list is empty")
        return tuple(dict.fromkeys(map(one, given)))

    return read


def _brokers(given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or not given:
        raise expected('a list of brokers such as ["B1", "B2"]', given)
    return tuple(dict.fromkeys(map(text, given)))


def _checkpoints(given: Any) -> tuple[int, ...]:
    one = count(1, CALLS_MAX)
    if not isinstance(given, list):
        return (one(given),)
    found = tuple(map(one, given))
    if not found or any(after <= before for before, after in pairwise(found)):
        raise Wrong("numbers that rise were expected, such as [100, 200, 500]")
    return found


def _hierarchical(given: Any) -> bool | tuple[str, ...]:
    return given if isinstance(given, bool) else _brokers(given)


def _places(given: Any) -> str | tuple[str, ...]:
    return one_of(EVERYWHERE, LEAVES)(given) if isinstance(given, str) else _brokers(given)


def _links(given: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(given, list) or not given:
        raise expected('a list of links such as [["B1", "B2"], ["B2", "B3"]]', given)
    for link in given:
        if not isinstance(link, list) or len(link) != 2:
            raise expected('a link such as ["B1", "B2"]', link)
    return tuple((text(a), text(b)) for a, b in given)


def _each(read: Callable[[Mapping[str, Any]], Any], example: str, *keys: str) -> Callable[[Any], Any]:
    """A list of small tables, each with these keys and no others."""

    def read_all(given: Any) -> tuple[Any, ...]:
        if not isinstance(given, list):
            raise expected(f"a list such as [{example}]", given)
        for each in given:
            if not isinstance(each, Mapping):
                raise expected(f"a table such as {example}", each)
            for key in each:
                if key not in keys:
                    raise Wrong(f"no such key as {key!r}{suggestion(key, keys)} (there is {listed(keys)})")
        try:
            return tuple(map(read, given))
        except KeyError as missing:
            raise Wrong(f"{missing.args[0]} is missing, as in {example}") from None

    return read_all


def _crash(given: Mapping[str, Any]) -> Crash:
    back = given.get("back_ms")
    crash = Crash(text(given["broker"]), _ms(given["at_ms"]), None if back is None else _ms(back))
    if crash.back is not None and crash.back <= crash.at:
        raise Wrong(f"{crash.broker} is back at {back} ms, before it has gone")
    return crash


def _partition(given: Mapping[str, Any]) -> Partition:
    part = Partition(frozenset(_brokers(given["brokers"])), _ms(given["at_ms"]), _ms(given["until_ms"]))
    if part.until <= part.at:
        raise Wrong(f"it ends at {given['until_ms']} ms, before it begins")
    return part


def _read(read: Callable[[Any], Any], given: Any, place: str) -> Any:
    """A value that was given elsewhere than in a file."""
    try:
        return read(given)
    except Wrong as wrong:
        raise ScenarioError(f"{place}: {wrong}") from None


# -- the file format ---------------------------------------------------------------------------------------


KEYS: Final[Format] = {
    "": {
        "name": Key(text, "what the scenario is called", shown="the file's name"),
        "seed": Key(count(0, 2**63 - 1), "all that is left to chance depends on it alone", 0),
    },
    "topology": {
        "shape": Key(one_of(*SHAPES), f"{', '.join(f'`{name}`' for name in SHAPES)}", required=True),
        "brokers": Key(
            count(1, BROKERS_MAX), "how many there are: B1, B2, …", shown="required, but for `explicit`"
        ),
        "fanout": Key(count(1, BROKERS_MAX), "`balanced`: how many brokers are below each", 2),
        "extra": Key(count(0, BROKERS_MAX), "`cyclic`: how many links there are beyond a tree", 0),
        "links": Key(_links, '`explicit`: the links, such as `[["B1", "B2"], ["B2", "B3"]]`', ()),
    },
    "routing": {
        "algorithm": Key(
            _names(*ALGORITHMS),
            f"one or a list of those to compare: {', '.join(f'`{name}`' for name in ALGORITHMS)}",
            ("covering",),
            shown='`"covering"`',
        ),
        "advertisements": Key(
            one_of("none", *(name for name in STRATEGIES if name != "flooding")),
            "how advertisements travel, or `none`: then subscriptions go everywhere",
            "none",
        ),
        "hierarchical": Key(
            _hierarchical,
            "`true`: B1 is above all others; a list of brokers: each is above its subtree, and they are peers",
            False,
        ),
        "imperfection": Key(
            _share,
            "`imperfect`: the share of a merger that nobody asked for, at most",
            200_000,
            shown="`0.2`",
        ),
        "partitions": Key(
            count(1, BROKERS_MAX),
            "rendezvous routing: into how many types the values of `x` are divided, each with a tree",
            16,
        ),
        "batch_ms": Key(_ms, "how long a message may wait for others to the same neighbour", 0),
    },
    "delay": {
        "shape": Key(
            one_of("constant", "uniform", "exponential"),
            "how the time beyond the least is spread: `constant`, `uniform`, `exponential`",
            "uniform",
        ),
        "least_ms": Key(_ms, "how long a message takes on a link, at least", 1_000, shown="`1`"),
        "spread_ms": Key(_ms, "how much longer, on average", 1_000, shown="`1`"),
    },
    "clients": {
        "subscribers": Key(
            count(1, CALLS_MAX), "how many clients share the subscriptions", shown="one for each"
        ),
        "publishers": Key(count(1, CALLS_MAX), "how many clients publish", 10),
        "places": Key(
            _places, "where clients are: `all` brokers, the `leaves`, or a list of brokers", EVERYWHERE
        ),
        "regions": Key(count(1, BROKERS_MAX), "in how many regions the overlay falls, for `locality`", 1),
    },
    "workload": {
        "subscriptions": Key(
            _checkpoints,
            "how many there are; a list is the checkpoints of the curves, such as `[100, 200, 500]`",
            (1,),
            required=True,
        ),
        "publications": Key(count(0, CALLS_MAX), "how many there are at each checkpoint", 100),
        "shape": Key(
            one_of(*WORKLOADS),
            "`uniform`: one value, all alike; `zipf`: one value, few of them popular; `intervals`: a range",
            "uniform",
        ),
        "attributes": Key(
            count(1, len(ATTRIBUTES)),
            f"how many a filter is about: {', '.join(f'`{each}`' for each in ATTRIBUTES)}",
            1,
        ),
        "values": Key(count(1, CALLS_MAX), "how many values an attribute can have", 1_000),
        "width": Key(count(1, CALLS_MAX), "`intervals`: how many values one spans, at most", 100),
        "exponent": Key(
            _exponent,
            "`zipf`: the value of rank r is asked for r^-exponent times as often",
            Decimal(1),
            shown="`1`",
        ),
        "locality": Key(
            _share, "the share of interests and publications that stay within their region's values", 0
        ),
        "unsubscribe": Key(
            _share, "the share of new subscriptions for which an older one is taken back and replaced", 0
        ),
        "offer": Key(_share, "the share of the values that one publisher publishes", MILLION, shown="`1`"),
        "every_ms": Key(_ms, "the time between two calls of clients", 1_000, shown="`1`"),
        "seed": Key(
            count(0, 2**63 - 1), "a seed for clients alone, the same in all runs", shown="the scenario's"
        ),
    },
    "faults": {
        "loss": Key(_share, "the share of messages that get lost", 0),
        "duplication": Key(_share, "the share that arrive twice", 0),
        "reordering": Key(_share, "the share that overtake others", 0),
        "crashes": Key(
            _each(_crash, '{ broker = "B2", at_ms = 50, back_ms = 90 }', "broker", "at_ms", "back_ms"),
            'brokers that stop and come back empty, such as `[{ broker = "B2", at_ms = 50, back_ms = 90 }]`',
            (),
            shown="none",
        ),
        "partitions": Key(
            _each(
                _partition, '{ brokers = ["B2"], at_ms = 50, until_ms = 90 }', "brokers", "at_ms", "until_ms"
            ),
            'brokers that are cut off, such as `[{ brokers = ["B2"], at_ms = 50, until_ms = 90 }]`',
            (),
            shown="none",
        ),
        "rest_ms": Key(
            _ms, "with crashes: how long after its last call a checkpoint ends", MILLION, shown="`1000`"
        ),
    },
}
"""The tables of the file; what stands above the first one is the table without a name."""
TABLES: Final = tuple(name for name in KEYS if name)
GOES_WITH: Final = {
    "topology": {"fanout": "balanced", "extra": "cyclic", "links": "explicit"},
    "workload": {"width": "intervals", "exponent": "zipf"},
}
"""Keys that mean something with one shape only."""


# -- reading a file ----------------------------------------------------------------------------------------


class _Reading(Reading):
    """One pass over the tables of a scenario."""

    def overlay(self, values: dict[str, Any], given: Any) -> dict[str, Any]:
        """What says how brokers are linked; an explicit list says how many there are."""
        given = given if isinstance(given, Mapping) else {}
        shape = values["shape"]
        self._fitting("topology", shape, given)
        if shape == "explicit":
            if "links" not in given:
                self.wrong("topology", "[topology] links", 'missing: shape = "explicit" needs them')
            if "brokers" in given:
                self.wrong("topology", "[topology] brokers", "the links say which there are")
            values["brokers"] = len({name for link in values["links"] for name in link})
        elif "shape" in given and "brokers" not in given:
            self.wrong("topology", "[topology] brokers", f"missing: {KEYS['topology']['brokers'].meaning}")
        return values | {"shape": values["shape"] or "line", "brokers": values["brokers"] or 1}

    def workload(self, values: dict[str, Any], given: Any) -> dict[str, Any]:
        self._fitting("workload", values["shape"], given if isinstance(given, Mapping) else {})
        renamed = {
            "subscriptions": "checkpoints",
            "locality": "locality_ppm",
            "unsubscribe": "unsubscribe_ppm",
            "offer": "offer_ppm",
            "every_ms": "every_us",
        }
        return {renamed.get(key, key): value for key, value in values.items()}

    def _fitting(self, table: str, shape: Any, given: Mapping[str, Any]) -> None:
        for key, home in GOES_WITH[table].items():
            if key in given and shape in (SHAPES if table == "topology" else WORKLOADS) and shape != home:
                self.wrong(table, f"[{table}] {key}", f'it goes with shape = "{home}", not with "{shape}"')


# -- the whole ---------------------------------------------------------------------------------------------


def _check_routing(scenario: Scenario, overlay: Topology) -> Iterable[str]:
    routing = scenario.routing
    for root in routing.roots:
        if root not in overlay.brokers:
            yield f"[routing] hierarchical: there is no broker {root!r}{suggestion(root, overlay.brokers)}"
            return
    top = overlay.brokers[0]
    below = {root: overlay.subtree(top, root) for root in routing.roots}
    for root in routing.roots:
        for other in routing.roots:
            if root != other and other in below[root]:
                yield f"[routing] hierarchical: {other} is below {root} already: name one of the two"
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
    if not isinstance(clients.places, str):
        for name in clients.places:
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
    named += [("partitions", name) for part in faults.partitions for name in sorted(part.brokers)]
    for key, name in named:
        if name not in overlay.brokers:
            yield f"[faults] {key}: there is no broker {name!r}{suggestion(name, overlay.brokers)}"


CHECKS: Final[tuple[Callable[[Scenario, Topology], Iterable[str]], ...]] = (
    _check_routing,
    _check_clients,
    _check_workload,
    _check_faults,
)
