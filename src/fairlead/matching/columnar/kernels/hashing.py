"""Hashes: of bytes, rolled over a text or taken at once, and of what they are mixed with."""
# Kernels have no annotations: numba infers their types, and takes no other hints.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from fairlead.kernels import kernel

__all__: list[str] = []

BASE = np.uint64(0x9E3779B97F4A7C15)
_STIR = np.uint64(0xBF58476D1CE4E5B9)


@kernel(inline=True)
def stirred(h, salt):
    """A hash with a salt, its bits spread."""
    h = h + np.uint64(salt) * BASE
    h ^= h >> np.uint64(30)
    h *= _STIR
    h ^= h >> np.uint64(27)
    h *= np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@kernel(inline=True)
def rolled(data, start, end):
    """The polynomial hash of data[start:end]."""
    h = np.uint64(0)
    for at in range(start, end):
        h = h * BASE + np.uint64(data[at] + 1)
    return h


@kernel(inline=True)
def rolled_back(data, start, end):
    """The same of the bytes in reverse: suffixes are the prefixes of reversed strings."""
    h = np.uint64(0)
    for at in range(end - 1, start - 1, -1):
        h = h * BASE + np.uint64(data[at] + 1)
    return h


@kernel(inline=True)
def salt_of(column, sort, length):
    """The salt of a symbol: the same bytes are another symbol in another column or of another sort."""
    return (np.int64(column) * 256 + sort) * 65537 + length


@kernel(inline=True)
def print_of(h):
    """Thirty-one bits of a hash that its position in a table does not depend on."""
    return np.int32(h >> np.uint64(33))
