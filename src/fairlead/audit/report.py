"""The result of an audit: for each rule a verdict, and for each violation the events that prove it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fairlead.audit.verdict import Verdict

__all__ = ["Finding", "Report", "Violation"]


@dataclass(frozen=True, slots=True)
class Violation:
    """A violation, and the indexes in the trace of the events that prove it, counted from 0."""

    what: str
    indexes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on one rule of a specification.

    `open` counts required deliveries that are missing in a trace that has not ended: they may still happen.
    """

    specification: str
    rule: str
    violations: tuple[Violation, ...] = ()
    open: int = 0

    @property
    def verdict(self) -> Verdict:
        if self.violations:
            return Verdict.VIOLATED
        return Verdict.OPEN if self.open else Verdict.HOLDS


@dataclass(frozen=True, slots=True)
class Report:
    """The findings of an audit, in the order of the specifications."""

    findings: tuple[Finding, ...]
    repeated: int = 0
    """Publications of an identity that was published before; the first of each was judged."""

    @property
    def verdict(self) -> Verdict:
        """Violated where anything is; else open where anything is."""
        found = {finding.verdict for finding in self.findings}
        return next(
            (each for each in (Verdict.VIOLATED, Verdict.OPEN) if each in found),
            Verdict.HOLDS,
        )

    @property
    def open(self) -> int:
        """The number of open obligations, of all rules."""
        return sum(finding.open for finding in self.findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def violated(self) -> dict[tuple[str, str], Finding]:
        """The findings with violations, by specification and rule."""
        return {(each.specification, each.rule): each for each in self.findings if each.violations}

    def jsonable(self) -> dict[str, Any]:
        """The report as a JSON object."""
        return {
            "verdict": self.verdict.value,
            "open": self.open,
            "findings": [
                {
                    "specification": finding.specification,
                    "rule": finding.rule,
                    "verdict": finding.verdict.value,
                    "open": finding.open,
                    "violations": [
                        {"what": violation.what, "indexes": list(violation.indexes)}
                        for violation in finding.violations
                    ],
                }
                for finding in self.findings
            ],
        }
