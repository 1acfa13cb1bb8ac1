"""Grids and trees: the cell of a grid that a value lies in, and the node that a node has for it."""
# Kernels have no annotations: numba infers their types, and takes no other hints.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from fairlead.kernels import kernel
from fairlead.matching.columnar.kernels.hashing import print_of, stirred

__all__: list[str] = []

_BIG = 4.0e18


@kernel(inline=True)
def cell_of(value, scale):
    """The cell of a grid that a value lies in; beyond the range of whole numbers, the last one."""
    scaled = np.floor(value * scale)
    if scaled > _BIG:
        scaled = _BIG
    elif scaled < -_BIG:
        scaled = -_BIG
    return np.int64(scaled)


@kernel(inline=True)
def mark_of(value, least, scale):
    """A number in eleven bits. Monotone: what lies between two numbers has its mark between theirs."""
    scaled = (value - least) * scale
    if not scaled > 0.0:
        return np.int32(0)
    return np.int32(2047) if scaled >= 2047.0 else np.int32(scaled)


@kernel(inline=True)
def child_hash(shape, key):
    return stirred(np.uint64(key), shape + 1)


@kernel(inline=True)
def find_child(shape, key, table):
    """The node below a shape for a value or a cell, or -1.

    Only a print is compared: a wrong child, once in billions, brings candidates that are then verified.
    """
    h = child_hash(shape, key)
    mask = len(table) // 2 - 1
    mark = print_of(h)
    at = np.int64(h & np.uint64(mask))
    while table[2 * at + 1] >= 0:
        if table[2 * at] == mark:
            return table[2 * at + 1]
        at = (at + 1) & mask
    return np.int32(-1)


@kernel()
def make_child_table(shapes, keys, numbers, table):
    """Fill a table of pairs, a print and a node; -1 is no node."""
    mask = len(table) // 2 - 1
    for each in range(len(shapes)):
        h = child_hash(shapes[each], keys[each])
        at = np.int64(h & np.uint64(mask))
        while table[2 * at + 1] >= 0:
            at = (at + 1) & mask
        table[2 * at] = print_of(h)
        table[2 * at + 1] = numbers[each]
