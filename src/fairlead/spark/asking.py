"""The subscriptions and patterns of a batch, with the changes since the batch before.

Where subscriptions or patterns are watched, each file is a set of changes, and so is each version of a table with
a change feed. A batch notes which it takes before it takes them (its plan), so that it takes the same ones should
it be repeated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Final

import pyarrow as pa  # type: ignore[import-untyped]

from fairlead.correlation.queries import Query
from fairlead.dialects import OWN
from fairlead.errors import PipelineError
from fairlead.filters.schema import Schema
from fairlead.ingest import Rejection
from fairlead.model.order import BEGINNING, END
from fairlead.security import AccessPolicy
from fairlead.spark import feeds
from fairlead.spark.access import Gate, policy_of
from fairlead.spark.config import Config, PatternsSource, SubscriptionsSource
from fairlead.spark.frames import table_of_rows
from fairlead.spark.grants import Rules
from fairlead.spark.output import Manifest, Output
from fairlead.spark.patterns import PATTERN, ChangedPatterns, PatternRow, Patterns
from fairlead.spark.scoping import (
    POLICIES,
    SCOPE_CHANGES,
    ChangedScopes,
    ScopeText,
    check_patterns,
    made_in,
    scopes_of,
)
from fairlead.spark.storage import Directory
from fairlead.spark.subscriptions import (
    SUBSCRIPTION,
    Changed,
    Entry,
    Location,
    Noun,
    Subscriptions,
    SubscriptionsInput,
    entries,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from fairlead.spark.versions import Decided, DecidedHere

__all__ = [
    "Demand",
    "check_ids",
    "demand",
    "read_patterns",
    "read_subscriptions",
    "schema_of",
    "table_of",
]

SUBSCRIBED: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "subscriber", "filter")),
        *((name, pa.int64()) for name in ("from", "until")),
    ]
)
ENDED: Final = pa.schema([field for field in SUBSCRIBED if field.name != "filter"])


def schema_of(config: Config) -> Schema | None:
    """The schema that a pipeline's filters and notifications keep to."""
    return None if config.schema is None else Schema.read(config.schema)


# -- of a batch ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Demand:
    """The subscriptions and patterns of a batch, and how they differ from those of the batch before."""

    changed: Changed
    detecting: ChangedPatterns = field(default_factory=lambda: ChangedPatterns(Patterns()))
    files: Sequence[str] = ()
    """The files of changes that the batch takes."""
    is_first: bool = False
    scoping: ChangedScopes | None = None
    """The scope graph with all changes so far, where there is one."""
    gate: Gate | None = None
    """The access policy, where there is one, and what it decided about the subscriptions that the batch reads."""
    keys: str | None = None
    """The file with the keys that sealed predicates are decided with."""

    @property
    def policy(self) -> AccessPolicy | None:
        """The access policy, where there is one."""
        return None if self.gate is None else self.gate.policy

    @property
    def rules(self) -> Rules | None:
        """The rules that let deliveries pass, for workers; None without an access policy."""
        if self.gate is None:
            return None
        of = ((row, self._question(row)) for row in self.patterns.rows)
        patterns = {row.id: self.gate.roles(row.subscriber, question) for row, question in of}
        return Rules(self.gate.policy, patterns, self.subscriptions.extensions)

    @property
    def subscriptions(self) -> Subscriptions:
        """The subscriptions, decided with the keys that there are."""
        return replace(self.changed.subscriptions, keys=self.keys)

    @property
    def patterns(self) -> Patterns:
        return self.detecting.patterns

    @property
    def rejections(self) -> list[tuple[str, Rejection]]:
        """The changes that could not be taken, with what they were to change."""
        both = (("subscriptions", self.changed), ("patterns", self.detecting))
        rejections = [(source, each) for source, changed in both for each in changed.rejections]
        if self.gate is not None:
            rejections += self.gate.rejections
        if self.scoping is not None:
            rejections += (("scopes", each) for each in self.scoping.rejections)
        return rejections

    @property
    def scopes(self) -> ScopeText | None:
        """The scope graph, with all changes so far."""
        return None if self.scoping is None else self.scoping.scopes

    def ruled(self, decided: Decided | DecidedHere) -> Demand:
        """The same with the changes that rules of scopes have made in the batch."""
        if self.scoping is None or not self.scoping.scopes.opened.is_ruled:
            return self
        return replace(self, scoping=self.scoping.ruled(decided.states))

    @property
    def has_private_patterns(self) -> bool:
        """Whether some pattern has composites that only its own subscribers get."""
        return not all(self._question(row).is_public for row in self.patterns.rows)

    def begun(self) -> pa.Table | None:
        """The subscriptions that begin with this batch."""
        if self.is_first:
            return table_of(self.subscriptions)
        rows = [
            (each.id, each.subscriber, each.filter, each.since, each.until) for each in self.changed.begun
        ]
        return table_of_rows(rows, SUBSCRIBED) if rows else None

    def detecting_from_now(self) -> pa.Table | None:
        """The patterns that begin with this batch and whose composites are public, with what these match."""
        given = self.patterns.rows if self.is_first else self.detecting.begun
        public = [(row, question) for row in given if (question := self._question(row)).is_public]
        rows = [(row.id, row.subscriber, str(question.filter), *_validity(row)) for row, question in public]
        return table_of_rows(rows, SUBSCRIBED) if rows else None

    def over(self) -> pa.Table | None:
        """The subscriptions of the batch before that end earlier than they had declared."""
        if self.is_first or not (self.changed.cut or self.detecting.cut):
            return None
        rows = [(each.id, each.subscriber, each.since, each.until) for each in self.changed.cut]
        rows += [
            (row.id, row.subscriber, *_validity(row))
            for row in self.detecting.cut
            if self._question(row).is_public
        ]
        return table_of_rows(rows, ENDED)

    def _question(self, row: PatternRow) -> Query:
        return self.patterns.question(row)


def demand(
    config: Config, spark: SparkSession, number: int, last: Manifest | None, ahead: Changed | None = None
) -> Demand:
    """The subscriptions and patterns of a batch: in the first one all that exist, later those before with the
    changes since.

    `ahead` are subscriptions that were read before a stream began: its first batch need not read them again.
    """
    output, schema = Output(config.output), schema_of(config)
    policy = policy_of(config, schema)
    gate = None if policy is None else Gate(policy, schema)
    with _planned(config, number, last) as files:
        own = _files_of(config.subscriptions, files)
        theirs = [] if config.patterns is None else _files_of(config.patterns, files)
        if last is None:
            index = output.index.uri
            changed = ahead or read_subscriptions(config, index, spark, schema, own, gate=gate)
            detecting = read_patterns(config, spark, schema, theirs, gate=gate)
        else:
            changed = _subscriptions_since(config, spark, last, own, gate)
            detecting = _patterns_since(config, spark, last, theirs, gate)
        if last is None or files:
            check_ids(changed.subscriptions, detecting.patterns)
        keys = None if config.security is None else config.security.keys
        scoping = _scopes_since(config, last, files)
        if scoping is not None:
            apart = replace(detecting.patterns, apart=True)
            detecting = replace(detecting, patterns=apart)
            if config.patterns is not None:
                check_patterns(scoping.scopes.opened)
        return Demand(changed, detecting, files, last is None, scoping, gate, keys)


def _scopes_since(config: Config, last: Manifest | None, files: Sequence[str]) -> ChangedScopes | None:
    """The scope graph of a batch: that of its file, the changes of earlier batches, and those in new files."""
    scopes = scopes_of(config)
    if scopes is not None and last is not None and scopes.opened.is_ruled:
        scopes = replace(scopes, made=made_in(Output(config.output).state_text(last.batch, POLICIES)))
    if scopes is None or config.scopes is None or config.scopes.changes is None:
        return None if scopes is None else ChangedScopes(scopes)
    before = "" if last is None else Output(config.output).state_text(last.batch, SCOPE_CHANGES)
    texts = [(file, _text_of(file)) for file in _files_in(config.scopes.changes, files)]
    watermark = BEGINNING if last is None else last.watermark
    return scopes.changed(before, texts, watermark, has_patterns=config.patterns is not None)


def _subscriptions_since(
    config: Config, spark: SparkSession, last: Manifest, files: Sequence[str], gate: Gate | None
) -> Changed:
    index = Output(config.output).index.uri
    known = Subscriptions.from_json(last.subscriptions, index, schema=schema_of(config))
    if not files:
        return Changed(known)
    return known.changed(_granted(_entries(config.subscriptions, files, spark), gate), last.watermark)


def _granted(given: Iterable[Entry], gate: Gate | None) -> Iterable[Entry]:
    return given if gate is None else gate.entries(given)


def _patterns_since(
    config: Config, spark: SparkSession, last: Manifest, files: Sequence[str], gate: Gate | None
) -> ChangedPatterns:
    if config.patterns is None:
        return ChangedPatterns(Patterns())
    text = Output(config.output).patterns(last.patterns)
    known = Patterns.restored(text, schema=schema_of(config), extensions=config.extensions)
    if not files:
        return ChangedPatterns(known)
    given = _entries(config.patterns, files, spark, PATTERN)
    return known.changed(given if gate is None else gate.patterns(given), last.watermark)


@contextmanager
def _planned(config: Config, number: int, last: Manifest | None) -> Iterator[Sequence[str]]:
    """The files of changes that a batch takes: those that an earlier attempt at it meant to take.

    A plan that cannot be carried out is dropped by the attempt that made it, so that a file can be put right
    under another name: nobody has seen anything of the batch yet. One that was there before is carried out as it
    is: a table or a callback may have seen the batch.
    """
    if not config.watched:
        yield ()
        return
    output = Output(config.output)
    files = output.plan(number)
    if made := files is None:
        taken = set() if last is None else set(output.taken(last))
        files = list(_waiting(config, taken))
        output.keep_plan(number, files)
    elif gone := next((file for file in files if not _is_there(config, file)), None):
        plan = output.plan_path(number)
        raise PipelineError(
            f"{gone} is missing, and {plan} lists it for batch {number}",
            hint="put the file back, or delete the plan: then the batch takes the files that are there",
        )
    try:
        yield files
    except Exception:
        if made:
            output.drop_plan(number)
        raise


def table_of(subscriptions: Subscriptions) -> pa.Table:
    """All subscriptions as a table: id, subscriber, filter, from and until."""
    batches = list(subscriptions.tables())
    return (pa.Table.from_batches(batches) if batches else SUBSCRIBED.empty_table()).select(SUBSCRIBED.names)


def read_subscriptions(
    config: Config,
    directory: str,
    spark: SparkSession | None,
    schema: Schema | None,
    files: Sequence[str] | None = None,
    *,
    gate: Gate | None = None,
) -> Changed:
    """All subscriptions that there are at the beginning; where they are watched, in these files."""
    source = config.subscriptions
    if not source.watch:
        named = SubscriptionsInput(source.path, source.format, source.options, dialect=source.dialect)
        given = named if gate is None else gate.entries(entries(named, spark, ("id", "filter")))
        return Changed(
            Subscriptions.read(given, directory, schema=schema, spark=spark, extensions=config.extensions)
        )
    # Where files are changes, the first ones are too: replayed from the beginning, the same order gives the same.
    files = list(_of_source(source)) if files is None else files
    empty = Subscriptions.read((), directory, schema=schema, extensions=config.extensions)
    changed = empty.changed(_granted(_entries(source, files, spark), gate), BEGINNING)
    _check(changed.rejections)
    return changed


def read_patterns(
    config: Config,
    spark: SparkSession | None,
    schema: Schema | None,
    files: Sequence[str] | None = None,
    *,
    gate: Gate | None = None,
) -> ChangedPatterns:
    """All patterns that there are at the beginning; where they are watched, in these files."""
    source = config.patterns
    if source is None:
        return ChangedPatterns(Patterns())
    if not source.watch:
        named = SubscriptionsInput(source.path, source.format, source.options)
        given = named if gate is None else gate.patterns(entries(named, spark, ("id",), PATTERN))
        return ChangedPatterns(Patterns.read(given, schema=schema, spark=spark, extensions=config.extensions))
    files = list(_of_source(source)) if files is None else files
    empty = Patterns.read((), schema=schema, extensions=config.extensions)
    changes = _entries(source, files, spark, PATTERN)
    changed = empty.changed(changes if gate is None else gate.patterns(changes), BEGINNING)
    _check(changed.rejections)
    return changed


def check_ids(subscriptions: Subscriptions, patterns: Patterns) -> None:
    """Check that no id is that of a subscription and of a pattern, since a delivery has only the id. Otherwise
    PipelineError."""
    if shared := subscriptions.among({row.id for row in patterns.rows}):
        more = f" and {len(shared) - 1:,} more" if len(shared) > 1 else ""
        raise PipelineError(
            f"the id {shared[0]!r}{more} is that of a subscription and of a pattern",
            hint="a delivery names its subscription or pattern by the id: give one of the two another",
        )


def _check(rejections: Sequence[Rejection]) -> None:
    if rejections:
        first = rejections[0]
        raise PipelineError(f"{Location(first.source, first.line)}: {first.reason}")


def _files(path: str) -> list[str]:
    directory = Directory(path)
    if not directory.is_directory():
        raise PipelineError(
            f"{path} is no directory, and what is watched are files in one",
            hint="make it, or name the file without watch = true",
        )
    return [directory.path(name) for name, _ in directory.files()]


def _waiting(config: Config, taken: Collection[str]) -> Iterator[str]:
    """The changes that have not been taken: files, and versions of tables."""
    for source in (config.subscriptions, config.patterns):
        if source is not None and source.watch:
            yield from _of_source(source, taken)
    if config.scopes is not None and config.scopes.changes is not None:
        yield from (file for file in _files(config.scopes.changes) if file not in taken)


def _of_source(source: PatternsSource, taken: Collection[str] = ()) -> Iterable[str]:
    """The changes of a source that is watched, without those that have been taken."""
    if feeds.has_feed(source):
        return feeds.next_of(source, taken)
    return (file for file in _files(source.path) if file not in taken)


def _files_of(source: PatternsSource, files: Iterable[str]) -> list[str]:
    """Of the changes those of a source."""
    if feeds.has_feed(source):
        return list(map(str, feeds.ranges_of(source, files)))
    return _files_in(source.path, files) if source.watch else []


def _files_in(path: str, files: Iterable[str]) -> list[str]:
    directory = f"{Directory(path).uri}/"
    return [file for file in files if file.startswith(directory)]


def _is_there(config: Config, file: str) -> bool:
    """Whether a change can still be read. Of versions of a table, reading them says so."""
    sources = (each for each in (config.subscriptions, config.patterns) if each is not None)
    if any(feeds.has_feed(each) and feeds.ranges_of(each, [file]) for each in sources):
        return True
    directory, _, name = file.rpartition("/")
    return Directory(directory).exists(name)


def _text_of(file: str) -> str:
    directory, _, name = file.rpartition("/")
    return Directory(directory).read(name).decode()


def _entries(
    source: PatternsSource, files: Iterable[str], spark: SparkSession | None, noun: Noun = SUBSCRIPTION
) -> Iterable[Entry]:
    dialect = source.dialect if isinstance(source, SubscriptionsSource) else OWN
    if feeds.has_feed(source):
        if spark is None:
            raise PipelineError(f"{noun.many}: {source.path} cannot be read without Spark")
        ranges = feeds.ranges_of(source, files)
        rows = chain.from_iterable(feeds.rows_in(each, source, spark, noun) for each in ranges)
        return (each._replace(dialect=dialect) for each in rows)
    inputs = (SubscriptionsInput(file, source.format, source.options, dialect=dialect) for file in files)
    return chain.from_iterable(entries(each, spark, noun=noun) for each in inputs)


def _validity(row: PatternRow) -> tuple[int | None, int | None]:
    """From when and until when a pattern is asked for; None where that is from the beginning, or for ever."""
    return (None if row.since == BEGINNING else row.since, None if row.until == END else row.until)
