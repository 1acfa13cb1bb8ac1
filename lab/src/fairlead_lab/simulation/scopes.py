"""The architectures of scopes compared, as a file with `kind = "scopes"` says: messages, accesses, table sizes.

    scenario = ScopesScenario.read("scopes.toml")
    rows = compare_scopes(scenario)

A scenario is a tree of scopes, as many levels deep as it says, over a tree of brokers. Components are placed near
one another where they are in the same scope, or anywhere. Every scope lets a share of what is in it pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Annotated, Any, Final, Literal

from fairlead.configuration import Key, Reading, count, file_of, made, read_toml
from fairlead.errors import ScenarioError, SimulationFailed
from fairlead.filters import EVERYTHING, Attribute, Constraint, Filter, Op
from fairlead.model import Notification
from fairlead.overlay import Topology
from fairlead.scopes import Edge, Interface, Scope, ScopeGraph
from fairlead_lab.plotting import COLOURS, Line, Panel, draw
from fairlead_lab.scopes.architectures import ARCHITECTURES, Overlay, entries
from fairlead_lab.simulation.kinds import MILLION, PPM, SEED, names, rising
from fairlead_lab.simulation.scenario import TOML_HINT

__all__ = ["ScopesRow", "ScopesScenario", "compare_scopes", "draw_scopes", "is_scopes"]

KIND: Final = "scopes"
VALUES: Final = 100


@dataclass(frozen=True, slots=True)
class ScopesScenario:
    """A comparison to be."""

    kind: Annotated[Literal["scopes"], Key("what the file is about: scopes")]
    name: Annotated[str, Key("what the scenario is called", shown="the file's name")] = ""
    seed: Annotated[int, Key("all that is left to chance depends on it alone", SEED)] = 0
    architectures: Annotated[
        tuple[str, ...], Key("those to compare", names(*ARCHITECTURES), at="scopes.", shown="all")
    ] = tuple(ARCHITECTURES)
    brokers: Annotated[
        int, Key("how many brokers there are, in a balanced tree", count(1, 1_000), at="scopes.")
    ] = 31
    depths: Annotated[
        tuple[int, ...],
        Key("how many levels of scopes there are, one or a list", rising(1, 12), at="scopes."),
    ] = (1, 2, 3, 4, 5)
    fanout: Annotated[int, Key("how many subscopes a scope has", count(1, 100), at="scopes.")] = 2
    components: Annotated[
        int, Key("how many simple components there are", count(1, 100_000), at="scopes.")
    ] = 200
    publications: Annotated[
        int, Key("how many notifications are published", count(1, 100_000), at="scopes.")
    ] = 200
    open_ppm: Annotated[
        int, Key("which share of notifications a scope lets pass, each way", PPM, at="scopes.open")
    ] = 500_000
    near_ppm: Annotated[
        int,
        Key(
            "which share of components is at the broker of their scope; the others are anywhere",
            PPM,
            at="scopes.near",
        ),
    ] = 800_000

    @classmethod
    def read(cls, path: str | Path) -> ScopesScenario:
        """The scenario in a file; ScenarioError names all that is wrong with it."""
        return cls.of(read_toml(path, ScenarioError, hint=TOML_HINT), source=str(path))

    @classmethod
    def of(cls, given: Mapping[str, Any], source: str = "scenario") -> ScopesScenario:
        """The scenario of a mapping with the tables of the file."""
        reading = Reading(file_of(cls))
        tables = reading.tables(given)
        reading.check(source, ScenarioError)
        scenario = cls(**made(cls, tables))
        return replace(scenario, name=scenario.name or Path(source).stem)

    def overlay(self, depth: int) -> Overlay:
        """The scope graph of a depth, with its components at brokers."""
        chance = Random(f"scopes {self.seed} {depth}")
        topology = Topology.balanced_tree(self.brokers)
        passing: Filter = EVERYTHING
        if self.open_ppm < MILLION:
            passing = Constraint(Attribute("x"), Op.LT, self.open_ppm * VALUES // MILLION)
        levels: list[list[str]] = [["S"]]
        for _ in range(depth - 1):
            levels.append([f"{name}.{number}" for name in levels[-1] for number in range(self.fanout)])
        scopes = [Scope(name, interface=Interface(passing, passing)) for level in levels for name in level]
        edges = [Edge(name, name.rpartition(".")[0]) for level in levels[1:] for name in level]
        seats = {scope.name: chance.choice(topology.brokers) for scope in scopes}
        at = {}
        for number in range(self.components):
            scope = chance.choice(levels[-1])
            near = chance.randrange(MILLION) < self.near_ppm
            at[f"c{number}"] = seats[scope] if near else chance.choice(topology.brokers)
            edges.append(Edge(f"c{number}", scope))
        return Overlay(ScopeGraph.of(scopes, edges), topology, at)


@dataclass(frozen=True, slots=True)
class ScopesRow:
    """The cost of an architecture, at one depth."""

    architecture: str
    depth: int
    scopes: int
    publications: int
    deliveries: int
    messages: int
    accesses: int
    entries: int

    def to_json(self) -> dict[str, Any]:
        """All of it in plain values."""
        return asdict(self)


def compare_scopes(
    scenario: ScopesScenario, progress: Callable[[int], object] | None = None
) -> list[ScopesRow]:
    """The rows of all architectures and depths; SimulationFailed where two of them deliver different things."""
    rows: list[ScopesRow] = []
    for number, depth in enumerate(scenario.depths):
        if progress is not None:
            progress(number)
        overlay = scenario.overlay(depth)
        chance = Random(f"publications {scenario.seed} {depth}")
        listeners = {
            name: [Constraint(Attribute("x"), Op.GE, chance.randrange(VALUES))] for name in overlay.at
        }
        published = [
            Notification.of(
                {"producer": chance.choice(list(overlay.at)), "id": str(id), "x": chance.randrange(VALUES)}
            )
            for id in range(scenario.publications)
        ]
        sizes = entries(overlay, listeners)
        wanted: list[set[tuple[str, str]]] | None = None
        for name in scenario.architectures:
            runs = [ARCHITECTURES[name](overlay, n, listeners) for n in published]
            found = [run.delivered for run in runs]
            if wanted is not None and found != wanted:
                raise SimulationFailed(
                    f"{name} delivers other notifications than {scenario.architectures[0]}"
                )
            wanted = found
            rows.append(
                ScopesRow(
                    name,
                    depth,
                    len(overlay.brokers) - 1,  # without that of outsiders
                    len(published),
                    sum(map(len, found)),
                    sum(run.messages for run in runs),
                    sum(run.accesses for run in runs),
                    sizes[name],
                )
            )
    return rows


def draw_scopes(scenario: ScopesScenario, rows: list[ScopesRow], directory: Path) -> list[Path]:
    """The curves of the comparison, over the depth of the graph."""

    def lines(value: Callable[[ScopesRow], float]) -> tuple[Line, ...]:
        found = []
        for number, name in enumerate(scenario.architectures):
            own = [row for row in rows if row.architecture == name]
            xs, ys = [row.depth for row in own], [value(row) for row in own]
            found.append(Line(name, xs, ys, colour=COLOURS[number % len(COLOURS)]))
        return tuple(found)

    panels = [
        Panel(
            "messages", "between brokers, per publication", "levels of scopes", lines=lines(_each("messages"))
        ),
        Panel(
            "accesses", "to the medium, per publication", "levels of scopes", lines=lines(_each("accesses"))
        ),
        Panel("tables", "entries at all brokers", "levels of scopes", lines=lines(lambda row: row.entries)),
    ]
    about = f"{scenario.brokers} brokers, {scenario.components} components, {scenario.fanout} subscopes each"
    return draw("Architectures of scopes", about, panels, [directory / "scopes.png"], columns=3)


def _each(name: str) -> Callable[[ScopesRow], float]:
    return lambda row: float(getattr(row, name)) / row.publications


def is_scopes(path: str | Path) -> bool:
    """Whether a file is about scopes."""
    return read_toml(path, ScenarioError, hint=TOML_HINT).get("kind") == KIND
