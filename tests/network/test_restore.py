"""A broker restored from an older copy of its log loses nothing that it acknowledges from then on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.log.copies import back_up, restore
from fairlead.log.lineage import Incarnation, Lineage
from fairlead.model import Notification
from fairlead.model.packed import pack
from fairlead.network import sync, wire
from fairlead.network.incarnations import judge, valid_end
from fairlead.network.server import Server
from fairlead_lab.testing.brokers import Brokers

Until = Callable[[Callable[[], object]], None]


def publish(url: str, first: int, count: int) -> list[int]:
    numbers = list(range(first, first + count))
    with sync.connect(url, name="p") as client:
        for number in numbers:
            client.publish({"id": str(number), "x": number})
    return numbers


def taken(url: str, at_least: set[int]) -> list[int]:
    """What a durable subscriber takes until it has all of these."""
    found: list[int] = []
    with sync.connect(url, name="desk") as client, client.subscribe("x >= 0", durable="desk") as desk:
        while not at_least <= set(found):
            found.append(desk.get(timeout=15).get("x"))
    return found


def linked_pair(brokers: Brokers, path: Path, until: Until) -> tuple[Server, Server]:
    a = brokers.start("a", path)
    b = brokers.start("b", path, links=(a.url,))
    until(lambda: "b" in a.node.links and a.node.links["b"].ready and b.node.links["a"].ready)
    with sync.connect(b.url, name="desk") as client, client.subscribe("x >= 0", durable="desk"):
        pass
    until(lambda: a.node.broker.subscriptions.of("b"))
    return a, b


@pytest.mark.parametrize("restored", ["a", "b"])
def test_what_is_acknowledged_after_a_restore_arrives(
    restored: str, brokers: Brokers, tmp_path: Path, until: Until
) -> None:
    a, b = linked_pair(brokers, tmp_path, until)
    before = publish(a.url, 0, 10)
    assert taken(b.url, set(before)) == before
    back_up(tmp_path / restored, tmp_path / "copy")
    between = publish(a.url, 100, 20)
    assert taken(b.url, set(between)) == between
    again = {"a": a, "b": b}[restored]
    port = again.port
    brokers.stop(again)
    shutil.rmtree(tmp_path / restored)
    restore(tmp_path / "copy", tmp_path / restored)
    links = (a.url,) if restored == "b" else ()
    fresh = brokers.start(restored, tmp_path, port, links=links)
    a, b = (fresh, b) if restored == "a" else (a, fresh)
    after = publish(a.url, 200, 30)
    arrived = taken(b.url, set(after))
    assert [x for x in arrived if x >= 200] == after
    if restored == "b":  # what it lost is sent again by the neighbour that has it
        assert [x for x in arrived if 100 <= x < 200] == between
    assert len(arrived) == len(set(arrived))


def test_a_connected_durable_subscriber_follows_its_broker_to_an_older_copy(
    brokers: Brokers, tmp_path: Path
) -> None:
    a = brokers.start("a", tmp_path)
    with sync.connect(a.url, name="desk") as client, client.subscribe("x >= 0", durable="desk") as desk:
        back_up(tmp_path / "a", tmp_path / "copy")
        between = publish(a.url, 100, 30)
        assert [desk.get(timeout=15).get("x") for _ in between] == between
        port = a.port
        brokers.stop(a)
        shutil.rmtree(tmp_path / "a")
        restore(tmp_path / "copy", tmp_path / "a")
        a = brokers.start("a", tmp_path, port)
        after = publish(a.url, 200, 30)
        assert [desk.get(timeout=15).get("x") for _ in after] == after


def test_a_copy_that_another_one_has_taken_the_place_of_is_refused(
    brokers: Brokers, tmp_path: Path, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = linked_pair(brokers, tmp_path, until)
    publish(a.url, 0, 5)
    port = b.port
    brokers.stop(b)
    shutil.copytree(tmp_path / "b", tmp_path / "copies" / "b")
    b = brokers.start("b", tmp_path, port, links=(a.url,))
    until(lambda: a.node.links["b"].ready)
    brokers.stop(b)
    copy = brokers.start("b", tmp_path / "copies", port, links=(a.url,))
    until(lambda: a.node.links["b"].ready)
    after = publish(a.url, 10, 5)
    assert set(after) <= set(taken(copy.url, set(after)))
    brokers.stop(copy)
    brokers.start("b", tmp_path, port, links=(a.url,))
    until(lambda: "is a copy that another one has replaced" in caplog.text)
    assert not a.node.links["b"].ready


def test_a_copy_that_runs_beside_the_linked_original_is_refused(
    brokers: Brokers, tmp_path: Path, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    a = brokers.start("a", tmp_path)
    b = brokers.start("b", tmp_path, links=(a.url,))
    until(lambda: "b" in a.node.links and a.node.links["b"].ready and b.node.links["a"].ready)
    with sync.connect(a.url, name="desk") as client, client.subscribe("x >= 0", durable="desk"):
        pass
    until(lambda: b.node.broker.subscriptions.of("a"))
    before = publish(b.url, 0, 5)
    back_up(tmp_path / "b", tmp_path / "copies" / "b")
    session = a.node.links["b"].session
    copy = brokers.start("b", tmp_path / "copies", links=(a.url,))
    until(lambda: "another process of b is connected with a" in caplog.text)
    after = []
    for number in range(100, 110):
        publish(copy.url, 1_000 + number, 1)
        after += publish(b.url, number, 1)
    assert taken(a.url, {*before, *after}) == before + after
    assert a.node.links["b"].session is session
    assert b.node.links["a"].ready
    assert not copy.node.links["a"].ready


def test_an_acknowledgement_beyond_the_log_ends_the_connection_and_changes_nothing(
    brokers: Brokers, tmp_path: Path, until: Until
) -> None:
    a, b = linked_pair(brokers, tmp_path, until)
    session = b.node.links["a"].session
    assert session is not None
    cursor = a.node.links["b"].cursor(a.node.dispatch.reached)
    b.loop.call_soon_threadsafe(lambda: (session.tell(wire.Received(2**61)), b.schedule()))
    until(lambda: session.ended)
    until(lambda: a.node.links["b"].ready)
    assert a.node.links["b"].cursor(a.node.dispatch.reached) >= cursor
    assert a.node.links["b"].cursor(a.node.dispatch.reached) < 2**60
    after = publish(a.url, 0, 5)
    assert taken(b.url, set(after)) == after


def test_a_forged_relay_ends_the_connection_and_nothing_is_lost(
    brokers: Brokers, tmp_path: Path, until: Until
) -> None:
    a, b = linked_pair(brokers, tmp_path, until)
    before = publish(a.url, 0, 5)
    session = a.node.links["b"].session
    assert session is not None
    forged = wire.relay(
        2**61, wire.NO_STAMP, pack(Notification.of({"id": "forged", "producer": "evil", "x": 999}))
    )
    a.loop.call_soon_threadsafe(lambda: (session.send(forged), a.schedule()))
    after = publish(a.url, 100, 30)
    until(lambda: session.ended)
    assert b.node.persistence.state.neighbours["a"].received < 2**60
    assert taken(b.url, {*before, *after}) == before + after


incarnations = st.lists(st.sampled_from("abcde"), unique=True, max_size=4).map(
    lambda ids: tuple(Incarnation(id, 10 * number) for number, id in enumerate(ids))
)


@given(incarnations, st.sets(st.sampled_from("abcde")), incarnations)
def test_a_superseded_and_an_earlier_incarnation_are_refused_and_no_other(
    known: Lineage, superseded: set[str], lineage: Lineage
) -> None:
    judgement = judge(known, superseded, lineage)
    ids, before = ([each.id for each in some] for some in (lineage, known))
    is_superseded = superseded & {*ids}
    is_earlier = ids and ids[-1] in before and before[-1] not in ids
    assert bool(judgement.refusal) == bool(is_superseded or is_earlier)
    if not judgement.refusal:
        assert not judgement.superseded & {each.id for each in lineage}
        again = judge(lineage, judgement.superseded, lineage)
        assert not again.refusal
        assert not again.has_gone_back


@given(st.integers(0, 50), incarnations, incarnations, st.integers(0, 50))
def test_no_more_is_valid_than_was_read_and_is_there(
    read: int, known: Lineage, lineage: Lineage, end: int
) -> None:
    assert valid_end(read, known, lineage, end) <= min(read, end)
    assert valid_end(read, lineage, lineage) == read
