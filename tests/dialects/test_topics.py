"""Topic filters of MQTT and subjects of NATS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairlead as fl
from fairlead import dialects
from fairlead.errors import TranslationRefused

LEVELS = st.sampled_from(["", "a", "b", "$SYS", "c*", "**", "x.y"])


def mqtt_matches(filter: str, topic: str) -> bool:
    """The standard, literally: section 4.7 of MQTT 5.0, level by level."""
    if filter[0] in "+#" and topic.startswith("$"):
        return False
    levels, names = filter.split("/"), topic.split("/")
    for number, level in enumerate(levels):
        if level == "#":
            return True
        if number >= len(names) or level not in ("+", names[number]):
            return False
    return len(levels) == len(names)


def nats_matches(filter: str, subject: str) -> bool:
    """The documentation of NATS, literally, token by token."""
    tokens, names = filter.split("."), subject.split(".")
    if "" in names:
        return False
    for number, token in enumerate(tokens):
        if token == ">":
            return len(names) > number
        if number >= len(names) or token not in ("*", names[number]):
            return False
    return len(tokens) == len(names)


def test_every_case_of_mqtt_is_answered_as_its_suite_does(
    suite: Callable[[str], list[dict[str, Any]]],
) -> None:
    wrong = []
    for case in suite("mqtt"):
        try:
            matches: Any = dialects.mqtt(case["filter"]).matches(fl.Notification.of({"topic": case["topic"]}))
        except TranslationRefused:
            matches = "refused"
        if matches != case["matches"]:
            wrong.append((case["name"], matches))
    assert wrong == []


@given(st.lists(LEVELS | st.just("+"), min_size=1, max_size=4), st.booleans(), st.lists(LEVELS, max_size=5))
def test_a_topic_matches_iff_it_does_level_by_level(
    levels: list[str], open_end: bool, names: list[str]
) -> None:
    filter, topic = "/".join([*levels, *["#"] * open_end]), "/".join(names)
    if filter and topic:
        translated = dialects.mqtt(filter)
        assert translated.matches(fl.Notification.of({"topic": topic})) == mqtt_matches(filter, topic)
        assert fl.identical(dialects.mqtt(dialects.mqtt.write(translated)), translated)


TOKENS = st.sampled_from(["a", "b", "b*r", "**", "x-y", "$1"])


@given(
    st.lists(TOKENS | st.just("*"), min_size=1, max_size=4),
    st.booleans(),
    st.lists(TOKENS | st.just(""), min_size=1, max_size=5),
)
def test_a_subject_matches_iff_it_does_token_by_token(
    tokens: list[str], open_end: bool, names: list[str]
) -> None:
    filter, subject = ".".join([*tokens, *[">"] * open_end]), ".".join(names)
    translated = dialects.nats(filter)
    assert translated.matches(fl.Notification.of({"subject": subject})) == nats_matches(filter, subject)
    assert fl.identical(dialects.nats(dialects.nats.write(translated)), translated)


@pytest.mark.parametrize(
    ("dialect", "text", "column", "construct"),
    [
        ("mqtt", "", 1, "at least one character"),
        ("mqtt", "a/b+", 4, "wildcard +"),
        ("mqtt", "a/#/b", 3, "wildcard #"),
        ("mqtt", "$share/g+/a", 8, "shared subscription"),
        ("mqtt", "$share/g", 8, "shared subscription"),
        ("mqtt", "a\0b", 2, "null"),
        ("nats", "a..b", 3, "token"),
        ("nats", "a.>.b", 3, "wildcard >"),
        ("nats", "a b", 2, "white space"),
        ("nats", "", 1, "token"),
    ],
)
def test_a_refusal_names_the_construct_and_the_column(
    dialect: str, text: str, column: int, construct: str
) -> None:
    with pytest.raises(TranslationRefused, match=construct.replace("+", r"\+")) as refused:
        dialects.read(dialect, text)
    assert refused.value.column == column


def test_a_shared_subscription_has_the_topics_of_its_filter() -> None:
    assert dialects.mqtt("$share/group/a/+") == dialects.mqtt("a/+")


def test_a_filter_that_no_topic_filter_says_is_not_written() -> None:
    for text in ('topic suffix "x"', "price > 10", 'topic matches "**/a"'):
        with pytest.raises(TranslationRefused, match="cannot say"):
            dialects.mqtt.write(fl.parse(text))
    with pytest.raises(TranslationRefused, match="cannot say"):
        dialects.nats.write(fl.parse('subject matches "a.*" by "."'))  # which has an empty token, too


def test_an_unknown_dialect_is_refused_with_those_there_are() -> None:
    with pytest.raises(fl.FilterError, match="did you mean mqtt"):
        dialects.read("mqt", "a")
    assert dialects.read("fairlead", "x > 1") == fl.parse("x > 1")
