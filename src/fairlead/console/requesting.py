"""Requests over HTTP: an event is published as a request, and the answer has the replies.

The law: a reply in the answer is one to this request; nobody who listens is an answer of its own, at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from fairlead.console.desk import Arrival, Desk
from fairlead.console.problems import Problem
from fairlead.delivery.requesting import OpenRequests, replies_to, request_of
from fairlead.errors import (
    AccessRefused,
    BrokerRefused,
    ConnectionEnded,
    FairleadError,
    NotThere,
    ValueRefused,
)
from fairlead.model import Notification
from fairlead.model.durations import duration_of
from fairlead.model.packed import pack, unpack
from fairlead.network import wire

__all__ = ["Terms", "replies"]

SUBSCRIPTION: Final = "replies"
ENOUGH_MAX: Final = 1_000
ROOM: Final = 1 << 20


class Terms(NamedTuple):
    """The time that a request waits for replies, and for how many; without a number, for one."""

    timeout_s: float
    enough: int | None

    @classmethod
    def of(cls, query: Sequence[tuple[str, str]], most_s: float) -> Terms:
        """The terms in the query of a request; Problem for an invalid one."""
        given = dict(query)
        if len(given) < len(query) or given.keys() - {"timeout", "enough"}:
            raise Problem(400, "a request has the parameters timeout and enough, each once")
        try:
            timeout_s = duration_of(given["timeout"]) / 1e6 if "timeout" in given else min(2.0, most_s)
        except FairleadError as error:
            raise Problem.of(400, error) from None
        enough = given.get("enough")
        if enough is not None and not (enough.isdecimal() and 1 <= int(enough[:9]) <= ENOUGH_MAX):
            raise Problem(400, f"enough is a number of replies from 1 to {ENOUGH_MAX:,}")
        if not 0 < timeout_s <= most_s:
            raise Problem(400, f"the timeout is longer than 0 s, and at most {most_s:g} s")
        return cls(timeout_s, None if enough is None else int(enough))


async def replies(desk: Desk, event: Notification, terms: Terms) -> list[Notification]:
    """The replies to a request, which is published by a client of its own; Problem where there are none."""
    requests = OpenRequests()
    try:
        request = request_of(event, requests.token)
    except ValueRefused as error:
        raise Problem.of(400, error) from None
    came: list[Notification] = []
    requests.open(request, came.append)
    try:
        async with asyncio.timeout(terms.timeout_s):
            await desk.request(
                lambda number: wire.Subscribe(number, SUBSCRIPTION, replies_to(requests.token))
            )
            await desk.request(lambda number: wire.Request(number, pack(request)))
            while len(came) < (terms.enough or 1):
                for each in await desk.arrivals(ROOM):
                    if isinstance(each, Arrival):
                        requests.take(unpack(each.packed))
    except TimeoutError:
        if not came:
            raise Problem(504, f"no reply has come in {terms.timeout_s:g} s") from None
    except NotThere as error:
        raise Problem.of(404, error) from None
    except AccessRefused as error:
        raise Problem.of(403, error) from None
    except BrokerRefused as error:
        raise Problem.of(409, error) from None
    except ConnectionEnded as error:
        raise Problem.of(503, error) from None
    return came[: terms.enough or 1]
