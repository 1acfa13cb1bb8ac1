"""The evaluation of fair correlation as a file says it: which setup, which systems, how many subscribers.

    scenario = FairScenario.read("fair_a.toml")

A file of this kind says so with `kind = "fair"`. `FAIR_KEYS` is its format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
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
    one_of,
    read_toml,
    some_of,
    text,
)
from fairlead.errors import ScenarioError
from fairlead_lab.broker.fair import Ordering
from fairlead_lab.simulation.delays import Delay
from fairlead_lab.simulation.fair.network import Costs
from fairlead_lab.simulation.scenario import KEYS, TOML_HINT

__all__ = ["FAIR_KEYS", "SYSTEMS", "FairScenario", "System", "is_fair"]

SETUPS: Final = ("A", "B", "C", "D")
TYPES_MAX: Final = 6


@dataclass(frozen=True, slots=True)
class System:
    """A way to establish the order."""

    ordering: Ordering
    replicas: int | None
    """None: as many stations as there are machines for the subscribers."""
    title: str


SYSTEMS: Final[Mapping[str, System]] = {
    "faidecs": System(Ordering.MERGING, 1, "ordered merging"),
    "faidecs-replicated": System(Ordering.MERGING, 3, "ordered merging, 3 replicas"),
    "sequencer": System(Ordering.SEQUENCER, 1, "sequencer"),
    "sequencer-replicated": System(Ordering.SEQUENCER, 3, "sequencer, 3 replicas"),
    "token": System(Ordering.TOKEN, None, "token"),
}


@dataclass(frozen=True, slots=True)
class FairScenario:
    """A comparison to be."""

    name: str
    setup: str
    seed: int = 0
    systems: tuple[str, ...] = tuple(SYSTEMS)
    subscribers: tuple[int, ...] = (10, 50, 100, 200, 400, 600)
    types: tuple[int, ...] = (2, 3, 4)
    effort: int = 16_000
    load_percent: int = 70
    interval_us: int = 3_000
    crashes: int = 0
    costs: Costs = Costs(10, 2)  # noqa: RUF009 (frozen)
    delay: Delay = Delay(50, 50)  # noqa: RUF009 (frozen)
    source: str = field(default="scenario.toml", compare=False)

    @classmethod
    def read(cls, path: str | Path) -> FairScenario:
        """The scenario in a file; ScenarioError names all that is wrong with it."""
        given = read_toml(path, ScenarioError, hint=TOML_HINT)
        return cls.of(given, source=str(path))

    @classmethod
    def of(cls, given: Mapping[str, Any], source: str = "scenario") -> FairScenario:
        """The scenario of a mapping with the tables of the file."""
        reading = Reading(FAIR_KEYS)
        top = reading.top(given)
        fair = reading.required("fair", given)
        costs, delay = (reading.table(name, given.get(name, {})) for name in ("costs", "delay"))
        if reading.problems:
            raise all_of(reading.problems, source, ScenarioError)
        return cls(
            name=top["name"] or Path(source).stem,
            seed=top["seed"],
            **fair,
            costs=Costs(**costs),
            delay=Delay(delay["least_ms"], delay["spread_ms"], delay["shape"]),
            source=source,
        )

    def changed(
        self,
        *,
        systems: Iterable[str] | None = None,
        subscribers: Iterable[int] | None = None,
        seed: int | None = None,
    ) -> FairScenario:
        """The same, but where it is told otherwise; ScenarioError where that means nothing."""
        found = self
        try:
            if systems is not None:
                found = replace(found, systems=FAIR_KEYS["fair"]["systems"].read(list(systems)))
            if subscribers is not None:
                numbers = sorted(set(subscribers))
                found = replace(found, subscribers=FAIR_KEYS["fair"]["subscribers"].read(numbers))
        except Wrong as wrong:
            raise ScenarioError(f"{self.source}: {wrong}") from None
        return found if seed is None else replace(found, seed=seed)

    def to_json(self) -> dict[str, Any]:
        """All of it in plain values."""
        found = asdict(self)
        del found["source"]
        return found


def is_fair(path: str | Path) -> bool:
    """Whether a file is about fair correlation, rather than about routing."""
    kind = read_toml(path, ScenarioError, hint=TOML_HINT).get("kind")
    if kind not in (None, "fair", "detection"):
        raise ScenarioError(
            f"{path}: kind: no such kind: {kind!r}",
            hint='"fair" or "detection"; a file about routing says none',
        )
    return kind == "fair"


def _rising(least: int, most: int) -> Callable[[Any], tuple[int, ...]]:
    one = count(least, most)

    def read(given: Any) -> tuple[int, ...]:
        found = tuple(map(one, given)) if isinstance(given, list) else (one(given),)
        if not found or any(after <= before for before, after in pairwise(found)):
            raise Wrong(f"numbers from {least:,} on that rise were expected, such as [{least}, {least + 1}]")
        return found

    return read


FAIR_KEYS: Final[Format] = {
    "": {
        "kind": Key(one_of("fair"), "what the file is about: fair correlation", required=True),
        "name": Key(text, "what the scenario is called", shown="the file's name"),
        "seed": Key(count(0, 2**63 - 1), "all that is left to chance depends on it alone", 0),
    },
    "fair": {
        "setup": Key(
            one_of(*SETUPS),
            "`A`: conjunctions that clients filter; `B`: that mergers filter; `C`: over all pairs of types; "
            "`D`: disjunctions",
            required=True,
        ),
        "systems": Key(
            some_of(*SYSTEMS),
            f"those to compare: {', '.join(f'`{name}`' for name in SYSTEMS)}",
            tuple(SYSTEMS),
            shown="all",
        ),
        "subscribers": Key(
            _rising(1, 100_000),
            "how many there are, at each point of the curves",
            (10, 50, 100, 200, 400, 600),
        ),
        "types": Key(
            _rising(2, TYPES_MAX), "how many types of events there are; a curve for each", (2, 3, 4)
        ),
        "effort": Key(
            count(1, 10**9), "with about how many messages to subscribers a point is measured", 16_000
        ),
        "load_percent": Key(
            count(1, 100), "latency is measured at this share of what the system can carry", 70
        ),
        "interval_us": Key(
            count(1, 10**9), "how long a merger is quiet before it tells the time, for disjunctions", 3_000
        ),
        "crashes": Key(
            count(0, 10),
            "how many replicas of a role stop under load, in systems that can do without them",
            0,
        ),
    },
    "costs": {
        "receive_us": Key(count(0, 10**6), "how long a process takes to handle a message", 10),
        "send_us": Key(count(0, 10**6), "how long it takes to send one", 2),
    },
    "delay": {
        **KEYS["delay"],
        "least_ms": KEYS["delay"]["least_ms"]._replace(default=50, shown="`0.05`"),
        "spread_ms": KEYS["delay"]["spread_ms"]._replace(default=50, shown="`0.05`"),
    },
}
