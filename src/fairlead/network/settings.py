"""What a broker is run with, and the file that says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from fairlead.broker import Broker, Settings
from fairlead.configuration import (
    Format,
    Key,
    Reading,
    Wrong,
    all_of,
    count,
    expected,
    flag,
    one_of,
    read_toml,
    text,
    texts,
)
from fairlead.correlation.patterns.durations import duration_of
from fairlead.errors import FairleadError, NetworkError
from fairlead.network.addresses import PORT, Address, Tls
from fairlead.network.diagnostics import FORMS, LEVELS
from fairlead.network.outbox import WINDOW
from fairlead.network.wire import FRAME_MAX, FRAME_MIN
from fairlead.routing import STRATEGIES

__all__ = [
    "BLOCK",
    "BROKER_FILE",
    "COMMON",
    "DISCONNECT",
    "DROP",
    "POLICIES",
    "PORT",
    "Address",
    "BrokerSettings",
    "Limits",
    "Tables",
    "Tls",
    "agreed",
    "common_settings",
    "common_tables",
    "http_url",
    "read_settings",
    "settings_from",
    "under",
]

BLOCK, DROP, DISCONNECT = POLICIES = ("block", "drop", "disconnect")
"""What happens when a client is slow: publishers wait for it, the oldest are left out and counted, it must go."""
HERE: Final = Address("127.0.0.1", PORT)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a broker takes on."""

    clients: int = 20_000
    frame_bytes: int = FRAME_MAX
    buffer_bytes: int = 1 << 20
    queue: int = 10_000
    queue_bytes: int = 1 << 26
    window: int = WINDOW
    link_window: int = 4 * WINDOW
    block_seconds: int = 60
    """How long a client may hold up those who publish for it, and say nothing."""
    texts: int = 100_000


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """All that a broker is run with."""

    name: str = "broker"
    listen: Address = HERE
    data: str | None = "fairlead-data"
    """The directory of its log; None: it keeps none."""
    links: tuple[str, ...] = ()
    expects: str = ""
    """Who is at the address of `links`, where it is one and that is known: nobody else is linked with there."""
    neighbours: tuple[str, ...] | None = None
    """Whom it is linked to, where all links are known: others it was linked to before are forgotten."""
    algorithm: str = "covering"
    imperfection: float = 0.1
    advertisements: str | None = None
    keep_seconds: float | None = None
    keep_bytes: int | None = None
    limits: Limits = Limits()
    tls: Tls | None = None
    http: Address | None = None
    log_level: str = "warning"
    log_format: str = "text"
    access_log: bool = False
    health: Address | None = None
    """Where health and metrics are served by themselves, beside HTTP."""

    @property
    def routing(self) -> Settings:
        """How the state machine routes."""
        strategy = STRATEGIES[self.algorithm](self.imperfection)
        advertisements = (
            None if self.advertisements is None else STRATEGIES[self.advertisements](self.imperfection)
        )
        return Settings(strategy, advertisements, lasting=True)

    def broker(self) -> Broker:
        """The state machine, as it is set here."""
        return Broker(self.name, self.routing)


def agreed(routing: Settings) -> str:
    """What all brokers of a network agree on: who asks nobody gets nothing from who waits to be asked."""
    ways = "flooding" if routing.strategy.initial() else "filters"
    return ways if routing.advertisements is None else f"{ways} and advertisements"


# -- the file --------------------------------------------------------------------------------------------------


def _address(given: Any) -> Address:
    try:
        return Address.parse(text(given))
    except FairleadError as error:
        raise Wrong(str(error)) from None


def _addresses(given: Any) -> tuple[str, ...]:
    return tuple(str(_address(each)) for each in texts(given))


def _seconds(given: Any) -> float:
    if not isinstance(given, str):  # 7 what?
        raise expected('a duration with its unit, such as "7d",', given)
    try:
        return duration_of(given) / 1e6
    except (FairleadError, TypeError) as error:
        raise Wrong(str(error)) from None


def _share(given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise expected("a number from 0 to 1", given)
    if not 0 <= given <= 1:
        raise Wrong(f"a number from 0 to 1 was expected, not {given}")
    return float(given)


BYTES_MAX: Final = 1 << 50

BROKER_FILE: Final[Format] = {
    "": {
        "name": Key(text, "what the broker is called; no two of a network have one name", "broker"),
        "listen": Key(_address, "where it listens", HERE, f"127.0.0.1:{PORT}"),
        "data": Key(text, "the directory of its log", "fairlead-data"),
        "memory": Key(flag, "it keeps no log, and nothing is durable", False),
        "links": Key(_addresses, "the brokers it calls, and stays linked to", ()),
    },
    "routing": {
        "algorithm": Key(one_of(*STRATEGIES), "how subscriptions travel between brokers", "covering"),
        "imperfection": Key(_share, "how much more than asked for imperfect merging may let in", 0.1),
        "advertisements": Key(
            one_of(*STRATEGIES), "how advertisements travel; if it is set, who publishes has to advertise"
        ),
    },
    "retention": {
        "time": Key(
            _seconds, "how long records are kept, at least, for those who ask for the past", None, "for ever"
        ),
        "bytes": Key(
            count(1 << 20, BYTES_MAX), "how large the log may grow before old records go", None, "no limit"
        ),
    },
    "limits": {
        "clients": Key(count(1, 1_000_000), "how many clients may be connected", 20_000),
        "frame_bytes": Key(count(FRAME_MIN, 1 << 24), "the longest frame that is taken", FRAME_MAX),
        "buffer_bytes": Key(
            count(1 << 12, 1 << 30),
            "how much may be under way to one connection before it counts as slow",
            1 << 20,
        ),
        "queue": Key(
            count(1, 10_000_000), "how many notifications wait for a slow client, beyond that", 10_000
        ),
        "queue_bytes": Key(count(1 << 12, 1 << 34), "and how many bytes of them", 1 << 26),
        "block_seconds": Key(
            count(1, 1_000_000),
            "how long a client with the policy `block` may hold up others, take nothing and say nothing",
            60,
        ),
        "window": Key(
            count(1, 1_000_000), "how many may be under way to a durable subscriber, not accepted", WINDOW
        ),
        "link_window": Key(
            count(1, 1_000_000), "how many may be under way to a neighbour, not safe there", 4 * WINDOW
        ),
        "texts": Key(
            count(1, 10_000_000), "how many filters' texts are remembered as they were read", 100_000
        ),
    },
    "tls": {
        "certificate": Key(text, "the file with the broker's certificate, and those that vouch for it"),
        "key": Key(text, "the file with its key"),
        "authority": Key(text, "the file with the certificates that are trusted", None, "the system's"),
        "mutual": Key(flag, "whoever connects has to show a certificate of the `authority`, too", False),
        "names": Key(
            flag, "a neighbour's certificate has to be for its name: as the CN, or a DNS name", False
        ),
    },
    "log": {
        "level": Key(
            one_of(*LEVELS), "which log messages are written: those of this level, and above", "warning"
        ),
        "format": Key(one_of(*FORMS), "the form of log messages: lines of text, or of JSON", "text"),
        "access": Key(flag, "every HTTP request is logged, at the level `info`", False),
    },
    "http": {
        "listen": Key(_address, "where HTTP is served", None, "nowhere"),
        "health": Key(
            _address,
            "where health and metrics are served, whatever happens at `listen`",
            None,
            "nowhere",
        ),
    },
}
"""`broker.toml`. Every key may be left out."""
COMMON: Final = ("routing", "retention", "limits", "tls", "log")
"""The tables that brokers can have in common."""
Tables: TypeAlias = dict[str, dict[str, Any]]


def settings_from(given: Mapping[str, Any], source: str, directory: Path | None = None) -> BrokerSettings:
    """What the tables of a broker's file say; NetworkError names all that is wrong.

    Paths are relative to `directory`.
    """
    reading = Reading(BROKER_FILE)
    top = reading.top(given)
    common = common_settings(reading, directory, common_tables(reading, given))
    served = reading.table("http", given.get("http", {}))
    http, health = served["listen"], served["health"]
    if health is not None and http is None:
        reading.wrong("http", "[http] health", "health is served beside HTTP: say where to `listen`, too")
    if top["memory"] and "data" in given:
        reading.wrong("", "memory", "a broker without a log has no directory for it: leave out one of both")
    if http is not None and http.port and http[:2] == top["listen"][:2]:
        reading.wrong("http", "[http] listen", f"the broker itself listens at port {http.port}")
    if reading.problems:
        raise all_of(reading.problems, source, NetworkError)
    return replace(
        common,
        name=top["name"],
        listen=top["listen"]._replace(secure="tls" in given),
        data=None if top["memory"] else under(directory, top["data"]),
        links=top["links"],
        http=http,
        health=health,
    )


def common_tables(reading: Reading, given: Mapping[str, Any], prefix: str = "") -> Tables:
    """What is said in the tables that brokers can have in common, and nothing else; defaults come later."""
    said = {}
    for name in COMMON:
        if name in given:
            read, written = reading.table(name, given[name], f"[{prefix}{name}]"), given[name]
            said[name] = {key: read[key] for key in read if isinstance(written, Mapping) and key in written}
    return said


def common_settings(
    reading: Reading, directory: Path | None, for_all: Tables, own: Tables | None = None, prefix: str = ""
) -> BrokerSettings:
    """What these tables make of a broker: of its `own` ones, each key goes before what is `for_all`."""
    own = own or {}
    table = {
        name: {
            **{key: each.default for key, each in BROKER_FILE[name].items()},
            **for_all.get(name, {}),
            **own.get(name, {}),
        }
        for name in COMMON
    }
    has_tls = "tls" in for_all or "tls" in own
    return BrokerSettings(
        algorithm=table["routing"]["algorithm"],
        imperfection=table["routing"]["imperfection"],
        advertisements=table["routing"]["advertisements"],
        keep_seconds=table["retention"]["time"],
        keep_bytes=table["retention"]["bytes"],
        limits=Limits(**table["limits"]),
        tls=_tls(reading, directory, table["tls"], own.get("tls", {}), prefix) if has_tls else None,
        log_level=table["log"]["level"],
        log_format=table["log"]["format"],
        access_log=table["log"]["access"],
    )


def _tls(
    reading: Reading, directory: Path | None, said: Mapping[str, Any], own: Mapping[str, Any], prefix: str
) -> Tls:
    """The certificates, where they are files, and as many as are needed."""
    files = {key: under(directory, said[key]) for key in ("certificate", "key", "authority")}

    def wrong(key: str, problem: str) -> None:
        table = f"[{prefix}tls]" if key in own or (own and not key) else "[tls]"
        place = f"{table} {key}".strip()
        if f"{place}: {problem}" not in reading.problems:  # once, though it is so for all brokers
            reading.wrong("tls", place, problem)

    if "tls" not in reading.unsound:
        if not (said["certificate"] and said["key"]):
            wrong("", "certificate and key are both needed")
        if said["mutual"] and not said["authority"]:
            wrong("mutual", "whose certificates are believed? that takes an authority")
        if said["names"] and not said["mutual"]:
            wrong("names", "who shows no certificate has no name in it: that takes `mutual = true`")
    for key, file in files.items():
        if file is not None and not Path(file).is_file():
            wrong(key, f"there is no file {file}")
    return Tls(**files, mutual=said["mutual"], names=said["names"])


def http_url(address: Address) -> str:
    """Where HTTP is served, as browsers write it."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"http{'s' if address.secure else ''}://{host}:{address.port}"


def under(directory: Path | None, path: str | None) -> str | None:
    """A path that stands in a file, from that file's directory."""
    return path if path is None or directory is None else str(directory / path)


def read_settings(path: str | Path) -> BrokerSettings:
    """What a broker's file says."""
    given = read_toml(path, NetworkError, "see docs/network.md for the file's form")
    return settings_from(given, str(path), Path(path).parent)
