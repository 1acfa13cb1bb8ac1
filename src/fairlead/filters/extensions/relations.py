"""Relations of constraints on one term, at least one of which uses an operator of an extension.

What every operator has in common is decided here by asking it: (x op a) covers (x = b) iff b op a, and (x
!= a) covers (x op b) iff not a op b (siena-x, section 7.1). For the rest the operators themselves are
asked. Sound throughout: covers says yes and overlaps says no only if that is certain.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any, Final

from fairlead.errors import Undecided
from fairlead.filters.constraint import Constraint, Extended, Op
from fairlead.filters.registry import PRESENT, Operator, operator_named
from fairlead.model import Kind, Multi, kind_of

log: Final = logging.getLogger(__name__)

__all__ = ["answer", "constraint_covers", "constraint_merge", "constraint_overlaps", "kinds_of"]


def constraint_covers(one: Constraint, other: Constraint) -> bool:
    """Every value that satisfies `other` satisfies `one`; True only if certain."""
    if one == other:
        return True
    if one.term != other.term:
        return False
    listed = _listed(other)
    if listed is not None:
        return all(map(one.holds, listed))
    kinds = kinds_of(other)
    excluded = _excluded(one)
    if excluded is not None:
        return kinds <= kinds_of(one) and not any(map(other.holds, excluded))
    if one.op is Op.EXISTS or (one.op is Op.IS and isinstance(one.operand, Kind)):
        return kinds <= kinds_of(one)
    return any(_certain(operator.covers, one, other) for operator in _operators(one, other))


def constraint_overlaps(one: Constraint, other: Constraint) -> bool:
    """Some value satisfies both; False only if that is certainly not so."""
    if one.term != other.term:
        return True
    if kinds_of(one).isdisjoint(kinds_of(other)):
        return False
    for asked, answering in ((one, other), (other, one)):
        listed = _listed(asked)
        if listed is not None:
            return any(map(answering.holds, listed))
    return not any(_certain(_disjoint, operator, one, other) for operator in _operators(one, other))


def constraint_merge(one: Constraint, other: Constraint) -> Constraint | None:
    """The constraint that exactly the values satisfy that satisfy one of the two, or None."""
    if one.term != other.term:
        return None
    if constraint_covers(one, other):
        return one
    if constraint_covers(other, one):
        return other
    for operator in _operators(one, other):
        merge = getattr(operator, "merge", None)
        merged: Constraint | None = merge(one, other) if merge is not None else None
        if merged is not None:
            return merged
    return None


def kinds_of(constraint: Constraint) -> frozenset[Kind]:
    """The kinds of values that a constraint can be true of; an upper bound."""
    op, operand = constraint.op, constraint.operand
    match op:
        case Op.EXISTS:
            return PRESENT
        case Op.ABSENT:
            return frozenset({Kind.ABSENT})
        case Op.EXTENDED:
            return operator_named(operand.operator).kinds
        case Op.IS:
            return frozenset({operand if isinstance(operand, Kind) else Kind.STRING})
        case Op.LIKE | Op.MATCHES:
            return frozenset({Kind.STRING})
        case Op.IN | Op.NOT_IN if isinstance(operand, Multi):
            return frozenset(map(kind_of, operand))
        case Op.IN | Op.NOT_IN:
            return frozenset({Kind.POINT})
        case Op.IN_RANGE | Op.NOT_IN_RANGE:
            return frozenset({kind_of(operand.low)})
        case Op.CONTAINS | Op.LACKS:
            return frozenset({Kind.SET, Kind.INTERVAL, Kind.RECTANGLE})
        case _:
            return frozenset({kind_of(operand)})


def _listed(constraint: Constraint) -> tuple[Any, ...] | None:
    """All values that satisfy a constraint, where it lists them."""
    match constraint:
        case Constraint(op=Op.EQ, operand=operand):
            return (operand,)
        case Constraint(op=Op.IN, operand=Multi() as operand):
            return tuple(operand)
        case _:
            return None


def _excluded(constraint: Constraint) -> tuple[Any, ...] | None:
    """All values of its kinds that do not satisfy a constraint, where it lists them."""
    match constraint:
        case Constraint(op=Op.NE, operand=operand):
            return (operand,)
        case Constraint(op=Op.NOT_IN, operand=Multi() as operand):
            return tuple(operand)
        case _:
            return None


def _operators(*constraints: Constraint) -> Iterator[Operator]:
    """The operators of extensions in the constraints, each once."""
    names: Iterable[str] = dict.fromkeys(
        constraint.operand.operator for constraint in constraints if isinstance(constraint.operand, Extended)
    )
    return map(operator_named, names)


def _disjoint(operator: Operator, one: Constraint, other: Constraint) -> bool:
    overlaps = getattr(operator, "overlaps", None)
    return overlaps is not None and not overlaps(one, other)


def answer(unsure: bool, question: Any, *arguments: Any) -> bool:
    """The answer of an extension. One that raises is unsure, and its error is logged."""
    try:
        return bool(question(*arguments))
    except Undecided:
        return unsure
    except Exception:
        log.exception("an extension failed to compare filters")
        return unsure


def _certain(question: Any, *arguments: Any) -> bool:
    return answer(False, question, *arguments)
