"""Topic filters of MQTT (3.1.1 and 5.0, section 4.7): `sport/+/player1/#`.

    +          one level, which may be empty
    #          the level before it and all below; only at the end
    $share     `$share/GROUP/FILTER` has the topics of FILTER: who of the group gets one is not a filter's matter
    $SYS/…     a filter that begins with a wildcard matches no topic that begins with $

The topic is the attribute `topic`, a string. Case counts, and a separator at an end makes an empty level.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from fairlead.dialects.dialect import make_callable, written
from fairlead.dialects.texts import described, escaped
from fairlead.errors import TranslationRefused
from fairlead.filters.constraint import Constraint, Op
from fairlead.filters.filter import And, Not, leaves
from fairlead.filters.patterns import RegularExpression, SubjectPattern
from fairlead.filters.terms import Attribute

if TYPE_CHECKING:
    from fairlead.filters import Filter

__all__ = ["ATTRIBUTE", "read", "write"]

ATTRIBUTE: Final = "topic"
BYTES_MAX: Final = 65_535
"""The length of a topic filter in UTF-8 is two bytes of the protocol."""
_SHARE: Final = "$share/"
_LEVEL: Final = "[^/]*"
_BELOW: Final = "(/.*)?"


def read(text: str, attribute: str = ATTRIBUTE) -> Filter:
    """The filter of a topic filter, on the topic in an attribute."""
    start = _after_share(text) if text.startswith(_SHARE) else 0
    topic = text[start:]
    if not topic:
        raise TranslationRefused.at(text, start, "a topic filter has at least one character")
    if "\0" in topic:
        raise TranslationRefused.at(text, text.index("\0"), "a topic filter has no null character")
    if len(topic.encode(errors="surrogatepass")) > BYTES_MAX:
        raise TranslationRefused.at(text, len(text), f"a topic filter has at most {BYTES_MAX:,} bytes")
    levels = topic.split("/")
    at = start
    for number, level in enumerate(levels, start=1):
        for sign in "+#":
            if sign in level and level != sign:
                raise TranslationRefused.at(
                    text, at + level.index(sign), f"the wildcard {sign} stands for a whole level"
                )
        if level == "#" and number < len(levels):
            raise TranslationRefused.at(text, at, "the wildcard # is the last level")
        at += len(level) + 1
    found = _matching(attribute, topic, levels)
    if levels[0] in ("+", "#"):
        return And.of((found, Not(Constraint(Attribute(attribute), Op.PREFIX, "$"))))
    return found


def write(filter: Filter, attribute: str = ATTRIBUTE) -> str:
    """The topic filter that matches what a filter matches, if there is one."""
    return written(filter, _candidates(filter), lambda text: read(text, attribute), "a topic filter")


def _after_share(text: str) -> int:
    group, separator, _ = text[len(_SHARE) :].partition("/")
    if not group or not separator or set(group) & {"+", "#"}:
        raise TranslationRefused.at(
            text, len(_SHARE), "a shared subscription is $share/GROUP/FILTER, without wildcards in GROUP"
        )
    return len(_SHARE) + len(group) + 1


def _matching(attribute: str, topic: str, levels: list[str]) -> Constraint:
    term = Attribute(attribute)
    if not {"+", "#"} & set(levels):
        return Constraint(term, Op.EQ, topic)
    if not any("*" in level for level in levels):
        ours = "/".join({"+": "*", "#": "**"}.get(level, level) for level in levels)
        return Constraint(term, Op.MATCHES, SubjectPattern(ours))
    # A star means nothing in a topic, but is a wildcard of our subjects.
    parts: list[str] = []
    for number, level in enumerate(levels):
        separator = "/" if number else ""
        if level == "#":
            parts.append(_BELOW)
        else:
            parts += (separator, _LEVEL if level == "+" else escaped(level))
    return described(attribute, parts)


def _candidates(filter: Filter) -> Iterator[str]:
    for leaf in leaves(filter):
        match leaf:
            case Constraint(op=Op.EQ, operand=str(topic)):
                yield topic
            case Constraint(op=Op.MATCHES, operand=SubjectPattern(text, "/")):
                signs = {"*": "+", "**": "#"}
                yield "/".join(signs.get(level, level) for level in text.split("/"))
            case Constraint(op=Op.PREFIX, operand=str(above)) if above.endswith("/"):
                yield f"{above}+/#"
            case Constraint(op=Op.LIKE, operand=RegularExpression(text)):
                wild = text.removesuffix(_BELOW) + "/#" * text.endswith(_BELOW)
                yield re.sub(r"\\(.)", r"\1", wild.replace(_LEVEL, "+"))


make_callable(__name__)
