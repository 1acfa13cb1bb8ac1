"""The network benchmark measures what it says, keeps it, and leaves out what is not installed."""

from __future__ import annotations

import pytest
from bench_reports import network_sample

from fairlead.filters.language import parse, render
from fairlead.model.packed import unpack
from fairlead.network import wire
from fairlead_lab.bench import network
from fairlead_lab.bench.load import TOPIC, JetStream, Mqtt, Nats, Spec, Varied
from fairlead_lab.bench.network import FAIRLEAD, MOSQUITTO, Plan, run


def test_a_broker_is_measured_and_what_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(network.shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(network.sys, "executable", network.sys.executable)
    monkeypatch.setattr(network, "LINE", 2)
    told: list[str] = []
    plan = Plan(parts=("latency", "varied"), rounds=1, messages=500, rate=200, others=(0,))
    report = run(plan, told.append)
    latency = [cell for cell in report.cells if cell.part == "latency"]
    mine, theirs = (next(c for c in latency if c.contender == who) for who in (FAIRLEAD, MOSQUITTO))
    assert mine.rates[0] == pytest.approx(200, rel=0.5)
    assert mine.median_us[0] > 0
    assert "apt install mosquitto" in theirs.missing
    varied = [cell for cell in report.cells if cell.part == "varied" and cell.contender == FAIRLEAD]
    assert [cell.brokers for cell in varied] == [1, 2]
    assert all(cell.rates for cell in varied)
    assert len(told) == len(report.cells)
    assert "mosquitto is not installed" in report.markdown()


def test_goals_are_judged_by_ratios_of_one_round() -> None:
    report = network_sample()
    assert [goal.met for goal in report.goals()] == [True, False, True, True]


def test_prices_vary_and_every_publication_is_as_long_as_the_others() -> None:
    speaker = Varied()
    spec = Spec("fairlead-varied", 0, 0, messages=500)
    frames = speaker.publications(spec)
    assert {len(frame) for frame in frames} == {len(frames[0])}
    packed = [wire.parse_numbered(payload)[1] for _, payload in wire.Frames().feed(b"".join(frames))]
    prices = {unpack(each).attributes["price"] for each in packed}
    assert len(prices) > 400
    asked = [wire.parse_control(each) for _, each in wire.Frames().feed(speaker.subscribe([TOPIC], 1))]
    asked += [
        wire.parse_control(each)
        for _, each in wire.Frames().feed(speaker.subscribe([f"other/{n}" for n in range(50)], 50))
    ]
    filters = [parse(each.filter) for each in asked if isinstance(each, wire.Subscribe)]
    found = [[filter.matches(unpack(each)) for each in packed] for filter in filters]
    assert all(found[0])
    assert not any(any(each) for each in found[1:])
    assert len({render(filter) for filter in filters}) == 51
    assert speaker.arriving(spec) == len(wire.deliver(0, wire.deliver_head(("s000000",)), packed[0]))


def test_the_generator_knows_when_others_are_ready() -> None:
    mqtt, nats = Mqtt(), Nats()
    assert mqtt.is_ready(b"\x20\x02\x00\x00", 0)
    assert not mqtt.is_ready(b"\x20\x02\x00", 0)
    assert mqtt.is_ready(b"\x20\x02\x00\x00\x90\x03\x00\x01\x00", 1)
    assert not mqtt.is_ready(b"\x20\x02\x00\x00\x90\x03\x00\x02\x00", 1)
    with pytest.raises(RuntimeError, match="code 5"):
        mqtt.is_ready(b"\x20\x02\x00\x05", 0)
    assert nats.is_ready(b"INFO {}\r\nPONG\r\n", 0)
    assert not nats.is_ready(b"INFO {}\r\nPONG\r\n", 1)
    assert nats.is_ready(b"INFO {}\r\nPONG\r\nPONG\r\n", 1)
    with pytest.raises(RuntimeError, match="no"):
        JetStream().is_ready(b"-ERR 'no'\r\n", 0)
