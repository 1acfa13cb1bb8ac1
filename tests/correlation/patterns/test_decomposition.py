"""A decomposed pattern finds exactly the composites of the whole, whichever way it is cut and handed over."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.correlation.occurrences import Occurrence
from fairlead.correlation.patterns import parse
from fairlead.correlation.patterns.core import parse_core
from fairlead.correlation.patterns.model import Pattern, Sequence, Take, Within
from fairlead.matching.brute import Brute
from fairlead.model import Notification
from fairlead.model.encoding import notification_to_json
from fairlead.model.order import END, order_keys
from fairlead_lab.correlation.patterns.decomposition import PREFIX, Split, split, splits, whole
from fairlead_lab.correlation.patterns.joining import SubpatternDetector
from fairlead_lab.correlation.patterns.reference import detect
from fairlead_lab.testing.patterns import patterns, streams


def occurrences(notifications: Iterable[Notification]) -> list[Occurrence]:
    given = list(notifications)
    return sorted(map(Occurrence.of, given, order_keys(given)))


def events(text: str) -> list[Occurrence]:
    """`A1 B1 C3`: a type and its time."""
    return occurrences(
        Notification.of({"type": each[0], "id": str(number), "producer": "p", "time": int(each[1:])})
        for number, each in enumerate(text.split())
    )


def shown(composites: Iterable[Notification]) -> list[object]:
    return [notification_to_json(each) for each in composites]


def whole_of(pattern: Pattern, stream: list[Occurrence]) -> list[object]:
    return shown(each.notification() for each in detect(pattern, stream))


def decomposed(
    cut: Split, stream: list[Occurrence], bounds: Iterable[int] = (), *, elsewhere: bool = True
) -> list[object]:
    """What is found when every part has a detector of its own, which is told of the time in steps."""
    below = (
        {leaf.pattern.name: SubpatternDetector(Brute(), leaf.pattern) for leaf in cut.leaves}
        if elsewhere
        else {}
    )
    above = SubpatternDetector(Brute(), cut.pattern, cut, below)
    for occurrence in stream:
        for each in (*below.values(), above):
            each.feed(occurrence)
    found = []
    for bound in (*bounds, END):
        for each in below.values():
            for match in each.advance(bound):
                above.hear(match)
        found += above.advance(bound)
    return shown(each for each in found if not is_part_name(each))


SPLITTABLE = (Take.PAST, Take.ALL, Take.NEXT, Take.RECENT)
CHAINS = ("sequence", "concat", "either", "both")


@given(
    st.one_of(
        patterns(takes=SPLITTABLE, partial=False),
        patterns(takes=SPLITTABLE, partial=False, nodes=CHAINS, conditions=1, same=False),
    ),
    streams(max_size=8),
    st.lists(st.integers(0, 40), max_size=3).map(sorted),
)
@settings(max_examples=70)
def test_the_decomposed_pattern_finds_the_composites_of_the_whole_whichever_way_it_is_cut(
    pattern: Pattern, given: list[Notification], bounds: list[int]
) -> None:
    stream = occurrences(given)
    expected = whole_of(pattern, stream)
    for cut in splits(pattern):
        assert decomposed(cut, stream) == expected, f"{pattern}\n{cut}"
        assert decomposed(cut, stream, bounds, elsewhere=False) == expected, f"{pattern}\n{cut}"
    if (single := whole(pattern)) is not None:
        assert decomposed(single, stream, bounds) == expected, str(pattern)


@given(
    patterns(takes=SPLITTABLE, partial=False, nodes=(*CHAINS, "within"), conditions=1),
    streams(max_size=8),
    st.integers(0, 30),
    st.booleans(),
)
@settings(max_examples=40)
def test_another_one_goes_on_from_what_was_kept(
    pattern: Pattern, given: list[Notification], bound: int, held: bool
) -> None:
    stream = occurrences(given)
    for cut in splits(pattern):
        first, second = (SubpatternDetector(Brute(), pattern, cut) for _ in range(2))
        for occurrence in stream:
            first.feed(occurrence)
        found = first.advance(bound)
        second.resume(json.loads(json.dumps(first.snapshot(held=held))))
        assert second.bound == bound
        for occurrence in stream:
            if not held and occurrence.end >= bound:
                second.feed(occurrence)
        found += second.advance(END)
        assert shown(each for each in found if not is_part_name(each)) == whole_of(pattern, stream), str(cut)


# -- by example --------------------------------------------------------------------------------------------


def test_the_two_cooperating_detectors_of_the_book() -> None:
    # Fig. 7.10: C1 detects [B];[P], and C2 the whole of ([B];[P]) | [M], of which that is one input.
    pattern = parse_core("([B];[P])|[M]")
    cut = split(pattern, lambda part: isinstance(part.body, Sequence))
    assert cut is not None
    c1_finds, m = cut.leaves
    c1 = SubpatternDetector(Brute(), c1_finds.pattern)
    c2 = SubpatternDetector(Brute(), pattern, cut, {c1_finds.pattern.name})
    assert c2.here == (m.pattern,)
    stream = events("B1 M2 P3 B4 B5 P6")
    for occurrence in stream:
        c1.feed(occurrence)
        if occurrence.notification.get("type") == "M":
            c2.feed(occurrence)
    for found in c1.advance(END):
        c2.hear(found)
    assert shown(c2.advance(END)) == whole_of(pattern, stream)
    assert len(whole_of(pattern, stream)) == 2


@pytest.mark.parametrize(
    ("text", "stream"),
    [
        # All branches are matched from one point: the second B;C together with the D behind the first is none.
        ("any order of (B followed by C) and D, taking all matches", "B1 D2 B3 C4 D5"),
        # The right part takes the first B behind A, though there are other matches of it.
        ("A followed by (B followed by C), taking all matches", "B1 A2 B3 B4 C5 B6 C7"),
        # A part ends with its last element: of what happens at that very instant, some is behind it.
        ("(A followed by B) followed by C, taking all matches", "A1 B2 C2"),
        ("(A followed by B) weakly followed by A as A2, taking all matches", "A1 A2 B2 A2"),
        # What fails an atom does so only behind the point it is matched from.
        ("A followed by (B without D followed by C), taking all matches", "D1 A2 D3 B4 A5 B6 C7"),
        ("(A then no B within 3 us) followed by C, taking all matches", "A1 C4 C5 A6 B9 C10"),
        ("any order of (A then no B within 3 us) and C, taking all matches", "A1 C4 A6 B9 C10"),
    ],
)
def test_a_part_is_put_in_its_place(text: str, stream: str) -> None:
    pattern, given = parse(text), events(stream)
    assert len(list(splits(pattern))) >= 1
    for cut in splits(pattern):
        assert decomposed(cut, given) == whole_of(pattern, given), str(cut)


@pytest.mark.parametrize(
    "text",
    [
        "A followed by B, B.x > A.x",  # decides which B is taken
        "(A followed by B) or C, taking the first",
        "A followed by B within 1 s, with partial matches",
        "3 or more A",
        "A then no B within 1 s",
        "A followed by optional B",
        "any order of (optional A followed by B) and C",  # may begin with either
        "A followed by [x > 1]",  # would see less alone, if A is a composite
    ],
)
def test_what_cannot_be_cut_stays_whole(text: str) -> None:
    assert list(splits(parse(text))) == []
    assert split(parse(text)) is None


def test_conditions_go_where_all_they_name_is_and_the_rest_is_asked_of_the_whole() -> None:
    pattern = parse("any order of (A followed by B) and (C followed by D), B.x > A.x, count(C) < B.y")
    cut = split(pattern)
    assert cut is not None
    assert ", s2.x > s1.x, " in str(cut.leaves[0].pattern)
    assert cut.conditions == pattern.conditions[1:]


def test_the_same_part_of_two_patterns_is_the_same_pattern() -> None:
    one = split(parse("(A as x followed by B as y) or C, y.v > x.v, same k"))
    other = split(parse("D followed by (A followed by B), B.v > A.v, same k, taking the most recent"))
    assert one is not None
    assert other is not None
    assert one.leaves[0].pattern == other.leaves[1].pattern
    assert one.leaves[0].steps == ("x", "y")


def test_a_window_is_handed_down_to_the_parts() -> None:
    cut = split(parse("(A followed by B) followed by C within 5 us"))
    assert cut is not None
    assert isinstance(cut.leaves[0].pattern.body, Within)
    part = SubpatternDetector(Brute(), cut.leaves[0].pattern)
    for occurrence in events("A1 B9 A10 B11"):
        part.feed(occurrence)
    assert len(part.advance(END)) == 1


def test_only_what_is_wanted_is_cut_out_and_the_rest_stays_as_large_as_it_can() -> None:
    pattern = parse("(A followed by B) or (C followed by D) or (B as B2 followed by C as C2)")
    wanted = split(parse("(C followed by D) or A"))
    assert wanted is not None
    there = wanted.leaves[0].pattern
    cut = split(pattern, lambda part: part == there)
    assert cut is not None
    assert [leaf.pattern == there for leaf in cut.leaves] == [False, True, False]
    assert split(pattern, lambda part: False) is None


def test_parts_that_are_detected_here_are_offered_to_others() -> None:
    pattern = parse("A followed by B")
    cut = whole(pattern)
    assert cut is not None
    detector = SubpatternDetector(Brute(), pattern, cut)
    assert detector.offers == (cut.leaves[0].pattern,)
    for occurrence in events("A1 A2 B3"):
        detector.feed(occurrence)
    assert [is_part_name(each) for each in detector.advance(END)] == [True, True, False]


def test_what_is_in_progress_is_dropped_when_its_window_has_closed() -> None:
    pattern = parse("(A followed by B) followed by C within 5 us")
    cut = split(pattern)
    assert cut is not None
    detector = SubpatternDetector(Brute(), pattern, cut)
    for occurrence in events("A1 B2 A3 B4"):
        detector.feed(occurrence)
    detector.advance(5)
    assert detector.in_progress
    detector.advance(1_000)
    assert not detector.in_progress


def is_part_name(notification: Notification) -> bool:
    return str(notification.get("type")).startswith(PREFIX)
