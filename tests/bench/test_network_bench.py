"""The network benchmark measures what it says, keeps it, and leaves out what is not installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairlead.bench import network
from fairlead.bench.network import FAIRLEAD, LINE, MOSQUITTO, NATS, Cell, Plan, Report, run
from fairlead.bench.network_plot import draw
from fairlead.bench.runner import machine
from fairlead.network.load import JetStream, Mqtt, Nats


def report_of(*cells: Cell) -> Report:
    return Report(machine(), {"rate": 5_000, "rounds": 2}, list(cells))


def test_a_broker_is_measured_and_what_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(network.shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(network.sys, "executable", network.sys.executable)
    monkeypatch.setattr(network, "LINE", 2)
    told: list[str] = []
    plan = Plan(parts=("latency", "line"), rounds=1, messages=500, rate=200, others=(0,))
    report = run(plan, told.append)
    mine, theirs = (next(c for c in report.cells if c.contender == who) for who in (FAIRLEAD, MOSQUITTO))
    assert mine.rates[0] == pytest.approx(200, rel=0.5)
    assert mine.median_us[0] > 0
    assert "apt install mosquitto" in theirs.missing
    assert [cell.brokers for cell in report.cells if cell.part == "line"] == [1, 2]
    assert len(told) == len(report.cells)
    (tmp_path / "network.json").write_text(json.dumps(report.to_json()), encoding="utf-8")
    assert Report.read(tmp_path / "network.json").cells == report.cells
    assert "mosquitto is not installed" in report.markdown()


def test_goals_are_judged_by_ratios_of_one_round(tmp_path: Path) -> None:
    report = report_of(
        Cell("throughput", FAIRLEAD, 1, 10_000, 1, [200.0, 90.0], [1.0, 1.0], [1.0, 1.0]),
        Cell("throughput", MOSQUITTO, 1, 10_000, 1, [100.0, 100.0], [1.0, 1.0], [1.0, 1.0]),
        Cell("latency", FAIRLEAD, 1, 10_000, 1, [1.0, 1.0], [50.0, 60.0], [1.0, 1.0]),
        Cell("latency", MOSQUITTO, 1, 10_000, 1, [1.0, 1.0], [20.0, 20.0], [1.0, 1.0]),
        Cell("durable", FAIRLEAD, 1, 0, 1, [50.0, 70.0], [1.0, 1.0], [1.0, 1.0]),
        Cell("durable", NATS, 1, 0, 1, [10.0, 10.0], [1.0, 1.0], [1.0, 1.0]),
        Cell("line", FAIRLEAD, 1, 0, 1, [100.0, 100.0], [1.0, 1.0], [1.0, 1.0]),
        Cell("line", FAIRLEAD, 1, 0, LINE, [60.0, 60.0], [1.0, 1.0], [1.0, 1.0]),
    )
    assert [goal.met for goal in report.goals()] == [True, False, True, True]
    draw(report, tmp_path / "network.png")
    assert (tmp_path / "network.png").stat().st_size > 10_000


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
