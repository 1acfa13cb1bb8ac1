"""Regular expressions that dialects are translated to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from fairlead.filters.constraint import Constraint, Op
from fairlead.filters.patterns import RegularExpression
from fairlead.filters.regexes import IGNORING_CASE
from fairlead.filters.terms import Attribute

__all__ = ["described", "escaped", "ignoring_case"]

_PUNCTUATION: Final = re.compile(r"[\\|*+?{}()\[\].^$-]")


def escaped(text: str) -> str:
    """A regular expression for one text."""
    return _PUNCTUATION.sub(lambda sign: f"\\{sign[0]}", text)


def ignoring_case(before: str, text: str, behind: str = "") -> str:
    """A regular expression for a text in any case between two expressions.

    A letter stands for its lower and its upper case. Where one of them has several letters, as ß has SS, the
    alternatives are written out.
    """
    if all(len(letter.lower()) == len(letter.upper()) == 1 for letter in text):
        return f"{IGNORING_CASE}{before}{escaped(text)}{behind}"
    parts = []
    for letter in text:
        forms = dict.fromkeys((letter, letter.lower(), letter.upper()))
        parts.append(f"({'|'.join(map(escaped, forms))})" if len(forms) > 1 else escaped(letter))
    return before + "".join(parts) + behind


def described(attribute: str, parts: Sequence[str]) -> Constraint:
    """The constraint that a regular expression, given in parts, describes the attribute's string."""
    return Constraint(Attribute(attribute), Op.LIKE, RegularExpression("".join(parts)))
