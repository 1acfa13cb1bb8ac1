"""The built-in operators of the language. Those of extensions are in `registry`."""

from __future__ import annotations

from enum import Enum

__all__ = ["Op"]


class Op(Enum):
    """The operators. The value is the spelling where one word or sign spells it."""

    EXISTS = "exists"
    ABSENT = "absent"
    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IN_RANGE = "in range"
    NOT_IN_RANGE = "not in range"
    IN = "in"
    NOT_IN = "not in"
    PREFIX = "prefix"
    SUFFIX = "suffix"
    SUBSTRING = "substring"
    LIKE = "~"
    MATCHES = "matches"
    IS = "is"
    SUBSET = "subset"
    SUPERSET = "superset"
    CONTAINS = "contains"
    LACKS = "lacks"
    DISJOINT = "disjoint"
    OVERLAPS = "overlaps"
    EXTENDED = "extended"

    __hash__ = object.__hash__
