"""A quick check of a trace: which specifications certainly hold, and which publications need a full
check.

The rules of `auditing` prove violations, and pay for it with a join or a window each. A trace of a pipeline that
works has none. So it is first asked two questions, which one shuffle of the notifications answers each:

    for every publication    were those notified whose subscriptions match it, each once and after it?
    for every component      do the publications that it was notified about stand in one order?

**Suspects.** Where subscriptions hold throughout the trace, `simple` is a matter of each publication by itself: it
is violated iff it is violated by the events about the suspects, those for which the first answer is no.

**Orders.** Number publications by their places. If order keys, and each producer's sequence numbers, go up along
these numbers, and so do the numbers that each component is notified about, then each component's notifications are
in the order of publication, of keys and of sequence numbers, in one order for all, and no effect comes before its
cause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import Window
from pyspark.sql import functions as F

from fairlead.correlation.patterns.composites import PRODUCER
from fairlead.spark.frames import KEY, RECORD
from fairlead.spark.matcher import RECEIVERS
from fairlead.spark.matching import matched

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from fairlead.spark.history import History
    from fairlead.spark.subscriptions import Subscriptions

__all__ = ["ORDERS", "Glance", "glance", "rank", "same_subscriptions"]

ORDERS: Final = frozenset({"fifo", "causal", "total", "ordered"})
PUBLICATIONS_MAX: Final = 5_000_000
"""So many are numbered by one task."""


class Glance(NamedTuple):
    """The result of a quick check: whether all orders hold, and the suspect publications by producer and id."""

    is_ordered: bool = False
    suspects: DataFrame | None = None
    """None where every publication is."""
    has_suspects: bool = True


def glance(history: History, compiled: Subscriptions | None, *, orders: bool) -> Glance:
    """Look at a trace; `compiled` are its subscriptions, as far as somebody has compiled them.

    Without them, or where subscriptions of the trace begin or end within it, every publication is suspect.
    """
    if history.publications_count > PUBLICATIONS_MAX:
        return Glance()
    about = history.keep(_notified_about(history, compiled if _holds_throughout(history, compiled) else None))
    is_ordered = orders and _goes_up(history) and not _turns(about)
    if "is_suspect" not in about.columns:
        return Glance(is_ordered)
    suspects = about.where("is_suspect").select("producer", "id")
    return Glance(is_ordered, suspects, not suspects.isEmpty())


def _notified_about(history: History, compiled: Subscriptions | None) -> DataFrame:
    """Each publication with the places at which components were notified about it; it may be missing."""
    notified = (
        history.of("notify")
        .groupBy("producer", "id")
        .agg(F.collect_list(F.struct("component", "index")).alias("notified"))
    )
    published = history.published.withColumnRenamed("index", "publication")
    if compiled is None:
        return published.select("producer", "id", "publication").join(notified, ["producer", "id"], "full")
    wanted = matched(published.select(*KEY, "event_time", RECORD), compiled, payload=False)
    publications = published.select("producer", "id", "publication")
    about = wanted.select("producer", "id", RECEIVERS).join(publications, ["producer", "id"])
    about = about.join(notified, ["producer", "id"], "full")
    due = F.array_sort(F.transform(RECEIVERS, lambda each: each.subscriber))
    components = F.array_sort(F.transform("notified", lambda each: each.component))
    nobody = F.array().cast("array<string>")
    is_right = F.coalesce(components, nobody) == F.coalesce(due, nobody)
    after = F.coalesce(F.forall("notified", lambda each: each["index"] > F.col("publication")), F.lit(True))
    is_suspect = F.col("publication").isNull() | ~is_right | ~after
    return about.select("producer", "id", "publication", "notified", is_suspect.alias("is_suspect"))


def _holds_throughout(history: History, compiled: Subscriptions | None) -> bool:
    """Whether the trace's subscriptions are those that are compiled, and hold for all publications.

    Subscriptions that are never ready bind nobody: what their owners get makes a publication suspect.
    """
    if compiled is None or history.advertises:
        return False
    first = history.published.agg(F.min("index")).collect()[0][0]
    declared = history.of("sub").where("ready")
    dated = F.col("from").isNotNull() | F.col("until").isNotNull() | (F.col("index") > F.lit(first))
    changes = history.of("unsub").unionByName(declared.where(dated)).unionByName(history.of("ready"))
    if first is None or not changes.isEmpty():
        return False
    declared = declared.select(
        F.col("component").alias("subscriber"), F.col("subscription").alias("id"), "filter"
    )
    return same_subscriptions(compiled, declared.toArrow())


def same_subscriptions(compiled: Subscriptions, declared: pa.Table) -> bool:
    """Whether the subscriptions of a trace (id, subscriber, filter) are the compiled ones, all without dates."""
    columns = ("id", "subscriber", "filter")
    parts = [pa.Table.from_batches([each]) for each in compiled.tables()]
    if not parts or not declared.num_rows:
        return not declared.num_rows and not sum(map(len, parts))
    own = pa.concat_tables(parts)
    undated = all(own.column(name).null_count == own.num_rows for name in ("from", "until"))
    if not undated or own.num_rows != declared.num_rows:
        return False
    own, declared = (table.select(columns).sort_by("id") for table in (own, declared))
    return all(
        own.column(name).combine_chunks() == declared.column(name).combine_chunks() for name in columns
    )


def _goes_up(history: History) -> bool:
    """Whether order keys, and each producer's sequence numbers, go up along the places of publication."""
    everywhere = Window.partitionBy(F.lit("all")).orderBy("index")
    own = Window.partitionBy("producer").orderBy("index").rowsBetween(Window.unboundedPreceding, -1)
    numbered = F.when(F.col("sequence").isNotNull(), F.struct("sequence", "id"))
    notified = history.published.select("index", "producer", rank().alias("rank"), numbered.alias("number"))
    behind = notified.withColumns(
        {
            "rank_before": F.lag("rank").over(everywhere),
            "number_before": F.last("number", ignorenulls=True).over(own),
        }
    )
    goes_back = (F.col("rank_before") > F.col("rank")) | (F.col("number_before") > F.col("number"))
    return behind.where(goes_back).isEmpty()


def rank(key: str = "") -> Column:
    """The rank by which order keys are compared, as in `orders.key_rank`: composites follow other
    notifications."""
    composite = F.col("producer") == PRODUCER
    others = (F.when(~composite, F.col(f"{key}{name}")).alias(name) for name in KEY[1:])
    return F.struct(F.col(f"{key}time").alias("time"), composite.alias("behind"), *others)


def _turns(about: DataFrame) -> bool:
    """Whether some component was notified about a publication behind a later one, or twice, or about none."""
    own = Window.partitionBy("component").orderBy("index")
    notified = about.select("publication", F.explode("notified").alias("notified")).select(
        "publication", "notified.component", "notified.index"
    )
    turned = notified.withColumn("before", F.lag("publication").over(own))
    goes_back = F.col("publication").isNull() | (F.col("before") >= F.col("publication"))
    return not turned.where(goes_back).isEmpty()
