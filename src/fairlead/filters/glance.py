"""Filters that surely do not cover one another, found at a glance: before they are compared.

The law: where F covers G, `glance(F)(G)` is true. Where it is false, F does not cover G; a million filters are
passed over in seconds that way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fairlead.filters.constraint import Constraint, Op
from fairlead.filters.filter import And, Filter
from fairlead.filters.terms import Attribute
from fairlead.model import Kind, kind_of, number_of

__all__ = ["glance"]

_SOME: Final = frozenset({Op.EQ, Op.NE, Op.GT, Op.GE, Op.EXISTS})
"""Each of these matches something, whatever its operand is: one that matches nothing is covered by everything."""


def glance(wide: Filter) -> Callable[[Filter], bool]:
    """Whether a filter without a schema may cover others; only what is false is certain."""
    asked: dict[str, list[Constraint]] = {}
    for part in wide.parts if isinstance(wide, And) else (wide,):
        if type(part) is Constraint and type(part.term) is Attribute and part.op is not Op.ABSENT:
            asked.setdefault(part.term.name, []).append(part)

    def may_cover(narrow: Filter) -> bool:
        own: dict[str, Constraint] = {}
        for part in narrow.parts if isinstance(narrow, And) else (narrow,):
            if type(part) is not Constraint or type(part.term) is not Attribute or not _is_plain(part):
                return True
            name = part.term.name
            if name in own or "." in name:
                return True
            own[name] = part
        for name, constraints in asked.items():
            mine = own.get(name)
            if mine is None or not all(
                each.holds(value) for value in _examples(mine) for each in constraints
            ):
                return False
        return True

    return may_cover


def _is_plain(constraint: Constraint) -> bool:
    """Whether a constraint matches something, and is about an attribute that is there."""
    return constraint.op in _SOME and (
        constraint.op in (Op.EQ, Op.NE, Op.EXISTS) or kind_of(constraint.operand) is Kind.NUMBER
    )


def _examples(constraint: Constraint) -> tuple[Any, ...]:
    """Values that a constraint matches."""
    if constraint.op is Op.EQ:
        return (constraint.operand,)
    if constraint.op in (Op.GT, Op.GE):
        return (number_of(constraint.operand) + 1,)
    return ()
