"""The model of a class: its events, its instances, its filter, and its part of a schema."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final, Generic, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

import msgspec
from msgspec import inspect as annotated

from fairlead.errors import SchemaError, ValueRefused
from fairlead.filters import And, Attribute, Constraint, Filter, Op, Schema, parse
from fairlead.model import Instant, Interval, Kind, Multi, Notification, Point, Rectangle
from fairlead.model.text import WRITTEN
from fairlead.model.typed import TAGS, decode
from fairlead.model.values import value_of

__all__ = ["Model", "schema_of"]

T = TypeVar("T")

NAMED_BY: Final = "fairlead_type"
"""The class variable that gives the type of a class another name than the class has."""

ENVELOPE: Final = frozenset({"id", "producer", "time", "sequence"})

_TEXTS: Final = (UUID, dt.date, dt.time, dt.timedelta)
"""Values that are strings in an event, as msgspec writes them; a datetime is a time."""
_OURS: Final[dict[type[Any], str]] = {
    Instant: Kind.TIME.value,
    Interval: Kind.INTERVAL.value,
    Point: Kind.POINT.value,
    Rectangle: Kind.RECTANGLE.value,
}
"""The values of this project that may be annotated, with their domains. They are dataclasses."""
_LISTED: Final = frozenset({"$set", "$array", "$tuple"})


class Model(Generic[T]):
    """The class as notifications have it: `event` of an instance, `read` of a notification.

    `type` is the value of the attribute `type`. Subclasses that are there when a model is made belong to it: its
    `filter` matches their notifications, and `read` makes instances of them.
    """

    __slots__ = ("_classes", "cls", "type")

    def __init__(self, cls: type[T]) -> None:
        _check(cls)
        self.cls = cls
        self.type = _name(cls)
        self._classes: dict[str, type[T]] = {}
        for each in _family(cls):
            _check(each)
            known = self._classes.setdefault(_name(each), each)
            if known is not each:
                raise ValueRefused(
                    f"two classes of one family are called {_name(each)!r}",
                    hint=f"give one of them another type: {NAMED_BY}: ClassVar[str] = …",
                )

    @property
    def filter(self) -> Filter:
        """The filter for instances of the class and its subclasses."""
        names = sorted(self._classes)
        if len(names) == 1:
            return Constraint(Attribute("type"), Op.EQ, names[0])
        return Constraint(Attribute("type"), Op.IN, Multi(names))

    def narrowed(self, filter: str | Filter, schema: Schema | None = None) -> Filter:
        """The part of a filter that is about instances of the class."""
        parsed = filter if isinstance(filter, Filter) else parse(filter, schema)
        return self.filter if parsed == And(()) else And((self.filter, parsed))

    def event(self, instance: T) -> dict[str, Any]:
        """The attributes of an instance: `type`, and its fields. Of an instance of another class, ValueRefused."""
        name = _name(type(instance))
        if self._classes.get(name) is not type(instance):
            raise ValueRefused(
                f"{type(instance).__name__} is no instance of {self.cls.__name__}, or of a subclass known",
                hint=f"of({type(instance).__name__}) publishes these",
            )
        return {"type": name, **_fields(instance)}

    def read(self, notification: Notification) -> T:
        """The instance that a notification describes; ValueRefused says which attribute is missing or wrong."""
        content = notification.content
        name = content.pop("type", None)
        cls = self._classes.get(name) if isinstance(name, str) else None
        if cls is None:
            raise ValueRefused(f"a notification of the type {name!r} is no {self.cls.__name__}")
        tree = {name: _untagged(each) for name, each in content.items()}
        validate = getattr(cls, "model_validate", None)
        try:
            tree = _fitted(tree, _annotations(cls))
            return validate(tree) if callable(validate) else msgspec.convert(tree, cls)
        except ValueError as error:  # msgspec's and pydantic's
            problem = str(error).replace("\n", "; ")
            raise ValueRefused(f"a notification that is no {cls.__name__}: {problem}") from None


def schema_of(*classes: type[Any]) -> Schema:
    """The schema that these classes and their subclasses declare.

    Subclasses are subtypes, abstract classes abstract types, and annotations domains. An attribute that two
    classes annotate differently may be a number where both are numbers, and anything elsewhere.
    """
    types: dict[str, list[str]] = {}
    abstract: set[str] = set()
    domains: dict[str, str] = {}
    members: dict[str, type[Any]] = {}
    for cls in dict.fromkeys(each for given in classes for each in _with_bases(given)):
        _check(cls)
        name = _name(cls)
        if members.setdefault(name, cls) is not cls:
            raise SchemaError(
                f"two classes are called {name!r}",
                hint=f"give one of them another type: {NAMED_BY}: ClassVar[str] = …",
            )
        types[name] = [_name(each) for each in cls.__bases__ if _is_model(each)]
        if inspect.isabstract(cls):
            abstract.add(name)
        for attribute, domain in _domains(cls, (cls,)):
            known = domains.setdefault(attribute, domain)
            if known != domain:
                domains[attribute] = _both(known, domain)
    return Schema(types, abstract, domains)


# -- classes -----------------------------------------------------------------------------------------------


def _is_model(cls: Any) -> bool:
    """Whether a class has fields that are told by annotations; the bases of libraries have none of their own."""
    if not isinstance(cls, type) or cls is msgspec.Struct:
        return False
    return is_dataclass(cls) or issubclass(cls, msgspec.Struct) or (_is_pydantic(cls) and bool(_own(cls)))


def _is_pydantic(cls: type[Any]) -> bool:
    return hasattr(cls, "model_validate") and hasattr(cls, "model_fields")


def _own(cls: type[Any]) -> bool:
    """Whether the class is one of the user's, and not pydantic's own base."""
    return cls.__module__.partition(".")[0] != "pydantic"


def _check(cls: type[Any]) -> None:
    """ValueRefused where a class cannot be told by its fields."""
    if not _is_model(cls):
        raise ValueRefused(
            f"{getattr(cls, '__name__', cls)!r} has no fields with annotations",
            hint="use a dataclass, a Struct of msgspec, or a model of pydantic",
        )
    if issubclass(cls, msgspec.Struct) and (cls.__struct_config__.tag or cls.__struct_config__.array_like):
        raise ValueRefused(
            f"{cls.__name__} is a Struct with a tag, or like an array",
            hint="the attribute `type` says which class it is: leave `tag` and `array_like` out",
        )
    if "type" in _annotations(cls):
        raise ValueRefused(
            f"{cls.__name__} has a field `type`, which is the name of the class in a notification",
            hint=f"rename the field; {NAMED_BY}: ClassVar[str] = … gives the type another name",
        )


def _name(cls: type[Any]) -> str:
    named = vars(cls).get(NAMED_BY, cls.__name__)
    if not isinstance(named, str):
        raise ValueRefused(f"{cls.__name__}.{NAMED_BY} is a string, not {named!r}")
    return named


def _family(cls: type[T]) -> Iterator[type[T]]:
    """The class, and all below it."""
    yield cls
    for each in cls.__subclasses__():
        yield from _family(each)


def _with_bases(cls: type[Any]) -> Iterator[type[Any]]:
    """The class, all below it, and all above that have fields."""
    for each in _family(cls):
        yield from (base for base in each.__mro__ if _is_model(base) or base is cls)


# -- instances as events -----------------------------------------------------------------------------------


def _fields(instance: Any) -> dict[str, Any]:
    """The fields of an instance under the names that they are written with."""
    if _is_pydantic(type(instance)):
        models = type(instance).model_fields
        return {each.alias or name: _plain(getattr(instance, name)) for name, each in models.items()}
    if isinstance(instance, msgspec.Struct):
        return {
            each.encode_name: _plain(getattr(instance, each.name))
            for each in msgspec.structs.fields(instance)
        }
    return {each.name: _plain(getattr(instance, each.name)) for each in fields(instance) if each.init}


def _plain(value: Any) -> Any:
    """A value of a field as the value of an attribute."""
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, _TEXTS) and not isinstance(value, dt.datetime):
        return msgspec.to_builtins(value)
    if type(value) in _OURS:
        return value
    if isinstance(value, Mapping):
        return {_key(key): _plain(each) for key, each in value.items()}
    if isinstance(value, set | frozenset):
        return {_plain(each) for each in value}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, msgspec.Struct) or is_dataclass(value) or _is_pydantic(type(value)):
        return _fields(value)
    return value


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise ValueRefused(f"the names in a record are strings, not {key!r}")
    return key


# -- events as instances -----------------------------------------------------------------------------------


def _untagged(given: Any) -> Any:
    """A typed JSON form as plain values of Python, in the order in which they were published."""
    if isinstance(given, dict):
        if len(given) == 1:
            ((tag, content),) = given.items()
            if tag in _LISTED:
                return [_untagged(each) for each in content]
            if tag == "$record":
                return {name: _untagged(each) for name, each in content.items()}
            if tag == "$time":
                return content
            if tag in TAGS:
                return decode(given)
        return {name: _untagged(each) for name, each in given.items()}
    if isinstance(given, list):
        return [_untagged(each) for each in given]
    return value_of(given) if type(given) in WRITTEN else given


def _fitted(tree: dict[str, Any], annotations: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an instance, with instants and shapes as the fields of theirs, where they are annotated."""
    return {
        name: _fit(each, annotations[name]) if name in annotations else each for name, each in tree.items()
    }


def _fit(given: Any, annotation: Any) -> Any:
    cls = getattr(annotation, "cls", None)
    if cls is Instant and isinstance(given, str):
        return {"microseconds": Instant.parse(given).microseconds}
    if cls in _OURS:
        return (
            {name: getattr(given, name) for name in cls.__dataclass_fields__} if type(given) is cls else given
        )
    if isinstance(annotation, annotated.UnionType):
        for each in annotation.types:
            if (fitted := _fit(given, each)) is not given:
                return fitted
    elif isinstance(given, dict) and cls is not None and _is_model(cls):
        return _fitted(given, _annotations(cls))
    elif isinstance(given, dict) and isinstance(annotation, annotated.DictType):
        return {name: _fit(each, annotation.value_type) for name, each in given.items()}
    elif isinstance(given, list) and (item := getattr(annotation, "item_type", None)) is not None:
        return [_fit(each, item) for each in given]
    return given


# -- annotations as domains --------------------------------------------------------------------------------


_KINDS: Final[dict[type[Any], str]] = {
    annotated.StrType: "string",
    annotated.IntType: "int",
    annotated.FloatType: "number",
    annotated.DecimalType: "number",
    annotated.BoolType: "boolean",
    annotated.DateTimeType: "time",
    annotated.DateType: "string",
    annotated.TimeType: "string",
    annotated.TimeDeltaType: "string",
    annotated.UUIDType: "string",
    annotated.BytesType: "bytes",
    annotated.ByteArrayType: "bytes",
    annotated.DictType: "record",
}
"""The domain of each kind of annotation; what is not here is told apart below, or may be anything."""
_SIMPLE: Final = frozenset({"string", "int", "number", "boolean", "time", "bytes"})


_KNOWN: Final[WeakKeyDictionary[type[Any], Mapping[str, Any]]] = WeakKeyDictionary()
"""The annotations of classes that were asked for before."""


def _annotations(cls: type[Any]) -> Mapping[str, Any]:
    """The names of a class's fields as they are written, with their annotations."""
    if (known := _KNOWN.get(cls)) is None:
        known = _KNOWN[cls] = _read_annotations(cls)
    return known


def _read_annotations(cls: type[Any]) -> Mapping[str, Any]:
    if _is_pydantic(cls):
        models: Mapping[str, Any] = cls.model_fields
        return {
            each.alias or name: annotated.type_info(_known(each.annotation)) for name, each in models.items()
        }
    try:
        declared = annotated.type_info(cls).fields  # type: ignore[attr-defined]  # a dataclass or a Struct
    except NameError as error:
        raise ValueRefused(
            f"an annotation of {cls.__name__} cannot be read: {error}",
            hint="define the classes that it names at the top of a module, and import them there",
        ) from None
    return {each.encode_name: each.type for each in declared}


def _known(annotation: Any) -> Any:
    """An annotation that msgspec reads; Any where it does not."""
    try:
        annotated.type_info(annotation)
    except Exception:  # whatever it raises about annotations of others
        return Any
    return annotation


def _domains(cls: type[Any], path: tuple[type[Any], ...], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The names of the attributes of a class, nested ones dotted, with their domains."""
    for name, annotation in _annotations(cls).items():
        domain, nested = _domain(annotation)
        if prefix or name not in ENVELOPE:  # the model of notifications says what these are
            yield prefix + name, domain
        if nested is not None and nested not in path:  # a class within itself has no end of names
            yield from _domains(nested, (*path, nested), f"{prefix}{name}.")


def _domain(annotation: Any) -> tuple[str, type[Any] | None]:
    """The domain of an annotation, and the class of what is nested there."""
    if isinstance(annotation, annotated.Metadata):
        return _domain(annotation.type)
    if isinstance(annotation, annotated.UnionType):
        parts = [each for each in annotation.types if not isinstance(each, annotated.NoneType)]
        found = [_domain(each) for each in parts]
        domain = found[0][0] if found else "any"
        for other, _ in found[1:]:
            domain = _both(domain, other)
        is_nullable = len(parts) < len(annotation.types) and domain != "any"
        return domain + ("?" if is_nullable else ""), found[0][1] if len(found) == 1 else None
    cls = getattr(annotation, "cls", None)
    if cls in _OURS:
        return _OURS[cls], None
    if cls is not None and _is_model(cls):
        return "record", cls
    if isinstance(annotation, annotated.EnumType):
        return _values_domain(each.value for each in annotation.cls), None  # an enumeration of values
    if isinstance(annotation, annotated.LiteralType):
        return _values_domain(annotation.values), None
    if isinstance(annotation, annotated.SetType | annotated.FrozenSetType):
        return _listed([annotation.item_type], "set"), None
    if isinstance(annotation, annotated.ListType | annotated.VarTupleType):
        return _listed([annotation.item_type], "array"), None
    if isinstance(annotation, annotated.TupleType):
        return _listed(annotation.item_types, "array"), None
    return _KINDS.get(type(annotation), "any"), None


def _listed(items: Iterable[Any], otherwise: str) -> str:
    """The domain of a list: of simple values it is a set, of records an array, and of both anything."""
    kinds = {_domain(each)[0] for each in items}
    if kinds and kinds <= _SIMPLE:
        return "set"
    return otherwise if kinds == {"record"} and otherwise == "array" else "any"


def _values_domain(values: Iterable[Any]) -> str:
    kinds = {_BY_VALUE.get(type(each), "any") for each in values}
    return kinds.pop() if len(kinds) == 1 else "any"


_BY_VALUE: Final[dict[type[Any], str]] = {str: "string", int: "int", bool: "boolean", float: "number"}


def _both(one: str, other: str) -> str:
    """A domain that has all of two."""
    bases = {one.removesuffix("?"), other.removesuffix("?")}
    if bases == {"int", "number"}:
        bases = {"number"}
    if len(bases) > 1 or "any" in bases:
        return "any"
    return bases.pop() + ("?" if one.endswith("?") or other.endswith("?") else "")
