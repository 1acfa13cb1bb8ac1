"""Extensions: the registry, the relations every operator gets, and filters as values."""

from __future__ import annotations

import json
import operator
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import ExtensionError, FilterError
from fairlead.filters import covers, overlaps, parse
from fairlead.filters.constraint import Constraint, Extended, Op
from fairlead.filters.extensions import (
    Extension,
    ExtensionBase,
    constraint_covers,
    constraint_merge,
    constraint_overlaps,
    extensions,
    load,
    load_entry_points,
    operator_named,
    operators,
    register,
    unregister,
)
from fairlead.filters.registry import generation
from fairlead.filters.terms import Attribute
from fairlead.model import Kind, Notification

X = Attribute("x")


class Divides(ExtensionBase):
    """`x divides_by "3"`: an author writes a name, `holds` and `covers`."""

    name = "divides_by"
    kinds = frozenset({Kind.NUMBER})

    def check(self, literal: str | bytes, /) -> None:
        if not isinstance(literal, str) or not literal.isdigit() or not int(literal):
            raise FilterError(f"not a whole number above 0: {literal!r}")

    def holds(self, value: Any, literal: str | bytes, /) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and value % int(literal) == 0

    def covers(self, one: Constraint, other: Constraint, /) -> bool:
        match one.operand, other.operand:
            case Extended("divides_by", a), Extended("divides_by", b):
                return int(b) % int(a) == 0
            case _:
                return False


DIVIDES = Divides()


class Minimal:
    """What the protocol asks for, and nothing else."""

    name = "anything_in_tests"
    kinds = frozenset({Kind.STRING})

    @property
    def operators(self) -> tuple[Any, ...]:
        return (self,)

    def check(self, literal: str | bytes, /) -> None:
        return

    def holds(self, value: Any, literal: str | bytes, /) -> bool:
        return isinstance(value, str)

    def covers(self, one: Constraint, other: Constraint, /) -> bool:
        return False


@pytest.fixture
def divides() -> Iterator[None]:
    register(DIVIDES)
    yield
    unregister("divides_by")


def extended(name: str, literal: str) -> Constraint:
    return Constraint(X, Op.EXTENDED, Extended(name, literal))


# -- the registry --------------------------------------------------------------------------------------------


def test_the_three_examples_of_the_report_are_there_from_the_start() -> None:
    assert {"set<=", "set>=", "set~", "unifies", "&&"} <= set(operators())


def test_they_are_loaded_when_first_asked_for() -> None:
    program = (
        "import sys, fairlead.filters.extensions as e;"
        "assert 'fairlead.filters.extensions.bitsets' not in sys.modules;"
        "e.operator_named('set<=');"
        "assert 'fairlead.filters.extensions.bitsets' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_operator_that_is_registered_can_be_used_and_then_removed() -> None:
    register(DIVIDES)
    register(DIVIDES)  # again: nothing happens
    assert operator_named("divides_by") is DIVIDES
    assert extended("divides_by", "3").matches(Notification.of({"x": 9}))
    assert not extended("divides_by", "3").matches(Notification.of({"x": 10}))
    unregister("divides_by")
    with pytest.raises(ExtensionError, match=r"no operator 'divides_by'(.|\n)*set<="):
        operator_named("divides_by")
    with pytest.raises(ExtensionError, match="no type 'divides_by'"):
        unregister("divides_by")


@pytest.mark.usefixtures("divides")
def test_names_that_are_taken_are_refused_and_nothing_is_registered() -> None:
    class Other(Divides):
        pass

    with pytest.raises(ExtensionError, match="another type"):
        register(Other())
    with pytest.raises(ExtensionError, match="another operator 'divides_by'"):
        register(Extension("more", (Minimal(), Other())))
    assert "anything_in_tests" not in operators()


@pytest.mark.parametrize("name", ["prefix", "<=", "and", "in", "not", "range", "exists", "count", "~"])
def test_the_words_of_the_language_name_no_operator(name: str) -> None:
    class Named(Divides):
        pass

    Named.name = name
    with pytest.raises(ExtensionError, match="of the language itself"):
        register(Named())


@pytest.mark.parametrize("name", ["", "two words", 'quo"te', "a(b", "1st", "a.b", 5])
def test_what_cannot_be_read_names_no_operator(name: Any) -> None:
    class Named(Divides):
        pass

    named = Named()
    named.name = name
    with pytest.raises(ExtensionError, match="cannot name an operator"):
        register(Extension("named", (named,)))


def test_an_operator_does_not_hold_for_what_is_absent() -> None:
    class Greedy(Divides):
        name = "greedy"
        kinds = frozenset({Kind.ABSENT})

    with pytest.raises(ExtensionError, match="absent"):
        register(Greedy())


def test_a_type_is_loaded_by_its_dotted_name() -> None:
    sizes = "fairlead.filters.extensions.bitsets"
    assert load(f"{sizes}:BIT_SETS") is load(f"{sizes}.BIT_SETS")


def test_loading_a_class_again_changes_nothing() -> None:
    first = load(f"{__name__}:Divides")
    try:
        before = generation()
        assert load(f"{__name__}:Divides") is first
        assert generation() == before
        assert extensions() == {"divides_by": f"{__name__}:Divides"}
    finally:
        unregister("divides_by")


@pytest.mark.parametrize(
    ("dotted_name", "complaint"),
    [
        ("nowhere.at.all:TYPE", "cannot be imported"),
        ("fairlead.filters.extensions.bitsets:NOTHING_SUCH", "does not exist"),
        ("fairlead.filters.extensions.bitsets:bits_of", "is no type"),
        ("fairlead.filters.terms:Attribute", "without arguments"),
        ("bitsets", "names no type"),
        ("fairlead:", "names no type"),
    ],
)
def test_a_dotted_name_that_leads_to_no_type_is_explained(dotted_name: str, complaint: str) -> None:
    with pytest.raises(ExtensionError, match=complaint):
        load(dotted_name)


def test_types_are_found_by_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    good = EntryPoint("bits", "fairlead.filters.extensions.bitsets:BIT_SETS", "fairlead.extensions")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [good])
    assert load_entry_points() == ("bit sets",)
    bad = EntryPoint("bad", "nowhere:TYPE", "fairlead.extensions")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [bad])
    with pytest.raises(ExtensionError, match="entry point 'bad'"):
        load_entry_points()


# -- relations -----------------------------------------------------------------------------------------------

NUMBERS = range(-1, 61)
literals = st.integers(1, 12).map(str)
others = st.one_of(
    st.builds(lambda text: extended("divides_by", text), literals),
    st.builds(lambda n: Constraint(X, Op.EQ, n), st.integers(0, 12)),
    st.builds(lambda n: Constraint(X, Op.NE, n), st.integers(0, 12)),
    st.builds(lambda n: Constraint(X, Op.IN, n), st.sets(st.integers(0, 12))),
    st.builds(lambda n: Constraint(X, Op.NOT_IN, n), st.sets(st.integers(0, 12), min_size=1)),
    st.just(Constraint(X, Op.EXISTS)),
    st.just(Constraint(X, Op.ABSENT)),
    st.just(Constraint(X, Op.IS, Kind.NUMBER)),
    st.just(Constraint(X, Op.IS, Kind.STRING)),
    st.just(Constraint(X, Op.PREFIX, "a")),
)


@pytest.mark.usefixtures("divides")
@given(literals, others)
@settings(max_examples=150)
def test_relations_with_other_constraints_are_sound(literal: str, other: Constraint) -> None:
    one = extended("divides_by", literal)
    holding = {n for n in NUMBERS if one.holds(n)}
    also = {n for n in NUMBERS if other.holds(n)}
    if constraint_covers(one, other):
        assert holding >= also
    if constraint_covers(other, one):
        assert also >= holding
    if not constraint_overlaps(one, other):
        assert not holding & also
    assert constraint_overlaps(one, other) == constraint_overlaps(other, one)
    merged = constraint_merge(one, other)
    if merged is not None:
        assert {n for n in NUMBERS if merged.holds(n)} == holding | also
    if other.op in (Op.EQ, Op.IN):
        assert constraint_covers(one, other) == (holding >= also)
        assert constraint_overlaps(one, other) == bool(holding & also)
    if other.op in (Op.NE, Op.NOT_IN):
        assert constraint_covers(other, one) == (also >= holding)


def test_an_operator_with_nothing_but_the_required_is_enough() -> None:
    minimal = Minimal()
    register(minimal)
    one, other = extended("anything_in_tests", "a"), extended("anything_in_tests", "b")
    assert constraint_covers(one, one)
    assert not constraint_covers(one, other)
    assert constraint_overlaps(one, other)
    assert constraint_merge(one, other) is None
    assert not constraint_overlaps(one, Constraint(X, Op.GT, 5))
    unregister(minimal.name)


# -- filters as values ---------------------------------------------------------------------------------------


def intersects(value: str, literal: str) -> bool:
    return operator_named("&&").holds(value, literal)


def test_a_query_meets_the_advertisements_that_it_overlaps() -> None:
    assert intersects("price > 10", "price < 20 and symbol = 'IBM'".replace("'", '"'))
    assert not intersects("price > 10", "price < 5")
    assert intersects("price > 10", 'symbol = "IBM"'), "what is not mentioned may have any value"
    assert intersects("a = 1 or a = 5", "a > 4")
    assert not intersects("a = 1 or a = 2", "a > 4")
    assert not intersects("price >", "price < 5"), "a value that is no filter"
    assert not operator_named("&&").holds(5, "price < 5")
    with pytest.raises(FilterError, match="takes the text of a filter"):
        operator_named("&&").check(b"price > 10")


APPLY: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<": operator.lt, ">": operator.gt, ">=": operator.ge, "<=": operator.le,
    "prefix": str.startswith, "suffix": str.endswith, "substring": operator.contains, "!=": operator.ne,
}  # fmt: skip
TEXTS = {"prefix", "suffix", "substring"}
ASKS_THE_BOUND = {"<": {">", ">=", *TEXTS}, ">": {"<=", *TEXTS}, ">=": {"<=", *TEXTS}, "<=": TEXTS}


def fig_8(op: str, value: Any, other_op: str, other: Any) -> bool:
    """The report's table, transcribed; the operators are in its canonical order."""
    if op == other_op and op in ("<", ">", ">=", "<=", "!="):
        return True
    if op == "=":
        return APPLY[other_op](value, other)
    if other_op in ASKS_THE_BOUND.get(op, ()):
        return APPLY[op](other, value)
    if op == other_op and op in ("prefix", "suffix"):
        return APPLY[op](value, other) or APPLY[op](other, value)
    return True


def spelled(op: str, value: Any) -> str:
    return f"x {op} {json.dumps(value)}"


@pytest.mark.parametrize(
    ("one", "other", "witness"),
    [
        # The table asks whether the prefix is above the bound. It need not be: a longer string is.
        ((">", "abc"), ("prefix", "ab"), "abd"),
        ((">=", "abc"), ("prefix", "ab"), "abd"),
        ((">", "ab"), ("prefix", "ab"), "abc"),
        # It asks so of suffixes and substrings as well, which say nothing about how a string begins.
        ((">", "m"), ("suffix", "a"), "za"),
        ((">=", "m"), ("substring", "a"), "za"),
        (("<", "m"), ("suffix", "z"), "az"),
        (("<=", "m"), ("substring", "z"), "az"),
    ],
)
def test_what_the_reports_table_calls_disjoint_overlaps(
    one: tuple[str, str], other: tuple[str, str], witness: str
) -> None:
    assert all(APPLY[op](witness, value) for op, value in (one, other))
    assert not fig_8(*one, *other), "if the table said so, there would be nothing to show"
    assert intersects(spelled(*one), spelled(*other))
    assert intersects(spelled(*other), spelled(*one))
    assert overlaps(parse(spelled(*one)), parse(spelled(*other)))


def test_what_the_reports_table_calls_overlapping_without_a_look_is_disjoint() -> None:
    assert fig_8("<", "", "<", "a")
    assert not intersects('x < ""', 'x < "a"')


WORDS = ["", "a", "b", "ab", "ba", "abc"]
STRINGS = ["".join(letters) for length in range(6) for letters in product("0abc", repeat=length)]
comparisons = st.tuples(st.sampled_from(sorted(APPLY)), st.sampled_from(WORDS))


@given(comparisons, comparisons)
@settings(max_examples=200)
def test_our_table_is_right_for_every_pair(one: tuple[str, str], other: tuple[str, str]) -> None:
    shared = any(all(APPLY[op](each, value) for op, value in (one, other)) for each in STRINGS)
    assert intersects(spelled(*one), spelled(*other)) == shared


CONJUNCTS = [
    "x > 3", "x <= 3", "x = 3", "x != 3", "x in [2, 4]", "x in {1, 5}", "exists x", "absent x", "x < 0",
    'x prefix "ab"', 'x > "abc"', 'x suffix "b"', "y = 1", "y > 1", "x > 3 and y = 1", "x = 3 or y = 1",
    "not (x = 3)", "x + y = 3", "not (x = 3 and y = 1)",
]  # fmt: skip
filters = st.one_of(
    st.sampled_from(CONJUNCTS), st.builds("({}) and ({})".format, *[st.sampled_from(CONJUNCTS)] * 2)
)


@given(filters, filters, filters)
@settings(max_examples=200)
def test_covering_of_filters_as_values_is_sound(f: str, g: str, h: str) -> None:
    if constraint_covers(extended("&&", f), extended("&&", g)) and intersects(h, g):
        assert intersects(h, f)
    if overlaps(parse(f), parse(g)):
        assert intersects(f, g), "what overlaps is never denied"
    assert constraint_covers(extended("&&", f), extended("&&", f))


def test_a_wider_filter_as_a_value_covers_a_narrower_one() -> None:
    for wide, narrow in product(["x > 3", "exists x"], ["x > 4", "x > 3 and y = 1"]):
        assert constraint_covers(extended("&&", wide), extended("&&", narrow))
        assert not constraint_covers(extended("&&", narrow), extended("&&", wide))
    assert covers(parse('q && "x > 3"'), parse('q && "x > 4"'))
