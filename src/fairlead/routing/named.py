"""Routing strategies by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from fairlead.routing.basic import Flooding, Identity, Simple
from fairlead.routing.covering import Covering
from fairlead.routing.merging import ImperfectMerging, Merging
from fairlead.routing.strategy import Strategy

__all__ = ["STRATEGIES"]

STRATEGIES: Final[Mapping[str, Callable[[float], Strategy]]] = MappingProxyType(
    {
        Flooding.name: lambda imperfection: Flooding(),
        Simple.name: lambda imperfection: Simple(),
        Identity.name: lambda imperfection: Identity(),
        Covering.name: lambda imperfection: Covering(),
        Merging.name: lambda imperfection: Merging(),
        ImperfectMerging.name: ImperfectMerging,
    }
)
"""The strategies for overlays without cycles; each is made with the imperfection that is allowed."""
