"""A bridge between Kafka and brokers passes each record and each notification on once, whatever ends it."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import FairleadError
from fairlead.kafka.records import Reading
from fairlead.kafka.writing import Position
from fairlead.log.lineage import Incarnation
from fairlead.network import sync
from fairlead.network.bridging import Inward, Outward, Passed, valid_position
from fairlead.network.client import connect
from fairlead.network.subscriptions import Delivery
from fairlead_lab.servers import kafka
from fairlead_lab.testing.brokers import Brokers, wait_until
from fairlead_lab.testing.topics import Broker

PATIENCE_S = 120


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with kafka.running(tmp_path_factory.mktemp("kafka")) as address:
        yield Broker(address)


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with Brokers() as brokers:
        yield str(brokers.start("b", tmp_path).url)


def run(bridge: Inward | Outward, url: str, is_over: Callable[[Passed], bool]) -> Passed:
    """Run a bridge until it is over; what it passed on."""
    passed = Passed()

    async def work() -> None:
        async with connect(url) as client, asyncio.timeout(PATIENCE_S):
            await bridge.run(client, passed, lambda: is_over(passed))

    asyncio.run(work())
    return passed


def test_records_are_published_once_though_they_are_taken_again(topics: Broker, url: str) -> None:
    topic = topics.topic()
    sent: list[dict[str, Any]] = [
        {"value": json.dumps({"id": f"a{n}", "producer": "p", "x": n})} for n in range(5)
    ]
    sent += [{"value": json.dumps({"x": n}), "partition": n % 2, "key": "k"} for n in range(5, 9)]
    sent.append({"value": '{"x": 9}', "headers": {"producer": "elsewhere", "id": "7"}})
    sent += [{"value": "no JSON"}, {"value": None, "key": "gone"}]
    topics.send(topic, *sent)
    refused: list[str] = []
    reading = Reading(about="kafka", tombstones="skip")
    with sync.connect(url) as client, client.subscribe("exists x") as found:
        for group in ("first", "second"):  # a group that has committed nothing takes everything
            bridge = Inward(
                topics.settings, [topic], group, reading, lambda _, reason: refused.append(reason)
            )
            passed = run(bridge, url, lambda passed: passed.passed + passed.rejected == len(sent))
            assert (passed.passed, passed.rejected) == (11, 1)
        got = [found.get(PATIENCE_S) for _ in range(10)]
        with pytest.raises(TimeoutError):
            found.get(0.1)
    assert sorted(each.get("x") for each in got) == [*range(10)]
    assert {each.get("kafka.topic") for each in got} == {topic}
    identities = {each.get("x"): (each.producer, each.id) for each in got}
    assert identities[3] == ("p", "a3")
    assert identities[9] == ("elsewhere", "7")
    assert identities[5][0] == f"kafka:{topic}/1"
    assert len(refused) == 2
    committed = Inward(topics.settings, [topic], "first", reading)
    topics.send(topic, {"value": '{"x": 10}'})
    assert run(committed, url, lambda passed: passed.passed > 0).passed == 1  # the group goes on where it was


@pytest.mark.parametrize("moment", ["none", "before-it-is-accepted"])
def test_deliveries_are_written_once_though_they_come_again(
    topics: Broker, url: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topics.topic()
    bridge = Outward(topics.settings, topic, f"out-{moment}", "x > 0", key="symbol")
    with sync.connect(url, name="desk") as client:
        with client.subscribe("x > 0", durable=bridge.name):
            pass  # it begins here
        for n in range(20):
            client.publish({"x": n, "symbol": f"s{n % 3}"})
        if moment != "none":

            async def crash(delivery: Delivery) -> None:
                raise FairleadError("crashed")

            with monkeypatch.context() as patched:
                patched.setattr(Delivery, "accept", crash)
                with pytest.raises(FairleadError, match="crashed"):
                    run(bridge, url, lambda _: False)
            assert topics.committed(topic)  # they are there, and the broker does not know
        client.publish({"x": 20, "symbol": "s2"})
        passed = run(bridge, url, lambda passed: passed.passed + passed.repeated >= 20)
        assert (passed.repeated > 0) == (moment != "none")
    records = topics.committed(topic)
    assert sorted(json.loads(each.value())["x"] for each in records) == [*range(1, 21)]
    assert {each.key().decode() for each in records} == {"s0", "s1", "s2"}
    for key in (b"s0", b"s1"):
        of_key = [json.loads(each.value())["x"] for each in records if each.key() == key]
        assert of_key == sorted(of_key)
    assert dict(records[0].headers())["producer"] == b"desk"


def test_the_command_bridges_until_it_is_ended(topics: Broker, url: str) -> None:
    into, out = topics.topic(), topics.topic()
    topics.send(into, *({"value": json.dumps({"id": str(n), "producer": "p", "x": n})} for n in range(4)))
    command = [sys.executable, "-m", "fairlead", "bridge"]
    options = ["--kafka", topics.address, "-b", url, "--json"]
    asked = [["out", out, "x > 0", "--name", "o"], ["in", into]]
    with sync.connect(url) as client:
        processes = []
        for each in asked:
            processes.append(
                subprocess.Popen(
                    [*command, *each, *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
                )
            )
            wait_until(lambda: client.status()["durables"])
        wait_until(lambda: len(topics.committed(out)) == 3)
    said = []
    for process in processes:
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=PATIENCE_S)
        said.append((process.returncode, json.loads(output)["passed"]))
    assert said == [(0, 3), (0, 4)]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), min_size=1, max_size=6), st.data())
def test_a_position_is_valid_as_far_as_both_logs_are_the_same(
    steps: list[tuple[int, int]], data: st.DataObject
) -> None:
    """A log is opened again and again, cut back to a copy or not, and grows; a bridge once passed on all of it."""
    log: list[tuple[str, int]] = []
    lineage: list[Incarnation] = []
    history = []
    for number, (cut, grown) in enumerate(steps):
        log = log[: len(log) - min(cut, len(log)) if data.draw(st.booleans()) else len(log)]
        lineage = [each for each in lineage if each.first <= len(log)]
        lineage.append(Incarnation(f"i{number}", len(log)))
        log = [*log, *((f"i{number}", offset) for offset in range(len(log), len(log) + grown))]
        history.append((list(log), lineage[-1].id))
    before, incarnation = data.draw(st.sampled_from(history))
    same = 0
    while same < min(len(before), len(log)) and before[same] == log[same]:
        same += 1
    valid = valid_position(Position(len(before), incarnation), tuple(lineage))
    assert valid <= same  # nothing new is passed over
    if incarnation in {each.id for each in lineage}:
        assert valid == same or before[valid:] == []
