"""The messages that a broker handles and the effects that it returns: frozen values, the same for every driver.

Messages have a source. Those between brokers (book 4.2, 4.6) come from a neighbour:

    Forward       a notification
    Admin         subscriptions and unsubscriptions, or advertisements and their opposite
    Notice        what a broker of a redundant network tells all others of itself, or a change of that
    Renew         some interest has to start anew, because its tree has lost a link
    Connect       the neighbour is linked now       Disconnect    it is not any more; each says which link it means
    Passed        a notification has been passed on everywhere behind the neighbour
    Stamp         what a broker published before this time is under way nowhere
    InTree        one of these, about the tree of one type
    Batch         several of these in one

Calls come from a local client: Join, Leave, Publish, Subscribe, Unsubscribe, Advertise, Unadvertise.

Commands come from whoever runs the broker: Link and Unlink, Climb (another broker is the parent now), Tick (the
time it asked for has come), Synced (what it gave to the log is safe), Redisclose (neighbours may know other
filters), Redeclare (rules have changed).

The answers are effects, to be carried out in their order:

    Send          a message to a neighbour          Deliver       a notification to a client
    Append        a record to the log               Acknowledge   the publication will not be lost
    Refuse        a call that cannot be granted     Duplicate     a publication that was published before
    Wake          come back at this time, with a Tick

A simulation makes millions of Admin and Send: they are never part of a circle, so the collector of garbage does
not keep track of them (`gc=False`).
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from fairlead.filters.filter import Filter
from fairlead.model import Notification
from fairlead.model.order import Identity
from fairlead.routing import Interest

__all__ = [
    "Acknowledge",
    "Admin",
    "Advertise",
    "Append",
    "Batch",
    "Call",
    "Change",
    "Climb",
    "Command",
    "Connect",
    "Deliver",
    "Disconnect",
    "Duplicate",
    "Effect",
    "Forward",
    "InTree",
    "Join",
    "Leave",
    "Link",
    "LinkId",
    "Message",
    "Notice",
    "Passed",
    "Publish",
    "Redisclose",
    "Refuse",
    "Renew",
    "Send",
    "Stamp",
    "Subscribe",
    "Synced",
    "Tick",
    "Unadvertise",
    "Unlink",
    "Unsubscribe",
    "Wake",
]

Micros: TypeAlias = int
"""A point of time by the clock that is passed in, in microseconds."""


class Forward(Struct, frozen=True):
    """forward(n), with the broker where n was published, its origin, where that is needed.

    With histories (book 4.6.6) it has the time of the publication of n. `number` is one more than the offset of n
    in the source's log, and `position` the same for the origin's log: 0 where it is in none. On every way,
    positions of one origin rise.
    """

    source: str
    notification: Notification
    origin: str = ""
    stamp: Micros = 0
    number: int = 0
    position: int = 0


class Admin(Struct, frozen=True, gc=False):
    """admin(S, U), about the subscription table or the advertisement table (book 4.6.1)."""

    source: str
    added: tuple[Interest, ...]
    removed: tuple[Interest, ...] = ()
    advertisements: bool = False


class Notice(Struct, frozen=True):
    """A broker's neighbours and interests, as it has told all others (`fairlead.broker.notices`): all of them, if
    `whole`, or what has changed since its notice with the number before."""

    source: str
    broker: str
    number: int
    neighbours: tuple[str, ...]
    added: tuple[Interest, ...] = ()
    removed: tuple[Interest, ...] = ()
    whole: bool = False


class Renew(Struct, frozen=True):
    """End these interests, and declare them again: a request to their owner (see `routing.cyclic`)."""

    source: str
    interests: tuple[Interest, ...]
    advertisements: bool = False


class InTree(Struct, frozen=True):
    """A message about one dissemination tree of several (book 4.6.3): that of a type."""

    source: str
    tree: str
    message: Message


class LinkId(Struct, frozen=True, order=True):
    """One incarnation of a link: of all links between two brokers, no two are called the same.

    The side that opens it makes the name, the other repeats it. As it stands, it is the link that both brokers
    were made with.
    """

    number: int = 0
    opener: str = ""


class Connect(Struct, frozen=True):
    """The source is a neighbour from now on, over this link. Its later messages belong to this link."""

    source: str
    link: LinkId


class Disconnect(Struct, frozen=True):
    """Over this link the source is a neighbour no longer."""

    source: str
    link: LinkId


class Passed(Struct, frozen=True):
    """The source and all brokers behind it have done what they had to with a notification they were sent."""

    source: str
    identity: Identity


class Stamp(Struct, frozen=True):
    """No notification that was published at `origin` before this time is in flight anywhere (book 4.6.6)."""

    source: str
    origin: str
    time: Micros


class Batch(Struct, frozen=True):
    """Messages of one source, to be handled in their order as if each had come alone (book 4.1)."""

    source: str
    messages: tuple[Message, ...]


Message: TypeAlias = Forward | Admin | Notice | Renew | Connect | Disconnect | Passed | Stamp | InTree | Batch


class Join(Struct, frozen=True):
    """A client is here; any other call of a client that is not yet known means this, too (book 4.6.5)."""

    source: str


class Leave(Struct, frozen=True):
    """A client goes, and takes all its subscriptions and advertisements with it."""

    source: str


class Publish(Struct, frozen=True):
    """pub(X, n). With a number, which grows, it is logged by a durable broker, and acknowledged."""

    source: str
    notification: Notification
    number: int = 0


class Subscribe(Struct, frozen=True):
    """sub(Y, F), under an id that is the client's own."""

    source: str
    id: str
    filter: Filter
    lasting: bool = False
    """Whether it stays, and matches nothing, where the rules refuse it: it was granted before."""


class Change(Struct, frozen=True):
    """The subscription under an id has another filter from now on, in one step; where there is none, it begins."""

    source: str
    id: str
    filter: Filter


class Unsubscribe(Struct, frozen=True):
    """unsub(Y, F), by the id."""

    source: str
    id: str


class Advertise(Struct, frozen=True):
    """adv(X, F), under an id that is the client's own."""

    source: str
    id: str
    filter: Filter


class Unadvertise(Struct, frozen=True):
    """unadv(X, F), by the id."""

    source: str
    id: str


class Reconsider(Struct, frozen=True):
    """The rules have changed for a client: what it was granted is decided about once more."""

    source: str


Call: TypeAlias = (
    Reconsider | Join | Leave | Publish | Subscribe | Change | Unsubscribe | Advertise | Unadvertise
)


class Link(Struct, frozen=True):
    """Connect to a broker."""

    neighbour: str


class Unlink(Struct, frozen=True):
    """Disconnect from a neighbour."""

    neighbour: str


class Climb(Struct, frozen=True):
    """From now on another broker is above this one, or none: in the tree of a type, if there are several."""

    parent: str | None
    tree: str = ""


class Tick(Struct, frozen=True):
    """The time has come at which the broker wanted to be woken."""


class Synced(Struct, frozen=True):
    """The log is synced up to and including this offset."""

    offset: int


class Redisclose(Struct, frozen=True):
    """The rules have changed for neighbours: they are told what they may know now, and the rest is taken back."""


class Redeclare(Struct, frozen=True):
    """The rules have changed: what neighbours know of clients' subscriptions is declared once more."""


Command: TypeAlias = Link | Unlink | Climb | Tick | Synced | Redisclose | Redeclare


class Send(Struct, frozen=True, gc=False):
    """Send a message to a neighbour, after all that was sent to it before."""

    to: str
    message: Message


class Deliver(Struct, frozen=True):
    """notify(Y, n), with the sorted ids of the client's subscriptions that match."""

    client: str
    notification: Notification
    subscriptions: tuple[str, ...]


class Append(Struct, frozen=True):
    """Write a notification from a client or a neighbour to the log. It is forwarded after `Synced`."""

    offset: int
    source: str
    notification: Notification
    origin: str = ""
    """The broker where it was published, if a neighbour has forwarded it; and its record in the log there,
    from 1."""
    position: int = 0


class Acknowledge(Struct, frozen=True):
    """All of a client's publications up to this number are in the log, and have been sent on."""

    client: str
    number: int


class Duplicate(Struct, frozen=True):
    """A publication is a duplicate, and has no effect. It is as durable as the first one."""

    client: str
    number: int = 0


class Refuse(Struct, frozen=True):
    """A call has no effect, and why."""

    client: str
    reason: str
    is_missing: bool = False
    """Whether something was to be ended that is not there."""
    number: int = 0
    """Of a publication."""
    is_forbidden: bool = False
    """Whether the access policy refuses it."""


class Grant(Struct, frozen=True):
    """A client's subscription or advertisement is in effect with another filter than it requested, or had."""

    client: str
    id: str
    filter: Filter
    advertisement: bool = False


class Wake(Struct, frozen=True):
    """Call with a Tick at this time, or soon after."""

    at: Micros


Effect: TypeAlias = Send | Deliver | Append | Acknowledge | Refuse | Duplicate | Grant | Wake
