"""The file of a whole network on one machine: which brokers there are, and which are linked.

    links = [["hub", "east"], ["hub", "west"]]

    [brokers]
    hub = 7400
    east = 7401
    west = 0          # a port is chosen when the network starts

    [brokers.east.retention]
    time = "7d"       # the others keep what [retention] says, which is for all

The links make a tree: between any two brokers there is one way, so that what is published comes once. With
`[routing] cyclic` there may be several. Of two neighbours, the one that is farther from the first broker of the
file calls the other; of two that are as far, the later one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

from fairlead.channels import Channel
from fairlead.configuration import (
    PATH,
    Format,
    Key,
    Kind,
    Off,
    Reading,
    Row,
    Table,
    Wrong,
    count,
    expected,
    file_of,
    made,
    read_toml,
)
from fairlead.errors import NetworkError
from fairlead.filters import Filter
from fairlead.network.addresses import HOST, free_ports
from fairlead.network.settings import (
    BROKER_FILE,
    COMMON,
    Address,
    BrokerSettings,
    agreed,
    check_channels,
    common_settings,
    common_tables,
    under,
)
from fairlead.overlay import Hierarchy, Topology, misplaced_roots
from fairlead.security import AccessPolicy

__all__ = ["OVERLAY_FILE", "Overlay", "overlay_from", "ports_of", "read_overlay"]

Link: TypeAlias = tuple[str, str]

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""A broker's name is also that of its log's directory."""


def _pairs(given: Any) -> tuple[Link, ...]:
    if not isinstance(given, list):
        raise expected('a list of pairs, such as [["hub", "east"]]', given)
    for each in given:
        if not isinstance(each, list) or len(each) != 2 or not all(isinstance(end, str) for end in each):
            raise expected("a pair of brokers' names", each)
    return tuple((a, b) for a, b in given)


def _table(given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise expected("a table", given)
    return given


_port: Final = count(0, 65_535)


@dataclass(frozen=True, slots=True)
class _Top:
    """The keys at the top of `topology.toml`."""

    host: Annotated[str, Key("where all of them listen")] = HOST
    schema: Annotated[
        str | None,
        Key(
            "the file of types and attributes, for all brokers",
            PATH,
            shown="none: every name is a type, and nothing is checked",
        ),
    ] = None
    extensions: Annotated[
        tuple[str, ...], Key("types with operators, as `package.module:NAME`, for all brokers")
    ] = ()
    hooks: Annotated[
        tuple[str, ...], Key("interceptors, as `package.module:NAME`, for the clients of all brokers")
    ] = ()
    data: Annotated[
        str | None,
        Key("the directory that holds a directory for each broker's log", PATH),
        Off("memory", "they have no logs, and nothing is durable"),
    ] = "fairlead-data"
    links: Annotated[tuple[Link, ...], Key("which brokers are neighbours: pairs of names", _pairs)] = ()
    channels: tuple[Channel, ...] = ()
    """Those of all brokers."""


@dataclass(frozen=True, slots=True)
class _Line:
    """The keys of each broker in `[brokers]`, beside tables of its own."""

    port: Annotated[int, Key("where it listens; 0: one is chosen", _port)] = 0
    http: Annotated[int | None, Key("where it serves HTTP", _port, shown="nowhere")] = None
    health: Annotated[
        int | None,
        Key("where it serves health and metrics, whatever happens at `http`", _port, shown="nowhere"),
    ] = None
    mqtt: Annotated[int | None, Key("where it serves MQTT", _port, shown="nowhere")] = None


_OWN: Final = {
    name: Row(
        name, Kind(_table), f"`[brokers.NAME.{name}]`: each key goes before the one for all", shown="as all"
    )
    for name in COMMON
}
OVERLAY_FILE: Final[Format] = {
    **file_of(_Top),
    "brokers": Table({**file_of(_Line)[""].rows, **_OWN}),
    **{name: BROKER_FILE[name] for name in COMMON},
}
"""`topology.toml`. `[brokers]` has a line `name = port` for each broker, or a table `[brokers.name]`."""


@dataclass(frozen=True, slots=True)
class Overlay:
    """Brokers and their links: a tree, or more; ports that are 0 are chosen when they are run."""

    brokers: tuple[BrokerSettings, ...]
    topology: Topology

    def settings(self, name: str) -> BrokerSettings:
        """The settings of one of the brokers in the file."""
        known = {each.name: each for each in self.brokers}
        if name not in known:
            raise NetworkError(f"there is no broker {name!r}", hint=f"there are {', '.join(known)}")
        return known[name]

    def broker(self, name: str, ports: Mapping[str, int] | None = None) -> BrokerSettings:
        """The settings to run one of the brokers with, once ports are chosen: its links, and which of them it
        calls."""
        settings = self.settings(name)
        chosen = {
            each.name: each.listen._replace(port=(ports or {}).get(each.name, each.listen.port))
            for each in self.brokers
        }
        called = self._called(name)
        for each in called:
            if not chosen[each].port:
                raise NetworkError(
                    f"where {each!r} listens is not known: its port is chosen when the network starts",
                    hint="give it a port in the file",
                )
        security = settings.security
        if security.brokers is None:
            security = replace(security, brokers=tuple(sorted(chosen)))
        return replace(
            settings,
            security=security,
            listen=chosen[name],
            links=tuple(str(chosen[each]) for each in called),
            expects=called[0] if len(called) == 1 else "",
            neighbours=self.topology.neighbours(name),
            overlay=self.links,
        )

    def _called(self, name: str) -> list[str]:
        """The neighbours that a broker calls."""
        nearest = list(self.topology.distances(self.topology.brokers[0]))
        before = nearest[: nearest.index(name)]
        return [each for each in self.topology.neighbours(name) if each in before]

    @property
    def links(self) -> dict[str, tuple[str, ...]]:
        """By broker, its neighbours."""
        return {each: self.topology.neighbours(each) for each in self.topology.brokers}

    def separated(self) -> list[tuple[str, str, Filter]]:
        """Pairs of brokers without a way of trusted brokers between them for a filter that both handle.

        PolicyError where a policy cannot be read.
        """
        policies = {each.security.policy: each for each in self.brokers}
        found: dict[tuple[str, str, Filter], None] = {}
        for path, broker in policies.items():
            if path is not None:
                trust = AccessPolicy.read(path, broker.language).trust
                found |= {} if trust.seals else dict.fromkeys(trust.separated(self.links))
        return list(found)


def ports_of(overlay: Overlay) -> dict[str, int]:
    """A free port for each broker that has none."""
    without = [broker for broker in overlay.brokers if not broker.listen.port]
    ports = free_ports([broker.listen.host for broker in without])
    return {broker.name: port for broker, port in zip(without, ports, strict=True)}


# -- the file --------------------------------------------------------------------------------------------------


def read_overlay(path: str | Path) -> Overlay:
    """Read the file of a network. NetworkError lists all mistakes."""
    given = read_toml(path, NetworkError, "see docs/network.md for the file's form")
    return overlay_from(given, str(path), Path(path).parent)


def overlay_from(given: Mapping[str, Any], source: str, directory: Path | None = None) -> Overlay:
    """The network that the tables of such a file describe; paths are relative to `directory`."""
    reading = Reading(OVERLAY_FILE, under(directory))
    channels = reading.several("channels", given["channels"]) if "channels" in given else []
    top = _Top(**made(_Top, {"": reading.top(given), "channels": channels}))
    check_channels(reading, top.channels)
    for_all = common_tables(reading, given)
    tables = _brokers(reading, given.get("brokers"))
    lines = {name: _Line(**made(_Line, {"": table})) for name, table in tables.items()}
    own = {name: common_tables(reading, table, f"brokers.{name}.") for name, table in tables.items()}
    settings = {
        name: common_settings(reading, for_all, own[name], f"brokers.{name}.") for name in tables
    } or {"": common_settings(reading, for_all, {}, "")}
    if "" not in reading.unsound and tables:
        is_cyclic = any(each.cyclic for each in settings.values())
        for problem in _not_an_overlay(list(tables), top.links, is_cyclic=is_cyclic):
            reading.wrong("", "links", problem)
    topology = Topology.explicit(top.links, tables) if not reading.problems else None
    if topology is not None:
        for place, problem in _disagreements(settings, topology):
            reading.wrong("brokers", place, problem)
    reading.check(source, NetworkError)
    assert topology is not None
    hierarchy = Hierarchy.of(topology, _roots(settings, topology))
    brokers = tuple(
        replace(
            settings[name],
            name=name,
            parent=hierarchy.parents.get(name),
            children=hierarchy.children.get(name, frozenset()),
            schema=top.schema,
            extensions=top.extensions,
            hooks=top.hooks,
            channels=top.channels,
            listen=Address(top.host, line.port, settings[name].tls is not None),
            data=None if top.data is None else str(Path(top.data) / name),
            http=None if line.http is None else Address(top.host, line.http),
            health=None if line.health is None else Address(top.host, line.health),
            mqtt=None if line.mqtt is None else Address(top.host, line.mqtt),
        )
        for name, line in lines.items()
    )
    return Overlay(brokers, topology)


def _brokers(reading: Reading, given: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(given, Mapping) or not given:
        problem = "the table is missing: a line `name = port` for each broker"
        reading.wrong("brokers", "[brokers]", problem if given is None else "there are no brokers in it")
        return {}
    tables = {}
    for name, each in given.items():
        if not NAME.fullmatch(name):
            reading.wrong("brokers", f"[brokers] {name!r}", "letters, digits, '.', '-' and '_' make a name")
        if isinstance(each, Mapping):
            tables[name] = reading.table("brokers", each, f"[brokers] {name}:")
            continue
        try:
            tables[name] = {"port": _port(each)}
        except Wrong as wrong:
            tables[name] = {}
            reading.wrong("brokers", f"[brokers] {name}", str(wrong))
    for name, table in tables.items():
        if table.get("health") is not None and table.get("http") is None:
            reading.wrong("brokers", f"[brokers] {name}: health", "health is served beside HTTP: add `http`")
    ports = [
        (name if key == "port" else f"the {key} of {name}", table[key])
        for name, table in tables.items()
        for key in ("port", "http", "health", "mqtt")
        if table.get(key)
    ]
    for port, times in Counter(port for _, port in ports).items():
        if times > 1:
            names = " and ".join(name for name, each in ports if each == port)
            reading.wrong("brokers", "[brokers]", f"{names} cannot both listen at port {port}")
    return tables


def _roots(settings: Mapping[str, BrokerSettings], topology: Topology) -> tuple[str, ...]:
    """The brokers with a hierarchy below them: the first one, where all is hierarchical."""
    hierarchical = settings[topology.brokers[0]].hierarchical
    return hierarchical if isinstance(hierarchical, tuple) else topology.brokers[: int(hierarchical)]


def _disagreements(settings: Mapping[str, BrokerSettings], topology: Topology) -> Iterator[tuple[str, str]]:
    """The settings in which brokers differ and may not: the place, and who has what."""
    hierarchies = {name: f"{each.hierarchical}".lower() for name, each in settings.items()}
    if len(set(hierarchies.values())) > 1:
        yield "[routing] hierarchical", f"one hierarchy for all; but {_parties(hierarchies)}"
    else:
        for problem in misplaced_roots(topology, _roots(settings, topology)):
            yield "[routing] hierarchical", problem
    parents = [name for name, each in settings.items() if each.parent is not None]
    if parents:
        yield f"[brokers.{parents[0]}.routing] parent", "the links of this file say who is above whom"
    else:
        for place, problem in dict.fromkeys(found for each in settings.values() for found in each.unkept()):
            yield place, problem
    routes = {name: agreed(each.routing) for name, each in settings.items()}
    if len(set(routes.values())) > 1:
        yield "[routing]", f"all brokers of a network route alike, but {_parties(routes)}"
    hosts = {name: ", ".join(each.detectors) or "none" for name, each in settings.items()}
    if len(set(hosts.values())) > 1:
        yield "[detection] hosts", f"one list for all, or a query would have two homes; but {_parties(hosts)}"
    for name in sorted({name for each in settings.values() for name in each.detectors} - settings.keys()):
        yield "[detection] hosts", f"there is no broker {name!r}"
    frames = {name: f"{each.limits.frame_bytes:,}" for name, each in settings.items()}
    if len(set(frames.values())) > 1:
        reason = "or longer notifications could not be forwarded"
        yield "[limits] frame_bytes", f"one length for all, {reason}; but {_parties(frames)}"


def _parties(held: Mapping[str, str]) -> str:
    """The holders of each value, in words: a and b x, c y."""
    by: dict[str, list[str]] = {}
    for name, each in held.items():
        by.setdefault(each, []).append(name)
    return ", ".join(f"{' and '.join(names)}: {each}" for each, names in by.items())


def _not_an_overlay(brokers: Sequence[str], links: Iterable[Link], *, is_cyclic: bool) -> list[str]:
    """The defects of the links, each in a sentence: nothing where they make a tree of the brokers, or more where
    that may be."""
    problems = []
    known: set[frozenset[str]] = set()
    pieces: dict[str, dict[str, list[str]]] = {name: {name: [name]} for name in brokers}
    for a, b in links:
        unknown = [name for name in (a, b) if name not in pieces]
        if unknown:
            problems += [f"{a} - {b}: there is no broker {name!r}" for name in dict.fromkeys(unknown)]
        elif a == b:
            problems.append(f"{a} - {b}: a broker is not linked to itself")
        elif is_cyclic and frozenset((a, b)) in known:
            problems.append(f"{a} - {b}: these two are linked already")
        elif b in pieces[a] and not is_cyclic:
            way = " - ".join([*_path(pieces[a], a, b), a])
            problems.append(f"they make a cycle: {way}; with `cyclic = true` in [routing] it is one more way")
        elif b in pieces[a]:
            known.add(frozenset((a, b)))
        else:
            known.add(frozenset((a, b)))
            joined = {**pieces[a], **pieces[b]}
            joined[a], joined[b] = [*joined[a], b], [*joined[b], a]
            for name in joined:
                pieces[name] = joined
    if not problems and len(pieces[brokers[0]]) < len(brokers):
        apart = [name for name in brokers if name not in pieces[brokers[0]]]
        problems.append(f"the network is in pieces: no path leads from {brokers[0]} to {', '.join(apart)}")
    return problems


def _path(piece: Mapping[str, Sequence[str]], a: str, b: str) -> list[str]:
    """The brokers on the way from a to b, in a tree in which each is listed with its neighbours."""
    before = {a: a}
    ahead = [a]
    for each in ahead:
        for neighbour in piece[each]:
            if neighbour not in before:
                before[neighbour] = each
                ahead.append(neighbour)
    way = [b]
    while way[-1] != a:
        way.append(before[way[-1]])
    return way[::-1]
