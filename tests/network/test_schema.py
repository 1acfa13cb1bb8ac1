"""Brokers with a schema read filters and refuse publications as a bus with that schema does.

The law is checked over nodes without sockets, for random filters and publications; mutants show that it can fail.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead import Bus, FairleadError, Notification
from fairlead.broker import Broker, Settings
from fairlead.errors import BrokerRefused, NetworkError, ProtocolError
from fairlead.filters.language import parse
from fairlead.filters.schema import Schema
from fairlead.matching import engine_named
from fairlead.model.packed import pack, unpack
from fairlead.network import wire
from fairlead.network.interests import Interests
from fairlead.network.overlay import overlay_from
from fairlead.network.settings import BrokerSettings
from fairlead.network.sync import connect
from fairlead.routing import STRATEGIES, Catalogue
from fairlead.rules import Refusal
from fairlead.rules.domains import Domains
from fairlead_lab.testing.brokers import Brokers, wait_until
from fairlead_lab.testing.nodes import Line, linked

TEXT = """
abstract type Instrument
type Timed
type Quote: Instrument, Timed
type Trade: Quote
price: int
due: time
note: string?
"""
SCHEMA = Schema.parse(TEXT)
FILTERS = (
    "type is Instrument",
    "type is Timed and price > 5",
    "type is Trade",
    "price >= 3",
    'due < t"2026-06-01T00:00:00Z"',
    "exists note",
    "not type is Quote",
)
contents = st.fixed_dictionaries(
    {"type": st.sampled_from(["Quote", "Quote", "Trade", "Timed", "Instrument", "Stock"])},
    optional={
        "price": st.sampled_from([1, 4, 6, 7.0, 6.5, 7.5, "6"]),
        "due": st.sampled_from(["2026-01-01T00:00:00Z", "2026-12-01T00:00:00Z", "soon", 7]),
        "note": st.sampled_from([None, "a", "b", 1]),
        "other": st.integers(0, 2),
    },
)
cases = st.tuples(
    st.lists(st.sampled_from(FILTERS), min_size=1, max_size=3, unique=True),
    st.lists(contents, min_size=1, max_size=8),
    st.booleans(),
    st.sampled_from(sorted(STRATEGIES)),
)
Outcome = tuple[list[tuple[Notification, tuple[str, ...]]], dict[int, str]]


def numbered(given: list[dict[str, Any]]) -> list[Notification]:
    return [Notification.of({**each, "producer": "p", "id": f"{at}"}) for at, each in enumerate(given)]


def on_the_bus(filters: list[str], publications: list[Notification]) -> Outcome:
    bus, refused = Bus(schema=SCHEMA), {}
    got: dict[Notification, list[str]] = {}

    def receive(id: str) -> Callable[[Notification], object]:
        return lambda notification: got.setdefault(notification, []).append(id)

    for at, text in enumerate(filters):
        bus.subscribe(text, receive(f"{at}"))
    for number, each in enumerate(publications, start=1):
        try:
            bus.publish(each)
        except FairleadError as error:
            refused[number] = str(error)
    return [(each, tuple(sorted(ids))) for each, ids in got.items()], refused


def broker(name: str, strategy: str = "covering", rule: Callable[[Schema], Domains] = Domains) -> Broker:
    catalogue = Catalogue(engine_named("columnar"), SCHEMA)
    return Broker(
        name, Settings(STRATEGIES[strategy](0.1), lasting=True), catalogue=catalogue, rules=[rule(SCHEMA)]
    )


def over_brokers(
    filters: list[str],
    publications: list[Notification],
    *,
    logged: bool = True,
    strategy: str = "covering",
    rule: Callable[[Schema], Domains] = Domains,
) -> Outcome:
    line = Line(3, make=lambda name: broker(name, strategy, rule), logged=logged)
    reader, writer = line.client(2, "s"), line.client(0, "p")
    for at, text in enumerate(filters):
        reader.hear(wire.control(wire.Subscribe(at + 1, f"{at}", text)))
    line.settle()
    writer.hear(b"".join(wire.publish(at, pack(each)) for at, each in enumerate(publications, start=1)))
    line.settle()
    got = [wire.parse_deliver(each)[1:] for each in reader.frames(wire.DELIVER)]
    said = [wire.parse_control(each) for each in writer.frames(wire.CONTROL)]
    return (
        [(unpack(packed), tuple(ids)) for ids, packed in got],
        {each.number: each.reason for each in said if isinstance(each, wire.Refused)},
    )


@settings(max_examples=settings.default.max_examples // 2)  # type: ignore[union-attr]
@given(case=cases)
def test_brokers_with_a_schema_deliver_and_refuse_what_a_bus_does(
    case: tuple[list[str], list[dict[str, Any]], bool, str],
) -> None:
    filters, given_, logged, strategy = case
    publications = numbered(given_)
    bus, network = (
        on_the_bus(filters, publications),
        over_brokers(filters, publications, logged=logged, strategy=strategy),
    )
    assert network == bus
    assert [each.written() for each, _ in network[0]] == [each.written() for each, _ in bus[0]]


EXAMPLE: list[dict[str, Any]] = [
    {"type": "Quote", "price": 6, "due": "2026-01-01T00:00:00Z"},
    {"type": "Trade", "price": 6.5},
    {"type": "Instrument"},
    {"type": "Timed", "due": "2026-12-01T00:00:00Z"},
]


class Unread(Domains):
    """Reads no times."""

    def mark(self, notification: Notification, now: int) -> Notification:
        return notification


class Unchecked(Domains):
    """Refuses nothing."""

    def admit(self, who: str, notification: Notification, now: int) -> Refusal | None:
        return None

    def mark(self, notification: Notification, now: int) -> Notification:
        return notification


@pytest.mark.parametrize("mutant", [Unread, Unchecked])
def test_a_rule_with_a_defect_is_found(mutant: type[Domains]) -> None:
    publications, filters = numbered(EXAMPLE), list(FILTERS)
    assert over_brokers(filters, publications) == on_the_bus(filters, publications)
    assert over_brokers(filters, publications, rule=mutant) != on_the_bus(filters, publications)


def test_a_broker_that_reads_filters_without_the_schema_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    publications, filters = numbered(EXAMPLE), list(FILTERS)
    expected = on_the_bus(filters, publications)
    monkeypatch.setattr(Interests, "filter", lambda self, text: parse(text))
    assert over_brokers(filters, publications) != expected


# -- the handshake -------------------------------------------------------------------------------------------


def test_a_neighbour_with_another_schema_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "one.schema").write_text(TEXT)
    (tmp_path / "other.schema").write_text("type Quote")
    one, other = (
        Line(
            1, make=lambda name, file=file, at=at: BrokerSettings(at, schema=str(tmp_path / file)).broker()
        ).nodes[0]
        for at, file in (("a", "one.schema"), ("b", "other.schema"))
    )
    with pytest.raises(
        ProtocolError, match=r"a has the schema [0-9a-f]{8}, but b the schema [0-9a-f]{8}: the schema"
    ):
        linked(one, other)
    bare = Line(1, make=lambda name: BrokerSettings("c").broker()).nodes[0]
    with pytest.raises(ProtocolError, match=r"a has the schema [0-9a-f]{8}, but c no schema"):
        linked(one, bare)


def test_a_neighbour_with_other_extensions_is_refused_by_name() -> None:
    one, other = (Line(1, make=lambda name, at=at: BrokerSettings(at).broker()).nodes[0] for at in "ab")
    hello = other.hello("")
    fields = {name: getattr(hello, name) for name in hello.__struct_fields__}
    more = wire.Hello(**{**fields, "extensions": {**hello.extensions, "terms": "1234"}})
    with pytest.raises(ProtocolError, match="a and b differ in the extension 'terms': a has not loaded it"):
        one.handshakes.check("b", more, None, opened=False)


def test_a_client_with_another_schema_is_refused(brokers: Brokers, tmp_path: Path) -> None:
    (tmp_path / "a.schema").write_text(TEXT)
    server = brokers.start("a", schema=str(tmp_path / "a.schema"))
    with connect(server.url, schema=SCHEMA, name="p") as client:
        with client.subscribe("type is Instrument") as quotes:
            client.publish({"type": "Trade", "price": 4})
            assert quotes.get(timeout=20).get("type") == "Trade"
        with pytest.raises(
            FairleadError, match="no notification is of the abstract type 'Instrument' itself"
        ):
            client.publish({"type": "Instrument"})
        with pytest.raises(FairleadError, match="no type is named 'Stock'"):
            client.subscribe("type is Stock", timeout=20)
    other = connect(server.url, schema=Schema.parse("type Quote"))
    with (
        pytest.raises(BrokerRefused, match=r"a has the schema [0-9a-f]{8}, but this client the schema"),
        other,
    ):
        pass


# -- files, and processes ------------------------------------------------------------------------------------

EXTENSION = """
from fairlead.filters.extensions import ExtensionBase


class Sounds(ExtensionBase):
    name = "sounds"

    def holds(self, value, literal, /):
        return isinstance(value, str) and value.lower() == literal.lower()
"""


def test_the_file_of_a_network_has_one_schema_for_all(tmp_path: Path) -> None:
    given_ = {
        "schema": "types.schema",
        "extensions": ["sounds:Sounds"],
        "brokers": {"a": 0, "b": 0},
        "links": [["a", "b"]],
    }
    overlay = overlay_from(given_, "topology.toml", tmp_path)
    assert {each.schema for each in overlay.brokers} == {str(tmp_path / "types.schema")}
    assert {each.extensions for each in overlay.brokers} == {("sounds:Sounds",)}
    with pytest.raises(NetworkError, match="cannot be imported"):
        overlay.settings("a").broker()


def test_processes_with_a_schema_and_an_extension_survive_kill_9(tmp_path: Path) -> None:
    (tmp_path / "sounds.py").write_text(EXTENSION)
    (tmp_path / "types.schema").write_text(TEXT)
    (tmp_path / "broker.toml").write_text('schema = "types.schema"\nextensions = ["sounds:Sounds"]\n')

    def started(name: str, *more: str, listen: str = "127.0.0.1:0") -> tuple[subprocess.Popen[str], str]:
        given_ = [
            sys.executable,
            "-m",
            "fairlead",
            "broker",
            "run",
            *more,
            "--name",
            name,
            "--listen",
            listen,
        ]
        process = subprocess.Popen(
            [*given_, "--data", name], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        url = process.stdout.readline().partition(" listens at ")[2].partition(",")[0]
        assert url, process.communicate()[1]
        return process, url

    running = []
    try:
        a, at = started("a", "-c", "broker.toml")
        running.append(a)
        b, there = started("b", "--schema", "types.schema", "--extension", "sounds:Sounds", "--link", at)
        running.append(b)
        with connect(there, name="desk") as desk, connect(at, name="p") as producer:
            wait_until(lambda: all(each["connected"] for each in desk.status()["links"].values()))
            wait_until(lambda: desk.status()["links"])
            # A client that has no schema and no extension of its own: brokers read its text.
            desk.subscribe("type is Instrument", durable="desk", timeout=20)
            producer.publish({"type": "Trade", "note": "HELLO"})
            a.kill()
            a.wait()
            a, _ = started("a", "-c", "broker.toml", listen=at.removeprefix("fairlead://"))
            running.append(a)
            producer.publish({"type": "Quote", "note": "hello"})
            producer.publish({"type": "Timed", "note": "hello"})
            with pytest.raises(FairleadError, match="the schema has no type"):
                producer.publish({"type": "Stock"})

        def printed(*command: str) -> list[str]:
            options = [
                "--timeout",
                "20s",
                "--json",
                "--extension",
                "sounds:Sounds",
                "--schema",
                "types.schema",
            ]
            found = subprocess.run(
                [sys.executable, "-m", "fairlead", "sub", *command, *options],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=True,
            )
            return [json.loads(line)["type"] for line in found.stdout.splitlines()]

        assert printed("type is Instrument", "--durable", "desk", "-n", "2", "-b", there) == [
            "Trade",
            "Quote",
        ]
        heard = printed('note sounds "Hello" and not type is Trade', "--since", "1h", "-n", "2", "-b", at)
        assert heard == ["Quote", "Timed"]
    finally:
        for process in running:
            process.kill()
            process.communicate()
