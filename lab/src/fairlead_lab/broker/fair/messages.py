"""The messages between the processes of fair correlation: frozen values, whoever drives them.

Calls come from the application at a client: Multicast, Subscribe, Unsubscribe. Down comes from the membership
layer, to all processes and about the same crashes in the same order; Tick, when the time has come that a process
asked for.

    Input     something that a role has to put in order; it goes to all replicas of the role
    Item      what a role has put in order, on its way down: to a merger below or to a client
    Attach    send me what I am to get, from this position on       Received   I have all up to this position

Between the replicas of a role:

    Order     the leader puts an input at a position: the order only, never the input itself (FAIDECS 5.2)
    Agreed    a peer knows the order up to a position               Fixed      a majority does
    Settled   how far a replica and those it serves have come, so that nobody keeps more than may be asked for
    Ask, Report, Install    a new leader learns what the old one may have fixed, and tells the others
    Token                   where the right to order goes round

What is put in order (`Content`) is an event, or changes who gets which events. So all replicas of a role make
the same change between the same two events.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from fairlead.correlation.fair import Choice, Conjunction, Relation, Snapshot, Subscription
from fairlead.filters import Filter
from fairlead.model import Notification
from fairlead_lab.broker.fair.directory import Role

__all__ = [
    "Agreed",
    "Applied",
    "Ask",
    "Attach",
    "Began",
    "Call",
    "Content",
    "Copied",
    "Copy",
    "Deliver",
    "Down",
    "Effect",
    "Fixed",
    "From",
    "Gone",
    "Input",
    "Install",
    "Interested",
    "Item",
    "Key",
    "Left",
    "Message",
    "Multicast",
    "Need",
    "Order",
    "Ordered",
    "Pulse",
    "Received",
    "Recipient",
    "Refuse",
    "Report",
    "RoleMessage",
    "Send",
    "Settled",
    "Slot",
    "Started",
    "Subscribe",
    "Tick",
    "Token",
    "Unsubscribe",
    "Wake",
    "Wants",
]

Micros: TypeAlias = int
"""A point of time by the clock that is passed in, in microseconds."""
Key: TypeAlias = tuple[object, ...]
"""The name of an input of a role, the same at all of its replicas."""
Recipient: TypeAlias = str | Role
"""The recipient of a role's messages: a client, or the merger of a longer role with all its replicas."""
Wants: TypeAlias = frozenset[tuple[str, Filter]]
"""Unary predicates as a disjunction: each with the type that it is about."""


# -- what is put in order ----------------------------------------------------------------------------------


class Interested(Struct, frozen=True):
    """SUB: a client asks for conjunctions over the types of the role."""

    client: str
    conjunctions: tuple[Conjunction, ...]
    choice: Choice
    timed: bool
    """Whether it merges several roles by their stamps, and has to hear of the time even when nothing happens."""


class Left(Struct, frozen=True):
    """A client asks no more."""

    client: str


class Gone(Struct, frozen=True):
    """A client has crashed."""

    client: str


class Need(Struct, frozen=True):
    """CON: what the merger of a longer role needs from here, in place of what it needed before."""

    role: Role
    number: int
    wants: Wants


class Applied(Struct, frozen=True):
    """From here on, whatever is needed by the need of this number comes."""

    number: int


class Copied(Struct, frozen=True):
    """The state of a conjunction at one of its subscribers, for one who joins."""

    source: str
    client: str
    state: Snapshot
    origin: int
    """The position after which the first of those who share this state began, with nothing."""
    at: int
    """The position after which it was taken."""


class Pulse(Struct, frozen=True):
    """The empty event: nothing happened, and the time goes on (FAIDECS 5.2)."""


class From(Struct, frozen=True):
    """The entry of the role on the left or on the right at one position."""

    is_right: bool
    contents: tuple[Content, ...]


class Began(Struct, frozen=True):
    """A client's stream begins: these conjunctions with nothing, those with a state that is still to come."""

    fresh: tuple[Conjunction, ...]
    awaited: tuple[Conjunction, ...] = ()


class Copy(Struct, frozen=True):
    """Tell the state of a conjunction, as it is here, for one who joins."""

    conjunction: Conjunction
    client: str


Content: TypeAlias = (
    Notification | Interested | Left | Gone | Need | Applied | Copied | Pulse | From | Began | Copy
)


# -- messages ----------------------------------------------------------------------------------------------


class Input(Struct, frozen=True):
    """Something for a role to put in order."""

    role: Role
    key: Key
    content: Content


class Item(Struct, frozen=True):
    """EV: what stands at a position of a role's order for a recipient; nothing, if only the time goes on."""

    role: Role
    to: Role
    """The merger that it is for; `ALL` where it is for a client."""
    position: int
    stamp: Micros
    contents: tuple[Content, ...]
    after: int = 0
    """The position of the item before it, where items come from several processes and may overtake each other."""


class Attach(Struct, frozen=True):
    """The source is to be sent what a recipient gets, after a position."""

    role: Role
    source: str
    recipient: Recipient
    after: int


class Received(Struct, frozen=True):
    """The source has all that the recipient gets, up to a position."""

    role: Role
    source: str
    recipient: Recipient
    upto: int


class Slot(Struct, frozen=True):
    """A place in a role's order: which input stands there, and the time that goes with it."""

    key: Key
    stamp: Micros


class Order(Struct, frozen=True):
    """An input has its position."""

    role: Role
    source: str
    view: int
    position: int
    slot: Slot


class Agreed(Struct, frozen=True):
    """The source knows the order up to a position."""

    role: Role
    source: str
    view: int
    upto: int


class Fixed(Struct, frozen=True):
    """A majority knows the order up to a position."""

    role: Role
    source: str
    view: int
    upto: int


class Settled(Struct, frozen=True):
    """The source has carried out the order up to a position; and what those have that are attached to it."""

    role: Role
    source: str
    upto: int
    received: tuple[tuple[tuple[str, Recipient], int], ...]


class Ask(Struct, frozen=True):
    """The source leads this view, and asks for what is known of the order."""

    role: Role
    source: str
    view: int


class Report(Struct, frozen=True):
    """The knowledge of the source about the order: the slots from a position on, and from which view they
    are.
    """

    role: Role
    source: str
    view: int
    log_view: int
    first: int
    slots: tuple[Slot, ...]
    delivered: int
    """Up to where clients have been told, as far as the source knows (token only)."""


class Install(Struct, frozen=True):
    """The order with which a view begins, and up to where the leader knows that a majority knew it."""

    role: Role
    source: str
    view: int
    first: int
    slots: tuple[Slot, ...]
    fixed: int


class Token(Struct, frozen=True):
    """The right to order, and what is known of the order where it goes round."""

    role: Role
    view: int
    upto: int
    """The last position that is taken."""
    stamp: Micros
    delivered: int
    """Up to where clients have been told."""
    marks: tuple[tuple[str, int], ...]
    """Up to where each station knew the order when the token was there."""
    idle: int = 0
    """The number of stations in a row that had nothing to order, nor anything to tell."""


class Down(Struct, frozen=True):
    """The membership layer: a process has crashed."""

    process: str


class Tick(Struct, frozen=True):
    """The time that the process asked to be woken at has come."""


class Multicast(Struct, frozen=True):
    """MULTICAST(e). Events are told apart by their identity."""

    event: Notification


class Subscribe(Struct, frozen=True):
    """Ψ(p): what the process asks for, once in its life."""

    subscription: Subscription


class Unsubscribe(Struct, frozen=True):
    """It asks no more."""


Call: TypeAlias = Multicast | Subscribe | Unsubscribe
RoleMessage: TypeAlias = (
    Input | Item | Attach | Received | Order | Agreed | Fixed | Settled | Ask | Report | Install | Token
)
Message: TypeAlias = RoleMessage | Down | Tick | Call


# -- effects -----------------------------------------------------------------------------------------------


class Send(Struct, frozen=True):
    """Send a message to a process, after all that was sent to it before."""

    to: str
    message: RoleMessage


class Wake(Struct, frozen=True):
    """Call with a Tick at this time, or soon after."""

    at: Micros


class Deliver(Struct, frozen=True):
    """DELIVER_Φ([e1, …, en]) at this client."""

    relation: Relation


class Refuse(Struct, frozen=True):
    """A call has no effect, and why."""

    reason: str


class Ordered(Struct, frozen=True):
    """For the record: a role's order has this event at this position."""

    role: Role
    position: int
    stamp: Micros
    event: Notification


class Started(Struct, frozen=True):
    """For the record: a client delivers for a conjunction what is completed after `at`, counted from `origin`."""

    role: Role
    conjunction: Conjunction
    origin: int
    at: int


Effect: TypeAlias = Send | Wake | Deliver | Refuse | Ordered | Started
