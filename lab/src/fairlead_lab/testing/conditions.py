"""The reference of conditions: what a subscriber gets, recomputed from the whole history for each notification.

It keeps no state but the notifications themselves, so it is slow, and there is nothing to forget.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from fairlead.conditions import AtMost, Changes, Condition, Deviates, Every
from fairlead.model import Kind, Notification, key_of, kind_of

__all__ = ["passed"]

_NOTHING = frozenset({Kind.ABSENT, Kind.NAN, Kind.OBJECT})


def passed(condition: Condition, stream: Iterable[Notification]) -> list[Notification]:
    """The notifications of a stream that a condition lets pass."""
    history: list[tuple[Notification, bool]] = []
    for notification in stream:
        if _has_value(condition, notification):
            alike = [each for each in history if _key(condition, each[0]) == _key(condition, notification)]
            history.append((notification, _passes(condition, notification, alike)))
    return [notification for notification, is_delivered in history if is_delivered]


def _passes(condition: Condition, new: Notification, before: list[tuple[Notification, bool]]) -> bool:
    delivered = [number for number, (_, is_delivered) in enumerate(before) if is_delivered]
    if not delivered:
        return True
    last = delivered[-1]
    if condition.after_us is not None and _us(new) - _us(before[last][0]) >= condition.after_us:
        return True
    seen = [notification for notification, _ in before]
    match condition.test:
        case AtMost(count, per_us):
            recent = delivered[-count:]
            return len(recent) < count or _us(new) - _us(seen[recent[0]]) >= per_us
        case Every(nth):
            return len(seen) % nth == 0
        case Deviates(attribute, by, over):
            window = [_number(each, attribute) for each in seen[-over:]]
            if len(window) < over:
                return True
            mean = sum(window, Fraction(0)) / over
            variance = sum(((value - mean) ** 2 for value in window), Fraction(0)) / over
            distance = _number(new, attribute) - mean
            return distance != 0 and distance**2 >= Fraction(by) ** 2 * variance
        case Changes(attribute, None):
            return bool(key_of(new.get(attribute)) != key_of(seen[last].get(attribute)))
        case Changes(attribute, bound, percent, over):
            assert bound is not None
            values = [_number(each, attribute) for each in (*seen, new)]
            now, then = _mean(values, over), _mean(values[: last + 1], over)
            if percent and not then:
                return now != 0
            return abs(now - then) >= (Fraction(bound) * abs(then) / 100 if percent else Fraction(bound))


def _mean(values: list[Fraction], over: int | None) -> Fraction:
    window = values[-(over or 1) :]
    return sum(window, Fraction(0)) / len(window)


def _has_value(condition: Condition, notification: Notification) -> bool:
    match condition.test:
        case Changes(attribute, None):
            return kind_of(notification.get(attribute)) not in _NOTHING
        case Changes(attribute) | Deviates(attribute):
            return kind_of(notification.get(attribute)) is Kind.NUMBER
    return True


def _key(condition: Condition, notification: Notification) -> list[Any]:
    return [
        notification.producer if name == "producer" else key_of(notification.get(name))
        for name in condition.per
    ]


def _number(notification: Notification, attribute: str) -> Fraction:
    return Fraction(notification.get(attribute))


def _us(notification: Notification) -> int:
    return 0 if notification.time is None else notification.time.microseconds
