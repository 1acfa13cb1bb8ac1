"""The settings of a broker, and the file that has them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

from fairlead.broker import Broker, Settings
from fairlead.channels import Channel, Channels
from fairlead.configuration import (
    PATH,
    Key,
    Kind,
    Off,
    Reading,
    Tables,
    Wrong,
    count,
    file_of,
    made,
    number,
    one_of,
    parsed,
    read_toml,
    text,
    texts,
)
from fairlead.errors import FairleadError, NetworkError
from fairlead.filters.extensions import load, load_entry_points
from fairlead.filters.schema import Schema
from fairlead.matching.columnar.engine import Columnar
from fairlead.matching.columnar.loading import Kernels
from fairlead.model.durations import duration_of, render_duration
from fairlead.network.addresses import PORT, Address, Tls
from fairlead.network.diagnostics import FORMS, LEVELS
from fairlead.network.outbox import WINDOW
from fairlead.network.wire import FRAME_MAX, FRAME_MIN
from fairlead.routing import STRATEGIES, Catalogue, Flooding
from fairlead.rules import Rule
from fairlead.rules.access import Access, nobody
from fairlead.rules.channeling import Channeling
from fairlead.rules.domains import Domains
from fairlead.rules.hooks import Hooks, load_hook
from fairlead.rules.quota import Quota
from fairlead.rules.sealing import Sealing
from fairlead.rules.trust import Trust
from fairlead.security import AccessPolicy
from fairlead.security.settings import Security

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
    "Tls",
    "agreed",
    "check_channels",
    "check_tls",
    "common_settings",
    "common_tables",
    "http_url",
    "mqtt_address",
    "mqtt_url",
    "read_settings",
    "settings_from",
    "under",
]

BLOCK, DROP, DISCONNECT = POLICIES = ("block", "drop", "disconnect")
"""The overflow policies for a slow client: publishers wait for it, the oldest are left out and counted, it
must go."""
OPEN: Final = Security()
HERE: Final = Address("127.0.0.1", PORT)
MQTT_PORT: Final = 1883
TOPIC: Final = "fairlead/{type}/{producer}"
TOPIC_ATTRIBUTE: Final = re.compile(r"\{[^{}/]+\}")


BYTES_MAX: Final = 1 << 50


def http_url(address: Address) -> str:
    """The URL of HTTP at an address."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"http{'s' if address.secure else ''}://{host}:{address.port}"


ADDRESS: Final = Kind(parsed(Address.parse), str)
SECONDS: Final = Kind(
    parsed(lambda given: duration_of(given) / 1e6, 'a duration with its unit, such as "7d",'),
    lambda seconds: render_duration(round(seconds * 1e6)),
)
HTTP: Final = Kind(ADDRESS.read, http_url)


def mqtt_url(address: Address) -> str:
    """The URL of MQTT at an address."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"mqtt{'s' if address.secure else ''}://{host}:{address.port}"


def mqtt_address(given: str) -> Address:
    """`mqtt://host:1883`, `host:1883`, `:1883` or `host`: with TLS where the broker has a certificate."""
    place = given.removeprefix("mqtt://").removeprefix("mqtts://")
    address = Address.parse(place)
    return address if re.search(r":\d+$", place) else address._replace(port=MQTT_PORT)


MQTT: Final = Kind(parsed(mqtt_address), mqtt_url)


def topic_template(given: Any) -> str:
    """A topic with places for attributes, whose first level has none."""
    read = text(given)
    first, *others = read.split("/")
    if not first or "{" in first or set("+#\0") & set(read):
        raise Wrong("it begins with a level of its own, such as `fairlead/{type}`, and has no wildcards")
    for level in others:
        if ("{" in level or "}" in level) and not TOPIC_ATTRIBUTE.fullmatch(level):
            raise Wrong(f"a level is a text or one attribute in braces, not {level!r}")
    return read


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a broker."""

    clients: Annotated[int, Key("how many clients may be connected", count(1, 1_000_000))] = 20_000
    frame_bytes: Annotated[int, Key("the longest frame that is taken", count(FRAME_MIN, 1 << 24))] = FRAME_MAX
    buffer_bytes: Annotated[
        int,
        Key(
            "how many bytes may be in flight to one connection before it counts as slow",
            count(1 << 12, 1 << 30),
        ),
    ] = 1 << 20
    queue: Annotated[
        int, Key("how many notifications wait for a slow client, beyond that", count(1, 10_000_000))
    ] = 10_000
    queue_bytes: Annotated[int, Key("and how many bytes of them", count(1 << 12, 1 << 34))] = 1 << 26
    memory_bytes: Annotated[
        int,
        Key(
            "how much memory all connections may use; beyond that, the one that uses most is ended",
            count(1 << 20, BYTES_MAX),
        ),
    ] = 1 << 29
    subscriptions: Annotated[
        int, Key("how many subscriptions and advertisements a client may have", count(1, 10_000_000))
    ] = 10_000
    filter_bytes: Annotated[int, Key("the longest text of a client's filter", count(1, 1 << 24))] = 1 << 16
    constraints: Annotated[
        int, Key("how many constraints a client's filter may have", count(1, 1_000_000))
    ] = 500
    attributes: Annotated[
        int,
        Key("how many attributes and elements of lists a notification may have", count(1, 1_000_000)),
    ] = 10_000
    identity_bytes: Annotated[
        int, Key("how long producer and id of a notification may be together", count(64, 1 << 20))
    ] = 1_000
    handshake_seconds: Annotated[
        int,
        Key(
            "how long a connection may take for its TLS handshake, and then to introduce itself",
            count(1, 1_000),
        ),
    ] = 10
    block_seconds: Annotated[
        int,
        Key(
            "how long a client with the policy `block` may block publishers while it neither receives nor sends",
            count(1, 1_000_000),
        ),
    ] = 60
    window: Annotated[
        int, Key("how many notifications may be in flight to a durable subscriber", count(1, 1_000_000))
    ] = WINDOW
    link_window: Annotated[
        int, Key("how many notifications may be in flight to a neighbour", count(1, 1_000_000))
    ] = 4 * WINDOW
    lease_max: Annotated[
        float | None,
        Key(
            "for how long a durable subscriber is kept at most while nobody is there, whatever it asks for",
            SECONDS,
            shown="for ever",
        ),
    ] = None
    texts: Annotated[
        int, Key("how many filters' texts are remembered as they were read", count(1, 10_000_000))
    ] = 100_000

    @property
    def lease_us(self) -> int:
        """The longest lease in microseconds; 0: for ever."""
        return 0 if self.lease_max is None else max(1, round(self.lease_max * 1e6))


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """All that a broker is run with. The fields with a key are the format of `broker.toml`."""

    name: Annotated[str, Key("what the broker is called; no two of a network have one name")] = "broker"
    listen: Annotated[Address, Key("where it listens", ADDRESS)] = HERE
    data: Annotated[
        str | None,
        Key("the directory of its log", PATH),
        Off("memory", "it has no log, and nothing is durable"),
    ] = "fairlead-data"
    links: Annotated[
        tuple[str, ...],
        Key(
            "the brokers it calls, and stays linked to",
            lambda given: tuple(str(ADDRESS.read(each)) for each in texts(given)),
        ),
    ] = ()
    expects: str = ""
    """The broker that is at the address of `links`, where that is known: nobody else is linked with there."""
    neighbours: tuple[str, ...] | None = None
    """The brokers it is linked to, where all links are known: others it was linked to before are
    forgotten."""
    overlay: Mapping[str, tuple[str, ...]] | None = None
    """By broker, its neighbours, where the links of the whole network are known."""
    schema: Annotated[
        str | None,
        Key(
            "the file of types and attributes that publications are checked against, and filters are read with;"
            " the same at every broker",
            PATH,
            shown="none: every name is a type, and nothing is checked",
        ),
    ] = None
    extensions: Annotated[
        tuple[str, ...],
        Key(
            "types with operators, as `package.module:NAME`, beside those of installed packages; the same at every"
            " broker"
        ),
    ] = ()
    hooks: Annotated[
        tuple[str, ...],
        Key(
            "interceptors of what this broker's clients publish, subscribe to and get, as `package.module:NAME`,"
            " in their order"
        ),
    ] = ()
    algorithm: Annotated[
        str, Key("how subscriptions travel between brokers", one_of(*STRATEGIES), at="routing.")
    ] = "covering"
    imperfection: Annotated[
        float,
        Key(
            "the share of notifications beyond the subscriptions that imperfect merging may let in",
            number(0, 1),
            at="routing.",
        ),
    ] = 0.1
    advertisements: Annotated[
        str | None,
        Key(
            "how advertisements travel; if it is set, producers have to advertise",
            one_of(*STRATEGIES),
            at="routing.",
        ),
    ] = None
    hierarchical: Annotated[
        bool | tuple[str, ...],
        Key(
            "`true`: the brokers form a hierarchy, and filters travel to its root only; in `topology.toml`, a list"
            " of brokers: each is above its subtree, and they are peers",
            lambda given: given if isinstance(given, bool) else texts(given),
            at="routing.",
        ),
    ] = False
    cyclic: Annotated[
        bool,
        Key(
            "a second way between two brokers is redundancy: notifications take all ways, and one that fails is no"
            " loss; the same at every broker",
            at="routing.",
        ),
    ] = False
    parent: Annotated[
        str | None,
        Key(
            "in a hierarchy, the name of the broker above this one; `topology.toml` says it with its links",
            text,
            at="routing.",
            shown="none: it is the root",
        ),
    ] = None
    children: frozenset[str] = frozenset()
    """The brokers below this one, where the links of the whole network are known."""
    keep_seconds: Annotated[
        float | None,
        Key(
            "how long records are retained, at least, for subscriptions with `since`",
            SECONDS,
            at="retention.time",
            shown="for ever",
        ),
    ] = None
    keep_bytes: Annotated[
        int | None,
        Key(
            "how large the log may grow before old records are removed",
            count(1 << 20, BYTES_MAX),
            at="retention.bytes",
            shown="no limit",
        ),
    ] = None
    remember_seconds: Annotated[
        float,
        Key(
            "how long the identity of what was delivered is remembered, at least",
            SECONDS,
            at="identities.time",
        ),
    ] = 86_400.0
    remember_most: Annotated[
        int,
        Key(
            "how many are remembered, at most; each takes 18 bytes on disk and 2 in memory",
            count(1_000, 1_000_000_000),
            at="identities.most",
        ),
    ] = 5_000_000
    scopes: Annotated[
        str | None,
        Key(
            "the file of a scope graph: clients get only what their components may see; the same at every broker",
            PATH,
            at="scopes.file",
            shown="none: everybody sees everything",
        ),
    ] = None
    outsiders: Annotated[
        str,
        Key(
            "clients that the graph does not name: in the scope `default`, isolated, or refused",
            one_of("default", "isolated", "refused"),
            at="scopes.",
        ),
    ] = "default"
    seat: Annotated[
        str | None,
        Key(
            "the name of the broker, with a log, that decides about policies with a state or a time and about"
            " rules; the same at every broker",
            text,
            at="scopes.",
            shown="none: such graphs are refused",
        ),
    ] = None
    detectors: Annotated[
        tuple[str, ...],
        Key(
            "the names of the brokers, each with a log, that detect patterns and fair subscriptions for clients;"
            " the same at every broker",
            at="detection.hosts",
            shown="none: clients detect by themselves",
        ),
    ] = ()
    lateness_seconds: Annotated[
        float,
        Key(
            "how far behind the newest event others may be, and still be in time",
            SECONDS,
            at="detection.lateness",
        ),
    ] = 1.0
    detection_clock: Annotated[
        bool,
        Key(
            "time passes while nothing comes, as the clock of the host says: for events that have the time of now",
            at="detection.clock",
        ),
    ] = False
    linger_seconds: Annotated[
        float,
        Key(
            "how long a detector goes on after its last subscriber has gone",
            SECONDS,
            at="detection.linger",
        ),
    ] = 300.0
    keep_detector_seconds: Annotated[
        float,
        Key(
            "how long a detector goes on for a durable subscriber that is away",
            SECONDS,
            at="detection.keep",
        ),
    ] = 604_800.0
    channels: tuple[Channel, ...] = ()
    """The same at every broker, in the same order."""
    limits: Limits = Limits()
    tls: Tls | None = None
    security: Security = OPEN
    http: Annotated[Address | None, Key("where HTTP is served", HTTP, at="http.listen", shown="nowhere")] = (
        None
    )
    log_level: Annotated[
        str,
        Key(
            "which log messages are written: those of this level, and above", one_of(*LEVELS), at="log.level"
        ),
    ] = "warning"
    log_format: Annotated[
        str, Key("the form of log messages: lines of text, or of JSON", one_of(*FORMS), at="log.format")
    ] = "text"
    spans: Annotated[
        str | None,
        Key(
            "the collector that gets OpenTelemetry spans, such as `http://localhost:4318`",
            at="telemetry.spans",
            shown="nowhere",
        ),
    ] = None
    access_log: Annotated[bool, Key("every HTTP request is logged, at the level `info`", at="log.access")] = (
        False
    )
    health: Annotated[
        Address | None,
        Key(
            "where health and metrics are served, whatever happens at `listen`",
            HTTP,
            at="http.",
            shown="nowhere",
        ),
    ] = None
    origins: Annotated[
        tuple[str, ...],
        Key(
            "the sites, as `https://app.example.org`, whose pages may use HTTP here, besides its own",
            at="http.",
        ),
    ] = ()
    hosts: Annotated[
        tuple[str, ...],
        Key(
            "names, or patterns with `*`, under which HTTP without TLS is reached, besides addresses, `localhost`,"
            " the machine's name and the hosts of `origins`",
            at="http.",
        ),
    ] = ()

    mqtt: Annotated[
        Address | None,
        Key("where MQTT is served, with TLS as the broker itself", MQTT, at="mqtt.listen", shown="nowhere"),
    ] = None
    mqtt_topic: Annotated[
        str,
        Key(
            "the topic of notifications that have none: levels, and attributes as `{type}`",
            topic_template,
            at="mqtt.topic",
        ),
    ] = TOPIC

    @property
    def routing(self) -> Settings:
        """The settings of the state machine."""
        strategy = STRATEGIES[self.algorithm](self.imperfection)
        advertisements = (
            None if self.advertisements is None else STRATEGIES[self.advertisements](self.imperfection)
        )
        return Settings(
            strategy,
            advertisements,
            parent=self.parent,
            children=self.children,
            grows=self.hierarchical is True and self.overlay is None,
            redundant=self.cyclic,
            lasting=True,
        )

    def unkept(self) -> Iterator[tuple[str, str]]:
        """The promises that a combination of settings could not keep: the key, and why, in a sentence."""
        yield from (("[routing] cyclic", problem) for problem in self._unkept_by_redundancy())
        yield from (("[routing] hierarchical", problem) for problem in self._unkept_in_a_hierarchy())
        yield from (("[detection] hosts", problem) for problem in self._unkept_by_detectors())

    def _unkept_by_detectors(self) -> Iterator[str]:
        if not self.detectors:
            return
        if self.cyclic:
            yield (
                "by several ways, no broker knows that all before a moment has come, so that detectors would see"
                " no total order: leave `cyclic` out"
            )
        if self.advertisements is not None:
            yield "nobody has advertised what detectors publish: leave `advertisements` out"
        if self.data is None and self.name in self.detectors:
            yield "a detector goes on from the log where it was: leave `memory` out at hosts"
        if self.schema is not None:
            yield "detectors publish composites, whose types the schema does not have: leave `schema` out"
        if self.scopes is not None or self.security.policy is not None:
            yield (
                "composites would show what their subscribers may not see of the events: with [scopes] or an"
                " access policy, clients detect by themselves"
            )

    def _unkept_in_a_hierarchy(self) -> Iterator[str]:
        if self.hierarchical is False:
            if self.parent is not None:
                yield "`parent` is for a hierarchy: set `hierarchical = true`, too"
            return
        if self.algorithm == Flooding.name:
            yield "with flooding no filter travels, so there is no hierarchy of filters"
        if self.scopes is not None:
            yield (
                "who sees a notification is decided at its publisher's broker, and in a hierarchy that broker"
                " does not know who subscribes: with [scopes], brokers are peers"
            )

    def _unkept_by_redundancy(self) -> Iterator[str]:
        if not self.cyclic:
            return
        if self.hierarchical is not False:
            yield (
                "in a hierarchy one way leads up, and where it fails, what is acknowledged waits: with"
                " `cyclic`, brokers are peers"
            )
        if self.advertisements is not None:
            yield (
                "advertisements would keep filters from the way that is needed when another one fails: with"
                " `cyclic`, leave `advertisements` out"
            )
        if self.scopes is not None:
            yield (
                "who sees a notification is decided by the changes of the scope graph that came before it, and by"
                " several ways they come in several orders: with [scopes], leave `cyclic` out"
            )

    def broker(self) -> Broker:
        """The state machine, as it is set here."""
        # The event loop does not wait for the kernels of the matching engine.
        language = self.language
        catalogue = Catalogue(Columnar(schema=language, kernels=Kernels()), language)
        channels = self.read_channels(language)
        of_channels = (Channeling(channels),) if channels else ()
        of_schema = () if language is None else (Domains(language),)
        of_hooks = self._read_hooks().broker_rules if self.hooks else ()
        rules = (*of_schema, *of_channels, *self._rules(language), *of_hooks)
        return Broker(self.name, self.routing, catalogue=catalogue, rules=rules)

    def _read_hooks(self) -> Hooks:
        try:
            return Hooks(map(load_hook, self.hooks))
        except FairleadError as error:
            raise NetworkError(f"hooks: {error}") from error

    @property
    def language(self) -> Schema | None:
        """The schema, once all extensions are loaded. NetworkError where one of them cannot be."""
        try:
            load_entry_points()
            for name in self.extensions:
                load(name)
            return None if self.schema is None else Schema.read(self.schema)
        except FairleadError as error:
            raise NetworkError(str(error)) from error

    def read_channels(self, schema: Schema | None) -> Channels:
        """The channels, with their filters read; NetworkError where there cannot be such."""
        try:
            return Channels(self.channels, schema)
        except FairleadError as error:
            raise NetworkError(f"[[channels]]: {error}") from error

    def _rules(self, schema: Schema | None) -> tuple[Rule, ...]:
        policy = self.security.read_policy(schema)
        if policy is None:
            return self._scope_rules(schema)
        access = Access(policy, nobody)
        refused = UNTRUSTED if policy.trust.handles else ""
        if self.cyclic and policy.trust.handles:
            raise NetworkError(
                "[routing] cyclic: by several ways, filters reach brokers that are not trusted with them: with"
                " trust in the access policy, leave `cyclic` out"
            )
        trust = Trust(self.name, policy, self.overlay, self.security.tunnel(policy, self.name))
        rules = (access, Quota(access), trust, *self._sealing_rules(policy))
        return (*self._scope_rules(schema, refused), *rules)

    def _sealing_rules(self, policy: AccessPolicy) -> tuple[Rule, ...]:
        sealer = self.security.sealer(policy)
        return () if sealer is None else (Sealing(sealer),)

    def _scope_rules(self, schema: Schema | None, refused: str = "") -> tuple[Rule, ...]:
        if self.scopes is None:
            return ()
        from fairlead.rules.integrated import BrokerScoping
        from fairlead.scopes import Scopes

        try:
            scopes = Scopes.read(self.scopes, schema, outsiders=self.outsiders)  # type: ignore[arg-type]
            refused = refused or ("" if self.algorithm in NAMING else NAMELESS)
            return (BrokerScoping(scopes, refused=refused, seat=self.seat is not None),)
        except (FairleadError, OSError) as error:
            raise NetworkError(f"[scopes] file: {error}") from error


def agreed(routing: Settings, *, in_scopes: bool = False, channels: Channels | None = None) -> str:
    """The form of routing that all brokers of a network must share: with flooding, a broker sends no filters to
    brokers that wait for them; with scopes, its filters say in which scopes they are; and by its channels, a
    notification has one quality of service everywhere."""
    ways = "flooding" if routing.strategy.initial() else "filters"
    ways = f"{ways} over several ways" if routing.redundant else ways
    ways = ways if routing.advertisements is None else f"{ways} and advertisements"
    ways = f"{ways} in scopes" if in_scopes else ways
    return f"{ways} with the channels {channels.fingerprint}" if channels else ways


# -- the file --------------------------------------------------------------------------------------------------


NAMING: Final = ("simple", "identity", "covering")
"""The algorithms whose routing entries keep what a filter says of its component."""
NAMELESS: Final = "with flooding and merging, routing entries do not say whose they are"
UNTRUSTED: Final = "a broker that is not trusted with everything would see all versions"
BROKER_FILE: Final = file_of(BrokerSettings)
"""`broker.toml`. Every key may be left out."""
COMMON: Final = (
    "routing",
    "retention",
    "identities",
    "scopes",
    "detection",
    "limits",
    "tls",
    "security",
    "log",
)
"""The tables that brokers can have in common."""


def settings_from(given: Mapping[str, Any], source: str, directory: Path | None = None) -> BrokerSettings:
    """The settings in the tables of a broker's file. NetworkError lists all mistakes.

    Paths are relative to `directory`.
    """
    reading = Reading(BROKER_FILE, under(directory))
    tables = reading.tables(given)
    settings = BrokerSettings(**made(BrokerSettings, tables))
    check_tls(reading, settings.tls, tables.get("tls", {}))
    http, listen = settings.http, settings.listen
    if settings.health is not None and http is None:
        reading.wrong("http", "[http] health", "health is served beside HTTP: set `listen`, too")
    if http is not None and http.port and http[:2] == listen[:2]:
        reading.wrong("http", "[http] listen", f"the broker itself listens at port {http.port}")
    mqtt = settings.mqtt
    for table, other in (("[http] listen", http), ("listen", listen)):
        if mqtt is not None and mqtt.port and other is not None and mqtt[:2] == other[:2]:
            reading.wrong("mqtt", "[mqtt] listen", f"at port {mqtt.port} there is {table} already")
    if problem := settings.security.problem():
        reading.wrong("security", "[security]", problem)
    for place, problem in settings.unkept():
        reading.wrong("routing", place, problem)
    check_channels(reading, settings.channels)
    if not isinstance(settings.hierarchical, bool):
        reading.wrong(
            "routing", "[routing] hierarchical", "true or false: roots are for the file of a whole network"
        )
    reading.check(source, NetworkError)
    return replace(settings, listen=listen._replace(secure=settings.tls is not None))


def check_channels(reading: Reading, channels: tuple[Channel, ...]) -> None:
    """Each channel has a name of its own. What their filters say is seen when they are read, with the schema."""
    names = [each.name for each in channels]
    for name in sorted({each for each in names if names.count(each) > 1}):
        reading.wrong("channels", "[[channels]]", f"there are two channels {name!r}")


def common_tables(reading: Reading, given: Mapping[str, Any], prefix: str = "") -> Tables:
    """The tables that brokers can have in common, as they are given."""
    return {
        name: reading.table(name, given[name], f"[{prefix}{name}]")
        for name in COMMON
        if given.get(name) is not None
    }


def common_settings(reading: Reading, for_all: Tables, own: Tables, prefix: str) -> BrokerSettings:
    """The settings from these tables; a key of the broker's `own` tables takes precedence over one `for_all`."""
    tables = {name: {**for_all.get(name, {}), **own.get(name, {})} for name in {**for_all, **own}}
    settings = BrokerSettings(**made(BrokerSettings, tables))
    check_tls(reading, settings.tls, own.get("tls", {}), prefix)
    return settings


def check_tls(reading: Reading, tls: Tls | None, own: Mapping[str, Any], prefix: str = "") -> None:
    """The certificates have to be files, and as many as are needed."""
    if tls is None:
        return

    def wrong(key: str, problem: str) -> None:
        table = f"[{prefix}tls]" if key in own or (own and not key) else "[tls]"
        reading.wrong("tls", f"{table} {key}".strip(), problem)

    if "tls" not in reading.unsound:
        if not (tls.certificate and tls.key):
            wrong("", "certificate and key are both needed")
        if tls.mutual and not tls.authority:
            wrong("mutual", "whose certificates are believed? that takes an authority")
        if tls.names and not tls.mutual:
            wrong("names", "a client without a certificate has no name in it: set `mutual = true`")
    for key in ("certificate", "key", "authority"):
        file = getattr(tls, key)
        if file is not None and not Path(file).is_file():
            wrong(key, f"there is no file {file}")


def under(directory: Path | None) -> Callable[[str], str]:
    """A reader of paths, relative to the directory of the file."""
    return str if directory is None else lambda path: str(directory / path)


def read_settings(path: str | Path) -> BrokerSettings:
    """Read a broker's file."""
    given = read_toml(path, NetworkError, "see docs/network.md for the file's form")
    return settings_from(given, str(path), Path(path).parent)
