"""Sealed attributes in a pipeline: it delivers what an ordered bus with the same policy and keys does."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.bus import Bus
from fairlead.correlation import patterns
from fairlead.correlation.queries import Query
from fairlead.errors import Forbidden, SubscriptionRefused
from fairlead.filters import parse
from fairlead.filters.language import render
from fairlead.ingest.records import notification_of
from fairlead.model import Notification
from fairlead.rules.access import Access
from fairlead.rules.sealing import Sealing
from fairlead.security import AccessPolicy
from fairlead.security.sealing import Keyring, Sealer
from fairlead.spark import access, sealing
from fairlead.spark.admission import Admission
from fairlead.spark.config import Config

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLASSES = ("police", "fire")
WHO = ("ada", "bob", "eve")
LIMITS = ("true", "x > 2", "exists place", 'type = "A"', "patient > 1", "not exists patient", "x < 4")
ASKED = (
    'place = "Elm"',
    'place prefix "E"',
    'not place = "Oak"',
    "exists place and x > 1",
    "x >= 2",
    "patient > 2",
    'place = "Elm" or x = 1',
    "true",
)
SEALED = (
    {"*": {"place": "police"}},
    {"A": {"place": "police | fire"}},
    {"*": {"place": "plain | police", "patient": "police & fire"}},
    {"A": {"place": "fire"}, "*": {"patient": "police | fire"}},
)


def ring(*classes: str) -> Keyring:
    """A keyring with the first key of each class, the same in every ring."""
    made = Keyring()
    for name in classes:
        made.add((name, 1), name.encode().ljust(32, b"."), 0)
    return made


@dataclass(frozen=True)
class World:
    """A policy, what is published, who subscribes to what, and the keys of whoever matches."""

    policy: dict[str, Any]
    events: list[dict[str, Any]]
    asked: list[tuple[str, str, str]]
    keys: tuple[str, ...] | None

    @classmethod
    def of(cls, seed: int, events: int = 12) -> World:
        """A random one."""
        random = Random(seed)
        sealed = random.choice(SEALED)
        policy: dict[str, Any] = {
            "protected": random.sample(["patient", "x", "place"], random.randrange(3)),
            "sealed": sealed,
            "keys": {name: {"members": list(WHO)} for name in CLASSES},
            "roles": {"city": {"members": ["city"], "publish": ["true"]}},
        }
        for number in range(random.randrange(1, 4)):
            policy["roles"][f"r{number}"] = {
                "members": random.sample(WHO, random.randrange(1, 4)),
                "subscribe": random.sample(LIMITS, random.randrange(1, 3)),
                "reads": random.choice([[], ["*"], policy["protected"][:1]]),
            }
        annotations = AccessPolicy.of(policy).sealed
        rings = [(), CLASSES[:1], CLASSES[1:], CLASSES]
        published = [
            cls._event(random, number, Sealer(annotations, ring(*CLASSES))) for number in range(events)
        ]
        if len(published) > 3 and "place" in published[0]:  # a value that belongs to another notification
            published[3] = {**published[3], "place": published[0]["place"]}
        asked = []
        for number in range(random.randrange(2, 9)):
            text = random.choice(ASKED)
            with suppress(Forbidden):  # whoever has no key asks in clear, and gets what matches in clear
                text = render(Sealer(annotations, ring(*random.choice(rings))).filter(text))
            asked.append((f"s{number}", random.choice(WHO), text))
        return cls(policy, published, asked, random.choice([None, *rings]))

    @staticmethod
    def _event(random: Random, number: int, sealer: Sealer) -> dict[str, Any]:
        given = {
            "id": str(number),
            "producer": "city",
            "time": f"2026-03-02T09:00:{number % 60:02}Z",
            "type": random.choice("AB"),
            "x": random.randrange(6),
            **({"place": random.choice(["Elm", "Oak", "Ash"])} if random.random() < 0.8 else {}),
            **({"patient": random.randrange(5)} if random.random() < 0.6 else {}),
        }
        if random.random() < 0.15:
            return given  # in clear, which may be refused
        made: dict[str, Any] = json.loads(sealer.seal(notification_of(given)).to_json())
        return made

    @property
    def access(self) -> AccessPolicy:
        return AccessPolicy.of(self.policy)


Delivered = Mapping[tuple[str, str], str]


def on_a_bus(world: World) -> Delivered:
    """What subscribers get on a bus, by subscriber and id: their subscriptions and the content."""
    found: dict[tuple[str, str], str] = {}
    sealer = Sealer(world.access.sealed, ring(*(world.keys or ())))
    with Bus(rules=[Access(world.access), Sealing(sealer)], order="ordered") as bus:
        queues = []
        for id, who, text in world.asked:
            try:
                queues.append(bus.subscribe(text, subscriber=who, id=id))
            except Forbidden:
                continue
        for event in world.events:
            try:
                bus.publish(notification_of(event))
            except Forbidden:
                continue
        bus.close()
        for queue in queues:
            for _ in range(len(queue)):
                each = queue.get_delivery(0)
                key = each.subscriber, str(each.notification.id)
                found[key] = json.dumps(each.subscriptions) + each.notification.to_json()
    return found


def keys_file(world: World, directory: str | Path) -> str | None:
    if world.keys is None:
        return None
    path = Path(directory) / f"{os.urandom(4).hex()}.keys"
    ring(*world.keys).write(path)
    return str(path)


def by_the_stages(world: World) -> Delivered:
    """What the stages of a pipeline deliver, as workers run them, without Spark between them."""
    from fairlead.spark.doors import TextDoor
    from fairlead.spark.frames import KEY, PUBLISHED, RECORD
    from fairlead.spark.matcher import MEMORY, Matcher
    from fairlead.spark.subscriptions import Entry, Location, Subscriptions

    with tempfile.TemporaryDirectory() as directory:
        keys = keys_file(world, directory)
        gate = access.Gate(world.access)
        rows = [{"id": id, "subscriber": who, "filter": text} for id, who, text in world.asked]
        granted = list(gate.entries(Entry(Location("s", at), row) for at, row in enumerate(rows, start=1)))
        subscriptions = replace(Subscriptions.read(granted, directory), keys=keys)
        door = TextDoor("json", admission=Admission(seals=sealing.seals_of(world.access, keys)))
        texts = pa.array([json.dumps(each).encode() for each in world.events], pa.binary())
        read = pa.Table.from_batches(door([pa.RecordBatch.from_arrays([texts], ["value"])]))
        read = read.filter(read.column("reason").is_null())
        given = read.append_column("time", read.column("event_time"))
        carried = ("event_time", RECORD, PUBLISHED)
        matched = Matcher((subscriptions,), (), carried, MEMORY)(
            given.select([*KEY, *carried]).combine_chunks().to_batches()
        )
        masks = access.masks_of(world.access, subscriptions)
        found = {}
        for row in (row for batch in matched for row in batch.to_pylist()):
            for receiver in row["receivers"]:
                shown = row[PUBLISHED] or row[RECORD]
                who = receiver["subscriber"]
                if masks is not None:
                    hidden = masks.others.get(who, masks.usual)
                    shown = access._shown(row[RECORD], row[PUBLISHED], frozenset(hidden))
                found[who, row["id"]] = json.dumps(receiver["subscriptions"]) + shown
        return found


def compact(found: Delivered) -> Delivered:
    """The same without the blanks between what was written: a door keeps the text that it is given."""
    split = {key: (text[: text.index("]") + 1], text[text.index("]") + 1 :]) for key, text in found.items()}
    return {key: ids + json.dumps(json.loads(content)) for key, (ids, content) in split.items()}


@given(st.integers(min_value=0, max_value=1 << 32))
@settings(max_examples=60)
def test_the_stages_deliver_what_a_bus_does_under_random_policies_and_sealed_attributes(seed: int) -> None:
    world = World.of(seed)
    assert compact(by_the_stages(world)) == compact(on_a_bus(world))


def test_the_law_is_about_something() -> None:
    worlds = [World.of(seed) for seed in range(60)]
    found = [on_a_bus(world) for world in worlds]
    assert sum(map(len, found)) > 300
    assert any("$bytes" in text for each in found for text in each.values())
    decided = [
        on_a_bus(replace(world, keys=CLASSES)) != on_a_bus(replace(world, keys=None)) for world in worlds
    ]
    assert sum(decided) > 5


def mutants() -> Iterator[tuple[str, Any, str, Callable[..., Any]]]:
    """What could have been forgotten."""
    yield "admits what is in clear", sealing.Seals, "refusal", lambda self, notification: None
    yield "decides without keys", sealing, "binding_of", lambda keys: lambda filter: filter
    yield "asks about no row", sealing.Seals, "concerned", lambda self, texts: [False] * len(texts)
    yield "masks nothing", access, "_shown", lambda record, published, hidden: published or record


@pytest.mark.parametrize(
    ("name", "home", "attribute", "instead"), [*mutants()], ids=[each[0] for each in mutants()]
)
def test_what_could_have_been_forgotten_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, home: Any, attribute: str, instead: Callable[..., Any]
) -> None:
    from fairlead.spark import matcher

    assert hasattr(home, attribute)
    monkeypatch.setattr(home, attribute, instead)
    if attribute == "binding_of":
        monkeypatch.setattr(matcher, attribute, instead)
    worlds = map(World.of, range(60))
    assert any(compact(by_the_stages(world)) != compact(on_a_bus(world)) for world in worlds), name


# -- a whole pipeline ------------------------------------------------------------------------------------------


def toml(policy: Mapping[str, Any]) -> str:
    lines = [f"protected = {json.dumps(policy['protected'])}"]
    for kind in ("roles", "keys", "sealed"):
        for name, table in policy[kind].items():
            lines.append(f'[{kind}."{name}"]')
            lines += [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    return "\n".join(lines)


def config(world: World, path: Path, **more: Any) -> Config:
    (path / "policy.toml").write_text(toml(world.policy))
    events = path / "events"
    events.mkdir()
    half = len(world.events) // 2
    for name, some in (("1", world.events[:half]), ("2", world.events[half:])):
        (events / f"{name}.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in some))
    rows = [{"id": id, "subscriber": who, "filter": text} for id, who, text in world.asked]
    (path / "subscriptions.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in rows))
    security = {"policy": str(path / "policy.toml"), "audit": True}
    if (keys := keys_file(world, path)) is not None:
        security["keys"] = keys
    tables = {
        "name": "sealed",
        "output": str(path / "out"),
        "events": {"path": str(events)},
        "subscriptions": {"path": str(path / "subscriptions.jsonl")},
        "deliveries": {"format": "json"},
        "security": security,
        "report": False,
    }
    return Config.of({**tables, **more}, base=path)


def delivered(path: Path) -> Delivered:
    found = {}
    for file in (path / "out" / "deliveries").rglob("*.jsonl"):
        for line in file.read_text().splitlines():
            row = json.loads(line)
            text = line[line.index('"notification":') + len('"notification":') : -1]
            found[row["subscriber"], row["id"]] = json.dumps(row["subscriptions"]) + text
    return found


def grants_by_hand(world: World) -> set[tuple[str, str, str, str, str]]:
    """Who got what by which rule: subscriber, id, subscription, role and rule, decided one by one."""
    by_id = {str(each["id"]): notification_of(each) for each in world.events}
    found = set()
    for (who, id), text in on_a_bus(world).items():
        for role, table in world.policy["roles"].items():
            for rule in table.get("subscribe", ()):
                if who in table["members"] and parse(rule).matches(by_id[id]):
                    ids = json.loads(text[: text.index("]") + 1])
                    found |= {(who, id, each, role, render(parse(rule))) for each in ids}
    return found


def check_run(world: World, path: Path, spark: SparkSession, **more: Any) -> int:
    from fairlead.spark.output import Output
    from fairlead.spark.running import Pipeline

    asked = config(world, path, **more)
    Pipeline(asked, spark).run()
    expected = on_a_bus(world)
    assert compact(delivered(path)) == compact(expected)
    grants = Output(asked.output).read(spark, "grants")
    rows = [] if grants is None else grants.collect()
    told = {(row.subscriber, row.id, row.subscription, row.role, row.rule) for row in rows}
    assert told == grants_by_hand(world)
    assert {each[:2] for each in told} == expected.keys()
    assert {row.policy for row in rows} <= {AccessPolicy.read(path / "policy.toml").fingerprint}
    for row in rows:
        assert row.hidden == sorted(world.access.rights(access.Principal(row.subscriber)).hidden)
    return len(expected)


def test_a_stream_delivers_what_a_bus_does_and_says_by_which_rule(
    spark: SparkSession, tmp_path: Path
) -> None:
    more = {"stream": {"available": True, "max_files": 1}, "order": {"final": True}}
    world = replace(World.of(9, events=40), keys=CLASSES)
    assert check_run(world, tmp_path, spark, mode="stream", **more) > 10


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(40))
def test_pipelines_deliver_what_a_bus_does(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    check_run(World.of(seed, events=60), tmp_path, spark)


def test_typed_columns_with_sealed_values_are_decided_with_the_keys(
    spark: SparkSession, tmp_path: Path
) -> None:
    from pyarrow import parquet

    from fairlead.spark.running import Pipeline

    world = replace(
        World.of(0), policy={**World.of(0).policy, "sealed": {"*": {"place": "police"}}, "protected": []}
    )
    world.policy["roles"] = {"all": {"members": ["ada"], "subscribe": ["true"]}}
    sealer = Sealer(world.access.sealed, ring(*CLASSES))
    notes = [
        sealer.seal(Notification.of({"id": str(at), "producer": "city", "place": place}))
        for at, place in enumerate(["Elm", "Oak", "Elm"])
    ]
    rows = [{"id": each.id, "producer": "city", "place": each.get("place")} for each in notes]
    rows.append({"id": "clear", "producer": "city", "place": b"Elm"})
    asked = [("s1", "ada", render(sealer.filter('place = "Elm"')))]
    world = replace(world, events=[], asked=asked, keys=CLASSES)
    made = config(world, tmp_path, events={"path": str(tmp_path / "events.parquet")})
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "events.parquet")
    summary = Pipeline(made, spark).run()
    assert {id for _, id in delivered(tmp_path)} == {"0", "2"}
    assert summary.reasons == {"place has to be sealed under police": 1}


def test_keys_that_are_added_to_the_file_are_used(tmp_path: Path) -> None:
    path = tmp_path / "k"
    Keyring().write(path)
    seals = sealing.Seals((("*", "place", "police"),), str(path))
    notes = AccessPolicy.of({"keys": {"police": {}}, "sealed": {"*": {"place": "police"}}}).sealed
    sealed = Sealer(notes, ring("police")).seal(notification_of({"id": "1", "producer": "p", "place": "Elm"}))
    moved = replace(sealed, id="2")
    assert seals.refusal(sealed) is None
    assert seals.refusal(moved) is None  # nobody can tell without the key
    ring("police").write(path)
    assert seals.refusal(sealed) is None
    assert "belongs to another notification" in str(seals.refusal(moved))


def test_a_pattern_has_no_sealed_predicates() -> None:
    sealed = '[@sealed("place", "present", "police:1=AAAA")]'
    for text in (f"{sealed} followed by [x = 1] within 1 h", f"[x = 1] then no {sealed} within 1 h"):
        with pytest.raises(SubscriptionRefused, match="no sealed predicates"):
            Query(patterns.parse(text))


# -- secrets ---------------------------------------------------------------------------------------------------

PLANTED = "Elm Street 7f3a9"
PIPELINE = """
name = "planted"
mode = "stream"
output = "out"
[events]
path = "events"
[subscriptions]
path = "subscriptions.jsonl"
[patterns]
path = "patterns.jsonl"
[order]
final = true
[deliveries]
format = "json"
[audit]
trace = true
[security]
policy = "policy.toml"
keys = "police.keys"
audit = true
[stream]
available = true
[spark]
master = "local[2]"
quiet = false
[spark.settings]
"spark.sql.shuffle.partitions" = "1"
"spark.sql.codegen.factoryMode" = "NO_CODEGEN"
"spark.sql.codegen.wholeStage" = "false"
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"spark.eventLog.enabled" = "true"
"spark.eventLog.dir" = "log"
"spark.eventLog.compress" = "false"
"""


def test_a_planted_secret_is_in_nothing_that_a_run_writes_or_says(tmp_path: Path) -> None:
    policy = {
        "protected": [],
        "keys": {"police": {"members": ["ada"]}},
        "sealed": {"*": {"place": "police"}},
        "roles": {"all": {"members": ["ada", "bob"], "subscribe": ["true"]}},
    }
    keyring = Keyring()
    keyring.rotate("police", 0)
    sealer = Sealer(AccessPolicy.of(policy).sealed, keyring)
    events = [
        {
            "id": str(number),
            "producer": "city",
            "time": f"2026-03-02T09:00:{number:02}Z",
            "x": number,
            "place": PLANTED,
        }
        for number in range(8)
    ]
    sealed = [json.loads(sealer.seal(notification_of(each)).to_json()) for each in events[:6]]
    sealed[5]["place"] = sealed[4]["place"]  # it does not open there
    asked = [
        ("s1", "ada", render(sealer.filter(f"place = {json.dumps(PLANTED)}"))),
        ("s2", "bob", "x >= 0"),
    ]
    keyring.write(tmp_path / "police.keys")
    config(World(policy, [*sealed, *events[6:]], asked, None), tmp_path)  # for its files
    detected = "up: [x = 1] as a followed by [x = 2] within 9 s, giving y = a.place"
    row = {"id": "p1", "subscriber": "bob", "pattern": detected}
    (tmp_path / "patterns.jsonl").write_text(json.dumps(row))
    (tmp_path / "log").mkdir()
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    command = [sys.executable, "-m", "fairlead", "run", "pipeline.toml"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 3, run.stdout + run.stderr  # some records are rejected
    got = {key: json.loads(text[text.index("]") + 1 :]) for key, text in delivered(tmp_path).items()}
    assert {id for who, id in got if who == "ada"} == {"0", "1", "2", "3", "4"}
    assert sealer.view(notification_of(got["ada", "3"])).get("place") == PLANTED  # for it is in there
    assert "place has to be sealed under police" in run.stdout
    assert "place was changed, or belongs to another notification" in run.stdout
    secret = keyring.secret(("police", 1))
    planted = [PLANTED.encode(), secret, base64.b64encode(secret), secret.hex().encode()]
    written = [file for place in ("out", "log") for file in (tmp_path / place).rglob("*") if file.is_file()]
    kinds = {file.relative_to(tmp_path).parts[1] for file in written}
    assert {"_fairlead", "access", "deliveries", "grants", "rejected", "trace", "report.html"} <= kinds
    texts = {str(file): contents(file) for file in written} | {"said": (run.stdout + run.stderr).encode()}
    found = [name for name, text in texts.items() for each in planted if each in text]
    assert found == []
    assert any(b"city" in text for text in texts.values())  # Parquet is looked into


def contents(file: Path) -> bytes:
    """The bytes of a file; of a table, which is compressed, those of its values, too."""
    from pyarrow import parquet

    raw = file.read_bytes()
    if file.suffix != ".parquet":
        return raw
    values = json.dumps(parquet.read_table(file).to_pylist(), default=lambda each: each.decode("latin-1"))
    return raw + values.encode()


def test_what_a_subscriber_does_not_read_is_sealed_before_anything_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    from fairlead.spark.running import Pipeline

    policy = {
        "protected": ["patient", "note"],
        "keys": {"doctors": {"members": ["eve"]}},
        "sealed": {"*": {"patient": "plain | doctors"}},
        "roles": {
            "all": {"members": ["ada", "bob"], "subscribe": ["true"]},
            "staff": {"members": ["bob"], "reads": ["*"]},
        },
    }
    keyring = Keyring()
    keyring.rotate("doctors", 0)
    keyring.write(tmp_path / "police.keys")
    sealer = Sealer(AccessPolicy.of(policy).sealed, keyring)
    events: list[dict[str, Any]] = [
        {"id": str(number), "producer": "city", "x": number, "patient": PLANTED, "note": PLANTED}
        for number in range(6)
    ]
    events += [{"id": "7", "producer": "city", "patient": {"name": PLANTED}}, {"patient": PLANTED, "x": 8}]
    world = World(policy, events, [("s1", "ada", "true"), ("s2", "bob", "true")], None)
    runs = []
    for name in ("first", "second"):
        place = tmp_path / name
        place.mkdir()
        keyring.write(place / "police.keys")
        asked = config(world, place)
        assert asked.security is not None
        masked = replace(asked.security, keys=str(place / "police.keys"), mask="sealed")
        Pipeline(replace(asked, security=masked), spark).run()
        runs.append(delivered(place))
    assert runs[0] == runs[1]
    contents = {key: json.loads(text[text.index("]") + 1 :]) for key, text in runs[0].items()}
    of_ada = {id: each for (who, id), each in contents.items() if who == "ada"}
    assert len(of_ada) == len(events)
    assert not any(PLANTED in text for (who, _), text in runs[0].items() if who == "ada")
    assert not any("note" in each for each in of_ada.values())
    assert all(PLANTED in text for (who, _), text in runs[0].items() if who == "bob")
    known = {id: notification_of(each) for id, each in of_ada.items() if id in "0123457"}
    opened = {id: sealer.view(each).content["patient"] for id, each in known.items()}
    assert opened == {**dict.fromkeys("012345", PLANTED), "7": {"name": PLANTED}}
    values = [json.dumps(of_ada[id]["patient"]) for id in "012345"]
    assert len(set(values)) == 6  # equal values of different notifications look different
    other = next(each for id, each in of_ada.items() if id not in known)
    assert "patient" not in other  # there is nothing in it to bind the value to
