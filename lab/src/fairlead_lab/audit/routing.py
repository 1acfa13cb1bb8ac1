"""Valid routing, as programs that judge the routing tables of a state (book 4.3, 4.4, 4.5.6).

With N(A) for the notifications that some filter in A matches, S_Y for what client Y subscribes to, T for the
table of a broker, and K for the admin messages under way on a link, a state or a step keeps these rules:

    restricted change    a step for the source S changes T|S only (4.16, 4.17)
    restricted impact    and in a way that depends on T|S and the message only: T'|S = δ(T|S) (4.18, 4.19)
    local invariant      N(T|Y) = N(S_Y) (4.20)
    remote invariant     N(Δ(T_j|i, K)) ⊇ N(T_i\\j): once j has heard all, it forwards what i needs (4.21)
    nothing in vain      N(Δ(T_j|i, K)) ⊆ N(T_i\\j), unless filters are merged imperfectly (Lemmas 4.9 to 4.11)
    atomic change        what i needs before and after a step, j knows between the messages of it (4.5.4)
    forwarding           n goes to F_B(n) without its source, once to each (4.2.3)
    small tables         no two entries (F, H), (G, H) with F ≡ G; with covering, with F ⊒ G (4.5.6)

and, when no admin message is under way anywhere:

    remote validity      N(T_j|i) ⊇ N(T_i\\j); with advertisements, of what is advertised behind j (4.10)
    path validity        what Y subscribes to passes every link on the way to Y, from any broker (4.7, 4.8)

That a set of filters lets through all that another asks for is decided by the algebra. Where the algebra says
no, a notification is looked for that shows it: with one it is a breach, without one it is undecided, and
counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from fairlead.filters.algebra import algebra_for
from fairlead.filters.filter import And, Filter, Or
from fairlead.filters.schema import Schema
from fairlead.matching import engine_named
from fairlead.model import Notification
from fairlead.routing import Catalogue, Covering, Identity, Interest, RoutingTable, Strategy

__all__ = ["RULES", "Breach", "Change", "Judge", "Part", "delta", "part_of", "parts_of"]

RULES: Final = (
    "restricted change",
    "restricted impact",
    "local invariant",
    "remote invariant",
    "nothing in vain",
    "atomic change",
    "forwarding",
    "small tables",
    "remote validity",
    "path validity",
)
Change: TypeAlias = tuple[Sequence[Interest], Sequence[Interest]]
"""admin(S, U): what is added, what is removed."""


@dataclass(frozen=True, slots=True)
class Part:
    """T|D, and of which interests the mergers in it are made."""

    interests: tuple[Interest, ...] = ()
    mergers: tuple[tuple[Interest, tuple[Interest, ...]], ...] = ()

    @property
    def filters(self) -> list[Filter]:
        """The filters of the interests."""
        return [interest.filter for interest in self.interests]

    def is_same(self, other: Part) -> bool:
        """The same sets, in whatever order."""
        return {*self.interests} == {*other.interests} and self._made_of() == other._made_of()

    def _made_of(self) -> dict[Interest, set[Interest]]:
        return {merger: {*parts} for merger, parts in self.mergers}

    def __str__(self) -> str:
        return "{" + ", ".join(map(str, self.interests)) + "}"


def part_of(table: RoutingTable, destination: str) -> Part:
    """T|D, as it is now."""
    mergers = table.mergers.get(destination, {})
    return Part(
        tuple(table.of(destination)), tuple((merger, tuple(parts)) for merger, parts in mergers.items())
    )


def parts_of(table: RoutingTable) -> dict[str, Part]:
    """The whole table as it is now, by destination."""
    return {destination: part_of(table, destination) for destination in table.destinations_with_entries()}


def delta(
    strategy: Strategy, catalogue: Catalogue, part: Part, source: str, change: Change, *, is_neighbour: bool
) -> Part:
    """δ(T|S, m): what becomes of T|S where it is all that the table holds."""
    table = RoutingTable(catalogue)
    if is_neighbour:
        table.add_neighbour(source)
    for interest in part.interests:
        table.add(interest, source)
    if part.mergers:
        table.mergers[source] = {merger: dict.fromkeys(parts) for merger, parts in part.mergers}
    strategy.administer(table, source, *change)
    result = part_of(table, source)
    table.remove_all(result.interests, source)  # nobody holds them any longer
    return result


@dataclass(frozen=True, slots=True)
class Breach:
    """A rule that is broken, where and how, and where there is one, a notification that shows it."""

    rule: str
    what: str
    shown_by: Notification | None = None

    def __str__(self) -> str:
        shown = "" if self.shown_by is None else f"; shown by {dict(self.shown_by.attributes)}"
        return f"{self.rule}: {self.what}{shown}"


class Judge:
    """Judges states and steps. It keeps nothing of them but answers that it may need again."""

    def __init__(self, schema: Schema | None = None) -> None:
        self.catalogue = Catalogue(engine_named("brute"), schema, keep=True)
        self.undecided: Counter[str] = Counter()
        """By rule, how many questions the algebra could not answer."""
        self._algebra = algebra_for(schema)
        self._answers: dict[tuple[Filter, frozenset[Filter]], tuple[bool, Notification | None]] = {}

    # -- N(A) ⊇ N(F) ---------------------------------------------------------------------------------------

    def missing(self, rule: str, needed: Filter, served: Iterable[Filter]) -> Notification | None:
        """A notification that is asked for and that nothing served matches; None where none is found."""
        outer = dict.fromkeys(served)
        if needed in outer:
            return None
        key = (needed, frozenset(outer))
        if key not in self._answers:
            self._answers[key] = self._answer(needed, outer)
        decided, shown = self._answers[key]
        self.undecided[rule] += not decided
        return shown

    def _answer(self, needed: Filter, served: Iterable[Filter]) -> tuple[bool, Notification | None]:
        number = self._number(needed)
        if not self.catalogue.covering(number).isdisjoint(map(self._number, served)):
            return True, None
        union = Or.of(served)
        if self._algebra.covers(union, needed):
            return True, None
        shown = self._algebra.witness(needed, but_not=union)
        if shown is None or not needed.matches(shown) or union.matches(shown):
            return False, None
        return True, shown

    def _number(self, filter: Filter) -> int:
        return self.catalogue.number(Interest(filter))

    # -- every step ----------------------------------------------------------------------------------------

    def restricted_change(
        self, broker: str, source: str | None, before: Mapping[str, Part], after: Mapping[str, Part]
    ) -> Iterator[Breach]:
        """Only T|S changes; without a source, nothing does."""
        nothing = Part()
        for destination in {**before, **after}:
            was, is_now = before.get(destination, nothing), after.get(destination, nothing)
            if destination != source and not was.is_same(is_now):
                yield Breach(
                    "restricted change",
                    f"at {broker} a step for {source} made {is_now} of the entries for {destination}, {was}",
                )

    def restricted_impact(self, broker: str, source: str, expected: Part, matching: Part) -> Iterator[Breach]:
        """T'|S is what δ makes of it."""
        if not expected.is_same(matching):
            yield Breach(
                "restricted impact",
                f"at {broker} the entries for {source} are {matching}, but by what it said they are {expected}",
            )

    def forwarding(
        self, broker: str, notification: Notification, expected: Iterable[str], matching: Iterable[str]
    ) -> Iterator[Breach]:
        """F_B(n) but the source, each once."""
        wanted, sent = Counter(dict.fromkeys(expected, 1)), Counter(matching)
        for missed in wanted - sent:
            yield Breach("forwarding", f"{broker} did not pass it on to {missed}", notification)
        for spurious in sent - wanted:
            yield Breach("forwarding", f"{broker} passed it on to {spurious} in vain, or again", notification)

    # -- every state ---------------------------------------------------------------------------------------

    def local_invariant(
        self, broker: str, client: str, part: Part, declared: Iterable[Filter]
    ) -> Iterator[Breach]:
        """N(T|Y) = N(S_Y)."""
        rule, own = "local invariant", list(declared)
        for needed in own:
            shown = self.missing(rule, needed, part.filters)
            if shown is not None:
                yield Breach(rule, f"{client} asks for {needed}, but at {broker} it has {part}", shown)
        for held in part.filters:
            shown = self.missing(rule, held, own)
            if shown is not None:
                yield Breach(rule, f"{client} does not ask for {held}, which it has at {broker}", shown)

    def remote_invariant(
        self,
        broker: str,
        neighbour: str,
        needed: Iterable[Filter],
        announced: Part,
        *,
        rule: str = "remote invariant",
    ) -> Iterator[Breach]:
        """All that the broker needs, its neighbour forwards once it has heard all that is under way."""
        for each in needed:
            shown = self.missing(rule, each, announced.filters)
            if shown is not None:
                what = f"{broker} needs {each}, but {neighbour} knows no more of it than {announced}"
                yield Breach(rule, what, shown)

    def nothing_in_vain(
        self, broker: str, neighbour: str, needed: Iterable[Filter], announced: Part
    ) -> Iterator[Breach]:
        """And no more than that: an unsubscription is not forgotten on its way."""
        rule, wanted = "nothing in vain", list(needed)
        for held in announced.filters:
            shown = self.missing(rule, held, wanted)
            if shown is not None:
                yield Breach(rule, f"{broker} does not need {held}, but {neighbour} will forward it", shown)

    def small_tables(self, broker: str, strategy: Strategy, neighbour: str, part: Part) -> Iterator[Breach]:
        """No two entries (F, H), (G, H) with F ≡ G; where the strategy covers, with F ⊒ G."""
        if not isinstance(strategy, Identity | Covering):
            return
        catalogue = self.catalogue
        numbers = {self._number(each.filter): each for each in part.interests}
        related = catalogue.covering if isinstance(strategy, Covering) else catalogue.identical
        for number, interest in numbers.items():
            for other in sorted(related(number) & numbers.keys() - {number}):
                what = f"at {broker} the entries for {neighbour} have both {numbers[other]} and {interest}"
                yield Breach("small tables", what)

    # -- at rest -------------------------------------------------------------------------------------------

    def remote_validity(
        self,
        broker: str,
        neighbour: str,
        needed: Iterable[Filter],
        announced: Part,
        advertised: Iterable[Filter] | None = None,
    ) -> Iterator[Breach]:
        """N(T_j|i) ⊇ N(T_i\\j), or of that what is advertised on the neighbour's side."""
        if advertised is not None:
            offers = list(advertised)
            needed = [And.of((each, offer)) for each in needed for offer in offers]
        yield from self.remote_invariant(broker, neighbour, needed, announced, rule="remote validity")

    def path_validity(
        self, client: str, needed: Filter, path: Iterable[tuple[str, str, Part]]
    ) -> Iterator[Breach]:
        """The breaches on the path of a client's interest: from a broker, towards a neighbour H, by its T|H."""
        for broker, towards, part in path:
            shown = self.missing("path validity", needed, part.filters)
            if shown is not None:
                what = f"what {client} asks for, {needed}, does not pass from {broker} to {towards}: {part}"
                yield Breach("path validity", what, shown)
