"""A comparison of distribution and detection policies as a file says it.

    scenario = DetectionScenario.read("detection_policies.toml")

A file of this kind says so with `kind = "detection"`. `DETECTION_KEYS` is its format: publishers and subscriptions
are lists of tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from fairlead.configuration import Format, Key, Reading, Wrong, all_of, count, one_of, read_toml, text, texts
from fairlead.correlation.patterns import Pattern, parse
from fairlead.errors import FairleadError, ScenarioError
from fairlead.filters import Attribute, Constraint, Op
from fairlead.overlay.topology import Topology, topology
from fairlead_lab.broker.detection import POLICIES, Consume, DetectionPolicy, Publisher
from fairlead_lab.simulation.delays import Delay
from fairlead_lab.simulation.scenario import KEYS, SHAPES, TOML_HINT

__all__ = ["DETECTION_KEYS", "DetectionScenario", "PublisherPlan", "SubscriptionPlan", "is_detection"]

KIND: Final = "detection"
_ms: Final = KEYS["delay"]["least_ms"].read
_share: Final = KEYS["faults"]["loss"].read
TREES: Final = tuple(name for name in SHAPES if name not in ("cyclic", "ring"))


@dataclass(frozen=True, slots=True)
class PublisherPlan:
    """Who publishes events of a type, where and how often."""

    broker: str
    type: str
    every_us: int
    later_every_us: int | None = None
    keys: int = 1
    values: int = 10

    @property
    def publisher(self) -> Publisher:
        """What the directory knows of it."""
        about = Constraint(Attribute("type"), Op.EQ, self.type)
        return Publisher(f"{self.type} at {self.broker}", self.broker, about, 1_000_000 / self.every_us)


@dataclass(frozen=True, slots=True)
class SubscriptionPlan:
    """Who asks for a pattern."""

    broker: str
    pattern: Pattern


@dataclass(frozen=True, slots=True)
class DetectionScenario:
    """A comparison to be."""

    name: str
    topology: Topology
    publishers: tuple[PublisherPlan, ...]
    subscriptions: tuple[SubscriptionPlan, ...]
    seed: int = 0
    policies: tuple[str, ...] = tuple(POLICIES)
    consume: tuple[str, ...] = ("guaranteed",)
    hosts: tuple[str, ...] = ()
    heartbeat_us: int = 100_000
    timeout_us: int = 500_000
    threshold_ppm: int = 990_000
    duration_us: int = 3_000_000
    shift_us: int | None = None
    adapt_us: int | None = None
    crash_us: int | None = None
    fail_us: int | None = None
    delay: Delay = Delay()  # noqa: RUF009  (frozen)
    source: str = field(default="scenario.toml", compare=False)

    @classmethod
    def read(cls, path: str | Path) -> DetectionScenario:
        """The scenario in a file; ScenarioError names all that is wrong with it."""
        return cls.of(read_toml(path, ScenarioError, hint=TOML_HINT), source=str(path))

    @classmethod
    def of(cls, given: Mapping[str, Any], source: str = "scenario") -> DetectionScenario:
        """The scenario of a mapping with the tables of the file."""
        reading = _Reading(DETECTION_KEYS)
        top = reading.top(given)
        overlay = reading.overlay(given, top["seed"])
        detection, delay = (reading.table(name, given.get(name, {})) for name in ("detection", "delay"))
        publishers = reading.several("publishers", given)
        subscriptions = reading.several("subscriptions", given)
        if not reading.problems and overlay is not None:
            reading.check_brokers("[detection] hosts", detection["hosts"], overlay)
            for name, tables in (("publishers", publishers), ("subscriptions", subscriptions)):
                for number, each in enumerate(tables, start=1):
                    reading.check_brokers(f"[[{name}]] {number}: broker", [each["broker"]], overlay)
        if reading.problems or overlay is None:
            raise all_of(reading.problems, source, ScenarioError)
        return cls(
            name=top["name"] or Path(source).stem,
            seed=top["seed"],
            topology=overlay,
            publishers=tuple(PublisherPlan(**_micros(each)) for each in publishers),
            subscriptions=tuple(SubscriptionPlan(**each) for each in subscriptions),
            **_micros({**detection, "hosts": tuple(detection["hosts"])}),
            delay=Delay(delay["least_ms"], delay["spread_ms"], delay["shape"]),
            source=source,
        )

    def changed(self, *, policies: Iterable[str] | None = None, seed: int | None = None) -> DetectionScenario:
        """The same, but where it is told otherwise; ScenarioError where that means nothing."""
        found = self
        if policies is not None:
            try:
                chosen = DETECTION_KEYS["detection"]["policies"].read(list(policies))
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


def _micros(values: Mapping[str, Any]) -> dict[str, Any]:
    """What the file calls a time in milliseconds is one in microseconds."""
    renamed = {"threshold": "threshold_ppm"}
    return {renamed.get(key, key.replace("_ms", "_us")): value for key, value in values.items()}


class _Reading(Reading):
    """One pass over the tables of a scenario."""

    def overlay(self, given: Mapping[str, Any], seed: int) -> Topology | None:
        """The tree of brokers; a random one by the seed of the file."""
        values = self.required("topology", given)
        if "topology" in self.unsound:
            return None
        links = values["links"] or None
        try:
            if links is not None:
                return Topology.explicit(links)
            return topology(
                SHAPES[values["shape"]], values["brokers"] or 1, fanout=values["fanout"], seed=seed
            )
        except FairleadError as error:
            self.wrong("topology", "[topology]", str(error).replace("\n  hint:", ";"))
            return None

    def several(self, name: str, given: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The tables of a list."""
        tables = given.get(name, [])
        if not isinstance(tables, list) or not tables:
            self.wrong(name, f"[[{name}]]", "there is none")
            return []
        return [
            self.table(name, each, label=f"[[{name}]] {number}:")
            for number, each in enumerate(tables, start=1)
        ]

    def check_brokers(self, place: str, named: Iterable[str], overlay: Topology) -> None:
        """Whoever is named has to be there."""
        for broker in named:
            if broker not in overlay.brokers:
                self.wrong("topology", place, f"there is no broker {broker!r}")


def _names(*names: str) -> Callable[[Any], tuple[str, ...]]:
    one = one_of(*names)

    def read(given: Any) -> tuple[str, ...]:
        found = tuple(dict.fromkeys(map(one, given if isinstance(given, list) else [given])))
        if not found:
            raise Wrong("the list is empty")
        return found

    return read


def _pattern(given: Any) -> Pattern:
    try:
        return parse(text(given))
    except FairleadError as error:
        raise Wrong(str(error)) from None


def _period(given: Any) -> int:
    found = int(_ms(given))
    if not found:
        raise Wrong("it takes some time from one event to the next")
    return found


def _maybe(meaning: str) -> Key:
    return Key(_ms, meaning, None, shown="never")


DETECTION_KEYS: Final[Format] = {
    "": {
        "kind": Key(one_of(KIND), "what the file is about: detection of composite events", required=True),
        "name": Key(text, "what the scenario is called", shown="the file's name"),
        "seed": Key(count(0, 2**63 - 1), "all that is left to chance depends on it alone", 0),
    },
    "topology": {
        "shape": Key(one_of(*TREES), f"{', '.join(f'`{name}`' for name in TREES)}", required=True),
        "brokers": KEYS["topology"]["brokers"],
        "fanout": KEYS["topology"]["fanout"],
        "links": KEYS["topology"]["links"],
    },
    "delay": KEYS["delay"],
    "detection": {
        "policies": Key(
            _names(*POLICIES),
            f"those to compare: {', '.join(f'`{name}`' for name in POLICIES)}",
            tuple(POLICIES),
            shown="all",
        ),
        "consume": Key(
            _names(*(each.value for each in Consume)),
            f"when events are consumed, one or a list: {', '.join(f'`{each.value}`' for each in Consume)}",
            ("guaranteed",),
            shown='`"guaranteed"`',
        ),
        "hosts": Key(texts, "the brokers at which detectors may be", (), shown="all"),
        "heartbeat_ms": Key(_period, "how often sources say that they live", 100_000, shown="`100`"),
        "timeout_ms": Key(_ms, "`timeout`: how long a source is waited for", 500_000, shown="`500`"),
        "threshold": Key(
            _share, "`probable`: how probable it has to be that an event is stable", 990_000, shown="`0.99`"
        ),
        "duration_ms": Key(_period, "how long events are published", 3_000_000, shown="`3000`"),
        "shift_ms": _maybe("from when on publishers publish as often as `later_every_ms` says"),
        "adapt_ms": _maybe(
            "when detectors move to where they had better be, by the rates of the last second"
        ),
        "crash_ms": _maybe("when a host crashes: in further runs, one for each host with a detector"),
        "fail_ms": _maybe("when the first publisher fails, with its heartbeats"),
    },
    "publishers": {
        "broker": Key(text, "where it is", required=True),
        "type": Key(text, "the type of its events", required=True),
        "every_ms": Key(_period, "how much time is between two of them, on average", required=True),
        "later_every_ms": Key(_period, "the same, from `shift_ms` on", None, shown="as before"),
        "keys": Key(count(1, 10**6), "how many values their attribute `k` has", 1),
        "values": Key(count(1, 10**6), "how many values their attribute `x` has", 10),
    },
    "subscriptions": {
        "broker": Key(text, "where the subscriber is", required=True),
        "pattern": Key(_pattern, "what it asks for", required=True),
    },
}
