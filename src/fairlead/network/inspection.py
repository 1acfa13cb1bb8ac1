"""What a node says of itself, to whoever asks: as it is now, and asking changes nothing."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from fairlead.filters.language import render
from fairlead.network.sessions import ClientSession, Counters

if TYPE_CHECKING:
    from fairlead.network.node import Node

__all__ = ["status", "tables"]

NAMED_MAX: Final = 100
"""How many clients are named that hold up others."""


def status(node: Node) -> dict[str, Any]:
    """How the broker is, in figures."""
    counters = node.counters
    log = None if node.ledger is None else node.ledger.log
    # Where nothing follows but what the log says of itself, nobody is behind.
    reached = node.dispatched if node.ledger is None else min(node.dispatched, node.ledger.content)
    return {
        "broker": node.name,
        "url": node.url,
        "clients": len(node.clients),
        "queued": sum(len(session.backlog) for session in node.clients.values()),
        "blocking": sorted(each.name for each in node.blocking if isinstance(each, ClientSession))[
            :NAMED_MAX
        ],
        "held_up": node.blocked,
        "outflow": Counter(str(session.outflow) for session in node.clients.values()),
        "inflow": Counter(str(session.inflow) for session in node.clients.values()),
        "subscriptions": sum(
            len(node.broker.clients[each].subscriptions.by_id) for each in node.broker.clients
        ),
        "routing_entries": len(node.broker.subscriptions),
        "advertisements": node.broker.settings.advertisements is not None,
        "counters": {name: getattr(counters, name) for name in Counters.__slots__},
        "log": None
        if log is None
        else {
            "first": log.first,
            "end": log.end,
            "synced": log.synced,
            "bytes": log.size,
            "full": not log.reserve.is_held,
        },
        "links": {
            name: {
                "connected": link.session is not None,
                "ready": link.ready,
                "full": link in node.blocking,
                "inflow": "" if link.session is None else str(link.session.inflow),
                "outflow": str(link.outflow),
                "behind": max(0, reached - link.cursor(node.dispatched)),
                "unconfirmed": len(link.unconfirmed),
                "url": node.neighbourhood.url_of(name),
                **({} if link.ready else node.neighbourhood.calling.of_link(name)),
            }
            for name, link in node.links.items()
        },
        "waiting": node.neighbourhood.calling.waiting(),
        "durables": {
            name: {
                "connected": durable.session is not None,
                "outflow": str(durable.outflow),
                "behind": max(0, reached - durable.cursor(node.dispatched)),
                "unconfirmed": len(durable.unconfirmed),
            }
            for name, durable in node.durables.items()
            if not durable.ends
        },
    }


def tables(node: Node) -> dict[str, Any]:
    """The routing tables, as text."""
    tables = [node.broker.subscriptions, node.broker.advertisements]
    subscriptions, advertisements = (
        [[render(interest.filter), destination] for interest, destination in table] for table in tables
    )
    return {
        "broker": node.name,
        "neighbours": sorted(node.links),
        "subscriptions": subscriptions,
        "advertisements": advertisements,
    }
