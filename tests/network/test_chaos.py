"""Twenty seconds of chaos: five brokers as processes, one seed; `make chaos` does it for ten minutes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from fairlead.cli import main as fairlead
from fairlead.log import Log, Reader
from fairlead_lab.chaos import SPECIFICATIONS
from fairlead_lab.chaos import __main__ as chaos
from fairlead_lab.chaos.harness import Round
from fairlead_lab.chaos.processes import truncate_unsynced
from fairlead_lab.chaos.proxy import Proxy
from fairlead_lab.chaos.schedule import FAULTS, Fault, schedule

SEED, SECONDS = 4, 20.0
WRONG = ("lost", "duplicated", "misdelivered", "out of order")


def test_nothing_that_was_acknowledged_is_lost_or_twice_or_out_of_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = chaos.run(SEED, tmp_path, SECONDS)
    assert report is not None
    assert report.holds, report
    assert report.tally.acknowledged > 100
    assert report.tally.delivered > report.tally.acknowledged / 2
    assert report.faults.total() == len(Round(SEED, tmp_path, SECONDS).schedule())
    for specification in SPECIFICATIONS:
        assert fairlead(["audit", str(tmp_path / "trace.jsonl"), "--spec", specification]) == 0
    assert "violated" not in capsys.readouterr().out


def faults_of(seed: int) -> list[Fault]:
    return schedule(seed, 60.0, brokers=["b"], links=["l"], producers=["p"], subscribers=["s"])


def test_the_same_seed_gives_the_same_schedule_and_every_fault_is_in_one() -> None:
    assert faults_of(1) == faults_of(1) != faults_of(2)
    assert {fault.kind for fault in faults_of(1)} == set(FAULTS)


def test_cutting_off_what_was_not_synced_leaves_what_was(tmp_path: Path) -> None:
    log = Log(tmp_path, buffer_bytes=1)
    for number in range(3):
        log.append(1, b"%d" % number, 0)
    log.sync()
    for number in range(3, 20):
        log.append(1, b"%d" % number, 0)  # written, since the buffer is small, and not synced
    log._disk.close(log._held)  # as if the process had been killed
    assert truncate_unsynced(tmp_path, Random(1)) > 0
    with Log(tmp_path):
        found = [record.payload for record in Reader(tmp_path)]
    assert found == [b"%d" % number for number in range(len(found))]
    assert 3 <= len(found) < 20


def test_a_table_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{chaos.BEGIN}\nthe one before\n{chaos.END}\nafter\n")
    chaos.write(page, [], 15.0)
    text = page.read_text()
    assert "the one before" not in text
    assert "| **lost** | 0 |" in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    page.write_text("no place")
    with pytest.raises(ValueError, match="no place for the table"):
        chaos.write(page, [], 15.0)


def test_the_page_on_reliability_tells_of_a_run_in_which_nothing_went_wrong() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reliability.md").read_text(encoding="utf-8")
    table = page.partition(chaos.BEGIN)[2].partition(chaos.END)[0]
    assert [table.count(f"| **{what}** | 0 |") for what in WRONG] == [1] * len(WRONG)
    assert [kind for kind in FAULTS if f"| {kind} | 0 |" in table] == []


# -- the proxy -----------------------------------------------------------------------------------------------


async def through_a_proxy() -> None:
    """An echo behind a proxy, and what each fault does to it."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(100):
            writer.write(chunk)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    proxy = Proxy(server.sockets[0].getsockname()[1], Random(1))
    await proxy.start()

    async def connected() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", proxy.port)

    reader, writer = await connected()
    writer.write(b"one")
    assert await reader.readexactly(3) == b"one"

    proxy.hold()
    writer.write(b"two")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.readexactly(3), 0.05)
    proxy.heal()
    assert await reader.readexactly(3) == b"two"

    proxy.flip()
    writer.write(bytes(5))
    flipped = await reader.readexactly(5)
    assert sum(each.bit_count() for each in flipped) == 1

    proxy.forge(b"forged")
    writer.write(b"whole")
    assert await reader.readexactly(11) in (b"wholeforged", b"forgedwhole")  # on the way there, or back

    proxy.tear()
    writer.write(b"three")
    assert len(await _rest(reader)) < 5
    writer.close()

    proxy.part()
    reader, writer = await connected()
    assert await _rest(reader) == b""
    writer.close()
    proxy.heal()

    reader, writer = await connected()
    proxy.silence()
    writer.write(b"four")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.readexactly(1), 0.05)
    proxy.heal()
    assert await _rest(reader) == b""
    writer.close()

    await proxy.stop()
    server.close()


async def _rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await asyncio.wait_for(reader.read(), 5.0)
    except ConnectionError:
        return b""


def test_a_proxy_holds_tears_parts_and_silences() -> None:
    asyncio.run(through_a_proxy())
