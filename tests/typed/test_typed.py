"""Instances of classes as notifications: what is read of an event is the instance that was published."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Any, ClassVar, Literal
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairlead as fl
from fairlead.errors import NotAdvertised, SchemaError, SubscriptionEnded, ValueRefused
from fairlead.filters import identical
from fairlead.typed import Model, schema_of


class Side(Enum):
    BUY = "buy"
    SELL = "sell"


@dataclass(frozen=True)
class Leg:
    venue: str
    price: Decimal | None = None
    at: fl.Instant | None = None


@dataclass(frozen=True)
class Quote:
    symbol: str
    price: float
    time: fl.Instant | None = None


@dataclass(frozen=True)
class StockQuote(Quote):
    legs: list[Leg] = field(default_factory=list)
    best: Leg | None = None
    side: Side = Side.BUY
    tags: frozenset[str] = frozenset()
    history: list[int] = field(default_factory=list)
    when: dt.datetime | None = None
    place: fl.Point | None = None
    letter: Literal["a", "b"] = "a"
    ticket: UUID | None = None
    raw: bytes = b""
    notes: dict[str, int] = field(default_factory=dict)


class Order(msgspec.Struct, frozen=True, rename="camel"):
    order_id: int
    legs: list[Leg] = []


class Reading(pydantic.BaseModel):
    celsius: float
    room: str = pydantic.Field(alias="roomName", default="hall")
    leg: Leg | None = None


class Mean(Reading):
    over: int


TIMES = st.datetimes(dt.datetime(1990, 1, 1), dt.datetime(2050, 1, 1)).map(
    lambda each: each.replace(tzinfo=dt.UTC)
)
INSTANTS = TIMES.map(fl.Instant.of)
NAMES = st.text(st.characters(codec="utf-8"), max_size=6)
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**9), max_value=10**9)
LEGS = st.builds(Leg, NAMES, st.none() | DECIMALS, st.none() | INSTANTS)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
QUOTES: st.SearchStrategy[Quote] = st.builds(Quote, NAMES, NUMBERS, st.none() | INSTANTS) | st.builds(
    StockQuote,
    NAMES,
    NUMBERS,
    st.none() | INSTANTS,
    legs=st.lists(LEGS, max_size=3),
    best=st.none() | LEGS,
    side=st.sampled_from(Side),
    tags=st.frozensets(NAMES, max_size=3),
    history=st.lists(st.integers(), max_size=4),
    when=st.none() | TIMES,
    place=st.none() | st.builds(fl.Point, st.integers(), st.integers()),
    letter=st.sampled_from(["a", "b"]),
    ticket=st.none() | st.uuids(),
    raw=st.binary(max_size=4),
    notes=st.dictionaries(st.sampled_from(["x", "y", "$time"]), st.integers(), max_size=2),
)

SCHEMA = schema_of(Quote, Order, Reading)


@given(QUOTES)
def test_what_is_read_of_an_event_is_the_instance(quote: Quote) -> None:
    model = Model(Quote)
    published = fl.Notification.of(model.event(quote))
    assert model.read(published) == quote
    assert type(model.read(published)) is type(quote)
    assert model.filter.matches(published)


@given(QUOTES)
def test_a_schema_of_classes_admits_the_events_of_all_instances(quote: Quote) -> None:
    admitted = SCHEMA.admit(fl.Notification.of(Model(Quote).event(quote)))
    assert Model(Quote).read(admitted) == quote


@given(st.builds(Order, st.integers(), st.lists(LEGS, max_size=2)))
def test_structs_have_the_names_that_they_are_written_with(order: Order) -> None:
    event = Model(Order).event(order)
    assert set(event) == {"type", "orderId", "legs"}
    assert Model(Order).read(SCHEMA.admit(fl.Notification.of(event))) == order


@given(st.builds(Mean, celsius=NUMBERS, roomName=NAMES, over=st.integers(), leg=st.none() | LEGS))
def test_models_of_pydantic_are_validated_by_pydantic(mean: Mean) -> None:
    event = Model(Reading).event(mean)
    assert event["roomName"] == mean.room
    assert Model(Reading).read(SCHEMA.admit(fl.Notification.of(event))) == mean


def test_a_bus_publishes_and_delivers_instances() -> None:
    with fl.Bus(schema_of(Quote)) as bus:
        quotes, stocks = bus.of(Quote), bus.of(StockQuote)
        called: list[Quote] = []
        with quotes.subscribe("price > 100") as dear, stocks.subscribe() as all_stocks:
            quotes.subscribe('symbol = "SUN"', called.append)
            quotes.publish(Quote("SUN", 99))
            quotes.publish(StockQuote("IBM", 101.5, history=[3, 1, 3]))
            bus.publish({"type": "StockQuote", "symbol": "SAP", "price": 120})
            assert dear.get(0) == StockQuote("IBM", 101.5, history=[3, 1, 3])
            assert dear.get(0) == StockQuote("SAP", 120.0)
            assert all_stocks.get(0) == StockQuote("IBM", 101.5, history=[3, 1, 3])
            assert called == [Quote("SUN", 99.0)]
        assert list(dear) == []
        assert list(all_stocks) == [StockQuote("SAP", 120.0)]
        with pytest.raises(SubscriptionEnded):
            dear.get(0)
        with pytest.raises(ValueRefused, match="no instance of StockQuote"):
            stocks.publish(Quote("SUN", 99))  # type: ignore[arg-type]


def test_what_a_class_publishes_is_checked_by_schema_and_advertisements() -> None:
    with fl.Bus(schema_of(Quote)) as bus:
        bus.advertise("price > 10")
        with pytest.raises(NotAdvertised):
            bus.of(Quote).publish(Quote("SUN", 9))
        with pytest.raises(ValueRefused, match="'price' is declared as number"):
            bus.publish({"type": "Quote", "symbol": "SUN", "price": "dear"})


def test_a_notification_that_is_no_instance_is_an_error_of_its_subscriber_alone() -> None:
    failed: list[Exception] = []
    with fl.Bus(on_error=lambda _, error: failed.append(error)) as bus:
        taken: list[Quote] = []
        bus.of(Quote).subscribe(callback=taken.append)
        inbox = bus.of(Quote).subscribe()
        bus.publish({"type": "Quote", "symbol": "SUN"})
        bus.publish({"type": "Quote", "symbol": "SUN", "price": 1})
        assert taken == [Quote("SUN", 1.0)]
        assert ["`price`" in str(error) for error in failed] == [True]
        with pytest.raises(ValueRefused, match=r"no Quote: .*`price`"):
            inbox.get(0)
        assert inbox.get(0) == Quote("SUN", 1.0)


@pytest.mark.parametrize(
    ("cls", "problem"),
    [
        (int, "no fields with annotations"),
        (type("Tagged", (msgspec.Struct,), {"__annotations__": {"x": int}}, tag=True), "with a tag"),
        (msgspec.defstruct("Typed", [("type", str)]), "a field `type`"),
    ],
)
def test_classes_that_cannot_be_told_are_refused(cls: Any, problem: str) -> None:
    with pytest.raises(ValueRefused, match=problem):
        Model(cls)


def test_an_annotation_that_names_nothing_is_refused_with_its_name() -> None:
    lost = msgspec.defstruct("Lost", [("x", "Nowhere")])
    with pytest.raises(ValueRefused, match="Nowhere"):
        Model(lost)


def test_two_classes_of_one_name_are_refused_and_a_class_may_have_another() -> None:
    @dataclass
    class Event:
        x: int

    other = msgspec.defstruct("Event", [("x", int)])
    with pytest.raises(SchemaError, match="two classes are called 'Event'"):
        schema_of(Event, other)

    @dataclass
    class Renamed(Event):
        fairlead_type: ClassVar[str] = "event.v2"

    assert Model(Event).event(Renamed(1)) == {"type": "event.v2", "x": 1}
    assert identical(Model(Event).filter, fl.parse('type in {"Event", "event.v2"}'))


def test_an_attribute_of_two_annotations_may_be_either() -> None:
    schema = schema_of(
        msgspec.defstruct("A", [("x", int), ("y", int), ("z", int)]),
        msgspec.defstruct("B", [("x", float), ("y", str | None), ("z", int | None)]),
    )
    assert dict(schema.attributes) == {"x": "number", "y": "any", "z": "int?"}
