"""Discovery: what of a filter others want, and what of it others offer, without their names.

    Laws
    What is wanted covers every subscription, as far as it overlaps with the filter that was asked about; what is
    offered covers every advertisement likewise.
    Nothing in the answer matches what the filter does not.

Where it is not exact, brokers merged or covered filters on the way, and the answer may be wider.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from fairlead.delivery.requesting import RE
from fairlead.errors import ValueRefused
from fairlead.filters import And, Filter, Poset, Schema, covers, overlaps, parse, render, simplify
from fairlead.filters.filter import EVERYTHING

__all__ = ["WHAT", "Discovered", "Discovery", "What", "check_what", "is_anonymous"]

What: TypeAlias = Literal["wants", "offers"]
WHAT: Final[tuple[What, ...]] = ("wants", "offers")

FILTERS_MAX: Final = 200
"""Of more filters than that, the answer is the filter that was asked about: it covers them all."""

_REPLIES: Final = parse(f"exists {RE}.to")


@dataclass(frozen=True, slots=True)
class Discovered:
    """The part of a filter that others want, or offer: a notification is among it iff one of the filters matches.

    No filter covers another one.
    """

    question: Filter
    filters: tuple[Filter, ...]
    exact: bool = True
    """Whether the filters are those that clients gave, and not wider ones that stand for them."""
    known: bool = True
    """Whether the broker can know at all: without advertisements nobody says what is offered."""

    @property
    def is_all(self) -> bool:
        """Whether all that was asked about is among it."""
        return self.filters == (self.question,)

    def __bool__(self) -> bool:
        return bool(self.filters) or not self.known

    def to_json(self) -> dict[str, Any]:
        """A JSON record of the answer."""
        filters = [render(each) for each in self.filters]
        return {
            "question": render(self.question),
            "filters": filters,
            "exact": self.exact,
            "known": self.known,
        }

    @classmethod
    def of(cls, record: dict[str, Any], schema: Schema | None = None) -> Discovered:
        """The answer that a JSON record holds."""
        filters = tuple(parse(each, schema) for each in record["filters"])
        return cls(parse(record["question"], schema), filters, record["exact"], record["known"])


class Discovery:
    """An answer in the making: filters are added one by one."""

    __slots__ = ("_exact", "_is_wide", "_poset", "_question", "_schema", "_seen")

    def __init__(self, question: Filter, schema: Schema | None = None) -> None:
        self._question, self._schema, self._exact, self._is_wide = question, schema, True, False
        self._poset: Poset[Filter] = Poset(schema)
        self._seen: set[Filter] = set()

    def add(self, filter: Filter, *, exact: bool = True) -> bool:
        """Take a filter into account; False where no further one can change the answer."""
        if self._is_wide:
            return False
        schema = self._schema
        if filter not in self._seen and not is_anonymous(filter) and overlaps(self._question, filter, schema):
            self._seen.add(filter)
            self._exact = self._exact and exact
            if covers(filter, self._question, schema):
                self._is_wide = True
                return False
            part = (
                filter
                if covers(self._question, filter, schema)
                else simplify(And.of((self._question, filter)), schema)
            )
            if not self._poset.covering(part):
                self._poset.add(part, part)
            if len(self._seen) > FILTERS_MAX:
                self._is_wide, self._exact = True, False
        return not self._is_wide

    def assume(self) -> None:
        """Assume that all of it is wanted: who knows better cannot be asked."""
        self._is_wide, self._exact = True, False

    def answer(self, *, known: bool = True) -> Discovered:
        """The filters added so far, without those that others cover."""
        filters = (self._question,) if self._is_wide else tuple(sorted(self._poset.roots(), key=render))
        return Discovered(self._question, filters, self._exact, known)


def is_anonymous(filter: Filter) -> bool:
    """Whether a filter is that of a requester for its replies, which says nothing of what it wants."""
    return filter != EVERYTHING and covers(_REPLIES, filter)


def check_what(what: str) -> What:
    """The subject of a question, or ValueRefused."""
    if what not in WHAT:
        raise ValueRefused(
            f"one discovers what others want or offer: {' or '.join(map(repr, WHAT))}, not {what!r}"
        )
    return what
