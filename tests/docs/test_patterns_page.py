"""The tables of docs/patterns.md say what is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairlead.bus import Bus
from fairlead.correlation.patterns import Pattern, building, model, parse, parts
from fairlead.model import Instant

PAGE = (Path(__file__).parents[2] / "docs" / "patterns.md").read_text(encoding="utf-8")


def table(heading: str, page: str = PAGE) -> list[list[str]]:
    """The rows of the table that begins with a heading, cell by cell."""
    lines = page[page.index(f"| {heading} |") :].split("\n\n", maxsplit=1)[0].splitlines()
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def found(pattern: Pattern | str, stream: str) -> list[str]:
    """What a pattern takes of a stream such as A1 B2."""
    with Bus(order="ordered") as bus:
        composites = bus.detect(pattern)
        for each in stream.split():
            bus.publish({"id": each, "type": each[0], "time": Instant(int(each[1:]))})
    return [" ".join(step["id"] for step in each.get("constituents")) for each in composites]


@pytest.mark.parametrize("text", [row[1].strip("`") for row in table("to find")])
def test_what_one_writes_is_the_canonical_spelling_of_a_pattern(text: str) -> None:
    assert str(parse(text)) == text


COMING = (Path(__file__).parents[2] / "docs" / "coming-from.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", [row[1].strip("`") for row in table("in a pattern there", COMING)])
def test_what_others_say_can_be_said_here(text: str) -> None:
    assert parse(str(parse(text))) == parse(text)


@pytest.mark.parametrize("row", table("taking"), ids=lambda row: row[0])
def test_the_modes_take_what_the_table_says(row: list[str]) -> None:
    take, *taken = row
    for body, expected in zip(("A followed by B", "1 or more A followed by B"), taken, strict=True):
        assert found(f"{body}, taking {take}", "A1 A2 B3 A4 B5") == expected.split(", ")


def test_the_limits_are_those_of_the_model() -> None:
    from fairlead.correlation.patterns.language import DEPTH_MAX
    from fairlead.correlation.patterns.searching import FAILURES_MAX
    from fairlead.correlation.reading import LENGTH_MAX

    shown = [int(re.sub(r"\D.*", "", row[1].replace(",", ""))) for row in table("limit")]
    ours = [model.STEPS_MAX, parts.COUNT_MAX, model.BACK_MAX, model.LIMIT]
    assert shown == [*ours, FAILURES_MAX, DEPTH_MAX, LENGTH_MAX]


def test_every_call_that_is_named_exists() -> None:
    written = [re.sub(r'"[^"]*"', "", row[0]) for row in table("call")]
    calls = {name for text in written for name in re.findall(r"(\w+)\(", text)}
    known = {*building.__all__, *dir(building.Expression)}
    assert calls - known == set()


def test_the_grammar_is_that_of_the_language() -> None:
    from fairlead.correlation.patterns import language

    grammar = PAGE[PAGE.index("```ebnf\n") + 8 :].split("```")[0]
    assert language.__doc__ is not None
    stated = [line.strip() for line in language.__doc__.splitlines() if line.startswith("    ")]
    shown = [line.strip().replace('"=" value', '"=" operand') for line in grammar.splitlines()]
    assert shown == stated
