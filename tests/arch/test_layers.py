"""Imports point down only.

The table below is the layers' one definition in code: what is not in it may not be imported, and a package
that is not in it fails the test until somebody decides where it belongs. Imports inside functions and those
for type checkers count as well: a dependency that is hidden is still one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import TopologicalSorter

import pytest

from fairlead_lab.testing.sources import ROOT, SOURCES, all_modules, nodes_of

BASE = frozenset({"errors", "filters", "kernels", "model"})
# The stages are siblings: they meet through the protocols in model/ and never import one another.
STAGES = frozenset(
    {"conditions", "correlation", "delivery", "ingest", "matching", "overlay", "routing", "scopes"}
)
KERNEL = (
    BASE
    | STAGES
    | {*("audit", "broker", "configuration", "dialects", "drawing", "kafka", "log", "markup", "rules")}
    | {"security", "typed"}
    | {"security", "telemetry"}
    | {"channels"}
)
RUNTIMES = frozenset({"bus", "network", "spark"})

# "fairlead" is the package's own `__init__`, the face that users import; the code below it does not.
MAY_IMPORT: dict[str, frozenset[str]] = {
    "errors": frozenset(),
    "configuration": frozenset({"errors"}),
    "drawing": frozenset(),
    "kernels": frozenset(),
    "markup": frozenset(),
    "model": frozenset({"errors", "kernels"}),
    "filters": frozenset({"errors", "model"}),
    **dict.fromkeys(STAGES, BASE),
    "correlation": BASE | {"drawing"},
    "scopes": BASE | {"drawing"},
    "dialects": BASE | {"correlation"},
    "kafka": BASE | {"ingest"},
    "log": BASE,
    "security": BASE | {"configuration"},
    "telemetry": frozenset({"errors", "model"}),
    "channels": BASE | {"configuration"},
    "rules": BASE | {"channels", "scopes", "security"},
    "typed": BASE,
    "audit": BASE | STAGES,
    "broker": BASE | STAGES | {"audit", "configuration", "rules"},
    "bus": KERNEL,
    "network": KERNEL,
    "spark": KERNEL | {"network.addresses", "network.client", "network.sync"},
    "testing": KERNEL | RUNTIMES,
    "fairlead": KERNEL | RUNTIMES,
    "cli": KERNEL | RUNTIMES | {"console", "fairlead", "mqtt"},
    "console": KERNEL | RUNTIMES | {"fairlead", "mqtt"},
    "mqtt": KERNEL | {"network"},
    "__main__": frozenset({"cli"}),
}

# The laboratory imports all of the product but its command line, which only its own commands use; the product
# never imports the laboratory. Within the laboratory, imports point down as well.
LAB_STAGES = frozenset({"audit", "correlation", "delivery", "matching", "overlay", "routing", "scopes"})
LAB_MAY_IMPORT: dict[str, frozenset[str]] = {
    "fairlead_lab": frozenset(),
    "plotting": frozenset(),
    **dict.fromkeys(LAB_STAGES, frozenset()),
    "dialects": frozenset(),
    "broker": LAB_STAGES,
    "simulation": LAB_STAGES | {"broker", "plotting"},
    "console": LAB_STAGES | {"broker", "simulation"},
    "chaos": frozenset(),
    "servers": frozenset(),
    "spark": LAB_STAGES | {"simulation"},
    "testing": LAB_STAGES | {"broker", "chaos", "simulation"},
    "bench": LAB_STAGES | {"chaos", "plotting", "simulation", "spark"},
    "cli": LAB_STAGES | {"bench", "console", "simulation", "spark"},
}

# Libraries that have one home, in the product and in the laboratory; anything else may be imported anywhere.
HOMES: dict[str, frozenset[str]] = {
    "pyspark": frozenset({"spark"}),
    **dict.fromkeys(
        ("asyncio", "selectors", "socket", "socketserver", "ssl", "uvloop"),
        frozenset({"bench", "chaos", "console", "mqtt", "network", "servers", "testing"}),
    ),
    **dict.fromkeys(("starlette", "uvicorn", "websockets"), frozenset({"console"})),
    **dict.fromkeys(("hypothesis", "pytest"), frozenset({"testing"})),
    "matplotlib": frozenset({"plotting"}),
    "jwt": frozenset({"security", "testing"}),
    "cryptography": frozenset({"security"}),
    "rich": frozenset({"cli"}),
    **dict.fromkeys(("aiomqtt", "mqtt5", "paho"), frozenset({"mqtt", "testing"})),
    "psycopg": frozenset({"spark"}),
    "opentelemetry": frozenset({"telemetry", "testing"}),
    **dict.fromkeys(("confluent_kafka", "fastavro"), frozenset({"kafka", "testing"})),
}


def unit_of(module: str) -> str:
    """The row of its table that a module belongs to."""
    return module.split(".")[1] if "." in module else module


def imported(module: str, nodes: Iterable[ast.AST], *, is_package: bool = False) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that a module imports, relative names made absolute."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    for node in nodes:
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=origin, names=names, level=level):
                parents = package[: len(package) - level + 1] if level else []
                base = ".".join([*parents, *([origin] if origin else [])])
                yield from ((node.lineno, f"{base}.{alias.name}") for alias in names)
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__"), args=[ast.Constant(str(name)), *_]
            ):
                yield node.lineno, name
            case ast.Call(func=ast.Attribute(attr="import_module"), args=[ast.Constant(str(name)), *_]):
                yield node.lineno, name


def is_allowed(name: str, allowed: frozenset[str]) -> bool:
    """Whether a dotted name is one of those allowed, or lies within one of them."""
    return any(f"{name}.".startswith(f"{each}.") for each in allowed)


def violations(module: str, nodes: Iterable[ast.AST], *, is_package: bool = False) -> list[str]:
    """What a module imports against the table, one sentence for each."""
    unit, own = unit_of(module), module.partition(".")[0]
    table = MAY_IMPORT if own == "fairlead" else LAB_MAY_IMPORT
    if unit not in table:
        return [f"{module}: the package {unit!r} has no row in {'LAB_' * (own != 'fairlead')}MAY_IMPORT"]
    found = []
    for line, name in imported(module, nodes, is_package=is_package):
        library, _, inner = name.partition(".")
        if library not in SOURCES:
            if unit not in HOMES.get(library, {unit}):
                found.append(f"{module}:{line}: {library} is imported only in {sorted(HOMES[library])}")
            continue
        if library != own:
            if own == "fairlead":
                found.append(f"{module}:{line}: the product may not import the laboratory")
            elif is_allowed(inner, frozenset({"cli"})) and unit != "cli":
                found.append(f"{module}:{line}: {unit} may not import {name}")
            continue
        # `from fairlead import Bus` names no module of ours: it is the face that is imported.
        target = inner if inner.split(".")[0] in table or is_module(own, inner) else own
        if unit_of(f"{own}.{target}") != unit and not is_allowed(target, table[unit]):
            found.append(f"{module}:{line}: {unit} may not import {target}")
    return found


@cache
def is_module(library: str, inner: str) -> bool:
    path = SOURCES[library] / inner.partition(".")[0]
    return bool(inner) and (path.is_dir() or path.with_suffix(".py").is_file())


def test_imports_point_down_only() -> None:
    found = (
        violations(module, nodes_of(path), is_package=path.name == "__init__.py")
        for module, path in all_modules().items()
    )
    assert [sentence for each in found for sentence in each] == []


@pytest.mark.parametrize("table", [MAY_IMPORT, LAB_MAY_IMPORT], ids=["product", "laboratory"])
def test_the_table_itself_points_down_only(table: dict[str, frozenset[str]]) -> None:
    graph = {unit: {each.split(".")[0] for each in allowed} for unit, allowed in table.items()}
    order = list(TopologicalSorter(graph).static_order())
    assert set(order) == set(table)


def test_architecture_draws_the_table() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    drawn = page.partition("## Layers")[2].split("```")[1].removeprefix("text\n")
    level = {
        unit: number
        for number, line in enumerate(reversed(drawn.splitlines()))
        for unit in line.partition("(")[0].split() + line.partition(")")[2].split()
    }
    assert set(level) == set(MAY_IMPORT) - {"__main__"}
    for unit, height in level.items():
        above = {each.split(".")[0] for each in MAY_IMPORT[unit]}
        assert not [each for each in above if level[each] >= height], f"ARCHITECTURE.md draws {unit} too low"


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("fairlead.model.values", "from fairlead.filters import parse", "model may not import filters.parse"),
        ("fairlead.model.values", "from fairlead import filters", "model may not import filters"),
        ("fairlead.model.values", "from ..filters import parse", "model may not import filters.parse"),
        ("fairlead.model.values", "from .. import bus", "model may not import bus"),
        ("fairlead.errors", "import fairlead", "errors may not import fairlead"),
        ("fairlead.configuration", "from fairlead.model import Kind", "configuration may not import model"),
        ("fairlead.routing.table", "import fairlead.configuration", "routing may not import configuration"),
        ("fairlead.filters.poset", "from fairlead import Bus", "filters may not import fairlead"),
        (
            "fairlead.matching.counting",
            "import fairlead.routing.table",
            "matching may not import routing.table",
        ),
        ("fairlead.matching.tree", "import fairlead.audit", "matching may not import audit"),
        ("fairlead.broker.stages", "from fairlead.bus import Bus", "broker may not import bus.Bus"),
        (
            "fairlead.spark.delivery",
            "from fairlead.network import server",
            "spark may not import network.server",
        ),
        ("fairlead_lab.simulation.faults", "import fairlead_lab.bench.cell", "may not import bench.cell"),
        ("fairlead.bus", "def f():\n    import fairlead_lab", "the product may not import the laboratory"),
        ("fairlead.cli", "from fairlead_lab.cli import bench", "the product may not import the laboratory"),
        (
            "fairlead_lab.bench.cell",
            "from fairlead.cli import main",
            "bench may not import fairlead.cli.main",
        ),
        ("fairlead.console.desk", "import fairlead.cli", "console may not import cli"),
        ("fairlead.cli.match", "from fairlead.testing import strategies", "cli may not import testing"),
        ("fairlead.bus", "def f():\n    import asyncio.queues", "bus:2: asyncio is imported only in"),
        ("fairlead.broker.stages", "from socket import socket", "socket is imported only in"),
        ("fairlead.matching.columnar", "import pyspark.sql as sql", "pyspark is imported only in ['spark']"),
        (
            "fairlead.cli.run",
            "from importlib import import_module\nimport_module('pyspark')",
            "run:2: pyspark is",
        ),
        ("fairlead.cli.run", "import importlib\nimportlib.import_module('pyspark.sql')", "run:2: pyspark is"),
        ("fairlead.network.server", "import starlette", "starlette is imported only in ['console']"),
        ("fairlead.utilities.strings", "", "the package 'utilities' has no row in MAY_IMPORT"),
    ],
)
def test_a_module_that_imports_upwards_or_sideways_is_named(module: str, source: str, complaint: str) -> None:
    [found] = violations(module, ast.walk(ast.parse(source)))
    assert complaint in found


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("fairlead.filters.poset", "from .extents.piece import Piece\nfrom ..model import Notification"),
        ("fairlead.filters.poset", "import fairlead.model.values, fairlead.errors\nimport numpy"),
        ("fairlead.spark.delivery", "from fairlead.network.client import connect\nimport pyspark"),
        (
            "fairlead.spark.auditing",
            "from fairlead.network.addresses import Address\nfrom fairlead.log import Segment",
        ),
        ("fairlead.network.server", "import asyncio, socket"),
        ("fairlead_lab.cli.show", "from fairlead.cli import main\nfrom fairlead_lab.bench import cell"),
        ("fairlead.cli.show", "from fairlead import __version__\nfrom rich.console import Console"),
        ("fairlead.__main__", "from fairlead.cli import main"),
        ("fairlead", "from fairlead.bus import Bus\nfrom .errors import FairleadError"),
    ],
)
def test_a_module_that_imports_downwards_is_left_alone(module: str, source: str) -> None:
    assert violations(module, ast.walk(ast.parse(source)), is_package=module == "fairlead") == []
