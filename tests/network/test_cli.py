"""What people type: brokers and networks are run and checked, events go in and come out, the network is drawn."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from fairlead.cli import main, top
from fairlead.errors import ConnectionEnded
from fairlead.model import Notification
from fairlead.network import drawing, sync
from fairlead.network.survey import Seen, Survey

PATIENCE_S = 30.0


class Shell:
    """Commands that are run in this process: the exit code and the lines of both streams."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys, self._monkeypatch = capsys, monkeypatch
        self.err = ""

    def __call__(self, *arguments: str, given: str = "") -> tuple[int, list[str]]:
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
        code = main(arguments)
        shown = self._capsys.readouterr()
        self.err = shown.err
        return code, shown.out.splitlines()


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(capsys, monkeypatch)


# -- pub and sub ---------------------------------------------------------------------------------------------


def test_nobody_is_subscribed_where_the_broker_has_not_answered_since(
    brokers: Any, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(_: object) -> None:
        raise ConnectionEnded("the connection was lost")

    monkeypatch.setattr(sync.Subscription, "is_installed", False)
    monkeypatch.setattr(sync.Client, "status", lost)
    assert shell("sub", "-b", brokers.start().url, "x > 1", "--timeout", "0") == (2, [])
    assert shell.err == "fairlead: the connection was lost\n"


def test_an_event_is_given_by_names_and_values_or_as_json(brokers: Any, shell: Shell) -> None:
    url = brokers.start().url
    with sync.connect(url) as client, client.subscribe("true") as everything:
        assert shell("pub", "-b", url, "symbol=IBM", "price=168.5", 'tags=["a"]', "code=007") == (0, [])
        assert shell.err == "1 published, 0 rejected\n"
        first = everything.get(PATIENCE_S)
        assert [first.get(name) for name in ("symbol", "price", "code")] == ["IBM", 168.5, "007"]
        assert shell("pub", "-b", url, '{"x": 1}', '{"x": 2}', "--producer", "desk", "--no-wait") == (0, [])
        assert "2 sent, 0 rejected" in shell.err
        seen = [everything.get(PATIENCE_S) for _ in range(2)]
        assert [(each.producer, each.get("x")) for each in seen] == [("desk", 1), ("desk", 2)]
        assert shell("pub", "-b", url, "x=1", "--stamp") == (0, [])
        assert everything.get(PATIENCE_S).time is not None


def test_lines_are_published_and_those_that_cannot_be_read_are_named(
    brokers: Any, shell: Shell, tmp_path: Path
) -> None:
    url = brokers.start().url
    lines = '{"id": "1", "producer": "p"}\n{"id":\n\n{"id": "2"}\n'
    code, shown = shell("pub", "-b", url, "--producer", "desk", "--json", given=lines)
    assert (code, [json.loads(line) for line in shown]) == (
        3,
        [{"producer": "p", "id": "1"}, {"producer": "desk", "id": "2"}],
    )
    assert "fairlead: -:2: rejected: not JSON" in shell.err
    assert "2 published, 1 rejected" in shell.err
    (tmp_path / "events.jsonl").write_text('{"id": "3"}\n', encoding="utf-8")
    assert shell("pub", "-b", url, "--events", str(tmp_path / "events.jsonl"))[0] == 0


def test_all_events_or_none_are_published(brokers: Any, shell: Shell, tmp_path: Path) -> None:
    url = brokers.start("hub", tmp_path).url
    assert shell("pub", "-b", url, "--atomic", "--producer", "p", given='{"x":1}\n{"x":\n')[0] == 3
    assert "nothing was published" in shell.err
    assert shell("pub", "-b", url, "--atomic", '{"x": 1, "id": "1"}', '{"x": 2, "id": "1"}')[0] == 2
    assert "the notification 1 of the transaction is refused" in shell.err
    assert shell("pub", "-b", url, "--atomic", "--json", '{"x": 1}', '{"x": 2}')[0] == 0
    assert shell.err == "2 published, 0 rejected\n"


def test_what_the_broker_refuses_is_rejected_and_the_rest_is_published(brokers: Any, shell: Shell) -> None:
    url = brokers.start().url
    long = json.dumps({"x": "y" * 2_000_000})
    for wait in ([], ["--no-wait"]):
        code, _ = shell("pub", "-b", url, *wait, given=f'{long}\n{{"x": 1}}\n')
        assert (code, "-:1: rejected: a frame of" in shell.err) == (3, True)
        assert re.search(r"1 (published|sent), 1 rejected", shell.err)


def test_what_had_been_published_when_the_broker_was_lost_is_said(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lost:
        """A client that loses its broker, after two answers that nobody has looked at, and before a third."""

        duplicates = asked = 0

        def __enter__(self) -> Lost:
            return self

        def __exit__(self, *_: object) -> None:
            """Nothing is left to close."""

        def publishing(self, event: Notification) -> Future[Notification]:
            self.asked += 1
            answer: Future[Notification] = Future()
            if self.asked in (2, 3):
                answer.set_result(event)
            elif self.asked == 4:
                self.first.set_exception(ConnectionEnded("the broker is gone"))
            else:
                self.first = answer
            return answer

    monkeypatch.setattr("fairlead.cli.pub.connected", lambda *_, **__: Lost())
    assert shell("pub", given='{"x": 1}\n' * 4)[0] == 2
    assert shell.err == "2 published, 0 rejected, 2 not acknowledged\nfairlead: the broker is gone\n"


def test_only_the_first_rejections_are_shown(brokers: Any, shell: Shell) -> None:
    assert shell("pub", "-b", brokers.start().url, given="x\n" * 8)[0] == 3
    assert "fairlead: … and 3 more" in shell.err


def test_what_is_delivered_is_printed_and_accepted(brokers: Any, shell: Shell, tmp_path: Path) -> None:
    url = brokers.start("b", tmp_path).url
    durable = ("sub", "-b", url, "--filter", "x > 0", "--durable", "desk", "--timeout", "0")
    assert shell(*durable) == (1, [])
    assert shell.err == "subscribed at b: x > 0, durable as desk\n"
    assert shell("pub", "-b", url, "--producer", "p", given='{"id":"1","x":1}\n{"id":"2","x":2}\n')[0] == 0
    assert shell(*durable[:-2], "-n", "1") == (0, ["p/1  x=1"])
    assert shell(*durable[:-2], "-n", "1", "--json") == (0, ['{"id":"2","x":2,"producer":"p"}'])
    assert shell(*durable) == (1, [])
    assert shell("sub", "-b", url, "--since", "1h", "-n", "2")[1] == ["p/1  x=1", "p/2  x=2"]
    assert shell("sub", "-b", url, "--since", "1970-01-01T00:00:00Z", "-n", "1")[1] == ["p/1  x=1"]
    assert shell("sub", "-b", url, "--forget", "desk") == (0, [])
    assert shell.err == "desk is forgotten at b\n"
    assert shell("sub", "-b", url, "--forget", "desk")[0] == 2
    assert shell.err == "fairlead: there is no durable subscriber 'desk'\n"


def test_a_durable_subscriber_is_asked_about_under_its_name_only(
    brokers: Any, shell: Shell, tmp_path: Path
) -> None:
    url = brokers.start("b", tmp_path).url
    assert shell("sub", "-b", url, "x > 0", "--durable", "desk", "--timeout", "0") == (1, [])
    assert shell("sub", "-b", url, "y > 0", "--durable", "desk", "--timeout", "0") == (2, [])
    assert "the durable subscriber 'desk' is bound to 'x > 0'\n  hint: subscribe to that first" in shell.err
    assert shell("sub", "-b", url, "--forget", "desk", "x > 0") == (0, [])
    assert shell.err == "desk: x > 0 is forgotten at b\n"
    assert shell("sub", "-b", url, "y > 0", "--durable", "desk", "--timeout", "0") == (1, [])


def test_a_durable_subscriber_reads_on_though_some_broker_is_away(
    brokers: Any, shell: Shell, tmp_path: Path
) -> None:
    url = brokers.start("b", tmp_path, neighbours=("far",)).url
    durable = ("sub", "-b", url, "--durable", "desk", "--patience", "0.01s")
    assert shell(*durable, "--timeout", "0") == (1, [])
    assert "fairlead: far cannot be reached, and will know of it when it is back" in shell.err
    assert shell("pub", "-b", url, "--producer", "p", "id=1", "x=1")[0] == 0
    assert shell(*durable, "-n", "1") == (0, ["p/1  x=1"])


def test_what_was_published_before_is_counted_apart(brokers: Any, shell: Shell, tmp_path: Path) -> None:
    url = brokers.start("b", tmp_path).url
    given = '{"id": "1", "producer": "p"}\n{"id": "2", "producer": "p"}\n'
    assert shell("pub", "-b", url, given=given) == (0, [])
    assert shell.err == "2 published, 0 rejected\n"
    assert shell("pub", "-b", url, given=given + '{"id": "3", "producer": "p"}\n{"id": ""}\n') == (3, [])
    assert "-:4: rejected: an id is not empty" in shell.err
    assert shell.err.endswith("1 published, 1 rejected, 2 published before\n")


def test_a_broker_without_advertisements_refuses_them(brokers: Any, shell: Shell) -> None:
    assert shell("pub", "-b", brokers.start().url, "x=1", "--advertise", "x > 0")[0] != 0
    assert "this broker has no advertisements: set [routing] advertisements" in shell.err


def test_what_is_to_be_published_is_advertised_where_brokers_want_to_know(brokers: Any, shell: Shell) -> None:
    url = brokers.start(advertisements="simple").url
    assert shell("pub", "-b", url, "x=1")[0] == 3
    assert shell("pub", "-b", url, "x=1", "--advertise", "x > 0") == (0, [])
    assert shell("pub", "-b", url, "x=1", "--advertise", "x >")[0] == 2


def test_composite_events_are_printed(brokers: Any, shell: Shell, tmp_path: Path) -> None:
    url = brokers.start("b", tmp_path).url
    lines = [{"type": name, "id": name, "time": at} for at, name in enumerate("ABC", start=1)]
    assert shell("pub", "-b", url, given="\n".join(map(json.dumps, lines)))[0] == 0
    code, [line] = shell(
        "sub",
        "-b",
        url,
        "--pattern",
        "A followed by B",
        "--since",
        "1h",
        "-n",
        "1",
        "--timeout",
        "5",
        "--clock",
    )
    assert code == 0
    assert line.startswith("patterns/")
    assert 'type="composite"' in line
    assert "detecting at b: A followed by B" in shell.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("pub", "price"), "neither name=value nor a JSON object: 'price'"),
        (("pub", "x=1", "--events", "f"), "leave out one of both"),
        (("pub", "x=1", "-b", "http://x"), "http://x: not the address of a broker"),
        (
            ("pub", "x=1", "-b", "127.0.0.1:1", "--patience", "0"),
            "cannot be reached: Connection refused\n  hint: is a broker running there?",
        ),
        (("pub", "x=1", "--key", "k"), "a certificate is shown with its key"),
        (("pub", "x=1", "--authority", "a.pem"), "no TLS is spoken\n  hint: call fairleads://"),
        (("sub", "--patience", "soon"), "argument --patience"),
        (("sub", "-n", "0"), "one or more, not 0"),
        (("sub", "--timeout", "-1"), "argument --timeout: not so long: -1"),
        (("sub", "--pattern", "A followed by B", "--durable", "d"), "--since can be combined with it"),
        (("sub", "--pattern", "A followed by B", "x > 1"), "--pattern and a filter do not go together"),
        (("sub", "x > 1", "--filter", "x > 2"), "two filters"),
        (("sub", "x >"), "FILTER: line 1, column 4"),
        (("sub", ""), "FILTER: it is empty"),
        (("sub", "--filter", ""), "--filter: it is empty"),
        (("sub", "--durable", ""), "--durable: the name is empty"),
        (("sub", "--forget", " "), "--forget: the name is empty"),
        (("sub", "--forget", "d", "--since", "1h"), "--forget and --since do not go together"),
        (("sub", "--forget", "d", "-n", "1"), "--forget and -n do not go together"),
        (("sub", "--durable", "d", "--policy", "drop"), "--durable and --policy do not go together"),
        (("sub", "--lateness", "5s"), "--lateness goes with --ordered or --pattern or --fair only"),
        (("sub", "x > 1", "--clock"), "--clock goes with --ordered or --pattern or --fair only"),
        (("topology", "-b", "127.0.0.1:1", "--patience", "0"), "cannot be reached: Connection refused"),
        (("top", "--every", "0"), "an interval is longer than nothing"),
        (("broker", "run", "-c", "a", "--network", "b"), "leave out one of both"),
        (("broker", "run", "--network", "b"), "which broker of the network?"),
        (("broker", "run", "--name", ""), "--name: it is empty"),
        (("broker", "run", "--data", ""), "--data: it is empty"),
        (("network", "up", "nothing.toml"), "nothing.toml: cannot be read"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_what_cannot_be_is_bad_input(arguments: tuple[str, ...], complaint: str, shell: Shell) -> None:
    assert shell(*arguments) == (2, [])
    assert complaint in shell.err


def test_a_filter_or_a_time_that_cannot_be_read_is_bad_input(brokers: Any, shell: Shell) -> None:
    url = brokers.start().url
    assert shell("sub", "-b", url, "--filter", "x >") == (2, [])
    assert "fairlead: --filter: line 1, column 4" in shell.err
    assert shell("sub", "-b", url, "--since", "soon") == (2, [])
    assert "--since: neither a time nor a duration: 'soon'" in shell.err
    assert shell("sub", "-b", url, "--since", "1h", "--timeout", "0") == (2, [])
    assert "has no log" in shell.err


@pytest.mark.parametrize(
    "command",
    [
        ("broker",),
        ("broker", "run"),
        ("broker", "check"),
        ("broker", "link"),
        ("broker", "unlink"),
        ("network",),
        ("network", "up"),
        ("network", "check"),
    ]
    + [(name,) for name in ("pub", "sub", "top", "topology")],
    ids=" ".join,
)
def test_every_command_has_help_with_an_example(command: tuple[str, ...], shell: Shell) -> None:
    code, shown = shell(*command, "--help")
    assert (code, "Example: fairlead" in " ".join(" ".join(shown).split())) == (0, True)


EVIL = "evil\n2026 \x1b[31mred"


@pytest.mark.parametrize("is_painted", [False, True])
def test_sub_and_detect_print_no_control_characters_of_others(
    is_painted: bool, shell: Shell, brokers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    painted = (lambda text, *_: f"\x1b[1m{text}\x1b[0m") if is_painted else (lambda text, *_: text)
    monkeypatch.setattr("fairlead.cli.sub.paint", painted)
    monkeypatch.setattr("fairlead.cli.detect.paint", painted)
    broker = brokers.start("hub", tmp_path)
    record = {"type": "A", "id": EVIL, "producer": EVIL, EVIL: EVIL, "x": 1}
    with sync.connect(broker.url, name="p") as client:
        client.publish(record)
    _, lines = shell("sub", "-b", broker.url, "x = 1", "--since", "1970-01-01T00:00:00Z", "-n", "1")
    (tmp_path / "events.jsonl").write_text(json.dumps(record), encoding="utf-8")
    _, found = shell("detect", "--pattern", "A", "--events", str(tmp_path / "events.jsonl"))
    for [line] in (lines, found):
        shown = line.replace("\x1b[1m", "").replace("\x1b[0m", "") if is_painted else line
        assert shown.isprintable()
        assert r"evil\x0a202" in shown
    assert ("\x1b[1mx\x1b[0m=1" in lines[0]) == is_painted


# -- top and topology ----------------------------------------------------------------------------------------


@pytest.fixture
def three(brokers: Any, tmp_path: Path, until: Callable[[Callable[[], object]], None]) -> Iterator[list[str]]:
    """A hub with two brokers that are linked with it: where they are."""
    hub = brokers.start("hub", tmp_path)
    others = [brokers.start(name, tmp_path, links=(hub.url,)) for name in ("east", "west")]
    with sync.connect(hub.url) as client:
        until(lambda: sum(link["ready"] for link in client.status()["links"].values()) == 2)
    return [hub.url, *(each.url for each in others)]


def test_the_network_is_drawn_from_any_of_its_brokers(three: list[str], shell: Shell) -> None:
    hub, east, west = three
    with sync.connect(west, name="w") as client, client.subscribe("x > 1"):
        assert shell("topology", "-b", hub) == (
            0,
            [
                f"hub  {hub}  0 clients, 0 subscriptions",
                f"├─ east  {east}  0 clients, 0 subscriptions",
                f"└─ west  {west}  1 client, 1 subscription",
            ],
        )
        assert shell("topology", "-b", east, "--tables") == (
            0,
            [
                f"east  {east}  0 clients, 0 subscriptions",
                "│  x > 1 -> hub",
                f"└─ hub  {hub}  0 clients, 0 subscriptions",
                "   │  x > 1 -> west",
                f"   └─ west  {west}  1 client, 1 subscription",
                "         x > 1 -> client w",
            ],
        )
        code, shown = shell("topology", "-b", hub, "--dot", "--tables")
        assert (code, shown[0], shown[-1]) == (0, "graph network {", "}")
        assert '  "hub" -- "east" [style=solid];' in shown
        assert f'  "west" [label="west\\n{west}\\n1 client, 1 subscription\\nx > 1 -> client w"];' in shown
        code, shown = shell("topology", "-b", hub, "--svg", "--tables")
        texts = [
            each.text for each in ET.fromstring("\n".join(shown)).iter("{http://www.w3.org/2000/svg}text")
        ]
        assert {"hub", "east", "west", "x > 1 -> client w"} <= set(texts)
        code, [line] = shell("topology", "-b", west, "--json", "--tables")
        found = json.loads(line)
        assert [*found["brokers"]] == ["west", "hub", "east"]
        assert found["links"] == [["west", "hub"], ["hub", "east"]]
        assert found["brokers"]["hub"]["tables"]["subscriptions"] == [["x > 1", "west"]]


def test_what_cannot_be_asked_is_said_and_the_answer_is_no(
    three: list[str], brokers: Any, shell: Shell, until: Callable[[Callable[[], object]], None]
) -> None:
    hub = three[0]
    brokers.stop(brokers._running[-1])
    with sync.connect(hub) as client:
        until(lambda: not client.status()["links"]["west"]["connected"])
    code, shown = shell("topology", "-b", hub, "--patience", "0")
    assert code == 1
    assert re.fullmatch(
        "└─ west  (.* cannot be reached.*|where it listens is not known)"
        r"  \(the link is down since \S+Z: the connection is lost\)",
        shown[-1],
    )
    for form in ("--dot", "--svg"):
        assert shell("topology", "-b", hub, "--patience", "0", form)[0] == 1
    for form in (["--once", "--every", "0.01"], ["--json"]):
        assert shell("top", "-b", hub, "--all", "--patience", "0", *form)[0] == 1
        assert shell("top", "-b", hub, "--patience", "0", *form)[0] == 0


def test_brokers_are_linked_and_unlinked_at_the_prompt(brokers: Any, shell: Shell) -> None:
    a, b = brokers.start("a"), brokers.start("b")
    assert shell("broker", "link", b.url, "-b", a.url) == (0, [])
    assert shell.err == "a is linked with b\n"
    assert shell("topology", "-b", b.url)[1][-1].startswith("└─ a")
    assert shell("broker", "unlink", "b", "-b", a.url) == (0, [])
    assert shell.err == "a is not linked with b any longer\n"
    assert shell("broker", "unlink", "b", "-b", a.url) == (2, [])
    assert shell.err == "fairlead: there is no link to 'b'\n"


def test_a_link_that_has_to_wait_or_cannot_be_is_said_to_be_so_and_shown(
    brokers: Any, shell: Shell, tmp_path: Path
) -> None:
    a = brokers.start("a", tmp_path)
    nobody = "fairlead://127.0.0.1:1"
    assert shell("broker", "link", nobody, "-b", a.url) == (1, [])
    assert shell.err == f"a waits for {nobody}: it cannot be reached: Connection refused\n"
    assert shell("broker", "link", a.url, "-b", a.url) == (2, [])
    assert shell.err == f"fairlead: {a.url}: a broker cannot be linked to 'a': that is its own name\n"
    waits = r"waits since \S+Z: it cannot be reached: Connection refused"
    code, shown = shell("topology", "-b", a.url)
    assert code == 1
    assert re.fullmatch(f"a - {nobody} {waits}", shown[-1])
    for form in ("--dot", "--svg"):
        assert re.search(waits, "\n".join(shell("topology", "-b", a.url, form)[1]))
    code, shown = shell("top", "-b", a.url, "--once", "--every", "0.01")
    assert ["a", "link", "to", nobody, "waits", "-", "-"] in [line.split() for line in shown]
    assert re.fullmatch(f"a: the link to {nobody} {waits}", shown[-1])
    brokers.stop(a)
    a = brokers.start("a", tmp_path)
    assert nobody in a.node.status()["waiting"]
    assert shell("broker", "unlink", ":1", "-b", a.url) == (0, [])
    assert shell("topology", "-b", a.url)[0] == 0
    brokers.stop(a)
    assert not brokers.start("a", tmp_path).node.status()["waiting"]


def test_what_top_shows_fits_into_80_columns() -> None:
    status = {
        "clients": 20_001,
        "subscriptions": 1_234_567,
        "queued": 9_999,
        "log": {"bytes": 123_456_789_012},
    }
    before, after = (
        Survey({"new-york": Seen("new-york", "", {**status, "counters": dict.fromkeys(top.RATES, count)})})
        for count in (0, 3_456_789)
    )
    lines = [*top._lines(top.BROKERS, top._brokers(before, after, 1.0), 1)]
    assert lines == [
        "broker    pub/s  recv/s  deliv/s  relay/s  drop/s  clients   subs  queue     log",
        "new-york  3.5 M   3.5 M    3.5 M    3.5 M   3.5 M     20 k  1.2 M  9,999  123 GB",
    ]
    assert max(map(len, lines)) <= 80


def test_top_says_who_blocks_whom() -> None:
    link = {"connected": True, "full": True}
    status = {
        "blocked": 2,
        "blocking": ["slow"],
        "links": {"east": link},
        "inflow": {"reading": 3, "blocked": 2},
    }
    assert top._remarks(Survey({"hub": Seen("hub", "", {**status, "waiting": {}})})) == [
        "hub: 2 connections wait for the link to east, slow",
        "hub: 2 clients are blocked",
    ]


def test_a_cycle_is_named() -> None:
    def seen(name: str, *neighbours: str) -> Seen:
        link = {"connected": True, "behind": 0}
        status = {"clients": 1, "subscriptions": 0, "links": dict.fromkeys(neighbours, link)}
        return Seen(name, f"{name}:1", status)

    found = Survey(
        {each.name: each for each in (seen("a", "b", "c"), seen("b", "a", "c"), seen("c", "a", "b"))}
    )
    assert not found.is_whole
    assert drawing.text(found, plain=True).splitlines() == [
        "a  a:1  0 clients, 0 subscriptions",
        "|- b  b:1  0 clients, 0 subscriptions",
        "`- c  c:1  0 clients, 0 subscriptions",
        "b - c closes a cycle: end one of its links",
    ]
    assert '  "b" -- "c" [style=solid, color=red];' in drawing.dot(found)
    assert 'class="edge wrong"' in drawing.svg(found)


def test_what_brokers_do_is_shown_once_or_as_json(three: list[str], shell: Shell) -> None:
    hub, east, _ = three
    with sync.connect(east) as client, client.subscribe("x > 1", durable="d"):
        code, shown = shell("top", "-b", east, "--once", "--every", "0.01")
        assert code == 0
        assert shown[0].split()[:2] == ["broker", "pub/s"]
        assert shown[1].split()[0] == "east"
        assert [line.split() for line in shown[-2:]] == [
            ["east", "link", "to", "hub", "live", "0", "0"],
            ["east", "durable", "d", "live", "0", "0"],
        ]
        code, shown = shell("top", "-b", hub, "--all", "--once", "--every", "0.01")
        assert [line.split()[0] for line in shown[1:4]] == ["hub", "east", "west"]
        code, [line] = shell("top", "-b", hub, "--json")
        assert json.loads(line)["brokers"]["hub"]["status"]["links"]["east"]["url"] == east


def test_rates_are_what_the_counters_have_grown_by() -> None:
    from fairlead.cli.top import _broker, _short

    def seen(published: int) -> Seen:
        counters = dict.fromkeys(("published", "received", "delivered", "relayed", "dropped"), published)
        figures = {"clients": 3, "subscriptions": 1_000, "queued": 0, "log": {"bytes": 1_234_567}}
        return Seen("b", "", {"counters": counters, **figures})

    assert _broker(seen(100), seen(2_100), 2.0)[:3] == ("b", "1,000", "1,000")
    assert _broker(seen(100), seen(2_100), 2.0)[-4:] == ("2", "1,000", "0", "1.2 MB")
    assert _broker(None, seen(100), 2.0)[1] == "0"
    assert _broker(seen(100), seen(1), 2.0)[1] == "0"
    assert [_short(number) for number in (7, 12_000, 5e15)] == ["7 ", "12 k", "5,000 T"]


# -- files ---------------------------------------------------------------------------------------------------

BROKER = """
name = "hub"
listen = "127.0.0.1:0"
links = ["127.0.0.1:7401"]
[retention]
time = "7d"
"""


def test_what_holds_for_a_broker_is_printed(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(BROKER, encoding="utf-8")
    code, shown = shell("broker", "check", str(path))
    assert code == 0
    assert [line.split() for line in shown[:3]] == [
        ["name", "hub"],
        ["listen", "fairlead://127.0.0.1:0"],
        ["data", str(tmp_path / "fairlead-data")],
    ]
    assert "time           7 days" in shown
    code, [line] = shell("broker", "check", str(path), "--json")
    assert json.loads(line)["links"] == ["fairlead://127.0.0.1:7401"]
    path.write_text('nmae = "x"\n[routing]\nalgorithm = "best"\n[tls]\nkey = "k"\n', encoding="utf-8")
    assert shell("broker", "check", str(path)) == (2, [])
    assert "4 problems" in shell.err
    path.write_text('listen = ":7400"\n[http]\nlisten = ":7400"\n', encoding="utf-8")
    assert shell("broker", "check", str(path)) == (2, [])
    assert "[http] listen: the broker itself listens at port 7400" in shell.err
    path.write_text('[http]\nhealth = ":9400"\n', encoding="utf-8")
    assert shell("broker", "check", str(path)) == (2, [])
    assert "[http] health: health is served beside HTTP" in shell.err
    path.write_text('[http]\nlisten = ":8400"\nhealth = ":9400"\n', encoding="utf-8")
    lines = [line.split() for line in shell("broker", "check", str(path))[1]]
    at = lines.index(["[http]"])
    assert lines[at + 1 : at + 3] == [
        ["listen", "http://127.0.0.1:8400"],
        ["health", "http://127.0.0.1:9400"],
    ]


TOPOLOGY = 'data = "{data}"\nlinks = [["hub", "east"]]\n[brokers]\nhub = 0\neast = 0\n'


def test_a_network_is_checked_and_drawn(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "topology.toml"
    path.write_text(TOPOLOGY.replace("hub = 0", "hub = 7400"), encoding="utf-8")
    assert shell("network", "check", str(path)) == (
        0,
        ["hub  fairlead://127.0.0.1:7400", "└─ east  127.0.0.1, a port that is chosen"],
    )
    _, lines = shell("network", "check", str(path), "--name", "hub")
    assert "links          east" in lines
    _, [line] = shell("network", "check", str(path), "--json")
    assert json.loads(line)["links"] == [["hub", "east"]]
    path.write_text("[brokers]\na = 1\nb = 2\n", encoding="utf-8")
    assert shell("network", "check", str(path)) == (2, [])
    assert "the network is in pieces: no path leads from a to b" in shell.err


# -- processes -----------------------------------------------------------------------------------------------


class Process:
    """A command in a process of its own, whose lines are waited for with a deadline."""

    def __init__(self, *arguments: str, cwd: Path) -> None:
        self.started = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "fairlead", *arguments],
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._lines: Queue[str] = Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.started.stdout is not None
        for line in self.started.stdout:
            self._lines.put(line.rstrip())
        self._lines.put("")

    def line(self) -> str:
        return self._lines.get(timeout=PATIENCE_S)

    def ends(self, signal_number: int | None = None) -> int:
        if signal_number is not None:
            self.started.send_signal(signal_number)
        return self.started.wait(PATIENCE_S)

    def close(self) -> None:
        self.started.kill()
        self.started.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        for stream in (self.started.stdin, self.started.stdout):
            assert stream is not None
            stream.close()


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    running: list[Process] = []

    def start(*arguments: str) -> Process:
        running.append(Process(*arguments, cwd=tmp_path))
        return running[-1]

    yield start
    for each in running:
        each.close()


def test_a_broker_goes_on_after_sighup(process: Callable[..., Process]) -> None:
    broker = process("broker", "run", "--name", "hub", "--listen", "127.0.0.1:0", "--memory")
    [url] = re.findall(r"fairlead://[0-9.:]+", broker.line())
    broker.started.send_signal(signal.SIGHUP)
    while "there is nothing to reload: this broker has no certificates" not in broker.line():
        pass
    with sync.connect(url, name="after", patience=PATIENCE_S) as client:
        assert client.status()["broker"] == "hub"
    assert broker.ends(signal.SIGTERM) == 0


def test_a_broker_says_where_it_listens_and_ends_cleanly_when_told(
    process: Callable[..., Process], tmp_path: Path
) -> None:
    """Three at once: starting Python is what takes time."""
    options = ("broker", "run", "--listen", "127.0.0.1:0", "--name")
    kept = process(*options, "kept")
    forgetful = process(*options, "forgetful", "--memory")
    held = process(*options, "held", "--data", "d", "--stdin")
    pattern = r"(\w+) listens at (fairlead://127.0.0.1:\d+), (.*)"
    said = [re.fullmatch(pattern, each.line()) for each in (kept, forgetful, held)]
    assert [each and each[3] for each in said] == ["log in fairlead-data", "without a log", "log in d"]
    assert said[0] is not None
    with sync.connect(said[0][2]) as client:
        client.publish({"x": 1})
        assert kept.ends(signal.SIGTERM) == 0
    assert forgetful.ends(signal.SIGINT) == 0
    assert held.started.stdin is not None
    held.started.stdin.close()
    assert held.ends() == 0
    assert [each.line() for each in (kept, forgetful, held)] == ["", "", ""]
    assert (tmp_path / "fairlead-data").is_dir()


def test_a_network_goes_on_without_a_broker_that_died_and_ends_with_an_interrupt(
    process: Callable[..., Process], tmp_path: Path, until: Callable[[Callable[[], object]], None]
) -> None:
    (tmp_path / "topology.toml").write_text(TOPOLOGY.format(data="logs"), encoding="utf-8")
    network = process("network", "up", "topology.toml")
    said = [re.fullmatch(r"(\w+) listens at (.*), log in logs/(\w+)", network.line()) for _ in range(2)]
    assert [each and (each[1], each[3]) for each in said] == [("hub", "hub"), ("east", "east")]
    hub, east = (each[2] for each in said if each)
    with sync.connect(hub) as publisher, sync.connect(east) as subscriber:
        for client in (publisher, subscriber):  # best effort does not wait for a link
            until(lambda client=client: all(link["ready"] for link in client.status()["links"].values()))
        with subscriber.subscribe("x = 1") as ones:
            publisher.publish({"x": 1})
            assert ones.get(PATIENCE_S).get("x") == 1
    os.kill(child_of(network.started.pid, "east"), signal.SIGKILL)
    assert network.line() == "fairlead: the broker 'east' was killed by signal 9; 1 left"
    with sync.connect(hub) as publisher:
        publisher.publish({"x": 2})
        until(lambda: not publisher.status()["links"]["east"]["connected"])
    assert network.ends(signal.SIGINT) == 0


def test_a_network_of_which_one_broker_cannot_be_started_is_not_started(
    process: Callable[..., Process], brokers: Any, tmp_path: Path
) -> None:
    taken = brokers.start().port
    (tmp_path / "topology.toml").write_text(
        TOPOLOGY.format(data="logs").replace("hub = 0", f"hub = {taken}"), encoding="utf-8"
    )
    network = process("network", "up", "topology.toml")
    assert network.ends() == 2
    shown = [*iter(network.line, "")]
    # Those who expected the hub there may have warned before.
    assert any(each.startswith(f"fairlead: cannot listen at fairlead://127.0.0.1:{taken}") for each in shown)
    assert shown[-1] == "fairlead: the broker 'hub' could not be started: it ended with exit code 2"


def child_of(parent: int, name: str) -> int:
    """The process of a broker that another process has started."""
    shown = subprocess.run(
        ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(parent)], capture_output=True, text=True, check=True
    )
    [line] = [line for line in shown.stdout.splitlines() if f"--name {name}" in line]
    return int(line.split()[0])


def test_a_log_is_backed_up_restored_and_examined_at_the_prompt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from fairlead.network.ledger import Ledger, Subscribed

    ledger = Ledger(tmp_path / "hub", broker="hub")
    ledger.note(Subscribed("desk", "s", "x = 1", 0), 0)
    ledger.log.sync()
    where = [str(tmp_path / name) for name in ("hub", "copy", "again", "saved")]
    assert main(["broker", "backup", where[0], where[1]]) == 0
    assert "holds 3 records, 0 to 3" in capsys.readouterr().err
    ledger.close()
    assert main(["broker", "restore", where[1], where[2]]) == 0
    again = Ledger(where[2], broker="hub")
    assert list(again.state.durables) == ["desk"]
    again.close()
    assert main(["broker", "examine", where[2]]) == 0
    assert "records 0 to 4" in capsys.readouterr().out
    [segment] = (tmp_path / "again").glob("*.log")
    raw = bytearray(segment.read_bytes())
    raw[-1] ^= 1
    segment.write_bytes(raw)
    assert main(["broker", "examine", where[2], "--json", "--salvage", where[3]]) == 1
    printed = capsys.readouterr()
    assert "is missing or damaged" in json.loads(printed.out)["damage"]
    assert "1 are lost" in printed.err
