"""Tokens of values: programs without the keys see which values are equal, and decide `=` and `in` by that.

A token is a keyed hash of the attribute and the value, under the keys of one alternative. Whoever sees tokens
learns which values of an attribute are equal, and how often each occurs; so it is for classes alone that say so
(`match = "tokens"`). A value that is no text, number or truth value has no token, and is undecided.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from fairlead.filters.constraint import Constraint
from fairlead.filters.extensions.sealed import epochs_text
from fairlead.filters.filter import Filter
from fairlead.filters.operators import Op
from fairlead.filters.terms import Attribute
from fairlead.security.annotations import Alternative, Annotations
from fairlead.security.sealing.keys import EQUALITY, KEY_BYTES, Epochs, Keyring

__all__ = ["tokens_of_predicate", "tokens_of_value"]

TOKEN_BYTES: Final = 12


def tokens_of_value(
    value: object, name: str, alternatives: Iterable[Epochs], annotations: Annotations, keyring: Keyring
) -> dict[str, str]:
    """By the keys they are made with, the tokens of a value under those alternatives whose classes have tokens."""
    canonical = _canonical(value)
    if canonical is None:
        return {}
    made = ((epochs, _token(name, canonical, epochs, annotations, keyring)) for epochs in alternatives)
    return {epochs_text(epochs): token for epochs, token in made if token is not None}


def tokens_of_predicate(
    predicate: Filter, name: str, epochs: Epochs, annotations: Annotations, keyring: Keyring
) -> list[str]:
    """The tokens of the values that satisfy a predicate; none if it is not about a few values."""
    if not isinstance(predicate, Constraint) or predicate.term != Attribute(name):
        return []
    match predicate.op:
        case Op.EQ:
            values: Iterable[object] = (predicate.operand,)
        case Op.IN:
            values = predicate.operand
        case _:
            return []
    texts = [_canonical(each) for each in values]
    tokens = [None if each is None else _token(name, each, epochs, annotations, keyring) for each in texts]
    return [] if None in tokens else sorted(each for each in tokens if each is not None)


def _token(
    name: str, canonical: str, epochs: Epochs, annotations: Annotations, keyring: Keyring
) -> str | None:
    classes: Alternative = frozenset(each for each, _ in epochs)
    key = keyring.derived(epochs, EQUALITY, KEY_BYTES) if classes <= annotations.tokens else None
    if key is None:
        return None
    digest = hmac.digest(key, f"{len(name)}:{name}{canonical}".encode(), "sha256")
    return base64.urlsafe_b64encode(digest[:TOKEN_BYTES]).decode()


def _canonical(value: object) -> str | None:
    """A text that is the same for values that `=` takes for the same, and for no others."""
    match value:
        case bool():
            return f"b{value}"
        case str():
            return f"s{value}"
        case int() | float() | Decimal():
            number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
            if not number.is_finite():
                return None
            sign, digits, exponent = number.as_tuple()
            text = "".join(map(str, digits)).lstrip("0")
            stripped = text.rstrip("0")
            if not stripped:
                return "n0"
            assert isinstance(exponent, int)
            return f"n{'-' * sign}{stripped}e{exponent + len(text) - len(stripped)}"
    return None
