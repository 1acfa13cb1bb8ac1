"""Leases and wills over nodes: who comes back in time loses nothing, who does not is gone, over restarts too."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairlead.errors import ProtocolError
from fairlead.model import Notification
from fairlead.model.packed import pack, unpack
from fairlead.network import wire
from fairlead.network.destinations import Durable
from fairlead.network.durability import Durability
from fairlead.network.ledger import Leased, Ledger, Willed
from fairlead.network.node import Node
from fairlead.network.settings import BrokerSettings, Limits
from fairlead.network.wills import Wills
from fairlead.security import Principal
from fairlead_lab.testing.memory import MemoryDisk
from fairlead_lab.testing.nodes import End

S = 1_000_000


class Host:
    """One broker with a log in memory, which can be killed, and a clock that the test moves."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.disk, self.now, self.limits, self.published = MemoryDisk(), S, limits, 0
        self.open()

    def open(self) -> None:
        self.ledger = Ledger("/log", self.disk, broker="hub", now=self.now)
        self.node = Node(BrokerSettings("hub").broker(), self.ledger, self.limits, life="1", now=self.now)

    def client(self, name: str, will: str = "", delay: float = 0) -> End:
        end = End(self.node)
        packed = pack(Notification.of({"will": will, "id": f"will-{will}"})) if will else b""
        hello = wire.Hello(wire.VERSION, "client", name, will=packed, will_delay=int(delay * S))
        end.session = self.node.greet(end, hello, self.now, principal=Principal(name))
        self.settle()
        return end

    def subscribe(self, end: End, durable: str = "", lease: float = 0, **terms: object) -> None:
        filter = "exists x or exists will"
        made = wire.Subscribe(1, f"s:{durable}", filter, durable, lease=int(lease * S), **terms)  # type: ignore[arg-type]
        self.say(end, made)

    def say(self, end: End, *messages: wire.Control) -> None:
        frames = [frame for each in messages for frame in wire.Frames().feed(wire.control(each))]
        self.node.receive(end.session, frames, self.now)
        self.settle()

    def publish(self, x: int) -> None:
        publisher = self.client("publisher")
        self.published += 1
        packed = pack(Notification.of({"x": x, "producer": "p", "id": str(self.published)}))
        self.node.receive(publisher.session, wire.Frames().feed(wire.publish(1, packed)), self.now)
        self.settle()

    def wait(self, seconds: float) -> None:
        self.now += int(seconds * S)
        self.node.tick(self.now)
        self.settle()

    def lose(self, end: End) -> None:
        self.node.lost(end.session)
        self.settle()

    def kill(self) -> None:
        """Kill the broker, and start another one over its log."""
        self.ledger.log.close()
        self.open()

    def settle(self) -> None:
        for _ in range(1_000):
            self.node.flush()
            if self.node.wants_sync:
                self.node.synced(self.ledger.log.sync())
            elif not self.node.is_busy:
                return
        raise AssertionError("the node does not come to rest")


def got(end: End, name: str = "x") -> list[object]:
    packed = (wire.parse_deliver(payload)[2] for kind, payload in end.said if kind == wire.DELIVER)
    return [unpack(each).get(name) for each in packed]


def told(end: End, kind: type) -> list[object]:
    messages = (wire.parse_control(payload) for number, payload in end.said if number == wire.CONTROL)
    return [each for each in messages if isinstance(each, kind)]


# -- leases ----------------------------------------------------------------------------------------------------


def test_who_is_back_in_time_gets_all_and_who_is_not_begins_anew() -> None:
    host = Host()
    first = host.client("a")
    host.subscribe(first, "work", lease=10)
    assert told(first, wire.Leased) == [wire.Leased("work", 10 * S)]
    host.wait(1_000)
    host.publish(1)
    assert got(first) == [1]
    host.lose(first)
    host.wait(9.9)
    host.publish(2)
    back = host.client("a")
    host.subscribe(back, "work", lease=10)
    assert got(back) == [1, 2]
    host.lose(back)
    host.wait(10)
    assert "work" not in host.node.durables
    host.publish(3)
    late = host.client("a")
    host.subscribe(late, "work", lease=10)
    host.publish(4)
    assert got(late) == [4]


def test_what_ends_with_its_lease_has_no_interest_and_no_cursor_left() -> None:
    host = Host()
    end = host.client("a")
    host.subscribe(end, "work", lease=1)
    host.lose(end)
    host.wait(1)
    assert [each for each, _ in host.node.broker.entries] == []
    assert not [name for name in host.ledger.log.cursors if "work" in name]
    host.kill()
    assert "work" not in host.node.durables


def test_the_time_of_a_broker_that_is_down_does_not_count() -> None:
    host = Host()
    host.subscribe(host.client("a"), "work", lease=10)
    host.wait(1)
    host.now += 1_000 * S
    host.kill()
    host.wait(9.9)
    assert host.node.durables["work"].lease == 10 * S
    host.wait(0.1)
    assert "work" not in host.node.durables


def test_no_lease_is_longer_than_the_broker_grants() -> None:
    host = Host(Limits(lease_max=5.0))
    for name, lease in (("long", 10), ("none", 0), ("short", 3)):
        end = host.client(name)
        host.subscribe(end, name, lease=lease)
        host.lose(end)
    leases = {name: each.lease for name, each in host.node.durables.items()}
    assert leases == {"long": 5 * S, "none": 5 * S, "short": 3 * S}


def test_a_shared_subscriber_ends_when_the_last_members_lease_does() -> None:
    host = Host()
    one, two = host.client("one"), host.client("two")
    host.subscribe(one, "work", lease=10, shared=True)
    host.subscribe(two, "work", lease=5, shared=True)
    host.lose(one)
    host.wait(100)
    assert "work" in host.node.durables
    host.lose(two)
    host.wait(9.9)
    assert "work" in host.node.durables
    host.wait(0.1)
    assert "work" not in host.node.durables


def test_who_subscribes_without_a_lease_has_none_any_longer() -> None:
    host = Host()
    end = host.client("a")
    host.subscribe(end, "work", lease=1)
    host.lose(end)
    again = host.client("a")
    host.subscribe(again, "work")
    host.lose(again)
    host.wait(1_000)
    assert "work" in host.node.durables


def test_a_lease_is_for_durable_subscribers() -> None:
    host = Host()
    end = host.client("a")
    host.say(end, wire.Subscribe(1, "s", "exists x", since=0, lease=S))
    assert [each.reason for each in told(end, wire.Refused)] == [  # type: ignore[attr-defined]
        "a lease is a time for which a durable subscriber is kept"
    ]


# -- wills -----------------------------------------------------------------------------------------------------


def watched(host: Host) -> End:
    watch = host.client("watch")
    host.subscribe(watch, "watch")
    return watch


def test_a_will_is_published_when_a_client_is_lost_and_not_when_it_says_goodbye() -> None:
    host = Host()
    watch = watched(host)
    host.say(host.client("polite", "polite"), wire.Bye("done"))
    host.lose(host.client("lost", "lost"))
    assert got(watch, "will") == ["lost"]
    [packed] = [wire.parse_deliver(payload)[2] for kind, payload in watch.said if kind == wire.DELIVER]
    assert unpack(packed).producer == "lost"
    assert host.ledger.state.wills == {}


def test_who_is_back_before_the_delay_is_over_is_not_lost() -> None:
    host = Host()
    watch = watched(host)
    host.lose(host.client("a", "first", delay=5))
    host.wait(4.9)
    back = host.client("a", "second", delay=5)
    host.wait(100)
    assert got(watch, "will") == []
    host.lose(back)
    host.wait(5)
    assert got(watch, "will") == ["second"]


def test_another_connection_of_the_same_name_is_no_loss() -> None:
    host = Host()
    watch = watched(host)
    host.client("a", "first")
    host.client("a")
    host.wait(100)
    assert got(watch, "will") == []


def test_a_will_outlives_the_broker_and_its_clients_have_time_to_come_back() -> None:
    host = Host()
    watched(host)
    for name in ("back", "lost"):
        host.client(name, name)
    host.kill()
    watch = watched(host)
    host.client("back")
    host.wait(14.9)
    assert got(watch, "will") == []
    host.wait(0.1)
    assert got(watch, "will") == ["lost"]
    host.kill()
    watch = watched(host)
    host.wait(100)
    assert set(got(watch, "will")) <= {"lost"}
    assert host.ledger.state.wills == {}


def test_a_will_is_published_once_though_the_broker_is_killed_behind_it() -> None:
    host = Host()
    watched(host)
    end = host.client("a", "once")
    will = host.ledger.state.wills["a"]
    host.lose(end)
    host.ledger.note(will, host.now)  # as if it had not learnt that the will is in the log
    host.kill()
    host.wait(100)
    watch = watched(host)
    host.publish(1)
    assert [each for each in got(watch, "will") if each] == ["once"]
    assert host.ledger.state.wills == {}


def test_a_broker_that_stops_publishes_no_wills() -> None:
    host = Host()
    watched(host)
    host.client("a", "alive")
    host.node.close(host.now)
    host.open()
    watch = watched(host)
    host.client("a")
    host.wait(100)
    assert got(watch, "will") == []


def test_what_is_no_notification_is_no_will() -> None:
    host = Host()
    end = End(host.node)
    with pytest.raises(ProtocolError, match="the will cannot be published"):
        host.node.greet(end, wire.Hello(wire.VERSION, "client", "a", will=b"\xc1"), host.now)
    assert "a" not in host.node.clients


def test_the_state_that_is_gathered_has_leases_and_wills() -> None:
    host = Host()
    end = host.client("a", "kept", delay=60)
    host.subscribe(end, "work", lease=10)
    before = {*map(repr, host.ledger.state.changes())}
    assert repr(Leased("work", 10 * S)) in before
    host.ledger.gather(host.now)
    host.kill()
    assert isinstance(host.ledger.state.wills["a"], Willed)
    assert host.node.durables["work"].lease == 10 * S


# -- broken ones are found -------------------------------------------------------------------------------------


def _never_expires(self: Durability, durable: Durable, now: int) -> None:
    durable.left = now


def _forgets_in_memory(self: Durability, durable: Durable, now: int) -> None:
    self._end(durable)  # and the ledger is not told


def _publishes_on_goodbye(self: Wills, session: object, now: int) -> None:
    """A goodbye changes nothing."""


def _ignores_returns(self: Wills, name: str, now: int) -> None:
    """Who is back is lost all the same."""


@pytest.mark.parametrize(
    ("where", "name", "broken", "law"),
    [
        (Durability, "_expire", _never_expires, test_who_is_back_in_time_gets_all_and_who_is_not_begins_anew),
        (
            Durability,
            "_expire",
            _forgets_in_memory,
            test_what_ends_with_its_lease_has_no_interest_and_no_cursor_left,
        ),
        (
            *(Wills, "revoke", _publishes_on_goodbye),
            test_a_will_is_published_when_a_client_is_lost_and_not_when_it_says_goodbye,
        ),
        (Wills, "back", _ignores_returns, test_who_is_back_before_the_delay_is_over_is_not_lost),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_a_broken_broker_is_found(
    monkeypatch: pytest.MonkeyPatch, where: type, name: str, broken: object, law: Callable[[], None]
) -> None:
    monkeypatch.setattr(where, name, broken)
    with pytest.raises((AssertionError, KeyError)):
        law()
