"""The attacker of the protocol, with all that has come beside publications and subscriptions.

It also tries transactions, requests, wills, what others want and offer, sources on demand, delegations, shared
subscribers, changes of a subscription, cuts, retained values and publications that are held.
"""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar, Final

from fairlead.channels import Channel, Channels, Delay, Retain
from fairlead.errors import FairleadError
from fairlead.filters import covers, parse
from fairlead.network import wire
from fairlead.rules.access import Access
from fairlead.rules.channeling import Channeling
from fairlead.rules.rule import Rule
from fairlead_lab.testing.attacker import (
    DURABLES,
    FILTERS,
    MEMBERS,
    POLICY,
    READS,
    SYMBOLS,
    WRITES,
    Allowed,
    Attack,
)

__all__ = ["WideAllowed", "WideAttack"]

ROLES: Final[dict[str, Any]] = {
    **POLICY["roles"],
    "bob": {**POLICY["roles"]["bob"], "delegate": True},
    "nyse": {**POLICY["roles"]["nyse"], "delegate": True},
}
GIVERS: Final = {"bob": READS["bob"], "nyse": WRITES["nyse"]}
ACTIONS: Final = {"bob": "subscribe", "nyse": "publish"}
CHANNELS: Final = (
    Channel("last", "exists last", retain=Retain(per=("symbol",))),
    Channel("later", "exists later", delay=Delay("later")),
)


class WideAllowed(Allowed):
    """The rights by roles, and those that others have delegated."""

    def __init__(self) -> None:
        super().__init__()
        self.delegated: dict[tuple[str, str], tuple[str, str, str]] = {}
        """By giver and id of a delegation, who got it, for which action and which symbol."""

    def symbols(self, name: str, action: str) -> set[object]:
        """The symbols that a principal may get, or publish."""
        if name in self.revoked:
            return set()
        found = {*(READS if action == "subscribe" else WRITES).get(name, ())}
        for (giver, _), (to, given, symbol) in self.delegated.items():
            if to == name and given == action and giver not in self.revoked:
                found.add(symbol)
        return found

    def read(self, name: str, symbol: object) -> bool:
        return not isinstance(symbol, dict | list) and symbol in self.symbols(name, "subscribe")

    def write(self, name: str, producer: str, symbol: object) -> bool:
        is_theirs = not isinstance(symbol, dict | list) and symbol in self.symbols(name, "publish")
        return self.connect(name) and is_theirs and self.owns(name, "producers", producer)


class WideAttack(Attack):
    """One attack by all ways of the protocol."""

    POLICY: ClassVar = {"roles": ROLES}
    ALLOWED: ClassVar = WideAllowed
    _allowed: WideAllowed

    def __init__(self, seed: int, make: type[Access] = Access) -> None:
        super().__init__(seed, make)
        self._wrote: set[tuple[str, str]] = set()
        """The principals that could ever publish by a delegation, and of what."""

    def _rules(self, make: type[Access]) -> list[Rule]:
        return [Channeling(Channels(CHANNELS)), *super()._rules(make)]

    def _tick(self) -> None:
        self.node.tick(self._now)
        self._work()
        self._look()  # what is told now is told by the policy of now

    def _will(self, who: str, own: str) -> bytes:
        if self._random.random() < 0.7:
            return b""
        with contextlib.suppress(FairleadError):
            return self._publication(who, own)
        return b""

    def _more(self) -> dict[str, Any]:
        chance = self._random.random()
        if chance < 0.2:
            return {"last": True}
        return {"later": f"{self._random.randint(1, 50)} us"} if chance < 0.3 else {}

    def _answer_to(self, number: int, *kinds: type) -> Any:
        """The answer to a request of the client that has sent the last one, if it is one of these kinds."""
        found = [each for each in self._asking.answers() if getattr(each, "number", None) == number]
        return next((each for each in found if isinstance(each, kinds)), None)

    def _ask(self, message: Any) -> Any:
        """The answer to a request that a client has made; None where it was refused."""
        self._send(self._asking, wire.control(message))
        self._work()
        return self._answer_to(message.number, wire.Done, wire.Response)

    def _begin(self) -> str:
        """The principal of the client that asks now; empty: nobody is connected."""
        client = self._client()
        if client is None:
            return ""
        self._asking = client
        return client.principal.name

    # -- attempts ----------------------------------------------------------------------------------------------

    def _transact(self) -> None:
        who = self._begin()
        if not who:
            return
        publications = []
        for _ in range(self._random.randint(0, 3)):
            with contextlib.suppress(FairleadError):
                publications.append(self._publication(who, self._asking.session.name))
        names = self._random.sample(DURABLES, self._random.randint(0, 2))
        accepted = [(name, [self._random.randint(1, 40)]) for name in names]
        number = self._next()
        self._send(self._asking, wire.transaction(number, wire.Transaction(publications, accepted)))
        self._work()
        refused = self._answer_to(number, wire.Refused)
        if refused is None and not self._asking.session.ended and (publications or accepted):
            owns = all(self._allowed.owns(who, "durables", name) for name in names)
            self.books.check("transaction", allowed=owns, details=(who, names))

    def _request(self) -> None:
        who = self._begin()
        if who:
            with contextlib.suppress(FairleadError):
                packed = self._publication(who, self._asking.session.name)
                if self._ask(wire.Request(self._next(), packed)) is not None:
                    allowed = bool(self._allowed.symbols(who, "publish"))
                    self.books.check("request", allowed=allowed, details=who)

    def _discover(self) -> None:
        who = self._begin()
        if not who:
            return
        what = self._random.choice(("wants", "wants", "offers"))
        id = self._random.choice(("", what))
        answer = self._ask(wire.Discover(self._next(), what, self._random.choice(FILTERS), id))
        if isinstance(answer, wire.Response):
            self._discovered(who, what, answer.answer)

    def _discovered(self, who: str, what: str, answer: dict[str, Any]) -> None:
        """One learns what is wanted of what one may publish, and what is offered of what one may get."""
        symbols = self._allowed.symbols(who, "publish" if what == "wants" else "subscribe")
        known = ", ".join(f'"{each}"' for each in sorted(map(str, symbols)))
        limit = parse(f"symbol in {{{known}}}") if symbols else parse("false")
        told = [parse(text) for text in (answer["question"], *answer["filters"])]
        allowed = all(covers(limit, each) for each in told)
        self.books.check("discovery", allowed=allowed, details=(who, what, answer))

    def _quench(self) -> None:
        who = self._begin()
        if who:
            self._send(
                self._asking, wire.control(wire.Listen(self._next(), "l", self._random.choice(FILTERS)))
            )
            asked = wire.Quench(self._next(), "q", self._random.choice(FILTERS))
            if self._ask(asked) is not None:
                allowed = bool(self._allowed.symbols(who, "publish"))
                self.books.check("quenching", allowed=allowed, details=(who, asked.filter))
                self._send(self._asking, wire.control(wire.Awake("q")))

    def _touch(self) -> None:
        """Durable subscribers: cuts, dead deliveries, acceptance, as if they were one's own."""
        who = self._begin()
        if not who:
            return
        number, name = self._next(), self._random.choice(DURABLES)
        ask = self._random.choice((wire.Redrive(number, name), wire.Cut(number, name)))
        is_root = isinstance(ask, wire.Redrive) and who == "root" and who not in self._allowed.revoked
        if self._ask(ask) is not None:
            owns = self._allowed.owns(who, "durables", name) or is_root
            self.books.check("touching a durable subscriber", allowed=owns, details=(who, ask))
        others = {each.name: {*each.done} for each in self.node.durables.values()}
        self._send(
            self._asking,
            wire.control(wire.Accept(name, [*range(1, 40)])),
            wire.control(wire.Reject(name, number, False)),
            wire.control(wire.Renew(name, number)),
        )
        self._work()
        if not self._allowed.owns(who, "durables", name) and name in self.node.durables:
            same = {*self.node.durables[name].done} == others.get(name, set())
            self.books.check("acceptance for another", allowed=same, details=(who, name))

    def _share(self) -> None:
        """Subscribe with all that a subscription may ask for."""
        client = self._client()
        if client is None:
            return
        text = self._random.choice(("true", "true", *FILTERS))
        durable = self._random.choice(("", "desk", "desk", "desk", *DURABLES))
        id = self._random.choice(("s1", "s2", "s3"))
        client.requested.append(text)
        chance = self._random.random
        message = wire.Subscribe(
            self._next(),
            id,
            text,
            durable,
            self._random.choice((None, 0)),
            bool(durable) and chance() < 0.4,
            lease=self._random.choice((0, 100)) if durable else 0,
            ordered=chance() < 0.1,
            retained=chance() < 0.6,
            instead=self._random.choice(("", id, "s1")),
        )
        self._send(client, wire.control(message))

    def _delegate(self) -> None:
        who = self._begin()
        if not who:
            return
        if self._random.random() < 0.7:
            who = self._as_a_giver(who)
        number, id, to = self._next(), self._random.choice(("d1", "d2")), self._random.choice(MEMBERS)
        symbol, action = self._random.choice(SYMBOLS), self._random.choice(("subscribe", "publish"))
        filters = [f'symbol = "{symbol}"']
        given = (filters, []) if action == "subscribe" else ([], filters)
        if self._ask(wire.Delegate(number, id, to, *given)) is not None:
            allowed = who in GIVERS and action == ACTIONS[who] and symbol in GIVERS[who]
            allowed = allowed and who not in self._allowed.revoked and to not in (who, "anonymous")
            self.books.check("delegation", allowed=allowed, details=(who, to, given))
            self._allowed.delegated[who, id] = (to, action, symbol)
            if action == "publish":
                self._wrote.add((to, symbol))

    def _as_a_giver(self, who: str) -> str:
        """One who may delegate asks, where one is connected."""
        givers = [each for each in self._clients if each.principal.name in GIVERS]
        if givers:
            self._asking = self._random.choice(givers)
        return self._asking.principal.name if givers else who

    def _undelegate(self) -> None:
        who = self._begin()
        if who and self._allowed.delegated:
            giver, id = self._random.choice([*self._allowed.delegated])
            by = self._random.choice((giver, ""))
            if self._ask(wire.Undelegate(self._next(), id, by)) is not None:
                giver = by or who
                is_known = (giver, id) in self._allowed.delegated
                is_root = who == "root" and who not in self._allowed.revoked
                self.books.check(
                    "end of a delegation", allowed=is_known and (is_root or giver == who), details=(who, by)
                )
                self._allowed.delegated.pop((giver, id), None)

    def _ask_for_a_while(self) -> None:
        """Ask by a delegation, and go on asking when it has ended."""
        givers = [each for each in self._clients if each.principal.name == "nyse" and not each.session.ended]
        client = self._client()
        if not givers or client is None or client.principal.name in WRITES:
            return
        to, id, number = client.principal.name, "while", self._next()
        self._send(givers[0], wire.control(wire.Delegate(number, id, to, publish=['symbol = "IBM"'])))
        discover = wire.Discover(self._next(), "wants", "true", "wants")
        self._send(client, wire.control(discover), wire.control(wire.Listen(self._next(), "l", "true")))
        self._send(givers[0], wire.control(wire.Undelegate(self._next(), id)))
        self._work()
        for each in self._clients:  # it was allowed while it was asked
            each.peer.got = [(kind, payload) for kind, payload in each.peer.got if kind != wire.CONTROL]

    def _share_as_another(self) -> None:
        """Share a subscriber with somebody who may see more."""
        both = {each.principal.name: each for each in self._clients if not each.session.ended}
        if not {"ada", "bob"} <= both.keys():
            return
        self._send(both["bob"], wire.control(wire.Unsubscribe(self._next(), "", "desk")))
        self._work()
        for name in self._random.sample(("ada", "bob"), 2):
            both[name].requested.append("true")
            asked = wire.Subscribe(self._next(), "all", "true", "desk", None, shared=True)
            self._send(both[name], wire.control(asked))
            self._work()

    _ATTEMPTS: ClassVar = (
        *Attack._ATTEMPTS,
        *(_transact,) * 8,
        *(_request,) * 3,
        *(_discover,) * 10,
        *(_quench,) * 2,
        *(_touch,) * 4,
        *(_share,) * 12,
        *(_share_as_another,) * 3,
        *(_ask_for_a_while,) * 3,
        *(_delegate,) * 4,
        *(_undelegate,) * 2,
    )

    # -- what came of it ---------------------------------------------------------------------------------------

    def _may_listen(self, who: str) -> bool:
        return bool(self._allowed.symbols(who, "publish"))

    def _may_have_written(self, by: str, symbol: object) -> bool:
        return super()._may_have_written(by, symbol) or (by, symbol) in self._wrote

    def _look(self) -> None:
        for client in self._clients:
            for message in client.answers():
                if isinstance(message, wire.Listening) and message.anyone:
                    allowed = self._may_listen(client.principal.name)
                    self.books.check("notice of a subscriber", allowed=allowed, details=client.principal.name)
                if isinstance(message, wire.Discovered):
                    self._discovered(client.principal.name, message.id, message.answer)
        super()._look()
