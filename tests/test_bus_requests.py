"""Request and reply on the bus: whoever responds is not named, and each reply belongs to one open request."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead import audit
from fairlead.audit import Event, Published
from fairlead.bus import Bus
from fairlead.delivery import requesting
from fairlead.delivery.requesting import OpenRequests, reply_of, request_of
from fairlead.errors import (
    BusClosed,
    Forbidden,
    NobodyListens,
    NoReply,
    NotAdvertised,
    RequestRefused,
    ValueRefused,
)
from fairlead.model import Notification
from fairlead.model.order import Identity
from fairlead.rules.access import Access
from fairlead.scopes import Scopes
from fairlead.security import AccessPolicy

PRICE = {"type": "price?", "symbol": "IBM"}


def price(of: int) -> Any:
    return lambda request: {"type": "price", "symbol": request.get("symbol"), "price": of}


def test_the_first_reply_is_the_answer() -> None:
    with Bus() as bus:
        bus.respond('type = "price?"', price(81))
        bus.respond('type = "price?"', price(82))
        answer = bus.request(PRICE)
        assert (answer.get("symbol"), answer.get("price")) == ("IBM", 81)
        assert [each.get("price") for each in bus.requests(PRICE, enough=2)] == [81, 82]
        assert [each.get("price") for each in bus.requests(PRICE, timeout=0)] == [81, 82]


def test_a_request_can_be_made_again_and_each_has_its_own_replies() -> None:
    with Bus() as bus:
        served: list[Notification] = []
        bus.respond("true", lambda request: served.append(request) or {"n": len(served)})
        assert [bus.request(PRICE).get("n") for _ in range(3)] == [1, 2, 3]
        assert len({request.id for request in served}) == 3


def test_nobody_listens_is_told_at_once_and_nothing_is_published() -> None:
    events: list[Event] = []
    with Bus(trace=events.append) as bus:
        bus.respond('type = "other?"', price(1))
        before = len(events)
        with pytest.raises(NobodyListens, match="no subscription matches"):
            bus.request({**PRICE, "id": "a"}, timeout=None)
        assert bus.statistics().published == 0
        assert all(not isinstance(event, Published) for event in events[before:])
        bus.respond('type = "price?"', price(2))
        assert bus.request({**PRICE, "id": "a"}).get("price") == 2  # it was not here, and may come again


def test_without_a_reply_the_timeout_decides() -> None:
    with Bus() as bus:
        bus.subscribe("true")
        with pytest.raises(NoReply, match="no reply within 0 s"):
            bus.request(PRICE, timeout=0)
        bus.respond('type = "price?"', lambda request: None)
        assert list(bus.requests(PRICE, timeout="0s")) == []


def test_a_late_reply_is_nobodys() -> None:
    with Bus() as bus:
        kept: list[Notification] = []
        bus.subscribe("exists reply.to", kept.append)
        replies = bus.requests(PRICE, timeout=0)
        assert list(replies) == []
        bus.publish(reply_of(kept[0], {"price": 1}, "slow"))
        assert list(replies) == []
        assert next(replies, None) is None


def test_replies_come_from_other_threads() -> None:
    with Bus() as bus:
        kept: list[Notification] = []
        bus.subscribe("exists reply.to", kept.append)
        replies = bus.requests(PRICE, timeout=60, enough=2)
        threads = [
            threading.Thread(target=lambda n=n: bus.publish(reply_of(kept[0], {"n": n}, f"r{n}")))
            for n in (1, 2)
        ]
        for thread in threads:
            thread.start()
        assert sorted(each.get("n") for each in replies) == [1, 2]
        for thread in threads:
            thread.join()


def test_the_reply_of_one_responder_is_published_once() -> None:
    request = request_of({**PRICE, "id": "a"}, "token")
    first, again = (reply_of(request, {"price": 1}, "desk") for _ in range(2))
    assert first == again
    assert reply_of(request, {"price": 1}, "other").id != first.id
    assert reply_of(request_of({**PRICE, "id": "b"}, "token"), {"price": 1}, "desk").id != first.id


def test_what_is_published_without_a_wish_for_replies_is_not_answered() -> None:
    with Bus() as bus:
        everything = bus.subscribe("true")
        asked: list[Notification] = []
        bus.respond('type = "price?"', asked.append)
        bus.publish(PRICE)
        assert asked == []
        assert len(everything) == 1


def test_a_named_requester_keeps_its_queue() -> None:
    events: list[Event] = []
    with Bus(trace=events.append) as bus:
        desk = bus.component("desk")
        inbox = desk.subscribe('type = "note"', maxsize=1)
        bus.publish({"type": "note"})  # the queue is full; replies do not wait for it
        bus.component("oracle").respond('type = "price?"', price(7))
        assert desk.request(PRICE).get("price") == 7
        assert desk.request(PRICE).producer == "oracle"
        assert len(inbox) == 1
    assert not audit.audit(events).violated()


def test_a_requester_that_sees_all_gets_a_reply_as_its_reply_and_as_a_notification() -> None:
    events: list[Event] = []
    with Bus(trace=events.append) as bus:
        desk = bus.component("desk")
        inbox = desk.subscribe("true")
        bus.respond('type = "price?"', price(7))
        assert desk.request(PRICE).get("price") == 7
        assert [inbox.get(0).get("type") for _ in range(len(inbox))] == ["price?", "price"]
    assert not audit.audit(events).violated()


def test_a_request_that_could_never_be_answered_is_refused() -> None:
    with Bus(order="ordered") as ordered, pytest.raises(RequestRefused, match="watermark"):
        ordered.request(PRICE)
    with Bus() as bus:
        bus.respond('type = "price?"', price(1))
        within = bus.subscribe('type = "go"', lambda _: bus.request(PRICE))
        bus.publish({"type": "go"})
        assert [type(error) for error in within.errors] == [RequestRefused]
        with pytest.raises(RequestRefused, match="at least one"):
            bus.requests(PRICE, enough=0)
        with pytest.raises(ValueRefused, match="a timeout is a number of seconds"):
            bus.request(PRICE, timeout=-1)
        with pytest.raises(ValueRefused, match="`reply`"):
            bus.request({**PRICE, "reply": 1})
        bus.publish({"type": "x", "id": "a"})
        with pytest.raises(RequestRefused, match="published before"):
            bus.request({**PRICE, "id": "a"})
        assert bus.request(PRICE).get("price") == 1
    with pytest.raises(BusClosed):
        bus.request(PRICE)


def test_a_responder_that_fails_is_reported_and_others_reply() -> None:
    with Bus() as bus:
        failing = bus.respond("true", lambda request: 1 / 0)
        named = bus.respond("true", lambda request: {"re": 1})
        bus.respond("true", price(3))
        assert bus.request(PRICE).get("price") == 3
        assert [type(each) for each in failing.errors] == [ZeroDivisionError]
        assert [type(each) for each in named.errors] == [ValueRefused]


def test_a_responder_that_has_ended_is_not_there() -> None:
    with Bus() as bus:
        with bus.respond('type = "price?"', price(1)):
            assert bus.request(PRICE).get("price") == 1
        with pytest.raises(NobodyListens):
            bus.request(PRICE)


def test_a_pattern_over_requests_listens() -> None:
    with Bus() as bus:
        bus.detect('found: [type = "price?"]')
        with pytest.raises(NoReply):
            bus.request(PRICE, timeout=0)
        with pytest.raises(NobodyListens):
            bus.request({"type": "other?"}, timeout=0)


def test_advertisements_and_access_hold_for_requests_and_replies() -> None:
    with Bus() as bus:
        bus.advertise('type = "quote"', "desk")
        answering = bus.component("desk").respond('type = "price?"', price(1))
        with pytest.raises(NoReply):
            bus.request(PRICE, timeout=0)
        assert [type(each) for each in answering.errors] == [NotAdvertised]
    roles = {
        "asks": {"members": ["ada"], "publish": ['type = "price?"'], "subscribe": ["exists re.to"]},
        "answers": {"members": ["bob"], "publish": ['type = "price"'], "subscribe": ['type = "price?"']},
    }
    policy = AccessPolicy.of({"roles": roles})
    with Bus(rules=[Access(policy)]) as bus:
        bus.component("bob").respond('type = "price?"', price(5))
        assert bus.component("ada").request(PRICE).get("price") == 5
        with pytest.raises(Forbidden):
            bus.component("eve").request(PRICE)


def test_requests_stay_within_scopes() -> None:
    scopes = Scopes.parse("DEFINE SCOPE Floor AS ALL FROM desk, oracle; DEFINE SCOPE Yard AS ALL FROM digger")
    with Bus(scopes=scopes) as bus:
        bus.component("oracle").respond('type = "price?"', price(9))
        assert bus.component("desk").request(PRICE).get("price") == 9
        with pytest.raises(NobodyListens):
            bus.component("digger").request(PRICE, timeout=0)


ASKERS = st.sampled_from(["ada", "bob"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("respond"), st.integers(0, 3)),
        st.tuples(st.just("end"), st.integers(0, 3)),
        st.tuples(
            st.just("request"), ASKERS, st.integers(0, 3), st.sampled_from([None, 1, 2]), st.booleans()
        ),
    ),
    max_size=25,
)


@given(STEPS)
def test_replies_are_those_of_the_responders_that_are_there(steps: list[tuple[Any, ...]]) -> None:
    """The reference: the responders whose filter matches, in the order in which they came, until enough."""
    responders: list[tuple[int, int, Any]] = []
    with Bus() as bus:
        for number, step in enumerate(steps):
            match step:
                case ("respond", kind):
                    handle = bus.respond(f"kind = {kind}", lambda request, number=number: {"by": number})
                    responders.append((kind, number, handle))
                case ("end", place) if place < len(responders):
                    responders.pop(place)[2].close()
                case ("request", asker, kind, enough, named):
                    expected = [number for each, number, _ in responders if each == kind][:enough]
                    event = {"kind": kind, **({"id": f"q{number}"} if named else {})}
                    try:
                        replies = list(bus.component(asker).requests(event, timeout=0, enough=enough))
                    except NobodyListens:
                        assert not expected
                        continue
                    assert [reply.get("by") for reply in replies] == expected
                    assert all(reply.get("re.producer") == asker for reply in replies)


def test_two_requesters_with_the_same_id_do_not_get_each_others_replies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def exchange() -> tuple[list[Any], list[Any]]:
        """Two requesters that share a token, as two components of one process may."""
        requests = OpenRequests()
        got: tuple[list[Any], list[Any]] = [], []
        ours = [request_of({"producer": name, "id": "1"}, requests.token) for name in ("ada", "bob")]
        for request, into in zip(ours, got, strict=True):
            requests.open(request, lambda reply, into=into: into.append(reply.get("n")))
        for n, request in enumerate(ours):
            requests.take(reply_of(request, {"n": n}, "desk"))
        return got

    assert exchange() == ([0], [1])
    monkeypatch.setattr(requesting, "identity_of", lambda each: Identity("", each.id))
    monkeypatch.setattr(requesting, "Identity", lambda producer, id: Identity("", id))
    with pytest.raises(
        ValueRefused
    ):  # correlation by id alone: the second cannot even be open beside the first
        exchange()


def test_a_subscription_after_publishing_misses_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant subscribes when the request is out: the bus has handed over the reply by then."""
    with Bus() as bus:
        bus.respond("true", price(1))
        subscribed = bus._subscribe_to_replies
        late: list[Any] = []

        def later(filter: str, take: Any, subscriber: str | None) -> Any:
            late.append((filter, take))
            return bus.subscribe("false")

        monkeypatch.setattr(bus, "_subscribe_to_replies", later)
        replies = bus.requests(PRICE, timeout=0)
        subscribed(*late[0], None)
        assert list(replies) == []


def test_what_is_no_reply_is_not_taken() -> None:
    requests = OpenRequests()
    request = request_of({"id": "1"}, requests.token)
    got: list[Any] = []
    requests.open(request, got.append)
    for about in (
        {},
        {"to": requests.token},
        {"to": requests.token, "producer": "", "id": 1},
        {"to": "x"},
        7,
    ):
        assert not requests.take(Notification.of({"re": about}))
    assert not requests.take(Notification.of({}))
    assert requests.take(reply_of(request, {}, "r"))
    requests.close(request)
    assert not requests.take(reply_of(request, {}, "r"))
    assert (len(got), len(requests)) == (1, 0)
