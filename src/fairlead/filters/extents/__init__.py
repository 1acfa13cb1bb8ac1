"""Extents: the sets of values that satisfy constraints, one Boolean algebra per kind of value."""

from fairlead.filters.extents.boxes import BoxExtent
from fairlead.filters.extents.extent import Extent, extent_of
from fairlead.filters.extents.numbers import NumberExtent
from fairlead.filters.extents.piece import Piece
from fairlead.filters.extents.sets import SetExtent
from fairlead.filters.extents.strings import BytesExtent, StringExtent

__all__ = [
    "BoxExtent",
    "BytesExtent",
    "Extent",
    "NumberExtent",
    "Piece",
    "SetExtent",
    "StringExtent",
    "extent_of",
]
