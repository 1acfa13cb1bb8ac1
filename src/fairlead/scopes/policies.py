"""Transmission policies: the choice among the eligible components of a notification (book 6.5).

The effective interfaces decide who is eligible, then a policy chooses among all of them at once (4131, 5202). A
policy belongs to a scope and a direction:

    publishing   of any component   which superscopes get what is internal to it
    delivery     of a scope         which members get what comes in from a superscope
    internal     of a scope         which members get what comes from a member

Of several policies the first whose WHEN matches decides. A choice is a function of what is eligible, the
notification and a state, and gives who is chosen and the next state; so the same notifications in the same order
give the same choices on every runtime. Names in ascending order break ties.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from hashlib import blake2b
from typing import Any, Final, TypeAlias

from fairlead.errors import ScopeError
from fairlead.filters import EVERYTHING, NOTHING, Filter
from fairlead.model import RANK, Instant, Kind, Notification, Record, kind_of, number_of
from fairlead.scopes.mappings import load

__all__ = [
    "All",
    "Chain",
    "Choice",
    "ChoiceContext",
    "Chosen",
    "Delay",
    "Direction",
    "Hold",
    "Nobody",
    "One",
    "Own",
    "Policy",
    "PolicyFailed",
    "Rate",
    "To",
    "Top",
    "Traverse",
    "choose",
    "ranked",
]


class PolicyFailed(ScopeError):
    """A policy written in Python raised, or gave something that is no choice."""


class Direction(Enum):
    """The decision of a component that a policy takes."""

    PUBLISHING = "publishing"
    DELIVERY = "delivery"
    INTERNAL = "internal"


class Traverse(Enum):
    """The level below a scope that gets incoming notifications: every one, the nearest with a consumer, the
    deepest."""

    BROADCAST = "broadcast"
    TOP_DOWN = "top down"
    BOTTOM_UP = "bottom up"


@dataclass(frozen=True, slots=True)
class All:
    """All eligible components: the default."""


@dataclass(frozen=True, slots=True)
class Nobody:
    """None of them."""


@dataclass(frozen=True, slots=True)
class To:
    """The eligible ones among the named components."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class One:
    """Exactly one of n: by rendezvous hash of scope, member and identity, or in turn."""

    in_turn: bool = False


@dataclass(frozen=True, slots=True)
class Top:
    """The k components with the largest value of an attribute; components without it are not ranked."""

    attribute: str
    count: int


@dataclass(frozen=True, slots=True)
class Chain:
    """The first eligible one behind the publisher in the list; from the front where the publisher is not in it."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rate:
    """To each at most `limit` in any window (t - window, t] of order time; what is above is not delivered."""

    limit: int
    window_us: int


@dataclass(frozen=True, slots=True)
class Delay:
    """To all, with the order time moved."""

    us: int


@dataclass(frozen=True, slots=True)
class Hold:
    """To all, once a notification matches `until`; what is held when one matches `discard` is dropped.

    A notification that releases or discards is not held itself.
    """

    until: Filter
    discard: Filter = NOTHING


@dataclass(frozen=True, slots=True)
class Own:
    """A Python function (eligible, notification, state) -> (chosen, state); `reference` is `module:function`."""

    reference: str
    function: Callable[[tuple[str, ...], Notification, Any], tuple[Any, Any]] | None = field(
        default=None, compare=False
    )


Choice: TypeAlias = All | Nobody | To | One | Top | Chain | Rate | Delay | Hold | Own


@dataclass(frozen=True, slots=True)
class Policy:
    """A choice, for what matches `when`; `among` limits it to some, and leaves the others to later policies."""

    choice: Choice
    when: Filter = EVERYTHING
    among: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class ChoiceContext:
    """The input of a choice."""

    scope: str
    eligible: tuple[str, ...]
    """Sorted by name."""
    notification: Notification
    time: int
    """The order time, moved where an earlier policy has moved it."""
    attributes: Callable[[str], Record]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The chosen components, the delay, and whether the notification waits for a release."""

    names: tuple[str, ...]
    delay_us: int = 0
    held: bool = False


def ranked(names: tuple[str, ...], attribute: str, attributes: Callable[[str], Record]) -> list[str]:
    """The names by an attribute, largest first, equal ones by name; those that lack it are left out."""
    keyed = []
    for name in sorted(names):
        value = attributes(name).lookup(attribute)
        kind = kind_of(value)
        if kind in _RANKED:
            keyed.append(((RANK[kind], _comparable(value)), name))
    keyed.sort(key=lambda pair: pair[0], reverse=True)  # stable: equal ones stay sorted by name
    return [name for _, name in keyed]


_RANKED: Final = frozenset({Kind.NUMBER, Kind.STRING, Kind.TIME})


def _comparable(value: Any) -> Any:
    if isinstance(value, Instant):
        return value.microseconds
    return value if isinstance(value, str) else number_of(value)


def _hash(context: ChoiceContext, state: Any) -> tuple[Chosen, Any]:
    producer, id = context.notification.producer, context.notification.id or ""

    def weight(name: str) -> bytes:
        text = "\0".join((context.scope, name, producer, id))
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()

    return Chosen((max(context.eligible, key=weight),)), state


def _turn(context: ChoiceContext, state: Any) -> tuple[Chosen, Any]:
    after = [name for name in context.eligible if state is None or name > state]
    chosen = after[0] if after else context.eligible[0]
    return Chosen((chosen,)), chosen


def _one(choice: One, context: ChoiceContext, state: Any) -> tuple[Chosen, Any]:
    if not context.eligible:
        return Chosen(()), state
    return (_turn if choice.in_turn else _hash)(context, state)


def _top(choice: Top, context: ChoiceContext, state: Any) -> tuple[Chosen, Any]:
    best = ranked(context.eligible, choice.attribute, context.attributes)[: choice.count]
    return Chosen(tuple(best)), state


def _chain(choice: Chain, context: ChoiceContext, state: Any) -> tuple[Chosen, Any]:
    publisher = context.notification.producer
    start = choice.names.index(publisher) + 1 if publisher in choice.names else 0
    behind = [name for name in choice.names[start:] if name in context.eligible]
    return Chosen(tuple(behind[:1])), state


def _rate(choice: Rate, context: ChoiceContext, state: Any) -> tuple[Chosen, Any]:
    accepted: dict[str, tuple[int, ...]] = dict(state or {})
    chosen = []
    for name in context.eligible:
        recent = tuple(at for at in accepted.get(name, ()) if at > context.time - choice.window_us)
        if sum(at <= context.time for at in recent) < choice.limit:
            chosen.append(name)
            recent = (*recent, context.time)
        accepted[name] = recent
    return Chosen(tuple(chosen)), accepted


def _own(choice: Own, context: ChoiceContext, state: Any) -> tuple[Chosen, Any]:
    function = choice.function or load(choice.reference)
    try:
        chosen, next_state = function(context.eligible, context.notification, state)
        names = frozenset(chosen)
    except Exception as error:
        raise PolicyFailed(f"the policy {choice.reference} failed: {error}") from error
    return Chosen(tuple(name for name in context.eligible if name in names)), next_state


CHOOSE: Final[Mapping[type, Callable[[Any, ChoiceContext, Any], tuple[Chosen, Any]]]] = {
    All: lambda _, context, state: (Chosen(context.eligible), state),
    Nobody: lambda _, context, state: (Chosen(()), state),
    To: lambda choice, context, state: (
        Chosen(tuple(name for name in context.eligible if name in choice.names)),
        state,
    ),
    One: _one,
    Top: _top,
    Chain: _chain,
    Rate: _rate,
    Delay: lambda choice, context, state: (Chosen(context.eligible, delay_us=choice.us), state),
    Hold: lambda _, context, state: (Chosen(context.eligible, held=True), state),
    Own: _own,
}


def choose(choice: Choice, context: ChoiceContext, state: Any) -> tuple[Chosen, Any]:
    """The choice, and the next state: a function of the arguments alone."""
    return CHOOSE[type(choice)](choice, context, state)
