"""The messages of the protocol: everything that brokers and clients send one another but notifications.

On the wire a message is a MessagePack array with its name first (`wire`).
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct

from fairlead.network.frames import FRAME_MAX

__all__ = [
    "Accept",
    "Advertise",
    "Ask",
    "Barrier",
    "Bye",
    "Control",
    "Credit",
    "Done",
    "Dropped",
    "Heard",
    "Hello",
    "Link",
    "Listen",
    "Listening",
    "Operate",
    "Passed",
    "Ping",
    "Pong",
    "Probe",
    "Received",
    "Refused",
    "Reject",
    "Release",
    "Repeated",
    "Subscribe",
    "Table",
    "Tell",
    "Told",
    "Unadvertise",
    "Unlink",
    "Unsubscribe",
    "Welcome",
]


class _Message(Struct, frozen=True, array_like=True, tag=True):
    pass


# -- either side -----------------------------------------------------------------------------------------------


class Hello(_Message, frozen=True):
    """Who opens the connection: a client or a broker, by its name.

    A broker also says which life of it this is, which log it keeps, how much it has of the other's, and how it
    routes."""

    version: int
    role: str
    name: str = ""
    policy: str = ""
    """What happens when this client is slow to take what is not durable: block, drop or disconnect."""
    life: str = ""
    log: str = ""
    others_log: str = ""
    received: int = 0
    url: str = ""
    """Where a broker can be called."""
    knows: bool = False
    """Whether a broker takes the other for its neighbour already."""
    frame_max: int = FRAME_MAX
    """The longest frame that is taken."""
    routing: str = ""
    """What neighbours have to agree on: see `Neighbourhood`."""
    lineage: list[tuple[str, int]] = []
    """The incarnations of a broker's log: see `fairlead.log.lineage`."""
    others_lineage: list[tuple[str, int]] = []
    """Those of the other's log, when something was received of it last."""
    end: int = 0
    """The end of a broker's log."""


class Welcome(_Message, frozen=True):
    """The answer to Hello: who is there, and how the other is called here."""

    version: int
    broker: str
    name: str
    life: str = ""
    log: str = ""
    others_log: str = ""
    received: int = 0
    frame_max: int = FRAME_MAX
    """The longest frame that is taken."""
    knows: bool = False
    routing: str = ""
    lineage: list[tuple[str, int]] = []
    others_lineage: list[tuple[str, int]] = []
    end: int = 0


class Bye(_Message, frozen=True):
    """The connection ends, and why; nothing follows. Whoever is not taken in learns who says so."""

    reason: str
    broker: str = ""
    is_final: bool = False
    """Whether a client that was there need not come back."""


class Ping(_Message, frozen=True):
    """Are you there? With a number of a client: it is `Done` when all that came before has been heard."""

    number: int = 0


class Pong(_Message, frozen=True):
    """Yes."""


# -- from clients ----------------------------------------------------------------------------------------------


class Subscribe(_Message, frozen=True):
    """Subscribe under an id; with `durable` for the subscriber of that name, who stays when the client leaves."""

    number: int
    id: str
    filter: str
    durable: str = ""
    since: int | None = None
    """Begin with what was published at this time, in microseconds, as far as the log goes back."""


class Unsubscribe(_Message, frozen=True):
    """Take a subscription back; without an id, the whole durable subscriber."""

    number: int
    id: str
    durable: str = ""


class Release(_Message, frozen=True):
    """Let go of a durable subscriber: what has not been accepted comes again to whoever subscribes next."""

    number: int
    durable: str


class Advertise(_Message, frozen=True):
    """Say what will be published."""

    number: int
    id: str
    filter: str


class Unadvertise(_Message, frozen=True):
    """Take an advertisement back."""

    number: int
    id: str


class Accept(_Message, frozen=True):
    """The deliveries of these places to a durable subscriber are dealt with."""

    durable: str
    places: list[int]


class Reject(_Message, frozen=True):
    """A delivery is not dealt with: it comes once more, or it is done with."""

    durable: str
    place: int
    again: bool = False


class Listen(_Message, frozen=True):
    """Tell me whether anyone listens to what this filter matches, and when that changes; no filter: no more."""

    number: int
    id: str
    filter: str = ""


class Ask(_Message, frozen=True):
    """A question about the broker itself: `status`, `tables` or `durables`."""

    number: int
    what: str


class Operate(_Message, frozen=True):
    """An operator's action: `end` the connection of the client of a name, `drain` the broker, or `resume`."""

    number: int
    action: str
    name: str = ""


class Link(_Message, frozen=True):
    """Connect to another broker, and stay connected."""

    number: int
    url: str


class Unlink(_Message, frozen=True):
    """End the link to a neighbour. A neighbour says so of itself, and is answered with the same: it has ended."""

    number: int
    neighbour: str


# -- to clients ------------------------------------------------------------------------------------------------


class Done(_Message, frozen=True):
    """What was asked under this number has been done."""

    number: int


class Refused(_Message, frozen=True):
    """What was asked, or published, under this number has no effect, and why.

    Without a number: this client is not the durable subscriber of that name any longer."""

    number: int
    reason: str
    durable: str = ""
    is_missing: bool = False
    """Whether it was to be ended, and is not there."""


class Repeated(_Message, frozen=True):
    """What was published under this number had been published before, and is as safe as it was then."""

    number: int


class Told(_Message, frozen=True):
    """The answer to a question."""

    number: int
    answer: Any


class Dropped(_Message, frozen=True):
    """So many notifications have been left out: because this client was slow, or a link on the way was.

    Between brokers: so many did not come over this link, and the receiver tells those they may have been for."""

    count: int


class Credit(_Message, frozen=True):
    """Of the notifications in no log that came over this connection, so many bytes have been dealt with."""

    dealt: int


class Listening(_Message, frozen=True):
    """Whether anyone listens, from now on."""

    id: str
    anyone: bool


# -- between brokers -------------------------------------------------------------------------------------------

Heard: TypeAlias = tuple[str, str]
"""An interest: the filter's text and its owner."""


class Table(_Message, frozen=True):
    """All that the sender asks of the receiver, in place of what it said before (book 4.6.4).

    From the one that opened a new link it also says that the link closes no cycle."""

    subscriptions: list[Heard]
    advertisements: list[Heard]
    others: list[Heard] = []
    """Further subscriptions, for which the receiver advertises nothing: who knows them keeps them."""


class Tell(_Message, frozen=True):
    """admin(S, U): what changes in what the sender asks."""

    added: list[Heard]
    removed: list[Heard]
    advertisements: bool = False


class Received(_Message, frozen=True):
    """All that was relayed up to this place of the receiver's log is safe in the sender's."""

    place: int


class Barrier(_Message, frozen=True, tag="Fence"):
    """Answer with Passed when every broker behind has synced all that came before this.

    `patient`: brokers that are away as well."""

    origin: str
    number: int
    patient: bool = True


class Probe(_Message, frozen=True):
    """A broker that gets its own probe back over another link has closed a cycle with the link to `called`.

    It goes over all links, new ones too, waits for brokers that are away, and is answered with Passed."""

    origin: str
    number: int
    called: str


class Passed(_Message, frozen=True, tag="Fenced"):
    """The answer to a barrier, or to a probe."""

    origin: str
    number: int


Control: TypeAlias = (
    Hello
    | Welcome
    | Bye
    | Ping
    | Pong
    | Subscribe
    | Unsubscribe
    | Release
    | Advertise
    | Unadvertise
    | Accept
    | Reject
    | Listen
    | Ask
    | Operate
    | Link
    | Unlink
    | Done
    | Refused
    | Repeated
    | Told
    | Dropped
    | Credit
    | Listening
    | Table
    | Tell
    | Received
    | Barrier
    | Probe
    | Passed
)
