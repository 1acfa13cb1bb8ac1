"""One replica of a role: a log of what stands in which order, known to a majority before anybody acts on it.

All inputs of a role go to all of its replicas, by independent ways; one of them says in which order they stand,
by their keys alone. A replica carries out a position when a majority knows the order up to it and the input has
come. So whatever anybody was sent stays as it is, as long as a majority of the replicas lives.

**Changing the view.** The membership layer tells everybody of the same crashes in the same order, so the number
of crashed replicas numbers the views of a role, and the first that lives leads. It asks the others what they
know of the order, takes the longest log of the latest view, which holds all that a majority may have known, and
installs it. Until then nothing is put in order; what came meanwhile is put in order by the new leader, since it
came to all. Without a majority the role stands still: it never errs.

How inputs are ordered and who is told is up to the subclasses: a leader (`merger`) or a token (`token`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Set
from typing import Any, ClassVar, Final

from fairlead.model import Notification
from fairlead_lab.broker.fair.desk import Desk
from fairlead_lab.broker.fair.directory import Directory, Role
from fairlead_lab.broker.fair.messages import (
    Ask,
    Content,
    Effect,
    From,
    Gone,
    Input,
    Install,
    Interested,
    Key,
    Left,
    Need,
    Ordered,
    Pulse,
    Recipient,
    Report,
    RoleMessage,
    Send,
    Slot,
)

__all__ = ["Replica"]

PULSE: Final = "pulse"
GONE: Final = "gone"


class Replica(ABC):
    """The part of the work that does not depend on who gives the order."""

    handlers: ClassVar[dict[type, Callable[[Any, Any], None]]]

    def __init__(
        self, me: str, role: Role, directory: Directory, *, dead: Set[str], now: int, interval_us: int
    ) -> None:
        self.me = me
        self.role = role
        self.directory = directory
        self.interval_us = interval_us
        self.members = directory.members(role)
        self.alive = [each for each in self.members if each not in dead]
        self.majority = len(self.members) // 2 + 1
        self.view = len(self.members) - len(self.alive)
        self.normal = not self.view
        self.desk = Desk(role, is_root=directory.parents(role) is None)
        self.fixed = self.applied = 0
        """Up to where a majority knows the order, and up to where it has been carried out here."""
        self.stamp = self.applied_stamp = 0
        """The last time that was given to a position, each has a later one; and that of the last carried out."""
        self.effects: list[Effect] = []
        self.now = now
        self._dead = dead
        self._first = 1
        self._log: list[Slot] = []
        self._log_view = self.view
        self._contents: dict[Key, Content] = {}
        self._assigned: set[Key] = set()
        self._needs: dict[Role, int] = {}
        self._reports: dict[str, Report] = {}
        self._pending_view: Ask | None = None

    # -- being driven --------------------------------------------------------------------------------------

    def handle(self, message: RoleMessage, now: int) -> list[Effect]:
        """Take one step."""
        self.now, self.effects = now, []
        self.handlers[type(message)](self, message)
        self.rest()
        return self.effects

    def start(self) -> list[Effect]:
        """Take the first step. Who comes to be in a later view does not know what went before."""
        self.effects = []
        self.begin()
        if not self.normal:
            self._inquire()
        return self.effects

    def down(self, process: str, now: int) -> list[Effect]:
        """The membership layer: a process has crashed."""
        self.now, self.effects = now, []
        if process in self.alive:
            self.alive.remove(process)
            self.view += 1
            self.normal = False
            self._inquire()
        self._remove(process)
        self.lost(process)
        self.rest()
        return self.effects

    def tick(self, now: int) -> list[Effect]:
        """The time may have come for what is done now and then."""
        self.now, self.effects = now, []
        return self.effects

    # -- for subclasses ------------------------------------------------------------------------------------

    def begin(self) -> None:  # noqa: B027 (not every replica has something to do)
        """The replica comes to be."""

    def rest(self) -> None:  # noqa: B027 (not every replica has something to do)
        """A step is done."""

    def lost(self, process: str) -> None:  # noqa: B027 (not every replica has something to do)
        """A process has crashed."""

    @abstractmethod
    def taken(self) -> None:
        """An input has come, or several may be waiting: put in order what is to be put in order here."""

    @abstractmethod
    def lead(self) -> None:
        """A view begins, and this replica leads it."""

    def follow(self) -> None:  # noqa: B027 (not every replica has something to do)
        """A view begins, and another replica leads it."""

    @abstractmethod
    def tell(self, position: int, stamp: int, items: dict[Recipient, tuple[Content, ...]]) -> None:
        """A position has been carried out: this is to be sent."""

    # -- inputs and their order ----------------------------------------------------------------------------

    @property
    def end(self) -> int:
        """The last position that the log knows of."""
        return self._first + len(self._log) - 1

    @property
    def leads(self) -> bool:
        """Whether this replica leads the view."""
        return self.alive[0] == self.me

    @property
    def peers(self) -> list[str]:
        """The other replicas that live."""
        return [each for each in self.alive if each != self.me]

    @property
    def waiting(self) -> list[Key]:
        """The inputs that have come and have no place yet, in the order in which they came."""
        return [key for key in self._contents if key not in self._assigned]

    @property
    def is_waiting(self) -> bool:
        """Whether some input has come that is not carried out yet."""
        return bool(self._contents)

    @property
    def retained(self) -> int:
        """The number of positions and inputs that are retained here, until nobody can ask for them any more."""
        return len(self._log) + len(self._contents)

    def send(self, to: str, message: RoleMessage) -> None:
        """Send a message to a process."""
        self.effects.append(Send(to, message))

    def input(self, message: Input) -> None:
        """An input has come."""
        content = message.content
        if isinstance(content, Need):
            # All replicas of the merger below say the same; the first to do so is heard.
            if content.number <= self._needs.get(content.role, 0):
                return
            self._needs[content.role] = content.number
        self.take(message.key, content)
        if isinstance(content, Interested) and content.client in self._dead:
            self._remove(content.client)

    def _remove(self, process: str) -> None:
        if self.desk.knows(process) or ("sub", process) in self._contents:
            self.take((GONE, process), Gone(process))

    def take(self, key: Key, content: Content) -> None:
        """Keep an input until it is carried out, and put it in order if that is to be done here."""
        if key not in self._contents:
            self._contents[key] = content
            self.taken()
            self.carry_out()

    def assign(self, slot: Slot) -> None:
        """An input has the next position."""
        self._log.append(slot)
        self._assigned.add(slot.key)
        self.stamp = max(self.stamp, slot.stamp)

    def next_stamp(self) -> int:
        """The time for the next position: the clock's, if that is later than the last.

        Two positions of a role never have the same, as with the paper's `current time` they might.
        """
        return max(self.stamp + 1, self.now)

    def carry_out(self) -> None:
        """Carry out the order, as far as it is fixed and its inputs are here."""
        while self.applied < self.fixed:
            slot = self._log[self.applied + 1 - self._first]
            content = self._contents.pop(slot.key, None) or _implied(slot.key)
            if content is None:
                return
            self._assigned.discard(slot.key)
            self.applied += 1
            self.applied_stamp = slot.stamp
            number = self.desk.number
            items = self.desk.apply(content)
            for event in _events(content):
                self.effects.append(Ordered(self.role, self.applied, slot.stamp, event))
            self.tell(self.applied, slot.stamp, items)
            if isinstance(content, Left) and (GONE, content.client) not in self._assigned:
                self._contents.pop((GONE, content.client), None)  # Who has left need not be removed.
            if self.desk.number != number:
                self._connect()

    def forget(self, upto: int) -> None:
        """Nobody that lives can lack the order up to a position any more."""
        gone = min(upto, self.applied) + 1 - self._first
        if gone > 0:
            del self._log[:gone]
            self._first += gone

    def _connect(self) -> None:
        """CON: tell the roles above what is needed from them (FAIDECS, Figure 4, INITPARENTS)."""
        parents = self.directory.parents(self.role)
        assert parents is not None
        for parent in parents:
            wants = frozenset(each for each in self.desk.need if each[0] in parent)
            need = Need(self.role, self.desk.number, wants)
            for member in self.directory.members(parent):
                self.send(member, Input(parent, ("need", self.role, need.number), need))

    # -- views ---------------------------------------------------------------------------------------------

    def _inquire(self) -> None:
        self._reports = {}
        if self._pending_view is not None:
            asked, self._pending_view = self._pending_view, None
            self.ask(asked)
        if self.leads:
            for peer in self.peers:
                self.send(peer, Ask(self.role, self.me, self.view))
            self.report(self._known)

    @property
    def _known(self) -> Report:
        return Report(
            self.role, self.me, self.view, self._log_view, self._first, tuple(self._log), self.delivered_upto
        )

    @property
    def delivered_upto(self) -> int:
        """Up to where clients have been told, if that is not up to each replica itself."""
        return 0

    def ask(self, message: Ask) -> None:
        """A new leader asks what is known. It may have heard of the crash before this replica does."""
        if message.view == self.view:
            self.send(message.source, self._known)
        elif message.view > self.view:
            self._pending_view = message

    def report(self, message: Report) -> None:
        """A replica says what it knows; when all have, the view begins."""
        if message.view != self.view or self.normal:
            return
        self._reports[message.source] = message
        if len(self._reports) < len(self.alive) or len(self.alive) < self.majority:
            return
        best = max(self._reports.values(), key=lambda each: (each.log_view, each.first + len(each.slots)))
        self._adopt(best.first, best.slots)
        begun = Install(self.role, self.me, self.view, best.first, best.slots, self.fixed)
        for peer in self.peers:
            self.send(peer, begun)
        self.lead()
        self.carry_out()

    def reported_delivered_upto(self) -> int:
        """Up to where clients have been told, as far as those who live know."""
        return max(each.delivered for each in self._reports.values())

    def install(self, message: Install) -> None:
        """A view begins."""
        if message.view == self.view:
            self._adopt(message.first, message.slots)
            self.fixed = max(self.fixed, message.fixed)
            self.follow()
            self.carry_out()

    def _adopt(self, first: int, slots: tuple[Slot, ...]) -> None:
        # What others have forgotten all knew, so what is older is here; what is carried out here a majority knew.
        older = self._log[: max(0, first - self._first)]
        self._first = min(first, self._first) if older else first
        self._log = [*older, *slots]
        assert self._first + len(older) == first
        assert self._first - 1 <= self.applied <= self.end
        self._log_view = self.view
        self.normal = True
        self._assigned = {slot.key for slot in self._log[self.applied + 1 - self._first :]}
        self.stamp = max([self.stamp, *(slot.stamp for slot in slots[-1:])])


def _implied(key: Key) -> Content | None:
    """Inputs that their key says all of."""
    if key[0] == PULSE:
        return Pulse()
    if key[0] == GONE:
        return Gone(str(key[1]))
    return None


def _events(content: Content) -> list[Notification]:
    contents = content.contents if isinstance(content, From) else (content,)
    return [each for each in contents if isinstance(each, Notification)]
