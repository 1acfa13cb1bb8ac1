r"""Event patterns of Amazon EventBridge, as Event Ruler matches them: a JSON object of fields and lists of tests.

    {"source": ["aws.ec2"], "detail": {"price": [{"numeric": [">", 10]}], "state": [{"anything-but": "off"}]}}

All fields have to match, each by one test of its list; `$or` joins objects. The tests:

    "text", 5, true, null    the value; the text of an IP address stands for all its spellings
    prefix, suffix           a string; with {"equals-ignore-case": …} in any case
    equals-ignore-case       a string in any case
    wildcard                 a string in which * is any text, \* a star
    numeric                  [">", 0, "<=", 5]
    cidr                     the address is in the block
    anything-but             any value but these, or but strings with a prefix, a suffix, …
    exists                   the field has a value, or has none anywhere
    exactly                  a string

A field matches by one element where the event has a list there. Where an object lies in a list, all that is
said of its fields is about one element; `exists: false` is about all of them. A list in a list is opened up.
Numbers are compared as numbers. Fields with objects in them have no value of their own: `exists` is about
leaves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from ipaddress import ip_address
from itertools import product
from typing import TYPE_CHECKING, Any, Final

from fairlead.dialects.dialect import make_callable, translating, written
from fairlead.dialects.texts import described, escaped, ignoring_case
from fairlead.dialects.writing import Glob, Wildcard, constrained, glob_of
from fairlead.errors import TranslationRefused, ValueRefused
from fairlead.filters.constraint import Constraint, Op, Range
from fairlead.filters.extensions.elements import ELEMENT, SomeFilter
from fairlead.filters.filter import And, Filter, Not, Or, Tested
from fairlead.filters.patterns import RegularExpression
from fairlead.filters.regexes import BLOCK
from fairlead.filters.terms import Attribute
from fairlead.model import Kind, Multi
from fairlead.model.values import check_name

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["read", "write"]

ALTERNATIVES_MAX: Final = 1_000
DEPTH_MAX: Final = 8
"""The most levels of fields: each may be a list or not, so the filter doubles with it."""
_OR: Final = "$or"
_LISTS: Final = (Kind.SET, Kind.ARRAY)


def read(text: str) -> Filter:
    """The filter of an event pattern."""
    try:
        pattern = json.loads(text, parse_float=Decimal, object_pairs_hook=_distinct)
    except json.JSONDecodeError as error:
        raise TranslationRefused.at(text, error.pos, f"not JSON: {error.msg}") from None
    except (RecursionError, ValueError) as error:
        raise TranslationRefused(f"not JSON: {error}") from None
    if not isinstance(pattern, dict):
        raise TranslationRefused.at(text, 0, "an event pattern is a JSON object")
    with translating("the pattern"):
        return Or.of(_rule(leaves) for leaves in _alternatives(pattern, ()))


def write(filter: Filter) -> str:
    """A pattern with the same meaning: it accepts lists as well, so a plain constraint has none."""
    pattern = _written(filter)
    shown = [] if pattern is None else [json.dumps(pattern, ensure_ascii=False)]
    return written(filter, shown, read, "an event pattern")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is twice in one object")
    return found


# -- from the pattern to fields and their tests ----------------------------------------------------------

_Path = tuple[str, ...]
_Test = Callable[[str], Filter]
"""The filter that the value under a name, which is no list, passes a test."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A field with the tests of which one has to pass; without tests, the field has to have no value anywhere."""

    path: _Path
    values: tuple[Any, ...] = ()
    """Simple values that the field may have."""
    tests: tuple[_Test, ...] = ()

    @property
    def is_absence(self) -> bool:
        return not self.values and not self.tests


def _alternatives(pattern: Mapping[str, Any], path: _Path) -> list[tuple[_Leaf, ...]]:
    """The ways to match an object: of each, all leaves have to match."""
    if not pattern:
        raise _refused(path, "empty objects are not allowed")
    if len(path) > DEPTH_MAX:
        raise _refused(path, f"fields nested more than {DEPTH_MAX} levels deep")
    choices = []
    for name, given in pattern.items():
        if name == _OR:
            choices.append(_either(given, (*path, _OR), path))
            continue
        below = (*path, *_steps(name, path))
        if isinstance(given, dict):
            choices.append(_alternatives(given, below))
        elif isinstance(given, list):
            choices.append([(leaf,) for leaf in _leaves(given, below)])
        else:
            raise _refused(below, "a field has an object or a list of tests")
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > ALTERNATIVES_MAX:
        raise _refused(path, f"{_OR} with more than {ALTERNATIVES_MAX:,} combinations")
    joined = [tuple(leaf for part in parts for leaf in part) for parts in product(*choices)]
    for leaves in joined:
        paths = [leaf.path for leaf in leaves]
        for one in paths:
            if paths.count(one) > 1:
                raise _refused(one, f"the field is tested outside of {_OR} and within it")
            if any(one != other and other[: len(one)] == one for other in paths):
                raise _refused(one, "the field is tested, and so are fields within it")
    return joined


def _either(given: Any, shown: _Path, path: _Path) -> list[tuple[_Leaf, ...]]:
    if not isinstance(given, list) or len(given) < 2 or not all(isinstance(each, dict) for each in given):
        raise _refused(shown, f"{_OR} has a list of two objects or more")
    return [alternative for each in given for alternative in _alternatives(each, path)]


def _steps(name: str, path: _Path) -> list[str]:
    try:
        return check_name(name).split(".")
    except ValueRefused as error:
        raise _refused((*path, name), f"no attribute can have this name: {error}") from None


def _leaves(given: list[Any], path: _Path) -> list[_Leaf]:
    if not given:
        raise _refused(path, "empty lists of tests are not allowed")
    values: list[Any] = []
    tests: list[_Test] = []
    absent = False
    for number, each in enumerate(given):
        here = (*path[:-1], f"{path[-1]}[{number}]")
        match each:
            case {"exists": False} if len(each) == 1:
                absent = True
            case dict():
                tests.append(_test(each, here))
            case list():
                raise _refused(here, "a list within a list of tests")
            case str() if _is_address(each):
                tests.append(_cidr(each))
            case _:
                values.append(each)
    if path == ("time",) and (values or any(test is not _is_leaf for test in tests)):
        raise _refused(path, "time is an instant here, not a text", hint='"time": [{"exists": true}]')
    found = [_Leaf(path, tuple(values), tuple(tests))] if values or tests else []
    return [*found, _Leaf(path)] if absent else found


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return "%" not in text


# -- tests -----------------------------------------------------------------------------------------------


def _test(given: Mapping[str, Any], path: _Path) -> _Test:
    if len(given) != 1:
        raise _refused(path, "a test is an object with one name")
    [(name, operand)] = given.items()
    reader = _TESTS.get(name)
    if reader is None:
        raise _refused(path, f"no test is named {name!r}", hint=f"there are {', '.join(_TESTS)}")
    here = (*path[:-1], f"{path[-1]}.{name}")
    return reader(operand, here)


def _constraint(op: Op, operand: Any) -> _Test:
    return lambda name: Constraint(Attribute(name), op, operand)


def _like(expression: str) -> _Test:
    return lambda name: described(name, (expression,))


def _cidr(block: str) -> _Test:
    return _like(f"{BLOCK}{block}")


def _text(given: Any, path: _Path) -> str:
    if not isinstance(given, str):
        raise _refused(path, f"takes a string, not {json.dumps(given, default=str)}")
    return given


def _affix(op: Op) -> Callable[[Any, _Path], _Test]:
    def read(given: Any, path: _Path) -> _Test:
        if isinstance(given, dict):
            if list(given) != [_IGNORING]:
                raise _refused(path, f"takes a string or {_IGNORING}")
            text = _text(given[_IGNORING], path)
            before, behind = ("", ".*") if op is Op.PREFIX else (".*", "")
            return _like(ignoring_case(before, text, behind))
        return _constraint(op, _text(given, path))

    return read


_IGNORING: Final = "equals-ignore-case"


def _ignoring_case(given: Any, path: _Path) -> _Test:
    return _like(ignoring_case("", _text(given, path)))


def _wildcard(given: Any, path: _Path) -> _Test:
    text = _text(given, path)
    parts: list[str] = []
    at = 0
    while at < len(text):
        sign = text[at]
        if sign == "\\":
            at += 1
            if text[at : at + 1] not in ("*", "\\"):
                raise _refused(path, f"the escape at character {at} of {text!r}: only \\* and \\\\ are")
            parts.append(escaped(text[at]))
        elif sign == "*":
            if parts[-1:] == [".*"]:
                raise _refused(path, f"two wildcards in a row at character {at + 1} of {text!r}")
            parts.append(".*")
        else:
            parts.append(escaped(sign))
        at += 1
    return _like("".join(parts))


_COMPARISONS: Final = {"=": Op.EQ, "<": Op.LT, "<=": Op.LE, ">": Op.GT, ">=": Op.GE}


def _numeric(given: Any, path: _Path) -> _Test:
    signs, numbers = (given[::2], given[1::2]) if isinstance(given, list) else ([], [])
    if not signs or len(signs) != len(numbers) or not all(map(_is_number, numbers)):
        raise _refused(path, 'takes signs and numbers, such as [">", 0, "<=", 5]')
    for sign in signs:
        if not isinstance(sign, str) or sign not in _COMPARISONS:
            raise _refused(path, f"no comparison is written {sign!r}")
    if len(signs) == 1:
        return _constraint(_COMPARISONS[signs[0]], numbers[0])
    if len(signs) > 2 or signs[0] not in (">", ">=") or signs[1] not in ("<", "<="):
        raise _refused(path, "a range has a lower bound, then an upper one")
    if numbers[0] >= numbers[1]:
        raise _refused(path, "the lower bound is less than the upper one")
    return _constraint(Op.IN_RANGE, Range(numbers[0], numbers[1], signs[0] == ">=", signs[1] == "<="))


def _is_number(given: Any) -> bool:
    return isinstance(given, int | Decimal) and not isinstance(given, bool)


def _is_leaf(name: str) -> Filter:
    """The field has a value of its own: it is there, and is neither an object nor a list."""
    return And.of(
        (
            Constraint(Attribute(name), Op.EXISTS),
            *(Not(Constraint(Attribute(name), Op.IS, kind)) for kind in (Kind.RECORD, *_LISTS)),
        )
    )


def _exists(given: Any, path: _Path) -> _Test:
    if given is not True:
        raise _refused(path, "takes true or false")
    return _is_leaf


def _exactly(given: Any, path: _Path) -> _Test:
    return _constraint(Op.EQ, _text(given, path))


def _anything_but(given: Any, path: _Path) -> _Test:
    if isinstance(given, dict):
        if len(given) != 1 or next(iter(given)) not in _NEGATED:
            raise _refused(path, f"takes values, or one of {', '.join(_NEGATED)}")
        [(name, operand)] = given.items()
        here = (*path[:-1], f"{path[-1]}.{name}")
        texts = operand if isinstance(operand, list) else [operand]
        if not texts:
            raise _refused(here, "takes a string or a list of them")
        if any(_text(text, here) == "" and name in ("prefix", "suffix") for text in texts):
            raise _refused(here, "is not empty")
        return _but([_TESTS[name](text, here) for text in texts])
    values = given if isinstance(given, list) else [given]
    if not values or not (
        all(isinstance(each, str) for each in values) or all(_is_number(each) for each in values)
    ):
        raise _refused(path, "takes strings or numbers, and not both")
    return _but([_constraint(Op.IN, Multi(values))])


def _but(tests: list[_Test]) -> _Test:
    return lambda name: And.of((_is_leaf(name), *(Not(test(name)) for test in tests)))


_NEGATED: Final = ("prefix", "suffix", _IGNORING, "wildcard")
_TESTS: Final[dict[str, Callable[[Any, _Path], _Test]]] = {
    "anything-but": _anything_but,
    "cidr": lambda given, path: _block(_text(given, path), path),
    _IGNORING: _ignoring_case,
    "exactly": _exactly,
    "exists": _exists,
    "numeric": _numeric,
    "prefix": _affix(Op.PREFIX),
    "suffix": _affix(Op.SUFFIX),
    "wildcard": _wildcard,
}


def _block(text: str, path: _Path) -> _Test:
    address, slash, bits = text.partition("/")
    if not slash or not _is_address(address) or not bits.isdecimal():
        raise _refused(path, "takes a block of addresses such as 10.0.0.0/24")
    if int(bits) >= (128 if ":" in address else 32):
        raise _refused(path, "takes a block of more than one address")
    return _cidr(f"{address}/{int(bits)}")


# -- from fields to filters ------------------------------------------------------------------------------


@dataclass(slots=True)
class _Node:
    """The fields below a field: those with tests, and those with fields."""

    leaves: dict[str, _Leaf] = field(default_factory=dict)
    nodes: dict[str, _Node] = field(default_factory=dict)


def _rule(leaves: Iterable[_Leaf]) -> Filter:
    root = _Node()
    absences: list[Filter] = []
    for leaf in leaves:
        if leaf.is_absence:
            absences.append(Not(_anywhere("", leaf.path)))
            continue
        node = root
        for step in leaf.path[:-1]:
            node = node.nodes.setdefault(step, _Node())
        node.leaves[leaf.path[-1]] = leaf
    return And.of((*_fields(root, ""), *absences))


def _fields(node: _Node, holder: str) -> Iterator[Filter]:
    for name, leaf in node.leaves.items():
        yield _passes(leaf, f"{holder}{name}")
    for name, below in node.nodes.items():
        path = f"{holder}{name}"
        one = And.of(_fields(below, f"{ELEMENT}."))
        yield Or.of((And.of(_fields(below, f"{path}.")), SomeFilter.filter(path, one)))


def _passes(leaf: _Leaf, name: str) -> Filter:
    """The value under a name passes a test, or an element of the list there does."""
    term = Attribute(name)
    tests: list[Filter] = []
    elements: list[Filter] = []
    if leaf.values:
        values = Multi(leaf.values)
        tests += [_among(name, leaf.values), Constraint(term, Op.OVERLAPS, values)]
        is_array = Constraint(term, Op.IS, Kind.ARRAY)
        tests.append(And.of((is_array, SomeFilter.filter(name, _among(ELEMENT, leaf.values)))))
    for test in leaf.tests:
        tests.append(test(name))
        elements.append(test(ELEMENT))
    if elements:
        tests.append(SomeFilter.filter(name, Or.of(elements)))
    return Or.of(tests)


def _among(name: str, values: tuple[Any, ...]) -> Constraint:
    if len(values) == 1:
        return Constraint(Attribute(name), Op.EQ, values[0])
    return Constraint(Attribute(name), Op.IN, Multi(values))


def _anywhere(holder: str, path: _Path) -> Filter:
    """The field has a value in some element, whichever."""
    name = f"{holder}{path[0]}"
    if len(path) == 1:
        return Or.of((_is_leaf(name), SomeFilter.filter(name, _is_leaf(ELEMENT))))
    below = path[1:]
    return Or.of((_anywhere(f"{name}.", below), SomeFilter.filter(name, _anywhere(f"{ELEMENT}.", below))))


# -- from filters to patterns ----------------------------------------------------------------------------


def _written(filter: Filter) -> dict[str, Any] | None:
    """The pattern of what a filter says where there are no lists; None where there is none."""
    field = _field_of(filter)
    if field is not None:
        name, test = field
        return _nested(name, [test])
    match filter:
        case And(parts):
            found: dict[str, Any] = {}
            for part in parts:
                one = _written(part)
                if one is None or not _join(found, one):
                    return None
            return found
        case Or(parts):
            plain = [part for part in parts if not _is_about_lists(part)]
            fields = [_field_of(part) for part in plain]
            if fields and len({each and each[0] for each in fields}) == 1 and fields[0] is not None:
                return _nested(fields[0][0], [each[1] for each in fields if each is not None])
            return _either_of(plain)
    return None


def _either_of(parts: list[Filter]) -> dict[str, Any] | None:
    """One of several patterns; tests of one field that follow one another are one."""
    several: list[dict[str, Any]] = []
    before: str | None = None
    for part in parts:
        one = _written(part)
        if one is None:
            return None
        field = _field_of(part)
        if field is not None and field[0] == before:
            _tests_in(several[-1]).append(field[1])
            continue
        before = field and field[0]
        several.append(one)
    return several[0] if len(several) == 1 else {_OR: several} if several else None


def _tests_in(pattern: dict[str, Any]) -> list[Any]:
    """The tests of a pattern with one field."""
    [inner] = pattern.values()
    return inner if isinstance(inner, list) else _tests_in(inner)


def _nested(name: str, tests: list[Any]) -> dict[str, Any]:
    first, _, rest = name.partition(".")
    flat = [each for test in tests for each in (test.values if isinstance(test, _Values) else [test])]
    return {first: _nested(rest, flat) if rest else flat}


def _join(found: dict[str, Any], other: dict[str, Any]) -> bool:
    """Add the fields of a pattern to another one; false where both test one field."""
    for name, given in other.items():
        here = found.setdefault(name, given)
        if here is not given and not (
            isinstance(here, dict) and isinstance(given, dict) and _join(here, given)
        ):
            return False
    return True


def _is_about_lists(part: Filter) -> bool:
    """Whether a part says of a list what another one says of a value."""
    match part:
        case Constraint(op=Op.OVERLAPS) | Constraint(op=Op.IS, operand=Kind.ARRAY):
            return True
        case Tested(test=SomeFilter()):
            return True
        case And(parts):
            return any(map(_is_about_lists, parts))
    return False


@dataclass(frozen=True, slots=True)
class _Values:
    """Several tests at once: the values of a list."""

    values: tuple[Any, ...]


def _field_of(filter: Filter) -> tuple[str, Any] | None:
    """The field that a filter is about, and the test of it; None for other filters."""
    match filter:
        case Not(inner) if (field := _field_of(_of_values(inner))) and field[1] == {"exists": True}:
            return field[0], {"exists": False}
        case Constraint(term=Attribute(name)):
            test = _test_of(filter)
            return None if test is None else (name, test)
        case And(parts) if (holder := constrained(parts[0])) and And.of(parts[:4]) == _is_leaf(holder):
            negated = [each.part for each in parts[4:] if isinstance(each, Not)]
            tests = [_test_of(each) for each in negated if constrained(each) == holder]
            if len(tests) < len(parts) - 4:
                return None
            return (holder, {"exists": True}) if not tests else _but_of(holder, tests)
    return None


def _of_values(filter: Filter) -> Filter:
    """The part of a filter that is not about lists."""
    if not isinstance(filter, Or):
        return filter
    plain = [part for part in filter.parts if not _is_about_lists(part)]
    return plain[0] if len(plain) == 1 else filter


def _but_of(name: str, tests: list[Any]) -> tuple[str, Any] | None:
    """The test that none of some tests passes."""
    match tests:
        case [_Values(values)]:
            return name, {"anything-but": list(values)}
        case [dict() as first, *_] if all(isinstance(each, dict) and {*each} == {*first} for each in tests):
            [kind] = first
            operands = [each[kind] for each in tests]
            return name, {"anything-but": {kind: operands if len(operands) > 1 else operands[0]}}
    return None


def _test_of(filter: Filter) -> Any:
    """The test that a constraint is; None where it is none."""
    if not isinstance(filter, Constraint):
        return None
    match filter.op, filter.operand:
        case Op.EQ, None:
            return _Values((None,))
        case Op.EQ, value:
            return _plain(value)
        case Op.IN, values:
            plain = tuple(map(_plain, values))
            return None if any(each is None for each in plain) else _Values(plain)
        case (Op.LT | Op.LE | Op.GT | Op.GE) as op, operand if _is_number(operand):
            return {"numeric": [op.value, _plain(operand)]}
        case Op.IN_RANGE, Range(low, high, low_closed, high_closed) if _is_number(low):
            signs = ">=" if low_closed else ">", "<=" if high_closed else "<"
            return {"numeric": [signs[0], _plain(low), signs[1], _plain(high)]}
        case (Op.PREFIX | Op.SUFFIX) as op, str(text):
            return {op.value: text}
        case Op.LIKE, RegularExpression(text=expression):
            if expression.startswith(BLOCK):
                block = expression.removeprefix(BLOCK)
                return {"cidr": block} if "/" in block else block
            glob = glob_of(expression)
            return None if glob is None else _glob(glob)
    return None


def _plain(value: Any) -> Any:
    """A simple value as JSON has it; None where it has no such text."""
    if isinstance(value, Decimal):
        near = float(value)
        return near if Decimal(repr(near)) == value else None
    return value if isinstance(value, str | bool | int | float) else None


def _glob(glob: Glob) -> Any:
    match glob.parts:
        case _ if Wildcard.ONE in glob.parts:
            return None
        case _ if not glob.ignores_case:
            signs = (
                "*" if isinstance(part, Wildcard) else re.sub(r"[*\\]", r"\\\g<0>", part)
                for part in glob.parts
            )
            return {"wildcard": "".join(signs)}
        case (str(text), Wildcard.ANY):
            return {"prefix": {_IGNORING: text}}
        case (Wildcard.ANY, str(text)):
            return {"suffix": {_IGNORING: text}}
    return None if glob.text is None else {_IGNORING: glob.text}


def _refused(path: _Path, problem: str, hint: str | None = None) -> TranslationRefused:
    return TranslationRefused.within(".".join(path) or "the top", problem, hint=hint)


make_callable(__name__)
