"""The file of a pipeline. It is read and checked as a whole, and all mistakes are reported at once.

    config = Config.read("pipeline.toml")

`Config` is the file format: each field is a key or a table, declared as `fairlead.configuration.keys` says.
`combinations.py` has the combinations of keys that mean nothing. Reading needs no Spark.

A file that is written from a configuration (`to_json`) reads as that configuration.
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from difflib import get_close_matches
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from fairlead.configuration import (
    NEVER,
    PATH,
    SET,
    Key,
    Kind,
    Off,
    Reading,
    Wrong,
    all_of,
    count,
    expected,
    file_of,
    made,
    one_of,
    parsed,
    read_toml,
    some_of,
    suggestion,
    text,
    texts,
    written,
)
from fairlead.dialects import OWN, DialectName
from fairlead.errors import PipelineError, ValueRefused
from fairlead.filters.schema import Schema
from fairlead.ingest.formats import HEAD_BYTES, format_of_all
from fairlead.ingest.records import STANDARD, Fields
from fairlead.ingest.times import Times
from fairlead.kafka import Encoding, Tombstones
from fairlead.model.durations import duration_of
from fairlead.model.order import REMEMBER_US
from fairlead.network.addresses import Address, Tls
from fairlead.spark.combinations import PUBLISHED, URI, combination_problems

__all__ = [
    "SPECIFICATIONS",
    "Audit",
    "Config",
    "Deliveries",
    "Events",
    "Limit",
    "Order",
    "PatternsSource",
    "Publish",
    "SparkSettings",
    "Stream",
    "SubscriptionsSource",
    "format_duration",
]

SPECIFICATIONS: Final = (
    "simple",
    "advertisements",
    "scoped",
    "stabilising",
    "fifo",
    "causal",
    "total",
    "ordered",
)
"""The specifications that `fairlead.audit` judges by; a test compares the two."""
EVENT_FILES: Final = ("json", "csv", "parquet", "orc", "xml", "text")
"""The formats of events that are read from a path; any other is a source of Spark's, with its own options."""
UNTYPED: Final = frozenset({"json", "csv", "xml", "text", "kafka"})
"""The formats whose records have no typed columns."""
SUBSCRIPTION_FILES: Final = ("json", "csv", "parquet")
SINKS: Final = ("parquet", "json", "table", "delta", "iceberg", "postgres", "kafka", "callback")
"""The sinks of deliveries; anything else is a sink of Spark's."""
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
DAY_US: Final = 86_400_000_000
LOOKED_INTO: Final = 100
"""So many files of a directory are looked into, to see what format they have."""
SEVERAL: Final = "several"
"""Stands for the format of a directory whose files have different ones, until that is reported."""

SECRET: Final = re.compile(r"(?i)secret|passw|passphrase|token|(access|account)[.]?key|credential|jaas")
"""Options that are nobody's business: Spark's own pattern, and where Kafka keeps passwords."""

# -- the values, which are the tables of the file --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Limit:
    """The share of the rows of a batch that may be rejected, or late; None where any number may."""

    max: Decimal | None = None

    def is_exceeded(self, some: int, of_all: int) -> bool:
        """Whether so many of all rows are too many."""
        return self.max is not None and some > self.max * of_all / 100


@dataclass(frozen=True, slots=True)
class Events:
    """An input: where notifications come from, and how they are read."""

    path: Annotated[
        str | None,
        Key("a file, a directory or a pattern such as `events/*.jsonl`", PATH, shown="required for files"),
    ]
    format: Annotated[
        str,
        Key(
            "`json` (lines), `csv`, `parquet`, `orc`, `xml`, `text`, `kafka`, `log` (a broker's), or any source "
            "that Spark knows",
            _format(*EVENT_FILES, "kafka", "log"),
            shown="by the path's ending, else by what the files begin with, else `json`",
        ),
    ] = "json"
    name: Annotated[
        str, Key("the input's name in messages and in rejected rows; several inputs have one each")
    ] = "input"
    lift: Annotated[bool, Key("lift the payload of CloudEvents to the top")] = False
    lines: Annotated[bool, Key("`xml`: every line is a document, where otherwise every file is one")] = False
    fields: Annotated[
        Fields,
        Key("what the records call `id`, `time`, `producer` and `sequence`", FIELDS, shown="the same names"),
    ] = STANDARD
    select: Annotated[
        tuple[str, ...],
        Key(
            "typed columns, and CSV, whose fields are strings: SQL expressions that make what is taken, such as "
            "`cast(price as double) price`",
            shown="all columns",
        ),
    ] = ()
    idle_us: Annotated[
        int | None,
        Key(
            "how far behind the newest row of all inputs this one may hold the watermark",
            DURATION,
            at="idle",
            shown="it may for ever",
            counts=SET,
        ),
    ] = None
    encoding: Annotated[
        Encoding, Key("`kafka`: values are `json`, or `avro` or `protobuf` by a registry", counts=SET)
    ] = "json"
    registry: Annotated[
        str | None, Key("`kafka`: the schema registry, such as `http://host:8081`", shown="none", counts=SET)
    ] = None
    about: Annotated[
        str | None,
        Key(
            "`kafka`: the attribute that gets the topic, partition, offset, time, key and headers of a record",
            shown="none",
            counts=SET,
        ),
    ] = None
    tombstones: Annotated[
        Tombstones,
        Key(
            "`kafka`: what becomes of records without a value: `reject`, `skip`, or `keep`, with `about` alone",
            counts=SET,
        ),
    ] = "reject"
    options: Annotated[
        Mapping[str, str], Key("options of Spark's reader, such as `sep` for CSV", SETTINGS, public=_public)
    ] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class PatternsSource:
    """The location of patterns or subscriptions, and whether a stream watches them for changes."""

    path: Annotated[str, Key("a file, a directory or a pattern", PATH)]
    format: Annotated[
        str,
        Key(
            "`json` (lines), `csv`, `parquet`, or any source that Spark knows",
            _format(*SUBSCRIPTION_FILES),
            shown="by the path's ending, else `json`",
        ),
    ] = "json"
    watch: Annotated[
        bool, Key("in a stream, take up changes while it runs: new files, or `delta`'s change feed")
    ] = False
    options: Annotated[
        Mapping[str, str], Key("options of Spark's reader, such as `sep` for CSV", SETTINGS, public=_public)
    ] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class SubscriptionsSource(PatternsSource):
    """The location of subscriptions, and the language of their filters."""

    dialect: Annotated[
        DialectName,
        Key("the [dialect](dialects.md) of filters whose rows name none in a column `dialect`", counts=SET),
    ] = OWN


@dataclass(frozen=True, slots=True)
class AdvertisementsSource:
    """The location of advertisements."""

    path: Annotated[str, Key("a file on this machine", PATH)]
    format: Annotated[
        Literal["json", "csv"], Key("`json` (lines) or `csv`", shown="by the path's ending, else `json`")
    ] = "json"


@dataclass(frozen=True, slots=True)
class ScopesSource:
    """The location of the scope graph."""

    path: Annotated[str, Key("a file in the scope graph language, or TOML or JSON of the same", PATH)]
    outsiders: Annotated[
        Literal["default", "isolated"],
        Key("components that the graph does not name: in the scope `default`, or isolated"),
    ] = "default"
    changes: Annotated[
        str | None,
        Key(
            "a directory of files with changes in the scope graph language; a stream takes up new ones",
            PATH,
            shown="none",
            counts=SET,
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class SecuritySource:
    """The location of the access policy."""

    policy: Annotated[
        str,
        Key("an [access policy](security.md): subscribers get what their roles grant to their names", PATH),
    ]
    keys: Annotated[
        str | None,
        Key(
            "the keyring, written by `fairlead keys`, that sealed predicates are decided with; each worker reads"
            " it under this path",
            PATH,
            shown="none: what may match is delivered",
        ),
    ] = None
    mask: Annotated[
        Literal["absent", "sealed"],
        Key(
            "what subscribers get in place of protected attributes that they do not read: nothing (`absent`), or,"
            " in records, the value `sealed` with the `keys` under the classes of `[sealed]` in the policy",
            one_of("absent", "sealed"),
        ),
    ] = "absent"
    audit: Annotated[bool, Key("write a table `grants`: which rule of which role let each delivery pass")] = (
        False
    )


@dataclass(frozen=True, slots=True)
class Order:
    """The lateness, and whether the end of the input releases all buffered rows."""

    lateness_us: Annotated[
        int, Key("how long after a later row an earlier one may arrive", DURATION, at="lateness")
    ] = 0
    final: Annotated[
        bool,
        # What is committed is the same, whether or not more is to come.
        Key(
            "the end of the input is the end: nothing is waited for any more",
            shown="`true` in batch mode",
            counts=NEVER,
        ),
    ] = True
    remember_us: Annotated[
        int,
        Key(
            "how long the same producer and id are known as a duplicate, in time of events behind the watermark",
            DURATION,
            at="remember",
            shown="`1h`, at least the lateness",
            counts=SET,
        ),
    ] = REMEMBER_US
    ahead_us: Annotated[
        int,
        Key(
            "how far ahead of the clock a row may be dated; one further ahead is rejected, and moves no watermark",
            DURATION,
            at="ahead",
            counts=SET,
        ),
    ] = DAY_US
    late: Annotated[
        Limit,
        Key(
            "late rows: `keep` them in `OUTPUT/late`, `fail` the run, or fail beyond a share of a batch, "
            '`{ max = "5%" }`',
            LIMIT,
            counts=NEVER,
        ),
    ] = Limit()


@dataclass(frozen=True, slots=True)
class Deliveries:
    """The sink of deliveries."""

    format: Annotated[
        str,
        Key(
            "`parquet`, `json` (lines), `table`, `delta`, `iceberg`, `postgres`, `kafka`, `callback`, or any sink "
            "that Spark knows",
            _format(*SINKS),
        ),
    ] = "parquet"
    buckets: Annotated[int, Key("in how many parts subscribers are divided", count(1, BUCKETS_MAX))] = 16
    payload: Annotated[bool, Key("deliver the notification's content, not its identity alone")] = True
    table: Annotated[
        str | None, Key("`table`, `delta`, `iceberg`, `postgres`: its name, such as `db.deliveries`")
    ] = None
    callback: Annotated[
        str | None,
        Key("`callback`: the function that gets each batch, as `module:function`", _dotted("a function")),
    ] = None
    options: Annotated[
        Mapping[str, str],
        Key(
            "options of Spark's writer, for tables and sinks of Spark's; `kafka`: `topic`, and settings of the "
            "client behind `kafka.`; `postgres`: those of libpq, such as `host` and `dbname`",
            SETTINGS,
            public=_public,
        ),
    ] = field(default_factory=dict, hash=False)
    encoding: Annotated[
        Encoding, Key("`kafka`: values are `json`, or `avro` or `protobuf` by a registry", counts=SET)
    ] = "json"
    registry: Annotated[
        str | None, Key("`kafka`: the schema registry, such as `http://host:8081`", shown="none", counts=SET)
    ] = None


@dataclass(frozen=True, slots=True)
class Publish:
    """The broker to publish at, and what is published."""

    url: Annotated[
        str, Key("the broker, such as `fairlead://host:7400`", parsed(lambda url: str(Address.parse(url))))
    ]
    what: Annotated[
        tuple[str, ...],
        Key(
            "`deliveries`, and `composites`: those of patterns with a name",
            some_of(*PUBLISHED),
            shown="both",
        ),
    ] = PUBLISHED
    authority: Annotated[
        str | None, Key("TLS: the file with the certificates that are trusted", PATH, shown="the system's")
    ] = None
    certificate: Annotated[str | None, Key("TLS: the certificate that the workers show", PATH)] = None
    key: Annotated[str | None, Key("TLS: its key", PATH)] = None

    @property
    def tls(self) -> Tls | None:
        """The certificates for the connection to the broker; None if the file has none."""
        given = (self.certificate, self.key, self.authority)
        return Tls(*given) if any(given) else None


@dataclass(frozen=True, slots=True)
class Audit:
    """Whether a trace is recorded, and by what it is judged."""

    trace: Annotated[
        bool,
        Key(
            "record the run in `OUTPUT/trace`, to be audited", shown="`true` where something is to be judged"
        ),
    ] = False
    specifications: Annotated[
        tuple[str, ...],
        Key(
            f"what to judge at the end: {', '.join(f'`{name}`' for name in SPECIFICATIONS)}",
            some_of(*SPECIFICATIONS),
            counts=NEVER,
        ),
    ] = ()


@dataclass(frozen=True, slots=True)
class Stream:
    """When a micro-batch begins, and how much it takes."""

    trigger_us: Annotated[
        int | None,
        Key("how often a micro-batch begins", DURATION, at="trigger"),
        Off("available", "take what is there now, batch by batch, then end"),
    ] = 1_000_000
    max_files: Annotated[int, Key("how many files a micro-batch takes at most", count(1, 1_000_000))] = 100


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """The settings of Spark."""

    master: Annotated[str | None, Key("Spark's master, such as `spark://host:7077`", shown="`local[*]`")] = (
        None
    )
    remote: Annotated[
        str | None,
        Key(
            "the address of a Spark Connect server, such as `sc://host:15002`",
            public=lambda remote: remote.partition("/;")[0],  # behind it: ;token=…
        ),
    ] = None
    settings: Annotated[
        Mapping[str, str],
        Key('settings of Spark\'s, such as `"spark.executor.memory" = "4g"`', SETTINGS, public=_public),
    ] = field(default_factory=dict, hash=False)
    quiet: Annotated[bool, Key("keep Spark's own messages from the terminal")] = True


@dataclass(frozen=True, slots=True)
class Config:
    """A pipeline: its inputs, subscriptions, patterns and sinks. Paths are absolute, or URIs."""

    name: Annotated[str, Key("what the run is called", shown="the file's name", counts=NEVER)]
    output: Annotated[str, Key("the directory that the run writes; nobody else does", PATH, counts=NEVER)]
    events: tuple[Events, ...]
    subscriptions: SubscriptionsSource
    mode: Annotated[
        Literal["batch", "stream"],
        Key("`batch` takes what is there and ends; `stream` watches the inputs until it is stopped"),
    ] = "batch"
    schema: Annotated[
        str | None, Key("a [schema file](model.md#schema-files): declared types and attributes", PATH)
    ] = None
    extensions: Annotated[
        tuple[str, ...],
        Key(
            "[types with operators of your own](extensions.md), such as `mypackage.terms:Terms`",
            lambda given: tuple(map(_dotted("an extension"), texts(given))),
        ),
    ] = ()
    order: Order = Order()
    deliveries: Deliveries = Deliveries()
    publish: Annotated[Publish | None, Key("where results are published", counts=NEVER)] = None
    audit: Audit = Audit()
    stream: Annotated[Stream, Key("how a stream is cut into batches", counts=NEVER)] = Stream()
    spark: Annotated[SparkSettings, Key("where it runs", counts=NEVER)] = SparkSettings()
    rejected: Annotated[
        Limit,
        Key(
            "rows that cannot be read: `keep` them in `OUTPUT/rejected` with the reason, `fail` the run, or fail "
            'beyond a share of a batch, `{ max = "5%" }`',
            LIMIT,
            counts=NEVER,
        ),
    ] = Limit()
    patterns: PatternsSource | None = None
    scopes: ScopesSource | None = None
    advertisements: AdvertisementsSource | None = None
    security: SecuritySource | None = None
    report: Annotated[bool, Key("write `OUTPUT/report.html` at the end of a run", counts=NEVER)] = True

    @classmethod
    def read(cls, path: str | Path) -> Config:
        """The pipeline in a file, where relative paths begin; PipelineError names all that is wrong with it."""
        given = read_toml(
            path,
            PipelineError,
            hint='text is written in quotes, as in name = "alerts"; a path may be in single quotes',
        )
        return cls.of(given, base=Path(path).parent, source=str(path), file=path)

    @classmethod
    def of(
        cls,
        given: Mapping[str, Any],
        base: str | Path | None = None,
        source: str = "pipeline",
        file: str | Path | None = None,
    ) -> Config:
        """The pipeline of a mapping with the tables of the file; `base` is where relative paths begin.

        Of a `file`, errors have the lines.
        """
        start = Path(base or ".")
        reading = Reading(file_of(cls), lambda path: _absolute(path, start))
        tables = reading.tables(given)
        config = _complete(cls(**made(cls, tables)), tables, source)
        problems = [*_problems_of_inputs(config, given, tables, reading.unsound)]
        reading.unsound.update({"events"} if problems else ())
        problems += combination_problems(config, reading.unsound)
        reading.check(source, PipelineError, problems, file)
        return config

    def overridden(
        self,
        *,
        output: str | None = None,
        master: str | None = None,
        remote: str | None = None,
        quiet: bool | None = None,
    ) -> Config:
        """The configuration with these values; of a master and a Connect address, one replaces the other."""
        spark = self.spark
        if master is not None or remote is not None:
            spark = replace(spark, master=master, remote=remote)
        if quiet is not None:
            spark = replace(spark, quiet=quiet)
        changed = replace(self, spark=spark, output=self.output if output is None else _absolute(output))
        if problems := [*combination_problems(changed)]:
            raise all_of(problems, self.name, PipelineError)
        return changed

    @property
    def watched(self) -> tuple[str, ...]:
        """The directories and tables in which a stream looks for changes while it runs."""
        sources = (self.subscriptions, self.patterns)
        found = [each.path for each in sources if each is not None and each.watch]
        if self.scopes is not None and self.scopes.changes is not None:
            found.append(self.scopes.changes)
        return tuple(found)

    @property
    def audits_grants(self) -> bool:
        """Whether a table says which rule of the access policy let each delivery pass."""
        return self.security is not None and self.security.audit

    @property
    def idle_us(self) -> dict[str, int]:
        """The longest time that inputs which may be idle hold back the watermark."""
        return {each.name: each.idle_us for each in self.events if each.idle_us is not None}

    @property
    def fingerprint(self) -> str:
        """A hash over all that the result depends on: two runs with the same one may share an output.

        Of the schema, the scope graph, the advertisements and the access policy the content counts. Where it runs,
        how it is cut into batches, and passwords do not.
        """
        result = _without_none(written(self, public=True, counting=True))
        if self.schema is not None:
            result["schema"] = Schema.read(self.schema).fingerprint
        if self.scopes is not None:
            result["scopes"] = [self.scopes.outsiders, Path(self.scopes.path).read_text("utf-8")]
        if self.advertisements is not None:
            result["advertisements"] = Path(self.advertisements.path).read_text("utf-8")
        if self.security is not None:
            policy = Path(self.security.policy).read_text("utf-8")
            # Whether there are keys counts, and not which: more of them may come.
            more: list[Any] = [self.security.keys is not None, self.security.audit]
            more += ["sealed"] if self.security.mask == "sealed" else []
            result["security"] = [policy, *more] if any(more) else policy
        return blake2b(json.dumps(result, sort_keys=True).encode(), digest_size=16).hexdigest()

    def to_json(self, *, secrets: bool = True) -> dict[str, Any]:
        """The tables of the file with all defaults; without `secrets`, each secret is ***."""
        tables: dict[str, Any] = _without_none(written(self, public=not secrets))
        return tables


# -- reading one value -------------------------------------------------------------------------------------


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


def _fields_written(fields: Fields) -> dict[str, str]:
    names: dict[str, Any] = asdict(fields)
    del names["times"]
    return names | ({"times": fields.times.form} if fields.times.form else {})


FIELDS: Final = Kind(_fields, _fields_written)
SETTINGS: Final = Kind(_settings)


def _public(options: Mapping[str, str]) -> dict[str, str]:
    """Options without what is secret in them."""
    return {key: "***" if SECRET.search(key) else value for key, value in options.items()}


def microseconds(text: str) -> int:
    if (us := duration_of(text)) > DURATION_US_MAX:
        raise PipelineError(f"{text!r} is too long")
    return us


def format_duration(us: int) -> str:
    """A duration in the largest unit that it is a whole number of."""
    if us == 0:
        return "0s"
    unit = next(unit for unit, size in reversed(UNITS_US.items()) if us % size == 0)
    return f"{us // UNITS_US[unit]}{unit}"


def _limit(given: Any) -> Limit:
    if given in ("keep", "fail"):
        return Limit(None if given == "keep" else Decimal(0))
    share = given.get("max") if isinstance(given, Mapping) and len(given) == 1 else None
    found = SHARE.fullmatch(share) if isinstance(share, str) else None
    if found is None or Decimal(found[1]) > 100:
        raise expected('"keep", "fail" or a share as in { max = "5%" }', given)
    return Limit(Decimal(found[1]))


def _limit_written(limit: Limit) -> str | dict[str, str]:
    if not limit.max:
        return "keep" if limit.max is None else "fail"
    return {"max": f"{limit.max}%"}


SHARE: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*")
LIMIT: Final = Kind(_limit, _limit_written)
DURATION: Final = Kind(parsed(microseconds, 'a duration with its unit, such as "10s",'), format_duration)


# -- what depends on other keys ------------------------------------------------------------------------------


def _complete(config: Config, tables: Mapping[str, Any], source: str) -> Config:
    """The configuration with the defaults that depend on what is given."""

    def is_given(table: str, key: str) -> bool:
        return key in tables.get(table, {})

    def with_format(table: str, formats: tuple[str, ...] = SUBSCRIPTION_FILES) -> Any:
        source = getattr(config, table)
        if source is None or is_given(table, "format"):
            return source
        return replace(source, format=_format_by_ending(source.path, formats) or "json")

    events = zip(config.events or (), tables.get("events", ()), strict=True)
    order, audit = config.order, config.audit
    if not is_given("order", "final"):
        order = replace(order, final=config.mode == "batch")
    if not is_given("order", "remember"):
        order = replace(order, remember_us=max(order.lateness_us, REMEMBER_US))
    return replace(
        config,
        name=config.name or Path(source).stem,
        events=tuple(
            each if "format" in given else replace(each, format=_format_of(each.path))
            for each, given in events
        ),
        subscriptions=with_format("subscriptions"),
        patterns=with_format("patterns"),
        advertisements=with_format("advertisements", ("json", "csv")),
        order=order,
        audit=audit if is_given("audit", "trace") else replace(audit, trace=bool(audit.specifications)),
    )


def _problems_of_inputs(
    config: Config, given: Mapping[str, Any], tables: Mapping[str, Any], unsound: Collection[str]
) -> Iterator[str]:
    """The problems of inputs that can be read: names, and keys that do not go with the format."""
    listed = isinstance(given.get("events"), list | tuple)
    inputs = given["events"] if listed else []
    named = [each for each in tables.get("events", ()) if "name" in each]
    for number, (each, said) in enumerate(zip(config.events, tables.get("events", ()), strict=True), start=1):
        label = f"[[events]] {number}:" if listed else "[events]"
        if len(config.events) > 1 and "name" not in said and isinstance(inputs[number - 1], Mapping):
            yield f"{label} name: missing: each of several inputs has a name"
        if "events" in unsound:
            continue
        if each.format == SEVERAL:
            yield f"{label} format: {_format_problem(each.path)}"
        if each.path is None and each.format in EVENT_FILES:
            yield f"{label} path: missing: events in {each.format} are read from files"
        if each.lines and each.format != "xml":
            yield f'{label} lines: it goes with format = "xml"'
        if each.select and each.format in UNTYPED - {"csv"}:
            yield f"{label} select: it goes with typed columns and CSV, not with {each.format}"
        if each.format == "kafka":
            yield from _problems_of_kafka(each, label)
        elif (each.encoding, each.registry, each.about, each.tombstones) != ("json", None, None, "reject"):
            yield f'{label} encoding, registry, about and tombstones go with format = "kafka"'
    for name, times in Counter(each["name"] for each in named).items():
        if times > 1:
            yield f"[[events]] name: {times} inputs are named {name!r}"


def _problems_of_kafka(each: Events, label: str) -> Iterator[str]:
    if each.path is not None:
        yield f"{label} path: Kafka has topics: name them in options.subscribe"
    if "kafka.bootstrap.servers" not in each.options:
        yield f'{label} options: Kafka needs "kafka.bootstrap.servers" = "host:9092"'
    if sum(key in each.options for key in ("subscribe", "subscribePattern", "assign")) != 1:
        yield f"{label} options: Kafka needs one of subscribe, subscribePattern and assign"
    if (each.encoding == "json") != (each.registry is None):
        yield f'{label} registry: it goes with encoding = "avro" or "protobuf", and they with it'
    if each.tombstones == "keep" and each.about is None:
        yield f"{label} tombstones: to keep them, `about` names the attribute that has their key"


def _absolute(path: str, base: Path = Path()) -> str:
    """A path from the root, or a URI as it is."""
    if URI.match(path):
        return path
    return str(Path(os.path.abspath(base), os.path.expanduser(path)))


def _format_by_ending(path: str | None, formats: tuple[str, ...]) -> str | None:
    stem = (path or "").lower()
    for packed in PACKED:
        stem = stem.removesuffix(packed)
    format = ENDINGS.get(os.path.splitext(stem)[1])
    return format if format in formats else None


def _format_of(path: str | None) -> str:
    """The format of events where the file names none: by the path's ending, else by what is there."""
    by_ending = _format_by_ending(path, EVENT_FILES)
    if path is None or by_ending is not None or URI.match(path):
        return by_ending or "json"
    try:
        return format_of_all(_heads(path)) or "json"
    except ValueRefused:
        return SEVERAL


def _format_problem(path: str | None) -> str:
    """Why a directory has no format of its own."""
    try:
        format_of_all(_heads(path or ""))
    except ValueRefused as error:
        return str(error).replace("\n  hint: ", "; ")
    return "files of different formats"


def _heads(path: str) -> Iterator[tuple[str, bytes]]:
    """The first files of a local directory, or of a pattern, with what they begin with."""
    found = glob.iglob(os.path.join(path, "**", "*") if os.path.isdir(path) else path, recursive=True)
    for file in islice(filter(os.path.isfile, found), LOOKED_INTO):
        with suppress(OSError), open(file, "rb") as stream:
            yield file, stream.read(HEAD_BYTES)


def _without_none(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_none(each) for each in value]
    if isinstance(value, dict):
        return {key: _without_none(each) for key, each in value.items() if each is not None}
    return value
