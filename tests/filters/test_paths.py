"""Path filters: selection, and the covering of Corollaries 3.4 to 3.6."""

from __future__ import annotations

import json
import pickle
import re
from itertools import product
from pathlib import Path as FilePath
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import FilterError, Undecided
from fairlead.filters import parse, relate
from fairlead.filters.constraint import Constraint, Op, Range
from fairlead.filters.filter import EVERYTHING, NOTHING, And, Filter
from fairlead.filters.paths import (
    ANY,
    Path,
    Selection,
    conjunction_covers,
    names_disjoint,
    path_filters_disjoint,
    selection_covers,
    selection_overlaps,
)
from fairlead.filters.terms import Attribute
from fairlead.model import Element, Multi, Notification

ROOT = "notification"


def path(text: str) -> Path:
    """//item/cpu, for names that are plain words."""
    return Path(tuple((slashes == "//", name) for slashes, name in re.findall(r"(//?)([\w*]+)", text)))


def at(name: str, op: Op, operand: Any = None) -> Constraint:
    return Constraint(Attribute(name), op, operand)


def counted(text: str, condition: Filter = EVERYTHING, op: Op = Op.GE, operand: Any = 1) -> Constraint:
    return Constraint(Selection(path(text), condition), op, operand)


# -- the notification of Fig. 3.10 ---------------------------------------------------------------------------

AUCTION = Notification.of(
    {
        "auction": {
            "endtime": "05/18/02 22:17:42",
            "minprice": 50,
            "seller": {"name": "Smith", "id": 1234},
            "item": [
                {"board": {"manufacturer": "Elitegroup", "type": "K7S5", "socket": "Socket A"}},
                {"cpu": {"manufacturer": "AMD", "type": "Athlon", "socket": "Socket A", "clock": 800}},
            ],
        }
    }
)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("//item", 2),
        ("//cpu", 1),
        ("//item/cpu", 1),
        ("//auction/cpu", 0),
        ("//auction//cpu", 1),
        ("/notification", 1),
        ("//notification", 1),
        ("/notification/auction/item/cpu", 1),
        ("/notification//cpu", 1),
        ("/notification/cpu", 0),
        ("/notification/auction/*", 3),
        ("//*", 7),
        ("/*", 1),
        ("//item/*", 2),
        ("/item", 0),
        ("/notification/*//*", 5),
    ],
)
def test_how_many_elements_a_path_selects(text: str, count: int) -> None:
    assert Selection(path(text)).value(AUCTION) == count


def test_a_condition_is_about_the_selected_element() -> None:
    fast = And((at("manufacturer", Op.EQ, "AMD"), at("clock", Op.GE, 700)))
    assert counted("//cpu", fast).matches(AUCTION)
    assert counted("/notification/auction/item/cpu", at("clock", Op.GE, 700)).matches(AUCTION)
    assert not counted("//cpu", at("clock", Op.GE, 900)).matches(AUCTION)
    assert not counted("//board", fast).matches(AUCTION)


def test_elements_that_match_and_elements_that_miss_are_counted() -> None:
    socket = at("socket", Op.EQ, "Socket A")
    assert Selection(path("//item/*"), socket).value(AUCTION) == 2
    assert Selection(path("//item/*"), at("clock", Op.GE, 700)).value(AUCTION) == 1
    assert Selection(path("//item/*"), at("clock", Op.GE, 700), misses=True).value(AUCTION) == 1
    assert Selection(path("//item"), misses=True).value(AUCTION) == 0


def test_an_element_below_the_root_is_never_named_notification() -> None:
    inner = Notification.of({"notification": {"x": 1}})
    assert Selection(path("//notification")).value(inner) == 1
    assert Selection(path("/notification/notification")).value(inner) == 0
    assert Selection(path("/notification/*"), at("x", Op.EQ, 1)).value(inner) == 1


def test_names_of_attributes_that_xml_allows_can_be_asked_for() -> None:
    def asked(attributes: dict[str, Any], name: str) -> bool:
        notification = Notification(AUCTION.attributes, document=Element(ROOT, attributes))
        return counted("/notification", at(name, Op.EQ, "1")).matches(notification)

    assert asked({"xml:lang": "1"}, "xml:lang")
    assert asked({"a.b": "1", "a-c": "2"}, "a.b")
    assert asked({"a.b": "0", "a": "1"}, "a")
    assert not asked({"a.b": "1", "a": "0"}, "a.b"), "what has a value has no parts"
    assert asked({"a..b": "0", "c.d": "1"}, "c.d")


def test_paths_print_as_they_are_written() -> None:
    for text in ("//cpu", "/notification/auction//*", "//item/cpu"):
        assert str(path(text)) == text
    odd = Constraint(
        Selection(Path(((True, "xml:a"), (False, "b.c"), (False, "and"), (True, "`\\")))), Op.GE, 1
    )
    assert str(odd) == r"//`xml:a`/`b.c`/`and`//`\`\\`"
    assert parse(str(odd)) == odd


def test_a_path_is_a_value() -> None:
    assert pickle.loads(pickle.dumps(path("//a/b"))) == path("//a/b")
    assert hash(path("//a/b")) == hash(path("//a/b"))
    for steps in ((), ((True, ""),)):
        with pytest.raises(FilterError, match="at least one step"):
            Path(steps)


# -- paths against enumeration -------------------------------------------------------------------------------

NAMES = ("a", "b", "z")
# Two paths of three steps need no more than seven names to show how they differ, or what they share.
PLACES = [(ROOT, *below) for length in range(7) for below in product(NAMES, repeat=length)]
paths = st.builds(
    lambda first, rest: Path((first, *rest)),
    st.tuples(st.booleans(), st.sampled_from([ROOT, ANY, "a", "b"])),
    st.lists(st.tuples(st.booleans(), st.sampled_from([ANY, "a", "b", ROOT])), max_size=2),
)


def pattern(of: Path) -> re.Pattern[str]:
    """The path as a regular expression over names that are closed with a slash."""
    steps = "".join(
        f"{'(?:[^/]+/)*' if skips else ''}{'[^/]+' if name == ANY else name}/" for skips, name in of.steps
    )
    return re.compile(steps)


@given(paths)
def test_a_path_selects_what_its_regular_expression_matches(one: Path) -> None:
    expression = pattern(one)
    for place in PLACES[:200]:
        assert one.selects(place) == bool(expression.fullmatch("".join(f"{name}/" for name in place)))


def selected(one: Path) -> set[tuple[str, ...]]:
    return {place for place in PLACES if one.selects(place)}


@given(paths, paths)
@settings(max_examples=200)
def test_covers_and_disjoint_agree_with_all_short_places(one: Path, other: Path) -> None:
    mine, others = selected(one), selected(other)
    assert one.covers(other) == (mine >= others)
    assert one.disjoint(other) == mine.isdisjoint(others)
    assert one.identical(other) == (mine == others)
    assert one.is_empty() == (not mine)
    above = {place for place in PLACES if any(place[:n] in mine for n in range(1, len(place) + 1))}
    assert one.leads_to(other) == (above >= others)


@pytest.mark.parametrize(
    ("one", "other", "covers"),
    [
        ("//cpu", "//item/cpu", True),
        ("//item/cpu", "//cpu", False),
        ("//cpu", "/notification/auction/item/cpu", True),
        ("/notification", "//notification", True),
        ("//notification", "/notification", True),
        ("/notification/auction", "/notification/auction", True),
        ("/notification/auction", "//auction", False),
        ("/notification/*", "/notification/auction", True),
        ("//item//cpu", "//item/*/cpu", True),
        ("//*", "/notification", True),
    ],
)
def test_the_covering_of_paths_in_the_book(one: str, other: str, covers: bool) -> None:
    assert path(one).covers(path(other)) == covers


def test_a_comparison_that_would_take_too_long_is_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    wide, other = path("//a/*/*/*"), path("//a//b/*/*")
    monkeypatch.setattr("fairlead.filters.paths._STEPS_MAX", 5)
    for question in (wide.covers, wide.disjoint):
        with pytest.raises(Undecided):
            question(other)
    assert not selection_covers(counted("//a/*/*/*"), counted("//a//b/*/*"), covers)
    assert selection_overlaps(counted("//a/*/*/*"), counted("//a//b/*/*"), covers, overlaps)


def test_long_paths_and_deep_trees_are_no_danger() -> None:
    deep = Element("a")
    for _ in range(20_000):
        deep = Element("a", {}, (deep,))
    document = Notification(AUCTION.attributes, document=Element(ROOT, {}, (deep,)))
    assert Selection(path("//a//a//a/*//a")).value(document) > 19_000
    long = Path(tuple((True, "a") for _ in range(500)))
    assert long.covers(long)
    assert long.covers(Path((*long.steps[1:], (False, "a"), (True, "a"))))
    assert long.selects((ROOT, *"a" * 5000))


# -- relations of path filters, with a small algebra for conditions ------------------------------------------

CONDITIONS: list[Filter] = [
    EVERYTHING,
    NOTHING,
    at("x", Op.EQ, 1),
    at("x", Op.EQ, 2),
    at("x", Op.GE, 1),
    at("x", Op.EXISTS),
    And((at("x", Op.EQ, 1), at("y", Op.EQ, 1))),
]
ATTRIBUTES = [
    {},
    {"x": 1},
    {"x": 2},
    {"x": 0},
    {"y": 1},
    {"x": 1, "y": 1},
    {"x": "1"},
]
RECORDS = [Notification.of(each) for each in ATTRIBUTES]


def covers(one: Filter, other: Filter) -> bool:
    return all(one.matches(record) for record in RECORDS if other.matches(record))


def overlaps(one: Filter, other: Filter) -> bool:
    return any(one.matches(record) and other.matches(record) for record in RECORDS)


trees = st.builds(
    lambda attributes, children: Notification(
        AUCTION.attributes, document=Element(ROOT, attributes, tuple(children))
    ),
    st.sampled_from(ATTRIBUTES),
    st.lists(
        st.recursive(
            st.builds(Element, st.sampled_from(NAMES), st.sampled_from(ATTRIBUTES)),
            lambda inner: st.builds(
                Element,
                st.sampled_from(NAMES),
                st.sampled_from(ATTRIBUTES),
                st.lists(inner, max_size=2).map(tuple),
            ),
            max_leaves=4,
        ),
        max_size=2,
    ),
)
bounds = st.one_of(
    st.tuples(st.sampled_from([Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE]), st.integers(0, 2)),
    st.sampled_from(
        [
            (Op.GE, 1),
            (Op.EXISTS, None),
            (Op.ABSENT, None),
            (Op.IN, Multi([0, 2])),
            (Op.NOT_IN, Multi([1])),
            (Op.NOT_IN, Multi(["a"])),
            (Op.IN_RANGE, Range(1, 2)),
            (Op.NOT_IN_RANGE, Range(0, 1, high_closed=False)),
            (Op.NE, "a"),
            (Op.PREFIX, "a"),
        ]
    ),
)
short_paths = st.sampled_from(
    [
        path(text)
        for text in ("/notification", "//*", "//a", "//a/b", "/notification/a", "//a//*", "//b", "/b")
    ]
)
filters = st.builds(
    lambda where, condition, misses, bound: Constraint(Selection(where, condition, misses), *bound),
    short_paths,
    st.sampled_from(CONDITIONS),
    st.booleans(),
    bounds,
)


@given(filters, filters, st.lists(trees, min_size=3, max_size=8))
@settings(max_examples=200)
def test_relations_between_path_filters_are_sound(
    one: Constraint, other: Constraint, documents: list[Notification]
) -> None:
    if selection_covers(one, other, covers):
        assert all(one.matches(document) for document in documents if other.matches(document))
    if not selection_overlaps(one, other, covers, overlaps):
        assert not any(one.matches(document) and other.matches(document) for document in documents)
    assert selection_covers(one, one, covers)
    assert selection_overlaps(one, other, covers, overlaps) == selection_overlaps(
        other, one, covers, overlaps
    )


def test_a_path_filter_covers_another_if_path_and_condition_do() -> None:
    amd, fast = at("x", Op.EQ, 1), And((at("x", Op.EQ, 1), at("y", Op.EQ, 1)))
    assert selection_covers(counted("//cpu", amd), counted("//cpu", fast), covers)
    assert selection_covers(counted("//cpu", amd), counted("//item/cpu", fast), covers)
    assert not selection_covers(counted("//item/cpu", amd), counted("//cpu", fast), covers)
    assert not selection_covers(counted("//cpu", fast), counted("//cpu", amd), covers)


def test_the_quantifiers_of_corollary_3_4_are_the_other_way_round() -> None:
    """As printed, every attribute filter of C2 has one in C1 that covers it; then C1 would cover less than
    it does."""
    wide = at("x", Op.GE, 1)
    narrow = And((at("x", Op.EQ, 1), at("y", Op.EQ, 1)))
    assert selection_covers(counted("//cpu", wide), counted("//cpu", narrow), covers)
    assert not selection_covers(counted("//cpu", narrow), counted("//cpu", wide), covers)


def test_lower_bounds_of_counts_carry_over_to_wider_selections_and_upper_bounds_to_narrower() -> None:
    assert selection_covers(counted("//a", operand=2), counted("//b/a", operand=3), covers)
    assert not selection_covers(counted("//a", operand=3), counted("//b/a", operand=2), covers)
    assert selection_covers(
        counted("//b/a", op=Op.LE, operand=3), counted("//a", op=Op.LE, operand=2), covers
    )
    assert not selection_covers(
        counted("//a", op=Op.LE, operand=3), counted("//b/a", op=Op.LE, operand=2), covers
    )
    assert selection_covers(counted("//a", op=Op.GT, operand=1), counted("//a", op=Op.GE, operand=2), covers)
    assert not selection_overlaps(counted("//a", op=Op.EQ, operand=0), counted("//b/a"), covers, overlaps)


def test_a_selection_without_condition_is_met_on_the_way_down() -> None:
    assert selection_covers(counted("//item"), counted("//item/cpu", at("x", Op.EQ, 1)), covers)
    assert not selection_covers(counted("//item", at("x", Op.EXISTS)), counted("//item/cpu"), covers)
    assert selection_covers(counted("/notification"), counted("//b", op=Op.LE, operand=5), covers)
    assert not selection_overlaps(counted("//*", op=Op.EQ, operand=0), counted("//b"), covers, overlaps)


def test_path_filters_overlap_unless_one_matches_nothing_or_both_ask_the_root() -> None:
    one, two = at("x", Op.EQ, 1), at("x", Op.EQ, 2)

    def overlap(first: Constraint, second: Constraint) -> bool:
        return selection_overlaps(first, second, covers, overlaps)

    assert overlap(counted("//cpu", one), counted("//cpu", two))
    assert overlap(counted("/notification/a", one), counted("/notification/b", two))
    assert not overlap(counted("/notification", one), counted("//notification", two))
    assert overlap(counted("/notification", one), counted("/notification", at("x", Op.EXISTS)))
    assert not overlap(counted("//cpu", NOTHING), counted("//cpu", one))
    assert not overlap(counted("/cpu", one), counted("//cpu", one))


def test_a_conjunction_covers_another_if_each_part_covers_one_of_the_other() -> None:
    """Corollary 3.6, with the book's own example."""
    athlon, clock = at("x", Op.EQ, 1), And((at("x", Op.EQ, 1), at("y", Op.EQ, 1)))
    seller = counted("//seller", at("x", Op.EQ, 2))
    assert conjunction_covers([counted("//cpu", athlon)], [seller, counted("//cpu", clock)], covers)
    assert not conjunction_covers([seller, counted("//cpu", clock)], [counted("//cpu", athlon)], covers)
    assert conjunction_covers([], [seller], covers)


def test_disjoint_names_are_not_disjoint_filters() -> None:
    price, name = at("minprice", Op.LT, 100), at("name", Op.EQ, "Pu")
    assert names_disjoint(price, name)
    assert not names_disjoint(price, And((name, at("minprice", Op.EQ, 5))))
    assert path_filters_disjoint(Selection(path("//a"), price), Selection(path("//a"), name))
    assert path_filters_disjoint(Selection(path("//a"), price), Selection(path("//b"), price))
    assert not path_filters_disjoint(Selection(path("//a"), price), Selection(path("//*"), price))
    assert selection_overlaps(counted("//a", price), counted("//a", name), lambda *_: False, lambda *_: True)


# -- the corpus ----------------------------------------------------------------------------------------------

CORPUS = json.loads((FilePath(__file__).parents[1] / "corpus" / "paths.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"]) for row in CORPUS])
def test_the_rows_of_the_corpus(row: dict[str, Any]) -> None:
    filter = parse(row["filter"])
    assert parse(str(filter)) == filter
    if "matches" in row:
        assert filter.matches(Notification.of(row["notification"])) == row["matches"]
    else:
        assert relate(filter, parse(row["other"])).name == row["relation"]
