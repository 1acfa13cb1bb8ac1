"""Self-stabilising event systems (book 8.2.2, Def. 8.2): right again within a bound after any fault, and from
then on.

    stabilising   no violation is proven by an event after the recovery point (`safety`, `liveness`)

A fault suspends the specification that fits the trace, `simple`, `advertisements` or `scoped`: from an arbitrary
state nobody can avoid to notify a component about what it is not subscribed to. The trace says when the bound
after the last fault has passed, by a fault event `recovered`, which whoever knows the bound writes. Every
violation with an event after it counts. What was published before it and got lost does not, nor do deliveries
before it.

Where a fault has no such event after it, the bound has not passed, and violations are open. Without faults all
count.
"""

from __future__ import annotations

from typing import Final

from fairlead.audit.history import History
from fairlead.audit.report import Finding, Violation

__all__ = ["RECOVERED", "stabilised"]

RECOVERED: Final = "recovered"
"""The fault event that says that the bound has passed."""


def stabilised(history: History, findings: list[Finding]) -> list[Finding]:
    """The findings of a specification that holds after the recovery point only, given those of the whole trace as
    if it had ended."""
    rules: dict[str, tuple[list[Violation], int]] = {"safety": ([], 0), "liveness": ([], 0)}
    point = history.recovery_point
    for finding in findings:
        rule = "liveness" if finding.rule == "liveness" else "safety"
        counted, pending = rules[rule]
        violations = [each for each in finding.violations if point is None or each.indexes[-1] > point]
        if point is None or (rule == "liveness" and not history.ended):
            pending += len(violations)
        else:
            counted.extend(violations)
        rules[rule] = (counted, pending)
    return [
        Finding("stabilising", rule, tuple(sorted(violations, key=lambda each: each.indexes)), pending)
        for rule, (violations, pending) in rules.items()
    ]
