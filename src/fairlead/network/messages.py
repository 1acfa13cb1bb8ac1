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
    "Authenticate",
    "Awake",
    "Barrier",
    "Bye",
    "Control",
    "Credit",
    "Cut",
    "DeclareType",
    "Delegate",
    "Discover",
    "Discovered",
    "Done",
    "Dropped",
    "Fetch",
    "Follow",
    "Forget",
    "Forgotten",
    "Gapped",
    "Granted",
    "Handing",
    "Hello",
    "HoldingText",
    "InterestText",
    "InterestsChanged",
    "Leased",
    "Link",
    "Listen",
    "Listening",
    "Moved",
    "Notice",
    "NoticeText",
    "Notices",
    "Offered",
    "Operate",
    "Passed",
    "Past",
    "Ping",
    "Pong",
    "Probe",
    "Quench",
    "Recalled",
    "Received",
    "Redrive",
    "Refused",
    "Reject",
    "Release",
    "RemoveType",
    "Renew",
    "Repeated",
    "Replay",
    "ReplayRecord",
    "ReportRequest",
    "Request",
    "Response",
    "Subscribe",
    "Table",
    "TypeText",
    "Types",
    "Unadvertise",
    "Undelegate",
    "Unlink",
    "Unsubscribe",
    "Wake",
    "Welcome",
]


class _Message(Struct, frozen=True, array_like=True, tag=True):
    pass


# -- either side -----------------------------------------------------------------------------------------------


class Hello(_Message, frozen=True):
    """The first message of a connection: the name of the client or broker that opens it.

    A broker also says which life of it this is, which log it keeps, how much it has of the other's, and how it
    routes."""

    version: int
    role: str
    name: str = ""
    policy: str = ""
    """The overflow policy, for when this client is slow to take what is not durable: block, drop or
    disconnect."""
    life: str = ""
    log: str = ""
    others_log: str = ""
    received: int = 0
    url: str = ""
    """The address at which a broker can be called."""
    knows: bool = False
    """Whether a broker takes the other for its neighbour already."""
    frame_max: int = FRAME_MAX
    """The longest frame that is taken."""
    routing: str = ""
    """The properties that neighbours have to agree on: see `Neighbourhood`."""
    lineage: list[tuple[str, int]] = []
    """The incarnations of a broker's log: see `fairlead.log.lineage`."""
    others_lineage: list[tuple[str, int]] = []
    """Those of the other's log, when something was received of it last."""
    end: int = 0
    """The end of a broker's log."""
    acknowledged: int = 0
    """The offset up to which the other has acknowledged this log."""
    oldest: int = 0
    """The oldest version of the protocol that it speaks, beside those up to `version`; 0: that one alone."""
    authorization: str = ""
    """Credentials, as the header of HTTP has them. They are not shown."""
    is_made_up: bool = False
    """Whether a client's library made its name up: a broker with a policy puts the principal's before it."""
    schema: str = ""
    """The fingerprint of the schema that filters are read with; of a client without one, none is compared."""
    extensions: dict[str, str] = {}
    """The extensions of a broker, by name, each with its fingerprint."""
    parent: str = ""
    """The name of the broker above, in a hierarchy."""
    will: bytes = b""
    """A packed notification, which is published when the client is lost."""
    will_delay: int = 0
    """In microseconds, how long it may take to come back."""
    connection: int = 0
    """The how-manieth one a client that moves opens, at whatever broker; 0: it does not say."""

    def __repr__(self) -> str:
        return f"Hello({self.version}, {self.role!r}, {self.name!r}, …)"


class Welcome(_Message, frozen=True):
    """The response to Hello: the names of the broker and of the other side, and the version that both use."""

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
    acknowledged: int = 0
    schema: str = ""
    extensions: dict[str, str] = {}
    parent: str = ""


class Bye(_Message, frozen=True):
    """The connection ends, with the reason; nothing follows. The sender names itself to a client that it
    refuses."""

    reason: str
    broker: str = ""
    is_final: bool = False
    """Whether a client that was there need not come back."""


class Ping(_Message, frozen=True):
    """A test of the connection. With a client's number, the response is `Done` when all earlier messages were
    handled."""

    number: int = 0


class Pong(_Message, frozen=True):
    """Yes."""


# -- from clients ----------------------------------------------------------------------------------------------


class Follow(_Message, frozen=True):
    """This client has published at another broker: answer when nothing of it is taken there any more, and all of
    it has come wherever it has to."""

    number: int
    unsure: list[tuple[str, str]] = []
    """Producers and ids of what was not acknowledged: what is known elsewhere is a duplicate here."""


class Subscribe(_Message, frozen=True):
    """Subscribe under an id; with `durable` for the subscriber of that name, which outlives the connection."""

    number: int
    id: str
    filter: str
    durable: str = ""
    since: int | None = None
    """Begin with what was published at this time, in microseconds, as far as the log goes back."""
    shared: bool = False
    """Whether each delivery goes to one of the clients that subscribe under the durable name."""
    per: str = ""
    """The attribute whose values stay with one of them."""
    window: int = 0
    attempts_max: int = 0
    accept_within: int = 0
    """In microseconds."""
    ordered: bool = False
    """Whether the client holds deliveries until a cut says that none before them is to come: then it is sent more
    than a window."""
    after: int = 0
    """Of one that is ordered and not durable: the last place in the log that it knows."""
    retained: bool = False
    """Whether the values come first that channels retain."""
    lease: int = 0
    """For how long the durable subscriber is kept while nobody is there, in microseconds; 0: until it is ended."""
    instead: str = ""
    """The id of the subscription that this one takes the place of, in one step, if it is there."""
    want: str = ""
    """The least quality of service that is required, as `fairlead.channels.Quality` is written."""
    history: bool = False
    """Whether the past of other brokers counts, too, where it begins in the past."""
    moves: int = 0
    """The number of times this client has gone to another broker: of two that want one durable name, the later one
    has it."""


class Unsubscribe(_Message, frozen=True):
    """Take a subscription back; without an id, the whole durable subscriber."""

    number: int
    id: str
    durable: str = ""


class Release(_Message, frozen=True):
    """Release a durable subscriber: deliveries that were not accepted go to the next client that subscribes under
    the name."""

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
    """The deliveries with these ordinals to a durable subscriber are accepted."""

    durable: str
    ordinals: list[int]


class Reject(_Message, frozen=True):
    """A delivery is not dealt with: it comes once more, or it is done with."""

    durable: str
    ordinal: int
    again: bool = False
    after: int = 0
    """Not before so many microseconds."""
    reason: str = ""


class Renew(_Message, frozen=True):
    """A client is still at work on a delivery: the time that it has for it begins anew."""

    durable: str
    ordinal: int


class Cut(_Message, frozen=True):
    """Answer behind all that was logged before this, at any broker, and concerns the subscriber of this name, or
    the subscription of this id that is not durable; with the place in the log, as `passed`."""

    number: int
    durable: str
    id: str = ""


class Redrive(_Message, frozen=True):
    """Hand out the dead deliveries of a durable subscriber again; the answer says how many."""

    number: int
    durable: str


class Request(_Message, frozen=True):
    """A publication, best effort, that asks for replies. The answer says that it is on its way; `Refused` with
    `is_missing`: nobody listens, and it has not been published."""

    number: int
    packed: bytes


class Listen(_Message, frozen=True):
    """Tell me whether anyone listens to what this filter matches, and when that changes; no filter: no more."""

    number: int
    id: str
    filter: str = ""


class Quench(_Message, frozen=True):
    """A source asks to be quenched, as long as nobody listens to this filter; the answer says whether it is."""

    number: int
    id: str
    filter: str


class Awake(_Message, frozen=True):
    """A source is not quenched any more."""

    id: str


class Discover(_Message, frozen=True):
    """Say what of a filter others want (`wants`), or offer (`offers`). With an id also when that changes; with an
    id and no filter: no more."""

    number: int
    what: str
    filter: str = ""
    id: str = ""


class Authenticate(_Message, frozen=True):
    """New credentials of the same principal, before the others expire."""

    number: int
    authorization: str

    def __repr__(self) -> str:
        return f"Authenticate({self.number}, …)"


class Delegate(_Message, frozen=True):
    """Give another principal a part of one's own rights, until a time in microseconds. The id is the giver's."""

    number: int
    id: str
    to: str
    subscribe: list[str] = []
    publish: list[str] = []
    advertise: list[str] = []
    until: int | None = None


class Undelegate(_Message, frozen=True):
    """End a delegation that was made with `Delegate`; that of another giver takes the right to manage."""

    number: int
    id: str
    by: str = ""


class DeclareType(_Message, frozen=True):
    """Declare a type, or declare it anew: the client's principal owns it, and decides what others may do with
    it."""

    number: int
    name: str
    subscribe: list[str] = []
    publish: list[str] = []
    form: list[str] = []


class RemoveType(_Message, frozen=True):
    """Declare a type no longer; that of another owner takes the right to manage."""

    number: int
    name: str


class ReportRequest(_Message, frozen=True, tag="Ask"):
    """A question about the broker itself: `status`, `tables`, `channels`, `durables`, `types`, `find`, `explain`,
    `scopes` or `clients`; `about` is what `find` and `explain` are asked, as JSON."""

    number: int
    what: str
    about: str = ""


class Operate(_Message, frozen=True):
    """An operator's action: `end` the connection of a client, `drain`, `resume` or `reload` the broker, `trace` a
    sample of what happens there."""

    number: int
    action: str
    name: str = ""


class Link(_Message, frozen=True):
    """Connect to another broker, and stay connected."""

    number: int
    url: str


class Unlink(_Message, frozen=True):
    """End the link to a neighbour. A neighbour that ends its own link sends the same, and gets it as the
    response."""

    number: int
    neighbour: str


# -- to clients ------------------------------------------------------------------------------------------------


class Done(_Message, frozen=True):
    """The request with this number has been carried out."""

    number: int


class Refused(_Message, frozen=True):
    """The request or publication with this number is refused, with the reason.

    Without a number: this client is not the durable subscriber of that name any longer."""

    number: int
    reason: str
    durable: str = ""
    is_missing: bool = False
    """Whether it was to be ended, and is not there."""
    is_forbidden: bool = False
    """Whether the access policy refuses it."""


class Granted(_Message, frozen=True):
    """The filter that is in effect for a subscription, or an advertisement, under this id: narrower than
    requested, or another one than before."""

    id: str
    filter: str
    advertisement: bool = False


class Leased(_Message, frozen=True):
    """For how long a durable subscriber is kept while nobody is there: what it asked for, or less."""

    durable: str
    lease: int


class Moved(_Message, frozen=True):
    """A durable subscriber has come to this broker with its client, and its place has this counter: the numbers of
    deliveries go on. `is_new`: no broker knew it, so that they begin anew."""

    durable: str
    counter: int
    is_new: bool


class Offered(_Message, frozen=True):
    """The channels of what a subscription may bring, as a file has them: what waits for it goes as they say."""

    id: str
    channels: list[dict[str, Any]]


class Repeated(_Message, frozen=True):
    """The publication with this number is a duplicate. It is as durable as the first one."""

    number: int


class Response(_Message, frozen=True, tag="Told"):
    """The answer to a question."""

    number: int
    answer: Any


class Dropped(_Message, frozen=True):
    """Notifications were dropped, because this client or a link was slow.

    Between brokers: so many did not come over this link, and the receiver tells those they may have been for."""

    count: int


class Credit(_Message, frozen=True):
    """Of the notifications in no log that came over this connection, so many bytes have been dealt with."""

    dealt: int


class Listening(_Message, frozen=True):
    """Whether anyone listens, from now on."""

    id: str
    anyone: bool


class Wake(_Message, frozen=True):
    """Somebody listens to what this quenched source publishes: it is to say that it is awake."""

    id: str


class Discovered(_Message, frozen=True):
    """A changed answer to the question with this id, as `fairlead.delivery.discovery` has it."""

    id: str
    answer: Any


# -- between brokers -------------------------------------------------------------------------------------------

InterestText: TypeAlias = tuple[str, str]
"""An interest: the filter's text and its owner."""


class Table(_Message, frozen=True):
    """All interests of the sender; they replace those before (book 4.6.4).

    From the one that opened a new link it also says that the link closes no cycle."""

    subscriptions: list[InterestText]
    advertisements: list[InterestText]
    others: list[InterestText] = []
    """Further subscriptions, for which the receiver advertises nothing: who knows them keeps them."""


class InterestsChanged(_Message, frozen=True, tag="Tell"):
    """admin(S, U): changes of the sender's interests."""

    added: list[InterestText]
    removed: list[InterestText]
    advertisements: bool = False


class Notice(_Message, frozen=True):
    """A change of the notice of a broker of a redundant network (`fairlead.broker.notices`): its neighbours, and
    the interests that are new or have ended. `whole`: these are all of them."""

    broker: str
    number: int
    neighbours: list[str]
    added: list[InterestText]
    removed: list[InterestText] = []
    whole: bool = False


NoticeText: TypeAlias = tuple[str, int, list[str], list[InterestText]]
"""The whole notice of a broker: its name, the number, its neighbours and its interests."""


class Notices(_Message, frozen=True):
    """All notices that the sender has, when a link is connected."""

    notices: list[NoticeText]


TypeText: TypeAlias = tuple[str, str, int, bool, list[str], list[str], list[str]]
"""A declared type: its name and owner, the revision, whether it is removed, and the filters `subscribe`, `publish`
and `form`."""


class Types(_Message, frozen=True):
    """Types that were declared, or removed: those of higher revisions than the receiver knows take their place."""

    types: list[TypeText]


class Received(_Message, frozen=True):
    """All relays up to this ordinal of the receiver's log are synced in the sender's."""

    ordinal: int


class Barrier(_Message, frozen=True, tag="Fence"):
    """Answer with Passed when every broker behind has synced all that came before this.

    `patient`: brokers that are away as well."""

    origin: str
    number: int
    patient: bool = True
    ends: bool = False
    """Whether the answer has the ends of the logs of all brokers behind."""
    recall: str = ""
    """A filter: the retained values that it matches come before the answer (`Recalled`)."""
    keys: list[tuple[str, bytes]] = []
    """Keys of channels: the order of all that is known of them come before the answer."""
    history: str = ""
    """A filter: what was published here since a time and it matches comes before the answer (`Past`)."""
    since: int = 0
    after: dict[str, int] = {}
    """By broker, the position of the last that has come of it; -1: all that was asked for has come."""
    seek: str = ""
    """The name of a durable subscriber: the answer has the places of it that the brokers behind have."""
    moves: int = 0
    client: str = ""
    """The client that is the subscriber now, and how often it has gone to another broker."""
    expel: str = ""
    """A client that has gone to the origin: its connections with other brokers end before they answer,"""
    connection: int = 0
    """if they were opened before this one."""
    unsure: list[tuple[str, str]] = []
    """Producers and ids: the answers say which of them were published (in `known`)."""
    upto: dict[str, int] = {}
    """Positions by origin: a broker passes the barrier when all up to there that concerns it has come."""


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
    ends: dict[str, int] = {}
    """By broker the end of its log, where that was asked for; -1: it has none."""
    reached: list[str] = []
    """In a redundant network, the brokers that a barrier has reached this way."""
    away: bool = False
    """Whether some broker behind has not answered: retained values may be missing."""
    held: list[HoldingText] = []
    """The places of the durable subscriber that the barrier seeks."""
    known: list[tuple[str, str]] = []
    """Producers and ids that were published, of those that the barrier asks for."""


HoldingText: TypeAlias = tuple[str, int, list[str], dict[str, int], bool, str, int]
"""A place of a durable subscriber, as `fairlead.broker.handover.Holding` has it; and `moves` where it arrives."""


class Fetch(_Message, frozen=True):
    """A broker where a durable subscriber has arrived asks the one that has a place of it for what is there."""

    to: str
    origin: str
    durable: str
    counter: int
    """That of the place that has it."""
    asking: int
    """That of the place that asks."""
    upto: dict[str, int]
    since: int
    done: int
    room: int
    """The number of records that are wanted; 0: the place is to be left, if it still has this offer."""
    offer: str = ""


ReplayRecord: TypeAlias = tuple[int, list[str], int, int, bytes]
"""Offset, ids of subscriptions, the number of the version and how many there are, and the notification."""


class Replay(_Message, frozen=True):
    """The answer: the records of the subscriber from `since` up to, and without, `end`."""

    to: str
    origin: str
    durable: str
    counter: int
    since: int
    end: int
    records: list[ReplayRecord]
    is_all: bool = False
    is_gone: bool = False
    """Whether there is no such place any longer."""
    is_stale: bool = False
    """Whether another place has asked since, which is later."""


class Forget(_Message, frozen=True):
    """All that a place had has been dealt with: it is to be removed."""

    to: str
    origin: str
    durable: str
    counter: int


class Forgotten(_Message, frozen=True):
    """It has been."""

    to: str
    origin: str
    durable: str
    counter: int


class Recalled(_Message, frozen=True):
    """Values that a broker retains, on the way back to where a barrier began."""

    origin: str
    number: int
    broker: str = ""
    """The broker that retains it, and the position there up to which all is among it."""
    reached: int = 0
    values: list[tuple[bytes, int, int]] = []
    """Notifications, each with its order time and its position; 0: it is in no log."""
    ranks: list[tuple[str, bytes, list[tuple[int, str, str, bool]]]] = []
    """By channel and key: order time, producer and id of each value, in their order, and whether it has ended the
    key."""


class Past(_Message, frozen=True):
    """Publications of a broker from before somebody subscribed, on the way back to where a barrier began."""

    origin: str
    number: int
    broker: str
    source: str = ""
    """The broker as stamps name it."""
    values: list[tuple[bytes, int]] = []
    """Notifications with their positions, in their order."""
    after: int = 0
    """All that is asked for between this position, without it,"""
    reached: int = 0
    """and this one is among the values."""
    is_first: bool = False
    is_last: bool = False
    """Whether no further message answers this barrier."""
    more: bool = False
    """Whether there is more, which the next barrier asks for."""
    begins: int | None = None
    """The time at which the log begins, if that is later than it was asked for; -1: there is no log."""


class Gapped(_Message, frozen=True):
    """A client's subscription does not get all of the past that it asked for."""

    id: str
    gaps: list[tuple[str, int]]
    """By broker the time at which its log begins; -1: it has none. Without a name: some broker was away."""


Handing: TypeAlias = Fetch | Replay | Forget | Forgotten
"""The messages of brokers to one another about a durable subscriber that moves."""

Control: TypeAlias = (
    Hello
    | Welcome
    | Bye
    | Ping
    | Pong
    | Subscribe
    | Follow
    | Unsubscribe
    | Release
    | Advertise
    | Unadvertise
    | Accept
    | Reject
    | Renew
    | Redrive
    | Cut
    | Request
    | Listen
    | Discover
    | Quench
    | Awake
    | ReportRequest
    | Authenticate
    | Delegate
    | Undelegate
    | DeclareType
    | RemoveType
    | Operate
    | Link
    | Unlink
    | Done
    | Refused
    | Granted
    | Leased
    | Moved
    | Offered
    | Repeated
    | Response
    | Dropped
    | Credit
    | Listening
    | Discovered
    | Wake
    | Table
    | InterestsChanged
    | Notice
    | Notices
    | Types
    | Received
    | Barrier
    | Probe
    | Passed
    | Recalled
    | Past
    | Gapped
    | Fetch
    | Replay
    | Forget
    | Forgotten
)
