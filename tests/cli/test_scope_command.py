"""`fairlead scope …`: scope graphs at the prompt, with exit codes that mean something."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairlead.cli import main

GRAPH = """
DEFINE SCOPE world AS ALL FROM temp, office
DEFINE SCOPE temp AS ALL FROM m1, m2 INTERFACES OUTPUT(Alarm)
DEFINE SCOPE office AS ALL FROM desk SUPERSCOPE ALL FROM world INTERFACES INPUT(1)
"""


@pytest.fixture
def graph(tmp_path: Path) -> str:
    path = tmp_path / "plant.scopes"
    path.write_text(GRAPH)
    return str(path)


def answer(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(["scope", *argv])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_check_counts_and_finds(capsys: pytest.CaptureFixture[str], graph: str, tmp_path: Path) -> None:
    assert answer(capsys, "check", graph) == (0, "3 scopes, 3 components\n", "")
    never = tmp_path / "never.scopes"
    never.write_text(f"{GRAPH} ALTER SCOPE temp ADD m: ALL FROM m1, m2 : {{ INTERFACES OUTPUT(Temp) }}")
    code, out, _ = answer(capsys, "check", str(never), "--json")
    [finding] = json.loads(out)["findings"]
    assert (code, finding["subject"], finding["witness"]) == (0, "temp", {"type": "Temp"})
    assert "never send what matches type is Alarm" in finding["message"]
    assert answer(capsys, "check", str(never), "--strict")[0] == 1


def test_check_shows_where_a_text_cannot_be_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.scopes"
    wrong.write_text("DEFINE SCOPE a AS\n  ALL FORM b")
    code, out, err = answer(capsys, "check", str(wrong))
    assert (code, out) == (2, "")
    assert "wrong.scopes: line 2, column 7: unexpected FORM; expected FROM" in err
    wrong.write_text(
        "DEFINE SCOPE a AS ALL FROM b MAP OUTWARD nowhere.at:all INTERFACES OUTPUT(1) SUPERSCOPE ALL FROM c;"
        "DEFINE SCOPE c AS"
    )
    code, out, _ = answer(capsys, "check", str(wrong))
    assert code == 2
    assert "error: a in c: nowhere.at:all cannot be loaded" in out


def test_show_draws_text_dot_svg_and_json(capsys: pytest.CaptureFixture[str], graph: str) -> None:
    code, out, _ = answer(capsys, "show", graph)
    assert code == 0
    assert out.splitlines()[0].startswith("world/")
    assert "temp/  in(0) out(Alarm)" in out
    assert '"world" -> "temp"' in answer(capsys, "show", graph, "--dot")[1]
    assert answer(capsys, "show", graph, "--svg")[1].startswith("<svg")
    text = answer(capsys, "show", graph, "--text")[1]
    document = json.loads(answer(capsys, "show", graph, "--json")[1])
    assert text.startswith("DEFINE SCOPE world AS")
    assert document["statements"][0]["define"] == "world"


def test_visible_says_yes_or_no_with_the_paths(capsys: pytest.CaptureFixture[str], graph: str) -> None:
    assert answer(capsys, "visible", graph, "m1", "desk") == (0, "yes\n", "")
    assert answer(capsys, "visible", graph, "m1", "desk", "--event", '{"type": "Temp"}') == (1, "no\n", "")
    code, out, _ = answer(capsys, "visible", graph, "m1", "desk", "--event", '{"type": "Alarm"}', "--json")
    assert code == 0
    assert json.loads(out)["paths"] == [{"path": ["m1", "temp", "world", "office", "desk"], "passes": True}]
    code, out, err = answer(capsys, "visible", graph, "m1", "stranger")
    assert (code, out) == (1, "no\n")
    assert "stranger is not in the graph" in err


def test_explain_names_the_interface_that_stops_it(capsys: pytest.CaptureFixture[str], graph: str) -> None:
    code, out, _ = answer(capsys, "explain", graph, "m1", "desk", "--event", '{"type": "Temp"}')
    assert code == 1
    assert (
        'temp up to world: stopped by the base output of temp: type is Alarm does not match: type is "Temp"'
        in out
    )
    code, out, _ = answer(capsys, "explain", graph, "desk", "m1", "--event", '{"type": "Alarm"}', "--json")
    [path] = json.loads(out)["paths"]
    assert code == 1
    assert path["edges"][-1] == {
        "from": "office",
        "to": "world",
        "direction": "up",
        "passed": False,
        "stopped_by": "the base output of office: closed",
    }


def test_diff_lists_what_changed(capsys: pytest.CaptureFixture[str], graph: str, tmp_path: Path) -> None:
    assert answer(capsys, "diff", graph, graph)[0] == 0
    other = tmp_path / "other.scopes"
    other.write_text(
        f"{GRAPH} ALTER SCOPE temp INTERFACES OUTPUT(Alarm, Warning); LEAVE m2 FROM temp; JOIN x TO office"
    )
    code, out, _ = answer(capsys, "diff", graph, str(other))
    assert code == 1
    assert out.splitlines() == [
        "~ scope temp: in(0) out(Alarm) becomes in(0) out(Alarm, Warning)",
        "+ component x",
        "- m2 in temp",
        "+ x in office",
    ]
    assert json.loads(answer(capsys, "diff", graph, str(other), "--json")[1])["different"] is True
