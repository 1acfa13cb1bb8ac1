"""Every operator in the columnar engine: its quick forms agree with `brute` where they are hard pressed."""

from __future__ import annotations

from decimal import Decimal
from itertools import islice
from math import inf, isfinite, nan, nextafter
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairlead.filters.constraint import Constraint, Op
from fairlead.filters.filter import And, Filter, Not
from fairlead.filters.language import parse
from fairlead.filters.patterns import RegularExpression, SubjectPattern
from fairlead.filters.schema import Schema
from fairlead.filters.terms import Attribute
from fairlead.matching.brute import Brute
from fairlead.matching.columnar import Columnar
from fairlead.matching.columnar.compile import OPAQUE, program_of
from fairlead.matching.columnar.patterns import automaton_in, certain_of, pattern_bytes, regex_of, subject_of
from fairlead.model import Instant, Interval, Notification, Point, Rectangle
from fairlead.model.encoding import fields_to_json
from fairlead_lab.bench.mixture import MIXTURE
from fairlead_lab.matching.operators import OPERATORS

X, Y = Attribute("x"), Attribute("y")


def agree(filters: list[Filter], notifications: list[Notification], batch: Any = None) -> None:
    """One at a time, in batches, by dictionaries, from Arrow: the answers are those of `brute`."""
    brute, small, arrays = Brute[int](), Columnar[int](), Columnar[int](small=0)
    for number, filter in enumerate(filters):
        brute.add(number, filter)
    small.add_many(enumerate(filters))
    arrays.add_many(enumerate(filters))
    expected = brute.match_batch(notifications)
    assert [small.match(each) for each in notifications] == expected
    assert [arrays.match(each) for each in notifications] == expected
    assert arrays.match_batch(notifications) == expected
    if batch is not None:
        found = arrays.match_arrow(batch)
        assert [found[row] for row in range(len(found))] == expected


def columns_of(notifications: list[Notification], schema: pa.Schema | None = None) -> Any:
    """Notifications as a record batch, in the typed encoding."""
    records = [fields_to_json(each.attributes) for each in notifications]
    if schema is None:
        names = list(dict.fromkeys(name for record in records for name in record))
        schema = pa.schema([(name, pa.array([each.get(name) for each in records]).type) for name in names])
    return pa.RecordBatch.from_pylist(records, schema)


# -- arithmetic --------------------------------------------------------------------------------------------

CENTS = st.integers(-(10**6), 10**6).map(lambda cents: cents / 100)
AWKWARD = st.sampled_from(
    [
        *(
            0,
            -0.0,
            0.1,
            0.07,
            1e-300,
            5e-324,
            1e300,
            1.7976931348623157e308,
            1e15,
            1e16,
            123456789012345.6,
            1e22,
        ),
        *(nextafter(0.1, 1), 1 / 3, 2**53, 2**53 + 1, 10**23, 10**40, Decimal("0.1"), inf, -inf, nan),
        *(Decimal("0.1000000000000000055"), Decimal("1e-30"), 0.30000000000000004, 99999999999999.9),
        *("one", None, True, [1]),
    ]
)
NUMBERS = CENTS | AWKWARD | st.floats() | st.integers(-(2**70), 2**70)
EXPRESSIONS = (
    "x + y",
    "x - y",
    "x * y",
    "x * x",
    "2 * x - 3 * y",
    "x * y * y + 0.01 * x",
    "x * x * x * x * y",
)


def exact(expression: str, x: Any, y: Any) -> Any:
    """What an expression gives, or None."""
    constraint = parse(f"{expression} > 0")
    assert isinstance(constraint, Constraint)
    value = constraint.term.value(Notification.of({"x": x, "y": y}))
    return value if isinstance(value, int | Decimal) else None


@given(
    st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=5),
    st.lists(st.sampled_from(EXPRESSIONS), min_size=1, max_size=3),
    st.lists(NUMBERS.filter(lambda each: type(each) in (int, float, Decimal) and isfinite(each)), max_size=2),
)
@example([(10.07, 10.0)], ["x - y"], [0.07])
@example([(0.1, 0.2)], ["x + y"], [0.3, 0.30000000000000004])
@example([(1 / 3, 1 / 3)], ["x - y", "x + y"], [0, 2 / 3])
@example([(1e300, 1e300), (5e-324, 5e-324)], ["x * y"], [0])
@settings(max_examples=100)
def test_arithmetic_is_exact_where_floats_are_not(
    pairs: list[tuple[Any, Any]], expressions: list[str], others: list[Any]
) -> None:
    filters: list[Filter] = []
    for expression in expressions:
        term = parse(f"{expression} > 0").term  # type: ignore[attr-defined]
        results = [found for pair in pairs if (found := exact(expression, *pair)) is not None]
        for bound in [*results, *others]:
            filters += [Constraint(term, op, bound) for op in (Op.LT, Op.LE, Op.EQ, Op.GE)]
        filters += [Constraint(term, Op.EXISTS), Constraint(term, Op.ABSENT), Not(Constraint(term, Op.GT, 1))]
    filters += [And((Constraint(X, Op.EQ, 10.07), each)) for each in filters[:2]]
    agree(filters, [Notification.of({"x": x, "y": y}) for x, y in pairs] + [Notification.of({"x": 1})])


@given(
    st.lists(
        st.tuples(
            st.none() | CENTS | st.floats(),
            st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-100, 100),
        ),
        min_size=1,
        max_size=6,
    )
)
@settings(max_examples=60)
def test_arithmetic_over_columns_is_that_over_notifications(pairs: list[tuple[Any, Any]]) -> None:
    filters: list[Filter] = []
    for expression in EXPRESSIONS:
        term = parse(f"{expression} > 0").term  # type: ignore[attr-defined]
        for pair in pairs:
            bound = None if None in pair else exact(expression, *pair)
            filters += [Constraint(term, op, bound or 0) for op in (Op.LT, Op.LE, Op.NE)]
    given = [
        {name: value for name, value in zip("xy", pair, strict=True) if value is not None} for pair in pairs
    ]
    schema = pa.schema([("x", pa.float64()), ("y", pa.int64())])
    agree(filters, [Notification.of(each) for each in given], pa.RecordBatch.from_pylist(given, schema))


def test_a_hundred_thresholds_on_one_expression_are_found_by_a_search() -> None:
    engine = Columnar[int](small=0)
    engine.add_many((number, parse(f"ask - bid > {number / 100}")) for number in range(2000))
    account = engine.explain([Notification.of({"ask": 10.07, "bid": 10.0})])
    assert (account.matches, account.candidates) == (7, 7)
    assert account.paths == {"range": 2000}


# -- patterns ----------------------------------------------------------------------------------------------

LETTERS = "ab/é\uffff\U0001f600"
REGEXES = st.recursive(
    st.sampled_from(["a", "b", "é", "\U0001f600", ".", "[ab]", "[^a]", "/", ""]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"({'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from("*+?")).map(lambda each: f"({each[0]}){each[1]}"),
    ),
    max_leaves=6,
)
SUBJECTS = st.lists(st.sampled_from(["a", "b", "", "é", "*", "**"]), min_size=1, max_size=4)


@given(
    st.lists(REGEXES.map(RegularExpression), min_size=1, max_size=4),
    st.lists(st.tuples(SUBJECTS, st.sampled_from("/é.")), min_size=1, max_size=4),
    st.lists(st.text(LETTERS, max_size=6) | st.just(3) | st.just(b"ab"), min_size=1, max_size=5),
)
@settings(max_examples=120)
def test_patterns_match_in_kernels_as_they_do_in_python(
    regexes: list[RegularExpression], subjects: list[tuple[list[str], str]], texts: list[Any]
) -> None:
    patterns = [SubjectPattern(separator.join(levels), separator) for levels, separator in subjects
                if not any(separator in level for level in levels)]  # fmt: skip
    filters: list[Filter] = [Constraint(X, Op.LIKE, each) for each in regexes]
    filters += [Constraint(X, Op.MATCHES, each) for each in patterns]
    filters += [Not(each) for each in filters] + [And((Constraint(X, Op.GE, "a"), each)) for each in filters]
    for regex in regexes:
        assert regex_of(pattern_bytes(regex)) == regex
    for subject in patterns:
        assert subject_of(pattern_bytes(subject)) == subject
    notifications = [Notification.of({"x": text}) for text in texts]
    plain = all(type(text) is str for text in texts)
    batch = pa.RecordBatch.from_pydict({"x": pa.array(texts, pa.string())}) if plain else None
    agree(filters, notifications, batch)


@given(REGEXES.map(RegularExpression), st.lists(st.text(LETTERS, max_size=5), max_size=20))
def test_what_is_certain_of_a_match_every_match_has(regex: RegularExpression, texts: list[str]) -> None:
    certain = certain_of(regex)
    witness = regex.automaton.witness()
    for text in [*texts, *([] if witness is None else [witness])]:
        if regex.matches(text):
            assert certain.whole in (None, text)
            assert text.startswith(certain.prefix)
            assert text.endswith(certain.suffix)
            assert certain.substring in text


def test_an_expression_is_run_only_on_texts_that_begin_as_it_does() -> None:
    filters = [parse(f'headline ~ "House{number:04} .* (merger|order) .*"') for number in range(3000)]
    engine = Columnar[int](small=0)
    engine.add_many(enumerate(filters))
    account = engine.explain([Notification.of({"headline": "House0007 plans a merger with others"})])
    assert (account.matches, account.candidates) == (1, 1)
    assert automaton_in(pattern_bytes(RegularExpression("a")))


# -- shapes and sets ---------------------------------------------------------------------------------------

SMALL = st.integers(-2, 2) | st.sampled_from([0.5, -1.5, 10**23, Decimal("0.1000000000000000055")])


def spans(number: int) -> st.SearchStrategy[list[tuple[Any, Any]]]:
    pair = st.tuples(SMALL, SMALL).map(lambda each: tuple(sorted(each, key=lambda n: Decimal(str(n)))))
    return st.lists(pair, min_size=number, max_size=number)  # type: ignore[arg-type]


POINTS = st.builds(Point, SMALL, SMALL)
INTERVALS = spans(1).map(lambda each: Interval(*each[0]))
RECTANGLES = spans(2).map(lambda each: Rectangle(each[0][0], each[1][0], each[0][1], each[1][1]))
SETS = st.lists(st.integers(-2, 2) | st.sampled_from(["a", "b", True, None, Instant(1)]), max_size=3)


@st.composite
def shaped(draw: st.DrawFn) -> Filter:
    op, operand = draw(
        st.one_of(
            st.tuples(st.sampled_from([Op.EQ, Op.NE]), POINTS | INTERVALS | RECTANGLES | SETS),
            st.tuples(st.sampled_from([Op.IN, Op.NOT_IN]), RECTANGLES),
            st.tuples(st.sampled_from([Op.CONTAINS, Op.LACKS]), POINTS | st.integers(-2, 2)),
            st.tuples(
                st.sampled_from([Op.SUBSET, Op.SUPERSET, Op.OVERLAPS, Op.DISJOINT]),
                INTERVALS | RECTANGLES | SETS,
            ),
        )
    )
    constraint = Constraint(X, op, operand)
    return Not(constraint) if draw(st.booleans()) else constraint


@given(
    st.lists(shaped(), min_size=1, max_size=8),
    st.lists(POINTS | INTERVALS | RECTANGLES | SETS | st.integers(-2, 2), min_size=1, max_size=5),
)
@settings(max_examples=150)
def test_shapes_and_sets_compare_as_their_definitions_say(filters: list[Filter], values: list[Any]) -> None:
    agree(filters, [Notification.of({"x": value}) for value in values])


@given(
    st.lists(shaped(), min_size=1, max_size=8),
    st.one_of(
        st.lists(st.none() | each, min_size=1, max_size=5)
        for each in (
            st.builds(Point, CENTS, CENTS),
            st.builds(Point, st.integers(-2, 2), st.integers(-2, 2)),
            st.builds(lambda low, size: Interval(low, low + size), st.integers(-2, 2), st.integers(0, 2)),
            st.lists(st.integers(-3, 3) | st.integers(2**53 - 1, 2**53 + 1), max_size=3),
            st.lists(
                st.floats(allow_nan=False, allow_infinity=False) | st.integers(-2, 2).map(float), max_size=3
            ),
        )
    ),
)
@settings(max_examples=100)
def test_shapes_and_lists_of_numbers_are_read_from_columns(filters: list[Filter], values: list[Any]) -> None:
    notifications = [Notification.of({"y": 1} if value is None else {"x": value, "y": 1}) for value in values]
    agree([*filters, Constraint(X, Op.EXISTS)], notifications, columns_of([*notifications]))


# -- tuples and paths --------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(0, 3), max_size=3) | st.none(), min_size=1, max_size=5), st.booleans())
def test_templates_are_matched_in_columns(tuples: list[list[int] | None], words: bool) -> None:
    made = [None if each is None else [f"w{item}" if words else item for item in each] for each in tuples]
    shown = '"w1"' if words else "1"
    filters = [parse(text) for text in (f"({shown}, *)", f"(*, {shown}, *)", "(*, *)", f"({shown}, {shown})")]
    filters += [Not(each) for each in filters]
    notifications = [Notification.of({} if each is None else {"tuple": tuple(each)}) for each in made]
    schema = pa.schema([("tuple", pa.list_(pa.string() if words else pa.int64()))])
    agree(filters, notifications, pa.RecordBatch.from_pylist([{"tuple": each} for each in made], schema))


LEGS = st.lists(
    st.fixed_dictionaries({}, optional={"symbol": st.sampled_from("AB"), "quantity": st.integers(0, 3)}),
    max_size=3,
)
PATH_FILTERS = [
    '//leg[@symbol = "A"]', '//leg[@symbol = "A" and @quantity >= 2]', "//leg", "/notification/leg[@quantity < 2]",
    "count(//leg) = 0", "count(//leg) < 2", 'count(//leg[@symbol = "B"]) <= 1', '//leg misses [@symbol = "A"]',
    "//deal", "//deal[@symbol = 1]", "//deal/leg", "//*", "/notification[@note = 1]",
    "exists leg and //leg[@quantity = 3]",
]  # fmt: skip


def readable(texts: list[str]) -> list[Filter]:
    found: list[Filter] = []
    for text in texts:
        filter = parse(text)
        found += [filter, Not(filter)]
    return found


@given(
    st.lists(
        st.tuples(LEGS, st.none() | st.fixed_dictionaries({"symbol": st.integers(0, 1)})),
        min_size=1,
        max_size=4,
    ),
    st.lists(st.sampled_from(PATH_FILTERS[:7] + PATH_FILTERS[8:]), min_size=1, max_size=6),
)
@settings(max_examples=100)
def test_path_filters_share_their_walk(rows: list[tuple[Any, Any]], texts: list[str]) -> None:
    records = [{"leg": legs, "note": 1} | ({} if deal is None else {"deal": deal}) for legs, deal in rows]
    schema = pa.schema(
        [
            ("leg", pa.list_(pa.struct([("symbol", pa.string()), ("quantity", pa.int64())]))),
            ("note", pa.int64()),
            ("deal", pa.struct([("symbol", pa.int64())])),
        ]
    )
    notifications = [Notification.of(record) for record in records]
    batch = pa.RecordBatch.from_pylist(records, schema)
    agree(readable(texts), notifications, batch)
    nested = [Notification.of({"deal": {"leg": record["leg"]}}) for record in records]
    agree(readable(texts), nested)


def test_path_filters_under_a_schema_are_saved_with_what_its_types_mean(tmp_path: Any) -> None:
    schema = Schema(types={"quote": (), "stock": ("quote",)})
    engine = Columnar[int](small=0, schema=schema)
    engine.add_many(
        [(1, parse("//item[@type is quote]", schema)), (2, parse("//item[@type is stock]", schema))]
    )
    opened = Columnar.open(engine.save(tmp_path), schema)
    for given_type, matches in (("stock", [1, 2]), ("quote", [1]), ("bond", [])):
        notification = Notification.of({"item": [{"type": given_type}]})
        assert engine.match(notification) == opened.match(notification) == matches


@pytest.mark.parametrize("name", OPERATORS | MIXTURE)
def test_every_operator_is_matched_as_its_filters_say(name: str) -> None:
    shape = (OPERATORS | MIXTURE)[name]
    filters = list(shape.filters(300, Random(1)))
    notifications = list(islice(shape.notifications(300, Random(2)), 6))
    assert any(filter.matches(each) for filter in filters for each in notifications)
    agree(filters, notifications, columns_of(notifications))


# -- nothing is left to Python -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "x + y > 3", "x * y in {1, 2}", 'x ~ "a.*b"', 'x matches "a/*/**"', "//leg[@a = 1]", "count(//leg) > 2",
        "x in rectangle(0, 0, 1, 1)", "x contains point(1, 2)", "x subset rectangle(0, 0, 1, 1)",
        "x = point(1, 2)",
        "x overlaps interval(1, 2)", "x = {1, 2}", "x != {1}", "x.method() > 3", '(1, *, "a")', "not x in {1, 2}",
        'x not in ["a", "b")', "x disjoint {1}", "x is number", "exists x", "absent x", "x lacks 3",
        "x superset {1, 2}", 'x substring "a"', 'x suffix "a"', "x != 3",
    ],
)  # fmt: skip
def test_no_operator_of_the_language_is_asked_in_python(text: str) -> None:
    filter = parse(text)
    for each in (filter, Not(filter)):
        assert all(predicate.sort != OPAQUE for predicate, _ in program_of(each).literals)
