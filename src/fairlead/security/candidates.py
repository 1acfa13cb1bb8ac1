"""The grants that can concern a request, among many.

A filter that has `symbol = "IBM"`, or `symbol in {"IBM", "SAP"}`, concerns no request for other symbols. Such
filters are found by their texts. All others are candidates of every request. For requests that name no symbol,
those of one label that are nothing but such a constraint are joined: `symbol in {"IBM", "SAP", …}`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from decimal import Decimal
from operator import ge, gt, le, lt
from typing import Any, Final

from fairlead.filters import And, Constraint, Filter, Op, Or
from fairlead.filters.terms import Attribute
from fairlead.model import Multi

__all__ = ["Candidates", "plainly_covers", "texts_of"]

_NUMBERS: Final = (int, Decimal)
_PRESENT: Final = (Op.EXISTS, Op.EQ, Op.GT, Op.GE, Op.LT, Op.LE)
"""Operators that hold for nothing that is absent."""
_WITHIN: Final[Mapping[tuple[Op, Op], Callable[[Any, Any], bool]]] = {
    (Op.GT, Op.EQ): gt,
    (Op.GT, Op.GT): ge,
    (Op.GT, Op.GE): gt,
    (Op.GE, Op.EQ): ge,
    (Op.GE, Op.GT): ge,
    (Op.GE, Op.GE): ge,
    (Op.LT, Op.EQ): lt,
    (Op.LT, Op.LT): le,
    (Op.LT, Op.LE): lt,
    (Op.LE, Op.EQ): le,
    (Op.LE, Op.LT): le,
    (Op.LE, Op.LE): le,
}
"""By the operators of a limit and of a request: how the request's number has to compare with the limit's."""


class Candidates:
    """An index of filters with labels: `of` a request, those that may overlap it. Filters of label None are not
    joined."""

    def __init__(self, filters: Iterable[tuple[Hashable, Filter]]) -> None:
        self._filters = [*filters]
        self._by_text: dict[str, dict[str, list[int]]] = {}
        """By attribute and text, the filters that ask for it; each of them is under one attribute."""
        self._all_of: dict[str, dict[int, Filter]] = {}
        """By attribute, all of them, joined where that can be."""
        self._others: list[int] = []
        for number, (_, each) in enumerate(self._filters):
            for name, texts in texts_of(each).items():
                self._all_of.setdefault(name, {})[number] = each
                by_text = self._by_text.setdefault(name, {})
                for text in texts:
                    by_text.setdefault(text, []).append(number)
                break
            else:
                self._others.append(number)
        for name, every in self._all_of.items():
            self._all_of[name] = self._joined(name, every)

    def _joined(self, name: str, every: Mapping[int, Filter]) -> dict[int, Filter]:
        """The filters on an attribute, with those of one label as one, under the number of the first."""
        kept: dict[int, Filter] = {}
        texts: dict[Hashable, tuple[int, set[str]]] = {}
        for number, each in every.items():
            label = self._filters[number][0]
            if label is not None and isinstance(each, Constraint):
                texts.setdefault(label, (number, set()))[1].update(texts_of(each)[name])
            else:
                kept[number] = each
        for number, some in texts.values():
            kept[number] = Constraint(Attribute(name), Op.IN, Multi(sorted(some)))
        return kept

    def of(
        self, request: Filter, texts: Mapping[str, frozenset[str]] | None = None
    ) -> Sequence[tuple[int, Filter]]:
        """The filters that may overlap a request, in their order, each with its number; `texts` are those of the
        request, where they are known."""
        requested = texts_of(request) if texts is None else texts
        found = {each: self._filters[each][1] for each in self._others}
        for name, every in self._all_of.items():
            if (own := requested.get(name)) is None:
                found.update(every)
            else:
                numbers = (each for text in own for each in self._by_text[name].get(text, ()))
                found.update((each, self._filters[each][1]) for each in numbers)
        return sorted(found.items(), key=_number)


def _number(item: tuple[int, Filter]) -> int:
    return item[0]


def plainly_covers(limit: Filter, request: Filter, texts: Mapping[str, frozenset[str]] | None = None) -> bool:
    """Whether a limit covers a request as one sees at a glance: by equal texts, by bounds, by being there.

    Not every limit that covers a request does so plainly; this is to be fast. `texts` are those of the request,
    where they are known.
    """
    match limit:
        case And(parts):
            return all(plainly_covers(part, request, texts) for part in parts)
        case Or(parts):
            return any(plainly_covers(part, request, texts) for part in parts)
        case Constraint(term=Attribute(name=name)):
            if limit.op is Op.EQ or limit.op is Op.IN:
                own, of_request = texts_of(limit), texts_of(request) if texts is None else texts
                return name in own and name in of_request and of_request[name] <= own[name]
            return any(_implies(part, limit) for part in _parts(request))
    return False


def _parts(request: Filter) -> Sequence[Filter]:
    return request.parts if isinstance(request, And) else (request,)


def _implies(part: Filter, limit: Constraint) -> bool:
    """Whether what a part of a request matches is within a bound, or is there."""
    if not isinstance(part, Constraint) or part.term != limit.term:
        return False
    if limit.op is Op.EXISTS:
        return part.op in _PRESENT
    compares = _WITHIN.get((limit.op, part.op))
    own, bound = part.operand, limit.operand
    if compares is None or type(own) not in _NUMBERS or type(bound) not in _NUMBERS:
        return False
    return bool(compares(own, bound))


def texts_of(filter: Filter) -> Mapping[str, frozenset[str]]:
    """By attribute, the texts of which it has one in everything that a filter matches."""
    match filter:
        case Constraint(term=Attribute(name=name), op=Op.EQ, operand=str(text)):
            return {name: frozenset({text})}
        case Constraint(term=Attribute(name=name), op=Op.IN, operand=some):
            is_texts = isinstance(some, Iterable) and all(isinstance(each, str) for each in some)
            return {name: frozenset(some)} if is_texts else {}
        case And(parts):
            return {name: some for part in reversed(parts) for name, some in texts_of(part).items()}
        case Or(parts) if parts:  # without parts it is the filter that matches nothing
            first, *others = map(texts_of, parts)
            return {
                name: texts.union(*(each[name] for each in others))
                for name, texts in first.items()
                if all(name in each for each in others)
            }
    return {}
