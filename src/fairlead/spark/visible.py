"""The stage `scope`: notifications, each with the scopes in which it is visible; a row for each version.

scope(notifications, scopes)       a function from DataFrame to DataFrame
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import types as T

from fairlead.errors import PipelineError, ScopeError
from fairlead.filters import Schema
from fairlead.model.order import OrderKey
from fairlead.scopes import Scopes
from fairlead.scopes.flows import Rows
from fairlead.scopes.sights import tag_of
from fairlead.scopes.sliced import Bits
from fairlead.scopes.texts import tag_texts
from fairlead.spark.frames import RECORD, VERSION, encode, notifications_in, to_records
from fairlead.spark.mapped import MappedVersions
from fairlead.spark.scoping import Epoch, OpenedScopes, ScopeText, order_times

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["scope"]

SCOPES: Final = "scopes"


def scope(notifications: DataFrame, scopes: Scopes | ScopeText, *, schema: Schema | None = None) -> DataFrame:
    """Notifications of `ingest` or `order`, each with the sorted names of the scopes in which it is visible.

    Where the graph has mappings there is a row for each version, with its content as a `record` and its tag in
    `version`. Graphs with policies are refused: these decide among subscribers, in the order of a pipeline.
    """
    text = ScopeText.of(scopes, schema)
    if text.opened.has_policies:
        raise PipelineError(
            "scopes: policies decide in a pipeline, where subscriptions and the order are known"
        )
    added = [T.StructField(SCOPES, T.ArrayType(T.StringType()))]
    if text.opened.has_mappings:
        notifications = to_records(notifications)
        added.append(T.StructField(VERSION, T.StringType()))
    declared = T.StructType([*notifications.schema.fields, *added])
    return notifications.mapInArrow(_Visible(text), declared)


@dataclass(frozen=True, slots=True)
class _Visible:
    scopes: ScopeText

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        opened = self.scopes.opened
        for batch in batches:
            if not opened.has_mappings:
                yield batch.append_column(SCOPES, opened.scopes_of(batch))
                continue
            special = opened.is_special(batch)
            plain = batch.filter(pa.array(~special))
            if plain.num_rows:
                named = plain.append_column(SCOPES, opened.scopes_of(plain))
                yield named.append_column(VERSION, pa.array([""] * plain.num_rows, pa.string()))
            if special.any():
                yield from _versions_in(batch.filter(pa.array(special)), opened)


def _versions_in(batch: pa.RecordBatch, opened: OpenedScopes) -> Iterator[pa.RecordBatch]:
    """A row for each version of notifications that may come to a mapping, with the scopes where it is visible."""
    for epoch, those in opened.parts(batch):
        part = batch if len(those) == batch.num_rows else batch.take(pa.array(those))
        producers = part.column("producer").to_pylist()
        alone = np.array([epoch.graph.is_scope(name or "") for name in producers], np.bool_)
        rest = part.filter(pa.array(~alone))
        if rest.num_rows:
            try:
                made, doubtful = _by_columns(rest, epoch)
            except ScopeError:  # too many ways to follow for all of them
                alone[:] = True
            else:
                yield made
                alone[np.flatnonzero(~alone)[doubtful]] = True
        if alone.any():
            yield _one_by_one(part.filter(pa.array(alone)), opened)


def _by_columns(batch: pa.RecordBatch, epoch: Epoch) -> tuple[pa.RecordBatch, Bits]:
    """The versions of rows, and the rows that have to be evaluated one by one."""
    together, visible = MappedVersions(batch, epoch).visible()
    numbers, firsts, doubtful = together.groups()
    found = [np.empty((0, 2), np.int64)]
    names = sorted(visible)
    for rank, name in enumerate(names):
        for version, rows in visible[name].items():
            at = np.unique(numbers[together.slots(version, rows)])
            found.append(np.stack((at, np.full(len(at), rank)), axis=1))
    pairs = np.unique(np.concatenate(found), axis=0)
    kept = np.union1d(np.arange(batch.num_rows), pairs[:, 0])
    counts = np.bincount(pairs[:, 0], minlength=len(firsts))[kept]
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    values = pa.array(names, pa.string()).take(pa.array(pairs[:, 1]))
    tags = np.where(kept < batch.num_rows, "", tag_texts(together.marks[firsts[kept]]))
    made = _versions(batch, together.rows[firsts[kept]], together.texts.take(pa.array(firsts[kept])))
    named = made.append_column(SCOPES, pa.ListArray.from_arrays(pa.array(offsets), values))
    tagged = named.append_column(VERSION, pa.array(tags.tolist(), pa.string()))
    return tagged.filter(pa.array(~doubtful[together.rows[firsts[kept]]])), doubtful


def _one_by_one(batch: pa.RecordBatch, opened: OpenedScopes) -> pa.RecordBatch:
    running = opened.running()
    rows, records, names, tags = [], [], [], []
    for row, (notification, time) in enumerate(
        zip(notifications_in(batch), order_times(batch).tolist(), strict=True)
    ):
        plan = running.plan_at(OrderKey(time, notification.producer, None, notification.id or ""))
        for version, where in plan.visible_versions(notification):
            rows.append(row)
            tags.append(tag_of(version, notification))
            records.append(encode(version))
            names.append(where)
    made = _versions(batch, np.array(rows, np.int64), pa.array(records, pa.string()))
    named = made.append_column(SCOPES, pa.array(names, pa.list_(pa.string())))
    return named.append_column(VERSION, pa.array(tags, pa.string()))


def _versions(batch: pa.RecordBatch, rows: Rows, texts: pa.Array) -> pa.RecordBatch:
    """Rows with other contents."""
    made = batch.take(pa.array(rows))
    at = batch.schema.get_field_index(RECORD)
    return made.set_column(at, batch.schema.field(at), texts)
