"""Scope: who may see what, for whole batches of notifications.

    scope(notifications, scopes)       each with the scopes in which it is visible
    narrowed(received, scopes)         each with those of its receivers that may see it: between match and deliver

Visibility is computed for the graph, a column of bits for each scope (`fairlead.scopes.sliced`), not for rows. The
graph may change: a change with SINCE holds for order times from there on, and the rows of a batch are divided by
the graphs that hold for them. A subscription belongs to the component that its subscriber's name says.

Graphs with mappings, policies or rules are refused here, and so are patterns beside scopes: the ordered bus has
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray
from pyspark.sql import types as T

from fairlead.audit.trace import ScopeChanged
from fairlead.errors import FairleadError, PipelineError, ScopeError
from fairlead.filters import Filter, Schema
from fairlead.matching.columnar import Columnar
from fairlead.model.order import BEGINNING
from fairlead.scopes import DEFAULT, ScopeGraph, ScopePlan, Scopes, System, parse_statements, print_statements
from fairlead.scopes.sliced import Bits, Sliced
from fairlead.scopes.timeline import Timeline
from fairlead.spark.frames import ATTRIBUTES, RECORD, notifications_in
from fairlead.spark.matcher import RECEIVERS
from fairlead.spark.parts import Attributes
from fairlead.spark.scanning import columns_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from fairlead.spark.config import Config

__all__ = ["ScopeText", "narrowed", "scope", "scopes_of"]

SCOPES: Final = "scopes"
_KEPT: Final = 4


@dataclass(frozen=True, slots=True)
class ScopeText:
    """A scope graph and its changes as text, which goes to workers."""

    text: str
    outsiders: str = "default"
    schema: Schema | None = None

    @classmethod
    def of(cls, scopes: Scopes | ScopeText, schema: Schema | None = None) -> ScopeText:
        """The text of a scope graph; PipelineError where it cannot be evaluated for batches."""
        if isinstance(scopes, Scopes):
            scopes = cls(print_statements(scopes.statements), scopes.outsiders, schema)
        try:
            scopes.opened.check()
        except ScopeError as error:
            raise PipelineError(f"scopes: {error}") from error
        return scopes

    def events(self) -> list[ScopeChanged]:
        """The graph and its changes, as a trace has them."""
        statements = parse_statements(self.text, self.schema)
        about = {"text": print_statements([each for each in statements if each.since is None])}
        if self.outsiders != DEFAULT:
            about["outsiders"] = self.outsiders
        events = [ScopeChanged("graph", about)]
        dated = [(each.since.microseconds, each) for each in statements if each.since is not None]
        for since, statement in sorted(dated, key=itemgetter(0)):
            text = print_statements([replace(statement, since=None)])
            events.append(ScopeChanged("alter", {"text": text, "from": [since, "", None, ""]}))
        return events

    @property
    def opened(self) -> _Opened:
        """The graph, prepared; a process prepares it once."""
        found = _OPENED.get(self)
        if found is None:
            while len(_OPENED) >= _KEPT:
                del _OPENED[next(iter(_OPENED))]
            found = _OPENED[self] = _Opened(self)
        return found


_OPENED: Final[dict[ScopeText, _Opened]] = {}


def scopes_of(config: Config) -> ScopeText | None:
    """The scope graph that a pipeline's file names."""
    if config.scopes is None:
        return None
    schema = None if config.schema is None else Schema.read(config.schema)
    try:
        scopes = Scopes.read(config.scopes.path, schema, outsiders=config.scopes.outsiders)
    except (FairleadError, OSError) as error:
        raise PipelineError(f"scopes: {error}") from error
    return ScopeText.of(scopes, schema)


def scope(notifications: DataFrame, scopes: Scopes | ScopeText, *, schema: Schema | None = None) -> DataFrame:
    """Notifications of `ingest` or `order`, each with the sorted names of the scopes in which it is visible."""
    text = ScopeText.of(scopes, schema)
    declared = T.StructType(
        [*notifications.schema.fields, T.StructField(SCOPES, T.ArrayType(T.StringType()))]
    )
    return notifications.mapInArrow(_Visible(text), declared)


def narrowed(received: DataFrame, scopes: Scopes | ScopeText) -> DataFrame:
    """Notifications with their content and receivers, each with those receivers only who may see it."""
    return received.mapInArrow(_Narrower(ScopeText.of(scopes)), received.schema)


@dataclass(frozen=True, slots=True)
class _Visible:
    scopes: ScopeText

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.append_column(SCOPES, self.scopes.opened.scopes_of(batch))


@dataclass(frozen=True, slots=True)
class _Narrower:
    scopes: ScopeText

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if not batch.num_rows:
                continue
            receivers = batch.column(RECEIVERS)
            flat = receivers.flatten()
            counts = pc.fill_null(pc.list_value_length(receivers), 0).to_numpy()
            rows = np.repeat(np.arange(batch.num_rows), counts)
            seen = self.scopes.opened.sees(batch, rows, flat.field("subscriber"))
            left = np.bincount(rows[seen], minlength=batch.num_rows)
            offsets = np.concatenate(([0], np.cumsum(left))).astype(np.int32)
            lists = pa.ListArray.from_arrays(pa.array(offsets), flat.filter(pa.array(seen)))
            at = batch.schema.get_field_index(RECEIVERS)
            yield batch.set_column(at, batch.schema.field(at), lists.cast(receivers.type))


class _Epoch:
    """A graph, with its filters in an engine."""

    def __init__(self, graph: ScopeGraph) -> None:
        self.sliced = Sliced(
            ScopePlan(replace(graph, outsiders="isolated") if graph.outsiders == "refused" else graph)
        )
        self.graph = graph

    @cached_property
    def engine(self) -> Columnar[int]:
        engine: Columnar[int] = Columnar()
        engine.add_many(enumerate(self.sliced.filters))
        return engine

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The attributes that filters name."""
        attributes = Attributes()
        for filter in self.sliced.filters:
            attributes.add(filter)
        return tuple(sorted(attributes.names))

    def passed(self, batch: pa.RecordBatch) -> dict[Filter, Bits]:
        """For each filter, which rows match it."""
        filters = self.sliced.filters
        found = np.zeros((len(filters), batch.num_rows), np.bool_)
        if filters:
            columns, unsure = self._columns(batch)
            matches = self.engine.match_arrow(columns, lambda row: notifications_in(batch.slice(row, 1))[0])
            ids = np.asarray(matches.ids, np.int64)
            at = np.repeat(np.arange(batch.num_rows), np.diff(matches.starts))
            found[ids[matches.ordinals], at] = True
            if len(unsure):
                whole = self.engine.match_batch(notifications_in(batch.take(pa.array(unsure))))
                found[:, unsure] = False
                for row, numbers in zip(unsure.tolist(), whole, strict=True):
                    found[numbers, row] = True
        return dict(zip(filters, found, strict=True))

    def _columns(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, NDArray[np.int64]]:
        """The attributes as columns, and the rows that a scan of texts is not sure of."""
        if RECORD not in batch.schema.names:
            struct = batch.column(ATTRIBUTES)
            names = [field.name for field in struct.type]
            return pa.RecordBatch.from_arrays(struct.flatten(), names), np.empty(0, np.int64)
        columns, sure = columns_in(batch.column(RECORD), self.names)
        return columns, np.flatnonzero(~sure)


class _Opened:
    """The graphs of a text, each from an order time on."""

    def __init__(self, scopes: ScopeText) -> None:
        statements = parse_statements(scopes.text, scopes.schema)
        start = System.of((each for each in statements if each.since is None), scopes.outsiders)  # type: ignore[arg-type]
        timeline = Timeline(start)
        for statement in statements:
            if statement.since is not None:
                timeline = timeline.add(statement)
        self._systems = [start, *timeline.systems]
        self._times = np.array([BEGINNING, *(change.key.time for change in timeline.changes)], np.int64)
        self._epochs: dict[int, _Epoch] = {}

    def check(self) -> None:
        """ScopeError where a graph has more than filters."""
        for system in self._systems:
            if any(each.rules for each in system.deployed.values()) or any(
                each.features.rules for each in system.definitions.values()
            ):
                raise ScopeError("rules are not for batches")
            Sliced(ScopePlan(system.graph))

    def _epoch(self, number: int) -> _Epoch:
        if number not in self._epochs:
            self._epochs[number] = _Epoch(self._systems[number].graph)
        return self._epochs[number]

    def _parts(self, batch: pa.RecordBatch) -> Iterator[tuple[_Epoch, NDArray[np.int64]]]:
        """The rows that are judged by each graph."""
        if len(self._systems) == 1:
            yield self._epoch(0), np.arange(batch.num_rows)
            return
        name = "time" if "time" in batch.schema.names else "event_time"
        times = pc.fill_null(batch.column(name), 0).to_numpy()
        numbers = np.searchsorted(self._times, times, side="right") - 1
        for number in np.unique(numbers).tolist():
            yield self._epoch(number), np.flatnonzero(numbers == number)

    def sees(self, batch: pa.RecordBatch, rows: NDArray[np.int64], subscribers: pa.Array) -> Bits:
        """Of each pair of a row and a subscriber, whether the subscriber may see it."""
        components, whose = _encoded(subscribers)
        seen = np.zeros(len(rows), np.bool_)
        for epoch, those in self._parts(batch):
            part = batch if len(those) == batch.num_rows else batch.take(pa.array(those))
            own = np.full(batch.num_rows, -1, np.int64)
            own[those] = np.arange(len(those))
            pairs = np.flatnonzero(own[rows] >= 0)
            producers, codes = _encoded(part.column("producer"))
            seen[pairs] = epoch.sliced.sees(
                producers,
                codes,
                epoch.passed(part),
                rows=own[rows[pairs]],
                components=components,
                whose=whose[pairs],
            )
        return seen

    def scopes_of(self, batch: pa.RecordBatch) -> pa.Array:
        """The scopes in which each row is visible, by name."""
        names: list[str] = []
        at, what = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for epoch, those in self._parts(batch):
            part = batch if len(those) == batch.num_rows else batch.take(pa.array(those))
            producers, codes = _encoded(part.column("producer"))
            passed = epoch.passed(part)
            inside = epoch.sliced.inside(producers, codes, passed)
            scopes = [each.name for each in epoch.graph.scopes if not each.abstract]
            for name, bits in epoch.sliced.visible(inside, len(those), scopes, passed).items():
                rows = np.flatnonzero(bits)
                if len(rows):
                    at.append(those[rows])
                    what.append(np.full(len(rows), len(names)))
                    names.append(name)
        rows, numbers = np.concatenate(at), np.concatenate(what)
        ranks = np.empty(len(names), np.int64)
        ranks[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
        order = np.lexsort((ranks[numbers] if len(numbers) else numbers, rows))
        offsets = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=batch.num_rows)))).astype(
            np.int32
        )
        values = pa.array(names, pa.string()).take(pa.array(numbers[order]))
        return pa.ListArray.from_arrays(pa.array(offsets), values)


def _encoded(names: Any) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct names, and the number of each."""
    coded = pc.dictionary_encode(pc.fill_null(names, ""))
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    return coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64)
