"""The grants of deliveries: which rule of which role let each delivery pass.

    granted(received, rules)    a row for each delivery, subscription and rule that grants it

A subscription is narrowed to what the rules of its subscriber grant together; which of them grant a notification
is decided here, on the notification in clear, by the filters of the policy. A pattern is granted by roles as a
whole, when it is read. The rows have names, rules and the attributes that were left out, and no content.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import functions as F

from fairlead.filters import Filter
from fairlead.filters.language import render
from fairlead.model import Notification
from fairlead.security import AccessPolicy
from fairlead.spark.access import rights_of
from fairlead.spark.frames import ATTRIBUTES, KEY, RECORD, VERSION, notifications_in
from fairlead.spark.matcher import RECEIVERS
from fairlead.spark.subscriptions import load_extension

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["GRANTED", "Rules", "granted"]

GRANTED: Final = {
    "subscriber": "string",
    "time": "bigint",
    "producer": "string",
    "sequence": "bigint",
    "id": "string",
    VERSION: "string",
    "subscription": "string",
    "role": "string",
    "rule": "string",
    "hidden": "array<string>",
    "policy": "string",
}
"""The columns of the table."""
_TYPES: Final = {"string": pa.string(), "bigint": pa.int64(), "array<string>": pa.list_(pa.string())}
_SCHEMA: Final = pa.schema([(name, _TYPES[kind]) for name, kind in GRANTED.items()])


class _Rule(NamedTuple):
    """A filter that a role grants."""

    role: str
    text: str
    filter: Filter


@dataclass(frozen=True, slots=True)
class Rules:
    """An access policy for workers, and the roles by which patterns are granted."""

    policy: AccessPolicy
    patterns: Mapping[str, tuple[str, ...]]
    """By the id of a pattern."""
    extensions: tuple[str, ...] = ()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Record batches of notifications with their receivers in; the rows of their grants out."""
        for name in self.extensions:
            load_extension(name)
        known: dict[str, tuple[list[str], list[_Rule]]] = {}
        for batch in batches:
            keys = [name for name in (*KEY, VERSION) if name in batch.schema.names]
            rows: list[dict[str, Any]] = []
            for key, receivers, notification in zip(
                batch.select(keys).to_pylist(),
                batch.column(RECEIVERS).to_pylist(),
                notifications_in(batch),
                strict=True,
            ):
                matched: dict[str, bool] = {}
                for each in receivers:
                    name = each["subscriber"]
                    if name not in known:
                        known[name] = self._of(name)
                    hidden, rules = known[name]
                    common = {**key, "subscriber": name, "hidden": hidden, "policy": self.policy.fingerprint}
                    passing = [rule for rule in rules if _matches(rule, notification, matched)]
                    for id in each["subscriptions"]:
                        for role, text in self._by(id, passing):
                            rows.append({**common, "subscription": id, "role": role, "rule": text})
            yield pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)

    def _of(self, subscriber: str) -> tuple[list[str], list[_Rule]]:
        """The attributes that are hidden from a subscriber, and the rules that grant it something."""
        rights = rights_of(self.policy, subscriber)
        grants = dict.fromkeys(rights.grants.get("subscribe", ()))
        return sorted(rights.hidden), [_Rule(each.role, render(each.filter), each.filter) for each in grants]

    def _by(self, id: str, passing: Iterable[_Rule]) -> Iterable[tuple[str, str | None]]:
        """Roles and rules that grant a subscription a notification; a pattern, which has seen others, roles."""
        roles = self.patterns.get(id)
        if roles is not None:
            return ((role, None) for role in roles)
        return ((rule.role, rule.text) for rule in passing)


def _matches(rule: _Rule, notification: Notification, known: dict[str, bool]) -> bool:
    """Whether a rule grants a notification; of the same filter in several roles it is asked once."""
    if rule.text not in known:
        known[rule.text] = rule.filter.matches(notification)
    return known[rule.text]


def granted(received: DataFrame, rules: Rules, composites: DataFrame | None = None) -> DataFrame:
    """The grants of notifications that have their receivers and contents, and of the deliveries of composites."""
    columns = (*KEY, VERSION, "event_time", RECORD, ATTRIBUTES, RECEIVERS)
    given = received.where(F.size(RECEIVERS) > 0).select(
        *(name for name in columns if name in received.columns)
    )
    if composites is not None:
        one = F.array(F.struct("subscriber", "subscriptions")).cast(given.schema[RECEIVERS].dataType)
        tags = [VERSION] if VERSION in composites.columns and VERSION in given.columns else []
        own = composites.select(*KEY, *tags, F.col("time").alias("event_time"), RECORD, one.alias(RECEIVERS))
        given = given.unionByName(own, allowMissingColumns=True)
    return given.mapInArrow(rules, ", ".join(f"`{name}` {kind}" for name, kind in GRANTED.items()))
