"""The audit on Spark says what the plain one says: the same verdicts, the same violations, the same refusals.

A trace on Spark costs seconds, so many small ones are judged at once: each in names of its own, one behind the
other. Nobody has to do with more than one of them, so what is wrong with each is what is wrong with all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from fairlead.audit import (
    Advertised,
    Ended,
    Event,
    Faulted,
    Notified,
    Published,
    Ready,
    Report,
    Subscribed,
    TraceRefused,
    Unadvertised,
    Unsubscribed,
    Verdict,
    audit,
    format_event,
    parquet,
)
from fairlead.bus import Bus
from fairlead.cli import main
from fairlead.filters.language import parse
from fairlead.model import Notification
from fairlead.model.order import Identity, OrderKey

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from fairlead.filters import Filter
    from fairlead.spark.auditing import Audited

TEXTS = {"s0": "x = 0", "s1": "x >= 1", "all": "exists x"}
FILTERS = {id: parse(text) for id, text in TEXTS.items()}
EVERY = ("simple", "advertisements", "fifo", "causal", "total", "ordered")


def pub(producer: str, id: str, x: int = 0, order: int | None = None, **more: Any) -> Published:
    notification = Notification.of({"producer": producer, "id": id, "x": x, **more})
    return Published(notification, OrderKey.of(notification, order))


def sub(component: str, id: str = "all", **more: Any) -> Subscribed:
    return Subscribed(component, id, FILTERS[id], **more)


@dataclass(frozen=True)
class Names:
    """The names and the filters of one trace among many."""

    run: str = ""

    def __call__(self, component: str) -> str:
        return f"{self.run}:{component}"

    def text(self, id: str) -> str:
        return f'run = "{self.run}" and {TEXTS[id]}'

    def filter(self, id: str) -> Filter:
        return parse(self.text(id))


# -- traces ------------------------------------------------------------------------------------------------


def soup(random: Random, names: Names, size: int = 14) -> list[Event]:
    """Events in any order: wrong in most ways that there are, and now and then right."""

    def component() -> str:
        return names(random.choice("abc"))

    def key() -> OrderKey | None:
        if random.random() < 0.6:
            return None
        return OrderKey(random.randrange(6), names(random.choice("ab")), random.choice([None, 1]))

    pool = []
    for number in range(random.randrange(6)):
        more: dict[str, Any] = {"run": names.run}
        if random.random() < 0.3:
            more["sequence"] = number
        if random.random() < 0.4:
            more["cause"] = f"{component()}/{random.randrange(4)}"
        pool.append(pub(component(), str(number), random.randrange(3), random.randrange(5), **more))
    known = [each.identity for each in pool] or [Identity(names("a"), "0")]

    def step() -> Event:
        id, ready = random.choice(sorted(FILTERS)), random.random() < 0.7
        match random.choice("nnnnsssaaaaruu"):
            case "n":
                return Notified(component(), random.choice(known), (id,))
            case "s":
                return Subscribed(component(), id, names.filter(id), key(), key(), ready)
            case "u":
                over = random.choice((Unsubscribed, Unsubscribed, Unadvertised))
                return over(component(), id, key())
            case "a":
                return Advertised(component(), id, names.filter(id), key(), key(), ready)
            case _:
                return Ready(component(), id, random.random() < 0.3)

    events = [step() for _ in range(random.randrange(size))]
    for each in pool[: random.randrange(len(pool) + 1)]:
        events.insert(random.randrange(len(events) + 1), each)
    return events


def crossing(random: Random, names: Names) -> list[Event]:
    """Publications, and components that are notified about many of them, in their own orders, more or less."""
    pool = []
    for number in range(random.randrange(2, 7)):
        producer = random.choice((*map(names, "abc"), "patterns"))  # composites have a producer of their own
        order, sequence = random.choice(((0, None), (0, number), (number // 2, number)))
        pool.append(pub(producer, names(str(number)), order=order, sequence=sequence))
    told: list[Event] = []
    for component in map(names, "abcd"):
        row = [each for each in pool if random.random() < 0.7]
        if random.random() < 0.5:
            random.shuffle(row)
        told += [Notified(component, each.identity) for each in row]
    random.shuffle(told)
    return [*pool, *told] if random.random() < 0.5 else sorted([*pool, *told], key=lambda _: random.random())


def bus_run(random: Random, names: Names, size: int = 60) -> list[Event]:
    """What a bus records while components subscribe, publish, answer and leave."""
    events: list[Event] = []
    counter = iter(range(10_000))
    with Bus(trace=events.append) as bus:
        mine: list[Any] = []

        def publish(producer: str) -> None:
            content = {"x": random.randrange(3), "run": names.run}
            bus.publish({**content, "producer": producer, "id": str(next(counter))})

        def answer(_: Notification) -> None:
            if random.random() < 0.1:
                publish(names(random.choice("abc")))

        for _ in range(size):
            component, choice = names(random.choice("abc")), random.random()
            if choice < 0.25:
                text = names.text(random.choice(sorted(TEXTS)))
                mine.append(bus.subscribe(text, answer, subscriber=component))
            elif choice < 0.35 and mine:
                mine.pop(random.randrange(len(mine))).close()
            elif choice < 0.4:
                bus.advertise("exists x", producer=component)
            else:
                publish(component)
    return events[:-1]


def mutated(random: Random, events: list[Event]) -> list[Event]:
    """A run with a few things wrong: dropped, repeated, exchanged, altered, forged or late."""
    events = list(events)
    for _ in range(random.randrange(1, 5)):
        place, other = random.randrange(len(events)), random.randrange(len(events))
        told = [each for each in events if isinstance(each, Notified)]
        match random.choice(("drop", "repeat", "swap", "near", "alter", "forge", "late", "filter")):
            case "drop":
                del events[place]
            case "repeat" if isinstance(events[place], Notified | Unsubscribed | Subscribed):
                events.insert(other, events[place])
            case "swap":
                events[place], events[other] = events[other], events[place]
            case "near" if place:
                events[place - 1 : place + 1] = reversed(events[place - 1 : place + 1])
            case "alter" if told:
                victim = random.choice(told)
                events[events.index(victim)] = replace(victim, component=random.choice(told).component)
            case "forge" if told:
                events.insert(other, replace(random.choice(told), identity=Identity("", f"ghost {other}")))
            case "late":
                leaving = [each for each in events if isinstance(each, Unsubscribed)]
                if leaving:
                    events.remove(leaving[0])
                    events.append(leaving[0])
            case "filter":
                publications = [each for each in events if isinstance(each, Published)]
                if publications:
                    old = random.choice(publications)
                    run = old.notification.get("run")
                    new = pub(old.component, old.identity.id, 2, old.key.time, run=run)
                    events[events.index(old)] = new
    return consistent(events)


def consistent(events: Iterable[Event]) -> list[Event]:
    """Without what no run can have: one filter per id while it is active."""
    kept: list[Event] = []
    active: dict[tuple[str, str], Any] = {}
    for event in events:
        if isinstance(event, Subscribed):
            if active.setdefault((event.component, event.id), event.filter) != event.filter:
                continue
        elif isinstance(event, Unsubscribed):
            active.pop((event.component, event.id), None)
        kept.append(event)
    return kept


def together(count: int, make: Callable[[Random, Names], list[Event]], seed: int) -> list[Event]:
    """Many traces in one, each in names of its own."""
    random = Random(f"{seed} {count}")
    events: list[Event] = []
    for number in range(count):
        events += make(random, Names(f"{count}.{number}"))
    return events


def traces(seed: int) -> list[Event]:
    """Of everything some."""
    events = together(200, soup, seed)
    events += together(100, crossing, seed)
    events += together(3, bus_run, seed)
    events += together(30, lambda random, names: mutated(random, bus_run(random, names, 30)), seed)
    return events


# -- the comparison ----------------------------------------------------------------------------------------


def on_spark(
    spark: SparkSession, events: list[Event], *specifications: str, small: int = 0, **options: Any
) -> Audited:
    """By joins and windows, unless the trace is called small."""
    from fairlead.spark.auditing import audit as audit_on_spark
    from fairlead.spark.trace import frame_of

    return audit_on_spark(frame_of(spark, events), *specifications, small=small, **options)


def told(report: Report) -> dict[tuple[str, str], tuple[Verdict, int, list[tuple[Any, ...]]]]:
    """All that a report says; the order of violations is none of it."""
    return {
        (each.specification, each.rule): (
            each.verdict,
            each.open,
            sorted((violation.what, violation.indexes) for violation in each.violations),
        )
        for each in report
    }


@pytest.mark.parametrize("ended", [True, False], ids=["ended", "going on"])
def test_the_audit_on_spark_says_what_the_plain_one_says(spark: SparkSession, ended: bool) -> None:
    events = traces(seed=17 if ended else 18) + ([Ended()] if ended else [])
    expected = audit(events, *EVERY)
    found = on_spark(spark, events, *EVERY, shown=100_000)
    assert told(found.report) == told(expected)
    assert found.events == len(events)
    assert found.counts == {(each.specification, each.rule): len(each.violations) for each in expected}
    for rule, count in found.counts.items():
        assert count or rule[1] == "liveness", f"nothing tests {rule}"
    whole = on_spark(spark, events, *EVERY, small=len(events), shown=100_000)
    assert told(whole.report) == told(found.report)
    assert whole.counts == found.counts


@pytest.mark.parametrize(
    "faults",
    [{}, {0.3: "crash", 0.6: "recovered"}, {0.3: "recovered", 0.6: "crash"}],
    ids=["none", "over", "going on"],
)
def test_so_does_that_of_self_stabilising_systems(spark: SparkSession, faults: dict[float, str]) -> None:
    events = [*traces(seed=19), Ended()]
    for share, change in sorted(faults.items(), reverse=True):
        events.insert(int(share * len(events)), Faulted(change))
    expected = audit(events, "stabilising")
    assert told(on_spark(spark, events, "stabilising", shown=100_000).report) == told(expected)
    counted = sum(len(each.violations) for each in expected)
    assert (counted > 0) == ([*faults.values()][-1:] != ["crash"])


def test_a_correct_run_holds_and_all_takes_the_rules_that_fit(spark: SparkSession) -> None:
    events = bus_run(Random(3), Names())
    assert told(on_spark(spark, [*events, Ended()]).report) == told(audit([*events, Ended()]))
    assert told(on_spark(spark, events, small=1_000).report) == told(audit(events))
    assert audit([*events, Ended()]).verdict is Verdict.HOLDS


def ordered_run() -> list[Event]:
    """What a pipeline writes down: subscriptions, then in the total order each publication and whom it reached."""
    events: list[Event] = [sub("a"), sub("b", "s0"), sub("c", "s1")]
    for number in range(6):
        n = pub("pq"[number % 2], str(number), number % 3, order=number // 2, sequence=number, run="r")
        reached = ["a"] + ["b"] * (number % 3 == 0) + ["c"] * (number % 3 > 0)
        events += [n, *(Notified(each, n.identity, ("s",)) for each in reached)]
    return [*events, Ended()]


def mutants() -> dict[str, list[Event]]:
    """The same run with something wrong: one thing each."""
    run = ordered_run()
    p0, first, p1, second = run[3], run[4], run[6], run[7]
    unknown = Notified("a", Identity("q", "9"), ("s",))
    return {
        "not notified": run[:4] + run[5:],
        "notified without a subscription": [*run[:5], Notified("z", first.identity, ("s",)), *run[5:]],
        "notified twice": [*run[:5], first, *run[5:]],
        "notified about nothing": [*run[:5], unknown, *run[5:]],
        "notified before": [*run[:3], first, p0, *run[5:]],
        "notified out of order": [*run[:4], run[5], p1, second, first, *run[8:]],
        "published out of order": [*run[:3], *run[6:9], *run[3:6], *run[9:]],
    }


def test_a_glance_clears_a_right_run_and_nothing_that_is_wrong(spark: SparkSession, tmp_path: Path) -> None:
    from fairlead.spark.glance import glance
    from fairlead.spark.history import History, Language
    from fairlead.spark.subscriptions import Subscriptions
    from fairlead.spark.trace import frame_of

    asked = [("all", "a"), ("s0", "b"), ("s1", "c")]
    rows = [{"id": id, "subscriber": who, "filter": TEXTS[id]} for id, who in asked]
    compiled = Subscriptions.read(rows, tmp_path)
    others = Subscriptions.read(rows[1:], tmp_path)

    def seen(events: list[Event], own: Subscriptions | None = compiled) -> tuple[bool, bool]:
        history = History(frame_of(spark, events), Language())
        try:
            found = glance(history, own, orders=True)
            return found.is_ordered, found.has_suspects
        finally:
            history.forget()

    assert audit(ordered_run(), "simple", *ORDERS).verdict is Verdict.HOLDS
    assert seen(ordered_run()) == (True, False)
    assert seen(ordered_run(), others) == (True, True)  # they are not the trace's
    assert seen([Unsubscribed("a", "all"), *ordered_run()]) == (True, True)
    for name, events in mutants().items():
        is_ordered, has_suspects = seen(events)
        report = audit(events, "simple", *ORDERS)
        wrong = {specification for specification, _ in report.violated()}
        assert wrong, name
        assert has_suspects or "simple" not in wrong, name
        assert not (is_ordered and wrong & set(ORDERS)), name
    events = mutants()["notified twice"]
    found = on_spark(spark, events, "simple", *ORDERS, compiled=compiled)
    assert told(found.report) == told(audit(events, "simple", *ORDERS))


ORDERS = ("fifo", "causal", "total", "ordered")


def test_a_trace_in_memory_is_clear_only_where_the_audit_finds_nothing(tmp_path: Path) -> None:
    from fairlead.spark.clear import is_clear
    from fairlead.spark.subscriptions import Subscriptions

    asked = [("all", "a"), ("s0", "b"), ("s1", "c")]
    rows = [{"id": id, "subscriber": who, "filter": TEXTS[id]} for id, who in asked]
    compiled = Subscriptions.read(rows, tmp_path)

    def clear(events: list[Event], own: Subscriptions = compiled) -> bool:
        return is_clear(parquet.table_of(events), ("simple", *ORDERS), own)

    run = ordered_run()
    assert clear(run)
    assert clear(run[:-1])  # what has not ended may be clear as well
    assert not clear(run, Subscriptions.read(rows[1:], tmp_path))
    assert not clear([Unsubscribed("a", "all"), *run])
    assert not clear([*run[:5], run[3], *run[5:]])  # published twice
    # A subscription that holds for a while is due for as long as it says, and the trace must say the same.
    for_a_while = Subscriptions.read([{**rows[0], "until": 1}, *rows[1:]], tmp_path)
    beginning = [replace(run[0], until=OrderKey(1, "", None, "")), *run[1:]]
    early = [each for each in beginning if not (isinstance(each, Notified) and each.component == "a")]
    due = [
        Notified("a", each.identity, ("s",))
        for each in run
        if isinstance(each, Published) and not each.key.time
    ]
    for each in due:
        early.insert(
            next(at for at, e in enumerate(early) if getattr(e, "identity", 0) == each.identity) + 1, each
        )
    assert audit(early, "simple", *ORDERS).verdict is Verdict.HOLDS
    assert clear(early, for_a_while)
    assert not clear(early)
    assert not clear(beginning, for_a_while)
    # Who asked for a pattern is notified about what its filter matches, and about nothing else.
    of_pattern = replace(sub("d", "s0"), ready=False)
    about = [each for each in run if isinstance(each, Published)]
    for number, found in ((0, True), (1, False)):
        more = Notified("d", about[number].identity, ("p",))
        at = run.index(about[number]) + 1
        assert clear([of_pattern, *run[:at], more, *run[at:]]) is found
    # Where nothing matches, nobody is notified.
    matchless = [sub("b", "s0"), pub("p", "0", 1, order=0), Ended()]
    assert clear(matchless, Subscriptions.read(rows[1:2], tmp_path))
    astray = [*matchless[:2], Notified("b", Identity("p", "0"), ("s",)), Ended()]
    assert not clear(astray, Subscriptions.read(rows[1:2], tmp_path))
    for name, events in mutants().items():
        assert not clear(events), name
    for seed in range(300):
        events = mutated(Random(seed), run)
        if clear(events):
            assert audit(events, "simple", *ORDERS).verdict is Verdict.HOLDS, seed


def test_nothing_is_wrong_with_nothing(spark: SparkSession) -> None:
    found = on_spark(spark, [])
    assert found.report.verdict is Verdict.HOLDS
    assert [(each.specification, each.rule) for each in found.report] == [
        (each.specification, each.rule) for each in audit([])
    ]


@pytest.mark.parametrize("small", [0, 100], ids=["in parts", "whole"])
def test_the_report_has_the_first_violations_and_the_table_has_all(spark: SparkSession, small: int) -> None:
    n = pub("p", "1")
    events = [sub("a"), n, *[Notified("a", n.identity)] * 9, Ended()]
    found = on_spark(spark, events, "simple", shown=3, small=small)
    once = found.report.violated()["simple", "once"]
    assert [violation.indexes for violation in once.violations] == [(2, 3), (2, 4), (2, 5)]
    assert found.counts["simple", "once"] == 8
    rows = found.violations.orderBy("indexes").collect()
    assert [row.asDict() for row in rows] == [
        {
            "specification": "simple",
            "rule": "once",
            "what": "a was notified about p/1 again",
            "indexes": [2, place],
        }
        for place in range(3, 11)
    ]


def test_an_unknown_specification_is_refused(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="no such specification: perfect"):
        on_spark(spark, [], "perfect")


# -- refusals ----------------------------------------------------------------------------------------------


def test_a_repeated_identity_is_judged_by_its_first_publication(spark: SparkSession) -> None:
    told = Notified("a", Identity("p", "1"), ("s0",))
    for again in ([], [told]):
        events = [sub("a"), pub("p", "1"), told, pub("p", "1", 3), pub("p", "2"), *again, Ended()]
        here, there = audit(events, "simple"), on_spark(spark, events, "simple").report
        assert [(each.rule, each.verdict) for each in there] == [(each.rule, each.verdict) for each in here]


IMPOSSIBLE: dict[str, list[Event]] = {
    "another filter": [sub("a", "s0"), Subscribed("a", "s0", FILTERS["s1"]), pub("", "1"), pub("", "1")],
    "behind its end": [Ended(), pub("p", "1"), pub("p", "1")],
}


@pytest.mark.parametrize("events", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_trace_that_no_run_can_have_is_refused_in_the_same_words(
    spark: SparkSession, events: list[Event]
) -> None:
    with pytest.raises(TraceRefused) as plain:
        audit(events, "fifo")
    for small in (0, len(events)):
        with pytest.raises(TraceRefused) as refused:
            on_spark(spark, events, "fifo", small=small)
        assert str(refused.value) == str(plain.value)


def altered(spark: SparkSession, events: list[Event], place: int, **columns: Any) -> Any:
    from pyspark.sql import functions as F

    from fairlead.spark.trace import frame_of

    here = F.col("index") == place
    return frame_of(spark, events).withColumns(
        {name: F.when(here, F.lit(value)).otherwise(F.col(name)) for name, value in columns.items()}
    )


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"event": "gossip"}, "event 1: not an event, or not all of one: 'gossip'"),
        ({"component": None}, "event 1: not an event, or not all of one: 'sub'"),
        ({"v": 4}, "event 1: not of version 1 or 2 or 3"),
        ({"filter": "x >"}, "event 1: .*expected"),
    ],
    ids=["unknown", "incomplete", "version", "filter"],
)
def test_a_row_that_is_no_event_is_told(spark: SparkSession, columns: dict[str, Any], complaint: str) -> None:
    from fairlead.spark.auditing import audit as audit_on_spark

    events: list[Event] = [sub("a"), sub("b"), pub("p", "1")]
    with pytest.raises(TraceRefused, match=complaint):
        audit_on_spark(altered(spark, events, 1, **columns), "simple", small=0)


def test_two_texts_of_one_filter_are_one_filter(spark: SparkSession) -> None:
    from fairlead.spark.auditing import audit as audit_on_spark

    events: list[Event] = [sub("a", "s0"), sub("a", "s0"), pub("p", "1")]
    found = audit_on_spark(altered(spark, events, 1, filter="x=0"), "simple", small=0)
    assert found.report.open == 1


# -- the command line --------------------------------------------------------------------------------------


def test_the_command_line_says_the_same_from_spark(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = [*mutated(Random(13), bus_run(Random(13), Names(), 30)), Ended()]
    lines, table = tmp_path / "trace.jsonl", tmp_path / "trace.parquet"
    lines.write_text("".join(f"{format_event(event)}\n" for event in events))
    parquet.write(events, str(table))
    here = reported(capsys, "audit", str(lines))
    assert reported(capsys, "audit", str(table)) == here
    assert reported(capsys, "audit", str(table), "--on", "spark") == here
    assert main(["audit", str(lines), "--on", "spark", "--spec", "fifo"]) == 1
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("fifo: order                  violated, ")
    assert " had published first (lines " in shown[1]
    assert shown[-1] == f"{len(events)} events: violated"


def reported(capsys: pytest.CaptureFixture[str], *command: str) -> Any:
    """The exit code and the report of a command; lines or rows, it is the same."""
    code = main([*command, "--json"])
    report = json.loads(capsys.readouterr().out.replace('"rows":', '"lines":'))
    for finding in report["findings"]:
        finding["violations"].sort(key=str)
    return code, report
