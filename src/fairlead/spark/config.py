"""A pipeline as a file says it: read whole, checked whole, and wrong in all its places at once.

    config = Config.read("pipeline.toml")

`KEYS` is the file format: each table with its keys, how each is read, what holds without it and what it means.
`RULES` are the combinations that mean nothing. Reading needs no Spark, so a slip of the pen is told at once.

A file that is written from a configuration (`to_json`) reads as that configuration.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from difflib import get_close_matches
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from fairlead.configuration import (
    Format,
    Key,
    Reading,
    Wrong,
    all_of,
    count,
    expected,
    flag,
    one_of,
    read_toml,
    some_of,
    suggestion,
    text,
    texts,
)
from fairlead.errors import NetworkError, PipelineError, ValueRefused
from fairlead.ingest.records import STANDARD, Fields
from fairlead.ingest.times import Times

if TYPE_CHECKING:
    from fairlead.network.addresses import Tls

__all__ = [
    "KEYS",
    "SPECIFICATIONS",
    "Audit",
    "Config",
    "Deliveries",
    "Events",
    "Order",
    "Publish",
    "SparkSettings",
    "Stream",
    "SubscriptionsSource",
    "duration_us",
    "format_duration",
]

FLAT_SINKS: Final = ("csv", "text")
"""What Spark can write and lists cannot be written to."""
SPECIFICATIONS: Final = ("simple", "advertisements", "fifo", "causal", "total", "ordered")
"""What `fairlead.audit` judges by; a test compares the two."""
EVENT_FILES: Final = ("json", "csv", "parquet", "orc", "xml", "text")
"""The formats of events that are read from a path; any other is a source of Spark's, with its own options."""
UNTYPED: Final = frozenset({"json", "csv", "xml", "text", "kafka"})
"""The formats whose records have no typed columns."""
SUBSCRIPTION_FILES: Final = ("json", "csv", "parquet")
SINKS: Final = ("parquet", "json", "table", "callback")
"""Where deliveries can go; anything else is a sink of Spark's."""
PUBLISHED: Final = ("deliveries", "composites")
"""What can be published into the network."""
ENDINGS: Final = {
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "json"),
    **dict.fromkeys((".csv", ".tsv"), "csv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    ".orc": "orc",
    ".xml": "xml",
    **dict.fromkeys((".txt", ".log"), "text"),
}
"""The format that the ending of a path says."""
PACKED: Final = (".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate")
UNITS_US: Final = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
DURATION_US_MAX: Final = 2**62
"""An order time plus a lateness still fits in 64 bits."""
BUCKETS_MAX: Final = 65_536

SECRET: Final = re.compile(r"(?i)secret|passw|passphrase|token|(access|account)[.]?key|credential|jaas")
"""Options that are nobody's business: Spark's own pattern, and where Kafka keeps passwords."""
PATTERN: Final = re.compile(r"[*?\[\]{}\\]")
URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


# -- the values --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Events:
    """An input: where notifications come from, and how they are read."""

    path: str | None
    format: str = "json"
    name: str = "input"
    lift: bool = False
    lines: bool = False
    fields: Fields = STANDARD
    select: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class SubscriptionsSource:
    """Where subscriptions, or patterns, are, and whether a stream looks for changes."""

    path: str
    format: str = "json"
    watch: bool = False
    options: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Order:
    """How long rows are waited for, and whether the end of the input ends the waiting."""

    lateness_us: int = 0
    final: bool = True


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Where deliveries go."""

    format: str = "parquet"
    buckets: int = 16
    payload: bool = True
    table: str | None = None
    callback: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Publish:
    """At which broker what becomes of notifications, and which of it."""

    url: str
    what: tuple[str, ...] = PUBLISHED
    authority: str | None = None
    certificate: str | None = None
    key: str | None = None

    @property
    def tls(self) -> Tls | None:
        """With which certificates the broker is spoken to; None where nothing is said of them."""
        from fairlead.network.addresses import Tls

        given = (self.certificate, self.key, self.authority)
        return Tls(*given) if any(given) else None


@dataclass(frozen=True, slots=True)
class Audit:
    """Whether a trace is recorded, and by what it is judged."""

    trace: bool = False
    specifications: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stream:
    """When a micro-batch begins, and how much it takes."""

    trigger_us: int | None = 1_000_000
    """None: what is there now, then end."""
    max_files: int = 100


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Which Spark runs it."""

    master: str | None = None
    remote: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)
    quiet: bool = True


def _spelled_out(events: Events) -> dict[str, Any]:
    """An input as the file says it."""
    tables = asdict(events)
    del tables["fields"]["times"]
    if form := events.fields.times.form:
        tables["fields"]["times"] = form
    return tables


@dataclass(frozen=True, slots=True)
class Config:
    """A pipeline: what comes in, who wants what, and where it goes. Paths are absolute, or URIs."""

    name: str
    output: str
    events: tuple[Events, ...]
    subscriptions: SubscriptionsSource
    mode: Literal["batch", "stream"] = "batch"
    schema: str | None = None
    extensions: tuple[str, ...] = ()
    order: Order = Order()
    deliveries: Deliveries = Deliveries()
    publish: Publish | None = None
    audit: Audit = Audit()
    stream: Stream = Stream()
    spark: SparkSettings = SparkSettings()
    rejected: Literal["keep", "fail"] = "keep"
    patterns: SubscriptionsSource | None = None
    report: bool = True

    @classmethod
    def read(cls, path: str | Path) -> Config:
        """The pipeline in a file, where relative paths begin; PipelineError names all that is wrong with it."""
        given = read_toml(
            path,
            PipelineError,
            hint='text stands in quotes, as in name = "alerts"; a path may stand in single quotes',
        )
        return cls.of(given, base=Path(path).parent, source=str(path))

    @classmethod
    def of(cls, given: Mapping[str, Any], base: str | Path | None = None, source: str = "pipeline") -> Config:
        """The pipeline of a mapping with the tables of the file; `base` is where relative paths begin."""
        reading = _Reading(Path(base or "."))
        top = reading.top(given)
        mode = top["mode"]
        order = reading.table("order", given.get("order", {}))
        audit = reading.table("audit", given.get("audit", {}))
        subscriptions = reading.source(reading.required("subscriptions", given))
        config = cls(
            name=top["name"] or Path(source).stem,
            mode=mode,
            output=reading.resolved(top["output"]) or "",
            events=reading.events(given),
            subscriptions=subscriptions,
            patterns=reading.patterns(given),
            schema=reading.resolved(top["schema"]),
            extensions=top["extensions"],
            order=Order(order["lateness"], mode == "batch" if order["final"] is None else order["final"]),
            deliveries=Deliveries(**reading.table("deliveries", given.get("deliveries", {}))),
            publish=reading.publish(given),
            audit=Audit(
                bool(audit["specifications"]) if audit["trace"] is None else audit["trace"],
                audit["specifications"],
            ),
            stream=reading.stream(given.get("stream", {})),
            spark=SparkSettings(**reading.table("spark", given.get("spark", {}))),
            rejected=top["rejected"],
            report=top["report"],
        )
        problems = reading.problems + [
            f"{rule.place}: {rule.problem}"
            for rule in RULES
            if reading.unsound.isdisjoint(rule.tables) and rule.broken(config)
        ]
        if problems:
            raise all_of(problems, source, PipelineError)
        return config

    def overridden(
        self,
        *,
        output: str | None = None,
        master: str | None = None,
        remote: str | None = None,
        quiet: bool | None = None,
    ) -> Config:
        """The same, but where it is told otherwise; of a master and a Connect address, one replaces the other."""
        spark = self.spark
        if master is not None or remote is not None:
            spark = replace(spark, master=master, remote=remote)
        if quiet is not None:
            spark = replace(spark, quiet=quiet)
        changed = replace(self, spark=spark, output=self.output if output is None else _absolute(output))
        problems = [f"{rule.place}: {rule.problem}" for rule in RULES if rule.broken(changed)]
        if problems:
            raise all_of(problems, self.name, PipelineError)
        return changed

    @property
    def watched(self) -> tuple[SubscriptionsSource, ...]:
        """Where a stream looks for changes while it runs."""
        return tuple(each for each in (self.subscriptions, self.patterns) if each is not None and each.watch)

    @property
    def fingerprint(self) -> str:
        """A hash over all that the result depends on: two runs with the same one may share an output.

        Of the schema its content counts. Where it runs, how it is cut into batches, and passwords do not.
        """
        result = self.to_json(secrets=False)
        for free in ("name", "output", "spark", "stream", "rejected", "report", "publish"):
            result.pop(free, None)
        del result["order"]["final"]  # what is committed is the same, whether or not more is to come
        result["audit"] = {"trace": self.audit.trace}
        if self.schema is not None:
            from fairlead.filters.schema import Schema

            result["schema"] = Schema.read(self.schema).fingerprint
        return blake2b(json.dumps(result, sort_keys=True).encode(), digest_size=16).hexdigest()

    def to_json(self, *, secrets: bool = True) -> dict[str, Any]:
        """The tables of the file with everything spelled out; without `secrets`, *** stands for each."""
        tables: dict[str, Any] = {
            "name": self.name,
            "mode": self.mode,
            "output": self.output,
            "schema": self.schema,
            "extensions": list(self.extensions),
            "rejected": self.rejected,
            "report": self.report,
            "events": [_spelled_out(each) for each in self.events],
            "subscriptions": asdict(self.subscriptions),
            "patterns": None if self.patterns is None else asdict(self.patterns),
            "order": {"lateness": format_duration(self.order.lateness_us), "final": self.order.final},
            "deliveries": asdict(self.deliveries),
            "publish": None if self.publish is None else asdict(self.publish),
            "audit": {"trace": self.audit.trace, "specifications": list(self.audit.specifications)},
            "stream": {
                "trigger": None
                if self.stream.trigger_us is None
                else format_duration(self.stream.trigger_us),
                "max_files": self.stream.max_files,
                "available": self.stream.trigger_us is None,
            },
            "spark": asdict(self.spark),
        }
        if not secrets:
            asked = [tables["subscriptions"], *([tables["patterns"]] if self.patterns else [])]
            for table in (*tables["events"], *asked, tables["deliveries"]):
                _hide_secrets(table["options"])
            _hide_secrets(tables["spark"]["settings"])
            if self.spark.remote is not None:  # sc://host:port/;token=… carries them behind the address
                tables["spark"]["remote"] = self.spark.remote.partition("/;")[0]
        # TOML has no null: what is not there is not given.
        return {key: _without_none(value) for key, value in tables.items() if value is not None}


# -- reading one value -------------------------------------------------------------------------------------


def _broker(given: Any) -> str:
    """The address of a broker, spelled out."""
    from fairlead.network.addresses import Address

    try:
        return str(Address.parse(text(given)))
    except NetworkError as error:
        raise Wrong(str(error).replace("\n  hint: ", "; ")) from None


def _format(*ours: str) -> Callable[[Any], str]:
    """A format of ours or of Spark's; what looks like a misspelling of ours is taken for one."""

    def read(given: Any) -> str:
        name = text(given)
        if name not in ours:
            meant = {"jsonl": "json", "ndjson": "json", "jsonlines": "json"}.get(name.lower())
            close = [meant] if meant else get_close_matches(name.lower(), ours, n=1, cutoff=0.75)
            if close or not re.fullmatch(r"[\w.$-]+", name):
                raise Wrong(
                    f"no format is named {name!r}" + (f"; did you mean {close[0]!r}?" if close else "")
                )
        return name

    return read


def _settings(given: Any) -> dict[str, str]:
    """Settings of Spark's, which are text: numbers and Booleans are written as Spark reads them."""
    if not isinstance(given, Mapping):
        raise expected('a table such as { header = "true" }', given)
    settings: dict[str, str] = {}
    for key, value in given.items():
        if isinstance(value, Mapping):
            # spark.sql.shuffle.partitions = "8" without quotes around the key is a table of tables in TOML.
            settings |= {f"{key}.{rest}": setting for rest, setting in _settings(value).items()}
        elif isinstance(value, bool):
            settings[key] = "true" if value else "false"
        elif isinstance(value, str | int | float):
            settings[key] = str(value)
        else:
            raise expected(f"a string for {key!r}", value)
    return settings


def _fields(given: Any) -> Fields:
    if not isinstance(given, Mapping):
        raise expected('a table such as { id = "event_id", time = "at" }', given)
    known = Fields.__slots__
    for key in given:
        if key not in known:
            raise Wrong(f"the envelope has no {key!r}{suggestion(key, known)} (it has {', '.join(known)})")
    try:
        said: dict[str, Any] = {key: text(value) for key, value in given.items()}
        return Fields(**said | ({"times": Times(said["times"])} if "times" in said else {}))
    except ValueRefused as error:
        raise Wrong(str(error).replace("\n  hint:", ";")) from None


def _dotted(what: str) -> Callable[[Any], str]:
    def read(given: Any) -> str:
        dotted = text(given)
        module, _, name = dotted.partition(":")
        if not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
            raise Wrong(f"{what} is named as in package.module:name, not {dotted!r}")
        return dotted

    return read


def _duration(given: Any) -> int:
    if isinstance(given, int | float) and not isinstance(given, bool):
        raise Wrong(f'a duration has a unit, as in "{given}s"; there is {", ".join(UNITS_US)}')
    try:
        return duration_us(text(given))
    except ValueError as error:
        raise Wrong(str(error)) from None


DURATION: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-zµ]+)\s*")


def duration_us(text: str) -> int:
    """The microseconds of a duration such as "10s", "1.5h" or "250 ms"; ValueError where there are none."""
    found = DURATION.fullmatch(text)
    if found is None:
        raise ValueError(
            f'a duration such as "10s" was expected, not {text!r}; there is {", ".join(UNITS_US)}'
        )
    number, unit = found.groups()
    if unit not in UNITS_US:
        raise ValueError(f"no unit is named {unit!r}; there is {', '.join(UNITS_US)}")
    exact = Decimal(number) * UNITS_US[unit]
    if exact != (whole := int(exact)):
        raise ValueError(f"{text!r} is finer than a microsecond")
    if whole > DURATION_US_MAX:
        raise ValueError(f"{text!r} is too long")
    return whole


def format_duration(us: int) -> str:
    """A duration in the largest unit that it is a whole number of."""
    if us == 0:
        return "0s"
    unit = next(unit for unit, size in reversed(UNITS_US.items()) if us % size == 0)
    return f"{us // UNITS_US[unit]}{unit}"


# -- the file format ---------------------------------------------------------------------------------------


_ASKED: Final = {
    "path": Key(text, "a file, a directory or a pattern", required=True),
    "format": Key(
        _format(*SUBSCRIPTION_FILES),
        "`json` (lines), `csv`, `parquet`, or any source that Spark knows",
        shown="by the path's ending, else `json`",
    ),
    "watch": Key(flag, "in a stream, take up changes while it runs", False),
    "options": Key(_settings, "options of Spark's reader, such as `sep` for CSV", {}, shown="none"),
}

KEYS: Final[Format] = {
    "": {
        "name": Key(text, "what the run is called", shown="the file's name"),
        "mode": Key(
            one_of("batch", "stream"),
            "`batch` takes what is there and ends; `stream` watches the inputs until it is stopped",
            "batch",
        ),
        "output": Key(text, "the directory that the run writes; nobody else does", required=True),
        "schema": Key(text, "a [schema file](model.md#schema-files): declared types and attributes"),
        "extensions": Key(
            lambda given: tuple(map(_dotted("an extension"), texts(given))),
            "[types with operators of your own](extensions.md), such as `mypackage.terms:Terms`",
            (),
        ),
        "rejected": Key(
            one_of("keep", "fail"),
            "rows that cannot be read: `keep` them in `OUTPUT/rejected` with the reason, or `fail` the run",
            "keep",
        ),
        "report": Key(flag, "write `OUTPUT/report.html` at the end of a run", True),
    },
    "events": {
        "path": Key(
            text, "a file, a directory or a pattern such as `events/*.jsonl`", shown="required for files"
        ),
        "format": Key(
            _format(*EVENT_FILES, "kafka", "log"),
            "`json` (lines), `csv`, `parquet`, `orc`, `xml`, `text`, `kafka`, `log` (a broker's), or any source "
            "that Spark knows",
            shown="by the path's ending, else `json`",
        ),
        "name": Key(
            text, "the input's name in messages and in rejected rows; several inputs have one each", "input"
        ),
        "lift": Key(flag, "lift the payload of CloudEvents to the top", False),
        "lines": Key(flag, "`xml`: every line is a document, where otherwise every file is one", False),
        "fields": Key(
            _fields,
            "what the records call `id`, `time`, `producer` and `sequence`",
            STANDARD,
            shown="the same names",
        ),
        "select": Key(
            texts,
            "typed columns: SQL expressions that make what is taken, such as `cast(price as double) price`",
            (),
            shown="all columns",
        ),
        "options": Key(_settings, "options of Spark's reader, such as `sep` for CSV", {}, shown="none"),
    },
    "subscriptions": _ASKED,
    "patterns": _ASKED,
    "order": {
        "lateness": Key(_duration, "how long after a later row an earlier one may come", 0, shown="`0s`"),
        "final": Key(
            flag,
            "the end of the input is the end: nothing is waited for any more",
            shown="`true` in batch mode",
        ),
    },
    "deliveries": {
        "format": Key(
            _format(*SINKS),
            "`parquet`, `json` (lines), `table`, `callback`, or any sink that Spark knows",
            "parquet",
        ),
        "buckets": Key(count(1, BUCKETS_MAX), "in how many parts subscribers are divided", 16),
        "payload": Key(flag, "deliver the notification's content, not its identity alone", True),
        "table": Key(text, "`table`: its name, such as `db.deliveries`"),
        "callback": Key(
            _dotted("a function"), "`callback`: the function that gets each batch, as `module:function`"
        ),
        "options": Key(
            _settings, "options of Spark's writer, for `table` and sinks of Spark's", {}, shown="none"
        ),
    },
    "publish": {
        "url": Key(_broker, "the broker, such as `fairlead://host:7400`", required=True),
        "what": Key(
            some_of(*PUBLISHED),
            "`deliveries`, and `composites`, which is what patterns with a name have found",
            PUBLISHED,
            shown="both",
        ),
        "authority": Key(text, "TLS: the file with the certificates that are trusted", shown="the system's"),
        "certificate": Key(text, "TLS: the certificate that the workers show"),
        "key": Key(text, "TLS: its key"),
    },
    "audit": {
        "trace": Key(
            flag,
            "record the run in `OUTPUT/trace`, to be audited",
            shown="`true` where something is to be judged",
        ),
        "specifications": Key(
            some_of(*SPECIFICATIONS),
            f"what to judge at the end: {', '.join(f'`{name}`' for name in SPECIFICATIONS)}",
            (),
        ),
    },
    "stream": {
        "trigger": Key(_duration, "how often a micro-batch begins", 1_000_000, shown="`1s`"),
        "max_files": Key(count(1, 1_000_000), "how many files a micro-batch takes at most", 100),
        "available": Key(flag, "take what is there now, batch by batch, then end", False),
    },
    "spark": {
        "master": Key(text, "Spark's master, such as `spark://host:7077`", shown="`local[*]`"),
        "remote": Key(text, "the address of a Spark Connect server, such as `sc://host:15002`"),
        "settings": Key(
            _settings, 'settings of Spark\'s, such as `"spark.executor.memory" = "4g"`', {}, shown="none"
        ),
        "quiet": Key(flag, "keep Spark's own messages from the terminal", True),
    },
}
"""The tables of the file; what stands above the first one is the table without a name."""


class _Rule(NamedTuple):
    """A combination that means nothing; judged only where the tables it is about could be read."""

    tables: tuple[str, ...]
    place: str
    broken: Callable[[Config], bool]
    problem: str


RULES: Final = (
    _Rule(
        ("deliveries",),
        "[deliveries] table",
        lambda c: c.deliveries.format == "table" and c.deliveries.table is None,
        'missing: format = "table" needs the name of a table',
    ),
    _Rule(
        ("deliveries",),
        "[deliveries] table",
        lambda c: c.deliveries.format != "table" and c.deliveries.table is not None,
        'it goes with format = "table"',
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
        ("events", "subscriptions"),
        "[subscriptions] path",
        lambda c: _among(c.subscriptions.path, c.events),
        "it lies among the events, and would be read as such; put it beside them",
    ),
)


# -- reading a file ----------------------------------------------------------------------------------------


class _Reading(Reading):
    """One pass over the tables of a pipeline; `base` is where relative paths begin."""

    def __init__(self, base: Path) -> None:
        super().__init__(KEYS)
        self._base = base

    def events(self, given: Mapping[str, Any]) -> tuple[Events, ...]:
        """The inputs: [events] is one, [[events]] are several, each with a name of its own."""
        inputs = given.get("events")
        if not isinstance(inputs, list | tuple):
            return (self._input(self.required("events", given), "[events]"),)
        if not inputs:
            self.wrong("events", "[[events]]", "there is no input")
        read = []
        for number, each in enumerate(inputs, start=1):
            label = f"[[events]] {number}:" if len(inputs) > 1 else "[events]"
            read.append(self._input(self.table("events", each, label), label))
            if len(inputs) > 1 and isinstance(each, Mapping) and "name" not in each:
                self.wrong("events", f"{label} name", "missing: each of several inputs has a name")
        names = [
            each.name
            for each, raw in zip(read, inputs, strict=True)
            if isinstance(raw, Mapping) and "name" in raw
        ]
        for name in sorted({name for name in names if names.count(name) > 1}):
            self.wrong("events", "[[events]] name", f"{names.count(name)} inputs are named {name!r}")
        return tuple(read)

    def _input(self, values: dict[str, Any], label: str) -> Events:
        path = values["path"]
        format = values["format"] or _format_by_ending(path or "", EVENT_FILES)
        if "events" not in self.unsound:
            if path is None and format in EVENT_FILES:
                self.wrong("events", f"{label} path", f"missing: events in {format} are read from files")
            if values["lines"] and format != "xml":
                self.wrong("events", f"{label} lines", 'it goes with format = "xml"')
            if values["select"] and format in UNTYPED:
                self.wrong("events", f"{label} select", f"it goes with typed columns, not with {format}")
            if format == "kafka":
                self._kafka(path, values["options"], label)
        return Events(**{**values, "path": self.resolved(path), "format": format})

    def _kafka(self, path: str | None, options: Mapping[str, str], label: str) -> None:
        if path is not None:
            self.wrong("events", f"{label} path", "Kafka has topics: name them in options.subscribe")
        if "kafka.bootstrap.servers" not in options:
            self.wrong("events", f"{label} options", 'Kafka needs "kafka.bootstrap.servers" = "host:9092"')
        if sum(key in options for key in ("subscribe", "subscribePattern", "assign")) != 1:
            self.wrong(
                "events", f"{label} options", "Kafka needs one of subscribe, subscribePattern and assign"
            )

    def patterns(self, given: Mapping[str, Any]) -> SubscriptionsSource | None:
        """The patterns: a pipeline need not have any."""
        if "patterns" not in given:
            return None
        return self.source(self.table("patterns", given["patterns"]))

    def publish(self, given: Mapping[str, Any]) -> Publish | None:
        """Where to publish: a pipeline need not."""
        if "publish" not in given:
            return None
        values = self.table("publish", given["publish"])
        files = {name: self.resolved(values[name]) for name in ("authority", "certificate", "key")}
        return Publish(**{**values, **files})

    def source(self, values: Mapping[str, Any]) -> SubscriptionsSource:
        """Where subscriptions or patterns are."""
        return SubscriptionsSource(
            path=self.resolved(values["path"]) or "",
            format=values["format"] or _format_by_ending(values["path"], SUBSCRIPTION_FILES),
            watch=values["watch"],
            options=values["options"],
        )

    def stream(self, given: Any) -> Stream:
        values = self.table("stream", given)
        if values["available"]:
            if "trigger" in given:
                self.wrong("stream", "[stream] trigger", "with available = true there is nothing to wait for")
            return Stream(None, values["max_files"])
        return Stream(values["trigger"], values["max_files"])

    def resolved(self, path: str | None) -> str | None:
        return None if path is None else _absolute(path, self._base)


def _absolute(path: str, base: Path = Path()) -> str:
    """A path from the root, or a URI as it is."""
    if URI.match(path):
        return path
    return str(Path(os.path.abspath(base), os.path.expanduser(path)))


def _format_by_ending(path: str | None, formats: tuple[str, ...]) -> str:
    stem = (path or "").lower()
    for packed in PACKED:
        stem = stem.removesuffix(packed)
    format = ENDINGS.get(os.path.splitext(stem)[1], "json")
    return format if format in formats else "json"


def _within(path: str | None, directory: str | None) -> bool:
    """Whether a path is a directory or lies in it, as far as the names tell."""
    if not path or not directory:
        return False
    return f"{path.rstrip('/')}/".startswith(f"{directory.rstrip('/')}/")


def _overlap(one: str | None, other: str | None) -> bool:
    return _within(one, other) or _within(other, one)


def _among(path: str, events: tuple[Events, ...]) -> bool:
    return any(each.path in (path, os.path.dirname(path)) for each in events)


def _hide_secrets(options: dict[str, str]) -> None:
    for key in options:
        if SECRET.search(key):
            options[key] = "***"


def _without_none(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_none(each) for each in value]
    if isinstance(value, dict):
        return {key: _without_none(each) for key, each in value.items() if each is not None}
    return value
