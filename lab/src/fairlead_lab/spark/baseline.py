"""The job that one would write on Spark without Fairlead: a join of notifications with subscriptions, pair by
pair.

    a pair (n, s)    iff    every condition of s holds for n

Filters become a table of conditions: a column for each thing that any of them asks, null where one does not ask
it. No key leads from a notification to its subscriptions, so Spark broadcasts the conditions and tests every pair:
the cost grows with the product of both. Matching is compared with it, for speed and for the pairs it finds.

Who knows that every filter has an equality writes a hash join for each attribute instead, and their union.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from fairlead.errors import PipelineError
from fairlead.filters.constraint import Constraint, Op
from fairlead.filters.filter import And, Filter
from fairlead.filters.terms import Attribute

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["SUBSCRIPTION", "conditions_of", "conditions_schema", "hash_joins", "nested_loop"]

SUBSCRIPTION: Final = "subscription"
_IS, _FROM, _TO = "_is", "_from", "_to"


def conditions_schema(texts: Sequence[str], numbers: Sequence[str]) -> pa.Schema:
    """The table of conditions for equalities on some attributes and closed intervals on others."""
    return pa.schema(
        [
            pa.field(SUBSCRIPTION, pa.string(), nullable=False),
            *((f"{name}{_IS}", pa.string()) for name in texts),
            *((f"{name}{end}", pa.float64()) for name in numbers for end in (_FROM, _TO)),
        ]
    )


def conditions_of(subscriptions: Iterable[tuple[str, Filter]], schema: pa.Schema) -> pa.Table:
    """Subscriptions as rows of conditions; PipelineError for a filter that the table has no columns for."""
    rows = []
    for id, filter in subscriptions:
        row: dict[str, Any] = {SUBSCRIPTION: id}
        for part in filter.parts if isinstance(filter, And) else (filter,):
            for name, value in _conditions(part).items():
                if name not in schema.names or name in row:
                    raise _inexpressible(filter)
                row[name] = value
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=schema)


def _conditions(filter: Filter) -> dict[str, Any]:
    match filter:
        case Constraint(Attribute(name), Op.EQ, str(value)):
            return {f"{name}{_IS}": value}
        case Constraint(Attribute(name), Op.IN_RANGE, bounds) if bounds.low_closed and bounds.high_closed:
            return {f"{name}{_FROM}": float(bounds.low), f"{name}{_TO}": float(bounds.high)}
    raise _inexpressible(filter)


def _inexpressible(filter: Filter) -> PipelineError:
    return PipelineError(
        f"the table has no columns for {filter}",
        hint="it knows one equality or closed interval per attribute",
    )


def nested_loop(notifications: DataFrame, conditions: DataFrame) -> DataFrame:
    """The pairs of notifications, by `id`, and subscriptions, found by a broadcast nested-loop join."""
    return _joined(notifications, conditions, _tests(conditions))


def hash_joins(notifications: DataFrame, conditions: DataFrame) -> DataFrame:
    """The same where each subscription has an equality: for each attribute, a broadcast hash join by its first."""
    names = [name for name in conditions.columns if name.endswith(_IS)]
    joins = []
    for at, name in enumerate(names):
        own = conditions.where(reduce(and_, map(F.isnull, names[:at]), F.col(name).isNotNull()))
        rest = own.drop(*names[: at + 1])
        key = F.col(name.removesuffix(_IS)) == F.col(name)
        joins.append(_joined(notifications, own, [key, *_tests(rest)]))
    return reduce(DataFrame.unionAll, joins)


def _joined(notifications: DataFrame, conditions: DataFrame, tests: Sequence[Column]) -> DataFrame:
    return notifications.join(F.broadcast(conditions), reduce(and_, tests)).select("id", SUBSCRIPTION)


def _tests(conditions: DataFrame) -> list[Column]:
    return [_test(name) for name in conditions.columns if name.endswith((_IS, _FROM, _TO))]


def _test(condition: str) -> Column:
    name, _, kind = condition.rpartition("_")
    value, asked = F.col(name), F.col(condition)
    test = {"is": value == asked, "from": value >= asked, "to": value <= asked}[kind]
    return asked.isNull() | test
