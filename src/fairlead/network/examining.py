"""Questions about the tables of a broker that may be large: a search, piece by piece, and the route of one event.

    find       the next rows of a search, from a position on; a piece takes a few hundredths of a second
    explain    where a notification would go from here, by which entries, and why the others do not match
    scopes     the scope graph in force, as statements and changes
    clients    who is connected

The law: what is asked changes nothing; a search from 0 to its end gives each entry that fits once, as long as no
subscription changes meanwhile; and `explain` names those who would get the notification if it came now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from fairlead.broker import Broker
from fairlead.errors import ValueRefused
from fairlead.filters import Filter
from fairlead.filters.algebra import algebra_for
from fairlead.filters.explain import explain
from fairlead.filters.glance import glance
from fairlead.filters.language import parse, render
from fairlead.model import Notification
from fairlead.model.encoding import notification_from_json, notification_to_json, parse_json
from fairlead.network.bounds import check_filter, check_text
from fairlead.network.reports import ChangeStatus, ClientReport, Finds, Hop, ScopesReport
from fairlead.routing import Entry, Interest
from fairlead.rules.integrated import MARK, BrokerScoping, unmarked

if TYPE_CHECKING:
    from fairlead.network.client_sessions import ClientSession
    from fairlead.network.router import Router
    from fairlead.network.settings import Limits

__all__ = ["Examination"]

PIECE: Final = 20_000
"""So much a piece of a search may cost, about in microseconds. Of that cost"""
PASSED, SCANNED, GLANCED, READ, COMPARED = 0.5, 0.5, 6.0, 10.0, 100.0
"""is an entry passed over, a text known already, a filter at a glance, a text to be made, two filters compared."""
ROWS_MAX: Final = 500
SHOWN_MAX: Final = 200
OTHERS_MAX: Final = 30
IDLE_US: Final = 120_000_000
"""For so long the list of entries is kept that nobody searches."""
CLIENTS: Final = ("c:", "d:")


class Examination:
    """The answers of one broker to questions about its tables."""

    def __init__(
        self,
        broker: Broker,
        router: Router,
        clients: Mapping[str, ClientSession],
        limits: Limits,
        *,
        is_logged: bool,
        clock: Callable[[], int],
    ) -> None:
        self._broker, self._router, self._clients, self._limits = broker, router, clients, limits
        self._is_logged, self._clock = is_logged, clock
        self._lists: dict[str, tuple[int, list[Entry]]] = {}
        """Entries in a fixed order, by whose they are, each list with the version of the tables."""
        self._texts: dict[Interest, str] = {}
        """The subscriptions of entries as text, which takes longer than the search."""
        self._used_at = 0

    def tick(self, now: int) -> None:
        """From time to time: forget what nobody has asked for lately."""
        if self._lists and now - self._used_at > IDLE_US:
            self._lists.clear()
            self._texts.clear()

    # -- search ------------------------------------------------------------------------------------------------

    def find(self, about: str) -> Finds:
        """The next rows of a search: `how` (text, covering, covered, never, all), `text`, `whose` (clients, all),
        `to` or `beside` one destination, `at` a position, with `room` for so many rows."""
        given = _object(about)
        how, text = str(given.get("how", "text")), str(given.get("text", ""))
        whose, at = str(given.get("whose", "clients")), _number(given, "at", 0)
        room = min(_number(given, "room", 50), ROWS_MAX)
        self._used_at = self._clock()
        entries = self._listed(whose, at)
        judge = self._judge(how, text)
        if how == "covering":
            entries = self._possible(text, whose, entries)
        to, beside = given.get("to"), given.get("beside")
        rows: list[list[str]] = []
        spent, end = 0.0, at
        while end < len(entries) and spent < PIECE and len(rows) < room:
            entry = entries[end]
            end += 1
            if (to is not None and entry[1] != to) or entry[1] == beside:
                spent += PASSED
                continue
            fits, cost = judge(entry)
            spent += cost
            if fits:
                rows.append([self._text(entry), entry[1]])
        return {"rows": rows, "at": end, "total": len(entries), "over": end >= len(entries)}

    def _listed(self, whose: str, at: int) -> list[Entry]:
        """The entries in an order that stays: a search that goes on finds the list that it began with, unless
        another one has begun since the tables changed."""
        version = self._router.version
        known = self._lists.get(whose)
        if known is None or (at == 0 and known[0] != version):
            found = [
                entry for entry in self._broker.entries if whose == "all" or entry[1].startswith(CLIENTS)
            ]
            known = self._lists[whose] = version, found
            if len(self._texts) > 2 * len(found) + 1_000:
                self._texts.clear()
        return known[1]

    def _text(self, entry: Entry) -> str:
        interest = entry[0]
        text = self._texts.get(interest)
        if text is None:
            text = self._texts[interest] = render(self._filter(entry))
        return text

    def _filter(self, entry: Entry) -> Filter:
        """The subscription that an entry is for."""
        seam = self._broker.seam
        return seam.undeclare(entry[0].filter) if seam.declares else entry[0].filter

    def _judge(self, how: str, text: str) -> Callable[[Entry], tuple[bool, float]]:
        """Whether an entry fits, and what it has cost to say so. ValueRefused, FilterSyntaxError."""
        make = self._JUDGES.get(how)
        if make is None:
            raise ValueRefused(f"no search {how!r}; there are {', '.join(self._JUDGES)}")
        return make(self, text)

    def _by_text(self, text: str) -> Callable[[Entry], tuple[bool, float]]:
        wanted, texts = text.strip().casefold(), self._texts

        def judge(entry: Entry) -> tuple[bool, float]:
            cost = SCANNED if entry[0] in texts else READ
            return wanted in self._text(entry).casefold() or wanted in entry[1].casefold(), cost

        return judge

    def _by_covering(self, text: str) -> Callable[[Entry], tuple[bool, float]]:
        schema = self._broker.catalogue.schema
        algebra, asked = algebra_for(schema), self._read(text)
        normal = algebra.normal(asked)
        return lambda entry: (algebra.covers(self._filter(entry), normal), COMPARED)

    def _by_covered(self, text: str) -> Callable[[Entry], tuple[bool, float]]:
        schema = self._broker.catalogue.schema
        algebra, asked = algebra_for(schema), self._read(text)
        normal = algebra.normal(asked)
        may_cover = glance(asked) if schema is None else lambda _: True

        def judge(entry: Entry) -> tuple[bool, float]:
            filter = self._filter(entry)
            return (False, GLANCED) if not may_cover(filter) else (algebra.covers(normal, filter), COMPARED)

        return judge

    def _read(self, text: str) -> Filter:
        """The filter of a question, with the limits of any filter of a client."""
        check_text(text, self._limits)
        filter = parse(text, self._broker.catalogue.schema)
        check_filter(filter, self._limits)
        return filter

    def _by_never(self, text: str) -> Callable[[Entry], tuple[bool, float]]:
        contains, clients = self._by_text(text), self._broker.clients

        def judge(entry: Entry) -> tuple[bool, float]:
            filter, destination = self._filter(entry), entry[1]
            if destination not in clients or not clients.has(destination, filter):
                return False, PASSED
            return (False, PASSED) if clients.has_matched(destination, filter) else contains(entry)

        return judge

    _JUDGES: Final[dict[str, Callable[[Examination, str], Callable[[Entry], tuple[bool, float]]]]] = {
        "text": _by_text,
        "covering": _by_covering,
        "covered": _by_covered,
        "never": _by_never,
    }

    def _possible(self, text: str, whose: str, entries: list[Entry]) -> list[Entry]:
        """The entries that may cover a filter: those that match a notification which the filter matches."""
        broker = self._broker
        schema = broker.catalogue.schema
        example = algebra_for(schema).witness(self._read(text))
        if example is None or broker.seam.declares:
            return entries
        tables = [broker.subscriptions]
        if broker.redundancy is not None:
            tables.append(broker.redundancy.others)
        return [
            entry
            for table in tables
            for entry in table.matched(example)
            if entry[1] != broker.name and (whose == "all" or entry[1].startswith(CLIENTS))
        ]

    # -- where a notification goes -----------------------------------------------------------------------------

    def explain(self, about: str) -> Hop:
        """The way of a notification from here: of `event`, with the neighbour it comes `from`; without one, it is
        published here. Of the entries that do not match, those of `who`, a part of a destination's name."""
        given = _object(about)
        source = str(given.get("from", ""))
        came = notification_from_json(given["event"])
        seam, now = self._broker.seam, self._clock()
        if source and source not in self._broker.links:
            raise ValueRefused(f"{source!r} is no neighbour of {self._broker.name}")
        carried = came if source else seam.foresee(came, now)
        route = seam.route(carried, source)
        shown = unmarked(carried) if MARK in carried.attributes else carried
        getting = {client for client, _ in route.clients} | {client for client, _, _ in route.versions}
        onward = {*route.neighbours}
        found = self._matched(carried)
        hits = [entry for entry in found if entry[1] != source]
        going = onward | getting
        who = str(given.get("who", ""))
        others = (
            each
            for each in self._broker.entries
            if who in each[1] and each[1] != source and each not in found
        )
        return {
            "broker": self._broker.name,
            "next": list(route.neighbours),
            "receivers": sorted(getting),
            "matching": [self._row(entry, shown, going) for entry in hits[:SHOWN_MAX]],
            "matches": len(hits),
            "others": [self._row(entry, shown, going) for entry in islice(others, OTHERS_MAX)],
            "rest": max(0, self._size(source) - len(hits)),
            "up": self._broker.parent if self._broker.parent in route.neighbours else "",
            "carried": notification_to_json(carried),
        }

    def _matched(self, carried: Notification) -> dict[Entry, None]:
        """The entries that some form of a notification matches."""
        found: dict[Entry, None] = {}
        redundancy = self._broker.redundancy
        for form in self._broker.seam.forms(carried, ""):
            found.update(dict.fromkeys(self._broker.subscriptions.matched(form.matched)))
            if redundancy is not None:
                others = redundancy.others.matched(form.matched)
                found.update(dict.fromkeys(each for each in others if each[1] != self._broker.name))
        return found

    def _size(self, source: str) -> int:
        """The number of entries but those of a neighbour."""
        broker, redundancy = self._broker, self._broker.redundancy
        if redundancy is not None:
            own = len(redundancy.others.of(broker.name)) + len(redundancy.others.of(source))
            return len(broker.subscriptions) + len(redundancy.others) - own
        return len(broker.subscriptions) - len(broker.subscriptions.of(source))

    def _row(self, entry: Entry, notification: Notification, going: set[str]) -> list[str]:
        return [self._text(entry), entry[1], self._why(entry, notification, going)]

    def _why(self, entry: Entry, notification: Notification, going: set[str]) -> str:
        """Why an entry matches a notification, or does not; or what keeps it from where it leads."""
        explanation = explain(self._filter(entry), notification)
        said = explanation.verdict.partition(": ")[2]
        destination = entry[1]
        if not explanation.holds or destination in going or not destination.startswith(CLIENTS):
            return said
        return "; but ".join(each for each in (said, "scopes or rights keep it from there") if each)

    # -- the broker --------------------------------------------------------------------------------------------

    def scopes(self) -> ScopesReport:
        """The scope graph in force, as it began and as it was changed."""
        rule = next((each for each in self._broker.seam.rules if isinstance(each, BrokerScoping)), None)
        if rule is None:
            return {"statements": "", "outsiders": "", "changes": [], "changeable": False, "there": False}
        changes: list[ChangeStatus] = [
            {"time": each.time, "id": each.id, "text": each.text, "void": rule.voids.get(each.id, "")}
            for each in rule.known
        ]
        found: ScopesReport = {
            "statements": rule.statements or "",
            "outsiders": rule.outsiders,
            "changes": changes,
            "changeable": self._is_logged,
            "there": True,
        }
        size = len(rule.statements or "") + sum(len(each.text) for each in rule.known)
        if 3 * size > self._limits.frame_bytes:
            raise ValueRefused(f"a scope graph of {size:,} characters is more than an answer holds")
        return found

    def clients(self) -> ClientReport:
        """The connected clients, those first for whom most is waiting, and the limits of the broker."""
        waiting = sorted(self._clients.values(), key=lambda each: (-len(each.backlog), each.name))
        return {
            "count": len(waiting),
            "clients": [
                {
                    "name": each.name,
                    "subscriptions": self._count(each.client),
                    "queued": len(each.backlog),
                    "inflow": str(each.inflow),
                    "outflow": str(each.outflow),
                    "durables": sorted(each.durables)[:ROWS_MAX],
                }
                for each in islice(waiting, SHOWN_MAX)
            ],
            "limits": {name: value for name, value in asdict(self._limits).items() if value is not None},
        }

    def _count(self, client: str) -> int:
        clients = self._broker.clients
        return len(clients[client].subscriptions.by_id) if client in clients else 0


def _object(about: str) -> Mapping[str, Any]:
    given = parse_json(about)
    if not isinstance(given, dict):
        raise ValueRefused("a question is a JSON object")
    return given


def _number(given: Mapping[str, Any], name: str, otherwise: int) -> int:
    value = given.get(name, otherwise)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueRefused(f"{name} is a number from 0, not {value!r:.40}")
    return value
