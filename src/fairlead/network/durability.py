"""A durable subscriber gets every notification that its subscriptions match until it ends, connected or not.

At most one client at a time is the subscriber: the latest one that subscribed under its name. A delivery that the
client has neither accepted nor rejected is delivered again when it is back. A subscription to the past without a
name has a durable subscriber of its own, which ends with the connection. A subscriber that is shared has members:
each delivery goes to one of them (`fairlead.delivery.assigning`).

A client that comes back subscribes to all filters of the subscriber again, and is served then. The subscriber has
one cursor in the log: a notification for a subscription that the client does not have could be neither delivered
nor passed over. So a client with another filter is refused, and one that leaves a filter out is, after a while.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from fairlead.broker import Broker
from fairlead.broker import messages as calls
from fairlead.broker.publications import NO_OFFSET
from fairlead.delivery.assigning import Terms
from fairlead.delivery.dead_letters import letter_of
from fairlead.errors import Forbidden, Gone, NotThere, ValueRefused
from fairlead.filters.filter import Filter
from fairlead.filters.language import render
from fairlead.log import Record
from fairlead.log.records import NOTIFICATIONS, RECALLED, notification_in
from fairlead.model.durations import render_duration
from fairlead.model.packed import unpack
from fairlead.network import wire
from fairlead.network.barriers import Barriers, Recalling
from fairlead.network.bounds import size_of
from fairlead.network.calling import Clock
from fairlead.network.catch_up import CatchUp
from fairlead.network.client_sessions import ClientSession
from fairlead.network.destinations import Durable
from fairlead.network.dispatch import Dispatch
from fairlead.network.formers import Former, end_former, retire
from fairlead.network.guard import Guard, principal_from_json, principal_to_json
from fairlead.network.handover import Handover
from fairlead.network.history import Histories
from fairlead.network.interests import Interests
from fairlead.network.leaving import Leaving
from fairlead.network.ledger import (
    Changed,
    Departed,
    Died,
    Leased,
    Owned,
    Redriven,
    Subscribed,
    Unsubscribed,
    cursor_of_durable,
    termed,
)
from fairlead.network.once import Once
from fairlead.network.own import OwnPublications
from fairlead.network.persistence import Persistence
from fairlead.network.retaining import Retaining
from fairlead.network.router import Router
from fairlead.network.sessions import Outgoing
from fairlead.rules import Refusal
from fairlead.security import Principal

__all__ = ["Durability"]

log: Final = logging.getLogger(__name__)

CLAIM_US: Final = 5_000_000
"""The time a client may take to ask for all that its durable subscriber asks for."""
NAMED_MAX: Final = 3
REASON_MAX: Final = 500
"""The length of the reason in a dead letter, at most."""
AGAIN_US: Final = 1_000_000
"""When a dead letter is written again, for which the log had no room."""


class Durability:
    """The durable subscribers of a broker: how they begin, are away, are back, and end."""

    def __init__(
        self,
        broker: Broker,
        outgoing: Outgoing,
        persistence: Persistence,
        once: Once,
        *,
        durables: dict[str, Durable],
        router: Router,
        dispatch: Dispatch,
        catch_up: CatchUp,
        barriers: Barriers,
        interests: Interests,
        leaving: Leaving,
        guard: Guard,
        own: OwnPublications,
        retaining: Retaining,
        histories: Histories,
        handover: Handover,
        clock: Clock,
    ) -> None:
        self._histories = histories
        self._own_publications, self._clock, self._retaining = own, clock, retaining
        self._broker, self._outgoing, self._persistence, self._once = broker, outgoing, persistence, once
        self._durables, self._router, self._dispatch = durables, router, dispatch
        self._catch_up, self._barriers, self._interests = catch_up, barriers, interests
        self._leaving, self._guard = leaving, guard
        guard.decided.append(self.look_at_members)
        histories.serve = self.serve
        self.handover = handover
        handover.durability = self

    def recall(self, now: int) -> None:
        """Restore the durable subscribers with their filters and cursors."""
        for name in [*self._persistence.state.durables]:
            self._recall(name, now, self._interests.recall_durable)
        self.handover.forget_sought()

    def _recall(self, name: str, now: int, install: Callable[[str, str, Filter, int], None]) -> None:
        """Restore one durable subscriber, as the state has it."""
        state = self._persistence.state
        subscriptions = state.durables[name]
        since = min((since for _, since in subscriptions.values()), default=self._dispatch.reached)
        durable = self._new(name, self._persistence.cursor(cursor_of_durable(name), since))
        self._guard.bind(durable.client, principal_from_json(state.owners.get(name, "")), now)
        durable.lease, durable.left = state.leases.get(name, 0), now
        self._recall_accounts(durable)
        self._histories.restore(durable)
        for id, (text, since) in subscriptions.items():
            filter = self._interests.filter(text)
            durable.subscriptions[id] = (filter, since)
            self._outgoing.memory.hold_lasting(name, id, size_of(text, filter))
            install(durable.client, id, filter, now)
        for id, former in state.former.get(name, {}).items():
            filter = self._interests.filter(former.filter)
            durable.former[id] = Former(filter, *former[1:])
            self._outgoing.memory.hold_lasting(name, id, size_of(former.filter, filter))
            install(durable.client, id, filter, now)
        self.handover.recall(durable)

    def _recall_accounts(self, durable: Durable) -> None:
        accounts = self._persistence.state.accounts.get(durable.name)
        if accounts is not None:
            beyond = {offset for offset in accounts.transacted if offset >= durable.looked}
            durable.terms, durable.done = accounts.terms, {*accounts.accepted, *beyond}
            if not accounts.terms.is_neutral or accounts.counts or durable.done or accounts.redriven:
                durable.account(accounts.counts)
            for offset in accounts.redriven:
                durable.redrive(offset)

    # -- subscriptions -----------------------------------------------------------------------------------------

    def subscribe(
        self,
        session: ClientSession,
        message: wire.Subscribe,
        filter: Filter,
        now: int,
        *,
        is_elsewhere: bool | None = None,
    ) -> None:
        """Subscribe a client to a filter under a durable name, which is its own. The client is this durable
        subscriber from now on.

        Whether the name is in use at another broker is asked first, where it is not known.
        """
        if not self._persistence.is_logged:
            raise ValueRefused(
                "this broker has no log: it has no durable subscriptions, and no earlier notifications"
            )
        ends = not message.durable
        name = _name_of(session, message.id) if ends else message.durable
        durable = self._durables.get(name)
        known = None if durable is None else durable.subscriptions.get(message.id)
        changes = durable is not None and message.instead in durable.subscriptions
        if known is not None and known[0] != filter and message.instead != message.id:
            raise ValueRefused(f"the id {message.id!r} is taken")
        if durable is not None and (known is None or changes):
            claimed = durable.claimed if session in durable.members else set()
            if others := durable.subscriptions.keys() - claimed - {message.instead}:
                raise self._asks_for_more(durable, others)
        begins = message.since if message.history and durable is None else None
        terms = self._terms(durable, session, message, ends=ends)
        seeks = not ends and terms.is_neutral and self._seeks(durable, message, is_elsewhere)
        if durable is None and seeks and is_elsewhere is None and not message.moves:
            self._look_for(name, session, message, filter)
            return
        granted = self._broker.seam.grant(session.client, "subscribe", filter, now)
        if isinstance(granted, Refusal):
            raise granted.exception()
        members = [] if durable is None or not terms.is_shared else durable.members
        if not all(self._see_the_same(session, each, filter, now) for each in members):
            raise Forbidden(
                f"the members of the durable subscriber {name!r} may see something else than you:"
                " who shares it sees the same"
            )
        self._own(session, name, now, ends=ends)
        is_first = durable is None
        if durable is not None and changes and (known is None or known[0] != filter):
            self._change(durable, message, filter, now)
        elif durable is None or known is None:
            durable = self._subscribed(durable, name, message, filter, now, seeks=seeks)
        elif session not in durable.members:
            self._interests.regrant(durable.client, now)
        self._lease(durable, session, message, now)
        self._attach(durable, session, terms, now)
        durable.moves = message.moves
        if message.ordered:
            durable.hold_any()
        durable.claimed.add(message.id)
        if message.id in durable.granted:
            self._guard.inform(session, calls.Grant(durable.client, message.id, durable.granted[message.id]))
        is_new = known is None and not changes
        if message.moves and is_first and not seeks:
            session.tell(wire.Moved(name, 0, True))
        if seeks:
            self.handover.seek(
                durable,
                session,
                message.id,
                message.moves,
                lambda: self._answer(durable, session, message, wanted=False, is_new=is_new, is_known=True),
            )
        else:
            self._answer(durable, session, message, wanted=message.retained, is_new=is_new, begins=begins)
        # What it missed follows when those who asked before have been answered.
        self._dispatch.after_sync(lambda: self.serve(durable))

    def _seeks(self, durable: Durable | None, message: wire.Subscribe, is_elsewhere: bool | None) -> bool:
        """Whether it has to be found out where else a subscriber is."""
        if durable is not None:
            return self.handover.is_unsure(durable)
        return self.handover.seeks(patient=bool(message.moves)) and is_elsewhere is not False

    def _look_for(self, name: str, session: ClientSession, message: wire.Subscribe, filter: Filter) -> None:
        def go_on(is_elsewhere: bool) -> None:
            if session.ended:
                return
            try:
                self.subscribe(session, message, filter, self._clock.now, is_elsewhere=is_elsewhere)
            except Exception as error:
                session.answer_error(message.number, error)

        self.handover.look_for(name, go_on)

    def _answer(
        self,
        durable: Durable,
        session: ClientSession,
        message: wire.Subscribe,
        *,
        wanted: bool,
        is_new: bool,
        begins: int | None = None,
        is_known: bool = False,
    ) -> None:
        """Answer a client when its subscription has taken effect; `is_known`: every broker knows of it."""
        ends = not message.durable
        # Those who knew of it before are not waited for where they are away.
        patient = not ends and message.id not in durable.acknowledged
        recall: Recalling | None = self._histories.begin(
            durable, message.id, message.filter, begins, patient=patient
        ) or self._retaining.begin(
            durable, message.id, message.filter, wanted=wanted, is_new=is_new, patient=patient
        )
        if is_known and recall is None and self._outgoing.tracing.tracer is None:
            durable.acknowledged.add(message.id)
            session.tell(wire.Done(message.number))
            return
        self._barriers.answer(
            session,
            message.number,
            patient=patient,
            then=lambda: durable.acknowledged.add(message.id),
            ready=() if ends or self._guard.is_on else ((durable.client, message.id),),
            recall=recall,
        )

    def _lease(self, durable: Durable, session: ClientSession, message: wire.Subscribe, now: int) -> None:
        """Keep a subscriber for as long as its client asks for, or less; of members, for the longest."""
        if durable.ends:
            return
        most = self._outgoing.limits.lease_us
        granted = min(message.lease or most, most or message.lease)
        others = [each for each in durable.members if each is not session]
        if others:
            granted = max(granted, durable.lease) if granted and durable.lease else 0
        if granted != durable.lease:
            durable.lease = granted
            self._persistence.note(Leased(durable.name, granted), now)
        if message.lease:
            session.tell(wire.Leased(durable.name, granted))

    def _terms(
        self, durable: Durable | None, session: ClientSession, message: wire.Subscribe, *, ends: bool
    ) -> Terms:
        """The terms that a client asks for; ValueRefused where the other members have others."""
        terms = Terms(
            message.shared, message.per, message.window, message.attempts_max, message.accept_within
        )
        if message.ordered and not terms.is_neutral:
            raise ValueRefused(
                "deliveries in the total order are one subscriber's, and none of them comes again behind others",
                hint="leave out shared, per, window, attempts_max and accept_within",
            )
        if message.lease < 0 or (ends and message.lease):
            raise ValueRefused("a lease is a time for which a durable subscriber is kept")
        if ends and not terms.is_neutral:
            raise ValueRefused(
                "terms of acceptance are for durable subscribers", hint='subscribe(…, durable="work", …)'
            )
        if durable is not None and terms.is_shared and durable.subscriptions.keys() - {message.id}:
            raise ValueRefused(
                f"the shared subscriber {durable.name!r} has one filter", hint="join two with `or`"
            )
        others = [] if durable is None else [each for each in durable.members if each is not session]
        if durable is not None and others and durable.terms != terms and durable.terms.is_shared:
            raise ValueRefused(
                f"the members of the durable subscriber {durable.name!r} share it on other terms",
                hint="all members give the same shared, per, window, attempts_max and accept_within",
            )
        return terms

    def _see_the_same(self, one: ClientSession, other: ClientSession, filter: Filter, now: int) -> bool:
        """Whether two clients get the same of what a filter matches, by their own rights."""
        if self._guard.principal(one.client) == self._guard.principal(other.client):
            return True
        seam, clients = self._broker.seam, (one.client, other.client)
        granted = {seam.grant(each, "subscribe", filter, now) for each in clients}
        hidden = {seam.hidden(each) for each in clients}
        return len(granted) == len(hidden) == 1 and not any(seam.withholds(each, now) for each in clients)

    def look_at_members(self, now: int) -> None:
        """The rights of clients have changed. A shared subscriber acts for one of its members; those who may not
        see what that one sees are members no longer."""
        for durable in [each for each in self._durables.values() if each.terms.is_shared]:
            members = [each for each in durable.members if not each.ended]
            if not members:
                continue
            owner = self._guard.principal(durable.client)
            first = next(
                (each for each in members if _is_lasting(self._guard.principal(each.client), owner)), None
            )
            if first is None:  # whoever subscribed last is gone
                first = members[-1]
                self._own(first, durable.name, now, ends=False)
                self._interests.regrant(durable.client, now)
            for member in members:
                if not all(
                    self._see_the_same(member, first, filter, now)
                    for filter, _ in durable.subscriptions.values()
                ):
                    reason = f"your rights differ from those of the other members of {durable.name!r}"
                    member.tell(wire.Refused(0, reason, durable.name))
                    self.detach(durable, member)

    def _attach(self, durable: Durable, session: ClientSession, terms: Terms, now: int) -> None:
        """A client is the subscriber from now on, instead of another one; or a member more, beside others."""
        if session in durable.members:
            return
        if not (durable.terms.is_shared and terms.is_shared):
            for other in durable.members:
                other.tell(
                    wire.Refused(
                        0, f"another client is the durable subscriber {durable.name!r} now", durable.name
                    )
                )
                self.detach(durable, other)
        if durable.terms != terms:
            self._persistence.note(termed(durable.name, terms), now)
            durable.change_terms(terms)
        durable.attach(session, self._dispatch.reached, now)
        session.durables[durable.name] = durable

    def _own(self, session: ClientSession, name: str, now: int, *, ends: bool) -> None:
        """A durable subscriber acts for the principal of its client, over restarts, too."""
        principal = self._guard.principal(session.client)
        if self._guard.is_on and not ends:
            text = principal_to_json(principal)
            if self._persistence.state.owners.get(name) != text:
                self._persistence.note(Owned(name, text), now)
        self._guard.bind(f"d:{name}", principal, now)

    def _takes_too_much(self) -> ValueRefused:
        memory = self._outgoing.memory
        return ValueRefused(
            f"the filters of durable subscribers take {memory.lasting:,} bytes, and half of"
            f" {memory.budget:,} is what they may take here",
            hint="end durable subscribers nobody needs, or let the operator raise [limits] memory_bytes",
        )

    def _subscribed(
        self,
        durable: Durable | None,
        name: str,
        message: wire.Subscribe,
        filter: Filter,
        now: int,
        *,
        seeks: bool,
    ) -> Durable:
        """The subscriber asks for one thing more, or for a first one. What is not in the log is not in memory."""
        ends = not message.durable
        if f"d:{name}" in self._broker.links:
            raise ValueRefused("a neighbour of this broker has that name")
        if f"d:{name}" in self._leaving.left:
            raise ValueRefused(f"the durable subscriber {name!r} is just being removed", hint="try again")
        memory, size = self._outgoing.memory, size_of(message.filter, filter)
        if not ends and not memory.may_last(size):
            raise self._takes_too_much()
        if durable is None and message.after:
            since = min(message.after, self._dispatch.end)
        elif durable is None:
            since = self._first_since(message.since)
        else:
            since = self._dispatch.end if durable.subscriptions else durable.looked
        if durable is None and seeks:
            self.handover.expect(name, now)
        if not ends:
            self._persistence.note(Subscribed(name, message.id, render(filter), since), now)
            memory.hold_lasting(name, message.id, size)
        if durable is None:
            durable = self._new(name, since, ends=ends)
        if (tracer := self._outgoing.tracing.tracer) is not None:
            tracer.subscribed(durable.client, message.id, filter)
        durable.subscriptions[message.id] = (filter, since)
        durable.granted.pop(message.id, None)
        self._interests.call(calls.Subscribe(durable.client, message.id, filter), now)
        return durable

    def _change(self, durable: Durable, message: wire.Subscribe, filter: Filter, now: int) -> None:
        """Change a filter in one step: what is in the log is for the one before, what comes next for the new one.

        The one before stays until its records are dealt with, so that no broker has neither at any moment.
        """
        if durable.terms.is_shared:
            raise ValueRefused(
                f"the members of the shared subscriber {durable.name!r} have one filter, and none changes it alone"
            )
        if durable.arriving:
            raise ValueRefused(f"the durable subscriber {durable.name!r} is still arriving", hint="try again")
        memory, size = self._outgoing.memory, size_of(message.filter, filter)
        if not durable.ends and not memory.may_last(size):
            raise self._takes_too_much()
        at, old, new, client = self._dispatch.end, message.instead, message.id, durable.client
        if not durable.ends:
            self._persistence.note(Changed(durable.name, old, new, render(filter), at), now)
            memory.hold_lasting(durable.name, new, size)
        before = durable.subscriptions[old][0]
        kept = retire(durable.subscriptions, durable.former, old, new, at)
        durable.subscriptions[new] = (filter, at)
        for known in (durable.claimed, durable.acknowledged):
            known.discard(old)
        durable.granted.pop(old, None)
        if kept:
            if not durable.ends:
                memory.hold_lasting(durable.name, kept, size_of(render(before), before))
            self._interests.call(calls.Subscribe(client, kept, before, lasting=True), now)
        self._interests.call(calls.Change(client, new, filter), now)
        if old != new:
            self._interests.call(calls.Unsubscribe(client, old), now)
            if not durable.ends:
                memory.release_lasting(durable.name, old)
        self._retaining.end(client, old)
        if (tracer := self._outgoing.tracing.tracer) is not None:
            tracer.unsubscribed(client, old)
            if kept:
                tracer.subscribed(client, kept, before)
            tracer.subscribed(client, new, filter)

    def _end_formers(self, durable: Durable, now: int) -> None:
        """End the former filters whose records are all dealt with."""
        done = durable.cursor(self._dispatch.reached)
        for id in [id for id, each in durable.former.items() if each.until <= done]:
            if not durable.ends:
                self._persistence.note(Unsubscribed(durable.name, id), now)
            self._end_former(durable, id, now)

    def _end_former(self, durable: Durable, id: str, now: int) -> None:
        for ended in end_former(durable.former, id):
            if (tracer := self._outgoing.tracing.tracer) is not None:
                tracer.unsubscribed(durable.client, ended)
            self._outgoing.memory.release_lasting(durable.name, ended)
            self._interests.call(calls.Unsubscribe(durable.client, ended), now)

    def unsubscribe(self, requester: ClientSession, name: str, id: str, now: int) -> None:
        """End a subscription of a durable subscriber; without an id, or with the last one, the subscriber
        itself."""
        self._guard.check_durable(requester, name, now, manage=True)
        durable = self._durables.get(name)
        if durable is None or durable.ends:
            raise NotThere(f"there is no durable subscriber {name!r}")
        if id and id not in durable.subscriptions:
            raise NotThere(f"the durable subscriber {name!r} has no subscription {id!r}")
        ends = not id or durable.subscriptions.keys() == {id}
        self._persistence.note(Unsubscribed(name, "" if ends else id), now)
        for member in durable.members if ends else ():
            if member is not requester:
                member.tell(wire.Refused(0, f"another client has ended {name!r}", name))
        if ends:
            self.detach(durable)
            self._end(durable)
        else:
            if (tracer := self._outgoing.tracing.tracer) is not None:
                tracer.unsubscribed(durable.client, id)
            del durable.subscriptions[id]
            durable.granted.pop(id, None)
            durable.claimed.discard(id)
            durable.acknowledged.discard(id)
            self._outgoing.memory.release_lasting(name, id)
            self._interests.call(calls.Unsubscribe(durable.client, id), now)
            self._end_former(durable, id, now)
            self._retaining.end(durable.client, id)
            self._dispatch.after_sync(lambda: self.serve(durable))

    def granted(self, grant: calls.Grant) -> None:
        """The access policy grants another filter, perhaps to a durable subscriber."""
        durable = self._durables.get(grant.client.removeprefix("d:"))
        if durable is not None and durable.client == grant.client:
            durable.granted[grant.id] = grant.filter

    def unnamed(self, session: ClientSession, id: str) -> Durable | None:
        """The subscriber without a name that a client's subscription to the past has."""
        return self._durables.get(self.name_of(session, id))

    @staticmethod
    def name_of(session: ClientSession, id: str) -> str:
        """The name of such a subscriber."""
        return _name_of(session, id)

    def detach(self, durable: Durable, session: ClientSession | None = None) -> None:
        """A client of a durable subscriber has disconnected, by default all of them. The accepted deliveries are
        synced with the next sync, at once."""
        for member in durable.members if session is None else (session,):
            member.durables.pop(durable.name, None)
        if not durable.leave(session, self._dispatch.reached):
            self.serve(durable)  # others have it now
            return
        durable.claimed.clear()
        durable.left = self._clock.now
        is_sought = self.handover.is_sought(durable)
        self.handover.detached(durable)
        if is_sought:
            return  # it has ended
        if durable.ends:
            self._end(durable)
        else:
            self._persistence.save_durable(durable, self._dispatch.reached, self._clock.now)
            self._dispatch.after_saving()

    def tick(self, now: int) -> None:
        """From time to time: refuse clients that leave out a filter of their durable name, and move the cursors
        of absent subscribers past records that do not match."""
        self._catch_up.pass_over(self._durables.values())
        for durable in list(self._durables.values()):
            self._bound(durable, now)
            if durable.former:
                self._end_formers(durable, now)
            if durable.assignments is not None:
                for place in durable.assignments.overdue(now):
                    self._bury(durable, place, "not accepted in time", now)
                self.serve(durable)
            members, lacking = durable.members, self.handover.lacking(durable)
            if durable.lease and not members and now - durable.left >= durable.lease:
                self._expire(durable, now)
            elif members and (lacking or not durable.is_claimed) and now - durable.attached >= CLAIM_US:
                others = durable.subscriptions.keys() - durable.claimed
                error = _is_elsewhere(durable, lacking) if lacking else self._asks_for_more(durable, others)
                for session in members:
                    session.tell(wire.Refused(0, str(error), durable.name))
                self.detach(durable)

    def _expire(self, durable: Durable, now: int) -> None:
        """Nobody has come back in time: a subscriber ends."""
        lease = render_duration(durable.lease)
        log.warning("the durable subscriber %s ends: nobody was there for it for %s", durable.name, lease)
        self._persistence.note(Unsubscribed(durable.name, ""), now)
        self._end(durable)
        self._dispatch.after_sync(lambda: None)

    def _bound(self, durable: Durable, now: int) -> None:
        """Drop the oldest records that wait for a subscriber, where more wait than its principal may hold back."""
        most, reached = self._guard.backlog_of(durable.client, now), self._dispatch.reached
        if most is None or reached - durable.cursor(reached) <= most:
            return
        count = durable.drop_before(reached - most, reached)
        log.warning("%s records for %s are dropped: at most %s wait for it", count, durable.name, most)

    def _asks_for_more(self, durable: Durable, ids: Iterable[str]) -> ValueRefused:
        texts = sorted(render(durable.subscriptions[id][0]) for id in ids)
        named = ", ".join(map(repr, texts[:NAMED_MAX])) + (", …" if len(texts) > NAMED_MAX else "")
        return ValueRefused(
            f"the durable subscriber {durable.name!r} is bound to {named}",
            hint="subscribe to that first, or end it: forget(name, filter), fairlead sub --forget NAME",
        )

    def _first_since(self, since: int | None) -> int:
        """The offset of the first record that has this time or a later one."""
        ledger, end = self._persistence.ledger, self._dispatch.end
        assert ledger is not None
        if since is None:
            return end
        with ledger.reader(ledger.log.first) as reader:
            return min(reader.find(since), end)

    def _new(self, name: str, cursor: int, *, ends: bool = False) -> Durable:
        durable = self._durables[name] = Durable(
            self._outgoing,
            name,
            cursor,
            self._router,
            self._once,
            clock=self._clock,
            record_at=self._record_at,
            ends=ends,
        )
        self._router.targets[durable.client] = durable
        return durable

    def end(self, durable: Durable) -> None:
        """End a durable subscriber at once; the ledger knows."""
        self.detach(durable)
        self._interests.leave(durable.client)
        self._end(durable)

    def depart(self, durable: Durable, left_as: str, upto: Mapping[str, int], now: int) -> None:
        """A durable subscriber has gone to another broker: keep what is for it here, up to a cut, under a name of
        its own."""
        name, client = durable.name, durable.client
        for member in durable.members:
            self.detach(durable, member)
        self._persistence.save_durable(durable, self._dispatch.reached, now)
        self._persistence.rename_cursor(cursor_of_durable(name), cursor_of_durable(left_as))
        self._persistence.note(Departed(name, left_as, dict(upto)), now)
        durable.close()
        del self._durables[name]
        # The filters of the place take effect before those of the subscriber end: nothing is missed between.
        self._recall(left_as, now, self._install)
        self._interests.leave(client)
        for id in (*durable.subscriptions, *durable.former):
            self._outgoing.memory.release_lasting(name, id)
        if (tracer := self._outgoing.tracing.tracer) is not None:
            tracer.unsubscribed(client)
        self._retaining.end(client)
        self._guard.unbind(client)

    def _install(self, client: str, id: str, filter: Filter, now: int) -> None:
        self._interests.call(calls.Subscribe(client, id, filter, lasting=True), now)

    def _end(self, durable: Durable) -> None:
        self.handover.ended(durable)
        durable.close()
        for id in (*durable.subscriptions, *durable.former):
            self._outgoing.memory.release_lasting(durable.name, id)
        if (tracer := self._outgoing.tracing.tracer) is not None:
            tracer.unsubscribed(durable.client)
        self._leaving.begin(durable.client)
        self._retaining.end(durable.client)
        self._histories.end(durable)
        self._guard.unbind(durable.client)
        self._durables.pop(durable.name, None)
        self._persistence.remove_cursor(cursor_of_durable(durable.name))

    # -- deliveries --------------------------------------------------------------------------------------------

    def accept(self, session: ClientSession, name: str, ordinals: list[int]) -> None:
        """It has dealt with these."""
        durable = session.durables.get(name)
        if durable is None:
            return
        for ordinal in ordinals:
            offset = durable.offset_of(ordinal)
            if offset == NO_OFFSET:
                self.handover.accept(durable, ordinal)
                continue
            is_redriven = offset in durable.redriven
            if durable.accept(session, offset) and is_redriven:
                self._persistence.note(Redriven(name, offset, True), self._clock.now)
        self.serve(durable)

    def reject(self, session: ClientSession, message: wire.Reject, now: int) -> None:
        """It has not dealt with this one: it gets it again, perhaps later, or never."""
        durable = session.durables.get(message.durable)
        offset = NO_OFFSET if durable is None else durable.offset_of(message.ordinal)
        if durable is not None and offset == NO_OFFSET:
            self.handover.reject(durable, message)
        if durable is None or (offset not in durable.unconfirmed and offset not in durable.redriven):
            return
        if message.after < 0:
            raise ValueRefused("a delay is not negative")
        if not message.again:
            self._outgoing.counters.rejected += 1
            self.accept(session, message.durable, [message.ordinal])
            return
        is_dead = durable.account().reject(session, offset, now, message.after)
        if is_dead is not None:
            self._outgoing.counters.rejected += 1
            durable.change_accounts()
        if is_dead:
            self._bury(durable, offset, message.reason[:REASON_MAX] or "rejected", now)
        self.serve(durable)

    def renew(self, session: ClientSession, message: wire.Renew, now: int) -> None:
        """It is still at work on this one."""
        durable = session.durables.get(message.durable)
        if durable is not None and durable.assignments is not None:
            durable.assignments.renew(session, durable.offset_of(message.ordinal), now)

    def serve(self, durable: Durable) -> None:
        """Hand out what waits, then read on."""
        if self._durables.get(durable.name) is durable:
            if durable.arriving:
                self.handover.go_on(durable)
            durable.hand_out()
            self._catch_up.read_on(durable)

    def _record_at(self, offset: int) -> Record | None:
        ledger = self._persistence.ledger
        assert ledger is not None
        try:
            with ledger.reader(offset, *NOTIFICATIONS, RECALLED, synced=False) as reader:
                records = reader.read(1)
        except Gone:
            return None
        return records[0] if records and records[0].offset == offset else None

    # -- dead letters ------------------------------------------------------------------------------------------

    def _bury(self, durable: Durable, offset: int, reason: str, now: int) -> None:
        """A record is dead: it is settled when its letter is safe."""
        assignments, record = durable.assignments, self._record_at(offset)
        assert assignments is not None
        if record is None:
            durable.settled(offset)
            return
        attempts = assignments.counts[offset].attempts
        hidden = self._broker.seam.hidden(durable.client)  # a letter shows what its subscriber may see
        shown = unpack(notification_in(record)).without(hidden)
        letter = letter_of(durable.name, shown, attempts, reason)

        def settle() -> None:
            if self._durables.get(durable.name) is durable:
                self._persistence.note(Died(durable.name, offset, attempts, reason), self._clock.now)
                durable.settled(offset)
                self.serve(durable)

        self._own_publications.publish(
            letter,
            now,
            then=settle,
            failed=lambda: assignments.wait(offset, self._clock.now + AGAIN_US),
        )

    def redrive(self, session: ClientSession, name: str, now: int) -> dict[str, int]:
        """Hand out the dead records of a durable subscriber again; how many, and how many are in the log no
        more."""
        self._guard.check_durable(session, name, now, manage=True)
        durable = self._durables.get(name)
        if durable is None or durable.ends:
            raise NotThere(f"there is no durable subscriber {name!r}")
        accounts = self._persistence.state.accounts.get(name)
        offsets = [] if accounts is None else [*accounts.dead]
        there = [offset for offset in offsets if self._record_at(offset) is not None]
        for offset in offsets:
            self._persistence.note(Redriven(name, offset, offset not in there), now)
        for offset in there:
            durable.redrive(offset)
        self._dispatch.after_sync(lambda: self.serve(durable))
        return {"redriven": len(there), "gone": len(offsets) - len(there)}


def _is_elsewhere(durable: Durable, ids: Iterable[str]) -> ValueRefused:
    named = ", ".join(map(repr, sorted(ids)[:NAMED_MAX]))
    return ValueRefused(
        f"the durable subscriber {durable.name!r} has the subscriptions {named} at another broker",
        hint="subscribe to them here, too, and all of it comes here",
    )


def _is_lasting(principal: Principal, owner: Principal) -> bool:
    """Whether a durable subscriber that outlives credentials acts for a principal."""
    return replace(principal, until=None) == owner


def _name_of(session: ClientSession, id: str) -> str:
    return f"{session.client}#{id}"
