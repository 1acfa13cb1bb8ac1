"""Sealed predicates: `@sealed("location", "present", "police:1=…")` in the filter language (book Def. 8.1).

A predicate is sealed with AES-SIV, which is deterministic: equal predicates under equal keys are equal texts, so
that a broker without the keys sees that they are the same, and learns no more of them.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from fairlead.errors import FairleadError
from fairlead.filters.extensions.sealed import NAME, Opener, SealedPredicate, epochs_text, is_sealed
from fairlead.filters.filter import And, Filter, Not, Or, Tested
from fairlead.filters.language import parse, render
from fairlead.model import Notification
from fairlead.security.annotations import PLAIN, Alternative, Annotations
from fairlead.security.sealing.envelope import open_value, replaced
from fairlead.security.sealing.equality import tokens_of_predicate
from fairlead.security.sealing.keys import TOKENS, Epochs, Keyring

__all__ = ["KeyOpener", "bind", "seal_predicate"]

SIV_BYTES: Final = 64
BLOCK: Final = 64
"""Texts of predicates are padded to a multiple of it."""
OPENED_MAX: Final = 1_000
"""The number of opened notifications that are remembered: several filters look at each."""


def seal_predicate(
    attribute: str,
    predicate: Filter,
    alternatives: frozenset[Alternative],
    keyring: Keyring,
    annotations: Annotations,
) -> Filter:
    """A predicate on an attribute, sealed under these alternatives, of which the keyring has the keys; with
    tokens, where the annotations have them."""
    needs = "any" if predicate.matches(Notification.of({})) else "present"
    text = render(predicate).encode()
    padded = text.ljust(-(-len(text) // BLOCK) * BLOCK)
    copies = []
    for alternative in alternatives:
        if alternative == PLAIN:
            copies.append("plain")
            continue
        epochs = tuple(keyring.latest(name) for name in sorted(alternative))
        key = keyring.derived(epochs, TOKENS, SIV_BYTES)
        assert key is not None, "the keyring has the keys of the alternatives"
        label = epochs_text(epochs)
        sealed = AESSIV(key).encrypt(padded, [attribute.encode(), label.encode()])
        tokens = tokens_of_predicate(predicate, attribute, epochs, annotations, keyring)
        copies.append("~".join((f"{label}={base64.b64encode(sealed).decode()}", *tokens)))
    made = SealedPredicate(attribute, needs, *copies)
    return Tested(NAME, made.arguments, made)


class KeyOpener:
    """Opens predicates and attributes with a keyring; what was opened last is remembered."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring
        self._opened: dict[tuple[Any, ...], Notification] = {}
        """By all that a value is bound to."""

    def predicate(self, attribute: str, epochs: Epochs, sealed: str) -> Filter | None:
        """The predicate; None where a key is missing, or it was changed."""
        key = self._keyring.derived(epochs, TOKENS, SIV_BYTES)
        if key is None:
            return None
        try:
            bound = [attribute.encode(), epochs_text(epochs).encode()]
            return parse(AESSIV(key).decrypt(base64.b64decode(sealed), bound).decode())
        except (InvalidTag, ValueError, FairleadError):
            return None

    def opened(self, notification: Notification, attribute: str) -> Notification | None:
        """The notification with an attribute opened; None where a key is missing."""
        value = notification.get(attribute)
        if not is_sealed(value):
            return notification
        known = (value, attribute, notification.get("type", None), notification.producer, notification.id)
        made = self._opened.get(known)
        if made is None:
            try:
                made = replaced(
                    notification, {attribute: open_value(value, notification, attribute, self._keyring)}
                )
            except LookupError:
                return None
            if len(self._opened) >= OPENED_MAX:
                self._opened.clear()
            self._opened[known] = made
        return made


@dataclass(frozen=True, slots=True)
class _Bound(Tested):
    """A sealed predicate that keys decide about. It has the text of the one without, and is another filter: what
    is
    remembered of one must not be taken for the other."""

    opener: int = 0


def bind(filter: Filter, opener: Opener) -> Filter:
    """A filter of the same text; its sealed predicates are decided with an opener's keys, where it has them."""
    match filter:
        case Tested() if filter.name == NAME:
            if isinstance(filter, _Bound) and filter.opener == id(opener):
                return filter
            return _Bound(NAME, filter.arguments, filter.test.bound(opener), id(opener))
        case And(parts):
            return And(tuple(bind(each, opener) for each in parts))
        case Or(parts):
            return Or(tuple(bind(each, opener) for each in parts))
        case Not(part):
            return Not(bind(part, opener))
    return filter
