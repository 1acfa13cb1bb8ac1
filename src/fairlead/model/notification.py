"""The notification: what happened, who says so, when, and the attributes that filters look at.

Identity is (producer, id). The envelope (`id`, `producer`, `time`, `sequence`) is read from the attributes of
the same names, which stay attributes, so filters can ask about them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fairlead.errors import ValueRefused
from fairlead.model.tree import Element, tree_of
from fairlead.model.values import (
    ABSENT,
    TUPLE_MAX,
    Array,
    Instant,
    Kind,
    Multi,
    Record,
    Tuple,
    kind_of,
    number_of,
    value_of,
)

__all__ = ["Notification"]


# Asking an abstract class takes long, so the usual answer stands before it.
_GIVEN: Final = (dict, tuple, Mapping)


@dataclass(frozen=True, slots=True)
class Notification:
    """An immutable notification. `Notification.of({...})` makes one from what users write."""

    attributes: Record
    id: str | None = None
    producer: str = ""
    time: Instant | None = None
    sequence: int | None = None
    document: Element | None = None
    """The XML document it came as; a notification that came as a record has its tree made from the record."""

    @classmethod
    def of(cls, given: Mapping[str, Any] | tuple[Any, ...] | Notification) -> Notification:
        """A notification from a mapping of names to values, or from a tuple (attribute `tuple`)."""
        if isinstance(given, Notification):
            return given
        if not isinstance(given, _GIVEN):
            raise ValueRefused(
                f"not a notification: {given!r:.100}", hint="give a mapping of names to values, or a tuple"
            )
        fields: dict[str, Any] = {"tuple": given} if isinstance(given, tuple) else dict(given)
        if "tuple" in fields:
            fields["tuple"] = _tuple(fields["tuple"])
        if "time" in fields:
            fields["time"] = _instant(fields["time"])
        try:
            record = Record(fields)
        except RecursionError:
            raise ValueRefused("nested too deeply") from None
        return cls(
            attributes=record,
            id=_text(record.lookup("id")),
            producer=_text(record.lookup("producer")) or "",
            time=_when(record.lookup("time")),
            sequence=_sequence(record.lookup("sequence")),
        )

    def get(self, name: str, default: Any = ABSENT) -> Any:
        """The value under a dotted name, or the default, which is ABSENT unless given."""
        found = self.attributes.lookup(name)
        return default if found is ABSENT else found

    def ask(self, name: str, inspector: str) -> Any:
        """What the object under a dotted name answers to `inspector()`, or ABSENT.

        Only public methods without arguments are called; a class can narrow that to the names it lists in
        `__inspectors__`. An object that raises has not answered.
        """
        holder = self.attributes.lookup(name)
        if inspector.startswith("_") or kind_of(holder) is not Kind.OBJECT:
            return ABSENT
        try:
            allowed = getattr(holder, "__inspectors__", None)
            method = getattr(holder, inspector, None)
            if not callable(method) or (allowed is not None and inspector not in allowed):
                return ABSENT
            return value_of(method())
        except Exception:  # whatever an embedded object does must not stop the others' deliveries
            return ABSENT

    @property
    def tree(self) -> Element:
        """The notification as a tree of elements, which path filters select from."""
        return self.document or tree_of(self.attributes)


def _tuple(given: Any) -> Any:
    """What may stand under `tuple`: whatever lists values lists them by position; other values are as they are."""
    value = given if isinstance(given, list | tuple) else value_of(given)
    if isinstance(value, list | tuple | Multi | Array):
        value = Tuple(tuple(value_of(item) for item in value))
    if isinstance(value, Tuple) and len(value) > TUPLE_MAX:
        raise ValueRefused(f"a tuple of more than {TUPLE_MAX:,} values")
    return value


def _instant(given: Any) -> Any:
    """What may stand under `time`: an instant, an RFC 3339 string, or whole microseconds since 1970."""
    if isinstance(given, str):
        return Instant.parse(given)
    if isinstance(given, int) and not isinstance(given, bool):
        return Instant(given)
    return given


def _when(value: Any) -> Instant | None:
    if value is ABSENT or value is None:
        return None
    if not isinstance(value, Instant):
        raise ValueRefused(f"the attribute 'time' is an instant, not {value!r}")
    return value


def _text(value: Any) -> str | None:
    if value is ABSENT or value is None:
        return None
    if isinstance(value, str):
        return value
    whole = _whole(value)
    if whole is not None:
        return str(whole)
    raise ValueRefused(f"'id' and 'producer' are strings or whole numbers, not {value!r}")


def _sequence(value: Any) -> int | None:
    if value is ABSENT or value is None:
        return None
    whole = _whole(value)
    if whole is None:
        raise ValueRefused(f"'sequence' is a whole number, not {value!r}")
    return whole


def _whole(value: Any) -> int | None:
    """The integer that a number is: 20.0 is 20."""
    number = number_of(value) if kind_of(value) is Kind.NUMBER else None
    return number if isinstance(number, int) else None
