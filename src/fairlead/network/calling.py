"""The addresses that a broker calls; and of a link that is not up, why, and since when.

A client that requests a link gets one answer: that the link is up, that it is refused, or that it waits, and for
what. A broker that is away is called until it answers, also after a restart. A broker that refuses is not called
again, unless it was called before any client requested it: its reasons may pass. A stranger at the address of a
neighbour does not become a neighbour: it would get what is meant for the other one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from fairlead.errors import NetworkError, ProtocolError
from fairlead.network import wire
from fairlead.network.addresses import Address
from fairlead.network.client_sessions import ClientSession
from fairlead.network.destinations import Link
from fairlead.network.dispatch import Dispatch
from fairlead.network.ledger import Wanted
from fairlead.network.newcomers import Absence, Newcomers
from fairlead.network.persistence import Persistence
from fairlead.network.reports import Absent, Waiting

__all__ = ["Calling", "Clock"]

ANSWER_US: Final = 3_000_000
"""The time a link may take to come up before the client that requested it is answered that it waits."""
CALLED: Final = "it has not answered yet"


@dataclass(slots=True)
class Clock:
    """The time when the node was last driven, in microseconds: a node has no clock of its own."""

    now: int


@dataclass(frozen=True, slots=True)
class _Request:
    session: ClientSession
    number: int
    until: int
    fresh: bool
    """Whether the broker is called because of this."""


class Calling:
    """The addresses that a broker calls, and what became of each call."""

    def __init__(
        self,
        broker: str,
        *,
        links: Mapping[str, Link],
        persistence: Persistence,
        dispatch: Dispatch,
        newcomers: Newcomers,
        clock: Clock,
    ) -> None:
        self._broker, self._links, self._persistence = broker, links, persistence
        self._dispatch, self._newcomers, self._clock = dispatch, newcomers, clock
        self.calls: dict[str, str] = {}
        """The addresses, each with the name of the broker there, once that is known."""
        self.settle: Callable[[Callable[[], None]], None] = lambda then: then()
        """Does something when all brokers know of the links that there are."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when the addresses have changed."""
        self.wanted: set[str] = set()
        """The addresses that somebody has asked this broker to call."""
        self._absences: dict[str, Absence] = {}
        """By the name of the neighbour; by the address, as long as it is none."""
        self._requests: dict[str, list[_Request]] = {}

    def recall(self) -> None:
        """Call the brokers that were to be linked before the restart."""
        for url in self._persistence.state.wanted:
            self.call(url)

    # -- who is called -----------------------------------------------------------------------------------------

    def call(self, url: str, expects: str = "") -> None:
        """Call a broker, of this name if one is given, and stay linked with it; NetworkError: it is no address."""
        Address.parse(url)
        self.wanted.add(url)
        if url not in self.calls:
            self.calls[url] = expects
            if expects not in self._links:
                self.absent(url, CALLED, self._clock.now)

    def ask(self, session: ClientSession, number: int, url: str, now: int) -> None:
        """Call a broker on behalf of a client. The client gets a response when the link is up or has failed."""
        Address.parse(url)
        if self._is_up(self.calls.get(url, "")):
            session.tell(wire.Response(number, {"neighbour": self.calls[url], "waits": ""}))
            return
        fresh = url not in self.calls
        if self.calls.get(url, "") not in self._links and url not in self._persistence.state.wanted:
            self._persistence.note(Wanted(url, True), now)
        self.call(url)
        self._requests.setdefault(url, []).append(_Request(session, number, now + ANSWER_US, fresh))
        self.on_change()

    def forget(self, name: str, now: int) -> None:
        """Call the broker of this name no more."""
        self._absences.pop(name, None)
        for url in [url for url, called in self.calls.items() if called == name]:
            self._hang_up(url, now)

    def hang_up(self, given: str, now: int) -> bool:
        """Stop calling the broker at this address or of this name, unless it is a neighbour. True if it was
        called."""
        urls, parting = _urls_of(given), self._persistence.state.parting
        ended = [
            url
            for url, name in self.calls.items()
            if (url in urls or name == given) and name not in self._links and name not in parting
        ]
        for url in ended:
            self._hang_up(url, now)
        return bool(ended)

    def neighbour_at(self, given: str) -> str:
        """The neighbour that has this address, as far as is known; or nothing."""
        urls = _urls_of(given)
        return next((name for name in self._links if self.url_of(name) in urls), "")

    def url_of(self, name: str) -> str:
        """The address of a neighbour, as far as it is known: where this side calls it, or which it has
        declared."""
        link = self._links[name]
        declared = "" if link.session is None else link.session.url
        called = (url for url, each in self.calls.items() if each == name)
        return self._persistence.state.neighbours[name].url or declared or next(called, "")

    def keep_none(self, now: int) -> None:
        """Cancel all calls, whichever client requested them."""
        for url in [*self._persistence.state.wanted, *self.calls]:
            self._hang_up(url, now)

    def _hang_up(self, url: str, now: int) -> None:
        self._refuse(url, "this link has been ended")
        self.wanted.discard(url)
        self._absences.pop(url, None)
        self.calls.pop(url, None)
        if url in self._persistence.state.wanted:
            self._persistence.note(Wanted(url, False), now)

    # -- who answers -------------------------------------------------------------------------------------------

    def check(self, url: str, name: str) -> None:
        """ProtocolError, if a stranger answers at the address of a neighbour; another neighbour may have moved."""
        expected = self._expected(url)
        if expected not in ("", name) and name not in self._links:
            raise ProtocolError(
                f"{name!r} is not {expected!r}, with which {self._broker!r} is linked at this address; if"
                f" {expected!r} will not be back there, unlink it first"
            )

    def reached(self, url: str, name: str, *, was_up: bool) -> None:
        """A neighbour is at an address. If it was away, it may have left its earlier addresses: the brokers there
        now are called. (A neighbour that is up may have several addresses.)"""
        self.calls[url] = name
        others = [] if was_up else [each for each in self._urls(name) if each != url]
        for other in others:
            if other in self.wanted:
                self.calls[other] = ""
                self.absent(other, CALLED, self._clock.now)
            else:
                del self.calls[other]
        if others:
            self.on_change()

    def answers(self, url: str, name: str) -> None:
        """The broker at an address refuses this one: it need not be called as long as it has called."""
        if url in self.calls and not self._expected(url):
            self.calls[url] = name

    def _expected(self, url: str) -> str:
        """The neighbour at an address, or who was one and has to be told so, unless whoever is there is wanted."""
        name = self.calls.get(url, "")
        is_leaving = name in self._persistence.state.parting and url not in self.wanted
        return name if name in self._links or is_leaving else ""

    # -- what becomes of it ------------------------------------------------------------------------------------

    def unreached(self, url: str, reason: str, now: int) -> None:
        """A broker that was called cannot be reached: call it again, and answer the clients that wait for it."""
        name = self.calls.get(url, "")
        self.absent(name if name in self._links else url, reason, now)
        self._tell_waiting(url, reason)

    def refused(self, url: str, reason: str, now: int) -> None:
        """A broker that was called does not take this one, or is not taken."""
        name = self.calls.get(url, "")
        if self._is_up(name):
            self.linked(name)  # it has called, too
            return
        self.absent(name if name in self._links else url, reason, now)
        fresh = any(each.fresh for each in self._requests.get(url, ()))
        self._refuse(url, reason)
        if fresh:
            self._hang_up(url, now)
            self.on_change()

    def given_up(self, name: str, reason: str, now: int) -> None:
        """A link is not to be."""
        for url in self._urls(name):
            self._refuse(url, reason)
        self.forget(name, now)

    def linked(self, name: str) -> None:
        """A link is up: answer the clients that requested it when it is in effect everywhere."""
        for url in self._urls(name):
            for each in self._requests.pop(url, ()):
                answer = wire.Response(each.number, {"neighbour": name, "waits": ""})
                self.settle(partial(self._tell, each, answer))
            self._absences.pop(url, None)
        self._absences.pop(name, None)

    def absent(self, key: str, reason: str, now: int) -> None:
        """The absence of a neighbour, or of the broker at an address, since it was first noticed."""
        before = self._absences.get(key)
        self._absences[key] = Absence(reason, now if before is None else before.since)

    def tick(self, now: int) -> None:
        """From time to time: answer clients that have waited too long."""
        for url, requests in list(self._requests.items()):
            if any(now >= each.until for each in requests):
                self._tell_waiting(url, self._absence(url).reason)

    def _tell_waiting(self, url: str, reason: str) -> None:
        requests = self._requests.pop(url, [])
        answer = {"neighbour": self.calls.get(url, ""), "waits": reason}

        def tell() -> None:
            for each in requests:
                self._tell(each, wire.Response(each.number, answer))

        if not self._persistence.is_logged:
            tell()
        elif requests:
            self._dispatch.after_sync(tell)  # it is called after a restart, too: so that has to be safe

    def _refuse(self, url: str, reason: str) -> None:
        for each in self._requests.pop(url, ()):
            self._tell(each, wire.Refused(each.number, f"{url}: {reason}"))

    def _tell(self, request: _Request, answer: wire.Control) -> None:
        if not request.session.ended:
            request.session.tell(answer)

    def _urls(self, name: str) -> list[str]:
        return [url for url, called in self.calls.items() if called == name]

    def _is_up(self, name: str) -> bool:
        link = self._links.get(name)
        return link is not None and link.ready

    # -- what is said of it ------------------------------------------------------------------------------------

    def of_link(self, name: str) -> Absent | None:
        """Why a neighbour's link is not up, and since when; None where it is."""
        absence = self._newcomers.unsure().get(name) or self._absences.get(name)
        return None if absence is None else absence.to_json()

    def waiting(self) -> dict[str, Waiting]:
        """The brokers that are called, or have called, and are no neighbours yet, by their addresses."""
        unsure = self._newcomers.unsure()
        found: dict[str, Waiting] = {
            url: {"neighbour": name, **self._absence(url).to_json()}
            for url, name in self.calls.items()
            if name not in self._links and name not in self._persistence.state.parting
        }
        for name, session in self._newcomers.sessions.items():
            if name not in self._links and not session.opened:
                found.setdefault(session.url or name, {"neighbour": name, **unsure[name].to_json()})
        return found

    def _absence(self, url: str) -> Absence:
        absence = self._absences.get(url) or Absence(CALLED, self._clock.now)
        unsure = self._newcomers.unsure().get(self.calls.get(url, ""))
        return absence if unsure is None else Absence(unsure.reason, absence.since)


def _urls_of(given: str) -> set[str]:
    """An address as it was given, and as it is written."""
    with contextlib.suppress(NetworkError):
        return {given, str(Address.parse(given))}
    return {given}
