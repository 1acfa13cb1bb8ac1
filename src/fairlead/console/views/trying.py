"""Questions about texts: can a filter be read, what goes on from here, what does it match, how do two relate?

Pure functions. The law: each answer is that of the command line (`fairlead filter check|explain|relate`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Final

from fairlead.dialects import OWN, read
from fairlead.errors import FairleadError, FilterSyntaxError
from fairlead.filters import And, Filter, Relation, Schema, merge, relate, simplify, witness
from fairlead.filters.explain import Explanation, explain, never_matches
from fairlead.filters.language import parse
from fairlead.ingest import Rejection
from fairlead.ingest.jsonlines import read as read_lines
from fairlead.model import Notification

__all__ = [
    "Choice",
    "Compared",
    "Event",
    "Reading",
    "choices",
    "compared",
    "events_in",
    "names_in",
    "reading",
]

TEXT_MAX: Final = 10_000
"""The longest text that is looked at while somebody writes."""
EVENTS_MAX: Final = 200
CHOICES_MAX: Final = 12
_WORD: Final = re.compile(r"[\w.$-]*$")
_EXAMPLE: Final = re.compile(r"^(a|an|the) ")


@dataclass(frozen=True, slots=True)
class Reading:
    """A text as it was read: a filter, or why there is none, and where."""

    text: str
    filter: Filter | None = None
    error: FairleadError | None = None
    remark: str = ""
    """Something to know of a filter that can be read."""

    @property
    def caret(self) -> tuple[int, int] | None:
        """Line and column of the error, from 1."""
        error = self.error
        return (error.line, error.column) if isinstance(error, FilterSyntaxError) else None

    @property
    def shortest(self) -> str:
        """The filter in its shortest known form; empty if that is how it was written."""
        if self.filter is None:
            return ""
        short = str(simplify(self.filter))
        return "" if short == self.text.strip() else short


def reading(text: str, schema: Schema | None = None, dialect: str = OWN) -> Reading:
    """Read a filter."""
    if len(text) > TEXT_MAX:
        return Reading(text, error=FairleadError(f"a text of more than {TEXT_MAX:,} characters"))
    try:
        filter = parse(text, schema) if dialect in ("", OWN) else read(dialect, text)
    except FairleadError as error:
        return Reading(text, error=error)
    return Reading(text, filter, remark=never_matches(filter, schema) or "")


# -- completion --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Choice:
    """Text that may be written next, what it replaces before the cursor, and its kind."""

    text: str
    replaced: int
    kind: str


_SQL: Final = ("=", "<>", ">", ">=", "<", "<=", "BETWEEN", "IN (", "LIKE", "IS NULL", "IS NOT NULL")
_AFTER_A_NAME: Final[Mapping[str, Sequence[str]]] = {
    "sql": _SQL,
    "jms": _SQL,
    "cesql": ("=", "!=", ">", ">=", "<", "<=", "IN (", "LIKE"),
}
"""The operators of languages that are read word by word."""
_AFTER_ALL: Final[Mapping[str, Sequence[str]]] = {
    "sql": ("AND", "OR"),
    "jms": ("AND", "OR"),
    "cesql": ("AND", "OR", "XOR"),
}
_WORDS: Final[Mapping[str, Sequence[str]]] = {
    "eventbridge": (
        *("prefix", "suffix", "anything-but", "numeric", "exists", "equals-ignore-case", "wildcard"),
        *("cidr", "$or"),
    ),
    "sigma": (
        *("detection", "condition", "selection", "contains", "startswith", "endswith", "re", "cidr"),
        *("all", "and", "or", "not"),
    ),
    "jsonpath": ("length(", "count(", "match(", "search("),
    "mqtt": ("+", "#"),
    "nats": ("*", ">"),
}
"""The words of documents and paths, which may stand in many places."""
_A_NAME: Final = re.compile(r"(?:^|\(|\b(?:and|or|not|xor)\b)\s*[\w.]+\s+$", re.IGNORECASE)


def choices(
    before: str, names: Iterable[str], schema: Schema | None = None, dialect: str = OWN
) -> list[Choice]:
    """Choices of what may follow a text, as the reader of filters expects it. `names`: the known attributes.

    A word that is begun is completed; `names` are offered where a constraint or a name may stand.
    """
    if len(before) > TEXT_MAX:
        return []
    found = _WORD.search(before)
    begun = found[0] if found else ""
    rest = before[: len(before) - len(begun)]
    own = dialect in ("", OWN)
    words = _own_words(rest, names, schema) if own else _words_of(dialect, rest, names)
    typed = begun if own else begun.casefold()
    fitting = dict.fromkeys(
        each
        for each in words
        if (each[0] if own else each[0].casefold()).startswith(typed)
        and (each[0] != begun or each[1] != "attribute")
    )
    return [Choice(text, len(begun), kind) for text, kind in fitting if text != begun][:CHOICES_MAX]


def _own_words(rest: str, names: Iterable[str], schema: Schema | None) -> list[tuple[str, str]]:
    words: list[tuple[str, str]] = []
    for expected in _expected(rest, schema):
        if expected.startswith("a constraint") or expected == "a name":
            words += ((name, "attribute") for name in names)
            if expected != "a name":
                words += (("exists", "operator"), ("absent", "operator"))
        elif not _EXAMPLE.match(expected):
            words.append((expected, "operator"))
    return words


def _words_of(dialect: str, rest: str, names: Iterable[str]) -> list[tuple[str, str]]:
    """The words that may come next in another language, as its reader expects them."""
    known = [(name, "attribute") for name in names]
    if dialect in _WORDS:
        return [*known, *((word, "operator") for word in _WORDS[dialect])]
    if not rest.strip():
        return known
    try:
        read(dialect, rest)
    except FilterSyntaxError as error:
        words: list[tuple[str, str]] = []
        for expected in error.expected:
            if expected in ("a name", "a value"):
                words += known
            elif not _EXAMPLE.match(expected) and expected != "the end":
                words.append((expected, "operator"))
        return words
    except FairleadError:
        return []
    following = _AFTER_A_NAME if _A_NAME.search(rest) else _AFTER_ALL
    return [(word, "operator") for word in following.get(dialect, ())]


def _expected(before: str, schema: Schema | None) -> Sequence[str]:
    try:
        parse(before, schema)
    except FilterSyntaxError as error:
        lines = before.split("\n")
        at_end = error.line >= len(lines) and error.column > len(lines[-1].rstrip())
        return [each for each in error.expected if each != "the end"] if at_end else ()
    except FairleadError:
        return ()
    return ("and", "or") if before.strip() else ()


def names_in(events: Iterable[Event]) -> list[str]:
    """The names of attributes of events, in their order."""
    found: dict[str, None] = {}
    for event in events:
        if event.notification is not None:
            found.update(dict.fromkeys(event.notification.attributes))
    return list(found)


# -- events ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Event:
    """A line of text as an event, or why it is none; and whether a filter matches it."""

    number: int
    text: str
    notification: Notification | None = None
    problem: str = ""
    explanation: Explanation | None = None


def events_in(text: str, filter: Filter | None = None) -> list[Event]:
    """The events of a text, one in each line as JSON, up to a number; with what a filter says of each."""
    lines = text.split("\n")
    events: list[Event] = []
    for number, found in read_lines(BytesIO(text.encode()), "events", None, False):
        if len(events) == EVENTS_MAX:
            break
        shown = lines[number - 1].strip() if number <= len(lines) else ""
        if isinstance(found, Rejection):
            events.append(Event(number, shown, problem=found.reason))
        else:
            explanation = None if filter is None else explain(filter, found)
            events.append(Event(number, shown, found, explanation=explanation))
    return events


# -- two filters -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Compared:
    """Two filters: their relation, and an event in each part of their picture that has one."""

    relation: Relation
    first_only: Notification | None
    both: Notification | None
    second_only: Notification | None
    merger: str
    """The filter that matches what one of them does; empty if no single one does."""
    parts: tuple[bool, bool, bool] = field(default=(True, True, True))
    """The parts that can have an event: the first alone, both, the second alone."""


_PARTS: Final = {
    "identical": (False, True, False),
    "covers": (True, True, False),
    "covered": (False, True, True),
    "overlaps": (True, True, True),
    "disjoint": (True, False, True),
}


def compared(first: Filter, second: Filter, schema: Schema | None = None) -> Compared:
    """The relation of two filters, with witnesses."""
    relation = relate(first, second, schema)
    merger = merge([first, second], schema)
    return Compared(
        relation,
        witness(first, but_not=second, schema=schema),
        witness(And.of((first, second)), schema=schema),
        witness(second, but_not=first, schema=schema),
        "" if merger is None else str(merger.filter),
        _PARTS[relation.name],
    )
