"""Filters in the languages of other systems: each is read into one of ours, exactly, or refused.

    cesql         CloudEvents SQL v1              type LIKE 'com.%' AND EXISTS subject
    eventbridge   Amazon EventBridge patterns     {"detail": {"price": [{"numeric": [">", 10]}]}}
    jms           message selectors of JMS        price > 10 AND symbol IN ('IBM', 'SAP')
    jsonpath      RFC 9535                        $.items[?@.price > 10]
    mqtt          topic filters of MQTT           sport/+/player1/#
    nats          subjects of NATS                orders.*.created
    sigma         Sigma rules                     detection: {selection: {Image|endswith: '\\cmd.exe'}, …}
    sql           WHERE of Spark SQL and DuckDB   price BETWEEN 10 AND 20 AND NOT halted

A dialect is a module of that name with two functions, and is itself callable:

    read(text) -> Filter     the filter that matches a notification iff the text does in its own system
    write(filter) -> text    a text that says the same, verified by reading it back, or a refusal

Law: a notification matches `read(text)` iff the dialect's own engine accepts it. Where the meaning of a
dialect differs from ours (three-valued logic, errors, coercion, case), the filter states the dialect's
meaning. A construct that no filter can state is a `TranslationRefused` with its name and location; nothing is
approximated.

Whatever a constraint of ours can state becomes one, so the relations between filters hold across dialects.
The rest (functions, casts, comparisons of two attributes) becomes a filter object that evaluates the
dialect's own expression: `@cesql("LENGTH(subject) > size")`. It matches exactly, and is related to others by
its text alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from fairlead.dialects.dialect import Dialect
from fairlead.errors import FilterError
from fairlead.filters.language import parse

if TYPE_CHECKING:
    from fairlead.filters import Filter, Schema

__all__ = ["NAMES", "OWN", "Dialect", "DialectName", "named", "read", "write"]

DialectName: TypeAlias = Literal[
    "fairlead", "cesql", "eventbridge", "jms", "jsonpath", "mqtt", "nats", "sigma", "sql"
]
"""The languages that a filter may be given in."""
OWN: Final = "fairlead"
"""The name of our own language, where a dialect may be named."""
NAMES: Final[tuple[str, ...]] = get_args(DialectName)[1:]
"""The dialects there are."""


def named(name: str) -> Dialect:
    """The dialect with this name, or FilterError."""
    if name not in NAMES:
        known = (OWN, *NAMES)
        near = get_close_matches(name.lower(), known, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        raise FilterError(f"no dialect is named {name!r}", hint=hint)
    dialect: Any = import_module(f"{__name__}.{name}")
    return dialect  # type: ignore[no-any-return]  # a module, whose class makes it callable


def read(name: str, text: str | Mapping[str, Any], schema: Schema | None = None) -> Filter:
    """The filter of a text in a dialect or in our own language. TranslationRefused if there is none.

    A mapping is a document of a dialect whose texts are JSON, as a table or a file may hold it.
    """
    if not isinstance(text, str):
        text = json.dumps(text, ensure_ascii=False)
    return parse(text, schema) if name == OWN else named(name).read(text)


def write(name: str, filter: Filter) -> str:
    """A text of a dialect, or of our own language, with the meaning of a filter, or TranslationRefused."""
    return str(filter) if name == OWN else named(name).write(filter)


def __getattr__(name: str) -> Any:
    """A dialect, loaded when it is first used (PEP 562)."""
    if name in NAMES:
        return named(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
