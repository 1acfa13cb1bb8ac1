"""Identity and order over DataFrames: each notification once, buffered until the watermark, then in its
order.

Law: run batch by batch, with its state handed on, `order` releases, holds and refuses what
`delivery.OrderedQueue` does, when that takes the arrivals of each batch by (producer, sequence, id), of copies
those last that are late, and is asked for a release after each.

    identity    a shuffle by (producer, id): equal records without an id are numbered there, duplicates found.
                Identities that were released or late are remembered as hashes; those that come again are looked up
    copies      of copies the earliest stands, and of those with one time the one with the smallest canonical
                content. Columns compare texts; only where texts differ does Python compare contents (`settled`)
    order time  no numbers, no causes    the event's time: nothing is moved
                sequence numbers         a running maximum along each producer's numbers: a window
                causes                   as `model.order.Ordering` has it, in one task, over rows without content

Only those producers go to the one task that name causes, or are named, in what is held or has arrived: no other
producer's keys depend on theirs. And where `Facts` say that there are no numbers, or no causes, their part of
the plan is not there at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from fairlead.delivery import Watermark
from fairlead.model.order import BEGINNING, END, REMEMBER_US
from fairlead.spark.frames import ENVELOPE, PUBLISHED, payload_of, to_records
from fairlead.spark.orderer import (
    CONFLICT,
    CONTENT,
    DOUBTFUL,
    DUPLICATE,
    HELD,
    KNOWN,
    LATE,
    LIGHT,
    MEANING,
    ORDER_TIMES,
    RANK,
    RELEASED,
    OrderAtOnce,
    OrderTogether,
    RankCopies,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["LAST", "Facts", "OrderState", "Ordered", "Progress", "hashed", "order", "watermark_of"]

LAST: Final = ("producer", "sequence", "id", "time")
"""The columns of a table with the key of the largest number that is fixed, per producer."""

EXACT: Final = {"timeZone": "UTC", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
"""The options under which JSON tells all instants apart: Spark's own format ends with the milliseconds."""
SPREAD: Final = 64
"""Over how many groups a producer's notifications without numbers are spread: no window needs them together."""
MADE_ID: Final = "^[0-9a-f]{32}-[0-9]+$"
"""The ids that `model.order.Identities` makes, should one come back as an id that is given."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The features that occur among notifications: a plan leaves out steps for those that do not."""

    has_digests: bool = True
    has_sequences: bool = True
    has_causes: bool = True

    @staticmethod
    def columns() -> tuple[Column, ...]:
        """Aggregates that find the facts, for a query that aggregates anyway."""
        told_by = {"has_digests": "digest", "has_sequences": "sequence", "has_causes": "causes"}
        return tuple((F.count(column) > 0).alias(fact) for fact, column in told_by.items())

    @classmethod
    def of(cls, notifications: DataFrame) -> Facts:
        """The facts of notifications; this runs a query."""
        [found] = notifications.agg(*cls.columns()).collect()
        return cls(**found.asDict())

    def __or__(self, other: Facts) -> Facts:
        return Facts(
            self.has_digests or other.has_digests,
            self.has_sequences or other.has_sequences,
            self.has_causes or other.has_causes,
        )


NOTHING: Final = Facts(has_digests=False, has_sequences=False, has_causes=False)


@dataclass(frozen=True, slots=True)
class OrderState:
    """The state of the order that one batch leaves to the next.

    `held` has the columns of notifications, `time` where the order time is fixed, and `late`, which is true for
    what came too late by its number and is remembered until the watermark passes its own time. `last` has the
    columns `LAST`. `bound` is where the watermark stood. `facts` are those of `held`. `remembered` has the hashes
    of identities (`identity`) that are settled, with the order time of that (`time`); each at least once.
    """

    held: DataFrame | None = None
    last: DataFrame | None = None
    bound: int = BEGINNING
    facts: Facts = Facts()
    remembered: DataFrame | None = None


@dataclass(frozen=True, slots=True)
class Ordered:
    """The outcome of each notification, new or held before. `persist` it where more than one frame is used."""

    rows: DataFrame
    """The columns of notifications, `time` where the order time is fixed, and `outcome`."""
    before: OrderState
    bound: int
    facts: Facts
    arrivals: DataFrame
    remember_us: int
    is_settled: bool
    """Whether copies in conflict are compared by their contents."""

    def settled(self) -> Ordered:
        """The same, with copies in conflict compared by their contents, as the bus does, and not by their texts.

        Where no outcome is `doubtful` there is no difference.
        """
        if self.is_settled:
            return self
        doubtful = self.rows.where(F.col("outcome") == DOUBTFUL).select("producer", "id").distinct()
        return order(
            self.arrivals,
            self.before,
            self.bound,
            self.facts,
            remember_us=self.remember_us,
            doubtful=doubtful,
        )

    def persist(self) -> Ordered:
        """The same, computed once."""
        return replace(self, rows=self.rows.persist())

    def unpersist(self) -> None:
        """Give back what `persist` took."""
        self.rows.unpersist()

    @property
    def released(self) -> DataFrame:
        """The notifications that the watermark has passed, with their order times."""
        return self._became(RELEASED)

    @property
    def held(self) -> DataFrame:
        """The notifications that wait for the watermark, with their order times where these are fixed."""
        return self._became(HELD)

    @property
    def late(self) -> DataFrame:
        """The late notifications, and the watermark at their arrival."""
        return self._became(LATE).drop("time").withColumn("watermark", _long(self.before.bound))

    @property
    def duplicates(self) -> DataFrame:
        """The duplicates."""
        return self._became(DUPLICATE).drop("time")

    @property
    def conflicts(self) -> DataFrame:
        """The duplicates with other content than the first; `doubtful` where copies are not `settled`."""
        return self.rows.where(F.col("outcome").isin(CONFLICT, DOUBTFUL)).drop("outcome", "time")

    @property
    def last(self) -> DataFrame:
        """Per producer the key of the largest number that is fixed."""
        before = self.before.last
        if before is not None and not self.facts.has_sequences:
            return before
        ordered = F.col("outcome").isin(RELEASED, HELD) & F.col("time").isNotNull()
        fixed = self.rows.where(ordered & F.col("sequence").isNotNull()).select(*LAST)
        every = fixed if before is None else fixed.unionByName(before.select(*LAST))
        greatest = F.max(F.struct("sequence", "id", "time")).alias("greatest")
        return every.groupBy("producer").agg(greatest).select("producer", "greatest.*")

    @property
    def state(self) -> OrderState:
        """The state that the next batch begins with."""
        outcome = F.col("outcome")
        remembered = (
            outcome.isin(LATE, KNOWN) & F.col("digest").isNotNull() & (_happened() >= _long(self.bound))
        )
        kept = self.rows.where((outcome == HELD) | remembered)
        return OrderState(
            kept.withColumn("late", outcome != HELD).drop("outcome"),
            self.last,
            self.bound,
            self.facts,
            self.remembered_with(self.before.remembered),
        )

    @property
    def remembered(self) -> DataFrame:
        """The identities that this batch has settled, with the order time of that.

        Those that were made of a digest are not among them: an equal record that comes later is late by its time.
        """
        settled = F.col("outcome").isin(RELEASED, LATE) & F.col("digest").isNull()
        at = F.when(F.col("outcome") == LATE, _long(self.before.bound)).otherwise(F.col("time"))
        return self.rows.where(settled).select(hashed().alias("identity"), at.alias("time"))

    def remembered_with(self, earlier: DataFrame | None) -> DataFrame:
        """The identities of this batch and earlier ones, without those that are to be forgotten."""
        if earlier is None:
            return self.remembered
        return self.remembered.unionByName(_still(earlier, self.bound, self.remember_us))

    def _became(self, outcome: str) -> DataFrame:
        return self.rows.where(F.col("outcome") == outcome).drop("outcome")


def order(
    arrivals: DataFrame,
    state: OrderState | None = None,
    bound: int = END,
    facts: Facts | None = None,
    *,
    few: bool = False,
    remember_us: int = REMEMBER_US,
    doubtful: DataFrame | None = None,
) -> Ordered:
    """Establish the total order up to a bound, which is `END` when nothing more will come.

    `arrivals` are the notifications that came since the state was left, and `facts` are theirs: without them,
    a query over the arrivals finds them. Where they and what is held are `few`, one task does it all. An identity
    that the state remembers is a duplicate for `remember_us` of order time. Copies are compared by their texts;
    those of `doubtful` identities (producer, id), and where one task does it all, by their contents.
    """
    before = state or OrderState(facts=NOTHING)
    found = (Facts.of(arrivals) if facts is None else facts) | before.facts
    held, last = before.held, before.last
    if held is not None and payload_of(held) != payload_of(arrivals):  # files have gained a column in between
        arrivals, held = to_records(arrivals), to_records(held)
    batch = _Batch(payload_of(arrivals), before.bound, max(bound, before.bound), found)
    rows = batch.gathered(arrivals, held)
    if before.remembered is not None:
        known = _known(arrivals, _still(before.remembered, before.bound, remember_us))
        rows = rows.unionByName(known, allowMissingColumns=True)
    if doubtful is not None:
        rows = batch.ranked(rows, doubtful)
    if last is not None and found.has_sequences and not few:
        rows = batch.with_last_numbers(rows, last)
    if few:
        ordered = batch.ordered_at_once(rows, last)
    elif found.has_causes:
        linked = _linked_producers(rows)
        free, entangled = _parted(rows, linked)
        last_free, last_entangled = (None, None) if last is None else _parted(last, linked)
        ordered = batch.ordered(batch.identified(free), last_free).unionByName(
            batch.ordered_together(batch.identified(entangled), last_entangled)
        )
    else:
        ordered = batch.ordered(batch.identified(rows), last)
    is_settled = few or doubtful is not None
    return Ordered(ordered, before, batch.bound, found, arrivals, remember_us, is_settled)


def hashed() -> Column:
    """The identity of a row in 128 bits."""
    return F.unhex(F.md5(F.concat_ws("/", F.length("producer").cast("string"), "producer", "id")))


def _still(remembered: DataFrame, bound: int, remember_us: int) -> DataFrame:
    """The identities that are remembered when the watermark stands at a bound."""
    if bound == BEGINNING:
        return remembered
    return remembered.where(F.col("time") >= _long(max(bound - remember_us, BEGINNING)))


def _known(arrivals: DataFrame, remembered: DataFrame) -> DataFrame:
    """Of the identities that have arrived those that are remembered: a row for each, as of one that was late."""
    named = arrivals.where(F.col("id").isNotNull()).select("producer", "id", hashed().alias("identity"))
    found = named.join(remembered.select("identity"), "identity").select("producer", "id").distinct()
    happened, no, yes = _long(BEGINNING), F.lit(False), F.lit(True)
    return found.withColumns({"event_time": happened, "late": yes, "arrived": no})


def _linked_producers(rows: DataFrame) -> DataFrame:
    """The producers that name causes, and those that are named, where keys are still to be found."""
    naming = F.col("causes").isNotNull() & F.col("time").isNull() & ~F.col("late")
    producers = F.concat(F.array("producer"), F.col("causes.producer"))
    return rows.where(naming).select(F.explode(producers).alias("producer")).distinct()


def _parted(rows: DataFrame, producers: DataFrame) -> tuple[DataFrame, DataFrame]:
    """The rows of other producers, and the rows of these."""
    return rows.join(producers, "producer", "left_anti"), rows.join(producers, "producer", "left_semi")


@dataclass(frozen=True, slots=True)
class _Batch:
    """One step from a bound to the next. Its methods are the stages that rows go through, in this order.

    On their way rows have, besides the columns of notifications: `time` (the order time that is fixed), `late`
    (remembered as such from an earlier batch), `arrived` (now), and from `identified` on `copy` (a duplicate).
    """

    payload: str
    bound_before: int
    bound: int
    facts: Facts

    def gathered(self, arrivals: DataFrame, held: DataFrame | None) -> DataFrame:
        """The held rows and the arrived ones; of typed columns, those of both."""
        columns = (*ENVELOPE, self.payload, "time", "late", "arrived")
        new = arrivals.withColumns(
            {"time": F.lit(None).cast("bigint"), "late": F.lit(False), "arrived": F.lit(True)}
        ).select(*columns)
        if held is None:
            return new
        held = held.withColumn("arrived", F.lit(False)).select(*columns)
        return new.unionByName(held, allowMissingColumns=True)

    def ranked(self, rows: DataFrame, doubtful: DataFrame) -> DataFrame:
        """The rows of doubtful identities with what their copies are compared by."""
        few = F.broadcast(doubtful)
        others = rows.join(few, ["producer", "id"], "left_anti")
        given = rows.join(few, ["producer", "id"], "left_semi").select(*rows.columns)
        columns = [T.StructField(name, T.BinaryType()) for name in RANK]
        found = given.mapInArrow(RankCopies(), T.StructType([*given.schema, *columns]))
        return others.unionByName(found, allowMissingColumns=True)

    def with_last_numbers(self, rows: DataFrame, last: DataFrame) -> DataFrame:
        """The rows with the last number of their producer that is fixed: what comes behind it is overtaken."""
        number = F.struct("sequence", "id").alias("_last_number")
        return rows.join(F.broadcast(last.select("producer", number)), "producer", "left")

    def identified(self, rows: DataFrame) -> DataFrame:
        """Every row with an id; of those with one identity the first stands, the others are copies.

        First comes what is remembered or has its place, last what is late. Others come by their time and content.
        """
        same = ["producer", "id"]
        if self.facts.has_digests:
            # Equal records, and what might have the id of one of them, are in one group: one shuffle serves the
            # numbering and the search for copies.
            given = F.when(F.col("id").rlike(MADE_ID), F.substring("id", 1, 32)).otherwise(F.col("id"))
            rows = rows.withColumn("_group", F.coalesce(F.col("digest"), given))
            same = ["producer", "_group", "id"]
            made = self._made_id(_comparable(rows, self.payload))
            rows = rows.withColumn("id", F.coalesce("id", made))
        settled = ~F.col("arrived") & (F.col("late") | F.col("time").isNotNull())
        is_late = _happened() < _long(self.bound_before)
        if "_last_number" in rows.columns:
            overtaken = F.col("sequence").isNotNull() & (F.struct("sequence", "id") < F.col("_last_number"))
            is_late = is_late | F.coalesce(overtaken, F.lit(False))
        turn = F.when(settled, 0).when(F.col("arrived") & is_late, 2).otherwise(1)
        content = _comparable(rows, self.payload)
        by_rank = [name for name in RANK if name in rows.columns]
        told = F.xxhash64(content)  # it is enough to see that texts differ
        if by_rank:
            told = F.when(F.col(MEANING).isNotNull(), F.xxhash64(MEANING)).otherwise(told)
        copies = Window.partitionBy(*same).orderBy(turn, _happened(), *by_rank, content, "source")
        rows = rows.withColumns(
            {
                "copy": F.row_number().over(copies) > 1,
                "_told": F.when(~F.col("late"), told),  # what is remembered has no content
                "_at": _happened(),
            }
        )
        differs = F.col("_told") != F.first("_told").over(copies)
        doubt = (
            F.lit(CONFLICT)
            if by_rank
            else F.when(F.col("_at") != F.first("_at").over(copies), CONFLICT).otherwise(DOUBTFUL)
        )
        return rows.withColumn("_repeated", F.when(differs, doubt).otherwise(DUPLICATE)).drop("_group")

    def _made_id(self, content: Column) -> Column:
        """The digest with the number among equals. Those count that the watermark has not passed."""
        remembered = (
            ~F.col("arrived") & F.col("digest").isNotNull() & (_happened() >= _long(self.bound_before))
        )
        # By content, too: records may be equal and yet be spelled differently.
        equals = Window.partitionBy("producer", "_group").orderBy(
            "arrived", "sequence", content, "event_time", "source"
        )
        number = F.count(F.when(remembered | F.col("id").isNull(), 1)).over(
            equals.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        )
        return F.concat_ws("-", "digest", number.cast("string"))

    def ordered_at_once(self, rows: DataFrame, last: DataFrame | None) -> DataFrame:
        """The outcome of all rows, identified or not, in one task: shuffling few costs more than they do."""
        if last is not None:
            rows = rows.unionByName(last.select(*LAST), allowMissingColumns=True)
        columns = (*ENVELOPE, self.payload, "time")
        outcome = T.StructField("outcome", T.StringType())
        declared = T.StructType([*(rows.schema[name] for name in columns), outcome])
        given = rows.select(*columns, "late", "arrived")
        content = self.payload
        if not _is_text(rows, self.payload):
            content = CONTENT
            given = given.withColumn(CONTENT, _comparable(rows, self.payload))
        kernel = OrderAtOnce(self.payload, content, self.bound_before, self.bound)
        return given.repartition(1).mapInArrow(kernel, declared)

    def ordered(self, rows: DataFrame, last: DataFrame | None) -> DataFrame:
        """The outcome of the rows of producers that have nothing to do with causes."""
        return self._closed(self._by_number(rows, last) if self.facts.has_sequences else self._by_time(rows))

    def _by_time(self, rows: DataFrame) -> DataFrame:
        own = _happened()
        return rows.withColumns(
            {
                "_refused": F.col("arrived") & (own < _long(self.bound_before)),
                "time": F.coalesce("time", F.when(self._passed(own), own)),
            }
        )

    def _by_number(self, rows: DataFrame, last: DataFrame | None) -> DataFrame:
        """Order times never go back along a producer's numbers, and a number below a fixed one is refused.

        What is refused cannot raise what is not: its time lies below the bound, unlike theirs. So one pass
        finds both.
        """
        rows = rows.withColumn("_last", F.lit(False))
        if last is not None:  # stands in front of its producer's numbers: the windows need no join
            rows = rows.unionByName(last.select(*LAST, F.lit(True).alias("_last")), allowMissingColumns=True)
        numbered, number = F.col("sequence").isNotNull(), F.struct("sequence", "id")
        # A column, not an expression in the window: so Spark sees that the windows share one shuffle and sort.
        rows = rows.withColumn("_spread", F.when(~numbered, F.pmod(F.xxhash64("id"), F.lit(SPREAD))))
        chain = Window.partitionBy("producer", "_spread").orderBy(F.desc("_last"), "sequence", "id")
        so_far = chain.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        throughout = chain.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)

        overtaken = F.coalesce(number < F.max(F.when(F.col("_last"), number)).over(so_far), F.lit(False))
        rows = rows.withColumn("_refused", numbered & F.col("arrived") & overtaken)
        counts = F.col("_last") | ~(F.col("copy") | F.col("late") | F.col("_refused"))
        own = F.coalesce("time", _happened())
        raised = F.when(numbered, F.max(F.when(counts, own)).over(so_far)).otherwise(own)
        rows = rows.withColumn("_time", F.coalesce("time", raised))
        refused = F.col("_refused") | (F.col("arrived") & (F.col("_time") < _long(self.bound_before)))
        rows = rows.withColumn("_refused", refused)
        # What is fixed fixes all that it follows, as in `Ordering`.
        fixes = ~(F.col("_last") | F.col("copy") | F.col("late") | F.col("_refused")) & self._passed(
            _happened()
        )
        fixed = F.when(numbered, number <= F.max(F.when(fixes, number)).over(throughout)).otherwise(fixes)
        return rows.withColumn("time", F.coalesce("time", F.when(fixed, F.col("_time")))).where(
            ~F.col("_last")
        )

    def ordered_together(self, rows: DataFrame, last: DataFrame | None) -> DataFrame:
        """The outcome of the rows of producers that name causes or are named: one task sees them all."""
        light = rows.where(~(F.col("copy") | F.col("late"))).select(*LIGHT)
        if last is not None:
            light = light.unionByName(last.select(*LAST), allowMissingColumns=True)
        kernel = OrderTogether(self.bound_before, self.bound)
        found = light.repartition(1).mapInArrow(kernel, ORDER_TIMES)
        return self._closed(rows.drop("time").join(found, ["producer", "id"], "left"))

    def _closed(self, rows: DataFrame) -> DataFrame:
        outcome = (
            F.when(F.col("copy"), F.col("_repeated"))
            .when(F.col("late"), KNOWN)
            .when(F.col("_refused"), LATE)
            .when(F.col("time").isNotNull() & self._passed(F.col("time")), RELEASED)
            .otherwise(HELD)
        )
        return rows.select(*ENVELOPE, self.payload, "time", outcome.alias("outcome"))

    def _passed(self, time: Column) -> Column:
        """Whether the new bound lies behind a time; the end lies behind all."""
        return F.lit(True) if self.bound == END else time < _long(self.bound)


def _happened() -> Column:
    return F.coalesce("event_time", F.lit(0))


def _long(value: int) -> Column:
    return F.lit(value).cast("bigint")


def _comparable(rows: DataFrame, payload: str) -> Column:
    """The content as something to sort by, so that of two contents always the same one comes first.

    Text by code point, with the text that was published behind it. Typed columns have no order that Spark and
    Python share, and need none that means anything: a hash has one. It is that of their names with their values: a
    hash of columns passes over nulls, so it cannot tell which of them has the value.
    """
    if not _is_text(rows, payload):
        return F.xxhash64(F.to_json(payload, EXACT))
    published = F.concat(F.col(payload), F.col(PUBLISHED))
    return F.when(F.col(PUBLISHED).isNull(), F.col(payload)).otherwise(published)


def _is_text(rows: DataFrame, payload: str) -> bool:
    return isinstance(rows.schema[payload].dataType, T.StringType)


# -- the watermark -----------------------------------------------------------------------------------------


class Progress(NamedTuple):
    """The progress of a stream."""

    newest: dict[str, int]
    """Per source that is open the newest event time; `BEGINNING` where there is none yet."""
    bound: int
    """The watermark."""


def watermark_of(
    previous: Mapping[str, int],
    observed: Mapping[str, int],
    lateness_us: int,
    idle_us: Mapping[str, int] | None = None,
) -> Progress:
    """The progress after a batch in which the sources showed these newest event times.

    A source that is first seen in the batch holds the watermark back as if it had been known before, whatever
    the order in which a batch's rows are looked at.
    """
    newest = dict.fromkeys([*previous, *observed], BEGINNING)
    watermark = Watermark(lateness_us, newest, idle_us)
    for times in (previous, observed):
        for source, time in times.items():
            newest[source] = max(newest[source], time)
    for source, time in newest.items():
        watermark.observe(time, source)
    return Progress(newest, watermark.value)
