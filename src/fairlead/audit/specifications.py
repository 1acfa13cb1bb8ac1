"""The specifications of event systems, as programs over a trace (book 2.5.2 to 2.5.4).

    simple           a component is notified only about notifications that it is subscribed to (`subscribed`) and
                     that were published before (`published`), at most once (`once`), and about all that
                     match a subscription which has taken effect and stays (`liveness`)
    advertisements   the same, and about nothing that its producer had not advertised (`advertised`); a required
                     delivery matches a subscription and an advertisement that have taken effect and stay
    scoped           the same as simple, about versions, and about nothing that its scopes do not let it see
                     (`visible`; `fairlead.audit.scoped`)
    stabilising      the fitting one of these, within a bound after the last fault (`fairlead.audit.stabilising`)
    fifo             no component is notified about a producer's notifications in another order than published
    causal           no component is notified about an effect before its cause
    total            no two components are notified about the same two in different orders (`agreement`), and
                     there is one order that no component contradicts (`one order`)
    ordered          no component is notified against the order keys (`key`), nor against a producer's sequence
                     numbers (`sequence`): guaranteed by runs in the total order, not by live ones

A notification is known by its identity. Publishing an identity again is a duplicate, which nobody has to be
notified about: deliveries are judged by the first publication, and a second delivery violates `once`.

Safety holds or is violated. Liveness may also be open: where a trace has not ended, a missing delivery may still
happen. A producer that has not yet advertised anything may publish everything, so `simple` is `advertisements`
without advertisements. Each check takes about one pass; the laboratory has the formulas themselves.

The book's (2.1) says "notify(Y, n) implies always not notify(Y, n)", which no notification satisfies; meant is
"next always", as in (2.6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from fairlead.audit import orders
from fairlead.audit.history import Delivered, History, Period, Publication
from fairlead.audit.report import Finding, Report, Violation
from fairlead.audit.stabilising import stabilised
from fairlead.audit.trace import Event
from fairlead.matching import Engine, engine_named
from fairlead.model.order import Identity

__all__ = ["SPECIFICATIONS", "audit", "audit_history"]


def audit(events: Iterable[Event], *specifications: str, engine: str = "columnar") -> Report:
    """Check a trace against the named specifications; against all of them where none is named.

    Of `simple`, `advertisements` and `scoped`, all takes the one that fits: where components advertise, their
    other publications are discarded, and `simple` would miss them; where there are scopes, so is what is not
    visible. `ordered` must be named: a trace does not record whether its run was ordered, and a live one
    delivers in the order of publication.
    TraceRefused where no run can have such a trace.
    """
    return audit_history(History.of(events), *specifications, engine=engine)


def audit_history(history: History, *specifications: str, engine: str = "columnar") -> Report:
    """Judge a trace that has been read."""
    unknown = set(specifications) - set(SPECIFICATIONS)
    if unknown:
        raise ValueError(f"no such specification: {', '.join(sorted(unknown))}")
    chosen = specifications or (_fitting(history), "fifo", "causal", "total")
    findings = tuple(finding for name in chosen for finding in SPECIFICATIONS[name](history, engine))
    return Report(findings, history.repeated)


def _fitting(history: History) -> str:
    return "scoped" if history.scope_changes else "advertisements" if history.advertisements else "simple"


def _stabilising(history: History, engine: str) -> list[Finding]:
    # As if it had ended: what is missing then is told apart by its index.
    ended = replace(history, ended=True)
    return stabilised(history, SPECIFICATIONS[_fitting(history)](ended, engine))


def _simple(history: History, engine: str) -> list[Finding]:
    return _DeliveryCheck(history, engine, advertisements=False).findings("simple")


def _advertisements(history: History, engine: str) -> list[Finding]:
    return _DeliveryCheck(history, engine, advertisements=True).findings("advertisements")


def _fifo(history: History, _: str) -> list[Finding]:
    return [Finding("fifo", "order", tuple(orders.fifo(history)))]


def _causal(history: History, _: str) -> list[Finding]:
    return [Finding("causal", "order", tuple(orders.causal(history)))]


def _total(history: History, _: str) -> list[Finding]:
    return [
        Finding("total", "agreement", tuple(orders.agreement(history))),
        Finding("total", "one order", tuple(orders.one_order(history))),
    ]


def _ordered(history: History, _: str) -> list[Finding]:
    return [
        Finding("ordered", "key", tuple(orders.keys(history))),
        Finding("ordered", "sequence", tuple(orders.numbers(history))),
    ]


def _scoped(history: History, engine: str) -> list[Finding]:
    from fairlead.audit.scoped import scoped  # late: scopes are loaded where there are any

    return scoped(history, engine)


SPECIFICATIONS: Final[dict[str, Callable[[History, str], list[Finding]]]] = {
    "simple": _simple,
    "advertisements": _advertisements,
    "scoped": _scoped,
    "stabilising": _stabilising,
    "fifo": _fifo,
    "causal": _causal,
    "total": _total,
    "ordered": _ordered,
}
"""The specifications by name."""


class _DeliveryCheck:
    """Safety and liveness: each publication is checked once, with all deliveries of it."""

    def __init__(self, history: History, engine: str, advertisements: bool) -> None:
        self._history = history
        self._advertisements = advertisements
        self._open = 0
        self._violations: dict[str, list[Violation]] = {
            rule: []
            for rule in ("subscribed", "published", "once", "advertised", "liveness")
            if advertisements or rule != "advertised"
        }
        self._subscriptions = _Matcher(history.subscriptions, engine)
        self._advertised = _Matcher(history.advertisements, engine)
        self._advertisers: dict[str, list[Period]] = {}
        for period in history.advertisements:
            self._advertisers.setdefault(period.declared.component, []).append(period)

    def findings(self, specification: str) -> list[Finding]:
        about: dict[Identity, list[Delivered]] = {}
        for each in self._history.notifications:
            about.setdefault(each.identity, []).append(each)
        for publication in self._history.publications.values():
            self._judge(publication, about.pop(publication.event.identity, []))
        for unpublished in about.values():
            self._judge_once(unpublished)
            for each in unpublished:
                self._violate(
                    "published", f"{each.component} was notified about {each}, which nobody published", each
                )
        return [
            Finding(
                specification,
                rule,
                tuple(sorted(violations, key=lambda each: each.indexes)),
                self._open if rule == "liveness" else 0,
            )
            for rule, violations in self._violations.items()
        ]

    def _judge(self, publication: Publication, delivered: list[Delivered]) -> None:
        periods: dict[str, list[Period]] = {}
        for period in self._subscriptions.matching(publication):
            periods.setdefault(period.declared.component, []).append(period)
        self._judge_once(delivered)
        for each in delivered:
            if each.index < publication.index:
                self._violate(
                    "published",
                    f"{each.component} was notified about {each} before it was published",
                    each,
                    publication,
                )
            if not any(
                period.holds(each.index, publication.key) for period in periods.get(each.component, ())
            ):
                self._violate(
                    "subscribed",
                    f"{each.component} was notified about {each} without a subscription that matches it",
                    publication,
                    each,
                )
        if self._advertisements:
            self._judge_advertised(publication, delivered)
        self._judge_liveness(publication, periods, delivered)

    def _judge_once(self, delivered: list[Delivered]) -> None:
        for each in delivered:
            if each.first != each.index:
                again = Violation(
                    f"{each.component} was notified about {each} again", (each.first, each.index)
                )
                self._violations["once"].append(again)

    def _judge_advertised(self, publication: Publication, delivered: list[Delivered]) -> None:
        if self._is_advertised(publication):
            return
        for each in delivered:
            if each.index > publication.index:
                self._violate(
                    "advertised",
                    f"{each.component} was notified about {each}, which its producer had not advertised",
                    publication,
                    each,
                )

    def _is_advertised(self, publication: Publication) -> bool:
        index, key = publication.index, publication.key
        own = self._advertisers.get(publication.event.component, [])
        if not any(period.has_begun(index, key) for period in own):
            return True
        return any(period.holds(index, key) for period in self._announcing(publication))

    def _stays_advertised(self, publication: Publication) -> bool:
        if publication.event.component not in self._advertisers:
            return True
        index, key = publication.index, publication.key
        return any(period.binds(index, key) for period in self._announcing(publication))

    def _announcing(self, publication: Publication) -> list[Period]:
        """The producer's own advertisements that the notification matches."""
        producer, found = publication.event.component, self._advertised.matching(publication)
        return [period for period in found if period.declared.component == producer]

    def _judge_liveness(
        self, publication: Publication, periods: dict[str, list[Period]], delivered: list[Delivered]
    ) -> None:
        if self._advertisements and not self._stays_advertised(publication):
            return
        index, key = publication.index, publication.key
        reached = {each.component for each in delivered if each.index > index}
        for component, own in periods.items():
            binding = next((period for period in own if period.binds(index, key)), None)
            if component in reached or binding is None:
                continue
            if not self._history.ended:
                self._open += 1
                continue
            what = f"{component} was never notified about {publication}, which its subscription matches"
            self._violations["liveness"].append(Violation(what, tuple(sorted((binding.begun, index)))))

    def _violate(self, rule: str, what: str, *proof: Publication | Delivered) -> None:
        self._violations[rule].append(Violation(what, tuple(sorted(each.index for each in proof))))


class _Matcher:
    """Finds the periods whose filters a notification matches, active or not."""

    def __init__(self, periods: list[Period], engine: str) -> None:
        self._periods = periods
        self._engine: Engine[int] = engine_named(engine)
        self._engine.add_many((number, period.declared.filter) for number, period in enumerate(periods))

    def matching(self, publication: Publication) -> list[Period]:
        found = self._engine.match(publication.event.notification)
        return [self._periods[number] for number in sorted(found)]
