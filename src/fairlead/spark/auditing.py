"""Does a trace of any length keep the specification? The same verdicts and proofs as from `fairlead.audit`.

The rules are those of `fairlead.audit.specifications` (book 2.5.2 to 2.5.4), each as a join or a window over the
tables of `history`. Nothing that grows with the trace comes to one place: the driver gets counts and the first
violations of each rule; all violations are a table.

    subscribed, published, once, advertised, liveness    joins of publications, deliveries and periods
    fifo, ordered     the latest publication, key or number so far, per component and producer: windows
    causal, total     windows find the parts of the trace in which somebody's order turns back; these alone go to
                      the exact programs of `fairlead.audit.orders`, each part by itself

**Parts.** Number the publications. Where a component is notified about a larger number before a smaller one, this
spans all numbers between the two; parts are what such spans cover together. Whatever contradicts one order of all
is a circle of "before", and goes down as far as it goes up, so all of it lies within one part. Likewise the chain
that leads from a cause to an effect, where somebody is notified about the effect first: numbers being places of
publication, it goes up only, between the two. Where everybody's order goes up there are no parts, and both hold.

A small trace is one part: the plain program judges it in a worker sooner than Spark plans all the joins.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from fairlead.audit import orders
from fairlead.audit import specifications as plain
from fairlead.audit.history import Delivered, Publication
from fairlead.audit.history import History as Told
from fairlead.audit.report import Finding, Report, Violation
from fairlead.audit.trace import Published
from fairlead.errors import TraceRefused
from fairlead.model.order import Identity, OrderKey
from fairlead.spark.failures import reason
from fairlead.spark.glance import ORDERS, glance, rank
from fairlead.spark.history import History, Language, binds, has_begun, holds, notification_in

if TYPE_CHECKING:
    from pyspark.sql import Column, Row

    from fairlead.filters import Schema
    from fairlead.spark.subscriptions import Subscriptions

__all__ = ["SPECIFICATIONS", "Audited", "audit"]

SHOWN: Final = 100
SMALL: Final = 200_000
"""Up to so many events a trace is judged in one piece."""
BIN: Final = 1_024
"""Parts of a trace are found by bins of so many places."""


@dataclass(frozen=True, slots=True)
class Audited:
    """The result of an audit.

    `report` has the first violations of each rule, by the places that prove them; `counts` tells how many there
    are; `violations` is the table of all: specification, rule, what, places. Like every table it is made when it
    is asked for, from the trace: persist it where you ask more than once.
    """

    report: Report
    counts: Mapping[tuple[str, str], int]
    violations: DataFrame
    events: int


def audit(
    trace: DataFrame,
    *specifications: str,
    schema: Schema | None = None,
    extensions: Sequence[str] = (),
    shown: int = SHOWN,
    small: int = SMALL,
    compiled: Subscriptions | None = None,
) -> Audited:
    """Judge a trace with indexes, as `fairlead.spark.trace.read` returns it, by the named
    specifications.

    Without a name, by all; of `simple` and `advertisements` by the one that fits, as in `fairlead.audit.audit`.
    TraceRefused where no run can have such a trace; beyond the `small` number of events, filters and contents
    are read only where a rule asks for them. `compiled` are the subscriptions of the trace, where somebody has
    compiled them: they are used if the trace says that they are those.
    """
    if unknown := set(specifications) - set(SPECIFICATIONS):
        raise ValueError(f"no such specification: {', '.join(sorted(unknown))}")
    language = Language(schema, tuple(extensions))
    try:
        history = History(trace, language)
        fitting = "advertisements" if history.advertises else "simple"
        fitting = "scoped" if history.is_scoped else fitting
        chosen = specifications or (fitting, "fifo", "causal", "total")
        try:
            history.check_rows()
            if history.events <= small:
                whole = _Whole(language, tuple(chosen))
                return _report(chosen, whole.findings(trace, shown), whole.findings(trace), history.events)
            history.check()
            found = _violations_in_parts(history, chosen, compiled)
            return _report(chosen, _first(found, shown), found, history.events)
        finally:
            history.forget()
    except Exception as error:
        # What a worker refuses reaches the driver as a text with a traceback.
        if isinstance(refusal := reason(error), TraceRefused):
            raise refusal from None
        raise


def _first(found: DataFrame, shown: int) -> DataFrame:
    """The first of each rule, in order, with how many there are."""
    alike = Window.partitionBy("specification", "rule")  # of one rule all are open, or none
    numbered = found.withColumns(
        {"count": F.count("*").over(alike), "number": F.row_number().over(alike.orderBy("indexes", "what"))}
    )
    return numbered.where(F.col("number") <= max(1, shown)).orderBy("number")


def _report(specifications: Sequence[str], shown: DataFrame, found: DataFrame, events: int) -> Audited:
    """Bring here what is shown of that which was found."""
    rules = [(each.specification, each.rule) for each in plain.audit((), *specifications)]
    first: dict[tuple[str, str], list[Row]] = {rule: [] for rule in rules}
    for row in shown.collect():
        first[row["specification"], row["rule"]].append(row)
    counts = {rule: rows[0]["count"] if rows and not rows[0]["open"] else 0 for rule, rows in first.items()}
    return Audited(
        Report(tuple(_finding(*rule, rows) for rule, rows in first.items())),
        counts,
        found.where(~F.col("open")).select("specification", "rule", "what", "indexes"),
        events,
    )


def _finding(specification: str, rule: str, rows: Sequence[Row]) -> Finding:
    if rows and rows[0]["open"]:
        return Finding(specification, rule, open=rows[0]["count"])
    return Finding(specification, rule, tuple(Violation(row["what"], tuple(row["indexes"])) for row in rows))


def _violations_in_parts(
    history: History, specifications: Sequence[str], compiled: Subscriptions | None
) -> DataFrame:
    """The violations that the rules find where a glance does not show that a specification holds."""
    clear = glance(history, compiled, orders=not ORDERS.isdisjoint(specifications))
    found = [history.nothing(f"{VIOLATIONS}, specification string, rule string")]
    for name in specifications:
        concerned = history
        if name == "simple" and clear.suspects is not None:
            if not clear.has_suspects:
                continue
            concerned = history.about(clear.suspects)
        elif name in ORDERS and clear.is_ordered:
            continue
        found += [
            rows.withColumns({"specification": F.lit(name), "rule": F.lit(rule)})
            for rule, rows in SPECIFICATIONS[name](concerned).items()
        ]
    return reduce(DataFrame.unionByName, found)


@dataclass(frozen=True, slots=True)
class _Whole:
    """The plain program, over a trace that is in one place."""

    language: Language
    specifications: tuple[str, ...]

    def findings(self, trace: DataFrame, shown: int | None = None) -> DataFrame:
        """The findings: the first of each rule, or all, in order and with how many there are."""

        def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            if some := list(batches):
                yield self._judged(pa.Table.from_batches(some), shown)

        types = f"specification string, rule string, {VIOLATIONS}, count bigint"
        return trace.coalesce(1).mapInArrow(judge, types)

    def _judged(self, trace: pa.Table, shown: int | None) -> pa.RecordBatch:
        """Of what is open the program knows numbers only: such a rule has rows that say no more."""
        rows: list[tuple[Any, ...]] = []
        for each in plain.audit(self.language.events(trace), *self.specifications):
            violations = sorted((violation.indexes, violation.what) for violation in each.violations)
            said: list[tuple[Any, ...]] = [(what, indexes, False) for indexes, what in violations]
            said += [(None, (), True)] * (0 if violations else each.open)
            limit = len(said) if shown is None else max(1, shown)
            rows += [(each.specification, each.rule, *row, len(said)) for row in said[:limit]]
        columns = zip(*rows, strict=True) if rows else [()] * len(_JUDGED)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _JUDGED, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=_JUDGED)


_JUDGED: Final = pa.schema(
    [
        ("specification", pa.string()),
        ("rule", pa.string()),
        ("what", pa.string()),
        ("indexes", pa.list_(pa.int64())),
        ("open", pa.bool_()),
        ("count", pa.int64()),
    ]
)


Rules = dict[str, DataFrame]
"""The findings by rule: what, places, open."""


def _violations(rows: DataFrame, indexes: Column, *what: str, open: bool = False) -> DataFrame:
    """Each row as a violation: the places that prove it, and a sentence, in which {names} are columns."""
    parts = [part for text in what for part in re.split(r"(\{\w+\})", text) if part]
    sentence = [F.col(part[1:-1]) if part.startswith("{") else F.lit(part) for part in parts]
    return rows.select(
        F.concat(*sentence).alias("what"),
        indexes.cast("array<bigint>").alias("indexes"),
        F.lit(open).alias("open"),
    )


VIOLATIONS: Final = "what string, indexes array<bigint>, open boolean"


# -- who is notified about what (book 2.5.2, 2.5.4) --------------------------------------------------------


def _simple(history: History) -> Rules:
    return {
        "subscribed": _subscribed(history),
        "published": _published(history),
        "once": _once(history),
        "liveness": _liveness(history, history.publications),
    }


def _stabilising(history: History) -> Rules:
    """The fitting specification, from the recovery point on; before it, what is missing or wrong is open."""
    point = history.recovery_point
    fitting = "scoped" if history.is_scoped else "advertisements" if history.advertises else "simple"
    rules: dict[str, list[DataFrame]] = {"safety": [], "liveness": []}
    for rule, rows in SPECIFICATIONS[fitting](history).items():
        is_open = F.lit(True) if point is None else F.col("open")
        counted = F.lit(True) if point is None else F.array_max("indexes") > point
        rules["liveness" if rule == "liveness" else "safety"].append(
            rows.where(counted).withColumn("open", is_open)
        )
    return {rule: reduce(DataFrame.unionByName, rows) for rule, rows in rules.items()}


def _advertisements(history: History) -> Rules:
    return {
        "subscribed": _subscribed(history),
        "published": _published(history),
        "once": _once(history),
        "advertised": _advertised(history),
        "liveness": _liveness(history, _stay_advertised(history)),
    }


def _subscribed(history: History) -> DataFrame:
    """Nobody is notified about what no subscription of its matches."""
    published = history.deliveries.where(F.col("publication").isNotNull())
    return _violations(
        _without(published, history.entitled, ("publication", "component"), holds("index")),
        _sorted("publication", "index"),
        "{component} was notified about {name} without a subscription that matches it",
    )


def _published(history: History) -> DataFrame:
    """Nobody is notified about what was not published before."""
    never = history.deliveries.where(F.col("publication").isNull())
    early = history.deliveries.where(F.col("index") < F.col("publication"))
    return _violations(
        never, F.array("index"), "{component} was notified about {name}, which nobody published"
    ).unionByName(
        _violations(
            early,
            F.array("index", "publication"),
            "{component} was notified about {name} before it was published",
        )
    )


def _once(history: History) -> DataFrame:
    """Nobody is notified about the same twice."""
    again = history.deliveries.where(F.col("first") < F.col("index"))
    return _violations(again, F.array("first", "index"), "{component} was notified about {name} again")


def _advertised(history: History) -> DataFrame:
    """Nobody is notified about what its producer had not advertised, unless that had advertised nothing yet."""
    own = history.advertisements.withColumnRenamed("component", "producer")
    bound = _with(history.publications, own, ("producer",), has_begun("publication"))
    unannounced = _without(bound, history.announced.where(holds("publication")), ("publication",))
    later = history.deliveries.where(F.col("index") > F.col("publication"))
    return _violations(
        _with(later, unannounced, ("publication",)),
        F.array("publication", "index"),
        "{component} was notified about {name}, which its producer had not advertised",
    )


def _stay_advertised(history: History) -> DataFrame:
    """The publications that must be delivered as far as advertisements go."""
    own = history.advertisements.withColumnRenamed("component", "producer")
    free = _without(history.publications, own, ("producer",))
    bound = _with(history.publications, own, ("producer",))
    return free.unionByName(_with(bound, history.announced.where(binds()), ("publication",)))


def _liveness(history: History, publications: DataFrame) -> DataFrame:
    """Everybody is notified about what matches a subscription of its that has taken effect and stays.

    Where the trace has not ended, what is missing may still come. The first of several subscriptions proves it.
    """
    due = (
        history.entitled.join(publications, "publication")
        .where(binds())
        .groupBy("publication", "component", "name")
        .agg(F.min("begun").alias("begun"))
    )
    reached = history.deliveries.where(F.col("index") > F.col("publication"))
    return _violations(
        _without(due, reached, ("publication", "component")),
        _sorted("begun", "publication"),
        "{component} was never notified about {name}, which its subscription matches",
        open=not history.ended,
    )


def _with(rows: DataFrame, others: DataFrame, same: Sequence[str], where: Column | None = None) -> DataFrame:
    """The rows that have one of the others: with the same values, and where the condition on both holds."""
    return _joined(rows, others, same, where, "left_semi")


def _without(
    rows: DataFrame, others: DataFrame, same: Sequence[str], where: Column | None = None
) -> DataFrame:
    """The rows that have none of the others."""
    return _joined(rows, others, same, where, "left_anti")


def _joined(
    rows: DataFrame, others: DataFrame, same: Sequence[str], where: Column | None, how: str
) -> DataFrame:
    renamed = others.select(
        *(F.col(name).alias(f"other {name}") for name in same),
        *(name for name in others.columns if name not in rows.columns),
    )
    condition = reduce(lambda one, two: one & two, (F.col(name) == F.col(f"other {name}") for name in same))
    return rows.join(renamed, condition if where is None else condition & where, how)


def _sorted(*indexes: str) -> Column:
    return F.sort_array(F.array(*indexes))


# -- FIFO-producer order (Definition 2.6) ------------------------------------------------------------------


def _fifo(history: History) -> Rules:
    """Nobody is notified about two notifications of one producer in another order than it published them."""
    whose = F.when(F.col("producer") == "", "the same producer").otherwise(F.col("producer"))
    told = history.delivered.withColumn("whose", whose)
    return {
        "order": _turned(told, ("component", "producer"), F.col("publication"), "{whose} had published first")
    }


def _turned(delivered: DataFrame, slot: Sequence[str], rank: Column, why: str) -> DataFrame:
    """The notifications of one slot that come behind one of a larger rank; those without a rank are out."""
    so_far = Window.partitionBy(*slot).orderBy("index").rowsBetween(Window.unboundedPreceding, -1)
    ahead = F.max(F.struct("rank", "index", "publication", "name"))
    turned = (
        delivered.where(F.col("publication").isNotNull())
        .withColumn("rank", rank)
        .where(F.col("rank").isNotNull())
        .withColumn("ahead", ahead.over(so_far))
        .where(F.col("ahead.rank") > F.col("rank"))
        .withColumn("earlier", F.col("ahead.name"))
    )
    return _violations(
        turned,
        F.array("publication", "ahead.publication", "ahead.index", "index"),
        "{component} was notified about {earlier} before {name}, which " + why,
    )


# -- the order of ordered runs -----------------------------------------------------------------------------


def _ordered(history: History) -> Rules:
    """Nobody's notifications go back in order key, nor in one producer's sequence numbers."""
    number = F.when(F.col("key.sequence").isNotNull(), F.struct("key.sequence", "key.id"))
    smaller = "has the smaller "
    return {
        "key": _turned(history.delivered, ("component",), rank("key."), f"{smaller}order key"),
        "sequence": _turned(
            history.delivered, ("component", "producer"), number, f"{smaller}sequence number"
        ),
    }


# -- causal order (Definition 2.7) -------------------------------------------------------------------------


def _causal(history: History) -> Rules:
    """Nobody is notified about an effect before its cause."""
    delivered = history.delivered.where(F.col("publication").isNotNull())
    so_far = Window.partitionBy("component").orderBy("index").rowsBetween(Window.unboundedPreceding, -1)
    turns = (
        delivered.withColumn("high", F.max("publication").over(so_far))
        .where(F.col("high") > F.col("publication"))
        .select(F.col("publication").alias("low"), "high")
    )
    if turns.isEmpty():
        return {"order": history.nothing(VIOLATIONS)}
    parts = history.keep(_parts(turns))
    told = _within(delivered, "publication", parts)
    published = _within(history.contents, "index", parts)
    rows = published.unionByName(told.select("part", "index", "component", "producer", "id"), True)
    return {"order": rows.groupBy("part").applyInArrow(_causal_within, VIOLATIONS)}


def _causal_within(table: pa.Table) -> pa.Table:
    """The findings of `orders.causal` in a part of a trace: its publications, and all that is told about
    these.
    """
    history = Told()
    for row in sorted(table.to_pylist(), key=lambda row: row["index"]):
        identity = Identity(row["producer"], row["id"])
        if row["component"] is None:
            notification = notification_in(row)
            event = Published(notification, OrderKey.of(notification))
            history.publications[identity] = Publication(row["index"], event)
        else:
            index = row["index"]
            history.notifications.append(Delivered(index, row["component"], identity, index))
    return _table(orders.causal(history))


# -- total order (Definition 2.8) --------------------------------------------------------------------------


def _total(history: History) -> Rules:
    """No two components are notified about the same two in different orders; and one order fits all.

    Any numbers will do: the closer they are to the order that components were notified in, the smaller the
    parts. Two are tried, the places of publication and of the first notification.
    """
    everywhere = Window.partitionBy("producer", "id")
    own = Window.partitionBy("component")
    numbered = (
        history.delivered.withColumn("told", F.min("index").over(everywhere))
        .withColumn("published", F.coalesce("publication", "told"))
        .withColumn("since", F.min("index").over(own))
        .withColumns({f"{each}_before": F.lag(each).over(own.orderBy("index")) for each in NUMBERINGS})
    )
    [descents] = numbered.agg(*(F.count_if(_descends(each)).alias(each) for each in NUMBERINGS)).collect()
    best = min(NUMBERINGS, key=lambda each: descents[each])
    if not descents[best]:
        return dict.fromkeys(ONE_ORDER, history.nothing(VIOLATIONS))
    turns = numbered.where(_descends(best)).select(
        F.col(best).alias("low"), F.col(f"{best}_before").alias("high")
    )
    told = _within(numbered, best, history.keep(_parts(turns)))
    rows = told.select("part", "since", "index", "component", "producer", "id").groupBy("part")
    found = history.keep(rows.applyInArrow(_total_within, f"rule string, {VIOLATIONS}"))
    return {rule: found.where(F.col("rule") == rule).drop("rule") for rule in ONE_ORDER}


NUMBERINGS: Final = ("published", "told")
ONE_ORDER: Final = {"agreement": orders.agreement, "one order": orders.one_order}


def _descends(numbers: str) -> Column:
    return F.col(f"{numbers}_before") >= F.col(numbers)


def _total_within(table: pa.Table) -> pa.Table:
    """The findings of the exact programs in a part of a trace."""
    history = _rows(table)
    found = {rule: _table(judge(history)) for rule, judge in ONE_ORDER.items()}
    return pa.concat_tables(
        each.add_column(0, "rule", pa.array([rule] * len(each), pa.string())) for rule, each in found.items()
    )


def _rows(table: pa.Table) -> Told:
    """The rows of a part, component by component, those first that were notified first in the whole trace.

    A proof names one of several components and circles: this gives the one that is found in the whole.
    """
    history = Told()
    for row in sorted(table.to_pylist(), key=lambda row: (row["since"], row["index"])):
        identity = Identity(row["producer"], row["id"])
        history.notifications.append(Delivered(row["index"], row["component"], identity, row["index"]))
    return history


def _table(violations: Iterable[Violation]) -> pa.Table:
    found = list(violations)
    return pa.table(
        {
            "what": pa.array([each.what for each in found], pa.string()),
            "indexes": pa.array([each.indexes for each in found], pa.list_(pa.int64())),
            "open": pa.array([False] * len(found), pa.bool_()),
        }
    )


# -- parts -------------------------------------------------------------------------------------------------


def _parts(spans: DataFrame) -> DataFrame:
    """The parts that spans cover together: `part`, the smallest number of each, and `last`, the largest one.

    One machine sorts the spans. They are what is wrong with a trace, or nearly, and not the trace.
    """
    by_low = Window.partitionBy(F.lit("all")).orderBy("low", "high")
    reach = F.max("high").over(by_low.rowsBetween(Window.unboundedPreceding, -1))
    begins = F.when(reach.isNull() | (reach < F.col("low")), F.col("low"))
    return (
        spans.withColumn("begins", begins)
        .withColumn("part", F.max("begins").over(by_low.rowsBetween(Window.unboundedPreceding, 0)))
        .groupBy("part")
        .agg(F.max("high").alias("last"))
    )


def _within(rows: DataFrame, number: str, parts: DataFrame) -> DataFrame:
    """The rows whose number lies in a part, with that part. Bins make an equality of what is a range."""
    first, last = (F.floor(F.col(each) / BIN) for each in ("part", "last"))
    binned = parts.withColumn("bin", F.explode(F.sequence(first, last)))
    found = rows.withColumn("bin", F.floor(F.col(number) / BIN)).join(binned, "bin")
    return found.where(F.col(number).between(F.col("part"), F.col("last"))).drop("bin", "last")


SPECIFICATIONS: Final[dict[str, Callable[[History], Rules]]] = {
    "simple": _simple,
    "advertisements": _advertisements,
    "scoped": History.scoped,
    "stabilising": _stabilising,
    "fifo": _fifo,
    "causal": _causal,
    "total": _total,
    "ordered": _ordered,
}
"""The specifications by name, in the rules of `fairlead.audit.SPECIFICATIONS`."""
