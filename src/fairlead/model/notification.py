"""The notification: identity, producer and time of an event, and the attributes that filters test.

Identity is (producer, id). The envelope (`id`, `producer`, `time`, `sequence`) is read from the attributes of
the same names, which stay attributes, so filters can ask about them.

A notification has two sides. The *content* is the record as it was published: arrays in their order and with
repeats, numbers as they were written, names as they were. Subscribers receive the content. The *attributes* are
the same record as filters read it: numbers are exact, lists of simple values are sets, names with dots are opened
up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from fairlead.errors import ValueRefused
from fairlead.model.text import WRITTEN, format_json
from fairlead.model.tree import Element, tree_of
from fairlead.model.typed import fields_from_json, fields_to_json, given_to_json
from fairlead.model.values import (
    ABSENT,
    TUPLE_MAX,
    Array,
    Instant,
    Interval,
    Kind,
    Multi,
    Point,
    Published,
    Record,
    Rectangle,
    Tuple,
    check_name,
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
        written: Mapping[str, Any] = {"tuple": given} if isinstance(given, tuple) else given
        notification = cls._made({**written})
        if (
            not notification.attributes.is_opened
            and _is_usual_envelope(written)
            and (_ITS_OWN_FORM.issuperset(map(type, written.values())) or not _is_written_otherwise(written))
        ):
            return notification
        return notification._keep(given_to_json(written))

    @classmethod
    def read(cls, record: Any) -> Notification:
        """The notification whose content is a flat JSON record, as a JSON parser gives it."""
        notification = cls._made(fields_from_json(record))
        if (
            _JSON_SCALARS.issuperset(map(type, record.values()))
            and not notification.attributes.is_opened
            and _is_usual_envelope(record)
        ):
            return notification
        return notification._keep(record)

    @classmethod
    def _made(cls, fields: dict[str, Any]) -> Notification:
        """The notification of attributes in a dictionary of its own."""
        if "tuple" in fields:
            fields["tuple"] = _tuple(fields["tuple"])
        if "time" in fields:
            fields["time"] = _instant(fields["time"])
        if "sequence" in fields and type(fields["sequence"]) is str:
            fields["sequence"] = _number(fields["sequence"])
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

    def _keep(self, record: dict[str, Any]) -> Notification:
        """This notification, which nobody else has seen, with its content."""
        self.attributes.published = Published(record)
        return self

    # -- content -------------------------------------------------------------------------------------------

    def published_as(
        self, record: dict[str, Any], *, read_as: Mapping[str, Any] | None = None
    ) -> Notification:
        """The same notification with a JSON record as its content; it is not changed any more.

        The attributes are what `read_as` reads as, if it is given: perhaps the content with something beside it.
        """
        beside = {name: each for name, each in (read_as or {}).items() if name not in record}
        is_read = read_as is not None and {**record, **beside} == read_as
        published = Published(record, is_read, beside) if is_read else Published(record, is_read_alone=False)
        return replace(self, attributes=self.attributes.published_as(published))

    def stamped(self, now: Instant) -> Notification:
        """The same with a time, which it lacks: an attribute more, behind the others."""
        return replace(self, time=now, attributes=self._with("time", now, str(now)))

    def having(self, name: str, text: str) -> Notification:
        """The same with a string under a name that it lacks, and that is not of the envelope."""
        return replace(self, attributes=self._with(name, text, text))

    def _with(self, name: str, value: Any, written: str) -> Record:
        attributes = Record({**self.attributes, name: value})
        published = self.attributes.published
        if published is not None:
            attributes.published = published._replace(record={**published.record, name: written})
        return attributes

    def marked(self, name: str, value: Any) -> Notification:
        """The same with this attribute, behind the others or in the place of one of that name."""
        attributes = Record({**self.attributes, name: value})
        published = self.attributes.published
        if published is not None:
            written = fields_to_json(Record({name: value}))
            attributes.published = published._replace(record={**published.record, **written})
        return replace(self, attributes=attributes)

    @property
    def content(self) -> dict[str, Any]:
        """The record as it was published, in typed JSON: what `json.loads` would make of what is delivered."""
        return deepcopy(self._content)

    def to_json(self) -> str:
        """The content as JSON text in one line: arrays, numbers and names as they were published."""
        return format_json(self._content)

    def written(self) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """A JSON record that reads as the attributes, and the content where that is another one; no copies."""
        published = self.attributes.published
        if published is None:
            return fields_to_json(self.attributes), None
        if published.is_read_alone:
            return (published.whole, published.record) if published.beside else (published.record, None)
        return fields_to_json(self.attributes), published.record

    @property
    def _content(self) -> dict[str, Any]:
        published = self.attributes.published
        return fields_to_json(self.attributes) if published is None else published.record

    def without(self, names: frozenset[str]) -> Notification:
        """The same without these attributes, in its content, too.

        A document is left out, since it may have the same in it. Of a record that reads otherwise than its
        attributes (under a schema, or with names of fields), the attributes are the content from then on.
        """
        if self.document is None and names.isdisjoint(self.attributes):
            return self
        kept, published = Record(_without(self.attributes, names)), self.attributes.published
        if published is not None and published.is_read_alone:
            record, beside = _without(published.record, names), _without(published.beside, names)
            kept.published = published._replace(record=record, beside=beside)
        return replace(self, attributes=kept, document=None)

    def only(self, names: frozenset[str]) -> Notification:
        """The same with these attributes alone, in its content, too; as `without` all others."""
        published = self.attributes.published
        every = [self.attributes, *(() if published is None else (published.record, published.beside))]
        if self.document is None and all(_top(name) in names for fields in every for name in fields):
            return self
        kept = Record(_only(self.attributes, names))
        if published is not None and published.is_read_alone:
            record, beside = _only(published.record, names), _only(published.beside, names)
            kept.published = published._replace(record=record, beside=beside)
        return replace(self, attributes=kept, document=None)

    # -- attributes ----------------------------------------------------------------------------------------

    def get(self, name: str, default: Any = ABSENT) -> Any:
        """The value under a dotted name, or the default, which is ABSENT unless given."""
        found = self.attributes.lookup(name)
        return default if found is ABSENT else found

    def ask(self, name: str, inspector: str) -> Any:
        """The result of `inspector()` of the object under a dotted name, or ABSENT.

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


def _without(fields: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """The fields whose names do not begin with one of these."""
    return {name: value for name, value in fields.items() if _top(name) not in names}


def _only(fields: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """The fields whose names begin with one of these."""
    return {name: value for name, value in fields.items() if _top(name) in names}


def _top(name: str) -> str:
    """The first step of a name."""
    return check_name(name).split(".")[0]


_JSON_SCALARS: Final = frozenset({type(None), bool, int, float, str})
_ITS_OWN_FORM: Final = frozenset(
    {*_JSON_SCALARS, bytes, Decimal, Instant, Multi, Array, Tuple, Record, Point, Interval, Rectangle}
)
"""The types of values whose JSON form says all that was given."""


def _is_usual_envelope(record: Mapping[str, Any]) -> bool:
    """Whether the JSON form of time and sequence is as they were given: no offset, no digits left out."""
    time = record.get("time")
    if type(time) is str:
        if len(time) not in _USUAL_LENGTHS or time[10] != "T" or time[-1] != "Z":
            return False
    elif type(time) is int:
        return False
    return "sequence" not in record or type(record["sequence"]) is not str


_USUAL_LENGTHS: Final = frozenset({len("2024-05-01T10:00:00Z"), len("2024-05-01T10:00:00.123456Z")})


def _is_written_otherwise(given: Any) -> bool:
    """Whether something in it has another JSON form once it is read: a name with dots, a number's spelling."""
    kind = type(given)
    items: Iterable[Any]
    if kind is list or kind is tuple:
        items = given
    elif kind is dict or (isinstance(given, Mapping) and kind is not Record):
        if "." in "\0".join(given):
            return True
        items = given.values()
    else:
        return kind in WRITTEN
    for item in items:  # noqa: SIM110  # a generator takes twice as long, and every nested record comes by
        if type(item) not in _ITS_OWN_FORM and _is_written_otherwise(item):
            return True
    return False


def _tuple(given: Any) -> Any:
    """The value under `tuple`: whatever lists values lists them by position; other values are as they are."""
    value = given if isinstance(given, list | tuple) else value_of(given)
    if isinstance(value, list | tuple | Multi | Array):
        value = Tuple(tuple(value_of(item) for item in value))
    if isinstance(value, Tuple) and len(value) > TUPLE_MAX:
        raise ValueRefused(f"a tuple of more than {TUPLE_MAX:,} values")
    return value


def _instant(given: Any) -> Any:
    """The value under `time`: an instant, an RFC 3339 string, or whole microseconds since 1970."""
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
    if not -(2**63) <= value.microseconds < 2**63:  # where the total order ends, and columns of 64 bits
        raise ValueRefused("the time lies outside of 64 bits of microseconds")
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


def _number(text: str) -> Any:
    """CloudEvents write a sequence as a string of digits; it is a number all the same."""
    return int(text) if _DIGITS.fullmatch(text) else text


_DIGITS: Final = re.compile(r"-?[0-9]{1,1000}", re.ASCII)


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
