"""A dry run looks at files of text by itself: no Spark is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.errors import PipelineError
from fairlead.spark import running
from fairlead.spark.config import Config
from fairlead.spark.running import Pipeline


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    def start(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(running, "session", start)
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "a.jsonl").write_text('{"id": 1}\n')
    (tmp_path / "asked.jsonl").write_text('{"id": "s", "filter": "x > 1"}\n{"id": "t", "filter": "x > 2"}\n')
    (tmp_path / "patterns.jsonl").write_text('{"id": "p", "pattern": "A followed by B"}\n')
    tables = {
        "output": "out",
        "events": {"path": "events/*.jsonl"},
        "subscriptions": {"path": "asked.jsonl"},
        "patterns": {"path": "patterns.jsonl"},
    }
    return Config.of(tables, base=tmp_path)


def test_text_subscriptions_and_patterns_are_looked_at_without_spark(config: Config) -> None:
    plan = "\n".join(Pipeline(config).plan())
    assert "input: json, records" in plan
    assert "match       2 subscriptions" in plan
    assert "detect      1 patterns" in plan


def test_what_is_wrong_with_them_is_found_without_spark(config: Config, tmp_path: Path) -> None:
    (tmp_path / "asked.jsonl").write_text('{"id": "s", "filter": "x >"}\n')
    with pytest.raises(PipelineError, match=r"asked.jsonl:1"):
        Pipeline(config).plan()
