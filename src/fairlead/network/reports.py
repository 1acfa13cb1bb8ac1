"""The reports of a broker, as types: its status and its routing tables, over the wire and over HTTP.

The OpenAPI document is made of them.
"""

from __future__ import annotations

from typing import Annotated, NotRequired, TypeAlias, TypedDict

from msgspec import Meta

__all__ = [
    "Absent",
    "Backlog",
    "ChannelReport",
    "Count",
    "DetectionStatus",
    "DurableStatus",
    "ExpiresReport",
    "LinkStatus",
    "LogStatus",
    "MemoryStatus",
    "RetainReport",
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
