"""Strings of levels with wildcards, as the filters of MQTT and NATS are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from fairlead.filters.constraint import Constraint, Op
from fairlead.filters.patterns import RegularExpression
from fairlead.filters.terms import Attribute

__all__ = ["described", "escaped"]

_PUNCTUATION: Final = re.compile(r"[\\|*+?{}()\[\].^$/-]")


def escaped(text: str) -> str:
    """A regular expression for one text."""
    return _PUNCTUATION.sub(lambda sign: "/" if sign[0] == "/" else f"\\{sign[0]}", text)


def described(attribute: str, parts: Sequence[str]) -> Constraint:
    """The constraint that a regular expression, given in parts, describes the attribute's string."""
    return Constraint(Attribute(attribute), Op.LIKE, RegularExpression("".join(parts)))
