"""Automata against Python's own operations on words, and against enumeration."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import Undecided, ValueRefused
from fairlead.filters import automata
from fairlead.filters.alphabets import OCTETS, TEXT
from fairlead.filters.automata import Automaton

SMALL = ["".join(letters) for length in range(5) for letters in product("ab\0", repeat=length)]

letters = st.sampled_from("ab\0c\ud7ff\ue000\U0010ffff")
short = st.text(letters, max_size=4)
longer = st.text(letters, max_size=8)

CONSTRUCTORS = {
    "exactly": (automata.exactly, lambda s, w: s == w),
    "prefix": (automata.prefix, lambda s, w: s.startswith(w)),
    "suffix": (automata.suffix, lambda s, w: s.endswith(w)),
    "substring": (automata.substring, lambda s, w: w in s),
    "below": (automata.below, lambda s, w: s < w),
    "at_most": (automata.at_most, lambda s, w: s <= w),
    "above": (automata.above, lambda s, w: s > w),
    "at_least": (automata.at_least, lambda s, w: s >= w),
}

primitives = st.one_of(
    st.builds(lambda name, w: CONSTRUCTORS[name][0](TEXT, w), st.sampled_from(sorted(CONSTRUCTORS)), short),
    st.builds(lambda ws: automata.words(TEXT, ws), st.sets(short, max_size=4)),
)
languages = st.recursive(
    primitives,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        st.builds(lambda a: ~a, inner),
    ),
    max_leaves=4,
)


@pytest.mark.parametrize("name", sorted(CONSTRUCTORS))
@settings(max_examples=100)
@given(word=short, string=longer)
def test_each_constructor_agrees_with_python_on_strings(name: str, word: str, string: str) -> None:
    build, holds = CONSTRUCTORS[name]
    for candidate in (string, word, word + string, string + word, word[:-1], word[:-1] + string):
        assert (candidate in build(TEXT, word)) == holds(candidate, word)


@pytest.mark.parametrize("name", sorted(CONSTRUCTORS))
@settings(max_examples=50)
@given(
    word=st.lists(st.sampled_from([0, 1, 97, 254, 255]), max_size=4).map(bytes),
    string=st.lists(st.sampled_from([0, 1, 97, 254, 255]), max_size=6).map(bytes),
)
def test_each_constructor_agrees_with_python_on_bytes(name: str, word: bytes, string: bytes) -> None:
    build, holds = CONSTRUCTORS[name]
    for candidate in (string, word, word + string, string + word, word[:-1]):
        assert (candidate in build(OCTETS, word)) == holds(candidate, word)


@given(low=short, high=short, string=longer)
def test_between_includes_both_ends(low: str, high: str, string: str) -> None:
    for candidate in (string, low, high, low + string):
        assert (candidate in automata.between(TEXT, low, high)) == (low <= candidate <= high)


@given(members=st.sets(st.text(letters, max_size=6), max_size=12), string=short)
def test_words_accept_their_words_and_no_other(members: set[str], string: str) -> None:
    language = automata.words(TEXT, members)
    assert all(word in language for word in members)
    assert (string in language) == (string in members)
    assert list(language.members()) == sorted(members)
    assert language.measure(10**6) == (len(members), sum(map(len, members)))
    # The incremental construction and the union of single words meet in the same canonical form.
    union = automata.nothing(TEXT)
    for word in members:
        union |= automata.exactly(TEXT, word)
    assert union == language


@given(languages, languages, longer)
def test_the_boolean_operations_are_those_on_sets(a: Automaton[str], b: Automaton[str], word: str) -> None:
    assert (word in (a & b)) == (word in a and word in b)
    assert (word in (a | b)) == (word in a or word in b)
    assert (word in ~a) == (word not in a)


@given(languages, languages, languages)
def test_equal_languages_are_equal_automata(a: Automaton[str], b: Automaton[str], c: Automaton[str]) -> None:
    for left, right in (
        (a & b, b & a),
        (a | (b & c), (a | b) & (a | c)),
        (~(a & b), ~a | ~b),
        (a & ~a, automata.nothing(TEXT)),
        (a | ~a, automata.everything(TEXT)),
        (a | (a & b), a),
        (~~a, a),
    ):
        assert left == right
        assert hash(left) == hash(right)


@given(languages)
def test_an_automaton_is_minimal(a: Automaton[str]) -> None:
    reached = {0}
    for state in range(len(a.rows)):
        reached.update(a.rows[state][1])
    assert reached == set(range(len(a.rows)))
    # Table filling, the textbook's way: two states differ iff some word tells them apart.
    cuts = sorted({start for starts, _ in a.rows for start in starts})
    step = [[next(t for f, last, t in a.runs(q) if f <= c <= last) for c in cuts] for q in range(len(a.rows))]
    states = range(len(a.rows))
    differ = {(p, q) for p in states for q in states if (p in a.accepting) != (q in a.accepting)}
    while True:
        more = {
            (p, q)
            for p in states
            for q in states
            if (p, q) not in differ and any((step[p][i], step[q][i]) in differ for i in range(len(cuts)))
        }
        if not more:
            break
        differ |= more
    assert len(differ) == len(a.rows) * (len(a.rows) - 1)


@given(languages, languages)
def test_covers_means_inclusion(a: Automaton[str], b: Automaton[str]) -> None:
    assert a.covers(b) == (b & ~a).is_empty()
    if a.covers(b):
        assert all(word in a for word in SMALL if word in b)
    else:
        counterexample = (b & ~a).witness()
        assert counterexample is not None
        assert counterexample in b
        assert counterexample not in a
    assert (a == b) == (a.covers(b) and b.covers(a))


@given(languages)
def test_a_witness_is_a_shortest_member(a: Automaton[str]) -> None:
    witness = a.witness()
    assert (witness is None) == a.is_empty()
    if witness is not None:
        assert witness in a
        assert not any(word in a for word in SMALL if len(word) < len(witness))
    assert a.is_full() == (~a).is_empty()


@given(languages)
def test_a_language_is_finite_iff_its_members_can_be_counted(a: Automaton[str]) -> None:
    measure = a.measure(1_000)
    assert a.is_finite() == (measure is not None)
    if measure is not None and measure[0] < 1_000:
        members = list(a.members())
        assert len(members) == len(set(members)) == measure[0]
        assert members == sorted(members)
        assert automata.words(TEXT, members) == a


@given(languages)
def test_an_interval_is_recognised_iff_it_is_one(a: Automaton[str]) -> None:
    ends = a.interval()
    if ends is not None:
        assert automata.interval(TEXT, *ends) == a
    inside = [word for word in sorted(SMALL) if word in a]
    if inside and any(word not in a for word in SMALL if inside[0] < word < inside[-1]):
        assert ends is None


@given(short, st.none() | short)
def test_every_interval_is_recognised(low: str, high: str | None) -> None:
    a = automata.interval(TEXT, low, high)
    if high is not None and high <= low:
        assert a.is_empty()
        assert a.interval() is None
    else:
        assert a.interval() == (low, high)


@given(languages, longer)
def test_completed_by_takes_the_last_letter_away(a: Automaton[str], word: str) -> None:
    assert (word in a.completed_by("b")) == (word + "b" in a)


@pytest.mark.parametrize(
    ("language", "witness"),
    [
        (automata.everything(TEXT), ""),
        (automata.above(TEXT, ""), "a"),
        (automata.above(TEXT, "abc") & automata.prefix(TEXT, "ab"), "abd"),
        (automata.above(TEXT, "z"), "{"),
        (~automata.words(TEXT, ["", *"abcdefghijklmnopqrstuvwxyz"]), "0"),
        (automata.substring(TEXT, "é") & automata.suffix(TEXT, "Inc."), "éInc."),
    ],
)
def test_witnesses_are_readable(language: Automaton[str], witness: str) -> None:
    assert language.witness() == witness


def test_no_set_of_letters_consists_of_surrogates_only() -> None:
    gap = automata.above(TEXT, "\ud7ff") & automata.below(TEXT, "\ue000") & ~automata.prefix(TEXT, "\ud7ff")
    assert gap.is_empty()
    assert "\ud800" not in automata.everything(TEXT)
    with pytest.raises(ValueRefused):
        automata.exactly(TEXT, "\ud800")


def test_long_words_are_decided_and_too_long_ones_are_not() -> None:
    word = "ab" * 4_000
    prefix, suffix = automata.prefix(TEXT, word), automata.suffix(TEXT, word)
    assert word in (prefix & suffix)
    assert prefix.covers(automata.exactly(TEXT, word))
    with pytest.raises(Undecided):
        automata.substring(TEXT, "ab" * 20_000)
    with pytest.raises(Undecided):
        automata.exactly(TEXT, "ab" * 20_000)


def cycle(length: int) -> Automaton[bytes]:
    """The words whose length is a multiple of `length`."""
    machine = automata.NondeterministicAutomaton(OCTETS)
    states = [machine.state() for _ in range(length)]
    for state in states:
        machine.edges[state].append((0, 255, (state + 1) % length))
    return machine.deterministic(0, 0)


def test_what_grows_beyond_the_budget_is_undecided() -> None:
    assert len((cycle(7) & cycle(11)).rows) == 77
    with pytest.raises(Undecided, match="20000 states"):
        _ = cycle(199) & cycle(211)
    with pytest.raises(Undecided):
        (cycle(499) | cycle(503)).covers(cycle(509))


def test_an_automaton_can_be_shown() -> None:
    assert str(automata.prefix(OCTETS, b"a")) == (
        "0  b'\\x00'…b'`' -> 1, b'a'…b'a' -> 2, b'b'…b'\\xff' -> 1\n"
        "1  b'\\x00'…b'\\xff' -> 1\n"
        "2* b'\\x00'…b'\\xff' -> 2"
    )
