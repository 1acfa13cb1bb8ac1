"""Keys for members, through the service itself: each is a notification that one member opens.

A share is encrypted for the member (X25519 with an ephemeral key, HKDF, AES-256-GCM) and signed by whoever gives
out the keys (Ed25519). Brokers see who is a member of which class, and when a key was replaced.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fairlead.errors import KeyringError, SealBroken
from fairlead.model import Notification
from fairlead.security.files import write_private
from fairlead.security.sealing.keys import KEY_BYTES, Epoch, Keyring

__all__ = ["SHARE", "Identity", "agreeing_key", "shares", "shares_for", "take_share", "verifying_key"]

SHARE: Final = "key share"
"""The type of these notifications."""
_FORMAT: Final = 1
_NONCE: Final = 12


class Identity:
    """The private keys of a member: one to be given keys with, one to sign with. It has no representation of
    them."""

    def __init__(self, agreeing: X25519PrivateKey, signing: Ed25519PrivateKey) -> None:
        self._agreeing, self._signing = agreeing, signing

    def __repr__(self) -> str:
        return f"Identity({self.public})"

    @classmethod
    def new(cls) -> Identity:
        """Another identity."""
        return cls(X25519PrivateKey.generate(), Ed25519PrivateKey.generate())

    @property
    def public(self) -> str:
        """The public keys, as one word: what others need to give keys to it, and to know its signature."""
        both = self._agreeing.public_key().public_bytes_raw() + self._signing.public_key().public_bytes_raw()
        return base64.urlsafe_b64encode(both).decode()

    @classmethod
    def read(cls, path: str | Path) -> Identity:
        """The identity of a file; KeyringError, which never quotes it."""
        try:
            given = json.loads(Path(path).read_text(encoding="utf-8"))
            both = base64.b64decode(given["keys"], validate=True)
            return cls(
                X25519PrivateKey.from_private_bytes(both[:KEY_BYTES]),
                Ed25519PrivateKey.from_private_bytes(both[KEY_BYTES:]),
            )
        except OSError as error:
            raise KeyringError(f"{path}: cannot be read: {error.strerror}") from None
        except (ValueError, KeyError, TypeError):
            raise KeyringError(f"{path}: this is no identity") from None

    def write(self, path: str | Path) -> None:
        """Write the file, for its owner only."""
        both = self._agreeing.private_bytes_raw() + self._signing.private_bytes_raw()
        write_private(path, {"format": _FORMAT, "keys": base64.b64encode(both).decode()})

    def sign(self, signed: bytes) -> bytes:
        """The signature of bytes."""
        return self._signing.sign(signed)

    def agreed(self, other: bytes, info: bytes) -> bytes:
        """The key that this identity and another one's public key agree on."""
        return _derived(self._agreeing.exchange(X25519PublicKey.from_public_bytes(other)), info)


def agreeing_key(public: str) -> bytes:
    """The part of public keys that others agree on a key with; KeyringError."""
    return _publics(public)[0]


def verifying_key(public: str) -> bytes:
    """The part of public keys that signatures are checked with; KeyringError."""
    return _publics(public)[1]


def shares(
    keyring: Keyring, members: Mapping[str, Iterable[str]], publics: Mapping[str, str], giver: Identity
) -> list[dict[str, Any]]:
    """The last key of each class for each of its members, as records to be published. KeyringError: a public
    key is missing."""
    made = []
    for name, of_class in sorted(members.items()):
        for member in sorted(of_class):
            if member not in publics:
                raise KeyringError(f"the public key of {member} is not known, a member of {name}")
            made.append(_share(keyring, keyring.latest(name), member, publics[member], giver))
    return made


def shares_for(member: str) -> str:
    """A filter that matches the shares of a member."""
    return f"type = {json.dumps(SHARE)} and member = {json.dumps(member)}"


def take_share(keyring: Keyring, share: Notification, identity: Identity, giver: str) -> bool:
    """Add the key of a share to a keyring; whether it was new.

    SealBroken: it is not signed by the giver of this public key, or is for somebody else.
    """
    verifying = Ed25519PublicKey.from_public_bytes(verifying_key(giver))
    try:
        sealed, signature = share.get("sealed"), share.get("signature")
        if not isinstance(sealed, bytes) or not isinstance(signature, bytes):
            raise TypeError("a share has bytes")
        epoch = (str(share.get("class")), int(share.get("epoch")))
        bound = _bound(epoch, str(share.get("member")), int(share.get("since")))
        verifying.verify(signature, bound + sealed)
        key = identity.agreed(sealed[:KEY_BYTES], bound)
        nonce, body = sealed[KEY_BYTES : KEY_BYTES + _NONCE], sealed[KEY_BYTES + _NONCE :]
        return keyring.add(epoch, AESGCM(key).decrypt(nonce, body, bound), int(share.get("since")))
    except (InvalidSignature, InvalidTag, ValueError, TypeError):
        raise SealBroken("a share of a key that is not for this identity, or not of that giver") from None


def _share(keyring: Keyring, epoch: Epoch, member: str, public: str, giver: Identity) -> dict[str, Any]:
    since = keyring.since(epoch) or 0
    bound, theirs = _bound(epoch, member, since), agreeing_key(public)
    ephemeral = X25519PrivateKey.generate()
    key = _derived(ephemeral.exchange(X25519PublicKey.from_public_bytes(theirs)), bound)
    nonce = os.urandom(_NONCE)
    body = AESGCM(key).encrypt(nonce, keyring.secret(epoch), bound)
    sealed = ephemeral.public_key().public_bytes_raw() + nonce + body
    return {
        "type": SHARE,
        "class": epoch[0],
        "epoch": epoch[1],
        "member": member,
        "since": since,
        "sealed": sealed,
        "signature": giver.sign(bound + sealed),
    }


def _bound(epoch: Epoch, member: str, since: int) -> bytes:
    return json.dumps([SHARE, *epoch, member, since]).encode()


def _derived(shared: bytes, info: bytes) -> bytes:
    return HKDF(hashes.SHA256(), KEY_BYTES, salt=b"fairlead", info=info).derive(shared)


def _publics(public: str) -> tuple[bytes, bytes]:
    try:
        both = base64.urlsafe_b64decode(public)
    except ValueError:
        both = b""
    if len(both) != 2 * KEY_BYTES:
        raise KeyringError("a public key was expected, as `fairlead keys identity` prints it")
    return both[:KEY_BYTES], both[KEY_BYTES:]
