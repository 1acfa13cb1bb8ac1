"""A day on the market, to try a pipeline on: the same seed writes the same bytes.

    DIRECTORY/events/00.jsonl …     in the order in which they arrived
    DIRECTORY/subscriptions.jsonl   who wants what
    DIRECTORY/patterns.jsonl        who wants to know when several events mean something together
    DIRECTORY/pipeline.toml         what to do with them

Five exchanges number what they send: quotes that walk at random, orders, and trades that name the order that
caused them. Two wires send news, a registry sends announcements as CloudEvents, and a grid of sensors sends
the weather. As everywhere, some is amiss: clocks go back a little, messages overtake one another by up to two
seconds, one in a thousand comes twice and one cannot be read, and a few come far too late.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any, Final

__all__ = ["Sample", "write_sample"]

FILES: Final = 20
SECOND: Final = 1_000_000
OPENING: Final = 1_714_978_800 * SECOND
"""2024-05-06, a Monday, 07:00 UTC."""
DAY: Final = int(8.5 * 3600) * SECOND
DISORDER_MAX: Final = int(1.9 * SECOND)
"""The distance by which one message overtakes another; with clocks that go back, still within two seconds."""
CLOCK_BACK_MAX: Final = 30_000
LATE: Final = (180 * 60 * SECOND, 300 * 60 * SECOND)
"""The delays of late messages: longer than a batch of files, so that a stream has gone on without them."""
BROKEN_SHARE: Final = 0.001
TWICE_SHARE: Final = 0.001
LATE_SHARE: Final = 0.0008
VENUES: Final = ("XNYS", "XNAS", "XETR", "XLON", "XTKS")

PIPELINE: Final = """\
# A day on the market: who gets what. Try it with:  fairlead run pipeline.toml

name = "A day on the market"
mode = "stream"
output = "out"

[events]
path = "events"
format = "json"

[subscriptions]
path = "subscriptions.jsonl"

[patterns]
path = "patterns.jsonl"

[order]
lateness = "5s"     # messages overtake one another by up to two seconds
final = true

[audit]
specifications = ["simple", "fifo", "causal", "total", "ordered"]

[stream]
available = true    # take the files that are there, batch by batch, then end
max_files = 7

[spark.settings]    # for a run of a minute: compile quickly rather than well, and plan once
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"spark.sql.adaptive.enabled" = "false"
"""

PATTERNS: Final = (
    # A price that falls and falls, and then somebody buys.
    (
        "p-slide",
        "desk.surveillance",
        "slide: StockQuote as first followed by StockQuote as second among StockQuote followed by StockQuote as "
        'third among StockQuote followed by Order[side = "buy"] as order within 10 minutes, same symbol, '
        "second.price < first.price, third.price < second.price",
    ),
    # Much is traded of what has risen already.
    (
        "p-rally",
        "desk.trading",
        "rally: 3 or more Trade as trade followed by StockQuote[change > 2] as quote within 15 minutes, same "
        "symbol, giving pieces = sum(trade.quantity)",
    ),
    # A gust, and then nothing is heard of the sensor.
    (
        "p-silent",
        "desk.grid",
        'silent: Reading[unit = "m/s" and value > 14] as gust then no Reading within 1 hour, same sensor',
    ),
)
"""The patterns of this day: id, subscriber, text."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The sample that was written: how much of which sort, and where."""

    directory: Path
    pipeline: Path
    events: int
    """Different notifications that can be read."""
    duplicates: int
    broken: int
    late: int
    """Of the events, those that come long after their time."""
    subscriptions: int
    subscribers: int
    never: int
    """Subscriptions made so that nothing can match them."""
    patterns: int = len(PATTERNS)


def write_sample(
    directory: str | Path, *, events: int = 100_000, subscriptions: int = 10_000, seed: int = 74
) -> Sample:
    """Write events, subscriptions and a pipeline below a directory, which is made where it is missing."""
    place = Path(directory)
    (place / "events").mkdir(parents=True, exist_ok=True)
    market = Market.open(Random(f"{seed} market"))
    late, twice, broken = _write_events(place / "events", market, events, Random(f"{seed} events"))
    people, never = _write_subscriptions(
        place / "subscriptions.jsonl", market, subscriptions, Random(f"{seed} subscriptions")
    )
    _write_patterns(place / "patterns.jsonl")
    pipeline = place / "pipeline.toml"
    pipeline.write_text(PIPELINE, encoding="utf-8", newline="\n")
    return Sample(place, pipeline, events, twice, broken, late, subscriptions, people, never)


# -- the market --------------------------------------------------------------------------------------------

SECTORS: Final = {
    "energy": ("Energy", "Power", "Petroleum"),
    "technology": ("Systems", "Software", "Semiconductors"),
    "health": ("Pharma", "Biotech", "Medical"),
    "industry": ("Steel", "Machines", "Shipping"),
    "finance": ("Bank", "Insurance", "Capital"),
    "consumer": ("Foods", "Brewery", "Textiles"),
}
HOUSES: Final = (
    *("Alder", "Anchor", "Atlas", "Aurora", "Baltic", "Beacon", "Borealis", "Brandt", "Cardinal", "Castell"),
    *(
        "Cormorant",
        "Delta",
        "Dover",
        "Eider",
        "Elm",
        "Falcon",
        "Fjord",
        "Garnet",
        "Granite",
        "Harbour",
        "Heron",
    ),
    *("Indigo", "Jutland", "Kestrel", "Lark", "Linden", "Lodestar", "Maple", "Meridian", "Neptune", "Nordic"),
    *(
        "Oak",
        "Orion",
        "Osprey",
        "Pelican",
        "Phoenix",
        "Quarry",
        "Raven",
        "Rhine",
        "Sable",
        "Sextant",
        "Solent",
    ),
    *("Tern", "Thistle", "Umber", "Vega", "Vesper", "Walnut", "Yarrow", "Zephyr"),
)
RATINGS: Final = {
    "DE": "AAA",
    "NL": "AAA",
    "US": "AA",
    "FR": "AA",
    "JP": "A",
    "IT": "BBB",
    "ES": "A",
    "BR": "BB",
}
REGIONS: Final = {"XNYS": "america", "XNAS": "america", "XETR": "europe", "XLON": "europe", "XTKS": "asia"}


@dataclass(slots=True)
class Listing:
    """A share, and where its price stands at the moment."""

    symbol: str
    name: str
    sector: str
    venue: str
    opened: float
    weight: float
    price: float


@dataclass(frozen=True, slots=True)
class Market:
    """The traded goods: shares, the often traded ones first, and bonds; and sensors."""

    listings: tuple[Listing, ...]
    bonds: tuple[tuple[str, int, float], ...]
    sensors: tuple[tuple[str, str, float, float], ...]

    @classmethod
    def open(cls, rng: Random) -> Market:
        companies = [
            (f"{house} {last}", sector)
            for house in HOUSES
            for sector, lasts in SECTORS.items()
            for last in lasts
        ]
        listings, taken = [], set[str]()
        for rank, (name, sector) in enumerate(rng.sample(companies, 300), start=1):
            symbol = _symbol(name, taken)
            taken.add(symbol)
            price = round(math.exp(rng.uniform(math.log(4), math.log(600))), 2)
            listings.append(Listing(symbol, name, sector, rng.choice(VENUES), price, rank**-0.9, price))
        bonds = tuple(
            (country, year, round(rng.uniform(1.2, 6.5), 2))
            for country in RATINGS
            for year in range(2026, 2056, 6)
        )
        sensors = tuple(
            (f"{kind}-{number:02}", kind, round(rng.uniform(-8, 24), 2), round(rng.uniform(40, 62), 2))
            for kind in READINGS
            for number in range(1, 31)
        )
        return cls(tuple(listings), bonds, sensors)


def _symbol(name: str, taken: set[str]) -> str:
    """Two letters of each word, as long as nobody else has them."""
    house, last = (word.upper() for word in name.split())
    return next(
        symbol
        for symbol in (
            house[:2] + last[:2],
            house[:3] + last[0],
            *(house[:3] + letter for letter in house[3:] + last),
        )
        if symbol not in taken
    )


# -- events ------------------------------------------------------------------------------------------------

READINGS: Final = {"wind": ("m/s", 9.0, 4.5), "sun": ("W/m2", 420.0, 210.0), "level": ("m", 3.1, 0.9)}
HEADLINES: Final = (
    ("{name} raises its outlook after a strong quarter", ("earnings", "outlook")),
    ("{name} misses estimates, profit falls {n} %", ("earnings",)),
    ("{name} and {other} in merger talks", ("merger",)),
    ("Rumour has it that {other} bids for {name}", ("merger", "rumour")),
    ("Regulator looks into the books of {name}", ("regulation",)),
    ("{name} recalls {n},000 units", ("product",)),
    ("{name} names a new chief executive", ("people",)),
    ("Strike at {name} enters day {n}", ("labour",)),
    ("{name} wins an order worth {n} million", ("contract",)),
)
ANNOUNCED: Final = ("dividend", "results", "buyback", "insider", "merger")
SIDES: Final = ("buy", "sell")
KINDS: Final = {"quote": 52, "order": 16, "trade": 16, "bond": 6, "reading": 5, "news": 3, "announcement": 2}


def _write_events(directory: Path, market: Market, count: int, rng: Random) -> tuple[int, int, int]:
    """Write the events; the number of those that are late, that come twice, and that are broken."""
    arrivals: list[tuple[int, bytes]] = []
    late, twice = round(count * LATE_SHARE), round(count * TWICE_SHARE)
    delayed = set(rng.sample(range(count), late))
    repeated = set(
        rng.sample([each for each in range(count) if each not in delayed], min(twice, count - late))
    )
    for number, (time, event) in enumerate(Day(market, rng).events(count)):
        line = _line(event)
        arrival = time + min(DISORDER_MAX, int(rng.expovariate(5) * SECOND))
        if number in delayed:
            arrival = time + rng.randint(*LATE)
        arrivals.append((arrival, line))
        if number in repeated:
            arrivals.append((arrival + rng.randint(1_000, SECOND), line))
    broken = round(count * BROKEN_SHARE)
    for number in range(broken):
        arrival, line = arrivals[rng.randrange(count)]
        arrivals.append((arrival, BREAKS[number % len(BREAKS)](line)))
    arrivals.sort()
    _write_files(directory, arrivals)
    return late, len(repeated), broken


def _write_files(directory: Path, arrivals: Sequence[tuple[int, bytes]]) -> None:
    for number in range(FILES):
        start, end = (len(arrivals) * each // FILES for each in (number, number + 1))
        file = directory / f"{number:02}.jsonl"
        file.write_bytes(b"".join(line + b"\n" for _, line in arrivals[start:end]))
        # A stream takes the oldest file first; on some disks, those of one second are equally old.
        closed = OPENING // SECOND + (number + 1) * (DAY // SECOND // FILES)
        os.utime(file, (closed, closed))


def _line(event: dict[str, Any]) -> bytes:
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()


class Day:
    """The day as it happens: prices that walk, numbers that count up, orders that wait for their trades."""

    def __init__(self, market: Market, rng: Random) -> None:
        self._rng = rng
        self._listings = market.listings
        self._weights = list(accumulate(listing.weight for listing in market.listings))
        self._bonds, self._sensors = market.bonds, market.sensors
        self._sent = Counter[str]()
        self._orders: dict[str, deque[tuple[str, Listing, int]]] = {
            venue: deque(maxlen=200) for venue in VENUES
        }
        self._steps: dict[str, float] = {}

    def events(self, count: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """So many events, each with the instant at which it is sent."""
        quotes = count * KINDS["quote"] / sum(KINDS.values()) / self._weights[-1]
        # A price moves by some per cent in a day, in however many steps.
        self._steps = {each.symbol: 0.045 / math.sqrt(1 + quotes * each.weight) for each in self._listings}
        makers = {
            name.removeprefix("_make_"): getattr(self, name)
            for name in dir(self)
            if name.startswith("_make_")
        }
        kinds = self._rng.choices(list(KINDS), list(KINDS.values()), k=count)
        for time, kind in zip(sorted(self._instants(count)), kinds, strict=True):
            yield time, makers[kind](time)

    def lines(self, count: int) -> Iterator[bytes]:
        """The events as lines of JSON, in the order of their times."""
        return (_line(event) for _, event in self.events(count))

    def _instants(self, count: int) -> Iterator[int]:
        """Two fifths crowd at the opening and the close, as on every exchange."""
        for _ in range(count):
            share = self._rng.random()
            if self._rng.random() < 0.4:
                share = (1 - math.cos(math.pi * share)) / 2
            yield OPENING + int(DAY * share)

    def _envelope(self, producer: str, time: int) -> dict[str, Any]:
        self._sent[producer] += 1
        if self._rng.random() < 0.005:
            time -= self._rng.randint(1, CLOCK_BACK_MAX)
        number = self._sent[producer]
        return {
            "id": f"{producer}-{number}",
            "producer": producer,
            "sequence": number,
            "time": _instant(time),
        }

    def _listing(self) -> Listing:
        [listing] = self._rng.choices(self._listings, cum_weights=self._weights)
        return listing

    def _make_quote(self, time: int) -> dict[str, Any]:
        rng, listing = self._rng, self._listing()
        listing.price = max(0.5, listing.price * (1 + self._steps[listing.symbol] * rng.uniform(-1, 1)))
        half = listing.price * rng.uniform(0.0002, 0.004)
        return {
            **self._envelope(listing.venue, time),
            "type": "StockQuote",
            "symbol": listing.symbol,
            "sector": listing.sector,
            "price": round(listing.price, 2),
            "bid": round(listing.price - half, 2),
            "ask": round(listing.price + half, 2),
            "change": round(100 * (listing.price / listing.opened - 1), 2),
            "volume": 100 * int(1 + rng.expovariate(0.04)),
        }

    def _make_order(self, time: int) -> dict[str, Any]:
        rng, listing = self._rng, self._listing()
        quantity = 10 * int(1 + rng.expovariate(0.02))
        event = {
            **self._envelope(listing.venue, time),
            "type": "Order",
            "symbol": listing.symbol,
            "side": rng.choice(SIDES),
            "quantity": quantity,
            "limit": round(listing.price * rng.uniform(0.985, 1.015), 2),
        }
        if rng.random() < 0.05:
            legs = [self._listing() for _ in range(rng.randint(2, 4))]
            event["leg"] = [{"symbol": each.symbol, "quantity": 10 * rng.randint(1, 40)} for each in legs]
        self._orders[listing.venue].append((event["id"], listing, quantity))
        return event

    def _make_trade(self, time: int) -> dict[str, Any]:
        waiting = self._orders[self._listing().venue]
        if not waiting:
            return self._make_order(time)
        order, listing, quantity = waiting[self._rng.randrange(len(waiting))]
        return {
            **self._envelope(listing.venue, time),
            "type": "Trade",
            "symbol": listing.symbol,
            "sector": listing.sector,
            "price": round(listing.price, 2),
            "quantity": self._rng.randint(1, quantity),
            "cause": order,
        }

    def _make_bond(self, time: int) -> dict[str, Any]:
        rng = self._rng
        country, maturity, coupon = rng.choice(self._bonds)
        returns = round(coupon + rng.gauss(0, 0.25), 3)
        return {
            **self._envelope("XETR", time),
            "type": "BondQuote",
            "issuer": country,
            "maturity": maturity,
            "rating": RATINGS[country],
            "price": round(100 - (returns - coupon) * math.sqrt(maturity - 2024), 2),
            "yield": returns,
        }

    def _make_reading(self, time: int) -> dict[str, Any]:
        sensor, kind, east, north = self._rng.choice(self._sensors)
        unit, mean, deviation = READINGS[kind]
        return {
            **self._envelope("grid", time),
            "type": "Reading",
            "sensor": sensor,
            "value": round(max(0.0, self._rng.gauss(mean, deviation)), 1),
            "unit": unit,
            "place": {"$point": [east, north]},
        }

    def _make_news(self, time: int) -> dict[str, Any]:
        rng, listing, other = self._rng, self._listing(), self._listing()
        headline, tags = rng.choice(HEADLINES)
        region = REGIONS[listing.venue]
        return {
            **self._envelope(rng.choice(("wire/north", "wire/south")), time),
            "type": "News",
            "topic": f"markets/{region}/{listing.sector}",
            "headline": headline.format(name=listing.name, other=other.name, n=rng.randint(2, 40)),
            "tags": [*tags, *(("breaking",) if rng.random() < 0.15 else ())],
            "symbols": sorted({listing.symbol, other.symbol} if "{other}" in headline else {listing.symbol}),
        }

    def _make_announcement(self, time: int) -> dict[str, Any]:
        rng, listing = self._rng, self._listing()
        envelope = self._envelope("/registry/announcements", time)
        return {
            "specversion": "1.0",
            "id": f"announcement-{envelope['sequence']}",
            "source": envelope["producer"],
            "type": "Announcement",
            "subject": listing.symbol,
            "time": envelope["time"],
            "sequence": str(envelope["sequence"]),
            "data": {
                "kind": rng.choice(ANNOUNCED),
                "amount": round(rng.uniform(0.1, 90), 1),
                "currency": "EUR",
            },
        }


def _instant(microseconds: int) -> str:
    """An instant of the day; as fast as it must be for many."""
    seconds, fraction = divmod(microseconds - (OPENING - 7 * 3600 * SECOND), SECOND)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"2024-05-06T{hour:02}:{minute:02}:{second:02}.{fraction:06}Z"


def _replaced(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    return lambda line: line.replace(old, new, 1)


# What goes wrong with lines, in turn. Each takes a good one; none leaves it readable.
BREAKS: Final[tuple[Callable[[bytes], bytes], ...]] = (
    lambda line: line[: len(line) * 2 // 3],
    _replaced(b'"time":"2024-05-06T', b'"time":"06/05/2024 '),
    lambda line: b"[" + line + b"]",
    lambda line: line.replace(b'"type":"', b'"type":"\xff\xfe', 1),
    lambda line: b"<html><body><h1>502 Bad Gateway</h1></body></html>",
    lambda line: line[:-1] + b',"note":"\\ud83d"}',
    _replaced(b'Z"', b'123Z"'),
    lambda line: line[:-1] + b',"price":NaN,}',
    lambda line: line + line,
    lambda line: b'{"id":{"venue":"XNYS"},' + line[1:].replace(b'"id"', b'"old_id"', 1),
)


# -- subscriptions -----------------------------------------------------------------------------------------

FIRST_NAMES: Final = (
    *(
        "ada",
        "amir",
        "anna",
        "bela",
        "bruno",
        "carla",
        "chen",
        "clara",
        "dora",
        "elif",
        "emil",
        "esra",
        "fay",
    ),
    *("finn", "greta", "gus", "hana", "hugo", "ida", "ines", "ivan", "jana", "jiro", "jonas", "kai", "karin"),
    *("lars", "lea", "lena", "luca", "mara", "marc", "mia", "nadia", "nils", "nora", "olga", "omar", "otto"),
    *(
        "paula",
        "piet",
        "rana",
        "rosa",
        "ruth",
        "sami",
        "sara",
        "sofia",
        "sven",
        "tara",
        "theo",
        "tina",
        "tomas",
    ),
    *("uma", "vera", "viktor", "wanda", "yara", "yusuf", "zoe", "zora"),
)
LAST_NAMES: Final = (
    *(
        "abel",
        "adler",
        "aziz",
        "bauer",
        "becker",
        "berg",
        "blum",
        "bos",
        "braun",
        "costa",
        "cruz",
        "dahl",
        "diaz",
    ),
    *("eklund", "engel", "farkas", "fischer", "fuchs", "garcia", "gruber", "haas", "hansen", "horn", "ito"),
    *(
        "jansen",
        "jung",
        "kaya",
        "keller",
        "klein",
        "koch",
        "kovac",
        "kraus",
        "lange",
        "lind",
        "lopez",
        "maier",
    ),
    *(
        "mori",
        "moser",
        "nagy",
        "novak",
        "olsen",
        "park",
        "petit",
        "ricci",
        "roth",
        "sato",
        "silva",
        "vogel",
        "wu",
    ),
)
HOPELESS_SHARE: Final = 0.03
SUBSCRIPTIONS_MAX: Final = 20
"""That one person has."""


def _write_subscriptions(path: Path, market: Market, count: int, rng: Random) -> tuple[int, int]:
    """Write the subscriptions; the number of people, and of subscriptions that nothing can match."""
    owners = _owners(count, rng)
    wishes = Wishes(market, rng)
    never = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for number, owner in enumerate(owners, start=1):
            hopeless = rng.random() < HOPELESS_SHARE
            never += hopeless
            subscription: dict[str, Any] = {
                "id": f"s-{number:05}",
                "subscriber": owner,
                "filter": wishes.hopeless() if hopeless else wishes.any(),
            }
            if rng.random() < 0.02:  # for the morning, or for the afternoon
                subscription[rng.choice(("from", "until"))] = OPENING + DAY // 2
            file.write(json.dumps(subscription, ensure_ascii=False) + "\n")
    return len(set(owners)), never


def _owners(count: int, rng: Random) -> list[str]:
    """The owner of each subscription: about five for each person, 1 to 20, unevenly."""
    names = [f"{first}.{last}" for first in FIRST_NAMES for last in LAST_NAMES]
    wanted = max(1, count // 5)
    people = [
        name if copy == 0 else f"{name}.{copy + 1}"
        for copy in range(-(-wanted // len(names)))
        for name in rng.sample(names, min(len(names), wanted - copy * len(names)))
    ]
    owners = people[:count]
    slots = [name for name in people for _ in range(min(SUBSCRIPTIONS_MAX - 1, int(rng.expovariate(0.2))))]
    rng.shuffle(slots)
    spare = [name for name in people for _ in range(SUBSCRIPTIONS_MAX - 1)]
    owned = Counter(owners)
    for name in (*slots, *rng.sample(spare, len(spare))):
        if len(owners) == count:
            break
        if owned[name] < SUBSCRIPTIONS_MAX:
            owned[name] += 1
            owners.append(name)
    rng.shuffle(owners)
    return owners


def _write_patterns(path: Path) -> None:
    rows = ({"id": id, "subscriber": subscriber, "pattern": text} for id, subscriber, text in PATTERNS)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8", newline="\n")


class Wishes:
    """Filters as people write them, of every sort that the language has."""

    def __init__(self, market: Market, rng: Random) -> None:
        self._rng = rng
        self._market = market
        # People care for what is traded much, but not as much as it is traded.
        self._weights = list(accumulate(math.sqrt(listing.weight) for listing in market.listings))
        self._sorts: dict[Callable[[], str], int] = {
            self._range: 28,
            self._move: 12,
            self._several: 8,
            self._prefix: 4,
            self._negation: 7,
            self._boolean: 7,
            self._value: 6,
            self._spread: 4,
            self._bond: 5,
            self._topic: 5,
            self._tags: 5,
            self._headline: 3,
            self._announcement: 3,
            self._weather: 2,
            self._basket: 1,
        }

    def texts(self, count: int) -> Iterator[str]:
        """Wishes of all sorts, a few of them hopeless."""
        for _ in range(count):
            yield self.hopeless() if self._rng.random() < HOPELESS_SHARE else self.any()

    def any(self) -> str:
        """A wish that may come true."""
        [sort] = self._rng.choices(list(self._sorts), list(self._sorts.values()))
        return sort()

    def hopeless(self) -> str:
        """A wish that cannot come true on this day."""
        rng, listing = self._rng, self._listing()
        return rng.choice(
            (
                f'symbol = "{listing.symbol}.OLD" and price > {_near(listing.price, 0.9)}',
                f'symbol = "{listing.symbol.lower()}" and volume > {100 * rng.randint(1, 50)}',
                f'type is StockQuote and symbol = "{listing.symbol}" and price > {round(listing.price * 400)}',
                f'type is News and topic matches "sports/{rng.choice(("rowing", "sailing", "chess"))}/**"',
                f'type is Auction and symbol = "{listing.symbol}"',
                f'issuer = "{rng.choice(("AR", "GR", "CH"))}" and yield > {rng.randint(1, 9)}',
                f'tags superset {{"earnings", "labour"}} and symbols contains "{listing.symbol}"',
            )
        )

    def _listing(self) -> Listing:
        [listing] = self._rng.choices(self._market.listings, cum_weights=self._weights)
        return listing

    def _sector(self) -> str:
        return self._rng.choice(list(SECTORS))

    def _range(self) -> str:
        rng, listing = self._rng, self._listing()
        middle, width = listing.opened * rng.uniform(0.98, 1.02), rng.choice((0.001, 0.003, 0.006))
        return f'symbol = "{listing.symbol}" and price in [{_near(middle, 1 - width)}, {_near(middle, 1 + width)}]'

    def _move(self) -> str:
        beyond = self._rng.choice(("< -", "> ")) + self._rng.choice(("0.5", "1", "1.5", "2", "3"))
        return f'type is StockQuote and symbol = "{self._listing().symbol}" and change {beyond}'

    def _several(self) -> str:
        rng = self._rng
        symbols = sorted({self._listing().symbol for _ in range(rng.randint(2, 6))})
        return f"symbol in {_set(symbols)} and quantity >= {rng.choice((500, 800, 1200))} and type is Trade"

    def _prefix(self) -> str:
        start = self._listing().symbol[:2]
        return (
            f'type is StockQuote and symbol prefix "{start}" and volume >= {1000 * self._rng.randint(9, 15)}'
        )

    def _negation(self) -> str:
        rng, listing = self._rng, self._listing()
        low, high = _near(listing.opened, 0.99), _near(listing.opened, 1.01)
        return (
            f'type is StockQuote and sector = "{listing.sector}" and price in [{low}, {high}] '
            f'and not (producer = "{rng.choice(VENUES)}" or volume < {100 * rng.randint(10, 40)})'
        )

    def _boolean(self) -> str:
        rng, one, other = self._rng, self._listing(), self._listing()
        cheap = f'symbol = "{one.symbol}" and price < {_near(one.opened, rng.uniform(0.96, 0.99))}'
        rising = f'symbol = "{other.symbol}" and not change < {rng.choice((1, 2, 3))}'
        return f"type is StockQuote and (({cheap}) or ({rising}))"

    def _value(self) -> str:
        worth = self._rng.choice((20_000, 50_000, 100_000, 250_000))
        if self._rng.random() < 0.05:
            return f'type is Trade and sector = "{self._sector()}" and price * quantity > {10 * worth}'
        return f'type is Trade and symbol = "{self._listing().symbol}" and price * quantity > {worth}'

    def _spread(self) -> str:
        listing = self._listing()
        return f'symbol = "{listing.symbol}" and ask - bid > {_near(listing.opened, 0.007)}'

    def _bond(self) -> str:
        rng = self._rng
        if rng.random() < 0.5:
            return f'rating in {{"A", "AA", "AAA"}} and yield > {rng.choice((6.2, 6.4, 6.6))}'
        return (
            f'issuer = "{rng.choice(list(RATINGS))}" and maturity <= {rng.choice((2030, 2036))} '
            f"and yield in [{rng.randint(1, 3)}, {rng.randint(4, 6)}]"
        )

    def _topic(self) -> str:
        region = self._rng.choice(("america", "europe", "asia"))
        return f'topic matches "markets/{region}/{self._sector()}" and tags contains "breaking"'

    def _tags(self) -> str:
        tags = sorted(self._rng.sample(("contract", "earnings", "merger", "outlook", "regulation"), 2))
        about = f'symbols contains "{self._listing().symbol}"'
        return f'{about} and tags overlaps {_set(tags)} and tags lacks "rumour"'

    def _headline(self) -> str:
        house = self._listing().name.split()[0]
        return self._rng.choice(
            (
                f'type is News and headline substring "{house}"',
                f'type is News and headline ~ "{house} .* (merger|order|chief) .*"',
            )
        )

    def _announcement(self) -> str:
        rng = self._rng
        if rng.random() < 0.5:
            return f'type is Announcement and subject = "{self._listing().symbol}"'
        return f'data.kind = "{rng.choice(ANNOUNCED)}" and data.amount > {rng.randint(70, 88)}'

    def _weather(self) -> str:
        rng = self._rng
        east, north = rng.randint(-8, 18), rng.randint(40, 56)
        where = f"place in rectangle({east}, {north}, {east + 6}, {north + 6})"
        return (
            f'{where} and sensor prefix "{rng.choice(list(READINGS))}" and value > {rng.choice((14, 16, 18))}'
        )

    def _basket(self) -> str:
        return f'exists leg and //leg[@symbol = "{self._listing().symbol}" and @quantity >= 100]'


def _near(price: float, factor: float) -> str:
    return f"{price * factor:.2f}"


def _set(values: Sequence[str]) -> str:
    return "{" + ", ".join(f'"{value}"' for value in values) + "}"
