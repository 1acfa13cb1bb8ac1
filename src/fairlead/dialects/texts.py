"""Regular expressions that dialects are translated to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from fairlead.filters.constraint import Constraint, Op
from fairlead.filters.patterns import RegularExpression
from fairlead.filters.regexes import IGNORING_CASE
from fairlead.filters.terms import Attribute

__all__ = ["described", "escaped", "ignoring_case", "searched"]

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


def searched(expression: str, dot: str, *, anywhere: bool = True) -> str:
    """The expression of ours for strings that another one is found in, where a dot of it stands for `dot`.

    An anchor at an end of the expression ties it to that end of the string. Whether a quantifier is lazy does not
    matter to whether a string matches.
    """
    ends = re.search(r"(?<!\\)(?:\\\\)*\$\Z", expression) is not None
    starts = expression.startswith("^")
    inner = expression[starts : len(expression) - ends]
    parts: list[str] = []
    at, in_class = 0, False
    while at < len(inner):
        sign = inner[at]
        if sign == "\\":
            parts.append(inner[at : at + 2])
            at += 2
            continue
        in_class = sign == "[" or (in_class and sign != "]")
        is_lazy = sign == "?" and not in_class and re.search(r"(?<!\\)(?:[*+?]|\{[0-9,]+\})\Z", inner[:at])
        if not is_lazy:
            parts.append(dot if sign == "." and not in_class else sign)
        at += 1
    before, behind = "" if starts or not anywhere else ".*", "" if ends or not anywhere else ".*"
    return f"{before}({''.join(parts)}){behind}"
