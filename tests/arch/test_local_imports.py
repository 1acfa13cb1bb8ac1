"""Imports inside functions: of optional libraries, and of the few modules below; none hides a cycle.

A local import makes a module start faster, or work without a library that is not installed. It is no means
against a cycle: the text of a value comes from a registered printer (`filters.printing`), and operators from the
registry (`filters.registry`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fairlead_lab.testing.sources import modules, tree_of

LIBRARIES = {
    *(
        "confluent_kafka",
        "confluent_kafka.admin",
        "fastavro",
        "google.protobuf",
        "jwt",
        "numba",
        "numpy",
        "psycopg",
        "pyarrow",
        "opentelemetry",
        "pyspark",
        "rich",
        "uvloop",
        "yaml",
    ),  # of extras
    *("fcntl", "resource"),  # of some systems
    "importlib.metadata",  # slow to import
}
COMMANDS = "fairlead.cli"
"""A command imports what it runs when it runs: the prompt answers at once."""
LATE = {
    ("fairlead.audit.specifications", "fairlead.audit.scoped"): "only a trace with scopes",
    ("fairlead.bus", "fairlead.audit.recorder"): "only a bus with a trace",
    ("fairlead.bus", "fairlead.bus.components"): "only a bus with scopes",
    ("fairlead.bus", "fairlead.bus.scoping"): "only a bus with scopes",
    ("fairlead.bus", "fairlead.correlation"): "only a bus with patterns",
    ("fairlead.bus", "fairlead.scopes"): "only a bus with scopes",
    ("fairlead.bus", "fairlead.typed"): "only a bus of instances",
    ("fairlead.network.client", "fairlead.typed"): "only a client of instances",
    ("fairlead.network.sync", "fairlead.typed"): "only a client of instances",
    ("fairlead.network.server", "fairlead.network.scoping"): "only a broker with scopes",
    ("fairlead.network.server", "fairlead.network.seating"): "only a broker with scopes",
    ("fairlead.network.settings", "fairlead.rules.integrated"): "only a broker with scopes",
    ("fairlead.network.settings", "fairlead.scopes"): "only a broker with scopes",
    ("fairlead.network.client", "fairlead.correlation"): "only a client that detects",
    ("fairlead.network.client", "fairlead.network.detection"): "only a client that detects",
    ("fairlead.network.client", "fairlead.network.hosted"): "only a client that asks for detection",
    ("fairlead.network.server", "fairlead.network.hosting"): "only a broker that detects",
    ("fairlead.correlation.fair.matcher", "fairlead.correlation.fair.bank"): "numpy",
    ("fairlead.matching.columnar.base", "fairlead.matching.columnar.arrow"): "pyarrow",
    ("fairlead.matching.columnar.base", "fairlead.matching.columnar.scanning"): "only who matches texts",
    ("fairlead.matching.columnar.engine", "fairlead.matching.columnar"): "numpy",
    ("fairlead.matching.columnar.loading", "fairlead.matching.columnar.engine"): "numba",
    ("fairlead.matching.columnar.selections", "fairlead.matching.columnar.engine"): "an engine in an engine",
    ("fairlead.security.settings", "fairlead.security.sealing"): "cryptography",
    ("fairlead.spark.detection", "fairlead.spark.relations"): "kernels that take seconds to compile",
    ("fairlead.spark.frames", "fairlead.matching.columnar.arrow"): "pyarrow",
    ("fairlead.spark.sources", "fairlead.spark.logs"): "pyspark",
}
"""Modules or packages, and what they import late, and why."""


MODULES = modules("fairlead")


def imports(tree: ast.AST, *, is_local: bool = False) -> Iterator[tuple[bool, str]]:
    """Whether an import is inside a function, and the module that it names; those for type checkers do not run."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.Import(names=names):
                yield from ((is_local, alias.name) for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                for alias in names:
                    inner = f"{module}.{alias.name}"
                    yield is_local, inner if inner in MODULES else module
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                for each in node.orelse:
                    yield from imports(ast.Module([each], []), is_local=is_local)
            case _:
                inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                yield from imports(node, is_local=is_local or inside)


IMPORTS = {name: list(imports(tree_of(path))) for name, path in MODULES.items()}


def is_within(name: str, package: str) -> bool:
    return f"{name}.".startswith(f"{package}.")


def allowance(module: str, name: str) -> tuple[str, str] | None:
    """The row of the list that allows a module to import another late."""
    rows = (row for row in LATE if is_within(module, row[0]) and is_within(name, row[1]))
    return next(rows, None)


def test_local_imports_are_of_optional_libraries_or_listed() -> None:
    late = (
        (module, name)
        for module, each in IMPORTS.items()
        for is_local, name in each
        if is_local and not module.startswith(COMMANDS)
    )
    named = (each for each in late if not any(is_within(each[1], library) for library in LIBRARIES))
    assert sorted({each for each in named if allowance(*each) is None}) == []


def test_no_row_of_the_list_is_out_of_date() -> None:
    late = ((module, name) for module, each in IMPORTS.items() for is_local, name in each if is_local)
    assert set(LATE) - {allowance(*each) for each in late} == set()


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph[node]:
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in graph:
        if node not in index:
            visit(node)
    return found


RECURSIVE = {
    ("fairlead.matching.columnar.loading", "fairlead.matching.columnar.engine"),
    ("fairlead.matching.columnar.selections", "fairlead.matching.columnar.engine"),
    ("fairlead.network.client", "fairlead.network.detection"),
    ("fairlead.spark.sources", "fairlead.spark.logs"),
}
"""Late imports of what builds on the importing module: kernels are loaded by an engine made for it, a path filter
has an engine for the conditions on its elements, a client offers the detections that it drives, and a source is
registered where sources are read."""


def test_local_imports_hide_no_cycle() -> None:
    graph = {
        module: {name for _, name in each if name in MODULES and name != module}
        for module, each in IMPORTS.items()
    }
    assert all(name in graph[module] for module, name in RECURSIVE)
    for module, name in RECURSIVE:
        graph[module].discard(name)
    assert cycles(graph) == []


def test_a_hidden_cycle_would_be_seen() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a", "d"}}
    assert cycles(graph) == [["b", "c"]]
