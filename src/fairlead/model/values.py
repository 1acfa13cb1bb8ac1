"""Values: what an attribute of a notification may hold.

Every value has exactly one kind, and a canonical key: two values are the same value iff their keys are equal.

    null                  None
    boolean               bool; never a number
    number                int, float, Decimal. A float stands for its shortest decimal, so 0.1 is one tenth,
                          whether it came as a double or as a decimal; integers of any size are exact
    nan                   the float that is not a number: it exists and satisfies nothing else
    string                str without lone surrogates, compared by code point
    bytes                 bytes, compared by byte
    time                  Instant: whole microseconds, UTC
    set                   Multi: a list of simple values, which filters see as a set
    point, rectangle,     Point, Rectangle, Interval
    interval
    tuple                 Tuple: values by position
    record                Record: values by name; reached by dotted names
    array                 Array: a list that is not a set of simple values; reached by paths only
    object                any other Python object: its public members and inspectors can be asked

`value_of` brings what users write into this form, once, at the door; everything behind it relies on it.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, ValuesView
from dataclasses import dataclass, field
from decimal import Context, Decimal
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

from fairlead.errors import ValueRefused
from fairlead.model.instants import Instant

__all__ = [
    "ABSENT",
    "Absent",
    "Array",
    "Instant",
    "Interval",
    "Key",
    "Kind",
    "Multi",
    "Number",
    "Point",
    "Published",
    "Record",
    "Rectangle",
    "Tuple",
    "Value",
    "check_name",
    "key_of",
    "kind_of",
    "number_of",
    "value_of",
]

Number: TypeAlias = int | Decimal
"""A canonical number: an int where whole, else a normalised Decimal."""

Key: TypeAlias = tuple[Any, ...]
"""The canonical, hashable stand-in of a value: (rank of its kind, its content)."""


DEPTH_MAX: Final = 100
"""The depth to which records, arrays, tuples and sets may be nested; each step of a dotted name counts."""

TUPLE_MAX: Final = 10_000
"""The number of values a tuple may have."""

DIGITS_MAX: Final = 4300
"""Numbers with more digits before the point, or zeros behind it, are refused: Python prints no longer int."""
_INT_BOUND: Final = 10**DIGITS_MAX


class Kind(Enum):
    """The kinds of values, and absence, which is not a value but something a filter can see."""

    ABSENT = "absent"
    NULL = "null"
    BOOLEAN = "boolean"
    NUMBER = "number"
    NAN = "nan"
    STRING = "string"
    BYTES = "bytes"
    TIME = "time"
    SET = "set"
    POINT = "point"
    INTERVAL = "interval"
    RECTANGLE = "rectangle"
    TUPLE = "tuple"
    RECORD = "record"
    ARRAY = "array"
    OBJECT = "object"

    # Members are singletons, so identity will do; the inherited hash runs Python code for every look-up.
    __hash__ = object.__hash__


RANK: Final = {kind: rank for rank, kind in enumerate(Kind)}
SIMPLE: Final = frozenset(
    {Kind.NULL, Kind.BOOLEAN, Kind.NUMBER, Kind.NAN, Kind.STRING, Kind.BYTES, Kind.TIME}
)
"""The kinds that may be elements of a set."""


class Absent:
    """The type of ABSENT, the value of an attribute that is not there."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ABSENT"

    def __bool__(self) -> bool:
        return False


ABSENT: Final = Absent()


class Multi:
    """A list of simple values, as it was published; subset, contains and the like compare the set of
    them.

    Iteration, `len` and `repr` are those of the list: its order, and what stands in it twice. Comparison, `in` and
    filters see the set: elements are the same iff their keys are, so {1, 1.0} has one element and {1, true} two.
    """

    __slots__ = ("_index", "_listed")

    def __init__(self, elements: Iterable[Any] = ()) -> None:
        self._index: dict[Key, Value] | None = None
        self._listed = tuple(map(_element, elements))
        if isinstance(elements, set | frozenset):
            self._listed = self.elements

    @classmethod
    def _of_simple(cls, values: Iterable[Value]) -> Multi:
        """The list of values that are known to be simple, and in the form of `value_of`."""
        multi = cls.__new__(cls)
        multi._index = None
        multi._listed = tuple(values)
        return multi

    @property
    def _by_key(self) -> dict[Key, Value]:
        """The set, made when it is first looked at: most lists are delivered and never asked about."""
        if self._index is None:
            self._index = _by_key(self._listed)
        return self._index

    @property
    def elements(self) -> tuple[Value, ...]:
        """The elements of the set, in the order of their keys."""
        return tuple(self._by_key.values())

    def as_set(self) -> Multi:
        """The same set, with each element listed once, in the order of the keys: equal sets are listed alike."""
        same = Multi.__new__(Multi)
        same._index, same._listed = self._by_key, self.elements
        return same

    @property
    def keys(self) -> frozenset[Key]:
        """The canonical keys of the elements."""
        return frozenset(self._by_key)

    def __iter__(self) -> Iterator[Value]:
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._listed)

    def __getitem__(self, index: int) -> Value:
        return self._listed[index]

    def __contains__(self, element: object) -> bool:
        return key_of(value_of(element)) in self._by_key

    def has_key(self, key: Key) -> bool:
        """Whether the element with this key is in the set."""
        return key in self._by_key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Multi) and self._by_key.keys() == other._by_key.keys()

    def __hash__(self) -> int:
        return hash(self.keys)

    def __repr__(self) -> str:
        return f"Multi([{', '.join(map(repr, self))}])"


def _element(given: Any) -> Value:
    value = value_of(given)
    if not is_simple(value):
        raise ValueRefused(f"not a simple value, so no element of a set: {given!r}")
    return value


def _by_key(values: Iterable[Value]) -> dict[Key, Value]:
    """The first value with each key, in the order of the keys."""
    given = list(values)
    if {*map(type, given)} == {int}:  # merging makes sets of hundreds of these
        rank = _ITSELF[int]
        return {(rank, number): number for number in sorted({*given})}
    by_key: dict[Key, Value] = {}
    for value in given:
        by_key.setdefault(key_of(value), value)
    return dict(sorted(by_key.items()))


@dataclass(frozen=True, slots=True, eq=False)
class _Listed:
    """Values in a row; the same iff their keys are."""

    items: tuple[Value, ...]
    levels: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "items", tuple(map(value_of, self.items)))
        object.__setattr__(self, "levels", _levels(self.items))

    def __iter__(self) -> Iterator[Value]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and key_of(self) == key_of(other)

    def __hash__(self) -> int:
        return hash(key_of(self))


class Tuple(_Listed):
    """Values by position, as in tuple spaces."""

    __slots__ = ()


class Array(_Listed):
    """A list with records or lists in it: no set of simple values, so only paths reach inside."""

    __slots__ = ()


class Published(NamedTuple):
    """A record as it was published, in typed JSON."""

    record: dict[str, Any]
    is_read_alone: bool = True
    """Whether it reads as the attributes by itself, without a schema or names of fields."""
    beside: Mapping[str, Any] = {}
    """Members that are read together with it: the producer of a CloudEvent, which the event itself has as
    `source`."""

    @property
    def whole(self) -> dict[str, Any]:
        """The record together with what is read beside it."""
        return {**self.record, **self.beside}


class Record(Mapping[str, Any]):
    """Values by name. Immutable. Dotted names given to it are opened up into nested records."""

    __slots__ = ("_fields", "_hash", "is_opened", "levels", "published")

    _hash: int
    """Computed when it is asked for."""
    is_opened: bool
    """Whether a name with dots was opened up, so that the names are not those that were given."""
    published: Published | None
    """The form in which the record of a notification was written, where its values do not say so."""

    def __init__(self, fields: Mapping[str, Any] | None = None) -> None:
        opened: dict[str, Any] = {}
        dotted = is_opened = False
        for name, given in (fields or {}).items():
            if type(name) is str and name and name.isascii() and "." not in name and name not in opened:
                opened[name] = given if type(given) in _NORMAL else value_of(given)
                continue
            if not isinstance(name, str):
                raise ValueRefused(f"an attribute's name is a string, not {name!r}")
            *parents, last = check_name(name).split(".")
            _insert(opened, parents, last, value_of(given), name)
            dotted, is_opened = True, is_opened or "." in name
        self._fields: dict[str, Value] = _sealed(opened) if dotted else opened
        self.is_opened = is_opened
        self.published = None
        self.levels = _levels(self._fields.values())

    @classmethod
    def _of_opened(cls, opened: dict[str, Any]) -> Record:
        record = cls.__new__(cls)
        record._fields = _sealed(opened)
        record.is_opened = True
        record.published = None
        record.levels = _levels(record._fields.values())
        return record

    def published_as(self, published: Published) -> Record:
        """The same record, with how it was written."""
        same = Record.__new__(Record)
        same._fields, same.levels, same.is_opened = self._fields, self.levels, self.is_opened
        same.published = published
        return same

    def lookup(self, name: str) -> Any:
        """The value under a dotted name, or ABSENT."""
        here: Any = self._fields.get(name, ABSENT)
        if here is not ABSENT or "." not in name:
            return here
        here = self
        for step in name.split("."):
            if (
                here is ABSENT
            ):  # asking an abstract class takes long, and most names that are asked are not there
                return ABSENT
            if isinstance(here, Record):
                here = here._fields.get(step, ABSENT)
            elif kind_of(here) is Kind.OBJECT:
                here = _member(here, step)
            else:
                return ABSENT
        return here

    def __getitem__(self, name: str) -> Any:
        found = self.lookup(name)
        if found is ABSENT:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    # The views that `Mapping` would give look up each name again.

    def items(self) -> ItemsView[str, Any]:
        return self._fields.items()

    def values(self) -> ValuesView[Any]:
        return self._fields.values()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.lookup(name) is not ABSENT

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Record) and key_of(self) == key_of(other))

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            self._hash = hash(key_of(self))
            return self._hash

    def __getstate__(self) -> object:
        """All but the hash, which another process computes otherwise."""
        return None, {name: getattr(self, name) for name in Record.__slots__ if name != "_hash"}

    def __repr__(self) -> str:
        return f"Record({self._fields!r})"


@dataclass(frozen=True, slots=True)
class Point:
    """A point in the plane."""

    x: Number
    y: Number

    def __post_init__(self) -> None:
        _coordinates(self, "x", "y")


@dataclass(frozen=True, slots=True)
class Interval:
    """A closed interval of numbers, as a value."""

    low: Number
    high: Number

    def __post_init__(self) -> None:
        _coordinates(self, "low", "high")
        if self.low > self.high:
            raise ValueRefused(f"an interval from {self.low} to {self.high} holds nothing")


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A closed, axis-aligned rectangle, by its lower left and its upper right corner."""

    left: Number
    bottom: Number
    right: Number
    top: Number

    def __post_init__(self) -> None:
        _coordinates(self, "left", "bottom", "right", "top")
        if self.left > self.right or self.bottom > self.top:
            raise ValueRefused(
                f"the corners ({self.left}, {self.bottom}) and ({self.right}, {self.top}) are not in order"
            )


Value: TypeAlias = Any
"""A value in one of the forms above; `value_of` makes sure of it."""


_KIND_BY_TYPE: Final[dict[type, Kind]] = {
    type(None): Kind.NULL,
    bool: Kind.BOOLEAN,
    int: Kind.NUMBER,
    str: Kind.STRING,
    bytes: Kind.BYTES,
    Instant: Kind.TIME,
    Multi: Kind.SET,
    Point: Kind.POINT,
    Interval: Kind.INTERVAL,
    Rectangle: Kind.RECTANGLE,
    Tuple: Kind.TUPLE,
    Array: Kind.ARRAY,
    Record: Kind.RECORD,
    Absent: Kind.ABSENT,
}


_NORMAL: Final = frozenset({*_KIND_BY_TYPE, float} - {str, int, Absent})
"""The types that `value_of` takes as they are, without a look inside."""

_FLAT: Final = frozenset({*_NORMAL, str, int} - {Multi, Tuple, Array, Record})
"""The types without levels of nesting."""

_SIMPLE: Final = frozenset({*_FLAT, Decimal} - {Point, Interval, Rectangle})
"""The types of simple values; those of subclasses are found by their kinds."""

_ITSELF: Final = {each: RANK[_KIND_BY_TYPE[each]] for each in (bool, int, str, bytes)}
"""The types whose values are the content of their own keys."""


def kind_of(value: Value) -> Kind:
    """The one kind of a value."""
    kind = _KIND_BY_TYPE.get(type(value))
    if kind is not None:
        return kind
    if isinstance(value, float):
        return Kind.NAN if math.isnan(value) else Kind.NUMBER
    if isinstance(value, Decimal):
        return Kind.NAN if value.is_nan() else Kind.NUMBER
    for known in (int, str, bytes):  # subclasses, such as enumerations; bool cannot be subclassed
        if isinstance(value, known):
            return _KIND_BY_TYPE[known]
    return Kind.OBJECT


def is_simple(value: Value) -> bool:
    """Whether a value may be an element of a set."""
    return type(value) in _SIMPLE or kind_of(value) in SIMPLE


_EXACT_BELOW: Final = 2.0**53


def number_of(value: float | Decimal) -> Number:
    """The canonical number of an int, a float or a Decimal."""
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        if -_EXACT_BELOW < value < _EXACT_BELOW:  # the shortest decimal has no zeros at its end to strip
            return int(value) if value.is_integer() else Decimal(float.__repr__(value))
        value = Decimal(float.__repr__(value))
    if not value.is_finite():
        return value
    if abs(value.adjusted()) >= DIGITS_MAX and value:
        raise ValueRefused(f"a number of more than {DIGITS_MAX} digits")
    whole = int(value)
    if whole == value:
        return whole
    return value.normalize(Context(prec=max(1, len(value.as_tuple().digits))))


def key_of(value: Value) -> Key:
    """The canonical key: equal iff the values are the same."""
    itself = _ITSELF.get(type(value))
    if itself is not None:
        return (itself, value)
    kind = kind_of(value)
    rank = RANK[kind]
    content: Any
    match kind:
        case Kind.NULL | Kind.NAN | Kind.ABSENT:
            return (rank,)
        case Kind.NUMBER:
            content = number_of(value)
        case Kind.TIME:
            content = value.microseconds
        case Kind.SET:
            content = value.keys
        case Kind.POINT:
            content = (value.x, value.y)
        case Kind.INTERVAL:
            content = (value.low, value.high)
        case Kind.RECTANGLE:
            content = (value.left, value.bottom, value.right, value.top)
        case Kind.TUPLE | Kind.ARRAY:
            content = tuple(key_of(item) for item in value.items)
        case Kind.RECORD:
            content = frozenset((name, key_of(item)) for name, item in value._fields.items())
        case Kind.OBJECT:
            content = id(value)  # objects are compared by asking them, never as a whole
        case _:
            content = value
    return (rank, content)


def _checked_whole(whole: int) -> int:
    if abs(whole) >= _INT_BOUND:
        raise ValueRefused(f"a number of more than {DIGITS_MAX} digits")
    return whole


def _checked_string(text: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueRefused(f"a lone surrogate is no character: {text!r}") from None
    return text


def value_of(given: Any) -> Value:
    """A value as users write it, in the form that the rest relies on, or ValueRefused."""
    kind = type(given)
    if kind in _NORMAL or (kind is str and given.isascii()):
        return given
    try:
        return _MADE_BY_TYPE.get(kind, _made_by_class)(given)
    except RecursionError:
        raise ValueRefused(f"nested more than {DEPTH_MAX} levels deep") from None


def _made_by_class(given: Any) -> Value:
    match given:
        case Absent():
            raise ValueRefused("an attribute that is absent is left out, not given a value")
        case dt.datetime():
            return Instant.of(given)
        case str():
            return _checked_string(str.__str__(given))
        case float():
            return float(given)
        case Decimal():
            if given.is_finite():
                number_of(given)
            return given if type(given) is Decimal else Decimal(given)
        case int():
            return _checked_whole(int(given))
        case bytearray() | memoryview():
            return bytes(given)
        case Mapping():
            return Record(given)
        case set() | frozenset():
            return Multi(given)
        case list() | tuple():
            return _list_of(given)
        case _:
            if type(given).__module__ == "numpy" and hasattr(given, "tolist"):
                return value_of(given.tolist())
            return given


def _list_of(given: list[Any] | tuple[Any, ...]) -> Multi | Array:
    return set_or_array([item if type(item) in _NORMAL else value_of(item) for item in given])


def set_or_array(values: list[Value]) -> Multi | Array:
    """A list of values in the form of `value_of` is a set where all are simple, and an array elsewhere."""
    simple = _SIMPLE.issuperset(map(type, values)) or all(map(is_simple, values))
    return Multi._of_simple(values) if simple else Array(tuple(values))


_MADE_BY_TYPE: Final[dict[type, Callable[[Any], Value]]] = {
    str: _checked_string,
    int: _checked_whole,
    dict: Record,
    list: _list_of,
    tuple: _list_of,
}
"""Constructors of the values that users write most; the rest, subclasses of these included, goes by class."""


_NESTED: Final = (Record, _Listed)


def _levels(values: Iterable[Value]) -> int:
    """The levels of nesting of what holds these values, or ValueRefused."""
    levels = 1
    for value in values:
        if type(value) in _FLAT:
            continue
        if isinstance(value, Multi):
            levels = max(levels, 2)
        elif isinstance(value, _NESTED):
            levels = max(levels, value.levels + 1)
    if levels > DEPTH_MAX:
        raise ValueRefused(f"nested more than {DEPTH_MAX} levels deep")
    return levels


def check_name(name: str) -> str:
    """A dotted name whose every step is non-empty, or ValueRefused."""
    if not name or name.startswith(".") or name.endswith(".") or ".." in name:
        raise ValueRefused(f"not an attribute's name: {name!r}", hint="names are steps joined by dots")
    if name.count(".") >= DEPTH_MAX:
        raise ValueRefused(f"nested more than {DEPTH_MAX} levels deep: a name of {name.count('.') + 1} steps")
    return _checked_string(name)


def _insert(into: dict[str, Any], parents: list[str], last: str, value: Value, name: str) -> None:
    """Put a value under parents that may be shared with other dotted names; a clash is refused."""
    here = into
    for step in parents:
        below = here.setdefault(step, {})
        if isinstance(below, Record):
            below = here[step] = dict(below._fields)
        if not isinstance(below, dict):
            raise ValueRefused(f"{name!r} asks for a record where there is a value already")
        here = below
    existing = here.get(last, ABSENT)
    if existing is ABSENT:
        here[last] = value
    elif isinstance(existing, dict | Record) and isinstance(value, Record):
        for inner, item in value._fields.items():
            _insert(into, [*parents, last], inner, item, f"{name}.{inner}")
    else:
        raise ValueRefused(f"{name!r} is given twice")


def _sealed(opened: dict[str, Any]) -> dict[str, Value]:
    """The fields that `_insert` has put together, with records for its dictionaries."""
    return {
        name: Record._of_opened(value) if isinstance(value, dict) else value for name, value in opened.items()
    }


def _coordinates(value: Any, *names: str) -> None:
    for name in names:
        given = value_of(getattr(value, name))
        if kind_of(given) is not Kind.NUMBER or (
            isinstance(given, float | Decimal) and not Decimal(given).is_finite()
        ):
            raise ValueRefused(f"a coordinate is a finite number, not {given!r}")
        object.__setattr__(value, name, number_of(given))


def _member(holder: Any, name: str) -> Any:
    """A public data member of an embedded object, or ABSENT; methods are asked for by `name()`."""
    if name.startswith("_"):
        return ABSENT
    try:
        found = getattr(holder, name, ABSENT)
        return ABSENT if found is ABSENT or callable(found) else value_of(found)
    except Exception:  # whatever an embedded object does must not stop the others' deliveries
        return ABSENT
