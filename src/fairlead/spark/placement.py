"""Placement: which part of the subscriptions a notification has to visit when one worker cannot hold them all.

    n matches F    implies    the bucket of F is one of the buckets of n, or F has none

A filter that demands an equality (`symbol = "IBM" and …`) matches only notifications with that very value, so
it is placed in the bucket that attribute and value hash to, and a notification visits the buckets of the values
it has. Of several equalities the one that fewest filters share is taken: a bucket is as small as it can be, and
few notifications visit it. A filter without one has no bucket: every notification visits the parts of those.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray

from fairlead.filters import And, Attribute, Constraint, Filter, Op
from fairlead.model import Kind, Notification, key_of, kind_of, value_of

__all__ = ["ANYWHERE", "Anchor", "Placement", "anchors_of", "assign_buckets"]

ANYWHERE: Final = -1
"""The bucket of a filter that has none."""
_KINDS: Final = frozenset({Kind.STRING, Kind.NUMBER, Kind.BOOLEAN})
_SPECIAL: Final = frozenset({"time", "tuple"})
"""Attributes whose values are read in ways of their own; nobody would place by them."""


class Anchor(NamedTuple):
    """An attribute with a value, as its name and the hash of both: the same in every process."""

    attribute: str
    digest: int


def _anchor(attribute: str, value: Any) -> Anchor | None:
    if kind_of(value) not in _KINDS:
        return None
    return Anchor(attribute, crc32(f"{attribute}\0{key_of(value)}".encode()))


def anchors_of(filter: Filter) -> Iterator[Anchor]:
    """The equalities that everything that matches the filter satisfies."""
    match filter:
        case Constraint(Attribute(name), Op.EQ, value) if name not in _SPECIAL:
            anchor = _anchor(name, value)
            if anchor is not None:
                yield anchor
        case And(parts):
            for part in parts:
                yield from anchors_of(part)


@dataclass(frozen=True, slots=True)
class Placement:
    """The attributes by which filters are assigned to buckets, and the number of buckets."""

    attributes: tuple[str, ...]
    buckets: int

    def buckets_of(self, notification: Notification) -> frozenset[int]:
        """The buckets that a notification visits."""
        anchors = (_anchor(name, notification.get(name)) for name in self.attributes)
        return frozenset(anchor.digest % self.buckets for anchor in anchors if anchor is not None)

    def visits(self, attributes: pa.RecordBatch) -> NDArray[np.bool_]:
        """For each row of native columns and each bucket, whether the one visits the other."""
        found = np.zeros((attributes.num_rows, self.buckets), np.bool_)
        rows = np.arange(attributes.num_rows)
        for name in self.attributes:
            column = _column(attributes, name)
            if column is None:
                continue
            # Values repeat, and each is looked at once: what costs is Python's part, not the number of rows.
            encoded = column.dictionary_encode()
            buckets = np.array(
                [self._bucket(name, value) for value in encoded.dictionary.to_pylist()], np.int64
            )
            known = encoded.indices.is_valid().to_numpy(zero_copy_only=False)
            at = buckets[encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)[known]]
            assign_buckets = at != ANYWHERE
            found[rows[known][assign_buckets], at[assign_buckets]] = True
        return found

    def visits_of(self, notifications: Iterable[Notification]) -> NDArray[np.bool_]:
        """The same for notifications."""
        visited = [self.buckets_of(notification) for notification in notifications]
        found = np.zeros((len(visited), self.buckets), np.bool_)
        for row, buckets in enumerate(visited):
            found[row, list(buckets)] = True
        return found

    def _bucket(self, name: str, value: Any) -> int:
        anchor = None if value is None else _anchor(name, value_of(value))
        return ANYWHERE if anchor is None else anchor.digest % self.buckets


def assign_buckets(filters: Iterable[Filter], buckets: int) -> tuple[Placement, NDArray[np.int64]]:
    """A placement for these filters, and the bucket of each; it sees them one at a time."""
    names: dict[str, int] = {}
    digests, attributes, owners = array("q"), array("q"), array("q")
    count = 0
    for filter in filters:
        for anchor in anchors_of(filter):
            digests.append(anchor.digest)
            attributes.append(names.setdefault(anchor.attribute, len(names)))
            owners.append(count)
        count += 1
    found = np.full(count, ANYWHERE, np.int64)
    if not owners:
        return Placement((), buckets), found
    digest, attribute, owner = (np.array(each, np.int64) for each in (digests, attributes, owners))
    _, back, shared = np.unique(digest, return_inverse=True, return_counts=True)
    order = np.lexsort((digest, shared[back], owner))
    first = order[np.concatenate(([True], owner[order][1:] != owner[order][:-1]))]
    found[owner[first]] = digest[first] % buckets
    used = set(attribute[first].tolist())
    return Placement(tuple(sorted(name for name, at in names.items() if at in used)), buckets), found


def _column(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    """The column under a dotted name, through structs where need be, if its values can be equal to an anchor's."""
    array: Any = None
    steps = name.split(".")
    for count in range(len(steps), 0, -1):
        outer = ".".join(steps[:count])
        if outer in batch.schema.names:
            array = batch.column(outer)
            for step in steps[count:]:
                if not pa.types.is_struct(array.type) or array.type.get_field_index(step) < 0:
                    return None
                array = pc.struct_field(array, step)
            break
    if array is None:
        return None
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    comparable = (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    )
    return array if comparable else None
