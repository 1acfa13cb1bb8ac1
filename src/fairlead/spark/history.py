"""A trace on Spark, indexed: the tables that the rules are made of, as `fairlead.audit.history` has them.

    publications    publication (its place), key, producer, id, name
    deliveries      place, first (that of the first about the same to the same), component, producer, id, name;
                    publication and key, which are null where it was never published
    subscriptions   one row per `Period`: begun, component, filter, from, until, over, ready; advertisements too
    entitled        publication and period of each match, whenever the period holds

Events are places, and order keys are structs, which Spark compares as `OrderKey` does: from left to right, nulls
first, strings by code point.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from math import ceil
from operator import and_
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyspark.sql import Window
from pyspark.sql import functions as F

from fairlead.audit.parquet import SCHEMA, event_of
from fairlead.audit.stabilising import RECOVERED
from fairlead.audit.trace import LANGUAGE_VERSION, SCOPES_VERSION, VERSION, Event, Notified
from fairlead.errors import FairleadError, TraceRefused
from fairlead.filters.extensions import load
from fairlead.filters.language import parse
from fairlead.matching.columnar import Columnar
from fairlead.model.order import Identity
from fairlead.spark.frames import KEY, decode
from fairlead.spark.scoped import scoped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame, Row

    from fairlead.filters import Filter, Schema
    from fairlead.model import Notification

__all__ = ["CONTENT", "History", "Language", "binds", "has_begun", "holds", "name_of", "notification_in"]

PUBLICATIONS_PER_SLICE: Final = 20_000
PERIODS_PER_SHARE: Final = 200_000
INDEXES_MAX: Final = 2
DECLARED: Final = ("filter", "from", "until", "ready")
CONTENT: Final = ("index", "producer", "id", "event_time", "sequence", "record")
"""The columns that make a notification of a publication."""

VERSIONS: Final = (VERSION, LANGUAGE_VERSION, SCOPES_VERSION)
# What each kind of event must say.
REQUIRED: Final = {
    "pub": ("time", "producer", "id", "record"),
    "sub": ("component", "subscription", "filter"),
    "unsub": ("component", "subscription"),
    "adv": ("component", "advertisement", "filter"),
    "unadv": ("component", "advertisement"),
    "ready": ("component",),
    "notify": ("component", "producer", "id"),
    "topology": ("change",),
    "scope": ("change",),
    "fault": ("change",),
    "language": ("about",),
    "end": (),
}


@dataclass(frozen=True, slots=True)
class Language:
    """The schema and extensions to read the filters of a trace with, in any process."""

    schema: Schema | None = None
    extensions: tuple[str, ...] = ()

    def filter(self, text: str, index: int) -> Filter:
        """The filter that an event has."""
        self._prepare()
        try:
            return parse(text, self.schema)
        except FairleadError as error:
            raise _refused(index, error) from error

    def events(self, trace: pa.Table) -> Iterator[Event]:
        """The events of a trace, in their order."""
        self._prepare()
        ordered = trace.sort_by("index").select(["index", *SCHEMA.names])
        told = ordered.column("event").to_pylist()
        others = iter(ordered.filter(pc.not_equal(ordered.column("event"), "notify")).to_pylist())
        notified = _notified(ordered.filter(pc.equal(ordered.column("event"), "notify")))
        for event in told:
            if event == "notify":
                yield next(notified)
                continue
            row = next(others)
            index = row.pop("index")
            try:
                yield event_of(row, self.schema)
            except FairleadError as error:
                raise _refused(index, error) from error

    def _prepare(self) -> None:
        for name in self.extensions:
            load(name)


def _notified(trace: pa.Table) -> Iterator[Notified]:
    """The notifications in a trace whose rows are known to be events: by columns, for most of it are these."""
    names = ("component", "producer", "id", "subscriptions", "version", "time")
    columns = (trace.column(name).to_pylist() for name in names)
    for component, producer, id, subscriptions, version, time in zip(*columns, strict=True):
        yield Notified(component, Identity(producer, id), tuple(subscriptions or ()), version or "", time)


def _refused(index: int, error: FairleadError) -> TraceRefused:
    return TraceRefused(f"event {index}: {error}")


class History:
    """The tables of a trace, each made on first use."""

    def __init__(self, trace: DataFrame, language: Language) -> None:
        self._trace, self._language = trace, language
        self._persisted: list[DataFrame] = []
        self._repeats = False
        """Whether an identity was published more than once; `check` finds out."""

        def count(event: str) -> Column:
            return F.count_if(F.col("event") == event)

        [row] = trace.agg(
            F.count("*"),
            count("pub"),
            count("sub"),
            count("adv"),
            count("scope"),
            F.max(F.when(F.col("event") == "fault", F.struct("index", "change"))),
            F.min(F.when(F.col("event") == "end", F.col("index"))),
            F.min(F.when(_is_malformed(), F.struct("index", "v", "event"))),
        ).collect()
        self.events, self.publications_count, self._subscriptions, self._advertisements, *rest = row
        self._scopes, self._last_fault, *rest = rest
        self._end, self._malformed = rest

    @property
    def ended(self) -> bool:
        return self._end is not None

    @property
    def advertises(self) -> bool:
        return bool(self._advertisements)

    @property
    def is_scoped(self) -> bool:
        """Whether the trace has scopes."""
        return bool(self._scopes)

    @property
    def recovery_point(self) -> int | None:
        """The index from which on a self-stabilising system has to be right; None where the last fault is too
        recent."""
        if self._last_fault is None:
            return -1
        return self._last_fault["index"] if self._last_fault["change"] == RECOVERED else None

    def scoped(self) -> dict[str, DataFrame]:
        """The violations of scoped systems, by rule."""
        return scoped(self._trace, self.publications_count, self._language)

    def forget(self) -> None:
        """Release the persisted tables."""
        for frame in self._persisted:
            frame.unpersist()

    def about(self, suspects: DataFrame) -> History:
        """The history of some publications only, by producer and id."""
        own = F.col("event").isin("pub", "notify")
        concerned = self._trace.where(own).join(F.broadcast(suspects), ["producer", "id"], "left_semi")
        others = self._trace.where(~own)
        found = History(concerned.unionByName(others), self._language)
        found._persisted, found._repeats = self._persisted, self._repeats
        return found

    def keep(self, frame: DataFrame) -> DataFrame:
        """Keep, until all is forgotten, what takes long and is used more than once."""
        self._persisted.append(frame.persist())
        return self._persisted[-1]

    def nothing(self, columns: str) -> DataFrame:
        """A table without rows."""
        return self._trace.sparkSession.createDataFrame([], columns)

    # -- who said what -------------------------------------------------------------------------------------

    @cached_property
    def publications(self) -> DataFrame:
        return self.published.select(
            F.col("index").alias("publication"),
            F.struct(*KEY).alias("key"),
            "producer",
            "id",
            name_of().alias("name"),
        )

    @cached_property
    def contents(self) -> DataFrame:
        """The publications with all that makes a notification."""
        return self.published.select(*CONTENT)

    @property
    def published(self) -> DataFrame:
        """The publications; of those of one identity, the first."""
        found = self.of("pub")
        if not self._repeats:
            return found
        first = F.min("index").over(Window.partitionBy("producer", "id"))
        return found.withColumn("first", first).where(F.col("first") == F.col("index")).drop("first")

    @cached_property
    def deliveries(self) -> DataFrame:
        same = Window.partitionBy("producer", "id", "component")
        told = self.of("notify").select("index", "component", "producer", "id", name_of().alias("name"))
        about = told.join(self.publications.drop("name"), ["producer", "id"], "left")
        return self.keep(about.withColumn("first", F.min("index").over(same)))

    @cached_property
    def delivered(self) -> DataFrame:
        """The deliveries without repetitions: a repetition offends safety, not the orders."""
        return self.deliveries.where(F.col("first") == F.col("index"))

    def of(self, event: str) -> DataFrame:
        """The events of a kind."""
        return self._trace.where(F.col("event") == event)

    # -- periods -------------------------------------------------------------------------------------------

    @cached_property
    def subscriptions(self) -> DataFrame:
        return self.keep(_periods(self._declarations("sub", "unsub", "subscription")))

    @cached_property
    def advertisements(self) -> DataFrame:
        return self.keep(_periods(self._declarations("adv", "unadv", "advertisement")))

    def _declarations(self, begin: str, end: str, noun: str) -> DataFrame:
        """The events about subscriptions or advertisements, and how what they name stood before.

        `active` says whether it held, `period` counts its periods so far, and `known` is the filter that it
        has had since the latest began.
        """
        ordered = Window.partitionBy("component", "name").orderBy("index")
        earlier = ordered.rowsBetween(Window.unboundedPreceding, -1)
        event, begins = F.col("event"), F.col("event") == begin
        begun_last = F.last(F.when(event != "ready", begins), ignorenulls=True).over(earlier)
        opens = begins & ~F.col("active")
        return (
            self._trace.where(event.isin(begin, end) | ((event == "ready") & F.col(noun).isNotNull()))
            .withColumn("name", F.col(noun))
            .withColumn("active", F.coalesce(begun_last, F.lit(False)))
            .withColumn("period", F.count_if(opens).over(ordered))
            .withColumn("known", F.last(F.when(opens, F.col("filter")), ignorenulls=True).over(ordered))
            .where(F.col("period") > 0)
            .withColumn("begins", begins)
            .withColumn("ends", event == end)
            .select("index", "component", "name", "period", "active", "begins", "ends", *DECLARED, "known")
        )

    # -- matches -------------------------------------------------------------------------------------------

    @cached_property
    def entitled(self) -> DataFrame:
        return self._matching(self.subscriptions, self._subscriptions)

    @cached_property
    def announced(self) -> DataFrame:
        """The same for each publication and its own producer's advertisements."""
        found = self._matching(self.advertisements, self._advertisements)
        return found.join(self.publications, "publication").where(F.col("component") == F.col("producer"))

    def _matching(self, periods: DataFrame, periods_max: int) -> DataFrame:
        """Publications are cut into slices and periods into shares, and each slice meets each share in a worker,
        which makes an index of the share. So neither has to fit in one place, and the driver sees none.
        """
        slices = max(1, ceil(self.publications_count / PUBLICATIONS_PER_SLICE))
        shares = max(1, ceil(periods_max / PERIODS_PER_SHARE))
        sliced = self.contents.withColumn("slice", F.col("index") % slices).withColumn("share", _each(shares))
        shared = periods.select("begun", "filter", (F.col("begun") % shares).alias("share"))
        matches = (
            sliced.groupBy("slice", "share")
            .cogroup(shared.withColumn("slice", _each(slices)).groupBy("slice", "share"))
            .applyInArrow(partial(matches_in, self._language), "publication bigint, begun bigint")
        )
        return self.keep(matches).join(periods.drop("filter"), "begun")

    # -- what no run can have ------------------------------------------------------------------------------

    def check_rows(self) -> None:
        """TraceRefused where a row is no event."""
        if (odd := self._malformed) is not None:
            what = f"not of version {' or '.join(map(str, VERSIONS))}"
            if odd["v"] in VERSIONS:
                what = f"not an event, or not all of one: {odd['event']!r}"
            raise TraceRefused(f"event {odd['index']}: {what}")

    def check(self) -> None:
        """TraceRefused where no run can have such a trace: for the first event that shows it."""
        behind = self._end + 1 if self.ended else self.events
        identities = self.of("pub").groupBy("producer", "id").count()
        self._repeats = bool(identities.where(F.col("count") > 1).limit(1).collect())
        again = self._declared_again()
        if again is not None and again["index"] < behind:
            raise TraceRefused(f"event {again['index']}: {again['what']}")
        if behind < self.events:
            raise TraceRefused(f"event {behind}: the trace has events after its end")

    def _declared_again(self) -> Row | None:
        """The first event that declares another filter under an active id."""
        told = self._declarations("sub", "unsub", "subscription")
        if self.advertises:
            told = told.unionByName(self._declarations("adv", "unadv", "advertisement"))
        again = F.col("begins") & F.col("active") & (F.col("filter") != F.col("known"))
        texts = told.where(again).select("index", "component", "name", "filter", "known")
        if _first(_otherwise(texts)) is None:
            return None
        # Two texts may be one filter: where that is the question, they are read.
        columns = ", ".join(f"{name} {type}" for name, type in texts.dtypes)
        other = texts.mapInArrow(partial(other_filters, self._language), columns)
        return _first(_otherwise(other))


def _is_malformed() -> Column:
    """Whether a row is no event of this version, or lacks what such an event has."""
    lacking = F.lit(True)
    for kind, names in REQUIRED.items():
        given = reduce(and_, (F.col(name).isNotNull() for name in names), F.lit(True))
        lacking = F.when(F.col("event") == kind, ~given).otherwise(lacking)
    return lacking | ~F.coalesce(F.col("v").isin(*VERSIONS), F.lit(False))


def _otherwise(texts: DataFrame) -> DataFrame:
    what = F.format_string("'%s' of '%s' has another filter already", "name", "component")
    return texts.select("index", what.alias("what"))


def _first(refusals: DataFrame) -> Row | None:
    return next(iter(refusals.orderBy("index").limit(1).collect()), None)


def name_of() -> Column:
    """The name of a notification in a report."""
    producer, id = F.col("producer"), F.col("id")
    return F.when(producer == "", id).otherwise(F.concat(producer, F.lit("/"), id))


# -- periods -----------------------------------------------------------------------------------------------


def _periods(declarations: DataFrame) -> DataFrame:
    """The first event of a period declares it. Ending what is not active changes nothing (book 2.5.2)."""
    active, ends = F.col("active"), F.col("ends")
    takes_effect = active & ~ends & ~F.col("begins")
    told = declarations.groupBy("component", "name", "period").agg(
        F.min_by(F.struct("index", *DECLARED), "index").alias("declared"),
        F.min(F.when(active & ends, F.struct("index", "until"))).alias("end"),
        F.min(F.when(takes_effect, F.col("index"))).alias("effect"),
    )
    begun = F.col("declared.index")
    return told.select(
        begun.alias("begun"),
        "component",
        F.col("declared.filter").alias("filter"),
        F.col("declared.from").alias("from"),
        F.least("declared.until", "end.until").alias("until"),
        F.when(F.col("end.until").isNull(), F.col("end.index")).alias("over"),
        F.when(F.coalesce("declared.ready", F.lit(True)), begun).otherwise(F.col("effect")).alias("ready"),
    )


def has_begun(index: str) -> Column:
    """`Period.has_begun` at an index, for a notification with the column `key`."""
    return (F.col("begun") < F.col(index)) & (F.col("from").isNull() | (F.col("from") <= F.col("key")))


def holds(index: str) -> Column:
    """`Period.holds`, likewise."""
    over = F.coalesce(F.col("over") < F.col(index), F.lit(False))
    return has_begun(index) & ~over & (F.col("until").isNull() | (F.col("key") < F.col("until")))


def binds() -> Column:
    """`Period.binds` for a publication. A period that begins at an order key binds exactly."""
    stays = F.col("over").isNull() & (F.col("until").isNull() | (F.col("key") < F.col("until")))
    in_effect = F.coalesce(F.col("ready") < F.col("publication"), F.lit(False))
    return stays & F.when(F.col("from").isNotNull(), F.col("from") <= F.col("key")).otherwise(in_effect)


# -- in the workers ----------------------------------------------------------------------------------------


def _each(count: int) -> Column:
    """A row for each number below."""
    return F.explode(F.sequence(F.lit(0).cast("bigint"), F.lit(count - 1).cast("bigint")))


def matches_in(language: Language, publications: pa.Table, periods: pa.Table) -> pa.Table:
    """The publications of a slice that match periods of a share."""
    found: list[tuple[int, int]] = []
    if publications.num_rows and periods.num_rows:
        rows = publications.select(CONTENT).to_pylist()
        matches = _index(language, periods).match_batch(map(notification_in, rows))
        found = [(row["index"], begun) for row, all in zip(rows, matches, strict=True) for begun in all]
    pairs = zip(*found, strict=True) if found else ((), ())
    return pa.table([pa.array(each, pa.int64()) for each in pairs], ["publication", "begun"])


def _index(language: Language, periods: pa.Table) -> Columnar[int]:
    """The index of a share, which is the same for every slice: a worker keeps the latest ones."""
    columns = (periods.column(name).to_pylist() for name in ("begun", "filter"))
    declared = sorted(zip(*columns, strict=True))
    name = hashlib.sha256(repr((declared, language)).encode()).digest()
    if name not in _indexes:
        index: Columnar[int] = Columnar(schema=language.schema)
        index.add_many([(begun, language.filter(text, begun)) for begun, text in declared])
        _indexes[name] = index
        if len(_indexes) > INDEXES_MAX:
            _indexes.popitem(last=False)
    return _indexes[name]


_indexes: OrderedDict[bytes, Columnar[int]] = OrderedDict()


def notification_in(row: dict[str, Any]) -> Notification:
    """The notification of a row with the columns CONTENT."""
    try:
        return decode(row["record"], row["producer"], row["id"], row["event_time"], row["sequence"])
    except FairleadError as error:
        raise _refused(row["index"], error) from error


def other_filters(language: Language, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows whose two texts are two filters."""

    def differ(index: int, filter: str, known: str) -> bool:
        return language.filter(filter, index) != language.filter(known, index)

    for batch in batches:
        rows = batch.select(("index", "filter", "known")).to_pylist()
        yield batch.filter(pa.array([differ(**row) for row in rows], pa.bool_()))
