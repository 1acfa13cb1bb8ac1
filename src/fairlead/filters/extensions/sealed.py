"""Sealed predicates in the filter language: `@sealed("location", "present", "police:1=…")` (book Def. 8.1).

A predicate p^L is sealed once for each alternative of L, a set of key classes that are needed together. Which
classes these are can be seen, and so can whether the attribute has to be there; the predicate cannot. A program
without the keys decides what it can, and otherwise says yes: it may say so of too much, never of too little. One
with the keys is `bound` to them and decides exactly. Being bound changes neither the text nor equality.

Where values have tokens, and a predicate is about equality (`police:1=…~token~token`), a program without the keys
decides by the tokens.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Final, Protocol, TypeAlias, TypeGuard

from fairlead.errors import FilterError, SealBroken
from fairlead.filters.algebra import covers
from fairlead.filters.filter import Filter
from fairlead.filters.registry import Extension
from fairlead.model import ABSENT, Notification

__all__ = [
    "MAGIC",
    "NAME",
    "SEALED",
    "Opener",
    "SealedPredicate",
    "alternatives_of",
    "classes_of",
    "epochs_of",
    "epochs_text",
    "head_of",
    "is_sealed",
    "tokens_of",
]

NAME: Final = "sealed"
MAGIC: Final = b"\xf1FLS1"
"""The beginning of a sealed value: then come the length of its head, in two bytes, and the head."""
_HEAD: Final = len(MAGIC) + 2
_CLEAR: Final = frozenset({frozenset[str]()})
_PLAIN: Final = "plain"
_NEEDS: Final = ("present", "any")
_Epochs: TypeAlias = tuple[tuple[str, int], ...]


def epochs_text(epochs: _Epochs) -> str:
    """The keys of an alternative: `police:3&training:1`."""
    return "&".join(f"{name}:{number}" for name, number in epochs)


def epochs_of(text: str) -> _Epochs:
    """The keys that such a text names; FilterError."""
    found = []
    for part in text.split("&"):
        name, _, number = part.rpartition(":")
        if not name or not number.isdecimal():
            raise FilterError(f"{text!r} does not name keys", hint="police:1&training:3")
        found.append((name, int(number)))
    return tuple(found)


def is_sealed(value: object) -> TypeGuard[bytes]:
    """Whether a value is a sealed one."""
    return isinstance(value, bytes) and value.startswith(MAGIC)


def head_of(sealed: bytes) -> bytes:
    """The head of a sealed value: JSON, for each alternative its classes with the epochs of their keys."""
    return sealed[_HEAD : _HEAD + int.from_bytes(sealed[len(MAGIC) : _HEAD])]


def alternatives_of(sealed: bytes) -> tuple[_Epochs, ...]:
    """The alternatives that a value is sealed under; SealBroken where its head cannot be read."""
    try:
        return _alternatives(head_of(sealed))
    except (ValueError, TypeError, RecursionError):
        raise SealBroken("the head of a sealed value cannot be read") from None


@lru_cache(maxsize=4096)
def _alternatives(head: bytes) -> tuple[_Epochs, ...]:
    given = json.loads(head)
    given = given["alternatives"] if isinstance(given, dict) else given
    return tuple(tuple((str(name), int(number)) for name, number in each) for each in given)


def tokens_of(sealed: bytes) -> dict[str, str]:
    """The tokens of a sealed value, by the keys they are made with; none where none can be read."""
    try:
        head = json.loads(head_of(sealed))
    except (ValueError, RecursionError):
        return {}
    given = head.get("tokens") if isinstance(head, dict) else None
    return given if isinstance(given, dict) else {}


def classes_of(value: object) -> frozenset[frozenset[str]]:
    """K: the alternatives of classes that a value is sealed under; of a value in clear, that of no classes."""
    if not is_sealed(value):
        return _CLEAR
    try:
        return frozenset(frozenset(name for name, _ in each) for each in alternatives_of(value))
    except SealBroken:
        return frozenset()


class Opener(Protocol):
    """The keys of a program, as a sealed predicate needs them."""

    def predicate(self, attribute: str, epochs: _Epochs, sealed: str) -> Filter | None:
        """The predicate; None where a key is missing."""
        ...

    def opened(self, notification: Notification, attribute: str) -> Notification | None:
        """The notification with the attribute opened; None where a key is missing, SealBroken where it was
        changed."""
        ...


class SealedPredicate:
    """A predicate on one attribute, sealed under each of several alternatives."""

    __slots__ = (
        *("_copies", "_opener", "_predicate", "_tokens"),
        *("alternatives", "arguments", "attribute", "needs"),
    )

    def __init__(self, attribute: str, needs: str, *copies: str) -> None:
        if not attribute or needs not in _NEEDS or not copies:
            raise FilterError(
                "@sealed takes an attribute, whether it has to be there, and sealed predicates",
                hint='@sealed("location", "present", "police:1=…")',
            )
        self.attribute, self.needs = attribute, needs
        self._copies: dict[_Epochs, str] = {}
        self._tokens: dict[str, frozenset[str]] = {}
        """By the keys they are made with, the tokens of the values that satisfy the predicate."""
        alternatives = set()
        for copy in copies:
            keys, equals, sealed = copy.partition("=")
            epochs = () if copy == _PLAIN else epochs_of(keys)
            if bool(epochs) != bool(equals):
                raise FilterError(f"{copy!r} is no sealed predicate")
            alternatives.add(frozenset(name for name, _ in epochs))
            if epochs:
                self._copies[epochs], *tokens = sealed.split("~")
                if tokens:
                    self._tokens[keys] = frozenset(tokens)
        self.alternatives = frozenset(alternatives)
        self.arguments = (attribute, needs, *sorted(set(copies)))
        self._opener: Opener | None = None
        self._predicate: Filter | None = None

    def bound(self, opener: Opener) -> SealedPredicate:
        """The same predicate, decided with keys where they are there."""
        made = SealedPredicate(*self.arguments)
        made._opener = opener
        return made

    @property
    def predicate(self) -> Filter | None:
        """The predicate, if it is bound to keys that open it."""
        if self._predicate is None and self._opener is not None:
            opened = (self._opener.predicate(self.attribute, *each) for each in self._copies.items())
            self._predicate = next((each for each in opened if each is not None), None)
        return self._predicate

    def matches(self, notification: Notification) -> bool:
        """K in L, and the value satisfies the predicate; without the keys, K in L, and what tokens tell."""
        value = notification.get(self.attribute)
        if value is ABSENT:
            predicate = None if self.needs == "present" else self.predicate
            return self.needs == "any" and (predicate is None or predicate.matches(notification))
        if self.alternatives.isdisjoint(classes_of(value)):
            return self.needs == "any"  # who subscribed does not open it: to them it is absent
        predicate = self.predicate
        if predicate is None or self._opener is None:
            return self._may_match(value)
        try:
            opened = self._opener.opened(notification, self.attribute)
        except SealBroken:
            return False
        return self._may_match(value) if opened is None else predicate.matches(opened)

    def _may_match(self, value: object) -> bool:
        """Whether a value may satisfy the predicate, by tokens that both have under the same keys."""
        found = tokens_of(value) if self._tokens and is_sealed(value) else {}
        decided = (found[keys] in some for keys, some in self._tokens.items() if keys in found)
        return next(decided, True)

    def covers(self, other: SealedPredicate) -> bool:
        """All alternatives of the other, and the same predicate by its token.

        It does not depend on keys: brokers with and without them have to agree on which filters cover which. A
        broker that drops a covered filter would lose it where its neighbour, who does not know that, does not send
        it again.
        """
        is_same = any(self._copies.get(epochs) == sealed for epochs, sealed in other._copies.items())
        return is_same and self._has_all_alternatives(other)

    def covers_by_keys(self, other: SealedPredicate) -> bool:
        """All alternatives of the other, and a predicate that covers the other's, as far as the keys tell (Def.
        8.1)."""
        mine, theirs = self.predicate, other.predicate
        is_known = mine is not None and theirs is not None and covers(mine, theirs)
        return self.covers(other) or (is_known and self._has_all_alternatives(other))

    def _has_all_alternatives(self, other: SealedPredicate) -> bool:
        if self.attribute != other.attribute or not self.alternatives >= other.alternatives:
            return False
        # What neither opens is absent to both; what only one of them opens may not match.
        return other.needs == "present" or (self.needs == "any" and self.alternatives == other.alternatives)


SEALED: Final = Extension("sealed", filters={NAME: SealedPredicate})
