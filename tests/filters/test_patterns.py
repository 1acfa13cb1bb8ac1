"""Regular expressions against Python's `re`; subject patterns against a naive matcher."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import FilterError, FilterSyntaxError, Undecided, ValueRefused
from fairlead.filters import regexes
from fairlead.filters.patterns import RegularExpression, SubjectPattern

ALPHABET = "ab-1_ \n.é\U0001f600"

atoms = st.sampled_from(
    [
        *("a", "b", "1", "_", "é", ".", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", r"\.", r"\-", r"\n"),
        *(
            r"\x61",
            r"\u0062",
            r"\U0001F600",
            "[ab]",
            "[^ab]",
            "[a-z1-]",
            r"[^\w.]",
            r"[\s-]",
            r"[^\s\S]",
            "[^-a]",
        ),
        *(r"[\x61-\u0062]", "[.*+?^]", r"[\]\[]", "\U0001f600", "-", " ", "", "()", "(?:)"),
    ]
)
quantifiers = st.sampled_from(["*", "+", "?", "{2}", "{0}", "{1,}", "{0,2}", "{1,3}", "{2,}", "{0,}"])


def grouped(text: str) -> str:
    return f"({text})"


expressions = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: "".join(map(grouped, parts))),
        st.lists(inner, min_size=2, max_size=3).map("|".join),
        st.builds(lambda text, sign: f"(?:{text}){sign}", inner, quantifiers),
        st.tuples(inner, inner).map(lambda pair: f"{grouped(pair[0])}|{pair[1]}"),
    ),
    max_leaves=6,
)
strings = st.text(st.sampled_from(ALPHABET), max_size=6)


def by_python(text: str, string: str) -> bool:
    return re.fullmatch(text, string, re.ASCII | re.DOTALL) is not None


@settings(max_examples=200)
@given(expressions, st.lists(strings, min_size=1, max_size=5))
def test_an_expression_means_what_python_says(text: str, words: list[str]) -> None:
    expression = RegularExpression(text)
    for word in words:
        assert expression.matches(word) == by_python(text, word)


@settings(max_examples=200)
@given(expressions, strings)
def test_a_language_written_as_an_expression_is_read_back_as_itself(text: str, word: str) -> None:
    automaton = RegularExpression(text).automaton
    try:
        written = regexes.write(automaton)
    except Undecided:
        return
    assert RegularExpression(written).automaton == automaton
    assert by_python(written, word) == (word in automaton)


@given(expressions, expressions)
def test_expressions_of_combined_languages_are_read_back_too(left: str, right: str) -> None:
    a, b = RegularExpression(left).automaton, RegularExpression(right).automaton
    for language in (a & b, a | b, ~a, a & ~b):
        try:
            written = regexes.write(language)
        except Undecided:
            continue
        assert RegularExpression(written).automaton == language


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("ab.*", "ab.*"),
        ("abc|abd", "ab[cd]"),
        ("(a|b)(a|b)*", "[ab]+"),
        (r"\d{3}", "[0-9][0-9][0-9]"),
        (r"x?", "x?"),
        (r".*\.txt|", None),
        (r"[^\s\S]", r"[^\s\S]"),
        ("", ""),
        (r"\n|\t", r"[\t\n]"),
        (r"[^\n]", r"[^\n]"),
    ],
)
def test_written_expressions_are_readable(text: str, written: str | None) -> None:
    automaton = RegularExpression(text).automaton
    assert RegularExpression(regexes.write(automaton)).automaton == automaton
    if written is not None:
        assert regexes.write(automaton) == written


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        (r"(a)\1", 4, "a backreference"),
        (r"a(?=b)", 2, "a lookahead"),
        (r"a(?!b)", 2, "a negative lookahead"),
        (r"(?<=a)b", 1, "a lookbehind"),
        (r"(?<!a)b", 1, "a negative lookbehind"),
        (r"(?P<n>a)", 1, "a named group"),
        (r"(?s)a", 1, "a group with flags"),
        (r"a(?i)", 2, "a group with flags"),
        (r"(?>a)", 1, "an atomic group"),
        (r"(*FAIL)", 1, "a control verb"),
        (r"^a", 1, "an anchor"),
        (r"a$", 2, "an anchor"),
        (r"a\b", 2, "an anchor"),
        (r"\Aa", 1, "an anchor"),
        (r"ab*?", 4, "a lazy quantifier"),
        (r"ab{2}?", 6, "a lazy quantifier"),
        (r"ab++", 4, "a possessive quantifier"),
        (r"ab**", 4, "a quantifier of a quantifier"),
        (r"a{2}{3}", 5, "a quantifier of a quantifier"),
        (r"*a", 1, "a quantifier of nothing"),
        (r"a|+", 3, "a quantifier of nothing"),
        (r"(?:*)", 4, "a quantifier of nothing"),
        (r"a{b}", 2, "begins no repetition"),
        (r"a{,3}", 2, "begins no repetition"),
        (r"a{3", 2, "begins no repetition"),
        (r"a{3,2}", 2, "impossible"),
        (r"a}", 2, "a brace without its beginning"),
        (r"a]", 2, "a bracket without its beginning"),
        (r"(a", 1, "does not end"),
        (r"a)", 2, "never began"),
        (r"[ab", 1, "does not end"),
        (r"[a-", 1, "does not end"),
        (r"x[]", 2, "the class is empty"),
        (r"[z-a]", 2, "ends before it begins"),
        (r"[\d-z]", 2, "one character at each end"),
        (r"[[:alpha:]]", 2, "a class within a class"),
        (r"[a&&b]", 3, "&& in a class"),
        (r"\p{L}", 1, "a Unicode property"),
        (r"\q", 1, r"the escape \q"),
        (r"\0", 1, "an octal escape"),
        ("\\", 1, "a backslash ends"),
        (r"\x6", 1, "2 hexadecimal digits"),
        (r"\uD800", 1, "a lone surrogate"),
        ("a\ud800", 2, "a lone surrogate"),
        (r"\U00110000", 1, "8 hexadecimal digits"),
    ],
)
def test_what_is_not_supported_is_refused_by_name_and_column(text: str, column: int, problem: str) -> None:
    with pytest.raises(FilterSyntaxError, match=re.escape(problem)) as refused:
        RegularExpression(text)
    assert refused.value.column == column
    assert "^" in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000,
        "(" * 100_000 + ")" * 100_000,
        "(?:" * 3_000 + ")" * 3_000,
        "a" * 100_000,
        "a{100000}",
        "a{99999999999999999999}",
        "((((a{50}){50}){50}){50}){50}",
        "(a|b)*a(a|b){20}",
        ".*a.{500}",
        "|".join(f"word{n}" for n in range(10_000)),
        "(a?){4000}" * 2,
    ],
    ids=lambda text: text[:20],
)
def test_what_is_too_large_is_an_error(text: str) -> None:
    with pytest.raises((FilterError, FilterSyntaxError), match=r"too large|deeper than"):
        RegularExpression(text)


def test_nesting_within_the_limit_is_read() -> None:
    assert RegularExpression("(" * 150 + "a" + ")*" * 150).matches("aaa")


def test_matching_is_linear_where_backtracking_is_exponential() -> None:
    assert not RegularExpression("(a*)*(a|aa)+b").matches("a" * 50_000)


def test_expressions_are_values() -> None:
    assert RegularExpression("a|b") == RegularExpression("a|b")
    assert RegularExpression("a|b") != RegularExpression("[ab]")
    assert RegularExpression("a|b").automaton == RegularExpression("[ab]").automaton
    assert len({RegularExpression("a"), RegularExpression("a")}) == 1
    assert repr(RegularExpression("a")) == "RegularExpression(text='a')"


# ------------------------------------------------------------------------------------------ subject patterns

levels = st.sampled_from(["a", "b", "ab", ""])
subjects = st.lists(levels, min_size=1, max_size=6)
wildcards = st.lists(levels | st.sampled_from(["*", "**"]), min_size=1, max_size=5)


def naive(pattern: list[str], subject: list[str]) -> bool:
    if not pattern:
        return not subject
    if pattern[0] == "**":
        return any(naive(pattern[1:], subject[n:]) for n in range(len(subject) + 1))
    return bool(subject) and pattern[0] in ("*", subject[0]) and naive(pattern[1:], subject[1:])


@settings(max_examples=300)
@given(wildcards, subjects, st.sampled_from("/.:a\0"))
def test_a_subject_matches_iff_its_levels_do(pattern: list[str], subject: list[str], separator: str) -> None:
    text, string = separator.join(pattern), separator.join(subject)
    compiled = SubjectPattern(text, separator)
    expected = naive(text.split(separator), string.split(separator))
    assert compiled.matches(string) == expected
    assert (string in compiled.automaton) == expected


@pytest.mark.parametrize(
    ("pattern", "subject", "matches"),
    [
        ("sports/basketball/*", "sports/basketball/nba", True),
        ("sports/basketball/*", "sports/basketball", False),
        ("sports/basketball/*", "sports/basketball/nba/finals", False),
        ("sports/basketball/*", "sports/basketball/", True),
        ("sports/**", "sports", True),
        ("sports/**", "sports/a/b", True),
        ("sports/**", "sportsmen", False),
        ("**", "", True),
        ("**", "a/b//c", True),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a/**/b", "a/x/y", False),
        ("*", "", True),
        ("*", "a/b", False),
    ],
)
def test_worked_subjects(pattern: str, subject: str, matches: bool) -> None:
    assert SubjectPattern(pattern).matches(subject) is matches
    assert (subject in SubjectPattern(pattern).automaton) is matches


def test_a_subtree_covers_its_subjects() -> None:
    subtree = SubjectPattern("sports/**").automaton
    assert subtree.covers(SubjectPattern("sports/basketball/*").automaton)
    assert not SubjectPattern("sports/*").automaton.covers(subtree)
    assert SubjectPattern("**").automaton.is_full()
    assert SubjectPattern("*/**").automaton == SubjectPattern("**/**").automaton


@pytest.mark.parametrize("text", ["sport*", "a/*b/c", "a/***", "**a"])
def test_a_wildcard_in_part_of_a_level_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(FilterError, match="hint: ") as refused:
        SubjectPattern(text)
    assert "column" in str(refused.value)


@pytest.mark.parametrize("separator", ["", "//", "*", "\ud800"])
def test_a_separator_is_one_character(separator: str) -> None:
    with pytest.raises(FilterError):
        SubjectPattern("a", separator)


def test_a_subject_holds_no_lone_surrogates() -> None:
    with pytest.raises(ValueRefused):
        SubjectPattern("a/\ud800")


def test_subject_patterns_are_values() -> None:
    assert SubjectPattern("a/*") == SubjectPattern("a/*", "/")
    assert SubjectPattern("a/b") != SubjectPattern("a/b", ".")


def test_a_pattern_whose_automaton_is_too_large_still_matches() -> None:
    pattern = SubjectPattern("**/a" + "/*" * 30)
    assert pattern.matches("x/a" + "/y" * 30)
    assert not pattern.matches("x/b" + "/y" * 30)
    with pytest.raises(Undecided):
        _ = pattern.automaton
