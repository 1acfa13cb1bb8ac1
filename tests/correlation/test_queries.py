"""All questions of one order against their definitions, one by one: what each sees, finds and where it stands.

The oracle asks each question by itself, over the whole stream, with the slow references of both languages; what a
question sees of others is what these have found, by the same means.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.correlation import fair, patterns
from fairlead.correlation.occurrences import Occurrence
from fairlead.correlation.queries import Query, QuerySet
from fairlead.errors import FilterError
from fairlead.matching.brute import Brute
from fairlead.model import Instant, Notification
from fairlead.model.encoding import format_json, notification_to_json
from fairlead.model.order import BEGINNING, END, OrderKey, order_keys
from fairlead_lab.correlation.fair.reference import deliveries
from fairlead_lab.correlation.patterns.reference import detect
from fairlead_lab.testing.patterns import TIME_MAX, streams

PATTERNS = (
    "spike: A followed by B within 9 us",
    "spike: [x > 1] as big",
    "wave: pair followed by C within 20 us",
    "wave: spike followed by joint within 20 us, taking all matches",
    'top: [type in {"wave", "joint"}] as t',
    "2 or more pair as p followed by D within 30 us",
    '[type in {"joint", "B"}] as w then no pair within 5 us',
    'over: [type = "composite"] as c followed by pair',
)
FAIR = (
    "pair: A.x <= B.x",
    "pair: A.x <= B.x or C",
    "joint: A.x <= B.x",
    "joint: A.x <= B.x or spike",
    "joint: pair and D",
    "joint: spike[2] or pair[2].number > 2",
    "top: joint and wave or C[2]",
    "top: joint[2] or composite and A",
    "pair: top and A",
    "A.x <= B.x",
    "spike and D or wave",
    "joint.number >= pair.number",
    "composite and A",
)
"""Questions over events, over one another's composites, and in circles."""
Asking = patterns.Pattern | fair.Subscription
QUESTIONS = (
    *(Query(patterns.parse(text)) for text in PATTERNS),
    *(Query(fair.parse(text)) for text in FAIR),
    *(Query(fair.parse(text), fair.Choice.MOST_RECENT) for text in FAIR[:5]),
)


@dataclass(frozen=True)
class Asked:
    """A question, and for which order times."""

    id: str
    question: Query
    since: int = BEGINNING
    until: int = END

    @property
    def sees(self) -> frozenset[str]:
        about = self.question.about
        if isinstance(about, patterns.Pattern):
            return about.types_named
        return frozenset(about.signature) - {"composite"}


def asking(questions: Iterable[Query] = QUESTIONS) -> st.SearchStrategy[list[Asked]]:
    """Some questions, some of them for a part of the order."""
    since = st.sampled_from((BEGINNING, BEGINNING, BEGINNING, 3, 8))
    until = st.sampled_from((END, END, END, 9, 16))
    drawn = st.lists(st.tuples(st.sampled_from(list(questions)), since, until), min_size=2, max_size=12)
    return drawn.map(lambda rows: [Asked(f"q{n}", *row) for n, row in enumerate(rows)])


# -- the oracle ----------------------------------------------------------------------------------------------


def makes(asked: Asked) -> str | None:
    """The type that others see its answers by."""
    about = asked.question.about
    return about.name if isinstance(about, patterns.Pattern) or about.is_public else None


def is_circular(several: Sequence[Asked]) -> bool:
    """Whether somebody sees its own answers, be it over others."""

    def seen(asked: Asked) -> Iterator[Asked]:
        return (each for each in several if makes(each) in asked.sees)

    def reaches(asked: Asked, wanted: Asked, known: set[str]) -> bool:
        for each in seen(asked):
            if each.id == wanted.id or (each.id not in known and reaches(each, wanted, known | {each.id})):
                return True
        return False

    return any(reaches(each, each, set()) for each in several)


@dataclass
class Told:
    """An answer with its place: events before composites, these by (start, whose, id), others behind either."""

    notification: Notification
    place: tuple[Any, ...]
    is_public: bool
    ids: set[str] = field(default_factory=set)
    occurrence: Occurrence | None = None


class Oracle:
    """What is found for each question, by its definition."""

    def __init__(self, several: Sequence[Asked], stream: Sequence[tuple[OrderKey, Notification]]) -> None:
        self._several = several
        self._events = [Occurrence.of(one, key) for key, one in stream]
        self._found: dict[str, list[Told]] = {}

    def answers(self) -> list[Told]:
        told: dict[str, Told] = {}
        for asked in self._several:
            for each in self.found(asked):
                told.setdefault(str(each.notification.id), each).ids.add(asked.id)
        return sorted(told.values(), key=lambda each: each.place)

    def found(self, asked: Asked) -> list[Told]:
        if asked.id not in self._found:
            self._found[asked.id] = list(self._find(asked))
        return self._found[asked.id]

    def _stream(self, asked: Asked) -> list[Occurrence]:
        """The events, and the composites of the types that it names, from its beginning up to its end."""
        composites = {
            str(told.notification.id): told.occurrence
            for other in self._several
            if other.question != asked.question and makes(other) in asked.sees
            for told in self.found(other)
            if told.occurrence is not None and (told.is_public or asked.question.is_pattern)
        }
        every = [*self._events, *(each for each in composites.values() if each is not None)]
        return [each for each in every if asked.since <= each.end < asked.until]

    def _find(self, asked: Asked) -> Iterator[Told]:
        about, stream = asked.question.about, self._stream(asked)
        if isinstance(about, patterns.Pattern):
            end = None if asked.until == END else asked.until
            for composite in detect(about, sorted(stream), end):
                if composite.end < asked.until:
                    at = composite.occurrence()
                    is_public = about.name != "composite"
                    yield Told(at.notification, place_of(at), is_public, occurrence=at)
            return
        established = sorted(stream, key=place_of)
        recent = asked.question.choice is fair.Choice.MOST_RECENT
        events = [each.notification for each in established]
        for conjunction in about.conjunctions:
            given = deliveries(conjunction, events, most_recent=recent)
            for number, (last, constituents) in enumerate(given, start=1):
                relation = fair.Relation(conjunction, number, constituents, about.name)
                yield self._related(relation, established[last])

    def _related(self, relation: fair.Relation, last: Occurrence) -> Told:
        notification, text = relation.notification(), str(relation.conjunction)
        if not relation.is_public:
            return Told(notification, (*place_of(last), text, relation.number), is_public=False)
        start = notification.get("interval.start").microseconds
        at = Occurrence.composite(notification, min(start, last.end), last.end, text)
        return Told(notification, place_of(at), is_public=True, occurrence=at)


def place_of(occurrence: Occurrence) -> tuple[Any, ...]:
    end, start, is_composite, whose, has_sequence, sequence, id = occurrence.rank
    return (
        (end, 1, start, whose, False, 0, id)
        if is_composite
        else (end, 0, 0, whose, has_sequence, sequence, id)
    )


# -- the law -------------------------------------------------------------------------------------------------


def in_order(stream: Iterable[Notification]) -> list[tuple[OrderKey, Notification]]:
    given = list(stream)
    return sorted(zip(order_keys(given), given, strict=True), key=lambda each: each[0].rank)


def shown(notification: Notification, ids: Iterable[str], is_public: bool) -> tuple[str, list[str], bool]:
    return format_json(notification_to_json(notification)), sorted(ids), is_public


@settings(max_examples=150)
@given(asking(), streams(max_size=14), st.randoms(use_true_random=False))
def test_each_question_finds_what_its_definition_says_over_what_the_others_have_found(
    drawn: list[Asked], given_events: list[Notification], rng: Any
) -> None:
    """However time is told, and whether questions are there before their time or come and go with it."""
    trial, several = QuerySet(Brute), []
    for asked in drawn:
        if is_circular([*several, asked]):
            with pytest.raises(FilterError, match="see their own composites"):
                trial.add(asked.id, asked.question, asked.since, asked.until)
        else:
            trial.add(asked.id, asked.question, asked.since, asked.until)
            several.append(asked)
    stream = in_order(given_events)
    expected = [
        shown(each.notification, each.ids, each.is_public) for each in Oracle(several, stream).answers()
    ]

    query_set, found = QuerySet(Brute), []
    early = {asked.id: asked.since == BEGINNING or rng.random() < 0.5 for asked in several}
    known = {asked.id: rng.random() < 0.5 for asked in several}
    for asked in several:
        if early[asked.id]:
            query_set.add(asked.id, asked.question, asked.since, asked.until if known[asked.id] else END)
    steps = {bound for asked in several for bound in (asked.since, asked.until)} - {BEGINNING, END}
    before = BEGINNING
    for bound in [*sorted(steps | set(rng.sample(range(TIME_MAX), 3))), END]:
        released = [each for each in stream if before <= each[0].time < bound]
        found += list(query_set.results(released, bound))
        before = bound
        for asked in several:
            if asked.until == bound != END and not known[asked.id]:
                query_set.remove(asked.id)
            if asked.since == bound and not early[asked.id] and asked.until > bound:
                query_set.add(asked.id, asked.question, bound, asked.until if known[asked.id] else END)
    assert [shown(each.notification, each.ids, each.is_public) for each in found] == expected
    assert not query_set.take_failures()


# -- circles -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("live", [False, True])
def test_a_circle_through_patterns_and_fair_subscriptions_is_refused_and_leaves_nothing_behind(
    live: bool,
) -> None:
    query_set = QuerySet(Brute, live=live)
    query_set.add("p", Query(patterns.parse("wave: pair followed by C")))
    for text, circle in (
        ("pair: wave and A", "pair ◀ wave"),
        ("pair: A or B and wave", "pair ◀ wave"),
        ("self: A and self", "self"),
        ("self: A or self.x > 1", "self"),
    ):
        with pytest.raises(FilterError, match=f"see their own composites: {circle}"):
            query_set.add("f", Query(fair.parse(text)))
    assert len(query_set) == 1
    query_set.add("f", Query(fair.parse("pair: A and B")))
    with pytest.raises(FilterError, match="see their own composites: pair ◀ wave"):
        query_set.add("g", Query(fair.parse("pair: wave[2]")))
    query_set.remove("p")
    query_set.add("g", Query(fair.parse("pair: wave[2]")))


def test_a_subscription_cannot_be_called_as_composites_are_that_have_no_name() -> None:
    for name in ("composite", "composite.partial"):
        with pytest.raises(FilterError, match="unnamed detections"):
            fair.parse(f"{name}: A and B")
        with pytest.raises(FilterError, match="unnamed detections"):
            fair.Subscription.of(fair.parse("A and B").conjunctions, name)


# -- names ---------------------------------------------------------------------------------------------------


def at(*events: str, **attributes: Any) -> list[tuple[OrderKey, Notification]]:
    """Events by type and time, `A1`, which is their id as well."""
    fields = ({"id": each, "type": each[0], "time": Instant(int(each[1:])), **attributes} for each in events)
    return in_order(map(Notification.of, fields))


def test_each_name_of_a_conjunction_gives_a_composite_and_no_name_a_relation_for_who_asked() -> None:
    query_set = QuerySet(Brute)
    for id, text in {
        "one": "pair: A and B",
        "other": "both: A and B",
        "none": "A and B",
        "two": "pair: B and A",
    }.items():
        query_set.add(id, Query(fair.parse(text)))
    found = list(query_set.results(at("A1", "B2"), END))
    told = [(each.notification.get("type"), each.ids, each.is_public) for each in found]
    assert told[0] == ("relation", ("none",), False)
    assert set(told[1:]) == {("pair", ("one", "two"), True), ("both", ("other",), True)}
    assert len({each.notification.id for each in found}) == 3
    assert {each.notification.get("conjunction") for each in found} == {"A[1] and B[1]"}


def types_told(questions: dict[str, Asking], *events: str) -> list[str]:
    """The types of the answers to some questions."""
    query_set = QuerySet(Brute)
    for id, asked in questions.items():
        query_set.add(id, Query(asked))
    return [str(each.notification.get("type")) for each in query_set.results(at(*events), END)]


def test_what_two_subscriptions_on_different_levels_find_alike_is_there_once() -> None:
    questions: dict[str, Asking] = {
        "low": fair.parse("joint: A and B"),
        "high": fair.parse("joint: A and B or spike"),
        "spike": patterns.parse("spike: X"),
        "top": fair.parse("top: joint[2]"),
    }
    assert types_told(questions, "A1", "B2") == ["joint"]
    assert sorted(types_told(questions, "A1", "B2", "X3")) == ["joint", "joint", "spike", "top"]


def test_composites_for_those_who_asked_are_no_events_of_fair_subscriptions() -> None:
    questions: dict[str, Asking] = {
        "private": patterns.parse("A"),
        "named": fair.parse("top: composite and B"),
        "unnamed": fair.parse("composite and B"),
        "relation": fair.parse("all: relation"),
    }
    assert types_told(questions, "A1", "B2") == ["composite"]


def test_the_id_of_a_relation_without_a_name_is_what_it_was_before_there_were_names() -> None:
    query_set = QuerySet(Brute)
    query_set.add("f", Query(fair.parse("A and B")))
    [found] = query_set.results(at("A1", "B2"), END)
    assert found.notification.id == "68e93e0630ac728a1229d31a0fdf562c"


def test_what_comes_to_be_seen_by_others_goes_on_with_what_it_holds() -> None:
    """Levels change while events flow, up and down, and nothing that was begun is lost."""
    query_set, told = QuerySet(Brute), list[str]()
    for id, text in {"over": "over: pair and D", "pair": "pair: spike and B"}.items():
        query_set.add(id, Query(fair.parse(text)))

    def run(*events: str, bound: int) -> None:
        told.extend(each.ids[0] for each in query_set.results(at(*events), bound))

    run("B1", "D2", bound=3)  # both hold something, on their levels
    query_set.add("spike", Query(patterns.parse("spike: X")))
    run("X3", bound=5)  # one level up, and one answer completes the next
    assert told == ["pair", "over", "spike"]
    run("B5", "D6", bound=7)
    query_set.remove("spike")
    run("s7", bound=8)
    query_set.add("spike", Query(patterns.parse("spike: Y")))
    run("Y8", bound=9)
    assert told == ["pair", "over", "spike"] * 2
