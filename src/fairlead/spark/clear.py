"""Whether a trace that one process can hold shows at once that specifications hold: `glance`, over columns.

    is_clear    only if    `auditing.audit` finds neither a violation nor anything open

It asks of a whole trace what `glance` asks with shuffles: whether order keys and sequence numbers go up along the
publications, whether each component was notified about them in that order, each once, and whether those were
notified whose subscriptions match. Where the answer is no, or the trace has more than subscriptions that hold
throughout or for a time that they say, nothing is clear, and the audit proves what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray

from fairlead.audit.parquet import files
from fairlead.correlation.patterns.composites import PRODUCER
from fairlead.filters import parse
from fairlead.matching.columnar import Columnar
from fairlead.spark.asking import table_of
from fairlead.spark.frames import KEY, RECORD, notifications_in
from fairlead.spark.glance import ORDERS
from fairlead.spark.history import VERSIONS
from fairlead.spark.matcher import MEMORY, RECEIVERS, Matcher
from fairlead.spark.orderer import identities
from fairlead.spark.small import by_subscriber, subscribed
from fairlead.spark.subscriptions import Subscriptions

if TYPE_CHECKING:
    from fairlead.filters import Schema

__all__ = ["is_clear", "table_of_files"]

BYTES_MAX: Final = 512 << 20
"""So many bytes of files are read into one process at most."""
KINDS: Final = frozenset({"pub", "sub", "notify", "fault", "language", "end"})
"""The records a trace may have whose subscriptions are declared before anything is published."""
COLUMNS: Final = (
    *("v", "event", "component", *KEY, "event_time", RECORD),
    *("subscription", "filter", "from", "until", "ready"),
)

Numbers = NDArray[np.int64]


def table_of_files(paths: Sequence[str]) -> pa.Table | None:
    """The events of a trace in their order; None where one process should not hold them."""
    found = files(*paths)
    if sum(each.bytes for each in found) > BYTES_MAX:
        return None
    return pa.concat_tables([each.open().read(columns=list(COLUMNS)) for each in found]).combine_chunks()


def is_clear(trace: pa.Table, specifications: Sequence[str], compiled: Subscriptions) -> bool:
    """Whether all specifications certainly hold for a trace; `compiled` are its subscriptions."""
    if not {*specifications} <= {"simple", *ORDERS} or not _is_plain(trace, compiled):
        return False
    event = trace.column("event")
    published, told = (np.flatnonzero(np.asarray(pc.equal(event, kind))) for kind in ("pub", "notify"))
    publications = trace.select([*KEY, "event_time", RECORD]).take(pa.array(published))
    notified = trace.select(["component", "producer", "id"]).take(pa.array(told))
    names = _identities(publications)
    if pc.count_distinct(names).as_py() < len(names):
        return False
    about = pc.index_in(_identities(notified), value_set=names)
    if about.null_count:
        return False
    number = about.to_numpy().astype(np.int64)
    component = notified.column("component").combine_chunks().dictionary_encode()
    whom = component.indices.to_numpy().astype(np.int64)
    return (
        bool((published[number] < told).all())
        and _goes_up(publications)
        and _in_order(whom, number)
        and _reaches(trace, publications, compiled, (component.dictionary, whom, number))
    )


def _is_plain(trace: pa.Table, compiled: Subscriptions) -> bool:
    """Whether all rows are events, and the subscriptions are those that are compiled and hold throughout."""
    kinds = set(trace.column("event").unique().to_pylist())
    if not kinds <= KINDS or not set(trace.column("v").unique().to_pylist()) <= set(VERSIONS):
        return False
    event = trace.column("event")
    is_sub = np.asarray(pc.equal(event, "sub"))
    first = int(np.argmax(np.asarray(pc.equal(event, "pub")))) if "pub" in kinds else trace.num_rows
    if is_sub[first:].any() or ("end" in kinds and event[-1].as_py() != "end"):
        return False
    needed = {"notify": ("component", "producer", "id"), "pub": ("time", "producer", "id", RECORD)}
    for kind, columns in needed.items():
        rows = trace.select(columns).filter(pc.equal(event, kind))
        if any(column.null_count for column in rows.columns):
            return False
    ready = trace.filter(pa.array(is_sub & np.asarray(trace.column("ready").fill_null(True))))
    # A subscription may hold for a while: the engine knows for how long, if the trace says the same.
    said = ["component", "subscription", "filter", "from", "until"]
    own = by_subscriber(subscribed("sub", table_of(compiled))).select(said)
    return bool(by_subscriber(ready).select(said).combine_chunks().equals(own.combine_chunks()))


def _identities(rows: pa.Table) -> pa.Array:
    return identities(rows.column("producer").combine_chunks(), rows.column("id").combine_chunks())


def _goes_up(publications: pa.Table) -> bool:
    """Whether order keys, and each producer's sequence numbers, go up along the places of publication."""
    behind = pc.equal(publications.column("producer"), PRODUCER)
    # Composites of one instant may stand in any order.
    columns = {"time": publications.column("time"), "behind": behind.cast(pa.int8())}
    for name in KEY[1:]:
        shown = pc.if_else(behind, None, publications.column(name))
        columns |= {f"has {name}": shown.is_valid().cast(pa.int8()), name: shown}
    if not _never_falls(list(columns.values())):
        return False
    numbered = publications.filter(publications.column("sequence").is_valid())
    producers = numbered.column("producer").combine_chunks().dictionary_encode().indices.to_numpy()
    by_producer = numbered.take(pa.array(np.argsort(producers, kind="stable")))
    own = pa.chunked_array([pa.array(np.sort(producers))])
    return _never_falls([own, by_producer.column("sequence"), by_producer.column("id")])


def _never_falls(columns: Sequence[Any]) -> bool:
    """Whether rows of some columns, compared from left to right, never fall; nulls are equal."""
    size = len(columns[0])
    if size < 2:
        return True
    undecided = np.ones(size - 1, np.bool_)
    for column in columns:
        before, after = column.slice(0, size - 1), column.slice(1)
        if (undecided & _mask(pc.greater(before, after))).any():
            return False
        undecided &= ~_mask(pc.less(before, after))
    return True


def _mask(column: Any) -> NDArray[np.bool_]:
    return np.asarray(column.fill_null(False))


def _in_order(whom: Numbers, number: Numbers) -> bool:
    """Whether each component was notified about publications in their order, each once."""
    order = np.argsort(whom, kind="stable")
    same = whom[order][1:] == whom[order][:-1]
    return bool((np.diff(number[order])[same] > 0).all())


def _reaches(
    trace: pa.Table,
    publications: pa.Table,
    compiled: Subscriptions,
    notified: tuple[pa.Array, Numbers, Numbers],
) -> bool:
    """Whether those were notified whose subscriptions match, and nobody else.

    Who asked for a pattern has a subscription that is never ready: it may be notified about what that matches.
    """
    names, whom, number = notified
    batches = publications.combine_chunks().to_batches()
    if not batches:
        return not len(number)
    size = max(1, len(names))
    due = np.zeros(0, np.int64)
    if matches := list(Matcher((compiled,), (), (), MEMORY)(batches)):
        found = pa.Table.from_batches(matches)
        rows = pc.index_in(_identities(found), value_set=_identities(publications))
        receivers = found.column(RECEIVERS).combine_chunks()
        at = rows.to_numpy().astype(np.int64)[pc.list_parent_indices(receivers).to_numpy()]
        codes = pc.index_in(receivers.flatten().field("subscriber"), value_set=names)
        if codes.null_count:  # somebody was never notified about anything
            return False
        due = np.sort(at * size + codes.to_numpy().astype(np.int64))
    told = np.sort(number * size + whom)
    if len(due) == len(told) and (due == told).all():
        return True
    if len(np.setdiff1d(due, told, assume_unique=True)):
        return False
    more = np.setdiff1d(told, due, assume_unique=True)
    return _were_requested(trace, publications, (names, more), compiled.schema)


def _were_requested(
    trace: pa.Table, publications: pa.Table, told: tuple[pa.Array, Numbers], schema: Schema | None
) -> bool:
    """Whether notifications, each by publication and component, match subscriptions that are never ready."""
    names, more = told
    never = pc.and_(pc.equal(trace.column("event"), "sub"), pc.invert(trace.column("ready").fill_null(True)))
    asked = trace.select(["component", "filter"]).filter(never).to_pylist()
    engine: Columnar[int] = Columnar()
    for number, row in enumerate(asked):
        engine.add(number, parse(row["filter"], schema))
    numbers, components = np.divmod(more, max(1, len(names)))
    some, at = np.unique(numbers, return_inverse=True)
    [rows] = publications.take(pa.array(some)).combine_chunks().to_batches()
    matched = engine.match_batch(notifications_in(rows))
    owners = [{asked[number]["component"] for number in numbers} for numbers in matched]
    whose = names.take(pa.array(components)).to_pylist()
    return all(name in owners[number] for name, number in zip(whose, at.tolist(), strict=True))
