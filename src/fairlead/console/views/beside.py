"""Work beside the event loop: a few pieces at a time, each for so long and no longer."""

from __future__ import annotations

import asyncio
import ctypes
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar, cast

from fairlead.console.problems import Problem

__all__ = ["PATIENCE_S", "Beside"]

T = TypeVar("T")
BUSY_MAX: Final = 2
"""So many pieces of work are done at once; others wait."""
WAITING_MAX: Final = 20
"""So many wait; more are refused."""
PATIENCE_S: Final = 5.0
"""For so much processor time a text is looked at."""
AGAIN_S: Final = 0.25
SLOWER: Final = 10
"""So many times slower than an idle machine one may be."""


class _TooLong(BaseException):
    """Ends the work of a thread, wherever it is."""


class Beside:
    """Runs work on threads that end with the process."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._free = asyncio.Semaphore(BUSY_MAX)
        self._waiting = 0

    async def run(self, work: Callable[[], T]) -> T:
        """The result of some work; Problem, where too much is waiting, or the work takes too long.

        Work that takes too long is ended: a thread that went on would take the place of others, and processor time
        from the broker. It ends at its next step in Python, and its place is free when it has.
        """
        if self._waiting >= WAITING_MAX:
            raise Problem(503, "too many texts are being looked at", headers={"Retry-After": "1"})
        self._waiting += 1
        try:
            await self._free.acquire()
            task = _Task(work, self._free.release)
            while not task.result.done():
                await asyncio.wait((task.result,), timeout=min(AGAIN_S, self._patience_s))
                if not task.result.done() and task.seconds > self._patience_s:
                    task.end()
                    said = f"this takes longer than {self._patience_s:g} seconds, and was ended"
                    raise Problem(422, said)
            return cast(T, task.result.result())
        except RecursionError:
            raise Problem(413, "this is too deeply nested") from None
        finally:
            self._waiting -= 1


class _Task:
    """Work on a thread of its own, which can be ended."""

    def __init__(self, work: Callable[[], object], over: Callable[[], object]) -> None:
        self._work, self._over = work, over
        self._loop = asyncio.get_running_loop()
        self.result: asyncio.Future[object] = self._loop.create_future()
        self.result.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may wait
        self._lock = threading.Lock()
        """Held by who ends the work, and by the thread where it is done: then it is too late to end it."""
        self._is_done = False
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="fairlead-console", daemon=True)
        self._thread.start()

    @property
    def seconds(self) -> float:
        """The processor time of the work, or where it only waits, part of the time that has passed: a machine with
        much else to do is no reason to end it."""
        passed = (time.monotonic() - self._began) / SLOWER
        with self._lock:
            if self._is_done or self._thread.ident is None:
                return 0.0
            if not hasattr(time, "pthread_getcpuclockid"):  # macOS
                return passed * SLOWER
            return max(passed, time.clock_gettime(time.pthread_getcpuclockid(self._thread.ident)))

    def end(self) -> None:
        """End the work, again and again until it is: some code catches whatever is raised."""
        with self._lock:
            if self._is_done or self._thread.ident is None:
                return
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self._thread.ident), ctypes.py_object(_TooLong)
            )
        self._loop.call_later(AGAIN_S, self.end)

    def _run(self) -> None:
        outcome: tuple[object, BaseException | None] = None, TimeoutError()
        try:
            try:
                outcome = self._work(), None
            except Exception as error:
                outcome = None, error
            with self._lock:
                self._is_done = True
        except _TooLong:
            self._is_done = True
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._settle, *outcome)

    def _settle(self, value: object, error: BaseException | None) -> None:
        self._over()
        if self.result.done():
            return
        if error is not None:
            self.result.set_exception(error)
        else:
            self.result.set_result(value)
