"""The extent of a constraint: all values that satisfy it, absence included (the book's L_A).

An extent has one piece per kind of value: part of the kind, or all of it. Extents form a Boolean algebra, so

    A covers B      iff  A's extent covers B's           A identical B  iff  the extents are the same
    A overlaps B    iff  the extents have a common value
    A and B, A or B, not A   are the extents' meet, join and complement

`extent_of` gives the meaning of every built-in operator a second time, beside `Constraint.holds`; a law test
holds the two against each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache, reduce
from itertools import count
from math import ceil, floor
from typing import Any, Final, TypeAlias

from fairlead.filters.constraint import COMPARABLE, Constraint, Op, Range
from fairlead.filters.extents.boxes import INTERVAL, POINT, RECTANGLE, BoxExtent, Space
from fairlead.filters.extents.numbers import NumberExtent
from fairlead.filters.extents.sets import SetExtent
from fairlead.filters.extents.strings import BytesExtent, StringExtent
from fairlead.model import (
    ABSENT,
    RANK,
    Array,
    Instant,
    Interval,
    Key,
    Kind,
    Multi,
    Point,
    Record,
    Rectangle,
    Tuple,
    Value,
    key_of,
    kind_of,
    number_of,
)

__all__ = [
    "ALL",
    "PRESENT",
    "All",
    "BooleanExtent",
    "Extent",
    "Located",
    "element_of",
    "extent_of",
    "located",
    "meet",
    "single",
    "union",
]


class All(Enum):
    """The piece that is a whole kind."""

    ALL = "all"

    def __repr__(self) -> str:
        return "ALL"


ALL: Final = All.ALL
Part: TypeAlias = Any
"""A Piece, or ALL. The pieces of a kind only ever meet pieces of the same kind."""
Located: TypeAlias = tuple[Kind, Any]
"""The kind of a value, and what its pieces hold of it."""


@dataclass(frozen=True, slots=True)
class BooleanExtent:
    """A set of truth values."""

    members: frozenset[bool]

    def __and__(self, other: BooleanExtent) -> BooleanExtent:
        return BooleanExtent(self.members & other.members)

    def __or__(self, other: BooleanExtent) -> BooleanExtent:
        return BooleanExtent(self.members | other.members)

    def __invert__(self) -> BooleanExtent:
        return BooleanExtent(frozenset({True, False}) - self.members)

    def __contains__(self, value: object) -> bool:
        return value in self.members

    def is_empty(self) -> bool:
        return not self.members

    def is_full(self) -> bool:
        return len(self.members) == 2

    def covers(self, other: BooleanExtent) -> bool:
        return self.members >= other.members

    def witness(self) -> bool | None:
        return max(self.members, default=None)


class Extent:
    """A set of values of all kinds, and of absence."""

    __slots__ = ("_hash", "pieces")

    def __init__(self, pieces: Mapping[Kind, Part]) -> None:
        # Always in the order of the kinds, so that witnesses and spellings do not depend on how it was made.
        ordered = sorted(pieces, key=RANK.__getitem__) if len(pieces) > 1 else pieces
        self.pieces: dict[Kind, Part] = {kind: pieces[kind] for kind in ordered}
        self._hash: int | None = None

    @classmethod
    def of_kinds(cls, *kinds: Kind) -> Extent:
        """All values of these kinds."""
        return cls(dict.fromkeys(kinds, ALL))

    @classmethod
    def of_piece(cls, kind: Kind, piece: Part) -> Extent:
        """Part of one kind."""
        settled = _settled(piece)
        return cls({} if settled is None else {kind: settled})

    def __and__(self, other: Extent) -> Extent:
        pieces = {}
        for kind, mine in self.pieces.items():
            theirs = other.pieces.get(kind)
            if theirs is None:
                continue
            if mine is ALL or theirs is ALL:
                pieces[kind] = theirs if mine is ALL else mine
            elif (both := _settled(mine & theirs)) is not None:
                pieces[kind] = both
        return Extent(pieces)

    def __or__(self, other: Extent) -> Extent:
        pieces = dict(self.pieces)
        for kind, theirs in other.pieces.items():
            mine = pieces.get(kind)
            if mine is None:
                pieces[kind] = theirs
            elif mine is not ALL:
                pieces[kind] = ALL if theirs is ALL else _settled(mine | theirs)
        return Extent(pieces)

    def __invert__(self) -> Extent:
        pieces: dict[Kind, Part] = {}
        for kind in Kind:
            mine = self.pieces.get(kind)
            if mine is None:
                pieces[kind] = ALL
            elif mine is not ALL and (rest := _settled(~mine)) is not None:
                pieces[kind] = rest
        return Extent(pieces)

    def __contains__(self, value: object) -> bool:
        kind = kind_of(value)
        piece = self.pieces.get(kind)
        return piece is not None and (piece is ALL or _FORM[kind].content(value) in piece)

    def holds(self, kind: Kind, content: Any) -> bool:
        """The located value is in the extent: for a value that is looked for in many extents."""
        piece = self.pieces.get(kind)
        return piece is not None and (piece is ALL or content in piece)

    def is_empty(self) -> bool:
        """No value satisfies it, and absence does not either."""
        return not self.pieces

    def is_full(self) -> bool:
        """Every value satisfies it, and so does absence."""
        return len(self.pieces) == len(Kind) and all(piece is ALL for piece in self.pieces.values())

    def covers(self, other: Extent) -> bool:
        """Every value in `other` is in this extent."""
        for kind, theirs in other.pieces.items():
            mine = self.pieces.get(kind)
            if mine is None:
                return False
            if mine is ALL:
                continue
            if theirs is ALL or not mine.covers(theirs):
                return False
        return True

    def allows(self, kind: Kind) -> bool:
        """Some value of the kind is in the extent."""
        return kind in self.pieces

    def witness(self) -> Value:
        """A value in the extent, or ABSENT where only absence is; the extent must not be empty."""
        kind, piece = next(
            ((kind, piece) for kind, piece in self.pieces.items() if kind is not Kind.ABSENT),
            (Kind.ABSENT, ALL),
        )
        form = _FORM[kind]
        if piece is ALL:
            return form.sample
        return form.value(piece.witness(_fresh) if kind is Kind.SET else piece.witness())

    def first(self) -> Value:
        """A member at one end of the extent, far from the last.

        Whatever covers the extent holds both, and little else does.
        """
        return self._end(*next(iter(self.pieces.items())), first=True)

    def last(self) -> Value:
        """A member at the other end."""
        return self._end(*next(reversed(self.pieces.items())), first=False)

    def _end(self, kind: Kind, piece: Part, *, first: bool) -> Value:
        if kind in (Kind.NUMBER, Kind.TIME):
            numbers = NumberExtent.everything() if piece is ALL else piece
            return _FORM[kind].value(_outermost(numbers, first=first))
        return Extent({kind: piece}).witness()

    def values(self, limit: int = 64) -> tuple[Value, ...] | None:
        """All values in the extent (ABSENT among them), where they are at most `limit`; else None."""
        found: list[Value] = []
        for kind, piece in self.pieces.items():
            members = _members(kind, piece, limit)
            if members is None or len(found) + len(members) > limit:
                return None
            found.extend(members)
        return tuple(found)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Extent) and self.pieces == other.pieces

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.pieces.items()))
        return self._hash

    def __repr__(self) -> str:
        return f"Extent({self.pieces!r})"


def single(value: Value, *, discrete: bool = False) -> Extent:
    """The extent of one value, or of its whole kind if the kind has no finer extents."""
    kind = kind_of(value)
    return _among((value,), discrete) if kind in COMPARABLE else Extent.of_kinds(kind)


def located(value: Value) -> Located:
    """`v in e` iff `e.holds(*located(v))`; the work that the tests of one value share is done here."""
    kind = kind_of(value)
    return kind, _FORM[kind].content(value)


def union(extents: Iterable[Extent]) -> Extent:
    """The join of many extents, or nothing."""
    return _in_rounds(Extent.__or__, extents, Extent({}))


def meet(extents: Iterable[Extent]) -> Extent:
    """The intersection of many extents, or everything."""
    return _in_rounds(Extent.__and__, extents, ~Extent({}))


def _in_rounds(join: Callable[[Extent, Extent], Extent], extents: Iterable[Extent], none: Extent) -> Extent:
    """Joined pairwise in rounds: the cost of n small extents is n log n, not n squared."""
    left = list(extents)
    while len(left) > 1:
        left = [reduce(join, left[i : i + 2]) for i in range(0, len(left), 2)]
    return left[0] if left else none


def _settled(piece: Part) -> Part | None:
    """A piece with its limiting cases made plain: ALL for a whole kind, None for nothing."""
    if piece is ALL:
        return ALL
    if piece.is_empty():
        return None
    return ALL if piece.is_full() else piece


_FAR: Final = 10**30


def _outermost(piece: NumberExtent, *, first: bool) -> Any:
    """A member at the first or the last end, far out where there is no end."""
    span = piece.intervals[0 if first else -1]
    if first and span.lo is None:
        return (0 if span.hi is None else min(0, floor(span.hi))) - _FAR
    if not first and span.hi is None:
        return (0 if span.lo is None else max(0, ceil(span.lo))) + _FAR
    end, closed = (span.lo, span.lo_closed) if first else (span.hi, span.hi_closed)
    return end if closed else NumberExtent.interval(*span, discrete=piece.discrete).witness()


# -- how values of each kind look inside their pieces ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Form:
    """For one kind: from a value to what its pieces hold, back, and a value to show for the whole kind."""

    content: Callable[[Any], Any]
    value: Callable[[Any], Value]
    sample: Value


def _same(value: Any) -> Any:
    return value


def _fresh(named: frozenset[Key]) -> Key:
    """The key of an element that a constraint on sets does not name."""
    return next(key for number in count() if (key := key_of(number)) not in named)


def element_of(key: Key) -> Value:
    """The simple value of a key."""
    if len(key) == 1:
        return None if key == key_of(None) else float("nan")
    rank, content = key
    return Instant(content) if rank == key_of(Instant(0))[0] else content


def _corners(value: Rectangle) -> tuple[Any, ...]:
    return value.left, value.bottom, value.right, value.top


_FORM: Final[dict[Kind, _Form]] = {
    Kind.ABSENT: _Form(_same, _same, ABSENT),
    Kind.NULL: _Form(_same, _same, None),
    Kind.BOOLEAN: _Form(_same, _same, True),
    Kind.NUMBER: _Form(number_of, _same, 0),
    Kind.NAN: _Form(_same, _same, float("nan")),
    Kind.STRING: _Form(_same, _same, ""),
    Kind.BYTES: _Form(_same, _same, b""),
    Kind.TIME: _Form(lambda value: value.microseconds, Instant, Instant(0)),
    Kind.SET: _Form(lambda value: value.keys, lambda keys: Multi(map(element_of, keys)), Multi()),
    Kind.POINT: _Form(lambda value: (value.x, value.y), lambda xy: Point(*xy), Point(0, 0)),
    Kind.INTERVAL: _Form(
        lambda value: (value.low, value.high), lambda bounds: Interval(*bounds), Interval(0, 0)
    ),
    Kind.RECTANGLE: _Form(_corners, lambda corners: Rectangle(*corners), Rectangle(0, 0, 0, 0)),
    Kind.TUPLE: _Form(_same, _same, Tuple(())),
    Kind.RECORD: _Form(_same, _same, Record()),
    Kind.ARRAY: _Form(_same, _same, Array((Record(),))),
    Kind.OBJECT: _Form(_same, _same, object()),
}


def _members(kind: Kind, piece: Part, limit: int) -> tuple[Value, ...] | None:
    """The values of a piece, where they are few."""
    if piece is ALL:
        match kind:
            case Kind.ABSENT | Kind.NULL | Kind.NAN:
                return (_FORM[kind].sample,)
            case Kind.BOOLEAN:
                return (False, True)
        return None
    if isinstance(piece, BooleanExtent):
        return tuple(sorted(piece.members))
    if isinstance(piece, NumberExtent):
        size = piece.size()
        if size is None or size > limit:
            return None
        numbers = piece.points or [
            number for span in piece.intervals for number in range(int(span.lo or 0), int(span.hi or 0) + 1)
        ]
        return tuple(map(_FORM[kind].value, numbers))
    if isinstance(piece, StringExtent | BytesExtent) and (form := piece.form) and form[0] == "words":
        return tuple(sorted(form[1])) if len(form[1]) <= limit else None
    return None


# -- the extents of the built-in operators -----------------------------------------------------------------


@lru_cache(maxsize=1024)  # many filters ask for the same type, symbol, room: they share one extent
def extent_of(constraint: Constraint, *, discrete: bool = False) -> Extent:
    """All values that satisfy a constraint of a built-in operator.

    `discrete` says that the term's numbers are whole, so that relations use the integers.
    """
    return _EXTENT[constraint.op](constraint.operand, discrete)


def _number_line(kind: Kind, discrete: bool) -> tuple[Callable[[Any], Any], bool]:
    return _FORM[kind].content, discrete or kind is Kind.TIME


def _ordered(kind: Kind, low: Any, high: Any, closed: tuple[bool, bool], discrete: bool) -> Extent:
    """The values of an ordered kind between two bounds, either of which may be None."""
    piece: Part
    if kind in (Kind.NUMBER, Kind.TIME):
        content, whole = _number_line(kind, discrete)
        bounds = (None if low is None else content(low), None if high is None else content(high))
        piece = NumberExtent.interval(*bounds, *closed, discrete=whole)
    else:
        language: Any = StringExtent if kind is Kind.STRING else BytesExtent
        above = language.everything()
        if low is not None:
            above = language.at_least(low) if closed[0] else language.above(low)
        below = language.everything()
        if high is not None:
            below = language.at_most(high) if closed[1] else language.below(high)
        piece = above & below
    return Extent.of_piece(kind, piece)


def _between(operand: Range, discrete: bool) -> Extent:
    closed = (operand.low_closed, operand.high_closed)
    return _ordered(kind_of(operand.low), operand.low, operand.high, closed, discrete)


def _among(values: Iterable[Value], discrete: bool) -> Extent:
    """Exactly these values."""
    by_kind: defaultdict[Kind, list[Any]] = defaultdict(list)
    for value in values:
        by_kind[kind_of(value)].append(value)
    return union(Extent.of_piece(kind, _points(kind, some, discrete)) for kind, some in by_kind.items())


def _points(kind: Kind, values: list[Any], discrete: bool) -> Part:
    content = _FORM[kind].content
    match kind:
        case Kind.NULL:
            return ALL
        case Kind.BOOLEAN:
            return BooleanExtent(frozenset(values))
        case Kind.NUMBER | Kind.TIME:
            return NumberExtent.of(map(content, values), discrete=discrete or kind is Kind.TIME)
        case Kind.STRING:
            return StringExtent.words(*values)
        case Kind.BYTES:
            return BytesExtent.words(*values)
        case Kind.SET:
            return reduce(SetExtent.__or__, (SetExtent.equals(value.keys) for value in values))
        case _:
            space = _SPACES[kind]
            boxes = (BoxExtent.equals(space, content(value)) for value in values)
            return reduce(BoxExtent.__or__, boxes)


_SPACES: Final[dict[Kind, Space]] = {
    Kind.POINT: POINT,
    Kind.INTERVAL: INTERVAL,
    Kind.RECTANGLE: RECTANGLE,
}


def _rest_of_kinds(extent: Extent, kinds: Iterable[Kind]) -> Extent:
    """The values of the given kinds that are not in the extent: what `!=` and `not in` mean."""
    return ~extent & Extent.of_kinds(*kinds)


def _not_among(operand: Multi | Rectangle, discrete: bool) -> Extent:
    if isinstance(operand, Rectangle):
        return _rest_of_kinds(_inside(operand), (Kind.POINT,))
    return _rest_of_kinds(_among(operand, discrete), {kind_of(value) for value in operand})


def _inside(operand: Rectangle) -> Extent:
    return Extent.of_piece(Kind.POINT, BoxExtent.within(_corners(operand)))


def _textual(make: str) -> Callable[[Any, bool], Extent]:
    def extent(operand: str | bytes, _: bool) -> Extent:
        kind, language = (
            (Kind.STRING, StringExtent) if isinstance(operand, str) else (Kind.BYTES, BytesExtent)
        )
        return Extent.of_piece(kind, getattr(language, make)(operand))

    return extent


def _compound(make: str) -> Callable[[Any, bool], Extent]:
    """subset, superset, disjoint, overlaps: with a set of elements, or with a geometric value."""

    def extent(operand: Any, _: bool) -> Extent:
        if isinstance(operand, Multi):
            return Extent.of_piece(Kind.SET, getattr(SetExtent, make)(operand.keys))
        kind = kind_of(operand)
        return Extent.of_piece(kind, getattr(BoxExtent, make)(_SPACES[kind], _FORM[kind].content(operand)))

    return extent


def _containing(make: str) -> Callable[[Any, bool], Extent]:
    """contains, lacks: a simple value is an element of a set, a number also a point of an interval."""

    def extent(operand: Any, _: bool) -> Extent:
        if isinstance(operand, Point):
            box = getattr(BoxExtent, make)(RECTANGLE, (operand.x, operand.y))
            return Extent.of_piece(Kind.RECTANGLE, box)
        found = Extent.of_piece(Kind.SET, getattr(SetExtent, make)(key_of(operand)))
        if kind_of(operand) is Kind.NUMBER:
            box = getattr(BoxExtent, make)(INTERVAL, (number_of(operand),))
            found |= Extent.of_piece(Kind.INTERVAL, box)
        return found

    return extent


def _is(operand: Any, discrete: bool) -> Extent:
    if isinstance(operand, Kind):
        return Extent.of_kinds(operand)
    return _among(sorted(operand.members), discrete)


PRESENT: Final = ~Extent.of_kinds(Kind.ABSENT)
"""Every value there is."""

_EXTENT: Final[dict[Op, Callable[[Any, bool], Extent]]] = {
    Op.EXISTS: lambda _operand, _discrete: PRESENT,
    Op.ABSENT: lambda _operand, _discrete: Extent.of_kinds(Kind.ABSENT),
    Op.EQ: lambda value, discrete: _among((value,), discrete),
    Op.NE: lambda value, discrete: _rest_of_kinds(_among((value,), discrete), (kind_of(value),)),
    Op.LT: lambda value, discrete: _ordered(kind_of(value), None, value, (False, False), discrete),
    Op.LE: lambda value, discrete: _ordered(kind_of(value), None, value, (False, True), discrete),
    Op.GT: lambda value, discrete: _ordered(kind_of(value), value, None, (False, False), discrete),
    Op.GE: lambda value, discrete: _ordered(kind_of(value), value, None, (True, False), discrete),
    Op.IN_RANGE: _between,
    Op.NOT_IN_RANGE: lambda operand, discrete: _rest_of_kinds(
        _between(operand, discrete), (kind_of(operand.low),)
    ),
    Op.IN: lambda operand, discrete: (
        _inside(operand) if isinstance(operand, Rectangle) else _among(operand, discrete)
    ),
    Op.NOT_IN: _not_among,
    Op.PREFIX: _textual("prefix"),
    Op.SUFFIX: _textual("suffix"),
    Op.SUBSTRING: _textual("substring"),
    Op.LIKE: lambda operand, _: Extent.of_piece(Kind.STRING, StringExtent.pattern(operand)),
    Op.MATCHES: lambda operand, _: Extent.of_piece(Kind.STRING, StringExtent.pattern(operand)),
    Op.IS: _is,
    Op.SUBSET: _compound("subset"),
    Op.SUPERSET: _compound("superset"),
    Op.CONTAINS: _containing("contains"),
    Op.LACKS: _containing("lacks"),
    Op.DISJOINT: _compound("disjoint"),
    Op.OVERLAPS: _compound("overlaps"),
}
