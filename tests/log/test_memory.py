"""A power failure takes nothing that was synced from a disk in memory, and anything else it may."""

from __future__ import annotations

import errno
import pickle
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import DamagedLog, LogInUse
from fairlead_lab.testing.memory import MemoryDisk

writes = st.lists(st.tuples(st.integers(0, 150), st.binary(min_size=1, max_size=90)), max_size=4)


@given(writes, writes, st.integers(0, 99))
def test_what_was_synced_and_not_written_again_stays(
    synced: list[tuple[int, bytes]], others: list[tuple[int, bytes]], seed: int
) -> None:
    disk = MemoryDisk()
    disk.make_directory("d")
    file = disk.create("d/f")
    for position, raw in synced:
        disk.write(file, raw, position)
    disk.sync(file)
    disk.sync_directory("d")
    before = disk.read(file, 999, 0)
    for position, raw in others:
        disk.write(file, raw, position)
    after = disk.read(file, 999, 0)
    disk.lose_power(Random(seed))
    found = disk.read(disk.open("d/f"), 999, 0)
    assert len(before) <= len(found) <= len(after)
    touched = {at for position, raw in others for at in range(position, position + len(raw))}
    assert all(found[at] == before[at] for at in range(len(before)) if at not in touched)


def test_every_fate_of_what_was_not_synced_comes_up() -> None:
    fates = set()
    for seed in range(200):
        disk = MemoryDisk()
        disk.make_directory("d")
        disk.write(disk.create("d/f"), b"x" * 100, 0)
        disk.lose_power(Random(seed))
        content = disk.read(disk.open("d/f"), 999, 0) if disk.names("d") else None
        fates.add(
            {None: "no name", b"": "empty", b"x" * 100: "whole", bytes(100): "zeros"}.get(content, "torn")
        )
    assert fates == {"no name", "empty", "whole", "zeros", "torn"}


def test_a_sync_that_fails_forgets_what_it_should_have_written_and_the_next_succeeds() -> None:
    disk = MemoryDisk()
    disk.make_directory("d")
    file = disk.create("d/f")
    disk.sync_directory("d")
    disk.write(file, b"x", 0)
    disk.sync_fails = True
    with pytest.raises(OSError, match="input/output error") as failure:
        disk.sync(file)
    assert failure.value.errno == errno.EIO
    disk.sync(file)
    assert disk.read(file, 9, 0) == b"x"
    disk.lose_power(Random(0))
    assert disk.read(disk.open("d/f"), 9, 0) == b""


def test_a_lock_is_held_until_it_is_closed_or_its_holder_killed() -> None:
    disk = MemoryDisk()
    held = disk.lock("d/lock")
    with pytest.raises(LogInUse):
        disk.lock("d/lock")
    disk.close(held)
    disk.lock("d/lock")
    disk.kill()
    disk.lock("d/lock")


def test_damage_can_be_sent_between_processes() -> None:
    damage = DamagedLog.at("log/0.log", 64, 3, "is damaged")
    again = pickle.loads(pickle.dumps(damage))
    assert (again.path, again.offset, str(again)) == (damage.path, damage.offset, str(damage))
