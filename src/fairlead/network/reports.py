"""The reports of a broker, as types: its status and its routing tables, over the wire and over HTTP.

The OpenAPI document is made of them.
"""

from __future__ import annotations

from typing import Annotated, NotRequired, TypeAlias, TypedDict

from msgspec import Meta

__all__ = [
    "Absent",
    "Backlog",
    "ChangeStatus",
    "ChannelReport",
    "ClientReport",
    "ClientStatus",
    "Count",
    "DetectionStatus",
    "DurableStatus",
    "ExpiresReport",
    "Finds",
    "Hop",
    "LinkStatus",
    "LogStatus",
    "MemoryStatus",
    "RetainReport",
    "ScopesReport",
    "SecurityStatus",
    "Status",
    "Tables",
    "TypeStatus",
    "Waiting",
]

Count: TypeAlias = Annotated[int, Meta(ge=0)]


class Absent(TypedDict):
    """Why a neighbour is not linked, and since when."""

    reason: str
    since: str


class Waiting(Absent):
    """A broker that is called, or has called, and is no neighbour yet."""

    neighbour: str


class TypeStatus(TypedDict):
    """A type that a client has declared: its owner, and the filters that `[types.NAME]` of a policy has."""

    name: str
    owner: str
    subscribe: list[str]
    publish: list[str]
    form: list[str]


class LogStatus(TypedDict):
    """A broker's log: offsets, and its size."""

    first: Count
    end: Count
    synced: Count
    bytes: Count
    full: bool


class DurableStatus(TypedDict):
    """A durable subscriber."""

    connected: bool
    outflow: str
    behind: Count
    in_flight: Count


class LinkStatus(DurableStatus):
    """A neighbour."""

    ready: bool
    full: bool
    inflow: str
    url: str
    reason: NotRequired[str]
    since: NotRequired[str]


class Backlog(TypedDict):
    """A durable subscriber: how many records it has not passed, and when the first of them was written."""

    name: str
    connected: bool
    behind: Count
    oldest: str
    filters: list[str]


class RetainReport(TypedDict):
    """The values that a channel retains: how many of each key, and of which keys."""

    per: list[str]
    count: Count
    ends: NotRequired[str]


class ExpiresReport(TypedDict):
    """The attribute that says when notifications of a channel expire, or until when they are held, and the
    duration for those without."""

    attribute: str
    default: NotRequired[str]


class PriorityReport(TypedDict):
    """The attribute that says the priority of notifications of a channel, and that of those without."""

    attribute: str
    default: Count


class ChannelReport(TypedDict):
    """A channel, as the file of the network has it."""

    name: str
    filter: str
    retain: NotRequired[RetainReport]
    expires: NotRequired[str | ExpiresReport]
    delay: NotRequired[str | ExpiresReport]
    priority: NotRequired[Count | PriorityReport]
    order: NotRequired[str]
    discard: NotRequired[str]
    per: NotRequired[list[str]]
    deadline: NotRequired[str]


class MemoryStatus(TypedDict):
    """The memory that all connections use, in bytes, and the number of connections that were ended because
    of it."""

    budget: Count
    used: Count
    peak: Count
    ended: Count


class SecurityStatus(TypedDict):
    """The fingerprint of the access policy, empty if there is none; whether other machines may do everything."""

    policy: str
    exposed: bool
    log_failed: bool


class DetectionStatus(TypedDict):
    """A detector that the broker hosts: its query, the events that it has heard, its results, the events that came
    too late, and those that wait for time to pass; whether every broker knows what it subscribes to."""

    query: str
    events: Count
    results: Count
    late: Count
    held: Count
    ready: bool


class Status(TypedDict):
    """The status of a broker, in figures."""

    broker: str
    url: str
    clients: Count
    queued: Count
    queued_bytes: Count
    memory: MemoryStatus
    blocking: list[str]
    blocked: Count
    outflow: dict[str, Count]
    inflow: dict[str, Count]
    subscriptions: Count
    routing_entries: Count
    advertisements: bool
    cyclic: bool
    hierarchical: bool
    draining: bool
    counters: dict[str, Count]
    log: LogStatus | None
    positions: dict[str, Count]
    links: dict[str, LinkStatus]
    waiting: dict[str, Waiting]
    durables: dict[str, DurableStatus]
    detections: dict[str, DetectionStatus]
    security: SecurityStatus


class Tables(TypedDict):
    """The routing tables: filters as text, each with its destination."""

    broker: str
    neighbours: list[str]
    subscriptions: list[list[str]]
    advertisements: list[list[str]]


class Finds(TypedDict):
    """A piece of a search: the rows that it found, each with its destination; where to go on, and whether it is
    over; how many entries are looked through in all."""

    rows: list[list[str]]
    at: Count
    total: Count
    over: bool


class Hop(TypedDict):
    """The way of a notification at a broker: the neighbours, those who get it, the entries that match with the
    reason, and of the others the first with theirs; `carried` is what travels on, and `up` the parent that gets
    everything."""

    broker: str
    next: list[str]
    receivers: list[str]
    matching: list[list[str]]
    matches: Count
    others: list[list[str]]
    rest: Count
    up: str
    carried: dict[str, object]


class ChangeStatus(TypedDict):
    """A change of the scope graph, and why it is void, where it is."""

    time: int
    id: str
    text: str
    void: str


class ScopesReport(TypedDict):
    """The scope graph of a network: as it began, and its changes in their order; whether it can be changed."""

    there: bool
    statements: str
    outsiders: str
    changes: list[ChangeStatus]
    changeable: bool


class ClientStatus(TypedDict):
    """A connected client."""

    name: str
    subscriptions: Count
    queued: Count
    inflow: str
    outflow: str
    durables: list[str]


class ClientReport(TypedDict):
    """The connected clients, the first of them one by one, and the limits of the broker."""

    count: Count
    clients: list[ClientStatus]
    limits: dict[str, object]
