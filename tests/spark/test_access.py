"""A pipeline with an access policy delivers what an ordered bus with the same policy does, byte by byte."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from fairlead.bus import Bus
from fairlead.correlation import fair
from fairlead.errors import Forbidden, PipelineError
from fairlead.ingest.records import notification_of
from fairlead.model.encoding import format_json
from fairlead.rules.access import Access
from fairlead.security import AccessPolicy
from fairlead.security.records import decisions
from fairlead.spark.config import Config

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLICY = """
protected = ["drill", "patient"]
[roles.city]
members = ["city"]
publish = ["true"]
[roles.news]
members = ["herald", "post"]
subscribe = ['x > 2', 'drill = false']
[roles.police]
members = ["police"]
subscribe = ["true"]
reads = ["drill"]
[roles.rescue]
members = ["rescue"]
subscribe = ["true"]
reads = ["*"]
"""
ASKED = [
    ("s1", "herald", "x >= 0"),
    ("s2", "herald", "x > 3"),
    ("s3", "post", "drill = true"),
    ("s4", "police", "drill = true"),
    ("s5", "police", "x = 1"),
    ("s6", "rescue", "patient.age > 30"),
    ("s7", "stranger", "true"),
    ("s8", "post", "x < 2"),
    ("s9", "police", 'type = "alarm"'),
]
REFUSED = {
    "s3": "post may not read 'drill'",
    "s7": "stranger may not subscribe to that without a role",
}
DESK = """
[roles.desk]
members = ["desk"]
subscribe = ["x > 2"]
reads = ["*"]
"""
PATTERNS: list[dict[str, Any]] = [
    {
        "id": "p1",
        "subscriber": "rescue",
        "pattern": "alarm: [x = 5] as a followed by [x = 0] within 9 s, giving patient = a.x, y = a.x",
    },
    {
        "id": "p2",
        "subscriber": "desk",
        "pattern": "[x > 3] followed by [x = 3] within 20 s, taking the first",
    },
    {"id": "p3", "subscriber": "desk", "pattern": "[x > 3] followed by [x = 2] within 20 s"},
    {"id": "p4", "subscriber": "herald", "pattern": "[x > 3] followed by [x > 4] within 20 s"},
    {"id": "f1", "subscriber": "rescue", "fair": "T5.y < T4.y", "choice": "most recent"},
    {"id": "f2", "subscriber": "desk", "fair": "T1.y < T4.y"},
]
REFUSED_PATTERNS = {
    "p3": "desk may not subscribe to that as desk",
    "p4": "herald may not read 'drill', 'patient', and a pattern reads whole notifications",
    "f2": "desk may subscribe to a part of",
}


def events() -> list[dict[str, Any]]:
    random = Random(5)
    return [
        {
            "id": str(number),
            "producer": "city",
            "time": f"2026-03-02T09:{number // 60:02}:{number % 60:02}Z",
            "x": random.randrange(6),
            **({"drill": random.random() < 0.5} if number % 3 else {}),
            **({"patient": {"name": f"p{number}", "age": random.randrange(60)}} if number % 2 else {}),
            **({"drill.kind": "fire"} if number % 9 == 0 else {}),
            "note": 'the drill "drill":1',
        }
        for number in range(90)
    ]


def typed() -> list[dict[str, Any]]:
    """The events with types, which fair subscriptions name."""
    return [{**each, "type": f"T{each['x']}", "y": int(each["id"]) % 7} for each in events()]


def on_a_bus(policy: str = POLICY, patterns: Sequence[dict[str, Any]] = ()) -> dict[tuple[str, str], str]:
    """What subscribers get, by subscriber and id: their subscriptions and the content."""
    found: dict[tuple[str, str], str] = {}
    with Bus(rules=[Access(AccessPolicy.of(tomllib.loads(policy)))], order="ordered") as bus:
        queues = []
        for row in patterns:
            query = fair.parse(row["fair"]) if "fair" in row else row["pattern"]
            options = {"subscriber": row["subscriber"], "id": row["id"], "choice": row.get("choice")}
            if row["id"] in REFUSED_PATTERNS:
                with pytest.raises(Forbidden, match=REFUSED_PATTERNS[row["id"]]):
                    bus.detect(query, **options)
            else:
                queues.append(bus.detect(query, **options))
        for id, subscriber, filter in ASKED:
            if id in REFUSED:
                with pytest.raises(Forbidden, match=REFUSED[id]):
                    bus.subscribe(filter, subscriber=subscriber, id=id)
            else:
                queues.append(bus.subscribe(filter, subscriber=subscriber, id=id))
        for event in typed() if patterns else events():
            bus.publish(notification_of(event))
        bus.close()
        for queue in queues:
            for _ in range(len(queue)):
                each = queue.get_delivery(0)
                ids = json.dumps(each.subscriptions)
                found[each.subscriber, str(each.notification.id)] = ids + each.notification.to_json()
    return found


def config(path: Path, **more: Any) -> Config:
    (path / "policy.toml").write_text(POLICY)
    lines = [{"id": id, "subscriber": who, "filter": filter} for id, who, filter in ASKED]
    (path / "subscriptions.jsonl").write_text("\n".join(map(json.dumps, lines)))
    tables = {
        "name": "guarded",
        "output": str(path / "out"),
        "events": {"path": str(path / "events.jsonl")},
        "subscriptions": {"path": str(path / "subscriptions.jsonl")},
        "deliveries": {"format": "json"},
        "security": {"policy": str(path / "policy.toml")},
        "report": False,
    }
    return Config.of({**tables, **more}, base=path)


def delivered(path: Path) -> dict[tuple[str, str], str]:
    found = {}
    for file in (path / "out" / "deliveries").rglob("*.jsonl"):
        for line in file.read_text().splitlines():
            row = json.loads(line)
            text = line[line.index('"notification":') + len('"notification":') : -1]
            found[row["subscriber"], row["id"]] = json.dumps(row["subscriptions"]) + text
    return found


def test_the_same_bytes_as_on_the_bus_and_a_log_of_who_gets_what_by_which_rule(
    spark: SparkSession, tmp_path: Path
) -> None:
    from fairlead.spark.running import Pipeline

    (tmp_path / "events.jsonl").write_text("\n".join(map(format_json, events())))
    summary = Pipeline(config(tmp_path), spark).run()
    expected = on_a_bus()
    assert len(expected) > 100
    assert delivered(tmp_path) == expected
    assert summary.reasons == dict.fromkeys(sorted(REFUSED.values()), 1)
    [log] = (tmp_path / "out" / "access").rglob("*.jsonl")
    told = {each["client"]: each for each in decisions(log)}
    assert {id: each["outcome"] for id, each in told.items()} == {
        "s1": "narrowed",
        "s2": "granted",
        "s3": "refused",
        "s4": "granted",
        "s5": "granted",
        "s6": "granted",
        "s7": "refused",
        "s8": "narrowed",
        "s9": "granted",
    }
    assert told["s1"]["granted"] == "x > 2 or x >= 0 and drill = false"
    assert (told["s1"]["roles"], told["s1"]["hidden"]) == (["news"], ["drill", "patient"])
    assert told["s4"]["hidden"] == ["patient"]
    assert "hidden" not in told["s6"]
    assert {id: told[id]["reason"] for id in REFUSED} == REFUSED


def test_typed_columns_are_masked_as_columns(spark: SparkSession, tmp_path: Path) -> None:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyarrow import parquet

    from fairlead.spark.running import Pipeline

    flat = [
        {"id": each["id"], "producer": "city", "x": each["x"], "drill": each.get("drill")}
        for each in events()
    ]
    parquet.write_table(pa.Table.from_pylist(flat), tmp_path / "events.parquet")
    asked = config(tmp_path, events={"path": str(tmp_path / "events.parquet")})
    Pipeline(asked, spark).run()
    content = {key: json.loads(text[text.index("{") :]) for key, text in delivered(tmp_path).items()}
    by_id = {each["id"]: each for each in flat}
    assert {who for who, _ in content} == {"herald", "police", "post"}
    for (who, id), shown in content.items():
        whole = by_id[id]["drill"] if who == "police" else None
        assert shown.get("drill") == whole


@pytest.mark.parametrize(
    "more",
    ["[roles.night]\nwhen = 'hour < 6'", "[[delegations]]\nby='a'\nto='b'\nuntil='2027-01-01T00:00:00Z'"],
)
def test_a_policy_that_needs_a_clock_is_refused(tmp_path: Path, more: str) -> None:
    from fairlead.spark.access import policy_of

    asked = config(tmp_path)
    (tmp_path / "policy.toml").write_text(POLICY + more)
    with pytest.raises(PipelineError, match="no clock but the order"):
        policy_of(asked, None)


def test_a_policy_with_functions_of_requests_and_seals_without_keys_are_refused(tmp_path: Path) -> None:
    from fairlead.spark.access import policy_of

    asked = config(tmp_path)
    assert asked.security is not None
    with pytest.raises(PipelineError, match="needs keys"):
        policy_of(replace(asked, security=replace(asked.security, mask="sealed")), None)
    (tmp_path / "policy.toml").write_text('[roles.a]\nmembers = ["a"]\npredicates = ["os:getcwd"]')
    with pytest.raises(PipelineError, match="functions of requests"):
        policy_of(asked, None)


def test_another_policy_is_another_result(tmp_path: Path) -> None:
    before = config(tmp_path)
    first = before.fingerprint
    (tmp_path / "policy.toml").write_text(POLICY + "\n[roles.more]\nmembers = ['stranger']\n")
    assert before.fingerprint != first


@pytest.mark.parametrize("mode", ["batch", "stream"])
def test_patterns_see_all_that_their_subscribers_may_or_are_refused(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    from fairlead.spark.running import Pipeline

    files = tmp_path / "events"
    files.mkdir()
    lines = [*map(format_json, typed())]
    for number in range(3):
        (files / f"{number}.jsonl").write_text("\n".join(lines[number * 30 : number * 30 + 30]))
    (tmp_path / "patterns.jsonl").write_text("\n".join(map(json.dumps, PATTERNS)))
    asked = config(
        tmp_path,
        mode=mode,
        events={"path": str(files)},
        patterns={"path": str(tmp_path / "patterns.jsonl")},
        **(
            {"stream": {"available": True, "max_files": 1}, "order": {"final": True}}
            if mode == "stream"
            else {}
        ),
    )
    (tmp_path / "policy.toml").write_text(POLICY + DESK)
    expected = on_a_bus(POLICY + DESK, PATTERNS)
    assert {"p1", "p2", "f1"} <= {
        id for each in expected.values() for id in json.loads(each[: each.index("]") + 1])
    }
    summary = Pipeline(asked, spark).run()
    assert delivered(tmp_path) == expected
    assert any('"s9"' in each and "patient" not in each for each in expected.values())
    told = [each for log in (tmp_path / "out" / "access").rglob("*.jsonl") for each in decisions(log)]
    detecting = {each["client"]: each for each in told if each["action"] == "detect"}
    assert {id: each["outcome"] for id, each in detecting.items()} == {
        each["id"]: "refused" if each["id"] in REFUSED_PATTERNS else "granted" for each in PATTERNS
    }
    assert detecting["p1"]["roles"] == ["rescue"]
    assert detecting["p1"]["requested"] == PATTERNS[0]["pattern"]
    said = "\n".join(summary.reasons)
    assert all(reason in said for reason in REFUSED_PATTERNS.values())
