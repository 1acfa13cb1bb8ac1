"""The modules of product and laboratory as text and as syntax trees, each read and parsed once for all tests."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[4]
SOURCES: Final = {
    "fairlead": ROOT / "src" / "fairlead",
    "fairlead_lab": ROOT / "lab" / "src" / "fairlead_lab",
}


@cache
def modules(library: str) -> dict[str, Path]:
    """The modules of a library and their files, by dotted name."""
    source = SOURCES[library]
    named = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source.parent).with_suffix("").parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


def all_modules() -> dict[str, Path]:
    """The modules of every library."""
    return {name: path for library in SOURCES for name, path in modules(library).items()}


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file. All callers share it: do not change it."""
    return nodes_of(path)[0]


@cache
def nodes_of(path: Path) -> tuple[ast.Module, *tuple[ast.AST, ...]]:
    """All nodes of the syntax tree of a file, in the order of `ast.walk`: the module first.

    Trees stay, and are no garbage: Python's search for cycles would take two thirds of the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        tree = ast.parse(text_of(path))
        return (tree, *list(ast.walk(tree))[1:])
    finally:
        if was_on:
            gc.enable()
