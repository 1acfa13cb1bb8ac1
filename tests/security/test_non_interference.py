"""Two runs that differ only in what a principal may not see send it the same bytes.

The secrets are hidden attributes, notifications outside of its limit, and what others subscribe to. What its own
limit looks at is held equal in both: whoever wrote the limit decided to tell that.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from fairlead.broker import Broker, Settings
from fairlead.model import Notification
from fairlead.model.packed import pack
from fairlead.network import wire
from fairlead.network.client_sessions import ClientSession
from fairlead.network.ledger import Ledger
from fairlead.network.node import Node
from fairlead.routing import STRATEGIES
from fairlead.rules.access import Access, nobody
from fairlead.security import AccessPolicy, Principal, Rights
from fairlead_lab.testing.memory import MemoryDisk

POLICY = AccessPolicy.of(
    {
        "protected": ["patient"],
        "roles": {
            "ada": {
                "members": ["ada"],
                "subscribe": ['symbol = "IBM"', "patient.age > 90"],
                "durables": ["desk"],
            },
            "bob": {"members": ["bob"], "subscribe": ["true"], "reads": ["*"]},
            "nyse": {"members": ["nyse"], "publish": ["true"]},
        },
    }
)
FILTERS = (
    "true",
    "n > 3",
    'symbol = "IBM"',
    'symbol in {"IBM", "SAP"}',
    "not n > 3",
    "patient.age > 50",
    "exists patient",
)


class Peer:
    """The other end of a connection: all that is sent to it."""

    def __init__(self) -> None:
        self.got = b""

    def write(self, data: bytes) -> None:
        self.got += data

    def buffered(self) -> int:
        return 0

    def close(self) -> None:
        """It has ended."""

    pause = resume = close


def seen_by_ada(
    published: list[tuple[str, int, int]], asked: tuple[str, ...], others: tuple[str, ...], *, durable: bool
) -> bytes:
    """All bytes that ada is sent, while others subscribe and publish: symbols, numbers, and ages of patients."""
    rules = [Access(POLICY, nobody)]
    node = Node(
        Broker("hub", Settings(STRATEGIES["covering"](0.1)), rules=rules),
        Ledger("/log", MemoryDisk()),
        life="1",
    )
    sessions: dict[str, tuple[Peer, ClientSession]] = {}
    for name in ("ada", "bob", "nyse"):
        hello = wire.Hello(wire.VERSION, "client", name, life=name, routing="filters")
        peer = Peer()
        session = node.greet(peer, hello, 1, Principal(name))
        assert isinstance(session, ClientSession)
        node.flush()
        peer.got = b""  # the welcome has the identity of the log, which is random
        sessions[name] = peer, session

    def send(name: str, frame: bytes) -> None:
        node.receive(sessions[name][1], [*wire.Frames().feed(frame)], 1)
        for _ in range(3):
            node.flush()
            if node.wants_sync:
                node.synced(node.ledger.log.sync())
            node.flush()

    for number, text in enumerate(asked, start=1):
        name = "desk" if durable else ""
        send("ada", wire.control(wire.Subscribe(number, f"s{number}", text, name, None)))
    for number, text in enumerate(others, start=1):
        send("bob", wire.control(wire.Subscribe(number, f"s{number}", text, "", None)))
    for number, (symbol, n, age) in enumerate(published, start=1):
        given = {"id": str(number), "symbol": symbol, "n": n, "patient": {"age": age}}
        send("nyse", wire.publish(number, pack(Notification.of(given))))
    send("ada", wire.control(wire.Ping(99)))
    return sessions["ada"][0].got


def twin(draw: Any, published: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Another run that ada may not tell from the first: other ages, within what her limit tells, and what she does
    not get."""
    other = []
    for symbol, n, age in published:
        if age > 90:
            other.append((symbol, n, draw(st.integers(91, 99))))
        elif symbol == "IBM":
            other.append((symbol, n, draw(st.integers(10, 90))))
        else:
            other.append(
                (draw(st.sampled_from(["SAP", "SUN"])), draw(st.integers(0, 9)), draw(st.integers(10, 90)))
            )
    return other


@st.composite
def twins(draw: Any) -> tuple[Any, ...]:
    rows = st.tuples(st.sampled_from(["IBM", "SAP", "SUN"]), st.integers(0, 9), st.integers(10, 99))
    published = draw(st.lists(rows, min_size=1, max_size=6))
    asked = tuple(draw(st.lists(st.sampled_from(FILTERS), min_size=1, max_size=3)))
    others = [tuple(draw(st.lists(st.sampled_from(FILTERS), max_size=2))) for _ in range(2)]
    return published, twin(draw, published), asked, others[0], others[1], draw(st.booleans())


def differs(runs: tuple[Any, ...]) -> bool:
    first, second, asked, some, others, durable = runs
    return seen_by_ada(first, asked, some, durable=durable) != seen_by_ada(
        second, asked, others, durable=durable
    )


@given(twins())
def test_what_a_principal_may_not_see_changes_no_byte_of_what_it_is_sent(runs: tuple[Any, ...]) -> None:
    assert not differs(runs)


def reads_in_filters(self: Rights, action: str, requested: Any, now: int = 0, whole: Any = Rights.may) -> Any:
    """A mutant: filters may name hidden attributes, which are then left out of what is delivered."""
    from dataclasses import replace

    return whole(replace(self, hidden=frozenset()), action, requested, now)


def forgets_the_limit(self: Access, who: str, action: str, filter: Any, now: int) -> Any:
    """A mutant: nothing is narrowed."""
    return filter


def hides_nothing(self: Access, who: str) -> frozenset[str]:
    """A mutant: the hidden attributes are delivered."""
    return frozenset()


@pytest.mark.parametrize(
    ("owner", "name", "mutant"),
    [
        (Rights, "may", reads_in_filters),
        (Access, "grant", forgets_the_limit),
        (Access, "hidden", hides_nothing),
    ],
)
def test_a_mutant_is_caught(owner: type, name: str, mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, name, mutant)
    assert find(twins(), differs, settings=settings(phases=[Phase.generate], max_examples=500))
