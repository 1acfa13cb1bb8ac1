"""The evaluation of fair correlation as a file says it: which setup, which systems, how many subscribers.

    scenario = FairScenario.read("fair_a.toml")

A file of this kind says so with `kind = "fair"`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from fairlead.configuration import (
    Key,
    Reading,
    Wrong,
    count,
    file_of,
    made,
    quoted,
    read_toml,
    some_of,
)
from fairlead.errors import ScenarioError
from fairlead_lab.broker.fair import Ordering
from fairlead_lab.simulation.delays import Delay
from fairlead_lab.simulation.fair.network import Costs
from fairlead_lab.simulation.kinds import SEED, rising
from fairlead_lab.simulation.scenario import TOML_HINT

__all__ = ["SYSTEMS", "FairScenario", "System", "is_fair"]

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

    kind: Annotated[Literal["fair"], Key("what the file is about: fair correlation")]
    name: Annotated[str, Key("what the scenario is called", shown="the file's name")]
    setup: Annotated[
        Literal["A", "B", "C", "D"],
        Key(
            "`A`: conjunctions that clients filter; `B`: that mergers filter; `C`: over all pairs of types; "
            "`D`: disjunctions",
            at="fair.",
        ),
    ]
    seed: Annotated[int, Key("all that is left to chance depends on it alone", SEED)] = 0
    systems: Annotated[
        tuple[str, ...],
        Key(f"those to compare: {quoted(SYSTEMS)}", some_of(*SYSTEMS), at="fair.", shown="all"),
    ] = tuple(SYSTEMS)
    subscribers: Annotated[
        tuple[int, ...],
        Key("how many there are, at each point of the curves", rising(1, 100_000), at="fair."),
    ] = (10, 50, 100, 200, 400, 600)
    types: Annotated[
        tuple[int, ...],
        Key("how many types of events there are; a curve for each", rising(2, TYPES_MAX), at="fair."),
    ] = (2, 3, 4)
    effort: Annotated[
        int,
        Key("with about how many messages to subscribers a point is measured", count(1, 10**9), at="fair."),
    ] = 16_000
    load_percent: Annotated[
        int,
        Key("latency is measured at this share of what the system can carry", count(1, 100), at="fair."),
    ] = 70
    interval_us: Annotated[
        int,
        Key(
            "how long a merger is quiet before it tells the time, for disjunctions",
            count(1, 10**9),
            at="fair.",
        ),
    ] = 3_000
    crashes: Annotated[
        int,
        Key(
            "how many replicas of a role stop under load, in systems that can do without them",
            count(0, 10),
            at="fair.",
        ),
    ] = 0
    joins: Annotated[
        int,
        Key(
            "how many of the subscribers, at most all but one, join while events come, when latency is measured",
            count(0, 100_000),
            at="fair.",
        ),
    ] = 0
    variants: Annotated[
        int | None,
        Key(
            "of how many different subscriptions the subscribers of a level choose; a level's begins with that of "
            "the level below",
            count(1, 1_000),
            at="fair.",
            shown="each has its own",
        ),
    ] = None
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
        reading = Reading(file_of(cls))
        values = made(cls, reading.tables(given))
        reading.check(source, ScenarioError)
        return cls(**values | {"name": values["name"] or Path(source).stem}, source=source)

    def changed(
        self,
        *,
        systems: Iterable[str] | None = None,
        subscribers: Iterable[int] | None = None,
        seed: int | None = None,
    ) -> FairScenario:
        """The same, but where it is told otherwise; ScenarioError where that means nothing."""
        found = self
        rows = file_of(FairScenario)["fair"].rows
        try:
            if systems is not None:
                found = replace(found, systems=rows["systems"].kind.read(list(systems)))
            if subscribers is not None:
                found = replace(found, subscribers=rows["subscribers"].kind.read(sorted(set(subscribers))))
        except Wrong as wrong:
            raise ScenarioError(f"{self.source}: {wrong}") from None
        return found if seed is None else replace(found, seed=seed)

    def to_json(self) -> dict[str, Any]:
        """All of it in plain values."""
        found = asdict(self)
        del found["source"], found["kind"]
        return found


def is_fair(path: str | Path) -> bool:
    """Whether a file is about fair correlation, rather than about routing."""
    kind = read_toml(path, ScenarioError, hint=TOML_HINT).get("kind")
    if kind not in (None, "fair", "detection"):
        raise ScenarioError(
            f"{path}: kind: no such kind: {kind!r}",
            hint='"fair", "detection" or "scopes"; a file about routing says none',
        )
    return kind == "fair"
