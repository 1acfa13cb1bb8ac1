"""The trace: the events at the interface of an event system, in one order, the same form for every runtime.

A trace is a sequence of events; the index of an event is its number in it (book 2.5.1, where states carry the
action that is executed next). As text it is JSON lines, one object per event, with the version and the kind
first. `from` and `until` are order keys, `[time, producer, sequence, id]`.

    {"v":1,"event":"pub","order":12,"notification":{"id":"7","producer":"p","attributes":{…}}}
    {"v":1,"event":"sub","component":"ada","subscription":"s1","filter":"price > 10"}
    {"v":1,"event":"unsub","component":"ada","subscription":"s1"}
    {"v":1,"event":"adv","component":"p","advertisement":"a1","filter":"exists price"}
    {"v":1,"event":"unadv","component":"p","advertisement":"a1"}
    {"v":1,"event":"ready","component":"ada","subscription":"s1"}
    {"v":1,"event":"notify","component":"ada","producer":"p","id":"7","subscriptions":["s1"]}
    {"v":1,"event":"topology","change":"join","about":{…}}        scope, fault: likewise
    {"v":1,"event":"end"}
    {"v":3,"event":"notify","component":"ada","producer":"p","id":"7","version":"9f…","order":99,"subscriptions":["s1"]}
    {"v":3,"event":"scope","change":"graph","about":{"text":"DEFINE SCOPE …","outsiders":"default"}}
    {"v":3,"event":"scope","change":"join","about":{"text":"JOIN ada TO S","from":[5,"",null,""]}}
    {"v":2,"event":"language","about":{"schema":"…","fingerprint":"…","extensions":{"terms":"mine:Terms"}}}

**Validity.** A subscription or advertisement with `from` is valid for notifications with that order key or a
larger one, wherever they are in the trace; without, from its index on. Likewise `until`, which may be given with
the beginning or with the end; without it, an `unsub` or `unadv` ends it at its index.

**Ready.** The book allows a finite delay until a subscription takes effect. A trace makes that checkable:
`"ready":false` says that it has not taken effect yet, and a `ready` event says when it has, everywhere. From
then on notifications that match must be delivered. Without either, that is so at once.

**Language.** The schema, in full, and the extensions under which filters and notifications were read. Filters
behind it are read with that schema; a reader that names another one is refused. Without it, a trace does not say.

**Scopes.** The graph that a run starts with, as text, then its changes, one statement each. A change with `from`
holds for order keys from there on, one with `"behind":true` from right behind that key on; one without, from its
index on. A notification is judged by the graph at its own place. `version` is the tag of a version that mappings
have made, `order` the order time of the delivery where a policy has moved it.

**End.** The last event of a run at rest: all required deliveries have been made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

from fairlead.errors import FairleadError, TraceRefused, ValueRefused
from fairlead.filters.extensions import extensions
from fairlead.filters.filter import Filter
from fairlead.filters.language import parse, render
from fairlead.filters.schema import Schema
from fairlead.ingest import Rejection
from fairlead.model import Notification
from fairlead.model.encoding import format_json, notification_from_json, notification_to_json, parse_json
from fairlead.model.order import Identity, OrderKey, identity_of

__all__ = [
    "VERSION",
    "Advertised",
    "Ended",
    "Event",
    "Faulted",
    "Language",
    "Notified",
    "Published",
    "Reading",
    "Ready",
    "ScopeChanged",
    "Subscribed",
    "TopologyChanged",
    "Unadvertised",
    "Unsubscribed",
    "event_from_json",
    "event_to_json",
    "format_event",
    "read",
]

VERSION: Final = 1
LANGUAGE_VERSION: Final = 2
"""Of the one event that programs of version 1 do not know: they refuse it by its version."""
SCOPES_VERSION: Final = 3
"""Of changes of scopes, and of notifications about versions: a program that ignored these would misjudge."""


@dataclass(frozen=True, slots=True)
class Published:
    """pub(X, n): X is the notification's producer."""

    notification: Notification
    key: OrderKey

    @property
    def component(self) -> str:
        """The publisher."""
        return self.notification.producer

    @property
    def identity(self) -> Identity:
        """The identity of the notification."""
        return identity_of(self.notification)


@dataclass(frozen=True, slots=True)
class _Begun:
    """A declaration of a component, under an id, and the order keys that it holds for."""

    component: str
    id: str
    filter: Filter
    since: OrderKey | None = None
    until: OrderKey | None = None
    ready: bool = True


@dataclass(frozen=True, slots=True)
class Subscribed(_Begun):
    """sub(Y, F)."""


@dataclass(frozen=True, slots=True)
class Advertised(_Begun):
    """adv(X, F)."""


@dataclass(frozen=True, slots=True)
class Unsubscribed:
    """unsub(Y, F), at its index or at an order key."""

    component: str
    id: str
    until: OrderKey | None = None


@dataclass(frozen=True, slots=True)
class Unadvertised:
    """unadv(X, F), at its index or at an order key."""

    component: str
    id: str
    until: OrderKey | None = None


@dataclass(frozen=True, slots=True)
class Ready:
    """A subscription, or an advertisement, has taken effect everywhere."""

    component: str
    id: str
    advertisement: bool = False


@dataclass(frozen=True, slots=True)
class Notified:
    """notify(Y, n), and the ids of the subscriptions that matched."""

    component: str
    identity: Identity
    subscriptions: tuple[str, ...] = ()
    version: str = ""
    """The tag of the version, where a mapping of scopes has made it."""
    order: int | None = None
    """The order time of the delivery, where a policy of scopes has moved it."""


@dataclass(frozen=True, slots=True)
class _Changed:
    """An event beside the interface; the meaning of `about` depends on the runtime."""

    change: str
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopologyChanged(_Changed):
    """A broker, a client or a link was added or removed."""


@dataclass(frozen=True, slots=True)
class ScopeChanged(_Changed):
    """A scope was created or destroyed, joined or left (book 6.2.5)."""


@dataclass(frozen=True, slots=True)
class Faulted(_Changed):
    """A fault, deliberate or not: a crash, a loss, a late notification."""


@dataclass(frozen=True, slots=True)
class Language:
    """The language of a trace: the text of the schema, and the extensions by their names."""

    schema: str | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)
    """The origin of each type of an extension, by the type's name."""

    @classmethod
    def spoken(cls, schema: Schema | None) -> Language | None:
        """The language of this process with a schema; None if it has neither schema nor extensions."""
        found = extensions()
        return None if schema is None and not found else cls(None if schema is None else str(schema), found)

    def schema_for(self, given: Schema | None) -> Schema | None:
        """The schema to read a trace with; TraceRefused where the given one, or an extension, is another one."""
        for name, origin in extensions().items():
            if self.extensions.get(name, origin) != origin:
                raise TraceRefused(
                    f"the trace was made with the extension {self.extensions[name]} and not with {origin}, both of"
                    f" which are called {name!r}"
                )
        own = None if self.schema is None else Schema.parse(self.schema, "the trace's schema")
        if given is None or given == own:
            return own
        made = "without a schema" if own is None else f"with the schema {own.fingerprint[:8]}"
        raise TraceRefused(
            f"the trace was made {made}, and is not to be judged with {given.fingerprint[:8]}",
            hint="leave out --schema: the trace has its own",
        )

    def missing(self) -> list[str]:
        """The sources of extensions that are not loaded here."""
        return [origin for name, origin in self.extensions.items() if name not in extensions()]


@dataclass(frozen=True, slots=True)
class Ended:
    """The run is at rest: nothing is in flight."""


Event: TypeAlias = (
    Published
    | Subscribed
    | Unsubscribed
    | Advertised
    | Unadvertised
    | Ready
    | Notified
    | TopologyChanged
    | ScopeChanged
    | Faulted
    | Language
    | Ended
)


# -- writing -----------------------------------------------------------------------------------------------


def format_event(event: Event) -> str:
    """The line of an event, without its newline."""
    return format_json(event_to_json(event))


def event_to_json(event: Event) -> dict[str, Any]:
    """The JSON object of an event; ValueRefused where a notification or filter has no text form."""
    kind = _KINDS[type(event)]
    version = LANGUAGE_VERSION if isinstance(event, Language) else VERSION
    if isinstance(event, ScopeChanged) or (isinstance(event, Notified) and _is_scoped(event)):
        version = SCOPES_VERSION
    return {"v": version, "event": kind, **_WRITERS[kind](event)}


def _is_scoped(event: Notified) -> bool:
    return bool(event.version) or event.order is not None


def _write_published(event: Published) -> dict[str, Any]:
    return {"order": event.key.time, "notification": notification_to_json(event.notification)}


def _write_begun(event: _Begun) -> dict[str, Any]:
    return {
        "component": event.component,
        _noun(event): event.id,
        "filter": render(event.filter),
        **_bounds(since=event.since, until=event.until),
        **({} if event.ready else {"ready": False}),
    }


def _write_over(event: Unsubscribed | Unadvertised) -> dict[str, Any]:
    return {"component": event.component, _noun(event): event.id, **_bounds(until=event.until)}


def _write_ready(event: Ready) -> dict[str, Any]:
    return {"component": event.component, _noun(event): event.id}


def _write_notified(event: Notified) -> dict[str, Any]:
    producer, id = event.identity
    return {
        "component": event.component,
        "producer": producer,
        "id": id,
        **({"version": event.version} if event.version else {}),
        **({} if event.order is None else {"order": event.order}),
        "subscriptions": list(event.subscriptions),
    }


def _write_changed(event: _Changed) -> dict[str, Any]:
    return {"change": event.change, "about": dict(event.about)}


def _write_language(event: Language) -> dict[str, Any]:
    fingerprint = None if event.schema is None else Schema.parse(event.schema).fingerprint
    return {
        "about": {
            "schema": event.schema,
            "fingerprint": fingerprint,
            "extensions": dict(event.extensions),
        }
    }


def _noun(event: _Begun | Unsubscribed | Unadvertised | Ready) -> str:
    advertises = isinstance(event, Advertised | Unadvertised) or (
        isinstance(event, Ready) and event.advertisement
    )
    return "advertisement" if advertises else "subscription"


def _bounds(since: OrderKey | None = None, until: OrderKey | None = None) -> dict[str, Any]:
    return {
        name: [key.time, key.producer, key.sequence, key.id]
        for name, key in (("from", since), ("until", until))
        if key is not None
    }


# -- reading -----------------------------------------------------------------------------------------------


def read(
    stream: Iterable[bytes | str], source: str = "trace", schema: Schema | None = None
) -> Iterator[tuple[int, Event | Rejection]]:
    """The event of each line, or why there is none, with the line's number; blank lines are skipped.

    Where the trace says under which schema it was made, that is the one; TraceRefused if the given one is not.
    """
    reading = Reading(schema)
    for number, line in enumerate(stream, start=1):
        if line.strip():
            yield number, reading.event(partial(parse_json, line), line, source, number)


@dataclass(slots=True)
class Reading:
    """The events of a trace, one after the other, each in the language that the trace declares."""

    given: Schema | None = None
    schema: Schema | None = field(init=False)
    language: Language | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.schema = self.given

    def event(
        self, jsonable: Callable[[], Any], raw: bytes | str, source: str, number: int
    ) -> Event | Rejection:
        """The event of a JSON object, or why there is none."""
        try:
            event = event_from_json(jsonable(), self.schema)
        except FairleadError as error:
            reason = str(error)
            if self.language is not None and (missing := self.language.missing()):
                reason += f" (the trace was made with {', '.join(missing)}: --extension loads it)"
            return Rejection.of(ValueRefused(reason), raw, source=source, line=number)
        if isinstance(event, Language):
            self.language, self.schema = event, event.schema_for(self.given)
        return event


def event_from_json(jsonable: Any, schema: Schema | None = None) -> Event:
    """The event of a JSON object; ValueRefused, or the filter's error, where it is none."""
    if not isinstance(jsonable, dict):
        raise ValueRefused("an event of a trace is a JSON object")
    given = _Given(jsonable, schema)
    version = given.take("v", _is_whole)
    if version not in (VERSION, LANGUAGE_VERSION, SCOPES_VERSION):
        raise ValueRefused(f"a trace of version {version!r}: versions 1 to {SCOPES_VERSION} can be read")
    kind = given.take("event", _is_text)
    if kind not in _READERS:
        raise ValueRefused(f"an event of an unknown kind: {kind!r}", hint=f"known: {', '.join(_READERS)}")
    event = _READERS[kind](given)
    given.check_empty(kind)
    return event


class _Given:
    """The members of a JSON object: each is taken once, and checked; none is left over."""

    __slots__ = ("_members", "schema")

    def __init__(self, members: Mapping[str, Any], schema: Schema | None) -> None:
        self._members = dict(members)
        self.schema = schema

    def take(self, name: str, fits: Callable[[Any], bool], default: Any = ...) -> Any:
        value = self._members.pop(name, default)
        if value is ...:
            raise ValueRefused(f"the event has no {name!r}")
        if value is not default and not fits(value):
            raise ValueRefused(f"not a value of {name!r}: {value!r}")
        return value

    def text(self, name: str) -> str:
        found: str = self.take(name, _is_text)
        return found

    def key(self, name: str) -> OrderKey | None:
        found = self.take(name, _is_key, None)
        return None if found is None else OrderKey(*found)

    def filter(self, name: str) -> Filter:
        return parse(self.text(name), self.schema)

    def has(self, name: str) -> bool:
        return name in self._members

    def check_empty(self, kind: str) -> None:
        if self._members:
            raise ValueRefused(f"{', '.join(map(repr, self._members))}: not part of {kind!r}")


def _is_text(given: Any) -> bool:
    return isinstance(given, str)


def _is_whole(given: Any) -> bool:
    return isinstance(given, int) and not isinstance(given, bool)


def _is_flag(given: Any) -> bool:
    return isinstance(given, bool)


def _is_object(given: Any) -> bool:
    return isinstance(given, dict)


def _is_texts(given: Any) -> bool:
    return isinstance(given, list) and all(map(_is_text, given))


def _is_key(given: Any) -> bool:
    match given:
        case [time, str(), sequence, str()]:
            return _is_whole(time) and (sequence is None or _is_whole(sequence))
        case _:
            return False


def _read_published(given: _Given) -> Published:
    time = given.take("order", _is_whole)
    notification = notification_from_json(given.take("notification", _is_object))
    return Published(notification, OrderKey.of(notification, time))


def _read_subscribed(given: _Given) -> Subscribed:
    return Subscribed(given.text("component"), given.text("subscription"), **_rest(given))


def _read_advertised(given: _Given) -> Advertised:
    return Advertised(given.text("component"), given.text("advertisement"), **_rest(given))


def _rest(given: _Given) -> dict[str, Any]:
    return {
        "filter": given.filter("filter"),
        "since": given.key("from"),
        "until": given.key("until"),
        "ready": given.take("ready", _is_flag, True),
    }


def _read_unsubscribed(given: _Given) -> Unsubscribed:
    return Unsubscribed(given.text("component"), given.text("subscription"), given.key("until"))


def _read_unadvertised(given: _Given) -> Unadvertised:
    return Unadvertised(given.text("component"), given.text("advertisement"), given.key("until"))


def _read_ready(given: _Given) -> Ready:
    advertisement = given.has("advertisement")
    id = given.text("advertisement" if advertisement else "subscription")
    return Ready(given.text("component"), id, advertisement)


def _read_notified(given: _Given) -> Notified:
    identity = Identity(given.text("producer"), given.text("id"))
    return Notified(
        given.text("component"),
        identity,
        tuple(given.take("subscriptions", _is_texts, [])),
        given.take("version", _is_text, ""),
        given.take("order", _is_whole, None),
    )


def _changed(kind: Callable[[str, Mapping[str, Any]], Event]) -> Callable[[_Given], Event]:
    return lambda given: kind(given.text("change"), given.take("about", _is_object, {}))


def _read_language(given: _Given) -> Language:
    about = given.take("about", _is_object)
    match about:
        case {"schema": str() | None as text, "extensions": dict(found)} if all(
            map(_is_text, found.values())
        ):
            if text is not None and Schema.parse(text, "the trace's schema").fingerprint != about.get(
                "fingerprint"
            ):
                raise ValueRefused(
                    "the schema of the trace does not have the fingerprint that it should have"
                )
            return Language(text, found)
        case _:
            raise ValueRefused(f"not the language of a trace: {about!r:.100}")


_KINDS: Final[dict[type, str]] = {
    Published: "pub",
    Subscribed: "sub",
    Unsubscribed: "unsub",
    Advertised: "adv",
    Unadvertised: "unadv",
    Ready: "ready",
    Notified: "notify",
    TopologyChanged: "topology",
    ScopeChanged: "scope",
    Faulted: "fault",
    Language: "language",
    Ended: "end",
}

_WRITERS: Final[dict[str, Callable[[Any], dict[str, Any]]]] = {
    "pub": _write_published,
    "sub": _write_begun,
    "unsub": _write_over,
    "adv": _write_begun,
    "unadv": _write_over,
    "ready": _write_ready,
    "notify": _write_notified,
    "topology": _write_changed,
    "scope": _write_changed,
    "fault": _write_changed,
    "language": _write_language,
    "end": lambda _: {},
}

_READERS: Final[dict[str, Callable[[_Given], Event]]] = {
    "pub": _read_published,
    "sub": _read_subscribed,
    "unsub": _read_unsubscribed,
    "adv": _read_advertised,
    "unadv": _read_unadvertised,
    "ready": _read_ready,
    "notify": _read_notified,
    "topology": _changed(TopologyChanged),
    "scope": _changed(ScopeChanged),
    "fault": _changed(Faulted),
    "language": _read_language,
    "end": lambda _: Ended(),
}
