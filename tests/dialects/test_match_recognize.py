"""MATCH_RECOGNIZE as patterns: the matches are those of a matcher by hand that backtracks as SQL:2016 says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations
from operator import eq, gt, le, lt
from random import Random
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.bus import Bus
from fairlead.correlation.patterns import Pattern
from fairlead.dialects import patterns
from fairlead.dialects.patterns import match_recognize
from fairlead.errors import FilterError, TranslationRefused
from fairlead.model import Instant

SECOND = 1_000_000
Row: TypeAlias = dict[str, Any]


def query(pattern: str, define: str, **clauses: str) -> str:
    more = {
        "partition": "PARTITION BY k",
        "skip": "",
        "within": "",
        "measures": "",
        "source": "SELECT * FROM T ",
    }
    more |= clauses
    return (
        f"{more['source']}MATCH_RECOGNIZE ({more['partition']} ORDER BY time {more['measures']} "
        f"ONE ROW PER MATCH {more['skip']} PATTERN ({pattern}) {more['within']} DEFINE {define})"
    )


def detected(pattern: Pattern, rows: list[Row]) -> list[list[str]]:
    with Bus(order="ordered") as bus:
        composites = bus.detect(pattern)
        for row in rows:
            bus.publish(row)
    return [[each["id"] for each in found.get("constituents")] for found in composites]


# -- SQL, by hand ----------------------------------------------------------------------------------------------

Tree: TypeAlias = str | tuple[Any, ...]
"""A variable, ("seq", …), ("alt", …), ("permute", …), ("rep", part, least, most), ("^",) or ("$",)."""
Taken: TypeAlias = tuple[tuple[str, Row], ...]


def ways(
    tree: Tree, rows: list[Row], at: int, taken: Taken, fits: Callable[[str, Row, Taken], bool]
) -> Iterator[tuple[int, Taken]]:
    """The ways to match a tree from a row on, in SQL's order of preference."""
    if isinstance(tree, str):
        if at < len(rows) and fits(tree, rows[at], taken):
            yield at + 1, (*taken, (tree, rows[at]))
        return
    kind, *parts = tree
    if kind == "seq":
        if not parts:
            yield at, taken
            return
        for end, found in ways(parts[0], rows, at, taken, fits):
            yield from ways(("seq", *parts[1:]), rows, end, found, fits)
    elif kind in ("^", "$"):
        if at == (0 if kind == "^" else len(rows)):
            yield at, taken
    elif kind == "permute":
        for order in permutations(parts):
            yield from ways(("seq", *order), rows, at, taken, fits)
    elif kind == "alt":
        for part in parts:
            yield from ways(part, rows, at, taken, fits)
    else:
        part, least, most = parts
        if most is None or most > 0:
            fewer = ("rep", part, max(0, least - 1), None if most is None else most - 1)
            for end, found in ways(part, rows, at, taken, fits):
                if end > at:
                    yield from ways(fewer, rows, end, found, fits)
        if least == 0:
            yield at, taken


def by_hand(
    tree: Tree,
    rows: list[Row],
    fits: Callable[[str, Row, Taken], bool],
    *,
    past_last: bool = True,
    within: int | None = None,
    to: tuple[str, int] | None = None,
) -> list[list[str]]:
    found = []
    for key in sorted({row["k"] for row in rows if row["type"] == "T" and "k" in row}):
        own = [row for row in rows if row["type"] == "T" and row.get("k") == key]
        at = 0
        while at < len(own):

            def fast(end: int, start: int = at, own: list[Row] = own) -> bool:
                lasts = own[end - 1]["time"].microseconds - own[start]["time"].microseconds
                return within is None or lasts < within

            first = next((each for each in ways(tree, own, at, (), fits) if fast(each[0])), None)
            if first is None:
                at += 1
                continue
            end, taken = first
            found.append([row["id"] for _, row in taken])
            at = max(end, at + 1) if past_last else at + 1  # behind an empty match is the next row
            if to is not None:
                at = own.index([row for variable, row in taken if variable == to[0]][to[1]])
    return found


def stream(random: Random, length: int = 24) -> list[Row]:
    seconds, rows = 0, []
    for number in range(length):
        seconds += random.choice([0, 1, 1, 2])
        row: Row = {
            "id": f"r{number:02}",
            "type": random.choice("TTTTTU"),
            "x": random.choice([1, 1, 2, 2, 3, 4]),
            "y": random.randrange(5),
            "time": Instant(seconds * SECOND),
            "k": random.choice("pq"),
        }
        if random.random() < 0.1:
            del row[random.choice("xyk")]
        rows.append(row)
    return rows


# Each variable is a number that x is equal to: so no row is of two.
NUMBERS = {"A": 1, "B": 2, "C": 3, "D": 4}
DEFINE = ", ".join(f"{name} AS x = {number}" for name, number in NUMBERS.items())
TREES: list[tuple[str, Tree]] = [
    ("A B", ("seq", "A", "B")),
    ("A B* C", ("seq", "A", ("rep", "B", 0, None), "C")),
    ("A B*? C", ("seq", "A", ("rep", "B", 0, None), "C")),
    ("A+ B", ("seq", ("rep", "A", 1, None), "B")),
    ("A B? C", ("seq", "A", ("rep", "B", 0, 1), "C")),
    ("(A | B)+ C", ("seq", ("rep", ("alt", "A", "B"), 1, None), "C")),
    ("(A B)+ C", ("seq", ("rep", ("seq", "A", "B"), 1, None), "C")),
    ("A{2} B", ("seq", ("rep", "A", 2, 2), "B")),
    ("A{1,2} B{,2} C", ("seq", ("rep", "A", 1, 2), ("rep", "B", 0, 2), "C")),
    ("A (B | C) D", ("seq", "A", ("alt", "B", "C"), "D")),
    ("A* B", ("seq", ("rep", "A", 0, None), "B")),
    ("A{2,} (B | C){1,3} D", ("seq", ("rep", "A", 2, None), ("rep", ("alt", "B", "C"), 1, 3), "D")),
]


@given(st.integers(0, 1 << 32))
def test_matches_are_those_of_sql_by_hand(seed: int) -> None:
    random = Random(seed)
    text, tree = random.choice(TREES)
    past_last = random.random() < 0.6
    seconds = random.choice([None, None, 2, 5])
    names = {name for name in NUMBERS if name in text}
    compared = "B" in names and text.startswith("A B") and random.random() < 0.5
    define = ", ".join(f"{name} AS x = {number}" for name, number in NUMBERS.items() if name in names)
    if compared:
        define = define.replace("B AS x = 2", "B AS B.x = 2 AND B.y >= A.y")

    def fits(name: str, row: Row, taken: Taken) -> bool:
        if row.get("x") != NUMBERS[name]:
            return False
        if name == "B" and compared:
            last = [each for variable, each in taken if variable == "A"][-1]
            return "y" in row and "y" in last and bool(row["y"] >= last["y"])
        return True

    made = patterns.read(
        "match_recognize",
        query(
            text,
            define,
            skip="AFTER MATCH SKIP PAST LAST ROW" if past_last else "AFTER MATCH SKIP TO NEXT ROW",
            within="" if seconds is None else f"WITHIN INTERVAL '{seconds}' SECOND",
        ),
    )
    rows = stream(random)
    within = None if seconds is None else seconds * SECOND
    expected = by_hand(tree, rows, fits, past_last=past_last, within=within)
    assert sorted(detected(made, rows)) == sorted(expected)


@given(st.integers(0, 1 << 32))
def test_a_variable_that_only_begins_a_match_may_be_any_row(seed: int) -> None:
    text, tree = "S B+ C", ("seq", "S", ("rep", "B", 1, None), "C")
    made = patterns.read("match_recognize", query(text, "B AS x = 2 AND y > S.y, C AS x IN (3, 4)"))

    def fits(name: str, row: Row, taken: Taken) -> bool:
        if name == "S":
            return True
        if name == "C":
            return row.get("x") in (3, 4)
        return row.get("x") == 2 and "y" in row and "y" in taken[0][1] and bool(row["y"] > taken[0][1]["y"])

    rows = stream(Random(seed), 30)
    assert sorted(detected(made, rows)) == sorted(by_hand(tree, rows, fits))


@given(st.integers(0, 1 << 32), st.sampled_from([("FIRST", 0), ("LAST", -1), ("", -1)]))
def test_it_is_gone_on_from_a_row_of_a_variable(seed: int, place: tuple[str, int]) -> None:
    text, tree = "A B{1,3} A2", ("seq", "A", ("rep", "B", 1, 3), "A2")
    define = "A AS x = 1, B AS x = 2, A2 AS x IN (3, 4)"
    made = patterns.read("match_recognize", query(text, define, skip=f"AFTER MATCH SKIP TO {place[0]} B"))

    def fits(name: str, row: Row, taken: Taken) -> bool:
        return row.get("x") in {"A": (1,), "B": (2,), "A2": (3, 4)}[name]

    rows = stream(Random(seed), 40)
    assert sorted(detected(made, rows)) == sorted(by_hand(tree, rows, fits, to=("B", place[1])))


def preceding(rows: list[Row], back: int = 1) -> dict[str, Any]:
    """By the id of a row, y of the row before it in its partition, where there is one that has it."""
    found: dict[str, Any] = {}
    for key in "pq":
        own = [row for row in rows if row["type"] == "T" and row.get("k") == key]
        found |= {row["id"]: before.get("y") for before, row in zip(own, own[back:], strict=False)}
    return found


def compared(op: Callable[[Any, Any], Any], one: Any, other: Any) -> bool:
    return one is not None and other is not None and bool(op(one, other))


@given(st.integers(0, 1 << 32), st.booleans(), st.booleans())
def test_a_row_is_compared_with_those_before_it(seed: int, past_last: bool, at_end: bool) -> None:
    skip = "AFTER MATCH SKIP PAST LAST ROW" if past_last else "AFTER MATCH SKIP TO NEXT ROW"
    define = "D AS y < PREV(y), U AS PREV(U.y) < y, Z AS y = PREV(y, 1) AND y <= PREV(S.y, 2)"
    if at_end:
        define = define.partition(", Z")[0]
    made = patterns.read("match_recognize", query(f"S D+ U+ {'$' if at_end else 'Z'}", define, skip=skip))
    rows = stream(Random(seed), 40)
    before, further = preceding(rows), preceding(rows, 2)

    def fits(name: str, row: Row, taken: Taken) -> bool:
        own, last = row.get("y"), before.get(row["id"])
        match name:
            case "D":
                return compared(lt, own, last)
            case "U":
                return compared(gt, own, last)
            case "Z":
                return compared(eq, own, last) and compared(le, own, further.get(taken[0][1]["id"]))
        return True

    tree: Tree = ("seq", "S", ("rep", "D", 1, None), ("rep", "U", 1, None), ("$",) if at_end else "Z")
    assert sorted(detected(made, rows)) == sorted(by_hand(tree, rows, fits, past_last=past_last))


LAST: list[tuple[str, Tree]] = [
    ("A B+", ("seq", "A", ("rep", "B", 1, None))),
    ("A B*", ("seq", "A", ("rep", "B", 0, None))),
    ("A+", ("rep", "A", 1, None)),
    ("A{2,}", ("rep", "A", 2, None)),
    ("A B? C+", ("seq", "A", ("rep", "B", 0, 1), ("rep", "C", 1, None))),
    ("(A | B) C{2,}", ("seq", ("alt", "A", "B"), ("rep", "C", 2, None))),
    ("^ A B+", ("seq", ("^",), "A", ("rep", "B", 1, None))),
    ("A*", ("rep", "A", 0, None)),
    ("A?", ("rep", "A", 0, 1)),
]


@given(st.integers(0, 1 << 32), st.sampled_from(LAST), st.booleans())
def test_as_many_rows_as_there_are_are_taken_at_the_end_and_empty_matches_are_told(
    seed: int, way: tuple[str, Tree], past_last: bool
) -> None:
    text, tree = way
    names = {name for name in NUMBERS if name in text}
    define = ", ".join(f"{name} AS x = {number}" for name, number in NUMBERS.items() if name in names)
    skip = "AFTER MATCH SKIP PAST LAST ROW" if past_last else "AFTER MATCH SKIP TO NEXT ROW"
    made = patterns.read("match_recognize", query(text, define, skip=skip))
    rows = stream(Random(seed), 40)
    rows = [{**row, "x": min(row["x"], len(names) + 1)} if "x" in row else row for row in rows]

    def fits(name: str, row: Row, taken: Taken) -> bool:
        return row.get("x") == NUMBERS[name]

    assert sorted(detected(made, rows)) == sorted(by_hand(tree, rows, fits, past_last=past_last))
    assert str(patterns.read("fairlead", str(made))) == str(made)


@given(st.integers(0, 1 << 32), st.booleans())
def test_a_fall_is_followed_by_the_whole_of_a_rise(seed: int, past_last: bool) -> None:
    skip = "AFTER MATCH SKIP PAST LAST ROW" if past_last else "AFTER MATCH SKIP TO NEXT ROW"
    made = patterns.read("match_recognize", query("S D+ U+", "D AS y < PREV(y), U AS y > PREV(y)", skip=skip))
    rows = stream(Random(seed), 40)
    before = preceding(rows)

    def fits(name: str, row: Row, taken: Taken) -> bool:
        how: dict[str, Callable[[Any, Any], Any]] = {"D": lt, "U": gt}
        return name == "S" or compared(how[name], row.get("y"), before.get(row["id"]))

    tree: Tree = ("seq", "S", ("rep", "D", 1, None), ("rep", "U", 1, None))
    assert sorted(detected(made, rows)) == sorted(by_hand(tree, rows, fits, past_last=past_last))


ANCHORED: list[tuple[str, Tree]] = [
    ("^ A B* C", ("seq", ("^",), "A", ("rep", "B", 0, None), "C")),
    ("^ (A | B) C", ("seq", ("^",), ("alt", "A", "B"), "C")),
    ("A B+ $", ("seq", "A", ("rep", "B", 1, None), ("$",))),
    ("^ A (B | C)+ $", ("seq", ("^",), "A", ("rep", ("alt", "B", "C"), 1, None), ("$",))),
    ("(A | B)+ $", ("seq", ("rep", ("alt", "A", "B"), 1, None), ("$",))),
]


@pytest.mark.parametrize(("text", "tree"), ANCHORED)
@pytest.mark.parametrize("seconds", [None, 5])
def test_a_match_is_anchored_at_the_ends_of_a_partition(text: str, tree: Tree, seconds: int | None) -> None:
    names = {name for name in NUMBERS if name in text}
    define = ", ".join(f"{name} AS x = {number}" for name, number in NUMBERS.items() if name in names)
    within = "" if seconds is None else f"WITHIN INTERVAL '{seconds}' SECOND"
    made = patterns.read("match_recognize", query(text, define, within=within))
    total = 0
    for seed in range(120):
        rows = [{**row, "x": row.get("x", 1) % 3 + 1} for row in stream(Random(seed), 5)]
        expected = by_hand(
            tree,
            rows,
            lambda name, row, _: row["x"] == NUMBERS[name],
            within=None if seconds is None else seconds * SECOND,
        )
        assert sorted(detected(made, rows)) == sorted(expected)
        total += len(expected)
    assert total > 3


def test_a_valley_in_our_words() -> None:
    """A fall, then a rise: the example that every text about MATCH_RECOGNIZE begins with."""
    made = patterns.read(
        "match_recognize",
        """
        SELECT * FROM Ticker MATCH_RECOGNIZE (
          PARTITION BY symbol ORDER BY time
          MEASURES STRT.price AS start, LAST(DOWN.price) AS bottom, PREV(UP.price) AS before
          PATTERN (^ STRT DOWN+ UP)
          DEFINE DOWN AS DOWN.price < PREV(DOWN.price), UP AS UP.price > PREV(UP.price))
        """,
    )
    expected = patterns.read(
        "fairlead",
        "Ticker as STRT among Ticker followed by 1 or more (Ticker as DOWN among Ticker) followed by "
        "Ticker as UP among Ticker, same symbol, DOWN.price < prev(DOWN.price), UP.price > prev(UP.price), "
        "STRT is first, giving start = STRT.price, bottom = last(DOWN.price), before = prev(UP.price)",
    )
    assert str(made) == str(expected)


PERMUTED: list[tuple[str, Tree]] = [
    ("PERMUTE(A, B, C)", ("permute", "A", "B", "C")),
    ("A PERMUTE(B, C)", ("seq", "A", ("permute", "B", "C"))),
    ("PERMUTE(A B, C{2})", ("permute", ("seq", "A", "B"), ("rep", "C", 2, 2))),
]


@given(st.integers(0, 1 << 32), st.sampled_from(PERMUTED), st.booleans())
def test_a_free_order_is_that_of_sql(seed: int, way: tuple[str, Tree], past_last: bool) -> None:
    text, tree = way
    names = {name for name in NUMBERS if name in text.replace("PERMUTE", "")}
    define = ", ".join(f"{name} AS x = {number}" for name, number in NUMBERS.items() if name in names)
    skip = "AFTER MATCH SKIP PAST LAST ROW" if past_last else "AFTER MATCH SKIP TO NEXT ROW"
    made = patterns.read("match_recognize", query(text, define, skip=skip))
    rows = stream(Random(seed), 40)

    def fits(name: str, row: Row, taken: Taken) -> bool:
        return row.get("x") == NUMBERS[name]

    assert sorted(detected(made, rows)) == sorted(by_hand(tree, rows, fits, past_last=past_last))


def test_the_law_is_about_something() -> None:
    total = 0
    for seed in range(30):
        for text, tree in TREES:
            rows = stream(Random(seed))
            total += len(by_hand(tree, rows, lambda name, row, _: row.get("x") == NUMBERS[name]))
            assert text
    assert total > 300


@pytest.mark.parametrize(
    ("what", "pattern", "define"),
    [
        ("a repetition at the end", "A (B | C)+", "A AS x = 1, B AS x = 2, C AS x = 3"),
        ("a row of two variables", "A B+ C", "A AS x = 1, B AS x >= 2, C AS x >= 2"),
    ],
)
def test_what_is_refused_does_differ(
    what: str, pattern: str, define: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the check, SQL by hand and the pattern find different matches."""
    text = query(pattern, define)
    with pytest.raises(TranslationRefused):
        patterns.read("match_recognize", text)
    monkeypatch.setattr(match_recognize._Query, "_check_same_meaning", lambda *_, **__: None)
    made = patterns.read("match_recognize", text)
    either = "|" in pattern
    repeated: Tree = ("rep", ("alt", "B", "C") if either else "B", 1, None)
    tree: Tree = ("seq", "A", repeated, *("C" * (not either)))

    def fits(name: str, row: Row, _: Taken) -> bool:
        x = row.get("x", 0)
        return bool(x == NUMBERS[name] if either or name == "A" else x >= 2)

    streams = (stream(Random(seed)) for seed in range(30))
    assert any(sorted(detected(made, rows)) != sorted(by_hand(tree, rows, fits)) for rows in streams), what


# -- worked cases ----------------------------------------------------------------------------------------------


def test_a_query_in_our_words() -> None:
    made = patterns.read(
        "match_recognize",
        """
        SELECT * FROM Quote MATCH_RECOGNIZE (
          PARTITION BY symbol, market
          ORDER BY time  -- the order of events
          MEASURES A.price AS low, LAST(B.price) AS high, COUNT(B.*) AS ups, FINAL MAX(B.price) AS top
          PATTERN (A B+ C) WITHIN INTERVAL '10' MINUTE
          DEFINE A AS price < 10, B AS B.price >= 20 AND B.price > A.price, C AS price BETWEEN 10 AND 15
        ) AS m;
        """,
    )
    expected = patterns.read(
        "fairlead",
        "Quote[price < 10] as A among Quote followed by 1 or more Quote[price >= 20] as B among Quote followed by "
        "Quote[price in [10, 15]] as C among Quote within 9 minutes 59.999999 s, same symbol and market, "
        "B.price > A.price, giving low = A.price, high = last(B.price), ups = count(B), top = max(B.price)",
    )
    assert (made.same, made.conditions, made.outputs) == (
        expected.same,
        expected.conditions,
        expected.outputs,
    )
    rows = [
        {
            "id": f"{at}",
            "type": "Quote",
            "symbol": "IBM",
            "market": "x",
            "price": price,
            "time": Instant(at * SECOND),
        }
        for at, price in enumerate([5, 20, 25, 12, 5, 20, 99, 3])
    ]
    assert detected(made, rows) == detected(expected, rows) == [["0", "1", "2", "3"]]
    assert str(patterns.read("fairlead", str(made))) == str(made)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (query("A+ B*", "A AS x = 1, B AS x = 2"), "a repetition at the end"),
        (query("A B+?", "A AS x = 1, B AS x = 2"), "a reluctant repetition at the end"),
        (query("A B+", "A AS x = 1, B AS x = 2", within="WITHIN INTERVAL '1' HOUR"), "and WITHIN"),
        (query("A*", "A AS x > PREV(x)"), "where rows are compared"),
        (query("A?", "A AS x = 1", measures="MEASURES COUNT(A.*) AS n"), "COUNT of what may have no row"),
        (query("A B+ C", "A AS x = 1, B AS x > 1, C AS x > 1"), "a row may be B and C"),
        (query("A B A", "A AS x = 1, B AS x = 2"), "the variable A occurs more than once"),
        (query("PERMUTE(A, B?)", "A AS x = 1, B AS x = 2"), "may match without taking"),
        (
            query("PERMUTE(A, B+)", "A AS x = 1, B AS x = 2"),
            "PERMUTE is read where all matches have as many rows",
        ),
        (query("PERMUTE(A, B)", "A AS x = 1, B AS x > 0"), "a row may be A and B"),
        (query("A ^ B", "A AS x = 1, B AS x = 2"), "an anchor stands first or last"),
        (query("A $ B", "A AS x = 1, B AS x = 2"), "an anchor stands first or last"),
        (query("^ A+ B", "A AS x = 1, B AS x = 2"), "A may be the first row and a later one"),
        (query("A B+ C+ $", "A AS x = 1, B AS x > 0, C AS x > 1"), "a row may be B and C"),
        (query("A {- B -} C", "A AS x = 1"), "an exclusion is not read"),
        (query("A? B?", "A AS x = 1, B AS x = 2"), "without a row"),
        (query("A ()", "A AS x = 1"), "an empty pattern"),
        (query("A B", "A AS x = 1, B AS x = 2 AND x > PREV(x, 0)"), "PREV has a column"),
        (query("A B", "A AS x = 1, B AS x = 2 AND x > PREV(x + 1)"), "PREV has a column"),
        (query("A B", "A AS x = 1, B AS x = 2 AND x > NEXT(x)"), "NEXT is not read"),
        (query("A? B C", "A AS x = 1, B AS x = 2, C AS x = 3 AND y > PREV(A.y)"), "A may have no row when C"),
        (
            query("S D+ U+ Z", "D AS y < PREV(y), U AS y >= PREV(y), Z AS y = PREV(y)"),
            "a row may be U and Z",
        ),
        (query("S D+ U", "D AS y < PREV(y), U AS y > PREV(y, 2)"), "a row may be D and U"),
        (query("A B", "A AS x = 1, B AS x = 2 AND B.y > A.y + 1"), "arithmetic"),
        (query("A B", "A AS x = 1, B AS x = 2 AND B.y > SUM(A.y)"), "SUM is not read"),
        (query("A? B C", "A AS x = 1, B AS x = 2, C AS x = 3 AND C.y > A.y"), "A may have no row when C"),
        (query("A B", "A AS x = 1 AND A.y > B.y, B AS x = 2"), "B may have no row when A"),
        (query("A B", "A AS x = 1, B AS x = 2 AND (B.y > A.y OR y = 1)"), "joined by AND"),
        (query("A B", "A AS x = 1, B AS x = 2, C AS x = 3"), "C does not occur in the pattern"),
        (
            query("A B", "A AS x = 1, B AS x = 2", skip="AFTER MATCH SKIP TO LAST A"),
            "SQL fails where A is the first row",
        ),
        (
            query("A B", "A AS x = 1, B AS x = 2", measures="MEASURES CLASSIFIER() AS c"),
            "CLASSIFIER is not read",
        ),
        (query("A B", "A AS x = 1, B AS x = 2", measures="MEASURES AVG(A.x) AS c"), "AVG is not read"),
        (query("A B", "A AS x = 1, B AS x = 2", within="WITHIN 5"), "an interval was expected"),
        (
            query("A B", "A AS x = 1, B AS x = 2").replace("ORDER BY time", "ORDER BY x"),
            "in the order of their times",
        ),
        (
            query("A B", "A AS x = 1, B AS x = 2").replace("ORDER BY time", "ORDER BY time DESC"),
            "order of their times",
        ),
        (query("A B", "A AS x = 1, B AS x = 2").replace("ONE ROW", "ALL ROWS"), "ALL ROWS PER MATCH"),
        (query("A B", "A AS x = 1, B AS x = 2", source="SELECT a FROM T JOIN U "), "FROM one type"),
        ("SELECT 1", "there is no MATCH_RECOGNIZE"),
    ],
)
def test_refused_by_name(text: str, problem: str) -> None:
    with pytest.raises(TranslationRefused) as error:
        patterns.read("match_recognize", text)
    assert problem in str(error.value)


def test_a_language_that_there_is_not_is_named() -> None:
    with pytest.raises(FilterError, match="did you mean match_recognize"):
        patterns.read("match_recognise", "")
