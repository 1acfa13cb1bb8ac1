"""Running a pipeline: once over what there is, or on and on, to be stopped and started again.

    summary = Pipeline.read("pipeline.toml").run()

A run goes on where an earlier one on the same output was stopped or killed; where that had finished, there is
nothing to do.
"""

from __future__ import annotations

import platform
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timedelta
from functools import reduce
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import functions as F

from fairlead.audit.specifications import audit as plain_audit
from fairlead.errors import PipelineError
from fairlead.ingest.times import suspected_unit
from fairlead.matching.columnar.loading import Kernels
from fairlead.model import Instant
from fairlead.model.order import BEGINNING
from fairlead.security.annotations import Annotations
from fairlead.security.settings import sealer_of
from fairlead.spark import clear, sources, trace
from fairlead.spark.access import Gate, policy_of
from fairlead.spark.advertising import Advertised, advertised_of
from fairlead.spark.asking import check_ids, read_patterns, read_subscriptions, schema_of, table_of
from fairlead.spark.auditing import audit
from fairlead.spark.batch import Progress
from fairlead.spark.config import Config, PatternsSource, format_duration
from fairlead.spark.delivery import FILES, attributes_in, callback_named, check_format, check_table
from fairlead.spark.failures import reason
from fairlead.spark.frames import ATTRIBUTES, DELIVERY, RECORD, VERSION, few_rows
from fairlead.spark.kafka import SINK, check_kafka
from fairlead.spark.matcher import MEMORY
from fairlead.spark.output import Counts, Manifest, Output
from fairlead.spark.patterns import Patterns
from fairlead.spark.pipeline import Step, given, ingested, input_of
from fairlead.spark.postgres import SINK as POSTGRES
from fairlead.spark.postgres import check_postgres
from fairlead.spark.publishing import check_broker
from fairlead.spark.report import Facts, Judged, ReportData, gather, render
from fairlead.spark.report.data import VIOLATIONS_SHOWN
from fairlead.spark.scoping import scopes_of
from fairlead.spark.sessions import is_remote, session
from fairlead.spark.storage import is_at_hand
from fairlead.spark.subscriptions import Changed, Subscriptions
from fairlead.spark.summary import Batch, Summary, Totals
from fairlead.spark.tables import TABLES
from fairlead.spark.watching import NOTE, Samples, batch_of, proved, report_note, watermark_after
from fairlead.spark.writing import check_owner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Pipeline"]

POLL_S: Final = 0.1
"""The interval at which a stream is asked how it is."""
REPORT: Final = "report.html"
VERDICTS: Final = "verdicts"
SAMPLED_MAX: Final = 1_000
"""Of the rejected rows of so many batches samples are taken."""
NOBODY: Final = pa.schema([("subscriber", pa.string()), ("subscriptions", pa.list_(pa.string()))])
SUBSCRIPTION_SCHEMA: Final = pa.schema([(name, pa.string()) for name in ("id", "subscriber", "filter")])
STOPPED: Final = "the run was stopped before this batch"
OnBatch = Callable[[Batch], object]


class Pipeline:
    """A pipeline that can be run. `spark` is the session to use; without it one is made as configured."""

    def __init__(self, config: Config, spark: SparkSession | None = None) -> None:
        self.config: Final = config
        self._spark = spark
        self._stopping = threading.Event()
        self._progress = Progress()
        self._doing = ""

    @classmethod
    def read(cls, path: str | Path, spark: SparkSession | None = None) -> Pipeline:
        """The pipeline in a file."""
        return cls(Config.read(path), spark)

    @property
    def spark(self) -> SparkSession:
        """The session that it runs in."""
        if self._spark is None:
            wanted = self.config.spark
            name = f"fairlead: {self.config.name}"
            self._doing = "starting Spark"
            if (
                wanted.remote is None
            ):  # beside Spark, which takes as long: where they are new, they are compiled
                Kernels().load()
            self._spark = session(
                wanted.master, wanted.remote, name, quiet=wanted.quiet, settings=wanted.settings
            )
        return self._spark

    @property
    def output(self) -> Output:
        """The output of the pipeline, batch by batch."""
        return Output(self.config.output)

    @property
    def at(self) -> str:
        """The current batch and its stage, as far as this process knows."""
        standing = self._progress.standing
        return self._doing if standing is None else standing.describe(time.monotonic())

    def stop(self) -> None:
        """End the run at the next boundary between batches; from any thread, or from a signal's handler."""
        self._stopping.set()

    # -- before it runs ------------------------------------------------------------------------------------

    def plan(self) -> list[str]:
        """Check all that can be checked without running; in words, what a run would do."""
        with _in_one_message():
            standing = self._standing()
            inputs = [f"ingest      {line}" for line in self._inputs()]
            self._check_sink()
            if self.config.deliveries.format == "table" and self.config.deliveries.table is not None:
                self._check_table(self.config.deliveries.table)
            gate = self._gate()
            count, asked = self._count_subscriptions(gate)
            advertised = advertised_of(self.config, schema_of(self.config))
        config, sink = self.config, self.config.deliveries
        end = "buffered rows are released" if config.order.final else "buffered rows wait for more"
        place = f"{config.output}/deliveries" if sink.format in FILES else sink.options.get("path")
        if sink.format == SINK:
            place = f"{sink.options['topic']} at {sink.options['kafka.bootstrap.servers']}, in transactions"
        if sink.format in (*TABLES, POSTGRES):
            place = f"{sink.table or place}, in transactions"
        target = place or sink.table or sink.callback or "where its options say"
        judged = ", ".join(config.audit.specifications) or "nothing"
        published = "" if config.publish is None else " and ".join(config.publish.what)
        return [
            f"pipeline    {config.name}, {config.mode}",
            *inputs,
            *([] if advertised is None else [self._shown(advertised)]),
            f"order       lateness {format_duration(config.order.lateness_us)}; at the end {end}",
            *([] if gate is None else [self._guarded(gate)]),
            *asked,
            f"match       {count:,} subscriptions from {config.subscriptions.path}"
            + (", watched for changes" if config.subscriptions.watch else ""),
            f"deliver     {sink.format} to {target}, {sink.buckets} buckets"
            + (", with the content" if sink.payload else ""),
            *([] if config.publish is None else [f"publish     {published} at {config.publish.url}"]),
            f"audit       {judged}; {'with' if config.audit.trace else 'without'} a trace",
            f"output      {config.output}: {standing}",
        ]

    def _shown(self, advertised: Advertised) -> str:
        assert self.config.advertisements is not None
        count, producers = len(advertised.filters), len(advertised.producers)
        return (
            f"advertise   {count:,} filters of {producers:,} producers from {self.config.advertisements.path}"
        )

    def _gate(self) -> Gate | None:
        """The access policy, if there is one. PipelineError, PolicyError or KeyringError if something is wrong."""
        policy = policy_of(self.config, schema_of(self.config))
        if policy is not None:
            self._keys()
        return None if policy is None else Gate(policy, schema_of(self.config))

    def _keys(self) -> str:
        """The keys that sealed predicates are decided with, without their secrets."""
        security = self.config.security
        if security is None or security.keys is None:
            return ""
        keyring = sealer_of(Annotations(), security.keys, {}).keyring
        return f", with the keys {', '.join(f'{name}:{number}' for name, number in keyring) or 'of an empty file'}"

    def _guarded(self, gate: Gate) -> str:
        assert self.config.security is not None
        outcomes = Counter(each["outcome"] for each in gate.lines)
        told = ", ".join(f"{outcomes[each]:,} {each}" for each in ("granted", "narrowed", "refused"))
        return f"secure      {told} by {self.config.security.policy}{self._keys()}"

    def _standing(self) -> str:
        if not self.output.check(self.config.fingerprint):
            return "new"
        last = self.output.last()
        if last is None:
            return "begun, no batch committed"
        return "finished, nothing to do" if self._is_finished(last) else f"goes on behind batch {last.batch}"

    def _is_finished(self, last: Manifest) -> bool:
        return last.final or self.config.mode == "batch"

    def _check_sink(self) -> None:
        """Check what can be checked about a sink before there are deliveries."""
        sink = self.config.deliveries
        if sink.callback is not None:
            callback_named(sink.callback)
        elif sink.format == SINK:
            check_kafka(sink)
        elif sink.format == POSTGRES:
            check_postgres(sink)
        elif sink.format not in (*FILES, "table"):
            check_format(self.spark, sink.format)
        # Over Connect it is others who publish, and these may see another network.
        if (to := self.config.publish) is not None and self.config.spark.remote is None:
            check_broker(to.url, to.tls)

    def _read_ahead(self) -> Changed | None:
        """Read what is asked for before a stream begins: its first batch may be long in coming.

        The batch takes over the subscriptions that were read here, unless they are watched: then it has a plan; or
        there is an access policy, whose decisions are the batch's.
        """
        config, schema = self.config, schema_of(self.config)
        read = read_subscriptions(config, self.output.index.uri, self.spark, schema)
        check_ids(read.subscriptions, read_patterns(config, self.spark, schema).patterns)
        return None if config.subscriptions.watch or config.security is not None else read

    def _check_table(self, table: str) -> None:
        rows = ingested(self.spark, self.config)
        content = [name for name in rows.columns if name in (ATTRIBUTES, RECORD)]
        if not self.config.deliveries.payload:
            content = []
        if (scopes := scopes_of(self.config)) is not None and not scopes.opened.is_filters_only:
            content = [VERSION, *([RECORD] if content else [])]
        attributes = attributes_in(rows) if ATTRIBUTES in content else None
        check_table(self.spark, table, [*DELIVERY, *content, "bucket"], attributes)
        check_owner(self.spark, table, self.output)

    def _inputs(self) -> Iterator[str]:
        schema = schema_of(self.config)
        for events in self.config.events:
            input = input_of(events, self.config)
            if self.config.mode == "stream":
                sources.check_watchable(input)
            if sources.is_text_at_hand(input):
                form = "records"
            else:
                rows = sources.ingest_input(sources.read(self.spark, input), input, schema)
                form = "typed columns" if ATTRIBUTES in rows.columns else "records"
            yield f"{input.name}: {input.format}, {form}, from {events.path or 'its own source'}"

    def _count_subscriptions(self, gate: Gate | None) -> tuple[int, list[str]]:
        """The number of subscriptions that are granted, and what to say of patterns."""
        config, schema = self.config, schema_of(self.config)
        with tempfile.TemporaryDirectory(prefix="fairlead-") as directory:
            reader = self._reader(config.subscriptions)
            subscriptions = read_subscriptions(config, directory, reader, schema, gate=gate)
            patterns = read_patterns(config, self._reader(config.patterns), schema, gate=gate).patterns
            check_ids(subscriptions.subscriptions, patterns)
            subscribed = subscriptions.subscriptions.count
        if config.patterns is None:
            return subscribed, []
        watched = ", watched for changes" if config.patterns.watch else ""
        count = patterns.count_from(BEGINNING)
        return subscribed, [f"detect      {count:,} patterns from {config.patterns.path}{watched}"]

    def _reader(self, source: PatternsSource | None) -> SparkSession | None:
        """The session, unless subscriptions or patterns can be read without one: starting it takes a while."""
        plain = source is None or (source.format in ("json", "csv") and not source.options)
        return None if plain and (source is None or is_at_hand(source.path)) else self.spark

    # -- running -------------------------------------------------------------------------------------------

    def run(self, on_batch: OnBatch | None = None) -> Summary:
        """Run the pipeline, from the beginning or from where an earlier run stopped; `on_batch` is called after
        each commit."""
        config, output = self.config, self.output
        started = time.monotonic()
        try:
            with _in_one_message(), output.claimed(config.fingerprint, config.to_json(secrets=False)):
                before = output.last()
                commits = _CommitReporter(output, on_batch)
                if before is None or not self._is_finished(before):
                    self._check_sink()
                    self._gate()
                if before is not None and self._is_finished(before):
                    finished = True
                elif config.mode == "batch":
                    rows = given(self._started(), config)
                    Step(config, self._progress).take(rows, 0, final=config.order.final)
                    finished = True
                else:
                    finished = self._stream(commits)
                commits.report()
                return self._conclude(commits, started, resumed=before is not None, finished=finished)
        finally:
            self._stopping.clear()  # not before: who asks before it begins means this run
            self._doing = ""

    def _started(self) -> SparkSession:
        """The session, as one that begins to look at the inputs."""
        spark, self._doing = self.spark, "looking at the inputs"
        return spark

    def _stream(self, commits: _CommitReporter) -> bool:
        """Run the stream until it is stopped, or has taken all that is there; whether it has."""
        config = self.config
        gate = _Gate.of(config.output)
        gate.open()
        rows = given(self._started(), config, stream=True)
        ahead = None
        if self.output.last() is None and self.output.plan(0) is None:  # what is planned was read before
            ahead = self._read_ahead()
        writer = rows.writeStream.foreachBatch(_Gated(Step(config, self._progress, ahead)))
        writer = writer.option("checkpointLocation", self.output.checkpoint)
        pause = config.stream.trigger_us
        trigger = {"availableNow": True} if pause is None else {"processingTime": f"{pause} microseconds"}
        query = writer.trigger(**trigger).start()
        # Over Connect batches are taken elsewhere: from here one cannot see when it waits.
        self._doing = "streaming" if is_remote(self.spark) else "waiting"
        try:
            while query.isActive and not self._stopping.is_set():
                query.awaitTermination(POLL_S)  # type: ignore[arg-type]  # Spark takes fractions
                commits.report()
        finally:
            gate.shut()  # behind the batch under way
            query.stop()
        self._raise(query)
        if self._stopping.is_set() or pause is not None:
            return False
        if config.order.final:
            last = self.output.last()
            step = Step(config, self._progress)
            step.take(_nothing_like(rows), 0 if last is None else last.batch + 1, final=True)
        return True

    def _raise(self, query: StreamingQuery) -> None:
        error = query.exception()
        if error is not None and STOPPED not in str(error):
            raise error

    # -- when it has run -----------------------------------------------------------------------------------

    def _conclude(
        self, commits: _CommitReporter, started: float, *, resumed: bool, finished: bool
    ) -> Summary:
        manifests = self.output.manifests()
        findings = self._judged(manifests, finished=finished, resumed=resumed) if manifests else ()
        here, in_all = _totals(commits.manifests), _totals(manifests)
        patterns = self._patterns(manifests[-1]) if manifests else Patterns()
        return Summary(
            **{each.name: getattr(here, each.name) for each in fields(Totals)},
            subscriptions=self._subscriptions(manifests[-1]).count if manifests else 0,
            patterns=patterns.count_from(BEGINNING) if manifests else 0,
            verdicts=_verdicts(findings),
            seconds=time.monotonic() - started,
            output=self.output.root.uri,
            report=self.output.root.path(REPORT) if manifests and self.config.report else None,
            resumed=resumed,
            finished=finished,
            held=manifests[-1].counts.held if manifests else 0,
            rejected_before=in_all.rejected - here.rejected,
            ended=bool(manifests) and self._is_finished(manifests[-1]),
            in_all=in_all,
            suspected_unit=_suspected_unit(manifests[-1]) if manifests else None,
        )

    def _judged(self, manifests: Sequence[Manifest], *, finished: bool, resumed: bool) -> Sequence[Judged]:
        """The verdicts of the audit on the batches up to here, with a report about them; both are made once."""
        about = {"batch": manifests[-1].batch, "specifications": list(self.config.audit.specifications)}
        known = self.output.note(VERDICTS)
        is_there = not self.config.report or self.output.root.exists(REPORT)
        if known is not None and known["about"] == about and is_there:
            return msgspec.convert(known["findings"], list[Judged])
        self._doing = "audit"
        if not self.config.report:
            findings = self._findings(manifests)
        else:
            # Neither needs the other, and what an audit does in one worker leaves cores to the report.
            with ThreadPoolExecutor(1, "fairlead-report") as beside:
                gathered = beside.submit(self._gathered, manifests, finished=finished, resumed=resumed)
                findings = self._findings(manifests)
                self._doing = "report"
                data = replace(gathered.result(), findings=tuple(findings))
            self.output.root.write(REPORT, render(data).encode())
            self.output.keep_note(NOTE, report_note(manifests[-1].batch, data), durable=False)
        judged = {"about": about, "findings": [asdict(each) for each in findings]}
        self.output.keep_note(VERDICTS, judged, durable=False)
        return findings

    def _findings(self, manifests: Sequence[Manifest]) -> list[Judged]:
        specifications = self.config.audit.specifications
        paths = self.output.paths("trace", manifests)
        if not specifications or not paths:
            return []
        compiled = self._subscriptions(manifests[-1])
        if self.output.root.local() is not None and compiled.size <= MEMORY:
            events = clear.table_of_files(paths)
            if events is not None and clear.is_clear(events, specifications, compiled):
                return [Judged.of(finding) for finding in plain_audit((), *specifications)]
        audited = audit(
            trace.read(self.spark, *paths),
            *specifications,
            schema=schema_of(self.config),
            extensions=self.config.extensions,
            compiled=compiled,
        )
        return proved(
            paths,
            (
                (
                    Judged.of(finding, violations=audited.counts[finding.specification, finding.rule]),
                    [each.indexes for each in finding.violations[:VIOLATIONS_SHOWN]],
                )
                for finding in audited.report
            ),
        )

    def _subscriptions(self, last: Manifest) -> Subscriptions:
        return Subscriptions.from_json(
            last.subscriptions, self.output.index.uri, schema=schema_of(self.config)
        )

    def _patterns(self, last: Manifest) -> Patterns:
        if self.config.patterns is None:
            return Patterns()
        return Patterns.restored(
            self.output.patterns(last.patterns),
            schema=schema_of(self.config),
            extensions=self.config.extensions,
        )

    def _gathered(self, manifests: Sequence[Manifest], *, finished: bool, resumed: bool) -> ReportData:
        """The content of the report beside the audit's verdicts."""
        config = self.config
        stages: Counter[str] = Counter()
        for manifest in manifests:
            stages.update(manifest.stages)
        subscribed = table_of(self._subscriptions(manifests[-1]))
        asked = [(row.id, row.subscriber, row.text) for row in self._patterns(manifests[-1]).rows]
        gathered = gather(
            Facts(
                title=config.name,
                started=_began(manifests[0]),
                machine=f"{platform.machine()}, Python {platform.python_version()}",
                mode=config.mode,
                inputs=tuple(each.path or each.format for each in config.events),
                subscriptions=config.subscriptions.path,
                patterns="" if config.patterns is None else config.patterns.path,
                output=self.output.root.uri,
                seconds=sum(each.seconds for each in manifests),
                versions={name: version(name) for name in ("fairlead", "pyspark")},
                outcome="finished" if finished else "stopped",
                figures="all runs on this output" if resumed else "this run, the first on this output",
            ),
            [batch_of(each) for each in manifests],
            deliveries=self._deliveries(),
            subscriptions=self.spark.createDataFrame(subscribed.select(SUBSCRIPTION_SCHEMA.names)),
            patterns=None if config.patterns is None else few_rows(self.spark, asked, SUBSCRIPTION_SCHEMA),
            rejected=self.output.read(self.spark, "rejected"),
            late=self.output.read(self.spark, "late"),
            stages=stages,
        )
        samples = Samples()
        for manifest in manifests[:SAMPLED_MAX]:
            if "rejected" in manifest.channels:
                samples.take(self.output, manifest)
        return replace(
            gathered,
            reasons=samples.beside(gathered.reasons),
            watermark=watermark_after(manifests, config.order.lateness_us),
        )

    def _deliveries(self) -> DataFrame | None:
        """The deliveries; None where they went to a sink that is not ours to read."""
        sink = self.config.deliveries
        if sink.format not in (*FILES, "table"):
            return None
        if sink.table is not None and self.spark.catalog.tableExists(sink.table):
            return self.spark.table(sink.table)
        found = self.output.read(self.spark, "deliveries", sink.format)
        if found is not None:
            return found
        return few_rows(self.spark, [], NOBODY)


def _nothing_like(rows: DataFrame) -> DataFrame:
    """A table with the columns of another, also of a stream, and no rows."""
    columns = (F.lit(None).cast(field.dataType).alias(field.name) for field in rows.schema)
    return rows.sparkSession.range(0).select(*columns)


def _began(first: Manifest) -> str:
    """When the first batch began, to the second."""
    began = datetime.fromisoformat(first.finished_at) - timedelta(seconds=first.seconds)
    return f"{began:%Y-%m-%d %H:%M:%S} UTC"


def _totals(manifests: Sequence[Manifest]) -> Totals:
    """The totals of some batches."""
    counts = reduce(Counts.then, (each.counts for each in manifests), Counts())
    reasons: Counter[str] = Counter()
    for manifest in manifests:
        reasons.update(manifest.reasons)
    return Totals(
        batches=len(manifests),
        read=counts.read,
        rejected=counts.rejected + counts.refused,
        reasons=dict(reasons.most_common()),
        duplicates=counts.duplicates,
        conflicts=counts.conflicts,
        late=counts.late,
        late_by_us=counts.late_by_us,
        deliveries=counts.deliveries,
        composites=counts.composites,
        published=counts.published,
        own=counts.own,
        batch_seconds=sum(each.seconds for each in manifests),
    )


def _suspected_unit(last: Manifest) -> str | None:
    """The unit that the times of events were probably written in, where that was not microseconds."""
    return suspected_unit(Instant(time) for time in last.newest.values() if time > 0)


def _verdicts(findings: Sequence[Judged]) -> Mapping[str, str]:
    """The verdict on each specification: that of its worst rule."""
    worst = ("holds", "open", "violated")
    found: dict[str, str] = {}
    for each in findings:
        found[each.specification] = max(found.get(each.specification, "holds"), each.verdict, key=worst.index)
    return found


@dataclass(slots=True)
class _CommitReporter:
    """The commits of this run, each told once, as they appear in the output."""

    output: Output
    on_batch: OnBatch | None
    manifests: list[Manifest] = field(default_factory=list)
    next: int = field(init=False)

    def __post_init__(self) -> None:
        last = self.output.last()
        self.next = 0 if last is None else last.batch + 1

    def report(self) -> None:
        for number in self.output.batches_from(self.next):
            self.next = number + 1
            self.manifests.append(self.output.manifest(number))
            if self.on_batch is not None:
                self.on_batch(batch_of(self.manifests[-1]))


@contextmanager
def _in_one_message() -> Iterator[None]:
    """Turn whatever Spark raises within into one message."""
    try:
        yield
    except Exception as error:
        explained = reason(error)
        if explained is None or explained is error:
            raise
        raise explained from error


# -- stopping ----------------------------------------------------------------------------------------------


class _Gate:
    """In this process a thread of Spark's takes a stream's batches: who stops it waits for the one under way.

    The next one finds the gate shut and fails: Spark must not take it for done. Over Connect batches are taken
    elsewhere, and one that is cut off is taken again by the next run, as after a crash.
    """

    _all: Final[dict[str, _Gate]] = {}

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._shut = False

    @classmethod
    def of(cls, output: str) -> _Gate:
        return cls._all.setdefault(output, cls())

    def open(self) -> None:
        self._shut = False

    def shut(self) -> None:
        with self.lock:
            self._shut = True

    def check(self) -> None:
        if self._shut:
            raise PipelineError(STOPPED)


@dataclass(frozen=True, slots=True)
class _Gated:
    """A step that is taken unless the run was stopped."""

    step: Step

    def __call__(self, rows: DataFrame, number: int) -> None:
        gate = _Gate.of(self.step.config.output)
        with gate.lock:
            gate.check()
            self.step(rows, number)
