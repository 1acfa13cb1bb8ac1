"""With advertisements, subscriptions that nothing serves any more leave the tables when nothing waits for them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.broker import Broker
from fairlead.filters import overlaps, parse
from fairlead.model import Notification
from fairlead.model.packed import pack, unpack
from fairlead.network import wire
from fairlead.network.settings import BrokerSettings
from fairlead_lab.testing.nodes import End, Line


def advertising(name: str) -> Broker:
    return BrokerSettings(name, advertisements="covering").broker()


def ask(end: End, *messages: wire.Control) -> None:
    end.hear(b"".join(map(wire.control, messages)))


def settle(line: Line) -> None:
    line.settle()
    for _ in range(2):
        for node in line.nodes:
            node.tick(0)
        line.settle()


def entries(line: Line) -> list[list[str]]:
    """The filters of neighbours in the table of each broker."""
    return [
        sorted(str(interest.filter) for interest, name in node.broker.subscriptions if name in node.links)
        for node in line.nodes
    ]


def publish(end: End, number: int, x: int) -> None:
    end.hear(wire.publish(number, pack(Notification.of({"x": x, "producer": "p", "id": str(number)}))))


def delivered(end: End) -> list[str | None]:
    return [unpack(wire.parse_deliver(each)[2]).id for each in end.frames(wire.DELIVER)]


def test_what_nothing_serves_leaves_the_tables_and_comes_back_with_the_next_advertisement() -> None:
    line = Line(3, make=advertising)
    source, desk = line.client(0, "p"), line.client(2, "desk")
    ask(source, wire.Advertise(1, "a", "x >= 0"))
    ask(desk, wire.Subscribe(1, "s", "x > 5", durable="desk"))
    settle(line)
    assert entries(line) == [["x > 5"], ["x > 5"], []]
    ask(source, wire.Unadvertise(2, "a"))
    settle(line)
    assert entries(line) == [[], [], []]
    ask(source, wire.Advertise(3, "b", "x >= 5"))
    settle(line)
    assert entries(line) == [["x > 5"], ["x > 5"], []]
    publish(source, 4, 7)
    settle(line)
    assert delivered(desk) == ["4"]


def test_what_waits_for_a_neighbour_is_delivered_though_its_publisher_has_gone() -> None:
    line = Line(2, make=advertising)
    source, desk = line.client(0, "p"), line.client(1, "desk")
    ask(source, wire.Advertise(1, "a", "x >= 0"))
    ask(desk, wire.Subscribe(1, "s", "x > 5", durable="desk"))
    settle(line)
    [(left, _)] = line.links
    left.stuck = 1 << 21  # nothing goes out
    for number in range(2, 50):
        publish(source, number, number)
    line.settle()
    ask(source, wire.Unadvertise(99, "a"))
    for _ in range(3):
        settle(line)
    assert entries(line)[0] == ["x > 5"]
    left.let_go()
    for _ in range(3):
        settle(line)
    assert delivered(desk) == [str(number) for number in range(6, 50)]
    assert entries(line) == [[], []]


steps = st.lists(
    st.tuples(
        st.sampled_from(["advertise", "unadvertise", "subscribe", "unsubscribe", "publish", "tick"]),
        st.integers(0, 2),
        st.integers(0, 3),
    ),
    max_size=30,
)
FILTERS = ("x >= 0", "x >= 5", "x < 5", "x in {1, 7}")


@settings(max_examples=settings.default.max_examples // 2)  # type: ignore[union-attr]
@given(steps)
def test_the_tables_hold_what_is_served_and_everybody_gets_what_was_published(
    taken: list[tuple[str, int, int]],
) -> None:
    line = Line(3, make=advertising)
    clients = [line.client(at, f"c{at}") for at in range(3)]
    advertised: dict[tuple[int, int], str] = {}
    subscribed: dict[tuple[int, int], str] = {}
    expected: list[list[str]] = [[], [], []]
    for number, (what, at, which) in enumerate(taken, 1):
        key, text, end = (at, which), FILTERS[which], clients[at]
        if what == "advertise" and key not in advertised:
            advertised[key] = text
            ask(end, wire.Advertise(number, str(which), text))
        elif what == "unadvertise" and advertised.pop(key, None):
            ask(end, wire.Unadvertise(number, str(which)))
        elif what == "subscribe" and key not in subscribed:
            subscribed[key] = text
            ask(end, wire.Subscribe(number, str(which), text))
        elif what == "unsubscribe" and subscribed.pop(key, None):
            ask(end, wire.Unsubscribe(number, str(which)))
        elif what == "publish":
            x, fits = (7, 2, 4, 1)[which], Notification.of({"x": (7, 2, 4, 1)[which]})
            if any(who == at and parse(each).matches(fits) for (who, _), each in advertised.items()):
                publish(end, number, x)
                for to in {who for (who, _), each in subscribed.items() if parse(each).matches(fits)}:
                    expected[to].append(str(number))
        line.settle()
        if what == "tick":
            settle(line)
    settle(line)
    settle(line)
    assert [delivered(each) for each in clients] == expected
    for at, node in enumerate(line.nodes):
        for interest, name in node.broker.subscriptions:
            if name in node.links:
                side = (
                    range(at) if name > node.name else range(at + 1, 3)
                )  # from behind whom it does not come
                offers = [parse(each) for (who, _), each in advertised.items() if who in (at, *side)]
                assert any(overlaps(interest.filter, offer) for offer in offers)
