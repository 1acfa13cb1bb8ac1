"""A condition as a value, and the state of one stream that it judges."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, Protocol, TypeAlias

from fairlead.errors import FilterError
from fairlead.filters.terms import quote_name
from fairlead.model import ABSENT, Kind, Notification, Number, check_name, key_of, kind_of, number_of
from fairlead.model.durations import duration_of, render_duration

__all__ = [
    "AtMost",
    "Changes",
    "Condition",
    "Deviates",
    "Every",
    "Suppression",
    "Test",
    "changes",
    "deviates",
]

PRODUCER: Final = "producer"
OVER_MAX: Final = 1_000_000
"""The number of values a window may have."""
_NO_VALUE: Final = frozenset({Kind.ABSENT, Kind.NAN, Kind.OBJECT})
Duration: TypeAlias = int | str | timedelta


class Judge(Protocol):
    """The state of a test for one key."""

    def value(self, notification: Notification) -> Any:
        """The value of a notification that the test looks at; ABSENT where it has none."""
        ...

    def passes(self, value: Any, time_us: int) -> bool:
        """Whether a value is delivered, judged by those before it. It becomes one of those."""
        ...

    def delivered(self, value: Any, time_us: int) -> None:
        """A value is delivered."""
        ...


@dataclass(frozen=True, slots=True)
class Changes:
    """The value, or its mean over the last ones, differs from that at the last delivery: at all, or by a bound."""

    attribute: str
    by: Number | None = None
    percent: bool = False
    mean_over: int | None = None

    def __post_init__(self) -> None:
        check_name(self.attribute)
        if self.by is None and (self.percent or self.mean_over is not None):
            raise FilterError(
                "a mean, or a change in per cent, has a bound", hint=f"{self.attribute} changes by 1"
            )
        if self.by is not None:
            _check_positive(self.by, "a change")
        if self.mean_over is not None:
            _check_over(self.mean_over)

    @property
    def attributes(self) -> tuple[str, ...]:
        return (self.attribute,)

    def begin(self) -> Judge:
        return _LastValue(self.attribute) if self.by is None else _DeadBand(self, self.by)

    def __str__(self) -> str:
        mean = "" if self.mean_over is None else " mean"
        bound = "" if self.by is None else f" by {_written(self.by)}{'%' * self.percent}"
        over = "" if self.mean_over is None else f" over {self.mean_over}"
        return f"{quote_name(self.attribute)}{mean} changes{bound}{over}"


@dataclass(frozen=True, slots=True)
class Deviates:
    """The value is at least some standard deviations (of the population) from the mean of the values before it."""

    attribute: str
    by: Number
    over: int

    def __post_init__(self) -> None:
        check_name(self.attribute)
        _check_positive(self.by, "a deviation")
        _check_over(self.over)

    @property
    def attributes(self) -> tuple[str, ...]:
        return (self.attribute,)

    def begin(self) -> Judge:
        return _Deviation(self)

    def __str__(self) -> str:
        return f"{quote_name(self.attribute)} deviates by {_written(self.by)} over {self.over}"


@dataclass(frozen=True, slots=True)
class AtMost:
    """At most so many within a duration of event time: the oldest of the last ones is that long ago."""

    count: int
    per_us: int

    def __post_init__(self) -> None:
        if not 1 <= self.count <= OVER_MAX:
            raise FilterError(f"at most 1 to {OVER_MAX} are delivered within a duration, not {self.count}")
        _check_duration(self.per_us)

    @property
    def attributes(self) -> tuple[str, ...]:
        return ()

    def begin(self) -> Judge:
        return _Rate(self)

    def __str__(self) -> str:
        return f"at most {self.count} per {render_duration(self.per_us)}"


@dataclass(frozen=True, slots=True)
class Every:
    """The first of each so many."""

    nth: int

    def __post_init__(self) -> None:
        if self.nth < 1:
            raise FilterError(f"every n-th has an n of at least 1, not {self.nth}")

    @property
    def attributes(self) -> tuple[str, ...]:
        return ()

    def begin(self) -> Judge:
        return _Count(self.nth)

    def __str__(self) -> str:
        return f"every {self.nth}th"


Test: TypeAlias = Changes | Deviates | AtMost | Every


@dataclass(frozen=True, slots=True)
class Condition:
    """A test, the names whose values make a key, and the time after which the next one passes in any case."""

    test: Test
    per: tuple[str, ...] = (PRODUCER,)
    after_us: int | None = None

    def __post_init__(self) -> None:
        for name in self.per:
            check_name(name)
        if len(set(self.per)) != len(self.per):
            raise FilterError("a name stands once in the key of a condition")
        if self.after_us is not None:
            _check_duration(self.after_us)

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes that it looks at; the producer is none of them."""
        return frozenset((*self.test.attributes, *self.per)) - {PRODUCER}

    def begin(self) -> Suppression:
        """A stream that nothing has been delivered of."""
        return Suppression(self)

    def __str__(self) -> str:
        key = f", per {', '.join(map(quote_name, self.per))}" if self.per != (PRODUCER,) else ""
        after = "" if self.after_us is None else f" or after {render_duration(self.after_us)}"
        return f"{self.test}{key}{after}"


class Suppression:
    """The state of a condition over one stream of notifications: all of one subscription's, in their order."""

    __slots__ = ("_condition", "_states")

    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        self._states: dict[Hashable, tuple[Judge, list[int]]] = {}

    def passes(self, notification: Notification) -> bool:
        """Whether the next notification is delivered. Ask once for each."""
        condition = self._condition
        key = tuple([_key_part(notification, name) for name in condition.per])
        found = self._states.get(key)
        judge, last = found or (condition.test.begin(), [])
        value = judge.value(notification)
        if value is ABSENT:
            return False
        if found is None:
            self._states[key] = judge, last
        time_us = 0 if notification.time is None else notification.time.microseconds
        is_due = condition.after_us is not None and bool(last) and time_us - last[0] >= condition.after_us
        if not (judge.passes(value, time_us) or not last or is_due):
            return False
        judge.delivered(value, time_us)
        last[:] = [time_us]
        return True


def changes(
    attribute: str,
    by: float | Decimal | None = None,
    *,
    percent: bool = False,
    mean_over: int | None = None,
    per: tuple[str, ...] = (PRODUCER,),
    or_after: Duration | None = None,
) -> Condition:
    """The condition that an attribute changes: `changes("celsius", by=1, per=("room",))`."""
    bound = None if by is None else number_of(by)
    return Condition(Changes(attribute, bound, percent, mean_over), per, _duration(or_after))


def deviates(
    attribute: str,
    by: float | Decimal,
    over: int,
    *,
    per: tuple[str, ...] = (PRODUCER,),
    or_after: Duration | None = None,
) -> Condition:
    """The condition that an attribute is far from its mean: `deviates("celsius", by=3, over=20)`."""
    return Condition(Deviates(attribute, number_of(by), over), per, _duration(or_after))


# -- the states of one key -------------------------------------------------------------------------------------


class _LastValue:
    """The value of the last delivery."""

    __slots__ = ("_attribute", "_last")

    def __init__(self, attribute: str) -> None:
        self._attribute = attribute
        self._last: Any = None

    def value(self, notification: Notification) -> Any:
        value = notification.get(self._attribute)
        return ABSENT if kind_of(value) in _NO_VALUE else key_of(value)

    def passes(self, value: Any, time_us: int) -> bool:
        return bool(value != self._last)

    def delivered(self, value: Any, time_us: int) -> None:
        self._last = value


class _DeadBand:
    """The number, or the mean, at the last delivery; for a mean the values that it is of."""

    __slots__ = ("_attribute", "_by", "_current", "_last", "_percent", "_window")

    def __init__(self, test: Changes, by: Number) -> None:
        self._attribute = test.attribute
        self._by = Fraction(by) / 100 if test.percent else Fraction(by)
        self._percent = test.percent
        self._window = None if test.mean_over is None else _Window(test.mean_over)
        self._last: Fraction | None = None
        self._current = Fraction(0)

    def value(self, notification: Notification) -> Any:
        return _number(notification, self._attribute)

    def passes(self, value: Fraction, time_us: int) -> bool:
        self._current = value if self._window is None else self._window.mean_with(value)
        if self._last is None:
            return True
        if self._percent and not self._last:
            return self._current != 0
        bound = self._by * abs(self._last) if self._percent else self._by
        return abs(self._current - self._last) >= bound

    def delivered(self, value: Fraction, time_us: int) -> None:
        self._last = self._current


class _Deviation:
    """The values before the next one, with their sums."""

    __slots__ = ("_attribute", "_squared_by", "_window")

    def __init__(self, test: Deviates) -> None:
        self._attribute = test.attribute
        self._squared_by = Fraction(test.by) ** 2
        self._window = _Window(test.over)

    def value(self, notification: Notification) -> Any:
        return _number(notification, self._attribute)

    def passes(self, value: Fraction, time_us: int) -> bool:
        window = self._window
        if not window.is_full:
            window.mean_with(value)
            return True
        distance = value - window.mean
        is_far = distance != 0 and distance**2 >= self._squared_by * window.variance
        window.mean_with(value)
        return is_far

    def delivered(self, value: Fraction, time_us: int) -> None:
        pass


class _Rate:
    """The times of the last deliveries."""

    __slots__ = ("_per_us", "_times")

    def __init__(self, test: AtMost) -> None:
        self._per_us = test.per_us
        self._times: deque[int] = deque(maxlen=test.count)

    def value(self, notification: Notification) -> Any:
        return None

    def passes(self, value: None, time_us: int) -> bool:
        return len(self._times) < (self._times.maxlen or 0) or time_us - self._times[0] >= self._per_us

    def delivered(self, value: None, time_us: int) -> None:
        self._times.append(time_us)


class _Count:
    """The number of notifications so far."""

    __slots__ = ("_nth", "_seen")

    def __init__(self, nth: int) -> None:
        self._nth = nth
        self._seen = 0

    def value(self, notification: Notification) -> Any:
        return None

    def passes(self, value: None, time_us: int) -> bool:
        self._seen += 1
        return self._seen % self._nth == 1 or self._nth == 1

    def delivered(self, value: None, time_us: int) -> None:
        pass


class _Window:
    """The last values, at most so many, with their sum and the sum of their squares."""

    __slots__ = ("_squares", "_sum", "_values")

    def __init__(self, over: int) -> None:
        self._values: deque[Fraction] = deque(maxlen=over)
        self._sum = self._squares = Fraction(0)

    @property
    def is_full(self) -> bool:
        return len(self._values) == self._values.maxlen

    @property
    def mean(self) -> Fraction:
        return self._sum / len(self._values)

    @property
    def variance(self) -> Fraction:
        return self._squares / len(self._values) - self.mean**2

    def mean_with(self, value: Fraction) -> Fraction:
        """Take a value, and the mean with it."""
        if self.is_full:
            oldest = self._values[0]
            self._sum -= oldest
            self._squares -= oldest**2
        self._values.append(value)
        self._sum += value
        self._squares += value**2
        return self.mean


def _key_part(notification: Notification, name: str) -> Hashable:
    """The value of a name of the key; notifications without it have a key of their own."""
    return notification.producer if name == PRODUCER else key_of(notification.get(name))


def _number(notification: Notification, attribute: str) -> Any:
    """The number of an attribute, exactly; ABSENT where it has none."""
    value = notification.get(attribute)
    return Fraction(number_of(value)) if kind_of(value) is Kind.NUMBER else ABSENT


def _written(number: Number) -> str:
    return format(number, "f") if isinstance(number, Decimal) else str(number)


def _duration(given: Duration | None) -> int | None:
    return None if given is None else duration_of(given)


def _check_positive(number: Number, what: str) -> None:
    if not (kind_of(number) is Kind.NUMBER and number > 0 and Decimal(number).is_finite()):
        raise FilterError(f"{what} is by more than 0, not by {number}")


def _check_over(over: int) -> None:
    if not 1 <= over <= OVER_MAX:
        raise FilterError(f"a window has 1 to {OVER_MAX} values, not {over}")


def _check_duration(duration_us: int) -> None:
    if duration_us < 1:
        raise FilterError("a duration is longer than nothing", hint="10 s, 5 minutes, 250 ms")
