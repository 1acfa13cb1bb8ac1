"""From extents back to filters: the shortest constraints that have a given extent.

    simplify(F) is identical to F

Each term of a conjunction becomes one constraint where one will do (`x >= 3 and x <= 5` becomes
`x in [3, 5]`, `a = 1 or a = 2` becomes `a in {1, 2}`), else a small disjunction. What has no such spelling
stays as written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from fairlead.errors import Undecided
from fairlead.filters.algebra import Algebra, algebra_for
from fairlead.filters.constraint import Constraint, Op, Range, TypeName
from fairlead.filters.extents.boxes import BoxExtent
from fairlead.filters.extents.extent import ALL, PRESENT, BooleanExtent, Extent, element_of, extent_of
from fairlead.filters.extents.numbers import NumberExtent, Span
from fairlead.filters.extents.sets import SetExtent
from fairlead.filters.extents.strings import BytesExtent, StringExtent
from fairlead.filters.filter import EVERYTHING, NOTHING, And, Filter, Not, Or, leaves
from fairlead.filters.normal import Conjunction
from fairlead.filters.patterns import RegularExpression, SubjectPattern
from fairlead.filters.schema import Schema
from fairlead.filters.terms import Attribute, Length, Position, Term
from fairlead.model import Instant, Interval, Kind, Multi, Point, Rectangle, kind_of

__all__ = ["conjunction_filter", "extent_filter", "meet", "simplify"]

ALTERNATIVES_MAX: Final = 64
"""A filter that breaks up into more conjunctions than this is left as it was written."""
_MOST_KINDS: Final = 8
"""An extent with this many whole kinds is said by what it leaves out."""


def simplify(filter: Filter, schema: Schema | None = None) -> Filter:
    """An identical filter with the constraints on each attribute folded into one where possible."""
    algebra = algebra_for(schema)
    normal = algebra.normal(filter)
    if normal.conjunctions is None or len(normal.conjunctions) > ALTERNATIVES_MAX:
        return filter
    try:
        kept = algebra.absorbed(normal.conjunctions)
        folded = Or.of(conjunction_filter(conjunction, algebra) for conjunction in kept)
    except Undecided:
        return filter
    return min((filter, folded), key=_length)  # of two as long, as it was written


def meet(filter: Filter, limit: Filter, schema: Schema | None = None) -> Filter:
    """A filter *and* a limit, simplified; the filter as it is where the limit covers it."""
    algebra = algebra_for(schema)
    if limit == EVERYTHING or algebra.covers(limit, filter):
        return filter
    return simplify(And.of((filter, limit)), schema) if algebra.overlaps(limit, filter) else NOTHING


def _length(filter: Filter) -> tuple[int, int]:
    """The number of constraints of a filter, and its length in characters."""
    return sum(1 for _ in leaves(filter)), len(str(filter))


def conjunction_filter(conjunction: Conjunction, algebra: Algebra) -> Filter:
    """The filter of one folded conjunction; `Undecided` where an extent has no spelling."""
    universe = algebra.universe
    parts: list[Filter] = []
    terms = list(conjunction.extents)
    for term in _templates_first(terms):
        extent = conjunction.extents[term]
        possible = universe.extent(term)
        if not extent.covers(possible):  # else it says nothing
            parts.append(extent_filter(term, extent & possible, possible, algebra.schema))
    parts.extend(literal.filter() for literal in conjunction.literals)
    return And.of(parts)


def _templates_first(terms: list[Term]) -> list[Term]:
    """Terms in the order they were written, but a template's together, so that it prints as one."""
    template = [term for term in terms if isinstance(term, Length | Position)]
    template.sort(key=lambda term: term.index if isinstance(term, Position) else -1)
    if not template:
        return terms
    first = min(terms.index(term) for term in template)
    rest = [term for term in terms if not isinstance(term, Length | Position)]
    before = sum(1 for term in terms[:first] if not isinstance(term, Length | Position))
    return [*rest[:before], *template, *rest[before:]]


def extent_filter(term: Term, extent: Extent, possible: Extent, schema: Schema | None = None) -> Filter:
    """A filter on one term with this extent, given what its values can be at all."""
    if extent.is_empty():
        return NOTHING
    if extent.covers(possible):
        return EVERYTHING
    if extent == PRESENT or extent == possible & PRESENT:
        return Constraint(term, Op.EXISTS)
    if list(extent.pieces) == [Kind.ABSENT]:
        return Constraint(term, Op.ABSENT)
    if extent.allows(Kind.ABSENT):
        # Only negation lets absence in, so that is how it is said.
        return Not(extent_filter(term, ~extent & possible, possible, schema))
    whole = [kind for kind, piece in extent.pieces.items() if piece is ALL]
    if len(whole) >= _MOST_KINDS:
        left_out = extent_filter(term, ~extent & possible & PRESENT, possible, schema)
        return And.of((Constraint(term, Op.EXISTS), Not(left_out)))
    return _union_of_kinds(term, extent, schema)


def _union_of_kinds(term: Term, extent: Extent, schema: Schema | None) -> Filter:
    """An alternative per kind; single values of different kinds share one set."""
    values: list[Any] = []
    named: list[Filter] = []
    alternatives: list[Filter] = []
    shared = _contained(term, extent)
    if shared is not None:
        alternatives.append(shared)
    for kind, piece in extent.pieces.items():
        if shared is not None and kind in (Kind.SET, Kind.INTERVAL):
            continue
        for found in _of_kind(term, kind, piece, schema):
            match found:
                case Constraint(op=Op.EQ, operand=operand) if kind in _SIMPLE:
                    values.append(operand)
                    named.append(found)
                case Constraint(op=Op.IN, operand=Multi() as operand):
                    values.extend(operand)
                    named.append(found)
                case _:
                    alternatives.append(found)
    if len(named) == 1:
        alternatives.insert(0, named[0])
    elif named:
        alternatives.insert(0, Constraint(term, Op.IN, Multi(values)))
    return Or.of(alternatives)


_SIMPLE: Final = frozenset({Kind.NULL, Kind.BOOLEAN, Kind.NUMBER, Kind.STRING, Kind.BYTES, Kind.TIME})


def _contained(term: Term, extent: Extent) -> Filter | None:
    """`contains` or `lacks` a number, which is about sets and intervals at once, where the extent is that."""
    sets, intervals = extent.pieces.get(Kind.SET), extent.pieces.get(Kind.INTERVAL)
    if not isinstance(sets, SetExtent) or not isinstance(intervals, BoxExtent):
        return None
    inside, form = sets.form, intervals.form
    if inside is None or form is None or len(inside[1]) != 1 or form[0] not in ("contains", "lacks"):
        return None
    op = Op.CONTAINS if form[0] == "contains" else Op.LACKS
    constraint = Constraint(term, op, form[1][0])
    same = extent_of(constraint).pieces == {Kind.SET: sets, Kind.INTERVAL: intervals}
    return constraint if same else None


def _of_kind(term: Term, kind: Kind, piece: Any, schema: Schema | None) -> list[Filter]:
    """The alternatives that make up a piece."""
    if piece is ALL:
        if kind is Kind.NULL:
            return [Constraint(term, Op.EQ, None)]
        if kind is Kind.NAN:
            raise Undecided("NaN has no spelling of its own")
        return [Constraint(term, Op.IS, kind)]
    match piece:
        case BooleanExtent():
            return [Constraint(term, Op.EQ, piece.witness())]
        case NumberExtent():
            return _numbers(term, piece, Instant if kind is Kind.TIME else _same)
        case StringExtent() | BytesExtent():
            return _words(term, piece, schema)
        case SetExtent():
            return [And.of(_set_constraint(term, *form) for form in forms) for forms in piece.alternatives()]
        case BoxExtent():
            return [_box_constraint(term, kind, piece)]
    raise AssertionError(f"no spelling for {piece!r}")


def _same(value: Any) -> Any:
    return value


def _numbers(term: Term, piece: NumberExtent, value: Callable[[Any], Any]) -> list[Filter]:
    intervals = piece.intervals
    if piece.below:  # else what is outside is neither points nor one interval
        outside = ~piece
        if (left_out := outside.points) is not None:
            return [_points(term, Op.NE, Op.NOT_IN, map(value, left_out))]
        if len(outside.intervals) == 1 and len(intervals) == 2:
            return [_span(term, outside.intervals[0], Op.NOT_IN_RANGE, value)]
    points = tuple(span.lo for span in intervals if span.lo is not None and span.lo == span.hi)
    spans = [span for span in intervals if span.lo is None or span.lo != span.hi]
    found: list[Filter] = []
    if points:
        found.append(_points(term, Op.EQ, Op.IN, map(value, points)))
    found.extend(_span(term, span, Op.IN_RANGE, value) for span in spans)
    return found


def _points(term: Term, one: Op, several: Op, values: Iterable[Any]) -> Filter:
    listed = list(values)
    if len(listed) == 1:
        return Constraint(term, one, listed[0])
    return Constraint(term, several, Multi(listed))


def _span(term: Term, span: Span, op: Op, value: Callable[[Any], Any]) -> Filter:
    if span.lo is None:
        return Constraint(term, Op.LE if span.hi_closed else Op.LT, value(span.hi))
    if span.hi is None:
        return Constraint(term, Op.GE if span.lo_closed else Op.GT, value(span.lo))
    return Constraint(term, op, Range(value(span.lo), value(span.hi), span.lo_closed, span.hi_closed))


def _words(term: Term, piece: Any, schema: Schema | None) -> list[Filter]:
    form = piece.form
    if form is not None and (found := _of_form(term, form, schema)) is not None:
        return [found]
    if isinstance(piece, StringExtent):
        return [Constraint(term, Op.LIKE, RegularExpression(piece.to_regex()))]
    raise Undecided("a set of byte strings without a spelling")


_ONE_WORD: Final = {
    "prefix": Op.PREFIX,
    "suffix": Op.SUFFIX,
    "substring": Op.SUBSTRING,
    "<": Op.LT,
    "<=": Op.LE,
    ">": Op.GT,
    ">=": Op.GE,
}


def _of_form(term: Term, form: tuple[Any, ...], schema: Schema | None) -> Filter | None:
    """The constraint for what a language calls itself, or None."""
    match form:
        case ("words", words):
            return _type_constraint(term, words, schema) or _points(term, Op.EQ, Op.IN, sorted(words))
        case ("not words", words):
            return _points(term, Op.NE, Op.NOT_IN, sorted(words))
        case ("between", low, high):
            return Constraint(term, Op.IN_RANGE, Range(low, high))
        case ("and", (lower, low), (upper, high)):
            return Constraint(term, Op.IN_RANGE, Range(low, high, lower == ">=", upper == "<="))
        case ("pattern", SubjectPattern() as pattern):
            return Constraint(term, Op.MATCHES, pattern)
        case ("pattern", RegularExpression() as pattern):
            return Constraint(term, Op.LIKE, pattern)
        case ("not", ("between", low, high)):
            return Constraint(term, Op.NOT_IN_RANGE, Range(low, high))
        case ("not", ("and", (lower, low), (upper, high))):
            return Constraint(term, Op.NOT_IN_RANGE, Range(low, high, lower == ">=", upper == "<="))
        case ("not", inner):
            found = _of_form(term, inner, schema)
            if found is None:
                return None
            kind = (
                Kind.STRING if isinstance(inner[1], str | SubjectPattern | RegularExpression) else Kind.BYTES
            )
            return And.of((Constraint(term, Op.IS, kind), Not(found)))
        case (name, word) if name in _ONE_WORD:
            return Constraint(term, _ONE_WORD[name], word)
    return None


def _type_constraint(term: Term, words: frozenset[str], schema: Schema | None) -> Filter | None:
    """`type is T`, where the strings are just the names of T and its subtypes, and these are several."""
    if schema is None or term != Attribute("type") or len(words) < 2:
        return None
    for name in sorted(schema.types):
        members = schema.type_members(name)
        if members == words:
            return Constraint(term, Op.IS, TypeName(name, members))
    return None


_SETS: Final = {
    "subset": Op.SUBSET,
    "superset": Op.SUPERSET,
    "disjoint": Op.DISJOINT,
    "overlaps": Op.OVERLAPS,
    "equals": Op.EQ,
    "not equals": Op.NE,
}


def _set_constraint(term: Term, name: str, keys: Iterable[Any]) -> Filter:
    elements = Multi(map(element_of, keys))
    first = next(iter(elements), None)
    if len(elements) == 1 and kind_of(first) is not Kind.NUMBER:  # a number would be asked of intervals too
        if name in ("superset", "overlaps"):
            return Constraint(term, Op.CONTAINS, first)
        if name == "disjoint":
            return Constraint(term, Op.LACKS, first)
    if name in _SETS:
        return Constraint(term, _SETS[name], elements)
    inner = Constraint(term, _SETS[name.removeprefix("not ")], elements)
    return And.of((Constraint(term, Op.IS, Kind.SET), Not(inner)))


_VALUE: Final[dict[Kind, Callable[..., Any]]] = {
    Kind.POINT: Point,
    Kind.INTERVAL: Interval,
    Kind.RECTANGLE: Rectangle,
}


def _box_constraint(term: Term, kind: Kind, piece: BoxExtent) -> Filter:
    form = piece.form
    if form is None:
        raise Undecided("a region without a spelling")
    name, numbers = form
    make = _VALUE[kind]
    match name:
        case "within":
            return Constraint(term, Op.IN, Rectangle(*numbers))
        case "not within":
            return Constraint(term, Op.NOT_IN, Rectangle(*numbers))
        case "contains" | "lacks":
            op = Op.CONTAINS if name == "contains" else Op.LACKS
            point = numbers[0] if kind is Kind.INTERVAL else Point(*numbers)
            found: Filter = Constraint(term, op, point)
            # A number is asked of sets and intervals alike; here only intervals are meant.
            return found if kind is Kind.RECTANGLE else And.of((Constraint(term, Op.IS, kind), found))
        case _ if name in _SETS:
            return Constraint(term, _SETS[name], make(*numbers))
    inner = Constraint(term, _SETS[name.removeprefix("not ")], make(*numbers))
    return And.of((Constraint(term, Op.IS, kind), Not(inner)))
