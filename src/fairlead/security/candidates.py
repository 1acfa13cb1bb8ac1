"""The grants that can concern a request, among many.

A grant whose filter has `symbol = "IBM"`, or `symbol in {"IBM", "SAP"}`, concerns no request for other symbols.
Such grants are found by their texts. All others are candidates of every request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fairlead.filters import And, Constraint, Filter, Op, Or
from fairlead.filters.terms import Attribute

__all__ = ["Candidates"]


class Candidates:
    """An index of filters: `of` a request, the numbers of those that may overlap it."""

    def __init__(self, filters: Iterable[Filter]) -> None:
        self._by_text: dict[str, dict[str, list[int]]] = {}
        """By attribute and text, the filters that ask for it; each of them is under one attribute."""
        self._all_of: dict[str, list[int]] = {}
        self._others: list[int] = []
        for number, each in enumerate(filters):
            for name, texts in texts_of(each).items():
                self._all_of.setdefault(name, []).append(number)
                by_text = self._by_text.setdefault(name, {})
                for text in texts:
                    by_text.setdefault(text, []).append(number)
                break
            else:
                self._others.append(number)

    def of(self, request: Filter) -> Sequence[int]:
        """The numbers of the filters that may overlap a request, in their order."""
        requested, found = texts_of(request), {*self._others}
        for name, every in self._all_of.items():
            if (texts := requested.get(name)) is None:
                found.update(every)
            else:
                for text in texts:
                    found.update(self._by_text[name].get(text, ()))
        return sorted(found)


def texts_of(filter: Filter) -> Mapping[str, frozenset[str]]:
    """By attribute, the texts of which it has one in everything that a filter matches."""
    match filter:
        case Constraint(term=Attribute(name=name), op=Op.EQ, operand=str(text)):
            return {name: frozenset({text})}
        case Constraint(term=Attribute(name=name), op=Op.IN, operand=some):
            is_texts = isinstance(some, Iterable) and all(isinstance(each, str) for each in some)
            return {name: frozenset(some)} if is_texts else {}
        case And(parts):
            return {name: texts for part in reversed(parts) for name, texts in texts_of(part).items()}
        case Or(parts):
            first, *others = map(texts_of, parts)
            return {
                name: texts.union(*(each[name] for each in others))
                for name, texts in first.items()
                if all(name in each for each in others)
            }
    return {}
