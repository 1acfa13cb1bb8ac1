"""Scopes with mappings and policies on Spark: which components see which version of a notification, and
when.

    released ─┬─▶ filters alone decide ─▶ match, narrow (columns) ──────────────────┐
              └─▶ a mapping or a policy is in reach ─▶ decide ─┬─▶ now ─────────────┼─▶ received
                                                  ▲            ├─▶ later ─▶ due ────┘
                                       states of policies ◀────┘      └─▶ the next batch

Law: a pipeline delivers what the ordered bus with the same graph, subscriptions and notifications does, however
the order was cut into batches.

Where a graph has mappings and no policies, rows of producers that can reach a mapping are followed as columns
(`fairlead.spark.mapped`). Rows that can reach a policy become notifications in Python, a record batch at a time;
`fairlead.scopes.running` decides about them, as it does on the bus. Without states of policies each task decides
about its own rows. With them one task takes these rows in the total order, and the states are a part of what the
batch leaves to the next one. Where rules change the graph, that task takes all rows that may trigger one, and the
changes that it makes are a part of the states; only then the graphs are known that the others are judged by.

A version that a policy moves to a later order time waits for the watermark; then the subscriptions that are valid
there get it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from fairlead.errors import ScopeError
from fairlead.model import Notification, Record
from fairlead.model.order import BEGINNING, END, OrderKey
from fairlead.scopes import print_statements
from fairlead.scopes.evaluation import Evaluation
from fairlead.scopes.language.statements import Statement
from fairlead.scopes.rules import Trigger
from fairlead.scopes.running import Notice, Running, Seen
from fairlead.scopes.sights import Failure, Sight
from fairlead.scopes.states import states_to_text
from fairlead.spark.frames import (
    KEY,
    MOVED,
    PUBLISHED,
    RECORD,
    VERSION,
    encode,
    notifications_in,
    to_records,
)
from fairlead.spark.mapped import RECEIVER, Received, received_of
from fairlead.spark.matcher import RECEIVERS, subscribers_of
from fairlead.spark.matching import matched, targets_of
from fairlead.spark.scoping import Epoch, OpenedScopes, Plain, ScopeText, with_made
from fairlead.spark.subscriptions import Subscriptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["LATER", "Decided", "DecidedHere", "Deciding", "Due", "decided", "decided_here", "received"]

log: Final = logging.getLogger(__name__)

ONLY: Final = "only"
STATES: Final = "states"
_RECEIVERS: Final = pa.list_(RECEIVER)
_CONTENT: Final = (
    ("time", pa.int64()),
    ("producer", pa.string()),
    ("sequence", pa.int64()),
    ("id", pa.string()),
    ("event_time", pa.int64()),
    (RECORD, pa.string()),
    (PUBLISHED, pa.string()),
    (VERSION, pa.string()),
)
RECEIVED: Final = pa.schema([*_CONTENT, (MOVED, pa.bool_()), (RECEIVERS, _RECEIVERS)])
"""Versions of notifications with those who get them."""
LATER: Final = pa.schema([*_CONTENT, (ONLY, pa.list_(pa.string()))])
"""Versions at the order times that policies have moved them to, with the components that are to see them."""
DECIDED: Final = pa.schema([*RECEIVED, LATER.field(ONLY), (STATES, pa.string())])
"""Both together, and the states of policies in a row of their own."""


def received(
    released: DataFrame,
    subscriptions: Subscriptions,
    scopes: ScopeText | None,
    made: Decided | None,
    *,
    content: bool,
) -> DataFrame:
    """All notifications of a batch with those of their receivers that may see them, which are all of them without
    scopes; with `content`, as records where the graph has more than filters.
    """
    if made is None:
        return matched(released, subscriptions, payload=content, scopes=scopes)
    rows = to_records(released) if content else released
    seen = matched(rows, subscriptions, payload=content, scopes=scopes)
    columns = [
        *KEY,
        *(name for name in ("event_time", RECORD, PUBLISHED) if content),
        VERSION,
        MOVED,
        RECEIVERS,
    ]
    seen = seen.withColumn(VERSION, F.lit("")).withColumn(MOVED, F.lit(False))
    if content and PUBLISHED not in seen.columns:
        seen = seen.withColumn(PUBLISHED, F.lit(None).cast("string"))
    return seen.select(*columns).unionByName(made.received.select(*columns))


def decided(
    released: DataFrame,
    subscriptions: Subscriptions,
    scopes: ScopeText,
    *,
    states: str = "",
    moved: DataFrame | None = None,
    since: int = BEGINNING,
    bound: int = END,
) -> Decided:
    """The outcome of released notifications that can reach a mapping or a policy.

    `states` and `moved` are what the batch before has left; `since` is its watermark, `bound` that of this one.
    """
    opened = scopes.opened
    spark = released.sparkSession
    targets = targets_of(spark, subscriptions)
    records = to_records(released)
    special = records.mapInArrow(Plain(scopes, special=True), records.schema)
    in_order = _is_in_order(opened, since, bound)
    if in_order:
        special = special.repartition(1).sortWithinPartitions(*KEY)
    deciding = Deciding(scopes, targets, states, since, bound, in_order)
    rows = special.mapInArrow(deciding, from_arrow_schema(DECIDED))
    return Decided(rows, targets, states, moved, bound)


def _is_in_order(opened: OpenedScopes, since: int, bound: int) -> bool:
    """Whether one task has to take all notifications in their order."""
    return (
        opened.has_states or opened.is_ruled or any(since <= each.key.time < bound for each in opened.notices)
    )


class DecidedHere(NamedTuple):
    """The decisions of a batch, as tables: what is received in it, what waits, and the states of policies."""

    received: pa.Table
    waiting: pa.Table
    states: str


def decided_here(
    released: pa.Table,
    subscriptions: Subscriptions,
    scopes: ScopeText,
    *,
    states: str,
    moved: pa.Table,
    since: int,
    bound: int,
) -> DecidedHere:
    """The same as `decided`, of rows that are here, in the total order."""
    targets = (subscriptions,)
    in_order = _is_in_order(scopes.opened, since, bound)
    given = Plain(scopes, special=True)(released.combine_chunks().to_batches())
    deciding = Deciding(scopes, targets, states, since, bound, in_order)
    rows = pa.Table.from_batches(deciding(given), schema=DECIDED)
    is_later, is_state = rows.column(ONLY).is_valid(), rows.column(STATES).is_valid()
    later = pa.concat_tables([rows.filter(is_later).select(LATER.names), moved])
    is_due = pc.less(later.column("time"), bound)
    due = pa.Table.from_batches(Due(targets)(later.filter(is_due).to_batches()), schema=RECEIVED)
    now = rows.filter(pc.invert(pc.or_(is_later, is_state))).select(RECEIVED.names)
    left = rows.filter(is_state).column(STATES).to_pylist()
    return DecidedHere(
        pa.concat_tables([now, due]), later.filter(pc.invert(is_due)), left[0] if left else states
    )


@dataclass(frozen=True, slots=True)
class Decided:
    """The decisions of a batch. `persist` it: several frames are made of it."""

    rows: DataFrame
    targets: tuple[Subscriptions, ...]
    before: str
    moved: DataFrame | None
    bound: int

    def persist(self) -> Decided:
        """The same, computed once."""
        return replace(self, rows=self.rows.persist())

    def unpersist(self) -> None:
        """Give back what `persist` took."""
        self.rows.unpersist()

    @property
    def _later(self) -> DataFrame:
        later = self.rows.where(F.col(ONLY).isNotNull()).select(*LATER.names)
        return later if self.moved is None else later.unionByName(self.moved.select(*LATER.names))

    @property
    def received(self) -> DataFrame:
        """Versions with their receivers in this batch, at once or because their time has come."""
        now = self.rows.where(F.col(ONLY).isNull() & F.col(STATES).isNull()).select(*RECEIVED.names)
        due = self._later.where(F.col("time") < F.lit(self.bound))
        return now.unionByName(due.mapInArrow(Due(self.targets), from_arrow_schema(RECEIVED)))

    @property
    def waiting(self) -> DataFrame:
        """The deliveries that were moved to order times above the watermark."""
        return self._later.where(F.col("time") >= F.lit(self.bound))

    @property
    def states(self) -> str:
        """The states of policies behind this batch."""
        found = self.rows.where(F.col(STATES).isNotNull()).select(STATES).collect()
        return found[0][0] if found else self.before


class _Given(NamedTuple):
    """A notification at its place in the order, with its texts."""

    notification: Notification
    key: OrderKey
    record: str
    published: str | None


@dataclass(frozen=True, slots=True)
class Deciding:
    """Record batches of notifications in; versions with the components that see them out, now and later.

    With `in_order` the rows are all that there are, in the total order; notices about scopes that are dropped are
    taken between them, and the states of policies come last.
    """

    scopes: ScopeText
    targets: tuple[Subscriptions, ...]
    states: str = ""
    since: int = BEGINNING
    bound: int = END
    in_order: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        opened = self.scopes.opened
        made = list(self.scopes.made)

        def changed(statement: Statement, key: OrderKey | None, behind: bool) -> None:
            assert key is not None, "rules act on notifications, which have order keys"
            made.append((print_statements([statement]), (key.time, key.producer, key.sequence, key.id)))

        running = opened.running(self.states, changed)
        notices = deque(self._notices(opened))
        by_mappings = not (self.in_order or opened.has_policies)
        for batch in batches:
            if batch.num_rows and by_mappings:
                for epoch, those in opened.parts(batch):
                    part = batch if len(those) == batch.num_rows else batch.take(pa.array(those))
                    yield from self._mapped(running, part, epoch)
            elif batch.num_rows:
                yield self._made(running, _given(batch), notices)
        if self.in_order:
            rows = [row for each in notices for row in self._taken_notice(running, each)]
            if opened.has_states or opened.is_ruled:
                rows.append({STATES: with_made(states_to_text(running), made)})
            yield _batch_of(rows, DECIDED)

    def _notices(self, opened: OpenedScopes) -> list[Notice]:
        if not self.in_order:
            return []
        return [each for each in opened.notices if self.since <= each.key.time < self.bound]

    def _made(self, running: Running, given: Sequence[_Given], notices: deque[Notice]) -> pa.RecordBatch:
        known = self._matched_before(running, given)
        rows: list[dict[str, Any]] = []
        for each, answers in zip(given, known, strict=True):
            while notices and notices[0].key < each.key:
                rows += self._taken_notice(running, notices.popleft())
            rows += self._taken(running, each, answers)
        return _batch_of(rows, DECIDED)

    def _mapped(self, running: Running, batch: pa.RecordBatch, epoch: Epoch) -> Iterator[pa.RecordBatch]:
        """The rows of notifications about which one graph without policies decides, as columns."""
        scopes = [each.name for each in epoch.graph.scopes]
        alone = pc.is_in(batch.column("producer"), value_set=pa.array(scopes, pa.string()))
        by_itself: NDArray[np.bool_] = alone.to_numpy(zero_copy_only=False).astype(np.bool_)
        rest = batch.filter(pa.array(~by_itself)) if by_itself.any() else batch
        if rest.num_rows:
            try:
                found = received_of(rest, epoch, self.targets)
            except ScopeError:  # too many ways to follow for all of them
                by_itself[:] = True
            else:
                by_itself[np.flatnonzero(~by_itself)[found.doubtful]] = True
                yield _batch_received(rest, found)
        if by_itself.any():
            yield self._evaluated(running, _given(batch.filter(pa.array(by_itself))))

    def _evaluated(self, running: Running, given: Sequence[_Given]) -> pa.RecordBatch:
        """The rows of notifications where no policy decides, one by one; all versions are matched together."""
        evaluations: list[Evaluation | None] = []
        versions: list[Notification] = []
        starts = [0]
        for each in given:
            evaluation = running.plan_at(each.key).evaluation(each.notification, _nobody, each.key)
            try:
                versions += evaluation.explore()
                evaluations.append(evaluation)
            except ScopeError as error:  # too many paths
                _log_unseen(each.notification, error)
                evaluations.append(None)
            starts.append(len(versions))
        times = np.repeat([each.key.time for each in given], np.diff(starts)).tolist()
        found = subscribers_of(self.targets, versions, times)
        rows: list[dict[str, Any]] = []
        for number, (each, own) in enumerate(zip(given, evaluations, strict=True)):
            if own is None:
                rows.append(_row(each.record, each.published, each.notification, each.key, receivers=[]))
                continue
            part = slice(starts[number], starts[number + 1])
            answers = {v.attributes: names for v, names in zip(versions[part], found[part], strict=True)}
            own.matched = _Answers(answers, self.targets, each.key.time)
            reached = own.result()
            _log_failures(reached.failures)
            rows += _rows_of(each, reached.sights, answers)
        return _batch_of(rows, DECIDED)

    def _matched_before(
        self, running: Running, given: Sequence[_Given]
    ) -> list[dict[Record, dict[str, list[str]]]]:
        """The subscribers of the versions that notifications probably have, of all of them at once."""
        versions: list[Notification] = []
        rows: list[int] = []
        for row, each in enumerate(given):
            asked: dict[Record, Notification] = {each.notification.attributes: each.notification}

            def nobody(version: Notification, asked: dict[Record, Notification] = asked) -> Collection[str]:
                asked[version.attributes] = version
                return ()

            plan = running.plan_at(each.key)
            with suppress(ScopeError):  # `_taken` logs it
                plan.reach(each.notification, nobody, key=each.key, state=running.state)
            versions += asked.values()
            rows += [row] * len(asked)
        found = subscribers_of(self.targets, versions, [given[row].key.time for row in rows])
        known: list[dict[Record, dict[str, list[str]]]] = [{} for _ in given]
        for row, version, names in zip(rows, versions, found, strict=True):
            known[row][version.attributes] = names
        return known

    def _taken(
        self,
        running: Running,
        given: _Given,
        answers: dict[Record, dict[str, list[str]]],
        notice: Notice | None = None,
    ) -> Iterator[dict[str, Any]]:
        """The rows of one notification."""
        notification, key = given.notification, given.key

        names = _Answers(answers, self.targets, key.time)
        try:
            if notice is None:
                outcome = running.take(notification, key, names)
            else:
                outcome = running.take(notification, key, names, origins=[notice.scope], plan=notice.plan)
        except ScopeError as error:  # too many paths
            _log_unseen(notification, error)
            yield _row(given.record, given.published, notification, key, receivers=[])
            return
        _log_failures(outcome.failures)
        if running.ruled:
            self._consumed(running, outcome.seen, answers)
        yield from _rows_of(given, outcome.seen, answers)
        for later in running.due(END):
            row = _row(encode(later.notification), None, later.notification, later.key, version=later.tag)
            yield {**row, ONLY: [later.component]}

    @staticmethod
    def _consumed(
        running: Running, seen: Iterable[Seen], answers: dict[Record, dict[str, list[str]]]
    ) -> None:
        """Let rules act on deliveries."""
        for each in seen:
            if answers.get(each.notification.attributes, {}).get(each.component):
                running.happened(Trigger("con", each.component, notification=each.notification), each.key)

    def _taken_notice(self, running: Running, notice: Notice) -> list[dict[str, Any]]:
        given = _Given(notice.notification, notice.key, encode(notice.notification), None)
        return list(self._taken(running, given, {}, notice))


@dataclass(frozen=True, slots=True)
class Due:
    """Record batches of moved versions whose time has come in; the same with their receivers out."""

    targets: tuple[Subscriptions, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if not batch.num_rows:
                continue
            times = batch.column("time").to_pylist()
            found = subscribers_of(self.targets, notifications_in(batch), times)
            receivers = [
                [{"subscriber": name, "subscriptions": names[name]} for name in sorted(only) if name in names]
                for names, only in zip(found, batch.column(ONLY).to_pylist(), strict=True)
            ]
            rest = batch.drop_columns([ONLY]).append_column(
                MOVED, pa.array(np.ones(batch.num_rows, np.bool_))
            )
            yield rest.append_column(RECEIVERS, pa.array(receivers, _RECEIVERS)).select(RECEIVED.names)


@dataclass(frozen=True, slots=True)
class _Answers:
    """The subscribers of versions, which are matched where they were not before."""

    known: dict[Record, dict[str, list[str]]]
    targets: tuple[Subscriptions, ...]
    time: int

    def __call__(self, version: Notification) -> Collection[str]:
        found = self.known.get(version.attributes)
        if found is None:
            [found] = subscribers_of(self.targets, [version], [self.time])
            self.known[version.attributes] = found
        return found.keys()


def _nobody(_: Notification) -> Collection[str]:
    return ()


def _rows_of(
    given: _Given, sights: Iterable[Sight | Seen], answers: dict[Record, dict[str, list[str]]]
) -> Iterator[dict[str, Any]]:
    """The rows of a notification that components see: one for itself, and one for each version with receivers."""
    seen: dict[str, list[Sight | Seen]] = {"": []}
    for each in sights:
        seen.setdefault(each.tag, []).append(each)
    for tag, those in sorted(seen.items()):
        version = those[0].notification if tag else given.notification
        ids = answers.get(version.attributes, {})
        receivers = [
            {"subscriber": each.component, "subscriptions": ids[each.component]}
            for each in those
            if ids.get(each.component)
        ]
        if not tag:
            yield _row(given.record, given.published, given.notification, given.key, receivers=receivers)
        elif receivers:
            record = encode(version)
            yield _row(record, None, given.notification, given.key, version=tag, receivers=receivers)


def _log_unseen(notification: Notification, error: ScopeError) -> None:
    log.error("nobody sees %s of %s: %s", notification.id, notification.producer, error)


def _log_failures(failures: Iterable[Failure]) -> None:
    for failure in failures:
        log.error("the %s failed, and let nothing pass: %s", failure.where, failure.reason)


def _given(batch: pa.RecordBatch) -> list[_Given]:
    keys = zip(*(batch.column(name).to_pylist() for name in KEY), strict=True)
    records = batch.column(RECORD).to_pylist()
    published = [None] * batch.num_rows
    if PUBLISHED in batch.schema.names:
        published = batch.column(PUBLISHED).to_pylist()
    return [
        _Given(notification, OrderKey(*key), record, text)
        for notification, key, record, text in zip(
            notifications_in(batch), keys, records, published, strict=True
        )
    ]


def _batch_received(batch: pa.RecordBatch, found: Received) -> pa.RecordBatch:
    """The rows of versions with their receivers, but for those of doubtful rows."""
    rows, size = batch.take(pa.array(found.rows)), batch.num_rows
    columns = {name: rows.column(name) for name in (*KEY, "event_time")}
    published = pa.nulls(rows.num_rows, pa.string())
    if PUBLISHED in batch.schema.names:
        own = np.arange(rows.num_rows) < size
        published = pc.if_else(pa.array(own), rows.column(PUBLISHED), None)
    columns |= {RECORD: found.texts, PUBLISHED: published, VERSION: found.tags}
    columns[MOVED] = pa.array(np.zeros(rows.num_rows, np.bool_))
    columns[RECEIVERS] = found.receivers
    made = pa.RecordBatch.from_arrays(
        [
            columns[field.name].cast(field.type)
            if field.name in columns
            else pa.nulls(rows.num_rows, field.type)
            for field in DECIDED
        ],
        schema=DECIDED,
    )
    return made.filter(pa.array(~found.doubtful[found.rows])) if found.doubtful.any() else made


def _row(  # the columns of a version
    record: str,
    published: str | None,
    notification: Notification,
    key: OrderKey,
    *,
    version: str = "",
    receivers: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    time = notification.time
    return {
        "time": key.time,
        "producer": key.producer,
        "sequence": key.sequence,
        "id": key.id,
        "event_time": None if time is None else time.microseconds,
        RECORD: record,
        PUBLISHED: published,
        VERSION: version,
        MOVED: False,
        RECEIVERS: receivers,
    }


def _batch_of(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=schema)
