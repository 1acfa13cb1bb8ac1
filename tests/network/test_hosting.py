"""A query that brokers detect: the same results for all who ask, those of an ordered bus, whatever is killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fairlead import Bus, sync
from fairlead.broker.hosting import HostedQuery, home_of
from fairlead.cli import main
from fairlead.correlation import fair, patterns
from fairlead.correlation.queries import Query
from fairlead.errors import BrokerRefused, NetworkError
from fairlead.model import Instant, Notification
from fairlead.network.addresses import free_ports
from fairlead.network.overlay import overlay_from
from fairlead.network.server import Server
from fairlead.network.settings import settings_from
from fairlead_lab.testing.brokers import PATIENCE_S, Brokers

NAMES = ("hub", "east", "west")
LATENESS_US = 900_000
RISING = fair.parse("A.x < B.x and B.x < C.x")
QUERIES = [
    RISING,
    patterns.parse("r: A as low followed by B as high, high.x > low.x"),
    patterns.parse("A then no C within 1 second"),
    patterns.parse("calm: (A unless B within 1 second before) followed by C as c, leaving out c"),
]


def event(number: int, time: int, **attributes: Any) -> Notification:
    return Notification.of(
        {"id": f"{number}", "producer": "p", "x": number % 7, "time": Instant(time), **attributes}
    )


def in_time(rng: Random, count: int) -> list[Notification]:
    """Events whose disorder is within the lateness, and one far behind all."""
    made = [
        event(number, 400_000 * number + rng.randrange(LATENESS_US), type="ABC"[rng.randrange(3)])
        for number in range(count)
    ]
    return [*made, event(count, 400_000 * count + 10 * LATENESS_US, type="A")]


def of_the_bus(query: Any, events: list[Notification]) -> list[str]:
    """What the bus finds before the last event is old enough to be looked at."""
    last = events[-1].time
    assert last is not None
    with Bus(order="ordered", lateness_us=LATENESS_US) as bus:
        found = bus.detect(query)
        for each in events:
            bus.publish(each)
    return [repr(each) for each in found if each.time is not None and each.time < last]


def network(brokers: Brokers, path: Path, **settings: Any) -> dict[str, Server]:
    hosting = {"detectors": NAMES, "lateness_seconds": LATENESS_US / 1e6, **settings}
    hub = brokers.start("hub", path, **hosting)
    return {"hub": hub} | {name: brokers.start(name, path, links=(hub.url,), **hosting) for name in NAMES[1:]}


def results(detection: sync.HostedDetection, count: int) -> list[str]:
    return [repr(detection.get(timeout=PATIENCE_S)) for _ in range(count)]


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_clients_at_different_brokers_get_what_an_ordered_bus_finds(
    query: Any, brokers: Brokers, tmp_path: Path
) -> None:
    servers = network(brokers, tmp_path)
    events = in_time(Random(7), 40)
    expected = of_the_bus(query, events)
    with sync.connect(servers["east"].url) as east, sync.connect(servers["west"].url) as west:
        detections = [client.hosted(query) for client in (east, west)]
        home = home_of(HostedQuery(Query.of(query)).key, NAMES)
        assert [each.host for each in detections] == [home, home]
        for number, each in enumerate(events):
            (east, west)[number % 2].publish(each)
        for detection in detections:
            assert results(detection, len(expected)) == expected
        with sync.connect(servers[home].url) as client:
            [hosted] = client.status()["detections"].values()
        assert (hosted["query"], hosted["late"], hosted["ready"]) == (str(query), 0, True)
    assert expected


def test_who_asks_later_shares_the_history(brokers: Brokers, tmp_path: Path) -> None:
    servers = network(brokers, tmp_path)
    query = fair.parse("A and B")
    with sync.connect(servers["east"].url) as east, sync.connect(servers["west"].url) as west:
        first = east.hosted(query)
        for number, type in enumerate("ABABABA"):
            east.publish(event(number, number * LATENESS_US, type=type))
        before = results(first, 2)
        second = west.hosted(query)
        for number, type in enumerate("BABABA", 7):
            west.publish(event(number, number * LATENESS_US, type=type))
        assert "'number': 2" in before[1]
        after = results(first, 3)
        assert results(second, 3) == after
        assert "'number': 3" in after[0]


def test_a_durable_subscriber_gets_what_was_found_while_it_was_away(brokers: Brokers, tmp_path: Path) -> None:
    servers = network(brokers, tmp_path, linger_seconds=0.1)
    query = patterns.parse("spike: A followed by B")
    with sync.connect(servers["east"].url) as east:
        with east.hosted(query, durable="desk") as spikes:
            home = spikes.host
        for number, type in enumerate("ABAA"):
            east.publish(event(number, number * LATENESS_US, type=type))
        with east.hosted(query, durable="desk") as spikes:
            assert spikes.host == home
            assert spikes.get(timeout=PATIENCE_S).get("type") == "spike"
        east.forget("desk")


def test_a_detector_that_nobody_listens_to_ends_and_leaves_nothing(
    brokers: Brokers, tmp_path: Path, until: Callable[[Callable[[], object]], None]
) -> None:
    servers = network(brokers, tmp_path, linger_seconds=1.0)
    with sync.connect(servers["east"].url) as east:
        detection = east.hosted("A followed by B")
        with sync.connect(servers[detection.host].url) as client:
            assert client.status()["detections"]
            assert client.durables()
            detection.close()
            until(lambda: not client.status()["detections"] and not client.durables())
        assert not list(tmp_path.glob("*/detection/*"))
        detection = east.hosted("A followed by B")
        for number, type in enumerate("ABAA"):
            east.publish(event(number, number * LATENESS_US, type=type))
        assert detection.get(timeout=PATIENCE_S)


def test_where_no_broker_is_a_host_that_is_said(brokers: Brokers, tmp_path: Path) -> None:
    server = brokers.start("b", tmp_path)
    with (
        sync.connect(server.url, patience=0.3) as client,
        pytest.raises(BrokerRefused, match="no broker has begun to detect"),
    ):
        client.hosted("A followed by B")
    with pytest.raises(NetworkError, match="b has no log"):
        brokers.start("b", None, detectors=("b",))


@pytest.mark.parametrize(
    ("more", "promise"),
    [
        ({"routing": {"cyclic": True}}, "detectors would see no total order"),
        ({"routing": {"advertisements": "simple"}}, "nobody has advertised what detectors publish"),
        ({"memory": True}, "a detector goes on from the log"),
        ({"schema": "types.schema"}, "whose types the schema does not have"),
        ({"scopes": {"file": "graph"}}, "what their subscribers may not see"),
    ],
)
def test_a_combination_that_would_break_a_promise_is_refused_with_the_promise(
    more: dict[str, Any], promise: str
) -> None:
    with pytest.raises(NetworkError, match=promise):
        settings_from({"name": "b", "detection": {"hosts": ["b"]}, **more}, "broker.toml")


def test_hosts_are_brokers_of_the_network() -> None:
    given = {"brokers": {"hub": 7400}, "detection": {"hosts": ["south"]}}
    with pytest.raises(NetworkError, match="there is no broker 'south'"):
        overlay_from(given, "topology.toml")


def test_the_prompt_prints_what_a_detector_finds(
    brokers: Brokers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = brokers.start("b", tmp_path, detectors=("b",))
    common = ["sub", "-b", server.url, "--pattern", "spike: A followed by B", "--hosted", "--durable", "desk"]
    assert main([*common, "--timeout", "0"]) == 1
    with sync.connect(server.url) as client:
        for number, type in enumerate("ABA"):
            client.publish(event(number, number * 2_000_000, type=type))
    assert main([*common, "-n", "1", "--json"]) == 0
    output = capsys.readouterr()
    assert "b detects for b: spike: A followed by B" in output.err + output.out
    assert '"type":"spike"' in output.out
    assert main([*common, "--clock"]) == 2
    assert main(["sub", "-b", server.url, "--hosted"]) == 2


# -- processes ---------------------------------------------------------------------------------------------------


class Processes:
    """Brokers as processes, each at a port of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ports = dict(zip(NAMES, free_ports(["127.0.0.1"] * len(NAMES)), strict=True))
        self.running: dict[str, subprocess.Popen[str]] = {}
        names = ", ".join(f'"{name}"' for name in NAMES)
        (directory / "broker.toml").write_text(f'[detection]\nhosts = [{names}]\nlateness = "900ms"\n')

    def url(self, name: str) -> str:
        return f"fairlead://127.0.0.1:{self.ports[name]}"

    def start(self, name: str) -> None:
        options = [
            "-c",
            "broker.toml",
            "--name",
            name,
            "--listen",
            f"127.0.0.1:{self.ports[name]}",
            "--data",
            name,
        ]
        options += [] if name == "hub" else ["--link", self.url("hub")]
        process = self.running[name] = subprocess.Popen(
            [sys.executable, "-m", "fairlead", "broker", "run", *options],
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        if "listens" not in process.stdout.readline():
            raise AssertionError(process.communicate()[1])

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.kill()
        process.communicate()

    def end(self) -> None:
        for name in list(self.running):
            self.kill(name)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    made = Processes(tmp_path)
    try:
        for name in NAMES:
            made.start(name)
        yield made
    finally:
        made.end()


def test_subscribers_agree_when_the_host_is_killed_and_events_are_late(
    processes: Processes, until: Callable[[Callable[[], object]], None]
) -> None:
    rng = Random(3)
    events = in_time(rng, 60)
    home = home_of(HostedQuery(Query.of(RISING)).key, NAMES)
    others = [name for name in NAMES if name != home]
    with (
        sync.connect([processes.url(others[0])], name="p") as one,
        sync.connect(processes.url(others[1])) as two,
    ):
        hosted = [one.hosted(RISING, durable="one"), two.hosted(RISING)]
        for number, each in enumerate(events):
            if number in (15, 30, 45):
                processes.kill(home)
            if number in (20, 31, 50):
                processes.start(home)
            one.publish(each)
            if number % 4 == 0 and number > 8:  # behind all that has been looked at, or not yet
                time = 400_000 * (number - 8)
                one.publish(event(1_000 + number, time, type="ABC"[rng.randrange(3)]))
        one.publish(event(2_000, 400_000 * 100, type="C", x=6))
        found = [results(each, 5) for each in hosted]
        assert found[0] == found[1]
        with sync.connect(processes.url(home)) as client:
            [status] = client.status()["detections"].values()
            more = [results(each, status["results"] - 5) for each in hosted]
            assert more[0] == more[1]
            one.publish(event(2_001, 0, type="A"))  # behind all that has been found
            until(lambda: [each["late"] for each in client.status()["detections"].values()] > [0])
    numbers = [
        number for each in found[0] + more[0] for number in [each.partition("'number': ")[2].split(",")[0]]
    ]
    assert numbers == [str(number) for number in range(1, len(numbers) + 1)]
