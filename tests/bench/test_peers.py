"""Peers: only what means the same over there is translated, answers are compared, absence has a reason."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from fairlead.filters import parse
from fairlead.model import Notification
from fairlead_lab.bench import peers
from fairlead_lab.bench.harness import MEASURED, NOT_RUN, WRONG
from fairlead_lab.bench.matching import Plan
from fairlead_lab.bench.peers import ABSENT, PEERS, Absent, Peer, measure_peers
from fairlead_lab.bench.peers.dialects import HYPERMATCH, QUAMINA, RULER, Dialect, Inexpressible
from fairlead_lab.matching.shapes import SHAPES

EXPRESSED = {
    "ruler": {"M1", "M2", "M4-prefix", "M4-suffix", "M4-substring", "M5", "M6", "M8"},
    "quamina": {"M4-prefix", "M4-suffix", "M4-substring", "M5"},
    "hypermatch": {"M3", "M3-near", "M4-prefix", "M4-suffix", "M4-substring", "M5"},
}


@pytest.mark.parametrize(
    ("text", "ruler", "quamina", "hypermatch"),
    [
        ('a = "x"', ["x"], ["x"], {"equals": "x"}),
        ("a = 5", [5], [5], {"equals": "5"}),
        (
            'a != "x"',
            [{"anything-but": ["x"]}],
            [{"anything-but": ["x"]}],
            {"anythingBut": [{"equals": "x"}]},
        ),
        ('a prefix "x"', [{"prefix": "x"}], [{"shellstyle": "x*"}], {"prefix": "x"}),
        ('a suffix "x"', [{"suffix": "x"}], [{"shellstyle": "*x"}], {"suffix": "x"}),
        ('a substring "x"', [{"wildcard": "*x*"}], [{"shellstyle": "*x*"}], {"wildcard": "*x*"}),
        ("a in [0.1, 2)", [{"numeric": [">=", 0.1, "<", 2]}], None, None),
        ('a superset {"x", "y"}', None, None, {"allOf": [{"equals": "x"}, {"equals": "y"}]}),
        ('a substring "*"', None, None, None),
        ('a = "X"', ["X"], ["X"], None),
        ('a = "x" or b = "y"', None, None, None),
        ('a.b = "x"', None, None, None),
        ('a prefix "x" and a suffix "y"', None, None, None),
    ],
)
def test_a_filter_is_written_as_what_means_the_same_or_not_at_all(
    text: str, ruler: object, quamina: object, hypermatch: object
) -> None:
    for dialect, expected in ((RULER, ruler), (QUAMINA, quamina), (HYPERMATCH, hypermatch)):
        if expected is None:
            with pytest.raises(Inexpressible):
                dialect.rule(parse(text))
        else:
            assert dialect.rule(parse(text)) == {"a": expected}


def test_events_are_written_as_the_peer_reads_them() -> None:
    event = Notification.of({"a": "x", "n": 5, "tags": ["p", "q"]})
    assert RULER.event(event) == {"a": "x", "n": 5, "tags": ["p", "q"]}
    assert HYPERMATCH.event(event) == [
        {"Path": "a", "Values": ["x"]},
        {"Path": "n", "Values": ["5"]},
        {"Path": "tags", "Values": ["p", "q"]},
    ]


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_each_peer_expresses_the_shapes_it_is_said_to(peer: Peer) -> None:
    def expressed(shape: str, dialect: Dialect) -> bool:
        try:
            for filter in SHAPES[shape].filters(20, Random(1)):
                dialect.rule(filter)
        except Inexpressible:
            return False
        return True

    assert {shape for shape in SHAPES if expressed(shape, peer.dialect)} == EXPRESSED[peer.name]


# -- drivers -----------------------------------------------------------------------------------------------

# A driver in Python that knows one operator: what the real ones are asked, and what they answer.
DRIVER = """
import json, sys
rules, events = ([json.loads(line) for line in open(path)] for path in sys.argv[1:3])
prefixes = [rule["path"][0]["prefix"] for rule in rules]
matching = [[i for i, prefix in enumerate(prefixes) if event["path"].startswith(prefix)] for event in events]
answer = {"fill_s": 0.5, "bytes": 1000, "rates": [10.0] * int(sys.argv[3]), "found": matching[:int(sys.argv[5])]}
"""
PLAN = Plan.short(shapes=("M4-prefix", "M7", "M8"), sizes=(10, 30), pool=20, rounds=2)


def driven(directory: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> Peer:
    monkeypatch.setattr(peers, "_built", lambda peer: directory)
    (directory / "driver.py").write_text(f"{DRIVER}{ending}\nprint(json.dumps(answer))\n")
    return replace(PEERS[0], command=(sys.executable, "driver.py"))


def test_a_peer_that_answers_like_the_oracle_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = list(measure_peers(PLAN, [driven(tmp_path, monkeypatch, "")]))
    assert [(cell.shape, cell.n, cell.status) for cell in cells] == [
        ("M4-prefix", 10, MEASURED),
        ("M4-prefix", 30, MEASURED),
        ("M7", 10, NOT_RUN),
        ("M8", 10, NOT_RUN),
    ]
    assert cells[0].rates["json"].median == 10.0
    assert (cells[0].matches_each, cells[0].checked) == (1.0, 20)
    assert cells[2].reason == "cannot be expressed: or and not around conditions"


def test_a_peer_that_answers_otherwise_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell, *_ = measure_peers(PLAN, [driven(tmp_path, monkeypatch, 'answer["found"][3] = []')])
    assert (cell.status, cell.rates) == (WRONG, {})
    assert "notification 3 has 0 matches, not 1" in cell.reason


def test_a_peer_that_is_too_slow_or_fails_is_not_asked_with_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = driven(tmp_path, monkeypatch, 'answer = {"too_slow": "adding took 5 s"}')
    plan = replace(PLAN, shapes=("M4-prefix",))
    [cell] = measure_peers(plan, [slow])
    assert (cell.status, cell.reason) == (NOT_RUN, "too slow: adding took 5 s")
    broken = driven(tmp_path, monkeypatch, 'sys.exit("out of paper")')
    [cell] = measure_peers(plan, [broken])
    assert cell.reason == "failed: out of paper"


def test_a_peer_whose_tools_are_missing_is_absent_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = replace(PEERS[0], tools=("no-such-tool",))
    cells = list(measure_peers(PLAN, [peer]))
    assert [(cell.shape, cell.status, cell.reason) for cell in cells] == [
        (shape, ABSENT, "no-such-tool is not installed") for shape in PLAN.shapes
    ]


def test_a_driver_is_built_once_and_nothing_is_left_of_one_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    built = []

    def build(directory: Path) -> None:
        assert (directory / "Driver.java").exists()
        built.append(directory)

    def fail(directory: Path) -> None:
        raise Absent("go get failed: no network")

    peer = replace(PEERS[0], tools=(), build=fail)
    with pytest.raises(Absent):
        peers._built(peer)
    assert list((tmp_path / "fairlead" / "peers").iterdir()) == []
    peer = replace(peer, build=build)
    assert peers._built(peer) == peers._built(peer)
    assert len(built) == 1


def test_a_tool_that_fails_is_told_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(Absent, match="failed: no such module"):
        peers._call(tmp_path, sys.executable, "-c", "import sys; sys.exit('no such module')")
