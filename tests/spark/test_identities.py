"""Identities in the memory of the driver: what some table has, with a time that is remembered."""

from __future__ import annotations

import pickle

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from fairlead.spark.batch import REMEMBERED
from fairlead.spark.identities import Identities
from fairlead.spark.output import Segment

# Few halves, so that identities share one, and stand in several tables, with several times.
half = st.sampled_from([bytes(8), b"\x01" + bytes(7), b"\xff" * 8])
hashes = st.builds(lambda first, second: first + second, half, half)
entries = st.lists(st.tuples(hashes, st.integers(0, 5)), max_size=8)


def table_of(rows: list[tuple[bytes, int]]) -> pa.Table:
    return pa.table([[hash for hash, _ in rows], [time for _, time in rows]], schema=REMEMBERED)


@given(
    st.lists(entries, max_size=4),
    st.lists(
        st.tuples(st.lists(hashes, max_size=6), st.lists(st.booleans(), min_size=4, max_size=4)), max_size=3
    ),
    st.integers(0, 6),
)
def test_a_hash_is_among_them_iff_some_table_has_it_with_a_time_from_then_on(
    tables: list[list[tuple[bytes, int]]], asked: list[tuple[list[bytes], list[bool]]], since: int
) -> None:
    identities = Identities()
    segments = {Segment(number, len(rows), number): rows for number, rows in enumerate(tables)}
    for wanted, chosen in asked:  # batch after batch, with other tables each
        some = [each for each, is_chosen in zip(segments, chosen, strict=False) if is_chosen]
        remembered = {hash for each in some for hash, time in segments[each] if time >= since}
        found = identities.among(
            pa.array(wanted, pa.binary()), some, lambda each: table_of(segments[each]), since
        )
        assert found.tolist() == [each in remembered for each in wanted]


def test_a_table_is_read_once_while_it_is_asked_for_and_does_not_travel() -> None:
    read: list[int] = []
    one, other = Segment(0, 1, 0), Segment(1, 1, 0)

    def read_table(segment: Segment) -> pa.Table:
        read.append(segment.batch)
        return table_of([(bytes(16), 3)])

    identities = Identities()
    asked = pa.array([bytes(16)], pa.binary())
    for segments in ([one], [one, other], [one, other], [other], [one]):
        assert identities.among(asked, segments, read_table, 0).all()
    assert read == [0, 1, 0]
    assert pickle.loads(pickle.dumps(identities))._tables == {}
