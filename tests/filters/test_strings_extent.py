"""Sets of strings against Python's own operations, whatever shape they are held in."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import Undecided
from fairlead.filters.extents import strings
from fairlead.filters.extents.strings import BytesExtent, StringExtent
from fairlead.filters.patterns import RegularExpression, SubjectPattern

Predicate = Callable[[str], bool]
S = StringExtent

letters = st.sampled_from("ab\0\ud7ff\ue000\U0010ffff")
short = st.text(letters, max_size=3)
SMALL = ["".join(word) for length in range(5) for word in product("ab\0", repeat=length)]

CONSTRUCTORS: dict[str, Callable[[Any, Any], bool]] = {
    "prefix": lambda s, w: s.startswith(w),
    "suffix": lambda s, w: s.endswith(w),
    "substring": lambda s, w: w in s,
    "below": lambda s, w: s < w,
    "at_most": lambda s, w: s <= w,
    "above": lambda s, w: s > w,
    "at_least": lambda s, w: s >= w,
}


def primitive(name: str, word: str) -> tuple[StringExtent, Predicate]:
    return getattr(StringExtent, name)(word), lambda s: CONSTRUCTORS[name](s, word)


def expression(text: str) -> tuple[StringExtent, Predicate]:
    pattern = RegularExpression(text)
    return StringExtent.pattern(pattern), pattern.matches


def subject(text: str) -> tuple[StringExtent, Predicate]:
    pattern = SubjectPattern(text, "b")
    return StringExtent.pattern(pattern), pattern.matches


pairs = st.one_of(
    st.builds(primitive, st.sampled_from(sorted(CONSTRUCTORS)), short),
    st.builds(lambda ws: (StringExtent.words(*ws), lambda s: s in ws), st.frozensets(short, max_size=4)),
    st.builds(lambda a, b: (StringExtent.between(a, b), lambda s: a <= s <= b), short, short),
    st.sampled_from(["a*", "[ab]{2}", "a.*b", "(ab)+|b", ".", "[a-b]{0,12}", ".*"]).map(expression),
    st.sampled_from(["ab*", "**", "**ba", "a"]).map(lambda text: subject(text.replace("a", "ab"))),
)
extents = st.recursive(
    pairs,
    lambda inner: st.one_of(
        st.builds(lambda x, y: (x[0] & y[0], lambda s: x[1](s) and y[1](s)), inner, inner),
        st.builds(lambda x, y: (x[0] | y[0], lambda s: x[1](s) or y[1](s)), inner, inner),
        st.builds(lambda x: (~x[0], lambda s: not x[1](s)), inner),
    ),
    max_leaves=4,
)


@pytest.mark.parametrize("name", sorted(CONSTRUCTORS))
@given(word=short, string=st.text(letters, max_size=6))
def test_each_constructor_agrees_with_python(name: str, word: str, string: str) -> None:
    extent, holds = primitive(name, word)
    for candidate in (string, word, word + string, string + word, word[:-1] + string):
        assert (candidate in extent) == holds(candidate)
        # The automaton, which relations use, says the same as the shape, which matching uses.
        assert (candidate in extent.automaton) == holds(candidate)


@pytest.mark.parametrize("name", sorted(CONSTRUCTORS))
@given(
    word=st.lists(st.sampled_from([0, 97, 255]), max_size=3).map(bytes),
    string=st.lists(st.sampled_from([0, 97, 255]), max_size=5).map(bytes),
)
def test_each_constructor_agrees_with_python_on_bytes(name: str, word: bytes, string: bytes) -> None:
    extent = getattr(BytesExtent, name)(word)
    for candidate in (string, word, word + string, string + word):
        assert (candidate in extent) == CONSTRUCTORS[name](candidate, word)
        assert (candidate in extent.automaton) == CONSTRUCTORS[name](candidate, word)
        assert (candidate in ~extent) != (candidate in extent)
    assert extent.form is not None
    assert BytesExtent.of_automaton(extent.automaton) == extent


@settings(max_examples=200)
@given(extents, st.lists(st.text(letters, max_size=6), max_size=5))
def test_a_value_is_in_an_extent_iff_the_constraints_say_so(
    described: tuple[StringExtent, Predicate], words: list[str]
) -> None:
    extent, holds = described
    for word in (*words, *SMALL[:40]):
        assert (word in extent) == holds(word)
        assert (word in extent.automaton) == holds(word)


@settings(max_examples=200)
@given(extents, extents)
def test_covers_overlaps_and_identity_are_exact(
    x: tuple[StringExtent, Predicate], y: tuple[StringExtent, Predicate]
) -> None:
    (a, in_a), (b, in_b) = x, y
    outside = (b & ~a).witness()
    assert a.covers(b) == (outside is None)
    if outside is not None:
        assert in_b(outside)
        assert not in_a(outside)
    else:
        assert all(in_a(word) for word in SMALL if in_b(word))
    common = (a & b).witness()
    assert a.overlaps(b) == b.overlaps(a) == (common is not None)
    if common is not None:
        assert in_a(common)
        assert in_b(common)
    else:
        assert not any(in_a(word) and in_b(word) for word in SMALL)
    assert (a == b) == (a.covers(b) and b.covers(a)) == (a.automaton == b.automaton)
    if a == b:
        assert hash(a) == hash(b)


@given(extents, extents, extents)
def test_equal_languages_are_equal_extents_however_they_came_about(
    x: tuple[StringExtent, Predicate], y: tuple[StringExtent, Predicate], z: tuple[StringExtent, Predicate]
) -> None:
    a, b, c = x[0], y[0], z[0]
    for left, right in (
        (a & b, b & a),
        (a | (b & c), (a | b) & (a | c)),
        (~(a & b), ~a | ~b),
        (a & ~a, S.nothing()),
        (a | ~a, S.everything()),
        (a & (a | b), a),
        (~~a, a),
        (S.pattern(a.automaton), a),
    ):
        assert left == right
        assert hash(left) == hash(right)


@given(extents)
def test_a_witness_is_a_shortest_member(described: tuple[StringExtent, Predicate]) -> None:
    extent, holds = described
    witness = extent.witness()
    assert (witness is None) == extent.is_empty() == extent.automaton.is_empty()
    assert extent.is_full() == (~extent).is_empty()
    if witness is not None:
        assert holds(witness)
        assert not any(holds(word) for word in SMALL if len(word) < len(witness))


@given(extents)
def test_an_extent_written_as_a_regular_expression_is_read_back_as_itself(
    described: tuple[StringExtent, Predicate],
) -> None:
    extent = described[0]
    try:
        text = extent.to_regex()
    except Undecided:
        return
    assert S.pattern(RegularExpression(text)) == extent


BUILDERS: dict[str, Callable[..., StringExtent]] = {
    "words": lambda words: S.words(*words),
    "not words": lambda words: ~S.words(*words),
    "prefix": S.prefix,
    "suffix": S.suffix,
    "substring": S.substring,
    "<": S.below,
    "<=": S.at_most,
    ">": S.above,
    ">=": S.at_least,
    "between": S.between,
    "and": lambda left, right: rebuilt(left) & rebuilt(right),
    "not": lambda form: ~rebuilt(form),
    "pattern": S.pattern,
}


def rebuilt(form: strings.Form) -> StringExtent:
    return BUILDERS[form[0]](*form[1:])


@given(extents)
def test_a_form_describes_its_extent(described: tuple[StringExtent, Predicate]) -> None:
    extent = described[0]
    if extent.form is not None:
        assert rebuilt(extent.form) == extent


@pytest.mark.parametrize(
    ("extent", "form"),
    [
        (S.prefix("Foo"), ("prefix", "Foo")),
        (S.suffix("Inc."), ("suffix", "Inc.")),
        (S.substring("oo"), ("substring", "oo")),
        (S.above("x"), (">", "x")),
        (S.at_least("x"), (">=", "x")),
        (S.below("x"), ("<", "x")),
        (S.at_most("x"), ("<=", "x")),
        (S.between("a", "b"), ("between", "a", "b")),
        (S.words("a", "b"), ("words", frozenset("ab"))),
        (~S.words("a"), ("not words", frozenset("a"))),
        (~S.prefix("Foo"), ("not", ("prefix", "Foo"))),
        (~S.above("x"), ("<=", "x")),
        (~S.between("a", "b"), ("not", ("between", "a", "b"))),
        (S.above("a") & S.below("c"), ("and", (">", "a"), ("<", "c"))),
        (S.at_least("ab") & S.below("ac"), ("prefix", "ab")),
        (S.below("a") | S.above("b"), ("not", ("between", "a", "b"))),
        (S.at_most("b") | S.between("b", "d"), ("<=", "d")),
        (S.above("c") & ~S.words("b"), (">", "c")),
        (S.pattern(RegularExpression("ab.*").automaton), ("prefix", "ab")),
        (S.pattern(RegularExpression(".*ab").automaton), ("suffix", "ab")),
        (~S.pattern(RegularExpression("(.|\n)*ab.*").automaton), ("not", ("substring", "ab"))),
        (S.pattern(RegularExpression("a|b").automaton), ("words", frozenset("ab"))),
        (S.pattern(RegularExpression("a.*b")), ("pattern", RegularExpression("a.*b"))),
        (~S.pattern(SubjectPattern("a/**")), ("not", ("pattern", SubjectPattern("a/**")))),
        (S.pattern(SubjectPattern("a/**")) & S.prefix("a"), ("pattern", SubjectPattern("a/**"))),
        (S.prefix(""), ("not words", frozenset())),
        (S.at_most(""), ("words", frozenset([""]))),
        (S.above(""), ("not words", frozenset([""]))),
        (S.below("\0\0"), ("words", frozenset(["", "\0"]))),
        (S.between("b", "a"), ("words", frozenset())),
        (S.prefix("ab") & S.suffix("c"), None),
    ],
)
def test_forms_are_the_simplest_names(extent: StringExtent, form: strings.Form | None) -> None:
    assert extent.form == form


def test_above_abc_overlaps_prefix_ab() -> None:
    assert S.above("abc").overlaps(S.prefix("ab"))
    assert (S.above("abc") & S.prefix("ab")).witness() == "abd"
    assert not S.above("ac").overlaps(S.prefix("ab"))


def test_at_most_a_does_not_cover_the_empty_prefix() -> None:
    """SIENA's table of cases says that it does."""
    assert not S.at_most("a").covers(S.prefix(""))
    assert (S.prefix("") & ~S.at_most("a")).witness() == "b"


def test_a_shorter_prefix_covers_a_longer_one() -> None:
    assert S.prefix("abc").covers(S.prefix("abcd"))
    assert not S.prefix("abcd").covers(S.prefix("abc"))


def test_from_ab_to_below_ac_is_the_prefix_ab() -> None:
    assert S.at_least("ab") & S.below("ac") == S.prefix("ab")
    assert S.at_least("\ud7ff") & S.below("\ue000") == S.prefix("\ud7ff")
    assert S.prefix("\U0010ffff") == S.at_least("\U0010ffff")
    assert BytesExtent.prefix(b"a\xff") == BytesExtent.at_least(b"a\xff") & BytesExtent.below(b"b")


def test_strings_and_bytes_are_different_kinds() -> None:
    assert b"a" not in ~S.words("a")
    assert 5 not in S.everything()
    assert S.everything() != BytesExtent.everything()
    assert BytesExtent.everything().witness() == b""
    assert (~BytesExtent.words(b"", *(bytes([n]) for n in range(256)))).witness() == b"aa"


def test_large_sets_of_words_are_no_burden() -> None:
    names = [f"station-{n:05}" for n in range(20_000)]
    even, some = S.words(*names[::2]), S.words(*names[:10_000])
    assert names[0] in even
    assert (even | some).covers(some)
    assert (even & some).overlaps(even)
    assert not (~even).covers(some)
    assert (~even & ~some).witness() == ""
    assert even & S.prefix("station-0") == S.words(*[n for n in names[::2] if n.startswith("station-0")])
    assert S.prefix("station").covers(even)
    assert S.suffix("9") & ~even == S.suffix("9")
    assert hash(even) == hash(S.words(*reversed(names[::2])))


def test_words_and_an_automaton_that_are_too_large_to_list_are_still_equal() -> None:
    digits = [f"{n:04}" for n in range(10_000)]
    listed, general = S.words(*digits), S.pattern(RegularExpression(r"\d{4}"))
    assert listed == general
    assert ~listed == ~general
    assert hash(listed) == hash(general)
    assert hash(~listed) == hash(~general)
    assert listed != S.pattern(RegularExpression(r"\d{4}|x"))
    assert S.words(*digits[1:]) != general
    assert general.covers(S.words(*digits[1:]))
    assert not S.words(*digits[1:]).covers(general)
    assert (~S.words(*digits)).covers(~general)
    assert general.covers(listed)
    assert (general & ~S.words(*digits[1:])).form == ("words", frozenset(["0000"]))


def test_constraints_with_very_long_words_still_match_and_compare() -> None:
    long = "ab" * 50_000
    assert long + "x" in S.prefix(long)
    assert S.at_least(long).covers(S.prefix(long))
    assert S.prefix(long) == S.prefix(long)
    assert len({S.suffix(long), S.suffix(long)}) == 1
    with pytest.raises(Undecided):
        S.suffix(long).covers(S.suffix(long + "b"))
    with pytest.raises(Undecided):
        S.below("\0" * 5_000)
