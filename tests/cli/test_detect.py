"""`fairlead detect`: every composite event of the definition, in its order; every line is read or rejected."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead.cli import main
from fairlead.correlation.patterns import Occurrence, Pattern
from fairlead.model import Notification
from fairlead.model.encoding import fields_to_json, format_json, notification_to_json
from fairlead.model.order import order_keys
from fairlead_lab.correlation.patterns.reference import detect
from fairlead_lab.testing.patterns import patterns, streams

EXAMPLES = Path(__file__).parents[2] / "examples" / "patterns"


class Files:
    """Files to detect patterns in, and the command run on them."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.directory = directory
        self._capsys = capsys
        self.err = ""

    def write(self, name: str, content: str) -> str:
        path = self.directory / name
        path.write_text(content, encoding="utf-8")
        return str(path)

    def run(self, *arguments: str) -> tuple[int, list[str]]:
        """Exit code and the lines that came out."""
        code = main(["detect", *arguments])
        shown = self._capsys.readouterr()
        self.err = shown.err
        return code, shown.out.splitlines()

    def detect(self, text: str, events: str, *options: str) -> tuple[int, list[str]]:
        written = self.write("patterns", text), self.write("events", events)
        return self.run("--patterns", written[0], "--events", written[1], *options)


@pytest.fixture
def files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Files:
    return Files(tmp_path, capsys)


def events(*names: str, **attributes: Any) -> str:
    """Lines of events by type and time in microseconds: A1, B2."""
    lines = ({"id": each, "type": each[0], "time": int(each[1:]), **attributes} for each in names)
    return "".join(f"{json.dumps(line)}\n" for line in lines)


# -- what is found -----------------------------------------------------------------------------------------


def test_the_examples_are_found_and_composed_again(files: Files) -> None:
    code, lines = files.run(
        *("--patterns", str(EXAMPLES / "patterns.txt"), "--events", str(EXAMPLES / "machines.jsonl"))
    )
    assert code == 0
    assert [line.split("  ")[:3] for line in lines] == [
        ["2026-03-02T09:08:00Z", "overheating", "hot=r2,r4,r5"],
        ["2026-03-02T09:14:00Z", "escalation", lines[1].split("  ")[2]],
        ["2026-03-02T09:14:00Z", "unanswered", "Alarm=a1"],
    ]
    assert lines[0].endswith('  machine="m1"  peak=97')
    assert files.err.startswith("10 events, 3 patterns, 3 composites, 0 rejected, ")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pattern=patterns(), stream=streams(), rng=st.randoms(use_true_random=False))
def test_composites_are_those_of_the_definition_to_the_byte(
    files: Files, pattern: Pattern, stream: list[Notification], rng: Random
) -> None:
    shuffled = rng.sample(stream, len(stream))
    records = "".join(f"{format_json(fields_to_json(each.attributes))}\n" for each in shuffled)
    row = json.dumps({"id": "p", "pattern": str(pattern)})
    code, lines = files.detect(row, records, "--json")
    placed = [Occurrence.of(each, key) for each, key in zip(stream, order_keys(stream), strict=True)]
    found = [notification_to_json(each.notification()) for each in detect(pattern, placed)]
    assert lines == [format_json({"patterns": ["p"], "notification": each}) for each in found]
    assert code == 0


def test_patterns_may_stand_on_the_command_line(files: Files) -> None:
    path = files.write("events", events("A1", "B2", "C3"))
    code, lines = files.run(
        *("--pattern", "A followed by B", "--pattern", "late: B followed by C"), "--events", path
    )
    assert (code, [line.split("  ")[1:] for line in lines]) == (
        0,
        [["1", "A=A1 B=B2"], ["late", "B=B2 C=C3"]],
    )


def test_relations_of_fair_subscriptions_stand_behind_what_completes_them(files: Files) -> None:
    rows = [
        {"id": "pairs", "pattern": "pair: A followed by B"},
        {"id": "fair", "subscriber": "ada", "fair": "A.x <= B.x or pair", "until": 8},
        {"id": "recent", "fair": "A.x <= B.x", "choice": "most recent"},
        {"id": "late", "fair": "A.x <= B.x", "from": 2},
    ]
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    code, lines = files.detect(text, events("A1", "A2", "B3", "C3", "B9", x=1))
    assert code == 0
    told = [tuple(line.split("  ")[1:]) for line in lines]
    assert set(told[:2]) == {("fair", "A[1]=A1 B[1]=B3"), ("late,recent", "A[1]=A2 B[1]=B3")}
    assert [*told[2], told[3][0]] == ["pair", "A=A1 B=B3", "fair"]
    assert len(told) == 4
    assert files.err.startswith("5 events, 4 patterns, ")
    code, lines = files.run(
        "--fair", "A.x < B.x", "--events", files.write("one", events("A1", x=1)), "--json"
    )
    assert (code, lines) == (0, [])


def test_a_fair_subscription_with_a_name_is_called_by_it_and_composed_with_patterns(files: Files) -> None:
    given = files.write("some", events("A1", "B2", "C3", "C4", x=1))
    arguments = ("--pattern", "late: pair followed by C", "--pattern", "pair", "--fair", "pair: A and B")
    code, lines = files.run(*arguments, "--fair", "pair and C", "--events", given)
    assert code == 0
    told = [line.split("  ")[1:] for line in lines]
    assert [each[0] for each in told] == ["2", "pair", "4", "late"]
    assert told[1] == ["pair", "A[1]=A1 B[1]=B2"]
    assert told[3][1].endswith("C=C3")
    assert files.run("--pattern", "a: b", "--fair", "b: a", "--events", given) == (2, [])
    assert "patterns see their own composites: a ◀ b" in files.err


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"fair": "composite: A"}, "line 1, column 1: composite is the type of unnamed detections"),
        ({"fair": "A", "pattern": "A"}, "a row has a pattern or a fair subscription, not both"),
        ({"pattern": "A", "choice": "most recent"}, "a pattern states its selection itself"),
        ({"fair": "A", "choice": "newest"}, "no choice of events: 'newest'"),
        ({"fair": "A.x + 1 < B.x"}, "line 1, column 11: unexpected B.x; expected a value"),
        ({"fair": 7}, "a pattern, or a fair subscription, as text was expected"),
    ],
)
def test_what_is_no_fair_subscription_is_told_with_its_line(
    files: Files, row: dict[str, Any], says: str
) -> None:
    assert files.detect(json.dumps(row), events("A1")) == (2, [])
    assert f"patterns:1: {says}" in files.err


def test_a_pattern_without_a_name_is_called_by_its_id_or_its_line(files: Files) -> None:
    text = '{"id": 7, "pattern": "A"}\n{"pattern": "A, giving n = count(A)"}\n{"id": "x", "pattern": "A"}\n'
    _, lines = files.detect(text, events("A1"))
    assert sorted(line.split("  ")[1:] for line in lines) == [["2", "A=A1", "n=1"], ["7,x", "A=A1"]]


def test_a_pattern_holds_for_a_part_of_the_order(files: Files) -> None:
    text = '{"pattern": "A followed by B", "from": 2, "until": "1970-01-01T00:00:00.000006Z"}\n'
    _, lines = files.detect(text, events("A1", "B2", "A3", "B4", "A5", "B6"))
    assert [line.split("  ")[2] for line in lines] == ["A=A3 B=B4"]


def test_partial_matches_are_told_apart(files: Files) -> None:
    _, lines = files.detect("A followed by B within 2 us, with partial matches\n", events("A1", "C9"))
    assert [line.split("  ")[1:] for line in lines] == [["1.partial", "A=A1"]]


def test_long_ids_are_shortened_for_the_eye_only(files: Files) -> None:
    line = '{"type": "A", "time": 1}\n'
    _, lines = files.detect("A", line)
    assert lines[0].endswith("…")
    _, lines = files.detect("A", line, "--json")
    found = json.loads(lines[0])["notification"]["attributes"]["constituents"][0]["id"]
    assert len(found) > 12


# -- reading -----------------------------------------------------------------------------------------------


def test_without_a_lateness_a_file_is_put_in_order_as_a_whole(files: Files) -> None:
    code, lines = files.detect("A followed by B", events("A5", "C20", "B9", "B21"))
    assert [line.split("  ")[2] for line in lines] == ["A=A5 B=B9"]
    assert (code, "too late" in files.err) == (0, False)


def test_with_a_lateness_it_is_a_stream_and_what_is_late_is_counted(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = events("A5", "C20", "B9", "B21")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    code, lines = files.run("--pattern", "A followed by B", "--events", "-", "--lateness", "3 us")
    assert [line.split("  ")[2] for line in lines] == ["A=A5 B=B21"]
    assert (code, "1 too late" in files.err) == (0, True)


def test_the_same_bytes_are_late_alike_in_a_file_and_on_standard_input(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, pattern = events("A5", "C20", "B9", "B21"), ("--pattern", "A followed by B", "--lateness", "3 us")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    streamed = files.run(*pattern, "--events", "-"), files.err.count("1 too late")
    read = files.run(*pattern, "--events", files.write("events", text)), files.err.count("1 too late")
    assert read == streamed
    assert [line.split("  ")[2] for line in read[0][1]] == ["A=A5 B=B21"]


def test_what_cannot_be_read_is_rejected_and_the_rest_is_detected(files: Files) -> None:
    text = events("A1") + "{\n" + events("B2") + events("B2")
    code, lines = files.detect("A followed by B", text)
    assert (code, len(lines)) == (3, 1)
    assert "events:2: rejected: " in files.err
    assert "2 events, 1 patterns, 1 composites, 1 duplicates dropped, 1 rejected" in files.err
    kept = files.directory / "rejected"
    code, _ = files.detect("A followed by B", text, "--rejected", str(kept))
    assert (code, json.loads(kept.read_text())["line"]) == (3, 2)


# -- bad input ---------------------------------------------------------------------------------------------


def test_a_bad_pattern_is_told_with_its_line_and_column(files: Files) -> None:
    text = "# patterns\n" * 16 + "A fallowed by B\n"
    code, lines = files.detect(text, events("A1"))
    assert (code, lines) == (2, [])
    assert files.err.startswith(
        f"fairlead: {files.directory}/patterns:17: line 1, column 3: unexpected fallowed"
    )
    assert files.err.count("fairlead:") == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"id": "p"}', "a pattern, or a fair subscription, as text was expected"),
        ('{"pattern": "A", "untill": 5}', "no such member: 'untill'"),
        ('{"pattern": "A", "from": 5, "until": 5}', "it would end before it begins"),
        ("{", "patterns:1: "),
        ('{"id": true, "pattern": "A"}', "an id is a string or a whole number"),
        ('{"subscriber": 7, "pattern": "A"}', "a subscriber is a string, not 7"),
        ('{"pattern": "A", "from": "noon"}', "patterns:1: from: not a time: 'noon'"),
        ('{"pattern": "A", "until": [1]}', "until: not a time"),
        ('{"id": "p", "pattern": "A"}\n{"id": "p", "pattern": "B"}', "the id 'p' is taken by"),
        ("p: A\np: B", "patterns:2: the id 'p' is taken by"),
        ("p: A followed by q\nq: A followed by p", "patterns see their own composites"),
        ("# nothing", "no pattern is given"),
    ],
)
def test_patterns_that_make_no_sense_are_told_in_one_message(files: Files, text: str, says: str) -> None:
    code, _ = files.detect(text, events("A1"))
    assert code == 2
    assert says in files.err
    assert files.err.count("fairlead:") == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--pattern", "A"), "in which events?"),
        (("--patterns", "-", "--events", "-"), "cannot both come from standard input"),
        (("--pattern", "A", "--events", "nowhere.jsonl"), "nowhere.jsonl: No such file"),
        (("--pattern", "A", "--events", "-", "--rejected", "-"), "--rejected takes a file"),
        (("--pattern", "A", "--events", "-", "--lateness", "soon"), "not a duration: 'soon'"),
        (("--pattern", "A", "--events", "-", "--on", "spark"), "Spark reads a file"),
        (("--svg",), "which automaton?"),
        (("--explain", "A or B followed by C"), "use parentheses"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_message(
    files: Files, arguments: tuple[str, ...], says: str
) -> None:
    code, lines = files.run(*arguments)
    assert (code, lines) == (2, [])
    assert says in files.err
    assert files.err.count("fairlead:") == 1


def test_the_rejected_lines_overwrite_nothing_that_is_read(files: Files) -> None:
    path = files.write("events", events("A1"))
    code, _ = files.run("--pattern", "A", "--events", path, "--rejected", path)
    assert (code, "would overwrite" in files.err) == (2, True)


# -- explaining --------------------------------------------------------------------------------------------


def test_a_pattern_is_explained_in_its_three_forms(files: Files) -> None:
    code, lines = files.run("--explain", "pair:A followed by B[x>1] within 60 minutes")
    assert code == 0
    assert lines == [
        "text    pair: A followed by B[x > 1] within 1 hour",
        'python  event("A").then(event("B", "x > 1")).within("1 hour").named("pair")',
        "core    pair: ([A] ; [B])_{within 1 h}",
        '        where A = [type = "A"], B = [type = "B" and x > 1]',
    ]
    _, lines = files.run("--explain", "A", "--json")
    assert list(json.loads(lines[0])) == ["text", "python", "core"]


def test_an_automaton_is_drawn(files: Files) -> None:
    _, lines = files.run("--explain", "A followed by B", "--dot")
    assert lines[0] == "digraph automaton {"
    _, lines = files.run("--explain", "A followed by B", "--svg")
    assert "<svg" in lines[0]
