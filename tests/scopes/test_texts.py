"""Mappings over JSON texts: the kernel writes what `apply` does, to the byte, wherever it is certain."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairlead.filters import parse
from fairlead.filters.language.arithmetic import Sum
from fairlead.model import Instant, Notification
from fairlead.model.encoding import format_json, parse_json
from fairlead.scopes.mappings import (
    Assign,
    Block,
    Code,
    Computed,
    Constant,
    Converted,
    Copied,
    Drop,
    Keep,
    Rename,
    Step,
    apply,
)
from fairlead.scopes.sights import tag_of
from fairlead.scopes.texts import Rewriting, tag_texts

NAMES = ("a", "b", "c", "price", "type")
x, y = Sum.attribute("a"), Sum.attribute("price")
STEPS: list[Step] = [
    *(Drop(name) for name in NAMES),
    Rename("a", "b"),
    Rename("price", "type"),
    Rename("b", "a"),
    Keep(("a", "type", "id")),
    Keep(("b",)),
    Assign("a", Constant(7)),
    Assign("b", Constant(Decimal("0.25"))),
    Assign("c", Constant('say "é"')),
    Assign("c", Constant(True)),
    Assign("b", Constant(Instant(1_700_000_000_500_000))),
    *(Assign(one, Copied(other)) for one in ("a", "c") for other in ("price", "b", "time")),
    Assign("price", Computed.from_sum(y * Sum.number(Decimal("1.25")))),
    Assign("price", Computed.from_sum(x * y - Sum.number(Decimal("0.5")))),
    Assign("a", Computed.from_sum(x * x + y)),
    Assign("b", Computed.from_sum(y * Sum.number(Decimal("1.08")) - x)),
    *(
        Assign(name, Converted(kind, other))
        for kind in ("text", "number", "boolean", "time")
        for name, other in (("c", "a"), ("price", "type"))
    ),
]
VALUES = st.one_of(
    st.integers(-20, 20),
    st.integers(-(2**63), 2**63),
    st.floats(-1e6, 1e6, allow_nan=False).map(lambda each: round(each, 3)),
    st.floats(-1e3, 1e3, allow_nan=False),
    st.sampled_from(
        ["x", "é/", 'say "a"', "line\n", "2", "2.50", "-0.5", "true", "false", "", "2026-01-31T12:00:00Z"]
    ),
    st.sampled_from([True, False, None, 1e-7, 0.0001, 20.0, -0.0, 1e22, 0.1]),
    st.sampled_from(
        [
            ["b", "a"],
            {"b": 1},
            {"$decimal": "0.30"},
            {"$decimal": "0.35"},
            {"$decimal": "-0.6300515345382001512"},
            {"$point": [1, 2]},
        ]
    ),
    st.just({"$time": "2026-01-31T12:00:00.500000Z"}),
)
RECORDS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5)
SPELLINGS = [
    '{"a":1.50,"b":20.00,"price":-0,"c":0.00010}',
    '{ "a" : 1 , "b":"x\\/y" }',
    '{"a":1,"a":2}',
    '{"a.b":1,"c":2}',
    '{"time":"2026-02-28T00:00:00.100Z","a":3}',
    '{"sequence":"7","a":3}',
    '{"time":951782400000000,"a":3}',
    '{"time":1709164800500000,"a":3}',
    '{"time":-1,"a":0.7316529164382017}',
    '{"time":253402300799999999,"a":0.30000000000000004}',
    '{"time":0,"a":0.1000000000000000055}',
    '{"a":12345678901234567.5,"price":0.1}',
    '{"a":"\\u0041"}',
    '{"tuple":[1],"a":1}',
    '{"é":1,"a":2}',
    "[]",
    "{",
    "{}",
]


def run(steps: tuple[Step, ...], texts: list[str]) -> list[tuple[str, str, str] | None]:
    """The text, the plain text and the tag of each; None where the kernel is not certain."""
    rewriting = Rewriting.of(steps)
    assert rewriting is not None
    encoded = [text.encode() for text in texts]
    starts = np.cumsum([0, *map(len, encoded)])
    made = rewriting.on(np.frombuffer(b"".join(encoded) or b" ", np.uint8).copy(), starts)
    tags = tag_texts(made.marks)
    return [
        (
            made.letters[made.starts[row] : made.starts[row + 1]].tobytes().decode(),
            made.plain_letters[made.plain_starts[row] : made.plain_starts[row + 1]].tobytes().decode(),
            tags[row],
        )
        if made.sure[row]
        else None
        for row in range(len(texts))
    ]


def written(notification: Notification) -> str:
    return format_json(notification.written()[0])


def check(steps: tuple[Step, ...], texts: list[str]) -> int:
    """Compare the kernel with `apply`; how many texts it was certain of."""
    certain = 0
    for text, found in zip(texts, run(steps, texts), strict=True):
        if found is None:
            continue
        certain += 1
        notification = Notification.read(parse_json(text))
        wanted = apply(steps, notification)
        assert wanted is not None
        mapped = Notification(wanted.attributes)  # as a version that no mapping left as it was
        assert tag_of(mapped, Notification.of({"other": "content"})) == found[2]
        if wanted is not notification:
            assert found[0] == written(wanted)
        assert Notification.read(parse_json(found[1])).attributes == wanted.attributes
    return certain


@given(st.lists(st.sampled_from(STEPS), max_size=4).map(tuple), st.lists(RECORDS, min_size=1, max_size=5))
@example((Assign("a", Computed.from_sum(x * x + y)),), [{"a": 0.001, "price": -0.000001}])
@example((Rename("a", "b"), Rename("b", "a")), [{"a": 1, "c": 2}])
def test_a_certain_text_is_that_of_apply(steps: tuple[Step, ...], records: list[dict[str, Any]]) -> None:
    envelope = {"id": "1", "producer": "p", "time": "2026-01-31T12:00:00Z"}
    check(steps, [format_json({**envelope, **each}) for each in records])


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_odd_spellings_are_left_to_apply_or_read_right(step: Step) -> None:
    readable = []
    for text in SPELLINGS:
        try:
            Notification.read(parse_json(text))
        except Exception:  # the reader says what is readable
            assert run((step,), [text]) == [None]
        else:
            readable.append(text)
    check((step,), readable)


def test_usual_records_are_certain() -> None:
    usual = [
        '{"id":"1","producer":"p","time":"2026-01-31T12:00:00.500000Z","type":"order","price":12.5,"a":3,"c":true}',
        '{"id":8,"a":0.7004997457376413,"price":-0.831205758222933,"b":{"$decimal":"0.756539725396652604"}}',
        '{"id":7,"a":-1,"price":100,"c":null,"type":"a longer text, with é"}',
        '{"a": 1.50, "price": 20.0, "b": {"$decimal":"0.125"}}',
    ]
    for step in STEPS[:20]:
        assert check((step,), usual) == len(usual), step


def test_other_steps_are_no_program() -> None:
    for step in (Block(parse("a = 1")), Code("json:loads"), Drop("a.b"), Assign("a", Constant(1e300))):
        assert Rewriting.of((step,)) is None


def test_long_texts_and_many_fields_find_room() -> None:
    long = format_json({"a": "x" * 50_000, "b": 1})
    many = format_json({f"n{number}": number for number in range(120)})
    too_many = format_json({f"n{number}": number for number in range(200)})
    copies = tuple(Assign(f"copy{number}", Copied("a")) for number in range(9))
    assert check(copies, [long, many, too_many]) == 2
