"""Notifications and filters, sealed for others and opened with the keys of one program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fairlead.errors import Forbidden, KeyringError, SealBroken, ValueRefused
from fairlead.filters.constraint import Constraint
from fairlead.filters.extensions.sealed import alternatives_of, is_sealed
from fairlead.filters.filter import EVERYTHING, Filter, Not
from fairlead.filters.language import parse
from fairlead.filters.projection import with_leaves
from fairlead.filters.terms import Attribute, Inspector, Length, Polynomial, Position
from fairlead.model import ABSENT, Notification, Record
from fairlead.model.typed import fields_to_json
from fairlead.security.annotations import PLAIN, Alternative, Annotation, Annotations, classes_text
from fairlead.security.sealing.envelope import open_value, replaced, seal_value
from fairlead.security.sealing.equality import tokens_of_value
from fairlead.security.sealing.keys import Epochs, Keyring
from fairlead.security.sealing.predicates import KeyOpener, bind, seal_predicate
from fairlead.security.sealing.sharing import Identity
from fairlead.security.sealing.signing import SIGNATURE, check_signature, signed_part

__all__ = ["Sealer"]

NO_GRACE: Mapping[str, int] = {}


class Sealer:
    """Seals with the last key of each class, and opens with all that there are.

    `grace_us` is, by class, for how many microseconds a key that was replaced is still accepted.
    """

    def __init__(
        self,
        annotations: Annotations,
        keyring: Keyring,
        grace_us: Mapping[str, int] = NO_GRACE,
        identity: Identity | None = None,
    ) -> None:
        self.annotations, self.keyring, self.grace_us = annotations, keyring, grace_us
        self.identity = identity
        """The identity that signs what is sealed, where a class demands it."""
        self.opener = KeyOpener(keyring)

    # -- notifications -----------------------------------------------------------------------------------------

    def seal(self, notification: Notification, under: Mapping[str, Annotation] | None = None) -> Notification:
        """The notification with its annotated attributes sealed, under all alternatives that the keys allow.

        `under` names other alternatives for some attributes, of those that there are. An attribute that may be
        plain is left as it is where no key for it is there. KeyringError: one has to be sealed, and cannot.
        """
        annotated = self.annotations.of_notification(notification)
        present = {name: each for name, each in annotated.items() if notification.get(name) is not ABSENT}
        if not present:
            return notification
        if notification.id is None or not notification.producer:
            raise ValueRefused(
                "a sealed attribute is bound to an id and a producer: give the notification both"
            )
        if notification.document is not None:
            raise ValueRefused("attributes of an XML document cannot be sealed", hint="publish a record")
        content, values = notification.content, {}
        for name, annotation in present.items():
            if is_sealed(notification.get(name)):
                continue
            alternatives = self._usable(name, annotation, (under or {}).get(name))
            if alternatives and name not in content:
                raise ValueRefused(
                    f"{name} is sealed as a whole", hint="nest the record instead of dotted names"
                )
            if alternatives:
                values[name] = self._sealed(notification, name, content[name], alternatives)
        return self._signed(replaced(notification, values))

    def _sealed(
        self,
        notification: Notification,
        name: str,
        content: Any,
        epochs: tuple[Epochs, ...],
        *,
        is_repeatable: bool = False,
    ) -> Any:
        """A value, sealed, as JSON has it."""
        value, annotations, keyring = notification.get(name), self.annotations, self.keyring
        tokens = tokens_of_value(value, name, epochs, annotations, keyring) if annotations.tokens else None
        sealed = seal_value(
            content, notification, name, epochs, keyring, is_repeatable=is_repeatable, tokens=tokens
        )
        return fields_to_json(Record({name: sealed}))[name]

    def _signed(self, notification: Notification) -> Notification:
        """The notification with the signature of its producer, where a class demands one. KeyringError: it cannot
        be made here."""
        about = signed_part(notification, self.annotations)
        if about is None or SIGNATURE in notification.attributes:
            return notification
        if self.identity is None:
            raise KeyringError(
                "what is sealed has to be signed by its producer, and its identity is not there",
                hint="name the file that `fairlead keys identity` writes",
            )
        signature = self.identity.sign(about)
        return replaced(notification, fields_to_json(Record({SIGNATURE: signature})))

    def concealed(self, notification: Notification, names: frozenset[str]) -> Notification:
        """The notification with these attributes sealed, to the same bytes each time, as far as annotations and
        keys allow; the others are left out. What is sealed already is as it was."""
        annotated, content, values = self.annotations.of_notification(notification), notification.content, {}
        for name in names & content.keys():
            annotation = annotated.get(name)
            wanted = frozenset() if annotation is None else annotation.alternatives
            # Only the producer signs, and this is somebody else.
            epochs = self._epochs(each for each in wanted if not each & self.annotations.signed)
            if is_sealed(notification.get(name)):
                values[name] = content[name]
            elif epochs:
                sealed = seal_value(
                    content[name], notification, name, epochs, self.keyring, is_repeatable=True
                )
                values[name] = fields_to_json(Record({name: sealed}))[name]
        return replaced(notification.without(names - values.keys()), values)

    def _epochs(self, wanted: Iterable[Alternative]) -> tuple[Epochs, ...]:
        """The last epochs of each alternative that the keys allow."""
        usable = sorted((each for each in wanted if each and each <= self.keyring.classes), key=sorted)
        return tuple(tuple(self.keyring.latest(each) for each in sorted(classes)) for classes in usable)

    def _usable(self, name: str, annotation: Annotation, chosen: Annotation | None) -> tuple[Epochs, ...]:
        """The alternatives to seal an attribute under, with the last epochs; none: it stays as it is."""
        if chosen is not None and not chosen.alternatives <= annotation.alternatives:
            raise Forbidden(f"{name} is sealed under {annotation}, not {chosen}")
        wanted = (annotation if chosen is None else chosen).alternatives
        if chosen is not None and PLAIN in wanted:
            return ()
        usable = self._epochs(wanted)
        if not usable and PLAIN not in wanted:
            raise KeyringError(f"{name} has to be sealed under {annotation}, and the keys are not there")
        return usable

    def view(self, notification: Notification, now: int | None = None) -> Notification:
        """The notification with all attributes opened that the keys open; the other sealed ones are absent.

        SealBroken: one was changed, belongs to another notification, or was sealed with a key that has been
        replaced.
        """
        values: dict[str, Any] = {}
        check_signature(notification, self.annotations)
        for name in notification.attributes:
            value = notification.get(name)
            if is_sealed(value):
                self.check_epochs(name, value, now)
                try:
                    values[name] = open_value(value, notification, name, self.keyring)
                except LookupError:
                    values[name] = ABSENT
        return replaced(notification, values) if values else notification

    def check_epochs(self, name: str, sealed: bytes, now: int | None) -> None:
        """SealBroken where a key of a value was replaced, and its grace is over."""
        for epochs in alternatives_of(sealed) if now is not None else ():
            for epoch in epochs:
                ended = self.keyring.replaced_at(epoch)
                if ended is not None and now is not None and now > ended + self.grace_us.get(epoch[0], 0):
                    raise SealBroken(
                        f"{name} is sealed with the key {epoch[0]}:{epoch[1]}, which was replaced"
                    )

    def read(self, filter: Filter, notification: Notification, now: int | None = None) -> Notification | None:
        """The view of a notification, if a filter matches it; None where it does not."""
        view = self.view(notification, now)
        return view if filter.matches(view) else None

    def objection(self, notification: Notification, now: int | None) -> str | None:
        """The reason to refuse a publication: an attribute is not sealed as it has to be, or cannot be opened.

        Without a time, keys that were replaced are accepted.
        """
        annotated = self.annotations.of_notification(notification)
        for name, annotation in annotated.items():
            value = notification.get(name)
            if value is ABSENT:
                continue
            if not is_sealed(value):
                if PLAIN not in annotation.alternatives:
                    return f"{name} has to be sealed under {annotation}"
                continue
            try:
                for epochs in alternatives_of(value):
                    used: Alternative = frozenset(each for each, _ in epochs)
                    if used not in annotation.alternatives:
                        return f"{name} has to be sealed under {annotation}, not {classes_text(used)}"
                self.check_epochs(name, value, now)
                self.opener.opened(notification, name)
            except SealBroken as error:
                return str(error)
        try:
            check_signature(notification, self.annotations)
        except SealBroken as error:
            return str(error)
        return None

    # -- filters -----------------------------------------------------------------------------------------------

    def filter(self, filter: str | Filter) -> Filter:
        """A filter for brokers: predicates on annotated attributes are sealed under all alternatives that the keys
        open.

        It matches whatever the filter matches on this program's view, and perhaps more: `read` decides. Forbidden:
        it names an attribute that these keys never open.
        """
        given = parse(filter) if isinstance(filter, str) else filter
        return with_leaves(given, self._sealed_leaf)

    def bind(self, filter: Filter) -> Filter:
        """A filter of the same text; sealed predicates in it are decided with the keys, where they are there."""
        return bind(filter, self.opener)

    def _sealed_leaf(self, leaf: Filter) -> Filter:
        constraint = leaf.part if isinstance(leaf, Not) else leaf
        names = _attributes(constraint.term) if isinstance(constraint, Constraint) else None
        if names is None:
            return (
                EVERYTHING  # a path or a filter object, which may look at everything: the subscriber decides
            )
        return self._leaf(leaf, self.annotations.attributes & names)

    def _leaf(self, leaf: Filter, names: frozenset[str]) -> Filter:
        if not names:
            return leaf
        if len(names) > 1:
            return EVERYTHING
        (name,) = names
        possible = self.annotations.alternatives(name)
        readable = frozenset(each for each in possible if each <= self.keyring.classes)
        if not readable:
            raise Forbidden(f"{name} is sealed, and no key opens it here")
        if readable == {PLAIN}:
            # It is about values in clear. What is sealed is absent to this program: the subscriber decides.
            return EVERYTHING if leaf.matches(Notification.of({})) else leaf
        return seal_predicate(name, leaf, readable, self.keyring, self.annotations)


def _attributes(term: object) -> frozenset[str] | None:
    """The attributes at the top of a record that a term looks at; None where that is not known."""
    match term:
        case Attribute(name) | Inspector(name):
            names = frozenset({name})
        case Position() | Length():
            names = frozenset({"tuple"})
        case Polynomial():
            names = term.names
        case _:
            return None
    return frozenset(name.partition(".")[0] for name in names)
