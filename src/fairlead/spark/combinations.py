"""Combinations of keys of a pipeline's file that make no sense, each with its error message."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from fairlead.spark.config import Config, Events

__all__ = ["PATTERN", "PUBLISHED", "RULES", "URI", "combination_problems"]

FLAT_SINKS: Final = ("csv", "text")
"""Formats that Spark can write and that lists cannot be written to."""
NAMED_TABLES: Final = ("table", "iceberg", "postgres")
"""Sinks that are tables with a name."""
PUBLISHED: Final = ("deliveries", "composites")
"""The outputs that can be published into the network."""
PATTERN: Final = re.compile(r"[*?\[\]{}\\]")
URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def combination_problems(config: Config, unsound: Collection[str] = ()) -> Iterator[str]:
    """The broken rules, but for those about tables that are unsound."""
    for rule in RULES:
        if not any(table in unsound for table in rule.tables) and rule.broken(config):
            yield f"{rule.place}: {rule.problem}"


def _within(path: str | None, directory: str | None) -> bool:
    """Whether a path is a directory or lies in it, as far as the names tell."""
    if not path or not directory:
        return False
    return f"{path.rstrip('/')}/".startswith(f"{directory.rstrip('/')}/")


def _overlap(one: str | None, other: str | None) -> bool:
    return _within(one, other) or _within(other, one)


def _among(path: str, events: tuple[Events, ...]) -> bool:
    return any(each.path in (path, os.path.dirname(path)) for each in events)


class _Rule(NamedTuple):
    """A combination that means nothing; it is judged where the tables that it is about could be read."""

    tables: tuple[str, ...]
    place: str
    broken: Callable[[Config], bool]
    problem: str


RULES: Final = (
    _Rule(
        ("deliveries",),
        "[deliveries] table",
        lambda c: c.deliveries.format in NAMED_TABLES and c.deliveries.table is None,
        'missing: format = "table", "iceberg" and "postgres" need the name of a table',
    ),
    _Rule(
        ("deliveries",),
        "[deliveries] table",
        lambda c: c.deliveries.format not in (*NAMED_TABLES, "delta") and c.deliveries.table is not None,
        'it goes with format = "table", "delta", "iceberg" or "postgres"',
    ),
    _Rule(
        ("deliveries",),
        "[deliveries] table",
        lambda c: (
            c.deliveries.format == "delta"
            and (c.deliveries.table is None) != ("path" in c.deliveries.options)
        ),
        'Delta needs one of two: a table, or options = { path = "…" }',
    ),
    _Rule(
        ("deliveries",),
        "[deliveries] callback",
        lambda c: c.deliveries.format == "callback" and c.deliveries.callback is None,
        'missing: format = "callback" needs a function, as in callback = "module:function"',
    ),
    _Rule(
        ("deliveries",),
        "[deliveries] callback",
        lambda c: c.deliveries.format != "callback" and c.deliveries.callback is not None,
        'it goes with format = "callback"',
    ),
    _Rule(
        ("deliveries",),
        "[deliveries] format",
        lambda c: c.deliveries.format in FLAT_SINKS,
        "neither csv nor text can hold a delivery, which has a list of subscriptions; take json, or a callback "
        "that writes what you want",
    ),
    _Rule(
        ("deliveries",),
        "[deliveries] options",
        lambda c: c.deliveries.format in ("parquet", "json", "callback") and bool(c.deliveries.options),
        'they go with format = "table" and with sinks of Spark\'s',
    ),
    _Rule(
        ("deliveries",),
        "[deliveries] options",
        lambda c: (
            c.deliveries.format == "kafka"
            and not {"topic", "kafka.bootstrap.servers"} <= {*c.deliveries.options}
        ),
        'Kafka needs "kafka.bootstrap.servers" = "host:9092", and a topic',
    ),
    _Rule(
        ("deliveries",),
        "[deliveries] registry",
        lambda c: (c.deliveries.encoding == "json") != (c.deliveries.registry is None),
        'it goes with encoding = "avro" or "protobuf", and they with it',
    ),
    _Rule(
        ("deliveries",),
        "[deliveries] encoding",
        lambda c: c.deliveries.encoding != "json" and c.deliveries.format != "kafka",
        'it goes with format = "kafka"',
    ),
    _Rule(
        ("publish",),
        "[publish] what",
        lambda c: c.publish is not None and not c.publish.what,
        f"name something: {' or '.join(PUBLISHED)}",
    ),
    _Rule(
        ("publish",),
        "[publish] certificate",
        lambda c: c.publish is not None and (c.publish.certificate is None) != (c.publish.key is None),
        "a certificate is shown with its key: name both",
    ),
    _Rule(
        ("", "subscriptions"),
        "[subscriptions] watch",
        lambda c: c.mode == "batch" and c.subscriptions.watch,
        'a batch reads its subscriptions once; watch goes with mode = "stream"',
    ),
    _Rule(
        ("", "patterns"),
        "[patterns] watch",
        lambda c: c.mode == "batch" and c.patterns is not None and c.patterns.watch,
        'a batch reads its patterns once; watch goes with mode = "stream"',
    ),
    _Rule(
        ("", "order"),
        "[order] final",
        lambda c: c.mode == "batch" and not c.order.final,
        'a batch ends with its input, so it is final; to go on later, take mode = "stream"',
    ),
    _Rule(
        ("order",),
        "[order] remember",
        lambda c: c.order.remember_us < c.order.lateness_us,
        "identities are remembered for at least the lateness",
    ),
    _Rule(
        ("", "order", "stream"),
        "[order] final",
        lambda c: c.mode == "stream" and c.order.final and c.stream.trigger_us is not None,
        "a stream that watches its inputs has no end; with [stream] available = true it has one",
    ),
    _Rule(
        ("audit",),
        "[audit] trace",
        lambda c: bool(c.audit.specifications) and not c.audit.trace,
        "specifications are judged by the trace, which is not to be recorded",
    ),
    _Rule(
        ("spark",),
        "[spark] remote",
        lambda c: c.spark.master is not None and c.spark.remote is not None,
        "a Connect server has a master of its own: name one of the two",
    ),
    _Rule(
        ("",),
        "schema",
        lambda c: c.schema is not None and URI.match(c.schema) is not None,
        "a schema is a file on this machine",
    ),
    _Rule(
        ("advertisements",),
        "[advertisements] path",
        lambda c: c.advertisements is not None and URI.match(c.advertisements.path) is not None,
        "advertisements are a file on this machine",
    ),
    _Rule(
        ("",),
        "output",
        lambda c: PATTERN.search(c.output) is not None,
        "it has one of * ? [ ] { } and \\ in its path, which Spark takes for a pattern when it reads",
    ),
    _Rule(
        ("", "events"),
        "output",
        lambda c: any(_overlap(c.output, each.path) for each in c.events),
        "it overlaps with an input, which would then read what the run writes",
    ),
    _Rule(
        ("", "subscriptions"),
        "output",
        lambda c: _overlap(c.output, c.subscriptions.path),
        "it overlaps with the subscriptions",
    ),
    _Rule(
        ("", "patterns"),
        "output",
        lambda c: c.patterns is not None and _overlap(c.output, c.patterns.path),
        "it overlaps with the patterns",
    ),
    _Rule(
        ("patterns", "subscriptions"),
        "[patterns] path",
        lambda c: c.patterns is not None and _overlap(c.subscriptions.path, c.patterns.path),
        "it overlaps with the subscriptions; put it beside them",
    ),
    _Rule(
        ("events", "patterns"),
        "[patterns] path",
        lambda c: c.patterns is not None and _among(c.patterns.path, c.events),
        "it lies among the events, and would be read as such; put it beside them",
    ),
    _Rule(
        ("events", "advertisements"),
        "[advertisements] path",
        lambda c: c.advertisements is not None and _among(c.advertisements.path, c.events),
        "it lies among the events, and would be read as such; put it beside them",
    ),
    _Rule(
        ("events", "subscriptions"),
        "[subscriptions] path",
        lambda c: _among(c.subscriptions.path, c.events),
        "it lies among the events, and would be read as such; put it beside them",
    ),
)
