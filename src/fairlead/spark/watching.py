"""A run as its output tells of it: while it goes on and afterwards, from any process, and without Spark.

    watch = Watch("out")
    standing = watch.look()        what is committed now, as a report
    standing.report                at the end of a run, that of `report.html`

What is looked at is bounded: manifests once each, of what was rejected or late the first rows of a batch.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from itertools import accumulate
from typing import Any, Final

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyarrow import parquet

from fairlead.audit.parquet import files
from fairlead.errors import PipelineError
from fairlead.ingest.rejection import kind_of_reason
from fairlead.markup import shortened
from fairlead.model.encoding import format_json
from fairlead.model.order import BEGINNING, END
from fairlead.spark.config import microseconds
from fairlead.spark.output import Manifest, Output
from fairlead.spark.report.data import Facts, Judged, Proof, Reason, ReportData, Watermark
from fairlead.spark.report.intervals import DELAYS, filled, sort_of_reason
from fairlead.spark.storage import as_path
from fairlead.spark.summary import Batch

__all__ = ["NOTE", "Samples", "Standing", "Watch", "batch_of", "proved", "report_note", "watermark_after"]

NOTE: Final = "report"
"""The note with the values of the last report."""
SAMPLES: Final = 5
"""So many rejected rows are shown for a reason."""
ROWS_MAX: Final = 1_000
"""Of so many rejected rows of a batch the first ones are taken."""
REASONS_MAX: Final = 20
TEXT_MAX: Final = 500
PROOF_MAX: Final = 4
"""So many rows of the trace are shown for a violation."""
SAID: Final = {
    "pub": "published",
    "notify": "was notified",
    "sub": "subscribed",
    "unsub": "unsubscribed",
    "adv": "advertised",
    "unadv": "unadvertised",
    "fault": "fault",
}
"""Events of a trace in words."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A run as it stands: the batches that are committed, as a report, and when the last one was."""

    report: ReportData
    version: str
    """Changes whenever there is more to see."""
    committed_at: datetime | None = None
    is_over: bool = False
    """Whether the report is that of the end of a run, with nothing committed since."""


class Watch:
    """Looks at an output, again and again; what is committed is read once. Threads may look at once."""

    def __init__(self, path: str) -> None:
        self._output = Output(path)
        self._lock = threading.Lock()
        """Held while somebody looks: the rest is what the looks before have read."""
        self._forget()

    def _forget(self) -> None:
        self._whose: str | None = None
        self._manifests: list[Manifest] = []
        self._reasons: Counter[str] = Counter()
        self._samples = Samples()
        self._lateness: Counter[int] = Counter()
        self._stages: Counter[str] = Counter()

    @cached_property
    def name(self) -> str:
        """The path of the output."""
        return as_path(self._output.root.uri)

    def look(self) -> Standing:
        """The committed batches, now. PipelineError where there is no output of a pipeline."""
        with self._lock:
            run = self._output.run()
            if run is None:
                raise PipelineError(f"nothing has run in {self.name} yet")
            if run["fingerprint"] != self._whose:
                self._forget()
                self._whose = run["fingerprint"]
            for batch in self._output.batches_from(len(self._manifests)):
                self._take(self._output.manifest(batch))
            return self._standing(run["configuration"])

    def _take(self, manifest: Manifest) -> None:
        before = self._manifests[-1].watermark if self._manifests else BEGINNING
        self._manifests.append(manifest)
        self._stages.update(manifest.stages)
        if "rejected" in manifest.channels:
            self._samples.take(self._output, manifest)
        if "late" in manifest.channels:
            self._lateness.update(_lateness(self._output, manifest, before))
        self._reasons.update(manifest.reasons)

    def _standing(self, configuration: Mapping[str, Any]) -> Standing:
        last = self._manifests[-1] if self._manifests else None
        note = None if last is None else self._output.note(NOTE)
        if last is not None and note is not None and note["batch"] == last.batch:
            report = msgspec.convert(note["report"], ReportData)
            return Standing(report, f"{self._whose} {last.batch} over", _finished(last), is_over=True)
        report = ReportData(
            facts=self._facts(configuration),
            batches=tuple(map(batch_of, self._manifests)),
            stages=dict(self._stages),
            reasons=self._samples.of(self._reasons),
            lateness=filled(self._lateness, DELAYS),
            watermark=None
            if last is None
            else watermark_after(
                self._manifests, microseconds(configuration.get("order", {}).get("lateness", "0s"))
            ),
            is_whole=False,
        )
        number = -1 if last is None else last.batch
        return Standing(report, f"{self._whose} {number}", None if last is None else _finished(last))

    def _facts(self, configuration: Mapping[str, Any]) -> Facts:
        """The facts of a run, from its configuration."""
        events = configuration.get("events", ())
        inputs = [events] if isinstance(events, Mapping) else list(events)
        first = self._manifests[0] if self._manifests else None
        return Facts(
            title=str(configuration.get("name", self.name)),
            started="" if first is None else f"{_finished(first):%Y-%m-%d %H:%M:%S} UTC (first batch)",
            machine="",
            mode=str(configuration.get("mode", "batch")),
            inputs=tuple(str(each.get("path") or each.get("format") or "") for each in inputs),
            subscriptions=str(configuration.get("subscriptions", {}).get("path", "")),
            output=self.name,
            seconds=sum(each.seconds for each in self._manifests),
            versions={"fairlead": version("fairlead")},
            outcome="goes on, or was stopped before its report",
            patterns=str((configuration.get("patterns") or {}).get("path", "")),
            figures="what is committed so far",
        )


def _finished(manifest: Manifest) -> datetime:
    return datetime.fromisoformat(manifest.finished_at).astimezone(UTC)


def batch_of(manifest: Manifest) -> Batch:
    """A committed batch in figures."""
    counts = manifest.counts
    return Batch(
        number=manifest.batch,
        read=counts.read,
        rejected=counts.rejected + counts.refused,
        duplicates=counts.duplicates,
        late=counts.late,
        released=counts.released,
        held=counts.held,
        deliveries=counts.deliveries,
        watermark=None if manifest.watermark in (BEGINNING, END) else manifest.watermark,
        seconds=manifest.seconds,
        composites=counts.composites,
        conflicts=counts.conflicts,
    )


def watermark_after(manifests: Sequence[Manifest], lateness_us: int) -> Watermark:
    """The watermark after some batches; at the end of the input, where it was before."""
    at = next(
        (each.watermark for each in reversed(manifests) if each.watermark not in (BEGINNING, END)), None
    )
    return Watermark(
        at,
        {name: time for name, time in manifests[-1].newest.items() if time not in (BEGINNING, END)},
        lateness_us,
        max(each.counts.late_by_us for each in manifests),
    )


# -- rejected and late rows ----------------------------------------------------------------------------------


class Samples:
    """The first rejected rows of each kind of reason."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[str, str]]] = {}

    def take(self, output: Output, manifest: Manifest) -> None:
        """Look at the first rejected rows of a batch."""
        for row in _first_rows(output, "rejected", manifest, ("reason", "file", "source", "line", "raw")):
            reason = row["reason"] or ""
            for alike in {kind_of_reason(reason), sort_of_reason(reason)}:
                rows = self._rows.setdefault(alike, [])
                if len(rows) < SAMPLES:
                    rows.append((_readable(row["raw"]), _origin(row)))

    def of(self, counts: Mapping[str, int]) -> tuple[Reason, ...]:
        """The commonest kinds of reasons with their samples."""
        best = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:REASONS_MAX]
        found = ((kind, count, self._rows.get(kind) or [("", "")]) for kind, count in best)
        return tuple(Reason(kind, count, *rows[0], tuple(rows[1:])) for kind, count, rows in found)

    def beside(self, reasons: Sequence[Reason]) -> tuple[Reason, ...]:
        """Reasons that are known with one row each, and the others of their kind beside it."""
        return tuple(
            replace(
                each,
                samples=tuple(
                    row
                    for row in self._rows.get(sort_of_reason(each.reason), ())
                    if row != (each.example, each.origin)
                )[: SAMPLES - 1],
            )
            for each in reasons
        )


def _readable(raw: bytes | None) -> str:
    return bytes(raw or b"").decode(errors="backslashreplace")[:TEXT_MAX]


def _origin(row: Mapping[str, Any]) -> str:
    line = "" if row["line"] is None else f", line {row['line']:,}"
    return f"{as_path(row['file'] or row['source'] or '')}{line}"


def _first_rows(
    output: Output, channel: str, manifest: Manifest, columns: Sequence[str]
) -> Iterator[dict[str, Any]]:
    left = ROWS_MAX
    for file, _ in output.root.files(f"{channel}/batch={manifest.batch:08}"):
        with parquet.ParquetFile(output.root.open(file)) as opened:
            for rows in opened.iter_batches(left, columns=list(columns)):
                yield from rows.to_pylist()
                left -= rows.num_rows
                if left <= 0:
                    return


def _lateness(output: Output, manifest: Manifest, watermark: int) -> Counter[int]:
    """The late rows of a batch by the interval of how far they were behind the watermark before it."""
    found: Counter[int] = Counter()
    for file, _ in output.root.files(f"late/batch={manifest.batch:08}"):
        times = parquet.read_table(output.root.open(file), columns=["event_time"]).column(0)
        behind = pc.max_element_wise(pc.subtract(pa.scalar(watermark), pc.fill_null(times, 0)), 0)
        for delay, number in Counter(behind.to_pylist()).items():
            found[bisect_right(DELAYS, delay) - 1] += number
    return found


# -- proofs --------------------------------------------------------------------------------------------------


def proved(paths: Sequence[str], findings: Iterable[tuple[Judged, Sequence[Sequence[int]]]]) -> list[Judged]:
    """Verdicts with the rows of the trace that prove the violations shown, by their places."""
    given = [(judged, [tuple(each)[:PROOF_MAX] for each in places]) for judged, places in findings]
    rows = _rows_at(paths, {index for _, places in given for indexes in places for index in indexes})
    return [
        replace(
            judged,
            proofs=tuple(tuple(rows[index] for index in indexes if index in rows) for indexes in places),
        )
        for judged, places in given
    ]


def _rows_at(paths: Sequence[str], indexes: set[int]) -> dict[int, Proof]:
    """Some rows of a trace; only the parts of files that they lie in are read."""
    if not indexes:
        return {}
    found: dict[int, Proof] = {}
    start = 0
    for file in files(*paths):
        with file.open() as opened:
            meta = opened.metadata
            sizes = [meta.row_group(at).num_rows for at in range(meta.num_row_groups)]
            for group, first in enumerate(accumulate(sizes[:-1], initial=start)):
                here = sorted(each - first for each in indexes if first <= each < first + sizes[group])
                if here:
                    rows = opened.read_row_group(group).take(pa.array(here)).to_pylist()
                    found |= {first + at: _proof(first + at, row) for at, row in zip(here, rows, strict=True)}
            start += meta.num_rows
    return found


def _proof(index: int, row: Mapping[str, Any]) -> Proof:
    event = str(row["event"])
    who = row["component"] or row["producer"] or ""
    shown = {
        name: value
        for name, value in row.items()
        if value is not None and name not in ("v", "event", "component", "time")
    }
    text = row["record"] if event == "pub" and row["record"] else None
    named = f"{row['producer'] or ''} {row['id'] or ''}".strip()
    said = f"{named}: {text}" if text else named or row["filter"] or format_json(shown)
    return Proof(index, SAID.get(event, event), str(who), shortened(said, TEXT_MAX))


def report_note(batch: int, report: ReportData) -> dict[str, Any]:
    """The note that keeps a report."""
    return {"batch": batch, "report": asdict(report)}
