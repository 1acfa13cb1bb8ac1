"""Records below the common end of two logs are the same in both; a log that only grew has lost nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from fairlead.log.lineage import LINEAGE_MAX, Incarnation, common_end, is_ancestor, shortened


@dataclass
class Copy:
    """A log as a list of records; each opening begins an incarnation."""

    records: list[int] = field(default_factory=list)
    lineage: list[Incarnation] = field(default_factory=list)


@given(st.lists(st.tuples(st.sampled_from(["open", "append", "copy"]), st.integers(0, 3)), max_size=30))
def test_records_below_the_common_end_are_the_same_in_both_logs(steps: list[tuple[str, int]]) -> None:
    logs = [Copy()]
    for number, (step, which) in enumerate(steps):
        log = logs[which % len(logs)]
        if step == "copy":
            log = Copy(log.records[:], log.lineage[:])
            logs.append(log)
        if step in ("open", "copy") or not log.lineage:  # whoever writes has opened the log
            log.lineage.append(Incarnation(f"i{number}", len(log.records)))
        log.records.append(number)
    for one in logs:
        for other in logs:
            end = common_end(one.lineage, other.lineage)
            same = len([1 for a, b in zip(one.records, other.records, strict=False) if a == b])
            both = min(len(one.records), len(other.records))
            assert min(both, both if end is None else end) == same
            if is_ancestor(one.lineage, other.lineage) and one.lineage:
                assert other.records[: min(len(one.records), end or both)] == one.records[: end or both]


def test_a_log_that_only_grew_bounds_nothing_that_was_read() -> None:
    known = (Incarnation("a", 0), Incarnation("b", 10))
    assert common_end(known, (*known, Incarnation("c", 25))) == 25
    assert common_end(known, known) is None
    assert common_end((), known) is None


def test_a_log_from_an_older_backup_ends_where_its_next_incarnation_began() -> None:
    known = (Incarnation("a", 0), Incarnation("b", 10))
    restored = (Incarnation("a", 0), Incarnation("c", 7))
    assert common_end(known, restored) == 7
    assert not is_ancestor(known, restored)


def test_logs_without_a_common_incarnation_have_nothing_in_common() -> None:
    assert common_end((Incarnation("a", 0),), (Incarnation("b", 0),)) == 0


def test_a_lineage_names_the_latest_incarnations() -> None:
    lineage = [Incarnation(str(n), n) for n in range(LINEAGE_MAX + 5)]
    assert shortened(lineage) == tuple(lineage[5:])
