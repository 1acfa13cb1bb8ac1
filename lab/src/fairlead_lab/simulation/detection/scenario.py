"""A comparison of distribution and detection policies as a file says it.

    scenario = DetectionScenario.read("detection_policies.toml")

A file of this kind says so with `kind = "detection"`; publishers and subscriptions are lists of tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from fairlead.configuration import (
    Key,
    Reading,
    Wrong,
    count,
    file_of,
    made,
    one_of,
    parsed,
    quoted,
    read_toml,
)
from fairlead.correlation.patterns import Pattern, parse
from fairlead.errors import FairleadError, ScenarioError
from fairlead.filters import Attribute, Constraint, Op
from fairlead.overlay.topology import Topology
from fairlead_lab.broker.detection import POLICIES, Consume, DetectionPolicy, Publisher
from fairlead_lab.simulation.delays import Delay
from fairlead_lab.simulation.kinds import MS, PERIOD_MS, PPM, SEED, names
from fairlead_lab.simulation.scenario import SHAPES, TOML_HINT, OverlayPlan, overlay_given

__all__ = ["DetectionScenario", "PublisherPlan", "SubscriptionPlan", "is_detection"]

KIND: Final = "detection"
CONSUME: Final = tuple(each.value for each in Consume)
TREES: Final = tuple(name for name in SHAPES if name not in ("cyclic", "ring"))


@dataclass(frozen=True, slots=True)
class TreePlan(OverlayPlan):
    """The number of brokers, and the links that make them a tree."""

    shape: Annotated[str, Key(quoted(TREES), one_of(*TREES))]
    extra: int = 0


@dataclass(frozen=True, slots=True)
class PublisherPlan:
    """A publisher of events of a type: its broker and its rate."""

    broker: Annotated[str, Key("where it is")]
    type: Annotated[str, Key("the type of its events")]
    every_us: Annotated[
        int, Key("how much time is between two of them, on average", PERIOD_MS, at="every_ms")
    ]
    later_every_us: Annotated[
        int | None, Key("the same, from `shift_ms` on", PERIOD_MS, at="later_every_ms", shown="as before")
    ] = None
    keys: Annotated[int, Key("how many values their attribute `k` has", count(1, 10**6))] = 1
    values: Annotated[int, Key("how many values their attribute `x` has", count(1, 10**6))] = 10

    @property
    def publisher(self) -> Publisher:
        """The publisher as the directory knows it."""
        about = Constraint(Attribute("type"), Op.EQ, self.type)
        return Publisher(f"{self.type} at {self.broker}", self.broker, about, 1_000_000 / self.every_us)


@dataclass(frozen=True, slots=True)
class SubscriptionPlan:
    """A subscriber to a pattern."""

    broker: Annotated[str, Key("where the subscriber is")]
    pattern: Annotated[Pattern, Key("what it asks for", parsed(parse))]


@dataclass(frozen=True, slots=True)
class DetectionScenario:
    """A comparison to be."""

    kind: Annotated[Literal["detection"], Key("what the file is about: detection of composite events")]
    name: Annotated[str, Key("what the scenario is called", shown="the file's name")]
    overlay: Annotated[TreePlan, Key("how brokers are linked", at="topology")]
    topology: Topology
    """The tree of brokers that the file describes; a random one by the seed of the file."""
    publishers: tuple[PublisherPlan, ...]
    subscriptions: tuple[SubscriptionPlan, ...]
    seed: Annotated[int, Key("all that is left to chance depends on it alone", SEED)] = 0
    policies: Annotated[
        tuple[str, ...],
        Key(f"those to compare: {quoted(POLICIES)}", names(*POLICIES), at="detection.", shown="all"),
    ] = tuple(POLICIES)
    consume: Annotated[
        tuple[str, ...],
        Key(f"when events are consumed, one or a list: {quoted(CONSUME)}", names(*CONSUME), at="detection."),
    ] = ("guaranteed",)
    hosts: Annotated[
        tuple[str, ...], Key("the brokers at which detectors may be", at="detection.", shown="all")
    ] = ()
    heartbeat_us: Annotated[
        int, Key("how often sources say that they live", PERIOD_MS, at="detection.heartbeat_ms")
    ] = 100_000
    timeout_us: Annotated[
        int, Key("`timeout`: how long a source is waited for", MS, at="detection.timeout_ms")
    ] = 500_000
    threshold_ppm: Annotated[
        int,
        Key("`probable`: how probable it has to be that an event is stable", PPM, at="detection.threshold"),
    ] = 990_000
    duration_us: Annotated[
        int, Key("how long events are published", PERIOD_MS, at="detection.duration_ms")
    ] = 3_000_000
    shift_us: Annotated[
        int | None,
        Key(
            "from when on publishers publish as often as `later_every_ms` says",
            MS,
            at="detection.shift_ms",
            shown="never",
        ),
    ] = None
    adapt_us: Annotated[
        int | None,
        Key(
            "when detectors move to where they had better be, by the rates of the last second",
            MS,
            at="detection.adapt_ms",
            shown="never",
        ),
    ] = None
    crash_us: Annotated[
        int | None,
        Key(
            "when a host crashes: in further runs, one for each host with a detector",
            MS,
            at="detection.crash_ms",
            shown="never",
        ),
    ] = None
    fail_us: Annotated[
        int | None,
        Key(
            "when the first publisher fails, with its heartbeats",
            MS,
            at="detection.fail_ms",
            shown="never",
        ),
    ] = None
    delay: Delay = Delay()  # noqa: RUF009  (frozen)
    source: str = field(default="scenario.toml", compare=False)

    @classmethod
    def read(cls, path: str | Path) -> DetectionScenario:
        """The scenario in a file; ScenarioError names all that is wrong with it."""
        return cls.of(read_toml(path, ScenarioError, hint=TOML_HINT), source=str(path))

    @classmethod
    def of(cls, given: Mapping[str, Any], source: str = "scenario") -> DetectionScenario:
        """The scenario of a mapping with the tables of the file."""
        reading = Reading(file_of(cls))
        tables = reading.tables(given)
        reading.check(source, ScenarioError, overlay_given(tables))
        values = made(cls, tables)
        try:
            overlay = values["overlay"].topology(values.get("seed", 0))
        except FairleadError as error:
            reading.wrong("topology", "[topology]", str(error).replace("\n  hint:", ";"))
            reading.check(source, ScenarioError)
        values |= {"name": values["name"] or Path(source).stem, "topology": overlay, "source": source}
        scenario = cls(**values)
        reading.check(source, ScenarioError, scenario._unknown_brokers())
        return scenario

    def _unknown_brokers(self) -> Iterator[str]:
        named = [("[detection] hosts", host) for host in self.hosts]
        for table in ("publishers", "subscriptions"):
            plans = enumerate(getattr(self, table), start=1)
            named += [(f"[[{table}]] {at}: broker", plan.broker) for at, plan in plans]
        for place, broker in named:
            if broker not in self.topology.brokers:
                yield f"{place}: there is no broker {broker!r}"

    def changed(self, *, policies: Iterable[str] | None = None, seed: int | None = None) -> DetectionScenario:
        """The same, but where it is told otherwise; ScenarioError where that means nothing."""
        found = self
        if policies is not None:
            try:
                chosen = file_of(DetectionScenario)["detection"].rows["policies"].kind.read(list(policies))
            except Wrong as wrong:
                raise ScenarioError(f"{self.source}: {wrong}") from None
            found = replace(found, policies=chosen)
        return found if seed is None else replace(found, seed=seed)

    def detection(self, consume: str) -> DetectionPolicy:
        """A detection policy by its name."""
        return DetectionPolicy(Consume(consume), self.timeout_us, self.threshold_ppm)

    def to_json(self) -> dict[str, Any]:
        """All of it in plain values."""
        return {
            "name": self.name,
            "seed": self.seed,
            "links": [list(link) for link in self.topology.links],
            "policies": list(self.policies),
            "consume": list(self.consume),
            "hosts": list(self.hosts),
            "heartbeat_us": self.heartbeat_us,
            "timeout_us": self.timeout_us,
            "threshold_ppm": self.threshold_ppm,
            "duration_us": self.duration_us,
            "publishers": [
                {"broker": each.broker, "type": each.type, "every_us": each.every_us}
                for each in self.publishers
            ],
            "subscriptions": [
                {"broker": each.broker, "pattern": str(each.pattern)} for each in self.subscriptions
            ],
        }


def is_detection(path: str | Path) -> bool:
    """Whether a file is about detection, rather than about routing."""
    return read_toml(path, ScenarioError, hint=TOML_HINT).get("kind") == KIND
