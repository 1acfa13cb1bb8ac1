"""Many filters as text: those that differ in their literals only are read together.

a text that is read by its form has the program that `program_of(parse(text))` has
"""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairlead.errors import FairleadError, FilterSyntaxError
from fairlead.filters import Filter, parse
from fairlead.matching.columnar import Columnar
from fairlead.matching.columnar import forms as forms_module
from fairlead.matching.columnar.compile import Program, program_of
from fairlead.matching.columnar.forms import ledger_of
from fairlead.matching.columnar.table import Ledger
from fairlead.model import Notification

plain_strings = st.text(
    st.characters(min_codepoint=32, max_codepoint=126, exclude_characters='"\\'), max_size=4
)
strings = st.one_of(
    plain_strings.map(lambda text: f'"{text}"'),
    st.sampled_from(
        ['""', '"é"', '"é 12"', r'"a\"b"', r'"a\\"', '"0"', '"mark 1000003"', "true", "null", "x"]
    ),
)
numbers = st.one_of(
    st.integers(0, 30).map(str),
    st.floats(0, 1).map(repr),
    st.decimals(0, 10**6, places=4).map(str),
    st.sampled_from(
        [
            "0.1",
            "0.10",
            "007",
            "1000003",
            "1e3",
            "1.5e-3",
            "0.1000000000000000055",
            "9007199254740993",
            "123456789012345678901234567890",
            "0.0000000000000000000000000000000001",
            "-0",
            "-5",
            "1.5.2",
            "12ab",
        ]
    ),
)
literals = {"S": strings, "N": numbers}
atoms = st.sampled_from(
    [
        "a = S",
        "a != S",
        "b prefix S",
        "b suffix S",
        "n = N",
        "n != N",
        "n < N",
        "not n >= N",
        "n in [N, N]",
        "n in (N, N]",
        "not m in [N, N)",
        "m > -N",
        "m in [-N, N]",
        "a in {S, S}",
        "n + N > N",
        "n - m < N",
        "tuple[N] = S",
        "count(//x) >= N",
        "a ~ S",
        "a matches S",
        "exists a",
        "`a 1` = N",
        '`a"1` = S',
        't = t"2024-01-01T00:00:00Z"',
        "x2.y3 <= N",
        "(a = S or n = N)",
    ]
)


@st.composite
def forms(draw: st.DrawFn) -> list[str]:
    """Texts of one form, with literals of their own."""
    form = " and ".join(draw(st.lists(atoms, min_size=1, max_size=3)))
    pieces = [literals.get(each) for each in form if each in literals]
    found = []
    for _ in range(draw(st.integers(forms_module.FEW, forms_module.FEW + 4))):
        values = iter([draw(each) for each in pieces if each is not None])
        found.append("".join(next(values) if each in literals else each for each in form))
    return found


def programs(texts: list[str]) -> list[Program | None]:
    """The definition: each text is parsed, and written down alone."""
    found: list[Program | None] = []
    for text in texts:
        ledger = Ledger()
        try:
            ledger.add(program_of(parse(text)))
        except FairleadError:
            found.append(None)
        else:
            found.append(ledger.table().program(0))
    return found


@given(st.lists(forms(), min_size=1, max_size=3), st.randoms(use_true_random=False))
@example([["not n >= 0.1000000000000000055"] * forms_module.FEW], Random(0))
def test_a_text_that_is_read_by_its_form_has_the_program_of_its_filter(
    groups: list[list[str]], rng: Random
) -> None:
    texts = [text for group in groups for text in group]
    rng.shuffle(texts)
    wanted = programs(texts)
    readable = [text for text, program in zip(texts, wanted, strict=True) if program is not None]
    table = ledger_of(pa.array(readable, pa.string()), None, lambda row: parse(readable[row])).table()
    assert [table.program(row) for row in range(len(readable))] == [each for each in wanted if each]


def test_of_texts_of_one_form_one_is_parsed() -> None:
    texts = [f'a = "v{each}" and n in [{each / 7}, {each + 0.5}]' for each in range(1000)]
    read: list[int] = []

    def once(row: int) -> Filter:
        read.append(row)
        return parse(texts[row])

    ledger_of(pa.array(texts), None, once)
    assert read == [0]


def test_texts_that_cannot_be_read_are_refused_by_their_position_and_nothing_is_added() -> None:
    texts = [f'a = "v{each}"' for each in range(1500)]
    texts[7], texts[1400] = "a = ", 'n in [2, 1] and a = "x"'
    refused: list[int] = []
    engine: Columnar[int] = Columnar()
    engine.add_texts(pa.array(texts), refused=lambda row, _: refused.append(row))
    assert (sorted(refused), len(engine)) == ([7, 1400], 0)
    with pytest.raises(FilterSyntaxError):
        engine.add_texts(pa.array(texts))
    assert len(engine) == 0


@example(0)
@example(40)
@given(st.integers(0, 40))
def test_texts_are_added_behind_the_filters_there_are(before: int) -> None:
    engine: Columnar[int] = Columnar(small=8)
    engine.add_many((each, parse(f"n = {each}")) for each in range(before))
    engine.add_texts(pa.array([f"n = {each}" for each in range(40)]))
    for each in (0, 39):
        wanted = [each] * (each < before) + [before + each]
        assert engine.match(Notification.of({"n": each})) == wanted
