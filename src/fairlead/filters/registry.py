"""The registry of operators and filter classes besides the built-in ones.

A type that is added to the language is a set of operators (siena-x, sections 4 and 5). It is registered in
code (`register`), by dotted name when a broker starts (`load`), or by the entry points of installed
packages (`load_entry_points`). What comes with Fairlead is registered when the registry is first asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib import import_module
from threading import RLock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from fairlead.errors import ExtensionError
from fairlead.filters.operators import Op
from fairlead.filters.terms import RESERVED
from fairlead.model import Kind

if TYPE_CHECKING:
    from fairlead.filters.constraint import Constraint

__all__ = [
    "ENTRY_POINTS",
    "Extension",
    "ExtensionBase",
    "ExtensionType",
    "Literal",
    "Operator",
    "filter_class",
    "fingerprints",
    "load",
    "load_entry_points",
    "operator_named",
    "operators",
    "register",
    "register_filter",
    "registered_filters",
    "unregister",
]

Literal = str | bytes
"""A value to the right of an operator of an extension."""

ENTRY_POINTS: Final = "fairlead.extensions"
"""The group of entry points that installed packages list their types under."""

PRESENT: Final = frozenset(Kind) - {Kind.ABSENT}


class Operator(Protocol):
    """An operator. It may also have `overlaps` and `merge`, as `ExtensionBase` describes them."""

    @property
    def name(self) -> str:
        """The spelling in the language."""
        ...

    @property
    def kinds(self) -> frozenset[Kind]:
        """The kinds of values that it can be true of; never ABSENT."""
        ...

    def check(self, literal: Literal, /) -> None:
        """FilterError where the operator can make nothing of the literal."""
        ...

    def holds(self, value: Any, literal: Literal, /) -> bool:
        """Whether the operator is true of a value. A value that it cannot decode makes it false, not fail."""
        ...

    def covers(self, one: Constraint, other: Constraint, /) -> bool:
        """Every value that satisfies `other` satisfies `one`; True only if certain.

        Both constrain the same term, and at least one of them with an operator of this type.
        """
        ...


class ExtensionType(Protocol):
    """A type. It may also have `filters`, a mapping of names to filter classes."""

    @property
    def name(self) -> str: ...
    @property
    def operators(self) -> tuple[Operator, ...]: ...


class ExtensionBase:
    """A type with one operator: a subclass gives `name` and `holds`, and `covers` where it can.

    The constraints with `=`, `!=`, `in` and `not in` on the same term are related by asking `holds`, so
    `covers` has to decide the pairs of extended constraints only.
    """

    name: str
    kinds: frozenset[Kind] = PRESENT

    @property
    def operators(self) -> tuple[Operator, ...]:
        return (self,)

    def check(self, literal: Literal, /) -> None:
        """Every literal will do."""

    def holds(self, value: Any, literal: Literal, /) -> bool:
        raise NotImplementedError(f"{type(self).__name__} must say what it holds for")

    def covers(self, one: Constraint, other: Constraint, /) -> bool:
        """Never certain."""
        return False

    def overlaps(self, one: Constraint, other: Constraint, /) -> bool:
        """Some value satisfies both; False only if that is certainly not so."""
        return True

    def merge(self, one: Constraint, other: Constraint, /) -> Constraint | None:
        """The constraint that exactly the values satisfy that satisfy one of the two, or None."""
        return None


@dataclass(frozen=True, slots=True)
class Extension:
    """A type with several operators, or with filter classes."""

    name: str
    operators: tuple[Operator, ...] = ()
    filters: Mapping[str, type] = field(default_factory=dict)


# -- the registry --------------------------------------------------------------------------------------------

_PROVIDED: Final = (
    "fairlead.filters.extensions.bitsets:BIT_SETS",
    "fairlead.filters.extensions.unification:TERMS",
    "fairlead.filters.extensions.intersection:FILTERS",
    "fairlead.filters.extensions.classes:CLASSES",
    "fairlead.filters.extensions.comparing:COMPARISONS",
    "fairlead.filters.extensions.sealed:SEALED",
    "fairlead.filters.extensions.elements:ELEMENTS",
    "fairlead.dialects.objects:EXPRESSIONS",  # found by name: the language does not depend on the dialects
)
_TAKEN: Final = RESERVED | {word for op in Op for word in (op.value, *op.value.split())} | {"*", "+", "-"}
_OPERATOR_NAME: Final = re.compile(r"""[^\s\d"'`()\[\]{},@.][^\s"'`()\[\]{},@.]*""")
_REQUIRED: Final = ("name", "kinds", "check", "holds", "covers")


@dataclass(frozen=True, slots=True)
class _Contents:
    """One state of the registry. A change makes a new one, so that readers need no lock."""

    types: Mapping[str, ExtensionType] = field(default_factory=dict)
    operators: Mapping[str, Operator] = field(default_factory=dict)
    filters: Mapping[str, type] = field(default_factory=dict)


class _Registry:
    def __init__(self) -> None:
        self._changing = RLock()
        self._contents: _Contents | None = None
        self.generation = 0
        self.provided: frozenset[str] = frozenset()

    @property
    def contents(self) -> _Contents:
        if self._contents is None:
            with self._changing:
                if self._contents is None:
                    contents = _Contents()
                    for dotted_name in _PROVIDED:
                        contents = _with_type(contents, _fit(_resolve(dotted_name), dotted_name))
                    self.provided = frozenset(contents.types)
                    self._contents = contents
        return self._contents

    def change(self, step: Callable[[_Contents], _Contents]) -> None:
        with self._changing:
            self._contents = step(self.contents)
            self.generation += 1


_REGISTRY: Final = _Registry()


def generation() -> int:
    """The number of changes of the registry: results that were computed with an older one may not hold
    any more."""
    return _REGISTRY.generation


def register(type_: ExtensionType) -> ExtensionType:
    """Add a type with all its operators and filter classes, or, where one is unfit or its name taken,
    nothing."""
    _fit(type_, f"{type_!r}")
    _REGISTRY.change(lambda contents: _with_type(contents, type_))
    return type_


def register_filter(name: str, class_: type) -> None:
    """Add one filter class. Defining the same class anew, as in a notebook, replaces it."""
    _REGISTRY.change(lambda contents: _with_filter(contents, name, class_))


def unregister(name: str) -> None:
    """Remove a type, its operators and its filter classes."""

    def without(contents: _Contents) -> _Contents:
        if name not in contents.types:
            raise ExtensionError(f"no type {name!r} is registered", hint=_listed("types", contents.types))
        gone = contents.types[name]
        names, classes = {operator.name for operator in gone.operators}, _filters_of(gone)
        return _Contents(
            {key: each for key, each in contents.types.items() if key != name},
            {key: each for key, each in contents.operators.items() if key not in names},
            {key: each for key, each in contents.filters.items() if key not in classes},
        )

    _REGISTRY.change(without)


def operators() -> Mapping[str, Operator]:
    """All operators of extensions, by name."""
    return MappingProxyType(dict(_REGISTRY.contents.operators))


def operator_named(name: str) -> Operator:
    """The operator with this name, or ExtensionError."""
    known = _REGISTRY.contents.operators
    operator = known.get(name)
    if operator is None:
        raise ExtensionError(f"no operator {name!r} is registered", hint=_listed("operators", known))
    return operator


def registered_filters() -> Mapping[str, type]:
    """All filter classes, by name."""
    return MappingProxyType(dict(_REGISTRY.contents.filters))


def filter_class(name: str) -> type:
    """The filter class with this name, or ExtensionError."""
    known = _REGISTRY.contents.filters
    if name not in known:
        raise ExtensionError(f"no filter class {name!r} is registered", hint=_listed("filter classes", known))
    return known[name]


def load(dotted_name: str) -> ExtensionType:
    """Register the type that `package.module:NAME` or `package.module.NAME` denotes; a class is
    instantiated. Loading it again changes nothing."""
    return _register_once(_resolve(dotted_name), dotted_name)


def load_entry_points(group: str = ENTRY_POINTS) -> tuple[str, ...]:
    """Register the types that installed packages list in a group of entry points; their names, sorted."""
    from importlib.metadata import entry_points

    loaded = []
    for entry in entry_points(group=group):
        try:
            resolved = entry.load()
        except Exception as problem:
            raise ExtensionError(f"the entry point {entry.name!r} cannot be loaded: {problem}") from problem
        loaded.append(_register_once(resolved, entry.value).name)
    return tuple(sorted(loaded))


def extensions() -> dict[str, str]:
    """The registered types that are not Fairlead's own: their names, and where they come from."""
    types = _REGISTRY.contents.types
    return {
        name: _ORIGINS.get(name) or _origin(each)
        for name, each in types.items()
        if name not in _REGISTRY.provided
    }


def fingerprints() -> dict[str, str]:
    """The same types by their names, each with a hash of what it adds to the language: operators with the kinds of
    values they are about, and filter classes. It travels with links, where a mismatch is refused."""
    types = _REGISTRY.contents.types
    return {
        name: blake2b(repr(_additions(types[name])).encode(), digest_size=8).hexdigest()
        for name in sorted(extensions())
    }


def _additions(type_: ExtensionType) -> list[tuple[str, ...]]:
    added = [(each.name, *sorted(kind.value for kind in each.kinds)) for each in type_.operators]
    return sorted([*added, *((name,) for name in _filters_of(type_))])


# -- steps ---------------------------------------------------------------------------------------------------


def _with_type(contents: _Contents, type_: ExtensionType) -> _Contents:
    known = contents.types.get(type_.name)
    if known is type_:
        return contents
    if known is not None:
        raise ExtensionError(f"another type {type_.name!r} is registered", hint="unregister it first")
    added: dict[str, Operator] = {}
    for operator in type_.operators:
        if operator.name in _TAKEN:
            raise ExtensionError(f"{operator.name!r} is a word or sign of the language itself")
        if operator.name in contents.operators or operator.name in added:
            raise ExtensionError(f"another operator {operator.name!r} is registered")
        added[operator.name] = operator
    result = _Contents(
        {**contents.types, type_.name: type_}, {**contents.operators, **added}, contents.filters
    )
    for name, class_ in _filters_of(type_).items():
        result = _with_filter(result, name, class_)
    return result


def _with_filter(contents: _Contents, name: str, class_: type) -> _Contents:
    known = contents.filters.get(name)
    if not name.isidentifier():
        raise ExtensionError(f"{name!r} cannot name a filter class: it is not a plain word")
    if known is not None and _qualified(known) != _qualified(class_):
        raise ExtensionError(f"another filter class {name!r} is registered: {_qualified(known)}")
    for method in ("matches", "covers"):
        if not callable(getattr(class_, method, None)):
            raise ExtensionError(f"{_qualified(class_)} is no filter class: it has no method {method!r}")
    return _Contents(contents.types, contents.operators, {**contents.filters, name: class_})


def _qualified(class_: type) -> str:
    return f"{class_.__module__}.{class_.__qualname__}"


def _filters_of(type_: ExtensionType) -> Mapping[str, type]:
    filters: Mapping[str, type] = getattr(type_, "filters", {})
    return filters


def _resolve(dotted_name: str) -> Any:
    module_name, colon, path = dotted_name.partition(":")
    if not colon:
        module_name, _, path = dotted_name.rpartition(".")
    if not module_name or not path:
        raise ExtensionError(f"{dotted_name!r} names no type", hint="write it as package.module:NAME")
    try:
        resolved: Any = import_module(module_name)
        for step in path.split("."):
            resolved = getattr(resolved, step)
    except ImportError as problem:
        raise ExtensionError(f"{dotted_name!r} cannot be imported: {problem}") from problem
    except AttributeError as problem:
        raise ExtensionError(f"{dotted_name!r} does not exist: {problem}") from problem
    except Exception as problem:  # whatever the module does when it is imported
        raise ExtensionError(f"{dotted_name!r} fails to load: {problem!r}") from problem
    return resolved


def _register_once(resolved: Any, origin: str) -> ExtensionType:
    """Register a type; one of a class that is registered already is that one."""
    for known in _REGISTRY.contents.types.values():
        if known is resolved or type(known) is resolved:
            return known
    type_ = register(_fit(_instance(resolved, origin), origin))
    _ORIGINS[type_.name] = origin
    return type_


_ORIGINS: Final[dict[str, str]] = {}
"""The dotted names under which types were loaded, by the names of the types."""


def _origin(type_: ExtensionType) -> str:
    return f"{type(type_).__module__}:{type(type_).__qualname__}"


def _instance(resolved: Any, origin: str) -> Any:
    if not isinstance(resolved, type):
        return resolved
    try:
        return resolved()
    except TypeError as problem:
        raise ExtensionError(f"{origin!r} cannot be made without arguments: {problem}") from problem


def _fit(resolved: Any, origin: str) -> ExtensionType:
    """The type itself, if it has all that a type must have; else ExtensionError naming what it lacks."""
    name, listed = getattr(resolved, "name", None), getattr(resolved, "operators", None)
    if not isinstance(name, str) or not name or not isinstance(listed, tuple):
        raise ExtensionError(
            f"{origin} is no type: it has no 'name', or no tuple 'operators'",
            hint="derive it from fairlead.filters.extensions.ExtensionBase",
        )
    for operator in listed:
        missing = [each for each in _REQUIRED if not hasattr(operator, each)]
        if missing:
            raise ExtensionError(f"an operator of {origin} has no {missing[0]!r}")
        if not isinstance(operator.name, str) or not _OPERATOR_NAME.fullmatch(operator.name):
            raise ExtensionError(
                f"{operator.name!r} cannot name an operator",
                hint="no spaces, quotes, brackets, commas, dots or @, and no digit at the front",
            )
        if Kind.ABSENT in operator.kinds:
            raise ExtensionError(
                f"the operator {operator.name!r} claims to hold for what is absent",
                hint="a constraint on an absent attribute is false",
            )
    type_: ExtensionType = resolved
    return type_


def _listed(what: str, known: Mapping[str, object]) -> str:
    return f"the {what} are {', '.join(sorted(known))}" if known else f"there are no {what}"
