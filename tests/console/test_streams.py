"""`GET /events`: who comes back with the last id it saw goes on after it; a durable subscriber misses nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead.console import HttpLimits
from fairlead.console.desk import Arrival, Desk, Dropped
from fairlead.console.feeds import Feed, Wanted
from fairlead.model import Notification
from fairlead.network.settings import Limits


def publish(broker: Any, topic: str, *numbers: int) -> None:
    records = [{"id": f"{topic}-{n}", "producer": "p", "topic": topic, "n": n} for n in numbers]
    assert broker.publish(records).json["accepted"] == len(numbers)


def read(events: Any, count: int) -> tuple[list[int], str]:
    """The numbers of the next events, and the id of the last."""
    found = [events.next() for _ in range(count)]
    return [json.loads(each["data"])["data"]["n"] for each in found], found[-1]["id"]


def durable(broker: Any, name: str) -> dict[str, Any] | None:
    found: dict[str, Any] | None = broker.server.node.status()["durables"].get(name)
    return found


def test_a_stream_delivers_what_matches_in_order_each_with_its_place(broker: Any) -> None:
    with broker.events('topic = "order"') as events:
        assert (events.status, events.media) == (200, "text/event-stream")
        publish(broker, "order", 1, 2, 3)
        publish(broker, "other", 1)
        publish(broker, "order", 4)
        first = events.next()
        log = broker.server.node.ledger.identity
        offset, name = first["id"].split("-")
        assert int(offset) > 0
        assert log.startswith(name)
        assert read(events, 3)[0] == [2, 3, 4]


@pytest.mark.parametrize("how", ["header", "parameter"])
def test_who_comes_back_with_the_last_id_goes_on_after_it(broker: Any, how: str) -> None:
    topic = f"back-{how}"
    with broker.events(f'topic = "{topic}"') as events:
        publish(broker, topic, 1, 2, 3)
        numbers, last = read(events, 2)
        assert numbers == [1, 2]
    publish(broker, topic, 4)
    again = {"headers": {"Last-Event-ID": last}} if how == "header" else {"after": last}
    with broker.events(f'topic = "{topic}"', **again) as events:
        publish(broker, topic, 5)
        assert read(events, 3)[0] == [3, 4, 5]


def test_an_id_of_another_log_is_told_as_a_gap_and_the_stream_begins_now(broker: Any) -> None:
    publish(broker, "gap", 1)
    with broker.events('topic = "gap"', after="1-00000000") as events:
        publish(broker, "gap", 2)
        told = events.next()
        assert told["event"] == "gap"
        assert json.loads(told["data"])["after"] == "1-00000000"
        assert read(events, 1)[0] == [2]


def test_an_id_of_what_has_left_the_log_is_told_as_a_gap(
    broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = broker.server.node.ledger
    publish(broker, "early", 1)
    first = ledger.log.end - 1
    with monkeypatch.context() as patch:
        patch.setattr(type(ledger.log), "first", property(lambda _: first))
        events = broker.events('topic = "early"', after=f"0-{ledger.identity[:8]}")
    with events:
        assert f"begins with the offset {first + 1}" in events.next()["data"]
        assert read(events, 1)[0] == [1]


def test_who_was_away_from_a_broker_with_neighbours_is_told_that_something_may_be_missing(
    started: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.console.feeds.INSTALL_S", 0.01)
    running = started(neighbours=("far",))
    node = running.server.node
    with running.events("true") as events, running.events("true", durable="kept") as kept:
        publish(running, "holes", 1)
        last = read(events, 1)[1]
        assert read(kept, 1)[1] == last
    publish(running, "holes", 2)
    with (
        running.events("true", after=last) as events,
        running.events("true", after=last, durable="kept") as kept,
    ):
        assert "of that time" in json.loads(events.next()["data"])["reason"]
        assert read(events, 1)[0] == read(kept, 1)[0] == [2]
    running.do(lambda: node.neighbourhood.forget("far", 0))  # it was there when the client was away
    publish(running, "holes", 3)
    with running.events("true", after=last) as events:
        assert events.next()["event"] == "gap"
        last = read(events, 2)[1]
    with running.events("true", after=last) as events:
        publish(running, "holes", 4)
        assert read(events, 1)[0] == [4]


def test_a_durable_subscriber_is_told_what_was_before_it_was_one(broker: Any) -> None:
    with broker.events('topic = "before"') as events:
        publish(broker, "before", 1)
        last = read(events, 1)[1]
    publish(broker, "before", 2)
    with broker.events('topic = "before"', after=last, durable="before") as events:
        publish(broker, "before", 3)
        assert "is a durable subscriber since the offset" in events.next()["data"]
        assert read(events, 1)[0] == [3]


def test_since_begins_in_the_past(broker: Any) -> None:
    publish(broker, "past", 1, 2)
    for since in ("0", "2020-01-01T00:00:00Z"):
        with broker.events('topic = "past"', since=since) as events:
            assert read(events, 2)[0] == [1, 2]
    with broker.events('topic = "past"', since="2999-01-01T00:00:00Z") as events:
        publish(broker, "past", 3)
        assert read(events, 1)[0] == [3]


# -- durable subscribers ---------------------------------------------------------------------------------------


def test_a_durable_subscriber_gets_what_came_while_it_was_away(broker: Any) -> None:
    with broker.events('topic = "away"', durable="away"):
        pass
    away = {"connected": False, "outflow": "away, idle", "behind": 0, "in_flight": 0}
    broker.until(lambda: durable(broker, "away") == away)
    publish(broker, "away", 1, 2)
    with broker.events('topic = "away"', durable="away") as events:
        assert read(events, 2)[0] == [1, 2]


def test_a_durable_subscriber_is_asked_about_what_it_asked_for_before(broker: Any) -> None:
    with broker.events('topic = "same"', durable="same"):
        pass
    answer = broker.ask("GET", "/events?filter=exists%20x&durable=same")
    assert (answer.status, """'same' is bound to 'topic = "same"'""" in answer.json["detail"]) == (409, True)
    with broker.events('topic="same"', durable="same") as events:  # however it is written
        publish(broker, "same", 1)
        assert read(events, 1)[0] == [1]


def test_a_stream_does_not_wait_for_a_broker_that_is_away(
    started: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.console.feeds.INSTALL_S", 0.01)
    running = started(neighbours=("far",))
    with running.events("true", durable="d") as events:
        publish(running, "near", 1)
        assert read(events, 1)[0] == [1]


def test_the_last_event_before_a_connection_is_lost_comes_again(broker: Any) -> None:
    with broker.events('topic = "last"', durable="last") as events:
        publish(broker, "last", 1)
        read(events, 1)
        publish(broker, "last", 2)
        read(events, 1)  # by which the first one is accepted
        broker.until(lambda: len(broker.server.node.durables["last"].unconfirmed) == 1)
    broker.until(lambda: not (durable(broker, "last") or {})["connected"])
    with broker.events('topic = "last"', durable="last") as events:
        publish(broker, "last", 3)
        assert read(events, 2)[0] == [2, 3]


def test_a_durable_subscriber_that_says_what_it_saw_gets_each_event_once(broker: Any) -> None:
    with broker.events('topic = "once"', durable="once") as events:
        publish(broker, "once", 1, 2, 3)
        _, last = read(events, 3)
    publish(broker, "once", 4)
    with broker.events('topic = "once"', durable="once", headers={"Last-Event-ID": last}) as events:
        assert read(events, 1)[0] == [4]


def test_what_was_sent_and_never_seen_comes_again_to_who_says_so(broker: Any) -> None:
    with broker.events('topic = "unseen"', durable="unseen") as events:
        publish(broker, "unseen", 1)
        _, seen = read(events, 1)
        for n in (2, 3):
            publish(broker, "unseen", n)
            read(events, 1)
        broker.until(lambda: len(broker.server.node.durables["unseen"].unconfirmed) == 1)
    with broker.events('topic = "unseen"', durable="unseen", after=seen) as events:
        assert read(events, 2)[0] == [2, 3]


def test_a_sign_of_life_accepts_what_was_sent_before_it(started: Any) -> None:
    running = started(HttpLimits(beat_s=0.01))
    with running.events("true", durable="alive") as events:
        publish(running, "alive", 1)
        read(events, 1)
        running.until(lambda: not running.server.node.durables["alive"].unconfirmed)
        assert any(events.line() == ": \n" for _ in range(3))


def test_another_reader_takes_over_the_name_and_the_first_is_told(broker: Any) -> None:
    query = {"filter": 'topic = "name"', "durable": "name"}
    with broker.events(**query) as first, broker.events(**query) as second:
        told = first.next()
        assert (told["event"], first.rest()) == ("bye", b"")
        assert "another client" in json.loads(told["data"])["reason"]
        publish(broker, "name", 1)
        assert read(second, 1)[0] == [1]


def test_a_durable_subscriber_can_be_forgotten_even_with_a_slash_in_its_name(broker: Any) -> None:
    with broker.events("false", durable="team/desk"):
        pass
    assert broker.ask("DELETE", "/subscriptions/team/desk").status == 204
    assert durable(broker, "team/desk") is None
    answer = broker.ask("DELETE", "/subscriptions/team/desk")
    assert (answer.status, answer.media) == (404, "application/problem+json")


# -- what is refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("", "a filter is needed"),
        ("filter=price%20%3E", "expected"),
        ("filter=true&since=yesterday", "not an instant"),
        ("filter=true&policy=wait", "there are block, drop, disconnect"),
        ("filter=true&policy=drop&durable=d", "leave out durable"),
        ("filter=true&durable=", "is not empty"),
        ("filter=true&filter=false", "given twice"),
        ("filter=true&fitler=false", "no parameter 'fitler'"),
    ],
)
def test_a_stream_that_means_nothing_is_refused(broker: Any, query: str, detail: str) -> None:
    answer = broker.ask("GET", f"/events?{query}")
    assert (answer.status, answer.media) == (400, "application/problem+json")
    assert detail in answer.json["detail"]


def test_asking_for_the_head_opens_no_stream(broker: Any) -> None:
    answer = broker.ask("HEAD", "/events?filter=true")
    assert (answer.status, answer.media, answer.body) == (200, "text/event-stream", b"")


def test_there_are_no_more_streams_than_allowed_and_a_closed_one_makes_room(started: Any) -> None:
    running = started(HttpLimits(streams=1))
    with running.events("true"):
        answer = running.ask("GET", "/events?filter=true")
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert running.ask("GET", "/healthz").status == 200
    running.until(lambda: running.serving.gateway.requests.streams == 0)
    with running.events("true") as events:
        assert events.status == 200


def test_a_broker_without_a_log_delivers_what_comes_and_has_no_past(started: Any) -> None:
    running = started(data=None)
    with running.events("true") as events:
        publish(running, "memory", 1)
        event = events.next()
        assert (json.loads(event["data"])["data"]["n"], "id" in event) == (1, False)
    for query in ("durable=d", "since=0"):
        answer = running.ask("GET", f"/events?filter=true&{query}")
        assert (answer.status, "has no log" in answer.json["detail"]) == (409, True)


def test_a_stream_ends_with_a_word_when_the_broker_stops(started: Any) -> None:
    running = started()
    with running.events("true") as events, running.socket("true") as socket:
        running.stop()
        assert (events.next()["event"], events.rest()) == ("bye", b"")
        assert "bye" in socket.hear()
        assert socket.frame()[0] == 8


# -- slow readers ----------------------------------------------------------------------------------------------

SMALL = Limits(buffer_bytes=1 << 12, queue=5)


@pytest.fixture(scope="module")
def narrow(started: Any) -> Any:
    """A broker that bears with little."""
    return started(limits=SMALL)


def load(running: Any, topic: str, count: int) -> None:
    for start in range(0, count, 50):
        records = [{"topic": topic, "n": n, "filling": "x" * 500} for n in range(start, start + 50)]
        assert running.publish(records).status == 202


def unread(running: Any, wanted: Wanted, count: int) -> tuple[list[Any], str | None]:
    """What a reader finds that takes nothing before all of a load has been published."""
    made: list[tuple[Desk, Feed]] = []

    async def opened() -> None:
        desk = Desk(running.server, wanted.policy)
        made.append((desk, Feed(running.server, desk, wanted)))
        await made[0][1].open()

    async def taken() -> list[Any]:
        [(desk, _)] = made
        found: list[Any] = []
        while desk.ended is None and _missing(found) < count:
            found += await desk.arrivals(1 << 12)
            made[0][1].accept(each.offset for each in found if isinstance(each, Arrival))
        return found

    running.wait(opened())
    load(running, wanted.filter.split('"')[1], count)
    found = running.wait(taken())
    ended = made[0][0].ended
    running.do(made[0][0].leave)
    return found, ended


def _missing(found: list[Any]) -> int:
    return sum(each.count if isinstance(each, Dropped) else 1 for each in found)


def numbers(found: list[Any]) -> list[int]:
    from fairlead.model.packed import unpack

    return [unpack(each.packed).get("n") for each in found if isinstance(each, Arrival)]


def test_a_slow_reader_of_the_log_reads_on_from_its_place_and_misses_nothing(narrow: Any) -> None:
    found, _ = unread(narrow, Wanted('topic = "log"'), 200)
    assert numbers(found) == list(range(200))


def test_with_the_policy_to_drop_the_oldest_are_left_out_and_counted_where_they_are_missing(
    narrow: Any,
) -> None:
    found, _ = unread(narrow, Wanted('topic = "drop"', policy="drop"), 200)
    got = numbers(found)
    [dropped] = [each.count for each in found if isinstance(each, Dropped)]
    assert got == [*range(len(got) - 5), *range(195, 200)]
    assert dropped == 200 - len(got)


def test_with_the_policy_to_disconnect_a_slow_reader_has_to_go(narrow: Any) -> None:
    _, ended = unread(narrow, Wanted('topic = "disconnect"', policy="disconnect"), 200)
    assert "too slow" in (ended or "")


def test_what_was_left_out_is_told_over_the_wire(broker: Any) -> None:
    with (
        broker.events('topic = "told"', policy="drop") as events,
        broker.socket('topic = "told"', policy="drop") as socket,
    ):
        from fairlead.network import wire

        def drop() -> None:
            for desk in broker.serving.gateway._desks:
                desk.session.tell(wire.Dropped(3))
            broker.server.schedule()

        broker.do(drop)
        assert events.next() == {"event": "dropped", "data": '{"dropped":3}'}
        assert socket.hear() == {"dropped": {"dropped": 3}}


def test_a_client_that_leaves_leaves_nothing_behind(broker: Any) -> None:
    broker.until(lambda: broker.serving.gateway.requests.streams == 0)
    before = broker.do(lambda: set(broker.server.node.clients))
    with broker.events("true"), broker.socket("true"):
        assert len(broker.server.node.clients) == len(before) + 2
    broker.until(lambda: set(broker.server.node.clients) <= before)
    broker.until(lambda: not [name for name in broker.server.node.durables if name.startswith("c:")])


def test_a_notification_that_was_not_logged_is_delivered_without_a_place(broker: Any) -> None:
    from fairlead.network.client import connect

    async def send() -> None:
        async with connect(broker.server.url) as client:
            await client.send(Notification.of({"topic": "unlogged", "n": 1}))

    with broker.events('topic = "unlogged"') as events:
        broker.wait(send())
        assert "id" not in events.next()


def test_a_stream_has_what_its_condition_lets_pass(broker: Any) -> None:
    with broker.events('topic = "scale"', on="n changes by 2") as events:
        publish(broker, "scale", 1, 2, 3, 4, 6)
        assert read(events, 3)[0] == [1, 3, 6]


def test_what_a_condition_does_not_let_pass_is_accepted_for_a_durable_subscriber(broker: Any) -> None:
    with broker.events('topic = "thrice"', durable="thrice", on="every 3rd") as events:
        publish(broker, "thrice", 1, 2, 3, 4)
        assert read(events, 2)[0] == [1, 4]
    assert broker.ask("GET", "/events?filter=true&on=moves").status == 400
