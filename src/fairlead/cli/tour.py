"""`fairlead tour`: a market morning on the embedded bus.

Subscriptions of every kind, a stream of events, the deliveries, and the reasons. The same seed shows the same.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.terminal import paint, say, speaks_unicode

if TYPE_CHECKING:
    from fairlead.bus import Bus, Subscription
    from fairlead.model import Notification

__all__ = ["configure"]

SCHEMA: Final = """
abstract type Quote
type StockQuote: Quote
type BondQuote: Quote
type News
type Auction
price: number
"""

# Subscriber, kind of subscription, filter.
SUBSCRIPTIONS: Final = (
    ("ada", "content", 'symbol in {"IBM", "SAP"} and price > 150'),
    ("bruno", "types", "type is Quote and price < 90"),
    ("chen", "subjects", 'topic matches "sports/**"'),
    ("dora", "sets", 'tags overlaps {"breaking", "markets"} and tags lacks "rumour"'),
    ("emil", "paths", '//cpu[@manufacturer = "AMD" and @clock >= 700]'),
    ("fay", "templates", '("StockQuote", "Foo Inc.", *)'),
    ("gus", "arithmetic", "price * quantity > 20000"),
    ("hana", "Boolean", 'symbol prefix "S" and not (halted = true or price < 100)'),
)

# Pairs of filters, for the algebra.
RELATED: Final = (
    ("price > 10", "price in [20, 30]"),
    ('symbol prefix "S"', 'symbol in {"SAP", "SUN"}'),
    ("price in [20, 40]", "price > 30 and exists volume"),
    ('topic matches "sports/*"', 'topic matches "news/**"'),
    ("x >= 3 and x <= 5", "x in [3, 5]"),
)
MERGED: Final = (
    ("price in [20, 30]", "price in (25, 40]"),
    ('symbol = "IBM" and price > 100', 'symbol = "SAP" and price > 100'),
    ("x < 4", "x > 7"),
)
PAUSE_S: Final = 0.05
"""Between events, on a terminal."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = "A market morning on the embedded bus: which subscriber gets what, and why."
    parser.epilog = "Example: fairlead tour --seed 5 --events 30"
    parser.add_argument("--seed", metavar="N", type=int, default=74, help="what the sample is drawn from")
    parser.add_argument("--events", metavar="N", type=int, default=20, help="how many events (default: 20)")
    parser.set_defaults(run=run)


@dataclass(frozen=True, slots=True)
class _Signs:
    """The signs that the terminal can show."""

    arrow: str
    rule: str
    dot: str
    unicode: bool

    @classmethod
    def of_terminal(cls) -> _Signs:
        unicode = speaks_unicode(sys.stdout)
        return cls("→", "─", "·", True) if unicode else cls("->", "-", ".", False)


def run(arguments: argparse.Namespace) -> int:
    from fairlead.bus import Bus
    from fairlead.filters.schema import Schema

    signs = _Signs.of_terminal()
    with Bus(Schema.parse(SCHEMA, source="the tour's schema")) as bus:
        inboxes = {name: bus.subscribe(text, subscriber=name) for name, _, text in SUBSCRIPTIONS}
        _show_subscriptions(signs)
        published = _show_stream(bus, inboxes, Random(arguments.seed), arguments.events, signs)
        _show_reasons(inboxes["ada"], published, signs)
        _show_algebra(signs)
        _show_totals(bus, signs)
    return 0


def _heading(text: str, signs: _Signs) -> None:
    say()
    say(paint(f"{signs.rule * 2} {text} {signs.rule * max(2, 74 - len(text))}", "bold"))


def _show_subscriptions(signs: _Signs) -> None:
    _heading("Subscriptions", signs)
    for name, kind, text in SUBSCRIPTIONS:
        say(f"  {paint(f'{name:<6}', 'cyan')} {paint(f'{kind:<11}', 'dim')} {text}")


# -- the stream --------------------------------------------------------------------------------------------


def _show_stream(
    bus: Bus, inboxes: dict[str, Subscription], rng: Random, count: int, signs: _Signs
) -> list[Notification]:
    _heading("Events, and their subscribers", signs)
    published = []
    for event in _events(rng, count):
        notification = bus.publish(event)
        assert notification is not None, "no event of the sample comes twice"
        published.append(notification)
        told = [name for name, inbox in inboxes.items() if len(inbox) and inbox.get() == notification]
        whom = paint(", ".join(told), "green") if told else paint(signs.dot, "dim")
        say(f"  {_line(event):<58} {paint(signs.arrow, 'dim')} {whom}")
        if sys.stdout.isatty():
            sys.stdout.flush()
            time.sleep(PAUSE_S)
    return published


def _events(rng: Random, count: int) -> Iterator[dict[str, Any] | tuple[Any, ...]]:
    """Events of all sorts, drawn at random; the first ones are the same in every sample."""
    yield from (
        {"id": 1, "type": "StockQuote", "symbol": "IBM", "price": 168.5, "quantity": 200, "halted": False},
        {"id": 2, "type": "StockQuote", "symbol": "SAP", "price": 120.0, "quantity": 50, "halted": False},
    )[:count]
    for number in range(3, count + 1):
        yield rng.choice((_quote, _quote, _quote, _news, _auction, _tuple))(rng, number)


def _quote(rng: Random, number: int) -> dict[str, Any]:
    kind = rng.choice(("StockQuote", "StockQuote", "BondQuote"))
    return {
        "id": number,
        "type": kind,
        "symbol": rng.choice(("IBM", "SAP", "SUN", "FOO")) if kind == "StockQuote" else "DE-2034",
        "price": round(rng.uniform(60, 200), 1),
        "quantity": rng.choice((10, 50, 200)),
        "halted": rng.random() < 0.2,
    }


def _news(rng: Random, number: int) -> dict[str, Any]:
    topic = rng.choice(("sports/basketball/final", "sports/rowing", "markets/asia", "markets/europe"))
    tags = rng.sample(("breaking", "markets", "opinion", "rumour"), k=rng.randint(1, 2))
    return {"id": number, "type": "News", "topic": topic, "tags": tags}


def _auction(rng: Random, number: int) -> dict[str, Any]:
    cpu = {"manufacturer": rng.choice(("AMD", "Intel")), "clock": rng.choice((600, 700, 900))}
    return {"id": number, "type": "Auction", "item": [{"name": "board", "cpu": cpu}]}


def _tuple(rng: Random, number: int) -> tuple[Any, ...]:
    return ("StockQuote", rng.choice(("Foo Inc.", "Bar Ltd.")), 40 + number)


def _line(event: dict[str, Any] | tuple[Any, ...]) -> str:
    """An event on one short line."""
    if isinstance(event, tuple):
        return f"({', '.join(map(repr, event))})".replace("'", '"')
    match event:
        case {"symbol": symbol, "price": price, "quantity": quantity, "halted": halted}:
            return f"{event['type']:<10} {symbol:<8} {price:>6} x {quantity:<4}{' halted' if halted else ''}"
        case {"topic": topic, "tags": tags}:
            return f"News       {topic:<24} {{{', '.join(sorted(tags))}}}"
        case {"item": [{"cpu": cpu}]}:
            return f"Auction    a board with an {cpu['manufacturer']} at {cpu['clock']} MHz"
    raise AssertionError(f"the sample holds no such event: {event}")


# -- reasons and algebra -----------------------------------------------------------------------------------


def _show_reasons(subscription: Subscription, published: list[Notification], signs: _Signs) -> None:
    from fairlead.filters.explain import explain

    _heading("Why", signs)
    for event in published[:2]:
        explanation = explain(subscription.filter, event)
        verdict = paint(explanation.verdict, "green" if explanation.holds else "red")
        say(f"  {subscription.subscriber}'s filter, event {event.id}: {verdict}")
        for line in explanation.lines(ascii=not signs.unicode, depth=2):
            say(line)


def _show_algebra(signs: _Signs) -> None:
    from fairlead.filters import merge, parse, relate

    _heading("Filters compared", signs)
    for one, other in RELATED:
        relation = relate(parse(one), parse(other))
        say(f"  {one:<32} {paint(f'{relation.name:<10}', 'yellow')} {other}")
    _heading("Filters merged", signs)
    for one, other in MERGED:
        merger = merge([parse(one), parse(other)])
        assert merger is not None, "the sample's filters have perfect mergers"
        say(f"  {one}   {paint('+', 'dim')}   {other}")
        say(f"    {paint(signs.arrow, 'dim')} {paint(str(merger.filter), 'yellow')}")


def _show_totals(bus: Bus, signs: _Signs) -> None:
    totals = bus.statistics()
    say()
    say(
        f"{totals.published} events {signs.dot} {totals.subscriptions} subscriptions {signs.dot} "
        f"{totals.delivered} deliveries, in the order of publishing"
    )
    say(paint("Try it: fairlead filter relate 'price > 10' 'price in [20, 30]'", "dim"))
