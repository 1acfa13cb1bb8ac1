r"""Sigma rules (specification 2.0), in YAML: the detection of a rule as a filter.

    detection:
      selection:
        Image|endswith: '\cmd.exe'
        CommandLine|contains|all: [whoami, /priv]
      filter:
        User: SYSTEM
      condition: selection and not filter

A map of fields is an `and`, a list of maps or values an `or`. A string matches in any case; in it, * is any
text and ? any character, unless a backslash stands before them. A number matches the number, true and false
the Booleans, null a field that is null or absent. A list of strings without a field has keywords, each of
which is looked for in all values of the event. Conditions have `and`, `or`, `not`, parentheses, `1 of`, `all
of`, `them` and names with *.

    contains startswith endswith all cased    lt lte gt gte exists cidr
    re with i and s                           windash base64 base64offset wide utf16 utf16le utf16be
    fieldref with cased

A field is the attribute of that name, and a value is compared with the field's value itself, not with the
elements of a list. Refused by name are other modifiers, aggregations behind a |, and rules that are not about
single events.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from fairlead.dialects.dialect import make_callable, translating, written
from fairlead.dialects.objects import Keywords
from fairlead.dialects.texts import described, escaped, searched
from fairlead.dialects.writing import Glob, Wildcard, glob_of
from fairlead.errors import FairleadError, NotInstalled, TranslationRefused
from fairlead.filters.constraint import Constraint, Op, Range
from fairlead.filters.extensions.comparing import ComparisonFilter
from fairlead.filters.filter import And, Filter, Not, Or, Tested
from fairlead.filters.patterns import RegularExpression
from fairlead.filters.regexes import BLOCK, IGNORING_CASE
from fairlead.filters.terms import Attribute
from fairlead.model import Array, Kind, Multi, Notification, Record, Tuple, kind_of, number_of
from fairlead.model.values import check_name

__all__ = ["documents", "evaluator", "filter_of", "read", "write"]

_OTHER_KEYS: Final = ("condition", "timeframe")


def read(text: str) -> Filter:
    """The filter of a rule."""
    found = documents(text)
    if any("correlation" in each for each in found):
        raise _refused(
            "correlation",
            "a correlation is about several events: it is a pattern, not a filter",
            hint="fairlead pattern translate --from sigma",
        )
    if len(found) > 1:
        raise _refused("---", "a text with several rules: each is a filter of its own")
    return filter_of(found[0])


def filter_of(rule: Mapping[str, Any]) -> Filter:
    """The filter of a rule that was read as YAML."""
    detection = rule.get("detection", rule if "condition" in rule else None)
    if not isinstance(detection, Mapping):
        raise _refused("detection", "a rule has a detection with selections and a condition")
    if "timeframe" in detection:
        raise _refused("detection.timeframe", "a timeframe is about several events")
    conditions = detection.get("condition")
    if conditions is None:
        raise _refused("detection", "a detection has a condition")
    with translating("the rule"):
        return Or.of(
            _Condition(str(each), detection).filter()
            for each in (conditions if isinstance(conditions, list) else [conditions])
        )


def write(filter: Filter) -> str:
    """A rule with the same meaning: a title, and a detection with a selection for each test."""
    rule = _Rule()
    rule.detection["condition"] = rule.condition(filter, alone=True)
    shown = {"title": "A filter", "logsource": {"category": "any"}, "detection": rule.detection}
    text = _yaml().safe_dump(shown, sort_keys=False, allow_unicode=True, width=1_000_000)
    return written(filter, (text.rstrip(),), read, "a Sigma rule")


class _Rule:
    """A detection that is being written."""

    def __init__(self) -> None:
        self.detection: dict[str, Any] = {}

    def condition(self, filter: Filter, *, alone: bool = False) -> str:
        """The condition that a filter is, over selections that are added for its tests."""
        match filter:
            case And(parts) if len(parts) > 1:
                return " and ".join(map(self.condition, parts))
            case Or(parts) if (name := _null_in(parts)) is not None:
                return self._selected({name: None})
            case Or(parts) if len(parts) > 1:
                text = " or ".join(map(self.condition, parts))
                return text if alone else f"({text})"
            case Not(part):
                return f"not {self.condition(part)}"
            case Tested(test=Keywords(text=text)):
                return self._selected([text])
            case Constraint(term=Attribute(name)):
                found = _selection_of(filter)
                if found is not None:
                    return self._selected({f"{name}{key}": value for key, value in found.items()})
        raise TranslationRefused(f"a Sigma rule cannot say: {filter}")

    def _selected(self, selection: Any) -> str:
        """The name of a selection."""
        known = next((name for name, given in self.detection.items() if given == selection), None)
        if known is None:
            known = f"selection{len(self.detection) + 1}"
            self.detection[known] = selection
        return known


def _null_in(parts: tuple[Filter, ...]) -> str | None:
    """The field of which parts say that it is null or absent."""
    match parts:
        case (Constraint(term=Attribute(name), op=Op.ABSENT), Constraint(term=term, op=Op.EQ, operand=None)):
            return name if term == Attribute(name) else None
    return None


def _selection_of(constraint: Constraint) -> dict[str, Any] | None:
    """The tests that a constraint is, by modifiers; None where it is none."""
    match constraint.op, constraint.operand:
        case Op.EXISTS, _:
            return {"|exists": True}
        case Op.EQ, value if isinstance(value, bool) or _is_shown(value):
            return {"": _number(value)}
        case (Op.LT | Op.LE | Op.GT | Op.GE) as op, operand if _is_shown(operand):
            return {f"|{_NAMED[op]}": _number(operand)}
        case Op.IN_RANGE, Range(low, high, low_closed, high_closed) if _is_shown(low) and _is_shown(high):
            first, last = "gte" if low_closed else "gt", "lte" if high_closed else "lt"
            return {f"|{first}": _number(low), f"|{last}": _number(high)}
        case Op.LIKE, RegularExpression(text=expression):
            if expression.startswith(BLOCK):
                return {"|cidr": expression.removeprefix(BLOCK)}
            glob = glob_of(expression)
            if glob is not None:
                return {"" if glob.ignores_case else "|cased": _value_of(glob)}
        case op, str(text) if op in _AFFIXES:
            return {f"|{_AFFIXES[op]}|cased": _value_of(Glob((text,), False))}
        case Op.EQ, str(text):
            return {"|cased": _value_of(Glob((text,), False))}
        case Op.IN, values if all(isinstance(each, str) for each in values):
            return {"|cased": [_value_of(Glob((each,), False)) for each in values]}
    return None


_AFFIXES: Final = {Op.PREFIX: "startswith", Op.SUFFIX: "endswith", Op.SUBSTRING: "contains"}
_SIGNS: Final = {Wildcard.ANY: "*", Wildcard.ONE: "?"}


def _value_of(glob: Glob) -> str:
    """A value with the wildcards of Sigma."""
    return "".join(
        _SIGNS[part] if isinstance(part, Wildcard) else re.sub(r"[*?\\]", r"\\\g<0>", part)
        for part in glob.parts
    )


def _is_shown(value: Any) -> bool:
    """Whether a number has a text in YAML that is read as this number."""
    if isinstance(value, Decimal):
        return Decimal(repr(float(value))) == value
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: Any) -> int | float:
    return float(value) if isinstance(value, Decimal) else value


def _yaml() -> Any:
    """The reader and writer of YAML."""
    try:
        import yaml  # type: ignore[import-untyped]  # it has no types of its own
    except ImportError:
        raise NotInstalled.extra("Sigma rules", "dialects") from None
    return yaml


def documents(text: str) -> list[Mapping[str, Any]]:
    """The rules of a text, of which --- separates several; TranslationRefused where it is not YAML."""
    yaml = _yaml()
    try:
        aliases = [each for each in yaml.parse(text) if isinstance(each, yaml.AliasEvent)]
        if aliases:  # a few lines of them would be a rule of any size
            raise TranslationRefused.at(text, aliases[0].start_mark.index, "a rule has no aliases")
        rules = [each for each in yaml.safe_load_all(text) if each is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = f"not YAML: {getattr(error, 'problem', None) or error}"
        raise TranslationRefused.at(text, mark.index if mark else 0, problem) from None
    except RecursionError:
        raise TranslationRefused.at(text, 0, "too deeply nested") from None
    except (AttributeError, KeyError, ValueError) as error:  # a scalar that its own tag does not fit
        raise TranslationRefused.at(text, 0, f"not YAML: a value is not what its tag says: {error}") from None
    if not rules or not all(isinstance(each, Mapping) for each in rules):
        raise TranslationRefused.at(text, 0, "a Sigma rule is a map")
    return rules


def _refused(path: str, problem: str, hint: str | None = None) -> TranslationRefused:
    return TranslationRefused.within(path, problem, hint=hint)


# -- conditions --------------------------------------------------------------------------------------------

_TOKEN: Final = re.compile(r"\s*(?:([()|])|([\w*.-]+)|(\S))")


class _Condition:
    """A condition over the selections of a detection."""

    def __init__(self, text: str, detection: Mapping[str, Any]) -> None:
        self._text = text
        self._names = [str(name) for name in detection if name not in _OTHER_KEYS]
        self._selections = {str(name): given for name, given in detection.items()}
        found = (each for each in _TOKEN.finditer(text) if each.lastindex)
        self._tokens = [(each[each.lastindex or 0], each.start(each.lastindex or 0)) for each in found]
        self._tokens.append(("", len(text)))
        self._at = 0
        self._depth = 0

    def filter(self) -> Filter:
        found = self._or()
        if self._next:
            raise self._unexpected()
        return found

    @property
    def _next(self) -> str:
        return self._tokens[self._at][0]

    def _unexpected(self) -> TranslationRefused:
        word, at = self._tokens[self._at]
        if word == "|":
            return _refused(
                "detection.condition", f"the aggregation at column {at + 1} is about several events"
            )
        return _refused(
            "detection.condition", f"unexpected {word or 'end'} at column {at + 1} of {self._text!r}"
        )

    def _takes(self, word: str) -> bool:
        if self._next.lower() != word:
            return False
        self._at += 1
        return True

    def _or(self) -> Filter:
        self._depth += 1
        if self._depth > 100:
            raise _refused("detection.condition", "nested more than 100 levels deep")
        parts = [self._and()]
        while self._takes("or"):
            parts.append(self._and())
        self._depth -= 1
        return Or.of(parts)

    def _and(self) -> Filter:
        parts = [self._not()]
        while self._takes("and"):
            parts.append(self._not())
        return And.of(parts)

    def _not(self) -> Filter:
        negations = 0
        while self._takes("not"):
            negations += 1
        found = self._atom()
        for _ in range(negations):
            found = Not(found)
        return found

    def _atom(self) -> Filter:
        if self._takes("("):
            inner = self._or()
            if not self._takes(")"):
                raise self._unexpected()
            return inner
        word, at = self._tokens[self._at]
        following = self._tokens[self._at + 1][0].lower() if word else ""
        if word.lower() in ("1", "any", "all") and following == "of":
            self._at += 2
            return self._of(word.lower() == "all")
        if not re.fullmatch(r"[\w.-]+", word) or word.lower() in ("and", "or", "not", "of"):
            raise self._unexpected()
        if word not in self._names:
            raise _refused("detection.condition", f"no selection is named {word!r}, at column {at + 1}")
        self._at += 1
        return self._selection(word)

    def _of(self, every: bool) -> Filter:
        word, at = self._tokens[self._at]
        self._at += 1
        if word.lower() == "them":
            names = [name for name in self._names if not name.startswith("_")]
        else:
            names = [name for name in self._names if _is_named(name, word)]
        if not word or not names:
            raise _refused("detection.condition", f"no selection is named {word!r}, at column {at + 1}")
        parts = map(self._selection, names)
        return And.of(parts) if every else Or.of(parts)

    def _selection(self, name: str) -> Filter:
        return _selection(self._selections[name], f"detection.{name}")


def _is_named(name: str, pattern: str) -> bool:
    """Whether a name is of a pattern, in which * stands for any text; in time that grows with both lengths."""
    first, *others = pattern.split("*")
    if not others:
        return name == pattern
    *inner, last = others
    if not name.startswith(first) or not name.endswith(last) or len(name) < len(first) + len(last):
        return False
    at, end = len(first), len(name) - len(last)
    for part in inner:
        begin = name.find(part, at, end)
        if begin < 0:
            return False
        at = begin + len(part)
    return True


def _selection(given: Any, path: str) -> Filter:
    match given:
        case Mapping():
            if not given:
                raise _refused(path, "an empty selection")
            return And.of(_field(str(key), value, path) for key, value in given.items())
        case list():
            if not given:
                raise _refused(path, "an empty selection")
            return Or.of(
                _selection(each, f"{path}[{number}]") if isinstance(each, Mapping) else _keyword(each, path)
                for number, each in enumerate(given)
            )
    return _keyword(given, path)


def _keyword(given: Any, path: str) -> Filter:
    if isinstance(given, bool) or not isinstance(given, str | int | float) or given == "":
        raise _refused(path, f"a keyword is a text, not {given!r}")
    return Keywords.filter(str(given))


# -- fields ------------------------------------------------------------------------------------------------

_Test = Callable[[Any, str], Filter]
"""The filter that a field has a value, given the value of the rule and the path to it."""


def _field(key: str, given: Any, path: str) -> Filter:
    name, *modifiers = key.split("|")
    here = f"{path}.{key}"
    values = given if isinstance(given, list) else [given]
    if not values:
        raise _refused(here, "an empty list of values")
    every = "all" in modifiers
    if every and len(values) < 2:
        raise _refused(here, "all is for several values")
    rest = [each for each in modifiers if each != "all"]
    if not name:
        if rest:
            raise _refused(here, f"keywords have no modifier {rest[0]!r}")
        keywords = (_keyword(value, here) for value in values)
        return And.of(keywords) if every else Or.of(keywords)
    try:
        check_name(name)
    except FairleadError as error:
        raise _refused(here, f"no attribute can have this name: {error}") from None
    if name == "time" and rest != ["exists"]:
        raise _refused(here, "time is an instant here, not a text")
    test = _tested(name, rest, here)
    tests = (test(value, here) for value in values)
    return And.of(tests) if every else Or.of(tests)


def _tested(name: str, modifiers: list[str], path: str) -> _Test:
    """The test that the modifiers of a field make."""
    for each in modifiers:
        if each not in _MODIFIERS:
            hint = f"there are {', '.join(sorted(_MODIFIERS))}"
            raise _refused(path, f"the modifier {each!r} is not read", hint=hint)
    if len(set(modifiers)) < len(modifiers):
        raise _refused(path, "a modifier is given twice")
    given = set(modifiers)
    for alone, allowed in _ALONE.items():
        if alone in given:
            if given - {alone} - allowed:
                raise _refused(
                    path, f"the modifier {alone!r} does not go together with {sorted(given - {alone})}"
                )
            return _SPECIAL[alone](name, given)
    if {"i", "s"} & given:
        raise _refused(path, "i and s belong to the modifier re")
    if len(given & {"contains", "startswith", "endswith"}) > 1:
        raise _refused(path, "one of contains, startswith and endswith")
    return lambda value, here: _matches(name, value, modifiers, here)


def _constraint(name: str, op: Op, operand: Any = None) -> Constraint:
    return Constraint(Attribute(name), op, operand)


def _matches(name: str, value: Any, modifiers: list[str], path: str) -> Filter:
    transforms = [
        each for each in modifiers if each in _ENCODINGS or each in ("windash", "base64", "base64offset")
    ]
    if not isinstance(value, str):
        if modifiers and modifiers != ["cased"] and value is not None and not isinstance(value, bool):
            value = str(value)  # contains and its like look at the text
        else:
            return _simple(name, value, path)
    parts = list(_parts(value))
    before, behind = (any(each in modifiers for each in pair) for pair in _OPEN)
    flag = "" if "cased" in modifiers else IGNORING_CASE
    if not transforms:
        expression = "".join(part if is_wild else escaped(part) for part, is_wild in parts)
        return _described(name, flag, before, expression, behind)
    if "windash" in transforms:
        if len(transforms) > 1:
            raise _refused(path, "windash does not go together with encodings")
        return _described(
            name, flag, before, "".join(_dashed(part, is_wild) for part, is_wild in parts), behind
        )
    if any(is_wild for _, is_wild in parts):
        raise _refused(path, "a text with wildcards is not encoded")
    texts = _encoded("".join(part for part, _ in parts), transforms, path)
    return Or.of(_described(name, flag, before, escaped(text), behind) for text in texts)


_OPEN: Final = (("contains", "endswith"), ("contains", "startswith"))


def _described(name: str, flag: str, before: bool, expression: str, behind: bool) -> Filter:
    return described(name, (flag, ".*" * before, expression, ".*" * behind))


def _simple(name: str, value: Any, path: str) -> Filter:
    match value:
        case None:
            return Or.of((_constraint(name, Op.ABSENT), _constraint(name, Op.EQ, None)))
        case bool() | int() | float():
            return _constraint(name, Op.EQ, value)
    raise _refused(path, f"a value is a text, a number, true, false or null, not {value!r}")


def _parts(value: str) -> Iterator[tuple[str, bool]]:
    """The text of a value in parts: literal ones, and wildcards as expressions."""
    literal: list[str] = []
    at = 0
    while at < len(value):
        sign = value[at]
        if sign == "\\" and value[at + 1 : at + 2] in ("*", "?", "\\"):
            literal.append(value[at + 1])
            at += 2
            continue
        if sign in "*?":
            yield "".join(literal), False
            literal = []
            yield (".*" if sign == "*" else "."), True
        else:
            literal.append(sign)
        at += 1
    yield "".join(literal), False


_DASHES: Final = "[-/\u2013\u2014\u2015]"


def _dashed(part: str, is_wild: bool) -> str:
    """A dash or slash before a word stands for every sign that introduces an option on Windows."""
    if is_wild:
        return part
    pieces = re.split(r"(\B[-/]\b)", part)
    return "".join(_DASHES if number % 2 else escaped(piece) for number, piece in enumerate(pieces))


_ENCODINGS: Final = {"wide": "utf-16-le", "utf16le": "utf-16-le", "utf16be": "utf-16-be", "utf16": "utf-16"}


def _encoded(text: str, transforms: list[str], path: str) -> list[str]:
    raw = text.encode()
    *encodings, last = transforms
    if last not in ("base64", "base64offset"):
        raise _refused(path, f"the modifier {last!r} stands before base64 or base64offset")
    for each in encodings:
        if each not in _ENCODINGS:
            raise _refused(path, f"the modifier {each!r} does not stand before {last!r}")
        raw = text.encode(_ENCODINGS[each])
    if last == "base64":
        return [base64.b64encode(raw).decode()]
    starts, ends = (0, 2, 3), (None, -3, -2)
    return [
        base64.b64encode(b" " * offset + raw)[starts[offset] : ends[(len(raw) + offset) % 3]].decode()
        for offset in range(3)
    ]


# -- modifiers with a meaning of their own -------------------------------------------------------------------

_ORDER: Final = {"lt": Op.LT, "lte": Op.LE, "gt": Op.GT, "gte": Op.GE}
_NAMED: Final = {op: name for name, op in _ORDER.items()}


def _ordered(op: Op) -> Callable[[str, set[str]], _Test]:
    def made(name: str, _: set[str]) -> _Test:
        def test(value: Any, path: str) -> Filter:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise _refused(path, f"a number is compared, not {value!r}")
            return _constraint(name, op, value)

        return test

    return made


def _existing(name: str, _: set[str]) -> _Test:
    def test(value: Any, path: str) -> Filter:
        if not isinstance(value, bool):
            raise _refused(path, "exists takes true or false")
        return _constraint(name, Op.EXISTS if value else Op.ABSENT)

    return test


def _in_block(name: str, _: set[str]) -> _Test:
    def test(value: Any, path: str) -> Filter:
        try:
            return _constraint(name, Op.LIKE, RegularExpression(f"{BLOCK}{value}"))
        except FairleadError as error:
            raise _refused(path, str(error)) from None

    return test


def _regular(name: str, modifiers: set[str]) -> _Test:
    def test(value: Any, path: str) -> Filter:
        text = str(value)
        flags = set(modifiers)
        if inline := re.match(r"\(\?([is]+)\)", text):
            flags |= set(inline[1])
            text = text[inline.end() :]
        try:
            expression = searched(text, "." if "s" in flags else r"[^\n]")
            return _constraint(
                name, Op.LIKE, RegularExpression((IGNORING_CASE if "i" in flags else "") + expression)
            )
        except FairleadError as error:
            raise _refused(path, str(error).partition("\n")[0]) from None

    return test


def _same_as(name: str, modifiers: set[str]) -> _Test:
    def test(value: Any, path: str) -> Filter:
        if "cased" not in modifiers:
            raise _refused(
                path, "fieldref is read with cased: letters of two fields are not compared in any case"
            )
        if not isinstance(value, str):
            raise _refused(path, "fieldref takes the name of a field")
        return ComparisonFilter.filter(name, Op.EQ, value)

    return test


_SPECIAL: Final[dict[str, Callable[[str, set[str]], _Test]]] = {
    "re": _regular,
    "cidr": _in_block,
    "exists": _existing,
    "fieldref": _same_as,
    **{word: _ordered(op) for word, op in _ORDER.items()},
}
_ALONE: Final = {
    **dict.fromkeys(_SPECIAL, frozenset[str]()),
    "re": frozenset("is"),
    "fieldref": frozenset({"cased"}),
}
"""The modifiers that stand alone, and those that go together with them."""
_MODIFIERS: Final = frozenset(
    {
        *_ALONE,
        *_ENCODINGS,
        "contains",
        "startswith",
        "endswith",
        "cased",
        "windash",
        "base64",
        "base64offset",
        "i",
        "s",
    }
)


# -- keywords ----------------------------------------------------------------------------------------------


def evaluator(text: str) -> Callable[[Notification], bool]:
    """A function that says whether a keyword occurs in some value of a notification, in any case."""
    inner = "".join(part if is_wild else escaped(part) for part, is_wild in _parts(text))
    expression = RegularExpression(f"{IGNORING_CASE}.*{inner}.*")
    return lambda notification: any(map(expression.matches, _texts(notification.attributes)))


def _texts(value: Any) -> Iterator[str]:
    """The texts of all values in a value: strings, numbers and Booleans, at any depth."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        match each:
            case Record():
                waiting.extend(each.values())
            case Array() | Multi() | Tuple():
                waiting.extend(each)
            case str():
                yield each
            case bool():
                yield "true" if each else "false"
            case _ if kind_of(each) is Kind.NUMBER:
                yield str(number_of(each))
            case _ if kind_of(each) is Kind.TIME:
                yield str(each)


make_callable(__name__)
