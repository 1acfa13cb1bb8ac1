"""Offered against requested: a subscription is refused iff some notification of it is offered less."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairlead as fl
from fairlead.channels import Channel, Channels, Delay, Quality, Retain, offering, quality_of, shortfalls
from fairlead.console.feeds import Wanted
from fairlead.console.problems import Problem
from fairlead.errors import BrokerRefused, QualityRefused
from fairlead.filters.language import parse
from fairlead.model import Notification
from fairlead_lab.testing.brokers import Brokers

ORDERS = ("any", "producer", "total")
LEVELS = ("none", "logged", "retained")
NUMBERS = range(-1, 8)
"""One notification each: what a filter of the test matches is a set of these numbers."""


def section(low: int, high: int) -> str:
    return f"x in [{low}, {high}]"


sections = st.builds(lambda low, size: section(low, low + size), st.integers(0, 5), st.integers(0, 3))
channels = st.lists(
    st.builds(
        lambda filter, order, deadline, retained: (filter, order, deadline, retained),
        sections,
        st.sampled_from(["producer", "priority"]),
        st.sampled_from([None, "1s", "5s", "1min"]),
        st.booleans(),
    ),
    max_size=3,
)
qualities = st.builds(
    Quality, st.sampled_from(ORDERS), st.sampled_from([None, "5s", "2min"]), st.sampled_from(LEVELS)
)
SECONDS = {"1s": 1, "5s": 5, "1min": 60, "2min": 120}


def made(given: list[Any]) -> Channels | None:
    """The channels, or None where one of them is never used."""
    try:
        return Channels(
            Channel(f"c{number}", filter, order=order, deadline=deadline, retain=Retain() if kept else None)
            for number, (filter, order, deadline, kept) in enumerate(given)
        )
    except fl.ChannelError:
        return None


def lacking(found: Channels, filter: str, wanted: Quality, *, is_logged: bool, is_total: bool) -> set[Any]:
    """The same by asking every notification that there is."""
    lacks = set()
    for x in NUMBERS:
        notification = Notification.of({"x": x})
        if not parse(filter).matches(notification):
            continue
        channel = found.of(notification)
        name = "" if channel is None else channel.name
        order = "any" if channel is not None and channel.order == "priority" else "producer"
        if ORDERS.index("total" if is_total else order) < ORDERS.index(wanted.order):
            lacks.add((name, "order"))
        deadline = None if channel is None else channel.deadline
        if wanted.deadline and (deadline is None or SECONDS[deadline] > SECONDS[wanted.deadline]):
            lacks.add((name, "deadline"))
        level = 2 if channel is not None and channel.retain is not None else int(is_logged)
        if level < LEVELS.index(wanted.durability):
            lacks.add((name, "durability"))
    return lacks


def compared(given: list[Any], filter: str, wanted: Quality, is_logged: bool, is_total: bool) -> bool:
    found = made(given)
    if found is None:
        return True
    told = [*shortfalls(found, parse(filter), wanted, is_logged=is_logged, is_total=is_total)]
    for each in told:
        assert each.witness is not None
        channel = found.of(each.witness)
        assert parse(filter).matches(each.witness)
        assert each.channel == ("" if channel is None else channel.name)
    expected = lacking(found, filter, wanted, is_logged=is_logged, is_total=is_total)
    # Between two numbers there are others, which the notifications of the test do not have.
    names = {(each.channel, each.policy) for each in told}
    return names >= expected and all(_is_of_no_number(found, filter, each) for each in names - expected)


def _is_of_no_number(found: Channels, filter: str, named: tuple[str, str]) -> bool:
    reached = {
        channel.name if channel is not None else ""
        for channel in (
            found.of(Notification.of({"x": x}))
            for x in NUMBERS
            if parse(filter).matches(Notification.of({"x": x}))
        )
    }
    return named[0] not in reached


@given(channels, sections, qualities, st.booleans(), st.booleans())
def test_a_subscription_is_refused_iff_some_notification_is_offered_less(
    given: list[Any], filter: str, wanted: Quality, is_logged: bool, is_total: bool
) -> None:
    assert compared(given, filter, wanted, is_logged, is_total)


def _looks_at_the_first_alone(*arguments: Any, **options: Any) -> Any:
    return [*_SHORTFALLS(*arguments, **options)][:1]


def _overlooks_earlier_channels(
    channels: Channels, filter: Any, requested: Quality, schema: Any = None, **options: Any
) -> Any:
    for channel, own in zip(channels, channels.filters, strict=True):
        yield from _SHORTFALLS(Channels([channel]), filter & own, requested, schema, **options)


_SHORTFALLS = shortfalls


@pytest.mark.parametrize("mutant", [_looks_at_the_first_alone, _overlooks_earlier_channels])
def test_a_defect_is_found(mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "shortfalls", mutant)
    runs = [
        ([(section(0, 1), "producer", None, True), (section(1, 3), "priority", "5s", False)], section(0, 6)),
        ([(section(2, 4), "producer", "1s", True), (section(3, 5), "priority", None, False)], section(3, 4)),
    ]
    wanted = Quality("producer", "5s", "retained")

    def holds(given: list[Any], filter: str) -> bool:
        try:
            return compared(given, filter, wanted, True, False)
        except AssertionError:
            return False

    assert not all(holds(*each) for each in runs)
    monkeypatch.undo()
    assert all(holds(*each) for each in runs)


@given(qualities)
def test_a_quality_that_is_written_is_read_again(quality: Quality) -> None:
    assert quality_of(str(quality)) == quality


@pytest.mark.parametrize(
    "text", ["order", "order=all", "deadline=soon", "depth=3", "order=any, order=any", "deadline=0s"]
)
def test_a_text_that_is_no_quality_is_refused(text: str) -> None:
    with pytest.raises((QualityRefused, fl.ChannelError)):
        quality_of(text)


# -- who asks ----------------------------------------------------------------------------------------------------

CHANNELS = (
    Channel("urgent", "exists urgency", order="priority"),
    Channel("quotes", "exists symbol", retain=Retain(per=("symbol",)), deadline="5s"),
)
MESSAGE = r"the channel 'urgent', such as \{.*\}, offers order any, not producer"


def test_a_bus_refuses_by_name() -> None:
    bus = fl.Bus(channels=CHANNELS, clock=lambda: fl.Instant(0))
    with pytest.raises(QualityRefused, match=MESSAGE):
        bus.subscribe("true", want="order=producer")
    with pytest.raises(QualityRefused, match=r"what is in no channel.* offers durability none, not logged"):
        bus.subscribe("exists other", want=Quality(durability="logged"))
    bus.subscribe(
        "exists symbol and not exists urgency", want="order=producer, deadline=10s, durability=retained"
    )
    kept = bus.subscribe("exists other and not exists urgency", want="order=producer")
    with pytest.raises(QualityRefused, match="offers order any, not producer"):
        kept.change("exists urgency")
    assert kept.filter == parse("exists other and not exists urgency")
    ordered = fl.Bus(channels=[Channel("a", "true", order="priority")], order="ordered")
    ordered.subscribe("true", want="order=total")
    with pytest.raises(fl.ChannelError, match="holds nothing"):
        fl.Bus(
            channels=[Channel("a", "true", delay=Delay("x"))], order="ordered", clock=lambda: fl.Instant(0)
        )


def test_a_broker_refuses_by_name(tmp_path: Any) -> None:
    with Brokers() as brokers:
        hub = brokers.start("hub", tmp_path, channels=CHANNELS)
        with fl.sync.connect(hub.url) as client:
            with pytest.raises(BrokerRefused, match=MESSAGE):
                client.subscribe("true", want="order=producer")
            with pytest.raises(BrokerRefused, match="offers durability logged, not retained"):
                client.subscribe("exists other", want=Quality(durability="retained"), durable="desk")
            with client.subscribe("not exists urgency", want="order=producer, durability=logged"):
                pass
            with client.subscribe("true", want="order=total", order="ordered"):
                pass
            with client.subscribe("exists symbol and not exists urgency", want="order=producer") as made:
                with pytest.raises(BrokerRefused, match=MESSAGE):
                    made.change("exists urgency")
                assert made.filter == parse("exists symbol and not exists urgency")
            assert client.durables() == []
    with pytest.raises(Problem, match="no quality of service"):
        Wanted.of([("filter", "true"), ("want", "depth=3")])
    assert Wanted.of([("filter", "true"), ("want", "durability=logged")]).want == "durability=logged"


def test_it_is_public() -> None:
    assert fl.Quality is offering.Quality
