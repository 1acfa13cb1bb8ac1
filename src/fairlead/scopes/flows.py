"""The versions of many notifications at once: which rows come to which scope, in which version.

    up      from the publishers' scopes, members first        internal to a scope
    down    from superscopes to members                       incoming to a scope

A version is the sequence of mappings that made it. A flow is a set of rows that come to a scope in one version, on
paths that have left the same scopes upwards: to these a path may not come back. So the work grows with the edges
and with the versions, and not with the rows. Policies are not asked; a graph that has some is for `evaluation`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairlead.errors import ScopeError
from fairlead.scopes.interfaces import Crossing, Gate
from fairlead.scopes.plan import Ancestry, ScopePlan

__all__ = ["FLOWS_MAX", "PUBLISHED", "Flows", "Rows", "VersionedContents"]

Rows: TypeAlias = NDArray[np.int64]
"""Numbers of rows, ascending."""
PUBLISHED: Final = 0
"""The version that was published."""
FLOWS_MAX: Final = 5_000
"""So many flows are followed together; where there are more, notifications are evaluated one by one."""
_Flow: TypeAlias = tuple[int, frozenset[str]]
_Arrived: TypeAlias = dict[_Flow, Rows]
_Key = TypeVar("_Key")


class VersionedContents(Protocol):
    """The content of rows in their versions."""

    def passing(self, version: int, gates: Sequence[Gate], rows: Rows) -> Rows:
        """Those of the rows that match all filters in a version."""

    def mapped(self, version: int, crossing: Crossing, rows: Rows) -> list[tuple[int, Rows]]:
        """The versions that the mapping of a crossing makes of rows, each with those rows that it lets pass."""


class Flows:
    """The flows of some rows in a graph; `sources` are the rows of publishers by their ancestry."""

    def __init__(
        self, plan: ScopePlan, contents: VersionedContents, sources: Iterable[tuple[Rows, Ancestry]]
    ) -> None:
        self._plan, self._contents = plan, contents
        self._internal: dict[str, _Arrived] = {}
        self._incoming: dict[str, _Arrived] = {}
        self._visible: dict[str, dict[int, Rows]] = {}
        self._below: dict[str, frozenset[str]] = {}
        self._count = 0
        homes: dict[str, None] = {}
        for rows, ancestry in sources:
            for parent in ancestry.parents:
                for version, those in self._crossed(parent.outward, PUBLISHED, rows):
                    self._add(self._internal, parent.scope, (version, frozenset()), those)
                homes[parent.scope] = None
        for name in plan.graph.above(*homes):  # members first
            for (version, trail), rows in self._internal.get(name, {}).items():
                for parent in plan.parents(name):
                    for other, those in self._crossed(parent.outward, version, rows):
                        self._add(self._internal, parent.scope, (other, trail | {name}), those)

    def arriving(self, ancestry: Ancestry) -> dict[int, Rows]:
        """The versions that simple components with an ancestry see, each with the rows; their own aside."""
        found: dict[int, Rows] = {}
        for parent in ancestry.parents:
            for version, rows in self._visible_in(parent.scope).items():
                for other, those in self._crossed(parent.inward, version, rows):
                    _join(found, other, those)
        return found

    def incoming(self, scope: str) -> dict[int, Rows]:
        """The versions that come down into a scope, each with the rows."""
        return _by_version([self._coming_in(scope)])

    def visible(self, scope: str) -> dict[int, Rows]:
        """The versions that are visible in a scope, each with the rows."""
        return self._visible_in(scope) if self._plan.graph.carries(scope) else {}

    def _visible_in(self, scope: str) -> dict[int, Rows]:
        found = self._visible.get(scope)
        if found is None:
            arrived = [self._internal.get(scope, {}), self._coming_in(scope)]
            found = self._visible[scope] = _by_version(arrived)
        return found

    def _coming_in(self, name: str) -> _Arrived:
        known = self._incoming.get(name)
        if known is not None:
            return known
        for scope in reversed(self._plan.above(name)):  # superscopes first, so that calls do not nest deeply
            if scope != name and scope not in self._incoming:
                self._coming_in(scope)
        here = self._incoming[name] = {}
        if not self._plan.graph.carries(name):
            return here
        below = self._below_of(name)
        for parent in self._plan.parents(name):
            if parent.inward.closed:
                continue
            arrived: dict[_Flow, Rows] = {}
            for (version, trail), rows in self._internal.get(parent.scope, {}).items():
                if name not in trail:
                    _join(arrived, (version, (trail | {parent.scope}) & below), rows)
            for (version, trail), rows in self._incoming[parent.scope].items():
                if name not in trail:
                    _join(arrived, (version, trail & below), rows)
            for (version, trail), rows in arrived.items():
                for other, those in self._crossed(parent.inward, version, rows):
                    self._add(self._incoming, name, (other, trail), those)
        return here

    def _below_of(self, name: str) -> frozenset[str]:
        """The scopes below a scope."""
        found = self._below.get(name)
        if found is None:
            members = self._plan.inside(name)[0]
            found = frozenset(members).union(*map(self._below_of, members))
            self._below[name] = found
        return found

    def _crossed(self, crossing: Crossing, version: int, rows: Rows) -> Iterable[tuple[int, Rows]]:
        if crossing.closed or not len(rows):
            return
        if crossing.before:
            rows = self._contents.passing(version, crossing.before, rows)
        for other, those in (
            self._contents.mapped(version, crossing, rows) if crossing.steps else [(version, rows)]
        ):
            arrived = self._contents.passing(other, crossing.after, those) if crossing.after else those
            if len(arrived):
                yield other, arrived

    def _add(self, into: dict[str, _Arrived], name: str, flow: _Flow, rows: Rows) -> None:
        arrived = into.setdefault(name, {})
        self._count += flow not in arrived
        if self._count > FLOWS_MAX:
            raise ScopeError(f"more than {FLOWS_MAX} flows")
        _join(arrived, flow, rows)


def _join(into: dict[_Key, Rows], key: _Key, rows: Rows) -> None:
    known = into.get(key)
    if known is None or not len(known):
        into[key] = rows
    elif len(rows) and known[-1] < rows[0]:
        into[key] = np.concatenate((known, rows))
    elif len(rows):
        is_there = np.zeros(max(known[-1], rows[-1]) + 1, np.bool_)  # quicker than sorting both
        is_there[known] = is_there[rows] = True
        into[key] = np.flatnonzero(is_there)


def _by_version(arrived: Iterable[_Arrived]) -> dict[int, Rows]:
    found: dict[int, Rows] = {}
    for each in arrived:
        for (version, _), rows in each.items():
            _join(found, version, rows)
    return found
