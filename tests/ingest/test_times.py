"""Times come in many forms; a number in the wrong unit is suspected, and alike reasons are counted together."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.errors import ValueRefused
from fairlead.ingest import Fields, Rejection, Times, csv, jsonlines, records, xml
from fairlead.ingest.formats import format_of, format_of_all
from fairlead.ingest.rejection import kind_of_reason
from fairlead.ingest.times import suspected_unit
from fairlead.model import Instant, Notification

NINE = Instant.parse("2026-03-02T09:00:00Z")


@pytest.mark.parametrize(
    ("form", "given"),
    [
        ("", "2026-03-02T09:00:00Z"),
        ("", "2026-03-02 09:00:00"),
        ("", "2026-03-02T10:00:00.000+01:00"),
        ("s", 1772442000),
        ("s", "1772442000"),
        ("s", 1772442000.0),
        ("ms", 1772442000000),
        ("us", 1772442000000000),
        ("ns", 1772442000000000000),
        ("%d.%m.%Y %H:%M:%S", "02.03.2026 09:00:00"),
        ("%d/%b/%Y:%H:%M:%S %z", "02/Mar/2026:10:00:00 +0100"),
    ],
)
def test_a_time_is_read_in_the_form_that_is_said(form: str, given: Any) -> None:
    assert Times(form).instant(given) == NINE
    written = f'"{given}"' if isinstance(given, str) else given
    found = records.read(f'{{"id": "1", "ts": {written}}}', fields=Fields(time="ts", times=Times(form)))
    assert isinstance(found, Notification)
    assert found.time == NINE
    assert found.to_json() == f'{{"id":"1","ts":{written}}}'
    lines = [b"id,time\n", f"1,{given}\n".encode()]
    [(_, row)] = csv.read(lines, fields=Fields(times=Times(form)))
    assert isinstance(row, Notification)
    assert row.time == NINE


def test_a_date_is_midnight() -> None:
    assert Instant.parse("2026-03-02") == Instant.parse("2026-03-02T00:00:00Z")


@pytest.mark.parametrize(
    ("form", "given"),
    [("ms", "noon"), ("ms", True), ("s", "1.0000001"), ("%Y", "next year"), ("%Y", 2026), ("ns", 1)],
)
def test_what_is_not_in_that_form_is_refused_and_the_reason_does_not_repeat_it(form: str, given: Any) -> None:
    with pytest.raises(ValueRefused) as refused:
        Times(form).instant(given)
    assert str(given) not in str(refused.value)


def test_a_form_that_is_none_is_refused() -> None:
    with pytest.raises(ValueRefused, match="not a form of times: 'millis'"):
        Times("millis")


@pytest.mark.parametrize(
    ("numbers", "unit"),
    [
        ([1772442001000, 1772442002000], "ms"),
        ([1772442001], "s"),
        ([1772442001000000000], "ns"),
        ([1772442001000000], None),
        ([1772442001000, 1772442001000000], None),
        ([5, 6], None),
        ([], None),
    ],
)
def test_numbers_in_another_unit_than_microseconds_are_suspected(
    numbers: list[int], unit: str | None
) -> None:
    assert suspected_unit(map(Instant, numbers)) == unit


@pytest.mark.parametrize("time", [-(2**63) - 1, 2**63])
def test_a_time_outside_of_the_order_is_refused_at_the_door(time: int) -> None:
    for found in (records.read(f'{{"time": {time}}}'), xml.read(f'<notification time="{time}"/>')):
        assert isinstance(found, Rejection)
        assert found.reason == "the time lies outside of 64 bits of microseconds"


def test_an_empty_document_is_rejected_with_a_reason() -> None:
    for raw in (b"", b" \n"):
        found = xml.read(raw)
        assert isinstance(found, Rejection)
        assert found.reason == "an empty document"


def test_a_quote_that_is_not_closed_says_what_it_swallows() -> None:
    found = [each for _, each in csv.read([b"a,b\n", b'1,"x\n', b"2,y\n", b"3,z\n"])]
    [rejection] = found
    assert isinstance(rejection, Rejection)
    assert (
        rejection.reason
        == "a quote that nothing closes, at letter 3; it takes the 2 lines behind it into this row"
    )


def test_alike_rejections_are_counted_together() -> None:
    lines = [
        *(f'{{"time": "{day}"}}'.encode() for day in ("noon", "soon", "2026-99-01")),
        *(b'{"sequence": "a"}', b'{"sequence": "b"}'),
        *(b'{"a": 1', b'{"abc": 1'),
        *(b"1,2", b"[1]"),
    ]
    kinds = [each.kind for _, each in jsonlines.read(lines) if isinstance(each, Rejection)]
    assert len(kinds) == len(lines)
    assert len(set(kinds)) < len(lines) - 3
    assert kinds[0] == kinds[1]
    assert kinds[3] == kinds[4]
    assert kinds[5] == kinds[6]


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        (
            "'price' is declared as int, which 'cheap' is not",
            "'price' is declared as int, which the value is not",
        ),
        ("'sequence' is a whole number, not 'x'", "'sequence' is a whole number"),
        ("not JSON: expecting value, line 1 column 9", "not JSON: expecting value"),
        ("not UTF-8: invalid start byte at byte 17", "not UTF-8: invalid start byte"),
        ("a notification is a JSON object, not an array", "a notification is a JSON object, not an array"),
        ("not an instant: 'noon'; write it as RFC 3339 has it", "not an instant"),
    ],
)
def test_a_reason_without_values_and_places_is_its_kind(reason: str, kind: str) -> None:
    assert kind_of_reason(reason) == kind


@pytest.mark.parametrize(
    ("name", "head", "format"),
    [
        ("part-0001.snappy.parquet", b"PAR1\x15", "parquet"),
        ("data", b"PAR1", "parquet"),
        ("data.json", b"PAR1", "parquet"),
        ("data", b"ORC\x08", "orc"),
        ("events.jsonl.gz", b"\x1f\x8b", "json"),
        ("events.csv", b"id,x\n", "csv"),
        ("events", b'{"id": 1}\n', "json"),
        ("events.txt", b'{"id": 1}\n', "json"),
        ("events.log", b"hello\n", "text"),
        ("order", b"\xef\xbb\xbf<order/>", "xml"),
        ("what", b"???", None),
    ],
)
def test_a_file_has_the_format_that_it_begins_with(name: str, head: bytes, format: str | None) -> None:
    assert format_of(name, head) == format


def test_a_directory_has_the_format_of_its_files() -> None:
    files = [("_SUCCESS", b""), (".x.crc", b"crc"), ("part-0", b"PAR1"), ("part-1", b"PAR1")]
    assert format_of_all(files) == "parquet"
    assert format_of_all([]) is None
    with pytest.raises(ValueRefused, match=r"csv \(b.csv\), parquet \(part-0\)"):
        format_of_all([*files, ("b.csv", b"x")])
