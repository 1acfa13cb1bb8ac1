"""Tokens: the words, numbers, texts and signs that a filter is written with.

One regular expression takes each token with the white space before it. Every text has tokens: what cannot be
one is a token of kind BAD or OTHER, and the parser, which knows what was expected, complains about it. The
expression never looks at a character more than a fixed number of times, so reading is linear in the text.
"""

from __future__ import annotations

import re
from typing import Final

from fairlead.errors import FilterSyntaxError
from fairlead.filters.terms import unquote_step

__all__ = [
    "BAD",
    "BYTES",
    "END",
    "ENDS",
    "NAME",
    "NUMBER",
    "OTHER",
    "STRING",
    "TIME",
    "name_in",
    "string_in",
    "tokens",
]

NAME: Final = "name"
NUMBER: Final = "number"
STRING: Final = "string"
TIME: Final = "time"
BYTES: Final = "bytes"
BAD: Final = "bad"
"""A text or a quoted name that does not end."""
OTHER: Final = "other"
"""A character that means nothing here, though an operator of an extension may be spelled with it."""
END: Final = "end"
ENDS: Final = 3

_STEP = r"(?:[^\W\d]\w*|`[^`\\]*(?:\\(?:[\\`]|u\{[0-9a-fA-F]{1,6}\})[^`\\]*)*`)"
_TOKEN: Final = re.compile(
    rf"""\s*(?:
      ( [tx]? "[^"\\\n]*(?:\\.[^"\\\n]*)*" )
    | ( {_STEP} (?: \.{_STEP} )* )
    | ( [0-9]+ (?: \.[0-9]+ )? (?: [eE][+-]?[0-9]+ )? )
    | ( <= | >= | != | // | [=<>+\-*/()\[\]{{}},~@\#.] )
    | ( "[^\n]* | `[\s\S]* )
    | ( \S )
    | \Z )""",
    re.VERBOSE,
)
_TEXT, _SIGN = 1, 4
_KINDS: Final = ("", "", NAME, NUMBER, "", BAD, OTHER)
_TEXT_KINDS: Final = {'"': STRING, "t": TIME, "x": BYTES}


def tokens(source: str) -> tuple[list[str], list[str], list[int]]:
    """The kinds, texts and offsets of all tokens; the kind of a sign is the sign. The last ones are END.

    As many as the furthest look ahead goes: behind the end stands nothing, and nobody has to ask where it is.
    """
    kinds: list[str] = []
    texts: list[str] = []
    starts: list[int] = []
    for found in _TOKEN.finditer(source):
        group = found.lastindex
        if group is None:
            break
        text = found[group]
        kinds.append(text if group == _SIGN else _TEXT_KINDS[text[0]] if group == _TEXT else _KINDS[group])
        texts.append(text)
        starts.append(found.start(group))
    kinds += [END] * ENDS
    texts += [""] * ENDS
    starts += [len(source)] * ENDS
    return kinds, texts, starts


QUOTED: Final = re.compile(r"`((?:[^`\\]|\\.)*)`")
"""A step of a name in backquotes."""


def name_in(token: str) -> str:
    """The dotted name that a token of kind NAME spells."""
    if "`" not in token:
        return token
    return QUOTED.sub(lambda found: unquote_step(found[1]), token)


_ESCAPE: Final = re.compile(
    r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"  # one character in two, as in JSON
    r"|u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,6})\}|([\"\\ntr])|(.))"
)
_PLAIN: Final = {'"': '"', "\\": "\\", "n": "\n", "t": "\t", "r": "\r"}


def string_in(token: str, source: str, start: int) -> str:
    """The string that a token `"…"` spells; `start` is its position in the source, for errors."""
    if "\\" not in token:
        return token[1:-1]

    def character(found: re.Match[str]) -> str:
        high, low, four, braced, plain, wrong = found.groups()
        if plain:
            return _PLAIN[plain]
        if high:
            return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + (int(low, 16) - 0xDC00))
        at = start + found.start()
        if wrong:
            raise FilterSyntaxError.at(
                source,
                at,
                f"no such escape: {found[0]}",
                expected=(r"\"", r"\\", r"\n", r"\t", r"\r", r"\uXXXX"),
            )
        code = int(four or braced, 16)
        if 0xD800 <= code <= 0xDFFF:
            raise FilterSyntaxError.at(source, at, f"a lone surrogate is no character: {found[0]}")
        if code > 0x10FFFF:
            raise FilterSyntaxError.at(source, at, f"beyond the last character of Unicode: {found[0]}")
        return chr(code)

    return _ESCAPE.sub(character, token)[1:-1]
