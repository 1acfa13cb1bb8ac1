"""A destination that is behind reads on in the log until it has caught up, when it has a turn and room."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from fairlead.errors import DamagedLog, Gone
from fairlead.log import Reader
from fairlead.network.outflow import Step, To

if TYPE_CHECKING:
    from fairlead.network.destinations import Durable, Link
    from fairlead.network.dispatch import Dispatch
    from fairlead.network.ledger import Ledger
    from fairlead.network.sessions import Session

__all__ = ["CatchUp"]

PASSED_AT_ONCE: Final = 256
"""The number of records looked at in one turn for durable subscribers that are away."""


class CatchUp:
    """The destinations that are behind the log. Without a ledger there are none."""

    def __init__(self, ledger: Ledger | None, dispatch: Dispatch) -> None:
        self._ledger, self._dispatch = ledger, dispatch

    def read_on(self, outbox: Durable | Link) -> None:
        """Let an outbox that is behind read on when it is its turn; one with nothing left to read is live."""
        session = outbox.session
        if session is None or not outbox.ready:
            return
        outbox.hand_out()
        if outbox.live:
            return
        if self._ledger is None or outbox.looked >= self._dispatch.reached:
            outbox.catch_up()
        elif outbox.room > 0 and not session.is_full:
            session.wait_for_turn()

    def turn(self, outbox: Durable | Link, at_most: int) -> int:
        """Read on from the log while there is room, at most `at_most` records; returns the number of records
        read."""
        session: Session | None = outbox.session
        looked = 0
        while session is not None and not outbox.live and looked < at_most and not session.ended:
            if outbox.looked >= self._dispatch.reached or outbox.room <= 0 or session.is_full:
                break
            before = outbox.looked
            try:
                self._read_some(outbox, min(at_most - looked, outbox.room, self._dispatch.reached - before))
            except Gone as gone:  # retention was faster
                missed, outbox.looked = gone.first - outbox.looked, gone.first
                outbox.close()
                outbox.missed(missed)
            looked += outbox.looked - before
        self.read_on(outbox)
        return looked

    def pass_over(self, durables: Iterable[Durable], at_most: int = PASSED_AT_ONCE) -> None:
        """Let durable subscribers that are away pass records that are not for them, which need not be retained.

        One that has passed all is idle, and is told of the first record that is for it. So this is only needed for
        those that have not caught up before they went away, or since the broker was started.
        """
        for durable in durables:
            if at_most <= 0:
                return
            if self._ledger is None or durable.outflow.state is not To.AWAY:
                continue
            if durable.history is not None and durable.history.is_open:
                continue
            try:
                at_most -= self._pass_over(durable, min(at_most, self._dispatch.reached - durable.looked))
            except Gone as gone:
                durable.looked = gone.first
                durable.close()

    def _pass_over(self, durable: Durable, at_most: int) -> int:
        before = durable.looked
        if at_most > 0:
            reader = self._reader(durable)
            for record in reader.read_chunk(at_most):
                if durable.concerns(record):
                    durable.meet(record.offset)
                    durable.close()
                    return durable.looked - before + 1
            durable.looked = reader.offset
        if durable.looked >= self._dispatch.reached:
            durable.outflow.on(Step.PASS)
            durable.close()
        return durable.looked - before

    def _read_some(self, outbox: Durable | Link, at_most: int) -> None:
        """Send what concerns a destination of the next records, all of which have been sent on to others."""
        reader = self._reader(outbox)
        for record in reader.read_chunk(at_most):
            outbox.send_record(record)
        if reader.offset == outbox.looked:
            raise DamagedLog(f"the record {reader.offset} of the log was synced, and is missing")
        outbox.looked = reader.offset

    def _reader(self, outbox: Durable | Link) -> Reader:
        assert self._ledger is not None
        reader = outbox.reader()
        if reader is None or reader.offset != outbox.looked:
            # It does not look at the log's marks, which may be behind: what has been dispatched was synced.
            reader = self._ledger.reader(outbox.looked, *outbox.kinds, synced=False)
            outbox.reader(reader)
        return reader
