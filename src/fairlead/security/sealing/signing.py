"""Signatures of producers: a seal proves that somebody has the keys, a signature who published.

A class that demands signatures (`signed = true`) has the producer sign its name, the id, the type and the sealed
bytes of all attributes that are sealed under such a class (Ed25519). The public keys of producers are in the
policy. Brokers refuse what is not signed, and members do not open it.
"""

from __future__ import annotations

import hashlib
import json
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fairlead.errors import SealBroken
from fairlead.filters.extensions.sealed import alternatives_of, is_sealed
from fairlead.model import Notification
from fairlead.security.annotations import Annotations
from fairlead.security.sealing.sharing import verifying_key

__all__ = ["SIGNATURE", "check_signature", "signed_part"]

SIGNATURE: Final = "signature"
"""The attribute that has the signature."""


def signed_part(notification: Notification, annotations: Annotations) -> bytes | None:
    """The bytes that are signed; None where nothing is sealed under a class that demands it. SealBroken."""
    if not annotations.signed:
        return None
    digests = {}
    for name in sorted(notification.attributes):
        value = notification.get(name)
        if is_sealed(value):
            classes = {each for epochs in alternatives_of(value) for each, _ in epochs}
            if classes & annotations.signed:
                digests[name] = hashlib.sha256(value).hexdigest()
    if not digests:
        return None
    type = notification.get("type", None)
    about = [notification.producer, notification.id, type if isinstance(type, str) else None, digests]
    return json.dumps(["signed", *about]).encode()


def check_signature(notification: Notification, annotations: Annotations) -> None:
    """SealBroken, where something has to be signed by the producer and is not."""
    about = signed_part(notification, annotations)
    if about is None:
        return
    public = annotations.publics.get(notification.producer)
    if public is None:
        raise SealBroken(
            f"the public key of the producer {notification.producer!r}, who has to sign, is not known"
        )
    signature = notification.get(SIGNATURE)
    try:
        if not isinstance(signature, bytes):
            raise InvalidSignature
        Ed25519PublicKey.from_public_bytes(verifying_key(public)).verify(signature, about)
    except InvalidSignature:
        raise SealBroken(f"it is not signed by its producer {notification.producer!r}") from None
