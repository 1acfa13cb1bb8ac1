"""Conditions on components, as in WHERE and ADMIT (book 6.6.3).

A condition is a filter over a component's attributes, in which two more tests may stand:

    HAS INPUT(f), HAS OUTPUT(f)   the base interface lets some notification pass that matches f
    IS ROLE(r)                    the component has the role

Each component is tested by itself; a condition cannot compare components.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from fairlead.errors import ScopeError
from fairlead.filters import And, Filter
from fairlead.filters.algebra import algebra_for
from fairlead.filters.filter import leaves
from fairlead.model import Notification, Record
from fairlead.scopes.interfaces import Interface

__all__ = ["Described", "HasInterface", "IsRole", "Subject", "holds", "intersects", "is_plain"]


class Subject(Protocol):
    """The subject of a condition."""

    @property
    def name(self) -> str: ...
    @property
    def attributes(self) -> Record: ...
    @property
    def roles(self) -> frozenset[str]: ...
    @property
    def interface(self) -> Interface: ...


class Described(Notification):
    """A component in the form that filters test: its attributes, and itself for the tests that need more."""

    __slots__ = ("subject",)
    subject: Subject

    @classmethod
    def by(cls, subject: Subject) -> Described:
        """The component as filters see it."""
        described = cls(attributes=subject.attributes)
        object.__setattr__(described, "subject", subject)
        return described


@dataclass(frozen=True, slots=True)
class HasInterface(Filter):
    """The base interface lets some notification pass that matches the filter."""

    output: bool
    filter: Filter

    def matches(self, notification: Notification) -> bool:
        assert isinstance(notification, Described), "conditions are about components"
        interface = notification.subject.interface
        return intersects(interface.output if self.output else interface.input, self.filter)


@dataclass(frozen=True, slots=True)
class IsRole(Filter):
    """The component has a role."""

    role: str

    def matches(self, notification: Notification) -> bool:
        assert isinstance(notification, Described), "conditions are about components"
        return self.role in notification.subject.roles


def intersects(one: Filter, other: Filter) -> bool:
    """Whether some notification matches both; `ScopeError` where that cannot be decided."""
    algebra = algebra_for()
    if not algebra.overlaps(one, other):
        return False
    if algebra.normal(one).exact and algebra.normal(other).exact:
        return True
    if algebra.witness(And.of((one, other))) is None and not algebra.covers(one, other):
        raise ScopeError(f"it cannot be decided whether some notification matches both {one} and {other}")
    return True


def holds(condition: Filter, subject: Subject) -> bool:
    """Whether a component satisfies a condition."""
    return condition.matches(Described.by(subject))


def is_plain(condition: Filter) -> bool:
    """Whether a condition is a filter of the filter language alone."""
    return not any(isinstance(leaf, HasInterface | IsRole) for leaf in leaves(condition))
