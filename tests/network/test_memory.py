"""All connections of a broker share one budget of memory, and the one that holds most goes first."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import BrokerRefused
from fairlead.network import interests, sync, wire
from fairlead.network.client_sessions import ClientSession
from fairlead.network.memory import Holder, Memory
from fairlead.network.node import Node
from fairlead.network.settings import BrokerSettings, Limits
from fairlead_lab.testing.brokers import Brokers
from fairlead_lab.testing.nodes import End

Until = Callable[[Callable[[], object]], None]
MIB = 1 << 20


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(1, 300))
def test_after_a_look_the_rest_is_within_the_budget_and_none_was_larger_than_those_that_went(
    sizes: list[int], budget: int
) -> None:
    memory, left = Memory(budget), dict(enumerate(sizes))
    gone: list[int] = []

    def holders() -> list[Holder]:
        return [
            Holder(str(n), size, lambda reason, n=n: gone.append(left.pop(n))) for n, size in left.items()
        ]

    memory.add(holders)
    memory.check()
    assert sum(left.values()) <= budget
    assert memory.used == sum(left.values())
    assert not gone or not left or min(gone) >= max(left.values())
    assert bool(gone) == (sum(sizes) > budget)
    assert (memory.ended, memory.peak) == (len(gone), sum(sizes))


def test_it_is_looked_as_often_as_a_part_of_the_budget_has_come_in() -> None:
    memory, looks = Memory(1_600), list[int]()
    memory.add(lambda: looks.append(1) or [])  # type: ignore[func-returns-value]
    for _ in range(1_000):
        memory.grow(1)
    assert len(looks) == 10


def deaf(port: int, name: str, filter: str) -> socket.socket:
    """A subscriber that never reads."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    hello = wire.control(wire.Hello(wire.VERSION, "client", name))
    connection.sendall(hello + wire.control(wire.Subscribe(1, "s", filter)))
    return connection


def test_subscribers_that_never_read_go_and_one_that_reads_stays(brokers: Brokers, until: Until) -> None:
    server = brokers.start("b", limits=Limits(memory_bytes=16 * MIB))
    deafs = [deaf(server.port, f"deaf{n}", "exists x") for n in range(6)]
    until(lambda: len(server.node.broker.subscriptions) == 6)
    with (
        sync.connect(server.url, name="reader") as reader,
        reader.subscribe("exists x") as heard,
        sync.connect(server.url, name="source") as source,
    ):
        for n in range(100):
            source.publish({"x": n, "pad": "z" * 300_000})
            assert heard.get(timeout=15).get("x") == n
            assert server.node.memory.used <= 17 * MIB
        shown = source.status()["memory"]
        assert shown["ended"] >= 4
        assert shown["peak"] <= 20 * MIB
        assert {"reader", "source"} <= server.node.clients.keys()
    for each in deafs:
        each.close()


def test_frames_that_are_never_finished_take_no_more_than_the_budget(brokers: Brokers, until: Until) -> None:
    server = brokers.start("b", limits=Limits(memory_bytes=4 * MIB))
    begun = wire.control(wire.Hello(wire.VERSION, "client", "x" * 900_000))[:800_000]
    connections = []
    for _ in range(30):
        connections.append(socket.create_connection(("127.0.0.1", server.port)))
        try:
            connections[-1].sendall(begun)
        except OSError:  # the broker has ended it
            continue
    until(lambda: server.node.memory.ended >= 20)
    assert server.node.memory.peak <= 8 * MIB
    with sync.connect(server.url, name="other") as other:
        other.publish({"x": 1})
    for each in connections:
        each.close()


def test_filters_take_no_more_than_the_budget(brokers: Brokers, until: Until) -> None:
    server = brokers.start("b", limits=Limits(memory_bytes=4 * MIB))
    with sync.connect(server.url, name="small") as small, small.subscribe("exists x") as heard:
        with socket.create_connection(("127.0.0.1", server.port)) as large:
            large.sendall(wire.control(wire.Hello(wire.VERSION, "client", "large")))
            with contextlib.suppress(OSError):  # the broker has ended it
                for n in range(100):
                    filter = f'a = "{n:06}{"z" * 60_000}"'
                    large.sendall(wire.control(wire.Subscribe(n + 1, f"s{n}", filter)))
            until(lambda: server.node.memory.ended == 1)
            until(lambda: len(server.node.broker.subscriptions) == 1)
        assert server.node.memory.peak <= 5 * MIB
        small.publish({"x": 1})
        assert heard.get(timeout=15).get("x") == 1


def test_a_filter_counts_until_it_is_taken_back() -> None:
    node = Node(BrokerSettings("b", advertisements="simple").broker(), None, life="b")
    end = End(node)
    end.session = session = node.greet(end, wire.Hello(wire.VERSION, "client", "one"))
    assert isinstance(session, ClientSession)

    def held(*messages: wire.Control) -> int:
        for message in messages:
            end.hear(wire.control(message))
            node.flush()
            while node.is_busy:
                node.flush()
        assert session.held_bytes >= session.filter_bytes
        return session.filter_bytes

    plain = held(wire.Subscribe(1, "s", "x = 1"))
    assert plain >= 1_000
    assert held(wire.Subscribe(2, "s", "y = 1")) == plain  # the id is taken
    listed = ", ".join(map(str, range(1_000)))
    large = held(wire.Advertise(3, "s", f"x in {{{listed}}}")) - plain
    assert large > 1_200_000
    assert held(wire.Listen(4, "s", "x = 1")) == 2 * plain + large
    assert held(wire.Unsubscribe(5, "s"), wire.Listen(6, "s", "")) == large
    assert held(wire.Unadvertise(7, "s")) == 0


def test_filters_of_durable_subscribers_take_half_of_the_budget_and_the_next_is_refused(
    brokers: Brokers, tmp_path: Path
) -> None:
    limits = Limits(memory_bytes=4 * MIB)
    server = brokers.start("b", tmp_path, limits=limits)
    filters = [f'a = "{n:06}{"z" * 60_000}"' for n in range(40)]
    with sync.connect(server.url, name="desk") as client:
        for n, filter in enumerate(filters[:16]):
            client.subscribe(filter, durable=f"d{n}").close()
        with pytest.raises(BrokerRefused, match="filters of durable subscribers"):
            client.subscribe(filters[18], durable="refused")
        assert MIB < server.node.memory.lasting <= 2 * MIB
        with client.subscribe("exists x") as heard:  # what ends with a connection still has room
            client.publish({"x": 1})
            assert heard.get(timeout=15).get("x") == 1
        client.forget("d0")
        client.subscribe(filters[-1], durable="last").close()
    held = server.node.memory.lasting
    brokers.stop(server)
    again = brokers.start("b", tmp_path, limits=limits)
    assert again.node.memory.lasting == held
    again.node.memory.check()
    assert again.node.memory.used >= held


def test_relations_between_filters_count_in_the_budget() -> None:
    node = Node(BrokerSettings("b").broker(), None, life="b")
    end = End(node)
    end.session = session = node.greet(end, wire.Hello(wire.VERSION, "client", "one"))
    assert isinstance(session, ClientSession)

    def growth(number: int, text: str) -> int:
        before = session.filter_bytes
        end.hear(wire.control(wire.Subscribe(number, f"s{number}", text)))
        node.flush()
        return session.filter_bytes - before

    for n in range(100):  # none of them covers another
        growth(n + 1, f"x > {-n} and y > {n}")
    related, unrelated = growth(101, "x > 900 and y > 900"), growth(102, "u > 900 and v > 900")
    assert related >= unrelated + 99 * interests.RELATION_BYTES


def test_nested_filters_of_a_client_stay_in_the_budget() -> None:
    node = Node(BrokerSettings("b").broker(), None, Limits(memory_bytes=8 * MIB), life="b")
    end = End(node)
    end.session = session = node.greet(end, wire.Hello(wire.VERSION, "client", "one"))
    assert isinstance(session, ClientSession)
    for n in range(1_000):
        end.hear(wire.control(wire.Subscribe(n + 1, f"s{n}", f"price > {n}")))
        node.flush()
    node.memory.check()
    assert node.memory.ended == 0
    assert len(node.broker.subscriptions) == 1_000
    assert session.filter_bytes < 7_000 * 1_000  # all pairs would take a hundred MB


def test_what_waits_in_the_log_takes_no_memory(brokers: Brokers, tmp_path: Path, until: Until) -> None:
    server = brokers.start("b", tmp_path, limits=Limits(memory_bytes=4 * MIB))
    with sync.connect(server.url, name="desk") as client, client.subscribe("exists x", durable="desk"):
        pass
    with sync.connect(server.url, name="source") as source:
        for n in range(30):
            source.publish({"x": n, "pad": "z" * 300_000})
    assert server.node.memory.ended == 0
    with (
        sync.connect(server.url, name="desk") as client,
        client.subscribe("exists x", durable="desk") as desk,
    ):
        assert [desk.get(timeout=15).get("x") for _ in range(30)] == list(range(30))


def test_the_law_would_see_a_budget_that_nobody_enforces(brokers: Brokers, until: Until) -> None:
    server = brokers.start("b", limits=Limits(memory_bytes=1 << 40))
    deafs = [deaf(server.port, f"deaf{n}", "exists x") for n in range(3)]
    until(lambda: len(server.node.broker.subscriptions) == 3)
    with sync.connect(server.url, name="source") as source:
        for n in range(40):
            source.publish({"x": n, "pad": "z" * 300_000})
        until(lambda: server.node.memory.used > 20 * MIB)
    for each in deafs:
        each.close()


def test_the_texts_of_filters_that_are_remembered_are_bounded_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interests, "TEXTS_SIZE_MAX", 1_000)
    node = Node(BrokerSettings("b").broker(), None, life="b")
    for n in range(100):
        text = f'x = "{n}{"z" * 90}"'
        assert node.interests.filter(text) is node.interests.filter(text)
        assert sum(map(len, node.interests._texts)) <= 1_000
