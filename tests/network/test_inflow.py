"""The inflow of a connection is one state of a few: when it is read from, and when it has a turn.

Compared with flags, of which a table has no need.
"""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model import Notification
from fairlead.model.packed import pack
from fairlead.network import wire
from fairlead.network.addresses import Address
from fairlead.network.client import connect
from fairlead.network.inflow import DUE, READS, TABLES, Event, Inflow, State, rendered
from fairlead.network.server import Server
from fairlead.network.settings import BrokerSettings
from fairlead_lab.testing.brokers import on_a_loop
from fairlead_lab.testing.nodes import Line

LIMIT = 10


@dataclass
class Flags:
    """The definition, as conditions that may come together in any way."""

    kind: str
    held: int = 0
    blocked: bool = False
    choked: bool = False
    ended: bool = False

    @property
    def is_read(self) -> bool:
        if self.kind == "link":
            return not self.ended and self.held <= LIMIT
        return not (self.ended or self.held or self.blocked or self.choked)

    @property
    def is_due(self) -> bool:
        return bool(self.held) and not (self.blocked or self.choked or self.ended)


steps = st.lists(
    st.tuples(
        st.sampled_from(["hold", "block", "unblock", "choke", "unchoke", "turn", "end"]), st.integers(1, 7)
    ),
    max_size=30,
)


@pytest.mark.parametrize("kind", sorted(TABLES))
@given(steps=steps)
def test_an_inflow_is_what_the_flags_would_say(kind: str, steps: list[tuple[str, int]]) -> None:
    flags, inflow = Flags(kind), Inflow(kind, LIMIT if kind == "link" else None)
    for step, size in steps:
        frame = (wire.PUBLISH, b"x" * size)
        if step in ("hold", "block") and not flags.ended:
            is_blocked = step == "block" and not flags.held
            flags.held += size
            flags.blocked = flags.blocked or is_blocked
            inflow.hold([frame], blocked=is_blocked)
        elif step == "unblock" and flags.blocked:
            flags.blocked = False
            inflow.on(Event.UNBLOCK)
        elif step == "choke" and kind == "client" and not flags.ended:
            flags.choked = True
            inflow.on(Event.CHOKE)
        elif step == "unchoke" and flags.choked and not flags.ended:
            flags.choked = False
            inflow.on(Event.UNCHOKE)
        elif step == "turn" and flags.is_due:
            assert sum(len(payload) for _, payload in inflow.take()) == flags.held
            flags.held = 0
        elif step == "end":
            flags = Flags(kind, ended=True)
            inflow.end()
        assert (inflow.is_read, inflow.is_due) == (flags.is_read, flags.is_due), inflow
        assert (inflow.is_blocked, inflow.is_choked) == (flags.blocked, flags.choked), inflow
        assert inflow.is_open == (not (flags.held or flags.choked or flags.ended))
        assert inflow.size == flags.held


@pytest.mark.parametrize("kind", sorted(TABLES))
def test_every_state_can_be_reached_and_left_again(kind: str) -> None:
    table = TABLES[kind]
    assert reached_from(kind, State.READING) == set(table)
    for state in set(table) - {State.ENDED}:
        assert State.READING in reached_from(kind, state), state
    assert reached_from(kind, State.ENDED) == {State.ENDED}


def reached_from(kind: str, first: State) -> set[State]:
    reached, ahead = {first}, [first]
    while ahead:
        for state in set(TABLES[kind][ahead.pop()].values()) - reached:
            reached.add(state)
            ahead.append(state)
    return reached


@pytest.mark.parametrize("kind", sorted(TABLES))
def test_a_connection_that_is_not_read_from_waits_for_something_that_comes(kind: str) -> None:
    """It has a turn, or an event of the other side's lets it go on."""
    for state, row in TABLES[kind].items():
        if state not in READS[kind] and state not in DUE and state is not State.ENDED:
            assert {Event.UNBLOCK, Event.UNCHOKE} & row.keys(), state


def test_an_event_that_cannot_happen_is_an_error() -> None:
    with pytest.raises(KeyError):
        Inflow("client").on(Event.UNBLOCK)
    with pytest.raises(KeyError):
        Inflow("link").on(Event.CHOKE)


def test_a_table_has_a_text_form() -> None:
    lines = rendered("link").splitlines()
    assert lines[:4] == [
        "read  reading",
        "          hold ─▶ waiting for its turn",
        "          block ─▶ blocked",
        "          end ─▶ ended",
    ]
    assert str(Inflow("client")) == "reading"


# -- what has ended is freed ---------------------------------------------------------------------------------


@contextmanager
def without_the_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("says_goodbye", [True, False])
def test_a_session_that_has_ended_is_freed_without_the_cycle_collector(says_goodbye: bool) -> None:
    line = Line(1)
    subscriber, publisher = line.client(0, "s"), line.client(0, "p")
    subscriber.hear(wire.control(wire.Subscribe(1, "s1", "x > 0")))
    publisher.hear(wire.publish(1, pack(Notification.of({"x": 1, "producer": "p", "id": "1"}))))
    line.settle()
    freed = [weakref.ref(each) for end in (subscriber, publisher) for each in (end, end.session)]
    with without_the_collector():
        for end in (subscriber, publisher):
            if says_goodbye:
                end.hear(wire.control(wire.Bye("")))
            else:
                line.nodes[0].lost(end.session)
            end.session = None  # type: ignore[assignment]  # as the server does
        line.settle()
        del subscriber, publisher, end
        assert [each() for each in freed] == [None] * 4


@on_a_loop
async def test_a_connection_that_has_ended_is_freed_without_the_cycle_collector() -> None:
    server = Server(BrokerSettings("b", Address("127.0.0.1", 0), None))
    await server.start()
    try:
        with without_the_collector():
            freed: list[weakref.ref[Any]] = []
            async with connect(server.url, name="c") as client:
                await client.subscribe("x > 0").installed()
                await client.publish({"x": 1})
                for connection in server.connections:
                    freed += [weakref.ref(connection), weakref.ref(connection.session)]
                del connection
            await until(lambda: all(each() is None for each in freed))
            assert len(freed) == 2
    finally:
        await server.stop()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)
