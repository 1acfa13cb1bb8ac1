"""Patterns as a table: their subscribers, and the part of the order for which each holds.

    {"id": "p1", "subscriber": "ada", "pattern": "A followed by B within 1 hour, same room", "from": …, "until": …}
    {"id": "f1", "subscriber": "bob", "fair": "A.x < B.y", "choice": "most recent"}

A row has a pattern, or a fair subscription and which of its events are to be taken, by default the first received;
what is said of patterns holds for both. A pattern looks at what stands from `from` on, and finds what ends before
`until`. As with subscriptions, a change takes effect at a point of the order: a `from` below the watermark at
which it is taken in is moved to it; a row replaces the one with its id from its `from` on, and ends it if it has
no pattern. So replaying the same changes at the same watermarks gives the same patterns, and these the same
composites.

What is detected are automata. Patterns that look for the same share one. Of a fair subscription, each conjunction
is one: it is matched by itself, and so shared with whoever else asks for it, under whichever name.

Patterns are a value: they travel to workers as they are, and are compiled there, once for each process.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fairlead.correlation import fair
from fairlead.correlation.fair import Choice
from fairlead.correlation.patterns import Pattern, parse
from fairlead.correlation.patterns.detector import shared_of
from fairlead.correlation.patterns.levels import Seeing, leveled
from fairlead.correlation.patterns.model import atoms
from fairlead.correlation.queries import Query
from fairlead.correlation.relating import types_seen
from fairlead.errors import FairleadError, FilterError, PipelineError, ValueRefused
from fairlead.filters import Schema
from fairlead.filters.naming import Attributes
from fairlead.ingest import Rejection
from fairlead.model.encoding import parse_json
from fairlead.model.order import BEGINNING, END
from fairlead.spark.parts import Subscription
from fairlead.spark.subscriptions import (
    Ending,
    Entry,
    Noun,
    SubscriptionsInput,
    admitted,
    entries,
    entry_of,
    load_extension,
    read_entry,
    rejection_of,
    without_location,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Automaton", "ChangedPatterns", "Correlation", "PatternRow", "Patterns", "marked", "query_in"]

PATTERN: Final = Noun("pattern", "pattern", ("fair", "choice"))
FAIR: Final = Noun("fair subscription", "fair", ("choice",))
CHOICES: Final = {each.value: each for each in Choice}
VERSION: Final = 1
"""Of what is written down."""


class PatternRow(NamedTuple):
    """A pattern, or a fair subscription, of a subscriber, for a part of the order."""

    id: str
    subscriber: str
    text: str
    since: int = BEGINNING
    until: int = END
    choice: str = ""
    """Of a fair subscription, and of nothing else: which events it takes."""

    @property
    def always(self) -> PatternRow:
        """The same without its end: what a change of that does not change."""
        return self._replace(until=END)


class Automaton(NamedTuple):
    """Patterns that differ in their name and in what they give with a match: they are detected together.

    Its name says what it looks for and from where on, so what it has in progress is found again by it.
    """

    name: str
    pattern: Pattern
    since: int
    types: frozenset[str]
    """The types that it names: composites of others are seen by these only."""
    rows: tuple[int, ...]
    """The rows that ask for it."""
    component: str = ""
    """The component that asks, where scopes say what each one sees."""


class Correlation(NamedTuple):
    """A conjunction of fair subscriptions, and which of its events are taken.

    Its name says so, and from where on: what it holds is found again by that.
    """

    name: str
    conjunction: fair.Conjunction
    choice: Choice
    since: int
    types: frozenset[str]
    """The types of composites that it may take."""
    rows: tuple[int, ...]
    """The rows that ask for it."""
    component: str = ""
    """The component that asks, where scopes say what each one sees."""


@dataclass(frozen=True, slots=True)
class ChangedPatterns:
    """The result of changes: the patterns from now on, and the rejected changes."""

    patterns: Patterns
    begun: tuple[PatternRow, ...] = ()
    cut: tuple[PatternRow, ...] = ()
    """Those that were there before and end earlier now, with where they end."""
    rejections: tuple[Rejection, ...] = ()


@dataclass(frozen=True)
class Patterns:
    """All patterns of a pipeline. Two are equal iff they have the same rows, schema and extensions."""

    rows: tuple[PatternRow, ...] = ()
    schema: Schema | None = None
    extensions: tuple[str, ...] = field(default=())
    apart: bool = False
    """Whether those of different subscribers are detected apart: scopes say what each of them sees."""

    def __len__(self) -> int:
        return len(self.rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return Patterns, (
            self.rows,
            self.schema,
            self.extensions,
            self.apart,
        )  # without what can be worked out again

    def count_from(self, watermark: int) -> int:
        """The number of ids that hold at a watermark or later."""
        return len({row.id for row in self.rows if row.until > max(row.since, watermark)})

    def load(self) -> None:
        """See to it that this process knows the extensions that the patterns use."""
        for name in self.extensions:
            load_extension(name)

    def question(self, row: PatternRow) -> Query:
        """The query of a row."""
        return _question(row.text, row.choice, self.schema)

    def pattern(self, row: PatternRow) -> Pattern:
        """The pattern of a row that has one."""
        return _parsed(row.text, self.schema)

    # -- reading -------------------------------------------------------------------------------------------

    @classmethod
    def read(
        cls,
        given: SubscriptionsInput | DataFrame | Iterable[Entry | Mapping[str, Any]],
        *,
        schema: Schema | None = None,
        spark: SparkSession | None = None,
        extensions: Sequence[str] = (),
    ) -> Patterns:
        """Read and check patterns. PipelineError has the first mistake with its location, and the number
        of others."""
        empty = cls((), schema, tuple(extensions))
        empty.load()
        rows: dict[str, tuple[Entry, PatternRow]] = {}
        problems: list[tuple[str, FairleadError]] = []
        for entry in entries(given, spark, ("id",), PATTERN):
            try:
                found, choice = _read(entry)
                if isinstance(found, Ending):
                    raise ValueRefused(
                        f"the pattern {found.id!r} has no text",
                        hint="a row has a `pattern` or, for a fair subscription, `fair`",
                    )
                row = _pattern_row(found, choice)
                empty.question(row)
                if (known := rows.setdefault(row.id, (entry, row)))[1] != row:
                    raise ValueRefused(
                        f"the id {row.id!r} is taken by another pattern, {known[0].location}",
                        hint="ids are unique; a pattern that changes is a change, read while the stream runs",
                    )
            except FairleadError as error:
                problems.append((str(entry.location), error))
        if problems:
            location, first = problems[0]
            more = f"\n  and {len(problems) - 1} more that cannot be read" if len(problems) > 1 else ""
            raise PipelineError(f"{location}: {without_location(first)}{more}") from first
        patterns = replace(empty, rows=tuple(rows[id][1] for id in sorted(rows)))
        try:
            patterns.levels  # noqa: B018  # asked now, it fails now
        except FilterError as error:
            raise PipelineError(f"patterns: {error}") from error
        return patterns

    # -- changing ------------------------------------------------------------------------------------------

    def changed(self, changes: Iterable[Entry | Mapping[str, Any]], watermark: int) -> ChangedPatterns:
        """These patterns after changes, in the order given, that are taken in at a watermark.

        A change that cannot be read, that ends what is not there, or by which a pattern would see its own
        composites, is a rejection and changes nothing.
        """
        rows, rejections = self.rows, []
        for number, change in enumerate(changes, start=1):
            entry = entry_of(number, change)
            try:
                rows = self._after(rows, *_read(entry), watermark)
            except FairleadError as error:
                rejections.append(rejection_of(entry, error))
        before = {row.always: row for row in self.rows}
        after = {row.always: row for row in rows if row.until > row.since}
        return ChangedPatterns(
            # What has ended is asked about no more.
            replace(self, rows=tuple(row for row in after.values() if row.until > watermark)),
            tuple(row for key, row in after.items() if key not in before),
            tuple(
                row if (left := after.get(key)) is None else left
                for key, row in before.items()
                if key not in after or after[key].until < row.until
            ),
            tuple(rejections),
        )

    def _after(
        self, rows: tuple[PatternRow, ...], change: Subscription | Ending, choice: str, watermark: int
    ) -> tuple[PatternRow, ...]:
        """Rows after one change; FairleadError where it cannot be taken in."""
        if isinstance(change, Ending):
            if not any(row.id == change.id and row.until > max(row.since, watermark) for row in rows):
                raise ValueRefused(f"there is no pattern {change.id!r} that could be ended")
            return _ended(
                rows, change.id, max(watermark if change.until is None else change.until, watermark)
            )
        row = _pattern_row(admitted(change, watermark), choice)
        self.question(row)
        changed = (*_ended(rows, row.id, row.since), row)
        replace(self, rows=changed).levels  # noqa: B018  # FilterError where a pattern would see itself
        return changed

    # -- what is detected ----------------------------------------------------------------------------------

    @cached_property
    def levels(self) -> tuple[tuple[Automaton | Correlation, ...], ...]:
        """The automata and correlations, level by level: each above all whose composites it sees.

        FilterError where patterns see their own composites.
        """
        automata: dict[str, Automaton | Correlation] = {}
        automata |= {each.name: each for each in self._automata()}
        automata |= {each.name: each for each in self._correlations()}
        levels = leveled({name: self._seeing(each) for name, each in automata.items()})
        found: list[list[Automaton | Correlation]] = [[] for _ in range(1 + max(levels.values(), default=-1))]
        for name in sorted(levels):
            found[levels[name]].append(automata[name])
        return tuple(map(tuple, found))

    def _seeing(self, automaton: Automaton | Correlation) -> Seeing:
        """The mutual view of an automaton and others, under all its names."""
        questions = [self.question(self.rows[row]) for row in automaton.rows]
        makes = frozenset(type for each in questions for type in _made(each))
        return Seeing(automaton.types, makes)

    @cached_property
    def attributes(self) -> frozenset[str] | None:
        """The attributes that detection depends on: those that patterns name; None if it may be all of them."""
        attributes, named = Attributes(), {"interval", "type"}
        for row in self.rows:
            if row.choice:
                return None
            pattern = self.pattern(row)
            for atom in atoms(pattern.body):
                for filter in (atom.filter, atom.domain):
                    if filter is not None:
                        attributes.add(filter)
            references = [each for condition in pattern.conditions for each in condition.references]
            references += [output.operand.reference for output in pattern.outputs]
            named |= {*pattern.same, *(each.attribute for each in references if each.attribute is not None)}
        return None if attributes.names is None else frozenset(attributes.names | named)

    def _automata(self) -> Iterable[Automaton]:
        found: dict[str, Automaton] = {}
        for number, row in enumerate(self.rows):
            if not row.choice:
                shared, types = _shared(row.text, self.schema)
                whose = self._whose(row)
                name = f"{shared.hash}@{row.since}{marked(whose)}"
                known = found.get(name)
                rows = (number,) if known is None else (*known.rows, number)
                found[name] = Automaton(name, shared, row.since, types, rows, whose)
        return found.values()

    def _correlations(self) -> Iterable[Correlation]:
        found: dict[str, Correlation] = {}
        for number, row in enumerate(self.rows):
            about = self.question(row).about if row.choice else None
            for conjunction in about.conjunctions if isinstance(about, fair.Subscription) else ():
                whose = self._whose(row)
                name = f"{_digest(conjunction.text, row.choice)}@{row.since}{marked(whose)}"
                known = found.get(name)
                rows = (number,) if known is None else (*known.rows, number)
                found[name] = Correlation(
                    name, conjunction, CHOICES[row.choice], row.since, types_seen(conjunction), rows, whose
                )
        return found.values()

    def _whose(self, row: PatternRow) -> str:
        return row.subscriber if self.apart else ""

    # -- what is written down ------------------------------------------------------------------------------

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all that counts: processes that have compiled these patterns know them by it."""
        schema = None if self.schema is None else self.schema.fingerprint
        content = json.dumps([self.rows, schema, self.extensions, self.apart], ensure_ascii=False)
        return blake2b(content.encode(), digest_size=16).hexdigest()

    def dump(self) -> bytes:
        """The rows as JSON."""
        rows = [_written(row) for row in self.rows]
        return json.dumps({"version": VERSION, "patterns": rows}, ensure_ascii=False, indent=1).encode()

    @classmethod
    def restored(
        cls, content: bytes, *, schema: Schema | None = None, extensions: Sequence[str] = ()
    ) -> Patterns:
        """The patterns that `dump` has written."""
        given = json.loads(content)
        if given.get("version") != VERSION:
            raise PipelineError(
                f"patterns of version {given.get('version')}, where {VERSION} is read",
                hint="go on with the Fairlead that wrote them, or name another output",
            )
        return cls(tuple(PatternRow(**row) for row in given["patterns"]), schema, tuple(extensions))


def _read(entry: Entry) -> tuple[Subscription | Ending, str]:
    """The subscription or the ending in a row, or a FairleadError; and of a fair subscription, which events
    it takes.
    """
    content = entry.content
    fields = parse_json(content) if isinstance(content, str | bytes) else content
    if not isinstance(fields, Mapping):
        return read_entry(entry, PATTERN), ""
    row, text, choice = entry._replace(content=fields), fields.get("fair"), fields.get("choice")
    if text is None:
        if choice is not None:
            raise ValueRefused("a pattern states its selection itself", hint="`choice` goes with `fair`")
        return read_entry(row, PATTERN), ""
    if fields.get("pattern") is not None:
        raise ValueRefused("a row has a pattern or a fair subscription, not both")
    if not isinstance(text, str):
        raise ValueRefused(f"a fair subscription is a text, not {text!r}")
    choice = Choice.FIRST_RECEIVED.value if choice is None else choice
    if choice not in list(CHOICES):
        raise ValueRefused(f"no choice of events: {choice!r}", hint=" or ".join(map(repr, CHOICES)))
    return read_entry(row, FAIR), choice


def query_in(entry: Entry, schema: Schema | None) -> tuple[PatternRow, Query] | None:
    """The pattern of a row with its query; None where the row ends one. FairleadError where it cannot be read."""
    found, choice = _read(entry)
    if isinstance(found, Ending):
        return None
    row = _pattern_row(found, choice)
    return row, _question(row.text, row.choice, schema)


def _pattern_row(row: Subscription, choice: str) -> PatternRow:
    since, until = row.since, row.until
    return PatternRow(
        row.id,
        row.subscriber,
        row.filter,
        BEGINNING if since is None else since,
        END if until is None else until,
        choice,
    )


def _written(row: PatternRow) -> dict[str, Any]:
    """A row with what it has: patterns are written as they always were."""
    fields = dict(zip(PatternRow._fields, row, strict=True))
    return fields if row.choice else {name: fields[name] for name in fields if name != "choice"}


def _ended(rows: Iterable[PatternRow], id: str, until: int) -> tuple[PatternRow, ...]:
    """Rows of which those under an id end at a time, unless they end earlier."""
    return tuple(row._replace(until=min(row.until, until)) if row.id == id else row for row in rows)


@lru_cache(maxsize=1 << 15)
def _question(text: str, choice: str, schema: Schema | None) -> Query:
    if choice:
        return Query(fair.parse(text, schema), CHOICES[choice])
    return Query(_parsed(text, schema))


@lru_cache(maxsize=1 << 15)
def _parsed(text: str, schema: Schema | None) -> Pattern:
    return parse(text, schema)


@lru_cache(maxsize=1 << 15)
def _shared(text: str, schema: Schema | None) -> tuple[Pattern, frozenset[str]]:
    """The common part of patterns that are detected together, and the types that it names."""
    shared = shared_of(_parsed(text, schema))
    return shared, shared.types_named


def marked(component: str) -> str:
    """The end of the name of what is detected for one component."""
    return f"@{component}" if component else ""


def _digest(*texts: str) -> str:
    return blake2b("\0".join(texts).encode(), digest_size=16).hexdigest()


def _made(question: Query) -> frozenset[str]:
    """The types of composites that others may see."""
    if isinstance(question.about, Pattern):
        return question.about.types_made
    return frozenset({question.about.name} if question.is_public else ())
