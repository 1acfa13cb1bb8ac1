"""Mappings: the changes of a notification at an edge (book 6.4).

A mapping is a sequence of steps for each direction. A step gives a notification, or nothing: then the edge does
not let it pass. The envelope (`id`, `producer`, `time`, `sequence`, `cause`) cannot be mapped, so what was mapped
keeps its identity and its position in the order.

    a = expression    set an attribute: a value, another attribute, arithmetic, or a conversion
    RENAME a TO b     b has the value that a had, a is gone
    DROP a            a is gone
    KEEP a, b         all other attributes are gone
    BLOCK WHERE f     what matches does not pass
    module:function   a Python function from attributes to attributes, or None

Steps other than functions are total: an expression without a value (an absent attribute, a number that is none)
leaves its target absent.

    pull(steps, F)    n matches pull(F) iff apply(steps, n) matches F; None where no filter says that exactly
    push(steps, F)    matches apply(steps, n) for every n that matches F
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, TypeAlias

from fairlead.errors import FairleadError, FilterError, ScopeError
from fairlead.filters import (
    EVERYTHING,
    NOTHING,
    And,
    Attribute,
    Constraint,
    Filter,
    Inspector,
    Length,
    Not,
    Op,
    Or,
    Polynomial,
    Position,
    Range,
    Tested,
)
from fairlead.filters.language.arithmetic import Sum, compared, presence, within
from fairlead.filters.terms import computed, decimal_of
from fairlead.model import (
    ABSENT,
    Instant,
    Kind,
    Multi,
    Notification,
    Record,
    check_name,
    kind_of,
    number_of,
    value_of,
)
from fairlead.model.encoding import parse_number

__all__ = [
    "ENVELOPE",
    "IDENTITY",
    "Assign",
    "Block",
    "Code",
    "Computed",
    "Constant",
    "Converted",
    "Copied",
    "Drop",
    "EdgeMapping",
    "Expression",
    "Keep",
    "MappingFailed",
    "Rename",
    "Step",
    "Steps",
    "apply",
    "inverse",
    "pull",
    "push",
]

ENVELOPE: Final = frozenset({"cause", "id", "producer", "sequence", "time"})
"""The attributes that identity and order depend on: no mapping changes them."""


class MappingFailed(ScopeError):
    """A mapping written in Python raised, or gave something that is no notification."""


# -- expressions -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Constant:
    """A value."""

    value: Any

    def of(self, record: Record) -> Any:
        return self.value


@dataclass(frozen=True, slots=True)
class Copied:
    """The value of another attribute."""

    name: str

    def of(self, record: Record) -> Any:
        return record.lookup(self.name)


@dataclass(frozen=True, slots=True)
class Computed:
    """A number: sums and products of attributes with decimal coefficients, sorted; nothing is rounded."""

    monomials: tuple[tuple[tuple[str, ...], Fraction], ...]

    @classmethod
    def from_sum(cls, total: Sum) -> Constant | Copied | Computed:
        """The simplest expression that a sum is."""
        for coefficient in total.coefficients.values():
            _check_decimal(coefficient)
        if total.constant is not None:
            return Constant(decimal_of(total.constant))
        monomials = tuple(sorted((names, c) for names, c in total.coefficients.items() if c))
        match monomials:
            case (((name,), coefficient),) if coefficient == 1:
                return Copied(name)
        return cls(monomials)

    @property
    def total(self) -> Sum:
        return Sum(dict(self.monomials))

    @property
    def names(self) -> frozenset[str]:
        return frozenset(name for names, _ in self.monomials for name in names)

    def of(self, record: Record) -> Any:
        return computed(self.monomials, record.lookup)


def _check_decimal(coefficient: Fraction) -> None:
    rest = coefficient.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if rest != 1:
        raise ScopeError(
            f"a mapping computes decimals, and {coefficient} is none",
            hint="give the factor as a decimal: 0.33",
        )


def _as_text(value: Any) -> Any:
    match kind_of(value):
        case Kind.STRING:
            return value
        case Kind.NUMBER:
            return str(number_of(value)).lower()
        case Kind.BOOLEAN:
            return "true" if value else "false"
        case Kind.TIME:
            return str(value)
    return ABSENT


def _as_number(value: Any) -> Any:
    if kind_of(value) is Kind.NUMBER:
        return value
    found = parse_number(value) if isinstance(value, str) and len(value) <= 100 else None
    return ABSENT if found is None else value_of(found)


def _as_time(value: Any) -> Any:
    try:
        if isinstance(value, str):
            return Instant.parse(value)
        return Instant(value) if type(value) is int else value if isinstance(value, Instant) else ABSENT
    except FairleadError:
        return ABSENT


def _as_boolean(value: Any) -> Any:
    return (
        value
        if isinstance(value, bool)
        else {"true": True, "false": False}.get(value, ABSENT)
        if isinstance(value, str)
        else ABSENT
    )


CONVERSIONS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "boolean": _as_boolean,
    "number": _as_number,
    "text": _as_text,
    "time": _as_time,
}


@dataclass(frozen=True, slots=True)
class Converted:
    """The value of an attribute as another kind: `text(price)`, `number(size)`, `time(at)`, `boolean(live)`."""

    kind: str
    name: str

    def of(self, record: Record) -> Any:
        found = record.lookup(self.name)
        return ABSENT if found is ABSENT else CONVERSIONS[self.kind](found)


Expression: TypeAlias = Constant | Copied | Computed | Converted


# -- steps -----------------------------------------------------------------------------------------------------


def _target(name: str) -> str:
    if check_name(name).split(".")[0] in ENVELOPE:
        raise ScopeError(
            f"a mapping cannot change {name!r}",
            hint=f"identity and order depend on {', '.join(sorted(ENVELOPE))}",
        )
    return name


@dataclass(frozen=True, slots=True)
class Assign:
    """Set an attribute."""

    name: str
    expression: Expression

    def __post_init__(self) -> None:
        _target(self.name)

    def on(self, record: Record, _: Notification) -> Record | None:
        value = self.expression.of(record)
        return _removed(record, self.name) if value is ABSENT else _assigned(record, self.name, value)

    def read(self, name: str) -> Expression | None:
        if name == self.name:
            return self.expression
        if name.startswith(f"{self.name}."):
            return _within(self.expression, name[len(self.name) + 1 :])
        return _untouched(name, self.name)


@dataclass(frozen=True, slots=True)
class Rename:
    """The new name has the value that the old one had; the old one is gone."""

    old: str
    new: str

    def __post_init__(self) -> None:
        _target(self.old)
        _target(self.new)
        if f"{self.old}.".startswith(f"{self.new}.") or f"{self.new}.".startswith(f"{self.old}."):
            raise ScopeError(f"{self.old!r} cannot become {self.new!r}: one lies within the other")

    def on(self, record: Record, _: Notification) -> Record | None:
        value = record.lookup(self.old)
        left = _removed(record, self.old)
        return _removed(left, self.new) if value is ABSENT else _assigned(left, self.new, value)

    def read(self, name: str) -> Expression | None:
        if f"{name}.".startswith(f"{self.new}."):
            return Copied(self.old + name[len(self.new) :])
        if f"{name}.".startswith(f"{self.old}."):
            return Constant(ABSENT)
        return _untouched(name, self.old, self.new)


@dataclass(frozen=True, slots=True)
class Drop:
    """An attribute is gone. Of an embedded object nothing is left: a part of it cannot be hidden."""

    name: str

    def __post_init__(self) -> None:
        _target(self.name)

    def on(self, record: Record, _: Notification) -> Record | None:
        return _removed(record, self.name)

    def read(self, name: str) -> Expression | None:
        if f"{name}.".startswith(f"{self.name}."):
            return Constant(ABSENT)
        return _untouched(name, self.name)


@dataclass(frozen=True, slots=True)
class Keep:
    """All attributes but these, and the envelope, are gone."""

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(sorted({check_name(name) for name in self.names})))

    def on(self, record: Record, _: Notification) -> Record | None:
        kept = Record({name: value for name, value in record.items() if name in ENVELOPE})
        for name in self.names:
            value = record.lookup(name)
            if value is not ABSENT:
                kept = _assigned(kept, name, value)
        return kept

    def read(self, name: str) -> Expression | None:
        head = name.split(".", maxsplit=1)[0]
        if head in ENVELOPE or any(f"{name}.".startswith(f"{each}.") for each in self.names):
            return Copied(name)
        related = any(each.startswith(f"{name}.") for each in self.names)
        return None if related else Constant(ABSENT)


@dataclass(frozen=True, slots=True)
class Block:
    """Notifications that match do not pass."""

    filter: Filter

    def on(self, record: Record, notification: Notification) -> Record | None:
        seen = replace(notification, attributes=record, document=None)
        if record is notification.attributes:
            seen = notification
        return None if self.filter.matches(seen) else record

    def read(self, name: str) -> Expression | None:
        return Copied(name)


@dataclass(frozen=True, slots=True)
class Code:
    """A Python function from a notification's attributes to others, or None; `reference` is `module:function`."""

    reference: str
    function: Callable[[Mapping[str, Any]], Mapping[str, Any] | None] | None = field(
        default=None, compare=False
    )

    def on(self, record: Record, notification: Notification) -> Record | None:
        made = self.function or load(self.reference)
        try:
            given = made(dict(record.items()))
            if given is None:
                return None
            changed = Notification.of({k: v for k, v in given.items() if k not in ENVELOPE}).attributes
        except Exception as error:
            raise MappingFailed(f"the mapping {self.reference} failed: {error}") from error
        kept = {name: value for name, value in record.items() if name in ENVELOPE}
        return Record({**kept, **dict(changed.items())})

    def read(self, name: str) -> Expression | None:
        return Copied(name) if name in ENVELOPE else None


Step: TypeAlias = Assign | Rename | Drop | Keep | Block | Code
Steps: TypeAlias = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class EdgeMapping:
    """The mapping of an edge: outward is up the edge, inward is down."""

    outward: Steps = ()
    inward: Steps = ()


IDENTITY: Final = EdgeMapping()


@lru_cache(maxsize=1024)
def load(reference: str) -> Callable[..., Any]:
    """The function that `package.module:function` names."""
    module, _, name = reference.partition(":")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ScopeError(
            f"{reference} cannot be loaded: {error}", hint="a function is named package.module:function"
        ) from error
    if not callable(found):
        raise ScopeError(f"{reference} is no function")
    return found  # type: ignore[no-any-return]  # it is callable; what it returns is checked where it is called


def apply(steps: Steps, notification: Notification) -> Notification | None:
    """The notification after a mapping, or None."""
    record: Record | None = notification.attributes
    for step in steps:
        assert record is not None
        record = step.on(record, notification)
        if record is None:
            return None
    assert record is not None
    if record is notification.attributes:
        return notification
    # A document describes what was published; after a mapping the tree is made of the attributes.
    return replace(notification, attributes=record, document=None)


def inverse(steps: Steps) -> Steps | None:
    """The steps of the other direction, where they follow from these: renaming can be undone, nothing else can."""
    if not all(isinstance(step, Rename) for step in steps):
        return None
    return tuple(Rename(step.new, step.old) for step in reversed(steps) if isinstance(step, Rename))


def _assigned(record: Record, name: str, value: Any) -> Record:
    head, _, rest = name.partition(".")
    if rest:
        inner = record.lookup(head)
        value = _assigned(inner if isinstance(inner, Record) else Record(), rest, value)
    return Record({**dict(record.items()), head: value})


def _removed(record: Record, name: str) -> Record:
    head, _, rest = name.partition(".")
    inner = record.lookup(head)
    if inner is ABSENT:
        return record
    fields = dict(record.items())
    if rest and isinstance(inner, Record):
        fields[head] = _removed(inner, rest)
    elif not rest or kind_of(inner) is Kind.OBJECT:
        del fields[head]
    return Record(fields)


# -- preimages -------------------------------------------------------------------------------------------------


def _untouched(name: str, *changed: str) -> Expression | None:
    """A name that a step does not change; None where it lies beside or around what the step changes."""
    heads = {each.split(".")[0] for each in changed if "." in each}
    around = any(each.startswith(f"{name}.") for each in changed)
    return None if around or name.split(".", maxsplit=1)[0] in heads else Copied(name)


def _within(expression: Expression, rest: str) -> Expression | None:
    """The expression that lies within the value of another one, under a name."""
    match expression:
        case Copied(name):
            return Copied(f"{name}.{rest}")
        case Constant(Record() as record):
            return Constant(record.lookup(rest))
        case Constant(value) if kind_of(value) is Kind.OBJECT:
            return None
    return Constant(ABSENT)


class _Inexact(Exception):
    """No filter says it exactly."""


def pull(steps: Steps, filter: Filter) -> Filter | None:
    """The filter that matches n iff the given one matches what the steps make of n; None where there is none.

    Exact for finite numbers; an infinite one has no value in arithmetic, and no filter can tell it apart.
    """
    pulled = filter
    try:
        for step in reversed(steps):
            if isinstance(step, Code):
                return None
            pulled = _rewritten(pulled, step)
            if isinstance(step, Block):
                pulled = And.of((Not(step.filter), pulled))
    except (_Inexact, FilterError):
        return None
    return pulled


def _rewritten(filter: Filter, step: Step) -> Filter:
    match filter:
        case And(parts):
            return And.of([_rewritten(part, step) for part in parts])
        case Or(parts):
            return Or.of([_rewritten(part, step) for part in parts])
        case Not(part):
            return Not(_rewritten(part, step))
        case Constraint():
            return _constraint(filter, step)
    raise _Inexact


def _known(step: Step, name: str) -> Expression:
    found = step.read(name)
    if found is None:
        raise _Inexact
    return found


def _verdict(constraint: Constraint, value: Any) -> Filter:
    return EVERYTHING if constraint.holds(value) else NOTHING


def _constraint(constraint: Constraint, step: Step) -> Filter:
    match constraint.term:
        case Attribute(name):
            match _known(step, name):
                case Copied(source):
                    return Constraint(Attribute(source), constraint.op, constraint.operand)
                case Constant(value):
                    return _verdict(constraint, value)
                case Computed() as computed:
                    return _numeric(constraint, computed.total)
        case Inspector(name, method):
            match _known(step, name):
                case Copied(source):
                    return Constraint(Inspector(source, method), constraint.op, constraint.operand)
                case Constant(value) if kind_of(value) is not Kind.OBJECT:
                    return _verdict(constraint, ABSENT)
        case Position() | Length():
            match _known(step, "tuple"):
                case Copied("tuple"):
                    return constraint
                case Constant(value) if value is ABSENT:
                    return _verdict(constraint, ABSENT)
        case Polynomial():
            return _polynomial(constraint, step)
    raise _Inexact


def _polynomial(constraint: Constraint, step: Step) -> Filter:
    assert isinstance(constraint.term, Polynomial)
    total = Sum({})
    for names, coefficient in constraint.term.monomials:
        product = Sum.number(coefficient)
        for name in names:
            match _known(step, name):
                case Copied(source):
                    product = product * Sum.attribute(source)
                case Computed() as computed:
                    product = product * computed.total
                case Constant(value) if kind_of(value) is Kind.NUMBER:
                    product = product * Sum.number(number_of(value))
                case Constant(_):
                    return _verdict(constraint, ABSENT)
                case _:
                    raise _Inexact
        total = total + product
    vanished = {n for n in constraint.term.names for n in _names_read(_known(step, n))} - {
        n for names, c in total.coefficients.items() if c for n in names
    }
    if vanished:  # it must still be a number, which the sum no longer says
        raise _Inexact
    return _numeric(constraint, total)


def _names_read(expression: Expression) -> frozenset[str]:
    match expression:
        case Copied(name) | Converted(_, name):
            return frozenset({name})
        case Computed():
            return expression.names
    return frozenset()


def _numeric(constraint: Constraint, total: Sum) -> Filter:
    """A constraint on a number that is computed."""
    if total.constant is not None:
        return _verdict(constraint, decimal_of(total.constant))
    op, operand = constraint.op, constraint.operand
    is_number = kind_of(operand) is Kind.NUMBER if not isinstance(operand, Range | Kind) else False
    match op:
        case Op.EXISTS:
            return _all_numbers(total)
        case Op.ABSENT:
            return Not(_all_numbers(total))
        case Op.IS if operand is Kind.NUMBER:
            return _all_numbers(total)
        case Op.EQ | Op.NE | Op.LT | Op.LE | Op.GT | Op.GE if is_number:
            return compared(total, op, Sum.number(number_of(operand)))
        case Op.IN_RANGE | Op.NOT_IN_RANGE if kind_of(operand.low) is Kind.NUMBER:
            return within(total, op, operand)
        case Op.IN | Op.NOT_IN if isinstance(operand, Multi):
            numbers = Multi(each for each in operand if kind_of(each) is Kind.NUMBER)
            return within(total, op, numbers) if len(numbers) else NOTHING
        case Op.EXTENDED:
            raise _Inexact
    return NOTHING


def _all_numbers(total: Sum) -> Filter:
    """All attributes of a sum are numbers."""
    names = {names for names, coefficient in total.coefficients.items() if coefficient and names}
    if len(names) == 1 and len(next(iter(names))) == 1:
        return Constraint(Attribute(next(iter(names))[0]), Op.IS, Kind.NUMBER)
    return presence(total, Op.EXISTS)


# -- images ----------------------------------------------------------------------------------------------------


def push(steps: Steps, filter: Filter) -> Filter:
    """A filter that matches whatever the steps make of a notification that matches: never too narrow."""
    pushed = filter
    for step in steps:
        match step:
            case Block():
                continue
            case Rename(old, new):
                pushed = _forgotten(pushed, {old, new}, {old: new}, positive=True)
            case Drop(name):
                pushed = _forgotten(pushed, {name}, {}, positive=True)
                pushed = And.of((pushed, Constraint(Attribute(name), Op.ABSENT)))
            case Assign(name, expression):
                pushed = _forgotten(pushed, {name}, {}, positive=True)
                if isinstance(expression, Constant) and kind_of(expression.value) in _NAMEABLE:
                    pushed = And.of((pushed, Constraint(Attribute(name), Op.EQ, expression.value)))
            case Keep(names):
                pushed = _retained(pushed, frozenset(names) | ENVELOPE, positive=True)
            case Code():
                pushed = EVERYTHING
    return pushed


_NAMEABLE: Final = frozenset({Kind.NUMBER, Kind.STRING, Kind.BOOLEAN, Kind.TIME, Kind.BYTES, Kind.NULL})


def _names_in(constraint: Constraint) -> frozenset[str] | None:
    match constraint.term:
        case Attribute(name) | Inspector(name, _):
            return frozenset({name})
        case Position() | Length():
            return frozenset({"tuple"})
        case Polynomial() as term:
            return term.names
    return None


def _forgotten(filter: Filter, changed: set[str], renamed: dict[str, str], *, positive: bool) -> Filter:
    """The filter without what it says about changed names; what is renamed is still said, of the new name."""

    def leaf(constraint: Filter, positive: bool) -> Filter:
        names = _names_in(constraint) if isinstance(constraint, Constraint) else None
        if names is None:
            return EVERYTHING if positive else NOTHING
        if isinstance(constraint, Constraint) and isinstance(constraint.term, Attribute):
            new = renamed.get(constraint.term.name)
            if new is not None:
                return Constraint(Attribute(new), constraint.op, constraint.operand)
        heads = {name.split(".")[0] for name in changed}
        if any(name.split(".")[0] in heads for name in names):
            return EVERYTHING if positive else NOTHING
        return constraint

    return _leaves(filter, leaf, positive)


def _retained(filter: Filter, kept: frozenset[str], *, positive: bool) -> Filter:
    def leaf(constraint: Filter, positive: bool) -> Filter:
        names = _names_in(constraint) if isinstance(constraint, Constraint) else None
        if names is not None and names <= kept:
            return constraint
        return EVERYTHING if positive else NOTHING

    return _leaves(filter, leaf, positive)


def _leaves(filter: Filter, leaf: Callable[[Filter, bool], Filter], positive: bool) -> Filter:
    match filter:
        case And(parts):
            return And.of([_leaves(part, leaf, positive) for part in parts])
        case Or(parts):
            return Or.of([_leaves(part, leaf, positive) for part in parts])
        case Not(part):
            return Not(_leaves(part, leaf, not positive))
        case Constraint() | Tested():
            return leaf(filter, positive)
    return EVERYTHING if positive else NOTHING
