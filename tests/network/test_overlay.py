"""The file of a network is checked whole, and gives every broker what it is run with."""

from __future__ import annotations

import tomllib
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import NetworkError
from fairlead.network.overlay import Overlay, overlay_from, ports_of, read_overlay
from fairlead.network.settings import Address, Tls

GOOD = """
host = "127.0.0.1"
data = "logs"
links = [["hub", "east"], ["hub", "west"], ["far", "west"]]

[brokers]
hub = 7400
east = 7401
west = { port = 7402, http = 8402, health = 9402 }
far = 0

[routing]
algorithm = "simple"
"""


def overlay(text: str) -> Overlay:
    return overlay_from(tomllib.loads(text), "topology.toml")


def test_every_broker_calls_the_one_that_is_nearer_to_the_first() -> None:
    network = overlay(GOOD)
    brokers = {each.name: network.broker(each.name, {"far": 9999}) for each in network.brokers}
    assert {name: each.links for name, each in brokers.items()} == {
        "hub": (),
        "east": ("fairlead://127.0.0.1:7400",),
        "west": ("fairlead://127.0.0.1:7400",),
        "far": ("fairlead://127.0.0.1:7402",),
    }
    assert {name: each.expects for name, each in brokers.items()} == {
        "hub": "",
        "east": "hub",
        "west": "hub",
        "far": "west",
    }
    assert {name: each.neighbours for name, each in brokers.items()} == {
        "hub": ("east", "west"),
        "east": ("hub",),
        "west": ("hub", "far"),
        "far": ("west",),
    }
    assert [each.listen.port for each in brokers.values()] == [7400, 7401, 7402, 9999]
    assert brokers["west"].http == Address("127.0.0.1", 8402)
    assert brokers["west"].health == Address("127.0.0.1", 9402)
    assert brokers["far"].data == "logs/far"
    assert {each.algorithm for each in brokers.values()} == {"simple"}


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "topology.toml").write_text(GOOD, encoding="utf-8")
    assert read_overlay(tmp_path / "topology.toml").broker("hub").data == str(tmp_path / "logs" / "hub")


def test_where_a_broker_with_a_chosen_port_is_has_to_be_told() -> None:
    network = overlay("[brokers]\na = 0\nb = 0\n".replace("[b", 'links = [["a", "b"]]\n[b'))
    with pytest.raises(NetworkError, match="where 'a' listens is not known"):
        network.broker("b")
    ports = ports_of(network)
    assert len(set(ports.values())) == 2
    assert network.broker("b", ports).links == (f"fairlead://127.0.0.1:{ports['a']}",)
    with pytest.raises(NetworkError, match="there is no broker 'c'"):
        network.broker("c")


OWN = """
links = [["hub", "east"], ["hub", "west"]]

[brokers]
hub = 7400
west = { port = 7402, limits = { clients = 7 } }

[brokers.east]
port = 7401
routing.algorithm = "merging"

[brokers.east.retention]
bytes = 1_048_576

[routing]
algorithm = "simple"
imperfection = 0.5

[retention]
time = "7d"

[limits]
queue = 100
clients = 50
"""


def test_what_a_broker_says_for_itself_goes_key_by_key_before_what_is_for_all() -> None:
    network = overlay(OWN)
    brokers = {each.name: network.broker(each.name) for each in network.brokers}
    assert {name: each.algorithm for name, each in brokers.items()} == {
        "hub": "simple",
        "west": "simple",
        "east": "merging",
    }
    assert {each.imperfection for each in brokers.values()} == {0.5}
    assert {name: each.keep_bytes for name, each in brokers.items()} == {
        "hub": None,
        "west": None,
        "east": 1 << 20,
    }
    assert {each.keep_seconds for each in brokers.values()} == {7 * 86_400}
    assert [each.limits.clients for each in brokers.values()] == [50, 7, 50]
    assert {each.limits.queue for each in brokers.values()} == {100}


def test_certificates_may_be_of_each_broker_and_the_authority_of_all(tmp_path: Path) -> None:
    for name in ("ca.pem", "a.pem", "a.key", "b.pem", "b.key"):
        (tmp_path / name).touch()
    text = """
links = [["a", "b"]]
[tls]
authority = "ca.pem"
mutual = true
names = true
[brokers.a]
tls = { certificate = "a.pem", key = "a.key" }
[brokers.b]
tls = { certificate = "b.pem", key = "b.key" }
"""
    (tmp_path / "topology.toml").write_text(text, encoding="utf-8")
    network = read_overlay(tmp_path / "topology.toml")
    for name, broker in zip("ab", network.brokers, strict=True):
        assert broker.tls == Tls(
            str(tmp_path / f"{name}.pem"),
            str(tmp_path / f"{name}.key"),
            str(tmp_path / "ca.pem"),
            mutual=True,
            names=True,
        )
        assert broker.listen.secure


TWO = 'links = [["a", "b"]]\n[brokers]\na = 1\nb = 2\n'
WRONG = {
    "no brokers": ("", "[brokers]: the table is missing"),
    "empty": ("[brokers]", "[brokers]: there are no brokers in it"),
    "a name": ('[brokers]\n"a/b" = 1', "[brokers] 'a/b': letters, digits"),
    "a port": ("[brokers]\na = 70000", "[brokers] a: a whole number from 0 to 65,535"),
    "a key": ("[brokers]\na = { prot = 1 }", "[brokers] a: prot: no such key; did you mean 'port'?"),
    "one port": (
        'links = [["a", "b"]]\n[brokers]\na = 1\nb = 1',
        "[brokers]: a and b cannot both listen at port 1",
    ),
    "no list": ('links = "a"\n[brokers]\na = 1', "links: a list of pairs"),
    "no pair": ('links = [["a"]]\n[brokers]\na = 1', "links: a pair of brokers' names was expected"),
    "unknown": ('links = [["a", "x"]]\n[brokers]\na = 1', "links: a - x: there is no broker 'x'"),
    "itself": ('links = [["a", "a"]]\n[brokers]\na = 1', "links: a - a: a broker is not linked to itself"),
    "pieces": (
        'links = [["b", "c"]]\n[brokers]\na = 1\nb = 2\nc = 3',
        "links: the network is in pieces: no path leads from a to b, c",
    ),
    "a cycle": (
        'links = [["a", "b"], ["b", "c"], ["c", "d"], ["d", "b"]]\n[brokers]\na = 1\nb = 2\nc = 3\nd = 4',
        "links: they make a cycle: d - c - b - d; with `cyclic = true` in [routing] it is one more way",
    ),
    "twice": (
        'links = [["a", "b"], ["b", "a"]]\n[brokers]\na = 1\nb = 2',
        "links: they make a cycle: b - a - b; with `cyclic = true` in [routing] it is one more way",
    ),
    "both": ('memory = true\ndata = "x"\n[brokers]\na = 1', "data: with memory = true it means nothing"),
    "http": (
        "[brokers]\na = { port = 1, http = 1 }",
        "[brokers]: a and the http of a cannot both listen at port 1",
    ),
    "health": (
        "[brokers]\na = { port = 1, http = 2, health = 2 }",
        "[brokers]: the http of a and the health of a cannot both listen at port 2",
    ),
    "health alone": (
        "[brokers]\na = { port = 1, health = 2 }",
        "[brokers] a: health: health is served beside HTTP: add `http`",
    ),
    "no unit": (
        "[brokers]\na = 1\n[retention]\ntime = 7",
        '[retention] time: a duration with its unit, such as "7d"',
    ),
    "own table": ("[brokers]\na = { limits = 3 }", "[brokers] a: limits: a table was expected"),
    "own key": (
        "[brokers.a.limits]\nqeue = 3",
        "[brokers.a.limits] qeue: no such key; did you mean 'queue'?",
    ),
    "own value": ("[brokers.a.limits]\nqueue = 0", "[brokers.a.limits] queue: a whole number from 1 to"),
    "own place": ("[brokers.a]\nqueue = 1", "[brokers] a: queue: no such key; it belongs in [limits]"),
    "own files": (
        '[brokers.a.tls]\ncertificate = "none.pem"\nkey = "none.pem"\n',
        "2 problems\n  [brokers.a.tls] certificate: there is no file none.pem",
    ),
    "no key": (TWO + '[tls]\nauthority = "a"', "2 problems\n  [tls]: certificate and key are both needed\n"),
    "flooding": (
        TWO.replace("b = 2", 'b = { routing = { algorithm = "flooding" } }'),
        "[routing]: all brokers of a network route alike, but a: filters, b: flooding",
    ),
    "advertisements": (
        TWO.replace("b = 2", 'b = { routing = { advertisements = "simple" } }'),
        "[routing]: all brokers of a network route alike, but a: filters, b: filters and advertisements",
    ),
    "frames": (
        TWO.replace("b = 2", "b = { limits = { frame_bytes = 4096 } }"),
        "[limits] frame_bytes: one length for all, or longer notifications could not be forwarded; but a: "
        "1,048,576,",
    ),
    "common": ('[brokers]\na = 1\n[routing]\nalgorithm = "best"', "[routing] algorithm: "),
}


@pytest.mark.parametrize(("text", "complaint"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_named_with_its_place(text: str, complaint: str) -> None:
    with pytest.raises(NetworkError) as caught:
        overlay(text)
    assert f"topology.toml: {complaint}" in str(caught.value)


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(NetworkError) as caught:
        overlay('links = [["a", "x"], ["a", "a"]]\n[brokers]\na = 1\nb = -1\n[limits]\nqueue = 0')
    assert "topology.toml: 4 problems" in str(caught.value)


NAMES = "abcde"


@given(st.integers(1, 5), st.lists(st.sampled_from(list(combinations(NAMES, 2))), max_size=6))
def test_a_network_is_taken_if_and_only_if_its_links_make_a_tree(
    size: int, links: list[tuple[str, str]]
) -> None:
    names = NAMES[:size]
    given: dict[str, Any] = {"brokers": dict.fromkeys(names, 0), "links": [list(each) for each in links]}
    reached = {names[0]}
    for _ in names:
        reached |= {each for link in links if reached & set(link) for each in link}
    is_tree = reached == set(names) and len(links) == size - 1
    if is_tree:
        assert len(overlay_from(given, "t").brokers) == size
    else:
        with pytest.raises(NetworkError):
            overlay_from(given, "t")
