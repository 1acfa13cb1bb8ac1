"""`/metrics`: the broker's figures in Prometheus' text format.

Names follow its conventions: counters end in `_total`, units are base units. Nothing is labelled by client or by
filter, of which there is no bound; links are, by neighbour, and requests by route, method and status.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from fairlead import __version__
from fairlead.console.families import TEXT_FORMAT, Family, Labels, exposed
from fairlead.network.histograms import Histogram
from fairlead.network.process import free_bytes, process_figures
from fairlead.network.reports import Status
from fairlead.network.server import Server

__all__ = ["COUNTERS", "TEXT_FORMAT", "Requests", "exposition"]

COUNTERS: Final = {
    "published": "notifications that clients of this broker have published",
    "delivered": "notifications delivered to clients of this broker",
    "relayed": "notifications relayed to neighbours",
    "received": "notifications received from neighbours",
    "duplicates": "publications that had been published before",
    "refused": "publications and requests that were refused",
    "dropped": "notifications left out because a destination was slow or away",
    "rejected": "deliveries that a subscriber has rejected",
    "expired": "deliveries that had expired before they were handed out",
}
"""The counters of a node, in words."""


PROCESS: Final = {
    "process_cpu_seconds_total": "processor time of the broker's process",
    "process_start_time_seconds": "when it was started, in seconds since 1970",
    "process_resident_memory_bytes": "its memory",
    "process_open_fds": "its open files",
    "process_max_fds": "how many files it may open",
}
"""The figures of the process, under the names that are usual for them."""


@dataclass(slots=True)
class Requests:
    """The requests over HTTP."""

    answered: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    """Requests by method, route and status."""
    streams: int = 0
    """The number of open streams."""


def exposition(server: Server, requests: Requests) -> str:
    """All figures, as text."""
    families = chain(_families(server.node.status(), requests), _of_process(server))
    return exposed(families)


def _of_process(server: Server) -> Iterator[Family]:
    """Figures of the process, its disk, and how long the log takes."""
    for name, value in process_figures().items():
        kind = "counter" if name.endswith("_total") else "gauge"
        yield Family(name, kind, PROCESS[name], (((), value),))
    if server.settings.data is not None and (free := free_bytes(server.settings.data)) is not None:
        yield _gauge("disk_free_bytes", "room on the disk of the log", _one(free))
    yield _histogram("log_sync_seconds", "how long syncs of the log took", server.sync_seconds)
    yield _histogram(
        "acknowledgement_seconds",
        "how long the first publication of each sync waited until it was acknowledged",
        server.acknowledgement_seconds,
    )


def _histogram(name: str, help: str, observed: Histogram) -> Family:
    name = f"fairlead_{name}"
    buckets = [((("le", f"{bound:g}"),), count, "_bucket") for bound, count in observed.cumulative]
    samples = (
        *buckets,
        ((("le", "+Inf"),), observed.count, "_bucket"),
        ((), observed.sum, "_sum"),
        ((), observed.count, "_count"),
    )
    return Family(name, "histogram", help, tuple(samples))


def _families(status: Status, requests: Requests) -> Iterator[Family]:
    yield _gauge("build_info", "the version that runs", [((("version", __version__),), 1)])
    for name, help in COUNTERS.items():
        yield Family(f"fairlead_{name}_total", "counter", help, (((), status["counters"][name]),))
    yield _gauge("clients", "connected clients, those over HTTP included", _one(status["clients"]))
    yield _gauge("blocking_clients", "clients for which publishers wait", _one(len(status["blocking"])))
    yield _gauge(
        "blocked_connections",
        "connections blocked by a slow client or neighbour",
        _one(status["blocked"]),
    )
    yield _gauge("queued_notifications", "notifications that wait for slow clients", _one(status["queued"]))
    yield _gauge(
        "queued_bytes",
        "bytes in the backlogs of clients, and pending frames from them",
        _one(status["queued_bytes"]),
    )
    memory = status["memory"]
    yield _gauge("memory_budget_bytes", "how much memory all connections may use", _one(memory["budget"]))
    yield _gauge("memory_used_bytes", "how much memory all connections use", _one(memory["used"]))
    yield Family(
        "fairlead_memory_ended_total",
        "counter",
        "connections that were ended because they used most of the budget",
        (((), memory["ended"]),),
    )
    yield _gauge("draining", "whether the broker is being drained", _one(int(status["draining"])))
    yield _gauge("subscriptions", "subscriptions of this broker's clients", _one(status["subscriptions"]))
    yield _gauge("routing_entries", "entries of the routing table", _one(status["routing_entries"]))
    durables = status["durables"].values()
    yield _gauge("durable_subscribers", "durable subscribers, connected or not", _one(len(durables)))
    yield _gauge(
        "durable_subscribers_connected",
        "durable subscribers that are connected",
        _one(sum(each["connected"] for each in durables)),
    )
    yield _gauge(
        "durable_behind_records_max",
        "how many records of the log the durable subscriber that is most behind has still to pass",
        _one(max((each["behind"] for each in durables), default=0)),
    )
    if status["log"] is not None:
        log = status["log"]
        yield _gauge("log_bytes", "the size of the log", _one(log["bytes"]))
        yield _gauge("log_first_offset", "the first record that is in the log", _one(log["first"]))
        yield _gauge("log_end_offset", "the record that is written next", _one(log["end"]))
        yield _gauge("log_synced_offset", "all records before this one are synced", _one(log["synced"]))
    yield from _links(status["links"])
    yield _gauge("http_streams", "open streams of events over HTTP", _one(requests.streams))
    answered = sorted(requests.answered.items())
    yield Family(
        "fairlead_http_requests_total",
        "counter",
        "requests over HTTP that have been answered",
        tuple(
            ((("code", code), ("method", method), ("route", route)), count)
            for (method, route, code), count in answered
        ),
    )


def _links(links: Mapping[str, Mapping[str, Any]]) -> Iterator[Family]:
    def by_neighbour(key: str) -> list[tuple[Labels, float]]:
        return [((("neighbour", name),), int(link[key])) for name, link in sorted(links.items())]

    yield _gauge("link_connected", "whether a neighbour is connected", by_neighbour("connected"))
    yield _gauge(
        "link_down_info",
        "why a neighbour is not linked, and since when",
        [
            ((("neighbour", name), ("reason", link["reason"]), ("since", link.get("since", ""))), 1)
            for name, link in sorted(links.items())
            if link.get("reason")
        ],
    )
    yield _gauge(
        "link_behind_records",
        "how many records of the log a neighbour has still to pass",
        by_neighbour("behind"),
    )
    yield _gauge(
        "link_in_flight",
        "notifications in flight to a neighbour",
        by_neighbour("in_flight"),
    )


def _gauge(name: str, help: str, samples: Iterable[tuple[Labels, float]]) -> Family:
    return Family(f"fairlead_{name}", "gauge", help, tuple(samples))


def _one(value: float) -> list[tuple[Labels, float]]:
    return [((), value)]
