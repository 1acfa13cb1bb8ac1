"""The report as one HTML page, its sections in the order of a reader's questions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Final

from fairlead.markup import Child, Markup, joined, shortened, tag
from fairlead.spark.report.charts import (
    SHARES,
    Bar,
    Branch,
    Moment,
    Node,
    columns,
    flow,
    rows,
    share,
    steps,
    timeline,
)
from fairlead.spark.report.data import Judged, Matched, Proof, ReportData
from fairlead.spark.report.examples import CompositeExample, Constituent
from fairlead.spark.report.numbers import compact, duration, figure, instant, many, percent, rate
from fairlead.spark.summary import Batch

__all__ = ["content", "render", "style", "summary", "write"]

BATCHES_OPEN: Final = 20
"""A table of more batches than these is folded."""
BATCHES_MAX: Final = 1_000
"""Of more batches than these the table shows the first and the last: a page is not a log."""
LINE: Final = Markup("\n")

# What a rule says, in the words of a subscriber.
MEANING: Final = {
    "subscribed": "Nobody got what it had not subscribed to.",
    "published": "Nothing was delivered that was not published before.",
    "once": "Nothing was delivered twice to the same subscriber.",
    "advertised": "Nothing was delivered that its producer had not advertised.",
    "liveness": "Everything that matched was delivered.",
    "fifo order": "Each producer's notifications came in the order in which it sent them.",
    "causal order": "No effect came before its cause.",
    "agreement": "No two subscribers saw the same two in different orders.",
    "one order": "There is one order that nobody contradicts.",
    "key": "Nobody's deliveries went back in the total order.",
    "sequence": "Nobody's deliveries went back in a producer's sequence numbers.",
}


def write(report: ReportData, path: str | Path) -> Path:
    """Write the page as UTF-8; returns its path."""
    place = Path(path)
    place.write_text(render(report), encoding="utf-8", newline="\n")
    return place


def render(report: ReportData) -> str:
    """The page. Equal reports give equal pages, byte for byte."""
    page = tag(
        "html",
        tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            tag("title", f"{report.facts.title} · Fairlead"),
            tag("style", Markup(_file("frame.css") + style())),
        ),
        tag(
            "body",
            tag(
                "header",
                tag("p", "Fairlead run report", class_="over"),
                tag("h1", report.facts.title),
                summary(report),
            ),
            tag("main", content(report)),
            _footer(report),
        ),
        lang="en",
    )
    return f"<!DOCTYPE html>\n{page}\n"


def style() -> str:
    """The style of what the page consists of, without that of the page itself: the console has its own."""
    return _file("style.css") + SHARES


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def content(report: ReportData) -> Markup:
    """The sections; of a run that goes on, those that its batches tell of."""
    whole = (_patterns, _matches, _never, _subscribers) if report.is_whole else ()
    sections = (_pipeline, _speed, *whole, _watermark, _rejected, _late, _audit, _batches)
    return joined(*(joined(LINE, section(report)) for section in sections))


# -- what it comes down to ---------------------------------------------------------------------------------


def summary(report: ReportData) -> Markup:
    """The result of a run: a sentence, figures and facts."""
    facts = report.facts
    return joined(
        tag("p", _sentence(report), class_="lead"),
        _figures(report),
        tag(
            "dl",
            *_facts(
                ("Started", facts.started),
                ("Duration", f"{duration(facts.seconds)} in batches"),
                ("Mode", facts.mode),
                ("Outcome", facts.outcome),
                ("Figures", facts.figures),
                ("Machine", facts.machine),
                ("Versions", " · ".join(f"{name} {version}" for name, version in facts.versions.items())),
            ),
            *_facts(
                ("Input" if len(facts.inputs) == 1 else "Inputs", _listed(facts.inputs)),
                ("Subscriptions", facts.subscriptions),
                ("Patterns", facts.patterns),
                ("Output", facts.output),
                class_="path",
            ),
            class_="facts",
        ),
    )


def _sentence(report: ReportData) -> Markup:
    read, deliveries = report.total("read"), report.total("deliveries")
    if not read:
        return joined("No rows came in, so nothing was delivered." if report.is_whole else "No rows yet.")
    became = (
        joined(
            " became ",
            tag("b", many(deliveries, "delivery", "deliveries")),
            *((" to ", tag("b", many(report.reached, "subscriber"))) if report.reached else ()),
        )
        if deliveries
        else joined(" came in; nothing matched")
    )
    checked = {
        "holds": " The audit reports no violation.",
        "open": " The audit reports no violation; some deliveries may still arrive.",
        "violated": " The audit reports violations.",
        None: "",
    }[report.verdict]
    return joined(tag("b", many(read, "row")), became, f" in {duration(report.facts.seconds)}.", checked)


def _figures(report: ReportData) -> Markup:
    read, seconds = report.total("read"), report.facts.seconds
    aside = report.total("rejected"), report.total("late")
    shown = [
        ("rows read", compact(read), f"{rate(read, seconds)}", ""),
        (
            "deliveries",
            compact(report.total("deliveries")),
            f"{rate(report.total('deliveries'), seconds)}",
            "",
        ),
        (
            "matched",
            compact(report.subscribed - report.never.count) if _knows_receivers(report) else "–",
            f"of {report.subscribed:,} subscriptions"
            if report.subscribed
            else "none known"
            if report.is_whole
            else "at the end of the run",
            "",
        ),
        ("rejected", compact(aside[0]), _of_rows(aside[0], read), "bad" if aside[0] else ""),
        ("late", compact(aside[1]), _of_rows(aside[1], read), "warn" if aside[1] else ""),
        (
            "audit",
            report.verdict or ("not run" if report.is_whole else "–"),
            many(len(report.findings), "rule")
            if report.findings
            else "no rules checked"
            if report.is_whole
            else "at the end of the run",
            TONES.get(report.verdict or "", ""),
        ),
    ]
    return tag(
        "ul",
        *(
            tag(
                "li",
                tag("span", name, class_="what"),
                tag("strong", value, class_=tone or None),
                tag("span", about, class_="about"),
            )
            for name, value, about, tone in shown
        ),
        class_="figures",
    )


def _knows_receivers(report: ReportData) -> bool:
    return report.is_whole and report.read_back


def _of_rows(part: int, read: int) -> str:
    return f"{percent(part, read)} of rows" if read else "no rows"


TONES: Final = {"holds": "good", "open": "warn", "violated": "bad"}


def _facts(*pairs: tuple[str, str | Sequence[str]], class_: str | None = None) -> list[Markup]:
    return [
        tag("div", tag("dt", name), *(tag("dd", each) for each in values), class_=class_)
        for name, given in pairs
        if (values := [given] if isinstance(given, str) else given) and any(values)
    ]


def _listed(inputs: Sequence[str]) -> Sequence[str]:
    return inputs if len(inputs) <= 5 else [*inputs[:4], f"… and {len(inputs) - 4:,} more"]


# -- the sections ------------------------------------------------------------------------------------------


def _section(title: str, note: Child, *content: Child) -> Markup:
    return tag("section", tag("h2", title), tag("p", note, class_="note") if note else None, *content)


def _pipeline(report: ReportData) -> Markup:
    read, rejected, deliveries = (report.total(name) for name in ("read", "rejected", "deliveries"))
    conflicts = report.total("conflicts")
    conflicting = (Branch(conflicts, "in conflict", "warn"),) if conflicts else ()
    verdict = report.verdict

    def took(stage: str) -> str:
        return duration(report.stages[stage]) if stage in report.stages else ""

    nodes = (
        Node(
            "ingest",
            many(len(report.facts.inputs), "input"),
            took("ingest"),
            figure(read),
            "rows",
            (Branch(rejected, "rejected", "bad"),),
        ),
        Node(
            "order",
            "one total order",
            took("order"),
            figure(read - rejected),
            "notifications",
            (
                Branch(report.total("duplicates"), "duplicates", "mild"),
                *conflicting,
                Branch(report.total("late"), "late", "warn"),
                Branch(report.held, "still held", "mild"),
            ),
        ),
        *_detecting(report, took("detect")),
        Node(
            "match",
            f"{compact(report.subscribed)} subscriptions" if report.subscribed else "subscriptions",
            took("match"),
            figure(report.total("released") + report.total("composites")),
            "in order",
        ),
        Node(
            "deliver",
            many(report.reached, "subscriber")
            if _knows_receivers(report)
            else "to another sink"
            if not report.read_back
            else "to subscribers",
            took("deliver"),
            figure(deliveries),
            "deliveries",
        ),
        Node(
            "audit",
            verdict or ("not run" if report.is_whole else "at the end"),
            took("audit"),
            figure(deliveries),
            "deliveries",
            tone=TONES.get(verdict or "", "idle"),
        ),
    )
    return _section(
        "The pipeline", None, flow(nodes, "The stages of the run, with the rows that went between them")
    )


def _detecting(report: ReportData, took: str) -> Sequence[Node]:
    """The stage that finds patterns, where there are any."""
    if report.patterns_total is None:
        return ()
    released, composites = report.total("released"), report.total("composites")
    branch = Branch(composites, "composites join", "join")
    return (
        Node("detect", many(report.patterns_total, "pattern"), took, figure(released), "in order", (branch,)),
    )


def _speed(report: ReportData) -> Markup:
    batches = [batch for batch in report.batches if batch.read or batch.deliveries]
    if len(batches) < 2 or not any(batch.seconds > 0 for batch in batches):
        return _stages(report)
    widths = [batch.seconds for batch in batches]
    return _section(
        "Throughput",
        "Each step is one batch, or some neighbours where there are many: as wide as it took, as high as it was "
        "fast. The first one warms up.",
        *(
            steps(widths, [getattr(batch, name) for batch in batches], tone=tone, unit=unit, label=unit)
            for name, tone, unit in (
                ("read", "one", "rows read per second"),
                ("deliveries", "two", "deliveries per second"),
            )
        ),
        tag("h3", "Where the time went") if report.stages else None,
        _stage_bars(report) if report.stages else None,
    )


def _stages(report: ReportData) -> Markup:
    if not report.stages:
        return _section("Throughput", None, _empty("Nothing was measured: no batch has run."))
    return _section(
        "Where the time went",
        "One batch has no course over time, so these are its stages.",
        _stage_bars(report),
    )


def _stage_bars(report: ReportData) -> Markup:
    whole = sum(report.stages.values())
    return rows(
        [
            Bar(stage, seconds, f"{duration(seconds)} · {_part(seconds, whole)}")
            for stage, seconds in report.stages.items()
        ],
        "Seconds per stage",
    )


def _part(seconds: float, whole: float) -> str:
    return f"{100 * seconds / whole:.0f} %" if whole > 0 else "—"


# -- patterns ----------------------------------------------------------------------------------------------

STEPS: Final = ("one", "two", "good", "warn", "bad")
"""The colours of steps, in turn."""
CONSTITUENTS_MAX: Final = 24
"""Of more constituents than these the first and the last are drawn and listed."""


def _patterns(report: ReportData) -> Markup:
    title = "Patterns"
    if report.patterns_total is None:
        return Markup()
    if not report.patterns_total:
        return _section(title, None, _empty("There are no patterns."))
    composites, shown = report.total("composites"), len(report.patterns)
    texts = {each.id: each.filter or "" for each in report.patterns}
    top = max(each.count for each in report.patterns)
    return _section(
        title,
        joined(
            tag("b", many(composites, "composite event")),
            f" of {many(report.patterns_total, 'pattern')}: what several notifications mean together.",
            f" Here are the {shown} with most composites." if shown < report.patterns_total else "",
        ),
        _table(
            ("Composites|num|", "Pattern|", "Subscriber|", "What it looks for|wide"),
            (
                (
                    _bar(each.count, top, "two"),
                    tag("td", shortened(each.id, 60)),
                    tag("td", shortened(each.subscriber, 60)),
                    tag("td", tag("code", each.filter), class_="wide"),
                )
                for each in report.patterns
            ),
            class_="stacked",
        ),
        *(_composite(each, texts.get(each.pattern, "")) for each in report.examples),
    )


def _composite(example: CompositeExample, text: str) -> Markup:
    """One composite: its constituents on a line, then each with what it says."""
    constituents = example.constituents
    if len(constituents) > CONSTITUENTS_MAX:
        constituents = (*constituents[: CONSTITUENTS_MAX // 2], *constituents[-CONSTITUENTS_MAX // 2 :])
    tones = {
        step: STEPS[at % len(STEPS)]
        for at, step in enumerate(dict.fromkeys(each.step for each in constituents))
    }
    moments = [
        Moment((each.time - example.start) / 1e6, each.step, tones[each.step]) for each in constituents
    ]
    seconds = (example.end - example.start) / 1e6
    if example.waited:
        moments.append(Moment(seconds, "time is over", "idle", hollow=True))
    whole = len(example.constituents)
    return joined(
        tag("h3", f"One {example.type}: {many(whole, 'event')} in {duration(seconds)}"),
        tag("p", tag("code", text), class_="note") if text else None,
        tag(
            "figure",
            tag(
                "div",
                timeline(
                    moments,
                    seconds,
                    (instant(example.start), instant(example.end)),
                    f"The constituents of a composite event of {example.pattern}, over {duration(seconds)}",
                ),
                class_="scroll",
            ),
            tag("p", f"{whole - len(constituents):,} in the middle are left out.", class_="note")
            if len(constituents) < whole
            else None,
            tag(
                "ol", *(_constituent(each, tones[each.step]) for each in constituents), class_="constituents"
            ),
            class_="composite",
        ),
    )


def _constituent(each: Constituent, tone: str) -> Markup:
    return tag(
        "li",
        tag("span", instant(each.time)[-8:], class_="time"),
        tag("span", tag("i", class_=f"key {tone}"), each.step, class_="step"),
        tag("span", joined(tag("b", each.type), " ", each.about), class_="what"),
        tag("span", each.name, class_="quiet"),
    )


# -- subscriptions -----------------------------------------------------------------------------------------


def _matches(report: ReportData) -> Markup:
    if not report.read_back:
        return _section(
            "Matches per subscription",
            None,
            _empty(
                "Deliveries went to a sink that is not read back, so the report does not know the deliveries "
                "of each subscriber."
            ),
        )
    if not report.subscribed:
        return _section("Matches per subscription", None, _empty("There were no subscriptions."))
    bars = [
        Bar(_span(low, high), count, f"{count:,}", "idle" if high == 0 else "one")
        for low, high, count in report.histogram
    ]
    return _section(
        "Matches per subscription",
        f"How many of the {many(report.subscribed, 'subscription')} were matched how often.",
        columns(bars, "Subscriptions by number of matches"),
        *(
            (
                tag("h3", "Most matched"),
                _subscriptions(report.subscriptions),
            )
            if report.subscriptions
            else (_empty("Nothing matched any of them."),)
        ),
    )


def _span(low: int, high: int | None) -> str:
    if high == 0:
        return "never"
    if high is None:
        return f"≥ {compact(low)}"
    if low == high:
        return compact(low)
    return f"{low}–{high}" if high < 1000 else f"{compact(low)}–{compact(high + 1)}"


def _subscriptions(matched: Sequence[Matched], *, counted: bool = True) -> Markup:
    top = max((each.count for each in matched), default=0)
    return _table(
        ("Matches|num|", "Subscription|", "Subscriber|", "Filter|wide")
        if counted
        else ("Subscription|", "Subscriber|", "Filter|wide"),
        (
            (
                *((_bar(each.count, top),) if counted else ()),
                tag("td", shortened(each.id, 60)),
                tag("td", shortened(each.subscriber, 60)),
                tag("td", _filter(each), class_="wide"),
            )
            for each in matched
        ),
        class_="stacked",
    )


def _filter(matched: Matched) -> Markup:
    if matched.filter is None:
        return tag("span", "ended while the run went on", class_="quiet")
    return tag("code", matched.filter)


def _never(report: ReportData) -> Markup:
    title = "Never matched"
    if not report.subscribed:
        return Markup()
    if not report.never.count:
        return _section(title, None, _empty("Every subscription was matched at least once.", "good"))
    shown = report.never.first
    table = _subscriptions(shown, counted=False)
    return _section(
        title,
        joined(
            tag("b", many(report.never.count, "subscription")),
            f" ({percent(report.never.count, report.subscribed)}) matched nothing in this run: no such event "
            "happened, or their filters say something else than was meant.",
        )
        if shown
        else f"{many(report.never.count, 'subscription')} matched nothing in this run.",
        tag(
            "details",
            tag("summary", f"The first {len(shown):,}" if len(shown) < report.never.count else "All of them"),
            table,
            open=len(shown) <= 5,
        )
        if shown
        else None,
    )


def _subscribers(report: ReportData) -> Markup:
    if not report.read_back:
        return Markup()
    if not report.subscribers:
        return _section("Deliveries per subscriber", None, _empty("Nobody was sent anything."))
    deliveries = report.total("deliveries")
    shown = sum(each.count for each in report.subscribers)
    top = len(report.subscribers)
    return _section(
        "Deliveries per subscriber",
        f"The {top} of {many(report.reached, 'subscriber')} that got most: {percent(shown, deliveries)} of it all."
        if top < report.reached
        else None,
        rows(
            [
                Bar(shortened(each.subscriber, 60), each.count, f"{each.count:,}", "two")
                for each in report.subscribers
            ],
            "Deliveries per subscriber",
        ),
    )


def _rejected(report: ReportData) -> Markup:
    rejected, title = report.total("rejected"), "Rejected rows"
    if not rejected and not report.reasons:
        return _section(
            title,
            None,
            _empty("Every row could be read.", "good")
            if report.total("read")
            else _empty("No rows came in."),
        )
    top = max((reason.count for reason in report.reasons), default=0)
    others = rejected - sum(reason.count for reason in report.reasons)
    return _section(
        title,
        joined(
            tag("b", many(rejected, "row")),
            f", {percent(rejected, report.total('read'))} of those that came in, could not be read. They are "
            "stored, whole, beside the output; here is the first of each sort.",
        ),
        _table(
            ("Rows|num", "Reason|", "The first one|wide"),
            (
                (
                    _bar(reason.count, top, "bad"),
                    tag("td", reason.reason),
                    tag(
                        "td",
                        tag("code", reason.example) if reason.example else None,
                        tag("span", reason.origin, class_="origin") if reason.origin else None,
                        tag(
                            "details",
                            tag("summary", f"{len(reason.samples):,} more"),
                            *(
                                joined(tag("code", raw), tag("span", origin, class_="origin"))
                                for raw, origin in reason.samples
                            ),
                            class_="more",
                        )
                        if reason.samples
                        else None,
                        class_="wide",
                    ),
                )
                for reason in report.reasons
            ),
            class_="stacked",
        )
        if report.reasons
        else None,
        tag("p", f"{many(others, 'row')} for further reasons.", class_="note")
        if others > 0 and report.reasons
        else None,
    )


def _watermark(report: ReportData) -> Markup:
    known = report.watermark
    if known is None or (known.at is None and not report.held and not report.total("late")):
        return Markup()  # all came in one batch, and was released at its end
    ahead = max(known.newest.values(), default=None)
    lag = None if ahead is None or known.at is None else max(ahead - known.at, 0)
    held = [batch.held for batch in report.batches]

    def ahead_by(newest: int) -> str:
        return "—" if known.at is None else duration(max(newest - known.at, 0) / 1e6)

    return _section(
        "Watermark",
        "Up to the watermark everything is released in order. Rows with a later time are held, rows with an "
        "earlier one are late.",
        tag(
            "dl",
            *_facts(
                ("Watermark (UTC)", instant(known.at)),
                ("Behind the newest event", "—" if lag is None else duration(lag / 1e6)),
                ("Lateness allowed", duration(known.lateness_us / 1e6)),
                ("Held", many(report.held, "row")),
                ("Late", many(report.total("late"), "row")),
                ("Latest came behind by", duration(known.late_by_us / 1e6) if known.late_by_us else "—"),
            ),
            class_="facts",
        ),
        _table(
            ("Input|", "Newest event (UTC)|", "Ahead of the watermark|num"),
            (
                (
                    tag("td", name),
                    tag("td", instant(newest), class_="time"),
                    tag(
                        "td",
                        "—" if known.at is None else duration(max(newest - known.at, 0) / 1e6),
                        class_="num",
                    ),
                )
                for name, newest in known.newest.items()
            ),
        )
        if len(known.newest) > 1
        else None,
        steps(
            [1.0] * len(held),
            held,
            tone="two",
            unit="rows held after each batch",
            label="Rows held after each batch",
            ends=(f"batch {report.batches[0].number}", f"batch {report.batches[-1].number}"),
        )
        if len(held) > 1 and any(held)
        else None,
    )


def _late(report: ReportData) -> Markup:
    late, title = report.total("late"), "Late rows"
    if not late:
        return _section(
            title,
            None,
            _empty("Nothing came later than allowed.", "good")
            if report.total("read")
            else _empty("No rows came in."),
        )
    note = joined(
        tag("b", many(late, "row")),
        f", {percent(late, report.total('read'))} of all, came when the watermark had passed. They are on the "
        "late channel, and were not delivered.",
    )
    bars = [Bar(_delay(low, high), count, f"{count:,}", "warn") for low, high, count in report.lateness]
    return _section(title, note, columns(bars, "Late rows by how late they were") if bars else None)


def _delay(low: int, high: int | None) -> str:
    if high is None:
        return f"≥ {duration(low / 1e6)}"
    above = duration((high + 1) / 1e6)
    return f"{duration(low / 1e6)} – {above}" if low > 0 else f"< {above}"


def _audit(report: ReportData) -> Markup:
    if not report.findings:
        said = "No audit was made of this run." if report.is_whole else "The audit is made when a run ends."
        return _section("Audit", None, _empty(said))
    return _section(
        "Audit",
        "Checked against the recorded trace, after the run: what was published, subscribed and delivered.",
        _table(
            ("Specification|", "Rule|", "What it says|wide", "Verdict|", "Violations|num", "Open|num"),
            (
                (
                    tag("td", each.specification),
                    tag("td", each.rule),
                    tag("td", _meaning(each), class_="wide quiet"),
                    tag("td", tag("span", each.verdict, class_=f"badge {TONES.get(each.verdict, 'idle')}")),
                    _number(each.violations),
                    _number(each.open),
                )
                for each in report.findings
            ),
            class_="stacked",
        ),
        *(_violations(each) for each in report.findings if each.first),
    )


def _meaning(judged: Judged) -> str | None:
    return MEANING.get(judged.rule) or MEANING.get(f"{judged.specification} {judged.rule}")


def _violations(judged: Judged) -> Markup:
    others = judged.violations - len(judged.first)
    return joined(
        tag("h3", f"{judged.specification}: {judged.rule}"),
        tag(
            "ol",
            *(
                tag("li", each, _proof(judged.proofs[at]) if at < len(judged.proofs) else None)
                for at, each in enumerate(judged.first)
            ),
            class_="violations",
        ),
        tag("p", f"… and {others:,} more.", class_="note") if others > 0 else None,
    )


def _proof(rows: Sequence[Proof]) -> Markup | None:
    """The rows of the trace that prove a violation."""
    if not rows:
        return None
    return _table(
        ("Row of the trace|num", "Event|", "Whose|", "What it says|wide"),
        (
            (
                tag("td", row.index, class_="num"),
                tag("td", row.event),
                tag("td", shortened(row.who, 60)),
                tag("td", tag("code", row.row), class_="wide"),
            )
            for row in rows
        ),
    )


def _batches(report: ReportData) -> Markup:
    if not report.batches:
        return _section("Batches", None, _empty("No batch has been committed."))
    shown: Sequence[Batch | None] = report.batches
    if len(report.batches) > BATCHES_MAX:
        half = BATCHES_MAX // 2
        shown = [*islice(report.batches, half), None, *report.batches[-half:]]
    table = _table(
        (
            "Batch|num",
            "Read|num",
            "Rejected|num",
            "Duplicates|num",
            "Late|num",
            "Released|num",
            "Held|num",
            *(() if report.patterns_total is None else ("Composites|num",)),
            "Deliveries|num",
            "Watermark (UTC)|",
            "Took|num",
        ),
        (_batch(batch, detecting=report.patterns_total is not None) for batch in shown),
    )
    if len(report.batches) > BATCHES_OPEN:
        table = tag("details", tag("summary", f"All {len(report.batches):,} batches"), table)
    return _section("Batches", None, table)


def _batch(batch: Batch | None, *, detecting: bool) -> tuple[Markup, ...]:
    if batch is None:
        return (tag("td", "…", colspan=10 + detecting, class_="quiet"),)
    return (
        tag("td", f"{batch.number}", class_="num quiet"),
        *(
            _number(count)
            for count in (
                batch.read,
                batch.rejected,
                batch.duplicates,
                batch.late,
                batch.released,
                batch.held,
                *((batch.composites,) if detecting else ()),
                batch.deliveries,
            )
        ),
        tag("td", instant(batch.watermark), class_="time"),
        tag("td", duration(batch.seconds), class_="num"),
    )


def _footer(report: ReportData) -> Markup:
    return tag(
        "footer",
        f"Fairlead {report.facts.versions.get('fairlead', '')}".strip(),
        " · this file needs nothing else",
    )


# -- pieces ------------------------------------------------------------------------------------------------


def _table(heads: Sequence[str], lines: Iterable[Sequence[Markup]], class_: str | None = None) -> Markup:
    """A table; a head is its title and, behind a bar, its class."""
    titles = [head.split("|") for head in heads]
    return tag(
        "div",
        tag(
            "table",
            tag(
                "thead",
                tag(
                    "tr", *(tag("th", title, scope="col", class_=kind or None) for title, kind, *_ in titles)
                ),
            ),
            tag("tbody", *(joined(LINE, tag("tr", *line)) for line in lines)),
            class_=class_,
        ),
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label=", ".join(title for title, *_ in titles),
    )


def _number(count: int) -> Markup:
    """Zeros step back, so that one sees where there is something."""
    return tag("td", count, class_="num" if count else "num zero")


def _bar(count: int, top: int, tone: str = "one") -> Markup:
    drawn = tag("i", tag("b", class_=tone), class_=share(count, top))
    return tag("td", tag("span", count), drawn, class_="num bar")


def _empty(said: str, tone: str = "") -> Markup:
    return tag("p", said, class_=f"empty {tone}".strip())
