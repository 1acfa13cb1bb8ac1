"""The specification of attempts, deadlines, dead letters and shared subscribers, as a program over what happened.

`violations` reads the events of one subscriber in their order and says what they break. It remembers everything,
and searches it anew for every event, so that it has nothing in common with `fairlead.delivery.assigning`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from fairlead.delivery.assigning import Terms

__all__ = ["Happened", "violations"]


@dataclass(frozen=True, slots=True)
class Happened:
    """One event of a subscriber.

    what: offered, handed, accepted, rejected, overdue, lost (a member has gone), dead (a letter is to be written).
    """

    what: str
    ordinal: int = -1
    member: Hashable = None
    attempt: int = 0
    key: Hashable = None
    not_before: int = 0
    time: int = 0


def violations(terms: Terms, events: Iterable[Happened], *, is_settled: bool = False) -> list[str]:
    """The violations in a sequence of events; `is_settled`: nothing more will happen, and members have room."""
    past: list[Happened] = []
    found: list[str] = []
    for event in events:
        found += [f"{event}: {reason}" for reason in _reasons(terms, past, event)]
        past.append(event)
    if is_settled:
        ordinals = [each.ordinal for each in past if each.what == "offered"]
        found += [f"{ordinal} is with nobody" for ordinal in ordinals if not _is_closed(past, ordinal)]
    return found


def _reasons(terms: Terms, past: list[Happened], event: Happened) -> list[str]:
    reasons = []
    if event.what == "handed":
        if _holder(past, event.ordinal) is not None:
            reasons.append("another member holds it")
        if _is_closed(past, event.ordinal):
            reasons.append("it was settled")
        before = sum(each.what == "handed" and each.ordinal == event.ordinal for each in past)
        if event.attempt != before + 1:
            reasons.append(f"the attempt is {before + 1}")
        if any(each.ordinal == event.ordinal and event.time < each.not_before for each in past):
            reasons.append("its delay has not passed")
        if terms.per:
            mine = {each.ordinal for each in past if each.what == "offered" and each.key == _key(past, event)}
            others = {_holder(past, ordinal) for ordinal in mine} - {None, event.member}
            if others:
                reasons.append("another member has its key")
            if any(
                ordinal < event.ordinal and not _is_closed(past, ordinal) and _holder(past, ordinal) is None
                for ordinal in mine
            ):
                reasons.append("an earlier one of its key waits")
        held = {each.ordinal for each in past if each.what == "handed" and each.member == event.member}
        if terms.window and sum(_holder(past, ordinal) == event.member for ordinal in held) >= terms.window:
            reasons.append("the window of the member is full")
    elif event.what in ("accepted", "rejected", "overdue") and _holder(past, event.ordinal) != event.member:
        reasons.append("the member does not hold it")
    elif event.what == "dead":
        failed = sum(each.what in ("rejected", "overdue") and each.ordinal == event.ordinal for each in past)
        if not terms.attempts_max or failed != terms.attempts_max:
            reasons.append(f"it has failed {failed} times")
    if event.what == "overdue":
        (last,) = [
            each for each in past if each.ordinal == event.ordinal and each.what in ("handed", "renewed")
        ][-1:]
        if event.time < last.time + terms.accept_within_us:
            reasons.append("it is not overdue")
    if event.what == "handed" and terms.attempts_max:
        failed = sum(each.what in ("rejected", "overdue") and each.ordinal == event.ordinal for each in past)
        if failed >= terms.attempts_max:
            reasons.append("it has failed too often")
    return reasons


def _key(past: list[Happened], event: Happened) -> Hashable:
    return next(each.key for each in past if each.what == "offered" and each.ordinal == event.ordinal)


def _holder(past: list[Happened], ordinal: int) -> Hashable:
    """The member that holds an ordinal."""
    holder: Hashable = None
    for each in past:
        if each.what == "lost" and each.member == holder:
            holder = None
        elif each.ordinal == ordinal and each.what == "handed":
            holder = each.member
        elif each.ordinal == ordinal and each.what in ("accepted", "rejected", "overdue", "dead"):
            holder = None
    return holder


def _is_closed(past: list[Happened], ordinal: int) -> bool:
    return any(each.ordinal == ordinal and each.what in ("accepted", "dead") for each in past)
