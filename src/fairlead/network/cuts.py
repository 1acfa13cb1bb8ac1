"""A cut: the end of every broker's log, as all have given it to one question, and that all below has been
handed over.

A client asks for one, and gets the answer behind all that it speaks of. The law: whatever any broker of the
network had logged before the question, and concerns the subscriber, went to it before the answer.

A barrier asks (`barriers`): each broker answers it with the end of its log. Then this broker waits for the
marks of all origins up to there (`fairlead.broker.progress`), and for the subscriber's outbox. One barrier is
under way at a time, for all questions that came before it began. It is patient: a broker that is away may have
logged something.

A broker that has answered sends its marks at once, and not with the next tick, until they have come as far as
it has answered for itself and those behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from fairlead.broker.progress import Progress
from fairlead.errors import FairleadError, NotThere, ValueRefused
from fairlead.network import wire
from fairlead.network.barriers import NO_LOG, Barriers
from fairlead.network.client_sessions import ClientSession
from fairlead.network.destinations import Durable, Link
from fairlead.network.dispatch import Dispatch

__all__ = ["Cuts", "reached_in"]

TICKS_MAX: Final = 60
"""For so many ticks marks are waited for, before another barrier asks: an origin may be gone, or restored."""


@dataclass(slots=True)
class _Question:
    """A client's question, and the offset behind which it is answered."""

    session: ClientSession
    number: int
    durable: Durable
    end: int = 0


@dataclass(slots=True)
class _Cut:
    """The ends of all logs, and the questions that wait for all below them."""

    ends: Mapping[str, int]
    questions: list[_Question]
    ticks: int = 0


class Cuts:
    """The questions of a broker's clients, and the barriers of other brokers that are answered here."""

    def __init__(
        self,
        name: str,
        *,
        barriers: Barriers,
        progress: Progress,
        links: Mapping[str, Link],
        durables: Mapping[str, Durable],
        dispatch: Dispatch,
    ) -> None:
        self._name, self._barriers, self._progress = name, barriers, progress
        self._links, self._durables, self._dispatch = links, durables, dispatch
        self._questions: list[_Question] = []
        """The questions that came since the barrier that is under way began."""
        self._is_awaited = False
        self._cuts: list[_Cut] = []
        self._passed: list[_Question] = []
        """Those whose notifications are all in the log here, and wait for the subscriber's outbox."""
        self._hurried: dict[str, Mapping[str, int]] = {}
        """The neighbours that get marks at once, and up to where."""

    # -- questions ---------------------------------------------------------------------------------------------

    def ask(self, session: ClientSession, number: int, name: str) -> None:
        """Answer a client behind all that is logged anywhere, and concerns its subscriber of this name."""
        if not self._barriers.are_answered_with_ends:
            raise ValueRefused(
                "by several ways, no broker knows that all before a moment has come: there is no total order",
                hint='order="live", or a network without `cyclic` in [routing]',
            )
        durable = session.durables.get(name)
        if durable is None:
            raise NotThere(f"this client is no subscriber {name!r} with a place in the log")
        self._questions.append(_Question(session, number, durable))
        self._begin()

    def _begin(self) -> None:
        if self._is_awaited or not self._questions:
            return
        self._is_awaited = True
        questions, self._questions = self._questions, []
        ends: dict[str, int] = {}

        def done() -> None:
            self._is_awaited = False
            self._take(ends, questions)
            self._begin()

        self._barriers.begin(wire.Barrier(*self._barriers.next_key(), True, True), "", done, ends)

    def _take(self, ends: Mapping[str, int], questions: list[_Question]) -> None:
        without = sorted(name for name, end in ends.items() if end == NO_LOG)
        if without:
            for each in questions:
                _refuse(
                    each,
                    ValueRefused(f"{', '.join(without)} has no log, so that nothing is known of its place"),
                )
        else:
            self._cuts.append(_Cut(ends, questions))
            self.look()

    @property
    def is_waiting(self) -> bool:
        """Whether something is awaited that arrives or is synced."""
        return bool(self._cuts or self._passed or self._hurried)

    def look(self) -> None:
        """See how far all has come: answer questions, and send marks that are waited for."""
        for cut in list(self._cuts):
            if reached_in(self._reached, cut.ends):
                self._cuts.remove(cut)
                for question in cut.questions:
                    question.end = self._dispatch.end
                self._passed += cut.questions
        if self._passed:
            self._passed = [each for each in self._passed if not self._answer(each)]
        for name in list(self._hurried):
            self._hurry(name)

    def _reached(self, origin: str) -> int:
        return self._dispatch.reached if origin == self._name else self._progress.position_of(origin)

    def _answer(self, question: _Question) -> bool:
        """Whether a question needs no answer any longer."""
        session, durable = question.session, question.durable
        if session.ended:
            return True
        if self._durables.get(durable.name) is not durable or session not in durable.members:
            _refuse(question, NotThere(f"this client is not the subscriber {durable.name!r} any longer"))
            return True
        if durable.handed_over(self._dispatch.reached) < question.end:
            return False
        session.tell(wire.Response(question.number, {"passed": question.end}))
        return True

    def tick(self) -> None:
        """From time to time: ask again where marks do not come."""
        for cut in list(self._cuts):
            cut.ticks += 1
            if cut.ticks > TICKS_MAX:
                self._cuts.remove(cut)
                self._questions += cut.questions
                self._begin()

    # -- barriers of others ------------------------------------------------------------------------------------

    def hurry(self, neighbour: str, ends: Mapping[str, int]) -> None:
        """A neighbour has been told these ends: it gets marks as soon as they are due, up to there."""
        self._hurried[neighbour] = ends
        self._hurry(neighbour)

    def _hurry(self, neighbour: str) -> None:
        link = self._links.get(neighbour)
        if link is None or link.session is None:
            self._hurried.pop(neighbour, None)  # over the next connection, all marks go, with the next tick
            return
        link.send_marks(self._progress)
        if reached_in(lambda origin: self._progress.sent(neighbour, origin), self._hurried[neighbour]):
            del self._hurried[neighbour]


def reached_in(reached: Callable[[str], int], ends: Mapping[str, int]) -> bool:
    """Whether all origins have been heard of up to their ends."""
    return all(end == NO_LOG or reached(origin) >= end for origin, end in ends.items())


def _refuse(question: _Question, error: FairleadError) -> None:
    if not question.session.ended:
        question.session.answer_error(question.number, error)
