"""The first offset of every identity: what is remembered is known for as long as promised, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.log import identities as module
from fairlead.log.identities import FirstOffsets

identities = st.integers(0, 60).map(lambda each: str(each).encode())


def write(firsts: FirstOffsets, end: int, now: int = 0) -> int:
    """Write what is in memory, as is done beside the loop; the offset below which all is in files."""
    firsts.begin(end, now)
    return firsts.finish(firsts.write(now))


@given(st.lists(identities | st.none(), max_size=120))
def test_the_first_offset_of_an_identity_is_that_of_its_first_record(given: list[bytes | None]) -> None:
    firsts, oracle = FirstOffsets(most=1_000_000), dict[bytes, int]()
    for offset, identity in enumerate(given):
        if identity is None:
            assert write(firsts, offset) == offset
            continue
        assert firsts.known(identity) == oracle.get(identity)
        assert firsts.first(identity, offset) == oracle.setdefault(identity, offset)
    assert len(firsts) == len(oracle)


@given(st.lists(st.lists(identities, max_size=12) | st.sampled_from(["write", "begin"]), max_size=20))
def test_several_are_the_first_of_their_identities_as_each_of_them_is(given: list[list[bytes] | str]) -> None:
    firsts, oracle, end = FirstOffsets(most=1_000_000), dict[bytes, int](), 0
    for each in given:
        if each == "begin" and not firsts._writing:
            firsts.begin(end, 0)
        elif each == "write":
            firsts.finish(firsts.write(0)) if firsts._writing else write(firsts, end)
        elif isinstance(each, list):
            offsets = [*range(end, end + len(each))]
            end += len(each)
            expected = [oracle.setdefault(*pair) == pair[1] for pair in zip(each, offsets, strict=True)]
            new = firsts.take_all(each, offsets)
            assert (all(expected) if new is None else new == expected) is True
    assert {each: firsts.known(each) for each in oracle} == oracle


@given(st.lists(st.integers(1, 50), min_size=1, max_size=40))
def test_what_is_written_often_is_in_few_runs(sizes: list[int]) -> None:
    firsts, end = FirstOffsets(most=8_000), 0
    for size in sizes:
        new = [str(end + each).encode() for each in range(size)]
        assert firsts.take_all(new, [*range(end, end + size)]) is None
        end += size
        write(firsts, end)
    assert len(firsts) == end
    assert len(firsts._runs) <= 2 * end.bit_length()
    assert all(firsts.known(str(each).encode()) == each for each in range(end))


@given(
    st.lists(identities, max_size=40), st.lists(identities, max_size=40), st.lists(identities, max_size=40)
)
def test_what_is_being_written_is_known(before: list[bytes], during: list[bytes], after: list[bytes]) -> None:
    firsts, oracle = FirstOffsets(most=1_000_000), dict[bytes, int]()

    def take(given: list[bytes]) -> None:
        for identity in given:
            offset = len(oracle)
            assert firsts.first(identity, offset) == oracle.setdefault(identity, offset)

    take(before)
    firsts.begin(len(oracle), 0)
    take(during)
    written = firsts.write(0)
    take(during)
    firsts.finish(written)
    take(after)
    firsts.begin(len(oracle), 0)
    firsts.write(0)
    firsts.abandon()  # the disk is full
    take([*before, *during, *after])


def test_what_is_in_files_is_known_when_they_are_opened_again(tmp_path: Path) -> None:
    firsts = FirstOffsets(tmp_path)
    for n in range(10_000):
        firsts.first(str(n).encode(), n)
        if n in (2_000, 9_000):
            assert write(firsts, n + 1) == n + 1
    again = FirstOffsets(tmp_path, end=10_000)
    assert all(again.known(str(n).encode()) == n for n in range(9_001))
    assert again.known(b"9001") is None  # it is in the log, from which it is remembered again


def test_an_identity_is_remembered_for_the_time_and_then_forgotten() -> None:
    firsts = FirstOffsets(time_us=1_000, most=80)
    for offset, now in enumerate(range(0, 10_000, 100)):
        firsts.first(str(now).encode(), offset)
        write(firsts, offset + 1, now)
        assert all(
            firsts.known(str(each).encode()) is not None for each in range(max(0, now - 1_000), now, 100)
        )
    assert firsts.known(b"0") is None
    assert len(firsts) < 80


def test_no_more_identities_take_room_than_may(tmp_path: Path) -> None:
    firsts = FirstOffsets(tmp_path, most=1_000)
    for n in range(5_000):
        firsts.first(str(n).encode(), n)
        if n % 50 == 0:
            write(firsts, n + 1)
            assert firsts.known(str(max(0, n - 800)).encode()) == max(0, n - 800)
            assert len(firsts) <= 1_050
            size = sum(each.stat().st_size for each in tmp_path.iterdir())
            assert size <= 1_050 * module.RECORD_BYTES + 20 * module.HEAD_BYTES


def test_where_nothing_can_be_written_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LATEST", 10)
    firsts = FirstOffsets()
    for n in range(1_000):
        firsts.first(str(n).encode(), n)
        if firsts.is_due(0):
            firsts.begin(n, 0)
            firsts.abandon()
    assert len(firsts) <= 10 * module.LATEST_MAX + 1
    assert firsts.known(b"999") == 999


def test_files_of_a_log_that_has_gone_back_count_for_nothing(tmp_path: Path) -> None:
    firsts = FirstOffsets(tmp_path)
    firsts.first(b"x", 10)
    write(firsts, 11)
    firsts.close()
    assert FirstOffsets(tmp_path, end=11).known(b"x") == 10
    gone_back = FirstOffsets(tmp_path, end=10)
    assert gone_back.is_new
    assert gone_back.known(b"x") is None


@pytest.mark.parametrize("damaged", [b"", bytes(10), bytes(4_096)])
def test_a_damaged_file_is_no_run(tmp_path: Path, damaged: bytes) -> None:
    firsts = FirstOffsets(tmp_path)
    firsts.first(b"x", 10)
    write(firsts, 11)
    firsts.close()
    (tmp_path / f"{2:016}.identities").write_bytes(damaged)
    again = FirstOffsets(tmp_path, end=11)
    assert again.known(b"x") == 10
    assert again.first(b"y", 11) == 11


def test_the_law_would_see_a_filter_that_knows_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FirstOffsets, "_filter_for", lambda *rest: (bytearray(128), 1_023))
    firsts = FirstOffsets()
    firsts.first(b"x", 0)
    write(firsts, 1)
    assert firsts.first(b"x", 1) != 0
