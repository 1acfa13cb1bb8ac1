"""The columnar engine in its other forms: record batches, files, destinations, scores, threads, small engines."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead import kernels
from fairlead.errors import DamagedIndex, SchemaError, ValueRefused
from fairlead.filters.constraint import Constraint, Extended, Op, Range
from fairlead.filters.extensions import ExtensionBase, register, unregister
from fairlead.filters.filter import EVERYTHING, And, Filter, Not
from fairlead.filters.language import parse
from fairlead.filters.schema import Schema
from fairlead.filters.terms import Attribute
from fairlead.matching.columnar import Columnar
from fairlead.matching.columnar.compile import program_of
from fairlead.matching.columnar.index import Index
from fairlead.matching.columnar.meaning import score_of
from fairlead.model import Instant, Interval, Notification, Rectangle
from fairlead.model.encoding import fields_to_json
from fairlead.testing import strategies as fst
from fairlead_lab.matching.shapes import SHAPES

X, Y = Attribute("x"), Attribute("y")


def engine_of(filters: list[Filter], small: int = 0) -> Columnar[Any]:
    engine = Columnar[Any](small=small)
    engine.add_many(enumerate(filters))
    return engine


# -- shapes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_is_matched_as_its_filters_say(name: str) -> None:
    rng = Random(7)
    filters = list(SHAPES[name].filters(2000, rng))
    notifications = list(islice(SHAPES[name].notifications(2000, rng), 20))
    expected = [[n for n, filter in enumerate(filters) if filter.matches(each)] for each in notifications]
    engine = engine_of(filters)
    assert engine.match_batch(notifications) == expected
    assert [engine.match(each) for each in notifications] == expected
    records = [fields_to_json(each.attributes) for each in notifications]
    names = {name for record in records for name in record}
    found = engine.match_arrow(
        pa.RecordBatch.from_pydict({name: [record.get(name) for record in records] for name in names})
    )
    assert [found[row] for row in range(len(found))] == expected


def test_a_hot_value_is_split_so_that_few_filters_are_verified() -> None:
    rng = Random(7)
    filters = list(SHAPES["M6"].filters(20_000, rng))
    notifications = list(islice(SHAPES["M6"].notifications(20_000, rng), 200))
    account = engine_of(filters).explain(notifications)
    assert account.candidates < 20 * account.matches


def between(term: str, low: Any, high: Any) -> Filter:
    return Constraint(Attribute(term), Op.IN_RANGE, Range(low, high, True, False))


@pytest.mark.parametrize("small", [0, 5000])
@pytest.mark.parametrize(
    "made",
    [
        lambda number: f"a common beginning/{number:05}",
        lambda number: number.to_bytes(4, "big"),
        Instant,
        int,
    ],
)
def test_ranges_of_every_ordered_kind_are_found_without_looking_at_them_all(
    made: Callable[[int], Any], small: int
) -> None:
    rng = Random(11)
    starts = [rng.randrange(99_000) for _ in range(4000)]
    engine = engine_of([between("x", made(start), made(start + 25)) for start in starts], small)
    given = [rng.randrange(99_000) for _ in range(100)]
    account = engine.explain([Notification.of({"x": made(number)}) for number in given])
    assert account.matches == sum(start <= number < start + 25 for start in starts for number in given)
    assert account.paths == {"range": 4000}
    assert account.candidates < 6 * account.matches


@pytest.mark.parametrize("small", [0, 5000])
def test_comparisons_with_one_string_are_found_in_their_order(small: int) -> None:
    filters: list[Filter] = [Constraint(X, Op.GT, f"{number:04}") for number in range(2000)]
    filters += [Constraint(X, Op.LE, f"{number:04}") for number in range(2000)]
    engine = engine_of(filters, small)
    for value, matches in (
        ("0003", 3 + 1997),
        ("0003x", 4 + 1996),
        ("", 2000),
        ("x", 2000),
        (3, 0),
        (b"", 0),
    ):
        account = engine.explain([Notification.of({"x": value})])
        assert account.matches == matches
        assert matches <= account.candidates <= matches + 1  # a strict one may turn out to be equal


def test_strings_choose_between_an_equality_and_a_range_by_what_is_rare() -> None:
    rng = Random(5)
    filters: list[Filter] = []
    for _ in range(5000):
        low = rng.randrange(9990)
        filters.append(And((Constraint(Y, Op.EQ, "hot"), between("x", f"{low:04}", f"{low + 9:04}"))))
    account = engine_of(filters).explain(
        [Notification.of({"x": f"{n:04}", "y": "hot"}) for n in range(0, 9999, 99)]
    )
    assert account.candidates < 6 * account.matches


# -- record batches ----------------------------------------------------------------------------------------

RECORDS = st.fixed_dictionaries(
    {},
    optional={
        "s": st.text("ab", max_size=4),
        "f": st.floats(allow_nan=True) | st.sampled_from([0.1, 1.0]),
        "i": st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3),
        "b": st.booleans(),
        "t": st.integers(0, 3).map(lambda n: Instant(n).datetime()),
        "l": st.lists(st.text("ab", max_size=2), max_size=3),
        "d": st.sampled_from([Decimal("0.10"), Decimal("1.00"), Decimal("0.25")]),
        "y": st.binary(max_size=2),
        "r": st.fixed_dictionaries({}, optional={"s": st.text("ab", max_size=2), "i": st.integers(0, 2)}),
    },
)
SCHEMA = pa.schema(
    [
        ("s", pa.string()),
        ("f", pa.float64()),
        ("i", pa.int64()),
        ("b", pa.bool_()),
        ("t", pa.timestamp("us", "UTC")),
        ("l", pa.list_(pa.string())),
        ("d", pa.decimal128(5, 2)),
        ("y", pa.binary()),
        ("r", pa.struct([("s", pa.string()), ("i", pa.int32())])),
    ]
)
ASKED = [
    's > "a"', 's in ["a", "b"]', 's < "ab"', 's in ("a", "b")', 'not s >= "b"', 'r.s in ["a", "aa")', "s > 3",
    's = "a"', 's prefix "a"', 's substring "ba"', 's suffix "b"', 's != "a"', "f = 0.1", "f > 0.5", "f <= 0.1",
    "i = 1", "i >= 1", "i > 9007199254740992", "i < -9007199254740993", "b = true", "not b = true", "exists l",
    f"{Constraint(Attribute('t'), Op.EQ, Instant(1))}", f"{Constraint(Attribute('t'), Op.GE, Instant(2))}",
    'l contains "a"',
    'l subset {"a", "b"}', "d = 0.1", "d > 0.1", 'r.s = "a"', "r.i in [1, 2]", "exists r", "absent r.s",
    's ~ "a*"', "exists f and not f is number",
]  # fmt: skip


@given(st.lists(RECORDS, max_size=6))
def test_rows_of_record_batches_match_as_notifications_do(records: list[dict[str, Any]]) -> None:
    filters = [*map(parse, ASKED)]
    filters += [Constraint(Attribute("y"), Op.PREFIX, b"\x00"), Constraint(Attribute("y"), Op.EQ, b"")]
    filters += [Constraint(Attribute("y"), Op.GE, b"\x00"), between("y", b"", b"\x01")]
    batch = pa.RecordBatch.from_pylist(records, SCHEMA)
    plain = [{name: value for name, value in record.items() if value is not None} for record in records]
    engine = engine_of(filters)
    expected = engine.match_batch([Notification.of(record) for record in plain])
    found = engine.match_arrow(batch)
    assert [found[row] for row in range(len(found))] == expected
    if records:
        later = engine.match_arrow(batch.slice(1))
        assert [later[row] for row in range(len(later))] == expected[1:]


def test_flat_columns_with_dotted_names_are_nested_and_dictionaries_are_read() -> None:
    batch = pa.RecordBatch.from_arrays(
        [pa.array(["a", None, "b"]).dictionary_encode(), pa.array(["x", "y", None])], ["p.q", "n"]
    )
    engine = engine_of([parse('p.q = "a"'), parse("exists p"), parse('n = "y"'), parse("absent n")])
    assert [engine.match_arrow(batch)[row] for row in range(3)] == [[0, 1], [2], [1, 3]]


def test_timestamps_without_a_zone_are_refused() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1], pa.timestamp("us"))], ["x"])
    with pytest.raises(ValueRefused, match="time zone"):
        engine_of([Constraint(X, Op.EXISTS)]).match_arrow(batch)


# -- files -------------------------------------------------------------------------------------------------


EVERY_SORT = fst.filters(templates=True, paths=True, polynomials=True, methods=True, extensions=True)


@given(
    st.lists(EVERY_SORT, min_size=1, max_size=6),
    st.lists(fst.notifications(templates=True, paths=True, methods=True), max_size=4),
)
def test_an_engine_from_a_file_answers_as_the_one_that_wrote_it(
    filters: list[Filter], notifications: list[Notification]
) -> None:
    import tempfile

    engine = Columnar[str](small=1000)
    for number, filter in enumerate(filters):
        engine.add(f"é{number}", filter, destination=number % 2)
    with tempfile.TemporaryDirectory() as directory:
        path = engine.save(directory)
        assert engine.save(directory) == path
        opened = Columnar.open(path)
    expected = engine.match_batch(notifications)
    assert opened.match_batch(notifications) == expected
    for notification in notifications:
        assert opened.match_destinations(notification) == engine.match_destinations(notification)
    opened.remove("é0")
    opened.add("new", EVERYTHING)
    assert opened.match_batch(notifications) == [
        [id for id in matching if id != "é0"] + ["new"] for matching in expected
    ]


def test_an_index_is_opened_only_under_the_schema_it_was_saved_with(tmp_path: Path) -> None:
    schema = Schema(types={"quote": (), "stock": ("quote",)}, attributes={"x": "int"})
    engine = Columnar[int](schema=schema)
    engine.add(1, parse("not (type is quote and x = 1) or /a[@type is stock]", schema))
    engine.add(2, parse("type is quote", schema))
    path = engine.save(tmp_path)
    assert Columnar.open(path, schema).match(Notification.of({"type": "stock", "x": 1})) == [2]
    for other in (None, Schema(types={"quote": (), "stock": ("quote",)})):
        with pytest.raises(SchemaError, match="made under another schema"):
            Columnar.open(path, other)
    with pytest.raises(SchemaError, match="made under no schema"):
        Columnar.open(saved(tmp_path), schema)


@pytest.mark.parametrize("id", [(1, 2), 1.5, True, b"a"])
def test_ids_that_a_file_cannot_keep_are_refused_by_name(tmp_path: Path, id: Any) -> None:
    engine = Columnar[Any]()
    engine.add_many([("one", EVERYTHING), (id, EVERYTHING)])
    with pytest.raises(ValueRefused, match=re.escape(repr(id))):
        engine.save(tmp_path)
    assert not list(tmp_path.iterdir())


def saved(directory: Path) -> Path:
    return engine_of([Constraint(X, Op.EQ, 1), Constraint(Y, Op.PREFIX, "a")]).save(directory)


@pytest.mark.parametrize("place", [0, 15, 20, 60, -1])
def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path, place: int) -> None:
    path = saved(tmp_path)
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedIndex, match=path.name):
        Columnar.open(path)


@pytest.mark.parametrize("content", [b"", b"fairlead", b"something else altogether, but long enough to look"])
def test_a_foreign_or_cut_file_is_an_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "foreign.filters"
    path.write_bytes(content)
    with pytest.raises(DamagedIndex, match="foreign"):
        Columnar.open(path)
    whole = saved(tmp_path)
    cut = tmp_path / "cut.filters"
    cut.write_bytes(whole.read_bytes()[:-70])
    with pytest.raises(DamagedIndex, match="cut"):
        Columnar.open(cut)


def test_the_same_filters_give_the_same_file(tmp_path: Path) -> None:
    assert saved(tmp_path / "one").read_bytes() == saved(tmp_path / "other").read_bytes()


# -- destinations and scores -------------------------------------------------------------------------------


@given(st.lists(st.tuples(fst.filters(), st.integers(0, 2)), max_size=8), fst.notifications(), st.booleans())
def test_the_destinations_are_those_of_the_matching_filters_each_once(
    asked: list[tuple[Filter, int]], notification: Notification, arrays: bool
) -> None:
    engine = Columnar[int](small=0 if arrays else 1000)
    engine.add_many((number, filter, destination) for number, (filter, destination) in enumerate(asked))
    found = engine.match_destinations(notification)
    assert len(found) == len(set(found))
    assert set(found) == {destination for filter, destination in asked if filter.matches(notification)}


class Asked(ExtensionBase):
    """Holds, and remembers what it was asked."""

    name = "asked_in_tests"

    def __init__(self) -> None:
        self.literals: list[str | bytes] = []

    def holds(self, value: Any, literal: str | bytes, /) -> bool:
        self.literals.append(literal)
        return literal != "no"


@pytest.fixture
def asked() -> Iterator[Asked]:
    operator = Asked()
    register(operator)
    yield operator
    unregister(Asked.name)


@pytest.mark.parametrize("small", [0, 1000])
@pytest.mark.parametrize("value", [1, 10**23, Interval(0, 2)])
def test_who_leads_to_a_settled_destination_is_not_asked(asked: Asked, value: Any, small: int) -> None:
    def says(literal: str) -> Filter:
        return Constraint(Y, Op.EXTENDED, Extended(Asked.name, literal))

    engine = Columnar[int](small=small)
    subscriptions: list[tuple[Filter, str | None]] = [
        (And((Constraint(X, Op.EXISTS), says("b"))), "south"),
        (says("no"), "north"),
        *((says("a"), "north") for _ in range(10)),
        (says("never asked"), None),
    ]
    if small == 0:  # what the kernel decides comes first, wherever it stands
        subscriptions = [(says("never asked"), "east"), *subscriptions, (Constraint(Y, Op.EQ, 1), "east")]
    engine.add_many((number, *subscription) for number, subscription in enumerate(subscriptions))
    expected = {
        name for filter, name in subscriptions if name and filter.matches(Notification.of({"x": 0, "y": 1}))
    }
    asked.literals.clear()
    assert set(engine.match_destinations(Notification.of({"x": value, "y": 1}))) == expected
    assert sorted(map(str, asked.literals)) == ["a", "b", "no"]


@pytest.mark.parametrize("small", [0, 1000])
def test_the_score_is_the_share_of_conditions_that_hold(small: int) -> None:
    three = And((Constraint(X, Op.EQ, 1), Constraint(Y, Op.GT, 5), Constraint(Attribute("z"), Op.EXISTS)))
    engine = engine_of([three, Constraint(X, Op.EQ, 2), Not(And((three, Constraint(X, Op.LT, 9))))], small)
    notification = Notification.of({"x": 1, "y": 3, "z": 0})
    assert engine.match_scored(notification, 0.5) == [(0, pytest.approx(2 / 3)), (2, 1.0)]
    assert engine.match_scored(notification) == [(2, 1.0)]


@given(st.lists(EVERY_SORT, min_size=1, max_size=8), fst.notifications(), st.floats(0.0, 0.99), st.booleans())
def test_scores_are_those_of_the_definition(
    filters: list[Filter], notification: Notification, least: float, arrays: bool
) -> None:
    expected = [
        (number, pytest.approx(score))
        for number, score in enumerate(score_of(program_of(filter), notification) for filter in filters)
        if score >= least
    ]
    assert engine_of(filters, 0 if arrays else 1000).match_scored(notification, least) == expected


# -- statistics --------------------------------------------------------------------------------------------


def test_what_notifications_have_often_is_not_what_filters_hang_on_any_more() -> None:
    # Filters ask for a thousand colours and a hundred sizes, so colours look rarer; but all that comes is red.
    rng = Random(3)
    filters: list[Filter] = [
        And(
            (
                Constraint(X, Op.EQ, f"colour{number % 1000}"),
                Constraint(Y, Op.EQ, f"size{rng.randrange(100)}"),
            )
        )
        for number in range(20_000)
    ]
    filters += [
        And((Constraint(X, Op.EQ, "red"), Constraint(Y, Op.EQ, f"size{n % 100}"))) for n in range(200)
    ]
    engine = engine_of(filters)
    notifications = [Notification.of({"x": "red", "y": f"size{rng.randrange(100)}"}) for _ in range(2000)]
    before = engine.explain(notifications)
    engine.add_many([("new", EVERYTHING)])
    after = engine.explain(notifications)
    assert after.matches == before.matches + len(notifications)
    assert after.candidates - len(notifications) < before.candidates / 10


# -- ids ---------------------------------------------------------------------------------------------------

IDS = st.one_of(
    st.lists(st.integers(-5, 5) | st.integers(-(2**64), 2**64)),
    st.lists(st.integers(-3, 3)),
    st.lists(st.sampled_from([0, 1, -1, -2, "a", "1", "", (1, 2), None, 2.0, True, b"a"])),
)


@given(IDS, IDS)
def test_ids_are_found_as_in_a_dictionary(some: list[Any], more: list[Any]) -> None:
    from fairlead.matching.columnar.ids import ids_of

    both = some + more
    ids = ids_of(more, ids_of(some))
    assert list(ids) == both
    assert ids.picked(np.arange(len(both), dtype=np.int32)) == both
    for id in (*both, 0, 1.0, "nowhere", 2**70, (1, 2), float("inf"), None):
        assert list(ids.find(id)) == [at for at, each in enumerate(both) if each == id]
    odd = np.arange(1, len(both), 2)
    assert list(ids.subset(odd)) == both[1::2]


# -- versions ----------------------------------------------------------------------------------------------


def test_a_taken_id_is_refused_and_nothing_is_added() -> None:
    engine = engine_of([EVERYTHING])
    for attempt in ([("new", EVERYTHING), (0, EVERYTHING)], [("new", EVERYTHING), ("new", EVERYTHING)]):
        with pytest.raises(ValueError, match=r"taken|twice"):
            engine.add_many(attempt)
    with pytest.raises(ValueError, match="taken"):
        engine.add(0, EVERYTHING)
    assert engine.match(Notification.of({})) == [0]


def test_a_reader_sees_a_batch_of_filters_whole_or_not_at_all_while_others_write() -> None:
    engine = Columnar[tuple[int, int]](small=50)
    stop, seen = [False], []

    def read() -> None:
        notification = Notification.of({"x": 1})
        while not stop[0]:
            found = [turn for turn, _ in engine.match(notification)]
            seen.append({found.count(turn) for turn in set(found)})

    reader = Thread(target=read)
    reader.start()
    for turn in range(30):
        engine.add_many(((turn, each), Constraint(X, Op.EQ, 1)) for each in range(10))
        if turn % 7 == 0:
            engine.compact()
    stop[0] = True
    reader.join()
    assert set().union(*seen) <= {10}


def test_readers_go_on_while_a_merge_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of([Constraint(X, Op.EQ, 1)] * 20)
    begun, release = Event(), Event()
    merged = Index.merged

    def held_up(*given: Any) -> Index:
        begun.set()
        assert release.wait(60)
        return merged(*given)

    monkeypatch.setattr(Index, "merged", held_up)
    writer = Thread(target=engine.add_many, args=([("new", EVERYTHING)],))
    writer.start()
    try:
        assert begun.wait(60)
        notifications = [Notification.of({"x": number}) for number in range(3)]
        assert engine.match_batch(notifications) == [[], [*range(20)], []]
        assert engine.match(notifications[1]) == [*range(20)]
    finally:
        release.set()
        writer.join()
    assert engine.match(notifications[0]) == ["new"]


def test_filters_of_negations_only_are_looked_at_once_each() -> None:
    filters = [Constraint(X, Op.NE, f"r{number % 100}") for number in range(5000)]
    account = engine_of(list(filters)).explain([Notification.of({"x": "r7"}), Notification.of({"y": 1})])
    assert (account.candidates, account.matches) == (5000, 4950)


def test_memory_returns_when_filters_are_removed() -> None:
    rng = Random(1)
    engine = engine_of(list(SHAPES["M1"].filters(3000, rng)), small=100)
    before = engine._version.base.index.nbytes  # type: ignore[union-attr]
    for number in range(2900):
        engine.remove(number)
    engine.compact()
    assert engine._version.base.index.nbytes < before / 4  # type: ignore[union-attr]


def test_the_account_says_how_filters_are_found_and_which_are_asked_in_vain() -> None:
    engine = engine_of([parse("x = 1 and y = 2"), parse("x > 5"), parse("not x = 1"), parse("false")])
    account = engine.explain([Notification.of({"x": 1, "y": 3})] * 5, worst=1)
    assert account.paths == {"value": 1, "range": 1, "always": 1, "never": 1}
    assert account.matches == 0
    assert "4 filters" in str(account)
    assert len(account.worst) == 1


def run(program: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )
    return ended.stdout.strip()


def test_ten_filters_load_neither_numpy_nor_a_compiler() -> None:
    program = """
        import sys
        from fairlead.filters.language import parse
        from fairlead.matching.columnar import Columnar
        from fairlead.model import Notification
        engine = Columnar()
        engine.add_many((n, parse(f"x > {n}")) for n in range(10))
        assert engine.match_batch([Notification.of({"x": 3})] * 10) == [[0, 1, 2]] * 10
        print(sorted({"numpy", "numba", "pyarrow"} & set(sys.modules)))
    """
    assert run(program) == "[]"


def test_a_few_hundred_filters_move_into_arrays_when_many_notifications_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fairlead.matching.columnar.engine.WORTH", 500)
    engine: Columnar[int] = Columnar()
    filters = [parse(f'region != "r{i % 10}" and service = "s{i // 10}"') for i in range(100)]
    for id, filter in enumerate(filters):
        engine.add(id, filter)
    for number in range(200):
        notification = Notification.of({"region": f"r{number % 11}", "service": f"s{number % 12}"})
        expected = [id for id, filter in enumerate(filters) if filter.matches(notification)]
        assert engine.match(notification) == engine.match_batch([notification])[0] == expected
    assert engine.statistics().tests > 500
    assert engine._version.base is not None
    engine.remove(0)
    assert 0 not in engine.match(Notification.of({"region": "r1", "service": "s0"}))


def test_kernels_are_kept_where_one_can_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    located = partial(kernels.cache_directory.__wrapped__, kernels.__file__)
    blocked = tmp_path / "blocked"
    blocked.write_text("not a directory")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert located().parent == tmp_path / "cache" / "fairlead"
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert located().parent == tmp_path / "home" / ".cache" / "fairlead"
    monkeypatch.setenv("HOME", str(blocked))
    assert located().is_relative_to(tmp_path / "temporary")


def test_kernels_are_not_loaded_from_a_directory_of_somebody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    located = partial(kernels.cache_directory.__wrapped__, kernels.__file__)
    blocked = tmp_path / "blocked"
    blocked.write_text("not a directory")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("HOME", str(blocked))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    ours = located()
    expected = tmp_path / f"fairlead-{os.geteuid()}"
    assert ours.parent == expected
    assert {each.stat().st_mode & 0o777 for each in (ours, expected)} == {0o700}
    assert located() == ours

    for planted in (ours, expected):  # others may write to it
        planted.chmod(0o777)
        refuge = located()
        assert refuge.parent == tmp_path
        assert refuge.name.startswith("fairlead-kernels-")
        assert refuge.stat().st_mode & 0o777 == 0o700
        planted.chmod(0o700)
    assert located() == ours

    elsewhere = tmp_path / "elsewhere"
    expected.rename(elsewhere)
    expected.symlink_to(elsewhere)  # a link, even to a directory of ours
    assert not located().is_relative_to(expected)
    expected.unlink()
    elsewhere.rename(expected)

    monkeypatch.setattr("os.geteuid", lambda: expected.stat().st_uid + 1)
    (tmp_path / f"fairlead-{os.geteuid()}").mkdir(mode=0o700)  # somebody else was there first
    assert located().name.startswith("fairlead-kernels-")


def test_kernels_are_compiled_once_per_machine(tmp_path: Path) -> None:
    path = saved(tmp_path)
    program = f"""
        from numba.core import event
        from fairlead.matching.columnar import Columnar
        from fairlead.model import Notification
        with event.install_recorder("numba:compile") as recorder:
            assert Columnar.open({str(path)!r}).match(Notification.of({{"x": 1}})) == [0]
        print(len(recorder.buffer))
    """
    run(program)
    assert run(program) == "0"


# -- comparisons with one bound ----------------------------------------------------------------------------

ENDS = st.sampled_from([0, 1, 2, 2.5, 3, 0.1, -4, 7, 1e9, 1e9 + 1, -1e300, 2**60, 2**60 + 1, Decimal("0.3")])
TWO_SIDED = st.one_of(
    st.builds("x overlaps interval({0[0]}, {0[1]})".format, st.tuples(ENDS, ENDS).map(sorted)),
    st.builds("x superset interval({0[0]}, {0[1]})".format, st.tuples(ENDS, ENDS).map(sorted)),
    st.builds("x contains point({}, {})".format, ENDS, ENDS),
    st.builds("a <= {} and b >= {}".format, ENDS, ENDS),
    st.builds("a >= {} and b < {} and c > {}".format, ENDS, ENDS, ENDS),
    st.builds("a > {} and c > {}".format, ENDS, ENDS),
    st.builds("b >= {} or a <= {}".format, ENDS, ENDS),
)
SHAPED = st.one_of(
    st.builds(lambda ends: Interval(*ends), st.tuples(ENDS, ENDS).map(sorted)),
    st.builds(
        lambda x, y: Rectangle(x[0], y[0], x[1], y[1]),
        st.tuples(ENDS, ENDS).map(sorted),
        st.tuples(ENDS, ENDS).map(sorted),
    ),
)


@given(
    st.lists(TWO_SIDED, min_size=1, max_size=30),
    st.lists(
        st.fixed_dictionaries(
            {}, optional={"x": SHAPED, "a": ENDS, "b": ENDS, "c": st.one_of(ENDS, st.just("c"))}
        ),
        min_size=1,
        max_size=10,
    ),
)
def test_a_run_of_bounds_that_a_partner_cuts_short_holds_all_that_match(
    texts: list[str], contents: list[dict[str, Any]]
) -> None:
    filters = [parse(text) for text in texts]
    engine = engine_of(filters)
    notifications = [Notification.of(content) for content in contents]
    expected = [[id for id, filter in enumerate(filters) if filter.matches(each)] for each in notifications]
    assert [engine.match(each) for each in notifications] == engine.match_batch(notifications) == expected


def test_of_many_intervals_those_near_are_candidates_alone() -> None:
    filters = [parse(f"x overlaps interval({i}, {i + 5}) and not y = 1") for i in range(2_000)]
    filters.append(parse("x overlaps interval(-1000000, 1000000)"))  # a long one is in a list of its own
    engine = engine_of(filters)
    found = engine.match_batch([Notification.of({"x": Interval(i, i + 1)}) for i in range(0, 2_000, 20)])
    assert sum(map(len, found)) > 700
    assert engine.statistics().tests < 2_000
