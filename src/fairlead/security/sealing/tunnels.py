"""Notifications that are sealed for some brokers, and pass through others (book 8.1.4, tunnels).

What travels has the producer, the id and the type in clear, and all else in one attribute: AES-256-GCM under a key
of its own, wrapped once for each broker. Two brokers agree on the key that wraps by their identities (X25519), so
that a broker knows which of the others sealed what it opens.

    magic, length of the head, head, (nonce, wrapped key) per broker, nonce, sealed notification

The head is JSON: the broker that sealed it, and those it is for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from cryptography.exceptions import InvalidTag

from fairlead.errors import FairleadError, KeyringError
from fairlead.model import Notification
from fairlead.model.packed import pack, unpack
from fairlead.security.sealing.envelope import bound_to, sealed_under, unsealed
from fairlead.security.sealing.sharing import Identity, agreeing_key
from fairlead.security.trust import SEALED

__all__ = ["Tunnel"]

MAGIC: Final = b"\xf1FLT1"
_HEAD: Final = len(MAGIC) + 2
_PURPOSE: Final = "tunnel"
_END: Final = b"."
"""Behind the bytes of a notification, which may end with what they are padded with."""


class Tunnel:
    """The identity of a broker, and the public keys of all of them. KeyringError: its own is another one."""

    def __init__(self, broker: str, identity: Identity, publics: Mapping[str, str]) -> None:
        if publics.get(broker) != identity.public:
            raise KeyringError(f"[brokers.{broker}] public is not the public key of this broker's identity")
        self._broker, self._identity = broker, identity
        self._publics = {name: agreeing_key(public) for name, public in publics.items()}
        self._agreed: dict[tuple[str, str], bytes] = {}

    def seal(self, notification: Notification, brokers: Iterable[str]) -> Notification:
        """The notification as it travels: these brokers open it."""
        recipients = sorted({*brokers} & self._publics.keys())
        head = json.dumps([self._broker, recipients]).encode()
        outers = [self._key(self._broker, each) for each in recipients]
        body = sealed_under(outers, pack(notification) + _END, bound_to(notification, SEALED, head))
        record: dict[str, Any] = {SEALED: MAGIC + len(head).to_bytes(2) + head + body}
        if isinstance(type := notification.get("type", None), str):
            record["type"] = type
        return replace(Notification.of(record), producer=notification.producer, id=notification.id)

    def opened(self, notification: Notification) -> Notification | None:
        """The notification that was sealed; None where it is for others, or was changed."""
        sealed = notification.get(SEALED)
        if not isinstance(sealed, bytes) or not sealed.startswith(MAGIC):
            return None
        head = sealed[_HEAD : _HEAD + int.from_bytes(sealed[len(MAGIC) : _HEAD])]
        try:
            sender, recipients = json.loads(head)
            if self._broker not in recipients or sender not in self._publics:
                return None
            outer, bound = self._key(sender, self._broker), bound_to(notification, SEALED, head)
            number, body = recipients.index(self._broker), sealed[_HEAD + len(head) :]
            packed = unsealed(outer, number, len(recipients), body, bound).removesuffix(_END)
            opened = unpack(packed)
        except (InvalidTag, ValueError, TypeError, RecursionError, FairleadError):
            return None
        is_same = (opened.producer, opened.id) == (notification.producer, notification.id)
        return opened if is_same else None

    def _key(self, sender: str, recipient: str) -> bytes:
        known = self._agreed.get((sender, recipient))
        if known is None:
            other = recipient if sender == self._broker else sender
            info = json.dumps([_PURPOSE, sender, recipient]).encode()
            known = self._agreed[sender, recipient] = self._identity.agreed(self._publics[other], info)
        return known
