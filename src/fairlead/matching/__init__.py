"""Matching: whom a notification concerns. Several engines, one answer; `brute` is the definition."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from fairlead.matching.engine import Engine, EngineUnknown, Statistics

__all__ = ["ENGINES", "Engine", "EngineUnknown", "Statistics", "engine_named"]

ENGINES: Final[dict[str, str]] = {
    "automaton": "fairlead.matching.automaton:Automaton",
    "brute": "fairlead.matching.brute:Brute",
    "columnar": "fairlead.matching.columnar:Columnar",
    "counting": "fairlead.matching.counting:Counting",
    "diagram": "fairlead.matching.diagram:Diagram",
    "poset": "fairlead.matching.poset:Traversal",
    "tree": "fairlead.matching.tree:Tree",
}
"""The engines by name. Their modules are imported when asked for: some bring heavy libraries along."""


def engine_named(name: str) -> Engine[Any]:
    """A new, empty engine."""
    if name not in ENGINES:
        raise EngineUnknown.named(name, ENGINES)
    module, _, engine = ENGINES[name].partition(":")
    made: Engine[Any] = getattr(import_module(module), engine)()
    return made
