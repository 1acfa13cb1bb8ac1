"""Texts in other languages with events, at random and picked by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Protocol

__all__ = ["Case", "drawn", "picked"]


@dataclass(frozen=True, slots=True)
class Case:
    """A text and an event that it may match."""

    text: str
    event: dict[str, Any]


def drawn(dialect: str, random: Random, count: int) -> list[Case]:
    """So many cases at random, three events to a text."""
    draw = _DRAWN[dialect](random)
    cases: list[Case] = []
    while len(cases) < count:
        text = draw.text()
        cases += [Case(text, draw.event()) for _ in range(3)]
    return cases[:count]


def picked(dialect: str) -> list[Case]:
    """The cases at the borders of a dialect."""
    return (
        [Case(json.dumps(pattern), event) for pattern, event in _PICKED] if dialect == "eventbridge" else []
    )


class _Patterns:
    """Event patterns over a few names and values."""

    _TEXTS: Final = (
        "x",
        "X",
        "ab",
        "aB",
        "b",
        "",
        "10.0.0.1",
        "10.0.0.01",
        "10.0.1.7",
        "a*b",
        "straße",
        "STRASSE",
    )
    _NUMBERS: Final = (0, 1, 5, 5.5, -3, 300)
    _NEGATED: Final = ("prefix", "suffix", "equals-ignore-case", "wildcard")

    def __init__(self, random: Random) -> None:
        self._random = random

    def text(self) -> str:
        return json.dumps(self._pattern(0, "abc"))

    def event(self) -> dict[str, Any]:
        return self._object(0)

    def _scalar(self) -> Any:
        pick = self._random.choice
        return pick((pick(self._TEXTS), pick(self._TEXTS), pick(self._NUMBERS), None, True, False))

    def _value(self, depth: int) -> Any:
        share = self._random.random()
        if share < 0.55 or depth > 2:
            return self._scalar()
        if share < 0.8:
            return [self._value(depth + 1) for _ in range(self._random.randint(0, 3))]
        return self._object(depth + 1)

    def _object(self, depth: int) -> dict[str, Any]:
        names = self._random.sample("abc", self._random.randint(0, 3))
        return {name: self._value(depth) for name in names}

    def _pattern(self, depth: int, names: str) -> dict[str, Any]:
        if depth < 2 and self._random.random() < 0.12:
            either = [self._pattern(2, "ab"), self._pattern(2, "ab")]
            return {"$or": either, "c": [self._test()]}
        nests = depth < 2
        return {
            name: self._pattern(depth + 1, "abc")
            if nests and self._random.random() < 0.4
            else [self._test() for _ in range(self._random.randint(1, 2))]
            for name in self._random.sample(names, self._random.randint(1, 2))
        }

    def _test(self) -> Any:
        pick = self._random.choice
        text = pick(self._TEXTS) or "q"
        first, last = text[:1], text[-1:]
        tests: tuple[Any, ...] = (
            *(self._scalar(), self._scalar()),
            *({"prefix": first}, {"suffix": last}, {"equals-ignore-case": text}),
            *({"prefix": {"equals-ignore-case": first}}, {"suffix": {"equals-ignore-case": last}}),
            {"wildcard": pick(("*", "a*", "*b", "a*b", "x", "\\*", "a\\*b"))},
            {"numeric": [pick(("=", "<", ">", "<=", ">=")), pick(self._NUMBERS)]},
            {"numeric": [pick((">", ">=")), 0, pick(("<", "<=")), pick((1, 5, 300))]},
            {"cidr": pick(("10.0.0.0/24", "10.0.0.0/16", "10.0.1.4/30"))},
            {"anything-but": pick((text, [text, "x"], 5, [5, 1]))},
            {
                "anything-but": {
                    pick(("prefix", "suffix", "equals-ignore-case", "wildcard")): pick((first, [first, "x"]))
                }
            },
            *({"exists": True}, {"exists": False}),
        )
        return pick(tests)


class _Selectors:
    """Message selectors over a few properties; two properties are not compared for equality."""

    _VALUES: Final[dict[str, tuple[Any, ...]]] = {
        "s": ("a", "ab", "x%", "b_"),
        "n": (0, 1, 2, 5, -3),
        "d": (0.5, 2.5, 0.1),
        "b": (True, False),
    }
    _PROPERTIES: Final = {"s": "s", "t": "s", "n": "n", "m": "n", "d": "d", "b": "b"}
    _ORDER: Final = ("<", "<=", ">", ">=")

    def __init__(self, random: Random) -> None:
        self._random = random

    def text(self) -> str:
        return self._condition(0)

    def event(self) -> dict[str, Any]:
        return {
            name: self._random.choice(self._VALUES[kind])
            for name, kind in self._PROPERTIES.items()
            if self._random.random() < 0.65
        }

    def _literal(self, kind: str) -> str:
        value = self._random.choice(self._VALUES[kind])
        return f"'{value}'" if kind == "s" else str(value).upper()

    def _number(self, depth: int) -> str:
        share = self._random.random()
        if share < 0.4:
            return self._random.choice("nmd")
        if share < 0.7 or depth > 1:
            return self._literal(self._random.choice("nd"))
        return f"({self._number(depth + 1)} {self._random.choice('+-*')} {self._number(depth + 1)})"

    def _condition(self, depth: int) -> str:
        share = self._random.random()
        if depth > 2 or share < 0.4:
            return self._leaf()
        if share < 0.6:
            return f"NOT ({self._condition(depth + 1)})"
        return f"({self._condition(depth + 1)} {self._random.choice(('AND', 'OR'))} {self._condition(depth + 1)})"

    def _leaf(self) -> str:
        pick = self._random.choice
        negation = pick(("", "NOT "))
        number = pick("nmd")
        pattern = f"'{pick(('a%', '%b', '_', 'x!%', '%'))}'{pick(('', ' ESCAPE ' + repr('!')))}"
        return pick(
            (
                f"s {pick(('=', '<>'))} {self._literal('s')}",
                f"{number} {pick(('=', '<>', *self._ORDER))} {self._literal(pick('nd'))}",
                f"{self._number(0)} {pick(self._ORDER)} {self._number(0)}",
                f"b {pick(('=', '<>'))} {self._literal('b')}",
                f"s {negation}IN ({self._literal('s')}, {self._literal('s')})",
                f"s {negation}LIKE {pattern}",
                f"{pick('snbt')} IS {negation}NULL",
                f"{number} {negation}BETWEEN {pick((0, 1))} AND {pick((1, 2.5, 5))}",
                "b",
            )
        )


class _Expressions:
    """Expressions of CESQL over attributes that are there or not, strings, whole numbers and Booleans.

    Left out is what the SDK has of its own: IS_INT, IS_BOOL, and whole numbers where a Boolean is asked for. It
    casts them; the standard's compatibility kit has an error for that.
    """

    _VALUES: Final = ("a", "ab", "x%", "", "5", "-3", "true", 0, 1, 5, -3)
    _NAMES: Final = ("subject", "n", "s", "b")
    _HELD: Final[dict[str, tuple[Any, ...]]] = {
        "subject": ("a", "ab", "x%", "5"),
        "b": ("true", "FALSE", "a", True, False),
    }

    def __init__(self, random: Random) -> None:
        self._random = random

    def text(self) -> str:
        return self._boolean(0)

    def event(self) -> dict[str, Any]:
        given: dict[str, Any] = {"id": "1", "source": "/a", "type": self._random.choice(("com.a", "com.ab"))}
        for name in self._NAMES:
            if self._random.random() < 0.75:
                given[name] = self._random.choice(self._HELD.get(name, self._VALUES))
        return given

    def _literal(self) -> str:
        value = self._random.choice(self._VALUES)
        return f"'{value}'" if isinstance(value, str) else str(value).upper()

    def _value(self, depth: int) -> str:
        pick = self._random.choice
        share = self._random.random()
        if share < 0.5:
            return pick(("subject", "n", "s", "type"))
        if share < 0.8 or depth > 1:
            return self._literal()
        inner, other = self._value(depth + 1), self._value(depth + 1)
        return pick(
            (
                f"({inner} {pick('+-*')} {other})",
                f"{pick(('LENGTH', 'UPPER', 'LOWER', 'TRIM', 'INT', 'STRING'))}({inner})",
                f"CONCAT({inner}, {other})",
                f"LEFT({inner}, {pick('012')})",
                f"ABS({inner})",
            )
        )

    def _boolean(self, depth: int) -> str:
        pick = self._random.choice
        if depth < 2 and self._random.random() < 0.45:
            inner, other = self._boolean(depth + 1), self._boolean(depth + 1)
            return pick((f"({inner} {pick(('AND', 'OR', 'XOR'))} {other})", f"NOT ({inner})"))
        value = self._value(0)
        pattern = pick(("a%", "%b", "_", "x!%", "%", "a_", r"x\%"))
        return pick(
            (
                f"{value} {pick(('=', '!=', '<>', '<', '<=', '>', '>='))} {self._value(0)}",
                f"{pick(self._NAMES)} {pick(('', 'NOT '))}LIKE '{pattern}'",
                f"{value} {pick(('', 'NOT '))}IN ({self._literal()}, {self._literal()})",
                f"EXISTS {pick(self._NAMES)}",
                *("b", f"b {pick(('=', '!='))} {pick(('TRUE', 'false'))}", "BOOL(b)", "b IN (TRUE, 'false')"),
            )
        )


class _Subjects:
    """Subjects of NATS with wildcards, some of them wrong, and the subjects of messages."""

    _TOKENS: Final = ("a", "b", "ab", "é", "a*", "a>", "$SYS", "-")

    def __init__(self, random: Random) -> None:
        self._random = random

    def text(self) -> str:
        return self._drawn((*self._TOKENS, "*", "*", "*", ">", "") if self._random.random() < 0.7 else "a*")

    def event(self) -> dict[str, Any]:
        return {
            "subject": self._drawn((*self._TOKENS, "a", "b", "") if self._random.random() < 0.5 else "ab")
        }

    def _drawn(self, tokens: Sequence[str]) -> str:
        found = [self._random.choice(tokens) for _ in range(self._random.choice((1, 2, 2, 3, 3, 4)))]
        if "*" in tokens and self._random.random() < 0.3:
            found.append(">")
        return ".".join(found)


class _Draws(Protocol):
    def text(self) -> str: ...
    def event(self) -> dict[str, Any]: ...


_DRAWN: Final[dict[str, Callable[[Random], _Draws]]] = {
    "cesql": _Expressions,
    "eventbridge": _Patterns,
    "jms": _Selectors,
    "nats": _Subjects,
}

_PICKED: Final[tuple[tuple[Any, dict[str, Any]], ...]] = (
    ({"a": [{"cidr": "10.0.0.0/32"}]}, {"a": "10.0.0.0"}),
    ({"a": [{"cidr": "2001:db8::/32"}]}, {"a": "2001:DB8:0::5"}),
    ({"a": [{"cidr": "2001:db8::/32"}]}, {"a": "2001:db8:1:2:3:4:5::"}),
    ({"a": [{"cidr": "2001:db8::/32"}]}, {"a": "2001:db8:1:2:3::4:5:6"}),
    ({"a": [{"cidr": "2001:db8::/32"}]}, {"a": "2001:0db8:1:2:3:00004:5:6"}),
    ({"a": [{"cidr": "10.0.0.0/24"}]}, {"a": "::ffff:a00:4"}),
    ({"a": [{"cidr": "10.0.0.5/24"}]}, {"a": "10.0.0.4"}),
    ({"a": ["::1"]}, {"a": "0:0:0:0:0:0:0:1"}),
    ({"a": ["10.0.0.1"]}, {"a": "10.0.0.0000001"}),
    ({"a": [{"anything-but": "10.0.0.1"}]}, {"a": "10.0.0.01"}),
    ({"a": [{"wildcard": "a**b"}]}, {"a": "axxb"}),
    ({"a": [{"wildcard": "a\\b"}]}, {"a": "a\\b"}),
    ({"a": [{"wildcard": "a\\*b"}]}, {"a": "a*b"}),
    ({"a": {"b": [{"exists": False}, 3], "c": [1]}}, {"a": [{"c": 1}, {"b": 2}]}),
    ({"a": {"b": [{"exists": False}, 3], "c": [1]}}, {"a": [{"c": 1, "b": 3}, {"b": 2}]}),
    ({"a": {"b": [1], "c": [1]}}, {"a": [[{"c": 1, "b": 1}], {"b": 1}]}),
    ({"a": {"b": [1], "c": [1]}}, {"a": [[{"c": 1}, {"b": 1}]]}),
    ({"a": [{"numeric": ["<", 5, ">", 1]}]}, {"a": 3}),
    ({"a": [{"numeric": [">", 5, "<", 1]}]}, {"a": 3}),
    ({"a": [{"anything-but": ["k", 5]}]}, {"a": "cb"}),
    ({"a": [{"anything-but": None}]}, {"a": "Xb"}),
    ({"a": [{"anything-but": []}]}, {"a": "Xb"}),
    ({"a": [{"anything-but": {"cidr": "10.0.0.0/8"}}]}, {"a": "11.0.0.1"}),
    ({"a": []}, {"a": "x"}),
    ({}, {"a": 1}),
    ({"a": "x"}, {"a": "x"}),
    ({"a": {}}, {"a": {}}),
    ({"a": [{"prefix": "x", "suffix": "y"}]}, {"a": "xy"}),
    ({"a": [{"foo": "x"}]}, {"a": "xy"}),
    ({"a": ["x", ["y"]]}, {"a": "xy"}),
    ({"a": [{"equals-ignore-case": "k"}]}, {"a": "\u212a"}),
    ({"a": [{"equals-ignore-case": "\u03a3"}]}, {"a": "\u03c2"}),
    ({"a.b": [1]}, {"a": {"b": 1}}),
    ({"a": {"b": [1]}}, {"a.b": 1}),
)
