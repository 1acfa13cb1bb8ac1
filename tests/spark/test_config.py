"""A pipeline's file: read whole, checked whole, and wrong in all its places at once."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.audit import SPECIFICATIONS as JUDGED
from fairlead.errors import PipelineError
from fairlead.ingest import Fields
from fairlead.spark.combinations import PATTERN
from fairlead.spark.config import (
    DURATION,
    SPECIFICATIONS,
    Audit,
    Config,
    Deliveries,
    Events,
    Limit,
    Order,
    SparkSettings,
    Stream,
    SubscriptionsSource,
    format_duration,
)

ROOT = Path(__file__).parents[2]
LEAST: dict[str, Any] = {
    "output": "out",
    "events": {"path": "events/"},
    "subscriptions": {"path": "subscriptions.jsonl"},
}


def problems(given: dict[str, Any]) -> list[str]:
    """All that is wrong, one sentence each."""
    with pytest.raises(PipelineError) as refused:
        Config.of(given, base="/base", source="p.toml")
    first, *others = str(refused.value).splitlines()
    if not others:
        return [first.removeprefix("p.toml: ")]
    assert first == f"p.toml: {len(others)} problems"
    return [each.strip() for each in others]


def problem(**tables: Any) -> str:
    """The one thing that is wrong with the least file and these tables."""
    [only] = problems({**LEAST, **tables})
    return only


# -- what is read ------------------------------------------------------------------------------------------


def test_the_least_file_has_an_output_events_and_subscriptions() -> None:
    assert Config.of(LEAST, base="/base", source="alerts.toml") == Config(
        name="alerts",
        output="/base/out",
        events=(Events("/base/events"),),
        subscriptions=SubscriptionsSource("/base/subscriptions.jsonl"),
    )


WHOLE = """
name = "alerts"
mode = "stream"
output = "/out"
schema = "market.schema"
extensions = ["mypackage.terms:Terms"]
rejected = { max = "2.5%" }

[[events]]
name = "quotes"
idle = "5min"
path = "quotes/*.csv.gz"
lift = true
fields = { id = "event_id", time = "at", producer = "sensor", sequence = "n" }
options = { sep = ";", maxColumns = 7, multiLine = true }

[[events]]
name = "orders"
format = "kafka"
options = { "kafka.bootstrap.servers" = "host:9092", subscribe = "orders" }

[subscriptions]
path = "s3a://bucket/subscriptions"
format = "parquet"
watch = true

[order]
lateness = "10s"
final = true
remember = "2d"
ahead = "10min"
late = "fail"

[deliveries]
format = "table"
buckets = 4
payload = false
table = "db.deliveries"

[audit]
specifications = ["simple", "total"]

[stream]
available = true
max_files = 7

[spark]
remote = "sc://host:15002"
settings = { "spark.sql.shuffle.partitions" = 8, spark.executor.memory = "4g" }
quiet = false
"""


def test_a_file_with_everything_is_read_as_it_says(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.toml"
    path.write_text(WHOLE, encoding="utf-8-sig")
    assert Config.read(path) == Config(
        name="alerts",
        mode="stream",
        output="/out",
        schema=f"{tmp_path}/market.schema",
        extensions=("mypackage.terms:Terms",),
        rejected=Limit(Decimal("2.5")),
        events=(
            Events(
                path=f"{tmp_path}/quotes/*.csv.gz",
                format="csv",
                name="quotes",
                lift=True,
                idle_us=300_000_000,
                fields=Fields("event_id", "sensor", "at", "n"),
                options={"sep": ";", "maxColumns": "7", "multiLine": "true"},
            ),
            Events(
                path=None,
                format="kafka",
                name="orders",
                options={"kafka.bootstrap.servers": "host:9092", "subscribe": "orders"},
            ),
        ),
        subscriptions=SubscriptionsSource("s3a://bucket/subscriptions", "parquet", True),
        order=Order(10_000_000, True, 172_800_000_000, 600_000_000, Limit(Decimal(0))),
        deliveries=Deliveries("table", 4, False, "db.deliveries"),
        audit=Audit(True, ("simple", "total")),
        stream=Stream(None, 7),
        spark=SparkSettings(
            None,
            "sc://host:15002",
            {"spark.sql.shuffle.partitions": "8", "spark.executor.memory": "4g"},
            quiet=False,
        ),
    )


def test_the_default_of_every_key_is_that_of_its_class() -> None:
    read = Config.of(LEAST, base="/base")
    assert (read.order, read.deliveries, read.audit, read.stream, read.spark) == (
        Order(),
        Deliveries(),
        Audit(),
        Stream(),
        SparkSettings(),
    )


@pytest.mark.parametrize(("mode", "final"), [("batch", True), ("stream", False)])
def test_only_a_batch_ends_its_input_unasked(mode: str, final: bool) -> None:
    assert Config.of({**LEAST, "mode": mode}).order.final is final


@pytest.mark.parametrize(
    ("path", "format"),
    [
        ("a.jsonl", "json"),
        ("a/*.CSV", "csv"),
        ("a.parquet", "parquet"),
        ("a.xml.gz", "xml"),
        ("a.txt", "text"),
        ("a.d/", "json"),
        ("a", "json"),
    ],
)
def test_the_ending_of_a_path_says_the_format(path: str, format: str) -> None:
    assert Config.of({**LEAST, "events": {"path": path}}).events[0].format == format


@pytest.mark.parametrize(
    ("path", "resolved"),
    [
        ("in", "/base/in"),
        ("./in/", "/base/in"),
        ("/in", "/in"),
        ("hdfs://host/in/", "hdfs://host/in/"),
        ("file:/in", "file:/in"),
        ("../in", "/base/../in"),
    ],
)
def test_relative_paths_begin_at_the_file(path: str, resolved: str) -> None:
    assert Config.of({**LEAST, "events": {"path": path}}, base="/base").events[0].path == resolved


@given(st.integers(0, 2**62))
def test_a_duration_reads_as_it_is_written(us: int) -> None:
    assert DURATION.read(format_duration(us)) == us


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("0s", 0),
        ("1us", 1),
        ("2 ms", 2_000),
        ("1.5s", 1_500_000),
        ("3min", 180_000_000),
        ("1d", 86_400_000_000),
    ],
)
def test_durations(text: str, us: int) -> None:
    assert DURATION.read(text) == us


# -- what is wrong -----------------------------------------------------------------------------------------


def test_all_problems_are_told_at_once() -> None:
    assert problems(
        {
            "mode": "btach",
            "outptu": "out",
            "events": [{"path": 5}, {"nmae": "x", "path": "y"}],
            "order": {"lateness": "10 parsecs"},
            "spark": 3,
        }
    ) == [
        "outptu: no such key; did you mean 'output'?",
        "output: missing: the directory that the run writes; nobody else does",
        "mode: batch or stream was expected, not 'btach'; did you mean 'batch'?",
        "[[events]] 1: path: a string was expected, not a whole number (5)",
        "[[events]] 2: nmae: no such key; did you mean 'name'?",
        "[subscriptions]: the table is missing",
        "[order] lateness: not a duration: '10 parsecs'; a duration is a number and a unit: "
        "90 s, 5 minutes, 1h30m, 250 ms, 2 days",
        "[spark]: a table [spark] was expected, not a whole number (3)",
        "[[events]] 1: name: missing: each of several inputs has a name",
        "[[events]] 2: name: missing: each of several inputs has a name",
    ]


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        ({"order": {"latenes": "1s"}}, "[order] latenes: no such key; did you mean 'lateness'?"),
        ({"order": {"buckets": 4}}, "[order] buckets: no such key; it belongs in [deliveries]"),
        (
            {"order": {"rejected": "fail"}},
            "[order] rejected: no such key; it belongs at the top of the file, above the first table",
        ),
        ({"colour": "red"}, "colour: no such key"),
        ({"latenes": "1s"}, "latenes: no such key; 'lateness' belongs in [order]"),
        (
            {"paht": "x"},
            "paht: no such key; 'path' belongs in [events], [subscriptions], [patterns], [scopes] or "
            "[advertisements]",
        ),
        ({"deliverys": {}}, "[deliverys]: no such table; did you mean 'deliveries'?"),
        (
            {"order": {"lateness": 10}},
            '[order] lateness: a duration with its unit, such as "10s", was expected, not a whole number (10)',
        ),
        ({"order": {"lateness": "soon"}}, "[order] lateness: not a duration: 'soon'"),
        ({"order": {"lateness": "0.5us"}}, "[order] lateness: a duration is a whole number of microseconds"),
        ({"order": {"lateness": "999999999d"}}, "[order] lateness: '999999999d' is too long"),
        ({"order": {"final": False}}, "[order] final: a batch ends with its input, so it is final"),
        ({"order": {"final": "yes"}}, '[order] final: true or false was expected, not a string ("yes")'),
        (
            {"deliveries": {"buckets": 0}},
            "[deliveries] buckets: a whole number from 1 to 65,536 was expected",
        ),
        ({"deliveries": {"buckets": True}}, "a whole number was expected, not a Boolean (true)"),
        ({"deliveries": {"format": "parqet"}}, "no format is named 'parqet'; did you mean 'parquet'?"),
        ({"events": {"path": "x", "format": "jsonl"}}, "no format is named 'jsonl'; did you mean 'json'?"),
        ({"deliveries": {"format": "table"}}, "[deliveries] table: missing"),
        ({"deliveries": {"table": "t"}}, '[deliveries] table: it goes with format = "table"'),
        ({"deliveries": {"format": "callback"}}, "[deliveries] callback: missing"),
        ({"deliveries": {"format": "csv"}}, "[deliveries] format: neither csv nor text can hold a delivery"),
        ({"deliveries": {"callback": "a:b"}}, '[deliveries] callback: it goes with format = "callback"'),
        (
            {"deliveries": {"format": "callback", "callback": "a b"}},
            "[deliveries] callback: a function is named as in package.module:name, not 'a b'",
        ),
        ({"deliveries": {"options": {"x": "y"}}}, "[deliveries] options: they go with"),
        ({"subscriptions": {"path": "s", "watch": True}}, "[subscriptions] watch: a batch reads"),
        (
            {"mode": "stream", "order": {"final": True}},
            "[order] final: a stream that watches its inputs has no end; with [stream] available = true",
        ),
        ({"audit": {"specifications": ["fifi"]}}, "not 'fifi'; did you mean 'fifo'?"),
        (
            {"audit": {"trace": False, "specifications": ["fifo"]}},
            "[audit] trace: specifications are judged by",
        ),
        ({"spark": {"master": "local", "remote": "sc://h"}}, "[spark] remote: a Connect server has a master"),
        (
            {"spark": {"settings": {"a": [1]}}},
            "[spark] settings: a string for 'a' was expected, not a list ([1])",
        ),
        ({"stream": {"available": True, "trigger": "1s"}}, "[stream] trigger: with available = true"),
        ({"extensions": "terms:Terms"}, "extensions: a list of strings was expected"),
        ({"extensions": ["not a name"]}, "extensions: an extension is named as in"),
        ({"schema": "s3://bucket/x"}, "schema: a schema is a file on this machine"),
        ({"name": " "}, "name: it is empty"),
        ({"events": []}, "[[events]]: there is none"),
        ({"events": [3, {"path": "x", "name": "a"}]}, "[[events]] 1: a table [[events]] 1 was expected"),
        ({"events": {"format": "json"}}, "[events] path: missing: events in json are read from files"),
        ({"events": {"path": "x", "lines": True}}, '[events] lines: it goes with format = "xml"'),
        (
            {"events": {"path": "x", "select": ["a"]}},
            "[events] select: it goes with typed columns and CSV, not with json",
        ),
        (
            {"events": {"path": "x", "fields": {"sequnce": "x"}}},
            "[events] fields: the envelope has no 'sequnce'; did you mean 'sequence'?",
        ),
        ({"events": {"path": "x", "fields": {"id": ".x"}}}, "[events] fields: not an attribute's name: '.x'"),
        (
            {"events": [{"path": "x", "name": "a"}, {"path": "y", "name": "a"}]},
            "[[events]] name: 2 inputs are named 'a'",
        ),
        (
            {"events": {"format": "kafka", "options": {"subscribe": "t"}}},
            '[events] options: Kafka needs "kafka.bootstrap.servers" = "host:9092"',
        ),
        (
            {"events": {"format": "kafka", "options": {"kafka.bootstrap.servers": "h"}}},
            "[events] options: Kafka needs one of subscribe, subscribePattern and assign",
        ),
        ({"output": "events/out"}, "output: it overlaps with an input"),
        ({"output": "subscriptions.jsonl"}, "output: it overlaps with the subscriptions"),
        ({"output": "out/[a-z]*"}, "output: it has one of"),
        ({"subscriptions": {"path": "events/s.jsonl"}}, "[subscriptions] path: it lies among the events"),
        ({"patterns": {}}, "[patterns] path: missing"),
        ({"patterns": {"path": "p", "watch": True}}, "[patterns] watch: a batch reads its patterns once"),
        ({"patterns": {"path": "events/p.jsonl"}}, "[patterns] path: it lies among the events"),
        (
            {"patterns": {"path": "subscriptions.jsonl"}},
            "[patterns] path: it overlaps with the subscriptions",
        ),
        ({"patterns": {"path": "out/p.jsonl"}}, "output: it overlaps with the patterns"),
        (
            {"advertisements": {"path": "hdfs://host:8020/a.jsonl"}},
            "[advertisements] path: advertisements are a file on this machine",
        ),
        (
            {"advertisements": {"path": "events/a.jsonl"}},
            "[advertisements] path: it lies among the events",
        ),
    ],
    ids=lambda each: json.dumps(each) if isinstance(each, dict) else "",
)
def test_what_is_wrong_is_named_with_its_table_and_key(tables: dict[str, Any], expected: str) -> None:
    assert expected in problem(**tables)


def test_a_wrong_value_brings_no_problems_in_its_train() -> None:
    assert problem(deliveries={"format": "parqet", "table": "t"}).startswith("[deliveries] format")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"name = alerts", "p.toml: not TOML: Invalid value (at line 1, column 8)"),
        (b"name = '\xff'", "p.toml: not UTF-8 (invalid start byte at byte 9)"),
        (None, "p.toml: cannot be read (No such file or directory)"),
    ],
)
def test_a_file_that_is_none_is_named(tmp_path: Path, content: bytes | None, expected: str) -> None:
    path = tmp_path / "p.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PipelineError, match=re.escape(f"{tmp_path}/{expected}")):
        Config.read(path)


# -- writing it back, and telling two apart ----------------------------------------------------------------

TEXT = st.text(
    st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="./~:"), min_size=1, max_size=5
)
OPTIONS = st.dictionaries(TEXT, TEXT, max_size=2)
LIMITS = st.builds(Limit, st.none() | st.decimals(0, 100, places=1))
CONFIGS = st.builds(
    Config,
    name=TEXT,
    output=TEXT.map(lambda text: "/out/" + PATTERN.sub("-", text)),
    mode=st.just("stream"),
    schema=st.none() | TEXT.map("/schemas/{}".format),
    extensions=st.lists(st.sampled_from(["a:B", "a.b:C"]), unique=True).map(tuple),
    rejected=LIMITS,
    report=st.booleans(),
    events=st.lists(
        st.builds(
            Events,
            path=TEXT.map("/in/{}".format),
            format=st.sampled_from(["parquet", "delta"]),
            name=TEXT,
            lift=st.booleans(),
            fields=st.builds(Fields, id=st.sampled_from(["id", "a.b"])),
            select=st.lists(TEXT, max_size=2).map(tuple),
            idle_us=st.none() | st.integers(0, 2**40),
            options=OPTIONS,
        ),
        min_size=1,
        max_size=3,
        unique_by=lambda each: each.name,
    ).map(tuple),
    subscriptions=st.builds(
        SubscriptionsSource, path=TEXT.map("/subscriptions/{}".format), watch=st.booleans(), options=OPTIONS
    ),
    order=st.builds(
        Order,
        lateness_us=st.integers(0, 2**40),
        final=st.just(False),
        remember_us=st.integers(2**40, 2**50),
        ahead_us=st.integers(0, 2**50),
        late=LIMITS,
    ),
    deliveries=st.builds(
        Deliveries, format=st.just("table"), table=TEXT, buckets=st.integers(1, 99), options=OPTIONS
    ),
    audit=st.sampled_from([Audit(), Audit(True), Audit(True, ("fifo", "total"))]),
    stream=st.builds(Stream, trigger_us=st.none() | st.integers(0, 2**40), max_files=st.integers(1, 9)),
    spark=st.builds(SparkSettings, master=st.none() | TEXT, settings=OPTIONS, quiet=st.booleans()),
)


@given(CONFIGS)
def test_a_file_that_is_written_from_a_configuration_reads_as_that_configuration(config: Config) -> None:
    written = json.loads(json.dumps(config.to_json()))
    assert Config.of(written) == config
    assert pickle.loads(pickle.dumps(config)) == config


def changed(**tables: Any) -> str:
    return Config.of({**LEAST, **tables}, base="/base").fingerprint


@pytest.mark.parametrize(
    "tables",
    [
        {"mode": "stream"},
        {"extensions": ["a:B"]},
        {"events": {"path": "other"}},
        {"events": {"path": "events/", "fields": {"id": "number"}}},
        {"subscriptions": {"path": "other.jsonl"}},
        {"order": {"lateness": "1s"}},
        {"order": {"remember": "1s"}},
        {"order": {"ahead": "1s"}},
        {"deliveries": {"buckets": 2}},
        {"deliveries": {"payload": False}},
        {"audit": {"trace": True}},
    ],
    ids=json.dumps,
)
def test_what_changes_the_result_changes_the_fingerprint(tables: dict[str, Any]) -> None:
    assert changed(**tables) != changed()


@pytest.mark.parametrize(
    "tables",
    [
        {"name": "other"},
        {"rejected": "fail"},
        {"order": {"late": {"max": "5%"}}},
        {"report": False},
        {"output": "elsewhere"},
        {"order": {"lateness": "0ms"}},
        {"stream": {"trigger": "5s", "max_files": 1}},
        {"spark": {"master": "local[1]", "settings": {"spark.executor.memory": "1g"}}},
    ],
    ids=json.dumps,
)
def test_what_does_not_change_the_result_leaves_the_fingerprint(tables: dict[str, Any]) -> None:
    assert changed(**tables) == changed()


def test_outputs_of_earlier_versions_have_the_same_fingerprint() -> None:
    """A key that is added counts where it is set: see `counts=SET` in CONTRIBUTING.md."""
    assert changed() == "c4028a7300c06635baee732f9536da22"
    whole = {**tomllib.loads(WHOLE), "patterns": {"path": "p.csv"}, "publish": {"url": "h:7400"}}
    del whole["schema"]
    for added in ("remember", "ahead", "late"):
        del whole["order"][added]
    del whole["events"][0]["idle"]
    assert Config.of(whole, base="/base").fingerprint == "13876536fe4fdc6782ac7228818d0e57"


def test_of_the_schema_the_content_counts(tmp_path: Path) -> None:
    def fingerprint(name: str, text: str) -> str:
        (tmp_path / name).write_text(text)
        return changed(schema=str(tmp_path / name))

    first = fingerprint("a.schema", "price: int\n")
    assert fingerprint("b.schema", "# the same\nprice: int\n") == first
    assert fingerprint("a.schema", "price: number\n") != first


def test_passwords_stay_out_of_what_is_written_and_out_of_the_fingerprint() -> None:
    def config(password: str) -> Config:
        options = {
            "kafka.bootstrap.servers": "h:1",
            "subscribe": "t",
            "kafka.sasl.jaas.config": f"password={password}",
        }
        settings = {"spark.hadoop.fs.s3a.secret.key": password, "spark.x": "y"}
        return Config.of(
            {**LEAST, "events": {"format": "kafka", "options": options}, "spark": {"settings": settings}}
        )

    assert "hush" not in json.dumps(config("hush").to_json(secrets=False))
    assert "hush" in json.dumps(config("hush").to_json())
    assert config("hush").fingerprint == config("other").fingerprint


def test_what_is_told_otherwise_wins_over_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    config = Config.of({**LEAST, "spark": {"remote": "sc://h", "settings": {"a": "b"}}}, base="/base")
    assert config.overridden() == config
    assert config.overridden(output="new").output == f"{tmp_path}/new"
    assert config.overridden(master="local").spark == SparkSettings("local", None, {"a": "b"})
    assert config.overridden(quiet=False).spark.quiet is False
    with pytest.raises(PipelineError, match="output: it overlaps with an input"):
        config.overridden(output="/base/events/x")


# -- the file format ---------------------------------------------------------------------------------------


def test_the_specifications_are_those_that_audit_knows() -> None:
    assert set(SPECIFICATIONS) == set(JUDGED)


def test_reading_a_file_needs_no_spark() -> None:
    program = (
        "import sys; from fairlead.spark.config import Config; "
        "Config.read('examples/pipeline/pipeline.toml').fingerprint; "
        "print(sorted({'pyspark', 'pyarrow', 'numpy', 'pandas'} & set(sys.modules)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert run.stdout == "[]\n"


# -- what a file leaves open -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "format"),
    [
        ("part-0", b"PAR1....", "parquet"),
        ("part-0.txt", b'{"id": 1}\n', "json"),
        ("part-0.csv.gz", b"\x1f\x8b", "csv"),
        ("note", b"just text", "json"),
        ("_SUCCESS", b"PAR1", "json"),
    ],
)
def test_a_directory_without_a_format_is_looked_into(
    tmp_path: Path, name: str, content: bytes, format: str
) -> None:
    (tmp_path / "events" / "day=1").mkdir(parents=True)
    (tmp_path / "events" / "day=1" / name).write_bytes(content)
    for path in ("events/", "events/*/*"):
        [events] = Config.of({**LEAST, "events": {"path": path}}, base=tmp_path).events
        assert events.format == format


def test_a_directory_of_several_formats_needs_one_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    for name in ("a.csv", "b.parquet"):
        (tmp_path / "events" / name).write_bytes(b"x")
    with pytest.raises(PipelineError, match=r"format: files of different formats: csv \(a.csv\), parquet"):
        Config.of(LEAST, base=tmp_path)
    named = {**LEAST, "events": {"path": "events/", "format": "csv"}}
    assert Config.of(named, base=tmp_path).events[0].format == "csv"


@pytest.mark.parametrize("share", ["5", "101%", 5, "-1%", {"min": "5%"}, {"max": 5}, {"max": "5"}])
def test_a_share_is_a_percentage(share: Any) -> None:
    assert problem(rejected=share).startswith('rejected: "keep", "fail" or a share as in { max = "5%" } was')


def test_identities_are_remembered_for_at_least_the_lateness() -> None:
    order = {"lateness": "2h"}
    assert Config.of({**LEAST, "order": order}).order.remember_us == 7_200_000_000
    assert problem(order={**order, "remember": "1h"}).startswith(
        "[order] remember: identities are remembered"
    )
