"""Patterns in an index: as symbols, whose bytes hold what a kernel needs to match a text.

A regular expression is stored as its text and its automaton, a subject pattern as its separator and its text. What
is certain of every match (a prefix, a suffix, a substring) leads to the pattern; the kernel runs it only for
candidates, and once for each row.
"""

from __future__ import annotations

import struct
from array import array
from typing import Any, Final, NamedTuple

from fairlead.filters import regexes
from fairlead.filters.alphabets import TEXT
from fairlead.filters.patterns import RegularExpression, SubjectPattern
from fairlead.filters.regexes import Either, Join, Repeat, Symbols

__all__ = ["Certain", "automaton_in", "certain_of", "pattern_bytes", "regex_of", "subject_of"]

_LENGTH: Final = struct.Struct("<i")


def pattern_bytes(pattern: RegularExpression | SubjectPattern) -> bytes:
    """A pattern as the pool holds it: equal iff the patterns are."""
    if isinstance(pattern, SubjectPattern):
        return (pattern.separator + pattern.text).encode()
    text = pattern.text.encode()
    return _LENGTH.pack(len(text)) + text + _packed(pattern).tobytes()


def regex_of(data: bytes) -> RegularExpression:
    """The regular expression that was stored as these bytes."""
    (length,) = _LENGTH.unpack_from(data)
    return RegularExpression(data[_LENGTH.size : _LENGTH.size + length].decode())


def subject_of(data: bytes) -> SubjectPattern:
    """The subject pattern that was stored as these bytes."""
    text = data.decode()
    return SubjectPattern(text[1:], text[0])


def automaton_in(data: bytes) -> bytes:
    """The automaton of a stored regular expression, as a kernel runs it."""
    (length,) = _LENGTH.unpack_from(data)
    return data[_LENGTH.size + length :]


def _packed(pattern: RegularExpression) -> array[int]:
    """An automaton as whole numbers: for each state twice where its row begins, plus whether it accepts; twice the
    end of the last row; then the rows, pairs of the first symbol of a run and the state that the run leads to."""
    automaton = pattern.automaton
    at = len(automaton.rows) + 1
    heads, rows = array("i"), array("i")
    for state, (starts, targets) in enumerate(automaton.rows):
        heads.append(2 * at + (state in automaton.accepting))
        for start, target in zip(starts, targets, strict=True):
            rows.extend((start, target))
        at += 2 * len(starts)
    heads.append(2 * at)
    return heads + rows


class Certain(NamedTuple):
    """The common content of all matches of an expression: if that is one string, all of it; else the beginning
    and the end."""

    whole: str | None
    prefix: str = ""
    suffix: str = ""
    substring: str = ""


_NOTHING: Final = Certain(None)


def certain_of(pattern: RegularExpression) -> Certain:
    """The common content of all strings that match."""
    stack: list[Certain] = []
    for operation in regexes.parse(pattern.text):
        match operation:
            case Symbols(((first, last),)) if first == last:
                letter = TEXT.decode([first])
                stack.append(Certain(letter, letter, letter, letter))
            case Symbols():
                stack.append(_NOTHING)
            case Repeat(sign):
                part = stack.pop()
                stack.append(part._replace(whole=None) if sign == "+" else _NOTHING)
            case Join(count):
                parts = _taken(stack, count)
                joined = Certain("")
                for part in parts:
                    joined = _then(joined, part)
                stack.append(joined)
            case Either(count):
                parts = _taken(stack, count)
                either = parts[0]
                for part in parts[1:]:
                    either = _or(either, part)
                stack.append(either)
    [found] = stack
    return found


def _taken(stack: list[Any], count: int) -> list[Any]:
    taken = stack[len(stack) - count :]
    del stack[len(stack) - count :]
    return taken


def _then(one: Certain, other: Certain) -> Certain:
    whole = None if one.whole is None or other.whole is None else one.whole + other.whole
    return Certain(
        whole,
        one.prefix if one.whole is None else one.whole + other.prefix,
        other.suffix if other.whole is None else one.suffix + other.whole,
        max(one.substring, one.suffix + other.prefix, other.substring, key=len),
    )


def _or(one: Certain, other: Certain) -> Certain:
    prefix, suffix = _common(one.prefix, other.prefix), _common(one.suffix[::-1], other.suffix[::-1])[::-1]
    substring = one.substring if one.substring == other.substring else max(prefix, suffix, key=len)
    return Certain(one.whole if one.whole == other.whole else None, prefix, suffix, substring)


def _common(one: str, other: str) -> str:
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return one[:length]
