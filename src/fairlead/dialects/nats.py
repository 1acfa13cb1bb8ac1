r"""Subjects of NATS: `orders.*.created`, `orders.>`.

    *          one token
    >          one token or more; only at the end

Both are wildcards only as whole tokens: `b*r` is a literal token. A token is not empty and holds no white
space, so `a.*` does not match the string `a.`. The subject is the attribute `subject`, a string.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from fairlead.dialects.dialect import make_callable, written
from fairlead.dialects.texts import described, escaped
from fairlead.errors import TranslationRefused
from fairlead.filters.constraint import Constraint, Op
from fairlead.filters.filter import leaves
from fairlead.filters.patterns import RegularExpression, SubjectPattern
from fairlead.filters.terms import Attribute

if TYPE_CHECKING:
    from fairlead.filters import Filter

__all__ = ["ATTRIBUTE", "read", "write"]

ATTRIBUTE: Final = "subject"
_TOKEN: Final = r"[^.\s]+"
_MORE: Final = rf"{_TOKEN}(\.{_TOKEN})*"


def read(text: str, attribute: str = ATTRIBUTE) -> Filter:
    """The filter of a subject with wildcards, on the subject in an attribute."""
    if (space := re.search(r"[ \t\n\r\f\v\0]", text)) is not None:
        raise TranslationRefused.at(text, space.start(), "a subject has no white space")
    tokens = text.split(".")
    at = 0
    for number, token in enumerate(tokens, start=1):
        if not token:
            raise TranslationRefused.at(text, at, "a token of a subject is not empty")
        if token == ">" and number < len(tokens):
            raise TranslationRefused.at(text, at, "the wildcard > is the last token")
        at += len(token) + 1
    if not {"*", ">"} & set(tokens):
        return Constraint(Attribute(attribute), Op.EQ, text)
    wild = {"*": _TOKEN, ">": _MORE}
    return described(attribute, [r"\.".join(wild.get(token) or escaped(token) for token in tokens)])


def write(filter: Filter, attribute: str = ATTRIBUTE) -> str:
    """The subject with wildcards that matches what a filter matches, if there is one."""
    return written(filter, _candidates(filter), lambda text: read(text, attribute), "a subject of NATS")


def _candidates(filter: Filter) -> Iterator[str]:
    for leaf in leaves(filter):
        match leaf:
            case Constraint(op=Op.EQ, operand=str(subject)):
                yield subject
            case Constraint(op=Op.LIKE, operand=RegularExpression(text)):
                whole = text.replace(_MORE, ">").replace(_TOKEN, "*")
                yield re.sub(r"\\(.)", r"\1", whole)
            case Constraint(op=Op.MATCHES, operand=SubjectPattern(text, ".")):
                yield text.replace("**", ">")


make_callable(__name__)
