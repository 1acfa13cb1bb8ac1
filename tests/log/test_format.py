"""The bytes are those of the law in the package's docstring, and nothing else is taken for a log."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import DamagedLog
from fairlead.log import CURSORS, MAX_PAYLOAD, Log, Reader, Record
from fairlead.log.format import (
    NEVER,
    Head,
    decode_cursors,
    encode_cursors,
    encode_record,
    hop,
    name_of,
    offsets_in,
    run_of,
    whole_records,
)

GOLDEN_HEAD = bytes.fromhex(
    "89 46 4c 4f 47 0d 0a 1a"  # magic
    "01 00  00 00  4b 00 00 00"  # version 1, zero, the head has 75 bytes
    "02 00 00 00 00 00 00 00  14 d8 07 27"  # all below 2 is synced
    "02 00 00 00 00 00 00 00  14 d8 07 27"
    "02 00 00 00 00 00 00 00"  # the first record is 2
    "e8 03 00 00 00 00 00 00"  # the latest time before is 1000
    "01 00 00 00"  # one cursor:
    "01 00  61  07 00 00 00 00 00 00 00"  # a = 7
    "2c dd 5b c3"
)
GOLDEN_RECORD = bytes.fromhex(
    "50 89 f1 64"
    "03 00 00 00"  # three bytes
    "02 00 00 00 00 00 00 00"  # the record 2
    "e9 03 00 00 00 00 00 00"  # at 1001
    "05 00"  # of kind 5
    "61 62 63"
)


def little(number: int, size: int) -> bytes:
    return number.to_bytes(size, "little", signed=number < 0)


def with_crc(raw: bytes) -> bytes:
    return little(crc32(raw), 4) + raw


def test_bytes_written_by_hand_are_a_log(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000002.log").write_bytes(GOLDEN_HEAD + GOLDEN_RECORD)
    with Log(tmp_path) as log:
        assert (log.first, log.end, dict(log.cursors)) == (2, 3, {"a": 7})
        assert log.recovery.cut_bytes == 0
    assert list(Reader(tmp_path)) == [Record(2, 1001, 5, b"abc")]


def test_a_log_has_the_bytes_of_the_law(tmp_path: Path) -> None:
    with Log(tmp_path / "new" / "log") as log:
        log.append(7, b"hello", -1)
        log.cursors["é"] = 3
        log.sync()
        del log.cursors["é"]
    opening = b"\x89FLOG\r\n\x1a" + little(1, 2) + little(0, 2) + little(64, 4)
    marks = [little(2, 8) + little(crc32(little(2, 8)), 4), little(3, 8) + little(crc32(little(3, 8)), 4)]
    rest = little(0, 8) + little(-(2**63), 8) + little(0, 4)
    name = little(2, 2) + "é".encode()
    records = [
        with_crc(little(5, 4) + little(0, 8) + little(-1, 8) + little(7, 2) + b"hello"),
        with_crc(little(12, 4) + little(1, 8) + little(-1, 8) + little(0, 2) + name + little(3, 8)),
        with_crc(little(12, 4) + little(2, 8) + little(-1, 8) + little(0, 2) + name + little(2**64 - 1, 8)),
    ]
    expected = opening + b"".join(marks) + rest + little(crc32(opening + rest), 4) + b"".join(records)
    directory = tmp_path / "new" / "log"
    assert (directory / "00000000000000000000.log").read_bytes() == expected
    names = ["00000000000000000000.log", "lock", "tail"]
    assert sorted(path.name for path in directory.iterdir()) == names
    assert (directory / "tail").read_bytes() == b"0" * 20


def test_encoding_gives_the_golden_bytes() -> None:
    assert Head(2, 1000, {"a": 7}).encode() == GOLDEN_HEAD
    assert encode_record(2, 1001, 5, b"abc") == GOLDEN_RECORD


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        (b"", "is not a segment of a Fairlead log"),
        (b"PAR1" + bytes(100), "is not a segment of a Fairlead log"),
        (GOLDEN_HEAD[:40], "the head of this segment is damaged"),
        (GOLDEN_HEAD[:8] + b"\x02" + GOLDEN_HEAD[9:], "format 2 is not known, only 1"),
        (GOLDEN_HEAD[:12] + b"\xff\xff\xff\xff" + GOLDEN_HEAD[16:], "the head of this segment is damaged"),
        (GOLDEN_HEAD[:12] + bytes(4) + GOLDEN_HEAD[16:], "the head of this segment is damaged"),
        (GOLDEN_HEAD[:50] + b"?" + GOLDEN_HEAD[51:], "the head of this segment is damaged"),
        (GOLDEN_HEAD[:16] + bytes(24) + GOLDEN_HEAD[40:], "both marks of this segment are damaged"),
        (Head(3).encode(), "is that of the record 3: it was renamed"),
    ],
)
def test_what_is_foreign_newer_or_damaged_is_refused_by_name(
    tmp_path: Path, raw: bytes, complaint: str
) -> None:
    (tmp_path / "00000000000000000002.log").write_bytes(raw)
    with pytest.raises(DamagedLog, match=complaint) as refused:
        Log(tmp_path)
    assert refused.value.path == str(tmp_path / "00000000000000000002.log")
    assert refused.value.path in str(refused.value)
    with pytest.raises(DamagedLog, match=complaint):
        Reader(tmp_path).read()
    assert (tmp_path / "00000000000000000002.log").read_bytes() == raw


def test_one_mark_may_be_torn(tmp_path: Path) -> None:
    torn = GOLDEN_HEAD[:20] + b"?" + GOLDEN_HEAD[21:]
    (tmp_path / "00000000000000000002.log").write_bytes(torn + GOLDEN_RECORD)
    with Log(tmp_path) as log:
        assert log.end == 3


def test_only_names_with_twenty_digits_are_segments() -> None:
    names = [
        "lock",
        "1.log",
        name_of(12),
        name_of(0),
        "00000000000000000001.new",
        f"{'x' * 20}.log",
        "²" * 20 + ".log",
    ]
    assert offsets_in(names) == [0, 12]


offsets = st.integers(0, 2**63 - 1)
instants = st.integers(-(2**63), 2**63 - 1)


@given(
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), offsets), offsets, instants
)
def test_a_head_is_read_as_it_was_written(cursors: dict[str, int], base: int, latest: int) -> None:
    head = Head(base, latest, cursors)
    assert Head.decode(head.encode(), f"log/{name_of(base)}") == head
    assert dict(decode_cursors(encode_cursors(cursors))) == cursors


contents = st.lists(st.tuples(instants, st.integers(0, 2**16 - 1), st.binary(max_size=40)), max_size=8)


@given(contents, offsets, st.integers(0, 400), st.integers(0, 9))
def test_a_run_is_the_whole_records_of_a_chunk(
    content: list[tuple[int, int, bytes]], base: int, cut: int, limit: int
) -> None:
    records = [Record(base + number, *each) for number, each in enumerate(content)]
    encoded = [encode_record(each.offset, each.time, each.kind, each.payload) for each in records]
    chunk = b"".join(encoded)[:cut]
    whole = [n for n in range(len(encoded) + 1) if sum(map(len, encoded[:n])) <= len(chunk)][-1]
    run = run_of(chunk, base, base + limit)
    assert run.records == records[: min(whole, limit)]
    assert run.size == sum(map(len, encoded[: min(whole, limit)]))
    assert whole_records(b"".join(encoded), len(chunk)) == (whole, sum(map(len, encoded[:whole])))
    count, size, latest, met = hop(b"".join(encoded), base, base + limit, 2**63)
    assert (count, met) == (min(len(records), limit), False)
    assert size == sum(map(len, encoded[:count]))
    assert latest == max((each.time for each in records[:count]), default=NEVER)


@given(st.binary(max_size=60), st.integers(0, 10_000), st.integers(1, 255))
def test_no_byte_of_a_record_can_change_unseen(payload: bytes, at: int, change: int) -> None:
    raw = bytearray(encode_record(3, 5, 1, payload))
    raw[at % len(raw)] ^= change
    assert run_of(bytes(raw), 3, 4).records == []


@pytest.mark.parametrize("zeros", [1, 26, 4096])
def test_zeros_are_no_records(zeros: int) -> None:
    assert run_of(bytes(zeros), 0, 10).records == []


@pytest.mark.parametrize(
    ("kind", "payload", "time", "complaint"),
    [
        (CURSORS, b"", 0, "kind is 1 or more"),
        (2**16, b"", 0, "kind 65536 not 16"),
        (1, bytes(MAX_PAYLOAD + 1), 0, "at most 16777216 bytes"),
        (1, b"", 2**63, "is not 64 bits"),
    ],
)
def test_what_fits_no_record_is_refused(
    tmp_path: Path, kind: int, payload: bytes, time: int, complaint: str
) -> None:
    with Log(tmp_path) as log:
        with pytest.raises(ValueError, match=complaint):
            log.append(kind, payload, time)
        with pytest.raises(ValueError, match=complaint):
            log.append_many([(1, b"good"), (kind, payload)], time)
        assert log.end == 0
        assert log.append(1, bytes(MAX_PAYLOAD), 0) == 0
    assert [len(record.payload) for record in Reader(tmp_path)] == [MAX_PAYLOAD]
