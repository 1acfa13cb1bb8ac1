"""Interfaces: a pair of filters, what may come in and what may go out (book 6.3).

    base        of a component or scope        every edge to a superscope
    selective   of an edge, at its lower end   this superscope only
    imposed     of an edge, at its upper end   set by the scope on one member
    imposed     of a scope                     set by the scope on all its members

The effective interface of an edge composes them with the edge's mapping (Def. 6.10):

    outward     base, selective, mapping, imposed on the member, imposed on all
    inward      imposed on all, imposed on the member, mapping, selective, base

So base and selective interfaces speak of the inner form of a notification, imposed ones of the outer form.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from fairlead.filters import EVERYTHING, NOTHING, And, Filter
from fairlead.model import Notification
from fairlead.scopes.mappings import IDENTITY, EdgeMapping, Steps, apply, pull

if TYPE_CHECKING:
    from fairlead.scopes.graph import ScopeGraph

__all__ = ["CLOSED", "OPEN", "Crossing", "Edge", "Effective", "Gate", "Interface", "effective"]


@dataclass(frozen=True, slots=True)
class Interface:
    """The interface of a component: the filter of incoming and the filter of outgoing notifications."""

    input: Filter = EVERYTHING
    output: Filter = EVERYTHING


OPEN: Final = Interface()
CLOSED: Final = Interface(NOTHING, NOTHING)


@dataclass(frozen=True, slots=True)
class Edge:
    """A component is a member of a scope; what the edge itself adds to the interfaces of both."""

    member: str
    scope: str
    selective: Interface = OPEN
    imposed: Interface = OPEN
    mapping: EdgeMapping = IDENTITY

    @property
    def is_plain(self) -> bool:
        """The edge itself certainly adds nothing."""
        return self.selective is OPEN and self.imposed is OPEN and self.mapping is IDENTITY


class Gate(NamedTuple):
    """One of the filters that an edge is made of: which interface it belongs to, and whose that is."""

    interface: str
    owner: str
    filter: Filter


@dataclass(frozen=True, slots=True)
class Crossing:
    """One direction of an edge: gates, then the mapping, then gates."""

    before: tuple[Gate, ...] = ()
    steps: Steps = ()
    after: tuple[Gate, ...] = ()
    closed: bool = False
    """Some gate lets nothing pass, so nobody need look at the others."""

    @classmethod
    def of(cls, before: Iterable[Gate], steps: Steps, after: Iterable[Gate]) -> Crossing:
        """The crossing without the gates that let everything pass."""
        first = tuple(gate for gate in before if gate.filter != EVERYTHING)
        last = tuple(gate for gate in after if gate.filter != EVERYTHING)
        return cls(first, steps, last, any(gate.filter == NOTHING for gate in (*first, *last)))

    @property
    def free(self) -> bool:
        """Everything passes, unchanged."""
        return not (self.before or self.steps or self.after)

    def pass_on(self, notification: Notification) -> Notification | None:
        """The notification on the other side of an edge, or None. A mapping written in Python may raise
        `MappingFailed`."""
        if self.closed or not all(gate.filter.matches(notification) for gate in self.before):
            return None
        if not self.steps:
            arriving: Notification | None = notification
        else:
            arriving = apply(self.steps, notification)
        if arriving is None or not all(gate.filter.matches(arriving) for gate in self.after):
            return None
        return arriving

    def pull(self, filter: Filter) -> tuple[Filter, bool]:
        """The filter on this side that corresponds to a filter on the other side, and whether it is
        exact.

        Where the mapping has no exact preimage the gates in front of it stand for it: wider, never narrower.
        """
        behind = And.of((*(gate.filter for gate in self.after), filter))
        pulled = pull(self.steps, behind) if self.steps else behind
        gates = [gate.filter for gate in self.before]
        return (And.of(gates), False) if pulled is None else (And.of((*gates, pulled)), True)


class Effective(NamedTuple):
    """Both directions of an edge."""

    outward: Crossing
    inward: Crossing


def effective(graph: ScopeGraph, edge: Edge) -> Effective:
    """The effective interface of an edge: base, selective, mapping, imposed, in the order of Def. 6.10."""
    member, scope = graph.node(edge.member), graph.scope(edge.scope)
    inner = (
        ("base", edge.member, member.interface),
        ("selective", edge.member, edge.selective),
    )
    outer = (
        (f"imposed on {edge.member}", edge.scope, edge.imposed),
        ("imposed on all members", edge.scope, scope.imposed),
    )
    return Effective(
        Crossing.of(
            [Gate(name, owner, each.output) for name, owner, each in inner],
            edge.mapping.outward,
            [Gate(name, owner, each.output) for name, owner, each in outer],
        ),
        Crossing.of(
            [Gate(name, owner, each.input) for name, owner, each in reversed(outer)],
            edge.mapping.inward,
            [Gate(name, owner, each.input) for name, owner, each in reversed(inner)],
        ),
    )
