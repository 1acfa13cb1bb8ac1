"""`fairlead match`: every line is matched or rejected, none is lost, and the answers come in order."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead.cli import main
from fairlead.filters.language import parse
from fairlead.model import Notification


class Files:
    """Files to match, and the command run on them."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.directory = directory
        self._capsys = capsys
        self.err = ""

    def write(self, name: str, content: str | bytes) -> str:
        path = self.directory / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def match(self, subscriptions: str, events: str | bytes, *options: str) -> tuple[int, list[Any]]:
        """Exit code and the pairs that came out."""
        code = main(
            [
                *("match", "--subscriptions", self.write("subscriptions", subscriptions)),
                *("--events", self.write("events", events), *options),
            ]
        )
        shown = self._capsys.readouterr()
        self.err = shown.err
        pairs = [json.loads(line) for line in shown.out.splitlines()]
        assert all(list(pair) == ["event", "subscription"] for pair in pairs)
        return code, [(pair["event"], pair["subscription"]) for pair in pairs]


@pytest.fixture
def files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Files:
    return Files(tmp_path, capsys)


SUBSCRIPTIONS = """\
{"id": "cheap", "subscriber": "ada", "filter": "price < 10"}
{"id": 7, "subscriber": "bruno", "filter": "exists price"}
"""
EVENTS = """\
{"id": "a", "price": 5}
{"id": 2, "price": 20}
{"price": 1}
{"id": "d", "colour": "red"}
"""


def test_matches_come_in_the_order_of_events_with_ids_as_given(files: Files) -> None:
    code, pairs = files.match(SUBSCRIPTIONS, EVENTS)
    assert code == 0
    assert pairs == [("a", "cheap"), ("a", 7), (2, 7), (3, "cheap"), (3, 7)]
    assert files.err.startswith("4 events, 2 subscriptions, 5 matches, 0 rejected, ")


def test_plain_subscriptions_are_named_by_their_line(files: Files) -> None:
    code, pairs = files.match("# two filters\n\nprice < 10\nexists price\n", EVENTS)
    assert (code, pairs[:2]) == (0, [("a", 3), ("a", 4)])


def test_without_a_match_all_is_well(files: Files) -> None:
    assert files.match("price > 1000", EVENTS) == (0, [])
    assert files.match("", EVENTS) == (0, [])
    assert files.match("price > 1000", "") == (0, [])


def test_lines_that_cannot_be_read_are_kept_and_nothing_else_is_lost(files: Files) -> None:
    kept = files.directory / "rejected.jsonl"
    events = b'{"id": 1, "price": 5}\nnonsense\n[1]\n{"price": "\xff"}\n{"id": 5, "price": 6}\n'
    code, pairs = files.match("price < 10", events, "--rejected", str(kept))
    assert (code, pairs) == (3, [(1, 1), (5, 1)])
    rejections = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()]
    assert [(each["line"], each["raw"]) for each in rejections] == [
        (2, "nonsense"),
        (3, "[1]"),
        (4, '{"price": "\\xff"}'),
    ]
    assert all(each["reason"] for each in rejections)
    assert f"2 events, 1 subscriptions, 2 matches, 3 rejected (see {kept}), " in files.err


def test_the_first_rejected_lines_are_shown_where_they_are_not_kept(files: Files) -> None:
    code, _ = files.match("price < 10", "x\n" * 8)
    assert code == 3
    assert files.err.count("events:") == 5
    assert "… and 3 more; --rejected FILE writes them all" in files.err
    assert "8 rejected" in files.err


def test_a_cloud_event_is_matched_with_its_payload_below_or_lifted(files: Files) -> None:
    event = json.dumps(
        {"specversion": "1.0", "id": "e", "source": "/s", "type": "quote", "data": {"price": 5}}
    )
    assert files.match("data.price = 5\nprice = 5", event) == (0, [("e", 1)])
    assert files.match("data.price = 5\nprice = 5", event, "--lift") == (0, [("e", 2)])


def test_the_schema_rejects_what_it_does_not_admit(files: Files) -> None:
    schema = files.write("schema", "price: int\n")
    code, pairs = files.match("exists price", '{"price": 1}\n{"price": 1.5}\n', "--schema", schema)
    assert (code, pairs) == (3, [(1, 1)])


@pytest.mark.parametrize(
    ("subscriptions", "complaint"),
    [
        ("price < 10\nprice <\n", ":2: line 1, column 8"),
        ('{"id": 1, "filter": "price <"}', ":1: line 1, column 8"),
        ('{"id": 1, "filter": "a = 1"}\n{"id": 1, "filter": "a = 2"}', ":2: the id 1 is taken by line 1"),
        ('{"id": 1, "filter": "a = 1"}\nb = 2\n', ":2: "),
        ('{"id": 1}', ":1: a JSON object with a filter in it was expected"),
        ('{"id": true, "filter": "a = 1"}', ":1: an id is a string or a whole number"),
        ('{"id": 1, "subscriber": 5, "filter": "a = 1"}', ":1: a subscriber is a string"),
    ],
)
def test_a_bad_subscription_is_an_error_that_names_its_line(
    files: Files, subscriptions: str, complaint: str
) -> None:
    assert files.match(subscriptions, EVENTS) == (2, [])
    assert files.err.startswith("fairlead: ")
    assert f"subscriptions{complaint}" in files.err


def test_an_unknown_engine_is_an_error_that_lists_the_known_ones(files: Files) -> None:
    assert files.match("a = 1", EVENTS, "--engine", "telepathy") == (2, [])
    assert "brute" in files.err


def test_a_missing_file_of_events_leaves_the_rejected_ones_of_yesterday(files: Files) -> None:
    kept = files.write("rejected", "yesterday's\n")
    options = ("--subscriptions", files.write("s", "a = 1"), "--rejected", kept)
    assert main(["match", "--events", str(files.directory / "none"), *options]) == 2
    assert Path(kept).read_text() == "yesterday's\n"


def test_events_can_come_from_standard_input(
    files: Files, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(EVENTS.encode())))
    assert main(["match", "--events", "-", "--subscriptions", files.write("s", "price = 20")]) == 0
    assert json.loads(capsys.readouterr().out) == {"event": 2, "subscription": 1}
    assert main(["match", "--events", "-", "--subscriptions", "-"]) == 2


NAMES = st.sampled_from("ab")
RECORDS = st.dictionaries(NAMES, st.integers(0, 3))
FILTERS = st.builds("{} {} {}".format, NAMES, st.sampled_from("<=>"), st.integers(0, 3))


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(FILTERS, max_size=5), st.lists(RECORDS, max_size=10))
def test_the_command_says_what_the_filters_say(
    files: Files, filters: list[str], records: list[dict[str, int]]
) -> None:
    expected = [
        (line, number)
        for line, record in enumerate(records, start=1)
        for number, text in enumerate(filters, start=1)
        if parse(text).matches(Notification.of(record))
    ]
    assert files.match("\n".join(filters), "\n".join(map(json.dumps, records))) == (0, expected)
