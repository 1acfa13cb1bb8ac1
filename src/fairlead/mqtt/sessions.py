"""Sessions of MQTT: what a client has at this broker for longer than a connection.

The broker's own state says which sessions there are: a session that lasts is a durable subscriber, and each of its
subscriptions has an id that says all that MQTT knows of it. What is under way is in memory (`flow`): a broker that
was killed sends it again, under other packet ids.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from fairlead.mqtt.flow import Flow
from fairlead.network.node import Node

if TYPE_CHECKING:
    from fairlead.mqtt.connection import Connection

__all__ = ["MARKER", "SHARED", "Session", "Sessions", "Subscription"]

MARKER: Final = "session"
"""The id of the subscription, to nothing, that a session without others lasts by."""
SHARED: Final = "$share/"


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription to a topic filter. Its id is all of it, in JSON."""

    topic_filter: str
    qos: int
    no_local: bool = False
    as_published: bool = False
    """Whether what is delivered says that it was to be retained."""
    number: int = 0
    """The subscription id of the client."""
    content: str = ""
    """The content filter beside the topic filter."""
    id: str = ""
    """The id of the subscription at the broker; a shared one has the same for all members."""
    durable: str = ""
    """The durable subscriber that it belongs to; empty: it ends with the connection."""
    accepted_as: str = ""
    """The name under which its deliveries are accepted; empty: they are in no log."""

    @property
    def is_shared(self) -> bool:
        """Whether each delivery goes to one of several clients."""
        return self.topic_filter.startswith(SHARED)

    @property
    def text(self) -> str:
        """All that is to be known of it, to be read by `of`."""
        parts = (self.topic_filter, self.qos, self.no_local, self.as_published, self.number, self.content)
        return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def of(cls, text: str) -> Subscription | None:
        """The subscription of such a text; None where it is none."""
        try:
            topic_filter, qos, no_local, as_published, number, content = json.loads(text)
        except (ValueError, TypeError):
            return None
        return cls(topic_filter, qos, no_local, as_published, number, content)


class Session:
    """The session of one client, with its connection while there is one."""

    def __init__(self, name: str, client: str) -> None:
        self.name, self.client = name, client
        """The name of the session at the broker, which is its durable subscriber's, too; and the client id."""
        self.flow = Flow()
        self.connection: Connection | None = None
        self.expiry: int | None = 0
        """The seconds for which it lasts without a connection; None: for ever."""
        self.was_durable = False
        """Whether the broker has had a durable subscriber for it: then it lasts as long as that."""
        self.is_recalled = False
        """Whether it is of the log, and nothing is known of what was under way."""
        self.run = uuid.uuid4().hex[:12]
        self._published = 0
        self._by_filter: dict[str, Subscription] = {}
        self._by_id: dict[str, Subscription] = {}

    def __iter__(self) -> Iterator[Subscription]:
        return iter([*self._by_filter.values()])

    def __len__(self) -> int:
        return len(self._by_filter)

    def next_id(self) -> str:
        """The id of the next publication."""
        self._published += 1
        return f"{self.run}-{self._published}"

    def add(self, subscription: Subscription) -> Subscription | None:
        """Have a subscription; the one to the same topic filter whose place it takes."""
        before = self._by_filter.get(subscription.topic_filter)
        self._by_filter[subscription.topic_filter] = subscription
        self._by_id[subscription.id] = subscription
        return before

    def remove(self, subscription: Subscription) -> None:
        """Have it no longer."""
        if self._by_filter.get(subscription.topic_filter) is subscription:
            del self._by_filter[subscription.topic_filter]
        if self._by_id.get(subscription.id) is subscription:
            del self._by_id[subscription.id]

    def to(self, topic_filter: str) -> Subscription | None:
        """The subscription to a topic filter."""
        return self._by_filter.get(topic_filter)

    def of(self, ids: Iterable[str]) -> list[Subscription]:
        """The subscriptions with these ids that there are."""
        return [self._by_id[id] for id in ids if id in self._by_id]

    def recall(self, ids: Iterable[str]) -> list[Subscription]:
        """The subscriptions that the broker has of it."""
        recalled = []
        for id in ids:
            found = None if id == MARKER else Subscription.of(id)
            if found is not None:
                recalled.append(replace(found, id=id))
        return recalled


class Sessions:
    """The sessions of one broker."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._sessions: dict[str, Session] = {}

    def of(self, name: str, client: str) -> tuple[Session, bool]:
        """The session of a client, and whether it was there before."""
        session, durable = self._sessions.get(name), self._node.durables.get(name)
        if session is not None and session.was_durable and durable is None:
            session = None  # its time is over
        if session is not None:
            return session, True
        session = self._sessions[name] = Session(name, client)
        if durable is None:
            return session, False
        session.was_durable = session.is_recalled = True
        return session, True

    def get(self, name: str) -> Session | None:
        """The session of this name, if it is in memory."""
        return self._sessions.get(name)

    def forget(self, name: str) -> None:
        """A session has ended."""
        self._sessions.pop(name, None)

    def tick(self) -> None:
        """From time to time: forget those whose durable subscriber has ended."""
        for name, session in [*self._sessions.items()]:
            if session.connection is None and session.was_durable and name not in self._node.durables:
                del self._sessions[name]
