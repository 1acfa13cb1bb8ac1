"""`fairlead filter …`: the algebra of filters at the prompt."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.inputs import (
    add_language_options,
    filter_lines,
    language,
    opened,
    read_filter,
)
from fairlead.cli.terminal import complain, emit_json, note, paint, say, speaks_unicode
from fairlead.errors import BadInput, FairleadError, FilterSyntaxError

if TYPE_CHECKING:
    from fairlead.filters import Schema

__all__ = ["configure"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's own commands."""
    parser.description = "The algebra of filters at the prompt."
    parser.epilog = "Example: fairlead filter relate 'price > 10' 'price in [20, 30]'"
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    check = _verb(
        verbs, "check", "whether a filter can be read", "fairlead filter check 'price > 10'", run_check
    )
    check.add_argument("filter", metavar="F", nargs="?", help="the filter; - reads one per line")
    check.add_argument("--file", metavar="FILE", help="check every line of a file")

    relate = _verb(
        verbs,
        "relate",
        "how two filters relate: identical, covers, covered, overlaps or disjoint",
        "fairlead filter relate 'price > 10' 'price in [20, 30]'",
        run_relate,
    )
    relate.add_argument("--from", **_FROM)
    relate.add_argument("filter", metavar="F", action=_Worded)
    relate.add_argument("other", metavar="G", action=_Worded)

    merge = _verb(
        verbs,
        "merge",
        "one filter that covers several, and lets in nothing more unless you allow it",
        "fairlead filter merge 'x in [2, 4]' 'x in [3, 5]'",
        run_merge,
    )
    merge.add_argument("filters", metavar="F", nargs="+")
    merge.add_argument(
        "--imperfection-max",
        metavar="SHARE",
        type=_share,
        default=0.0,
        help="how much of what the merger lets in may be too much, from 0 to 1 (default: 0, nothing)",
    )

    explain = _verb(
        verbs,
        "explain",
        "why a filter matches each event of a file, or which constraint fails",
        "fairlead filter explain 'price > 10' --event events.jsonl",
        run_explain,
    )
    explain.add_argument("filter", metavar="F")
    explain.add_argument(
        "--event", metavar="FILE", required=True, help="JSON lines, one event each; - is standard input"
    )
    explain.add_argument("--lift", action="store_true", help="lift the payload of CloudEvents to the top")

    simplify = _verb(
        verbs,
        "simplify",
        "a filter in its shortest known form, with the same meaning",
        "fairlead filter simplify 'x >= 3 and x <= 5'",
        run_simplify,
    )
    simplify.add_argument("filter", metavar="F")

    translate = _verb(
        verbs,
        "translate",
        "a filter of another language in ours, or in a third one; exit code 2 where it cannot be said",
        "fairlead filter translate --from mqtt 'sport/+/player1'",
        run_translate,
    )
    translate.add_argument("--from", **_FROM)
    translate.add_argument(
        "--to", metavar="NAME", default="fairlead", help="the dialect that it is written in"
    )
    translate.add_argument(
        "filter", metavar="TEXT", action=_Worded, help="the filter; - reads standard input"
    )


_FROM: Final[dict[str, Any]] = {
    "metavar": "NAME",
    "dest": "dialect",
    "default": "",
    "help": "the dialect of the filters that follow, such as cesql (default: fairlead)",
}


class _Worded(argparse.Action):
    """A filter with the dialect that was named last before it."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, (values, namespace.dialect))


def _verb(
    verbs: Any, name: str, help: str, example: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(
        name,
        help=help,
        description=f"{help[0].upper()}{help[1:]}.",
        epilog=f"Example: {example}",
    )
    add_language_options(parser)
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    parser.set_defaults(run=run)
    return parser


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"a number from 0 to 1, not {text!r}")
    return share


# -- check -------------------------------------------------------------------------------------------------


def run_check(arguments: argparse.Namespace) -> int:
    if (arguments.filter is None) == (arguments.file is None):
        raise BadInput("give one filter, or --file FILE", hint="fairlead filter check 'price > 10'")
    schema = language(arguments)
    path = arguments.file or ("-" if arguments.filter == "-" else None)
    if path is None:
        return 0 if _check(arguments.filter, schema, arguments.json, {}, "") else 2
    source = "standard input" if path == "-" else path
    outcomes = [
        _check(text, schema, arguments.json, {"line": number}, f"{source}:{number}")
        for number, text in filter_lines(path)
    ]
    if not arguments.json:
        note(f"{len(outcomes)} filters, {outcomes.count(False)} of them bad")
    return 0 if all(outcomes) else 2


def _check(text: str, schema: Schema | None, as_json: bool, place: dict[str, int], where: str) -> bool:
    """Check one filter, and print the result."""
    from fairlead.filters.explain import never_matches

    try:
        filter = read_filter(text, schema, where)
    except BadInput as error:
        if as_json:
            cause = error.__cause__
            spot = (
                {"column": cause.column, "expected": list(cause.expected)}
                if isinstance(cause, FilterSyntaxError)
                else {}
            )
            emit_json({**place, "valid": False, **spot, "message": str(cause)})
        else:
            complain(str(error))
        return False
    remark = never_matches(filter, schema)
    if as_json:
        emit_json({**place, "valid": True, "filter": str(filter), "satisfiable": remark is None})
    else:
        say(str(filter))
        if remark is not None:
            note(f"{where}: {remark}" if where else remark)
    return True


# -- relate, merge, simplify -------------------------------------------------------------------------------


def run_relate(arguments: argparse.Namespace) -> int:
    from fairlead.filters import relate

    schema = language(arguments)
    (filter, dialect), (other, another) = arguments.filter, arguments.other
    relation = relate(
        read_filter(filter, schema, "the first filter", dialect),
        read_filter(other, schema, "the second filter", another),
        schema,
    )
    if arguments.json:
        emit_json({"relation": relation.name, "exact": relation.exact})
    else:
        say(relation.name)
    return 0


def run_merge(arguments: argparse.Namespace) -> int:
    from fairlead.filters import merge

    schema = language(arguments)
    given = [
        read_filter(text, schema, f"filter {number}")
        for number, text in enumerate(arguments.filters, start=1)
    ]
    merger = merge(given, schema, imperfection_max=arguments.imperfection_max)
    if merger is None:
        if arguments.json:
            emit_json({"filter": None, "perfect": False})
        complain(
            "there is no such merger\n"
            "  hint: --imperfection-max 0.5 allows one that lets in more than the filters do"
        )
        return 1
    if arguments.json:
        emit_json(
            {"filter": str(merger.filter), "perfect": merger.perfect, "imperfection": merger.imperfection}
        )
        return 0
    say(str(merger.filter))
    if not merger.perfect:
        note(f"imperfect: about {merger.imperfection:.0%} of what it lets in is too much")
    return 0


def run_simplify(arguments: argparse.Namespace) -> int:
    from fairlead.filters import simplify

    schema = language(arguments)
    simple = str(simplify(read_filter(arguments.filter, schema), schema))
    if arguments.json:
        emit_json({"filter": simple})
    else:
        say(simple)
    return 0


def run_translate(arguments: argparse.Namespace) -> int:
    from fairlead import dialects

    schema = language(arguments)
    text, dialect = arguments.filter
    if text == "-":
        with opened(text) as stream:
            text = stream.read().decode("utf-8")
    filter = read_filter(text, schema, "", dialect or dialects.OWN)
    try:
        written = dialects.write(arguments.to, filter)
    except FairleadError as error:
        raise BadInput(str(error)) from error
    if arguments.json:
        emit_json({"filter": str(filter), "text": written})
    else:
        say(written)
    return 0


# -- explain -----------------------------------------------------------------------------------------------


def run_explain(arguments: argparse.Namespace) -> int:
    from fairlead.filters.explain import explain
    from fairlead.ingest import Rejection
    from fairlead.ingest.jsonlines import read

    schema = language(arguments)
    filter = read_filter(arguments.filter, schema)
    source = "standard input" if arguments.event == "-" else arguments.event
    rejected = False
    with opened(arguments.event) as stream:
        for number, event in read(stream, source, schema, arguments.lift):
            if isinstance(event, Rejection):
                rejected = True
                complain(f"{source}:{number}: rejected: {event.reason}")
                continue
            explanation = explain(filter, event)
            if arguments.json:
                emit_json(
                    {
                        "line": number,
                        "matches": explanation.holds,
                        "verdict": explanation.verdict,
                        "explanation": explanation.to_json(),
                    }
                )
                continue
            say(f"line {number} {paint(explanation.verdict, 'green' if explanation.holds else 'red')}")
            for line in explanation.lines(ascii=not speaks_unicode(sys.stdout), depth=1):
                say(line)
    return 3 if rejected else 0
