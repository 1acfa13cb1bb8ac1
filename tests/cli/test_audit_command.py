"""`fairlead audit`: the verdict, the lines that prove it, and exit codes that scripts can rely on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairlead.audit import parquet, read
from fairlead.bus import Bus
from fairlead.cli import main
from fairlead.filters import Schema
from fairlead.ingest import Rejection

SUB = '{"v":1,"event":"sub","component":"ada","subscription":"s1","filter":"x > 0"}'
PUB = '{"v":1,"event":"pub","order":0,"notification":{"id":"%s","producer":"p","attributes":{"x":1}}}'
NOTIFY = '{"v":1,"event":"notify","component":"ada","producer":"p","id":"%s","subscriptions":["s1"]}'
END = '{"v":1,"event":"end"}'


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "trace.jsonl"


def written(trace: Path, *lines: str) -> str:
    trace.write_text("".join(f"{line}\n" for line in lines))
    return str(trace)


def test_a_trace_that_keeps_the_specification_holds(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Bus(trace=trace) as bus:
        bus.subscribe("x > 0", subscriber="ada")
        for x in range(3):
            bus.publish({"x": x})
    assert main(["audit", str(trace)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["simple:", "subscribed", "holds"]
    assert shown[-1] == "7 events: holds"


def test_a_violation_is_told_with_the_lines_that_prove_it(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(trace, SUB, "", PUB % 1, PUB % 2, NOTIFY % 2, NOTIFY % 1, END)
    assert main(["audit", path, "--spec", "fifo"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "fifo: order                  violated, 1",
        "  ada was notified about p/2 before p/1, which p had published first (lines 3, 4, 5, 6)",
        "6 events: violated",
    ]


def test_as_json_all_violations_come_with_their_lines(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(trace, SUB, PUB % 1, NOTIFY % 1, NOTIFY % 1, END)
    assert main(["audit", path, "--json", "--spec", "simple"]) == 1
    report = json.loads(capsys.readouterr().out)
    [once] = [each for each in report["findings"] if each["rule"] == "once"]
    assert report["verdict"] == once["verdict"] == "violated"
    assert once["violations"] == [{"what": "ada was notified about p/1 again", "lines": [3, 4]}]


def test_open_liveness_is_counted_and_no_failure(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(trace, SUB, PUB % 1, PUB % 2)
    assert main(["audit", path]) == 0
    shown = capsys.readouterr().out
    assert "simple: liveness             open, 2 not delivered yet\n" in shown
    assert shown.endswith("3 events: open\n")


def test_many_violations_are_cut_short(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(trace, SUB, PUB % 1, *[NOTIFY % 1] * 15, END)
    assert main(["audit", path, "--spec", "simple"]) == 1
    assert "… and 4 more; --json has them all" in capsys.readouterr().out


def test_lines_that_are_no_events_are_bad_input(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(trace, SUB, "nonsense", *["{}"] * 6)
    assert main(["audit", path]) == 2
    complaint = capsys.readouterr().err
    assert f"{path}:2: not JSON" in complaint
    assert "… and 2 more lines" in complaint


def test_a_trace_that_no_run_can_have_is_bad_input(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", written(trace, END, PUB % 1)]) == 2
    assert "after its end" in capsys.readouterr().err


def test_a_repeated_identity_is_judged(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A duplicate is dropped: it may be published, and must not be delivered again."""
    assert main(["audit", written(trace, SUB, PUB % 1, NOTIFY % 1, PUB % 1, END)]) == 0
    assert "1 publications repeat an identity; the first of each was judged" in capsys.readouterr().err
    assert main(["audit", written(trace, SUB, PUB % 1, NOTIFY % 1, PUB % 1, NOTIFY % 1, END)]) == 1
    assert "ada was notified about p/1 again (lines 3, 5)" in capsys.readouterr().out


@pytest.fixture
def typed_run(trace: Path, tmp_path: Path) -> str:
    """The trace of a bus with a schema: without it, `type is Quote` would not hold of a BondQuote."""
    schema = Schema.parse("abstract type Quote\ntype BondQuote: Quote\nat: time\n")
    with Bus(schema=schema, trace=str(trace)) as bus:
        bus.subscribe('type is Quote and at > t"2026-01-01T00:00:00Z"', lambda _: None)
        bus.publish({"id": "1", "producer": "p", "type": "BondQuote", "at": "2026-03-02T10:00:00+01:00"})
    (tmp_path / "own").write_text(str(schema))
    (tmp_path / "other").write_text("type BondQuote\n")
    return str(trace)


def test_a_trace_is_judged_with_the_schema_it_was_made_with(typed_run: str, tmp_path: Path) -> None:
    assert main(["audit", typed_run]) == 0
    assert main(["audit", typed_run, "--schema", str(tmp_path / "own")]) == 0


def test_another_schema_is_refused(
    typed_run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", typed_run, "--schema", str(tmp_path / "other")]) == 2
    assert "the trace was made with the schema" in capsys.readouterr().err


def test_a_table_keeps_the_schema(typed_run: str, tmp_path: Path) -> None:
    with open(typed_run, "rb") as stream:
        events = [event for _, event in read(stream)]
    assert not any(isinstance(each, Rejection) for each in events)
    parquet.write(events, str(tmp_path / "trace.parquet"))  # type: ignore[arg-type]
    assert main(["audit", str(tmp_path / "trace.parquet")]) == 0
    language = parquet.language_of(str(tmp_path / "trace.parquet"))
    assert language is not None
    assert language.schema_for(None) == Schema.read(tmp_path / "own")


def test_a_trace_names_the_extension_that_is_not_loaded(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    about = '{"schema":null,"fingerprint":null,"extensions":{"near":"maps:Near"}}'
    said = f'{{"v":2,"event":"language","about":{about}}}'
    path = written(trace, said, SUB.replace("x > 0", "x near 'm'").replace("'", '\\"'), PUB % 1, END)
    assert main(["audit", path]) == 2
    assert "the trace was made with maps:Near: --extension loads it" in capsys.readouterr().err


def test_a_file_that_does_not_exist_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "no-such-file"]) == 2
    assert "no-such-file" in capsys.readouterr().err


def test_an_unknown_specification_is_bad_input(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", written(trace), "--spec", "perfect"]) == 2
    assert "invalid choice: 'perfect'" in capsys.readouterr().err


def test_the_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--help"]) == 0
    assert "Example: fairlead audit" in " ".join(capsys.readouterr().out.split())
