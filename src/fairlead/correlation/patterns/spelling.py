"""The vocabulary that the parser and the printer of patterns share: words, default names, sorts of
events.

    A followed by A            the steps are called A and A2
    A then no B within 5 s     the timer is called T1, and the step that waits for it no_B

Law: a name that is not written is a function of what stands to its left and of the step itself, so it need not be.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from fairlead.correlation.patterns.model import Atom, Take
from fairlead.errors import FairleadError
from fairlead.filters import EVERYTHING, And, Attribute, Constraint, Filter, Not, Op
from fairlead.model import Instant, Number, check_name

__all__ = [
    "TAKING",
    "TAKING_WORDS",
    "THE_END",
    "WORDS",
    "default_step",
    "events_of_type",
    "excluded",
    "fresh",
    "fresh_timer",
    "narrows",
    "negation",
    "negative",
    "type_in",
]

WORDS: Final = frozenset(
    {
        "among", "and", "any", "as", "at", "before", "else", "exactly", "followed", "giving", "greedily",
        "leaving", "limit", "no", "not", "optional", "or", "same", "starting", "taking", "then", "timer", "unless",
        "until", "weakly", "where", "with", "within", "without",
    }
)  # fmt: skip
"""Words of the language: a type of this name stands in backquotes."""

TAKING: Final[dict[tuple[str, ...], Take]] = {
    ("all", "matches"): Take.ALL,
    ("all",): Take.ALL,
    ("the", "first"): Take.FIRST,
    ("first",): Take.FIRST,
    ("one", "for", "each", "start"): Take.NEXT,
    ("to", "the", "next"): Take.NEXT,
    ("next",): Take.NEXT,
    ("the", "most", "recent"): Take.RECENT,
    ("recent",): Take.RECENT,
    ("past", "the", "last"): Take.PAST,
    ("past",): Take.PAST,
}
"""The words that may stand behind `taking`; of those with one meaning the first is canonical."""
THE_END: Final = Instant.parse("9999-12-31T23:59:59.999999Z")
"""The last moment there is: it comes when a stream is over."""
TAKING_WORDS: Final = {take: next(words for words in TAKING if TAKING[words] is take) for take in Take}


# -- names that nobody gave ----------------------------------------------------------------------------------


def fresh(base: str, taken: Iterable[str]) -> str:
    """The first of base, base2, base3, … that is not taken."""
    names = set(taken)
    joint = "_" if base[-1].isdigit() else ""
    number, name = 1, base
    while name in names:
        number += 1
        name = f"{base}{joint}{number}"
    return name


def default_step(atom: Atom) -> str:
    """The default name of a step: its type, or the events that must not happen."""
    if atom.bars and atom.filter is not None:
        typed = type_in(atom.filter)
        return f"no_{_last(typed[0])}" if typed else "nothing"
    if atom.filter is None:
        if atom.domain is None:
            return "timeout"
        typed = type_in(atom.domain)
        return f"no_{_last(typed[0])}" if typed else "nothing"
    if excluded(atom) is not None:
        return "other"
    typed = type_in(atom.filter)
    return _last(typed[0]) if typed else "event"


def fresh_timer(known: Iterable[str]) -> str:
    """A name for a timer without one, distinct from those that run."""
    names, number = set(known), 1
    while f"T{number}" in names:
        number += 1
    return f"T{number}"


def _last(type: str) -> str:
    return type.rpartition(".")[2]


# -- events --------------------------------------------------------------------------------------------------


def events_of_type(type: str, filter: Filter = EVERYTHING) -> Filter:
    """The events with a type that match a filter."""
    return And.of([Constraint(Attribute("type"), Op.EQ, type), filter])


def type_in(filter: Filter) -> tuple[str, Filter] | None:
    """The type that a filter begins with, where it has a spelling as a name, and the rest of the filter."""
    first, *rest = filter.parts if isinstance(filter, And) and filter.parts else (filter,)
    match first:
        case Constraint(Attribute("type"), Op.EQ, str(type)):
            try:
                return check_name(type), And.of(rest)
            except FairleadError:
                return None
    return None


def excluded(atom: Atom) -> Filter | None:
    """E, where the atom is [¬E ⊆ Σ]: it takes what is in Σ but not in E (book 7.4.2)."""
    if atom.bars:
        return None
    last = atom.filter.parts[-1] if isinstance(atom.filter, And) and atom.filter.parts else atom.filter
    if isinstance(last, Not) and atom.domain is not None and negation(last.part, atom.domain) == atom.filter:
        return last.part
    return None


def negation(excluded: Filter, domain: Filter) -> Filter:
    """Σ∖E: what is in a domain but not excluded."""
    return And.of([domain, Not(excluded)])


def narrows(filter: Filter | None, domain: Filter) -> bool:
    """Whether a filter begins with the constraints of the domain, and has more."""
    wide = domain.parts if isinstance(domain, And) else (domain,)
    return isinstance(filter, And) and filter.parts[: len(wide)] == wide


def negative(number: Number) -> Number:
    """-number, exactly."""
    return number.copy_negate() if isinstance(number, Decimal) else -number  # `-` would round a Decimal
