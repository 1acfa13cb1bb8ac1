"""JSON texts that are matched without a notification."""

from __future__ import annotations

import json
from decimal import Decimal
from math import isnan
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.filters import parse
from fairlead.ingest import Rejection, records
from fairlead.matching.columnar import Columnar
from fairlead.model import Notification
from fairlead.model.json_kernels import is_utf8, spelled_float


def bytes_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


FILTERS = (
    'a = "x"',
    "a = 1",
    "a > 0.5",
    "a in [0, 10]",
    "a = true",
    "a = null",
    "exists a",
    "absent a",
    "not a = 1",
    'a prefix "x"',
    'a substring "yz"',
    'b suffix "z"',
    "a.b = 2",
    "exists a.b",
    'a != "x" and b = 3',
    'a in {"x", "y", 1, 0.25}',
    'producer = "p"',
    "b is record",
    'a contains "x"',
    'a ~ "x+y?z*"',
)
PLAIN: Any = st.one_of(
    st.integers(-3, 12),
    st.sampled_from([0.25, 0.5, -0.0, 1e3, 0.1, 12345678901234567, 1 << 53, (1 << 53) + 1, 1 << 70]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["x", "y", "xyz", "", "yz", 'x"', "x\\", "ä", "x\ny"]),
    st.booleans(),
    st.none(),
    st.lists(st.sampled_from(["x", "y"]), max_size=3),
    st.just({"$point": [1, 2]}),
)
CONTENT = st.dictionaries(
    st.sampled_from(["a", "b", "c", "a.b", "ä"]),
    st.one_of(PLAIN, st.dictionaries(st.sampled_from(["b", "c"]), PLAIN, max_size=2)),
    max_size=4,
)
ENVELOPE = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(["e1", 7, "", 1.5, None]),
        "producer": st.sampled_from(["p", "", 3]),
        "sequence": st.sampled_from([3, -1, "4"]),
        "time": st.sampled_from(
            [
                "2026-03-02T09:00:00Z",
                "2026-02-30T09:00:00Z",
                "2026-03-02T09:00:00.25Z",
                "then",
                5,
                "2026-03-02",
            ]
        ),
        "specversion": st.sampled_from(["1.0", "0.3"]),
        "tuple": st.just([1, 2]),
    },
)
ODD = (
    b"",
    b"{",
    b"[]",
    b'{"a":1}{"a":2}',
    b'{"a":1,"a":2}',
    b'{"a": 1 }',
    b' {"a" : "x"}\n',
    b'{"a":01}',
    b'{"a":1.}',
)
NEARLY_UTF8 = (
    "ä€😀\uffff\u0800\U0010ffff".encode(),
    *(
        b"\x80",
        b"\xc2",
        b"\xc0\x80",
        b"\xc1\xbf",
        b"\xe0\x9f\xbf",
        b"\xe0\xa0",
        b"\xed\xa0\x80",
        b"\xe2\x82x",
    ),
    *(
        b"\xf0\x8f\xbf\xbf",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\xf0\x9f\x98",
        b"\xf0\x9f\x98x",
        b"\xfe",
    ),
)
"""Texts in UTF-8, and others that are not by one byte."""
MORE = (
    b'{"a":\xff}',
    *(b'{"a":"x","b":"' + text + b'z"}' for text in NEARLY_UTF8),
    b'{"":1}',
    b'{"a":tru}',
    b'{"a":1e3}',
    b'{"a":0.10}',
    b'{"a":9007199254740993.0}',
    b'{"$x":1}',
)


def engine_of(texts: list[str]) -> Columnar[int]:
    engine: Columnar[int] = Columnar(small=0)
    engine.add_many(enumerate(map(parse, texts)))
    return engine


class Refused(Exception):
    """A text that holds no notification."""


def read(text: bytes) -> Notification:
    found = records.read(text)
    if isinstance(found, Rejection):
        raise Refused
    return found


def answer_to(engine: Columnar[int], text: bytes, *, scanned: bool) -> list[int] | None:
    """The ids that match; None where the text is refused."""
    try:
        return engine.match_json(text, read) if scanned else engine.match(read(text))
    except Refused:
        return None


@given(
    st.lists(st.sampled_from(FILTERS), min_size=1, max_size=6),
    st.lists(
        st.one_of(
            st.builds(lambda content, envelope: json.dumps(content | envelope).encode(), CONTENT, ENVELOPE),
            st.sampled_from(ODD + MORE),
        ),
        max_size=12,
    ),
)
def test_a_text_matches_what_the_notification_in_it_matches(filters: list[str], texts: list[bytes]) -> None:
    engine = engine_of(filters)
    for text in texts:
        assert answer_to(engine, text, scanned=True) == answer_to(engine, text, scanned=False)


def test_plain_texts_make_no_notification() -> None:
    def unwanted(text: bytes) -> Notification:
        raise AssertionError(text)

    engine = engine_of(['a = "x" and b > 0.3', "c = 3", "d.e = true", 'a prefix "x"'])
    text = b'{"id": "e7", "time": "2026-03-31T23:59:59.1Z", "a": "x", "b": 0.30000000000000004, "d": {"e": true}}'
    assert engine.match_json(text, unwanted) == [0, 2, 3]
    engine.remove(2)
    assert engine.match_json(text, unwanted) == [0, 3]
    engine.add(9, parse("b < 1"))
    assert engine.match_json(text, read) == [0, 3, 9]


def test_a_text_that_is_too_long_for_the_kernel_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, lengths = engine_of(['a = "x"']), []

    def noting(text: bytes) -> Notification:
        lengths.append(len(text))
        return read(text)

    monkeypatch.setattr("fairlead.matching.columnar.base.TEXT_MAX", 9)
    for text in (b'{"a":"x"}', b'{"a": "x"}'):
        assert engine.match_json(text, noting) == [0]
    assert lengths == [10]


@given(st.one_of(st.binary(max_size=6), st.sampled_from(NEARLY_UTF8), st.text(max_size=4).map(bytes_of)))
def test_letters_are_utf8_where_python_reads_them_as_such(text: bytes) -> None:
    try:
        text.decode()
    except UnicodeDecodeError:
        assert not is_utf8(np.frombuffer(text, np.uint8), 0, len(text))
    else:
        assert is_utf8(np.frombuffer(text, np.uint8), 0, len(text))


def test_texts_beyond_ascii_make_no_notification() -> None:
    def unwanted(text: bytes) -> Notification:
        raise AssertionError(text)

    engine = engine_of(['a = "ä"', 'b suffix "€"'])
    assert engine.match_json('{"a": "ä", "b": "10 €", "ö": "😀"}'.encode(), unwanted) == [0, 1]


def test_filters_in_dictionaries_are_moved_when_many_texts_come() -> None:
    filters = [parse(f"a = {number}") for number in range(100)]
    engine: Columnar[int] = Columnar()
    engine.add_many(enumerate(filters))
    for number in range(1_100):
        assert engine.match_json(b'{"a": %d}' % (number % 120), read) == [number % 120] * (number % 120 < 100)
    assert engine._version.base is not None


def test_digits_are_a_float_only_where_they_are_its_shortest_spelling() -> None:
    random = Random(7)
    sure = 0
    for number in range(3_000):
        value = random.random() * 10 ** random.randint(-3, 5)
        spelled = repr(value) if number % 2 else f"{value:.{random.randint(10, 17)}f}"
        whole, _, fraction = spelled.partition(".")
        if "e" in spelled or len(whole + fraction) > 18:
            continue
        found = spelled_float(int(whole + fraction), len(fraction))
        if not isnan(found):
            sure += 1
            assert found == float(spelled)
            assert Decimal(repr(found)) == Decimal(spelled)
    assert sure > 1_000
