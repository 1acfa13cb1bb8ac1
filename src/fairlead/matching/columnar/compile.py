"""Filters become programs: a few kinds of literals on the columns of a notification.

Law: `program_of(F)` accepts a notification iff F matches it.

A column is an attribute, a position of the tuple, a polynomial, what a method answers, or a coordinate of a
shape. Every constraint of the language comes down to eight sorts of predicates on one column, which a kernel can
decide from three numbers per column: the rank of the value's kind, the number of its value among those that
filters mention, and its place on the line. The line of strings is made by the bounds that filters mention: their
places are numbered, and so are the gaps.

    KIND     the kind of the value is one of these                 exists, absent, is, and half of != and lacks
    EQ       it is this value                                      =
    MEMBER   it is one of these values                             in, is (a type)
    RANGE    it lies between two numbers, instants or strings      < <= > >=, in [a, b]
    SYMBOL   it has this prefix, suffix, substring or element,     prefix, suffix, substring, contains, superset,
             or matches this pattern, or this path                 ~, matches, //x
    ANY      it has one of these elements                          overlaps
    SUBSET   it has no other elements than these                   subset
    OPAQUE   a filter says so, in Python                           extensions, filter objects

Patterns come with what they imply (that the value is a string, and what it begins with), so that they are run only
on texts that stand a chance; so do comparisons with numbers that no float stands for, which are opaque as well.

A program is a conjunction of literals (predicates or their negations), or, for other Boolean filters, a
branching program: literal i says where to go on if it is true and if it is false. Trees are not multiplied
out into conjunctions: the program has as many steps as the filter has leaves.

To be found, a program hangs on a clause: literals of which at least one is true whenever the program accepts.
Each literal of a conjunction is such a clause; for `or`, one clause of each part together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from math import inf, nextafter
from typing import Any, Final, NamedTuple, TypeAlias

from fairlead.filters.constraint import Constraint, Op, Range, TypeName
from fairlead.filters.extensions.comparing import ComparisonFilter
from fairlead.filters.filter import And, Filter, Not, Or, Tested
from fairlead.filters.patterns import SubjectPattern
from fairlead.filters.terms import Attribute, Inspector, Length, Polynomial, Position, Term
from fairlead.matching.columnar.derived import Tree, outcomes, sides
from fairlead.matching.columnar.patterns import certain_of
from fairlead.matching.columnar.selections import text_of
from fairlead.model import Kind, Multi, Number, Point, kind_of, number_of
from fairlead.model.values import RANK

__all__ = ["Literal", "Predicate", "Program", "Sort", "exact_float", "is_pattern", "program_of", "symbol_of"]

KIND, EQ, MEMBER, RANGE, SYMBOL, ANY, SUBSET, OPAQUE = range(8)
"""The sorts of predicates."""

ABSENT_RANK: Final = RANK[Kind.ABSENT]
NUMBER: Final = RANK[Kind.NUMBER]
STRING: Final = RANK[Kind.STRING]
BYTES: Final = RANK[Kind.BYTES]
TIME: Final = RANK[Kind.TIME]
SET: Final = RANK[Kind.SET]
TEXTUAL: Final = (STRING, BYTES)
"""The kinds whose ranges are bounded by symbols: strings are compared by code point, which is how UTF-8 is ordered
by byte."""
INEXACT: Final = len(Kind)
"""A number that no float stands for: ranges are decided by exact arithmetic, never by the kernel."""

ALL_KINDS: Final = (1 << (INEXACT + 1)) - 1
PRESENT: Final = ALL_KINDS & ~(1 << ABSENT_RANK)


class Sort:
    """The sorts of symbols. Below `PREFIX`, the rank of a kind: the symbol is a value of that kind."""

    PREFIX: Final = 32
    SUFFIX: Final = 33
    SUBSTRING: Final = 34
    REGEX: Final = 35
    """A regular expression; the symbol is a `RegularExpression`."""
    SUBJECT: Final = 36
    """A pattern of subjects; the symbol is a `SubjectPattern`."""
    PATTERNS: Final = (REGEX, SUBJECT)
    PATH: Final = 37
    """A path filter; the symbol is its text (see `selections`)."""
    ELEMENT: Final = 64
    """Added to the rank of a kind: the symbol is an element of a set."""
    BINARY: Final = 128
    """Added to PREFIX, SUFFIX and SUBSTRING of byte strings."""
    BOUND: Final = 192
    """Added to the rank of a kind: the symbol is a bound of ranges."""


Symbol: TypeAlias = tuple[int, Any]
"""A sort and a content: a float for numbers and instants, a pattern, else a string or bytes."""


class Predicate(NamedTuple):
    """One condition on one column. `content` depends on the sort:

    KIND      a mask of ranks
    EQ        a symbol; SYMBOL likewise
    MEMBER    a frozen set of symbols; ANY and SUBSET likewise
    RANGE     (rank, low, high): a closed interval of floats; (low open, high open) says what it stood for.
              For strings and bytes, the bounds themselves or None, and which of them are open
    OPAQUE    the filter
    """

    sort: int
    term: Any
    content: Any
    opened: tuple[bool, bool] = (False, False)


Literal: TypeAlias = tuple[Predicate, bool]
"""A predicate, and whether it is negated."""

TRUE, FALSE = -1, -2
"""The two ends of a branching program."""


@dataclass(frozen=True, slots=True)
class Program:
    """Literals; for a conjunction `jumps` is None, else each literal's successors if true and if false.

    `clauses`, where given, are those a branching program can hang on, as positions of literals.
    `opaque`: some literal has to be asked in Python.
    """

    literals: tuple[Literal, ...]
    jumps: tuple[tuple[int, int], ...] | None = None
    clauses: tuple[tuple[int, ...], ...] | None = None
    opaque: bool = False
    never: bool = False


# -- numbers -----------------------------------------------------------------------------------------------


def exact_float(number: Number) -> float | None:
    """The float that is exactly this number, or None.

    A float stands for its shortest decimal, and that mapping is monotone: so for constants with a float of
    their own, comparing floats decides what comparing the numbers would.
    """
    if type(number) is int and -(2**53) <= number <= 2**53:
        return float(number)
    try:
        near = float(number)
    except OverflowError:
        return None
    return near if Decimal(repr(near)) == number else None


def _coordinate(kind: Kind, bound: Any) -> float | None:
    """The coordinate of a number or an instant on the line, if a float can say it."""
    return exact_float(bound if kind is Kind.NUMBER else bound.microseconds)


def symbol_of(value: Any) -> Symbol | None:
    """The symbol of a simple value; None for the kinds that are never interned."""
    kind = kind_of(value)
    rank = RANK[kind]
    match kind:
        case Kind.STRING | Kind.BYTES:
            return rank, value
        case Kind.NUMBER:
            number = number_of(value)
            near = exact_float(number)
            return (INEXACT, str(number)) if near is None else (rank, near + 0.0)
        case Kind.TIME:
            near = exact_float(value.microseconds)
            return (rank, str(value.microseconds)) if near is None else (rank, near)
        case Kind.BOOLEAN:
            return rank, float(value)
        case Kind.NULL:
            return rank, b""
        case _:
            return None


# -- constraints -------------------------------------------------------------------------------------------

# The negation normal form while it is being made: a literal, ("and", parts), ("or", parts).
_Node: TypeAlias = Any
_YES: Final = ("and", ())
_NO: Final = ("or", ())

_COLUMNS: Final = (Attribute, Position, Length, Polynomial, Inspector)


def mask_of(*kinds: Kind) -> int:
    mask = 0
    for kind in kinds:
        mask |= 1 << RANK[kind]
    return mask | (1 << INEXACT) if Kind.NUMBER in kinds else mask


def _kinds(term: Term, *kinds: Kind) -> Literal:
    return Predicate(KIND, term, mask_of(*kinds)), False


def _range(kind: Kind, constraint: Constraint) -> _Node:
    """A comparison as a closed interval of floats.

    `v < c` holds of a float iff v is at most the float below c's own; a constant without a float of its own
    gives the interval between its neighbours, and is then asked exactly.
    """
    low, high, low_open, high_open = _bounds(constraint)
    at_low = -inf if low is None else _coordinate(kind, low)
    at_high = inf if high is None else _coordinate(kind, high)
    if at_low is None or at_high is None:
        return _widened(kind, constraint, low, high)
    return _interval(constraint.term, RANK[kind], at_low, at_high, (low_open, high_open)), False


def _between(kind: Kind, constraint: Constraint) -> _Node:
    """A comparison of strings or bytes, by its bounds."""
    low, high, low_open, high_open = _bounds(constraint)
    return Predicate(RANGE, constraint.term, (RANK[kind], low, high), (low_open, high_open)), False


def _interval(term: Term, rank: int, low: float, high: float, opened: tuple[bool, bool]) -> Predicate:
    closed_low = nextafter(low, inf) if opened[0] else low
    closed_high = nextafter(high, -inf) if opened[1] else high
    return Predicate(RANGE, term, (rank, closed_low + 0.0, closed_high + 0.0), opened)


def _widened(kind: Kind, constraint: Constraint, low: Any, high: Any) -> _Node:
    def near(bound: Any, toward: float) -> float:
        try:
            return nextafter(float(bound if kind is Kind.NUMBER else bound.microseconds), toward)
        except OverflowError:
            number = bound if kind is Kind.NUMBER else bound.microseconds
            edge = 1.7976931348623157e308 if number > 0 else -1.7976931348623157e308
            return edge if (number > 0) == (toward < 0) else nextafter(edge, toward)

    wide = _interval(
        constraint.term,
        RANK[kind],
        -inf if low is None else near(low, -inf),
        inf if high is None else near(high, inf),
        (False, False),
    )
    return "and", ((wide, False), (Predicate(OPAQUE, constraint.term, constraint), False))


def _bounds(constraint: Constraint) -> tuple[Any, Any, bool, bool]:
    operand = constraint.operand
    match constraint.op:
        case Op.LT:
            return None, operand, False, True
        case Op.LE:
            return None, operand, False, False
        case Op.GT:
            return operand, None, True, False
        case Op.GE:
            return operand, None, False, False
        case _:
            return operand.low, operand.high, not operand.low_closed, not operand.high_closed


def _opaque(constraint: Constraint, *implied: Literal) -> _Node:
    return "and", (*implied, (Predicate(OPAQUE, constraint.term, constraint), False))


def _member(term: Term, values: Iterable[Any]) -> _Node:
    symbols = frozenset(symbol for symbol in map(symbol_of, values) if symbol is not None)
    if len(symbols) == 1:
        return Predicate(EQ, term, next(iter(symbols))), False
    return (Predicate(MEMBER, term, symbols), False) if symbols else _NO


def _element(value: Any) -> Symbol:
    symbol = symbol_of(value)
    assert symbol is not None, "the elements of sets are simple values"
    return Sort.ELEMENT + symbol[0], symbol[1]


_TEXT_SORT: Final = {Op.PREFIX: Sort.PREFIX, Op.SUFFIX: Sort.SUFFIX, Op.SUBSTRING: Sort.SUBSTRING}


def _node_of(constraint: Constraint) -> _Node:
    """The meaning of a constraint on a column, as literals."""
    return _NODES[constraint.op](constraint, constraint.term, constraint.operand)


def _equal(constraint: Constraint, term: Term, operand: Any) -> _Node:
    symbol = symbol_of(operand)
    if symbol is not None:
        return Predicate(EQ, term, symbol), False
    if isinstance(operand, Multi):
        return "and", (*_same_elements(term, operand), _kinds(term, Kind.SET))
    return _shaped(constraint, term, operand)


def _unequal(constraint: Constraint, term: Term, operand: Any) -> _Node:
    symbol = symbol_of(operand)
    of_its_kind = _kinds(term, kind_of(operand))
    if symbol is not None:
        return "and", ((Predicate(EQ, term, symbol), True), of_its_kind)
    if isinstance(operand, Multi):
        return "and", (_negated(("and", _same_elements(term, operand))), of_its_kind)
    return _shaped(constraint, term, operand)


def _same_elements(term: Term, operand: Multi) -> tuple[Literal, ...]:
    """A set has these elements and no others."""
    elements = frozenset(map(_element, operand))
    return (Predicate(SUBSET, term, elements), False), *(
        (Predicate(SYMBOL, term, element), False) for element in map(_element, operand)
    )


def _shaped(constraint: Constraint, term: Term, operand: Any) -> _Node:
    """A constraint on a shape, as comparisons of its coordinates."""
    kind, comparisons, negative = sides(constraint)
    parts = tuple(map(_node_of, comparisons))
    of_its_kind = _kinds(term, kind)
    if any(
        part[0] == "and" for part in parts
    ):  # no floats stand for the bounds: the constraint itself is asked
        return _opaque(constraint, of_its_kind)
    return "and", ((_negated(("and", parts)),) if negative else parts) + (of_its_kind,)


def _compared(constraint: Constraint, term: Term, operand: Any) -> _Node:
    return _LINES[kind_of(operand)](kind_of(operand), constraint)


def _in_range(constraint: Constraint, term: Term, operand: Range) -> _Node:
    return _compared(constraint, term, operand.low)


_LINES: Final[dict[Kind, Callable[[Kind, Constraint], _Node]]] = {
    Kind.NUMBER: _range,
    Kind.TIME: _range,
    Kind.STRING: _between,
    Kind.BYTES: _between,
}
"""The kinds whose values lie on a line."""


def _not_in_range(constraint: Constraint, term: Term, operand: Range) -> _Node:
    inside = _in_range(constraint, term, operand)
    of_its_kind = _kinds(term, kind_of(operand.low))
    if inside[0] == "and":  # no floats stand for the bounds: the constraint itself has to be asked
        return _opaque(constraint, of_its_kind)
    return "and", (_negated(inside), of_its_kind)


def _in(constraint: Constraint, term: Term, operand: Any) -> _Node:
    if isinstance(operand, Multi):
        return _member(term, operand)
    return _shaped(constraint, term, operand)


def _not_in(constraint: Constraint, term: Term, operand: Any) -> _Node:
    if isinstance(operand, Multi):
        return "and", (_negated(_member(term, operand)), _kinds(term, *map(kind_of, operand)))
    return _shaped(constraint, term, operand)


def _text(constraint: Constraint, term: Term, operand: Any) -> _Node:
    if not operand:
        return _kinds(term, kind_of(operand))
    sort = _TEXT_SORT[constraint.op] + (Sort.BINARY if type(operand) is bytes else 0)
    return Predicate(SYMBOL, term, (sort, operand)), False


def _is(constraint: Constraint, term: Term, operand: Any) -> _Node:
    return _member(term, operand.members) if isinstance(operand, TypeName) else _kinds(term, operand)


def _patterned(constraint: Constraint, term: Term, operand: Any) -> _Node:
    if isinstance(operand, SubjectPattern):
        return _subject(term, operand)
    certain = certain_of(operand)
    if certain.whole is not None:
        return Predicate(EQ, term, (STRING, certain.whole)), False
    sort, text = max(
        (Sort.PREFIX, certain.prefix),
        (Sort.SUFFIX, certain.suffix),
        (Sort.SUBSTRING, certain.substring),
        key=lambda each: len(each[1]),
    )
    implied = (Predicate(SYMBOL, term, (sort, text)), False) if text else _kinds(term, Kind.STRING)
    return "and", (implied, (Predicate(SYMBOL, term, (Sort.REGEX, operand)), False))


def _subject(term: Term, pattern: SubjectPattern) -> _Node:
    """A subject pattern implies its levels between wildcards: the first as a prefix, others as a substring."""
    levels, separator = pattern.levels, pattern.separator
    runs: list[tuple[int, str]] = []
    start = 0
    for end in [at for at, level in enumerate(levels) if level in ("*", "**")] + [len(levels)]:
        if start < end:
            text = separator.join(levels[start:end])
            before = separator if start and levels[start - 1] == "*" else ""
            after = separator if end < len(levels) and levels[end] == "*" else ""
            runs.append((Sort.SUBSTRING if start else Sort.PREFIX, before + text + after))
        start = end + 1
    if runs and not any(level in ("*", "**") for level in levels):
        return Predicate(EQ, term, (STRING, pattern.text)), False
    sort, text = max(runs, key=lambda each: len(each[1]), default=(Sort.PREFIX, ""))
    implied = (Predicate(SYMBOL, term, (sort, text)), False) if text else _kinds(term, Kind.STRING)
    return "and", (implied, (Predicate(SYMBOL, term, (Sort.SUBJECT, pattern)), False))


def _contains(constraint: Constraint, term: Term, operand: Any) -> _Node:
    if isinstance(operand, Point):
        return _shaped(constraint, term, operand)
    return Predicate(SYMBOL, term, _element(operand)), False


def _lacks(constraint: Constraint, term: Term, operand: Any) -> _Node:
    if isinstance(operand, Point):
        return _shaped(constraint, term, operand)
    kinds = (Kind.SET, Kind.INTERVAL) if kind_of(operand) is Kind.NUMBER else (Kind.SET,)
    return "and", ((Predicate(SYMBOL, term, _element(operand)), True), _kinds(term, *kinds))


def _related(constraint: Constraint, term: Term, operand: Any) -> _Node:
    """subset, superset, overlaps and disjoint.

    That it is a set is said besides: an interval contains a number, but is no superset of it.
    """
    is_set = _kinds(term, Kind.SET)
    if not isinstance(operand, Multi):
        return _shaped(constraint, term, operand)
    elements = frozenset(map(_element, operand))
    match constraint.op:
        case Op.SUBSET:
            return "and", ((Predicate(SUBSET, term, elements), False), is_set)
        case Op.SUPERSET:
            each = ((Predicate(SYMBOL, term, symbol), False) for symbol in map(_element, operand))
            return "and", (*each, is_set)
        case Op.OVERLAPS:
            return (Predicate(ANY, term, elements), False) if elements else _NO
        case _:
            return ("and", ((Predicate(ANY, term, elements), True), is_set)) if elements else is_set


def _extension(constraint: Constraint, term: Term, operand: Any) -> _Node:
    return Predicate(OPAQUE, term, constraint), False  # it may have its say about an absent value as well


_NODES: Final[dict[Op, Callable[[Constraint, Term, Any], _Node]]] = {
    Op.EXISTS: lambda constraint, term, _: (Predicate(KIND, term, PRESENT), False),
    Op.ABSENT: lambda constraint, term, _: _kinds(term, Kind.ABSENT),
    Op.EQ: _equal,
    Op.NE: _unequal,
    Op.LT: _compared,
    Op.LE: _compared,
    Op.GT: _compared,
    Op.GE: _compared,
    Op.IN_RANGE: _in_range,
    Op.NOT_IN_RANGE: _not_in_range,
    Op.IN: _in,
    Op.NOT_IN: _not_in,
    Op.PREFIX: _text,
    Op.SUFFIX: _text,
    Op.SUBSTRING: _text,
    Op.IS: _is,
    Op.LIKE: _patterned,
    Op.MATCHES: _patterned,
    Op.CONTAINS: _contains,
    Op.LACKS: _lacks,
    Op.SUBSET: _related,
    Op.SUPERSET: _related,
    Op.OVERLAPS: _related,
    Op.DISJOINT: _related,
    Op.EXTENDED: _extension,
}


def _leaf(filter: Filter) -> _Node:
    """A leaf of a filter; what is no constraint on a column is opaque."""
    if isinstance(filter, Tested) and isinstance(filter.test, ComparisonFilter):
        return _node_of(outcomes(filter.test.one, filter.test.op, filter.test.other))
    if not isinstance(filter, Constraint):
        return Predicate(OPAQUE, None, filter), False
    if isinstance(filter.term, _COLUMNS):
        return _node_of(filter)
    text = None if filter.op is Op.EXTENDED else text_of(filter)
    if text is None:
        return Predicate(OPAQUE, None, filter), False
    return Predicate(SYMBOL, Tree(), (Sort.PATH, text)), filter.holds(0)


def _negated(node: _Node) -> _Node:
    """The opposite, pushed down to the literals.

    What an opaque literal or a pattern implies is dropped from its negation: not (string and matching) is just
    not matching.
    """
    if node[0] in ("and", "or"):
        parts = node[1]
        if node[0] == "and" and any(map(_decides, parts)):
            [only] = filter(_decides, parts)
            return only[0], not only[1]
        return "or" if node[0] == "and" else "and", tuple(map(_negated, parts))
    predicate, negative = node
    if predicate.sort == KIND:
        return predicate._replace(content=ALL_KINDS & ~predicate.content), negative
    return predicate, not negative


def _decides(node: _Node) -> bool:
    """Whether a literal stands for the whole constraint, and those beside it only lead there."""
    return isinstance(node[0], Predicate) and (node[0].sort == OPAQUE or is_pattern(node[0]))


def is_pattern(predicate: Predicate) -> bool:
    """Whether a predicate is a pattern: it is run on candidates, and is no access path."""
    return predicate.sort == SYMBOL and predicate.content[0] in Sort.PATTERNS


def _normal(filter: Filter, negative: bool) -> _Node:
    """The negation normal form."""
    match filter:
        case Not(part):
            return _normal(part, not negative)
        case And(parts):
            return _joined("or" if negative else "and", [_normal(part, negative) for part in parts])
        case Or(parts):
            return _joined("and" if negative else "or", [_normal(part, negative) for part in parts])
        case _:
            leaf = _leaf(filter)
            return _negated(leaf) if negative else leaf


def _joined(how: str, parts: list[_Node]) -> _Node:
    """A join without parts that decide it or do not matter, nested ones of the same sort opened up."""
    neutral, deciding = (_YES, _NO) if how == "and" else (_NO, _YES)
    flat: list[_Node] = []
    for part in parts:
        if part == deciding:
            return deciding
        if part == neutral:
            continue
        flat.extend(part[1]) if part[0] == how else flat.append(part)
    if how == "and":
        folded = _folded(flat)
        if folded is None:
            return _NO
        flat = folded
    return flat[0] if len(flat) == 1 else (how, tuple(flat))


def _folded(parts: list[_Node]) -> list[_Node] | None:
    """A conjunction with the ranges on one column folded into one; None where they have nothing in common."""
    ranges: dict[tuple[Any, int], int] = {}
    flat: list[_Node] = []
    for part in parts:
        predicate = part[0]
        if isinstance(predicate, Predicate) and predicate.sort == RANGE and not part[1]:
            index = ranges.setdefault((predicate.term, predicate.content[0]), len(flat))
            if index < len(flat):
                both = _intersection(flat[index][0], predicate)
                if both is None:
                    return None
                flat[index] = (both, False)
                continue
        flat.append(part)
    return flat


def _intersection(one: Predicate, other: Predicate) -> Predicate | None:
    rank, low, high = one.content
    if rank in TEXTUAL:
        return _common(one, other)
    low_open, high_open = one.opened
    _, other_low, other_high = other.content
    # At equal closed floats the open bound stood for a lower number: the closed one is the tighter.
    if other_low > low or (other_low == low and not other.opened[0]):
        low, low_open = other_low, other.opened[0]
    if other_high < high or (other_high == high and not other.opened[1]):
        high, high_open = other_high, other.opened[1]
    exact_low = nextafter(low, -inf) if low_open else low
    exact_high = nextafter(high, inf) if high_open else high
    if exact_low > exact_high or (exact_low == exact_high and (low_open or high_open)):
        return None
    return Predicate(RANGE, one.term, (rank, low, high), (low_open, high_open))


def _common(one: Predicate, other: Predicate) -> Predicate | None:
    """The intersection of two ranges of strings or bytes."""
    rank, low, high = one.content
    low_open, high_open = one.opened
    _, other_low, other_high = other.content
    if low is None or (other_low is not None and (other_low, other.opened[0]) > (low, low_open)):
        low, low_open = other_low, other.opened[0]
    if high is None or (other_high is not None and (other_high, high_open) < (high, other.opened[1])):
        high, high_open = other_high, other.opened[1]
    if low is not None and high is not None and (low > high or (low == high and (low_open or high_open))):
        return None
    return Predicate(RANGE, one.term, (rank, low, high), (low_open, high_open))


# -- programs ----------------------------------------------------------------------------------------------


def program_of(filter: Filter) -> Program:
    """The program of a filter."""
    node = _normal(filter, False)
    if node[0] == "and":
        parts = _joined("and", list(node[1]))
        node = parts if parts[0] in ("and", "or") else ("and", (parts,))
    if node == _NO:
        return Program((), never=True)
    if node[0] not in ("and", "or"):
        node = ("and", (node,))
    if node[0] == "and" and all(part[0] not in ("and", "or") for part in node[1]):
        literals = tuple(node[1])
        return Program(literals, opaque=any(predicate.sort == OPAQUE for predicate, _ in literals))
    return _branching(node)


def _branching(node: _Node) -> Program:
    literals: list[Literal] = []
    jumps: list[list[Any]] = []

    def emit(node: _Node) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Append a node's code; the dangling exits (place, side) taken when it is true, and when false."""
        if node[0] not in ("and", "or"):
            index = len(literals)
            literals.append(node)
            jumps.append([TRUE, FALSE])
            return [(index, 0)], [(index, 1)]
        conjunction = node[0] == "and"
        settled: list[tuple[int, int]] = []
        onward: list[tuple[int, int]] = []
        for part in sorted(node[1], key=_size):
            for index, side in onward:
                jumps[index][side] = len(literals)
            true, false = emit(part)
            onward, out = (true, false) if conjunction else (false, true)
            settled.extend(out)
        return (onward, settled) if conjunction else (settled, onward)

    true, false = emit(node)
    for index, side in true:
        jumps[index][side] = TRUE
    for index, side in false:
        jumps[index][side] = FALSE
    indexes = {id(literal): index for index, literal in enumerate(literals)}
    clauses = tuple(tuple(clause) for clause in _clauses(node, indexes))
    opaque = any(predicate.sort == OPAQUE for predicate, _ in literals)
    return Program(tuple(literals), tuple((t, f) for t, f in jumps), clauses, opaque)


def _size(node: _Node) -> int:
    """The work that a node is: cheap ones are asked first, opaque ones last."""
    if node[0] in ("and", "or"):
        return sum(map(_size, node[1]))
    return 1000 if node[0].sort == OPAQUE else 10 if is_pattern(node[0]) else 1


_ALTERNATIVES: Final = 4
"""The number of clauses that a disjunction offers to choose from."""

ACCESSIBLE: Final = frozenset({KIND, EQ, MEMBER, RANGE, SYMBOL, ANY})


def _clauses(node: _Node, indexes: dict[int, int]) -> list[list[int]]:
    """Sets of literals of which at least one is true whenever the node is, the promising ones first."""
    found: list[tuple[float, list[int]]] = []

    def visit(node: _Node) -> list[tuple[float, list[int]]]:
        if node[0] == "and":
            return sorted((clause for part in node[1] for clause in visit(part)), key=lambda each: each[0])
        if node[0] == "or":
            offers = [visit(part) for part in node[1]]
            if not all(offers):
                return []
            together = []
            for turn in range(min(_ALTERNATIVES, max(map(len, offers)))):
                chosen = [offer[min(turn, len(offer) - 1)] for offer in offers]
                together.append(
                    (sum(rank for rank, _ in chosen), [index for _, clause in chosen for index in clause])
                )
            return together
        predicate, negative = node
        if predicate.sort not in ACCESSIBLE or negative or is_pattern(predicate):
            return []
        return [(_PROMISE[predicate.sort], [indexes[id(node)]])]

    found = visit(node)
    return [clause for _, clause in found]


_PROMISE: Final = {EQ: 0.01, SYMBOL: 0.01, MEMBER: 0.03, ANY: 0.03, RANGE: 0.2, KIND: 0.9}
"""A guess at how often a predicate is true, where there are no figures yet."""
