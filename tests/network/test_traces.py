"""Live brokers trace what happens at their interfaces; the traces of all, as one, satisfy the specifications."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead import sync
from fairlead.audit import (
    Event,
    Notified,
    Published,
    Report,
    TopologyChanged,
    TraceRefused,
    Verdict,
    audit,
    merging,
)
from fairlead.audit.merging import merged
from fairlead.cli import main
from fairlead.errors import BrokerRefused
from fairlead.network.destinations import Durable
from fairlead.network.node import Node
from fairlead.network.tracing import Tracer
from fairlead_lab.testing.brokers import Brokers
from fairlead_lab.testing.chaos import Plan, World

FAULTS = ["reset", "kill", "pause", "partition", "slow disk", "crash a client"]
LIVE = ("simple", "fifo")


def run(plan: Plan, sample: float = 1.0) -> list[Event]:
    """What all brokers have traced in a run with faults, as one trace, at rest."""
    runs: dict[str, list[list[Event]]] = {}

    def make_node(broker: Any, *arguments: Any, **named: Any) -> Node:
        node = Node(broker, *arguments, **named)
        mine = runs.setdefault(broker.name, [])
        mine.append([])
        node.trace(Tracer(broker.name, len(mine), mine[-1].append, sample=sample))
        return node

    World(plan, make_node=make_node).run()
    return [*merged([each for mine in runs.values() for each in mine], at_rest=True)]


def judged(events: list[Event]) -> Report:
    return audit(events, *LIVE)


PLANS = st.builds(
    Plan,
    seed=st.integers(0, 10_000),
    brokers=st.integers(1, 4),
    steps=st.sampled_from([400, 900]),
    faults=st.frozensets(st.sampled_from(FAULTS)),
)


@settings(max_examples=settings.default.max_examples // 4)
@given(PLANS)
def test_the_specifications_hold_of_the_traces_of_all_brokers(plan: Plan) -> None:
    report = judged(run(plan))
    assert report.verdict is Verdict.HOLDS, [each for each in report if each.violations]


def test_a_sample_is_the_same_at_every_broker() -> None:
    plan = Plan(seed=5, brokers=3, steps=900, faults=frozenset({"kill", "reset"}))
    events, whole = run(plan, 0.4), run(plan)
    chosen = {each.identity for each in events if isinstance(each, Published)}
    assert judged(events).verdict is Verdict.HOLDS
    assert 0 < len(chosen) < len([each for each in whole if isinstance(each, Published)])
    assert [each.identity for each in whole if isinstance(each, Notified) and each.identity in chosen]
    assert {each.identity for each in events if isinstance(each, Notified)} <= chosen


# -- mutants ---------------------------------------------------------------------------------------------


def lossy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A durable subscriber that reads on behind a record without having it."""
    send_record = Durable.send_record
    monkeypatch.setattr(
        Durable, "send_record", lambda self, record: record.offset % 5 and send_record(self, record)
    )


def repeating(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that hands out every copy that arrives, once more."""
    deliver = Durable.deliver

    def twice(self: Durable, *arguments: Any) -> None:
        deliver(self, *arguments)
        self._trace(arguments[1].ids, arguments[2])

    monkeypatch.setattr(Durable, "deliver", twice)


def unmarked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traces without barriers: what came before a subscription seems to be owed to it."""
    monkeypatch.setattr(Tracer, "barrier", lambda *_: None)


def again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traces that do not say when what was not accepted is handed out again."""
    monkeypatch.setattr(Tracer, "again", lambda *_: None)


FAULTY = [
    Plan(seed, brokers, 900, frozenset(faults), durables=3)
    for seed, brokers, faults in [
        (1, 2, ("reset",)),
        (2, 3, ("kill", "reset")),
        (3, 4, ("partition", "crash a client")),
        (4, 3, ("kill", "pause", "reset")),
        (6, 4, ("reset", "kill")),
    ]
]


def verdicts() -> set[Verdict]:
    found = set()
    for plan in FAULTY:
        try:
            found.add(judged(run(plan)).verdict)
        except AssertionError:
            continue  # the run does not come to rest
    return found


def test_the_runs_of_the_mutants_hold_without_them() -> None:
    assert verdicts() == {Verdict.HOLDS}


@pytest.mark.parametrize("mutant", [lossy, repeating, unmarked, again_and_again])
def test_what_goes_wrong_is_found_in_the_traces(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    assert Verdict.VIOLATED in verdicts()


# -- over sockets ----------------------------------------------------------------------------------------


def test_a_network_is_judged_by_the_traces_of_its_brokers_over_restarts(
    brokers: Brokers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub = brokers.start("hub", tmp_path)
    east = brokers.start("east", tmp_path, links=(hub.url,))
    with sync.connect(east.url) as client:
        client.publish({"x": 0})
        with client.subscribe("x >= 1", durable="desk"):
            pass
    for server in (hub, east):
        assert main(["broker", "trace", "-b", server.url]) == 0
    with sync.connect(hub.url) as producer, sync.connect(east.url) as client:
        with client.subscribe("x >= 1", durable="desk") as subscription:
            for number in (1, 2):
                producer.publish({"x": number})
                assert subscription.get(30).get("x") == number
        port = east.port
    brokers.stop(east)
    east = brokers.start("east", tmp_path, port, links=(hub.url,))
    with sync.connect(hub.url) as producer, sync.connect(east.url) as client:
        producer.publish({"x": 3})
        with client.subscribe("x >= 1", durable="desk") as subscription:
            assert [subscription.get(30).get("x") for _ in range(1)] == [3]
    one = tmp_path / "one.jsonl"
    assert main(["audit", str(tmp_path), "--at-rest", "--merged", str(one)]) == 0
    assert main(["audit", str(one), "--spec", "simple"]) == 0
    assert "violated" not in capsys.readouterr().out
    for file in (tmp_path / "east" / "traces").glob("*.jsonl"):
        lines = [line for line in file.read_text().splitlines() if '"notify"' not in line]
        file.write_text("\n".join([*lines, '{"v":1,"ev']))  # the last line as kill -9 leaves it
    assert main(["audit", str(tmp_path), "--at-rest"]) == 1
    assert main(["audit", str(tmp_path)]) == 0, "without an end, what is missing is open"
    assert main(["broker", "trace", "-b", east.url, "--off"]) == 0
    assert not (tmp_path / "east" / "traces" / "on").exists()


def test_what_cannot_be_traced_or_judged_is_refused(
    brokers: Brokers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        sync.connect(brokers.start("hub").url) as client,
        pytest.raises(BrokerRefused, match="without a log"),
    ):
        client.trace()
    with sync.connect(brokers.start("east", tmp_path).url) as client:
        with pytest.raises(BrokerRefused, match="a sample is more than 0"):
            client.trace(2.0)
        client.trace()
        client.trace(0.5)
        client.trace(None)
    assert main(["audit", str(tmp_path)]) == 2
    assert "different samples" in capsys.readouterr().err
    plain = tmp_path / "plain.jsonl"
    plain.write_text('{"v":1,"event":"end"}\n')
    assert main(["audit", str(plain), "--at-rest"]) == 2
    assert main(["audit", str(plain), str(plain)]) == 2
    assert "does not begin with the name of its broker" in capsys.readouterr().err


def test_traces_that_wait_for_one_another_are_refused() -> None:
    def begun(broker: str) -> Event:
        return TopologyChanged(merging.BROKER, {"broker": broker, "run": 1, "sample": 1.0})

    def about(change: str, number: int) -> Event:
        return TopologyChanged(change, {"barrier": ["x", number]})

    one = [begun("a"), about(merging.ACKNOWLEDGED, 1), about(merging.BARRIER, 2)]
    other = [begun("b"), about(merging.ACKNOWLEDGED, 2), about(merging.BARRIER, 1)]
    with pytest.raises(TraceRefused, match="contradict"):
        [*merged([one, other])]
    with pytest.raises(TraceRefused, match="two traces of the run 1"):
        [*merged([one, one])]
