"""The report: one file, well formed, in which nothing from outside is anything but text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F

from fairlead.audit import Finding, Report, Violation
from fairlead.model import Instant, Notification
from fairlead.spark.report import (
    CompositeExample,
    Constituent,
    Facts,
    Judged,
    Matched,
    Never,
    Reason,
    Received,
    ReportData,
    gather,
    render,
    write,
)
from fairlead.spark.report.charts import Moment, _lanes, steps, timeline
from fairlead.spark.report.gather import DELAYS, MATCHES, _magnitude
from fairlead.spark.report.numbers import compact, duration, instant, percent, round_up
from fairlead.spark.showcase import Busiest, busiest
from fairlead.spark.summary import Batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from fairlead.spark.running import Pipeline

FACTS = Facts(
    title="A day on the market",
    started="2024-05-06 18:00:00 UTC",
    machine="2 cores",
    mode="stream",
    inputs=("/market/events",),
    subscriptions="/market/subscriptions.jsonl",
    output="/market/out",
    seconds=12.5,
    versions={"fairlead": "0.1.0", "Spark": "4.3.0"},
)
NOON = 1_714_996_800_000_000


def batch(number: int, **given: object) -> Batch:
    plain = Batch(number, 1_000, 2, 1, 3, 990, 4, 2_500, NOON + number * 60_000_000, 1.5)
    return replace(plain, **given)  # type: ignore[arg-type]


SMALL = ReportData(
    facts=FACTS,
    batches=(batch(0, seconds=4.0), batch(1), batch(2, late=0, held=0)),
    stages={"ingest": 2.0, "order": 1.0, "match": 3.0, "deliver": 1.5, "audit": 2.5},
    reasons=(
        Reason("not JSON: expecting value, line … column …", 6, '{"id":', "/market/events/03.jsonl, line 12"),
    ),
    subscriptions=(
        Matched("s-2", "ada", 'symbol = "GRIN" and price > 4', 5_000),
        Matched("s-1", "bruno", "type is News", 40),
    ),
    never=Never(1, (Matched("s-3", "chen", "type is Auction", 0),)),
    histogram=((0, 0, 1), (1, 1, 0), (2, 4, 0), (5, 9, 0), (10, 19, 0), (20, 49, 1), (50, None, 1)),
    subscribers=(Received("ada", 7_460), Received("bruno", 40)),
    lateness=((1_000_000, 1_999_999, 4), (2_000_000, None, 2)),
    findings=(
        Judged("simple", "once", "holds"),
        Judged("simple", "liveness", "open", open=2),
        Judged("causal", "order", "violated", 7, 0, ("ada was notified about t before its cause o",)),
    ),
    reached=2,
)
COMPOSITE = Notification.of(
    {
        "quote": [
            {"type": "StockQuote", "symbol": "GRIN", "price": 4.9, "id": "q1", "time": Instant(NOON)},
            {"type": "StockQuote", "symbol": "GRIN", "price": 4.8, "legs": [{"symbol": "ELTE"}]},
        ],
        "order": {"type": "Order", "symbol": "GRIN"},
        "type": "slide",
        "interval": {"start": Instant(NOON), "end": Instant(NOON + 600_000_000)},
        "constituents": [
            {"step": "quote", "producer": "XETR", "id": "q1", "time": Instant(NOON)},
            {"step": "quote", "producer": "XETR", "id": "q2", "time": Instant(NOON + 30_000_000)},
            {"step": "order", "producer": "", "id": "o1", "time": Instant(NOON + 600_000_000)},
        ],
    }
)
FOUND = CompositeExample(
    "p-1",
    "slide",
    NOON,
    NOON + 600_000_000,
    (
        Constituent("quote", "XETR/q1", NOON, "StockQuote", "symbol GRIN, price 4.9"),
        Constituent("quote", "XETR/q2", NOON + 30_000_000, "StockQuote", "symbol GRIN, price 4.8"),
        Constituent("order", "o1", NOON + 600_000_000, "Order", "symbol GRIN"),
    ),
)
DETECTING = replace(
    SMALL,
    facts=replace(FACTS, patterns="/market/patterns.jsonl"),
    batches=tuple(replace(each, composites=3) for each in SMALL.batches),
    subscriptions=(*SMALL.subscriptions, Matched("s-0", "dora", None, 7)),
    patterns=(Matched("p-1", "desk", "slide: 2 or more StockQuote as quote followed by Order as order", 9),),
    patterns_total=1,
    examples=(FOUND, replace(FOUND, type="silent", constituents=FOUND.constituents[:1])),
)
EMPTY = ReportData(replace(FACTS, inputs=(), versions={}, seconds=0.0))
VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """A page as a browser reads it; an element that is closed in the wrong place, or never, is an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._open: list[str] = []
        self.tags = Counter[str]()
        self.attributes: list[tuple[str, str | None]] = []
        self.said: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += attrs
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self.said.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.said))


def test_a_composite_is_shown_by_what_it_is_made_of() -> None:
    assert CompositeExample.of(COMPOSITE, "p-1") == FOUND
    assert not FOUND.waited
    assert DETECTING.examples[1].waited


def test_what_patterns_found_is_counted_and_drawn_on_a_time_line() -> None:
    page = Page(render(DETECTING))
    assert "9 composite events of 1 pattern" in page.text
    assert page.tags["circle"] == 3 + 2, "the constituents of one, and of the other with where time was over"
    for said in ("One slide: 3 events in 10 min", "time is over", "XETR/q2", "ended while the run went on"):
        assert said in page.text
    assert "Composites" not in Page(render(SMALL)).text


def test_labels_on_a_time_line_never_meet() -> None:
    moments = [Moment(at, "a long label", "one") for at in (0, 1, 2, 3, 59, 60)]
    places = [30 + 940 * moment.at / 60 for moment in moments]
    lanes = _lanes(places, [moment.label for moment in moments])
    assert lanes[:4] == [0, 1, 2, 3]
    assert lanes[4] != lanes[5]
    assert timeline(moments, 60, ("from", "to"), "all") == timeline(moments, 60, ("from", "to"), "all")


def test_the_page_is_the_golden_one(golden: Callable[[str, str], None]) -> None:
    golden("report.html", render(SMALL))


def test_equal_reports_give_equal_pages(tmp_path: Path) -> None:
    again = replace(SMALL, batches=list(SMALL.batches), findings=list(SMALL.findings))
    assert render(again) == render(SMALL)
    assert write(SMALL, tmp_path / "report.html").read_text(encoding="utf-8") == render(SMALL)


@pytest.mark.parametrize("report", [SMALL, EMPTY], ids=["small", "empty"])
def test_the_page_is_well_formed_and_needs_nothing_else(report: ReportData) -> None:
    page = Page(render(report))
    assert not {"script", "link", "img", "iframe", "object", "base"} & set(page.tags)
    assert not {"src", "href", "srcset", "onload", "onclick"} & {name for name, _ in page.attributes}
    style = render(report).split("<style>")[1].split("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style
    assert "prefers-color-scheme:dark" in style


def test_the_page_says_what_happened() -> None:
    page = Page(render(SMALL)).text
    for said in (
        "A day on the market",
        "3,000 rows became 7,500 deliveries to 2 subscribers in 12 s.",
        "The audit reports violations.",
        "ada was notified about t before its cause o",
        "… and 6 more.",
        "type is Auction",
        "/market/events/03.jsonl, line 12",
        "2024-05-06 12:01:00",
    ):
        assert said in page.replace(" .", ".").replace("  ", " ")


# -- escaping ----------------------------------------------------------------------------------------------

NASTY = (
    "</td></style><script>alert(1)</script><img src=x onerror='alert(2)'> \" & &amp; \x00\x1b\u202e\ud800\n"
)


def filled(text: str) -> ReportData:
    """A report that has the text wherever there can be any."""
    matched = Matched(text, text, text, 3)
    return ReportData(
        Facts(text, text, text, text, (text, text), text, text, 1.0, {text: text}, text),
        (batch(0), batch(1)),
        {text: 1.0},
        (Reason(text, 4, text, text),),
        (matched,),
        Never(1, (replace(matched, count=0),)),
        ((0, 0, 1), (1, None, 1)),
        (Received(text, 3),),
        ((0, None, 6),),
        (Judged(text, text, text, 1, 1, (text,)), Judged(text, text, "violated", 1, 0, (text,))),
        1,
    )


@given(st.text(min_size=1) | st.just(NASTY))
def test_what_comes_from_outside_is_only_ever_text(text: str) -> None:
    plain, page = Page(render(filled("plain"))), Page(render(filled(text)))
    names = [name for name, _ in page.attributes]
    assert page.tags == plain.tags
    assert names == [name for name, _ in plain.attributes]


def test_what_cannot_be_seen_is_shown_and_can_be_written(tmp_path: Path) -> None:
    page = write(filled(NASTY), tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "<img" not in page
    assert "\\u{0}\\u{1b}\\u{202e}\\u{d800}\\u{a}" in page
    assert not re.search("[\x00\x1b\u202e]", page)


def test_long_texts_are_cut() -> None:
    assert "x" * 500 not in render(filled("x" * 10_000))


# -- empty states ------------------------------------------------------------------------------------------


def test_an_empty_run_says_so_everywhere() -> None:
    page = Page(render(EMPTY)).text
    for said in (
        "No rows came in, so nothing was delivered.",
        "no batch has run",
        "There were no subscriptions.",
        "Nobody was sent anything.",
        "No audit was made of this run.",
        "No batch has been committed.",
    ):
        assert said in page


def test_of_a_sink_that_is_not_read_back_nothing_is_said_that_is_not_known() -> None:
    page = render(
        replace(
            SMALL,
            subscriptions=(),
            histogram=(),
            never=Never(),
            subscribers=(),
            reached=0,
            patterns=(),
            examples=(),
            read_back=False,
        )
    )
    assert "does not know the deliveries" in page
    for untrue in (
        "Nobody was sent anything",
        "There were no subscriptions",
        "Never matched",
        "0 subscribers",
    ):
        assert untrue not in page


def test_a_clean_run_says_that_it_was_clean() -> None:
    clean = replace(
        SMALL,
        batches=(batch(0, rejected=0, late=0), batch(1, rejected=0, late=0)),
        reasons=(),
        lateness=(),
        never=Never(),
        findings=(Judged("fifo", "order", "holds"),),
    )
    page = Page(render(clean)).text
    for said in (
        "Every row could be read.",
        "Nothing came later than allowed.",
        "Every subscription was matched at least once.",
        "The audit reports no violation.",
        "Each producer's notifications came in the order in which it sent them.",
    ):
        assert said in page


def test_one_batch_shows_its_stages_instead_of_a_line() -> None:
    one = Page(render(replace(SMALL, batches=(batch(0),))))
    assert "One batch has no course over time" in one.text
    assert one.tags["figure"] == 0
    assert Page(render(SMALL)).tags["figure"] == 2


def test_batches_without_measured_time_draw_no_line() -> None:
    timeless = replace(SMALL, batches=tuple(batch(number, seconds=0.0) for number in range(3)))
    assert Page(render(timeless)).tags["figure"] == 0


def test_a_table_of_many_batches_is_folded_and_of_very_many_cut() -> None:
    def rows(count: int) -> tuple[int, bool]:
        table = render(replace(EMPTY, batches=tuple(batch(number) for number in range(count))))
        last = table.split("<h2>Batches</h2>")[1]
        return last.count("<tr>") - 1, "<details>" in last

    assert rows(20) == (20, False)
    assert rows(21) == (21, True)
    assert rows(5_000) == (1_001, True)


def test_the_ends_of_time_have_no_date() -> None:
    assert instant(None) == "—"
    assert instant(-(2**63)) == "—"
    assert instant(2**63 - 1) == "end"
    assert instant(NOON) == "2024-05-06 12:00:00"


# -- pictures and numbers ----------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.floats(0, 1e4), st.integers(0, 10**12)), min_size=1, max_size=900))
def test_steps_over_time_stay_within_the_picture(taken: list[tuple[float, int]]) -> None:
    widths, amounts = [width for width, _ in taken], [amount for _, amount in taken]
    picture = str(steps(widths, amounts, tone="one", unit="rows", label="rows"))
    Page(picture)
    [outline] = re.findall(r'<path d="([^"]*)" class="edge', picture)
    points = [tuple(map(float, point.split())) for point in re.split("[ML]", outline)[1:]]
    assert len(points) <= 2 * 240
    assert points[0][0] == 0
    assert points[-1][0] == 1000
    assert all(0 <= y <= 100 for _, y in points)
    assert [x for x, _ in points] == sorted(x for x, _ in points)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (compact(0), "0"),
        (compact(999), "999"),
        (compact(1_000), "1k"),
        (compact(1_249), "1.2k"),
        (compact(34_400), "34k"),
        (compact(999_600), "1M"),
        (compact(0.25), "0.2"),
        (percent(0, 0), "—"),
        (percent(1, 1_000_000), "< 0.01 %"),
        (percent(999_999, 1_000_000), "99 %"),
        (percent(5, 5), "100 %"),
        (duration(0), "0 ms"),
        (duration(0.25), "250 ms"),
        (duration(4.25), "4.2 s"),
        (duration(59.96), "1 min"),
        (duration(200), "3 min 20 s"),
        (duration(7_500), "2 h 5 min"),
        (duration(90_000), "1 d 1 h"),
    ],
)
def test_numbers_are_written_as_people_read_them(shown: str, expected: str) -> None:
    assert shown == expected


@given(st.floats(1e-6, 1e15))
def test_an_axis_ends_at_or_just_above_what_it_shows(value: float) -> None:
    assert value * (1 - 1e-5) <= round_up(value) <= value * 2


def test_findings_of_an_audit_are_cut_to_a_page() -> None:
    violations = tuple(Violation(f"violation {number}", (number,)) for number in range(100))
    finding = Finding("simple", "once", violations)
    [jsonable] = Report((finding,)).jsonable()["findings"]
    judged = Judged.of(finding)
    assert judged == Judged.of(jsonable)
    assert Judged.of(finding, violations=9_000).violations == 9_000
    assert (judged.verdict, judged.violations, len(judged.first)) == ("violated", 100, 5)


# -- from a run's tables -----------------------------------------------------------------------------------


def test_a_run_is_gathered_as_counting_by_hand_does(spark: SparkSession) -> None:
    subscribed = [(f"s{number:02}", f"p{number % 7}", f"x > {number}", None, None) for number in range(60)]
    subscribed += [("s00", "p0", "x > 0", NOON, None), ("alone", None, "y = 1", None, None)]
    sent = [
        (f"p{person}", NOON + event, "exchange", event, f"e{event}", ids)
        for event in range(120)
        for person in range(7)
        if (ids := [f"s{n:02}" for n in range(person, 50, 7) if event % (n + 1) == 0])
    ]
    sent += [("p1", NOON, "patterns", None, "c1", ["pattern", "s01", "was"])]
    pairs = Counter(id for *_, ids in sent for id in ids if id != "pattern")
    people = Counter(person for person, *_ in sent)
    rejected = [
        ("input", "b.jsonl", 7, "not JSON: line 1 column 9", b"{\xff"),
        ("input", "a.jsonl", 12, "not JSON: line 1 column 17", b'{"a":'),
        ("input", None, None, "'q\"' is no time", b"x" * 5_000),
        ("input", "a.jsonl", 3, "", b""),
    ]
    batches = (batch(0, watermark=NOON), batch(1, watermark=NOON + 10_000_000), batch(2))
    late = [(1, NOON - 1), (1, NOON - 500_000), (2, NOON - 90_000_000), (2, NOON + 9_999_999)]

    found = gather(
        FACTS,
        batches,
        deliveries=spark.createDataFrame(
            sent,
            "subscriber string, time long, producer string, sequence long, id string, subscriptions array<string>",
        ),
        subscriptions=spark.createDataFrame(
            subscribed, "id string, subscriber string, filter string, `from` long, until long"
        ),
        patterns=spark.createDataFrame(
            [("pattern", "p1", "A followed by B"), ("quiet", "p1", "A followed by C")],
            "id string, subscriber string, filter string",
        ),
        rejected=spark.createDataFrame(
            rejected, "source string, file string, line long, reason string, raw binary"
        ),
        late=spark.createDataFrame(late, "batch int, event_time long"),
        findings=(Finding("fifo", "order"),),
        stages={"match": 1.0},
    )

    best = sorted(pairs.items(), key=lambda each: (-each[1], each[0]))[:20]
    assert [(each.id, each.count) for each in found.subscriptions] == best
    assert found.subscriptions[0] == Matched("s00", "p0", "x > 0", 120)
    assert found.patterns == (
        Matched("pattern", "p1", "A followed by B", 1),
        Matched("quiet", "p1", "A followed by C", 0),
    )
    assert (found.patterns_total, found.examples) == (2, ()), (
        "without their content composites cannot be shown"
    )
    assert found.never.count == 61 - len(pairs) + 1, "one that matched has ended: it is counted, too"
    assert [each.id for each in found.never.first] == sorted({id for id, *_ in subscribed} - set(pairs))[:20]
    assert found.never.first[0] == Matched("alone", "alone", "y = 1", 0)
    assert found.subscribed == 62
    for low, high, count in found.histogram:
        inside = [
            id
            for id in {"was", *(id for id, *_ in subscribed)}
            if low <= pairs[id] and (high is None or pairs[id] <= high)
        ]
        assert len(inside) == count
    assert found.reached == len(people)
    assert [(each.subscriber, each.count) for each in found.subscribers] == sorted(
        people.items(), key=lambda each: (-each[1], each[0])
    )
    assert found.reasons == (
        Reason("not JSON: line … column …", 2, '{"a":', "a.jsonl, line 12"),
        Reason("'q\"' is no time", 1, "x" * 500, "input"),
    )
    assert [count for *_, count in found.lateness] == [3, 0, 0, 0, 0, 0, 1]
    assert found.findings == (Judged("fifo", "order", "holds"),)
    Page(render(found))


def test_an_empty_run_is_gathered(spark: SparkSession) -> None:
    found = gather(
        FACTS,
        (),
        deliveries=spark.createDataFrame([], "subscriber string, subscriptions array<string>"),
        subscriptions=spark.createDataFrame([], "id string, subscriber string, filter string"),
    )
    assert found == ReportData(FACTS, stages={})


def test_counts_lie_in_the_intervals_that_their_digits_say(spark: SparkSession) -> None:
    counts = sorted({each + by for each in MATCHES for by in (-1, 0, 1) if each + by >= 0})
    found = spark.createDataFrame([(each,) for each in counts], "n long").select("n", _magnitude(F.col("n")))
    for count, interval in found.collect():
        assert MATCHES[interval] <= count
        assert interval + 1 == len(MATCHES) or count < MATCHES[interval + 1]


@pytest.mark.parametrize("starts", [MATCHES, DELAYS])
def test_intervals_begin_one_behind_the_other(starts: tuple[int, ...]) -> None:
    assert list(starts) == sorted(set(starts))
    assert starts[0] == 0


def test_the_busiest_subscribers_are_those_that_got_most(spark: SparkSession) -> None:
    names = ["bob", "ada", "eve", "ada", "bob", "ada"]
    deliveries = spark.createDataFrame(pa.table({"subscriber": names}))
    pipeline = SimpleNamespace(spark=spark, output=SimpleNamespace(read=lambda _: deliveries))
    assert busiest(cast("Pipeline", pipeline), 2) == Busiest((("ada", 3), ("bob", 2)), 3)
