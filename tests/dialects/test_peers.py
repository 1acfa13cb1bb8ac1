"""The engines of other systems are asked again, where they can be built, with texts that no corpus has.

Event Ruler and ActiveMQ take Maven, CESQL of CloudEvents' SDK and NATS take Go, and all of them a registry;
pySigma has to be installed. Where one is absent, its test is skipped and says so. Other tests read the answers of
the corpora.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

import fairlead as fl
from fairlead import dialects
from fairlead.errors import NotInstalled, TranslationRefused
from fairlead_lab.dialects import ENGINES, Case, answers, drawn

CORPUS = Path(__file__).parents[1] / "corpus"


def answer(dialect: str, case: Case) -> Any:
    """Our answer, in the words of the engines."""
    try:
        return dialects.read(dialect, case.text).matches(fl.Notification.of(case.event))
    except TranslationRefused:
        return "refused"


def differing(dialect: str, cases: list[Case], given: list[Any]) -> list[Any]:
    """The cases that the other engine answers, and we answer otherwise; what we refuse is none of them."""
    both = zip(cases, given, strict=True)
    ours = [(case, said, answer(dialect, case)) for case, said in both if said != "refused"]
    return [each for each in ours if each[1] != each[2] != "refused"]


def asked(ask: Callable[[], list[Any]]) -> list[Any]:
    """The answers of an engine, or a report of what is absent."""
    try:
        return ask()
    except (ModuleNotFoundError, NotInstalled, RuntimeError) as absent:
        pytest.skip(f"the engine cannot be asked here: {absent}")


@pytest.mark.soak
@pytest.mark.parametrize("dialect", sorted(ENGINES))
def test_an_engine_answers_as_we_do(dialect: str) -> None:
    cases = drawn(dialect, Random(), 2_000)
    given = asked(lambda: answers(ENGINES[dialect], cases))
    assert {True, False} <= {*given}
    assert differing(dialect, cases, given) == []


def test_pysigma_makes_conditions_of_rules_that_hold_where_ours_do() -> None:
    pytest.importorskip("sigma", reason="pySigma is not installed")
    from fairlead_lab.dialects.pysigma_rules import answers_of_pysigma, drawn_rules

    cases = drawn_rules(Random(), 1_000)
    assert differing("sigma", cases, answers_of_pysigma(cases)) == []


@pytest.mark.parametrize(
    ("dialect", "refused"), [("cesql", set()), ("nats", set()), ("sigma", {"expand", "fieldref"})]
)
def test_the_answers_of_the_corpus_are_ours(dialect: str, refused: set[str]) -> None:
    """`refused` are the words of which one is in every text that is valid there and refused here."""
    if dialect == "sigma":
        pytest.importorskip("yaml")
    lines = (CORPUS / f"{dialect}.jsonl").read_text("utf-8").splitlines()
    cases, given = [], []
    for line in map(json.loads, lines):
        cases.append(Case(line["text"], line["event"]))
        given.append(line["matches"])
    assert {True, False} <= {*given}
    assert differing(dialect, cases, given) == []
    mine = [
        case.text
        for case, said in zip(cases, given, strict=True)
        if said != "refused" == answer(dialect, case)
    ]
    assert all(any(word in text for word in refused) for text in mine)
    counted = Counter(said == "refused" for said in given)
    page = (Path(__file__).parents[2] / "docs" / "dialects.md").read_text("utf-8").split("## Conformance")[1]
    row = next(line for line in page.splitlines() if f"`tests/corpus/{dialect}.jsonl`" in line)
    assert row.endswith(f"| {counted[False] - len(mine)} | {len(mine)} | {counted[False]} |")


def test_an_engine_that_differs_is_found_out() -> None:
    cases = [Case("n = 5", {"n": 5}), Case("n = 5", {"n": 6})]
    assert differing("cesql", cases, [True, False]) == []
    assert differing("cesql", cases, [False, False]) == [(cases[0], False, True)]


def test_what_is_absent_is_reported() -> None:
    def absent() -> list[Any]:
        raise NotInstalled("go is not installed")

    with pytest.raises(pytest.skip.Exception, match="go is not installed"):
        asked(absent)
