"""Writes whether rules of Sigma match events, by the conditions that pySigma makes of them.

    python -m fairlead_lab.dialects.pysigma_rules > tests/corpus/sigma.jsonl

It takes pySigma, which the tests do without: they read the lines, and ask pySigma again where it is installed.
What modifiers, wildcards, lists and conditions stand for is pySigma's; what its values match is evaluated here as
the standard has it, for pySigma leaves that to backends.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Iterator
from operator import ge, gt, le, lt
from random import Random
from typing import Any, Final

import yaml  # type: ignore[import-untyped]  # it has no types of its own

from fairlead_lab.dialects.texts import Case

__all__ = ["answers_of_pysigma", "drawn_rules", "main"]

ROWS: Final = 500
_TEXTS: Final = (
    "cmd",
    "CMD",
    "c*d",
    "c?d",
    r"c\*d",
    r"a\\b",
    r"\Win\x",
    "*.exe",
    "",
    "a b",
    "10.0.0.7",
    "-enc",
)
_HELD: Final = (
    *(
        "cmd",
        "CMD",
        "c*d",
        "cxd",
        "cmd.exe",
        "a\\b",
        "\\win\\X",
        "",
        "a b",
        "10.0.0.7",
        "10.1.0.7",
        "x /ENC y",
    ),
    *(5, 5.5, 7, True, False, None),
)
_NUMBERS: Final = (5, 7, 5.5)
_MODIFIERS: Final = (
    *("", "", "", "|contains", "|startswith", "|endswith", "|contains|all", "|cased", "|contains|cased"),
    *("|re", "|re|i", "|cidr", "|lt", "|gte", "|exists", "|windash|contains", "|fieldref"),
    *("|base64", "|base64offset|contains", "|wide|base64", "|unheard", "|expand"),
)
_CONDITIONS: Final = (
    *("one", "not one", "one and two", "one or not two", "not (one and two) or other"),
    *("1 of them", "all of them", "1 of o*", "all of o*", "not 1 of o*", "two and 1 of o*"),
)


_COMPARED: Final[dict[str, Callable[[Any, Any], Any]]] = {"LT": lt, "LTE": le, "GT": gt, "GTE": ge}


def drawn_rules(random: Random, count: int) -> list[Case]:
    """So many cases at random, three events to a rule; some rules are wrong."""
    cases: list[Case] = []
    while len(cases) < count:
        text = _rule(random)
        cases += [Case(text, _event(random)) for _ in range(3)]
    return cases[:count]


def _event(random: Random) -> dict[str, Any]:
    return {name: random.choice(_HELD) for name in "abc" if random.random() < 0.8}


def _rule(random: Random) -> str:
    detection: dict[str, Any] = {name: _selection(random) for name in ("one", "two", "other")}
    detection["condition"] = random.choice(_CONDITIONS)
    written: str = yaml.safe_dump(
        {"title": "drawn", "logsource": {"category": "test"}, "detection": detection}, allow_unicode=True
    )
    return written


def _selection(random: Random) -> Any:
    if random.random() < 0.15:
        return [_fields(random), _fields(random)]
    return _fields(random)


def _fields(random: Random) -> dict[str, Any]:
    found = {}
    for name in random.sample("abc", random.choice((1, 1, 2))):
        modifier = random.choice(_MODIFIERS)
        found[name + modifier] = _value(random, modifier)
    return found


def _value(random: Random, modifier: str) -> Any:
    match modifier.split("|")[1:]:
        case ["re", *_]:
            return random.choice(("c.d", "^c", "m+d", "CMD", r"\d+"))
        case ["cidr"]:
            return random.choice(("10.0.0.0/24", ["10.0.0.0/8", "192.168.0.0/16"]))
        case ["lt"] | ["gte"]:
            return random.choice(_NUMBERS)
        case ["exists"]:
            return random.choice((True, False))
        case ["fieldref"]:
            return random.choice("abc")
        case ["contains", "all"]:
            return random.sample(["c", "d", "M", ".exe", " "], 2)
        case ["base64"] | ["base64offset", _] | ["wide", _]:
            return random.choice(("cmd", "secret"))
        case ["windash", _]:
            return random.choice((" -enc", "-enc", "cmd"))
        case []:
            some: tuple[Any, ...] = (*_TEXTS, *_NUMBERS, None, True)
            return random.choice((random.choice(some), random.choice(some), random.sample(some, 2)))
    return random.choice((random.choice(_TEXTS), random.sample(_TEXTS, 2)))


# -- pySigma's conditions, evaluated ---------------------------------------------------------------------------


def answers_of_pysigma(cases: list[Case]) -> list[Any]:
    """For each case whether pySigma's condition holds of the event, or "refused"."""
    from sigma.exceptions import SigmaError  # type: ignore[import-not-found]
    from sigma.rule import SigmaRule  # type: ignore[import-not-found]

    made: dict[str, Any] = {}
    for text in dict.fromkeys(case.text for case in cases):
        try:
            made[text] = SigmaRule.from_yaml(text).detection.parsed_condition[0].parsed
        except SigmaError:
            made[text] = None
    return ["refused" if made[case.text] is None else _holds(made[case.text], case.event) for case in cases]


def _holds(condition: Any, event: dict[str, Any]) -> bool:
    match type(condition).__name__:
        case "ConditionAND":
            return all(_holds(each, event) for each in condition.args)
        case "ConditionOR":
            return any(_holds(each, event) for each in condition.args)
        case "ConditionNOT":
            return not _holds(condition.args[0], event)
        case "ConditionFieldEqualsValueExpression":
            return _matches(condition.value, condition.field, event)
    raise AssertionError(condition)


def _matches(value: Any, field: str, event: dict[str, Any]) -> bool:
    held = event.get(field)
    is_number = isinstance(held, int | float) and not isinstance(held, bool)
    match type(value).__name__:
        case "SigmaNull":
            return held is None
        case "SigmaExists":
            return (field in event) is value.exists
        case "SigmaBool":
            return held is value.boolean
        case "SigmaNumber":
            return is_number and held == value.number
        case "SigmaCompareExpression":
            return is_number and bool(_COMPARED[value.op.name](held, value.number.number))
        case "SigmaExpansion":
            return any(_matches(each, field, event) for each in value.values)
        case "SigmaFieldReference":
            return field in event and value.field in event and _same(held, event[value.field])
    if not isinstance(held, str):
        return False
    match type(value).__name__:
        case "SigmaString" | "SigmaCasedString":
            folding = re.IGNORECASE if type(value).__name__ == "SigmaString" else 0
            return re.fullmatch("".join(_pieces(value)), held, folding | re.DOTALL) is not None
        case "SigmaRegularExpression":
            flags = re.IGNORECASE if any(each.name == "IGNORECASE" for each in value.flags) else 0
            return re.search(str(value.regexp), held, flags) is not None
        case "SigmaCIDRExpression":
            try:
                return ipaddress.ip_address(held) in value.network
            except ValueError:
                return False
    raise AssertionError(value)


def _same(one: Any, other: Any) -> bool:
    return one is not None and type(one) is type(other) and bool(one == other)


def _pieces(value: Any) -> Iterator[str]:
    """The regular expression of a string with wildcards."""
    for piece in value.s:
        yield re.escape(piece) if isinstance(piece, str) else {"WILDCARD_MULTI": ".*"}.get(piece.name, ".")


def main() -> None:
    """Write the cases, each with its answer: half of those that are no refusals match."""
    random = Random(11)
    cases = drawn_rules(random, ROWS * 12)
    rows = list(zip(cases, answers_of_pysigma(cases), strict=True))
    for wanted, share in ((True, 4), (False, 4), ("refused", 2)):
        for case, matches in [row for row in rows if row[1] == wanted][: ROWS * share // 10]:
            line = {"text": case.text, "event": case.event, "matches": matches}
            print(json.dumps(line, ensure_ascii=False, separators=(",", ":")))


if __name__ == "__main__":
    main()
