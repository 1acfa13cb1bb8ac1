"""Dead letters: what became of a delivery that a subscriber has failed on too often.

A dead letter is a publication like any other, so that whoever wants to know subscribes to `type = "dead"`:

    {"type": "dead", "subscriber": "work", "reason": "rejected", "attempts": 3, "notification": {…}}

Its producer is `dead/` and the subscriber's name, and its id is made of the identity of what died: a letter
that is written again is a duplicate.
"""

from __future__ import annotations

import hashlib
import json

from fairlead.model import Notification
from fairlead.model.letters import DEAD

__all__ = ["DEAD", "letter_of", "producer_of_letters"]


def producer_of_letters(subscriber: str) -> str:
    """The producer of a subscriber's dead letters."""
    return f"{DEAD}/{subscriber}"


def letter_of(subscriber: str, notification: Notification, attempts: int, reason: str) -> Notification:
    """The dead letter of a notification that a subscriber was handed so many times."""
    content = {"id": notification.id, "producer": notification.producer} | notification.content
    named = json.dumps([notification.producer, notification.id, subscriber], ensure_ascii=True)
    return Notification.of(
        {
            "type": DEAD,
            "subscriber": subscriber,
            "reason": reason,
            "attempts": attempts,
            "notification": content,
            "producer": producer_of_letters(subscriber),
            "id": hashlib.sha256(named.encode()).hexdigest()[:32],
        }
    )
