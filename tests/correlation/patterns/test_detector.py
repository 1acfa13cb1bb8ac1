"""The detector against the reference: the same composites, whatever the pattern and the stream."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.correlation.kernel import Detected
from fairlead.correlation.occurrences import Occurrence
from fairlead.correlation.patterns import automaton as automata
from fairlead.correlation.patterns import conditions
from fairlead.correlation.patterns.composites import Composite
from fairlead.correlation.patterns.detector import Detector, shared_of
from fairlead.correlation.patterns.forms import form_of, with_atoms
from fairlead.correlation.patterns.instance import Instance
from fairlead.correlation.patterns.language import parse
from fairlead.correlation.patterns.model import EVER, Atom, Pattern, Take, none_before
from fairlead.errors import FilterError
from fairlead.filters import parse as filter_of
from fairlead.matching.brute import Brute
from fairlead.model import ABSENT, Instant, Notification
from fairlead.model.encoding import fields_from_json, notification_to_json
from fairlead.model.order import END, order_keys
from fairlead_lab.correlation.patterns.reference import detect
from fairlead_lab.testing.patterns import patterns, streams

CORPUS = json.loads((Path(__file__).parents[2] / "corpus" / "patterns.json").read_text(encoding="utf-8"))


def occurrences(notifications: Iterable[Notification]) -> list[Occurrence]:
    """Notifications at their places."""
    given = list(notifications)
    return sorted(map(Occurrence.of, given, order_keys(given)))


def shown(composites: Iterable[Composite]) -> list[object]:
    """What is compared."""
    return [
        (
            each.end,
            each.partial,
            [(step, taken.notification.id) for step, taken in each.constituents],
            each.outputs,
        )
        for each in composites
    ]


def detector_of(several: Iterable[Pattern], *, remembers: bool = False) -> Detector:
    """A detector of several patterns."""
    detector = Detector(Brute(), remembers=remembers)
    for number, pattern in enumerate(several):
        detector.add(f"p{number}", replace(pattern, name=f"n{number}"))
    return detector


def as_json(found: Iterable[Detected[Composite]]) -> list[object]:
    """Composites to the byte."""
    return [(each.ids, notification_to_json(each.composite.notification())) for each in found]


def found(pattern: Pattern, stream: list[Occurrence], *, bounds: Iterable[int] = ()) -> list[Composite]:
    """What the detector finds, told of the time in steps."""
    detector = Detector(Brute())
    detector.add("p", pattern)
    for occurrence in stream:
        detector.feed(occurrence)
    return [each.composite for bound in (*bounds, END) for each in detector.advance(bound)]


FILTERS = [
    *map(filter_of, ('type = "A"', 'type = "B"', 'type = "C"', 'type = "A" and x > 1', "true", "y = 0"))
]


@st.composite
def of_one_form(draw: st.DrawFn, *, max_size: int = 3) -> list[Pattern]:
    """Patterns that differ in what their atoms take and have in their domains, and in nothing else."""
    pattern = draw(patterns())

    def changed(atom: Atom) -> Atom:
        filter, domain = atom.filter, atom.domain
        return replace(
            atom,
            filter=None if filter is None else draw(st.sampled_from([filter, filter, *FILTERS])),
            domain=None if domain is None else draw(st.sampled_from([domain, *FILTERS])),
        )

    others = [with_atoms(pattern.body, changed) for _ in range(draw(st.integers(1, max_size)))]
    return [pattern, *(replace(pattern, body=body) for body in others)]


def for_each(found: Iterable[Detected[Composite]], id: str) -> list[object]:
    """The composites that were found for one pattern, to the byte."""
    return [notification_to_json(each.composite.notification()) for each in found if id in each.ids]


@given(patterns(), streams())
@settings(max_examples=200)
def test_the_detector_finds_what_the_definition_says(pattern: Pattern, given: list[Notification]) -> None:
    stream = occurrences(given)
    assert shown(found(pattern, stream)) == shown(detect(pattern, stream)), str(pattern)


COMPARED = (
    "A then no B within 5 us as n, n.x > A.x",
    "A followed by C then no B until 1970-01-01T00:00:00.000020Z as n, n.x != A.x and n.y < C.y + 1",
    "1 or more A as a then no B within 6 us as n, n.x >= sum(a.x)",
    "2 or more A as a then no (B or C) within 6 us as n, n.x > max(a.x), n.time < first(a.time) + 4 us",
    "any order of (A then no B within 5 us as n) and C, n.x = A.x",
    "A starting timer T for 6 us then (timer T without B as n followed by C), n.x > A.x, same k",
    "A then no B within 5 us as n within 9 us, n.x > 1, with partial matches",
)
"""Patterns in which what is not to happen is compared with what was taken."""


@given(st.sampled_from(COMPARED), st.sampled_from(list(Take)), streams(max_size=12), st.integers(0, 30))
@settings(max_examples=200)
def test_what_is_not_to_happen_is_compared_as_the_definition_says(
    text: str, take: Take, given: list[Notification], bound: int
) -> None:
    pattern, stream = replace(parse(text), take=take), occurrences(given)
    assert shown(found(pattern, stream, bounds=[bound])) == shown(detect(pattern, stream)), str(pattern)


CHOOSING = (
    "A followed by any B followed by C, C.x >= B.x",
    "A followed by B without (C as c), c.x > A.x",
    "A followed by B without C without (D as d), d.x = A.x, same k",
    "1 or more A as a until (B as u) followed by C, u.x > sum(a.x)",
    "2 or more A until (D as d) followed by C, d.x > A.x",
    "A followed by C unless next (B or D as n) among (B or C or D), n.x >= A.x",
    "A followed by greedily any number of [x > 1] as b followed by [y = 0] as c, c.x > count(b)",
    "A followed by greedily 1 or more B starting timer T for 7 us then (C else timer T), C.x > A.x",
    "A followed by greedily any number of [x > 1] starting timer T for 3 us then ([true] as r else timer T)",
    "A followed by greedily 1 to 2 (any B) followed by [x >= 1] within 9 us, with partial matches",
    "D followed by permutation of A, 2 or more B as b and C within 20 us, sum(b.x) > C.x",
    "A followed by 1 or more B as b followed by C, taking from the last b",
    "1 or more A as a followed by B, a.time <= last(a.time) + 3 us",
    "(A unless B within 5 us before) followed by C, C.x >= A.x",
    "A followed by (B among (A or B) unless [x > 1] before) followed by C, same k",
    "1 or more (A unless (A as early) within 3 us before) followed by [x > 0] within 20 us",
    "A then no D within 6 us followed by B unless ([y = 0] as b) within 4 us before, B.x > prev(B.x)",
)
"""Patterns that pass events over, bar them, have precedence, or leave the order free."""


@given(st.sampled_from(CHOOSING), st.sampled_from(list(Take)), streams(max_size=12), st.integers(0, 30))
@settings(max_examples=300)
def test_bars_precedence_and_free_orders_are_as_the_definition_says(
    text: str, take: Take, given: list[Notification], bound: int
) -> None:
    pattern, stream = parse(text), occurrences(given)
    if pattern.resume is None:
        pattern = replace(pattern, take=take)
    assert shown(found(pattern, stream, bounds=[bound])) == shown(detect(pattern, stream)), str(pattern)


MISTAKES: dict[str, tuple[str, str, object, str, object]] = {
    "greedy rounds have no precedence": (
        "greedily 1 or more A followed by [x > 1]",
        "AAAAB",
        automata,
        "_preferring",
        lambda head, rest, strong, begun: begun,
    ),
    "what is taken ends a match as well": (
        "A followed by B without ([x > 0] as c), c.x > A.x",
        "AB",
        automata,
        "_took",
        lambda transition: False,
    ),
    "the next match starts behind the last event": (
        "A followed by A as b followed by B, taking from the first b",
        "AABAB",
        Instance,
        "_resumes",
        lambda self, path, ends: path[-1][0],
    ),
    "nothing comes before what is taken": (
        "A unless B within 2 us before",
        "ABAAA",
        Instance,
        "_with_preceding",
        lambda self, occurrence, reaction: occurrence,
    ),
    "what came long before is too early as well": (
        "A unless B within 2 us before",
        "ABAAA",
        conditions,
        "none_before",
        lambda step, bar, lead: none_before(step, bar, EVER),
    ),
}
"""What could be wrong: a pattern, the types of a stream with x = 0, 1, …, and what is replaced."""


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_about_them_are_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, types, where, name, other = MISTAKES[mistake]
    stream = occurrences(
        Notification.of({"id": f"{n}", "type": type, "x": n, "time": Instant(n)})
        for n, type in enumerate(types)
    )
    pattern = parse(text)
    expected = shown(detect(pattern, stream))
    assert expected
    assert shown(found(pattern, stream)) == expected
    monkeypatch.setattr(where, name, other)
    assert shown(found(pattern, stream)) != expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("A unless next B", "a match starts with what it takes"),
        ("greedily 1 or more A", "followed by a step"),
        ("greedily 1 or more A followed by (B or C)", "followed by a step"),
        ("greedily any number of A followed by B", "write greedily 1 or more"),
        ("greedily 1 or more (A followed by B) followed by C", "one step is repeated"),
        ("1 or more (any order of A and B) until C followed by D", "has no `until`"),
        ("permutation of A and any number of B", "may match without"),
        ("A followed by B without (C as c), B.x > c.x", "compared with earlier steps"),
        ("A followed by B, taking from the first C", "no step is called"),
        ("A starting timer T for 5 s then any timer T", "takes no event to pass over"),
        ("1 or more A unless B before", "is about one step"),
        ("A unless (B as b) before, b.x > 1", "has no conditions"),
        ("A followed by B, leaving out C", "no step is called"),
        ("A followed by B, leaving out B and B", "is left out twice"),
        ("A then no B within 5 s, leaving out no_B", "no step that takes events is called"),
    ],
)
def test_bars_and_precedence_where_they_mean_nothing_are_refused(text: str, says: str) -> None:
    with pytest.raises(FilterError, match=re.escape(says)):
        parse(text)


def test_a_composite_does_not_show_what_is_left_out_and_is_the_same_otherwise() -> None:
    stream = occurrences(
        Notification.of({"id": f"{n}", "type": type, "x": n, "time": Instant(n)})
        for n, type in enumerate("ABBC")
    )
    text = "A followed by greedily 1 or more B followed by [true] as x, giving last = x.x"
    [whole], [less] = (found(parse(text + also), stream) for also in ("", ", leaving out x and A"))
    assert whole.constituents == less.constituents
    assert (whole.start, whole.end, whole.outputs) == (less.start, less.end, less.outputs)
    shown_of = less.notification()
    assert [each["id"] for each in shown_of.get("constituents")] == ["1", "2"]
    assert (shown_of.get("A.x"), shown_of.get("x.x"), shown_of.get("last")) == (ABSENT, ABSENT, 3)


def test_the_end_is_the_last_moment_there_is() -> None:
    pattern = parse("A then no [true] until the end")
    assert pattern == parse("A then no [true] until 9999-12-31T23:59:59.999999Z")
    assert str(pattern) == "A then no [true] until the end"


ALTERNATIVES = (
    (
        "(A as a1 followed by A as a2 followed by C as c1)",
        "(A as a3 followed by B as b3 followed by C as c3)",
    ),
    ("1 or more (A as a1 or [true] as z1)", "(2 or more [x > 1] as z2)"),
    ("(1 or more (A as a1 or B as b1) followed by C as c1)", "(1 or more [true] as z2 followed by C as c2)"),
    ("(any order of A as a1 and [x > 0] as z1)", "(A as a2 followed by [x > 0] as z2)"),
)


@given(st.sampled_from(ALTERNATIVES), st.sampled_from(list(Take)), st.sampled_from((1, 3, 1000)), streams())
@settings(max_examples=200)
def test_which_occurrences_are_taken_does_not_depend_on_the_order_of_alternatives(
    parts: tuple[str, str], take: Take, limit: int, given: list[Notification]
) -> None:
    stream, limit = occurrences(given), limit if take is Take.ALL else 1000
    one, other = (
        replace(parse(f"{first} or {second}"), take=take, limit=limit)
        for first, second in (parts, reversed(parts))
    )
    assert shown(found(one, stream)) == shown(detect(one, stream))
    places = [
        sorted(
            [str(taken.notification.id) for _, taken in each.constituents] for each in found(pattern, stream)
        )
        for pattern in (one, other)
    ]
    assert places[0] == places[1]


@pytest.mark.parametrize("row", CORPUS, ids=[row["name"] for row in CORPUS])
def test_every_row_of_the_corpus_is_found(row: dict[str, Any]) -> None:
    detector = detector_of(())
    for number, text in enumerate(row["patterns"]):
        detector.add(f"{number}", parse(text))
    for occurrence in occurrences(Notification.of(fields_from_json(event)) for event in row["events"]):
        detector.feed(occurrence)
    until = Instant.parse(row["until"]).microseconds if "until" in row else END
    rows = [
        {
            "type": each.composite.type,
            "constituents": [[step, _called(taken)] for step, taken in each.composite.constituents],
            "start": str(Instant(each.composite.start)),
            "end": str(Instant(each.composite.end)),
        }
        for each in detector.advance(until)
    ]
    assert sorted(rows, key=str) == sorted(row["composites"], key=str)


def _called(occurrence: Occurrence) -> object:
    """As the corpus calls it: composites by their type and start."""
    if occurrence.rank[2]:
        return f"{occurrence.notification.get('type')} {Instant(occurrence.start).datetime():%H:%M}"
    return occurrence.notification.id


@given(patterns(), streams(), st.lists(st.integers(0, 40), max_size=4).map(sorted))
@settings(max_examples=50)
def test_it_does_not_matter_when_time_is_told(
    pattern: Pattern, given: list[Notification], bounds: list[int]
) -> None:
    stream = occurrences(given)
    assert shown(found(pattern, stream, bounds=bounds)) == shown(found(pattern, stream)), str(pattern)


bounds = st.lists(st.integers(0, 40), max_size=3).map(sorted)


@given(of_one_form(), streams(), bounds, st.lists(st.integers(0, 20), min_size=4, max_size=4))
@settings(max_examples=100)
def test_patterns_of_one_form_share_an_automaton_and_find_what_each_finds_alone(
    several: list[Pattern], given: list[Notification], bounds: list[int], begins: list[int]
) -> None:
    stream = occurrences(given)
    assert len({form_of(pattern) for pattern in several}) == 1
    since = [max(begin - 10, 0) for begin in begins]  # half of them from the start on
    together = Detector(Brute())
    alone = [Detector(Brute()) for _ in several]
    for number, pattern in enumerate(several):
        for detector in (together, alone[number]):
            detector.add(f"p{number}", replace(pattern, name=f"n{number}"), since[number])
    asked = {(shared_of(pattern), begin) for pattern, begin in zip(several, since, strict=False)}
    assert together.automata == (len(asked) if several[0].lookback else 1)
    for detector in (together, *alone):
        for occurrence in stream:
            detector.feed(occurrence)
    for bound in (*bounds, END):
        found = together.advance(bound)
        for number, detector in enumerate(alone):
            assert for_each(found, f"p{number}") == for_each(detector.advance(bound), f"p{number}")


@given(of_one_form(), streams(), st.integers(0, 30), st.booleans())
@settings(max_examples=80)
def test_those_who_share_an_automaton_do_not_notice_who_comes_and_goes(
    several: list[Pattern], given: list[Notification], bound: int, remembers: bool
) -> None:
    first, last = several[0], several[-1]
    stream = occurrences(given)
    busy, alone, late = (Detector(Brute(), remembers=remembers) for _ in range(3))
    for number, pattern in enumerate(several):
        busy.add(f"p{number}", replace(pattern, name=f"n{number}"))
    alone.add("p0", replace(first, name="n0"))
    for detector in (busy, alone, late):
        for occurrence in stream:
            detector.feed(occurrence)
    found, expected = busy.advance(bound), alone.advance(bound)
    late.advance(bound)
    for number in range(1, len(several)):
        busy.remove(f"p{number}")
    for detector in (busy, late):
        detector.add("q", replace(last, name="new"), bound)
    behind = busy.advance(END)
    assert for_each([*found, *behind], "p0") == for_each([*expected, *alone.advance(END)], "p0")
    assert for_each(behind, "q") == for_each(late.advance(END), "q")


@given(st.one_of(of_one_form(), st.lists(patterns(), min_size=1, max_size=3)), streams(), bounds)
@settings(max_examples=100)
def test_a_detector_that_remembers_finds_what_one_finds_that_does_not(
    several: list[Pattern], given: list[Notification], bounds: list[int]
) -> None:
    stream = occurrences(given)
    remembering, forgetful = detector_of(several, remembers=True), detector_of(several)
    for detector in (remembering, forgetful):
        for occurrence in stream:
            detector.feed(occurrence)
    for bound in (*bounds, END):
        assert as_json(remembering.advance(bound)) == as_json(forgetful.advance(bound))


def test_a_pattern_keeps_what_it_has_in_progress_when_it_comes_to_see_composites() -> None:
    detector = Detector(Brute())
    detector.add("p", parse("one: A followed by spike"))
    detector.add("q", parse("two: A followed by B"))
    given = [
        Notification.of({"type": type, "time": at, "id": str(at)})
        for at, type in enumerate(("A", "X", "B"), 1)
    ]
    for occurrence in occurrences(given):
        detector.feed(occurrence)
    assert detector.advance(2) == []
    assert detector.automata == 1
    detector.add("s", parse("spike: X"))
    found = detector.advance(END)
    assert [(each.ids, each.composite.start, each.composite.end) for each in found] == [
        (("p",), 1, 2),
        (("s",), 2, 2),
        (("q",), 1, 3),
    ]


def test_what_patterns_have_in_common_is_held_once() -> None:
    given = [Notification.of({"type": "AB"[at % 2], "x": at, "time": at, "id": str(at)}) for at in range(20)]
    nodes = []
    for count in (1, 50):
        detector = Detector(Brute())
        for number in range(count):
            detector.add(f"p{number}", parse(f"A followed by B followed by C[x > {number}] within 1 hour"))
        for occurrence in occurrences(given):
            detector.feed(occurrence)
        detector.advance(20)
        nodes.append(detector.nodes)
    assert nodes == [20, 20]


@given(st.one_of(of_one_form(), st.lists(patterns(), min_size=1, max_size=3)), streams(), st.integers(0, 40))
@settings(max_examples=80)
def test_a_detector_goes_on_where_another_one_was_left(
    several: list[Pattern], given: list[Notification], bound: int
) -> None:
    stream = occurrences(given)
    whole, first, second = (detector_of(several, remembers=True) for _ in range(3))
    for occurrence in stream:
        whole.feed(occurrence)
        first.feed(occurrence)
    expected = as_json([*whole.advance(bound), *whole.advance(END)])
    found = first.advance(bound)
    second.resume(json.loads(json.dumps(first.snapshot())))
    assert as_json([*found, *second.advance(END)]) == expected


@pytest.mark.parametrize("bound", range(1, 7))
def test_what_came_to_nothing_goes_on_when_what_it_met_is_consumed_wherever_the_state_is_handed_over(
    bound: int,
) -> None:
    pattern = parse("1 to 2 (1 to 2 D), last(D.y) < count(D), taking the first")
    given = [
        Notification.of({"type": "D", "id": f"{time}", "time": time, "y": y})
        for time, y in enumerate((3, 2, 3, "none", 3, 1.5), start=1)
    ]
    first, second = (detector_of([pattern], remembers=True) for _ in range(2))
    stream = occurrences(given)
    for occurrence in stream:
        if occurrence.end < bound:
            first.feed(occurrence)
    found = first.advance(bound)
    second.resume(json.loads(json.dumps(first.snapshot())))
    for occurrence in stream:
        if occurrence.end >= bound:
            second.feed(occurrence)
    found += second.advance(END)
    named = replace(pattern, name="n0")
    assert shown(each.composite for each in found) == shown(detect(named, stream))
    assert len(found) == 2


def test_a_condition_on_a_single_event_is_asked() -> None:
    given = [Notification.of({"type": "A", "x": x, "time": x, "id": str(x)}) for x in range(4)]
    pattern = parse("A, A.x > 1, taking all matches")
    assert [each.constituents[0][1].end for each in found(pattern, occurrences(given))] == [2, 3]


@pytest.mark.parametrize(
    ("pattern", "stream", "expected"),
    [
        ("A followed by (B weakly followed by C)", "A1-3 B4-5 C2-6", []),
        ("A followed by (B weakly followed by C)", "A1-3 B4-5 C4-6", ["A1-3 B4-5 C4-6"]),
        ("A followed by 2 times B", "A1-3 B4-5 B2-6", []),
        ("A followed by 1 or more B followed by C", "A1-3 A2-4 B5 B4-6 C7", ["A1-3 B5 B4-6 C7"]),
        ("A followed by (B starting timer T for 1 minute then C)", "A1-3 B4-5 C2-6", []),
        ("A followed by any order of (B weakly followed by C) and D", "A1-3 B4-5 D5 C2-6", []),
        ("A followed by (optional B followed by (C weakly followed by D))", "A1-3 C4-5 D2-6", []),
        ("optional A followed by (C weakly followed by D)", "C4-5 D2-6", ["C4-5 D2-6"]),
    ],
)
def test_all_of_a_second_part_comes_when_the_first_is_over(
    pattern: str, stream: str, expected: list[str]
) -> None:
    given = []
    for name in stream.split():
        start, _, end = name[1:].partition("-")
        interval = {"start": Instant(int(start)), "end": Instant(int(end or start))}
        given.append(
            Notification.of({"id": name, "type": name[0], "time": interval["end"], "interval": interval})
        )
    for composites in (
        found(parse(pattern), occurrences(given)),
        detect(parse(pattern), occurrences(given)),
    ):
        assert [
            " ".join(str(taken.notification.id) for _, taken in each.constituents) for each in composites
        ] == expected


def test_a_circle_of_patterns_is_refused_and_leaves_nothing_behind() -> None:
    detector = Detector(Brute())
    detector.add("p", parse("a: b followed by X"))
    with pytest.raises(FilterError, match="see their own composites: a ◀ b"):
        detector.add("q", parse("b: a followed by X"))
    assert list(detector.patterns) == ["p"]
    assert detector.automata == 1
    detector.add("q", parse("b: Y followed by X"))
