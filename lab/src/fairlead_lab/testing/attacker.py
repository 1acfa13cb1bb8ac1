"""A seeded client that tries everything that the protocol allows, as every principal; with books of the outcome.

The broker is a node with a policy, without sockets. While the attacker is at work, the policy changes, tokens
expire, are revoked, and are shown again, and forged ones beside them. What may happen is written down once more
here, as plain Python, and everything that the node sends, accepts or remembers is compared with that.
`Books.wrong` has what the policy does not allow: it stays empty.
"""

from __future__ import annotations

import base64
import contextlib
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, Final

import jwt

from fairlead.broker import Broker, Settings
from fairlead.errors import FairleadError, NotAuthenticated, ProtocolError
from fairlead.filters.language import parse
from fairlead.model import Notification
from fairlead.model.packed import pack, unpack
from fairlead.network import wire
from fairlead.network.client_sessions import ClientSession
from fairlead.network.ledger import Ledger
from fairlead.network.node import Node
from fairlead.routing import STRATEGIES
from fairlead.rules.access import Access, nobody
from fairlead.rules.rule import Rule
from fairlead.security import AccessPolicy, Principal
from fairlead.security.credentials import Authenticator, Tokens, bearer
from fairlead_lab.testing.memory import MemoryDisk

__all__ = ["Allowed", "Attack", "Books"]

KEY: Final = b"a key for tokens of 32 bytes now"
LONG_US, SHORT_US = 10**15, 300
"""The time for which most tokens are valid, and some."""
SYMBOLS: Final = ("IBM", "SAP", "SUN")
READS: Final[dict[str, Collection[object]]] = {"ada": ("IBM",), "bob": ("IBM", "SAP"), "root": SYMBOLS}
WRITES: Final[dict[str, Collection[object]]] = {"nyse": ("IBM", "SAP"), "xetra": ("SAP",), "root": SYMBOLS}
OWNED: Final[dict[str, dict[str, set[str]]]] = {
    "producers": {"nyse": {"nyse-2"}},
    "durables": {"ada": {"desk"}, "bob": {"desk"}},
    "clients": {"root": {"operator"}},
    "types": {"nyse": {"Quote", "Trade"}, "xetra": {"Quote"}},
}
TYPES: Final = ("Quote", "Trade", "Note", "nyse", "eve~Quote", "scopes")
MEMBERS: Final = ("ada", "bob", "nyse", "xetra", "root", "east", "eve", "anonymous")
CONNECTED: Final = {"ada", "bob", "nyse", "xetra", "root", "eve"}
NAMES: Final = (
    *(
        "",
        "ada",
        "ada~1",
        "bob",
        "nyse",
        "nyse-2",
        "xetra",
        "root",
        "operator",
        "east",
        "scopes",
        "scopes@hub",
        "scopes~1",
    ),
    *("c:ada", "d:desk", "hub", "../../etc", "ada\x00", "*", "nyse~", "eve", "anonymous"),
)
DURABLES: Final = ("desk", "ada", "ada~inbox", "bob~inbox", "c:ada#s1", "../desk", "free", "scopes@hub")
FILTERS: Final = (
    *("true", 'symbol = "IBM"', 'symbol = "SUN"', 'symbol in {"SAP", "SUN"}', 'not symbol = "IBM"', "n > 3"),
    *('symbol = "SAP" or n > 3', "exists secret", 'type = "scope change"', "absent symbol"),
)
POLICY: Final = {
    "roles": {
        "ada": {"members": ["ada"], "subscribe": ['symbol = "IBM"'], "durables": ["desk"]},
        "bob": {
            "members": ["bob"],
            "subscribe": ['symbol in {"IBM", "SAP"}'],
            "durables": ["desk", "scopes*"],
        },
        "nyse": {
            "members": ["nyse"],
            "publish": ['symbol in {"IBM", "SAP"}'],
            "producers": ["nyse-2"],
            "types": ["Quote", "Trade"],
        },
        "xetra": {"members": ["xetra"], "publish": ['symbol = "SAP"'], "types": ["Quote"]},
        "root": {
            "members": ["root"],
            "subscribe": ['symbol in {"IBM", "SAP", "SUN"}'],
            "publish": ['symbol in {"IBM", "SAP", "SUN"}'],
            "allow": ["connect", "inspect", "manage"],
            "clients": ["operator"],
        },
        "east": {"members": ["east"], "allow": ["link"]},
        "guest": {"members": ["eve"]},
    }
}


@dataclass
class Books:
    """The accounts of an attack: what was tried, and what came of it that the policy does not allow."""

    tried: Counter[str] = field(default_factory=Counter)
    came: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def check(self, what: str, *, allowed: bool, details: object) -> None:
        """Something has happened."""
        self.came[what] += 1
        if not allowed:
            self.wrong.append(f"{what}: {details}")


class Allowed:
    """The rights that `POLICY` gives, once more, as plain Python."""

    def __init__(self) -> None:
        self.revoked: set[str] = set()
        """Principals, by name, and tokens, as `token:ID`."""

    def connect(self, name: str) -> bool:
        """Whether a principal may connect."""
        return name in CONNECTED and name not in self.revoked

    def read(self, name: str, symbol: object) -> bool:
        """Whether a principal may get notifications of a symbol."""
        return name not in self.revoked and symbol in READS.get(name, ())

    def write(self, name: str, producer: str, symbol: object) -> bool:
        """Whether a principal may publish so."""
        return (
            self.connect(name) and symbol in WRITES.get(name, ()) and self.owns(name, "producers", producer)
        )

    @staticmethod
    def owns(name: str, kind: str, owned: str) -> bool:
        """Whether a producer, a type, or the name of a client or of a durable subscriber, is a principal's own."""
        if owned == "scopes" or owned.startswith(("scopes@", "scopes~")):
            return False
        return owned == name or owned.startswith(f"{name}~") or owned in OWNED[kind].get(name, ())


class _Peer:
    """The attacker's end of a connection."""

    def __init__(self) -> None:
        self._frames = wire.Frames()
        self.got: list[tuple[int, bytes]] = []

    def write(self, data: bytes) -> None:
        self.got += self._frames.feed(data)

    def buffered(self) -> int:
        return 0

    def close(self) -> None:
        """It has ended."""

    pause = resume = close


@dataclass(frozen=True)
class _Shown:
    """Credentials as they are shown; of a `name`, if they are good until then."""

    authorization: str
    name: str = ""
    id: str = ""
    until: int = LONG_US

    def good(self, allowed: Allowed, now: int) -> bool:
        """Whether they prove their name now."""
        return bool(self.name) and now < self.until and f"token:{self.id}" not in allowed.revoked


@dataclass
class _Client:
    principal: Principal
    peer: _Peer
    session: ClientSession
    shown: _Shown
    requested: list[str] = field(default_factory=list)

    def answers(self) -> list[wire.Control]:
        """The messages of the broker since they were looked at."""
        return [wire.parse_control(payload) for kind, payload in self.peer.got if kind == wire.CONTROL]


class Attack:
    """One attack, which a seed decides about. `make` makes the rule of the policy."""

    POLICY: ClassVar[Mapping[str, Any]] = POLICY
    ALLOWED: ClassVar[type[Allowed]] = Allowed

    def __init__(self, seed: int, make: type[Access] = Access) -> None:
        self._random = Random(seed)
        self.books = Books()
        self._policy = AccessPolicy.of(self.POLICY)
        self.node = Node(
            Broker("hub", Settings(STRATEGIES["covering"](0.1)), rules=self._rules(make)),
            Ledger("/log", MemoryDisk()),
            life="1",
        )
        key = {"kty": "oct", "k": base64.urlsafe_b64encode(KEY).decode().rstrip("="), "alg": "HS256"}
        self._authenticator = Authenticator(Tokens({"one": jwt.PyJWK(key, "HS256")}, audience="fairlead"))
        self.node.clientele.principal_of = lambda shown, now: self._authenticator.principal(shown, None, now)
        self._shown: deque[_Shown] = deque(maxlen=30)
        """Tokens that somebody has overheard."""
        self._allowed = self.ALLOWED()
        self._clients: list[_Client] = []
        self._published: deque[tuple[str, str]] = deque(maxlen=100)
        """Identities that are published."""
        self._owners: dict[str, str] = {}
        """By type that was declared, its owner."""
        self._number = 0
        self._now = 1

    def _rules(self, make: type[Access]) -> list[Rule]:
        """The rules of the broker."""
        return [make(self._policy, nobody)]

    def _tick(self) -> None:
        """Time passes."""
        self.node.guard.tick(self._now)

    def _will(self, who: str, own: str) -> bytes:
        """The will of a client that connects under a name as a principal."""
        return b""

    # -- the attack ------------------------------------------------------------------------------------------

    def run(self, tries: int) -> Books:
        """Try so many times."""
        for _ in range(tries):
            self._now += 1
            self._tick()
            attempt = self._random.choice(self._ATTEMPTS)
            self.books.tried[attempt.__name__] += 1
            attempt(self)
            self._work()
            self._look()
        return self.books

    def _token(self, name: str, until: int, key: bytes = KEY, **claims: Any) -> tuple[str, str]:
        """A token, and its id."""
        id = f"t{self._next()}"
        given = {"sub": name, "aud": "fairlead", "exp": until / 1e6, "jti": id, **claims}
        algorithm = "none" if not key else "HS256"
        return str(bearer(jwt.encode(given, key or "", algorithm, headers={"kid": "one"}))), id

    def _credentials(self, name: str) -> _Shown:
        """Those of a principal, mostly; of nobody, forged, for others, or overheard."""
        if name == "anonymous":
            return _Shown("", name)
        chance = self._random.random()
        if chance < 0.8:
            until = LONG_US if chance < 0.6 else self._now + SHORT_US
            authorization, id = self._token(name, until)
            self._shown.append(_Shown(authorization, name, id, until))
            return self._shown[-1]
        if chance < 0.92 and self._shown:
            self.books.tried["replay"] += 1
            return self._random.choice(self._shown)
        good, _ = self._token(name, LONG_US)
        forged = (
            lambda: self._token(name, LONG_US, b"another key of thirty-two bytes!")[0],
            lambda: self._token(name, LONG_US, b"")[0],
            lambda: self._token(name, LONG_US, aud="another")[0],
            lambda: self._token(name, LONG_US, nbf=LONG_US / 1e6)[0],
            lambda: self._token(name, self._now)[0],
            lambda: good[:-4] + ("AAAA" if good[-4:] != "AAAA" else "BBBB"),
            lambda: f"Basic {base64.b64encode(f'{name}:x'.encode()).decode()}",
            lambda: f"Internal {good}",
            lambda: name,
        )
        return _Shown(self._random.choice(forged)())

    def _connect(self) -> None:
        asked = self._random.choice(MEMBERS)
        shown = self._credentials(asked)
        try:
            principal = self._authenticator.principal(shown.authorization, None, self._now)
        except NotAuthenticated:
            self.books.came["refused credentials"] += 1
            return
        name = principal.name
        proven = name == shown.name and self._now < shown.until
        self.books.check("proof", allowed=proven, details=(asked, name, shown))
        own = self._random.choice((name, f"{name}~1", *NAMES)) if self._random.random() < 0.5 else name
        hello = wire.Hello(
            wire.VERSION,
            self._random.choice(("client", "client", "client", "broker", "root")),
            own,
            life="x",
            log="theirs",
            routing="filters",
            is_made_up=self._random.random() < 0.3,
            will=self._will(name, own),
        )
        peer = _Peer()
        try:
            session = self.node.greet(peer, hello, self._now, principal)
        except ProtocolError:
            return
        if hello.role == "broker":
            is_right = name == "east" == hello.name and "east" not in self._allowed.revoked
            allowed = is_right and shown.good(self._allowed, self._now)
            self.books.check("link", allowed=allowed, details=(name, hello.name))
            session.end("enough")
            with contextlib.suppress(FairleadError):
                self.node.neighbourhood.unlink(hello.name, self._now)
            return
        assert isinstance(session, ClientSession)
        is_chosen = hello.name and not hello.is_made_up
        owns = (
            self._allowed.owns(name, "clients", session.name)
            if is_chosen
            else session.name.startswith(f"{name}~")
        )
        allowed = self._allowed.connect(name) and owns and shown.good(self._allowed, self._now)
        self.books.check("connection", allowed=allowed, details=(name, session.name))
        self._clients.append(_Client(principal, peer, session, shown))
        if len(self._clients) > 12:
            self._clients.pop(0).session.lost()

    def _client(self) -> _Client | None:
        self._clients = [each for each in self._clients if not each.session.ended]
        return self._random.choice(self._clients) if self._clients else None

    def _send(self, client: _Client, *frames: bytes) -> None:
        received = [*wire.Frames().feed(b"".join(frames))]
        self.node.receive(client.session, received, self._now)

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _publish(self) -> None:
        client = self._client()
        if client is None:
            return
        frames = []
        for _ in range(self._random.randint(1, 4)):
            with contextlib.suppress(FairleadError):
                packed = self._publication(client.principal.name, client.session.name)
                frames.append(wire.publish(self._random.choice((0, self._number)), packed))
        self._send(client, *frames)

    def _publication(self, who: str, own: str) -> bytes:
        """Something that a principal may try to publish over a connection of this name."""
        producer = self._random.choice(("",) * 8 + (*NAMES, own))
        symbol: Any = self._random.choice((*SYMBOLS, *SYMBOLS, {"nested": "IBM"}, ["IBM"], None))
        given: dict[str, Any] = {"n": self._random.randint(0, 9), "symbol": symbol}
        if self._random.random() < 0.2:
            given["type"] = "scope change"
        elif self._random.random() < 0.3:
            given["type"] = type = self._random.choice(TYPES)
            given["owner"] = self._owners.get(type, "")
        if self._random.random() < 0.1:
            given["n"] = 1 << 80  # JSON text
        given |= {"id": str(self._next()), "by": who, "as": own, **self._more()}
        return pack(Notification.of({**given, **({"producer": producer} if producer else {})}))

    def _more(self) -> dict[str, Any]:
        """Further attributes of a publication."""
        return {}

    def _guess(self) -> None:
        """Try an identity that may have been published, to learn whether it was."""
        client = self._client()
        if client is not None and self._published:
            producer, id = self._random.choice(self._published)
            number = self._next()
            given: dict[str, Any] = {
                "n": 1,
                "symbol": self._random.choice(SYMBOLS),
                "by": client.principal.name,
            }
            if self._random.random() < 0.3:
                given["n"] = 1 << 80
            packed = pack(
                Notification.of({**given, "as": client.session.name, "producer": producer, "id": id})
            )
            self._send(client, wire.publish(number, packed))
            self._work()
            if wire.Repeated(number) in client.answers():
                allowed = self._is_own_producer(client, producer)
                self.books.check("duplicate", allowed=allowed, details=(client.principal.name, producer, id))

    def _is_own_producer(self, client: _Client, producer: str) -> bool:
        own = client.session.name
        is_of_scopes = own == "scopes" or own.startswith(("scopes@", "scopes~"))
        return (producer in (own, f"c:{own}") and not is_of_scopes) or self._allowed.owns(
            client.principal.name, "producers", producer
        )

    def _subscribe(self) -> None:
        client = self._client()
        if client is not None:
            text, durable = self._random.choice(FILTERS), self._random.choice(("", "", *DURABLES))
            since = self._random.choice((None, None, 0))
            number, id = self._next(), self._random.choice(("s1", "s2", f"{durable}:{text}"))
            client.requested.append(text)
            self._send(client, wire.control(wire.Subscribe(number, id, text, durable, since)))

    def _ask_for(self) -> None:
        client = self._client()
        if client is None:
            return
        number, name = self._next(), self._random.choice((*NAMES, *DURABLES))
        message = self._random.choice(
            (
                wire.ReportRequest(number, self._random.choice(("status", "tables", "durables"))),
                wire.Operate(number, self._random.choice(("end", "drain", "resume", "reload")), name),
                wire.Link(number, "fairlead://127.0.0.1:1"),
                wire.Unlink(number, name),
                wire.Unsubscribe(number, "", name),
                wire.Listen(number, "l", self._random.choice(FILTERS)),
                wire.Advertise(number, "a", self._random.choice(FILTERS)),
            )
        )
        is_free = isinstance(message, wire.Listen | wire.Advertise | wire.Unsubscribe)
        before = {**self.node.durables}
        self._send(client, wire.control(message))
        self._work()
        done = any(
            isinstance(each, wire.Done | wire.Response) and each.number == number for each in client.answers()
        )
        who = client.principal.name
        if done and not is_free:
            allowed = who == "root" and who not in self._allowed.revoked
            self.books.check("operation", allowed=allowed, details=(who, message))
        for ended in before.keys() - self.node.durables.keys():
            allowed = who == "root" or self._allowed.owns(who, "durables", ended) or before[ended].ends
            self.books.check("end of a durable subscriber", allowed=allowed, details=(who, ended))
        if isinstance(message, wire.Listen) and done:
            self.books.check("listening", allowed=self._may_listen(who), details=who)

    def _declare(self) -> None:
        """Declare types, or remove them: one's own, and others'."""
        client = self._client()
        if client is None:
            return
        number, name, who = self._next(), self._random.choice(TYPES), client.principal.name
        message = self._random.choice(
            (
                wire.DeclareType(number, name, publish=self._random.choice(([], ["n > 3"]))),
                wire.DeclareType(number, name, self._random.choice(([], ["n > 3"])), form=["n >= 0"]),
                wire.RemoveType(number, name),
                wire.ReportRequest(number, "types"),
            )
        )
        self._send(client, wire.control(message))
        self._work()
        if not any(
            isinstance(each, wire.Done | wire.Response) and each.number == number for each in client.answers()
        ):
            return
        is_there, is_root = who not in self._allowed.revoked, who == "root"
        match message:
            case wire.DeclareType():
                free = self._owners.get(name, who) == who
                owns = is_there and free and self._allowed.owns(who, "types", name)
                self.books.check("declaration", allowed=owns, details=(who, name, self._owners))
                self._owners[name] = who
            case wire.RemoveType():
                allowed = is_there and (self._owners.get(name, who) == who or is_root)
                self.books.check("removal", allowed=allowed, details=(who, name, self._owners))
                self._owners.pop(name, None)
            case _:
                self.books.check("operation", allowed=is_there and is_root, details=(who, message))

    def _renew(self) -> None:
        client = self._client()
        if client is not None:
            shown = self._credentials(self._random.choice((client.principal.name, *MEMBERS)))
            before = self.node.guard.principal(client.session.client).name
            self._send(client, wire.control(wire.Authenticate(self._next(), shown.authorization)))
            if not client.session.ended:
                after = self.node.guard.principal(client.session.client)
                if after.token == shown.id != client.shown.id:
                    good = shown.name == before and shown.good(self._allowed, self._now)
                    self.books.check("new credentials", allowed=good, details=shown)
                    client.shown = shown
                is_same = after.name == before and after.token == client.shown.id
                self.books.check("renewal", allowed=is_same, details=(before, after))

    def _forge(self) -> None:
        """Frames of brokers, and of durable subscribers that are others'."""
        client = self._client()
        if client is not None:
            number = self._next()
            packed = pack(
                Notification.of({"symbol": "IBM", "producer": "nyse", "id": f"f{number}", "by": "eve"})
            )
            frame = self._random.choice(
                (
                    wire.relay(number, wire.NO_STAMP, packed),
                    wire.control(wire.Table([("true", "")], [])),
                    wire.control(wire.InterestsChanged([("true", "")], [])),
                    wire.control(wire.Accept(self._random.choice(DURABLES), [1, 2, number])),
                    wire.control(wire.Reject(self._random.choice(DURABLES), number, True)),
                    wire.control(wire.Release(number, self._random.choice(DURABLES))),
                )
            )
            self._send(client, frame)

    def _change_policy(self) -> None:
        """Revoke somebody, a token, or nothing. From this moment on it holds."""
        overheard = [f"token:{each.id}" for each in self._shown]
        some = self._random.choice((MEMBERS[:-1], overheard))
        self._allowed.revoked = set(
            self._random.sample(some, min(len(some), self._random.choice((0, 0, 1, 1))))
        )
        self.node.guard.decide_by(self._policy.revoking(*self._allowed.revoked), self._now)

    def _leave(self) -> None:
        client = self._client()
        if client is not None:
            client.session.lost()

    _ATTEMPTS: ClassVar[tuple[Callable[[Any], None], ...]] = (
        *(_connect,) * 16,
        *(_publish,) * 40,
        *(_guess,) * 4,
        *(_subscribe,) * 16,
        *(_ask_for,) * 8,
        *(_declare,) * 3,
        _renew,
        _forge,
        _change_policy,
        _leave,
    )

    # -- what came of it -------------------------------------------------------------------------------------

    def _work(self) -> None:
        assert self.node.ledger is not None
        self.node.operations.is_draining = False
        self.node.flush()
        while self.node.wants_sync or self.node.is_busy:
            if self.node.wants_sync:
                self.node.synced(self.node.ledger.log.sync())
            self.node.flush()

    def _look(self) -> None:
        for client in self._clients:
            name = client.principal.name
            for kind, payload in client.peer.got:
                if kind == wire.DELIVER:
                    self._delivered(client, unpack(wire.parse_deliver(payload)[2]))
            client.peer.got.clear()
            if not client.session.ended:
                allowed = self._allowed.connect(name) and client.shown.good(self._allowed, self._now)
                self.books.check("stay", allowed=allowed, details=(name, client.session.name))
        for name, durable in self.node.durables.items():
            if durable.session is not None and not durable.ends:
                who = self.node.guard.principal(durable.session.client).name
                owns = self._allowed.owns(who, "durables", name)
                self.books.check("durable subscriber", allowed=owns, details=(who, name))

    def _delivered(self, client: _Client, notification: Notification) -> None:
        who, by = client.principal.name, str(notification.get("by"))
        wanted = any(parse(text).matches(notification) for text in client.requested)
        valid = f"token:{client.shown.id}" not in self._allowed.revoked and self._now < client.shown.until
        allowed = wanted and valid and self._allowed.read(who, notification.get("symbol"))
        self.books.check("delivery", allowed=allowed, details=(who, notification, self._allowed.revoked))
        own = str(notification.get("as"))
        known = notification.producer in (own, f"c:{own}") and (
            own == by or own.startswith((f"{by}~", "operator"))
        )
        self._published.append((notification.producer, str(notification.id)))
        written = self._may_have_written(by, notification.get("symbol")) and (
            known or self._allowed.owns(by, "producers", notification.producer)
        )
        owner, n = notification.get("owner", ""), notification.get("n")
        is_theirs = not owner or owner == by or (isinstance(n, int) and n > 3)
        self.books.check("publication of a type", allowed=is_theirs, details=(by, notification))
        self.books.check("publication", allowed=written, details=(by, notification))

    def _may_have_written(self, by: str, symbol: object) -> bool:
        """Whether a principal could ever publish that."""
        return symbol in WRITES.get(by, ())

    def _may_listen(self, who: str) -> bool:
        """Whether a principal may learn who wants something."""
        return who in WRITES
