"""Summaries of a run: one for each committed batch, and one at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

__all__ = ["Batch", "Summary", "Totals"]


@dataclass(frozen=True, slots=True)
class Batch:
    """One committed micro-batch, in rows; `held` and `watermark` as they are after it."""

    number: int
    read: int
    rejected: int
    duplicates: int
    late: int
    released: int
    held: int
    deliveries: int
    watermark: int | None
    """An order time in microseconds; None where nothing has had a time yet."""
    seconds: float
    composites: int = 0
    conflicts: int = 0


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of all runs on one output, this one included: the figures of the report."""

    batches: int = 0
    read: int = 0
    rejected: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict, hash=False)
    duplicates: int = 0
    conflicts: int = 0
    late: int = 0
    late_by_us: int = 0
    deliveries: int = 0
    composites: int = 0
    published: int = 0
    own: int = 0
    batch_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Summary:
    """One run, from its start or from where an earlier one stopped; `in_all` has the runs before it, too."""

    batches: int
    read: int
    rejected: int
    reasons: Mapping[str, int] = field(hash=False)
    """The number of rejected rows, by reason."""
    duplicates: int
    late: int
    deliveries: int
    subscriptions: int
    verdicts: Mapping[str, str] = field(hash=False)
    """The audited specifications, and whether each `holds`, is `open` or `violated`."""
    seconds: float
    output: str
    report: str | None
    resumed: bool
    """Whether the output held batches already when the run began."""
    finished: bool
    """Whether all input was taken; a run that was stopped goes on when it is started again."""
    composites: int = 0
    """Composite events that patterns found."""
    patterns: int = 0
    held: int = 0
    """The number of rows held back at its end, until the watermark has passed them."""
    rejected_before: int = 0
    """The number of rows that earlier runs on the same output have rejected."""
    ended: bool = False
    """Whether that was the end: what comes later belongs to another output."""
    published: int = 0
    """The number of notifications that went into the network."""
    own: int = 0
    """The number that came from there and were left out, since pipelines have published them."""
    conflicts: int = 0
    """The number of copies of another notification with other content: one of them was delivered."""
    late_by_us: int = 0
    """The distance behind the watermark of the latest late row, in microseconds of event time."""
    batch_seconds: float = 0.0
    """The duration of its batches, without the start of Spark, the audit and the report."""
    suspected_unit: str | None = None
    """The unit in which times were probably written, where they were read as microseconds and lie in 1970."""
    in_all: Totals = Totals()

    @property
    def of_all_runs(self) -> Summary:
        """The same with the figures of all runs on the output."""
        return replace(self, **{each.name: getattr(self.in_all, each.name) for each in fields(Totals)})

    @property
    def rows_per_s(self) -> float:
        """By how long its batches took, as in the report."""
        seconds = self.batch_seconds or self.seconds
        return self.read / seconds if seconds > 0 else 0.0

    @property
    def violated(self) -> tuple[str, ...]:
        """The specifications that were broken."""
        return tuple(name for name, verdict in self.verdicts.items() if verdict == "violated")

    @property
    def exit_code(self) -> int:
        """The exit code of `fairlead run`: 1 if a specification is violated, 3 if rows were rejected, else 0."""
        if self.violated:
            return 1
        # The run was complete before: the exit code is the same as then.
        repeated = self.rejected_before if self.ended and not self.batches else 0
        return 3 if self.rejected or repeated else 0

    def to_json(self) -> dict[str, Any]:
        """The summary as one JSON object."""
        return {
            "batches": self.batches,
            "read": self.read,
            "rejected": self.rejected,
            "reasons": dict(self.reasons),
            "duplicates": self.duplicates,
            "conflicts": self.conflicts,
            "late": self.late,
            "late_by_us": self.late_by_us,
            "suspected_unit": self.suspected_unit,
            "held": self.held,
            "deliveries": self.deliveries,
            "subscriptions": self.subscriptions,
            "composites": self.composites,
            "patterns": self.patterns,
            "published": self.published,
            "own": self.own,
            "verdicts": dict(self.verdicts),
            "seconds": round(self.seconds, 3),
            "batch_seconds": round(self.batch_seconds, 3),
            "rows_per_s": round(self.rows_per_s, 1),
            "output": self.output,
            "report": self.report,
            "resumed": self.resumed,
            "finished": self.finished,
            "ended": self.ended,
            "in_all": {**asdict(self.in_all), "batch_seconds": round(self.in_all.batch_seconds, 3)},
        }
