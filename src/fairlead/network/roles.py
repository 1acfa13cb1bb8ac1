"""The roles of brokers: clients in a broker's process that decide something for the network, and publish it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from fairlead.errors import FairleadError
from fairlead.model import Notification
from fairlead.network.client import Client

__all__ = ["publish_all"]

log: Final = logging.getLogger(__name__)
AT_ONCE: Final = 64
"""The number of notifications that are published together."""


async def publish_all(client: Client, notifications: Sequence[Notification], whose: str) -> None:
    """Publish what a role has decided, in its order; what the broker refuses is logged, and left out."""
    for start in range(0, len(notifications), AT_ONCE):
        some = notifications[start : start + AT_ONCE]
        answers = await asyncio.gather(*map(client.publish, some), return_exceptions=True)
        for each, answer in zip(some, answers, strict=True):
            if isinstance(answer, FairleadError):
                log.error("%s: %s is refused: %s", whose, each.id, answer)
            elif isinstance(answer, BaseException):
                raise answer
