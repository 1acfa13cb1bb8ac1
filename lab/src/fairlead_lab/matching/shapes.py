"""The shapes of workloads that matching is measured on, M1 to M8: seeded, so that every run has the same.

M1 selective    one equality and two intervals, over five categorical and five numeric attributes
M2 ranges only  five intervals over twenty numeric attributes; no equality to lean on
M3 mixed        equalities, sets, elements, negation and substrings; `near` misses by one value
M4 strings      prefixes, suffixes and substrings alone (`prefix`, `suffix`, `substring`)
M5 negation     a hundred filters on each service, each leaving out one region
M6 skew         M1 with Zipf-distributed values, the hot one in a tenth of everything
M7 Boolean      and, or and not, nested three deep, over M1's attributes
M8 churn        M1, with filters that come and go (`changes`)
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Final

from fairlead.filters.constraint import Constraint, Op, Range
from fairlead.filters.filter import And, Filter, Not, Or
from fairlead.filters.terms import Attribute
from fairlead.model import Multi, Notification

__all__ = ["SHAPES", "Shape"]

CATEGORIES: Final = 5
MEASURES: Final = 5
VALUES: Final = 1000


@dataclass(frozen=True, slots=True)
class Shape:
    """A workload: filters for a number of subscriptions, and an endless stream of notifications for them."""

    name: str
    summary: str
    filters: Callable[[int, Random], Iterator[Filter]]
    notifications: Callable[[int, Random], Iterator[Notification]]


def _is(name: str, value: object) -> Filter:
    return Constraint(Attribute(name), Op.EQ, value)


def _within(name: str, low: float, high: float) -> Filter:
    return Constraint(Attribute(name), Op.IN_RANGE, Range(low, high))


# -- M1, M6 and M8 -----------------------------------------------------------------------------------------


def _interval(name: str, width_max: float, rng: Random) -> Filter:
    width = rng.uniform(0.0, width_max)
    low = rng.uniform(0.0, 1.0 - width)
    return _within(name, low, low + width)


def _selective(value: Callable[[Random], str]) -> Callable[[int, Random], Iterator[Filter]]:
    def filters(size: int, rng: Random) -> Iterator[Filter]:
        for _ in range(size):
            category = _is(f"c{rng.randrange(CATEGORIES)}", value(rng))
            first, second = rng.sample(range(MEASURES), 2)
            yield And((category, _interval(f"x{first}", 0.2, rng), _interval(f"x{second}", 0.2, rng)))

    return filters


def _measured(value: Callable[[Random], str]) -> Callable[[int, Random], Iterator[Notification]]:
    def notifications(size: int, rng: Random) -> Iterator[Notification]:
        while True:
            record: dict[str, object] = {f"c{each}": value(rng) for each in range(CATEGORIES)}
            record.update((f"x{each}", rng.random()) for each in range(MEASURES))
            yield Notification.of(record)

    return notifications


def _even(rng: Random) -> str:
    return f"v{rng.randrange(VALUES)}"


def _zipf(hot_share: float) -> Callable[[Random], str]:
    """Values whose frequency falls with their rank, the first taking `hot_share` of all."""
    weights = [1.0 / rank for rank in range(2, VALUES + 1)]
    rest = (1.0 - hot_share) / sum(weights)
    shares = list(accumulate([hot_share, *(weight * rest for weight in weights)]))
    return lambda rng: f"v{min(bisect_left(shares, rng.random()), VALUES - 1)}"


# -- M2 ----------------------------------------------------------------------------------------------------


def _boxes(size: int, rng: Random) -> Iterator[Filter]:
    for _ in range(size):
        parts = []
        for each in rng.sample(range(20), 5):
            low = rng.uniform(0.0, 0.9)
            parts.append(_within(f"x{each}", low, low + 0.1))
        yield And(tuple(parts))


def _points(size: int, rng: Random) -> Iterator[Notification]:
    while True:
        yield Notification.of({f"x{each}": rng.random() for each in range(20)})


# -- M3 ----------------------------------------------------------------------------------------------------


def _mixed(size: int, rng: Random) -> Iterator[Filter]:
    groups = max(1, size // 10)
    for number in range(size):
        group = number % groups
        parts = [
            _is("env", "prod"),
            _is("number", group),
            Constraint(Attribute("tags"), Op.SUPERSET, Multi(["blue", f"t{group % 50}"])),
            Constraint(Attribute("region"), Op.NE, "moon"),
            Constraint(Attribute("type"), Op.IN, Multi(["db", "queue"])),
        ]
        if number % 2:
            parts.append(Constraint(Attribute("name"), Op.SUBSTRING, f"-app{group}-"))
        yield And(tuple(parts))


def _servers(type_name: str) -> Callable[[int, Random], Iterator[Notification]]:
    def notifications(size: int, rng: Random) -> Iterator[Notification]:
        while True:
            group = rng.randrange(max(1, size // 10))
            yield Notification.of(
                {
                    "env": "prod",
                    "number": group,
                    "tags": ["blue", f"t{group % 50}", "extra"],
                    "region": "eu-west",
                    "type": type_name,
                    "name": f"srv-app{group}-{rng.randrange(10)}",
                }
            )

    return notifications


# -- M4 ----------------------------------------------------------------------------------------------------


def _texts(op: Op, text: Callable[[int], str]) -> Callable[[int, Random], Iterator[Filter]]:
    def filters(size: int, rng: Random) -> Iterator[Filter]:
        for number in range(size):
            yield Constraint(Attribute("path"), op, text(number))

    return filters


def _paths(text: Callable[[int], str]) -> Callable[[int, Random], Iterator[Notification]]:
    def notifications(size: int, rng: Random) -> Iterator[Notification]:
        while True:
            yield Notification.of({"path": text(rng.randrange(size)), "method": "GET"})

    return notifications


# -- M5 ----------------------------------------------------------------------------------------------------


def _elsewhere(size: int, rng: Random) -> Iterator[Filter]:
    for number in range(size):
        service = _is("service", f"svc-{number // 100}")
        yield And((Constraint(Attribute("region"), Op.NE, f"r{number % 100}"), service))


def _services(size: int, rng: Random) -> Iterator[Notification]:
    while True:
        service = rng.randrange(max(1, size // 100))
        yield Notification.of({"region": f"r{rng.randrange(100)}", "service": f"svc-{service}"})


# -- M7 ----------------------------------------------------------------------------------------------------


def _nested(size: int, rng: Random) -> Iterator[Filter]:
    def category() -> Filter:
        return _is(f"c{rng.randrange(CATEGORIES)}", _even(rng))

    def measure() -> Filter:
        return _interval(f"x{rng.randrange(MEASURES)}", 0.2, rng)

    for _ in range(size):
        either = Or((And((category(), measure())), And((category(), Not(measure())))))
        unless = Not(Or((category(), And((measure(), measure())))))
        yield And((either, unless, Or((measure(), measure(), category()))))


_M1: Final = Shape("M1", "one equality and two intervals", _selective(_even), _measured(_even))

SHAPES: Final[dict[str, Shape]] = {
    shape.name: shape
    for shape in (
        _M1,
        Shape("M2", "five intervals, no equality", _boxes, _points),
        Shape("M3", "mixed, ten matches", _mixed, _servers("db")),
        Shape("M3-near", "mixed, a near miss", _mixed, _servers("cache")),
        Shape(
            "M4-prefix",
            "a prefix alone",
            _texts(Op.PREFIX, lambda number: f"/api/v1/r{number}/"),
            _paths(lambda number: f"/api/v1/r{number}/items/7"),
        ),
        Shape(
            "M4-suffix",
            "a suffix alone",
            _texts(Op.SUFFIX, lambda number: f"/f{number}.log"),
            _paths(lambda number: f"/var/data/today/f{number}.log"),
        ),
        Shape(
            "M4-substring",
            "a substring alone",
            _texts(Op.SUBSTRING, lambda number: f"-app{number}-"),
            _paths(lambda number: f"host-app{number}-eu-west-1"),
        ),
        Shape("M5", "all regions but one, of one service", _elsewhere, _services),
        Shape(
            "M6",
            "M1 with a hot value in a tenth of everything",
            _selective(_zipf(0.1)),
            _measured(_zipf(0.1)),
        ),
        Shape("M7", "and, or and not, three deep", _nested, _measured(_even)),
        Shape("M8", "M1 while filters come and go", _M1.filters, _M1.notifications),
    )
}
