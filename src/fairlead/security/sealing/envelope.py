"""One sealed value: AES-256-GCM under a key of its own, which is wrapped once for each alternative.

    magic, length of the head, head, (nonce, wrapped key) per alternative, nonce, sealed value

The head is JSON: for each alternative its classes with their epochs; with tokens of the value, an object of both.
It is not secret, and it is authenticated, with the producer, the id, the type and the name of the attribute.
"""

from __future__ import annotations

import hmac
import itertools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fairlead.errors import FairleadError, SealBroken
from fairlead.filters.extensions.sealed import MAGIC, alternatives_of, head_of
from fairlead.model import ABSENT, Notification
from fairlead.security.sealing.keys import KEY_BYTES, REPEATING, SEALING, Epochs, Keyring

__all__ = ["bound_to", "open_value", "replaced", "seal_value", "sealed_under", "unsealed"]

NONCE: Final = 12
TAG: Final = 16
BLOCK: Final = 16
"""Values are padded to a multiple of it, so that `true` is as long as `false`."""
_WRAPPED: Final = NONCE + KEY_BYTES + TAG


def seal_value(
    jsonable: Any,
    notification: Notification,
    name: str,
    alternatives: tuple[Epochs, ...],
    keyring: Keyring,
    *,
    is_repeatable: bool = False,
    tokens: Mapping[str, str] | None = None,
) -> bytes:
    """A value of an attribute, as JSON has it, sealed under each of the alternatives. KeyringError: a key is
    missing.

    If it is repeatable, the same value in the same notification is sealed to the same bytes. That tells nothing
    that two copies of one notification do not tell anyway. Tokens go into the head, for all to see.
    """
    shown = {"alternatives": alternatives, "tokens": tokens} if tokens else alternatives
    head = json.dumps(shown, separators=(",", ":")).encode()
    outers = []
    for epochs in alternatives:
        outer = keyring.derived(epochs, SEALING, KEY_BYTES)
        if outer is None:
            keyring.secret(next(each for each in epochs if each not in keyring))  # which raises
        assert outer is not None
        outers.append(outer)
    seed = keyring.derived(alternatives[0], REPEATING, KEY_BYTES) if is_repeatable else None
    body = sealed_under(outers, json.dumps(jsonable).encode(), bound_to(notification, name, head), seed)
    return MAGIC + len(head).to_bytes(2) + head + body


def open_value(sealed: bytes, notification: Notification, name: str, keyring: Keyring) -> Any:
    """The value, as JSON has it; LookupError where the keys for it are not there, SealBroken where it was
    changed."""
    alternatives, head = alternatives_of(sealed), head_of(sealed)
    bound, start = bound_to(notification, name, head), len(MAGIC) + 2 + len(head)
    for number, epochs in enumerate(alternatives):
        outer = keyring.derived(epochs, SEALING, KEY_BYTES)
        if outer is None:
            continue
        try:
            return json.loads(unsealed(outer, number, len(alternatives), sealed[start:], bound))
        except (InvalidTag, ValueError, RecursionError):
            raise SealBroken(f"{name} was changed, or belongs to another notification") from None
    raise LookupError(name)


def sealed_under(outers: Sequence[bytes], content: bytes, bound: bytes, seed: bytes | None = None) -> bytes:
    """Bytes that do not end with a space, under a key of their own, which each of the outer keys opens.

    With a secret seed, the key and the nonces follow from it and from all that is sealed, so that equal input is
    sealed to equal bytes, and other input with other nonces.
    """
    chosen = os.urandom if seed is None else _choosing(seed, bound, content)
    own = chosen(KEY_BYTES)
    pieces = []
    for outer in outers:
        nonce = chosen(NONCE)
        pieces += [nonce, AESGCM(outer).encrypt(nonce, own, bound)]
    nonce, padded = chosen(NONCE), content.ljust(-(-len(content) // BLOCK) * BLOCK)
    return b"".join((*pieces, nonce, AESGCM(own).encrypt(nonce, padded, bound)))


def _choosing(seed: bytes, bound: bytes, content: bytes) -> Callable[[int], bytes]:
    """Bytes that nobody without the seed can guess: a pseudorandom function of a counter and of what is sealed."""
    key = hmac.digest(seed, len(bound).to_bytes(8) + bound + content, "sha256")
    numbers = itertools.count()
    return lambda length: hmac.digest(key, next(numbers).to_bytes(8), "sha256")[:length]


def unsealed(outer: bytes, number: int, count: int, sealed: bytes, bound: bytes) -> bytes:
    """The bytes that were sealed, by one of so many outer keys; InvalidTag where they were changed."""
    wrapped, body = sealed[number * _WRAPPED : (number + 1) * _WRAPPED], sealed[count * _WRAPPED :]
    own = AESGCM(outer).decrypt(wrapped[:NONCE], wrapped[NONCE:], bound)
    return AESGCM(own).decrypt(body[:NONCE], body[NONCE:], bound).rstrip(b" ")


def bound_to(notification: Notification, name: str, head: bytes) -> bytes:
    """All that a value is bound to."""
    type = notification.get("type", None)
    fields = [notification.producer, notification.id, type if isinstance(type, str) else None, name]
    return json.dumps(fields).encode() + b"\0" + head


def replaced(notification: Notification, values: Mapping[str, Any]) -> Notification:
    """A notification with other values of attributes, as JSON has them; ABSENT removes one."""
    record = notification.content
    for name, value in values.items():
        if value is ABSENT:
            record.pop(name, None)
        else:
            record[name] = value
    try:
        read = Notification.read(record)
    except FairleadError as error:  # who has the key can seal what no notification holds
        raise SealBroken(f"a sealed value cannot be read: {error}") from None
    return replace(
        read,
        id=notification.id,
        producer=notification.producer,
        time=notification.time,
        sequence=notification.sequence,
    )
