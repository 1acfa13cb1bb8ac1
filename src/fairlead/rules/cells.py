"""Two notifications in the same cells match the same filters.

What filters decide depends on the attributes that they name, and of these only on what they compare them with: to
`price > 10` and `price < 20` all prices between 10 and 20 are one. `Cells` has for each attribute the numbers and
texts that filters mention, and so divides its values into cells. That serves notifications of plain values, of
which most streams consist; where a filter looks at more than named attributes (a path, a filter object, a tuple),
there are no cells.
"""

from __future__ import annotations

from bisect import bisect, bisect_left
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import chain, repeat
from math import isnan
from operator import add, itemgetter
from typing import Any, Final, NamedTuple, TypeGuard

from fairlead.errors import ValueRefused
from fairlead.filters.constraint import Constraint, Op, TypeName
from fairlead.filters.filter import Filter, leaves
from fairlead.filters.terms import Attribute, Polynomial
from fairlead.model import Instant, Kind, Multi, Number
from fairlead.model.packed import PlainColumns, PlainParts

__all__ = ["FEW_OF", "Cells", "Few", "Keys", "Same", "is_plain"]

SPECIAL: Final[dict[str, Callable[[Any], bool]]] = {
    "id": lambda value: type(value) is str,
    "producer": lambda value: type(value) is str,
    "sequence": lambda value: type(value) is int,
    "time": lambda value: type(value) is str and _is_time(value),
    "tuple": lambda value: False,
}
"""The names under which not every plain value may stand, and which may."""
NAMES_MAX: Final = 16
"""Cells of more attributes than this are not likely to come again together."""
CUTS_MAX: Final = 100_000
"""So many numbers, or texts, are told apart by name; if there are more, all are."""
EXACT_MAX: Final = 2**53
"""Up to here every integer is a float."""
_ONLY_TEXTS: Final = {str}
_ONLY_NUMBERS: Final = {int, float}
_ONLY_WHOLE: Final = {int}
_ONLY_ABSENT: Final = {type(...)}
_SOME_TEXT: Final = object()
_NUMBER: Final = object()
_NO_NUMBER: Final = object()
"""NaN, which is nowhere among the numbers: neither below nor above any."""
FEW_OF: Final = 4
"""A column has few values where each comes so many times, on average."""
KNOWN_MAX: Final = 10_000
"""The number of attributes' names that are known to be plain."""


class Same(NamedTuple):
    """The cells of a column that are all the same one."""

    cell: Any


class Few(NamedTuple):
    """The cells of a column of few values."""

    values: Sequence[Any]
    cells: dict[Any, Any]
    """The cell of each of the values."""

    def each(self) -> list[Any]:
        """The cells, one for each value."""
        return [*map(self.cells.__getitem__, self.values)]


class Column(NamedTuple):
    """One thing that answers depend on: an attribute, or the producer or id."""

    name: str
    """Of an attribute; empty for the others."""
    read: Callable[[PlainColumns], Sequence[Any]]
    """Its values."""
    cells: Callable[[Sequence[Any]], Sequence[Any] | Same | Few]
    one: Callable[[Any], Any]
    """The cell of one value."""

    @classmethod
    def of_attribute(cls, name: str, attribute: _Attribute) -> Column:
        """The column of an attribute."""
        item = itemgetter(name)

        def read(columns: PlainColumns) -> Sequence[Any]:
            try:
                return [*map(item, columns[2])]
            except KeyError:
                return [*map(dict.get, columns[2], repeat(name), repeat(...))]

        return cls(name, read, *attribute.cells())

    @classmethod
    def of_part(cls, position: int) -> Column:
        """The column of producers (0), or of ids (1): any two are distinguished."""
        return cls("", itemgetter(position), _folded, lambda value: value)


def _folded(values: Sequence[Any]) -> Sequence[Any] | Same:
    first = values[0]
    return Same(first) if first == values[-1] and values.count(first) == len(values) else values


class Keys:
    """All that the answers about plain notifications depend on. The keys `of` several are the same as `one` of
    each.

    Of one column, a key is the cell; of several, the cells. Most streams stay in one cell of most columns:
    `columns_of` has the cells of each column apart, so that these are looked up once.
    """

    __slots__ = ("_positions", "columns", "one")

    def __init__(self, attributes: Sequence[Column], *, producer: bool = False, id: bool = False) -> None:
        self._positions = [*([0] if producer else []), *([1] if id else [])]
        self.columns = (*attributes, *map(Column.of_part, self._positions))
        self.one: Callable[[PlainParts], Any] = self._one([(each.name, each.one) for each in attributes])

    def with_parts(self, *, producer: bool, id: bool) -> Keys:
        """The same attributes, with or without the producer and id."""
        return Keys([each for each in self.columns if each.name], producer=producer, id=id)

    def columns_of(self, columns: PlainColumns) -> list[Sequence[Any] | Same | Few]:
        """The cells of each column."""
        return [each.cells(each.read(columns)) for each in self.columns]

    def of(self, parts: Sequence[PlainParts]) -> list[Any]:
        """The key of each."""
        return [*map(self.one, parts)]

    def _one(self, attributes: list[tuple[str, Callable[[Any], Any]]]) -> Callable[[PlainParts], Any]:
        """The key of one: written out for what most policies and tables look at, for it is made for each lone
        publication."""
        positions = self._positions
        if len(attributes) + len(positions) == 0:
            return lambda part: ()
        if not attributes and len(positions) == 1:
            return itemgetter(positions[0])
        if len(attributes) == 1:
            [(name, cell)] = attributes
            if not positions:
                return lambda part: cell(part[2].get(name, ...))
            if positions == [0]:
                return lambda part: (cell(part[2].get(name, ...)), part[0])
        if len(attributes) == 2 and positions == [0]:
            (name, cell), (other, cell_of_other) = attributes

            def of_two(part: PlainParts) -> Any:
                get = part[2].get
                return cell(get(name, ...)), cell_of_other(get(other, ...)), part[0]

            return of_two
        return lambda part: (
            *[cell(part[2].get(name, ...)) for name, cell in attributes],
            *[part[each] for each in positions],
        )


def _is_time(text: str) -> bool:
    try:
        Instant.parse(text)
    except ValueRefused:
        return False
    return True


class Plain:
    """Whether fields of plain values are plain: named by single words, so that nothing is left to be checked."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: set[str] = set()

    def __call__(self, *each: dict[str, Any]) -> bool:
        names: set[str] = set().union(*each)  # by the hashes that the dictionaries have
        names -= self._known
        if not names <= SPECIAL.keys():
            return all(map(self._look_at, each))
        return all(
            all(map(SPECIAL[name], [fields[name] for fields in each if name in fields])) for name in names
        )

    def _look_at(self, fields: dict[str, Any]) -> bool:
        special = SPECIAL.keys() & fields.keys()
        return all(self._is_plain(name) for name in fields if name not in special) and all(
            SPECIAL[name](fields[name]) for name in special
        )

    def _is_plain(self, name: str) -> bool:
        if not name or not name.isascii() or "." in name:
            return False
        if len(self._known) < KNOWN_MAX:
            self._known.add(name)
        return True


is_plain: Final = Plain()


class _Attribute:
    """The values that filters compare one attribute with."""

    __slots__ = ("numbers", "texts", "wholes")

    def __init__(self) -> None:
        self.wholes = False
        """Whether they tell numbers that are not whole from all others."""
        self.numbers: list[float] | None = []
        """In order; None where they tell any two numbers apart."""
        self.texts: set[str] | None = set()
        """None where they tell any two texts apart."""

    def look(self, op: Op, operand: Any) -> None:
        """One more filter compares them with this."""
        match op:
            case Op.EXISTS | Op.ABSENT:
                pass
            case Op.EQ | Op.NE:
                self._mention(operand)
            case Op.IN | Op.NOT_IN if isinstance(operand, Multi):
                for each in operand:
                    self._mention(each)
            case Op.LT | Op.LE | Op.GT | Op.GE if _is_number(operand):
                self._mention(operand)
            case Op.IN_RANGE | Op.NOT_IN_RANGE if _is_number(operand.low) and _is_number(operand.high):
                self._mention(operand.low)
                self._mention(operand.high)
            case Op.IS if isinstance(operand, TypeName):
                for text in operand.members:
                    self._mention(text)
            case Op.IS if isinstance(operand, Kind):
                pass
            case Op.PREFIX | Op.SUFFIX | Op.SUBSTRING | Op.LIKE | Op.MATCHES:
                self.texts = None
            case _:
                self.numbers = self.texts = None

    def _mention(self, value: Any) -> None:
        if isinstance(value, str):
            if self.texts is not None:
                self.texts.add(value)
                if len(self.texts) > CUTS_MAX:
                    self.texts = None
        elif _is_number(value):
            if self.numbers is not None:
                self._cut(value)
        elif value is not None and not isinstance(value, bool):
            self.numbers = self.texts = None

    def _cut(self, value: Number) -> None:
        """A float is the shortest decimal that rounds to it, so cuts may be rounded, too: whatever is below the
        rounded one is below the other; only one float is equal to it, and no integer lies between the two."""
        assert self.numbers is not None
        if not -EXACT_MAX <= value <= EXACT_MAX:  # some of these are too large for a float at all
            self.numbers = None
            return
        cut: float = float(value)
        at = bisect_left(self.numbers, cut)
        if at == len(self.numbers) or self.numbers[at] != cut:
            self.numbers.insert(at, cut)
        if len(self.numbers) > CUTS_MAX:
            self.numbers = None

    def join(self, other: _Attribute) -> None:
        """Tell apart what another one does, too."""
        self.wholes = self.wholes or other.wholes
        if self.numbers is None or other.numbers is None:
            self.numbers = None
        elif other.numbers:
            numbers = sorted({*self.numbers, *other.numbers})
            self.numbers = numbers if len(numbers) <= CUTS_MAX else None
        if self.texts is None or other.texts is None:
            self.texts = None
        elif other.texts:
            self.texts = self.texts | other.texts
            self.texts = self.texts if len(self.texts) <= CUTS_MAX else None

    def cells(self) -> tuple[Callable[[Sequence[Any]], Sequence[Any] | Same | Few], Callable[[Any], Any]]:
        """The cells of values, and the cell of one; 1 and True are two values.

        The cell of a number is how many cuts are below it plus how many up to it: odd, if it is one of them. So
        cells rise with numbers, and if the least and the greatest have one, all have.
        """
        numbers, texts, wholes = self.numbers, self.texts, self.wholes
        cell_of_text = None if texts is None else {each: each for each in texts}.get
        last = None if numbers is None else 2 * len(numbers)
        cut = numbers[0] if numbers is not None and len(numbers) == 1 and not wholes else None

        def cell(value: Any) -> Any:
            kind = type(value)
            if kind is str:
                return value if texts is None or value in texts else _SOME_TEXT
            if kind is not int and kind is not float:
                return kind, value
            if cut is not None:
                return 0 if value < cut else 2 if value > cut else 1 if value == cut else _NO_NUMBER
            if numbers is None:
                return _NUMBER, value
            if kind is float and isnan(value):
                return _NO_NUMBER
            if wholes and kind is float and not value.is_integer():
                return _NUMBER, value
            return bisect_left(numbers, value) + bisect(numbers, value)

        def of(values: Sequence[Any]) -> Sequence[Any] | Same | Few:
            if cell_of_text is not None and type(values[0]) is str:
                distinct = {*values}
                few = len(distinct) <= len(values) // FEW_OF
                # No text is equal to anything else, so that these are of all kinds that the values are of.
                if few and {*map(type, distinct)} == _ONLY_TEXTS:
                    cells = {each: cell_of_text(each, _SOME_TEXT) for each in distinct}
                    first, *others = cells.values()
                    return Few(values, cells) if any(each != first for each in others) else Same(first)
            kinds = {*map(type, values)}
            if kinds == _ONLY_TEXTS:
                if cell_of_text is None:
                    return _folded(values)
                return [*map(cell_of_text, values, repeat(_SOME_TEXT))]
            is_exact = kinds == _ONLY_WHOLE
            if numbers is not None and (is_exact or (not wholes and kinds <= _ONLY_NUMBERS)):
                if is_exact or not isnan(sum(values)):
                    least = cell(min(values))
                    if least == last or least == cell(max(values)):
                        return Same(least)
                    below, up_to = (
                        map(bisect_left, repeat(numbers), values),
                        map(bisect, repeat(numbers), values),
                    )
                    return [*map(add, below, up_to)]
            elif kinds == _ONLY_ABSENT:
                return Same(cell(...))
            return [*map(cell, values)]

        return of, cell


def _is_number(value: Any) -> TypeGuard[Number]:
    return type(value) in (int, Decimal)


class Cells:
    """The distinctions between notifications that filters make. Removing a filter removes none: more distinctions
    do no harm."""

    def __init__(self) -> None:
        self._attributes: dict[str, _Attribute] | None = {}
        """None where they look at more than attributes."""

    @classmethod
    def joined(cls, *each: Cells) -> Cells:
        """The distinctions that any of them makes, which is not changed: one for each attribute."""
        joined, [first, *more] = cls(), each
        if not more:
            return first
        attributes = [cells._attributes for cells in each if cells._attributes is not None]
        if len(attributes) < len(each):
            joined._attributes = None
        else:
            for name, attribute in chain.from_iterable(map(dict.items, attributes)):
                joined._of(name).join(attribute)
        return joined

    def add(self, filter: Filter) -> None:
        """One more filter."""
        for leaf in leaves(filter):
            if self._attributes is None:
                return
            match leaf:
                case Constraint(term=Attribute(name), op=op, operand=operand) if "." not in name:
                    # A time is a text that means an instant.
                    self._of(name).look(Op.EXTENDED if name == "time" else op, operand)
                case Constraint(term=Polynomial() as term) if not any("." in name for name in term.names):
                    for name in term.names:
                        self._of(name).look(Op.EXTENDED, None)
                case _:
                    self._attributes = None

    def add_attribute(self, name: str) -> None:
        """Add an attribute, any two values of which are distinguished."""
        if "." in name:
            self._attributes = None
        elif self._attributes is not None:
            self._of(name).look(Op.EXTENDED, None)

    def add_domain(self, name: str, kind: Kind, *, integer: bool = False) -> None:
        """Add an attribute with a declared domain: any two values outside of it are distinguished, and of those
        within it only what filters compare them with."""
        if "." in name:
            self._attributes = None
        elif self._attributes is not None:
            attribute = self._of(name)
            attribute.wholes = attribute.wholes or integer
            if kind is not Kind.NUMBER:
                attribute.numbers = None
            if kind is not Kind.STRING:
                attribute.texts = None

    def _of(self, name: str) -> _Attribute:
        assert self._attributes is not None
        return self._attributes.setdefault(name, _Attribute())

    def keys(self) -> Keys | None:
        """The cells of plain notifications; None where there are too many, or none."""
        attributes = self._attributes
        if attributes is None or len(attributes) > NAMES_MAX:
            return None
        return Keys([Column.of_attribute(name, each) for name, each in sorted(attributes.items())])
