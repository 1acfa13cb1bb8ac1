"""The results of a query at its host are those of an ordered bus with its bounds, however often it is killed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.broker.hosting import Entry, HostedDetector, HostedQuery, home_of
from fairlead.correlation import fair, patterns
from fairlead.correlation.queries import Query, QuerySet
from fairlead.delivery import OrderedQueue
from fairlead.errors import FairleadError, ValueRefused
from fairlead.matching import engine_named
from fairlead.model import Instant, Notification
from fairlead.model.order import END
from fairlead_lab.testing.fair import subscriptions
from fairlead_lab.testing.patterns import patterns as some_patterns

Step = tuple[str, Any]


def event(number: int, type: str, time: int, **attributes: Any) -> Notification:
    return Notification.of(
        {"id": f"{number}", "producer": "p", "type": type, "time": Instant(time), **attributes}
    )


@st.composite
def runs(draw: st.DrawFn) -> list[Step]:
    """Events in any order, some of which follow others; looks of the host; kills; entries that are shortened."""
    steps: list[Step] = []
    for number in range(draw(st.integers(3, 14))):
        attributes = {name: draw(st.integers(0, 3)) for name in "xyk"}
        if draw(st.booleans()):
            attributes["sequence"] = number
        if draw(st.integers(0, 3)) == 0:
            attributes["cause"] = str(draw(st.integers(0, 14)))
        time = draw(st.integers(0, 30))
        steps.append(("hear", event(number, draw(st.sampled_from("ABCD")), time, **attributes)))
        steps += [
            (each, None) for each in draw(st.lists(st.sampled_from(["look", "kill", "shorten"]), max_size=2))
        ]
    return [*steps, ("end", None)]


class Host:
    """A host that is killed: what it knows is what it has written."""

    def __init__(self, query: HostedQuery, made: type[HostedDetector] = HostedDetector) -> None:
        self.query, self.made = query, made
        self.lines: list[str] = []
        self.detector = made(query, 4)
        self._begin()
        self.published: dict[str, str] = {}
        self.bounds: list[int] = []
        self._place = 0

    def _begin(self) -> None:
        self.detector.journal = lambda entry: self.lines.append(json.dumps(entry))

    def run(self, steps: list[Step]) -> None:
        for step, each in steps:
            match step:
                case "hear":
                    self._place += 1
                    self.detector.hear(each, self._place)
                    if self._place % 3 == 0:
                        self.detector.hear(each, self._place)  # the log has not heard that it was taken
                case "look":
                    self._advance(self.detector.due())
                case "end":
                    self._advance(END - 1)
                case "shorten":
                    self.lines = [json.dumps(self.detector.snapshot())]
                case "kill":
                    self.detector = self.made(self.query, 4)
                    for line in self.lines:
                        self._publish(self.detector.replay(json.loads(line)))
                    self._begin()

    def _advance(self, bound: int | None) -> None:
        if bound is not None:
            self._publish(self.detector.advance(bound))

    def _publish(self, results: list[Notification]) -> None:
        """Brokers drop a copy of what was published before."""
        for each in results:
            assert self.query.filter.matches(each)
            self.published.setdefault(each.id or "", repr(self.query.result_of(each)))


def of_the_bus(query: HostedQuery, steps: list[Step]) -> list[str]:
    """What the order and the kernel of an ordered bus find, whose watermark moves when the host looks."""
    queue = OrderedQueue(4, ("the host",))
    queries = QuerySet(lambda: engine_named("brute"))
    queries.add("", query.query)
    found: list[str] = []
    newest = -1

    def reach(bound: int) -> None:
        queue.punctuate(bound)
        found.extend(repr(each.notification) for each in queries.results(queue.release(), queue.watermark))

    for step, each in steps:
        if step == "hear":
            queue.add(each)
            newest = max(newest, each.time.microseconds)
        elif step == "look" and newest >= 0 and newest - 4 > queue.watermark:
            reach(newest - 4)
        elif step == "end":
            reach(END - 1)
    return found


def queries() -> st.SearchStrategy[HostedQuery]:
    names = st.sampled_from(["relation", "alarm"])
    choices = st.sampled_from([each.value for each in fair.Choice])
    return st.one_of(
        some_patterns().map(Query.of),
        st.builds(Query.of, subscriptions("ABC", names), choices),
    ).map(HostedQuery)


@settings(max_examples=150, deadline=None)
@given(queries(), runs())
def test_the_results_are_those_of_an_ordered_bus_however_often_it_is_killed(
    query: HostedQuery, steps: list[Step]
) -> None:
    host = Host(query)
    host.run(steps)
    assert [*host.published.values()] == of_the_bus(query, steps)


class Forgetful(HostedDetector):
    """Writes nothing of what it has looked at."""

    def advance(self, bound: int) -> list[Notification]:
        return self._advance(bound)


class Timeless(HostedDetector):
    """Goes on without what it held."""

    def snapshot(self) -> Entry:
        return {**super().snapshot(), "order": []}


class Stateless(HostedDetector):
    """Goes on without the matches in progress."""

    def snapshot(self) -> Entry:
        return {**super().snapshot(), "progress": HostedDetector(self.query).snapshot()["progress"]}


SCENE: list[Step] = [
    ("hear", event(1, "A", 1, x=1)),
    ("hear", event(2, "Z", 6)),
    ("look", None),
    ("hear", event(3, "B", 9, x=2)),
    ("look", None),
    ("shorten", None),
    ("kill", None),
    ("hear", event(4, "A", 3, x=9)),
    ("end", None),
]


@pytest.mark.parametrize("mutant", [Forgetful, Timeless, Stateless])
def test_every_mutant_is_found(mutant: type[HostedDetector]) -> None:
    query = HostedQuery(Query.of(fair.parse("A.x < B.x")))
    steps = SCENE
    if mutant is Forgetful:  # what was late before is in time again
        steps = [
            ("hear", event(1, "A", 1, x=8)),
            ("hear", event(2, "A", 9, x=1)),
            ("look", None),
            ("kill", None),
        ]
        steps += [("hear", event(3, "A", 2, x=0)), ("hear", event(4, "B", 10, x=7)), ("end", None)]
    right, broken = Host(query), Host(query, mutant)
    right.run(steps)
    broken.run(steps)
    expected = of_the_bus(query, steps)
    assert [*right.published.values()] == expected
    assert expected
    assert [*broken.published.values()] != expected


def test_a_query_is_the_same_wherever_it_is_read() -> None:
    for made in (
        HostedQuery(Query.of(patterns.parse("n: A then no C within 1 second"))),
        HostedQuery(Query.of(fair.parse("alarm: A.x < B.x or C"), "most recent")),
    ):
        read = HostedQuery.from_json(json.loads(json.dumps(made.to_json())))
        assert (read.key, read.filter, read.wanted) == (made.key, made.filter, made.wanted)
    both = [HostedQuery(Query.of(fair.parse("A and B"), choice)).key for choice in fair.Choice]
    assert len(set(both)) == len(both)
    for wrong in ({}, {"pattern": 1}, {"fair": "A"}, {"pattern": "A followed"}, {"fair": "A", "choice": "x"}):
        with pytest.raises(FairleadError):
            HostedQuery.from_json(wrong)


def test_the_relations_of_two_histories_do_not_pass_for_one_another() -> None:
    one, other = (HostedQuery(Query.of(fair.parse(text))) for text in ("A", "A or B"))

    def relations(query: HostedQuery) -> Iterator[Notification]:
        detector = HostedDetector(query)
        detector.hear(event(1, "A", 1), 1)
        yield from detector.advance(END - 1)

    [first], [second] = relations(one), relations(other)
    assert first.id != second.id
    assert one.filter.matches(first)
    assert not one.filter.matches(second)
    assert repr(one.result_of(first)) == repr(other.result_of(second))


@given(st.sets(st.text("abcdef", min_size=1, max_size=3), min_size=2, max_size=6), st.integers())
def test_a_host_that_goes_leaves_only_its_own_queries(hosts: set[str], number: int) -> None:
    key = str(number)
    home = home_of(key, hosts)
    assert home == home_of(key, sorted(hosts))
    gone = min(hosts)
    assert home_of(key, hosts - {gone}) == home or home == gone


def test_homes_are_shared_out() -> None:
    hosts = ["hub", "east", "west"]
    homes = [home_of(str(number), hosts) for number in range(3_000)]
    assert min(map(homes.count, hosts)) > 900


def test_entries_of_another_version_are_refused_by_name() -> None:
    detector = HostedDetector(HostedQuery(Query.of(fair.parse("A"))))
    with pytest.raises(ValueRefused, match="version 2, where 1 is read"):
        detector.replay({**detector.snapshot(), "version": 2})
