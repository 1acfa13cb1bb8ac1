"""One identity is delivered once, wherever and however often it is published, as long as it is remembered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.broker.delivered import Delivered
from fairlead.model import Notification
from fairlead.model.packed import identity_bytes, pack, unpack
from fairlead.network import sync, wire
from fairlead.network.ledger import Ledger
from fairlead.network.once import Once
from fairlead.network.server import Server
from fairlead_lab.testing.brokers import Brokers
from fairlead_lab.testing.nodes import End, Line

Until = Callable[[Callable[[], object]], None]

# -- the memory of what is in no log ------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(0, 40), max_size=6), max_size=30))
def test_the_latest_identities_are_known_and_others_are_new(batches: list[list[int]]) -> None:
    delivered, seen = Delivered[tuple[str, str]](10), list[int]()
    for batch in batches:
        new = delivered.take_all([("p", str(each)) for each in batch])
        for at, each in enumerate(batch):
            is_new = new is None or new[at]
            assert is_new or each in seen
            assert not is_new or each not in seen[-10:]
            if is_new:
                seen.append(each)
    assert len(delivered) <= 20 + 6


# -- in a line of brokers -----------------------------------------------------------------------------------------


def published(end: End, number: int, id: str, x: Any = 1) -> None:
    end.hear(wire.publish(number, pack(Notification.of({"x": x, "producer": "p", "id": id}))))


def delivered(end: End) -> list[str | None]:
    return [unpack(wire.parse_deliver(each)[2]).id for each in end.frames(wire.DELIVER)]


def subscribed(line: Line, at: int, name: str, *, durable: bool) -> End:
    end = line.client(at, name)
    end.hear(wire.control(wire.Subscribe(1, "s", "exists x", durable=name if durable else "")))
    line.settle()
    return end


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("logged", [False, True])
@pytest.mark.parametrize("x", [1, {"y": 1}, 1 << 80])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_copies_from_two_brokers_are_delivered_once(durable: bool, logged: bool, x: Any, at: int) -> None:
    line = Line(3)
    desk = subscribed(line, at, "desk", durable=durable)
    one, other = line.client(0, "one"), line.client(2, "other")
    for n in range(5):
        published(one, n + 1 if logged else 0, str(n), x)
    line.settle()
    for n in range(7):
        published(other, n + 1 if logged else 0, str(n), x)
    line.settle()
    assert delivered(desk) == [str(n) for n in range(7)]
    assert line.nodes[at].counters.duplicates == 5


def test_a_copy_without_a_log_does_not_make_the_one_in_the_log_known() -> None:
    line = Line(3)
    desk = subscribed(line, 1, "desk", durable=True)
    one, other = line.client(0, "one"), line.client(2, "other")
    for end, number in ((one, 0), (other, 1), (one, 0), (one, 1)):
        published(end, number, "a")
        line.settle()
    assert delivered(desk) == ["a", "a"]  # the first may have been lost: only the second one is acknowledged


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 5), st.booleans(), st.booleans()), min_size=1, max_size=25
    )
)
def test_whoever_publishes_where_each_subscriber_gets_an_identity_once(
    publications: list[tuple[int, int, bool, bool]],
) -> None:
    check_once(publications)


def check_once(publications: list[tuple[int, int, bool, bool]]) -> None:
    line = Line(3)
    desks = [
        subscribed(line, at, f"desk{at}{durable}", durable=durable) for at in range(3) for durable in (0, 1)
    ]
    clients = [line.client(at, f"p{at}") for at in range(3)]
    expected = dict[str, None]()
    for number, (at, id, is_logged, settles) in enumerate(publications, 1):
        published(clients[at], number if is_logged else 0, f"{'l' if is_logged else 'u'}{id}")
        expected[f"{'l' if is_logged else 'u'}{id}"] = None
        if settles:
            line.settle()
    line.settle()
    for desk in desks:
        counts = Counter(delivered(desk))
        assert set(counts.values()) == {1}
        assert counts.keys() == expected.keys()


def test_the_law_would_see_copies_that_are_delivered_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Once, "_is_first", lambda *rest: True)
    monkeypatch.setattr(Delivered, "take_all", lambda *rest: None)
    for is_logged in (False, True):
        with pytest.raises(AssertionError):
            check_once([(0, 1, is_logged, True), (2, 1, is_logged, True)])


# -- over sockets, and through restarts ---------------------------------------------------------------------------


def three(brokers: Brokers, path: Path, until: Until) -> list[Server]:
    """a and c, each linked with b."""
    b = brokers.start("b", path)
    a, c = (brokers.start(name, path, links=(b.url,)) for name in "ac")
    until(
        lambda: all(
            server.node.links and all(each.ready for each in list(server.node.links.values()))
            for server in (a, b, c)
        )
    )
    until(lambda: len(b.node.links) == 2)
    return [a, b, c]


def publish(url: str, ids: range) -> None:
    with sync.connect(url, name=f"p-{url}") as client:
        for id in ids:
            client.publish({"producer": "p", "id": str(id), "x": id})


def test_a_durable_subscriber_that_was_away_gets_one_of_two_copies(
    brokers: Brokers, tmp_path: Path, until: Until
) -> None:
    a, b, c = three(brokers, tmp_path, until)
    with sync.connect(b.url, name="desk") as client, client.subscribe("exists x", durable="desk"):
        pass
    publish(a.url, range(20))
    publish(c.url, range(25))
    until(lambda: b.node.counters.received == 45)
    with sync.connect(b.url, name="desk") as client, client.subscribe("exists x", durable="desk") as desk:
        assert sorted(desk.get(timeout=15).get("x") for _ in range(25)) == list(range(25))
        publish(c.url, range(99, 100))
        assert desk.get(timeout=15).get("x") == 99
    assert b.node.counters.duplicates == 20


def test_identities_are_known_after_a_restart_though_the_log_has_let_them_go(
    brokers: Brokers, tmp_path: Path, until: Until
) -> None:
    a, b, c = three(brokers, tmp_path, until)
    with sync.connect(b.url, name="desk") as client, client.subscribe("exists x", durable="desk") as desk:
        publish(a.url, range(10))
        assert [desk.get(timeout=15).get("x") for _ in range(10)] == list(range(10))
    port = b.port
    assert b.node.ledger is not None
    remembered = len(b.node.ledger.firsts)
    brokers.stop(b)
    again = brokers.start("b", tmp_path, port)
    assert again.node.ledger is not None
    assert len(again.node.ledger.firsts) == remembered == 10
    until(lambda: len(again.node.links) == 2 and all(each.ready for each in list(again.node.links.values())))
    publish(c.url, range(12))
    with sync.connect(again.url, name="desk") as client, client.subscribe("exists x", durable="desk") as desk:
        assert [desk.get(timeout=15).get("x") for _ in range(2)] == [10, 11]


def test_identities_are_known_after_a_kill_before_they_were_written(tmp_path: Path) -> None:
    packed = [pack(Notification.of({"x": n, "producer": "p", "id": str(n)})) for n in range(10)]
    ledger = Ledger(tmp_path)
    ledger.publications_of(packed[:5], 0)
    ledger.log.sync()
    ledger.firsts.begin(3, 0)
    ledger.firsts.first(identity_bytes(packed[0]), 0)  # not written: it is killed now
    ledger.log._disk.close(ledger.log._held)
    again = Ledger(tmp_path)
    firsts = [again.firsts.known(identity_bytes(each)) for each in packed]
    assert [first is not None for first in firsts] == [True] * 5 + [False] * 5
    again.close(again.log.end)
    written = Ledger(tmp_path)
    assert not written.firsts.latest
    assert [written.firsts.known(identity_bytes(each)) for each in packed] == firsts


def test_two_clients_that_detect_and_publish_give_each_composite_once(
    brokers: Brokers, tmp_path: Path, until: Until
) -> None:
    a, b, c = three(brokers, tmp_path, until)
    with (
        sync.connect(b.url, name="desk") as client,
        client.subscribe('type = "pair"', durable="desk") as desk,
        sync.connect(a.url, name="one") as one,
        sync.connect(c.url, name="other") as other,
        one.detect("pair: A followed by B", lateness="0s", publish=True) as first,
        other.detect("pair: A followed by B", lateness="0s", publish=True) as second,
        sync.connect(b.url, name="source") as source,
    ):
        for n in range(10):
            for at, kind in enumerate("AB"):
                source.publish({"type": kind, "id": f"{n}{kind}", "time": 10 * n + at})
        source.publish({"type": "B", "id": "end", "time": 1_000})
        for detection in (first, second):
            for _ in range(10):
                detection.get(timeout=15)
        until(lambda: b.node.counters.duplicates >= 10)
        source.publish({"type": "pair", "id": "last"})
        ids = []
        while "last" not in ids:
            ids.append(desk.get(timeout=15).id)
    assert len(ids) == len(set(ids)) == 11


def test_how_long_and_how_many_identities_are_remembered_can_be_set(brokers: Brokers, tmp_path: Path) -> None:
    server = brokers.start("b", tmp_path, remember_most=1_000, remember_seconds=5.0)
    ledger = server.node.ledger
    assert ledger is not None
    assert (ledger.firsts._most, ledger.firsts._time_us) == (1_000, 5_000_000)
