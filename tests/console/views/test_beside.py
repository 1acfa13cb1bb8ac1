"""Work beside the loop: a few pieces at once, and what takes too long is ended."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

import pytest

from fairlead.console.problems import Problem
from fairlead.console.views.beside import BUSY_MAX, WAITING_MAX, Beside
from fairlead_lab.testing.brokers import PATIENCE_S


def test_what_takes_too_long_is_ended_and_its_place_is_free_again() -> None:
    ended = threading.Semaphore(0)

    def forever() -> None:
        try:
            while True:
                with suppress(Exception):  # as a reader might, who catches whatever is raised
                    sum(range(100))
        finally:
            ended.release()

    async def main() -> None:
        beside = Beside(patience_s=0.05)
        for _ in range(BUSY_MAX + 1):
            with pytest.raises(Problem, match="takes longer") as refused:
                await beside.run(forever)
            assert refused.value.status == 422
        for _ in range(BUSY_MAX + 1):
            assert await asyncio.to_thread(ended.acquire, timeout=PATIENCE_S)
        patient = Beside(patience_s=PATIENCE_S)
        assert await asyncio.gather(*(patient.run(lambda number=at: number) for at in range(9))) == [
            *range(9)
        ]

    asyncio.run(main())


def test_only_so_many_wait() -> None:
    go = threading.Event()

    async def main() -> None:
        beside = Beside(patience_s=PATIENCE_S)
        waiting = [asyncio.ensure_future(beside.run(lambda: go.wait(PATIENCE_S))) for _ in range(WAITING_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(Problem, match="too many"):
            await beside.run(lambda: None)
        go.set()
        assert all(await asyncio.gather(*waiting))

    asyncio.run(main())


def test_errors_of_the_work_are_those_of_the_caller() -> None:
    def deep() -> None:
        raise RecursionError

    async def main() -> None:
        beside = Beside()
        with pytest.raises(ZeroDivisionError):
            await beside.run(lambda: 1 / 0)
        with pytest.raises(Problem, match="nested"):
            await beside.run(deep)

    asyncio.run(main())
