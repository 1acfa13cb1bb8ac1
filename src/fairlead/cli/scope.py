"""`fairlead scope …`: scope graphs at the prompt."""

from __future__ import annotations

import argparse
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from fairlead.cli.connecting import add_connection_options, connected, now, seconds, surveyed
from fairlead.cli.inputs import add_language_options, language, opened
from fairlead.cli.terminal import emit_json, note, paint, say, speaks_unicode
from fairlead.errors import BadInput, BrokerRefused, FairleadError

if TYPE_CHECKING:
    from fairlead.model import Notification
    from fairlead.scopes import Scopes

__all__ = ["configure"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's own commands."""
    parser.description = "Scope graphs: which component sees which notifications."
    parser.epilog = "Example: fairlead scope visible market.scopes ME pc3"
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    check = _verb(
        verbs,
        "check",
        "whether a scope graph can be resolved, and what is suspicious in it",
        run_check,
    )
    check.add_argument("--strict", action="store_true", help="exit with 1 where there is a warning")

    show = _verb(
        verbs, "show", "a scope graph as a tree, a picture or text of the scope graph language", run_show
    )
    form = show.add_mutually_exclusive_group()
    form.add_argument("--dot", action="store_true", help="for Graphviz")
    form.add_argument("--svg", action="store_true", help="as a picture")
    form.add_argument("--text", action="store_true", help="in the canonical spelling of the language")

    visible = _verb(
        verbs, "visible", "whether what one component publishes is visible to another", run_visible
    )
    _ends(visible)
    visible.add_argument(
        "--event", metavar="E", help="one event as JSON, or a file with one: interfaces decide"
    )

    explain = _verb(
        verbs,
        "explain",
        "what each edge does with an event that a component publishes for another",
        run_explain,
    )
    _ends(explain)
    explain.add_argument("--event", metavar="E", required=True, help="one event as JSON, or a file with one")

    apply = _verb(verbs, "apply", "apply the statements of a file to the scope graph of a network", run_apply)
    add_connection_options(apply)
    apply.add_argument(
        "--wait",
        metavar="D",
        type=seconds,
        default=30.0,
        help="how long to wait for every broker to take it, as 10s; 0s: not at all (default: 30s)",
    )

    diff = verbs.add_parser(
        "diff",
        help="what is different in two scope graphs",
        description="What is different in two scope graphs.",
        epilog="Example: fairlead scope diff today.scopes tomorrow.scopes",
    )
    diff.add_argument("one", metavar="A")
    diff.add_argument("other", metavar="B")
    _common(diff, run_diff)


def _verb(
    verbs: Any, name: str, help: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    example = {"visible": " ME pc3", "explain": ' ME pc4 --event \'{"type": "Quote"}\''}.get(name, "")
    parser: argparse.ArgumentParser = verbs.add_parser(
        name,
        help=help,
        description=f"{help[0].upper()}{help[1:]}.",
        epilog=f"Example: fairlead scope {name} market.scopes{example}",
    )
    parser.add_argument("file", metavar="FILE", help="the scope graph: text, or .toml or .json of the same")
    _common(parser, run)
    return parser


def _common(parser: argparse.ArgumentParser, run: Callable[[argparse.Namespace], int]) -> None:
    add_language_options(parser)
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    parser.set_defaults(run=run)


def _ends(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FROM", help="the component that publishes")
    parser.add_argument("target", metavar="TO", help="the component that is to see it")


def _scopes(arguments: argparse.Namespace, path: str | None = None) -> Scopes:
    from fairlead.scopes import Scopes

    where = path or arguments.file
    schema = language(arguments)
    try:
        return Scopes.read(where, schema)
    except FairleadError as error:
        raise BadInput(f"{where}: {error}") from error


def _event(text: str, producer: str) -> Notification:
    """The event of an option: JSON, or a file with one; its producer is the component that publishes."""
    from fairlead.model import Notification
    from fairlead.model.encoding import fields_from_json, parse_json

    if not text.lstrip().startswith("{"):
        with opened(text) as stream:
            text = stream.read().decode("utf-8-sig")
    given = parse_json(text)
    if not isinstance(given, dict):
        raise BadInput("an event is a JSON object", hint='--event \'{"type": "Quote"}\'')
    given = {"id": "1", **given, "producer": producer}
    return Notification.of(fields_from_json(given))


def _named(scopes: Scopes, *names: str) -> None:
    for name in names:
        if name not in scopes.graph:
            note(f"{name} is not in the graph: it belongs to the scope default")


# -- check, show -----------------------------------------------------------------------------------------------


def run_check(arguments: argparse.Namespace) -> int:
    scopes = _scopes(arguments)
    findings = scopes.check()
    errors = [finding for finding in findings if finding.level == "error"]
    counts = (len(list(scopes.graph.scopes)) - 1, len(list(scopes.graph.components)))
    if arguments.json:
        emit_json(
            {
                "scopes": counts[0],
                "components": counts[1],
                "findings": [finding.to_json() for finding in findings],
            }
        )
    else:
        for finding in findings:
            say(str(finding))
        say(f"{_counted(counts[0], 'scope')}, {_counted(counts[1], 'component')}")
    if errors:
        return 2
    return 1 if findings and arguments.strict else 0


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def run_show(arguments: argparse.Namespace) -> int:
    from fairlead.scopes import drawing

    scopes = _scopes(arguments)
    if arguments.json:
        emit_json(scopes.to_document())
    elif arguments.dot:
        say(drawing.dot(scopes.graph).rstrip("\n"))
    elif arguments.svg:
        say(drawing.svg(scopes.graph).rstrip("\n"))
    elif arguments.text:
        say(str(scopes).rstrip("\n"))
    else:
        say(drawing.text(scopes.graph, plain=not speaks_unicode(sys.stdout)).rstrip("\n"))
    return 0


# -- visible, explain ------------------------------------------------------------------------------------------


def run_visible(arguments: argparse.Namespace) -> int:
    scopes, source, target = _scopes(arguments), arguments.source, arguments.target
    paths = scopes.paths(source, target)
    if arguments.event is None:
        answer = scopes.visible(source, target)
        arriving = [(path, True) for path in paths]
    else:
        explained = scopes.explain(_event(arguments.event, source), target)
        answer = explained.seen
        arriving = [(route.path, route.arrives) for route in explained.routes]
    if arguments.json:
        rows = [{"path": list(path), "passes": passes} for path, passes in arriving]
        emit_json({"from": source, "to": target, "visible": answer, "paths": rows})
    else:
        _named(scopes, source, target)
        say("yes" if answer else "no")
    return 0 if answer else 1


def run_explain(arguments: argparse.Namespace) -> int:
    scopes = _scopes(arguments)
    explained = scopes.explain(_event(arguments.event, arguments.source), arguments.target)
    if arguments.json:
        emit_json(explained.to_json())
        return 0 if explained.seen else 1
    _named(scopes, arguments.source, arguments.target)
    first, *rest = explained.lines()
    say(paint(first, "green" if explained.seen else "red"))
    for line in rest:
        say(line)
    return 0 if explained.seen else 1


# -- diff ------------------------------------------------------------------------------------------------------


def run_apply(arguments: argparse.Namespace) -> int:
    from fairlead.network.scoping import ANSWERS, taken_by
    from fairlead.rules.integrated import CHANGE, CHANGES
    from fairlead.scopes import print_statements
    from fairlead.scopes.documents import read_statements
    from fairlead.security.rights import ADMINISTRATOR

    statements = read_statements(arguments.file, language(arguments))
    text = print_statements(statements)
    with connected(arguments, f"{ADMINISTRATOR}{uuid.uuid4().hex[:8]}", clock=now) as client:
        answers = client.subscribe(ANSWERS) if arguments.wait else None
        published = client.publish({"producer": CHANGES, "type": CHANGE, "text": text})
        brokers = set() if answers is None else _brokers_with_logs(arguments) | {client.broker}
        until = monotonic() + arguments.wait

        def next_answer() -> Notification:
            assert answers is not None
            return answers.get(timeout=max(0.0, until - monotonic()))

        taken, missing = taken_by(next_answer, published.id or "", brokers)
    void = {name: reason for name, reason in taken.items() if reason}
    if arguments.json:
        emit_json(
            {
                "id": published.id,
                "statements": len(statements),
                "brokers": {name: {"void": taken[name]} for name in sorted(taken)},
                "missing": sorted(missing),
            }
        )
    elif void:
        say(f"the change {published.id} is void: {next(iter(void.values()))}")
    elif answers is None:
        say(f"{len(statements)} statements are sent to every broker, as the change {published.id}")
    else:
        say(f"{len(statements)} statements, as the change {published.id}: {len(taken)} brokers have taken it")
    if missing and not arguments.json:
        note(f"not yet: {', '.join(sorted(missing))}; a broker takes it when it can be reached again")
    return 1 if missing or void else 0


def _brokers_with_logs(arguments: argparse.Namespace) -> set[str]:
    """The brokers of the network that follow changes of the scope graph, as far as one knows from here."""
    try:
        seen = surveyed(arguments)
    except BrokerRefused as error:  # those who change a part of the graph need not see the network
        note(f"only the broker itself is waited for: {str(error).partition(chr(10))[0]}")
        return set()
    return {
        name
        for name, each in seen.brokers.items()
        if each.status is None or each.status.get("log") is not None
    }


def run_diff(arguments: argparse.Namespace) -> int:
    from fairlead.scopes.comparing import differences

    one, other = _scopes(arguments, arguments.one), _scopes(arguments, arguments.other)
    found = differences(one.graph, other.graph)
    if arguments.json:
        emit_json({"different": bool(found), "changes": [each.to_json() for each in found]})
        return 1 if found else 0
    for each in found:
        say(paint(str(each), "green" if each.sign == "+" else "red" if each.sign == "-" else "yellow"))
    if not found:
        note(f"{Path(arguments.one).name} and {Path(arguments.other).name} are the same graph")
    return 1 if found else 0
