"""`fairlead keys seal`, `filter` and `open`: sealed attributes in files, without a broker."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from fairlead.cli import main
from fairlead.filters import parse
from fairlead.ingest.records import notification_of

POLICY = '[keys.police]\n[sealed."*"]\nplace = "police"\n'
EVENT = {"id": "1", "producer": "p", "place": "Elm", "x": 1}


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    (tmp_path / "p.toml").write_text(POLICY)
    assert main(["keys", "rotate", str(tmp_path / "k"), "police"]) == 0
    return ["--sealed", str(tmp_path / "p.toml"), "--keys", str(tmp_path / "k")]


def piped(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *command: str
) -> tuple[int, str]:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    capsys.readouterr()
    code = main(["keys", *command])
    return code, capsys.readouterr().out


def test_what_is_sealed_is_matched_and_opened(
    options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, sealed = piped(json.dumps(EVENT), monkeypatch, capsys, "seal", *options)
    assert code == 0
    assert "Elm" not in sealed
    code, text = piped("", monkeypatch, capsys, "filter", *options, 'place = "Elm"')
    assert code == 0
    assert "Elm" not in text
    assert parse(text).matches(notification_of(json.loads(sealed)))
    for matching, expected in (
        ((), [EVENT]),
        (("--matching", "x = 1"), [EVENT]),
        (("--matching", "x = 2"), []),
    ):
        code, opened = piped(sealed, monkeypatch, capsys, "open", *options, *matching)
        assert (code, [*map(json.loads, opened.splitlines())]) == (0, expected)
    delivery = {"subscriber": "ada", "subscriptions": ["s1"], "notification": json.loads(sealed)}
    code, opened = piped(json.dumps(delivery), monkeypatch, capsys, "open", *options)
    assert json.loads(opened) == {**delivery, "notification": EVENT}


def test_what_does_not_open_is_refused_and_the_rest_is_opened(
    options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, sealed = piped(json.dumps(EVENT), monkeypatch, capsys, "seal", *options)
    moved = json.dumps({**json.loads(sealed), "id": "2"})
    code, opened = piped(f"{moved}\n{sealed}", monkeypatch, capsys, "open", *options)
    assert (code, json.loads(opened)) == (1, EVENT)


def test_an_event_that_cannot_be_sealed_is_named_by_its_line(
    options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO('\n{"place": "Elm"}\n'))
    assert main(["keys", "seal", *options]) == 2
    told = capsys.readouterr()
    assert "line 2: a sealed attribute is bound to an id and a producer" in told.err
    assert "Elm" not in told.out + told.err
