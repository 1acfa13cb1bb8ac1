"""Whom a broker calls; and of a link that is not up, why, and since when.

Who asks for a link is answered once: that it is there, that it is refused, or that it waits, and for what. Who is
away is called until it answers, over restarts, too. Who refuses is not called again, unless it was called before
anybody asked: its reasons may pass. Who is not the neighbour that is known to be at an address is not linked with
there: it would take what is meant for another.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fairlead.errors import NetworkError, ProtocolError
from fairlead.model import Instant
from fairlead.network import wire
from fairlead.network.addresses import Address
from fairlead.network.ledger import Wanted

if TYPE_CHECKING:
    from fairlead.network.node import Node
    from fairlead.network.sessions import ClientSession

__all__ = ["Absence", "Calling"]

ANSWER_US: Final = 3_000_000
"""How long a link may take to come up before who asked for it is told that it waits."""
SECOND_US: Final = 1_000_000
CALLED: Final = "it has not answered yet"


@dataclass(frozen=True, slots=True)
class Absence:
    """Why a link is not up, and since when, in microseconds."""

    reason: str
    since: int

    def to_json(self) -> dict[str, str]:
        """For those who ask how the broker is."""
        return {"reason": self.reason, "since": str(Instant(self.since // SECOND_US * SECOND_US))}


@dataclass(frozen=True, slots=True)
class _Request:
    session: ClientSession
    number: int
    until: int
    fresh: bool
    """Whether the broker is called because of this."""


class Calling:
    """The addresses that a node calls, `node.calls`, and what became of each call."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.wanted: set[str] = set()
        """Where somebody has asked this broker to call."""
        self._absences: dict[str, Absence] = {}
        """By the name of the neighbour; by the address, as long as it is none."""
        self._requests: dict[str, list[_Request]] = {}

    def recall(self) -> None:
        """Call those whom somebody wanted to be called before."""
        for url in self._node.state.wanted:
            self.call(url)

    # -- who is called -----------------------------------------------------------------------------------------

    def call(self, url: str, expects: str = "") -> None:
        """Call a broker, of this name if one is given, and stay linked with it; NetworkError: it is no address."""
        Address.parse(url)
        self.wanted.add(url)
        if url not in self._node.calls:
            self._node.calls[url] = expects
            if expects not in self._node.links:
                self.absent(url, CALLED, self._node.now)

    def ask(self, session: ClientSession, number: int, url: str, now: int) -> None:
        """Call a broker because a client asks for it; it is answered when it is known what becomes of that."""
        node = self._node
        Address.parse(url)
        if self._is_up(node.calls.get(url, "")):
            session.tell(wire.Told(number, {"neighbour": node.calls[url], "waits": ""}))
            return
        fresh = url not in node.calls
        if node.calls.get(url, "") not in node.links and url not in node.state.wanted:
            node.note(Wanted(url, True), now)
        self.call(url)
        self._requests.setdefault(url, []).append(_Request(session, number, now + ANSWER_US, fresh))
        node.on_calls()

    def forget(self, name: str, now: int) -> None:
        """Call the broker of this name no more."""
        node = self._node
        self._absences.pop(name, None)
        for url in [url for url, called in node.calls.items() if called == name]:
            self._hang_up(url, now)

    def hang_up(self, given: str, now: int) -> bool:
        """Call no more who has this address or name, and is no neighbour; whether it was called."""
        node = self._node
        urls = _urls_of(given)
        found = [
            url
            for url, name in node.calls.items()
            if (url in urls or name == given) and name not in node.links and name not in node.state.parting
        ]
        for url in found:
            self._hang_up(url, now)
        return bool(found)

    def neighbour_at(self, given: str) -> str:
        """The neighbour that has this address, as far as is known; or nothing."""
        urls, neighbourhood = _urls_of(given), self._node.neighbourhood
        return next((name for name in self._node.links if neighbourhood.url_of(name) in urls), "")

    def keep_none(self, now: int) -> None:
        """Call nobody, whoever wanted it."""
        for url in [*self._node.state.wanted, *self._node.calls]:
            self._hang_up(url, now)

    def _hang_up(self, url: str, now: int) -> None:
        node = self._node
        self._refuse(url, "this link has been ended")
        self.wanted.discard(url)
        self._absences.pop(url, None)
        node.calls.pop(url, None)
        if url in node.state.wanted:
            node.note(Wanted(url, False), now)

    # -- who answers -------------------------------------------------------------------------------------------

    def check(self, url: str, name: str) -> None:
        """ProtocolError, if a stranger answers at the address of a neighbour; another neighbour may have moved."""
        expected = self._expected(url)
        if expected not in ("", name) and name not in self._node.links:
            raise ProtocolError(
                f"{name!r} is not {expected!r}, whom {self._node.name!r} is linked with at this address; if"
                f" {expected!r} will not be back there, unlink it first"
            )

    def found(self, url: str, name: str, *, was_up: bool) -> None:
        """A neighbour is at an address. If it was away, it may have left those at which it was before: whoever is
        there now is called. (One that is up may have several.)"""
        node = self._node
        node.calls[url] = name
        others = [] if was_up else [each for each in self._urls(name) if each != url]
        for other in others:
            if other in self.wanted:
                node.calls[other] = ""
                self.absent(other, CALLED, node.now)
            else:
                del node.calls[other]
        if others:
            node.on_calls()

    def answers(self, url: str, name: str) -> None:
        """Who is at an address does not take this broker: it need not be called as long as it has called."""
        if url in self._node.calls and not self._expected(url):
            self._node.calls[url] = name

    def _expected(self, url: str) -> str:
        """The neighbour at an address, or who was one and has to be told so, unless whoever is there is wanted."""
        node, name = self._node, self._node.calls.get(url, "")
        is_leaving = name in node.state.parting and url not in self.wanted
        return name if name in node.links or is_leaving else ""

    # -- what becomes of it ------------------------------------------------------------------------------------

    def unreached(self, url: str, reason: str, now: int) -> None:
        """A broker that was called is away: it is called again, and who asked is told."""
        name = self._node.calls.get(url, "")
        self.absent(name if name in self._node.links else url, reason, now)
        self._tell_waiting(url, reason)

    def refused(self, url: str, reason: str, now: int) -> None:
        """A broker that was called does not take this one, or is not taken."""
        name = self._node.calls.get(url, "")
        if self._is_up(name):
            self.linked(name)  # it has called, too
            return
        self.absent(name if name in self._node.links else url, reason, now)
        fresh = any(each.fresh for each in self._requests.get(url, ()))
        self._refuse(url, reason)
        if fresh:
            self._hang_up(url, now)
            self._node.on_calls()

    def given_up(self, name: str, reason: str, now: int) -> None:
        """A link is not to be."""
        for url in self._urls(name):
            self._refuse(url, reason)
        self.forget(name, now)

    def linked(self, name: str) -> None:
        """A link is up."""
        for url in self._urls(name):
            for each in self._requests.pop(url, ()):
                self._tell(each, wire.Told(each.number, {"neighbour": name, "waits": ""}))
            self._absences.pop(url, None)
        self._absences.pop(name, None)

    def absent(self, key: str, reason: str, now: int) -> None:
        """A neighbour, or whoever is at an address, is away: since the first time that is said."""
        before = self._absences.get(key)
        self._absences[key] = Absence(reason, now if before is None else before.since)

    def tick(self, now: int) -> None:
        """From time to time: nobody who asked waits for ever."""
        for url, requests in list(self._requests.items()):
            if any(now >= each.until for each in requests):
                self._tell_waiting(url, self._absence(url).reason)

    def _tell_waiting(self, url: str, reason: str) -> None:
        requests = self._requests.pop(url, [])
        answer = {"neighbour": self._node.calls.get(url, ""), "waits": reason}

        def tell() -> None:
            for each in requests:
                self._tell(each, wire.Told(each.number, answer))

        if self._node.ledger is None:
            tell()
        elif requests:
            self._node.dispatch.after_sync(tell)  # it is called after a restart, too: so that has to be safe

    def _refuse(self, url: str, reason: str) -> None:
        for each in self._requests.pop(url, ()):
            self._tell(each, wire.Refused(each.number, f"{url}: {reason}"))

    def _tell(self, request: _Request, answer: wire.Control) -> None:
        if not request.session.ended:
            request.session.tell(answer)

    def _urls(self, name: str) -> list[str]:
        return [url for url, called in self._node.calls.items() if called == name]

    def _is_up(self, name: str) -> bool:
        link = self._node.links.get(name)
        return link is not None and link.ready

    # -- what is said of it ------------------------------------------------------------------------------------

    def of_link(self, name: str) -> dict[str, str]:
        """Why a neighbour's link is not up, and since when; nothing where it is."""
        absence = self._node.neighbourhood.unsure().get(name) or self._absences.get(name)
        return {} if absence is None else absence.to_json()

    def waiting(self) -> dict[str, dict[str, Any]]:
        """Those who are called, or have called, and are no neighbours yet: by their addresses."""
        node, unsure = self._node, self._node.neighbourhood.unsure()
        found = {
            url: {"neighbour": name, **self._absence(url).to_json()}
            for url, name in node.calls.items()
            if name not in node.links and name not in node.state.parting
        }
        for name, session in node.fences.new.items():
            if name not in node.links and not session.opened:
                found.setdefault(session.url or name, {"neighbour": name, **unsure[name].to_json()})
        return found

    def _absence(self, url: str) -> Absence:
        absence = self._absences.get(url) or Absence(CALLED, self._node.now)
        unsure = self._node.neighbourhood.unsure().get(self._node.calls.get(url, ""))
        return absence if unsure is None else Absence(unsure.reason, absence.since)


def _urls_of(given: str) -> set[str]:
    """An address as it was given, and as it is written."""
    with contextlib.suppress(NetworkError):
        return {given, str(Address.parse(given))}
    return {given}
