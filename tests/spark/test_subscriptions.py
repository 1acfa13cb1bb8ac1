"""Subscriptions: read with their lines, compiled to files, changed at points of the order."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import pickle
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import DamagedIndex, PipelineError, SchemaError
from fairlead.filters import Schema, parse
from fairlead.model import Notification
from fairlead.model.order import BEGINNING
from fairlead.spark.matcher import Matcher
from fairlead.spark.parts import TABLE, table_of
from fairlead.spark.subscriptions import Entry, Location, Subscriptions, SubscriptionsInput, entries

MAY = dt.datetime(2024, 5, 1, 10, tzinfo=dt.UTC)
MAY_US = 1_714_557_600_000_000


def listed(subscriptions: Subscriptions) -> list[tuple[Any, ...]]:
    """All of them, sorted by id and beginning."""
    rows = [row for batch in subscriptions.tables() for row in batch.to_pylist()]
    found = [tuple(row[name] for name in ("id", "subscriber", "filter", "from", "until")) for row in rows]
    return sorted(found, key=lambda row: (row[0], row[3] or BEGINNING))


def matching(subscriptions: Subscriptions, attributes: dict[str, Any], time: int) -> set[tuple[str, str]]:
    """(subscriber, id) of what a notification at a time matches, as a worker finds it."""
    key = {"time": [time], "producer": ["p"], "sequence": pa.array([None], pa.int64()), "id": ["n"]}
    batch = pa.RecordBatch.from_pydict({**key, "attributes": pa.array([attributes])})
    rows = [row for out in Matcher((subscriptions,))([batch]) for row in out.to_pylist()]
    found = [each for row in rows for each in row["receivers"]]
    assert len({row["subscriber"] for row in found}) == len(found)
    for row in found:
        assert row["subscriptions"] == sorted(set(row["subscriptions"]))
    return {(row["subscriber"], id) for row in found for id in row["subscriptions"]}


@pytest.fixture(autouse=True)
def no_disk(monkeypatch):
    """No test survives a loss of power: the files need not be on the disk."""
    monkeypatch.setattr("os.fsync", lambda _: None)


# -- reading -----------------------------------------------------------------------------------------------

EXPECTED = [
    ("12", "12", "true", None, None),
    ("s1", "ada", 'symbol = "IBM"', MAY_US, None),
    ("s2", "s2", "price > 10", MAY_US, MAY_US + 1),
]
JSON = """\
{"id": "s1", "subscriber": "ada", "filter": "symbol = \\"IBM\\"", "from": "2024-05-01T10:00:00Z"}

{"id": "s2", "filter": "price > 10", "from": 1714557600000000, "until": 1714557600000001, "note": "kept out"}
{"id": 12, "filter": "true", "subscriber": null}
{"id": "s2", "filter": "price > 10", "from": 1714557600000000, "until": 1714557600000001}
"""
CSV = (
    "filter,id,subscriber,from,until\n"
    '"symbol = ""IBM""",s1,ada,2024-05-01T10:00:00Z,\n'
    "price > 10,s2,,1714557600000000,1714557600000001\n"
    '"true",12,,,\n'
)


def test_lines_of_json_and_csv_are_read_and_identical_ones_count_once(tmp_path):
    for name, text in (("a.json", JSON), ("a.csv", CSV)):
        path = tmp_path / name
        path.write_text(text)
        given = SubscriptionsInput(str(path), name.rpartition(".")[2])
        assert listed(Subscriptions.read(given, tmp_path / "index")) == EXPECTED


def test_a_directory_is_all_files_in_it_and_the_same_subscriptions_have_the_same_name(tmp_path):
    lines = JSON.splitlines(keepends=True)
    for directory, split in (("one", (5,)), ("two", (2, 5))):
        (tmp_path / directory).mkdir()
        start = 0
        for number, end in enumerate(split):
            (tmp_path / directory / f"{9 - number}.json").write_text("".join(lines[start:end]))
            start = end
    (tmp_path / "two" / "_SUCCESS").write_text("not a subscription")
    read = [
        Subscriptions.read(SubscriptionsInput(str(tmp_path / name)), tmp_path / "index")
        for name in ("one", "two")
    ]
    assert read[0] == read[1]
    assert listed(read[0]) == EXPECTED


def test_mappings_may_have_times_of_any_form(tmp_path):
    rows = [{"id": "a", "filter": "true", "from": MAY, "until": f"{MAY_US + 1}"}]
    assert listed(Subscriptions.read(rows, tmp_path)) == [("a", "a", "true", MAY_US, MAY_US + 1)]
    assert listed(Subscriptions.read([], tmp_path)) == []


def test_spark_reads_what_has_no_lines_and_what_only_it_can_open(spark, tmp_path):
    table = pa.table(
        {
            "id": ["s1", "s2"],
            "subscriber": ["ada", None],
            "filter": ['symbol = "IBM"', "price > 10"],
            "from": pa.array([MAY, MAY], pa.timestamp("us", "UTC")),
            "until": pa.array([None, MAY_US + 1], pa.int64()),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    (tmp_path / "zipped").mkdir()
    (tmp_path / "zipped" / "a.json.gz").write_bytes(gzip.compress(JSON.encode()))
    parquet = SubscriptionsInput(str(tmp_path / "a.parquet"), "parquet")
    assert listed(Subscriptions.read(parquet, tmp_path / "index", spark=spark)) == EXPECTED[1:]
    frame = spark.read.parquet(str(tmp_path / "a.parquet"))
    assert listed(Subscriptions.read(frame, tmp_path / "index")) == EXPECTED[1:]
    pattern = SubscriptionsInput(str(tmp_path / "zip*" / "*.gz"), options={"encoding": "UTF-8"})
    found = {row[0] for row in listed(Subscriptions.read(pattern, tmp_path / "index", spark=spark))}
    assert found == {"12", "s1", "s2"}
    with pytest.raises(PipelineError, match="without a column 'filter'; there is id, subscriber"):
        Subscriptions.read(frame.drop("filter"), tmp_path / "index")
    broken = frame.selectExpr("id", "'price >' AS filter")
    with pytest.raises(PipelineError, match="subscription 's1': column 8"):
        Subscriptions.read(broken, tmp_path / "index")


def test_a_bad_filter_is_named_with_its_line_and_a_caret(tmp_path):
    path = tmp_path / "many.json"
    rows = [{"id": f"s{number}", "filter": "price > 10"} for number in range(1, 8001)]
    rows[7011]["filter"] = "price >> 10"
    rows[7500]["filter"] = "price ="
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(PipelineError) as raised:
        Subscriptions.read(SubscriptionsInput(str(path)), tmp_path / "index")
    first, *others = str(raised.value).splitlines()
    assert first.startswith(f"{path}:7012: column 8")
    assert [line for line in others if line.strip() == "^"]
    assert others[-1] == "  and 1 more that cannot be read"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"id": "a"}', "a.json:1: the subscription 'a' has no filter"),
        ('\n{"filter": "true"}', "a.json:2: a subscription without an id"),
        ('{"id": 1.5, "filter": "true"}', "a.json:1: the id is a string or a whole number, not 1.5"),
        ('{"id": "a", "filter": "true", "from": "noon"}', "a.json:1: not an instant: 'noon'"),
        ('{"id": "a", "filter": "true", "from": 5, "until": 5}', "a.json:1: a subscription that ends"),
        (
            '{"id": "a", "filter": "true", "untill": 5}',
            "a.json:1: a subscription has no 'untill'; did you mean 'until'?",
        ),
        ('{"id": "a", "Filter": "true"}', "a.json:1: a subscription has no 'Filter'; did you mean 'filter'?"),
        ("[1]", "a.json:1: a subscription is a JSON object"),
        ("{", "a.json:1: "),
        (
            '{"id": "a", "filter": "true"}\n{"id": "b", "filter": "true"}\n{"id": "a", "filter": "x = 1"}',
            "a.json:3: the id 'a' is taken by another subscription, {0}/a.json:1",
        ),
    ],
)
def test_what_is_wrong_with_a_line_is_said_with_its_number(tmp_path, text, message):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(PipelineError) as raised:
        Subscriptions.read(SubscriptionsInput(str(tmp_path / "a.json")), tmp_path / "index")
    assert str(raised.value).startswith(f"{tmp_path}/{message.format(tmp_path)}")


def test_csv_names_its_missing_columns_and_its_lines(tmp_path):
    path = tmp_path / "a.csv"
    given = SubscriptionsInput(str(path), "csv", {"sep": ";"})
    path.write_text("id;text\n1;true\n")
    with pytest.raises(
        PipelineError, match=r"a\.csv:1: subscriptions without a column 'filter'; there is id, text"
    ):
        Subscriptions.read(given, tmp_path / "index")
    path.write_text("id;filter;subscribr\n1;true;ada\n")
    with pytest.raises(PipelineError, match=r"a\.csv:1: .* no 'subscribr'; did you mean 'subscriber'\?"):
        Subscriptions.read(given, tmp_path / "index")
    path.write_text('id;filter\na;"price\n> 10"\nb;price >\n')
    with pytest.raises(PipelineError, match=r"a\.csv:4: column"):
        Subscriptions.read(given, tmp_path / "index")


# -- files -------------------------------------------------------------------------------------------------


def test_a_damaged_file_one_of_another_version_and_a_missing_one_are_refused_by_name(tmp_path):
    read = Subscriptions.read([{"id": "a", "filter": "x = 1"}], tmp_path / "index")
    [part] = read.parts
    other = Subscriptions.from_json({**read.to_json()}, tmp_path / "copy")
    with pytest.raises(DamagedIndex, match="miss the file"):
        table_of(other.parts[0])
    (tmp_path / "copy").mkdir()
    path = tmp_path / "copy" / (part.name + TABLE)
    content = (tmp_path / "index" / (part.name + TABLE)).read_bytes()
    path.write_bytes(content[:-100] + bytes([content[-100] ^ 1]) + content[-99:])
    with pytest.raises(DamagedIndex, match=f"{part.name}.* is damaged"):
        table_of(other.parts[0])
    with pytest.raises(DamagedIndex, match="of version 0, this program reads 2"):
        Subscriptions.from_json({**read.to_json(), "version": 0}, tmp_path / "index")


def test_subscriptions_compiled_under_a_schema_are_refused_under_another(tmp_path):
    schema, another = Schema.parse("x: int"), Schema.parse("x: number")
    read = Subscriptions.read([{"id": "a", "filter": "x = 1"}], tmp_path, schema=schema)
    described = json.loads(json.dumps(read.to_json()))
    assert Subscriptions.from_json(described, tmp_path, schema=schema) == read
    for wrong in (another, None):
        with pytest.raises(SchemaError, match="compiled under another schema"):
            Subscriptions.from_json(described, tmp_path, schema=wrong)
    with pytest.raises(SchemaError, match="made under another schema"):
        matching(replace(read, schema=another), {"x": 1}, 0)


# -- changes -----------------------------------------------------------------------------------------------


def test_a_change_begins_at_the_watermark_and_says_what_was_asked_for(tmp_path):
    base = Subscriptions.read([{"id": "a", "subscriber": "ada", "filter": "x = 1"}], tmp_path)
    changed = base.changed(
        [
            {"id": "a", "subscriber": "ada", "filter": "x = 2", "from": 50},
            {"id": "b", "filter": "x = 1"},
            {"id": "c", "filter": "x = 1", "from": 200},
        ],
        100,
    )
    assert [(each.id, each.since, each.requested) for each in changed.taken] == [
        ("a", 100, 50),
        ("b", 100, BEGINNING),
        ("c", 200, None),
    ]
    after = changed.subscriptions
    assert matching(after, {"x": 1}, 100) == {("b", "b")}
    assert matching(after, {"x": 2}, 100) == {("ada", "a")}
    assert matching(after, {"x": 1}, 200) == {("b", "b"), ("c", "c")}
    assert matching(base, {"x": 1}, 100) == {("ada", "a")}  # what was is as it was


def test_an_ending_takes_effect_at_the_watermark_at_the_earliest(tmp_path):
    base = Subscriptions.read([{"id": id, "filter": "true"} for id in "abc"], tmp_path)
    changed = base.changed([{"id": "a"}, {"id": "b", "until": 5}, {"id": "c", "until": 30}], 10)
    assert changed.ended == (("a", 10), ("b", 10), ("c", 30))
    after = changed.subscriptions
    assert after.parts == base.parts
    assert [{id for _, id in matching(after, {"x": 1}, time)} for time in (9, 10, 29, 30)] == [
        {"a", "b", "c"},
        {"c"},
        {"c"},
        set(),
    ]


def test_those_are_counted_that_hold_and_each_id_once(tmp_path):
    rows = [{"id": id, "filter": "true"} for id in "abc"]
    base = Subscriptions.read([*rows, {"id": "d", "filter": "true", "until": 5}], tmp_path)
    assert (base.count, base.count_from(10)) == (4, 3)
    changes = [{"id": "a", "filter": "x = 2", "from": 20}, {"id": "b"}, {"id": "c", "until": 30}]
    after = base.changed(changes, 10).subscriptions
    assert [after.count_from(watermark) for watermark in (BEGINNING, 10, 29, 30)] == [4, 2, 2, 1]
    assert Subscriptions.read([], tmp_path).count == 0


def test_bad_changes_are_rejections_and_the_others_are_taken_in(tmp_path):
    base = Subscriptions.read([{"id": "a", "filter": "true"}], tmp_path)
    location = Location("c.json", 3)
    changed = base.changed(
        [Entry(location, b'{"id": "b", "filter": "x >"}'), {"id": "unknown"}, {"id": "a", "filter": "x = 1"}],
        10,
    )
    assert [(each.source, each.line) for each in changed.rejections] == [("c.json", 3), ("changes", 2)]
    assert changed.rejections[0].raw == b'{"id": "b", "filter": "x >"}'
    assert changed.rejections[0].reason == "column 4: the filter ends too early; expected a value"
    assert "there is no subscription 'unknown' that could be ended" in changed.rejections[1].reason
    assert [each.id for each in changed.taken] == ["a"]
    again = changed.subscriptions.changed([{"id": "a", "until": 20}], 15).subscriptions
    assert again.changed([{"id": "a"}], 20).rejections  # it has ended already


def test_few_changes_of_many_build_a_small_part_only(tmp_path):
    rows = [{"id": f"s{number}", "filter": f"x = {number}"} for number in range(3000)]
    base = Subscriptions.read(rows, tmp_path)
    after = base
    for watermark in range(1, 40):
        after = after.changed([{"id": f"s{watermark}", "filter": "y = 1"}], watermark).subscriptions
    assert after.parts[0] == base.parts[0]
    assert len(after.parts) <= 6  # merged as they come: 39 parts would be looked through one by one
    assert {id for _, id in matching(after, {"y": 1}, 39)} == {f"s{number}" for number in range(1, 40)}
    assert not matching(after, {"x": 5}, 39)
    assert matching(after, {"x": 5}, 4) == {("s5", "s5")}


class Dumb:
    """A table of all that was ever subscribed, looked through row by row."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def end(self, id: str, until: int) -> None:
        for row in self.rows:
            if row["id"] == id:
                row["until"] = min(row["until"], until)

    def change(self, change: dict[str, Any], watermark: int) -> bool:
        id = change["id"]
        if "filter" in change:
            since = max(change.get("from", 0), watermark)
            self.end(id, since)
            self.rows.append({"until": 10**9, **change, "from": since})
            return True
        living = any(row["id"] == id and row["until"] > max(row["from"], watermark) for row in self.rows)
        if living:
            self.end(id, max(change.get("until", watermark), watermark))
        return living

    def matching(self, attributes: dict[str, Any], time: int) -> set[tuple[str, str]]:
        notification = Notification.of(attributes)
        return {
            (row.get("subscriber", row["id"]), row["id"])
            for row in self.rows
            if row["from"] <= time < row["until"] and parse(row["filter"]).matches(notification)
        }


_ids = st.sampled_from(("a", "b", "c", "d"))
_times = st.integers(1, 30)
_subscription = st.fixed_dictionaries(
    {"id": _ids, "filter": st.sampled_from(("x = 1", "x = 2", "x > 0", 'y = "k"', "not x = 1", "exists y"))},
    optional={"subscriber": st.sampled_from(("ada", "bob")), "from": _times, "until": st.integers(31, 40)},
)
_ending = st.fixed_dictionaries({"id": _ids}, optional={"until": _times})
_steps = st.lists(st.tuples(st.integers(0, 8), st.lists(_subscription | _ending, max_size=4)), max_size=6)


@settings(max_examples=25)
@given(st.lists(_subscription, max_size=4, unique_by=lambda row: row["id"]), _steps)
def test_random_changes_at_random_watermarks_are_what_a_dumb_table_says(tmp_path_factory, first, steps):
    directory = tmp_path_factory.mktemp("index")
    subscriptions, dumb = Subscriptions.read(first, directory), Dumb()
    for row in first:
        dumb.rows.append({"from": 0, "until": 10**9, **row})
    watermark = 0
    for further, changes in steps:
        watermark += further
        # A fresh watermark admits everything: that of a stream that has seen nothing stands at the beginning.
        changed = subscriptions.changed(changes, watermark or BEGINNING)
        refused = [change for change in changes if not dumb.change(change, watermark)]
        assert [json.loads(each.raw) for each in changed.rejections] == refused
        described = json.loads(json.dumps(changed.subscriptions.to_json()))
        subscriptions = Subscriptions.from_json(described, directory)
        assert subscriptions == changed.subscriptions == pickle.loads(pickle.dumps(subscriptions))
    for time in range(watermark, 42, 3):
        for attributes in ({"x": 1, "y": "k"}, {"x": 2, "y": None}, {"x": None, "y": "k"}):
            present = {name: value for name, value in attributes.items() if value is not None}
            assert matching(subscriptions, attributes, time) == dumb.matching(present, time)
    assert {path.name for path in directory.iterdir()} >= subscriptions.live_files


def test_entries_of_a_watched_file_are_changes(tmp_path):
    path = tmp_path / "changes.json"
    path.write_text('{"id": "a", "filter": "x = 2", "from": 5}\n{"id": "b"}\n{"id": ')
    base = Subscriptions.read([{"id": id, "filter": "true"} for id in "ab"], tmp_path / "index")
    changed = base.changed(entries(SubscriptionsInput(str(path), watch=True)), 3)
    assert [each.id for each in changed.taken] == ["a"]
    assert changed.ended == (("b", 3),)
    assert [(each.source, each.line) for each in changed.rejections] == [(str(path), 3)]
    path.write_text("id,until\na,9\n")
    ended = changed.subscriptions.changed(entries(SubscriptionsInput(str(path), "csv")), 6)
    assert ended.ended == (("a", 9),)
    path.write_text("name,until\na,9\n")
    [refused] = ended.subscriptions.changed(entries(SubscriptionsInput(str(path), "csv")), 6).rejections
    assert refused.reason.startswith("subscriptions without a column 'id'; there is name, until")
