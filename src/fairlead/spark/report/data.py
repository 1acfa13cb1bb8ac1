"""The plain values that a report is made from: equal values give equal pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from fairlead.audit import Finding
from fairlead.spark.report.examples import CompositeExample
from fairlead.spark.summary import Batch

__all__ = ["Facts", "Judged", "Matched", "Never", "Proof", "Reason", "Received", "ReportData", "Watermark"]

VIOLATIONS_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of a run. `started` is shown as it is; `versions` maps names to versions."""

    title: str
    started: str
    machine: str
    mode: str
    inputs: tuple[str, ...]
    subscriptions: str
    output: str
    seconds: float
    versions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    outcome: str = "finished"
    patterns: str = ""
    figures: str = ""
    """The runs that the figures are of: one run, or all runs on the output."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason for rejections, the number of rows, and the first of them with its location."""

    reason: str
    count: int
    example: str
    origin: str
    samples: tuple[tuple[str, str], ...] = ()
    """Further ones, each with its location."""


@dataclass(frozen=True, slots=True)
class Matched:
    """A subscription and the number of its matches; or a pattern and the number of its composites.

    One that ended while the run went on is known by its deliveries alone: its filter is None.
    """

    id: str
    subscriber: str
    filter: str | None
    count: int


@dataclass(frozen=True, slots=True)
class Never:
    """The subscriptions that nothing matched: how many, and the first ones."""

    count: int = 0
    first: tuple[Matched, ...] = ()


@dataclass(frozen=True, slots=True)
class Received:
    """A subscriber, and how many deliveries it got."""

    subscriber: str
    count: int


@dataclass(frozen=True, slots=True)
class Proof:
    """A row of the trace that proves a violation: its place, what it records, whose it is, and the row itself."""

    index: int
    event: str
    who: str
    row: str


@dataclass(frozen=True, slots=True)
class Watermark:
    """The watermark, and what it waits for: the newest event of each input, and the lateness allowed."""

    at: int | None = None
    newest: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    lateness_us: int = 0
    late_by_us: int = 0
    """The distance behind the watermark at which the latest row came."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The audit's verdict on one rule, with the first violations in words."""

    specification: str
    rule: str
    verdict: str
    violations: int = 0
    open: int = 0
    first: tuple[str, ...] = ()
    proofs: tuple[tuple[Proof, ...], ...] = ()
    """For each of the first violations the rows of the trace that prove it, where they were looked up."""

    @classmethod
    def of(cls, finding: Finding | Mapping[str, Any], violations: int | None = None) -> Judged:
        """A finding of `fairlead.audit`, or its JSON object, cut to what a page can hold.

        `violations` counts them all, where the finding has only the first ones.
        """
        if isinstance(finding, Finding):
            said = [violation.what for violation in finding.violations]
            specification, rule, open = finding.specification, finding.rule, finding.open
            verdict = finding.verdict.value
        else:
            said = [violation["what"] for violation in finding["violations"]]
            specification, rule, open = finding["specification"], finding["rule"], finding["open"]
            verdict = finding["verdict"]
        counted = len(said) if violations is None else violations
        return cls(specification, rule, verdict, counted, open, tuple(said[:VIOLATIONS_SHOWN]))


@dataclass(frozen=True, slots=True)
class ReportData:
    """All that a report shows.

    `histogram` and `lateness` are (lowest, highest, how many), both ends included and a highest of None
    meaning no end: matches per subscription, and microseconds behind the watermark. `subscriptions` and
    `subscribers` are the top ones, best first; `subscribed` and `reached` count them all. Likewise `patterns`
    and `patterns_total`, which is None where a pipeline has none; `examples` are composites of them. Without
    `read_back`, deliveries went to a sink that is not read, and the report does not know their subscribers.
    """

    facts: Facts
    batches: Sequence[Batch] = ()
    stages: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    reasons: Sequence[Reason] = ()
    subscriptions: Sequence[Matched] = ()
    never: Never = Never()
    histogram: Sequence[tuple[int, int | None, int]] = ()
    subscribers: Sequence[Received] = ()
    lateness: Sequence[tuple[int, int | None, int]] = ()
    findings: Sequence[Judged] = ()
    reached: int = 0
    patterns: Sequence[Matched] = ()
    patterns_total: int | None = None
    examples: Sequence[CompositeExample] = ()
    read_back: bool = True
    watermark: Watermark | None = None
    is_whole: bool = True
    """Whether it was made at the end of a run; while one goes on, only what batches have committed is known."""

    @property
    def subscribed(self) -> int:
        """The number of subscriptions."""
        return sum(count for _, _, count in self.histogram)

    def total(self, name: str) -> int:
        """The sum of a counter over all batches."""
        return sum(int(getattr(batch, name)) for batch in self.batches)

    @property
    def held(self) -> int:
        """The number of notifications that still wait for the watermark."""
        return self.batches[-1].held if self.batches else 0

    @property
    def verdict(self) -> str | None:
        """Violated where anything is, else open where anything is; None without an audit."""
        found = {finding.verdict for finding in self.findings}
        return next((each for each in ("violated", "open", "holds") if each in found), None)
