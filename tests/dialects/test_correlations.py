"""Sigma correlations as patterns: a composite is found where a window by hand holds what the correlation says."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.bus import Bus
from fairlead.correlation.patterns import Pattern
from fairlead.correlation.patterns.model import atoms
from fairlead.dialects import patterns
from fairlead.errors import TranslationRefused
from fairlead.model import Instant

pytest.importorskip("yaml")

RULES = """
name: failed
id: 4f1d0c80-0000-0000-0000-000000000001
detection: {selection: {EventID: 4625}, condition: selection}
---
name: passed
detection: {selection: {EventID: 4624}, condition: selection}
---
name: privileged
detection: {selection: {Privileges|contains: Debug}, condition: selection}
---
"""
MINUTE = 60_000_000
EVENTS = {
    "failed": {"EventID": 4625},
    "passed": {"EventID": 4624},
    "privileged": {"EventID": 4672, "Privileges": "SeDebugPrivilege"},
    "both": {"EventID": 4624, "Privileges": "SeDebugPrivilege"},
    "other": {"EventID": 1},
}


def correlation(**keys: Any) -> str:
    import yaml  # type: ignore[import-untyped]

    return RULES + yaml.safe_dump({"name": "found", "correlation": keys})


def pattern(**keys: Any) -> Pattern:
    return patterns.read("sigma", correlation(**keys))


def stream(seed: int, length: int = 14) -> list[dict[str, Any]]:
    random = Random(seed)
    minute, found = 0, []
    for number in range(length):
        minute += random.choice([0, 1, 1, 2, 4])
        kind = random.choice([*EVENTS])
        about = {"host": random.choice("abc"), "user": random.choice("xy"), "client": random.choice("xy")}
        for name in random.sample([*about], random.randrange(2) * random.randrange(2)):
            del about[name]
        found.append({"id": f"e{number:02}", "time": Instant(minute * MINUTE), **EVENTS[kind], **about})
    return found


def detected(pattern: Pattern, events: list[dict[str, Any]]) -> list[list[str]]:
    with Bus(order="ordered") as bus:
        composites = bus.detect(pattern)
        for event in events:
            bus.publish(event)
    return [[each["id"] for each in found.get("constituents")] for found in composites]


# -- by hand ---------------------------------------------------------------------------------------------------


def is_of(rule: str, event: dict[str, Any]) -> bool:
    if rule == "privileged":
        return "Debug" in event.get("Privileges", "")
    return bool(event["EventID"] == {"failed": 4625, "passed": 4624}[rule])


def windows(events: list[dict[str, Any]], minutes: int, by: list[str]) -> list[list[dict[str, Any]]]:
    """For each event and each group that it is in: the events up to it that are of the time span before it."""
    found = []
    for at, last in enumerate(events):
        if any(name not in last for name in by):
            continue
        found.append(
            [
                each
                for each in events[: at + 1]
                if last["time"].microseconds - each["time"].microseconds <= minutes * MINUTE
                and all(each.get(name) == last[name] for name in by)
            ]
        )
    return found


def holds(type: str, rules: list[str], number: int, window: list[dict[str, Any]]) -> bool:
    some = [each for each in window if any(is_of(rule, each) for rule in rules)]
    match type:
        case "event_count":
            return len(some) >= number
        case "value_count":
            return len({each["host"] for each in some if "host" in each}) >= number
        case "temporal":
            return all(any(is_of(rule, each) for each in window) for rule in rules)
    assert type == "temporal_ordered"
    at = 0
    for each in window:
        if at < len(rules) and is_of(rules[at], each):
            at += 1
    return at == len(rules)


@given(st.integers(0, 1 << 32))
def test_a_composite_is_found_iff_some_window_holds_what_the_correlation_says(seed: int) -> None:
    random = Random(seed)
    type = random.choice(["event_count", "value_count", "temporal", "temporal_ordered"])
    rules = random.sample(["failed", "passed", "privileged"], random.randrange(1, 4))
    by = random.sample(["user", "client"], random.randrange(3))
    minutes, number = random.randrange(1, 8), random.randrange(1, 4)
    keys: dict[str, Any] = {"type": type, "rules": rules, "timespan": f"{minutes}m"}
    if by:
        keys["group-by"] = by
    if type.endswith("count"):
        more = {"field": "host"} if type == "value_count" else {}
        keys["condition"] = {random.choice(["gte", "gt"]): number, **more}
        number += "gt" in keys["condition"]
    events = stream(seed)
    holding = [each for each in windows(events, minutes, by) if holds(type, rules, number, each)]
    found = detected(pattern(**keys), events)
    assert bool(found) == bool(holding)
    if holding:  # the first one is found with the event with which the first one comes to hold
        assert min(map(max, found)) == min(each[-1]["id"] for each in holding)


def test_aliases_group_events_of_rules_by_different_fields() -> None:
    keys = {
        "type": "temporal_ordered",
        "rules": ["failed", "passed"],
        "timespan": "10m",
        "group-by": ["who"],
        "aliases": {"who": {"failed": "user", "passed": "client"}},
    }
    made = pattern(**keys)
    for seed in range(40):
        events = stream(seed)
        expected = [
            (one["id"], other["id"])
            for at, one in enumerate(events)
            for other in events[at + 1 :]
            if is_of("failed", one)
            and is_of("passed", other)
            and "user" in one
            and one["user"] == other.get("client")
            and other["time"].microseconds - one["time"].microseconds <= 10 * MINUTE
        ]
        found = detected(made, events)
        assert bool(found) == bool(expected)
        assert all(tuple(each) in expected for each in found)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (
            {"type": "event_count", "rules": "failed", "group-by": ["user"], "condition": {"gte": 10}},
            "found: exactly 10 [EventID = 4625] within 5 minutes, same user",
        ),
        (
            {"type": "event_count", "rules": ["failed", "passed"], "condition": {"gt": 2}},
            "found: exactly 3 [EventID = 4625 or EventID = 4624] within 5 minutes",
        ),
        (
            {"type": "temporal", "rules": ["failed", "passed"]},
            "found: any order of [EventID = 4625] as failed and [EventID = 4624] as passed within 5 minutes",
        ),
        (
            {"type": "temporal_ordered", "rules": ["4f1d0c80-0000-0000-0000-000000000001", "passed"]},
            "found: [EventID = 4625] as rule1 followed by [EventID = 4624] as passed within 5 minutes",
        ),
    ],
)
def test_worked_cases(keys: dict[str, Any], text: str) -> None:
    made = pattern(timespan="5m", **keys)
    assert made == patterns.read("fairlead", text)
    assert str(patterns.read("fairlead", str(made))) == str(made)


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"type": "value_percentile"}, "at correlation.type: 'value_percentile' is not read"),
        ({"condition": {"lt": 3}}, "at correlation.condition.lt: it may cease to hold"),
        ({"condition": {"eq": 3}}, "at correlation.condition.eq"),
        ({"condition": {"gte": 3, "lte": 9}}, "one comparison was expected"),
        ({"condition": {"gte": 0}}, "a number above 0"),
        ({"condition": "failed and passed"}, "a comparison was expected"),
        ({"timespan": "1M"}, "at correlation.timespan: 'M'"),
        ({"timespan": "soon"}, "a number with its unit"),
        ({"rules": ["unknown"]}, "there is no rule 'unknown'"),
        ({"rules": ["failed", "failed"]}, "a rule is named twice"),
        ({"rulez": ["failed"]}, "at correlation.rulez: no such key"),
        ({"aliases": {"a": {"failed": "x"}}}, "at correlation.aliases"),
        ({"type": "temporal", "condition": {"gte": 1}, "rules": ["failed", "passed"]}, "some of the rules"),
        ({"type": "temporal", "condition": "failed or passed"}, "in words are not read"),
        ({"type": "value_count", "condition": {"gte": 2}}, "the field whose values are counted"),
        ({"type": "value_count", "condition": {"gte": 200, "field": "a"}}, "more than 24"),
    ],
)
def test_refused_by_name(keys: dict[str, Any], problem: str) -> None:
    given = {"type": "event_count", "rules": ["failed"], "timespan": "5m", "condition": {"gte": 3}, **keys}
    with pytest.raises(TranslationRefused) as error:
        pattern(**given)
    assert problem in str(error.value)


def test_a_text_without_a_correlation_and_a_filter_with_one_are_refused() -> None:
    from fairlead.dialects import sigma

    with pytest.raises(TranslationRefused, match="there is none"):
        patterns.read("sigma", RULES.rstrip("-\n"))
    with pytest.raises(TranslationRefused, match="it is a pattern, not a filter"):
        sigma.read(correlation(type="temporal", rules=["failed"], timespan="5m"))
    with pytest.raises(TranslationRefused, match="several rules"):
        sigma.read(RULES.rstrip("-\n"))


PYSIGMA = json.loads((Path(__file__).parents[1] / "corpus" / "pysigma.json").read_text())
"""The answers of pySigma 2.0.1, the library of Sigma itself, about correlations: null where it refuses
one."""


def test_what_pysigma_accepts_is_read_with_the_same_values() -> None:
    import yaml

    accepted = 0
    for case in PYSIGMA["cases"]:
        text = yaml.safe_dump_all([*PYSIGMA["rules"], {"name": "found", "correlation": case["correlation"]}])
        answer = case["answer"]
        if answer is None:
            with pytest.raises(TranslationRefused):
                patterns.read("sigma", text)
            continue
        accepted += 1
        made = patterns.read("sigma", text)
        body: Any = made.body
        assert body.duration == answer["seconds"] * 1_000_000
        assert [*made.same] == answer["group_by"]
        inner = [*atoms(body)]
        if answer["type"].startswith("temporal"):
            assert len(inner) == len(answer["rules"])
            continue
        number = answer["count"] + (answer["op"] == "gt")
        if answer["type"] == "value_count":
            assert len(inner) == number
            fields = {each.attribute for condition in made.conditions for each in condition.references}
            assert fields <= {answer["field"]}
        else:
            assert getattr(body.part, "least", 1) == number
    assert (accepted, len(PYSIGMA["cases"])) == (113, 200)


def test_orders_of_rules_make_different_patterns() -> None:
    texts = {
        str(pattern(type="temporal_ordered", rules=[*order], timespan="5m"))
        for order in permutations(["failed", "passed", "privileged"])
    }
    assert len(texts) == 6
