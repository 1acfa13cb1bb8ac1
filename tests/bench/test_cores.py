"""The time of cores of a process and all that it has started: of two looks, the later tells of no less."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping

from hypothesis import given
from hypothesis import strategies as st

from fairlead_lab.bench.cores import CoreTime, Process, processes, timed

OWN = 1

tables = st.dictionaries(
    st.integers(2, 6), st.builds(Process, st.integers(0, 6), st.integers(0, 2), st.just(0)), max_size=5
)


@given(st.lists(tables, min_size=1, max_size=6), st.data())
def test_a_later_look_tells_of_no_less(found: list[dict[int, Process]], data: st.DataObject) -> None:
    used: dict[tuple[int, int], int] = {}

    def look() -> Iterator[Mapping[int, Process]]:
        for table in found:
            table[OWN] = Process(0, 0, 0)
            for number, process in table.items():
                account = number, process.started
                used[account] = used.get(account, 0) + data.draw(st.integers(0, 3))
                table[number] = process._replace(ticks=used[account])
            yield table

    seen = look()
    cores = CoreTime(OWN, lambda: next(seen))
    ticks = [cores.ticks() or 0 for _ in found]
    assert ticks == sorted(ticks)


def test_what_an_ended_worker_has_used_stays_counted_and_strangers_do_not_count() -> None:
    looks = iter(
        [
            {1: Process(0, 5, 10), 2: Process(1, 6, 4), 3: Process(2, 7, 8), 9: Process(0, 1, 99)},
            {1: Process(0, 5, 11), 3: Process(0, 7, 9), 9: Process(0, 1, 200)},  # its parent has ended
            {1: Process(0, 5, 11), 2: Process(9, 8, 50), 9: Process(0, 1, 300)},  # a number is used again
        ]
    )
    cores = CoreTime(1, lambda: next(looks))
    assert [cores.ticks() for _ in range(3)] == [22, 24, 24]


def test_the_time_of_a_child_counts() -> None:
    work = "print(sum(each * each for each in range(3_000_000)), flush=True); input()"
    cores = CoreTime(os.getpid())
    before = cores.ticks() or 0
    with subprocess.Popen(
        [sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        own = processes()[child.pid].ticks
        after = cores.ticks() or 0
    assert own > 0
    assert after >= before + own
    assert (timed(int).cpu_s or 0) >= 0
