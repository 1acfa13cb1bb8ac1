"""Sigma correlations (specification 2.0), in YAML, as patterns. Their rules stand in the same text.

    name: failed_login
    detection: {selection: {EventID: 4625}, condition: selection}
    ---
    name: guessing
    correlation:
      type: event_count
      rules: [failed_login]
      group-by: [TargetUserName]
      timespan: 5m
      condition: {gte: 10}

    event_count        so many events in the time span: `exactly 10 [EventID = 4625] within 5 minutes`
    value_count        so many events with different values of a field, each unlike those before it
    temporal           an event of each rule in the time span, in any order; one event may be of several rules
    temporal_ordered   an event of each rule in the time span, one behind the other

A composite is found where the correlation holds: at the event with which it comes to hold; the next one begins
behind it. Both ends of the time span are part of it. Events without a field of `group-by` are not counted. Of
`value_count`, the values are of one kind: a text and a number do not differ, they do not compare.

Refused by name: counts that may be too large (`lt`, `lte`, `eq`, `neq`), since which windows are looked at is left
to backends; `value_percentile` and other types; correlations of correlations; aliases, but with
`temporal_ordered`; conditions of `temporal` that are not about all of its rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import combinations
from typing import Any, Final, cast

from fairlead.correlation.patterns.model import (
    RESERVED,
    UNNAMED,
    Atom,
    Both,
    Condition,
    Iterate,
    Operand,
    Part,
    Pattern,
    Reference,
    Within,
)
from fairlead.correlation.patterns.model import Sequence as Chain
from fairlead.dialects import sigma
from fairlead.dialects.dialect import translating
from fairlead.errors import FairleadError, TranslationRefused
from fairlead.filters import And, Attribute, Constraint, Filter, Op, Or
from fairlead.model.values import check_name

__all__ = ["VALUES_MAX", "read"]

VALUES_MAX: Final = 24
"""So many different values are counted at most: each is compared with all before it."""
_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_WORD: Final = re.compile(r"[A-Za-z_]\w*")
_KEYS: Final = ("type", "rules", "group-by", "timespan", "condition", "aliases", "generate")
_COUNTS: Final = {"gte": 0, "gt": 1}
"""The conditions of counts that stay true when more comes, and what is added to the number."""
_REFUSED_COUNTS: Final = ("lt", "lte", "eq", "neq")


def read(text: str) -> Pattern:
    """The pattern of the correlation in a text."""
    documents = sigma.documents(text)
    found = [each for each in documents if "correlation" in each]
    if not found:
        raise _refused("correlation", "there is none: the rules alone are filters")
    if len(found) > 1:
        raise _refused("correlation", "there are several: each is a pattern of its own")
    rules = {
        str(each[key]): each
        for each in documents
        if "correlation" not in each
        for key in ("name", "id")
        if key in each
    }
    with translating("the correlation"):
        return _Correlation(found[0], rules).pattern()


def _refused(path: str, problem: str, hint: str | None = None) -> TranslationRefused:
    return TranslationRefused.within(path, problem, hint=hint)


class _Correlation:
    """A correlation with the rules that it is about."""

    def __init__(self, document: Mapping[str, Any], rules: Mapping[str, Mapping[str, Any]]) -> None:
        given = document["correlation"]
        if not isinstance(given, Mapping):
            raise _refused("correlation", "a map was expected")
        for key in given:
            if key not in _KEYS:
                raise _refused(f"correlation.{key}", "no such key", hint=f"there are {', '.join(_KEYS)}")
        self._given, self._rules = given, rules
        name = str(document.get("name", ""))
        self._name = name if _WORD.fullmatch(name) else UNNAMED

    def pattern(self) -> Pattern:
        """The pattern of its type."""
        type = self._given.get("type")
        made = {
            "event_count": self._event_count,
            "value_count": self._value_count,
            "temporal": self._temporal,
            "temporal_ordered": self._temporal_ordered,
        }.get(str(type))
        if made is None:
            raise _refused("correlation.type", f"{type!r} is not read")
        return made()

    # -- its types -------------------------------------------------------------------------------------------

    def _event_count(self) -> Pattern:
        number = self._count(("gte", "gt", *_REFUSED_COUNTS))
        self._check_no_aliases()
        step = Atom("event", Or.of(dict.fromkeys(filter for _, filter in self._named())))
        return self._whole(step if number == 1 else Iterate(step, number, number))

    def _value_count(self) -> Pattern:
        number = self._count(("gte", "gt", *_REFUSED_COUNTS, "field"))
        self._check_no_aliases()
        field = self._condition.get("field")
        if not isinstance(field, str):
            raise _refused("correlation.condition.field", "the field whose values are counted is missing")
        _check_field(field, "correlation.condition.field")
        if number > VALUES_MAX:
            raise _refused(
                "correlation.condition", f"more than {VALUES_MAX} different values are not counted"
            )
        filters = dict.fromkeys(filter for _, filter in self._named())
        has = Constraint(Attribute(field), Op.EXISTS, None)
        steps = [Atom(f"value{at}", And.of((has, Or.of(filters)))) for at in range(1, number + 1)]
        different = tuple(
            Condition(Operand(Reference(later.step, field)), Op.NE, Operand(Reference(earlier.step, field)))
            for earlier, later in combinations(steps, 2)
        )
        return self._whole(_chain(steps), different)

    def _temporal(self) -> Pattern:
        self._check_all("temporal")
        self._check_no_aliases()
        steps = self._steps()
        return self._whole(steps[0] if len(steps) == 1 else Both(tuple(steps)))

    def _temporal_ordered(self) -> Pattern:
        self._check_all("temporal_ordered")
        steps = self._steps()
        conditions = []
        aliases = self._aliases()
        for field, of in aliases.items():
            names = [of.get(rule) for rule, _ in self._named()]
            if None in names:
                raise _refused(f"correlation.aliases.{field}", "it does not name a field of each rule")
            conditions += [
                Condition(
                    Operand(Reference(step.step, str(name))),
                    Op.EQ,
                    Operand(Reference(steps[0].step, str(names[0]))),
                )
                for step, name in zip(steps[1:], names[1:], strict=True)
            ]
        return self._whole(_chain(steps), tuple(conditions), without=frozenset(aliases))

    # -- its parts -------------------------------------------------------------------------------------------

    def _whole(
        self, part: Part, conditions: tuple[Condition, ...] = (), without: frozenset[str] = frozenset()
    ) -> Pattern:
        grouped = self._given.get("group-by", [])
        same = grouped if isinstance(grouped, list) else [grouped]
        if not all(isinstance(each, str) for each in same):
            raise _refused("correlation.group-by", "fields were expected")
        for each in same:
            _check_field(each, "correlation.group-by")
        keys = tuple(dict.fromkeys(each for each in same if each not in without))
        if unused := without - {*same}:
            raise _refused(f"correlation.aliases.{sorted(unused)[0]}", "group-by does not name it")
        return Pattern(Within(part, self._timespan()), keys, conditions, name=self._name)

    def _timespan(self) -> int:
        """The time span in microseconds."""
        given = str(self._given.get("timespan", ""))
        found = re.fullmatch(r"(\d+)([A-Za-z])", given)
        if found is None:
            raise _refused("correlation.timespan", f"a number with its unit, as in 5m, not {given!r}")
        if found[2] not in _UNITS:
            raise _refused(
                "correlation.timespan", f"{found[2]!r} is no span of the same length always, or no unit"
            )
        return int(found[1]) * _UNITS[found[2]] * 1_000_000

    def _names(self) -> Sequence[str]:
        given = self._given.get("rules")
        names: list[Any] = given if isinstance(given, list) else [given]
        if not names or not all(isinstance(each, str) for each in names):
            raise _refused("correlation.rules", "the names or ids of rules were expected")
        if len({*names}) < len(names):
            raise _refused("correlation.rules", "a rule is named twice")
        return names

    def _named(self) -> list[tuple[str, Filter]]:
        """The rules, by the names that the correlation has for them."""
        found = []
        for name in self._names():
            if name not in self._rules:
                raise _refused(
                    "correlation.rules",
                    f"there is no rule {name!r} in the text",
                    hint="rules stand in the same text; correlations of correlations are not read",
                )
            found.append((name, sigma.filter_of(self._rules[name])))
        return found

    def _steps(self) -> list[Atom]:
        steps: list[Atom] = []
        for at, (name, filter) in enumerate(self._named(), start=1):
            taken = {each.step for each in steps}
            is_word = _WORD.fullmatch(name) and name not in RESERVED and name not in taken
            steps.append(Atom(name if is_word else f"rule{at}", filter))
        return steps

    @property
    def _condition(self) -> Mapping[str, Any]:
        given = self._given.get("condition")
        if not isinstance(given, Mapping):
            raise _refused("correlation.condition", "a comparison was expected, such as gte: 10")
        return given

    def _count(self, known: Sequence[str]) -> int:
        """The number of events or values from which on the condition holds."""
        given = {key: value for key, value in self._condition.items() if key != "field"}
        for key in self._condition:
            if key not in known:
                raise _refused(f"correlation.condition.{key}", "no such comparison")
        if len(given) != 1:
            raise _refused("correlation.condition", "one comparison was expected")
        ((comparison, number),) = given.items()
        if comparison in _REFUSED_COUNTS:
            raise _refused(
                f"correlation.condition.{comparison}",
                "it may cease to hold when more comes: in which windows that is looked at, Sigma does not say",
            )
        if isinstance(number, bool) or not isinstance(number, int) or number + _COUNTS[comparison] < 1:
            raise _refused(
                f"correlation.condition.{comparison}", f"a number above 0 was expected, not {number!r}"
            )
        return number + _COUNTS[comparison]

    def _check_all(self, type: str) -> None:
        """A condition of rules together, if there is one, is about all of them."""
        if "condition" not in self._given:
            return
        if not isinstance(self._given["condition"], Mapping):
            raise _refused("correlation.condition", f"conditions of {type} in words are not read")
        if self._count(("gte", "gt", *_REFUSED_COUNTS)) != len(self._names()):
            raise _refused(
                "correlation.condition", f"some of the rules of {type}: all of them are looked for"
            )

    def _aliases(self) -> Mapping[str, Mapping[str, Any]]:
        given = self._given.get("aliases", {})
        if not isinstance(given, Mapping) or not all(isinstance(each, Mapping) for each in given.values()):
            raise _refused("correlation.aliases", "by alias, a map from rules to fields was expected")
        for alias, of in given.items():
            for rule, field in of.items():
                _check_field(str(field), f"correlation.aliases.{alias}.{rule}")
        return given

    def _check_no_aliases(self) -> None:
        if self._given.get("aliases"):
            raise _refused(
                "correlation.aliases", "events are grouped by the same attribute, but for temporal_ordered"
            )


def _chain(steps: Sequence[Atom]) -> Part:
    """Steps, one behind the other."""
    return reduce(Chain, steps[1:], cast("Part", steps[0]))


def _check_field(name: str, path: str) -> None:
    try:
        check_name(name)
    except FairleadError as error:
        raise _refused(path, f"no attribute can have this name: {error}") from None
