"""A bus with a log: history, durable subscribers and transactions that outlive the process.

The plans of the laws are run against a bus whose directory is copied at each crash: the copy is what a killed
process leaves behind.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fairlead import Bus, Channel, Instant, Notification, Retain
from fairlead.bus.durable import Durable
from fairlead.bus.history import History, LogFile
from fairlead.bus.replaying import Replaying
from fairlead.errors import LogFull, LogInUse, SubscriptionRefused, TransactionRefused
from fairlead.log import Disk, Log

FILTERS = {"all": "exists x", "few": "x >= 5"}


def identity(delivery: Any) -> tuple[str, int]:
    return delivery.notification.id, delivery.notification.get("x")


def drained(subscription: Any) -> list[tuple[str, int]]:
    """All that waits, each accepted."""
    got = []
    while True:
        try:
            delivery = subscription.get_delivery(0)
        except TimeoutError:
            return got
        delivery.accept()
        got.append(identity(delivery))


@pytest.fixture(autouse=True)
def no_disk_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are not synced: a process that is killed leaves what it has written."""
    monkeypatch.setattr(Disk, "sync", lambda self, file: None)
    monkeypatch.setattr(Disk, "sync_directory", lambda self, path: None)


# -- the law ---------------------------------------------------------------------------------------------------


@dataclass
class Reference:
    """A list of publications, and of each durable subscriber what it may still get: the whole meaning."""

    published: list[tuple[str, int]] = field(default_factory=list)
    pending: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    """By durable subscriber, the publications that it has not accepted."""

    def publish(self, id: str, x: int) -> None:
        self.published.append((id, x))
        for name, pending in self.pending.items():
            if name == "all" or x >= 5:
                pending.append((id, x))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["publish", "publish", "group"]), st.integers(0, 9)),
        st.tuples(st.sampled_from(["accept", "hold"]), st.just("all")),
        st.tuples(st.sampled_from(["accept", "hold", "reject", "leave"]), st.sampled_from([*FILTERS])),
        st.tuples(st.just("crash"), st.just(0)),
    ),
    min_size=6,
    max_size=25,
)


def run_plan(steps: list[tuple[str, Any]], directory: Path, held_max: int) -> None:
    """Run a plan on a bus and on the reference; an AssertionError where they differ."""
    if directory.exists():
        shutil.rmtree(directory)
    bus, reference, life = Bus(log=directory / "0"), Reference(), 0
    active: dict[str, Any] = {}
    held: dict[str, list[tuple[str, int]]] = {}

    def subscribe(name: str) -> Any:
        if name not in active:
            active[name] = bus.subscribe(FILTERS[name], durable=name)
            active[name]._receiver.held_max = held_max
            reference.pending.setdefault(name, [])
            held[name] = []
        return active[name]

    def take(name: str) -> Any:
        subscription = subscribe(name)
        expected = [each for each in reference.pending[name] if each not in held[name]]
        try:
            delivery = subscription.get_delivery(0)
        except TimeoutError:
            assert not expected or len(held[name]) == held_max, "it is there, and does not come"
            return None
        assert identity(delivery) in expected, f"{delivery} was accepted, is held, or was never published"
        return delivery

    subscribe("all")
    for kind, value in steps:
        if kind == "publish":
            reference.publish(bus.publish({"x": value}).id, value)
        elif kind == "group":
            with bus.transaction() as t:
                members = [(t.publish({"x": x}).id, x) for x in (value, 9 - value)]
            for member in members:
                reference.publish(*member)
        elif kind == "crash":
            life += 1
            shutil.copytree(directory / str(life - 1), directory / str(life))
            bus.close()
            bus, active, held = Bus(log=directory / str(life)), {}, {}
        elif kind == "leave":
            if value in active:
                active.pop(value).close()
        elif (delivery := take(value)) is not None:
            if kind == "accept":
                assert delivery.accept()
                reference.pending[value].remove(identity(delivery))
            elif kind == "hold":
                held[value].append(identity(delivery))
            else:
                delivery.reject(again=True)
    for each in active.values():
        each.close()
    for name in list(reference.pending):
        active.pop(name, None)
        assert drained(subscribe(name)) == reference.pending[name]
    seen: list[tuple[str, int]] = []
    bus.subscribe("exists x", lambda n: seen.append((n.id, n.get("x"))), since=0)
    assert seen == reference.published
    bus.close()


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, held_max=st.integers(1, 4))
def test_unaccepted_deliveries_come_again_and_accepted_ones_do_not(
    steps: list[tuple[str, Any]], held_max: int, tmp_path: Path
) -> None:
    run_plan(steps, tmp_path / "log", held_max)


def _nothing(*arguments: object) -> None:
    return None


def _write_nothing(self: Bus, members: list[Notification], id: object, settled: object) -> list[int]:
    return [0] * len(members)


def _settle_too_far(self: History, name: str, offset: int | None, cursor: int | None) -> None:
    REAL_SETTLE(self, name, offset, self.end)


def _settle_without_cursor(self: History, name: str, offset: int | None, cursor: int | None) -> None:
    if cursor is not None and offset is not None and offset < cursor:
        return
    REAL_SETTLE(self, name, offset, cursor)


def _read_one_less(self: Replaying, receiver: Durable) -> None:
    receiver.read_to(receiver.offset + 1, self.history.end)
    REAL_READ_ON(self, receiver)


def _read_twice(self: Durable, offset: int, end: int) -> None:
    REAL_READ_TO(self, max(0, offset - 1), end)


REAL_SETTLE, REAL_READ_ON, REAL_READ_TO = History.settle, Replaying.read_on, Durable.read_to

MUTANTS: dict[str, tuple[type, str, Callable[..., Any]]] = {
    "accepting is not written": (History, "settle", _nothing),
    "the cursor passes what is held": (History, "settle", _settle_too_far),
    "the cursor does not move": (History, "settle", _settle_without_cursor),
    "settled ones beyond the cursor come again": (History, "is_settled", lambda self, name, offset: False),
    "a record is skipped when a subscriber reads on": (Replaying, "read_on", _read_one_less),
    "a transaction is not in the log": (
        Bus,
        "_write_group",
        lambda self, members, id, settled: [0] * len(members),
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_plans_catch_each_mutant(mutant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*MUTANTS[mutant])

    @settings(
        deadline=None,
        max_examples=300,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
    )
    @given(steps=STEPS, held_max=st.integers(1, 4))
    def search(steps: list[tuple[str, Any]], held_max: int) -> None:
        run_plan(steps, tmp_path / "log", held_max)

    with pytest.raises((AssertionError, TypeError, KeyError)):
        search()


# -- transactions that accept -----------------------------------------------------------------------------------


def squares_of(directory: Path) -> list[int]:
    """The results in a log, when all jobs of it have been worked on, each in a transaction."""
    with Bus(log=directory) as bus:
        jobs = bus.subscribe("exists x", durable="jobs")
        while True:
            try:
                with bus.transaction(jobs) as t:
                    t.publish({"square": jobs.get(0).get("x") ** 2})
            except TimeoutError:
                break
        results: list[int] = []
        bus.subscribe("exists square", lambda n: results.append(n.get("square")), since=0)
    return sorted(results)


def states_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The directories that kills at all moments of a run leave behind: three jobs, each worked on once."""
    with Bus(log=tmp_path / "log") as bus:
        bus.subscribe("exists x", durable="jobs").close()
        for x in (1, 2, 3):
            bus.publish({"x": x})
    states: list[Path] = []

    def copied(call: Callable[[Log], Any]) -> Callable[[Log], Any]:
        def calling(self: Log) -> Any:
            states.append(tmp_path / f"state-{len(states)}")
            shutil.copytree(tmp_path / "log", states[-1])
            return call(self)

        return calling

    with monkeypatch.context() as patch:
        patch.setattr(Log, "sync", copied(Log.sync))
        patch.setattr(Log, "flush", copied(Log.flush))
        assert squares_of(tmp_path / "log") == [1, 4, 9]
    return [*states, tmp_path / "log"]


def test_a_job_that_is_accepted_with_its_result_has_one_whenever_the_process_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = states_of_a_run(tmp_path, monkeypatch)
    assert len(states) > 6
    assert [squares_of(each) for each in states] == [[1, 4, 9]] * len(states)


def test_accepting_apart_from_the_results_makes_some_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = History.write_group
    monkeypatch.setattr(
        History,
        "write_group",
        lambda self, members, now, transaction, settled: real(self, members, now, transaction),
    )
    states = states_of_a_run(tmp_path, monkeypatch)
    assert any(squares_of(each) != [1, 4, 9] for each in states)


def test_a_transaction_that_is_aborted_gives_back_what_it_took() -> None:
    bus = Bus()
    jobs, results = bus.subscribe("exists x", accept="each"), bus.subscribe("exists y")
    bus.publish({"x": 1})
    with pytest.raises(ZeroDivisionError), bus.transaction(jobs) as t:
        t.publish({"y": jobs.get(0).get("x") / 0})
    with bus.transaction(jobs) as t:
        delivery = jobs.get_delivery(0)
        assert delivery.attempt == 2
        t.publish({"y": 1})
    assert len(results) == 1
    assert not delivery.accept()
    with pytest.raises(TimeoutError):
        jobs.get(0)


def test_a_delivery_that_is_anothers_by_now_refuses_the_transaction() -> None:
    now = 0
    bus = Bus(clock=lambda: Instant(now))
    one, two = (bus.subscribe("exists x", subscriber="w", shared=True, accept_within="1s") for _ in range(2))
    bus.publish({"x": 1})
    t = bus.transaction(one)
    with t:
        one.get_delivery(0)
        t.publish({"y": 1})
        now = 2_000_000
        assert two.get_delivery(0).attempt == 2
        with pytest.raises(TransactionRefused, match="another's"):
            t.commit()
    assert bus.statistics().published == 1
    with pytest.raises(TransactionRefused, match="not accepted"):
        bus.transaction(bus.subscribe("exists x"))


# -- single cases ------------------------------------------------------------------------------------------------


def test_history_comes_first_and_then_what_follows_without_a_gap(tmp_path: Path) -> None:
    now, seen = 0, list[int]()
    with Bus(log=tmp_path, clock=lambda: Instant(now)) as bus:
        for now in range(10):
            bus.publish({"x": now})

        def take(notification: Notification) -> None:
            seen.append(notification.get("x"))
            if len(seen) == 3:  # in the midst of history
                bus.publish({"x": 10})

        bus.subscribe("exists x", take, since=Instant(4))
        bus.publish({"x": 11})
    assert seen == [4, 5, 6, 7, 8, 9, 10, 11]


def test_threads_that_publish_while_a_slow_subscriber_reads_on_lose_nothing(tmp_path: Path) -> None:
    bus = Bus(log=tmp_path)
    jobs = bus.subscribe("exists x", durable="jobs", shared=True)
    jobs._receiver.held_max = 3  # type: ignore[attr-defined]

    def publish(first: int) -> None:
        for x in range(first, first + 50):
            bus.publish({"x": x})

    threads = [threading.Thread(target=publish, args=(first,)) for first in (0, 50)]
    for each in threads:
        each.start()
    got = [jobs.get(60).get("x") for _ in range(100)]
    for each in threads:
        each.join()
    assert sorted(got) == [*range(100)]
    assert [x for x in got if x < 50] == [*range(50)]
    bus.close()


def test_identities_transactions_and_equal_records_outlive_the_process(tmp_path: Path) -> None:
    with Bus(log=tmp_path) as bus:
        first = bus.publish({"x": 1})
        bus.publish({"id": "a", "x": 2})
        with bus.transaction(id="t", producer="p") as t:
            t.publish({"x": 3})
    with Bus(log=tmp_path) as bus:
        again = bus.publish({"x": 1})
        assert again is not None
        assert first is not None
        assert again.id != first.id, "an equal record is another notification, in a later process, too"
        assert bus.publish({"id": "a", "x": 2}) is None
        t = bus.transaction(id="t", producer="p")
        t.publish({"x": 3})
        assert not t.commit()


def test_attempts_outlive_the_process(tmp_path: Path) -> None:
    letters: list[Notification] = []
    with Bus(log=tmp_path) as bus:
        jobs = bus.subscribe("exists x", durable="jobs", attempts_max=2)
        bus.publish({"x": 1})
        jobs.get_delivery(0).reject(again=True)
    with Bus(log=tmp_path) as bus:
        bus.subscribe('type = "dead"', letters.append)
        jobs = bus.subscribe("exists x", durable="jobs", attempts_max=2)
        delivery = jobs.get_delivery(0)
        assert delivery.attempt == 2
        delivery.reject(again=True)
        assert [each.get("attempts") for each in letters] == [2]
        assert drained(jobs) == []


def test_retained_values_outlive_the_process_and_what_leaves_the_log(tmp_path: Path) -> None:
    now = 0
    quotes = Channel("quotes", "exists symbol", retain=Retain(per=("symbol",), count=2))
    log = LogFile(tmp_path, keep="1s", segment_bytes=4096)

    def begun() -> Bus:
        return Bus(log=log, clock=lambda: Instant(now), channels=[quotes])

    with begun() as bus:
        for price in (1, 2, 3):
            bus.publish({"symbol": "IBM", "price": price})
        for life in range(3):
            for number in range(1500):
                now += 10_000
                bus.publish({"filler": number, "life": life})
        assert bus._replaying is not None
        assert bus._replaying.history.first > 3
        bus.publish({"symbol": "SAP", "price": 9})
        cut = bus.subscribe("exists symbol", since=0)
        assert cut.is_cut
        assert cut.get(0).get("symbol") == "SAP"
    with begun() as bus:
        values = bus.subscribe("exists symbol")
        assert [values.get(0).get("price") for _ in range(3)] == [2, 3, 9]


def test_nothing_leaves_the_log_that_a_durable_subscriber_has_not_accepted(tmp_path: Path) -> None:
    log = LogFile(tmp_path, bytes_max=0, segment_bytes=2048)
    with Bus(log=log) as bus:
        slow = bus.subscribe("exists x", durable="slow")
        for x in range(3000):
            bus.publish({"x": x})
        assert bus._replaying is not None
        assert bus._replaying.history.first == 0
        assert [slow.get(0).get("x") for _ in range(3000)] == [*range(3000)]
        with pytest.raises(TimeoutError):
            slow.get(0)
        for _ in range(1100):
            bus.publish({"y": 1})
        assert bus._replaying.history.first > 3000
        assert bus.durables()[0].backlog == 0


def test_a_full_disk_refuses_the_publication_and_nobody_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Disk.write
    full = False

    def write(self: Disk, file: int, raw: bytes | memoryview, position: int) -> int:
        if full:
            raise OSError(28, "No space left on device")
        return real(self, file, raw, position)

    monkeypatch.setattr(Disk, "write", write)
    with Bus(log=tmp_path) as bus:
        all_of_them = bus.subscribe("exists x")
        full = True
        for _ in range(2):
            with pytest.raises(LogFull):
                bus.publish({"id": "a", "x": 1})
        full = False
        assert len(all_of_them) == 0
        assert bus.publish({"id": "a", "x": 1}) is not None
        assert len(all_of_them) == 1


def test_refusals_name_the_reason(tmp_path: Path) -> None:
    with pytest.raises(SubscriptionRefused, match="has no log"):
        Bus().subscribe("true", durable="a")
    with pytest.raises(SubscriptionRefused, match="an ordered bus has no log"):
        Bus(log=tmp_path, order="ordered")
    with Bus(log=tmp_path) as bus:
        with pytest.raises(LogInUse):
            Bus(log=tmp_path)
        bus.subscribe("x > 1", durable="a")
        with pytest.raises(SubscriptionRefused, match="has the filter x > 1"):
            bus.subscribe("x > 2", durable="a")
        with pytest.raises(SubscriptionRefused, match="has one filter"):
            bus.subscribe("x > 1", durable="a").change("x > 2")
        with pytest.raises(SubscriptionRefused, match="is durable"):
            bus.subscribe("x > 2", subscriber="a")
        with pytest.raises(SubscriptionRefused, match="a condition looks at what follows"):
            bus.subscribe("x > 2", durable="b", on="x changes")
        with pytest.raises(SubscriptionRefused, match="how often"):
            bus.subscribe("x > 2", print, durable="b")
        assert [each.name for each in bus.durables()] == ["a"], "what was refused has left nothing"
        assert bus.forget("a")
        assert not bus.forget("a")
        bus.subscribe("x > 2", durable="a").close()
    with Bus(log=tmp_path) as bus:
        assert [(each.name, each.filter) for each in bus.durables()] == [("a", "x > 2")]
