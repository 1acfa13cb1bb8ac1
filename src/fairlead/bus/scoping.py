"""A bus with scopes. Each component is notified about the versions of notifications that are visible to it, and
its patterns match these.

The bus decides about a notification where it takes its place in the one order: by the graph of that moment, with
the policies in the state that all notifications before it have left. A subscriber's name is the name of a
component. Patterns and fair subscriptions of a component see what the component could be notified about, so each
component that asks has detectors of its own; what they find comes from that component, and goes into its scopes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import compress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fairlead.bus.handles import Subscription
from fairlead.bus.questions import Questions, Set
from fairlead.bus.registry import Registry
from fairlead.delivery import Validity
from fairlead.errors import ScopeError
from fairlead.matching import Engine, engine_named
from fairlead.model import Notification
from fairlead.model.order import BEGINNING, END, OrderKey, event_time, identity_of
from fairlead.model.versions import as_version
from fairlead.rules import Depends, Refusal, Rule
from fairlead.rules.scoping import unknown_component
from fairlead.scopes import ScopePlan, Scopes, System
from fairlead.scopes.rules import Trigger
from fairlead.scopes.running import Changed, Notice, Running, Seen

if TYPE_CHECKING:
    from fairlead.bus.handing_over import HandingOver
    from fairlead.correlation.queries import Query, QuerySet, Result

__all__ = ["Scoped"]

log: Final = logging.getLogger(__name__)

Failures: TypeAlias = list[tuple[Subscription, Exception]]
Failed: TypeAlias = tuple[Failures, Notification]
Match: TypeAlias = Callable[[Notification], tuple[list[str], Failures]]


@dataclass(slots=True)
class _Result:
    """An answer that may be for several who asked."""

    notification: Notification
    key: OrderKey | None
    ids: list[str] = field(default_factory=list)
    origins: list[str] = field(default_factory=list)
    """The components that asked, where the answer is public."""
    seen: dict[tuple[str, str], Seen] = field(default_factory=dict)


class _Components(Rule):
    """Refuses publications of components that the graph does not name, where the graph says so.

    It is volatile: the graph at the time of the publication decides. At its release on an ordered bus, the graph
    of its order key decides who sees it.
    """

    depends = Depends(producer=True, volatile=True)

    def __init__(self, running: Running) -> None:
        self._running = running

    def admit(self, who: str, notification: Notification, now: int) -> Refusal | None:
        return unknown_component(self._running.system.graph, notification.producer)


class Scoped:
    """The scopes of a bus. The bus's lock guards all of it."""

    def __init__(
        self,
        scopes: Scopes | System,
        *,
        ordered: bool,
        match: Match,
        registry: Registry,
        validity: dict[str, Validity],
        handing_over: HandingOver,
        counts: dict[str, int],
        engine: str,
        published: Callable[[Notification, OrderKey | None], object],
        hold: Callable[[Notification], object],
        changed: Changed | None = None,
    ) -> None:
        system = scopes.system if isinstance(scopes, Scopes) else scopes
        self.running = Running(system, ordered=ordered, changed=changed)
        self.rule = _Components(self.running)
        self._ordered = ordered
        self._match, self._registry, self._validity = match, registry, validity
        self._handing_over, self._counts, self._published = handing_over, counts, published
        self._hold = hold
        self._engine = engine
        self._questions = Questions(self._queries)
        self._atoms: Engine[tuple[str, str, int]] | None = None
        self._fed: dict[Set, list[tuple[OrderKey, Notification]]] = {}
        self._waiting: dict[tuple[str, str], list[Seen]] = {}
        """On a live bus: what was seen of notifications that patterns have not looked at yet."""
        self._notices: list[Notice] = []
        self._time = 0
        self._looked_at = BEGINNING
        """Patterns have looked at everything before this time."""

    # -- the next notification of the order --------------------------------------------------------------------

    def enter(
        self,
        notification: Notification,
        key: OrderKey | None,
        *,
        origins: Iterable[str] | None = None,
        query_ids: tuple[str, ...] = (),
        plan: ScopePlan | None = None,
    ) -> list[Failed]:
        """Hand the next notification, and the composites that it completes, to the components that may see it."""
        failed: list[Failed] = []
        if not self._ordered:
            self._time = max(self._time, event_time(notification))
            failed += self._hand_over_due(self._time + 1)
        if origins is None and self._filters_decide(notification.producer, key):
            return failed + self._enter_by_filters(notification, key)
        self._published(notification, key)  # before what rules make of it
        seen, failures = self._take(notification, key, origins, plan)
        if failures:
            failed.append((failures, notification))
        if self._questions:
            self._see([each for each, _ in seen], None if self._ordered else identity_of(notification))
        return failed + self._notify(notification, key, seen, query_ids)

    def _filters_decide(self, producer: str, key: OrderKey | None) -> bool:
        """Whether nothing but filters decides who sees a notification, and nothing else follows from it."""
        running = self.running
        return not (
            running.ruled or self._questions or running.state or running.plan_at(key).relevant(producer)
        )

    def _enter_by_filters(self, notification: Notification, key: OrderKey | None) -> list[Failed]:
        """The common case, at little more than the cost of a bus without scopes."""
        matching, failures = self._match(notification)
        if key is not None:
            validity = self._validity
            matching = [id for id in matching if id not in validity or key in validity[id]]
        by_id = self._registry.by_id
        seer = self.running.plan_at(key).seer(notification, notification.producer)
        ids = [*compress(matching, seer.each([by_id[id].subscriber for id in matching]))]
        self._published(notification, key)
        self._handing_over.pending.extend(self._registry.handovers(notification, ids, key))
        return [(failures, notification)] if failures else []

    def _take(
        self,
        notification: Notification,
        key: OrderKey | None,
        origins: Iterable[str] | None = None,
        plan: ScopePlan | None = None,
    ) -> tuple[list[tuple[Seen, list[str]]], Failures]:
        """The components that see a notification now, each with the ids of the subscriptions that match its
        version.
        """
        registry, validity = self._registry.by_id, self._validity
        answers: list[tuple[Notification, dict[str, list[str]]]] = []
        failures: Failures = []

        def matched(version: Notification) -> Collection[str]:
            ids, failed = self._match(version)
            failures.extend(failed)
            names: dict[str, list[str]] = {}
            for id in ids:
                if key is None or id not in validity or key in validity[id]:
                    name = registry[id].subscriber
                    if name in names:
                        names[name].append(id)
                    else:
                        names[name] = [id]
            if self._atoms is not None:
                for name, _, _ in self._atoms.match(version):
                    names.setdefault(name, [])
            answers.append((version, names))
            return names.keys()

        outcome = self.running.take(notification, key, matched, origins=origins, plan=plan)
        for failure in outcome.failures:
            self._counts["errors"] += 1
            log.error("the %s failed, and let nothing pass: %s", failure.where, failure.reason)
        if self._questions:
            self._see(outcome.later, None)
        found = []
        for each in outcome.seen:
            names = next(
                (
                    names
                    for version, names in answers
                    if version is each.notification or version.attributes == each.notification.attributes
                ),
                None,
            )
            found.append((each, [] if names is None else names[each.component]))
        return found, failures

    def _notify(
        self,
        notification: Notification,
        key: OrderKey | None,
        seen: list[tuple[Seen, list[str]]],
        query_ids: Iterable[str] = (),
    ) -> list[Failed]:
        """Queue the deliveries of one notification, version by version in the order of their keys, then what its
        versions complete.
        """
        versions: dict[tuple[OrderKey, str], tuple[Notification, OrderKey | None, int | None, list[str]]] = {}
        delivered: set[tuple[str, str]] = set()
        if query_ids:
            versions[key or OrderKey.of(notification), ""] = (notification, key, None, [*query_ids])
        for each, ids in seen:
            if not ids:
                continue
            slot = (each.key, each.tag)
            if slot not in versions:
                place = each.key if self._ordered else None
                versions[slot] = (each.notification, place, each.key.time if each.moved else None, [])
            versions[slot][3].extend(ids)
        for (_, tag), (version, place, time, ids) in sorted(versions.items(), key=lambda item: item[0]):
            handovers = self._registry.handovers(version, ids, place, version=tag, moved_to=time)
            self._handing_over.pending.extend(handovers)
            delivered.update((tag, id) for handover in handovers for id in handover.delivery.subscriptions)
        if self.running.ruled:
            for each, ids in seen:
                if any((each.tag, id) in delivered for id in ids):
                    event = Trigger("con", each.component, notification=each.notification)
                    self.running.happened(event, each.key if self._ordered else None)
        return self._relations(seen) if self._questions else []

    def _hand_over_due(self, bound: OrderKey | int) -> list[Failed]:
        """Deliver what policies had delayed to before a bound, by the subscriptions that are valid there."""
        failed: list[Failed] = []
        for each in self.running.due(bound):
            failed += self._deliver_moved(each)
        return failed

    def _deliver_moved(self, seen: Seen) -> list[Failed]:
        ids, failures = self._ids_of(seen)
        failed: list[Failed] = [(failures, seen.notification)] if failures else []
        return failed + self._notify(seen.notification, seen.key if self._ordered else None, [(seen, ids)])

    def _ids_of(self, seen: Seen) -> tuple[list[str], Failures]:
        """The subscriptions of a component that match a version and are valid at the key of the delivery."""
        matching, failures = self._match(seen.notification)
        by_id, validity = self._registry.by_id, self._validity
        valid = [id for id in matching if not self._ordered or id not in validity or seen.key in validity[id]]
        return [id for id in valid if by_id[id].subscriber == seen.component], failures

    # -- ordered: what the watermark has passed -------------------------------------------------------------------

    def release(self, released: Iterable[tuple[OrderKey, Notification]], watermark: int) -> list[Failed]:
        """Enter what the watermark has passed, and what patterns and policies have for the times between."""
        failed: list[Failed] = []
        for key, notification in released:
            failed += self._up_to(key)
            try:
                failed += self.enter(notification, key)
            except ScopeError as error:  # too many paths: the publisher is not here any more to hear of it
                self._counts["errors"] += 1
                log.error("nobody sees %s of %s: %s", notification.id, notification.producer, error)
        failed += self._up_to(watermark)
        self.running.settle(watermark)
        return failed

    def _up_to(self, bound: OrderKey | int) -> list[Failed]:
        """All that stands before a bound: notices of scopes that go, what was delayed, what patterns find."""
        time = bound if isinstance(bound, int) else bound.time
        failed: list[Failed] = []
        while self._notices and self._is_before(self._notices[0].key, bound):
            notice = self._notices.pop(0)
            failed += self._hand_over_due(notice.key)
            failed += self.enter(notice.notification, notice.key, origins=[notice.scope], plan=notice.plan)
        for answer in self._answers(time) if self._questions else ():
            if answer.key is not None:  # behind all that happened up to its end
                failed += self._hand_over_due(answer.key.time + 1)
            failed += self._deliver_answer(answer)
        return failed + self._hand_over_due(bound)

    @staticmethod
    def _is_before(key: OrderKey, bound: OrderKey | int) -> bool:
        return key.time < bound if isinstance(bound, int) else key < bound

    # -- changes ---------------------------------------------------------------------------------------------

    def noticed(self, notices: Iterable[Notice]) -> list[Failed]:
        """Tell the members of scopes that go."""
        if self._ordered:
            self._notices = sorted((*self._notices, *notices), key=lambda each: each.key)
            return []
        failed: list[Failed] = []
        for each in notices:
            failed += self.enter(each.notification, None, origins=[each.scope], plan=each.plan)
        return failed

    def pass_time(self, time: int) -> list[Failed]:
        """On a live bus: what was delayed to before a time."""
        self._time = max(self._time, time - 1 if time == END else time)
        return self._hand_over_due(time if time == END else time + 1)

    # -- patterns --------------------------------------------------------------------------------------------

    def ask(self, name: str, id: str, question: Query, since: int, until: int) -> None:
        """Add a pattern or fair subscription of a component. FilterError if it would see its own results."""
        self._questions.ask(name, id, question, since, until)
        if self._atoms is None:
            self._atoms = engine_named(self._engine)
        for number, filter in enumerate(question.filters):
            self._atoms.add((name, id, number), filter)

    def ask_no_more(self, name: str, id: str) -> None:
        """End a question."""
        question, gone = self._questions.remove(name, id)
        assert self._atoms is not None, "it has the filters of all questions"
        for number, _ in enumerate(question.filters):
            self._atoms.remove((name, id, number))
        if gone is not None:
            self._fed.pop(gone, None)
        if not self._questions:
            self._atoms = None
            self._waiting.clear()

    def _queries(self) -> QuerySet:
        from fairlead.correlation.queries import QuerySet

        return QuerySet(lambda: engine_named(self._engine), live=not self._ordered)

    @property
    def is_timed(self) -> bool:
        """Whether some question is about how time passes."""
        return self._questions.is_timed

    def _see(self, seen: Iterable[Seen], waiting: tuple[str, str] | None) -> None:
        """Keep for patterns what their components see until time has passed; on a live bus, until its release."""
        for each in seen:
            if not any(queries.is_timed for queries in self._questions.of(each.component).values()):
                continue
            if waiting is not None:
                self._waiting.setdefault(waiting, []).append(each)
            elif each.key.time >= self._looked_at:
                self._feed(each, each.key)

    def _feed(self, seen: Seen, key: OrderKey) -> None:
        version = as_version(seen.notification, seen.tag)
        for where, queries in self._questions.of(seen.component).items():
            if queries.is_timed:
                self._fed.setdefault(where, []).append((key, version))

    def overlook(self, notification: Notification) -> None:
        """Leave a notification out of all patterns: it came too late for them."""
        self._waiting.pop(identity_of(notification), None)
        for queries in self._questions.all():
            queries.overlook(notification)

    def look_at(self, released: Iterable[tuple[OrderKey, Notification]], watermark: int) -> list[Failed]:
        """On a live bus: pass notifications below the watermark to the patterns."""
        for key, notification in released:
            for each in self._waiting.pop(identity_of(notification), ()):
                self._feed(each, each.key if each.moved else key)
        failed: list[Failed] = []
        for answer in self._answers(watermark):
            failed += self._deliver_answer(answer)
        return failed

    def _answers(self, bound: int) -> list[_Result]:
        """The composites of patterns before a bound, in order. Public ones are taken here: other patterns may
        see them.
        """
        from fairlead.correlation.queries import rank_of

        found: dict[tuple[Any, ...], _Result] = {}
        for where, queries in self._questions.in_order():
            if not queries.is_timed:
                continue
            fed = self._fed.pop(where, [])
            for answer in queries.advance([each for each in fed if each[0].time < bound], bound):
                entry = found.setdefault(rank_of(answer), _Result(answer.notification, answer.key))
                entry.ids.extend(answer.ids)
                if answer.is_public:
                    self._publish_answer(entry, where)
            if later := [each for each in fed if each[0].time >= bound]:
                self._fed[where] = later
        self._looked_at = max(self._looked_at, bound)
        return [found[place] for place in sorted(found)]

    def _publish_answer(self, answer: _Result, asked: Set) -> None:
        """A public answer comes from the component that asked: whoever may see it does, other patterns too."""
        assert answer.key is not None, "composites are in the total order"
        if not answer.origins:
            self._published(answer.notification, answer.key if self._ordered else None)
        if asked.component in answer.origins:
            return
        answer.origins.append(asked.component)
        for each, _ in self._take(answer.notification, answer.key, [asked.component])[0]:
            if (each.component, each.tag) in answer.seen:
                continue
            answer.seen[each.component, each.tag] = each
            for where, queries in self._questions.of(each.component).items():
                if where != asked or each.tag:
                    queries.see(as_version(each.notification, each.tag), answer.key)

    def _deliver_answer(self, answer: _Result) -> list[Failed]:
        self._counts["composites"] += 1
        key = answer.key if self._ordered else None
        if not answer.origins:
            return self._hand_over_privately(answer, key)
        seen = [(each, self._ids_of(each)[0]) for each in answer.seen.values()]
        return self._notify(answer.notification, key, seen, answer.ids)

    def _hand_over_privately(self, answer: _Result, key: OrderKey | None) -> list[Failed]:
        """Those who asked get an answer that is not public."""
        self._handing_over.pending.extend(
            self._registry.handovers(answer.notification, answer.ids, key, is_public=False)
        )
        return []

    def _relations(self, seen: list[tuple[Seen, list[str]]]) -> list[Failed]:
        """Deliver the relations that a notification completes for the fair subscriptions of those who see it."""
        found: dict[str, _Result] = {}
        for each, _ in sorted(seen, key=lambda pair: (pair[0].tag, pair[0].component)):
            for answer in self._relations_of(each):
                entry = found.setdefault(
                    answer.notification.id or "", _Result(answer.notification, answer.key)
                )
                entry.ids.extend(answer.ids)
                if answer.is_public and each.component not in entry.origins:
                    entry.origins.append(each.component)
        failed: list[Failed] = []
        for made in found.values():
            self._counts["composites"] += 1
            if not made.origins:
                failed += self._hand_over_privately(made, made.key)
                continue
            query_ids = tuple(made.ids)
            failed += self.enter(made.notification, made.key, origins=made.origins, query_ids=query_ids)
            self._hold(made.notification)  # it is published by itself: so it is on a live bus only
        return failed

    def _relations_of(self, seen: Seen) -> Iterator[Result]:
        """The relations that a version completes for the fair subscriptions of a component that sees it."""
        version, key = as_version(seen.notification, seen.tag), seen.key if self._ordered else None
        for queries in self._questions.of(seen.component).values():
            yield from queries.relations(version, key)

    def failed_filters(self) -> Iterator[Failed]:
        """Filters of questions that failed instead of answering."""
        for queries in self._questions.all():
            for each in queries.take_failures():
                yield [(self._registry.by_id[id], each.error) for id in each.ids], each.notification
