"""Sets of geometric values: points, intervals and rectangles, compared with constant ones.

    v in a  iff  the coordinates of v lie in one of the blocks of `a`

A value is its coordinates: a point (x, y), an interval (lo, hi), a rectangle (x1, y1, x2, y2). Along each
axis an interval or rectangle V asks for low <= high, and every constraint against a constant C bounds each
coordinate by itself, hence is a block of coordinate space or the complement of one:

    V subset C      low >= C.low  and high <= C.high        V disjoint C    not (V overlaps C)
    V superset C    low <= C.low  and high >= C.high        V contains p    V superset {p}
    V overlaps C    low <= C.high and high >= C.low         V lacks p       not (V superset {p})

All bounds are closed: two intervals that share an end overlap. A block is a product of sets of numbers, so
intersection is side by side and a difference has one block per side. Sides are kept tight (each number of a
side belongs to some member), which makes a single block canonical. A union of blocks has many shapes: `==` is
structural, `covers` both ways decides identity. With too many blocks an answer is `Undecided`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, product
from operator import or_
from typing import Any, TypeAlias

from fairlead.errors import Undecided, ValueRefused
from fairlead.filters.extents.numbers import Number, NumberExtent

__all__ = ["INTERVAL", "POINT", "RECTANGLE", "BoxExtent", "Space"]

Coordinates: TypeAlias = tuple[Number, ...]
Form: TypeAlias = tuple[str, Coordinates]
_Block: TypeAlias = tuple[NumberExtent, ...]

_BLOCKS_MAX = 4_000  # blocks made for one answer
_TIDY_MAX = 32  # blocks compared pairwise for a smaller normal form


@dataclass(frozen=True, slots=True)
class Space:
    """A kind of geometric value: how many coordinates, and along how many axes it is low to high.

    The low coordinates come first, then the high ones in the same order; a point has none of either.
    """

    name: str
    arity: int
    axes: int

    def holds(self, value: object) -> bool:
        """The value has the right number of coordinates, and low <= high along each axis."""
        return (
            isinstance(value, tuple)
            and len(value) == self.arity
            and all(value[low] <= value[low + self.axes] for low in range(self.axes))
        )

    def checked(self, value: Coordinates) -> Coordinates:
        if not self.holds(value):
            order = " with low <= high" if self.axes else ""
            raise ValueRefused(
                f"({', '.join(map(str, value))}) is no {self.name}", hint=f"give {self.arity} numbers{order}"
            )
        return value

    def halves(self, value: Coordinates) -> tuple[Coordinates, Coordinates]:
        """The low and the high coordinates."""
        assert self.axes, f"a {self.name} has no inside"
        self.checked(value)
        return value[: self.axes], value[self.axes :]


POINT = Space("point", 2, 0)
INTERVAL = Space("interval", 2, 1)
RECTANGLE = Space("rectangle", 4, 2)

_NEGATION = {"overlaps": "disjoint", "contains": "lacks"}
_ANY = NumberExtent.everything()


@dataclass(frozen=True, slots=True)
class BoxExtent:
    """A union of blocks in the coordinates of one space."""

    space: Space
    blocks: tuple[_Block, ...]
    """Tight, none twice, sorted."""

    @classmethod
    def everything(cls, space: Space) -> BoxExtent:
        return cls(space, ((_ANY,) * space.arity,))

    @classmethod
    def nothing(cls, space: Space) -> BoxExtent:
        return cls(space, ())

    @classmethod
    def equals(cls, space: Space, value: Coordinates) -> BoxExtent:
        return cls._of(space, (NumberExtent.of((number,)) for number in space.checked(value)))

    @classmethod
    def within(cls, rectangle: Coordinates) -> BoxExtent:
        """The points of a rectangle, its border included."""
        return cls._of(POINT, map(NumberExtent.interval, *RECTANGLE.halves(rectangle)))

    @classmethod
    def subset(cls, space: Space, bound: Coordinates) -> BoxExtent:
        lows, highs = space.halves(bound)
        return cls._of(space, (*map(_at_least, lows), *map(_at_most, highs)))

    @classmethod
    def superset(cls, space: Space, core: Coordinates) -> BoxExtent:
        lows, highs = space.halves(core)
        return cls._of(space, (*map(_at_most, lows), *map(_at_least, highs)))

    @classmethod
    def overlaps(cls, space: Space, other: Coordinates) -> BoxExtent:
        lows, highs = space.halves(other)
        return cls._of(space, (*map(_at_most, highs), *map(_at_least, lows)))

    @classmethod
    def disjoint(cls, space: Space, other: Coordinates) -> BoxExtent:
        return ~cls.overlaps(space, other)

    @classmethod
    def contains(cls, space: Space, point: Coordinates) -> BoxExtent:
        """The point, one number per axis, lies in V."""
        return cls.superset(space, point + point)

    @classmethod
    def lacks(cls, space: Space, point: Coordinates) -> BoxExtent:
        return ~cls.contains(space, point)

    @classmethod
    def _of(cls, space: Space, sides: Iterable[NumberExtent]) -> BoxExtent:
        block = _tight(space, tuple(sides))
        return cls(space, () if block is None else (block,))

    def __and__(self, other: BoxExtent) -> BoxExtent:
        self._same_space(other)
        _check(len(self.blocks) * len(other.blocks))
        common = (_common(self.space, a, b) for a, b in product(self.blocks, other.blocks))
        return BoxExtent(self.space, _tidy(block for block in common if block is not None))

    def __or__(self, other: BoxExtent) -> BoxExtent:
        self._same_space(other)
        return BoxExtent(self.space, _tidy(self.blocks + other.blocks))

    def __sub__(self, other: BoxExtent) -> BoxExtent:
        self._same_space(other)
        return BoxExtent(self.space, _tidy(_rest(self.space, self.blocks, other.blocks)))

    def __invert__(self) -> BoxExtent:
        return BoxExtent.everything(self.space) - self

    def __contains__(self, value: Any) -> bool:
        return self.space.holds(value) and any(
            all(number in side for number, side in zip(value, block, strict=True)) for block in self.blocks
        )

    def is_empty(self) -> bool:
        """No value is a member."""
        return not self.blocks

    def is_full(self) -> bool:
        """Every value of the space is a member."""
        return self.covers(BoxExtent.everything(self.space))

    def covers(self, other: BoxExtent) -> bool:
        """Every member of `other` is a member."""
        self._same_space(other)
        open_blocks = [block for block in other.blocks if not any(_covers(own, block) for own in self.blocks)]
        return not any(_rest(self.space, [block], self.blocks) for block in open_blocks)

    def witness(self) -> Coordinates | None:
        """A member: the simplest low coordinates of the first block, then the simplest high ones."""
        if not self.blocks:
            return None
        found: list[Number] = []
        for place, side in enumerate(self.blocks[0]):
            above = side
            if place >= self.space.axes > 0:
                above &= _at_least(found[place - self.space.axes])
            number = above.witness()
            assert number is not None, "the sides of a block are tight"
            found.append(number)
        return tuple(found)

    @property
    def form(self) -> Form | None:
        """The constraint, where the extent is a single one: ("subset", C), ("lacks", p), …

        Names: equals, within (points only), contains, subset, superset, overlaps, and their negations
        "not equals", "not within", "lacks", "not subset", "not superset", "disjoint".
        """
        try:
            form = self._block_form()
            if form is None and (denied := (~self)._block_form()) is not None:
                form = _NEGATION.get(denied[0], f"not {denied[0]}"), denied[1]
            return form
        except Undecided:
            return None

    def _block_form(self) -> Form | None:
        """The constraint that is this extent, where that is a block."""
        if not self.blocks:
            return None
        hull = BoxExtent._of(self.space, (reduce(or_, sides) for sides in zip(*self.blocks, strict=True)))
        if not self.covers(hull):
            return None
        return next((form for form in self._readings(hull.blocks[0]) if self._made(*form) == hull), None)

    def _readings(self, block: _Block) -> Iterator[Form]:
        """The forms that could have the bounds of a block; only finite ones are read."""
        spans = [span for side in block if (span := side.hull()) is not None]
        least, most = [span.lo for span in spans], [span.hi for span in spans]
        axes = self.space.axes
        candidates = [("equals", least), ("within", least + most)]
        if axes:
            candidates = [
                ("equals", least),
                ("contains", most[:axes]),
                ("subset", least[:axes] + most[axes:]),
                ("superset", most[:axes] + least[axes:]),
                ("overlaps", least[axes:] + most[:axes]),
            ]
        for name, bounds in candidates:
            value = tuple(bound for bound in bounds if bound is not None)
            if len(value) == len(bounds) and (name in {"within", "contains"} or self.space.holds(value)):
                yield name, value

    def _made(self, name: str, value: Coordinates) -> BoxExtent:
        made: BoxExtent = self.within(value) if name == "within" else getattr(self, name)(self.space, value)
        return made

    def _same_space(self, other: BoxExtent) -> None:
        assert self.space == other.space, f"{self.space.name} and {other.space.name} are different kinds"


def _at_least(number: Number) -> NumberExtent:
    return NumberExtent.interval(number, None)


def _at_most(number: Number) -> NumberExtent:
    return NumberExtent.interval(None, number)


def _tight(space: Space, sides: _Block) -> _Block | None:
    """The block without the numbers that no member has as a coordinate; None where it has no members.

    Axes are independent, so low <= high asks for a low not beyond the supremum of the highs and the reverse.
    """
    if any(side.is_empty() for side in sides):
        return None
    tight = list(sides)
    for low in range(space.axes):
        high = low + space.axes
        lows, highs = sides[low].hull(), sides[high].hull()
        assert lows is not None
        assert highs is not None
        tight[low] &= NumberExtent.interval(None, highs.hi, hi_closed=highs.hi_closed)
        tight[high] &= NumberExtent.interval(lows.lo, None, lo_closed=lows.lo_closed)
        if tight[low].is_empty() or tight[high].is_empty():
            return None
    return tuple(tight)


def _covers(a: _Block, b: _Block) -> bool:
    return all(p.covers(q) for p, q in zip(a, b, strict=True))


def _common(space: Space, a: _Block, b: _Block) -> _Block | None:
    return _tight(space, tuple(p & q for p, q in zip(a, b, strict=True)))


def _minus(space: Space, a: _Block, b: _Block) -> Iterator[_Block]:
    """Disjoint blocks that together are `a` without `b`: one per side, the first on which `b` is left."""
    if _common(space, a, b) is None:
        yield a
        return
    inside: _Block = ()
    for place, (p, q) in enumerate(zip(a, b, strict=True)):
        block = _tight(space, (*inside, p - q, *a[place + 1 :]))
        if block is not None:
            yield block
        inside = (*inside, p & q)


def _rest(space: Space, blocks: Iterable[_Block], holes: Iterable[_Block]) -> list[_Block]:
    """The blocks without the holes."""
    rest = list(blocks)
    for hole in holes:
        rest = [piece for block in rest for piece in _minus(space, block, hole)]
        _check(len(rest))
    return rest


def _check(blocks: int) -> None:
    if blocks > _BLOCKS_MAX:
        raise Undecided("constraints on a geometric value fall into too many blocks")


def _tidy(blocks: Iterable[_Block]) -> tuple[_Block, ...]:
    """The same union with fewer blocks, sorted: covered ones dropped, those one side apart joined."""
    found = sorted(set(blocks), key=_sort_key)
    while len(found) <= _TIDY_MAX and (pair := _joinable(found)) is not None:
        a, b = pair
        found[found.index(a)] = tuple(p | q for p, q in zip(a, b, strict=True))
        found.remove(b)
    return tuple(sorted(found, key=_sort_key))


def _sort_key(block: _Block) -> list[tuple[bool, tuple[Any, ...]]]:
    return [(not side.below, side.cuts) for side in block]


def _joinable(blocks: list[_Block]) -> tuple[_Block, _Block] | None:
    """Two blocks whose union is the block of the unions of their sides."""
    for a, b in combinations(blocks, 2):
        if sum(p != q for p, q in zip(a, b, strict=True)) == 1 or _covers(a, b) or _covers(b, a):
            return a, b
    return None
