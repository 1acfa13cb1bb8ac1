"""Filters as values: `query && "price > 10"` (siena-x, section 7.3).

Law: (x && f) holds for a value that is the text of a filter h iff h and f overlap; where overlap is not
certain either way, it holds. (x && f) covers (x && g) if f covers g: whatever overlaps g overlaps f.

That second law is about overlap itself, and `overlaps` says yes when it is unsure. An h that is unsure with
g and certainly disjoint from f would break it. So what is compared is plain: a disjunction of conjunctions,
one built-in constraint of moderate size per attribute, where overlap is decided exactly; Siena's filters
are of this form. A value that is not plain is taken to overlap every literal, and (x && f) is said to cover
(x && g) only if g is plain (f need not be: `overlaps` never denies an overlap that there is) or if the two
are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from fairlead.errors import FairleadError, FilterError
from fairlead.filters.algebra import covers, overlaps
from fairlead.filters.constraint import Constraint, Extended, Op, Range
from fairlead.filters.filter import And, Filter, Or
from fairlead.filters.language import parse
from fairlead.filters.registry import Extension, ExtensionBase, Literal
from fairlead.filters.simplify import simplify
from fairlead.filters.terms import Attribute
from fairlead.model import Kind, Multi

__all__ = ["FILTERS", "Intersects"]

ALTERNATIVES_MAX: Final = 100
TEXT_MAX: Final = 100
"""The most characters in the operand of a plain constraint: automata of that size have a small product."""

_OPEN_ENDED: Final = frozenset({Op.LIKE, Op.MATCHES, Op.EXTENDED})
"""Operators whose operands can make a comparison too large to finish, or that are not ours."""


@dataclass(frozen=True, slots=True)
class _Read:
    """A filter, and whether its overlap with other plain filters is decided exactly."""

    filter: Filter
    alternatives: tuple[Filter, ...]
    plain: bool


class Intersects(ExtensionBase):
    """The operator. Values and literals are strings that hold a filter."""

    name = "&&"
    kinds = frozenset({Kind.STRING})

    def check(self, literal: Literal, /) -> None:
        if not isinstance(literal, str):
            raise FilterError(f"'&&' takes the text of a filter, not {literal!r}", hint='&& "price > 10"')
        _read(literal)

    def holds(self, value: Any, literal: Literal, /) -> bool:
        if not isinstance(value, str) or not isinstance(literal, str):
            return False
        try:
            asked, offered = _read(value), _read(literal)
        except FairleadError:
            return False
        if not asked.plain:
            return True
        offers = offered.alternatives if offered.plain else (offered.filter,)
        return any(overlaps(query, offer) for query in asked.alternatives for offer in offers)

    def covers(self, one: Constraint, other: Constraint, /) -> bool:
        match one.operand, other.operand:
            case Extended("&&", str() as general), Extended("&&", str() as specific):
                f, g = _read(general), _read(specific)
                return f.filter == g.filter or (g.plain and covers(f.filter, g.filter))
            case _:
                return False

    # overlaps: a value that is no plain filter holds with every literal, so two of these always overlap.


@lru_cache(maxsize=512)
def _read(text: str) -> _Read:
    filter = simplify(parse(text))
    alternatives = filter.parts if isinstance(filter, Or) else (filter,)
    plain = len(alternatives) <= ALTERNATIVES_MAX and all(map(_is_plain, alternatives))
    return _Read(filter, alternatives, plain)


def _is_plain(alternative: Filter) -> bool:
    parts = alternative.parts if isinstance(alternative, And) else (alternative,)
    names = set()
    for part in parts:
        match part:
            # Dotted names depend on one another: `a.b = 1` implies that a is there.
            case Constraint(term=Attribute(name), op=op, operand=operand) if "." not in name:
                if op in _OPEN_ENDED or _characters(operand) > TEXT_MAX:
                    return False
                names.add(name)
            case _:
                return False
    return len(names) == len(parts)


def _characters(operand: Any) -> int:
    match operand:
        case str() | bytes():
            return len(operand)
        case Multi():
            return sum(map(_characters, operand))
        case Range(low=low, high=high):
            return _characters(low) + _characters(high)
        case _:
            return 0


FILTERS: Final = Extension("filters", (Intersects(),))
