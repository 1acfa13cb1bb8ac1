"""Fair subscriptions over columns: no event becomes an object.

Law: `RelationGroup` finds what a `FairGroup` finds, up to the end of time. Where an attribute that is compared is
no plain column, a component is not of the class of a `Bank`, or somebody asks for the content of relations, the
rows become objects after all.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from fairlead.correlation.fair import kernels
from fairlead.correlation.fair.bank import Bank, Coded, Member
from fairlead.correlation.fair.relations import PRODUCER, identified, relation_id
from fairlead.correlation.fair.subscriptions import UNNAMED, Conjunction
from fairlead.correlation.patterns.lines import NotComparable
from fairlead.filters import Filter
from fairlead.matching.columnar import Columnar
from fairlead.model.order import BEGINNING, END
from fairlead.spark.frames import ATTRIBUTES, RANK
from fairlead.spark.groups import FairGroup
from fairlead.spark.lines import BEFORE_END, Columns
from fairlead.spark.patterns import Correlation

__all__ = ["RelationGroup"]

NEVER_LONG: Final = (1 << 31) - 1
_ENVELOPE: Final = frozenset({"id", "producer", "sequence", "time"})


class RelationGroup(FairGroup):
    """Conjunctions of fair subscriptions, all from the beginning on."""

    def accepts(self, batch: pa.RecordBatch) -> bool:
        """Whether rows can be matched as columns: typed, all points, and subscriptions of the class."""
        if ATTRIBUTES not in batch.schema.names:
            return False
        fields = [field.name for field in batch.schema.field(ATTRIBUTES).type]
        if any(name.partition(".")[0] == "interval" for name in fields):
            return False
        return all(
            each.since == BEGINNING
            and set(self._called[each.name]) == {UNNAMED}
            and all(self._patterns.rows[number].until == END for number in each.rows)
            and all(map(Bank.admits, each.conjunction.components))
            for each in self._correlations.values()
        )

    def composites_in(
        self, rows: pa.RecordBatch, engine: Columnar[int], numbers: dict[Filter, int], payload: bool
    ) -> Iterator[pa.RecordBatch]:
        """The relations in rows, up to the end of time. NotComparable if that takes objects."""
        if payload:
            raise NotComparable("relations with their content")
        stream = Columns(rows, (), engine, numbers)
        bank = Bank(long=NEVER_LONG)
        members: dict[tuple[Conjunction, Any], Member] = {}
        for each in self._correlations.values():
            for component in each.conjunction.components:
                if (component, each.choice) not in members:
                    filters = [numbers[filter] for filter in component.filters.values()]
                    member = bank.add(component, each.choice, filters)
                    assert member is not None, "it holds nothing"
                    members[component, each.choice] = member
        columns = {name: _coded(stream.attributes, name, bank) for name in bank.columns}
        found = bank.take_rows(columns, stream.starts, stream.matched.astype(np.int32))
        if found is None:
            raise NotComparable("a value that is no number")
        events = list(
            map(
                identified,
                stream.rows.column("producer").fill_null("").to_pylist(),
                stream.rows.column("id").fill_null("").to_pylist(),
            )
        )
        for each in self._correlations.values():
            parts = [found[members[component, each.choice]] for component in each.conjunction.components]
            if all(parts):
                yield self._batch(each, stream, parts, events)

    def _batch(
        self,
        correlation: Correlation,
        stream: Columns,
        parts: list[list[tuple[int, tuple[int, ...]]]],
        events: list[bytes],
    ) -> pa.RecordBatch:
        """The relations of a conjunction: its components' n-th matches, joined."""
        conjunction = correlation.conjunction
        instances = [instance for each in conjunction.components for instance in each.instances]
        arranged = [instances.index(each) for each in conjunction.instances]
        joined = list(zip(*parts, strict=False))
        last = np.array([max(row for row, _ in each) for each in joined])
        taken = np.array([[row for _, rows in each for row in rows] for each in joined])[:, arranged]
        ids = [
            relation_id(conjunction, number, b"".join([events[row] for row in own]))
            for number, own in zip(count(1), taken.tolist(), strict=False)
        ]
        size, text = len(joined), conjunction.text
        flat = pa.array(taken.reshape(-1))
        steps = pa.array([f"{each.type}[{each.index}]" for each in conjunction.instances])
        named = [stream.rows.column(name).take(flat) for name in ("producer", "id", "event_time")]
        constituents = pa.ListArray.from_arrays(
            pa.array(np.arange(size + 1) * len(arranged), pa.int32()),
            pa.StructArray.from_arrays(
                [steps.take(pa.array(np.tile(np.arange(len(arranged)), size))), *named],
                ["step", "producer", "id", "time"],
            ),
        )
        times = [
            stream.rows.column("event_time").take(pa.array(taken[:, at])) for at in range(taken.shape[1])
        ]
        start, end = pc.min_element_wise(*times), pc.max_element_wise(*times)
        subscribers = [
            {"id": id, "subscriber": subscriber}
            for id, subscriber in self.subscribers(correlation.rows, BEFORE_END)
        ]
        completing = stream.rows.take(pa.array(last))
        columns = {
            "time": completing.column("time"),
            "producer": pa.repeat(pa.scalar(PRODUCER), size),
            "id": pa.array(ids),
            "event_time": end,
            "type": pa.repeat(pa.scalar(UNNAMED), size),
            "interval": pa.StructArray.from_arrays([start, end], ["start", "end"], mask=end.is_null()),
            "constituents": constituents,
            "pattern": pa.repeat(pa.scalar(text), size),
            "patterns": pa.array([subscribers]).take(pa.array(np.zeros(size, np.int64))),
            "is_public": pa.repeat(pa.scalar(False), size),
            RANK: pa.StructArray.from_arrays(
                [
                    *(completing.column(name) for name in ("producer", "sequence", "id")),
                    pa.repeat(pa.scalar(text), size),
                    pa.array(np.arange(1, size + 1)),
                ],
                ["producer", "sequence", "id", "conjunction", "number"],
            ),
        }
        return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def _coded(attributes: pa.RecordBatch, name: str, bank: Bank) -> Coded:
    """A column that is compared, as a bank takes it; NotComparable where it is of another type."""
    if "." in name:
        raise NotComparable(name)
    if name not in attributes.schema.names:
        if name in _ENVELOPE:
            raise NotComparable(name)
        return np.zeros(attributes.num_rows, np.int8), np.zeros(attributes.num_rows)
    column = attributes.column(name)
    type = column.type
    is_there = column.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_string(type):
        encoded = column.dictionary_encode()
        known = np.array([bank.coded(text)[1] for text in encoded.dictionary.to_pylist()] or [0.0])
        kind, values = kernels.TEXT, known[encoded.indices.fill_null(0).to_numpy()]
    elif pa.types.is_integer(type):
        kind, whole = kernels.NUMBER, column.fill_null(0).to_numpy()
        if len(whole) and max(abs(int(whole.min())), abs(int(whole.max()))) > bank.EXACT:
            raise NotComparable(name)
        values = whole.astype(np.float64)
    elif pa.types.is_float64(type):
        kind, values = kernels.NUMBER, column.fill_null(np.nan).to_numpy()
        is_there = is_there & ~np.isnan(values)
    else:
        raise NotComparable(name)
    return np.where(is_there, kind, kernels.NOTHING).astype(np.int8), values
