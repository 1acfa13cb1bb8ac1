"""Whatever was noted before a sync is remembered after it, whenever the power fails; gathering changes nothing."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import DamagedLog, LogFull
from fairlead.log.records import STATE
from fairlead.model import Notification
from fairlead.model.packed import pack
from fairlead.network import ledger as ledgers
from fairlead.network import wire
from fairlead.network.ledger import (
    Change,
    InterestsChanged,
    Ledger,
    Linked,
    Parting,
    State,
    Subscribed,
    Unlinked,
    Unsubscribed,
    Wanted,
)
from fairlead_lab.testing.memory import MemoryDisk


def packed(id: str) -> bytes:
    return pack(Notification.of({"producer": "p", "id": id}))


names = st.sampled_from(["a", "b"])
heard = st.lists(st.tuples(st.sampled_from(["x = 1", "y > 2"]), st.sampled_from(["", "me"])), max_size=2)
changes = st.one_of(
    st.builds(Subscribed, names, names, st.sampled_from(["x = 1", "y > 2"]), st.integers(0, 9)),
    st.builds(Unsubscribed, names, st.sampled_from(["", "a", "b"])),
    st.builds(InterestsChanged, names, heard, heard, st.booleans()),
    st.builds(Linked, names, st.sampled_from(["", "fairlead://h:1"]), st.sampled_from(["", "l1", "l2"])),
    st.builds(Parting, names, st.sampled_from(["", "fairlead://h:1"])),
    st.builds(Unlinked, names),
    st.builds(Wanted, st.sampled_from(["fairlead://h:1", "fairlead://h:2"]), st.booleans()),
)


def parts_of(state: State) -> object:
    return (state.durables, state.neighbours, state.parting, state.wanted)


@given(st.lists(changes, max_size=12))
def test_a_state_is_what_its_changes_make_again(given: list[Change]) -> None:
    state, again = State(), State()
    for change in given:
        state.apply(change)
    for change in state.changes():
        again.apply(change)
    assert again.durables == {name: held for name, held in state.durables.items() if held}
    assert (again.neighbours, again.parting) == (state.neighbours, state.parting)
    assert (again.wanted, again.had_others) == (state.wanted, state.had_others)
    assert len(state) == len(list(state.changes()))


@given(
    st.lists(st.tuples(changes, st.sampled_from(["", "", "sync", "gather"])), max_size=12),
    st.integers(0, 999),
)
def test_after_a_power_failure_the_state_is_one_that_was_or_a_later_one(
    steps: list[tuple[Change, str]], seed: int
) -> None:
    disk = MemoryDisk()
    ledger = Ledger("d", disk)
    plain = State()
    safe, states = 0, [repr(parts_of(plain))]
    for change, then in steps:
        ledger.note(change, 0)
        plain.apply(change)
        states.append(repr(parts_of(plain)))
        if then:
            ledger.gather(0) if then == "gather" else ledger.log.sync()
            ledger.log.sync()
            safe = len(states) - 1
    disk.lose_power(Random(seed))
    with_power = Ledger("d", disk)
    assert without_empty(repr(parts_of(with_power.state))) in list(map(without_empty, states[safe:]))
    with_power.close()


def without_empty(text: str) -> str:
    """A durable subscriber without subscriptions is none: gathering forgets it."""
    for name in "ab":
        for end in (", ", ""):
            text = text.replace(f"'{name}': {{}}{end}", "")
    return text.replace(", }", "}")


def test_what_arrived_last_from_a_neighbour_is_remembered_with_it() -> None:
    disk = MemoryDisk()
    ledger = Ledger("d", disk)
    ledger.note(Linked("n", "", "their log"), 0)
    ledger.arrivals("n", [(wire.relay(n, wire.NO_STAMP, b"x")[5:], n) for n in (4, 9)], 0)
    ledger.publications_of([packed("own")], 0)
    ledger.close()
    again = Ledger("d", disk)
    assert again.state.neighbours["n"].received == 9
    assert again.identities == [("p", "own")]
    again.note(Linked("n", "", "another log"), 0)
    assert again.state.neighbours["n"].received == 0
    again.close()


def test_gathering_lets_the_log_forget_what_came_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledgers, "GATHERED_MIN", 10)
    disk = MemoryDisk()
    ledger = Ledger("d", disk, segment_bytes=500)
    for number in range(60):
        ledger.note(Subscribed("d", "s", f"x = {number}", 0), 0)
        ledger.log.sync()
    assert ledger.is_scattered
    assert ledger.retain(0, max_bytes=1) > 50
    ledger.close()
    again = Ledger("d", disk)
    assert again.state.durables == {"d": {"s": ("x = 59", 0)}}
    assert not again.is_scattered
    again.close()


def test_the_state_keeps_no_file_that_would_go_and_is_not_gathered_for_its_own_sake() -> None:
    ledger = Ledger("d", MemoryDisk(), segment_bytes=5_000)
    for number in range(40):
        ledger.note(Subscribed("d", f"s{number}", f"x = {number:0300}", 0), 0)
        ledger.publications_of([b"x" * 1_000], 0)
        ledger.log.sync()
    written = ledger.content
    assert ledger.retain(0, max_bytes=10**9) == 0
    assert ledger.content == written
    assert ledger.retain(0, max_bytes=10_000) >= written - 10
    gathered = ledger.content
    for _ in range(3):  # the state is in more files than one
        ledger.retain(0, max_bytes=1)
    assert ledger.content == gathered
    ledger.close()


def test_where_the_log_may_have_holes_is_known_after_gathering_and_opening_it_again() -> None:
    disk = MemoryDisk()
    ledger = Ledger("d", disk)
    ledger.publications_of([packed("one")], 0)
    assert ledger.parted == 0
    ledger.note(Linked("n", ""), 0)
    parted = ledger.note(Unlinked("n"), 0) + 1
    ledger.publications_of([packed("two")], 0)
    assert ledger.parted == parted
    ledger.gather(0)
    ledger.close()
    again = Ledger("d", disk)
    assert parted <= again.parted <= ledger.content
    again.close()


@pytest.mark.parametrize("forgotten", ["d", "n"])
def test_who_was_forgotten_keeps_nothing_though_the_power_failed_before_its_place_was_gone(
    forgotten: str,
) -> None:
    disk = MemoryDisk()
    ledger = Ledger("d", disk)
    for change in (Subscribed("d", "s", "x = 1", 0), Linked("n", "")):
        ledger.note(change, 0)
    ledger.log.cursors.update({"sub:d": 1, "link:n": 1})
    ledger.log.sync()
    ledger.note(Unsubscribed("d", "") if forgotten == "d" else Unlinked("n"), 0)
    ledger.log.sync()
    disk.lose_power(Random(0))
    again = Ledger("d", disk)
    left = {"d": "link:n", "n": "sub:d"}[forgotten]
    assert again.log.cursors.keys() == {"state", left}
    again.close()


def test_a_record_that_is_no_change_is_damage() -> None:
    disk = MemoryDisk()
    ledger = Ledger("d", disk)
    ledger.log.append(STATE, b"nonsense", 0)
    ledger.close()
    with pytest.raises(DamagedLog, match="record 2 is no change"):
        Ledger("d", disk)
    Ledger("e", disk).close()


def test_a_log_is_of_one_broker_and_every_opening_begins_an_incarnation() -> None:
    disk = MemoryDisk()
    first = Ledger("d", disk, broker="hub")
    first.publications_of([packed("one")], 0)
    first.close()
    second = Ledger("d", disk, broker="hub")
    assert second.identity == first.identity
    assert [each.first for each in second.lineage] == [1, 3]
    assert second.lineage[0] == first.lineage[0]
    second.gather(0)
    second.close()
    with pytest.raises(DamagedLog, match="this is the log of the broker 'hub', not of 'west'"):
        Ledger("d", disk, broker="west")
    third = Ledger("d", disk)
    assert third.lineage[:2] == second.lineage
    assert third.identity == first.identity
    third.close()


def test_an_older_log_has_its_identity_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "identity").write_text("0123", encoding="ascii")
    ledger = Ledger(tmp_path)
    assert ledger.identity == "0123"
    ledger.close()
    (tmp_path / "identity").unlink()
    ledger = Ledger(tmp_path)
    assert ledger.identity == "0123"
    ledger.close()


def test_on_a_full_disk_changes_are_taken_and_publications_refused() -> None:
    disk = MemoryDisk(room=4_020)
    ledger = Ledger("d", disk, reserve_bytes=1_000)
    ledger.note(Subscribed("d", "s", "x = 1", 0), 0)
    ledger.publications_of([packed(str(n)) for n in range(200)], 0)
    with pytest.raises(LogFull):
        ledger.log.sync()
    ledger.note(Unsubscribed("d", ""), 0)
    ledger.take_back(0)
    assert ledger.is_full
    ledger.log.sync()
    assert "d" not in ledger.state.durables
    with pytest.raises(LogFull, match="the disk is full"):
        ledger.publications_of([packed("more")], 0)
    disk.room = None
    ledger.publications_of([packed("more")], 0)
    ledger.synced(ledger.log.sync())
    assert not ledger.is_full
    ledger.close()
    assert "d" not in Ledger("d", disk).state.durables


def test_opening_a_log_takes_no_memory_for_payloads() -> None:
    disk = MemoryDisk()
    ledger = Ledger("d", disk)
    payload = pack(Notification.of({"producer": "p", "id": "large", "text": "x" * 100_000}))
    ledger.publications_of([payload] * 20, 0)
    ledger.close()
    again = Ledger("d", disk)
    assert again.identities == [("p", "large")] * 20
    again.close()
