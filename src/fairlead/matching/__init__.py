"""Matching: the filters that a notification satisfies. Several engines, one answer; `brute` is the definition."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from fairlead.matching.engine import Engine, EngineUnknown, Statistics

__all__ = ["ENGINES", "Engine", "EngineUnknown", "Statistics", "engine_named"]

ENGINES: Final[dict[str, str]] = {
    "brute": "fairlead.matching.brute:Brute",
    "columnar": "fairlead.matching.columnar:Columnar",
}
"""The engines of the product by name. Their modules are imported when they are first used: some are heavy."""


def engine_named(name: str) -> Engine[Any]:
    """A new, empty engine: one of `ENGINES`, or one that a distribution offers in the group `fairlead.engines`."""
    if name in ENGINES:
        module, _, attribute = ENGINES[name].partition(":")
        engine = getattr(import_module(module), attribute)
    else:
        from importlib.metadata import entry_points

        offered = entry_points(group="fairlead.engines")
        if name not in offered.names:
            raise EngineUnknown.named(name, {*ENGINES, *offered.names})
        engine = offered[name].load()
    made: Engine[Any] = engine()
    return made
