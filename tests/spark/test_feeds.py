"""What a commit of a table changes: rows that it added or altered, and endings of those that it removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead.errors import PipelineError, ValueRefused
from fairlead.spark.config import SubscriptionsSource
from fairlead.spark.entries import Location
from fairlead.spark.feeds import Versions, changes_of, latest, next_of, ranges_of

HERE = Location("table@3")


def row(id: str, filter: str = "true") -> dict[str, Any]:
    return {"id": id, "filter": filter}


def test_a_commit_is_what_it_altered_and_then_what_it_removed() -> None:
    changes = [
        ("update_preimage", row("b")),
        ("delete", row("c")),
        ("update_postimage", row("b", "x = 1")),
        ("insert", row("a")),
    ]
    said = [each.content for each in changes_of(HERE, changes)]
    assert said == [row("a"), row("b", "x = 1"), {"id": "c"}]


def test_a_row_that_is_written_anew_as_it_was_has_not_changed() -> None:
    changes = [("delete", row("a")), ("delete", row("b")), ("insert", row("b", "x")), ("insert", row("a"))]
    assert [each.content for each in changes_of(HERE, changes)] == [row("b", "x")]


def test_of_two_rows_with_one_id_the_second_is_refused() -> None:
    first, second = changes_of(HERE, [("insert", row("a", "y")), ("insert", row("a", "x"))])
    assert first.content == row("a", "x")
    assert isinstance(second.content, ValueRefused)


def test_versions_are_taken_from_where_the_last_ones_ended(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    source = SubscriptionsSource(str(tmp_path), "delta", watch=True)
    with pytest.raises(PipelineError, match="is no Delta table"):
        latest(source.path)
    log.mkdir()
    for number in range(3):
        (log / f"{number:020}.json").write_text("")
    assert next_of(source, []) == [f"{tmp_path}@0-2"]
    assert next_of(source, [f"{tmp_path}@0-2", f"{tmp_path}/other@0-9"]) == []
    (log / f"{4:020}.checkpoint.parquet").write_text("")
    assert next_of(source, [f"{tmp_path}@0-1", f"{tmp_path}@2-2"]) == [f"{tmp_path}@3-4"]
    assert ranges_of(source, [f"{tmp_path}@3-4", "elsewhere", f"{tmp_path}@0-2"]) == [
        Versions(str(tmp_path), 0, 2),
        Versions(str(tmp_path), 3, 4),
    ]
