"""The detectors that a broker hosts: clients in its process, with a file each beside its log (`broker.hosting`).

Who wants a query detected sends a request (`ASK`), which all hosts get; its home replies, and begins. A detector
is a durable subscriber to the events of its query. What it hears, and up to where it has looked, is on the disk
before a result is published, and its events are accepted in the log only then. So a host that was killed has lost
nothing: it reads its files, publishes once more what may not have been published, under the same ids, and gets the
events again that it had not accepted, of which it knows those that it has.

A detector looks as far as nothing earlier is on its way: it asks its broker, which answers behind all that any
broker had logged before (`network.cuts`). Its results are for everybody who subscribes to them. Who wants it asks
again from time to time; where nobody does, it ends. (Routing tables do not tell: a filter that says nothing of
producers overlaps with all results.)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fairlead.broker.hosting import ASK, HostedDetector, HostedQuery, home_of
from fairlead.errors import FairleadError, NetworkError
from fairlead.model import Notification
from fairlead.network import wire
from fairlead.network.client import Client, connect
from fairlead.network.journal import Journal
from fairlead.network.reports import DetectionStatus
from fairlead.network.roles import publish_all
from fairlead.network.subscriptions import Delivery, Subscription

if TYPE_CHECKING:
    from fairlead.network.settings import BrokerSettings

__all__ = ["Hosting", "hosting_of"]

log: Final = logging.getLogger(__name__)
DIRECTORY: Final = "detection"
NAME: Final = "detection@"
"""The beginning of the names of hosts' clients, and of their durable subscribers."""
TICK_S: Final = 0.25
"""The interval of looks at the clock while nothing comes."""
AGAIN_S: Final = 1.0
"""The time after which a detector that its broker refused something begins again."""


class _Hosted:
    """A detector at work, with its file."""

    def __init__(self, detector: HostedDetector, journal: Journal) -> None:
        self.detector, self.journal = detector, journal
        self.unpublished: list[Notification] = []
        """Results that may not have been published when the broker stopped."""
        self.task: asyncio.Task[None] | None = None
        self.is_ready = False
        """Whether every broker knows what it subscribes to: it misses nothing from now on."""
        self.expires_us = 0
        """The time up to which it goes on at least, for those who have asked."""

    @classmethod
    def begun(cls, query: HostedQuery, path: Path, lateness_us: int) -> _Hosted:
        """A new detector; what it is about is on the disk."""
        hosted = cls(HostedDetector(query, lateness_us), Journal(path))
        hosted.journal.replace(hosted.detector.snapshot())
        hosted.detector.journal = hosted.journal.write
        return hosted

    @classmethod
    def read(cls, path: Path, lateness_us: int) -> _Hosted | None:
        """The detector that was at work when the broker stopped; None where it had not begun."""
        journal = Journal(path)
        hosted = None
        made: list[Notification] = []
        done = 0
        for entry in journal.entries():
            if hosted is None:
                hosted = cls(HostedDetector(HostedQuery.from_json(entry["query"]), lateness_us), journal)
                done = entry["counts"][-1]
            if "done" in entry:
                done = entry["done"]
            hosted.expires_us = entry.get("kept", hosted.expires_us)
            made += hosted.detector.replay(entry)
        if hosted is None:
            journal.close()
            return None
        first = hosted.detector.results - len(made)
        hosted.unpublished = made[max(0, done - first) :]
        hosted.detector.journal = journal.write
        return hosted

    def keep(self, until: int) -> None:
        """Go on at least until a time."""
        if until > self.expires_us:
            self.expires_us = until
            self.journal.write({"kept": until})

    def published(self) -> None:
        """Note that all results so far are in the log of the broker."""
        self.journal.write({"done": self.detector.results})
        if self.journal.is_long:
            self.journal.replace({**self.detector.snapshot(), "kept": self.expires_us})


class Hosting:
    """The detectors of a broker."""

    def __init__(self, settings: BrokerSettings, directory: Path, now: Callable[[], int]) -> None:
        self._name, self._hosts = settings.name, settings.detectors
        self._lateness_us = round(settings.lateness_seconds * 1e6)
        self._linger_s, self._keep_s = settings.linger_seconds, settings.keep_detector_seconds
        self._now = now
        self._clock = now if settings.detection_clock else None
        self._directory = directory
        self._hosted: dict[str, _Hosted] = {}
        self._client: Client | None = None

    def _read(self) -> None:
        """Go on with the detectors that were at work when the broker stopped."""
        self._directory.mkdir(parents=True, exist_ok=True)
        for path in sorted(self._directory.glob("*.jsonl")):
            hosted = _Hosted.read(path, self._lateness_us)
            if hosted is not None:
                self._hosted[hosted.detector.query.key] = hosted
                hosted.keep(self._now() + round(self._linger_s * 1e6))  # nobody could ask while it was away

    def status(self) -> dict[str, DetectionStatus]:
        """The detectors here, by their keys."""
        return {
            key: {
                "query": str(each.detector.query.query),
                "events": each.detector.heard,
                "results": each.detector.results,
                "late": each.detector.late,
                "held": each.detector.held,
                "ready": each.is_ready,
            }
            for key, each in self._hosted.items()
        }

    async def run(self, url: str, settings: BrokerSettings, credentials: str) -> None:
        """Host detectors at the broker of this address, for as long as it runs."""
        name = f"{NAME}{self._name}"
        async with connect(
            url,
            name=name,
            tls=settings.tls,
            patience=None,
            credentials=credentials,
        ) as client:
            self._client = client
            try:
                self._read()
                for hosted in self._hosted.values():
                    self._begin(hosted)
                async with client.responding(f'type = "{ASK}"', self._answer):
                    while True:
                        await asyncio.sleep(min(self._linger_s / 4, 5.0))
                        await self._end_idle(client)
            finally:
                for hosted in self._hosted.values():
                    if hosted.task is not None:
                        hosted.task.cancel()
                    hosted.journal.close()
                client._abandon()  # the broker stops, and answers no more

    # -- what is asked for -------------------------------------------------------------------------------------

    def _answer(self, request: Notification) -> Mapping[str, Any] | None:
        """The reply to a request: from the home of its query, and from no other host."""
        try:
            query = HostedQuery.from_json(request.attributes)
        except FairleadError as error:
            return {"refused": str(error)}
        if home_of(query.key, self._hosts) != self._name:
            return None
        hosted = self._hosted.get(query.key)
        if hosted is None:
            path = self._directory / f"{query.key}.jsonl"
            hosted = self._hosted[query.key] = _Hosted.begun(query, path, self._lateness_us)
            self._begin(hosted)
        seconds = self._keep_s if request.get("durable", False) is True else self._linger_s
        hosted.keep(self._now() + round(seconds * 1e6))
        return {"host": self._name, "ready": hosted.is_ready, "linger": self._linger_s}

    def _begin(self, hosted: _Hosted) -> None:
        hosted.task = asyncio.ensure_future(self._detect(hosted))

    async def _end_idle(self, client: Client) -> None:
        """End the detectors that nobody needs any more."""
        for key, hosted in list(self._hosted.items()):
            if self._now() > hosted.expires_us:
                await self._end(client, key, hosted)

    async def _end(self, client: Client, key: str, hosted: _Hosted) -> None:
        assert hosted.task is not None
        del self._hosted[key]
        hosted.task.cancel()
        await asyncio.wait([hosted.task])
        hosted.journal.close()
        hosted.journal.path.unlink()
        await client.forget(f"{NAME}{key}")

    # -- at work -----------------------------------------------------------------------------------------------

    async def _detect(self, hosted: _Hosted) -> None:
        client, query = self._client, hosted.detector.query
        assert client is not None
        try:
            while True:
                try:
                    subscription = client.subscribe(query.wanted, durable=f"{NAME}{query.key}")
                    await self._publish(client, hosted, hosted.unpublished)
                    hosted.unpublished = []
                    await self._follow(client, hosted, subscription)
                except FairleadError as error:
                    log.warning("the detection of %s begins again: %s", query.query, error)
                    hosted.is_ready = False
                    await asyncio.sleep(AGAIN_S)
        except Exception:
            log.exception("the detection of %s has failed", query.query)
            raise

    async def _follow(self, client: Client, hosted: _Hosted, subscription: Subscription) -> None:
        """Hear what comes, look as far as all has come, and publish what is found."""
        detector = hosted.detector
        installing = asyncio.ensure_future(subscription.installed())
        arriving: asyncio.Task[Delivery] | None = None
        asking: asyncio.Task[int] | None = None
        try:
            while True:
                if arriving is None:
                    arriving = asyncio.ensure_future(subscription.delivery())
                bound = detector.due(None if self._clock is None else self._clock())
                if asking is None and bound is not None and hosted.is_ready:
                    asking = asyncio.ensure_future(_reached(client, subscription, bound))
                awaited: list[asyncio.Future[Any]] = [arriving]
                awaited += [] if asking is None else [asking]
                awaited += [] if hosted.is_ready else [installing]
                timeout = None if self._clock is None else TICK_S
                await asyncio.wait(awaited, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                if installing.done():
                    installing.result()
                    hosted.is_ready = True
                taken: list[Delivery] = []
                if arriving.done():
                    taken.append(arriving.result())
                    arriving = None
                taken += subscription.take_waiting()
                for delivery in taken:
                    detector.hear(delivery.notification, delivery.ordinal)
                results: list[Notification] = []
                if asking is not None and asking.done():
                    reached, asking = asking.result(), None
                    results = detector.advance(reached)
                if taken or results:
                    await asyncio.to_thread(hosted.journal.sync)
                await self._publish(client, hosted, results)
                for delivery in taken:
                    await delivery.accept()
                for failure in detector.take_failures():
                    log.warning("a filter failed on the event %s: %s", failure.notification.id, failure.error)
        finally:
            for each in (installing, arriving, asking):
                if each is not None:
                    each.cancel()

    async def _publish(self, client: Client, hosted: _Hosted, results: Sequence[Notification]) -> None:
        """Publish results, which follow from entries that are on the disk."""
        if results:
            await publish_all(client, results, f"the detection of {hosted.detector.query.query}")
            hosted.published()


async def _reached(client: Client, subscription: Subscription, bound: int) -> int:
    """A bound, when all that was logged anywhere before this call has been handed over."""
    await client._request(lambda number: wire.Cut(number, subscription.durable, subscription.id))
    return bound


def hosting_of(settings: BrokerSettings, now: Callable[[], int]) -> Hosting:
    """The detectors of a host. NetworkError where it has no log."""
    if settings.data is None:
        raise NetworkError(
            f"[detection] hosts: {settings.name} has no log",
            hint="a detector goes on from the log where it was: name brokers that have one",
        )
    return Hosting(settings, Path(settings.data) / DIRECTORY, now)
