"""Why a filter matches a notification, or which constraint fails.

    explain(F, n).holds    iff    F matches n

An explanation is a tree of the same shape as the filter. Each leaf says in a sentence what the notification
has and what was asked: `price is 9, not > 10`; `symbol is absent`; `price is the string "12", and > 10
compares numbers`. The verdict names the leaves that decided.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from fairlead.errors import ValueRefused
from fairlead.filters.constraint import Constraint, Extended, Op, Range
from fairlead.filters.filter import EVERYTHING, NOTHING, And, Filter, Not, Or, leaves
from fairlead.filters.paths import Selection
from fairlead.filters.schema import Schema
from fairlead.filters.simplify import simplify
from fairlead.filters.terms import Attribute, Inspector, Length, Polynomial, Term
from fairlead.model import ABSENT, Kind, Multi, Notification, Record, Rectangle, kind_of, number_of
from fairlead.model.encoding import encode

__all__ = ["Explanation", "explain", "never_matches"]

MARKS: Final = {"utf": ("✓", "✗"), "ascii": ("+", "-")}
JOINS: Final = {"all": "all of", "any": "one of", "not": "not"}
REASONS_SHOWN: Final = 3
LENGTH_SHOWN: Final = 60
"""Values and filters longer than this are cut in sentences; the JSON form has them whole."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Whether a filter holds for a notification, and why."""

    filter: Filter
    holds: bool
    join: Literal["all", "any", "not"] | None = None
    """The connective of the parts; None for a leaf."""
    parts: tuple[Explanation, ...] = ()
    term: Term | None = None
    value: Any = ABSENT
    """The value that the notification gives to a leaf's term."""
    sentence: str = ""

    @property
    def verdict(self) -> str:
        """One line: whether it matches, and the constraints that decided."""
        reasons = [leaf.sentence for leaf in self.deciding()]
        shown = "; ".join(reasons[:REASONS_SHOWN])
        if len(reasons) > REASONS_SHOWN:
            shown += f"; and {len(reasons) - REASONS_SHOWN} more"
        verdict = "matches" if self.holds else "does not match"
        return f"{verdict}: {shown}" if shown else verdict

    def deciding(self) -> Iterator[Explanation]:
        """The leaves that alone make it so: the first that fails in `and`, the first that holds in `or`."""
        match self.join:
            case None:
                yield self
            case "all" if not self.holds:
                yield from next(part for part in self.parts if not part.holds).deciding()
            case "any" if self.holds:
                yield from next(part for part in self.parts if part.holds).deciding()
            case _:
                for part in self.parts:
                    yield from part.deciding()

    def lines(self, *, ascii: bool = False, depth: int = 0) -> Iterator[str]:
        """The tree as indented text, ✓ and ✗ in front."""
        yes, no = MARKS["ascii" if ascii else "utf"]
        head = f"{'  ' * depth}{yes if self.holds else no}"
        if self.join is None:
            text = str(self.filter)
            yield f"{head} {text}" if text == self.sentence else f"{head} {text}: {self.sentence}"
            return
        empty = {"all": " (no constraint)", "any": " (nothing can match)"}.get(self.join, "")
        yield f"{head} {JOINS[self.join]}{'' if self.parts else empty}"
        for part in self.parts:
            yield from part.lines(ascii=ascii, depth=depth + 1)

    def __str__(self) -> str:
        return "\n".join((self.verdict, *self.lines(depth=1)))

    def to_json(self) -> dict[str, Any]:
        """The tree as JSON has it."""
        if self.join is not None:
            return {"holds": self.holds, self.join: [part.to_json() for part in self.parts]}
        shown: dict[str, Any] = {"holds": self.holds, "constraint": str(self.filter)}
        if self.term is not None:
            shown["term"] = _named(self.term)
        if self.value is not ABSENT:
            shown["value"] = _jsonable(self.value)
        return {**shown, "sentence": self.sentence}


def explain(filter: Filter, notification: Notification) -> Explanation:
    """Why a filter matches a notification, or which constraint fails."""
    match filter:
        case And(parts):
            found = tuple(explain(part, notification) for part in parts)
            return Explanation(filter, all(part.holds for part in found), "all", found)
        case Or(parts):
            found = tuple(explain(part, notification) for part in parts)
            return Explanation(filter, any(part.holds for part in found), "any", found)
        case Not(part):
            inner = explain(part, notification)
            return Explanation(filter, not inner.holds, "not", (inner,))
        case Constraint():
            value = filter.term.value(notification)
            holds = filter.holds(value)
            return Explanation(
                filter,
                holds,
                term=filter.term,
                value=value,
                sentence=_sentence(filter, value, holds, notification),
            )
        case _:  # a filter object: only itself knows why
            holds = filter.matches(notification)
            verdict = "holds" if holds else "does not hold"
            return Explanation(filter, holds, sentence=f"{_cut(str(filter))} {verdict}")


def never_matches(filter: Filter, schema: Schema | None = None) -> str | None:
    """The remark that no notification can match a filter, with the constraints that never hold; None: some can."""
    if simplify(filter, schema) != NOTHING:
        return None
    remark = "no notification can match it"
    never = dict.fromkeys(str(leaf) for leaf in leaves(filter) if simplify(leaf, schema) == NOTHING)
    return f"{remark}: {', '.join(never)} never holds" if never and str(filter) not in never else remark


# -- sentences ---------------------------------------------------------------------------------------------

# How "price is 9, ..." goes on where the constraint holds, and where it fails; {} is the operand.
PHRASES: Final[dict[Op, tuple[str, str]]] = {
    Op.EQ: ("as required", "not {}"),
    Op.NE: ("not {}", "which is excluded"),
    Op.LT: ("which is < {}", "not < {}"),
    Op.LE: ("which is <= {}", "not <= {}"),
    Op.GT: ("which is > {}", "not > {}"),
    Op.GE: ("which is >= {}", "not >= {}"),
    Op.IN: ("in {}", "not in {}"),
    Op.NOT_IN: ("not in {}", "in {}"),
    Op.IN_RANGE: ("in {}", "not in {}"),
    Op.NOT_IN_RANGE: ("not in {}", "in {}"),
    Op.PREFIX: ("with prefix {}", "without prefix {}"),
    Op.SUFFIX: ("with suffix {}", "without suffix {}"),
    Op.SUBSTRING: ("with substring {}", "without substring {}"),
    Op.LIKE: ("matching {}", "not matching {}"),
    Op.MATCHES: ("matching {}", "not matching {}"),
    Op.IS: ("which is {}", "not {}"),
    Op.SUBSET: ("a subset of {}", "no subset of {}"),
    Op.SUPERSET: ("a superset of {}", "no superset of {}"),
    Op.CONTAINS: ("containing {}", "not containing {}"),
    Op.LACKS: ("lacking {}", "containing {}"),
    Op.DISJOINT: ("disjoint from {}", "not disjoint from {}"),
    Op.OVERLAPS: ("overlapping {}", "not overlapping {}"),
    Op.EXTENDED: ("which satisfies {}", "which does not satisfy {}"),
}
SPELLED: Final = {Op.IN_RANGE: "in", Op.NOT_IN_RANGE: "not in"}
COMPARING: Final = frozenset(
    {
        *(Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE),
        *(Op.IN, Op.NOT_IN, Op.IN_RANGE, Op.NOT_IN_RANGE),
    }
)
PLURALS: Final = {Kind.BYTES: "bytes", Kind.NULL: "null", Kind.BOOLEAN: "booleans"}


def _sentence(constraint: Constraint, value: Any, holds: bool, notification: Notification) -> str:
    if isinstance(constraint.term, Selection):
        return _selected(constraint, constraint.term, value, notification)
    subject = _named(constraint.term)
    if value is ABSENT:
        return _absence(constraint.term, subject, notification)
    if constraint.op in (Op.EXISTS, Op.ABSENT):
        return f"{subject} exists: {_shown(value)}"
    wanted = _kinds_wanted(constraint)
    if not holds and wanted and kind_of(value) not in wanted:
        verb = "compares" if constraint.op in COMPARING else "looks at"
        named = " and ".join(sorted(PLURALS.get(kind, f"{kind.value}s") for kind in wanted))
        return f"{subject} is {_with_kind(value)}, and {_without_term(constraint)} {verb} {named}"
    phrase = PHRASES[constraint.op][0 if holds else 1].format(_operand(constraint))
    return f"{subject} is {_shown(value)}, {phrase}"


def _named(term: Term) -> str:
    match term:
        case Length():
            return "the tuple's length"
        case Selection():
            return str(term.path)
        case _:
            return str(term)


def _selected(constraint: Constraint, term: Selection, count: int, notification: Notification) -> str:
    """The number of elements that a path filter selects; where none is as required, why the first is not."""
    counted = f"{count or 'no'} element{'' if count == 1 else 's'}"
    if constraint.holds(count) or count or term.misses or term.condition == EVERYTHING:
        verdict = (
            "" if constraint.holds(count) == bool(count) else f", and {_cut(str(constraint))} is required"
        )
        return f"{term.path} selects {counted}{verdict}"
    elements = list(term.path.select(notification.tree))
    if not elements:
        return f"{term.path} selects {counted}"
    reason = explain(term.condition, Notification(Record(elements[0].attributes))).verdict
    return f"{term.path} selects {len(elements)}, none as required; the first {reason}"


def _absence(term: Term, subject: str, notification: Notification) -> str:
    """That a term has no value, and where the reason lies further up."""
    match term:
        case Attribute(name):
            steps = name.split(".")
            for depth in range(1, len(steps)):
                parent = ".".join(steps[:depth])
                found = notification.get(parent)
                if found is ABSENT:
                    return f"{subject} is absent: there is no {parent}"
                if kind_of(found) not in (Kind.RECORD, Kind.OBJECT):
                    return f"{subject} is absent: {parent} is {_with_kind(found)}"
        case Polynomial():
            for name in sorted(term.names):
                found = notification.get(name)
                if found is ABSENT:
                    return f"{subject} has no value: {name} is absent"
                if kind_of(found) is not Kind.NUMBER:
                    return f"{subject} has no value: {name} is {_with_kind(found)}"
            return f"{subject} has no value"
        case Inspector(name):
            holder = notification.get(name)
            if holder is ABSENT:
                return f"{subject} has no answer: {name} is absent"
            return f"{subject} has no answer: {name} is {_with_kind(holder)}"
    return f"{subject} is absent"


def _kinds_wanted(constraint: Constraint) -> frozenset[Kind]:
    """The kinds of value that can satisfy a constraint; empty where any might."""
    operand = constraint.operand
    match constraint.op, operand:
        case ((Op.EXISTS | Op.ABSENT | Op.EXTENDED), _):
            return frozenset()
        case Op.IS, Kind():
            return frozenset()
        case ((Op.IS | Op.MATCHES | Op.LIKE), _):
            return frozenset({Kind.STRING})
        case ((Op.IN_RANGE | Op.NOT_IN_RANGE), Range(low=low)):
            return frozenset({kind_of(low)})
        case ((Op.IN | Op.NOT_IN), Rectangle()):
            return frozenset({Kind.POINT})
        case ((Op.IN | Op.NOT_IN), Multi()):
            return frozenset(kind_of(element) for element in operand)
        case ((Op.CONTAINS | Op.LACKS), _):
            kind = kind_of(operand)
            if kind is Kind.POINT:
                return frozenset({Kind.RECTANGLE})
            return frozenset({Kind.SET, Kind.INTERVAL} if kind is Kind.NUMBER else {Kind.SET})
        case _:
            return frozenset({kind_of(operand)})


def _without_term(constraint: Constraint) -> str:
    """The constraint without its term: `> 10`."""
    return _cut(str(constraint).removeprefix(f"{constraint.term} "))


def _operand(constraint: Constraint) -> str:
    """The constraint without its term and operator: `10`."""
    text = str(constraint).removeprefix(f"{constraint.term} ")
    if isinstance(constraint.operand, Extended):
        return _cut(text)
    return _cut(text.removeprefix(f"{SPELLED.get(constraint.op, constraint.op.value)} "))


def _with_kind(value: Any) -> str:
    kind = kind_of(value)
    if kind in (Kind.NULL, Kind.NAN, Kind.RECORD, Kind.ARRAY, Kind.OBJECT):
        return _shown(value)
    return f"the {kind.value} {_shown(value)}"


def _shown(value: Any) -> str:
    """A value of a notification as a reader wants to see it, not too long."""
    return _cut(_spelled(value))


def _spelled(value: Any) -> str:
    match kind_of(value):
        case Kind.NULL:
            return "null"
        case Kind.NAN:
            return "NaN"
        case Kind.BOOLEAN:
            return "true" if value else "false"
        case Kind.NUMBER:
            return str(number_of(value))
        case Kind.STRING:
            return json.dumps(value[: LENGTH_SHOWN + 1], ensure_ascii=False)
        case Kind.TIME:
            return f't"{value}"'
        case Kind.SET:
            return f"{{{', '.join(map(_spelled, value))}}}"
        case Kind.TUPLE:
            return f"({', '.join(map(_spelled, value))})"
        case Kind.RECORD:
            return "a record"
        case Kind.ARRAY:
            return "an array"
        case Kind.OBJECT:
            return f"an object of class {type(value).__name__}"
        case _:
            return repr(value)


def _cut(text: str) -> str:
    return text if len(text) <= LENGTH_SHOWN else f"{text[: LENGTH_SHOWN - 1]}…"


def _jsonable(value: Any) -> Any:
    try:
        return encode(value)
    except ValueRefused:  # a Python object
        return _shown(value)
